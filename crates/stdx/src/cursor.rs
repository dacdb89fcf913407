//! The checked door for foreign bytes, and its way out.
//!
//! [`Cursor`] reads forward over a slice; every read either yields a well-formed value or
//! [`Damaged`] with what was expected and where. [`Put`] is the writing half. All integers are
//! big-endian unless the name ends in `_le`.

use crate::vint;
use std::fmt;

/// Bytes that break their own rules: what was expected, and the offset at which it was not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// The broken rule, as a phrase ("cell shorter than its header").
    pub what: &'static str,
    /// Offset from the start of the parsed slice.
    pub at: u64,
}

impl Damaged {
    /// A broken rule at an offset.
    pub const fn new(what: &'static str, at: u64) -> Damaged {
        Damaged { what, at }
    }
    /// The same damage, seen from `base` bytes further out.
    pub fn from_base(self, base: u64) -> Damaged {
        Damaged { what: self.what, at: self.at.saturating_add(base) }
    }
}
impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}", self.what, self.at)
    }
}
impl std::error::Error for Damaged {}

/// A forward reader over a slice. Never panics, never reads past the end.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    total: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at the first byte.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: bytes, total: bytes.len() }
    }
    /// How many bytes were read.
    #[inline]
    pub const fn offset(&self) -> usize {
        self.total - self.rest.len()
    }
    /// What is left.
    #[inline]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }
    /// How many bytes are left.
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }
    /// Whether all was read.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
    /// Damage at the present offset.
    pub const fn damaged(&self, what: &'static str) -> Damaged {
        Damaged { what, at: self.offset() as u64 }
    }
    /// The next `count` bytes.
    #[inline]
    pub fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], Damaged> {
        match self.rest.split_at_checked(count) {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(head)
            }
            None => Err(self.damaged(what)),
        }
    }
    /// The next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Damaged> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(*head)
            }
            None => Err(self.damaged(what)),
        }
    }
    /// One byte.
    #[inline]
    pub fn u8(&mut self, what: &'static str) -> Result<u8, Damaged> {
        Ok(self.array::<1>(what)?[0])
    }
    /// Two bytes.
    #[inline]
    pub fn u16(&mut self, what: &'static str) -> Result<u16, Damaged> {
        self.array(what).map(u16::from_be_bytes)
    }
    /// Four bytes.
    #[inline]
    pub fn u32(&mut self, what: &'static str) -> Result<u32, Damaged> {
        self.array(what).map(u32::from_be_bytes)
    }
    /// Four bytes, signed.
    #[inline]
    pub fn i32(&mut self, what: &'static str) -> Result<i32, Damaged> {
        self.array(what).map(i32::from_be_bytes)
    }
    /// Eight bytes.
    #[inline]
    pub fn u64(&mut self, what: &'static str) -> Result<u64, Damaged> {
        self.array(what).map(u64::from_be_bytes)
    }
    /// Eight bytes, signed.
    #[inline]
    pub fn i64(&mut self, what: &'static str) -> Result<i64, Damaged> {
        self.array(what).map(i64::from_be_bytes)
    }
    /// An unsigned vint (see [`vint`]).
    #[inline]
    pub fn vint(&mut self, what: &'static str) -> Result<u64, Damaged> {
        match vint::read(self.rest) {
            Some((value, size)) => {
                self.rest = &self.rest[size..];
                Ok(value)
            }
            None => Err(self.damaged(what)),
        }
    }
    /// A signed (zig-zag) vint.
    #[inline]
    pub fn svint(&mut self, what: &'static str) -> Result<i64, Damaged> {
        self.vint(what).map(vint::unzigzag)
    }
    /// A vint length and as many bytes.
    #[inline]
    pub fn vint_bytes(&mut self, what: &'static str) -> Result<&'a [u8], Damaged> {
        let count = self.vint(what)?;
        let count = usize::try_from(count).map_err(|_| self.damaged(what))?;
        self.take(count, what)
    }
    /// A 16-bit length and as many bytes.
    #[inline]
    pub fn u16_bytes(&mut self, what: &'static str) -> Result<&'a [u8], Damaged> {
        let count = self.u16(what)?;
        self.take(count as usize, what)
    }
    /// A 32-bit unsigned length and as many bytes.
    #[inline]
    pub fn u32_bytes(&mut self, what: &'static str) -> Result<&'a [u8], Damaged> {
        let count = self.u32(what)?;
        self.take(count as usize, what)
    }
}

/// Appends integers, vints and length-prefixed strings; big-endian unless the name says `_le`.
pub trait Put {
    /// Raw bytes.
    fn put(&mut self, bytes: &[u8]);
    /// One byte.
    #[inline]
    fn put_u8(&mut self, value: u8) {
        self.put(&[value]);
    }
    /// Two bytes.
    #[inline]
    fn put_u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }
    /// Four bytes.
    #[inline]
    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }
    /// Four bytes, signed.
    #[inline]
    fn put_i32(&mut self, value: i32) {
        self.put(&value.to_be_bytes());
    }
    /// Eight bytes.
    #[inline]
    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_be_bytes());
    }
    /// Eight bytes, signed.
    #[inline]
    fn put_i64(&mut self, value: i64) {
        self.put(&value.to_be_bytes());
    }
    /// An unsigned vint.
    #[inline]
    fn put_vint(&mut self, value: u64) {
        if value < 0x80 {
            return self.put_u8(value as u8);
        }
        if value < 0x4000 {
            return self.put(&[0x80 | (value >> 8) as u8, value as u8]);
        }
        let (bytes, size) = vint::encode(value);
        self.put(&bytes[..size]);
    }
    /// A signed (zig-zag) vint.
    #[inline]
    fn put_svint(&mut self, value: i64) {
        self.put_vint(vint::zigzag(value));
    }
    /// A vint length and the bytes.
    #[inline]
    fn put_vint_bytes(&mut self, bytes: &[u8]) {
        self.put_vint(bytes.len() as u64);
        self.put(bytes);
    }
    /// A 16-bit length and the bytes. Panics over 65 535 bytes: the caller has checked.
    #[inline]
    fn put_u16_bytes(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= u16::MAX as usize, "a string over 65535 bytes");
        self.put_u16(bytes.len() as u16);
        self.put(bytes);
    }
    /// A 32-bit length and the bytes. Panics over 4 GiB.
    #[inline]
    fn put_u32_bytes(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= u32::MAX as usize, "a string over 4 GiB");
        self.put_u32(bytes.len() as u32);
        self.put(bytes);
    }
}

impl Put for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
    #[inline]
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }
    #[inline]
    fn put_vint(&mut self, value: u64) {
        if value < 0x80 {
            return self.push(value as u8);
        }
        put_long_vint(value, self);
    }
}

/// A vint of more than one byte: as many as it can have are put at once, and what is too many is
/// taken back.
#[inline]
fn put_long_vint(value: u64, out: &mut Vec<u8>) {
    let (bytes, size) = vint::encode(value);
    out.extend_from_slice(&bytes);
    out.truncate(out.len() - (vint::SIZE_MAX - size));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_read_back_and_the_end_is_damage() {
        let mut out = Vec::new();
        out.put_u8(7);
        out.put_u16(300);
        out.put_i64(-5);
        out.put_svint(-1234567);
        out.put_vint_bytes(b"abc");
        out.put_u16_bytes(b"de");
        let mut cursor = Cursor::new(&out);
        assert_eq!(cursor.u8("a"), Ok(7));
        assert_eq!(cursor.u16("b"), Ok(300));
        assert_eq!(cursor.i64("c"), Ok(-5));
        assert_eq!(cursor.svint("d"), Ok(-1234567));
        assert_eq!(cursor.vint_bytes("e"), Ok(&b"abc"[..]));
        assert_eq!(cursor.u16_bytes("f"), Ok(&b"de"[..]));
        assert!(cursor.is_empty());
        let end = out.len() as u64;
        assert_eq!(cursor.u8("no more"), Err(Damaged::new("no more", end)));
    }

    #[test]
    fn a_length_past_the_end_reads_nothing() {
        let mut cursor = Cursor::new(&[0xff, 0xff, 1, 2]);
        assert_eq!(cursor.u16_bytes("long").unwrap_err().what, "long");
    }
}
