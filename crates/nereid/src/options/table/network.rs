//! Where a node listens, and what it tells others about that.

use super::*;

pub(super) const ROWS: &[OptionRow] = &[
    text("listen_address", "localhost", "Address for other nodes"),
    text("listen_interface", "", "Interface for other nodes, in place of listen_address").idle(),
    flag("listen_interface_prefer_ipv6", "false", "Its IPv6 address").idle(),
    text("broadcast_address", "", "Address that other nodes are told; listen_address"),
    flag("listen_on_broadcast_address", "false", "Listen there as well").idle(),
    text("rpc_address", "127.0.0.1", "Address to serve CQL on"),
    text("rpc_interface", "", "Interface to serve CQL on, in place of rpc_address").idle(),
    flag("rpc_interface_prefer_ipv6", "false", "Its IPv6 address").idle(),
    text("broadcast_rpc_address", "", "Address that clients are told; rpc_address"),
    port("storage_port", "7000", "Port for other nodes, as system.local tells it"),
    port("ssl_storage_port", "7001", "Port for other nodes, encrypted").idle(),
    port("native_transport_port", "9042", "Port of CQL; 0: a free one, empty: not served"),
    port("native_transport_port_ssl", "", "Port of CQL with TLS, beside the plain one"),
    port(
        "native_shard_aware_transport_port",
        "19042",
        "Port of CQL where the source port chooses the shard; empty: not served",
    ),
    port("native_shard_aware_transport_port_ssl", "", "The same, encrypted"),
    port(
        "native_transport_port_proxy_protocol",
        "",
        "Port of CQL for proxies that say where clients are (PROXY protocol, version 2)",
    ),
    port("native_transport_port_ssl_proxy_protocol", "", "The same, encrypted after that"),
    port(
        "native_shard_aware_transport_port_proxy_protocol",
        "",
        "The same where the source port that they say chooses the shard",
    ),
    port(
        "native_shard_aware_transport_port_ssl_proxy_protocol",
        "",
        "The same, encrypted after that",
    ),
    flag("start_native_transport", "true", "Serve CQL"),
    flag("enable_shard_aware_drivers", "true", "Tell drivers of the shards"),
    number("native_transport_max_frame_size_in_mb", "256", "Largest request, in MiB"),
    flag("rpc_keepalive", "true", "Probe idle connections of clients"),
    flag("start_rpc", "false", "Serve Thrift; it is no more").idle(),
    flag("enable_ipv6_dns_lookup", "false", "Look names up for IPv6 addresses too").idle(),
    text("api_address", "localhost", "Address to serve the REST API on"),
    port("api_port", "10000", "Port of the REST API; 0: a free one, empty: not served"),
    text("api_ui_dir", "", "Folder of the pages that browse the REST API").idle(),
    text("api_doc_dir", "", "Folder of its descriptions").idle(),
    text("prometheus_address", "localhost", "Address to serve metrics on"),
    port("prometheus_port", "9180", "Port of metrics; 0: a free one, empty: not served"),
    text("prometheus_prefix", "scylla", "Start of the names of metrics"),
    flag("prometheus_allow_protobuf", "true", "Answer in Protocol Buffers too").idle(),
    flag("inter_dc_tcp_nodelay", "false", "Do not delay small packets to other data centers")
        .idle(),
    word(
        "internode_compression",
        "none",
        &["none", "dc", "rack", "all"],
        "Which traffic between nodes is compressed",
    )
    .idle(),
    flag("internode_compression_enable_advanced", "false", "With dictionaries").idle(),
    flag("internode_compression_checksumming", "true", "With checksums").idle(),
    tree("internode_compression_algorithms", "Which algorithms").idle(),
    decimal(
        "internode_compression_zstd_max_cpu_fraction",
        "0",
        "Part of a core that Zstandard may take",
    )
    .live()
    .idle(),
    number(
        "internode_compression_zstd_cpu_quota_refresh_period_ms",
        "20",
        "Milliseconds over which that counts",
    )
    .live()
    .idle(),
    decimal(
        "internode_compression_zstd_max_longterm_cpu_fraction",
        "1",
        "Part of a core over longer times",
    )
    .live()
    .idle(),
    number(
        "internode_compression_zstd_min_message_size",
        "1024",
        "Bytes of the least message for Zstandard",
    )
    .live()
    .idle(),
    number("internode_compression_zstd_max_message_size", "4294967295", "Bytes of the largest")
        .live()
        .idle(),
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
