//! Nodes that join and leave where there are data: what is copied from whom, and who sees to it.
//!
//! The topology says who moves and in which stage ([`cluster::Stage`]). The leader of the group of
//! all nodes has the stages follow each other ([`lead`]); each node does what a stage asks of it
//! ([`take`]) when the leader asks how far it is.
//!
//! 1. **Prepare.** Who will get ranges removes what it has of them from an earlier time.
//! 2. **Both are written, the old ones are read.** When all nodes know that, and no request is
//!    under way that began before, those that get ranges take them from those that had them.
//! 3. **Both are written, the new ones are read.** When all nodes know that, and no request is
//!    under way that reads the old ones, those that move have arrived.
//!
//! Tablets go to other nodes in the same stages, some at once ([`tablets`]): those of nodes that
//! leave or have left, those of keyspaces that want more replicas or fewer, and those that are
//! moved for balance or by hand ([`by_hand`]). Nodes that leave give their tablets away before they
//! give up the ring.
//!
//! Where a node is told to have a tablet on another of its shards, that is done in the same stages
//! ([`shards`]), though no other node has anything to do with it.
//!
//! Of a tablet that gets fewer replicas those that stay have all that the others had, before these
//! go ([`fewer`]).
//!
//! While none of a table's tablets is on its way they may become twice or half as many, in one
//! step: by what they hold, of which each node tells the leader ([`loads`]). That needs no stage,
//! for nobody gets or loses a token by it (`cluster`, `registry::divide`).
//!
//! Keyspaces without tablets are given some while nothing moves ([`convert`]); where their tables
//! have more tablets than the power of two that they come to, those that are to become one are
//! brought to the same nodes first.
//!
//! What a range has is copied as files where its SSTables have nothing else ([`files`], [`give`]),
//! as rows elsewhere; as fast as clients hardly feel ([`Pace`]). What they asked for of it is read
//! into the caches before they ask here ([`warm`]).
//!
//! Whoever leads next goes on with the stage in which it finds the cluster; what was begun before
//! is asked for again, and does no harm twice.
//!
//! Invariants
//!  - *all-know*: a stage does its work, and is followed by the next, when all nodes that are not
//!    lost know it, and no request of theirs goes by what was before.
//!  - *session-guards*: what a stage copies is written only as long as the stage lasts, and the
//!    barrier of the next stage waits for what is being written.
//!  - *state-before-rows*: of conditional writes first what a replica has promised and learned is
//!    taken, then the rows: who says that it has learned something has it.
//!  - *clients-go-first*: a node serves no clients any more when others do not know it.
//!  - *nothing-forgotten*: while a node takes something of a table, it forgets no deletion of it:
//!    what was deleted may be on its way.
//!  - *durable-when-done*: what was taken is on the disk before a node says that it is done.

mod barrier;
mod by_hand;
mod cleanup;
mod convert;
mod fewer;
mod files;
mod give;
mod governor;
mod lead;
mod loads;
mod pace;
mod part;
mod shards;
mod sizes;
mod tablets;
mod take;
mod warm;

pub use crate::wire::moves::Progress;
pub(crate) use barrier::barrier;
pub use by_hand::move_tablet;
pub use cleanup::cleanup;
pub(crate) use convert::tell as tell_modes;
pub use convert::{NodeMode, finalize_conversion, node_modes};
pub(crate) use give::{block, end, give};

pub use crate::planted::Planted;
pub(crate) use loads::tell as tell_loads;
pub use pace::Pace;
pub(crate) use pace::keep_given;
pub use part::Giver;
pub use sizes::{TabletSizes, sizes};
pub(crate) use take::step;
pub(crate) use warm::tell as tell_warm;

use crate::coordinator::{Coordinator, own_coordinator};
use crate::planted::is_planted;
use crate::wire::loads::decode_still;
use crate::wire::verb;
use cluster::schema::Catalog;
use cluster::{Cluster, Member, MemberState, Stage, Topology, TopologyChange};
use cluster::{features, membership};
use model::Uuid;
use reader::LocalFuture;
use runtime::Erased;
use runtime::sync::Semaphore;
use runtime::time::{Instant, sleep};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use take::Taking;

/// Between two looks at the topology, which nobody tells of.
const LOOK: Duration = Duration::from_millis(50);
/// How long the leader may take for an answer that it has.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// How often the log says what is waited for.
const SAYS_EVERY: Duration = Duration::from_secs(10);

/// The stage of a session, of the ring or of tablets; `None`: it is over, or not known here yet.
fn stage_of(coordinator: &Coordinator, session: u64) -> Option<Stage> {
    let topology = coordinator.cluster.topology();
    debug_assert!(session != 0, "session-guards: a stage of no session");
    if topology.session() == session {
        debug_assert!(topology.stage().is_some(), "session-guards: {session} has no stage");
        return topology.stage();
    }
    let schema = coordinator.cluster.schema();
    let mut moves = schema.tables().flat_map(|table| table.replicas.moves().values());
    moves.find(|moving| moving.session == session).map(|moving| moving.stage)
}

/// This node's part in moves. In `runtime::local` of shard 0.
struct Moves {
    taking: Taking,
    /// Whose turn it is to remove data.
    clearing: Semaphore,
    /// Whose turn it is to ask all nodes what their tablets hold.
    looking: Semaphore,
    totals: Cell<Totals>,
    goals: loads::Goals,
    /// What the leader knows of tablets.
    kept: loads::Kept,
}

impl Moves {
    fn new() -> Moves {
        Moves {
            taking: Taking::default(),
            clearing: Semaphore::new(1, WAITING_MAX),
            looking: Semaphore::new(1, WAITING_MAX),
            totals: Cell::default(),
            goals: loads::Goals::register(),
            kept: loads::Kept::default(),
        }
    }
}

/// Those that wait to remove data, or to look, at most.
const WAITING_MAX: usize = 1024;

fn note(change: impl FnOnce(&mut Totals)) {
    if let Some(moves) = runtime::local::try_get::<Moves>() {
        let mut totals = moves.totals.get();
        change(&mut totals);
        moves.totals.set(totals);
    }
}

/// This node has taken so much from another one, on shard 0.
fn note_taken(mutations: u64, bytes: u64) {
    note(|totals| {
        totals.mutations_taken += mutations;
        totals.bytes_taken += bytes;
    });
}

/// So many SSTables of another node are those of a table here, on shard 0.
fn note_joined(sstables: usize) {
    note(|totals| totals.sstables_taken += sstables as u64);
}

/// So many partitions were read ahead into the caches of this node, on shard 0.
fn note_warmed(partitions: usize) {
    note(|totals| totals.partitions_warmed += partitions as u64);
}

/// This node has given so many bytes to another one, on shard 0.
pub(crate) fn note_given(bytes: usize) {
    note(|totals| totals.bytes_given += bytes as u64);
}

/// What comes before a node has left, on shard 0: it lets its clients go to others, which do not
/// hear it then. Stands in `runtime::local`.
pub struct Farewell(pub Box<dyn Fn() -> LocalFuture<'static, ()>>);

/// What this node takes from others in the present stage, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    pub stage: Stage,
    pub of_tablets: bool,
    pub progress: Progress,
    /// From whom.
    pub from: BTreeMap<Uuid, Giver>,
}

/// What this node has taken and given since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub mutations_taken: u64,
    /// Which are copies of files.
    pub sstables_taken: u64,
    pub bytes_taken: u64,
    /// Which were read ahead into caches.
    pub partitions_warmed: u64,
    pub bytes_given: u64,
}

/// Bytes a second that may move here for the sake of clients; 0: as many as can. On shard 0.
pub fn bound() -> u64 {
    pace::bound()
}

/// What this node takes now; `None`: nothing. On shard 0.
pub fn taken() -> Option<Taken> {
    let coordinator = own_coordinator().ok()?;
    let (session, progress, from) = runtime::local::try_get::<Moves>()?.taking.last()?;
    // What is over is of no interest any more.
    let stage = stage_of(&coordinator, session)?;
    let of_tablets = coordinator.cluster.topology().session() != session;
    Some(Taken { stage, of_tablets, progress, from })
}

/// Whether no node and no tablet moves, nor is to, and no table is divided anew here. The leader
/// knows what is to be done: it is asked, and where nobody leads, something may be.
pub fn is_still() -> Erased<'static, bool> {
    Erased::new(move || async move {
        let cluster = runtime::local::get::<Cluster>();
        if !is_quiet(&cluster) {
            return false;
        }
        if membership::leads() || !cluster.topology().enables(features::TABLET_RESIZE) {
            return is_settled();
        }
        let leader = membership::view().await.and_then(|view| view.leader);
        let topology = cluster.topology();
        match leader.and_then(|leader| topology.member(leader)) {
            Some(leader) if !barrier::is_here(leader) => asked_whether_still(leader).await,
            _ => false,
        }
    })
}

async fn asked_whether_still(leader: &Arc<Member>) -> bool {
    let asked = barrier::ask(leader, verb::MOVES_STILL, Vec::new(), ANSWER_MAX).await;
    asked.is_ok_and(|answer| decode_still(&answer).unwrap_or(false))
}

/// Whether nothing is on its way, as this node sees it.
fn is_quiet(cluster: &Cluster) -> bool {
    cluster.topology().movers().next().is_none()
        && tablets::under_way(&cluster.schema()).is_none()
        && !cluster.is_dividing()
}

/// The same, and nothing is to begin: as the leader knows it. On shard 0.
pub(crate) fn is_settled() -> bool {
    let Ok(coordinator) = own_coordinator() else { return false };
    let loads = runtime::local::try_get::<Moves>().and_then(|moves| moves.kept.loads());
    let is_known = !loads::is_enabled(&coordinator) || loads.is_some_and(|it| it.is_whole);
    is_known
        && is_quiet(&coordinator.cluster)
        && !tablets::follow(&coordinator.cluster.schema())
        && tablets::Needs::of(&coordinator).is_some_and(|needs| needs.is_nothing())
}

/// On shard 0.
pub fn totals() -> Totals {
    runtime::local::try_get::<Moves>().map(|moves| moves.totals.get()).unwrap_or_default()
}

/// From now on this node takes its part. On shard 0, when it has a coordinator and knows others.
pub fn start() {
    assert!(runtime::shard_id() == 0, "all-know: moves are led on shard 0");
    runtime::local::set(Rc::new(Moves::new()));
    if let Ok(coordinator) = own_coordinator() {
        coordinator.background.spawn(lead::follow(coordinator.clone()));
        coordinator.background.spawn(loads::follow(coordinator.clone()));
        coordinator.background.spawn(cleanup::follow(coordinator.clone()));
    }
}

/// Waits until this node may serve clients: one that joins has what it owns then, and so have those
/// that get tablets of a node that has left, whose place it may have taken; one that leaves and has
/// given all away does not serve any more. The error says that it never will.
pub fn joined() -> Erased<'static, Result<(), String>> {
    Erased::new(move || async move {
        let cluster = runtime::local::get::<Cluster>();
        let me = cluster.node().host_id;
        let (mut says_at, mut leaves, mut came) = (Instant::now(), false, false);
        if is_planted(Planted::ServesEarly) {
            return Ok(());
        }
        loop {
            let topology = cluster.topology();
            let state = topology.member(me).map(|member| member.state);
            // *clients-go-first*: the barrier that saw to it may be over.
            let given_all =
                state == Some(MemberState::Leaving) && topology.stage() == Some(Stage::ReadNew);
            let waits = given_all || state == Some(MemberState::Joining);
            leaves |= given_all;
            came |= state == Some(MemberState::Joining);
            // The others tell it nothing any more, but that they do not know it.
            if state == Some(MemberState::Left) || (waits && membership::is_expelled()) {
                return Err(match leaves {
                    true => format!("this node, {me}, has left its cluster"),
                    false => format!(
                        "this node, {me}, was not let into the cluster after all: start it with an \
                         empty data directory to try again"
                    ),
                });
            }
            let back = match came && !waits {
                true => tablets::to_come_back(&cluster.schema(), &topology),
                false => 0,
            };
            if !waits && back == 0 {
                return Ok(());
            }
            if says_at <= Instant::now() {
                says_at = Instant::now() + SAYS_EVERY;
                let moves = runtime::local::try_get::<Moves>();
                let told = moves.map(|it| it.taking.told()).unwrap_or_default();
                let stage = topology.stage().map_or("waiting for the leader", |it| it.name());
                let stage = match back {
                    0 => stage.to_owned(),
                    _ => format!("{back} tablets or more of nodes that have left go to others"),
                };
                let what = if leaves { "leaves" } else { "joins" };
                tracing::info!(target: "moves", "this node {what}: {stage}{told}");
            }
            sleep(LOOK).await;
        }
    })
}

/// Has this node give all that it has to the others, and leave. Ends when it has left; the error
/// says why it stays. `force`: also where keyspaces then have fewer nodes than they want replicas;
/// but it does not leave with tablets that nobody else can take.
pub fn leave(force: bool) -> Erased<'static, Result<(), String>> {
    Erased::new(move || async move {
        let leave = move || async move {
            let cluster = runtime::local::get::<Cluster>();
            let me = cluster.node().host_id;
            begin_to_leave(&cluster, me, force).await?;
            left(&cluster, me).await
        };
        runtime::on_shard(0, leave).await
    })
}

/// Has the others take over what a node had that is down and will not come back; of one that joins
/// and is not to any more, that it does not. Ends when it has left. Where others are on the move it
/// is lost at once, so that nobody waits for it, and leaves when they have arrived.
pub fn remove(host: Uuid, force: bool) -> Erased<'static, Result<(), String>> {
    Erased::new(move || async move {
        let remove = move || async move {
            let cluster = runtime::local::get::<Cluster>();
            if host == cluster.node().host_id {
                return Err("a node does not remove itself: decommission it".to_owned());
            }
            if cluster.is_alive(host) && cluster.topology().member(host).is_some_and(is_normal) {
                return Err(format!(
                    "the node being removed is alive, maybe you should use decommission instead? \
                     It is {host}"
                ));
            }
            loop {
                let removing = move |catalog: &Catalog| removing(catalog, host, force);
                let changed = cluster.change_topology(removing).await;
                changed.map_err(|error| error.to_string())?;
                let topology = cluster.topology();
                match topology.member(host).map(|member| member.state) {
                    // It is lost, and waits for others, or is about to arrive.
                    Some(MemberState::Normal | MemberState::Joining) => sleep(LOOK).await,
                    _ => return left(&cluster, host).await,
                }
            }
        };
        runtime::on_shard(0, remove).await
    })
}

fn is_normal(member: &Arc<Member>) -> bool {
    member.state == MemberState::Normal
}

/// Whether nobody else owns tokens who neither joins nor leaves.
fn is_last(topology: &Topology, host: Uuid) -> bool {
    let owns = |it: &Member| it.state == MemberState::Normal && !it.tokens.is_empty();
    debug_assert!(!host.is_nil(), "all-know: a node without a name leaves");
    topology.member(host).is_some_and(|it| owns(it))
        && !topology.present().any(|it| it.host_id != host && owns(it))
}

/// Why a node cannot leave that is to be removed, or leaves by itself; `None`: it can. In the words
/// that people look for.
fn bars(catalog: &Catalog, host: Uuid, removed: bool, force: bool) -> Option<String> {
    let Catalog { schema, topology, .. } = catalog;
    let after = topology.as_if_leaving(host);
    debug_assert!(after.stage() == topology.stage(), "all-know: {:?}", after.stage());
    match (is_last(topology, host), removed) {
        (true, true) => Some(format!(
            "node {host} cannot be removed because it is the last token-owning node in the cluster"
        )),
        (true, false) => {
            Some("Cannot decommission the last token-owning node in the cluster".to_owned())
        }
        (false, _) if force => None,
        (false, _) => {
            let ill = cluster::centers::unracked(schema, topology, &after)?;
            let how = if removed { "remove" } else { "decommission" };
            Some(format!(
                "node {how} rejected: Cannot remove the node because its removal would make some \
                 existing keyspace RF-rack-invalid: {ill}"
            ))
        }
    }
}

/// Why a node may not leave, whoever else is on the move; `None`: it may.
fn refuses(catalog: &Catalog, host: Uuid, removed: bool, force: bool) -> Option<String> {
    let Catalog { schema, topology, .. } = catalog;
    if !topology.enables(features::MOVES) {
        return Some(format!("not all nodes of the cluster can do that ({})", features::MOVES));
    }
    if let Some(why) = bars(catalog, host, removed, force) {
        return Some(why);
    }
    let after = topology.as_if_leaving(host);
    if !force && let Some(why) = tablets::why_stuck(schema, &after, host) {
        return Some(why);
    }
    let thin = cluster::centers::thinned(schema, topology, &after).filter(|_| !force);
    thin.map(|why| format!("{why}; force it to do so all the same"))
}

async fn begin_to_leave(cluster: &Cluster, host: Uuid, force: bool) -> Result<(), String> {
    let leaving = move |catalog: &Catalog| {
        let known = catalog.topology.member(host);
        if known.is_some_and(|known| known.state == MemberState::Leaving) {
            return Ok(Vec::new());
        }
        match refuses(catalog, host, false, force) {
            Some(why) => Err(why),
            None => Ok(vec![TopologyChange::Leave(host)]),
        }
    };
    cluster.change_topology(leaving).await.map_err(|error| error.to_string())
}

/// The changes that remove a node that is dead, as far as they can be made now.
fn removing(catalog: &Catalog, host: Uuid, force: bool) -> Result<Vec<TopologyChange>, String> {
    let topology = &catalog.topology;
    let lost = (!topology.is_lost(host)).then_some(TopologyChange::Lost(host));
    debug_assert!(!host.is_nil(), "all-know: a node without a name is removed");
    match topology.member(host).map(|member| member.state) {
        None => Err(format!("node {host} is not known")),
        Some(MemberState::Left) => Err(format!("node {host} has left already")),
        // It is read already: it arrives, for nobody waits for it any more, and leaves then.
        Some(MemberState::Joining) if topology.stage() == Some(Stage::ReadNew) => {
            Ok(lost.into_iter().collect())
        }
        Some(MemberState::Joining) => Ok(vec![TopologyChange::TurnBack(host)]),
        Some(MemberState::Leaving) => Ok(lost.into_iter().collect()),
        Some(MemberState::Normal) => {
            if lost.is_some()
                && let Some(why) = refuses(catalog, host, true, force)
            {
                return Err(why);
            }
            let leaves = topology.stage().is_none().then_some(TopologyChange::Leave(host));
            // Also of one that was declared lost before.
            if leaves.is_some()
                && let Some(why) = bars(catalog, host, true, force)
            {
                return Err(why);
            }
            Ok(lost.into_iter().chain(leaves).collect())
        }
    }
}

/// Waits until a node has left; it may turn back.
async fn left(cluster: &Cluster, host: Uuid) -> Result<(), String> {
    loop {
        let state = cluster.topology().member(host).map(|member| member.state);
        match state {
            Some(MemberState::Left) => return Ok(()),
            Some(MemberState::Leaving | MemberState::Joining) => {}
            Some(MemberState::Normal) | None => {
                return Err(format!("node {host} stays: the log of the leader says why"));
            }
        }
        // The others hear nothing of who has left, nor does it hear of them.
        if host == cluster.node().host_id && membership::is_expelled() {
            return Ok(());
        }
        sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::topology::testing::{member, topology};

    #[test]
    fn the_last_that_owns_tokens_is_known() {
        let place = ("d1", "r1");
        let leaves = Member { state: MemberState::Leaving, ..member(4, place, &[4]) };
        let nodes = [member(1, place, &[1]), member(2, place, &[]), leaves];
        let [one, two, three, four] = [1, 2, 3, 4].map(Uuid::from_u128);
        let alone = topology(&nodes);
        assert_eq!(
            [one, two, three, four].map(|it| is_last(&alone, it)),
            [true, false, false, false]
        );
        let both = alone.apply(&TopologyChange::Set(member(3, place, &[3])));
        assert!(!is_last(&both, one) && !is_last(&both, three));
        assert!(is_last(&both.as_if_leaving(one), three));
    }
}
