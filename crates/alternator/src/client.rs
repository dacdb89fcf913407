//! The clients of a shard: whom it serves, as `system.clients` shows them.

use crate::level::Level;
use cluster::Access;
use hyper::header::{HeaderMap, USER_AGENT};
use runtime::group::{self, Group};
use std::cell::{OnceCell, RefCell};
use std::net::SocketAddr;
use std::time::Duration;
use tls::Agreed;

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
            Some(String::from_utf8_lossy(agent).into_owned())
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
