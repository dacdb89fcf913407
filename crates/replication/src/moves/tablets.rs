//! Which tablets the leader moves next, and their way from stage to stage; and which tables get
//! more of them, or fewer.

use super::Moves;
use super::loads::{self, Loads, tables};
use crate::coordinator::Coordinator;
use cluster::balance::{Move, Placed, heat, mend, plan, stuck};
use cluster::resize::{self, Holds};
use cluster::{MemberState, Resize, Resizes, Schema, Stage, TableEntry};
use cluster::{TabletStep, TabletSteps, Topology};
use model::Uuid;
use std::rc::Rc;

/// Rows that one change of the numbers of tablets writes at most: it is one command of the group. A
/// table is not split into more.
const ROWS_MAX: usize = 8192;

/// Where the tablets of tables are, each of which counts for one.
fn placed(tables: &[Rc<TableEntry>]) -> Vec<Placed<'_>> {
    tables.iter().map(|table| placed_by(table, (&[], &[]), false)).collect()
}

fn placed_by<'t>(
    table: &'t TableEntry,
    (weights, heats): (&'t [u64], &'t [u64]),
    merges: bool,
) -> Placed<'t> {
    let (replicas, replication) = (&*table.replicas, &*table.replication);
    let fits = weights.is_empty() || weights.len() == replicas.count();
    debug_assert!(fits, "one-hand: {} weights of {} tablets", weights.len(), replicas.count());
    Placed { table: table.schema.id, replicas, replication, weights, heats, merges }
}

/// Keyspaces that were altered and of which each tablet has what is wanted now, or what nodes there
/// are for.
pub(super) fn followed(schema: &Schema, topology: &Topology) -> Vec<String> {
    let mut out = Vec::new();
    for entry in schema.keyspaces.values().filter(|it| it.keyspace.previous.is_some()) {
        let tables: Vec<Rc<TableEntry>> =
            entry.tables.values().filter(|it| !it.replicas.is_empty()).cloned().collect();
        let is_still = tables.iter().all(|table| table.replicas.moves().is_empty());
        if is_still && mend(topology, &placed(&tables)).is_empty() {
            out.push(entry.keyspace.name.clone());
        }
    }
    debug_assert!(out.is_empty() || follow(schema), "one-hand: {out:?} followed nothing");
    out
}

/// How many tablets have a replica on a node that has left, and are going to other ones, or are
/// to.
pub(super) fn to_come_back(schema: &Schema, topology: &Topology) -> usize {
    let has_left =
        |host: Uuid| topology.member(host).is_none_or(|member| member.state == MemberState::Left);
    let is_stray = |table: &TableEntry, tablet: usize| {
        table.replicas.of(tablet).iter().any(|(host, _)| has_left(*host))
    };
    let tables = tables(schema);
    let under_way = |table: &Rc<TableEntry>| {
        let moves = table.replicas.moves().keys();
        moves.filter(|tablet| is_stray(table, **tablet)).count()
    };
    let to_go = mend(topology, &placed(&tables)).into_iter().filter(|next| {
        let table = schema.table_by_id(next.table);
        table.is_some_and(|table| is_stray(table, next.tablet))
    });
    let count = tables.iter().map(under_way).sum::<usize>() + to_go.count();
    let all: usize = tables.iter().map(|table| table.replicas.count()).sum();
    debug_assert!(count <= all, "data-first: {count} of {all} tablets come back");
    count
}

/// Whether tablets are to follow a keyspace that was altered.
pub(super) fn follow(schema: &Schema) -> bool {
    schema.keyspaces.values().any(|entry| entry.keyspace.previous.is_some())
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

/// What is to be done next for tablets, as the leader knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// Tables that get another number of them.
    pub(super) resizes: Resizes,
    /// Those that begin their way.
    pub(super) steps: TabletSteps,
}

impl Needs {
    /// `None`: nothing has to go anywhere, and what tablets hold is not known yet.
    pub(super) fn of(coordinator: &Coordinator) -> Option<Needs> {
        let (schema, topology) = (coordinator.cluster.schema(), coordinator.cluster.topology());
        Needs::at(coordinator, &schema, &topology)
    }

    pub(super) fn at(
        coordinator: &Coordinator,
        schema: &Schema,
        topology: &Topology,
    ) -> Option<Needs> {
        let tables = tables(schema);
        if !loads::is_enabled(coordinator) {
            let steps = steps(schema, plan(topology, &placed(&tables)));
            return Some(Needs { steps, ..Needs::default() });
        }
        let moves = runtime::local::try_get::<Moves>()?;
        let heard = moves.kept.loads().filter(|heard| !heard.is_stale(schema));
        let Some(heard) = heard else {
            let has_to = steps(schema, mend(topology, &placed(&tables)));
            let is_known = !has_to.is_empty() || !topology.balances();
            return is_known.then(|| Needs { steps: has_to, ..Needs::default() });
        };
        let wanted = match topology.balances() {
            true => wanted(coordinator, topology, &heard, &tables),
            false => Resizes::new(),
        };
        let least = moves.goals.least();
        let weights = |table: &Rc<TableEntry>| -> Vec<u64> {
            match heard.of(table) {
                Some(sizes) => sizes.iter().map(|bytes| (*bytes).max(least)).collect(),
                None => vec![least; table.replicas.count()],
            }
        };
        let weights: Vec<Vec<u64>> = tables.iter().map(weights).collect();
        let weighed = weights.iter().flatten().all(|weight| least <= *weight);
        assert!(weighed, "one-hand: a tablet weighs less than {least}");
        let merges = |table: &TableEntry| wanted.get(&table.schema.id).is_some_and(comes_together);
        let all = tables.iter().zip(&weights);
        let all: Vec<Placed<'_>> = all
            .map(|(table, weights)| {
                placed_by(table, (weights, heard.heats_of(table)), merges(table))
            })
            .collect();
        let steps = steps(schema, plan(topology, &all));
        Some(Needs { resizes: possible(&tables, wanted), steps })
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.resizes.is_empty() && self.steps.is_empty()
    }
}

/// Whether tablets have to be on the same nodes for it.
fn comes_together(resize: &Resize) -> bool {
    matches!(resize, Resize::Merge | Resize::Converge)
}

/// Which tables are to have more tablets, or fewer.
fn wanted(
    coordinator: &Coordinator,
    topology: &Topology,
    heard: &Loads,
    tables: &[Rc<TableEntry>],
) -> Resizes {
    let Some(moves) = runtime::local::try_get::<Moves>() else { return Resizes::new() };
    let (mut out, target) = (Resizes::new(), moves.goals.target());
    let told = tables.iter().filter(|table| !heard.heats_of(table).is_empty());
    let told: Vec<Placed<'_>> =
        told.map(|table| placed_by(table, (&[], heard.heats_of(table)), false)).collect();
    let heats = heat(topology, &told);
    let mut merging = moves.kept.merging.borrow_mut();
    for table in tables {
        let counts = coordinator.cluster.tablet_counts(table);
        let Some(counts) = counts.filter(|_| table.may_be_resized()) else { continue };
        // First it comes to a power of two: all that is said here is by twos.
        if table.replicas.target() != 0 {
            out.insert(table.schema.id, Resize::Converge);
            continue;
        }
        let present = table.replicas.count() as u32;
        let average = heard.of(table).map(|sizes| {
            let sum: u128 = sizes.iter().map(|bytes| u128::from(*bytes)).sum();
            (sum / u128::from(present)) as u64
        });
        let id = table.schema.id;
        let heat = heats.get(&id).copied().unwrap_or_default();
        let holds = Holds { average, merges: merging.contains(&id), heat };
        let next = resize::wanted(present, counts, holds, target);
        out.extend(next.map(|next| (id, next)));
    }
    *merging = out.iter().filter(|it| comes_together(it.1)).map(|it| *it.0).collect();
    debug_assert!(merging.len() <= out.len(), "one-hand: {merging:?} are merged for nothing");
    out
}

/// Those of them that can be now, some at once.
fn possible(tables: &[Rc<TableEntry>], wanted: Resizes) -> Resizes {
    let (mut out, mut rows) = (Resizes::new(), 0);
    for table in tables {
        let Some(next) = wanted.get(&table.schema.id) else { continue };
        let Ok(after) = table.replicas.resized(*next) else { continue };
        if ROWS_MAX < rows + after.count() {
            continue;
        }
        rows += after.count();
        out.insert(table.schema.id, *next);
    }
    debug_assert!(out.len() <= wanted.len(), "one-hand: {out:?} of {wanted:?}");
    assert!(rows <= ROWS_MAX, "one-hand: {rows} rows in one change");
    out
}

/// What a plan means for tablets.
fn steps(schema: &Schema, plan: Vec<Move>) -> TabletSteps {
    let mut out = TabletSteps::new();
    for next in plan {
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
pub(super) fn to_drain(schema: &Schema, topology: &Topology) -> Vec<Uuid> {
    let leave = topology
        .movers()
        .filter(|member| member.state == MemberState::Leaving && !topology.is_lost(member.host_id));
    leave.map(|member| member.host_id).filter(|host| has_any(schema, *host)).collect()
}
