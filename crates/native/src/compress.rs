//! Body compression of versions 3 and 4, and the LZ4 blocks of version 5 segments.
//!
//! LZ4 bodies are a big-endian uncompressed length and a block; Snappy bodies are raw Snappy.
//! A declared length over the limit is refused before anything is reserved.

/// The algorithm that STARTUP chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    Lz4,
    Snappy,
}

impl Compression {
    /// By its name in STARTUP, in any case.
    pub(crate) fn by_name(name: &str) -> Option<Compression> {
        match name.to_ascii_lowercase().as_str() {
            "lz4" => Some(Compression::Lz4),
            "snappy" => Some(Compression::Snappy),
            _ => None,
        }
    }

    /// How long a body says that it is, once it is unpacked.
    pub(crate) fn claimed_len(self, body: &[u8]) -> usize {
        match self {
            Compression::Lz4 => {
                body.first_chunk::<4>().map_or(0, |len| u32::from_be_bytes(*len) as usize)
            }
            Compression::Snappy => snap::raw::decompress_len(body).unwrap_or(0),
        }
    }

    /// Unpacks a request's body of at most `bytes_max`.
    pub(crate) fn unpack(self, body: &[u8], bytes_max: usize) -> Result<Vec<u8>, &'static str> {
        match self {
            Compression::Lz4 => {
                let short = "LZ4 body shorter than its length field";
                let (length, block) = body.split_first_chunk::<4>().ok_or(short)?;
                let length = u32::from_be_bytes(*length) as usize;
                if bytes_max < length {
                    return Err("request size too large");
                }
                let mut out = Vec::new();
                lz4_block(block, length, &mut out)?;
                Ok(out)
            }
            Compression::Snappy => {
                let length = snap::raw::decompress_len(body).map_err(|_| "invalid Snappy body")?;
                if bytes_max < length {
                    return Err("request size too large");
                }
                snap::raw::Decoder::new().decompress_vec(body).map_err(|_| "invalid Snappy body")
            }
        }
    }

    /// Packs a response's body.
    pub(crate) fn pack(self, body: &[u8], out: &mut Vec<u8>) {
        match self {
            Compression::Lz4 => {
                out.extend_from_slice(&(body.len() as u32).to_be_bytes());
                out.extend_from_slice(&lz4_flex::block::compress(body));
            }
            Compression::Snappy => {
                let packed = snap::raw::Encoder::new().compress_vec(body);
                out.extend_from_slice(&packed.expect("a body is under 4 GiB"));
            }
        }
    }
}

/// Appends the `length` bytes that an LZ4 block holds.
pub(crate) fn lz4_block(
    block: &[u8],
    length: usize,
    out: &mut Vec<u8>,
) -> Result<(), &'static str> {
    if length == 0 {
        return Ok(());
    }
    // LZ4 cannot shrink anything by more than 255: a longer claim is a lie.
    if block.len().saturating_mul(255).saturating_add(64) < length {
        return Err("LZ4 length is impossible");
    }
    let start = out.len();
    out.resize(start + length, 0);
    match lz4_flex::block::decompress_into(block, &mut out[start..]) {
        Ok(size) if size == length => Ok(()),
        _ => {
            out.truncate(start);
            Err("invalid LZ4 body")
        }
    }
}

/// An LZ4 block without a length.
pub(crate) fn lz4_pack(bytes: &[u8]) -> Vec<u8> {
    lz4_flex::block::compress(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bodies_round_trip(bytes in proptest::collection::vec(0u8..3, 0..3000)) {
            for algorithm in [Compression::Lz4, Compression::Snappy] {
                let mut packed = Vec::new();
                algorithm.pack(&bytes, &mut packed);
                prop_assert_eq!(algorithm.claimed_len(&packed), bytes.len());
                prop_assert_eq!(&algorithm.unpack(&packed, 1 << 20).unwrap(), &bytes);
            }
        }

        #[test]
        fn any_body_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Compression::Lz4.unpack(&bytes, 1 << 20);
            let _ = Compression::Snappy.unpack(&bytes, 1 << 20);
            let _ = Compression::Lz4.claimed_len(&bytes) + Compression::Snappy.claimed_len(&bytes);
        }
    }

    #[test]
    fn a_claimed_gigabyte_is_refused_before_it_is_reserved() {
        let body = [0x40, 0, 0, 0, 1, 2, 3];
        assert_eq!(Compression::Lz4.unpack(&body, 1 << 20), Err("request size too large"));
        assert!(Compression::Lz4.unpack(&body, usize::MAX).is_err());
    }
}
