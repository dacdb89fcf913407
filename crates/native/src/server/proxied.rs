//! Connections on the PROXY protocol ports, until the header with the client's address has come.
//!
//! Lives on: shard 0, which accepts; the connection's shard is known only after the header.
//!
//! Invariants
//!  - *bounded-headers*: connections without a header count as unauthenticated: so many at once,
//!    for so long, and the time counts on while the client logs in.

use super::Server;
use crate::ports::PortKind;
use crate::proxy::{self, Failed};
use crate::unauthenticated::Unauthenticated;
use runtime::net::TcpStream;
use runtime::sync::Notify;
use runtime::task::{Either, race};
use runtime::time::Instant;
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Faults are logged once in this time.
const LOG_PERIOD: Duration = Duration::from_secs(10);

/// Connections whose header has not come yet.
#[derive(Default)]
pub(crate) struct PendingProxied {
    pub(crate) unauthenticated: Unauthenticated,
    next: Cell<u64>,
    logged: Cell<Option<Instant>>,
}

impl PendingProxied {
    /// Logs why a connection was refused, at a limited rate: anybody who reaches the port can
    /// cause it.
    fn log(&self, proxy: SocketAddr, failed: &Failed) {
        let now = Instant::now();
        let is_due = self.logged.get().is_none_or(|last| LOG_PERIOD <= now - last);
        match failed {
            // Health checks of proxies.
            Failed::Ended | Failed::Net(_) => {}
            Failed::Refused(_) if is_due => {
                self.logged.set(Some(now));
                tracing::warn!(target: "cql_server", "proxy {proxy}: {failed}: connection closed");
            }
            Failed::Refused(_) => {
                tracing::debug!(target: "cql_server", "proxy {proxy}: {failed}: connection closed");
            }
        }
    }
}

impl Server {
    /// Reads the PROXY header, and hands the connection to its shard.
    pub(crate) fn accept_proxied(self: &Rc<Self>, stream: TcpStream, kind: PortKind) {
        let (number, since) = (self.proxied.next.get(), Instant::now());
        self.proxied.next.set(number + 1);
        let ends = Rc::new(Notify::new());
        let asked = ends.clone();
        let end = Rc::new(move || {
            asked.notify_all();
            true
        });
        self.proxied.unauthenticated.add(number, since, end);
        let server = self.clone();
        self.serving.spawn_in(runtime::group::STATEMENT, async move {
            let ended = race(ends.notified(), server.shaking.notified());
            let taken = race(proxy::take(&stream), ended).await;
            server.proxied.unauthenticated.remove(number);
            let proxy = stream.peer_addr();
            match taken {
                Either::Left(Ok(client)) => {
                    let address = client.unwrap_or(proxy);
                    server.hand_over(stream, address, kind, since).await;
                }
                Either::Left(Err(failed)) => server.proxied.log(proxy, &failed),
                Either::Right(_) => {}
            }
        });
    }
}
