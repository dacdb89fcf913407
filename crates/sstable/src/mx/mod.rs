//! The m family of row formats (`mc`, `md`, `me`): how partitions, rows, cells and range
//! tombstones lie in Data.db (storage-format reference, section 4).
//!
//! In reading order: [`layout`] (constants, delta bases), [`header`] (what columns a file has and
//! what they are in the schema), [`clustering`], [`cell`], [`row`], [`marker`], [`partition`];
//! then [`writer`] and [`reader`].

mod backwards;
pub mod cell;
pub mod clustering;
pub mod defaults;
mod elements;
pub mod header;
mod index_writer;
pub mod layout;
pub mod marker;
pub mod partition;
mod queue;
pub mod reader;
pub mod row;
mod seal;
pub mod slicer;
mod stretches;
pub mod window;
pub mod writer;
