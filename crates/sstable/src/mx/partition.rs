//! What stands at a place in Data.db: the head of a partition, a row, a marker, or the end
//! (storage-format reference, 4.1, 4.3, 4.9). Pure: takes bytes, answers what they start with.

use crate::mx::clustering::{BoundKind, read_blocks};
use crate::mx::header::Shape;
use crate::mx::layout::{DELETION_BYTES, DeletionForm, ext_flags, flags};
use crate::mx::row::RowFlags;
use mutation::Tombstone;
use stdx::vint::SIZE_MAX;
use stdx::{Cursor, Damaged};

/// The most bytes that the head of a partition takes.
pub const PARTITION_HEAD_BYTES_MAX: usize = 2 + u16::MAX as usize + 13;

const _: () = assert!(DELETION_BYTES < 13, "a byte of flags comes before");

/// The head of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionHead<'a> {
    /// The partition key.
    pub key: &'a [u8],
    /// Deletes the whole partition.
    pub tombstone: Tombstone,
    /// Bytes of the head.
    pub bytes: usize,
}

impl<'a> PartitionHead<'a> {
    /// Reads the head that `bytes` starts with.
    pub fn parse(bytes: &'a [u8], form: DeletionForm) -> Result<PartitionHead<'a>, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let key = cursor.u16_bytes("partition key cut short")?;
        let tombstone = form.read(&mut cursor)?;
        debug_assert!(cursor.offset() <= PARTITION_HEAD_BYTES_MAX, "a head of {}", cursor.offset());
        Ok(PartitionHead { key, tombstone, bytes: cursor.offset() })
    }
}

/// What an element of a partition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The end-of-partition byte.
    End,
    /// The static row.
    Static(RowFlags),
    /// A row.
    Row(RowFlags),
    /// A range tombstone marker.
    Marker(BoundKind),
}

/// The head of an element; its body follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What it is.
    pub kind: Kind,
    /// Bytes before the body.
    pub head_bytes: usize,
    /// Bytes of the body.
    pub body_bytes: u64,
    /// Bytes from the start of the previous element, as the file claims.
    pub prev_bytes: u64,
}

impl Head {
    /// Bytes of the whole element.
    pub fn total_bytes(&self) -> u64 {
        self.head_bytes as u64 + self.body_bytes
    }

    /// Reads the head that `bytes` starts with; puts the clustering prefix into `prefix`.
    pub fn parse(bytes: &[u8], shape: &Shape, prefix: &mut Vec<u8>) -> Result<Head, Damaged> {
        prefix.clear();
        let mut cursor = Cursor::new(bytes);
        let bits = cursor.u8("flags cut short")?;
        if bits & flags::END_OF_PARTITION != 0 {
            return Ok(Head { kind: Kind::End, head_bytes: 1, body_bytes: 0, prev_bytes: 0 });
        }
        let kind = if bits & flags::IS_MARKER != 0 {
            Kind::Marker(read_bound(&mut cursor, shape, prefix)?)
        } else {
            read_row_kind(bits, &mut cursor, shape, prefix)?
        };
        let body_and_prev = cursor.vint("body size cut short")?;
        let before = cursor.offset();
        let prev_bytes = cursor.vint("previous size cut short")?;
        let prev_size = (cursor.offset() - before) as u64;
        let body_bytes = body_and_prev.checked_sub(prev_size);
        let body_bytes = body_bytes.ok_or_else(|| cursor.damaged("impossible body size"))?;
        if u64::MAX / 2 < body_bytes {
            return Err(cursor.damaged("impossible body size"));
        }
        let most = Head::bytes_max(shape.clustering.len());
        debug_assert!(cursor.offset() <= most, "a head of {} of {most} bytes", cursor.offset());
        Ok(Head { kind, head_bytes: cursor.offset(), body_bytes, prev_bytes })
    }

    /// The most bytes that a head takes, given the number of clustering columns.
    pub fn bytes_max(clustering_count: usize) -> usize {
        let blocks = clustering_count.div_ceil(32) * SIZE_MAX;
        4 + blocks + clustering_count * (SIZE_MAX + u16::MAX as usize) + 2 * SIZE_MAX
    }
}

fn read_bound(
    cursor: &mut Cursor<'_>,
    shape: &Shape,
    prefix: &mut Vec<u8>,
) -> Result<BoundKind, Damaged> {
    let kind = cursor.u8("marker kind cut short")?;
    let kind = BoundKind::of(kind).filter(|kind| kind.weight() != 0);
    let kind = kind.ok_or_else(|| cursor.damaged("unknown kind of a range tombstone marker"))?;
    let count = cursor.u16("marker size cut short")? as usize;
    read_blocks(cursor, &shape.clustering, count, prefix)?;
    Ok(kind)
}

fn read_row_kind(
    bits: u8,
    cursor: &mut Cursor<'_>,
    shape: &Shape,
    prefix: &mut Vec<u8>,
) -> Result<Kind, Damaged> {
    let ext = match bits & flags::EXTENSION {
        0 => 0,
        _ => cursor.u8("extended flags cut short")?,
    };
    if ext & ext_flags::CASSANDRA_SHADOWABLE != 0 {
        return Err(cursor.damaged("a shadowable deletion of old, which is not supported"));
    }
    if ext & !(ext_flags::IS_STATIC | ext_flags::HAS_SHADOWABLE) != 0 {
        return Err(cursor.damaged("unknown extended flags"));
    }
    let head = RowFlags { flags: bits, ext };
    if ext & ext_flags::IS_STATIC != 0 {
        return Ok(Kind::Static(head));
    }
    read_blocks(cursor, &shape.clustering, shape.clustering.len(), prefix)?;
    Ok(Kind::Row(head))
}
