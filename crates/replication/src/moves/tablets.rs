//! Which tablets the leader moves next, and their way from stage to stage.

use crate::coordinator::Coordinator;
use cluster::balance::{Placed, plan, stuck};
use cluster::{
    MemberState, Schema, Stage, TableEntry, TableKind, TabletStep, TabletSteps, Topology,
};
use model::Uuid;
use std::rc::Rc;

/// The tables with tablets, in the order of their ids.
fn tables(schema: &Schema) -> Vec<Rc<TableEntry>> {
    let stored = schema.tables().filter(|table| table.kind == TableKind::Stored);
    let mut all: Vec<_> = stored.filter(|table| !table.replicas.is_empty()).cloned().collect();
    all.sort_by_key(|table| table.schema.id);
    let once = all.windows(2).all(|two| two[0].schema.id < two[1].schema.id);
    debug_assert!(once, "one-hand: a table is there twice");
    all
}

fn placed(tables: &[Rc<TableEntry>]) -> Vec<Placed<'_>> {
    let mut out = Vec::with_capacity(tables.len());
    for table in tables {
        let (replicas, replication) = (&*table.replicas, &*table.replication);
        let (weights, merges) = (&[][..], false);
        out.push(Placed { table: table.schema.id, replicas, replication, weights, merges });
    }
    out
}

/// The session of tablets that are on their way, and their stage; the first one of several.
pub(super) fn under_way(schema: &Schema) -> Option<(u64, Stage)> {
    let moves = schema.tables().flat_map(|table| table.replicas.moves().values());
    moves.map(|moving| (moving.session, moving.stage)).min()
}

/// The step that all tablets of a session make.
pub(super) fn steps_of(schema: &Schema, session: u64, step: &TabletStep) -> TabletSteps {
    let mut out = TabletSteps::new();
    for table in schema.tables() {
        let moves = table.replicas.moves().iter().filter(|(_, it)| it.session == session);
        let steps: Vec<_> = moves.map(|(tablet, _)| (*tablet, step.clone())).collect();
        if !steps.is_empty() {
            out.insert(table.schema.id, steps);
        }
    }
    out
}

/// The next tablets that begin their way.
pub(super) fn begin(schema: &Schema, topology: &Topology) -> TabletSteps {
    let tables = tables(schema);
    let mut out = TabletSteps::new();
    for next in plan(topology, &placed(&tables)) {
        out.entry(next.table).or_default().push((next.tablet, TabletStep::Begin(next.to)));
    }
    let possible = |(table, steps): (&model::TableId, &Vec<(usize, TabletStep)>)| {
        let entry = schema.table_by_id(*table);
        steps.iter().all(|(at, step)| entry.is_some_and(|it| it.replicas.check(*at, step).is_ok()))
    };
    debug_assert!(out.iter().all(possible), "one-hand: a tablet that is on its way begins again");
    out
}

/// Whether a node has tablets.
pub(super) fn has_any(schema: &Schema, host: Uuid) -> bool {
    let mut tables = schema.tables();
    tables.any(|table| table.replicas.iter().flatten().any(|(it, _)| *it == host))
}

/// Why a node cannot give its tablets away; `None`: it can.
pub(super) fn why_stuck(schema: &Schema, topology: &Topology, host: Uuid) -> Option<String> {
    let tables = tables(schema);
    let (table, tablet) = stuck(topology, &placed(&tables), host)?;
    let name =
        schema.table_by_id(table).map(|it| format!("{}.{}", it.schema.keyspace, it.schema.name));
    let name = name.unwrap_or_else(|| table.to_string());
    Some(format!(
        "no other node can take tablet {tablet} of {name} from node {host}: its keyspace wants as \
         many replicas as there are nodes, or each in a rack of its own"
    ))
}

/// Those that leave and live, and have tablets still.
pub(super) fn to_drain(coordinator: &Coordinator, topology: &Topology) -> Vec<Uuid> {
    let schema = coordinator.cluster.schema();
    let leave = topology
        .movers()
        .filter(|member| member.state == MemberState::Leaving && !topology.is_lost(member.host_id));
    leave.map(|member| member.host_id).filter(|host| has_any(&schema, *host)).collect()
}
