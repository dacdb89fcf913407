//! Part 2 of Statistics.db: what is known of the data. Fields are read and written in the order of
//! the file; which there are depends on the version.

use crate::mx::clustering::{BoundKind, read_blocks};
use crate::statistics::{EstimatedHistogram, TombstoneHistogram};
use crate::store::Version;
use model::key::clustering_components;
use model::{Type, Uuid};
use stdx::{Cursor, Damaged, Put};

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
    /// Seconds; the greatest value of the version's 32 bits (signed, or unsigned where it
    /// [has those](Version::has_unsigned_times)) where nothing is deleted or expires.
    pub min_deletion_time: i64,
    /// Seconds; that greatest value where something is not deleted and does not expire.
    pub max_deletion_time: i64,
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
    /// Per clustering column, the least value; fewer or none where there is no bound. Of a version
    /// with typed bounds only the first column has one.
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
    /// Of Cassandra 4 and 5.
    pub additions: Additions,
}

/// What versions of Cassandra 4 and 5 add to the statistics; nothing of it in other versions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Additions {
    /// The repair session that the file is part of.
    pub pending_repair: Option<Uuid>,
    /// Of a transient replica.
    pub is_transient: bool,
    /// Whether there is a partition tombstone, where the version says.
    pub has_partition_deletions: Option<bool>,
    /// All clustering positions lie in this slice.
    pub covered: Option<CoveredSlice>,
    /// The first and the last partition key, empty where the file has none.
    pub key_range: Option<(Vec<u8>, Vec<u8>)>,
    /// The part of the ring between the first and the last token; NaN where not known.
    pub token_coverage: Option<f64>,
}

/// The clustering positions that a file covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoveredSlice {
    /// Classes of the clustering columns.
    pub classes: Vec<String>,
    /// Kind and prefix of the start.
    pub start: (BoundKind, Vec<u8>),
    /// Kind and prefix of the end.
    pub end: (BoundKind, Vec<u8>),
}

impl Stats {
    /// Appends the serialized form of a version that is written.
    pub(super) fn put(&self, version: Version, out: &mut Vec<u8>) {
        assert!(version.is_written(), "statistics of {}, which is not written", version.name());
        assert!(self.min_timestamp <= self.max_timestamp, "min-max: timestamps");
        assert!(self.min_deletion_time <= self.max_deletion_time, "min-max: deletion times");
        assert!(self.min_ttl <= self.max_ttl, "min-max: ttls");
        let (min, max) = (self.min_clustering.len(), self.max_clustering.len());
        assert!(min == max, "min-max: clustering values, {min} and {max}");
        let capped = |seconds: i64| seconds.clamp(0, i32::MAX as i64) as i32;
        self.partition_sizes.put(out);
        self.cell_counts.put(out);
        put_position(self.commitlog_upper, out);
        out.put_i64(self.min_timestamp);
        out.put_i64(self.max_timestamp);
        out.put_i32(capped(self.min_deletion_time));
        out.put_i32(capped(self.max_deletion_time));
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
        if !version.has_host_id() {
            return;
        }
        out.put_u8(self.host_id.is_some() as u8);
        if let Some(id) = self.host_id {
            out.put(id.as_bytes());
        }
    }

    /// Reads the serialized form of a version. Bytes after it are ignored: a writer pads.
    pub(super) fn parse(bytes: &[u8], version: Version) -> Result<Stats, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let c = &mut cursor;
        let cut = "statistics cut short";
        let mut stats = Stats {
            partition_sizes: EstimatedHistogram::parse(c)?,
            cell_counts: EstimatedHistogram::parse(c)?,
            commitlog_upper: read_position(c)?,
            min_timestamp: c.i64(cut)?,
            max_timestamp: c.i64(cut)?,
            min_deletion_time: read_time(c, version)?,
            max_deletion_time: read_time(c, version)?,
            min_ttl: c.i32(cut)?,
            max_ttl: c.i32(cut)?,
            compression_ratio: f64::from_bits(c.u64(cut)?),
            tombstones: TombstoneHistogram::parse(c, version)?,
            level: c.u32(cut)?,
            repaired_at: c.i64(cut)?,
            min_clustering: Vec::new(),
            max_clustering: Vec::new(),
            legacy_counter_shards: false,
            columns_count: 0,
            rows_count: 0,
            commitlog_lower: CommitlogPosition::NONE,
            commitlog_intervals: Vec::new(),
            host_id: None,
            additions: Additions::default(),
        };
        if version.has_typed_bounds() {
            let slice = CoveredSlice::parse(c)?;
            stats.min_clustering = slice.first_value(&slice.start);
            stats.max_clustering = slice.first_value(&slice.end);
            stats.additions.covered = Some(slice);
        } else {
            stats.min_clustering = read_bound(c)?;
            stats.max_clustering = read_bound(c)?;
        }
        stats.parse_rest(c, version)?;
        Ok(stats)
    }

    /// Where the level stands in the serialized form.
    pub(super) fn level_offset(bytes: &[u8], version: Version) -> Result<usize, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let cut = "statistics cut short";
        EstimatedHistogram::parse(&mut cursor)?;
        EstimatedHistogram::parse(&mut cursor)?;
        read_position(&mut cursor)?;
        // Two timestamps, two deletion times, two ttls, the compression ratio.
        cursor.take(2 * 8 + 2 * 4 + 2 * 4 + 8, cut)?;
        TombstoneHistogram::parse(&mut cursor, version)?;
        let offset = cursor.offset();
        cursor.u32(cut)?;
        debug_assert!(offset + 4 <= bytes.len(), "parts-where-said: a level at {offset}");
        Ok(offset)
    }

    /// What stands behind the clustering bounds.
    fn parse_rest(&mut self, c: &mut Cursor<'_>, version: Version) -> Result<(), Damaged> {
        let cut = "statistics cut short";
        self.legacy_counter_shards = c.u8(cut)? != 0;
        self.columns_count = c.u64(cut)?;
        self.rows_count = c.u64(cut)?;
        self.commitlog_lower = read_position(c)?;
        self.commitlog_intervals = read_intervals(c)?;
        let additions = &mut self.additions;
        if version.has_repair_session() {
            additions.pending_repair = read_id(c)?;
            additions.is_transient = c.u8(cut)? != 0;
        }
        if version.has_host_id() {
            self.host_id = read_id(c)?;
        }
        if version.has_typed_bounds() {
            additions.has_partition_deletions = Some(c.u8(cut)? != 0);
            let first = c.vint_bytes(cut)?.to_vec();
            additions.key_range = Some((first, c.vint_bytes(cut)?.to_vec()));
            additions.token_coverage = Some(f64::from_bits(c.u64(cut)?));
        }
        Ok(())
    }
}

impl CoveredSlice {
    fn parse(cursor: &mut Cursor<'_>) -> Result<CoveredSlice, Damaged> {
        let cut = "covered clustering slice cut short";
        let mut classes = Vec::new();
        let mut fixed = Vec::new();
        for _ in 0..cursor.vint(cut)? {
            let class = cursor.vint_bytes(cut)?;
            let class = String::from_utf8_lossy(class).into_owned();
            let ty = Type::from_class_name(&class);
            let ty = ty.ok_or_else(|| cursor.damaged("clustering class that is not known"))?;
            fixed.push(ty.0.fixed_length());
            classes.push(class);
        }
        let mut bound = || {
            let kind = BoundKind::of(cursor.u8(cut)?).filter(|kind| kind.weight() != 0);
            let kind = kind.ok_or_else(|| cursor.damaged("unknown kind of a clustering bound"))?;
            let count = cursor.u16(cut)? as usize;
            let mut prefix = Vec::new();
            read_blocks(cursor, &fixed, count, &mut prefix)?;
            Ok((kind, prefix))
        };
        let (start, end) = (bound()?, bound()?);
        Ok(CoveredSlice { classes, start, end })
    }

    /// The value of the first clustering column at a bound. Prefixes are in clustering order as a
    /// whole, so that only the first column has a bound of its own.
    fn first_value(&self, bound: &(BoundKind, Vec<u8>)) -> Vec<Vec<u8>> {
        clustering_components(&bound.1).take(1).map(<[u8]>::to_vec).collect()
    }
}

fn read_time(cursor: &mut Cursor<'_>, version: Version) -> Result<i64, Damaged> {
    let bits = cursor.u32("statistics cut short")?;
    Ok(match version.has_unsigned_times() {
        true => bits as i64,
        false => bits as i32 as i64,
    })
}

fn read_id(cursor: &mut Cursor<'_>) -> Result<Option<Uuid>, Damaged> {
    Ok(match cursor.u8("statistics cut short")? {
        0 => None,
        _ => Some(Uuid::from_bytes(cursor.array("statistics cut short")?)),
    })
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
