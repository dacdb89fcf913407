//! What the reactor, its scheduling groups and the disk did.

use super::{counters, gauges};
use admin::metrics::{Kind, Sheet};
use runtime::io::IoClass;
use runtime::time::Instant;
use std::cell::Cell;
use std::time::Duration;

/// The shortest span that a utilization is told of.
const LEAST_SPAN: Duration = Duration::from_secs(1);

/// How busy a shard is between two looks that are a second apart at least. Lives in
/// `runtime::local`.
#[derive(Debug)]
struct Busy {
    /// When, and what the tasks had taken by then.
    last: Cell<(Instant, u64)>,
    percent: Cell<f64>,
}

impl Default for Busy {
    fn default() -> Busy {
        Busy { last: Cell::new((Instant::ZERO, 0)), percent: Cell::new(0.0) }
    }
}

impl Busy {
    /// With what the tasks have taken by `now`.
    fn look(&self, now: Instant, busy_ns: u64) -> f64 {
        let (before, busy_before) = self.last.get();
        let span = now - before;
        if before == Instant::ZERO || LEAST_SPAN <= span {
            let part = busy_ns.saturating_sub(busy_before) as f64 / span.as_nanos() as f64;
            let is_first = before == Instant::ZERO;
            self.percent.set(if is_first { 0.0 } else { (100.0 * part).clamp(0.0, 100.0) });
            self.last.set((now, busy_ns));
        }
        self.percent.get()
    }
}

pub(super) fn reactor(sheet: &mut Sheet) {
    let groups = runtime::group::all_stats();
    let (busy_ns, polls) = runtime::group::totals();
    let busy = runtime::local::get_or_default::<Busy>();
    let help = "Percentage of time that the shard ran tasks since the last scrape.";
    let percent = busy.look(Instant::now(), busy_ns);
    sheet.push(Kind::Gauge, ("reactor_utilization", help), &[], percent);
    let cpu_ms = runtime::counters::cpu_ns() / 1_000_000;
    counters(
        sheet,
        &[
            (
                "reactor_stalls",
                "Reactor stalls: tasks that ran longer than blocked_reactor_notify_ms.",
                runtime::stalls().0,
            ),
            ("reactor_cpu_busy_ms", "Processor time of the shard, in milliseconds.", cpu_ms),
            ("reactor_polls", "How often tasks of the shard were polled.", polls),
            ("reactor_tasks_processed", "Tasks of the shard that ran.", polls),
        ],
    );
    for (name, group) in &groups {
        let labels = &[("group", name.as_str())];
        let busy = "Processor time of a scheduling group, in milliseconds.";
        sheet.counter("scheduler_runtime_ms", busy, labels, group.cpu_ns / 1_000_000);
        let polls = "How often tasks of a scheduling group ran.";
        sheet.counter("scheduler_tasks_processed", polls, labels, group.polls);
        let ready = "Tasks of a scheduling group that are ready to run.";
        sheet.gauge("scheduler_queue_length", ready, labels, group.queue_length as u64);
        let shares = "Shares of a scheduling group.";
        sheet.gauge("scheduler_shares", shares, labels, u64::from(group.shares));
    }
}

pub(super) fn disk(sheet: &mut Sheet) {
    let mut all = runtime::io::IoStats::default();
    for class in IoClass::ALL {
        let stats = runtime::io::stats(class);
        all.reads += stats.reads;
        all.read_bytes += stats.read_bytes;
        all.writes += stats.writes;
        all.write_bytes += stats.write_bytes;
        all.syncs += stats.syncs;
        all.queued += stats.queued;
        let labels = &[("class", class.name())];
        let rows = [
            ("io_queue_total_operations", "Disk requests.", stats.reads + stats.writes),
            (
                "io_queue_total_bytes",
                "Bytes of disk requests.",
                stats.read_bytes + stats.write_bytes,
            ),
            ("io_queue_total_read_ops", "Disk reads.", stats.reads),
            ("io_queue_total_read_bytes", "Bytes of disk reads.", stats.read_bytes),
            ("io_queue_total_write_ops", "Disk writes.", stats.writes),
            ("io_queue_total_write_bytes", "Bytes of disk writes.", stats.write_bytes),
            ("io_queue_total_syncs", "File syncs.", stats.syncs),
        ];
        rows.iter().for_each(|(name, help, value)| sheet.counter(name, help, labels, *value));
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        let waited = "Time that disk requests were queued, in seconds.";
        let name = ("io_queue_total_delay_sec", waited);
        sheet.push(Kind::Counter, name, labels, seconds(stats.queue_ns));
        let taken = "Time that disk requests took, in seconds.";
        let name = ("io_queue_total_exec_sec", taken);
        sheet.push(Kind::Counter, name, labels, seconds(stats.service_ns));
        let queued = "Disk requests in the queue.";
        sheet.gauge("io_queue_queue_length", queued, labels, stats.queued);
        let at_disk = "Disk requests in flight.";
        sheet.gauge("io_queue_disk_queue_length", at_disk, labels, stats.in_flight);
    }
    counters(
        sheet,
        &[
            ("reactor_aio_reads", "Disk reads.", all.reads),
            ("reactor_aio_bytes_read", "Bytes of disk reads.", all.read_bytes),
            ("reactor_aio_writes", "Disk writes.", all.writes),
            ("reactor_aio_bytes_write", "Bytes of disk writes.", all.write_bytes),
            ("reactor_fsyncs", "File syncs.", all.syncs),
        ],
    );
    gauges(
        sheet,
        &[("reactor_io_queue_requests", "Requests that are queued for the disk.", all.queued)],
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_as_busy_as_since_the_last_look() {
        let busy = Busy::default();
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        assert_eq!(busy.look(at(5_000), 900_000_000), 0.0);
        assert_eq!(busy.look(at(7_000), 1_900_000_000), 50.0);
        assert_eq!(busy.look(at(7_500), 2_400_000_000), 50.0, "too early to say");
        assert_eq!(busy.look(at(9_000), 9_900_000_000), 100.0);
    }
}
