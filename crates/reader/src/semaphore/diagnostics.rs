//! What a semaphore tells about itself: counters, and a dump for the log.

use super::admission::Limits;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What happened since the start, and what is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub permit_based_evictions: u64,
    pub time_based_evictions: u64,
    /// Inactive now.
    pub inactive_reads: u64,
    pub total_successful_reads: u64,
    pub total_failed_reads: u64,
    pub total_reads_shed_due_to_overload: u64,
    pub total_reads_killed_due_to_kill_limit: u64,
    pub reads_admitted: u64,
    pub reads_enqueued_for_admission: u64,
    pub reads_enqueued_for_memory: u64,
    pub reads_admitted_immediately: u64,
    pub reads_queued_because_ready_list: u64,
    pub reads_queued_because_need_cpu_permits: u64,
    pub reads_queued_because_disk: u64,
    pub reads_queued_because_memory_resources: u64,
    pub reads_queued_because_count_resources: u64,
    pub reads_queued_with_eviction: u64,
    pub total_permits: u64,
    /// There now.
    pub current_permits: u64,
    pub need_cpu_permits: u64,
    pub awaits_permits: u64,
    /// Admitted reads that wait for the disk or another shard now.
    pub disk_reads: u64,
    /// SSTables that reads have opened.
    pub sstables_read: u64,
}

impl Counters {
    /// Names and values, in the order of the dump.
    pub fn all(&self) -> [(&'static str, u64); 23] {
        [
            ("permit_based_evictions", self.permit_based_evictions),
            ("time_based_evictions", self.time_based_evictions),
            ("inactive_reads", self.inactive_reads),
            ("total_successful_reads", self.total_successful_reads),
            ("total_failed_reads", self.total_failed_reads),
            ("total_reads_shed_due_to_overload", self.total_reads_shed_due_to_overload),
            ("total_reads_killed_due_to_kill_limit", self.total_reads_killed_due_to_kill_limit),
            ("reads_admitted", self.reads_admitted),
            ("reads_enqueued_for_admission", self.reads_enqueued_for_admission),
            ("reads_enqueued_for_memory", self.reads_enqueued_for_memory),
            ("reads_admitted_immediately", self.reads_admitted_immediately),
            ("reads_queued_because_ready_list", self.reads_queued_because_ready_list),
            ("reads_queued_because_need_cpu_permits", self.reads_queued_because_need_cpu_permits),
            ("reads_queued_because_disk", self.reads_queued_because_disk),
            ("reads_queued_because_memory_resources", self.reads_queued_because_memory_resources),
            ("reads_queued_because_count_resources", self.reads_queued_because_count_resources),
            ("reads_queued_with_eviction", self.reads_queued_with_eviction),
            ("total_permits", self.total_permits),
            ("current_permits", self.current_permits),
            ("need_cpu_permits", self.need_cpu_permits),
            ("awaits_permits", self.awaits_permits),
            ("disk_reads", self.disk_reads),
            ("sstables_read", self.sstables_read),
        ]
    }
}

/// Permits of one table, operation and state, or one permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// `keyspace.table`.
    pub table: String,
    pub operation: &'static str,
    pub state: &'static str,
    pub permits: u64,
    pub count: i64,
    pub memory_bytes: i64,
}

/// The state of a semaphore.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    pub name: &'static str,
    pub limits: Limits,
    /// Its own, and what it has borrowed or could.
    pub memory_bytes: usize,
    /// How many may wait for the disk.
    pub awaits_max: usize,
    pub used_count: i64,
    pub used_bytes: i64,
    /// One per permit.
    pub permits: Vec<Line>,
    pub counters: Counters,
}

const LINES_MAX: usize = 20;

/// The dump: why it was made, whose permit met it, what is short, who holds what.
pub fn render(snapshot: &Snapshot, reason: &str, trigger: Option<&Line>) -> String {
    let Snapshot { name, limits, memory_bytes, used_count, used_bytes, permits, counters, .. } =
        snapshot;
    let mut out = String::new();
    let header = format!(
        "Semaphore {name} with {used_count}/{} count and {used_bytes}/{memory_bytes} memory \
         resources: {reason}",
        limits.count,
    );
    let _ = writeln!(out, "{header}, dumping permit diagnostics:");
    if let Some(Line { table, operation, state, .. }) = trigger {
        let _ = writeln!(out, "Trigger permit: {table} {operation} {state}");
    }
    let _ = writeln!(out, "Identified bottleneck(s): {}\n", bottlenecks(snapshot));
    let mut groups: BTreeMap<(&str, &str, &str), (u64, i64, i64)> = BTreeMap::new();
    for line in permits {
        let key = (line.table.as_str(), line.operation, line.state);
        let group = groups.entry(key).or_default();
        group.0 += line.permits;
        group.1 += line.count;
        group.2 += line.memory_bytes;
    }
    let lines: u64 = groups.values().map(|(permits, ..)| permits).sum();
    debug_assert!(lines == permits.len() as u64, "{lines} lines of {} permits", permits.len());
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, (_, _, bytes))| std::cmp::Reverse(*bytes));
    out.push_str("permits count memory table/operation/state\n");
    let shown = groups.len().min(LINES_MAX);
    for ((table, operation, state), (permits, count, bytes)) in &groups[..shown] {
        let _ = writeln!(out, "{permits} {count} {bytes} {table}/{operation}/{state}");
    }
    let rest: u64 = groups[shown..].iter().map(|(_, (permits, ..))| permits).sum();
    if 0 < rest {
        let _ = writeln!(out, "{rest} permits omitted");
    }
    let _ = writeln!(out, "{} {used_count} {used_bytes} total\n\nStats:", permits.len());
    for (name, value) in counters.all() {
        let _ = writeln!(out, "{name}: {value}");
    }
    out
}

fn bottlenecks(snapshot: &Snapshot) -> String {
    let Snapshot { limits, memory_bytes, awaits_max, used_count, used_bytes, counters, .. } =
        snapshot;
    let mut found = Vec::new();
    let busy = counters.need_cpu_permits.saturating_sub(counters.awaits_permits);
    if limits.cpu_concurrency as u64 <= busy {
        found.push("CPU");
    }
    if *memory_bytes as i64 <= *used_bytes {
        found.push("memory");
    }
    let is_full = limits.count as i64 <= *used_count && 0 < counters.awaits_permits;
    if is_full || *awaits_max as u64 <= counters.awaits_permits {
        found.push("disk");
    }
    if found.is_empty() { "none".to_string() } else { found.join(", ") }
}
