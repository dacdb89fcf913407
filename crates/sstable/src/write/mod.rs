//! Writing SSTables: rows to bytes, the index of them, and the components that seal a file.
//!
//! In reading order: [`defaults`] and [`options`] (how), [`row`] (a row's bytes, and what is
//! counted of it), `index` (both forms of it), `seal` (what is written last, and the rename),
//! [`writer`].
//!
//! Invariants
//!  - *ordered*: partitions ascend in ring order, elements of a partition in clustering order.
//!  - *paired*: a partition starts where none is open and ends where one is; its static row, if
//!    any, comes first; no range tombstone is open at its end.
//!  - *contiguous-blocks*: the blocks of a partition's index follow each other without a gap, from
//!    the end of its header to the end of its rows.
//!  - *announced-lengths*: what a length in the file says is how many bytes follow.
//!  - *sealed-is-final*: a sealed SSTable is never written again; until the rename of its TOC there
//!    is none.

pub mod defaults;
mod index;
pub mod options;
pub mod row;
mod seal;
pub mod writer;
