//! Connections on the ports for proxies, until the proxy has said where the client is.
//!
//! Lives on: shard 0, which accepts; only then the connection's shard is known.
//!
//! Invariants
//!  - *bounded-introductions*: who says nothing is a stranger: so many at once, for so long, and
//!    the time counts on when the client logs in.

use crate::doors::Door;
use crate::proxy::{self, Failed};
use crate::server::Server;
use crate::strangers::Strangers;
use runtime::net::TcpStream;
use runtime::sync::Notify;
use runtime::task::{Either, race};
use runtime::time::Instant;
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// What is wrong is told to the log once in this time.
const TOLD_PERIOD: Duration = Duration::from_secs(10);

/// Those that are not introduced yet.
#[derive(Default)]
pub(crate) struct Introductions {
    pub(crate) strangers: Strangers,
    next: Cell<u64>,
    told: Cell<Option<Instant>>,
}

impl Introductions {
    /// Says what is wrong with a proxy, now and then: whoever reaches the port may be wrong often.
    fn tell(&self, proxy: SocketAddr, failed: &Failed) {
        let now = Instant::now();
        let is_due = self.told.get().is_none_or(|told| TOLD_PERIOD <= now - told);
        match failed {
            // Proxies look whether we are there.
            Failed::Ended | Failed::Net(_) => {}
            Failed::Refused(_) if is_due => {
                self.told.set(Some(now));
                tracing::warn!(target: "cql_server", "proxy {proxy}: {failed}: ended");
            }
            Failed::Refused(_) => {
                tracing::debug!(target: "cql_server", "proxy {proxy}: {failed}: ended");
            }
        }
    }
}

impl Server {
    /// Takes in what the proxy says, and hands the connection over.
    pub(crate) fn introduce(self: &Rc<Self>, stream: TcpStream, door: Door) {
        let (number, since) = (self.introductions.next.get(), Instant::now());
        self.introductions.next.set(number + 1);
        let ends = Rc::new(Notify::new());
        let told = ends.clone();
        let end = Rc::new(move || {
            told.notify_all();
            true
        });
        self.introductions.strangers.add(number, since, end);
        let server = self.clone();
        self.serving.spawn_in(runtime::group::STATEMENT, async move {
            let told = race(ends.notified(), server.shaking.notified());
            let taken = race(proxy::take(&stream), told).await;
            server.introductions.strangers.remove(number);
            let proxy = stream.peer_addr();
            match taken {
                Either::Left(Ok(client)) => {
                    let address = client.unwrap_or(proxy);
                    server.hand_over(stream, address, door, since).await;
                }
                Either::Left(Err(failed)) => server.introductions.tell(proxy, &failed),
                Either::Right(_) => {}
            }
        });
    }
}
