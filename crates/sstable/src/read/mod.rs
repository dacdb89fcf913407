//! Reading an open SSTable as a stream of fragments.
//!
//! In reading order: `queue` and `window` (bytes of Data.db, loaded ahead), `stretches` (which
//! bytes a slice takes, by the index of rows), `slicer` (elements cut to clustering ranges),
//! `elements` (elements of a partition as fragments), `backwards` (the same from the last to the
//! first), and [`source`], which does it; `demand`, what it will take.
//!
//! Invariants
//!  - *ordered*: fragments come in order, or the file is damaged.
//!  - *exact*: what is read lies within the file and within what was asked for, but the rest of a
//!    chunk.
//!  - *closed*: a range tombstone that was opened is closed at the end of its range, at the latest.

mod backwards;
pub(crate) mod demand;
mod elements;
mod queue;
mod slicer;
pub mod source;
mod stretches;
mod window;
