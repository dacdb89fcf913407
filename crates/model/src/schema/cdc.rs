//! Change data capture: what a table asks for, and the log table that its changes go to. Plain
//! data and pure: what rows a write makes in the log is `derived`'s to say, and which stream they
//! go to `catalog`'s.
//!
//! A log is a table like others: it has an id, options, tablets and SSTables. Each static and
//! regular column of its base has up to three columns in it, each key column one.
//!
//! Invariants
//!  - *same-columns*: a log that is attached has just the columns that its base asks for
//!    ([`TableSchema::log_columns`]), through each change of the base.
//!  - *ids-for-life* of [`super`], of a log too: what is not asked for any more is dropped, and
//!    what comes again comes under a new id.

use super::{Column, ColumnKind, TableBuilder, TableId, TableOptions, TableSchema};
use crate::types::Type;
use crate::value::Invalid;

/// What the name of a log ends in, after that of its base.
const LOG_SUFFIX: &str = "_scylla_cdc_log";

/// For how long a log keeps its rows where nobody says so.
pub const TTL_SECS_DEFAULT: u32 = 86_400;
/// By how many microseconds the time of a write may be ahead of the clock of who coordinates it.
pub const AHEAD_MICROS: i64 = 5_000_000;
/// Into how many windows a log is divided by time.
const WINDOWS: u32 = 24;

/// The columns that every log has, by name.
pub const STREAM_ID: &str = "cdc$stream_id";
pub const TIME: &str = "cdc$time";
pub const BATCH_SEQ_NO: &str = "cdc$batch_seq_no";
pub const OPERATION: &str = "cdc$operation";
pub const TTL: &str = "cdc$ttl";
pub const END_OF_BATCH: &str = "cdc$end_of_batch";

/// What a log tells of the state before a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Images {
    None,
    /// The columns that are changed.
    Touched,
    /// All columns.
    Full,
}

/// What a log tells of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Which columns were changed, and to what.
    Full,
    /// Only which rows were.
    Keys,
}

/// What the log of a table is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CdcOptions {
    pub preimage: Images,
    /// Whether it tells the state after a change, of all columns.
    pub postimage: bool,
    pub delta: Delta,
    /// For how long it keeps its rows; 0: for ever.
    pub ttl_secs: u32,
}

/// What makes a table a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CdcLog {
    pub base: TableId,
    pub base_name: String,
    /// Whether changes of its base go to it. One that is not attached stays readable.
    pub attached: bool,
}

impl CdcOptions {
    /// Those of a table that says nothing but that it wants a log.
    pub const DEFAULT: CdcOptions = CdcOptions {
        preimage: Images::None,
        postimage: false,
        delta: Delta::Full,
        ttl_secs: TTL_SECS_DEFAULT,
    };

    /// What a table with these options asks for; `None` where it has no log, or none any more.
    pub fn of(options: &TableOptions) -> Option<CdcOptions> {
        let get = |name: &str| {
            let found = options.cdc.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.as_str())
        };
        if get("enabled") != Some("true") {
            return None;
        }
        Some(CdcOptions {
            preimage: match get("preimage") {
                Some("true") => Images::Touched,
                Some("full") => Images::Full,
                _ => Images::None,
            },
            postimage: get("postimage") == Some("true"),
            delta: if get("delta") == Some("keys") { Delta::Keys } else { Delta::Full },
            ttl_secs: get("ttl").and_then(|it| it.parse().ok()).unwrap_or(TTL_SECS_DEFAULT),
        })
    }

    /// As a table keeps them, in order of names; switched on or off.
    pub fn stored(self, enabled: bool) -> Vec<(String, String)> {
        let preimage = match self.preimage {
            Images::None => "false",
            Images::Touched => "true",
            Images::Full => "full",
        };
        let delta = match self.delta {
            Delta::Full => "full",
            Delta::Keys => "keys",
        };
        let of = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        vec![
            of("delta", delta),
            of("enabled", if enabled { "true" } else { "false" }),
            of("postimage", if self.postimage { "true" } else { "false" }),
            of("preimage", preimage),
            of("ttl", &self.ttl_secs.to_string()),
        ]
    }
}

/// The name of the log of a table of that name.
pub fn log_name(base: &str) -> String {
    format!("{base}{LOG_SUFFIX}")
}

/// The name of the table whose log would have that name.
pub fn base_of_log(name: &str) -> Option<&str> {
    name.strip_suffix(LOG_SUFFIX).filter(|base| !base.is_empty())
}

/// The column that says whether one of the base was deleted.
pub fn deleted(column: &str) -> String {
    format!("cdc$deleted_{column}")
}

/// The column with the elements that were deleted from one of the base.
pub fn deleted_elements(column: &str) -> String {
    format!("cdc$deleted_elements_{column}")
}

/// The type of a column in the log: a value, or of a collection or user type the cells that were
/// written. A list is told by the time UUIDs of its elements.
pub fn value_type(ty: &Type) -> Type {
    match ty {
        Type::List { element, frozen: false } => Type::Map {
            key: Box::new(Type::TimeUuid),
            value: Box::new(element.freeze()),
            frozen: true,
        },
        ty if ty.is_multi_cell() => ty.freeze(),
        ty => ty.clone(),
    }
}

/// The type of the elements that were deleted from a column: keys of its cells. `None` where it
/// has one cell at most.
pub fn deleted_elements_type(ty: &Type) -> Option<Type> {
    let key = match ty {
        Type::List { frozen: false, .. } => Type::TimeUuid,
        Type::Set { element, frozen: false } => element.freeze(),
        Type::Map { key, frozen: false, .. } => key.freeze(),
        Type::User(user) if !user.frozen => Type::SmallInt,
        _ => return None,
    };
    Some(Type::Set { element: Box::new(key), frozen: true })
}

/// The options of a new log: of its base's where those say how files are written, else such that
/// whole windows of time are dropped as they expire.
pub fn log_options(base: &TableSchema, options: CdcOptions) -> TableOptions {
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    };
    let mut log = TableOptions::new();
    log.comment = format!("CDC log for {}.{}", base.keyspace, base.name);
    log.caching = pairs(&[("enabled", "false"), ("keys", "NONE"), ("rows_per_partition", "NONE")]);
    log.compression = base.options.compression.clone();
    log.speculative_retry = base.options.speculative_retry.clone();
    // Never after a repair, which many logs never see.
    log.tombstone_gc = pairs(&[("mode", "timeout"), ("propagation_delay_in_seconds", "3600")]);
    if 0 < options.ttl_secs {
        // Nothing that expires is to be remembered: nobody writes to a window that is over.
        log.gc_grace_seconds = 0;
    }
    let ttl_secs = if 0 < options.ttl_secs { options.ttl_secs } else { TTL_SECS_DEFAULT };
    let window_secs = ttl_secs.div_ceil(WINDOWS);
    let minutes = window_secs.div_ceil(60).to_string();
    let check_secs = (window_secs / 2).max(1).to_string();
    log.compaction = pairs(&[
        ("class", "TimeWindowCompactionStrategy"),
        ("compaction_window_size", &minutes),
        ("compaction_window_unit", "MINUTES"),
        ("expired_sstable_check_frequency_seconds", &check_secs),
    ]);
    log
}

/// The columns that every log has, its key aside, with their types.
const OF_EVERY_LOG: [(&str, Type); 3] =
    [(OPERATION, Type::TinyInt), (TTL, Type::BigInt), (END_OF_BATCH, Type::Boolean)];

/// A new log of a table.
pub fn log_schema(
    base: &TableSchema,
    options: CdcOptions,
    id: TableId,
) -> Result<TableSchema, Invalid> {
    let log = CdcLog { base: base.id, base_name: base.name.clone(), attached: true };
    let mut builder = TableSchema::builder(&base.keyspace, &log_name(&base.name), id)
        .options(log_options(base, options))
        .log(log)
        .partition_key(STREAM_ID, Type::Blob)
        .clustering(TIME, Type::TimeUuid)
        .clustering(BATCH_SEQ_NO, Type::Int);
    for (name, ty) in OF_EVERY_LOG {
        builder = builder.regular(name, ty);
    }
    for (name, ty) in base.log_columns() {
        builder = builder.regular(&name, ty);
    }
    builder.build()
}

/// The log after its base has changed, or was attached to its base again; `renamed` are the old
/// and new names of the base's columns. What is dropped covers all that was written so far, times
/// ahead of the clock among it; but for what a new column takes the place of at once.
pub fn log_after(
    base: &TableSchema,
    log: &TableSchema,
    renamed: &[(&str, &str)],
    now_micros: i64,
) -> Result<TableSchema, Invalid> {
    let wanted = base.log_columns();
    let mut builder = log.edit();
    for (from, to) in renamed {
        // Only key columns are renamed: they have one column here.
        if log.column(from).is_some_and(|it| it.kind == ColumnKind::Regular) {
            builder = builder.rename_column(from, to);
        }
    }
    let has: Vec<Column> = builder.columns().to_vec();
    let is_of_every_log = |name: &str| OF_EVERY_LOG.iter().any(|(known, _)| *known == name);
    let of_base =
        |column: &&Column| column.kind == ColumnKind::Regular && !is_of_every_log(&column.name);
    for column in has.iter().filter(of_base) {
        let same = wanted.iter().find(|(name, _)| *name == column.name);
        builder = match same {
            Some((_, ty)) if *ty == column.ty => builder,
            Some((name, ty)) if ty.is_value_compatible_with(&column.ty) => {
                builder.change_type(name, ty.clone())
            }
            // Another column of the same name, which came while nobody looked.
            Some((name, ty)) => builder.drop_column(name, now_micros).regular(name, ty.clone()),
            None => builder.drop_column(&column.name, now_micros.saturating_add(AHEAD_MICROS)),
        };
    }
    for (name, ty) in wanted {
        if !has.iter().any(|column| column.name == name) {
            builder = builder.regular(&name, ty);
        }
    }
    builder.version(log.version).build()
}

impl TableSchema {
    /// The columns that the log of this table has for those of this table: for keys first, then in
    /// order of ids, so that a new log's ids ascend with those of its base, as cells do in rows.
    pub fn log_columns(&self) -> Vec<(String, Type)> {
        let mut out = Vec::with_capacity(3 * self.columns.len());
        let mut columns: Vec<&Column> = self.columns.iter().collect();
        columns.sort_by_key(|it| match it.kind {
            ColumnKind::PartitionKey | ColumnKind::Clustering => None,
            ColumnKind::Static | ColumnKind::Regular => Some(it.id),
        });
        for column in columns {
            if column.kind < ColumnKind::Static {
                out.push((column.name.clone(), column.ty.clone()));
                continue;
            }
            out.push((column.name.clone(), value_type(&column.ty)));
            out.push((deleted(&column.name), Type::Boolean));
            if let Some(ty) = deleted_elements_type(&column.ty) {
                out.push((deleted_elements(&column.name), ty));
            }
        }
        out
    }

    /// Whether it comes after another table, which it is of: a view, or a log.
    pub fn is_derived(&self) -> bool {
        self.view.is_some() || self.log.is_some()
    }

    /// Whether changes of another table go to this one.
    pub fn is_attached_log(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.attached)
    }
}

impl TableBuilder {
    /// Makes it a log.
    pub fn log(mut self, log: CdcLog) -> TableBuilder {
        self.table.log = Some(Box::new(log));
        self
    }

    /// Its columns so far.
    fn columns(&self) -> &[Column] {
        &self.table.columns
    }
}

#[cfg(test)]
mod tests;
