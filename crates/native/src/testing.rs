//! For fuzzing: what a connection does with the bytes of a client before it asks the processor.

use crate::compress::Compression;
use crate::frame::{self, HEADER_BYTES, Header, Parsed, flag};
use crate::request::{self, Dialect};
use crate::segment::{self, Packing};

/// The largest body that is unpacked.
const BODY_BYTES_MAX: usize = 1 << 20;

/// How the bytes of a client are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carriage {
    /// Envelopes, one after the other, compressed by LZ4 where their flag says so.
    Envelopes,
    /// The same with Snappy.
    SnappyEnvelopes,
    /// Segments of version 5.
    Segments,
    /// Segments of version 5, compressed.
    Lz4Segments,
}

impl Carriage {
    /// All of them.
    pub const ALL: [Carriage; 4] =
        [Carriage::Envelopes, Carriage::SnappyEnvelopes, Carriage::Segments, Carriage::Lz4Segments];
}

/// Takes all requests off `input` as a connection would; how many could be read. Never panics,
/// loops, or allocates much more than the input and the largest body.
pub fn parse_requests(carriage: Carriage, input: &[u8]) -> usize {
    let compression = match carriage {
        Carriage::SnappyEnvelopes => Compression::Snappy,
        _ => Compression::Lz4,
    };
    let packing = match carriage {
        Carriage::Envelopes | Carriage::SnappyEnvelopes => {
            return parse_envelopes(compression, false, input);
        }
        Carriage::Segments => Packing::Plain,
        Carriage::Lz4Segments => Packing::Lz4,
    };
    let (mut rest, mut envelopes) = (input, Vec::new());
    while let Ok(Some(used)) = segment::decode(packing, rest, &mut envelopes) {
        rest = rest.split_at_checked(used).map_or(&[], |(_, rest)| rest);
        if BODY_BYTES_MAX < envelopes.len() {
            break;
        }
    }
    parse_envelopes(compression, true, &envelopes)
}

fn parse_envelopes(compression: Compression, in_segments: bool, input: &[u8]) -> usize {
    let (mut rest, mut count) = (input, 0);
    while let Parsed::Header(header) = frame::parse_header(rest) {
        let Some((envelope, next)) = rest.split_at_checked(HEADER_BYTES + header.body_bytes) else {
            break;
        };
        rest = next;
        let body = &envelope[HEADER_BYTES..];
        if header.flags & flag::COMPRESSED == 0 || in_segments {
            count += parse_body(&header, body);
        } else if let Ok(unpacked) = compression.unpack(body, BODY_BYTES_MAX) {
            count += parse_body(&header, &unpacked);
        }
    }
    count
}

/// How many ways of reading the body succeed.
fn parse_body(header: &Header, body: &[u8]) -> usize {
    let has_payload = header.flags & flag::CUSTOM_PAYLOAD != 0;
    let dialects = [false, true]
        .map(|ids| Dialect { version: header.version, metadata_ids: ids || 5 <= header.version });
    let read = |dialect| request::parse(header.opcode, dialect, has_payload, body).is_ok();
    dialects.into_iter().filter(|dialect| read(*dialect)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::opcode;

    #[test]
    fn requests_are_found_in_every_carriage() {
        let mut envelopes = Vec::new();
        for _ in 0..3 {
            let start = frame::begin(&mut envelopes, 5, 0, 1, opcode::OPTIONS);
            envelopes[start] = 5;
            frame::finish(&mut envelopes, start);
        }
        let check = |carriage, input: &[u8]| assert_eq!(parse_requests(carriage, input), 6);
        check(Carriage::Envelopes, &envelopes);
        check(Carriage::SnappyEnvelopes, &envelopes);
        for (carriage, packing) in
            [(Carriage::Segments, Packing::Plain), (Carriage::Lz4Segments, Packing::Lz4)]
        {
            let mut wire = Vec::new();
            segment::encode(packing, &envelopes, &mut wire);
            check(carriage, &wire);
        }
    }
}
