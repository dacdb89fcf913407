//! A node removes what it has no longer: when those that move have arrived, and when an operator
//! asks for it.
//!
//! Invariants
//!  - *not-while-it-gets*: nothing is removed of a range that this node has, or is about to get: a
//!    removal and the preparation of a stage wait for each other.
//!  - *removed-for-good*: what is removed does not come back: first nobody writes to this node any
//!    more what it is to remove.

use super::barrier::ask_all;
use super::part::PAUSE;
use super::{LOOK, Moves, Planted};
use crate::coordinator::{Coordinator, own_coordinator};
use cluster::{MemberState, Replication, Schema, Side, Stage, TableEntry, TableKind, Topology};
use model::{TableId, Token, Uuid};
use runtime::Erased;
use runtime::group::{STREAMING, with_group};
use runtime::task::race;
use runtime::time::sleep;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use storage::{Storage, StorageError};

/// Ranges of tables: after the first token, up to and including the second; ascending.
pub(super) type Ranges = BTreeMap<TableId, Vec<(Token, Token)>>;

/// What has touched this node since it removed something last.
struct Touched {
    tables: RefCell<BTreeSet<TableId>>,
    /// What could not be removed, and is due again when something has moved.
    failed: RefCell<BTreeSet<TableId>>,
    /// What was looked at last.
    seen: RefCell<(Arc<Topology>, Rc<Schema>)>,
}

impl Touched {
    fn new(coordinator: &Coordinator) -> Touched {
        let seen = (coordinator.cluster.topology(), coordinator.cluster.schema());
        let (tables, failed) = (RefCell::default(), RefCell::default());
        Touched { tables, failed, seen: RefCell::new(seen) }
    }

    /// Looks at what is on the move.
    fn look(&self, coordinator: &Coordinator) {
        let (topology, schema) = (coordinator.cluster.topology(), coordinator.cluster.schema());
        let mut seen = self.seen.borrow_mut();
        if Arc::ptr_eq(&topology, &seen.0) && Rc::ptr_eq(&schema, &seen.1) {
            return;
        }
        let me = coordinator.cluster.node().host_id;
        let mut tables = self.tables.borrow_mut();
        tables.extend(touches(&topology, &schema, me));
        tables.extend(self.failed.take());
        *seen = (topology, schema);
    }

    /// Whether there is something to remove, and nobody is on the move. Who leaves may turn back.
    fn is_due(&self, me: Uuid) -> bool {
        let (topology, schema) = &*self.seen.borrow();
        debug_assert!(!me.is_nil(), "removed-for-good: a node without a name");
        let waits = !is_normal(topology, me) || is_moving(topology, schema);
        !waits && !self.tables.borrow().is_empty()
    }
}

/// Removes what this node has given away, or has got in vain, soon after nobody is on the move.
/// Runs for ever.
pub(super) async fn follow(coordinator: Rc<Coordinator>) {
    assert!(runtime::shard_id() == 0, "removed-for-good: another shard than the first removes");
    let touched = Touched::new(&coordinator);
    let clean = async {
        let me = coordinator.cluster.node().host_id;
        loop {
            sleep(LOOK).await;
            if touched.is_due(me) {
                clean(&coordinator, &touched).await;
            }
        }
    };
    // Others begin to move, and arrive, while this node waits for those that write, or removes.
    let look = async {
        loop {
            touched.look(&coordinator);
            sleep(LOOK).await;
        }
    };
    race(clean, look).await;
}

/// Removes what is due now.
async fn clean(coordinator: &Coordinator, touched: &Touched) {
    // What moves from now on is due again: those that write to it may not be waited for here.
    let tables = touched.tables.take();
    debug_assert!(!tables.is_empty(), "removed-for-good: nothing was due");
    if let Err(why) = nobody_writes(coordinator).await {
        tracing::debug!(target: "moves", "what was given away stays for now: {why}");
        touched.tables.borrow_mut().extend(tables);
        return sleep(PAUSE).await;
    }
    match remove(coordinator, tables.clone()).await {
        Ok(Removed::All) => {}
        // It may turn back.
        Ok(Removed::Kept) => touched.tables.borrow_mut().extend(tables),
        Err(why) => {
            tracing::warn!(target: "moves", "{why}; nodetool cleanup removes it");
            // So does the end of the next move.
            touched.failed.borrow_mut().extend(tables);
        }
    }
}

/// Waits until nobody writes any more to who has a range no longer (*removed-for-good*). Of a node
/// that does not answer anybody, nothing comes.
async fn nobody_writes(coordinator: &Coordinator) -> Result<(), String> {
    // What waits here would hide either mistake for most of the time.
    if super::is_planted(Planted::RemovesEarly) || super::is_planted(Planted::WritesLate) {
        return Ok(());
    }
    // What goes on after its answer is of the epoch of that: it ends with the second one.
    ask_all(coordinator).await?;
    ask_all(coordinator).await
}

fn is_normal(topology: &Topology, me: Uuid) -> bool {
    topology.member(me).is_some_and(|member| member.state == MemberState::Normal)
}

/// Whether anybody is on the move, or a tablet.
fn is_moving(topology: &Topology, schema: &Schema) -> bool {
    if super::is_planted(Planted::RemovesEarly) {
        return topology.stage().is_some_and(|stage| stage < Stage::ReadNew);
    }
    let mut tables = schema.tables();
    topology.stage().is_some() || tables.any(|table| !table.replicas.moves().is_empty())
}

/// The tables of which a node is about to give something away, or to get something, of which it has
/// no part where somebody turns back.
fn touches(topology: &Topology, schema: &Schema, me: Uuid) -> BTreeSet<TableId> {
    let mut out = BTreeSet::new();
    for table in schema.tables().filter(|table| table.kind == TableKind::Stored) {
        let is_local = matches!(*table.replication, Replication::Local);
        if topology.stage().is_some() && !is_local && table.replicas.is_empty() {
            let mut sides = cluster::sides(topology, &table.replication).into_iter();
            if sides.any(|it| it.old.contains(&me) != it.new.contains(&me)) {
                out.insert(table.schema.id);
            }
        }
        let has = |of: &[(Uuid, u16)]| of.iter().any(|(host, _)| *host == me);
        let mut moves = table.replicas.moves().iter();
        if moves.any(|(tablet, it)| has(table.replicas.of(*tablet)) != has(&it.to)) {
            out.insert(table.schema.id);
        }
    }
    out
}

/// All that a node has no part of, of a table.
fn foreign(topology: &Topology, table: &TableEntry, me: Uuid) -> Vec<(Token, Token)> {
    if table.replicas.is_empty() {
        let side = match super::is_planted(Planted::RemovesEarly) {
            true => topology.read_side(),
            false => Side::Old,
        };
        return cluster::foreign(topology, &table.replication, me, side);
    }
    let has = |of: &[(Uuid, u16)]| of.iter().any(|(host, _)| *host == me);
    let all = table.replicas.iter().enumerate().filter(|(_, of)| !has(of));
    all.map(|(tablet, _)| table.replicas.range(tablet)).collect()
}

/// Has this node remove all of some tables that it has no part of. Tables that are gone are passed
/// over.
pub fn cleanup(tables: Vec<TableId>) -> Erased<'static, Result<(), String>> {
    Erased::new(move || async move {
        let clean = move || async move {
            let coordinator = own_coordinator().map_err(|error| error.to_string())?;
            let (topology, schema) = (coordinator.cluster.topology(), coordinator.cluster.schema());
            if is_moving(&topology, &schema) {
                return Err("data are on the move: try again when they have arrived".to_owned());
            }
            if topology.member(coordinator.cluster.node().host_id).is_none() {
                return Ok(());
            }
            remove(&coordinator, tables.into_iter().collect()).await.map(drop)
        };
        runtime::on_shard(0, clean).await
    })
}

/// What became of what was to be removed.
enum Removed {
    All,
    /// Who leaves, or has left, keeps what it has.
    Kept,
}

/// Removes all of tables that this node has no part of.
async fn remove(coordinator: &Coordinator, all: BTreeSet<TableId>) -> Result<Removed, String> {
    let moves = runtime::local::try_get::<Moves>().ok_or("the node starts or stops")?;
    // *not-while-it-gets*
    let _turn = moves.clearing.acquire(1).await.map_err(|error| error.to_string())?;
    let me = coordinator.cluster.node().host_id;
    for table in all {
        let (topology, schema) = (coordinator.cluster.topology(), coordinator.cluster.schema());
        if !is_normal(&topology, me) {
            return Ok(Removed::Kept);
        }
        let Some(entry) = schema.table_by_id(table) else { continue };
        if is_moving(&topology, &schema) {
            return Err("what this node has no longer stays, since data are on the move".to_owned());
        }
        let is_local = matches!(*entry.replication, Replication::Local);
        if is_local || entry.kind != TableKind::Stored {
            continue;
        }
        let ranges = merged(foreign(&topology, entry, me));
        if !ranges.is_empty() {
            with_group(STREAMING, clear_table(table, ranges)).await?;
        }
    }
    Ok(Removed::All)
}

/// Ranges that touch as one.
pub(super) fn merged(ranges: Vec<(Token, Token)>) -> Vec<(Token, Token)> {
    let mut out: Vec<(Token, Token)> = Vec::new();
    for (after, last) in ranges {
        assert!(after < last, "covering: from {after:?} to {last:?}");
        match out.last_mut() {
            Some((_, end)) if *end == after => *end = last,
            Some((_, end)) => {
                assert!(*end < after, "covering: from {after:?} behind {end:?}");
                out.push((after, last));
            }
            None => out.push((after, last)),
        }
    }
    out
}

/// Removes what this node has of a table in these ranges, on every shard.
pub(super) async fn clear_table(table: TableId, ranges: Vec<(Token, Token)>) -> Result<(), String> {
    debug_assert!(ranges.is_sorted_by(|a, b| a.1 < b.0), "covering: {ranges:?}");
    let clear = move || {
        let ranges = ranges.clone();
        async move {
            let storage = runtime::local::try_get::<Storage>().ok_or("the node stops")?;
            match storage.clear(table, ranges).await {
                Ok(_) | Err(StorageError::UnknownTable(_)) => Ok::<(), String>(()),
                Err(error) => Err(format!("what this node has no longer cannot go: {error}")),
            }
        }
    };
    runtime::on_all_shards(clear).await.into_iter().collect()
}
