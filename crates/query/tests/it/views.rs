//! Views as they are read, and rows in them that their base table does not have. The views here are
//! kept by the tests.

use cluster::{Cluster, SchemaChange};
use model::key::push_clustering;
use model::schema::{Column, ColumnKind, View};
use model::{ColumnId, TableSchema, Token, Type};
use mutation::{Marker, MutationBuilder, RowBuilder};
use replication::{Consistency, Coordinator, WriteKind, WriteOptions};
use std::time::Duration;
use testkit::CqlEnv;

/// `t (p, c, s static, v, w)`, and `by_v` of it with the key `(v), p, c` and `w` hidden.
fn tables() -> [TableSchema; 2] {
    let base = TableSchema::builder("ks", "t", Cluster::new_table_id())
        .partition_key("p", Type::Int)
        .clustering("c", Type::Int)
        .static_column("s", Type::Int)
        .regular("v", Type::Int)
        .regular("w", Type::Int)
        .build()
        .expect("a table");
    let hidden = Column {
        id: ColumnId(3),
        name: "w".to_owned(),
        kind: ColumnKind::Regular,
        position: 0,
        ty: Type::Int,
        reversed: false,
    };
    let base_name = base.name.clone();
    let view = View { base: base.id, base_name, hidden: vec![hidden.id], ..View::default() };
    let view = TableSchema::builder("ks", "by_v", Cluster::new_table_id())
        .partition_key("v", Type::Int)
        .clustering("p", Type::Int)
        .clustering("c", Type::Int)
        .stored_column(hidden)
        .view(view)
        .build()
        .expect("a view");
    [base, view]
}

/// A row of the view, written at that microsecond.
async fn enter([v, p, c]: [i32; 3], timestamp: i64) {
    let view = runtime::local::get::<Cluster>().schema().table("ks", "by_v").unwrap().clone();
    let key = v.to_be_bytes();
    let mut clustering = Vec::new();
    [p, c].iter().for_each(|part| push_clustering(&part.to_be_bytes(), &mut clustering));
    let mut row = RowBuilder::new(Vec::new());
    row.marker(Marker::Live { timestamp });
    let mut mutation = MutationBuilder::new(&view.schema, &key);
    mutation.row(&clustering, &row.finish());
    let options = WriteOptions {
        consistency: Consistency::One,
        timeout: Duration::from_secs(5),
        kind: WriteKind::Simple,
        limit: None,
    };
    let coordinator = runtime::local::get::<Coordinator>();
    let write = coordinator.write(&view, Token::of(&key), mutation.freeze(), &options);
    write.await.expect("a write");
}

/// A node with rows of the base, in its view and ghosts beside them.
async fn haunted(env: &CqlEnv) {
    env.change(tables().map(SchemaChange::CreateTable).to_vec()).await;
    for (p, c, v) in [(1, 1, 5), (1, 2, 6), (2, 1, 6)] {
        env.ok(&format!("INSERT INTO t (p, c, v) VALUES ({p}, {c}, {v})")).await;
        enter([v, p, c], 1).await;
    }
    // Of another value, of a row that is not there, of a partition that is not.
    for ghost in [[6, 1, 1], [5, 1, 3], [7, 9, 9]] {
        enter(ghost, 1).await;
    }
}

#[test]
fn hidden_columns_are_not_seen() {
    CqlEnv::run_on_one_and_two(|env| async move {
        haunted(&env).await;
        assert_eq!(env.rows("SELECT * FROM by_v WHERE v = 7").await, "7, 9, 9");
        assert_eq!(env.rows("SELECT p, c FROM by_v WHERE v = 6 AND p > 1").await, "2, 1");
        for text in [
            "SELECT w FROM by_v",
            "SELECT max(w) FROM by_v",
            "SELECT p FROM by_v WHERE w = 1 ALLOW FILTERING",
            "SELECT p FROM by_v WHERE w IN (1) ALLOW FILTERING",
            "SELECT p FROM by_v WHERE v = 1 ORDER BY w",
            "SELECT p FROM by_v GROUP BY w",
        ] {
            assert_eq!(env.error(text).await, "Unrecognized name w", "{text}");
        }
    });
}

#[test]
fn ghosts_are_deleted() {
    const ALL: &str = "SELECT v, p, c FROM by_v WHERE v IN (5, 6, 7)";
    CqlEnv::run_on_one_and_two(|env| async move {
        haunted(&env).await;
        let haunted = "5, 1, 1 | 5, 1, 3 | 6, 1, 1 | 6, 1, 2 | 6, 2, 1 | 7, 9, 9";
        assert_eq!(env.rows(ALL).await, haunted);
        env.ok("PRUNE MATERIALIZED VIEW by_v WHERE v = 8").await;
        assert_eq!(env.rows(ALL).await, haunted);
        env.ok("PRUNE MATERIALIZED VIEW by_v WHERE v = 6 AND p = 1").await;
        let left = "5, 1, 1 | 5, 1, 3 | 6, 1, 2 | 6, 2, 1 | 7, 9, 9";
        assert_eq!(env.rows(ALL).await, left);
        let token = Token::of(&7i32.to_be_bytes()).0;
        env.ok(&format!("PRUNE MATERIALIZED VIEW by_v WHERE token(v) = {token}")).await;
        assert_eq!(env.rows(ALL).await, "5, 1, 1 | 5, 1, 3 | 6, 1, 2 | 6, 2, 1");
        env.ok("PRUNE MATERIALIZED VIEW by_v USING CONCURRENCY 3 AND TIMEOUT 10s").await;
        assert_eq!(env.rows(ALL).await, "5, 1, 1 | 6, 1, 2 | 6, 2, 1");
        // What may still be under way is left alone.
        enter([7, 3, 3], runtime::time::wall_micros()).await;
        env.ok("PRUNE MATERIALIZED VIEW by_v").await;
        assert_eq!(env.rows(ALL).await, "5, 1, 1 | 6, 1, 2 | 6, 2, 1 | 7, 3, 3");
        runtime::time::sleep(Duration::from_secs(30)).await;
        env.ok("PRUNE MATERIALIZED VIEW by_v").await;
        assert_eq!(env.rows(ALL).await, "5, 1, 1 | 6, 1, 2 | 6, 2, 1");
    });
}

#[test]
fn what_is_not_pruned() {
    CqlEnv::run(1, 1, |env| async move {
        haunted(&env).await;
        for (text, expected) in [
            ("t", "Ghost rows can only be deleted from materialized views"),
            ("nothing", "unconfigured table nothing"),
            ("by_v WHERE p = 1", "Deleting ghost rows does not support filtering"),
            ("by_v WHERE v = 6 AND c = 1", "Deleting ghost rows does not support filtering"),
            ("by_v WHERE v > 6", "Deleting ghost rows does not support filtering"),
            ("by_v WHERE w = 6", "Unrecognized name w"),
            ("by_v USING CONCURRENCY 0", "CONCURRENCY must be strictly positive"),
        ] {
            let found = env.error(&format!("PRUNE MATERIALIZED VIEW {text}")).await;
            assert_eq!(found, expected, "{text}");
        }
        assert_eq!(env.rows("SELECT count(*) FROM by_v").await, "6");
    });
}
