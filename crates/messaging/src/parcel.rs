//! Parcels: frames that travel together under one checksum. Pure.
//!
//! What a node sends at once is cut into parcels. A parcel is a head of [`HEAD_BYTES`], and frames
//! one after the other. All integers are big-endian.
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 4 | CRC32 of the rest of the head |
//! | 4 | 4 | bytes of the frames |
//! | 8 | 4 | CRC32 of the frames |
//!
//! A small message costs as many instructions to be sealed and checked as its bytes cost to be
//! copied: so it is done for many of them together. What is large is alone in its parcel, so that
//! its bytes need not be gathered before its length is judged, and are read to where they stay.
//!
//! Invariants
//!  - *length-first* (of frames): how long a parcel is is known, and checked, before more of it is
//!    read.
//!  - *short-or-alone*: a parcel has frames of [`PARCEL_BYTES_MAX`] together, or a single one.
//!  - *flipped-is-noticed*: no changed bit of a parcel passes.

use crate::frame::{BODY_BYTES_MAX, HEADER_BYTES, Header};
use stdx::checksum::{crc32, crc32_append};
use stdx::{Cursor, Damaged};

/// The bytes of a head.
pub const HEAD_BYTES: usize = 12;
/// The bytes of the checksum of a head.
const CRC_BYTES: usize = 4;
/// What several frames of a parcel may have together.
pub const PARCEL_BYTES_MAX: usize = 32 << 10;

const _: () = assert!(BODY_BYTES_MAX + HEADER_BYTES <= u32::MAX as usize, "length-first: 32 bits");

/// What comes before the frames of a parcel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes of the frames.
    pub bytes: u32,
    /// Their checksum.
    pub crc: u32,
}

impl Head {
    /// Of these frames.
    pub fn of(frames: &[u8]) -> Head {
        debug_assert!(HEADER_BYTES <= frames.len(), "short-or-alone: a parcel of no frame");
        Head { bytes: frames.len() as u32, crc: crc32(frames) }
    }

    /// The same with more bytes of its single frame.
    pub fn and(self, more: &[u8]) -> Head {
        let bytes = self.bytes + more.len() as u32;
        debug_assert!(bytes as usize <= HEADER_BYTES + BODY_BYTES_MAX, "length-first: {bytes}");
        Head { bytes, crc: crc32_append(self.crc, more) }
    }

    /// Its bytes.
    pub fn encode(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[CRC_BYTES..8].copy_from_slice(&self.bytes.to_be_bytes());
        bytes[8..].copy_from_slice(&self.crc.to_be_bytes());
        let crc = crc32(&bytes[CRC_BYTES..]);
        bytes[..CRC_BYTES].copy_from_slice(&crc.to_be_bytes());
        bytes
    }

    /// The head at the start of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Head, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let crc = cursor.u32("parcel shorter than its head")?;
        let sealed = cursor.rest();
        let head = Head {
            bytes: cursor.u32("parcel shorter than its head")?,
            crc: cursor.u32("parcel shorter than its head")?,
        };
        if crc32(&sealed[..HEAD_BYTES - CRC_BYTES]) != crc {
            return Err(Damaged::new("wrong checksum of a parcel's head", 0));
        }
        let bytes = head.bytes as usize;
        if !(HEADER_BYTES..=HEADER_BYTES + BODY_BYTES_MAX).contains(&bytes) {
            return Err(Damaged::new("length that no parcel has", CRC_BYTES as u64));
        }
        Ok(head)
    }

    /// Whether it is of a single frame, whose bytes are not gathered.
    pub fn is_alone(self) -> bool {
        PARCEL_BYTES_MAX < self.bytes as usize
    }

    /// Whether the frames are what they were when they were sent.
    pub fn check(self, frames: &[u8]) -> Result<(), Damaged> {
        debug_assert_eq!(frames.len(), self.bytes as usize, "length-first: another parcel");
        self.check_crc(crc32(frames))
    }

    /// The same of a single frame.
    pub fn check_alone(self, header: &Header, body: &[u8]) -> Result<(), Damaged> {
        debug_assert_eq!(HEADER_BYTES + body.len(), self.bytes as usize, "short-or-alone");
        self.check_crc(crc32_append(crc32(&header.encode()), body))
    }

    fn check_crc(self, crc: u32) -> Result<(), Damaged> {
        match crc == self.crc {
            true => Ok(()),
            false => Err(Damaged::new("wrong checksum of a parcel", HEAD_BYTES as u64)),
        }
    }

    /// The header of a frame that is alone in its parcel, at the start of `bytes`.
    pub fn alone(self, bytes: &[u8]) -> Result<Header, Damaged> {
        debug_assert!(self.is_alone(), "short-or-alone: of several frames");
        let header = Header::decode(bytes)?;
        if HEADER_BYTES + header.body_bytes as usize != self.bytes as usize {
            return Err(Damaged::new("large parcel is not a single frame", CRC_BYTES as u64));
        }
        Ok(header)
    }
}

/// The next frame of checked bytes, and where its body ends.
pub fn frame(bytes: &[u8]) -> Result<(Header, usize), Damaged> {
    let header = Header::decode(bytes)?;
    let end = HEADER_BYTES + header.body_bytes as usize;
    if bytes.len() < end {
        return Err(Damaged::new("frame goes on behind its parcel", 0));
    }
    Ok((header, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Kind;
    use crate::testing::arbitrary_header;
    use proptest::prelude::*;

    #[test]
    fn a_head_has_one_form() {
        let head = Head::of(&Header::bare(Kind::Beat, 0, 0).encode());
        let text: String = head.encode().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, "7d607c450000001818ca68c1");
        assert_eq!(Head::decode(&head.encode()), Ok(head));
        for bytes in [0, HEADER_BYTES - 1, HEADER_BYTES + BODY_BYTES_MAX + 1] {
            let wrong = Head { bytes: bytes as u32, ..head };
            assert!(Head::decode(&wrong.encode()).is_err(), "{bytes}");
        }
    }

    proptest! {
        #[test]
        fn no_flipped_bit_passes(body in proptest::collection::vec(any::<u8>(), 1..99), at: usize) {
            let length = body.len() as u32;
            let bare = Header::bare(Kind::Reply, 7, 0);
            let header = Header { body_bytes: length, raw_bytes: length, ..bare };
            let head = Head::of(&header.encode()).and(&body);
            let frames = [&header.encode()[..], &body].concat();
            prop_assert_eq!(head, Head::of(&frames));
            prop_assert_eq!(head.check_alone(&header, &body), Ok(()));
            prop_assert_eq!(frame(&frames), Ok((header, frames.len())));
            prop_assert!(frame(&frames[..frames.len() - 1]).is_err());
            let mut bytes = [&head.encode()[..], &frames].concat();
            let at = at % (8 * bytes.len());
            bytes[at / 8] ^= 1 << (at % 8);
            let noticed = match Head::decode(&bytes) {
                Err(_) => true,
                Ok(head) => head.check(&bytes[HEAD_BYTES..]).is_err(),
            };
            prop_assert!(noticed, "bit {at}");
        }

        #[test]
        fn any_bytes_are_survived(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..2 * HEADER_BYTES),
            seed: u64,
            large in PARCEL_BYTES_MAX as u32 + 1..,
        ) {
            if let Ok(head) = Head::decode(&bytes) {
                prop_assert_eq!(&head.encode()[..], &bytes[..HEAD_BYTES]);
            }
            let _ = frame(&bytes);
            let head = Head { bytes: large, crc: 0 };
            bytes.splice(..0, arbitrary_header(seed).encode());
            let alone = head.alone(&bytes).map(|header| header.body_bytes);
            prop_assert!(alone.is_err() || alone == Ok(large - HEADER_BYTES as u32));
        }
    }
}
