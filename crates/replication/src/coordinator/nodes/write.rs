//! A write to all replicas of a token.
//!
//! Each replica that is alive is told at once: the others by messages of which the write itself is
//! told how they end, in time, and this node within the same poll. So the usual write is one task,
//! without a timer. The answer is there when enough have acknowledged; the others go on in the
//! background, unless so much does already: then the write waits for all of them.
//!
//! A replica that rejects a write for the rate of its partition gets no hint of it, unless enough
//! of the others have it: then it is to have it too.

use super::peers::{Told, acknowledged, rate_limited, speechless};
use super::together::{Kind, Part};
use super::{Coordinator, Planted, refuse_write, target};
use crate::coordinator::own_coordinator;
use crate::epochs::{Entered, Epochs};
use crate::error::WriteError;
use crate::hints::{Hints, Missed};
use crate::options::{Consistency, WriteKind, WriteOptions};
use crate::placement::Replica;
use crate::plan::nodes::{Candidates, Tally, Unavailable, plan_write};
use crate::plan::relay::{PLACES_MAX, places};
use crate::rate::{Limit, Operation};
use crate::wire::{Refusal, RefusalKind, verb};
use cluster::{Replication, TableEntry};
use messaging::{CallError, Caller, Messaging, Payload, Verb};
use mutation::FrozenMutation;
use runtime::task::join_all;
use runtime::time::{Instant, timeout, wall_micros};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// Writes of one shard that go on after their answer, and their bytes.
const BACKGROUND_WRITES_MAX: usize = 4096;
const BACKGROUND_BYTES_MAX: usize = 16 << 20;

/// What of this shard's writes goes on after the answer.
#[derive(Debug, Default)]
pub struct Background {
    writes: Rc<Cell<(usize, usize)>>,
    /// Replicas that did not acknowledge a write, since the start.
    missed: Cell<u64>,
    /// Reads whose replicas differed, since the start.
    pub(super) differing: Cell<u64>,
    /// Reads of which some replica lacked something.
    pub(super) lacking: Cell<u64>,
    /// Replicas that were sent what they lacked.
    pub(super) repairs: Cell<u64>,
}

impl Background {
    /// Writes that go on, and their bytes.
    pub fn under_way(&self) -> (usize, usize) {
        self.writes.get()
    }
    /// How many times a replica did not acknowledge a write.
    pub fn missed(&self) -> u64 {
        self.missed.get()
    }
    /// How many reads found replicas that differ.
    pub fn differing(&self) -> u64 {
        self.differing.get()
    }
    /// How many reads found a replica that lacked something.
    pub fn lacking(&self) -> u64 {
        self.lacking.get()
    }
    /// How many times a replica was sent what it lacked.
    pub fn repairs(&self) -> u64 {
        self.repairs.get()
    }

    fn enter(&self, bytes: usize, epochs: &Rc<Epochs>) -> Option<GoesOn> {
        let (writes, held) = self.writes.get();
        let fits = writes < BACKGROUND_WRITES_MAX && held + bytes <= BACKGROUND_BYTES_MAX;
        debug_assert!(writes <= BACKGROUND_WRITES_MAX, "bounded: {writes} writes");
        debug_assert!(held <= BACKGROUND_BYTES_MAX, "bounded: {held} bytes");
        fits.then(|| {
            self.writes.set((writes + 1, held + bytes));
            let _under_way = Epochs::enter(epochs.clone());
            GoesOn { writes: self.writes.clone(), bytes, _under_way }
        })
    }
}

/// A write that goes on after its answer: it is under way in the epoch in which it was answered.
struct GoesOn {
    writes: Rc<Cell<(usize, usize)>>,
    bytes: usize,
    _under_way: Entered<Rc<Epochs>>,
}

impl Drop for GoesOn {
    fn drop(&mut self) {
        let (writes, held) = self.writes.get();
        let counted = 0 < writes && self.bytes <= held;
        assert!(counted, "bounded: {} bytes of {held}, {writes} writes", self.bytes);
        self.writes.set((writes - 1, held - self.bytes));
    }
}

/// Mutations that go to the same replicas.
pub(crate) struct Spread {
    pub(super) replicas: Rc<[Replica]>,
    pub(super) copies: Rc<Replication>,
    pub(super) told: Told,
    /// This node has them already, and acknowledges.
    pub(super) is_here_done: bool,
}

impl Spread {
    /// What all replicas of a token are told.
    pub(super) fn of(table: &TableEntry, replicas: Rc<[Replica]>, told: Told) -> Spread {
        debug_assert!(!replicas.is_empty(), "acknowledged-at-level: nobody has the token");
        Spread { replicas, copies: table.replication.clone(), told, is_here_done: false }
    }
}

/// A write under way.
pub(super) struct Pending {
    pub(super) replicas: Rc<[Replica]>,
    pub(super) candidates: Candidates,
    tally: RefCell<Tally>,
    /// Who waits for replicas to end.
    waits: Cell<Option<Waker>>,
    outstanding: Cell<usize>,
    pub(super) told: Told,
    time: Duration,
    /// When it began, for hints.
    began: i64,
    has_missed: Cell<bool>,
    /// What replicas are told of limits of the tables, and those that rejected it, by their places.
    pub(super) limit: Option<Limit>,
    limited: Cell<u64>,
    /// Another node has it.
    is_elsewhere: Cell<bool>,
    first: RefCell<Option<Refusal>>,
    goes_on: RefCell<Option<GoesOn>>,
}

/// A write that is acknowledged, and goes on perhaps; of none: there are hints of it alone.
pub(crate) struct Watch(Option<Rc<Pending>>);

impl Watch {
    /// Whether it stays although this node dies: another one has it, or none is to have it. Waits
    /// for that as long as some may still come to have it.
    pub(crate) async fn is_elsewhere(&self) -> bool {
        let Some(pending) = &self.0 else { return false };
        let is_known = |it: &Pending| it.is_elsewhere.get() || it.outstanding.get() == 0;
        pending.until(is_known).await;
        pending.is_elsewhere.get()
    }

    /// Whether that is known to be so.
    pub(crate) fn is_sure(&self) -> bool {
        self.0.as_ref().is_some_and(|pending| pending.is_elsewhere.get())
    }
}

impl Pending {
    /// Waits until it is so, or all have ended, which they do in time.
    async fn until(&self, condition: impl Fn(&Pending) -> bool) {
        poll_fn(|cx| {
            if condition(self) || self.outstanding.get() == 0 {
                return Poll::Ready(());
            }
            self.waits.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    /// As a replica is told.
    pub(super) fn payload(&self) -> (Verb, Payload) {
        self.told.payload(self.limit)
    }

    fn is_decided(&self) -> bool {
        let tally = self.tally.borrow();
        tally.is_met() || tally.is_lost()
    }

    /// A replica has ended.
    pub(super) fn settle(&self, number: usize, told: Result<(), Refusal>) {
        let (replica, candidate) = (&self.replicas[number], &self.candidates[number]);
        match told {
            Ok(()) => {
                self.is_elsewhere.set(self.is_elsewhere.get() || !replica.is_here);
                self.tally.borrow_mut().acknowledge(candidate);
            }
            // It may still come to have it; whoever waits for enough waits to the end.
            Err(refusal) if refusal.kind == RefusalKind::TimedOut => {
                note_missed(self, replica);
            }
            Err(refusal) => {
                self.tally.borrow_mut().fail(candidate);
                match refusal.kind {
                    // Whether it is to have the write all the same others decide.
                    RefusalKind::RateLimited if number < PLACES_MAX && self.limit.is_some() => {
                        self.has_missed.set(true);
                        self.limited.set(self.limited.get() | 1 << number);
                    }
                    _ => note_missed(self, replica),
                }
                self.first.borrow_mut().get_or_insert(refusal);
            }
        }
        let outstanding = self.outstanding.get();
        assert!(0 < outstanding, "acknowledged-at-level: more replicas than were told");
        self.outstanding.set(outstanding - 1);
        if outstanding == 1 {
            self.goes_on.take();
            all_have_ended(self);
        }
        let is_lost = self.tally.borrow().is_lost();
        debug_assert!(!is_lost || self.has_missed.get(), "said-uncertain: lost, and all have it");
        if let Some(waker) = self.waits.take() {
            waker.wake();
        }
    }
}

impl Caller for Pending {
    fn ended(&self, number: usize, outcome: Result<Vec<u8>, CallError>) {
        let told = acknowledged(&self.replicas[number], outcome);
        self.settle(number, told);
    }
}

/// All replicas have ended. What a round has chosen is remembered until all have learned it.
fn all_have_ended(pending: &Pending) {
    debug_assert!(pending.outstanding.get() == 0, "said-uncertain: some have not ended");
    debug_assert!(pending.goes_on.borrow().is_none(), "bounded: ended, and goes on");
    let limited = pending.limited.get();
    if limited != 0 && pending.tally.borrow().is_met() {
        stdx::probe!("a write is acknowledged that one replica has rejected for its rate");
        debug_assert!(pending.limit.is_some(), "acknowledged-at-level: nobody was to reject it");
        for number in places(limited) {
            note_missed(pending, &pending.replicas[number]);
        }
    }
    if let Told::Learned { place, ballot, .. } = &pending.told
        && !pending.has_missed.get()
        && let Ok(coordinator) = own_coordinator()
    {
        coordinator.all_have_learned(place, *ballot);
    }
}

/// A replica has not acknowledged: it lacks the write until a hint, a read or a repair brings it.
fn note_missed(pending: &Pending, replica: &Replica) {
    pending.has_missed.set(true);
    if let Ok(coordinator) = own_coordinator() {
        let background = coordinator.background();
        background.missed.set(background.missed.get() + 1);
    }
    if let Some(hints) = Hints::of_shard().filter(|_| !replica.is_here) {
        hints.keep(&missed(replica, pending.began, &pending.told, &|| pending.told.request()));
    }
}

fn missed<'a>(
    replica: &Replica,
    written_at: i64,
    told: &Told,
    request: &'a dyn Fn() -> Vec<u8>,
) -> Missed<'a> {
    let bytes = told.request_bytes();
    Missed { host: replica.host_id, written_at, bytes, request }
}

impl Coordinator {
    /// As [`Coordinator::write`], of a table that is on several nodes.
    pub(in crate::coordinator) async fn write_spread(
        &self,
        table: &TableEntry,
        replicas: Rc<[Replica]>,
        mutation: FrozenMutation,
        options: &WriteOptions,
    ) -> Result<(), WriteError> {
        refuse_write(options.consistency)?;
        let spread = Spread::of(table, replicas, Told::one(mutation));
        let begun = self.begin_write(options, 1);
        let written = self.spread(spread, options).await;
        self.end_spread(table, options, begun, written)
    }

    /// Tells all replicas, and waits for as many as the level requires.
    pub(super) async fn spread(
        &self,
        spread: Spread,
        options: &WriteOptions,
    ) -> Result<(), WriteError> {
        self.spread_watched(spread, options).await.map(drop)
    }

    /// The same; what comes of it after the answer can be watched.
    pub(super) async fn spread_watched(
        &self,
        spread: Spread,
        options: &WriteOptions,
    ) -> Result<Watch, WriteError> {
        let Spread { replicas, copies, told, is_here_done } = spread;
        let is_here = replicas.iter().any(|replica| replica.is_here);
        assert!(is_here || !is_here_done, "led-once: done by who is no replica");
        let level = options.consistency;
        let factors = || self.factors(&copies, &replicas, level);
        let required = match self.is_planted(Planted::AcknowledgesEarly) {
            true => Consistency::One,
            false => level,
        };
        let make = |candidates: &Candidates| plan_write(required, &factors(), candidates);
        let (candidates, tally) = self.nodes.writes.get(self, (&replicas, &copies), level, make);
        let began = wall_micros();
        let (tally, missing) = match tally {
            Ok(tally) => (tally, None),
            Err(Unavailable { alive: 0, .. }) if level == Consistency::Any => {
                let hinted = self.hint_all(&replicas, began, &told, options).await;
                return hinted.map(|()| Watch(None));
            }
            Err(missing) if is_here_done => {
                // *refused-before*: it is too late to refuse it.
                let here = plan_write(Consistency::One, &factors(), &candidates);
                (here.map_err(|missing| unavailable(options, missing))?, Some(missing))
            }
            Err(missing) => return Err(unavailable(options, missing)),
        };
        let pending = Rc::new(Pending {
            tally: RefCell::new(tally),
            waits: Cell::new(None),
            outstanding: Cell::new(candidates.iter().filter(|one| one.is_alive).count()),
            is_elsewhere: Cell::new(replicas.iter().all(|replica| replica.is_here)),
            replicas,
            candidates,
            told,
            time: options.timeout,
            began,
            has_missed: Cell::new(false),
            limit: options.limit.map(|limit| if is_here { Limit::Counts } else { limit }),
            limited: Cell::new(0),
            first: RefCell::default(),
            goes_on: RefCell::default(),
        });
        self.tell_all(&pending, is_here_done);
        self.wait_for(&pending, options).await?;
        match missing {
            Some(Unavailable { required, alive }) => {
                let WriteOptions { consistency, kind, .. } = *options;
                Err(WriteError::Timeout { consistency, received: alive, required, kind })
            }
            None => Ok(Watch(Some(pending))),
        }
    }

    /// Tells all replicas that are alive: this node last, since that may take the longest here.
    fn tell_all(&self, pending: &Rc<Pending>, is_here_done: bool) {
        let messaging = Messaging::current();
        let deadline = Instant::now() + pending.time;
        let mut here = None;
        let is_far = pending.candidates.iter().any(|candidate| !candidate.is_local_dc);
        let relayed = match &messaging {
            Some(messaging) if is_far => self.tell_by_relays(messaging, pending, deadline),
            _ => 0,
        };
        for (number, replica) in pending.replicas.iter().enumerate() {
            match &messaging {
                _ if !pending.candidates[number].is_alive => note_missed(pending, replica),
                _ if number < PLACES_MAX && relayed & 1 << number != 0 => {}
                _ if replica.is_here => here = Some(number),
                None => pending.settle(number, Err(speechless())),
                Some(messaging) => {
                    let (verb, head, body) = pending.told.parts(pending.limit);
                    let (caller, target) = (pending.clone(), target(replica));
                    // It goes on after the answer: nobody cancels it.
                    if verb == verb::MUTATION {
                        let part = Part { caller, number, head, body };
                        let together = &self.nodes.together;
                        together.send(messaging, Kind::Writes, target, part, deadline);
                    } else {
                        let message = (verb, Payload::with_shared(head, body));
                        messaging.call_for(caller, number, target, message, deadline);
                    }
                }
            }
        }
        let Some(number) = here else { return };
        if is_here_done {
            return pending.settle(number, Ok(()));
        }
        let telling = Telling { pending: pending.clone(), number, is_settled: false };
        self.background.run(deliver(telling));
    }

    /// No replica is alive: at ANY it is enough that one of them has a hint that survives.
    async fn hint_all(
        &self,
        replicas: &[Replica],
        began: i64,
        told: &Told,
        options: &WriteOptions,
    ) -> Result<(), WriteError> {
        let none = unavailable(options, Unavailable { required: 1, alive: 0 });
        let Some(hints) = Hints::of_shard() else { return Err(none) };
        let request = || told.request();
        let one = async |replica: &Replica| {
            debug_assert!(!replica.is_here, "counted-for-any-alone: this node is alive");
            hints.keep_durably(&missed(replica, began, told, &request)).await
        };
        let all = join_all(replicas.iter().map(one));
        match timeout(options.timeout, all).await {
            Ok(kept) if kept.contains(&Ok(true)) => Ok(()),
            Ok(kept) if kept.iter().all(Result::is_err) => Err(none),
            // One may be there after all.
            _ => {
                let WriteOptions { consistency, kind, .. } = *options;
                Err(WriteError::Timeout { consistency, received: 0, required: 1, kind })
            }
        }
    }

    async fn wait_for(
        &self,
        pending: &Rc<Pending>,
        options: &WriteOptions,
    ) -> Result<(), WriteError> {
        pending.until(Pending::is_decided).await;
        let WriteOptions { consistency, kind, .. } = *options;
        let tally = pending.tally.borrow().clone();
        let (received, required) = (tally.received(), tally.required());
        if !tally.is_met() {
            let Some(refusal) = pending.first.borrow().clone().filter(|_| tally.is_lost()) else {
                debug_assert!(pending.has_missed.get(), "acknowledged-at-level: all have it");
                return Err(WriteError::Timeout { consistency, received, required, kind });
            };
            if refusal.kind == RefusalKind::RateLimited {
                let limited = rate_limited(Operation::Write, refusal);
                return Err(WriteError::RateLimited(limited));
            }
            let (failures, reason) = (tally.failures(), refusal.text);
            return Err(WriteError::Failure {
                consistency,
                received,
                required,
                failures,
                kind,
                reason,
            });
        }
        if 0 < pending.outstanding.get() {
            match self.nodes.background.enter(pending.told.size_bytes(), &self.epochs) {
                Some(goes_on) => drop(pending.goes_on.replace(Some(goes_on))),
                // Enough have it already.
                None => pending.until(|_| false).await,
            }
        }
        Ok(())
    }
}

/// This node, which is being told. If it is given up, since the node stops, it has missed the
/// write.
struct Telling {
    pending: Rc<Pending>,
    number: usize,
    is_settled: bool,
}

impl Drop for Telling {
    fn drop(&mut self) {
        if !self.is_settled {
            let is_here = self.pending.replicas[self.number].is_here;
            debug_assert!(is_here, "acknowledged-at-level: another node is given up");
            // Who waits for it has no timer.
            self.pending.settle(self.number, Err(stopping()));
        }
    }
}

/// Tells this node.
async fn deliver(mut telling: Telling) {
    let Telling { pending, number, .. } = &telling;
    let told = match own_coordinator() {
        Ok(coordinator) => coordinator.tell_here(&pending.told, pending.time).await,
        Err(_) => Err(stopping()),
    };
    pending.settle(*number, told);
    telling.is_settled = true;
}

fn stopping() -> Refusal {
    Refusal::new(RefusalKind::Failed, "the node stops")
}

pub(super) fn unavailable(options: &WriteOptions, missing: Unavailable) -> WriteError {
    let Unavailable { required, alive } = missing;
    assert!(alive < required.max(1), "said-uncertain: {alive} of {required} are unavailable");
    WriteError::Unavailable { consistency: options.consistency, required, alive }
}

/// The kinds of writes that are one to their client.
pub(super) fn with_kind(options: &WriteOptions, kind: WriteKind) -> WriteOptions {
    WriteOptions { kind, ..*options }
}
