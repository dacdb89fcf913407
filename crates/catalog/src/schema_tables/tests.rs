mod logs;

use super::stored::{Stored, TABLES, keyspace_of};
use super::*;
use crate::command::Command;
use crate::placement::{Here, Resize};
use crate::rows::{Row, testing};
use crate::schema::SchemaChange;
use crate::schema::testing::{indexed, keyspace, log as testing_log, table, view as testing_view};
use crate::topology::testing::{member, topology};
use crate::topology::{Member, Topology};
use crate::uuids::time_uuid;
use model::schema::{DroppedColumn, NullInput, UserAggregate, UserFunction};
use model::{Column, ColumnId, ColumnKind, TableSchema, Token, Type, UserType, Uuid};
use proptest::prelude::*;
use std::rc::Rc;

const SHARDS: u16 = 3;
const HERE: Here = Here { host_id: Uuid::from_u128(77), shards: SHARDS };

/// Replays a history of statements, and reads back what it has stored.
struct Disk {
    schema: Schema,
    topology: Topology,
    mutations: Vec<FrozenMutation>,
    timestamp: i64,
}

impl Disk {
    fn new() -> Disk {
        let schema = Schema::of_system(Uuid::from_u128(1), SHARDS);
        let topology = Topology::default();
        Disk { schema, topology, mutations: Vec::new(), timestamp: 1000 }
    }

    fn change(&mut self, changes: Vec<SchemaChange>) {
        let complete = self.schema.complete(changes, self.timestamp, &self.topology, HERE, 1.0);
        let complete = complete.expect("valid");
        let (mut mutations, last) = mutations(&self.schema, &complete, self.timestamp);
        self.timestamp = last;
        self.mutations.append(&mut mutations);
        self.schema = self.schema.apply(&complete, self.schema.version);
    }

    fn load(&self) -> Result<Schema, DamagedSchema> {
        self.load_on(HERE)
    }

    fn load_on(&self, here: Here) -> Result<Schema, DamagedSchema> {
        let mut stored = Stored::default();
        for name in TABLES {
            let table = &self.schema.table(keyspace_of(name), name).expect("known").schema;
            stored.add(name, testing::rows(table, &self.mutations));
        }
        let mut schema = Schema::of_system(self.schema.version, here.shards);
        read::load(&mut schema, &stored, here)?;
        Ok(schema)
    }
}

fn drop_column(table: &TableSchema, name: &str, at: i64) -> TableSchema {
    let mut table = table.clone();
    let index = table.columns.iter().position(|column| column.name == name).expect("a column");
    let column = table.columns.remove(index);
    let (id, name, ty, kind) = (column.id, column.name, column.ty, column.kind);
    table.dropped.push(DroppedColumn { id, name, ty, kind, dropped_at: at });
    table
}

fn add_column(table: &TableSchema, name: &str, ty: Type) -> TableSchema {
    let mut table = table.clone();
    table.columns.push(model::Column {
        id: ColumnId(table.next_column_id),
        name: name.to_owned(),
        kind: ColumnKind::Regular,
        position: 0,
        ty,
        reversed: false,
    });
    table.next_column_id += 1;
    table
}

#[test]
fn a_column_dropped_and_added_again_has_another_id() {
    let mut disk = Disk::new();
    let columns = [("pk", "int", ColumnKind::PartitionKey), ("v", "text", ColumnKind::Regular)];
    let first = table("ks", "t", 5, &columns);
    let create = SchemaChange::CreateKeyspace(keyspace("ks", Some(4)));
    disk.change(vec![create, SchemaChange::CreateTable(first.clone())]);
    let second = drop_column(&first, "v", 500);
    disk.change(vec![SchemaChange::AlterTable(second.clone())]);
    let third = add_column(&second, "v", Type::Int);
    disk.change(vec![SchemaChange::AlterTable(third.clone())]);
    disk.change(vec![SchemaChange::AlterTable(drop_column(&third, "v", 900))]);
    let loaded = disk.load().expect("what was stored");
    assert_eq!(loaded, disk.schema);
    let table = &loaded.table("ks", "t").expect("the table").schema;
    assert_eq!(table.dropped.len(), 2);
    assert_eq!(table.next_column_id, 3);
    assert_eq!(loaded.table("ks", "t").expect("the table").tablets.count(), 4);
}

#[test]
fn a_table_dropped_and_created_again_leaves_nothing_of_the_first() {
    let mut disk = Disk::new();
    let columns = [("pk", "int", ColumnKind::PartitionKey), ("v", "text", ColumnKind::Regular)];
    let drop = || SchemaChange::DropTable { keyspace: "ks".into(), name: "t".into() };
    disk.change(vec![SchemaChange::CreateKeyspace(keyspace("ks", None))]);
    disk.change(vec![SchemaChange::CreateTable(table("ks", "t", 5, &columns))]);
    disk.change(vec![drop(), SchemaChange::CreateTable(table("ks", "t", 6, &columns[..1]))]);
    assert_eq!(disk.load().as_ref(), Ok(&disk.schema));
    disk.change(vec![SchemaChange::DropKeyspace("ks".into())]);
    assert_eq!(disk.load().as_ref(), Ok(&disk.schema));
    assert!(disk.schema.keyspace("ks").is_none());
    disk.change(vec![SchemaChange::CreateKeyspace(keyspace("ks", Some(0)))]);
    assert_eq!(disk.load().as_ref(), Ok(&disk.schema));
}

#[test]
fn all_replicas_of_tablets_are_read_back_and_each_node_has_its_own() {
    let node = |number: u8, rack| member(number, ("d1", rack), &[i64::from(number)]);
    let own = Member { host_id: HERE.host_id, shards: SHARDS, ..node(9, "r1") };
    let topology = topology(&[node(1, "r1"), node(2, "r2"), own]);
    let mut disk = Disk { topology, ..Disk::new() };
    let mut space = keyspace("ks", Some(8));
    space.replication[1].1 = "2".to_owned();
    let columns = [("pk", "int", ColumnKind::PartitionKey)];
    let made = SchemaChange::CreateTable(table("ks", "t", 5, &columns));
    disk.change(vec![SchemaChange::CreateKeyspace(space), made]);
    assert_eq!(disk.load().as_ref(), Ok(&disk.schema));
    let here = disk.schema.table("ks", "t").expect("the table").clone();
    assert!(here.replicas.iter().all(|of| of.len() == 2));
    for (host, shards) in [(HERE.host_id, SHARDS), (Uuid::from_u128(1), 2)] {
        let there = disk.load_on(Here { host_id: host, shards }).expect("what was stored");
        let there = there.table("ks", "t").expect("the table").clone();
        assert_eq!(there.replicas, here.replicas);
        assert_eq!(there.tablets.last_tokens(), here.tablets.last_tokens());
        let mut held = 0;
        for (index, of) in here.replicas.iter().enumerate() {
            let own = of.iter().find(|(replica, _)| *replica == host);
            let expected = own.map_or((index % usize::from(shards)) as u16, |(_, shard)| *shard);
            assert_eq!(there.tablets.shards()[index], expected);
            held += usize::from(own.is_some());
        }
        assert!(0 < held && held < 8, "{held} of 8 tablets");
    }
}

#[test]
fn times_of_repairs_are_read_back_and_stay_with_what_follows() {
    let mut disk = Disk::new();
    let columns = [("pk", "int", ColumnKind::PartitionKey)];
    let made = SchemaChange::CreateTable(table("ks", "t", 5, &columns));
    disk.change(vec![SchemaChange::CreateKeyspace(keyspace("ks", Some(4))), made]);
    let (id, other) = (Uuid::from_u128(5), Uuid::from_u128(6));
    let entry = |disk: &Disk| disk.schema.table("ks", "t").expect("the table").clone();
    let (after, last) = entry(&disk).replicas.range(2);
    let note = |disk: &mut Disk, ranges: &[((Token, Token), i64)]| {
        let ranges = ranges.to_vec();
        let repairs = [(id, ranges.clone()), (other, ranges)].into();
        let Some(command) = Command::of_repairs(&disk.schema, &repairs, disk.timestamp) else {
            return false;
        };
        disk.timestamp = command.last_timestamp();
        disk.mutations.extend(command.rows(&disk.schema));
        disk.schema = disk.schema.clone().with_tablets(command.tablets());
        assert_eq!(disk.load().as_ref(), Ok(&disk.schema));
        true
    };
    let of_one = ((Token(after.0 + 1), last), 1_700_000_000_123);
    assert!(note(&mut disk, &[of_one]));
    assert!(!note(&mut disk, &[of_one]), "it is known");
    assert!(!note(&mut disk, &[((of_one.0.0, Token(last.0 - 1)), i64::MAX)]), "of a part");
    assert_eq!(entry(&disk).replicas.repaired(), &[(2, of_one.1)].into());
    assert!(note(&mut disk, &[((Token::MIN, Token::MAX), 1_600_000_000_000)]));
    let times: Vec<i64> = entry(&disk).replicas.repaired().values().copied().collect();
    let early = 1_600_000_000_000;
    assert_eq!(times, [early, early, of_one.1, early]);
    // Other tablets take the rows of these away, with what is said of them.
    let resizes = [(id, Resize::Merge)].into();
    let command = Command::of_resizes(&disk.schema, &resizes, disk.timestamp).expect("halves");
    disk.timestamp = command.last_timestamp();
    disk.mutations.extend(command.rows(&disk.schema));
    disk.schema = disk.schema.clone().with_tablets(command.tablets());
    let loaded = disk.load().expect("what was stored");
    let loaded = &loaded.table("ks", "t").expect("the table").replicas;
    assert_eq!(loaded, &entry(&disk).replicas);
    assert_eq!(loaded.repaired(), &[(0, early), (1, early)].into());
}

#[test]
fn replicas_that_cannot_be_are_damage() {
    let mut disk = Disk::new();
    let columns = [("pk", "int", ColumnKind::PartitionKey)];
    let made = SchemaChange::CreateTable(table("ks", "t", 5, &columns));
    disk.change(vec![SchemaChange::CreateKeyspace(keyspace("ks", Some(1))), made]);
    let check = |replicas: &[(u128, i32)], expected: Option<&str>| {
        let mut bytes = (replicas.len() as i32).to_be_bytes().to_vec();
        for (host, shard) in replicas {
            let host = Uuid::from_u128(*host);
            let mut tuple = Vec::new();
            let shard = shard.to_be_bytes();
            let parts = [Some(&host.as_bytes()[..]), Some(&shard[..])];
            model::value::collection::write_tuple(parts.into_iter(), &mut tuple);
            bytes.extend((tuple.len() as i32).to_be_bytes());
            bytes.extend(tuple);
        }
        let id = Uuid::from_u128(5);
        let row: Row = [
            ("table_id".to_owned(), id.as_bytes().to_vec()),
            ("last_token".to_owned(), i64::MAX.to_be_bytes().to_vec()),
            ("replicas".to_owned(), bytes),
        ]
        .into();
        let mut stored = Stored::default();
        for name in TABLES.into_iter().filter(|name| *name != "tablets") {
            let table = &disk.schema.table(keyspace_of(name), name).expect("known").schema;
            stored.add(name, testing::rows(table, &disk.mutations));
        }
        stored.add("tablets", vec![row]);
        let mut schema = Schema::<()>::of_system(disk.schema.version, SHARDS);
        let found = read::load(&mut schema, &stored, HERE).map_err(|damaged| damaged.what);
        assert_eq!(found.err().as_deref(), expected, "{replicas:?}");
    };
    check(&[], None);
    check(&[(1, 0), (2, 65535)], None);
    check(&[(1, -1)], Some("a tablet on no shard"));
    check(&[(1, 65536)], Some("a tablet on no shard"));
    let twice = format!("a tablet is twice on node {}", Uuid::from_u128(1));
    check(&[(1, 0), (2, 0), (1, 1)], Some(&twice));
}

#[test]
fn two_stored_tables_of_one_id_are_damage() {
    let columns = [("pk", "int", ColumnKind::PartitionKey)];
    let of_two = |ids: [u128; 2]| {
        let mut disks = [("a", ids[0]), ("b", ids[1])].map(|(name, id)| {
            let mut disk = Disk::new();
            disk.change(vec![SchemaChange::CreateKeyspace(keyspace("ks", None))]);
            disk.change(vec![SchemaChange::CreateTable(table("ks", name, id, &columns))]);
            disk
        });
        let others = std::mem::take(&mut disks[1].mutations);
        disks[0].mutations.extend(others);
        disks[0].load()
    };
    assert!(of_two([5, 6]).is_ok());
    let damaged = of_two([5, 5]).expect_err("one id for two tables");
    let id = Uuid::from_u128(5);
    assert_eq!(damaged.what, format!("two tables with the id {id}"));
}

#[test]
fn types_of_types_are_found_in_any_order() {
    let mut disk = Disk::new();
    let user = |name: &str, ty: Type| {
        let fields = vec![("f".to_owned(), ty)];
        UserType { keyspace: "ks".into(), name: name.into(), fields }
    };
    let inner = user("z inner", Type::Int);
    let nested = Type::from_cql("list<frozen<\"z inner\">>", &|_| Some(inner.clone()));
    let outer = user("a_outer", nested.expect("a type").freeze());
    disk.change(vec![
        SchemaChange::CreateKeyspace(keyspace("ks", None)),
        SchemaChange::CreateType(inner.clone()),
        SchemaChange::CreateType(outer.clone()),
    ]);
    let column = Type::from_cql("map<int, frozen<a_outer>>", &|_| Some(outer.clone()));
    let table = table("ks", "t", 9, &[("pk", "int", ColumnKind::PartitionKey)]);
    let table = add_column(&table, "v", column.expect("a type"));
    disk.change(vec![SchemaChange::CreateTable(table)]);
    let mut changed = inner;
    changed.fields.push(("g".into(), Type::Text));
    disk.change(vec![SchemaChange::AlterType(changed)]);
    let loaded = disk.load().expect("what was stored");
    assert_eq!(loaded, disk.schema);
    let column = &loaded.table("ks", "t").expect("the table").schema.columns[1];
    assert!(column.ty.any(&|ty| *ty == Type::Text));
}

#[test]
fn functions_and_aggregates_are_read_back() {
    let mut disk = Disk::new();
    let user = |fields: &[(&str, Type)]| UserType {
        keyspace: "ks".into(),
        name: "Pair".into(),
        fields: fields.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone())).collect(),
    };
    let pair = user(&[("a", Type::Int)]);
    let function = |name: &str, ty: Type| UserFunction {
        keyspace: "ks".into(),
        name: name.into(),
        arguments: vec![("state".into(), ty.clone()), ("Value".into(), Type::Int)],
        returns: ty,
        null_input: NullInput::Called,
        language: "lua".into(),
        body: "return state".into(),
    };
    let list = Type::List { element: Box::new(pair.to_type()), frozen: false }.freeze();
    let total = |reduce: Option<&str>| UserAggregate {
        keyspace: "ks".into(),
        name: "total".into(),
        arguments: vec![Type::Int],
        state_function: "add".into(),
        state_type: list.clone(),
        reduce_function: reduce.map(str::to_owned),
        final_function: None,
        initial: Some("[]".into()),
        returns: list.clone(),
    };
    disk.change(vec![
        SchemaChange::CreateKeyspace(keyspace("ks", None)),
        SchemaChange::CreateType(pair.clone()),
        SchemaChange::CreateFunction(function("add", Type::Text)),
        SchemaChange::CreateFunction(function("add", list.clone())),
        SchemaChange::CreateAggregate(total(Some("both"))),
    ]);
    assert_eq!(disk.load().as_ref(), Ok(&disk.schema));
    let entry = |disk: &Disk| disk.schema.keyspace("ks").expect("the keyspace").clone();
    assert_eq!(entry(&disk).functions("add").len(), 2);
    assert_eq!(entry(&disk).aggregate("total", &[Type::Int]), Some(&Rc::new(total(Some("both")))));
    // One with the same arguments takes its place, as a whole.
    disk.change(vec![SchemaChange::CreateAggregate(total(None))]);
    assert_eq!(disk.load().as_ref(), Ok(&disk.schema));
    assert_eq!(entry(&disk).aggregates("total"), [Rc::new(total(None))]);
    // They follow a type that is altered.
    let wider = user(&[("a", Type::Int), ("b", Type::Text)]);
    disk.change(vec![SchemaChange::AlterType(wider.clone())]);
    assert_eq!(disk.load().as_ref(), Ok(&disk.schema));
    let list = list.with_user_type(&wider);
    assert!(entry(&disk).function("add", &[list.clone(), Type::Int]).is_some());
    let (keyspace, name) = ("ks".to_owned(), "add".to_owned());
    let arguments = vec![list, Type::Int];
    disk.change(vec![SchemaChange::DropFunction { keyspace, name, arguments }]);
    let (keyspace, name) = ("ks".to_owned(), "total".to_owned());
    let arguments = vec![Type::Int];
    disk.change(vec![SchemaChange::DropAggregate { keyspace, name, arguments }]);
    assert_eq!(disk.load().as_ref(), Ok(&disk.schema));
    assert_eq!((entry(&disk).functions("add").len(), entry(&disk).aggregates.len()), (1, 0));
    disk.change(vec![SchemaChange::DropKeyspace("ks".into())]);
    disk.change(vec![SchemaChange::CreateKeyspace(self::keyspace("ks", None))]);
    assert_eq!(disk.load().as_ref(), Ok(&disk.schema));
    assert!(entry(&disk).functions.is_empty());
}

#[test]
fn views_and_indexes_are_read_back_and_shown_where_clients_look() {
    let mut disk = Disk::new();
    let columns = [("pk", "int", ColumnKind::PartitionKey), ("v", "text", ColumnKind::Regular)];
    let base = table("ks", "z", 5, &columns);
    let (first, second) = (testing_view(&base, 0, 6), testing_view(&base, 3, 7));
    disk.change(vec![
        SchemaChange::CreateKeyspace(keyspace("ks", Some(2))),
        SchemaChange::CreateTable(base.clone()),
        SchemaChange::CreateTable(first.clone()),
        SchemaChange::CreateTable(second.clone()),
        SchemaChange::AlterTable(indexed(base.clone(), 3)),
    ]);
    let loaded = disk.load().expect("what was stored");
    assert_eq!(loaded, disk.schema);
    let entry = loaded.table("ks", "z").expect("the base");
    assert_eq!((&*entry.views, entry.schema.indexes.len()), (&[first.id, second.id][..], 3));
    let view = &loaded.table_by_id(second.id).expect("the view").schema;
    let (found, made) = (view.view.as_ref(), second.view.as_ref());
    assert_eq!(found, made);

    let names = |disk: &Disk, name: &str, column: &str| {
        let table = &disk.schema.table("system_schema", name).expect("known").schema;
        let rows = testing::rows(table, &disk.mutations);
        let text = |row: &Row| String::from_utf8(row[column].clone()).expect("text");
        rows.iter().map(text).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&disk, "tables", "table_name"), "z");
    assert_eq!(names(&disk, "views", "view_name"), "z_v0 z_v1");
    assert_eq!(names(&disk, "columns", "column_name"), "pk v idx_token pk idx_token pk");
    assert_eq!(names(&disk, "view_virtual_columns", "column_name"), "hidden hidden");
    assert_eq!(names(&disk, "indexes", "kind"), "CUSTOM COMPOSITES CUSTOM");
    let computed = "{\"type\":\"token_v2\"} {\"type\":\"collection_entries\",\
                    \"collection_name\":\"some \\\"map\"}";
    assert_eq!(names(&disk, "computed_columns", "computation"), computed);
    assert_eq!(names(&disk, "tables", "flags").matches("compound").count(), 1);

    let drop = |name: &str| SchemaChange::DropTable { keyspace: "ks".into(), name: name.into() };
    let complete = |changes| disk.schema.complete(changes, 9000, &disk.topology, HERE, 1.0);
    let refused = complete(vec![drop("z")]).map(|_| ());
    assert_eq!(refused, Err("ks.z_v0 is a view of z, which is no table".to_owned()));
    disk.change(vec![drop("z"), drop("z_v0"), drop("z_v1")]);
    assert_eq!(disk.load().as_ref(), Ok(&disk.schema));
    for name in ["tables", "views", "columns", "nereid_columns", "indexes", "nereid_indexes"] {
        assert_eq!(names(&disk, name, "keyspace_name"), "", "{name}");
    }
}

#[test]
fn nodes_that_know_no_views_are_not_told_of_any() {
    let columns = [("pk", "int", ColumnKind::PartitionKey)];
    let base = table("ks", "t", 5, &columns);
    let mut disk = Disk::new();
    let told = |disk: &Disk| {
        let ids = ["nereid_views", "nereid_indexes"]
            .map(|name| crate::system_tables::table_id("system_schema", name));
        let table = |row: &FrozenMutation| row.view().expect("a mutation").table();
        disk.mutations.iter().filter(|row| ids.contains(&table(row))).count()
    };
    let drop = |name: &str| SchemaChange::DropTable { keyspace: "ks".into(), name: name.into() };
    disk.change(vec![
        SchemaChange::CreateKeyspace(keyspace("ks", None)),
        SchemaChange::CreateTable(base.clone()),
        SchemaChange::AlterTable(base.clone()),
    ]);
    disk.change(vec![drop("t"), SchemaChange::DropKeyspace("ks".into())]);
    assert_eq!(told(&disk), 0);
    disk.change(vec![
        SchemaChange::CreateKeyspace(keyspace("ks", None)),
        SchemaChange::CreateTable(base.clone()),
        SchemaChange::CreateTable(testing_view(&base, 1, 6)),
        SchemaChange::AlterTable(indexed(base.clone(), 2)),
    ]);
    assert!(0 < told(&disk));
    disk.change(vec![SchemaChange::AlterTable(base), drop("t_v1")]);
    assert_eq!(disk.load().as_ref(), Ok(&disk.schema));
}

#[test]
fn damage_of_views_and_indexes_is_told() {
    let columns = [("pk", "int", ColumnKind::PartitionKey)];
    let base = table("ks", "t", 5, &columns);
    let mut disk = Disk::new();
    disk.change(vec![
        SchemaChange::CreateKeyspace(keyspace("ks", None)),
        SchemaChange::CreateTable(indexed(base.clone(), 1)),
        SchemaChange::CreateTable(testing_view(&base, 1, 6)),
    ]);
    let check = |table: &'static str, column: &str, value: &[u8], expected: &str| {
        let mut stored = Stored::default();
        for name in TABLES {
            let of = &disk.schema.table(keyspace_of(name), name).expect("known").schema;
            let mut rows = testing::rows(of, &disk.mutations);
            if name == table {
                let row = rows.iter_mut().rfind(|row| row.contains_key(column));
                row.expect("a row").insert(column.to_owned(), value.to_vec());
            }
            stored.add(name, rows);
        }
        let mut schema = Schema::<()>::of_system(disk.schema.version, SHARDS);
        let damaged = read::load(&mut schema, &stored, HERE).expect_err("damage");
        assert_eq!(damaged.to_string(), format!("system_schema.{table} is damaged: {expected}"));
    };
    let nil = Uuid::nil();
    let missing = format!("ks.t_v1 is a view of {nil}, which is missing");
    check("views", "base_table_id", &[0; 16], &missing);
    check("views", "view_name", b"t", "a table and a view ks.t");
    check("nereid_columns", "computed", b"magic", "a column of t_v1 is computed as magic");
    check("nereid_views", "filter", &[0, 0, 0, 1, 0], "filter is not a list of conditions");
    let hides = "t_v1 hides pk, no regular column";
    check("view_virtual_columns", "column_name", b"pk", hides);
    check("nereid_indexes", "target", b"all", "an index of t is on all");
    check("nereid_indexes", "column_name", b"x", "index i1 is on x, which is missing");
}

#[test]
fn damage_is_told_with_its_place() {
    let row = |cells: &[(&str, &[u8])]| -> Row {
        cells.iter().map(|(name, value)| (name.to_string(), value.to_vec())).collect()
    };
    let check = |table: &'static str, cells: &[(&str, &[u8])], expected: &str| {
        let mut stored = Stored::default();
        stored.add(table, vec![row(cells)]);
        let mut schema = Schema::<()>::of_system(Uuid::from_u128(1), 1);
        let damaged = read::load(&mut schema, &stored, HERE).expect_err("damage");
        assert_eq!(damaged.to_string(), expected);
    };
    check(
        "keyspaces",
        &[("keyspace_name", b"\xff")],
        "system_schema.keyspaces is damaged: keyspace_name is not UTF-8",
    );
    check(
        "keyspaces",
        &[("keyspace_name", b"ks")],
        "system_schema.keyspaces is damaged: keyspace ks: Missing mandatory replication strategy \
         class",
    );
    check(
        "tables",
        &[("keyspace_name", b"ks"), ("table_name", b"t")],
        "system_schema.tables is damaged: a table of keyspace ks, which is missing",
    );
}

/// The table with all columns of another one dropped, and these added.
fn in_place_of(before: &TableSchema, columns: TableSchema) -> TableSchema {
    let dropped = before.columns.iter().cloned().map(|column| {
        let Column { id, name, ty, kind, .. } = column;
        DroppedColumn { id, name, ty, kind, dropped_at: 7 }
    });
    let given = before.next_column_id;
    let mut after = TableSchema { name: before.name.clone(), ..columns };
    after.columns.iter_mut().for_each(|column| column.id.0 += given);
    after.next_column_id += given;
    after.dropped = dropped.collect();
    after
}

fn any_pairs() -> impl Strategy<Value = Vec<(String, String)>> {
    let entries = proptest::collection::btree_map("[a-z_]{1,6}", "[ -~]{0,6}", 0..3);
    entries.prop_map(|entries| entries.into_iter().collect())
}

prop_compose! {
    fn any_table(id: u128)(
        name in "[a-zA-Z_ \"]{1,6}",
        keys in proptest::collection::btree_map(
            "[a-c]{1,2}", (0usize..4, any::<bool>(), 0usize..8), 0..8),
        comment in ".{0,8}",
        numbers in proptest::array::uniform4(any::<i32>()),
        chance in 0.0f64..1.0,
        maps in proptest::array::uniform4(any_pairs()),
        paxos in proptest::option::of(any::<i32>()),
        compact in any::<bool>(),
    ) -> TableSchema {
        let types = ["int", "text", "frozen<map<int, text>>", "tuple<int, blob>",
            "list<int>", "set<timeuuid>", "map<text, frozen<list<int>>>", "vector<float, 3>"];
        let kinds = [ColumnKind::PartitionKey, ColumnKind::Clustering, ColumnKind::Static,
            ColumnKind::Regular];
        let mut columns = vec![("pk", "int", ColumnKind::PartitionKey)];
        for (name, (kind, _, ty)) in &keys {
            columns.push((name.as_str(), types[*ty], kinds[*kind]));
        }
        let mut table = table("ks", &name, id, &columns);
        for column in &mut table.columns {
            let reversed = keys.get(&column.name).is_some_and(|(_, reversed, _)| *reversed);
            column.reversed = reversed && column.kind == ColumnKind::Clustering;
        }
        let options = &mut table.options;
        options.comment = comment;
        options.gc_grace_seconds = numbers[0];
        options.default_time_to_live = numbers[1];
        options.min_index_interval = numbers[2];
        options.memtable_flush_period_in_ms = numbers[3];
        options.bloom_filter_fp_chance = chance;
        options.paxos_grace_seconds = paxos;
        [options.compaction, options.compression, options.cdc, options.tombstone_gc] = maps;
        options.extensions = vec![("x".into(), vec![0, 255])];
        table.compact_storage = compact;
        table
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_is_stored_is_read_back(
        tables in (any_table(5), any_table(6)),
        altered in any_table(5),
        (variant, indexes) in (0u8..4, 0u8..4),
        tablets in proptest::option::of(0u32..9),
        storage in any_pairs(),
    ) {
        let mut disk = Disk::new();
        let mut space = keyspace("ks", tablets);
        space.storage = storage;
        disk.change(vec![SchemaChange::CreateKeyspace(space)]);
        let (first, second) = tables;
        disk.change(vec![SchemaChange::CreateTable(first.clone())]);
        if second.name != first.name {
            disk.change(vec![SchemaChange::CreateTable(second)]);
        }
        prop_assert_eq!(&disk.load().expect("what was stored"), &disk.schema);
        let altered = indexed(in_place_of(&first, altered), indexes);
        let view = testing_view(&first, variant, 7);
        disk.change(vec![SchemaChange::CreateTable(view), SchemaChange::AlterTable(altered)]);
        prop_assert_eq!(&disk.load().expect("what was stored"), &disk.schema);
        let base = disk.schema.table_by_id(first.id).expect("the table").schema.clone();
        let log = testing_log(&base, 8);
        let name = log.name.clone();
        disk.change(vec![SchemaChange::CreateTable(log.clone())]);
        prop_assert_eq!(&disk.load().expect("what was stored"), &disk.schema);
        let entry = disk.schema.table_by_id(first.id).expect("the table");
        prop_assert_eq!((entry.log, entry.streams.is_empty()), (Some(log.id), false));
        let mut detached = (*disk.schema.table("ks", &name).expect("the log").schema).clone();
        detached.log.as_mut().expect("a log").attached = false;
        disk.change(vec![SchemaChange::AlterTable(detached)]);
        prop_assert_eq!(&disk.load().expect("what was stored"), &disk.schema);
        prop_assert_eq!(disk.schema.table_by_id(first.id).expect("the table").log, None);
    }
}

#[test]
fn versions_tell_their_time() {
    let mut disk = Disk::new();
    let columns = [("pk", "int", ColumnKind::PartitionKey)];
    disk.change(vec![
        SchemaChange::CreateKeyspace(keyspace("ks", None)),
        SchemaChange::CreateTable(table("ks", "t", 5, &columns)),
    ]);
    let version = disk.schema.table("ks", "t").expect("the table").schema.version;
    assert_eq!(version, time_uuid(1000, 5));
}
