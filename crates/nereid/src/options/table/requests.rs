//! How long requests may take, how large they may be, and what is warned of or refused.

use super::*;

pub(super) const TIMES: &[OptionRow] = &[
    number("read_request_timeout_in_ms", "5000", "Reads of some partitions").live(),
    number("range_request_timeout_in_ms", "10000", "Reads of ranges").live(),
    number("write_request_timeout_in_ms", "2000", "Writes").live(),
    number("counter_write_request_timeout_in_ms", "5000", "Writes of counters").live(),
    number("cas_contention_timeout_in_ms", "1000", "Conditional writes that meet others").live(),
    number("truncate_request_timeout_in_ms", "60000", "TRUNCATE").live(),
    number("request_timeout_in_ms", "10000", "Everything else").live().idle(),
    number("group0_raft_op_timeout_in_ms", "60000", "Changes of the cluster").live().idle(),
    number(
        "request_timeout_on_shutdown_in_seconds",
        "30",
        "What is under way when the node stops, in seconds",
    )
    .live(),
    number("failure_detector_timeout_in_ms", "20000", "Until a silent node is down").live().idle(),
    number("direct_failure_detector_ping_timeout_in_ms", "600", "One ping").live().idle(),
    number("phi_convict_threshold", "8", "Older form of failure_detector_timeout_in_ms").idle(),
];

pub(super) const LIMITS: &[OptionRow] = &[
    number(
        "max_concurrent_requests_per_shard",
        "4294967295",
        "Requests under way on a shard; others are answered OVERLOADED",
    )
    .live(),
    number(
        "uninitialized_connections_semaphore_cpu_concurrency",
        "8",
        "Connections of a shard that log in at the same time",
    )
    .live(),
    number("batch_size_warn_threshold_in_kb", "128", "KiB of a batch to warn of").live(),
    number("batch_size_fail_threshold_in_kb", "1024", "KiB of a batch to refuse").live(),
    number(
        "tombstone_warn_threshold",
        "1000",
        "Tombstones and dead rows read for a page to warn of",
    )
    .live(),
    number("tombstone_failure_threshold", "100000", "Tombstones to fail a read for").live().idle(),
    number(
        "query_tombstone_page_limit",
        "10000",
        "Tombstones and dead rows after which a page is cut",
    )
    .live(),
    number("query_page_size_in_bytes", "1048576", "Bytes after which a page is cut").live(),
    number("max_partition_key_restrictions_per_query", "100", "Partitions that one IN may name")
        .live(),
    number(
        "max_clustering_key_restrictions_per_query",
        "100",
        "Clustering keys that one IN may name",
    )
    .live(),
    number("max_relations_in_where_clause", "100", "Relations of one WHERE").live(),
    number(
        "max_memory_for_unlimited_query_soft_limit",
        "1048576",
        "Bytes of an answer without pages to warn of",
    )
    .live(),
    number(
        "max_memory_for_unlimited_query_hard_limit",
        "104857600",
        "Bytes of an answer without pages to refuse",
    )
    .live(),
    number("select_internal_page_size", "10000", "Rows of a page of reads of our own").live(),
    number(
        "compaction_large_partition_warning_threshold_mb",
        "1000",
        "MiB of a partition to write down in system.large_partitions",
    )
    .live(),
    number(
        "compaction_large_row_warning_threshold_mb",
        "10",
        "MiB of a row to write down in system.large_rows",
    )
    .live(),
    number(
        "compaction_large_cell_warning_threshold_mb",
        "1",
        "MiB of a cell to write down in system.large_cells",
    )
    .live(),
    number(
        "compaction_rows_count_warning_threshold",
        "100000",
        "Rows of a partition to write down",
    )
    .live(),
    number(
        "compaction_collection_elements_count_warning_threshold",
        "10000",
        "Elements of a collection to write down",
    )
    .live(),
    number("large_cell_fail_threshold_mb", "2", "MiB of a cell to refuse").live(),
    number("large_row_fail_threshold_mb", "20", "MiB of a row to refuse").live(),
    number("large_partition_fail_threshold_mb", "2000", "MiB of a partition to refuse").live(),
    number(
        "large_collection_elements_fail_threshold",
        "20000",
        "Elements of a collection to refuse",
    )
    .live(),
    number("rows_count_fail_threshold", "200000", "Rows of a partition to refuse").live(),
    flag("large_data_cql_warnings", "false", "Tell clients of large data too").live(),
    number(
        "minimum_replication_factor_fail_threshold",
        "-1",
        "Replicas below which a keyspace is refused; -1: none",
    )
    .live(),
    number(
        "minimum_replication_factor_warn_threshold",
        "-1",
        "Replicas below which a keyspace is warned of; -1: none",
    )
    .live(),
    number(
        "maximum_replication_factor_warn_threshold",
        "0",
        "Replicas above which a keyspace is warned of; 0: the number of nodes, -1: none",
    )
    .live(),
    number(
        "maximum_replication_factor_fail_threshold",
        "-1",
        "Replicas above which a keyspace is refused; -1: none",
    )
    .live(),
    list("replication_strategy_warn_list", "SimpleStrategy", "Strategies to warn of").live(),
    list("replication_strategy_fail_list", "", "Strategies to refuse").live(),
    list("write_consistency_levels_warned", "", "Consistency levels of writes to warn of").live(),
    list("write_consistency_levels_disallowed", "", "Consistency levels of writes to refuse")
        .live(),
    word(
        "strict_allow_filtering",
        "warn",
        MODES,
        "Refuse reads of the same rows of every partition without ALLOW FILTERING",
    )
    .live(),
    word("strict_is_not_null_in_views", "warn", MODES, "Refuse IS NOT NULL of other columns")
        .live()
        .idle(),
    word(
        "restrict_twcs_without_default_ttl",
        "warn",
        MODES,
        "Refuse TimeWindowCompactionStrategy without a default TTL",
    )
    .live(),
    word(
        "restrict_twcs_default_ttl",
        "warn",
        MODES,
        "Older form of restrict_twcs_without_default_ttl",
    )
    .idle(),
    number("twcs_max_window_count", "50", "Windows that a default TTL may span").live(),
    word("restrict_dtcs", "warn", MODES, "Refuse DateTieredCompactionStrategy").live().idle(),
    word("restrict_replication_simplestrategy", "false", MODES, "Refuse SimpleStrategy").live(),
    flag("restrict_future_timestamp", "true", "Refuse timestamps of days to come").live(),
    flag("enable_create_table_with_compact_storage", "false", "Allow WITH COMPACT STORAGE").live(),
    flag("enable_cassio_compatibility", "false", "Accept indexes as CassIO makes them")
        .live()
        .idle(),
    decimal(
        "critical_disk_utilization_level",
        "0.98",
        "Part of the disk above which clients' writes are refused",
    )
    .live()
    .idle(),
];
