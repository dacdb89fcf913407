//! A connection after its greetings: a reading loop, a writing loop, and a beat.
//!
//! Only the dialer asks, only the acceptor answers; each pair of shards that asks both ways has a
//! connection each way. So neither end has to agree with the other on which of two connections they
//! keep, and ids are given by one end.
//!
//! Invariants
//!  - *both-bounds*: the dialer keeps within the window that the acceptor granted, and the acceptor
//!    ends a connection that does not.
//!  - *paused-is-not-dead*: who does not read says nothing about the other end; a beat is sent
//!    whether we read or not.
//!  - *told-why*: a connection that is ended for a reason carries the reason to the other end.

mod asking;
mod reading;
mod serving;

use crate::algorithms::Algorithms;
use crate::calls::Calls;
use crate::config::Planted;
use crate::counters::add;
use crate::error::{Down, Refusal, Refused};
use crate::frame::{Header, Kind};
use crate::intake::Pulse;
use crate::names::{Class, HostId};
use crate::outbox::Outbox;
use crate::packing::{Packer, Parcels};
use crate::services::Services;
use crate::streams::Streams;
use crate::verbs::Rooms;
use runtime::net::NetError;
use runtime::sync::{Notify, Semaphore};
use runtime::task::{Either, Scope, race};
use runtime::time::{Instant, sleep, timeout};
use serving::Running;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tls::Stream as Wire;

/// How long a last word may take to leave.
const GOODBYE_MAX: Duration = Duration::from_millis(200);

/// What is read at once of what nobody looks at.
const DRAINED_BYTES: usize = 16 << 10;

/// Which end this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// It asks.
    Dialer,
    /// It answers.
    Acceptor,
}

/// What the greetings have settled.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) side: Side,
    pub(crate) host: HostId,
    pub(crate) life: u64,
    pub(crate) address: SocketAddr,
    /// Theirs, and how many they have.
    pub(crate) shard: u16,
    pub(crate) shards: u16,
    pub(crate) class: Class,
    pub(crate) compression: Algorithms,
    pub(crate) encrypted: bool,
    /// The dialer asks who is there, and nothing else.
    pub(crate) is_probe: bool,
    /// The longest body that they take.
    pub(crate) message_bytes_max: usize,
    pub(crate) stream_window_bytes: usize,
    /// The window of the acceptor.
    pub(crate) requests_max: usize,
    pub(crate) request_bytes_max: usize,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) services: Rc<Services>,
    pub(crate) facts: Facts,
    pub(crate) since: Instant,
    wire: Wire,
    /// What came with the greetings.
    early: RefCell<Vec<u8>>,
    outbox: Rc<Outbox>,
    pulse: Pulse,
    last_said: Cell<Instant>,
    /// The window: on the dialer's side what it may still send, on the acceptor's what may come.
    places: Semaphore,
    place_bytes: Semaphore,
    place_bytes_max: usize,
    /// *share-of-a-peer* (of the budget), of answers.
    leaving: Semaphore,
    leaving_max: usize,
    /// The last id that was given, or came.
    last_id: Cell<u64>,
    calls: Rc<Calls>,
    streams: Rc<Streams>,
    running: Running,
    /// Of answers.
    rooms: Rc<Rooms>,
    handlers: Scope,
    ended: RefCell<Option<Down>>,
    ends: Notify,
}

impl Connection {
    /// `early`: what came behind the greetings.
    pub(crate) fn new(
        services: Rc<Services>,
        facts: Facts,
        (wire, early): (Wire, Vec<u8>),
    ) -> Rc<Connection> {
        let dials = facts.side == Side::Dialer;
        let outbox = Rc::new(Outbox::new(dials));
        let share = services.budget.of(facts.class).leaving_share(facts.shards);
        let (window, waiting) = (services.config.stream_window_bytes, services.config.waiting_max);
        let ignores_window = services.is_planted(Planted::IgnoresStreamWindow);
        assert!(
            facts.shard < facts.shards,
            "both-check: shard {} of {}",
            facts.shard,
            facts.shards
        );
        assert!(0 < facts.requests_max, "both-bounds: a window of no request");
        debug_assert_ne!(facts.host, services.config.host, "both-check: it is ourselves");
        debug_assert!(
            facts.message_bytes_max <= facts.request_bytes_max || dials,
            "both-bounds: a message does not fit its window"
        );
        // *share-of-a-peer*, of questions.
        let place_bytes = match dials {
            true => facts.request_bytes_max.min(share),
            false => facts.request_bytes_max,
        };
        Rc::new(Connection {
            since: Instant::now(),
            wire,
            early: RefCell::new(early),
            pulse: Pulse::new(),
            last_said: Cell::new(Instant::now()),
            places: Semaphore::new(facts.requests_max, waiting),
            place_bytes: Semaphore::new(place_bytes, waiting),
            place_bytes_max: place_bytes,
            leaving: Semaphore::new(share, facts.requests_max),
            leaving_max: share,
            last_id: Cell::new(0),
            calls: Rc::new(Calls::new(outbox.clone(), services.config.planted)),
            streams: Rc::new(Streams::new(outbox.clone(), window, ignores_window)),
            running: Running::default(),
            rooms: Rc::default(),
            handlers: Scope::new(),
            ended: RefCell::default(),
            ends: Notify::new(),
            outbox,
            services,
            facts,
        })
    }

    /// As the log calls the other node.
    pub(crate) fn who(&self) -> String {
        let Facts { host, address, .. } = &self.facts;
        format!("node {host} at {address}")
    }

    /// Ends it; the first reason counts.
    pub(crate) fn end(&self, down: Down) {
        self.ended.borrow_mut().get_or_insert(down);
        self.ends.notify_one();
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.borrow().is_some()
    }

    /// Whether it has ended, and why.
    pub(crate) fn ended(&self) -> Option<Down> {
        self.ended.borrow().clone()
    }

    /// Requests, messages and streams without an answer, and bytes that were not sent yet.
    pub(crate) fn load(&self) -> (usize, usize) {
        let (calls, running) = (self.calls.count(), self.running.count());
        debug_assert!(calls == 0 || running == 0, "only the dialer asks: {calls} and {running}");
        let asked = calls + self.streams.count() + running;
        (asked, self.outbox.queued_bytes())
    }

    /// Whether the other end was heard lately.
    pub(crate) fn is_heard(&self) -> bool {
        let lately = 2 * self.services.config.beat_period;
        debug_assert!(lately < self.services.config.silence_max, "paused-is-not-dead: lately");
        self.pulse.silent_since().is_none_or(|since| since.elapsed() <= lately)
    }

    /// Whether nothing is asked, answered or to be sent.
    pub(crate) fn is_idle(&self) -> bool {
        self.load() == (0, 0) && self.outbox.is_empty()
    }

    /// Runs it to its end: why it has ended.
    pub(crate) async fn run(self: &Rc<Self>) -> Down {
        let _told = ToldAtTheEnd(self);
        if self.facts.side == Side::Dialer {
            let calls = self.calls.clone();
            self.handlers.spawn(async move { calls.keep_time().await });
        }
        let mut writing = std::pin::pin!(self.write_all());
        let mut serving = std::pin::pin!(self.serve());
        let (ended, writes) = match race(writing.as_mut(), serving.as_mut()).await {
            Either::Left(error) => {
                (Down::Net(error.map_or("ended".to_string(), |it| it.to_string())), false)
            }
            Either::Right(down) => (down, true),
        };
        let ended = self.close(ended).await;
        if let Some(refused) = last_word(&ended)
            && writes
        {
            self.outbox.say_goodbye(refused);
            // *told-why*, where the other end listens.
            if timeout(GOODBYE_MAX, writing.as_mut()).await == Ok(None) {
                let _ = timeout(GOODBYE_MAX, self.drain()).await;
            }
        }
        let _ = self.wire.shutdown_both();
        ended
    }

    /// Reads until something ends it.
    async fn serve(self: &Rc<Self>) -> Down {
        let beating = race(self.beat(), self.ends.notified());
        match race(self.read_all(), beating).await {
            Either::Left(down) => down,
            Either::Right(Either::Left(down)) => down,
            Either::Right(Either::Right(())) => {
                self.ended().unwrap_or(Down::Net("ended".to_string()))
            }
        }
    }

    /// Reads to the end what nobody looks at: a socket that is closed with something unread resets
    /// the connection, and with it the goodbye.
    async fn drain(&self) {
        let _ = self.wire.shutdown();
        let mut buf = Vec::with_capacity(DRAINED_BYTES);
        loop {
            let (read, back) = self.wire.read(buf).await;
            if !matches!(read, Ok(1..)) {
                return;
            }
            buf = back;
            buf.clear();
        }
    }

    /// Nothing is asked or answered any more; who waits is told at once.
    async fn close(self: &Rc<Self>, ended: Down) -> Down {
        self.end(ended);
        let ended = self.ended().expect("it was set just now");
        self.places.close();
        self.place_bytes.close();
        let unsent = self.outbox.close();
        match self.services.is_planted(Planted::ForgetsSent) {
            true => self.calls.close(&ended, &(0..=self.last_id.get()).collect::<Vec<_>>()),
            false => self.calls.close(&ended, &unsent),
        }
        self.streams.close(&ended);
        self.handlers.cancel().await;
        self.rooms.clear();
        debug_assert_eq!(self.calls.count(), 0, "one-answer: calls of a connection that is over");
        debug_assert_eq!(self.streams.count(), 0, "told-then-over: streams outlive a connection");
        debug_assert!(self.outbox.is_empty(), "taken-is-sent: something waits for ever");
        ended
    }

    /// Sends what there is to send until the last word, or an error.
    async fn write_all(&self) -> Option<NetError> {
        loop {
            let (first, room, mut leaving) = self.outbox.first().await;
            let is_last = leaving.is_none();
            let packer = Packer { link: self.facts.compression, services: &self.services };
            let mut parcels = Parcels::with_room(room);
            let mut next = Some(first);
            while let Some(frame) = next {
                match frame.header.kind {
                    Kind::Request | Kind::OneWay => self.calls.sent(frame.header.id),
                    Kind::Chunk | Kind::End | Kind::Reset => self.streams.taken(&frame.header),
                    _ => {}
                }
                if let Some(packed) = packer.put(frame, &mut parcels) {
                    // Boxed: what is not compressed is not to pay for its room.
                    Box::pin(packer.put_packed(packed, &mut parcels)).await;
                }
                next = leaving.as_mut().and_then(|leaving| self.outbox.take(leaving));
            }
            let (parts, memory) = parcels.finish();
            let bytes: usize = parts.iter().map(|part| part.len()).sum();
            debug_assert!(0 < bytes, "taken-is-sent: a batch of nothing");
            let written = self.wire.write_all_vectored(parts).await;
            drop(memory);
            if let Err(error) = written {
                return Some(error);
            }
            add(&self.services.tally.sent_bytes, bytes as u64);
            self.last_said.set(Instant::now());
            if is_last {
                return None;
            }
        }
    }

    /// Says that we are here, and listens for whether the other end is.
    async fn beat(&self) -> Down {
        let config = &self.services.config;
        let mut last = Instant::now();
        loop {
            sleep(config.beat_period).await;
            let now = Instant::now();
            if 2 * config.beat_period < now - last {
                // We were not there ourselves: what came meanwhile is not read yet.
                self.pulse.goes_on_from(now);
            }
            last = now;
            if config.beat_period <= now - self.last_said.get() && self.outbox.is_empty() {
                self.outbox.push_small(Header::bare(Kind::Beat, 0, 0));
            }
            if let Some(since) = self.pulse.silent_since()
                && config.silence_max <= now - since
            {
                let text = format!("nothing was heard for {} ms", (now - since).as_millis());
                return Down::RefusedByUs(Refused::new(Refusal::Silent, text));
            }
        }
    }
}

/// Who waits for an answer has no timer but that of its connection: also where a connection is
/// given up as it runs, since its shard stops, all are told.
struct ToldAtTheEnd<'c>(&'c Connection);

impl Drop for ToldAtTheEnd<'_> {
    fn drop(&mut self) {
        let Connection { outbox, calls, .. } = self.0;
        if 0 < calls.count() {
            self.0.end(Down::Stopping);
            calls.close(&Down::Stopping, &outbox.close());
        }
        debug_assert_eq!(calls.count(), 0, "one-answer: a call outlives its connection");
    }
}

/// What the other end is told of an end that is ours.
fn last_word(down: &Down) -> Option<Refused> {
    match down {
        Down::RefusedByUs(refused) => Some(refused.clone()),
        Down::Stopping => Some(Refused::new(Refusal::Stopping, "the node stops")),
        Down::Banned => Some(Refused::new(Refusal::Banned, "the node was banned")),
        Down::UnknownPeer => Some(Refused::new(Refusal::WrongHost, "the node is forgotten")),
        Down::Net(_) | Down::RefusedByPeer(_) => None,
    }
}
