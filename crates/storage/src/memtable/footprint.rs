//! What the parts of a memtable take from the allocator.
//!
//! Sizes are those of the allocator's size classes, so that the sum is what the process takes and
//! not what was asked for.
//!
//! Invariants
//!  - *holds-it*: a size class is no smaller than what is asked for, and less than a quarter of it,
//!    or 16 bytes, is waste.

/// The smallest size class, in bytes.
const CLASS_MIN: usize = 8;

/// By how much something has grown, in bytes; it may have shrunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grown(isize);

impl Grown {
    pub(super) fn add(&mut self, bytes: usize) {
        self.0 += bytes as isize;
    }
    /// Something of `before` bytes has `after` now.
    pub(super) fn change(&mut self, before: usize, after: usize) {
        self.0 += after as isize - before as isize;
    }
    pub(super) fn merge(&mut self, other: Grown) {
        self.0 += other.0;
    }
    pub(crate) fn bytes(self) -> isize {
        self.0
    }
}

/// The bytes of the size class that an allocation of so many comes from: powers of two and three
/// steps between them; multiples of 16 up to 128.
pub(super) fn class_bytes(bytes: usize) -> usize {
    const { assert!(CLASS_MIN.is_power_of_two() && CLASS_MIN < 16) };
    let class = match bytes {
        0 => 0,
        1..=CLASS_MIN => CLASS_MIN,
        9..=128 => bytes.next_multiple_of(16),
        _ => bytes.next_multiple_of(bytes.next_power_of_two() / 8),
    };
    debug_assert!(
        bytes <= class && class - bytes < 16.max(class / 4),
        "holds-it: {bytes} bytes of {class}"
    );
    class
}

/// Of a shared value.
pub(super) fn boxed_bytes<T>() -> usize {
    class_bytes(2 * size_of::<usize>() + size_of::<T>())
}

/// Of a shared byte string; the empty one takes nothing.
pub(super) fn blob_bytes(len: usize) -> usize {
    match len {
        0 => 0,
        _ => class_bytes((2 * size_of::<usize>() + len).next_multiple_of(8)),
    }
}

/// Of the buffer of a vector.
pub(super) fn vec_bytes<T>(capacity: usize) -> usize {
    class_bytes(capacity * size_of::<T>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_the_allocator() {
        for (bytes, class) in [
            (0, 0),
            (1, 8),
            (8, 8),
            (9, 16),
            (17, 32),
            (113, 128),
            (128, 128),
            (129, 160),
            (161, 192),
            (193, 224),
            (225, 256),
            (257, 320),
            (4097, 5120),
        ] {
            assert_eq!(class_bytes(bytes), class, "{bytes}");
        }
    }
}
