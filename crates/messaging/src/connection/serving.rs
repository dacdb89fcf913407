//! What is asked by the other end, and how it is answered.
//!
//! Invariants
//!  - *one-answer* (of calls): each request is answered once, and gives its place in the window
//!    back before its answer is on its way.

use super::{Connection, Side};
use crate::budget::{Pair, by_deadline};
use crate::counters::{Gauge, VerbTally};
use crate::frame::{Code, Header, Kind};
use crate::names::Verb;
use crate::outbox::Frame;
use crate::payload::Payload;
use crate::streams::{Begins, Stream, memory_bytes};
use crate::verbs::{Answers, Done, Handler, Handling, Local, Request, Sender, Served};
use runtime::sync::{Notify, Permit};
use runtime::task::{Either, race};
use runtime::time::{Instant, sleep_until};
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;
use stdx::{Damaged, HashMap};

/// The handlers that wait, each with what tells it to end.
#[derive(Debug, Default)]
pub(super) struct Running {
    table: RefCell<HashMap<u64, Rc<Notify>>>,
}

impl Running {
    pub(super) fn count(&self) -> usize {
        self.table.borrow().len()
    }

    /// What tells it to end.
    fn begin(&self, id: u64) -> Rc<Notify> {
        let stop = Rc::<Notify>::default();
        let before = self.table.borrow_mut().insert(id, stop.clone());
        assert!(before.is_none(), "one-answer: two handlers of id {id}");
        stop
    }

    fn end(&self, id: u64) {
        let ended = self.table.borrow_mut().remove(&id);
        debug_assert!(ended.is_some(), "one-answer: the handler of {id} ends twice");
    }

    /// Nobody waits for the answer any more, if it is not on its way already.
    pub(super) fn cancel(&self, id: u64) {
        if let Some(stop) = self.table.borrow().get(&id) {
            stop.notify_one();
        }
    }
}

/// What holds the memory and the place of something that was asked.
struct Held {
    memory: Permit,
    place: Pair,
}

impl Connection {
    /// Begins to handle what came.
    pub(super) fn begin(
        self: &Rc<Self>,
        header: &Header,
        body: Vec<u8>,
        memory: Permit,
    ) -> Result<(), Damaged> {
        debug_assert!(self.last_id.get() < header.id, "one-answer: {} begins again", header.id);
        debug_assert_eq!(self.facts.side, Side::Acceptor, "only the acceptor answers");
        self.last_id.set(header.id);
        let place = self.place_of(body.len())?;
        let known = self.services.verbs.get(header.verb);
        let held = Held { memory, place };
        if self.services.stops.get() {
            self.refuse(header, Code::Stopping, held);
            return Ok(());
        }
        let Some((verb, handler)) = known else {
            self.services.complaints.warn(
                &self.who(),
                "verb",
                &format!("{} sends verb {}, which is unknown here", self.who(), header.verb),
            );
            self.refuse(header, Code::UnknownVerb, held);
            return Ok(());
        };
        let (verb, tally) = (*verb, self.services.tally.of(*verb, self.facts.class));
        let request = self.request(header, verb, body, &tally);
        match (header.kind, handler) {
            (Kind::Request, Handler::Request(handler)) => {
                self.handle(&**handler, (request, &tally), held);
            }
            (Kind::OneWay, Handler::OneWay(handler)) => {
                self.handle_one_way(header.id, verb, handler(request), held);
            }
            (Kind::Open, Handler::Stream(handler)) => {
                // What it is about is its own from now on: who reads waits for the memory of
                // requests, so no stream may hold some of that while it lives.
                let bytes = memory_bytes(self.services.config.stream_window_bytes);
                let bytes = bytes + request.payload.borrow().len();
                let purse = &self.services.budget.of(self.facts.class).streams;
                let Some(memory) = purse.try_take(bytes) else {
                    self.refuse(header, Code::Crowded, held);
                    return Ok(());
                };
                drop(held.memory);
                let (place, memory) = (held.place, Some(memory));
                let credit = self.facts.stream_window_bytes;
                let begins = Begins { id: header.id, credit, place, memory };
                let stream = Rc::new(self.streams.begin(begins));
                let handling = handler(request, stream.clone());
                self.handle_stream((header.id, verb), stream, handling);
            }
            _ => self.refuse(header, Code::UnknownVerb, held),
        }
        Ok(())
    }

    /// *both-bounds*: what comes is within the window.
    fn place_of(&self, bytes: usize) -> Result<Pair, Damaged> {
        let place = self.places.try_acquire(1);
        let place_bytes = self.place_bytes.try_acquire(bytes);
        match (place, place_bytes) {
            (Some(place), Some(bytes)) => Ok([Some(place), Some(bytes)]),
            _ => Err(Damaged::new("more is asked than the window allows", 0)),
        }
    }

    fn request(
        &self,
        header: &Header,
        verb: Verb,
        body: Vec<u8>,
        tally: &Rc<VerbTally>,
    ) -> Request {
        tally.count(|it| {
            it.received += 1;
            it.received_bytes += body.len() as u64;
        });
        debug_assert_eq!(verb.number, header.verb, "one-handler: another verb");
        let is_timed = header.kind != Kind::Open && 0 < header.extra;
        let left = Duration::from_micros(header.extra.into());
        Request {
            verb,
            from: Sender {
                host: self.facts.host,
                life: self.facts.life,
                shard: self.facts.shard,
                address: self.facts.address,
                class: self.facts.class,
            },
            deadline: is_timed.then(|| Instant::now() + left),
            payload: RefCell::new(body),
            budget: self.services.budget.clone(),
            id: header.id,
            rooms: self.rooms.clone(),
        }
    }

    /// Answers what is not handled.
    fn refuse(&self, header: &Header, code: Code, held: Held) {
        let Header { kind, id, .. } = *header;
        match kind {
            Kind::Open => {
                let begins = Begins { id, credit: 0, place: held.place, memory: None };
                self.streams.begin(begins).refuse(code);
            }
            Kind::OneWay => {
                drop(held);
                self.outbox.push_small(Header::bare(Kind::Done, id, code as u32));
            }
            _ => {
                drop(held);
                let header = Header::bare(Kind::Error, id, code as u32);
                self.outbox.push_message(Frame::new(header, Payload::empty(), Pair::default()));
            }
        }
    }

    /// Handles a request. One that need not wait is answered before this returns, and is never in
    /// the table of those that run.
    fn handle(
        self: &Rc<Self>,
        handler: &Handling,
        (request, tally): (Request, &Rc<VerbTally>),
        Held { memory, place }: Held,
    ) {
        let (id, deadline) = (request.id, request.deadline);
        let gauge = tally.during(Gauge::Handling);
        let asked = Served { id, deadline, gauge, memory, place };
        self.handlers.run_boxed(handler(request, asked, self.clone()));
    }

    /// The memory of an answer that the other end takes, where nobody has to wait for it.
    fn fits_at_once(&self, id: u64, done: &Done) -> Option<Pair> {
        let (Ok(payload) | Err((_, payload))) = done;
        let bytes = payload.len();
        if bytes == 0 {
            return Some(Pair::default());
        }
        if self.facts.message_bytes_max < bytes {
            return None;
        }
        let share = self.leaving.try_acquire(bytes.min(self.leaving_max))?;
        let memory = match self.rooms.take(id).filter(|promised| bytes <= promised.units()) {
            Some(promised) => promised,
            None => self.services.budget.of(self.facts.class).leaving.try_take(bytes)?,
        };
        debug_assert!(share.units() <= self.leaving_max, "share-of-a-peer: {share:?}");
        Some([Some(memory), Some(share)])
    }

    /// An answer that the other end takes, and the memory that it holds until it has left.
    async fn fitted(&self, id: u64, done: Done, deadline: Option<Instant>) -> (Done, Pair) {
        let (Ok(payload) | Err((_, payload))) = &done;
        let bytes = payload.len();
        if self.facts.message_bytes_max < bytes {
            return (Err((Code::TooLarge, Payload::empty())), Pair::default());
        }
        let leaving = &self.services.budget.of(self.facts.class).leaving;
        let promised = self.rooms.take(id).filter(|promised| bytes <= promised.units());
        let memory = match promised.or_else(|| leaving.try_take(bytes)) {
            Some(memory) => Ok(Some(memory)),
            None => {
                stdx::probe!("messaging: an answer waits for memory");
                by_deadline(deadline, leaving.take(bytes)).await
            }
        };
        // *share-of-a-peer*
        let share = self.leaving.acquire(bytes.min(self.leaving_max));
        match (memory, by_deadline(deadline, share).await) {
            (Ok(Some(memory)), Ok(Some(share))) => {
                debug_assert!(share.units() <= self.leaving_max, "share-of-a-peer: {share:?}");
                (done, [Some(memory), Some(share)])
            }
            _ => (Err((Code::TooLate, Payload::empty())), Pair::default()),
        }
    }

    fn push_answer(&self, id: u64, answer: Done, memory: Pair) {
        // Nobody asks for what is left of it.
        drop(self.rooms.take(id));
        let (header, payload) = match answer {
            Ok(payload) => (Header::bare(Kind::Reply, id, 0), payload),
            Err((code, payload)) => (Header::bare(Kind::Error, id, code as u32), payload),
        };
        self.outbox.push_message(Frame::new(header, payload, memory));
    }

    fn handle_one_way(
        self: &Rc<Self>,
        id: u64,
        verb: Verb,
        handling: impl Future<Output = ()> + 'static,
        held: Held,
    ) {
        let (outbox, services) = (self.outbox.clone(), self.services.clone());
        let gauge = services.tally.of(verb, self.facts.class).during(Gauge::Handling);
        // It does not end with its connection: nobody would send it again.
        services.one_way.run(async move {
            handling.await;
            drop((gauge, held));
            outbox.push_small(Header::bare(Kind::Done, id, 0));
        });
    }

    fn handle_stream(
        self: &Rc<Self>,
        (id, verb): (u64, Verb),
        stream: Rc<Stream>,
        handling: impl Future<Output = Result<(), Vec<u8>>> + 'static,
    ) {
        let (connection, stop) = (self.clone(), self.running.begin(id));
        let gauge = self.services.tally.of(verb, self.facts.class).during(Gauge::Handling);
        self.handlers.run(async move {
            let _gauge = gauge;
            let done = race(handling, stop.notified()).await;
            connection.running.end(id);
            match done {
                Either::Left(Ok(())) => stream.finish(),
                Either::Left(Err(why)) => stream.fail(&why),
                Either::Right(()) => {}
            }
        });
    }
}

impl Answers for Connection {
    fn waits(&self, id: u64, deadline: Option<Instant>) -> Local<Code> {
        let stop = self.running.begin(id);
        Box::pin(async move {
            let late = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            match race(stop.notified(), late).await {
                Either::Left(()) => Code::Cancelled,
                Either::Right(()) => Code::TooLate,
            }
        })
    }

    fn goes_on(&self, id: u64) {
        self.running.end(id);
    }

    fn answer(self: Rc<Self>, asked: Served, done: Done) -> Option<Local<()>> {
        let Served { id, deadline, gauge, memory, place } = asked;
        drop(memory);
        if let Some(memory) = self.fits_at_once(id, &done) {
            drop((place, gauge));
            self.push_answer(id, done, memory);
            return None;
        }
        // It may be cancelled no more, and still counts as running.
        self.running.begin(id);
        Some(Box::pin(async move {
            let (answer, memory) = self.fitted(id, done, deadline).await;
            self.running.end(id);
            drop((place, gauge));
            self.push_answer(id, answer, memory);
        }))
    }
}
