//! Clients that say nothing: their connections end, so that those of others find room.
//!
//! Each connection has a [`Watch`], which its requests tell of, and a future beside it that looks
//! at the watch now and then: a request costs no timer and no look at the clock.
//!
//! Invariants
//!  - *answered-first*: no connection ends while a request of it is executed.
//!  - *room-for-others*: while most of a shard's connections are taken, one that asks nothing ends
//!    sooner.

use runtime::time::sleep;
use std::cell::Cell;
use std::time::Duration;

/// How often a connection is looked at.
const LOOK: Duration = Duration::from_secs(20);
/// Looks that find nothing new before a connection ends; the heads of requests that come a byte at
/// a time are nothing new.
const LOOKS: u32 = 30;
/// As many where most connections of the shard are taken.
const LOOKS_OF_MANY: u32 = 3;

/// What one connection is doing.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// How often a request has begun or ended.
    turns: Cell<u64>,
    /// Those that are executed now.
    executing: Cell<u32>,
}

/// A request that is executed, for as long as this lives.
pub(crate) struct Executing<'w>(&'w Watch);

impl Watch {
    /// A request has come.
    pub(crate) fn begin(&self) -> Executing<'_> {
        self.turns.set(self.turns.get() + 1);
        self.executing.set(self.executing.get() + 1);
        Executing(self)
    }

    /// Ends when the connection has been silent for too long. `is_crowded`: whether the shard has
    /// little room for connections.
    pub(crate) async fn silent(&self, is_crowded: impl Fn() -> bool) {
        let (mut seen, mut looks) = (self.turns.get(), 0);
        loop {
            sleep(LOOK).await;
            // *answered-first*
            let is_silent = self.turns.get() == seen && self.executing.get() == 0;
            (seen, looks) = (self.turns.get(), if is_silent { looks + 1 } else { 0 });
            let looks_max = if is_crowded() { LOOKS_OF_MANY } else { LOOKS };
            if looks_max <= looks {
                return;
            }
        }
    }
}

impl Drop for Executing<'_> {
    fn drop(&mut self) {
        let executing = self.0.executing.get();
        debug_assert!(0 < executing, "answered-first: a request ends twice");
        self.0.executing.set(executing - 1);
        self.0.turns.set(self.0.turns.get() + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::task::Scope;
    use runtime::time::{Instant, timeout};
    use std::rc::Rc;

    const LIMIT: Duration = Duration::from_secs(20 * 30);
    const CROWDED: Duration = Duration::from_secs(20 * 3);

    /// Until a connection ends that has a request after each of these pauses, which is executed for
    /// as long as the second one says; since its last one has ended.
    async fn ends(requests: Vec<(Duration, Duration)>, is_crowded: bool) -> Duration {
        let watch = Rc::new(Watch::default());
        let asking = watch.clone();
        let last = Rc::new(Cell::new(Instant::now()));
        let told = last.clone();
        let client = Scope::new();
        client.spawn(async move {
            for (pause, executed) in requests {
                sleep(pause).await;
                let request = asking.begin();
                sleep(executed).await;
                drop(request);
                told.set(Instant::now());
            }
        });
        watch.silent(|| is_crowded).await;
        client.join().await;
        last.get().elapsed()
    }

    #[test]
    fn silent_connections_end() {
        const MINUTE: Duration = Duration::from_secs(60);
        let about = |found: Duration, limit: Duration| {
            assert!(limit <= found && found <= limit + LOOK, "{found:?}, not {limit:?}");
        };
        runtime::sim::test(1, move || async move {
            about(ends(vec![], false).await, LIMIT);
            about(ends(vec![], true).await, CROWDED);
        });
        // It is asked now and then, and answers late. A simulation has an hour.
        runtime::sim::test(2, move || async move {
            about(ends(vec![(9 * MINUTE, MINUTE), (9 * MINUTE, 20 * MINUTE)], false).await, LIMIT);
        });
        runtime::sim::test(3, move || async move {
            about(ends(vec![(MINUTE / 2, 3 * MINUTE), (MINUTE / 2, MINUTE)], true).await, CROWDED);
        });
    }

    #[test]
    fn a_request_is_answered_first() {
        runtime::sim::test(1, || async {
            let watch = Watch::default();
            let request = watch.begin();
            assert!(timeout(4 * CROWDED, watch.silent(|| true)).await.is_err());
            drop(request);
            assert!(timeout(LIMIT, watch.silent(|| true)).await.is_ok());
        });
    }
}
