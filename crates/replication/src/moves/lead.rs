//! The leader's part: stage after stage, until those that move have arrived.
//!
//! Invariants
//!  - *one-hand*: the topology goes to the next stage only from the one that the leader has seen
//!    through; who leads no longer changes nothing.

use super::barrier::{ask, ask_barrier, is_here};
use super::loads::Loads;
use super::tablets::Needs;
use super::{LOOK, Moves, Planted, SAYS_EVERY, tablets};
use crate::coordinator::{Coordinator, own_coordinator};
use crate::wire::moves::{Progress, encode_step};
use crate::wire::verb;
use cluster::schema::Catalog;
use cluster::{Member, MemberState, Resizes, Schema, SchemaChange, Stage, TabletStep};
use cluster::{TabletSteps, Topology, TopologyChange, membership};
use model::{Keyspace, Uuid};
use runtime::task::join_all;
use runtime::time::{Instant, sleep};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// So long nobody new has come when those that move begin: many nodes that are started at once
/// move at once.
const GATHERS: Duration = Duration::from_millis(300);
const STEP_MAX: Duration = Duration::from_secs(10);
/// Between two questions how far a node is; the first ones follow faster.
const ASKS_EVERY: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(500);
/// How long those that leave may keep their votes before it is said.
const VOTES_MAX: Duration = Duration::from_secs(5);

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Next {
    /// Nobody is on the move.
    Nothing,
    /// Those that move begin.
    Begin,
    /// A stage is seen through: all nodes know it, if need be, and do what it asks for.
    Through(Work),
}

/// A stage of nodes, or of tablets.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Work {
    session: u64,
    stage: Stage,
    of_tablets: bool,
}

impl Work {
    /// Whether all nodes have to know the stage before anything else.
    fn needs_barrier(&self) -> bool {
        self.stage != Stage::Prepare
    }

    /// Whether nodes have something to do.
    fn has_steps(&self) -> bool {
        self.stage != Stage::ReadNew
    }

    fn next(&self) -> Option<Stage> {
        match self.stage {
            Stage::Prepare => Some(Stage::ReadOld),
            Stage::ReadOld => Some(Stage::ReadNew),
            Stage::ReadNew => None,
        }
    }

    fn name(&self) -> String {
        let what = if self.of_tablets { "tablets" } else { "nodes" };
        format!("{what}, {}", self.stage.name())
    }
}

/// What the catalog says: a stage that has begun comes first.
fn next(topology: &Topology, tablets: Option<(u64, Stage)>) -> Next {
    let through = |session, stage, of_tablets| Next::Through(Work { session, stage, of_tablets });
    match (tablets, topology.stage()) {
        (Some((session, stage)), _) => through(session, stage, true),
        (None, Some(stage)) => through(topology.session(), stage, false),
        (None, None) if topology.movers().next().is_some() => Next::Begin,
        (None, None) => Next::Nothing,
    }
}

/// The schema, the version of the topology, and what tablets hold.
type Known = (Rc<Schema>, u64, Option<Rc<Loads>>);

fn is_same(one: &Known, other: &Known) -> bool {
    let loads = match (&one.2, &other.2) {
        (Some(one), Some(other)) => Rc::ptr_eq(one, other),
        (one, other) => one.is_none() && other.is_none(),
    };
    loads && Rc::ptr_eq(&one.0, &other.0) && one.1 == other.1
}

/// What the leader has seen.
struct Seen {
    movers: Vec<Uuid>,
    since: Instant,
    /// Nothing was to be done for these.
    settled: Option<Known>,
    /// Whether it has seen no stage through yet since it leads.
    is_new: bool,
}

/// Runs for ever.
pub(super) async fn follow(coordinator: Rc<Coordinator>) {
    let movers = Vec::new();
    let mut seen = Seen { movers, since: Instant::now(), settled: None, is_new: true };
    let mut said: Option<(String, Instant)> = None;
    loop {
        sleep(LOOK).await;
        if !membership::leads() {
            (seen.settled, seen.is_new) = (None, true);
            continue;
        }
        let done = match look(&coordinator, &mut seen) {
            Next::Nothing => balance(&coordinator, &mut seen).await,
            Next::Begin => begin(&coordinator).await,
            Next::Through(work) => {
                let skips = std::mem::take(&mut seen.is_new);
                match skips && super::is_planted(Planted::SkipsStages) {
                    true => follow_up(&coordinator, &work).await,
                    false => through(&coordinator, &work).await,
                }
            }
        };
        let Err(why) = done else { continue };
        let is_said = |(text, at): &(String, Instant)| *text == why && Instant::now() < *at;
        if !said.as_ref().is_some_and(is_said) {
            tracing::warn!(target: "moves", "{why}; it is tried again");
            said = Some((why, Instant::now() + SAYS_EVERY));
        }
        sleep(PAUSE).await;
    }
}

/// What is to be done now; many nodes that are started at once begin together.
fn look(coordinator: &Coordinator, seen: &mut Seen) -> Next {
    let topology = coordinator.cluster.topology();
    let movers: Vec<Uuid> = topology.movers().map(|member| member.host_id).collect();
    if movers != seen.movers {
        (seen.movers, seen.since) = (movers, Instant::now());
    }
    match next(&topology, tablets::under_way(&coordinator.cluster.schema())) {
        Next::Begin if Instant::now() < seen.since + GATHERS => Next::Nothing,
        next => next,
    }
}

/// Those that move begin: first those that leave give their tablets away.
async fn begin(coordinator: &Coordinator) -> Result<(), String> {
    let (topology, schema) = (coordinator.cluster.topology(), coordinator.cluster.schema());
    if let Some(host) = tablets::to_drain(&schema, &topology).first().copied() {
        let began = begin_tablets(coordinator).await?;
        if began {
            return Ok(());
        }
        let why = tablets::why_stuck(&schema, &topology, host);
        let why = why.unwrap_or_else(|| format!("node {host} cannot give its tablets away"));
        tracing::error!(target: "moves", "node {host} stays: {why}");
        return change(coordinator, topology.session(), TopologyChange::TurnBack(host)).await;
    }
    let named = |state: MemberState| {
        let those = topology.movers().filter(|member| member.state == state);
        those.map(|member| member.host_id.to_string()).collect::<Vec<_>>().join(", ")
    };
    let (join, leave) = (named(MemberState::Joining), named(MemberState::Leaving));
    tracing::info!(target: "moves", "nodes begin to move: joining: [{join}], leaving: [{leave}]");
    let (session, begins) = (topology.session(), TopologyChange::Advance(Stage::Prepare));
    let made = coordinator.cluster.change_topology(move |catalog| {
        let topology = &catalog.topology;
        let is_same = topology.session() == session && topology.check(&begins).is_ok();
        // Somebody may have been told to leave meanwhile, and has tablets.
        let begins_so = is_same && tablets::to_drain(&catalog.schema, topology).is_empty();
        Ok(if begins_so { vec![begins.clone()] } else { Vec::new() })
    });
    made.await.map_err(|error| format!("nodes cannot begin to move: {error}"))
}

/// Has the next tablets begin their way, if there are any; while a node is down, none would arrive.
async fn begin_tablets(coordinator: &Coordinator) -> Result<bool, String> {
    let topology = coordinator.cluster.topology();
    if let Some(down) = first_down(coordinator, &topology) {
        return Err(format!("tablets are to be moved, and node {down} is down"));
    }
    let planned = Needs::of(coordinator).unwrap_or_default().steps;
    if planned.is_empty() {
        return Ok(false);
    }
    let count: usize = planned.values().map(Vec::len).sum();
    assert!(0 < count, "one-hand: no tablet begins to move");
    tracing::info!(target: "moves", tablets = count, "tablets begin to move");
    let made = coordinator.cluster.change_tablets(|catalog| {
        let is_still = tablets::under_way(&catalog.schema).is_none();
        let still = is_still && catalog.topology.stage().is_none();
        let needs = own_needs(catalog).filter(|_| still);
        Ok(needs.map_or_else(TabletSteps::new, |needs| needs.steps))
    });
    made.await.map_err(|error| format!("tablets cannot begin to move: {error}"))?;
    Ok(true)
}

/// A node that is not lost, and does not answer.
fn first_down(coordinator: &Coordinator, topology: &Topology) -> Option<Uuid> {
    let is_down = |member: &&Arc<Member>| {
        !topology.is_lost(member.host_id) && !coordinator.cluster.is_alive(member.host_id)
    };
    topology.present().find(is_down).map(|member| member.host_id)
}

/// What is needed, of the catalog as it is now. On shard 0.
fn own_needs(catalog: &Catalog) -> Option<Needs> {
    let coordinator = own_coordinator().ok()?;
    Needs::at(&coordinator, &catalog.schema, &catalog.topology)
}

/// Where nobody comes and nobody leaves, tables get as many tablets as they need, and tablets go to
/// where there is less.
async fn balance(coordinator: &Coordinator, seen: &mut Seen) -> Result<(), String> {
    let topology = coordinator.cluster.topology();
    let loads = runtime::local::try_get::<Moves>().and_then(|moves| moves.kept.loads());
    let known = (coordinator.cluster.schema(), topology.version(), loads);
    let is_known = seen.settled.as_ref().is_some_and(|settled| is_same(settled, &known));
    if !seen.movers.is_empty() || is_known {
        return Ok(());
    }
    let followed = tablets::followed(&known.0, &topology);
    if !followed.is_empty() {
        return have_followed(coordinator, followed).await;
    }
    let needs = Needs::of(coordinator).unwrap_or_default();
    if !needs.resizes.is_empty() {
        return resize(coordinator, needs.resizes.len()).await;
    }
    if needs.steps.is_empty() {
        seen.settled = Some(known);
        return Ok(());
    }
    match first_down(coordinator, &topology) {
        // It is not urgent.
        Some(_) => Ok(()),
        None => begin_tablets(coordinator).await.map(drop),
    }
}

/// Keyspaces that were altered have what they want: from now on levels count that.
async fn have_followed(coordinator: &Coordinator, names: Vec<String>) -> Result<(), String> {
    assert!(!names.is_empty(), "one-hand: no keyspace was altered");
    let names_now = names.join(", ");
    let decide = |schema: &Schema| {
        let Ok(coordinator) = own_coordinator() else { return Ok(Vec::new()) };
        let followed = tablets::followed(schema, &coordinator.cluster.topology());
        let settled = |name: &String| {
            let entry = schema.keyspace(name)?;
            Some(SchemaChange::AlterKeyspace(Keyspace { previous: None, ..entry.keyspace.clone() }))
        };
        Ok::<_, String>(followed.iter().filter_map(settled).collect())
    };
    let made = coordinator.cluster.change_schema(decide).await;
    made.map_err(|error| format!("what tablets have followed cannot be noted: {error}"))?;
    tracing::info!(
        target: "moves",
        keyspaces = names_now,
        "tablets have as many replicas as their keyspaces want"
    );
    Ok(())
}

/// Tables get more tablets, or fewer. Who is down divides them when it starts.
async fn resize(coordinator: &Coordinator, tables: usize) -> Result<(), String> {
    assert!(0 < tables, "one-hand: no table gets other tablets");
    let made = coordinator.cluster.resize_tables(|catalog| {
        let needs = own_needs(catalog).filter(|_| tablets::under_way(&catalog.schema).is_none());
        Ok(needs.map_or_else(Resizes::new, |needs| needs.resizes))
    });
    made.await.map_err(|error| format!("tables cannot get other tablets: {error}"))?;
    tracing::info!(target: "tablets", tables, "tables have other tablets");
    if let Some(moves) = runtime::local::try_get::<Moves>() {
        moves.kept.forget();
    }
    Ok(())
}

/// Sees a stage through.
async fn through(coordinator: &Coordinator, work: &Work) -> Result<(), String> {
    let (name, began) = (work.name(), Instant::now());
    if work.needs_barrier() && !super::is_planted(Planted::WaitsForNobody) {
        on_all(coordinator, work, &format!("{name}: barrier"), ask_barrier).await?;
    }
    if work.has_steps() {
        let ask = async |member: &Arc<Member>| ask_step(member, work.session).await;
        on_all(coordinator, work, &name, ask).await?;
    }
    tracing::info!(target: "moves", took = ?began.elapsed(), "{name}: all nodes are through");
    follow_up(coordinator, work).await
}

/// A stage is over: the next one begins, or those that move have arrived.
async fn follow_up(coordinator: &Coordinator, work: &Work) -> Result<(), String> {
    let (session, next) = (work.session, work.next());
    assert!(session != 0, "one-hand: {} of no session", work.name());
    debug_assert!(next.is_none_or(|next| work.stage < next), "one-hand: back to {next:?}");
    if !work.of_tablets {
        if next.is_none() {
            votes_given_up(coordinator).await?;
        }
        let next = next.map_or(TopologyChange::Arrive, TopologyChange::Advance);
        return change(coordinator, session, next).await;
    }
    let step = next.map_or(TabletStep::Arrive, TabletStep::Advance);
    let made = coordinator
        .cluster
        .change_tablets(move |catalog| Ok(tablets::steps_of(&catalog.schema, session, &step)));
    made.await.map_err(|error| format!("tablets cannot go on: {error}"))
}

/// Waits until those that leave have no vote any more: when they have left nobody hears them (see
/// *votes-first* of the members of the group).
async fn votes_given_up(coordinator: &Coordinator) -> Result<(), String> {
    let until = Instant::now() + VOTES_MAX;
    loop {
        let topology = coordinator.cluster.topology();
        let votes = |member: &&Arc<Member>| {
            let lives = !topology.is_lost(member.host_id);
            member.state == MemberState::Leaving && lives && membership::votes(member.host_id)
        };
        let voter = topology.movers().find(votes).map(|member| member.host_id);
        debug_assert!(voter.is_none_or(|it| !it.is_nil()), "one-hand: a node without a name votes");
        match voter {
            // Who leads next sees to it.
            _ if !membership::leads() => return Err("this node leads no longer".to_owned()),
            None => return Ok(()),
            Some(host) if until <= Instant::now() => {
                return Err(format!("node {host} leaves, and has a vote still"));
            }
            Some(_) => sleep(LOOK).await,
        }
    }
}

/// Makes a change, unless somebody else has made one of that session.
async fn change(
    coordinator: &Coordinator,
    session: u64,
    change: TopologyChange,
) -> Result<(), String> {
    let made = coordinator.cluster.change_topology(move |catalog| {
        let topology = &catalog.topology;
        let is_same = topology.session() == session && topology.check(&change).is_ok();
        Ok(if is_same { vec![change.clone()] } else { Vec::new() })
    });
    made.await.map_err(|error| format!("the topology cannot be changed: {error}"))
}

/// Asks all nodes that are not lost, each until it is done, this one too. Ends early where this
/// node leads no longer, or the session is over.
async fn on_all(
    coordinator: &Coordinator,
    work: &Work,
    what: &str,
    ask: impl AsyncFn(&Arc<Member>) -> Result<Progress, String>,
) -> Result<(), String> {
    let goes_on =
        || membership::leads() && super::stage_of(coordinator, work.session) == Some(work.stage);
    let says_at = Cell::new(Instant::now() + SAYS_EVERY);
    let of_member = async |member: &Arc<Member>| {
        let mut pause = ASKS_EVERY / 20;
        loop {
            let is_lost = || coordinator.cluster.topology().is_lost(member.host_id);
            if is_lost() || !goes_on() {
                return;
            }
            let text = match ask(member).await {
                Ok(progress) if progress.is_done => return,
                Ok(Progress { parts, parts_done, bytes, text, .. }) => {
                    format!("{parts_done} of {parts} parts, {} MiB; {text}", bytes >> 20)
                }
                Err(why) => why,
            };
            if says_at.get() <= Instant::now() {
                says_at.set(Instant::now() + SAYS_EVERY);
                let node = (member.host_id, member.address);
                tracing::info!(target: "moves", "{what}: waiting for node {node:?}: {text}");
            }
            sleep(pause).await;
            pause = (2 * pause).min(ASKS_EVERY);
        }
    };
    let members: Vec<Arc<Member>> = coordinator.cluster.topology().present().cloned().collect();
    join_all(members.iter().map(of_member)).await;
    match goes_on() {
        true => Ok(()),
        false => Err(format!("{what}: this node leads no longer, or others have gone on")),
    }
}

async fn ask_step(member: &Arc<Member>, session: u64) -> Result<Progress, String> {
    if is_here(member) {
        return super::step(session).await;
    }
    let answer = ask(member, verb::MOVE_STEP, encode_step(session), STEP_MAX).await?;
    Progress::decode(&answer).map_err(|damaged| damaged.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::topology::testing::{member, topology};

    /// *one-hand*
    #[test]
    fn stages_follow_each_other() {
        let place = ("dc1", "rack1");
        let mut now = topology(&[member(1, place, &[1]), member(2, place, &[2])]);
        assert_eq!(next(&now, None), Next::Nothing);
        let joins = Member { state: MemberState::Joining, ..member(3, place, &[3]) };
        now = now.apply(&TopologyChange::Set(joins));
        assert_eq!(next(&now, None), Next::Begin);
        now = now.apply(&TopologyChange::Advance(Stage::Prepare));
        let mut seen = Vec::new();
        while let Next::Through(work) = next(&now, None) {
            seen.push((work.stage, work.needs_barrier(), work.has_steps()));
            assert_eq!((work.session, work.of_tablets), (now.session(), false));
            let then = work.next().map_or(TopologyChange::Arrive, TopologyChange::Advance);
            assert_eq!(now.check(&then), Ok(()));
            now = now.apply(&then);
        }
        let expected = [
            (Stage::Prepare, false, true),
            (Stage::ReadOld, true, true),
            (Stage::ReadNew, true, false),
        ];
        assert_eq!(seen, expected);
        assert_eq!((next(&now, None), now.present().count()), (Next::Nothing, 3));
        // Tablets that are on their way arrive before nodes begin to move.
        let work = Work { session: 7, stage: Stage::ReadOld, of_tablets: true };
        assert_eq!(next(&now, Some((7, Stage::ReadOld))), Next::Through(work));
    }
}
