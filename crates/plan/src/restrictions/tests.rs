//! Which index a `WHERE` asks, what it reads of it, and what is refused.

use super::testing::{index, view_of};
use super::{IndexPlan, IndexRead};
use crate::ddl::testing::Node;
use crate::options::Options;
use crate::plan::Plan;
use crate::select::SelectPlan;
use crate::statement::Statement;
use crate::term::Env;
use cluster::{Schema, SchemaChange};
use functions::Uuids;
use model::key::{clustering_components, compose_partition_key, push_clustering};
use model::schema::IndexTarget;
use model::{TableSchema, Token, Type, Uuid, value};
use mutation::page::Resume;

/// `t (p1, p2, c, d desc, s static, v, w, m map, l list, f frozen list)` and its indexes, and
/// `k (p, v)`.
fn schema() -> Schema {
    let int = || Box::new(Type::Int);
    let base = TableSchema::builder("ks", "t", Uuid::from_u128(1))
        .partition_key("p1", Type::Int)
        .partition_key("p2", Type::Int)
        .clustering("c", Type::Int)
        .clustering_descending("d", Type::Int)
        .clustering("e", Type::Int)
        .static_column("s", Type::Int)
        .regular("v", Type::Int)
        .regular("w", Type::Int)
        .regular("m", Type::Map { key: int(), value: int(), frozen: false })
        .regular("es", Type::Set { element: int(), frozen: false })
        .regular("l", Type::List { element: int(), frozen: false })
        .regular("f", Type::List { element: int(), frozen: true })
        .indexes(vec![
            index("by_p2", "p2", IndexTarget::Values, false),
            index("by_c", "c", IndexTarget::Values, false),
            index("by_d", "d", IndexTarget::Values, false),
            index("by_s", "s", IndexTarget::Values, false),
            index("by_v", "v", IndexTarget::Values, false),
            index("by_w", "w", IndexTarget::Values, false),
            index("by_v_here", "v", IndexTarget::Values, true),
            index("by_key", "m", IndexTarget::Keys, false),
            index("by_value", "m", IndexTarget::ElementValues, false),
            index("by_entry", "m", IndexTarget::Entries, false),
            index("by_set", "es", IndexTarget::Keys, false),
            index("by_f", "f", IndexTarget::Full, false),
        ]);
    let small = TableSchema::builder("ks", "k", Uuid::from_u128(2))
        .partition_key("p", Type::Int)
        .regular("v", Type::Int)
        .regular("x", Type::Int)
        .indexes(vec![
            index("k_by_v", "v", IndexTarget::Values, false),
            index("k_by_x", "x", IndexTarget::Values, false),
        ]);
    let mut node = Node::after(&["CREATE KEYSPACE ks WITH replication = {'class': \
                                  'SimpleStrategy', 'replication_factor': 1}"]);
    let mut changes = Vec::new();
    for (at, base) in [base, small].into_iter().enumerate() {
        let base = base.build().unwrap();
        let views: Vec<TableSchema> = base
            .indexes
            .iter()
            .filter(|index| index.name != "k_by_x")
            .enumerate()
            .map(|(n, index)| view_of(&base, index, Uuid::from_u128((100 * (at + 1) + n) as u128)))
            .collect();
        changes.push(SchemaChange::CreateTable(base));
        changes.extend(views.into_iter().map(SchemaChange::CreateTable));
    }
    node.apply(changes);
    node.schema
}

fn plan(schema: &Schema, text: &str) -> Result<Box<SelectPlan>, String> {
    let statement = Statement::analyze(schema, text, Some("ks"), &Options::standard());
    match statement.map_err(|error| error.to_string())?.plan {
        Plan::Select(plan) => Ok(plan),
        other => panic!("{text}: {other:?}"),
    }
}

fn reads(plan: &SelectPlan, index: &IndexPlan, resume: Option<&Resume>) -> Vec<IndexRead> {
    let uuids = Uuids::new(0);
    let env = Env::new(&[], 0, &uuids);
    let parts = plan.restrictions.index_reads(index, &plan.table.schema, &env, resume).unwrap();
    parts.into_iter().flatten().collect()
}

/// A place in a view, with the token as `T`.
fn shown(view: &TableSchema, (prefix, weight): &(Vec<u8>, i8)) -> String {
    let parts = clustering_components(prefix).zip(view.clustering());
    let parts = parts.map(|(part, column)| match column.name.as_str() {
        "idx_token" => "T".to_owned(),
        _ => value::to_literal(&column.ty, part),
    });
    let sign = if *weight < 0 { '-' } else { '+' };
    format!("{}{sign}", parts.collect::<Vec<_>>().join(" "))
}

/// `by_v = 3: rows, [-, +], 1 filter`
fn told(schema: &Schema, text: &str) -> String {
    let plan = match plan(schema, text) {
        Ok(plan) => plan,
        Err(error) => return error,
    };
    let filters = plan.restrictions.filters.len();
    let Some(index) = &plan.restrictions.index else { return format!("no index, {filters}") };
    let of = &index.view.schema;
    let read = |read: IndexRead| {
        let ranges = read
            .ranges
            .iter()
            .map(|it| format!("[{}, {}]", shown(of, &it.start), shown(of, &it.end)));
        let ty = match of.column("coll_value").or(of.column(&index.name[3..])) {
            Some(column) => column.ty.clone(),
            None => Type::Int,
        };
        let value = value::to_literal(&ty, &read.value);
        format!(" = {value} {}", ranges.collect::<Vec<_>>().join(" "))
    };
    let reads: String = reads(&plan, index, None).into_iter().map(read).collect();
    let what = if index.reads_partitions { "partitions" } else { "rows" };
    format!("{}{reads}, {what}, {filters}", index.name)
}

#[test]
fn an_index_is_chosen() {
    let schema = schema();
    let check = |condition: &str, expected: &str| {
        assert_eq!(told(&schema, &format!("SELECT * FROM t WHERE {condition}")), expected);
    };
    check("v = 3", "by_v = 3 [-, +], rows, 0");
    check("v = null", "by_v, rows, 0");
    check("v IN (5, 3, 5)", "by_v = 3 [-, +] = 5 [-, +], rows, 0");
    check("s = 3", "by_s = 3 [-, +], partitions, 0");
    check("p2 = 3", "by_p2 = 3 [-, +], partitions, 0");
    check("c = 3", "by_c = 3 [-, +], partitions, 0");
    check("(c) = (3)", "by_c = 3 [-, +], partitions, 0");
    check("d = 3", "by_d = 3 [-, +], rows, 0");
    check("m CONTAINS 3", "by_value = 3 [-, +], rows, 0");
    check("m CONTAINS KEY 3", "by_key = 3 [-, +], rows, 0");
    check("m[3] = 4", "by_entry = (3, 4) [-, +], rows, 0");
    check("es CONTAINS 3", "by_set = 3 [-, +], rows, 0");
    check("f = [1, 2]", "by_f = [1, 2] [-, +], rows, 0");
    // The partition key says where in the index, and within one partition its own index is asked.
    check("w = 3 AND p1 = 1 AND p2 = 2", "by_w = 3 [T 1 2-, T 1 2+], rows, 0");
    check("w = 3 AND p1 = 1 AND p2 IN (2)", "by_w = 3 [T 1 2-, T 1 2+], rows, 0");
    check(
        "w = 3 AND p1 IN (1, 4) AND p2 = 2",
        "by_w = 3 [T 1 2-, T 1 2+] = 3 [T 4 2-, T 4 2+], rows, 0",
    );
    check("w = 3 AND p1 = 1 AND p2 = 2 AND c = 5", "by_w = 3 [T 1 2 5-, T 1 2 5+], rows, 0");
    check(
        "w = 3 AND p1 = 1 AND p2 = 2 AND c = 5 AND d > 6",
        "by_w = 3 [T 1 2 5-, T 1 2 5 6-], rows, 0",
    );
    check("v = 3 AND p1 = 1 AND p2 = 2", "by_v_here = 3 [3-, 3+], rows, 0");
    check("v = 3 AND p1 = 1 AND p2 = 2 AND c >= 5", "by_v_here = 3 [3 5-, 3+], rows, 0");
    check("d = 3 AND p1 = 1 AND p2 = 2", "by_d = 3 [T 1 2-, T 1 2+], rows, 0");
    check("s = 3 AND p1 = 1 AND p2 = 2 AND c = 5", "by_s = 3 [T 1 2-, T 1 2+], partitions, 0");
    check("v = 3 AND token(p1, p2) > 5", "by_v = 3 [T+, T+], rows, 0");
    check("v = 3 AND token(p1, p2) >= 5 AND token(p1, p2) < 7", "by_v = 3 [T-, T-], rows, 0");
    check("v = 3 AND token(p1, p2) > 9 AND token(p1, p2) < 7", "by_v, rows, 0");
    // Of which keys name all no index says more.
    check("p1 = 1 AND p2 = 2", "no index, 0");
    check("p1 = 1 AND p2 IN (2, 3) AND c = 5 AND d = 6", "no index, 0");
    check("p1 = 1 AND p2 = 2 AND c = 5 AND d > 6", "no index, 0");
}

#[test]
fn what_an_index_leaves_is_filtered() {
    let schema = schema();
    let filtering = "use ALLOW FILTERING";
    let check = |condition: &str, expected: &str| {
        let text = format!("SELECT * FROM t WHERE {condition}");
        let refused = told(&schema, &text);
        assert!(refused.ends_with(filtering), "{condition}: {refused}");
        assert_eq!(told(&schema, &format!("{text} ALLOW FILTERING")), expected);
    };
    check("w = 1 AND v = 3", "by_w = 1 [-, +], rows, 1");
    check("v = 3 AND w = 1", "by_v = 3 [-, +], rows, 1");
    check("v = 3 AND v = 4", "by_v = 3 [-, +], rows, 1");
    check("v = 3 AND w > 1", "by_v = 3 [-, +], rows, 1");
    check("v = 3 AND p1 = 1", "by_v = 3 [-, +], rows, 1");
    check("v = 3 AND c > 1", "by_v = 3 [-, +], rows, 0");
    check("s = 3 AND c > 1", "by_s = 3 [-, +], partitions, 0");
    check("c = 1 AND d = 2", "by_c = 1 [-, +], partitions, 0");
    check("m CONTAINS 3 AND m CONTAINS KEY 4", "by_value = 3 [-, +], rows, 1");
    check("m CONTAINS KEY 4 AND m CONTAINS 3", "by_key = 4 [-, +], rows, 1");
    // A single value before several, columns of keys before others, an index of a partition first.
    check("w IN (1, 2) AND v = 3", "by_v = 3 [-, +], rows, 1");
    check("v = 3 AND c = 1", "by_c = 1 [-, +], partitions, 1");
    check("v = 3 AND d = 1", "by_d = 1 [-, +], rows, 1");
    check("v = 3 AND p2 = 1", "by_p2 = 1 [-, +], partitions, 1");
    check("w = 3 AND v = 4 AND p1 = 1 AND p2 = 2", "by_v_here = 4 [4-, 4+], rows, 1");
    check("p1 = 1 AND p2 = 2 AND c > 4 AND d = 3", "by_d = 3 [T 1 2 4+, T 1 2+], rows, 0");
    check("p1 = 1 AND p2 = 2 AND d = 3 AND e = 4", "by_d = 3 [T 1 2-, T 1 2+], rows, 1");
}

#[test]
fn what_no_index_answers() {
    let schema = schema();
    let check = |text: &str, expected: &str| {
        let found = told(&schema, text);
        assert!(found.contains(expected), "{text}: {found}");
    };
    for condition in ["v > 3", "v >= 1 AND v < 3", "l CONTAINS 3", "m[3] > 4", "v NOT IN (1)"] {
        check(&format!("SELECT * FROM t WHERE {condition}"), "use ALLOW FILTERING");
        let text = format!("SELECT * FROM t WHERE {condition} ALLOW FILTERING");
        check(&text, "no index, ");
    }
    check("SELECT * FROM t WHERE e = 1", "cannot be restricted as preceding column \"c\"");
    check("SELECT * FROM t WHERE v = 1 AND e = 1", "cannot be restricted as preceding");
    check("SELECT * FROM t WHERE v = 1 ORDER BY c", "ORDER BY with 2ndary indexes");
    check("SELECT p1 FROM t WHERE v = 1 AND nothing = 1", "Unrecognized name nothing");
    check("SELECT DISTINCT p1, p2 FROM t WHERE v = 1", "SELECT DISTINCT with WHERE clause only");
    check("SELECT DISTINCT p1, p2, v FROM t WHERE s = 1", "must only request partition key");
    check("SELECT DISTINCT p1, p2 FROM t WHERE s = 1", "by_s");
    check("SELECT * FROM k WHERE v = 1", "k_by_v");
    check(
        "SELECT * FROM k WHERE x = 1 ALLOW FILTERING",
        "Index k_by_x of ks.k cannot be used: the table ks.k_by_x_index does not exist",
    );
    let text = plan(&schema, "DELETE FROM k WHERE v = 1").unwrap_err();
    assert!(text.contains("Missing mandatory PRIMARY KEY part p"), "{text}");
}

fn ints(values: &[i32]) -> Vec<u8> {
    let mut out = Vec::new();
    values.iter().for_each(|value| push_clustering(&value.to_be_bytes(), &mut out));
    out
}

/// The key of the partition `(1, 2)`.
fn key() -> Vec<u8> {
    let mut key = Vec::new();
    let parts = [1i32.to_be_bytes(), 2i32.to_be_bytes()];
    compose_partition_key(parts.iter().map(|part| &part[..]), &mut key);
    key
}

#[test]
fn places_of_the_base_are_places_of_the_index() {
    let schema = schema();
    let check = |condition: &str, after: Option<(&[i32], i8)>, expected: &str| {
        let plan = plan(&schema, &format!("SELECT * FROM t WHERE {condition}")).unwrap();
        let index = plan.restrictions.index.as_ref().unwrap();
        let after = after.map(|(place, weight)| (ints(place), weight));
        let place = Resume { key: key(), after, rows_in_partition: 3 };
        let read = &reads(&plan, index, Some(&place))[0];
        let resume = read.resume.as_ref().unwrap();
        assert_eq!(resume.key, read.key());
        let found = resume.after.as_ref().unwrap();
        assert_eq!(shown(&index.view.schema, found), expected, "{condition}");
        if !index.is_local() {
            let token = clustering_components(&found.0).next().unwrap();
            assert_eq!(token, Token::of(&key()).0.to_be_bytes());
        }
    };
    check("v = 7", None, "T 1 2+");
    check("v = 7", Some((&[3, 4, 5], 1)), "T 1 2 3 4 5+");
    check("v = 7", Some((&[3, 4], -1)), "T 1 2 3 4-");
    check("s = 7", None, "T 1 2+");
    check("s = 7", Some((&[3, 4, 5], 1)), "T 1 2-");
    check("p2 = 2", Some((&[3, 4, 5], 1)), "T 1 3 4 5+");
    check("c = 3", Some((&[3, 4, 5], 1)), "T 1 2 4 5+");
    check("c = 3", Some((&[2, 4, 5], 1)), "T 1 2-");
    check("c = 3", Some((&[4, 4, 5], 1)), "T 1 2+");
    // `d` descends.
    check("d = 4", Some((&[3, 4, 5], 1)), "T 1 2 3 5+");
    check("d = 4", Some((&[3, 5, 5], 1)), "T 1 2 3-");
    check("d = 4", Some((&[3, 3, 5], 1)), "T 1 2 3+");
    check("d = 4", Some((&[3], 1)), "T 1 2 3+");
    check("m CONTAINS 7", Some((&[3, 4, 5], 1)), "T 1 2 3 4 5+");
    let here = "v = 7 AND p1 = 1 AND p2 = 2";
    check(here, Some((&[3, 4, 5], 1)), "7 3 4 5+");
    check(here, None, "7+");
}

#[test]
fn rows_of_an_index_are_rows_of_the_base() {
    let schema = schema();
    let check = |condition: &str, row: &[i32], expected: &[i32]| {
        let plan = plan(&schema, &format!("SELECT * FROM t WHERE {condition}")).unwrap();
        let index = plan.restrictions.index.as_ref().unwrap();
        let read = &reads(&plan, index, None)[0];
        let mut view_row = Vec::new();
        if !index.is_local() {
            push_clustering(&Token::of(&key()).0.to_be_bytes(), &mut view_row);
        }
        view_row.extend_from_slice(&ints(row));
        let base = index.base_row(read, &view_row).unwrap();
        assert_eq!((base.key, base.clustering), (key(), ints(expected)), "{condition}");
        // A place behind that row is that place of the base, and back again.
        let Some(place) = index.place(read, (&view_row, 1)) else { return };
        assert_eq!(place.key, key());
        let again = reads(&plan, index, Some(&place));
        let (prefix, weight) = again[0].resume.as_ref().unwrap().after.as_ref().unwrap();
        assert!(view_row.starts_with(prefix), "{condition}");
        assert_eq!(*weight, if condition.starts_with("m CONTAINS 7") { -1 } else { 1 });
        for cut in 0..view_row.len() {
            // What is no row is none, and no panic.
            assert_eq!(index.base_row(read, &view_row[..cut]).filter(|_| cut == 0), None);
        }
    };
    check("v = 7", &[1, 2, 3, 4, 5], &[3, 4, 5]);
    check("p2 = 2", &[1, 3, 4, 5], &[3, 4, 5]);
    check("c = 3", &[1, 2, 4, 5], &[3, 4, 5]);
    check("d = 4", &[1, 2, 3, 5], &[3, 4, 5]);
    check("s = 7", &[1, 2], &[]);
    check("m CONTAINS 7", &[1, 2, 3, 4, 5, 9], &[3, 4, 5]);
    check("m CONTAINS KEY 7", &[1, 2, 3, 4, 5], &[3, 4, 5]);
    check("v = 7 AND p1 = 1 AND p2 = 2", &[7, 3, 4, 5], &[3, 4, 5]);
}
