//! The Paxos state of a partition on a node: rows of `system.paxos`. Pure.
//!
//! A partition's conditional writes agree, one after the other, on a mutation each. A replica
//! promises a ballot, accepts a proposal of it, and learns that it was chosen. The row of a
//! partition (its key, and its table's id) holds the promise, the last accepted proposal, and the
//! ballot of the last one that was learned; the row's cells have the ballot's time.
//!
//! Invariants
//!  - *later-than-promised*: a round's ballot is later than every ballot that the row names.
//!  - *promised-first*: what was accepted was promised before, at that ballot or a later one.
//!  - *one-partition*: a proposal is a mutation of the partition that it is agreed on for.
//!  - *accepted-is-finished*: an accepted proposal that is not known to be learned is applied
//!    before the next round reads the partition.

use cluster::TableEntry;
use model::value::{timeuuid_from_ticks, timeuuid_ticks};
use model::{ColumnId, TableId, TableSchema, Uuid};
use mutation::cell::CellState;
use mutation::page::{ColumnForm, Page, PageView, Partitions, ReadCommand, RingBound, SendRange};
use mutation::{Cell, FrozenMutation, MutationBuilder, RowBuilder, Tombstone};
use std::rc::Rc;

/// Node bits of ballots: a multicast address, which no network card has.
const NODE: [u8; 8] = [0x80, 0, 1, 0, 0, 0, 0, 0];

/// A ballot: a timeuuid whose time, in microseconds, is the timestamp of what it proposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ballot(i64);

impl Ballot {
    /// The ballot of that time, microseconds since the epoch.
    pub fn at(micros: i64) -> Ballot {
        Ballot(micros)
    }

    /// Microseconds since the epoch.
    pub fn micros(self) -> i64 {
        self.0
    }

    fn to_uuid(self) -> Uuid {
        let uuid = timeuuid_from_ticks(self.0.saturating_mul(10), NODE);
        debug_assert!(
            Ballot::of_bytes(uuid.as_bytes()) == Some(self),
            "later-than-promised: ballot {} is stored as another",
            self.0
        );
        uuid
    }

    fn of_bytes(bytes: &[u8]) -> Option<Ballot> {
        let uuid = Uuid::from_slice(bytes).ok()?;
        Some(Ballot(timeuuid_ticks(&uuid)?.div_euclid(10)))
    }
}

/// What the row of a partition says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) promised: Option<Ballot>,
    pub(crate) accepted: Option<(Ballot, FrozenMutation)>,
    /// The last one known to be chosen and applied.
    pub(crate) learned: Option<Ballot>,
}

impl State {
    /// The ballot of a round that begins at `now_micros` (*later-than-promised*).
    pub(crate) fn next_ballot(&self, now_micros: i64) -> Ballot {
        let accepted = self.accepted.as_ref().map(|(ballot, _)| *ballot);
        debug_assert!(accepted <= self.promised, "promised-first: {accepted:?}");
        let last = self.promised.max(accepted).max(self.learned);
        let next = Ballot(last.map_or(now_micros, |last| now_micros.max(last.0.saturating_add(1))));
        assert!(last < Some(next), "later-than-promised: {next:?} is not after {last:?}");
        assert!(now_micros <= next.0, "later-than-promised: {next:?} is before now");
        next
    }

    /// What is to be applied before anything else (*accepted-is-finished*).
    pub(crate) fn unfinished(&self) -> Option<(Ballot, &FrozenMutation)> {
        let (ballot, mutation) = self.accepted.as_ref()?;
        (self.learned < Some(*ballot)).then_some((*ballot, mutation))
    }
}

/// The table of the states.
pub(crate) fn table(schema: &cluster::Schema) -> Rc<TableEntry> {
    schema.table("system", "paxos").cloned().expect("system.paxos is a system table")
}

/// The row of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) table: TableId,
    pub(crate) key: Vec<u8>,
}

impl Place {
    fn clustering(&self) -> Vec<u8> {
        let mut out = Vec::new();
        model::key::push_clustering(self.table.as_bytes(), &mut out);
        out
    }

    /// Remembers a promise and an accepted proposal of the same ballot: on one copy they are one
    /// step.
    pub(crate) fn accept(
        &self,
        paxos: &TableSchema,
        ballot: Ballot,
        proposal: &FrozenMutation,
    ) -> FrozenMutation {
        let uuid = ballot.to_uuid().into_bytes();
        self.check_proposal(proposal);
        self.row(
            paxos,
            ballot,
            &[("promise", &uuid), ("proposal", &proposal.0), ("proposal_ballot", &uuid)],
        )
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
    pub(crate) fn learn(&self, paxos: &TableSchema, ballot: Ballot) -> FrozenMutation {
        let uuid = ballot.to_uuid().into_bytes();
        self.row(paxos, ballot, &[("most_recent_commit_at", &uuid)])
    }

    /// Forgets everything up to that ballot.
    pub(crate) fn forget(&self, paxos: &TableSchema, ballot: Ballot) -> FrozenMutation {
        let mut builder = MutationBuilder::new(paxos, &self.key);
        let (timestamp, deletion_time) = (ballot.0, ballot.0.div_euclid(1_000_000));
        let mut row = RowBuilder::new(Vec::new());
        row.tombstone(Tombstone { timestamp, deletion_time });
        builder.row(&self.clustering(), &row.finish());
        builder.freeze()
    }

    fn row(&self, paxos: &TableSchema, ballot: Ballot, values: &[(&str, &[u8])]) -> FrozenMutation {
        assert!(0 < ballot.0, "later-than-promised: a ballot before 1970");
        let mut cells: Vec<(ColumnId, &[u8])> = values
            .iter()
            .map(|(name, value)| (paxos.column(name).expect("a column of system.paxos").id, *value))
            .collect();
        cells.sort_by_key(|(id, _)| *id);
        debug_assert!(cells.is_sorted_by(|a, b| a.0 < b.0), "a state has a column twice");
        let mut row = RowBuilder::new(Vec::new());
        for (id, value) in cells {
            row.cell(id, Cell { timestamp: ballot.0, state: CellState::Live { value } });
        }
        let mut builder = MutationBuilder::new(paxos, &self.key);
        builder.row(&self.clustering(), &row.finish());
        builder.freeze()
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
            let proposal = proposal.map(|bytes| FrozenMutation(bytes.into()));
            let state = State {
                promised: promise.and_then(Ballot::of_bytes),
                accepted: ballot.and_then(Ballot::of_bytes).zip(proposal),
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
        let proposal = place.forget(&paxos, Ballot(3));
        let mut stored = MutationBuilder::new(&paxos, &place.key).freeze();
        let mut add = |one: FrozenMutation| {
            stored = mutation::frozen::merge(&paxos, stored.view().unwrap(), one.view().unwrap());
            read(&paxos, &stored, &place)
        };
        let (first, second) = (Ballot(1_700_000_000_000_001), Ballot(1_700_000_000_000_002));
        let state = add(place.accept(&paxos, first, &proposal));
        assert_eq!(state.promised, Some(first));
        assert_eq!(state.unfinished(), Some((first, &proposal)));
        assert_eq!(state.next_ballot(0), second);
        let state = add(place.learn(&paxos, first));
        assert_eq!((state.unfinished(), state.learned), (None, Some(first)));
        let state = add(place.accept(&paxos, second, &proposal));
        assert_eq!(state.unfinished(), Some((second, &proposal)));
        // What is forgotten is not what came later.
        assert_eq!(add(place.forget(&paxos, first)), State { learned: None, ..state });
        assert_eq!(add(place.forget(&paxos, second)), State::default());
    }

    #[test]
    fn a_round_is_later_than_what_was_promised() {
        let check = |promised: Option<i64>, learned: Option<i64>, now: i64, expected: i64| {
            let (promised, learned) = (promised.map(Ballot), learned.map(Ballot));
            let state = State { promised, learned, accepted: None };
            assert_eq!(state.next_ballot(now), Ballot(expected));
        };
        check(None, None, 5, 5);
        check(Some(9), None, 5, 10);
        check(Some(9), Some(12), 5, 13);
        check(Some(9), Some(8), 50, 50);
    }
}
