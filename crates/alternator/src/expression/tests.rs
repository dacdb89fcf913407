use super::*;
use crate::evaluate::holds;
use crate::json::Json;
use crate::update::{applied, changed};
use crate::value::{Map, attributes, attributes_json, value};
use proptest::prelude::*;

fn json(text: &str) -> Json<'_> {
    Json::parse(text).unwrap()
}

fn item(text: &str) -> Map {
    attributes(json(text)).unwrap()
}

const NAMES: &str = r##"{"#a":"a","#dot":"x.y"}"##;
const VALUES: &str = r#"{":one":{"N":"1"},":two":{"N":"2"},":s":{"S":"dog"},":l":{"L":[{"S":"z"}]},
    ":set":{"SS":["a","b"]},":t":{"S":"S"},":bad":{"S":"DOG"},":true":{"BOOL":true},
    ":three":{"N":"3"}}"#;

fn apply(update: &Update, before: &Map) -> Result<Map, crate::error::Error> {
    Ok(applied(before, &changed(update, before)?))
}

fn known() -> Placeholders<'static> {
    Placeholders::of(Some(json(NAMES)), Some(json(VALUES)), true).unwrap()
}

const ITEM: &str = r#"{"p":{"S":"key"},"a":{"N":"1"},"s":{"S":"doghouse"},"x.y":{"S":"dot"},
    "l":{"L":[{"N":"10"},{"N":"20"},{"N":"30"}]},"m":{"M":{"b":{"S":"c"},"n":{"L":[{"S":"d"}]}}},
    "set":{"SS":["a","b","c"]},"wide":{"S":"\u00e9\ud834\udd1e"}}"#;

#[test]
fn conditions_hold_or_not() {
    let check = |text: &str, expected: bool| {
        let condition = condition(text, "ConditionExpression", &known()).unwrap();
        assert_eq!(holds(&condition, &item(ITEM)).unwrap(), expected, "{text}");
    };
    check("a = :one", true);
    check("#a < :two AND NOT a <> :one", true);
    check("#dot = :s", false);
    check("a = :two or (s = :s or begins_with(s, :s))", true);
    check("l[1] > l[0] and l[7] <> l[0]", true);
    check("m.n[0] = m.b", false);
    check("q < :one", false);
    check(":one <= q", false);
    check("q = z", false);
    check("q <> z", true);
    check("a between :one and :two", true);
    check("a in (:two, :s, :one)", true);
    check("attribute_exists(m.b) and attribute_not_exists(m.c)", true);
    check("attribute_type(s, :t)", true);
    check("contains(set, m.b)", true);
    check("contains(s, :s)", true);
    check("size(l) > :two", true);
    check("size(l) = size(l)", true);
    check("size(a) > :one", false);
    check("size(wide) = :three", true);
    check("a = :s", false);
    check("a < :s", false);
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let check = |text: &str, expected: &str| {
        let found = condition(text, "FilterExpression", &known()).unwrap_err().message;
        assert!(found.contains("FilterExpression") && found.contains(expected), "{text}: {found}");
    };
    check("", "empty");
    check("a", "Syntax error");
    check("a = ", "Syntax error");
    check("a IN ()", "Syntax error");
    check("a = :one :two", "Syntax error");
    check("a = !", "Syntax error");
    check("a < :l", "operand type");
    check("a BETWEEN :two AND :one", "BETWEEN");
    check("a BETWEEN :s AND :one", "BETWEEN");
    check("a = :nothing", ":nothing");
    check("#nothing = :one", "#nothing");
    check("attribute_exists(:one)", "path");
    check("attribute_type(a, :bad)", "DOG");
    check("begins_with(a, :one)", "operand type");
    check("size(a, s) > :one", "number of operands: 2");
    check("size(size(a)) > :one", "not allowed");
    check("dog(a)", "function");
    check("if_not_exists(a, a) = :one", "not allowed");
    check("((a = :one))", "redundant parentheses");
    check("a = a", "distinct");
    check("a IN (:one, a)", "operator: IN, first operand: [a]");
    check("a.b BETWEEN c AND a.b", "operator: BETWEEN, first operand: [a, b]");
    check(&"a = :one AND ".repeat(400), "size");
    check(&("NOT ".repeat(250) + "a = :one"), "nested");
    check(&("a[0]".to_owned() + &".b".repeat(40) + " = :one"), "nesting");
}

#[test]
fn updates_change_what_they_name() {
    let check = |text: &str, expected: &str| {
        let update = update(text, "UpdateExpression", &known()).unwrap();
        let selection = Selection::of_names(update.paths().map(|path| path.root.clone()));
        let after = selection.of_item(&apply(&update, &item(ITEM)).unwrap());
        assert_eq!(attributes_json(&after), attributes_json(&item(expected)), "{text}");
    };
    check("SET a = :two", r#"{"a":{"N":"2"}}"#);
    check("set a = a + :two, b = :two - :one", r#"{"a":{"N":"3"},"b":{"N":"1"}}"#);
    check("SET a = l[0], q = if_not_exists(q, a)", r#"{"a":{"N":"10"},"q":{"N":"1"}}"#);
    let list = |inner: &str| format!(r#"{{"l":{{"L":[{inner}]}}}}"#);
    check("REMOVE l[0], l[2]", &list(r#"{"N":"20"}"#));
    check("REMOVE l[7]", &list(r#"{"N":"10"},{"N":"20"},{"N":"30"}"#));
    check("SET l[9] = :s", &list(r#"{"N":"10"},{"N":"20"},{"N":"30"},{"S":"dog"}"#));
    check("SET l = list_append(:l, :l)", &list(r#"{"S":"z"},{"S":"z"}"#));
    check("SET l = list_append(if_not_exists(q, :l), :l)", &list(r#"{"S":"z"},{"S":"z"}"#));
    check("SET q = if_not_exists(z, if_not_exists(a, :two))", r#"{"q":{"N":"1"}}"#);
    check("ADD a :two, n :one", r#"{"a":{"N":"3"},"n":{"N":"1"}}"#);
    check("DELETE m.q :set, q :set", r#"{"m":{"M":{"b":{"S":"c"},"n":{"L":[{"S":"d"}]}}}}"#);
    check("DELETE set :set", r#"{"set":{"SS":["c"]}}"#);
    check("SET m.b = :one REMOVE m.n", r#"{"m":{"M":{"b":{"N":"1"}}}}"#);
    check("SET s = (a + (:one))", r#"{"s":{"N":"2"}}"#);
}

#[test]
fn updates_that_cannot_be_made_are_refused() {
    let check = |text: &str, expected: &str| {
        let made = update(text, "UpdateExpression", &known());
        let found = made.and_then(|update| apply(&update, &item(ITEM))).unwrap_err().message;
        assert!(found.contains(expected), "{text}: {found}");
    };
    check("SET a = :one SET b = :one", "only be used once");
    check("SET a = :one, a.b = :two", "overlap");
    check("SET m.b = :one, m[1] = :two", "conflict");
    check("SET l[0] = :one REMOVE l[0]", "overlap");
    check("SET m.q.r = :one", "invalid for update");
    check("REMOVE q.r", "invalid for update");
    check("DELETE q.r :set", "invalid for update");
    check("DELETE l[0].r :set", "invalid for update");
    check("SET a = q", "does not exist");
    check("SET a = s + :one", "type");
    check("ADD s :one", "type");
    check("ADD a :s", "operand type");
    check("DELETE a :set", "type");
    check("NONSENSE a", "Syntax error");
    check("SET a = :one,", "Syntax error");
    check("SET a = size(l)", "not allowed");
    check("SET a = list_append(list_append(l, :l), :l)", "not allowed");
    check("SET a = if_not_exists(q, list_append(l, :l))", "function: list_append");
    check("SET a = if_not_exists(a, a)", "distinct");
    check("SET a = a + list_append(l, l)", "not allowed");
}

#[test]
fn projections_are_parts_of_items() {
    let check = |text: &str, expected: &str| {
        let selection = projection(text, "ProjectionExpression", &known()).unwrap();
        assert_eq!(attributes_json(&selection.of_item(&item(ITEM))), expected, "{text}");
    };
    check("a, q", r#"{"a":{"N":"1"}}"#);
    check("l[2], l[0], l[9]", r#"{"l":{"L":[{"N":"10"},{"N":"30"}]}}"#);
    check("m.n[0], a.b", r#"{"m":{"M":{"n":{"L":[{"S":"d"}]}}}}"#);
    for text in ["a, a", "a.b, a", "a[0], a.b", "m.n, m.n[0]", "a,", "", "a b", "a = :one"] {
        assert!(projection(text, "ProjectionExpression", &known()).is_err(), "{text}");
    }
}

#[test]
fn placeholders_are_all_used() {
    let known = known();
    condition("#a = :one", "ConditionExpression", &known).unwrap();
    let found = known.check_used().unwrap_err().message;
    assert!(found.contains("unused") && found.contains("#dot"), "{found}");
    let of = |names: &str, has| Placeholders::of(Some(json(names)), None, has).unwrap_err().message;
    assert!(of("{}", true).contains("must not be empty"));
    assert!(of(NAMES, false).contains("can only be specified"));
    assert!(of(r#"{"a":"a"}"#, true).contains("invalid key"));
    assert_eq!(value(r#"{"N":"1.0"}"#), value(r#"{"N":"1"}"#));
}

proptest! {
    #[test]
    fn foreign_texts_do_not_panic(
        text in "[a-c #:.,()\\[\\]<>=+0-9-]{0,60}\
                 |(a|NOT|AND|OR|IN|BETWEEN|SET|ADD|:one|\\(|\\)|,|=| ){0,40}",
    ) {
        let known = known();
        if let Ok(condition) = condition(&text, "ConditionExpression", &known) {
            let _ = holds(&condition, &item(ITEM));
        }
        if let Ok(update) = update(&text, "UpdateExpression", &known) {
            let _ = apply(&update, &item(ITEM));
        }
        let _ = projection(&text, "ProjectionExpression", &known);
    }

    #[test]
    fn a_text_means_the_same_the_second_time(text in texts()) {
        let programs = Programs::default();
        programs.keep(2);
        let once = known().in_texts_of(&programs);
        for _ in 0..2 {
            prop_assert_eq!(condition(&text, "x", &once), condition(&text, "x", &known()));
            prop_assert_eq!(update(&text, "x", &once), update(&text, "x", &known()));
            prop_assert_eq!(projection(&text, "x", &once), projection(&text, "x", &known()));
        }
        let hits: u64 = programs.asked().map(|(_, hits, _)| hits).sum();
        prop_assert_eq!(hits, programs.len() as u64, "what says nothing is not kept");
    }
}

proptest! {
    /// Whatever the roots are called, and however many placeholders stand for their values, in
    /// whatever order: two paths of one root are refused, and each has the value that it names.
    #[test]
    fn updates_give_each_attribute_the_value_that_it_names(
        sets in prop::collection::vec(("[a-c]{1,2}[x-z]", 0usize..20), 1..20),
    ) {
        let mut used: Vec<usize> = sets.iter().map(|(_, value)| *value).collect();
        used.sort_unstable();
        used.dedup();
        // Most in order, some not.
        let first = sets.len() % 3 % used.len();
        used.rotate_left(first);
        let given = |n: &usize| format!("\":v{n}\":{{\"N\":\"{n}\"}}");
        let values: Vec<_> = used.iter().map(given).collect();
        let values = format!("{{{}}}", values.join(","));
        let known = Placeholders::of(None, Some(json(&values)), true).unwrap();
        let set = |(root, value): &(String, usize)| format!("{root} = :v{value}");
        let texts: Vec<_> = sets.iter().map(set).collect();
        let made = update(&format!("SET {}", texts.join(", ")), "UpdateExpression", &known);
        let mut roots: Vec<_> = sets.iter().map(|(root, _)| root).collect();
        roots.sort_unstable();
        let is_twice = roots.windows(2).any(|pair| pair[0] == pair[1]);
        prop_assert_eq!(made.is_err(), is_twice);
        if let Ok(made) = made {
            prop_assert!(known.check_used().is_ok());
            let after = apply(&made, &Map::new()).unwrap();
            for (root, number) in &sets {
                let expected = value(&format!("{{\"N\":\"{number}\"}}"));
                prop_assert_eq!(after.get(root), Some(&expected));
            }
        }
    }
}

/// Texts of which many mean something.
fn texts() -> impl Strategy<Value = String> {
    let path =
        prop_oneof!["[a-c]", Just("#a".into()), Just("m.#dot[1]".into()), Just("l[0]".into())];
    let value = prop_oneof![Just(":one"), Just(":two"), Just(":s"), Just(":l"), Just(":set")];
    let operand = prop_oneof![
        path.clone(),
        value.clone().prop_map(str::to_owned),
        path.clone().prop_map(|path: String| format!("size({path})"))
    ];
    let how = prop_oneof![Just("="), Just("<"), Just("<>"), Just(">=")];
    let simple = prop_oneof![
        (operand.clone(), how, operand.clone()).prop_map(|(a, how, b)| format!("{a} {how} {b}")),
        (operand.clone(), operand.clone()).prop_map(|(a, b)| format!("{a} IN ({b}, {a}, :one)")),
        (operand.clone(), operand).prop_map(|(a, b)| format!("{a} BETWEEN {b} AND :two")),
        path.clone().prop_map(|path| format!("attribute_exists({path})")),
        path.clone().prop_map(|path| format!("begins_with({path}, :s)")),
    ];
    let conditions = simple.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} AND {b}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} OR {b})")),
            inner.prop_map(|inner| format!("NOT {inner}")),
        ]
    });
    let given = prop_oneof![
        value.clone().prop_map(str::to_owned),
        (path.clone(), value.clone()).prop_map(|(a, b)| format!("if_not_exists({a}, {b}) + :one")),
        path.clone().prop_map(|path| format!("list_append({path}, :l)")),
        path.clone().prop_map(|path| format!("({path} - :two)")),
    ];
    let sets = prop::collection::vec((path.clone(), given), 1..4).prop_map(|sets| {
        let sets: Vec<String> = sets.iter().map(|(path, it)| format!("{path} = {it}")).collect();
        format!("SET {}", sets.join(", "))
    });
    let updates = prop_oneof![
        sets.clone(),
        (sets, path.clone()).prop_map(|(sets, path)| format!("{sets} REMOVE {path}")),
        (path.clone(), value).prop_map(|(path, it)| format!("ADD {path} {it} DELETE b :set")),
    ];
    let projections = prop::collection::vec(path, 1..4).prop_map(|paths| paths.join(", "));
    prop_oneof![conditions, updates, projections]
}
