//! What conditional batches are answered with, by what the client's driver expects. Cassandra's
//! form is what Apache Cassandra 5.0 answers to the same statements.

use query::{BatchForm, BatchKind, Response, ResponseKind};
use testkit::CqlEnv;
use testkit::cql::rows_text;

const T: &str = "CREATE TABLE t (p int, c int, z int STATIC, s int STATIC, w text, v int, a int, \
                 PRIMARY KEY (p, c))";
const K: &str = "CREATE TABLE k (p int PRIMARY KEY, w int, v int)";

/// The rows that every batch begins with.
async fn fill(env: &CqlEnv) {
    env.ok("TRUNCATE t").await;
    env.ok("TRUNCATE k").await;
    for c in 1..=3 {
        let values = format!("(1, {c}, 7, 5, 'w{c}', {c}, {c}0)");
        env.ok(&format!("INSERT INTO t (p, c, z, s, w, v, a) VALUES {values}")).await;
    }
    env.ok("INSERT INTO t (p, s) VALUES (2, 6)").await;
    env.ok("UPDATE t SET v = 1 WHERE p = 3 AND c = 1").await;
    env.ok("INSERT INTO k (p, v) VALUES (1, 1)").await;
}

/// The columns after `[applied]` and the rows.
fn text_of(response: &Response) -> String {
    let ResponseKind::Rows(rows) = &response.kind else { return rows_text(response) };
    let mut names = rows.metadata.columns().map(|column| column.name);
    assert_eq!(names.next(), Some("[applied]"));
    let names: Vec<&str> = names.collect();
    format!("{}: {}", names.join(" "), rows_text(response))
}

/// The answer to statements in a batch, which is the same as text, prepared and as a request.
async fn answer(env: &CqlEnv, statements: &str) -> String {
    let written = format!("BEGIN BATCH {statements}; APPLY BATCH");
    fill(env).await;
    let text = text_of(&env.ok(&written).await);
    fill(env).await;
    let prepared = env.execute(&written, &[]).await.expect("an answer");
    assert_eq!(text_of(&prepared), text, "prepared: {statements}");
    fill(env).await;
    let statements: Vec<&str> = statements.split("; ").collect();
    let batch = env.batch(BatchKind::Logged, &statements).await.expect("an answer");
    assert_eq!(text_of(&batch), text, "BATCH: {statements:?}");
    text
}

async fn check(env: &CqlEnv, table: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (statements, expected) in table {
        let found = answer(env, statements).await;
        if found != *expected {
            wrong.push(format!("{statements}\n  found    {found}\n  expected {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn run(form: BatchForm, table: &'static [(&str, &str)]) {
    for shards in [1, 2] {
        CqlEnv::run(7, shards, move |env| async move {
            env.ok(T).await;
            env.ok(K).await;
            env.session().expects(form);
            check(&env, table).await;
        });
    }
}

#[test]
fn scylla_answers_a_row_for_each_statement() {
    run(
        BatchForm::Scylla,
        &[
            ("UPDATE t SET v = 9 WHERE p = 1 AND c = 1 IF v = 1", "p c v: true, 1, 1, 1"),
            (
                "UPDATE t SET v = 9 WHERE p = 1 AND c = 3 IF v = 4; \
                 UPDATE t SET v = 9 WHERE p = 1 AND c = 9",
                "p c v: false, 1, 3, 3 | false, 1, null, null",
            ),
        ],
    );
}

#[test]
fn cassandra_answers_applied_alone_where_it_is_true() {
    run(
        BatchForm::Cassandra,
        &[
            ("UPDATE t SET v = 9 WHERE p = 1 AND c = 1 IF v = 1", ": true"),
            (
                "UPDATE t SET v = 9 WHERE p = 1 AND c = 3 IF v = 3; \
                 UPDATE t SET v = 9 WHERE p = 1 AND c = 2",
                ": true",
            ),
            (
                "INSERT INTO k (p, v) VALUES (5, 1) IF NOT EXISTS; UPDATE k SET w = 1 WHERE p = 5",
                ": true",
            ),
            (
                "DELETE FROM t WHERE p = 1 AND c > 1; \
                 UPDATE t SET v = 9 WHERE p = 1 AND c = 1 IF v = 1",
                ": true",
            ),
        ],
    );
}

#[test]
fn cassandra_answers_each_existing_row_once_where_it_is_false() {
    run(
        BatchForm::Cassandra,
        &[
            ("UPDATE t SET v = 9 WHERE p = 1 AND c = 1 IF v = 9", "p c v: false, 1, 1, 1"),
            ("UPDATE k SET v = 1 WHERE p = 1 IF v = 2", "p v: false, 1, 1"),
            // In the order of the rows; the columns in the order of the conditions.
            (
                "UPDATE t SET v = 9 WHERE p = 1 AND c = 3 IF v = 9; \
                 UPDATE t SET v = 9 WHERE p = 1 AND c = 1 IF a = 10",
                "p c v a: false, 1, 1, 1, 10 | false, 1, 3, 3, 30",
            ),
            // Two statements of one row.
            (
                "UPDATE t SET v = 9 WHERE p = 1 AND c = 3 IF v = 9 AND a = 1; \
                 UPDATE t SET a = 9 WHERE p = 1 AND c = 3 IF w = 'a'",
                "p c v a w: false, 1, 3, 3, 30, 'w3'",
            ),
            // Statements without a condition are not shown.
            (
                "UPDATE t SET v = 9 WHERE p = 1 AND c = 3 IF v = 4; \
                 UPDATE t SET v = 9 WHERE p = 1 AND c = 2",
                "p c v: false, 1, 3, 3",
            ),
            // Nor are rows that do not exist.
            (
                "UPDATE t SET v = 9 WHERE p = 1 AND c = 5 IF v = 4; \
                 UPDATE t SET v = 9 WHERE p = 1 AND c = 2 IF v = 2",
                "p c v: false, 1, 2, 2",
            ),
            (
                "DELETE v FROM t WHERE p = 1 AND c = 1 IF a = 1; \
                 DELETE FROM t WHERE p = 1 AND c = 2 IF w = 'a' AND a = 1",
                "p c a w: false, 1, 1, 10, 'w1' | false, 1, 2, 20, 'w2'",
            ),
            ("UPDATE t SET v = 9 WHERE p = 3 AND c = 1 IF a = 1", "p c a: false, 3, 1, null"),
            (
                "DELETE FROM t WHERE p = 1; UPDATE t SET v = 9 WHERE p = 1 AND c = 1 IF v = 9",
                "p c v: false, 1, 1, 1",
            ),
        ],
    );
}

#[test]
fn cassandra_answers_applied_alone_where_nothing_exists() {
    run(
        BatchForm::Cassandra,
        &[
            (
                "UPDATE t SET v = 9 WHERE p = 1 AND c = 4 IF v = 4; \
                 UPDATE t SET v = 9 WHERE p = 1 AND c = 2",
                ": false",
            ),
            ("UPDATE k SET v = 1 WHERE p = 2 IF v = 2", ": false"),
            ("UPDATE k SET v = 1 WHERE p = 2 IF EXISTS", ": false"),
            ("UPDATE t SET s = 9 WHERE p = 9 IF s = 4", ": false"),
            // No static column is asked for.
            ("UPDATE t SET v = 9 WHERE p = 2 AND c = 9 IF v = 2", ": false"),
        ],
    );
}

#[test]
fn cassandra_shows_all_columns_where_existence_is_asked_for() {
    run(
        BatchForm::Cassandra,
        &[
            // Static columns are null unless a conditional statement writes some.
            (
                "UPDATE t SET v = 9 WHERE p = 1 AND c = 3 IF EXISTS; \
                 UPDATE t SET v = 9 WHERE p = 1 AND c = 4 IF EXISTS",
                "p c s z a v w: false, 1, 3, null, null, 30, 3, 'w3'",
            ),
            (
                "INSERT INTO t (p, c, v) VALUES (1, 3, 1) IF NOT EXISTS; \
                 INSERT INTO t (p, c, v) VALUES (1, 1, 1) IF NOT EXISTS",
                "p c s z a v w: false, 1, 1, null, null, 10, 1, 'w1' | \
                 false, 1, 3, null, null, 30, 3, 'w3'",
            ),
            (
                "INSERT INTO t (p, c, v) VALUES (1, 3, 1) IF NOT EXISTS; \
                 UPDATE t SET s = 1 WHERE p = 1",
                "p c s z a v w: false, 1, 3, null, null, 30, 3, 'w3'",
            ),
            (
                "INSERT INTO t (p, c, s) VALUES (1, 1, 1) IF NOT EXISTS",
                "p c s z a v w: false, 1, 1, 5, 7, 10, 1, 'w1'",
            ),
            (
                "INSERT INTO t (p, c, v) VALUES (1, 3, 1) IF NOT EXISTS; \
                 UPDATE t SET s = 1 WHERE p = 1 IF s = 1",
                "p c s z a v w: false, 1, 3, 5, 7, 30, 3, 'w3'",
            ),
            (
                "UPDATE t SET s = 9 WHERE p = 1 IF EXISTS; \
                 UPDATE t SET v = 9 WHERE p = 1 AND c = 9 IF EXISTS",
                "p c s z a v w: false, 1, null, 5, 7, null, null, null",
            ),
            ("INSERT INTO k (p, v) VALUES (1, 1) IF NOT EXISTS", "p v w: false, 1, 1, null"),
        ],
    );
}

#[test]
fn cassandra_answers_static_columns_with_the_first_row_or_alone() {
    run(
        BatchForm::Cassandra,
        &[
            ("UPDATE t SET s = 9 WHERE p = 1 IF s = 4", "p c s: false, 1, 1, 5"),
            (
                "UPDATE t SET s = 9 WHERE p = 1 IF s = 4; UPDATE t SET v = 9 WHERE p = 1 AND c = 2",
                "p c s: false, 1, 1, 5",
            ),
            ("UPDATE t SET v = 9 WHERE p = 1 AND c = 2 IF s = 4", "p c s: false, 1, 1, 5"),
            ("UPDATE t SET v = 9 WHERE p = 1 AND c = 9 IF s = 4", "p c s: false, 1, 1, 5"),
            ("UPDATE t SET s = 9 WHERE p = 2 IF s = 4", "p c s: false, 2, null, 6"),
            (
                "UPDATE t SET s = 9 WHERE p = 2 IF s = 4; INSERT INTO t (p, c, v) VALUES (2, 9, 1)",
                "p c s: false, 2, null, 6",
            ),
            (
                "INSERT INTO t (p, s) VALUES (2, 1) IF NOT EXISTS",
                "p c s z a v w: false, 2, null, 6, null, null, null, null",
            ),
            (
                "INSERT INTO t (p, s) VALUES (1, 1) IF NOT EXISTS",
                "p c s z a v w: false, 1, 1, 5, 7, null, null, null",
            ),
            // With conditions on rows: those, and the static columns where there is none.
            (
                "INSERT INTO t (p, s) VALUES (1, 1) IF NOT EXISTS; \
                 UPDATE t SET v = 1 WHERE p = 1 AND c = 2 IF v = 2",
                "p c s z a v w: false, 1, 2, 5, 7, 20, 2, 'w2'",
            ),
            (
                "UPDATE t SET v = 9 WHERE p = 1 AND c = 2 IF s = 4 AND v = 1",
                "p c v s: false, 1, 2, 2, 5",
            ),
            (
                "UPDATE t SET v = 9 WHERE p = 1 AND c = 9 IF s = 4 AND v = 1",
                "p c v s: false, 1, null, null, 5",
            ),
            (
                "UPDATE t SET s = 9 WHERE p = 1 IF s = 4; \
                 UPDATE t SET v = 9 WHERE p = 1 AND c = 9 IF v = 2",
                "p c s v: false, 1, null, 5, null",
            ),
        ],
    );
}

/// The columns depend on what is found: PREPARED tells none, and no answer leaves them out.
#[test]
fn a_prepared_batch_has_the_columns_of_its_answer() {
    CqlEnv::run(8, 1, |env| async move {
        env.ok(T).await;
        let [scylla, cassandra] = [BatchForm::Scylla, BatchForm::Cassandra];
        let update = "UPDATE t SET v = 1 WHERE p = 1 AND c = 1 IF v = 2";
        let batch = format!("BEGIN BATCH {update}; APPLY BATCH");
        let prepared = env.processor().prepare(env.session(), &batch, None, None).await.unwrap();
        assert!(prepared.varies(cassandra) && !prepared.varies(scylla));
        assert!(prepared.result(cassandra).is_none() && !prepared.is_result_known(cassandra));
        assert!(prepared.result(scylla).is_some() && prepared.is_result_known(scylla));
        let one = env.processor().prepare(env.session(), update, None, None).await.unwrap();
        assert!(one.result(cassandra).is_some() && one.is_result_known(cassandra));
    });
}
