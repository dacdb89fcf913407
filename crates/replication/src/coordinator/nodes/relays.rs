//! Writes that go to the replicas of another data centre by way of one of them, so that each goes
//! over the link between the two once. The relay acknowledges for itself; what it tells the others
//! they acknowledge to who coordinates the write, each by itself.
//!
//! Invariants
//!  - *ended-once*: each replica that a relay is to tell ends once for the write: by its word, by
//!    the relay's that it is not reached, with the time of the write, or with this node. So the
//!    counts of answers and the hints are those of a write without relays.
//!  - *no-others-word*: a word for a write that is not known, or from who was not told of it, is
//!    nothing. Writes are numbered from a drawn number on, so that a word for a write of an
//!    earlier life is for none of this one's.
//!  - *relay-or-direct*: a relay that breaks before it has answered may have told the others or
//!    not: those that have not answered are told directly. To be told twice does no harm.

use super::peers::{acknowledged, left, speechless};
use super::write::Pending;
use super::{Coordinator, Planted, host, target};
use crate::coordinator::own_coordinator;
use crate::placement::Replica;
use crate::plan::relay::{self, PLACES_MAX};
use crate::wire::relay::{Done, Place, Relay, Relayed};
use crate::wire::{Refusal, RefusalKind, verb};
use cluster::features;
use messaging::{CallError, Caller, Messaging, Payload, Sender, Target, ToShard};
use runtime::time::{Instant, sleep_until};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Writes whose time is over are looked for no sooner than so long after the last look.
const LOOK_PERIOD: Duration = Duration::from_millis(5);
/// How long a word may be on its way to who waits for it.
const WORD_TIME: Duration = Duration::from_secs(2);

/// Replicas that others are to tell, of the writes of this shard.
#[derive(Default)]
pub(super) struct Relays {
    waiting: RefCell<BTreeMap<u64, Waiting>>,
    /// The number of the last write; 0: there was none.
    last: Cell<u64>,
    is_looking: Cell<bool>,
}

/// Those of one write and one relay that have not ended.
struct Waiting {
    pending: Rc<Pending>,
    others: u64,
    until: Instant,
}

impl Relays {
    fn begin(&self, waiting: Waiting) -> u64 {
        assert!(waiting.others != 0, "ended-once: a relay that tells nobody");
        let last = match self.last.get() {
            0 => runtime::random_u64() | 1,
            last => last,
        };
        let number = last.wrapping_add(1).max(1);
        self.last.set(number);
        let before = self.waiting.borrow_mut().insert(number, waiting);
        assert!(before.is_none(), "no-others-word: a number of two writes");
        number
    }

    /// A replica of a write has ended: the write, and its place there, if it had not ended before.
    fn take(&self, number: u64, is_it: impl Fn(&Replica) -> bool) -> Option<(Rc<Pending>, usize)> {
        let mut all = self.waiting.borrow_mut();
        let waiting = all.get_mut(&number)?;
        assert!(waiting.others != 0, "ended-once: {number} waits for nobody");
        let replicas = &waiting.pending.replicas;
        let at = relay::places(waiting.others).find(|at| is_it(&replicas[*at]))?;
        waiting.others &= !(1 << at);
        let pending = waiting.pending.clone();
        if waiting.others == 0 {
            all.remove(&number);
        }
        Some((pending, at))
    }

    /// All that have not ended of those that are over at `now`: of all, without a time.
    fn take_over(&self, now: Option<Instant>) -> Vec<Waiting> {
        let is_over = |waiting: &Waiting| now.is_none_or(|now| waiting.until <= now);
        let mut all = self.waiting.borrow_mut();
        let numbers: Vec<u64> =
            all.iter().filter(|(_, it)| is_over(it)).map(|(number, _)| *number).collect();
        let over: Vec<Waiting> = numbers.iter().filter_map(|it| all.remove(it)).collect();
        debug_assert!(over.len() == numbers.len(), "ended-once: {} of {numbers:?}", over.len());
        over
    }

    fn next(&self) -> Option<Instant> {
        self.waiting.borrow().values().map(|waiting| waiting.until).min()
    }
}

impl Waiting {
    fn end(self, kind: RefusalKind, text: &str) {
        debug_assert!(self.others != 0, "ended-once: nobody was waited for");
        for at in relay::places(self.others) {
            self.pending.settle(at, Err(Refusal::new(kind, text)));
        }
    }
}

/// A relay that is told.
struct Relaying {
    pending: Rc<Pending>,
    write: u64,
    until: Instant,
}

impl Caller for Relaying {
    fn ended(&self, number: usize, outcome: Result<Vec<u8>, CallError>) {
        debug_assert!(!self.pending.replicas[number].is_here, "told-once: this node relays");
        let is_broken = !matches!(outcome, Ok(_) | Err(CallError::Failed(_)));
        if is_broken && Instant::now() < self.until {
            self.tell_directly();
        }
        let told = acknowledged(&self.pending.replicas[number], outcome);
        let is_trusted = told.is_ok();
        self.pending.settle(number, told);
        if let Ok(coordinator) = own_coordinator()
            && is_trusted
            && coordinator.is_planted(Planted::TrustsRelays)
        {
            let relays = &coordinator.nodes.relays;
            while let Some((pending, at)) = relays.take(self.write, |_| true) {
                pending.settle(at, Ok(()));
            }
        }
    }
}

impl Relaying {
    /// *relay-or-direct*
    fn tell_directly(&self) {
        let Ok(coordinator) = own_coordinator() else { return };
        let relays = &coordinator.nodes.relays;
        coordinator.traffic.relays.broken.add(1);
        while let Some((pending, at)) = relays.take(self.write, |_| true) {
            let Some(messaging) = Messaging::current() else {
                pending.settle(at, Err(speechless()));
                continue;
            };
            let (target, message) = (target(&pending.replicas[at]), pending.payload());
            messaging.call_for(pending, at, target, message, self.until);
        }
    }
}

impl Coordinator {
    /// Tells the replicas of other data centres of a write, where several of one are alive; those
    /// that were told, or are told by a relay, by their places. The others are still to be told.
    #[cold]
    pub(super) fn tell_by_relays(
        &self,
        messaging: &Rc<Messaging>,
        pending: &Rc<Pending>,
        until: Instant,
    ) -> u64 {
        if !self.places().enables(features::RELAYED_WRITES) {
            return 0;
        }
        let mut told = 0;
        let draw = |below| runtime::random_u64() % below;
        for relay::Relay { at, others } in relay::choose(&pending.candidates, draw) {
            assert!(told & (others | 1 << at) == 0, "ended-once: told by two relays");
            told |= others | 1 << at;
            let waiting = Waiting { pending: pending.clone(), others, until };
            let write = self.nodes.relays.begin(waiting);
            let place = |at: usize| {
                let replica = &pending.replicas[at];
                Place { host: replica.host_id, shard: replica.shard }
            };
            let (asks, head, body) = pending.told.parts(pending.limit);
            let others = relay::places(others).map(place).collect();
            let mut out = Relay { asks, write, others }.encode(head.len());
            out.extend_from_slice(&head);
            let message = (verb::RELAY, Payload::with_shared(out, body));
            let caller = Rc::new(Relaying { pending: pending.clone(), write, until });
            self.traffic.relays.told.add(1);
            messaging.call_for(caller, at, target(&pending.replicas[at]), message, until);
        }
        debug_assert!(told >> (PLACES_MAX - 1) <= 1, "ended-once: {told:b}");
        if told != 0 && !self.nodes.relays.is_looking.replace(true) {
            self.background.spawn(end_in_time());
        }
        told
    }

    /// A replica has said what became of a write that it was told by a relay, or the relay that it
    /// is not reached.
    pub(crate) fn hear_of_relayed(&self, from: &Sender, done: Done) {
        let Done { write, host: of, outcome } = done;
        let relays = &self.nodes.relays;
        // A relay speaks for others only to say that they are not told.
        let is_own_word = from.host == host(of);
        let is_no = outcome.as_ref().is_err_and(|no| no.kind == RefusalKind::Unreached);
        if !is_own_word && !is_no {
            return;
        }
        match relays.take(write, |replica| replica.host_id == of) {
            Some((pending, at)) => {
                debug_assert!(pending.replicas[at].host_id == of, "no-others-word: of {of}");
                pending.settle(at, outcome);
            }
            None => stdx::probe!("a word for a write that has ended"),
        }
    }

    /// The node stops: nobody waits for relayed writes any more, and hints are kept for them.
    pub(in crate::coordinator) fn end_relayed(&self) {
        for waiting in self.nodes.relays.take_over(None) {
            waiting.end(RefusalKind::TimedOut, "the node stops");
        }
        let left = self.nodes.relays.waiting.borrow().len();
        debug_assert!(left == 0, "ended-once: {left} writes are left");
    }

    /// Passes a write on to other nodes, for another one.
    pub(crate) fn pass_on(&self, origin: Place, relay: Relay, asked: &[u8], until: Instant) {
        let Relay { asks, write, others } = relay;
        debug_assert!(!others.is_empty(), "ended-once: a relay that tells nobody");
        let asked = Rc::new(asked.to_vec());
        for other in others {
            let head = Relayed { asks, write, origin }.encode();
            let payload = Payload::with_shared(head, asked.clone());
            self.traffic.relays.forwarded.add(1);
            self.background.run(pass(origin, write, other, payload, until));
        }
    }
}

/// Passes a write on to one node.
async fn pass(origin: Place, write: u64, other: Place, payload: Payload, until: Instant) {
    let Some(messaging) = Messaging::current() else { return };
    let target = Target::statements(host(other.host), ToShard::At(other.shard));
    let sent = messaging.send(target, verb::RELAYED, payload, left(until)).await;
    let Err(error) = sent else { return };
    if let Ok(coordinator) = own_coordinator() {
        coordinator.traffic.relays.errors.add(1);
    }
    if error.is_nothing_done() {
        let text = format!("node {}: {error}", other.host);
        let outcome = Err(Refusal::new(RefusalKind::Unreached, text));
        tell_origin(origin, Done { write, host: other.host, outcome }).await;
    }
}

/// Tells who coordinates a write what became of it here, or elsewhere.
pub(crate) async fn tell_origin(origin: Place, done: Done) {
    let Some(messaging) = Messaging::current() else { return };
    let target = Target::statements(host(origin.host), ToShard::At(origin.shard));
    debug_assert!(!done.host.is_nil(), "no-others-word: of nobody");
    let payload = Payload::from(done.encode());
    if let Err(error) = messaging.send(target, verb::RELAYED_DONE, payload, WORD_TIME).await {
        // It will take its silence for lateness.
        tracing::debug!(target: "replication", node = %origin.host, %error, "no word of a write");
    }
}

/// Ends what has no answer in time, for as long as there is something.
async fn end_in_time() {
    loop {
        let Ok(coordinator) = own_coordinator() else { return };
        let relays = &coordinator.nodes.relays;
        let Some(next) = relays.next() else {
            relays.is_looking.set(false);
            return;
        };
        drop(coordinator);
        sleep_until(next.max(Instant::now() + LOOK_PERIOD)).await;
        let Ok(coordinator) = own_coordinator() else { return };
        for waiting in coordinator.nodes.relays.take_over(Some(Instant::now())) {
            waiting.end(RefusalKind::TimedOut, "no answer in time");
        }
    }
}
