//! Reading Index.db from the disk.

use crate::compress::Chunks;
use crate::index::summary::Summary;
use model::{DecoratedKey, token};
use reader::ReadError;
use runtime::io::File;
use stdx::Bytes;

/// A partition key as it is looked up in many SSTables: hashed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The key with its token.
    pub key: DecoratedKey,
    /// Both words of its murmur3 hash, for filters.
    pub hash: (u64, u64),
}

impl Lookup {
    /// Hashes a key.
    pub fn new(key: Bytes) -> Lookup {
        let hash = token::murmur3(&key);
        Lookup { key: DecoratedKey::new(key), hash }
    }
}

/// Samples an index that has no summary.
pub async fn rebuild_summary(
    index: &File,
    index_bytes: u64,
    chunks: Option<&Chunks>,
) -> Result<Summary, ReadError> {
    let _ = (index, index_bytes, chunks);
    todo!()
}
