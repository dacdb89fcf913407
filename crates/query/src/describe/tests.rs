use super::{Answer, Entry, answer, check_passwords, paging};
use crate::error::CqlError;
use plan::ddl::testing::Node;
use syntax::ast::Statement;
use syntax::parse;

const SETUP: [&str; 6] = [
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE KEYSPACE \"Other\"",
    "CREATE TYPE z (a int)",
    "CREATE TYPE b (z frozen<z>)",
    "CREATE TABLE \"T\" (p int PRIMARY KEY, v int, b b)",
    "ALTER TABLE \"T\" DROP v USING TIMESTAMP 77",
];

fn describe(node: &Node, keyspace: Option<&str>, text: &str) -> Result<Answer, CqlError> {
    let Statement::Describe(statement) = parse(text).map_err(plan::Error::from)?.statement else {
        panic!("{text}")
    };
    answer(&node.schema, keyspace, &statement)
}

/// `kind keyspace.name` of each entry, `+` where there is a statement.
#[track_caller]
fn check(keyspace: Option<&str>, text: &str, expected: &str) {
    let found = match describe(&Node::after(&SETUP), keyspace, text) {
        Ok(Answer::List(entries)) => entries.iter().map(|it| line(it, "")).collect::<Vec<_>>(),
        Ok(Answer::Statements(entries)) => entries.iter().map(|it| line(it, "+")).collect(),
        Err(error) => vec![format!("{:04x} {error}", error.code())],
    };
    assert_eq!(found.join(", "), expected, "{text}");
}

fn line(entry: &Entry, mark: &str) -> String {
    let Entry { keyspace, kind, name, create } = entry;
    assert!(create.starts_with("CREATE ") || create.starts_with("/*"), "{create}");
    format!("{mark}{kind} {}.{name}", keyspace.as_deref().unwrap_or_default())
}

#[test]
fn what_is_described() {
    let ks = "+keyspace ks.ks, +type ks.z, +type ks.b, +table ks.T";
    let other = "+keyspace Other.Other";
    check(None, "DESCRIBE SCHEMA", &format!("{other}, {ks}"));
    check(None, "DESC KEYSPACE ks", ks);
    check(Some("ks"), "DESC KEYSPACE", ks);
    check(None, "DESC ks", ks);
    check(Some("Other"), "DESC ONLY KEYSPACE ks", "+keyspace ks.ks");
    check(Some("ks"), "DESC TABLES", "table ks.T");
    check(Some("ks"), "DESC TYPES", "type ks.z, type ks.b");
    check(Some("Other"), "DESC TABLES", "");
    check(Some("ks"), "DESC FUNCTIONS", "");
    check(Some("ks"), "DESC AGGREGATES", "");
    check(Some("ks"), "DESC TABLE \"T\"", "+table ks.T");
    check(None, "DESC TABLE ks.\"T\"", "+table ks.T");
    check(Some("ks"), "DESC \"T\"", "+table ks.T");
    check(None, "DESC ks.\"T\"", "+table ks.T");
    check(None, "DESC TYPE ks.b", "+type ks.b");
    let keyspaces = "keyspace Other.Other, keyspace ks.ks, keyspace system.system, \
                     keyspace system_distributed.system_distributed, \
                     keyspace system_schema.system_schema, \
                     keyspace system_traces.system_traces, \
                     keyspace system_virtual_schema.system_virtual_schema";
    check(None, "DESC KEYSPACES", keyspaces);
}

#[test]
fn what_is_missing() {
    check(None, "DESC KEYSPACE", "2200 No keyspace specified and no current keyspace");
    check(None, "DESC KEYSPACE no", "2200 'no' not found in keyspaces");
    check(None, "DESC TABLE t", "2200 No keyspace specified and no current keyspace");
    check(None, "DESC TABLE no.t", "2200 'no' not found in keyspaces");
    check(None, "DESC TABLE ks.t", "2200 Table 't' not found in keyspace 'ks'");
    check(Some("ks"), "DESC TYPE t", "2200 User defined type 't' not found in 'ks'");
    check(Some("ks"), "DESC INDEX t", "2200 Table for existing index 't' not found in 'ks'");
    check(
        Some("ks"),
        "DESC MATERIALIZED VIEW t",
        "2200 Materialized view 't' not found in keyspace 'ks'",
    );
    check(Some("ks"), "DESC FUNCTION f", "2200 User defined function 'f' not found in 'ks'");
    check(Some("ks"), "DESC AGGREGATE f", "2200 User defined aggregate 'f' not found in 'ks'");
    check(Some("ks"), "DESC t", "2200 't' not found in keyspace 'ks'");
    check(None, "DESC t", "2200 't' not found in keyspaces");
}

#[test]
fn a_description_with_internals_makes_the_schema_again() {
    let node = Node::after(&SETUP);
    let described = describe(&node, None, "DESC SCHEMA WITH INTERNALS").unwrap();
    let Answer::Statements(entries) = described else { panic!("{described:?}") };
    let mut again = Node::empty();
    for entry in entries {
        for statement in entry.create.split_inclusive(';') {
            let changes = again.decide(statement).unwrap_or_else(|it| panic!("{statement}: {it}"));
            again.apply(changes);
        }
    }
    assert_eq!(again.schema.keyspaces.len(), node.schema.keyspaces.len());
    for (name, entry) in &node.schema.keyspaces {
        let made = again.schema.keyspace(name).unwrap();
        assert_eq!((&made.keyspace, &made.types), (&entry.keyspace, &entry.types));
        for (name, table) in &entry.tables {
            let made = &made.tables[name].schema;
            assert_eq!((made.id, &made.options), (table.schema.id, &table.schema.options));
            let columns = |table: &model::TableSchema| {
                let columns = table.columns.iter();
                columns.map(|it| (it.name.clone(), it.kind, it.ty.clone())).collect::<Vec<_>>()
            };
            assert_eq!(columns(made), columns(&table.schema));
            let dropped = |table: &model::TableSchema| {
                let dropped = table.dropped.iter();
                dropped.map(|it| (it.name.clone(), it.dropped_at)).collect::<Vec<_>>()
            };
            assert_eq!(dropped(made), dropped(&table.schema));
        }
    }
}

#[test]
fn rows_are_cells_with_lengths_and_quoted_names() {
    let node = Node::after(&SETUP);
    let version = node.schema.version;
    let whole = |answer: Answer| answer.into_page(0, None, version);
    let rows = whole(describe(&node, Some("Other"), "DESC KEYSPACES").unwrap());
    assert_eq!(rows.row_count, 7);
    assert_eq!(rows.metadata.columns.len(), 3);
    assert!(rows.body.starts_with(b"\0\0\0\x07\"Other\"\0\0\0\x08keyspace\0\0\0\x07\"Other\""));
    let rows = whole(describe(&node, None, "DESC TABLE ks.\"T\"").unwrap());
    assert_eq!(rows.row_count, 1);
    assert_eq!(&*rows.metadata.columns[3].name, "create_statement");
    assert!(rows.body.starts_with(b"\0\0\0\x02ks\0\0\0\x05table\0\0\0\x03\"T\""));
}

#[test]
fn pages_hold_each_entry_once() {
    let node = Node::after(&SETUP);
    let version = node.schema.version;
    let answer = describe(&node, None, "DESC SCHEMA").unwrap();
    let whole = answer.clone().into_page(0, Some(0), version);
    assert_eq!((whole.row_count, whole.paging_state), (5, None));
    let check = |size: i32, expected: &[u32]| {
        let (mut from, mut counts, mut body) = (0, Vec::new(), Vec::new());
        loop {
            let page = answer.clone().into_page(from, Some(size), version);
            counts.push(page.row_count);
            body.extend(page.body);
            let Some(state) = page.paging_state else { break };
            from = paging::decode(&state, version).unwrap();
        }
        assert_eq!((&counts[..], &body), (expected, &whole.body), "pages of {size}");
    };
    check(1, &[1, 1, 1, 1, 1]);
    check(2, &[2, 2, 1]);
    check(5, &[5]);
    check(i32::MAX, &[5]);
    assert_eq!(answer.into_page(9, Some(2), version).row_count, 0);
}

#[test]
fn passwords_are_for_superusers() {
    let check = |what: &str, is_superuser: bool, expected: Option<u32>| {
        let text = format!("DESC {what} WITH INTERNALS AND PASSWORDS");
        let Statement::Describe(statement) = parse(&text).unwrap().statement else { panic!() };
        assert!(statement.passwords && statement.internals, "{text}");
        let refused = check_passwords(&statement.what, is_superuser).err();
        assert_eq!(refused.map(|error| error.code()), expected, "{text}");
    };
    for what in ["SCHEMA", "FULL SCHEMA"] {
        check(what, false, Some(0x2100));
        check(what, true, None);
    }
    for what in ["CLUSTER", "KEYSPACES", "KEYSPACE ks", "TABLES", "TABLE ks.t", "TYPE ks.t", "ks"] {
        check(what, true, Some(0x2200));
    }
}

#[test]
fn pages_are_of_one_state_of_roles_too() {
    let of_schema = model::Uuid::from_u128(77);
    assert_eq!(super::version(of_schema, 5), super::version(of_schema, 5));
    assert_ne!(super::version(of_schema, 5), super::version(of_schema, 6));
}

#[test]
fn views_and_indexes_are_described_with_their_table() {
    let of_key = "p IS NOT NULL PRIMARY KEY";
    let view = format!("CREATE MATERIALIZED VIEW \"A\" AS SELECT * FROM t WHERE {of_key} (p)");
    let setup = [
        SETUP[0],
        "CREATE TABLE t (p int PRIMARY KEY, v int)",
        &view,
        "CREATE INDEX i ON t (v)",
        "CREATE TABLE zz (p int PRIMARY KEY)",
    ];
    let node = Node::after(&setup);
    let check = |text: &str, expected: &str| {
        let found = match describe(&node, Some("ks"), text) {
            Ok(Answer::List(entries)) => entries.iter().map(|it| line(it, "")).collect::<Vec<_>>(),
            Ok(Answer::Statements(entries)) => entries.iter().map(|it| line(it, "+")).collect(),
            Err(error) => vec![format!("{:04x} {error}", error.code())],
        };
        assert_eq!(found.join(", "), expected, "{text}");
    };
    check("DESC TABLE t", "+table ks.t, +index ks.i, +view ks.A");
    check("DESC t", "+table ks.t, +index ks.i, +view ks.A");
    let whole = "+keyspace ks.ks, +table ks.t, +index ks.i, +table ks.zz, +view ks.A";
    check("DESC KEYSPACE ks", whole);
    check("DESC TABLES", "table ks.t, table ks.zz");
    check("DESC INDEX i", "+index ks.i");
    check("DESC i", "+index ks.i");
    check("DESC MATERIALIZED VIEW \"A\"", "+view ks.A");
    check("DESC \"A\"", "+view ks.A");
    check("DESC INDEX t", "2200 Table for existing index 't' not found in 'ks'");
    check("DESC MATERIALIZED VIEW t", "2200 Materialized view 't' not found in keyspace 'ks'");
    // The view of an index is no statement to execute.
    check("DESC MATERIALIZED VIEW i_index", "+view ks.i_index");
    let Ok(Answer::Statements(entries)) = describe(&node, Some("ks"), "DESC i_index") else {
        panic!("no description of the view of an index")
    };
    assert!(entries[0].create.starts_with("/* Do NOT execute"), "{}", entries[0].create);
    // What is described makes the same again.
    let Ok(Answer::Statements(entries)) = describe(&node, None, "DESC KEYSPACE ks WITH INTERNALS")
    else {
        panic!("no description of a keyspace")
    };
    let mut again = Node::empty();
    for Entry { create, .. } in &entries {
        let changes = again.decide(create).unwrap_or_else(|error| panic!("{create}: {error}"));
        again.apply(changes);
    }
    let (made, known) = (again.schema.keyspace("ks"), node.schema.keyspace("ks"));
    let (made, known) = (made.expect("a keyspace"), known.expect("a keyspace"));
    assert_eq!(made.tables.len(), known.tables.len());
    for (name, table) in &known.tables {
        let text =
            |table: &cluster::TableEntry| format!("{:?}", (&table.schema.columns, &table.views));
        assert_eq!(text(&made.tables[name]), text(table), "{name}");
        assert_eq!(made.tables[name].schema.view, table.schema.view, "{name}");
        assert_eq!(made.tables[name].schema.indexes, table.schema.indexes, "{name}");
    }
}
