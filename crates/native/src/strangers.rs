//! Clients that have not said who they are: how long they may take, how many there may be.
//!
//! What one of them may hold is bounded where it is taken in (`intake`), where it is answered
//! (`outbox`), and by its TLS handshake.
//!
//! Invariants
//!  - *bounded-time*: a client that was not let in after [`TIME_MAX`] is ended.
//!  - *bounded-count*: there are at most so many; the oldest goes for a new one.

use runtime::time::Instant;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// *bounded-time*
pub(crate) const TIME_MAX: Duration = Duration::from_secs(30);
/// How often it is looked for those whose time is up.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);
/// *bounded-count*, of a shard.
pub(crate) const COUNT_MAX: usize = 4096;
/// The largest body of a client that is not let in.
pub(crate) const BODY_BYTES_MAX: usize = 16 << 10;
/// It is read no further while so much of what it was answered is unsent.
pub(crate) const UNSENT_BYTES_MAX: usize = 16 << 10;

/// Ends a client, if it is still one of them; whether it was.
pub(crate) type End = Rc<dyn Fn() -> bool>;

/// The clients of a shard that are not let in, by their numbers, which grow.
#[derive(Default)]
pub(crate) struct Strangers {
    waiting: RefCell<BTreeMap<u64, (Instant, End)>>,
    ended: Cell<u64>,
}

impl Strangers {
    /// A client has come; the oldest may have to go for it.
    pub(crate) fn add(&self, number: u64, since: Instant, end: End) {
        self.waiting.borrow_mut().insert(number, (since, end));
        while COUNT_MAX < self.waiting.borrow().len() {
            self.end_first();
        }
    }

    /// A client is gone, or is about to be told to another.
    pub(crate) fn remove(&self, number: u64) {
        self.waiting.borrow_mut().remove(&number);
    }

    /// Ends those whose time is up (*bounded-time*: it is looked for them once per [`PERIOD`]).
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

    /// How many were ended so far.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds clients, each a second after the one before; of which numbers it is told that they end.
    fn ended(count: u64, let_in: &'static [u64], after_secs: u64) -> (Vec<u64>, u64) {
        let at = |secs: u64| Instant::from_nanos(secs * 1_000_000_000);
        let (strangers, told) = (Strangers::default(), Rc::new(RefCell::new(Vec::new())));
        for number in 0..count {
            let told = told.clone();
            let end = Rc::new(move || {
                told.borrow_mut().push(number);
                !let_in.contains(&number)
            });
            strangers.add(number, at(number), end);
        }
        strangers.end_late(at(after_secs));
        let told = told.borrow().clone();
        (told, strangers.ended())
    }

    #[test]
    fn who_takes_too_long_is_ended() {
        assert_eq!(ended(5, &[], 28), (vec![], 0));
        assert_eq!(ended(5, &[], 31), (vec![0, 1, 2], 3));
        // Who was let in is not one of them.
        assert_eq!(ended(5, &[1], 31), (vec![0, 1, 2], 2));
    }

    #[test]
    fn the_oldest_goes_for_a_new_one() {
        let (told, count) = ended(COUNT_MAX as u64 + 2, &[], 0);
        assert_eq!((told, count), (vec![0, 1], 2));
    }

    #[test]
    fn who_is_gone_is_forgotten() {
        let strangers = Strangers::default();
        strangers.add(1, Instant::ZERO, Rc::new(|| panic!("it is gone")));
        strangers.remove(1);
        strangers.end_late(Instant::from_nanos(u64::MAX));
        assert_eq!(strangers.ended(), 0);
    }
}
