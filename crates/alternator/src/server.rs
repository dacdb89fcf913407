//! The listeners, and which shard serves which connection.
//!
//! Shard 0 accepts; connections go to the shards in turn.
//!
//! Invariants
//!  - *served-by-one*: a connection belongs to one shard from its first byte to its last.
//!  - *bounded*: a shard has so many connections at most; later ones are closed. Those whose
//!    clients say nothing end ([`crate::silent`]).

use crate::backups;
use crate::client::{Client, Seat};
use crate::connection;
use crate::expression::Programs;
use crate::met::Met;
use crate::node::Node;
use crate::owner;
use crate::transfers;
use runtime::Erased;
use runtime::group;
use runtime::net::{DetachedStream, ListenOptions, NetError, TcpListener, TcpStream};
use runtime::sync::Notify;
use runtime::task::Scope;
use runtime::time::{sleep, timeout};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use tls::Stream;

/// The option that says how connections of the encrypted port are encrypted.
pub const ENCRYPTION: &str = "alternator_encryption_options";
const BACKLOG: u32 = 1024;
const CONNECTIONS_MAX: usize = 10_000;
/// From so many on, clients that say nothing have to go sooner.
const CONNECTIONS_MANY: usize = CONNECTIONS_MAX / 4 * 3;
/// A handshake takes so long at most.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// Where to listen; port 0 takes a free one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    pub plain: Option<SocketAddr>,
    pub encrypted: Option<SocketAddr>,
}

/// One shard's. Stands in `runtime::local`.
pub struct Server {
    node: Rc<Node>,
    /// Those that are served, by their numbers.
    connections: RefCell<BTreeMap<u64, Rc<Seat>>>,
    /// Those that are being encrypted.
    shaking: Cell<usize>,
    next_number: Cell<u64>,
    next_shard: Cell<u16>,
    ends: Rc<Notify>,
    has_ended: Cell<bool>,
    serving: Scope,
    /// On shard 0.
    listening: RefCell<Option<Scope>>,
}

impl Server {
    /// Starts the server of this shard. The shard's cluster, coordinator and processor must be in
    /// `runtime::local`. `transfers`: the folder of buckets, if there is one.
    pub fn start(transfers: Option<PathBuf>) -> Rc<Server> {
        owner::execute_for_others();
        let node = Rc::new(Node::of_shard(transfers));
        runtime::local::set(node.clone());
        if runtime::shard_id() == 0 {
            drop(node.background.spawn(backups::keep(node.clone())));
            drop(node.background.spawn(backups::keep_bases(node.clone())));
            drop(node.background.spawn(transfers::keep(node.clone())));
        }
        let server = Rc::new(Server {
            node,
            connections: RefCell::default(),
            shaking: Cell::new(0),
            next_number: Cell::new(0),
            next_shard: Cell::new(0),
            ends: Rc::default(),
            has_ended: Cell::new(false),
            serving: Scope::new(),
            listening: RefCell::default(),
        });
        runtime::local::set(server.clone());
        server
    }

    /// What this shard has met of requests.
    pub fn met(&self) -> &Met {
        &self.node.met
    }

    /// The expressions that this shard need not parse again.
    pub fn programs(&self) -> &Programs {
        &self.node.programs
    }

    /// Connections of this shard.
    pub fn connections(&self) -> usize {
        self.connections.borrow().len() + self.shaking.get()
    }

    /// The clients of this shard.
    pub fn clients(&self) -> Vec<Client> {
        let access = self.node.cluster.access();
        self.connections.borrow().values().map(|seat| seat.shown(access)).collect()
    }

    /// Listens, on shard 0: the addresses that are listened on. The error names the address.
    pub fn listen(self: &Rc<Self>, ports: Ports) -> Result<Ports, NetError> {
        assert_eq!(runtime::shard_id(), 0, "shard 0 accepts");
        let listening = Scope::new();
        let open = |address: Option<SocketAddr>, encrypted: bool| {
            let Some(address) = address else { return Ok(None) };
            let options = ListenOptions { reuse_port: false, backlog: BACKLOG };
            let listener = TcpListener::bind(address, options)?;
            let bound = listener.local_addr();
            let server = self.clone();
            listening.spawn(async move { server.accept(listener, encrypted).await });
            Ok::<_, NetError>(Some(bound))
        };
        let bound =
            Ports { plain: open(ports.plain, false)?, encrypted: open(ports.encrypted, true)? };
        *self.listening.borrow_mut() = Some(listening);
        Ok(bound)
    }

    async fn accept(self: Rc<Self>, listener: TcpListener, encrypted: bool) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => self.hand_over(stream, encrypted).await,
                Err(error) => {
                    // Out of descriptors, most likely: those in use go on.
                    tracing::warn!(
                        target: "alternator_server",
                        "cannot accept a connection: {error}"
                    );
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn hand_over(&self, stream: TcpStream, encrypted: bool) {
        let shard = self.next_shard.get();
        self.next_shard.set((shard + 1) % runtime::shard_count());
        let stream = stream.detach();
        runtime::on_shard(shard, move || async move {
            // A server that has stopped accepts no connection.
            if let Some(server) = runtime::local::try_get::<Server>() {
                server.serve(stream, encrypted);
            }
        })
        .await;
    }

    /// *bounded*
    fn serve(self: &Rc<Self>, stream: DetachedStream, encrypted: bool) {
        let tcp = stream.attach();
        if CONNECTIONS_MAX <= self.connections() || self.has_ended.get() {
            return;
        }
        self.shaking.set(self.shaking.get() + 1);
        let server = self.clone();
        self.serving.spawn_in(group::STATEMENT, async move {
            let shaken = shaken(tcp, encrypted).await;
            server.shaking.set(server.shaking.get() - 1);
            if let Some(stream) = shaken {
                server.serve_client(stream).await;
            }
        });
    }

    async fn serve_client(&self, stream: Stream) {
        let seat = Rc::new(Seat::new(stream.peer_addr(), stream.agreed().cloned()));
        let number = self.next_number.get();
        self.next_number.set(number + 1);
        self.connections.borrow_mut().insert(number, seat.clone());
        let is_crowded = || CONNECTIONS_MANY <= self.connections();
        connection::serve(stream, (&self.node, &seat), &self.ends, is_crowded).await;
        self.connections.borrow_mut().remove(&number);
    }

    /// Accepts no more connections on this shard, and lets those that it has answer what they were
    /// asked, for at most `patience`.
    pub fn stop(&self, patience: Duration) -> Erased<'_, ()> {
        Erased::new(move || async move {
            let listening = self.listening.take();
            if let Some(listening) = listening {
                listening.cancel().await;
            }
            self.node.background.cancel().await;
            self.has_ended.set(true);
            self.ends.notify_all();
            if timeout(patience, self.serving.join()).await.is_err() {
                tracing::warn!(
                    target: "alternator_server",
                    "stopping: some requests did not complete in time and are cancelled"
                );
                self.serving.cancel().await;
            }
        })
    }
}

/// Encrypts a connection, where it is to be.
async fn shaken(tcp: TcpStream, encrypted: bool) -> Option<Stream> {
    if !encrypted {
        return Some(tcp.into());
    }
    let peer = tcp.peer_addr();
    let config = tls::service::current(ENCRYPTION)?;
    let shaken = tls::handshake::accept(tcp, config, HANDSHAKE_MAX).await;
    let told = |failed: &_| tracing::debug!(target: "alternator_server", "client {peer}: {failed}");
    shaken.inspect_err(told).ok()
}
