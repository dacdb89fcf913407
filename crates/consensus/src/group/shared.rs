//! What the tasks of a group share, and what is waited for.
//!
//! Invariants
//!  - *bounded-inbox*: messages of peers wait in a bounded number; what is over it is dropped.
//!  - *one-writer*: the library is touched by the loop alone, within one turn.

use super::Parts;
use super::snapshots::{Giving, Pulling};
use crate::engine::{Engine, Role};
use crate::entry::{Cut, Entry};
use crate::members::{Members, NodeId};
use crate::message::Message;
use crate::options::Options;
use crate::traits::{Class, Failed, Log, Machine, Restore, Transport};
use raft::eraftpb;
use runtime::sync::{Notify, OneshotSender, Semaphore};
use runtime::task::Scope;
use runtime::time::Instant;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::{Rc, Weak};

/// What the loop is told.
pub(super) enum Input {
    Peer(NodeId, Box<eraftpb::Message>),
    /// The machine is at this entry.
    Applied(u64),
    /// A snapshot was pulled, which a leader of that term had offered.
    Pulled(NodeId, u64, Pulled),
    Transfer(NodeId),
}

/// A snapshot that is here, aside.
pub(super) struct Pulled {
    pub(super) cut: Cut,
    pub(super) restore: Box<dyn Restore>,
    /// Who gave it, and the number under which it was asked for.
    pub(super) from: NodeId,
    pub(super) id: u64,
}

impl fmt::Debug for Pulled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pulled({:?})", self.cut)
    }
}

/// What is proposed.
#[derive(Clone, Debug)]
pub(super) enum What {
    Command(Vec<u8>),
    Members(Vec<NodeId>, Vec<NodeId>),
}

/// A proposal without an outcome.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) what: What,
    /// To which leader of which term it went last, and when.
    pub(super) sent: Option<(u64, Option<NodeId>, Instant)>,
    pub(super) done: OneshotSender<u64>,
}

/// Reads without an outcome.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// Not asked for yet.
    pub(super) waiting: Vec<OneshotSender<u64>>,
    /// When it was asked last, and in which term of whom.
    pub(super) asked: Option<((u64, Option<NodeId>), Instant)>,
    /// Asked for, first by these tokens.
    pub(super) asking: Vec<(u64, OneshotSender<u64>)>,
    /// Confirmed by the majority, for when so much is applied.
    pub(super) confirmed: Vec<(u64, Vec<OneshotSender<u64>>)>,
}

/// What has happened on this node.
#[derive(Debug, Default)]
pub struct Counters {
    /// Messages of peers that were taken, that were dropped because too many waited, and that were
    /// no messages.
    pub received: Cell<u64>,
    pub dropped: Cell<u64>,
    pub damaged: Cell<u64>,
    pub sent: Cell<u64>,
    /// Elections called here, and won here.
    pub elections: Cell<u64>,
    pub elections_won: Cell<u64>,
    /// Proposals sent (again, too), those whose outcome was not told, and those not proposed.
    pub proposed: Cell<u64>,
    pub uncertain: Cell<u64>,
    pub refused: Cell<u64>,
    /// Commands given to the machine.
    pub applied: Cell<u64>,
    /// Durable changes of the log.
    pub writes: Cell<u64>,
    pub cuts: Cell<u64>,
    pub reads_asked: Cell<u64>,
    pub snapshots_given: Cell<u64>,
    pub snapshots_taken: Cell<u64>,
}

impl Counters {
    pub(super) fn add(&self, which: impl Fn(&Counters) -> &Cell<u64>) {
        let cell = which(self);
        cell.set(cell.get() + 1);
    }
}

/// What a node knows of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub me: NodeId,
    pub role: Role,
    pub leader: Option<NodeId>,
    pub term: u64,
    pub committed: u64,
    pub applied: u64,
    pub members: Members,
    /// The first and the last entry of the log, and its size in memory.
    pub log_first: u64,
    pub log_last: u64,
    /// The term of the last entry; 0 where there is none.
    pub log_last_term: u64,
    pub log_bytes: usize,
    /// Why this node's part has stopped.
    pub stopped: Option<Failed>,
}

impl Status {
    /// Whether leader, members and running are the same.
    pub(super) fn is_like(&self, other: &Status) -> bool {
        let of = |s: &Status| (s.role, s.leader, s.members.clone(), s.stopped.clone());
        of(self) == of(other)
    }
}

/// What the tasks share.
pub(super) struct Shared {
    pub(super) me: NodeId,
    pub(super) options: Options,
    pub(super) log: Rc<dyn Log>,
    pub(super) machine: Rc<dyn Machine>,
    transport: Rc<dyn Transport>,
    pub(super) engine: RefCell<Engine>,
    pub(super) inbox: RefCell<VecDeque<Input>>,
    /// Messages of peers among them.
    pub(super) peers_waiting: Cell<usize>,
    /// Of the loop.
    pub(super) wake: Notify,
    pub(super) proposals: RefCell<BTreeMap<u64, Pending>>,
    /// Tells this life of the node from others.
    pub(super) life: u64,
    next_token: Cell<u64>,
    pub(super) reads: RefCell<Reads>,
    /// Committed and not applied.
    pub(super) queue: RefCell<VecDeque<Entry>>,
    /// Of the applier.
    pub(super) queued: Notify,
    /// Who changes or opens the machine has it.
    pub(super) machine_lock: Semaphore,
    /// Up to where the machine is.
    pub(super) applied: Cell<u64>,
    pub(super) changed: Notify,
    /// The loop is to cut all of the log that it can.
    pub(super) cut_all: Cell<bool>,
    pub(super) giving: RefCell<Giving>,
    pub(super) pulling: RefCell<Pulling>,
    stopped: RefCell<Option<Failed>>,
    pub(super) scope: Weak<Scope>,
    /// How many tasks that touch log and machine have begun and not ended.
    pub(super) loops: Cell<u32>,
    /// One of them has ended.
    pub(super) loop_ended: Notify,
    pub(super) counters: Counters,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared({})", self.me)
    }
}

impl Shared {
    pub(super) fn new(parts: Parts, engine: Engine, applied: u64, scope: Weak<Scope>) -> Shared {
        Shared {
            me: parts.me,
            options: parts.options,
            log: parts.log,
            machine: parts.machine,
            transport: parts.transport,
            engine: RefCell::new(engine),
            inbox: RefCell::default(),
            peers_waiting: Cell::new(0),
            wake: Notify::new(),
            proposals: RefCell::default(),
            life: runtime::random_u64(),
            next_token: Cell::new(0),
            reads: RefCell::default(),
            queue: RefCell::default(),
            queued: Notify::new(),
            machine_lock: Semaphore::new(1, 64),
            applied: Cell::new(applied),
            changed: Notify::new(),
            cut_all: Cell::new(false),
            giving: RefCell::default(),
            pulling: RefCell::default(),
            stopped: RefCell::default(),
            scope,
            loops: Cell::new(0),
            loop_ended: Notify::new(),
            counters: Counters::default(),
        }
    }

    pub(super) fn token(&self) -> u64 {
        self.next_token.set(self.next_token.get() + 1);
        self.next_token.get()
    }

    /// What names a proposal of this life in its entry.
    pub(super) fn origin(&self, token: u64) -> Vec<u8> {
        debug_assert!(token <= self.next_token.get(), "own-outcome: {token} was not given");
        [self.me.0, self.life, token].iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    /// The token of a proposal of this life.
    pub(super) fn token_of(&self, origin: &[u8]) -> Option<u64> {
        let (head, token) = origin.split_at_checked(16)?;
        let ours = head[..8] == self.me.0.to_be_bytes() && head[8..] == self.life.to_be_bytes();
        let token = u64::from_be_bytes(token.try_into().ok()?);
        ours.then_some(token)
    }

    pub(super) fn input(&self, input: Input) {
        self.inbox.borrow_mut().push_back(input);
        self.wake.notify_one();
    }

    /// *bounded-inbox*.
    pub(super) fn peer_input(&self, from: NodeId, message: Box<eraftpb::Message>) {
        if self.options.inbox_max <= self.peers_waiting.get() || self.is_stopped() {
            return self.counters.add(|c| &c.dropped);
        }
        self.peers_waiting.set(self.peers_waiting.get() + 1);
        debug_assert!(self.peers_waiting.get() <= self.inbox.borrow().len() + 1, "bounded-inbox");
        self.input(Input::Peer(from, message));
    }

    /// Something happens to the library; then it has a timeout of ours, if it drew one.
    pub(super) fn drive<R>(&self, act: impl FnOnce(&mut Engine) -> R) -> R {
        let mut engine = self.engine.borrow_mut();
        let before = engine.role();
        let result = act(&mut engine);
        if let Some((low, high)) = engine.wants_timeout() {
            let ticks = runtime::with_prng(|prng| prng.between(low as u64, high as u64));
            engine.set_timeout((ticks as usize).clamp(low, high));
        }
        match (before, engine.role()) {
            (Role::Follower, Role::Candidate) => self.counters.add(|c| &c.elections),
            (Role::Candidate | Role::Follower, Role::Leader) => {
                self.counters.add(|c| &c.elections_won);
            }
            _ => {}
        }
        result
    }

    pub(super) fn send(&self, to: NodeId, class: Class, message: &Message) {
        debug_assert!(to != self.me, "one-role: a message to oneself");
        self.counters.add(|c| &c.sent);
        self.transport.send(to, class, message.encode());
    }

    pub(super) fn send_all(&self, messages: Vec<(NodeId, Message)>) {
        for (to, message) in &messages {
            if let Message::Raft(raft) = message
                && raft.get_msg_type() == eraftpb::MessageType::MsgSnapshot
            {
                self.giving.borrow_mut().offered(*to);
            }
            self.send(*to, Class::Control, message);
        }
    }

    /// Ends the reads that are confirmed for what is applied now.
    pub(super) fn end_reads(&self) {
        let applied = self.applied.get();
        let mut reads = self.reads.borrow_mut();
        let ready = reads.confirmed.extract_if(.., |(index, _)| *index <= applied);
        for (index, waiters) in ready {
            for waiter in waiters {
                let _ = waiter.send(index);
            }
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.borrow().is_some()
    }

    /// This part ends: whoever waits is told.
    pub(super) fn stopped(&self, why: Failed) {
        if self.is_stopped() {
            return;
        }
        *self.stopped.borrow_mut() = Some(why);
        let proposals = std::mem::take(&mut *self.proposals.borrow_mut());
        let reads = std::mem::take(&mut *self.reads.borrow_mut());
        drop((proposals, reads));
        self.wake.notify_one();
        self.queued.notify_one();
        self.changed.notify_all();
    }

    pub(super) fn status(&self) -> Status {
        let engine = self.engine.borrow();
        let (log_first, log_last, log_bytes) = engine.log();
        let (applied, committed) = (self.applied.get(), engine.committed());
        debug_assert!(applied <= committed, "applied-in-order: {applied} of {committed}");
        Status {
            me: self.me,
            role: engine.role(),
            leader: engine.leader(),
            term: engine.term(),
            committed,
            applied,
            members: engine.members().clone(),
            log_first,
            log_last,
            log_last_term: engine.last_term(),
            log_bytes,
            stopped: self.stopped.borrow().clone(),
        }
    }
}
