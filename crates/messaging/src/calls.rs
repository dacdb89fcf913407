//! What was asked over a connection and has no answer yet.
//!
//! No request has a timer of its own: the connection looks for those whose time is over at the
//! soonest deadline that it knows of, which under load is once in a timeout.
//!
//! Invariants
//!  - *one-answer*: each request that was sent has one answer, or its connection ends; until then
//!    it holds its place in the window, cancelled or not.
//!  - *never-sent-never-handled*, *lost-is-unknown* (of errors): what was still in the outbox when
//!    the connection ended was never sent, all else is lost.
//!  - *soonest-is-a-bound*: no request that somebody waits for has a deadline before `soonest`.
//!  - *told-unborrowed*: a caller is told while nothing here is borrowed: it may ask again.

use crate::budget::Pair;
use crate::config::Planted;
use crate::counters::{During, Gauge, VerbTally};
use crate::error::{CallError, Down, Lost, NotSent};
use crate::frame::{Header, Kind};
use crate::outbox::Outbox;
use runtime::sync::{Notify, Permit};
use runtime::time::Instant;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use stdx::{Damaged, HashMap};

/// No deadline.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// Who is told how its requests have ended, in place of a future for each.
pub trait Caller {
    /// The request of this number has ended: it is told so once.
    fn ended(&self, number: usize, outcome: Result<Vec<u8>, CallError>);
}

/// A reply, and the memory that it holds until the caller has it.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) bytes: Vec<u8>,
    pub(crate) _memory: Permit,
}

/// Who waits for an answer.
pub(crate) enum Waits {
    Future(Rc<Awaited>),
    /// And the number of its request.
    Caller(Rc<dyn Caller>, usize),
    /// Nobody, or nobody any more.
    Nobody,
}

/// What a future waits for.
#[derive(Default)]
pub(crate) struct Awaited {
    outcome: Cell<Option<Result<Reply, CallError>>>,
    waker: Cell<Option<Waker>>,
    has_ended: Cell<bool>,
}

/// One request.
struct Call {
    waits: Waits,
    is_one_way: bool,
    deadline: Instant,
    gauge: During,
    bytes: u64,
    _place: Pair,
}

/// A request of a [`Caller`] that is under way.
pub struct Ticket {
    calls: Rc<Calls>,
    id: u64,
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({})", self.id)
    }
}

impl Ticket {
    pub(crate) fn new(calls: Rc<Calls>, id: u64) -> Ticket {
        Ticket { calls, id }
    }

    /// Its caller does not want to be told any more: what the other node does is cancelled. Where
    /// it has ended nothing happens.
    pub fn cancel(self) {
        let taken = self.calls.table.borrow_mut().get_mut(&self.id).and_then(|call| {
            debug_assert!(!call.is_one_way, "one-answer: {} has no answer", self.id);
            match std::mem::replace(&mut call.waits, Waits::Nobody) {
                Waits::Caller(caller, _) => {
                    call.gauge.tally().count(|it| it.cancelled += 1);
                    Some(caller)
                }
                _ => None,
            }
        });
        if let Some(caller) = taken {
            self.calls.leave(self.id);
            drop(caller);
        }
    }
}

/// What is about to be asked.
pub(crate) struct Asked {
    pub(crate) id: u64,
    /// In the window.
    pub(crate) place: Pair,
    /// It waits.
    pub(crate) gauge: During,
    pub(crate) bytes: u64,
}

/// The requests and one-way messages of a dialer's connection.
pub(crate) struct Calls {
    table: RefCell<HashMap<u64, Call>>,
    outbox: Rc<Outbox>,
    planted: Option<Planted>,
    soonest: Cell<Instant>,
    /// `soonest` was moved forward.
    sooner: Notify,
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").field("count", &self.count()).finish_non_exhaustive()
    }
}

impl Calls {
    pub(crate) fn new(outbox: Rc<Outbox>, planted: Option<Planted>) -> Calls {
        let (soonest, sooner) = (Cell::new(NEVER), Notify::new());
        Calls { table: RefCell::default(), outbox, planted, soonest, sooner }
    }

    pub(crate) fn count(&self) -> usize {
        self.table.borrow().len()
    }

    fn insert(&self, asked: Asked, waits: Waits, deadline: Instant) {
        let Asked { id, place, gauge, bytes } = asked;
        let is_one_way = matches!(waits, Waits::Nobody);
        debug_assert!(deadline < NEVER || is_one_way, "soonest-is-a-bound: {id} has no deadline");
        let call = Call { waits, is_one_way, deadline, gauge, bytes, _place: place };
        let before = self.table.borrow_mut().insert(id, call);
        assert!(before.is_none(), "one-answer: two requests of id {id}");
        if deadline < self.soonest.get() {
            self.soonest.set(deadline);
            self.sooner.notify_one();
        }
    }

    /// A request that goes into the outbox now; the future is of its answer.
    pub(crate) fn begin(self: &Rc<Self>, asked: Asked, deadline: Instant) -> Answer {
        let (id, awaited) = (asked.id, Rc::<Awaited>::default());
        self.insert(asked, Waits::Future(awaited.clone()), deadline);
        Answer { id, awaited, calls: self.clone() }
    }

    /// The same, of which `caller` is told by that number.
    pub(crate) fn begin_for(
        &self,
        asked: Asked,
        deadline: Instant,
        (caller, number): (Rc<dyn Caller>, usize),
    ) {
        self.insert(asked, Waits::Caller(caller, number), deadline);
    }

    /// A one-way message that goes into the outbox now.
    pub(crate) fn begin_one_way(&self, asked: Asked) {
        self.insert(asked, Waits::Nobody, NEVER);
    }

    /// A request has left.
    pub(crate) fn sent(&self, id: u64) {
        if let Some(call) = self.table.borrow_mut().get_mut(&id) {
            debug_assert!(!self.outbox.has(id), "never-sent-never-handled: {id} is there still");
            call.gauge.becomes(Gauge::InFlight);
            call.gauge.tally().count(|it| {
                it.sent += 1;
                it.sent_bytes += call.bytes;
            });
        }
    }

    /// The oldest request.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.table.borrow().keys().min().copied()
    }

    /// An answer came (*one-answer*).
    pub(crate) fn answered(
        &self,
        id: u64,
        kind: Kind,
        outcome: Result<Reply, CallError>,
    ) -> Result<(), Damaged> {
        let call = self.table.borrow_mut().remove(&id);
        let call = call.ok_or(Damaged::new("answer to nothing that was asked", 0))?;
        if call.is_one_way != (kind == Kind::Done) {
            // Who waits for it is told with all others, as the connection ends.
            self.table.borrow_mut().insert(id, call);
            return Err(Damaged::new("answer of another kind than the question", 0));
        }
        if self.planted == Some(Planted::KeepsRoom) && matches!(call.waits, Waits::Nobody) {
            std::mem::forget(call);
            return Ok(());
        }
        let Call { waits, gauge, _place, .. } = call;
        // What is told may ask again, for which it may need the place.
        drop(_place);
        tell(waits, outcome, &gauge);
        Ok(())
    }

    /// Nobody waits for an answer any more: what those who waited are told.
    fn leave(&self, id: u64) -> CallError {
        if self.outbox.withdraw(id) {
            let withdrawn = self.table.borrow_mut().remove(&id);
            debug_assert!(withdrawn.is_some(), "one-answer: {id} was queued, and nobody asked");
            return CallError::NeverSent(NotSent::TooLate);
        }
        if let Some(call) = self.table.borrow_mut().get_mut(&id) {
            call.waits = Waits::Nobody;
            if self.planted != Some(Planted::CancelsAlone) {
                self.outbox.push_small(Header::bare(Kind::Cancel, id, 0));
            }
        }
        CallError::OutcomeUnknown(Lost::TooLate)
    }

    /// Tells those whose time is over, as long as the connection is there.
    pub(crate) async fn keep_time(&self) {
        loop {
            let soonest = self.soonest.get();
            let sooner = self.sooner.notified();
            if soonest == NEVER {
                sooner.await;
                continue;
            }
            runtime::task::race(runtime::time::sleep_until(soonest), sooner).await;
            if self.soonest.get() <= Instant::now() {
                self.end_late(Instant::now());
            }
        }
    }

    /// Those whose deadline has passed are told.
    fn end_late(&self, now: Instant) {
        let mut late = Vec::new();
        let mut soonest = NEVER;
        for (id, call) in &*self.table.borrow() {
            match call.waits {
                Waits::Nobody => {}
                _ if call.deadline <= now => late.push(*id),
                _ => soonest = soonest.min(call.deadline),
            }
        }
        self.soonest.set(soonest);
        for (waits, id, tally) in self.take_waits(late) {
            let error = self.leave(id);
            if let Waits::Caller(..) = waits {
                tally.count(|it| it.timed_out += 1);
            }
            end(waits, Err(error));
        }
    }

    /// All callers are told that this shard stops.
    pub(crate) fn end_callers(&self) {
        let table = self.table.borrow();
        let of_callers = table.iter().filter(|(_, call)| matches!(call.waits, Waits::Caller(..)));
        let ids: Vec<u64> = of_callers.map(|(id, _)| *id).collect();
        drop(table);
        for (waits, id, tally) in self.take_waits(ids) {
            self.leave(id);
            tally.count(|it| it.cancelled += 1);
            end(waits, Err(CallError::OutcomeUnknown(Lost::Broken(Down::Stopping))));
        }
    }

    /// Who waits for these, who are not waited for any more, in the order in which they were asked,
    /// whatever the table's: a simulation runs as it ran before.
    fn take_waits(&self, mut ids: Vec<u64>) -> Vec<(Waits, u64, Rc<VerbTally>)> {
        ids.sort_unstable();
        let mut table = self.table.borrow_mut();
        let take = |id: u64| {
            let call = table.get_mut(&id)?;
            let waits = std::mem::replace(&mut call.waits, Waits::Nobody);
            Some((waits, id, call.gauge.shared_tally()))
        };
        ids.into_iter().filter_map(take).collect()
    }

    /// The connection has ended; `unsent`: what was still in its outbox, in order. Where others ask
    /// and this end answers, that is answers, in the order of their ends, and there are no calls.
    pub(crate) fn close(&self, down: &Down, unsent: &[u64]) {
        let is_told = self.count() == 0 || unsent.is_sorted();
        debug_assert!(is_told, "never-sent-never-handled: in the order of their ids");
        debug_assert!(self.outbox.is_empty(), "never-sent-never-handled: some may still leave");
        let mut calls: Vec<(u64, Call)> = self.table.take().into_iter().collect();
        calls.sort_unstable_by_key(|(id, _)| *id);
        for (id, call) in calls {
            let error = match unsent.binary_search(&id) {
                Ok(_) => CallError::NeverSent(NotSent::Down(down.clone())),
                Err(_) => CallError::OutcomeUnknown(Lost::Broken(down.clone())),
            };
            let Call { waits, gauge, _place, .. } = call;
            drop(_place);
            tell(waits, Err(error), &gauge);
        }
        debug_assert_eq!(self.count(), 0, "one-answer: a call outlives its connection");
    }
}

/// Tells who waits, and counts what failed of those who have no future, which counts by itself.
fn tell(waits: Waits, outcome: Result<Reply, CallError>, gauge: &During) {
    if let (Waits::Caller(..), Err(error)) = (&waits, &outcome) {
        gauge.tally().count(|it| match error.is_late() {
            true => it.timed_out += 1,
            false => it.failed += 1,
        });
    }
    end(waits, outcome);
}

fn end(waits: Waits, outcome: Result<Reply, CallError>) {
    match waits {
        Waits::Nobody => {}
        Waits::Caller(caller, number) => caller.ended(number, outcome.map(|reply| reply.bytes)),
        Waits::Future(awaited) => {
            debug_assert!(!awaited.has_ended.get(), "one-answer: a second one");
            awaited.has_ended.set(true);
            awaited.outcome.set(Some(outcome));
            if let Some(waker) = awaited.waker.take() {
                waker.wake();
            }
        }
    }
}

/// The future of an answer. Dropping it cancels the request.
pub(crate) struct Answer {
    id: u64,
    awaited: Rc<Awaited>,
    calls: Rc<Calls>,
}

impl Future for Answer {
    type Output = Result<Reply, CallError>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.awaited.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                debug_assert!(!self.awaited.has_ended.get(), "one-answer: polled after its end");
                self.awaited.waker.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if !self.awaited.has_ended.replace(true) {
            self.calls.leave(self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end that answers alone has answers left, in the order in which they were ready.
    #[test]
    fn who_asks_nothing_may_leave_answers_in_any_order() {
        let outbox = Rc::new(Outbox::new(false));
        let calls = Calls::new(outbox.clone(), None);
        outbox.close();
        calls.close(&Down::Stopping, &[3, 1]);
        assert_eq!(calls.count(), 0);
    }
}
