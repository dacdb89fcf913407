//! Waiting until a node does nothing of its own accord: until what was just written is flushed,
//! merged, compacted, and the memory of it freed. What is measured next is then the operations.
//!
//! Invariants
//!  - *bounded*: after [`WAIT_MAX`] it goes on, and says so.

use runtime::group::{BACKGROUND, COMPACTION, FLUSH};
use runtime::time::{Instant, sleep};
use std::time::Duration;

/// Between two looks. A task of these groups that waits that long waits for the disk.
const LOOK: Duration = Duration::from_millis(100);
/// Looks in a row that must find nothing.
const LOOKS: u32 = 3;
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// What the groups that work of their own accord have done, and have under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    polls: u64,
    /// Tasks that are ready, and requests of any class at the disk or waiting for it.
    under_way: u64,
}

impl Look {
    fn now() -> Look {
        let stats = [FLUSH, COMPACTION, BACKGROUND].map(runtime::group::stats);
        let io = runtime::io::total_stats();
        let ready: u64 = stats.iter().map(|group| group.queue_length as u64).sum();
        Look {
            polls: stats.iter().map(|group| group.polls).sum(),
            under_way: ready + io.in_flight + io.queued,
        }
    }

    /// Whether nothing was done since `before`, and nothing is under way.
    fn is_quiet_since(self, before: Look) -> bool {
        self.polls == before.polls && self.under_way == 0
    }
}

/// Waits until all shards are quiet.
pub(crate) async fn wait() {
    let patient = runtime::on_all_shards(|| async { settled(LOOK, WAIT_MAX).await });
    if patient.await.contains(&false) {
        eprintln!("flushes or compactions are still under way after {WAIT_MAX:?}");
    }
}

/// Waits until this shard is quiet; whether it was within `wait_max`.
async fn settled(look: Duration, wait_max: Duration) -> bool {
    let (started, mut looks, mut before) = (Instant::now(), 0, Look::now());
    while looks < LOOKS {
        if wait_max <= started.elapsed() {
            return false;
        }
        sleep(look).await;
        let now = Look::now();
        looks = if now.is_quiet_since(before) { looks + 1 } else { 0 };
        before = now;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::task::{Scope, yield_now};
    use std::cell::Cell;
    use std::rc::Rc;

    #[test]
    fn a_shard_is_quiet_once_its_own_work_has_ended() {
        runtime::sim::test(1, || async {
            assert!(settled(LOOK, WAIT_MAX).await, "nothing goes on");
            let (scope, left) = (Scope::new(), Rc::new(Cell::new(50)));
            let works = left.clone();
            scope.spawn_in(COMPACTION, async move {
                while 0 < works.get() {
                    works.set(works.get() - 1);
                    sleep(LOOK / 2).await;
                }
            });
            assert!(!settled(LOOK, 10 * LOOK).await);
            assert!(0 < left.get());
            assert!(settled(LOOK, WAIT_MAX).await);
            assert_eq!(left.get(), 0);
        });
    }

    #[test]
    fn work_of_statements_is_no_work_of_its_own() {
        runtime::sim::test(2, || async {
            let scope = Scope::new();
            scope.spawn_in(runtime::group::STATEMENT, async {
                loop {
                    sleep(LOOK / 10).await;
                    yield_now().await;
                }
            });
            assert!(settled(LOOK, WAIT_MAX).await);
        });
    }
}
