//! Registers that clients set and delete, each time by a later number, which is the timestamp, too.
//!
//! Invariants
//!  - *acknowledged-is-read*, *never-back*: a read at QUORUM sees what was acknowledged, or read,
//!    before it began, or what is later.
//!  - *deleted-stays*: nothing is read that a deletion covers which was acknowledged, or seen.
//!  - *truncated-stays*: nothing is read that was acknowledged a second before a truncation began
//!    which ended well: by then all replicas have it that were there.
//!  - *written-once*: nothing is read that nobody wrote.

use super::world::SECOND;
use cluster::{Cluster, TableEntry};
use mutation::page::Partitions;
use mutation::{FrozenMutation, MutationBuilder, RowBuilder, Tombstone};
use replication::{Consistency, Coordinator, ReadOptions, WriteKind, WriteOptions};
use runtime::time::{Instant, sleep, wall_micros};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use testkit::config::entry;
use testkit::rows;

pub(super) const KEYS: i32 = 16;
/// One of a ring and one with tablets; the keyspace of each has its name.
pub(super) const TABLES: [&str; 2] = ["ring", "tablets"];
const QUORUM: Consistency = Consistency::Quorum;

/// What is known of a register.
#[derive(Clone, Debug, Default)]
struct Register {
    /// What was acknowledged, or seen, or what is later.
    floor: i32,
    written: BTreeSet<i32>,
    deletions: BTreeSet<i32>,
    /// And when.
    acknowledged: BTreeMap<i32, Instant>,
    truncated: BTreeSet<i32>,
}

impl Register {
    /// The number of what a read has found that began when the floor was `floor`: of the value,
    /// or of the first deletion that may be why there is none.
    fn number_of(&self, found: Option<i32>, floor: i32) -> Result<i32, String> {
        match found {
            Some(value) if !self.written.contains(&value) => Err(format!("written-once: {value}")),
            Some(value) if self.truncated.contains(&value) => {
                Err(format!("truncated-stays: {value}"))
            }
            Some(value) if floor <= value => Ok(value),
            Some(value) => match self.deletions.range(value..=floor).next() {
                Some(deletion) => Err(format!("deleted-stays: {value} after deletion {deletion}")),
                None => Err(format!("acknowledged-is-read, never-back: {value} after {floor}")),
            },
            None if floor == 0 => Ok(0),
            None => match self.deletions.range(floor..).next() {
                Some(deletion) => Ok(*deletion),
                None => Err(format!("acknowledged-is-read: nothing after {floor}")),
            },
        }
    }
}

/// All registers, and what is wrong with them.
#[derive(Default)]
pub(super) struct Registers {
    next: Cell<i32>,
    pub(super) quiet: Cell<bool>,
    known: RefCell<BTreeMap<(&'static str, i32), Register>>,
    /// Truncations that have begun of each table, and whether one goes on, as far as is known.
    truncations: RefCell<BTreeMap<&'static str, (u64, bool)>>,
    /// Writes and reads that were answered.
    pub(super) ended: Cell<(u64, u64)>,
    pub(super) wrong: RefCell<Vec<String>>,
}

fn below(bound: u64) -> u64 {
    runtime::random_u64() % bound
}

fn cluster() -> Rc<Cluster> {
    runtime::local::get::<Cluster>()
}

fn deletion(table: &TableEntry, pk: i32, timestamp: i64) -> FrozenMutation {
    let mut row = RowBuilder::new(Vec::new());
    row.tombstone(Tombstone::new(timestamp, wall_micros() / 1_000_000));
    let mut builder = MutationBuilder::new(&table.schema, &rows::key(pk));
    builder.row(&[], &row.finish());
    builder.freeze()
}

impl Registers {
    pub(super) fn is_wrong(&self) -> bool {
        !self.wrong.borrow().is_empty()
    }

    fn with<R>(&self, at: (&'static str, i32), look: impl FnOnce(&mut Register) -> R) -> R {
        look(self.known.borrow_mut().entry(at).or_default())
    }

    /// A client on this node, until it is to be quiet.
    pub(super) async fn work(&self) {
        // Another node has made the tables.
        while TABLES.iter().any(|name| cluster().schema().table(name, name).is_none()) {
            sleep(Duration::from_millis(5)).await;
        }
        while !self.quiet.get() {
            let table = TABLES[below(2) as usize];
            let key = below(KEYS as u64) as i32;
            match below(5) {
                0 | 1 => self.set((table, key)).await,
                2 => self.delete((table, key)).await,
                // Nobody has to answer yet.
                _ => drop(self.read((table, key), QUORUM).await),
            }
            sleep(Duration::from_micros(below(40_000))).await;
        }
    }

    fn number(&self) -> i32 {
        self.next.set(self.next.get() + 1);
        self.next.get()
    }

    async fn set(&self, at: (&'static str, i32)) {
        let number = self.number();
        self.with(at, |known| known.written.insert(number));
        let table = entry(at.0, at.0);
        self.write(at, number, rows::put(&table, at.1, number, number.into())).await;
    }

    async fn delete(&self, at: (&'static str, i32)) {
        let number = self.number();
        self.with(at, |known| known.deletions.insert(number));
        let table = entry(at.0, at.0);
        self.write(at, number, deletion(&table, at.1, number.into())).await;
    }

    /// What was asked for at this moment came before no truncation, and met none; `None`: nobody
    /// knows.
    fn moment(&self, table: &'static str) -> Option<u64> {
        let (begun, goes_on) = self.truncations.borrow().get(table).copied().unwrap_or_default();
        (!goes_on).then_some(begun)
    }

    fn raise(&self, at: (&'static str, i32), began: Option<u64>, to: i32) {
        if began.is_some() && began == self.moment(at.0) {
            self.with(at, |known| known.floor = known.floor.max(to));
        }
    }

    /// Truncates a table on this node.
    pub(super) async fn truncate(&self, name: &'static str) {
        let all = || (0..KEYS).map(|key| (name, key));
        let is_old = |at: &Instant| *at + SECOND <= Instant::now();
        let old = |known: &mut Register| {
            let all = known.acknowledged.iter().filter(|(_, at)| is_old(at));
            all.map(|(number, _)| *number).collect::<BTreeSet<i32>>()
        };
        let before: Vec<_> = all().map(|at| self.with(at, old)).collect();
        let begun = self.truncations.borrow().get(name).map_or(0, |it| it.0) + 1;
        self.truncations.borrow_mut().insert(name, (begun, true));
        all().for_each(|at| self.with(at, |known| known.floor = 0));
        let coordinator = runtime::local::get::<Coordinator>();
        let truncated = coordinator.truncate(entry(name, name).schema.id, 20 * SECOND).await;
        stdx::trace!("{name} is truncated: {truncated:?}");
        // Else it may go on somewhere.
        if truncated.is_ok() && self.truncations.borrow().get(name) == Some(&(begun, true)) {
            self.truncations.borrow_mut().insert(name, (begun, false));
            for (at, gone) in all().zip(before) {
                self.with(at, |known| known.truncated.extend(gone));
            }
        }
    }

    async fn write(&self, at: (&'static str, i32), number: i32, mutation: FrozenMutation) {
        let began = self.moment(at.0);
        let (table, kind) = (entry(at.0, at.0), WriteKind::Simple);
        let options = WriteOptions { consistency: QUORUM, timeout: 2 * SECOND, kind, limit: None };
        let coordinator = runtime::local::get::<Coordinator>();
        let written = coordinator.write(&table, rows::token(at.1), mutation, &options).await;
        stdx::trace!("{at:?} is {number}: {written:?}");
        if written.is_ok() {
            self.with(at, |known| known.acknowledged.insert(number, Instant::now()));
            self.raise(at, began, number);
            let (writes, reads) = self.ended.get();
            self.ended.set((writes + 1, reads));
        }
    }

    /// Reads a register; the error says why there is no answer.
    async fn read(&self, at: (&'static str, i32), level: Consistency) -> Result<(), String> {
        let (began, floor) = (self.moment(at.0), self.with(at, |known| known.floor));
        let found = value(at, level).await;
        stdx::trace!("{at:?} is read as {found:?}, after {floor}");
        let found = found?;
        let (writes, reads) = self.ended.get();
        self.ended.set((writes, reads + 1));
        // A truncation that has begun since may be why there is less.
        let floor = if began.is_some() && began == self.moment(at.0) { floor } else { 0 };
        match self.with(at, |known| known.number_of(found, floor)) {
            Ok(number) => self.raise(at, began, number),
            Err(what) => self.wrong.borrow_mut().push(format!("{what}, of {at:?} at {level:?}")),
        }
        Ok(())
    }

    /// Reads all at ALL.
    pub(super) async fn check(self: Rc<Self>) {
        for at in TABLES.iter().flat_map(|table| (0..KEYS).map(move |key| (*table, key))) {
            if let Err(why) = self.read(at, Consistency::All).await {
                self.wrong.borrow_mut().push(format!("heals: {at:?}: {why}"));
            }
        }
    }
}

/// What a register is.
async fn value(at: (&'static str, i32), level: Consistency) -> Result<Option<i32>, String> {
    let table = entry(at.0, at.0);
    let command = rows::read_of(&table, Partitions::Key(rows::key(at.1).to_vec()), 10);
    let options = ReadOptions::new(level, 2 * SECOND);
    let coordinator = runtime::local::get::<Coordinator>();
    let page = coordinator.read(&table, rows::token(at.1), &command, &options).await;
    let page = page.map_err(|error| error.to_string())?;
    let found = rows::pairs(&command, &page).pop();
    Ok(found.map(|(_, value)| i32::from_be_bytes(value[..].try_into().expect("an int"))))
}

#[test]
fn what_may_be_read_is_told_from_what_may_not() {
    let (written, deletions) = ([1, 3, 6].into(), [2, 5].into());
    let known = Register { written, deletions, ..Register::default() };
    let check = |found: Option<i32>, floor: i32, expected: Result<i32, &str>| {
        let number = known.number_of(found, floor);
        match expected {
            Ok(expected) => assert_eq!(number, Ok(expected), "{found:?} after {floor}"),
            Err(word) => {
                let what = number.expect_err("it is wrong");
                assert!(what.starts_with(word), "{found:?} after {floor}: {what}");
            }
        }
    };
    check(None, 0, Ok(0));
    check(Some(1), 0, Ok(1));
    check(Some(1), 1, Ok(1));
    check(None, 1, Ok(2));
    check(Some(1), 2, Err("deleted-stays"));
    check(Some(3), 2, Ok(3));
    check(None, 3, Ok(5));
    check(Some(3), 5, Err("deleted-stays"));
    check(Some(1), 3, Err("deleted-stays"));
    check(None, 6, Err("acknowledged-is-read"));
    check(Some(4), 0, Err("written-once"));
    let known = Register { truncated: [6].into(), ..known };
    assert!(known.number_of(Some(6), 0).is_err_and(|what| what.contains("truncated-stays")));
    let known = Register { deletions: BTreeSet::new(), ..known };
    assert!(known.number_of(Some(1), 3).is_err_and(|what| what.contains("never-back")));
}
