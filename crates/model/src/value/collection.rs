//! The parts of frozen collections, tuples, user types and vectors.
//!
//! A list or set is a 32-bit count and as many elements; a map alternates keys and values; a tuple
//! or user type has its fields without a count, the last ones perhaps missing. Each part has a
//! signed 32-bit length, negative for null. A vector has exactly its dimension: elements of a
//! fixed length stand side by side, others have a vint length.
//!
//! [`Parts`] reads all of these without copying. Damage ends the iteration with one `Err`.

use crate::types::Type;
use stdx::{Cursor, Damaged, Put};

/// A part of a collection, tuple or vector: `None` is null.
pub type Part<'a> = Option<&'a [u8]>;

/// Iterates over the parts of a value. See the functions that make one.
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    cursor: Cursor<'a>,
    framing: Framing,
    /// Parts still to come; for tuples whatever the bytes hold.
    left: Option<usize>,
    ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// A signed 32-bit length before each part.
    Length,
    /// A vint length before each part.
    Vint,
    /// Each part has so many bytes.
    Fixed(usize),
}

/// The elements of a frozen list or set.
pub fn list_elements(bytes: &[u8]) -> Parts<'_> {
    counted(bytes, 1)
}

/// The keys and values of a frozen map, alternating.
pub fn map_parts(bytes: &[u8]) -> Parts<'_> {
    counted(bytes, 2)
}

/// The entries of a frozen map, as far as it is well-formed; null keys and values read as empty.
pub fn map_entries(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut parts = map_parts(bytes).map_while(Result::ok);
    std::iter::from_fn(move || {
        let key = parts.next()?;
        let value = parts.next()?;
        Some((key.unwrap_or_default(), value.unwrap_or_default()))
    })
}

/// The fields of a tuple or user type: as many as are there.
pub fn fields(bytes: &[u8]) -> Parts<'_> {
    Parts { cursor: Cursor::new(bytes), framing: Framing::Length, left: None, ended: false }
}

/// The elements of a vector.
pub fn vector_elements<'a>(element: &Type, dimension: u16, bytes: &'a [u8]) -> Parts<'a> {
    let framing = element.fixed_length().map_or(Framing::Vint, Framing::Fixed);
    let left = Some(dimension as usize);
    Parts { cursor: Cursor::new(bytes), framing, left, ended: false }
}

/// The parts of a value of any collection, tuple, user or vector type, in the order of
/// [`part_type`]; of another type, none.
pub(crate) fn parts_of<'a>(ty: &Type, bytes: &'a [u8]) -> Option<Parts<'a>> {
    match ty {
        Type::List { .. } | Type::Set { .. } => Some(list_elements(bytes)),
        Type::Map { .. } => Some(map_parts(bytes)),
        Type::Tuple(_) | Type::User(_) => Some(fields(bytes)),
        Type::Vector { element, dimension } => Some(vector_elements(element, *dimension, bytes)),
        _ => None,
    }
}

/// The type of the part at `index` of [`parts_of`]; `None` past a tuple's last field.
pub(crate) fn part_type(ty: &Type, index: usize) -> Option<&Type> {
    match ty {
        Type::List { element, .. } | Type::Set { element, .. } | Type::Vector { element, .. } => {
            Some(element)
        }
        Type::Map { key, value, .. } => Some(if index.is_multiple_of(2) { key } else { value }),
        _ => ty.field_type(index),
    }
}

fn counted(bytes: &[u8], parts_per_count: usize) -> Parts<'_> {
    let mut cursor = Cursor::new(bytes);
    let count = cursor.i32("collection size").ok().and_then(|count| usize::try_from(count).ok());
    match count {
        Some(count) => {
            let left = Some(count.saturating_mul(parts_per_count));
            Parts { cursor, framing: Framing::Length, left, ended: false }
        }
        // Reading the first part from nothing is the damage that the iterator reports.
        None => Parts {
            cursor: Cursor::new(bytes),
            framing: Framing::Fixed(usize::MAX),
            left: Some(1),
            ended: false,
        },
    }
}

impl<'a> Parts<'a> {
    /// How many parts are still to come, by the count that the bytes state; `None` for tuples. May
    /// exceed what the bytes hold: do not reserve memory for it.
    pub fn left(&self) -> Option<usize> {
        self.left
    }

    /// What was not yet read.
    pub fn rest(&self) -> &'a [u8] {
        self.cursor.rest()
    }

    fn read(&mut self) -> Result<Part<'a>, Damaged> {
        let what = "element of a collection";
        match self.framing {
            Framing::Fixed(bytes) => self.cursor.take(bytes, what).map(Some),
            Framing::Vint => self.cursor.vint_bytes(what).map(Some),
            Framing::Length => {
                let mut ahead = self.cursor;
                let part = match usize::try_from(ahead.i32(what)?) {
                    Ok(bytes) => Some(ahead.take(bytes, what)?),
                    Err(_) => None,
                };
                self.cursor = ahead;
                Ok(part)
            }
        }
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = Result<Part<'a>, Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let at_end = match self.left {
            Some(left) => left == 0,
            None => self.cursor.is_empty(),
        };
        if at_end {
            self.ended = true;
            let trailing = !self.cursor.is_empty();
            return trailing.then(|| Err(self.cursor.damaged("bytes after the last element")));
        }
        let part = self.read();
        self.ended = part.is_err();
        self.left = self.left.map(|left| left - 1);
        Some(part)
    }
}

/// Appends one part with its 32-bit length.
fn put_part(part: Part<'_>, out: &mut Vec<u8>) {
    match part {
        None => out.put_i32(-1),
        Some(bytes) => {
            let length = i32::try_from(bytes.len()).expect("a value of less than 2 GiB");
            out.put_i32(length);
            out.put(bytes);
        }
    }
}

/// A frozen list or set of these elements, in this order.
pub fn write_collection<'a>(elements: impl ExactSizeIterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    out.put_i32(i32::try_from(elements.len()).expect("a collection of less than 2^31 elements"));
    elements.for_each(|element| put_part(Some(element), out));
}

/// A frozen map of these entries, in this order.
pub fn write_map<'a>(
    entries: impl ExactSizeIterator<Item = (&'a [u8], &'a [u8])>,
    out: &mut Vec<u8>,
) {
    out.put_i32(i32::try_from(entries.len()).expect("a map of less than 2^31 entries"));
    for (key, value) in entries {
        put_part(Some(key), out);
        put_part(Some(value), out);
    }
}

/// A tuple or user type of these fields.
pub fn write_tuple<'a>(fields: impl Iterator<Item = Part<'a>>, out: &mut Vec<u8>) {
    fields.for_each(|field| put_part(field, out));
}

/// A vector of these elements. Panics when an element of a fixed-length type has another length:
/// the caller has validated them.
pub fn write_vector<'a>(
    element: &Type,
    elements: impl Iterator<Item = &'a [u8]>,
    out: &mut Vec<u8>,
) {
    let fixed = element.fixed_length();
    for bytes in elements {
        match fixed {
            Some(length) => {
                assert!(bytes.len() == length, "vector element of {} bytes", bytes.len());
                out.put(bytes);
            }
            None => out.put_vint_bytes(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(elements: &[i32]) -> Vec<u8> {
        let elements: Vec<[u8; 4]> = elements.iter().map(|element| element.to_be_bytes()).collect();
        let mut out = Vec::new();
        write_collection(elements.iter().map(|element| &element[..]), &mut out);
        out
    }

    #[test]
    fn golden_bytes() {
        assert_eq!(set(&[1, -1]), b"\0\0\0\x02\0\0\0\x04\0\0\0\x01\0\0\0\x04\xff\xff\xff\xff");
        let mut tuple = Vec::new();
        write_tuple([Some(&b"a"[..]), None, Some(&[])].into_iter(), &mut tuple);
        assert_eq!(tuple, b"\0\0\0\x01a\xff\xff\xff\xff\0\0\0\0");
        let mut vector = Vec::new();
        write_vector(&Type::SmallInt, [&[0, 1][..], &[0, 2]].into_iter(), &mut vector);
        assert_eq!(vector, b"\x02\0\x01\x02\0\x02");
        let mut packed = Vec::new();
        write_vector(&Type::Int, [&[0, 0, 0, 1][..], &[0, 0, 0, 2]].into_iter(), &mut packed);
        assert_eq!(packed, b"\0\0\0\x01\0\0\0\x02");
    }

    #[test]
    fn parts_end_with_one_error_when_damaged() {
        let good = set(&[1, 2]);
        assert_eq!(list_elements(&good).filter(Result::is_ok).count(), 2);
        for length in 0..good.len() {
            let parts: Vec<_> = list_elements(&good[..length]).collect();
            assert!(parts.last().unwrap().is_err(), "{length}");
            assert!(parts.iter().rev().skip(1).all(Result::is_ok));
        }
        let long = [&good[..], &[0]].concat();
        assert!(list_elements(&long).last().unwrap().is_err());
        assert!(list_elements(&[0xff; 4]).next().unwrap().is_err());
        assert_eq!(fields(&[]).count(), 0);
    }
}
