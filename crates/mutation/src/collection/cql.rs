//! A blob as the value that a client gets: the native protocol's serialization of the type.

use super::CollectionView;
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
    let shadow = shadow.merge(view.tomb());
    let live = view.iter().filter_map(|(path, cell)| {
        let holds = !shadow.covers(cell.timestamp) && cell.is_live(now);
        if holds { Some((path, cell.value()?)) } else { None }
    });
    match ty {
        Type::User(user) => fields(live, user.fields.len(), out),
        Type::Map { .. } => elements(live, Parts::PathAndValue, out),
        Type::Set { .. } => elements(live, Parts::Path, out),
        _ => elements(live, Parts::Value, out),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Parts {
    Path,
    Value,
    PathAndValue,
}

fn elements<'a>(
    live: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    parts: Parts,
    out: &mut Vec<u8>,
) -> bool {
    let start = out.len();
    out.put_i32(0);
    let mut count = 0i32;
    for (path, value) in live {
        if parts != Parts::Value {
            out.put_u32_bytes(path);
        }
        if parts != Parts::Path {
            out.put_u32_bytes(value);
        }
        count += 1;
    }
    if count == 0 {
        out.truncate(start);
        return false;
    }
    out[start..start + 4].copy_from_slice(&count.to_be_bytes());
    true
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
