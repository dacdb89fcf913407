//! Imports: `ImportTable`, `DescribeImport`, `ListImports`; and exports:
//! `ExportTableToPointInTime`, `DescribeExport`, `ListExports`.
//!
//! A bucket is a folder below that of the option `alternator_transfer_directory`, of the node that
//! is asked ([`place`], pure; [`files`]). An import is a record ([`record`], pure; [`records`],
//! where they are kept) and a table that says of itself that its items are on their way
//! ([`crate::restored`]). What is read is unpacked ([`unpack`]), cut into records ([`lines`]) and
//! made items ([`format`]), which are pure, and written by [`fill`]. An export is a record and
//! files, which [`dump`] writes, with their sums. [`operations`] and [`exports`] write down what is
//! to be; [`ends`] brings it to its end, [`drive`] that which its node has left; [`told`] says how
//! far both are.
//!
//! Invariants
//!  - *not-before-all* (`restored`): a table is used when its import has ended, and not before.
//!  - *told-by-the-record*: whether an import has failed or is completed is what its record says;
//!    the table follows.
//!  - *bounded*: of a file a piece is in memory, a record, and what is being written, whatever the
//!    files have.
//!
//! Files are those of the node that was asked, so nobody else goes on for it: an import whose node
//! has stopped, or died, fails, and its table can only be deleted. So does an export: its files
//! have no summary then.

mod drive;
mod dump;
mod ends;
mod exports;
mod files;
mod fill;
pub mod format;
pub mod lines;
mod operations;
mod place;
mod record;
mod records;
mod told;
mod unpack;

pub(crate) use drive::keep;
pub(crate) use exports::export;
pub(crate) use operations::import;
pub(crate) use told::{describe, list};
