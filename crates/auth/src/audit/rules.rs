//! Rules of what is written down: of which kinds of statements, on which tables, by whom, and
//! where to. Pure.
//!
//! Invariants
//!  - *all-three*: a rule holds of what its kinds, its tables and its roles have. An empty list has
//!    nothing; what is about no keyspace, or of a kind that is about no table, is of any table.

use super::Category;
use super::pattern::Pattern;
use model::value::json::{self, Json};
use std::ops::{BitAnd, BitOr};

/// How many rules there may be, and patterns of one.
const RULES_MAX: usize = 1000;
const PATTERNS_MAX: usize = 1000;

/// Places where events are written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sinks(u8);

impl Sinks {
    pub const NONE: Sinks = Sinks(0);
    pub const TABLE: Sinks = Sinks(1);
    pub const SYSLOG: Sinks = Sinks(2);
    /// Each alone.
    pub const EACH: [Sinks; 2] = [Sinks::TABLE, Sinks::SYSLOG];

    /// As options have it; of one.
    pub fn name(self) -> &'static str {
        debug_assert!(Sinks::EACH.contains(&self), "a name of several sinks: {self:?}");
        if self == Sinks::TABLE { "table" } else { "syslog" }
    }

    pub fn is_empty(self) -> bool {
        self == Sinks::NONE
    }

    /// Those that `other` has not.
    pub fn without(self, other: Sinks) -> Sinks {
        Sinks(self.0 & !other.0)
    }

    /// Each of them, alone.
    pub fn each(self) -> impl Iterator<Item = Sinks> {
        Sinks::EACH.into_iter().filter(move |one| !(self & *one).is_empty())
    }
}

impl BitOr for Sinks {
    type Output = Sinks;
    fn bitor(self, other: Sinks) -> Sinks {
        Sinks(self.0 | other.0)
    }
}

impl BitAnd for Sinks {
    type Output = Sinks;
    fn bitand(self, other: Sinks) -> Sinks {
        Sinks(self.0 & other.0)
    }
}

/// What a statement is about, and whose it is. Names are empty where there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject<'s> {
    pub category: Category,
    pub keyspace: &'s str,
    pub table: &'s str,
    pub role: &'s str,
}

/// The rules of the option `audit_rules`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    all: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    sinks: Sinks,
    /// Bits.
    categories: u8,
    tables: Vec<Pattern>,
    roles: Vec<Pattern>,
}

/// What a rule has.
const SINKS: &str = "sinks";
const CATEGORIES: &str = "categories";
const TABLES: &str = "qualified_table_names";
const ROLES: &str = "roles";
const MEMBERS: [&str; 4] = [SINKS, CATEGORIES, TABLES, ROLES];

impl Rules {
    /// Those of a text of JSON, a list of rules; an empty text has none. The error names the rule.
    pub fn of(text: &str) -> Result<Rules, String> {
        if text.trim().is_empty() {
            return Ok(Rules::default());
        }
        let Json::List(list) = json::parse(text)? else {
            return Err("it is no list of rules".to_owned());
        };
        if RULES_MAX < list.len() {
            return Err(format!("{} rules, {RULES_MAX} at most", list.len()));
        }
        let numbered = list.iter().enumerate();
        let rule = |(at, json)| Rule::of(json).map_err(|why| format!("rule {}: {why}", at + 1));
        Ok(Rules { all: numbered.map(rule).collect::<Result<_, _>>()? })
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether anything of that kind may be written down.
    pub fn has(&self, category: Category) -> bool {
        self.all.iter().any(|rule| rule.categories & category.bit() != 0)
    }

    /// Where a statement is written down.
    pub fn sinks(&self, subject: &Subject<'_>) -> Sinks {
        let mut name = None;
        let mut found = Sinks::NONE;
        for rule in self.all.iter().filter(|rule| rule.categories & subject.category.bit() != 0) {
            if rule.sinks.without(found).is_empty() {
                continue;
            }
            let name = name.get_or_insert_with(|| subject.qualified_name());
            if rule.holds(name.as_deref(), subject.role) {
                found = found | rule.sinks;
            }
        }
        found
    }

    /// The rules that name a sink which is none of `known`, each with it, and counted from 1.
    pub fn beyond(&self, known: Sinks) -> impl Iterator<Item = (usize, Sinks)> {
        let numbered = self.all.iter().enumerate();
        numbered.flat_map(move |(at, rule)| {
            rule.sinks.without(known).each().map(move |sink| (at + 1, sink))
        })
    }
}

impl Subject<'_> {
    /// What patterns of tables are compared with; `None`: it is of any table.
    fn qualified_name(&self) -> Option<String> {
        let is_of_none = self.keyspace.is_empty() || self.category.is_of_no_table();
        (!is_of_none).then(|| format!("{}.{}", self.keyspace, self.table))
    }
}

impl Rule {
    fn of(json: &Json) -> Result<Rule, String> {
        let Json::Object(members) = json else { return Err("it is no object".to_owned()) };
        if let Some((name, _)) = members.iter().find(|(name, _)| !MEMBERS.contains(&&**name)) {
            return Err(format!("{name} is none of {}", MEMBERS.join(", ")));
        }
        let mut sinks = Sinks::NONE;
        for name in texts(members, SINKS)? {
            let known = Sinks::EACH.into_iter().find(|sink| sink.name() == name);
            sinks =
                sinks | known.ok_or_else(|| format!("{SINKS}: {name} is none of table, syslog"))?;
        }
        if sinks.is_empty() {
            return Err(format!("{SINKS} is empty"));
        }
        let mut categories = 0;
        for name in texts(members, CATEGORIES)? {
            let known = Category::by_name(name).map_err(|why| format!("{CATEGORIES}: {why}"))?;
            categories |= known.bit();
        }
        let patterns = |member: &str| {
            let texts = texts(members, member)?;
            if PATTERNS_MAX < texts.len() {
                return Err(format!("{member} has {} patterns, not {PATTERNS_MAX}", texts.len()));
            }
            let all = texts.into_iter().map(Pattern::of);
            all.collect::<Result<Vec<_>, _>>().map_err(|why| format!("{member}: {why}"))
        };
        Ok(Rule { sinks, categories, tables: patterns(TABLES)?, roles: patterns(ROLES)? })
    }

    /// Of what has its kind. (*all-three*) `name`: of the table.
    fn holds(&self, name: Option<&str>, role: &str) -> bool {
        let has = |all: &[Pattern], name: &str| all.iter().any(|pattern| pattern.matches(name));
        name.is_none_or(|name| has(&self.tables, name)) && has(&self.roles, role)
    }
}

/// A member that is a list of texts.
fn texts<'j>(members: &'j [(String, Json)], name: &str) -> Result<Vec<&'j str>, String> {
    let member = members.iter().find(|(known, _)| known == name);
    let (_, json) = member.ok_or_else(|| format!("{name} is missing"))?;
    let Json::List(list) = json else { return Err(format!("{name} is no list")) };
    let text = |json: &'j Json| match json {
        Json::String(text) => Ok(text.as_str()),
        other => Err(format!("{name}: {other} is no text")),
    };
    list.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rule(sinks: &str, categories: &str, tables: &str, roles: &str) -> String {
        let list = |text: &str| {
            let items = text.split_whitespace().map(|item| format!("\"{item}\""));
            format!("[{}]", items.collect::<Vec<_>>().join(","))
        };
        format!(
            "{{\"sinks\":{},\"categories\":{},\"qualified_table_names\":{},\"roles\":{}}}",
            list(sinks),
            list(categories),
            list(tables),
            list(roles)
        )
    }

    fn rules(all: &[String]) -> Rules {
        Rules::of(&format!("[{}]", all.join(","))).expect("rules")
    }

    /// *all-three*
    #[test]
    fn a_rule_holds_where_all_of_it_does() {
        let rules = rules(&[
            rule("table", "DML QUERY", "ks.t1 logs.*", "admin_*"),
            rule("syslog", "DML AUTH", "*.*", "@(root|admin_a)"),
            rule("table syslog", "DCL", "", "*"),
            rule("table", "DDL", "", "*"),
            rule("table", "ADMIN", "*", ""),
        ]);
        let check = |category, (keyspace, table): (&str, &str), role: &str, expected: Sinks| {
            let subject = Subject { category, keyspace, table, role };
            assert_eq!(rules.sinks(&subject), expected, "{subject:?}");
        };
        let both = Sinks::TABLE | Sinks::SYSLOG;
        check(Category::Dml, ("ks", "t1"), "admin_b", Sinks::TABLE);
        check(Category::Dml, ("ks", "t1"), "admin_a", both);
        check(Category::Dml, ("ks", "t2"), "admin_a", Sinks::SYSLOG);
        check(Category::Dml, ("ks", "t2"), "admin_b", Sinks::NONE);
        check(Category::Query, ("logs", "any"), "admin_a", Sinks::TABLE);
        check(Category::Query, ("logs", ""), "admin_a", Sinks::TABLE);
        check(Category::Query, ("logs", "any"), "viewer", Sinks::NONE);
        // Of no keyspace, or of a kind that has no tables.
        check(Category::Query, ("", ""), "admin_b", Sinks::TABLE);
        check(Category::Auth, ("", ""), "root", Sinks::SYSLOG);
        check(Category::Dcl, ("ks", "t1"), "anybody", both);
        check(Category::Ddl, ("ks", "t1"), "anybody", Sinks::NONE);
        check(Category::Ddl, ("", ""), "anybody", Sinks::TABLE);
        check(Category::Admin, ("", ""), "anybody", Sinks::NONE);
        assert!(rules.has(Category::Ddl) && !Rules::default().has(Category::Ddl));
        let beyond: Vec<_> = rules.beyond(Sinks::TABLE).collect();
        assert_eq!(beyond, [(2, Sinks::SYSLOG), (3, Sinks::SYSLOG)]);
    }

    #[test]
    fn a_bad_rule_is_named() {
        let good = rule("table", "DML", "a.*", "*");
        let check = |second: &str, expected: &str| {
            let refused = Rules::of(&format!("[{good},{second}]")).expect_err(second);
            assert_eq!(refused, format!("rule 2: {expected}"));
        };
        check("7", "it is no object");
        check("{}", "sinks is missing");
        check(&rule("", "DML", "", ""), "sinks is empty");
        check(&rule("file", "DML", "", ""), "sinks: file is none of table, syslog");
        let none = "categories: NOTHING is none of QUERY, DML, DDL, DCL, AUTH, ADMIN";
        check(&rule("table", "DML NOTHING", "", ""), none);
        let open = "qualified_table_names: a.@(b: a group is not closed";
        check(&rule("table", "DML", "*.* a.@(b", ""), open);
        check(&rule("table", "DML", "", "[a"), "roles: [a: a set is not closed");
        check(&good.replace("[\"*\"]", "\"*\""), "roles is no list");
        check(&good.replace("[\"*\"]", "[7]"), "roles: 7 is no text");
        check(&good.replace(",\"roles\":[\"*\"]", ""), "roles is missing");
        let more = good.replace('{', "{\"role\":1,");
        check(&more, "role is none of sinks, categories, qualified_table_names, roles");
        assert_eq!(Rules::of("{}"), Err("it is no list of rules".to_owned()));
        assert!(Rules::of("[{").is_err_and(|why| why.contains("line 1")));
        for nothing in ["", " ", "[]"] {
            assert!(Rules::of(nothing).expect(nothing).is_empty());
        }
    }

    proptest! {
        /// *all-three*, by rules whose patterns are names alone.
        #[test]
        fn rules_hold_as_lists_say(
            drawn in prop::collection::vec(
                (1u8..4, prop::collection::vec(0usize..6, 0..3),
                 prop::collection::vec(0usize..4, 0..3), prop::collection::vec(0usize..2, 0..3)),
                0..4,
            ),
            category in 0usize..6, table in 0usize..4, role in 0usize..3,
        ) {
            let (tables, roles) = (["a.t", "a.", "b.t", "."], ["r", "s", ""]);
            let text = |list: &[usize], names: &[&str]| {
                list.iter().map(|at| names[*at]).collect::<Vec<_>>().join(" ")
            };
            let kinds = Category::ALL.map(Category::name);
            let sinks = |bits: u8| {
                Sinks(bits).each().map(Sinks::name).collect::<Vec<_>>().join(" ")
            };
            let all: Vec<String> = drawn.iter().map(|(bits, of, on, by)| {
                rule(&sinks(*bits), &text(of, &kinds), &text(on, &tables), &text(by, &roles))
            }).collect();
            let rules = rules(&all);
            let (keyspace, name) = tables[table].split_once('.').expect("a dot");
            let category = Category::ALL[category];
            let subject = Subject { category, keyspace, table: name, role: roles[role] };
            let mut expected = Sinks::NONE;
            for (bits, of, on, by) in &drawn {
                let is_any = keyspace.is_empty()
                    || matches!(category, Category::Dcl | Category::Auth | Category::Admin);
                let is_by = by.contains(&role);
                let is_of = of.iter().any(|at| Category::ALL[*at] == category);
                if is_of && is_by && (is_any || on.contains(&table)) {
                    expected = expected | Sinks(*bits);
                }
            }
            prop_assert_eq!(rules.sinks(&subject), expected);
        }

        #[test]
        fn any_text_is_rules_or_refused(text: String, inner in "[{}\\[\\]\",:a-z*]{0,30}") {
            let _ = Rules::of(&text);
            let _ = Rules::of(&format!("[{{\"sinks\":[\"table\"],{inner}}}]"));
        }
    }
}
