//! The order of values. See *total-order* in the parent.

use super::collection::{Parts, part_type, parts_of};
use super::{decimal, varint};
use crate::types::Type;
use std::cmp::Ordering;

/// Compares two valid values of `ty` in its order. Never panics: invalid bytes compare somehow,
/// but consistently.
pub fn compare(ty: &Type, a: &[u8], b: &[u8]) -> Ordering {
    if a.is_empty() || b.is_empty() {
        return a.len().min(1).cmp(&b.len().min(1));
    }
    match ty {
        Type::Ascii | Type::Blob | Type::Text | Type::Inet => a.cmp(b),
        Type::Duration | Type::Empty | Type::Custom(_) => a.cmp(b),
        Type::Int => fixed(a, b, |a, b| i32::from_be_bytes(a).cmp(&i32::from_be_bytes(b))),
        Type::BigInt | Type::Counter | Type::Time | Type::Timestamp => {
            fixed(a, b, |a, b| i64::from_be_bytes(a).cmp(&i64::from_be_bytes(b)))
        }
        Type::SmallInt => fixed(a, b, |a, b| i16::from_be_bytes(a).cmp(&i16::from_be_bytes(b))),
        Type::TinyInt => fixed(a, b, |a, b| i8::from_be_bytes(a).cmp(&i8::from_be_bytes(b))),
        Type::Boolean => fixed(a, b, |[a], [b]| (a != 0).cmp(&(b != 0))),
        Type::Date => fixed::<4>(a, b, |a, b| a.cmp(&b)),
        Type::Float => fixed(a, b, |a, b| {
            let wide = |bytes| f64::from(f32::from_be_bytes(bytes));
            compare_floats(wide(a), wide(b))
        }),
        Type::Double => {
            fixed(a, b, |a, b| compare_floats(f64::from_be_bytes(a), f64::from_be_bytes(b)))
        }
        Type::Uuid => fixed(a, b, |a, b| uuid_order(a).cmp(&uuid_order(b))),
        Type::TimeUuid => fixed(a, b, |a, b| timeuuid_order(a).cmp(&timeuuid_order(b))),
        Type::Varint => varint::compare(a, b),
        Type::Decimal => decimal::compare(a, b),
        _ => match (parts_of(ty, a), parts_of(ty, b)) {
            (Some(a), Some(b)) => compare_parts(ty, a, b),
            _ => a.cmp(b),
        },
    }
}

/// Compares values that have `N` bytes when they are valid; the others come after these.
fn fixed<const N: usize>(
    a: &[u8],
    b: &[u8],
    order: impl FnOnce([u8; N], [u8; N]) -> Ordering,
) -> Ordering {
    match (<[u8; N]>::try_from(a), <[u8; N]>::try_from(b)) {
        (Ok(a), Ok(b)) => order(a, b),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

/// The order of Java: -0.0 before 0.0, and one NaN after everything.
fn compare_floats(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) => a.total_cmp(&b),
        (a, b) => a.cmp(&b),
    }
}

/// By version; then version 1 by time, others as they are; then by unsigned bytes.
fn uuid_order(bytes: [u8; 16]) -> (u64, u64, u64) {
    let (high, low) = halves(bytes);
    let version = (high >> 12) & 0xf;
    let middle = if version == 1 { time_first(high) } else { high };
    (version, middle, low)
}

/// By time, then by signed bytes.
fn timeuuid_order(bytes: [u8; 16]) -> (u64, u64) {
    let (high, low) = halves(bytes);
    (time_first(high), low ^ 0x8080_8080_8080_8080)
}

fn halves(bytes: [u8; 16]) -> (u64, u64) {
    let whole = u128::from_be_bytes(bytes);
    ((whole >> 64) as u64, whole as u64)
}

/// The first half of a version 1 UUID with the timestamp's parts in order of significance.
fn time_first(high: u64) -> u64 {
    (high << 48) | ((high << 16) & 0xffff_0000_0000) | (high >> 32)
}

/// Part by part; where one ends it is less, but a tuple's missing field equals a null one, be it a
/// field that the type has been given since.
fn compare_parts(ty: &Type, mut a: Parts<'_>, mut b: Parts<'_>) -> Ordering {
    let missing_is_null = matches!(ty, Type::Tuple(_) | Type::User(_));
    for index in 0.. {
        let order = match (step(&mut a), step(&mut b)) {
            (Step::End, Step::End) => return Ordering::Equal,
            (Step::End, Step::Null) | (Step::Null, Step::End) if missing_is_null => Ordering::Equal,
            (Step::Damaged, Step::Damaged) => return a.rest().cmp(b.rest()),
            (Step::Value(a), Step::Value(b)) => match part_type(ty, index) {
                Some(part) => compare(part, a, b),
                None => a.cmp(b),
            },
            (a, b) => a.rank().cmp(&b.rank()),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

/// What comes next in a value, in the order in which these sort.
enum Step<'a> {
    End,
    Null,
    Value(&'a [u8]),
    Damaged,
}

impl Step<'_> {
    fn rank(&self) -> u8 {
        match self {
            Step::End => 0,
            Step::Null => 1,
            Step::Value(_) => 2,
            Step::Damaged => 3,
        }
    }
}

fn step<'a>(parts: &mut Parts<'a>) -> Step<'a> {
    match parts.next() {
        None => Step::End,
        Some(Ok(None)) => Step::Null,
        Some(Ok(Some(value))) => Step::Value(value),
        Some(Err(_)) => Step::Damaged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use crate::value::{parse_scalar, write_collection, write_tuple};
    use proptest::prelude::*;

    /// The texts, least first; each differs from the next.
    fn check(ty: Type, ascending: &[&str]) {
        let parse = |text: &&str| parse_scalar(&ty, text).unwrap();
        let values: Vec<Vec<u8>> = ascending.iter().map(parse).collect();
        for (i, a) in values.iter().enumerate() {
            for (j, b) in values.iter().enumerate() {
                let texts = (ascending[i], ascending[j]);
                assert_eq!(compare(&ty, a, b), i.cmp(&j), "{ty:?} {texts:?}");
            }
            assert_eq!(compare(&ty, &[], a), Ordering::Less);
        }
    }

    #[test]
    fn scalars() {
        check(Type::Int, &["-2147483648", "-1", "0", "1", "2147483647"]);
        check(Type::TinyInt, &["-128", "-1", "0", "127"]);
        check(Type::SmallInt, &["-32768", "-1", "0", "32767"]);
        check(Type::BigInt, &["-9223372036854775808", "-1", "0", "9"]);
        check(Type::Boolean, &["false", "true"]);
        check(Type::Date, &["-5877641-06-23", "1969-12-31", "1970-01-01", "2000-01-01"]);
        check(Type::Varint, &["-99999999999999999999", "-129", "-128", "-1", "0", "127", "128"]);
        let floats = ["-Infinity", "-1.5", "-0.0", "0.0", "1e-3", "7", "Infinity", "NaN"];
        check(Type::Double, &floats);
        check(Type::Float, &floats);
        check(Type::Inet, &["1.2.3.4", "::5", "127.0.0.1", "128.0.0.1", "255.1.1.1", "ff::"][..1]);
        check(Type::Text, &["A", "B", "a", "aa", "\u{e9}"]);
    }

    #[test]
    fn decimals_are_numbers() {
        let ascending =
            ["-1e999999999", "-10", "-9.99", "-1e-999999999", "0", "1e-40", "0.5", "1", "1e9"];
        check(Type::Decimal, &ascending);
        let parse = |text| parse_scalar(&Type::Decimal, text).unwrap();
        assert_eq!(compare(&Type::Decimal, &parse("1.0"), &parse("1.000")), Ordering::Equal);
        assert_eq!(compare(&Type::Decimal, &parse("0"), &parse("0e5")), Ordering::Equal);
        assert_eq!(compare(&Type::Decimal, &parse("100"), &parse("1e2")), Ordering::Equal);
    }

    #[test]
    fn uuids() {
        // Times 1 < 2^32 < 2^48, by version first.
        let ascending = [
            "00000001-0000-1000-8000-000000000000",
            "00000000-0001-1000-8000-000000000000",
            "00000000-0000-1001-8000-000000000000",
            "00000000-0000-4000-8000-000000000000",
            "ff000000-0000-4000-8000-000000000000",
            "ff000000-0000-4000-8000-000000000080",
        ];
        check(Type::Uuid, &ascending);
        check(Type::TimeUuid, &ascending[..3]);
        // The clock and node of a timeuuid are compared as signed bytes.
        let signed = [
            "00000001-0000-1000-8080-808080808080",
            "00000001-0000-1000-8080-8080808080ff",
            "00000001-0000-1000-8080-808080808000",
            "00000001-0000-1000-8080-80808080807f",
            "00000001-0000-1000-ff80-808080808080",
        ];
        check(Type::TimeUuid, &signed);
    }

    fn ints(elements: &[i32]) -> Vec<u8> {
        let elements: Vec<_> = elements.iter().map(|element| element.to_be_bytes()).collect();
        let mut out = Vec::new();
        write_collection(elements.iter().map(|element| &element[..]), &mut out);
        out
    }

    #[test]
    fn collections_and_tuples() {
        let list = Type::List { element: Box::new(Type::Int), frozen: true };
        let sorted = [ints(&[]), ints(&[-5]), ints(&[-5, 1]), ints(&[1]), ints(&[1, -9])];
        assert!(sorted.is_sorted_by(|a, b| compare(&list, a, b) == Ordering::Less));
        let tuple = Type::Tuple(vec![Type::Int, Type::Int]);
        let of = |fields: &[Option<&[u8]>]| {
            let mut out = Vec::new();
            write_tuple(fields.iter().copied(), &mut out);
            out
        };
        let one = Some(&[0, 0, 0, 1][..]);
        let minus = Some(&[0xff; 4][..]);
        assert_eq!(compare(&tuple, &of(&[one]), &of(&[one, None])), Ordering::Equal);
        assert_eq!(compare(&tuple, &of(&[one]), &of(&[one, minus])), Ordering::Less);
        assert_eq!(compare(&tuple, &of(&[None, one]), &of(&[minus])), Ordering::Less);
        // Fields that the type did not have when it was asked for.
        let three = of(&[one, one, None]);
        assert_eq!(compare(&tuple, &of(&[one, one]), &three), Ordering::Equal);
        assert_eq!(compare(&tuple, &three, &of(&[one, one, one])), Ordering::Less);
        assert_eq!(compare(&tuple, &of(&[one]), &of(&[one, None, None])), Ordering::Equal);
    }

    proptest! {
        #[test]
        fn a_total_order_over_values(
            (ty, values) in testing::value_type().prop_flat_map(|ty| {
                let value = testing::value_of(&ty);
                (Just(ty), prop::collection::vec(value, 3))
            }),
        ) {
            total(&ty, &values)?;
        }

        #[test]
        fn a_total_order_over_any_bytes(
            ty in testing::value_type(),
            values in prop::collection::vec(prop::collection::vec(0u8..4, 0..14), 3),
        ) {
            total(&ty, &values)?;
        }

        #[test]
        fn agrees_with_typed_comparison(a: (i64, i32, i8), b: (i64, i32, i8)) {
            let same = |ty, x: &[u8], y: &[u8], order| {
                prop_assert_eq!(compare(&ty, x, y), order);
                Ok(())
            };
            same(Type::BigInt, &a.0.to_be_bytes(), &b.0.to_be_bytes(), a.0.cmp(&b.0))?;
            same(Type::Int, &a.1.to_be_bytes(), &b.1.to_be_bytes(), a.1.cmp(&b.1))?;
            same(Type::TinyInt, &a.2.to_be_bytes(), &b.2.to_be_bytes(), a.2.cmp(&b.2))?;
        }
    }

    fn total(ty: &Type, values: &[Vec<u8>]) -> Result<(), TestCaseError> {
        let order = |i: usize, j: usize| compare(ty, &values[i], &values[j]);
        for i in 0..values.len() {
            prop_assert_eq!(order(i, i), Ordering::Equal);
            for j in 0..values.len() {
                prop_assert_eq!(order(i, j), order(j, i).reverse());
                for k in 0..values.len() {
                    if order(i, j).is_le() && order(j, k).is_le() {
                        prop_assert!(order(i, k).is_le(), "{:?} {:?}", ty, values);
                    }
                }
            }
        }
        Ok(())
    }
}
