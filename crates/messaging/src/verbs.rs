//! The registry of a shard: what is done for each verb.
//!
//! Invariants
//!  - *one-handler*: a verb has one handler.

use crate::budget::{Budget, Pair};
use crate::counters::During;
use crate::frame::Code;
use crate::names::{Class, HostId, Verb};
use crate::payload::Payload;
use crate::streams::Stream;
use pin_project_lite::pin_project;
use runtime::sync::Permit;
use runtime::time::Instant;
use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use stdx::HashMap;

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

/// Memory that answers of a connection were promised before they are there, by the numbers of their
/// requests: few ask for it.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    promised: RefCell<HashMap<u64, Permit>>,
}

impl Rooms {
    fn give(&self, id: u64, promised: Option<Permit>) {
        debug_assert!(0 < id, "one-answer: nobody has asked");
        let Some(promised) = promised else { return };
        let before = self.promised.borrow_mut().insert(id, promised);
        debug_assert!(before.is_none(), "who waits for room holds none");
    }

    /// Nobody is answered any more.
    pub(crate) fn clear(&self) {
        self.promised.take();
    }

    /// What the answer to a request was promised.
    pub(crate) fn take(&self, id: u64) -> Option<Permit> {
        let mut promised = self.promised.borrow_mut();
        if promised.is_empty() { None } else { promised.remove(&id) }
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
    pub(crate) id: u64,
    pub(crate) rooms: Rc<Rooms>,
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
        drop(self.rooms.take(self.id));
        let leaving = &self.budget.of(self.from.class).leaving;
        let promised = leaving.take(bytes).await.ok();
        self.rooms.give(self.id, promised);
    }
}

/// What a handler answers: a payload, or its own words for why not.
pub type Reply = Result<Payload, Payload>;

/// A future of this shard.
pub(crate) type Local<T> = Pin<Box<dyn Future<Output = T>>>;

/// What a handler has come to, as it is answered.
pub(crate) type Done = Result<Payload, (Code, Payload)>;

/// What takes the answers of handlers: a connection.
pub(crate) trait Answers {
    /// The handler waits: what ends when nobody waits for its answer any more, and why.
    fn waits(&self, id: u64, deadline: Option<Instant>) -> Local<Code>;

    /// It waits no longer: see [`Answers::waits`].
    fn goes_on(&self, id: u64);

    /// Sends an answer, at once or in time.
    fn answer(self: Rc<Self>, served: Served, done: Done) -> Option<Local<()>>;
}

/// A request that is being handled, as its connection knows it.
pub(crate) struct Served {
    pub(crate) id: u64,
    pub(crate) deadline: Option<Instant>,
    pub(crate) gauge: During,
    /// The memory of the request, and its place in the window.
    pub(crate) memory: Permit,
    pub(crate) place: Pair,
}

pin_project! {
    /// A handler and what becomes of its answer: one future, so that one is allocated.
    struct Handled<F> {
        #[pin]
        handler: Option<F>,
        to: Rc<dyn Answers>,
        // Until it is answered.
        served: Option<Served>,
        // Since it waits: what ends when nobody waits for the answer any more.
        beside: Option<Local<Code>>,
        // Where the answer waits for room.
        answering: Option<Local<()>>,
    }
}

impl<F: Future<Output = Reply>> Future for Handled<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        if let Some(handler) = this.handler.as_mut().as_pin_mut() {
            let served = this.served.as_ref().expect("one-answer: handled after its answer");
            let done = match handler.poll(cx) {
                Poll::Ready(Ok(payload)) => Ok(payload),
                Poll::Ready(Err(payload)) => Err((Code::Failed, payload)),
                Poll::Pending => {
                    let begins = || this.to.waits(served.id, served.deadline);
                    let beside = this.beside.get_or_insert_with(begins);
                    let code = std::task::ready!(beside.as_mut().poll(cx));
                    Err((code, Payload::empty()))
                }
            };
            this.handler.set(None);
            debug_assert!(this.answering.is_none(), "one-answer: answered while it was handled");
            let served = this.served.take().expect("one-answer: it was there just now");
            if this.beside.take().is_some() {
                this.to.goes_on(served.id);
            }
            *this.answering = this.to.clone().answer(served, done);
        }
        match this.answering {
            None => Poll::Ready(()),
            Some(answering) => answering.as_mut().poll(cx),
        }
    }
}

/// How a request is served.
pub(crate) type Handling = dyn Fn(Request, Served, Rc<dyn Answers>) -> Local<()>;

/// How a stream is served.
pub(crate) type Serving = dyn Fn(Request, Rc<Stream>) -> Local<Result<(), Vec<u8>>>;

/// What is done for a verb.
#[derive(Clone)]
pub(crate) enum Handler {
    Request(Rc<Handling>),
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
        let serve = move |request, served, to| -> Local<()> {
            let (handler, served) = (Some(handler(request)), Some(served));
            Box::pin(Handled { handler, to, served, beside: None, answering: None })
        };
        self.add(verb, Handler::Request(Rc::new(serve)));
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

    /// As a node has it that does not know a verb: for tests of upgrades.
    #[doc(hidden)]
    pub fn forget(&mut self, verb: Verb) {
        let known = self.by_number.get_mut(usize::from(verb.number));
        let before = known.and_then(Option::take);
        assert!(before.is_some(), "one-handler: none for verb {} {}", verb.number, verb.name);
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
