//! What a shard's storage did: commitlogs, room on the disk, compactions, caches, SSTables, reads
//! and their permits.

use super::{counters, gauges};
use admin::metrics::{Kind, Sheet};
use std::rc::Rc;
use storage::{Log, Storage};

pub(super) fn all(sheet: &mut Sheet, storage: &Rc<Storage>) {
    logs(sheet, storage);
    disk(sheet, storage);
    compactions(sheet, storage);
    row_cache(sheet, storage);
    index_cache(sheet, storage);
    sstables(sheet);
    reads(sheet, storage);
    writes(sheet, storage);
}

/// The names of what is told of a commitlog, of that of data and that of the schema.
macro_rules! both {
    ($name:literal) => {
        [concat!("commitlog_", $name), concat!("schema_commitlog_", $name)]
    };
}

fn logs(sheet: &mut Sheet, storage: &Rc<Storage>) {
    for (at, log) in [Log::Data, Log::Schema].into_iter().enumerate() {
        let Some(stats) = storage.log_stats(log) else { continue };
        let gauges_of = [
            (
                both!("segments")[at],
                "Segments with writes that are not flushed yet.",
                stats.segments,
            ),
            (both!("disk_total_bytes")[at], "Bytes of all segments on disk.", stats.disk_bytes),
        ];
        gauges(sheet, &gauges_of);
        let counters_of = [
            (both!("alloc")[at], "Segments made or recycled.", stats.allocations),
            (both!("cycle")[at], "Writes of the buffer to disk.", stats.cycles),
            (both!("flush")[at], "Syncs.", stats.syncs),
            (both!("bytes_written")[at], "Bytes written, padding included.", stats.written_bytes),
            (both!("entry_bytes")[at], "Bytes of entries.", stats.entry_bytes),
            (both!("slack")[at], "Bytes of padding.", stats.slack_bytes),
            (both!("segments_released")[at], "Segments released.", stats.released),
            (
                both!("flush_limit_exceeded")[at],
                "Flushes that were asked for because the log was full.",
                stats.flush_requests,
            ),
            (
                both!("requests_blocked_memory")[at],
                "Writes that were blocked on a segment.",
                stats.blocked,
            ),
        ];
        counters(sheet, &counters_of);
    }
}

fn disk(sheet: &mut Sheet, storage: &Rc<Storage>) {
    let disk = storage.disk_state();
    let gauges_of = [
        ("disk_total_bytes", "Bytes of the file system with the data.", disk.total_bytes),
        ("disk_free_bytes", "Bytes of it that are free.", disk.free_bytes),
        ("disk_reserve_bytes", "Bytes that writes of clients leave free.", disk.reserve_bytes),
        (
            "disk_refuses_writes",
            "Whether writes of clients are refused because the disk is full.",
            disk.refuses_writes as u64,
        ),
    ];
    gauges(sheet, &gauges_of);
    let refused = "Writes that were refused because the disk is full.";
    sheet.counter("disk_refused_writes", refused, &[], disk.refused_writes);
}

fn compactions(sheet: &mut Sheet, storage: &Rc<Storage>) {
    let stats = storage.compaction_stats();
    let running = "Compactions in flight.";
    sheet.gauge("compaction_manager_compactions", running, &[], stats.running as u64);
    let pending = "Pending compactions.";
    let count = stats.pace.pending as u64;
    sheet.gauge("compaction_manager_pending_compactions", pending, &[], count);
    let held = "Compactions that wait for free disk space.";
    sheet.gauge("compaction_manager_held_for_space", held, &[], stats.held as u64);
    let finished = "Compactions that succeeded.";
    sheet.counter("compaction_manager_completed_compactions", finished, &[], stats.finished);
    let failed = "Compactions that failed.";
    sheet.counter("compaction_manager_failed_compactions", failed, &[], stats.failed);
    let read = "Bytes on disk of the inputs of finished compactions.";
    sheet.counter("compaction_manager_bytes_compacted", read, &[], stats.bytes_in);
    let written = "Bytes on disk of the outputs of finished compactions.";
    sheet.counter("compaction_manager_bytes_written", written, &[], stats.bytes_out);
    let backlog = "Compaction backlog: bytes to write until nothing is pending.";
    sheet.gauge("compaction_manager_backlog", backlog, &[], stats.pace.backlog as u64);
    let normalized = "Compaction backlog as a fraction of the memory of the shard.";
    let name = ("compaction_manager_normalized_backlog", normalized);
    sheet.push(Kind::Gauge, name, &[], stats.pace.normalized);
    let damaged = "Damaged SSTables, which are left out of compaction.";
    let count = storage.damaged_sstables() as u64;
    sheet.gauge("compaction_manager_quarantined_sstables", damaged, &[], count);
}

fn row_cache(sheet: &mut Sheet, storage: &Rc<Storage>) {
    let stats = storage.row_cache_stats();
    let rows = [
        ("cache_partition_hits", "Partition cache hits.", stats.partition_hits),
        ("cache_partition_misses", "Partition cache misses.", stats.partition_misses),
        ("cache_partition_insertions", "Partitions inserted.", stats.partition_insertions),
        ("cache_partition_evictions", "Partitions evicted.", stats.partition_evictions),
        ("cache_partition_removals", "Partitions invalidated.", stats.partition_removals),
        ("cache_row_hits", "Rows read from the cache.", stats.row_hits),
        (
            "cache_row_misses",
            "Rows read from SSTables and memtables, not from the cache.",
            stats.row_misses,
        ),
        ("cache_row_insertions", "Rows inserted.", stats.row_insertions),
        ("cache_row_evictions", "Rows evicted.", stats.row_evictions),
        ("cache_reads", "Reads of the row cache.", stats.reads),
        ("cache_reads_with_misses", "Reads with at least one cache miss.", stats.reads_with_misses),
        ("cache_mispopulations", "Reads whose rows could not be cached.", stats.mispopulations),
    ];
    counters(sheet, &rows);
    sheet.gauge("cache_partitions", "Partitions in the row cache.", &[], stats.partitions);
    sheet.gauge("cache_bytes_used", "Bytes of the row cache.", &[], stats.bytes_used);
    sheet.gauge("cache_bytes_total", "Capacity of the row cache in bytes.", &[], stats.bytes_limit);
}

fn index_cache(sheet: &mut Sheet, storage: &Rc<Storage>) {
    let stats = storage.index_cache().stats();
    for (kind, pages) in [("partitions", stats.partitions), ("files", stats.files)] {
        let label = &[("pages", kind)];
        sheet.counter("sstables_index_page_hits", "Index page cache hits.", label, pages.hits);
        sheet.counter(
            "sstables_index_page_misses",
            "Index page cache misses.",
            label,
            pages.misses,
        );
        let blocks = "Index pages that another read was already loading.";
        sheet.counter("sstables_index_page_blocks", blocks, label, pages.blocks);
        let evictions = "Index pages evicted.";
        sheet.counter("sstables_index_page_evictions", evictions, label, pages.evictions);
        let populations = "Index pages inserted into the cache.";
        sheet.counter("sstables_index_page_populations", populations, label, pages.populations);
        let used = "Bytes of cached index pages.";
        sheet.gauge("sstables_index_page_used_bytes", used, label, pages.bytes);
    }
}

fn sstables(sheet: &mut Sheet) {
    let counts = sstable::ReadStats::of_shard().counts();
    let rows = [
        ("sstables_single_partition_reads", "Reads of one partition.", counts.single_reads),
        ("sstables_range_partition_reads", "Reads of partition ranges.", counts.range_reads),
        ("sstables_partition_seeks", "Partitions found by an index.", counts.partition_seeks),
        ("sstables_filter_positives", "Bloom filter positives.", counts.filter_positives),
        ("sstables_data_reads", "Requests for data.", counts.data_reads),
        ("sstables_data_bytes", "Bytes of data requested.", counts.data_bytes),
        ("sstables_discarded_bytes", "Bytes of data read and not used.", counts.discarded_bytes),
    ];
    counters(sheet, &rows);
    let vain = "Bloom filter false positives.";
    let positives = counts.filter_false_positives;
    sheet.counter("sstables_filter_false_positives", vain, &[], positives);
}

fn reads(sheet: &mut Sheet, storage: &Rc<Storage>) {
    for (class, semaphore) in ["user", "system", "streaming"].into_iter().zip(storage.semaphores())
    {
        let (counts, label) = (semaphore.counters(), &[("class", class)]);
        let rows = [
            ("database_total_reads", "Reads that succeeded.", counts.total_successful_reads),
            ("database_total_reads_failed", "Reads that failed.", counts.total_failed_reads),
            (
                "database_reads_shed_due_to_overload",
                "Reads shed because the queue is full.",
                counts.total_reads_shed_due_to_overload,
            ),
            (
                "database_reads_killed_due_to_kill_limit",
                "Reads aborted for lack of memory.",
                counts.total_reads_killed_due_to_kill_limit,
            ),
            (
                "database_paused_reads_permit_based_evictions",
                "Paused reads evicted to free permits.",
                counts.permit_based_evictions,
            ),
            (
                "database_paused_reads_time_based_evictions",
                "Paused reads evicted after their time limit.",
                counts.time_based_evictions,
            ),
            ("database_reads_admitted", "Reads admitted.", counts.reads_admitted),
            (
                "database_reads_enqueued",
                "Reads queued for a permit.",
                counts.reads_enqueued_for_admission + counts.reads_enqueued_for_memory,
            ),
            ("database_sstables_read", "SSTables that reads used.", counts.sstables_read),
        ];
        for (name, help, value) in rows {
            sheet.counter(name, help, label, value);
        }
        let active = "Active reads, which hold a permit.";
        sheet.gauge("database_active_reads", active, label, counts.current_permits);
        let queued = "Reads that are queued for a permit.";
        sheet.gauge("database_queued_reads", queued, label, semaphore.waiting_count() as u64);
        let disk = "Reads that wait for the disk.";
        sheet.gauge("database_disk_reads", disk, label, counts.disk_reads);
        let paused = "Reads that are paused between pages.";
        sheet.gauge("database_paused_reads", paused, label, counts.inactive_reads);
    }
}

/// Writes to what is large.
fn writes(sheet: &mut Sheet, storage: &Rc<Storage>) {
    let large = storage.large_writes();
    counters(
        sheet,
        &[
            (
                "database_large_data_writes_warned",
                "Writes that exceeded a warning threshold of large data.",
                large.warned,
            ),
            (
                "database_large_data_writes_rejected",
                "Writes rejected because they exceed a limit of large data.",
                large.refused,
            ),
        ],
    );
}
