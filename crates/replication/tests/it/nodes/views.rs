//! Views of a table that clients on all nodes write to, while nodes crash, are cut off, are slow
//! and lose their connections: `by_v`, whose rows are found by a regular column, and `by_ck`, whose
//! rows are the table's in another place.
//!
//! Invariants
//!  - *views-follow*: when faults have ended, each replica of a view has just the rows that the
//!    base table has, read at ALL; and so they are read at QUORUM.
//!  - *brought-together*: when all nodes have verified a view and mended what differs, it is as if
//!    nothing had been lost.
//!  - *seen-at-once*: on a node that is alone a write that was acknowledged is in its views.
//!
//! `NEREID_SIM_ROUNDS` sets how many schedules run, `NEREID_SIM_SEED` replays one.

use super::suffering::{Begins, Suffering};
use super::world::*;
use cluster::SchemaChange;
use model::schema::View;
use model::{ColumnId, TableSchema, Token, Type, Uuid};
use mutation::page::{ColumnForm, PageView, Partitions, ReadCommand};
use mutation::{Cell, CellState, ClusteringRange, FrozenMutation, Marker, MutationBuilder};
use mutation::{RangeTombstone, RowBuilder, Tombstone};
use replication::coordinator::nodes::Planted;
use replication::coordinator::verify::{Figures, Watch, verify};
use replication::{BatchEntry, BatchKind, Consistency, Coordinator, ReadOptions, WriteError};
use runtime::task::Scope;
use runtime::time::sleep;
use std::cell::Cell as StdCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use stdx::{Bytes, Prng};
use storage::{Storage, SyncMode};
use testkit::config::{change, entry};

/// Partitions that are written often, and others that are written once or twice.
const PARTITIONS: i32 = 4;
const COLD: i32 = 300;
const ROWS: i32 = 3;
pub(super) const VALUES: i32 = 4;
pub(super) const BASE: &str = "r";

/// Rows as they are shown: the key in the order of the base table's columns, and `v`, `w`.
pub(super) type Rows = BTreeSet<[Option<i32>; 4]>;

fn view(name: &str, base: &TableSchema) -> TableSchema {
    let id = Uuid::from_u128(0x3000 + name.len() as u128);
    let builder = TableSchema::builder("ks", name, id);
    let int = Type::Int;
    let builder = match name {
        "by_v" => builder
            .partition_key("v", int.clone())
            .clustering("pk", int.clone())
            .clustering("ck", int.clone())
            .regular("w", int),
        _ => builder
            .partition_key("ck", int.clone())
            .clustering("pk", int.clone())
            .regular("v", int.clone())
            .regular("w", int),
    };
    let mut table = builder.build().expect("a view");
    table.view = Some(Box::new(View {
        base: base.id,
        base_name: base.name.clone(),
        where_clause: "all of it".to_owned(),
        lives_by_marker: name == "by_v",
        ..View::default()
    }));
    table
}

/// Makes the views on a node, as they are to be.
pub(super) async fn make_views() {
    change(|schema| {
        let base = schema.table("ks", BASE).expect("the base table").schema.clone();
        let views = ["by_v", "by_ck"].map(|name| view(name, &base));
        let change = |view: TableSchema| match schema.table("ks", &view.name) {
            None => Some(SchemaChange::CreateTable(view)),
            Some(known) if known.schema.view != view.view => Some(SchemaChange::AlterTable(view)),
            Some(_) => None,
        };
        views.into_iter().filter_map(change).collect()
    })
    .await;
}

pub(super) fn column(table: &TableSchema, name: &str) -> ColumnId {
    table.column(name).expect("a column").id
}

/// A write of a client: of rows, or deletions, of one partition.
pub(super) fn draw(prng: &mut Prng, timestamp: i64) -> (i32, FrozenMutation) {
    let table = entry("ks", BASE);
    let schema = &table.schema;
    let most = if prng.one_in(3) { COLD } else { PARTITIONS };
    let pk = below(prng, most);
    let mut builder = MutationBuilder::new(schema, &pk.to_be_bytes());
    let deletion = Tombstone::new(timestamp, runtime::time::wall_micros() / 1_000_000);
    match prng.below(12) {
        0 => builder.delete_partition(deletion),
        1 => {
            let range =
                ClusteringRange::of_prefix(Bytes::copy_from(&clustering(below(prng, ROWS))));
            builder.delete_range(RangeTombstone { range, tombstone: deletion });
        }
        drawn => {
            let rows: BTreeSet<i32> = (0..prng.between(1, 2)).map(|_| below(prng, ROWS)).collect();
            for ck in rows {
                let mut row = RowBuilder::new(Vec::new());
                if drawn == 2 {
                    row.tombstone(deletion);
                } else if prng.one_in(2) {
                    row.marker(Marker::Live { timestamp });
                }
                for name in ["v", "w"] {
                    let value = below(prng, VALUES).to_be_bytes();
                    let state = match prng.below(8) {
                        0 => CellState::Dead { deletion_time: deletion.deletion_time },
                        1..5 => CellState::Live { value: &value },
                        _ => continue,
                    };
                    row.cell(column(schema, name), Cell { timestamp, state });
                }
                builder.row(&clustering(ck), &row.finish());
            }
        }
    }
    (pk, builder.freeze())
}

pub(super) fn below(prng: &mut Prng, bound: i32) -> i32 {
    prng.below(bound as u64) as i32
}

fn command_of(table: &TableSchema) -> ReadCommand {
    let regular = table.columns.iter().filter(|it| it.kind == model::ColumnKind::Regular);
    let mut columns: Vec<_> = regular.map(|it| (it.id, ColumnForm::Value)).collect();
    columns.sort_unstable_by_key(|(id, _)| *id);
    ReadCommand {
        columns,
        ..ReadCommand::all(
            table.id,
            Partitions::all(),
            runtime::time::wall_micros().div_euclid(1_000_000),
        )
    }
}

/// The rows of a page of one of the three tables.
fn rows_in(table: &TableSchema, command: &ReadCommand, bytes: &[u8]) -> Rows {
    let int = |bytes: &[u8]| i32::from_be_bytes(bytes.try_into().expect("an int"));
    let mut rows = Rows::new();
    let page = PageView::parse(bytes, command.layout()).expect("a page");
    for partition in page.partitions() {
        for row in partition.rows() {
            let mut named = BTreeMap::new();
            named.insert(&*table.partition_key()[0].name, int(partition.key()));
            let keys = row.clustering();
            for (place, column) in table.clustering().iter().enumerate() {
                named.insert(&*column.name, int(&keys[6 * place + 2..6 * place + 6]));
            }
            for ((id, _), found) in command.columns.iter().zip(row.columns()) {
                let column = table.columns.iter().find(|it| it.id == *id).expect("a column");
                found.value.map(|value| named.insert(&*column.name, int(value)));
            }
            rows.insert(["pk", "ck", "v", "w"].map(|name| named.get(name).copied()));
        }
    }
    rows
}

pub(super) async fn read_all(name: &str, level: Consistency) -> Result<Rows, String> {
    let table = entry("ks", name);
    let mut command = command_of(&table.schema);
    let options = ReadOptions::new(level, 10 * SECOND);
    let mut rows = Rows::new();
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

/// What this shard has of a table.
async fn read_here(name: &'static str) -> Rows {
    let table = entry("ks", name);
    let command = command_of(&table.schema);
    let page = runtime::local::get::<Storage>().read(&command).await.expect("a read");
    assert!(page.resume.is_none(), "more than a page");
    rows_in(&table.schema, &command, &page.bytes)
}

/// What a view has of the rows of its base table.
pub(super) fn seen_by(view: &str, rows: &Rows) -> Rows {
    rows.iter().filter(|[_, _, v, _]| view == "by_ck" || v.is_some()).copied().collect()
}

/// The clients of a node; they end with it.
struct Clients {
    _scope: Scope,
}

#[derive(Default)]
struct Model {
    time: StdCell<i64>,
    quiet: StdCell<bool>,
    acknowledged: StdCell<u64>,
}

async fn client(model: Rc<Model>, mut prng: Prng) {
    while !model.quiet.get() {
        // Clients share the times of their writes now and then.
        model.time.set(model.time.get() + i64::from(!prng.one_in(20)));
        let level = *prng.pick(&[Consistency::One, Consistency::Quorum]).expect("a level");
        let (table, options) = (entry("ks", BASE), write_options(level));
        let mut next = || {
            let (pk, mutation) = draw(&mut prng, model.time.get());
            BatchEntry { table: table.clone(), token: testkit::rows::token(pk), mutation }
        };
        let (one, other) = (next(), next());
        let kind = *prng.pick(&[BatchKind::Logged, BatchKind::Unlogged]).expect("a kind");
        let written = match prng.one_in(4) {
            true => coordinator().write_batch(kind, vec![one, other], &options).await,
            false => coordinator().write(&table, one.token, one.mutation, &options).await,
        };
        if written.is_ok() {
            model.acknowledged.set(model.acknowledged.get() + 1);
        }
        sleep(Duration::from_micros(prng.below(20_000))).await;
    }
}

impl Begins for Rc<Model> {
    fn make_tables(&self, nodes: &mut Nodes, node: usize) {
        nodes.run(node, make_views());
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

    /// What was found wrong.
    fn run(mut self, steps: u32) -> Result<(), String> {
        self.suffer_all(steps)?;
        self.check()
    }

    /// All that goes wrong, until it is quiet.
    fn suffer_all(&mut self, steps: u32) -> Result<(), String> {
        (0..steps).for_each(|_| self.all.suffer());
        self.model.quiet.set(true);
        self.all.nodes.world.run_for(10 * SECOND);
        self.all.settle()?;
        // What some replicas have and others have not is told to those, and derived there.
        self.all.nodes.run(0, read_all(BASE, Consistency::All))?;
        self.all.settle()
    }

    /// *views-follow*
    fn check(&mut self) -> Result<(), String> {
        let base = self.all.nodes.run(0, read_all(BASE, Consistency::All))?;
        for name in ["by_v", "by_ck"] {
            let expected = seen_by(name, &base);
            self.check_replicas(name, &expected)?;
            let found = self.all.nodes.run(0, read_all(name, Consistency::Quorum))?;
            if found != expected {
                return Err(format!("{name} at QUORUM: {}", difference(&found, &expected)));
            }
        }
        let written = self.model.acknowledged.get();
        assert!(20 < written, "{written} writes were acknowledged");
        Ok(())
    }

    /// *views-follow*, on each node.
    fn check_replicas(&mut self, name: &'static str, expected: &Rows) -> Result<(), String> {
        for node in 0..self.all.nodes.count() {
            let mut found = Rows::new();
            for shard in 0..self.all.shards[node] {
                found.append(&mut self.all.nodes.run_on((node, shard), read_here(name)));
            }
            let key = |row: &[Option<i32>; 4]| row[if name == "by_v" { 2 } else { 1 }].unwrap();
            let is_here =
                |row: &&[Option<i32>; 4]| self.all.nodes.replicas_of(key(row)).contains(&node);
            let expected: Rows = expected.iter().filter(is_here).copied().collect();
            if found != expected {
                let what = difference(&found, &expected);
                return Err(format!("{name} on node {node}: {what}"));
            }
        }
        Ok(())
    }
}

pub(super) fn difference(found: &Rows, expected: &Rows) -> String {
    let (ghosts, lacks) = (found - expected, expected - found);
    format!("{ghosts:?} are too many, {lacks:?} are missing")
}

#[test]
fn views_follow_their_base_whatever_happens() {
    for seed in runtime::sim::seeds(6) {
        let checked = Schedule::new(seed, None).run(8);
        assert!(checked.is_ok(), "seed {seed}: {}", checked.unwrap_err());
    }
}

#[test]
fn what_is_derived_without_a_look_at_what_is_there_is_caught() {
    let planted = Some(Planted::DerivesUnread);
    let caught = (0..10).find(|seed| Schedule::new(*seed, planted).run(8).is_err());
    assert!(caught.is_some(), "{planted:?} is not caught");
}

impl Schedule {
    /// All nodes verify both views.
    fn verify(&mut self, mends: bool) -> Figures {
        let mut figures = Figures::default();
        for node in 0..self.all.nodes.count() {
            for name in ["by_v", "by_ck"] {
                figures += self.all.nodes.run(node, async move {
                    let watch = Rc::new(Watch::default());
                    let id = entry("ks", name).schema.id;
                    verify(id, mends, watch.clone()).await.expect("all can be looked at");
                    assert_eq!(watch.done.get(), watch.all.get(), "it came to the end");
                    watch.figures.get()
                });
            }
        }
        assert_eq!(figures.unknown, 0, "{figures:?}");
        figures
    }
}

/// *brought-together*: views that have lost rows, and have rows that they should not have, do so no
/// more when all nodes have verified them; and nothing is found where they are as they should be.
#[test]
fn what_differs_is_told_and_mended() {
    let mistakes = [None, Some(Planted::DerivesUnread), Some(Planted::KeepsNoOutbox)];
    let (mut missing, mut ghosts) = (0, 0);
    for seed in runtime::sim::seeds(9) {
        let planted = mistakes[(seed % 3) as usize];
        let mut schedule = Schedule::new(seed, planted);
        schedule.suffer_all(6).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        let was_right = schedule.check().is_ok();
        let told = schedule.verify(false);
        assert_eq!((told.missing, told.ghosts) == (0, 0), was_right, "seed {seed}: {told:?}");
        assert_eq!(told.mended, 0, "seed {seed}: {told:?}");
        assert!(was_right || planted.is_some(), "seed {seed}: {told:?}");
        let mended = schedule.verify(true);
        assert_eq!(mended.mended, mended.missing + mended.ghosts, "seed {seed}: {mended:?}");
        schedule.all.settle().unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        schedule.check().unwrap_or_else(|why| panic!("seed {seed}, {mended:?}: {why}"));
        let again = schedule.verify(false);
        assert_eq!((again.missing, again.ghosts), (0, 0), "seed {seed}: {again:?}");
        (missing, ghosts) = (missing + mended.missing, ghosts + mended.ghosts);
    }
    assert!(0 < missing && 0 < ghosts, "{missing} missing and {ghosts} ghosts were mended");
}

/// *not-under-way*: what is written meanwhile is no difference.
fn told_beside_writes(seed: u64, planted: Option<Planted>) -> Figures {
    let mut schedule = Schedule::new(seed, planted);
    let count = schedule.all.nodes.count();
    for (node, other) in (0..count).flat_map(|node| (0..count).map(move |other| (node, other))) {
        if node != other {
            let delay = Duration::from_millis(schedule.all.prng.below(100));
            schedule.all.nodes.set_delay(node, other, delay);
        }
    }
    let mut figures = Figures::default();
    for _ in 0..2 {
        schedule.all.run_for(500);
        figures += schedule.verify(false);
    }
    figures
}

#[test]
fn what_is_written_meanwhile_is_no_difference() {
    for seed in runtime::sim::seeds(2) {
        let told = told_beside_writes(seed, None);
        assert_eq!((told.missing, told.ghosts), (0, 0), "seed {seed}: {told:?}");
        assert!(0 < told.derived && 0 < told.seen, "seed {seed}: {told:?}");
    }
    let planted = Some(Planted::LooksOnce);
    let differs = |told: Figures| 0 < told.missing + told.ghosts;
    let caught = (0..20).find(|seed| differs(told_beside_writes(*seed, planted)));
    assert!(caught.is_some(), "{planted:?} is not caught");
}

/// *seen-at-once*: with several shards, of which each has another part of a view.
#[test]
fn on_one_node_a_view_has_what_was_acknowledged() {
    for seed in 0..6 {
        let mut nodes = Nodes::with(seed, &[(1 + (seed % 4) as u16, 0)], 1, None);
        nodes.run(0, make_views());
        let mut prng = Prng::from_seed(seed);
        let mut time = 0;
        for life in 0..3 {
            let mut fork = prng.fork();
            nodes.run(0, async move {
                for step in 0..20 {
                    let (pk, write) = draw(&mut fork, life * 100 + step);
                    let (table, token) = (entry("ks", BASE), testkit::rows::token(pk));
                    let options = write_options(Consistency::One);
                    coordinator().write(&table, token, write, &options).await.expect("a write");
                    let base = read_all(BASE, Consistency::One).await.expect("a read");
                    for name in ["by_v", "by_ck"] {
                        let found = read_all(name, Consistency::One).await.expect("a read");
                        let expected = seen_by(name, &base);
                        assert!(found == expected, "{name}: {}", difference(&found, &expected));
                    }
                }
            });
            time += 1;
            nodes.crash(0);
            nodes.start(0);
            nodes.run(0, make_views());
        }
        assert!(time == 3, "all lives were lived");
    }
}

/// A node with the only copy of a partition of the base table, another one with that of the rows
/// of `by_v` for a value, the partition and the value.
fn apart(nodes: &Nodes) -> (usize, usize, i32, i32) {
    let all = (0..100).flat_map(|pk| (0..100).map(move |v| (pk, v)));
    let place = |(pk, v): (i32, i32)| (nodes.replicas_of(pk)[0], nodes.replicas_of(v)[0], pk, v);
    all.map(place).find(|(base, view, ..)| base != view).expect("tokens of both")
}

/// Writes a row of that value, on the node that has it.
async fn put_row(pk: i32, v: i32, timestamp: i64) -> Result<(), WriteError> {
    let table = entry("ks", BASE);
    let mut row = RowBuilder::new(Vec::new());
    row.marker(Marker::Live { timestamp });
    row.cell(column(&table.schema, "v"), Cell::live(timestamp, &v.to_be_bytes()));
    let mut builder = MutationBuilder::new(&table.schema, &pk.to_be_bytes());
    builder.row(&clustering(1), &row.finish());
    let (token, options) = (testkit::rows::token(pk), write_options(Consistency::One));
    coordinator().write(&table, token, builder.freeze(), &options).await
}

/// Rows of the outbox of a shard that are not removed.
async fn kept() -> usize {
    let table = entry("system", "nereid_view_updates");
    let command = command_of(&table.schema);
    let page = runtime::local::get::<Storage>().read(&command).await.expect("a read");
    page.row_count as usize
}

/// What came of an update of a view whose node was away: rows of the outbox before it came back,
/// what it has then, and rows of the outbox after that.
fn told_late(hinted: bool, dies: bool, planted: Option<Planted>) -> (usize, usize, usize) {
    let mut hinting = Hinting::new();
    if !hinted {
        hinting.config.options.enabled = replication::hints::decide::Enabled::No;
    }
    let mut nodes = Plan::with(1, &[(1, 0), (1, 0), (1, 0)], 1, planted).hinting(hinting).start();
    (0..3).for_each(|node| nodes.run(node, make_views()));
    let (base, view, pk, v) = apart(&nodes);
    nodes.crash(view);
    nodes.run(base, async move { put_row(pk, v, 5).await.expect("a write") });
    nodes.world.run_for(SECOND);
    if dies {
        nodes.crash(base);
        nodes.start(base);
        nodes.run(base, make_views());
    }
    let before = nodes.run(base, kept());
    nodes.start(view);
    nodes.run(view, make_views());
    nodes.world.run_for(60 * SECOND);
    let found = nodes.run(view, read_here("by_v"));
    assert!(found.iter().all(|row| *row == [Some(pk), Some(1), Some(v), None]), "{found:?}");
    (before, found.len(), nodes.run(base, kept()))
}

/// *sent-or-kept*: what a node cannot be told is told it when it is there, by a hint, or by a row
/// of the outbox where none may be kept; also if who keeps it dies before. Then the row is removed.
#[test]
fn who_is_away_is_told_when_it_comes_back() {
    assert_eq!(told_late(true, false, None), (0, 1, 0));
    assert_eq!(told_late(true, true, None), (0, 1, 0));
    assert_eq!(told_late(false, false, None), (1, 1, 0));
    assert_eq!(told_late(false, true, None), (1, 1, 0));
    // Mistakes lose it.
    for dies in [false, true] {
        assert_eq!(told_late(false, dies, Some(Planted::KeepsNoOutbox)), (0, 0, 0));
        assert_eq!(told_late(false, dies, Some(Planted::SettlesEarly)), (0, 0, 0));
    }
}

/// Rows of `by_v` that a node has after the other one wrote a row that it has never heard of, died,
/// and brought again what it had left, and both were told to delete the row.
fn brought_again(planted: Option<Planted>) -> Rows {
    // What is told is durable after twice the period, and not removed before.
    let sync = SyncMode::Periodic { period: SECOND };
    let plan = Plan::with(1, &[(2, 0), (2, 0)], 2, planted).hinting(Hinting::new());
    let mut nodes = plan.syncing(sync).start();
    (0..2).for_each(|node| nodes.run(node, make_views()));
    let (shard, v) = nodes.run(0, async {
        let shard =
            |table: &str, key: i32| entry("ks", table).tablets.shard_of(testkit::rows::token(key));
        let own = shard(BASE, 0);
        (own, (0..).find(|v| shard("by_v", *v) != own).expect("a row that another shard has"))
    });
    nodes.set_cut(1, true);
    nodes.run(0, async move { put_row(0, v, 5).await.expect("a write") });
    nodes.world.run_for(3 * SECOND / 2);
    assert_eq!(nodes.run_on((0, shard), kept()), 1, "it waits for its removal");
    nodes.crash(0);
    nodes.set_cut(1, false);
    nodes.start(0);
    nodes.run(0, make_views());
    nodes.world.run_for(30 * SECOND);
    assert_eq!(nodes.run_on((0, shard), kept()), 0, "it was brought");
    nodes.run(0, async {
        let table = entry("ks", BASE);
        let mut builder = MutationBuilder::new(&table.schema, &0i32.to_be_bytes());
        builder.delete_partition(Tombstone::new(6, 6));
        let (token, options) = (testkit::rows::token(0), write_options(Consistency::All));
        coordinator().write(&table, token, builder.freeze(), &options).await.expect("a write");
    });
    nodes.world.run_for(10 * SECOND);
    let shards = [0, 1].map(|shard| nodes.run_on((1, shard), read_here("by_v")));
    shards.into_iter().flatten().collect()
}

/// *heard-by-its-own*: what is brought again makes no rows that nobody ends.
#[test]
fn what_is_brought_again_is_ended_by_who_ends_its_row() {
    assert_eq!(brought_again(None), Rows::new());
    assert_eq!(brought_again(Some(Planted::BringsToAll)).len(), 1, "BringsToAll is not caught");
}

/// *sent-or-kept*: where who hears of a write is down and may have no hint, the other replicas of
/// the view are told, and nothing waits.
#[test]
fn what_nobody_may_hint_is_told_the_others() {
    let mut hinting = Hinting::new();
    hinting.config.options.enabled = replication::hints::decide::Enabled::No;
    let mut nodes = Plan::with(1, &[(1, 0); 4], 3, None).hinting(hinting).start();
    (0..4).for_each(|node| nodes.run(node, make_views()));
    let all = (0..100).flat_map(|pk| (0..100).map(move |v| (pk, v)));
    let alone =
        |some: &[usize], others: &[usize]| some.iter().copied().find(|node| !others.contains(node));
    let apart = |(pk, v): (i32, i32)| {
        let (base, view) = (nodes.replicas_of(pk), nodes.replicas_of(v));
        Some((alone(&base, &view)?, alone(&view, &base)?, pk, v))
    };
    let (base, view, pk, v) = all.filter_map(apart).next().expect("partners");
    nodes.crash(view);
    nodes.run(base, async move { put_row(pk, v, 5).await.expect("a write") });
    nodes.world.run_for(60 * SECOND);
    assert_eq!(nodes.run(base, kept()), 0, "a row of the outbox waits for a node that is down");
    let has = |nodes: &mut Nodes, node| nodes.run(node, read_here("by_v")).len();
    let mut others = nodes.replicas_of(v);
    others.retain(|node| *node != view);
    assert!(others.iter().all(|node| has(&mut nodes, *node) == 1), "{others:?} have the row");
}

/// *seen-here*: what a synchronous view lacks is told who writes, and only that.
#[test]
fn a_write_waits_for_views_that_are_synchronous() {
    for is_synchronous in [false, true] {
        let mut nodes =
            Plan::with(4, &[(1, 0), (1, 0), (1, 0)], 1, None).hinting(Hinting::new()).start();
        for node in 0..3 {
            nodes.run(node, async move {
                make_views().await;
                change(move |schema| {
                    let mut view = (*schema.table("ks", "by_v").unwrap().schema).clone();
                    view.view.as_mut().unwrap().synchronous = Some(is_synchronous);
                    vec![SchemaChange::AlterTable(view)]
                })
                .await;
            });
        }
        let (base, view, pk, v) = apart(&nodes);
        nodes.set_delay(base, view, Duration::from_millis(200));
        let took = nodes.run(base, async move {
            let began = runtime::time::Instant::now();
            put_row(pk, v, 5).await.expect("a write");
            began.elapsed()
        });
        assert_eq!(Duration::from_millis(200) <= took, is_synchronous, "it took {took:?}");
        nodes.crash(view);
        let written = nodes.run(base, put_row(pk, v, 6));
        assert_eq!(written.is_err(), is_synchronous, "{written:?}");
    }
}

/// *bounded*: who writes waits while too much is on its way, and is refused before it writes.
#[test]
fn what_is_on_its_way_is_bounded() {
    let mut nodes =
        Plan::with(5, &[(1, 0), (1, 0), (1, 0)], 1, None).hinting(Hinting::new()).start();
    (0..3).for_each(|node| nodes.run(node, make_views()));
    let (base, view, pk, v) = apart(&nodes);
    nodes.set_cut(view, true);
    let (written, pending) = nodes.run(base, async move {
        let most = coordinator().outbox().pending().1;
        let hold = coordinator().outbox().hold(most).await;
        let refused = put_row(pk, v, 5).await;
        assert!(matches!(refused, Err(WriteError::Timeout { .. })), "{refused:?}");
        assert!(read_here(BASE).await.is_empty(), "it was refused, and is there");
        drop(hold);
        let written = put_row(pk, v, 6).await;
        let pending: Rc<Coordinator> = coordinator();
        (written, pending.outbox().pending().0)
    });
    assert!(written.is_ok(), "{written:?}");
    assert!(2288 < pending && pending < 10_000, "{pending} bytes are on their way");
    nodes.set_cut(view, false);
    nodes.world.run_for(60 * SECOND);
    assert_eq!(nodes.run(base, async { coordinator().outbox().pending().0 }), 0);
    assert_eq!(nodes.run(view, read_here("by_v")).len(), 1);
}
