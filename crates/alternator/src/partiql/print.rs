//! From trees back to statements.
//!
//! Invariants
//!  - *parses-back*: what is printed of a statement that was parsed is parsed to the same.

use super::tree::{Change, Lack, Returning, Select, Source, Statement, Term, Test};
use crate::expression::{Path, Step};
use std::fmt::{self, Display, Formatter};

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn joined<T>(all: &[T], one: impl Fn(&T) -> String) -> String {
    all.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn path(path: &Path) -> String {
    let mut out = quoted(&path.root);
    for step in &path.steps {
        match step {
            Step::Name(name) => out.push_str(&format!(".{}", quoted(name))),
            Step::Index(index) => out.push_str(&format!("[{index}]")),
        }
    }
    out
}

fn member((name, term): &(String, Term)) -> String {
    format!("{}: {term}", text(name))
}

fn part(term: &Term) -> String {
    match term {
        Term::Plus(..) | Term::Minus(..) => format!("({term})"),
        _ => term.to_string(),
    }
}

impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let out = match self {
            Term::Path(it) => path(it),
            Term::Parameter(_) => "?".to_owned(),
            Term::Text(it) => text(it),
            Term::Number(number) => number.to_string(),
            Term::Bool(value) => value.to_string(),
            Term::Null => "null".to_owned(),
            Term::List(all) => format!("[{}]", joined(all, Term::to_string)),
            Term::Map(all) => format!("{{{}}}", joined(all, member)),
            Term::Set(all) => format!("<<{}>>", joined(all, Term::to_string)),
            Term::Call(name, all) => format!("{name}({})", joined(all, Term::to_string)),
            Term::Plus(a, b) => format!("{} + {}", part(a), part(b)),
            Term::Minus(a, b) => format!("{} - {}", part(a), part(b)),
        };
        f.write_str(&out)
    }
}

fn inner(test: &Test) -> String {
    match test {
        Test::And(_) | Test::Or(_) => format!("({test})"),
        _ => test.to_string(),
    }
}

impl Display for Test {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let out = match self {
            Test::And(all) => all.iter().map(inner).collect::<Vec<_>>().join(" AND "),
            Test::Or(all) => all.iter().map(inner).collect::<Vec<_>>().join(" OR "),
            Test::Not(one) => format!("NOT {}", inner(one)),
            Test::Compare(how, a, b) => format!("{a} {} {b}", how.symbol()),
            Test::Between { term, low, high } => format!("{term} BETWEEN {low} AND {high}"),
            Test::In(term, all) => format!("{term} IN [{}]", joined(all, Term::to_string)),
            Test::Is(it, Lack::Null) => format!("{} IS NULL", path(it)),
            Test::Is(it, Lack::Missing) => format!("{} IS MISSING", path(it)),
            Test::Call(name, all) => format!("{name}({})", joined(all, Term::to_string)),
        };
        f.write_str(&out)
    }
}

impl Display for Source {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&quoted(&self.table))?;
        self.index.iter().try_for_each(|index| write!(f, ".{}", quoted(index)))
    }
}

fn filter(test: &Option<Test>) -> String {
    test.as_ref().map_or_else(String::new, |test| format!(" WHERE {test}"))
}

fn returned(returning: &Option<Returning>) -> String {
    returning.map_or_else(String::new, |Returning { is_all, is_new }| {
        let (all, new) =
            (if is_all { "ALL" } else { "MODIFIED" }, if is_new { "NEW" } else { "OLD" });
        format!(" RETURNING {all} {new} *")
    })
}

impl Display for Select {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Select { columns, source, test, order } = self;
        let columns = columns.as_ref().map_or_else(|| "*".to_owned(), |all| joined(all, path));
        write!(f, "SELECT {columns} FROM {source}{}", filter(test))?;
        if order.is_empty() {
            return Ok(());
        }
        let key = |(name, is_down): &(String, bool)| {
            format!("{} {}", quoted(name), if *is_down { "DESC" } else { "ASC" })
        };
        write!(f, " ORDER BY {}", joined(order, key))
    }
}

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Statement::Select(select) => select.fmt(f),
            Statement::Exists(select) => write!(f, "EXISTS({select})"),
            Statement::Insert { source, item } => {
                write!(f, "INSERT INTO {source} VALUE {{{}}}", joined(item, member))
            }
            Statement::Update { source, changes, test, returning } => {
                write!(f, "UPDATE {source}")?;
                for change in changes {
                    match change {
                        Change::Set(it, term) => write!(f, " SET {} = {term}", path(it))?,
                        Change::Remove(it) => write!(f, " REMOVE {}", path(it))?,
                    }
                }
                write!(f, "{}{}", filter(test), returned(returning))
            }
            Statement::Delete { source, test, returning } => {
                write!(f, "DELETE FROM {source}{}{}", filter(test), returned(returning))
            }
        }
    }
}
