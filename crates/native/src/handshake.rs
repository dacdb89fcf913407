//! How many connections of a shard are in the work of their handshakes at once, so that a storm of
//! new connections does not hold up those that are served.
//!
//! A connection takes a turn for each input that it has sent before it was started, and keeps it
//! until all that was ready then has run; while it waits for its client it has none.
//!
//! Invariants
//!  - *bounded*: no more connections have a turn than the option says, though there is always one.

use cluster::Live;
use runtime::sync::Notify;
use std::cell::Cell;

/// The option's name.
pub(crate) const OPTION: &str = "uninitialized_connections_semaphore_cpu_concurrency";
/// Its value where nothing else is said.
pub(crate) const CONCURRENCY: i64 = 8;

/// The turns of a shard.
#[derive(Debug)]
pub(crate) struct Handshakes {
    turns_max: Live<i64>,
    turns: Cell<usize>,
    ended: Notify,
    blocked: Cell<u64>,
}

impl Handshakes {
    pub(crate) fn new(turns_max: Live<i64>) -> Handshakes {
        Handshakes { turns_max, turns: Cell::new(0), ended: Notify::new(), blocked: Cell::new(0) }
    }

    fn has_room(&self) -> bool {
        let turns_max = usize::try_from(self.turns_max.get()).unwrap_or(0).max(1);
        self.turns.get() < turns_max
    }

    /// A turn, when there is one.
    pub(crate) async fn turn(&self) -> Turn<'_> {
        if !self.has_room() {
            self.blocked.set(self.blocked.get() + 1);
            while !self.has_room() {
                self.ended.notified().await;
            }
        }
        self.turns.set(self.turns.get() + 1);
        Turn { handshakes: self }
    }

    /// How many had to wait for their turn so far.
    pub(crate) fn blocked(&self) -> u64 {
        self.blocked.get()
    }
}

/// The right to work; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    handshakes: &'a Handshakes,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let handshakes = self.handshakes;
        handshakes.turns.set(handshakes.turns.get() - 1);
        handshakes.ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::task::{Scope, yield_now};
    use std::rc::Rc;

    /// The most turns at once of ten connections, and how many of these had to wait.
    fn most(turns_max: i64) -> (usize, u64) {
        runtime::testing::block_on_with(runtime::Config::new(1), move || async move {
            let handshakes = Rc::new(Handshakes::new(Live::fixed(turns_max)));
            let most = Rc::new(Cell::new(0));
            let scope = Scope::new();
            for _ in 0..10 {
                let (handshakes, most) = (handshakes.clone(), most.clone());
                scope.spawn(async move {
                    let _turn = handshakes.turn().await;
                    most.set(handshakes.turns.get().max(most.get()));
                    yield_now().await;
                });
            }
            scope.join().await;
            assert_eq!(handshakes.turns.get(), 0);
            (most.get(), handshakes.blocked())
        })
    }

    #[test]
    fn turns_are_bounded_and_all_come_to_theirs() {
        assert_eq!(most(1), (1, 9));
        assert_eq!(most(4), (4, 6));
        assert_eq!(most(20), (10, 0));
        // There is always one.
        assert_eq!(most(0), (1, 9));
    }
}
