//! Files of data: the commitlog, SSTables and what caches them, compaction, reads at a time.

use super::*;

pub(super) const LOG: &[OptionRow] = &[
    flag("enable_commitlog", "true", "Log writes before they are acknowledged").idle(),
    word(
        "commitlog_sync",
        "periodic",
        &["periodic", "batch"],
        "periodic: acknowledge writes before the sync; batch: after it",
    ),
    number("commitlog_sync_period_in_ms", "10000", "Milliseconds between syncs in periodic mode"),
    number("commitlog_sync_batch_window_in_ms", "2", "Milliseconds to wait in batch mode").idle(),
    number("commitlog_segment_size_in_mb", "64", "Size of a commitlog segment, in MiB"),
    number("schema_commitlog_segment_size_in_mb", "128", "MiB of a file of the schema's log")
        .idle(),
    number(
        "commitlog_total_space_in_mb",
        "-1",
        "Size of the commitlog, in MiB; -1: the node's memory, at most 8192",
    ),
    flag("commitlog_reuse_segments", "true", "Use files again").idle(),
    number(
        "commitlog_flush_threshold_in_mb",
        "-1",
        "MiB of the commitlog above which the tables of its oldest segments are flushed; -1: half \
         of commitlog_total_space_in_mb",
    ),
    number(
        "commitlog_max_data_lifetime_in_seconds",
        "86400",
        "Seconds after which the tables of a segment are flushed, however little is written; 0: \
         never",
    ),
    flag("commitlog_use_o_dsync", "true", "Write with O_DSYNC").idle(),
    flag("commitlog_use_fragmented_entries", "true", "Let an entry span files").idle(),
    flag("commitlog_use_hard_size_limit", "true", "Let writes wait when the log is full").idle(),
];

pub(super) const SSTABLES: &[OptionRow] = &[
    word(
        "sstable_format",
        "ms",
        &["me", "ms", "mt"],
        "Version of new SSTables, unless the table sets it",
    )
    .live(),
    number(
        "column_index_size_in_kb",
        "64",
        "KiB between entries of the row index, unless the table sets it",
    ),
    number(
        "column_index_auto_scale_threshold_in_kb",
        "10240",
        "KiB of a partition's row index above which every second entry is dropped; 0: never",
    )
    .live(),
    decimal("sstable_summary_ratio", "0.0005", "Bytes of the summary for a byte of data").idle(),
    map(
        "sstable_compression_user_table_options",
        &[
            "sstable_compression",
            "class",
            "chunk_length_in_kb",
            "chunk_length_kb",
            "level",
            "compression_level",
            "crc_check_chance",
        ],
        "How new tables are compressed that say nothing of it",
    )
    .live(),
    flag("sstable_compression_dictionaries_allow_in_ddl", "true", "Allow them for tables")
        .live()
        .idle(),
    flag("sstable_compression_dictionaries_enable_writing", "true", "Write with dictionaries")
        .live()
        .idle(),
    decimal(
        "sstable_compression_dictionaries_memory_budget_fraction",
        "0.01",
        "Part of the memory for them",
    )
    .live()
    .idle(),
    number(
        "sstable_compression_dictionaries_retrain_period_in_seconds",
        "86400",
        "Seconds from one training to the next",
    )
    .live()
    .idle(),
    number(
        "sstable_compression_dictionaries_autotrainer_tick_period_in_seconds",
        "900",
        "Seconds between looks for what needs one",
    )
    .live()
    .idle(),
    number(
        "sstable_compression_dictionaries_min_training_dataset_bytes",
        "1073741824",
        "Bytes below which a table gets none",
    )
    .live()
    .idle(),
    decimal(
        "sstable_compression_dictionaries_min_training_improvement_factor",
        "0.95",
        "What a new one must make of the size with the old one",
    )
    .live()
    .idle(),
    flag("uuid_sstable_identifiers_enabled", "true", "Obsolete: always on").idle(),
    flag("enable_sstable_data_integrity_check", "false", "Check SSTables while they are written")
        .idle(),
    number("sstable_health_check_interval", "0", "Seconds between checks").idle(),
    flag("ignore_component_digest_mismatch", "false", "Load files with wrong checksums").idle(),
    number("initial_sstable_loading_concurrency", "4", "SSTables opened at a time").idle(),
    flag("enable_cache", "true", "Use the row cache"),
    flag("cache_index_pages", "true", "Cache SSTable indexes").live(),
    decimal("index_cache_fraction", "0.2", "Fraction of memory for cached SSTable indexes").live(),
    decimal("components_memory_reclaim_threshold", "0.2", "Part of the memory for filters")
        .live()
        .idle(),
    decimal("unspooled_dirty_soft_limit", "0.6", "Part of the memory of memtables to flush at")
        .idle(),
    decimal("virtual_dirty_soft_limit", "0.6", "Old name of unspooled_dirty_soft_limit").idle(),
    flag("auto_adjust_flush_quota", "false", "Obsolete: always on").idle(),
    decimal("background_writer_scheduling_quota", "1", "Obsolete: always on").idle(),
    flag("defragment_memory_on_idle", "false", "Put memory in order while idle").idle(),
    number("memtable_flush_static_shares", "0", "CPU and disk shares of flushes; 0: automatic")
        .live(),
    number(
        "compaction_static_shares",
        "0",
        "CPU and disk shares of compaction; 0: automatic, by backlog",
    )
    .live(),
    number("compaction_max_shares", "0", "Maximum shares of compaction; 0: no maximum").live(),
    number(
        "compaction_throughput_mb_per_sec",
        "0",
        "MiB per second that compaction may read and write; 0: unlimited",
    )
    .live(),
    flag("compaction_enforce_min_threshold", "false", "Never merge fewer than min_threshold")
        .live()
        .idle(),
    number(
        "compaction_flush_all_tables_before_major_seconds",
        "86400",
        "Seconds after which a major compaction flushes all tables first",
    )
    .idle(),
    flag("incremental_backups", "false", "Hard-link flushed SSTables into backups/ of their table"),
    flag("auto_snapshot", "true", "Take a snapshot before a table is dropped or truncated").live(),
    number("auto_snapshot_ttl", "0", "Seconds after which such snapshots expire; 0: never").live(),
    flag("snapshot_before_compaction", "false", "Take a snapshot before each merge").idle(),
    flag("flush_schema_tables_after_modification", "true", "Flush tables of the schema")
        .live()
        .idle(),
    text(
        "speculative_retry_user_table_default",
        "99.0PERCENTILE",
        "speculative_retry of new tables",
    )
    .live(),
    tree("object_storage_endpoints", "Where objects are kept: name, port, https, aws_region")
        .live()
        .idle(),
    number(
        "disk_space_monitor_normal_polling_interval_in_seconds",
        "10",
        "Seconds between looks at the free space",
    )
    .live()
    .idle(),
    number(
        "disk_space_monitor_high_polling_interval_in_seconds",
        "1",
        "The same, while there is little",
    )
    .live()
    .idle(),
    decimal(
        "disk_space_monitor_polling_interval_threshold",
        "0.9",
        "Part of the disk above which there is little",
    )
    .live()
    .idle(),
    flag("enable_3_1_0_compatibility_mode", "false", "Write SSTables as old releases did").idle(),
    flag(
        "enable_dangerous_direct_import_of_cassandra_counters",
        "false",
        "Take over counters of Cassandra as they are",
    )
    .idle(),
    number("logstor_disk_size_in_mb", "2048", "MiB of tables of the log storage").idle(),
    number("logstor_disk_size_in_mb_per_shard", "0", "The same, of a shard").idle(),
    number("logstor_file_size_in_mb", "32", "MiB of a file of it").idle(),
    number("logstor_separator_max_memory_in_mb", "256", "MiB to sort it with").idle(),
    number("logstor_separator_delay_limit_ms", "100", "Milliseconds that writes wait for that")
        .live()
        .idle(),
];

pub(super) const SEMAPHORES: &[OptionRow] = &[
    number(
        "reader_concurrency_semaphore_serialize_limit_multiplier",
        "2",
        "Multiple of read memory above which only one read continues; 0: none",
    )
    .live(),
    number(
        "reader_concurrency_semaphore_kill_limit_multiplier",
        "4",
        "Multiple of read memory above which reads fail; 0: none",
    )
    .live(),
    number(
        "reader_concurrency_semaphore_cpu_concurrency",
        "2",
        "Concurrent reads that need the CPU",
    )
    .live(),
    decimal(
        "reader_concurrency_semaphore_preemptive_abort_factor",
        "0.3",
        "Fraction of its timeout that a queued read must have left to start",
    )
    .live(),
    decimal(
        "reader_concurrency_semaphore_shared_pool_fraction",
        "0.5",
        "Part of the memory of reads that all groups share",
    )
    .live()
    .idle(),
    number(
        "view_update_reader_concurrency_semaphore_serialize_limit_multiplier",
        "2",
        "The same of reads for updates of views",
    )
    .live()
    .idle(),
    number(
        "view_update_reader_concurrency_semaphore_kill_limit_multiplier",
        "4",
        "The same of reads for updates of views",
    )
    .live()
    .idle(),
    number(
        "view_update_reader_concurrency_semaphore_cpu_concurrency",
        "1",
        "The same of reads for updates of views",
    )
    .live()
    .idle(),
    number(
        "maintenance_reader_concurrency_semaphore_count_limit",
        "10",
        "Concurrent reads of repair and streaming",
    )
    .live(),
];
