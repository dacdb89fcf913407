//! What operators ask of the group of all nodes: who leads, who belongs to it, that this node has
//! caught up, that its log be cut. From any shard; shard 0 answers.
//!
//! Invariants
//!  - *read-your-past*: after a barrier every shard of this node shows what was decided before it.

use super::Membership;
use super::transport::number;
use crate::group0::unanswered;
use consensus::{Group, NodeId, Role};
use model::Uuid;
use std::time::Duration;

/// A member of the group, as this node knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupMember {
    pub host_id: Uuid,
    pub votes: bool,
}

/// The group as this node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    pub id: Uuid,
    /// How often it was formed anew when its majority was lost.
    pub generation: u64,
    /// `None`: this node knows of none.
    pub leader: Option<Uuid>,
    /// In the order of their host ids.
    pub members: Vec<GroupMember>,
}

/// The group as this node knows it; `None`: the node takes no part in one.
pub async fn view() -> Option<GroupView> {
    runtime::on_shard(0, || async { seen() }).await
}

/// Waits until this node shows what was decided anywhere before. The error says what is wrong; a
/// node that takes no part in a group has nothing to wait for.
/// `within`: not so long as an operation may take by the options, but so long.
pub async fn read_barrier(within: Option<Duration>) -> Result<(), String> {
    assert!(within != Some(Duration::ZERO), "read-your-past: a barrier takes time");
    runtime::on_shard(0, move || async move {
        let Some((_, group)) = own() else { return Ok(()) };
        let membership = runtime::local::get::<Membership>();
        let read = group.read_barrier(within.unwrap_or(membership.command_time.get())).await;
        read.map(drop).map_err(|why| {
            let why = unanswered("read_barrier", &why, &group, &membership.cluster);
            format!("the read barrier did not end: {why}")
        })
    })
    .await
}

/// Cuts this node's log of what it has applied.
pub async fn cut_log(within: Duration) -> Result<(), String> {
    assert!(!within.is_zero(), "a cut of the log takes time");
    runtime::on_shard(0, move || async move {
        let Some((_, group)) = own() else { return Err(NO_GROUP.to_owned()) };
        let cut = group.cut(within).await;
        cut.map(drop).map_err(|why| format!("the log was not cut: {why}"))
    })
    .await
}

/// Lets another node lead. The error says why none does.
pub async fn step_down(within: Duration) -> Result<(), String> {
    assert!(!within.is_zero(), "another node takes over in some time");
    runtime::on_shard(0, move || async move {
        let Some((_, group)) = own() else { return Err(NO_GROUP.to_owned()) };
        if group.status().role != Role::Leader {
            return Err("this node does not lead".to_owned());
        }
        match group.step_down(within).await {
            true => Ok(()),
            false => Err("no other voter could take over in time".to_owned()),
        }
    })
    .await
}

const NO_GROUP: &str = "this node takes no part in a group";

fn own() -> Option<(Uuid, Group)> {
    assert!(runtime::shard_id() == 0, "same-everywhere: membership is of shard 0");
    let membership = runtime::local::try_get::<Membership>()?;
    let group = membership.group.borrow();
    group.clone()
}

fn seen() -> Option<GroupView> {
    let (id, group) = own()?;
    let membership = runtime::local::get::<Membership>();
    let (topology, status) = (membership.cluster.topology(), group.status());
    let generation = membership.generation.borrow().number;
    let host_of = |node: NodeId| {
        let mut all = topology.members();
        all.find(|member| number(member.host_id) == node).map(|member| member.host_id)
    };
    let votes = |nodes: &[NodeId], votes: bool| {
        let hosts = nodes.iter().filter_map(|node| host_of(*node));
        hosts.map(|host_id| GroupMember { host_id, votes }).collect::<Vec<_>>()
    };
    let mut members = votes(&status.members.voters, true);
    members.extend(votes(&status.members.learners, false));
    members.sort_by_key(|member| member.host_id);
    let leader = status.leader.and_then(host_of);
    let is_its = leader.is_none_or(|host_id| Some(number(host_id)) == status.leader);
    debug_assert!(is_its, "one-leader: {leader:?} is not {:?}", status.leader);
    let ids = |pair: &[GroupMember]| pair[0].host_id < pair[1].host_id;
    debug_assert!(members.windows(2).all(ids), "one-group: a member twice: {members:?}");
    Some(GroupView { id, generation, leader, members })
}
