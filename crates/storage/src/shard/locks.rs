//! One lock per partition, for reads that decide writes.
//!
//! Invariants
//!  - *bounded-by-waiters*: the map holds the keys that somebody holds or waits for, no others.
//!  - *one-holds*: whoever has a guard has the partition, alone.
//!  - *fifo*: who asks first is served first.

use model::TableId;
use runtime::sync::{Permit, Semaphore};
use std::cell::RefCell;
use std::rc::Rc;
use stdx::{Bytes, HashMap};

type Key = (TableId, Bytes);

/// More than ever wait: callers are bounded by the requests that a shard admits.
const WAITERS_MAX: usize = usize::MAX;

/// The locks of a shard.
#[derive(Debug, Default)]
pub(crate) struct PartitionLocks {
    locks: Rc<RefCell<HashMap<Key, Entry>>>,
}

#[derive(Debug)]
struct Entry {
    lock: Semaphore,
    /// Those who hold or wait.
    users: usize,
}

/// Holds a partition; it is let go on drop.
#[derive(Debug)]
pub struct PartitionGuard {
    /// Given back before the use is counted off.
    permit: Option<Permit>,
    user: User,
}

/// One use of an entry, counted off on drop.
#[derive(Debug)]
struct User {
    locks: Rc<RefCell<HashMap<Key, Entry>>>,
    key: Key,
}

impl PartitionLocks {
    pub(crate) async fn lock(&self, table: TableId, key: &[u8]) -> PartitionGuard {
        let key: Key = (table, Bytes::copy_from(key));
        let lock = {
            let mut locks = self.locks.borrow_mut();
            let new = || Entry { lock: Semaphore::new(1, WAITERS_MAX), users: 0 };
            let entry = locks.entry(key.clone()).or_insert_with(new);
            entry.users += 1;
            entry.lock.clone()
        };
        debug_assert!(self.locks.borrow().contains_key(&key), "bounded-by-waiters: no entry");
        let user = User { locks: self.locks.clone(), key };
        let permit = lock.acquire(1).await.ok();
        assert!(permit.is_some(), "one-holds: nobody gave the lock");
        PartitionGuard { permit, user }
    }

    /// Whether somebody holds a partition or waits for it.
    pub(crate) fn is_held(&self, table: TableId, key: &Bytes) -> bool {
        let locks = self.locks.borrow();
        !locks.is_empty() && locks.contains_key(&(table, key.clone()))
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.locks.borrow().len()
    }
}

impl Drop for PartitionGuard {
    fn drop(&mut self) {
        let _ = &self.user;
        self.permit = None;
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let mut locks = self.locks.borrow_mut();
        let Some(entry) = locks.get_mut(&self.key) else {
            unreachable!("bounded-by-waiters: a lock went before its user");
        };
        assert!(0 < entry.users, "bounded-by-waiters: a lock of nobody");
        entry.users -= 1;
        if entry.users == 0 {
            debug_assert!(entry.lock.available() == 1, "one-holds: {:?} is held", self.key);
            debug_assert!(entry.lock.waiting() == 0, "fifo: {:?} goes before its turn", self.key);
            locks.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn one_holds_and_the_map_empties() {
        let locks = PartitionLocks::default();
        let table = TableId::from_u128(1);
        let mut cx = Context::from_waker(Waker::noop());
        let mut first = pin!(locks.lock(table, b"a"));
        assert!(!locks.is_held(table, &Bytes::copy_from(b"a")));
        let Poll::Ready(held) = first.as_mut().poll(&mut cx) else { panic!("free") };
        let is_held = |key: &[u8]| locks.is_held(table, &Bytes::copy_from(key));
        assert!(is_held(b"a") && !is_held(b"b"));
        let mut second = pin!(locks.lock(table, b"a"));
        assert!(second.as_mut().poll(&mut cx).is_pending());
        let mut other = pin!(locks.lock(table, b"b"));
        assert!(other.as_mut().poll(&mut cx).is_ready());
        {
            let mut given_up = pin!(locks.lock(table, b"a"));
            assert!(given_up.as_mut().poll(&mut cx).is_pending());
        }
        assert_eq!(locks.len(), 1);
        drop(held);
        assert!(is_held(b"a"), "one who waits has it next");
        assert!(second.as_mut().poll(&mut cx).is_ready());
        assert_eq!(locks.len(), 0);
        assert!(!is_held(b"a"));
    }
}
