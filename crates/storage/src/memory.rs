//! How the memory of a shard is divided.
//!
//! Who cannot give memory back at once (memtables, reads, requests) has a part of his own. Of the
//! rest the caches have all that is left: the index cache a fraction, the row cache everything
//! else. They give back in the moment in which somebody else needs it.
//!
//! What parts count is less than what they cost: the allocator keeps pages that fell free for a
//! while, and others for good, because of what is left in them. So the memory behind the heap is
//! measured; what of it nobody counts is taken from the caches once it is more than the parts of
//! those who come in bursts, and of those whom nobody counts.
//!
//! Invariants
//!  - *all-of-it*: what is given to caches and what others have add up to the shard's memory, or
//!    the row cache has nothing.

use crate::error::StartError;

/// What a shard needs to run at all, in bytes.
pub const SHARD_BYTES_MIN: usize = 32 << 20;

/// Of a shard's memory, in percent: of all memtables.
const MEMTABLES_PERCENT: usize = 50;
/// Of the permits of reads, of clients, the system and streaming together.
const READS_PERCENT: usize = 8;
/// Of requests between their arrival and the end of their answer.
const REQUESTS_PERCENT: usize = 10;
/// Tasks, buffers of the logs and of connections, schemas: what has no limit of its own.
const FIXED_PERCENT: usize = 4;
const FIXED_BYTES_MIN: usize = 8 << 20;

/// The parts leave something to the caches.
const _: () = assert!(MEMTABLES_PERCENT + READS_PERCENT + REQUESTS_PERCENT + FIXED_PERCENT < 100);
const _: () = assert!(FIXED_BYTES_MIN < SHARD_BYTES_MIN);
/// So they do on the smallest shard.
const _: () = assert!(
    SHARD_BYTES_MIN / 100 * (MEMTABLES_PERCENT + READS_PERCENT + REQUESTS_PERCENT)
        + FIXED_BYTES_MIN
        < SHARD_BYTES_MIN
);

/// The parts of a shard's memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// All of it.
    pub shard: usize,
    /// Memtables at most.
    pub memtables_max: usize,
    /// Reads at most.
    pub reads_max: usize,
    /// Requests at most.
    pub requests_max: usize,
    /// What nobody counts.
    pub fixed: usize,
    /// The index cache, if the caches had all of the shard; else its part of what they have.
    pub index_of_all: usize,
}

/// What others than the caches take now, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Memtables, those being flushed included.
    pub memtables: usize,
    /// Filters, summaries and the like of SSTables.
    pub components: usize,
    /// The index cache.
    pub index_cache: usize,
    /// What the row cache has on the heap.
    pub rows_heap: usize,
    /// What is behind the heap, used or not; 0: nobody knows.
    pub heap: usize,
}

/// What the caches may take now, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// The index cache.
    pub index: usize,
    /// The row cache.
    pub rows: usize,
}

impl Division {
    /// Of a shard that has so much; its index cache would have `index_of_all` if the caches had all
    /// of it.
    pub fn of(shard_bytes: usize, index_of_all: usize) -> Result<Division, StartError> {
        match shard_bytes < SHARD_BYTES_MIN {
            true => Err(StartError::Memory { bytes: shard_bytes, needed: SHARD_BYTES_MIN }),
            false => Ok(Division::unchecked(shard_bytes, index_of_all)),
        }
    }

    /// As [`Division::of`], also of a shard of a test, with less than any node has.
    pub(crate) fn unchecked(shard: usize, index_of_all: usize) -> Division {
        let percent = |part: usize| shard / 100 * part;
        Division {
            shard,
            memtables_max: percent(MEMTABLES_PERCENT),
            reads_max: percent(READS_PERCENT),
            requests_max: percent(REQUESTS_PERCENT),
            fixed: percent(FIXED_PERCENT).max(FIXED_BYTES_MIN),
            index_of_all: index_of_all.min(shard),
        }
    }

    /// What the caches may take while others take that much. Indexes that are not there leave
    /// their part to rows.
    pub fn caches(&self, taken: Taken) -> CacheLimits {
        let counted = taken.memtables + taken.components;
        let of_caches = taken.index_cache + taken.rows_heap;
        let uncounted = taken.heap.saturating_sub(counted + of_caches);
        // Reads and requests lie on the heap as well; what is free there they take first.
        let others = (self.reads_max + self.requests_max + self.fixed).max(uncounted);
        let caches = self.shard.saturating_sub(others + counted);
        let part = caches as u128 * self.index_of_all as u128 / self.shard.max(1) as u128;
        let index = part as usize;
        assert!(index <= caches, "an index cache of {index} of {caches}");
        let rows = caches - taken.index_cache.min(index);
        debug_assert!(rows <= self.shard, "a row cache of {rows} of {}", self.shard);
        debug_assert!(
            rows == 0 || rows + taken.index_cache.min(index) + others + counted == self.shard,
            "all-of-it: {rows} for rows beside {taken:?}"
        );
        CacheLimits { index, rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_with_too_little_says_how_much_it_needs() {
        let error = Division::of(SHARD_BYTES_MIN - 1, 0).unwrap_err().to_string();
        assert!(error.contains("33554431 bytes") && error.contains("33554432"), "{error}");
        assert!(Division::of(SHARD_BYTES_MIN, 0).is_ok());
    }

    #[test]
    fn the_row_cache_takes_what_others_leave() {
        let mib = |mib: usize| mib << 20;
        let division = Division::of(mib(1000), mib(200)).unwrap();
        let check = |memtables, components, index_cache, index, rows| {
            let (memtables, components) = (mib(memtables), mib(components));
            let index_cache = mib(index_cache);
            let taken = Taken { memtables, components, index_cache, ..Taken::default() };
            let limits = division.caches(taken);
            let near = |bytes: usize, wanted: usize| bytes.abs_diff(mib(wanted)) < mib(1);
            assert!(near(limits.index, index) && near(limits.rows, rows), "{taken:?}: {limits:?}");
        };
        check(0, 0, 0, 156, 780);
        check(0, 0, 100, 156, 680);
        check(500, 0, 0, 56, 280);
        check(500, 80, 40, 40, 160);
        // The index cache gives back what is over its own limit, not the row cache.
        check(500, 80, 156, 40, 160);
        check(800, 0, 100, 0, 0);
    }

    #[test]
    fn what_the_heap_takes_beyond_what_is_counted_is_taken_from_caches() {
        let mib = |mib: usize| mib << 20;
        let division = Division::of(mib(1000), 0).unwrap();
        let check = |memtables, heap, rows_heap, rows| {
            let (memtables, heap, rows_heap) = (mib(memtables), mib(heap), mib(rows_heap));
            let taken = Taken { memtables, heap, rows_heap, ..Taken::default() };
            let limits = division.caches(taken);
            assert!(limits.rows.abs_diff(mib(rows)) < mib(1), "{taken:?}: {limits:?}");
        };
        check(300, 0, 0, 480);
        check(300, 520, 0, 480);
        check(300, 620, 0, 380);
        check(300, 620, 50, 430);
        // A memtable is gone, its pages are not.
        check(0, 500, 0, 500);
        check(0, 1500, 0, 0);
    }

    #[test]
    fn a_small_shard_keeps_something_for_what_nobody_counts() {
        let division = Division::of(SHARD_BYTES_MIN, SHARD_BYTES_MIN).unwrap();
        assert_eq!(division.fixed, 8 << 20);
        assert!(0 < division.caches(Taken::default()).rows);
    }
}
