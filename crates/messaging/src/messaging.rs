//! The door: messages of a shard to other nodes, and from them.

use crate::algorithms::Algorithms;
use crate::calls::{Caller, Ticket};
use crate::config::{Config, Planted};
use crate::connection::{Connection, Facts};
use crate::counters::{Counters, add};
use crate::error::{CallError, Down, Lost, Refusal};
use crate::hello::Preamble;
use crate::links::{GOODBYES_MAX, Links, State};
use crate::names::{Class, HostId, Target, Verb};
use crate::payload::Payload;
use crate::policy::Policy;
use crate::services::{Services, group_of};
use crate::shake::{self, Unwelcome, Wanted};
use crate::streams::Stream;
use crate::verbs::Verbs;
use runtime::net::{DetachedStream, ListenOptions, NetError, TcpListener, TcpStream};
use runtime::sync::Semaphore;
use runtime::task::Scope;
use runtime::time::{Instant, sleep, timeout};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Connections whose preamble is not read yet.
const PREAMBLES_MAX: usize = 256;
/// How often a stop looks whether all is answered.
const LOOK_PERIOD: Duration = Duration::from_millis(5);

/// The messages of a shard.
#[derive(Debug)]
pub struct Messaging {
    services: Rc<Services>,
    links: Rc<Links>,
    accepted: RefCell<BTreeMap<u64, Rc<Connection>>>,
    next_accepted: Cell<u64>,
    serving: Scope,
    listening: Scope,
    /// Calls of callers that wait.
    calling: Scope,
}

/// Whom a node at an address says to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    pub host: HostId,
    pub life: u64,
    pub shards: u16,
}

/// A connection as an operator, or who watches for dead nodes, sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub host: HostId,
    pub address: SocketAddr,
    pub class: Class,
    /// Theirs.
    pub shard: u16,
    /// Whether we dialed.
    pub dialed: bool,
    pub state: PeerState,
    /// Of what is asked either way: how much has no answer, and how many bytes wait to be sent.
    pub unanswered: usize,
    pub queued_bytes: usize,
}

/// How a connection is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// The first attempt.
    Connecting,
    Up {
        since: Instant,
        /// The start of the node: another number means that it has started anew.
        life: u64,
        encrypted: bool,
        compression: Algorithms,
    },
    /// The last attempt has failed; there will be others.
    Down(Down),
}

impl Messaging {
    /// Begins on this shard; [`Messaging::current`] finds it. Panics where `config` cannot work.
    pub fn start(config: Config, verbs: Verbs, policy: Rc<dyn Policy>) -> Rc<Messaging> {
        if let Err(what) = config.check() {
            panic!("configuration of messaging: {what}");
        }
        assert!(Messaging::current().is_none(), "a shard begins once");
        let services = Rc::new(Services::new(config, verbs, policy));
        let messaging = Rc::new(Messaging {
            links: Rc::new(Links::new(services.clone())),
            services,
            accepted: RefCell::default(),
            next_accepted: Cell::new(0),
            serving: Scope::new(),
            listening: Scope::new(),
            calling: Scope::new(),
        });
        runtime::local::set(messaging.clone());
        messaging
    }

    /// The host id by which others know this node.
    pub fn host(&self) -> HostId {
        self.services.config.host
    }

    /// This shard's, where it has begun.
    pub fn current() -> Option<Rc<Messaging>> {
        runtime::local::try_get()
    }

    /// Takes connections at an address, from one shard for all of them: see [`crate::hello`] how
    /// each reaches the shard that it is for. The address that is listened on.
    pub fn listen(self: &Rc<Self>, address: SocketAddr) -> Result<SocketAddr, NetError> {
        let options = ListenOptions { reuse_port: false, backlog: 1024 };
        let listener = TcpListener::bind(address, options)?;
        let (bound, messaging) = (listener.local_addr(), self.clone());
        let group = group_of(Class::Control);
        self.listening.spawn_in(group, async move { messaging.accept_all(listener).await });
        Ok(bound)
    }

    async fn accept_all(self: Rc<Self>, listener: TcpListener) {
        let places = Semaphore::new(PREAMBLES_MAX, 1);
        let greeting = Scope::new();
        loop {
            let place = places.acquire(1).await;
            let tcp = match listener.accept().await {
                Ok((tcp, _)) => tcp,
                Err(error) => {
                    // Out of descriptors, most likely: those in use go on.
                    let line = format!("cannot accept a connection: {error}");
                    self.services.complaints.warn("listener", "accept", &line);
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let messaging = self.clone();
            greeting.spawn(async move {
                messaging.hand_over(tcp).await;
                drop(place);
            });
        }
    }

    /// Reads which shard a connection is for, and gives it to that.
    async fn hand_over(&self, tcp: TcpStream) {
        let preamble = match shake::preamble(&self.services, &tcp).await {
            Ok(preamble) => preamble,
            Err(unwelcome) => return self.unwelcome(unwelcome),
        };
        let shard = preamble.shard % runtime::shard_count();
        debug_assert!(shard < runtime::shard_count(), "shard {shard} is wanted");
        let tcp = tcp.detach();
        runtime::on_shard(shard, move || async move {
            if let Some(messaging) = Messaging::current() {
                messaging.serve(tcp, preamble);
            }
        })
        .await;
    }

    fn serve(self: &Rc<Self>, tcp: DetachedStream, preamble: Preamble) {
        let (messaging, tcp) = (self.clone(), tcp.attach());
        let is_crowded = self.services.config.connections_max <= self.serving.task_count();
        self.serving.spawn_in(group_of(preamble.class), async move {
            let welcome = shake::welcome(&messaging.services, tcp, preamble, is_crowded).await;
            match welcome {
                Ok((facts, wire)) => messaging.run_accepted(facts, wire).await,
                Err(unwelcome) => messaging.unwelcome(unwelcome),
            }
        });
    }

    fn unwelcome(&self, unwelcome: Unwelcome) {
        add(&self.services.tally.refused, 1);
        if let Unwelcome { who, refused: Some(refused), by_us } = unwelcome {
            self.services.complain(&who, &refused, by_us);
        }
    }

    async fn run_accepted(&self, facts: Facts, wire: (tls::Stream, Vec<u8>)) {
        if self.services.is_banned(facts.host) || self.services.stops.get() {
            // Since it was greeted.
            return;
        }
        add(&self.services.tally.accepted, 1);
        let connection = Connection::new(self.services.clone(), facts, wire);
        self.end_before(&connection);
        let number = self.next_accepted.get();
        self.next_accepted.set(number + 1);
        let before = self.accepted.borrow_mut().insert(number, connection.clone());
        debug_assert!(before.is_none(), "one-a-pair: two connections of number {number}");
        self.services.changed.notify_all();
        self.nudge(&connection.facts);
        let why = connection.run().await;
        self.accepted.borrow_mut().remove(&number);
        self.services.changed.notify_all();
        add(&self.services.tally.broken, 1);
        tracing::debug!(target: "messaging", "{}: {why}", connection.who());
    }

    /// Who dials us is there: all shards that wait to dial it do so now.
    fn nudge(&self, facts: &Facts) {
        let host = facts.host;
        if facts.class != Class::Control || facts.is_probe {
            return self.links.nudge(host);
        }
        self.serving.spawn(runtime::on_all_shards(move || async move {
            if let Some(messaging) = Messaging::current() {
                messaging.links.nudge(host);
            }
        }));
    }

    /// *one-a-pair*: the dialer of a connection has given the one before up, which we may not have
    /// heard yet.
    fn end_before(&self, connection: &Connection) {
        let pair = |it: &Facts| (it.is_probe, it.host, it.shard, it.class);
        let (ours, accepted) = (&connection.facts, self.accepted.borrow());
        for before in accepted.values().filter(|it| !ours.is_probe && pair(&it.facts) == pair(ours))
        {
            let theirs = &before.facts;
            let is_elsewhere = theirs.address.ip() != ours.address.ip();
            if theirs.life != ours.life && is_elsewhere && before.is_heard() {
                let who = format!("node {}", ours.host);
                let line = format!(
                    "two nodes say that they are {who}: at {} and at {}",
                    theirs.address, ours.address
                );
                self.services.complaints.warn(&who, "twice", &line);
            }
            before.end(Down::Net("another connection took its place".to_string()));
        }
    }

    /// Asks who is at an address: for the first words to a node of which nothing else is known.
    pub async fn reach(&self, address: SocketAddr) -> Result<Reached, Down> {
        let (host, shard, class) = (None, runtime::shard_id(), Class::Control);
        let wanted = Wanted { address, host, shard, class };
        let dialed = shake::dial(&self.services, wanted).await;
        let (facts, (wire, _)) = dialed.inspect_err(|down| self.complain_of(address, down))?;
        let _ = wire.shutdown_both();
        Ok(Reached { host: facts.host, life: facts.life, shards: facts.shards })
    }

    /// A node that is not there yet may come, one that does not fit is told of.
    fn complain_of(&self, address: SocketAddr, down: &Down) {
        let (Down::RefusedByUs(refused) | Down::RefusedByPeer(refused)) = down else { return };
        if refused.why != Refusal::Oneself {
            let by_us = matches!(down, Down::RefusedByUs(_));
            self.services.complain(&format!("the node at {address}"), refused, by_us);
        }
    }

    /// Where a node is, on this shard. Nothing is sent to a node before this is known.
    pub fn set_peer(&self, host: HostId, address: SocketAddr) {
        self.links.set_address(host, address);
    }

    /// The node is none of the cluster any more: its connections are ended. It may connect.
    pub fn forget_peer(&self, host: HostId) {
        self.links.end(host, &Down::UnknownPeer);
    }

    /// Asks a node, and waits for its answer for `time`, which the other node knows. Dropping the
    /// future cancels what the other node does.
    pub async fn call(
        &self,
        target: Target,
        verb: Verb,
        payload: Payload,
        time: Duration,
    ) -> Result<Vec<u8>, CallError> {
        let deadline = Instant::now() + time;
        let again = self.services.is_planted(Planted::SendsAgain).then(|| payload.clone());
        let mut answered = self.call_once(target, verb, payload, deadline).await;
        while let (Some(payload), Err(CallError::OutcomeUnknown(Lost::Broken(_)))) =
            (&again, &answered)
        {
            sleep(LOOK_PERIOD).await;
            answered = self.call_once(target, verb, payload.clone(), deadline).await;
        }
        answered
    }

    async fn call_once(
        &self,
        target: Target,
        verb: Verb,
        payload: Payload,
        deadline: Instant,
    ) -> Result<Vec<u8>, CallError> {
        let counting = Counting::new(&self.services, verb, target.class);
        let called = async {
            let connection = self.links.connection(target, deadline).await?;
            connection.call(verb, payload, deadline).await
        };
        let answered = called.await;
        counting.ended(&answered);
        answered.map(|reply| reply.bytes)
    }

    /// Asks a node, as [`Messaging::call`] does, without a future: `caller` is told by `number` how
    /// it ended, on this shard, perhaps before this returns. The ticket is to cancel it; there is
    /// none where it waits for a connection, or for room.
    pub fn call_for(
        self: &Rc<Self>,
        caller: Rc<dyn Caller>,
        number: usize,
        target: Target,
        (verb, payload): (Verb, Payload),
        deadline: Instant,
    ) -> Option<Ticket> {
        let payload = match self.links.connected(target) {
            None => payload,
            Some(connection) => {
                match connection.call_at_once(verb, payload, deadline, &caller, number) {
                    Ok(ticket) => return Some(ticket),
                    Err(payload) => payload,
                }
            }
        };
        stdx::probe!("messaging: a caller waits for a connection, or for room");
        let told = Told { caller: Some(caller), number };
        let messaging = self.clone();
        self.calling.run(async move {
            let time = deadline - Instant::now();
            let outcome = messaging.call(target, verb, payload, time).await;
            told.end(outcome);
        });
        None
    }

    /// All callers of this shard are told that it stops ([`Messaging::call_for`]): for who stops
    /// before its messages do, and has something to do with what was not answered.
    pub async fn end_callers(&self) {
        for link in self.links.all() {
            if let State::Up(connection) = link.state() {
                connection.end_callers();
            }
        }
        self.calling.cancel().await;
    }

    /// Sends a message that has no answer: it is on its way once there is room for it, for which
    /// this waits. Whether it is handled nobody learns.
    pub async fn send(
        &self,
        target: Target,
        verb: Verb,
        payload: Payload,
        time: Duration,
    ) -> Result<(), CallError> {
        let deadline = Instant::now() + time;
        let counting = Counting::new(&self.services, verb, target.class);
        let sent = async {
            let connection = self.links.connection(target, deadline).await?;
            connection.send(verb, payload, deadline).await
        };
        let sent = sent.await;
        counting.ended(&sent);
        sent
    }

    /// Opens a stream; `payload` is what it is about. `time` is for there to be room for it.
    pub async fn open(
        &self,
        target: Target,
        verb: Verb,
        payload: Payload,
        time: Duration,
    ) -> Result<Stream, CallError> {
        let deadline = Instant::now() + time;
        let counting = Counting::new(&self.services, verb, target.class);
        let opened = async {
            let connection = self.links.connection(target, deadline).await?;
            connection.open(verb, payload, deadline).await
        };
        let opened = opened.await;
        counting.ended(&opened);
        opened
    }

    /// Ends all connections of a node, on all shards, and refuses those that come.
    pub async fn ban(&self, host: HostId) {
        runtime::on_all_shards(move || async move {
            if let Some(messaging) = Messaging::current() {
                messaging.ban_here(host);
            }
        })
        .await;
    }

    /// The same, on this shard alone.
    pub fn ban_here(&self, host: HostId) {
        if !self.services.bans.borrow_mut().insert(host) {
            return;
        }
        tracing::info!(target: "messaging", "node {host} is banned");
        if self.services.is_planted(Planted::KeepsBanned) {
            return;
        }
        self.links.end(host, &Down::Banned);
        debug_assert!(
            self.links.all().iter().all(|link| link.key.host != host),
            "a banned node has no link"
        );
        let accepted = self.accepted.borrow();
        let theirs = accepted.values().filter(|connection| connection.facts.host == host);
        theirs.for_each(|connection| connection.end(Down::Banned));
    }

    /// The lines of the log so far.
    #[cfg(test)]
    pub(crate) fn lines(&self) -> Vec<String> {
        self.services.complaints.lines.borrow().clone()
    }

    /// What was counted on this shard.
    pub fn counters(&self) -> Counters {
        let budget = &self.services.budget;
        Counters {
            memory_used_bytes: budget.used_bytes(),
            memory_bytes: budget.total_bytes(),
            ..self.services.tally.read()
        }
    }

    /// The connections of this shard, and the attempts to have them.
    pub fn peers(&self) -> Vec<Peer> {
        let mut peers: Vec<Peer> = Vec::new();
        for link in self.links.all() {
            let Some(address) = self.links.address(link.key.host) else { continue };
            let state = match link.state() {
                State::Up(connection) => {
                    peers.push(peer(&connection, true));
                    continue;
                }
                State::Connecting(None) => PeerState::Connecting,
                State::Connecting(Some(why)) | State::Waiting(why) => PeerState::Down(why),
                State::Ended(_) | State::Moved => continue,
            };
            let (host, class, shard) = (link.key.host, link.key.class, link.key.shard);
            let (unanswered, queued_bytes, dialed) = (0, 0, true);
            peers.push(Peer {
                host,
                address,
                class,
                shard,
                dialed,
                state,
                unanswered,
                queued_bytes,
            });
        }
        peers.extend(self.accepted.borrow().values().map(|connection| peer(connection, false)));
        peers
    }

    /// Waits until some connection has changed its state.
    pub async fn changed(&self) {
        self.services.changed.notified().await;
    }

    /// Stops on this shard: takes no connection and no request any more, lets what was asked be
    /// answered for at most `patience`, and says goodbye.
    pub async fn stop(&self, patience: Duration) {
        self.listening.cancel().await;
        self.services.stops.set(true);
        let answered = async {
            while !self.is_idle() {
                sleep(LOOK_PERIOD).await;
            }
        };
        let _ = timeout(patience, answered).await;
        self.links.stop().await;
        // Their links have ended, so all have been told but those who wait for room.
        self.calling.cancel().await;
        let accepted: Vec<_> = self.accepted.borrow().values().cloned().collect();
        accepted.iter().for_each(|connection| connection.end(Down::Stopping));
        // Who is greeted still is let go after a while.
        let _ = timeout(GOODBYES_MAX, self.serving.join()).await;
        self.serving.cancel().await;
        self.services.one_way.cancel().await;
        debug_assert!(self.links.all().is_empty(), "a stopped shard dials nobody");
        debug_assert_eq!(self.serving.task_count(), 0, "a stopped shard serves nobody");
        runtime::local::clear::<Messaging>();
    }

    fn is_idle(&self) -> bool {
        let dialed = self.links.all().into_iter().all(|link| match link.state() {
            State::Up(connection) => connection.is_idle(),
            _ => true,
        });
        dialed
            && self.services.one_way.task_count() == 0
            && self.accepted.borrow().values().all(|connection| connection.is_idle())
    }
}

fn peer(connection: &Connection, dialed: bool) -> Peer {
    let Facts { host, address, class, shard, life, encrypted, compression, .. } = connection.facts;
    let (unanswered, queued_bytes) = connection.load();
    let state = match connection.ended() {
        Some(why) => PeerState::Down(why),
        None => PeerState::Up { since: connection.since, life, encrypted, compression },
    };
    Peer { host, address, class, shard, dialed, state, unanswered, queued_bytes }
}

/// A caller that waits; one that is given up is told so.
struct Told {
    caller: Option<Rc<dyn Caller>>,
    number: usize,
}

impl Told {
    fn end(mut self, outcome: Result<Vec<u8>, CallError>) {
        if let Some(caller) = self.caller.take() {
            caller.ended(self.number, outcome);
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if let Some(caller) = self.caller.take() {
            let lost = Lost::Broken(Down::Stopping);
            caller.ended(self.number, Err(CallError::OutcomeUnknown(lost)));
        }
    }
}

/// Counts how something that was asked ends; one that is dropped was cancelled.
struct Counting<'s> {
    services: &'s Services,
    verb: Verb,
    class: Class,
    ended: Cell<bool>,
}

impl<'s> Counting<'s> {
    fn new(services: &'s Services, verb: Verb, class: Class) -> Counting<'s> {
        Counting { services, verb, class, ended: Cell::new(false) }
    }

    fn ended<T>(&self, outcome: &Result<T, CallError>) {
        let before = self.ended.replace(true);
        debug_assert!(!before, "one-answer: {} ends twice", self.verb.name);
        let Err(error) = outcome else { return };
        self.services.tally.of(self.verb, self.class).count(|it| match error.is_late() {
            true => it.timed_out += 1,
            false => it.failed += 1,
        });
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        if !self.ended.get() {
            self.services.tally.of(self.verb, self.class).count(|it| it.cancelled += 1);
        }
    }
}
