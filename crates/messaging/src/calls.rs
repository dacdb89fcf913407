//! What was asked over a connection and has no answer yet.
//!
//! Invariants
//!  - *one-answer*: each request that was sent has one answer, or its connection ends; until then
//!    it holds its place in the window, cancelled or not.
//!  - *never-sent-never-handled*, *lost-is-unknown* (of errors): what was still in the outbox when
//!    the connection ended was never sent, all else is lost.

use crate::config::Planted;
use crate::counters::{During, Gauge};
use crate::error::{CallError, Down, Lost, NotSent};
use crate::frame::{Header, Kind};
use crate::outbox::Outbox;
use runtime::sync::Permit;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use stdx::Damaged;

/// A reply, and the memory that it holds until the caller has it.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) bytes: Vec<u8>,
    pub(crate) _memory: Permit,
}

/// One request.
struct Call {
    outcome: Cell<Option<Result<Reply, CallError>>>,
    waker: Cell<Option<Waker>>,
    /// Nobody waits for it.
    is_left: Cell<bool>,
    is_one_way: bool,
    gauge: RefCell<During>,
    bytes: u64,
    /// Its place in the window.
    _place: Vec<Permit>,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("is_left", &self.is_left).finish_non_exhaustive()
    }
}

/// What is about to be asked.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) id: u64,
    /// Its place in the window.
    pub(crate) place: Vec<Permit>,
    /// It waits.
    pub(crate) gauge: During,
    pub(crate) bytes: u64,
}

/// The requests and one-way messages of a dialer's connection.
#[derive(Debug)]
pub(crate) struct Calls {
    table: RefCell<BTreeMap<u64, Rc<Call>>>,
    outbox: Rc<Outbox>,
    planted: Option<Planted>,
}

impl Calls {
    pub(crate) fn new(outbox: Rc<Outbox>, planted: Option<Planted>) -> Calls {
        Calls { table: RefCell::default(), outbox, planted }
    }

    pub(crate) fn count(&self) -> usize {
        self.table.borrow().len()
    }

    fn insert(&self, asked: Asked, is_one_way: bool) -> Rc<Call> {
        let Asked { id, place, gauge, bytes } = asked;
        debug_assert!(
            self.table.borrow().last_key_value().is_none_or(|(last, _)| *last < id),
            "one-answer: ids grow, not to {id}"
        );
        let call = Rc::new(Call {
            outcome: Cell::new(None),
            waker: Cell::new(None),
            is_left: Cell::new(is_one_way),
            is_one_way,
            gauge: RefCell::new(gauge),
            bytes,
            _place: place,
        });
        let before = self.table.borrow_mut().insert(id, call.clone());
        assert!(before.is_none(), "one-answer: two requests of id {id}");
        call
    }

    /// A request that goes into the outbox now; the future is of its answer.
    pub(crate) fn begin(self: &Rc<Self>, asked: Asked) -> Answer {
        Answer { id: asked.id, call: self.insert(asked, false), calls: self.clone() }
    }

    /// A one-way message that goes into the outbox now.
    pub(crate) fn begin_one_way(&self, asked: Asked) {
        self.insert(asked, true);
    }

    /// A request has left.
    pub(crate) fn sent(&self, id: u64) {
        if let Some(call) = self.table.borrow().get(&id) {
            let mut gauge = call.gauge.borrow_mut();
            debug_assert!(!self.outbox.has(id), "never-sent-never-handled: {id} is there still");
            gauge.becomes(Gauge::InFlight);
            gauge.tally().count(|it| {
                it.sent += 1;
                it.sent_bytes += call.bytes;
            });
        }
    }

    /// The oldest request.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.table.borrow().keys().next().copied()
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
            return Err(Damaged::new("answer of another kind than the question", 0));
        }
        if self.planted == Some(Planted::KeepsRoom) && call.is_left.get() {
            std::mem::forget(call.clone());
        }
        end(&call, outcome);
        Ok(())
    }

    /// Nobody waits for an answer any more; whether nothing of it was sent.
    fn leave(&self, id: u64) -> bool {
        if self.outbox.withdraw(id) {
            let withdrawn = self.table.borrow_mut().remove(&id);
            debug_assert!(withdrawn.is_some(), "one-answer: {id} was queued, and nobody asked");
            return true;
        }
        if let Some(call) = self.table.borrow().get(&id) {
            call.is_left.set(true);
            if self.planted != Some(Planted::CancelsAlone) {
                self.outbox.push_small(Header::bare(Kind::Cancel, id, 0));
            }
        }
        false
    }

    /// The connection has ended; `unsent`: what was still in its outbox, in order.
    pub(crate) fn close(&self, down: &Down, unsent: &[u64]) {
        debug_assert!(unsent.is_sorted(), "never-sent-never-handled: in the order of their ids");
        debug_assert!(self.outbox.is_empty(), "never-sent-never-handled: some may still leave");
        for (id, call) in std::mem::take(&mut *self.table.borrow_mut()) {
            let error = match unsent.binary_search(&id) {
                Ok(_) => CallError::NeverSent(NotSent::Down(down.clone())),
                Err(_) => CallError::OutcomeUnknown(Lost::Broken(down.clone())),
            };
            end(&call, Err(error));
        }
        debug_assert_eq!(self.count(), 0, "one-answer: a call outlives its connection");
    }
}

fn end(call: &Call, outcome: Result<Reply, CallError>) {
    debug_assert!(call.is_left.get() || !call.is_one_way, "one-answer: nobody waits for that");
    if call.is_left.get() {
        return;
    }
    let before = call.outcome.replace(Some(outcome));
    debug_assert!(before.is_none(), "one-answer: a second one");
    if let Some(waker) = call.waker.take() {
        waker.wake();
    }
}

/// The future of an answer. Dropping it cancels the request.
#[derive(Debug)]
pub(crate) struct Answer {
    id: u64,
    call: Rc<Call>,
    calls: Rc<Calls>,
}

impl Answer {
    /// Its time is over, and there is no answer: what the caller is told.
    pub(crate) fn give_up(self) -> CallError {
        match self.calls.leave(self.id) {
            true => CallError::NeverSent(NotSent::TooLate),
            false => CallError::OutcomeUnknown(Lost::TooLate),
        }
    }
}

impl Future for &mut Answer {
    type Output = Result<Reply, CallError>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.call.outcome.take() {
            Some(outcome) => {
                self.call.is_left.set(true);
                Poll::Ready(outcome)
            }
            None => {
                debug_assert!(!self.call.is_left.get(), "one-answer: polled after its end");
                self.call.waker.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if !self.call.is_left.get() {
            self.call.is_left.set(true);
            self.calls.leave(self.id);
        }
    }
}
