//! Bodies made shorter, and back. Pure.
//!
//! Invariants
//!  - *bounded-unpacking*: a body is unpacked into as many bytes as its header says, which were
//!    checked before; one that has more or fewer is damaged.
//!  - *worth-it*: a compressed body is shorter than it was.

use crate::algorithms::Compression;
use crate::frame::{HEADER_BYTES, Header};
use std::borrow::Cow;
use stdx::Damaged;

/// Shorter bodies travel as they are.
pub const BYTES_MIN: usize = 1024;
/// The level of Zstandard: links are faster than its higher ones.
const ZSTD_LEVEL: i32 = 1;
/// LZ4 cannot shrink anything by more than this.
const LZ4_RATIO_MAX: usize = 255;

/// A body as it travels, and its header: compressed if that is shorter.
pub fn pack<'a>(
    compression: Compression,
    header: Header,
    body: impl Into<Cow<'a, [u8]>>,
) -> (Header, Vec<u8>) {
    let body = body.into();
    let packed = match compression {
        Compression::Lz4 => Some(lz4_flex::block::compress(&body)),
        Compression::Zstd => zstd::bulk::compress(&body, ZSTD_LEVEL).ok(),
    };
    let raw_bytes = body.len();
    let packed = packed.filter(|packed| packed.len() < raw_bytes);
    let used = packed.is_some().then_some(compression);
    let travels = packed.unwrap_or_else(|| body.into_owned());
    debug_assert!(travels.is_empty() == (raw_bytes == 0), "worth-it: something out of nothing");
    debug_assert!(travels.len() <= raw_bytes, "worth-it: {} of {raw_bytes}", travels.len());
    let header = Header {
        compression: used,
        body_bytes: travels.len() as u32,
        raw_bytes: raw_bytes as u32,
        ..header
    };
    (header, travels)
}

/// What a compressed body was, if that has no more than `bytes_max`.
pub fn unpack(header: &Header, body: &[u8], bytes_max: usize) -> Result<Vec<u8>, Damaged> {
    let damaged = |what| Damaged::new(what, HEADER_BYTES as u64);
    let compression = header.compression.ok_or(damaged("body is not compressed"))?;
    let raw_bytes = header.raw_bytes as usize;
    if bytes_max < raw_bytes {
        return Err(damaged("compressed body is too long"));
    }
    if compression == Compression::Lz4 && body.len().saturating_mul(LZ4_RATIO_MAX) < raw_bytes {
        return Err(damaged("compressed body claims an impossible length"));
    }
    let unpacked = match compression {
        Compression::Lz4 => {
            let mut out = vec![0; raw_bytes];
            let size = lz4_flex::block::decompress_into(body, &mut out).ok();
            size.filter(|size| *size == raw_bytes).map(|_| out)
        }
        Compression::Zstd => {
            let out = zstd::bulk::decompress(body, raw_bytes).ok();
            out.filter(|out| out.len() == raw_bytes)
        }
    };
    let unpacked = unpacked.ok_or(damaged("compressed body cannot be unpacked"))?;
    debug_assert_eq!(unpacked.len(), raw_bytes, "bounded-unpacking: another length");
    Ok(unpacked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Kind;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bodies_round_trip(bytes in proptest::collection::vec(0u8..4, 0..3000)) {
            for compression in Compression::ALL {
                let (header, body) = pack(compression, Header::bare(Kind::Reply, 1, 0), &bytes);
                if !header.is_compressed() {
                    prop_assert_eq!(&body, &bytes);
                    continue;
                }
                let unpacked = unpack(&header, &body, bytes.len());
                prop_assert_eq!(unpacked.as_ref(), Ok(&bytes));
                prop_assert!(unpack(&header, &body, bytes.len() - 1).is_err());
                for raw_bytes in [header.raw_bytes - 1, header.raw_bytes + 1] {
                    let lies = Header { raw_bytes, ..header };
                    prop_assert!(unpack(&lies, &body, 1 << 20).is_err());
                }
            }
        }

        #[test]
        fn any_body_is_survived(
            body in proptest::collection::vec(any::<u8>(), 1..200),
            raw_bytes in 1u32..100_000,
        ) {
            let mut header = Header::bare(Kind::Reply, 1, 0);
            (header.raw_bytes, header.body_bytes) = (raw_bytes, body.len() as u32);
            for compression in Compression::ALL {
                header.compression = Some(compression);
                if let Ok(bytes) = unpack(&header, &body, 1 << 16) {
                    prop_assert_eq!(bytes.len(), raw_bytes as usize);
                }
            }
        }
    }
}
