//! SSTables of the m family (`mc`, `md`, `me`): files in, files out. Knows no table, let alone a
//! cluster: it writes the files it is told to, and reads the files it is given.
//!
//! In order from the ground up, each room readable without those behind it:
//!
//!  - [`mx`]: partitions, rows, cells and range tombstones as bytes. Pure.
//!  - [`store`]: SSTables as files of a directory; versions, names, generations.
//!  - [`read_stats`]: what reading did on a shard, and memory that reads hand on.
//!  - [`compress`]: chunks and their checksums; Data.db as it is written and read.
//!  - [`filter`]: the Bloom filter.
//!  - [`scylla`], [`statistics`]: what else is known of a file, and how it is collected.
//!  - [`schema`]: what files tell of their table.
//!  - [`cache`]: what of index files is in memory.
//!  - [`index`]: where partitions are, and where rows are within large ones.
//!  - [`table`]: an open SSTable.
//!  - [`read`]: the [`TableSource`] of its fragments.
//!  - [`mod@write`]: the [`Writer`] of a new one.
//!  - [`scrub`]: validating and rewriting.
//!  - [`testing`]: for tests and fuzzing.
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
pub mod read;
pub mod read_stats;
pub mod schema;
pub mod scrub;
pub mod scylla;
mod spares;
pub mod statistics;
pub mod store;
pub mod table;
pub mod testing;
pub mod write;

pub use cache::{Access, CacheStats, IndexCache};
pub use compress::{Algorithm, Compression};
pub use index::Lookup;
pub use mx::layout::Bases;
pub use read::demand::ScanBytes;
pub use read::source::{Scope, TableSource};
pub use read_stats::{ReadCounts, ReadStats};
pub use statistics::{CommitlogPosition, LargeLimits};
pub use store::{Component, Descriptor, Generation, Version, quarantine};
pub use table::{Digests, FilterHits, Table};
pub use write::defaults::WriterDefaults;
pub use write::options::{RowOrder, Sealed, WriterOptions};
pub use write::writer::Writer;
