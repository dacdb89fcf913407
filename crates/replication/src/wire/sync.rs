//! What replicas of a range say to each other in a repair.
//!
//! ```text
//! SYNC_SENT     (host:16)+                                   -> moment:be64
//! SYNC_KNOWS    table:16 first:be64 last:be64                -> session:16
//! SYNC_BEGIN    session:16 table:16 first:be64 last:be64     -> 0 or 1
//! SYNC_KEEP     session:16                                   one way
//! SYNC_READ     session:16 round:be32 table:16 first:be64 last:be64 seed:be64 now:be64
//!               gc_before:be64 bytes:be32 after:edge         -> reached:edge count:be32 hash:16
//! SYNC_COMPARE  session:16 round:be32 upto:edge count:be32 hash:16
//!                                                            -> 0, 1 or 2 (hash:be64)*
//! SYNC_FETCH    session:16 round:be32 bits                   -> 0 or 1 (length:be32 mutation)+
//! SYNC_WRITE    as MUTATION                                  -> nothing
//! SYNC_END      session:16 agree:u8?                         one way
//! SYNC_DURABLE  session:16                                   -> nothing
//! SYNC_REPAIRED table:16 first:be64 last:be64 moment         -> nothing
//! SYNC_LEAD     table:16 first:be64 last:be64 how:u8 bytes:be32 moment? (host:16 shard:be16)+
//!                                                            -> figures: nine to eleven be64
//!
//! how    := the sum of 1: old deletions count as forgotten, 2: it is read whatever is known, 4: a
//!           moment follows
//! moment := repair:16 micros:be64, of which neither is 0
//! edge := a resume of no rows; none: the begin of the range (after), or its end
//! bits := of the list that was told before, eight a byte, the first is the least; the last byte is
//!         not 0
//! ```
//! SYNC_SENT names hosts in their order; see `repair::sent`. An answer of 0 says that the session
//! is not there, or in another round; to SYNC_BEGIN, that it has no turn yet. 1 to SYNC_COMPARE
//! says that the replica has the same. A hash in a list is the first half of what is summed up. The
//! session of SYNC_KNOWS is that after which nothing has changed in that part, or 0; SYNC_END says
//! whether all replicas have the same in all of it. That, and the tenth figure, are not told while
//! a node does not know `REPAIR_TURNS`; the eleventh is where all know `TABLET_REPAIR_TIME`.

use super::{end, flag, put_resume, resume};
use crate::sync::buffer::Told;
use crate::sync::unit::{Edge, Sum};
use model::{DecoratedKey, TableId, Token, Uuid};
use mutation::page::Resume;
use mutation::range::ClusteringPosition;
use mutation::{FrozenMutation, FrozenView};
use std::collections::BTreeSet;
use stdx::{Bytes, Cursor, Damaged, Put};

/// A replica is asked to read its part of a range up to a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) session: u128,
    /// Grows with each question of a session.
    pub(crate) round: u32,
    pub(crate) table: TableId,
    /// The first token and the last.
    pub(crate) range: (Token, Token),
    pub(crate) seed: u64,
    /// What expires before this second is gone,
    pub(crate) now: i64,
    /// and what was deleted before this one forgotten.
    pub(crate) gc_before: i64,
    pub(crate) bytes_max: u32,
    pub(crate) after: Option<Edge>,
}

/// A replica is asked to cut its buffer, and to tell what it has before, unless it is that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Compare {
    pub(crate) session: u128,
    pub(crate) round: u32,
    pub(crate) upto: Option<Edge>,
    pub(crate) sum: Sum,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    Gone,
    Same,
    Other(Vec<u64>),
}

/// It is asked for some of those.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fetch {
    pub(crate) session: u128,
    pub(crate) round: u32,
    /// Their places, ascending.
    pub(crate) places: Vec<u32>,
}

fn put_edge(out: &mut Vec<u8>, edge: Option<&Edge>) {
    let is_between = edge.and_then(|edge| edge.within.as_ref()).is_none_or(|it| it.weight != 0);
    debug_assert!(is_between, "one-form: an edge at a row");
    let resume = edge.map(|edge| Resume {
        key: edge.key.key.to_vec(),
        after: edge.within.as_ref().map(|within| (within.prefix.to_vec(), within.weight)),
        rows_in_partition: 0,
    });
    put_resume(out, resume.as_ref());
}

fn edge(cursor: &mut Cursor<'_>) -> Result<Option<Edge>, Damaged> {
    let Some(resume) = resume(cursor)? else { return Ok(None) };
    if resume.rows_in_partition != 0 {
        return Err(cursor.damaged("rows before an edge"));
    }
    let key = DecoratedKey::new(Bytes::copy_from(&resume.key));
    let position = |(prefix, weight): (Vec<u8>, i8)| ClusteringPosition {
        prefix: Bytes::copy_from(&prefix),
        weight,
    };
    Ok(Some(Edge { key, within: resume.after.map(position) }))
}

fn put_sum(out: &mut Vec<u8>, sum: Sum) {
    debug_assert!(0 < sum.count || sum.hash == 0, "one-form: nothing has a hash");
    out.put_u32(sum.count);
    out.put(&sum.hash.to_be_bytes());
}

fn sum(cursor: &mut Cursor<'_>) -> Result<Sum, Damaged> {
    let count = cursor.u32("count of units")?;
    let hash = u128::from_be_bytes(cursor.array("sum of hashes")?);
    match 0 < count || hash == 0 {
        true => Ok(Sum { count, hash }),
        false => Err(cursor.damaged("a sum of nothing")),
    }
}

fn session(cursor: &mut Cursor<'_>) -> Result<u128, Damaged> {
    Ok(u128::from_be_bytes(cursor.array("a session")?))
}

impl Read {
    pub(crate) fn encode(&self) -> Vec<u8> {
        debug_assert!(self.range.0 <= self.range.1 && 0 < self.bytes_max, "one-form: {self:?}");
        let mut out = Vec::with_capacity(128);
        out.put(&self.session.to_be_bytes());
        out.put_u32(self.round);
        out.put(self.table.as_bytes());
        out.put_i64(self.range.0.0);
        out.put_i64(self.range.1.0);
        out.put_u64(self.seed);
        out.put_i64(self.now);
        out.put_i64(self.gc_before);
        out.put_u32(self.bytes_max);
        put_edge(&mut out, self.after.as_ref());
        out
    }

    /// See [`Read::encode`].
    pub(crate) fn decode(bytes: &[u8]) -> Result<Read, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let (session, round) = (session(&mut cursor)?, cursor.u32("round of a session")?);
        let table = TableId::from_bytes(cursor.array("a table id")?);
        let range = (Token(cursor.i64("first token")?), Token(cursor.i64("last token")?));
        let seed = cursor.u64("seed of hashes")?;
        let now = cursor.i64("second of a repair")?;
        let gc_before = cursor.i64("second of deletions")?;
        let bytes_max = cursor.u32("bytes of a buffer")?;
        let after = edge(&mut cursor)?;
        end(&cursor)?;
        let holds = |token: Token| range.0 <= token && token <= range.1;
        let is_inside = after.as_ref().is_none_or(|after| holds(after.key.token));
        if range.1 < range.0 || bytes_max == 0 || !is_inside {
            return Err(cursor.damaged("a part of a range that is none"));
        }
        Ok(Read { session, round, table, range, seed, now, gc_before, bytes_max, after })
    }
}

/// What a replica tells that has read.
pub(crate) fn encode_told(told: &Told) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    put_edge(&mut out, told.reached.as_ref());
    put_sum(&mut out, told.sum);
    out
}

/// See [`encode_told`].
pub(crate) fn decode_told(bytes: &[u8]) -> Result<Told, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let reached = edge(&mut cursor)?;
    let told = Told { reached, sum: sum(&mut cursor)? };
    end(&cursor)?;
    Ok(told)
}

impl Compare {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(96);
        out.put(&self.session.to_be_bytes());
        out.put_u32(self.round);
        put_edge(&mut out, self.upto.as_ref());
        put_sum(&mut out, self.sum);
        out
    }

    /// See [`Compare::encode`].
    pub(crate) fn decode(bytes: &[u8]) -> Result<Compare, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let (session, round) = (session(&mut cursor)?, cursor.u32("round of a session")?);
        let upto = edge(&mut cursor)?;
        let compare = Compare { session, round, upto, sum: sum(&mut cursor)? };
        end(&cursor)?;
        Ok(compare)
    }
}

impl Compared {
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Compared::Gone => vec![0],
            Compared::Same => vec![1],
            Compared::Other(hashes) => {
                let mut out = Vec::with_capacity(1 + 8 * hashes.len());
                out.put_u8(2);
                hashes.iter().for_each(|hash| out.put_u64(*hash));
                out
            }
        }
    }

    /// See [`Compared::encode`].
    pub(crate) fn decode(bytes: &[u8]) -> Result<Compared, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let compared = match cursor.u8("how replicas compare")? {
            0 => Compared::Gone,
            1 => Compared::Same,
            2 => {
                let mut hashes = Vec::with_capacity(bytes.len() / 8);
                while !cursor.is_empty() {
                    hashes.push(cursor.u64("hash of a unit")?);
                }
                Compared::Other(hashes)
            }
            _ => return Err(cursor.damaged("how replicas compare")),
        };
        end(&cursor)?;
        Ok(compared)
    }
}

impl Fetch {
    pub(crate) fn encode(&self) -> Vec<u8> {
        assert!(!self.places.is_empty(), "one-form: nothing is fetched");
        debug_assert!(self.places.is_sorted_by(|a, b| a < b), "one-form: {:?}", self.places);
        let last = self.places.last().copied().unwrap_or(0) as usize;
        let mut out = Vec::with_capacity(21 + last / 8);
        out.put(&self.session.to_be_bytes());
        out.put_u32(self.round);
        let start = out.len();
        out.resize(start + last / 8 + 1, 0);
        for place in &self.places {
            out[start + *place as usize / 8] |= 1 << (place % 8);
        }
        out
    }

    /// See [`Fetch::encode`].
    pub(crate) fn decode(bytes: &[u8]) -> Result<Fetch, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let (session, round) = (session(&mut cursor)?, cursor.u32("round of a session")?);
        let bits = cursor.rest();
        if bits.last().is_none_or(|last| *last == 0) || (u32::MAX / 8) as usize <= bits.len() {
            return Err(cursor.damaged("what is fetched"));
        }
        let mut places = Vec::new();
        for (byte, at) in bits.iter().zip(0u32..) {
            places.extend((0..8).filter(|bit| byte >> bit & 1 == 1).map(|bit| 8 * at + bit));
        }
        Ok(Fetch { session, round, places })
    }
}

/// What was fetched; `None`: the session is not there.
pub(crate) fn encode_fetched(mutations: Option<&[FrozenMutation]>) -> Vec<u8> {
    let Some(mutations) = mutations else { return vec![0] };
    debug_assert!(!mutations.is_empty(), "one-form: nothing was fetched");
    [&[1], &super::encode_mutations(mutations)[..]].concat()
}

/// See [`encode_fetched`]. The mutations are checked but for what the schema says of them.
pub(crate) fn decode_fetched(bytes: &[u8]) -> Result<Option<Vec<FrozenMutation>>, Damaged> {
    let mut cursor = Cursor::new(bytes);
    match cursor.u8("what was fetched")? {
        0 => end(&cursor).map(|()| None),
        1 => super::decode_mutations(cursor.rest()).map(Some).map_err(|it| it.from_base(1)),
        _ => Err(cursor.damaged("what was fetched")),
    }
}

/// A replica is asked to repair a range with these others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lead {
    pub(crate) range: Range,
    pub(crate) how: How,
}

/// How ranges are repaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// Whether deletions that are old enough to be forgotten count as forgotten. Otherwise one that
    /// a replica has forgotten, and another one has not, is brought back.
    pub forgets: bool,
    /// What a replica reads ahead at most; 0: as much as it may.
    pub buffer_bytes: u32,
    /// Whether also is read what is known to agree.
    pub is_full: bool,
    /// Since when nothing was kept for the replicas, if that is known.
    pub moment: Option<Moment>,
}

/// Of a repair: before it all that was written to the replicas had been sent to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub repair: u128,
    /// Microseconds since 1970; not 0.
    pub micros: i64,
}

impl Moment {
    fn put(self, out: &mut Vec<u8>) {
        debug_assert!(self.repair != 0 && self.micros != 0, "one-form: {self:?}");
        out.put(&self.repair.to_be_bytes());
        out.put_i64(self.micros);
    }

    fn take(cursor: &mut Cursor<'_>) -> Result<Moment, Damaged> {
        let repair = u128::from_be_bytes(cursor.array("a repair")?);
        let micros = cursor.i64("moment of a repair")?;
        match repair != 0 && micros != 0 {
            true => Ok(Moment { repair, micros }),
            false => Err(cursor.damaged("moment of a repair")),
        }
    }
}

/// In [`Lead`], how a range is repaired.
const FORGETS: u8 = 1;
const IS_FULL: u8 = 2;
const WITH_MOMENT: u8 = 4;

impl How {
    fn put(&self, out: &mut Vec<u8>) {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let all = flag(self.forgets, FORGETS)
            | flag(self.is_full, IS_FULL)
            | flag(self.moment.is_some(), WITH_MOMENT);
        debug_assert!(all <= FORGETS | IS_FULL | WITH_MOMENT, "one-form: {all}");
        out.put_u8(all);
        out.put_u32(self.buffer_bytes);
        if let Some(moment) = self.moment {
            moment.put(out);
        }
    }

    fn take(cursor: &mut Cursor<'_>) -> Result<How, Damaged> {
        let all = cursor.u8("how a range is repaired")?;
        if all & !(FORGETS | IS_FULL | WITH_MOMENT) != 0 {
            return Err(cursor.damaged("how a range is repaired"));
        }
        let buffer_bytes = cursor.u32("bytes of a buffer")?;
        let moment = match all & WITH_MOMENT != 0 {
            true => Some(Moment::take(cursor)?),
            false => None,
        };
        let (forgets, is_full) = (all & FORGETS != 0, all & IS_FULL != 0);
        Ok(How { forgets, buffer_bytes, is_full, moment })
    }
}

/// A range and its other replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    pub table: TableId,
    /// The first token and the last: the same nodes have what is between them.
    pub tokens: (Token, Token),
    /// The other replicas, and the shard of each that is asked.
    pub others: Vec<(Uuid, u16)>,
}

impl Lead {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Range { table, tokens, others } = &self.range;
        assert!(!others.is_empty(), "one-form: a range of one replica");
        let mut out = Vec::with_capacity(61 + 18 * others.len());
        out.put(table.as_bytes());
        out.put_i64(tokens.0.0);
        out.put_i64(tokens.1.0);
        self.how.put(&mut out);
        for (host, shard) in others {
            out.put(host.as_bytes());
            out.put_u16(*shard);
        }
        out
    }

    /// See [`Lead::encode`].
    pub(crate) fn decode(bytes: &[u8]) -> Result<Lead, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let table = TableId::from_bytes(cursor.array("a table id")?);
        let tokens = (Token(cursor.i64("first token")?), Token(cursor.i64("last token")?));
        let how = How::take(&mut cursor)?;
        let mut others = Vec::new();
        while !cursor.is_empty() {
            let host = Uuid::from_bytes(cursor.array("a node")?);
            others.push((host, cursor.u16("shard of a node")?));
        }
        match tokens.0 <= tokens.1 && !others.is_empty() {
            true => Ok(Lead { range: Range { table, tokens, others }, how }),
            false => Err(cursor.damaged("a range that is none")),
        }
    }
}

/// What a repair has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub rounds: u64,
    /// Units that who asks has compared, and hashes of others that it was told.
    pub compared: u64,
    pub hashes: u64,
    /// Units that were fetched, written by who asks, and sent to others.
    pub fetched: u64,
    pub written: u64,
    pub sent: u64,
    /// Bytes of all messages, without their headers.
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// Bytes of mutations in them.
    pub bytes_of_rows: u64,
    /// Ranges of which it was known that all replicas agree: nothing of them was read.
    pub known: u64,
    /// Ranges that replicas were told to remember as repaired.
    pub remembered: u64,
}

impl Figures {
    /// How many figures are told, of those of which it is not always told.
    pub(crate) const AT_FIRST: usize = 9;
    pub(crate) const WITH_KNOWN: usize = 10;
    pub(crate) const WITH_REMEMBERED: usize = 11;

    fn all(&mut self) -> [&mut u64; Figures::WITH_REMEMBERED] {
        [
            &mut self.rounds,
            &mut self.compared,
            &mut self.hashes,
            &mut self.fetched,
            &mut self.written,
            &mut self.sent,
            &mut self.bytes_sent,
            &mut self.bytes_received,
            &mut self.bytes_of_rows,
            &mut self.known,
            &mut self.remembered,
        ]
    }

    pub fn add(&mut self, mut other: Figures) {
        for (own, other) in self.all().into_iter().zip(other.all()) {
            *own = own.saturating_add(*other);
        }
    }
}

/// What a repair at another node's word has done, the first so many figures: that one may not hear
/// of more.
pub(crate) fn encode_figures(mut figures: Figures, told: usize) -> Vec<u8> {
    let all = figures.all();
    assert!(Figures::AT_FIRST <= told && told <= all.len(), "one-form: {told} figures");
    all.into_iter().take(told).flat_map(|figure| figure.to_be_bytes()).collect()
}

/// See [`encode_figures`].
pub(crate) fn decode_figures(bytes: &[u8]) -> Result<Figures, Damaged> {
    let (mut cursor, mut figures) = (Cursor::new(bytes), Figures::default());
    for (figure, index) in figures.all().into_iter().zip(0..) {
        if Figures::AT_FIRST <= index && cursor.is_empty() {
            break;
        }
        *figure = cursor.u64("a figure of a repair")?;
    }
    end(&cursor).map(|()| figures)
}

pub(crate) fn encode_turn(has_turn: bool) -> Vec<u8> {
    vec![has_turn.into()]
}

/// See [`encode_turn`].
pub(crate) fn decode_turn(bytes: &[u8]) -> Result<bool, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let has_turn = flag(&mut cursor, "whether a range has a turn")?;
    end(&cursor).map(|()| has_turn)
}

/// Nodes to which is sent what is kept for them.
pub(crate) fn encode_hosts(hosts: &BTreeSet<Uuid>) -> Vec<u8> {
    assert!(!hosts.is_empty(), "one-form: nobody is sent anything");
    hosts.iter().flat_map(|host| host.into_bytes()).collect()
}

/// See [`encode_hosts`].
pub(crate) fn decode_hosts(bytes: &[u8]) -> Result<BTreeSet<Uuid>, Damaged> {
    let (mut cursor, mut hosts) = (Cursor::new(bytes), BTreeSet::new());
    while hosts.is_empty() || !cursor.is_empty() {
        let host = Uuid::from_bytes(cursor.array("a node")?);
        if hosts.last().is_some_and(|last| host <= *last) {
            return Err(cursor.damaged("order of nodes"));
        }
        hosts.insert(host);
    }
    Ok(hosts)
}

/// A range was repaired, with all its replicas.
pub(crate) fn encode_repaired(of: Part, moment: Moment) -> Vec<u8> {
    let mut out = Vec::with_capacity(56);
    put_part(&mut out, of);
    moment.put(&mut out);
    out
}

/// See [`encode_repaired`].
pub(crate) fn decode_repaired(bytes: &[u8]) -> Result<(Part, Moment), Damaged> {
    let mut cursor = Cursor::new(bytes);
    let repaired = (part(&mut cursor)?, Moment::take(&mut cursor)?);
    end(&cursor).map(|()| repaired)
}

/// Before which microsecond nothing is kept any more.
pub(crate) fn encode_moment(moment: i64) -> Vec<u8> {
    moment.to_be_bytes().to_vec()
}

/// See [`encode_moment`].
pub(crate) fn decode_moment(bytes: &[u8]) -> Result<i64, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let moment = cursor.i64("a moment")?;
    end(&cursor).map(|()| moment)
}

/// A part of a table, from the first token to the last.
pub(crate) type Part = (TableId, Token, Token);

fn put_part(out: &mut Vec<u8>, (table, first, last): Part) {
    debug_assert!(first <= last, "one-form: from {first:?} to {last:?}");
    out.put(table.as_bytes());
    out.put_i64(first.0);
    out.put_i64(last.0);
}

fn part(cursor: &mut Cursor<'_>) -> Result<Part, Damaged> {
    let table = TableId::from_bytes(cursor.array("a table id")?);
    let (first, last) = (Token(cursor.i64("first token")?), Token(cursor.i64("last token")?));
    match first <= last {
        true => Ok((table, first, last)),
        false => Err(cursor.damaged("a range that is none")),
    }
}

/// A replica is asked what it knows of a part of a table.
pub(crate) fn encode_part(asked: Part) -> Vec<u8> {
    let mut out = Vec::with_capacity(32);
    put_part(&mut out, asked);
    out
}

/// See [`encode_part`].
pub(crate) fn decode_part(bytes: &[u8]) -> Result<Part, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let asked = part(&mut cursor)?;
    end(&cursor).map(|()| asked)
}

/// A range waits for its turn.
pub(crate) fn encode_begin(session: u128, of: Part) -> Vec<u8> {
    let mut out = Vec::with_capacity(48);
    out.put(&session.to_be_bytes());
    put_part(&mut out, of);
    out
}

/// See [`encode_begin`].
pub(crate) fn decode_begin(bytes: &[u8]) -> Result<(u128, Part), Damaged> {
    let mut cursor = Cursor::new(bytes);
    let begun = (session(&mut cursor)?, part(&mut cursor)?);
    end(&cursor).map(|()| begun)
}

/// A session has ended; whether all replicas agree.
pub(crate) fn encode_end(session: u128, all_agree: bool) -> Vec<u8> {
    let mut out = session.to_be_bytes().to_vec();
    out.put_u8(all_agree.into());
    out
}

/// See [`encode_end`]; as [`encode_session`] has it nothing is said of agreement.
pub(crate) fn decode_end(bytes: &[u8]) -> Result<(u128, bool), Damaged> {
    let mut cursor = Cursor::new(bytes);
    let ended = session(&mut cursor)?;
    let all_agree = !cursor.is_empty() && flag(&mut cursor, "whether replicas agree")?;
    end(&cursor).map(|()| (ended, all_agree))
}

/// What SYNC_KEEP is about, and what SYNC_KNOWS is answered.
pub(crate) fn encode_session(session: u128) -> Vec<u8> {
    session.to_be_bytes().to_vec()
}

/// See [`encode_session`].
pub(crate) fn decode_session(bytes: &[u8]) -> Result<u128, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let session = session(&mut cursor)?;
    end(&cursor).map(|()| session)
}

/// Those of one table, each of a partition in the range, its rows in order.
pub(crate) fn check_fetched(
    mutations: &[FrozenMutation],
    schema: &model::TableSchema,
    (first, last): (Token, Token),
) -> Result<(), Damaged> {
    for mutation in mutations {
        let view: FrozenView<'_> = mutation.view()?;
        view.check_order(&schema.order)?;
        let token = Token::of(view.key());
        if view.table() != schema.id || token < first || last < token {
            return Err(Damaged::new("a mutation of another table or range", 0));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::foreign::read_as_each;
    use mutation::testing;
    use proptest::prelude::*;

    fn any_edge() -> impl Strategy<Value = Option<Edge>> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..6);
        let within = proptest::option::of((bytes(), prop_oneof![Just(-1i8), Just(1)]));
        proptest::option::of((bytes(), within).prop_map(|(key, within)| Edge {
            key: DecoratedKey::new(Bytes::copy_from(&key)),
            within: within.map(|(prefix, weight)| ClusteringPosition {
                prefix: Bytes::copy_from(&prefix),
                weight,
            }),
        }))
    }

    prop_compose! {
        fn any_read()(
            (session, round, table) in any::<(u128, u32, u128)>(),
            (first, span, seed) in any::<(i64, u64, u64)>(),
            (now, gc_before, bytes_max) in any::<(i64, i64, u32)>(),
            after in any_edge(),
        ) -> Read {
            let last = first.saturating_add_unsigned(span);
            let holds = |edge: &Edge| (first..=last).contains(&edge.key.token.0);
            Read {
                session,
                round,
                table: TableId::from_u128(table),
                range: (Token(first), Token(last)),
                seed,
                now,
                gc_before,
                bytes_max: bytes_max.max(1),
                after: after.filter(holds),
            }
        }
    }

    proptest! {
        #[test]
        fn messages_come_back(
            read in any_read(),
            (session, round, hash, count) in any::<(u128, u32, u128, u32)>(),
            edge in any_edge(),
            places in proptest::collection::btree_set(0u32..300, 1..9),
            hashes: Vec<u64>,
        ) {
            let sum = Sum { hash: if count == 0 { 0 } else { hash }, count };
            prop_assert_eq!(Read::decode(&read.encode()), Ok(read.clone()));
            let told = Told { reached: edge.clone(), sum };
            prop_assert_eq!(decode_told(&encode_told(&told)), Ok(told));
            let compare = Compare { session, round, upto: edge, sum };
            prop_assert_eq!(Compare::decode(&compare.encode()), Ok(compare));
            let hosts: BTreeSet<Uuid> =
                hashes.iter().map(|hash| Uuid::from_u128(u128::from(*hash))).collect();
            if !hosts.is_empty() {
                prop_assert_eq!(decode_hosts(&encode_hosts(&hosts)), Ok(hosts));
            }
            for compared in [Compared::Gone, Compared::Same, Compared::Other(hashes)] {
                prop_assert_eq!(Compared::decode(&compared.encode()), Ok(compared));
            }
            let fetch = Fetch { session, round, places: places.into_iter().collect() };
            prop_assert_eq!(Fetch::decode(&fetch.encode()), Ok(fetch));
            prop_assert_eq!(decode_session(&encode_session(session)), Ok(session));
            prop_assert_eq!(decode_moment(&encode_moment(read.now)), Ok(read.now));
            let of = (read.table, read.range.0, read.range.1);
            prop_assert_eq!(decode_part(&encode_part(of)), Ok(of));
            prop_assert_eq!(decode_begin(&encode_begin(session, of)), Ok((session, of)));
            prop_assert_eq!(decode_end(&encode_end(session, true)), Ok((session, true)));
            prop_assert_eq!(decode_end(&encode_session(session)), Ok((session, false)));
            for has_turn in [false, true] {
                prop_assert_eq!(decode_turn(&encode_turn(has_turn)), Ok(has_turn));
            }
        }

        #[test]
        fn what_another_leads_comes_back(
            (table, tokens, figures) in any::<(u128, [i64; 2], [u64; 11])>(),
            others in proptest::collection::vec((any::<u128>(), any::<u16>()), 1..4),
            (forgets, is_full, buffer_bytes) in any::<(bool, bool, u32)>(),
            moment: Option<(u128, i64)>,
        ) {
            let tokens = (Token(tokens[0].min(tokens[1])), Token(tokens[0].max(tokens[1])));
            let others = others.into_iter().map(|(host, shard)| (Uuid::from_u128(host), shard));
            let (table, others) = (TableId::from_u128(table), others.collect());
            let moment = moment.filter(|(repair, micros)| *repair != 0 && *micros != 0);
            let moment = moment.map(|(repair, micros)| Moment { repair, micros });
            if let Some(moment) = moment {
                let of = (table, tokens.0, tokens.1);
                prop_assert_eq!(decode_repaired(&encode_repaired(of, moment)), Ok((of, moment)));
            }
            let how = How { forgets, buffer_bytes, is_full, moment };
            let lead = Lead { range: Range { table, tokens, others }, how };
            prop_assert_eq!(Lead::decode(&lead.encode()), Ok(lead));
            let mut all = Figures::default();
            all.all().into_iter().zip(figures).for_each(|(own, figure)| *own = figure);
            for told in (Figures::AT_FIRST..=Figures::WITH_REMEMBERED).rev() {
                all.all().into_iter().skip(told).for_each(|figure| *figure = 0);
                prop_assert_eq!(decode_figures(&encode_figures(all, told)), Ok(all));
            }
        }

        #[test]
        fn fetched_mutations_come_back(
            mutations in proptest::collection::vec(testing::mutation(), 1..4),
        ) {
            let fetched = encode_fetched(Some(&mutations));
            prop_assert_eq!(decode_fetched(&fetched), Ok(Some(mutations.clone())));
            prop_assert_eq!(decode_fetched(&encode_fetched(None)), Ok(None));
            let schema = testing::schema();
            let all = (Token(i64::MIN), Token(i64::MAX));
            prop_assert_eq!(check_fetched(&mutations, &schema, all), Ok(()));
            let token = Token::of(mutations[0].view().expect("a mutation").key());
            let beside = (Token(token.0 + 1), Token(i64::MAX));
            prop_assert!(check_fetched(&mutations, &schema, beside).is_err());
        }

        #[test]
        fn any_bytes_are_a_message_in_its_only_form_or_damage(
            read in any_read(),
            at in any::<prop::sample::Index>(),
            change in proptest::collection::vec(any::<u8>(), 0..4),
            bytes in proptest::collection::vec(any::<u8>(), 0..90),
        ) {
            // Near what is one, too.
            let mut near = read.encode();
            let at = at.index(near.len());
            near.splice(at..(at + change.len()).min(read.encode().len()), change);
            read_as_each(&near);
            read_as_each(&bytes);
        }
    }
}
