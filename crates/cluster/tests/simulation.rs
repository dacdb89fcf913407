//! A simulated node whose schema changes while it crashes: what was acknowledged is there, what
//! was not is there as a whole or not at all, and all shards say the same.

use cluster::{BootConfig, ChangeError, Cluster, CompactionRecord, Event, NodeConfig};
use cluster::{Schema, SchemaChange};
use model::{Column, ColumnId, ColumnKind, Keyspace, TableSchema, Token, Type, UserType, Uuid};
use mutation::PurgeCounts;
use runtime::sim::{NodeId, Options, World};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;
use storage::{CompactedSstable, FinishedCompaction, Generation, RunningCompaction};

fn config() -> BootConfig {
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut storage = storage::Config::new("/node", Uuid::nil());
    storage.segment_bytes = 1 << 20;
    storage.commitlog_bytes_max = 16 << 20;
    storage.memtable_bytes_max = 4 << 20;
    BootConfig {
        node: NodeConfig {
            cluster_name: "test".into(),
            data_center: "dc1".into(),
            rack: "r1".into(),
            listen_address: address,
            broadcast_address: address,
            rpc_address: address,
            listen_port: 7000,
            rpc_port: Some(9042),
            num_tokens: 4,
            initial_tokens: Vec::new(),
        },
        storage,
    }
}

fn keyspace(name: &str, initial_tablets: Option<u32>) -> Keyspace {
    Keyspace {
        name: name.to_owned(),
        replication: vec![
            ("class".into(), "SimpleStrategy".into()),
            ("replication_factor".into(), "1".into()),
        ],
        durable_writes: true,
        initial_tablets,
        storage: Vec::new(),
    }
}

fn table(keyspace: &str, name: &str, ty: Type) -> TableSchema {
    let column = |id: u32, name: &str, kind, ty| Column {
        id: ColumnId(id),
        name: name.to_owned(),
        kind,
        position: 0,
        ty,
        reversed: false,
    };
    TableSchema {
        id: Cluster::new_table_id(),
        keyspace: keyspace.to_owned(),
        name: name.to_owned(),
        columns: vec![
            column(0, "pk", ColumnKind::PartitionKey, Type::Int),
            column(1, "v", ColumnKind::Regular, ty),
        ],
        next_column_id: 2,
        ..cluster::system_tables::table("system", "local")
    }
}

/// A schema as test and node can compare it: the tables of each keyspace, with their columns.
type Names = BTreeMap<String, BTreeMap<String, Vec<String>>>;

fn names(schema: &Schema) -> Names {
    let user = schema.keyspaces.iter().filter(|(name, _)| !Schema::is_system(name));
    user.map(|(name, keyspace)| {
        let tables = keyspace.tables.iter().map(|(name, table)| {
            let columns = table.schema.columns.iter();
            (name.clone(), columns.map(|column| column.name.clone()).collect())
        });
        (name.clone(), tables.collect())
    })
    .collect()
}

/// What the node may hold.
#[derive(Clone, Debug, Default)]
struct Known {
    acknowledged: Names,
    /// After the change in progress.
    attempted: Option<Names>,
    changes: u64,
}

/// One random change that suits the schema, and what the schema is then.
fn draw(before: &Names, number: u64) -> (Vec<SchemaChange>, Names) {
    let mut after = before.clone();
    let pick = |count: u64| runtime::random_u64() % count;
    let space = format!("ks{}", pick(2));
    let Some(tables) = after.get_mut(&space) else {
        let tablets = [None, Some(0), Some(4)][pick(3) as usize];
        after.insert(space.clone(), BTreeMap::new());
        return (vec![SchemaChange::CreateKeyspace(keyspace(&space, tablets))], after);
    };
    let name = format!("t{}", pick(3));
    let changes = match (tables.contains_key(&name), pick(8)) {
        (_, 0) => {
            after.remove(&space);
            vec![SchemaChange::DropKeyspace(space)]
        }
        (false, _) => {
            tables.insert(name.clone(), vec!["pk".into(), "v".into()]);
            vec![SchemaChange::CreateTable(table(&space, &name, Type::Int))]
        }
        (true, 1..5) => {
            tables.remove(&name);
            vec![SchemaChange::DropTable { keyspace: space, name }]
        }
        (true, _) => {
            let column = format!("w{number}");
            let columns = tables.get_mut(&name).expect("the table is there");
            columns.push(column.clone());
            columns[1..].sort();
            let cluster = runtime::local::get::<Cluster>();
            let schema = cluster.schema();
            let mut table = (*schema.table(&space, &name).expect("the table").schema).clone();
            let id = ColumnId(table.next_column_id);
            let (kind, ty) = (ColumnKind::Regular, Type::Text);
            table.columns.push(Column { id, name: column, kind, position: 0, ty, reversed: false });
            table.next_column_id += 1;
            vec![SchemaChange::AlterTable(table)]
        }
    };
    (changes, after)
}

/// Changes the schema for ever.
async fn change_for_ever(known: Rc<RefCell<Known>>) {
    let cluster = runtime::local::get::<Cluster>();
    loop {
        let before = known.borrow().acknowledged.clone();
        let number = known.borrow().changes;
        let (changes, after) = draw(&before, number);
        known.borrow_mut().attempted = Some(after.clone());
        let told = changes.len();
        let changed = cluster.change_schema(move |_| Ok::<_, ()>(changes)).await;
        assert_eq!(changed.map(|events| events.len()), Ok(told));
        let mut known = known.borrow_mut();
        known.acknowledged = after;
        known.attempted = None;
        known.changes += 1;
    }
}

/// The schema of every shard, as text.
async fn all_schemas() -> Vec<String> {
    let show = || async {
        let schema = runtime::local::get::<Cluster>().schema();
        let tables: BTreeSet<String> = schema
            .keyspaces
            .values()
            .flat_map(|keyspace| keyspace.tables.values())
            .map(|table| format!("{:?} {:?}", table.schema, table.tablets))
            .collect();
        format!("{} {tables:?}", schema.version)
    };
    runtime::on_all_shards(show).await
}

fn crash_rounds(seed: u64) {
    let shards = 1 + (seed % 3) as u16;
    let mut world = World::new(Options::new(seed));
    let node = world.add_node(shards);
    let known = Rc::new(RefCell::new(Known::default()));
    let mut host_id = None;
    for round in 0..6 {
        let checked = known.clone();
        let id = world.block_on(node, 0, async move {
            cluster::boot(config()).await.expect("a start");
            let schemas = all_schemas().await;
            assert!(schemas.windows(2).all(|pair| pair[0] == pair[1]), "shards differ");
            let cluster = runtime::local::get::<Cluster>();
            let found = names(&cluster.schema());
            let mut known = checked.borrow_mut();
            let attempted = known.attempted.take();
            let allowed = found == known.acknowledged || Some(&found) == attempted.as_ref();
            assert!(allowed, "seed {seed} round {round}: found {found:?}, expected {known:?}");
            known.acknowledged = found;
            cluster.node().host_id
        });
        assert_eq!(*host_id.get_or_insert(id), id, "seed {seed}: another host id");
        run_a_while(&mut world, node, known.clone());
        world.crash(node);
    }
    assert!(0 < known.borrow().changes, "seed {seed}: nothing was changed");
}

/// Changes the schema for a random time; a change in progress when it is over goes on.
fn run_a_while(world: &mut World, node: NodeId, known: Rc<RefCell<Known>>) {
    let span = Duration::from_micros(world.random_u64() % 60_000);
    world.block_on(node, 0, async move {
        let changing = change_for_ever(known);
        runtime::time::timeout(span, changing).await.expect_err("it never ends");
    });
}

#[test]
fn schema_changes_survive_crashes_as_a_whole() {
    for seed in 0..20 {
        crash_rounds(seed);
    }
}

#[test]
fn shards_agree_and_subscribers_are_told() {
    let mut world = World::new(Options::new(7));
    let node = world.add_node(3);
    world.block_on(node, 0, async {
        cluster::boot(config()).await.expect("a start");
        let cluster = runtime::local::get::<Cluster>();
        let mut events = cluster.subscribe();
        let user = UserType {
            keyspace: "ks".into(),
            name: "u".into(),
            fields: vec![("f".into(), Type::Int)],
        };
        let made = table("ks", "t", Type::Text);
        let changes = vec![
            SchemaChange::CreateKeyspace(keyspace("ks", Some(2))),
            SchemaChange::CreateType(user),
            SchemaChange::CreateTable(made),
        ];
        // Asked of another shard, decided on the first.
        let ask = move || async move {
            let cluster = runtime::local::get::<Cluster>();
            let version = cluster.schema().version;
            let told = cluster.change_schema(move |_| Ok::<_, ()>(changes)).await;
            assert_ne!(cluster.schema().version, version);
            told
        };
        let told = runtime::on_shard(2, ask).await.expect("a change");
        for expected in told {
            assert_eq!(events.next().await, Some(Event::Schema(expected)));
        }
        let schemas = all_schemas().await;
        assert!(schemas.iter().all(|schema| *schema == schemas[0]));
        let again = SchemaChange::CreateKeyspace(keyspace("ks", None));
        let refused = cluster.change_schema(|_| Err::<Vec<SchemaChange>, _>("no")).await;
        assert_eq!(refused, Err(ChangeError::Refused("no")));
        let failed = cluster.change_schema(move |_| Ok::<_, ()>(vec![again])).await;
        assert_eq!(failed, Err(ChangeError::Failed("keyspace ks already exists".into())));
        assert_eq!(all_schemas().await, schemas);
    });
}

#[test]
fn a_node_stops_and_starts_as_the_same_node() {
    let mut world = World::new(Options::new(11));
    let node = world.add_node(2);
    let mut seen: Vec<(Uuid, Vec<Token>, i32)> = Vec::new();
    for _ in 0..3 {
        let identity = world.block_on(node, 0, async {
            cluster::boot(config()).await.expect("a start");
            let node = runtime::local::get::<Cluster>().node().clone();
            cluster::stop().await.expect("a stop");
            (node.host_id, node.tokens, node.generation)
        });
        world.crash(node);
        seen.push(identity);
    }
    assert!(seen.windows(2).all(|pair| pair[0].0 == pair[1].0 && pair[0].1 == pair[1].1));
    assert!(seen.windows(2).all(|pair| pair[0].2 < pair[1].2));
    assert_eq!(seen[0].1.len(), 4);
}

#[test]
fn merges_that_have_ended_are_told_for_a_week() {
    let mut world = World::new(Options::new(12));
    let node = world.add_node(2);
    world.block_on(node, 0, async {
        cluster::boot(config()).await.expect("a start");
        let cluster = runtime::local::get::<Cluster>();
        let now = runtime::time::wall_micros();
        let named = Generation::new(now, 9);
        let sstable = |generation, disk_bytes| CompactedSstable {
            generation,
            origin: "memtable".to_owned(),
            disk_bytes,
        };
        let ended = |number: u128, name: &str, ended_micros| FinishedCompaction {
            job: RunningCompaction {
                id: Uuid::from_u128(number),
                table: Uuid::from_u128(7),
                keyspace: "system".to_owned(),
                name: name.to_owned(),
                kind: "Compaction",
                started_micros: ended_micros - 5000,
                bytes_in: 100,
                partitions: 3,
                partitions_done: 3,
                rows_done: 4,
                bytes_written: 70,
                done_millionths: 1_000_000,
            },
            ended_micros,
            bytes_out: 60,
            merged: vec![(1, 5), (2, 7)],
            purges: PurgeCounts { tried: 4, kept_for_memtables: 2, kept_for_sstables: 1 },
            inputs: vec![sstable(Generation::Number(7), 60), sstable(named, 40)],
            outputs: (0..200).map(|size| sstable(named, size)).collect(),
        };
        let week = 7 * 86_400_000_000;
        let merges = [
            ended(1, "peers", now - 2_000_000),
            ended(2, "local", now),
            ended(3, "gone", now - week - 1_000_000),
            ended(4, "compaction_history", now),
        ];
        for merge in &merges {
            cluster.note_compaction(1, merge).await.expect("a written row");
        }
        let told = cluster.compaction_history().await.expect("the history");
        let names: Vec<_> = told.iter().map(|record| record.table.as_str()).collect();
        assert_eq!(names, ["local", "peers"]);
        let expected = CompactionRecord {
            id: Uuid::from_u128(2),
            keyspace: "system".to_owned(),
            table: "local".to_owned(),
            kind: "Compaction".to_owned(),
            shard: 1,
            started_at: (now - 5000).div_euclid(1000),
            ended_at: now.div_euclid(1000),
            bytes_in: 100,
            bytes_out: 60,
            merged: merges[1].merged.clone(),
            purges: merges[1].purges,
            inputs: merges[1].inputs.clone(),
            outputs: merges[1].outputs.clone(),
        };
        assert_eq!(told[0], expected);
        cluster::stop().await.expect("a stop");
    });
}
