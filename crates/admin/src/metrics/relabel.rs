//! Rules by which an operator changes the labels of samples and says which are shown.
//!
//! A rule looks at the values of its source labels, joined by its separator; where its pattern is
//! found in them, it acts. A sample without one of the labels is none of its business. All rules
//! see each sample, in their order: what a later one says of it counts.
//!
//! Invariants
//!  - *still-apart*: of samples of a shard that rules make the same, the first is shown so; others
//!    keep their own labels, or are not shown where those are taken.
//!  - *shard-stays*: what tells the shards apart is no rule's target.

use regex_lite::{Regex, RegexBuilder};
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Rules at most, and characters of each of their texts.
const RULES_MAX: usize = 64;
const TEXT_CHARS_MAX: usize = 1024;
/// What a pattern may take.
const PATTERN_BYTES_MAX: usize = 64 << 10;
/// The source label that is the name of the family, without the prefix.
const NAME: &str = "__name__";
/// Labels that are nobody's target: *shard-stays*, and those of the lines of a histogram.
const FIXED: [&str; 3] = ["shard", "le", "quantile"];
/// What a rule may say.
const KEYS: [&str; 6] =
    ["source_labels", "action", "target_label", "replacement", "regex", "separator"];

/// What a rule does with samples that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// The target label has the replacement as its value; without one it is removed.
    Replace,
    /// They are shown.
    Keep,
    /// They are not shown.
    Drop,
    /// The target label is removed.
    DropLabel,
    /// They are not shown while there is nothing to tell: a value of 0.
    SkipWhenEmpty,
    /// They are shown then, too.
    ReportWhenEmpty,
}

impl Action {
    const ALL: [(&str, Action); 6] = [
        ("replace", Action::Replace),
        ("keep", Action::Keep),
        ("drop", Action::Drop),
        ("drop_label", Action::DropLabel),
        ("skip_when_empty", Action::SkipWhenEmpty),
        ("report_when_empty", Action::ReportWhenEmpty),
    ];

    fn name(self) -> &'static str {
        let found = Action::ALL.iter().find(|(_, action)| *action == self);
        found.map_or("", |(name, _)| name)
    }
}

#[derive(Clone, Debug)]
struct Rule {
    source_labels: Vec<String>,
    separator: String,
    regex: Regex,
    action: Action,
    target_label: String,
    replacement: String,
}

/// The rules of a node.
#[derive(Clone, Debug, Default)]
pub struct Rules(Vec<Rule>);

/// What becomes of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fate {
    pub(super) is_shown: bool,
    pub(super) when_empty: bool,
}

/// A label and its value.
pub(super) type Label = (String, String);

impl Rules {
    /// Of a list of rules as JSON or YAML has them. The error says what is wrong with which.
    pub fn parse(list: &Value) -> Result<Rules, String> {
        let list = match list {
            Value::Null => return Ok(Rules::default()),
            Value::Array(list) if list.len() <= RULES_MAX => list,
            Value::Array(list) => return Err(format!("{} rules: {RULES_MAX} at most", list.len())),
            _ => return Err("not a list of rules".to_owned()),
        };
        let numbered = (1..).zip(list);
        let rules = numbered.map(|(number, rule)| {
            Rule::parse(rule).map_err(|why| format!("relabel_configs: rule {number}: {why}"))
        });
        Ok(Rules(rules.collect::<Result<_, _>>()?))
    }

    /// What a file holds: `relabel_configs`, a list of rules, and nothing else.
    pub fn parse_file(content: &Value) -> Result<Rules, String> {
        let entries = match content {
            Value::Null => return Ok(Rules::default()),
            Value::Object(entries) => entries,
            _ => return Err("it does not hold `relabel_configs:`".to_owned()),
        };
        match entries.keys().find(|key| *key != "relabel_configs") {
            Some(key) => Err(format!("unknown entry {key}: relabel_configs is expected")),
            None => Rules::parse(entries.get("relabel_configs").unwrap_or(&Value::Null)),
        }
    }

    /// As they were given, with what holds where nothing was.
    pub(crate) fn shown(&self) -> Value {
        self.0.iter().map(Rule::shown).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether some samples may have that label by them.
    pub(super) fn make(&self, label: &str) -> bool {
        self.0.iter().any(|rule| rule.action == Action::Replace && rule.target_label == label)
    }

    /// Changes the labels of a sample.
    pub(super) fn apply(&self, name: &str, labels: &mut Vec<Label>) -> Fate {
        let mut fate = Fate { is_shown: true, when_empty: true };
        for rule in &self.0 {
            rule.apply(name, labels, &mut fate);
        }
        fate
    }
}

impl Rule {
    fn parse(rule: &Value) -> Result<Rule, String> {
        let Value::Object(entries) = rule else { return Err("not a map".to_owned()) };
        if let Some(key) = entries.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(format!("unknown entry {key}: these are known: {}", KEYS.join(", ")));
        }
        let source_labels = match entries.get("source_labels") {
            Some(Value::Array(names)) if !names.is_empty() => {
                names.iter().map(|name| bounded("source_labels", name)).collect::<Result<_, _>>()?
            }
            _ => return Err("source_labels: a list of labels is expected".to_owned()),
        };
        let action = text(entries, "action", "replace")?;
        let known = Action::ALL.iter().find(|(name, _)| *name == action);
        let Some((_, action)) = known else {
            let names = Action::ALL.map(|(name, _)| name).join(", ");
            return Err(format!("unknown action {action}: these are known: {names}"));
        };
        let target_label = text(entries, "target_label", "")?;
        if matches!(action, Action::Replace | Action::DropLabel) {
            check_target(&target_label)?;
        }
        let pattern = text(entries, "regex", "(.*)")?;
        let regex = RegexBuilder::new(&pattern).size_limit(PATTERN_BYTES_MAX).build();
        Ok(Rule {
            source_labels,
            separator: text(entries, "separator", ";")?,
            regex: regex.map_err(|error| format!("regex: {pattern}: {error}"))?,
            action: *action,
            target_label,
            replacement: text(entries, "replacement", "${1}")?,
        })
    }

    fn shown(&self) -> Value {
        json!({
            "source_labels": self.source_labels,
            "separator": self.separator,
            "regex": self.regex.as_str(),
            "action": self.action.name(),
            "target_label": self.target_label,
            "replacement": self.replacement,
        })
    }

    fn apply(&self, name: &str, labels: &mut Vec<Label>, fate: &mut Fate) {
        let value_of = |wanted: &str| match wanted {
            NAME => Some(name),
            _ => labels.iter().find(|(label, _)| label == wanted).map(|(_, value)| &value[..]),
        };
        let values: Option<Vec<&str>> =
            self.source_labels.iter().map(|label| value_of(label)).collect();
        let Some(joined) = values.map(|values| values.join(&self.separator)) else { return };
        let Some(found) = self.regex.captures(&joined) else { return };
        match self.action {
            Action::Keep => fate.is_shown = true,
            Action::Drop => fate.is_shown = false,
            Action::SkipWhenEmpty => fate.when_empty = false,
            Action::ReportWhenEmpty => fate.when_empty = true,
            Action::DropLabel => labels.retain(|(label, _)| *label != self.target_label),
            Action::Replace => {
                let mut value = String::new();
                found.expand(&braced(&self.replacement), &mut value);
                let known = labels.iter().position(|(label, _)| *label == self.target_label);
                match (known, value.is_empty()) {
                    (Some(at), true) => drop(labels.remove(at)),
                    (Some(at), false) => labels[at].1 = value,
                    (None, true) => {}
                    (None, false) => labels.push((self.target_label.clone(), value)),
                }
            }
        }
    }
}

/// `$1` as `${1}`: the name of a group ends with its digits, whatever follows.
fn braced(replacement: &str) -> String {
    let mut out = String::with_capacity(replacement.len() + 8);
    let mut rest = replacement;
    while let Some(at) = rest.find('$') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        out.push_str(before);
        match digits {
            0 => out.push('$'),
            _ => out.extend(["${", &after[..digits], "}"]),
        }
        rest = &after[digits..];
    }
    out + rest
}

fn text(entries: &Map<String, Value>, key: &str, default: &str) -> Result<String, String> {
    entries.get(key).map_or(Ok(default.to_owned()), |value| bounded(key, value))
}

fn bounded(key: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) if TEXT_CHARS_MAX < text.len() => {
            Err(format!("{key}: more than {TEXT_CHARS_MAX} characters"))
        }
        Value::String(text) => Ok(text.clone()),
        // As YAML reads what looks like one.
        Value::Number(number) => Ok(number.to_string()),
        _ => Err(format!("{key}: a text is expected")),
    }
}

/// A label that the format takes and that a rule may change.
fn check_target(label: &str) -> Result<(), String> {
    let is_name = !label.starts_with(|c: char| c.is_ascii_digit())
        && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match label {
        "" => Err("target_label: the action needs one".to_owned()),
        _ if FIXED.contains(&label) || label.starts_with("__") => {
            Err(format!("target_label: {label} is not to be changed"))
        }
        _ if !is_name => Err(format!("target_label: {label} is no name of a label")),
        _ => Ok(()),
    }
}

/// The rules that hold now. Lives in `runtime::local` of shard 0.
#[derive(Debug, Default)]
pub struct Relabelling(RefCell<Arc<Rules>>);

impl Relabelling {
    pub fn of_shard() -> Rc<Relabelling> {
        runtime::local::get_or_default::<Relabelling>()
    }

    /// These hold from now on.
    pub fn set(&self, rules: Rules) {
        self.0.replace(Arc::new(rules));
    }

    /// Those that hold now.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        self.0.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(rules: Value, name: &str, labels: &[(&str, &str)]) -> String {
        let rules = Rules::parse(&rules).expect("rules");
        let mut labels: Vec<Label> =
            labels.iter().map(|(label, value)| (label.to_string(), value.to_string())).collect();
        let fate = rules.apply(name, &mut labels);
        let shown: Vec<String> = labels.iter().map(|(label, it)| format!("{label}={it}")).collect();
        let fate = match fate {
            Fate { is_shown: false, .. } => " dropped",
            Fate { when_empty: false, .. } => " unless empty",
            _ => "",
        };
        shown.join(" ") + fate
    }

    #[test]
    fn rules_act_in_their_order() {
        let labels = [("shard", "3"), ("ks", "k"), ("cf", "t")];
        let check = |rules: Value, expected: &str| {
            assert_eq!(applied(rules, "column_family_reads", &labels), expected);
        };
        check(json!([]), "shard=3 ks=k cf=t");
        let of = |action: &str, regex: &str| {
            let mut rule = json!({ "source_labels": ["ks", "cf"] });
            (rule["action"], rule["regex"]) = (json!(action), json!(regex));
            rule
        };
        check(json!([of("drop", "(.+)")]), "shard=3 ks=k cf=t dropped");
        check(json!([of("drop", ".+"), of("keep", "k;t")]), "shard=3 ks=k cf=t");
        check(json!([of("drop", "k;x")]), "shard=3 ks=k cf=t");
        check(json!([of("skip_when_empty", "k;t")]), "shard=3 ks=k cf=t unless empty");
        let both = json!([of("skip_when_empty", "k"), of("report_when_empty", "t")]);
        check(both, "shard=3 ks=k cf=t");
        let rule = |rule: Value| json!([rule]);
        check(
            rule(json!({ "source_labels": ["shard"], "target_label": "level", "regex": "(.*3)",
                "replacement": "$1x" })),
            "shard=3 ks=k cf=t level=3x",
        );
        check(
            rule(json!({ "source_labels": ["ks", "cf"], "target_label": "ks", "separator": ".",
                "replacement": "<${1}>" })),
            "shard=3 ks=<k.t> cf=t",
        );
        check(
            rule(json!({ "source_labels": ["ks"], "target_label": "cf", "replacement": "" })),
            "shard=3 ks=k",
        );
        check(
            rule(json!({ "source_labels": ["__name__"], "regex": "^column_family_",
                "action": "drop_label", "target_label": "cf" })),
            "shard=3 ks=k",
        );
        // A sample without the label is not meant.
        check(rule(json!({ "source_labels": ["class"], "action": "drop" })), "shard=3 ks=k cf=t");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let check = |rule: Value, expected: &str| {
            let why = Rules::parse(&json!([rule])).expect_err("refused");
            assert!(why.contains(expected), "{why}");
        };
        let of = |key: &str, value: Value| {
            let mut rule = json!({ "source_labels": ["ks"], "target_label": "x" });
            rule[key] = value;
            rule
        };
        check(json!("x"), "rule 1: not a map");
        check(json!({}), "source_labels: a list of labels is expected");
        check(of("source_labels", json!([])), "source_labels: a list of labels is expected");
        check(of("source_labels", json!([[]])), "source_labels: a text is expected");
        check(of("sources", json!(["ks"])), "unknown entry sources");
        check(of("action", json!("labelmap")), "unknown action labelmap");
        check(of("regex", json!("(")), "regex: (");
        check(of("regex", json!("(a{1000}){1000}")), "regex: (a{1000}){1000}");
        check(of("regex", json!("x".repeat(1025))), "regex: more than 1024 characters");
        check(of("replacement", json!(true)), "replacement: a text is expected");
        for label in ["shard", "le", "quantile", "__name__"] {
            check(of("target_label", json!(label)), "is not to be changed");
        }
        check(of("target_label", json!("a-b")), "a-b is no name of a label");
        check(of("target_label", json!("")), "the action needs one");
        let many = vec![of("action", json!("keep")); RULES_MAX + 1];
        assert!(Rules::parse(&json!(many)).is_err());
        assert!(Rules::parse(&json!({})).is_err());
    }

    #[test]
    fn files_hold_rules() {
        let check = |content: Value, expected: Result<usize, &str>| {
            let found = Rules::parse_file(&content);
            match (found, expected) {
                (Ok(rules), Ok(count)) => assert_eq!(rules.0.len(), count),
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
                (found, expected) => panic!("{found:?}, not {expected:?}"),
            }
        };
        let rule = json!({ "source_labels": ["ks"], "action": "drop", "regex": 2 });
        check(Value::Null, Ok(0));
        check(json!({ "relabel_configs": [rule, rule] }), Ok(2));
        check(json!({ "relabel_configs": null }), Ok(0));
        check(json!([rule]), Err("does not hold"));
        check(json!({ "metric_family_configs": [] }), Err("unknown entry metric_family_configs"));
    }

    #[test]
    fn rules_are_shown_as_they_are_read() {
        let rule = json!({ "source_labels": ["ks", "cf"], "separator": "/", "regex": "a|b",
            "action": "drop_label", "target_label": "cf", "replacement": "r" });
        let rules = Rules::parse(&json!([rule])).expect("rules");
        assert_eq!(rules.shown(), json!([rule]));
        let again = Rules::parse(&rules.shown()).expect("rules");
        assert_eq!(again.shown(), rules.shown());
    }

    #[test]
    fn groups_end_with_their_digits() {
        let check = |text: &str, expected: &str| assert_eq!(braced(text), expected);
        check("", "");
        check("a$1b$22", "a${1}b${22}");
        check("${1}$name$$", "${1}$name$$");
        check("\u{e9}$1\u{e9}", "\u{e9}${1}\u{e9}");
    }
}
