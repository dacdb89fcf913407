//! The members of the group follow the topology, by way of its leader.
//!
//! Invariants
//!  - *one-hand*: the members are changed by the leader alone, to what the topology that it shows
//!    asks for.
//!  - *all-have-it*: what all nodes can do is enabled by the leader.
//!  - *votes-first*: who leaves gives up its vote, and the lead, before it has left: from then on
//!    nobody hears it, and those that stay might be no majority with its vote. Only while so many
//!    are down that they would be none without it, it votes on.

use super::Membership;
use super::streams;
use super::transport::number;
use crate::schema::Catalog;
use catalog::{Member, MemberState, Stage, TopologyChange};
use consensus::{Candidate, Members, NodeId, Role, choose_voters};
use model::Uuid;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks, where the catalog does not change.
const PERIOD: Duration = Duration::from_millis(500);
/// The same while nodes join or leave, which wait for it: of who votes the catalog does not tell.
const PERIOD_OF_MOVES: Duration = Duration::from_millis(50);
/// How long one change may take before it is thought over again.
const CHANGE_MAX: Duration = Duration::from_secs(10);

/// How long one that leaves tries to let another one lead.
const STEP_DOWN_MAX: Duration = Duration::from_secs(2);

/// Whether a node votes in the group, as far as this one knows, or did before a change that is not
/// over. On shard 0.
pub fn votes(host: Uuid) -> bool {
    let Some(status) = super::status() else { return false };
    let Members { voters, outgoing, .. } = &status.members;
    debug_assert!(!host.is_nil(), "votes-first: a node without a name");
    voters.contains(&number(host)) || outgoing.contains(&number(host))
}

fn leaves(member: &Member) -> bool {
    member.state == MemberState::Leaving
}

/// Runs for ever.
pub(super) async fn follow(membership: Rc<Membership>) {
    // The latest topology whose ring has its streams.
    let mut settled = u64::MAX;
    loop {
        let looked_at = membership.cluster.topology();
        looked_at.members().for_each(|member| membership.book.note(member.host_id));
        let group = membership.group.borrow().as_ref().map(|(_, group)| group.clone());
        let Some(group) = group else { return };
        let status = group.status();
        if status.role == Role::Leader {
            let topology = membership.cluster.topology();
            let present = topology.present().filter(|it| !membership.is_lost(it.host_id));
            let present: Vec<&Arc<Member>> = present.collect();
            let is_alive = |member: &Member| membership.cluster.is_alive(member.host_id);
            // Until then they count among those of whom some may fail.
            let goes = |member: &Member| topology.stage() == Some(Stage::ReadNew) && leaves(member);
            let wanted = wanted(&present, &status.members, status.leader, (is_alive, goes));
            if let Some((voters, learners)) = wanted
                && let Err(why) = group.set_members(voters, learners, CHANGE_MAX).await
            {
                tracing::warn!(target: "membership", "the voters cannot be changed: {why}");
            }
            let me = topology.member(membership.own().host_id);
            if me.is_some_and(|me| goes(me)) && status.members.is_settled() {
                group.step_down(STEP_DOWN_MAX).await;
            }
            if !membership.lost_to_tell().is_empty() {
                membership.tell_lost().await;
            }
            if !topology.to_enable().is_empty() {
                membership.enable_features().await;
            }
            if settled != topology.version() {
                match streams::are_due(&topology) {
                    true => membership.make_streams().await,
                    false => settled = topology.version(),
                }
            }
        }
        let topology = membership.cluster.topology();
        if topology.version() != looked_at.version() {
            continue;
        }
        let moves = topology.movers().next().is_some();
        let period = if moves { PERIOD_OF_MOVES } else { PERIOD };
        membership.cluster.changed_within(period).await;
    }
}

impl Membership {
    /// Writes into the topology who was declared lost. Where that fails it is tried again.
    async fn tell_lost(&self) {
        let lost = self.lost_to_tell();
        debug_assert!(!lost.is_empty(), "lost-is-not-heard: nobody is to be told");
        let decide = move |catalog: &Catalog| {
            let left = lost.iter().filter(|it| catalog.topology.check(it).is_ok());
            Ok(left.cloned().collect())
        };
        if let Err(why) = self.cluster.change_topology(decide).await {
            tracing::warn!(target: "membership", "lost nodes cannot be written down: {why}");
        }
    }

    /// Enables what all nodes can do now. Where that fails it is tried again.
    async fn enable_features(&self) {
        let decide = |catalog: &Catalog| {
            let names = catalog.topology.to_enable();
            Ok(names.into_iter().map(TopologyChange::Enable).collect())
        };
        let names = catalog::features::joined(&self.cluster.topology().to_enable());
        debug_assert!(!names.is_empty(), "all-have-it: nothing is to be enabled");
        match self.cluster.change_topology(decide).await {
            Ok(()) => tracing::info!(target: "membership", "the cluster has features: {names}"),
            Err(why) => {
                tracing::warn!(target: "membership", "features cannot be enabled: {why}");
            }
        }
    }
}

/// Who should vote, and who should not, of these nodes, some of which are about to go; `None`
/// where it is so already, or this node's topology has not got anybody yet.
fn wanted(
    present: &[&Arc<Member>],
    members: &Members,
    leader: Option<NodeId>,
    (is_alive, goes): (impl Fn(&Member) -> bool, impl Fn(&Member) -> bool),
) -> Option<(Vec<NodeId>, Vec<NodeId>)> {
    let candidate = |member: &&Arc<Member>| {
        let node = number(member.host_id);
        Candidate {
            node,
            dc: member.data_center.clone(),
            rack: member.rack.clone(),
            is_alive: is_alive(member),
            is_voter: members.voters.contains(&node),
        }
    };
    // *votes-first*: who leads steps down before.
    let may_vote = |member: &&&Arc<Member>| !goes(member) || leader == Some(number(member.host_id));
    let stay: Vec<Candidate> = present.iter().filter(may_vote).map(candidate).collect();
    let mut chosen = choose_voters(&stay, leader);
    let lives = |one: &&Candidate| one.is_alive && chosen.contains(&one.node);
    if 2 * stay.iter().filter(lives).count() <= chosen.len() {
        // While others are down those that leave are needed.
        chosen = choose_voters(&present.iter().map(candidate).collect::<Vec<_>>(), leader);
    }
    let of = |votes: bool| {
        let nodes = present.iter().map(|member| number(member.host_id));
        let mut nodes: Vec<NodeId> = nodes.filter(|node| chosen.contains(node) == votes).collect();
        nodes.sort();
        nodes
    };
    let (voters, learners) = (of(true), of(false));
    let all = voters.len() + learners.len();
    assert!(all == present.len(), "one-hand: {all} members of {} nodes", present.len());
    let apart = voters.iter().all(|node| !learners.contains(node));
    debug_assert!(apart, "one-hand: {voters:?} and {learners:?}");
    let settled = members.is_settled();
    let same = settled && members.voters == voters && members.learners == learners;
    (!same && !voters.is_empty()).then_some((voters, learners))
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::topology::testing::{member, topology};

    #[test]
    fn members_follow_the_topology() {
        let place = ("dc1", "rack1");
        let nodes = topology(&[1, 2, 3].map(|it| member(it, place, &[i64::from(it)])));
        let present: Vec<&Arc<Member>> = nodes.present().collect();
        let first = Members { voters: vec![NodeId(1)], ..Members::default() };
        let check = |members: &Members, alive: &[u64], expected: Option<(&[u64], &[u64])>| {
            let is_alive = |member: &Member| alive.contains(&number(member.host_id).0);
            let found = wanted(&present, members, Some(NodeId(1)), (is_alive, leaves));
            let ids = |ids: &[u64]| ids.iter().copied().map(NodeId).collect::<Vec<_>>();
            let expected = expected.map(|(voters, learners)| (ids(voters), ids(learners)));
            assert_eq!(found, expected, "{members:?}");
        };
        check(&first, &[1, 2, 3], Some((&[1, 2, 3], &[])));
        let all = Members { voters: [1, 2, 3].map(NodeId).into(), ..Members::default() };
        check(&all, &[1, 2, 3], None);
        check(&all, &[1], None);
        assert_eq!(wanted(&[], &first, None, (|_: &Member| true, leaves)), None);
        // *votes-first*
        let leaving_with = |numbers: &[u128], leader: u64, alive: &[u64]| {
            let leave = |topology: catalog::Topology, it: &u128| {
                topology.apply(&TopologyChange::Leave(Uuid::from_u128(*it)))
            };
            let leaving = numbers.iter().fold(nodes.clone(), leave);
            let present: Vec<&Arc<Member>> = leaving.present().collect();
            let is_alive = |member: &Member| alive.contains(&number(member.host_id).0);
            wanted(&present, &all, Some(NodeId(leader)), (is_alive, leaves))
        };
        let leaving = |numbers: &[u128], leader| leaving_with(numbers, leader, &[1, 2, 3]);
        let ids = |ids: &[u64]| ids.iter().copied().map(NodeId).collect::<Vec<_>>();
        assert_eq!(leaving(&[3], 1), Some((ids(&[1, 2]), ids(&[3]))));
        assert_eq!(leaving(&[2, 3], 1), Some((ids(&[1]), ids(&[2, 3]))));
        assert_eq!(leaving(&[1], 1), None);
        // One is down: without the one that leaves there would be no majority.
        assert_eq!(leaving_with(&[3], 1, &[1, 3]), None);
        assert_eq!(leaving(&[1, 2], 1), Some((ids(&[1, 3]), ids(&[2]))));
    }
}
