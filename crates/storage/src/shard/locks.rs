//! One lock per partition, for reads that decide writes.
//!
//! Invariants
//!  - *bounded-by-waiters*: the map holds the keys that somebody holds or waits for, no others.
//!  - *one-holds*: whoever has a guard has the partition, alone.
//!  - *fifo*: who asks first is served first.
//!  - *closed-is-free*: of a range that is closed nobody has a partition or waits for its turn; who
//!    comes waits until it is open again.

use model::{TableId, Token};
use runtime::sync::{Notify, Permit, Semaphore};
use std::cell::RefCell;
use std::rc::Rc;
use stdx::{Bytes, HashMap};

type Key = (TableId, Bytes);

/// More than ever wait: callers are bounded by the requests that a shard admits.
const WAITERS_MAX: usize = usize::MAX;

/// The locks of a shard.
#[derive(Debug, Default)]
pub(crate) struct PartitionLocks(Rc<Locks>);

#[derive(Debug, Default)]
struct Locks {
    held: RefCell<HashMap<Key, Entry>>,
    /// Ranges that are closed, or about to be: after the first token, up to the second.
    closed: RefCell<Vec<(TableId, (Token, Token))>>,
    /// A range was opened, or a lock of one that is to be closed has gone.
    changed: Notify,
}

/// A range of which nobody gets a partition until this is dropped.
pub(crate) struct Closed {
    locks: Rc<Locks>,
    table: TableId,
    range: (Token, Token),
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
    locks: Rc<Locks>,
    key: Key,
}

impl Locks {
    fn is_closed(&self, table: TableId, key: &[u8]) -> bool {
        let closed = self.closed.borrow();
        !closed.is_empty() && {
            let token = Token::of(key);
            closed.iter().any(|(of, range)| *of == table && is_within(*range, token))
        }
    }

    /// Whether somebody has a partition of a range, or waits for one.
    fn is_used(&self, table: TableId, range: (Token, Token)) -> bool {
        let held = self.held.borrow();
        held.keys().any(|(of, key)| *of == table && is_within(range, Token::of(key)))
    }
}

fn is_within((after, last): (Token, Token), token: Token) -> bool {
    (after < token || after == Token::MIN) && token <= last
}

impl PartitionLocks {
    pub(crate) async fn lock(&self, table: TableId, key: &[u8]) -> PartitionGuard {
        while self.0.is_closed(table, key) {
            self.0.changed.notified().await;
        }
        let key: Key = (table, Bytes::copy_from(key));
        let lock = {
            let mut locks = self.0.held.borrow_mut();
            let new = || Entry { lock: Semaphore::new(1, WAITERS_MAX), users: 0 };
            let entry = locks.entry(key.clone()).or_insert_with(new);
            entry.users += 1;
            entry.lock.clone()
        };
        debug_assert!(self.0.held.borrow().contains_key(&key), "bounded-by-waiters: no entry");
        let user = User { locks: self.0.clone(), key };
        let permit = lock.acquire(1).await.ok();
        assert!(permit.is_some(), "one-holds: nobody gave the lock");
        PartitionGuard { permit, user }
    }

    /// Whether somebody holds a partition or waits for it.
    pub(crate) fn is_held(&self, table: TableId, key: &Bytes) -> bool {
        let locks = self.0.held.borrow();
        !locks.is_empty() && locks.contains_key(&(table, key.clone()))
    }

    /// Has nobody get a partition of a range from now on, and waits until those have ended who have
    /// one or wait for one (*closed-is-free*). Who gives up waiting opens it.
    pub(crate) async fn close(&self, table: TableId, range: (Token, Token)) -> Closed {
        debug_assert!(range.0 < range.1, "closed-is-free: nothing lies in {range:?}");
        self.0.closed.borrow_mut().push((table, range));
        let closed = Closed { locks: self.0.clone(), table, range };
        while self.0.is_used(table, range) {
            self.0.changed.notified().await;
        }
        closed
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.held.borrow().len()
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        let mut closed = self.locks.closed.borrow_mut();
        let at = closed.iter().position(|it| *it == (self.table, self.range));
        assert!(at.is_some(), "closed-is-free: {:?} was not closed", self.range);
        at.map(|at| closed.swap_remove(at));
        self.locks.changed.notify_all();
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
        let mut locks = self.locks.held.borrow_mut();
        let Some(entry) = locks.get_mut(&self.key) else {
            unreachable!("bounded-by-waiters: a lock went before its user");
        };
        assert!(0 < entry.users, "bounded-by-waiters: a lock of nobody");
        entry.users -= 1;
        if entry.users == 0 {
            debug_assert!(entry.lock.available() == 1, "one-holds: {:?} is held", self.key);
            debug_assert!(entry.lock.waiting() == 0, "fifo: {:?} goes before its turn", self.key);
            locks.remove(&self.key);
            if !self.locks.closed.borrow().is_empty() {
                self.locks.changed.notify_all();
            }
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

    #[test]
    fn of_a_closed_range_nobody_gets_a_partition() {
        let locks = PartitionLocks::default();
        let table = TableId::from_u128(1);
        let mut cx = Context::from_waker(Waker::noop());
        let own = (Token(Token::of(b"a").0 - 1), Token::of(b"a"));
        let Poll::Ready(held) = pin!(locks.lock(table, b"a")).as_mut().poll(&mut cx) else {
            panic!("free")
        };
        let mut closing = pin!(locks.close(table, own));
        assert!(closing.as_mut().poll(&mut cx).is_pending());
        // Who comes waits, also while somebody has it still.
        let mut late = pin!(locks.lock(table, b"a"));
        assert!(late.as_mut().poll(&mut cx).is_pending());
        assert!(pin!(locks.lock(table, b"b")).as_mut().poll(&mut cx).is_ready());
        assert!(pin!(locks.lock(TableId::from_u128(2), b"a")).as_mut().poll(&mut cx).is_ready());
        drop(held);
        let Poll::Ready(closed) = closing.as_mut().poll(&mut cx) else { panic!("nobody has it") };
        assert!(late.as_mut().poll(&mut cx).is_pending());
        drop(closed);
        assert!(late.as_mut().poll(&mut cx).is_ready());
        // Who gives up closing leaves it open.
        let Poll::Ready(held) = pin!(locks.lock(table, b"a")).as_mut().poll(&mut cx) else {
            panic!("free")
        };
        assert!(pin!(locks.close(table, own)).as_mut().poll(&mut cx).is_pending());
        drop(held);
        assert!(pin!(locks.lock(table, b"a")).as_mut().poll(&mut cx).is_ready());
    }
}
