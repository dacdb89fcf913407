//! Places and fragments as plain data, which may go to another shard of the process.
//!
//! What is encoded here is decoded here, by the same process: a mistake in it is ours.
//!
//! Invariants
//!  - *same-there*: what is decoded is what was encoded.

use crate::place::{At, Inside, Place};
use crate::{PartitionScope, Slice};
use model::DecoratedKey;
use mutation::{ClusteringPosition, Fragment, RingBound, SendRange, Tombstone};
use stdx::{Bytes, Cursor, Damaged, Put};

/// A [`Place`] without shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendPlace {
    scope: Result<Vec<u8>, (RingBound, RingBound)>,
    ranges: Vec<SendRange>,
    reversed: bool,
    with_static: bool,
    forwarding: bool,
    at: SendAt,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum SendAt {
    Start,
    Inside {
        key: Vec<u8>,
        static_due: bool,
        beyond: Option<(Vec<u8>, i8)>,
        open: Tombstone,
        asked: Option<SendRange>,
    },
    After(Vec<u8>),
    End,
}

impl From<&Place> for SendPlace {
    fn from(place: &Place) -> SendPlace {
        let Place { scope, slice, at } = place;
        let sent = SendPlace {
            scope: match scope {
                PartitionScope::Key(key) => Ok(key.key.to_vec()),
                PartitionScope::Range { start, end } => Err((start.clone(), end.clone())),
            },
            ranges: slice.ranges.iter().map(Into::into).collect(),
            reversed: slice.reversed,
            with_static: slice.with_static,
            forwarding: slice.forwarding,
            at: match at {
                At::Start => SendAt::Start,
                At::Inside(Inside { key, static_due, beyond, open, asked }) => SendAt::Inside {
                    key: key.key.to_vec(),
                    static_due: *static_due,
                    beyond: beyond.as_ref().map(|beyond| (beyond.prefix.to_vec(), beyond.weight)),
                    open: *open,
                    asked: asked.as_ref().map(Into::into),
                },
                At::After(key) => SendAt::After(key.key.to_vec()),
                At::End => SendAt::End,
            },
        };
        debug_assert!(Place::from(&sent) == *place, "same-there: {place:?}");
        sent
    }
}

impl From<&SendPlace> for Place {
    fn from(place: &SendPlace) -> Place {
        let key = |bytes: &[u8]| DecoratedKey::new(Bytes::copy_from(bytes));
        Place {
            scope: match &place.scope {
                Ok(bytes) => PartitionScope::Key(key(bytes)),
                Err((start, end)) => {
                    PartitionScope::Range { start: start.clone(), end: end.clone() }
                }
            },
            slice: Slice {
                ranges: place.ranges.iter().map(SendRange::range).collect(),
                reversed: place.reversed,
                with_static: place.with_static,
                forwarding: place.forwarding,
            },
            at: match &place.at {
                SendAt::Start => At::Start,
                SendAt::Inside { key: bytes, static_due, beyond, open, asked } => {
                    let beyond = beyond.as_ref().map(|(prefix, weight)| {
                        let prefix = Bytes::copy_from(prefix);
                        ClusteringPosition { prefix, weight: *weight }
                    });
                    At::Inside(Inside {
                        key: key(bytes),
                        static_due: *static_due,
                        beyond,
                        open: *open,
                        asked: asked.as_ref().map(SendRange::range),
                    })
                }
                SendAt::After(bytes) => At::After(key(bytes)),
                SendAt::End => At::End,
            },
        }
    }
}

/// Appends a fragment.
pub fn encode(fragment: &Fragment, out: &mut Vec<u8>) {
    let put_bytes = |out: &mut Vec<u8>, bytes: &[u8]| {
        out.put_u32(u32::try_from(bytes.len()).expect("no key or row is 4 GiB long"));
        out.put(bytes);
    };
    let put_tombstone = |out: &mut Vec<u8>, tombstone: &Tombstone| {
        out.put_u64(tombstone.timestamp as u64);
        out.put_u64(tombstone.deletion_time as u64);
    };
    match fragment {
        Fragment::PartitionStart { key, tombstone } => {
            out.put_u8(0);
            out.put_u64(key.token.0 as u64);
            put_bytes(out, &key.key);
            put_tombstone(out, tombstone);
        }
        Fragment::StaticRow { row } => {
            out.put_u8(1);
            put_bytes(out, row);
        }
        Fragment::Row { key, row } => {
            out.put_u8(2);
            put_bytes(out, key);
            put_bytes(out, row);
        }
        Fragment::RangeTombstoneChange { position, tombstone } => {
            debug_assert!(position.weight != 0, "a change of range tombstones at a row");
            out.put_u8(3);
            put_bytes(out, &position.prefix);
            out.put_u8(position.weight as u8);
            put_tombstone(out, tombstone);
        }
        Fragment::PartitionEnd => out.put_u8(4),
    }
}

/// All fragments of `bytes`, which they share.
pub fn decode(bytes: &[u8]) -> Result<Vec<Fragment>, Damaged> {
    let all = Bytes::copy_from(bytes);
    let mut cursor = Cursor::new(&all);
    let mut out = Vec::new();
    while !cursor.is_empty() {
        let at = cursor.offset();
        out.push(decode_one(&all, &mut cursor)?);
        debug_assert!(at < cursor.offset(), "same-there: a fragment of no bytes");
    }
    Ok(out)
}

fn decode_one(all: &Bytes, cursor: &mut Cursor<'_>) -> Result<Fragment, Damaged> {
    let bytes = |cursor: &mut Cursor<'_>| -> Result<Bytes, Damaged> {
        let length = cursor.u32("length")? as usize;
        Ok(all.slice_ref(cursor.take(length, "bytes")?))
    };
    let tombstone = |cursor: &mut Cursor<'_>| -> Result<Tombstone, Damaged> {
        let timestamp = cursor.u64("timestamp")? as i64;
        Ok(Tombstone::new(timestamp, cursor.u64("deletion time")? as i64))
    };
    Ok(match cursor.u8("kind of fragment")? {
        0 => {
            let token = model::Token(cursor.u64("token")? as i64);
            let key = DecoratedKey { token, key: bytes(cursor)? };
            debug_assert!(token == model::Token::of(&key.key), "same-there: {token:?}");
            Fragment::PartitionStart { key, tombstone: tombstone(cursor)? }
        }
        1 => Fragment::StaticRow { row: bytes(cursor)? },
        2 => Fragment::Row { key: bytes(cursor)?, row: bytes(cursor)? },
        3 => {
            let prefix = bytes(cursor)?;
            let weight = cursor.u8("weight")? as i8;
            let position = ClusteringPosition { prefix, weight };
            Fragment::RangeTombstoneChange { position, tombstone: tombstone(cursor)? }
        }
        4 => Fragment::PartitionEnd,
        _ => return Err(cursor.damaged("kind of fragment")),
    })
}
