//! The options as the parts of a node are offered them, and as `system.config` shows them.

use super::{OPTIONS, Values};
use cluster::settings::Offer;

/// Options that can be changed while the node runs, also where nothing depends on them yet: what
/// is written is stored and shown. Those that something depends on are registered by it.
const CHANGING: &[&str] = &[
    "allowed_repair_based_node_ops",
    "alternator_allow_system_table_write",
    "alternator_describe_endpoints",
    "alternator_enforce_authorization",
    "alternator_timeout_in_ms",
    "alternator_warn_authorization",
    "audit_categories",
    "audit_keyspaces",
    "audit_tables",
    "auto_repair_enabled_default",
    "auto_repair_threshold_default_in_seconds",
    "auto_snapshot",
    "auto_snapshot_ttl",
    "backup_io_throughput_mb_per_sec",
    "batchlog_replay_cleanup_after_replays",
    "cache_index_pages",
    "cas_contention_timeout_in_ms",
    "column_index_auto_scale_threshold_in_kb",
    "compaction_enforce_min_threshold",
    "compaction_max_shares",
    "compaction_static_shares",
    "compaction_throughput_mb_per_sec",
    "components_memory_reclaim_threshold",
    "counter_write_request_timeout_in_ms",
    "critical_disk_utilization_level",
    "data_file_capacity",
    "enable_cassio_compatibility",
    "enable_compacting_data_for_streaming_and_repair",
    "enable_cql_config_updates",
    "enable_file_stream",
    "enable_repair_based_node_ops",
    "enable_small_table_optimization_for_rbno",
    "enable_tombstone_gc_for_streaming_and_repair",
    "error_injections_at_startup",
    "flush_schema_tables_after_modification",
    "force_capacity_based_balancing",
    "index_cache_fraction",
    "maintenance_io_throughput_mb_per_sec",
    "maintenance_reader_concurrency_semaphore_count_limit",
    "max_concurrent_requests_per_shard",
    "max_hinted_handoff_concurrency",
    "memtable_flush_static_shares",
    "minimal_tablet_size_for_balancing",
    "object_storage_endpoints",
    "permissions_update_interval_in_ms",
    "permissions_validity_in_ms",
    "range_request_timeout_in_ms",
    "read_request_timeout_in_ms",
    "reader_concurrency_semaphore_cpu_concurrency",
    "reader_concurrency_semaphore_kill_limit_multiplier",
    "reader_concurrency_semaphore_preemptive_abort_factor",
    "reader_concurrency_semaphore_serialize_limit_multiplier",
    "reader_concurrency_semaphore_shared_pool_fraction",
    "recovery_leader",
    "repair_hints_batchlog_flush_cache_time_in_ms",
    "repair_multishard_reader_buffer_hint_size",
    "repair_multishard_reader_enable_read_ahead",
    "repair_partition_count_estimation_ratio",
    "replace_node_first_boot",
    "request_timeout_in_ms",
    "restrict_dtcs",
    "service_levels_interval_ms",
    "size_based_balance_threshold_percentage",
    "small_table_optimization_for_rbno_max_table_size",
    "sstable_format",
    "stream_io_throughput_mb_per_sec",
    "stream_plan_ranges_fraction",
    "strict_is_not_null_in_views",
    "tablet_load_stats_refresh_interval_in_seconds",
    "tablet_streaming_read_concurrency_per_shard",
    "tablet_streaming_write_concurrency_per_shard",
    "tablets_initial_scale_factor",
    "tablets_mode_for_new_keyspaces",
    "tablets_per_shard_goal",
    "target_tablet_size_in_bytes",
    "task_ttl_in_seconds",
    "tombstone_failure_threshold",
    "truncate_request_timeout_in_ms",
    "uninitialized_connections_semaphore_cpu_concurrency",
    "user_task_ttl_in_seconds",
    "vector_store_primary_uri",
    "vector_store_secondary_uri",
    "view_flow_control_delay_limit_in_ms",
    "write_request_timeout_in_ms",
];

/// Every option with its value.
pub(crate) fn offers(values: &Values) -> Vec<Offer> {
    let values = &values.to_show();
    let rows = OPTIONS.iter().filter(|row| !row.name.contains(' ')).map(|row| {
        let text = values.text(row.name);
        let kind = match (row.kind.type_name(), row.default.parse::<f64>(), text.parse::<f64>()) {
            ("string", Ok(_), Ok(_)) if text.parse::<i64>().is_ok() => "integer",
            ("string", Ok(_), Ok(_)) => "double",
            (kind, ..) => kind,
        };
        let shown = match kind {
            "string list" => serde_json::json!(values.list(row.name)).to_string(),
            "bool" => values.flag(row.name).to_string(),
            "integer" | "double" => text.to_string(),
            _ => serde_json::json!(text).to_string(),
        };
        let changes = CHANGING.contains(&row.name);
        Offer { name: row.name, kind, shown, source: values.source(row.name).name(), changes }
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{OptionRow, Source};

    #[test]
    fn options_that_change_are_options() {
        CHANGING.iter().for_each(|name| assert!(OptionRow::of(name).is_some(), "{name}"));
    }

    #[test]
    fn values_are_offered_as_json() {
        let mut values = Values::default();
        let lists = ["a", "b"].map(str::to_owned).to_vec();
        values.set("experimental_features", lists, Source::CommandLine).expect("an option");
        let offers = offers(&values);
        let check = |name: &str, shown: &str, source: &str| {
            let found = offers.iter().find(|offer| offer.name == name).expect("an option");
            assert_eq!((found.shown.as_str(), found.source), (shown, source));
        };
        check("experimental_features", "[\"a\",\"b\"]", "cli");
        check("num_tokens", "1", "default");
        // Numbers that may have a fraction are texts for the command line alone.
        check("alternator_ttl_period_in_seconds", "86400", "default");
        check("task_quota_ms", "0.5", "default");
        check("auto_snapshot", "true", "default");
        check("sstable_format", "\"ms\"", "default");
    }
}
