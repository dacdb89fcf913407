//! How tables are divided among shards and nodes.

use super::*;

pub(super) const ROWS: &[OptionRow] = &[
    word(
        "tablets_mode_for_new_keyspaces",
        "disabled",
        &["disabled", "enabled", "enforced"],
        "Use tablets in new keyspaces",
    )
    .live(),
    flag("enable_tablets", "false", "Old name of tablets_mode_for_new_keyspaces").live(),
    decimal(
        "tablets_initial_scale_factor",
        "1",
        "Tablets of a new table for each shard, rounded up to a power of two in all",
    )
    .live(),
    number("tablets_per_shard_goal", "100", "Tablets of all tables on a shard").live().idle(),
    number(
        "target_tablet_size_in_bytes",
        "5368709120",
        "Bytes of a tablet: a table gets more of them above twice that, fewer below half of it",
    )
    .live(),
    number(
        "tablet_streaming_read_concurrency_per_shard",
        "2",
        "Tablets that leave a shard at a time",
    )
    .live()
    .idle(),
    number("tablet_streaming_write_concurrency_per_shard", "2", "Tablets that come at a time")
        .live()
        .idle(),
    number("tablet_load_stats_refresh_interval_in_seconds", "60", "Seconds between looks at loads")
        .live(),
    flag("force_capacity_based_balancing", "false", "Balance by capacity alone").live().idle(),
    decimal("size_based_balance_threshold_percentage", "1", "Percent that nodes may differ")
        .live()
        .idle(),
    number(
        "minimal_tablet_size_for_balancing",
        "53687091",
        "Bytes that a tablet counts for at least",
    )
    .live(),
    flag(
        "force_effective_capacity_to_raw_disk_capacity",
        "false",
        "Count the whole disk as capacity, not what is left of it",
    )
    .idle(),
    flag(
        "rf_rack_valid_keyspaces",
        "false",
        "Keyspaces with tablets name a rack for each replica; refuse more than there are",
    )
    .live(),
    flag("enforce_rack_list", "false", "Refuse replicas without racks").idle(),
    number("data_file_capacity", "0", "Bytes of the disk; 0: as the system says").live().idle(),
    decimal(
        "topology_barrier_stall_detector_threshold_seconds",
        "2",
        "Seconds after which a slow barrier is reported",
    )
    .idle(),
];
