//! Logs of changes of tables that clients on all nodes write to, while nodes crash, are cut off,
//! are slow and lose their connections: `r`, by single writes and by batches, and `t`, by
//! conditional writes. Each write has a value of its own, by which the log tells of it.
//!
//! Invariants
//!  - *told-once*: when faults have ended, the log tells of each acknowledged write just once, of
//!    those that ended in doubt once or never, and of no other one. Read at QUORUM it tells of what
//!    was written at QUORUM; of what was written at ONE, read at ALL: a node that dies before it
//!    has a hint may be the only one that has it.
//!  - *both-or-neither*: it tells of just those writes that the table has, read at ALL.
//!  - *in-sets*: rows of one write are numbered from 0, and the last one ends their set.
//!  - *chained*: the state before a conditional write, as the log tells it, is what the one before
//!    it has made, whoever coordinated either and whether or not its end is known.
//!
//! `NEREID_SIM_ROUNDS` sets how many schedules run, `NEREID_SIM_SEED` replays one.

use super::suffering::{Begins, Suffering};
use super::world::*;
use cluster::SchemaChange;
use model::schema::cdc::{self, CdcOptions, Images};
use model::{ColumnKind, TableSchema, Token, Uuid, value};
use mutation::FrozenMutation;
use mutation::page::{ColumnForm, PageView, Partitions, ReadCommand};
use replication::coordinator::nodes::Planted;
use replication::{BatchEntry, BatchKind, Consistency, ReadOptions, WriteError};
use runtime::task::Scope;
use runtime::time::{sleep, wall_micros};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use stdx::Prng;
use testkit::config::{change, entry};

const PARTITIONS: i32 = 40;
const REGISTERS: i32 = 3;
const SERIAL: Consistency = Consistency::Serial;

/// The log of a table, on a node that has none yet.
pub(super) async fn make_log(name: &'static str, options: CdcOptions) {
    change(move |schema| {
        let base = schema.table("ks", name).expect("the table").schema.clone();
        let id = Uuid::from_u128(0x4000 + u128::from(name.as_bytes()[0]));
        let log = cdc::log_schema(&base, options, id).expect("a log");
        let mut base = (*base).clone();
        base.options.cdc = options.stored(true);
        match schema.table("ks", &log.name) {
            Some(_) => Vec::new(),
            None => vec![SchemaChange::AlterTable(base), SchemaChange::CreateTable(log)],
        }
    })
    .await;
}

async fn make_logs() {
    make_log("r", CdcOptions::DEFAULT).await;
    make_log("t", CdcOptions { preimage: Images::Full, ..CdcOptions::DEFAULT }).await;
}

fn command_of(table: &TableSchema) -> ReadCommand {
    let regular = table.columns.iter().filter(|it| it.kind == ColumnKind::Regular);
    let mut columns: Vec<_> = regular.map(|it| (it.id, ColumnForm::Value)).collect();
    columns.sort_unstable_by_key(|(id, _)| *id);
    ReadCommand {
        columns,
        ..ReadCommand::all(table.id, Partitions::all(), wall_micros().div_euclid(1_000_000))
    }
}

/// A row: its partition key, its clustering key, its columns by name.
#[derive(Clone)]
pub(super) struct Row {
    key: Vec<u8>,
    clustering: Vec<u8>,
    columns: BTreeMap<String, Vec<u8>>,
}

impl Row {
    pub(super) fn int(&self, name: &str) -> Option<i32> {
        let bytes = self.columns.get(name)?;
        Some(i32::from_be_bytes(bytes[..].try_into().expect("an int")))
    }
}

fn rows_in(table: &TableSchema, command: &ReadCommand, bytes: &[u8]) -> Vec<Row> {
    let page = PageView::parse(bytes, command.layout()).expect("a page");
    let mut rows = Vec::new();
    for partition in page.partitions() {
        for row in partition.rows() {
            let mut columns = BTreeMap::new();
            for ((id, _), found) in command.columns.iter().zip(row.columns()) {
                let column = table.columns.iter().find(|it| it.id == *id).expect("a column");
                found.value.map(|value| columns.insert(column.name.clone(), value.to_vec()));
            }
            let (key, clustering) = (partition.key().to_vec(), row.clustering().to_vec());
            rows.push(Row { key, clustering, columns });
        }
    }
    rows
}

pub(super) async fn read_all(name: &str, level: Consistency) -> Result<Vec<Row>, String> {
    let table = entry("ks", name);
    let mut command = command_of(&table.schema);
    let options = ReadOptions::new(level, 10 * SECOND);
    let mut rows = Vec::new();
    loop {
        let page = coordinator().read(&table, Token::MIN, &command, &options).await;
        let page = page.map_err(|error| format!("{name} at {level:?}: {error:?}"))?;
        rows.append(&mut rows_in(&table.schema, &command, &page.bytes));
        match page.resume {
            Some(resume) => command.resume = Some(resume),
            None => return Ok(rows),
        }
    }
}

/// How a write has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Acknowledged,
    InDoubt,
    Never,
}

pub(super) fn ended<T>(result: &Result<T, WriteError>) -> Ended {
    match result {
        Ok(_) => Ended::Acknowledged,
        Err(WriteError::Timeout { .. } | WriteError::Failure { .. }) => Ended::InDoubt,
        Err(WriteError::Overloaded(_)) => Ended::InDoubt,
        Err(_) => Ended::Never,
    }
}

#[derive(Default)]
struct Model {
    next: Cell<i32>,
    quiet: Cell<bool>,
    /// Writes of each table.
    writes: RefCell<BTreeMap<(&'static str, i32), Ended>>,
    /// Those that one replica was enough for.
    at_one: RefCell<BTreeSet<i32>>,
}

impl Model {
    fn begin(&self, table: &'static str) -> i32 {
        let value = self.next.get() + 1;
        self.next.set(value);
        self.writes.borrow_mut().insert((table, value), Ended::InDoubt);
        value
    }

    fn end(&self, table: &'static str, value: i32, ended: Ended) {
        self.writes.borrow_mut().insert((table, value), ended);
    }

    /// The same of a write at a level.
    fn end_at(&self, table: &'static str, value: i32, (ended, level): (Ended, Consistency)) {
        self.end(table, value, ended);
        if level == Consistency::One {
            self.at_one.borrow_mut().insert(value);
        }
    }

    fn acknowledged(&self, table: &str) -> usize {
        let writes = self.writes.borrow();
        writes.iter().filter(|(key, it)| key.0 == table && **it == Ended::Acknowledged).count()
    }

    /// *told-once*, of a log that was read at a level.
    fn check(&self, table: &str, told: &[i32], level: Consistency) -> Result<(), String> {
        let at_one = self.at_one.borrow();
        let mut times: BTreeMap<i32, u32> = BTreeMap::new();
        told.iter().for_each(|value| *times.entry(*value).or_default() += 1);
        for ((_, value), ended) in self.writes.borrow().iter().filter(|(key, _)| key.0 == table) {
            let times = times.remove(value).unwrap_or(0);
            let may_miss = level != Consistency::All && at_one.contains(value);
            let is_right = match ended {
                Ended::Acknowledged if may_miss => times <= 1,
                Ended::Acknowledged => times == 1,
                Ended::InDoubt => times <= 1,
                Ended::Never => times == 0,
            };
            if !is_right {
                return Err(format!("{value} of {table}, {ended:?}, is told {times} times"));
            }
        }
        match times.is_empty() {
            true => Ok(()),
            false => Err(format!("nobody wrote {times:?} to {table}")),
        }
    }
}

fn below(prng: &mut Prng, bound: i32) -> i32 {
    prng.below(bound as u64) as i32
}

/// A new row of `r`.
fn draw(prng: &mut Prng, value: i32) -> BatchEntry {
    let pk = below(prng, PARTITIONS);
    let mutation: FrozenMutation = rows_of(pk, row(value, value, wall_micros()));
    BatchEntry { table: entry("ks", "r"), token: testkit::rows::token(pk), mutation }
}

async fn write(model: &Model, prng: &mut Prng) {
    let level = *prng.pick(&[Consistency::One, Consistency::Quorum]).expect("a level");
    let options = write_options(level);
    match prng.below(3) {
        0 => {
            let values = [model.begin("r"), model.begin("r")];
            let entries = values.iter().map(|value| draw(prng, *value)).collect();
            let kind = *prng.pick(&[BatchKind::Logged, BatchKind::Unlogged]).expect("a kind");
            let written = coordinator().write_batch(kind, entries, &options).await;
            // Of a batch that is not logged another part may be there.
            let ended = match ended(&written) {
                Ended::Never => Ended::InDoubt,
                ended => ended,
            };
            values.iter().for_each(|value| model.end_at("r", *value, (ended, level)));
        }
        _ => {
            let value = model.begin("r");
            let BatchEntry { table, token, mutation } = draw(prng, value);
            let written = coordinator().write(&table, token, mutation, &options).await;
            model.end_at("r", value, (ended(&written), level));
        }
    }
}

async fn change_register(model: &Model, prng: &mut Prng, seen: &mut [Option<i32>]) {
    let pk = below(prng, REGISTERS);
    let to = model.begin("t");
    let from = seen[pk as usize];
    let changed = change_if(pk, from, to, (SERIAL, Consistency::Quorum)).await;
    let ended = match changed {
        Ok(Changed::Applied) => Ended::Acknowledged,
        Ok(Changed::Found(_)) => Ended::Never,
        Err(_) => Ended::InDoubt,
    };
    match changed {
        Ok(Changed::Applied) => seen[pk as usize] = Some(to),
        Ok(Changed::Found(found)) => seen[pk as usize] = found,
        Err(_) => {}
    }
    model.end("t", to, ended);
}

async fn client(model: Rc<Model>, mut prng: Prng) {
    let mut seen = vec![None; REGISTERS as usize];
    while !model.quiet.get() {
        match prng.one_in(4) {
            true => change_register(&model, &mut prng, &mut seen).await,
            false => write(&model, &mut prng).await,
        }
        sleep(Duration::from_micros(prng.below(30_000))).await;
    }
}

/// The clients of a node; they end with it.
struct Clients {
    _scope: Scope,
}

impl Begins for Rc<Model> {
    fn make_tables(&self, nodes: &mut Nodes, node: usize) {
        nodes.run(node, make_logs());
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

struct Schedule {
    all: Suffering<Rc<Model>>,
    model: Rc<Model>,
}

impl Schedule {
    fn new(seed: u64, planted: Option<Planted>) -> Schedule {
        let model = Rc::new(Model::default());
        Schedule { all: Suffering::new(seed, planted, model.clone()), model }
    }

    /// What the log of a table tells, at a level; *told-once*.
    fn told(&mut self, table: &'static str, level: Consistency) -> Result<Vec<i32>, String> {
        let name = cdc::log_name(table);
        let rows = self.all.nodes.run(0, async move { read_all(&name, level).await })?;
        let told = told_by(&rows)?;
        self.model.check(table, &told, level)?;
        Ok(told)
    }

    /// What was found wrong.
    fn run(mut self, steps: u32) -> Result<(), String> {
        (0..steps).for_each(|_| self.all.suffer());
        self.model.quiet.set(true);
        self.all.nodes.world.run_for(10 * SECOND);
        self.all.settle()?;
        for table in ["r", "t"] {
            self.told(table, Consistency::Quorum)?;
        }
        let name = cdc::log_name("t");
        check_chains(
            &self.all.nodes.run(0, async move { read_all(&name, Consistency::Quorum).await })?,
        )?;
        // What ended in doubt is found where one replica has it.
        let base = self.all.nodes.run(0, read_all("r", Consistency::All))?;
        self.all.settle()?;
        let told = self.told("r", Consistency::All)?;
        let base: BTreeSet<i32> = base.iter().filter_map(|row| row.int("v")).collect();
        let told: BTreeSet<i32> = told.into_iter().collect();
        if base != told {
            let (more, less) = (&told - &base, &base - &told);
            return Err(format!("{less:?} are there and not told, {more:?} are told of"));
        }
        let written = ["r", "t"].map(|table| self.model.acknowledged(table));
        assert!(20 < written[0] + written[1], "{written:?} writes were acknowledged");
        Ok(())
    }
}

/// The values of which a log tells; *in-sets*.
fn told_by(rows: &[Row]) -> Result<Vec<i32>, String> {
    let mut sets: BTreeMap<(&[u8], &[u8]), Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let (time, number) = row.clustering.split_at(row.clustering.len() - 6);
        let set = sets.entry((&row.key, time)).or_default();
        let number = i32::from_be_bytes(number[2..].try_into().expect("a number"));
        let ends = row.columns.contains_key(cdc::END_OF_BATCH);
        if number as usize != set.len() || set.last().is_some_and(|last| ends_set(last)) {
            return Err(format!("number {number} of a set of {}, ends: {ends}", set.len()));
        }
        set.push(row);
    }
    if let Some((_, set)) = sets.iter().find(|(_, set)| !set.last().is_some_and(|it| ends_set(it)))
    {
        return Err(format!("a set of {} has no end", set.len()));
    }
    let is_delta = |row: &&Row| row.columns[cdc::OPERATION] != [0];
    Ok(rows.iter().filter(is_delta).filter_map(|row| row.int("v")).collect())
}

/// *chained*, for each register.
fn check_chains(rows: &[Row]) -> Result<(), String> {
    // By register and time: the value before, and the one that was written.
    let mut sets: BTreeMap<(i32, i64), (Option<i32>, Option<i32>)> = BTreeMap::new();
    for row in rows {
        let (pk, value) = (row.int("pk").ok_or("a row without its key")?, row.int("v"));
        let uuid = value::decode_uuid(&row.clustering[2..18]);
        let time =
            uuid.and_then(|uuid| value::timeuuid_ticks(&uuid)).ok_or("a row without time")?;
        let set = sets.entry((pk, time)).or_default();
        let place = if row.columns[cdc::OPERATION] == [0] { &mut set.0 } else { &mut set.1 };
        if place.replace(value.ok_or("a row without its value")?).is_some() {
            return Err(format!("register {pk} is told of twice at {time}"));
        }
    }
    let mut last: Option<(i32, Option<i32>)> = None;
    for ((pk, time), (before, written)) in sets {
        let expected = last.filter(|(of, _)| *of == pk).and_then(|(_, value)| value);
        if before != expected {
            return Err(format!(
                "register {pk} had {before:?} before {written:?} of {time}, not {expected:?}"
            ));
        }
        last = Some((pk, written));
    }
    Ok(())
}

fn ends_set(row: &Row) -> bool {
    row.columns.contains_key(cdc::END_OF_BATCH)
}

#[test]
fn a_chain_that_is_broken_is_told() {
    let row = |time: i64, operation: u8, written: i32| {
        let uuid = value::timeuuid_from_ticks(time, [0x80; 8]);
        let (mut clustering, mut columns) = (vec![0, 16], BTreeMap::new());
        clustering.extend_from_slice(uuid.as_bytes());
        columns.insert(cdc::OPERATION.to_owned(), vec![operation]);
        columns.insert("pk".to_owned(), 1i32.to_be_bytes().to_vec());
        columns.insert("v".to_owned(), written.to_be_bytes().to_vec());
        Row { key: Vec::new(), clustering, columns }
    };
    let whole = [row(7, 2, 5), row(8, 0, 5), row(8, 2, 6), row(9, 0, 6), row(9, 2, 7)];
    assert_eq!(check_chains(&whole), Ok(()));
    for without in [0, 1, 3] {
        let mut broken = whole.to_vec();
        broken.remove(without);
        assert!(check_chains(&broken).is_err(), "without row {without}");
    }
    let stale = [row(7, 2, 5), row(8, 0, 5), row(8, 2, 6), row(9, 0, 5), row(9, 2, 7)];
    assert!(check_chains(&stale).is_err());
}

#[test]
fn logs_tell_of_each_write_once_whatever_happens() {
    for seed in runtime::sim::seeds(8) {
        let checked = Schedule::new(seed, None).run(8);
        assert!(checked.is_ok(), "seed {seed}: {}", checked.unwrap_err());
    }
}

#[test]
fn a_log_that_is_written_apart_from_its_table_is_caught() {
    let planted = Some(Planted::LogsApart);
    let caught = (0..20).find(|seed| Schedule::new(*seed, planted).run(8).is_err());
    assert!(caught.is_some(), "{planted:?} is not caught");
}

#[test]
fn what_is_logged_again_when_it_is_replayed_is_caught() {
    let planted = Some(Planted::LogsAgain);
    let caught = (0..20).find(|seed| Schedule::new(*seed, planted).run(8).is_err());
    assert!(caught.is_some(), "{planted:?} is not caught");
}

/// *read-before*: without what images need nothing is written, and the client is told so.
#[test]
fn a_write_whose_images_cannot_be_read_is_refused() {
    let mut nodes = Nodes::new(1, &[1, 1, 1]);
    (0..3).for_each(|node| nodes.run(node, make_logs()));
    let write = |level| async move {
        let table = entry("ks", "t");
        let mutation = testkit::rows::put(&table, 1, 5, wall_micros());
        let options = write_options(level);
        coordinator().write(&table, testkit::rows::token(1), mutation, &options).await
    };
    nodes.run(0, write(Consistency::All)).expect("a write");
    nodes.crash(1);
    // Images are read at QUORUM then.
    let all = nodes.run(0, write(Consistency::All));
    assert!(matches!(all, Err(WriteError::Unavailable { .. })), "{all:?}");
    nodes.crash(2);
    for level in [Consistency::Quorum, Consistency::LocalQuorum] {
        let refused = nodes.run(0, write(level)).expect_err("one of three");
        assert!(matches!(refused, WriteError::Unread(_)), "{refused:?}");
        assert_eq!(refused.to_string(), "CDC preimage query could not achieve the CL.");
    }
    nodes.run(0, write(Consistency::Any)).expect("a write");
    let told = nodes
        .run(0, async { read_all(&cdc::log_name("t"), Consistency::One).await.expect("a read") });
    assert_eq!(told_by(&told).expect("sets"), [5, 5]);
    assert_eq!(told.iter().filter(|row| row.columns[cdc::OPERATION] == [0]).count(), 1);
}

/// Times that no stream takes are refused, and nothing is done.
#[test]
fn writes_of_times_far_away_are_refused() {
    let mut nodes = Nodes::new(2, &[2]);
    nodes.run(0, make_logs());
    nodes.run(0, async {
        let write = |micros: i64| async move {
            let mutation = rows_of(1, row(1, 1, micros));
            let table = entry("ks", "r");
            let options = write_options(Consistency::One);
            coordinator().write(&table, testkit::rows::token(1), mutation, &options).await
        };
        let now = wall_micros();
        for (far, text) in [(60_000_000, "into the future"), (-3_600_000_000, "into the past")] {
            let refused = write(now + far).await.expect_err("no stream");
            let WriteError::Refused(refused) = refused else { panic!("{refused:?}") };
            assert!(refused.contains("cdc: attempted to get a stream"), "{refused}");
            assert!(refused.contains(text), "{refused}");
        }
        write(now).await.expect("a write");
        assert_eq!(read_all("r", Consistency::One).await.expect("a read").len(), 1);
        let log = read_all(&cdc::log_name("r"), Consistency::One).await.expect("a read");
        assert_eq!(told_by(&log).expect("sets"), [1]);
        assert_eq!(log[0].int("pk"), Some(1));
        assert_eq!(log[0].columns[cdc::OPERATION], [2]);
        assert_eq!(log[0].key.len(), 16, "a stream's name");
    });
}
