//! Writing partitions to a new SSTable.

use crate::compress::Compression;
use crate::mx::layout::Bases;
use crate::statistics::CommitlogPosition;
use crate::store::Descriptor;
use model::{DecoratedKey, TableSchema, Uuid};
use mutation::Fragment;
use runtime::io::{IoClass, IoError};
use std::path::Path;
use std::rc::Rc;

/// How an SSTable is written.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// What is done to the data.
    pub compression: Compression,
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
    /// The commitlog that it covers.
    pub commitlog: Option<(CommitlogPosition, CommitlogPosition)>,
    /// Of leveled compaction.
    pub level: u32,
    /// Milliseconds; 0 where not repaired.
    pub repaired_at: i64,
}

impl WriterOptions {
    /// What a table's options ask for; the rest as usual. The error names what is not supported.
    pub fn of_schema(schema: &TableSchema, origin: &str) -> Result<WriterOptions, String> {
        Ok(WriterOptions {
            compression: Compression::of_options(&schema.options.compression)?,
            column_index_bytes: 64 << 10,
            column_index_scale_bytes: 10 << 20,
            bloom_fp_chance: schema.options.bloom_filter_fp_chance,
            estimated_partitions: 0,
            bases: Bases::EPOCH,
            host_id: None,
            origin: origin.to_string(),
            run_id: None,
            commitlog: None,
            level: 0,
            repaired_at: 0,
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

/// Writes one SSTable.
pub struct Writer {}

impl Writer {
    /// Starts an SSTable of version `me`.
    pub async fn create(
        dir: &Path,
        generation: crate::Generation,
        schema: Rc<TableSchema>,
        options: WriterOptions,
        class: IoClass,
    ) -> Result<Writer, IoError> {
        let _ = (dir, generation, schema, options, class);
        todo!()
    }

    /// Writes a fragment. Panics on fragments out of order (*ordered*).
    pub async fn write(&mut self, fragment: &Fragment) -> Result<(), IoError> {
        let _ = fragment;
        todo!()
    }

    /// Bytes of data written so far, before compression.
    pub fn data_bytes(&self) -> u64 {
        todo!()
    }

    /// Seals the SSTable: from now on it exists. `None`, and no files, when nothing was written.
    pub async fn finish(self) -> Result<Option<Sealed>, IoError> {
        todo!()
    }

    /// Removes what was written.
    pub async fn abort(self) -> Result<(), IoError> {
        todo!()
    }
}
