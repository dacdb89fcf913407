//! The listener.

use crate::call::{Answer, Call};
use crate::console::Console;
use crate::http;
use crate::metrics::Metrics;
use crate::rest::Rest;
use crate::tasks::Tasks;
use runtime::net::{ListenOptions, NetError, TcpListener, TcpStream};
use runtime::sync::Semaphore;
use runtime::task::Scope;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Connections at the same time; later ones wait.
const CONNECTIONS_MAX: usize = 128;
const BACKLOG: u32 = 128;

/// Where to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Port 0 takes a free one.
    pub address: SocketAddr,
}

/// What is served.
pub enum Service {
    /// The REST API, and the console beside it.
    Rest(Rest, Console),
    /// What the node counts.
    Metrics(Metrics),
}

impl Service {
    async fn answer(&self, call: Call) -> Answer {
        match self {
            Service::Rest(_, console) if Console::is_asked(&call) => console.answer(call).await,
            Service::Rest(rest, _) => rest.answer(call).await,
            Service::Metrics(metrics) => metrics.answer(call).await,
        }
    }
}

/// A listener of a node, on shard 0, with its connections.
pub struct Server {
    bound: SocketAddr,
    listening: Scope,
    serving: Rc<Scope>,
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
        listening.spawn_in(runtime::group::BACKGROUND, async move {
            accept(listener, &connections, service).await;
        });
        Ok(Server { bound, listening, serving })
    }

    /// The address that is listened on.
    pub fn bound(&self) -> SocketAddr {
        self.bound
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

async fn accept(listener: TcpListener, serving: &Rc<Scope>, service: Rc<Service>) {
    let free = Semaphore::new(CONNECTIONS_MAX, 1);
    loop {
        let Ok(permit) = free.acquire(1).await else { return };
        let stream = accepted(&listener).await;
        let service = service.clone();
        serving.spawn_in(runtime::group::BACKGROUND, async move {
            http::serve(stream, |call| service.answer(call)).await;
            drop(permit);
        });
    }
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
