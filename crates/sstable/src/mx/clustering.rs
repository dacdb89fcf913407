//! Clustering keys on disk: blocks of up to 32 values behind a bitmap of the empty and the
//! absent (storage-format reference, 4.4), and the kinds of range tombstone bounds (4.9).
//!
//! In memory a key is a prefix in the sense of [`model::key`]: per component a 16-bit length and
//! the value.

use model::key::{clustering_components, push_clustering};
use stdx::{Cursor, Damaged, Put};

/// Values per block.
const BLOCK: usize = 32;
/// Values of two bits each whose header is below 0x80.
const SHORT: usize = 3;

const _: () = assert!(2 * BLOCK <= u64::BITS as usize && 2 * SHORT < 8);

/// What a range tombstone bound, or a position in the promoted index, is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BoundKind {
    /// Ends before the prefix.
    ExclEnd = 0,
    /// Starts with the prefix.
    InclStart = 1,
    /// One ends before the prefix and another starts with it.
    ExclEndInclStart = 2,
    /// The static row.
    Static = 3,
    /// A row.
    Row = 4,
    /// One ends with the prefix and another starts after it.
    InclEndExclStart = 5,
    /// Ends with the prefix.
    InclEnd = 6,
    /// Starts after the prefix.
    ExclStart = 7,
}

impl BoundKind {
    /// The kind of a byte.
    pub fn of(byte: u8) -> Option<BoundKind> {
        Some(match byte {
            0 => BoundKind::ExclEnd,
            1 => BoundKind::InclStart,
            2 => BoundKind::ExclEndInclStart,
            3 => BoundKind::Static,
            4 => BoundKind::Row,
            5 => BoundKind::InclEndExclStart,
            6 => BoundKind::InclEnd,
            7 => BoundKind::ExclStart,
            _ => return None,
        })
    }

    /// Where it lies relative to what its prefix names: before (-1), at (0), after (+1).
    pub fn weight(self) -> i8 {
        match self {
            BoundKind::ExclEnd | BoundKind::InclStart | BoundKind::ExclEndInclStart => -1,
            BoundKind::Row | BoundKind::Static => 0,
            BoundKind::InclEndExclStart | BoundKind::InclEnd | BoundKind::ExclStart => 1,
        }
    }

    /// Whether one tombstone ends and another starts here.
    pub fn is_boundary(self) -> bool {
        matches!(self, BoundKind::ExclEndInclStart | BoundKind::InclEndExclStart)
    }

    /// Whether a tombstone starts here and none ends.
    pub fn is_start(self) -> bool {
        matches!(self, BoundKind::InclStart | BoundKind::ExclStart)
    }
}

/// Appends the first `count` components of `prefix`; those it does not have are marked absent.
/// `fixed` has the fixed length of each component's type.
pub fn put_blocks(prefix: &[u8], fixed: &[Option<usize>], count: usize, out: &mut Vec<u8>) {
    assert!(count <= fixed.len(), "more clustering values than columns");
    debug_assert!(count <= fixed.len(), "{count} values of {} columns", fixed.len());
    if count <= SHORT {
        return put_short(prefix, &fixed[..count], out);
    }
    for start in (0..count).step_by(BLOCK) {
        let end = count.min(start + BLOCK);
        out.put_vint(block_header(prefix, start, end));
        let components = clustering_components(prefix).skip(start).take(end - start);
        for (component, fixed) in components.zip(&fixed[start..end]) {
            match *fixed {
                _ if component.is_empty() => {}
                Some(length) => {
                    assert_eq!(component.len(), length, "a clustering value of a wrong length");
                    out.put(component);
                }
                None => out.put_vint_bytes(component),
            }
        }
    }
}

/// A block of so few values that its header is a byte, in one pass.
fn put_short(prefix: &[u8], fixed: &[Option<usize>], out: &mut Vec<u8>) {
    if fixed.is_empty() {
        return;
    }
    let (at, mut header) = (out.len(), 0);
    out.put_u8(header);
    let mut components = clustering_components(prefix);
    for (index, fixed) in fixed.iter().enumerate() {
        match (components.next(), *fixed) {
            (None, _) => header |= 2 << (2 * index),
            (Some([]), _) => header |= 1 << (2 * index),
            (Some(component), Some(length)) => {
                assert_eq!(component.len(), length, "a clustering value of a wrong length");
                out.put(component);
            }
            (Some(component), None) => out.put_vint_bytes(component),
        }
    }
    debug_assert!(header < 0x80, "a header of more than a byte: {header}");
    debug_assert!(components.next().is_none(), "a key of more values than columns");
    out[at] = header;
}

fn block_header(prefix: &[u8], start: usize, end: usize) -> u64 {
    debug_assert!(start < end && end - start <= BLOCK, "a block of {start} to {end}");
    let mut header = 0u64;
    let mut components = clustering_components(prefix).skip(start);
    for index in 0..end - start {
        match components.next() {
            Some([]) => header |= 1 << (2 * index),
            Some(_) => {}
            None => header |= 2 << (2 * index),
        }
    }
    header
}

/// Reads `count` components and appends them to `prefix`. Absent ones may only stand at the end
/// (short keys of compact tables).
pub fn read_blocks(
    cursor: &mut Cursor<'_>,
    fixed: &[Option<usize>],
    count: usize,
    prefix: &mut Vec<u8>,
) -> Result<(), Damaged> {
    let Some(fixed) = fixed.get(..count) else {
        return Err(cursor.damaged("more clustering values than columns"));
    };
    let mut ended = false;
    for block in fixed.chunks(BLOCK) {
        let mut header = cursor.vint("clustering block header cut short")?;
        for fixed in block {
            let (empty, absent) = (header & 1 != 0, header & 2 != 0);
            header >>= 2;
            if absent {
                ended = true;
                continue;
            }
            if ended {
                return Err(cursor.damaged("clustering value after an absent one"));
            }
            let value = match *fixed {
                _ if empty => &[],
                Some(length) => cursor.take(length, "clustering value cut short")?,
                None => cursor.vint_bytes("clustering value cut short")?,
            };
            if u16::MAX as usize <= value.len() {
                return Err(cursor.damaged("clustering value over 65534 bytes"));
            }
            push_clustering(value, prefix);
        }
        if header != 0 {
            return Err(cursor.damaged("clustering block header with unknown bits"));
        }
    }
    Ok(())
}

/// Appends a position as the promoted index has it: kind, for bounds their size, and the values.
pub fn put_position(kind: BoundKind, prefix: &[u8], fixed: &[Option<usize>], out: &mut Vec<u8>) {
    debug_assert!(BoundKind::of(kind as u8) == Some(kind), "a kind of bound that is not read");
    out.put_u8(kind as u8);
    if kind == BoundKind::Row {
        return put_blocks(prefix, fixed, fixed.len(), out);
    }
    let count = clustering_components(prefix).count();
    out.put_u16(count as u16);
    put_blocks(prefix, fixed, count, out);
}

/// Reads a position of the promoted index: appends its prefix, answers its weight.
pub fn read_position(
    cursor: &mut Cursor<'_>,
    fixed: &[Option<usize>],
    prefix: &mut Vec<u8>,
) -> Result<i8, Damaged> {
    let kind = cursor.u8("clustering kind cut short")?;
    let Some(kind) = BoundKind::of(kind) else {
        return Err(cursor.damaged("unknown clustering kind"));
    };
    let count = match kind {
        BoundKind::Row => fixed.len(),
        _ => cursor.u16("clustering bound size cut short")? as usize,
    };
    read_blocks(cursor, fixed, count, prefix)?;
    Ok(kind.weight())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn prefix_of(values: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        values.iter().for_each(|value| push_clustering(value, &mut out));
        out
    }

    #[test]
    fn golden_blocks() {
        let fixed = [Some(4), None, None];
        let mut out = Vec::new();
        put_blocks(&prefix_of(&[&[0, 0, 3, 0xe9], b"", b"ab"]), &fixed, 3, &mut out);
        assert_eq!(out, [0x04, 0, 0, 3, 0xe9, 2, b'a', b'b']);
        out.clear();
        put_blocks(&prefix_of(&[&[0, 0, 0, 1]]), &fixed, 3, &mut out);
        assert_eq!(out, [0x28, 0, 0, 0, 1]);
    }

    proptest! {
        #[test]
        fn blocks_round_trip(
            values in prop_oneof![
                vec(vec(any::<u8>(), 0..5), 0..80),
                vec(vec(any::<u8>(), 0..5), 0..5),
            ],
            given in 0usize..80,
        ) {
            let fixed: Vec<Option<usize>> =
                values.iter().enumerate().map(|(i, v)| (i % 3 == 0).then_some(v.len())).collect();
            let given = given.min(values.len());
            let values: Vec<&[u8]> = values[..given].iter().map(|v| v.as_slice()).collect();
            let prefix = prefix_of(&values);
            let mut out = Vec::new();
            put_blocks(&prefix, &fixed, fixed.len(), &mut out);
            // A block that is short is written as any is.
            let mut first = Vec::new();
            let count = fixed.len().min(BLOCK);
            if 0 < count {
                first.put_vint(block_header(&prefix, 0, count));
            }
            prop_assert!(out.starts_with(&first));
            let mut cursor = Cursor::new(&out);
            let mut back = Vec::new();
            read_blocks(&mut cursor, &fixed, fixed.len(), &mut back).unwrap();
            prop_assert!(cursor.is_empty());
            prop_assert_eq!(&back, &prefix);
            for cut in 0..out.len() {
                prop_assert!(
                    read_blocks(&mut Cursor::new(&out[..cut]), &fixed, fixed.len(), &mut Vec::new())
                        .is_err()
                );
            }
        }
    }
}
