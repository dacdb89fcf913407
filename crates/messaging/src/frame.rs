//! Frames: what goes over a connection after its greetings. Pure.
//!
//! A frame is a header of [`HEADER_BYTES`] and a body. All integers are big-endian. Frames travel
//! in [`crate::parcel`]s, whose checksum is theirs.
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 1 | [`Kind`] |
//! | 1 | 1 | how the body is compressed: 0 not, 1 by LZ4, 2 by Zstandard |
//! | 2 | 2 | verb: of what asks |
//! | 4 | 8 | id: of the request or stream, from 1, growing by 1 with each that the dialer begins |
//! | 12 | 4 | [`Header::extra`], by kind |
//! | 16 | 4 | bytes of the body as it travels |
//! | 20 | 4 | bytes of the body unpacked |
//!
//! Invariants
//!  - *one-form*: a header has one encoding, and what is not that of a header is damaged: fields
//!    that a kind has not are zero.
//!  - *length-first*: the length of a body is known, and checked, before any room is made for it.

use crate::algorithms::Compression;
use stdx::{Cursor, Damaged};

/// The bytes of a header.
pub const HEADER_BYTES: usize = 24;
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
        _ => Err(Damaged::new("unknown compression of a frame", 1)),
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
}

impl Header {
    /// The header of a frame without a body.
    pub fn bare(kind: Kind, id: u64, extra: u32) -> Header {
        debug_assert!(extra == 0 || kind.has_extra(), "one-form: {kind:?} has no extra");
        let compression = None;
        Header { kind, verb: 0, id, extra, compression, body_bytes: 0, raw_bytes: 0 }
    }

    /// Whether the body is compressed.
    pub fn is_compressed(&self) -> bool {
        self.compression.is_some()
    }

    /// Its bytes.
    #[inline]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        debug_assert_eq!(self.broken(), None, "one-form: {self:?}");
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = self.kind as u8;
        bytes[1] = compression_code(self.compression);
        bytes[2..4].copy_from_slice(&self.verb.to_be_bytes());
        bytes[4..12].copy_from_slice(&self.id.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.extra.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.body_bytes.to_be_bytes());
        bytes[20..].copy_from_slice(&self.raw_bytes.to_be_bytes());
        bytes
    }

    /// The header at the start of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Header, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let whole: [u8; HEADER_BYTES] = cursor.array("frame shorter than its header")?;
        let mut cursor = Cursor::new(&whole);
        let kind = cursor.u8("frame header")?;
        let kind = Kind::from_code(kind).ok_or(Damaged::new("unknown kind of frame", 0))?;
        let compression = compression_of(cursor.u8("frame header")?)?;
        let header = Header {
            kind,
            verb: cursor.u16("frame header")?,
            id: cursor.u64("frame header")?,
            extra: cursor.u32("frame header")?,
            compression,
            body_bytes: cursor.u32("frame header")?,
            raw_bytes: cursor.u32("frame header")?,
        };
        match header.broken() {
            Some(what) => Err(Damaged::new(what, 0)),
            None => Ok(header),
        }
    }

    /// Which rule of *one-form* it breaks.
    fn broken(&self) -> Option<&'static str> {
        let Header { kind, verb, id, extra, compression, body_bytes, raw_bytes } = *self;
        let shrinks = body_bytes != raw_bytes;
        // Nearly all that come are as they should be: first whether any rule is broken.
        let is_whole = ((0 < verb) == kind.has_verb())
            & ((0 < id) == kind.has_id())
            & (extra == 0 || kind.has_extra())
            & (raw_bytes == 0 || kind.has_body())
            & (body_bytes <= raw_bytes)
            & (compression.is_some() == shrinks)
            & ((body_bytes == 0) == (raw_bytes == 0))
            & (raw_bytes as usize <= BODY_BYTES_MAX);
        if is_whole {
            return None;
        }
        let rules = [
            ((0 < verb) == kind.has_verb(), "verb of a frame that has none, or none where it has"),
            ((0 < id) == kind.has_id(), "id of a frame that has none, or none where it has"),
            (extra == 0 || kind.has_extra(), "extra of a frame that has none"),
            (raw_bytes == 0 || kind.has_body(), "body of a frame that has none"),
            (body_bytes <= raw_bytes, "compressed body of a frame is longer than unpacked"),
            (compression.is_some() == shrinks, "compression of a frame does not match its lengths"),
            ((body_bytes == 0) == (raw_bytes == 0), "body of a frame out of nothing"),
            (raw_bytes as usize <= BODY_BYTES_MAX, "body of a frame is too long"),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map(|(_, what)| what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::arbitrary_header;
    use proptest::prelude::*;

    #[test]
    fn a_header_has_one_form() {
        let header = Header {
            kind: Kind::Request,
            verb: 7,
            id: 258,
            extra: 1_000_000,
            compression: None,
            body_bytes: 3,
            raw_bytes: 3,
        };
        let text: String = header.encode().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, "010000070000000000000102000f42400000000300000003");
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
        let unmatched = "compression of a frame does not match its lengths";
        check(|it| it.compression = Some(Compression::Lz4), unmatched);
        check(
            |it| (it.kind, it.id, it.body_bytes, it.raw_bytes) = (Kind::Reply, 1, 1, 2),
            unmatched,
        );
    }

    proptest! {
        #[test]
        fn headers_round_trip(seed: u64) {
            let header = arbitrary_header(seed);
            let bytes = header.encode();
            prop_assert_eq!(Header::decode(&bytes), Ok(header));
            prop_assert!(Header::decode(&bytes[..HEADER_BYTES - 1]).is_err());
        }

        #[test]
        fn any_bytes_are_survived_and_what_is_read_is_written_back(
            mut bytes in proptest::collection::vec(any::<u8>(), HEADER_BYTES..HEADER_BYTES + 9),
            at in 0..HEADER_BYTES,
            seed: u64,
            near: bool,
        ) {
            if near {
                // All but one byte of it are those of a header.
                let changed = bytes[at];
                bytes[..HEADER_BYTES].copy_from_slice(&arbitrary_header(seed).encode());
                bytes[at] = changed;
            }
            if let Ok(header) = Header::decode(&bytes) {
                prop_assert_eq!(&header.encode()[..], &bytes[..HEADER_BYTES]);
            }
        }
    }
}
