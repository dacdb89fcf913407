//! From a collection value, as a client sends it, to the blob that writes its elements.
//!
//! Invariants
//!  - *known-length*: the value is looked through once to learn how long the blob becomes, and
//!    written once, to where it stays; nothing is allocated for an element.

use super::SinkState;
use crate::cell::{Cell, CellState};
use crate::tombstone::Tombstone;
use model::{Type, value};

/// Bytes of a list's path.
const TIMEUUID_BYTES: usize = 16;
/// Bytes of a blob without tombstone and elements.
const VOID_BYTES: usize = 5;
/// Bytes of the path of a user type's field.
const FIELD_BYTES: usize = 2;

/// The elements of one value of a multi-cell column, all with the same time and lifetime.
#[derive(Clone, Copy, Debug)]
pub struct ValueElements<'a> {
    kind: Kind,
    value: &'a [u8],
    tomb: Tombstone,
    stamp: Cell<'static>,
    blob_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Map,
    Set,
    List,
    Fields,
}

impl<'a> ValueElements<'a> {
    /// The elements of `value`, a value of type `ty`: cells as `stamp` (a cell without a value that
    /// is live or expires) under the deletion `tomb`. `None` when they cannot be written as they
    /// come: the value is damaged or its sets or maps are not sorted, or `tomb` covers them.
    pub fn new(
        ty: &Type,
        value: &'a [u8],
        tomb: Tombstone,
        stamp: Cell<'static>,
    ) -> Option<ValueElements<'a>> {
        let kind = match ty {
            Type::Map { .. } => Kind::Map,
            Type::Set { .. } => Kind::Set,
            Type::List { .. } => Kind::List,
            Type::User(_) => Kind::Fields,
            _ => return None,
        };
        if tomb.covers(stamp.timestamp) || stamp.value().is_none() {
            return None;
        }
        let elements = ValueElements { kind, value, tomb, stamp, blob_bytes: 0 };
        let blob_bytes = elements.measure(ty)?;
        Some(ValueElements { blob_bytes, ..elements })
    }

    /// The bytes that [`ValueElements::write`] appends.
    pub fn blob_bytes(&self) -> usize {
        self.blob_bytes
    }

    /// Whether they say nothing: there is none, and no deletion.
    pub fn is_void(&self) -> bool {
        self.blob_bytes == VOID_BYTES
    }

    /// Appends the blob. `path` is asked for the paths of a list's elements: timeuuids that ascend.
    pub fn write(&self, mut path: impl FnMut() -> [u8; TIMEUUID_BYTES], out: &mut Vec<u8>) {
        let start = out.len();
        out.reserve(self.blob_bytes);
        let mut sink = SinkState::begin(out, self.tomb);
        match self.kind {
            Kind::Map => value::map_entries(self.value)
                .for_each(|(key, value)| sink.push(out, key, &self.cell(value))),
            Kind::Set => self.parts().for_each(|element| sink.push(out, element, &self.cell(&[]))),
            Kind::List => {
                self.parts().for_each(|element| sink.push(out, &path(), &self.cell(element)));
            }
            Kind::Fields => fields(self.value)
                .for_each(|(index, field)| sink.push(out, &index, &self.cell(field))),
        }
        sink.finish(out);
        assert!(out.len() - start == self.blob_bytes, "known-length");
    }

    /// The parts of a list or set that are not null.
    fn parts(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        value::list_elements(self.value).filter_map(|part| part.ok().flatten())
    }

    fn cell<'v>(&self, value: &'v [u8]) -> Cell<'v> {
        let timestamp = self.stamp.timestamp;
        match self.stamp.state {
            CellState::Expiring { expiry, ttl, .. } => {
                Cell::expiring(timestamp, value, expiry, ttl)
            }
            _ => Cell::live(timestamp, value),
        }
    }

    /// How long the blob becomes.
    fn measure(&self, ty: &Type) -> Option<usize> {
        let head_bytes = if self.tomb.is_none() { VOID_BYTES } else { VOID_BYTES + 16 };
        let frame_bytes = 8 + self.stamp.blob_bytes();
        let mut bytes = head_bytes;
        let mut add = |path: usize, value: usize| bytes += frame_bytes + path + value;
        match (self.kind, ty) {
            (Kind::Map, Type::Map { key: key_type, .. }) => {
                let mut parts = value::collection::map_parts(self.value);
                let mut last: Option<&[u8]> = None;
                while let Some(key) = parts.next() {
                    let (key, value) = (key.ok()??, parts.next()?.ok()??);
                    if last.is_some_and(|last| value::compare(key_type, last, key).is_ge()) {
                        return None;
                    }
                    last = Some(key);
                    add(key.len(), value.len());
                }
            }
            (Kind::Set, Type::Set { element, .. }) => {
                let mut last: Option<&[u8]> = None;
                for part in value::list_elements(self.value) {
                    let part = part.ok()??;
                    if last.is_some_and(|last| value::compare(element, last, part).is_ge()) {
                        return None;
                    }
                    last = Some(part);
                    add(part.len(), 0);
                }
            }
            (Kind::List, _) => {
                for part in value::list_elements(self.value) {
                    if let Some(part) = part.ok()? {
                        add(TIMEUUID_BYTES, part.len());
                    }
                }
            }
            (Kind::Fields, Type::User(user)) => {
                for (index, part) in value::fields(self.value).enumerate() {
                    let part = part.ok().filter(|_| index < user.fields.len())?;
                    if let Some(part) = part {
                        add(FIELD_BYTES, part.len());
                    }
                }
            }
            _ => return None,
        }
        Some(bytes)
    }
}

/// The fields of a user type's value that are not null, with their paths.
fn fields(bytes: &[u8]) -> impl Iterator<Item = ([u8; FIELD_BYTES], &[u8])> {
    let fields = value::fields(bytes).map_while(Result::ok).enumerate();
    fields.filter_map(|(index, field)| Some(((index as u16).to_be_bytes(), field?)))
}
