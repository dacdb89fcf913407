//! The allocator of the process, and what it counted. Knows nothing of what it stores.
//!
//! Invariants
//!  - *forwarded*: every call goes to jemalloc unchanged; counting adds one increment of a cell of
//!    this thread, so a shard counts its own allocations without an atomic.
#![allow(unsafe_code, reason = "a global allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use tikv_jemallocator::Jemalloc;

thread_local! {
    static COUNTS: Cell<Counts> = const { Cell::new(Counts { allocations: 0, bytes: 0 }) };
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
    COUNTS.with(Cell::get)
}

/// jemalloc with counters; for `#[global_allocator]`.
#[derive(Clone, Copy, Debug)]
pub struct Allocator;

fn count(bytes: usize) {
    // A thread that is ending has no cell any more; its last allocations go uncounted.
    let _ = COUNTS.try_with(|cell| {
        let before = cell.get();
        cell.set(Counts {
            allocations: before.allocations + 1,
            bytes: before.bytes + bytes as u64,
        });
    });
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
        // SAFETY: *forwarded*.
        unsafe { Jemalloc.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: *forwarded*.
        unsafe { Jemalloc.realloc(pointer, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: Allocator = Allocator;

    #[test]
    fn a_box_counts_once_on_its_own_thread() {
        let before = counts();
        let boxed = std::hint::black_box(Box::new([0u8; 100]));
        let after = counts();
        drop(boxed);
        assert_eq!(after.allocations - before.allocations, 1);
        assert_eq!(after.bytes - before.bytes, 100);
        assert_eq!(counts(), after);
    }
}
