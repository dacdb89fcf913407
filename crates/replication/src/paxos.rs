//! The Paxos state of a partition on a node: rows of `system.paxos`. Pure.
//!
//! A partition's conditional writes agree, one after the other, on a mutation each. A replica
//! promises a ballot, accepts a proposal of it, and learns that it was chosen. The row of a
//! partition (its key, and its table's id) holds the promise, the last accepted proposal, and the
//! ballot of the last one that was learned; the row's cells have the ballot's time.
//!
//! Where the partition has one replica, the round's row is removed when what it wrote is durable.
//! Where it has several, a replica keeps its promise and what it learned last for
//! `paxos_grace_seconds`: one that forgot them at once would accept a proposal that comes late, of
//! a round that lost long ago, and a later round would finish it. Only the proposal goes when all
//! replicas have learned it.
//!
//! Invariants
//!  - *later-than-promised*: a round's ballot is later than every ballot that the row names, by its
//!    time alone: what is chosen later has later timestamps.
//!  - *promised-first*: what was accepted was promised before, at that ballot or a later one.
//!  - *one-partition*: a proposal is a mutation of the partition that it is agreed on for.
//!  - *accepted-is-finished*: an accepted proposal that is not known to be learned is finished
//!    before the next round reads the partition.
//!  - *learned-is-committed*: a proposal of a transaction ([`crate::transactions`]) is learned only
//!    after the transaction was committed.
//!
//! In reading order: this (ballots, rows, what a replica promises), [`promises`] (what a round
//! makes of the promises of several replicas).

pub(crate) mod promises;

use cluster::TableEntry;
use model::value::{timeuuid_from_ticks, timeuuid_ticks};
use model::{ColumnId, TableId, TableSchema, Uuid};
use mutation::page::{ColumnForm, Page, PageView, Partitions, ReadCommand, RingBound, SendRange};
use mutation::{Cell, FrozenMutation, MutationBuilder, RowBuilder, Tombstone};
use std::borrow::Cow;
use std::rc::Rc;
use stdx::Put;

/// Node bits of ballots of a partition with one replica: a multicast address, which no network card
/// has.
const ALONE: u64 = 0x8000_0100_0000_0000;
/// The same of those by which a transaction holds it.
const ALONE_HELD: u64 = 0x8000_0300_0000_0000;
/// The first two bits of the node bits are the variant of a UUID.
const VARIANT: u64 = 0x8000_0000_0000_0000;
const VARIANT_MASK: u64 = 0xc000_0000_0000_0000;
/// For how long replicas keep what they promised and learned, unless the table says.
const GRACE_SECONDS: i32 = 864_000;

/// A ballot: a timeuuid whose time, in microseconds, is the timestamp of what it proposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ballot {
    micros: i64,
    node: u64,
}

impl Ballot {
    /// The ballot of that time, microseconds since the epoch, where there is one replica.
    pub fn alone(micros: i64) -> Ballot {
        Ballot { micros, node: ALONE }
    }

    /// The same where there are several; `random` bits tell it from those of others.
    pub fn drawn(micros: i64, random: u64) -> Ballot {
        let node = random & !VARIANT_MASK | VARIANT | 1;
        debug_assert!(node & 1 == 1, "later-than-promised: {node:x} is of one replica");
        Ballot { micros, node }
    }

    /// Microseconds since the epoch.
    pub fn micros(self) -> i64 {
        self.micros
    }

    /// Whether it is of a partition with one replica.
    pub fn is_alone(self) -> bool {
        matches!(self.node, ALONE | ALONE_HELD)
    }

    /// Whether it is one by which a transaction holds a partition with one replica.
    pub(crate) fn is_held(self) -> bool {
        self.node == ALONE_HELD
    }

    /// The ballot of one replica, as that of what a transaction proposes.
    fn held(self) -> Ballot {
        assert!(self.is_alone(), "promised-first: {self:?} is of several replicas");
        Ballot { node: ALONE_HELD, ..self }
    }

    /// Its bytes: those of the timeuuid.
    pub fn to_bytes(self) -> [u8; 16] {
        let uuid = timeuuid_from_ticks(self.micros.saturating_mul(10), self.node.to_be_bytes());
        debug_assert!(
            Ballot::of_bytes(uuid.as_bytes()) == Some(self),
            "later-than-promised: ballot {self:?} is stored as another"
        );
        uuid.into_bytes()
    }

    /// See [`Ballot::to_bytes`]; `None`: they are none of a ballot.
    pub fn of_bytes(bytes: &[u8]) -> Option<Ballot> {
        let uuid = Uuid::from_slice(bytes).ok()?;
        let ticks = timeuuid_ticks(&uuid)?;
        let node = u64::from_be_bytes(bytes[8..].try_into().ok()?);
        let is_ballot = ticks % 10 == 0 && 0 < ticks && node & VARIANT_MASK == VARIANT;
        is_ballot.then_some(Ballot { micros: ticks / 10, node })
    }
}

/// The lowest of the bits of a transaction that are its bucket.
const BUCKET_AT: u32 = 24;

/// A transaction: when it began, and random bits that tell it from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(Ballot);

impl TransactionId {
    /// One that begins at that time, microseconds since the epoch. Its outcome is among those of
    /// that bucket.
    pub fn new(micros: i64, bucket: u32, random: u64) -> TransactionId {
        debug_assert!(0 < micros, "late-is-aborted: a transaction before 1970");
        let bits = random & !(u64::from(u32::MAX) << BUCKET_AT) | u64::from(bucket) << BUCKET_AT;
        TransactionId(Ballot::drawn(micros, bits))
    }

    /// Among which outcomes its own is.
    pub fn bucket(self) -> u32 {
        (self.0.node >> BUCKET_AT) as u32
    }

    /// When it began, microseconds since the epoch, by the clock of the node that coordinates it.
    pub fn began_micros(self) -> i64 {
        self.0.micros
    }

    /// Its bytes: those of a timeuuid.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_bytes()
    }

    /// See [`TransactionId::to_bytes`]; `None`: they are none of a transaction.
    pub fn of_bytes(bytes: &[u8]) -> Option<TransactionId> {
        Ballot::of_bytes(bytes).map(TransactionId)
    }
}

/// What is proposed for a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proposal {
    pub(crate) ballot: Ballot,
    /// It was not promised, but made by who had this one chosen, and learned by a majority; see
    /// [`State::refuses_proposal`].
    pub(crate) since: Option<Ballot>,
    /// It changes something only if that transaction is committed.
    pub(crate) of: Option<TransactionId>,
    pub(crate) mutation: FrozenMutation,
}

/// Flags before a proposal: since which one it is, and of which transaction, are given.
const HAS_SINCE: u8 = 1;
const HAS_TRANSACTION: u8 = 2;

impl Proposal {
    /// One that stands by itself.
    pub(crate) fn new(
        (ballot, since): (Ballot, Option<Ballot>),
        mutation: FrozenMutation,
    ) -> Proposal {
        debug_assert!(since < Some(ballot), "later-than-promised: {ballot:?} since {since:?}");
        Proposal { ballot, since, of: None, mutation }
    }

    /// One of a transaction, where there is one replica.
    pub(crate) fn alone_of(
        id: TransactionId,
        ballot: Ballot,
        mutation: FrozenMutation,
    ) -> Proposal {
        let ballot = ballot.held();
        debug_assert!(ballot.is_alone(), "promised-first: {ballot:?} is of several replicas");
        Proposal { ballot, since: None, of: Some(id), mutation }
    }

    /// What stands before the mutation, where there are several replicas.
    pub(crate) fn head(&self) -> Vec<u8> {
        debug_assert!(!self.ballot.is_alone(), "one-partition: a head of one replica");
        let mut out = Vec::with_capacity(33);
        let flag = |is_given, flag| if is_given { flag } else { 0 };
        out.put_u8(
            flag(self.since.is_some(), HAS_SINCE) | flag(self.of.is_some(), HAS_TRANSACTION),
        );
        self.since.iter().for_each(|since| out.put(&since.to_bytes()));
        self.of.iter().for_each(|id| out.put(&id.to_bytes()));
        out
    }

    /// See [`Proposal::head`]: both, and what stands behind it.
    pub(crate) fn split_head(
        bytes: &[u8],
    ) -> Option<(Option<Ballot>, Option<TransactionId>, &[u8])> {
        let (flags, mut rest) = bytes.split_first()?;
        if HAS_SINCE | HAS_TRANSACTION < *flags {
            return None;
        }
        let mut take = |flag| match flags & flag {
            0 => Some(None),
            _ => {
                let (id, behind) = rest.split_first_chunk::<16>()?;
                rest = behind;
                Ballot::of_bytes(id).map(Some)
            }
        };
        let (since, of) = (take(HAS_SINCE)?, take(HAS_TRANSACTION)?);
        Some((since, of.map(TransactionId), rest))
    }

    /// What stands in its column. Where there is one replica that is the mutation, and before it
    /// the transaction, if it is of one.
    fn to_bytes(&self) -> Cow<'_, [u8]> {
        let mut out = match (self.ballot.is_alone(), self.of) {
            (true, None) => return Cow::Borrowed(&self.mutation.0),
            (true, Some(id)) => id.to_bytes().to_vec(),
            (false, _) => self.head(),
        };
        out.put(&self.mutation.0);
        debug_assert!(
            Proposal::of_bytes(self.ballot, &out).as_ref() == Some(self),
            "one-partition: a proposal is stored as another"
        );
        Cow::Owned(out)
    }

    /// See [`Proposal::to_bytes`].
    fn of_bytes(ballot: Ballot, bytes: &[u8]) -> Option<Proposal> {
        let (since, of, mutation) = match ballot.node {
            ALONE => (None, None, bytes),
            ALONE_HELD => {
                let (id, mutation) = bytes.split_first_chunk::<16>()?;
                (None, Some(TransactionId::of_bytes(id)?), mutation)
            }
            _ => Proposal::split_head(bytes)?,
        };
        debug_assert!(since < Some(ballot), "later-than-promised: {ballot:?} since {since:?}");
        Some(Proposal { ballot, since, of, mutation: FrozenMutation(mutation.into()) })
    }

    /// Whether it changes nothing: it only ends a round.
    pub(crate) fn is_empty(&self) -> bool {
        debug_assert!(self.of.is_none(), "accepted-is-finished: {:?} is undecided", self.of);
        is_empty(&self.mutation)
    }
}

/// What the row of a partition says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) promised: Option<Ballot>,
    pub(crate) accepted: Option<Proposal>,
    /// The last one known to be chosen and applied.
    pub(crate) learned: Option<Ballot>,
}

impl State {
    /// The last ballot that the row names.
    fn last(&self) -> Option<Ballot> {
        let accepted = self.accepted.as_ref().map(|accepted| accepted.ballot);
        debug_assert!(accepted <= self.promised, "promised-first: {accepted:?}");
        self.promised.max(accepted).max(self.learned)
    }

    /// The same, of a partition that a transaction holds in memory.
    pub(crate) fn held(self, claim: Proposal) -> State {
        let State { promised, accepted, learned } = self;
        let last = accepted.map(|accepted| accepted.ballot).max(learned);
        debug_assert!(last < Some(claim.ballot), "held-until-decided: {last:?} after {claim:?}");
        State { promised: promised.max(Some(claim.ballot)), accepted: Some(claim), learned }
    }

    /// The ballot of a round that begins at `now_micros`, of one replica (*later-than-promised*).
    pub(crate) fn next_ballot(&self, now_micros: i64) -> Ballot {
        let last = self.last();
        let after = last.map_or(now_micros, |last| last.micros.saturating_add(1));
        let next = Ballot::alone(now_micros.max(after));
        assert!(last < Some(next), "later-than-promised: {next:?} is not after {last:?}");
        assert!(now_micros <= next.micros, "later-than-promised: {next:?} is before now");
        next
    }

    /// What is to be applied before anything else (*accepted-is-finished*).
    pub(crate) fn unfinished(&self) -> Option<&Proposal> {
        self.accepted.as_ref().filter(|accepted| self.learned < Some(accepted.ballot))
    }

    /// Why a replica does not promise a ballot: one that is as late (*later-than-promised*).
    pub(crate) fn refuses_promise(&self, ballot: Ballot) -> Option<Ballot> {
        self.last().filter(|last| ballot.micros <= last.micros)
    }

    /// Why it does not accept a proposal: a later ballot, or one of the same time, was promised or
    /// chosen.
    ///
    /// A proposal `since` an earlier one, which a majority has accepted and learned, was not
    /// promised: who made both proposes without asking again. It is accepted where nobody else has
    /// come since; a replica that missed the earlier one is as if that came just before.
    pub(crate) fn refuses_proposal(&self, ballot: Ballot, since: Option<Ballot>) -> Option<Ballot> {
        let last = self.promised.max(self.learned)?;
        let is_refused = match since {
            None => last != ballot && ballot.micros <= last.micros,
            Some(since) => since < last,
        };
        is_refused.then_some(last)
    }
}

/// Whether a proposal changes nothing: it only ends a round.
pub(crate) fn is_empty(proposal: &FrozenMutation) -> bool {
    proposal.view().is_ok_and(|view| view.is_empty())
}

/// The table of the states.
pub(crate) fn table(schema: &cluster::Schema) -> Rc<TableEntry> {
    schema.table("system", "paxos").cloned().expect("system.paxos is a system table")
}

/// The row of one partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) table: TableId,
    pub(crate) key: Vec<u8>,
}

/// The clustering key of the rows of a table's partitions.
pub(crate) fn clustering_of(table: TableId) -> Vec<u8> {
    let mut out = Vec::new();
    model::key::push_clustering(table.as_bytes(), &mut out);
    out
}

impl Place {
    fn clustering(&self) -> Vec<u8> {
        clustering_of(self.table)
    }

    /// Remembers a promise.
    pub(crate) fn promise(
        &self,
        paxos: &TableSchema,
        ballot: Ballot,
        kept: Kept,
    ) -> FrozenMutation {
        self.row(paxos, ballot, kept, &[("promise", &ballot.to_bytes())])
    }

    /// Remembers a promise and an accepted proposal of the same ballot: on one copy they are one
    /// step.
    pub(crate) fn accept(
        &self,
        paxos: &TableSchema,
        proposal: &Proposal,
        kept: Kept,
    ) -> FrozenMutation {
        let uuid = proposal.ballot.to_bytes();
        self.check_proposal(&proposal.mutation);
        let bytes = proposal.to_bytes();
        let values: [(&str, &[u8]); 3] =
            [("promise", &uuid), ("proposal", &bytes), ("proposal_ballot", &uuid)];
        self.row(paxos, proposal.ballot, kept, &values)
    }

    /// Asserts that a proposal is of this partition.
    pub(crate) fn check_proposal(&self, proposal: &FrozenMutation) {
        if cfg!(debug_assertions)
            && let Ok(view) = proposal.view()
        {
            let (table, key) = (view.table(), view.key());
            debug_assert!(key == &self.key[..], "one-partition: a proposal of another one");
            debug_assert!(table == self.table || cfg!(test), "one-partition: of another table");
        }
    }

    /// Remembers that the proposal of that ballot is applied.
    pub(crate) fn learn(&self, paxos: &TableSchema, ballot: Ballot, kept: Kept) -> FrozenMutation {
        self.row(paxos, ballot, kept, &[("most_recent_commit_at", &ballot.to_bytes())])
    }

    /// Forgets what was proposed up to that ballot, and no promise: all replicas have learned it.
    pub(crate) fn prune(&self, paxos: &TableSchema, ballot: Ballot) -> FrozenMutation {
        let deletion_time = ballot.micros.div_euclid(1_000_000);
        let dead = Cell::dead(ballot.micros, deletion_time);
        self.cells(paxos, ballot, ["proposal", "proposal_ballot"].map(|name| (name, dead)).to_vec())
    }

    /// Forgets everything up to that ballot.
    pub(crate) fn forget(&self, paxos: &TableSchema, ballot: Ballot) -> FrozenMutation {
        let mut builder = MutationBuilder::new(paxos, &self.key);
        let (timestamp, deletion_time) = (ballot.micros, ballot.micros.div_euclid(1_000_000));
        let mut row = RowBuilder::new(Vec::new());
        row.tombstone(Tombstone { timestamp, deletion_time });
        builder.row(&self.clustering(), &row.finish());
        builder.freeze()
    }

    fn row(
        &self,
        paxos: &TableSchema,
        ballot: Ballot,
        kept: Kept,
        values: &[(&str, &[u8])],
    ) -> FrozenMutation {
        let cell = |value| match kept {
            Kept::Always => Cell::live(ballot.micros, value),
            Kept::Until { expiry, ttl } => Cell::expiring(ballot.micros, value, expiry, ttl),
        };
        let cells = values.iter().map(|(name, value)| (*name, cell(*value))).collect();
        self.cells(paxos, ballot, cells)
    }

    fn cells(
        &self,
        paxos: &TableSchema,
        ballot: Ballot,
        cells: Vec<(&str, Cell<'_>)>,
    ) -> FrozenMutation {
        assert!(0 < ballot.micros, "later-than-promised: a ballot before 1970");
        let id = |name| paxos.column(name).expect("a column of system.paxos").id;
        let mut cells: Vec<(ColumnId, Cell<'_>)> =
            cells.into_iter().map(|(name, cell)| (id(name), cell)).collect();
        cells.sort_by_key(|(id, _)| *id);
        debug_assert!(cells.is_sorted_by(|a, b| a.0 < b.0), "a state has a column twice");
        let mut row = RowBuilder::new(Vec::new());
        cells.into_iter().for_each(|(id, cell)| row.cell(id, cell));
        let mut builder = MutationBuilder::new(paxos, &self.key);
        builder.row(&self.clustering(), &row.finish());
        builder.freeze()
    }
}

/// For how long a replica keeps what it remembers of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Until it is forgotten.
    Always,
    /// Until that second.
    Until { expiry: i64, ttl: i32 },
}

impl Kept {
    /// Of a table with several replicas, at second `now`.
    pub(crate) fn of(table: &TableSchema, now: i64) -> Kept {
        let ttl = table.options.paxos_grace_seconds.unwrap_or(GRACE_SECONDS).max(1);
        debug_assert!(0 < ttl, "promised-first: kept for {ttl} seconds");
        Kept::Until { expiry: now.saturating_add(ttl.into()), ttl }
    }
}

/// The columns of a state, in the order in which they are read.
const COLUMNS: [&str; 4] = ["promise", "proposal", "proposal_ballot", "most_recent_commit_at"];

/// Reads the row of one partition, or all rows where `place` is none.
pub(crate) fn read_command(paxos: &TableSchema, place: Option<&Place>, now: i64) -> ReadCommand {
    let bound = |token, after| RingBound { token, key: None, after };
    let column =
        |name: &&str| (paxos.column(name).expect("a column of system.paxos").id, ColumnForm::Value);
    let (partitions, ranges, bytes_max) = match place {
        Some(place) => (
            Partitions::Key(place.key.clone()),
            vec![SendRange::of_prefix(&place.clustering())],
            usize::MAX,
        ),
        None => (
            Partitions::Range {
                start: bound(model::Token::MIN, false),
                end: bound(model::Token::MAX, true),
            },
            vec![SendRange::full()],
            1 << 20,
        ),
    };
    ReadCommand {
        table: paxos.id,
        partitions,
        ranges,
        reversed: false,
        columns: COLUMNS.iter().map(column).collect(),
        static_count: 0,
        row_limit: u64::MAX,
        per_partition_limit: u64::MAX,
        partition_limit: u64::MAX,
        bytes_max,
        static_only_rows: false,
        tombstone_limit: u64::MAX,
        now,
        bypass_cache: place.is_none(),
        shape: mutation::RowShape::Whole,
        resume: None,
    }
}

/// What a page that answers [`read_command`] says; what is damaged says nothing.
pub(crate) fn states(command: &ReadCommand, page: &Page) -> Vec<(Place, State)> {
    let mut found = Vec::new();
    for partition in PageView::trusted(&page.bytes, command.layout()).partitions() {
        for row in partition.rows() {
            let id = model::key::clustering_components(row.clustering()).next();
            let Some(Ok(id)) = id.map(Uuid::from_slice) else { continue };
            let place = Place { table: id, key: partition.key().to_vec() };
            let mut values = row.columns().map(|column| column.value);
            let mut next = || values.next().flatten();
            let (promise, proposal, ballot, learned) = (next(), next(), next(), next());
            debug_assert!(next().is_none(), "a state has more columns than were read");
            let ballot = ballot.and_then(Ballot::of_bytes);
            let state = State {
                promised: promise.and_then(Ballot::of_bytes),
                accepted: ballot.zip(proposal).and_then(|(at, it)| Proposal::of_bytes(at, it)),
                learned: learned.and_then(Ballot::of_bytes),
            };
            found.push((place, state));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use mutation::compact::{QueryCompactor, Step};

    fn read(paxos: &TableSchema, stored: &FrozenMutation, place: &Place) -> State {
        let command = read_command(paxos, Some(place), 0);
        let mut compactor = QueryCompactor::new(paxos, &command);
        for fragment in stored.view().unwrap().fragments(&paxos.order) {
            if compactor.consume(&fragment) == Step::Stop {
                break;
            }
        }
        let page = compactor.finish();
        states(&command, &page).pop().map(|(_, state)| state).unwrap_or_default()
    }

    #[test]
    fn a_row_goes_from_promise_to_nothing() {
        let paxos = cluster::system_tables::table("system", "paxos");
        let place = Place { table: Uuid::from_u128(7), key: b"key".to_vec() };
        let mutation = place.forget(&paxos, Ballot::alone(3));
        let at = |ballot, since| Proposal { ballot, since, of: None, mutation: mutation.clone() };
        let mut stored = MutationBuilder::new(&paxos, &place.key).freeze();
        let mut add = |one: FrozenMutation| {
            stored = mutation::frozen::merge(&paxos, stored.view().unwrap(), one.view().unwrap());
            read(&paxos, &stored, &place)
        };
        let (first, second) =
            (Ballot::alone(1_700_000_000_000_001), Ballot::alone(1_700_000_000_000_002));
        let state = add(place.accept(&paxos, &at(first, None), Kept::Always));
        assert_eq!(state.promised, Some(first));
        assert_eq!(state.unfinished(), Some(&at(first, None)));
        assert_eq!(state.next_ballot(0), second);
        let state = add(place.learn(&paxos, first, Kept::Always));
        assert_eq!((state.unfinished(), state.learned), (None, Some(first)));
        let state = add(place.accept(&paxos, &at(second, None), Kept::Always));
        assert_eq!(state.unfinished(), Some(&at(second, None)));
        // What is forgotten is not what came later.
        assert_eq!(add(place.forget(&paxos, first)), State { learned: None, ..state });
        assert_eq!(add(place.forget(&paxos, second)), State::default());
    }

    #[test]
    fn a_round_is_later_than_what_was_promised() {
        let check = |promised: Option<i64>, learned: Option<i64>, now: i64, expected: i64| {
            let (promised, learned) = (promised.map(Ballot::alone), learned.map(Ballot::alone));
            let state = State { promised, learned, accepted: None };
            assert_eq!(state.next_ballot(now), Ballot::alone(expected));
        };
        check(None, None, 5, 5);
        check(Some(9), None, 5, 10);
        check(Some(9), Some(12), 5, 13);
        check(Some(9), Some(8), 50, 50);
    }

    #[test]
    fn what_all_have_learned_goes_and_promises_stay() {
        let paxos = cluster::system_tables::table("system", "paxos");
        let place = Place { table: Uuid::from_u128(7), key: b"key".to_vec() };
        let mutation = place.forget(&paxos, Ballot::alone(3));
        let at = |ballot, since| Proposal { ballot, since, of: None, mutation: mutation.clone() };
        let kept = Kept::Until { expiry: 100, ttl: 90 };
        let mut stored = MutationBuilder::new(&paxos, &place.key).freeze();
        let mut add = |one: FrozenMutation| {
            stored = mutation::frozen::merge(&paxos, stored.view().unwrap(), one.view().unwrap());
            read(&paxos, &stored, &place)
        };
        let (first, second) = (Ballot::drawn(10, 77), Ballot::drawn(11, 5));
        let state = add(place.promise(&paxos, first, kept));
        assert_eq!((state.promised, state.unfinished()), (Some(first), None));
        let state = add(place.accept(&paxos, &at(first, None), kept));
        assert_eq!(state.unfinished(), Some(&at(first, None)));
        add(place.promise(&paxos, second, kept));
        add(place.learn(&paxos, first, kept));
        let state = add(place.prune(&paxos, first));
        let expected = State { promised: Some(second), accepted: None, learned: Some(first) };
        assert_eq!(state, expected);
        // What is proposed later is not what was pruned.
        let state = add(place.accept(&paxos, &at(second, Some(first)), kept));
        assert_eq!(state.unfinished(), Some(&at(second, Some(first))));
        assert_eq!(add(place.prune(&paxos, first)), state);
    }

    #[test]
    fn a_replica_promises_what_is_later_and_accepts_what_it_promised() {
        let [early, first, twin, later] =
            [(4, 1), (5, 1), (5, 3), (6, 1)].map(|(micros, node)| Ballot::drawn(micros, node));
        let state = State { promised: Some(first), ..State::default() };
        assert_eq!(state.refuses_promise(later), None);
        for ballot in [early, first, twin] {
            assert_eq!(state.refuses_promise(ballot), Some(first), "{ballot:?}");
        }
        for ballot in [first, later] {
            assert_eq!(state.refuses_proposal(ballot, None), None, "{ballot:?}");
        }
        for ballot in [early, twin] {
            assert_eq!(state.refuses_proposal(ballot, None), Some(first), "{ballot:?}");
        }
        let learned = State { learned: Some(later), ..state.clone() };
        assert_eq!(learned.refuses_promise(later), Some(later));
        assert_eq!(learned.refuses_proposal(first, None), Some(later));
        assert_eq!(State::default().refuses_proposal(early, None), None);
        // Since one that this replica has accepted, or missed; and since one that others came
        // after.
        for since in [first, twin] {
            assert_eq!(state.refuses_proposal(later, Some(since)), None, "{since:?}");
        }
        assert_eq!(state.refuses_proposal(later, Some(early)), Some(first));
        let last = Ballot::drawn(7, 1);
        assert_eq!(learned.refuses_proposal(last, Some(first)), Some(later));
    }

    proptest::proptest! {
        #[test]
        fn ballots_are_their_bytes(micros in 1i64..1 << 52, random: u64, bytes: [u8; 16]) {
            let id = TransactionId::new(micros, random as u32, random.rotate_left(7));
            proptest::prop_assert_eq!(id.bucket(), random as u32);
            proptest::prop_assert_eq!(TransactionId::of_bytes(&id.to_bytes()), Some(id));
            for ballot in [Ballot::alone(micros), Ballot::drawn(micros, random)] {
                proptest::prop_assert_eq!(Ballot::of_bytes(&ballot.to_bytes()), Some(ballot));
            }
            if let Some(ballot) = Ballot::of_bytes(&bytes) {
                proptest::prop_assert_eq!(ballot.to_bytes(), bytes);
            }
        }
    }
}
