//! A reservation of address space that the system backs with memory where it is touched.
//!
//! Invariants
//!  - *owned*: the mapping is private, anonymous, readable and writable, and belongs to one
//!    `Region` from `new` to its drop; nothing else knows its address.
//!  - *bytes*: every byte is initialised at all times: zero, or what was written last.
#![allow(unsafe_code, reason = "mappings have no safe interface")]

use std::ops::Range;
use std::ptr::NonNull;

/// A region starts at a multiple of this, so that the system may back it with huge pages.
const ALIGNMENT: usize = 2 << 20;

/// Miri knows no reservation that is not backed.
const NO_RESERVE: libc::c_int = if cfg!(miri) { 0 } else { libc::MAP_NORESERVE };

/// Address space of a fixed length. Memory is taken page by page on the first write, and given
/// back by [`Region::discard`].
pub(crate) struct Region {
    start: NonNull<u8>,
    len: usize,
    mapping: NonNull<libc::c_void>,
    mapping_len: usize,
}

impl Region {
    /// Reserves `len` bytes that read as zero.
    ///
    /// # Panics
    /// If the system refuses the address space, as it does under `vm.overcommit_memory = 2` or a
    /// limit of address space.
    pub(crate) fn new(len: usize) -> Region {
        let mapping_len = len.checked_add(ALIGNMENT).expect("a region fits the address space");
        // SAFETY: a new anonymous mapping at a place of the system's choice touches no memory
        // that anybody has.
        let mapping = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapping_len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | NO_RESERVE,
                -1,
                0,
            )
        };
        assert!(
            mapping != libc::MAP_FAILED,
            "the system refuses {mapping_len} bytes of address space: {}",
            std::io::Error::last_os_error()
        );
        let mapping = NonNull::new(mapping).expect("the system maps nothing at zero");
        let skipped = mapping.cast::<u8>().align_offset(ALIGNMENT);
        assert!(skipped < ALIGNMENT, "the mapping holds an aligned address");
        // SAFETY: `skipped` is less than what was mapped beyond `len`.
        let start = unsafe { mapping.cast::<u8>().add(skipped) };
        Region { start, len, mapping, mapping_len }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: *owned* and *bytes*: `len` bytes from `start` are mapped and initialised, and
        // borrowed from `self` as the slice is.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// Gives the memory behind whole pages of `range` back to the system; they read as zero.
    pub(crate) fn discard(&mut self, range: Range<usize>) {
        let bytes = &mut self.bytes_mut()[range];
        if cfg!(miri) {
            // It knows mappings, but not this call.
            bytes.fill(0);
            return;
        }
        // SAFETY: *owned*: the range lies in our private mapping and is borrowed exclusively; its
        // pages read as zero afterwards, so *bytes* holds.
        let result =
            unsafe { libc::madvise(bytes.as_mut_ptr().cast(), bytes.len(), libc::MADV_DONTNEED) };
        assert!(result == 0, "madvise: {}", std::io::Error::last_os_error());
    }
}

#[cfg(feature = "sanitized")]
unsafe extern "C" {
    fn __asan_poison_memory_region(start: *const libc::c_void, len: usize);
    fn __asan_unpoison_memory_region(start: *const libc::c_void, len: usize);
}

/// For the address sanitizer, which knows nothing of who has what in a mapping.
#[cfg(feature = "sanitized")]
impl Region {
    /// Makes every access to `range` an error.
    pub(crate) fn poison(&self, range: Range<usize>) {
        let bytes = &self.bytes()[range];
        // SAFETY: it marks the range in the sanitizer's own memory and touches no byte of it.
        unsafe { __asan_poison_memory_region(bytes.as_ptr().cast(), bytes.len()) };
    }

    /// Takes that back.
    pub(crate) fn unpoison(&self, range: Range<usize>) {
        let bytes = &self.bytes()[range];
        // SAFETY: as in `poison`.
        unsafe { __asan_unpoison_memory_region(bytes.as_ptr().cast(), bytes.len()) };
    }
}

#[cfg(not(feature = "sanitized"))]
impl Region {
    #[inline]
    pub(crate) fn poison(&self, _: Range<usize>) {}

    #[inline]
    pub(crate) fn unpoison(&self, _: Range<usize>) {}
}

impl Drop for Region {
    fn drop(&mut self) {
        self.unpoison(0..self.len);
        // SAFETY: *owned*: the mapping is ours, and no borrow of it outlives `self`.
        let result = unsafe { libc::munmap(self.mapping.as_ptr(), self.mapping_len) };
        assert!(result == 0, "munmap: {}", std::io::Error::last_os_error());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_discarded_reads_as_zero_and_may_be_written_again() {
        let mut region = Region::new(1 << 20);
        assert_eq!(region.bytes().len(), 1 << 20);
        assert_eq!(region.bytes().as_ptr().align_offset(ALIGNMENT), 0);
        region.bytes_mut()[4096..12288].fill(7);
        region.discard(4096..8192);
        assert!(region.bytes()[..8192].iter().all(|&byte| byte == 0));
        assert!(region.bytes()[8192..12288].iter().all(|&byte| byte == 7));
        region.bytes_mut()[5000] = 1;
        assert_eq!(region.bytes()[5000], 1);
    }
}
