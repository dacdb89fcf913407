//! Tables, keyspaces, user types and their options: plain owned data that can be handed to another
//! shard, where it is shared as `Rc<TableSchema>`.
//!
//! Invariants
//!  - *ids-for-life*: a column id is given once per table and never again, so a row blob can be
//!    read with every later schema. `next_column_id` is above all ids given, those of dropped
//!    columns too.
//!  - *ordered-columns*: `columns` holds the kinds one after the other, keys by position, statics
//!    and regulars by the bytes of their names; the counts, positions and `order` agree with it.
//!    [`TableBuilder`] establishes this; nothing else should make a table.
//!  - *version-is-content*: equal tables have equal versions, on every node; see
//!    [`TableSchema::content_version`].
//!
//! In reading order: [`View`] and [`Index`] (what is derived from a table), [`TableBuilder`]
//! (making and altering), [`cdc`] (logs of changes), [`extension`] (texts in extensions),
//! `describe` (CQL text).

mod builder;
pub mod cdc;
mod derived;
mod describe;
pub mod extension;
pub mod fragments;
mod function;

pub use builder::TableBuilder;
pub use derived::{
    Computed, ComputedColumn, Index, IndexTarget, Origin, Origins, View, ViewCondition,
    ViewOperator,
};
pub use describe::{Internals, cql_map};
pub use function::{NullInput, UserAggregate, UserFunction};

use crate::key::ClusteringOrder;
use crate::types::Type;
use uuid::Uuid;

/// The identity of a table.
pub type TableId = Uuid;

/// A column's identity within its table, for life: never reused, not even after a drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnId(pub u32);

/// The part a column plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ColumnKind {
    PartitionKey,
    Clustering,
    Static,
    Regular,
}

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub id: ColumnId,
    pub name: String,
    pub kind: ColumnKind,
    /// Index within its kind: key position, or rank by name among statics or regulars.
    pub position: u16,
    pub ty: Type,
    /// Clustering columns only: descending.
    pub reversed: bool,
}

/// A column that was dropped: SSTables name it, reads hide what is not newer than `dropped_at`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedColumn {
    pub id: ColumnId,
    pub name: String,
    pub ty: Type,
    pub kind: ColumnKind,
    /// Microseconds.
    pub dropped_at: i64,
}

/// A table. `columns` holds partition key, clustering, static, regular columns in this order, keys
/// by position, others by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSchema {
    pub id: TableId,
    /// Changes with every change of the table.
    pub version: Uuid,
    pub keyspace: String,
    pub name: String,
    pub columns: Vec<Column>,
    pub partition_key_count: usize,
    pub clustering_count: usize,
    pub static_count: usize,
    pub next_column_id: u32,
    pub dropped: Vec<DroppedColumn>,
    pub options: TableOptions,
    pub compact_storage: bool,
    /// What makes it a view of another table.
    pub view: Option<Box<View>>,
    /// What makes it the log of another table's changes.
    pub log: Option<Box<cdc::CdcLog>>,
    /// In order of names.
    pub indexes: Vec<Index>,
    pub order: ClusteringOrder,
    /// Derived from `columns`; only makes `column_by_id` fast.
    pub index: ColumnIndex,
}

/// Where in a table's `columns` each id stands. A hint: a stale or empty one costs time, never
/// correctness. All are equal, for they are no content of the table.
#[derive(Clone, Debug, Default)]
pub struct ColumnIndex(Vec<u16>);

/// Ids from here on are searched for.
const INDEXED_IDS_MAX: usize = 4096;

impl ColumnIndex {
    /// The index of these columns.
    pub fn of(columns: &[Column]) -> ColumnIndex {
        let id = |column: &Column| column.id.0 as usize;
        let ids = columns.iter().map(id).filter(|id| *id < INDEXED_IDS_MAX);
        let mut places = vec![u16::MAX; ids.max().map_or(0, |id| id + 1)];
        for (place, column) in columns.iter().enumerate() {
            if let (Some(entry), Ok(place)) = (places.get_mut(id(column)), u16::try_from(place)) {
                *entry = place;
            }
        }
        ColumnIndex(places)
    }
}

impl PartialEq for ColumnIndex {
    fn eq(&self, _: &ColumnIndex) -> bool {
        true
    }
}
impl Eq for ColumnIndex {}

impl TableSchema {
    /// The columns of the partition key, in its order.
    pub fn partition_key(&self) -> &[Column] {
        &self.columns[..self.partition_key_count]
    }
    /// The clustering columns, in their order.
    pub fn clustering(&self) -> &[Column] {
        &self.columns[self.partition_key_count..self.partition_key_count + self.clustering_count]
    }
    /// The static columns, by name.
    pub fn statics(&self) -> &[Column] {
        let start = self.partition_key_count + self.clustering_count;
        &self.columns[start..start + self.static_count]
    }
    /// The regular columns, by name.
    pub fn regulars(&self) -> &[Column] {
        &self.columns[self.partition_key_count + self.clustering_count + self.static_count..]
    }
    /// The column of that name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }
    /// The column of that id, unless it was dropped.
    pub fn column_by_id(&self, id: ColumnId) -> Option<&Column> {
        let place = self.index.0.get(id.0 as usize);
        let hinted = place.and_then(|place| self.columns.get(*place as usize));
        match hinted {
            Some(column) if column.id == id => Some(column),
            _ => self.columns.iter().find(|column| column.id == id),
        }
    }
    /// Whether there is a static column.
    pub fn has_statics(&self) -> bool {
        0 < self.static_count
    }
    /// Whether it is a compact table with clustering columns: a row has one value at most and
    /// lives by it.
    pub fn is_dense(&self) -> bool {
        self.compact_storage && 0 < self.clustering_count
    }
    /// Whether rows may name only the first of its clustering columns.
    pub fn has_short_keys(&self) -> bool {
        self.compact_storage && 1 < self.clustering_count
    }
    /// Whether the table holds counters.
    pub fn is_counter(&self) -> bool {
        self.columns.iter().any(|column| column.ty == Type::Counter)
    }
}

/// Every option that CREATE TABLE stores.
#[derive(Clone, Debug, PartialEq)]
pub struct TableOptions {
    pub comment: String,
    pub gc_grace_seconds: i32,
    pub bloom_filter_fp_chance: f64,
    pub default_time_to_live: i32,
    pub compaction: Vec<(String, String)>,
    pub compression: Vec<(String, String)>,
    pub caching: Vec<(String, String)>,
    pub speculative_retry: String,
    pub crc_check_chance: f64,
    pub min_index_interval: i32,
    pub max_index_interval: i32,
    pub memtable_flush_period_in_ms: i32,
    pub read_repair_chance: f64,
    pub dclocal_read_repair_chance: f64,
    /// What `system_schema.tables` has no column for, by name; of these
    /// [`TableOptions::COLUMN_INDEX_KIB`] and [`TableOptions::SSTABLE_FORMAT`] are options of CQL.
    pub extensions: Vec<(String, Vec<u8>)>,
    pub tombstone_gc: Vec<(String, String)>,
    pub cdc: Vec<(String, String)>,
    pub per_partition_rate_limit: Vec<(String, String)>,
    pub paxos_grace_seconds: Option<i32>,
    pub tablets: Vec<(String, String)>,
}
impl Eq for TableOptions {}

/// The class of the default compressor, as `compression` names it.
pub const LZ4_COMPRESSOR: &str = "org.apache.cassandra.io.compress.LZ4Compressor";

impl TableOptions {
    /// The extension that says after how many KiB of rows the index of a partition has an entry.
    /// Tables without it are written as the node is configured.
    pub const COLUMN_INDEX_KIB: &str = "column_index_size_in_kb";
    /// The extension that names the version of SSTables that are written: `me` or `ms`.
    pub const SSTABLE_FORMAT: &str = "sstable_format";

    /// The extension of tables whose writes have limits for large data: `true`.
    pub const LARGE_DATA_GUARDRAILS: &str = "large_data_guardrails_enabled";
    /// The extension that names the column that says when a row expires.
    pub const ROW_TTL_COLUMN: &str = "row_ttl_column";
    /// The extension that names the attribute that says when an item of the DynamoDB API expires.
    pub const ITEM_TTL_ATTRIBUTE: &str = "item_ttl_attribute";

    /// Whether writes have limits for large data.
    pub fn has_large_data_guardrails(&self) -> bool {
        self.extension(TableOptions::LARGE_DATA_GUARDRAILS) == Some("true")
    }

    /// The text of an extension, if it is there and is text.
    pub fn extension(&self, name: &str) -> Option<&str> {
        let (_, value) = self.extensions.iter().find(|(known, _)| known == name)?;
        std::str::from_utf8(value).ok()
    }

    /// Sets an extension, or takes it away.
    pub fn set_extension(&mut self, name: &str, value: Option<&str>) {
        self.extensions.retain(|(known, _)| known != name);
        if let Some(value) = value {
            self.extensions.push((name.to_owned(), value.as_bytes().to_vec()));
            self.extensions.sort();
        }
    }

    /// What a table has when CREATE TABLE says nothing (storage-format reference, section 13).
    pub fn new() -> TableOptions {
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
        };
        TableOptions {
            comment: String::new(),
            gc_grace_seconds: 864_000,
            bloom_filter_fp_chance: 0.01,
            default_time_to_live: 0,
            compaction: pairs(&[("class", "IncrementalCompactionStrategy")]),
            compression: pairs(&[
                ("sstable_compression", LZ4_COMPRESSOR),
                ("chunk_length_in_kb", "4"),
            ]),
            caching: pairs(&[("keys", "ALL"), ("rows_per_partition", "ALL")]),
            speculative_retry: "99.0PERCENTILE".to_owned(),
            crc_check_chance: 1.0,
            min_index_interval: 128,
            max_index_interval: 2048,
            memtable_flush_period_in_ms: 0,
            read_repair_chance: 0.0,
            dclocal_read_repair_chance: 0.0,
            extensions: Vec::new(),
            tombstone_gc: Vec::new(),
            cdc: Vec::new(),
            per_partition_rate_limit: Vec::new(),
            paxos_grace_seconds: None,
            tablets: Vec::new(),
        }
    }
}

impl Default for TableOptions {
    fn default() -> TableOptions {
        TableOptions::new()
    }
}

/// A keyspace without its tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyspace {
    pub name: String,
    /// `class` and its options, as given and expanded.
    pub replication: Vec<(String, String)>,
    /// What it was before, while the tablets of its tables follow; nothing where they have.
    pub previous: Option<Vec<(String, String)>>,
    pub durable_writes: bool,
    /// `Some(n)`: tables have tablets, at first `n` of them (0: the node decides).
    pub initial_tablets: Option<u32>,
    pub storage: Vec<(String, String)>,
}
