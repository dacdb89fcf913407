//! Statements on a simulated node: statement in, rows out.

use cluster::settings::By;
use cluster::{Cluster, SchemaChange};
use model::{TableSchema, Type, UserType};
use query::{BatchForm, BatchKind, Value};
use testkit::{CqlEnv, script};

fn of(element: Type) -> Box<Type> {
    Box::new(element)
}

fn tables() -> Vec<SchemaChange> {
    let id = || Cluster::new_table_id();
    let frozen = |element| Type::List { element: of(element), frozen: true };
    let user = UserType {
        keyspace: "ks".into(),
        name: "person".into(),
        fields: vec![("name".into(), Type::Text), ("age".into(), Type::Int)],
    };
    let person = user.to_type();
    let builders = [
        TableSchema::builder("ks", "t", id())
            .partition_key("p", Type::Int)
            .clustering("c", Type::Int)
            .clustering("d", Type::Text)
            .static_column("s", Type::Text)
            .regular("v", Type::Int)
            .regular("w", Type::Text),
        TableSchema::builder("ks", "k", id())
            .partition_key("p", Type::Int)
            .regular("v", Type::Int)
            .regular("x", Type::Double),
        TableSchema::builder("ks", "pair", id())
            .partition_key("a", Type::Int)
            .partition_key("b", Type::Text)
            .clustering_descending("c", Type::Int)
            .clustering("d", Type::Int)
            .regular("v", Type::Int),
        TableSchema::builder("ks", "col", id())
            .partition_key("p", Type::Int)
            .regular("l", Type::List { element: of(Type::Int), frozen: false })
            .regular("s", Type::Set { element: of(Type::Text), frozen: false })
            .regular("m", Type::Map { key: of(Type::Text), value: of(Type::Int), frozen: false })
            .regular("u", person.clone())
            .regular("f", frozen(Type::Int))
            .regular("fu", person.freeze())
            .regular("t", Type::Tuple(vec![Type::Int, Type::Text]))
            .regular("vec", Type::Vector { element: of(Type::Float), dimension: 2 }),
        TableSchema::builder("ks", "cnt", id())
            .partition_key("p", Type::Int)
            .regular("c", Type::Counter)
            .regular("d", Type::Counter),
    ];
    let mut changes = vec![SchemaChange::CreateType(user)];
    changes.extend(
        builders.map(|builder| SchemaChange::CreateTable(builder.build().expect("a table"))),
    );
    changes
}

/// Runs on nodes that have these tables.
fn run<F, Fut>(body: F)
where
    F: Fn(CqlEnv) -> Fut + Clone + 'static,
    Fut: Future<Output = ()> + 'static,
{
    CqlEnv::run_on_one_and_two(move |env| {
        let body = body.clone();
        async move {
            env.change(tables()).await;
            body(env).await;
        }
    });
}

#[test]
fn insert_select_update_delete() {
    run(|env| async move {
        script::run(&env, include_str!("scripts/insert_select_update_delete.cql")).await;
    });
}

#[test]
fn clustering_slices_order_and_limits() {
    run(|env| async move {
        for c in 1..=3 {
            for d in ["a", "b"] {
                env.ok(&format!("INSERT INTO t (p, c, d, v) VALUES (1, {c}, '{d}', {c})")).await;
            }
        }
        env.ok("INSERT INTO t (p, s) VALUES (1, 'st')").await;
        env.ok("INSERT INTO t (p, s) VALUES (2, 'only')").await;
        script::run(&env, include_str!("scripts/clustering_slices_order_and_limits.cql")).await;
    });
}

#[test]
fn mixed_orders_and_composite_keys() {
    run(|env| async move {
        for (c, d) in [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)] {
            env.ok(&format!("INSERT INTO pair (a, b, c, d, v) VALUES (1, 'x', {c}, {d}, {d})"))
                .await;
        }
        script::run(&env, include_str!("scripts/mixed_orders_and_composite_keys.cql")).await;
        let token = env.rows("SELECT token(a, b) FROM pair LIMIT 1").await;
        let select = format!("SELECT count(*) FROM pair WHERE token(a, b) = {token}");
        assert_eq!(env.rows(&select).await, "5");
        let select = format!("SELECT count(*) FROM pair WHERE token(a, b) > {token}");
        assert_eq!(env.rows(&select).await, "0");
    });
}

#[test]
fn a_text_that_is_repeated_is_analysed_once() {
    run(|env| async move {
        env.ok("INSERT INTO k (p, v) VALUES (1, 5)").await;
        let stats = || env.processor().cache_stats()[1];
        let select = "SELECT v FROM k WHERE p = 1";
        for _ in 0..5 {
            assert_eq!(env.rows(select).await, "5");
        }
        assert_eq!((stats().entries, stats().hits), (1, 3));
        // Texts that come once drive nothing out.
        for p in 100..150 {
            assert_eq!(env.rows(&format!("SELECT v FROM k WHERE p = {p}")).await, "");
        }
        assert_eq!((stats().entries, stats().hits), (1, 3));
        // Neither an older schema nor older options are believed.
        env.ok("ALTER TABLE k DROP v").await;
        assert!(env.error(select).await.contains("v"));
        let writes = "INSERT INTO k (p, x) VALUES (2, 1)";
        for _ in 0..3 {
            env.ok(writes).await;
        }
        assert_eq!(stats().entries, 2);
        let name = "tombstone_warn_threshold".to_string();
        cluster::Settings::change(name, "7".to_string(), By::Client).await.unwrap();
        env.ok(writes).await;
        assert_eq!(stats().entries, 1);
        assert!(0 < stats().bytes && stats().bytes <= stats().bytes_max);
    });
}

#[test]
fn collections_and_user_types() {
    run(|env| async move {
        script::run(&env, include_str!("scripts/collections_and_user_types.cql")).await;
    });
}

#[test]
fn counters() {
    run(|env| async move {
        script::run(&env, include_str!("scripts/counters.cql")).await;
    });
}

#[test]
fn timestamps_ttl_and_batches() {
    run(|env| async move {
        script::run(&env, include_str!("scripts/timestamps_ttl_and_batches.cql")).await;
        let ttl: i32 = env.rows("SELECT ttl(v) FROM k WHERE p = 1").await.parse().unwrap();
        assert!((990..=1000).contains(&ttl), "{ttl}");
        env.ok("INSERT INTO k (p, v) VALUES (9, 1) USING TTL 5").await;
        assert_eq!(env.rows("SELECT v FROM k WHERE p = 9").await, "1");
        runtime::time::sleep(std::time::Duration::from_secs(6)).await;
        assert_eq!(env.rows("SELECT v FROM k WHERE p = 9").await, "");
        let statements =
            ["INSERT INTO k (p, v) VALUES (20, 1)", "INSERT INTO k (p, v) VALUES (21, 1)"];
        env.batch(BatchKind::Unlogged, &statements).await.unwrap();
        assert_eq!(env.rows("SELECT count(*) FROM k WHERE p IN (20, 21)").await, "2");
    });
}

#[test]
fn conditional_writes() {
    run(|env| async move {
        script::run(&env, include_str!("scripts/conditional_writes.cql")).await;
    });
}

#[test]
fn paging_yields_every_row_once() {
    run(|env| async move {
        for p in 0..7 {
            for c in 0..5 {
                env.ok(&format!("INSERT INTO t (p, c, d, v) VALUES ({p}, {c}, 'x', {})", c % 2))
                    .await;
            }
        }
        for select in [
            "SELECT p, c FROM t",
            "SELECT v FROM t",
            "SELECT p, c FROM t WHERE p IN (1, 3, 5, 100)",
            "SELECT c FROM t WHERE p = 3",
            "SELECT c FROM t WHERE p = 3 ORDER BY c DESC",
            "SELECT p, c FROM t WHERE v = 1 ALLOW FILTERING",
            "SELECT p, c FROM t PER PARTITION LIMIT 2",
            "SELECT p, c FROM t WHERE v = 0 PER PARTITION LIMIT 2 ALLOW FILTERING",
            "SELECT DISTINCT p FROM t",
            "SELECT p, c FROM t LIMIT 11",
            "SELECT p, c FROM t WHERE p IN (1, 2) LIMIT 7",
            "SELECT p, c FROM t WHERE p IN (1, 2) PER PARTITION LIMIT 2",
            "SELECT v FROM t WHERE p IN (1, 2) PER PARTITION LIMIT 2",
            "SELECT d, p, v, w FROM t",
            "SELECT c, w, v FROM t WHERE p IN (1, 2)",
        ] {
            let whole = env.rows(select).await;
            for size in [1, 2, 3, 5, 7, 100] {
                let pages = env.pages(select, size).await;
                let filled: Vec<&str> =
                    pages.iter().map(String::as_str).filter(|page| !page.is_empty()).collect();
                assert_eq!(filled.join(" | "), whole, "{select} by {size}");
                for page in filled {
                    assert!(page.split(" | ").count() <= size as usize, "{select} by {size}");
                }
            }
        }
    });
}

#[test]
fn reads_that_end_for_their_bytes_make_one_result() {
    run(|env| async move {
        let option = "UPDATE system.config SET value = '64' WHERE name = ";
        env.ok(&format!("{option}'query_page_size_in_bytes'")).await;
        let is_there = |c: &i32| c % 3 != 0;
        for c in 0..40 {
            let row = format!("(1, 'x', {c}, 0, {})", c * 2);
            env.ok(&format!("INSERT INTO pair (a, b, c, d, v) VALUES {row}")).await;
        }
        for c in (0..40).filter(|c| !is_there(c)) {
            env.ok(&format!("DELETE FROM pair WHERE a = 1 AND b = 'x' AND c = {c}")).await;
        }
        let row = |c: i32| format!("{}, {c}, 'x'", c * 2);
        let rows: Vec<String> = (0..40).filter(is_there).map(row).collect();
        let back: Vec<String> = rows.iter().rev().cloned().collect();
        let check = async |tail: &str, expected: &[String]| {
            let select = format!("SELECT v, c, b FROM pair WHERE a = 1 AND b = 'x' {tail}");
            assert_eq!(env.rows(&select).await, expected.join(" | "), "{select}");
            for size in [1, 2, 3, 4, 7, 100] {
                let pages = env.pages(&select, size).await;
                let filled: Vec<&str> =
                    pages.iter().map(String::as_str).filter(|page| !page.is_empty()).collect();
                assert_eq!(filled.join(" | "), expected.join(" | "), "{select} by {size}");
                for page in filled {
                    assert!(page.split(" | ").count() <= size as usize, "{select} by {size}");
                }
            }
        };
        check("", &back).await;
        check("ORDER BY c ASC, d DESC", &rows).await;
        check("LIMIT 17", &back[..17]).await;
        check("PER PARTITION LIMIT 5", &back[..5]).await;
        check("ORDER BY c ASC, d DESC PER PARTITION LIMIT 9 LIMIT 11", &rows[..9]).await;
        check("AND c > 5 AND c < 9", &back[back.len() - 6..back.len() - 4]).await;
        check("AND c = 3", &[]).await;
    });
}

#[test]
fn prepared_statements_bind_and_follow_the_schema() {
    run(|env| async move {
        let int = |value: i32| value.to_be_bytes();
        let (one, ten) = (int(1), int(10));
        let insert = "INSERT INTO k (p, v, x) VALUES (?, ?, ?)";
        let values = [Value::Bytes(&one), Value::Bytes(&ten), Value::Unset];
        env.execute(insert, &values).await.unwrap();
        let rows = env.execute("SELECT v, x FROM k WHERE p = ?", &[Value::Bytes(&one)]).await;
        assert_eq!(testkit::cql::rows_text(&rows.unwrap()), "10, null");
        let prepared = env.processor().prepare(env.session(), insert, None, None).await.unwrap();
        let names: Vec<String> =
            prepared.bind().columns().map(|column| column.name.to_owned()).collect();
        assert_eq!(names, ["p", "v", "x"]);
        assert_eq!(prepared.bind().partition_key, [0]);
        assert!(env.processor().prepared(prepared.id()).is_some());
        assert!(env.processor().prepared(b"no such id").is_none());
        let wrong = [Value::Bytes(b"abc"), Value::Null, Value::Null];
        let error = env.execute(insert, &wrong).await.unwrap_err();
        assert_eq!(
            error.message(),
            "Exception while binding column p: Expected 4 bytes for an int (3)"
        );
        let select = "SELECT * FROM k WHERE p IN ? LIMIT ?";
        let mut list = vec![0, 0, 0, 1, 0, 0, 0, 4];
        list.extend(one);
        let rows = env.execute(select, &[Value::Bytes(&list), Value::Bytes(&ten)]).await.unwrap();
        assert_eq!(testkit::cql::rows_text(&rows), "1, 10, null");
        let prepared = env.processor().prepare(env.session(), select, None, None).await.unwrap();
        let names: Vec<String> =
            prepared.bind().columns().map(|column| column.name.to_owned()).collect();
        assert_eq!(names, ["IN(p)", "[limit]"]);
        let schema = env.processor().cluster().schema();
        let table = schema.table("ks", "k").unwrap().schema.edit();
        let table = table.regular("added", Type::Int).build().unwrap();
        let prepared = env.processor().prepare(env.session(), select, None, None).await.unwrap();
        let before = prepared.result(BatchForm::Scylla).unwrap().id;
        assert!(prepared.is_result_known(BatchForm::Scylla));
        env.change(vec![SchemaChange::AlterTable(table)]).await;
        let rows = env.execute(select, &[Value::Bytes(&list), Value::Bytes(&ten)]).await.unwrap();
        assert_eq!(testkit::cql::rows_text(&rows), "1, null, 10, null");
        let form = BatchForm::Scylla;
        assert!(!prepared.is_result_known(form) && prepared.result(form).unwrap().id != before);
    });
}

#[test]
fn functions_casts_and_aggregates() {
    run(|env| async move { script::run(&env, include_str!("scripts/functions.cql")).await });
}

#[test]
fn arithmetic() {
    run(|env| async move { script::run(&env, include_str!("scripts/operators.cql")).await });
}

/// Were overloads chosen anew at each level, these would take years.
#[test]
fn nested_calls_and_operators_are_prepared_in_linear_time() {
    run(|env| async move {
        let calls = format!("{}now(){}", "toTimestamp(toDate(".repeat(15), "))".repeat(15));
        let epoch = env.outcome(&format!("SELECT toUnixTimestamp({calls}) - 0")).await;
        assert!(epoch.parse::<i64>().is_ok_and(|millis| millis % 86_400_000 == 0), "{epoch}");
        let sums = format!("{}1{}", "(1 + ".repeat(30), ")".repeat(30));
        assert_eq!(env.outcome(&format!("SELECT {sums}")).await, "31");
        let markers = format!("SELECT {}?{}", "(1 * -".repeat(15), ")".repeat(15));
        assert!(env.outcome(&markers).await.starts_with("error: Ambiguous '*' operation"));
        let lists = format!("SELECT {}now(){}", "[[".repeat(15), "]]".repeat(15));
        assert!(env.outcome(&lists).await.starts_with("[["));
    });
}

#[test]
fn functions_and_slices_of_collections() {
    run(|env| async move {
        script::run(&env, include_str!("scripts/collection_functions.cql")).await;
    });
}

#[test]
fn system_tables_as_drivers_read_them() {
    run(|env| async move { script::run(&env, include_str!("scripts/system.cql")).await });
}

#[test]
fn refusals_and_their_texts() {
    run(|env| async move { script::run(&env, include_str!("scripts/refusals.cql")).await });
}

fn every() -> SchemaChange {
    let mut every =
        TableSchema::builder("ks", "every", Cluster::new_table_id()).partition_key("p", Type::Int);
    let plain = |ty: &Type| !matches!(ty, Type::Counter | Type::Empty);
    for ty in Type::natives().filter(plain) {
        every = every.regular(&format!("c_{}", ty.to_cql()), ty);
    }
    SchemaChange::CreateTable(every.build().expect("a table"))
}

#[test]
fn literals_of_every_type() {
    run(|env| async move {
        env.change(vec![every()]).await;
        script::run(&env, include_str!("scripts/types.cql")).await;
    });
}

/// Bytes that are, with luck, a value of something.
fn random_bytes() -> Vec<u8> {
    runtime::with_prng(|prng| {
        let lengths = [0, 1, 2, 4, 4, 8, 8, 12, 16, 16, 17, 30];
        let mut bytes = vec![0; *prng.pick(&lengths).expect("a length")];
        prng.fill(&mut bytes);
        if prng.one_in(2) {
            bytes.iter_mut().for_each(|byte| *byte &= 3);
        }
        bytes
    })
}

#[test]
fn bound_values_of_any_bytes_are_stored_or_refused() {
    CqlEnv::run(9, 1, |env| async move {
        let mut changes = tables();
        changes.push(every());
        env.change(changes).await;
        let schema = env.processor().cluster().schema();
        let mut stored = 0;
        for table in ["every", "col"] {
            let columns = schema.table("ks", table).unwrap().schema.regulars().to_vec();
            for column in columns {
                let insert = format!("INSERT INTO {table} (p, {}) VALUES (1, ?)", column.name);
                let select =
                    format!("SELECT {}, toJson({0}) FROM {table} WHERE p = 1", column.name);
                for _ in 0..60 {
                    let bytes = random_bytes();
                    let done = env.execute(&insert, &[Value::Bytes(&bytes)]).await;
                    match done {
                        Ok(_) => {
                            stored += 1;
                            env.rows(&select).await;
                        }
                        Err(error) => {
                            let expected = "Exception while binding column ";
                            assert!(error.message().starts_with(expected), "{error}");
                            assert_eq!(error.code(), 0x2200);
                        }
                    }
                }
            }
        }
        assert!(100 < stored, "{stored} values were valid");
    });
}

#[test]
fn bind_markers_are_named_typed_and_routed() {
    run(|env| async move {
        for pair in include_str!("scripts/bindings.cql").lines().collect::<Vec<_>>().chunks(2) {
            let prepared = env.processor().prepare(env.session(), pair[0], None, None).await;
            let found = match prepared {
                Ok(prepared) => {
                    let bind = prepared.bind();
                    let columns: Vec<String> = bind
                        .columns()
                        .map(|column| format!("{} {}", column.name, column.ty.to_cql()))
                        .collect();
                    let key: String =
                        bind.partition_key.iter().map(|at| format!(" {at}")).collect();
                    format!("{}; key{key}", columns.join(", "))
                }
                Err(error) => format!("error: {error}"),
            };
            match pair[1].strip_prefix("-- error: ..") {
                Some(part) => assert!(found.contains(part), "{}\n  {found}", pair[0]),
                None => assert_eq!(format!("-- {found}"), pair[1], "{}", pair[0]),
            }
        }
    });
}

/// A relation on the clustering columns `(c DESC, d ASC)` and its truth.
type Condition = (String, Box<dyn Fn(i32, i32) -> bool>);

fn random_condition(below: &mut dyn FnMut(u64) -> i32) -> Condition {
    let operators = ["<", "<=", ">", ">=", "="];
    let holds = |operator: &str, order: std::cmp::Ordering| match operator {
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        ">=" => order.is_ge(),
        _ => order.is_eq(),
    };
    let (x, y) = (below(5), below(5));
    let operator = operators[below(5) as usize];
    let tuple = move |c: i32, d: i32| holds(operator, (c, d).cmp(&(x, y)));
    match below(6) {
        0 => (format!("c {operator} {x}"), Box::new(move |c, _| holds(operator, c.cmp(&x)))),
        1 => (format!("(c, d) {operator} ({x}, {y})"), Box::new(tuple)),
        2 => (
            format!("(c, d) > ({x}, {y}) AND (c, d) <= ({y}, {x})"),
            Box::new(move |c, d| (c, d) > (x, y) && (c, d) <= (y, x)),
        ),
        3 => (
            format!("c = {x} AND d {operator} {y}"),
            Box::new(move |c, d| c == x && holds(operator, d.cmp(&y))),
        ),
        4 => (
            format!("c IN ({x}, {y}) AND d {operator} {x}"),
            Box::new(move |c, d| (c == x || c == y) && holds(operator, d.cmp(&x))),
        ),
        _ => (
            format!("(c) >= ({x}) AND (c, d) < ({y}, {x})"),
            Box::new(move |c, d| c >= x && (c, d) < (y, x)),
        ),
    }
}

#[test]
fn clustering_plans_agree_with_a_naive_model() {
    CqlEnv::run(7, 1, |env| async move {
        env.change(tables()).await;
        let mut rows = Vec::new();
        let mut below = |bound| runtime::with_prng(|prng| prng.below(bound)) as i32;
        for _ in 0..18 {
            let (c, d) = (below(5), below(5));
            env.ok(&format!("INSERT INTO pair (a, b, c, d) VALUES (1, 'x', {c}, {d})")).await;
            rows.push((std::cmp::Reverse(c), d));
        }
        rows.sort();
        rows.dedup();
        for _ in 0..400 {
            let (relation, passes) = random_condition(&mut below);
            let descending = below(2) == 0;
            let order = if descending { " ORDER BY c ASC" } else { "" };
            let select =
                format!("SELECT c, d FROM pair WHERE a = 1 AND b = 'x' AND {relation}{order}");
            let passing = rows.iter().filter(|(c, d)| passes(c.0, *d));
            let mut expected: Vec<String> = passing.map(|(c, d)| format!("{}, {d}", c.0)).collect();
            if descending {
                expected.reverse();
            }
            assert_eq!(env.rows(&select).await, expected.join(" | "), "{select}");
            let pages = env.pages(&select, 3).await;
            let pages: Vec<String> = pages.into_iter().filter(|page| !page.is_empty()).collect();
            assert_eq!(pages.join(" | "), expected.join(" | "), "{select} in pages");
        }
    });
}

/// Adds 1 to a row's value so many times, by compare-and-set; returns how often that failed.
async fn count_up(times: u32) -> u32 {
    let processor = runtime::local::get::<query::Processor>();
    let session = query::Session::internal();
    let parameters = query::Parameters::plain(replication::Consistency::One);
    let mut failures = 0;
    for _ in 0..times {
        loop {
            let read = "SELECT v FROM ks.k WHERE p = 1";
            let read = processor.query(&session, read, &parameters).await.expect("a read");
            let present: i32 = testkit::cql::rows_text(&read).parse().expect("a number");
            let next = present + 1;
            let set = format!("UPDATE ks.k SET v = {next} WHERE p = 1 IF v = {present}");
            let set = processor.query(&session, &set, &parameters).await.expect("a write");
            if testkit::cql::rows_text(&set).starts_with("true") {
                break;
            }
            failures += 1;
        }
    }
    failures
}

#[test]
fn concurrent_conditional_writes_lose_no_update() {
    let mut failures = 0;
    for seed in 0..8 {
        let (sender, receiver) = std::sync::mpsc::channel();
        CqlEnv::run(seed, 3, move |env| async move {
            env.change(tables()).await;
            env.ok("INSERT INTO k (p, v) VALUES (1, 0)").await;
            let failed = runtime::on_all_shards(|| async {
                let (a, b) = runtime::task::join(count_up(5), count_up(5)).await;
                a + b
            })
            .await;
            assert_eq!(env.rows("SELECT v FROM k WHERE p = 1").await, "30");
            sender.send(failed.iter().sum::<u32>()).expect("the test listens");
        });
        failures += receiver.recv().expect("a count");
    }
    assert!(0 < failures, "nothing ever met");
}

#[test]
fn json_in_and_out() {
    run(|env| async move { script::run(&env, include_str!("scripts/json.cql")).await });
}

/// A batch that writes a value of `bytes` for each of those keys.
async fn batch_of(
    env: &CqlEnv,
    kind: BatchKind,
    partitions: &[i32],
    bytes: usize,
) -> Result<query::Response, query::CqlError> {
    let value = "07".repeat(bytes);
    let insert = |p: &i32| format!("INSERT INTO big (p, v) VALUES ({p}, 0x{value})");
    let texts: Vec<String> = partitions.iter().map(insert).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    env.batch(kind, &texts).await
}

#[test]
fn batches_over_their_limits() {
    run(|env| async move {
        env.ok("CREATE TABLE big (p int PRIMARY KEY, v blob)").await;
        for kind in [BatchKind::Logged, BatchKind::Unlogged] {
            let done = batch_of(&env, kind, &[1, 2], 60 << 10).await.unwrap();
            assert_eq!(done.warnings, Vec::<String>::new());
            // One partition may have more: it is written as one mutation, or not at all.
            let done = batch_of(&env, kind, &[1, 1, 1], 60 << 10).await.unwrap();
            assert_eq!(done.warnings, Vec::<String>::new());
            let done = batch_of(&env, kind, &[1, 2, 3], 60 << 10).await.unwrap();
            let [warning] = &done.warnings[..] else { panic!("{:?}", done.warnings) };
            let size = warning.strip_prefix("Batch modifying 3 partitions in ks.big is of size ");
            let size: usize = size.unwrap().split(' ').next().unwrap().parse().unwrap();
            let over = size - (128 << 10);
            let rest = format!("bytes, exceeding specified WARN threshold of 131072 by {over}.");
            assert!((180 << 10..181 << 10).contains(&size) && warning.ends_with(&rest));
            let all: Vec<i32> = (100..118).collect();
            let refused = batch_of(&env, kind, &all, 60 << 10).await.unwrap_err();
            assert_eq!(refused.message(), "Batch too large");
            assert_eq!(env.rows("SELECT v FROM big WHERE p = 100").await, "");
        }
    });
}

#[test]
fn keys_and_mutations_over_their_limits() {
    run(|env| async move {
        env.ok("CREATE TABLE wide (p blob, q blob, c blob, d blob, v blob, PRIMARY KEY ((p, q), \
                c, d))")
            .await;
        env.ok("CREATE TABLE one (p blob PRIMARY KEY, v blob, m map<blob, blob>, s set<blob>)")
            .await;
        let bytes = |length| vec![7u8; length];
        let (one, short, longest, long) = (bytes(1), bytes(30_000), bytes(65_535), bytes(65_536));
        let insert = "INSERT INTO wide (p, q, c, d, v) VALUES (?, ?, ?, ?, 0x00)";
        let update = "UPDATE wide SET v = 0x00 WHERE p = ? AND q = ? AND c = ? AND d = ?";
        let delete = "DELETE FROM wide WHERE p = ? AND q = ? AND c = ? AND d = ?";
        let select = "SELECT v FROM wide WHERE p = ? AND q = ? AND c = ? AND d = ?";
        let too_long = |length| format!("Key length of {length} is longer than maximum of 65535");
        for text in [insert, update, delete, select] {
            for (values, expected) in [
                ([&short, &short, &longest, &longest], Some(131_070)),
                ([&long, &one, &one, &one], Some(65_537)),
                ([&one, &long, &one, &one], Some(65_537)),
                ([&longest, &one, &one, &one], Some(65_536)),
                ([&one, &one, &long, &one], Some(65_536)),
                ([&one, &one, &one, &long], Some(65_536)),
            ] {
                let values = values.map(|value| Value::Bytes(value));
                let outcome = env.execute(text, &values).await.err().map(|error| error.message());
                assert_eq!(outcome, expected.map(too_long), "{text}");
            }
        }
        let insert = "INSERT INTO one (p, v, m, s) VALUES (?, ?, ?, ?)";
        let write = async |key: &[u8], value: &[u8], element: &[u8]| {
            let (mut map, mut set) = (Vec::new(), Vec::new());
            model::value::write_map([(element, element)].into_iter(), &mut map);
            model::value::write_collection([element].into_iter(), &mut set);
            let values = [key, value, &map[..], &set[..]].map(Value::Bytes);
            env.execute(insert, &values).await.err().map(|error| error.message())
        };
        assert_eq!(write(&longest, &one, &one).await, None);
        assert_eq!(write(&long, &one, &one).await, Some(too_long(65_536)));
        assert_eq!(write(b"", &one, &one).await.as_deref(), Some("Key may not be empty"));
        // Elements of collections are longer than keys may be.
        assert_eq!(write(b"k", &one, &bytes(70_000)).await, None);
        let read = env.rows("SELECT v FROM one WHERE p = 0x6b").await;
        assert_eq!(read, "0x07");
        // More than half of a segment of the log (1 MiB here) is logged in pieces; a quarter of the
        // log (16 MiB) is the limit of a mutation.
        assert_eq!(write(b"large", &bytes(2_000_000), &one).await, None);
        let refused = write(b"k", &bytes(4_200_000), &one).await.expect("a refusal");
        assert!(refused.starts_with("Mutation of 4200"), "{refused}");
        assert!(refused.ends_with(" bytes is too large for the maximum size of 4194304"));
        assert_eq!(env.rows("SELECT v FROM one WHERE p = 0x6b").await, "0x07");
    });
}

#[test]
fn a_trace_is_written_after_the_answer() {
    run(|env| async move {
        let text = "SELECT v FROM k WHERE p = 7";
        let processor = env.processor();
        let trace = processor.begin_trace(env.session(), query::trace::Cause::Asked);
        let plain = query::Parameters::plain(replication::Consistency::One);
        let parameters = query::Parameters { trace: Some(&trace), page_size: Some(5), ..plain };
        processor.query(env.session(), text, &parameters).await.expect("an answer");
        let request = "Execute CQL3 query";
        let traced = query::trace::Traced { command: "QUERY", request, text, request_bytes: 40 };
        processor.end_trace(&trace, traced, &parameters);
        let id = trace.id();
        let sessions = format!(
            "SELECT command, request, request_size, parameters, username FROM \
             system_traces.sessions WHERE session_id = {id}"
        );
        for _ in 0..100 {
            if !env.rows(&sessions).await.is_empty() {
                break;
            }
            runtime::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        assert_eq!(
            env.rows(&sessions).await,
            "'QUERY', 'Execute CQL3 query', 40, {'consistency_level': 'ONE', 'page_size': '5', \
             'query': 'SELECT v FROM k WHERE p = 7'}, 'anonymous'"
        );
        let events = format!("SELECT activity FROM system_traces.events WHERE session_id = {id}");
        let told = env.rows(&events).await;
        let told: Vec<&str> = told.split(" | ").collect();
        assert_eq!(told[0], "'Parsing a statement'");
        assert_eq!(told[1], "'Processing a statement: reading of ks.k'");
        assert!(told[2].starts_with("'Reading the partition with token "), "{}", told[2]);
        assert_eq!(told[3], "'Read 0 rows and 0 tombstones, 0 SSTables opened'");
        assert_eq!(told[4..], ["'Done processing - preparing a result: 0 rows'"]);
        let times = "SELECT session_id FROM system_traces.sessions_time_idx";
        assert_eq!(env.rows(times).await, id.to_string());
    });
}
