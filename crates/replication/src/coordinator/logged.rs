//! Batches that are all or nothing: remembered before anybody is told of a part, tried again until
//! all of them is written, forgotten.
//!
//! A batch of several shards of this node is remembered in the batchlog of this node. One of
//! several partitions on several nodes is in the batchlogs of up to two other nodes of this data
//! centre ([`crate::plan::holders`]), and not of this one: it is this one that may die in the
//! middle of it. Only where nobody else can be reached, or where a part is of a table that no other
//! node has, this node keeps it itself. When enough of each part's replicas have acknowledged,
//! those who keep it are told to forget it; until then this node tries again what was left, and
//! after a while (`replay`) those who keep it do.
//!
//! That a batch has one set of replicas does not spare it that: where one replica has all of it and
//! the others nothing, a read of one partition may ask that replica, and one of another partition
//! may not. Only what is of one partition is seen as a whole, or not, by each read.
//!
//! Invariants
//!  - *complete*: as in `batch`.
//!  - *remembered-first*: a batch of several partitions is durable where it is kept before any
//!    replica is told of any of them, on one node at least (*one-is-enough*, `nodes::holders`).
//!    Where nobody has said in time that it is, the write ends, nobody is told, and those who may
//!    have it are told to forget it.
//!  - *outlives-its-coordinator*: nobody forgets the batch before each part is on another node than
//!    this one, if it is to be on any: at ONE this node itself, and at ANY a hint of its, may have
//!    been all that acknowledged it.
//!  - *forgotten-when-durable*: see `forget`.
//!  - *said-uncertain*: as in `nodes`: what was remembered is a timeout or a failure, if it is not
//!    acknowledged.

use crate::batchlog::{self, Logged};
use crate::coordinator::batch::{self, Groups};
use crate::coordinator::forget::{Holders, forget};
use crate::coordinator::held::{Kept, owner_of};
use crate::coordinator::nodes::{self, AskedToKeep, Parts, Planted, Watch};
use crate::coordinator::{BatchEntry, Coordinator, own_coordinator};
use crate::error::{WriteError, write_failed};
use crate::options::{BatchKind, Consistency, WriteKind, WriteOptions};
use crate::rate::Limit;
use mutation::FrozenMutation;
use runtime::task::join_all;
use runtime::time::{Instant, timeout};
use std::time::Duration;

/// Writes all groups. Logged, and of several shards: remembered first.
pub(crate) async fn write(
    coordinator: &Coordinator,
    kind: BatchKind,
    groups: Groups,
) -> Result<(), storage::WriteError> {
    if kind == BatchKind::Unlogged {
        return batch::apply(coordinator, groups).await;
    }
    if groups.len() < 2 {
        let Some((shard, alone)) = groups.into_iter().next() else { return Ok(()) };
        return match batch::apply_on(coordinator, shard, alone).await {
            Ok(applied) => applied,
            // Of several shards since a moment ago.
            Err(parted) => {
                let groups = batch::divided_anew(coordinator, parted).await?;
                Box::pin(write(coordinator, kind, groups)).await
            }
        };
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
        Ok(()) => forget(&coordinator, logged, Holders::here()),
        Err(_) => retry_later(&coordinator, logged, all, Holders::here()),
    }
    applied
}

/// Writes a batch of this node alone to the batchlog.
async fn remember(
    coordinator: &Coordinator,
    mutations: &[FrozenMutation],
) -> Result<Logged, storage::WriteError> {
    let table = batchlog::table(&coordinator.cluster.schema());
    let logged = Logged::new();
    let row = logged.row(&table.schema, mutations, logged.written_at);
    coordinator.apply(owner_of(&table, logged.id), row).await?;
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
    parts.check(coordinator, options)?;
    if kind == BatchKind::Unlogged || parts.is_of_one_partition() {
        return parts.write(coordinator, options).await.map(drop);
    }
    // All or nothing: what has been remembered no replica rejects.
    let limit = options.limit.map(|_| Limit::Counts);
    let options = WriteOptions { kind: WriteKind::Batch, limit, ..*options };
    // A task of its own: once remembered the batch goes on, also when its client goes.
    let task = coordinator.background.spawn(write_parts(parts, options));
    let stopped = || Err(WriteError::Overloaded("the node stops".to_owned()));
    task.await.unwrap_or_else(|_| stopped())
}

async fn write_parts(parts: Parts, options: WriteOptions) -> Result<(), WriteError> {
    let failed = |error| write_failed(error, options.consistency, options.kind, 1);
    let coordinator = own_coordinator().map_err(failed)?;
    let all: Vec<FrozenMutation> = parts.mutations().cloned().collect();
    assert!(1 < all.len(), "complete: what is of one partition need not be remembered");
    let (logged, until) = (Logged::new(), Instant::now() + options.timeout);
    if coordinator.is_planted(Planted::TellsFirst) {
        let written = parts.write(&coordinator, &options).await;
        let holders = remember_apart(&coordinator, &logged, &all, false, &options).await?;
        forget(&coordinator, logged, holders);
        return written.map(drop);
    }
    let is_partly_here = parts.is_partly_here();
    let holders = remember_apart(&coordinator, &logged, &all, is_partly_here, &options).await?;
    // The parts have what is left of the time, and some at least: they are certain to be told.
    let left = nodes::left(until).max(options.timeout / 4);
    let written = parts.write(&coordinator, &WriteOptions { timeout: left, ..options }).await;
    match written {
        Ok(watches) if watches.iter().all(Watch::is_sure) => {
            forget(&coordinator, logged, holders);
            Ok(())
        }
        Ok(watches) => {
            coordinator.background.spawn(watch(watches, logged, all, holders));
            Ok(())
        }
        Err(error) => {
            retry_later(&coordinator, logged, all, holders);
            Err(begun(error, &options))
        }
    }
}

/// What has been begun is not unavailable.
fn begun(error: WriteError, options: &WriteOptions) -> WriteError {
    match error {
        WriteError::Unavailable { consistency, required, .. } => {
            stdx::probe!("replicas went while a batch was on its way");
            let (received, kind) = (0, options.kind);
            WriteError::Timeout { consistency, received, required, kind }
        }
        error => error,
    }
}

/// Parts that were acknowledged by this node alone, or by hints of its: the batch is not forgotten
/// before others have them.
async fn watch(watches: Vec<Watch>, logged: Logged, all: Vec<FrozenMutation>, holders: Holders) {
    assert!(!watches.is_empty(), "outlives-its-coordinator: a batch of this node alone");
    stdx::probe!("a batch is acknowledged whose parts only this node has");
    let known = join_all(watches.iter().map(Watch::is_elsewhere)).await;
    debug_assert!(known.len() == watches.len(), "outlives-its-coordinator: {known:?}");
    let Ok(coordinator) = own_coordinator() else { return };
    match known.into_iter().all(|is_elsewhere| is_elsewhere) {
        true => forget(&coordinator, logged, holders),
        false => retry_later(&coordinator, logged, all, holders),
    }
}

/// Has a batch kept elsewhere, or else here; who may have it.
async fn remember_apart(
    coordinator: &Coordinator,
    logged: &Logged,
    all: &[FrozenMutation],
    is_partly_here: bool,
    options: &WriteOptions,
) -> Result<Holders, WriteError> {
    let until = Instant::now() + options.timeout;
    let WriteOptions { consistency, .. } = *options;
    let (kind, received, required) = (WriteKind::BatchLog, 0, 1);
    let too_late = WriteError::Timeout { consistency, received, required, kind };
    let AskedToKeep { hosts, kept, have_ended } = match is_partly_here {
        true => AskedToKeep { hosts: Vec::new(), kept: 0, have_ended: true },
        false => coordinator.ask_to_keep(logged, all, options.timeout).await,
    };
    assert!(kept as usize <= hosts.len(), "remembered-first: {kept} of {hosts:?}");
    let holders = Holders { is_here: false, hosts };
    if 0 < kept {
        coordinator.traffic.logged_batches.add(1);
        return Ok(holders);
    }
    if !have_ended {
        stdx::probe!("nobody has said in time that a batch is kept");
        forget(coordinator, *logged, holders);
        return Err(too_late);
    }
    let here = timeout(nodes::left(until), coordinator.keep_batch(*logged, all)).await;
    let holders = Holders { is_here: true, ..holders };
    match here {
        Ok(Ok(())) => {
            coordinator.traffic.logged_batches.add(1);
            Ok(holders)
        }
        failed => {
            forget(coordinator, *logged, holders);
            let error = failed.ok().and_then(Result::err);
            let failed = |error| write_failed(error, consistency, kind, required);
            Err(error.map_or(too_late, failed))
        }
    }
}

/// Half-done batches of one shard that are tried again at most; others are replayed by who keeps
/// them.
const RETRYING_MAX: u32 = 1024;
/// Time between two tries.
const RETRY_PERIOD: Duration = Duration::from_secs(1);

const _: () = assert!(0 < RETRYING_MAX, "a half-done batch is tried again");

/// Retries a batch that was applied in part until it succeeds.
fn retry_later(
    coordinator: &Coordinator,
    logged: Logged,
    mutations: Vec<FrozenMutation>,
    holders: Holders,
) {
    let retrying = coordinator.retrying.get();
    if RETRYING_MAX <= retrying {
        tracing::warn!(
            target: "batchlog", id = %logged.id,
            "too many batches are being retried: this one is replayed by those who keep it"
        );
        return;
    }
    coordinator.retrying.set(retrying + 1);
    coordinator.background.spawn(async move {
        loop {
            runtime::time::sleep(RETRY_PERIOD).await;
            let Ok(coordinator) = own_coordinator() else { return };
            coordinator.traffic.batch_retries.add(1);
            match nodes::complete(&coordinator, logged.written_at, mutations.clone()).await {
                Ok(()) => {
                    let retrying = coordinator.retrying.get();
                    assert!((1..=RETRYING_MAX).contains(&retrying), "{retrying} batches retried");
                    coordinator.retrying.set(retrying - 1);
                    return forget(&coordinator, logged, holders);
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

/// Replays the batches of this node alone that an earlier life has left, and removes them; returns
/// their number. Those of other nodes too are replayed when these may be there.
pub(crate) async fn finish_all(coordinator: &Coordinator) -> Result<usize, WriteError> {
    if coordinator.is_planted(Planted::ForgetsBatches) {
        return Ok(0);
    }
    let mut finished = 0;
    for Kept { logged, kept_at, data } in coordinator.all_kept().await? {
        let mutations = match batchlog::mutations(&data) {
            Ok(mutations) => mutations,
            Err(damaged) => {
                tracing::warn!(
                    target: "batchlog", id = %logged.id, %damaged,
                    "damaged batch in system.batchlog is skipped"
                );
                continue;
            }
        };
        if nodes::is_spread(coordinator, &mutations) {
            let known = coordinator.know_batch(logged.id).await;
            known.map_err(|error| write_failed(error, Consistency::One, WriteKind::Batch, 1))?;
            continue;
        }
        nodes::complete(coordinator, kept_at, mutations).await?;
        forget(coordinator, logged, Holders::here());
        finished += 1;
    }
    Ok(finished)
}
