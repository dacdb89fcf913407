//! Frames: what goes over a connection after its greetings. Pure.
//!
//! A frame is a header of [`HEADER_BYTES`] and a body. All integers are big-endian.
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 4 | CRC32 of the rest of the header |
//! | 4 | 1 | [`Kind`] |
//! | 5 | 1 | how the body is compressed: 0 not, 1 by LZ4, 2 by Zstandard |
//! | 6 | 2 | verb: of what asks |
//! | 8 | 8 | id: of the request or stream, from 1, growing by 1 with each that the dialer begins |
//! | 16 | 4 | [`Header::extra`], by kind |
//! | 20 | 4 | bytes of the body as it travels |
//! | 24 | 4 | bytes of the body unpacked |
//! | 28 | 4 | CRC32 of the body as it travels |
//!
//! Invariants
//!  - *one-form*: a header has one encoding, and what is not that of a header is damaged: fields
//!    that a kind has not are zero.
//!  - *length-first*: the length of a body is known, and checked, before any of it is read.

use crate::algorithms::Compression;
use stdx::checksum::crc32;
use stdx::{Cursor, Damaged, Put};

/// The bytes of a header.
pub const HEADER_BYTES: usize = 32;
/// The bytes of its checksum.
const CRC_BYTES: usize = 4;
/// No body is longer, whatever a connection agreed on.
pub const BODY_BYTES_MAX: usize = 1 << 30;

const _: () = assert!(BODY_BYTES_MAX <= u32::MAX as usize, "length-first: a length is 32 bits");

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// Asks for an answer. Extra: microseconds that are left of its time; 0: none were set.
    Request = 1,
    /// Asks for none; [`Kind::Done`] says that it was taken. Extra: as of a request.
    OneWay = 2,
    /// Nobody waits for the answer any more; it comes nevertheless.
    Cancel = 3,
    /// The answer to a request.
    Reply = 4,
    /// There is no answer to a request. Extra: why ([`Code`]).
    Error = 5,
    /// A one-way message was handled, or not. Extra: 0, or why not ([`Code`]).
    Done = 6,
    /// Begins a stream; its body is what the stream is about.
    Open = 7,
    /// The next bytes of a stream.
    Chunk = 8,
    /// A stream has no more bytes this way.
    End = 9,
    /// A stream ends both ways. Extra: why ([`Code`]); its body says more.
    Reset = 10,
    /// So many more bytes of a stream may come. Extra: how many.
    Window = 11,
    /// We are here.
    Beat = 12,
    /// The connection ends. Extra: why ([`crate::Refusal`]); its body is text.
    Goodbye = 13,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 13] = [
        Kind::Request,
        Kind::OneWay,
        Kind::Cancel,
        Kind::Reply,
        Kind::Error,
        Kind::Done,
        Kind::Open,
        Kind::Chunk,
        Kind::End,
        Kind::Reset,
        Kind::Window,
        Kind::Beat,
        Kind::Goodbye,
    ];

    fn from_code(code: u8) -> Option<Kind> {
        let kind = Kind::ALL.get(usize::from(code).wrapping_sub(1)).copied();
        debug_assert!(kind.is_none_or(|kind| kind as u8 == code), "one-form: {code} is {kind:?}");
        kind
    }

    /// Whether it names a verb.
    pub fn has_verb(self) -> bool {
        matches!(self, Kind::Request | Kind::OneWay | Kind::Open)
    }

    /// Whether it is of a request or stream.
    pub fn has_id(self) -> bool {
        !matches!(self, Kind::Beat | Kind::Goodbye)
    }

    fn has_body(self) -> bool {
        use Kind::{Chunk, Error, Goodbye, OneWay, Open, Reply, Request, Reset};
        matches!(self, Request | OneWay | Reply | Error | Open | Chunk | Reset | Goodbye)
    }

    fn has_extra(self) -> bool {
        use Kind::{Done, Error, Goodbye, OneWay, Request, Reset, Window};
        matches!(self, Request | OneWay | Error | Done | Reset | Window | Goodbye)
    }
}

const _: () = assert!(Kind::ALL.len() == Kind::Goodbye as usize, "one-form: all kinds");

/// Why there is no answer, or a stream ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// The handler says no; the body is its own.
    Failed = 1,
    /// There is no such verb.
    UnknownVerb = 2,
    /// Who asked has cancelled.
    Cancelled = 3,
    /// Its time was over.
    TooLate = 4,
    /// The answer has more bytes than who asked takes.
    TooLarge = 5,
    /// The node stops.
    Stopping = 6,
    /// There is no room for another stream.
    Crowded = 7,
}

impl Code {
    /// By its number.
    pub fn from_code(code: u32) -> Option<Code> {
        use Code::{Cancelled, Crowded, Failed, Stopping, TooLarge, TooLate, UnknownVerb};
        let all = [Failed, UnknownVerb, Cancelled, TooLate, TooLarge, Stopping, Crowded];
        all.into_iter().find(|one| *one as u32 == code)
    }
}

fn compression_code(compression: Option<Compression>) -> u8 {
    match compression {
        None => 0,
        Some(Compression::Lz4) => 1,
        Some(Compression::Zstd) => 2,
    }
}

fn compression_of(code: u8) -> Result<Option<Compression>, Damaged> {
    match code {
        0 => Ok(None),
        1 => Ok(Some(Compression::Lz4)),
        2 => Ok(Some(Compression::Zstd)),
        _ => Err(Damaged::new("unknown compression of a frame", 5)),
    }
}

/// What comes before a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    pub verb: u16,
    pub id: u64,
    /// See [`Kind`].
    pub extra: u32,
    /// How the body is compressed, if it is.
    pub compression: Option<Compression>,
    /// Bytes of the body as it travels.
    pub body_bytes: u32,
    /// Bytes of the body unpacked: the same where it is not compressed, more where it is.
    pub raw_bytes: u32,
    pub body_crc: u32,
}

impl Header {
    /// The header of a frame without a body.
    pub fn bare(kind: Kind, id: u64, extra: u32) -> Header {
        debug_assert!(extra == 0 || kind.has_extra(), "one-form: {kind:?} has no extra");
        let compression = None;
        Header { kind, verb: 0, id, extra, compression, body_bytes: 0, raw_bytes: 0, body_crc: 0 }
    }

    /// Whether the body is compressed.
    pub fn is_compressed(&self) -> bool {
        self.compression.is_some()
    }

    /// Its bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        debug_assert_eq!(self.broken(), None, "one-form: {self:?}");
        let mut out = Vec::with_capacity(HEADER_BYTES);
        self.put(&mut out);
        let mut bytes = [0; HEADER_BYTES];
        bytes.copy_from_slice(&out);
        bytes
    }

    /// Appends its bytes.
    pub fn put(&self, out: &mut Vec<u8>) {
        debug_assert_eq!(self.broken(), None, "one-form: {self:?}");
        let start = out.len();
        out.put_u32(0);
        out.put_u8(self.kind as u8);
        out.put_u8(compression_code(self.compression));
        out.put_u16(self.verb);
        out.put_u64(self.id);
        out.put_u32(self.extra);
        out.put_u32(self.body_bytes);
        out.put_u32(self.raw_bytes);
        out.put_u32(self.body_crc);
        debug_assert_eq!(out.len() - start, HEADER_BYTES, "one-form: the bytes of a header");
        let crc = crc32(&out[start + CRC_BYTES..]);
        out[start..start + CRC_BYTES].copy_from_slice(&crc.to_be_bytes());
    }

    /// The header at the start of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Header, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let whole: [u8; HEADER_BYTES] = cursor.array("frame shorter than its header")?;
        let mut cursor = Cursor::new(&whole);
        let crc = cursor.u32("frame header")?;
        if crc32(&whole[CRC_BYTES..]) != crc {
            return Err(Damaged::new("wrong checksum of a frame header", 0));
        }
        let kind = cursor.u8("frame header")?;
        let kind = Kind::from_code(kind).ok_or(Damaged::new("unknown kind of frame", 4))?;
        let compression = compression_of(cursor.u8("frame header")?)?;
        let header = Header {
            kind,
            verb: cursor.u16("frame header")?,
            id: cursor.u64("frame header")?,
            extra: cursor.u32("frame header")?,
            compression,
            body_bytes: cursor.u32("frame header")?,
            raw_bytes: cursor.u32("frame header")?,
            body_crc: cursor.u32("frame header")?,
        };
        match header.broken() {
            Some(what) => Err(Damaged::new(what, CRC_BYTES as u64)),
            None => Ok(header),
        }
    }

    /// Which rule of *one-form* it breaks.
    fn broken(&self) -> Option<&'static str> {
        let Header { kind, verb, id, extra, compression, body_bytes, raw_bytes, body_crc } = *self;
        let shrinks = body_bytes != raw_bytes;
        let rules = [
            ((0 < verb) == kind.has_verb(), "verb of a frame that has none, or none where it has"),
            ((0 < id) == kind.has_id(), "id of a frame that has none, or none where it has"),
            (extra == 0 || kind.has_extra(), "extra of a frame that has none"),
            (raw_bytes == 0 || kind.has_body(), "body of a frame that has none"),
            (body_bytes <= raw_bytes, "compressed body of a frame is longer than unpacked"),
            (compression.is_some() == shrinks, "compression of a frame does not match its lengths"),
            ((body_bytes == 0) == (raw_bytes == 0), "body of a frame out of nothing"),
            (raw_bytes as usize <= BODY_BYTES_MAX, "body of a frame is too long"),
            (body_crc == 0 || 0 < body_bytes, "checksum of no body"),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map(|(_, what)| what)
    }

    /// Whether `body` is what it was when it was sent.
    pub fn check_body(&self, body: &[u8]) -> Result<(), Damaged> {
        debug_assert_eq!(body.len(), self.body_bytes as usize, "length-first: another body");
        if crc32(body) != self.body_crc {
            return Err(Damaged::new("wrong checksum of a frame's body", HEADER_BYTES as u64));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::arbitrary_header;
    use proptest::prelude::*;

    #[test]
    fn a_header_has_one_form() {
        let body = b"abc";
        let header = Header {
            kind: Kind::Request,
            verb: 7,
            id: 258,
            extra: 1_000_000,
            compression: None,
            body_bytes: 3,
            raw_bytes: 3,
            body_crc: crc32(body),
        };
        let text: String = header.encode().iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = "27bd4c72\
                        01000007\
                        0000000000000102\
                        000f4240\
                        0000000300000003352441c2";
        assert_eq!(text, expected);
        assert_eq!(header.check_body(body), Ok(()));
        assert!(header.check_body(b"abd").is_err());
    }

    #[test]
    fn what_a_kind_has_not_is_damage() {
        let check = |change: fn(&mut Header), what: &str| {
            let mut header = Header::bare(Kind::Beat, 0, 0);
            change(&mut header);
            assert_eq!(header.broken(), Some(what));
        };
        check(|it| it.verb = 1, "verb of a frame that has none, or none where it has");
        check(|it| it.id = 1, "id of a frame that has none, or none where it has");
        check(|it| it.extra = 1, "extra of a frame that has none");
        check(|it| (it.body_bytes, it.raw_bytes) = (1, 1), "body of a frame that has none");
        check(|it| it.body_bytes = 1, "compressed body of a frame is longer than unpacked");
        check(|it| it.body_crc = 1, "checksum of no body");
        let unmatched = "compression of a frame does not match its lengths";
        check(|it| it.compression = Some(Compression::Lz4), unmatched);
        check(
            |it| (it.kind, it.id, it.body_bytes, it.raw_bytes) = (Kind::Reply, 1, 1, 2),
            unmatched,
        );
    }

    proptest! {
        #[test]
        fn headers_round_trip_and_no_flipped_bit_passes(seed: u64, at in 0..HEADER_BYTES * 8) {
            let header = arbitrary_header(seed);
            let mut bytes = header.encode();
            prop_assert_eq!(Header::decode(&bytes), Ok(header));
            prop_assert!(Header::decode(&bytes[..HEADER_BYTES - 1]).is_err());
            bytes[at / 8] ^= 1 << (at % 8);
            prop_assert!(Header::decode(&bytes).is_err());
        }

        #[test]
        fn any_bytes_are_survived_and_what_is_read_is_written_back(
            mut bytes in proptest::collection::vec(any::<u8>(), HEADER_BYTES..HEADER_BYTES + 9),
            seal: bool,
        ) {
            if seal {
                // As an attacker would.
                bytes[4] %= 15;
                let crc = crc32(&bytes[CRC_BYTES..HEADER_BYTES]).to_be_bytes();
                bytes[..CRC_BYTES].copy_from_slice(&crc);
            }
            if let Ok(header) = Header::decode(&bytes) {
                prop_assert_eq!(&header.encode()[..], &bytes[..HEADER_BYTES]);
            }
        }
    }
}
