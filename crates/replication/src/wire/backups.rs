//! Snapshots that are taken, put into tables and removed for other nodes.
//!
//! ```text
//! SNAPSHOT_TAKE   table:16 tag:text                       -> bytes:be64
//! SNAPSHOT_CLEAR  place                                   -> nothing
//! SNAPSHOT_LOAD   into:16 place part:u8 parts:u8 resume   -> step
//!
//! place := keyspace:text table:text id:16 tag:text       text := length:be32, UTF-8
//! step  := 0, the node has no such snapshot
//!        | 1 mutations:be64 bytes:be64 resume            (no resume: the part is done)
//! ```

use super::{end, put_resume, resume};
use model::TableId;
use mutation::page::Resume;
use stdx::{Cursor, Damaged, Put};
use storage::{SnapshotPlace, SnapshotTag};

/// A snapshot that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Take {
    pub(crate) table: TableId,
    pub(crate) tag: SnapshotTag,
}

impl Take {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = self.table.as_bytes().to_vec();
        out.put_u32_bytes(self.tag.as_str().as_bytes());
        debug_assert!(Take::decode(&out).as_ref() == Ok(self), "one-form: {self:?}");
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Take, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let table = TableId::from_bytes(cursor.array("a table id")?);
        let tag = tag(&mut cursor)?;
        end(&cursor)?;
        Ok(Take { table, tag })
    }
}

/// A step of putting one part of a node's snapshot into a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) into: TableId,
    pub(crate) place: SnapshotPlace,
    /// Which part of the ring, and of how many.
    pub(crate) part: (u8, u8),
    pub(crate) from: Option<Resume>,
}

impl Load {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = self.into.as_bytes().to_vec();
        put_place(&mut out, &self.place);
        out.put_u8(self.part.0);
        out.put_u8(self.part.1);
        put_resume(&mut out, self.from.as_ref());
        debug_assert!(Load::decode(&out).as_ref() == Ok(self), "one-form: {self:?}");
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Load, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let into = TableId::from_bytes(cursor.array("a table id")?);
        let place = place(&mut cursor)?;
        let part = (cursor.u8("a part of the ring")?, cursor.u8("the parts of the ring")?);
        if part.1 <= part.0 {
            return Err(cursor.damaged("a part of the ring that there is not"));
        }
        let from = resume(&mut cursor)?;
        end(&cursor)?;
        Ok(Load { into, place, part, from })
    }
}

/// What a step has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loaded {
    pub(crate) mutations: u64,
    pub(crate) bytes: u64,
    /// Where the next one goes on; `None`: the part is done.
    pub(crate) next: Option<Resume>,
}

/// `None`: the node has no such snapshot.
pub(crate) fn encode_loaded(loaded: Option<&Loaded>) -> Vec<u8> {
    let Some(Loaded { mutations, bytes, next }) = loaded else { return vec![0] };
    let mut out = vec![1];
    out.put_u64(*mutations);
    out.put_u64(*bytes);
    put_resume(&mut out, next.as_ref());
    debug_assert!(decode_loaded(&out).as_ref() == Ok(&loaded.cloned()), "one-form: {loaded:?}");
    out
}

pub(crate) fn decode_loaded(bytes: &[u8]) -> Result<Option<Loaded>, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let loaded = match super::flag(&mut cursor, "what a step has come to")? {
        false => None,
        true => {
            let mutations = cursor.u64("mutations of a step")?;
            let bytes = cursor.u64("bytes of a step")?;
            Some(Loaded { mutations, bytes, next: resume(&mut cursor)? })
        }
    };
    end(&cursor)?;
    Ok(loaded)
}

pub(crate) fn encode_place(place: &SnapshotPlace) -> Vec<u8> {
    let mut out = Vec::new();
    put_place(&mut out, place);
    debug_assert!(decode_place(&out).as_ref() == Ok(place), "one-form: {place:?}");
    out
}

pub(crate) fn decode_place(bytes: &[u8]) -> Result<SnapshotPlace, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let place = place(&mut cursor)?;
    end(&cursor)?;
    Ok(place)
}

fn put_place(out: &mut Vec<u8>, place: &SnapshotPlace) {
    debug_assert!(!place.tag.as_str().is_empty(), "one-form: a snapshot without a name");
    out.put_u32_bytes(place.keyspace.as_bytes());
    out.put_u32_bytes(place.table.as_bytes());
    out.put(place.table_id.as_bytes());
    out.put_u32_bytes(place.tag.as_str().as_bytes());
}

fn place(cursor: &mut Cursor<'_>) -> Result<SnapshotPlace, Damaged> {
    let keyspace = text(cursor, "keyspace of a snapshot")?;
    let table = text(cursor, "table of a snapshot")?;
    let table_id = TableId::from_bytes(cursor.array("table id of a snapshot")?);
    Ok(SnapshotPlace { keyspace, table, table_id, tag: tag(cursor)? })
}

fn tag(cursor: &mut Cursor<'_>) -> Result<SnapshotTag, Damaged> {
    let text = text(cursor, "name of a snapshot")?;
    SnapshotTag::new(&text).map_err(|_| cursor.damaged("no name of a snapshot"))
}

fn text(cursor: &mut Cursor<'_>, what: &'static str) -> Result<String, Damaged> {
    let bytes = cursor.u32_bytes(what)?.to_vec();
    String::from_utf8(bytes).map_err(|_| cursor.damaged(what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::foreign::read_as_each;
    use proptest::prelude::*;

    fn any_place() -> impl Strategy<Value = SnapshotPlace> {
        (".{0,8}", ".{0,8}", any::<u128>(), "[a-z]{1,9}").prop_map(|(keyspace, table, id, tag)| {
            let tag = SnapshotTag::new(&tag).expect("letters are a name");
            SnapshotPlace { keyspace, table, table_id: TableId::from_u128(id), tag }
        })
    }

    fn any_resume() -> impl Strategy<Value = Option<Resume>> {
        let key = prop::collection::vec(any::<u8>(), 0..9);
        let after = prop::option::of((prop::collection::vec(any::<u8>(), 0..9), any::<bool>()));
        prop::option::of((key, after).prop_map(|(key, after)| {
            let after = after.map(|(prefix, is_after)| (prefix, if is_after { 1 } else { -1 }));
            Resume { key, after, rows_in_partition: 0 }
        }))
    }

    proptest! {
        /// *one-form*, *foreign-is-damaged*
        #[test]
        fn messages_have_one_form_or_are_damaged(
            place in any_place(),
            (id, from) in (any::<u128>(), any_resume()),
            (parts, part) in (1u8..=255).prop_flat_map(|parts| (Just(parts), 0..parts)),
            garbage in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let into = TableId::from_u128(id);
            let take = Take { table: into, tag: place.tag.clone() };
            prop_assert_eq!(Take::decode(&take.encode()), Ok(take));
            prop_assert_eq!(decode_place(&encode_place(&place)), Ok(place.clone()));
            let load = Load { into, place, part: (part, parts), from: from.clone() };
            let bytes = load.encode();
            for cut in 0..bytes.len() {
                prop_assert!(Load::decode(&bytes[..cut]).is_err());
            }
            prop_assert_eq!(Load::decode(&bytes), Ok(load));
            let loaded = Some(Loaded { mutations: 7, bytes: 1 << 40, next: from });
            prop_assert_eq!(decode_loaded(&encode_loaded(loaded.as_ref())), Ok(loaded));
            prop_assert_eq!(decode_loaded(&encode_loaded(None)), Ok(None));
            read_as_each(&garbage);
        }
    }
}
