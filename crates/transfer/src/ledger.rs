//! How far a load has come.
//!
//! Chunks end in any order; a load can only be continued from a place before which all have ended.
//!
//! Invariants
//!  - *resume-exact*: [`Ledger::position`] never passes a record that was neither acknowledged
//!    nor written to the file of bad ones.
//!  - *in-order*: what chunks report comes out in the order of the files.

use std::collections::VecDeque;

/// What became of the chunks that were begun and not yet passed.
#[derive(Clone, Debug)]
pub(crate) struct Ledger<P, R> {
    position: P,
    /// By the number of the chunk, from `first` on.
    waiting: VecDeque<(P, Option<R>)>,
    first: u64,
}

impl<P: Copy, R> Ledger<P, R> {
    pub(crate) fn new(position: P) -> Ledger<P, R> {
        Ledger { position, waiting: VecDeque::new(), first: 0 }
    }

    /// A chunk up to `end` is begun: its number.
    pub(crate) fn begin(&mut self, end: P) -> u64 {
        self.waiting.push_back((end, None));
        self.first + self.waiting.len() as u64 - 1
    }

    /// A chunk has ended. Panics when it was not begun, or has ended before.
    pub(crate) fn end(&mut self, number: u64, report: R) {
        let index = number.checked_sub(self.first).expect("a chunk ends once") as usize;
        let place = &mut self.waiting[index].1;
        assert!(place.is_none(), "a chunk ends once");
        *place = Some(report);
    }

    /// The next report in order; the position is then behind its chunk.
    pub(crate) fn pass(&mut self) -> Option<R> {
        self.waiting.front()?.1.as_ref()?;
        let (end, report) = self.waiting.pop_front()?;
        self.first += 1;
        self.position = end;
        report
    }

    /// Everything before it is done.
    pub(crate) fn position(&self) -> P {
        self.position
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_position_waits_for_the_slowest() {
        let mut ledger = Ledger::new(0);
        let (a, b, c) = (ledger.begin(10), ledger.begin(20), ledger.begin(30));
        ledger.end(b, "b");
        assert_eq!((ledger.pass(), ledger.position()), (None, 0));
        ledger.end(a, "a");
        assert_eq!((ledger.pass(), ledger.position()), (Some("a"), 10));
        assert_eq!((ledger.pass(), ledger.position()), (Some("b"), 20));
        assert_eq!((ledger.pass(), ledger.position()), (None, 20));
        ledger.end(c, "c");
        assert_eq!((ledger.pass(), ledger.position()), (Some("c"), 30));
    }

    proptest! {
        /// *resume-exact* and *in-order*, whatever the order in which chunks end.
        #[test]
        fn all_before_the_position_have_ended(
            order in Just((0..20u64).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let mut ledger = Ledger::new(0);
            let numbers: Vec<u64> = (1..=20).map(|end| ledger.begin(end)).collect();
            let (mut ended, mut passed) = (Vec::new(), Vec::new());
            for index in order {
                ledger.end(numbers[index as usize], index);
                ended.push(index);
                while let Some(report) = ledger.pass() {
                    passed.push(report);
                }
                prop_assert!((0..ledger.position()).all(|index| ended.contains(&index)));
            }
            prop_assert_eq!(passed, (0..20).collect::<Vec<_>>());
        }
    }
}
