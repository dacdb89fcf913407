//! SSTables of the m family (`mc`, `md`, `me`): files in, files out. Knows no table, let alone a
//! cluster: it writes the files it is told to, and reads the files it is given.
//!
//! In reading order: [`store`] (files of a directory), [`mx`] (rows in Data.db, with the
//! [`Writer`] and the [`TableSource`]), [`index`], [`cache`] (what of it is in memory),
//! [`filter`], [`compress`], [`statistics`], [`scylla`] (what else is known of a file), [`table`]
//! (an open SSTable), [`schema`] (what files tell of their table), [`scrub`] (validating and
//! rewriting).
//!
//! Invariants
//!  - *ordered*: partitions ascend in ring order, rows and tombstone changes in clustering order:
//!    the writer asserts it, the reader reports it.
//!  - *sealed-is-final*: a sealed SSTable is never written again.
//!  - *bounded-by-file*: no length in a file makes a reader allocate more than that file has.
//!  - *verified*: chunks are used only after their checksum was found right.

pub mod cache;
pub mod compress;
pub mod filter;
pub mod index;
pub mod mx;
pub mod read_stats;
pub mod schema;
pub mod scrub;
pub mod scylla;
mod spares;
pub mod statistics;
pub mod store;
pub mod table;
pub mod testing;

pub use cache::{Access, CacheStats, IndexCache};
pub use compress::{Algorithm, Compression};
pub use index::Lookup;
pub use mx::defaults::WriterDefaults;
pub use mx::layout::Bases;
pub use mx::reader::{Scope, TableSource};
pub use mx::writer::{RowOrder, Sealed, Writer, WriterOptions};
pub use read_stats::{ReadCounts, ReadStats};
pub use statistics::{CommitlogPosition, LargeLimits};
pub use store::{Component, Descriptor, Generation, Version, quarantine};
pub use table::{Digests, FilterHits, Table};
