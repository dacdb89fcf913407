//! Logs and their streams.

use super::*;
use crate::schema::testing::log as testing_log;
use crate::streams::Streams;
use model::schema::cdc::AHEAD_MICROS;
use model::{TabletMap, Token};
use std::sync::Arc;

const COLUMNS: [(&str, &str, ColumnKind); 2] =
    [("pk", "int", ColumnKind::PartitionKey), ("v", "text", ColumnKind::Regular)];

fn attached(log: &TableSchema, attached: bool) -> SchemaChange {
    let mut log = log.clone();
    log.log.as_mut().expect("a log").attached = attached;
    SchemaChange::AlterTable(log)
}

fn drop(name: &str) -> SchemaChange {
    SchemaChange::DropTable { keyspace: "ks".into(), name: name.into() }
}

fn streams(disk: &Disk) -> Arc<Streams> {
    disk.schema.table("ks", "t").expect("the table").streams.clone()
}

#[test]
fn a_log_is_where_its_base_is_and_has_a_stream_for_each_tablet() {
    let base = table("ks", "t", 5, &COLUMNS);
    let log = testing_log(&base, 6);
    let mut disk = Disk { timestamp: 1_000_000_000_000, ..Disk::new() };
    disk.change(vec![
        SchemaChange::CreateKeyspace(keyspace("ks", Some(8))),
        SchemaChange::CreateTable(base.clone()),
        SchemaChange::CreateTable(log.clone()),
    ]);
    assert_eq!(disk.load().as_ref(), Ok(&disk.schema));
    let entry = |disk: &Disk, name: &str| disk.schema.table("ks", name).expect("known").clone();
    let (known, its) = (entry(&disk, "t"), entry(&disk, "t_scylla_cdc_log"));
    assert_eq!((known.log, its.log, &known.replicas), (Some(log.id), None, &its.replicas));
    let set = known.streams.sets()[0].clone();
    let since = 1_000_000_000_000 - AHEAD_MICROS;
    assert_eq!((set.since_millis(), set.streams().len()), (since / 1000, 8));
    let apart = set.streams().iter().find(|stream| {
        its.replicas.tablet_of(stream.partition()) != its.replicas.tablet_of(stream.token())
    });
    assert_eq!(apart, None);
    // Who attaches it again reads the same streams on.
    disk.change(vec![attached(&log, false)]);
    assert_eq!((entry(&disk, "t").log, streams(&disk)), (None, known.streams.clone()));
    disk.change(vec![attached(&log, true)]);
    assert_eq!((entry(&disk, "t").log, streams(&disk)), (Some(log.id), known.streams.clone()));
    // Unless there are other tablets meanwhile.
    disk.change(vec![attached(&log, false)]);
    let last_tokens = TabletMap::tablets(16, 1).last_tokens().to_vec();
    let hosts = vec![vec![(HERE.host_id, 1)].into_boxed_slice(); 16];
    let replicas = crate::placement::TabletReplicas::new(last_tokens, hosts);
    let changed = replicas.differing(&its.replicas);
    let after = crate::schema::TabletsAfter { table: base.id, replicas, changed, resized: true };
    disk.mutations.extend(tablet_rows(&disk.schema, std::slice::from_ref(&after), disk.timestamp));
    disk.schema = disk.schema.clone().with_tablets(&[after]);
    disk.change(vec![attached(&log, true)]);
    let both = streams(&disk);
    let counts: Vec<usize> = both.sets().iter().map(|set| set.streams().len()).collect();
    assert_eq!(counts, [8, 16]);
    assert!(both.sets()[0].since_millis() < both.sets()[1].since_millis());
    let found = disk.load().expect("what was stored");
    assert_eq!(found.table("ks", "t").expect("the table").streams, both);
}

#[test]
fn a_node_alone_has_streams_of_its_ring_and_others_those_of_all() {
    let base = table("ks", "t", 5, &COLUMNS);
    let made = || {
        vec![
            SchemaChange::CreateKeyspace(keyspace("ks", None)),
            SchemaChange::CreateTable(base.clone()),
            SchemaChange::CreateTable(testing_log(&base, 6)),
        ]
    };
    let mut alone = Disk::new();
    alone.change(made());
    assert_eq!(streams(&alone).sets()[0].streams().len(), usize::from(SHARDS));
    assert!(streams(&alone).sets()[0].of(Token(5)).token() <= Token::MAX);
    assert_eq!(alone.load().as_ref(), Ok(&alone.schema));
    let topology = topology(&[member(9, ("d1", "r1"), &[7])]);
    let mut with_others = Disk { topology, ..Disk::new() };
    with_others.change(made());
    assert_eq!(streams(&with_others), Arc::default());
    assert_eq!(with_others.load().as_ref(), Ok(&with_others.schema));
}

#[test]
fn what_is_dropped_leaves_nothing() {
    let base = table("ks", "t", 5, &COLUMNS);
    let mut disk = Disk::new();
    let make = |disk: &mut Disk| {
        disk.change(vec![
            SchemaChange::CreateKeyspace(keyspace("ks", Some(2))),
            SchemaChange::CreateTable(base.clone()),
            SchemaChange::CreateTable(testing_log(&base, 6)),
        ]);
    };
    make(&mut disk);
    let refused = disk.schema.complete(vec![drop("t")], 9000, &disk.topology, HERE, 1.0);
    let text = "ks.t_scylla_cdc_log is the log of t, which is no table".to_owned();
    assert_eq!(refused.map(|_| ()), Err(text));
    let rows = |disk: &Disk, name: &'static str| {
        let of = &disk.schema.table(keyspace_of(name), name).expect("known").schema;
        testing::rows(of, &disk.mutations).len()
    };
    assert_eq!((rows(&disk, "nereid_streams"), rows(&disk, "nereid_logs")), (2, 1));
    disk.change(vec![drop("t"), drop("t_scylla_cdc_log")]);
    assert_eq!((rows(&disk, "nereid_streams"), rows(&disk, "nereid_logs")), (0, 0));
    disk.change(vec![SchemaChange::DropKeyspace("ks".into())]);
    make(&mut disk);
    disk.change(vec![SchemaChange::DropKeyspace("ks".into())]);
    assert_eq!((rows(&disk, "nereid_streams"), rows(&disk, "nereid_logs")), (0, 0));
    assert_eq!(disk.load().as_ref(), Ok(&disk.schema));
}

/// *told-when-known*
#[test]
fn nodes_that_know_no_logs_are_not_told_of_any() {
    let ids = [("system_schema", "nereid_logs"), ("system", "nereid_streams")]
        .map(|(keyspace, name)| crate::system_tables::table_id(keyspace, name));
    let mut disk = Disk::new();
    let made = table("ks", "t", 5, &COLUMNS);
    disk.change(vec![
        SchemaChange::CreateKeyspace(keyspace("ks", Some(2))),
        SchemaChange::CreateTable(made.clone()),
        SchemaChange::AlterTable(made),
    ]);
    disk.change(vec![drop("t"), SchemaChange::DropKeyspace("ks".into())]);
    let table = |row: &FrozenMutation| row.view().expect("a mutation").table();
    assert!(disk.mutations.iter().all(|row| !ids.contains(&table(row))));
}

#[test]
fn damage_of_logs_and_streams_is_told() {
    let base = table("ks", "t", 5, &COLUMNS);
    let mut disk = Disk::new();
    disk.change(vec![
        SchemaChange::CreateKeyspace(keyspace("ks", Some(2))),
        SchemaChange::CreateTable(base.clone()),
        SchemaChange::CreateTable(testing_log(&base, 6)),
    ]);
    let check = |table: &'static str, column: &str, value: &[u8], expected: &str| {
        let mut stored = Stored::default();
        for name in TABLES {
            let of = &disk.schema.table(keyspace_of(name), name).expect("known").schema;
            let mut rows = testing::rows(of, &disk.mutations);
            if name == table {
                let row = rows.last_mut().expect("a row");
                row.insert(column.to_owned(), value.to_vec());
            }
            stored.add(name, rows);
        }
        let mut schema = Schema::<()>::of_system(Uuid::nil(), SHARDS);
        let found = read::load(&mut schema, &stored, HERE).expect_err(expected).to_string();
        assert!(found.contains(expected), "{found}");
    };
    let log = Uuid::from_u128(6);
    check("nereid_logs", "base_id", &[7; 16], "is the log of 07070707-");
    check("nereid_logs", "base_id", log.as_bytes(), "not there");
    check("nereid_logs", "base_id", &[7; 3], "base_id has 3 bytes");
    check("nereid_streams", "last_token", &i64::MIN.to_be_bytes(), "are out of order");
    check("nereid_streams", "streams", &[0, 0, 0, 0], "has 0 streams");
    check("nereid_streams", "streams", &[0, 0, 0, 1, 0, 0, 0, 1, 9], "a stream that is none");
    check("nereid_streams", "streams", &[9, 9], "is not a list of values");
}
