//! What nodes do with each other.

use super::*;

pub(super) const ROWS: &[OptionRow] = &[
    number("nodeops_watchdog_timeout_seconds", "120", "Seconds until a silent operation ends")
        .live()
        .idle(),
    number("nodeops_heartbeat_interval_seconds", "10", "Seconds between signs of life of one")
        .live()
        .idle(),
    number("fd_initial_value_ms", "2000", "Old name of failure_detector_timeout_in_ms").idle(),
    number("fd_max_interval_ms", "2000", "Old name of failure_detector_timeout_in_ms").idle(),
    number("service_levels_interval_ms", "10000", "Milliseconds between looks at service levels")
        .live()
        .idle(),
    text("withheld_features", "", "For developers: features that this node says it lacks"),
    flag("cache_hit_rate_read_balancing", "true", "Prefer replicas that have it cached").idle(),
    flag("enable_deprecated_partitioners", "false", "Allow partitioners that are no more").idle(),
    flag("table_digest_insensitive_to_expiry", "true", "Obsolete: always on").idle(),
];

pub(super) const REPAIR: &[OptionRow] = &[
    number("stream_io_throughput_mb_per_sec", "0", "MiB per second of streaming; 0: unlimited")
        .live(),
    decimal("stream_plan_ranges_fraction", "0.1", "Part of the ranges in one plan").live().idle(),
    flag("enable_file_stream", "true", "Stream whole files").live().idle(),
    flag("enable_repair_based_node_ops", "true", "Repair in place of streaming").live().idle(),
    text("allowed_repair_based_node_ops", "replace,removenode,rebuild", "For what of these")
        .live()
        .idle(),
    number(
        "repair_multishard_reader_buffer_hint_size",
        "1048576",
        "Bytes that a repair reads of all shards at once; 0: 8 KiB of one, without turns",
    )
    .live(),
    flag(
        "repair_multishard_reader_enable_read_ahead",
        "false",
        "Whether a repair reads of the next shard before it is needed",
    )
    .live(),
    decimal("repair_partition_count_estimation_ratio", "0.1", "Part of the partitions that differ")
        .live()
        .idle(),
    number(
        "repair_hints_batchlog_flush_cache_time_in_ms",
        "60000",
        "Milliseconds for which hints that were sent before a repair are not sent again",
    )
    .live(),
    flag("enable_small_table_optimization_for_rbno", "true", "Repair small tables whole")
        .live()
        .idle(),
    number(
        "small_table_optimization_for_rbno_max_table_size",
        "1073741824",
        "Bytes of the largest of these",
    )
    .live()
    .idle(),
    flag("enable_compacting_data_for_streaming_and_repair", "true", "Leave out what is deleted")
        .live()
        .idle(),
    flag("enable_compacting_data_for_streaming", "true", "Older form of the same").idle(),
    flag("enable_tombstone_gc_for_streaming_and_repair", "false", "Leave out old tombstones")
        .live(),
    number("maintenance_io_throughput_mb_per_sec", "0", "MiB a second of all maintenance; 0: any")
        .live()
        .idle(),
    number("backup_io_throughput_mb_per_sec", "0", "MiB a second of backups; 0: any").live().idle(),
    flag("auto_repair_enabled_default", "true", "Repair tables by themselves").live(),
    number(
        "auto_repair_threshold_default_in_seconds",
        "86400",
        "Seconds in which each range is repaired by itself, at most",
    )
    .live(),
];

pub(super) const HINTS: &[OptionRow] = &[
    text(
        "hinted_handoff_enabled",
        "true",
        "Keep writes for nodes that are down: true, false or \
        data centers, by commas",
    )
    .live(),
    number(
        "max_hint_window_in_ms",
        "10800000",
        "Milliseconds that a node may be down until nothing more is kept for it",
    )
    .live(),
    number("max_hinted_handoff_concurrency", "0", "Hints that a shard sends at a time; 0: 8")
        .live(),
    number(
        "hinted_handoff_throttle_in_kb",
        "1024",
        "KiB a second of hints to one node; 0: no limit",
    )
    .live(),
    number("max_hints_delivery_threads", "2", "Nodes that get hints at a time").idle(),
    number(
        "batchlog_replay_throttle_in_kb",
        "1024",
        "KiB a second of batches that are replayed; 0: no limit",
    ),
    number("batchlog_replay_cleanup_after_replays", "1", "Rounds between flushes of batches")
        .live()
        .idle(),
    flag("view_building", "true", "Fill new views").idle(),
    number("view_flow_control_delay_limit_in_ms", "1000", "Longest delay of writes for views")
        .live()
        .idle(),
    number("view_update_limit_in_mb", "-1", "MiB of view updates in flight").idle(),
];
