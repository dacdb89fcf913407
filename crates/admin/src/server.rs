//! The listener.

use crate::call::{Answer, Call};
use crate::console::Console;
use crate::guard::Guard;
use crate::guests::{self, Guests};
use crate::http;
use crate::metrics::Metrics;
use crate::rest::Rest;
use crate::tasks::Tasks;
use runtime::net::{ListenOptions, NetError, TcpListener, TcpStream};
use runtime::sync::Semaphore;
use runtime::task::{Either, Scope, race};
use runtime::time::{Instant, sleep};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Connections at the same time; later ones wait.
const CONNECTIONS_MAX: usize = 128;
const BACKLOG: u32 = 128;
/// Between two looks whether all have their answers.
const LOOK: Duration = Duration::from_millis(50);

/// Where to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Port 0 takes a free one.
    pub address: SocketAddr,
    /// The option that says how connections are encrypted, where they are.
    pub encryption: Option<&'static str>,
}

/// What is served.
pub enum Service {
    /// The REST API, and the console beside it, behind one guard.
    Rest(Rest, Box<Console>, Guard),
    /// What the node counts. It changes nothing, whoever asks.
    Metrics(Metrics),
}

impl Service {
    async fn answer(&self, call: Call) -> Answer {
        match self {
            Service::Rest(_, console, guard) if Console::is_asked(&call) => {
                console.answer(call, guard).await
            }
            Service::Rest(..) if Console::is_looked_for(&call) => Console::found(),
            Service::Rest(rest, _, guard) => rest.answer(call, guard).await,
            Service::Metrics(metrics) => metrics.answer(call).await,
        }
    }
}

/// A listener of a node, on shard 0, with its connections.
pub struct Server {
    bound: SocketAddr,
    listening: Scope,
    serving: Rc<Scope>,
    guests: Rc<Guests>,
}

impl Server {
    /// Listens and serves until [`Server::stop`]. The error names the address.
    pub fn start(config: Config, service: Service) -> Result<Server, NetError> {
        assert_eq!(runtime::shard_id(), 0, "shard 0 serves");
        let options = ListenOptions { reuse_port: false, backlog: BACKLOG };
        let listener = TcpListener::bind(config.address, options)?;
        let bound = listener.local_addr();
        let (listening, serving) = (Scope::new(), Rc::new(Scope::new()));
        let (connections, service) = (serving.clone(), Rc::new(service));
        let guests = Rc::new(Guests::default());
        let welcomed = guests.clone();
        listening.spawn_in(runtime::group::BACKGROUND, async move {
            accept(listener, config.encryption, (&connections, welcomed), service).await;
        });
        Ok(Server { bound, listening, serving, guests })
    }

    /// The address that is listened on.
    pub fn bound(&self) -> SocketAddr {
        self.bound
    }

    /// Waits until all who have asked have their answers, and for so long at most. What comes
    /// meanwhile is let in.
    pub async fn settle(&self, most: Duration) {
        let deadline = Instant::now() + most;
        while self.guests.are_waiting() && Instant::now() < deadline {
            sleep(LOOK).await;
        }
        // An answer that is there is still to be sent.
        sleep(LOOK).await;
    }

    /// Ends all connections; what a request has begun may be half done.
    pub async fn stop(self) {
        self.listening.cancel().await;
        self.serving.cancel().await;
        if let Some(tasks) = runtime::local::try_get::<Tasks>() {
            tasks.stop().await;
            runtime::local::clear::<Tasks>();
        }
    }
}

async fn accept(
    listener: TcpListener,
    encryption: Option<&'static str>,
    (serving, guests): (&Rc<Scope>, Rc<Guests>),
    service: Rc<Service>,
) {
    let free = Semaphore::new(CONNECTIONS_MAX, 1);
    loop {
        let stream = accepted(&listener).await;
        if free.available() == 0 {
            guests.make_room();
        }
        let Ok(permit) = free.acquire(1).await else { return };
        let (service, guests) = (service.clone(), guests.clone());
        serving.spawn_in(runtime::group::BACKGROUND, async move {
            let (number, guest) = guests.welcome();
            let shaken = race(shake(stream, encryption), guest.has_to_go()).await;
            if let Either::Left(Some(stream)) = shaken {
                http::serve(stream, &guest, |call| service.answer(call)).await;
            }
            guests.forget(number);
            drop(permit);
        });
    }
}

/// Encrypts a connection, where it is to be.
async fn shake(tcp: TcpStream, encryption: Option<&'static str>) -> Option<tls::Stream> {
    let Some(option) = encryption else { return Some(tcp.into()) };
    let peer = tcp.peer_addr();
    let config = tls::service::current(option)?;
    let shaken = tls::handshake::accept(tcp, config, guests::FIRST_MAX).await;
    shaken.inspect_err(|failed| tracing::debug!(target: "api", "client {peer}: {failed}")).ok()
}

async fn accepted(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                // Out of descriptors, most likely.
                tracing::warn!(target: "api", "cannot accept a connection: {error}");
                runtime::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}
