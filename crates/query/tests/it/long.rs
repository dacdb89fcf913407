//! Long statements on a simulated node: parsed aside, analysed with turns for others in between.
//! They do what short ones do.

use cluster::{Cluster, SchemaChange};
use model::{TableSchema, Type};
use query::{BatchKind, Value};
use testkit::CqlEnv;
use testkit::cql::rows_text;

/// More than is parsed at once.
const LONG: usize = 20_000;

fn run<F, Fut>(body: F)
where
    F: Fn(CqlEnv) -> Fut + Clone + 'static,
    Fut: Future<Output = ()> + 'static,
{
    CqlEnv::run_on_one_and_two(move |env| {
        let body = body.clone();
        async move {
            let (int, text) = (|| Box::new(Type::Int), || Box::new(Type::Text));
            let table = TableSchema::builder("ks", "t", Cluster::new_table_id())
                .partition_key("p", Type::Int)
                .clustering("c", Type::Int)
                .clustering("d", Type::Int)
                .regular("v", Type::Int)
                .regular("l", Type::List { element: int(), frozen: true })
                .regular("m", Type::Map { key: int(), value: text(), frozen: true });
            env.change(vec![SchemaChange::CreateTable(table.build().expect("a table"))]).await;
            body(env).await;
        }
    });
}

/// The statement with so much space that it is long.
fn long(text: &str) -> String {
    format!("{text}{}", " ".repeat(LONG))
}

fn list(part: &str, count: usize) -> String {
    vec![part; count].join(", ")
}

#[test]
fn as_many_markers_as_the_protocol_counts_share_what_they_stand_for() {
    run(|env| async move {
        const COUNT: usize = 65_535;
        let prepare = async |text: &str| {
            let prepared = env.processor().prepare(env.session(), text, None, None).await.unwrap();
            let bind = prepared.bind();
            assert_eq!(bind.columns().count(), bind.count());
            let mut runs: Vec<(String, usize)> = Vec::new();
            for column in bind.columns() {
                let said = format!("{} {}", column.name, column.ty.to_cql());
                match runs.last_mut() {
                    Some((last, count)) if *last == said => *count += 1,
                    _ => runs.push((said, 1)),
                }
            }
            (runs, bind.partition_key.clone())
        };
        let said = |runs: &[(&str, usize)], key: &[u16]| {
            let runs: Vec<_> =
                runs.iter().map(|(name, count)| (name.to_string(), *count)).collect();
            (runs, key.to_vec())
        };
        let insert =
            format!("INSERT INTO t (p, c, d, l) VALUES (?, 1, 2, [{}])", list("?", COUNT - 1));
        assert_eq!(
            prepare(&insert).await,
            said(&[("p int", 1), ("value(l) int", COUNT - 1)], &[0])
        );
        let wanted =
            format!("SELECT v FROM t WHERE p = ? AND c = 1 AND d IN ({})", list("?", COUNT - 1));
        assert_eq!(prepare(&wanted).await, said(&[("p int", 1), ("d int", COUNT - 1)], &[0]));
        let pairs = list("(?, ?)", COUNT / 2);
        let several = format!("SELECT v FROM t WHERE p = 1 AND (c, d) IN ({pairs})");
        let (runs, _) = prepare(&several).await;
        assert_eq!((runs.len(), &*runs[0].0, &*runs[1].0), (COUNT - 1, "c int", "d int"));
        let map = format!(
            "UPDATE t SET m = {{{}}} WHERE p = 1 AND c = 1 AND d = 1",
            list("?: ?", COUNT / 2)
        );
        let (runs, _) = prepare(&map).await;
        assert_eq!(
            (runs.len(), &*runs[0].0, &*runs[1].0),
            (COUNT - 1, "key(m) int", "value(m) text")
        );
        // What is bound arrives in its order.
        let numbers: Vec<[u8; 4]> = (0..COUNT as i32).map(i32::to_be_bytes).collect();
        let values: Vec<Value<'_>> = numbers.iter().map(|number| Value::Bytes(number)).collect();
        env.execute(&insert, &values).await.unwrap();
        let elements: Vec<String> = (1..COUNT).map(|number| number.to_string()).collect();
        let expected = format!("[{}]", elements.join(", "));
        assert!(env.rows("SELECT l FROM t WHERE p = 0 AND c = 1 AND d = 2").await == expected);
        let mut wrong = values.clone();
        wrong[COUNT - 1] = Value::Bytes(b"abc");
        let error = env.execute(&insert, &wrong).await.unwrap_err().message();
        let expected = "Exception while binding column value(l): Expected 4 bytes for an int (3)";
        assert_eq!(error, expected);
    });
}

#[test]
fn names_of_very_many_markers_are_told_once_each() {
    run(|env| async move {
        let names: Vec<String> = (0..LONG).map(|name| format!(":n{}", name % 10_000)).collect();
        let insert =
            format!("INSERT INTO t (p, c, d, l) VALUES (1, 1, 1, [?, {}])", names.join(", "));
        let prepared = env.processor().prepare(env.session(), &insert, None, None).await.unwrap();
        let bind = prepared.bind();
        let told: Vec<&str> = bind.columns().map(|column| column.name).collect();
        assert_eq!(told.len(), 10_001);
        assert_eq!(told[..3], ["value(l)", "n0", "n1"]);
        assert_eq!(told[10_000], "n9999");
    });
}

#[test]
fn a_long_text_does_what_a_short_one_does() {
    const TEXTS: [&str; 11] = [
        "INSERT INTO t (p, c, d, v) VALUES (1, 1, 1, 1)",
        "UPDATE t SET v = 2 WHERE p = 1 AND c = 1 AND d = 2 IF EXISTS",
        "UPDATE t SET v = 2 WHERE p = 1 AND c = 1 AND d = 1 IF v = 1",
        "BEGIN BATCH INSERT INTO t (p, c, d, v) VALUES (1, 1, 3, 3); \
         UPDATE t SET l = [1] WHERE p = 1 AND c = 1 AND d = 1; APPLY BATCH",
        "SELECT c, d, v, l FROM t WHERE p = 1",
        "BEGIN BATCH USING TTL 1 DELETE FROM t WHERE p = 1; APPLY BATCH",
        "BEGIN COUNTER BATCH DELETE FROM t WHERE p = 1; APPLY BATCH",
        "BEGIN BATCH DELETE FROM t WHERE p = 1; DELETE FROM no WHERE p = 1; APPLY BATCH",
        "SELECT c, d, v, l FROM t WHERE p = 1",
        "SELECT no FROM t",
        "SELECT",
    ];
    run(|env| async move {
        let outcomes = async |make: fn(&str) -> String| {
            env.ok("TRUNCATE t").await;
            let mut outcomes = Vec::new();
            for text in TEXTS {
                outcomes.push(env.outcome(&make(text)).await);
            }
            outcomes
        };
        let short = outcomes(str::to_owned).await;
        assert_eq!(short[4], "1, 1, 2, [1] | 1, 3, 3, null");
        assert!(short[5..8].iter().all(|outcome| outcome.starts_with("error: ")), "{short:?}");
        // The place of the end is told of what ends too early, and it is elsewhere.
        let without_place = |outcomes: Vec<String>| -> Vec<String> {
            outcomes.into_iter().map(|it| it.replace(&format!("1:{}", LONG + 6), "1:6")).collect()
        };
        assert_eq!(without_place(outcomes(long).await), short);
    });
}

#[test]
fn the_statements_of_a_long_batch_are_done_all_or_none() {
    run(|env| async move {
        let insert = |at| format!("INSERT INTO t (p, c, d, v) VALUES (5, {at}, 0, {at});");
        let inserts: Vec<String> = (0..600).map(insert).collect();
        let refused =
            format!("BEGIN BATCH {} DELETE FROM no WHERE p = 5; APPLY BATCH", inserts.join(" "));
        assert!(LONG < refused.len());
        assert_eq!(env.error(&refused).await, "unconfigured table no");
        assert_eq!(env.rows("SELECT count(*) FROM t WHERE p = 5").await, "0");
        let batch = format!("BEGIN BATCH {} APPLY BATCH", inserts.join(" "));
        env.ok(&batch).await;
        assert_eq!(env.rows("SELECT count(*), sum(v) FROM t WHERE p = 5").await, "600, 179700");
        let texts = [&*long(&insert(1000)), &insert(1001)].map(str::to_owned);
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        env.batch(BatchKind::Unlogged, &texts).await.unwrap();
        assert_eq!(env.rows("SELECT count(*) FROM t WHERE p = 5").await, "602");
    });
}

#[test]
fn a_long_prepared_statement_follows_the_schema() {
    run(|env| async move {
        env.ok("INSERT INTO t (p, c, d, v) VALUES (1, 1, 1, 1)").await;
        let text = long("SELECT * FROM t WHERE p = ?");
        let prepared = env.processor().prepare(env.session(), &text, None, None).await.unwrap();
        let entries = || env.processor().cache_stats()[0].entries;
        let before = entries();
        let again = env.processor().prepare(env.session(), &text, None, None).await.unwrap();
        assert!(std::rc::Rc::ptr_eq(&prepared, &again));
        env.ok("ALTER TABLE t ADD added int").await;
        let values = [Value::Bytes(&[0, 0, 0, 1])];
        let parameters = query::Parameters {
            values: query::Values::Positional(&values),
            ..query::Parameters::plain(replication::Consistency::One)
        };
        let execute = async || {
            let answer = env.processor().execute(env.session(), &prepared, &parameters).await;
            answer.map(|rows| rows_text(&rows)).map_err(|error| error.message())
        };
        assert_eq!(execute().await.unwrap(), "1, 1, 1, null, null, null, 1");
        assert!(!prepared.is_result_known(query::BatchForm::Scylla));
        let again = env.processor().prepare(env.session(), &text, None, None).await.unwrap();
        assert!(std::rc::Rc::ptr_eq(&prepared, &again) && entries() == before);
        env.ok("ALTER TABLE t DROP added").await;
        let again = env.processor().prepare(env.session(), &text, None, None).await.unwrap();
        assert!(std::rc::Rc::ptr_eq(&prepared, &again) && entries() == before);
        assert_eq!(execute().await.unwrap(), "1, 1, 1, null, null, 1");
        env.ok("DROP TABLE t").await;
        assert_eq!(execute().await.unwrap_err(), "unconfigured table t");
    });
}

#[test]
fn a_long_conditional_write_is_decided_where_its_row_is() {
    run(|env| async move {
        for p in 0..8 {
            let insert = format!("INSERT INTO t (p, c, d, v) VALUES ({p}, 1, 1, 1) IF NOT EXISTS");
            let applied = env.outcome(&long(&insert)).await;
            assert!(applied.starts_with("true"), "{applied}");
            let refused = env.outcome(&long(&insert)).await;
            assert!(refused.starts_with("false"), "{refused}");
        }
    });
}
