//! For fuzzing and tests: values drawn from a seed, and what a connection does with the bytes of
//! another node.

use crate::algorithms::{Algorithms, Compression};
use crate::compress;
use crate::error::{Refusal, Refused};
use crate::frame::{HEADER_BYTES, Header, Kind};
use crate::hello::{self, Hello, PREFIX_BYTES, Preamble, Speaker, Tls, Welcome};
use crate::names::{Class, HostId};
use crate::parcel::{self, HEAD_BYTES, Head};
use stdx::Prng;

/// The longest body that is unpacked.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Reads `input` as the bytes of another node; the first byte says what is expected. Never panics,
/// loops, or allocates much more than the input and the largest body. How many values were read.
pub fn read_foreign(input: &[u8]) -> usize {
    let Some((first, bytes)) = input.split_first() else { return 0 };
    match first % 8 {
        0 => Preamble::decode(bytes).is_ok_and(|it| it.version().is_ok()).into(),
        1 => greeting(bytes, |crc, body| hello::decode_answer(crc, body).is_ok()),
        2 => greeting(bytes, |crc, body| Hello::decode(crc, body).is_ok()),
        3 => greeting(bytes, |crc, body| hello::decode_welcome(crc, body).is_ok()),
        4 | 5 => parcels(bytes),
        // The fuzzer does not guess checksums.
        _ => frames(bytes),
    }
}

fn greeting(bytes: &[u8], read: impl Fn(u32, &[u8]) -> bool) -> usize {
    let Ok((length, crc)) = hello::decode_prefix(bytes) else { return 0 };
    let whole = bytes.get(PREFIX_BYTES..PREFIX_BYTES + length);
    whole.map_or(0, |body| read(crc, body).into())
}

fn parcels(mut rest: &[u8]) -> usize {
    let mut count = 0;
    while let Ok(head) = Head::decode(rest) {
        let bytes = head.bytes as usize;
        let Some(inside) = rest.get(HEAD_BYTES..HEAD_BYTES + bytes) else { break };
        rest = &rest[HEAD_BYTES + bytes..];
        if head.check(inside).is_err() || head.is_alone() && head.alone(inside).is_err() {
            break;
        }
        count += frames(inside);
    }
    count
}

fn frames(mut rest: &[u8]) -> usize {
    let mut count = 0;
    while let Ok((header, end)) = parcel::frame(rest) {
        let body = &rest[HEADER_BYTES..end];
        rest = &rest[end..];
        if header.is_compressed() && compress::unpack(&header, body, BODY_BYTES_MAX).is_err() {
            break;
        }
        count += 1;
    }
    count
}

/// A preamble, drawn.
pub fn arbitrary_preamble(seed: u64) -> Preamble {
    let mut prng = Prng::from_seed(seed);
    let oldest = prng.between(0, u16::MAX.into()) as u16;
    Preamble {
        oldest,
        newest: prng.between(oldest.into(), u16::MAX.into()) as u16,
        shard: prng.next_u64() as u16,
        class: Class::ALL[prng.below(3) as usize],
        tls: [Tls::None, Tls::Follows, Tls::IfAsked][prng.below(3) as usize],
    }
}

/// A header, drawn.
pub fn arbitrary_header(seed: u64) -> Header {
    let mut prng = Prng::from_seed(seed);
    let kind = Kind::ALL[prng.below(Kind::ALL.len() as u64) as usize];
    let mut header = Header::bare(kind, 0, 0);
    if kind.has_verb() {
        header.verb = prng.between(1, u16::MAX.into()) as u16;
    }
    if kind.has_id() {
        header.id = prng.between(1, u64::MAX);
    }
    if matches!(kind, Kind::Request | Kind::Error | Kind::Window | Kind::Goodbye) {
        header.extra = prng.next_u64() as u32;
    }
    if matches!(kind, Kind::Request | Kind::Reply | Kind::Chunk) && prng.one_in(2) {
        header.body_bytes = prng.between(1, 5_000) as u32;
        header.raw_bytes = header.body_bytes + prng.below(3) as u32;
        let by = Compression::ALL[prng.below(2) as usize];
        header.compression = (header.body_bytes < header.raw_bytes).then_some(by);
    }
    header
}

fn speaker(prng: &mut Prng) -> Speaker {
    let shards = prng.between(1, 40) as u16;
    Speaker {
        cluster: "Test \u{e9} Cluster"[..prng.between(0, 5) as usize].to_string(),
        host: HostId(u128::from(prng.next_u64()) << 64 | u128::from(prng.next_u64())),
        life: prng.next_u64(),
        shard: prng.below(shards.into()) as u16,
        shards,
        message_bytes_max: prng.between(1, 1 << 25) as u32,
        stream_window_bytes: prng.between(1, 1 << 20) as u32,
    }
}

fn algorithms(prng: &mut Prng) -> Algorithms {
    Compression::ALL.into_iter().filter(|_| prng.one_in(2)).collect()
}

/// A hello, drawn.
pub fn arbitrary_hello(seed: u64) -> Hello {
    let mut prng = Prng::from_seed(seed);
    let expected = HostId(prng.next_u64().into());
    Hello {
        speaker: speaker(&mut prng),
        expected: prng.one_in(2).then_some(expected),
        class: Class::ALL[prng.below(3) as usize],
        compression: algorithms(&mut prng),
    }
}

/// A welcome, drawn.
pub fn arbitrary_welcome(seed: u64) -> Welcome {
    let mut prng = Prng::from_seed(seed);
    let speaker = speaker(&mut prng);
    Welcome {
        requests_max: prng.between(1, 5_000) as u32,
        request_bytes_max: speaker.message_bytes_max + prng.below(1 << 20) as u32,
        speaker,
        compression: algorithms(&mut prng),
    }
}

/// Inputs for the fuzzer to begin with: each with its name.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let preamble = Preamble { oldest: 1, newest: 2, shard: 3, class: Class::Bulk, tls: Tls::None };
    let refused = Refused::new(Refusal::Banned, "node 1 is banned");
    let with = |first: u8, bytes: Vec<u8>| [&[first][..], &bytes].concat();
    let text = b"to be packed, to be packed, to be packed, to be packed, to be packed".repeat(9);
    // With a length that is the body's, or a lie.
    let packed = |compression, first, lie: Option<u32>| {
        let mut bytes = Vec::new();
        for kind in [Kind::Reply, Kind::Chunk] {
            let (header, body) = compress::pack(compression, Header::bare(kind, 7, 0), &text);
            let header = Header { raw_bytes: lie.unwrap_or(header.raw_bytes), ..header };
            bytes.extend_from_slice(&header.encode());
            bytes.extend_from_slice(&body);
        }
        with(first, bytes)
    };
    let plain = Kind::ALL.into_iter().flat_map(|kind| {
        let mut header = Header::bare(kind, kind.has_id().into(), 0);
        header.verb = kind.has_verb().into();
        header.encode()
    });
    let plain: Vec<u8> = plain.collect();
    let parcel = [&Head::of(&plain).encode()[..], &plain].concat();
    vec![
        ("preamble", with(0, preamble.encode())),
        ("preamble_asked", with(0, Preamble { tls: Tls::IfAsked, ..preamble }.encode())),
        ("answer", with(1, hello::encode_answer(&Ok(2)))),
        ("refusal", with(1, hello::encode_answer(&Err(refused)))),
        ("hello", with(2, arbitrary_hello(5).encode())),
        ("welcome", with(3, hello::encode_welcome(&Ok(arbitrary_welcome(5))))),
        ("parcel", with(4, parcel)),
        ("frames", with(6, plain)),
        ("lz4", packed(Compression::Lz4, 6, None)),
        ("zstd", packed(Compression::Zstd, 6, None)),
        ("lz4_lie", packed(Compression::Lz4, 6, Some(1 << 20))),
        ("zstd_lie", packed(Compression::Zstd, 6, Some(1 << 20))),
        ("zstd_beyond", packed(Compression::Zstd, 6, Some(1 << 30))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_the_fuzzer_begins_with_is_read() {
        for (name, bytes) in seeds() {
            let expected = match name {
                "parcel" | "frames" => Kind::ALL.len(),
                "lz4" | "zstd" => 2,
                "lz4_lie" | "zstd_lie" | "zstd_beyond" => 0,
                _ => 1,
            };
            assert_eq!(read_foreign(&bytes), expected, "{name}");
        }
    }

    /// `NEREID_FUZZ_CORPUS=fuzz/corpus/messages` writes what the fuzzer begins with there.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "a folder of the machine, for the fuzzer")]
    fn the_corpus_is_what_is_begun_with() {
        let Some(folder) = std::env::var_os("NEREID_FUZZ_CORPUS") else { return };
        for (name, bytes) in seeds() {
            std::fs::write(std::path::Path::new(&folder).join(name), bytes).expect("a folder");
        }
    }

    proptest! {
        #[test]
        fn changed_seeds_are_survived(which: usize, at: usize, value: u8, cut: usize) {
            let seeds = seeds();
            let mut bytes = seeds[which % seeds.len()].1.clone();
            let at = at % bytes.len();
            bytes[at] = value;
            bytes.truncate(1 + cut % bytes.len());
            read_foreign(&bytes);
        }
    }
}
