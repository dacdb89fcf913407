//! Functions of collections: their parts, and aggregates of their elements.

use crate::aggregate::Aggregate;
use crate::error::Error;
use crate::number::Number;
use model::Type;
use model::value::{self, write_collection};

/// A function of one collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectionFunction {
    /// The keys of a map, as a set.
    MapKeys,
    /// The values of a map, as a list in the order of the keys.
    MapValues,
    /// How many elements or entries.
    Count,
    /// The least element of a set or list; null of none.
    Min,
    /// The greatest one.
    Max,
    /// The sum of numbers, in their own type; zero of none.
    Sum,
    /// Their mean, in their own type; zero of none.
    Average,
}

impl CollectionFunction {
    /// Of the bytes of a collection of that type.
    pub(crate) fn call(self, ty: &Type, bytes: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        match self {
            CollectionFunction::MapKeys => Ok(Some(half(bytes, |(key, _)| key))),
            CollectionFunction::MapValues => Ok(Some(half(bytes, |(_, value)| value))),
            CollectionFunction::Count => {
                let count = match ty {
                    Type::Map { .. } => value::map_entries(bytes).count(),
                    _ => elements(bytes).count(),
                };
                Ok(Some((count as i32).to_be_bytes().to_vec()))
            }
            CollectionFunction::Min | CollectionFunction::Max => {
                let Some(element) = ty.element_or_key() else { return Ok(None) };
                let order = |a: &&[u8], b: &&[u8]| value::compare(element, a, b);
                let best = match self {
                    CollectionFunction::Min => elements(bytes).min_by(order),
                    _ => elements(bytes).max_by(order),
                };
                Ok(best.map(<[u8]>::to_vec))
            }
            CollectionFunction::Sum | CollectionFunction::Average => {
                let Some(element) = ty.element_or_key() else { return Ok(None) };
                self.of_numbers(element, bytes).map(Some)
            }
        }
    }

    fn of_numbers(self, element: &Type, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        let mut accumulator = match self {
            CollectionFunction::Sum => Aggregate::Sum(element.clone()),
            _ => Aggregate::Average(element.clone()),
        }
        .begin();
        let mut any = false;
        for item in elements(bytes) {
            any = true;
            accumulator.add(Some(item), None)?;
        }
        match accumulator.finish(None)? {
            Some(bytes) if any => Ok(bytes),
            _ => Number::zero().encode(element),
        }
    }
}

trait ElementOrKey {
    fn element_or_key(&self) -> Option<&Type>;
}

impl ElementOrKey for Type {
    fn element_or_key(&self) -> Option<&Type> {
        match self {
            Type::Set { element, .. } | Type::List { element, .. } => Some(element),
            _ => None,
        }
    }
}

fn elements(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    value::list_elements(bytes).map_while(Result::ok).flatten()
}

fn half<'a>(bytes: &'a [u8], part: impl Fn((&'a [u8], &'a [u8])) -> &'a [u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> = value::map_entries(bytes).map(part).collect();
    let mut out = Vec::new();
    write_collection(parts.into_iter(), &mut out);
    out
}

/// The elements that two sets of that type have in common; null where there are none.
pub(crate) fn set_intersection(ty: &Type, a: &[u8], b: &[u8]) -> Option<Vec<u8>> {
    let element = ty.element_or_key()?;
    let mut common: Vec<&[u8]> = Vec::new();
    let (mut left, mut right) = (elements(a).peekable(), elements(b).peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        match value::compare(element, a, b) {
            std::cmp::Ordering::Less => drop(left.next()),
            std::cmp::Ordering::Greater => drop(right.next()),
            std::cmp::Ordering::Equal => {
                common.extend(left.next());
                right.next();
            }
        }
    }
    let mut out = Vec::new();
    write_collection(common.into_iter(), &mut out);
    Some(out)
}

/// The elements of a set or map of that type whose keys are in a range, its ends included. Of a
/// collection that is stored by element, null where there are none.
pub(crate) fn slice(
    ty: &Type,
    bytes: &[u8],
    from: Option<&[u8]>,
    to: Option<&[u8]>,
) -> Option<Vec<u8>> {
    let within = |key_type: &Type, key: &[u8]| {
        from.is_none_or(|from| value::compare(key_type, from, key).is_le())
            && to.is_none_or(|to| value::compare(key_type, key, to).is_le())
    };
    let mut out = Vec::new();
    let any = match ty {
        Type::Map { key: key_type, .. } => {
            let entries = value::map_entries(bytes).filter(|(key, _)| within(key_type, key));
            let entries: Vec<(&[u8], &[u8])> = entries.collect();
            value::write_map(entries.iter().copied(), &mut out);
            !entries.is_empty()
        }
        _ => {
            let element = ty.element_or_key()?;
            let found: Vec<&[u8]> = elements(bytes).filter(|item| within(element, item)).collect();
            write_collection(found.iter().copied(), &mut out);
            !found.is_empty()
        }
    };
    (any || !ty.is_multi_cell()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of that JSON text.
    fn of(cql: &str, text: &str) -> (Type, Vec<u8>) {
        let ty = Type::from_cql(cql, &|_| None).unwrap().freeze();
        let json = value::json::parse(text).unwrap();
        let bytes = value::json::from_json(&ty, &json).unwrap().unwrap();
        (ty, bytes)
    }

    #[test]
    fn functions_of_collections() {
        let check = |function: CollectionFunction, cql: &str, literal: &str, expected: &str| {
            let (ty, bytes) = of(cql, literal);
            let (returns, wanted) = expected.split_once(' ').unwrap();
            let returns = Type::from_cql(returns, &|_| None).unwrap().freeze();
            let found = function.call(&ty, &bytes).unwrap();
            let found = found.map_or("null".into(), |b| value::to_literal(&returns, &b));
            assert_eq!(found, wanted, "{function:?} {cql} {literal}");
        };
        use CollectionFunction::*;
        check(MapKeys, "map<int, text>", r#"{"2": "b", "1": "a"}"#, "set<int> {1, 2}");
        check(MapValues, "map<int, text>", r#"{"2": "b", "1": "a"}"#, "list<text> ['a', 'b']");
        check(Count, "map<int, text>", r#"{"2": "b", "1": "a"}"#, "int 2");
        check(Count, "list<int>", "[1, 1, 1]", "int 3");
        check(Count, "list<int>", "[]", "int 0");
        check(Min, "list<int>", "[2, -1, 3]", "int -1");
        check(Max, "set<text>", r#"["a", "c", "b"]"#, "text 'c'");
        check(Max, "set<text>", "[]", "text null");
        check(Sum, "list<tinyint>", "[2, 3]", "tinyint 5");
        check(Sum, "list<double>", "[]", "double 0.0");
        check(Average, "list<int>", "[1, 2]", "int 1");
        check(Average, "list<decimal>", "[1.0, 2.0]", "decimal 1.5");
        check(Average, "list<varint>", "[]", "varint 0");
        let (ty, many) = of("list<tinyint>", "[100, 100]");
        assert!(Sum.call(&ty, &many).is_err());
    }

    #[test]
    fn intersections() {
        let check = |a: &str, b: &str, expected: &str| {
            let (ty, a) = of("set<int>", a);
            let common = set_intersection(&ty, &a, &of("set<int>", b).1).unwrap();
            assert_eq!(value::to_literal(&ty, &common), expected);
        };
        check("[1, 2, 3]", "[2, 3, 4]", "{2, 3}");
        check("[1]", "[2]", "{}");
        check("[]", "[2]", "{}");
        check("[-1, 5]", "[-1]", "{-1}");
    }

    #[test]
    fn slices() {
        let check = |cql: &str, literal: &str, range: &str, expected: &str| {
            let (ty, bytes) = of(cql, literal);
            let bound = |text: &str| text.parse::<i32>().ok().map(i32::to_be_bytes);
            let (from, to) = range.split_once("..").unwrap();
            let (from, to) = (bound(from), bound(to));
            let ends = (from.as_ref().map(|b| &b[..]), to.as_ref().map(|b| &b[..]));
            let found = slice(&ty, &bytes, ends.0, ends.1).unwrap();
            assert_eq!(value::to_literal(&ty, &found), expected, "{literal}[{range}]");
        };
        let letters = r#"{"1": "a", "2": "b", "3": "c"}"#;
        check("map<int, text>", letters, "1..2", "{1: 'a', 2: 'b'}");
        check("map<int, text>", letters, "..1", "{1: 'a'}");
        check("set<int>", "[-1, 2, 3]", "0..", "{2, 3}");
        check("set<int>", "[-1, 2, 3]", "..", "{-1, 2, 3}");
        check("set<int>", "[-1, 2, 3]", "7..8", "{}");
        let whole = Type::from_cql("set<int>", &|_| None).unwrap();
        assert_eq!(slice(&whole, &of("set<int>", "[1]").1, Some(&[0, 0, 0, 7]), None), None);
    }
}
