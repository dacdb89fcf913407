//! `SELECT .. FROM MUTATION_FRAGMENTS(t)` on a simulated node.

use cluster::{Cluster, SchemaChange};
use model::{TableSchema, Type};
use testkit::CqlEnv;

fn run<F, Fut>(body: F)
where
    F: Fn(CqlEnv) -> Fut + Clone + 'static,
    Fut: Future<Output = ()> + 'static,
{
    CqlEnv::run_on_one_and_two(move |env| {
        let body = body.clone();
        async move {
            let table = TableSchema::builder("ks", "t", Cluster::new_table_id())
                .partition_key("p", Type::Int)
                .clustering("c", Type::Int)
                .clustering("d", Type::Int)
                .static_column("s", Type::Text)
                .regular("v", Type::Text)
                .build();
            env.change(vec![SchemaChange::CreateTable(table.unwrap())]).await;
            body(env).await;
        }
    });
}

const SHOWN: &str = "p, mutation_source, partition_region, c, d, position_weight, \
                     mutation_fragment_kind";

async fn write(env: &CqlEnv) {
    env.ok("UPDATE t USING TIMESTAMP 1 SET s = 'st' WHERE p = 1").await;
    env.ok("DELETE FROM t USING TIMESTAMP 2 WHERE p = 1 AND c = 0 AND d > 0 AND d < 3").await;
    env.ok("INSERT INTO t (p, c, d, v) VALUES (1, 0, 1, 'a') USING TIMESTAMP 3").await;
    env.ok("INSERT INTO t (p, c, d, v) VALUES (1, 0, 2, 'b') USING TIMESTAMP 3").await;
    env.ok("INSERT INTO t (p, c, d, v) VALUES (1, 4, 4, 'c') USING TIMESTAMP 3").await;
}

const ALL: [&str; 8] = [
    "1, memtable:0, 0, null, null, null, partition start",
    "1, memtable:0, 1, null, null, null, static row",
    "1, memtable:0, 2, 0, 0, 1, range tombstone change",
    "1, memtable:0, 2, 0, 1, 0, clustering row",
    "1, memtable:0, 2, 0, 2, 0, clustering row",
    "1, memtable:0, 2, 0, 3, -1, range tombstone change",
    "1, memtable:0, 2, 4, 4, 0, clustering row",
    "1, memtable:0, 3, null, null, null, partition end",
];

/// Rows without the quotes of texts.
async fn rows(env: &CqlEnv, select: &str) -> String {
    env.rows(select).await.replace('\'', "")
}

async fn check(env: &CqlEnv, clause: &str, expected: &[&str]) {
    let select = format!("SELECT {SHOWN} FROM MUTATION_FRAGMENTS(t) {clause}");
    assert_eq!(rows(env, &select).await, expected.join(" | "), "{select}");
}

#[test]
fn what_a_memtable_holds() {
    run(|env| async move {
        write(&env).await;
        check(&env, "WHERE p = 1", &ALL).await;
        check(&env, "", &ALL).await;
        check(&env, "WHERE p = 2", &[]).await;
        check(&env, "WHERE p = 1 LIMIT 3", &ALL[..3]).await;
        check(&env, "WHERE p IN (1, 2)", &ALL).await;
        let at = "WHERE p = 1 AND mutation_source";
        check(&env, &format!("{at} = 'memtable:0'"), &ALL).await;
        check(&env, &format!("{at} > 'memtable:0'"), &[]).await;
        check(&env, &format!("{at} = 'memtable:0' AND partition_region = 0"), &ALL[..1]).await;
        check(&env, &format!("{at} = 'memtable:0' AND partition_region < 2"), &ALL[..2]).await;
        check(&env, &format!("{at} = 'memtable:0' AND partition_region >= 2"), &ALL[2..]).await;
        let rows = format!("{at} = 'memtable:0' AND partition_region = 2");
        check(&env, &rows, &ALL[2..7]).await;
        check(&env, &format!("{rows} AND c = 4"), &ALL[6..7]).await;
        let key = format!("{rows} AND c = 0 AND d = 1 AND position_weight");
        check(&env, &format!("{key} = 0"), &ALL[3..4]).await;
        check(&env, &format!("{key} = 1"), &[]).await;
        check(&env, &format!("{rows} AND c = 0 AND d = 0 AND position_weight = 1"), &ALL[2..3])
            .await;
        let kind = "mutation_fragment_kind = 'clustering row' ALLOW FILTERING";
        let three = [ALL[3], ALL[4], ALL[6]];
        check(&env, &format!("WHERE p = 1 AND {kind}"), &three).await;
        check(&env, &format!("WHERE {kind}"), &three).await;
        let count = format!("SELECT count(*) FROM MUTATION_FRAGMENTS(t) WHERE {kind}");
        assert_eq!(env.rows(&count).await, "3");
        let tokens = "SELECT count(*) FROM MUTATION_FRAGMENTS(t) WHERE token(p)";
        let token = env.rows("SELECT token(p) FROM t LIMIT 1").await;
        assert_eq!(env.rows(&format!("{tokens} <= {token}")).await, "8");
        assert_eq!(env.rows(&format!("{tokens} > {token}")).await, "0");
    });
}

#[test]
fn a_slice_opens_and_closes_range_tombstones() {
    run(|env| async move {
        env.ok("DELETE FROM t USING TIMESTAMP 1 WHERE p = 1 AND c = 0").await;
        env.ok("DELETE FROM t USING TIMESTAMP 2 WHERE p = 1 AND c = 0 AND d > 10 AND d < 20").await;
        for (from, to, expected) in [
            (0, 8, "0 | 8"),
            (1, 10, "1 | 10"),
            (10, 28, "10 | 10 | 20 | 28"),
            (20, 28, "20 | 20 | 28"),
            (15, 16, "15 | 16"),
        ] {
            let select = format!(
                "SELECT d FROM MUTATION_FRAGMENTS(t) WHERE p = 1 AND mutation_source = \
                 'memtable:0' AND partition_region = 2 AND c = 0 AND d >= {from} AND d < {to}"
            );
            assert_eq!(env.rows(&select).await, expected, "{from}..{to}");
        }
    });
}

#[test]
fn metadata_and_values_are_json() {
    run(|env| async move {
        write(&env).await;
        let of = |region: i32, more: &str| {
            format!(
                "SELECT metadata, value FROM MUTATION_FRAGMENTS(t) WHERE p = 1 AND mutation_source \
                 = 'memtable:0' AND partition_region = {region}{more}"
            )
        };
        assert_eq!(rows(&env, &of(0, "")).await, "{\"tombstone\":{}}, null");
        assert_eq!(
            rows(&env, &of(1, "")).await,
            "{\"s\":{\"is_live\":true,\"type\":\"regular\",\"timestamp\":1}}, {\"s\":\"st\"}"
        );
        assert_eq!(
            rows(&env, &of(2, " AND c = 4")).await,
            "{\"marker\":{\"timestamp\":3},\"columns\":{\"v\":{\"is_live\":true,\"type\":\
             \"regular\",\"timestamp\":3}}}, {\"v\":\"c\"}"
        );
        assert_eq!(rows(&env, &of(3, "")).await, "null, null");
    });
}

/// However small the pages are, together they are the whole.
#[test]
fn pages_are_the_whole() {
    run(|env| async move {
        write(&env).await;
        for p in 2..6 {
            env.ok(&format!("DELETE FROM t WHERE p = {p} AND c = 0 AND d > 0")).await;
            env.ok(&format!("INSERT INTO t (p, c, d) VALUES ({p}, 0, 5)")).await;
        }
        env.ok("DELETE FROM t WHERE p = 9").await;
        for clause in ["", " WHERE p = 1", " WHERE p IN (3, 1)"] {
            let select = format!("SELECT {SHOWN} FROM MUTATION_FRAGMENTS(t){clause}");
            let whole = env.rows(&select).await;
            for size in [1, 2, 3, 7] {
                let pages = env.pages(&select, size).await;
                let filled: Vec<&str> =
                    pages.iter().map(String::as_str).filter(|page| !page.is_empty()).collect();
                assert_eq!(filled.join(" | "), whole, "{select} by {size}");
            }
        }
    });
}

#[test]
fn what_is_refused() {
    run(|env| async move {
        for (statement, words) in [
            (
                "SELECT * FROM MUTATION_FRAGMENTS(t) WHERE p = 1 ORDER BY mutation_source DESC",
                "ORDER BY is not supported in SELECT FROM MUTATION_FRAGMENTS() statements",
            ),
            ("SELECT v FROM MUTATION_FRAGMENTS(t)", "v"),
            ("SELECT * FROM MUTATION_FRAGMENTS(nowhere)", "unconfigured table nowhere"),
            ("SELECT * FROM MUTATION_FRAGMENTS(t) WHERE value = 'a'", "ALLOW FILTERING"),
            ("INSERT INTO MUTATION_FRAGMENTS(t) (p) VALUES (1)", ""),
        ] {
            let found = env.outcome(statement).await;
            assert!(found.starts_with("error: ") && found.contains(words), "{statement}: {found}");
        }
    });
}

#[test]
fn virtual_tables_have_one_place() {
    run(|env| async move {
        let table = "MUTATION_FRAGMENTS(system.config)";
        let all = rows(&env, &format!("SELECT mutation_source FROM {table}")).await;
        let places: Vec<&str> = all.split(" | ").collect();
        assert!(30 < places.len() && places.iter().all(|place| *place == "virtual-table"));
        let select = format!(
            "SELECT mutation_fragment_kind FROM {table} WHERE name = 'tombstone_warn_threshold'"
        );
        let kinds = rows(&env, &select).await;
        assert_eq!(kinds, "partition start | clustering row | partition end");
    });
}
