//! Asking for memory ahead of its use.
#![allow(unsafe_code, reason = "the instruction has no safe wrapper")]

/// Bytes that come from memory together.
const LINE_BYTES: usize = 64;
/// Lines that one call of [`prefetch_all`] asks for at most: more would drive each other out.
const LINES_MAX: usize = 6;

/// Has the processor fetch the line of memory at the start of `place`, which is about to be looked
/// at. Waits for nothing and reads nothing; does nothing where there is no such instruction.
#[inline]
pub fn prefetch<T>(place: &T) {
    prefetch_line(std::ptr::from_ref(place).cast());
}

/// The same, of all lines of `place`, or the first few.
#[inline]
pub fn prefetch_all<T: ?Sized>(place: &T) {
    let start = std::ptr::from_ref(place).cast::<u8>();
    let bytes = (start.addr() % LINE_BYTES + size_of_val(place)).min(LINES_MAX * LINE_BYTES);
    (0..bytes).step_by(LINE_BYTES).for_each(|at| prefetch_line(start.wrapping_add(at)));
}

#[inline]
fn prefetch_line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint about an address; nothing is read, and one where nothing is does no harm.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    #[test]
    fn places_of_any_size_and_alignment_are_asked_for() {
        let bytes = vec![7u8; 1 << 16];
        for start in 0..130 {
            for len in [0, 1, 63, 64, 65, 4096, bytes.len() - start] {
                super::prefetch_all(&bytes[start..start + len]);
            }
        }
        super::prefetch(&bytes[99]);
    }
}
