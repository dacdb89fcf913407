//! Fetching what is about to be read or written from memory, step by step: each step looks at
//! nothing but what the one before it had fetched. Who takes each step for many partitions before
//! the next one waits for memory once, not once for each of them.
//!
//! Never more than a hint: what is fetched may be another partition, or gone by the next step.

use super::Memtable;
use super::partitions::Number;
use super::row::Row;
use super::rows::Rows;
use model::Token;

/// How far the way to a partition is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// To the key and the partition, behind the slot.
    Partition,
    /// To its rows, or the root of their tree.
    Rows,
    /// To the first row.
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
        let partitions = self.partitions.borrow();
        let (key, partition) = partitions.in_slot(number);
        match (step, &partition.rows) {
            (Step::Partition, _) => {
                memory::prefetch_all(partition);
                memory::prefetch_all(&key[..]);
            }
            (Step::Rows, Rows::Few(rows)) => memory::prefetch_all(&rows[..]),
            (Step::Rows, Rows::Many(tree)) => tree.prefetch(),
            (Step::Row, Rows::Few(rows)) => {
                if let Some((key, Row::Blob(row))) = rows.first() {
                    memory::prefetch_all(&key[..]);
                    memory::prefetch_all(&row[..]);
                }
            }
            (Step::Row, Rows::Many(_)) => {}
        }
    }
}
