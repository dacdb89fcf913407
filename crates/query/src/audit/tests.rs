use super::*;
use plan::Options;
use plan::ddl::testing::Node;

const SETUP: [&str; 3] = [
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE ks.t (p int PRIMARY KEY, v int)",
    "CREATE TABLE ks.u (p int PRIMARY KEY, v int)",
];

#[test]
fn kinds_and_subjects_of_statements() {
    let node = Node::after(&SETUP);
    let session = Session::internal();
    *session.keyspace.borrow_mut() = Some("ks".into());
    let check = |text: &str, expected: &str| {
        let options = Options::standard();
        let statement = Statement::analyze(&node.schema, text, Some("ks"), &options);
        let plan = statement.unwrap_or_else(|error| panic!("{text}: {error}")).plan;
        let subjects = subjects(&plan, &session);
        let names: Vec<String> =
            subjects.iter().map(|(keyspace, table)| format!("{keyspace}.{table}")).collect();
        assert_eq!(format!("{} {}", category(&plan).name(), names.join(" ")), expected, "{text}");
    };
    check("SELECT * FROM t", "QUERY ks.t");
    check("SELECT * FROM system.local", "QUERY system.local");
    check("SELECT * FROM MUTATION_FRAGMENTS(ks.t)", "QUERY ks.t");
    check("DESCRIBE SCHEMA", "QUERY .");
    check("INSERT INTO t (p) VALUES (1)", "DML ks.t");
    check("UPDATE ks.u SET v = 1 WHERE p = 1", "DML ks.u");
    check("DELETE FROM t WHERE p = 1", "DML ks.t");
    check("TRUNCATE t", "DML ks.t");
    check("USE ks", "DML ks.");
    check(
        "BEGIN BATCH INSERT INTO t (p) VALUES (1); DELETE FROM u WHERE p = 1; DELETE FROM t \
         WHERE p = 2; APPLY BATCH",
        "DML ks.t ks.u",
    );
    check("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}", "DDL k.");
    check("ALTER KEYSPACE k WITH durable_writes = true", "DDL k.");
    check("DROP KEYSPACE k", "DDL k.");
    check("CREATE TABLE x (p int PRIMARY KEY)", "DDL ks.x");
    check("ALTER TABLE k.x ADD c int", "DDL k.x");
    check("DROP TABLE k.x", "DDL k.x");
    check("CREATE TYPE k.y (f int)", "DDL k.");
    check("DROP TYPE y", "DDL ks.");
    check("CREATE INDEX ON k.x (v)", "DDL k.x");
    check("DROP FUNCTION k.f", "DDL k.");
    check("DROP AGGREGATE a", "DDL ks.");
    check("CREATE ROLE r WITH PASSWORD = 'x'", "DCL .");
    check("GRANT SELECT ON t TO r", "DCL .");
    check("LIST ROLES", "DCL .");
    check("CREATE SERVICE LEVEL l", "ADMIN .");
    check("ATTACH SERVICE LEVEL l TO r", "ADMIN .");
    check("LIST ALL SERVICE LEVELS", "ADMIN .");
}

fn event(operation: &str) -> Rc<Event> {
    Rc::new(Event {
        at_micros: 0,
        category: Category::Dml,
        consistency: "ONE",
        keyspace: "ks".into(),
        table: "t".into(),
        operation: operation.into(),
        client: None,
        user: "a".into(),
        is_error: false,
    })
}

#[test]
fn queues_are_bounded_by_bytes_and_end_when_they_are_empty() {
    runtime::testing::block_on_with(runtime::Config::new(1), || async {
        let bytes = event("x").bytes();
        let queue = Rc::new(Queue::new(Sinks::TABLE, 2 * bytes));
        (0..3).for_each(|_| queue.offer(&event("x")));
        let dropped = Counts { dropped: 1, ..Counts::default() };
        assert_eq!((queue.bytes.get(), queue.counts()), (2 * bytes, dropped));
        assert!(queue.next().await.is_some());
        // There is room again, for what fits.
        queue.offer(&event("xx"));
        queue.offer(&event("y"));
        assert_eq!(queue.counts().dropped, 2);
        queue.close();
        assert!(queue.next().await.is_some_and(|it| it.operation == "x"));
        assert!(queue.next().await.is_some_and(|it| it.operation == "y"));
        assert!(queue.next().await.is_none());
        assert_eq!(queue.bytes.get(), 0);
    });
}

#[test]
fn losses_are_told_now_and_then() {
    runtime::testing::block_on_with(runtime::Config::new(1), || async {
        let queue = Queue::new(Sinks::TABLE, 0);
        let start = Instant::now();
        let told = |seconds: u64| {
            queue.count(|counts| counts.dropped += 1);
            queue.tell_dropped(start + Duration::from_secs(seconds));
            queue.told.get().map(|(_, dropped)| dropped)
        };
        assert_eq!(told(0), Some(1));
        assert_eq!(told(5), Some(1));
        assert_eq!(told(9), Some(1));
        assert_eq!(told(10), Some(4));
    });
}

#[test]
fn some_failures_of_each_second_are_told() {
    let mut failures = Failures::default();
    let mut told = |millis: u64, count: usize| -> Vec<Option<u64>> {
        let at = Instant::from_nanos(millis * 1_000_000);
        (0..count).map(|_| failures.add(at)).filter(Option::is_some).collect()
    };
    assert_eq!(told(0, 4).len(), 4);
    assert_eq!(told(999, 30), vec![Some(0); 6]);
    assert_eq!(told(1000, 2), [Some(24), Some(0)]);
    assert_eq!(told(5000, 11), vec![Some(0); 10]);
    assert_eq!(told(9000, 1), [Some(1)]);
}
