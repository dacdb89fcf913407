//! What the parts of a node count, as samples for Prometheus. Names are those of ScyllaDB where it
//! counts the same.
//!
//! Invariants
//!  - *by-shard*: every sample says of which shard it is.

use admin::metrics::{Kind, Sample};
use native::Server;
use query::Processor;
use replication::Coordinator;
use runtime::io::IoClass;
use std::rc::Rc;
use storage::{Log, Storage};

/// The samples of all shards.
pub(crate) async fn gather() -> Vec<Sample> {
    runtime::on_all_shards(|| async { of_shard() }).await.into_iter().flatten().collect()
}

fn of_shard() -> Vec<Sample> {
    let mut sheet = Sheet { shard: runtime::shard_id().to_string(), samples: Vec::new() };
    reactor(&mut sheet);
    if let Some(storage) = runtime::local::try_get::<Storage>() {
        memory(&mut sheet, &storage);
        compactions(&mut sheet, &storage);
        logs(&mut sheet, &storage);
        row_cache(&mut sheet, &storage);
        index_cache(&mut sheet, &storage);
        reads(&mut sheet, &storage);
    }
    if let Some(processor) = runtime::local::try_get::<Processor>() {
        statements(&mut sheet, &processor);
        drift(&mut sheet, &processor);
        functions(&mut sheet, &processor);
    }
    if let Some(coordinator) = runtime::local::try_get::<Coordinator>() {
        expiry(&mut sheet, &coordinator);
    }
    if let Some(server) = runtime::local::try_get::<Server>() {
        transport(&mut sheet, &server);
    }
    sheet.samples
}

/// The samples of one shard.
struct Sheet {
    shard: String,
    samples: Vec<Sample>,
}

type Label<'l> = Option<(&'static str, &'l str)>;

impl Sheet {
    fn counter(&mut self, name: &'static str, help: &'static str, label: Label<'_>, value: u64) {
        self.push(Kind::Counter, name, help, label, value);
    }

    fn gauge(&mut self, name: &'static str, help: &'static str, label: Label<'_>, value: u64) {
        self.push(Kind::Gauge, name, help, label, value);
    }

    fn push(
        &mut self,
        kind: Kind,
        name: &'static str,
        help: &'static str,
        label: Label<'_>,
        value: u64,
    ) {
        let mut labels = vec![("shard", self.shard.clone())];
        labels.extend(label.map(|(name, value)| (name, value.to_string())));
        let (value, buckets) = (value as f64, Vec::new());
        self.samples.push(Sample { name, help, kind, labels, value, buckets });
    }
}

/// How far the timestamps of clients are from the node's clock.
fn drift(sheet: &mut Sheet, processor: &Rc<Processor>) {
    let drift = &processor.options().met.drift;
    let help = "Distance of clients' timestamps from the clock of the node, in microseconds.";
    let buckets =
        drift.up_to().map(|(bound, count)| (bound.map_or(f64::INFINITY, |it| it as f64), count));
    sheet.samples.push(Sample {
        name: "transport_cql_client_timestamp_drift_histogram",
        help,
        kind: Kind::Histogram,
        labels: vec![("shard", sheet.shard.clone())],
        value: drift.sum_micros() as f64,
        buckets: buckets.collect(),
    });
}

fn reactor(sheet: &mut Sheet) {
    sheet.counter(
        "reactor_stalls",
        "Tasks that held the shard longer than blocked_reactor_notify_ms.",
        None,
        runtime::stalls().0,
    );
    sheet.counter(
        "reactor_cpu_busy_ms",
        "Processor time of the shard, in milliseconds.",
        None,
        runtime::counters::cpu_ns() / 1_000_000,
    );
    for (name, group) in runtime::group::all_stats() {
        let label = Some(("group", name.as_str()));
        let busy = "Processor time of a scheduling group, in milliseconds.";
        sheet.counter("scheduler_runtime_ms", busy, label, group.cpu_ns / 1_000_000);
        let polls = "How often tasks of a scheduling group ran.";
        sheet.counter("scheduler_tasks_processed", polls, label, group.polls);
        let ready = "Tasks of a scheduling group that are ready to run.";
        sheet.gauge("scheduler_queue_length", ready, label, group.queue_length as u64);
        let shares = "Shares of a scheduling group.";
        sheet.gauge("scheduler_shares", shares, label, u64::from(group.shares));
    }
    for kind in IoClass::ALL {
        let (stats, label) = (runtime::io::stats(kind), Some(("class", kind.name())));
        sheet.counter("io_queue_total_read_ops", "Reads of the disk.", label, stats.reads);
        let bytes = "Bytes that reads of the disk asked for.";
        sheet.counter("io_queue_total_read_bytes", bytes, label, stats.read_bytes);
        sheet.counter("io_queue_total_write_ops", "Writes to the disk.", label, stats.writes);
        let bytes = "Bytes of writes to the disk.";
        sheet.counter("io_queue_total_write_bytes", bytes, label, stats.write_bytes);
        sheet.counter("io_queue_total_syncs", "Syncs of files.", label, stats.syncs);
        let queued = "Requests that wait for their turn at the disk.";
        sheet.gauge("io_queue_queue_length", queued, label, stats.queued);
        sheet.gauge("io_queue_disk_queue_length", "Requests at the disk.", label, stats.in_flight);
    }
}

fn memory(sheet: &mut Sheet, storage: &Rc<Storage>) {
    let live = u64::try_from(memory::live_bytes()).unwrap_or(0);
    sheet.gauge("memory_allocated_memory", "Bytes of the heap in use.", None, live);
    let total = storage.memory_bytes() as u64;
    sheet.gauge("memory_total_memory", "Bytes that the shard may have.", None, total);
    let large = storage.large_writes();
    let warned = "Writes to what is larger than a lower limit of large data.";
    sheet.counter("database_large_data_writes_warned", warned, None, large.warned);
    let refused = "Writes refused: to what is larger than a limit of large data.";
    sheet.counter("database_large_data_writes_rejected", refused, None, large.refused);
    for (pool, dirty) in ["regular", "system"].into_iter().zip(storage.dirty_stats()) {
        let label = Some(("pool", pool));
        let real = "Bytes of memtables.";
        sheet.gauge("memory_dirty_bytes", real, label, dirty.real_bytes);
        let unspooled = "Bytes of memtables that no SSTable has yet.";
        sheet.gauge("memory_unspooled_dirty_bytes", unspooled, label, dirty.unspooled_bytes);
        let blocked = "Writes that wait for memory of memtables.";
        sheet.gauge("memory_requests_blocked_memory_current", blocked, label, dirty.blocked);
        let blocked = "Writes that have waited for memory of memtables.";
        sheet.counter("memory_requests_blocked_memory", blocked, label, dirty.blocked_total);
        let late = "Writes that waited for memory of memtables in vain.";
        sheet.counter("memory_requests_timed_out_memory", late, label, dirty.timed_out_total);
        let micros = "How long writes waited for memory of memtables, in microseconds.";
        sheet.counter("memory_requests_blocked_micros", micros, label, dirty.blocked_micros);
    }
}

fn logs(sheet: &mut Sheet, storage: &Rc<Storage>) {
    for (name, log) in [("data", Log::Data), ("schema", Log::Schema)] {
        let Some(stats) = storage.log_stats(log) else { continue };
        let label = Some(("log", name));
        let segments = "Segments that hold what no SSTable has yet.";
        sheet.gauge("commitlog_segments", segments, label, stats.segments);
        sheet.counter("commitlog_alloc", "Segments made or recycled.", label, stats.allocations);
        sheet.counter("commitlog_cycle", "Writes of the buffer.", label, stats.cycles);
        sheet.counter("commitlog_flush", "Syncs.", label, stats.syncs);
        let written = "Bytes written, padding included.";
        sheet.counter("commitlog_bytes_written", written, label, stats.written_bytes);
        sheet.counter("commitlog_slack", "Bytes of padding.", label, stats.slack_bytes);
        sheet.gauge("commitlog_disk_total_bytes", "Bytes of all files.", label, stats.disk_bytes);
        let asked = "Flushes that were asked for because the log was full.";
        sheet.counter("commitlog_flush_limit_exceeded", asked, label, stats.flush_requests);
        let blocked = "Writes that have waited for a segment.";
        sheet.counter("commitlog_requests_blocked_memory", blocked, label, stats.blocked);
    }
}

fn compactions(sheet: &mut Sheet, storage: &Rc<Storage>) {
    let stats = storage.compaction_stats();
    let running = "Merges that are under way.";
    sheet.gauge("compaction_manager_compactions", running, None, stats.running as u64);
    let pending = "Merges that the options of tables ask for.";
    let count = stats.pace.pending as u64;
    sheet.gauge("compaction_manager_pending_compactions", pending, None, count);
    let held = "Merges that wait for room on the disk.";
    sheet.gauge("compaction_manager_held_for_space", held, None, stats.held as u64);
    let finished = "Merges that have ended as they should.";
    sheet.counter("compaction_manager_completed_compactions", finished, None, stats.finished);
    let failed = "Merges that met an error.";
    sheet.counter("compaction_manager_failed_compactions", failed, None, stats.failed);
    let read = "Bytes on the disk of the inputs of merges that have ended.";
    sheet.counter("compaction_manager_bytes_compacted", read, None, stats.bytes_in);
    let written = "Bytes on the disk of the outputs of merges that have ended.";
    sheet.counter("compaction_manager_bytes_written", written, None, stats.bytes_out);
    let backlog = "Bytes that merges are to write until there is nothing to merge.";
    sheet.gauge("compaction_manager_backlog", backlog, None, stats.pace.backlog as u64);
    let normalized = "The same, in parts of the memory of the shard.";
    sheet.samples.push(Sample {
        name: "compaction_manager_normalized_backlog",
        help: normalized,
        kind: Kind::Gauge,
        labels: vec![("shard", sheet.shard.clone())],
        value: stats.pace.normalized,
        buckets: Vec::new(),
    });
    let damaged = "SSTables that were found damaged, and are merged no more.";
    let count = storage.damaged_sstables() as u64;
    sheet.gauge("compaction_manager_quarantined_sstables", damaged, None, count);
}

fn row_cache(sheet: &mut Sheet, storage: &Rc<Storage>) {
    let stats = storage.row_cache_stats();
    let counters = [
        ("cache_partition_hits", "Partitions looked up and known.", stats.partition_hits),
        ("cache_partition_misses", "Partitions looked up and unknown.", stats.partition_misses),
        ("cache_partition_insertions", "Partitions put in.", stats.partition_insertions),
        ("cache_partition_evictions", "Partitions gone for others.", stats.partition_evictions),
        ("cache_partition_removals", "Partitions invalidated.", stats.partition_removals),
        ("cache_row_hits", "Rows read from the cache.", stats.row_hits),
        ("cache_row_misses", "Rows read below the cache.", stats.row_misses),
        ("cache_row_insertions", "Rows put in.", stats.row_insertions),
        ("cache_row_evictions", "Rows gone for others.", stats.row_evictions),
        ("cache_reads_with_misses", "Reads that went below it.", stats.reads_with_misses),
        ("cache_mispopulations", "What was read and could not go in.", stats.mispopulations),
    ];
    for (name, help, value) in counters {
        sheet.counter(name, help, None, value);
    }
    sheet.gauge("cache_partitions", "Partitions in the row cache.", None, stats.partitions);
    sheet.gauge("cache_bytes_used", "Bytes of the row cache.", None, stats.bytes_used);
    sheet.gauge("cache_bytes_total", "Bytes that it may have.", None, stats.bytes_limit);
}

fn index_cache(sheet: &mut Sheet, storage: &Rc<Storage>) {
    let stats = storage.index_cache().stats();
    for (kind, pages) in [("partitions", stats.partitions), ("files", stats.files)] {
        let label = Some(("pages", kind));
        sheet.counter("sstables_index_page_hits", "Index pages found.", label, pages.hits);
        sheet.counter("sstables_index_page_misses", "Index pages loaded.", label, pages.misses);
        let blocks = "Index pages that another read was loading.";
        sheet.counter("sstables_index_page_blocks", blocks, label, pages.blocks);
        let evictions = "Index pages gone for others.";
        sheet.counter("sstables_index_page_evictions", evictions, label, pages.evictions);
        let populations = "Index pages put into the cache.";
        sheet.counter("sstables_index_page_populations", populations, label, pages.populations);
        let used = "Bytes of cached index pages.";
        sheet.gauge("sstables_index_page_used_bytes", used, label, pages.bytes);
    }
    let counts = sstable::ReadStats::of_shard().counts();
    let counters = [
        ("sstables_single_partition_reads", "Reads of one partition.", counts.single_reads),
        ("sstables_range_partition_reads", "Reads of partition ranges.", counts.range_reads),
        ("sstables_partition_seeks", "Partitions found by an index.", counts.partition_seeks),
        ("sstables_filter_positives", "Keys that a filter let through.", counts.filter_positives),
        ("sstables_data_reads", "Requests for data.", counts.data_reads),
        ("sstables_data_bytes", "Bytes of data asked for.", counts.data_bytes),
        ("sstables_discarded_bytes", "Bytes of data read in vain.", counts.discarded_bytes),
    ];
    for (name, help, value) in counters {
        sheet.counter(name, help, None, value);
    }
    let vain = "Keys that a filter let through and that were not there.";
    let positives = counts.filter_false_positives;
    sheet.counter("sstables_filter_false_positives", vain, None, positives);
}

fn reads(sheet: &mut Sheet, storage: &Rc<Storage>) {
    for (class, semaphore) in ["user", "system", "streaming"].into_iter().zip(storage.semaphores())
    {
        let (counters, label) = (semaphore.counters(), Some(("class", class)));
        let rows = [
            ("database_total_reads", "Reads that ended well.", counters.total_successful_reads),
            ("database_total_reads_failed", "Reads that failed.", counters.total_failed_reads),
            (
                "database_reads_shed_due_to_overload",
                "Reads refused because too many wait.",
                counters.total_reads_shed_due_to_overload,
            ),
            (
                "database_reads_killed_due_to_kill_limit",
                "Reads ended for lack of memory.",
                counters.total_reads_killed_due_to_kill_limit,
            ),
            (
                "database_paused_reads_permit_based_evictions",
                "Paused reads that made room for others.",
                counters.permit_based_evictions,
            ),
            ("database_sstables_read", "SSTables that reads opened.", counters.sstables_read),
        ];
        for (name, help, value) in rows {
            sheet.counter(name, help, label, value);
        }
        let active = "Reads with a permit.";
        sheet.gauge("database_active_reads", active, label, counters.current_permits);
        let queued = "Reads that wait for a permit.";
        sheet.gauge("database_queued_reads", queued, label, semaphore.waiting_count() as u64);
        let disk = "Reads that wait for the disk.";
        sheet.gauge("database_disk_reads", disk, label, counters.disk_reads);
        let paused = "Reads that are paused between pages.";
        sheet.gauge("database_paused_reads", paused, label, counters.inactive_reads);
    }
}

fn transport(sheet: &mut Sheet, server: &Rc<Server>) {
    let counters = server.admission_counters();
    let clients = server.clients().len() as u64;
    sheet.gauge("transport_current_connections", "Connections of clients.", None, clients);
    let admitted = "Requests let in.";
    sheet.counter("transport_requests_admitted", admitted, None, counters.requests_admitted);
    let serving = "Requests under way.";
    sheet.gauge("transport_requests_serving", serving, None, counters.requests_under_way);
    let shed = "Requests answered OVERLOADED.";
    sheet.counter("transport_requests_shed", shed, None, counters.requests_shed);
    let blocked = "Requests that have waited to be let in.";
    sheet.counter("transport_requests_blocked_memory", blocked, None, counters.requests_blocked);
    let waiting = "Connections that wait to let a request in.";
    let now = counters.connections_waiting;
    sheet.gauge("transport_requests_blocked_memory_current", waiting, None, now);
    let memory = "Bytes of requests under way.";
    sheet.gauge("transport_requests_memory", memory, None, counters.memory_bytes);
    for (code, count) in server.errors() {
        let label = Some(("type", error_type(code)));
        sheet.counter("transport_cql_errors_total", "Errors answered, by type.", label, count);
    }
}

/// What an error's code is called.
fn error_type(code: u32) -> &'static str {
    match code {
        0x0000 => "server_error",
        0x000a => "protocol_error",
        0x0100 => "authentication",
        0x1000 => "unavailable",
        0x1001 => "overloaded",
        0x1003 => "truncate",
        0x1100 => "write_timeout",
        0x1200 => "read_timeout",
        0x1300 => "read_failure",
        0x1400 => "function_failure",
        0x1500 => "write_failure",
        0x2000 => "syntax_error",
        0x2100 => "unauthorized",
        0x2200 => "invalid",
        0x2300 => "config",
        0x2400 => "already_exists",
        0x2500 => "unprepared",
        _ => "other",
    }
}

fn expiry(sheet: &mut Sheet, coordinator: &Rc<Coordinator>) {
    let expired = coordinator.expired();
    let passes = "Scans of all tables whose rows expire by a column.";
    sheet.counter("expiration_scan_passes", passes, None, expired.passes.get());
    let tables = "Tables that were scanned for rows that have expired.";
    sheet.counter("expiration_scan_table", tables, None, expired.tables.get());
    let rows = "Rows that had expired and were deleted.";
    sheet.counter("expiration_items_deleted", rows, None, expired.rows.get());
}

fn functions(sheet: &mut Sheet, processor: &Rc<Processor>) {
    let stats = processor.function_stats();
    let hits = "Calls of functions in WebAssembly that found an instance.";
    sheet.counter("user_functions_cache_hits", hits, None, stats.hits);
    let misses = "Calls of functions in WebAssembly that made an instance.";
    sheet.counter("user_functions_cache_misses", misses, None, stats.misses);
    let count = "Instances that wait for calls.";
    // So it is spelt where dashboards look for it.
    sheet.gauge("user_functions_cache_instace_count_any", count, None, stats.instances);
    sheet.gauge("user_functions_cache_total_size", "Their bytes.", None, stats.bytes);
}

fn statements(sheet: &mut Sheet, processor: &Rc<Processor>) {
    let met = &processor.options().met;
    for (guardrail, count) in met.guardrails() {
        let help = "Statements that met this rule of the node.";
        sheet.counter(guardrail.metric(), help, None, count);
    }
    for (level, count) in met.write_levels() {
        let label = Some(("consistency_level", level.name()));
        let help = "Writes that asked for this consistency level.";
        sheet.counter("cql_writes_per_consistency_level", help, label, count);
    }
    for (kind, stats) in ["prepared", "unprepared"].into_iter().zip(processor.cache_stats()) {
        let label = Some(("statements", kind));
        sheet.gauge("cql_prepared_cache_size", "Statements kept.", label, stats.entries);
        let bytes = "Bytes of statements kept.";
        sheet.gauge("cql_prepared_cache_memory_footprint", bytes, label, stats.bytes);
        let gone = "Statements gone for others.";
        sheet.counter("cql_prepared_cache_evictions", gone, label, stats.evictions);
    }
}
