//! The bytes of a segment of hints. Pure.
//!
//! ```text
//! segment := header hint*
//! header  := magic:be32 version:be32 host:16 crc32:be32(the 24 bytes before)          28 bytes
//! hint    := size:be32 crc32:be32(size) body crc32:be32(body)      size counts the body alone
//! body    := written_at:be64 request         a request as MUTATION has it, of one mutation or more
//! ```
//! A hint is read back in another life of the process, after whatever the disk did meanwhile: it is
//! as foreign as what another node sends.
//!
//! Invariants
//!  - *one-form*: what is taken for a hint is made of the same bytes again.
//!  - *foreign-is-damaged*: no bytes make the reader panic, go back, stay where it is, or ask for
//!    more than the largest hint has.
//!  - *as-written*: a hint has the bytes of the mutation that the replica missed, so that its
//!    timestamps are those of the write, whenever it is sent.

use crate::wire;
use model::Uuid;
use stdx::checksum::crc32;
use stdx::{Cursor, Damaged, Put};

/// "NHNT".
const MAGIC: u32 = 0x4e48_4e54;
const VERSION: u32 = 1;
/// Bytes of a segment's header.
pub const HEADER: usize = 28;
/// Bytes of a hint before its body.
const HEAD: usize = 8;
/// Bytes of a hint beside its request.
pub const OVERHEAD: usize = HEAD + 8 + 4;
/// The largest body.
const BODY_BYTES_MAX: usize = 64 << 20;
/// The largest request that is kept.
pub const REQUEST_BYTES_MAX: usize = BODY_BYTES_MAX - 8;

/// The header of a segment of hints for that node.
pub fn header(host: Uuid) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER);
    out.put_u32(MAGIC);
    out.put_u32(VERSION);
    out.put(host.as_bytes());
    out.put_u32(crc32(&out));
    debug_assert_eq!(out.len(), HEADER, "one-form: a header of {} bytes", out.len());
    out
}

/// Whether a segment begins with the header of that node.
pub fn check_header(bytes: &[u8], host: Uuid) -> Result<(), Damaged> {
    let mut cursor = Cursor::new(bytes);
    match cursor.take(HEADER, "header of a segment of hints")? == header(host) {
        true => Ok(()),
        false => Err(Damaged::new("header of a segment of hints", 0)),
    }
}

/// A hint, as it lies in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint<'a> {
    /// Microseconds since 1970, by the clock of the node that wrote it down.
    pub written_at: i64,
    /// What the replica missed, as MUTATION has it.
    pub request: &'a [u8],
}

impl Hint<'_> {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let Hint { written_at, request } = self;
        assert!(request.len() <= REQUEST_BYTES_MAX, "one-form: {} bytes", request.len());
        debug_assert!(!request.is_empty(), "one-form: a hint of nothing");
        let mut out = Vec::with_capacity(OVERHEAD + request.len());
        let size = (8 + request.len()) as u32;
        out.put_u32(size);
        out.put_u32(crc32(&size.to_be_bytes()));
        out.put_i64(*written_at);
        out.put(request);
        out.put_u32(crc32(&out[HEAD..]));
        debug_assert_eq!(out.len(), OVERHEAD + request.len(), "one-form: another length");
        out
    }
}

/// What comes next in a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A hint, and how many bytes it takes.
    Hint(Hint<'a>, usize),
    /// A hint whose bytes are damaged, and how many it takes: what comes after it can be read.
    Skip(Damaged, usize),
    /// The bytes are a hint's begin; so many are needed at least.
    Short(usize),
    /// Nothing behind here can be read.
    Lost(Damaged),
}

/// Reads on: `bytes` begin where a hint begins, and are not empty.
pub fn step(bytes: &[u8]) -> Step<'_> {
    let mut cursor = Cursor::new(bytes);
    let (Ok(size), Ok(sum)) = (cursor.u32("size of a hint"), cursor.u32("its checksum")) else {
        return Step::Short(HEAD);
    };
    let length = size as usize;
    if crc32(&size.to_be_bytes()) != sum || !(9..=BODY_BYTES_MAX).contains(&length) {
        return Step::Lost(Damaged::new("size of a hint", 0));
    }
    let all = HEAD + length + 4;
    let Ok(body) = cursor.take(length, "body of a hint") else { return Step::Short(all) };
    let Ok(sum) = cursor.u32("checksum of a hint") else { return Step::Short(all) };
    debug_assert_eq!(cursor.offset(), all, "foreign-is-damaged: another length");
    if crc32(body) != sum {
        return Step::Skip(Damaged::new("checksum of a hint", HEAD as u64), all);
    }
    let mut cursor = Cursor::new(body);
    let Ok(written_at) = cursor.i64("time of a hint") else {
        return Step::Lost(Damaged::new("time of a hint", HEAD as u64));
    };
    let request = cursor.rest();
    match wire::decode_mutations(request) {
        Ok(_) => Step::Hint(Hint { written_at, request }, all),
        Err(damaged) => Step::Skip(damaged.from_base(HEAD as u64 + 8), all),
    }
}

#[cfg(test)]
mod tests;
