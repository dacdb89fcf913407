//! The registry of a shard: what is done for each verb.
//!
//! Invariants
//!  - *one-handler*: a verb has one handler.

use crate::budget::Budget;
use crate::names::{Class, HostId, Verb};
use crate::payload::Payload;
use crate::streams::Stream;
use runtime::sync::{Notify, Permit};
use runtime::time::Instant;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;

/// Who sent something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    pub host: HostId,
    /// The start of the node: see [`crate::Config::life`].
    pub life: u64,
    pub shard: u16,
    pub address: SocketAddr,
    pub class: Class,
}

/// What a request and its connection share while it is handled.
#[derive(Default)]
pub(crate) struct Handling {
    /// That nobody waits for its answer any more.
    pub(crate) stop: Notify,
    /// Memory that its answer was promised before it is there.
    pub(crate) room: Cell<Option<Permit>>,
}

impl fmt::Debug for Handling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handling").field("stop", &self.stop).finish_non_exhaustive()
    }
}

/// What came: a request, a one-way message, or what a stream is about.
#[derive(Debug)]
pub struct Request {
    pub verb: Verb,
    pub from: Sender,
    /// Until when an answer is waited for.
    pub deadline: Option<Instant>,
    pub(crate) payload: RefCell<Vec<u8>>,
    pub(crate) budget: Rc<Budget>,
    pub(crate) handling: Rc<Handling>,
}

impl Request {
    /// Its bytes; there are none when they were taken.
    pub fn with_payload<R>(&self, look: impl FnOnce(&[u8]) -> R) -> R {
        look(&self.payload.borrow())
    }

    /// Takes its bytes out. They count as held until the handler has ended.
    pub fn take_payload(&self) -> Vec<u8> {
        debug_assert!(
            self.payload.try_borrow().is_ok(),
            "a payload is taken while it is looked at"
        );
        self.payload.take()
    }

    /// Waits until an answer of so many bytes has room: for handlers that read much, before they
    /// do.
    pub async fn reply_room(&self, bytes: usize) {
        // What it had is given back first: nobody holds some and waits for more.
        self.handling.room.take();
        let leaving = &self.budget.of(self.from.class).leaving;
        let promised = leaving.take(bytes).await.ok();
        let before = self.handling.room.replace(promised);
        debug_assert!(before.is_none(), "who waits for room holds none");
    }
}

/// What a handler answers: a payload, or its own words for why not.
pub type Reply = Result<Payload, Payload>;

/// A future of this shard.
pub(crate) type Local<T> = Pin<Box<dyn Future<Output = T>>>;

/// How a stream is served.
pub(crate) type Serving = dyn Fn(Request, Rc<Stream>) -> Local<Result<(), Vec<u8>>>;

/// What is done for a verb.
#[derive(Clone)]
pub(crate) enum Handler {
    Request(Rc<dyn Fn(Request) -> Local<Reply>>),
    OneWay(Rc<dyn Fn(Request) -> Local<()>>),
    Stream(Rc<Serving>),
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Handler::Request(_) => "request",
            Handler::OneWay(_) => "one way",
            Handler::Stream(_) => "stream",
        })
    }
}

/// The registry: each verb has one handler, of requests, of one-way messages, or of streams.
#[derive(Debug, Default)]
pub struct Verbs {
    by_number: Vec<Option<(Verb, Handler)>>,
}

impl Verbs {
    /// Without any verb.
    pub fn new() -> Verbs {
        Verbs::default()
    }

    fn add(&mut self, verb: Verb, handler: Handler) {
        assert!(0 < verb.number, "one-handler: verb 0 is none");
        let number = usize::from(verb.number);
        if self.by_number.len() <= number {
            self.by_number.resize(number + 1, None);
        }
        let before = self.by_number[number].replace((verb, handler));
        assert!(before.is_none(), "one-handler: two for verb {} {}", verb.number, verb.name);
    }

    /// Answers requests. The future is dropped where nobody waits for the answer any more: when the
    /// caller cancels, its time is over, or the connection ends.
    pub fn on_request<F, Fut>(&mut self, verb: Verb, handler: F)
    where
        F: Fn(Request) -> Fut + 'static,
        Fut: Future<Output = Reply> + 'static,
    {
        let handler = move |request| -> Local<Reply> { Box::pin(handler(request)) };
        self.add(verb, Handler::Request(Rc::new(handler)));
    }

    /// Takes one-way messages. The future runs to its end, also when the connection ends.
    pub fn on_one_way<F, Fut>(&mut self, verb: Verb, handler: F)
    where
        F: Fn(Request) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let handler = move |request| -> Local<()> { Box::pin(handler(request)) };
        self.add(verb, Handler::OneWay(Rc::new(handler)));
    }

    /// Serves streams. Where it ends well our side is finished, where not the other end is told.
    /// The future is dropped when the connection ends, or the other end gives up.
    pub fn on_stream<F, Fut>(&mut self, verb: Verb, handler: F)
    where
        F: Fn(Request, Rc<Stream>) -> Fut + 'static,
        Fut: Future<Output = Result<(), Vec<u8>>> + 'static,
    {
        let handler = move |request, stream| -> Local<Result<(), Vec<u8>>> {
            Box::pin(handler(request, stream))
        };
        self.add(verb, Handler::Stream(Rc::new(handler)));
    }

    pub(crate) fn get(&self, number: u16) -> Option<&(Verb, Handler)> {
        let known = self.by_number.get(usize::from(number))?.as_ref();
        debug_assert!(
            known.is_none_or(|(verb, _)| verb.number == number),
            "one-handler: {known:?}"
        );
        known
    }
}
