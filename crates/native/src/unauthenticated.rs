//! Unauthenticated connections: how long they may take, how many there may be.
//!
//! The memory that one of them may hold is bounded where requests are read (`intake`), where
//! responses are queued (`outbox`), and by the TLS handshake.
//!
//! Invariants
//!  - *bounded-time*: a connection that is not authenticated after [`TIME_MAX`] is closed.
//!  - *bounded-count*: there are at most [`COUNT_MAX`]; the oldest is closed for a new one.

use runtime::time::Instant;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// *bounded-time*
pub(crate) const TIME_MAX: Duration = Duration::from_secs(30);
/// How often connections whose time is up are looked for.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);
/// *bounded-count*, of a shard.
pub(crate) const COUNT_MAX: usize = 4096;
/// The largest request body of an unauthenticated client.
pub(crate) const BODY_BYTES_MAX: usize = 16 << 10;
/// No more requests are read while so many bytes of responses are unsent.
pub(crate) const UNSENT_BYTES_MAX: usize = 16 << 10;

/// Closes a connection if it is still unauthenticated; whether it was.
pub(crate) type End = Rc<dyn Fn() -> bool>;

/// The unauthenticated connections of a shard, by their numbers, which grow.
#[derive(Default)]
pub(crate) struct Unauthenticated {
    waiting: RefCell<BTreeMap<u64, (Instant, End)>>,
    ended: Cell<u64>,
}

impl Unauthenticated {
    /// Adds a connection; the oldest may be closed for it.
    pub(crate) fn add(&self, number: u64, since: Instant, end: End) {
        self.waiting.borrow_mut().insert(number, (since, end));
        while COUNT_MAX < self.waiting.borrow().len() {
            self.end_first();
        }
    }

    /// A connection has ended, or is about to be added again.
    pub(crate) fn remove(&self, number: u64) {
        self.waiting.borrow_mut().remove(&number);
    }

    /// Closes those whose time is up (*bounded-time*: looked for once per [`PERIOD`]).
    pub(crate) fn end_late(&self, now: Instant) {
        loop {
            let first = self.waiting.borrow().first_key_value().map(|(_, (since, _))| *since);
            if first.is_none_or(|since| now - since + PERIOD < TIME_MAX) {
                return;
            }
            self.end_first();
        }
    }

    fn end_first(&self) {
        let first = self.waiting.borrow_mut().pop_first();
        if let Some((_, (_, end))) = first
            && end()
        {
            self.ended.set(self.ended.get() + 1);
        }
    }

    /// How many were closed so far.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds connections, each a second after the one before; the numbers of those that are closed.
    fn ended(count: u64, authenticated: &'static [u64], after_secs: u64) -> (Vec<u64>, u64) {
        let at = |secs: u64| Instant::from_nanos(secs * 1_000_000_000);
        let unauthenticated = Unauthenticated::default();
        let closed = Rc::new(RefCell::new(Vec::new()));
        for number in 0..count {
            let closed = closed.clone();
            let end = Rc::new(move || {
                closed.borrow_mut().push(number);
                !authenticated.contains(&number)
            });
            unauthenticated.add(number, at(number), end);
        }
        unauthenticated.end_late(at(after_secs));
        let closed = closed.borrow().clone();
        (closed, unauthenticated.ended())
    }

    #[test]
    fn connections_that_take_too_long_are_closed() {
        assert_eq!(ended(5, &[], 28), (vec![], 0));
        assert_eq!(ended(5, &[], 31), (vec![0, 1, 2], 3));
        // One that is authenticated is not counted.
        assert_eq!(ended(5, &[1], 31), (vec![0, 1, 2], 2));
    }

    #[test]
    fn the_oldest_is_closed_for_a_new_one() {
        let (closed, count) = ended(COUNT_MAX as u64 + 2, &[], 0);
        assert_eq!((closed, count), (vec![0, 1], 2));
    }

    #[test]
    fn connections_that_have_ended_are_forgotten() {
        let unauthenticated = Unauthenticated::default();
        unauthenticated.add(1, Instant::ZERO, Rc::new(|| panic!("it was removed")));
        unauthenticated.remove(1);
        unauthenticated.end_late(Instant::from_nanos(u64::MAX));
        assert_eq!(unauthenticated.ended(), 0);
    }
}
