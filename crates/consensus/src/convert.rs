//! Between the library's values and ours.
//!
//! Invariants
//!  - *same-entry*: an entry that came in goes out as it was.

use crate::entry::{Cut, Entry, Kind, decode_moves, encode_moves};
use crate::members::{Members, Move, NodeId};
use protobuf::Message as _;
use raft::eraftpb::{self, ConfChangeType, EntryType};

/// An entry for a log or a peer.
pub(crate) fn entry_out(entry: &eraftpb::Entry) -> Entry {
    let (kind, data) = match entry.get_entry_type() {
        EntryType::EntryNormal => (Kind::Command, entry.data.to_vec()),
        EntryType::EntryConfChangeV2 => (Kind::Members, encode_moves(&moves_of(&entry.data))),
        EntryType::EntryConfChange => unreachable!("same-entry: nobody proposes these"),
    };
    let (index, term, origin) = (entry.index, entry.term, entry.context.to_vec());
    Entry { index, term, kind, origin, data }
}

/// An entry from a log or a peer.
pub(crate) fn entry_in(entry: Entry) -> eraftpb::Entry {
    let mut into = eraftpb::Entry::default();
    into.index = entry.index;
    into.term = entry.term;
    into.context = entry.origin.into();
    match entry.kind {
        Kind::Command => into.data = entry.data.into(),
        Kind::Members => {
            into.set_entry_type(EntryType::EntryConfChangeV2);
            let moves = decode_moves(&entry.data);
            debug_assert!(moves.is_ok(), "same-entry: {moves:?} was checked by its decoder");
            let bytes = change_of(&moves.unwrap_or_default()).write_to_bytes();
            into.data = bytes.unwrap_or_default().into();
        }
    }
    into
}

/// The moves as the library wants them.
pub(crate) fn change_of(moves: &[Move]) -> eraftpb::ConfChangeV2 {
    let singles = moves.iter().map(|step| {
        let (node, kind) = match step {
            Move::Vote(node) => (node, ConfChangeType::AddNode),
            Move::Learn(node) => (node, ConfChangeType::AddLearnerNode),
            Move::Remove(node) => (node, ConfChangeType::RemoveNode),
        };
        let mut single = eraftpb::ConfChangeSingle::default();
        single.set_change_type(kind);
        single.node_id = node.0;
        single
    });
    let mut change = eraftpb::ConfChangeV2::default();
    change.set_changes(singles.collect::<Vec<_>>().into());
    debug_assert_eq!(change.changes.len(), moves.len(), "same-entry: each move");
    change
}

/// The moves in the library's bytes, which it or [`entry_in`] made.
pub(crate) fn moves_of(bytes: &[u8]) -> Vec<Move> {
    let change = eraftpb::ConfChangeV2::parse_from_bytes(bytes);
    debug_assert!(change.is_ok(), "same-entry: the library's own bytes");
    let change = change.unwrap_or_default();
    change.get_changes().iter().map(move_of).collect()
}

fn move_of(single: &eraftpb::ConfChangeSingle) -> Move {
    let node = NodeId(single.node_id);
    match single.get_change_type() {
        ConfChangeType::AddNode => Move::Vote(node),
        ConfChangeType::AddLearnerNode => Move::Learn(node),
        ConfChangeType::RemoveNode => Move::Remove(node),
    }
}

pub(crate) fn members_out(state: &eraftpb::ConfState) -> Members {
    let sorted = |ids: &[u64]| {
        let mut ids: Vec<_> = ids.iter().copied().map(NodeId).collect();
        ids.sort();
        debug_assert!(ids.is_sorted_by(|a, b| a < b), "sorted-ids: {ids:?}");
        ids
    };
    Members {
        voters: sorted(state.get_voters()),
        learners: sorted(state.get_learners()),
        outgoing: sorted(state.get_voters_outgoing()),
        learners_next: sorted(state.get_learners_next()),
        auto_leave: state.auto_leave,
    }
}

pub(crate) fn members_in(members: &Members) -> eraftpb::ConfState {
    let ids = |list: &[NodeId]| list.iter().map(|node| node.0).collect::<Vec<_>>();
    let mut state = eraftpb::ConfState::default();
    state.set_voters(ids(&members.voters));
    state.set_learners(ids(&members.learners));
    state.set_voters_outgoing(ids(&members.outgoing));
    state.set_learners_next(ids(&members.learners_next));
    state.auto_leave = members.auto_leave;
    state
}

pub(crate) fn cut_out(metadata: &eraftpb::SnapshotMetadata) -> Cut {
    let members = members_out(metadata.get_conf_state());
    Cut { index: metadata.index, term: metadata.term, members }
}

pub(crate) fn snapshot_in(cut: &Cut) -> eraftpb::Snapshot {
    debug_assert!(0 < cut.index, "counted-from-one: a snapshot of nothing");
    let mut snapshot = eraftpb::Snapshot::default();
    let metadata = snapshot.mut_metadata();
    metadata.index = cut.index;
    metadata.term = cut.term;
    metadata.set_conf_state(members_in(&cut.members));
    snapshot
}
