//! Partition and clustering keys as bytes.
//!
//! A partition key is what Cassandra stores: the value itself for one column, otherwise for each
//! component a 16-bit length, the value and a zero byte. A clustering prefix is, for each
//! component, a 16-bit length and the value; fewer components than the table has is a prefix.
//!
//! Invariants
//!  - *short-keys*: a component, and a whole partition key, has at most [`KEY_BYTES_MAX`] bytes.
//!    [`check_partition_key`] and [`check_clustering`] refuse what is longer; the composing
//!    functions assert it.
//!  - *weights-decide*: two positions whose prefixes agree as far as the shorter goes are ordered
//!    by length and weight alone, so every range of positions is unambiguous.

use crate::token::Token;
use crate::types::Type;
use crate::value::{self, Invalid};
use std::cmp::Ordering;
use stdx::{Bytes, Cursor, Damaged, Put};

/// The most bytes of a partition key, and of one clustering component.
pub const KEY_BYTES_MAX: usize = u16::MAX as usize;

/// A partition key with its token. Ordered by token, then by bytes: the order of the ring.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DecoratedKey {
    pub token: Token,
    pub key: Bytes,
}

impl DecoratedKey {
    /// Hashes the key.
    pub fn new(key: Bytes) -> DecoratedKey {
        DecoratedKey { token: Token::of(&key), key }
    }
}

/// How the clustering prefixes of one table compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusteringOrder {
    /// Type and whether descending, per clustering column.
    pub columns: Vec<(Type, bool)>,
}

impl ClusteringOrder {
    /// Compares component by component; where one is a prefix of the other they are equal so far
    /// and the weights decide (-1 before all that it prefixes, 0 the row itself, +1 after).
    #[inline]
    pub fn compare(&self, a: (&[u8], i8), b: (&[u8], i8)) -> Ordering {
        let (mut a_rest, mut b_rest) = (a.0, b.0);
        for (ty, descending) in &self.columns {
            let (a_value, b_value) = match (next(&mut a_rest), next(&mut b_rest)) {
                (Some(a_value), Some(b_value)) => (a_value, b_value),
                (None, None) => break,
                (None, Some(_)) => return shorter_by_weight(a.1),
                (Some(_), None) => return shorter_by_weight(b.1).reverse(),
            };
            let order = value::compare(ty, a_value, b_value);
            if order != Ordering::Equal {
                return if *descending { order.reverse() } else { order };
            }
        }
        a.1.cmp(&b.1)
    }

    /// Compares two rows' full keys.
    #[inline]
    pub fn compare_rows(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.compare((a, 0), (b, 0))
    }
}

/// Where a shorter prefix of that weight stands among the keys that it prefixes.
fn shorter_by_weight(weight: i8) -> Ordering {
    if 0 < weight { Ordering::Greater } else { Ordering::Less }
}

/// Serializes the components of a partition key. Panics over [`KEY_BYTES_MAX`] bytes: the caller
/// asked [`check_partition_key`].
pub fn compose_partition_key<'a>(
    components: impl ExactSizeIterator<Item = &'a [u8]>,
    out: &mut Vec<u8>,
) {
    let single = components.len() == 1;
    for component in components {
        if single {
            assert!(component.len() <= KEY_BYTES_MAX, "short-keys");
            out.put(component);
        } else {
            out.put_u16_bytes(component);
            out.put_u8(0);
        }
    }
}

/// The components of a partition key with `count` columns.
pub fn split_partition_key(key: &[u8], count: usize) -> Result<Vec<&[u8]>, Damaged> {
    if count == 1 {
        return Ok(vec![key]);
    }
    let mut cursor = Cursor::new(key);
    let mut components = Vec::with_capacity(count);
    for _ in 0..count {
        components.push(cursor.u16_bytes("partition key component")?);
        if cursor.u8("end of a partition key component")? != 0 {
            return Err(Damaged::new("partition key component not ended by 0", key.len() as u64));
        }
    }
    if !cursor.is_empty() {
        return Err(cursor.damaged("bytes after the last partition key component"));
    }
    Ok(components)
}

/// One component of a partition key, without allocation; `None` when malformed or not there.
pub fn partition_key_component(key: &[u8], count: usize, index: usize) -> Option<&[u8]> {
    if count == 1 {
        return (index == 0).then_some(key);
    }
    let mut cursor = Cursor::new(key);
    for _ in 0..index {
        cursor.u16_bytes("component").ok()?;
        cursor.u8("end of component").ok()?;
    }
    cursor.u16_bytes("component").ok()
}

/// Refuses a partition key that is empty or too long.
#[inline]
pub fn check_partition_key<'a>(
    components: impl ExactSizeIterator<Item = &'a [u8]>,
) -> Result<(), Invalid> {
    let count = components.len();
    let bytes: usize = components.map(<[u8]>::len).sum();
    if count == 1 && bytes == 0 {
        return Err(Invalid("Key may not be empty".into()));
    }
    check_length(bytes)?;
    check_length(if count == 1 { bytes } else { bytes + 3 * count })
}

/// Refuses a clustering key whose values are, together, too long.
pub fn check_clustering<'a>(components: impl Iterator<Item = &'a [u8]>) -> Result<(), Invalid> {
    check_length(components.map(<[u8]>::len).sum())
}

#[inline]
fn check_length(bytes: usize) -> Result<(), Invalid> {
    if bytes <= KEY_BYTES_MAX {
        return Ok(());
    }
    Err(Invalid(format!("Key length of {bytes} is longer than maximum of {KEY_BYTES_MAX}")))
}

/// Appends one component to a clustering prefix. Panics over [`KEY_BYTES_MAX`] bytes: the caller
/// asked [`check_clustering`].
pub fn push_clustering(component: &[u8], out: &mut Vec<u8>) {
    out.put_u16_bytes(component);
}

/// Iterates over the components of a clustering prefix; stops at a malformed length.
#[inline]
pub fn clustering_components(prefix: &[u8]) -> ClusteringComponents<'_> {
    ClusteringComponents { rest: prefix }
}

/// Checks that a clustering prefix is well-formed and has at most `count_max` components; returns
/// how many it has.
pub fn check_clustering_prefix(prefix: &[u8], count_max: usize) -> Result<usize, Damaged> {
    let mut cursor = Cursor::new(prefix);
    let mut count = 0;
    while !cursor.is_empty() {
        cursor.u16_bytes("clustering component")?;
        count += 1;
    }
    if count_max < count {
        return Err(Damaged::new("too many clustering components", prefix.len() as u64));
    }
    Ok(count)
}

/// See [`clustering_components`].
#[derive(Clone, Debug)]
pub struct ClusteringComponents<'a> {
    rest: &'a [u8],
}

impl<'a> ClusteringComponents<'a> {
    /// What was not yet read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for ClusteringComponents<'a> {
    type Item = &'a [u8];
    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        next(&mut self.rest)
    }
}

/// Takes one length-prefixed component; `None` at the end and at a malformed length.
#[inline]
fn next<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<2>()?;
    let (component, after) = after.split_at_checked(u16::from_be_bytes(*length) as usize)?;
    *rest = after;
    Some(component)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prefix(components: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        components.iter().for_each(|component| push_clustering(component, &mut out));
        out
    }

    fn int(value: i32) -> Vec<u8> {
        prefix(&[&value.to_be_bytes()])
    }

    fn ints(a: i32, b: i32) -> Vec<u8> {
        prefix(&[&a.to_be_bytes(), &b.to_be_bytes()])
    }

    #[test]
    fn a_single_component_is_stored_as_it_is() {
        let mut out = Vec::new();
        compose_partition_key([&b"abc"[..]].into_iter(), &mut out);
        assert_eq!(out, b"abc");
        assert_eq!(split_partition_key(&out, 1), Ok(vec![&b"abc"[..]]));
    }

    #[test]
    fn several_components_have_lengths_and_ends() {
        let mut out = Vec::new();
        compose_partition_key([&b"ab"[..], &[], &[0, 0, 0, 7]].into_iter(), &mut out);
        assert_eq!(out, b"\0\x02ab\0\0\0\0\0\x04\0\0\0\x07\0");
        let split = split_partition_key(&out, 3).unwrap();
        assert_eq!(split, vec![&b"ab"[..], &[], &[0, 0, 0, 7]]);
        assert_eq!(partition_key_component(&out, 3, 2), Some(&[0, 0, 0, 7][..]));
        assert_eq!(partition_key_component(&out, 3, 3), None);
        assert!(split_partition_key(&out, 2).is_err());
        assert!(split_partition_key(&out, 4).is_err());
        assert!(split_partition_key(&out[..out.len() - 1], 3).is_err());
    }

    #[test]
    fn refusals() {
        let long = vec![0; KEY_BYTES_MAX + 1];
        let text = |result: Result<(), Invalid>| result.unwrap_err().0;
        let single = check_partition_key([&long[..]].into_iter());
        assert_eq!(text(single), "Key length of 65536 is longer than maximum of 65535");
        let pair = check_partition_key([&long[..40000], &long[..40000]].into_iter());
        assert_eq!(text(pair), "Key length of 80000 is longer than maximum of 65535");
        let framed = check_partition_key([&long[..65530], &[]].into_iter());
        assert_eq!(text(framed), "Key length of 65536 is longer than maximum of 65535");
        let empty = check_partition_key([&[][..]].into_iter());
        assert_eq!(text(empty), "Key may not be empty");
        assert!(check_partition_key([&[][..], &[]].into_iter()).is_ok());
        assert!(check_clustering([&long[..], &[]].into_iter()).is_err());
        assert!(check_clustering([&long[1..], &[]].into_iter()).is_ok());
    }

    #[test]
    fn weights_decide_where_one_prefixes_the_other() {
        let order = ClusteringOrder { columns: vec![(Type::Int, false), (Type::Int, true)] };
        let positions: Vec<(Vec<u8>, i8)> = vec![
            (vec![], -1),
            (int(1), -1),
            // A shorter key of its own, as tables WITH COMPACT STORAGE have.
            (int(1), 0),
            (ints(1, 9), -1),
            (ints(1, 9), 0),
            (ints(1, 9), 1),
            (ints(1, -3), 0),
            (int(1), 1),
            (int(2), -1),
            (ints(2, 0), 0),
            (vec![], 1),
        ];
        for (i, a) in positions.iter().enumerate() {
            for (j, b) in positions.iter().enumerate() {
                let found = order.compare((&a.0, a.1), (&b.0, b.1));
                assert_eq!(found, i.cmp(&j), "{a:?} {b:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn keys_round_trip(components in prop::collection::vec(any::<Vec<u8>>(), 2..5)) {
            let mut out = Vec::new();
            compose_partition_key(components.iter().map(Vec::as_slice), &mut out);
            let split = split_partition_key(&out, components.len()).unwrap();
            prop_assert_eq!(&split, &components.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let parts: Vec<&[u8]> = components.iter().map(Vec::as_slice).collect();
            let clustering = prefix(&parts);
            let found: Vec<&[u8]> = clustering_components(&clustering).collect();
            prop_assert_eq!(&found, &parts);
            prop_assert_eq!(check_clustering_prefix(&clustering, 4), Ok(parts.len()));
        }

        #[test]
        fn damaged_keys_never_panic(key: Vec<u8>, other: Vec<u8>, count in 0usize..5) {
            let _ = split_partition_key(&key, count);
            let _ = partition_key_component(&key, count, 2);
            let _ = check_clustering_prefix(&key, count);
            let order = ClusteringOrder { columns: vec![(Type::Text, false), (Type::Int, true)] };
            let forth = order.compare((&key, 0), (&other, 0));
            prop_assert_eq!(forth, order.compare((&other, 0), (&key, 0)).reverse());
        }
    }
}
