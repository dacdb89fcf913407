//! What is asked of the other end.
//!
//! Invariants
//!  - *both-bounds* (of the connection): nothing is asked before it has its place in the window,
//!    and its memory.

use super::{Connection, Side};
use crate::budget::by_deadline;
use crate::calls::{Asked, Reply};
use crate::config::Planted;
use crate::counters::{During, Gauge};
use crate::error::{CallError, Down, NotSent};
use crate::frame::{Header, Kind};
use crate::names::Verb;
use crate::outbox::Frame;
use crate::payload::Payload;
use crate::streams::{Begins, Stream, memory_bytes};
use runtime::sync::{AcquireError, Permit};
use runtime::task::{Either, race};
use runtime::time::{Instant, sleep_until};
use std::rc::Rc;

/// What something that is asked holds.
struct Admitted {
    place: Vec<Permit>,
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
        let mut answer = self.calls.begin(asked);
        let header = Header { verb: verb.number, ..Header::bare(Kind::Request, id, 1) };
        let frame = Frame::new(header, payload, vec![memory]);
        self.outbox.push_message(Frame { deadline: Some(deadline), ..frame });
        let answered = race(&mut answer, sleep_until(deadline)).await;
        match answered {
            Either::Left(outcome) => outcome,
            Either::Right(()) => Err(answer.give_up()),
        }
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
        let header = Header { verb: verb.number, ..Header::bare(Kind::OneWay, asked.id, 0) };
        self.calls.begin_one_way(asked);
        self.outbox.push_message(Frame::new(header, payload, vec![memory]));
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
        self.outbox.push_message(Frame::new(header, payload, vec![memory]));
        Ok(stream)
    }

    fn next_id(&self) -> u64 {
        debug_assert!(self.ended().is_none(), "never-sent-never-handled: asked after the end");
        let id = self.last_id.get() + 1;
        self.last_id.set(id);
        id
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
        let mut place = Vec::new();
        if !self.services.is_planted(Planted::IgnoresWindow) {
            let units = bytes.min(self.place_bytes_max);
            for (units, of) in [(1, &self.places), (units, &self.place_bytes)] {
                let taken = match of.try_acquire(units) {
                    Some(taken) => taken,
                    None => self.admitted(by_deadline(Some(deadline), of.acquire(units)).await)?,
                };
                place.push(taken);
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
