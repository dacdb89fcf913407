//! Asking for memory ahead of its use.
#![allow(unsafe_code, reason = "the instruction has no safe wrapper")]

/// Has the processor fetch the line of memory at the start of `place`, which is about to be looked
/// at. Waits for nothing and reads nothing; does nothing where there is no such instruction.
#[inline]
pub fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint about an address, which is valid; nothing is read.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
