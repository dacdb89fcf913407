//! How an SSTable is written, and what is told of one that was.

use crate::compress::{Compression, Dictionary};
use crate::mx::layout::Bases;
use crate::statistics::{CommitlogPosition, LargeLimits};
use crate::store::{Descriptor, Version};
use crate::write::defaults::WriterDefaults;
use model::{DecoratedKey, RingShare, TableSchema, Uuid};

/// How an SSTable is written.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// `me` or `ms`: with which index.
    pub version: Version,
    /// What is done to the data.
    pub compression: Compression,
    /// What chunks are compressed with, by algorithms that take one.
    pub dictionary: Option<Dictionary>,
    /// Bytes of rows after which the promoted index of a partition has a new block.
    pub column_index_bytes: usize,
    /// Bytes of promoted index of a partition after which its blocks double.
    pub column_index_scale_bytes: usize,
    /// Wanted chance of false positives; 1.0 for no filter.
    pub bloom_fp_chance: f64,
    /// Partitions that are expected, about: sizes the filter of very large files.
    pub estimated_partitions: u64,
    /// The minimums of what will be written, where known; [`Bases::EPOCH`] otherwise.
    pub bases: Bases,
    /// Of this node.
    pub host_id: Option<Uuid>,
    /// What makes it: "memtable", "compaction".
    pub origin: String,
    /// Shared by the files of a run.
    pub run_id: Option<Uuid>,
    /// The part of a ring that all partitions are of, where that is more than a range.
    pub share: Option<RingShare>,
    /// The commitlog that it covers.
    pub commitlog: Option<(CommitlogPosition, CommitlogPosition)>,
    /// Of leveled compaction.
    pub level: u32,
    /// Milliseconds; 0 where not repaired.
    pub repaired_at: i64,
    /// From which on what is written counts as large.
    pub large: LargeLimits,
    /// Whether the rows of a partition come in order.
    pub rows: RowOrder,
}

/// Whether the rows of a partition come in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrder {
    /// They do: *ordered*.
    Kept,
    /// They may not: files to try repairs with. Partitions have no index of their rows.
    Unchecked,
}

impl WriterOptions {
    /// What a table's options ask for; the rest as usual. The error names what is not supported.
    pub fn of_schema(schema: &TableSchema, origin: &str) -> Result<WriterOptions, String> {
        WriterOptions::of_table(schema, origin, WriterDefaults::default())
    }

    /// As [`WriterOptions::of_schema`], on a node that does what the table does not say.
    pub fn of_table(
        schema: &TableSchema,
        origin: &str,
        node: WriterDefaults,
    ) -> Result<WriterOptions, String> {
        let chosen = node.of_table(&schema.options);
        debug_assert!(chosen.version.is_written(), "{} is not written", chosen.version.name());
        Ok(WriterOptions {
            version: chosen.version,
            compression: Compression::of_options(&schema.options.compression)?,
            dictionary: None,
            column_index_bytes: chosen.column_index_bytes,
            column_index_scale_bytes: chosen.column_index_scale_bytes,
            bloom_fp_chance: schema.options.bloom_filter_fp_chance,
            estimated_partitions: 0,
            bases: Bases::EPOCH,
            host_id: None,
            origin: origin.to_string(),
            run_id: None,
            share: None,
            commitlog: None,
            level: 0,
            repaired_at: 0,
            large: chosen.large,
            rows: RowOrder::Kept,
        })
    }
}

/// A new SSTable, durable.
#[derive(Clone, Debug)]
pub struct Sealed {
    /// Which.
    pub descriptor: Descriptor,
    /// The first partition.
    pub first: DecoratedKey,
    /// The last partition.
    pub last: DecoratedKey,
    /// Partitions.
    pub partitions: u64,
    /// Rows and range tombstone markers.
    pub rows: u64,
    /// Bytes of Data.db on the disk.
    pub data_file_bytes: u64,
    /// Bytes of all components.
    pub disk_bytes: u64,
    /// The oldest and the newest timestamp, in microseconds.
    pub timestamps: (i64, i64),
}
