//! What is asked of the other end.
//!
//! Invariants
//!  - *both-bounds* (of the connection): nothing is asked before it has its place in the window,
//!    and its memory.

use super::{Connection, Side};
use crate::budget::{Pair, by_deadline};
use crate::calls::{Asked, Caller, Reply, Ticket};
use crate::config::Planted;
use crate::counters::{During, Gauge};
use crate::error::{CallError, Down, NotSent};
use crate::frame::{Header, Kind};
use crate::names::Verb;
use crate::outbox::Frame;
use crate::payload::Payload;
use crate::streams::{Begins, Stream, memory_bytes};
use runtime::sync::{AcquireError, Permit};
use runtime::time::Instant;
use std::rc::Rc;

/// What something that is asked holds.
struct Admitted {
    place: Pair,
    memory: Permit,
    gauge: During,
}

impl Connection {
    /// Asks, and waits for the answer until `deadline`.
    pub(crate) async fn call(
        self: &Rc<Self>,
        verb: Verb,
        payload: Payload,
        deadline: Instant,
    ) -> Result<Reply, CallError> {
        let Admitted { place, memory, gauge } = self.admit(verb, &payload, deadline).await?;
        let asked = Asked { id: self.next_id(), place, gauge, bytes: payload.len() as u64 };
        let id = asked.id;
        let answer = self.calls.begin(asked, deadline);
        self.push_request(id, verb, payload, deadline, memory);
        answer.await
    }

    /// The same without a future, if there is room now; if not, the payload comes back.
    pub(crate) fn call_at_once(
        &self,
        verb: Verb,
        payload: Payload,
        deadline: Instant,
        caller: &Rc<dyn Caller>,
        number: usize,
    ) -> Result<Ticket, Payload> {
        let Some(Admitted { place, memory, gauge }) = self.admit_at_once(verb, payload.len())
        else {
            return Err(payload);
        };
        let asked = Asked { id: self.next_id(), place, gauge, bytes: payload.len() as u64 };
        let id = asked.id;
        self.calls.begin_for(asked, deadline, (caller.clone(), number));
        self.push_request(id, verb, payload, deadline, memory);
        Ok(Ticket::new(self.calls.clone(), id))
    }

    /// See [`crate::Messaging::end_callers`].
    pub(crate) fn end_callers(&self) {
        self.calls.end_callers();
    }

    fn push_request(
        &self,
        id: u64,
        verb: Verb,
        payload: Payload,
        deadline: Instant,
        memory: Permit,
    ) {
        debug_assert_eq!(id, self.last_id.get(), "opened-first: another one goes before {id}");
        stdx::trace!("asks {}: {} {id}, {} bytes", self.who(), verb.name, payload.len());
        let header = Header { verb: verb.number, ..Header::bare(Kind::Request, id, 1) };
        let frame = Frame::new(header, payload, [Some(memory), None]);
        self.outbox.push_message(Frame { deadline: Some(deadline), ..frame });
    }

    /// Sends a message that has no answer, once there is room for it.
    pub(crate) async fn send(
        self: &Rc<Self>,
        verb: Verb,
        payload: Payload,
        deadline: Instant,
    ) -> Result<(), CallError> {
        let Admitted { place, memory, gauge } = self.admit(verb, &payload, deadline).await?;
        let asked = Asked { id: self.next_id(), place, gauge, bytes: payload.len() as u64 };
        stdx::trace!("tells {}: {} {}", self.who(), verb.name, asked.id);
        let header = Header { verb: verb.number, ..Header::bare(Kind::OneWay, asked.id, 0) };
        self.calls.begin_one_way(asked);
        self.outbox.push_message(Frame::new(header, payload, [Some(memory), None]));
        Ok(())
    }

    /// Opens a stream, once there is room for it.
    pub(crate) async fn open(
        self: &Rc<Self>,
        verb: Verb,
        payload: Payload,
        deadline: Instant,
    ) -> Result<Stream, CallError> {
        let Admitted { place, memory, gauge } = self.admit(verb, &payload, deadline).await?;
        let window = self.services.config.stream_window_bytes;
        let purse = &self.services.budget.of(self.facts.class).streams;
        let ours = by_deadline(Some(deadline), purse.take(memory_bytes(window))).await;
        let ours = self.admitted(ours)?;
        debug_assert!(0 < ours.units(), "within-window: a stream without memory");
        let id = self.next_id();
        gauge.tally().count(|it| {
            it.sent += 1;
            it.sent_bytes += payload.len() as u64;
        });
        let credit = self.facts.stream_window_bytes;
        let stream = self.streams.begin(Begins { id, credit, place, memory: Some(ours) });
        let header = Header { verb: verb.number, ..Header::bare(Kind::Open, id, 0) };
        self.outbox.push_message(Frame::new(header, payload, [Some(memory), None]));
        Ok(stream)
    }

    fn next_id(&self) -> u64 {
        debug_assert!(self.ended().is_none(), "never-sent-never-handled: asked after the end");
        let id = self.last_id.get() + 1;
        self.last_id.set(id);
        id
    }

    /// A place in the window, and memory, if nobody has to wait for them.
    fn admit_at_once(&self, verb: Verb, bytes: usize) -> Option<Admitted> {
        debug_assert_eq!(self.facts.side, Side::Dialer, "both-bounds: an acceptor asks");
        if self.facts.message_bytes_max < bytes || self.services.is_planted(Planted::IgnoresWindow)
        {
            return None;
        }
        let place = self.places.try_acquire(1)?;
        let place_bytes = self.place_bytes.try_acquire(bytes.min(self.place_bytes_max))?;
        let memory = self.services.budget.of(self.facts.class).leaving.try_take(bytes)?;
        let gauge = self.services.tally.of(verb, self.facts.class).during(Gauge::Queued);
        Some(Admitted { place: [Some(place), Some(place_bytes)], memory, gauge })
    }

    /// Waits for a place in the window, and for memory.
    async fn admit(
        &self,
        verb: Verb,
        payload: &Payload,
        deadline: Instant,
    ) -> Result<Admitted, CallError> {
        debug_assert_eq!(self.facts.side, Side::Dialer, "both-bounds: an acceptor asks");
        let (bytes, max) = (payload.len(), self.facts.message_bytes_max);
        if max < bytes {
            return Err(CallError::NeverSent(NotSent::TooLarge { bytes, max }));
        }
        let tally = self.services.tally.of(verb, self.facts.class);
        let gauge = tally.during(Gauge::Queued);
        let mut place = Pair::default();
        if !self.services.is_planted(Planted::IgnoresWindow) {
            let units = bytes.min(self.place_bytes_max);
            let wanted = [(1, &self.places), (units, &self.place_bytes)];
            for (place, (units, of)) in place.iter_mut().zip(wanted) {
                let taken = match of.try_acquire(units) {
                    Some(taken) => taken,
                    None => self.admitted(by_deadline(Some(deadline), of.acquire(units)).await)?,
                };
                *place = Some(taken);
            }
        }
        let leaving = &self.services.budget.of(self.facts.class).leaving;
        let memory = match leaving.try_take(bytes) {
            Some(memory) => Ok(Some(memory)),
            None => by_deadline(Some(deadline), leaving.take(bytes)).await,
        };
        let memory = self.admitted(memory)?;
        debug_assert!(memory.units() <= leaving.total_bytes(), "bounded-memory: {memory:?}");
        Ok(Admitted { place, memory, gauge })
    }

    fn admitted(&self, taken: Result<Option<Permit>, AcquireError>) -> Result<Permit, CallError> {
        let not_sent = match taken {
            // It may have ended while we waited.
            Ok(Some(permit)) => match self.ended() {
                None => return Ok(permit),
                Some(down) => NotSent::Down(down),
            },
            Ok(None) => NotSent::TooLate,
            Err(AcquireError::QueueFull) => NotSent::Crowded,
            Err(AcquireError::Closed) => {
                NotSent::Down(self.ended().unwrap_or(Down::Net("ended".to_string())))
            }
        };
        Err(CallError::NeverSent(not_sent))
    }
}
