//! Changes as rows, and back.

use super::naive::{draw, fold};
use crate::group0::rows::{Known, Tables, of_change, read};
use catalog::rows::Row;
use catalog::rows::testing;
use consensus::entry::{Cut, Entry, Kind};
use consensus::traits::{Change, Hard, Loaded};
use consensus::{Members, NodeId};
use model::Uuid;
use mutation::FrozenMutation;
use stdx::prng::Prng;

const GROUP: Uuid = Uuid::from_u128(42);

fn found(tables: &Tables, mutations: &[FrozenMutation]) -> Vec<Row> {
    testing::rows(tables.raft(), mutations)
}

#[test]
fn rows_are_what_a_naive_log_has() {
    let tables = Tables::new();
    for seed in 0..60 {
        let mut random = Prng::from_seed(seed);
        let (mut log, mut known) = (Loaded::default(), Known::default());
        let mut mutations = Vec::new();
        for step in 0..40 {
            let change = draw(&log, 100, &mut random);
            // A clock that is anywhere.
            let timestamp = known.next_timestamp(random.below(1 << 20) as i64);
            let written = of_change(&tables, GROUP, &known, &change, timestamp);
            let (rows, after) = written.expect("a change that fits");
            mutations.extend(rows);
            log = fold(log, &change);
            let told = read(&found(&tables, &mutations));
            assert_eq!(told, Ok((log.clone(), after.clone())), "seed {seed} step {step}");
            known = after;
        }
        // Another group does not see it.
        assert!(!log.entries.is_empty() || log.cut.is_some(), "seed {seed}");
    }
}

#[test]
fn people_see_the_cut_and_its_members() {
    let tables = Tables::new();
    let members = Members {
        learners: vec![NodeId(4)],
        outgoing: vec![NodeId(3)],
        ..Members::alone(NodeId(2))
    };
    let change = |index| {
        let cut = Cut { index, term: 2, members: members.clone() };
        Change { install: Some(cut), ..Change::default() }
    };
    let (mut mutations, known) =
        of_change(&tables, GROUP, &Known::default(), &change(5), 1000).expect("a change");
    mutations.extend(of_change(&tables, GROUP, &known, &change(6), 2000).expect("a change").0);
    let [raft, snapshots, config] = tables.all().map(|table| testing::rows(table, &mutations));
    assert_eq!((raft.len(), snapshots.len(), config.len()), (1, 1, 3));
    assert_eq!(snapshots[0]["idx"], 6i64.to_be_bytes());
    assert_eq!(snapshots[0]["snapshot_id"], raft[0]["snapshot_id"]);
    let shown = config.iter().map(|row| {
        let node = row["server_id"][15];
        (String::from_utf8_lossy(&row["disposition"]).into_owned(), node, row["can_vote"] == [1])
    });
    let mut shown: Vec<_> = shown.collect();
    shown.sort();
    let row = |disposition: &str, node, votes| (disposition.to_owned(), node, votes);
    let expected = [row("CURRENT", 2, true), row("CURRENT", 4, false), row("PREVIOUS", 3, true)];
    assert_eq!(shown, expected);
}

/// Rows of a log with a cut at 4, and entries 5 to 7.
fn some_rows() -> Vec<Row> {
    let tables = Tables::new();
    let members = Members { learners: vec![NodeId(9)], ..Members::alone(NodeId(8)) };
    let data = vec![1, 0, 0, 0, 0, 0, 0, 0, 0, 5];
    let entry =
        |index| Entry { index, term: 3, kind: Kind::Members, origin: vec![], data: data.clone() };
    let change = Change {
        staged: Some(Cut { index: 9, term: 3, members: members.clone() }),
        install: Some(Cut { index: 4, term: 2, members }),
        entries: (5..=7).map(entry).collect(),
        hard: Some(Hard { term: 3, vote: 8, commit: 6 }),
        cut: None,
    };
    let written = of_change(&tables, GROUP, &Known::default(), &change, 1000);
    found(&tables, &written.expect("a change that fits").0)
}

fn all(rows: &mut [Row], name: &str, value: &[u8]) {
    rows.iter_mut().for_each(|row| drop(row.insert(name.to_owned(), value.to_vec())));
}

fn check(spoil: fn(&mut Vec<Row>), expected: &str) {
    let mut rows = some_rows();
    assert!(read(&rows).is_ok());
    spoil(&mut rows);
    let told = read(&rows).map_err(|damage| damage.to_string());
    assert_eq!(told.map(drop), Err(expected.to_owned()));
}

#[test]
fn damaged_entries_are_told_with_their_place() {
    check(
        |rows| drop(rows.remove(1)),
        "system.raft is damaged: index 7 follows 5: there is a gap, or what was cut",
    );
    check(
        |rows| drop(rows.pop()),
        "system.raft is damaged: the entries end at 6, and last_idx is 7",
    );
    check(|rows| drop(rows[2].remove("term")), "system.raft is damaged: index 7: no term");
    check(
        |rows| all(&mut rows[..1], "kind", b"x"),
        "system.raft is damaged: index 5: kind is none that there is",
    );
    check(
        |rows| all(&mut rows[..1], "data", &[1, 9]),
        "system.raft is damaged: index 5: who moves at offset 2",
    );
}

#[test]
fn damage_is_told_with_table_and_place() {
    check(
        |rows| all(rows, "snapshot_id", &[1; 16]),
        "system.raft is damaged: the static columns: snapshot_id is not that of snapshot",
    );
    check(
        |rows| rows.iter_mut().for_each(|row| drop(row.remove("snapshot"))),
        "system.raft is damaged: the static columns: snapshot_id is not that of snapshot",
    );
    check(
        |rows| all(rows, "staged", &[0; 4]),
        "system.raft is damaged: the static columns: staged: the index of a cut at offset 0",
    );
    check(
        |rows| all(rows, "changed_at", &[255; 8]),
        "system.raft is damaged: the static columns: changed_at is -1, which is no time",
    );
    check(
        |rows| all(rows, "vote", &[1; 16]),
        "system.raft is damaged: the static columns: vote is no node's number",
    );
}

/// Foreign rows are a log, or damage; never a panic.
#[test]
fn any_rows_are_a_log_or_damage() {
    let names = [
        "index",
        "term",
        "kind",
        "origin",
        "data",
        "changed_at",
        "last_idx",
        "vote",
        "vote_term",
        "commit_idx",
        "snapshot_id",
        "idx",
        "auto_leave",
        "staged",
        "disposition",
        "server_id",
        "can_vote",
        "becomes_learner",
    ];
    let mut random = Prng::from_seed(5);
    let mut damaged = 0;
    for _ in 0..5000 {
        let mut table = SOME.with(Vec::clone);
        let row = random.below(table.len() as u64) as usize;
        let name = *random.pick(&names).expect("a name");
        match (random.below(4), table[row].get_mut(name)) {
            (0, _) => drop(table.remove(row)),
            (1, _) => drop(table[row].remove(name)),
            (2, Some(bytes)) => bytes.truncate(random.below(9) as usize),
            (_, Some(bytes)) if !bytes.is_empty() => {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << random.below(8);
            }
            _ => drop(table[row].insert(name.to_owned(), vec![random.next_u64() as u8])),
        }
        damaged += u32::from(read(&table).is_err());
    }
    assert!(1000 < damaged, "{damaged}");
}

thread_local! {
    static SOME: Vec<Row> = some_rows();
}

#[test]
fn an_index_beyond_all_is_refused() {
    let tables = Tables::new();
    let cut = Cut { index: i64::MAX as u64, term: 1, members: Members::alone(NodeId(1)) };
    let change = Change { install: Some(cut), ..Change::default() };
    let told = of_change(&tables, GROUP, &Known::default(), &change, 1000).err();
    let expected = "system.raft: there is no place for an entry of index 9223372036854775807";
    assert_eq!(told.as_deref(), Some(expected));
}

#[test]
#[should_panic(expected = "no-gap: 3 after 0 to 0")]
fn an_entry_after_a_gap_is_not_written() {
    let entry = Entry { index: 3, term: 1, kind: Kind::Command, origin: vec![], data: vec![] };
    let change = Change { entries: vec![entry], ..Change::default() };
    let _ = of_change(&Tables::new(), GROUP, &Known::default(), &change, 1000);
}

#[test]
#[should_panic(expected = "timestamps-grow: 6 after 6")]
fn a_change_of_an_earlier_time_is_not_written() {
    let known = Known { timestamp: 6, ..Known::default() };
    let _ = of_change(&Tables::new(), GROUP, &known, &Change::default(), 7);
}
