//! The allocator of the process, and what it counted.
//!
//! Invariants
//!  - *forwarded*: every call goes to jemalloc unchanged; counting adds to cells of this thread
//!    (one addition for bytes that are freed, two for an allocation), so a shard counts its own
//!    allocations without an atomic.
#![allow(unsafe_code, reason = "a global allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use tikv_jemallocator::Jemalloc;

thread_local! {
    static COUNTERS: Counters = const {
        Counters { allocations: Cell::new(0), bytes: Cell::new(0), freed: Cell::new(0) }
    };
}

struct Counters {
    allocations: Cell<u64>,
    bytes: Cell<u64>,
    freed: Cell<u64>,
}

/// What a thread has allocated since it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Calls that made or grew an object.
    pub allocations: u64,
    /// Bytes that they asked for.
    pub bytes: u64,
}

/// The counts of this thread.
pub fn counts() -> Counts {
    COUNTERS.with(|counters| Counts {
        allocations: counters.allocations.get(),
        bytes: counters.bytes.get(),
    })
}

/// Bytes that this thread allocated less those that it freed. What another thread allocated and
/// this one freed counts here as well, so it is exact for a thread that keeps its memory to
/// itself, as a shard does, and may fall below zero for one that frees for others.
pub fn live_bytes() -> i64 {
    COUNTERS.with(|counters| counters.bytes.get().wrapping_sub(counters.freed.get()) as i64)
}

/// What jemalloc reads when the process begins: one thread of its own gives freed pages back to the
/// system within four seconds, whether or not anybody allocates meanwhile. So long, for what one
/// memtable lets go of is what the next one takes.
const SETTINGS_TEXT: &[u8] =
    b"background_thread:true,max_background_threads:1,dirty_decay_ms:4000,muzzy_decay_ms:0\0";

/// The symbol under which jemalloc looks for its settings: a pointer to text that ends with zero.
#[used]
#[unsafe(export_name = "_rjem_malloc_conf")]
static SETTINGS: &[u8; SETTINGS_TEXT.len()] =
    SETTINGS_TEXT.first_chunk().expect("as long as it is");

/// jemalloc with counters; for `#[global_allocator]`.
#[derive(Clone, Copy, Debug)]
pub struct Allocator;

fn count(bytes: usize) {
    // A thread that is ending has no cells any more; its last allocations go uncounted.
    let _ = COUNTERS.try_with(|counters| {
        counters.allocations.set(counters.allocations.get() + 1);
        counters.bytes.set(counters.bytes.get() + bytes as u64);
    });
}

fn count_freed(bytes: usize) {
    let _ = COUNTERS.try_with(|counters| counters.freed.set(counters.freed.get() + bytes as u64));
}

// SAFETY: *forwarded*: jemalloc keeps the contract of `GlobalAlloc`, and gets what we got.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: *forwarded*.
        unsafe { Jemalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: *forwarded*.
        unsafe { Jemalloc.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count_freed(layout.size());
        // SAFETY: *forwarded*.
        unsafe { Jemalloc.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        count_freed(layout.size());
        // SAFETY: *forwarded*.
        unsafe { Jemalloc.realloc(pointer, layout, size) }
    }
}

// The address sanitizer and Miri watch the allocator that they know.
#[cfg(all(test, not(any(miri, feature = "sanitized"))))]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: Allocator = Allocator;

    #[test]
    fn a_box_counts_once_on_its_own_thread() {
        let (before, live) = (counts(), live_bytes());
        let boxed = std::hint::black_box(Box::new([0u8; 100]));
        let after = counts();
        assert_eq!(live_bytes() - live, 100);
        drop(boxed);
        assert_eq!(after.allocations - before.allocations, 1);
        assert_eq!(after.bytes - before.bytes, 100);
        assert_eq!(counts(), after);
        assert_eq!(live_bytes(), live);
    }

    #[test]
    fn what_grows_is_live_once() {
        let live = live_bytes();
        let mut vec: Vec<u8> = Vec::with_capacity(100);
        vec.reserve_exact(1000);
        assert_eq!(live_bytes() - live, 1000);
        drop(std::hint::black_box(vec));
        assert_eq!(live_bytes(), live);
    }
}
