//! Admission control: the memory of all requests in flight on a shard, and the queue of
//! connections that wait for it.
//!
//! A request is charged for its body and for the response that is expected, before its body is
//! parsed; the charge ends with the request, and from then on its response is charged until it is
//! sent. A connection that finds no room waits in the queue and reads nothing meanwhile, so that
//! TCP slows the client down; one that lags behind its client for too long sheds instead.
//!
//! Invariants
//!  - *charges-return*: with nothing in flight and nothing unsent, nothing is charged.
//!  - *fifo*: requests are admitted in their order, but small ones pass large ones that find no
//!    memory; a turn is several requests.
//!  - *few-run*: while so many requests run as keep all nodes busy, none is admitted: in a cluster
//!    that cannot keep up they would all be answered too late. How many: [`window`].
//!  - *progress*: with nothing in flight a request is admitted, whatever is charged; while nothing
//!    moves, memory held for clients that do not read keeps no small request out; with nothing
//!    running one runs, but for large ones while *flooded*.
//!  - *unread-is-a-quarter*: responses that clients do not read, and requests that wait for their
//!    own client, take no more than a quarter of the memory from other requests.
//!  - *small-ones-go*: requests that take more than a 64th of the memory leave a quarter of it to
//!    smaller ones, and these wait for none of the large ones, neither to be admitted nor to run.
//!  - *one-grows*: where large requests find no memory, one of those whose response outgrows its
//!    charge, the privileged one, goes on to its end; the others wait for memory or for the
//!    privilege, before requests that want to run or to be admitted. What it grows by is not taken
//!    from small requests.
//!  - *flooded*: while twice the memory is unread, only small requests run. Clients that do not
//!    read are disconnected then ([`Unread`]), so it passes.
//!  - *no-lost-wake*: whatever makes room ends in [`Admission::pump`].
//!
//! Allocates only for waiting requests.

pub(crate) mod window;

use cluster::Live;
use query::Workload;
use runtime::sync::Notify;
use runtime::task::{Either, race};
use runtime::time::{Instant, sleep_until};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// What a request is charged beside its body and its answer: its task.
pub(crate) const TASK_BYTES: usize = 2 << 10;
/// Copies of a body: in the read buffer, taken out of it, and as a mutation.
const BODY_FACTOR: usize = 3;
/// Copies of a response: as rows, then as an envelope.
const ANSWER_FACTOR: usize = 2;
/// A request is small that takes no more than this fraction of the memory.
const SMALL_PART: usize = 64;
/// The response to a connection's first request is assumed to take this fraction of the memory: so
/// few of these run at a time, and each counts as small while others hold much.
const UNKNOWN_PART: usize = 160;
/// What one client may leave unread is a quarter of what is free, within these bounds.
const UNSENT_BYTES: std::ops::RangeInclusive<usize> = 64 << 10..=8 << 20;
/// Requests that one turn in the queue admits, at least and at most.
const TURN_MIN: usize = 4;
const TURN_MAX: usize = 64;
/// While the shard is overloaded, requests may wait for this fraction of the usual time.
const OVERLOADED_PATIENCE: u32 = 20;

/// Requests of batch workloads may wait this many times as long.
const BATCH_PATIENCE: u32 = 30;

/// The option that [`Limits::requests_max`] is.
pub(crate) const REQUESTS_OPTION: &str = "max_concurrent_requests_per_shard";

/// The limits of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of requests in flight and of unsent responses.
    pub memory_bytes: usize,
    /// Requests in flight; more are shed at once. Changes while the node runs: see
    /// [`REQUESTS_OPTION`].
    pub requests_max: usize,
    /// Requests admitted and not begun; more wait in the queue, where they cost only their bytes.
    pub unbegun_max: usize,
    /// Requests that run, most of them waiting for other nodes or the disk; more are not admitted,
    /// and fewer where the processor cannot keep up ([`window`]).
    pub running_max: usize,
    /// Connections in the queue; the requests of more are shed at once.
    pub waiting_max: usize,
    /// How long a connection may lag behind its client before its requests are shed.
    pub patience: Duration,
}

impl Limits {
    /// For a shard with so much memory: a tenth of it.
    pub fn of_shard(shard_bytes: usize) -> Limits {
        Limits {
            memory_bytes: shard_bytes / 10,
            requests_max: u32::MAX as usize,
            unbegun_max: 512,
            running_max: 2048,
            waiting_max: 4096,
            patience: Duration::from_secs(1),
        }
    }

    /// The largest body that can ever be admitted.
    pub fn body_bytes_max(&self) -> usize {
        self.memory_bytes.saturating_sub(TASK_BYTES) / BODY_FACTOR
    }

    /// How long what was read may wait while the shard is overloaded.
    pub(crate) fn patience_overloaded(&self) -> Duration {
        self.patience / OVERLOADED_PATIENCE
    }

    /// Until when a request may wait that finds no room. While the shard is not overloaded, until
    /// the connection has lagged for the usual patience; from then on each read has its own time,
    /// which is shorter the less the connection keeps up. Interactive clients send at their own
    /// pace, however long they wait: their requests always wait as if the shard were overloaded.
    /// Batch clients send less while they wait, so theirs may wait longer.
    pub(crate) fn deadline(&self, workload: Option<Workload>, lag: Lag) -> Instant {
        let soon = lag.read_since + self.patience_overloaded() / (1 << lag.halvings);
        match workload {
            Some(Workload::Interactive) => soon,
            Some(Workload::Batch) => lag.read_since + BATCH_PATIENCE * self.patience,
            None if lag.is_overloaded => soon,
            None => lag.since + self.patience,
        }
    }

    /// The assumed size of the response to the first request of a connection.
    pub(crate) fn unknown_answer_bytes(&self) -> usize {
        self.memory_bytes / UNKNOWN_PART
    }

    /// What a request is charged.
    pub(crate) fn charge(&self, body_bytes: usize, answer_bytes: usize) -> usize {
        let bytes = TASK_BYTES + BODY_FACTOR * body_bytes + ANSWER_FACTOR * answer_bytes;
        bytes.min(self.memory_bytes)
    }
}

/// How far a connection lags behind its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lag {
    /// When there was first more than could be admitted.
    pub(crate) since: Instant,
    /// When the last read was.
    pub(crate) read_since: Instant,
    /// How often its time was halved, because a read found more than it could take.
    pub(crate) halvings: u32,
    /// Whether the shard sheds.
    pub(crate) is_overloaded: bool,
}

/// Why a request is shed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shed {
    /// The maximum number of requests is in flight.
    TooMany,
    /// The queue is full.
    LineFull,
    /// It could not be admitted in time.
    TooLate,
}

impl Shed {
    /// The error message.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Shed::TooMany => "overloaded: max_concurrent_requests_per_shard requests are in flight",
            Shed::LineFull => "overloaded: too many connections are waiting for this shard",
            Shed::TooLate => "overloaded: this shard cannot keep up with its requests",
        }
    }
}

/// What is charged now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Load {
    /// Of requests.
    memory: usize,
    /// What the privileged request took beyond the memory.
    overdrawn: usize,
    /// Of unsent responses.
    unsent: usize,
    /// Of requests that wait for their own client, or for others of its requests that do.
    stalled: usize,
    in_flight: usize,
    /// Admitted and not begun, and the places that turns have left.
    unbegun: usize,
    /// Begun and past the last gate.
    running: usize,
    /// How many fewer may run than the limits say.
    narrowed: usize,
}

impl Load {
    /// What requests find taken (*unread-is-a-quarter*).
    fn taken(&self, limits: &Limits) -> usize {
        self.memory + self.unread().min(limits.memory_bytes / 4)
    }

    /// What is held for clients that do not read.
    fn unread(&self) -> usize {
        self.unsent + self.stalled
    }

    /// What a privileged request, or another one, grows by.
    fn growth(&mut self, is_privileged: bool) -> &mut usize {
        if is_privileged { &mut self.overdrawn } else { &mut self.memory }
    }

    fn is_flooded(&self, limits: &Limits) -> bool {
        2 * limits.memory_bytes <= self.unread()
    }
}

/// Whether a request that takes so many bytes is small.
fn is_small(limits: &Limits, whole: usize) -> bool {
    whole <= limits.memory_bytes / SMALL_PART
}

/// Whether a request finds so many bytes more, of as many in all (*small-ones-go*).
fn finds(limits: &Limits, load: &Load, bytes: usize, whole: usize) -> bool {
    let (bytes, memory) = match is_small(limits, whole) {
        true => (bytes, limits.memory_bytes),
        // However large a request is, it fits at some time.
        false => (bytes.min(limits.memory_bytes / 2), limits.memory_bytes / 4 * 3),
    };
    load.taken(limits).saturating_add(bytes) <= memory
}

/// Whether one more request of so many bytes has room.
fn has_room(limits: &Limits, load: &Load, bytes: usize) -> bool {
    let nothing_moves = load.running == 0 && load.unbegun == 0;
    (load.running + load.narrowed < limits.running_max && finds(limits, load, bytes, bytes))
        || load.in_flight == 0
        || (nothing_moves && is_small(limits, bytes))
}

/// Whether an admitted request may run, which takes so many bytes more, and so many in all.
fn may_run(limits: &Limits, load: &Load, bytes: usize, whole: usize) -> bool {
    let waits = load.is_flooded(limits) && !is_small(limits, whole);
    !waits && (load.running == 0 || finds(limits, load, bytes, whole))
}

/// Whether one that runs finds so many bytes more. A request that grows is large.
fn may_grow(limits: &Limits, load: &Load, bytes: usize) -> bool {
    !load.is_flooded(limits) && finds(limits, load, bytes, usize::MAX)
}

/// How many requests a turn is, when so many wait.
fn turn_of(limits: &Limits, waiting: usize) -> usize {
    let share = limits.unbegun_max / (2 * waiting.max(1));
    share.clamp(TURN_MIN, TURN_MAX).min(limits.unbegun_max)
}

/// What happened on a shard since its start, and its current state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub requests_admitted: u64,
    /// Had to wait to be admitted, or to run.
    pub requests_blocked: u64,
    /// Answered OVERLOADED.
    pub requests_shed: u64,
    /// Larger than can ever be admitted.
    pub requests_too_large: u64,
    /// Connections that were closed because their clients did not read while memory was short.
    pub connections_stuck: u64,
    /// Connections that had to wait for their turn to be started.
    pub handshakes_blocked: u64,
    /// Unauthenticated connections that were closed: too slow, or too many.
    pub unauthenticated_ended: u64,
    /// Connections whose TLS handshake failed.
    pub tls_refused: u64,
    /// Now.
    pub requests_in_flight: u64,
    pub connections_waiting: u64,
    /// How many may run: fewer while the processor cannot keep up.
    pub requests_running_max: u64,
    pub memory_bytes: u64,
    pub memory_bytes_max: u64,
}

/// See the module. One per shard.
#[derive(Debug)]
pub(crate) struct Admission {
    limits: Limits,
    requests_max: Live<i64>,
    load: Cell<Load>,
    counters: Cell<Counters>,
    /// Connections that want a request admitted.
    entering: Lines,
    /// Requests that want to run.
    starting: Lines,
    /// Requests that run and want more memory.
    growing: Line,
    /// Whether one of those that run is privileged (*one-grows*).
    has_privileged: Cell<bool>,
    /// Places that were taken so far.
    places: Cell<u64>,
    overloaded_until: Cell<Instant>,
    /// Somebody found as many running as may.
    filled: Notify,
}

/// Requests that wait for the same.
type Line = RefCell<VecDeque<Rc<Place>>>;
/// Small requests, and large ones.
type Lines = [Line; 2];

/// A place in a line.
#[derive(Debug)]
struct Place {
    /// Lower for those that came earlier.
    number: u64,
    bytes: usize,
    /// With those that it was charged before.
    whole: usize,
    state: Cell<PlaceState>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlaceState {
    Waiting,
    /// It got what it waits for: that and a turn of so many requests, or the privilege (1).
    Granted(usize),
    /// It no longer waits.
    Left,
}

impl Place {
    fn grant(&self, turn: usize) {
        self.state.set(PlaceState::Granted(turn));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// The first of a line that still waits.
fn first(line: &Line) -> Option<Rc<Place>> {
    let mut line = line.borrow_mut();
    while line.front()?.state.get() == PlaceState::Left {
        line.pop_front();
    }
    line.front().cloned()
}

impl Admission {
    /// With limits that stay.
    #[cfg(test)]
    pub(crate) fn new(limits: Limits) -> Rc<Admission> {
        Admission::live(limits, Live::fixed(limits.requests_max as i64))
    }

    /// With a number of requests that may change.
    pub(crate) fn live(limits: Limits, requests_max: Live<i64>) -> Rc<Admission> {
        Rc::new(Admission {
            limits,
            requests_max,
            load: Cell::default(),
            counters: Cell::default(),
            entering: Default::default(),
            starting: Default::default(),
            growing: Default::default(),
            has_privileged: Cell::default(),
            places: Cell::default(),
            overloaded_until: Cell::new(Instant::ZERO),
            filled: Notify::new(),
        })
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What happened, and the current state.
    pub(crate) fn counters(&self) -> Counters {
        let load = self.load.get();
        Counters {
            requests_in_flight: load.in_flight as u64,
            connections_waiting: self.waiting() as u64,
            requests_running_max: self.window() as u64,
            memory_bytes: (load.memory + load.overdrawn + load.unread()) as u64,
            memory_bytes_max: self.limits.memory_bytes as u64,
            ..self.counters.get()
        }
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    fn change(&self, change: impl FnOnce(&mut Load)) {
        let mut load = self.load.get();
        change(&mut load);
        self.load.set(load);
    }

    fn waiting(&self) -> usize {
        let waits = |place: &&Rc<Place>| place.state.get() == PlaceState::Waiting;
        self.entering.iter().map(|line| line.borrow().iter().filter(waits).count()).sum()
    }

    /// A place at the end of a line, for a request that is charged so much already.
    fn wait_in(&self, lines: &Lines, bytes: usize, before: usize) -> Rc<Place> {
        let whole = before + bytes;
        self.wait_at(self.line(lines, whole), bytes, whole)
    }

    fn wait_at(&self, line: &Line, bytes: usize, whole: usize) -> Rc<Place> {
        let number = self.places.get();
        self.places.set(number + 1);
        let (state, waker) = (Cell::new(PlaceState::Waiting), RefCell::new(None));
        let place = Rc::new(Place { number, bytes, whole, state, waker });
        line.borrow_mut().push_back(place.clone());
        self.pump();
        place
    }

    /// Where a request waits that takes so much.
    fn line<'l>(&self, lines: &'l Lines, whole: usize) -> &'l Line {
        &lines[usize::from(!is_small(&self.limits, whole))]
    }

    /// Whether a request has to wait for earlier ones to be admitted, as far as memory goes: for a
    /// large one only if that would find some.
    fn has_before(&self, load: &Load, bytes: usize) -> bool {
        let is_before = |large: Rc<Place>| {
            !is_small(&self.limits, bytes) || has_room(&self.limits, load, large.bytes)
        };
        self.has_line() || first(&self.entering[1]).is_some_and(is_before)
    }

    /// Admits a request at once, if possible. `None`: it has to wait.
    pub(crate) fn try_admit(
        self: &Rc<Self>,
        bytes: usize,
        turn: &mut Turn,
    ) -> Option<Result<Charge, Shed>> {
        let load = self.load.get();
        if self.requests_max.get() <= load.in_flight as i64 {
            return Some(Err(Shed::TooMany));
        }
        if !has_room(&self.limits, &load, bytes) {
            self.filled.notify_one();
            return None;
        }
        let in_turn = turn.take();
        if !in_turn {
            if self.limits.unbegun_max <= load.unbegun || self.has_before(&load, bytes) {
                return None;
            }
            self.change(|load| load.unbegun += 1);
        }
        self.hold(bytes);
        Some(Ok(self.charge(bytes)))
    }

    fn hold(&self, bytes: usize) {
        self.change(|load| {
            load.memory += bytes;
            load.in_flight += 1;
        });
        self.count(|counters| counters.requests_admitted += 1);
    }

    fn start(&self, bytes: usize) {
        self.change(|load| {
            load.running += 1;
            load.memory += bytes;
        });
    }

    fn charge(self: &Rc<Self>, bytes: usize) -> Charge {
        Charge {
            admission: self.clone(),
            bytes: Cell::new(bytes),
            overdrawn: Cell::default(),
            stage: Stage::Unbegun,
            is_privileged: Cell::default(),
        }
    }

    /// Waits in the queue until a request is admitted, and further ones with it.
    pub(crate) async fn admit(
        self: &Rc<Self>,
        bytes: usize,
        deadline: Instant,
    ) -> Result<(Charge, Turn), Shed> {
        if self.limits.waiting_max <= self.entering_len()
            && self.limits.waiting_max <= self.waiting()
        {
            return Err(Shed::LineFull);
        }
        self.count(|counters| counters.requests_blocked += 1);
        let place = self.wait_in(&self.entering, bytes, 0);
        let wait = Wait { admission: self, place, taken: false, kind: Kind::Enter };
        match race(wait, sleep_until(deadline)).await {
            Either::Left(turn) => {
                let turn = Turn { admission: Some(self.clone()), left: turn };
                Ok((self.charge(bytes), turn))
            }
            Either::Right(()) => Err(Shed::TooLate),
        }
    }

    /// Gives room to those who wait for it, in their order: first to requests that have some, then
    /// to those that were admitted.
    fn pump(&self) {
        while let Some(place) = first(&self.growing) {
            let finds = may_grow(&self.limits, &self.load.get(), place.bytes);
            if !finds && self.has_privileged.replace(true) {
                break;
            }
            self.growing.borrow_mut().pop_front();
            self.change(|load| *load.growth(!finds) += place.bytes);
            place.grant(usize::from(!finds));
        }
        for line in &self.starting {
            while let Some(place) = first(line)
                && may_run(&self.limits, &self.load.get(), place.bytes, place.whole)
            {
                line.borrow_mut().pop_front();
                self.start(place.bytes);
                place.grant(0);
            }
        }
        while let Some((line, turn)) = self.next_to_enter()
            && let Some(place) = line.borrow_mut().pop_front()
        {
            self.change(|load| load.unbegun += turn);
            self.hold(place.bytes);
            place.grant(turn - 1);
        }
    }

    /// The queue whose head is admitted next, and how many requests its turn is: of the heads that
    /// find memory the one that came first.
    fn next_to_enter(&self) -> Option<(&Line, usize)> {
        let load = self.load.get();
        let heads = self.entering.iter().filter_map(|line| Some((line, first(line)?)));
        let (line, _) = heads
            .filter(|(_, place)| has_room(&self.limits, &load, place.bytes))
            .min_by_key(|(_, place)| place.number)?;
        let turn = turn_of(&self.limits, self.entering_len());
        let places = self.limits.unbegun_max.saturating_sub(load.unbegun);
        (turn <= places).then_some((line, turn))
    }

    /// Places in the queues for admission, including those that were left.
    fn entering_len(&self) -> usize {
        self.entering.iter().map(|line| line.borrow().len()).sum()
    }

    /// After room was made.
    #[inline]
    fn made_room(&self) {
        let mut lines = self.entering.iter().chain(&self.starting).chain([&self.growing]);
        if lines.any(|line| !line.borrow().is_empty()) {
            self.pump();
        }
    }

    /// Whether connections may lag for less than usual.
    pub(crate) fn is_overloaded(&self, now: Instant) -> bool {
        now < self.overloaded_until.get()
    }

    /// Whether connections wait for what every request needs.
    pub(crate) fn has_line(&self) -> bool {
        first(&self.entering[0]).is_some()
    }

    /// Something was shed: for a while all may lag for less.
    pub(crate) fn overloaded(&self, now: Instant) {
        self.overloaded_until.set(now + self.limits.patience);
    }

    /// Charges bytes of responses.
    pub(crate) fn add_unsent(&self, bytes: usize) {
        self.change(|load| load.unsent += bytes);
    }

    /// Bytes of responses were sent, or dropped.
    pub(crate) fn sub_unsent(&self, bytes: usize) {
        self.change(|load| load.unsent -= bytes);
        self.made_room();
    }

    /// How much a client may leave unread: less, the less there is for all, so that clients that
    /// do not read never take it all.
    pub(crate) fn unsent_bytes_max(&self) -> usize {
        let load = self.load.get();
        let free = self.limits.memory_bytes.saturating_sub(load.memory + load.unread());
        (free / 4).clamp(*UNSENT_BYTES.start(), *UNSENT_BYTES.end())
    }

    /// Whether a client may leave so much unread.
    pub(crate) fn may_be_unread(&self, bytes: usize) -> bool {
        bytes <= *UNSENT_BYTES.start() || bytes <= self.unsent_bytes_max()
    }

    /// How short memory is of what clients leave unread.
    pub(crate) fn unread(&self) -> Unread {
        let (load, limits) = (self.load.get(), &self.limits);
        if limits.memory_bytes <= load.unread() {
            return Unread::Flood;
        }
        match limits.memory_bytes / 4 * 3 < load.memory + load.unread() {
            true => Unread::Much,
            false => Unread::Little,
        }
    }
}

/// How short memory is of what clients leave unread: how soon those are disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// There is room for all.
    Little,
    /// Memory is short.
    Much,
    /// As much as there is for everything is unread.
    Flood,
}

/// The requests that a connection may still have admitted before others get their turn. Dropping
/// it ends the turn.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    admission: Option<Rc<Admission>>,
    left: usize,
}

impl Turn {
    fn take(&mut self) -> bool {
        let has = 0 < self.left;
        self.left -= usize::from(has);
        has
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let (Some(admission), 1..) = (&self.admission, self.left) {
            admission.change(|load| load.unbegun -= self.left);
            admission.made_room();
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Unbegun,
    /// Its place among those that have not begun is free again.
    Begun,
    Running,
}

/// What a request holds while it is in flight.
#[derive(Debug)]
pub(crate) struct Charge {
    admission: Rc<Admission>,
    bytes: Cell<usize>,
    /// Of these, what it has overdrawn.
    overdrawn: Cell<usize>,
    stage: Stage,
    is_privileged: Cell<bool>,
}

impl Charge {
    /// Others may be admitted: this request runs now, or waits for something else.
    pub(crate) fn begin(&mut self) {
        if self.stage == Stage::Unbegun {
            self.stage = Stage::Begun;
            self.admission.change(|load| load.unbegun -= 1);
            self.admission.made_room();
        }
    }

    /// Charges so many bytes in all, and gives up the privilege (*one-grows*).
    pub(crate) fn give_back_to(&self, bytes: usize) {
        if self.is_privileged.take() {
            self.admission.has_privileged.set(false);
        }
        self.set(bytes);
        self.admission.made_room();
    }

    /// Waits for something that its own client has to do, or others of its requests.
    pub(crate) async fn stall<F: Future>(&self, what: F) -> F::Output {
        let _stalled = Stalled::new(self);
        what.await
    }

    /// Goes on when there is memory for a response of so many bytes.
    pub(crate) async fn run(&mut self, body_bytes: usize, answer_bytes: usize) {
        self.begin();
        assert!(self.stage == Stage::Begun, "a request runs once");
        let admission = &self.admission;
        let before = self.bytes.get();
        let bytes = admission.limits.charge(body_bytes, answer_bytes).saturating_sub(before);
        let (load, whole) = (admission.load.get(), before + bytes);
        let line = admission.line(&admission.starting, whole);
        let waits = first(line).is_some();
        if !waits && may_run(&admission.limits, &load, bytes, whole) {
            admission.start(bytes);
        } else {
            admission.count(|counters| counters.requests_blocked += 1);
            let place = admission.wait_in(&admission.starting, bytes, before);
            Wait { admission, place, taken: false, kind: Kind::Start }.await;
        }
        self.bytes.set(whole);
        self.stage = Stage::Running;
    }

    /// What is charged.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Charges so many bytes in all to a running request, whether there is memory or not.
    pub(crate) fn set(&self, bytes: usize) {
        let (before, overdrawn) = (self.bytes.replace(bytes), self.overdrawn.get());
        // What was overdrawn last is given back first.
        let back = before.saturating_sub(bytes);
        let more = if self.is_privileged.get() { bytes.saturating_sub(before) } else { 0 };
        let after = overdrawn.saturating_sub(back) + more;
        self.overdrawn.set(after);
        self.admission.change(|load| {
            load.overdrawn = load.overdrawn - overdrawn + after;
            load.memory = load.memory - (before - overdrawn) + (bytes - after);
        });
        if 0 < back {
            self.admission.made_room();
        }
    }

    /// The same, if there is memory for it now and no request waits for that.
    pub(crate) fn try_resize(&self, bytes: usize) -> bool {
        let (admission, before) = (&self.admission, self.bytes.get());
        let may = bytes <= before
            || self.is_privileged.get()
            || first(&admission.growing).is_none()
                && may_grow(&admission.limits, &admission.load.get(), bytes - before);
        if may {
            self.set(bytes);
        }
        may
    }

    /// The same, once there is memory for it, or the privilege (*one-grows*).
    pub(crate) async fn resize(&self, bytes: usize) {
        if self.try_resize(bytes) {
            return;
        }
        let (admission, before) = (&self.admission, self.bytes.get());
        admission.count(|counters| counters.requests_blocked += 1);
        let place = admission.wait_at(&admission.growing, bytes - before, bytes);
        let privileged = Wait { admission, place, taken: false, kind: Kind::Grow }.await;
        self.bytes.set(bytes);
        if 0 < privileged {
            self.is_privileged.set(true);
            self.overdrawn.set(bytes - before);
        }
    }

    /// Lets others run: this request has to wait for something else before it can.
    pub(crate) fn pause(&mut self) {
        assert!(self.stage == Stage::Running, "only what runs is paused");
        self.stage = Stage::Begun;
        self.admission.change(|load| load.running -= 1);
        self.admission.made_room();
    }

    /// Charges more: a body that was larger than its envelope.
    pub(crate) fn grow(&self, body_bytes: usize) {
        self.set(self.bytes.get() + BODY_FACTOR * body_bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.admission.change(|load| {
            load.memory -= self.bytes.get() - self.overdrawn.get();
            load.overdrawn -= self.overdrawn.get();
            load.in_flight -= 1;
            match self.stage {
                Stage::Unbegun => load.unbegun -= 1,
                Stage::Begun => {}
                Stage::Running => load.running -= 1,
            }
        });
        if self.is_privileged.get() {
            self.admission.has_privileged.set(false);
        }
        self.admission.made_room();
    }
}

/// While a request waits for its own client.
struct Stalled<'c> {
    charge: &'c Charge,
    bytes: usize,
}

impl Stalled<'_> {
    fn new(charge: &Charge) -> Stalled<'_> {
        let bytes = charge.bytes.get() - charge.overdrawn.get();
        charge.admission.change(|load| {
            load.memory -= bytes;
            load.stalled += bytes;
        });
        charge.admission.made_room();
        Stalled { charge, bytes }
    }
}

impl Drop for Stalled<'_> {
    fn drop(&mut self) {
        self.charge.admission.change(|load| {
            load.stalled -= self.bytes;
            load.memory += self.bytes;
        });
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Enter,
    Start,
    Grow,
}

/// Waits for a place to be granted; the output is what is left of the turn.
struct Wait<'a> {
    admission: &'a Admission,
    place: Rc<Place>,
    taken: bool,
    kind: Kind,
}

impl Future for Wait<'_> {
    type Output = usize;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<usize> {
        match self.place.state.get() {
            PlaceState::Granted(turn) => {
                self.taken = true;
                Poll::Ready(turn)
            }
            _ => {
                self.place.waker.replace(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        match (self.place.state.replace(PlaceState::Left), self.kind) {
            (PlaceState::Granted(turn), Kind::Enter) => self.admission.change(|load| {
                load.memory -= self.place.bytes;
                load.in_flight -= 1;
                load.unbegun -= turn + 1;
            }),
            (PlaceState::Granted(_), Kind::Start) => self.admission.change(|load| {
                load.memory -= self.place.bytes;
                load.running -= 1;
            }),
            (PlaceState::Granted(privileged), Kind::Grow) => {
                self.admission.change(|load| *load.growth(0 < privileged) -= self.place.bytes);
                if 0 < privileged {
                    self.admission.has_privileged.set(false);
                }
            }
            _ => {}
        }
        self.admission.made_room();
    }
}

#[cfg(test)]
mod tests;
