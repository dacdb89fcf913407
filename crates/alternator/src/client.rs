//! The clients of a shard: whom it serves, as `system.clients` shows them.
//!
//! Invariants
//!  - *bounded*: what a client says of itself is kept up to so many bytes.

use crate::level::Level;
use cluster::Access;
use hyper::header::{HeaderMap, USER_AGENT};
use runtime::group::{self, Group};
use std::cell::{OnceCell, RefCell};
use std::net::SocketAddr;
use std::time::Duration;
use tls::Agreed;

/// Bytes of `User-Agent` that are kept.
const AGENT_BYTES_MAX: usize = 256;

/// A client, as `system.clients` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    pub address: SocketAddr,
    /// What its first request says of itself: `User-Agent`.
    pub agent: Option<String>,
    /// The role whose key has signed its last request, if anybody asked.
    pub user: Option<String>,
    pub shard: u16,
    /// The scheduling group of its next request.
    pub group: String,
    /// How it is encrypted, if it is.
    pub agreed: Option<Agreed>,
}

/// What is known of a connection while it is served.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) peer: SocketAddr,
    agreed: Option<Agreed>,
    agent: OnceCell<Option<String>>,
    user: RefCell<Option<String>>,
    level: Level,
}

impl Seat {
    pub(crate) fn new(peer: SocketAddr, agreed: Option<Agreed>) -> Seat {
        let (agent, user, level) = (OnceCell::new(), RefCell::default(), Level::default());
        Seat { peer, agreed, agent, user, level }
    }

    /// A request begins, of that role: how long it may take, if that is bounded. The running task,
    /// which serves the connection, is in the role's group from now on.
    pub(crate) async fn begins(
        &self,
        access: &Access,
        role: Option<&String>,
        headers: &HeaderMap,
    ) -> Option<Duration> {
        self.agent.get_or_init(|| {
            let agent = headers.get(USER_AGENT)?.as_bytes();
            Some(kept(agent))
        });
        if self.user.borrow().as_ref() != role {
            *self.user.borrow_mut() = role.cloned();
        }
        self.level.enter(access, role.map(String::as_str)).await
    }

    /// As `system.clients` shows it.
    pub(crate) fn shown(&self, access: &Access) -> Client {
        let user = self.user.borrow().clone();
        let group: Group = self.level.group(access, user.as_deref());
        Client {
            address: self.peer,
            agent: self.agent.get().cloned().flatten(),
            user,
            shard: runtime::shard_id(),
            group: group::name(group).unwrap_or_default(),
            agreed: self.agreed.clone(),
        }
    }
}

/// What is kept of what a client says of itself. (*bounded*)
fn kept(agent: &[u8]) -> String {
    String::from_utf8_lossy(&agent[..agent.len().min(AGENT_BYTES_MAX)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_say_of_themselves_is_cut() {
        assert_eq!(kept(b"Boto3/1.40"), "Boto3/1.40");
        assert_eq!(kept(&[b'x'; 16 << 10]), "x".repeat(AGENT_BYTES_MAX));
        // No text at all is none that anybody has to fear.
        assert_eq!(kept(b"\xffa"), "\u{fffd}a");
    }
}
