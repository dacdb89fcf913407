//! Tablets that go from shard to shard of this node: where a node stays a replica, on another
//! shard; and where it becomes one, so that what it takes comes to the shard that was named.
//!
//! To other nodes nothing changes by it, and each side of such a tablet has the same nodes. All the
//! same it goes by the stages of all moves: one thing at a time is done to a tablet, whoever leads
//! next goes on, and a node that starts again knows by the stage where the tablet is to be. What a
//! node does is done in the stage in which others take what they get; the next one says that it is
//! done.
//!
//! Invariants
//!  - *as-said*: when a tablet has arrived, each replica that was on its way has it on the shard
//!    that the group names.
//!  - *scanned-whole*: what views have nothing of yet does not go from a shard that scans to one
//!    that has scanned: the tablet waits until they are built, and where one was made meanwhile, it
//!    is built from the start.

use super::Planted;
use crate::coordinator::{Coordinator, build};
use cluster::{TableEntry, TableKind};
use model::{TableId, Uuid};
use std::rc::Rc;
use storage::{Storage, WarmPartition};

/// Bytes of what is told of a cache at once, and how often it is.
const PAGE_BYTES: usize = 64 << 10;
const PAGES_MAX: usize = 64;

/// A tablet, and the shard of this node that is to have it.
pub(super) struct Going {
    table: Rc<TableEntry>,
    tablet: usize,
    to: u16,
    /// Whether this node has it, and not only is to.
    is_own: bool,
}

/// Those of a session: of which this node stays a replica, or of which it becomes one.
pub(super) fn going(coordinator: &Coordinator, session: u64, is_own: bool) -> Vec<Going> {
    let (schema, me) = (coordinator.cluster.schema(), coordinator.cluster.node().host_id);
    let mut out = Vec::new();
    for table in schema.tables().filter(|table| table.kind == TableKind::Stored) {
        let moves = table.replicas.moves().iter().filter(|(_, it)| it.session == session);
        for (tablet, moving) in moves {
            let (old, new) = (on(table.replicas.of(*tablet), me), on(&moving.to, me));
            // Who has other shards since deals tablets as it can.
            let Some(to) = new.filter(|to| *to < runtime::shard_count()) else { continue };
            if old.is_some() == is_own && old != new {
                out.push(Going { table: table.clone(), tablet: *tablet, to, is_own });
            }
        }
    }
    debug_assert!(out.iter().all(|one| one.is_own == is_own), "as-said: of another stage");
    out
}

fn on(of: &[(Uuid, u16)], me: Uuid) -> Option<u16> {
    of.iter().find(|(host, _)| *host == me).map(|(_, shard)| *shard)
}

/// Has them go, one after the other.
pub(super) async fn hand_over(coordinator: &Coordinator, all: Vec<Going>) -> Result<(), String> {
    for Going { table, tablet, to, is_own } in all {
        let (id, range) = (table.schema.id, table.replicas.range(tablet));
        if super::is_planted(Planted::HandsOverHastily) {
            let plant = || async {
                runtime::local::get::<Storage>().plant_hasty_hand_overs();
            };
            runtime::on_all_shards(plant).await;
        }
        // *scanned-whole*
        if is_own && !build::is_built(coordinator, id).await {
            let name = format!("{}.{}", table.schema.keyspace, table.schema.name);
            return Err(format!("a tablet of {name} waits until views of it are built here"));
        }
        let before = build::views_of(coordinator, id);
        let from = table.tablets.shard_of(range.1);
        let warm = if is_own && from != to { warm_on(from, id, range).await } else { Vec::new() };
        stdx::probe!("a tablet goes to another shard of its node");
        coordinator.cluster.hand_over(id, tablet, to).await?;
        if is_own {
            let views = build::views_of(coordinator, id);
            build::build_anew(views.difference(&before).copied().collect()).await;
        }
        warm_up(to, id, warm).await;
    }
    Ok(())
}

/// What clients asked for again, which lies in the cache of the shard that gives a tablet.
async fn warm_on(
    shard: u16,
    table: TableId,
    range: (model::Token, model::Token),
) -> Vec<WarmPartition> {
    let look = move || async move {
        let (mut all, mut after) = (Vec::new(), range.0);
        let Some(storage) = runtime::local::try_get::<Storage>() else { return all };
        for _ in 0..PAGES_MAX {
            let page = storage.warm_partitions(table, (after, range.1), PAGE_BYTES).await;
            let Ok(page) = page else { break };
            all.extend(page.partitions);
            match page.reached {
                Some(reached) => after = reached,
                None => break,
            }
        }
        all
    };
    runtime::on_shard(shard, look).await
}

/// Reads that into the cache of the shard that has got it. Where that fails it is cold.
async fn warm_up(shard: u16, table: TableId, warm: Vec<WarmPartition>) {
    if warm.is_empty() {
        return;
    }
    let read = move || async move {
        let storage = runtime::local::try_get::<Storage>().ok_or("the node stops")?;
        storage.warm_up(table, warm).await.map_err(|error| error.to_string())
    };
    match runtime::on_shard(shard, read).await {
        Ok(read) => super::note_warmed(read),
        Err(why) => tracing::warn!(target: "moves", "a tablet is not in the cache: {why}"),
    }
}
