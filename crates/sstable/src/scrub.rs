//! What is wrong with an SSTable, and rewriting it without that: validate, scrub; and rewriting
//! what is right into other files: split, filter, upgrade.
//!
//! In reading order: [`scan`] (fragments as they stand in Data.db, whatever their order),
//! [`check`] (which rule a fragment breaks), [`validate`], [`rewrite`].
//!
//! Invariants
//!  - *originals-stay*: nothing here touches the files that it reads.
//!  - *sound-output*: what is written keeps every rule, whatever was read.
//!  - *bounded-memory*: a fragment, and per output what [`crate::Writer`] takes.

pub mod check;
pub mod rewrite;
mod rows;
pub mod scan;
pub mod validate;

pub use rewrite::{Distribution, Mode, Outcome, Target, decompress, distribute, scrub};
pub use scan::{Raw, RawScan};
pub use validate::{Positions, validate};
