//! Filters: conditions that are tested row by row.

use super::values::{
    Bound, InList, Nulls, Tuple, TupleList, key_value, lower_comparison, upper_comparison,
};
use crate::error::Error;
use crate::term::{Env, Evaluated, Term};
use model::Type;
use model::value;
use std::borrow::Cow;
use std::cmp::Ordering;
use syntax::ast::Comparison;

/// A condition on a row.
#[derive(Clone, Debug)]
pub struct Filter {
    subject: Term,
    ty: Type,
    name: String,
    test: Test,
}

/// How the subject is tested. Null passes no test.
#[derive(Clone, Debug)]
pub enum Test {
    Compare(Comparison, Term),
    In(InList),
    /// With a null among the values nothing passes: it might be the value.
    NotIn(InList),
    Contains(Term),
    ContainsKey(Term),
    Like(Term),
    /// The subject is a tuple of columns.
    CompareTuple(Comparison, Tuple),
    InTuples(TupleList),
}

impl Test {
    pub(super) fn lower(bound: Bound<Term>) -> Test {
        Test::Compare(lower_comparison(bound.inclusive), bound.value)
    }

    pub(super) fn upper(bound: Bound<Term>) -> Test {
        Test::Compare(upper_comparison(bound.inclusive), bound.value)
    }
}

impl Filter {
    pub fn new(subject: Term, ty: Type, name: &str, test: Test) -> Filter {
        Filter { subject, ty, name: name.to_owned(), test }
    }

    /// Refuses what no row can be tested with, whether there are rows or not.
    pub fn check(&self, env: &Env<'_>) -> Result<(), Error> {
        if let Term::Element(_, _, key) = &self.subject
            && key.evaluate(env)? == Evaluated::Unset
        {
            let text = format!("Unsupported unset map key for column {}", self.name);
            return Err(Error::Invalid(text));
        }
        match &self.test {
            Test::Compare(_, term)
            | Test::Contains(term)
            | Test::ContainsKey(term)
            | Test::Like(term) => {
                if self.value(term, env)?.is_none() && self.ty == Type::Counter {
                    let text = "Invalid null value for counter increment/decrement";
                    return Err(Error::invalid(text));
                }
            }
            Test::In(list) => drop(list.evaluate(&self.name, Nulls::NoRows, env)?),
            Test::NotIn(list) => drop(list.all(&self.name, env)?),
            Test::CompareTuple(_, tuple) => drop(tuple.values(&self.name, Nulls::NoRows, env)?),
            Test::InTuples(list) => drop(list.values(&self.name, Nulls::NoRows, env)?),
        }
        Ok(())
    }

    /// Whether the row of `env` passes.
    pub fn passes<'a>(&'a self, env: &Env<'a>) -> Result<bool, Error> {
        let subject = self.subject.evaluate(env)?;
        let Evaluated::Value(subject) = subject else { return Ok(false) };
        match &self.test {
            Test::Compare(comparison, term) => {
                let Some(value) = self.value(term, env)? else { return Ok(false) };
                Ok(holds(*comparison, value::compare(&self.ty, &subject, &value)))
            }
            Test::In(list) => {
                let values = list.evaluate(&self.name, Nulls::NoRows, env)?;
                Ok(values.iter().any(|v| value::compare(&self.ty, &subject, v).is_eq()))
            }
            Test::NotIn(list) => {
                let Some(values) = list.all(&self.name, env)? else { return Ok(false) };
                Ok(!values.iter().any(|v| value::compare(&self.ty, &subject, v).is_eq()))
            }
            Test::Contains(term) => {
                let Some(wanted) = self.value(term, env)? else { return Ok(false) };
                Ok(contains(&self.ty, &subject, &wanted))
            }
            Test::ContainsKey(term) => {
                let Some(wanted) = self.value(term, env)? else { return Ok(false) };
                let Type::Map { key, .. } = &self.ty else { return Ok(false) };
                let mut entries = value::map_entries(&subject);
                Ok(entries.any(|(found, _)| value::compare(key, found, &wanted).is_eq()))
            }
            Test::Like(term) => {
                let Some(pattern) = self.value(term, env)? else { return Ok(false) };
                Ok(like(&subject, &pattern))
            }
            Test::CompareTuple(comparison, tuple) => {
                let Some(values) = tuple.values(&self.name, Nulls::NoRows, env)? else {
                    return Ok(false);
                };
                Ok(holds(*comparison, compare_tuple(&self.ty, &subject, &values)))
            }
            Test::InTuples(list) => {
                let tuples = list.values(&self.name, Nulls::NoRows, env)?;
                Ok(tuples.iter().any(|t| compare_tuple(&self.ty, &subject, t).is_eq()))
            }
        }
    }

    fn value<'a>(&self, term: &'a Term, env: &Env<'a>) -> Result<Option<Cow<'a, [u8]>>, Error> {
        key_value(term, &self.name, Nulls::NoRows, env)
    }
}

/// Whether a comparison holds of values in that order.
pub fn holds(comparison: Comparison, order: Ordering) -> bool {
    match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    }
}

/// Compares as many leading columns as there are values.
fn compare_tuple(ty: &Type, subject: &[u8], values: &[Cow<'_, [u8]>]) -> Ordering {
    let Type::Tuple(types) = ty else { return Ordering::Equal };
    let fields = value::fields(subject).map(|part| part.ok().flatten().unwrap_or_default());
    for ((field, wanted), ty) in fields.zip(values).zip(types) {
        let order = value::compare(ty, field, wanted);
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

/// Whether a collection has that element, or a map that value.
pub fn contains(ty: &Type, whole: &[u8], wanted: &[u8]) -> bool {
    match ty {
        Type::List { element, .. } | Type::Set { element, .. } => {
            let mut parts = value::list_elements(whole).filter_map(|part| part.ok().flatten());
            parts.any(|found| value::compare(element, found, wanted).is_eq())
        }
        Type::Map { value: ty, .. } => {
            let mut entries = value::map_entries(whole);
            entries.any(|(_, found)| value::compare(ty, found, wanted).is_eq())
        }
        _ => false,
    }
}

/// SQL's LIKE: `%` is any text, `_` any character, `\` takes the next one as it is.
pub fn like(text: &[u8], pattern: &[u8]) -> bool {
    let (Ok(text), Ok(pattern)) = (str::from_utf8(text), str::from_utf8(pattern)) else {
        return false;
    };
    let text: Vec<char> = text.chars().collect();
    let pattern = like_tokens(pattern);
    // The last `%` seen, and where its match may be extended from.
    let (mut at, mut next) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while at < text.len() {
        match pattern.get(next) {
            Some(Like::Any) => {
                retry = Some((next, at));
                next += 1;
            }
            Some(Like::One) => {
                at += 1;
                next += 1;
            }
            Some(Like::Char(c)) if *c == text[at] => {
                at += 1;
                next += 1;
            }
            _ => match retry {
                None => return false,
                Some((any, from)) => {
                    retry = Some((any, from + 1));
                    at = from + 1;
                    next = any + 1;
                }
            },
        }
    }
    pattern[next..].iter().all(|token| *token == Like::Any)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Like {
    Any,
    One,
    Char(char),
}

fn like_tokens(pattern: &str) -> Vec<Like> {
    let mut out = Vec::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '%' => Like::Any,
            '_' => Like::One,
            '\\' => Like::Char(chars.next().unwrap_or('\\')),
            c => Like::Char(c),
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_patterns() {
        let check = |text: &str, pattern: &str, expected: bool| {
            let found = like(text.as_bytes(), pattern.as_bytes());
            assert_eq!(found, expected, "{text:?} LIKE {pattern:?}");
        };
        check("", "", true);
        check("", "%", true);
        check("abc", "abc", true);
        check("abc", "a%", true);
        check("abc", "%c", true);
        check("abc", "%b%", true);
        check("abc", "a_c", true);
        check("abc", "a_", false);
        check("abc", "%d%", false);
        check("a%c", "a\\%c", true);
        check("abc", "a\\%c", false);
        check("aabab", "%ab", true);
        check("mississippi", "%iss%ip%i", true);
        check("gr\u{fc}\u{df}e", "gr__e", true);
    }
}
