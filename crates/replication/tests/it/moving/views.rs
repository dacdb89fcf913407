//! Views of tables that are written while nodes join and leave: the ranges of both move, and
//! neither waits for the other.
//!
//! Invariants
//!  - *views-follow*: when all is quiet, a view is read at ALL with just the rows of its base
//!    table.

use super::world::{Nodes, SECOND};
use cluster::{Cluster, SchemaChange};
use model::schema::View;
use model::{TableSchema, Token, Type, Uuid};
use mutation::page::{ColumnForm, PageView, Partitions, ReadCommand};
use mutation::{MutationBuilder, RowBuilder, Tombstone};
use replication::coordinator::build;
use replication::{Consistency, Coordinator, ReadOptions, WriteKind, WriteOptions, moves};
use runtime::time::{sleep, wall_micros};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use stdx::Prng;
use testkit::config::{entry, keyspace};
use testkit::rows;

/// One of a ring and one with tablets; the keyspace of each has its name.
const TABLES: [&str; 2] = ["ring", "tablets"];
const KEYS: u64 = 400;
const VALUES: u64 = 40;

/// `(pk int PRIMARY KEY, v int)`
async fn make_tables(copies: u32) {
    let mut changes = Vec::new();
    for (name, tablets) in TABLES.into_iter().zip([None, Some(8)]) {
        changes.push(SchemaChange::CreateKeyspace(keyspace(name, copies, tablets)));
        let base = TableSchema::builder(name, name, Cluster::new_table_id());
        let base = base.partition_key("pk", Type::Int).regular("v", Type::Int);
        changes.push(SchemaChange::CreateTable(base.build().expect("a table")));
    }
    let decide = move |_: &cluster::Schema| Ok::<_, ()>(changes.clone());
    let changed = runtime::local::get::<Cluster>().change_schema(decide).await;
    changed.expect("tables");
}

/// Of each table a view by `v`.
async fn make_views() {
    let decide = |schema: &cluster::Schema| {
        let view_of = |name: &&str| {
            let base = schema.table(name, name).expect("a table").schema.id;
            let view = TableSchema::builder(name, "by_v", Uuid::from_u128(name.len() as u128));
            let view = view.partition_key("v", Type::Int).clustering("pk", Type::Int);
            let mut view = view.build().expect("a view");
            view.view = Some(Box::new(View {
                base,
                base_name: (*name).to_owned(),
                where_clause: "v IS NOT NULL".to_owned(),
                lives_by_marker: true,
                ..View::default()
            }));
            SchemaChange::CreateTable(view)
        };
        Ok::<_, ()>(TABLES.iter().map(view_of).collect())
    };
    let changed = runtime::local::get::<Cluster>().change_schema(decide).await;
    changed.expect("views");
}

/// What clients on all nodes share.
#[derive(Default)]
struct Model {
    time: Cell<i64>,
    quiet: Cell<bool>,
    acknowledged: Cell<u64>,
}

async fn client(model: Rc<Model>, mut prng: Prng) {
    while !model.quiet.get() {
        model.time.set(model.time.get() + 1);
        let (name, at) = (*prng.pick(&TABLES).expect("a table"), model.time.get());
        let (pk, value) = (prng.below(KEYS) as i32, prng.below(VALUES) as i32);
        let Some(table) = runtime::local::get::<Cluster>().schema().table(name, name).cloned()
        else {
            // Another node has made it.
            sleep(Duration::from_millis(5)).await;
            continue;
        };
        let write = match prng.one_in(5) {
            false => rows::put(&table, pk, value, at),
            true => {
                let mut row = RowBuilder::new(Vec::new());
                row.tombstone(Tombstone::new(at, wall_micros() / 1_000_000));
                let mut builder = MutationBuilder::new(&table.schema, &rows::key(pk));
                builder.row(&[], &row.finish());
                builder.freeze()
            }
        };
        let (consistency, kind) = (Consistency::All, WriteKind::Simple);
        let options = WriteOptions { consistency, timeout: 5 * SECOND, kind, limit: None };
        let coordinator = runtime::local::get::<Coordinator>();
        if coordinator.write(&table, rows::token(pk), write, &options).await.is_ok() {
            model.acknowledged.set(model.acknowledged.get() + 1);
        }
        sleep(Duration::from_micros(prng.below(10_000))).await;
    }
}

/// The keys and values of a table, or of the view that has them as values and keys.
async fn read_all(keyspace: &'static str, name: &'static str) -> BTreeSet<(i32, i32)> {
    let table = entry(keyspace, name);
    let is_view = table.schema.view.is_some();
    let column = table.schema.column("v").expect("a column").id;
    let mut command = ReadCommand {
        columns: if is_view { Vec::new() } else { vec![(column, ColumnForm::Value)] },
        ..ReadCommand::all(table.schema.id, Partitions::all(), wall_micros().div_euclid(1_000_000))
    };
    let int = |bytes: &[u8]| i32::from_be_bytes(bytes.try_into().expect("an int"));
    let options = ReadOptions::new(Consistency::All, 20 * SECOND);
    let mut found = BTreeSet::new();
    loop {
        let coordinator = runtime::local::get::<Coordinator>();
        let page = coordinator.read(&table, Token::MIN, &command, &options).await.expect("a page");
        let view = PageView::parse(&page.bytes, command.layout()).expect("a page");
        for partition in view.partitions() {
            let key = int(partition.key());
            for row in partition.rows() {
                match (is_view, row.columns().next().and_then(|it| it.value)) {
                    (true, _) => drop(found.insert((int(&row.clustering()[2..6]), key))),
                    (false, Some(value)) => drop(found.insert((key, int(value)))),
                    (false, None) => {}
                }
            }
        }
        match page.resume {
            Some(resume) => command.resume = Some(resume),
            None => return found,
        }
    }
}

/// When views are made.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Made {
    WithTables,
    /// Of data that are there.
    WhileOneJoins,
    WhileOneLeaves,
}

/// Four nodes, of which one joins late and one leaves, beside clients.
fn follow(seed: u64, made: Made, planted: Option<bool>) -> Result<(), String> {
    let mut prng = Prng::from_seed(seed);
    let copies = 1 + (seed % 3) as u32;
    let machine = |number: u64| (format!("r{}", number % 3), prng.between(1, 3) as u16);
    let machines: Vec<_> = (0..5).map(machine).collect();
    let mut nodes = Nodes::new(seed, &machines, 1, None);
    for node in 0..4 {
        nodes.start(node);
        assert!(nodes.wait(node), "node {node} is none of the cluster");
        if let Some(gives_files) = planted {
            nodes.run(node, build::plant(gives_files));
        }
    }
    nodes.run(0, make_tables(copies));
    if made == Made::WithTables {
        nodes.run(0, make_views());
    }
    let model = Rc::new(Model::default());
    for node in 0..3 {
        nodes.begin(node, client(model.clone(), prng.fork()));
    }
    nodes.world.run_for(SECOND);
    nodes.start(4);
    if made == Made::WhileOneJoins {
        nodes.world.run_for(Duration::from_millis(prng.below(1500)));
        nodes.run(0, make_views());
    }
    assert!(nodes.wait(4), "node 4 is none of the cluster");
    nodes.begin(3, async { moves::leave(true).await.expect("it may leave") });
    if made == Made::WhileOneLeaves {
        nodes.world.run_for(Duration::from_millis(prng.below(3000)));
        nodes.run(0, make_views());
    }
    let has_left = |nodes: &mut Nodes| {
        nodes.run(0, async { runtime::local::get::<Cluster>().topology().present().count() == 4 })
    };
    for _ in 0..300 {
        if has_left(&mut nodes) {
            break;
        }
        nodes.world.run_for(SECOND);
    }
    assert!(has_left(&mut nodes), "seed {seed}: node 3 does not leave");
    nodes.world.run_for(SECOND);
    nodes.crash(3);
    model.quiet.set(true);
    nodes.world.run_for(60 * SECOND);
    for name in TABLES {
        let base = nodes.run(0, read_all(name, name));
        let view = nodes.run(1, read_all(name, "by_v"));
        let (ghosts, lacks) = (&view - &base, &base - &view);
        if view != base {
            let what = format!("{ghosts:?} are too many, {lacks:?} are missing");
            return Err(format!("seed {seed}, {copies} copies, {name}: {what}"));
        }
        assert!(20 < base.len(), "seed {seed}: {} rows of {name}", base.len());
    }
    let written = model.acknowledged.get();
    assert!(200 < written, "seed {seed}: {written} writes were acknowledged");
    Ok(())
}

#[test]
fn views_follow_tables_that_move() {
    for seed in runtime::sim::seeds(2) {
        let followed = follow(seed, Made::WithTables, None);
        assert!(followed.is_ok(), "{}", followed.unwrap_err());
    }
}

/// Views that take their time.
fn follow_built(seed: u64, gives_files: bool) -> Result<(), String> {
    let made = if seed.is_multiple_of(2) { Made::WhileOneJoins } else { Made::WhileOneLeaves };
    follow(seed, made, Some(gives_files))
}

/// *moves-lose-nothing*, of `coordinator::build`.
#[test]
fn views_that_are_built_while_tables_move_are_whole() {
    for seed in runtime::sim::seeds(4) {
        let built = follow_built(seed, false);
        assert!(built.is_ok(), "{}", built.unwrap_err());
    }
}

#[test]
fn what_is_in_no_view_and_given_as_files_is_caught() {
    let caught = (0..8).find(|seed| follow_built(*seed, true).is_err());
    assert!(caught.is_some(), "files of what is in no view are not caught");
}
