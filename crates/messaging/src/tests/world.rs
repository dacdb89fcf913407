//! The nodes, what they do for each verb, and what is known of what was asked.

use crate::config::Planted;
use crate::error::{Down, Lost, NotSent};
use crate::policy::{Dialing, Plain};
use crate::streams::StreamError;
use crate::{
    Algorithms, CallError, Caller, Class, Compression, Config, HostId, Messaging, Payload,
    PeerState, Policy, ZstdRules,
};
use crate::{Refusal, Request, Stream, Target, Ticket, ToShard, Verb, Verbs};
use runtime::sim::{NodeId, Options, World};
use runtime::sync::Notify;
use runtime::task::{Either, Scope, race};
use runtime::time::{Instant, sleep};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::{Cursor, Prng, Put};

pub(super) const PORT: u16 = 7000;
/// Answers with its number, after a while, with as many bytes as it is asked for.
pub(super) const ECHO: Verb = Verb::new(1, "ECHO");
/// Answers at once.
pub(super) const BEAT: Verb = Verb::new(2, "BEAT");
/// Has no answer.
pub(super) const NOTE: Verb = Verb::new(3, "NOTE");
/// Sends bytes.
pub(super) const FEED: Verb = Verb::new(4, "FEED");
/// Takes bytes, and tells how many.
pub(super) const SINK: Verb = Verb::new(5, "SINK");
/// Nobody knows it.
pub(super) const RIDDLE: Verb = Verb::new(99, "RIDDLE");

/// How a request ended, as far as its caller knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Answered,
    NeverSent,
    Unknown,
}

/// What is known of all that was asked, by all nodes.
#[derive(Debug, Default)]
pub(super) struct Model {
    next: Cell<u64>,
    handled: RefCell<BTreeMap<u64, u32>>,
    outcomes: RefCell<BTreeMap<u64, Outcome>>,
    pub(super) violations: RefCell<Vec<String>>,
    /// Handlers that were dropped before their end.
    pub(super) dropped: Cell<u64>,
    pub(super) streams_done: Cell<u64>,
    /// Clients end.
    pub(super) quiet: Cell<bool>,
    /// Damaged frames are to be expected.
    pub(super) corrupts: Cell<bool>,
}

impl Model {
    pub(super) fn number(&self) -> u64 {
        self.next.set(self.next.get() + 1);
        self.next.get()
    }

    pub(super) fn wrong(&self, what: String) {
        self.violations.borrow_mut().push(what);
    }

    pub(super) fn handle(&self, number: u64) {
        let mut handled = self.handled.borrow_mut();
        let count = handled.entry(number).or_insert(0);
        *count += 1;
        if 1 < *count {
            self.wrong(format!("handled-at-most-once: {number} was handled {count} times"));
        }
    }

    pub(super) fn handled(&self, number: u64) -> u32 {
        self.handled.borrow().get(&number).copied().unwrap_or(0)
    }

    fn ended(&self, number: u64, outcome: Outcome) {
        self.outcomes.borrow_mut().insert(number, outcome);
    }

    pub(super) fn count(&self, wanted: &Outcome) -> usize {
        self.outcomes.borrow().values().filter(|outcome| *outcome == wanted).count()
    }

    /// Compares what callers know with what was handled, once nothing happens any more.
    pub(super) fn check(&self) {
        for (number, outcome) in &*self.outcomes.borrow() {
            let handled = self.handled(*number);
            match outcome {
                Outcome::NeverSent if 0 < handled => {
                    self.wrong(format!("never-sent-never-handled: {number} was handled"));
                }
                Outcome::Answered if handled != 1 => {
                    self.wrong(format!(
                        "handled-at-most-once: {number}, answered: {handled} times"
                    ));
                }
                _ => {}
            }
        }
    }

    /// *nobody-is-refused*.
    pub(super) fn look_at(&self, down: &Down) {
        if let Down::RefusedByUs(refused) | Down::RefusedByPeer(refused) = down
            && refused.why == Refusal::Damaged
            && !self.corrupts.get()
        {
            self.wrong(format!("nobody-is-refused: {refused}"));
        }
    }

    /// What the caller may know by an error.
    pub(super) fn outcome(&self, error: &CallError) -> Outcome {
        match error {
            CallError::NeverSent(NotSent::Down(down)) => {
                self.look_at(down);
                Outcome::NeverSent
            }
            CallError::OutcomeUnknown(Lost::Broken(down)) => {
                self.look_at(down);
                Outcome::Unknown
            }
            error if error.is_nothing_done() => Outcome::NeverSent,
            CallError::Failed(_) => Outcome::Answered,
            _ => Outcome::Unknown,
        }
    }
}

/// Asks for as many bytes, after so many microseconds, with some more of its own.
pub(super) fn question(number: u64, wants: u32, delay: u32, more: usize) -> Payload {
    let mut head = Vec::new();
    head.put_u64(number);
    head.put_u32(wants);
    head.put_u32(delay);
    Payload::with_body(head, vec![number as u8; more])
}

fn asked(bytes: &[u8]) -> (u64, u32, u32) {
    let mut cursor = Cursor::new(bytes);
    let mut read = || -> Result<_, stdx::Damaged> {
        Ok((cursor.u64("number")?, cursor.u32("wants")?, cursor.u32("delay")?))
    };
    read().expect("a question of ours")
}

/// A byte of the stream of a number.
fn byte_of(number: u64, at: usize) -> u8 {
    (number as usize + at * 7 / 3) as u8
}

pub(super) fn bytes_of(number: u64, from: usize, count: usize) -> Vec<u8> {
    (from..from + count).map(|at| byte_of(number, at)).collect()
}

/// Notices when a handler is dropped before its end.
struct Ends(Rc<Model>, bool);

impl Drop for Ends {
    fn drop(&mut self) {
        if !self.1 {
            self.0.dropped.set(self.0.dropped.get() + 1);
        }
    }
}

async fn echo(model: Rc<Model>, request: Request) -> Result<Payload, Payload> {
    let (number, wants, delay) = asked(&request.take_payload());
    model.handle(number);
    let mut ends = Ends(model, false);
    if 0 < delay {
        sleep(Duration::from_micros(delay.into())).await;
    }
    if 4_000 < wants {
        request.reply_room(wants as usize).await;
    }
    ends.1 = true;
    let head = number.to_be_bytes().to_vec();
    if number.is_multiple_of(17) {
        return Err(head.into());
    }
    Ok(Payload::with_body(head, vec![number as u8; wants as usize]))
}

async fn feed(model: Rc<Model>, request: Request, stream: Rc<Stream>) -> Result<(), Vec<u8>> {
    let (number, bytes, _) = asked(&request.take_payload());
    model.handle(number);
    let mut sent = 0;
    while sent < bytes as usize {
        let count = (1 + runtime::random_u64() as usize % 5_000).min(bytes as usize - sent);
        let sending = stream.send(&bytes_of(number, sent, count)).await;
        sending.map_err(|error| error.to_string().into_bytes())?;
        sent += count;
    }
    Ok(())
}

async fn sink(model: Rc<Model>, request: Request, stream: Rc<Stream>) -> Result<(), Vec<u8>> {
    let (number, _, delay) = asked(&request.take_payload());
    model.handle(number);
    let count = drain(&model, number, &stream, delay).await;
    let count = count.map_err(|error| error.to_string().into_bytes())?;
    let told = stream.send(&(count as u64).to_be_bytes()).await;
    told.map_err(|error| error.to_string().into_bytes())
}

/// Reads a stream to its end, slowly if asked to; how many bytes it had.
pub(super) async fn drain(
    model: &Model,
    number: u64,
    stream: &Stream,
    delay: u32,
) -> Result<usize, StreamError> {
    let mut count = 0;
    while let Some(bytes) = stream.recv().await? {
        if bytes != bytes_of(number, count, bytes.len()) {
            model.wrong(format!("whole-streams: {number} at {count}"));
        }
        count += bytes.len();
        if 0 < delay {
            sleep(Duration::from_micros(delay.into())).await;
        }
    }
    Ok(count)
}

pub(super) fn verbs(model: &Rc<Model>) -> Verbs {
    let mut verbs = Verbs::new();
    let it = model.clone();
    verbs.on_request(ECHO, move |request| echo(it.clone(), request));
    verbs.on_request(BEAT, |_| async { Ok(Payload::empty()) });
    let it = model.clone();
    verbs.on_one_way(NOTE, move |request| {
        let model = it.clone();
        async move {
            let (number, _, delay) = asked(&request.take_payload());
            model.handle(number);
            sleep(Duration::from_micros(delay.into())).await;
        }
    });
    let it = model.clone();
    verbs.on_stream(FEED, move |request, stream| feed(it.clone(), request, stream));
    let it = model.clone();
    verbs.on_stream(SINK, move |request, stream| sink(it.clone(), request, stream));
    verbs
}

/// A small shard, so that every bound is met.
pub(super) fn small(host: u128, life: u64, planted: Option<Planted>) -> Config {
    Config {
        memory_bytes: 256 << 10,
        message_bytes_max: 32 << 10,
        request_bytes_max: 64 << 10,
        requests_max: 6,
        stream_window_bytes: 2 << 10,
        connect_max: Duration::from_secs(1),
        beat_period: Duration::from_millis(200),
        silence_max: Duration::from_millis(900),
        backoff_min: Duration::from_millis(5),
        backoff_max: Duration::from_millis(200),
        planted,
        ..Config::new("test", HostId(host), life)
    }
}

/// Compresses by the numbers of both nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packs(u8);

impl Policy for Packs {
    fn dialing(&self, host: Option<HostId>, address: SocketAddr) -> Dialing {
        let [lz4, zstd] = Compression::ALL.map(Algorithms::from);
        let kinds = [lz4, Algorithms::ALL, zstd, Algorithms::NONE];
        let kind = (usize::from(self.0) + host.map_or(0, |host| host.0 as usize)) % kinds.len();
        Dialing { compression: kinds[kind], ..Plain.dialing(host, address) }
    }
    fn takes(&self) -> Algorithms {
        if self.0 % 3 == 2 { Compression::Lz4.into() } else { Algorithms::ALL }
    }
    fn zstd(&self) -> ZstdRules {
        ZstdRules { bytes: 1500..=u32::MAX, ..ZstdRules::default() }
    }
    fn needs_tls(&self, _: HostId, _: IpAddr) -> bool {
        false
    }
    fn server(&self) -> Option<Arc<tls::config::ServerConfig>> {
        None
    }
}

/// A world of nodes.
pub(super) struct Net {
    pub(super) world: World,
    pub(super) nodes: Vec<NodeId>,
    pub(super) model: Rc<Model>,
    lives: Vec<u64>,
    configure: Rc<dyn Fn(u128, u64) -> Config>,
    policy: Rc<dyn Fn(usize) -> Rc<dyn Policy>>,
    /// Clients of each shard.
    clients: u16,
}

impl Net {
    pub(super) fn new(
        seed: u64,
        shards: &[u16],
        clients: u16,
        configure: impl Fn(u128, u64) -> Config + 'static,
    ) -> Net {
        Net::with_policy(seed, shards, clients, configure, |node| Rc::new(Packs(node as u8)))
    }

    pub(super) fn with_policy(
        seed: u64,
        shards: &[u16],
        clients: u16,
        configure: impl Fn(u128, u64) -> Config + 'static,
        policy: impl Fn(usize) -> Rc<dyn Policy> + 'static,
    ) -> Net {
        let mut world = World::new(Options::new(seed));
        let nodes: Vec<NodeId> = shards.iter().map(|shards| world.add_node(*shards)).collect();
        let lives = vec![0; nodes.len()];
        let (model, configure, policy) = (Rc::default(), Rc::new(configure), Rc::new(policy));
        let mut net = Net { world, nodes, model, lives, configure, policy, clients };
        (0..shards.len()).for_each(|node| net.start(node));
        net
    }

    pub(super) fn host(node: usize) -> HostId {
        HostId(node as u128 + 1)
    }

    pub(super) fn address(&self, node: usize) -> SocketAddr {
        SocketAddr::new(self.world.ip(self.nodes[node]), PORT)
    }

    pub(super) fn start(&mut self, node: usize) {
        self.lives[node] += 1;
        let life = self.lives[node];
        let (model, configure, clients) =
            (self.model.clone(), self.configure.clone(), self.clients);
        let addresses: Vec<SocketAddr> = (0..self.nodes.len()).map(|it| self.address(it)).collect();
        let policy = self.policy.clone();
        self.world.start(self.nodes[node], move |shard| {
            let (model, addresses) = (model.clone(), addresses.clone());
            let policy = policy(node);
            let config = configure(node as u128 + 1, life);
            async move {
                let messaging = Messaging::start(config, verbs(&model), policy);
                if shard == 0 {
                    messaging.listen(addresses[node]).expect("the port is free");
                }
                for (other, address) in addresses.iter().enumerate() {
                    messaging.set_peer(Net::host(other), *address);
                }
                let scope = Scope::new();
                for _ in 0..clients {
                    let (model, nodes) = (model.clone(), addresses.len());
                    scope.spawn(async move {
                        while !model.quiet.get() {
                            one_operation(&model, node, nodes).await;
                        }
                    });
                }
                scope.spawn(watch(model.clone()));
                scope.join().await;
                std::future::pending::<()>().await;
            }
        });
    }

    /// Runs something with the messaging of a shard.
    pub(super) fn on<F, Fut>(&mut self, node: usize, shard: u16, body: F) -> Fut::Output
    where
        F: FnOnce(Rc<Messaging>) -> Fut + 'static,
        Fut: Future + 'static,
        Fut::Output: 'static,
    {
        let run = async move {
            let messaging = loop {
                match Messaging::current() {
                    Some(messaging) => break messaging,
                    None => sleep(Duration::from_millis(1)).await,
                }
            };
            body(messaging).await
        };
        self.world.block_on(self.nodes[node], shard, run)
    }

    pub(super) fn is_running(&self, node: usize) -> bool {
        self.world.is_running(self.nodes[node])
    }

    pub(super) fn shards(&mut self, node: usize) -> u16 {
        self.world.block_on(self.nodes[node], 0, async { runtime::shard_count() })
    }

    /// *heals*: every shard reaches every node by every class.
    pub(super) fn check_healed(&mut self, limit: Duration) {
        for node in 0..self.nodes.len() {
            for shard in 0..self.shards(node) {
                let (model, nodes) = (self.model.clone(), self.nodes.len());
                self.on(node, shard, move |messaging| async move {
                    for other in (0..nodes).filter(|other| *other != node) {
                        for class in Class::ALL {
                            let target =
                                Target { host: Net::host(other), shard: ToShard::Same, class };
                            let beating = reach_again(&messaging, target);
                            if runtime::time::timeout(limit, beating).await.is_err() {
                                let peers = messaging.peers();
                                let what =
                                    format!("heals: {node}.{shard} to {target:?}: {peers:?}");
                                model.wrong(what);
                                return;
                            }
                        }
                    }
                });
            }
        }
    }

    /// *all-given-back*.
    pub(super) fn check_quiet(&mut self) {
        self.world.run_for(Duration::from_secs(2));
        for node in 0..self.nodes.len() {
            for shard in 0..self.shards(node) {
                let model = self.model.clone();
                self.on(node, shard, move |messaging| async move {
                    let counters = messaging.counters();
                    let held = counters.memory_used_bytes;
                    let busy: Vec<_> = counters
                        .verbs
                        .iter()
                        .filter(|(_, _, it)| 0 < it.queued + it.in_flight + it.handling)
                        .collect();
                    let asked = messaging.peers().into_iter();
                    let asked: Vec<_> =
                        asked.filter(|it| 0 < it.unanswered + it.queued_bytes).collect();
                    if 0 < held || !busy.is_empty() || !asked.is_empty() {
                        let what = format!(
                            "all-given-back: {node}.{shard} holds {held}, {busy:?}, {asked:?}"
                        );
                        model.wrong(what);
                    }
                });
            }
        }
    }
}

async fn reach_again(messaging: &Messaging, target: Target) {
    let second = Duration::from_secs(1);
    while messaging.call(target, BEAT, Payload::empty(), second).await.is_err() {
        sleep(Duration::from_millis(5)).await;
    }
}

/// *bounded-memory*, *both-bounds*.
async fn watch(model: Rc<Model>) {
    let messaging = Messaging::current().expect("it was begun");
    while !model.quiet.get() {
        let counters = messaging.counters();
        if counters.memory_bytes < counters.memory_used_bytes {
            model.wrong(format!("bounded-memory: {counters:?}"));
        }
        let queued: usize = messaging.peers().iter().map(|peer| peer.queued_bytes).sum();
        // Of each class one body that is larger than all of its purse.
        if counters.memory_bytes + 3 * (32 << 10) < queued {
            model.wrong(format!("bounded-memory: {queued} bytes are queued"));
        }
        for peer in messaging.peers() {
            if 6 < peer.unanswered {
                model.wrong(format!("both-bounds: {peer:?}"));
            }
            if let PeerState::Down(down) = &peer.state {
                model.look_at(down);
            }
        }
        sleep(Duration::from_millis(3)).await;
    }
}

/// A client asks for something, of anybody.
async fn one_operation(model: &Rc<Model>, node: usize, nodes: usize) {
    let mut prng = Prng::from_seed(runtime::random_u64());
    let messaging = Messaging::current().expect("it was begun");
    let other = (node + 1 + prng.below(nodes as u64 - 1) as usize) % nodes;
    let shard = match prng.one_in(2) {
        true => ToShard::Same,
        false => ToShard::At(prng.below(5) as u16),
    };
    let class = Class::ALL[prng.below(3) as usize];
    let target = Target { host: Net::host(other), shard, class };
    match prng.below(10) {
        0..=6 => call(model, &messaging, target, &mut prng).await,
        7 => note(model, &messaging, target, &mut prng).await,
        8 => read_stream(model, &messaging, target, &mut prng).await,
        _ => write_stream(model, &messaging, target, &mut prng).await,
    }
    sleep(Duration::from_micros(prng.below(20_000))).await;
}

async fn call(model: &Rc<Model>, messaging: &Messaging, target: Target, prng: &mut Prng) {
    let number = model.number();
    let large = |prng: &mut Prng| match prng.below(10) {
        0 => prng.below(32_000) as u32,
        1 => prng.below(5_000) as u32,
        _ => prng.below(100) as u32,
    };
    let (wants, more) = (large(prng), large(prng) as usize);
    let delay = if prng.one_in(3) { prng.below(30_000) as u32 } else { 0 };
    let time = Duration::from_micros(prng.between(5_000, 300_000));
    let payload = question(number, wants, delay, more);
    let is_for_caller = prng.one_in(2);
    let calling = async {
        match is_for_caller {
            true => told(model, target, payload, time).await,
            false => messaging.call(target, ECHO, payload, time).await,
        }
    };
    if prng.one_in(8) {
        // Dropped, most likely before its end; then nothing is known of it.
        let _ = race(calling, sleep(Duration::from_micros(prng.below(20_000)))).await;
        return;
    }
    let outcome = match calling.await {
        Ok(reply) => {
            let is_its = reply.len() == 8 + wants as usize
                && reply[..8] == number.to_be_bytes()
                && reply[8..].iter().all(|byte| *byte == number as u8);
            if !is_its {
                model.wrong(format!("reply-of-its-request: {number}: {} bytes", reply.len()));
            }
            Outcome::Answered
        }
        Err(error) => {
            if let CallError::Failed(words) = &error
                && *words != number.to_be_bytes()
            {
                model.wrong(format!("reply-of-its-request: {number}: {words:?}"));
            }
            model.outcome(&error)
        }
    };
    model.ended(number, outcome);
}

/// A caller that waits to be told.
#[derive(Default)]
struct Waiting {
    outcome: Cell<Option<Result<Vec<u8>, CallError>>>,
    times: Cell<u32>,
    told: Notify,
}

impl Caller for Waiting {
    fn ended(&self, number: usize, outcome: Result<Vec<u8>, CallError>) {
        assert_eq!(number, 7, "told of another request");
        self.times.set(self.times.get() + 1);
        self.outcome.set(Some(outcome));
        self.told.notify_one();
    }
}

/// Cancels what was asked when it goes: then nobody is told of what has not ended.
struct Cancels(Option<Ticket>, Rc<Waiting>);

impl Drop for Cancels {
    fn drop(&mut self) {
        let times = self.1.times.get();
        if let Some(ticket) = self.0.take() {
            ticket.cancel();
        }
        assert_eq!(times, self.1.times.get(), "told by its own cancellation");
    }
}

/// The same call without a future of its own: told once, and not long after its time.
async fn told(
    model: &Rc<Model>,
    target: Target,
    payload: Payload,
    time: Duration,
) -> Result<Vec<u8>, CallError> {
    let waiting = Rc::<Waiting>::default();
    let Some(messaging) = Messaging::current() else {
        return Err(CallError::NeverSent(NotSent::Down(Down::Stopping)));
    };
    let deadline = Instant::now() + time;
    let ticket = messaging.call_for(waiting.clone(), 7, target, (ECHO, payload), deadline);
    let _cancels = Cancels(ticket, waiting.clone());
    drop(messaging);
    // The second sleep is for a shard that was away when the time was over.
    let late = async {
        sleep(time).await;
        sleep(Duration::from_millis(50)).await;
    };
    if let Either::Right(()) = race(waiting.told.notified(), late).await {
        model.wrong(format!("soonest-is-a-bound: not told after {time:?}"));
        waiting.told.notified().await;
    }
    if waiting.times.get() != 1 {
        model.wrong(format!("one-answer: told {} times", waiting.times.get()));
    }
    waiting.outcome.take().expect("it was told")
}

async fn note(model: &Rc<Model>, messaging: &Messaging, target: Target, prng: &mut Prng) {
    let (number, delay) = (model.number(), prng.below(5_000) as u32);
    let payload = question(number, 0, delay, prng.below(3_000) as usize);
    let sent = messaging.send(target, NOTE, payload, Duration::from_millis(100)).await;
    let outcome = sent.map_or_else(|error| model.outcome(&error), |()| Outcome::Unknown);
    model.ended(number, outcome);
}

async fn read_stream(model: &Rc<Model>, messaging: &Messaging, target: Target, prng: &mut Prng) {
    let (number, bytes) = (model.number(), prng.below(20_000) as u32);
    let time = Duration::from_millis(100);
    let opened = messaging.open(target, FEED, question(number, bytes, 0, 0), time).await;
    let stream = match opened {
        Ok(stream) => stream,
        Err(error) => return model.ended(number, model.outcome(&error)),
    };
    stream.finish();
    let delay = if prng.one_in(3) { prng.below(3_000) as u32 } else { 0 };
    let reading = drain(model, number, &stream, delay);
    if prng.one_in(5) {
        let _ = race(reading, sleep(Duration::from_micros(prng.below(20_000)))).await;
        return;
    }
    match reading.await {
        Ok(count) if count == bytes as usize => {
            model.streams_done.set(model.streams_done.get() + 1);
        }
        Ok(count) => model.wrong(format!("whole-streams: {number}: {count} of {bytes} bytes")),
        Err(StreamError::Broken(down)) => model.look_at(&down),
        Err(_) => {}
    }
}

async fn write_stream(model: &Rc<Model>, messaging: &Messaging, target: Target, prng: &mut Prng) {
    let (number, bytes) = (model.number(), prng.below(20_000) as usize);
    let (time, delay) = (Duration::from_millis(100), prng.below(2_000) as u32);
    let opened = messaging.open(target, SINK, question(number, 0, delay, 0), time).await;
    let Ok(stream) = opened else { return };
    let gives_up = prng.one_in(5).then(|| prng.below(bytes as u64 + 1) as usize);
    let mut sent = 0;
    while sent < bytes {
        if gives_up.is_some_and(|at| at <= sent) {
            return stream.fail(b"enough");
        }
        let count = prng.between(1, 6_000) as usize;
        let count = count.min(bytes - sent);
        if let Err(error) = stream.send(&bytes_of(number, sent, count)).await {
            if let StreamError::Broken(down) = &error {
                model.look_at(down);
            }
            return;
        }
        sent += count;
    }
    stream.finish();
    let Ok(Some(told)) = stream.recv().await else { return };
    if told != (bytes as u64).to_be_bytes() {
        model.wrong(format!("whole-streams: {number}: {told:?} of {bytes} bytes"));
    }
    if let Ok(more) = stream.recv().await {
        if more.is_some() {
            model.wrong(format!("whole-streams: {number} goes on"));
        }
        model.streams_done.set(model.streams_done.get() + 1);
    }
}
