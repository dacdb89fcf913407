//! The log of group 0 as rows: what a change writes, and what the rows that were found say. Pure.
//!
//! Three tables with the names and columns that ScyllaDB's users know, one partition for each group
//! in each: `system.raft` has entries as rows, and term, vote and commit index as static columns;
//! `system.raft_snapshots` has the cut, and what is staged; `system.raft_snapshot_config` has the
//! members at the cut. A node's number is there as a UUID whose lower half it is.
//!
//! Invariants
//!  - *timestamps-grow*: each change is written later than all before, and deletes at a time
//!    between those and its own. So a deletion covers what was there, and never what is written
//!    with it or after it, at the same place too. The last timestamp is kept with what it wrote;
//!    the clock may go back.
//!  - *no-gap*: entries follow the cut and each other by one, up to the last that the table names.
//!  - *one-cut*: all three tables are of one cut: the name that two of them have for it tells its
//!    place, and a checksum of all of it.
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
pub(super) const SNAPSHOTS: &str = "raft_snapshots";
pub(super) const CONFIG: &str = "raft_snapshot_config";

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

    /// All of them.
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
    raft.statics(statics(&after, change.hard, is_cut));
    let mut mutations = vec![raft.freeze()];
    if is_cut {
        mutations.push(config(tables, group, &after, timestamp));
    }
    if is_cut || known.has_staged || change.staged.is_some() {
        mutations.push(snapshots(tables, group, &after, change.staged.as_ref()));
    }
    let deleted = timestamp - 1;
    assert!(known.timestamp < deleted, "timestamps-grow: {deleted} after {}", known.timestamp);
    Ok((mutations, after))
}

/// A change of nothing but the last timestamp, which is durable after all before it.
pub(super) fn of_nothing(
    tables: &Tables,
    group: Uuid,
    known: &Known,
    timestamp: i64,
) -> (FrozenMutation, Known) {
    let last = known.timestamp;
    assert!(last < timestamp, "timestamps-grow: {timestamp} after {last}");
    let mut raft = PartitionWriter::new(&tables.raft, &[group.as_bytes()], timestamp);
    let after = Known { timestamp, ..known.clone() };
    raft.statics(statics(&after, None, false));
    (raft.freeze(), after)
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

/// What the tables call a cut (*one-cut*).
fn snapshot_id(cut: &Cut) -> Uuid {
    let mut bytes = Vec::new();
    cut.encode(&mut bytes);
    Uuid::from_u64_pair(cut.index, checksum::crc32(&bytes).into())
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

fn statics(after: &Known, hard: Option<Hard>, is_cut: bool) -> Cells<'static> {
    let cut = after.cut.as_ref().filter(|_| is_cut);
    vec![
        ("changed_at", bigint(after.timestamp)),
        ("last_idx", number(after.last)),
        ("snapshot_id", cut.and_then(|cut| uuid(snapshot_id(cut)))),
        ("vote_term", hard.and_then(|hard| number(hard.term))),
        ("vote", hard.and_then(|hard| uuid(server_id(NodeId(hard.vote))))),
        ("commit_idx", hard.and_then(|hard| number(hard.commit))),
    ]
}

/// The members at the cut, instead of those before.
fn config(tables: &Tables, group: Uuid, after: &Known, timestamp: i64) -> FrozenMutation {
    let mut config = PartitionWriter::new(&tables.config, &[group.as_bytes()], timestamp);
    config.delete_rows(&[]);
    let members = after.cut.iter().map(|cut| &cut.members);
    for Members { voters, learners, outgoing, learners_next, auto_leave: _ } in members {
        let mut put = |disposition: &str, node: &NodeId, cells| {
            let id = server_id(*node);
            config.row(&[disposition.as_bytes(), id.as_bytes()], cells);
        };
        voters.iter().for_each(|node| put(CURRENT, node, vec![("can_vote", boolean(true))]));
        learners.iter().for_each(|node| put(CURRENT, node, vec![("can_vote", boolean(false))]));
        for node in outgoing {
            let becomes_learner = boolean(learners_next.contains(node));
            let cells = vec![("can_vote", boolean(true)), ("becomes_learner", becomes_learner)];
            put(PREVIOUS, node, cells);
        }
    }
    config.freeze()
}

/// The cut and what is staged, instead of those before.
fn snapshots(tables: &Tables, group: Uuid, after: &Known, staged: Option<&Cut>) -> FrozenMutation {
    debug_assert_eq!(after.has_staged, staged.is_some(), "one-cut: what is staged");
    let timestamp = after.timestamp;
    let mut snapshots = PartitionWriter::new(&tables.snapshots, &[group.as_bytes()], timestamp);
    snapshots.delete_rows(&[]);
    let mut cells = Vec::new();
    if let Some(cut) = &after.cut {
        cells.extend([
            ("snapshot_id", uuid(snapshot_id(cut))),
            ("idx", number(cut.index)),
            ("term", number(cut.term)),
            ("auto_leave", boolean(cut.members.auto_leave)),
        ]);
    }
    if let Some(staged) = staged {
        let mut bytes = Vec::new();
        staged.encode(&mut bytes);
        cells.push(("staged", Some(Value::Atomic(bytes))));
    }
    if !cells.is_empty() {
        snapshots.row(&[], cells);
    }
    snapshots.freeze()
}

/// The rows of a group, as they were found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) raft: Vec<Row>,
    pub(super) snapshots: Vec<Row>,
    pub(super) config: Vec<Row>,
}

/// What the rows say.
pub(super) fn read(found: &Found) -> Result<(Loaded, Known), DamagedSchema> {
    let Some(first) = found.raft.first() else {
        let others = [(SNAPSHOTS, &found.snapshots), (CONFIG, &found.config)];
        return match others.iter().find(|(_, rows)| !rows.is_empty()) {
            Some((other, _)) => {
                Err(damaged(RAFT, format!("it has nothing of a group that system.{other} has")))
            }
            None => Ok(Default::default()),
        };
    };
    let statics = Fields { table: RAFT, place: "the static columns".to_owned(), row: first };
    let timestamp = statics.number("changed_at")? as i64;
    if !(0..=TIMESTAMP_MAX).contains(&timestamp) {
        return Err(statics.damaged(format!("changed_at is {timestamp}, which is no time")));
    }
    let (cut, staged) = read_snapshot(&found.snapshots, &found.config)?;
    let named = statics.optional_uuid("snapshot_id")?;
    let there = cut.as_ref().map(snapshot_id);
    if named != there {
        let show = |id: Option<Uuid>| id.map_or_else(|| "none".to_owned(), |id| id.to_string());
        let (named, there) = (show(named), show(there));
        let what = format!("snapshot_id is {named}, and system.{SNAPSHOTS} has {there}");
        return Err(statics.damaged(what));
    }
    let begin = cut.as_ref().map_or(0, |cut| cut.index);
    let entries = read_entries(&found.raft, begin, statics.number("last_idx")?)?;
    let last = begin + entries.len() as u64;
    let known = Known { timestamp, cut: cut.clone(), has_staged: staged.is_some(), last };
    Ok((Loaded { hard: read_hard(&statics)?, cut, staged, entries }, known))
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
        let index = Fields { table: RAFT, place, row }.number("index")?;
        if index != end + 1 {
            let what = format!("index {index} follows {end}: there is a gap, or what was cut");
            return Err(damaged(RAFT, what));
        }
        let fields = Fields { table: RAFT, place: format!("index {index}"), row };
        entries.push(read_entry(&fields, index)?);
        end = index;
    }
    if end != last {
        let what = format!("the entries end at {end}, and last_idx is {last}");
        return Err(damaged(RAFT, what));
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

/// The cut, and what is staged.
fn read_snapshot(
    snapshots: &[Row],
    config: &[Row],
) -> Result<(Option<Cut>, Option<Cut>), DamagedSchema> {
    let Some(row) = snapshots.first() else {
        return match config.is_empty() {
            true => Ok((None, None)),
            false => Err(damaged(SNAPSHOTS, "it has nothing of a group that has members")),
        };
    };
    let fields = Fields { table: SNAPSHOTS, place: "its row".to_owned(), row };
    let decode = |bytes: &[u8]| {
        let mut cursor = Cursor::new(bytes);
        let cut = Cut::decode(&mut cursor)?;
        let is_whole = cursor.is_empty() && cut.index < i64::MAX as u64;
        is_whole.then_some(cut).ok_or_else(|| cursor.damaged("what is no cut"))
    };
    let staged = fields.row.get("staged").map(|bytes| decode(bytes)).transpose();
    let staged = staged.map_err(|damage| fields.damaged(format!("staged: {damage}")))?;
    let Some(id) = fields.optional_uuid("snapshot_id")? else {
        return match config.is_empty() {
            true => Ok((None, staged)),
            false => Err(fields.damaged("no snapshot_id, and there are members")),
        };
    };
    let members = read_members(config, fields.bytes("auto_leave")? == [1])?;
    let cut = Cut { index: fields.number("idx")?, term: fields.number("term")?, members };
    if !(1..i64::MAX as u64).contains(&cut.index) || cut.term == 0 {
        return Err(fields.damaged("idx and term are those of no entry"));
    }
    if snapshot_id(&cut) != id {
        let what = format!("{id} is not of idx and term and the members of system.{CONFIG}");
        return Err(fields.damaged(what));
    }
    Ok((Some(cut), staged))
}

fn read_members(config: &[Row], auto_leave: bool) -> Result<Members, DamagedSchema> {
    let mut members = Members { auto_leave, ..Members::default() };
    for row in config {
        let fields = Fields { table: CONFIG, place: "a row".to_owned(), row };
        let (high, number) = fields.uuid("server_id")?.as_u64_pair();
        let place = format!("server_id {}", Uuid::from_u64_pair(high, number));
        let fields = Fields { place, ..fields };
        if high != 0 || number == 0 {
            return Err(fields.damaged("it is no node's number"));
        }
        let flag = |name| Ok(fields.bytes(name)? == [1]);
        match (fields.bytes("disposition")?, flag("can_vote")?) {
            (b"CURRENT", true) => members.voters.push(NodeId(number)),
            (b"CURRENT", false) => members.learners.push(NodeId(number)),
            (b"PREVIOUS", true) => {
                members.outgoing.push(NodeId(number));
                if flag("becomes_learner")? {
                    members.learners_next.push(NodeId(number));
                }
            }
            _ => return Err(fields.damaged("its disposition is none that there is")),
        }
    }
    let Members { voters, learners, outgoing, learners_next, auto_leave: _ } = &mut members;
    [voters, learners, outgoing, learners_next].into_iter().for_each(|list| list.sort());
    Ok(members)
}

fn damaged(table: &str, what: impl ToString) -> DamagedSchema {
    DamagedSchema { table: format!("system.{table}"), what: what.to_string() }
}

/// A row of a table, and what to call it.
struct Fields<'r> {
    table: &'static str,
    place: String,
    row: &'r Row,
}

impl Fields<'_> {
    fn damaged(&self, what: impl ToString) -> DamagedSchema {
        damaged(self.table, format!("{}: {}", self.place, what.to_string()))
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

    fn optional_uuid(&self, name: &str) -> Result<Option<Uuid>, DamagedSchema> {
        self.row.contains_key(name).then(|| self.uuid(name)).transpose()
    }
}
