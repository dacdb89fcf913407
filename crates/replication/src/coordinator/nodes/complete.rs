//! Batches that are left: all of them is written, so that it stays, whoever is away.
//!
//! Invariants
//!  - *all-of-it*: a batch is complete when each of its parts is on a quorum of its replicas, of as
//!    many as there are, and each replica beside them has a hint on the disk, or none is kept for
//!    it by what the operator has said. What lacks that is tried again, as a whole.
//!  - *not-too-old*: as for hints: what may have been deleted and forgotten meanwhile is written by
//!    nobody, nor what is of a table that was truncated since, or is no more.
//!  - *as-written*: parts have the timestamps of the batch.

use super::batches::{Part, Parts};
use super::peers::Told;
use super::{Coordinator, Planted};
use crate::coordinator::cdc::Logging;
use crate::coordinator::{BatchEntry, batch};
use crate::epochs::Epochs;
use crate::error::{WriteError, write_failed};
use crate::hints::decide::{Denied, grace_of, may_send};
use crate::hints::{Hints, Missed};
use crate::options::{Consistency, WriteKind};
use crate::placement::Sides;
use crate::plan::nodes::{BothSides, Candidate, Unavailable, plan_write};
use cluster::{TableEntry, TableKind};
use derived::log::Origin;
use model::{TableSchema, Token};
use mutation::{Cell, ColumnData, FrozenMutation, FrozenView, Marker, MutationBuilder, RowBuilder};
use runtime::task::join_all;
use runtime::time::{timeout, wall_micros};
use std::time::Duration;

/// How long one try of a batch that is left waits for its replicas.
const TIMEOUT: Duration = Duration::from_secs(10);
const LEVEL: Consistency = Consistency::Quorum;

/// Whether a batch is also of other nodes, as far as this one knows.
pub(crate) fn is_spread(coordinator: &Coordinator, mutations: &[FrozenMutation]) -> bool {
    let schema = coordinator.cluster.schema();
    let is_alone = coordinator.places().others().is_empty();
    mutations.iter().any(|mutation| {
        let table = mutation.view().ok().and_then(|view| schema.table_by_id(view.table()));
        // One that is not known may be so soon.
        table.map_or(!is_alone, |table| coordinator.is_spread(table))
    })
}

/// Writes what is left of a batch that was kept at `kept_at`, microseconds by this node's clock.
pub(crate) async fn complete(
    coordinator: &Coordinator,
    kept_at: i64,
    mutations: Vec<FrozenMutation>,
) -> Result<(), WriteError> {
    let remembered = mutations.len();
    know_tables(coordinator, &mutations).await?;
    let schema = coordinator.cluster.schema();
    let mut entries = Vec::with_capacity(remembered);
    for mutation in mutations {
        let Ok(view) = FrozenView::parse(&mutation.0) else { continue };
        let (table, token) = (schema.table_by_id(view.table()), Token::of(view.key()));
        let table = table.filter(|table| is_wanted(coordinator, table, &view, kept_at)).cloned();
        let Some(table) = table else {
            coordinator.held().discarded.add(1);
            continue;
        };
        let mutation = match coordinator.is_planted(Planted::ReplaysAnew) {
            true => anew(&table.schema, &view),
            false => mutation,
        };
        let mutation = match coordinator.is_planted(Planted::LogsAgain) {
            true => logged_again(coordinator, &table, mutation),
            false => mutation,
        };
        entries.push(BatchEntry { table, token, mutation });
    }
    assert!(entries.len() <= remembered, "complete: {} of {remembered}", entries.len());
    let _entered = Epochs::enter(&*coordinator.epochs);
    let Parts { here, spread } = Parts::of(coordinator, entries);
    if !here.is_empty() {
        let applied = timeout(TIMEOUT, batch::apply(coordinator, here)).await;
        let applied = applied.map_err(|_| timed_out(0, 1))?;
        applied.map_err(|error| write_failed(error, LEVEL, WriteKind::Batch, 1))?;
    }
    let brought = join_all(spread.into_iter().map(|part| bring(coordinator, part, kept_at)));
    brought.await.into_iter().collect()
}

fn timed_out(received: u32, required: u32) -> WriteError {
    WriteError::Timeout { consistency: LEVEL, received, required, kind: WriteKind::Batch }
}

/// Other nodes may know tables that this one does not know yet: those are waited for.
pub(crate) async fn know_tables(
    coordinator: &Coordinator,
    mutations: &[FrozenMutation],
) -> Result<(), WriteError> {
    let schema = coordinator.cluster.schema();
    let is_known = |mutation: &FrozenMutation| {
        mutation.view().is_ok_and(|view| schema.table_by_id(view.table()).is_some())
    };
    if mutations.iter().all(is_known) || coordinator.places().others().is_empty() {
        return Ok(());
    }
    match timeout(TIMEOUT, coordinator.cluster.catch_up()).await {
        Ok(caught_up) => caught_up.map_err(WriteError::Overloaded),
        Err(_) => Err(timed_out(0, 1)),
    }
}

/// Whether a mutation is still to be written: *not-too-old* where several nodes have it.
pub(crate) fn is_wanted(
    coordinator: &Coordinator,
    table: &TableEntry,
    view: &FrozenView<'_>,
    kept_at: i64,
) -> bool {
    if let Err(damaged) = view.check_order(&table.schema.order) {
        tracing::warn!(target: "batchlog", %damaged, "a part of a batch is skipped");
        return false;
    }
    if table.kind != TableKind::Stored || !coordinator.is_spread(table) {
        return table.kind == TableKind::Stored;
    }
    let truncated = Hints::of_shard().and_then(|hints| hints.truncated_at(table.schema.id));
    may_send(kept_at, wall_micros(), grace_of(&table.schema), truncated)
}

/// What a quorum is of where fewer nodes are there than copies are wanted.
fn as_many_as_there_are(mut factors: BothSides, candidates: &[Candidate]) -> BothSides {
    let count = |is_on: fn(Sides) -> bool| {
        candidates.iter().filter(|candidate| is_on(candidate.sides)).count() as u32
    };
    factors.read.total = factors.read.total.min(count(Sides::is_read));
    if let Some(beside) = &mut factors.beside {
        beside.total = beside.total.min(count(Sides::is_written_beside));
    }
    debug_assert!(factors.read.total <= candidates.len() as u32, "all-of-it: {factors:?}");
    factors
}

/// Brings a part to its replicas (*all-of-it*).
async fn bring(coordinator: &Coordinator, part: Part, kept_at: i64) -> Result<(), WriteError> {
    let Part { replicas, copies, mutations } = part;
    let candidates = coordinator.candidates(&replicas);
    let factors = as_many_as_there_are(coordinator.factors(&copies, &replicas, LEVEL), &candidates);
    let mut tally = plan_write(LEVEL, &factors, &candidates).map_err(|missing| {
        let Unavailable { required, alive } = missing;
        WriteError::Unavailable { consistency: LEVEL, required, alive }
    })?;
    let told = Told::new(mutations);
    let tell = replicas.iter().zip(&*candidates).map(async |(replica, candidate)| {
        candidate.is_alive && coordinator.tell(replica, &told, TIMEOUT).await.is_ok()
    });
    let have = join_all(tell).await;
    for (candidate, has) in candidates.iter().zip(&have).filter(|(one, _)| one.is_alive) {
        if *has { tally.acknowledge(candidate) } else { tally.fail(candidate) }
    }
    let (received, required) = (tally.received(), tally.required());
    assert!(0 < required, "all-of-it: nobody has to have a part");
    if !tally.is_met() {
        return Err(timed_out(received, required));
    }
    let hints = Hints::of_shard();
    let request = || told.request();
    for (replica, _) in replicas.iter().zip(&have).filter(|(_, has)| !**has) {
        debug_assert!(required <= received, "all-of-it: a hint before there is a quorum");
        if replica.is_here {
            return Err(timed_out(received, required));
        }
        let Some(hints) = &hints else { continue };
        let (host, bytes) = (replica.host_id, told.request_bytes());
        let missed = Missed { host, written_at: kept_at, bytes, request: &request };
        match hints.keep_durably(&missed).await {
            Ok(true) => {}
            Ok(false) | Err(Denied::Crowded | Denied::OverQuota) => {
                return Err(timed_out(received, required));
            }
            Err(Denied::Disabled | Denied::OutOfWindow | Denied::TooLarge | Denied::NotKept) => {}
        }
    }
    Ok(())
}

/// The mistake to make rows of its log anew.
fn logged_again(
    coordinator: &Coordinator,
    table: &TableEntry,
    mutation: FrozenMutation,
) -> FrozenMutation {
    let (alone, _) = mutation.clone().detach();
    let Ok(token) = FrozenView::trusted(&alone.0).map(|view| Token::of(view.key())) else {
        return mutation;
    };
    match coordinator.begin_logging((table.schema.id, token), alone, Origin::Client) {
        Ok(Logging::Done(again)) => again.attached(),
        _ => mutation,
    }
}

/// The mistake to write it with timestamps of this moment.
fn anew(table: &TableSchema, view: &FrozenView<'_>) -> FrozenMutation {
    let timestamp = wall_micros();
    let mut builder = MutationBuilder::new(table, view.key());
    for (clustering, row) in view.rows() {
        let mut out = RowBuilder::new(Vec::new());
        out.marker(Marker::Live { timestamp });
        for (id, data) in row.columns() {
            if let ColumnData::Atomic(cell) = data
                && let Some(value) = cell.value()
            {
                out.cell(id, Cell::live(timestamp, value));
            }
        }
        builder.row(clustering, &out.finish());
    }
    builder.freeze()
}
