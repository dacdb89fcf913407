//! The connections of a listener: none is kept for long that asks nothing.
//!
//! Invariants
//!  - *bounded-silence*: a connection that does not have asked [`FIRST_MAX`] after it came, or
//!    [`NEXT_MAX`] after its last answer, is ended.
//!  - *silent-goes-first*: where there is no room for another, the one that has been silent for
//!    longest goes.

use runtime::sync::Notify;
use runtime::task::race;
use runtime::time::Instant;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

pub(crate) const FIRST_MAX: Duration = Duration::from_secs(30);
pub(crate) const NEXT_MAX: Duration = Duration::from_secs(75);

/// One connection.
#[derive(Debug)]
pub(crate) struct Guest {
    /// `None`: it waits for an answer.
    silent_since: Cell<Option<Instant>>,
    patience: Cell<Duration>,
    told: Notify,
    is_told: Cell<bool>,
}

impl Guest {
    /// It has asked.
    pub(crate) fn asked(&self) {
        self.silent_since.set(None);
    }

    /// It has its answer.
    pub(crate) fn answered(&self) {
        self.silent_since.set(Some(Instant::now()));
        self.patience.set(NEXT_MAX);
    }

    /// Waits until it has to go.
    pub(crate) async fn has_to_go(&self) {
        while !self.is_told.get() {
            let patience = self.patience.get();
            let since = self.silent_since.get();
            if since.is_some_and(|since| patience <= since.elapsed()) {
                return;
            }
            let next = since.unwrap_or_else(Instant::now) + patience;
            race(runtime::time::sleep_until(next), self.told.notified()).await;
        }
    }
}

/// All of a listener.
#[derive(Debug, Default)]
pub(crate) struct Guests {
    all: RefCell<BTreeMap<u64, Rc<Guest>>>,
    next: Cell<u64>,
}

impl Guests {
    /// A new one, with its number.
    pub(crate) fn welcome(&self) -> (u64, Rc<Guest>) {
        let number = self.next.get();
        self.next.set(number + 1);
        let guest = Rc::new(Guest {
            silent_since: Cell::new(Some(Instant::now())),
            patience: Cell::new(FIRST_MAX),
            told: Notify::new(),
            is_told: Cell::new(false),
        });
        self.all.borrow_mut().insert(number, guest.clone());
        (number, guest)
    }

    /// One is gone.
    pub(crate) fn forget(&self, number: u64) {
        self.all.borrow_mut().remove(&number);
    }

    /// Whether some wait for an answer.
    pub(crate) fn are_waiting(&self) -> bool {
        self.all.borrow().values().any(|guest| guest.silent_since.get().is_none())
    }

    /// Room is needed (*silent-goes-first*).
    pub(crate) fn make_room(&self) {
        let all = self.all.borrow();
        let silent = all.values().filter(|guest| !guest.is_told.get());
        let silent = silent.filter_map(|guest| Some((guest.silent_since.get()?, guest)));
        if let Some((_, guest)) = silent.min_by_key(|(since, _)| *since) {
            guest.is_told.set(true);
            guest.told.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::time::sleep;

    /// How long a guest stays that does as `act` says, in seconds.
    fn stays<F>(act: impl FnOnce(Rc<Guest>) -> F + 'static) -> u64
    where
        F: Future<Output = ()> + 'static,
    {
        runtime::sim::test(1, move || async move {
            let began = Instant::now();
            let (_, guest) = Guests::default().welcome();
            let scope = runtime::task::Scope::new();
            scope.spawn(act(guest.clone()));
            guest.has_to_go().await;
            began.elapsed().as_secs()
        })
    }

    #[test]
    fn silence_is_bounded_and_work_is_not() {
        assert_eq!(stays(|_| async {}), 30);
        let once = |guest: Rc<Guest>| async move {
            sleep(Duration::from_secs(10)).await;
            guest.asked();
            sleep(Duration::from_secs(100)).await;
            guest.answered();
        };
        assert_eq!(stays(once), 110 + 75);
    }

    #[test]
    fn the_longest_silent_goes_for_another() {
        runtime::sim::test(1, || async {
            let guests = Guests::default();
            let (_, busy) = guests.welcome();
            assert!(!guests.are_waiting());
            busy.asked();
            assert!(guests.are_waiting());
            let (_, first) = guests.welcome();
            sleep(Duration::from_secs(1)).await;
            let (_, second) = guests.welcome();
            guests.make_room();
            first.has_to_go().await;
            assert!(!busy.is_told.get() && !second.is_told.get());
            guests.make_room();
            second.has_to_go().await;
            guests.make_room();
            assert!(!busy.is_told.get());
        });
    }
}
