//! A blob as the value that a client gets: the native protocol's serialization of the type.

use super::{CollectionIter, CollectionView};
use crate::tombstone::Tombstone;
use model::Type;
use stdx::Put;

/// Appends the live elements as a CQL value of type `ty`: for lists, sets and maps a count and
/// the elements, for user types every field of the type, null where there is none. Returns
/// whether any element is live; if not, the value is null and nothing was appended.
pub fn to_cql(
    ty: &Type,
    view: CollectionView<'_>,
    shadow: Tombstone,
    now: i64,
    out: &mut Vec<u8>,
) -> bool {
    if let Type::User(user) = ty {
        let shadow = shadow.merge(view.tomb());
        let live = view.iter().filter_map(|(path, cell)| {
            let holds = !shadow.covers(cell.timestamp) && cell.is_live(now);
            if holds { Some((path, cell.value()?)) } else { None }
        });
        return fields(live, user.fields.len(), out);
    }
    let Some(mut elements) = ToCql::begin(ty, view, (shadow, now), out) else { return false };
    elements.step(usize::MAX, out);
    elements.end(out)
}

/// A list, set or map on its way to a client, in steps: as [`to_cql`].
#[derive(Clone, Debug)]
pub struct ToCql<'a> {
    left: CollectionIter<'a>,
    shadow: Tombstone,
    now: i64,
    parts: Parts,
    start: usize,
    count: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parts {
    Path,
    Value,
    PathAndValue,
}

impl<'a> ToCql<'a> {
    /// Begins to append; `None` for a user type.
    pub fn begin(
        ty: &Type,
        view: CollectionView<'a>,
        (shadow, now): (Tombstone, i64),
        out: &mut Vec<u8>,
    ) -> Option<ToCql<'a>> {
        let parts = match ty {
            Type::User(_) => return None,
            Type::Map { .. } => Parts::PathAndValue,
            Type::Set { .. } => Parts::Path,
            _ => Parts::Value,
        };
        let start = out.len();
        out.put_i32(0);
        let shadow = shadow.merge(view.tomb());
        Some(ToCql { left: view.iter(), shadow, now, parts, start, count: 0 })
    }

    /// Goes on with at most so many elements; whether there is none left.
    pub fn step(&mut self, elements_max: usize, out: &mut Vec<u8>) -> bool {
        let (shadow, now, parts) = (self.shadow, self.now, self.parts);
        for _ in 0..elements_max.max(1) {
            let Some((path, cell)) = self.left.next() else { return true };
            if shadow.covers(cell.timestamp) || !cell.is_live(now) {
                continue;
            }
            let Some(value) = cell.value() else { continue };
            if parts != Parts::Value {
                out.put_u32_bytes(path);
            }
            if parts != Parts::Path {
                out.put_u32_bytes(value);
            }
            self.count += 1;
        }
        false
    }

    /// After the last element: whether any is live; if not, nothing was appended.
    pub fn end(&self, out: &mut Vec<u8>) -> bool {
        if self.count == 0 {
            out.truncate(self.start);
            return false;
        }
        out[self.start..self.start + 4].copy_from_slice(&self.count.to_be_bytes());
        true
    }
}

fn fields<'a>(
    live: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    field_count: usize,
    out: &mut Vec<u8>,
) -> bool {
    let start = out.len();
    let mut next = 0;
    let mut any = false;
    for (path, value) in live {
        let index = match path {
            [high, low] => u16::from_be_bytes([*high, *low]) as usize,
            _ => continue,
        };
        if index < next || field_count <= index {
            continue; // A field that the type no longer has, or paths out of order.
        }
        (next..index).for_each(|_| out.put_i32(-1));
        out.put_u32_bytes(value);
        next = index + 1;
        any = true;
    }
    if !any {
        out.truncate(start);
        return false;
    }
    (next..field_count).for_each(|_| out.put_i32(-1));
    true
}
