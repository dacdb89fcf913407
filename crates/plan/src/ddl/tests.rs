use super::keyspace::TabletsByDefault;
use super::testing::Node;
use crate::error::Error;
use cluster::SchemaChange;
use model::schema::{ColumnKind, TableOptions};
use model::{TableSchema, Type, UserType};
use proptest::prelude::*;

const KS: &str = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', \
                  'replication_factor': 1}";

const TABLETS: &str = "CREATE KEYSPACE ks WITH tablets = {'enabled': true}";

/// What a table forgets where nothing is said of it.
#[test]
fn tables_with_tablets_go_by_repairs_unless_something_is_said() {
    let found = |node: &Node, statement: &str| {
        let changes = node.decide(statement).expect(statement);
        match &changes[..] {
            [SchemaChange::CreateTable(table) | SchemaChange::AlterTable(table)] => {
                let pairs = &table.options.tombstone_gc;
                pairs.iter().map(|(name, value)| format!("{name}={value} ")).collect::<String>()
            }
            other => panic!("{other:?}"),
        }
    };
    let repair = "mode=repair propagation_delay_in_seconds=3600 ";
    let create = "CREATE TABLE ks.t (p int PRIMARY KEY)";
    for (keyspace, with, expected) in [
        (TABLETS, "", repair),
        (TABLETS, " WITH gc_grace_seconds = 7", repair),
        (TABLETS, " WITH tombstone_gc = {'mode': 'disabled'}", "mode=disabled "),
        (TABLETS, " WITH tombstone_gc = {}", ""),
        (KS, "", ""),
        (KS, " WITH tombstone_gc = {'mode': 'repair'}", "mode=repair "),
    ] {
        let made = format!("{create}{with}");
        assert_eq!(found(&Node::after(&[keyspace]), &made), expected, "{keyspace}: {made}");
        // A table keeps what it has: one of a version before, too.
        let node = Node::after(&[keyspace, &made]);
        let altered = found(&node, "ALTER TABLE ks.t WITH comment = 'x'");
        assert_eq!(altered, expected, "{keyspace}: {made}");
    }
}

/// A change in few words.
fn render(change: &SchemaChange) -> String {
    match change {
        SchemaChange::CreateKeyspace(it) => it.to_cql_create(),
        SchemaChange::AlterKeyspace(it) => it.to_cql_create().replacen("CREATE", "ALTER", 1),
        SchemaChange::DropKeyspace(name) => format!("drop {name}"),
        SchemaChange::CreateTable(it) => format!("create {}", columns(it)),
        SchemaChange::AlterTable(it) => format!("alter {}", columns(it)),
        SchemaChange::DropTable { keyspace, name } => format!("drop {keyspace}.{name}"),
        SchemaChange::CreateType(it) => format!("create {}", fields(it)),
        SchemaChange::AlterType(it) => format!("alter {}", fields(it)),
        SchemaChange::DropType { keyspace, name } => format!("drop type {keyspace}.{name}"),
        SchemaChange::CreateFunction(it) => it.to_cql_create(),
        SchemaChange::CreateAggregate(it) => it.to_cql_create(),
        SchemaChange::DropFunction { keyspace, name, .. }
        | SchemaChange::DropAggregate { keyspace, name, .. } => format!("drop {keyspace}.{name}()"),
    }
}

fn fields(it: &UserType) -> String {
    let field = |(name, ty): &(String, Type)| format!("{name} {}", ty.to_cql());
    let fields: Vec<String> = it.fields.iter().map(field).collect();
    format!("type {}.{} ({})", it.keyspace, it.name, fields.join(", "))
}

/// `ks.t (#0 p int pk, #1 c int ck desc, #2 s int static, #3 v int; -#4 w int @7)`
fn columns(it: &TableSchema) -> String {
    let column = |it: &model::Column| {
        let kind = match (it.kind, it.reversed) {
            (ColumnKind::PartitionKey, _) => " pk",
            (ColumnKind::Clustering, false) => " ck",
            (ColumnKind::Clustering, true) => " ck desc",
            (ColumnKind::Static, _) => " static",
            (ColumnKind::Regular, _) => "",
        };
        format!("#{} {} {}{kind}", it.id.0, it.name, it.ty.to_cql())
    };
    let columns: Vec<String> = it.columns.iter().map(column).collect();
    let dropped = |it: &model::schema::DroppedColumn| {
        format!("; -#{} {} {} @{}", it.id.0, it.name, it.ty.to_cql(), it.dropped_at)
    };
    let dropped: String = it.dropped.iter().map(dropped).collect();
    format!("{}.{} ({}{dropped})", it.keyspace, it.name, columns.join(", "))
}

fn outcome(setup: &[&str], statement: &str) -> String {
    match Node::after(setup).decide(statement) {
        Ok(changes) => changes.iter().map(render).collect::<Vec<_>>().join("\n"),
        Err(error) => format!("{:04x} {error}", error.code()),
    }
}

#[track_caller]
fn check(setup: &[&str], statement: &str, expected: &str) {
    assert_eq!(outcome(setup, statement), expected, "{statement}");
}

/// Each statement with the beginning of what is said against it.
#[track_caller]
fn check_refused(setup: &[&str], cases: &[(&str, &str)]) {
    for (statement, expected) in cases {
        let found = outcome(setup, statement);
        assert!(found.starts_with(expected), "{statement}\n{found}\n{expected}");
    }
}

#[test]
fn keyspaces_are_created() {
    let full = |replication: &str, rest: &str| {
        format!("CREATE KEYSPACE k WITH replication = {{'class': {replication}}} AND {rest};")
    };
    let package = "org.apache.cassandra.locator";
    let off = "durable_writes = true AND tablets = {'enabled': false}";
    let simple = full(&format!("'{package}.SimpleStrategy', 'replication_factor': '3'"), off);
    let network = |factor: &str, rest: &str| {
        full(&format!("'{package}.NetworkTopologyStrategy', 'dc1': '{factor}'"), rest)
    };
    let with = |replication: &str| format!("CREATE KEYSPACE k WITH replication = {replication}");
    check(&[], &with("{'class': 'SimpleStrategy', 'replication_factor': 3}"), &simple);
    check(&[], &with("{'class': 'SimpleStrategy', 'replication_factor': '03'}"), &simple);
    check(&[], "CREATE KEYSPACE k", &network("1", off));
    let short = "{'class': 'NetworkTopologyStrategy', 'replication_factor': 2}";
    check(&[], &with(short), &network("2", off));
    let both = "{'class': 'NetworkTopologyStrategy', 'replication_factor': 2, 'dc1': 5}";
    check(&[], &with(both), &network("5", off));
    let none = "{'class': 'NetworkTopologyStrategy', 'dc1': 0}";
    check(&[], &with(none), &network("0", off));
    let racks = with("{'class': 'NetworkTopologyStrategy', 'dc1': ['r1']}");
    let listed = format!("'{package}.NetworkTopologyStrategy', 'dc1': ['r1']");
    check(&[], &racks, &full(&listed, off));
    let tablets = "durable_writes = false AND tablets = {'enabled': true}";
    let asked = format!("CREATE KEYSPACE k WITH {tablets}");
    check(&[], &asked, &network("1", tablets));
    let initial = "durable_writes = true AND tablets = {'enabled': true, 'initial': 8}";
    check(&[], &format!("CREATE KEYSPACE k WITH {initial}"), &network("1", initial));
    let idle = "CREATE KEYSPACE k WITH tablets = {'enabled': false, 'initial': 8}";
    check(&[], idle, &network("1", off));
    let everywhere = full(&format!("'{package}.EverywhereStrategy'"), off);
    check(&[], &with("{'class': 'EverywhereStrategy'}"), &everywhere);
    check(&[KS], "CREATE KEYSPACE IF NOT EXISTS ks", "");
    check(&[KS], "DROP KEYSPACE ks", "drop ks");
    check(&[KS], "DROP KEYSPACE IF EXISTS other", "");
}

#[test]
fn keyspaces_are_refused() {
    let long = format!("CREATE KEYSPACE {}", "x".repeat(193));
    check_refused(
        &[KS],
        &[
            ("CREATE KEYSPACE ks", "2400 Keyspace ks already exists"),
            ("CREATE KEYSPACE \"a-b\"", "2200 \"a-b\" is not a valid keyspace name"),
            (&long, "2200 Keyspace names shouldn't be more than 192 characters long"),
            ("CREATE KEYSPACE system", "2200 system keyspace is not user-modifiable"),
            ("CREATE KEYSPACE system_new", "2200 system keyspace is not user-modifiable"),
            ("CREATE KEYSPACE SYSTEM_traces", "2400 Keyspace system_traces already exists"),
            ("ALTER KEYSPACE system WITH durable_writes = false", "2100 system keyspace is not"),
            ("DROP KEYSPACE system_schema", "2100 system_schema keyspace is not user-modifiable"),
            ("CREATE KEYSPACE nereid_transactions", "2200 system keyspace is not user-modifiable"),
            ("DROP KEYSPACE nereid_transactions", "2100 nereid_transactions keyspace is not"),
            ("CREATE KEYSPACE nereid_backups", "2200 system keyspace is not user-modifiable"),
            ("DROP KEYSPACE nereid_backups", "2100 nereid_backups keyspace is not"),
            ("DROP KEYSPACE system_auth", "2100 Cannot DROP <keyspace system_auth>"),
            ("DROP KEYSPACE k", "2300 Cannot drop non existing keyspace 'k'."),
            ("ALTER KEYSPACE k WITH durable_writes = true", "2200 Keyspace 'k' does not exist"),
            ("CREATE KEYSPACE k WITH what = 1", "2000 Unknown property 'what'"),
            ("CREATE KEYSPACE k WITH durable_writes = 7", "2000 Invalid boolean value 7"),
            ("CREATE KEYSPACE k WITH replication = 'x'", "2000 Invalid value for property"),
            ("CREATE KEYSPACE k WITH tablets = {'x': 1}", "2300 Unrecognized tablets option x"),
            ("CREATE KEYSPACE k WITH tablets = {'enabled': 1}", "2300 Tablets enabled value"),
            ("CREATE KEYSPACE k WITH tablets = {'initial': -1}", "2300 Initial tablets value"),
            ("CREATE KEYSPACE k WITH consistency = 'global'", "2200 consistency 'global'"),
            ("CREATE KEYSPACE k WITH storage = {'type': 'S3'}", "2200 storage of type S3"),
        ],
    );
    let cases = [
        ("{'class': 'Odd'}", "Unable to find replication strategy class 'Odd'"),
        ("{'class': 'LocalStrategy', 'dc1': 1}", "Unrecognized strategy option {dc1}"),
        ("{'class': 'SimpleStrategy'}", "SimpleStrategy requires a replication_factor strategy"),
        ("{'class': 'SimpleStrategy', 'dc1': 1}", "Unrecognized strategy option {dc1} passed to"),
        ("{'class': 'EverywhereStrategy', 'dc1': 1}", "Unrecognized strategy option {dc1}"),
        ("{'dc1': 1, 'dc2': 2}", "Unrecognized strategy option {dc2} passed to NetworkTopology"),
        ("{'dc1': 'x'}", "Replication factor must be numeric; found x"),
        ("{'dc1': 1.5}", "Replication factor must be numeric; found 1.5"),
        ("{'dc1': -1}", "Replication factor must be non-negative; found -1"),
        ("{'dc1': 4294967296}", "Replication factor is too large: 4294967296"),
        ("{'dc1': ['r1', 'r2']}", "Unrecognized rack name 'r2' for datacenter 'dc1'"),
    ];
    for (replication, expected) in cases {
        let statement = format!("CREATE KEYSPACE k WITH replication = {replication}");
        check_refused(&[], &[(&statement, &format!("2300 {expected}"))]);
    }
}

#[test]
fn keyspaces_are_altered() {
    let tablets = "CREATE KEYSPACE k WITH tablets = {'enabled': true}";
    let package = "org.apache.cassandra.locator";
    let simple = format!("{{'class': '{package}.SimpleStrategy', 'replication_factor': '1'}}");
    check(
        &[KS],
        "ALTER KEYSPACE ks WITH durable_writes = false",
        &format!(
            "ALTER KEYSPACE ks WITH replication = {simple} AND durable_writes = false AND \
             tablets = {{'enabled': false}};"
        ),
    );
    let network = format!("{{'class': '{package}.NetworkTopologyStrategy', 'dc1': '2'}}");
    let expected = format!(
        "ALTER KEYSPACE k WITH replication = {network} AND durable_writes = true AND tablets = \
         {{'enabled': true}};"
    );
    check(&[tablets], "ALTER KEYSPACE k WITH replication = {'dc1': 2}", &expected);
    let many = "ALTER KEYSPACE k WITH replication = {'dc1': 7}";
    check(&[tablets], many, &expected.replace("'dc1': '2'", "'dc1': '7'"));
    check(&[], "ALTER KEYSPACE IF EXISTS k WITH durable_writes = false", "");
    let flavor = "2200 Cannot alter replication strategy vnode/tablets flavor";
    let to_simple = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    check_refused(
        &[tablets],
        &[
            ("ALTER KEYSPACE k WITH tablets = {'enabled': false}", flavor),
            (&format!("ALTER KEYSPACE k WITH replication = {to_simple}"), flavor),
            (
                "ALTER KEYSPACE k WITH replication = {'replication_factor': 2}",
                "2200 'replication_factor' tag is not allowed",
            ),
        ],
    );
    // The shorthand adds data centers, and leaves alone those that are there.
    let plain = "CREATE KEYSPACE k WITH replication = {'dc1': 2}";
    let expected = outcome(&[plain], "ALTER KEYSPACE k WITH replication = {'dc1': 2}");
    check(&[plain], "ALTER KEYSPACE k WITH replication = {'replication_factor': 3}", &expected);
}

#[test]
fn tables_are_created() {
    let cases = [
        ("t (p int PRIMARY KEY)", "ks.t (#0 p int pk)"),
        ("ks.t (v text, p int PRIMARY KEY)", "ks.t (#0 p int pk, #1 v text)"),
        (
            "t (s int static, a int, b int, c int, d int, PRIMARY KEY ((b, a), d, c)) WITH \
             CLUSTERING ORDER BY (d DESC, c ASC)",
            "ks.t (#0 b int pk, #1 a int pk, #2 d int ck desc, #3 c int ck, #4 s int static)",
        ),
        ("t (p int PRIMARY KEY, c counter)", "ks.t (#0 p int pk, #1 c counter)"),
        (
            "t (p frozen<list<list<int>>> PRIMARY KEY, m map<text, frozen<set<int>>>)",
            "ks.t (#0 p frozen<list<frozen<list<int>>>> pk, #1 m map<text, frozen<set<int>>>)",
        ),
        (
            "t (p tuple<int, list<u>> PRIMARY KEY, u u, v vector<list<float>, 16000>)",
            "ks.t (#0 p frozen<tuple<int, frozen<list<frozen<u>>>>> pk, #1 u u, \
             #2 v vector<frozen<list<float>>, 16000>)",
        ),
        ("t (p 'Int32Type' PRIMARY KEY)", "ks.t (#0 p int pk)"),
    ];
    for (statement, expected) in cases {
        let setup = [KS, "CREATE TYPE u (a int)"];
        check(&setup, &format!("CREATE TABLE {statement}"), &format!("create {expected}"));
    }
    let table = "CREATE TABLE t (p int PRIMARY KEY)";
    check(&[KS, table], "CREATE TABLE IF NOT EXISTS t (q text PRIMARY KEY)", "");
    check(&[KS, table], "DROP TABLE t", "drop ks.t");
    check(&[KS], "DROP TABLE IF EXISTS t", "");
    check(&[], "DROP TABLE IF EXISTS nowhere.t", "");
    let id = "CREATE TABLE t (p int PRIMARY KEY) WITH ID = 5a1c395e-b41f-11e5-9f22-ba0be0483c18";
    let changes = Node::after(&[KS]).decide(id).unwrap();
    let SchemaChange::CreateTable(table) = &changes[0] else { panic!("{changes:?}") };
    assert_eq!(table.id.to_string(), "5a1c395e-b41f-11e5-9f22-ba0be0483c18");
}

#[test]
fn tables_are_refused() {
    let long = format!("{} (p int PRIMARY KEY)", "x".repeat(193));
    let cases = [
        (
            "t (p int PRIMARY KEY)",
            "2400 Cannot add already existing table \"t\" to keyspace \"ks\"",
        ),
        ("no.t (p int PRIMARY KEY)", "2200 Keyspace 'no' does not exist"),
        ("system.t (p int PRIMARY KEY)", "2100 system keyspace is not user-modifiable"),
        ("\"a b\" (p int PRIMARY KEY)", "2200 \"a b\" is not a valid table name"),
        (&long, "2200 Table names shouldn't be more than 192 characters long"),
        ("n (p int)", "2200 No PRIMARY KEY specified (exactly one required)"),
        ("n (p int PRIMARY KEY, q int PRIMARY KEY)", "2200 Multiple PRIMARY KEYs specified"),
        ("n (p int PRIMARY KEY, PRIMARY KEY (p))", "2200 Multiple PRIMARY KEYs specified"),
        ("n (p int, PRIMARY KEY (q))", "2200 Unknown definition q referenced in PRIMARY KEY"),
        ("n (p int, PRIMARY KEY (p, p))", "2200 Multiple definition of identifier p"),
        ("n (p int, p text, PRIMARY KEY (p))", "2200 Multiple definition of identifier p"),
        ("n (p int static, PRIMARY KEY (p))", "2200 Static column p cannot be part of the PRIM"),
        ("n (p int PRIMARY KEY, s int static)", "2200 Static columns are only useful (and thus"),
        ("n (p duration PRIMARY KEY)", "2200 duration type is not supported for PRIMARY KEY part"),
        ("n (p counter PRIMARY KEY)", "2200 counter type is not supported for PRIMARY KEY part"),
        ("n (p list<int> PRIMARY KEY)", "2200 Invalid non-frozen collection type for PRIMARY KEY"),
        ("n (p u PRIMARY KEY)", "2200 Invalid non-frozen user-defined type for PRIMARY KEY comp"),
        ("n (p int PRIMARY KEY, a counter, b int)", "2200 Cannot mix counter and non counter"),
        ("n (p int PRIMARY KEY) WITH CLUSTERING ORDER BY (p ASC)", "2200 Only clustering key col"),
        (
            "n (p int, c int, d int, PRIMARY KEY (p, c, d)) WITH CLUSTERING ORDER BY (d, c)",
            "2200 The order of columns in the CLUSTERING ORDER directive must be the one of the \
             clustering key (c must appear before d)",
        ),
        (
            "n (p int PRIMARY KEY, a int TTL, b int TTL)",
            "2200 A table cannot have more than one TTL column",
        ),
        (
            "n (p int PRIMARY KEY, t text TTL)",
            "2200 TTL column t must be of type timestamp, bigint or int",
        ),
        ("n (p int TTL PRIMARY KEY)", "2200 TTL column p must be a regular column"),
        (
            "n (p int PRIMARY KEY) WITH COMPACT STORAGE",
            "2200 COMPACT STORAGE with non-composite PRIMARY KEY require one column not part",
        ),
        (
            "n (p int PRIMARY KEY, l list<int>) WITH COMPACT STORAGE",
            "2200 Non-frozen collection and user-defined types are not supported with COMPACT",
        ),
        (
            "n (p int, c int, a int, b int, PRIMARY KEY (p, c)) WITH COMPACT STORAGE",
            "2200 COMPACT STORAGE with composite PRIMARY KEY allows no more than one column not \
             part of the PRIMARY KEY (got: a, b)",
        ),
        (
            "n (p int, c int, s int STATIC, PRIMARY KEY (p, c)) WITH COMPACT STORAGE",
            "2200 Static columns are not supported in COMPACT STORAGE tables",
        ),
        ("n (p int PRIMARY KEY) WITH ID = 'x'", "2300 Invalid table id"),
        (
            "n (p int PRIMARY KEY, c counter) WITH default_time_to_live = 1",
            "2200 Cannot set default_time_to_live on a table with counters",
        ),
    ];
    for (statement, expected) in cases {
        let setup = [KS, "CREATE TYPE u (a int)", "CREATE TABLE t (p int PRIMARY KEY)"];
        check_refused(&setup, &[(&format!("CREATE TABLE {statement}"), expected)]);
    }
}

#[test]
fn changes_of_tables_that_are_not_there_are_refused() {
    check_refused(
        &[KS],
        &[
            ("DROP TABLE t", "2200 Cannot drop non existing table 't' in keyspace 'ks'"),
            ("DROP TABLE no.t", "2200 Keyspace 'no' does not exist"),
            ("ALTER TABLE t ADD a int", "2200 unconfigured table t"),
            ("DROP TABLE system.local", "2100 system keyspace is not user-modifiable"),
        ],
    );
}

#[test]
fn types_are_refused() {
    let cases = [
        ("list<list<int>>", "Non-frozen collections are not allowed inside collections: list<list"),
        ("map<int, u>", "Non-frozen UDTs are not allowed inside collections: map<int, u>"),
        ("set<duration>", "Durations are not allowed inside sets: set<duration>"),
        ("map<duration, int>", "Durations are not allowed as map keys: map<duration, int>"),
        ("map<frozen<tuple<duration>>, int>", "Durations are not allowed as map keys"),
        ("list<counter>", "Counters are not allowed inside collections: list<counter>"),
        ("tuple<counter>", "Counters are not allowed inside tuples: tuple<counter>"),
        ("frozen<int>", "frozen<> is only allowed on collections, tuples, and user-defined types"),
        ("vector<int, 0>", "Vectors must have a dimension greater than 0"),
        ("vector<int, 16001>", "Vectors must have a dimension less than or equal to 16000"),
        ("nothing", "Unknown type ks.nothing"),
        ("other.u", "Statement on keyspace ks cannot refer to a user type in keyspace other"),
        ("'no.such.Class'", "Unable to find type no.such.Class"),
        ("deep", "Non-frozen UDTs with nested non-frozen collections are not supported for colum"),
    ];
    for (ty, expected) in cases {
        let setup = [KS, "CREATE TYPE u (a int)", "CREATE TYPE deep (a list<int>)"];
        let statement = format!("CREATE TABLE n (p int PRIMARY KEY, v {ty})");
        check_refused(&setup, &[(&statement, &format!("2200 {expected}"))]);
    }
}

#[test]
fn tables_are_altered() {
    let table = "CREATE TABLE t (p int, c ascii, s int static, v int, PRIMARY KEY (p, c))";
    let keys = "alter ks.t (#0 p int pk, #1 c ascii ck";
    let rest = "#2 s int static, #3 v int";
    let cases = [
        ("ADD w list<text>", format!("{keys}, {rest}, #4 w list<text>)")),
        (
            "ADD (a int, b int static)",
            format!(
                "{keys}, #5 b int static, #2 s int static, \
             #4 a int, #3 v int)"
            ),
        ),
        ("ADD IF NOT EXISTS v int", String::new()),
        ("ADD IF NOT EXISTS (v int, w int)", format!("{keys}, {rest}, #4 w int)")),
        ("DROP v", format!("{keys}, #2 s int static; -#3 v int @5)")),
        ("DROP (v, s) USING TIMESTAMP 99", format!("{keys}; -#3 v int @99; -#2 s int @99)")),
        ("DROP IF EXISTS w", String::new()),
        (
            "RENAME p TO q AND c TO p",
            "alter ks.t (#0 q int pk, #1 p ascii ck, #2 s int static, #3 v int)".to_owned(),
        ),
        ("ALTER c TYPE text", format!("alter ks.t (#0 p int pk, #1 c text ck, {rest})")),
        ("ALTER v TYPE varint", format!("{keys}, #2 s int static, #3 v varint)")),
        ("ALTER IF EXISTS w TYPE varint", String::new()),
        ("WITH comment = 'x'", format!("{keys}, {rest})")),
        ("WITH comment = ''", String::new()),
    ];
    for (action, expected) in cases {
        check(&[KS, table], &format!("ALTER TABLE t {action}"), &expected);
    }
    check(&[KS], "ALTER TABLE IF EXISTS t ADD a int", "");
    let dropped = [KS, table, "ALTER TABLE t DROP v"];
    let again = "alter ks.t (#0 p int pk, #1 c ascii ck, #2 s int static, #4 v blob; -#3 v int @5)";
    check(&dropped, "ALTER TABLE t ADD v blob", again);
}

#[test]
fn alterations_are_refused() {
    let table = "CREATE TABLE t (p int, c ascii, s int static, v int, g int, x int, \
                 PRIMARY KEY (p, c))";
    let cases = [
        ("ADD v int", "Invalid column name v because it conflicts with an existing column"),
        ("ADD (w int, w int)", "Invalid column name w because it conflicts with an existing"),
        ("ADD n counter", "Cannot add a counter column (n) in a non counter column family"),
        ("ADD g text", "Cannot re-add previously dropped column 'g' of type text, incompatible"),
        ("ADD g int static", "Cannot re-add previously dropped column 'g' of kind STATIC"),
        ("DROP p", "Cannot drop PRIMARY KEY part p"),
        ("DROP c", "Cannot drop PRIMARY KEY part c"),
        ("DROP w", "Column w was not found in table t"),
        ("DROP (v, v)", "Column v is dropped more than once"),
        ("DROP v USING TIMESTAMP ?", "Invalid null value of timestamp"),
        ("RENAME w TO z", "Cannot rename unknown column w in table t"),
        ("RENAME v TO z", "Cannot rename non PRIMARY KEY part v"),
        ("RENAME p TO v", "Cannot rename column p to v in table t; another column of that name"),
        ("ALTER c TYPE int", "Cannot change c from type ascii to type int: types are not order-"),
        ("ALTER v TYPE text", "Cannot change v from type int to type text: types are incompat"),
        ("ALTER v TYPE counter", "Cannot change v from type int to type counter: types are incom"),
        ("ALTER w TYPE int", "Column w was not found in table t"),
        ("TTL w", "Column w does not exist in table t"),
        ("TTL NULL", "Table t does not have a TTL column"),
        ("DROP COMPACT STORAGE", "Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE"),
        ("WITH CLUSTERING ORDER BY (c DESC)", "Cannot alter clustering order"),
    ];
    for (action, expected) in cases {
        let setup = [KS, table, "ALTER TABLE t DROP g", "ALTER TABLE t DROP x"];
        let statement = format!("ALTER TABLE t {action}");
        check_refused(&setup, &[(&statement, &format!("2200 {expected}"))]);
    }
    let no_clustering = "CREATE TABLE t (p int PRIMARY KEY, c counter, d counter)";
    check_refused(
        &[KS, no_clustering, "ALTER TABLE t DROP d"],
        &[
            ("ALTER TABLE t ADD s counter static", "2200 Static columns are only useful"),
            ("ALTER TABLE t ADD v int", "2200 Cannot add a non counter column (v) in a counter"),
            ("ALTER TABLE t ADD d counter", "2200 Cannot re-add previously dropped counter column"),
            ("ALTER TABLE t WITH default_time_to_live = 5", "2200 Cannot set default_time_to_live"),
            (
                "ALTER TABLE t WITH ID = 5a1c395e-b41f-11e5-9f22-ba0be0483c18",
                "2300 Cannot alter table id.",
            ),
        ],
    );
}

#[test]
fn user_types() {
    let ty = "CREATE TYPE u (a int, b list<text>)";
    let outer = "CREATE TYPE o (u frozen<u>)";
    check(&[KS], ty, "create type ks.u (a int, b list<text>)");
    check(&[KS, ty], "CREATE TYPE IF NOT EXISTS u (c int)", "");
    check(&[KS, ty], "ALTER TYPE u ADD c int", "alter type ks.u (a int, b list<text>, c int)");
    let renamed = "alter type ks.u (x int, y list<text>)";
    check(&[KS, ty], "ALTER TYPE u RENAME a TO x AND b TO y", renamed);
    let blob = "CREATE TYPE u (a ascii)";
    check(&[KS, blob], "ALTER TYPE u ALTER a TYPE text", "alter type ks.u (a text)");
    check(&[KS, ty], "DROP TYPE u", "drop type ks.u");
    check(&[KS], "CREATE TYPE \"a b\" (c int)", "create type ks.a b (c int)");
    check(&[KS], "DROP TYPE IF EXISTS u", "");
    check(&[KS], "ALTER TYPE IF EXISTS u ADD a int", "");
    check(&[KS, ty], "ALTER TYPE u ADD IF NOT EXISTS a int", "");
    let cases = [
        ("CREATE TYPE u (c int)", "A user type of name ks.u already exists"),
        ("CREATE TYPE w (a int, a int)", "Duplicate field name a in type w"),
        ("CREATE TYPE w (a counter)", "A user type cannot contain counters"),
        ("CREATE TYPE w (a u)", "A user type cannot contain non-frozen user type fields"),
        ("CREATE TYPE w (a frozen<w>)", "Unknown type ks.w"),
        ("CREATE TYPE no.w (a int)", "Keyspace 'no' does not exist"),
        ("ALTER TYPE u ADD a int", "Cannot add new field a to type ks.u: a field of the same"),
        ("ALTER TYPE u ADD c frozen<o>", "Cannot add new field c of type frozen<o> to type ks.u"),
        ("ALTER TYPE u RENAME z TO y", "Unknown field z in type u"),
        ("ALTER TYPE u RENAME a TO b", "Duplicate field name b in type u"),
        ("ALTER TYPE u ALTER a TYPE text", "Type text is incompatible with previous type int of"),
        ("ALTER TYPE w ADD a int", "No user type named ks.w exists"),
        ("DROP TYPE u", "Cannot drop user type ks.u as it is still used by user type ks.o"),
        ("DROP TYPE o", "Cannot drop user type ks.o as it is still used by table ks.t"),
        ("DROP TYPE w", "No user type named ks.w exists"),
    ];
    let table = "CREATE TABLE t (p int PRIMARY KEY, o list<frozen<o>>)";
    for (statement, expected) in cases {
        check_refused(&[KS, ty, outer, table], &[(statement, &format!("2200 {expected}"))]);
    }
    let not_frozen = [KS, "CREATE TYPE u (a int)", "CREATE TABLE t (p int PRIMARY KEY, u u)"];
    let nested = "2200 Non-frozen UDTs with nested non-frozen collections are not supported for";
    check_refused(&not_frozen, &[("ALTER TYPE u ADD c set<int>", nested)]);
    let key = "CREATE TABLE t (p frozen<o> PRIMARY KEY)";
    check_refused(
        &[KS, ty, outer, key],
        &[("ALTER TYPE u ADD c int", "2200 Cannot add new field to type ks.u because it is used")],
    );
}

#[test]
fn a_changed_type_is_followed() {
    let setup = [
        KS,
        "CREATE TYPE u (a int)",
        "CREATE TYPE o (u frozen<u>)",
        "CREATE TABLE t (p int PRIMARY KEY, o o, l list<frozen<o>>)",
        "ALTER TYPE u ADD b set<int>",
    ];
    let node = Node::after(&setup);
    let table = node.schema.table("ks", "t").unwrap();
    for column in ["o", "l"] {
        let ty = &table.schema.column(column).unwrap().ty;
        let is_new = |ty: &Type| matches!(ty, Type::User(user) if user.fields.len() == 2);
        assert!(ty.any(&is_new), "{ty:?}");
        assert!(!ty.children()[0].any(&Type::is_multi_cell), "{ty:?}");
    }
}

/// What a table of a keyspace with tablets has where its statement says no more than that.
fn unsaid(said: TableOptions) -> TableOptions {
    let pairs = [("mode", "repair"), ("propagation_delay_in_seconds", "3600")];
    let by_repairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    match said.tombstone_gc.is_empty() {
        true => TableOptions { tombstone_gc: by_repairs.to_vec(), ..said },
        false => said,
    }
}

/// The options that a table gets, or what is said against them.
fn options_of(with: &str) -> Result<TableOptions, Error> {
    let statement = format!("CREATE TABLE t (p int PRIMARY KEY) WITH {with}");
    match Node::after(&[TABLETS]).decide(&statement)?.remove(0) {
        SchemaChange::CreateTable(table) => Ok(table.options),
        other => panic!("{other:?}"),
    }
}

#[test]
fn compact_tables() {
    let dense = "CREATE TABLE d (p int, c int, v int, PRIMARY KEY (p, c)) WITH COMPACT STORAGE";
    let sparse = "CREATE TABLE s (p int PRIMARY KEY, v int) WITH COMPACT STORAGE";
    let mut node = Node::after(&[KS, dense, sparse]);
    let compact = |node: &Node, name: &str| {
        let table = &node.schema.table("ks", name).unwrap().schema;
        (table.compact_storage, table.is_dense(), table.to_cql_create().contains("COMPACT STORAGE"))
    };
    assert_eq!(compact(&node, "d"), (true, true, true));
    assert_eq!(compact(&node, "s"), (true, false, true));
    let setup = [KS, dense, sparse];
    check_refused(
        &setup,
        &[
            ("ALTER TABLE d ADD w int", "2200 Cannot add new column to a COMPACT STORAGE table"),
            ("ALTER TABLE s ADD w int STATIC", "2200 Static columns are not allowed in COMPACT"),
            ("ALTER TABLE s ADD w set<int>", "2200 Cannot use non-frozen collections"),
            ("ALTER TABLE d DROP v", "2200 Cannot drop columns from a COMPACT STORAGE table"),
        ],
    );
    check(&setup, "ALTER TABLE s ADD w int", "alter ks.s (#0 p int pk, #1 v int, #2 w int)");
    let changes = node.decide("ALTER TABLE d DROP COMPACT STORAGE").unwrap();
    node.apply(changes);
    assert_eq!(compact(&node, "d"), (false, false, false));
    node.rules.compact_storage = false;
    let refused = node.decide(&dense.replace(" d ", " e ")).unwrap_err().message();
    assert!(refused.contains("Support for the deprecated feature"), "{refused}");
}

#[test]
fn keyspaces_have_tablets_where_the_node_says_so() {
    let mut node = Node::empty();
    let mut check = |mode: TabletsByDefault, with: &str, expected: &str| {
        node.rules.tablets = mode;
        let found = match node.decide(&format!("CREATE KEYSPACE ks {with}")) {
            Ok(changes) => changes.iter().map(render).collect::<String>(),
            Err(error) => error.message(),
        };
        assert!(found.contains(expected), "{with}: {found}");
    };
    let (no, yes, always) = (TabletsByDefault::No, TabletsByDefault::Yes, TabletsByDefault::Always);
    let simple = "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    let without = "WITH tablets = {'enabled': false}";
    check(no, "", "'enabled': false");
    check(yes, "", "'enabled': true");
    check(yes, without, "'enabled': false");
    for strategy in ["SimpleStrategy", "EverywhereStrategy", "LocalStrategy"] {
        let factor = if strategy == "SimpleStrategy" { ", 'replication_factor': 1" } else { "" };
        let with = format!("WITH replication = {{'class': '{strategy}'{factor}}}");
        check(no, &with, "'enabled': false");
        check(yes, &with, &format!("Tablets are not supported with {strategy}"));
        check(yes, &format!("{with} AND tablets = {{'enabled': false}}"), "'enabled': false");
    }
    check(always, without, "Cannot disable tablets");
    check(always, simple, "Cannot disable tablets");
}

#[test]
fn options_are_stored() {
    let check = |with: &str, expected: &str| {
        let found = options_of(with).unwrap().to_cql();
        assert!(found.contains(&expected.to_owned()), "{with}: {found:?}");
    };
    let same = [
        "bloom_filter_fp_chance = 0.5",
        "column_index_size_in_kb = 1",
        "comment = 'it''s'",
        "crc_check_chance = 0.25",
        "dclocal_read_repair_chance = 0.1",
        "default_time_to_live = 630720000",
        "gc_grace_seconds = 0",
        "max_index_interval = 4096",
        "memtable_flush_period_in_ms = 60000",
        "min_index_interval = 2",
        "paxos_grace_seconds = 7",
        "per_partition_rate_limit = {'max_reads_per_second': '5'}",
        "tablets = {'min_tablet_count': '8'}",
        "sstable_format = 'ms'",
        "tombstone_gc = {'mode': 'repair', 'propagation_delay_in_seconds': '3'}",
        "speculative_retry = 'ALWAYS'",
        "compression = {'sstable_compression': ''}",
    ];
    same.iter().for_each(|with| check(with, with));
    check("speculative_retry = '99percentile'", "speculative_retry = '99.0PERCENTILE'");
    check("speculative_retry = '50MS'", "speculative_retry = '50.00ms'");
    check("compression = {}", "compression = {'sstable_compression': ''}");
    let lz4 = "'sstable_compression': 'org.apache.cassandra.io.compress.LZ4Compressor'";
    check(
        "compression = {'class': 'LZ4Compressor', 'chunk_length_kb': 64}",
        &format!("compression = {{{lz4}, 'chunk_length_in_kb': '64'}}"),
    );
    check(
        "compression = {'class': 'LZ4Compressor', 'enabled': false}",
        "compression = {'sstable_compression': ''}",
    );
    let class = "'sstable_compression': 'org.apache.cassandra.io.compress.ZstdCompressor'";
    check(
        "compression = {'class': 'ZstdCompressor', 'compression_level': 9}",
        &format!("compression = {{{class}, 'compression_level': '9'}}"),
    );
    check(
        "compression = {'class': 'LZ4WithDictsCompressor'}",
        "compression = {'sstable_compression': 'LZ4WithDictsCompressor'}",
    );
    check("caching = {'keys': 'none'}", "caching = {'keys': 'NONE', 'rows_per_partition': 'ALL'}");
    check(
        "compaction = {'class': 'org.apache.cassandra.db.compaction.LeveledCompactionStrategy', \
         'sstable_size_in_mb': 5}",
        "compaction = {'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': '5'}",
    );
    assert!(options_of("cdc = {'enabled': false}").unwrap().cdc.is_empty());
    let unsaid = unsaid(TableOptions::new());
    assert_eq!(options_of("synchronous_updates = false").unwrap(), unsaid);
    let left_to_the_node = options_of("column_index_size_in_kb = 0 AND sstable_format = ''");
    assert_eq!(left_to_the_node.unwrap(), unsaid);
}

#[test]
fn options_are_refused() {
    let cases = [
        ("what = 1", "2000 Unknown property 'what'"),
        ("gc_grace_seconds = 'x'", "2000 Invalid integer value x for 'gc_grace_seconds'"),
        ("gc_grace_seconds = {}", "2000 Invalid value for property 'gc_grace_seconds'"),
        (
            "gc_grace_seconds = -1",
            "2300 gc_grace_seconds cannot be smaller than 0, (default 864000",
        ),
        (
            "column_index_size_in_kb = -1",
            "2300 column_index_size_in_kb must be between 1 and 1048576",
        ),
        ("column_index_size_in_kb = 1048577", "2300 column_index_size_in_kb must be between 1 and"),
        ("column_index_size_in_kb = 'x'", "2000 Invalid integer value x for 'column_index_size"),
        ("sstable_format = 'mc'", "2300 sstable_format must be one of me, ms (got 'mc')"),
        ("sstable_format = {}", "2000 Invalid value for property 'sstable_format'"),
        ("default_time_to_live = -1", "2300 default_time_to_live cannot be smaller than 0"),
        ("default_time_to_live = 630720001", "2300 default_time_to_live must be less than or equa"),
        ("min_index_interval = 0", "2300 min_index_interval cannot be smaller than 1"),
        ("max_index_interval = 100", "2300 max_index_interval must be greater than min_index_inte"),
        ("memtable_flush_period_in_ms = 59999", "2300 memtable_flush_period_in_ms must be 0 or"),
        ("bloom_filter_fp_chance = 0", "2300 bloom_filter_fp_chance must be larger than"),
        ("bloom_filter_fp_chance = NaN", "2300 bloom_filter_fp_chance must be larger than"),
        ("crc_check_chance = 1.5", "2300 crc_check_chance must be larger than or equal to 0"),
        ("speculative_retry = 'often'", "2300 Invalid value often for option 'speculative_retry'"),
        ("speculative_retry = '101percentile'", "2300 Invalid value 101percentile for PERCENTILE"),
        ("compaction = {}", "2300 Missing sub-option 'class' for the 'compaction' option."),
        ("compression = 'x'", "2000 Invalid value for property 'compression'. It should be a map"),
        (
            "compression = {'chunk_length_in_kb': 4}",
            "2300 Missing sub-option 'sstable_compression'",
        ),
        ("compression = {'class': 'X'}", "2300 Unsupported compression class name 'X'"),
        (
            "compression = {'class': 'ZstdCompressor', 'compression_level': 23}",
            "2300 compression_level must be between -131072 and 22, got 23",
        ),
        (
            "compression = {'class': 'ZstdCompressor', 'compression_level': 'x'}",
            "2300 Invalid integer value x for compression_level",
        ),
        (
            "compression = {'class': 'LZ4Compressor', 'compression_level': 3}",
            "2300 Unknown compression option 'compression_level' for this compressor",
        ),
        ("caching = {'keys': 'SOME'}", "2300 Invalid key value: SOME"),
        ("caching = {'x': 'ALL'}", "2300 Invalid caching option: x"),
        ("tombstone_gc = {'mode': 'x'}", "2300 Invalid value for tombstone_gc option mode: x"),
        ("per_partition_rate_limit = {'x': 1}", "2300 Unknown sub-option 'x'"),
        ("tablets = {'x': 1}", "2300 Invalid tablet hint: x"),
        ("synchronous_updates = true", "2200 The synchronous_updates option is only applicable to"),
        ("synchronous_updates = 'x'", "2000 Invalid boolean value x for 'synchronous_updates'"),
    ];
    let found = |with: &str| {
        let error = options_of(with).expect_err(with);
        format!("{:04x} {error}", error.code())
    };
    for (with, expected) in cases {
        assert!(found(with).starts_with(expected), "{with}: {}", found(with));
    }
    for kib in ["3", "0", "-4", "x", "32768"] {
        let with =
            format!("compression = {{'class': 'LZ4Compressor', 'chunk_length_in_kb': {kib}}}");
        assert!(found(&with.replace("x}", "'x'}")).starts_with("2300"), "{with}");
    }
}

#[test]
fn compaction_options_are_refused() {
    let cases = [
        ("Odd", "'x': 1", "Unable to find compaction strategy class 'Odd'"),
        ("SizeTiered", "'x': 1", "Invalid compaction strategy options {{x, 1}} for chosen strat"),
        ("Leveled", "'bucket_low': 1", "Invalid compaction strategy options {{bucket_low, 1}}"),
        ("Null", "'tombstone_threshold': 5", "tombstone_threshold value (5) must be between 0.0"),
        ("SizeTiered", "'bucket_high': 1", "bucket_high value (1) must be greater than 1.0"),
        ("SizeTiered", "'min_threshold': 1", "min_threshold value (1) must be bigger or equal"),
        ("SizeTiered", "'min_threshold': 40", "Min compaction threshold cannot be greater than"),
        ("SizeTiered", "'min_threshold': 'x'", "x is not a parsable int (base10) for min_thresh"),
        ("SizeTiered", "'enabled': 'x'", "enabled value (x) must be \"true\" or \"false\""),
        ("TimeWindow", "'compaction_window_unit': 'YEARS'", "Invalid window unit YEARS for comp"),
        ("Incremental", "'bucket_low': 'x'", "x is not a parsable float for bucket_low"),
    ];
    for (class, option, expected) in cases {
        let class =
            if class == "Odd" { class.into() } else { format!("{class}CompactionStrategy") };
        let error = options_of(&format!("compaction = {{'class': '{class}', {option}}}"));
        let text = error.expect_err(option).to_string();
        assert!(text.starts_with(expected), "{option}: {text}");
    }
}

/// The table that its own description makes, in a keyspace that has the types for it.
fn made_again(table: &TableSchema) -> TableSchema {
    let mut node = Node::after(&[TABLETS]);
    let mut known = stdx::HashSet::default();
    let types = table.columns.iter().flat_map(|column| model::testing::user_types_in(&column.ty));
    let types = types.filter(|user| known.insert(user.name.clone()));
    node.apply(types.map(SchemaChange::CreateType).collect());
    let text = table.to_cql_create();
    let changes = node.decide(&text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    let [SchemaChange::CreateTable(again)] = &changes[..] else { panic!("{changes:?}") };
    TableSchema { id: table.id, version: table.version, ..again.clone() }
}

fn options() -> impl Strategy<Value = TableOptions> {
    let times = (0i32..1000, 0i32..1000, 60_000i32..100_000, prop::option::of(0i32..1000));
    let intervals = (1i32..100, 100i32..10_000);
    let chances = (0.001f64..1.0, 0.0f64..1.0, 0.0f64..1.0);
    let maps = prop::sample::subsequence(
        vec![
            "column_index_size_in_kb",
            "compaction",
            "compression",
            "sstable_format",
            "tombstone_gc",
            "tablets",
            "per_partition_rate_limit",
        ],
        0..=7,
    );
    (times, intervals, chances, "\\PC{0,9}", maps).prop_map(|(times, rows, chances, text, maps)| {
        let pairs = |given: &[(&str, &str)]| -> Vec<(String, String)> {
            given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        let mut options = TableOptions::new();
        options.comment = text;
        (options.gc_grace_seconds, options.default_time_to_live) = (times.0, times.1);
        (options.memtable_flush_period_in_ms, options.paxos_grace_seconds) = (times.2, times.3);
        (options.min_index_interval, options.max_index_interval) = rows;
        (options.bloom_filter_fp_chance, options.crc_check_chance) = (chances.0, chances.1);
        options.read_repair_chance = chances.2;
        for map in maps {
            match map {
                "column_index_size_in_kb" => options.set_extension(map, Some("4")),
                "sstable_format" => options.set_extension(map, Some("me")),
                "compaction" => {
                    let class = ("class", "TimeWindowCompactionStrategy");
                    options.compaction = pairs(&[class, ("compaction_window_unit", "DAYS")]);
                }
                "compression" => options.compression = pairs(&[("sstable_compression", "")]),
                "tombstone_gc" => options.tombstone_gc = pairs(&[("mode", "repair")]),
                "tablets" => options.tablets = pairs(&[("min_tablet_count", "4")]),
                _ => {
                    let limit = pairs(&[("max_writes_per_second", "9")]);
                    options.per_partition_rate_limit = limit;
                }
            }
        }
        options
    })
}

proptest! {
    #[test]
    fn a_description_makes_the_table_again(
        table in model::testing::table_schema(),
        options in options(),
    ) {
        let options = unsaid(options);
        let table = table.edit().options(options).version(table.version).build().unwrap();
        prop_assert_eq!(made_again(&table), table);
    }
}
