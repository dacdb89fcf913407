//! The barrier between two stages, on one node and of all.
//!
//! Invariants
//!  - *all-know*, *clients-go-first*: see [`super`].

use super::Farewell;
use crate::coordinator::{Coordinator, own_coordinator};
use crate::wire::moves::Progress;
use crate::wire::verb;
use cluster::{Member, MemberState, Stage};
use messaging::{HostId, Messaging, Payload, Target, ToShard, Verb};
use runtime::Erased;
use runtime::task::join_all;
use std::sync::Arc;
use std::time::Duration;

/// How long a node may take to answer: requests that are under way have to end.
const BARRIER_MAX: Duration = Duration::from_secs(60);

/// A question to a node, which may be this one.
pub(super) async fn ask(
    member: &Member,
    verb: Verb,
    payload: Vec<u8>,
    time: Duration,
) -> Result<Vec<u8>, String> {
    let host = HostId(member.host_id.as_u128());
    debug_assert!(!is_here(member), "one-hand: a message of a node to itself");
    let target = Target { shard: ToShard::At(0), ..Target::control(host) };
    let Some(messaging) = Messaging::current() else {
        return Err("this node does not speak to others".to_owned());
    };
    let asked = messaging.call(target, verb, Payload::from(payload), time).await;
    asked.map_err(|error| error.to_string())
}

pub(super) fn is_here(member: &Member) -> bool {
    own_coordinator().is_ok_and(|it| it.cluster.node().host_id == member.host_id)
}

/// A node shows what was decided, and ends what began before.
pub(super) async fn ask_barrier(member: &Arc<Member>) -> Result<Progress, String> {
    let done = match is_here(member) {
        true => barrier().await,
        false => ask(member, verb::MOVE_BARRIER, Vec::new(), BARRIER_MAX).await.map(drop),
    };
    done.map(|()| Progress { is_done: true, ..Progress::default() })
}

/// All nodes do so, but for one that does not answer anybody: from it nothing comes.
pub(super) async fn ask_all(coordinator: &Coordinator) -> Result<(), String> {
    let topology = coordinator.cluster.topology();
    let lives = |member: &&Arc<Member>| {
        !topology.is_lost(member.host_id) && coordinator.cluster.is_alive(member.host_id)
    };
    let members: Vec<Arc<Member>> = topology.present().filter(lives).cloned().collect();
    debug_assert!(!members.is_empty(), "all-know: this node is no member");
    let passed = join_all(members.iter().map(ask_barrier)).await;
    passed.into_iter().try_for_each(|passed| passed.map(drop))
}

impl Coordinator {
    /// Waits until each node shows what was decided before, and no request is under way anywhere
    /// that had begun by then; but for a node that does not answer anybody.
    pub fn all_ended(&self) -> Erased<'_, Result<(), String>> {
        Erased::new(move || async move {
            // A node that belongs to no group is alone.
            match self.cluster.topology().present().next() {
                Some(_) => ask_all(self).await,
                None => barrier().await,
            }
        })
    }
}

/// Whether this node leaves, and nothing is read here any more but for its own clients.
fn has_given_all(coordinator: &Coordinator) -> bool {
    let topology = coordinator.cluster.topology();
    let me = topology.member(coordinator.cluster.node().host_id);
    let leaves = me.is_some_and(|me| me.state == MemberState::Leaving);
    leaves && topology.stage() == Some(Stage::ReadNew)
}

/// This node shows what was decided before, and no request is under way that goes by what was
/// before that (*all-know*).
pub(crate) async fn barrier() -> Result<(), String> {
    let coordinator = own_coordinator().map_err(|error| error.to_string())?;
    coordinator.cluster.catch_up().await?;
    // *clients-go-first*
    if has_given_all(&coordinator)
        && let Some(farewell) = runtime::local::try_get::<Farewell>()
    {
        (farewell.0)().await;
    }
    let pass = || async {
        match own_coordinator() {
            Ok(coordinator) => coordinator.epochs.pass().await,
            Err(error) => Err(error.to_string()),
        }
    };
    runtime::on_all_shards(pass).await.into_iter().collect()
}
