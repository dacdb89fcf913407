use crate::ddl::testing::Node;
use cluster::SchemaChange;
use model::TableSchema;
use model::schema::cdc::AHEAD_MICROS;
use std::rc::Rc;

const KEYSPACE: &str =
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
const TABLE: &str = "CREATE TABLE t (p int, c int, s set<int> static, l list<int>, v int, \
                     PRIMARY KEY (p, c)) WITH cdc = {'enabled': true}";
const ON: &str = "ALTER TABLE t WITH cdc = {'enabled': true}";
const OFF: &str = "ALTER TABLE t WITH cdc = {'enabled': false}";

fn node(statements: &[&str]) -> Node {
    Node::after(&[&[KEYSPACE], statements].concat())
}

fn run(node: &mut Node, text: &str) {
    let changes = node.decide(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    node.apply(changes);
}

fn log(node: &Node) -> Rc<TableSchema> {
    node.schema.table("ks", "t_scylla_cdc_log").expect("the log").schema.clone()
}

fn is_attached(node: &Node) -> bool {
    let base = node.schema.table("ks", "t").expect("the table");
    assert_eq!(base.log.is_some(), log(node).is_attached_log());
    base.log == Some(log(node).id)
}

fn names(table: &TableSchema) -> String {
    table.columns.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(" ")
}

fn refused(node: &Node, text: &str, expected: &str) {
    let error = node.decide(text).map(|_| ()).expect_err(text);
    let found = format!("{:04x} {error}", error.code());
    assert!(found.starts_with(expected), "{text}: {found}");
}

#[test]
fn options_are_read_in_any_case_and_refused() {
    let node = node(&["CREATE TABLE t (p int PRIMARY KEY)"]);
    let stored = |text: &str| {
        let changes = node.decide(&format!("ALTER TABLE t WITH cdc = {text}")).expect(text);
        let Some(SchemaChange::AlterTable(after)) = changes.first() else { return String::new() };
        let all = after.options.cdc.iter().map(|(name, value)| format!("{name} {value}"));
        all.collect::<Vec<_>>().join(", ")
    };
    let defaults = "delta full, enabled true, postimage false, preimage false, ttl 86400";
    assert_eq!(stored("{'enabled': true}"), defaults);
    assert_eq!(stored("{'ENABLED': '1', 'Delta': 'FULL', 'preimage': 0}"), defaults);
    assert_eq!(
        stored(
            "{'enabled': 'True', 'preimage': 'Full', 'postimage': 1, 'delta': 'Keys', 'ttl': 0}"
        ),
        "delta keys, enabled true, postimage true, preimage full, ttl 0"
    );
    let of = |preimage: &str| stored(&format!("{{'enabled': true, 'preimage': {preimage}}}"));
    assert!(of("true").contains("preimage true") && of("'0'").contains("preimage false"));
    assert_eq!((stored("{'enabled': false}"), stored("{}"), stored("false")), Default::default());
    let cases = [
        ("{'enabled': 'on'}", "2300 Invalid value for CDC option \"enabled\": on"),
        ("{'enabled': true, 'preimage': 'some'}", "2300 Invalid value for CDC option \"preimage\""),
        ("{'enabled': true, 'postimage': 'full'}", "2300 Invalid value for CDC option \"postim"),
        ("{'enabled': true, 'delta': 'none'}", "2300 Invalid value for CDC option \"delta\": none"),
        ("{'enabled': true, 'ttl': 'x'}", "2300 Invalid value for CDC option \"ttl\": x"),
        ("{'enabled': true, 'ttl': -1}", "2300 Invalid CDC option: ttl must be >= 0"),
        ("{'enabled': true, 'ttl': 630720001}", "2300 Invalid CDC option: ttl too large"),
        ("{'enabled': true, 'Tables': 1}", "2300 Invalid CDC option: Tables"),
        ("{'preimage': true}", "2200 Altering CDC options requires specifying \"enabled\" flag"),
        ("true", "2000 Invalid value for property 'cdc'. It should be a map"),
        ("{'enabled': {}}", "2000 Invalid value for property 'cdc'"),
    ];
    for (text, expected) in cases {
        refused(&node, &format!("ALTER TABLE t WITH cdc = {text}"), expected);
    }
}

#[test]
fn a_log_comes_with_its_table_and_goes_with_it() {
    let mut node = node(&[TABLE]);
    assert!(is_attached(&node));
    assert_eq!(
        names(&log(&node)),
        "cdc$stream_id cdc$time cdc$batch_seq_no c cdc$deleted_elements_l cdc$deleted_elements_s \
         cdc$deleted_l cdc$deleted_s cdc$deleted_v cdc$end_of_batch cdc$operation cdc$ttl l p s v"
    );
    let create = |text: &str| node.decide(text).map(|changes| changes.len());
    let again = TABLE.replace("TABLE t", "TABLE IF NOT EXISTS t");
    assert_eq!(create(&again), Ok(0));
    refused(&node, "DROP TABLE t_scylla_cdc_log", "2100 Cannot DROP cdc log table <table ks.t_scy");
    run(&mut node, "DROP TABLE t");
    assert!(node.schema.table("ks", "t_scylla_cdc_log").is_none());
    // One that was let go goes too; and one may be dropped by itself.
    for statement in ["DROP TABLE t", "DROP TABLE t_scylla_cdc_log"] {
        run(&mut node, TABLE);
        run(&mut node, OFF);
        run(&mut node, statement);
        assert!(node.schema.table("ks", "t_scylla_cdc_log").is_none());
        if node.schema.table("ks", "t").is_some() {
            run(&mut node, ON);
            assert!(is_attached(&node));
        }
    }
    run(&mut node, "DROP KEYSPACE ks");
}

#[test]
fn a_log_is_let_go_and_taken_again() {
    let mut node = node(&[TABLE]);
    let first = log(&node);
    run(&mut node, "ALTER TABLE t_scylla_cdc_log WITH comment = 'mine' AND gc_grace_seconds = 7");
    run(&mut node, OFF);
    assert!(!is_attached(&node));
    assert_eq!(log(&node).options.comment, "mine");
    // What the base does meanwhile does not concern it.
    run(&mut node, "ALTER TABLE t DROP v");
    run(&mut node, "ALTER TABLE t ADD w text");
    run(&mut node, "ALTER TABLE t RENAME c TO d");
    assert_eq!(names(&log(&node)), names(&first));
    run(&mut node, ON);
    let again = log(&node);
    assert!(is_attached(&node) && again.id == first.id);
    assert_eq!((again.options.comment.as_str(), again.options.gc_grace_seconds), ("mine", 7));
    assert_eq!(
        names(&again),
        "cdc$stream_id cdc$time cdc$batch_seq_no cdc$deleted_elements_l cdc$deleted_elements_s \
         cdc$deleted_l cdc$deleted_s cdc$deleted_w cdc$end_of_batch cdc$operation cdc$ttl d l p s w"
    );
    let mut dropped: Vec<&str> = again.dropped.iter().map(|it| it.name.as_str()).collect();
    dropped.sort_unstable();
    assert_eq!(dropped, ["c", "cdc$deleted_v", "v"]);
}

#[test]
fn a_log_follows_its_base() {
    let mut node = node(&[TABLE]);
    let id = |node: &Node, name: &str| log(node).column(name).map(|column| column.id);
    let of_c = id(&node, "c");
    run(&mut node, "ALTER TABLE t RENAME c TO d");
    assert_eq!((id(&node, "c"), id(&node, "d")), (None, of_c));
    run(&mut node, "ALTER TABLE t ADD (x int, m map<int, text>)");
    let m = log(&node).column("cdc$deleted_elements_m").expect("a column").ty.to_cql();
    assert_eq!(m, "frozen<set<int>>");
    run(&mut node, "ALTER TABLE t ALTER v TYPE blob");
    assert_eq!(log(&node).column("v").expect("a column").ty.to_cql(), "blob");
    run(&mut node, "ALTER TABLE t DROP (x, m)");
    let gone = log(&node).dropped.iter().map(|it| it.dropped_at).min();
    assert!(gone.is_some_and(|at| AHEAD_MICROS < at));
    refused(
        &node,
        "ALTER TABLE t ADD x int",
        "2200 Cannot add column x because a column with the same name was dropped too recently. \
         Please retry after 5 seconds",
    );
    // It does not concern what has no log.
    run(&mut node, OFF);
    run(&mut node, "ALTER TABLE t ADD x int");
    // Options that are not about its columns leave it alone.
    run(&mut node, "ALTER TABLE t WITH comment = 'x'");
    let before = log(&node);
    assert_eq!(before.columns, log(&node).columns);
    // A user type that changes changes in the log.
    run(&mut node, "CREATE TYPE u (a int)");
    run(&mut node, "CREATE TABLE t2 (p int PRIMARY KEY, u u) WITH cdc = {'enabled': true}");
    run(&mut node, "ALTER TYPE u ADD b int");
    let log = &node.schema.table("ks", "t2_scylla_cdc_log").expect("the log").schema;
    let model::Type::User(user) = &log.column("u").expect("a column").ty else { panic!("no type") };
    assert_eq!((user.fields.len(), user.frozen), (2, true));
}

#[test]
fn windows_follow_the_time_to_live_unless_somebody_set_them() {
    let mut node = node(&[TABLE]);
    let window = |node: &Node| {
        let options = log(node).options.clone();
        let found = options.compaction.iter().find(|(name, _)| name == "compaction_window_size");
        (found.map(|(_, size)| size.clone()), options.gc_grace_seconds)
    };
    assert_eq!(window(&node), (Some("60".to_owned()), 0));
    run(&mut node, "ALTER TABLE t WITH cdc = {'enabled': true, 'ttl': 3600}");
    assert_eq!(window(&node), (Some("3".to_owned()), 0));
    run(&mut node, "ALTER TABLE t WITH cdc = {'enabled': true, 'ttl': 0}");
    assert_eq!(window(&node), (Some("60".to_owned()), 864_000));
    run(
        &mut node,
        "ALTER TABLE t_scylla_cdc_log WITH gc_grace_seconds = 9 AND compaction = {'class': \
         'TimeWindowCompactionStrategy', 'compaction_window_size': 7}",
    );
    run(&mut node, "ALTER TABLE t WITH cdc = {'enabled': true, 'ttl': 60}");
    assert_eq!(window(&node), (Some("7".to_owned()), 9));
}

#[test]
fn what_cannot_have_a_log_is_refused() {
    let mut node = node(&[
        "CREATE TABLE t (p int PRIMARY KEY, v int)",
        "CREATE TABLE n (p int PRIMARY KEY, v counter)",
        "CREATE TABLE u_scylla_cdc_log (p int PRIMARY KEY, v int)",
    ]);
    let with = |table: &str| format!("ALTER TABLE {table} WITH cdc = {{'enabled': true}}");
    let counter = "2200 Cannot create CDC log for table ks.n. Counter support not implemented";
    refused(&node, &with("n"), counter);
    let taken = "2200 Cannot create CDC log table for table ks.u because a table of name \
                 ks.u_scylla_cdc_log already exists";
    refused(&node, "CREATE TABLE u (p int PRIMARY KEY) WITH cdc = {'enabled': true}", taken);
    // One that is merely named so is a table like others.
    run(&mut node, "ALTER TABLE u_scylla_cdc_log DROP v");
    run(&mut node, "ALTER TABLE u_scylla_cdc_log RENAME p TO q");
    run(&mut node, "DROP TABLE u_scylla_cdc_log");
    run(&mut node, &with("t"));
    let nested = "2200 Cannot create a CDC log for a table ks.t_scylla_cdc_log, because creating \
                  nested CDC logs is not allowed";
    refused(&node, &with("t_scylla_cdc_log"), nested);
    let log = "ALTER TABLE t_scylla_cdc_log";
    let directly = "2200 You cannot modify the set of columns of a CDC log table directly. ";
    let check = |node: &Node, columns: &str, name: &str| {
        for action in ["ADD x int", "DROP v", "DROP \"cdc$time\"", "ALTER v TYPE blob"] {
            refused(node, &format!("{log} {action}"), columns);
        }
        for action in ["RENAME v TO w", "RENAME \"cdc$stream_id\" TO w"] {
            refused(node, &format!("{log} {action}"), name);
        }
    };
    check(
        &node,
        &format!("{directly}Modify the base table instead."),
        "2200 Cannot rename a column of a CDC log table.",
    );
    let repair = format!("{log} WITH tombstone_gc = {{'mode': 'repair'}}");
    let text = "2300 The 'repair' mode for tombstone_gc is not allowed on CDC log tables.";
    refused(&node, &repair, text);
    let view = "CREATE MATERIALIZED VIEW mv AS SELECT * FROM t_scylla_cdc_log PRIMARY KEY (p)";
    refused(&node, view, "2200 Materialized views are not supported on CDC log tables");
    let index = "CREATE INDEX ON t_scylla_cdc_log (p)";
    refused(&node, index, "2200 Secondary indexes are not supported on CDC log tables");
    run(&mut node, OFF);
    check(
        &node,
        &format!("{directly}Although the base table has deactivated CDC"),
        "2200 You cannot rename a column of a CDC log table. Although the base table has",
    );
    node.has_streams = false;
    let text = "2200 Cannot create CDC log for table ks.t: the streams of the ring are being made";
    refused(&node, ON, text);
    node.has_cdc = false;
    let text = "2200 Not all nodes of the cluster can have logs of changes (CDC): upgrade them";
    refused(&node, ON, text);
    // What has no log is not concerned.
    run(&mut node, "CREATE TABLE w (p int PRIMARY KEY)");
}

#[test]
fn a_table_has_views_and_a_log() {
    let mut node = node(&[TABLE]);
    run(
        &mut node,
        "CREATE MATERIALIZED VIEW mv AS SELECT p, c, v FROM t WHERE p IS NOT NULL AND c IS NOT \
         NULL AND v IS NOT NULL PRIMARY KEY (v, p, c)",
    );
    run(&mut node, "CREATE INDEX i ON t (v)");
    assert!(is_attached(&node));
    run(&mut node, "ALTER TABLE t RENAME c TO d");
    assert!(log(&node).column("d").is_some());
    let view = &node.schema.table("ks", "mv").expect("the view").schema;
    assert!(view.column("d").is_some());
    run(&mut node, "DROP INDEX i");
    run(&mut node, "DROP MATERIALIZED VIEW mv");
    run(&mut node, "DROP TABLE t");
}
