//! The DynamoDB API.

use super::*;

const ISOLATION: Words = &[
    "",
    "only_rmw_uses_lwt",
    "always_use_lwt",
    "always",
    "forbid_rmw",
    "forbid",
    "unsafe",
    "unsafe_rmw",
    "o",
    "a",
    "f",
    "u",
];

pub(super) const ROWS: &[OptionRow] = &[
    port("alternator_port", "8000", "Its port; 0 or empty: not served"),
    port("alternator_https_port", "0", "Its encrypted port; 0: not served"),
    port("alternator_port_proxy_protocol", "0", "Its port behind a proxy").idle(),
    port("alternator_https_port_proxy_protocol", "0", "The same, encrypted").idle(),
    text("alternator_address", "", "Its address; none: that of rpc_address"),
    word("alternator_write_isolation", "", ISOLATION, "Which writes are conditional").live(),
    flag("alternator_enforce_authorization", "false", "Refuse what is not signed").live(),
    flag("alternator_warn_authorization", "false", "Warn of what is not signed").live(),
    flag(
        "alternator_force_read_before_write",
        "false",
        "Writes read, to know how large items were",
    )
    .live(),
    number("alternator_timeout_in_ms", "10000", "Milliseconds of a request").live(),
    decimal(
        "alternator_ttl_period_in_seconds",
        "86400",
        "Seconds between scans for expired rows, in CQL tables too",
    )
    .live(),
    decimal("alternator_streams_time_window_s", "10", "Seconds until changes are shown").live(),
    flag("alternator_streams_increased_compatibility", "false", "Leave out what changes nothing")
        .live()
        .idle(),
    flag("alternator_allow_system_table_write", "false", "Let it write system tables").live(),
    text(
        "alternator_http_response_server_header",
        "",
        "What answers call the server; none: nothing",
    )
    .live(),
    flag("alternator_http_response_disable_date_header", "false", "Leave the date out of answers")
        .live(),
    flag(
        "alternator_http_response_disable_content_type_header",
        "false",
        "Leave the type of the body out of answers",
    )
    .live(),
    text(
        "alternator_transfer_directory",
        "",
        "Folder of the buckets of imports and exports; none: there are none",
    ),
    text("alternator_describe_endpoints", "", "What DescribeEndpoints answers").live(),
    number(
        "alternator_describe_table_info_cache_validity_in_seconds",
        "21600",
        "Seconds that sizes of tables are kept",
    )
    .live()
    .idle(),
    number(
        "alternator_max_expression_cache_entries_per_shard",
        "2000",
        "Parsed expressions that a shard keeps; 0: none",
    )
    .live(),
    number("alternator_max_items_in_batch_write", "100", "Items of one batch").live(),
    number(
        "alternator_max_users_query_size_in_trace_output",
        "4096",
        "Bytes of a request that its trace keeps, 1048576 at most",
    )
    .live(),
    number("alternator_response_gzip_compression_level", "6", "Level of gzip of answers").live(),
    number(
        "alternator_response_compression_threshold_in_bytes",
        "4096",
        "Bytes above which answers are compressed",
    )
    .live(),
];
