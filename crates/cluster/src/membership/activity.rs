//! What this node does, as it tells the others: so that each of them can show all.
//!
//! Lives on: shard 0.
//!
//! Invariants
//!  - *alone-for-free*: a node that knows no others gathers nothing.
//!  - *rates-of-a-period*: rates are those between two looks, [`PERIOD`] apart or more.

use super::Membership;
use crate::peers::Activity;
use crate::table_stats;
use crate::traffic::{Traffic, Work};
use runtime::time::Instant;
use std::time::Duration;

/// Between two looks, at least.
const PERIOD: Duration = Duration::from_secs(2);

/// What a shard had done by some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Done {
    reads: u64,
    writes: u64,
    cpu_ns: u64,
}

impl Done {
    /// By this shard.
    fn so_far() -> Done {
        let traffic = Traffic::of_shard();
        let sum = |works: &[Work]| {
            let taken = works.iter().filter_map(|work| traffic.taken(*work));
            taken.map(|taken| taken.spans.count()).sum()
        };
        Done {
            reads: sum(&[Work::Read, Work::Scan, Work::CasRead]),
            writes: sum(&[Work::Write, Work::CasWrite]),
            cpu_ns: runtime::group::totals().0,
        }
    }
}

/// The last look.
#[derive(Debug)]
pub(super) struct Looked {
    at: Instant,
    shards: Vec<Done>,
}

/// What was done between two looks, by a node with so many bytes of SSTables.
fn between(before: &[Done], now: &[Done], seconds: f64, load_bytes: u64) -> Activity {
    debug_assert!(0.0 < seconds, "rates-of-a-period: {seconds} s");
    let rate = |of: fn(&Done) -> u64| {
        let sum = |shards: &[Done]| shards.iter().map(of).sum::<u64>();
        (sum(now).saturating_sub(sum(before)) as f64 / seconds) as u32
    };
    let busy = before.iter().zip(now).map(|(before, now)| {
        let part = now.cpu_ns.saturating_sub(before.cpu_ns) as f64 / (seconds * 1e9);
        (part.min(1.0) * 1000.0) as u16
    });
    let busy_permille = busy.max().unwrap_or(0);
    Activity {
        load_bytes,
        reads: rate(|done| done.reads),
        writes: rate(|done| done.writes),
        busy_permille,
    }
}

impl Membership {
    /// Looks at what the node does, where that was not done lately.
    pub(super) async fn look(&self) {
        let is_alone = self.cluster.topology().present().count() < 2;
        let since = self.looked.borrow().as_ref().map(|looked| looked.at.elapsed());
        if is_alone || since.is_some_and(|since| since < PERIOD) {
            return;
        }
        let shards = runtime::on_all_shards(|| async { Done::so_far() }).await;
        let load_bytes = table_stats::totals(&self.cluster).await.sstable_bytes;
        let at = Instant::now();
        if let Some(before) = self.looked.replace(Some(Looked { at, shards: shards.clone() })) {
            let seconds = (at - before.at).as_secs_f64();
            self.cluster.set_activity(between(&before.shards, &shards, seconds, load_bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_all_shards_and_the_busiest_counts() {
        let done = |reads, writes, cpu_ms: u64| Done { reads, writes, cpu_ns: cpu_ms * 1_000_000 };
        let before = [done(10, 0, 0), done(0, 100, 500)];
        let now = [done(30, 0, 500), done(0, 102, 2400)];
        let activity = between(&before, &now, 2.0, 7);
        assert_eq!((activity.reads, activity.writes), (10, 1));
        assert_eq!((activity.busy_permille, activity.load_bytes), (950, 7));
        // What counts may begin anew, and clocks may differ by a little.
        let odd = between(&now, &before, 1.0, 0);
        assert_eq!((odd.reads, odd.busy_permille), (0, 0));
        assert_eq!(between(&before, &now, 0.1, 0).busy_permille, 1000);
    }
}
