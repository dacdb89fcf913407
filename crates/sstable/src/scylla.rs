//! Scylla.db: what else is known of a file, as tagged parts (storage-format reference,
//! section 11).
//!
//! Invariants
//!  - *tagged-once*: a tag, a digest of a component, stands once in what is written.
//!  - *same-length*: a file with another digest is as long as before.

use model::{ColumnKind, RingShare, TableSchema, Uuid};
use stdx::checksum::crc32;
use stdx::{Cursor, Damaged, Put};

/// What the writer promises of a file.
pub mod features {
    /// All that this project's writer promises: every one that is known.
    pub const ALL: u64 = 0x7f;
    /// What each bit is called, the lowest first.
    pub const NAMES: [&str; 7] = [
        "NonCompoundPIEntries",
        "NonCompoundRangeTombstones",
        "ShadowableTombstones",
        "CorrectStaticCompact",
        "CorrectEmptyCounters",
        "CorrectUDTsInCollections",
        "CorrectLastPiBlockWidth",
    ];
    /// Widths of promoted index blocks end before the end-of-partition byte.
    pub const LAST_BLOCK_WIDTH: u64 = 1 << 6;
}

mod tag {
    pub(super) const SHARDING: u32 = 1;
    pub(super) const FEATURES: u32 = 2;
    pub(super) const EXTENSIONS: u32 = 3;
    pub(super) const RUN_ID: u32 = 4;
    pub(super) const LARGE_DATA: u32 = 5;
    pub(super) const ORIGIN: u32 = 6;
    pub(super) const BUILD_ID: u32 = 7;
    pub(super) const VERSION: u32 = 8;
    pub(super) const TIMESTAMPS: u32 = 9;
    pub(super) const SSTABLE_ID: u32 = 10;
    pub(super) const SCHEMA: u32 = 11;
    pub(super) const DIGESTS: u32 = 12;
    pub(super) const LARGE_RECORDS: u32 = 13;
}

/// The extension attribute that names the part of a ring that all partitions of the file are of, as
/// [`RingShare`] prints it.
pub const SHARE: &str = "nereid.share";

/// The parts that are written and read; other tags are skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// First and last token.
    pub tokens: Option<(i64, i64)>,
    /// Bits of [`features`].
    pub features: u64,
    /// Shared by the files of one run, whose tokens do not overlap.
    pub run_id: Option<Uuid>,
    /// Kind and numbers: 1 partition bytes, 2 row bytes, 3 cell bytes, 4 rows, 5 elements.
    pub large_data: Vec<(u32, LargeData)>,
    /// What made it: "memtable", "compaction".
    pub origin: String,
    /// Of the program that wrote it.
    pub version: String,
    /// 1: least timestamp of live data, 2: of live row markers.
    pub timestamps: Vec<(u32, i64)>,
    /// Kept when the file moves.
    pub sstable_id: Option<Uuid>,
    /// Serialized form of the schema, see [`schema_part`].
    pub schema: Vec<u8>,
    /// Component number and CRC32 of its file.
    pub digests: Vec<(u32, u32)>,
    /// Token ranges of the shard that wrote the file, as read.
    pub sharding: Vec<ShardingRange>,
    /// Names and values: this project writes [`SHARE`].
    pub extensions: Vec<(String, String)>,
    /// Of the program that wrote it, as read: this project writes none.
    pub build_id: String,
    /// The largest things of the file.
    pub large_records: Vec<LargeRecord>,
}

/// A range of tokens, each end with whether it is excluded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardingRange {
    /// Where it starts.
    pub left: (bool, Vec<u8>),
    /// Where it ends.
    pub right: (bool, Vec<u8>),
}

/// One of the largest things of its kind in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LargeRecord {
    /// As in [`Metadata::large_data`].
    pub kind: u32,
    /// Where it is: the keys as their text or bytes.
    pub partition_key: Vec<u8>,
    /// Empty for a partition.
    pub clustering_key: Vec<u8>,
    /// Empty but for cells and collections.
    pub column: Vec<u8>,
    /// Bytes, rows or elements.
    pub value: u64,
    /// Of a collection.
    pub elements: u64,
    /// In a partition.
    pub range_tombstones: u64,
    /// In a partition.
    pub dead_rows: u64,
}

/// Numbers of one kind of large data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargeData {
    /// The greatest value.
    pub max: u64,
    /// From which on a value counts as large.
    pub threshold: u64,
    /// How many were above the threshold.
    pub above: u32,
}

impl LargeData {
    /// Of no value yet.
    pub(crate) const fn over(threshold: u64) -> LargeData {
        LargeData { max: 0, threshold, above: 0 }
    }

    /// Includes a value.
    pub(crate) fn add(&mut self, value: u64) {
        debug_assert!(self.max <= self.threshold || 0 < self.above, "large without one above");
        self.max = self.max.max(value);
        self.above += (self.threshold < value) as u32;
    }
}

impl Metadata {
    /// The serialized form; ends with its checksum if there are component digests.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut parts: Vec<(u32, Vec<u8>)> = Vec::new();
        let mut part = |tag: u32, write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            parts.push((tag, out));
        };
        if let Some((first, last)) = self.tokens {
            part(tag::SHARDING, &|out| put_sharding(first, last, out));
        }
        part(tag::FEATURES, &|out| out.put_u64(self.features));
        if !self.extensions.is_empty() {
            part(tag::EXTENSIONS, &|out| {
                out.put_u32(self.extensions.len() as u32);
                for text in self.extensions.iter().flat_map(|(name, value)| [name, value]) {
                    out.put_u32_bytes(text.as_bytes());
                }
            });
        }
        if let Some(id) = self.run_id {
            part(tag::RUN_ID, &|out| out.put(id.as_bytes()));
        }
        part(tag::LARGE_DATA, &|out| put_large_data(&self.large_data, out));
        if !self.large_records.is_empty() {
            part(tag::LARGE_RECORDS, &|out| put_large_records(&self.large_records, out));
        }
        part(tag::ORIGIN, &|out| out.put_u32_bytes(self.origin.as_bytes()));
        part(tag::VERSION, &|out| out.put_u32_bytes(self.version.as_bytes()));
        part(tag::TIMESTAMPS, &|out| {
            out.put_u32(self.timestamps.len() as u32);
            for (kind, timestamp) in &self.timestamps {
                out.put_u32(*kind);
                out.put_i64(*timestamp);
            }
        });
        if let Some(id) = self.sstable_id {
            part(tag::SSTABLE_ID, &|out| out.put(id.as_bytes()));
        }
        if !self.schema.is_empty() {
            part(tag::SCHEMA, &|out| out.put(&self.schema));
        }
        if !self.digests.is_empty() {
            part(tag::DIGESTS, &|out| {
                out.put_u32(self.digests.len() as u32);
                for (component, digest) in &self.digests {
                    out.put_u32(*component);
                    out.put_u32(*digest);
                }
            });
        }
        let mut out = Vec::new();
        let once = |(at, (tag, _)): (usize, &(u32, _))| parts[..at].iter().all(|one| one.0 != *tag);
        debug_assert!(parts.iter().enumerate().all(once), "tagged-once: {} parts", parts.len());
        debug_assert!(self.digests.is_sorted_by(|a, b| a.0 < b.0), "tagged-once: digests");
        out.put_u32(parts.len() as u32);
        for (tag, part) in &parts {
            out.put_u32(*tag);
            out.put_u32_bytes(part);
        }
        if !self.digests.is_empty() {
            out.put_u32(crc32(&out));
        }
        out
    }

    /// Reads the serialized form; checks its checksum if it has one.
    pub fn parse(bytes: &[u8]) -> Result<Metadata, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let count = cursor.u32("tag count cut short")?;
        let mut metadata = Metadata::default();
        let mut has_digests = false;
        for _ in 0..count {
            let tag = cursor.u32("tag cut short")?;
            let part = cursor.u32_bytes("tagged part cut short")?;
            let base = (cursor.offset() - part.len()) as u64;
            has_digests |= tag == tag::DIGESTS;
            metadata.read_part(tag, part).map_err(|error| error.from_base(base))?;
        }
        if has_digests {
            let expected = crc32(&bytes[..cursor.offset()]);
            if cursor.u32("checksum cut short")? != expected {
                return Err(cursor.damaged("checksum does not match"));
            }
        }
        Ok(metadata)
    }

    fn read_part(&mut self, tag: u32, part: &[u8]) -> Result<(), Damaged> {
        let mut cursor = Cursor::new(part);
        let c = &mut cursor;
        match tag {
            tag::FEATURES => self.features = c.u64("features cut short")?,
            tag::RUN_ID => self.run_id = Some(Uuid::from_bytes(c.array("run id cut short")?)),
            tag::SSTABLE_ID => {
                self.sstable_id = Some(Uuid::from_bytes(c.array("identifier cut short")?));
            }
            tag::ORIGIN => self.origin = text(c)?,
            tag::VERSION => self.version = text(c)?,
            tag::SCHEMA => self.schema = part.to_vec(),
            tag::TIMESTAMPS => {
                for _ in 0..c.u32("timestamps cut short")? {
                    let kind = c.u32("timestamps cut short")?;
                    self.timestamps.push((kind, c.i64("timestamps cut short")?));
                }
            }
            tag::DIGESTS => {
                for _ in 0..c.u32("digests cut short")? {
                    let component = c.u32("digests cut short")?;
                    self.digests.push((component, c.u32("digests cut short")?));
                }
            }
            tag::LARGE_DATA => {
                for _ in 0..c.u32("large data cut short")? {
                    let kind = c.u32("large data cut short")?;
                    let max = c.u64("large data cut short")?;
                    let threshold = c.u64("large data cut short")?;
                    let above = c.u32("large data cut short")?;
                    self.large_data.push((kind, LargeData { max, threshold, above }));
                }
            }
            tag::SHARDING => {
                for _ in 0..c.u32("sharding cut short")? {
                    let (left, right) = (read_bound(c)?, read_bound(c)?);
                    self.sharding.push(ShardingRange { left, right });
                }
            }
            tag::EXTENSIONS => {
                for _ in 0..c.u32("extension attributes cut short")? {
                    self.extensions.push((text(c)?, text(c)?));
                }
            }
            tag::BUILD_ID => self.build_id = text(c)?,
            tag::LARGE_RECORDS => {
                for _ in 0..c.u32("large data records cut short")? {
                    self.large_records.push(LargeRecord::read(c)?);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The part of a ring that all partitions are of, where the writer said so.
    pub fn share(&self) -> Option<RingShare> {
        let (_, value) = self.extensions.iter().find(|(name, _)| name == SHARE)?;
        RingShare::parse(value)
    }

    /// The digest of a component, where it is known.
    pub fn digest_of(&self, component: crate::Component) -> Option<u32> {
        let number = component.number()?;
        self.digests.iter().find(|(other, _)| *other == number).map(|(_, digest)| *digest)
    }
}

/// A Scylla.db, which can be parsed, with another digest of a component, where it has one.
pub fn with_digest(bytes: &[u8], component: crate::Component, digest: u32) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let places = || -> Result<Option<(usize, usize)>, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let mut at = None;
        for _ in 0..cursor.u32("tag count cut short")? {
            let tag = cursor.u32("tag cut short")?;
            let part = cursor.u32_bytes("tagged part cut short")?;
            if tag == tag::DIGESTS {
                let base = cursor.offset() - part.len();
                let mut list = Cursor::new(part);
                for _ in 0..list.u32("digests cut short")? {
                    let number = list.u32("digests cut short")?;
                    if Some(number) == component.number() {
                        at = Some(base + list.offset());
                    }
                    list.u32("digests cut short")?;
                }
            }
        }
        Ok(at.map(|at| (at, cursor.offset())))
    };
    if let Ok(Some((at, end))) = places()
        && end + 4 <= out.len()
    {
        debug_assert!(at + 4 <= end, "same-length: a digest at {at} of {end}");
        out[at..at + 4].copy_from_slice(&digest.to_be_bytes());
        let crc = crc32(&out[..end]);
        out[end..end + 4].copy_from_slice(&crc.to_be_bytes());
    }
    debug_assert!(out.len() == bytes.len(), "same-length: {} bytes", out.len());
    out
}

fn text(cursor: &mut Cursor<'_>) -> Result<String, Damaged> {
    let bytes = cursor.u32_bytes("text cut short")?;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

fn put_large_records(list: &[LargeRecord], out: &mut Vec<u8>) {
    out.put_u32(list.len() as u32);
    for record in list {
        debug_assert!((1..=5).contains(&record.kind), "large data of kind {}", record.kind);
        out.put_u32(record.kind);
        for part in [&record.partition_key, &record.clustering_key, &record.column] {
            out.put_u32_bytes(part);
        }
        for number in [record.value, record.elements, record.range_tombstones, record.dead_rows] {
            out.put_u64(number);
        }
    }
}

/// Kinds of records, as in [`Metadata::large_data`].
impl LargeRecord {
    /// A partition: its bytes, and its rows as elements.
    pub const PARTITION: u32 = 1;
    /// A row: its bytes.
    pub const ROW: u32 = 2;
    /// A cell or collection: its bytes, and the elements of a collection.
    pub const CELL: u32 = 3;
    /// A partition: its rows. Read, never written: [`LargeRecord::PARTITION`] has them.
    pub const PARTITION_ROWS: u32 = 4;
    /// A collection: its elements. Read, never written: [`LargeRecord::CELL`] has them.
    pub const COLLECTION: u32 = 5;

    fn read(cursor: &mut Cursor<'_>) -> Result<LargeRecord, Damaged> {
        let cut = "large data records cut short";
        Ok(LargeRecord {
            kind: cursor.u32(cut)?,
            partition_key: cursor.u32_bytes(cut)?.to_vec(),
            clustering_key: cursor.u32_bytes(cut)?.to_vec(),
            column: cursor.u32_bytes(cut)?.to_vec(),
            value: cursor.u64(cut)?,
            elements: cursor.u64(cut)?,
            range_tombstones: cursor.u64(cut)?,
            dead_rows: cursor.u64(cut)?,
        })
    }
}

fn read_bound(cursor: &mut Cursor<'_>) -> Result<(bool, Vec<u8>), Damaged> {
    let exclusive = cursor.u8("sharding cut short")? != 0;
    Ok((exclusive, cursor.u16_bytes("sharding cut short")?.to_vec()))
}

/// One range, both ends included.
fn put_sharding(first: i64, last: i64, out: &mut Vec<u8>) {
    debug_assert!(first <= last, "tokens from {first} to {last}");
    out.put_u32(1);
    for token in [first, last] {
        out.put_u8(0);
        out.put_u16_bytes(&token.to_be_bytes());
    }
}

fn put_large_data(list: &[(u32, LargeData)], out: &mut Vec<u8>) {
    out.put_u32(list.len() as u32);
    for (kind, large) in list {
        let told = (0 < large.above) == (large.threshold < large.max);
        debug_assert!(told, "large data of kind {kind}: {large:?}");
        out.put_u32(*kind);
        out.put_u64(large.max);
        out.put_u64(large.threshold);
        out.put_u32(large.above);
    }
}

/// What [`schema_part`] wrote, as foreign bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemaPart {
    /// Of the table.
    pub id: Option<Uuid>,
    /// Of its schema.
    pub version: Option<Uuid>,
    /// The keyspace's name.
    pub keyspace: String,
    /// The table's name.
    pub table: String,
    /// Its columns, keys in their order.
    pub columns: Vec<SchemaColumn>,
}

/// A column as Scylla.db tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaColumn {
    /// 1 partition key, 2 clustering, 3 static, 4 regular.
    pub kind: u8,
    /// Its name.
    pub name: String,
    /// The class of its type.
    pub class: String,
}

/// Reads the serialized schema.
pub fn read_schema_part(bytes: &[u8]) -> Result<SchemaPart, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let c = &mut cursor;
    let mut part = SchemaPart {
        id: Some(Uuid::from_bytes(c.array("schema cut short")?)),
        version: Some(Uuid::from_bytes(c.array("schema cut short")?)),
        keyspace: text(c)?,
        table: text(c)?,
        columns: Vec::new(),
    };
    for _ in 0..c.u32("schema cut short")? {
        let kind = c.u8("schema cut short")?;
        part.columns.push(SchemaColumn { kind, name: text(c)?, class: text(c)? });
    }
    Ok(part)
}

/// The serialized schema: ids, names, and per column its kind, name and class.
pub fn schema_part(schema: &TableSchema) -> Vec<u8> {
    let mut out = Vec::new();
    out.put(schema.id.as_bytes());
    out.put(schema.version.as_bytes());
    out.put_u32_bytes(schema.keyspace.as_bytes());
    out.put_u32_bytes(schema.name.as_bytes());
    out.put_u32(schema.columns.len() as u32);
    for column in &schema.columns {
        out.put_u8(match column.kind {
            ColumnKind::PartitionKey => 1,
            ColumnKind::Clustering => 2,
            ColumnKind::Static => 3,
            ColumnKind::Regular => 4,
        });
        out.put_u32_bytes(column.name.as_bytes());
        out.put_u32_bytes(column.ty.to_class_name().as_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_round_trip_and_a_flipped_bit_is_seen() {
        let metadata = Metadata {
            tokens: None,
            features: features::ALL,
            run_id: Some(Uuid::from_u128(7)),
            large_data: vec![(1, LargeData { max: 5, threshold: 3, above: 1 })],
            origin: "memtable".into(),
            version: "1".into(),
            timestamps: vec![(1, -5), (2, 6)],
            sstable_id: Some(Uuid::from_u128(8)),
            schema: vec![1, 2, 3],
            digests: vec![(0, 5), (4, 6)],
            ..Metadata::default()
        };
        let bytes = metadata.to_bytes();
        assert_eq!(Metadata::parse(&bytes).unwrap(), metadata);
        for at in 0..bytes.len() {
            assert!(Metadata::parse(&bytes[..at]).is_err(), "{at}");
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            assert_ne!(Metadata::parse(&flipped).ok(), Some(metadata.clone()), "{at}");
        }
        let other = with_digest(&bytes, crate::Component::Summary, 9);
        let digests = vec![(0, 5), (4, 9)];
        assert_eq!(Metadata::parse(&other).unwrap(), Metadata { digests, ..metadata.clone() });
        assert_eq!(with_digest(&bytes, crate::Component::Data, 9), bytes);
        let with_tokens = Metadata { tokens: Some((-1, 1)), ..metadata };
        let with_tokens = Metadata::parse(&with_tokens.to_bytes()).unwrap();
        assert_eq!(with_tokens.digests.len(), 2);
        let end = |token: i64| (false, token.to_be_bytes().to_vec());
        assert_eq!(with_tokens.sharding, [ShardingRange { left: end(-1), right: end(1) }]);
    }

    #[test]
    fn parts_that_only_others_write_are_read() {
        let mut out = Vec::new();
        out.put_u32(3);
        out.put_u32(tag::EXTENSIONS);
        out.put_u32_bytes(b"\0\0\0\x01\0\0\0\x01a\0\0\0\x02bc");
        out.put_u32(tag::BUILD_ID);
        out.put_u32_bytes(b"\0\0\0\x02id");
        out.put_u32(tag::LARGE_RECORDS);
        let mut records = Vec::new();
        records.put_u32(1);
        records.put_u32(2);
        for part in [&b"p"[..], b"c", b""] {
            records.put_u32_bytes(part);
        }
        (1..=4).for_each(|number| records.put_u64(number));
        out.put_u32_bytes(&records);
        let metadata = Metadata::parse(&out).unwrap();
        assert_eq!(metadata.extensions, [("a".to_string(), "bc".to_string())]);
        assert_eq!(metadata.build_id, "id");
        let record = &metadata.large_records[0];
        assert_eq!((record.kind, record.value, record.dead_rows), (2, 1, 4));
        assert_eq!((&*record.partition_key, &*record.clustering_key), (&b"p"[..], &b"c"[..]));
    }

    #[test]
    fn a_schema_part_is_read_as_written() {
        let schema = TableSchema::builder("ks", "t", Uuid::from_u128(5))
            .partition_key("p", model::Type::Int)
            .regular("v", model::Type::Text)
            .build()
            .unwrap();
        let bytes = schema_part(&schema);
        let part = read_schema_part(&bytes).unwrap();
        assert_eq!((part.id, part.version), (Some(schema.id), Some(schema.version)));
        assert_eq!((&*part.keyspace, &*part.table), ("ks", "t"));
        let columns: Vec<_> = part.columns.iter().map(|c| (c.kind, c.name.as_str())).collect();
        assert_eq!(columns, [(1, "p"), (4, "v")]);
        for at in 0..bytes.len() {
            assert!(read_schema_part(&bytes[..at]).is_err(), "{at}");
        }
    }
}
