//! What a read carries to each index I/O.

use super::IndexCache;
use runtime::io::IoClass;
use std::rc::Rc;

/// Bytes of the cache of a read that bypasses the shard's: what one cursor touches repeatedly.
const PRIVATE_BYTES: usize = 256 << 10;

const _: () = assert!(64 * super::PAGE_BYTES as usize <= PRIVATE_BYTES);

/// On whose behalf index files are read, and what they are cached in. One read has one (clones
/// included): touches of different reads tell the cache what is popular.
#[derive(Clone, Debug)]
pub struct Access {
    /// Of the I/O.
    pub class: IoClass,
    /// Where pages come from and go to.
    pub cache: Rc<IndexCache>,
    read: u64,
}

impl Access {
    /// A read through a cache.
    pub fn new(class: IoClass, cache: &Rc<IndexCache>) -> Access {
        Access { class, cache: cache.clone(), read: cache.next_read() }
    }

    /// The number that tells this read from others.
    pub(crate) fn read(&self) -> u64 {
        self.read
    }

    /// A read with a small cache of its own, which ends with it: compaction, scans and whoever
    /// asks for it leave the shard's cache as it is.
    pub fn bypass(class: IoClass) -> Access {
        Access::new(class, &IndexCache::new(PRIVATE_BYTES))
    }
}
