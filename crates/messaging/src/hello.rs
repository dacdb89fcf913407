//! Greetings: what two nodes say before frames. Pure.
//!
//! ```text
//!  dialer                                       acceptor
//!    preamble: versions, class, shard, TLS?  ->   (shard 0 reads it, and hands the socket over)
//!                                            <-   answer: goes on in this version, or refused
//!    [TLS handshake, client certificates]
//!    hello: cluster, who, whom, features     ->
//!                                            <-   welcome: cluster, who, limits; or refused
//!    frames                                  <->  frames
//! ```
//!
//! The preamble is plain and has nothing that is secret: the acceptor has to know the shard before
//! it begins TLS, whose state cannot move. Its form and that of the answer are the same in every
//! version, for ever, so that nodes of any two versions can tell each other that they do not fit.
//!
//! Invariants
//!  - *both-check*: each end checks the other; what one end refuses, the other is told.
//!  - *short-greetings*: a greeting has at most [`GREETING_BYTES_MAX`] bytes, known from its first
//!    four.
//!  - *one-form* (of frames): what is read is what would be written.

use crate::algorithms::Algorithms;
use crate::error::{Refusal, Refused, TEXT_BYTES_MAX};
use crate::frame::BODY_BYTES_MAX;
use crate::names::{Class, HostId};
use std::ops::RangeInclusive;
use stdx::checksum::crc32;
use stdx::{Cursor, Damaged, Put};

/// The versions that we speak.
pub const VERSIONS: RangeInclusive<u16> = 2..=2;
/// What every connection begins with.
pub const MAGIC: [u8; 8] = *b"NEREID\x1aM";
/// The bytes of a preamble.
pub const PREAMBLE_BYTES: usize = 24;
/// The bytes before a greeting: its length, its CRC32.
pub const PREFIX_BYTES: usize = 8;
/// The longest greeting.
pub const GREETING_BYTES_MAX: usize = 2048;
/// The longest name of a cluster.
pub const CLUSTER_BYTES_MAX: usize = 1024;

const GOES_ON: u8 = 0;
const REFUSED: u8 = 1;

const _: () = assert!(TEXT_BYTES_MAX + 64 < GREETING_BYTES_MAX, "short-greetings: a refusal");
const _: () = assert!(CLUSTER_BYTES_MAX + 128 < GREETING_BYTES_MAX, "short-greetings: a hello");

const _: () = assert!(*VERSIONS.start() <= *VERSIONS.end(), "we speak some version");
const _: () = assert!(PREAMBLE_BYTES < PREFIX_BYTES + GREETING_BYTES_MAX, "preambles are short");

fn algorithms_of(cursor: &mut Cursor<'_>) -> Result<Algorithms, Damaged> {
    let code = cursor.u8("compression")?;
    Algorithms::from_code(code).ok_or(cursor.damaged("unknown compression"))
}

/// The first bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preamble {
    /// The oldest and the newest version that the dialer speaks.
    pub oldest: u16,
    pub newest: u16,
    /// Wanted, modulo how many there are.
    pub shard: u16,
    pub class: Class,
    pub tls: Tls,
}

/// What a dialer says of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Tls {
    /// It has none.
    None = 0,
    /// A handshake follows.
    Follows = 1,
    /// It goes without, and comes again with it when it is told to.
    IfAsked = 2,
}

impl Tls {
    fn from_code(code: u8) -> Option<Tls> {
        [Tls::None, Tls::Follows, Tls::IfAsked].get(usize::from(code)).copied()
    }
}

impl Preamble {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        debug_assert!(self.oldest <= self.newest, "one-form: no version in {self:?}");
        let mut out = Vec::with_capacity(PREAMBLE_BYTES);
        out.put(&MAGIC);
        out.put_u16(self.oldest);
        out.put_u16(self.newest);
        out.put_u16(self.shard);
        out.put_u8(self.class.code());
        out.put_u8(self.tls as u8);
        out.put_u32(0);
        let crc = crc32(&out);
        out.put_u32(crc);
        debug_assert_eq!(out.len(), PREAMBLE_BYTES, "one-form: a preamble");
        out
    }

    /// What the bytes say.
    pub fn decode(bytes: &[u8]) -> Result<Preamble, Damaged> {
        let mut cursor = Cursor::new(bytes);
        if cursor.array("preamble is short")? != MAGIC {
            return Err(Damaged::new("it does not speak our protocol", 0));
        }
        let (oldest, newest) = (cursor.u16("preamble is short")?, cursor.u16("preamble is short")?);
        let shard = cursor.u16("preamble is short")?;
        let (class, tls) = (cursor.u8("preamble is short")?, cursor.u8("preamble is short")?);
        let reserved = cursor.u32("preamble is short")?;
        let end = cursor.offset();
        if cursor.u32("preamble is short")? != crc32(&bytes[..end]) {
            return Err(cursor.damaged("wrong checksum of a preamble"));
        }
        if newest < oldest || reserved != 0 || !cursor.is_empty() {
            return Err(cursor.damaged("preamble makes no sense"));
        }
        let class = Class::from_code(class).ok_or(cursor.damaged("unknown class"))?;
        let tls = Tls::from_code(tls).ok_or(cursor.damaged("preamble makes no sense"))?;
        Ok(Preamble { oldest, newest, shard, class, tls })
    }

    /// The newest version that both speak.
    pub fn version(&self) -> Result<u16, Refused> {
        let newest = self.newest.min(*VERSIONS.end());
        if newest < self.oldest.max(*VERSIONS.start()) {
            let (oldest, ours) = (VERSIONS.start(), VERSIONS.end());
            let text = format!(
                "versions {} to {} of the protocol between nodes are offered, {oldest} to {ours} \
                 are spoken",
                self.oldest, self.newest
            );
            return Err(Refused::new(Refusal::Version, text));
        }
        debug_assert!(VERSIONS.contains(&newest), "both-check: version {newest} is not ours");
        Ok(newest)
    }
}

/// The length and the checksum of the greeting that follows; refuses what is too long.
pub fn decode_prefix(bytes: &[u8]) -> Result<(usize, u32), Damaged> {
    let mut cursor = Cursor::new(bytes);
    let length = cursor.u32("greeting is short")? as usize;
    let crc = cursor.u32("greeting is short")?;
    if GREETING_BYTES_MAX < length {
        return Err(Damaged::new("greeting is too long", 0));
    }
    Ok((length, crc))
}

/// A body with its prefix.
fn framed(body: &[u8]) -> Vec<u8> {
    debug_assert!(body.len() <= GREETING_BYTES_MAX, "short-greetings: {}", body.len());
    let mut out = Vec::with_capacity(PREFIX_BYTES + body.len());
    out.put_u32(body.len() as u32);
    out.put_u32(crc32(body));
    out.put(body);
    debug_assert_eq!(out.len(), PREFIX_BYTES + body.len(), "one-form: a greeting");
    out
}

fn checked(crc: u32, body: &[u8]) -> Result<Cursor<'_>, Damaged> {
    if crc32(body) != crc {
        return Err(Damaged::new("wrong checksum of a greeting", 0));
    }
    Ok(Cursor::new(body))
}

fn put_refused(refused: &Refused, out: &mut Vec<u8>) {
    debug_assert!(refused.text.len() <= TEXT_BYTES_MAX, "short-greetings: {}", refused.text.len());
    debug_assert!(!refused.text.chars().any(char::is_control), "one-form: {:?}", refused.text);
    out.put_u8(REFUSED);
    out.put_u8(refused.why as u8);
    out.put_u16_bytes(refused.text.as_bytes());
}

fn refused_of(cursor: &mut Cursor<'_>) -> Result<Refused, Damaged> {
    let why = Refusal::from_code(cursor.u8("refusal")?.into());
    let why = why.ok_or(cursor.damaged("unknown refusal"))?;
    let text = cursor.u16_bytes("refusal")?;
    Ok(Refused { why, text: text_of(text, TEXT_BYTES_MAX)? })
}

/// A text of another node: short, and nothing in it that a line of the log could not have.
pub(crate) fn text_of(bytes: &[u8], bytes_max: usize) -> Result<String, Damaged> {
    let text = std::str::from_utf8(bytes).map_err(|_| Damaged::new("text is not UTF-8", 0))?;
    if bytes_max < text.len() || text.chars().any(char::is_control) {
        return Err(Damaged::new("text is too long or has control characters", 0));
    }
    Ok(text.to_string())
}

fn ended<T>(cursor: &Cursor<'_>, value: T) -> Result<T, Damaged> {
    if cursor.is_empty() { Ok(value) } else { Err(cursor.damaged("greeting goes on")) }
}

/// What is said to a preamble: the version that is spoken from now on.
pub type Answer = Result<u16, Refused>;

/// The bytes of an answer.
pub fn encode_answer(answer: &Answer) -> Vec<u8> {
    let mut body = Vec::new();
    match answer {
        Ok(version) => {
            body.put_u8(GOES_ON);
            body.put_u16(*version);
        }
        Err(refused) => put_refused(refused, &mut body),
    }
    framed(&body)
}

/// What the body of an answer says.
pub fn decode_answer(crc: u32, body: &[u8]) -> Result<Answer, Damaged> {
    let mut cursor = checked(crc, body)?;
    let answer = match cursor.u8("answer")? {
        GOES_ON => Ok(cursor.u16("answer")?),
        REFUSED => Err(refused_of(&mut cursor)?),
        _ => return Err(cursor.damaged("unknown answer")),
    };
    ended(&cursor, answer)
}

/// Who speaks: what both greetings have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Speaker {
    pub cluster: String,
    pub host: HostId,
    /// Drawn at each start of the node: another one means that it has started anew.
    pub life: u64,
    pub shard: u16,
    pub shards: u16,
    /// The longest body that it takes, unpacked.
    pub message_bytes_max: u32,
    /// Bytes of each stream that it takes before it says that it takes more.
    pub stream_window_bytes: u32,
}

impl Speaker {
    fn put(&self, out: &mut Vec<u8>) {
        debug_assert!(self.cluster.len() <= CLUSTER_BYTES_MAX, "short-greetings: {}", self.cluster);
        debug_assert!(
            self.shard < self.shards,
            "one-form: shard {} of {}",
            self.shard,
            self.shards
        );
        debug_assert!(0 < self.message_bytes_max, "one-form: a node that takes nothing");
        out.put_u16_bytes(self.cluster.as_bytes());
        out.put(&self.host.0.to_be_bytes());
        out.put_u64(self.life);
        out.put_u16(self.shard);
        out.put_u16(self.shards);
        out.put_u32(self.message_bytes_max);
        out.put_u32(self.stream_window_bytes);
    }

    fn take(cursor: &mut Cursor<'_>) -> Result<Speaker, Damaged> {
        let cluster = text_of(cursor.u16_bytes("cluster name")?, CLUSTER_BYTES_MAX)?;
        let speaker = Speaker {
            cluster,
            host: HostId(u128::from_be_bytes(cursor.array("host id")?)),
            life: cursor.u64("life")?,
            shard: cursor.u16("shard")?,
            shards: cursor.u16("shards")?,
            message_bytes_max: cursor.u32("limit")?,
            stream_window_bytes: cursor.u32("limit")?,
        };
        if speaker.shards <= speaker.shard {
            return Err(cursor.damaged("shard of a node that has fewer"));
        }
        let limits = [speaker.message_bytes_max, speaker.stream_window_bytes];
        if limits.into_iter().any(|limit| !(1..=BODY_BYTES_MAX as u32).contains(&limit)) {
            return Err(cursor.damaged("node that takes nothing, or too much"));
        }
        Ok(speaker)
    }
}

/// What the dialer says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    pub speaker: Speaker,
    /// Whom it expects; `None`: it asks who is there.
    pub expected: Option<HostId>,
    pub class: Class,
    /// How bodies may be compressed, both ways.
    pub compression: Algorithms,
}

impl Hello {
    /// Its bytes, with their prefix.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        self.speaker.put(&mut body);
        body.put_u8(self.expected.is_some().into());
        body.put(&self.expected.map_or(0, |host| host.0).to_be_bytes());
        body.put_u8(self.class.code());
        body.put_u8(self.compression.code());
        framed(&body)
    }

    /// What its body says.
    pub fn decode(crc: u32, body: &[u8]) -> Result<Hello, Damaged> {
        let mut cursor = checked(crc, body)?;
        let speaker = Speaker::take(&mut cursor)?;
        let is_expected = cursor.u8("whom it expects")?;
        let expected = u128::from_be_bytes(cursor.array("whom it expects")?);
        let expected = match (is_expected, expected) {
            (0, 0) => None,
            (1, host) => Some(HostId(host)),
            _ => return Err(cursor.damaged("whom it expects")),
        };
        let class = Class::from_code(cursor.u8("class")?).ok_or(cursor.damaged("unknown class"))?;
        let compression = algorithms_of(&mut cursor)?;
        ended(&cursor, Hello { speaker, expected, class, compression })
    }
}

/// What the acceptor says of itself, and what it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    pub speaker: Speaker,
    /// Requests, messages and streams of this connection that may be unanswered.
    pub requests_max: u32,
    /// Their bytes.
    pub request_bytes_max: u32,
    /// What of the dialer's wishes is taken.
    pub compression: Algorithms,
}

/// The bytes of a welcome, or of a refusal, with their prefix.
pub fn encode_welcome(welcome: &Result<Welcome, Refused>) -> Vec<u8> {
    let mut body = Vec::new();
    match welcome {
        Err(refused) => put_refused(refused, &mut body),
        Ok(welcome) => {
            let Welcome { speaker, request_bytes_max, .. } = welcome;
            debug_assert!(
                speaker.message_bytes_max <= *request_bytes_max,
                "one-form: a message does not fit its window"
            );
            body.put_u8(GOES_ON);
            welcome.speaker.put(&mut body);
            body.put_u32(welcome.requests_max);
            body.put_u32(welcome.request_bytes_max);
            body.put_u8(welcome.compression.code());
        }
    }
    framed(&body)
}

/// What the body of a welcome, or of a refusal, says.
pub fn decode_welcome(crc: u32, body: &[u8]) -> Result<Result<Welcome, Refused>, Damaged> {
    let mut cursor = checked(crc, body)?;
    match cursor.u8("welcome")? {
        GOES_ON => {}
        REFUSED => {
            let refused = refused_of(&mut cursor)?;
            return ended(&cursor, Err(refused));
        }
        _ => return Err(cursor.damaged("unknown welcome")),
    }
    let welcome = Welcome {
        speaker: Speaker::take(&mut cursor)?,
        requests_max: cursor.u32("limit")?,
        request_bytes_max: cursor.u32("limit")?,
        compression: algorithms_of(&mut cursor)?,
    };
    if welcome.requests_max == 0 || welcome.request_bytes_max < welcome.speaker.message_bytes_max {
        return Err(cursor.damaged("node that takes no request"));
    }
    ended(&cursor, Ok(welcome))
}

/// Whether a node is welcome, whoever it is: what both ends ask.
fn check_speaker(
    (cluster, host): (&str, HostId),
    speaker: &Speaker,
    is_banned: bool,
) -> Result<(), Refused> {
    let (them, theirs) = (speaker.host, &speaker.cluster);
    if theirs != cluster {
        let text = format!("node {them} is of cluster {theirs:?}, this one is of {cluster:?}");
        return Err(Refused::new(Refusal::Cluster, text));
    }
    if them == host {
        let text = format!("node {them} has reached itself, or there are two of that host id");
        return Err(Refused::new(Refusal::Oneself, text));
    }
    if is_banned {
        let text = format!("node {them} is banned from the cluster");
        return Err(Refused::new(Refusal::Banned, text));
    }
    Ok(())
}

/// Whether the acceptor, of this cluster and host id, goes on with a dialer (*both-check*).
pub fn check_hello(
    us: (&str, HostId),
    hello: &Hello,
    class: Class,
    is_banned: bool,
) -> Result<(), Refused> {
    if hello.class != class {
        let text = format!("a hello of class {} after a preamble of {class}", hello.class);
        return Err(Refused::new(Refusal::Damaged, text));
    }
    check_speaker(us, &hello.speaker, is_banned)?;
    match hello.expected {
        Some(expected) if expected != us.1 => Err(wrong_host(expected, us.1)),
        _ => Ok(()),
    }
}

/// Whether the dialer, of this cluster and host id, goes on with who answers its hello
/// (*both-check*).
pub fn check_welcome(
    us: (&str, HostId),
    hello: &Hello,
    welcome: &Welcome,
    is_banned: bool,
) -> Result<(), Refused> {
    check_speaker(us, &welcome.speaker, is_banned)?;
    if !welcome.compression.is_within(hello.compression) {
        let (theirs, ours) = (welcome.compression.name(), hello.compression.name());
        let text = format!("a welcome with compression {theirs} where {ours} was offered");
        return Err(Refused::new(Refusal::Damaged, text));
    }
    match hello.expected {
        Some(expected) if expected != welcome.speaker.host => {
            Err(wrong_host(expected, welcome.speaker.host))
        }
        _ => Ok(()),
    }
}

fn wrong_host(expected: HostId, found: HostId) -> Refused {
    debug_assert_ne!(expected, found, "both-check: it is whom we expect");
    let text = format!("node {expected} was expected at this address, {found} is there");
    Refused::new(Refusal::WrongHost, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::Compression;
    use crate::testing::{arbitrary_hello, arbitrary_preamble, arbitrary_welcome};
    use proptest::prelude::*;

    const US: (&str, HostId) = ("one", HostId(1));

    fn body(framed: &[u8]) -> (u32, &[u8]) {
        let (length, crc) = decode_prefix(framed).expect("a prefix");
        assert_eq!(framed.len(), PREFIX_BYTES + length);
        (crc, &framed[PREFIX_BYTES..])
    }

    fn hello() -> Hello {
        let mut hello = arbitrary_hello(1);
        (hello.speaker.cluster, hello.speaker.host) = ("one".into(), HostId(2));
        Hello { expected: Some(HostId(1)), class: Class::Bulk, ..hello }
    }

    #[test]
    fn a_preamble_has_golden_bytes() {
        let preamble = Preamble {
            oldest: 1,
            newest: 3,
            shard: 5,
            class: Class::Statements,
            tls: Tls::Follows,
        };
        let bytes = preamble.encode();
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, "4e45524549441a4d000100030005010100000000c9e41842");
        assert_eq!(Preamble::decode(&bytes), Ok(preamble));
        assert_eq!(preamble.version(), Ok(2));
        for (code, tls) in [(0, Some(Tls::None)), (2, Some(Tls::IfAsked)), (3, None)] {
            let mut bytes = bytes.clone();
            bytes[15] = code;
            let crc = crc32(&bytes[..20]);
            bytes[20..].copy_from_slice(&crc.to_be_bytes());
            let expected = tls.map(|tls| Preamble { tls, ..preamble });
            assert_eq!(Preamble::decode(&bytes).ok(), expected, "{code}");
        }
        let newer = Preamble { oldest: 3, ..preamble };
        let refused = newer.version().expect_err("no version");
        assert_eq!(refused.why, Refusal::Version);
        let expected =
            "versions 3 to 3 of the protocol between nodes are offered, 2 to 2 are spoken";
        assert_eq!(refused.text, expected);
    }

    #[test]
    fn who_is_not_welcome_is_told_why() {
        let check = |change: fn(&mut Hello), is_banned, expected: Option<(Refusal, &str)>| {
            let mut hello = hello();
            change(&mut hello);
            let refused = check_hello(US, &hello, Class::Bulk, is_banned).err();
            let refused = refused.map(|refused| (refused.why, refused.text));
            assert_eq!(refused, expected.map(|(why, text)| (why, text.to_string())));
        };
        let [one, two, three] =
            [1, 2, 3].map(|last| format!("00000000-0000-0000-0000-00000000000{last}"));
        check(|_| {}, false, None);
        check(|it| it.expected = None, false, None);
        let banned = format!("node {two} is banned from the cluster");
        check(|_| {}, true, Some((Refusal::Banned, &banned)));
        let other = format!("node {two} is of cluster \"two\", this one is of \"one\"");
        check(|it| it.speaker.cluster = "two".into(), true, Some((Refusal::Cluster, &other)));
        let wrong = format!("node {three} was expected at this address, {one} is there");
        check(|it| it.expected = Some(HostId(3)), false, Some((Refusal::WrongHost, &wrong)));
        let same = format!("node {one} has reached itself, or there are two of that host id");
        check(|it| it.speaker.host = HostId(1), false, Some((Refusal::Oneself, &same)));
        let class = "a hello of class control after a preamble of bulk";
        check(|it| it.class = Class::Control, false, Some((Refusal::Damaged, class)));
        let mut welcome = arbitrary_welcome(3);
        (welcome.speaker.cluster, welcome.speaker.host) = ("one".into(), HostId(1));
        let check = |hello: &Hello, welcome: &Welcome| {
            check_welcome(US, hello, welcome, false).map_err(|refused| refused.why)
        };
        let asks = Hello { expected: None, compression: Algorithms::ALL, ..hello() };
        assert_eq!(check(&asks, &welcome), Err(Refusal::Oneself));
        welcome.speaker.host = HostId(4);
        assert_eq!(check(&asks, &welcome), Ok(()));
        let expects = Hello { expected: Some(HostId(3)), ..asks.clone() };
        assert_eq!(check(&expects, &welcome), Err(Refusal::WrongHost));
        welcome.compression = Compression::Zstd.into();
        let offers = Hello { compression: Compression::Lz4.into(), ..asks };
        assert_eq!(check(&offers, &welcome), Err(Refusal::Damaged));
    }

    #[test]
    fn texts_of_others_are_fit_for_the_log() {
        assert_eq!(text_of(b"a b", 3).as_deref(), Ok("a b"));
        for bytes in [&b"abcd"[..], b"a\nb", b"\xff", b"a\x1b["] {
            assert!(text_of(bytes, 3).is_err(), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn greetings_round_trip_and_no_flipped_bit_passes(seed: u64, flip: usize) {
            let (hello, welcome) = (arbitrary_hello(seed), Ok(arbitrary_welcome(seed)));
            let bytes = hello.encode();
            let (crc, of_hello) = body(&bytes);
            prop_assert_eq!(Hello::decode(crc, of_hello), Ok(hello));
            let bytes = encode_welcome(&welcome);
            let (crc, of_welcome) = body(&bytes);
            prop_assert_eq!(decode_welcome(crc, of_welcome), Ok(welcome));
            for body in [of_hello, of_welcome] {
                let mut torn = body.to_vec();
                torn[flip / 8 % body.len()] ^= 1 << (flip % 8);
                prop_assert!(Hello::decode(crc, &torn).is_err());
                prop_assert!(decode_welcome(crc, &torn).is_err());
            }
        }

        #[test]
        fn any_preamble_is_one_in_its_only_form_or_damaged(
            seed: u64,
            flip in 0..PREAMBLE_BYTES * 8,
            mut drawn in proptest::collection::vec(any::<u8>(), PREAMBLE_BYTES),
        ) {
            let preamble = arbitrary_preamble(seed);
            let mut bytes = preamble.encode();
            prop_assert_eq!(Preamble::decode(&bytes), Ok(preamble));
            bytes[flip / 8] ^= 1 << (flip % 8);
            prop_assert!(Preamble::decode(&bytes).is_err());
            // With all that makes it look like one, as an attacker would.
            drawn[..8].copy_from_slice(&MAGIC);
            (drawn[14], drawn[15]) = (drawn[14] % 4, drawn[15] % 4);
            drawn[16..19].fill(0);
            drawn[19] %= 2;
            let crc = crc32(&drawn[..20]).to_be_bytes();
            drawn[20..].copy_from_slice(&crc);
            if let Ok(preamble) = Preamble::decode(&drawn) {
                prop_assert_eq!(preamble.encode(), drawn);
            }
        }

        #[test]
        fn any_greeting_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            // With its checksum, as an attacker would.
            let crc = crc32(&bytes);
            if let Ok(hello) = Hello::decode(crc, &bytes) {
                prop_assert_eq!(&hello.encode()[PREFIX_BYTES..], &bytes[..]);
            }
            if let Ok(welcome) = decode_welcome(crc, &bytes) {
                prop_assert_eq!(&encode_welcome(&welcome)[PREFIX_BYTES..], &bytes[..]);
            }
            if let Ok(answer) = decode_answer(crc, &bytes) {
                prop_assert_eq!(&encode_answer(&answer)[PREFIX_BYTES..], &bytes[..]);
            }
            let _ = Preamble::decode(&bytes);
            let _ = decode_prefix(&bytes);
        }

        #[test]
        fn a_changed_field_is_read_or_refused(seed: u64, at: usize, value: u8) {
            let mut bytes = arbitrary_hello(seed).encode().split_off(PREFIX_BYTES);
            let at = at % bytes.len();
            bytes[at] = value;
            if let Ok(hello) = Hello::decode(crc32(&bytes), &bytes) {
                prop_assert_eq!(&hello.encode()[PREFIX_BYTES..], &bytes[..]);
            }
        }
    }
}
