//! Rows that say when they expire: their tables are scanned, and expired rows are deleted.
//!
//! A column of CQL holds seconds since the epoch (`int`, `bigint`) or a `timestamp`; an attribute
//! of the DynamoDB API a number of seconds (`clock`). A time more than five years ago is taken for
//! a mistake, and its row stays.
//!
//! Invariants
//!  - *later-writes-stay*: a deletion has the time at which its page was read, so that later
//!    writes, such as a later expiry, are not covered.
//!  - *one-scan*: shard 0 scans, one page after the other.
//!  - *told-once*: of several replicas the first that is alive deletes for all. If it dies, or
//!    others take it for dead, in the midst of that, a deletion may be told twice.
//!  - *still-expired*: who deletes for all has asked a quorum whether the row has expired, and the
//!    deletion has the time of that question. So a later expiry that was acknowledged is not lost
//!    because this replica missed it.

mod clock;

use crate::coordinator::{Coordinator, own_coordinator};
use crate::epochs::Epochs;
use crate::options::{Consistency, ReadOptions, WriteKind, WriteOptions};
use crate::range;
use clock::Clock;
use cluster::settings::{Settings, anything};
use cluster::{Live, TableEntry, TableKind};
use derived::log::Origin;
use model::{TableSchema, Token};
use mutation::page::{Page, PageView, Partitions, ReadCommand, RingBound, SendRange};
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
            .filter(|table| Clock::of(&table.schema).is_some())
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

/// A row that has expired, and its deletion.
struct Expired {
    token: Token,
    partition: Vec<u8>,
    clustering: Vec<u8>,
    deletion: FrozenMutation,
}

async fn scan(coordinator: &Coordinator, table: &TableEntry) -> Result<(), String> {
    let Some(clock) = Clock::of(&table.schema) else { return Ok(()) };
    if table.kind != TableKind::Stored {
        return Ok(());
    }
    let options = ReadOptions::new(Consistency::LocalOne, PAGE_TIMEOUT);
    let mut command = command(&table.schema, clock);
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
        for row in expired(&table.schema, clock, &command, &page, asked_at) {
            let has_deleted = match coordinator.is_spread(table) || table.log.is_some() {
                true => delete_for_all(coordinator, table, clock, &row).await?,
                false => {
                    let shard = table.tablets.shard_of(row.token);
                    let applied = coordinator.apply(shard, row.deletion).await;
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
    clock: Clock<'_>,
    row: &Expired,
) -> Result<bool, String> {
    let token = row.token;
    if let Some(replicas) = coordinator.replicas(table, token) {
        let places = coordinator.places();
        let alive = replicas.iter().filter(|it| it.is_here || places.is_alive(it.host_id));
        let first = alive.min_by_key(|it| (it.rank, it.host_id));
        if first.is_none_or(|first| !first.is_here) {
            return Ok(false);
        }
    }
    let Some(deletion) = asked_again(coordinator, table, clock, row).await? else {
        return Ok(false);
    };
    let _entered = Epochs::enter(&*coordinator.epochs);
    let (consistency, kind) = (Consistency::LocalQuorum, WriteKind::Simple);
    let options = WriteOptions { consistency, timeout: PAGE_TIMEOUT, kind, limit: None };
    let written = match table.log {
        Some(_) => {
            let place = (table, token);
            let logged = coordinator.logged(place, deletion, &options, Origin::RowTtl).await;
            let logged = logged.map_err(|error| error.to_string())?;
            coordinator.write(table, token, logged, &options).await
        }
        None => coordinator.write(table, token, deletion, &options).await,
    };
    written.map(|()| true).map_err(|error| error.to_string())
}

/// The deletion of a row of which a quorum says that it has expired (*still-expired*).
async fn asked_again(
    coordinator: &Coordinator,
    table: &TableEntry,
    clock: Clock<'_>,
    row: &Expired,
) -> Result<Option<FrozenMutation>, String> {
    let asked_at = runtime::time::wall_micros();
    let range = match row.clustering.is_empty() {
        true => SendRange::full(),
        false => SendRange::of_prefix(&row.clustering),
    };
    let command = ReadCommand {
        partitions: Partitions::Key(row.partition.clone()),
        ranges: vec![range],
        row_limit: 1,
        tombstone_limit: u64::MAX,
        now: asked_at.div_euclid(1_000_000),
        ..command(&table.schema, clock)
    };
    let options = ReadOptions::new(Consistency::LocalQuorum, PAGE_TIMEOUT);
    let page = coordinator.read(table, row.token, &command, &options).await;
    let page = page.map_err(|error| error.to_string())?;
    let mut found = expired(&table.schema, clock, &command, &page, asked_at);
    debug_assert!(found.len() <= 1, "still-expired: another row");
    Ok(found.pop().map(|row| row.deletion))
}

fn command(table: &TableSchema, clock: Clock<'_>) -> ReadCommand {
    let bound = |token, after| RingBound { token, key: None, after };
    ReadCommand {
        table: table.id,
        partitions: Partitions::Range {
            start: bound(Token::MIN, false),
            end: bound(Token::MAX, true),
        },
        ranges: vec![SendRange::full()],
        reversed: false,
        columns: clock.columns(),
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

/// The rows of a page that have expired at `now_micros`.
fn expired(
    table: &TableSchema,
    clock: Clock<'_>,
    command: &ReadCommand,
    page: &Page,
    now_micros: i64,
) -> Vec<Expired> {
    let now_secs = now_micros.div_euclid(1_000_000);
    let tombstone = Tombstone::new(now_micros, now_secs);
    debug_assert!(!tombstone.covers(now_micros + 1), "later-writes-stay: {tombstone:?}");
    let mut found = Vec::new();
    for partition in PageView::trusted(&page.bytes, command.layout()).partitions() {
        for row in partition.rows() {
            let Some(at_secs) = clock.at(table, &partition, &row) else { continue };
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
            found.push(Expired {
                token: Token::of(partition.key()),
                partition: partition.key().to_vec(),
                clustering: row.clustering().to_vec(),
                deletion: builder.freeze(),
            });
        }
    }
    let (deleted, read) = (found.len() as u64, page.row_count);
    assert!(deleted <= read, "later-writes-stay: {deleted} deletions of {read} rows");
    let ordered = found.is_sorted_by_key(|row| row.token);
    debug_assert!(ordered, "one-scan: a page out of order");
    found
}
