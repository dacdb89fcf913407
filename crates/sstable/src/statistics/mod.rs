//! Statistics.db: validation, compaction, statistics and the serialization header
//! (storage-format reference, section 8).
//!
//! In reading order: this file (the parts and their table of contents), [`histogram`],
//! [`cardinality`], [`collector`].

pub mod cardinality;
pub mod collector;
pub mod histogram;

pub use collector::Collector;
pub use histogram::{EstimatedHistogram, TombstoneHistogram};

use crate::mx::header::SerializationHeader;
use crate::store::Version;
use model::Uuid;
use stdx::{Cursor, Damaged, Put};

/// The only partitioner there is.
pub const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";

/// A place in a commitlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommitlogPosition {
    /// Of the segment; -1 for none.
    pub segment: i64,
    /// Within it.
    pub offset: i32,
}

impl CommitlogPosition {
    /// No position.
    pub const NONE: CommitlogPosition = CommitlogPosition { segment: -1, offset: 0 };
}

/// Part 2 of Statistics.db.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// Of partitions, by bytes.
    pub partition_sizes: EstimatedHistogram,
    /// Of partitions, by cells.
    pub cell_counts: EstimatedHistogram,
    /// Up to where the commitlog is covered.
    pub commitlog_upper: CommitlogPosition,
    /// Microseconds.
    pub min_timestamp: i64,
    /// Microseconds.
    pub max_timestamp: i64,
    /// Seconds; `i32::MAX` where nothing is deleted or expires.
    pub min_deletion_time: i32,
    /// Seconds; `i32::MAX` where something is not deleted and does not expire.
    pub max_deletion_time: i32,
    /// Seconds.
    pub min_ttl: i32,
    /// Seconds.
    pub max_ttl: i32,
    /// Compressed to uncompressed bytes; -1 without compression.
    pub compression_ratio: f64,
    /// When tombstones and expiring cells can be dropped.
    pub tombstones: TombstoneHistogram,
    /// Of leveled compaction.
    pub level: u32,
    /// Milliseconds; 0 where not repaired.
    pub repaired_at: i64,
    /// Per clustering column, the least value; fewer or none where there is no bound.
    pub min_clustering: Vec<Vec<u8>>,
    /// Per clustering column, the greatest value.
    pub max_clustering: Vec<Vec<u8>>,
    /// Whether counters have local shards of old.
    pub legacy_counter_shards: bool,
    /// Cells.
    pub columns_count: u64,
    /// Rows and range tombstone markers.
    pub rows_count: u64,
    /// From where the commitlog is covered.
    pub commitlog_lower: CommitlogPosition,
    /// Which parts of commitlogs are covered.
    pub commitlog_intervals: Vec<(CommitlogPosition, CommitlogPosition)>,
    /// Who wrote the file.
    pub host_id: Option<Uuid>,
}

/// Statistics.db.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// Class of the partitioner.
    pub partitioner: String,
    /// The chance of false positives that the filter was made for.
    pub bloom_fp_chance: f64,
    /// A serialized HyperLogLog++ of the partition keys.
    pub cardinality: Vec<u8>,
    /// The statistics proper.
    pub stats: Stats,
    /// Columns and delta bases.
    pub header: SerializationHeader,
}

impl Statistics {
    /// The serialized form, as of version `me`.
    pub fn to_bytes(&self) -> Vec<u8> {
        const PARTS: u32 = 4;
        let mut parts: [Vec<u8>; PARTS as usize] = Default::default();
        parts[0].put_u16_bytes(self.partitioner.as_bytes());
        parts[0].put_u64(self.bloom_fp_chance.to_bits());
        parts[1].put_u32_bytes(&self.cardinality);
        self.stats.put(&mut parts[2]);
        self.header.put(&mut parts[3]);
        let mut out = Vec::new();
        out.put_u32(PARTS);
        let mut offset = 4 + 8 * PARTS;
        for (kind, part) in parts.iter().enumerate() {
            out.put_u32(kind as u32);
            out.put_u32(offset);
            offset += part.len() as u32;
        }
        parts.iter().for_each(|part| out.put(part));
        out
    }

    /// Reads the serialized form of a version.
    pub fn parse(bytes: &[u8], version: Version) -> Result<Statistics, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let count = cursor.u32("statistics contents cut short")?;
        let mut parts: [Option<(&[u8], u64)>; 4] = [None; 4];
        for _ in 0..count {
            let kind = cursor.u32("statistics contents cut short")? as usize;
            let offset = cursor.u32("statistics contents cut short")?;
            let part = bytes.get(offset as usize..);
            let part = part.ok_or_else(|| cursor.damaged("statistics part past the end"))?;
            if let Some(slot) = parts.get_mut(kind) {
                *slot = Some((part, offset as u64));
            }
        }
        let part = |kind: usize| {
            parts[kind].ok_or(Damaged::new("statistics lack one of their four parts", 0))
        };
        let ((validation, v), (compaction, c)) = (part(0)?, part(1)?);
        let ((stats, s), (header, h)) = (part(2)?, part(3)?);
        let (partitioner, bloom_fp_chance) =
            parse_validation(validation).map_err(|error| error.from_base(v))?;
        let cardinality = Cursor::new(compaction)
            .u32_bytes("cardinality cut short")
            .map_err(|error| error.from_base(c))?
            .to_vec();
        let stats = Stats::parse(stats, version).map_err(|error| error.from_base(s))?;
        let header = SerializationHeader::parse(header).map_err(|error| error.from_base(h))?;
        Ok(Statistics { partitioner, bloom_fp_chance, cardinality, stats, header })
    }
}

fn parse_validation(bytes: &[u8]) -> Result<(String, f64), Damaged> {
    let mut cursor = Cursor::new(bytes);
    let partitioner = cursor.u16_bytes("partitioner cut short")?;
    let fp_chance = f64::from_bits(cursor.u64("filter chance cut short")?);
    Ok((String::from_utf8_lossy(partitioner).into_owned(), fp_chance))
}

impl Stats {
    fn put(&self, out: &mut Vec<u8>) {
        self.partition_sizes.put(out);
        self.cell_counts.put(out);
        put_position(self.commitlog_upper, out);
        out.put_i64(self.min_timestamp);
        out.put_i64(self.max_timestamp);
        out.put_i32(self.min_deletion_time);
        out.put_i32(self.max_deletion_time);
        out.put_i32(self.min_ttl);
        out.put_i32(self.max_ttl);
        out.put_u64(self.compression_ratio.to_bits());
        self.tombstones.put(out);
        out.put_u32(self.level);
        out.put_i64(self.repaired_at);
        for bound in [&self.min_clustering, &self.max_clustering] {
            out.put_u32(bound.len() as u32);
            bound.iter().for_each(|value| out.put_u16_bytes(value));
        }
        out.put_u8(self.legacy_counter_shards as u8);
        out.put_u64(self.columns_count);
        out.put_u64(self.rows_count);
        put_position(self.commitlog_lower, out);
        out.put_u32(self.commitlog_intervals.len() as u32);
        for (lower, upper) in &self.commitlog_intervals {
            put_position(*lower, out);
            put_position(*upper, out);
        }
        out.put_u8(self.host_id.is_some() as u8);
        if let Some(id) = self.host_id {
            out.put(id.as_bytes());
        }
    }

    fn parse(bytes: &[u8], version: Version) -> Result<Stats, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let c = &mut cursor;
        let cut = "statistics cut short";
        // Fields stand in the order of the file.
        Ok(Stats {
            partition_sizes: EstimatedHistogram::parse(c)?,
            cell_counts: EstimatedHistogram::parse(c)?,
            commitlog_upper: read_position(c)?,
            min_timestamp: c.i64(cut)?,
            max_timestamp: c.i64(cut)?,
            min_deletion_time: c.i32(cut)?,
            max_deletion_time: c.i32(cut)?,
            min_ttl: c.i32(cut)?,
            max_ttl: c.i32(cut)?,
            compression_ratio: f64::from_bits(c.u64(cut)?),
            tombstones: TombstoneHistogram::parse(c)?,
            level: c.u32(cut)?,
            repaired_at: c.i64(cut)?,
            min_clustering: read_bound(c)?,
            max_clustering: read_bound(c)?,
            legacy_counter_shards: c.u8(cut)? != 0,
            columns_count: c.u64(cut)?,
            rows_count: c.u64(cut)?,
            commitlog_lower: read_position(c)?,
            commitlog_intervals: read_intervals(c)?,
            host_id: match version.has_host_id() {
                true if c.u8(cut)? != 0 => Some(Uuid::from_bytes(c.array(cut)?)),
                _ => None,
            },
        })
    }
}

fn put_position(position: CommitlogPosition, out: &mut Vec<u8>) {
    out.put_i64(position.segment);
    out.put_i32(position.offset);
}

fn read_position(cursor: &mut Cursor<'_>) -> Result<CommitlogPosition, Damaged> {
    let segment = cursor.i64("commitlog position cut short")?;
    let offset = cursor.i32("commitlog position cut short")?;
    Ok(CommitlogPosition { segment, offset })
}

fn read_bound(cursor: &mut Cursor<'_>) -> Result<Vec<Vec<u8>>, Damaged> {
    let count = cursor.u32("clustering bound cut short")?;
    let mut values = Vec::new();
    for _ in 0..count {
        values.push(cursor.u16_bytes("clustering bound cut short")?.to_vec());
    }
    Ok(values)
}

fn read_intervals(
    cursor: &mut Cursor<'_>,
) -> Result<Vec<(CommitlogPosition, CommitlogPosition)>, Damaged> {
    let count = cursor.u32("commitlog intervals cut short")?;
    let mut intervals = Vec::new();
    for _ in 0..count {
        intervals.push((read_position(cursor)?, read_position(cursor)?));
    }
    Ok(intervals)
}
