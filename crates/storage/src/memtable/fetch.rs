//! Fetching what is about to be read or written from memory, step by step: each step looks at
//! nothing but what the one before it had fetched. Who takes each step for many partitions before
//! the next one waits for memory once, not once for each of them.
//!
//! Never more than a hint: what is fetched may be another partition, or gone by the next step.

use super::Memtable;
use super::partitions::{Number, Partitions};
use super::row::Row;
use super::rows::Rows;
use model::{DecoratedKey, Token};
use smallvec::SmallVec;

/// Partitions that a scan has fetched at once, at most.
pub(super) const SCAN_MAX: usize = 16;
/// Rows of each of them that are fetched behind the first, at most. Those of all of them, of two
/// lines each, are about what the nearest cache holds.
const ROWS_MAX: usize = 15;

/// How far the way to a partition is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// To the key and the partition, behind the slot.
    Partition,
    /// To its rows, or the root of their tree.
    Rows,
    /// To the first row, and to the key of the last.
    Row,
}

impl Step {
    /// In their order, after [`Memtable::prefetch`] and [`Memtable::prefetch_slot`].
    pub(crate) const ALL: [Step; 3] = [Step::Partition, Step::Rows, Step::Row];
}

impl Memtable {
    /// A partition of that token is about to be looked for.
    #[inline]
    pub(crate) fn prefetch(&self, token: Token) {
        self.partitions.borrow().prefetch(token);
    }

    /// The slot of such a partition, if there is one: its number, for [`Memtable::prefetch_step`].
    #[inline]
    pub(crate) fn prefetch_slot(&self, token: Token) -> Option<Number> {
        self.partitions.borrow().prefetch_slot(token)
    }

    /// What lies behind a slot of this memtable, one step after the other.
    #[inline]
    pub(crate) fn prefetch_step(&self, number: Number, step: Step) {
        take(&self.partitions.borrow(), number, step);
    }
}

#[inline]
fn take(partitions: &Partitions, number: Number, step: Step) {
    let (key, partition) = partitions.at(number);
    match (step, &partition.rows) {
        (Step::Partition, _) => {
            memory::prefetch_all(&**partition);
            memory::prefetch_all(&key.key[..]);
        }
        (Step::Rows, Rows::Few(rows)) => memory::prefetch_all(&rows[..]),
        (Step::Rows, Rows::Many(tree)) => tree.prefetch(),
        (Step::Row, Rows::Few(rows)) => {
            if let Some((key, Row::Blob(row))) = rows.first() {
                memory::prefetch_all(&key[..]);
                memory::prefetch_all(&row[..]);
            }
            // A row that is added is compared with this one first.
            if let [_, .., (key, _)] = &rows[..] {
                memory::prefetch_all(&key[..]);
            }
        }
        (Step::Row, Rows::Many(tree)) => {
            if let Some(rows) = tree.only_leaf() {
                memory::prefetch_all(rows);
                // Here a row is added that is behind all others.
                rows.last().into_iter().for_each(memory::prefetch);
            }
        }
    }
}

/// Has the processor fetch all of these partitions: all steps, and the rows of those that have few.
pub(super) fn fetch_all(partitions: &Partitions, numbers: &[Number]) {
    partitions.prefetch_slots(numbers);
    for step in Step::ALL {
        numbers.iter().for_each(|&number| take(partitions, number, step));
    }
    for &number in numbers {
        let rows = match &partitions.at(number).1.rows {
            Rows::Few(rows) => Some(&rows[..]),
            Rows::Many(tree) => tree.only_leaf(),
        };
        let rest = rows.into_iter().flatten().skip(1).take(ROWS_MAX);
        for (key, row) in rest {
            memory::prefetch_all(&key[..]);
            row.blob().into_iter().for_each(memory::prefetch_all);
        }
    }
}

/// The partitions that a scan comes to next, fetched some at a time: a few at first, for it may end
/// soon.
///
/// Invariants
///  - *as-it-was*: what it holds counts only while the memtable has no more partitions than when
///    they were looked up; one that came meanwhile may lie between them.
#[derive(Default)]
pub(super) struct Upcoming {
    numbers: SmallVec<[Number; SCAN_MAX]>,
    taken: usize,
    /// How many partitions there were, *as-it-was*.
    of: usize,
}

impl Upcoming {
    /// The partition after `left`; without one, the first from a token on.
    pub(super) fn next(
        &mut self,
        partitions: &Partitions,
        left: Option<&DecoratedKey>,
        from: Token,
    ) -> Option<Number> {
        debug_assert!(self.of <= partitions.len(), "only-grows: from {} partitions", self.of);
        if self.taken == self.numbers.len() || self.of != partitions.len() {
            let count = (4 * self.numbers.len()).clamp(1, SCAN_MAX);
            self.numbers.clear();
            match left {
                Some(left) => self.numbers.extend(partitions.after(left).take(count)),
                None => self.numbers.extend(partitions.from(from).take(count)),
            }
            (self.taken, self.of) = (0, partitions.len());
            fetch_all(partitions, &self.numbers);
        }
        debug_assert_eq!(
            self.numbers.get(self.taken).copied(),
            match left {
                Some(left) => partitions.after(left).next(),
                None => partitions.from(from).next(),
            },
            "as-it-was: after {left:?}"
        );
        let next = self.numbers.get(self.taken).copied()?;
        self.taken += 1;
        let key = partitions.at(next).0;
        debug_assert!(left.is_none_or(|left| left < key), "ring-order: {key:?} after {left:?}");
        debug_assert!(left.is_some() || from <= key.token, "ring-order: {key:?} from {from:?}");
        Some(next)
    }

    /// Forgets them: the scan goes elsewhere.
    pub(super) fn clear(&mut self) {
        self.numbers.clear();
        self.taken = 0;
    }
}
