//! Per-row TTL: tables with a TTL column are scanned, and expired rows are deleted.
//!
//! The column holds seconds since the epoch (`int`, `bigint`) or a `timestamp`. A time more than
//! five years ago is taken for a mistake, and its row stays.
//!
//! Invariants
//!  - *later-writes-stay*: a deletion has the time at which its page was read, so that later
//!    writes, such as a later expiry, are not covered.
//!  - *one-scan*: shard 0 scans, one page after the other.
//!  - *told-once*: each node deletes what it has itself; but where a log tells of deletions, the
//!    first of the replicas that are alive does so for all. If it dies, or others take it for dead,
//!    in the midst of that, a deletion may be told twice.

use crate::coordinator::{Coordinator, own_coordinator};
use crate::options::{Consistency, ReadOptions, WriteKind, WriteOptions};
use crate::range;
use cluster::settings::{Settings, anything};
use cluster::{Live, TableEntry, TableKind};
use derived::log::Origin;
use model::schema::TableOptions;
use model::{Column, TableSchema, Token, Type, value};
use mutation::page::{ColumnForm, Page, PageView, Partitions, ReadCommand, RingBound, SendRange};
use mutation::{FrozenMutation, MutationBuilder, RowBuilder, Tombstone};
use runtime::time::{Instant, sleep};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Times before that many seconds ago are mistakes.
const EXPIRED_SECS_MAX: i64 = 5 * 365 * 24 * 3600;
/// How often the period, which may change, is looked at.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// Rows of a page, so that deletions follow what was read soon.
const PAGE_ROWS: u64 = 1000;
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);

const _: () = assert!(LOOK_PERIOD.as_nanos() < PAGE_TIMEOUT.as_nanos(), "a page outlasts a look");

/// What the scans have done.
#[derive(Debug, Default)]
pub struct Counters {
    /// Scans of all tables.
    pub passes: Cell<u64>,
    /// Tables with a TTL column that were scanned.
    pub tables: Cell<u64>,
    /// Rows that were deleted.
    pub rows: Cell<u64>,
}

fn count(counter: &Cell<u64>, more: u64) {
    counter.set(counter.get() + more);
}

/// Scans periodically, for as long as the coordinator lives.
pub(crate) async fn scan_all() {
    let settings = Settings::of_shard();
    let name = "alternator_ttl_period_in_seconds";
    let period: Live<f64> = settings.register(name, 86_400.0, anything);
    let mut begun = Instant::now();
    assert!(runtime::shard_id() == 0, "one-scan: on another shard");
    loop {
        let secs = period.get().clamp(0.01, 1e9);
        debug_assert!(secs.is_finite(), "a scan every {secs} seconds");
        let due = begun + Duration::from_secs_f64(secs);
        let now = Instant::now();
        if now < due {
            sleep((due - now).min(LOOK_PERIOD)).await;
            continue;
        }
        assert!(begun <= now, "one-scan: two at once");
        begun = now;
        let Ok(coordinator) = own_coordinator() else { return };
        let schema = coordinator.cluster.schema();
        let tables: Vec<Rc<TableEntry>> = schema
            .keyspaces
            .values()
            .flat_map(|it| it.tables.values())
            .filter(|table| ttl_column(&table.schema).is_some())
            .cloned()
            .collect();
        for table in tables {
            if let Err(reason) = scan(&coordinator, &table).await {
                let TableSchema { keyspace, name, .. } = &*table.schema;
                tracing::warn!(
                    target: "ttl",
                    "cannot scan {keyspace}.{name} for expired rows: {reason}"
                );
            }
            count(&coordinator.expired.tables, 1);
        }
        count(&coordinator.expired.passes, 1);
    }
}

/// The column that says when a row expires.
fn ttl_column(table: &TableSchema) -> Option<&Column> {
    table.column(table.options.extension(TableOptions::ROW_TTL_COLUMN)?)
}

async fn scan(coordinator: &Coordinator, table: &TableEntry) -> Result<(), String> {
    let Some(column) = ttl_column(&table.schema) else { return Ok(()) };
    if table.kind != TableKind::Stored {
        return Ok(());
    }
    let options = ReadOptions::new(Consistency::LocalOne, PAGE_TIMEOUT);
    let mut command = command(&table.schema, column);
    loop {
        let asked_at = runtime::time::wall_micros();
        command.now = asked_at.div_euclid(1_000_000);
        let page = match coordinator.is_spread(table) {
            // Each node sees to what it has.
            true => coordinator.page_here(table, &command).await.map_err(|it| it.to_string())?,
            false => {
                let page = coordinator.read(table, Token::MIN, &command, &options).await;
                page.map_err(|error| error.to_string())?
            }
        };
        for (token, deletion) in deletions(&table.schema, column, &command, &page, asked_at) {
            let has_deleted = match table.log {
                Some(_) => delete_for_all(coordinator, table, token, deletion).await?,
                None => {
                    let shard = table.tablets.shard_of(token);
                    let applied = coordinator.apply(shard, deletion).await;
                    applied.map_err(|error| error.to_string())?;
                    true
                }
            };
            count(&coordinator.expired.rows, has_deleted.into());
        }
        match page.resume {
            Some(resume) => {
                range::check_progress(command.resume.as_ref(), &resume);
                command.resume = Some(resume);
            }
            None => return Ok(()),
        }
    }
}

/// Deletes on all replicas, if this node is who does that (*told-once*).
async fn delete_for_all(
    coordinator: &Coordinator,
    table: &TableEntry,
    token: Token,
    deletion: FrozenMutation,
) -> Result<bool, String> {
    debug_assert!(table.log.is_some(), "told-once: nobody tells of it");
    if let Some(replicas) = coordinator.replicas(table, token) {
        let places = coordinator.places();
        let alive = replicas.iter().filter(|it| it.is_here || places.is_alive(it.host_id));
        let first = alive.min_by_key(|it| (it.rank, it.host_id));
        if first.is_none_or(|first| !first.is_here) {
            return Ok(false);
        }
    }
    let (consistency, kind) = (Consistency::LocalQuorum, WriteKind::Simple);
    let options = WriteOptions { consistency, timeout: PAGE_TIMEOUT, kind, limit: None };
    let logged = coordinator.logged(table, deletion, &options, Origin::RowTtl).await;
    let logged = logged.map_err(|error| error.to_string())?;
    let written = coordinator.write(table, token, logged, &options).await;
    written.map(|()| true).map_err(|error| error.to_string())
}

fn command(table: &TableSchema, column: &Column) -> ReadCommand {
    let bound = |token, after| RingBound { token, key: None, after };
    ReadCommand {
        table: table.id,
        partitions: Partitions::Range {
            start: bound(Token::MIN, false),
            end: bound(Token::MAX, true),
        },
        ranges: vec![SendRange::full()],
        reversed: false,
        columns: vec![(column.id, ColumnForm::Value)],
        static_count: 0,
        row_limit: PAGE_ROWS,
        per_partition_limit: u64::MAX,
        partition_limit: u64::MAX,
        bytes_max: 1 << 20,
        static_only_rows: false,
        tombstone_limit: PAGE_ROWS,
        now: 0,
        bypass_cache: true,
        shape: mutation::RowShape::Whole,
        resume: None,
    }
}

/// The deletions of the rows of a page that have expired at `now_micros`.
fn deletions(
    table: &TableSchema,
    column: &Column,
    command: &ReadCommand,
    page: &Page,
    now_micros: i64,
) -> Vec<(Token, FrozenMutation)> {
    let now_secs = now_micros.div_euclid(1_000_000);
    let tombstone = Tombstone::new(now_micros, now_secs);
    debug_assert!(!tombstone.covers(now_micros + 1), "later-writes-stay: {tombstone:?}");
    let mut found = Vec::new();
    for partition in PageView::trusted(&page.bytes, command.layout()).partitions() {
        for row in partition.rows() {
            let value = row.columns().next().and_then(|column| column.value);
            let Some(at_secs) = value.and_then(|bytes| expiry_secs(&column.ty, bytes)) else {
                continue;
            };
            if now_secs < at_secs || at_secs < now_secs - EXPIRED_SECS_MAX {
                continue;
            }
            let mut builder = MutationBuilder::new(table, partition.key());
            if table.clustering_count == 0 {
                builder.delete_partition(tombstone);
            } else {
                let mut deleted = RowBuilder::new(Vec::new());
                deleted.tombstone(tombstone);
                builder.row(row.clustering(), &deleted.finish());
            }
            found.push((Token::of(partition.key()), builder.freeze()));
        }
    }
    let (deleted, read) = (found.len() as u64, page.row_count);
    assert!(deleted <= read, "later-writes-stay: {deleted} deletions of {read} rows");
    let ordered = found.is_sorted_by_key(|(token, _)| *token);
    debug_assert!(ordered, "one-scan: a page out of order");
    found
}

/// When a row expires, seconds since the epoch.
fn expiry_secs(ty: &Type, bytes: &[u8]) -> Option<i64> {
    match ty {
        Type::Int => value::decode_i32(bytes).map(i64::from),
        Type::BigInt => value::decode_i64(bytes),
        Type::Timestamp => value::decode_i64(bytes).map(|millis| millis.div_euclid(1000)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_or_milliseconds() {
        let check = |ty: Type, bytes: &[u8], expected: Option<i64>| {
            assert_eq!(expiry_secs(&ty, bytes), expected, "{ty:?}");
        };
        check(Type::Int, &7i32.to_be_bytes(), Some(7));
        check(Type::BigInt, &(1i64 << 40).to_be_bytes(), Some(1 << 40));
        check(Type::Timestamp, &1999i64.to_be_bytes(), Some(1));
        check(Type::Timestamp, &(-1i64).to_be_bytes(), Some(-1));
        check(Type::BigInt, b"", None);
        check(Type::Text, b"12345678", None);
    }
}
