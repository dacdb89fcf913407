//! `SELECT` by an index answers what a scan with a filter does, in the same order, page by page.
//!
//! The indexes here are kept by the tests, so that they can lag behind: they have entries of what
//! rows were before, and of rows that are gone.

use cluster::{Cluster, SchemaChange};
use model::key::{compose_partition_key, push_clustering};
use model::schema::{Index, IndexTarget};
use model::{TableSchema, Token, Type};
use mutation::{Marker, MutationBuilder, RowBuilder};
use plan::ddl::testing::Node;
use plan::restrictions::testing::{index, view_of};
use replication::{Consistency, Coordinator, WriteKind, WriteOptions};
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Prng;
use testkit::CqlEnv;

/// A table, and the same without indexes.
fn tables(name: &str) -> [TableSchema; 2] {
    let int = || Box::new(Type::Int);
    [(name.to_owned(), true), (format!("{name}_plain"), false)].map(|(name, indexed)| {
        let id = Cluster::new_table_id();
        let indexes = |indexes: Vec<Index>| if indexed { indexes } else { Vec::new() };
        let value = |name: &str, column: &str, is_local: bool| {
            index(name, column, IndexTarget::Values, is_local)
        };
        let builder = TableSchema::builder("ks", &name, id);
        let builder = match name.starts_with('k') {
            true => builder
                .partition_key("p", Type::Int)
                .regular("v", Type::Int)
                .regular("w", Type::Int)
                .indexes(indexes(vec![value("kv", "v", false)])),
            false => builder
                .partition_key("p", Type::Int)
                .partition_key("q", Type::Int)
                .clustering("c", Type::Int)
                .clustering_descending("d", Type::Int)
                .static_column("s", Type::Int)
                .regular("v", Type::Int)
                .regular("w", Type::Int)
                .regular("m", Type::Map { key: int(), value: int(), frozen: false })
                .indexes(indexes(vec![
                    value("by_q", "q", false),
                    value("by_c", "c", false),
                    value("by_d", "d", false),
                    value("by_s", "s", false),
                    value("by_v", "v", false),
                    value("by_v_here", "v", true),
                    index("by_key", "m", IndexTarget::Keys, false),
                    index("by_value", "m", IndexTarget::ElementValues, false),
                    index("by_entry", "m", IndexTarget::Entries, false),
                ])),
        };
        builder.build().expect("a table")
    })
}

/// What a table holds: of the small one `q`, `c`, `d` are 0.
#[derive(Clone, Debug, Default)]
struct Row {
    /// `p`, `q`, `c`, `d`
    key: [i32; 4],
    s: Option<i32>,
    v: Option<i32>,
    w: i32,
    m: BTreeMap<i32, i32>,
}

fn row(prng: &mut Prng) -> Row {
    let mut up_to = |max: u64| prng.below(max) as i32;
    let key = [up_to(4), up_to(3), up_to(3), up_to(4)];
    let (s, v, w) = (up_to(3), up_to(4), up_to(3));
    let m = (0..up_to(3)).map(|_| (up_to(3), up_to(3))).collect();
    Row { key, s: Some(s).filter(|s| *s < 2), v: Some(v).filter(|v| *v < 3), w, m }
}

struct Tables {
    env: CqlEnv,
    coordinator: std::rc::Rc<Coordinator>,
}

impl Tables {
    async fn new(env: CqlEnv) -> Tables {
        let mut changes = Vec::new();
        for table in [tables("t"), tables("k")].into_iter().flatten() {
            let views = table.indexes.iter().map(|it| view_of(&table, it, Cluster::new_table_id()));
            let views: Vec<TableSchema> = views.collect();
            changes.push(SchemaChange::CreateTable(table));
            changes.extend(views.into_iter().map(SchemaChange::CreateTable));
        }
        env.change(changes).await;
        Tables { env, coordinator: runtime::local::get::<Coordinator>() }
    }

    /// Writes a row to both tables and to the indexes.
    async fn write(&self, row: &Row) {
        let Row { key: [p, q, c, d], s, v, w, m } = row;
        let text = |value: &Option<i32>| value.map_or("null".to_owned(), |it| it.to_string());
        let (s, v) = (text(s), text(v));
        let m: Vec<String> = m.iter().map(|(key, value)| format!("{key}: {value}")).collect();
        for name in ["t", "t_plain"] {
            self.env
                .ok(&format!(
                    "INSERT INTO {name} (p, q, c, d, s, v, w, m) \
                     VALUES ({p}, {q}, {c}, {d}, {s}, {v}, {w}, {{{}}})",
                    m.join(", ")
                ))
                .await;
        }
        for name in ["k", "k_plain"] {
            let insert = format!("INSERT INTO {name} (p, v, w) VALUES ({}, {v}, {w})", p * 3 + q);
            self.env.ok(&insert).await;
        }
        self.index("t", row).await;
        let key = [p * 3 + q, 0, 0, 0];
        self.index("k", &Row { key, ..row.clone() }).await;
    }

    /// Enters a row into the indexes, in place of nothing.
    async fn index(&self, name: &str, row: &Row) {
        let schema = runtime::local::get::<Cluster>().schema();
        let base = schema.table("ks", name).unwrap().schema.clone();
        for index in &base.indexes {
            let view = schema.table("ks", &index.view_name()).unwrap();
            for (key, clustering) in entries(&base, index, row) {
                let mut live = RowBuilder::new(Vec::new());
                live.marker(Marker::Live { timestamp: 1 });
                let mut mutation = MutationBuilder::new(&view.schema, &key);
                mutation.row(&clustering, &live.finish());
                let options = WriteOptions {
                    consistency: Consistency::One,
                    timeout: Duration::from_secs(5),
                    kind: WriteKind::Simple,
                    limit: None,
                };
                let token = Token::of(&key);
                let write = self.coordinator.write(view, token, mutation.freeze(), &options);
                write.await.expect("a write");
            }
        }
    }
}

/// The rows that an index has of a row: the partition of the view, and the clustering key.
fn entries(base: &TableSchema, index: &Index, row: &Row) -> Vec<(Vec<u8>, Vec<u8>)> {
    let [p, q, c, d] = row.key;
    let bytes = |value: i32| value.to_be_bytes().to_vec();
    let is_small = base.partition_key_count == 1;
    let keys = if is_small { vec![("p", p)] } else { vec![("p", p), ("q", q)] };
    let rows = if is_small { vec![] } else { vec![("c", c), ("d", d)] };
    let mut key = Vec::new();
    let parts: Vec<Vec<u8>> = keys.iter().map(|(_, value)| bytes(*value)).collect();
    compose_partition_key(parts.iter().map(Vec::as_slice), &mut key);
    // The values, each with what stands behind the key of the row.
    let values: Vec<(Vec<u8>, Option<i32>)> = match (&index.column[..], index.target) {
        ("q", _) => vec![(bytes(q), None)],
        ("c", _) => vec![(bytes(c), None)],
        ("d", _) => vec![(bytes(d), None)],
        ("s", _) => row.s.iter().map(|s| (bytes(*s), None)).collect(),
        ("v", _) => row.v.iter().map(|v| (bytes(*v), None)).collect(),
        (_, IndexTarget::Keys) => row.m.keys().map(|key| (bytes(*key), None)).collect(),
        (_, IndexTarget::ElementValues) => {
            row.m.iter().map(|(key, value)| (bytes(*value), Some(*key))).collect()
        }
        _ => {
            let entry = |(key, value): (&i32, &i32)| {
                let part = |it: &i32| [&4i32.to_be_bytes()[..], &it.to_be_bytes()].concat();
                ([part(key), part(value)].concat(), None)
            };
            row.m.iter().map(entry).collect()
        }
    };
    let place = |(value, element): (Vec<u8>, Option<i32>)| {
        let mut clustering = Vec::new();
        if index.is_local {
            push_clustering(&value, &mut clustering);
        } else {
            push_clustering(&Token::of(&key).0.to_be_bytes(), &mut clustering);
            let others = keys.iter().filter(|(name, _)| *name != index.column);
            others.for_each(|(_, value)| push_clustering(&value.to_be_bytes(), &mut clustering));
        }
        let others = rows.iter().filter(|(name, _)| *name != index.column && index.column != "s");
        others.for_each(|(_, value)| push_clustering(&value.to_be_bytes(), &mut clustering));
        if let Some(element) = element {
            push_clustering(&element.to_be_bytes(), &mut clustering);
        }
        (if index.is_local { key.clone() } else { value }, clustering)
    };
    values.into_iter().map(place).collect()
}

/// A condition that an index looks up, and others beside it.
fn condition(prng: &mut Prng) -> String {
    let mut up_to = |max: u64| prng.below(max);
    let values = (up_to(4), up_to(4), up_to(4));
    let (a, b, c) = values;
    let mut out = match up_to(12) {
        0 => format!("q = {a}"),
        1 => format!("c = {a}"),
        2 => format!("d = {a}"),
        3 => format!("s = {a}"),
        4 => format!("v = {a}"),
        5 => format!("v IN ({a}, {b}, {c})"),
        6 => format!("p = {a} AND q = {b} AND v = {c}"),
        7 => format!("m CONTAINS KEY {a}"),
        8 => format!("m CONTAINS {a}"),
        9 => format!("m[{a}] = {b}"),
        10 => format!("p IN ({a}, {b}) AND q = {c} AND m CONTAINS {a}"),
        _ => format!("p = {a} AND q = {b} AND s = {c}"),
    };
    match up_to(8) {
        0 if !out.contains("c =") => out += &format!(" AND c >= {b}"),
        1 => out += &format!(" AND w = {b}"),
        2 if !out.contains("p ") && !out.contains("q ") => {
            out += &format!(" AND token(p, q) > {}", up_to(u64::MAX) as i64);
        }
        3 if !out.contains("d =") => out += &format!(" AND d < {b}"),
        4 if !out.contains("c =") && !out.contains("d =") => {
            out += &format!(" AND (c, d) > ({b}, {c})")
        }
        _ => {}
    }
    out
}

/// A statement about a table, but for its name.
fn statement(prng: &mut Prng) -> (String, String) {
    let condition = condition(prng);
    let mut up_to = |max: u64| prng.below(max);
    let (what, behind) = match up_to(8) {
        0 => ("count(*), sum(w), max(v)".to_owned(), String::new()),
        1 => ("p, q, count(*)".to_owned(), " GROUP BY p, q".to_owned()),
        2 => ("p, q, c, max(w)".to_owned(), " GROUP BY p, q, c".to_owned()),
        3 => ("v, m".to_owned(), format!(" PER PARTITION LIMIT {}", 1 + up_to(3))),
        4 => ("p, q, c, d".to_owned(), format!(" LIMIT {}", 1 + up_to(8))),
        5 => ("JSON p, s, w".to_owned(), String::new()),
        _ => ("*".to_owned(), String::new()),
    };
    (what, format!("WHERE {condition}{behind} ALLOW FILTERING"))
}

async fn all(env: &CqlEnv, text: &str, page_size: i32) -> Vec<String> {
    let mut pages = env.pages(text, page_size).await;
    pages.retain(|page| !page.is_empty());
    pages
}

#[test]
fn an_index_answers_as_a_scan_does() {
    for seed in 0..4 {
        CqlEnv::run(seed, 1 + (seed % 2) as u16, move |env| async move {
            let tables = Tables::new(env).await;
            let mut prng = Prng::from_seed(seed);
            let mut rows = BTreeMap::new();
            for _ in 0..60 {
                let row = row(&mut prng);
                tables.write(&row).await;
                rows.insert(row.key, row);
            }
            // The indexes still have what is deleted now.
            for key in rows.keys().filter(|key| key[3] == 1) {
                let [p, q, c, d] = key;
                for name in ["t", "t_plain"] {
                    let row = format!("p = {p} AND q = {q} AND c = {c} AND d = {d}");
                    tables.env.ok(&format!("DELETE FROM {name} WHERE {row}")).await;
                }
            }
            for _ in 0..120 {
                let (what, behind) = statement(&mut prng);
                let page_size = [1, 2, 3, 7, 100][prng.below(5) as usize];
                let of = |name: &str| format!("SELECT {what} FROM {name} {behind}");
                let found = all(&tables.env, &of("t"), page_size).await;
                let expected = all(&tables.env, &of("t_plain"), page_size).await;
                assert_eq!(found.join(" | "), expected.join(" | "), "{}", of("t"));
            }
            for v in 0..4 {
                let text = |name: &str| format!("SELECT * FROM {name} WHERE v = {v}");
                let expected = text("k_plain") + " ALLOW FILTERING";
                let expected = all(&tables.env, &expected, 2).await;
                assert_eq!(all(&tables.env, &text("k"), 2).await.join(" | "), expected.join(" | "));
                assert!(expected.iter().all(|page| page.split(" | ").count() <= 2));
            }
        });
    }
}

#[test]
fn an_index_that_is_not_there_is_named() {
    CqlEnv::run(1, 1, |env| async move {
        let [table, _] = tables("k");
        env.change(vec![SchemaChange::CreateTable(table)]).await;
        let text = env.error("SELECT * FROM k WHERE v = 1").await;
        assert_eq!(text, "Index kv of ks.k cannot be used: the table ks.kv_index does not exist");
    });
}

/// Statements about the schema, as a cluster takes them in which all nodes can have indexes.
struct Ddl {
    node: Node,
    env: CqlEnv,
}

impl Ddl {
    /// With a table that has the indexes which `tables` have, and the same without them.
    async fn new(env: CqlEnv) -> Ddl {
        let node = Node::after(&["CREATE KEYSPACE ks WITH replication = {'class': \
                                  'SimpleStrategy', 'replication_factor': 1}"]);
        let mut ddl = Ddl { node, env };
        for name in ["t", "t_plain"] {
            ddl.run(&format!(
                "CREATE TABLE {name} (p int, q int, c int, d int, s int STATIC, v int, w int, \
                 m map<int, int>, PRIMARY KEY ((p, q), c, d)) \
                 WITH CLUSTERING ORDER BY (c ASC, d DESC)"
            ))
            .await;
        }
        let elements = ["keys(m)", "values(m)", "entries(m)"];
        for target in ["q", "c", "d", "s", "v", "(p, q), v"].into_iter().chain(elements) {
            ddl.run(&format!("CREATE INDEX ON t ({target})")).await;
        }
        ddl
    }

    async fn run(&mut self, text: &str) {
        let changes = self.node.decide(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        self.node.apply(changes.clone());
        self.env.change(changes).await;
    }
}

/// A write of a table, but for its name.
fn write(prng: &mut Prng) -> (&'static str, String) {
    let Row { key: [p, q, c, d], s, v, w, m } = row(prng);
    let text = |value: Option<i32>| value.map_or("null".to_owned(), |it| it.to_string());
    let (s, v) = (text(s), text(v));
    let m: Vec<String> = m.iter().map(|(key, value)| format!("{key}: {value}")).collect();
    let m = format!("{{{}}}", m.join(", "));
    let partition = format!("p = {p} AND q = {q}");
    let row = format!("{partition} AND c = {c} AND d = {d}");
    match prng.below(12) {
        0..=3 => (
            "INSERT INTO",
            format!("(p, q, c, d, s, v, w, m) VALUES ({p}, {q}, {c}, {d}, {s}, {v}, {w}, {m})"),
        ),
        4 => ("UPDATE", format!("SET v = {v} WHERE {row}")),
        5 => ("UPDATE", format!("SET m = m + {m}, w = {w} WHERE {row}")),
        6 => ("UPDATE", format!("SET m[{w}] = {v} WHERE {row}")),
        7 => ("UPDATE", format!("SET s = {s} WHERE {partition}")),
        8 => ("DELETE FROM", format!("WHERE {row}")),
        9 => ("DELETE v, m FROM", format!("WHERE {row}")),
        10 => ("DELETE FROM", format!("WHERE {partition} AND c = {c} AND d > {d}")),
        _ => ("DELETE FROM", format!("WHERE {partition}")),
    }
}

#[test]
fn an_index_follows_all_writes() {
    for seed in 0..4 {
        CqlEnv::run(seed, 1 + (seed % 2) as u16, move |env| async move {
            let Ddl { env, .. } = Ddl::new(env).await;
            let mut prng = Prng::from_seed(seed);
            for turn in 0..300 {
                let (what, behind) = write(&mut prng);
                for name in ["t", "t_plain"] {
                    env.ok(&format!("{what} {name} {behind}")).await;
                }
                if turn % 4 != 0 {
                    continue;
                }
                let (what, behind) = statement(&mut prng);
                let page_size = [1, 3, 100][prng.below(3) as usize];
                let of = |name: &str| format!("SELECT {what} FROM {name} {behind}");
                let found = all(&env, &of("t"), page_size).await;
                let expected = all(&env, &of("t_plain"), page_size).await;
                assert_eq!(found.join(" | "), expected.join(" | "), "{}", of("t"));
            }
        });
    }
}

async fn fill(env: &CqlEnv) {
    for p in 0..4 {
        for c in 0..6 {
            env.ok(&format!("INSERT INTO t (p, q, c, d, v) VALUES ({p}, 0, {c}, 1, 7)")).await;
        }
    }
}

/// *built-is-asked*
#[test]
fn an_index_that_is_not_built_misses_nothing() {
    CqlEnv::run_on_one_and_two(|env| async move {
        let mut ddl = Ddl::new(env).await;
        fill_plain(&ddl.env).await;
        replication::coordinator::build::plant(false).await;
        for name in ["first", "second"] {
            ddl.run(&format!("CREATE INDEX {name} ON t_plain (v)")).await;
            let select = "SELECT p, c FROM t_plain WHERE v = 7";
            let filtered = ddl.env.rows(&format!("{select} ALLOW FILTERING")).await;
            assert_eq!(filtered.split(" | ").count(), 24, "{name}");
            // It is waited for, or it takes too long.
            match ddl.env.query(select).await {
                Ok(found) => assert_eq!(testkit::cql::rows_text(&found), filtered),
                Err(error) => assert!(error.to_string().contains("is not built yet"), "{error}"),
            }
            runtime::time::sleep(std::time::Duration::from_secs(60)).await;
            assert_eq!(ddl.env.rows(select).await, filtered, "when it is built");
            ddl.run(&format!("DROP INDEX {name}")).await;
        }
    });
}

async fn fill_plain(env: &CqlEnv) {
    for p in 0..4 {
        for c in 0..6 {
            env.ok(&format!("INSERT INTO t_plain (p, q, c, d, v) VALUES ({p}, 0, {c}, 1, 7)"))
                .await;
        }
    }
}

#[test]
fn pages_go_on_when_an_index_comes_or_goes() {
    CqlEnv::run_on_one_and_two(|env| async move {
        let mut ddl = Ddl::new(env).await;
        fill(&ddl.env).await;
        let select = "SELECT p, c FROM t WHERE v = 7 AND q = 0 ALLOW FILTERING";
        let expected = ddl.env.rows(select).await;
        assert_eq!(expected.split(" | ").count(), 24);
        // Of two indexes, of one, of none, and of one again.
        let changes = ["DROP INDEX t_q_idx", "DROP INDEX t_v_idx", "CREATE INDEX t_q_idx ON t (q)"];
        let mut changes = changes.iter().cycle();
        let mut found = Vec::new();
        let mut state: Option<Vec<u8>> = None;
        loop {
            let parameters = query::Parameters {
                page_size: Some(7),
                paging_state: state.as_deref(),
                ..query::Parameters::plain(Consistency::One)
            };
            let env = &ddl.env;
            let page = env.processor().query(env.session(), select, &parameters).await.unwrap();
            found.push(testkit::cql::rows_text(&page));
            let query::ResponseKind::Rows(rows) = page.kind else { panic!("rows") };
            state = rows.paging_state;
            if state.is_none() {
                break;
            }
            ddl.run(changes.next().unwrap()).await;
        }
        found.retain(|page| !page.is_empty());
        assert_eq!(found.join(" | "), expected);
        assert!(4 <= found.len());
    });
}
