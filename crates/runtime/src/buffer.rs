//! Memory that a disk can write into directly.
//!
//! Invariants
//!  - *aligned*: the memory of an [`AlignedBuf`] starts at a multiple of [`ALIGNMENT`] and its
//!    capacity is a multiple of it.
//!  - *initialised*: the first `len` bytes were written, by us or by the kernel.
//!  - *within*: what a [`DmaBuf`] shows lies within the bytes of its buffer.
#![allow(unsafe_code, reason = "aligned memory")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// The alignment, in bytes, of direct requests: memory, offset and length.
pub const ALIGNMENT: usize = 4096;

const _: () = assert!(ALIGNMENT.is_power_of_two(), "aligned: offsets are rounded by masks");

/// A growable byte buffer whose memory is aligned for direct I/O. Reuse it: `clear` keeps memory.
pub struct AlignedBuf {
    memory: NonNull<u8>,
    capacity: usize,
    len: usize,
}

// SAFETY: *aligned* memory is owned by this buffer alone, like a `Vec<u8>`'s.
unsafe impl Send for AlignedBuf {}

impl AlignedBuf {
    /// An empty buffer; allocates nothing.
    pub const fn new() -> AlignedBuf {
        AlignedBuf { memory: NonNull::dangling(), capacity: 0, len: 0 }
    }

    /// An empty buffer with room for `capacity` bytes, rounded up.
    pub fn with_capacity(capacity: usize) -> AlignedBuf {
        let mut buf = AlignedBuf::new();
        buf.reserve(capacity);
        buf
    }

    /// A copy of `bytes`.
    pub fn copy_from(bytes: &[u8]) -> AlignedBuf {
        let mut buf = AlignedBuf::with_capacity(bytes.len());
        buf.extend_from_slice(bytes);
        buf
    }

    /// Makes room for `more` bytes after the present ones.
    pub fn reserve(&mut self, more: usize) {
        let need = self.len.checked_add(more).expect("a buffer fits the address space");
        if need <= self.capacity {
            return;
        }
        let capacity = need.max(self.capacity.saturating_mul(2)).next_multiple_of(ALIGNMENT);
        let layout = layout(capacity);
        // SAFETY: *aligned*: the layout has a non-zero size.
        let memory = unsafe { alloc(layout) };
        let Some(memory) = NonNull::new(memory) else { handle_alloc_error(layout) };
        // SAFETY: both regions hold at least `len` bytes (*initialised*) and are distinct.
        unsafe { memory.copy_from_nonoverlapping(self.memory, self.len) };
        self.release();
        self.memory = memory;
        self.capacity = capacity;
        self.check();
    }

    /// Bytes that fit without growing.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Empties the buffer and keeps its memory.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Shortens to `len` bytes, where longer.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Makes it `len` bytes long, new ones being `value`.
    pub fn resize(&mut self, len: usize, value: u8) {
        let old = self.len;
        if old < len {
            self.reserve(len - old);
            // SAFETY: *initialised*: `reserve` made room for the bytes from `old` to `len`.
            unsafe { self.memory.add(old).write_bytes(value, len - old) };
        }
        debug_assert!(len <= self.capacity, "initialised: {len} bytes of {}", self.capacity);
        self.len = len;
    }

    /// Appends `bytes`.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        // SAFETY: *initialised*: `reserve` made room after `len`; `bytes` cannot lie in memory that
        // we own alone.
        unsafe {
            self.memory.add(self.len).as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
        };
        self.len += bytes.len();
        debug_assert!(self.len <= self.capacity, "initialised: appended past the capacity");
    }

    /// Appends one byte.
    pub fn push(&mut self, byte: u8) {
        self.extend_from_slice(&[byte]);
    }

    /// Appends zeros up to a multiple of [`ALIGNMENT`].
    pub fn pad(&mut self) {
        let before = self.len;
        self.resize(self.len.next_multiple_of(ALIGNMENT), 0);
        debug_assert!(self.len - before < ALIGNMENT, "aligned: more than one block of padding");
    }

    /// Exposes the first `len` bytes.
    ///
    /// # Safety
    /// They were written, those that are new through [`AlignedBuf::spare`] by the kernel.
    pub(crate) unsafe fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity, "initialised: {len} bytes of {}", self.capacity);
        debug_assert!(self.len <= len, "initialised: {len} bytes exposed after {}", self.len);
        self.len = len;
    }

    /// Where the kernel puts so many bytes behind the present ones. Valid while the buffer lives
    /// and does not grow. Panics where there is no room for them.
    pub(crate) fn spare(&self, more: usize) -> *mut u8 {
        assert!(more <= self.capacity - self.len, "initialised: a read past the capacity");
        // SAFETY: `len <= capacity` (*initialised*), so it stays within the memory.
        unsafe { self.memory.add(self.len).as_ptr() }
    }

    /// *aligned*, *initialised*.
    #[inline]
    fn check(&self) {
        debug_assert!(
            self.capacity == 0 || self.memory.addr().get().is_multiple_of(ALIGNMENT),
            "aligned: memory at {:?}",
            self.memory
        );
        debug_assert!(
            self.capacity.is_multiple_of(ALIGNMENT),
            "aligned: a capacity of {}",
            self.capacity
        );
        debug_assert!(
            self.len <= self.capacity,
            "initialised: {} bytes of {}",
            self.len,
            self.capacity
        );
    }

    fn release(&mut self) {
        self.check();
        if self.capacity != 0 {
            // SAFETY: allocated by `reserve` with this very layout (*aligned*).
            unsafe { dealloc(self.memory.as_ptr(), layout(self.capacity)) };
        }
    }
}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, ALIGNMENT).expect("a buffer fits the address space")
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        self.release();
    }
}
impl Default for AlignedBuf {
    fn default() -> Self {
        AlignedBuf::new()
    }
}
impl Deref for AlignedBuf {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `len <= capacity` bytes are there (*initialised*), or `len` is 0.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.len) }
    }
}
impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: *initialised*, as in `deref`, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.len) }
    }
}
impl Clone for AlignedBuf {
    fn clone(&self) -> AlignedBuf {
        AlignedBuf::copy_from(self)
    }
}
impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuf({} of {} bytes)", self.len, self.capacity)
    }
}
impl std::io::Write for AlignedBuf {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What a read returned: exactly the bytes asked for that exist, inside an aligned buffer.
#[derive(Clone, Debug, Default)]
pub struct DmaBuf {
    buf: AlignedBuf,
    start: usize,
    len: usize,
}

impl DmaBuf {
    /// `len` bytes of `buf` from `start`.
    pub(crate) fn new(buf: AlignedBuf, start: usize, len: usize) -> DmaBuf {
        assert!(start + len <= buf.len(), "within: {len} bytes at {start} of {}", buf.len());
        DmaBuf { buf, start, len }
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        debug_assert!(self.start + self.len <= self.buf.len(), "within: {}", self.buf.len());
        &self.buf[self.start..self.start + self.len]
    }

    /// Bytes of memory before these that [`DmaBuf::prepend`] can use.
    pub fn room(&self) -> usize {
        self.start
    }

    /// Puts bytes before these. Panics where they are more than there is [room](DmaBuf::room) for.
    pub fn prepend(&mut self, bytes: &[u8]) {
        let start = self.start.checked_sub(bytes.len()).expect("no room before a read result");
        self.buf[start..self.start].copy_from_slice(bytes);
        let end = self.start + self.len;
        (self.start, self.len) = (start, self.len + bytes.len());
        debug_assert_eq!(self.start + self.len, end, "within: the end stays where it is");
    }

    /// The memory, for reuse; its content is unspecified.
    pub fn into_buffer(self) -> AlignedBuf {
        self.buf
    }
}
impl Deref for DmaBuf {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}
impl AsRef<[u8]> for DmaBuf {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}
