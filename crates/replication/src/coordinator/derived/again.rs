//! What is left in the outbox is read, and brought again, to those who hear of its writes now.
//!
//! Invariants: those of [`super`]; and
//!  - *heard-by-its-own*: what is brought again goes to those replicas of the view that hear of the
//!    write from this node, as the first time. Another one may be the partner of a replica of the
//!    base table that never had the write, and so will never end its row. All replicas get it only
//!    where the partner is down and may have no hint.

use super::outbox::{Outbox, remove_durable, table};
use super::ship::{self, Cargo};
use super::write::Outcome;
use crate::batchlog;
use crate::coordinator::held::{self, Kept};
use crate::coordinator::nodes::{self, Brought, Planted};
use crate::coordinator::{Coordinator, own_coordinator};
use crate::epochs::Epochs;
use crate::error::WriteError;
use crate::hints::Hints;
use cluster::{Schema, TableEntry};
use model::key::{clustering_components, split_partition_key};
use model::schema::Origins;
use model::{Token, Uuid};
use mutation::page::Partitions;
use mutation::{FrozenMutation, FrozenView};
use runtime::task::join;
use runtime::time::sleep;
use std::rc::Rc;
use std::time::Duration;

/// Before what is left is brought again; doubled, up to the most, while nothing can be.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Finds what an earlier life has left on this shard.
pub(crate) async fn recall() -> Result<(), String> {
    let Ok(coordinator) = own_coordinator() else { return Ok(()) };
    let found = read(&coordinator, Partitions::all()).await?;
    let table = table(&coordinator);
    let is_own = |kept: &Kept| {
        table.tablets.shard_of(Token::of(kept.logged.id.as_bytes())) == coordinator.shard
    };
    assert!(found.iter().all(is_own), "of-this-shard: rows of another shard are found");
    if !found.is_empty() {
        tracing::info!(target: "views", rows = found.len(), "updates of views of an earlier run");
    }
    found.iter().for_each(|kept| coordinator.views.outbox.leave(kept.logged.id));
    Ok(())
}

/// Rows of this shard.
async fn read(coordinator: &Coordinator, partitions: Partitions) -> Result<Vec<Kept>, String> {
    let mut command = held::command(&table(coordinator), partitions);
    let mut found = Vec::new();
    loop {
        let page = coordinator.storage.read(&command).await;
        let page = page.map_err(|error| {
            format!(
                "cannot read system.nereid_view_updates on shard {}: {error}",
                coordinator.shard
            )
        })?;
        held::collect(&command, &page, &mut found);
        match page.resume {
            Some(resume) => command.resume = Some(resume),
            None => return Ok(found),
        }
    }
}

/// Brings what is left to where it belongs, again and again, for as long as the shard's coordinator
/// lives; and removes what is there.
pub(crate) async fn keep_bringing(outbox: Rc<Outbox>) {
    let removals = outbox.take_removals();
    let removing = async {
        if let Some(removals) = removals {
            remove_durable(removals).await;
        }
    };
    let bringing = async {
        let mut pause = PAUSE;
        loop {
            if outbox.left() == 0 {
                pause = PAUSE;
                outbox.left_some().await;
            }
            // Nobody tells when a node is there again, or has room.
            sleep(pause).await;
            let Ok(coordinator) = own_coordinator() else { return };
            pause = match bring_left(&coordinator, &outbox).await {
                true => PAUSE,
                false => (2 * pause).min(PAUSE_MAX),
            };
        }
    };
    runtime::task::join(removing, bringing).await;
}

/// Brings all that is left now; whether anything could be.
async fn bring_left(coordinator: &Coordinator, outbox: &Outbox) -> bool {
    // Without hints it is not known which tables were truncated.
    if Hints::of_shard().is_none() && !coordinator.places().others().is_empty() {
        return false;
    }
    let mut has_brought = false;
    for id in outbox.names() {
        has_brought |= match bring_one(coordinator, outbox, id).await {
            Ok(()) => outbox.forget(id),
            Err(why) => {
                tracing::debug!(target: "views", %id, "updates of views are brought later: {why}");
                false
            }
        };
    }
    has_brought
}

async fn bring_one(coordinator: &Coordinator, outbox: &Outbox, id: Uuid) -> Result<(), String> {
    let found = read(coordinator, Partitions::Key(id.as_bytes().to_vec())).await?;
    debug_assert!(found.len() < 2, "known-or-gone: {id} is there {} times", found.len());
    let Some(Kept { logged, kept_at, data }) = found.into_iter().next() else {
        // Its write never came to be, or it was removed.
        return Ok(());
    };
    let mutations = match batchlog::mutations(&data) {
        Ok(mutations) => mutations,
        Err(damaged) => {
            tracing::error!(target: "views", %id, %damaged, "damaged updates of views are skipped");
            return Ok(());
        }
    };
    debug_assert!(!mutations.is_empty(), "sent-or-kept: {id} is a row of nothing");
    outbox.counters.brought.add(mutations.len() as u64);
    bring_again(coordinator, kept_at, mutations).await?;
    outbox.settle(coordinator, (id, logged.written_at));
    Ok(())
}

/// Brings mutations that were left, and were kept at `kept_at`, in microseconds, by this node's
/// clock: to those who hear of their writes now (*heard-by-its-own*). What is of no partition of a
/// base table that is known, as rows of logs are, goes to all replicas.
async fn bring_again(
    coordinator: &Coordinator,
    kept_at: i64,
    mutations: Vec<FrozenMutation>,
) -> Result<(), String> {
    debug_assert!(0 < kept_at, "removed-by-its-time: what is left was kept at {kept_at}");
    let told = |error: WriteError| error.to_string();
    nodes::know_tables(coordinator, &mutations).await.map_err(told)?;
    let _under_way = Epochs::enter(&*coordinator.epochs);
    let schema = coordinator.cluster.schema();
    let (mut outcome, mut to_all, mut paired) = (Outcome::default(), Vec::new(), Vec::new());
    for mutation in mutations {
        let view = match FrozenView::parse(&mutation.0) {
            Ok(view) => view,
            Err(damaged) => {
                tracing::error!(target: "views", %damaged, "a damaged update of a view is skipped");
                continue;
            }
        };
        let entry = schema.table_by_id(view.table());
        let origin = entry.and_then(|entry| Some((entry, origin_of(&schema, entry, &view)?)));
        match origin {
            Some(_) if coordinator.is_planted(Planted::BringsToAll) => to_all.push(mutation),
            None => to_all.push(mutation),
            Some((entry, _)) if !nodes::is_wanted(coordinator, entry, &view, kept_at) => {
                coordinator.held().discarded.add(1);
            }
            Some((entry, base)) => {
                let token = Token::of(view.key());
                paired.push(mutation.clone());
                coordinator.place(base, entry, token, mutation, &mut outcome);
            }
        }
    }
    let Outcome { group, cargo: Cargo { here, there: [some, others], .. } } = outcome;
    coordinator.storage.apply_all(group).await.map_err(|error| error.to_string())?;
    ship::write_here(coordinator, here).await.map_err(|error| error.to_string())?;
    let bring = |parcels| ship::bring_all(coordinator, parcels, kept_at);
    let (some, others) = join(bring(some), bring(others)).await;
    match some.into_iter().chain(others).max() {
        Some(Brought::Not(why)) => return Err(why),
        // It may be away for good: who asks several others finds it.
        Some(Brought::Barred(_)) => to_all.append(&mut paired),
        Some(Brought::Told | Brought::Hinted) | None => {}
    }
    nodes::complete(coordinator, kept_at, to_all).await.map_err(told)
}

/// The partition of a base table that a mutation of a view is of.
fn origin_of<'s>(
    schema: &'s Schema,
    view: &TableEntry,
    mutation: &FrozenView<'_>,
) -> Option<(&'s TableEntry, Token)> {
    let base = schema.table_by_id(view.schema.view.as_ref()?.base)?;
    let mut parts = split_partition_key(mutation.key(), view.schema.partition_key_count).ok()?;
    let row = mutation.rows().next();
    parts.extend(row.into_iter().flat_map(|(clustering, _)| clustering_components(clustering)));
    let key = Origins::of(&base.schema, &view.schema).partition_of(&parts)?;
    debug_assert!(base.views.contains(&view.schema.id), "heard-by-its-own: another table's view");
    Some((base, Token::of(&key)))
}
