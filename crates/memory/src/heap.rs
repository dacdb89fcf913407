//! What of the heap the system backs with memory, whoever uses it; and blocks of it that are not
//! yet backed.
//!
//! Blocks that were freed are backed until jemalloc gives their pages back, some time later, and
//! what is left between blocks that are not is never given back. So a thread takes more than
//! [`crate::live_bytes`] says.
#![allow(unsafe_code, reason = "the allocator's counters are behind a C function; zeros are bytes")]

use std::ffi::{CStr, c_void};
use std::io::Write;
use std::rc::Rc;
use tikv_jemalloc_sys::mallctl;

/// Bytes of a page of jemalloc.
const PAGE_BYTES: usize = 4096;

/// Bytes of memory behind the heap of this thread: the pages of its arena that are in use or were
/// not given back yet. Threads beyond four per processor share arenas. 0 where jemalloc does not
/// serve the process. Allocates nothing: shards ask often.
pub fn backed_bytes() -> usize {
    let mut epoch: u64 = 1;
    if !exchange(c"epoch", &mut epoch) {
        return 0;
    }
    let Some(arena) = read::<u32>(c"thread.arena") else { return 0 };
    let pages = |what: &str| {
        let mut name = [0; 64];
        write!(&mut name[..], "stats.arenas.{arena}.{what}\0").ok()?;
        read::<usize>(CStr::from_bytes_until_nul(&name).ok()?)
    };
    let all = ["pactive", "pdirty", "pmuzzy"].into_iter().filter_map(pages);
    all.sum::<usize>() * PAGE_BYTES
}

/// Shared bytes, all zero, to be filled. A large block is not backed before it is written: so
/// whoever fills it bit by bit pays for it bit by bit.
pub fn zeroed(len: usize) -> Rc<[u8]> {
    // SAFETY: zeros are bytes.
    unsafe { Rc::new_zeroed_slice(len).assume_init() }
}

fn read<T: Default + Copy>(name: &CStr) -> Option<T> {
    let mut value = T::default();
    let mut len = size_of::<T>();
    // SAFETY: the name ends with zero; jemalloc writes the value only if it has `len` bytes, and
    // gives an error otherwise.
    let error = unsafe {
        let value: *mut T = &mut value;
        mallctl(name.as_ptr(), value.cast::<c_void>(), &mut len, std::ptr::null_mut(), 0)
    };
    (error == 0).then_some(value)
}

/// Writes a number and reads it back.
fn exchange(name: &CStr, number: &mut u64) -> bool {
    let mut len = size_of::<u64>();
    let mut new = *number;
    // SAFETY: as above; what is written has the length that is given.
    let error = unsafe {
        let (old, new): (*mut u64, *mut u64) = (number, &mut new);
        mallctl(name.as_ptr(), old.cast(), &mut len, new.cast(), size_of::<u64>())
    };
    error == 0
}

// The address sanitizer and Miri watch the allocator that they know.
#[cfg(all(test, not(any(miri, feature = "sanitized"))))]
mod tests {
    use super::*;

    #[test]
    fn zeroed_bytes_are_zero_and_ones_own() {
        for len in [0, 1, 10_000, 10_000_000] {
            let mut bytes = zeroed(len);
            assert!(bytes.len() == len && bytes.iter().all(|byte| *byte == 0));
            Rc::get_mut(&mut bytes).unwrap().fill(7);
        }
    }

    #[test]
    fn what_is_allocated_is_backed() {
        let live = crate::live_bytes();
        let before = backed_bytes();
        let blocks: Vec<Vec<u8>> = (0..6000).map(|_| vec![1; 10_000]).collect();
        let (grown, live) = (backed_bytes() - before, (crate::live_bytes() - live) as usize);
        assert!(60_000_000 <= live, "{live}");
        // Some of it lies where other blocks of this arena have been.
        assert!(live / 4 * 3 < grown && grown < live / 2 * 3, "{grown} of {live}");
        drop(blocks);
        let before = crate::counts();
        assert_ne!(backed_bytes(), 0);
        assert_eq!(crate::counts(), before);
    }
}
