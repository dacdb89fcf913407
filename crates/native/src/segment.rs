//! Segments, the outer framing of protocol version 5: checksummed carriers of envelopes.
//!
//! ```text
//! plain       length:17 self_contained:1 padding:6          = 3 bytes, little-endian
//! compressed  length:17 uncompressed:17 self_contained:1 .. = 5 bytes, little-endian
//! then        crc24(header):LE24 payload crc32(payload):LE32
//! ```
//!
//! Invariants
//!  - *checked-before-used*: no byte of a payload is parsed before both checksums match.
//!  - *bounded*: a payload holds at most 128 KiB - 1, so a segment never needs more.

use crate::compress;
use crate::frame;
use stdx::checksum::{crc24, crc32_of};

/// The most bytes of one payload.
pub(crate) const PAYLOAD_BYTES_MAX: usize = (1 << 17) - 1;
const TRAILER_BYTES: usize = 4;
/// CRC32 of the four bytes that the protocol puts before each payload.
const CRC32_PREFIX: [u8; 4] = [0xfa, 0x2d, 0x55, 0xca];

/// Whether a connection's segments are compressed (always with LZ4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Plain,
    Lz4,
}

impl Packing {
    fn header_bytes(self) -> usize {
        match self {
            Packing::Plain => 3,
            Packing::Lz4 => 5,
        }
    }
}

/// Why input is not a segment; the connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken(pub(crate) &'static str);

/// Takes one segment off the front of `input` and appends its payload to `payload`. `Ok(None)`:
/// more bytes are needed; otherwise how many were used.
pub(crate) fn decode(
    packing: Packing,
    input: &[u8],
    payload: &mut Vec<u8>,
) -> Result<Option<usize>, Broken> {
    let header_bytes = packing.header_bytes();
    let Some((head, rest)) = input.split_at_checked(header_bytes + 3) else { return Ok(None) };
    let word = little_endian(head);
    let header = word & ((1u64 << (8 * header_bytes)) - 1);
    if crc24(header, header_bytes) as u64 != word >> (8 * header_bytes) {
        return Err(Broken("segment header checksum mismatch"));
    }
    let length = (header & 0x1ffff) as usize;
    let Some((body, trailer)) = rest.split_at_checked(length) else { return Ok(None) };
    let Some(trailer) = trailer.first_chunk::<TRAILER_BYTES>() else { return Ok(None) };
    if payload_crc(body) != u32::from_le_bytes(*trailer) {
        return Err(Broken("segment payload checksum mismatch"));
    }
    match (packing, (header >> 17 & 0x1ffff) as usize) {
        (Packing::Lz4, unpacked) if 0 < unpacked => {
            let broken = |_| Broken("segment payload does not decompress");
            compress::lz4_block(body, unpacked, payload).map_err(broken)?;
        }
        _ => payload.extend_from_slice(body),
    }
    Ok(Some(header_bytes + 3 + length + TRAILER_BYTES))
}

/// Appends whole envelopes as segments: as many as fit together into one self-contained segment;
/// one that fits into none goes alone, in several.
pub(crate) fn encode(packing: Packing, envelopes: &[u8], out: &mut Vec<u8>) {
    let mut rest = envelopes;
    while !rest.is_empty() {
        let fitting = fitting_bytes(rest);
        let (now, later) = rest.split_at(fitting);
        let contained = now.len() <= PAYLOAD_BYTES_MAX;
        for payload in now.chunks(PAYLOAD_BYTES_MAX) {
            encode_one(packing, payload, contained, out);
        }
        rest = later;
    }
}

/// The bytes of the first envelopes that fit into one payload; of the first one if it does not.
fn fitting_bytes(envelopes: &[u8]) -> usize {
    let mut end = 0;
    while let Some(bytes) = frame::envelope_bytes(&envelopes[end..]) {
        let next = end + bytes;
        assert!(next <= envelopes.len(), "an envelope of ours is whole");
        if end != 0 && PAYLOAD_BYTES_MAX < next {
            break;
        }
        end = next;
    }
    end
}

fn encode_one(packing: Packing, payload: &[u8], contained: bool, out: &mut Vec<u8>) {
    let packed;
    let (body, unpacked) = match packing {
        Packing::Plain => (payload, 0),
        Packing::Lz4 => {
            packed = compress::lz4_pack(payload);
            if packed.len() < payload.len() { (&packed[..], payload.len()) } else { (payload, 0) }
        }
    };
    let header_bytes = packing.header_bytes();
    let header = match packing {
        Packing::Plain => body.len() as u64 | (contained as u64) << 17,
        Packing::Lz4 => body.len() as u64 | (unpacked as u64) << 17 | (contained as u64) << 34,
    };
    out.extend_from_slice(&header.to_le_bytes()[..header_bytes]);
    out.extend_from_slice(&crc24(header, header_bytes).to_le_bytes()[..3]);
    out.extend_from_slice(body);
    out.extend_from_slice(&payload_crc(body).to_le_bytes());
}

fn payload_crc(payload: &[u8]) -> u32 {
    crc32_of(&[&CRC32_PREFIX, payload])
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | *byte as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{HEADER_BYTES, opcode};
    use proptest::prelude::*;

    fn envelopes(bodies: &[Vec<u8>]) -> Vec<u8> {
        let mut out = Vec::new();
        for body in bodies {
            let start = frame::begin(&mut out, 5, 0, 1, opcode::RESULT);
            out.extend_from_slice(body);
            frame::finish(&mut out, start);
        }
        out
    }

    fn round_trip(packing: Packing, bodies: &[Vec<u8>]) {
        let envelopes = envelopes(bodies);
        let mut wire = Vec::new();
        encode(packing, &envelopes, &mut wire);
        let mut out = Vec::new();
        let mut at = 0;
        while at < wire.len() {
            at += decode(packing, &wire[at..], &mut out).unwrap().expect("a whole segment");
        }
        assert_eq!(out, envelopes);
    }

    #[test]
    fn a_large_envelope_goes_alone() {
        let noise: Vec<u8> = (0..400_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        round_trip(Packing::Plain, &[vec![1; 10], noise.clone(), vec![2; 10]]);
        round_trip(Packing::Lz4, &[noise, vec![2; 10]]);
        let large = envelopes(&[vec![1; 10], vec![3; 300_000], vec![2; 10]]);
        assert_eq!(fitting_bytes(&large), 10 + HEADER_BYTES);
        assert_eq!(fitting_bytes(&large[10 + HEADER_BYTES..]), 300_000 + HEADER_BYTES);
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes(
            bodies in proptest::collection::vec(proptest::collection::vec(0u8..4, 0..900), 0..9),
        ) {
            round_trip(Packing::Plain, &bodies);
            round_trip(Packing::Lz4, &bodies);
        }

        #[test]
        fn a_flipped_bit_is_noticed(
            body in proptest::collection::vec(any::<u8>(), 1..200), bit in 0usize..100_000,
        ) {
            let mut wire = Vec::new();
            encode(Packing::Lz4, &envelopes(&[body]), &mut wire);
            let bit = bit % (wire.len() * 8);
            wire[bit / 8] ^= 1 << (bit % 8);
            // A longer length may also ask for more input; it never yields other bytes.
            if let Ok(Some(_)) = decode(Packing::Lz4, &wire, &mut Vec::new()) {
                prop_assert!(false, "accepted a damaged segment");
            }
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode(Packing::Plain, &bytes, &mut Vec::new());
            let _ = decode(Packing::Lz4, &bytes, &mut Vec::new());
        }
    }
}
