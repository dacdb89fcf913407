use super::super::testing::Node;
use cluster::{Schema, SchemaChange};
use model::TableSchema;
use model::schema::{ColumnKind, Internals, ViewCondition};

const KS: &str = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', \
                  'replication_factor': 1}";
const TABLE: &str = "CREATE TABLE t (p int, q text, c int, d int, s int static, v int, w int, \
                     m map<int, text>, l list<int>, e set<int>, f frozen<list<int>>, \
                     PRIMARY KEY ((p, q), c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC)";
const SMALL: &str = "CREATE TABLE t (p int PRIMARY KEY, v int, w int, \"X y\" int)";
const VIEW: &str = "CREATE MATERIALIZED VIEW mv AS SELECT v FROM t WHERE v IS NOT NULL AND p IS \
                    NOT NULL PRIMARY KEY (v, p)";

/// `mv of t (v int pk, p int ck; hidden w empty; idx_token = token)`
fn render(table: &TableSchema) -> String {
    let column = |it: &model::Column| {
        let kind = match (it.kind, it.reversed) {
            (ColumnKind::PartitionKey, _) => " pk",
            (ColumnKind::Clustering, false) => " ck",
            (ColumnKind::Clustering, true) => " ck desc",
            (ColumnKind::Static, _) => " static",
            (ColumnKind::Regular, _) => "",
        };
        let hidden = if table.is_hidden(it.id) { " hidden" } else { "" };
        let computed = table.view.as_ref().and_then(|view| view.computed(it.id));
        let computed = computed.map(|it| match it.parts() {
            (kind, None) => format!(" = {kind}"),
            (kind, Some(of)) => format!(" = {kind} of {of}"),
        });
        let computed = computed.unwrap_or_default();
        format!("{} {}{kind}{hidden}{computed}", it.name, it.ty.to_cql())
    };
    let columns: Vec<String> = table.columns.iter().map(column).collect();
    let mut out = match &table.view {
        None => table.name.clone(),
        Some(view) => format!("{} of {}", table.name, view.base_name),
    };
    out.push_str(&format!(" ({})", columns.join(", ")));
    if let Some(view) = &table.view {
        out.push_str(&format!(" where {}", view.where_clause));
        view.filter.iter().for_each(|it| out.push_str(&format!("; {}", condition(it))));
        let synchronous = [(Some(true), " sync"), (Some(false), " async")];
        let synchronous = synchronous.map(|(said, word)| (view.synchronous == said, word));
        let words = [&[(view.includes_all, " all")], &synchronous[..]].concat();
        words.iter().filter(|(is, _)| *is).for_each(|(_, word)| out.push_str(word));
    }
    for index in &table.indexes {
        let options = table.index_options(index);
        out.push_str(&format!(" [{} {} {options:?}]", index.name, table.index_kind(index)));
    }
    out
}

fn condition(it: &ViewCondition) -> String {
    format!("{} {} {:?}", it.columns.join(","), it.operator.name(), it.values)
}

fn outcome(node: &Node, statement: &str) -> String {
    match node.decide(statement) {
        Err(error) => format!("! {error}"),
        Ok(changes) => {
            let one = |change: &SchemaChange| match change {
                SchemaChange::CreateTable(it) => format!("create {}", render(it)),
                SchemaChange::AlterTable(it) => format!("alter {}", render(it)),
                SchemaChange::DropTable { name, .. } => format!("drop {name}"),
                other => format!("{other:?}"),
            };
            changes.iter().map(one).collect::<Vec<_>>().join("\n")
        }
    }
}

fn check(setup: &[&str], statement: &str, expected: &str) {
    assert_eq!(outcome(&Node::after(setup), statement), expected, "{statement}");
}

fn refused(setup: &[&str], cases: &[(&str, &str)]) {
    let node = Node::after(setup);
    for (statement, expected) in cases {
        let found = outcome(&node, statement);
        assert!(found.starts_with(&format!("! {expected}")), "{statement}\n{found}\n{expected}");
    }
}

#[test]
fn a_view_has_what_it_is_asked_for_and_what_its_rows_live_by() {
    check(
        &[KS, SMALL],
        VIEW,
        "create mv of t (v int pk, p int ck) where v IS NOT NULL AND p IS NOT NULL",
    );
    let create = |select: &str, filter: &str, key: &str| {
        format!(
            "CREATE MATERIALIZED VIEW mv AS SELECT {select} FROM t WHERE q IS NOT NULL AND \
             {filter} PRIMARY KEY {key}"
        )
    };
    check(
        &[KS, TABLE],
        &create("v", "p IS NOT NULL AND c > 1 AND d IN (2, 3)", "((q, p), d, c)"),
        "create mv of t (q text pk, p int pk, d int ck, c int ck desc, e set<int> hidden, \
         f empty hidden, l list<empty> hidden, m map<int, empty> hidden, v int, w empty hidden) \
         where q IS NOT NULL AND p IS NOT NULL AND c > 1 AND d IN (2, 3); c > [[[0, 0, 0, 1]]]; \
         d IN [[[0, 0, 0, 2]], [[0, 0, 0, 3]]]",
    );
    check(
        &[KS, TABLE],
        &(create("p, w", "p = 1 AND (c, d) < (1, 2) AND v = 7", "((v), q, p, c, d)")
            + " WITH CLUSTERING ORDER BY (d DESC, c ASC) AND synchronous_updates = true"),
        "create mv of t (v int pk, q text ck, p int ck, c int ck, d int ck desc, w int) where \
         q IS NOT NULL AND p = 1 AND (c, d) < (1, 2) AND v = 7; p = [[[0, 0, 0, 1]]]; c,d < \
         [[[0, 0, 0, 1], [0, 0, 0, 2]]]; v = [[[0, 0, 0, 7]]] sync",
    );
    let small = "CREATE MATERIALIZED VIEW IF NOT EXISTS ks.mv AS SELECT * FROM t WHERE p IN (1) \
                 PRIMARY KEY (p)";
    check(
        &[KS, SMALL],
        small,
        "create mv of t (p int pk, X y int, v int, w int) where p IN (1); \
         p IN [[[0, 0, 0, 1]]] all",
    );
    check(&[KS, SMALL, small], small, "");
    check(
        &[KS, SMALL, small],
        &small.replace("IF NOT EXISTS", ""),
        "! Cannot add already existing table \"mv\" to keyspace \"ks\"",
    );
}

#[test]
fn what_cannot_be_a_view_is_refused() {
    let create = |select: &str, filter: &str, key: &str| {
        let filter = if filter.is_empty() { String::new() } else { format!(" WHERE {filter}") };
        format!("CREATE MATERIALIZED VIEW mv AS SELECT {select} FROM t{filter} PRIMARY KEY {key}")
    };
    let all = "p IS NOT NULL AND q IS NOT NULL AND c IS NOT NULL AND d IS NOT NULL";
    let key = "((p, q), c, d)";
    let with = |with: &str| create("v", all, key) + " WITH " + with;
    let v = format!("{all} AND v IS NOT NULL");
    let w = format!("{v} AND w IS NOT NULL");
    let more = |text: &str| format!("{all} AND {text}");
    let cases = [
        (with("COMPACT STORAGE"), "Cannot use 'COMPACT STORAGE' when defining"),
        (with("cdc = {'enabled': true}"), "Cannot enable CDC for a materialized view"),
        (with("default_time_to_live = 5"), "Cannot set or alter default_time_to_live for a"),
        (with("ID = null"), "Invalid table id"),
        (with("ID = 'null'"), "Invalid table id"),
        (with("nonsense = 5"), "Unknown property 'nonsense'"),
        (
            with("CLUSTERING ORDER BY (v ASC)"),
            "CLUSTERING ORDER BY lists v which is not a clustering column in the view",
        ),
        (
            create("v", all, key).replace("FROM t", "FROM other.t"),
            "Cannot create a materialized view on a table in a separate keyspace ('ks' != 'other')",
        ),
        (create("v", all, key).replace("VIEW mv", "VIEW \"a b\""), "\"a b\" is not a valid mater"),
        (create("v", all, key).replace("FROM t", "FROM u"), "unconfigured table u"),
        (create("v AS x", all, key), "Cannot use alias when defining"),
        (create("max(v)", all, key), "Cannot use general expressions when defining"),
        (create("x", all, key), "Unknown column name detected in CREATE MATERIALIZED VIEW st"),
        (create("v", all, "((p, q), c, d, p)"), "Duplicate entry found in PRIMARY KEY: p"),
        (create("v", all, "((p, q), c, d, m)"), "Cannot use MultiCell column 'm' in PRIMARY KEY"),
        (create("v", all, "((p, q), c, d, s)"), "Cannot use Static column 's' in PRIMARY KEY of"),
        (create("v", &w, "(v, w, p, q, c, d)"), "Cannot include more than one non-primary key c"),
        (create("v", all, "(v, p, q, c, d)"), "Primary key column 'v' is required to be filtered"),
        (create("v", "", "((p, q), c, d)"), "Primary key column 'p' is required to be filtered by"),
        (create("*", all, key), "Unable to include static column 's' which would be included by"),
        (create("s", all, key), "Unable to include static column 's' which would be included by"),
        (
            create("v", &v, "(v, p, c)"),
            "Cannot create Materialized View mv without primary key columns from base t (q, d)",
        ),
        (
            create("v", &more("v = 3 AND w > 1"), key),
            "Non-primary key columns cannot be restricted in the SELECT statement used for \
             materialized view mv creation (got restrictions on: v, w)",
        ),
        (create("v", &more("c != 4"), key), "Unsupported \"!=\" relation: c != 4"),
        (create("v", &more("c = NULL"), key), "Invalid null value in condition for column c"),
        (create("v", &more("c = 'x'"), key), "Invalid STRING constant (x)"),
        (create("v", &more("z = 1"), key), "Unrecognized name z"),
        (create("v", &more("(c, d) = (1)"), key), "Expected 2 values for (c, d) = (1)"),
        (
            create("v", &more("token(p, q) > 1"), key),
            "A materialized view cannot have the condition token(p, q) > 1",
        ),
        (create("v", &more("m CONTAINS 'x'"), key), "A materialized view cannot have the condi"),
    ];
    let cases: Vec<(&str, &str)> = cases.iter().map(|(text, why)| (text.as_str(), *why)).collect();
    refused(&[KS, TABLE], &cases);
    let counters = "CREATE TABLE t (p int PRIMARY KEY, v counter)";
    let of_counters = "CREATE MATERIALIZED VIEW mv AS SELECT * FROM t PRIMARY KEY (p)";
    refused(&[KS, counters], &[(of_counters, "Materialized views are not supported on counter")]);
    let of_view = VIEW.replace("FROM t", "FROM mv").replace("VIEW mv", "VIEW mv2");
    refused(&[KS, SMALL, VIEW], &[(&of_view, "Materialized views cannot be created against oth")]);
    let hasty = format!("{SMALL} WITH gc_grace_seconds = 0");
    refused(&[KS, &hasty], &[(VIEW, "Cannot create materialized view 'mv' for base table 't' wi")]);
}

#[test]
fn ids_of_views_are_theirs_alone() {
    let id = "00000000-0000-0000-0000-00000000000a";
    let mut node = Node::after(&[KS, SMALL]);
    let changes = node.decide(&format!("{VIEW} WITH ID = {id}")).expect("a view");
    node.apply(changes);
    assert_eq!(node.schema.table("ks", "mv").expect("the view").schema.id.to_string(), id);
    let again = format!("{} WITH ID = {id}", VIEW.replace("VIEW mv", "VIEW other"));
    let refused = format!("! Table with ID {id} already exists: ks.mv");
    assert_eq!(outcome(&node, &again), refused);
    node.has_views = false;
    let refused = "! Not all nodes of the cluster can have views and indexes (VIEWS)";
    assert!(outcome(&node, &again.replace('a', "b")).starts_with("! "));
    assert!(outcome(&node, &VIEW.replace("VIEW mv", "VIEW mw")).starts_with(refused));
    assert!(outcome(&node, "CREATE INDEX ON t (v)").starts_with(refused));
}

#[test]
fn needless_is_not_null_is_warned_of_or_refused() {
    let mut node = Node::after(&[KS, SMALL]);
    let needless = VIEW.replace("WHERE", "WHERE w IS NOT NULL AND");
    let warnings = |node: &Node| {
        let parsed = syntax::parse(&needless).expect("a statement").statement;
        let syntax::ast::Statement::Schema(statement) = parsed else { panic!("no DDL") };
        crate::ddl::warnings(&node.schema, &statement, &node.rules, Some("ks"))
    };
    let found = warnings(&node);
    assert!(matches!(&found[..], [(None, text)] if text.contains("found columns: w")), "{found:?}");
    assert!(outcome(&node, &needless).starts_with("create mv"));
    node.rules.not_null = cluster::Restriction::Refused;
    let expected = "! The IS NOT NULL restriction is allowed only columns which are part of the";
    assert!(outcome(&node, &needless).starts_with(expected));
    node.rules.not_null = cluster::Restriction::Allowed;
    assert!(outcome(&node, &needless).starts_with("create mv") && warnings(&node).is_empty());
}

#[test]
fn views_are_altered_and_dropped() {
    let setup = [KS, SMALL, VIEW];
    let altered = "alter mv of t (v int pk, p int ck) where v IS NOT NULL AND p IS NOT NULL";
    check(&setup, "ALTER MATERIALIZED VIEW mv WITH comment = 'x'", altered);
    let sync = "ALTER MATERIALIZED VIEW mv WITH synchronous_updates = true";
    check(&setup, sync, &format!("{altered} sync"));
    let not_sync = "ALTER MATERIALIZED VIEW mv WITH synchronous_updates = false";
    check(&setup, not_sync, &format!("{altered} async"));
    check(&[KS, SMALL, VIEW, not_sync], not_sync, "");
    check(&setup, "DROP MATERIALIZED VIEW mv", "drop mv");
    check(&setup, "DROP MATERIALIZED VIEW IF EXISTS mw", "");
    check(&setup, "ALTER MATERIALIZED VIEW IF EXISTS mw WITH comment = 'x'", "");
    let cases = [
        ("ALTER MATERIALIZED VIEW t WITH comment = ''", "Cannot use ALTER MATERIALIZED VIEW on T"),
        ("ALTER MATERIALIZED VIEW u WITH comment = ''", "Cannot alter non existing materialized"),
        ("ALTER MATERIALIZED VIEW mv WITH gc_grace_seconds = 0", "Cannot alter gc_grace_seconds"),
        ("ALTER MATERIALIZED VIEW mv WITH default_time_to_live = 1", "Cannot set or alter defa"),
        ("ALTER MATERIALIZED VIEW mv WITH cdc = {'enabled': true}", "Cannot enable CDC for a m"),
        ("ALTER TABLE mv ADD x int", "Cannot use ALTER TABLE on Materialized View. (Did you me"),
        ("DROP TABLE mv", "Cannot use DROP TABLE on Materialized View. (Did you mean DROP MATERI"),
        ("DROP MATERIALIZED VIEW t", "Cannot use DROP MATERIALIZED VIEW on Table. (Did you mean"),
        ("DROP MATERIALIZED VIEW u", "Cannot drop non existing materialized view 'u' in keyspa"),
        ("DROP TABLE t", "Cannot drop table when materialized views still depend on it (ks.{mv})"),
        ("ALTER TABLE t WITH gc_grace_seconds = 0", "Cannot alter gc_grace_seconds of the base"),
        ("ALTER TABLE t WITH synchronous_updates = true", "The synchronous_updates option is only"),
        ("CREATE TABLE mv (p int PRIMARY KEY)", "Cannot add already existing table \"mv\""),
    ];
    refused(&setup, &cases);
}

#[test]
fn views_follow_their_base() {
    let all = "CREATE MATERIALIZED VIEW a AS SELECT * FROM t PRIMARY KEY (p)";
    let keys = "CREATE MATERIALIZED VIEW k AS SELECT p FROM t WHERE p > 3 PRIMARY KEY (p)";
    let setup = [KS, SMALL, all, keys, VIEW];
    check(
        &setup,
        "ALTER TABLE t ADD (y map<int, int>, z int)",
        "alter t (p int pk, X y int, v int, w int, y map<int, int>, z int)\n\
         alter a of t (p int pk, X y int, v int, w int, y map<int, int>, z int) where  all\n\
         alter k of t (p int pk, X y empty hidden, v empty hidden, w empty hidden, \
         y map<int, empty> hidden, z empty hidden) where p > 3; p > [[[0, 0, 0, 3]]]",
    );
    check(
        &setup,
        "ALTER TABLE t RENAME p TO \"P\"",
        "alter t (P int pk, X y int, v int, w int)\n\
         alter a of t (P int pk, X y int, v int, w int) where  all\n\
         alter k of t (P int pk, X y empty hidden, v empty hidden, w empty hidden) where \
         \"P\" > 3; P > [[[0, 0, 0, 3]]]\n\
         alter mv of t (v int pk, P int ck) where v IS NOT NULL AND \"P\" IS NOT NULL",
    );
    check(
        &setup,
        "ALTER TABLE t ALTER w TYPE blob",
        "alter t (p int pk, X y int, v int, w blob)\n\
         alter a of t (p int pk, X y int, v int, w blob) where  all",
    );
    let needs = "Cannot drop column w from base table ks.t: materialized view a needs this column";
    refused(&setup, &[("ALTER TABLE t DROP w", needs)]);
    let needs = "Cannot drop column w from base table ks.t: materialized view k needs this column";
    refused(&[KS, SMALL, keys], &[("ALTER TABLE t DROP w", needs)]);
    check(&[KS, SMALL, VIEW], "ALTER TABLE t DROP w", "alter t (p int pk, X y int, v int)");
    let type_of = "ALTER TABLE t ALTER v TYPE varint";
    check(
        &[KS, SMALL, VIEW],
        type_of,
        "alter t (p int pk, X y int, v varint, w int)\n\
         alter mv of t (v varint pk, p int ck) where v IS NOT NULL AND p IS NOT NULL",
    );
    let clustered = VIEW.replace("(v, p)", "(p, v)");
    let ordered = "Cannot change v from type int to type blob: types are not order-compatible, and";
    refused(&[KS, SMALL, &clustered], &[("ALTER TABLE t ALTER v TYPE blob", ordered)]);
}

#[test]
fn columns_that_come_while_others_are_hidden_are_hidden() {
    let keys = "CREATE MATERIALIZED VIEW k AS SELECT p FROM t PRIMARY KEY (p)";
    let mut node = Node::after(&[KS, SMALL, keys]);
    for added in ["a int", "zz list<int>", "b int"] {
        let changes = node.decide(&format!("ALTER TABLE t ADD {added}")).expect("a column");
        node.apply(changes);
    }
    let view = &node.schema.table("ks", "k").expect("the view").schema;
    assert_eq!(
        render(view),
        "k of t (p int pk, X y empty hidden, a empty hidden, b empty hidden, v empty hidden, \
         w empty hidden, zz list<empty> hidden) where "
    );
}

#[test]
fn an_index_is_answered_by_a_view() {
    let options = |target: &str| format!("COMPOSITES [(\"target\", \"{target}\")]");
    let base = "t (p int pk, q text pk, c int ck desc, d int ck, s int static, e set<int>, \
                f frozen<list<int>>, l list<int>, m map<int, text>, v int, w int)";
    let rest = "idx_token bigint ck = token, p int ck, q text ck, c int ck desc, d int ck";
    let hidden = "e set<int> hidden, f empty hidden, l list<empty> hidden, \
                  m map<int, empty> hidden, v empty hidden, w empty hidden";
    let made = |on: &str, name: &str, target: &str, view: String| {
        let expected =
            format!("alter {base} [{name} {}]\ncreate {name}_index of t ({view}", options(target));
        check(&[KS, TABLE], &format!("CREATE INDEX ON t ({on})"), &expected);
    };
    let not_null = |column: &str| format!(" where \"{column}\" IS NOT NULL");
    made("v", "t_v_idx", "v", format!("v int pk, {rest}){}", not_null("v")));
    made("full(f)", "t_f_idx", "f", format!("f frozen<list<int>> pk, {rest}){}", not_null("f")));
    let of_static = "s int pk, idx_token bigint ck = token, p int ck, q text ck)";
    made("s", "t_s_idx", "s", format!("{of_static}{}", not_null("s")));
    let of_key = "idx_token bigint ck = token, q text ck, c int ck desc, d int ck";
    made("p", "t_p_idx", "p", format!("p int pk, {of_key}, {hidden}){}", not_null("p")));
    let of_clustering = "idx_token bigint ck = token, p int ck, q text ck, c int ck desc";
    let of_clustering = format!("d int pk, {of_clustering}, {hidden}){}", not_null("d"));
    made("d", "t_d_idx", "d", of_clustering);
    let of_set = format!("coll_value int pk = element_key of e, {rest}) where ");
    made("e", "t_e_idx", "keys(e)", of_set.clone());
    made("values(e)", "t_e_idx", "keys(e)", of_set);
    let of_keys = format!("coll_value int pk = element_key of m, {rest}) where ");
    made("keys(m)", "t_m_idx", "keys(m)", of_keys);
    let entries =
        format!("coll_value frozen<tuple<int, text>> pk = element_entry of m, {rest}) where ");
    made("entries(m)", "t_m_idx", "entries(m)", entries);
    let of_values = "keys_for_values_idx int ck = key_of_value of m) where ";
    let of_values = format!("coll_value text pk = element_value of m, {rest}, {of_values}");
    made("m", "t_m_idx", "values(m)", of_values);
    let of_list = "keys_for_values_idx timeuuid ck = key_of_value of l) where ";
    let of_list = format!("coll_value int pk = element_value of l, {rest}, {of_list}");
    made("l", "t_l_idx", "values(l)", of_list);
    let local = "p int pk, q text pk, v int ck, c int ck desc, d int ck)";
    let target = "{\\\"pk\\\":[\\\"p\\\",\\\"q\\\"],\\\"ck\\\":[\\\"v\\\"]}";
    made("(p, q), v", "t_v_idx", target, format!("{local}{} sync", not_null("v")));
    let local =
        format!("p int pk, q text pk, d int ck, c int ck desc, {hidden}){} sync", not_null("d"));
    let target = "{\\\"pk\\\":[\\\"p\\\",\\\"q\\\"],\\\"ck\\\":[\\\"d\\\"]}";
    made("(q, p), d", "t_d_idx", target, local);
}

#[test]
fn names_of_indexes_and_their_columns_are_free_ones() {
    let taken = "CREATE TABLE t (idx_token int PRIMARY KEY, coll_value list<int>, \
                 keys_for_values_idx int, \"a-b C\" int)";
    let mut node = Node::after(&[KS, taken]);
    let mut make = |statement: &str| {
        let changes = node.decide(statement).unwrap_or_else(|error| panic!("{error}"));
        let SchemaChange::CreateTable(view) = &changes[1] else { panic!("{changes:?}") };
        let found = render(view);
        node.apply(changes);
        found
    };
    assert_eq!(
        make("CREATE INDEX ON t (coll_value)"),
        "t_coll_value_idx_index of t (coll_value_1 int pk = element_value of coll_value, \
         idx_token_1 bigint ck = token, idx_token int ck, \
         keys_for_values_idx_1 timeuuid ck = key_of_value of coll_value) where "
    );
    assert!(make("CREATE INDEX ON t (\"a-b C\")").starts_with("t_abC_idx_index of t (a-b C int"));
    let second = make("CREATE INDEX ON t ((idx_token), \"a-b C\")");
    assert!(second.starts_with("t_abC_idx_1_index of t (idx_token int pk, a-b C int"), "{second}");
    let add = [("ALTER TABLE t ADD idx_token_1 int", "Cannot use column name idx_token_1: t_")];
    for (statement, expected) in add {
        let found = outcome(&node, statement);
        assert!(found.starts_with(&format!("! {expected}")), "{found}");
    }
    let view = "CREATE TABLE \"t_keys_for_values_idx_idx_index\" (p int PRIMARY KEY)";
    let changes = node.decide(view).expect("a table");
    node.apply(changes);
    let found = outcome(&node, "CREATE INDEX ON t (keys_for_values_idx)");
    assert!(found.contains("create t_keys_for_values_idx_idx_1_index"), "{found}");
}

/// Tables of all kinds, with some indexes.
fn setup() -> Vec<&'static str> {
    let udts = "CREATE TABLE n (p int PRIMARY KEY, u u, g frozen<u>, d duration, \
                k frozen<map<int, duration>>, x vector<float, 3>)";
    vec![
        KS,
        TABLE,
        "CREATE TYPE u (a int)",
        udts,
        "CREATE TABLE z (p int PRIMARY KEY, v int) WITH COMPACT STORAGE",
        "CREATE TABLE y (p int, c int, v int, PRIMARY KEY (p, c)) WITH COMPACT STORAGE",
        "CREATE TABLE co (p int PRIMARY KEY, v counter)",
        "CREATE TABLE fk (k frozen<list<int>> PRIMARY KEY, v int)",
        "CREATE MATERIALIZED VIEW mv AS SELECT p FROM n PRIMARY KEY (p)",
        "CREATE INDEX ON t (w)",
        "CREATE INDEX by_m ON t (m)",
        "CREATE INDEX by_c ON t (c)",
        "CREATE TABLE i_index (p int PRIMARY KEY)",
    ]
}

fn on(target: &str) -> String {
    format!("CREATE INDEX ON t ({target})")
}

fn refused_of_all(cases: &[(String, &str)]) {
    let cases: Vec<(&str, &str)> = cases.iter().map(|(text, why)| (text.as_str(), *why)).collect();
    refused(&setup(), &cases);
}

#[test]
fn what_an_index_cannot_be_made_with_is_refused() {
    let custom = |rest: &str| format!("CREATE CUSTOM INDEX ON t (v) {rest}");
    refused_of_all(&[
        ("CREATE INDEX ON t ()".into(), "Only CUSTOM indexes can be created without specifying"),
        (custom(""), "CUSTOM index requires specifying the index class"),
        (on("v") + " WITH OPTIONS = {'a': 'b'}", "Cannot specify options for a non-CUSTOM index"),
        (custom("USING 'magic'"), "Non-supported custom class 'magic' provided"),
        (custom("USING 'Vector_Index'"), "A vector_index is not supported yet"),
        (custom("USING 'fulltext_index'"), "A fulltext_index is not supported yet"),
        (
            custom("USING 'vector_index' WITH comment = 'x'"),
            "You cannot use view properties with a vector_index",
        ),
        (
            custom("USING 'sai' WITH OPTIONS = {'class_name': 'b'}"),
            "Cannot specify class_name as a CUSTOM option",
        ),
    ]);
}

#[test]
fn columns_that_cannot_be_indexed_are_refused() {
    refused_of_all(&[
        ("CREATE INDEX ON n (u)".into(), "Cannot create secondary index on UDT column u"),
        ("CREATE INDEX ON n (d)".into(), "Secondary indexes are not supported on duration columns"),
        ("CREATE INDEX ON n (full(k))".into(), "Secondary indexes are not supported on collectio"),
        ("CREATE CUSTOM INDEX ON n (x) USING 'sai'".into(), "An index of vectors is not supported"),
        ("CREATE INDEX ON co (v)".into(), "Secondary indexes are not supported on counter tables"),
        ("CREATE INDEX ON mv (v)".into(), "Secondary indexes are not supported on materialized v"),
        ("CREATE INDEX ON y (v)".into(), "Secondary indexes are not supported on COMPACT STORAGE"),
        ("CREATE INDEX ON z (p)".into(), "Secondary indexes are not supported on PRIMARY KEY col"),
        ("CREATE INDEX ON n (p)".into(), "Cannot create secondary index on partition key column p"),
        (
            "CREATE INDEX ON fk (keys(k))".into(),
            "Cannot create secondary index on partition key co",
        ),
        (on("x"), "No column definition found for column x"),
        (on("f"), "Cannot create index on value of frozen collection column f"),
        (on("keys(f)"), "Cannot create index on keys() of frozen collection column f"),
        (on("full(m)"), "full() indexes can only be created on frozen collections"),
        (on("full(v)"), "full() indexes can only be created on frozen collections"),
        (on("keys(l)"), "Cannot create secondary index on keys of column l with non-map type"),
        (on("entries(e)"), "Cannot create secondary index on entries of column e with non-map t"),
        (on("keys(v)"), "Cannot create index on keys of column v; only non-frozen collections"),
    ]);
}

#[test]
fn several_columns_are_for_local_indexes() {
    let full = "Local index definition must contain full partition key only.";
    refused_of_all(&[
        (on("v, w"), "Only CUSTOM indexes support multiple columns"),
        (on("v, v"), "Duplicate column v in index target list"),
        (on("(p, q)"), "Local index definition must provide an indexed column, not just partition"),
        (on("v, (p, q)"), "Multi-column index targets are currently only supported for partition"),
        (on("(p, v), w"), &format!("{full} Redundant column: v")),
        (on("(p), w"), &format!("{full} Missing column: q")),
        (on("(p, q, p), w"), "Duplicate column definition in local index: p"),
        (on("(p, q), p"), "Local indexing based on partition key column is not allowed"),
        (on("(p, q), s"), "Local indexes containing static columns are not supported."),
        (on("(p, q), m"), "Local secondary index on collection column m is not implemented yet."),
    ]);
}

#[test]
fn what_contradicts_an_index_is_refused() {
    refused_of_all(&[
        (on("v") + " WITH default_time_to_live = 5", "Cannot set or alter default_time_to_live"),
        (on("v") + " WITH read_repair_chance = 0.5", "Unknown property 'read_repair_chance'"),
        (on("v") + " WITH CLUSTERING ORDER BY (v ASC)", "Indexes do not allow for specifying the"),
        (on("w"), "Index t_w_idx_1 is a duplicate of existing index t_w_idx"),
        ("CREATE INDEX t_w_idx ON t (v)".into(), "Index already exists"),
        ("CREATE INDEX IF NOT EXISTS by_c ON t (v)".into(), "Index already exists"),
        ("CREATE INDEX IF NOT EXISTS by_c ON n (g)".into(), "Index already exists"),
        ("CREATE INDEX \"a b\" ON t (v)".into(), "\"a b\" is not a valid index name"),
        ("CREATE INDEX i ON t (v)".into(), "Index i cannot be created, because table i_index alre"),
        ("DROP INDEX nope".into(), "Index 'nope' could not be found in any of the tables of key"),
        (
            "DROP MATERIALIZED VIEW t_w_idx_index".into(),
            "Cannot use DROP MATERIALIZED VIEW on Index. (Did you mean DROP INDEX)?",
        ),
        (
            "ALTER TABLE t DROP w".into(),
            "Cannot drop column w from base table ks.t: materialized view t_w_idx_index needs th",
        ),
        (
            "ALTER TABLE t DROP m".into(),
            "Cannot drop column m from base table ks.t: materialized view by_m_index needs this",
        ),
        (
            "ALTER TABLE t RENAME c TO cc".into(),
            "Cannot rename column c because it has dependent secondary indexes (by_c)",
        ),
    ]);
    let node = Node::after(&setup());
    for nothing in [
        "CREATE INDEX IF NOT EXISTS ON t (w)",
        "CREATE INDEX IF NOT EXISTS by_c ON t (c)",
        "CREATE INDEX IF NOT EXISTS other ON t (c)",
        "DROP INDEX IF EXISTS nope",
    ] {
        assert_eq!(outcome(&node, nothing), "", "{nothing}");
    }
}

#[test]
fn indexes_come_and_go_with_their_views() {
    let with = "CREATE CUSTOM INDEX by_v ON t (v) USING 'StorageAttachedIndex' WITH OPTIONS = \
                {'case_sensitive': 'false'} AND comment = 'hello' AND synchronous_updates = true";
    let mut node = Node::after(&[KS, SMALL, with, "CREATE INDEX other ON t (w)"]);
    let entry = |node: &Node, name: &str| node.schema.table("ks", name).cloned();
    let base = entry(&node, "t").expect("the base");
    assert_eq!((base.views.len(), base.schema.indexes.len()), (2, 2));
    let view = entry(&node, "by_v_index").expect("the view");
    assert_eq!(view.schema.options.comment, "hello");
    assert!(view.schema.view.as_ref().is_some_and(|view| view.is_synchronous()));
    assert!(super::is_of_index(&node.schema, &view) && !super::is_of_index(&node.schema, &base));
    let index = base.schema.index_named("by_v").expect("the index");
    let text = base.schema.describe_index(index, Some(&view.schema), Internals::Hidden);
    let begins = "CREATE CUSTOM INDEX by_v ON ks.t(v) USING 'StorageAttachedIndex' WITH OPTIONS = \
                  {'case_sensitive': 'false'}\n    AND bloom_filter_fp_chance = 0.01";
    assert!(text.starts_with(begins), "{text}");

    let dropped = "alter t (p int pk, X y int, v int, w int) [other COMPOSITES [(\"target\", \
                   \"w\")]]\ndrop by_v_index";
    assert_eq!(outcome(&node, "DROP INDEX ks.by_v"), dropped);
    let changes = node.decide("DROP INDEX by_v").expect("an index");
    node.apply(changes);
    assert!(entry(&node, "by_v_index").is_none());
    // What was shown makes it again.
    let again = node.decide(&text).expect("what was described");
    node.apply(again);
    let made = entry(&node, "t").expect("the base");
    assert_eq!(made.schema.index_named("by_v"), Some(index));
    assert_eq!(outcome(&node, "DROP TABLE t"), "drop t\ndrop other_index\ndrop by_v_index");
    let changes = node.decide("DROP TABLE t").expect("a table");
    node.apply(changes);
    let left = |schema: &Schema| schema.keyspace("ks").map_or(0, |entry| entry.tables.len());
    assert_eq!(left(&node.schema), 0);
}

#[test]
fn what_is_described_makes_the_same_view() {
    let create = "CREATE MATERIALIZED VIEW mv AS SELECT v FROM t WHERE \"X y\" = 3 AND p IN (1, \
                  2) PRIMARY KEY (p, \"X y\") WITH CLUSTERING ORDER BY (\"X y\" DESC) AND comment \
                  = 'c' AND synchronous_updates = true";
    let mut node = Node::after(&[KS, SMALL, create]);
    let schema = |node: &Node| (*node.schema.table("ks", "mv").expect("mv").schema).clone();
    let made = schema(&node);
    let text = made.describe_view(made.view.as_ref().expect("a view"), Internals::Shown);
    let gc = "tombstone_gc = {'mode': 'timeout', 'propagation_delay_in_seconds': '3600'}\n";
    assert!(text.contains(gc), "{text}");
    let changes = node.decide("DROP MATERIALIZED VIEW mv").expect("a view");
    node.apply(changes);
    let changes = node.decide(&text).expect("what was described");
    node.apply(changes);
    assert_eq!(TableSchema { version: made.version, ..schema(&node) }, made);
}

#[test]
fn keyspaces_with_views_keep_a_rack_for_each_replica() {
    let space = "CREATE KEYSPACE ks WITH replication = {'class': 'NetworkTopologyStrategy', \
                 'dc1': 1} AND tablets = {'enabled': true}";
    let mut node = Node::empty();
    node.data_centers[0].racks = ["r1", "r2", "r3"].map(str::to_owned).to_vec();
    node.data_centers[0].owners = 3;
    let more = "ALTER KEYSPACE ks WITH replication = {'class': 'NetworkTopologyStrategy', \
                'dc1': 2}";
    for statement in [space, SMALL] {
        let changes = node.decide(statement).expect(statement);
        node.apply(changes);
    }
    assert!(node.decide(more).is_ok());
    let changes = node.decide(VIEW).expect("a view");
    node.apply(changes);
    let refused = "! Materialized views and secondary indexes are not supported on the keyspace \
                   'ks': The keyspace 'ks' is required to be RF-rack-valid.";
    let found = outcome(&node, more);
    assert!(found.starts_with(refused), "{found}");
    let changes = node.decide("DROP MATERIALIZED VIEW mv").expect("a view");
    node.apply(changes);
    let changes = node.decide(more).expect("two replicas");
    node.apply(changes);
    for statement in [VIEW, "CREATE INDEX ON t (v)"] {
        let found = outcome(&node, statement);
        assert!(found.starts_with(refused), "{statement}: {found}");
    }
}
