use super::equal::{Equal, Wishes, Writing};
use super::keys::{conjuncts, reads, whole_key};
use super::meaning::Meaning;
use super::tree::{Change, Lack, Returning, Select, Source, Statement, Term, Test};
use super::*;
use crate::evaluate::holds;
use crate::expression::print::Printed;
use crate::expression::{Comparison, Condition, Path, Step};
use crate::json::{Json, Object};
use crate::key::Key;
use crate::number::Number;
use crate::request::Request;
use crate::table::{ATTRIBUTES, Table};
use crate::update::{applied, changed};
use crate::value::{Map, Value, attributes, attributes_json};
use crate::write::{Operation, Write};
use cluster::{Schema, TableEntry};
use model::{TableId, TableSchema, Type, Uuid};
use proptest::prelude::*;
use std::rc::Rc;
use std::sync::Arc;

fn statement(text: &str) -> Statement {
    parse(text).unwrap().0
}

/// A table with the keys `p`, a text, and `c`, a number.
fn table() -> Table {
    let map = Type::Map { key: Box::new(Type::Text), value: Box::new(Type::Blob), frozen: false };
    let builder = TableSchema::builder("alternator_ttt", "ttt", TableId::from_u128(7));
    let builder = builder.partition_key("p", Type::Text).clustering("c", Type::Decimal);
    let schema = builder.regular(ATTRIBUTES, map).build().unwrap();
    let attributes = schema.column(ATTRIBUTES).map(|column| column.id);
    let system = Schema::of_system(Uuid::from_u128(1), 1);
    let other = system.table("system", "local").unwrap();
    let entry = Rc::new(TableEntry { schema: Rc::new(schema), ..(**other).clone() });
    Table { entry, name: "ttt".to_owned(), attributes, indexed: Arc::new([]), index: None }
}

fn equal(text: &str) -> Result<Equal, Error> {
    let (statement, table) = (parse(text)?.0, table());
    let wishes = Wishes::default();
    let writing = Writing { table: &table, meaning: Meaning(&[]), wishes };
    match &statement {
        Statement::Insert { item, .. } => writing.insert(item),
        Statement::Update { changes, test, returning, .. } => {
            writing.update(changes, test.as_ref(), *returning)
        }
        Statement::Delete { test, returning, .. } => writing.delete(test.as_ref(), *returning),
        Statement::Exists(select) => writing.check(select.test.as_ref()),
        Statement::Select(_) => panic!("{text}"),
    }
}

#[test]
fn statements_are_read_in_any_case_and_with_comments() {
    let text = "select a, m.x, l[0].\"b c\" -- some\n from ttt.iii /* of */ where not a = ? and \
                (b in (1, ?) or begins_with(c, 'it''s')) order by p desc, c;";
    let (found, parameters) = parse(text).unwrap();
    assert_eq!(parameters, 2);
    assert_eq!(
        found.to_string(),
        "SELECT \"a\", \"m\".\"x\", \"l\"[0].\"b c\" FROM \"ttt\".\"iii\" WHERE NOT \"a\" = ? AND \
         (\"b\" IN [1, ?] OR begins_with(\"c\", 'it''s')) ORDER BY \"p\" DESC, \"c\" ASC"
    );
    let one = "UPDATE ttt SET a = b + 1 - 2, l[0] = list_append([1], l) REMOVE m.x SET s = \
               set_add(s, <<'a'>>) WHERE p = 'x' RETURNING MODIFIED NEW *";
    assert_eq!(
        statement(one).to_string(),
        "UPDATE \"ttt\" SET \"a\" = (\"b\" + 1) - 2 SET \"l\"[0] = list_append([1], \"l\") REMOVE \
         \"m\".\"x\" SET \"s\" = set_add(\"s\", <<'a'>>) WHERE \"p\" = 'x' RETURNING MODIFIED NEW *"
    );
    let other = "INSERT INTO \"t.t\" VALUE {'p': -1.50, 'q': {'a': [true, null, 1e3]}}";
    assert_eq!(
        statement(other).to_string(),
        "INSERT INTO \"t.t\" VALUE {'p': -1.5, 'q': {'a': [true, null, 1000]}}"
    );
    assert!(matches!(statement("EXISTS(SELECT * FROM t WHERE p = 1)"), Statement::Exists(_)));
}

#[test]
fn what_is_no_statement_is_refused_where_it_ceases_to_be_one() {
    let check = |text: &str, expected: &str| {
        let found = parse(text).unwrap_err().message;
        assert!(found.contains(expected), "{text}: {found}");
    };
    check("", "length");
    check(&"x".repeat(BYTES_MAX + 1), "length");
    check("  ", "SELECT, INSERT, UPDATE, DELETE or EXISTS is expected, not the end at 1:3");
    check("SELECT * FRM t", "FROM is expected, not FRM at 1:10");
    check("SELECT *\nFROM t\nWHERE p =", "an attribute is expected, not the end at 3:10");
    check("SELECT * FROM t WHERE p = 'x", "' has no end at 1:27");
    check("SELECT * FROM t WHERE p = 1x", "ends in letters at 1:27");
    check("SELECT * FROM t WHERE p = 1 q", "the end of the statement is expected, not q at 1:29");
    check("SELECT * FROM t WHERE p", "an operator of comparison is expected");
    check("SELECT * FROM t WHERE p = MISSING", "using IS operator at 1:27");
    check("SELECT * FROM t WHERE 1 IS NULL", "no path");
    check("SELECT * FROM t; SELECT * FROM t", "the end of the statement");
    check("SELECT * FROM t /* x", "no end at 1:17");
    check("SELECT * FROM t LIMIT 1", "LIMIT at 1:17");
    check("SELECT p FROM t WHERE p IN []", "expected, not ] at 1:29");
    check("SELECT `p` FROM t", "'`' begins no word at 1:8");
    check("INSERT INTO t VALUE ?", "an item");
    check("INSERT INTO t VALUE {p: 1}", "as 'text'");
    check("INSERT INTO t VALUE {'p': 1, 'p': 2}", "key p at 1:30");
    check("INSERT INTO t VALUE {'p': 1} RETURNING ALL OLD *", "not supported in INSERT");
    check("INSERT INTO t VALUE {'p': 1e200}", "supported range at 1:27");
    check("UPDATE t WHERE p = 1", "SET or REMOVE is expected");
    check("UPDATE t SET a = 1 RETURNING ALL OLD a", "* is expected, not a");
    check("UPDATE t SET a[?] = 1", "the place of an element");
    check(&("SELECT * FROM t WHERE ".to_owned() + &"NOT ".repeat(100) + "a = 1"), "64 levels");
    check(&("INSERT INTO t VALUE {'a': ".to_owned() + &"[".repeat(100)), "64 levels");
    check(&("UPDATE t SET a = ".to_owned() + &"1 + ".repeat(100) + "1"), "64 levels");
    check(&("SELECT * FROM t WHERE a = 1".to_owned() + &" OR a = 1".repeat(400)), "operators");
}

#[test]
fn writes_are_equal_to_operations() {
    let check = |text: &str, expected: &str| {
        let found = equal(text);
        let name = |operation| match operation {
            Operation::Check => "ConditionCheck",
            other => other.op().name(),
        };
        let found = found.map_or_else(
            |error| error.message,
            |it| format!("{} {}", name(it.operation), it.parameters),
        );
        assert!(found.contains(expected), "{text}: {found}");
    };
    check(
        "INSERT INTO ttt VALUE {'p': 'a', 'c': 1, 's': <<2, 1>>}",
        concat!(
            r#"PutItem {"TableName":"ttt","#,
            r#""Item":{"c":{"N":"1"},"p":{"S":"a"},"s":{"NS":["1","2"]}},"#
        ),
    );
    check("INSERT INTO ttt VALUE {'p': 'a', 'c': 1}", "attribute_not_exists(#0)");
    check("INSERT INTO ttt VALUE {'p': 'a'}", "should be present in the item: Key c");
    check("INSERT INTO ttt VALUE {'p': 'a', 'c': b}", "where a value is expected");
    check("INSERT INTO ttt VALUE {'p': 'a', 'c': <<>>}", "Empty bags");
    check("INSERT INTO ttt VALUE {'p': 'a', 'c': <<1, 'a'>>}", "data type in Bag");
    check("INSERT INTO ttt VALUE {'p': 'a', 'c': <<1, 1.0>>}", "duplicates");
    check(
        "UPDATE ttt SET a = a + 1 REMOVE b WHERE p = 'a' AND 1 = c AND (a > 1 OR b IS MISSING) \
         RETURNING ALL OLD *",
        concat!(
            r#"UpdateItem {"TableName":"ttt","Key":{"c":{"N":"1"},"p":{"S":"a"}},"#,
            r##""ConditionExpression":"attribute_exists(#0) AND (#1 > :0 OR "##,
            r##"attribute_not_exists(#2))","UpdateExpression":"SET #1 = #1 + :1 REMOVE #2","##,
            r#""ReturnValues":"ALL_OLD","#
        ),
    );
    check(
        "UPDATE ttt SET s = set_add(s, <<1>>), t = set_delete(t, <<1>>) WHERE p = 'a' AND c = 1",
        r#""UpdateExpression":"ADD #1 :0 DELETE #2 :1""#,
    );
    check("UPDATE ttt SET a = set_add(b, <<1>>) WHERE p = 'a' AND c = 1", "must equal");
    check("UPDATE ttt SET a = 1, a = 2 WHERE p = 'a' AND c = 1", "overlap");
    check("UPDATE ttt SET a = size(b) WHERE p = 'a' AND c = 1", "not allowed");
    for text in ["", " WHERE p = 'a'", " WHERE p = 'a' AND c > 1", " WHERE p = 'a' OR c = 1"] {
        check(&format!("UPDATE ttt SET a = 1{text}"), "mandatory equality on all key attributes");
        check(&format!("DELETE FROM ttt{text}"), "mandatory equality on all key attributes");
    }
    check("DELETE FROM ttt WHERE p = 'a' AND c = '1'", "Key c: expected: N actual: S");
    check(
        "DELETE FROM ttt WHERE p = 'a' AND c = 1",
        r#"DeleteItem {"TableName":"ttt","Key":{"c":{"N":"1"},"p":{"S":"a"}}}"#,
    );
    check(
        "DELETE FROM ttt WHERE p = 'a' AND c = 1 AND a = 1",
        "attribute_not_exists(#0) OR #1 = :0",
    );
    check("DELETE FROM ttt WHERE p = 'a' AND c = 1 RETURNING ALL NEW *", "Only RETURNING ALL OLD");
    check("EXISTS(SELECT * FROM ttt WHERE p = 'a' AND c = 1)", "additional condition");
    check(
        "EXISTS(SELECT * FROM ttt WHERE p = 'a' AND c = 1 AND a = 1)",
        r#"ConditionCheck {"TableName":"ttt","Key""#,
    );
    check("DELETE FROM ttt WHERE p = 'a' AND c = 1 AND a + 1 = 2", "an operator of comparison");
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[abpc]", 1 => "[a-z\" .'\u{e4}]{1,4}", 1 => Just("select".to_owned())]
}

fn paths() -> impl Strategy<Value = Path> {
    let step = prop_oneof![names().prop_map(Step::Name), (0usize..4).prop_map(Step::Index)];
    (names(), prop::collection::vec(step, 0..3)).prop_map(|(root, steps)| Path { root, steps })
}

fn literals() -> impl Strategy<Value = Term> {
    let leaf = prop_oneof![
        "[a-c']{0,3}".prop_map(Term::Text),
        (-30i64..30, -3i32..3).prop_map(|(n, e)| {
            Term::Number(Number::parse(&format!("{n}e{e}")).expect("a number"))
        }),
        any::<bool>().prop_map(Term::Bool),
        Just(Term::Null),
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Term::List),
            prop::collection::vec(inner.clone(), 0..3).prop_map(Term::Set),
            prop::collection::btree_map("[a-z']{0,2}", inner, 0..3)
                .prop_map(|map| Term::Map(map.into_iter().collect())),
        ]
    })
}

fn terms() -> impl Strategy<Value = Term> {
    prop_oneof![
        3 => paths().prop_map(Term::Path),
        3 => literals(),
        1 => paths().prop_map(|path| Term::Call("size".to_owned(), vec![Term::Path(path)])),
    ]
}

fn sums() -> impl Strategy<Value = Term> {
    let call = ("[a-z_]{1,8}f", prop::collection::vec(terms(), 0..3))
        .prop_map(|(name, all)| Term::Call(name, all));
    prop_oneof![4 => terms(), 1 => call].prop_recursive(2, 4, 2, |inner| {
        (inner.clone(), inner, any::<bool>()).prop_map(|(a, b, is_sum)| {
            let (a, b) = (Box::new(a), Box::new(b));
            if is_sum { Term::Plus(a, b) } else { Term::Minus(a, b) }
        })
    })
}

fn comparisons() -> impl Strategy<Value = Comparison> {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, Unequal};
    prop::sample::select(vec![Equal, Unequal, Less, LessOrEqual, Greater, GreaterOrEqual])
}

fn tests() -> impl Strategy<Value = Test> {
    let lack = prop::sample::select(vec![Lack::Null, Lack::Missing]);
    let leaf = prop_oneof![
        3 => (comparisons(), terms(), terms()).prop_map(|(how, a, b)| Test::Compare(how, a, b)),
        1 => (terms(), terms(), terms())
            .prop_map(|(term, low, high)| Test::Between { term, low, high }),
        1 => (terms(), prop::collection::vec(terms(), 1..4)).prop_map(|(a, b)| Test::In(a, b)),
        1 => (paths(), lack).prop_map(|(path, lack)| Test::Is(path, lack)),
        1 => ("[a-z_]{1,8}f", prop::collection::vec(terms(), 0..3))
            .prop_map(|(name, all)| Test::Call(name, all)),
    ];
    composed(leaf)
}

fn composed(leaf: impl Strategy<Value = Test> + 'static) -> impl Strategy<Value = Test> {
    leaf.prop_recursive(3, 10, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(Test::And),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Test::Or),
            inner.prop_map(|one| Test::Not(Box::new(one))),
        ]
    })
}

fn statements() -> impl Strategy<Value = Statement> {
    let source = (names(), prop::option::of(names()))
        .prop_map(|(table, index)| Source { table, index })
        .boxed();
    let returning = prop::option::of(
        any::<(bool, bool)>().prop_map(|(is_all, is_new)| Returning { is_all, is_new }),
    )
    .boxed();
    let select = (
        prop::option::of(prop::collection::vec(paths(), 1..4)),
        source.clone(),
        prop::option::of(tests()),
        prop::collection::vec((names(), any::<bool>()), 0..3),
    )
        .prop_map(|(columns, source, test, order)| Select { columns, source, test, order })
        .boxed();
    let change = prop_oneof![
        3 => (paths(), sums()).prop_map(|(path, term)| Change::Set(path, term)),
        1 => paths().prop_map(Change::Remove),
    ];
    let update = (
        source.clone(),
        prop::collection::vec(change, 1..4),
        prop::option::of(tests()),
        returning.clone(),
    );
    prop_oneof![
        select.clone().prop_map(Statement::Select),
        select.prop_map(Statement::Exists),
        (source.clone(), prop::collection::btree_map("[a-z']{0,3}", literals(), 0..4)).prop_map(
            |(source, item)| Statement::Insert { source, item: item.into_iter().collect() }
        ),
        update.prop_map(|(source, changes, test, returning)| Statement::Update {
            source,
            changes,
            test,
            returning
        }),
        (source, prop::option::of(tests()), returning)
            .prop_map(|(source, test, returning)| Statement::Delete { source, test, returning }),
    ]
}

/// Conditions that often are of keys.
fn of_keys() -> impl Strategy<Value = Test> {
    let path = |name: &str| Term::Path(Path::attribute(name));
    let (p, c, a) = (path("p"), path("c"), path("a"));
    let number = || (0i64..5).prop_map(|n| Term::Number(Number::of(n)));
    let hash = prop::sample::select(vec!["x", "y", "z"]).prop_map(|it| Term::Text(it.to_owned()));
    let of_hash = {
        let p = p.clone();
        prop::collection::vec(hash, 1..4).prop_map(move |mut all| match all.len() {
            1 => Test::Compare(Comparison::Equal, p.clone(), all.remove(0)),
            _ => Test::In(p.clone(), all),
        })
    };
    let of_number = move |name: Term| {
        let others = name.clone();
        let listed = name.clone();
        prop_oneof![
            4 => (comparisons(), number(), any::<bool>()).prop_map(move |(how, n, mirrored)| {
                match mirrored {
                    false => Test::Compare(how, name.clone(), n),
                    true => Test::Compare(how, n, name.clone()),
                }
            }),
            1 => (0i64..3, 2i64..5).prop_map(move |(low, high)| Test::Between {
                term: others.clone(),
                low: Term::Number(Number::of(low)),
                high: Term::Number(Number::of(high)),
            }),
            1 => prop::collection::vec(number(), 1..4)
                .prop_map(move |all| Test::In(listed.clone(), all)),
        ]
    };
    let leaf = prop_oneof![2 => of_hash.clone(), 3 => of_number(c), 1 => of_number(a)];
    let rest = prop::collection::vec(composed(leaf.boxed()), 1..4);
    (of_hash, rest, any::<bool>()).prop_map(|(hash, mut rest, has_hash)| {
        if has_hash {
            rest.push(hash);
        }
        Test::And(rest)
    })
}

/// All items of a small table.
fn items() -> Vec<Map> {
    let mut all = Vec::new();
    for p in ["x", "y", "z"] {
        for c in 0..5 {
            for a in [None, Some(c + 1)] {
                let mut item = Map::from([
                    ("p".to_owned(), Value::S(p.to_owned())),
                    ("c".to_owned(), Value::N(Number::of(c))),
                ]);
                item.extend(a.map(|a| ("a".to_owned(), Value::N(Number::of(a)))));
                all.push(item);
            }
        }
    }
    all
}

/// Whether a position is between two bounds: all positions are whole keys here.
fn is_within(range: &mutation::page::SendRange, clustering: &[u8]) -> bool {
    let component = |prefix: &[u8]| {
        let parts = model::key::clustering_components(prefix);
        parts.into_iter().next().map(|bytes| Number::decode(bytes).unwrap())
    };
    let at = component(clustering).unwrap();
    let is_after = component(&range.start.0)
        .is_none_or(|start| at > start || at == start && range.start.1 < 0);
    let is_before =
        component(&range.end.0).is_none_or(|end| at < end || at == end && 0 < range.end.1);
    is_after && is_before
}

proptest! {
    #[test]
    fn what_is_printed_is_parsed_to_the_same(given in statements()) {
        let text = given.to_string();
        prop_assume!(text.len() <= BYTES_MAX);
        prop_assert_eq!(parse(&text).map(|(found, _)| found), Ok(given), "{}", text);
    }

    #[test]
    fn foreign_texts_do_not_panic(
        text in "(SELECT|FROM|WHERE|UPDATE|SET|INSERT|INTO|VALUE|DELETE|AND|OR|NOT|IN|IS|NULL|\
                 MISSING|BETWEEN|REMOVE|RETURNING|ORDER|BY|[a-c]|'|\"|[0-9.e+-]{1,3}|\\(|\\)|\\[|\
                 \\]|\\{|\\}|<<|>>|=|<|>|,|\\.|:|\\?|\\*|;|--|/\\*| |\n|\u{e4}|\u{1f600}){0,40}",
        parameters in prop::collection::vec(crate::value::testing::values(), 0..3),
    ) {
        let Ok((statement, _)) = parse(&text) else { return Ok(()) };
        let table = table();
        let meaning = Meaning(&parameters);
        let writing = Writing { table: &table, meaning, wishes: Wishes::default() };
        let _ = match &statement {
            Statement::Insert { item, .. } => writing.insert(item),
            Statement::Update { changes, test, returning, .. } => {
                writing.update(changes, test.as_ref(), *returning)
            }
            Statement::Delete { test, returning, .. } => writing.delete(test.as_ref(), *returning),
            Statement::Select(select) | Statement::Exists(select) => {
                let condition = select.test.as_ref().map(|test| meaning.condition(test));
                if let Some(Ok(condition)) = condition {
                    let _ = reads(&table, conjuncts(Some(condition)));
                }
                writing.check(select.test.as_ref())
            }
        };
    }

    /// *filter-or-range*
    #[test]
    fn ranges_and_filter_let_through_what_the_condition_does(test in of_keys()) {
        let table = table();
        // A condition that has no meaning has none either way.
        let Ok(condition) = Meaning(&[]).condition(&test) else { return Ok(()) };
        let (found, rest) = reads(&table, conjuncts(Some(condition.clone()))).unwrap();
        for item in items() {
            let key = Key::of_item(&table, &item).unwrap();
            let is_read = found.as_ref().is_none_or(|found| {
                found.partitions.contains(&key.partition)
                    && found.ranges.iter().any(|range| is_within(range, &key.clustering))
            });
            let is_admitted =
                rest.iter().all(|part| holds(part, &item).unwrap());
            let expected = holds(&condition, &item).unwrap();
            prop_assert_eq!(is_read && is_admitted, expected, "{} of {:?}", &test, &item);
        }
        let ranges = found.map_or_else(Vec::new, |found| found.ranges);
        for two in ranges.windows(2) {
            prop_assert!(two[0].end.0 != two[1].start.0, "ranges meet: {:?}", two);
        }
    }

    /// *parses-back*, of [`crate::expression::print`].
    #[test]
    fn conditions_are_printed_as_they_are_parsed(test in tests()) {
        let Ok(condition) = Meaning(&[]).condition(&test) else { return Ok(()) };
        let mut printed = Printed::default();
        let text = printed.condition(&condition);
        let mut known = String::new();
        let mut object = Object::open(&mut known);
        object.string("ConditionExpression", &text);
        printed.write(&mut object);
        object.close();
        let programs = crate::expression::Programs::default();
        let known = Request::parse(&known).unwrap().placeholders(&programs);
        let again = known.and_then(|known| {
            let again = crate::expression::condition(&text, "ConditionExpression", &known)?;
            known.check_used()?;
            Ok(again)
        });
        match again {
            Ok(again) => prop_assert_eq!(again, condition),
            // Names may be ones that no attribute has, and a path may be compared with itself.
            Err(error) => {
                let known = ["Empty attribute", "must be distinct from"];
                prop_assert!(known.iter().any(|it| error.message.contains(it)), "{}", error);
            }
        }
    }

    /// *same-as-equal*: an update by its request is the update that the tree means.
    #[test]
    fn updates_do_what_their_trees_mean(
        terms in prop::collection::vec(("[abm]", sums()), 1..3),
        test in tests(),
        is_there: bool,
    ) {
        let table = table();
        let changes: Vec<Change> = terms
            .into_iter()
            .map(|(name, term)| Change::Set(Path::attribute(name), term))
            .collect();
        let key = "\"p\" = 'x' AND \"c\" = 1";
        let Statement::Delete { test: whole, .. } =
            statement(&format!("DELETE FROM ttt WHERE {key} AND ({test})")) else { panic!() };
        let meaning = Meaning(&[]);
        let writing = Writing { table: &table, meaning, wishes: Wishes::default() };
        let (Ok(update), Ok(_)) = (meaning.update(&changes), meaning.condition(&test)) else {
            return Ok(());
        };
        let item = attributes(Json::parse(
            r#"{"p":{"S":"x"},"c":{"N":"1"},"a":{"N":"5"},"b":{"L":[{"S":"a"}]}}"#,
        ).unwrap()).unwrap();
        let before = is_there.then_some(&item);
        let Ok(equal) = writing.update(&changes, whole.as_ref(), None) else { return Ok(()) };
        let request = Request::parse(&equal.parameters).unwrap();
        let programs = crate::expression::Programs::default();
        let write = match Write::of(equal.operation, &request, &table, &programs) {
            Ok(write) => write,
            Err(error) => {
                // A statement may say more than an expression can: be longer, name a path into a
                // key, and compare a path with itself.
                let known = ["exceeded", "must be scalars", "must be distinct from"];
                let is_known = known.iter().any(|it| error.message.contains(it));
                prop_assert!(is_known, "{}: {}", equal.parameters, error);
                return Ok(());
            }
        };
        let (condition, rest) = {
            let parts = conjuncts(Some(meaning.condition(whole.as_ref().unwrap()).unwrap()));
            let (_, rest) = whole_key(&table, parts).unwrap().unwrap();
            (Condition::And(rest.clone()), rest)
        };
        let admitted = is_there && (rest.is_empty() || holds(&condition, &item).unwrap_or(false));
        let expected = admitted.then(|| changed(&update, &item).ok()).flatten();
        let expected = expected.map(|changed| applied(&item, &changed));
        let found = write.decide(before).ok().map(|decision| {
            match &decision.change {
                crate::row::Change::Set { attributes, .. } => applied(&item, attributes),
                _ => item.clone(),
            }
        });
        prop_assert_eq!(
            found.map(|found| attributes_json(&found)),
            expected.map(|expected| attributes_json(&expected))
        );
    }
}
