//! The log of group 0 as rows: what a change writes, and what the rows that were found say. Pure.
//!
//! Tables with the names and columns that ScyllaDB's users know, one partition for each group in
//! each: `system.raft` has entries as rows, and all else as static columns. What is in
//! `system.raft_snapshots` and `system.raft_snapshot_config` says the same of the cut and its
//! members for people, and is not read back. A node's number is there as a UUID whose lower half it
//! is.
//!
//! Invariants
//!  - *timestamps-grow*: each change is written later than all before, and deletes at a time
//!    between those and its own. So a deletion covers what was there, and never what is written
//!    with it or after it, at the same place too. The last timestamp is kept with what it wrote;
//!    the clock may go back.
//!  - *no-gap*: entries follow the cut and each other by one, up to the last that the table names.
//!  - *one-partition*: all that is read back is in one partition, and a change is one mutation of
//!    it. So it is whole also where the log cannot be written and tables are flushed one by one.
//!  - *named-cut*: the name of the cut tells its place, and a checksum of all of it.
//!  - *places-fit*: an index is a bigint, whose order is that of entries.
//!
//! Garbage: an append deletes nothing. What a cut deletes is all from the beginning, so each
//! deletion replaces that of the cut before, and those of replaced entries below it. With the
//! tables' `gc_grace_seconds` of 0 a merge of SSTables forgets also the last.

use catalog::rows::partition::{Cells, PartitionWriter, Value, bigint, boolean, text, uuid};
use catalog::rows::{DamagedSchema, Row};
use catalog::system_tables;
use consensus::entry::{Cut, Entry, Kind};
use consensus::traits::{Change, Hard, Loaded};
use consensus::{Members, NodeId};
use model::{TableSchema, Uuid};
use mutation::FrozenMutation;
use stdx::{Cursor, checksum};

pub(super) const RAFT: &str = "raft";
const SNAPSHOTS: &str = "raft_snapshots";
const CONFIG: &str = "raft_snapshot_config";

/// The members, and those before while the voters change.
const CURRENT: &str = "CURRENT";
const PREVIOUS: &str = "PREVIOUS";

/// Later ones are damage: there is no year of them, and nothing could come after them.
const TIMESTAMP_MAX: i64 = i64::MAX / 2;

/// The tables.
pub(super) struct Tables {
    raft: TableSchema,
    snapshots: TableSchema,
    config: TableSchema,
}

impl Tables {
    pub(super) fn new() -> Tables {
        let [raft, snapshots, config] =
            [RAFT, SNAPSHOTS, CONFIG].map(|name| system_tables::table("system", name));
        Tables { raft, snapshots, config }
    }

    /// The one that is read back.
    pub(super) fn raft(&self) -> &TableSchema {
        &self.raft
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> [&TableSchema; 3] {
        [&self.raft, &self.snapshots, &self.config]
    }
}

/// What the next change needs to know of those before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// Of the last change, in microseconds; 0 before the first.
    pub(super) timestamp: i64,
    pub(super) cut: Option<Cut>,
    pub(super) has_staged: bool,
    /// The last entry; the cut, where there is none after it.
    pub(super) last: u64,
}

impl Known {
    /// The timestamp of the next change, by a clock that may have gone back.
    pub(super) fn next_timestamp(&self, clock_micros: i64) -> i64 {
        clock_micros.max(self.timestamp + 2)
    }

    fn begin(&self) -> u64 {
        self.cut.as_ref().map_or(0, |cut| cut.index)
    }
}

/// The rows of a change at `timestamp`, and what is known then. An error: it cannot be written.
pub(super) fn of_change(
    tables: &Tables,
    group: Uuid,
    known: &Known,
    change: &Change,
    timestamp: i64,
) -> Result<(Vec<FrozenMutation>, Known), String> {
    check_places(change)?;
    let mut raft = PartitionWriter::new(&tables.raft, &[group.as_bytes()], timestamp);
    let mut after = Known { timestamp, has_staged: change.staged.is_some(), ..known.clone() };
    if let Some(cut) = &change.install {
        let (begin, index) = (known.begin(), cut.index);
        assert!(begin <= index, "no-gap: {index} is installed over a cut at {begin}");
        raft.delete_between(None, None);
        (after.cut, after.last) = (Some(cut.clone()), index);
    }
    if let [first, .., last] | [first @ last] = &change.entries[..] {
        let (begin, end) = (after.begin(), after.last);
        let follows = begin < first.index && first.index <= end + 1;
        assert!(follows, "no-gap: {} after {begin} to {end}", first.index);
        let indices = change.entries.iter().map(|entry| entry.index);
        assert!(indices.eq(first.index..=last.index), "no-gap: from {}", first.index);
        if first.index <= end {
            raft.delete_between(Some(&[&index_bytes(first.index)]), None);
        }
        after.last = last.index;
    }
    if let Some(cut) = &change.cut {
        let (begin, end, index) = (after.begin(), after.last, cut.index);
        assert!(begin <= index && index <= end, "no-gap: cut at {index} of {begin} to {end}");
        raft.delete_between(None, Some(&[&index_bytes(index)]));
        after.cut = Some(cut.clone());
    }
    let stay = change.entries.iter().filter(|entry| after.begin() < entry.index);
    stay.for_each(|entry| put_entry(&mut raft, entry));
    let is_cut = change.install.is_some() || change.cut.is_some();
    raft.statics(statics(&after, change.hard));
    if is_cut {
        raft.statics(statics_of_cut(&after));
    }
    if known.has_staged || after.has_staged {
        let bytes = change.staged.as_ref().map(cut_bytes).unwrap_or_default();
        raft.statics(vec![("staged", Some(Value::Atomic(bytes)))]);
    }
    let mut mutations = vec![raft.freeze()];
    if let Some(cut) = after.cut.as_ref().filter(|_| is_cut) {
        mutations.push(snapshot_row(tables, group, cut, timestamp));
        mutations.push(config(tables, group, cut, timestamp));
    }
    let deleted = timestamp - 1;
    assert!(known.timestamp < deleted, "timestamps-grow: {deleted} after {}", known.timestamp);
    Ok((mutations, after))
}

fn check_places(change: &Change) -> Result<(), String> {
    let cuts = [&change.staged, &change.install, &change.cut];
    let cuts = cuts.into_iter().flatten().map(|cut| cut.index);
    let most = cuts.chain(change.entries.last().map(|entry| entry.index)).max().unwrap_or(0);
    match i64::try_from(most) {
        Ok(i64::MAX) | Err(_) => {
            Err(format!("system.{RAFT}: there is no place for an entry of index {most}"))
        }
        Ok(_) => Ok(()),
    }
}

/// As a bigint. Those of terms may be anything: their order is never asked for.
fn number(value: u64) -> Option<Value> {
    bigint(value as i64)
}

fn index_bytes(index: u64) -> [u8; 8] {
    debug_assert!(index < i64::MAX as u64, "places-fit: {index}");
    index.to_be_bytes()
}

/// A node's number as a UUID.
fn server_id(node: NodeId) -> Uuid {
    Uuid::from_u64_pair(0, node.0)
}

fn cut_bytes(cut: &Cut) -> Vec<u8> {
    let mut bytes = Vec::new();
    cut.encode(&mut bytes);
    debug_assert!(Cut::decode(&mut Cursor::new(&bytes)).as_ref() == Ok(cut), "named-cut: {cut:?}");
    bytes
}

/// What the tables call a cut (*named-cut*).
fn snapshot_id(cut: &Cut) -> Uuid {
    Uuid::from_u64_pair(cut.index, checksum::crc32(&cut_bytes(cut)).into())
}

fn put_entry(raft: &mut PartitionWriter<'_>, entry: &Entry) {
    let kind = match entry.kind {
        Kind::Command => "command",
        Kind::Members => "members",
    };
    let cells = vec![
        ("term", number(entry.term)),
        ("kind", text(kind)),
        ("origin", Some(Value::Atomic(entry.origin.clone()))),
        ("data", Some(Value::Atomic(entry.data.clone()))),
    ];
    raft.row(&[&index_bytes(entry.index)], cells);
}

fn statics(after: &Known, hard: Option<Hard>) -> Cells<'static> {
    vec![
        ("changed_at", bigint(after.timestamp)),
        ("last_idx", number(after.last)),
        ("vote_term", hard.and_then(|hard| number(hard.term))),
        ("vote", hard.and_then(|hard| uuid(server_id(NodeId(hard.vote))))),
        ("commit_idx", hard.and_then(|hard| number(hard.commit))),
    ]
}

fn statics_of_cut(after: &Known) -> Cells<'static> {
    let cut = after.cut.as_ref();
    assert!(cut.is_some(), "named-cut: the log was cut, and begins nowhere");
    vec![
        ("snapshot_id", cut.and_then(|cut| uuid(snapshot_id(cut)))),
        ("snapshot", cut.map(|cut| Value::Atomic(cut_bytes(cut)))),
    ]
}

fn snapshot_row(tables: &Tables, group: Uuid, cut: &Cut, timestamp: i64) -> FrozenMutation {
    let mut row = PartitionWriter::new(&tables.snapshots, &[group.as_bytes()], timestamp);
    let cells = vec![
        ("snapshot_id", uuid(snapshot_id(cut))),
        ("idx", number(cut.index)),
        ("term", number(cut.term)),
    ];
    row.row(&[], cells);
    row.freeze()
}

/// The members at the cut, instead of those before.
fn config(tables: &Tables, group: Uuid, cut: &Cut, timestamp: i64) -> FrozenMutation {
    let mut config = PartitionWriter::new(&tables.config, &[group.as_bytes()], timestamp);
    config.delete_rows(&[]);
    let Members { voters, learners, outgoing, .. } = &cut.members;
    assert!(!voters.is_empty(), "named-cut: nobody votes at {}", cut.index);
    for (disposition, nodes, votes) in
        [(CURRENT, voters, true), (CURRENT, learners, false), (PREVIOUS, outgoing, true)]
    {
        for node in nodes {
            let id = server_id(*node);
            let cells = vec![("can_vote", boolean(votes))];
            config.row(&[disposition.as_bytes(), id.as_bytes()], cells);
        }
    }
    config.freeze()
}

/// What the rows of `system.raft` say.
pub(super) fn read(rows: &[Row]) -> Result<(Loaded, Known), DamagedSchema> {
    let Some(first) = rows.first() else { return Ok(Default::default()) };
    let statics = Fields { place: "the static columns".to_owned(), row: first };
    let timestamp = statics.number("changed_at")? as i64;
    if !(0..=TIMESTAMP_MAX).contains(&timestamp) {
        return Err(statics.damaged(format!("changed_at is {timestamp}, which is no time")));
    }
    let cut = read_cut(&statics, "snapshot")?;
    let named = statics.row.contains_key("snapshot_id").then(|| statics.uuid("snapshot_id"));
    if named.transpose()? != cut.as_ref().map(snapshot_id) {
        return Err(statics.damaged("snapshot_id is not that of snapshot"));
    }
    let staged = read_cut(&statics, "staged")?;
    let begin = cut.as_ref().map_or(0, |cut| cut.index);
    let entries = read_entries(rows, begin, statics.number("last_idx")?)?;
    let last = begin + entries.len() as u64;
    let known = Known { timestamp, cut: cut.clone(), has_staged: staged.is_some(), last };
    Ok((Loaded { hard: read_hard(&statics)?, cut, staged, entries }, known))
}

fn read_cut(statics: &Fields<'_>, name: &str) -> Result<Option<Cut>, DamagedSchema> {
    let found = statics.row.get(name).filter(|bytes| !bytes.is_empty());
    let Some(bytes) = found else { return Ok(None) };
    let mut cursor = Cursor::new(bytes);
    let cut = Cut::decode(&mut cursor);
    let cut = cut.map_err(|damage| statics.damaged(format!("{name}: {damage}")))?;
    match cursor.is_empty() && cut.index < i64::MAX as u64 {
        true => Ok(Some(cut)),
        false => Err(statics.damaged(format!("{name} is more than a cut"))),
    }
}

fn read_hard(statics: &Fields<'_>) -> Result<Hard, DamagedSchema> {
    let names = ["vote_term", "vote", "commit_idx"];
    if names.iter().all(|name| !statics.row.contains_key(*name)) {
        return Ok(Hard::default());
    }
    let (high, vote) = statics.uuid("vote")?.as_u64_pair();
    if high != 0 {
        return Err(statics.damaged("vote is no node's number"));
    }
    let (term, commit) = (statics.number("vote_term")?, statics.number("commit_idx")?);
    Ok(Hard { term, vote, commit })
}

/// The entries after `begin`, up to `last`.
fn read_entries(rows: &[Row], begin: u64, last: u64) -> Result<Vec<Entry>, DamagedSchema> {
    let mut entries = Vec::with_capacity(rows.len());
    let mut end = begin;
    for row in rows.iter().filter(|row| row.contains_key("index")) {
        let place = format!("after the entry of index {end}");
        let index = Fields { place, row }.number("index")?;
        if index != end + 1 {
            let what = format!("index {index} follows {end}: there is a gap, or what was cut");
            return Err(damaged(what));
        }
        let fields = Fields { place: format!("index {index}"), row };
        entries.push(read_entry(&fields, index)?);
        end = index;
    }
    if end != last {
        let what = format!("the entries end at {end}, and last_idx is {last}");
        return Err(damaged(what));
    }
    Ok(entries)
}

fn read_entry(fields: &Fields<'_>, index: u64) -> Result<Entry, DamagedSchema> {
    let kind = match fields.bytes("kind")? {
        b"command" => Kind::Command,
        b"members" => Kind::Members,
        _ => return Err(fields.damaged("kind is none that there is")),
    };
    let (origin, data) = (fields.bytes("origin")?.to_vec(), fields.bytes("data")?.to_vec());
    let entry = Entry { index, term: fields.number("term")?, kind, origin, data };
    if kind == Kind::Members {
        // Checked as those of peers are.
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        Entry::decode(&mut Cursor::new(&bytes)).map_err(|damage| fields.damaged(damage))?;
    }
    Ok(entry)
}

fn damaged(what: impl ToString) -> DamagedSchema {
    DamagedSchema { table: format!("system.{RAFT}"), what: what.to_string() }
}

/// A row, and what to call it.
struct Fields<'r> {
    place: String,
    row: &'r Row,
}

impl Fields<'_> {
    fn damaged(&self, what: impl ToString) -> DamagedSchema {
        damaged(format!("{}: {}", self.place, what.to_string()))
    }

    fn bytes(&self, name: &str) -> Result<&[u8], DamagedSchema> {
        let found = self.row.get(name).map(Vec::as_slice);
        found.ok_or_else(|| self.damaged(format!("no {name}")))
    }

    fn number(&self, name: &str) -> Result<u64, DamagedSchema> {
        let bytes = self.bytes(name)?.try_into();
        bytes.map(u64::from_be_bytes).map_err(|_| self.damaged(format!("{name} is no bigint")))
    }

    fn uuid(&self, name: &str) -> Result<Uuid, DamagedSchema> {
        let id = Uuid::from_slice(self.bytes(name)?);
        id.map_err(|_| self.damaged(format!("{name} is no UUID")))
    }
}
