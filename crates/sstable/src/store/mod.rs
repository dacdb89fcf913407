//! SSTables as files of a directory: their names, what makes a set of files an SSTable, how one
//! comes and goes (storage-format reference, section 1).
//!
//! In reading order: [`version`], [`name`], [`toc`], [`dir`], [`output`],
//! [`relocate`], [`mod@link`].
//!
//! Invariants
//!  - *toc-last*: an SSTable exists while its `TOC.txt` does; everything else is synced before.
//!  - *garbage-is-marked*: files of an SSTable that does not exist have a temporary TOC beside
//!    them, so that a start can tell them from damage and remove them.

pub mod dir;
pub mod link;
pub mod name;
pub mod output;
pub mod relocate;
pub mod toc;
pub mod version;

pub use dir::{Found, Listing, State, clean_up, list, remove};
pub use link::link;
pub use name::{Component, Descriptor, Generation};
pub use relocate::quarantine;
pub use version::Version;
