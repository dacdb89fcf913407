//! SSTables that go to another node as they are: what a table has in a range of tokens is copied
//! file by file, not row by row.
//!
//! ```text
//! giver   memtables with something of the range -> SSTables
//!         each shard links what it has of the range into given/<key>/ of the table's directory
//!         blocks of those files are read, by whoever knows the key; then the directory goes
//! taker   files are written in the table's directory, under a temporary TOC
//!         record: these SSTables are gone
//!         their TOCs get their names; they are opened and checked
//!         the record goes: now all of them are there; each shard has what is its own
//! ```
//! From the ground up: [`give`], [`arrive`]. A range is given so where all SSTables that have
//! something of it have nothing else, which is so of a tablet, once those that came for several
//! tablets are divided among them (`shard::compact::reshard`). Elsewhere it is for the caller to
//! read rows.
//!
//! What arrives is written where it is to be, and not first in a directory of its own: what a crash
//! leaves of it is removed by the start as what any writer leaves, and nothing is moved.
//!
//! Invariants
//!  - *has-all*: what is linked has all that was written to the range before it was asked for.
//!  - *linked-stays*: what was linked can be read until it is released, whatever is merged, cleared
//!    or removed meanwhile. A start removes what was not released.
//!  - *nothing-else*: no SSTable is given that has a partition outside of the range, or one that
//!    the giver does not show; the taker looks, too.
//!  - *all-or-none*: of what arrives together all SSTables are in the table or none is, now and
//!    after any crash: what was deleted is never there without its deletion.
//!  - *checked-before*: nothing joins whose bytes do not have the checksums that there are of them,
//!    or that could not be opened with the table's schema.
//!  - *nothing-forgotten*: while SSTables arrive, merges of the table forget no deletion: what it
//!    covers may still come ([`crate::table::Table::arriving`]).

mod arrive;
mod give;

pub use arrive::{Arrived, ArrivingFile, ArrivingSstable};
pub use give::{Given, GivenFile, GivenSstable};
