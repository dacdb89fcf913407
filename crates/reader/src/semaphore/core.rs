//! The state of a semaphore and every step that it can take. Wakes tasks, never waits.
//!
//! Invariants
//!  - *units-return*: what a slot holds is what was taken for it; a freed slot holds nothing.
//!  - *one-list*: a slot is in at most one of the lists: of those who wait to be admitted, of those
//!    who wait for memory, of the inactive ones. A state says in which.
//!  - *counts-agree*: what is counted of slots (admitted, ready, using the processor, waiting for
//!    something else) is what the slots say.
//!  - *no-lost-wake*: whatever may let the head of the queue go on ends in [`Core::pump`].

use super::admission::{Candidate, Limits, Load, Reason, Verdict, decide};
use super::diagnostics::{Counters, Line, Snapshot};
use super::disk::Disk;
use super::pool::Pool;
use crate::Source;
use model::TableSchema;
use runtime::time::Instant;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

/// A slot's number.
pub(super) type Id = u32;
/// No slot.
const NONE: Id = Id::MAX;
/// Reads that are admitted at most before the first of them goes on.
const READY_MAX: u32 = 32;

/// Where a permit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    WaitingForAdmission,
    WaitingForMemory,
    /// Admitted, and its task has not run yet.
    WaitingForExecution,
    Active,
    /// Its source waits with the semaphore.
    Inactive,
    /// Its source was dropped; it has to be admitted again.
    Evicted,
    /// Shed: it would have timed out.
    PreemptiveAborted,
    TimedOut,
}

/// What a read does, for the dump.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Of which table.
    pub schema: Rc<TableSchema>,
    /// What kind of read: `data-query`, `shard-reader`, ..
    pub operation: &'static str,
}

/// Why there is no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    QueueFull,
    TimedOut,
    Shed,
}

pub(super) struct Slot {
    pub(super) state: State,
    /// Tells permits that had this slot one after the other apart.
    generation: u32,
    reading: Option<Reading>,
    /// Whether it holds a unit of count and the base memory.
    base: i64,
    admitted: bool,
    /// Memory beside the base.
    memory: i64,
    /// What it waits for in [`State::WaitingForMemory`].
    asked: i64,
    needs_cpu: u32,
    awaits: u32,
    deadline: Option<Instant>,
    budget: Duration,
    waker: Option<Waker>,
    failed: bool,
    killed: bool,
    inactive: Option<Box<dyn Source>>,
    previous: Id,
    next: Id,
}

impl State {
    /// Whether a task waits for a slot in this state to go on, in a queue.
    fn waits_in_queue(self) -> bool {
        matches!(self, State::WaitingForAdmission | State::WaitingForMemory)
    }
}

impl Slot {
    /// Whether it holds nothing and nobody waits for it: as a new one.
    fn is_blank(&self) -> bool {
        (self.base, self.memory, self.needs_cpu, self.awaits) == (0, 0, 0, 0)
            && !(self.admitted || self.failed || self.killed)
            && (self.reading.is_none() && self.deadline.is_none())
            && (self.waker.is_none() && self.inactive.is_none())
    }
}

/// A list of slots, linked through them.
struct List {
    head: Id,
    tail: Id,
    count: usize,
}

impl List {
    const EMPTY: List = List { head: NONE, tail: NONE, count: 0 };

    fn push_back(&mut self, slots: &mut [Slot], id: Id) {
        debug_assert!(self.head != id && self.tail != id, "one-list: slot {id} is in the list");
        assert!((self.head == NONE) == (self.count == 0), "one-list: {} slots", self.count);
        slots[id as usize].previous = self.tail;
        slots[id as usize].next = NONE;
        match self.tail {
            NONE => self.head = id,
            tail => slots[tail as usize].next = id,
        }
        self.tail = id;
        self.count += 1;
    }

    fn remove(&mut self, slots: &mut [Slot], id: Id) {
        let (previous, next) = (slots[id as usize].previous, slots[id as usize].next);
        assert!(0 < self.count, "one-list: slot {id} of an empty list");
        assert!((previous == NONE) == (self.head == id), "one-list: slot {id} is of another list");
        assert!((next == NONE) == (self.tail == id), "one-list: slot {id} is of another list");
        match previous {
            NONE => self.head = next,
            previous => slots[previous as usize].next = next,
        }
        match next {
            NONE => self.tail = previous,
            next => slots[next as usize].previous = previous,
        }
        self.count -= 1;
    }

    fn first(&self) -> Option<Id> {
        (self.head != NONE).then_some(self.head)
    }
}

pub(super) struct Core {
    name: &'static str,
    pub(super) limits: Limits,
    count_used: i64,
    consumed: i64,
    pool: Option<Rc<Pool>>,
    /// Of what is consumed, bytes that are the pool's.
    borrowed: i64,
    /// Whether the pool has got something back that others may wait for.
    pub(super) gave_back: bool,
    disk: Disk,
    slots: Vec<Slot>,
    free: Vec<Id>,
    waiting: List,
    memory_waiting: List,
    inactive: List,
    ready: u32,
    /// How many reads may be admitted before they go on: each has its turn behind all that the
    /// shard does meanwhile, so one at a time would empty the queue no faster than turns pass,
    /// however little a read takes.
    ready_max: u32,
    need_cpu: u32,
    awaits: u32,
    privileged: Option<Id>,
    /// Of those who wait to be admitted, and of the inactive ones.
    deadlines: BTreeSet<(Instant, Id)>,
    pub(super) counters: Counters,
    /// Evicted sources, to be dropped where the core is not borrowed.
    pub(super) evicted: VecDeque<Box<dyn Source>>,
}

impl Core {
    pub(super) fn new(name: &'static str, limits: Limits, pool: Option<Rc<Pool>>) -> Core {
        Core {
            name,
            limits,
            count_used: 0,
            consumed: 0,
            pool,
            borrowed: 0,
            gave_back: false,
            disk: Disk::default(),
            slots: Vec::new(),
            free: Vec::new(),
            waiting: List::EMPTY,
            memory_waiting: List::EMPTY,
            inactive: List::EMPTY,
            ready: 0,
            ready_max: 1,
            need_cpu: 0,
            awaits: 0,
            privileged: None,
            deadlines: BTreeSet::new(),
            counters: Counters::default(),
            evicted: VecDeque::new(),
        }
    }

    pub(super) fn slot(&self, id: Id) -> &Slot {
        &self.slots[id as usize]
    }
    fn slot_mut(&mut self, id: Id) -> &mut Slot {
        &mut self.slots[id as usize]
    }

    /// *units-return*: what is held is what slots hold.
    fn units_agree(&self) -> bool {
        let held: i64 = self.slots.iter().map(|slot| slot.base + slot.memory).sum();
        let admitted = self.slots.iter().filter(|slot| slot.admitted).count();
        (held, admitted as i64) == (self.consumed, self.count_used)
    }

    /// *counts-agree* and *one-list*, as far as states tell.
    fn states_agree(&self) -> bool {
        // A free slot says where its last read stood.
        let is_in = |slot: &&Slot, state| slot.reading.is_some() && slot.state == state;
        let count = |state| self.slots.iter().filter(|slot| is_in(slot, state)).count();
        let used = self.slots.iter().filter(|slot| 0 < slot.needs_cpu);
        let awaits = used.clone().filter(|slot| 0 < slot.awaits).count();
        (self.need_cpu as usize, self.awaits as usize) == (used.count(), awaits)
            && self.ready as usize == count(State::WaitingForExecution)
            && self.memory_waiting.count == count(State::WaitingForMemory)
            && self.waiting.count == count(State::WaitingForAdmission)
            && self.inactive.count == count(State::Inactive)
    }

    pub(super) fn load(&self) -> Load {
        debug_assert!(self.awaits <= self.need_cpu, "counts-agree: {} wait", self.awaits);
        let lendable = self.pool.as_ref().map_or(0, |pool| pool.free().max(0));
        Load {
            count_free: self.limits.count as i64 - self.count_used,
            memory_free: self.own_free() + lendable,
            consumed: self.consumed - lendable,
            ready: self.ready,
            ready_max: self.ready_max,
            need_cpu: self.need_cpu,
            awaits: self.awaits,
            awaits_max: self.disk.bound().unwrap_or(usize::MAX),
            has_inactive: 0 < self.inactive.count,
            has_privileged: self.privileged.is_some(),
        }
    }

    /// Bytes that nobody holds, of what is ours or borrowed.
    fn own_free(&self) -> i64 {
        self.limits.memory_bytes as i64 + self.borrowed - self.consumed
    }

    /// Holds bytes, and borrows those that are not ours.
    fn take(&mut self, bytes: i64) {
        debug_assert!(0 <= bytes, "units-return: {bytes} taken");
        let missing = bytes - self.own_free();
        if let (Some(pool), 1..) = (&self.pool, missing) {
            self.borrowed += pool.borrow_up_to(missing);
        }
        self.consumed += bytes;
    }

    /// Holds so many bytes less, and gives back what was borrowed (*borrowed-is-used*).
    fn untake(&mut self, bytes: i64) {
        assert!(0 <= bytes && bytes <= self.consumed, "units-return: {bytes} given back");
        self.consumed -= bytes;
        let back = self.own_free().min(self.borrowed);
        if let (Some(pool), 1..) = (&self.pool, back) {
            self.borrowed -= back;
            pool.give_back(back);
            self.gave_back = true;
        }
        debug_assert!(0 <= self.borrowed, "borrowed-is-used: {} borrowed", self.borrowed);
    }

    /// The pool, if it has got something back since this was asked last.
    pub(super) fn take_gave_back(&mut self) -> Option<Rc<Pool>> {
        if std::mem::take(&mut self.gave_back) { self.pool.clone() } else { None }
    }

    /// A read has waited for so long for the disk.
    pub(super) fn waited(&mut self, span: Duration, now: Instant) {
        self.disk.waited(span, now);
    }

    /// A slot for a read that holds nothing yet. A free slot is as a new one (*units-return*).
    fn take_slot(&mut self, reading: Reading, state: State) -> Id {
        self.counters.total_permits += 1;
        self.counters.current_permits += 1;
        if let Some(id) = self.free.pop() {
            let slot = self.slot_mut(id);
            debug_assert!(slot.is_blank(), "units-return: slot {id} was freed with something");
            slot.state = state;
            slot.reading = Some(reading);
            return id;
        }
        let id = Id::try_from(self.slots.len()).expect("fewer than four billion permits");
        self.slots.push(Slot {
            state,
            generation: 0,
            reading: Some(reading),
            base: 0,
            admitted: false,
            memory: 0,
            asked: 0,
            needs_cpu: 0,
            awaits: 0,
            deadline: None,
            budget: Duration::ZERO,
            waker: None,
            failed: false,
            killed: false,
            inactive: None,
            previous: NONE,
            next: NONE,
        });
        id
    }

    /// A permit that holds nothing and is not waited for: for accounting.
    pub(super) fn track(&mut self, reading: Reading) -> Id {
        self.take_slot(reading, State::Active)
    }

    /// Admits a read at once, if that can be.
    pub(super) fn try_admit(&mut self, reading: &Reading) -> Option<Id> {
        if self.waiting.count + self.memory_waiting.count != 0
            || decide(&self.limits, &self.load(), Candidate::New) != Verdict::Admit
        {
            return None;
        }
        let id = self.take_slot(reading.clone(), State::Active);
        self.hold_base(id);
        self.counters.reads_admitted += 1;
        self.counters.reads_admitted_immediately += 1;
        Some(id)
    }

    /// Counts a read that has ended before anything else happens.
    pub(super) fn pass(&mut self) {
        self.counters.total_permits += 1;
        self.counters.reads_admitted += 1;
        self.counters.reads_admitted_immediately += 1;
        self.counters.total_successful_reads += 1;
    }

    fn hold_base(&mut self, id: Id) {
        let base = self.limits.base_bytes();
        let slot = self.slot_mut(id);
        assert!(!slot.admitted, "*units-return*: a read is admitted once");
        (slot.admitted, slot.base) = (true, base);
        self.count_used += 1;
        self.take(base);
    }

    fn release_base(&mut self, id: Id) {
        debug_assert!(0 < self.count_used || !self.slot(id).admitted, "units-return: slot {id}");
        let slot = self.slot_mut(id);
        if std::mem::take(&mut slot.admitted) {
            let base = std::mem::take(&mut slot.base);
            self.count_used -= 1;
            self.untake(base);
        }
    }

    /// Puts a read at the end of the queue, or refuses it. With `again` a slot that was evicted.
    pub(super) fn enqueue(
        &mut self,
        reading: &Reading,
        again: Option<Id>,
        deadline: Option<Instant>,
    ) -> Result<Id, Refusal> {
        if self.limits.queue_max <= self.waiting.count {
            self.counters.total_reads_shed_due_to_overload += 1;
            return Err(Refusal::QueueFull);
        }
        if let Some(id) = again {
            let Slot { state, admitted, .. } = *self.slot(id);
            debug_assert!(state == State::Evicted && !admitted, "units-return: again in {state:?}");
        }
        let verdict = decide(&self.limits, &self.load(), Candidate::New);
        let id =
            again.unwrap_or_else(|| self.take_slot(reading.clone(), State::WaitingForAdmission));
        let now = deadline.map(|_| Instant::now());
        let slot = self.slot_mut(id);
        slot.state = State::WaitingForAdmission;
        if let (Some(deadline), Some(now)) = (deadline, now) {
            (slot.deadline, slot.budget) = (Some(deadline), deadline - now);
            self.deadlines.insert((deadline, id));
        }
        self.waiting.push_back(&mut self.slots, id);
        assert!(self.waiting.count <= self.limits.queue_max, "bounded: {}", self.waiting.count);
        self.counters.reads_enqueued_for_admission += 1;
        match verdict {
            Verdict::Evict(reason) => {
                self.count_reason(reason);
                self.counters.reads_queued_with_eviction += 1;
            }
            Verdict::Wait(reason) => self.count_reason(reason),
            Verdict::Admit => {}
        }
        self.pump();
        Ok(id)
    }

    fn count_reason(&mut self, reason: Reason) {
        let counters = &mut self.counters;
        match reason {
            Reason::ReadyList => counters.reads_queued_because_ready_list += 1,
            Reason::NeedCpu => counters.reads_queued_because_need_cpu_permits += 1,
            Reason::Disk => counters.reads_queued_because_disk += 1,
            Reason::Memory => counters.reads_queued_because_memory_resources += 1,
            Reason::Count => counters.reads_queued_because_count_resources += 1,
        }
    }

    /// Lets go on who can.
    pub(super) fn pump(&mut self) {
        loop {
            let (id, candidate) = match (self.memory_waiting.first(), self.waiting.first()) {
                (Some(id), _) => (id, Candidate::Memory),
                (None, Some(id)) => (id, Candidate::New),
                (None, None) => return,
            };
            match (decide(&self.limits, &self.load(), candidate), candidate) {
                (Verdict::Wait(_), _) => return,
                (Verdict::Evict(_), _) => self.evict_oldest(),
                (Verdict::Admit, Candidate::Memory) => {
                    let state = self.slot(id).state;
                    debug_assert!(state == State::WaitingForMemory, "one-list: {state:?}");
                    self.memory_waiting.remove(&mut self.slots, id);
                    let asked = self.slot(id).asked;
                    self.privileged = Some(id);
                    self.hold_memory(id, asked);
                    self.go_on(id, State::Active);
                }
                (Verdict::Admit, Candidate::New) => {
                    let state = self.slot(id).state;
                    debug_assert!(state == State::WaitingForAdmission, "one-list: {state:?}");
                    self.waiting.remove(&mut self.slots, id);
                    if self.would_time_out(id) {
                        self.counters.total_reads_shed_due_to_overload += 1;
                        self.go_on(id, State::PreemptiveAborted);
                        continue;
                    }
                    self.hold_base(id);
                    self.counters.reads_admitted += 1;
                    self.ready += 1;
                    debug_assert!(self.ready <= self.ready_max, "at most {} ready", self.ready_max);
                    self.go_on(id, State::WaitingForExecution);
                }
            }
        }
    }

    /// A slot leaves a list of waiters.
    fn go_on(&mut self, id: Id, state: State) {
        let before = self.slot(id).state;
        debug_assert!(before.waits_in_queue(), "no-lost-wake: {before:?} to {state:?}");
        self.forget_deadline(id);
        let slot = self.slot_mut(id);
        slot.state = state;
        if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
    }

    fn forget_deadline(&mut self, id: Id) {
        if let Some(deadline) = self.slot_mut(id).deadline.take() {
            // The one that has just passed was taken out by who looked at the deadlines.
            self.deadlines.remove(&(deadline, id));
        }
        debug_assert!(self.deadlines.iter().all(|(_, other)| *other != id), "one-list: slot {id}");
    }

    fn would_time_out(&self, id: Id) -> bool {
        let Slot { deadline: Some(deadline), budget, .. } = self.slot(id) else { return false };
        let left = *deadline - Instant::now();
        !left.is_zero() && left <= budget.mul_f64(self.limits.preemptive_abort_factor)
    }

    /// Whether the wait of a slot is over. A slot that failed is free after that.
    pub(super) fn poll(&mut self, id: Id, waker: &Waker) -> Option<Result<(), Refusal>> {
        let slot = self.slot_mut(id);
        match slot.state {
            State::WaitingForAdmission | State::WaitingForMemory => {
                if !slot.waker.as_ref().is_some_and(|old| old.will_wake(waker)) {
                    slot.waker = Some(waker.clone());
                }
                None
            }
            State::WaitingForExecution => {
                slot.state = State::Active;
                assert!(0 < self.ready, "counts-agree: slot {id} is ready and not counted");
                self.ready -= 1;
                self.ready_max = match self.need_cpu == self.awaits {
                    // Those before did not want the processor for longer than their turn.
                    true => (2 * self.ready_max).min(READY_MAX),
                    false => 1,
                };
                self.pump();
                Some(Ok(()))
            }
            State::PreemptiveAborted => Some(Err(Refusal::Shed)),
            State::TimedOut => Some(Err(Refusal::TimedOut)),
            State::Active | State::Inactive | State::Evicted => Some(Ok(())),
        }
    }

    /// Ends a slot, wherever it stands, and gives all back that it holds.
    pub(super) fn release(&mut self, id: Id) {
        let slot = &self.slots[id as usize];
        let is_plain = slot.state == State::Active && slot.needs_cpu == 0;
        if !is_plain || self.privileged == Some(id) {
            self.leave(id);
        }
        let slot = &mut self.slots[id as usize];
        slot.generation = slot.generation.wrapping_add(1);
        match (slot.admitted, slot.failed || slot.killed) {
            (false, _) => {}
            (true, true) => self.counters.total_failed_reads += 1,
            (true, false) => self.counters.total_successful_reads += 1,
        }
        (slot.failed, slot.killed, slot.awaits) = (false, false, 0);
        slot.waker = None;
        slot.reading = None;
        if let Some(inactive) = slot.inactive.take() {
            self.evicted.push_back(inactive);
        }
        self.count_used -= std::mem::take(&mut slot.admitted) as i64;
        let held = std::mem::take(&mut slot.memory) + std::mem::take(&mut slot.base);
        self.untake(held);
        assert!(0 < self.counters.current_permits, "units-return: slot {id} was freed twice");
        self.counters.current_permits -= 1;
        debug_assert!(self.slot(id).is_blank(), "units-return: slot {id}");
        self.free.push(id);
        debug_assert!(self.units_agree(), "units-return: slot {id} ended");
        if self.waiting.count + self.memory_waiting.count != 0 {
            self.pump();
        }
    }

    /// Takes a slot out of its list, and out of what is counted of it.
    fn leave(&mut self, id: Id) {
        match self.slot(id).state {
            State::WaitingForAdmission => self.waiting.remove(&mut self.slots, id),
            State::WaitingForMemory => self.memory_waiting.remove(&mut self.slots, id),
            State::WaitingForExecution => self.ready -= 1,
            State::Inactive => self.inactive.remove(&mut self.slots, id),
            _ => {}
        }
        self.forget_deadline(id);
        if self.privileged == Some(id) {
            self.privileged = None;
        }
        let (needs, awaits) = (self.slot(id).needs_cpu, self.slot(id).awaits);
        self.uncount(needs, awaits);
        let slot = self.slot_mut(id);
        (slot.needs_cpu, slot.awaits) = (0, 0);
        debug_assert!(self.awaits <= self.need_cpu, "counts-agree: slot {id} left");
    }

    fn uncount(&mut self, needs: u32, awaits: u32) {
        if 0 < needs {
            assert!(0 < self.need_cpu, "counts-agree: a read uses the processor uncounted");
            self.need_cpu -= 1;
            if 0 < awaits {
                self.awaits -= 1;
            }
        }
    }

    /// The read uses the processor from now on (`true`), or no more.
    pub(super) fn need_cpu(&mut self, id: Id, starts: bool) {
        self.shift(id, |slot| match starts {
            true => slot.needs_cpu += 1,
            false => slot.needs_cpu = slot.needs_cpu.saturating_sub(1),
        });
    }

    /// The read waits for something else than the processor from now on (`true`), or no more.
    pub(super) fn awaits(&mut self, id: Id, starts: bool) {
        self.shift(id, |slot| match starts {
            true => slot.awaits += 1,
            false => slot.awaits = slot.awaits.saturating_sub(1),
        });
    }

    fn shift(&mut self, id: Id, change: impl FnOnce(&mut Slot)) {
        let slot = &mut self.slots[id as usize];
        let counted = |slot: &Slot| {
            let needs = 0 < slot.needs_cpu;
            (needs as u32, (needs && 0 < slot.awaits) as u32)
        };
        let before = counted(slot);
        change(slot);
        let after = counted(slot);
        self.need_cpu = self.need_cpu + after.0 - before.0;
        self.awaits = self.awaits + after.1 - before.1;
        debug_assert!(self.states_agree(), "counts-agree: slot {id} shifted");
        if self.waiting.count != 0 {
            self.pump();
        }
    }

    fn hold_memory(&mut self, id: Id, bytes: i64) {
        self.slot_mut(id).memory += bytes;
        self.take(bytes);
        debug_assert!(self.units_agree(), "units-return: {bytes} of slot {id}");
    }

    /// Charges bytes that a read has; false: the read is to end.
    pub(super) fn consume(&mut self, (id, generation): (Id, u32), bytes: i64) -> bool {
        assert!(self.slot(id).generation == generation, "memory for a read that has ended");
        let Load { memory_free, consumed, .. } = self.load();
        let over = self.limits.kill_bytes() <= consumed.saturating_add(bytes);
        if memory_free <= 0 && over {
            if !std::mem::replace(&mut self.slot_mut(id).killed, true) {
                self.counters.total_reads_killed_due_to_kill_limit += 1;
            }
            return false;
        }
        self.hold_memory(id, bytes);
        true
    }

    /// Takes back bytes of a read, unless its permit, and they with it, went before.
    pub(super) fn give_back(&mut self, (id, generation): (Id, u32), bytes: i64) {
        let slot = self.slot_mut(id);
        if slot.generation != generation {
            return;
        }
        assert!(bytes <= slot.memory, "*units-return*: more given back than taken");
        slot.memory -= bytes;
        self.untake(bytes);
        if self.waiting.count + self.memory_waiting.count != 0 {
            self.pump();
        }
    }

    /// Asks for memory before it is used: true when the bytes are charged, false when the slot
    /// waits for them.
    pub(super) fn request_memory(&mut self, id: Id, bytes: i64, deadline: Option<Instant>) -> bool {
        let Load { memory_free, consumed, .. } = self.load();
        let serialize = self.limits.serialize_bytes();
        if 0 < memory_free || consumed.saturating_add(bytes) < serialize {
            self.hold_memory(id, bytes);
            return true;
        }
        if self.privileged.is_none() || self.privileged == Some(id) {
            self.privileged = Some(id);
            self.hold_memory(id, bytes);
            return true;
        }
        let slot = self.slot_mut(id);
        debug_assert!(slot.state == State::Active, "one-list: memory in {:?}", slot.state);
        slot.state = State::WaitingForMemory;
        (slot.asked, slot.deadline) = (bytes, deadline);
        debug_assert!(0 <= bytes, "units-return: {bytes} asked for");
        self.deadlines.extend(deadline.map(|deadline| (deadline, id)));
        self.memory_waiting.push_back(&mut self.slots, id);
        self.counters.reads_enqueued_for_memory += 1;
        self.pump();
        self.slot(id).state != State::WaitingForMemory
    }

    /// A slot that waits for memory does not want it any more; one that got it gives it back.
    pub(super) fn cancel_request(&mut self, id: Id) {
        let Slot { state, asked, generation, .. } = *self.slot(id);
        match state {
            State::WaitingForMemory => {
                self.memory_waiting.remove(&mut self.slots, id);
                self.forget_deadline(id);
                self.slot_mut(id).state = State::Active;
                self.pump();
            }
            State::Active => self.give_back((id, generation), asked),
            _ => {}
        }
    }

    /// Takes a source in whose reader does something else.
    pub(super) fn pause(&mut self, id: Id, source: Box<dyn Source>, until: Option<Instant>) {
        self.leave(id);
        let slot = self.slot_mut(id);
        assert!(slot.inactive.is_none(), "one-list: slot {id} has a source already");
        debug_assert!(slot.state == State::Active, "one-list: paused in {:?}", slot.state);
        slot.state = State::Inactive;
        slot.inactive = Some(source);
        slot.deadline = until;
        if let Some(until) = until {
            self.deadlines.insert((until, id));
        }
        self.inactive.push_back(&mut self.slots, id);
        while 0 < self.inactive.count
            && (self.load().memory_free < 0 || (self.limits.count as i64) < self.count_used)
        {
            self.evict_oldest();
        }
        self.pump();
    }

    /// An evicted read does not wait any more to be admitted again.
    pub(super) fn cancel_again(&mut self, id: Id) {
        self.leave(id);
        self.release_base(id);
        let slot = self.slot_mut(id);
        slot.state = State::Evicted;
        slot.waker = None;
        debug_assert!(self.units_agree(), "units-return: slot {id} is evicted again");
        self.pump();
    }

    /// Gives the source back; `None`: it was evicted.
    pub(super) fn resume(&mut self, id: Id) -> Option<Box<dyn Source>> {
        let slot = self.slot_mut(id);
        let source = slot.inactive.take()?;
        debug_assert!(slot.state == State::Inactive, "one-list: resumed in {:?}", slot.state);
        slot.state = State::Active;
        self.inactive.remove(&mut self.slots, id);
        self.forget_deadline(id);
        Some(source)
    }

    fn evict_oldest(&mut self) {
        if let Some(id) = self.inactive.first() {
            self.counters.permit_based_evictions += 1;
            self.evict(id);
        }
    }

    fn evict(&mut self, id: Id) {
        let state = self.slot(id).state;
        assert!(state == State::Inactive, "one-list: {state:?} is evicted");
        self.leave(id);
        let slot = self.slot_mut(id);
        slot.state = State::Evicted;
        let source = slot.inactive.take();
        debug_assert!(source.is_some(), "one-list: slot {id} was inactive without a source");
        self.evicted.extend(source);
        self.release_base(id);
    }

    /// Evicts the inactive reads for which `chosen` says so: of a table that is dropped.
    pub(super) fn evict_where(&mut self, chosen: impl Fn(&Reading) -> bool) {
        let mut at = self.inactive.first();
        while let Some(id) = at {
            let next = self.slot(id).next;
            at = (next != NONE).then_some(next);
            if self.slot(id).reading.as_ref().is_some_and(&chosen) {
                self.evict(id);
            }
        }
        self.pump();
    }

    /// When the first of the deadlines is.
    pub(super) fn first_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Ends what was due: who waited too long, who was inactive too long. Says which slot waited.
    pub(super) fn expire(&mut self, now: Instant) -> Option<Id> {
        let mut timed_out = None;
        while let Some((deadline, id)) = self.deadlines.first().copied()
            && deadline <= now
        {
            self.deadlines.remove(&(deadline, id));
            if self.slot(id).state == State::Inactive {
                self.counters.time_based_evictions += 1;
                self.evict(id);
                continue;
            }
            match self.slot(id).state {
                State::WaitingForMemory => self.memory_waiting.remove(&mut self.slots, id),
                _ => self.waiting.remove(&mut self.slots, id),
            }
            timed_out = Some(id);
            self.go_on(id, State::TimedOut);
        }
        debug_assert!(self.first_deadline().is_none_or(|first| now < first), "no-lost-wake");
        self.pump();
        timed_out
    }

    pub(super) fn generation(&self, id: Id) -> u32 {
        self.slot(id).generation
    }
    pub(super) fn fail(&mut self, id: Id) {
        self.slot_mut(id).failed = true;
    }
    pub(super) fn is_killed(&self, id: Id) -> bool {
        self.slot(id).killed
    }
    pub(super) fn reading(&self, id: Id) -> Option<Reading> {
        self.slot(id).reading.clone()
    }
    pub(super) fn waiting_count(&self) -> usize {
        self.waiting.count + self.memory_waiting.count
    }

    pub(super) fn counters(&self) -> Counters {
        debug_assert!(self.states_agree(), "counts-agree: of what is told");
        Counters {
            inactive_reads: self.inactive.count as u64,
            need_cpu_permits: self.need_cpu as u64,
            awaits_permits: self.awaits as u64,
            disk_reads: self.awaits as u64,
            ..self.counters
        }
    }

    pub(super) fn line(&self, id: Id) -> Option<Line> {
        let slot = self.slot(id);
        let Reading { schema, operation } = slot.reading.as_ref()?;
        let state = match (slot.state, slot.needs_cpu, slot.awaits) {
            (State::WaitingForAdmission, ..) => "waiting_for_admission",
            (State::WaitingForMemory, ..) => "waiting_for_memory",
            (State::WaitingForExecution, ..) => "waiting_for_execution",
            (State::Active, 0, _) => "active",
            (State::Active, _, 0) => "active/need_cpu",
            (State::Active, ..) => "active/await",
            (State::Inactive, ..) => "inactive",
            (State::Evicted, ..) => "evicted",
            (State::PreemptiveAborted, ..) => "preemptive_aborted",
            (State::TimedOut, ..) => "timed_out",
        };
        Some(Line {
            table: format!("{}.{}", schema.keyspace, schema.name),
            operation,
            state,
            permits: 1,
            count: slot.admitted as i64,
            memory_bytes: slot.base + slot.memory,
        })
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        debug_assert!(self.units_agree(), "units-return: of what is told");
        let permits = (0..self.slots.len() as Id).filter_map(|id| self.line(id));
        Snapshot {
            name: self.name,
            limits: self.limits,
            memory_bytes: (self.load().memory_free + self.consumed).max(0) as usize,
            awaits_max: self.disk.bound().unwrap_or(usize::MAX),
            used_count: self.count_used,
            used_bytes: self.consumed,
            permits: permits.collect(),
            counters: self.counters(),
        }
    }
}
