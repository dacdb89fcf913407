//! A node's part of a group: the handle that others use, and the tasks behind it.
//!
//! Lives on: one shard. `run` (the loop that owns the library), `apply` (the machine), `give` and
//! `pull` (snapshots) are tasks of the handle's scope; they share what is in `shared`.
//!
//! Invariants
//!  - *own-outcome*: a proposal is told an index only where its own entry was applied on this node.
//!  - *said-uncertain*: a proposal of which anything was sent or logged is never said not to be.

mod apply;
mod give;
mod pull;
mod run;
mod shared;
mod snapshots;

use crate::engine::{Engine, Role};
use crate::entry::Cut;
use crate::members::{Members, NodeId};
use crate::message::Message;
use crate::options::{Options, Planted};
use crate::traits::{Change, Failed, Hard, Log, Machine, Transport};
use runtime::sync::oneshot;
use runtime::task::Scope;
use runtime::time::{Instant, sleep, timeout};
pub use shared::{Counters, Status};
use shared::{Input, Pending, Shared, What};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;
use stdx::Damaged;

/// What a node brings.
pub struct Parts {
    pub me: NodeId,
    pub options: Options,
    pub log: Rc<dyn Log>,
    pub machine: Rc<dyn Machine>,
    pub transport: Rc<dyn Transport>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parts({})", self.me)
    }
}

/// What a node without a log does; one with a log goes on where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// It is the first and only member of a new group.
    New,
    /// It waits until a leader, which was asked to add it, sends it the log.
    Join,
}

/// Why a proposal, a read or a change of members has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// The command is longer than commands may be. Nothing was proposed.
    TooLarge { bytes: usize, max: usize },
    /// Too much waits already, or there was no leader in all the time. Nothing was proposed.
    Refused,
    /// The time is over. It may have happened, or happen yet.
    Uncertain,
    /// This node's part of the group has stopped. It may have happened.
    Stopped,
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unanswered::TooLarge { bytes, max } => {
                write!(f, "a command of {bytes} bytes, where {max} are the most")
            }
            Unanswered::Refused => f.write_str("no leader, or too much that waits: not done"),
            Unanswered::Uncertain => f.write_str("no answer in time: it may be done, or be yet"),
            Unanswered::Stopped => f.write_str("the group has stopped on this node"),
        }
    }
}
impl std::error::Error for Unanswered {}

/// A node's part of a group. Clones are the same part.
#[derive(Clone)]
pub struct Group {
    shared: Rc<Shared>,
    scope: Rc<Scope>,
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group({:?})", self.status())
    }
}

impl Group {
    /// Starts, from what the log has.
    pub async fn start(parts: Parts, start: Start) -> Result<Group, Failed> {
        assert!(parts.me.0 != 0, "one-role: 0 is no node");
        let mut loaded = parts.log.load().await?;
        let durable = parts.machine.durable();
        if let Some(staged) = loaded.staged.take() {
            // The machine took the snapshot over and the log was not told any more.
            if staged.index <= durable {
                loaded = begin(&parts, staged, loaded.hard).await?;
            } else {
                // *whole-snapshots*: the machine must not come there by itself and be taken for it.
                parts.log.write(&Change::default()).await?;
            }
        }
        if loaded.cut.is_none() && start == Start::New {
            // A joiner has no entry of index 1, so that it gets a snapshot, and with it members.
            let cut = Cut { index: 1, term: 1, members: Members::alone(parts.me) };
            loaded = begin(&parts, cut, Hard { term: 1, vote: 0, commit: 1 }).await?;
        }
        let begins = loaded.cut.as_ref().map_or(0, |cut| cut.index);
        let last = begins + loaded.entries.len() as u64;
        if durable < begins && (durable, begins) != (0, 1) {
            let what = format!("the log begins after {begins}, and the state is of {durable}");
            return Err(Failed(what));
        }
        if last < loaded.hard.commit {
            let commit = loaded.hard.commit;
            return Err(Failed(format!("the log ends at {last}, and {commit} was committed")));
        }
        if last < durable {
            return Err(Failed(format!("the log ends at {last}, and the state is of {durable}")));
        }
        // What was applied was committed.
        loaded.hard.commit = loaded.hard.commit.max(durable);
        let engine = Engine::new(parts.me, &parts.options, loaded).map_err(Failed)?;
        let skip = match parts.options.planted {
            Some(Planted::AppliesTwice) => durable.saturating_sub(1),
            _ => durable,
        };
        let scope = Rc::new(Scope::new());
        let shared = Rc::new(Shared::new(parts, engine, skip, Rc::downgrade(&scope)));
        for task in [Loop::Steps, Loop::Applier] {
            scope.spawn(task.run(shared.clone()));
        }
        Ok(Group { shared, scope })
    }

    /// Proposes a command, by the leader wherever it is; the index at which it was applied, on this
    /// node. It may be in the log more than once: see [`crate::once`].
    pub async fn propose(&self, command: Vec<u8>, within: Duration) -> Result<u64, Unanswered> {
        let max = self.shared.options.command_bytes_max;
        if max < command.len() {
            return Err(Unanswered::TooLarge { bytes: command.len(), max });
        }
        self.propose_what(What::Command(command), within).await
    }

    async fn propose_what(&self, what: What, within: Duration) -> Result<u64, Unanswered> {
        let shared = &self.shared;
        if shared.is_stopped() {
            return Err(Unanswered::Stopped);
        }
        if shared.options.proposals_max <= shared.proposals.borrow().len() {
            return Err(Unanswered::Refused);
        }
        let (done, outcome) = oneshot();
        let token = shared.token();
        let pending = Pending { what, sent: None, done };
        let before = shared.proposals.borrow_mut().insert(token, pending);
        assert!(before.is_none(), "own-outcome: two proposals of token {token}");
        shared.wake.notify_one();
        let waiting = Waiting { shared, token };
        match timeout(within, outcome).await {
            Ok(Ok(index)) => Ok(index),
            Ok(Err(_)) => Err(Unanswered::Stopped),
            Err(_) => {
                let was_sent = waiting.was_sent();
                if was_sent {
                    shared.counters.add(|c| &c.uncertain);
                    return Err(Unanswered::Uncertain);
                }
                shared.counters.add(|c| &c.refused);
                Err(Unanswered::Refused)
            }
        }
    }

    /// Waits until this node has applied all that was committed anywhere before the call; up to
    /// which entry that is at least.
    pub async fn read_barrier(&self, within: Duration) -> Result<u64, Unanswered> {
        let shared = &self.shared;
        if shared.is_stopped() {
            return Err(Unanswered::Stopped);
        }
        if shared.options.planted == Some(Planted::ReadsWithoutQuorum) {
            return Ok(shared.applied.get());
        }
        let (done, outcome) = oneshot();
        shared.reads.borrow_mut().waiting.push(done);
        shared.wake.notify_one();
        match timeout(within, outcome).await {
            Ok(Ok(index)) => {
                let applied = shared.applied.get();
                assert!(index <= applied, "read-your-past: {applied} applied of {index}");
                Ok(index)
            }
            Ok(Err(_)) => Err(Unanswered::Stopped),
            Err(_) => Err(Unanswered::Uncertain),
        }
    }

    /// Makes these nodes the members, and waits until they are. Nodes that are new get the log.
    pub async fn set_members(
        &self,
        mut voters: Vec<NodeId>,
        mut learners: Vec<NodeId>,
        within: Duration,
    ) -> Result<(), Unanswered> {
        voters.sort();
        learners.sort();
        let apart = !learners.iter().any(|node| voters.contains(node));
        assert!(!voters.is_empty() && apart, "one-role: {voters:?} and {learners:?}");
        let until = Instant::now() + within;
        let left = || until - Instant::now();
        let mut sent = false;
        while !left().is_zero() {
            if self.read_barrier(left()).await == Err(Unanswered::Stopped) {
                return Err(Unanswered::Stopped);
            }
            let status = self.status();
            let now = &status.members;
            if now.is_settled() && now.voters == voters && now.learners == learners {
                return Ok(());
            }
            if status.role == Role::Leader && !voters.contains(&self.shared.me) {
                // Who leads does not leave: it hands over first.
                let stays = |node| voters.contains(&node);
                self.hand_over(stays, left()).await;
                continue;
            }
            let what = What::Members(voters.clone(), learners.clone());
            let retry = self.shared.options.retry.min(left());
            match self.propose_what(what, retry).await {
                Err(Unanswered::Stopped) => return Err(Unanswered::Stopped),
                Err(Unanswered::Refused) => {}
                _ => sent = true,
            }
            sleep(self.shared.options.tick.min(left())).await;
        }
        Err(if sent { Unanswered::Uncertain } else { Unanswered::Refused })
    }

    /// Adds a node that is sent everything and does not vote.
    pub async fn add(&self, node: NodeId, within: Duration) -> Result<(), Unanswered> {
        let Members { voters, mut learners, .. } = self.members_now(within).await?;
        if !voters.contains(&node) && !learners.contains(&node) {
            learners.push(node);
        }
        self.set_members(voters, learners, within).await
    }

    /// Removes a node.
    pub async fn remove(&self, node: NodeId, within: Duration) -> Result<(), Unanswered> {
        let Members { mut voters, mut learners, .. } = self.members_now(within).await?;
        voters.retain(|voter| *voter != node);
        learners.retain(|learner| *learner != node);
        self.set_members(voters, learners, within).await
    }

    async fn members_now(&self, within: Duration) -> Result<Members, Unanswered> {
        self.read_barrier(within).await?;
        Ok(self.status().members)
    }

    /// Hands the leadership to the voter that has most of the log, if this node leads; whether it
    /// does not lead afterwards.
    pub async fn step_down(&self, within: Duration) -> bool {
        self.hand_over(|_| true, within).await
    }

    async fn hand_over(&self, among: impl Fn(NodeId) -> bool, within: Duration) -> bool {
        let until = Instant::now() + within;
        loop {
            if self.status().role != Role::Leader {
                return true;
            }
            let me = self.shared.me;
            let is_other = |node: &&NodeId| **node != me && among(**node);
            if !self.status().members.voters.iter().any(|node| is_other(&node)) {
                return false;
            }
            let heir = self.shared.engine.borrow().heir(&among);
            if let Some(heir) = heir {
                debug_assert!(among(heir), "one-role: {heir} is to leave, too");
                self.shared.input(Input::Transfer(heir));
            }
            let left = until - Instant::now();
            if left.is_zero() {
                return false;
            }
            sleep(self.shared.options.tick.min(left)).await;
        }
    }

    /// Cuts all of the log that this node has applied, and waits until that is durable; up to which
    /// entry. Who lags behind gets a snapshot.
    pub async fn cut(&self, within: Duration) -> Result<u64, Unanswered> {
        let (shared, until) = (&self.shared, Instant::now() + within);
        let wanted = shared.applied.get();
        loop {
            if shared.is_stopped() {
                return Err(Unanswered::Stopped);
            }
            let first = self.status().log_first;
            if wanted < first {
                return Ok(first - 1);
            }
            let left = until - Instant::now();
            if left.is_zero() {
                return Err(Unanswered::Uncertain);
            }
            shared.cut_all.set(true);
            shared.wake.notify_one();
            sleep(shared.options.tick.min(left)).await;
        }
    }

    /// A message that a peer's [`Transport`] sent. Does not wait: what there is no room for is
    /// dropped, as a network would.
    pub fn receive(&self, from: NodeId, bytes: &[u8]) -> Result<(), Damaged> {
        let message = Message::decode(bytes);
        let Ok(message) = message else {
            self.shared.counters.add(|c| &c.damaged);
            return message.map(drop);
        };
        self.shared.counters.add(|c| &c.received);
        match message {
            Message::Pull { id, number } => give::asked(&self.shared, from, id, number),
            Message::Piece(piece) => pull::came(&self.shared, from, Some(piece)),
            Message::Gone { id } => pull::gone(&self.shared, from, id),
            Message::Raft(message) => self.shared.peer_input(from, message),
        }
        Ok(())
    }

    /// What this node knows now.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Waits until the leader, the members or whether this node runs are other than `seen` says.
    pub async fn changed(&self, seen: &Status) -> Status {
        loop {
            let now = self.status();
            if !now.is_like(seen) {
                return now;
            }
            self.shared.changed.notified().await;
        }
    }

    /// What has happened so far.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Ends this part for good, for the reason that whoever waits is told, when what it is doing is
    /// done: log and machine are then as they are durably, and nobody touches them any more.
    pub async fn halt(&self, why: Failed) {
        self.shared.stopped(why);
        // The loop and the applier end by themselves, so that nothing is cut off in its midst: as
        // soon as the write that they wait for has ended.
        while 0 < self.shared.loops.get() {
            self.shared.loop_ended.notified().await;
        }
        self.scope.cancel().await;
        debug_assert!(self.shared.is_stopped(), "own-outcome: a part that has ended goes on");
    }

    /// Stops: hands the leadership over, if there is who takes it within `within`, and ends every
    /// task.
    pub async fn stop(&self, within: Duration) {
        self.step_down(within).await;
        self.scope.cancel().await;
        self.shared.stopped(Failed("stopped".into()));
    }
}

/// The log begins anew at a cut.
async fn begin(parts: &Parts, cut: Cut, hard: Hard) -> Result<crate::traits::Loaded, Failed> {
    assert!(0 < cut.index, "counted-from-one: a log begins at nothing");
    let (term, commit) = (hard.term.max(cut.term), hard.commit.max(cut.index));
    let hard = Hard { term, commit, ..hard };
    let change = Change { install: Some(cut), hard: Some(hard), ..Change::default() };
    parts.log.write(&change).await?;
    parts.log.load().await
}

/// The tasks that touch log and machine.
#[derive(Clone, Copy, Debug)]
enum Loop {
    Steps,
    Applier,
}

impl Loop {
    async fn run(self, shared: Rc<Shared>) {
        let _running = Running::begin(shared.clone());
        match self {
            Loop::Steps => run::run(shared).await,
            Loop::Applier => apply::run(shared).await,
        }
    }
}

/// Counts a task that touches log and machine, until it ends or is cancelled.
struct Running(Rc<Shared>);

impl Running {
    fn begin(shared: Rc<Shared>) -> Running {
        shared.loops.set(shared.loops.get() + 1);
        Running(shared)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let left = self.0.loops.get().checked_sub(1).expect("own-outcome: more end than began");
        self.0.loops.set(left);
        self.0.loop_ended.notify_all();
    }
}

/// A proposal whose caller waits. Who leaves is forgotten.
struct Waiting<'a> {
    shared: &'a Shared,
    token: u64,
}

impl Waiting<'_> {
    fn was_sent(&self) -> bool {
        let proposals = self.shared.proposals.borrow();
        proposals.get(&self.token).is_some_and(|pending| pending.sent.is_some())
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.proposals.borrow_mut().remove(&self.token);
    }
}
