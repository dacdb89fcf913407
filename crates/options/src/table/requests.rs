//! How long requests may take, how large they may be, and what is warned of or refused.

use super::*;

pub(super) const TIMES: &[OptionRow] = &[
    number("read_request_timeout_in_ms", "5000", "Timeout of single-partition reads").live(),
    number("range_request_timeout_in_ms", "10000", "Timeout of range scans").live(),
    number("write_request_timeout_in_ms", "2000", "Timeout of writes").live(),
    number("counter_write_request_timeout_in_ms", "5000", "Timeout of counter updates").live(),
    number(
        "cas_contention_timeout_in_ms",
        "1000",
        "Timeout of conditional writes under contention",
    )
    .live(),
    number("truncate_request_timeout_in_ms", "60000", "Timeout of TRUNCATE").live(),
    number("request_timeout_in_ms", "10000", "Everything else").live().idle(),
    number("group0_raft_op_timeout_in_ms", "60000", "Changes of the schema, roles and nodes")
        .live(),
    number(
        "request_timeout_on_shutdown_in_seconds",
        "30",
        "Seconds that requests in flight may take when the node stops",
    )
    .live(),
    number("failure_detector_timeout_in_ms", "20000", "Until a silent node is down"),
    number("direct_failure_detector_ping_timeout_in_ms", "600", "One ping of another node"),
    number("phi_convict_threshold", "8", "Old name of failure_detector_timeout_in_ms").idle(),
];

pub(super) const LIMITS: &[OptionRow] = &[
    number(
        "max_concurrent_requests_per_shard",
        "4294967295",
        "Requests in flight per shard; excess requests get OVERLOADED",
    )
    .live(),
    number(
        "uninitialized_connections_semaphore_cpu_concurrency",
        "8",
        "Concurrent logins per shard",
    )
    .live(),
    number("batch_size_warn_threshold_in_kb", "128", "Warn of batches larger than this many KiB")
        .live(),
    number("batch_size_fail_threshold_in_kb", "1024", "Reject batches larger than this many KiB")
        .live(),
    number(
        "tombstone_warn_threshold",
        "1000",
        "Warn of pages that read more tombstones and dead rows than this",
    )
    .live(),
    number("tombstone_failure_threshold", "100000", "Tombstones to fail a read for").live().idle(),
    number(
        "query_tombstone_page_limit",
        "10000",
        "End a page after this many tombstones and dead rows",
    )
    .live(),
    number("query_page_size_in_bytes", "1048576", "End a page after this many bytes").live(),
    number(
        "max_partition_key_restrictions_per_query",
        "100",
        "Maximum number of partitions selected by IN",
    )
    .live(),
    number(
        "max_clustering_key_restrictions_per_query",
        "100",
        "Maximum number of clustering keys selected by IN",
    )
    .live(),
    number("max_relations_in_where_clause", "100", "Maximum number of relations in a WHERE clause")
        .live(),
    number(
        "max_memory_for_unlimited_query_soft_limit",
        "1048576",
        "Warn of unpaged results larger than this many bytes",
    )
    .live(),
    number(
        "max_memory_for_unlimited_query_hard_limit",
        "104857600",
        "Reject unpaged results larger than this many bytes",
    )
    .live(),
    number("select_internal_page_size", "10000", "Rows per page of internal reads").live(),
    number(
        "compaction_large_partition_warning_threshold_mb",
        "1000",
        "Record partitions larger than this many MiB in system.large_partitions",
    )
    .live(),
    number(
        "compaction_large_row_warning_threshold_mb",
        "10",
        "Record rows larger than this many MiB in system.large_rows",
    )
    .live(),
    number(
        "compaction_large_cell_warning_threshold_mb",
        "1",
        "Record cells larger than this many MiB in system.large_cells",
    )
    .live(),
    number(
        "compaction_rows_count_warning_threshold",
        "100000",
        "Record partitions with more rows than this",
    )
    .live(),
    number(
        "compaction_collection_elements_count_warning_threshold",
        "10000",
        "Record collections with more elements than this",
    )
    .live(),
    number("large_cell_fail_threshold_mb", "2", "Reject cells larger than this many MiB").live(),
    number("large_row_fail_threshold_mb", "20", "Reject rows larger than this many MiB").live(),
    number(
        "large_partition_fail_threshold_mb",
        "2000",
        "Reject writes to partitions larger than this many MiB",
    )
    .live(),
    number(
        "large_collection_elements_fail_threshold",
        "20000",
        "Reject collections with more elements than this",
    )
    .live(),
    number(
        "rows_count_fail_threshold",
        "200000",
        "Reject writes to partitions with more rows than this",
    )
    .live(),
    flag("large_data_cql_warnings", "false", "Send warnings of large data to clients as well")
        .live(),
    number(
        "minimum_replication_factor_fail_threshold",
        "-1",
        "Reject keyspaces with fewer replicas; -1: off",
    )
    .live(),
    number(
        "minimum_replication_factor_warn_threshold",
        "-1",
        "Warn of keyspaces with fewer replicas; -1: off",
    )
    .live(),
    number(
        "maximum_replication_factor_warn_threshold",
        "0",
        "Warn of keyspaces with more replicas; 0: the number of nodes, -1: off",
    )
    .live(),
    number(
        "maximum_replication_factor_fail_threshold",
        "-1",
        "Reject keyspaces with more replicas; -1: off",
    )
    .live(),
    list("replication_strategy_warn_list", "SimpleStrategy", "Replication strategies to warn of")
        .live(),
    list("replication_strategy_fail_list", "", "Replication strategies to reject").live(),
    list("write_consistency_levels_warned", "", "Consistency levels of writes to warn of").live(),
    list("write_consistency_levels_disallowed", "", "Consistency levels of writes to reject")
        .live(),
    word(
        "strict_allow_filtering",
        "warn",
        MODES,
        "Reject filtering by clustering columns over all partitions without ALLOW FILTERING",
    )
    .live(),
    word("strict_is_not_null_in_views", "warn", MODES, "Refuse IS NOT NULL of other columns")
        .live(),
    word(
        "restrict_twcs_without_default_ttl",
        "warn",
        MODES,
        "Reject TimeWindowCompactionStrategy without a default TTL",
    )
    .live(),
    word(
        "restrict_twcs_default_ttl",
        "warn",
        MODES,
        "Old name of restrict_twcs_without_default_ttl",
    )
    .idle(),
    number(
        "twcs_max_window_count",
        "50",
        "Maximum number of time windows that a default TTL may span",
    )
    .live(),
    word("restrict_dtcs", "warn", MODES, "Refuse DateTieredCompactionStrategy").live().idle(),
    word("restrict_replication_simplestrategy", "false", MODES, "Reject SimpleStrategy").live(),
    flag(
        "restrict_future_timestamp",
        "true",
        "Reject write timestamps more than three days in the future",
    )
    .live(),
    flag("enable_create_table_with_compact_storage", "false", "Allow WITH COMPACT STORAGE").live(),
    flag("enable_cassio_compatibility", "false", "Accept indexes as CassIO makes them")
        .live()
        .idle(),
    decimal(
        "critical_disk_utilization_level",
        "0.98",
        "Part of the disk above which clients' writes are refused",
    )
    .live(),
];
