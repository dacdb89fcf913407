//! A table that is made as another one was at a point in time, while clients on all nodes write to
//! that and nodes crash, are cut off, are slow and lose their connections: of a backup, which is
//! taken when the log of the table is there, and of what the log tells since.
//!
//! Invariants
//!  - *as-it-was*: it has each row whose write was acknowledged and has an earlier time, if no
//!    deletion of it has; no row of a later write; and of those that ended in doubt any.
//!
//! `NEREID_SIM_ROUNDS` sets how many schedules run, `NEREID_SIM_SEED` replays one.

use super::logs::{Ended, ended, make_log, read_all};
use super::suffering::{Begins, Suffering};
use super::world::*;
use cluster::SchemaChange;
use model::schema::cdc::{self, CdcOptions};
use model::{TableId, TableSchema, Token, Type, Uuid, value};
use mutation::page::{Partitions, ReadCommand, RingBound, SendRange};
use replication::backups::{PARTS, Replay, SnapshotTag, Step as Loaded, Taken, place_of, tokens};
use replication::{Consistency, ReadOptions};
use runtime::task::Scope;
use runtime::time::{sleep, wall_micros};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use stdx::Prng;
use testkit::config::{change, entry};

const PARTITIONS: i32 = 40;
const PATIENCE: Duration = Duration::from_secs(20);
/// How old a write may be when it is acknowledged, in microseconds.
const MARGIN: i64 = 60_000_000;
const COPY: &str = "copy";

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Plant {
    None,
    /// The backup is taken at once, whatever goes on that began before there was a log.
    WaitsForNobody,
    /// The history is read from the moment on at which the backup was asked for.
    NoMargin,
    NoBackup,
    NoHistory,
    /// The history goes on for longer than up to the point.
    Later,
}

/// A row, which is written once and deleted once at most.
#[derive(Clone, Copy, Debug)]
struct Written {
    pk: i32,
    at: (i64, Ended),
    deleted: Option<(i64, Ended)>,
}

#[derive(Default)]
struct Model {
    next: Cell<i32>,
    quiet: Cell<bool>,
    has_log: Cell<bool>,
    /// By their values.
    rows: RefCell<BTreeMap<i32, Written>>,
}

impl Model {
    /// *as-it-was*
    fn check(&self, point: i64, found: &BTreeSet<i32>) -> Result<(), String> {
        let rows = self.rows.borrow();
        for (value, row) in &*rows {
            let was = |(at, ended): (i64, Ended)| match ended {
                Ended::Acknowledged => Some(at < point),
                Ended::InDoubt if at < point => None,
                _ => Some(false),
            };
            let (written, deleted) = (was(row.at), row.deleted.map_or(Some(false), was));
            let expected = match (written, deleted) {
                (Some(false), _) | (_, Some(true)) => Some(false),
                (Some(true), Some(false)) => Some(true),
                _ => None,
            };
            if expected.is_some_and(|expected| expected != found.contains(value)) {
                return Err(format!("{value}, {row:?}, at {point}: not {expected:?}"));
            }
        }
        match found.iter().find(|value| !rows.contains_key(value)) {
            Some(value) => Err(format!("nobody wrote {value}")),
            None => Ok(()),
        }
    }
}

async fn write(model: &Model, prng: &mut Prng) {
    let (value, pk) = (model.next.get() + 1, prng.below(PARTITIONS as u64) as i32);
    model.next.set(value);
    let at = wall_micros();
    let written = |ended| Written { pk, at: (at, ended), deleted: None };
    model.rows.borrow_mut().insert(value, written(Ended::InDoubt));
    let result = write_rows(pk, rows_of(pk, row(value, value, at)), Consistency::Quorum).await;
    model.rows.borrow_mut().insert(value, written(ended(&result)));
}

async fn delete(model: &Model, prng: &mut Prng) {
    let is_there = |row: &Written| row.at.1 == Ended::Acknowledged && row.deleted.is_none();
    let all: Vec<(i32, i32)> = {
        let rows = model.rows.borrow();
        rows.iter().filter(|(_, row)| is_there(row)).map(|(value, row)| (*value, row.pk)).collect()
    };
    let Some((value, pk)) = prng.pick(&all).copied() else { return };
    let at = wall_micros();
    let end = |ended| {
        let mut rows = model.rows.borrow_mut();
        rows.get_mut(&value).expect("a row").deleted = Some((at, ended));
    };
    end(Ended::InDoubt);
    end(ended(&write_rows(pk, rows_of(pk, deletion(value, at)), Consistency::Quorum).await));
}

async fn client(model: Rc<Model>, mut prng: Prng) {
    while !model.quiet.get() {
        match prng.one_in(3) {
            true => delete(&model, &mut prng).await,
            false => write(&model, &mut prng).await,
        }
        sleep(Duration::from_micros(prng.below(20_000))).await;
    }
}

/// The table that is filled, on a node that has it not yet.
async fn make_copy() {
    change(|schema| {
        let builder = TableSchema::builder("ks", COPY, Uuid::from_u128(0x5000));
        let builder = builder.partition_key("pk", Type::Int).clustering("ck", Type::Int);
        let made = builder.regular("v", Type::Int).regular("w", Type::Int).build();
        match schema.table("ks", COPY) {
            Some(_) => Vec::new(),
            None => vec![SchemaChange::CreateTable(made.expect("a table"))],
        }
    })
    .await;
}

/// The clients of a node; they end with it.
struct Clients {
    _scope: Scope,
}

impl Begins for Rc<Model> {
    fn make_tables(&self, nodes: &mut Nodes, node: usize) {
        nodes.run(node, make_copy());
        if self.has_log.get() {
            nodes.run(node, make_log("r", CdcOptions::DEFAULT));
        }
    }

    fn start_clients(&self, nodes: &mut Nodes, node: usize, mut prng: Prng) {
        let model = self.clone();
        nodes.run(node, async move {
            let scope = Scope::new();
            for _ in 0..2 {
                drop(scope.spawn(client(model.clone(), prng.fork())));
            }
            runtime::local::set(Rc::new(Clients { _scope: scope }));
        });
    }
}

/// Writes to the copy what the log tells of these times, from and up to.
async fn write_history(times: (i64, i64)) -> Result<(), String> {
    let (log, into) = (entry("ks", &cdc::log_name("r")), entry("ks", COPY));
    let position = |micros: i64| {
        let mut prefix = Vec::new();
        let uuid = value::timeuuid_from_ticks(10 * micros, [0x80; 8]);
        model::key::push_clustering(uuid.as_bytes(), &mut prefix);
        (prefix, -1)
    };
    for part in 0..PARTS {
        let (first, last) = tokens(part, PARTS);
        let bound = |token, after| RingBound { token, key: None, after };
        let partitions = Partitions::Range { start: bound(first, false), end: bound(last, true) };
        let mut replay = Replay::new(&log.schema, &into.schema)?;
        let mut command = ReadCommand {
            ranges: vec![SendRange { start: position(times.0), end: position(times.1) }],
            columns: replay.columns().to_vec(),
            row_limit: 7,
            ..ReadCommand::all(log.schema.id, partitions, wall_micros().div_euclid(1_000_000))
        };
        loop {
            let options = ReadOptions::new(Consistency::Quorum, PATIENCE);
            let page = coordinator().read(&log, Token::MIN, &command, &options).await;
            let page = page.map_err(|error| error.to_string())?;
            let writes = replay.writes(&page.bytes).map_err(|damaged| damaged.to_string())?;
            let written = coordinator().write_backed_up(&into, writes).await;
            written.map_err(|reason| format!("{reason:?}"))?;
            match page.resume {
                Some(resume) => command.resume = Some(resume),
                None => break,
            }
        }
    }
    Ok(())
}

/// Writes to the copy what the nodes have in a backup.
async fn write_backup(taken: Taken, tag: SnapshotTag) -> Result<(), String> {
    let (place, into): (_, TableId) =
        (place_of(&entry("ks", "r"), tag), entry("ks", COPY).schema.id);
    for host in taken.nodes {
        for part in 0..PARTS {
            let mut from = None;
            loop {
                let step = coordinator().load_backup(host, (&place, part), into, from).await;
                match step.map_err(|reason| format!("{reason:?}"))? {
                    Loaded::Absent => return Err(format!("{host} has lost its part")),
                    Loaded::Written { next: None, .. } => break,
                    Loaded::Written { next, .. } => from = next,
                }
            }
        }
    }
    Ok(())
}

struct Schedule {
    all: Suffering<Rc<Model>>,
    model: Rc<Model>,
    plant: Plant,
}

impl Schedule {
    fn new(seed: u64, plant: Plant) -> Schedule {
        let model = Rc::new(Model::default());
        Schedule { all: Suffering::new(seed, None, model.clone()), model, plant }
    }

    fn delay_last(&mut self, delay: Duration) {
        let last = self.all.nodes.count() - 1;
        (0..last).for_each(|other| self.all.nodes.set_delay(last, other, delay));
    }

    /// Waits until nothing is under way that has begun before.
    fn all_end(&mut self) -> Result<(), String> {
        for node in 0..self.all.nodes.count() {
            self.all.nodes.run(node, async { coordinator().all_ended().await })?;
        }
        Ok(())
    }

    fn back_up(&mut self, tag: &SnapshotTag) -> Result<Taken, String> {
        let mut last = None;
        for _ in 0..10 {
            let tag = tag.clone();
            let taken = self.all.nodes.run(0, async move {
                let table = entry("ks", "r").schema.id;
                coordinator().take_backup(table, tag, PATIENCE).await
            });
            match taken {
                Ok(taken) => return Ok(taken),
                Err(error) => last = Some(error),
            }
            self.all.run_for(1000);
        }
        Err(format!("no backup: {last:?}"))
    }

    /// What was found wrong.
    fn run(mut self, steps: u32) -> Result<(), String> {
        let tag = SnapshotTag::new("base")?;
        (0..steps).for_each(|_| self.all.suffer());
        // What the last node writes is long on its way while all come to show the log.
        self.delay_last(Duration::from_millis(400));
        self.all.run_for(100);
        self.model.has_log.set(true);
        for node in 0..self.all.nodes.count() {
            self.all.nodes.run(node, make_log("r", CdcOptions::DEFAULT));
            self.all.run_for(10);
        }
        if self.plant != Plant::WaitsForNobody {
            self.all_end()?;
        }
        let began = self.all.nodes.run(0, async { wall_micros() });
        let taken = self.back_up(&tag)?;
        self.delay_last(Duration::ZERO);
        (0..steps).for_each(|_| self.all.suffer());
        let point = self.all.nodes.run(0, async { wall_micros() });
        (0..steps).for_each(|_| self.all.suffer());
        self.model.quiet.set(true);
        self.all_end()?;
        if self.plant != Plant::NoBackup {
            self.all.nodes.run(0, write_backup(taken, tag))?;
        }
        let from = if self.plant == Plant::NoMargin { began } else { began - MARGIN };
        let until = if self.plant == Plant::Later { point + 100_000 } else { point };
        if self.plant != Plant::NoHistory {
            self.all.nodes.run(0, write_history((from, until)))?;
        }
        let found = self.all.nodes.run(0, read_all(COPY, Consistency::Quorum))?;
        let found: BTreeSet<i32> = found.iter().filter_map(|row| row.int("v")).collect();
        self.model.check(point, &found)?;
        let rows = self.model.rows.borrow();
        let acknowledged = rows.values().filter(|row| row.at.1 == Ended::Acknowledged).count();
        assert!(20 < acknowledged, "{acknowledged} writes were acknowledged");
        Ok(())
    }
}

#[test]
fn a_table_is_made_as_it_was_whatever_happened() {
    for seed in runtime::sim::seeds(8) {
        let checked = Schedule::new(seed, Plant::None).run(3);
        assert!(checked.is_ok(), "seed {seed}: {}", checked.unwrap_err());
    }
}

#[test]
fn planted_mistakes_of_recovery_are_caught() {
    let plants =
        [Plant::WaitsForNobody, Plant::NoMargin, Plant::NoBackup, Plant::NoHistory, Plant::Later];
    for plant in plants {
        let caught = (0..40).find(|seed| Schedule::new(*seed, plant).run(3).is_err());
        assert!(caught.is_some(), "{plant:?} is not caught");
    }
}
