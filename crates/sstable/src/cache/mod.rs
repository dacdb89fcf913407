//! What a shard keeps in memory of the index files of its SSTables: pages of 4096 bytes of the
//! files themselves, and partition-index pages that were parsed. One LRU, one budget in bytes.
//!
//! Replacement is a segmented LRU. A page that is loaded enters *probation*; a touch by a read
//! other than the last one that touched it makes it *protected*, which at most four fifths of the
//! budget are: the rest falls back to the young end of probation. Evicted is from the old end of
//! probation. So a scan, whose pages no second read touches while they are there, passes through
//! a fifth of the budget and leaves what many reads share where it is, and one read that comes
//! back to its own pages (a cursor) promotes nothing. Compared with counting frequencies, this
//! costs two list operations a touch and no memory beside the links.
//!
//! Invariants
//!  - *one-load*: of a page that is not there, one reader loads and the others wait. A loader that
//!    is dropped wakes them, and the first of them loads; an error is theirs too, and is not kept.
//!  - *no-wait-while-loading*: who has claimed loads waits for no other load, so that no two
//!    readers wait for each other.
//!  - *pinned-stays*: a page that somebody holds is in no list and is not evicted. It counts in
//!    the budget, which pinned pages alone can exceed.
//!  - *constant-eviction*: evicting a page frees at most three allocations, whatever it holds.
//!  - *orphans-first*: what is cached of a file that was closed is evicted before anything else.
//!  - *accounted*: bytes and pages that are counted, of both kinds and in both lists, are those of
//!    the slots.
//!  - *linked*: a page is in the list of its segment while nobody holds it, and in the chain of its
//!    file while it is there.
//!
//! What it never does: I/O (its users load), allocate on a hit.

mod access;
mod body;
mod file;
mod lru;
mod owner;
pub(crate) mod partition_page;
mod state;

pub use access::Access;
pub use file::{CachedFile, Page};
pub use partition_page::PromotedAt;

pub(crate) use body::{Body, PageKind};
pub(crate) use state::{Claim, Pin};

use runtime::task::yield_if_needed;
use state::{EVICTIONS_MAX, State};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

/// Bytes of a page; the last one of a file is shorter.
pub const PAGE_BYTES: u64 = 4096;

const _: () = assert!(PAGE_BYTES.is_power_of_two());

/// The cache of a shard, or the small one of a read that bypasses it.
pub struct IndexCache {
    state: RefCell<State>,
    reads: Cell<u64>,
}

/// What a cache did and has, of one kind of page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageStats {
    /// Touches of a page that was there.
    pub hits: u64,
    /// Touches that had to load the page.
    pub misses: u64,
    /// Touches that waited for the load of another.
    pub blocks: u64,
    /// Pages that made room for others.
    pub evictions: u64,
    /// Pages that came in.
    pub populations: u64,
    /// Pages there now.
    pub pages: u64,
    /// Bytes of them.
    pub bytes: u64,
}

/// What a cache did and has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Parsed pages of partition indexes.
    pub partitions: PageStats,
    /// Pages of index files.
    pub files: PageStats,
    /// The budget.
    pub bytes_max: u64,
}

impl IndexCache {
    /// An empty cache of at most `bytes_max` bytes beside what is pinned.
    pub fn new(bytes_max: usize) -> Rc<IndexCache> {
        let state = RefCell::new(State::new(bytes_max));
        Rc::new(IndexCache { state, reads: Cell::new(0) })
    }

    /// Changes the budget, and evicts some of what exceeds it: the rest goes as the cache is used,
    /// or by [`IndexCache::evict_some`].
    pub fn set_bytes_max(&self, bytes_max: usize) {
        self.state.borrow_mut().set_bytes_max(bytes_max);
        self.evict_some();
    }

    /// Evicts a bounded number of pages of those that exceed the budget; whether more do.
    pub fn evict_some(&self) -> bool {
        let mut state = self.state.borrow_mut();
        let (bytes_max, pages) = (state.bytes_max(), state.pages());
        let more = state.evict_to(bytes_max);
        debug_assert!(pages <= state.pages() + EVICTIONS_MAX, "more than a step was evicted");
        more
    }

    /// Evicts what is not pinned. What comes meanwhile may stay.
    pub async fn clear(&self) {
        let steps = self.state.borrow().pages().div_ceil(EVICTIONS_MAX);
        for _ in 0..steps {
            if !self.state.borrow_mut().evict_to(0) {
                return;
            }
            yield_if_needed().await;
        }
    }

    /// What it did and has.
    pub fn stats(&self) -> CacheStats {
        self.state.borrow().stats()
    }

    /// The file at this address was closed.
    fn forget(&self, owner: usize) {
        self.state.borrow_mut().forget(owner);
    }

    /// A number for a read, unlike those of all others.
    fn next_read(&self) -> u64 {
        let read = self.reads.get() + 1;
        self.reads.set(read);
        read
    }
}

impl fmt::Debug for IndexCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = self.stats();
        let bytes = stats.partitions.bytes + stats.files.bytes;
        write!(f, "IndexCache({bytes} of {} bytes)", stats.bytes_max)
    }
}

#[cfg(test)]
mod tests;
