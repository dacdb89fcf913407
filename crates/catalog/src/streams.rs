//! The streams of change data capture: which partition of a log a change goes to. Pure.
//!
//! A log is read stream by stream, and who reads it has to know all streams that there are at a
//! time. So what goes to which stream is a matter of the token and of the time of the write alone:
//! a set of streams is in use from a time on, until the next one is. Tables with tablets have sets
//! of their own, a stream for each tablet; those without share the sets of the ring, a stream for
//! each range of it and each shard of the node that owns it.
//!
//! A stream's name begins with a token, by which readers group streams. Where its partition is says
//! our own partitioner; its random bits are searched such that this is where its writes are
//! (`placement::streams`).
//!
//! Invariants
//!  - *times-ascend*: a set is in use from a later time on than the one before.
//!  - *covering*: every token has a stream in each set.
//!  - *told-before*: no write gets a stream of a set that is not in use, but those whose time is
//!    that little ahead by which clocks may differ.
//!  - *closed-is-closed*: a set that is not in use any more gets no writes, but those that are late
//!    by as much.
//!  - *round-trip*: what [`Streams::encode`] makes, [`Streams::decode`] gives back.

use model::schema::cdc::AHEAD_MICROS;
use model::{Sharder, Token};
use std::fmt;
use std::sync::Arc;
use stdx::{Cursor, Damaged, Put};

/// How late a write may be that goes to a set which is not in use any more.
const LATE_MICROS: i64 = AHEAD_MICROS;

/// The name of a stream: the partition key of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub [u8; 16]);

impl StreamId {
    /// Bits of each part, after the token, from the highest on.
    const RANDOM_BITS: u32 = 38;
    const INDEX_BITS: u32 = 22;
    const VERSION_BITS: u32 = 4;
    /// The only version that there is.
    const VERSION: u64 = 1;

    /// More ranges have no numbers of their own.
    pub const INDEX_MAX: u32 = (1 << StreamId::INDEX_BITS) - 1;

    /// The stream of a range with that number and of that token; `random`: its low bits.
    pub fn new(token: Token, index: u32, random: u64) -> StreamId {
        let random = random & ((1 << StreamId::RANDOM_BITS) - 1);
        let index = u64::from(index.min(StreamId::INDEX_MAX));
        let low = (random << (StreamId::INDEX_BITS + StreamId::VERSION_BITS))
            | (index << StreamId::VERSION_BITS)
            | StreamId::VERSION;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&token.0.to_be_bytes());
        bytes[8..].copy_from_slice(&low.to_be_bytes());
        StreamId(bytes)
    }

    /// The token that its name says.
    pub fn token(self) -> Token {
        let [high, _] = self.halves();
        Token(high as i64)
    }

    /// The number of its range.
    pub fn index(self) -> u32 {
        let [_, low] = self.halves();
        debug_assert!(low & 0xf == StreamId::VERSION, "a stream of another version: {self:?}");
        (low >> StreamId::VERSION_BITS) as u32 & StreamId::INDEX_MAX
    }

    /// Where its partition is.
    pub fn partition(self) -> Token {
        Token::of(&self.0)
    }

    fn halves(self) -> [u64; 2] {
        let whole = u128::from_be_bytes(self.0);
        [(whole >> 64) as u64, whole as u64]
    }
}

const _: () = assert!(
    StreamId::RANDOM_BITS + StreamId::INDEX_BITS + StreamId::VERSION_BITS == 64,
    "the parts of a stream's name fill it"
);

/// The streams that are in use from a time on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSet {
    since_millis: i64,
    /// Ascending. What lies after the last one belongs to the first range.
    last_tokens: Vec<Token>,
    /// Of each range: up to which place among the streams its own are.
    ends: Vec<u32>,
    streams: Vec<StreamId>,
}

impl StreamSet {
    /// Of ranges up to their last tokens, with a stream for each shard of the node that owns one.
    pub fn new(since_millis: i64, ranges: Vec<(Token, Vec<StreamId>)>) -> StreamSet {
        assert!(!ranges.is_empty(), "covering: a set without ranges");
        let mut set =
            StreamSet { since_millis, last_tokens: vec![], ends: vec![], streams: vec![] };
        for (last, mut streams) in ranges {
            let shards = streams.len();
            assert!(0 < shards && shards <= usize::from(u16::MAX), "covering: {shards} streams");
            set.last_tokens.push(last);
            set.streams.append(&mut streams);
            set.ends.push(set.streams.len() as u32);
        }
        debug_assert!(set.last_tokens.is_sorted_by(|a, b| a < b), "covering: ranges overlap");
        set
    }

    /// The same, in use from that time on.
    pub fn since(self, since_millis: i64) -> StreamSet {
        StreamSet { since_millis, ..self }
    }

    /// Milliseconds since 1970 from which on it is in use.
    pub fn since_millis(&self) -> i64 {
        self.since_millis
    }

    fn since_micros(&self) -> i64 {
        self.since_millis.saturating_mul(1000)
    }

    /// The ranges, each up to its last token, and their streams.
    pub fn ranges(&self) -> impl Iterator<Item = (Token, &[StreamId])> {
        let range = |at: usize| (self.last_tokens[at], self.of_range(at));
        (0..self.last_tokens.len()).map(range)
    }

    /// All streams, in order of their ranges.
    pub fn streams(&self) -> &[StreamId] {
        &self.streams
    }

    fn of_range(&self, at: usize) -> &[StreamId] {
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        debug_assert!(begin < self.ends[at] as usize, "covering: range {at} has no streams");
        &self.streams[begin..self.ends[at] as usize]
    }

    /// The stream of a token.
    pub fn of(&self, token: Token) -> StreamId {
        let at = self.last_tokens.partition_point(|last| *last < token);
        let at = if at == self.last_tokens.len() { 0 } else { at };
        let streams = self.of_range(at);
        let shard = match streams.len() {
            1 => 0,
            shards => Sharder::of_node(shards as u16).shard_of(token),
        };
        debug_assert!(usize::from(shard) < streams.len(), "covering: {token:?} has no stream");
        streams[usize::from(shard)]
    }
}

/// The sets of streams of a table, or of the ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    sets: Vec<Arc<StreamSet>>,
}

impl Streams {
    /// All sets, the earliest first.
    pub fn sets(&self) -> &[Arc<StreamSet>] {
        &self.sets
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// The set that is in use at a time, in milliseconds.
    pub fn at(&self, millis: i64) -> Option<&Arc<StreamSet>> {
        let after = self.sets.partition_point(|set| set.since_millis <= millis);
        debug_assert!(after <= self.sets.len(), "times-ascend: set {after}");
        self.sets.get(after.checked_sub(1)?)
    }

    /// The same with another set after all others, and without those that were over before
    /// `kept_millis`.
    pub fn with(&self, set: StreamSet, kept_millis: i64) -> Streams {
        let last = self.sets.last().map(|last| last.since_millis);
        let later = last.is_none_or(|last| last < set.since_millis);
        assert!(later, "times-ascend: {} after {last:?}", set.since_millis);
        let mut sets = self.sets.clone();
        sets.push(Arc::new(set));
        let over = sets.windows(2).take_while(|pair| pair[1].since_millis < kept_millis).count();
        sets.drain(..over);
        Streams { sets }
    }

    /// Of sets as they were stored; `None` where their times do not ascend.
    pub fn of_sets(sets: Vec<StreamSet>) -> Option<Streams> {
        debug_assert!(sets.iter().all(|set| !set.streams.is_empty()), "covering: an empty set");
        let ascend = sets.is_sorted_by(|a, b| a.since_millis < b.since_millis);
        ascend.then(|| Streams { sets: sets.into_iter().map(Arc::new).collect() })
    }

    /// The stream that a write of that token and time goes to, now.
    pub fn stream_of(
        &self,
        token: Token,
        micros: i64,
        now_micros: i64,
    ) -> Result<StreamId, WrongTime> {
        if now_micros.saturating_add(AHEAD_MICROS) < micros {
            return Err(WrongTime::Ahead { micros, now_micros });
        }
        let after = self.sets.partition_point(|set| set.since_micros() <= micros);
        let Some(at) = after.checked_sub(1) else {
            return Err(WrongTime::BeforeAll { micros });
        };
        let next = self.sets.get(after).map(|next| next.since_micros());
        let is_over = next.is_some_and(|next| next <= now_micros);
        if is_over && micros <= now_micros.saturating_sub(LATE_MICROS) {
            return Err(WrongTime::Late { micros, now_micros });
        }
        let since = self.sets[at].since_micros();
        debug_assert!(
            since <= now_micros.saturating_add(AHEAD_MICROS),
            "told-before: a set of {since} is given at {now_micros}"
        );
        debug_assert!(
            next.is_none_or(|next| now_micros.saturating_sub(LATE_MICROS) < next),
            "closed-is-closed: a set that ended at {next:?} is given at {now_micros}"
        );
        Ok(self.sets[at].of(token))
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u8(ENCODING);
        out.put_u32(self.sets.len() as u32);
        for set in &self.sets {
            out.put_i64(set.since_millis);
            out.put_u32(set.last_tokens.len() as u32);
            for (last, streams) in set.ranges() {
                out.put_i64(last.0);
                out.put_u16(streams.len() as u16);
                streams.iter().for_each(|stream| out.put(&stream.0));
            }
        }
        out
    }

    /// What [`Streams::encode`] made.
    pub fn decode(bytes: &[u8]) -> Result<Streams, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let damaged = |what, at| Damaged { what, at };
        if cursor.u8("the form of streams")? != ENCODING {
            return Err(damaged("streams of an unknown form", 0));
        }
        let mut sets = Vec::new();
        for _ in 0..cursor.u32("a number of sets of streams")? {
            let since_millis = cursor.i64("the time of a set of streams")?;
            let mut ranges: Vec<(Token, Vec<StreamId>)> = Vec::new();
            for _ in 0..cursor.u32("a number of ranges")? {
                let last = Token(cursor.i64("the last token of a range")?);
                if ranges.last().is_some_and(|(before, _)| last <= *before) {
                    return Err(damaged("ranges of streams are out of order", 0));
                }
                let mut streams = Vec::new();
                for _ in 0..cursor.u16("a number of streams")? {
                    streams.push(StreamId(cursor.array("a stream")?));
                }
                if streams.is_empty() || usize::from(u16::MAX) == streams.len() {
                    return Err(damaged("a range has no streams, or too many", 0));
                }
                ranges.push((last, streams));
            }
            if ranges.is_empty() {
                return Err(damaged("a set of streams without ranges", 0));
            }
            sets.push(StreamSet::new(since_millis, ranges));
        }
        if !cursor.rest().is_empty() {
            return Err(damaged("bytes after the last set of streams", 0));
        }
        Streams::of_sets(sets).ok_or(damaged("sets of streams are out of order", 0))
    }
}

/// The form of the bytes.
const ENCODING: u8 = 1;

/// Why a write gets no stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrongTime {
    /// Which streams there will be then is not known.
    Ahead { micros: i64, now_micros: i64 },
    /// Who reads the log has read all of that time.
    Late { micros: i64, now_micros: i64 },
    /// There were no streams then.
    BeforeAll { micros: i64 },
}

impl fmt::Display for WrongTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const PAST: &str = "With CDC you cannot send writes with timestamps too far into the past, \
                            because whoever reads the log has read all of that time";
        match self {
            WrongTime::Ahead { micros, now_micros } => write!(
                f,
                "cdc: attempted to get a stream \"from the future\" (timestamp {micros}, the \
                 server's clock says {now_micros}). With CDC you cannot send writes with \
                 timestamps arbitrarily into the future, because it is not known yet which streams \
                 there will be then; up to {} seconds are possible",
                AHEAD_MICROS / 1_000_000
            ),
            WrongTime::Late { micros, now_micros } => write!(
                f,
                "cdc: attempted to get a stream from an earlier generation than the one in use \
                 (timestamp {micros}, the server's clock says {now_micros}). {PAST}"
            ),
            WrongTime::BeforeAll { micros } => write!(
                f,
                "cdc: attempted to get a stream for timestamp {micros}, when there was none yet. \
                 {PAST}"
            ),
        }
    }
}

#[cfg(test)]
mod tests;
