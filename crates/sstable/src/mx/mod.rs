//! The m family of row formats (`mc`, `md`, `me`): how partitions, rows, cells and range
//! tombstones lie in Data.db (storage-format reference, section 4).
//!
//! In reading order: [`layout`] (constants, delta bases), [`header`] (what columns a file has and
//! what they are in the schema), [`clustering`], [`cell`], [`row`], [`marker`], [`partition`].
//!
//! Pure: no I/O. What is read is foreign, and [`Damaged`](stdx::Damaged) where it breaks a rule.

pub mod cell;
pub mod clustering;
pub mod header;
pub mod layout;
pub mod marker;
pub mod partition;
pub mod row;
