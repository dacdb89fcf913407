//! Sets and maps in their order: clients send them in any. What is stored and compared is sorted,
//! with one of equal elements.

use super::collection::{
    part_type, parts_of, write_collection, write_map, write_tuple, write_vector,
};
use super::compare;
use crate::types::{NESTING_MAX, Type};
use std::borrow::Cow;
use std::cmp::Ordering;

/// Sorts the elements of a set by the order of their type and keeps one of equal ones (the last).
pub fn sort_set(element: &Type, elements: &mut Vec<&[u8]>) {
    elements.sort_by(|a, b| compare(element, a, b));
    elements.dedup_by(|later, kept| equal_and_replace(element, later, kept));
}

/// Sorts the entries of a map by the order of their keys and keeps one of equal keys (the last).
pub fn sort_map(key: &Type, entries: &mut Vec<(&[u8], &[u8])>) {
    entries.sort_by(|(a, _), (b, _)| compare(key, a, b));
    entries.dedup_by(|later, kept| {
        let same = compare(key, later.0, kept.0) == Ordering::Equal;
        if same {
            *kept = *later;
        }
        same
    });
}

fn equal_and_replace<'a>(ty: &Type, later: &'a [u8], kept: &mut &'a [u8]) -> bool {
    let same = compare(ty, later, kept) == Ordering::Equal;
    if same {
        *kept = later;
    }
    same
}

/// The value with the sets and maps in it, at every depth, sorted and without duplicates: clients
/// send them in any order. Borrowed when nothing changes. The bytes must be valid; invalid ones
/// come back as they are.
pub fn normalize<'a>(ty: &Type, bytes: &'a [u8]) -> Cow<'a, [u8]> {
    let sorts = |ty: &Type| matches!(ty, Type::Set { .. } | Type::Map { .. });
    if bytes.is_empty() || !ty.any(&sorts) || is_normal(ty, bytes, NESTING_MAX) {
        return Cow::Borrowed(bytes);
    }
    match normalized(ty, bytes, NESTING_MAX) {
        Some(changed) if changed != bytes => Cow::Owned(changed),
        _ => Cow::Borrowed(bytes),
    }
}

/// Whether [`normalized`] would change nothing; may say no all the same. Allocates nothing.
fn is_normal(ty: &Type, bytes: &[u8], depth_left: usize) -> bool {
    let Some(depth_left) = depth_left.checked_sub(1) else { return false };
    let Some(parts) = parts_of(ty, bytes) else { return true };
    let mut last: Option<&[u8]> = None;
    for (index, part) in parts.enumerate() {
        // A null may be any negative length: one of those is normal, which cannot be seen here.
        let (Ok(Some(part)), Some(part_ty)) = (part, part_type(ty, index)) else { return false };
        if !is_normal(part_ty, part, depth_left) {
            return false;
        }
        let ascends = match ty {
            Type::Set { .. } => true,
            Type::Map { .. } => index.is_multiple_of(2),
            _ => false,
        };
        if ascends {
            if last.is_some_and(|last| compare(part_ty, last, part).is_ge()) {
                return false;
            }
            last = Some(part);
        }
    }
    true
}

/// `None` for invalid bytes.
fn normalized(ty: &Type, bytes: &[u8], depth_left: usize) -> Option<Vec<u8>> {
    let depth_left = depth_left.checked_sub(1)?;
    let Some(parts) = parts_of(ty, bytes) else { return Some(bytes.to_vec()) };
    let mut inner: Vec<Option<Vec<u8>>> = Vec::new();
    for (index, part) in parts.enumerate() {
        let part_ty = part_type(ty, index)?;
        inner.push(match part.ok()? {
            Some(part) => Some(normalized(part_ty, part, depth_left)?),
            None => None,
        });
    }
    let mut out = Vec::with_capacity(bytes.len());
    let whole = || inner.iter().map(|part| part.as_deref().unwrap_or_default());
    match ty {
        Type::List { .. } => write_collection(whole(), &mut out),
        Type::Set { element, .. } => {
            let mut elements: Vec<&[u8]> = whole().collect();
            sort_set(element, &mut elements);
            write_collection(elements.into_iter(), &mut out);
        }
        Type::Map { key, .. } => {
            let parts: Vec<&[u8]> = whole().collect();
            let (pairs, _) = parts.as_chunks::<2>();
            let mut entries: Vec<(&[u8], &[u8])> = pairs.iter().map(|[k, v]| (*k, *v)).collect();
            sort_map(key, &mut entries);
            write_map(entries.into_iter(), &mut out);
        }
        Type::Vector { element, .. } => write_vector(element, whole(), &mut out),
        _ => write_tuple(inner.iter().map(Option::as_deref), &mut out),
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use crate::value::collection::map_entries;
    use crate::value::validate;
    use proptest::prelude::*;

    fn set(elements: &[i32]) -> Vec<u8> {
        let elements: Vec<[u8; 4]> = elements.iter().map(|element| element.to_be_bytes()).collect();
        let mut out = Vec::new();
        write_collection(elements.iter().map(|element| &element[..]), &mut out);
        out
    }

    #[test]
    fn sets_are_sorted_inside_of_anything() {
        let ty = Type::from_cql("tuple<set<int>, int>", &|_| None).unwrap();
        let tuple = |elements: &[i32]| {
            let mut out = Vec::new();
            write_tuple([Some(&set(elements)[..]), None].into_iter(), &mut out);
            out
        };
        assert_eq!(*normalize(&ty, &tuple(&[3, 1, 3, -2])), tuple(&[-2, 1, 3]));
        assert!(matches!(normalize(&ty, &tuple(&[1, 2])), Cow::Borrowed(_)));
        let check = |elements: &[i32], normal: bool| {
            let of_ints = Type::Set { element: Box::new(Type::Int), frozen: true };
            assert_eq!(is_normal(&of_ints, &set(elements), NESTING_MAX), normal, "{elements:?}");
        };
        check(&[], true);
        check(&[-1, 0, 7], true);
        check(&[1, 1], false);
        check(&[2, 1], false);
    }

    proptest! {
        #[test]
        fn generated_values_are_normal((ty, bytes) in testing::typed_value()) {
            let normal = normalize(&ty, &bytes);
            prop_assert_eq!(&*normal, &bytes[..]);
            prop_assert_eq!(validate(&ty, &normal), Ok(()));
        }

        #[test]
        fn any_bytes_are_read(ty in testing::value_type(), bytes: Vec<u8>) {
            let normal = normalize(&ty, &bytes).into_owned();
            prop_assert_eq!(&*normalize(&ty, &normal), &normal[..]);
            let _ = map_entries(&bytes).count();
            if is_normal(&ty, &bytes, NESTING_MAX) {
                prop_assert_eq!(normalized(&ty, &bytes, NESTING_MAX), Some(bytes));
            }
        }
    }
}
