//! The CQL listeners, and which shard serves which connection.
//!
//! Shard 0 accepts. On the plain port connections go to the shards in turn, so that a driver that
//! opens one per shard gets one per shard; on the shard-aware port the client's source port says
//! which: `port mod shards`.
//!
//! Invariants
//!  - *served-by-one*: a connection belongs to one shard from its first byte to its last.
//!  - *shaken-first*: an encrypted connection counts once its TLS handshake is done; a
//!    server that stops or closes ends those that are not so far.

mod maintenance;
mod proxied;

use crate::admission::{Counters, Unread, window};
use crate::connection::{Connection, Stage};
use crate::peer::Peer;
use crate::ports::{Bound, Choice, PortKind};
use crate::service::{Config, Service};
use crate::supported::ShardAware;
use crate::tally::Served;
use crate::unauthenticated::{self, Unauthenticated};
pub use maintenance::Socket;
use proxied::PendingProxied;
use runtime::Erased;
use runtime::group;
use runtime::net::{DetachedStream, Keepalive, ListenOptions, NetError, TcpListener, TcpStream};
use runtime::sync::Notify;
use runtime::task::{Either, Scope, race};
use runtime::time::Instant;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use stdx::HashMap;
use tls::Stream;
use tls::handshake::Failed;

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// How often connections that hold memory and do not move are looked for.
const STUCK_PERIOD: Duration = Duration::from_secs(5);

/// How often it is checked whether connections have ended.
const ENDING_PERIOD: Duration = Duration::from_millis(5);

/// The option that says how connections are encrypted.
pub const ENCRYPTION: &str = "client_encryption_options";

/// How silent clients are probed.
const KEEPALIVE: Keepalive =
    Keepalive { idle: Duration::from_secs(60), interval: Duration::from_secs(10), probes: 6 };

/// The connections of one shard. Lives in `runtime::local`.
pub struct Server {
    service: Rc<Service>,
    connections: RefCell<HashMap<u64, Rc<Connection>>>,
    next_connection: Cell<u64>,
    unauthenticated: Unauthenticated,
    pub(crate) proxied: PendingProxied,
    /// Stops connections in their handshake.
    pub(crate) shaking: Notify,
    next_shard: Cell<u16>,
    pub(crate) serving: Scope,
    /// Looks after the connections.
    watching: Scope,
    /// On shard 0: accepts, while the ports are open.
    listening: RefCell<Option<Scope>>,
    /// On shard 0, where there is one.
    maintenance: RefCell<Option<maintenance::Open>>,
    /// The addresses that were listened on first.
    bound: Cell<Bound>,
}

impl Server {
    /// Starts the server of this shard; every shard has one before any listens. The shard's
    /// cluster and processor must be in `runtime::local`.
    pub fn start(config: Config) -> Rc<Server> {
        let server = Rc::new(Server {
            service: Rc::new(Service::new(config)),
            connections: RefCell::new(HashMap::default()),
            next_connection: Cell::new(1),
            unauthenticated: Unauthenticated::default(),
            proxied: PendingProxied::default(),
            shaking: Notify::new(),
            next_shard: Cell::new(0),
            serving: Scope::new(),
            watching: Scope::new(),
            listening: RefCell::default(),
            maintenance: RefCell::default(),
            bound: Cell::default(),
        });
        runtime::local::set(server.clone());
        let watched = Rc::downgrade(&server);
        server.watching.spawn(async move {
            loop {
                runtime::time::sleep(STUCK_PERIOD).await;
                let Some(server) = watched.upgrade() else { return };
                server.end_stuck();
            }
        });
        let admission = server.service.admission().clone();
        server.watching.spawn_in(runtime::group::STATEMENT, window::follow(admission));
        let watched = Rc::downgrade(&server);
        server.watching.spawn(async move {
            loop {
                runtime::time::sleep(unauthenticated::PERIOD).await;
                let Some(server) = watched.upgrade() else { return };
                server.unauthenticated.end_late(Instant::now());
                server.proxied.unauthenticated.end_late(Instant::now());
            }
        });
        server
    }

    /// Listens, on shard 0, and accepts until [`Server::stop`] or [`Server::close`]; after a close
    /// on the same ports as before. The error names the address.
    pub fn listen(self: &Rc<Self>) -> Erased<'_, Result<Bound, NetError>> {
        Erased::new(move || async move {
            assert_eq!(runtime::shard_id(), 0, "shard 0 accepts");
            let (known, config) = (self.bound.get(), &self.service.config);
            let mut listeners = Vec::new();
            let mut bind = |address| {
                let options = ListenOptions { reuse_port: false, backlog: BACKLOG };
                let listener = TcpListener::bind(address, options)?;
                let bound = listener.local_addr();
                listeners.push(listener);
                Ok::<_, NetError>(bound)
            };
            let bound = Bound {
                direct: known.direct.or(config.direct).try_map(&mut bind)?,
                proxied: known.proxied.or(config.proxied).try_map(&mut bind)?,
            };
            let told = |address: Option<SocketAddr>| {
                address.map(|address| address.port()).filter(|_| config.tells_shards)
            };
            let ports = ShardAware {
                plain: told(bound.direct.shard_aware),
                encrypted: told(bound.direct.encrypted_shard_aware),
            };
            runtime::on_all_shards(move || async move {
                runtime::local::get::<Server>().service.shard_aware.set(ports);
            })
            .await;
            self.bound.set(bound);
            let listening = Scope::new();
            // They were bound in the order of `Bound::kinds`.
            for (listener, (_, kind)) in listeners.into_iter().zip(bound.kinds()) {
                let server = self.clone();
                listening.spawn(async move { server.accept(listener, kind).await });
            }
            *self.listening.borrow_mut() = Some(listening);
            Ok(bound)
        })
    }

    /// Whether this shard lets clients in.
    pub fn is_listening(&self) -> bool {
        self.listening.borrow().is_some()
    }

    /// Stops accepting clients, on shard 0, and ends the connections of all shards: those that
    /// have not answered all they were asked after `patience` as well.
    pub fn close(&self, patience: Duration) -> Erased<'_, ()> {
        Erased::new(move || async move {
            let listening = self.listening.take();
            if let Some(listening) = listening {
                listening.cancel().await;
            }
            runtime::on_all_shards(move || async move {
                if let Some(server) = runtime::local::try_get::<Server>() {
                    server.end_connections(patience).await;
                }
            })
            .await;
        })
    }

    async fn end_connections(&self, patience: Duration) {
        let told = self.next_connection.get();
        self.shaking.notify_all();
        let shut_out: Vec<_> = {
            let connections = self.connections.borrow();
            let clients = connections.values().filter(|it| it.peer != Peer::Maintenance);
            clients.cloned().collect()
        };
        shut_out.iter().for_each(|connection| connection.stop());
        let is_there = |(number, connection): (&u64, &Rc<Connection>)| {
            *number < told && connection.peer != Peer::Maintenance
        };
        let ended = async {
            while self.connections.borrow().iter().any(is_there) {
                runtime::time::sleep(ENDING_PERIOD).await;
            }
        };
        if runtime::time::timeout(patience, ended).await.is_err() {
            shut_out.iter().for_each(|connection| connection.end());
        }
    }

    /// Accepts no more connections on this shard, and lets those that it has answer what they were
    /// asked, for at most `patience`.
    pub fn stop(&self, patience: Duration) -> Erased<'_, ()> {
        Erased::new(move || async move {
            self.watching.cancel().await;
            let listening = self.listening.take();
            if let Some(listening) = listening {
                listening.cancel().await;
            }
            let maintenance = self.maintenance.take();
            if let Some(maintenance) = maintenance {
                maintenance.close().await;
            }
            self.shaking.notify_all();
            let connections: Vec<_> = self.connections.borrow().values().cloned().collect();
            connections.iter().for_each(|connection| connection.stop());
            if runtime::time::timeout(patience, self.serving.join()).await.is_err() {
                tracing::warn!(
                    target: "cql_server",
                    "stopping: some requests did not complete in time and are cancelled"
                );
                self.serving.cancel().await;
            }
        })
    }

    /// What was admitted on this shard, what was not, and what is in flight.
    pub fn admission_counters(&self) -> Counters {
        let handshakes_blocked = self.service.handshakes().blocked();
        let unauthenticated_ended =
            self.unauthenticated.ended() + self.proxied.unauthenticated.ended();
        Counters {
            handshakes_blocked,
            unauthenticated_ended,
            ..self.service.admission().counters()
        }
    }

    /// Logins that have failed on this shard.
    pub fn failed_logins(&self) -> u64 {
        self.service.failed_logins.count()
    }

    /// Ends connections that do not move, where others need the memory that they hold.
    fn end_stuck(&self) {
        let (now, unread) = (Instant::now(), self.service.admission().unread());
        if unread == Unread::Little {
            return;
        }
        let connections = self.connections.borrow();
        let stuck = |connection: &&Rc<Connection>| connection.is_stuck(now, unread);
        for connection in connections.values().filter(stuck) {
            let peer = connection.peer;
            tracing::warn!(
                target: "cql_server",
                "client {peer} does not read its responses while memory is short: connection closed"
            );
            self.service.admission().count(|counters| counters.connections_stuck += 1);
            connection.end();
        }
    }

    async fn accept(self: Rc<Self>, listener: TcpListener, kind: PortKind) {
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    Server::cannot_accept(&error).await;
                    continue;
                }
            };
            match kind.proxied {
                true => self.accept_proxied(stream, kind),
                false => self.hand_over(stream, peer, kind, Instant::now()).await,
            }
        }
    }

    /// Gives a connection to the shard that serves it. `address`: where the client is.
    pub(crate) async fn hand_over(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        kind: PortKind,
        since: Instant,
    ) {
        let shard = match kind.choice {
            Choice::SourcePort => address.port() % runtime::shard_count(),
            Choice::InTurn => self.next_shard(),
        };
        let (stream, peer) = (stream.detach(), Peer::Client(address));
        runtime::on_shard(shard, move || async move {
            // A server that has stopped accepts no connection.
            if let Some(server) = runtime::local::try_get::<Server>() {
                server.serve(stream, peer, kind, since);
            }
        })
        .await;
    }

    /// Out of descriptors, most likely: those in use go on.
    pub(crate) async fn cannot_accept(error: &NetError) {
        tracing::warn!(target: "cql_server", "cannot accept a connection: {error}");
        runtime::time::sleep(Duration::from_millis(100)).await;
    }

    /// The shard whose turn it is to get a connection.
    pub(crate) fn next_shard(&self) -> u16 {
        let shard = self.next_shard.get();
        self.next_shard.set((shard + 1) % runtime::shard_count());
        shard
    }

    /// The number of a new connection.
    pub(crate) fn next_number(&self) -> u64 {
        let number = self.next_connection.get();
        self.next_connection.set(number + 1);
        number
    }

    pub(crate) fn keep_maintenance(&self, open: maintenance::Open) {
        let before = self.maintenance.borrow_mut().replace(open);
        assert!(before.is_none(), "one maintenance socket is opened");
    }

    fn serve(self: &Rc<Self>, stream: DetachedStream, peer: Peer, kind: PortKind, since: Instant) {
        let (number, tcp) = (self.next_number(), stream.attach());
        if self.service.config.keepalive
            && let Err(error) = tcp.set_keepalive(KEEPALIVE)
        {
            tracing::debug!(target: "cql_server", "client {peer}: {error}");
        }
        if !kind.encrypted {
            self.welcome(number, since, tcp.into(), peer);
            return;
        }
        let ends = Rc::new(Notify::new());
        let told = ends.clone();
        let end = Rc::new(move || {
            told.notify_all();
            true
        });
        self.unauthenticated.add(number, since, end);
        let server = self.clone();
        self.serving.spawn_in(self.service.group_of_unauthenticated(), async move {
            let shaken = server.shake(tcp, peer, &ends).await;
            server.unauthenticated.remove(number);
            if let Some(stream) = shaken {
                server.welcome(number, since, stream, peer);
            }
        });
    }

    /// Encrypts a connection (*shaken-first*), unless it is stopped.
    async fn shake(&self, tcp: TcpStream, peer: Peer, ends: &Notify) -> Option<Stream> {
        let config = tls::service::current(ENCRYPTION)?;
        let shaken = tls::handshake::accept(tcp, config, unauthenticated::TIME_MAX);
        let told = race(ends.notified(), self.shaking.notified());
        match race(shaken, told).await {
            Either::Left(Ok(stream)) => Some(stream),
            Either::Left(Err(failed)) => {
                self.service.admission().count(|counters| counters.tls_refused += 1);
                if !matches!(failed, Failed::Ended | Failed::Net(_)) {
                    tracing::debug!(target: "cql_server", "client {peer}: {failed}");
                }
                None
            }
            Either::Right(_) => None,
        }
    }

    pub(crate) fn welcome(
        self: &Rc<Self>,
        number: u64,
        since: Instant,
        stream: Stream,
        peer: Peer,
    ) {
        let connection = Rc::new(Connection::new(self.service.clone(), stream, peer));
        self.connections.borrow_mut().insert(number, connection.clone());
        let weak = Rc::downgrade(&connection);
        let end = Rc::new(move || {
            let late = weak.upgrade().filter(|connection| !connection.is_started());
            late.inspect(|connection| connection.end()).is_some()
        });
        self.unauthenticated.add(number, since, end);
        let server = self.clone();
        self.serving.spawn_in(connection.own_group(), async move {
            connection.serve().await;
            server.unauthenticated.remove(number);
            server.connections.borrow_mut().remove(&number);
        });
    }

    /// First messages of connections in a version that this node does not speak. Drivers find out
    /// by them which versions it speaks, so they are not among [`Server::errors`].
    pub fn version_refusals(&self) -> u64 {
        self.service.version_refusals()
    }

    /// Errors that clients of this shard were answered, by their code. Requests that were shed are
    /// among [`Server::admission_counters`].
    pub fn errors(&self) -> Vec<(u32, u64)> {
        self.service.errors()
    }

    /// Connections that this shard has had.
    pub fn connections_total(&self) -> u64 {
        self.next_connection.get() - 1
    }

    /// What clients of this shard have been answered, by scheduling group and the kind of their
    /// requests.
    pub fn served(&self) -> Vec<(String, &'static str, Served)> {
        self.service.tallies().all()
    }

    /// Requests that this shard has answered.
    pub fn requests_served(&self) -> u64 {
        self.service.tallies().requests()
    }

    /// The clients of this shard, for `system.clients`. Those of the maintenance socket have no
    /// address to be shown by.
    pub fn clients(&self) -> Vec<Client> {
        let connections = self.connections.borrow();
        let clients = connections.values().filter_map(|connection| {
            Some(Client {
                address: connection.session.client?,
                version: connection.version(),
                stage: connection.stage(),
                user: connection.session.role(),
                requests: connection.request_count(),
                keyspace: connection.session.keyspace().map(|name| name.to_string()),
                options: connection.options.borrow().clone(),
                shard: runtime::shard_id(),
                group: group::name(connection.own_group()).unwrap_or_default(),
                agreed: connection.stream.agreed().cloned(),
            })
        });
        clients.collect()
    }
}

/// A client, as `system.clients` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    pub address: SocketAddr,
    /// Unknown until its first request.
    pub version: Option<u8>,
    pub stage: Stage,
    /// The role that is logged in.
    pub user: Option<String>,
    /// Requests that were admitted since the connection was started.
    pub requests: u64,
    /// Set by `USE`.
    pub keyspace: Option<String>,
    /// What STARTUP said.
    pub options: Vec<(String, String)>,
    pub shard: u16,
    /// The scheduling group of its next request.
    pub group: String,
    /// How it is encrypted, if it is.
    pub agreed: Option<tls::Agreed>,
}
