//! The library, driven: inputs go in, and a [`Step`] says what is to be done, and in which order.
//!
//! Knows no task, no clock and no file: time is ticks, and randomness a number that is given. The
//! only room but `store`, `convert` and `message` that names the library.
//!
//! Invariants
//!  - *durable-first*: what a step says to its peers `after`, and what it commits by our own vote,
//!    comes when its change is durable.
//!  - *one-step*: a step is finished before the next begins, and nothing goes in in between.
//!  - *applied-in-order*: each committed entry is handed out once, after those before it.
//!  - *term-grows*: neither the term nor the commit index goes back.
//!  - *members-in-place*: a change of members counts from where the machine is past its entry.

use crate::convert;
use crate::entry::{Cut, Entry};
use crate::members::{Members, Move, NodeId, moves};
use crate::message::{Message, ends};
use crate::options::{Options, Planted};
use crate::store::Store;
use crate::traits::{Change, Hard, Loaded};
use raft::eraftpb::{self, EntryType, MessageType};
use raft::{ProgressState, RawNode, Ready, SnapshotStatus, StateRole};
use std::collections::VecDeque;

/// The role of a node in the present term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Leader,
    Follower,
    /// Calls, or asks whether it may call, an election.
    Candidate,
}

/// What a step asks to be done, in this order.
#[derive(Debug)]
pub(crate) struct Step {
    /// To be sent at once.
    pub(crate) now: Vec<(NodeId, Message)>,
    /// A snapshot that the machine has to take over before the change is written.
    pub(crate) snapshot: Option<Cut>,
    /// To be made durable.
    pub(crate) change: Change,
    /// To be sent when it is.
    pub(crate) after: Vec<(NodeId, Message)>,
    pub(crate) committed: Vec<Entry>,
    /// Reads whose place the majority confirmed.
    pub(crate) reads: Vec<((u64, u64), u64)>,
    ready: Ready,
    entries: Vec<eraftpb::Entry>,
}

/// What follows from a durable step.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) after: Vec<(NodeId, Message)>,
    pub(crate) committed: Vec<Entry>,
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Not for us, or of one who is no peer.
    Stranger,
    /// The leader says that we have entries which we have not: our log has lost something.
    Forgotten,
}

/// The library, driven.
pub(crate) struct Engine {
    node: RawNode<Store>,
    me: NodeId,
    store: Store,
    planted: Option<Planted>,
    log_bytes_max: usize,
    /// From the first to the last tick that an election timeout may have.
    timeouts: (usize, usize),
    /// When the library last drew a timeout: ours replaces it.
    drawn_at: Option<(u64, StateRole)>,
    stepping: bool,
    /// The last entry that was handed out.
    handed: u64,
    applied: u64,
    /// Changes of members that were handed out, and not yet counted.
    coming: VecDeque<(u64, Vec<Move>)>,
    /// The members after each change since the log begins.
    history: VecDeque<(u64, Members)>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine({}, term {}, {:?})", self.me, self.term(), self.role())
    }
}

impl Engine {
    /// From what the log has.
    pub(crate) fn new(me: NodeId, options: &Options, loaded: Loaded) -> Result<Engine, String> {
        options.check();
        let cut = loaded.cut.clone().unwrap_or_default();
        let store = Store::new(loaded);
        let config = raft::Config {
            id: me.0,
            election_tick: options.election_ticks,
            heartbeat_tick: 1,
            applied: cut.index,
            max_size_per_msg: options.batch_bytes as u64,
            max_inflight_msgs: 64,
            check_quorum: true,
            pre_vote: true,
            min_election_tick: options.election_ticks + 1,
            max_election_tick: options.election_ticks_end,
            max_uncommitted_size: (options.log_bytes_max.max(options.batch_bytes)) as u64,
            max_committed_size_per_ready: options.batch_bytes as u64,
            ..raft::Config::default()
        };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let node = RawNode::new(&config, store.clone(), &logger).map_err(|e| e.to_string())?;
        Ok(Engine {
            node,
            me,
            planted: options.planted,
            log_bytes_max: options.log_bytes_max,
            timeouts: (options.election_ticks + 1, options.election_ticks_end - 1),
            drawn_at: None,
            stepping: false,
            handed: cut.index,
            applied: cut.index,
            coming: VecDeque::new(),
            history: VecDeque::from([(cut.index, cut.members)]),
            store,
        })
    }

    /// Whether the library drew an election timeout since it was last asked: it knows no seed, so
    /// the caller draws one instead, from the range that this gives.
    pub(crate) fn wants_timeout(&mut self) -> Option<(usize, usize)> {
        let now = (self.node.raft.term, self.node.raft.state);
        let changed = self.drawn_at != Some(now);
        self.drawn_at = Some(now);
        changed.then_some(self.timeouts)
    }

    pub(crate) fn set_timeout(&mut self, ticks: usize) {
        let (low, high) = self.timeouts;
        assert!(low <= ticks && ticks <= high, "patient-followers: {ticks} ticks");
        self.node.raft.set_randomized_election_timeout(ticks);
    }

    pub(crate) fn tick(&mut self) {
        assert!(!self.stepping, "one-step: a tick within a step");
        self.node.tick();
    }

    /// Calls an election now: for the only member of a new group.
    pub(crate) fn campaign(&mut self) {
        assert!(!self.stepping, "one-step: an election within a step");
        let _ = self.node.campaign();
    }

    /// A message of a peer.
    pub(crate) fn receive(
        &mut self,
        from: NodeId,
        message: eraftpb::Message,
    ) -> Result<(), Refused> {
        assert!(!self.stepping, "one-step: a message within a step");
        let (to, sender) = ends(&message);
        // What was forwarded has the name of who began it.
        let forwarded =
            matches!(message.get_msg_type(), MessageType::MsgPropose | MessageType::MsgReadIndex);
        if to != self.me || (sender != from && !forwarded) || sender == self.me {
            return Err(Refused::Stranger);
        }
        if self.is_forgotten(&message) {
            return Err(Refused::Forgotten);
        }
        let full = self.log_bytes_max < self.store.bytes();
        if message.get_msg_type() == MessageType::MsgPropose && full {
            return Ok(());
        }
        // What the library does not want now, it says: nothing follows from it.
        let _ = self.node.step(message);
        Ok(())
    }

    /// Whether a leader of now relies on entries that this log does not have, or has otherwise.
    fn is_forgotten(&self, message: &eraftpb::Message) -> bool {
        let raft = &self.node.raft;
        if message.term < raft.term {
            return false;
        }
        match message.get_msg_type() {
            MessageType::MsgHeartbeat => raft.raft_log.last_index() < message.commit,
            MessageType::MsgAppend => message.entries.iter().any(|entry| {
                let kept = raft.raft_log.term(entry.index);
                let index = entry.index;
                index <= raft.raft_log.committed
                    && kept.is_ok_and(|term| term != entry.term)
                    && self.store.begin().index < index
            }),
            _ => false,
        }
    }

    /// A snapshot that was pulled is offered; whether the next step takes it is the library's.
    pub(crate) fn offer(&mut self, from: NodeId, term: u64, cut: &Cut) {
        assert!(!self.stepping, "one-step: a snapshot within a step");
        assert!(0 < cut.index, "counted-from-one: a snapshot of nothing");
        let mut message = eraftpb::Message::default();
        message.set_msg_type(MessageType::MsgSnapshot);
        (message.from, message.to, message.term) = (from.0, self.me.0, term);
        message.set_snapshot(convert::snapshot_in(cut));
        let _ = self.node.step(message);
    }

    /// Proposes a command, or sends it to the leader: whether it went somewhere.
    pub(crate) fn propose(&mut self, origin: Vec<u8>, data: Vec<u8>) -> bool {
        debug_assert!(!origin.is_empty(), "own-outcome: a proposal of nobody");
        assert!(!self.stepping, "one-step: a proposal within a step");
        if self.log_bytes_max < self.store.bytes() {
            return false;
        }
        self.node.propose(origin, data).is_ok()
    }

    /// Proposes what leads to these members; `None` when they are there.
    pub(crate) fn propose_members(
        &mut self,
        origin: Vec<u8>,
        voters: &[NodeId],
        learners: &[NodeId],
    ) -> Option<bool> {
        assert!(!self.stepping, "one-step: a proposal within a step");
        let now = self.members();
        if !now.is_settled() {
            return Some(false);
        }
        let moves = moves(now, voters, learners);
        if moves.is_empty() {
            return None;
        }
        Some(self.node.propose_conf_change(origin, convert::change_of(&moves)).is_ok())
    }

    /// Asks for the place of a read; the answer comes with a step, if it comes.
    pub(crate) fn ask_read(&mut self, (life, token): (u64, u64)) {
        assert!(!self.stepping, "one-step: a read within a step");
        let words = [life.to_be_bytes(), token.to_be_bytes()];
        self.node.read_index(words.concat());
    }

    /// Hands the leadership to a voter.
    pub(crate) fn transfer(&mut self, to: NodeId) {
        assert!(!self.stepping, "one-step: a transfer within a step");
        assert!(to != self.me, "one-role: {to} hands over to itself");
        self.node.transfer_leader(to.0);
    }

    /// The voter that has most of the log, this one aside, if this node leads.
    pub(crate) fn heir(&self, among: impl Fn(NodeId) -> bool) -> Option<NodeId> {
        if self.role() != Role::Leader {
            return None;
        }
        let voters = self.members().voters.iter().filter(|node| **node != self.me && among(**node));
        let matched = |node: &NodeId| {
            let progress = self.node.raft.prs().get(node.0)?;
            progress.recent_active.then_some((progress.matched, node.0))
        };
        let best = voters.filter_map(matched).max();
        best.map(|(_, node)| NodeId(node))
    }

    /// Peers that wait for a snapshot.
    pub(crate) fn waiting_for_snapshot(&self) -> Vec<NodeId> {
        let progress = self.node.raft.prs().iter();
        let waits = progress.filter(|(_, p)| p.state == ProgressState::Snapshot);
        let mut nodes: Vec<_> = waits.map(|(id, _)| NodeId(*id)).collect();
        nodes.sort();
        nodes
    }

    /// A peer will not have its snapshot: it is asked anew what it has.
    pub(crate) fn give_up_snapshot(&mut self, node: NodeId) {
        assert!(!self.stepping, "one-step: a report within a step");
        self.node.report_snapshot(node.0, SnapshotStatus::Failure);
    }

    /// What is to be done now, if anything is.
    pub(crate) fn step(&mut self) -> Option<Step> {
        assert!(!self.stepping, "one-step: a step within a step");
        if !self.node.has_ready() {
            return None;
        }
        self.stepping = true;
        let mut ready = self.node.ready();
        let entries = ready.take_entries();
        let hard =
            ready.hs().map(|hard| Hard { term: hard.term, vote: hard.vote, commit: hard.commit });
        let snapshot = (!ready.snapshot().is_empty())
            .then(|| convert::cut_out(ready.snapshot().get_metadata()));
        let mut change = Change {
            entries: entries.iter().map(convert::entry_out).collect(),
            hard,
            ..Change::default()
        };
        if self.planted == Some(Planted::ForgetsVote)
            && let Some(hard) = &mut change.hard
        {
            (hard.term, hard.vote) = (0, 0);
        }
        let reads = ready.take_read_states();
        let committed = ready.take_committed_entries();
        Some(Step {
            now: outgoing(ready.take_messages()),
            snapshot,
            change,
            after: outgoing(ready.take_persisted_messages()),
            committed: self.hand_out(committed),
            reads: reads.iter().filter_map(read_of).collect(),
            ready,
            entries,
        })
    }

    /// The step's change is durable.
    pub(crate) fn finish(&mut self, step: Step) -> Done {
        assert!(self.stepping, "one-step: the end of no step");
        if let Some(cut) = &step.snapshot {
            self.store.install(cut);
            self.history = VecDeque::from([(cut.index, cut.members.clone())]);
            self.coming.clear();
            assert!(self.applied <= cut.index, "applied-in-order: back to {}", cut.index);
            (self.handed, self.applied) = (cut.index, cut.index);
        }
        self.store.append(&step.entries);
        if let Some(hard) = step.ready.hs() {
            let (term, vote, commit) = (hard.term, hard.vote, hard.commit);
            self.store.set_hard(Hard { term, vote, commit });
        }
        let mut light = self.node.advance_append(step.ready);
        if let Some(commit) = light.commit_index() {
            let hard = self.store.hard();
            assert!(hard.commit <= commit, "term-grows: commit {} to {commit}", hard.commit);
            self.store.set_hard(Hard { commit, ..hard });
        }
        if let Some(cut) = &step.snapshot {
            self.node.advance_apply_to(cut.index);
        }
        self.stepping = false;
        let after = outgoing(light.take_messages());
        let committed = light.take_committed_entries();
        Done { after, committed: self.hand_out(committed) }
    }

    /// Entries that go to the machine.
    fn hand_out(&mut self, entries: Vec<eraftpb::Entry>) -> Vec<Entry> {
        for entry in &entries {
            let index = entry.index;
            assert!(self.handed + 1 == index, "applied-in-order: {index} after {}", self.handed);
            self.handed = index;
            if entry.get_entry_type() == EntryType::EntryConfChangeV2 {
                self.coming.push_back((index, convert::moves_of(&entry.data)));
            }
        }
        entries.iter().map(convert::entry_out).collect()
    }

    /// The machine is at this entry.
    pub(crate) fn applied_to(&mut self, index: u64) {
        assert!(!self.stepping, "one-step: an application within a step");
        if index <= self.applied {
            // Of before a snapshot.
            return;
        }
        assert!(index <= self.handed, "applied-in-order: {index} was not handed out");
        while let Some((at, moves)) = self.coming.pop_front_if(|(at, _)| *at <= index) {
            // One that cannot be is refused by every member alike.
            if let Ok(state) = self.node.apply_conf_change(&convert::change_of(&moves)) {
                self.history.push_back((at, convert::members_out(&state)));
            }
            debug_assert!(
                self.history.iter().is_sorted_by_key(|(at, _)| *at),
                "members-in-place: {at}"
            );
        }
        self.applied = index;
        let term = self.store.term_at(index);
        let Some(term) = term else { panic!("durable-first: {index} is applied and not logged") };
        let members = self.members().clone();
        self.store.set_applied(Cut { index, term, members });
        self.node.advance_apply_to(index);
    }

    /// Where the log should begin, if it has grown, or if `all` is to go that can: no further than
    /// `durable`, up to where the machine survives a crash.
    pub(crate) fn wants_cut(&self, options: &Options, durable: u64, all: bool) -> Option<Cut> {
        let begin = self.store.begin().index;
        let applied = self.applied.min(durable);
        let count = self.applied.saturating_sub(begin);
        if !all && count <= options.cut_entries && self.store.bytes() <= options.cut_bytes {
            return None;
        }
        let by_bytes = self.store.tail_within(options.cut_bytes / 2).saturating_sub(1);
        let by_count = self.store.last().saturating_sub(options.trailing_entries);
        let index = if all { applied } else { by_bytes.max(by_count).min(applied) };
        if index <= begin {
            return None;
        }
        let term = self.store.term_at(index)?;
        let members = self.history.iter().take_while(|(at, _)| *at <= index).last();
        let (_, members) = members?;
        assert!(index <= applied, "machine-ahead: a cut at {index} of {applied}");
        Some(Cut { index, term, members: members.clone() })
    }

    /// The cut is durable.
    pub(crate) fn cut(&mut self, cut: &Cut) {
        assert!(cut.index <= self.applied, "applied-in-order: cut before {}", cut.index);
        self.store.cut(cut);
        let passed = self.history.iter().take_while(|(at, _)| *at <= cut.index).count();
        self.history.drain(..passed.saturating_sub(1));
        assert!(!self.history.is_empty(), "members-in-place: no members at {}", cut.index);
    }

    /// What a snapshot of the machine is of, when it is at its last applied entry.
    pub(crate) fn snapshot_of(&self) -> Cut {
        let applied = self.store.applied();
        debug_assert!(applied.index == self.applied, "members-in-place: at {}", self.applied);
        if self.planted == Some(Planted::MislabelsSnapshot) {
            let index = self.node.raft.raft_log.committed;
            let term = self.store.term_at(index).unwrap_or(applied.term);
            return Cut { index, term, ..applied };
        }
        applied
    }

    pub(crate) fn members(&self) -> &Members {
        let last = self.history.back();
        let Some((_, members)) = last else { panic!("members-in-place: no members") };
        members
    }

    pub(crate) fn role(&self) -> Role {
        match self.node.raft.state {
            StateRole::Leader => Role::Leader,
            StateRole::Follower => Role::Follower,
            StateRole::Candidate | StateRole::PreCandidate => Role::Candidate,
        }
    }

    pub(crate) fn leader(&self) -> Option<NodeId> {
        Some(NodeId(self.node.raft.leader_id)).filter(|leader| leader.0 != 0)
    }

    pub(crate) fn term(&self) -> u64 {
        self.node.raft.term
    }

    pub(crate) fn committed(&self) -> u64 {
        self.node.raft.raft_log.committed
    }

    pub(crate) fn applied(&self) -> u64 {
        self.applied
    }

    /// The term of the last entry.
    pub(crate) fn last_term(&self) -> u64 {
        let term = self.store.term_at(self.store.last());
        debug_assert!(term.is_some(), "durable-first: the last entry is not there");
        term.unwrap_or(0)
    }

    /// The first and the last entry of the log, and its bytes.
    pub(crate) fn log(&self) -> (u64, u64, usize) {
        debug_assert!(self.applied <= self.store.last(), "durable-first: {}", self.applied);
        (self.store.begin().index + 1, self.store.last(), self.store.bytes())
    }
}

/// What goes to peers. A proposal that its proposer sent here, and that would go back to it because
/// it leads by now, is left out: it knows better.
fn outgoing(messages: Vec<eraftpb::Message>) -> Vec<(NodeId, Message)> {
    let travels = |message: &eraftpb::Message| message.to != message.from;
    let addressed = |message: eraftpb::Message| {
        let (to, _) = ends(&message);
        debug_assert!(to.0 != 0, "one-role: a message to nobody");
        (to, Message::Raft(Box::new(message)))
    };
    messages.into_iter().filter(travels).map(addressed).collect()
}

fn read_of(state: &raft::ReadState) -> Option<((u64, u64), u64)> {
    let (life, token) = state.request_ctx.split_at_checked(8)?;
    let life = u64::from_be_bytes(life.try_into().ok()?);
    let token = u64::from_be_bytes(token.try_into().ok()?);
    Some(((life, token), state.index))
}
