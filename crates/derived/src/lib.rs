//! What a write of a table changes in its views, and in the views that answer its indexes; and what
//! it puts into the log of its table, which is a room of its own ([`log`]).
//!
//! A pure function: from the schemas, a write of one partition of the base table and what was there
//! before it to mutations of the views. Whoever applies writes asks [`need`] what it has to read of
//! the partition, gives that to a [`Deriver`], and writes what comes out together with the write
//! itself, before another write of the partition is looked at. To build a view is the same: what
//! the base table has is the write, and nothing was there before.
//!
//! There are four kinds of views ([`ViewPlan`]), by what their rows are found by:
//!
//! * **Mirrors** have no column in their key but those of the base table's key. A row of the view
//!   is a row of the base table in another place: marker, tombstone and cells are copied with their
//!   times. Columns that were not selected are copied without their values, so that both live
//!   equally long. Nothing of the row before is needed.
//! * **Keyed** views have one regular or static column in their key as well. A row of the view has
//!   the time and the lifetime of that column's cell as its marker, and lives by it alone. When the
//!   cell changes, the old row ends by a shadowable tombstone: that ends with the next newer
//!   marker, so that what is older than it but still in the base table is seen again.
//! * **Attributes**: as keyed ones, by the values of up to eight elements of a map, where all are
//!   there and of the types of the view's key (`change::attributes`).
//! * **Elements** are rows of the elements of a collection, by their keys, values or both. Each has
//!   a marker and nothing else.
//!
//! Invariants
//!  - *same-as-scan*: when a replica has derived from all the writes that it has, in the order in
//!    which it applied them, its part of a view shows just what a scan of its part of the base
//!    table would give, now and at each later second: the same keys, values, times and lifetimes.
//!  - *order-free*: of replicas that have the same writes, in whatever order they came, the parts
//!    of a view together show the same as each alone. So rows that a replica derived before it was
//!    lost for good do no harm: who gets the write that made such a row, and what has overwritten
//!    it, in whatever order, ends the row.
//!  - *only-sound-ends*: a row of a keyed view is ended for what cannot win over what the base
//!    table has: up to just before the cell that won, or including its time where the value that
//!    lost loses that tie as well. What comes later with a newer time is never hidden.
//!  - *nothing-is-too-long*: values that are too long for a key have no row.
//!  - *bounded*: rows that wait in a deriver can be taken at any time; together they are the whole.
//!
//! Of a view that is found by several attributes this is promised where the writes of a row come in
//! the order of their times. Where writes of one attribute each come the other way round, a row may
//! stay that should have ended; none is missing.
//!
//! What is not promised: one column of a keyed view's key, written several times with one timestamp
//! *and* different lifetimes, may end with its row not shown: by such a tie a value can win, lose
//! and win again, and tombstones know no other order than time. And tombstones of the base table
//! that were purged (`gc_grace_seconds`) are forgotten here, too.
//!
//! In reading order: [`filter`] (conditions), [`plan`] (what is known once for two schemas),
//! [`need`](mod@need), `place` (where a row of a view stands), `out` (mutations
//! being made), `contest` (which value a row is found by) and `change` (one row before and after),
//! [`deriver`] (both streams side by side); [`log`] knows nothing of these.

mod change;
mod contest;
mod deriver;
mod filter;
pub mod log;
mod need;
mod out;
mod place;
mod plan;
#[cfg(test)]
mod tests;

pub use deriver::Deriver;
pub use need::{Need, need};
pub use out::{Buffers, Derived, DerivedList};
pub use plan::ViewPlan;
