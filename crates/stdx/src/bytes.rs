//! A shared, immutable slice that stays on its shard.
//!
//! Invariants
//!  - *in-bounds*: `start + len <= owner.len()`, always; so `as_slice` never fails.
//!
//! Cloning costs one non-atomic increment; slicing shares the owner. What crosses shards is a
//! `Vec<u8>` or a `Box<[u8]>`, never this.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, Range};
use std::rc::Rc;

/// A cheap to clone, cheap to slice, immutable byte string of one shard.
#[derive(Clone)]
pub struct Bytes {
    owner: Option<Rc<[u8]>>,
    start: u32,
    len: u32,
}

impl Bytes {
    /// The empty string; allocates nothing.
    #[inline]
    pub const fn new() -> Bytes {
        Bytes { owner: None, start: 0, len: 0 }
    }

    /// Copies `bytes` into one allocation. Panics over 4 GiB: no frame, row or block is that long.
    #[inline]
    pub fn copy_from(bytes: &[u8]) -> Bytes {
        if bytes.is_empty() {
            return Bytes::new();
        }
        assert!(bytes.len() <= u32::MAX as usize, "a byte string over 4 GiB");
        Bytes { owner: Some(Rc::from(bytes)), start: 0, len: bytes.len() as u32 }
    }

    /// The bytes themselves.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match &self.owner {
            Some(owner) => &owner[self.start as usize..(self.start + self.len) as usize],
            None => &[],
        }
    }

    /// A part of this string that shares its memory. Panics when `range` is out of bounds.
    #[inline]
    pub fn slice(&self, range: Range<usize>) -> Bytes {
        assert!(range.start <= range.end && range.end <= self.len as usize, "slice out of bounds");
        let start = self.start + range.start as u32;
        Bytes { owner: self.owner.clone(), start, len: (range.end - range.start) as u32 }
    }

    /// The position of `part`, a subslice of `self`, as a shared slice. Panics if it is not one.
    #[inline]
    pub fn slice_ref(&self, part: &[u8]) -> Bytes {
        if part.is_empty() {
            return Bytes::new();
        }
        let base = self.as_slice().as_ptr() as usize;
        let at = (part.as_ptr() as usize).checked_sub(base);
        let at = at.filter(|at| at + part.len() <= self.len as usize);
        match at {
            Some(at) => self.slice(at..at + part.len()),
            None => panic!("slice_ref: not a part of this string"),
        }
    }
}

impl Default for Bytes {
    #[inline]
    fn default() -> Self {
        Bytes::new()
    }
}
impl Deref for Bytes {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}
impl AsRef<[u8]> for Bytes {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}
impl Borrow<[u8]> for Bytes {
    #[inline]
    fn borrow(&self) -> &[u8] {
        self.as_slice()
    }
}
impl From<Vec<u8>> for Bytes {
    #[inline]
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes::copy_from(&bytes)
    }
}
impl From<Rc<[u8]>> for Bytes {
    /// Shares the bytes; panics over 4 GiB.
    #[inline]
    fn from(owner: Rc<[u8]>) -> Bytes {
        let len = u32::try_from(owner.len()).expect("a byte string is under 4 GiB");
        Bytes { owner: Some(owner), start: 0, len }
    }
}
impl From<&[u8]> for Bytes {
    #[inline]
    fn from(bytes: &[u8]) -> Bytes {
        Bytes::copy_from(bytes)
    }
}
impl PartialEq for Bytes {
    #[inline]
    fn eq(&self, other: &Bytes) -> bool {
        self.as_slice() == other.as_slice()
    }
}
impl Eq for Bytes {}
impl PartialOrd for Bytes {
    #[inline]
    fn partial_cmp(&self, other: &Bytes) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Bytes {
    #[inline]
    fn cmp(&self, other: &Bytes) -> std::cmp::Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}
impl Hash for Bytes {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}
impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        self.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_shares_and_compares_by_content() {
        let all = Bytes::copy_from(b"hello world");
        let world = all.slice(6..11);
        assert_eq!(&*world, b"world");
        assert_eq!(world, Bytes::copy_from(b"world"));
        assert_eq!(all.slice_ref(&all[2..5]), Bytes::copy_from(b"llo"));
        assert!(all.slice(3..3).is_empty());
    }

    #[test]
    #[should_panic(expected = "slice out of bounds")]
    fn a_slice_past_the_end_is_a_bug() {
        Bytes::copy_from(b"abc").slice(1..5);
    }
}
