//! Requests under way on a shard, by what they know of who has the data: so that somebody who has
//! shown something newer can wait until nobody goes by what was before.
//!
//! A request enters before it looks where the data is, and has ended when it has answered. The
//! epoch changes when somebody waits; what enters then looks at what is shown by then. A write that
//! goes on after its answer, since not all replicas have acknowledged it, enters anew with that: to
//! wait for it as well, two waits are needed, one after the other.
//!
//! Invariants
//!  - *two-at-most*: an epoch does not begin while requests of the one before the present are under
//!    way.
//!  - *ended-is-ended*: when a wait ends, no request goes on that had entered before it began.

use runtime::sync::{Notify, Semaphore};
use std::cell::Cell;
use std::ops::Deref;

/// Those who wait at most.
const WAITING_MAX: usize = 1024;

/// See the module. Lives on one shard.
pub(crate) struct Epochs {
    now: Cell<usize>,
    /// Requests of the present epoch, and of the one before, by turns.
    under_way: [Cell<usize>; 2],
    /// One of an epoch that somebody waits for has ended.
    ended: Notify,
    /// Who waits, one at a time.
    turn: Semaphore,
}

impl Default for Epochs {
    fn default() -> Epochs {
        let (now, under_way) = (Cell::new(0), [Cell::new(0), Cell::new(0)]);
        Epochs { now, under_way, ended: Notify::new(), turn: Semaphore::new(1, WAITING_MAX) }
    }
}

/// A request that is under way.
pub(crate) struct Entered<E: Deref<Target = Epochs>> {
    epochs: E,
    epoch: usize,
}

impl Epochs {
    /// A request begins: it looks where the data is from now on, and has ended when this is
    /// dropped.
    #[inline]
    pub(crate) fn enter<E: Deref<Target = Epochs>>(this: E) -> Entered<E> {
        let epoch = this.now.get();
        let count = &this.under_way[epoch % 2];
        count.set(count.get() + 1);
        debug_assert!(0 < count.get(), "ended-is-ended: nobody of epoch {epoch}");
        Entered { epochs: this, epoch }
    }

    /// Requests under way.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.under_way.iter().map(Cell::get).sum()
    }

    /// Waits until all requests have ended that are under way now.
    pub(crate) async fn pass(&self) -> Result<(), String> {
        let _turn = self.turn.acquire(1).await.map_err(|error| error.to_string())?;
        // Who waited before may have gone before it was over.
        self.until_ended(self.now.get() + 1).await;
        let before = self.now.get();
        assert!(self.under_way[(before + 1) % 2].get() == 0, "two-at-most: of epoch {before}");
        self.now.set(before + 1);
        self.until_ended(before).await;
        let left = self.under_way[before % 2].get();
        assert!(left == 0, "ended-is-ended: {left} of epoch {before}");
        assert!(self.now.get() == before + 1, "two-at-most: epoch {} came too", self.now.get());
        Ok(())
    }

    async fn until_ended(&self, epoch: usize) {
        while 0 < self.under_way[epoch % 2].get() {
            self.ended.notified().await;
        }
    }
}

impl<E: Deref<Target = Epochs>> Drop for Entered<E> {
    #[inline]
    fn drop(&mut self) {
        let Epochs { now, under_way, ended, .. } = &*self.epochs;
        let count = &under_way[self.epoch % 2];
        assert!(0 < count.get(), "ended-is-ended: of epoch {} nobody is under way", self.epoch);
        count.set(count.get() - 1);
        if self.epoch != now.get() && count.get() == 0 {
            ended.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::sim::{Options, World};
    use runtime::task::Scope;
    use runtime::time::sleep;
    use std::rc::Rc;
    use std::time::Duration;

    fn is_over(done: &Rc<Cell<bool>>) -> bool {
        done.get()
    }

    #[test]
    fn who_waits_waits_for_those_before() {
        let mut world = World::new(Options::new(1));
        let node = world.add_node(1);
        world.block_on(node, 0, async {
            let epochs = Rc::new(Epochs::default());
            epochs.pass().await.expect("nobody is under way");
            let (first, second) = (Epochs::enter(epochs.clone()), Epochs::enter(epochs.clone()));
            let done = Rc::new(Cell::new(false));
            let scope = Scope::new();
            let wait = || {
                let (epochs, done) = (epochs.clone(), done.clone());
                scope.spawn(async move {
                    epochs.pass().await.expect("a turn");
                    done.set(true);
                })
            };
            let waits = wait();
            sleep(Duration::from_millis(1)).await;
            // Of the next epoch.
            let third = Epochs::enter(epochs.clone());
            assert_eq!((is_over(&done), epochs.count()), (false, 3));
            drop(first);
            sleep(Duration::from_millis(1)).await;
            assert!(!is_over(&done));
            drop(second);
            waits.await.expect("it is not cancelled");
            assert!(is_over(&done));
            // The next one waits for the third.
            done.set(false);
            let waits = wait();
            sleep(Duration::from_millis(1)).await;
            assert!(!is_over(&done));
            drop(third);
            waits.await.expect("it is not cancelled");
            assert_eq!((is_over(&done), epochs.count()), (true, 0));
        });
    }
}
