//! Where a node listens, and what it tells others about that.

use super::*;

pub(super) const ROWS: &[OptionRow] = &[
    text("listen_address", "localhost", "Address for other nodes"),
    text("listen_interface", "", "Interface for other nodes, in place of listen_address").idle(),
    flag("listen_interface_prefer_ipv6", "false", "Its IPv6 address").idle(),
    text("broadcast_address", "", "Address announced to other nodes; default: listen_address"),
    flag("listen_on_broadcast_address", "false", "Listen there as well").idle(),
    text("rpc_address", "127.0.0.1", "Address for CQL clients"),
    text("rpc_interface", "", "Interface to serve CQL on, in place of rpc_address").idle(),
    flag("rpc_interface_prefer_ipv6", "false", "Its IPv6 address").idle(),
    text("broadcast_rpc_address", "", "Address announced to clients; default: rpc_address"),
    port("storage_port", "7000", "Port for other nodes, announced in system.local"),
    port("ssl_storage_port", "7001", "Port for other nodes, encrypted").idle(),
    port("native_transport_port", "9042", "CQL port; 0: any free port, empty: disabled"),
    port("native_transport_port_ssl", "", "CQL port with TLS, in addition to the plain one"),
    port(
        "native_shard_aware_transport_port",
        "19042",
        "CQL port where the client's source port selects the shard; empty: disabled",
    ),
    port("native_shard_aware_transport_port_ssl", "", "Shard-aware CQL port with TLS"),
    port(
        "native_transport_port_proxy_protocol",
        "",
        "CQL port for proxies that send the PROXY protocol, version 2",
    ),
    port("native_transport_port_ssl_proxy_protocol", "", "CQL port for such proxies, with TLS"),
    port(
        "native_shard_aware_transport_port_proxy_protocol",
        "",
        "Shard-aware CQL port for such proxies",
    ),
    port(
        "native_shard_aware_transport_port_ssl_proxy_protocol",
        "",
        "Shard-aware CQL port for such proxies, with TLS",
    ),
    flag("start_native_transport", "true", "Serve CQL"),
    flag("enable_shard_aware_drivers", "true", "Announce shards to drivers"),
    number("native_transport_max_frame_size_in_mb", "256", "Maximum size of a request, in MiB"),
    flag("rpc_keepalive", "true", "TCP keepalive on client connections"),
    flag("start_rpc", "false", "Serve Thrift; it is no more").idle(),
    flag("enable_ipv6_dns_lookup", "false", "Look names up for IPv6 addresses too").idle(),
    text("api_address", "localhost", "Address of the REST API"),
    port("api_port", "10000", "Port of the REST API; 0: any free port, empty: disabled"),
    list("api_allowed_hosts", "", "Additional host names that browsers may use for the REST API"),
    text("api_ui_dir", "", "Folder of the pages that browse the REST API").idle(),
    text("api_doc_dir", "", "Folder of its descriptions").idle(),
    text("prometheus_address", "localhost", "Address of metrics"),
    port("prometheus_port", "9180", "Port of metrics; 0: any free port, empty: disabled"),
    text("prometheus_prefix", "scylla", "Prefix of metric names"),
    flag("prometheus_allow_protobuf", "true", "Metrics in Protocol Buffers, too, for who asks"),
    flag("inter_dc_tcp_nodelay", "false", "Do not delay small packets to other data centers")
        .idle(),
    word(
        "internode_compression",
        "none",
        &["none", "dc", "rack", "all"],
        "Which traffic between nodes is compressed",
    ),
    flag(
        "internode_compression_enable_advanced",
        "false",
        "Traffic is compressed by Zstandard too, where it may",
    ),
    flag("internode_compression_checksumming", "true", "With checksums").idle(),
    words(
        "internode_compression_algorithms",
        "lz4,zstd",
        &["lz4", "zstd"],
        "Which algorithms; only with internode_compression_enable_advanced",
    ),
    decimal(
        "internode_compression_zstd_max_cpu_fraction",
        "0",
        "Part of a core that Zstandard may take; 1: any",
    )
    .live(),
    number(
        "internode_compression_zstd_cpu_quota_refresh_period_ms",
        "20",
        "Milliseconds over which that counts",
    )
    .live(),
    decimal(
        "internode_compression_zstd_max_longterm_cpu_fraction",
        "1",
        "Part of a core over ten seconds",
    )
    .live(),
    number(
        "internode_compression_zstd_min_message_size",
        "1024",
        "Bytes of the least message for Zstandard",
    )
    .live(),
    number("internode_compression_zstd_max_message_size", "4294967295", "Bytes of the largest")
        .live(),
    word(
        "rpc_dict_training_when",
        "never",
        &["never", "when_leader", "always"],
        "When dictionaries are trained",
    )
    .live()
    .idle(),
    number("rpc_dict_training_min_time_seconds", "3600", "Seconds to sample for one").live().idle(),
    number("rpc_dict_training_min_bytes", "100000000", "Bytes to sample for one").live().idle(),
    number("rpc_dict_update_period_seconds", "3600", "Seconds from one to the next").live().idle(),
];
