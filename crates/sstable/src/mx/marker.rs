//! Range tombstone markers (storage-format reference, 4.9): what a stream of tombstone changes
//! becomes on disk, and back.

use crate::mx::clustering::BoundKind;
use crate::mx::layout::Bases;
use mutation::Tombstone;
use stdx::{Cursor, Damaged};

/// The kind of marker by which `before` becomes `after` at a position of that weight. `None`:
/// nothing changes.
pub fn kind_of_change(before: Tombstone, after: Tombstone, weight: i8) -> Option<BoundKind> {
    assert!(weight != 0, "a tombstone change at a row");
    let lower = weight < 0;
    Some(match (before.is_none(), after.is_none()) {
        (true, true) => return None,
        (true, false) if lower => BoundKind::InclStart,
        (true, false) => BoundKind::ExclStart,
        (false, true) if lower => BoundKind::ExclEnd,
        (false, true) => BoundKind::InclEnd,
        (false, false) if before == after => return None,
        (false, false) if lower => BoundKind::ExclEndInclStart,
        (false, false) => BoundKind::InclEndExclStart,
    })
}

/// Appends the body of a marker: the tombstones that end and start.
pub fn put_marker_body(
    kind: BoundKind,
    before: Tombstone,
    after: Tombstone,
    bases: &Bases,
    out: &mut Vec<u8>,
) {
    debug_assert!(before.is_none() == kind.is_start(), "{kind:?} where {before:?} is open");
    debug_assert!(
        after.is_none() != (kind.is_start() || kind.is_boundary()),
        "{kind:?} behind which {after:?} is open"
    );
    if !kind.is_start() {
        bases.put_tombstone(before, out);
    }
    if kind.is_start() || kind.is_boundary() {
        bases.put_tombstone(after, out);
    }
}

/// Reads the body of a marker: the tombstone that ends and the one that starts.
pub fn read_marker_body(
    kind: BoundKind,
    body: &[u8],
    bases: &Bases,
) -> Result<(Tombstone, Tombstone), Damaged> {
    let mut cursor = Cursor::new(body);
    let (mut before, mut after) = (Tombstone::NONE, Tombstone::NONE);
    if !kind.is_start() {
        before = bases.tombstone(&mut cursor)?;
    }
    if kind.is_start() || kind.is_boundary() {
        after = bases.tombstone(&mut cursor)?;
    }
    if !cursor.is_empty() {
        return Err(cursor.damaged("range tombstone marker shorter than its size says"));
    }
    Ok((before, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: i64, after: i64, weight: i8, expected: Option<BoundKind>, bytes: &[u8]) {
        let at = |delta: i64| match delta {
            0 => Tombstone::NONE,
            _ => Tombstone { timestamp: delta, deletion_time: delta },
        };
        let bases = Bases { timestamp: 0, deletion_time: 0, ttl: 0 };
        let kind = kind_of_change(at(before), at(after), weight);
        assert_eq!(kind, expected);
        if let Some(kind) = kind {
            let mut out = Vec::new();
            put_marker_body(kind, at(before), at(after), &bases, &mut out);
            assert_eq!(out, bytes);
            assert_eq!(read_marker_body(kind, &out, &bases), Ok((at(before), at(after))));
            assert_eq!(kind.weight(), weight);
        }
    }

    #[test]
    fn changes_become_bounds_and_boundaries() {
        check(0, 0, -1, None, &[]);
        check(3, 3, 1, None, &[]);
        check(0, 3, -1, Some(BoundKind::InclStart), &[3, 3]);
        check(0, 3, 1, Some(BoundKind::ExclStart), &[3, 3]);
        check(3, 0, -1, Some(BoundKind::ExclEnd), &[3, 3]);
        check(3, 0, 1, Some(BoundKind::InclEnd), &[3, 3]);
        check(3, 4, -1, Some(BoundKind::ExclEndInclStart), &[3, 3, 4, 4]);
        check(3, 4, 1, Some(BoundKind::InclEndExclStart), &[3, 3, 4, 4]);
    }
}
