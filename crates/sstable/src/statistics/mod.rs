//! Statistics.db: validation, compaction, statistics and the serialization header
//! (storage-format reference, section 8).
//!
//! In reading order: this file (the parts and their table of contents), [`stats`],
//! [`histogram`], [`cardinality`], [`collector`].
//!
//! Invariants
//!  - *min-max*: of what is written a least value is not above the greatest.
//!  - *parts-where-said*: a part stands where the table of contents says.

pub mod cardinality;
pub mod collector;
pub mod histogram;
pub mod stats;

pub use collector::{Collector, LargeLimits};
pub use histogram::{EstimatedHistogram, TombstoneHistogram};
pub use stats::{Additions, CommitlogPosition, CoveredSlice, Stats};

use crate::mx::header::SerializationHeader;
use crate::store::Version;
use stdx::checksum::{crc32, crc32_append};
use stdx::{Cursor, Damaged, Put};

/// The only partitioner there is.
pub const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";

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
    /// The serialized form of a version that is written.
    pub fn to_bytes(&self, version: Version) -> Vec<u8> {
        const PARTS: u32 = 4;
        let mut parts: [Vec<u8>; PARTS as usize] = Default::default();
        parts[0].put_u16_bytes(self.partitioner.as_bytes());
        parts[0].put_u64(self.bloom_fp_chance.to_bits());
        parts[1].put_u32_bytes(&self.cardinality);
        self.stats.put(version, &mut parts[2]);
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
        assert!(out.len() == offset as usize, "parts-where-said: {offset} bytes");
        debug_assert!(Statistics::parse(&out, version).is_ok(), "parts-where-said: not readable");
        out
    }

    /// Reads the serialized form of a version.
    pub fn parse(bytes: &[u8], version: Version) -> Result<Statistics, Damaged> {
        let parts = match version.has_statistics_checksums() {
            true => checked_parts(bytes)?,
            false => plain_parts(bytes)?,
        };
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

/// The parts by kind: bytes and offset.
type Parts<'a> = [Option<(&'a [u8], u64)>; 4];

/// Parts of which only the start is known.
fn plain_parts(bytes: &[u8]) -> Result<Parts<'_>, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let count = cursor.u32("statistics contents cut short")?;
    let mut parts = Parts::default();
    for _ in 0..count {
        let kind = cursor.u32("statistics contents cut short")? as usize;
        let offset = cursor.u32("statistics contents cut short")?;
        let part = bytes.get(offset as usize..);
        let part = part.ok_or_else(|| cursor.damaged("statistics part past the end"))?;
        if let Some(slot) = parts.get_mut(kind) {
            *slot = Some((part, offset as u64));
        }
    }
    Ok(parts)
}

/// Parts with a CRC32 behind each, behind their count, and behind count and contents.
fn checked_parts(bytes: &[u8]) -> Result<Parts<'_>, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let cut = "statistics contents cut short";
    let count = cursor.u32(cut)?;
    let crc = crc32(&count.to_be_bytes());
    if cursor.u32(cut)? != crc {
        return Err(cursor.damaged("checksum of the count of statistics parts does not match"));
    }
    let contents = cursor.rest();
    let mut starts = Vec::new();
    for _ in 0..count {
        starts.push((cursor.u32(cut)? as usize, cursor.u32(cut)? as usize));
    }
    let contents = contents.get(..starts.len() * 8).unwrap_or_default();
    if cursor.u32(cut)? != crc32_append(crc, contents) {
        return Err(cursor.damaged("checksum of the statistics contents does not match"));
    }
    let mut parts = Parts::default();
    for (index, (kind, start)) in starts.iter().enumerate() {
        let end = starts.get(index + 1).map_or(bytes.len(), |(_, start)| *start);
        let damaged = |what| Damaged::new(what, *start as u64);
        let part = bytes.get(*start..end).and_then(|part| part.split_last_chunk::<4>());
        let (part, crc) = part.ok_or(damaged("statistics part past the end"))?;
        if u32::from_be_bytes(*crc) != crc32(part) {
            return Err(damaged("checksum of a statistics part does not match"));
        }
        if let Some(slot) = parts.get_mut(*kind) {
            *slot = Some((part, *start as u64));
        }
    }
    Ok(parts)
}

/// A Statistics.db, which can be parsed, with another level.
pub fn with_level(bytes: &[u8], version: Version, level: u32) -> Result<Vec<u8>, Damaged> {
    let parts = match version.has_statistics_checksums() {
        true => checked_parts(bytes)?,
        false => plain_parts(bytes)?,
    };
    let (stats, start) = parts[2].ok_or(Damaged::new("statistics lack their third part", 0))?;
    let at = start as usize + Stats::level_offset(stats, version)?;
    let mut out = bytes.to_vec();
    assert!(at + 4 <= start as usize + stats.len(), "parts-where-said: a level at {at}");
    out[at..at + 4].copy_from_slice(&level.to_be_bytes());
    if version.has_statistics_checksums() {
        let end = start as usize + stats.len();
        let crc = crc32(&out[start as usize..end]);
        out[end..end + 4].copy_from_slice(&crc.to_be_bytes());
    }
    debug_assert!(out.len() == bytes.len(), "parts-where-said: {} bytes", out.len());
    Ok(out)
}

fn parse_validation(bytes: &[u8]) -> Result<(String, f64), Damaged> {
    let mut cursor = Cursor::new(bytes);
    let partitioner = cursor.u16_bytes("partitioner cut short")?;
    let fp_chance = f64::from_bits(cursor.u64("filter chance cut short")?);
    Ok((String::from_utf8_lossy(partitioner).into_owned(), fp_chance))
}
