//! Batches that are all or nothing: recorded in the batchlog, tried again until all of them is
//! written, forgotten.
//!
//! A batch of which parts are on several nodes is in the batchlog of the node that coordinates it,
//! before any replica is told and until enough of each part's replicas have acknowledged; a start
//! tries again what was left.
//!
//! Invariants
//!  - *complete*: as in `batch`.
//!  - *forgotten-when-durable*: the row of a batch is removed only after all of it was applied,
//!    and not before what was applied is durable.

use crate::batchlog::{self, Logged};
use crate::coordinator::batch::{self, Groups};
use crate::coordinator::nodes::{self, Parts};
use crate::coordinator::{BatchEntry, Coordinator, own_coordinator};
use crate::error::{WriteError, write_failed};
use crate::options::{BatchKind, Consistency, WriteKind, WriteOptions};
use crate::range;
use cluster::TableEntry;
use model::{Token, Uuid};
use mutation::FrozenMutation;
use mutation::page::{ColumnForm, Page, PageView, Partitions, ReadCommand, RingBound, SendRange};
use runtime::sync::Receiver;
use runtime::time::Instant;
use std::time::Duration;

/// Writes all groups. Logged, and of several shards: remembered first.
pub(crate) async fn write(
    coordinator: &Coordinator,
    kind: BatchKind,
    groups: Groups,
) -> Result<(), storage::WriteError> {
    if kind == BatchKind::Unlogged || groups.len() < 2 {
        return batch::apply(coordinator, groups).await;
    }
    // A task of its own: once remembered the batch goes on, also when the client's time is over.
    let task = coordinator.background.spawn(write_remembered(groups));
    task.await.unwrap_or(Err(storage::WriteError::Stopped))
}

async fn write_remembered(groups: Groups) -> Result<(), storage::WriteError> {
    assert!(1 < groups.len(), "complete: one shard writes its part as one");
    let coordinator = own_coordinator()?;
    let all: Vec<FrozenMutation> = groups.values().flatten().cloned().collect();
    let logged = remember(&coordinator, &all).await?;
    let applied = batch::apply(&coordinator, groups).await;
    match applied {
        Ok(()) => forget(&coordinator, logged),
        Err(_) => retry_later(&coordinator, logged, all),
    }
    applied
}

/// Writes a batch to the batchlog.
pub(crate) async fn remember(
    coordinator: &Coordinator,
    mutations: &[FrozenMutation],
) -> Result<Logged, storage::WriteError> {
    let table = batchlog::table(&coordinator.cluster.schema());
    let id = cluster::uuids::random_uuid();
    let logged = Logged { id, written_at: runtime::time::wall_micros() };
    let row = logged.row(&table.schema, mutations);
    coordinator.apply(owner_of(&table, id), row).await?;
    coordinator.traffic.logged_batches.add(1);
    Ok(logged)
}

/// As [`Coordinator::write_batch`], of which a part is on several nodes.
pub(crate) async fn write_spread(
    coordinator: &Coordinator,
    kind: BatchKind,
    entries: Vec<BatchEntry>,
    options: &WriteOptions,
) -> Result<(), WriteError> {
    nodes::refuse_write(options.consistency)?;
    entries.iter().for_each(BatchEntry::check);
    let parts = Parts::of(coordinator, entries);
    if kind == BatchKind::Unlogged || parts.count() < 2 {
        return parts.write(coordinator, options).await;
    }
    let options = WriteOptions { kind: WriteKind::Batch, ..*options };
    // A task of its own: once remembered the batch goes on, also when its client goes.
    let task = coordinator.background.spawn(write_parts(parts, options));
    let stopped = || Err(WriteError::Overloaded("the node stops".to_owned()));
    task.await.unwrap_or_else(|_| stopped())
}

async fn write_parts(parts: Parts, options: WriteOptions) -> Result<(), WriteError> {
    let failed = |error| write_failed(error, options.consistency, options.kind, 1);
    let coordinator = own_coordinator().map_err(failed)?;
    let all: Vec<FrozenMutation> = parts.mutations().cloned().collect();
    assert!(1 < parts.count(), "complete: what goes as one need not be remembered");
    let logged = remember(&coordinator, &all).await.map_err(failed)?;
    let written = parts.write(&coordinator, &options).await;
    match &written {
        Ok(()) => forget(&coordinator, logged),
        Err(_) => retry_later(&coordinator, logged, all),
    }
    written
}

/// Batches of one shard that wait to be forgotten at most; others are applied again at the next
/// start.
pub(crate) const FORGETTING_MAX: usize = 1 << 16;
/// Batches that are forgotten by one write.
const FORGOTTEN_AT_ONCE_MAX: usize = 256;
/// Half-done batches of one shard that are tried again at most; others at the next start.
const RETRYING_MAX: u32 = 1024;
/// Time between two tries.
const RETRY_PERIOD: Duration = Duration::from_secs(1);

const _: () = assert!(FORGOTTEN_AT_ONCE_MAX <= FORGETTING_MAX, "a part of what waits");
const _: () = assert!(0 < RETRYING_MAX, "a half-done batch is tried again");

/// A batch that is applied.
#[derive(Debug)]
pub(crate) struct Applied {
    logged: Logged,
    /// When it is durable.
    due: Instant,
}

/// Schedules the removal of a batch's row, for when all of the batch is durable.
pub(crate) fn forget(coordinator: &Coordinator, logged: Logged) {
    let due = Instant::now() + coordinator.config.batch_memory;
    if coordinator.applied.try_send(Applied { logged, due }).is_err() {
        stdx::probe!("a batch is remembered until the next start");
    }
}

/// Removes the rows of batches that are durable, for as long as the coordinator lives.
pub(crate) async fn forget_durable(mut applied: Receiver<Applied>) {
    let mut next = applied.recv().await;
    while let Some(first) = next.take() {
        runtime::time::sleep_until(first.due).await;
        let now = Instant::now();
        assert!(first.due <= now, "forgotten-when-durable: {:?} is not yet", first.logged);
        let mut due = vec![first.logged];
        while due.len() < FORGOTTEN_AT_ONCE_MAX && next.is_none() {
            match applied.try_recv() {
                Some(one) if one.due <= now => due.push(one.logged),
                Some(later) => next = Some(later),
                None => break,
            }
        }
        assert!(due.len() <= FORGOTTEN_AT_ONCE_MAX, "{} batches at once", due.len());
        let in_order = next.as_ref().is_none_or(|next| first.due <= next.due);
        assert!(in_order, "forgotten-when-durable: a later batch was due before");
        remove(&due).await;
        if next.is_none() {
            next = applied.recv().await;
        }
    }
}

async fn remove(batches: &[Logged]) {
    let Some(coordinator) = runtime::local::try_get::<Coordinator>() else { return };
    let table = batchlog::table(&coordinator.cluster.schema());
    let mut groups = Groups::new();
    for logged in batches {
        let shard = owner_of(&table, logged.id);
        groups.entry(shard).or_default().push(logged.removal(&table.schema));
    }
    if let Err(error) = batch::apply(&coordinator, groups).await {
        tracing::warn!(
            target: "batchlog", %error,
            "cannot remove applied batches from system.batchlog"
        );
    }
}

/// Retries a batch that was applied in part until it succeeds.
pub(crate) fn retry_later(
    coordinator: &Coordinator,
    logged: Logged,
    mutations: Vec<FrozenMutation>,
) {
    let retrying = coordinator.retrying.get();
    if RETRYING_MAX <= retrying {
        tracing::warn!(
            target: "batchlog", id = %logged.id,
            "too many batches are being retried: this one is replayed at the next start"
        );
        return;
    }
    coordinator.retrying.set(retrying + 1);
    coordinator.background.spawn(async move {
        loop {
            runtime::time::sleep(RETRY_PERIOD).await;
            let Some(coordinator) = runtime::local::try_get::<Coordinator>() else { return };
            coordinator.traffic.batch_retries.add(1);
            match nodes::retry(&coordinator, mutations.clone()).await {
                Ok(()) => {
                    let retrying = coordinator.retrying.get();
                    assert!((1..=RETRYING_MAX).contains(&retrying), "{retrying} batches retried");
                    coordinator.retrying.set(retrying - 1);
                    return forget(&coordinator, logged);
                }
                Err(error) => {
                    tracing::warn!(
                        target: "batchlog", id = %logged.id, %error,
                        "batch applied in part, will be retried"
                    );
                }
            }
        }
    });
}

fn owner_of(table: &TableEntry, id: Uuid) -> u16 {
    table.tablets.shard_of(Token::of(id.as_bytes()))
}

/// Replays the batches in the batchlog, and removes them. Returns their number.
pub(crate) async fn finish_all(coordinator: &Coordinator) -> Result<usize, WriteError> {
    let table = batchlog::table(&coordinator.cluster.schema());
    let mut finished = 0;
    for (logged, data) in remembered(coordinator, &table).await? {
        match batchlog::mutations(&data) {
            Ok(mutations) => {
                let is_spread = nodes::is_spread(coordinator, &mutations);
                match nodes::retry(coordinator, mutations.clone()).await {
                    Ok(()) => {}
                    // Its nodes are not there yet, as a rule.
                    Err(error) if is_spread => {
                        let id = logged.id;
                        tracing::info!(target: "batchlog", %id, %error, "batch is replayed later");
                        retry_later(coordinator, logged, mutations);
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            }
            Err(damaged) => {
                tracing::warn!(
                    target: "batchlog", id = %logged.id, %damaged,
                    "damaged batch in system.batchlog is skipped"
                );
                continue;
            }
        }
        forget(coordinator, logged);
        finished += 1;
    }
    Ok(finished)
}

/// All batches in the batchlog: what is needed to remove them, and their blobs.
async fn remembered(
    coordinator: &Coordinator,
    table: &TableEntry,
) -> Result<Vec<(Logged, Vec<u8>)>, WriteError> {
    let options = crate::ReadOptions::new(Consistency::One, Duration::from_secs(600));
    let mut command = read_all(table);
    let mut found = Vec::new();
    loop {
        let page = coordinator.read(table, Token::MIN, &command, &options).await;
        let page = page.map_err(|error| {
            WriteError::Refused(format!("cannot read system.batchlog: {error}"))
        })?;
        collect(&command, &page, &mut found);
        match page.resume {
            Some(resume) => {
                range::check_progress(command.resume.as_ref(), &resume);
                command.resume = Some(resume);
            }
            None => return Ok(found),
        }
    }
}

fn read_all(table: &TableEntry) -> ReadCommand {
    let bound = |token, after| RingBound { token, key: None, after };
    let data = table.schema.column("data").expect("a column of system.batchlog");
    ReadCommand {
        table: table.schema.id,
        partitions: Partitions::Range {
            start: bound(Token::MIN, false),
            end: bound(Token::MAX, true),
        },
        ranges: vec![SendRange::full()],
        reversed: false,
        columns: vec![(data.id, ColumnForm::ValueWithTimes)],
        static_count: 0,
        row_limit: u64::MAX,
        per_partition_limit: u64::MAX,
        partition_limit: u64::MAX,
        bytes_max: 1 << 20,
        static_only_rows: false,
        tombstone_limit: u64::MAX,
        now: runtime::time::wall_micros().div_euclid(1_000_000),
        bypass_cache: true,
        shape: mutation::RowShape::Whole,
        resume: None,
    }
}

fn collect(command: &ReadCommand, page: &Page, found: &mut Vec<(Logged, Vec<u8>)>) {
    range::check_page(command, page);
    for partition in PageView::trusted(&page.bytes, command.layout()).partitions() {
        let Ok(id) = Uuid::from_slice(partition.key()) else { continue };
        for column in partition.rows().flat_map(|row| row.columns()) {
            if let (Some(data), Some(times)) = (column.value, column.times) {
                found.push((Logged { id, written_at: times.timestamp }, data.to_vec()));
            }
        }
    }
}
