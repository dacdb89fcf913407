//! The bytes of a file as they come, and what they unpack to. Pure.
//!
//! Invariants
//!  - *bounded-steps*: a step gives little more than [`STEP_BYTES`], however much its bytes unpack
//!    to.
//!  - *whole-or-error*: a file that ends too early, or whose checksum is wrong, is an error.

use flate2::write::MultiGzDecoder;
use std::io::{Error, ErrorKind, Result, Write};
use zstd::stream::raw::{DParameter, Decoder, Operation};

/// How many bytes a step takes, or gives.
const STEP_BYTES: usize = 64 << 10;
/// A power of two: the memory that a frame of Zstandard may want, 8 MiB.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// How files are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    None,
    Gzip,
    Zstd,
}

impl Packing {
    pub(super) const NAMES: &[&str] = &["NONE", "GZIP", "ZSTD"];

    /// By the name that requests have.
    pub(super) fn by_name(name: &str) -> Packing {
        match name {
            "GZIP" => Packing::Gzip,
            "ZSTD" => Packing::Zstd,
            _ => Packing::None,
        }
    }
}

/// A file that is being unpacked.
pub(super) enum Unpacking {
    Plain,
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    /// And whether it is between two frames.
    Zstd(Box<Decoder<'static>>, bool),
}

fn damaged(why: &str) -> Error {
    Error::new(ErrorKind::InvalidData, why)
}

impl Unpacking {
    pub(super) fn new(packing: Packing) -> Result<Unpacking> {
        Ok(match packing {
            Packing::None => Unpacking::Plain,
            Packing::Gzip => Unpacking::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))),
            Packing::Zstd => {
                let mut decoder = Decoder::new()?;
                decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))?;
                Unpacking::Zstd(Box::new(decoder), true)
            }
        })
    }

    /// Appends what the next bytes unpack to: how many of them it has taken. (*bounded-steps*)
    pub(super) fn step(&mut self, packed: &[u8], out: &mut Vec<u8>) -> Result<usize> {
        let packed = &packed[..packed.len().min(STEP_BYTES)];
        let before = out.len();
        let taken = match self {
            Unpacking::Plain => {
                out.extend_from_slice(packed);
                packed.len()
            }
            Unpacking::Gzip(decoder) => {
                let taken = decoder.write(packed)?;
                out.append(decoder.get_mut());
                taken
            }
            Unpacking::Zstd(decoder, is_between) => {
                out.resize(before + STEP_BYTES, 0);
                let status = decoder.run_on_buffers(packed, &mut out[before..])?;
                out.truncate(before + status.bytes_written);
                *is_between = status.remaining == 0;
                status.bytes_read
            }
        };
        match taken == 0 && out.len() == before && !packed.is_empty() {
            true => Err(damaged("nothing follows from its bytes")),
            false => Ok(taken),
        }
    }

    /// Appends some of what is left when all bytes were taken: whether there may be more.
    /// (*whole-or-error*)
    pub(super) fn end(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        match self {
            Unpacking::Plain => Ok(false),
            Unpacking::Gzip(decoder) => {
                decoder.try_finish()?;
                out.append(decoder.get_mut());
                Ok(false)
            }
            Unpacking::Zstd(_, true) => Ok(false),
            Unpacking::Zstd(..) => {
                let before = out.len();
                self.step(&[], out)?;
                match self {
                    Unpacking::Zstd(_, false) if out.len() == before => {
                        Err(damaged("it ends within a frame"))
                    }
                    _ => Ok(true),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;

    /// What comes of a file in pieces of so many bytes, and the longest step.
    fn unpacked(packing: Packing, packed: &[u8], piece: usize) -> Result<(Vec<u8>, usize)> {
        let mut unpacking = Unpacking::new(packing)?;
        let (mut out, mut longest) = (Vec::new(), 0);
        for piece in packed.chunks(piece.max(1)) {
            let mut left = piece;
            while !left.is_empty() {
                let before = out.len();
                let taken = unpacking.step(left, &mut out)?;
                longest = longest.max(out.len() - before);
                left = &left[taken..];
            }
        }
        while unpacking.end(&mut out)? {}
        Ok((out, longest))
    }

    fn packed(packing: Packing, bytes: &[u8]) -> Vec<u8> {
        match packing {
            Packing::None => bytes.to_vec(),
            Packing::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(bytes).expect("memory takes bytes");
                encoder.finish().expect("memory takes bytes")
            }
            Packing::Zstd => zstd::bulk::compress(bytes, 3).expect("bytes can be packed"),
        }
    }

    const ALL: [Packing; 3] = [Packing::None, Packing::Gzip, Packing::Zstd];

    /// *bounded-steps*
    #[test]
    fn a_file_that_unpacks_to_much_does_so_in_steps() {
        let zeros = vec![0; 20 << 20];
        for packing in ALL {
            let packed = packed(packing, &zeros);
            let (found, longest) = unpacked(packing, &packed, 100_000).expect("it is whole");
            assert_eq!(found.len(), zeros.len(), "{packing:?}");
            assert!(longest <= 2 * STEP_BYTES, "{packing:?}: {longest}");
        }
    }

    /// *whole-or-error*
    #[test]
    fn a_file_that_is_cut_or_changed_is_an_error() {
        for packing in [Packing::Gzip, Packing::Zstd] {
            let text: Vec<u8> = (0..5000u32).flat_map(u32::to_le_bytes).collect();
            let whole = packed(packing, &text);
            for cut in [1, 5, 9, whole.len() / 2, whole.len() - 1] {
                assert!(unpacked(packing, &whole[..cut], 64).is_err(), "{packing:?} {cut}");
            }
            let twice = [whole.as_slice(), &whole].concat();
            let found = unpacked(packing, &twice, 64).expect("two in a row are a file");
            assert_eq!(found.0.len(), 2 * text.len());
            let more = [whole.as_slice(), b"more"].concat();
            assert!(unpacked(packing, &more, 64).is_err(), "{packing:?}");
        }
    }

    proptest! {
        #[test]
        fn what_was_packed_comes_back(
            bytes in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..4),
            piece in 1usize..5000,
        ) {
            for packing in ALL {
                let all: Vec<u8> = bytes.iter().flat_map(|part| packed(packing, part)).collect();
                if !all.is_empty() {
                    prop_assert_eq!(unpacked(packing, &all, piece).unwrap().0, bytes.concat());
                }
            }
        }

        #[test]
        fn foreign_bytes_do_not_panic(bytes: Vec<u8>, piece in 1usize..40) {
            for packing in ALL {
                let _ = unpacked(packing, &bytes, piece);
            }
        }
    }
}
