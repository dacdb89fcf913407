//! Envelopes of the CQL binary protocol, versions 3 to 5: the nine-byte header and its body.
//!
//! ```text
//! version:u8 flags:u8 stream:be16 opcode:u8 length:be32 body
//! ```
//!
//! Invariants
//!  - *length-first*: no memory is reserved for a body before its length was checked against the
//!    limit of the connection.
//!
//! Source: cql-surface reference, section 7.1; Apache Cassandra's native protocol specifications.

/// Bytes of a header.
pub(crate) const HEADER_BYTES: usize = 9;

/// The oldest and newest versions that we speak.
pub(crate) const VERSION_MIN: u8 = 3;
pub(crate) const VERSION_MAX: u8 = 5;

/// Header flags.
pub(crate) mod flag {
    pub(crate) const COMPRESSED: u8 = 0x01;
    pub(crate) const TRACING: u8 = 0x02;
    pub(crate) const CUSTOM_PAYLOAD: u8 = 0x04;
    pub(crate) const WARNING: u8 = 0x08;
}

/// Operation codes.
pub(crate) mod opcode {
    pub(crate) const ERROR: u8 = 0x00;
    pub(crate) const STARTUP: u8 = 0x01;
    pub(crate) const READY: u8 = 0x02;
    pub(crate) const AUTHENTICATE: u8 = 0x03;
    pub(crate) const OPTIONS: u8 = 0x05;
    pub(crate) const SUPPORTED: u8 = 0x06;
    pub(crate) const QUERY: u8 = 0x07;
    pub(crate) const RESULT: u8 = 0x08;
    pub(crate) const PREPARE: u8 = 0x09;
    pub(crate) const EXECUTE: u8 = 0x0a;
    pub(crate) const REGISTER: u8 = 0x0b;
    pub(crate) const EVENT: u8 = 0x0c;
    pub(crate) const BATCH: u8 = 0x0d;
    pub(crate) const AUTH_RESPONSE: u8 = 0x0f;
    pub(crate) const AUTH_SUCCESS: u8 = 0x10;
}

/// A request's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: u8,
    pub(crate) flags: u8,
    pub(crate) stream: i16,
    pub(crate) opcode: u8,
    pub(crate) body_bytes: usize,
}

/// What stands at the start of a connection's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// Fewer bytes than a header.
    Incomplete,
    Header(Header),
    /// A version that we do not speak, with the stream to answer on.
    UnsupportedVersion {
        version: u8,
        stream: i16,
    },
    /// The direction bit is that of a response.
    NotARequest,
}

/// Whether drivers begin with that version of the protocol, though it is not spoken here: one that
/// is too old, one that is not finished, or one of DataStax Enterprise.
pub(crate) fn is_tried_by_drivers(version: u8) -> bool {
    matches!(version, 1 | 2 | 6 | 65 | 66)
}

/// Reads a header. The version is judged first: older headers have another shape.
pub(crate) fn parse_header(input: &[u8]) -> Parsed {
    let Some((&first, _)) = input.split_first() else { return Parsed::Incomplete };
    let version = first & 0x7f;
    let Some(header) = input.first_chunk::<HEADER_BYTES>() else {
        return Parsed::Incomplete;
    };
    let [_, flags, s0, s1, opcode, l0, l1, l2, l3] = *header;
    let stream = i16::from_be_bytes([s0, s1]);
    if first & 0x80 != 0 {
        return Parsed::NotARequest;
    }
    if !(VERSION_MIN..=VERSION_MAX).contains(&version) {
        return Parsed::UnsupportedVersion { version, stream };
    }
    let body_bytes = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
    Parsed::Header(Header { version, flags, stream, opcode, body_bytes })
}

/// The header of a request to execute or prepare something; `None` for all else.
pub(crate) fn parse_request(input: &[u8], version: u8) -> Option<Header> {
    use opcode::{BATCH, EXECUTE, PREPARE, QUERY};
    match parse_header(input) {
        Parsed::Header(header) if header.version == version => {
            matches!(header.opcode, QUERY | PREPARE | EXECUTE | BATCH).then_some(header)
        }
        _ => None,
    }
}

/// Appends a copy of a response, on another stream.
pub(crate) fn put_on_stream(out: &mut Vec<u8>, response: &[u8], stream: i16) {
    let start = out.len();
    out.extend_from_slice(response);
    out[start + 2..start + 4].copy_from_slice(&stream.to_be_bytes());
}

/// Appends a response's header with a length of zero; [`finish`] puts the length in.
pub(crate) fn begin(out: &mut Vec<u8>, version: u8, flags: u8, stream: i16, opcode: u8) -> usize {
    let start = out.len();
    let [s0, s1] = stream.to_be_bytes();
    out.extend_from_slice(&[version | 0x80, flags, s0, s1, opcode, 0, 0, 0, 0]);
    start
}

/// Completes the envelope that starts at `start`.
pub(crate) fn finish(out: &mut [u8], start: usize) {
    let body_bytes = out.len() - start - HEADER_BYTES;
    assert!(body_bytes <= u32::MAX as usize, "a response over 4 GiB");
    let length = (body_bytes as u32).to_be_bytes();
    out[start + 5..start + HEADER_BYTES].copy_from_slice(&length);
}

/// How many bytes the envelope has that `bytes` begins with; `None`: its header is not whole.
pub(crate) fn envelope_bytes(bytes: &[u8]) -> Option<usize> {
    let [.., l0, l1, l2, l3] = *bytes.first_chunk::<HEADER_BYTES>()?;
    Some(HEADER_BYTES + u32::from_be_bytes([l0, l1, l2, l3]) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        let check = |input: &[u8], expected| assert_eq!(parse_header(input), expected);
        check(b"", Parsed::Incomplete);
        check(&[4, 0, 0, 1, 5, 0, 0, 0], Parsed::Incomplete);
        let header = Header { version: 4, flags: 2, stream: -2, opcode: 7, body_bytes: 258 };
        check(&[4, 2, 0xff, 0xfe, 7, 0, 0, 1, 2], Parsed::Header(header));
        check(&[0x84, 0, 0, 0, 8, 0, 0, 0, 0], Parsed::NotARequest);
        let old = Parsed::UnsupportedVersion { version: 2, stream: 9 };
        check(&[2, 0, 0, 9, 5, 0, 0, 0, 0], old);
    }

    #[test]
    fn versions_of_drivers_are_told_from_mistakes() {
        let tried: Vec<u8> = (0..=127).filter(|it| is_tried_by_drivers(*it)).collect();
        assert_eq!(tried, [1, 2, 6, 65, 66]);
        assert!(tried.iter().all(|it| !(VERSION_MIN..=VERSION_MAX).contains(it)));
    }

    #[test]
    fn a_response_carries_its_length() {
        let mut out = vec![1, 2, 3];
        let start = begin(&mut out, 4, 0, 7, opcode::READY);
        out.extend_from_slice(b"body");
        finish(&mut out, start);
        assert_eq!(envelope_bytes(&out[3..]), Some(out.len() - 3));
        assert_eq!(envelope_bytes(&out[..8]), None);
        assert_eq!(&out[3..], [0x84, 0, 0, 7, 2, 0, 0, 0, 4, b'b', b'o', b'd', b'y']);
    }
}
