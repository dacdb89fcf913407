//! The maintenance socket: a socket in the file system where CQL is spoken without a login, and
//! everything is allowed. The permissions of the file decide who may connect.
//!
//! Shard 0 accepts; connections go to the shards in turn. Their clients are not told of shards,
//! which they could not choose there.
//!
//! Invariants
//!  - *always-open*: it is open until the server stops; closing the CQL ports leaves it open, and
//!    leaves its connections.

use super::Server;
use crate::peer::Peer;
use runtime::Erased;
use runtime::net::TcpStream;
use runtime::net::unix::{Credentials, UnixError, UnixListener, UnixOptions};
use runtime::task::Scope;
use runtime::time::Instant;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 128;

/// Where it is, and who may open it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Socket {
    pub path: PathBuf,
    /// The name or the number of a group whose members may, besides the user of the node.
    pub group: Option<String>,
}

impl Socket {
    fn options(&self) -> UnixOptions {
        let mode = if self.group.is_some() { 0o660 } else { 0o600 };
        UnixOptions { mode, group: self.group.clone(), backlog: BACKLOG }
    }
}

/// The socket, while it is open.
pub(crate) struct Open {
    listener: Rc<UnixListener>,
    accepting: Scope,
}

impl Open {
    /// Stops accepting, and removes the file.
    pub(crate) async fn close(self) {
        self.accepting.cancel().await;
        if let Some(listener) = Rc::into_inner(self.listener) {
            listener.close().await;
        }
    }
}

impl Server {
    /// Opens the maintenance socket, on shard 0, until [`Server::stop`].
    pub fn open_maintenance<'a>(
        self: &'a Rc<Self>,
        socket: &'a Socket,
    ) -> Erased<'a, Result<(), UnixError>> {
        Erased::new(move || async move {
            assert_eq!(runtime::shard_id(), 0, "shard 0 accepts");
            let listener = Rc::new(UnixListener::bind(&socket.path, socket.options()).await?);
            let accepting = Scope::new();
            let (server, accepted) = (self.clone(), listener.clone());
            accepting.spawn(async move { server.accept_maintenance(&accepted).await });
            self.keep_maintenance(Open { listener, accepting });
            Ok(())
        })
    }

    async fn accept_maintenance(&self, listener: &UnixListener) {
        loop {
            let stream = match listener.accept().await {
                Ok(stream) => stream,
                Err(error) => {
                    Server::cannot_accept(&error).await;
                    continue;
                }
            };
            log(listener.path(), &stream);
            let (shard, stream) = (self.next_shard(), stream.detach());
            runtime::on_shard(shard, move || async move {
                // A server that has stopped accepts no connection.
                let Some(server) = runtime::local::try_get::<Server>() else { return };
                let number = server.next_number();
                server.welcome(number, Instant::now(), stream.attach().into(), Peer::Maintenance);
            })
            .await;
        }
    }
}

/// Logs each connection, as it may do everything.
fn log(path: &Path, stream: &TcpStream) {
    let path = path.display();
    if let Some(Credentials { user, process }) = stream.credentials() {
        tracing::info!(
            target: "cql_server",
            "maintenance socket {path}: process {process} of user {user} has connected"
        );
    }
}
