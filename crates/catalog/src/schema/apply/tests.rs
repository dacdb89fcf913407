use super::*;
use crate::schema::testing::*;
use crate::topology::testing::{member, topology};
use crate::topology::{Member, TopologyChange};
use model::{ColumnKind, Type};

fn version(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn next(schema: &Schema, changes: Vec<SchemaChange>) -> Result<Schema, String> {
    let here = Here { host_id: version(9), shards: 2 };
    let complete = schema.complete(changes, 7, &Topology::default(), here, 1.0)?;
    Ok(schema.apply(&complete, version(1)))
}

fn with_table() -> Schema {
    let schema = Schema::empty(version(0));
    let changes = vec![
        SchemaChange::CreateKeyspace(keyspace("ks", None)),
        SchemaChange::CreateTable(table("ks", "t", 1, &[("pk", "int", ColumnKind::PartitionKey)])),
    ];
    next(&schema, changes).expect("valid changes")
}

#[test]
fn older_snapshots_do_not_change() {
    let before = with_table();
    let kept = before.clone();
    let drop = SchemaChange::DropTable { keyspace: "ks".into(), name: "t".into() };
    let after = next(&before, vec![drop]).expect("a table to drop");
    assert_eq!(before, kept);
    assert!(after.table("ks", "t").is_none() && after.by_id.is_empty());
    assert!(before.table_by_id(version(1)).is_some());
}

#[test]
fn what_is_not_there_cannot_be_changed() {
    let schema = with_table();
    let check = |change: SchemaChange, expected: &str| {
        assert_eq!(next(&schema, vec![change]), Err(expected.to_owned()));
    };
    let columns = [("pk", "int", ColumnKind::PartitionKey)];
    check(SchemaChange::CreateTable(table("ks", "t", 2, &columns)), "table ks.t already exists");
    check(SchemaChange::CreateTable(table("no", "t", 2, &columns)), "no keyspace no");
    check(SchemaChange::AlterTable(table("ks", "t", 2, &columns)), "the table's id changed");
    check(SchemaChange::DropKeyspace("no".into()), "no keyspace no");
    check(SchemaChange::CreateKeyspace(keyspace("ks", None)), "keyspace ks already exists");
    check(SchemaChange::DropType { keyspace: "ks".into(), name: "u".into() }, "no type ks.u");
}

#[test]
fn changes_of_one_statement_see_each_other() {
    let schema = Schema::empty(version(0));
    let twice = vec![
        SchemaChange::CreateKeyspace(keyspace("ks", None)),
        SchemaChange::CreateKeyspace(keyspace("ks", None)),
    ];
    assert!(next(&schema, twice).is_err());
}

#[test]
fn tables_and_types_follow_a_changed_type() {
    let user = |fields: &[(&str, Type)]| UserType {
        keyspace: "ks".into(),
        name: "inner".into(),
        fields: fields.iter().map(|(name, ty)| (name.to_string(), ty.clone())).collect(),
    };
    let inner = user(&[("a", Type::Int)]);
    let resolve = |schema: &Schema, text: &str| {
        let types = schema.keyspaces["ks"].types.clone();
        Type::from_cql(text, &|name| types.get(name).map(|user| (**user).clone())).unwrap()
    };
    let schema = next(&with_table(), vec![SchemaChange::CreateType(inner)]).unwrap();
    let outer = UserType {
        keyspace: "ks".into(),
        name: "outer".into(),
        fields: vec![("i".into(), resolve(&schema, "frozen<inner>"))],
    };
    let schema = next(&schema, vec![SchemaChange::CreateType(outer)]).unwrap();
    let mut altered = (*schema.table("ks", "t").unwrap().schema).clone();
    altered.columns.push(model::Column {
        id: model::ColumnId(1),
        name: "v".into(),
        kind: ColumnKind::Regular,
        position: 0,
        ty: resolve(&schema, "list<frozen<outer>>"),
        reversed: false,
    });
    altered.next_column_id = 2;
    let schema = next(&schema, vec![SchemaChange::AlterTable(altered)]).unwrap();
    let changed = user(&[("a", Type::Int), ("b", Type::Text)]);
    let schema = next(&schema, vec![SchemaChange::AlterType(changed)]).unwrap();
    let column = &schema.table("ks", "t").unwrap().schema.columns[1];
    assert_eq!(column.ty, resolve(&schema, "list<frozen<outer>>"));
    assert!(column.ty.any(&|ty| *ty == Type::Text));
}

#[test]
fn a_keyspace_takes_its_tables_with_it_and_gives_them_its_replication() {
    let schema = with_table();
    let mut altered = keyspace("ks", None);
    altered.replication[1].1 = "3".into();
    let altered = next(&schema, vec![SchemaChange::AlterKeyspace(altered)]).unwrap();
    assert_eq!(*altered.table("ks", "t").unwrap().replication, Replication::Simple(3));
    assert_eq!(*altered.by_id[&version(1)].replication, Replication::Simple(3));
    let dropped = next(&altered, vec![SchemaChange::DropKeyspace("ks".into())]).unwrap();
    assert!(dropped.keyspaces.is_empty() && dropped.by_id.is_empty());
}

/// And a second change meanwhile leaves what there was at first, where that was less.
#[test]
fn a_keyspace_keeps_what_it_had_until_its_tablets_have_followed() {
    let feature = features::KEYSPACE_MULTI_RF_CHANGE.to_owned();
    let can = Member { features: [feature.clone()].into(), ..member(1, ("d1", "r1"), &[1]) };
    let topology = topology(&[can]).apply(&TopologyChange::Enable(feature));
    let here = Here { host_id: Uuid::from_u128(1), shards: 1 };
    let altered = |d1: u32, d2: u32| {
        let mut altered = keyspace("ks", Some(4));
        let class = ("class".to_owned(), "NetworkTopologyStrategy".to_owned());
        let copies = [("d1", d1), ("d2", d2)].map(|(it, copies)| (it.into(), copies.to_string()));
        altered.replication = [class].into_iter().chain(copies).collect();
        altered
    };
    let change = |schema: &Schema, change| {
        let complete = schema.complete(vec![change], 5, &topology, here, SCALE).expect("a change");
        schema.apply(&complete, version(9))
    };
    let numbers = |schema: &Schema| {
        let entry = schema.keyspace("ks").expect("the keyspace");
        let counted = ["d1", "d2"].map(|center| entry.replication.counted_in(center));
        (entry.keyspace.previous.is_some(), counted)
    };
    let empty = Schema::empty(version(0));
    let schema = change(&empty, SchemaChange::CreateKeyspace(altered(1, 3)));
    // There is nothing that could follow.
    let none = change(&schema, SchemaChange::AlterKeyspace(altered(3, 1)));
    assert_eq!(numbers(&none), (false, [3, 1]));
    let columns = [("p", "int", ColumnKind::PartitionKey)];
    let schema = change(&schema, SchemaChange::CreateTable(table("ks", "t", 1, &columns)));
    let schema = change(&schema, SchemaChange::AlterKeyspace(altered(3, 1)));
    assert_eq!(numbers(&schema), (true, [1, 1]));
    let schema = change(&schema, SchemaChange::AlterKeyspace(altered(2, 5)));
    assert_eq!(numbers(&schema), (true, [1, 1]));
    let present = schema.keyspace("ks").expect("the keyspace").keyspace.clone();
    let durable = Keyspace { durable_writes: false, ..present.clone() };
    let schema = change(&schema, SchemaChange::AlterKeyspace(durable));
    assert_eq!(numbers(&schema), (true, [1, 1]));
    let settled = Keyspace { previous: None, ..present };
    let schema = change(&schema, SchemaChange::AlterKeyspace(settled));
    assert_eq!(numbers(&schema), (false, [2, 5]));
}
