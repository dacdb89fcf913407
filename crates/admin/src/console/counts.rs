//! What shards have counted by some time, and what that comes to between two times.

use cluster::traffic::{Snapshot, Traffic, Work};
use serde_json::{Value, json};
use storage::Storage;

/// What is counted where this crate does not see it: at the door of clients, by the allocator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EdgeCounts {
    /// Connections of clients, now.
    pub connections: u64,
    /// Requests let in, since the start.
    pub requests: u64,
    /// Requests under way, now.
    pub under_way: u64,
    /// Connections that wait to let a request in, now.
    pub waiting: u64,
    /// Requests refused because of overload, since the start.
    pub shed: u64,
    /// Errors answered, since the start.
    pub errors: u64,
    /// Bytes of the heap in use, now.
    pub heap_bytes: u64,
}

/// How long work took: bounds in nanoseconds that ascend, and how often it took less.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Spans {
    up_to: Vec<(u64, u64)>,
    count: u64,
}

impl Spans {
    pub(super) fn of(snapshot: &Snapshot) -> Spans {
        Spans { up_to: snapshot.up_to().collect(), count: snapshot.count() }
    }

    /// Of reads and of writes, by what is told of each kind of work.
    pub(super) fn sums(taken: impl Fn(Work) -> Spans) -> (Spans, Spans) {
        let sum = |works: &[Work]| {
            let mut sum = Spans::default();
            works.iter().for_each(|work| sum.add(&taken(*work)));
            sum
        };
        (sum(&[Work::Read, Work::Scan, Work::CasRead]), sum(&[Work::Write, Work::CasWrite]))
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    fn of_work(work: Work) -> Spans {
        let taken = Traffic::of_shard().taken(work);
        taken.map(|taken| Spans::of(&taken.spans)).unwrap_or_default()
    }

    pub(super) fn add(&mut self, other: &Spans) {
        self.count += other.count;
        if other.up_to.is_empty() {
            return;
        }
        if self.up_to.is_empty() {
            self.up_to = other.up_to.clone();
            return;
        }
        let pairs = self.up_to.iter_mut().zip(&other.up_to);
        pairs.for_each(|((_, mine), (_, its))| *mine += its);
    }

    /// What came since then.
    pub(super) fn since(&self, before: &Spans) -> Spans {
        let old = |at: usize| before.up_to.get(at).map_or(0, |(_, count)| *count);
        let up_to = self.up_to.iter().enumerate();
        let up_to = up_to.map(|(at, (bound, count))| (*bound, count.saturating_sub(old(at))));
        Spans { up_to: up_to.collect(), count: self.count.saturating_sub(before.count) }
    }

    /// The time, in microseconds, that this part of all did not exceed, about; `None`: there was
    /// nothing.
    fn quantile(&self, part: f64) -> Option<f64> {
        let rank = part * self.count as f64;
        let (mut start, mut below) = (0, 0);
        for (bound, count) in &self.up_to {
            if below < *count && rank <= *count as f64 {
                let within = (rank - below as f64) / (count - below) as f64;
                let nanos = start as f64 + within.max(0.0) * (bound - start) as f64;
                return Some(nanos / 1e3);
            }
            (start, below) = (*bound, *count);
        }
        // Longer than all that is told apart.
        (0 < self.count).then_some(start as f64 / 1e3)
    }

    /// p50, p95 and p99 in microseconds; NaN: there was nothing.
    pub(super) fn quantiles(&self) -> [f32; 3] {
        [0.5, 0.95, 0.99].map(|part| self.quantile(part).map_or(f32::NAN, |micros| micros as f32))
    }
}

/// What a shard has counted by some time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ShardCounts {
    edge: EdgeCounts,
    cpu_ns: u64,
    stalls: u64,
    memory_bytes: u64,
    memtable_bytes: u64,
    cache_bytes: u64,
    reads_active: u64,
    reads_queued: u64,
    writes_blocked: u64,
    disk_queued: u64,
    disk_under_way: u64,
    disk_read_bytes: u64,
    disk_write_bytes: u64,
    compactions: u64,
    reads: Spans,
    writes: Spans,
}

impl ShardCounts {
    /// Those of this shard.
    pub(super) fn of_shard(edge: fn() -> EdgeCounts) -> ShardCounts {
        let disk = runtime::io::total_stats();
        let (reads, writes) = Spans::sums(Spans::of_work);
        let mut counts = ShardCounts {
            edge: edge(),
            // Without the time that an idle shard spends looking for work.
            cpu_ns: runtime::group::totals().0,
            stalls: runtime::stalls().0,
            disk_queued: disk.queued,
            disk_under_way: disk.in_flight,
            disk_read_bytes: disk.read_bytes,
            disk_write_bytes: disk.write_bytes,
            reads,
            writes,
            ..ShardCounts::default()
        };
        if let Some(storage) = runtime::local::try_get::<Storage>() {
            counts.memory_bytes = storage.memory_bytes() as u64;
            counts.memtable_bytes = storage.dirty_bytes() as u64;
            counts.cache_bytes = storage.row_cache_stats().bytes_used;
            counts.writes_blocked = storage.dirty_stats().iter().map(|dirty| dirty.blocked).sum();
            counts.compactions = storage.compaction_stats().running as u64;
            for semaphore in storage.semaphores() {
                counts.reads_active += semaphore.counters().current_permits;
                counts.reads_queued += semaphore.waiting_count() as u64;
            }
        }
        counts
    }

    /// As the page shows a shard.
    fn view(&self, before: &ShardCounts, seconds: f64) -> Value {
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        let busy = rate(self.cpu_ns, before.cpu_ns) / 1e9;
        json!({
            "busy": busy.clamp(0.0, 1.0),
            "requests": rate(self.edge.requests, before.edge.requests),
            "reads": rate(self.reads.count, before.reads.count),
            "writes": rate(self.writes.count, before.writes.count),
            "connections": self.edge.connections,
            "under_way": self.edge.under_way,
            "waiting": self.edge.waiting,
            "shed": self.edge.shed,
            "errors": self.edge.errors,
            "heap_bytes": self.edge.heap_bytes,
            "memory_bytes": self.memory_bytes,
            "memtable_bytes": self.memtable_bytes,
            "cache_bytes": self.cache_bytes,
            "reads_active": self.reads_active,
            "reads_queued": self.reads_queued,
            "writes_blocked": self.writes_blocked,
            "disk_queued": self.disk_queued,
            "disk_under_way": self.disk_under_way,
            "disk_read": rate(self.disk_read_bytes, before.disk_read_bytes),
            "disk_write": rate(self.disk_write_bytes, before.disk_write_bytes),
            "compactions": self.compactions,
            "stalls": self.stalls,
        })
    }
}

/// What plots show of the node. Rates are of a second, latencies in microseconds.
pub(super) const FIGURES: [&str; 18] = [
    "reads",
    "writes",
    "requests",
    "errors",
    "read_p50",
    "read_p95",
    "read_p99",
    "write_p50",
    "write_p95",
    "write_p99",
    "busy_max",
    "busy_mean",
    "busy_min",
    "disk_read",
    "disk_write",
    "heap_bytes",
    "memtable_bytes",
    "connections",
];

/// What all shards did in some time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    /// For plots: [`FIGURES`].
    pub(super) node: [f32; FIGURES.len()],
    /// Each shard, as it was at the end.
    pub(super) shards: Value,
}

impl Point {
    /// Of what the shards had counted `seconds` ago and now.
    pub(super) fn between(before: &[ShardCounts], now: &[ShardCounts], seconds: f64) -> Point {
        let seconds = seconds.max(1e-3);
        let (mut reads, mut writes) = (Spans::default(), Spans::default());
        let nothing = ShardCounts::default();
        let old = |shard: usize| before.get(shard).unwrap_or(&nothing);
        let mut shards = Vec::new();
        for (shard, counts) in now.iter().enumerate() {
            reads.add(&counts.reads.since(&old(shard).reads));
            writes.add(&counts.writes.since(&old(shard).writes));
            shards.push(counts.view(old(shard), seconds));
        }
        let sum = |name: &str| shards.iter().filter_map(|shard| shard[name].as_f64()).sum::<f64>();
        let errors = |all: &[ShardCounts]| all.iter().map(|it| it.edge.errors).sum::<u64>();
        let busy = || shards.iter().filter_map(|shard| shard["busy"].as_f64());
        let errors = errors(now).saturating_sub(errors(before)) as f64 / seconds;
        let ([r50, r95, r99], [w50, w95, w99]) = (reads.quantiles(), writes.quantiles());
        let node = [
            sum("reads") as f32,
            sum("writes") as f32,
            sum("requests") as f32,
            errors as f32,
            r50,
            r95,
            r99,
            w50,
            w95,
            w99,
            busy().fold(0.0, f64::max) as f32,
            (busy().sum::<f64>() / shards.len().max(1) as f64) as f32,
            busy().fold(1.0, f64::min) as f32,
            sum("disk_read") as f32,
            sum("disk_write") as f32,
            sum("heap_bytes") as f32,
            sum("memtable_bytes") as f32,
            sum("connections") as f32,
        ];
        Point { node, shards: shards.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(up_to: &[(u64, u64)], count: u64) -> Spans {
        Spans { up_to: up_to.to_vec(), count }
    }

    #[test]
    fn quantiles_lie_in_the_buckets_of_their_ranks() {
        let check = |spans: &Spans, part, expected: Option<f64>| {
            assert_eq!(spans.quantile(part), expected, "{part} of {spans:?}");
        };
        check(&Spans::default(), 0.5, None);
        check(&spans(&[(1000, 0), (2000, 0)], 0), 0.5, None);
        let even = spans(&[(1000, 0), (2000, 10), (4000, 10)], 10);
        check(&even, 0.5, Some(1.5));
        check(&even, 1.0, Some(2.0));
        let two = spans(&[(1000, 90), (2000, 90), (3000, 100)], 100);
        check(&two, 0.9, Some(1.0));
        check(&two, 0.95, Some(2.5));
        // Beyond the last bound nothing is told apart.
        check(&spans(&[(1000, 0)], 5), 0.5, Some(1.0));
    }

    #[test]
    fn what_came_between_is_told() {
        let before = spans(&[(1000, 5), (2000, 5)], 5);
        let after = spans(&[(1000, 5), (2000, 15)], 15);
        assert_eq!(after.since(&before), spans(&[(1000, 0), (2000, 10)], 10));
        assert_eq!(after.since(&Spans::default()), after);
        let mut sum = Spans::default();
        sum.add(&before);
        sum.add(&after);
        assert_eq!(sum, spans(&[(1000, 10), (2000, 20)], 20));
    }

    #[test]
    fn a_point_is_the_difference_of_all_shards() {
        let shard = |requests, cpu_ns, read: u64, connections| ShardCounts {
            edge: EdgeCounts { requests, errors: requests / 10, connections, ..Default::default() },
            cpu_ns,
            reads: spans(&[(1000, 0), (3000, read)], read),
            ..ShardCounts::default()
        };
        let before = [shard(100, 0, 10, 1), shard(0, 0, 0, 0)];
        let now = [shard(300, 1_000_000_000, 30, 3), shard(40, 500_000_000, 0, 2)];
        let Point { node, shards } = Point::between(&before, &now, 2.0);
        let figure = |node: &[f32], name: &str| {
            node[FIGURES.iter().position(|known| *known == name).unwrap()]
        };
        let check = |name, expected: f32| assert_eq!(figure(&node, name), expected, "{name}");
        check("requests", 120.0);
        check("reads", 10.0);
        check("errors", 12.0);
        check("busy_max", 0.5);
        check("busy_mean", 0.375);
        check("busy_min", 0.25);
        check("read_p50", 2.0);
        check("read_p95", 2.9);
        check("read_p99", 2.98);
        check("connections", 5.0);
        assert!(figure(&node, "write_p50").is_nan());
        assert_eq!((&shards[0]["connections"], &shards[1]["requests"]), (&json!(3), &json!(20.0)));
        // A shard that was not there, and a clock that stood still.
        let Point { node, .. } = Point::between(&[], &now, 0.0);
        assert_eq!((figure(&node, "busy_min"), figure(&node, "busy_max")), (1.0, 1.0));
    }
}
