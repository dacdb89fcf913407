//! Who belongs to the group, and who of them votes.
//!
//! Invariants
//!  - *one-role*: a node is a voter or a learner, not both.
//!  - *sorted-ids*: lists of nodes are in the order of their numbers, each once.

use crate::form;
use std::fmt;
use stdx::{Cursor, Damaged, Put};

/// A node's number within its group: never 0, and never given to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The members of a group after some entry of its log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Those whose majority decides.
    pub voters: Vec<NodeId>,
    /// Those who are sent everything and decide nothing.
    pub learners: Vec<NodeId>,
    /// While the voters change: those before, whose majority has to agree too.
    pub outgoing: Vec<NodeId>,
    /// While the voters change: voters of before who stay as learners.
    pub learners_next: Vec<NodeId>,
    /// While the voters change: whether the leader ends the change by itself.
    pub auto_leave: bool,
}

/// The most members that a message or a log may name.
const MEMBERS_MAX: u64 = 4096;

impl Members {
    /// A group of one.
    pub fn alone(me: NodeId) -> Members {
        assert!(me.0 != 0, "one-role: 0 is no node");
        Members { voters: vec![me], ..Members::default() }
    }

    /// Whether the node belongs to the group.
    pub fn has(&self, node: NodeId) -> bool {
        let lists = [&self.voters, &self.learners, &self.outgoing];
        lists.iter().any(|list| list.contains(&node))
    }

    /// Whether no change of voters is under way.
    pub fn is_settled(&self) -> bool {
        self.outgoing.is_empty()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for list in [&self.voters, &self.learners, &self.outgoing, &self.learners_next] {
            debug_assert!(list.is_sorted_by(|a, b| a < b), "sorted-ids: {list:?}");
            assert!(list.len() as u64 <= MEMBERS_MAX, "sorted-ids: {} members", list.len());
            out.put_vint(list.len() as u64);
            list.iter().for_each(|node| out.put_u64(node.0));
        }
        out.put_u8(self.auto_leave as u8);
    }

    pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<Members, Damaged> {
        let voters = decode_ids(cursor)?;
        let learners = decode_ids(cursor)?;
        let outgoing = decode_ids(cursor)?;
        let learners_next = decode_ids(cursor)?;
        let auto_leave = form::truth(cursor, "whether members settle by themselves")?;
        if learners.iter().any(|node| voters.contains(node)) {
            return Err(cursor.damaged("a node is a voter and a learner"));
        }
        if !learners_next.iter().all(|node| outgoing.contains(node)) {
            return Err(cursor.damaged("a coming learner was no voter"));
        }
        if voters.is_empty() && !outgoing.is_empty() {
            return Err(cursor.damaged("members without a voter"));
        }
        Ok(Members { voters, learners, outgoing, learners_next, auto_leave })
    }
}

fn decode_ids(cursor: &mut Cursor<'_>) -> Result<Vec<NodeId>, Damaged> {
    let count = form::number(cursor, "a number of members")?;
    if MEMBERS_MAX < count {
        return Err(cursor.damaged("more members than a group may have"));
    }
    let mut ids = Vec::new();
    for _ in 0..count {
        let id = NodeId(cursor.u64("a member")?);
        if id.0 == 0 || ids.last().is_some_and(|last| id <= *last) {
            return Err(cursor.damaged("members out of order"));
        }
        ids.push(id);
    }
    debug_assert!(ids.is_sorted(), "sorted-ids: {ids:?}");
    Ok(ids)
}

/// One node's part in a change of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    Vote(NodeId),
    Learn(NodeId),
    Remove(NodeId),
}

/// What leads from the present members to those wanted; empty when they are there.
pub(crate) fn moves(now: &Members, voters: &[NodeId], learners: &[NodeId]) -> Vec<Move> {
    debug_assert!(now.is_settled(), "one-role: members that change already");
    debug_assert!(!voters.iter().any(|v| learners.contains(v)), "one-role: {voters:?}");
    let mut moves = Vec::new();
    let to_vote = voters.iter().filter(|node| !now.voters.contains(node));
    moves.extend(to_vote.map(|node| Move::Vote(*node)));
    let to_learn = learners.iter().filter(|node| !now.learners.contains(node));
    moves.extend(to_learn.map(|node| Move::Learn(*node)));
    let stays = |node: &NodeId| voters.contains(node) || learners.contains(node);
    let gone = now.voters.iter().chain(&now.learners).filter(|node| !stays(node));
    moves.extend(gone.map(|node| Move::Remove(*node)));
    moves
}
