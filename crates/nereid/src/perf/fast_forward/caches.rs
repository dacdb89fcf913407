//! The caches that reads meet: what they did, and dropping what they hold.

use super::measure::{DataCounts, IndexCounts};

/// What the cache of index files did on this shard.
pub(crate) fn index_counts() -> IndexCounts {
    IndexCounts::default()
}

/// What readers of data did on this shard.
pub(crate) fn data_counts() -> DataCounts {
    DataCounts::default()
}

/// Forgets what was cached.
pub(crate) fn drop_all() {}
