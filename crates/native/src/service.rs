//! What the connections of a shard share: the cluster and the processor that serve their requests,
//! the limits that all of them keep together, and what is counted of all.
//!
//! Lives on: every shard. Sees: no connection, no listener.

use crate::admission::{self, Admission, Limits};
use crate::failed_logins::FailedLogins;
use crate::handshake::{self, Handshakes};
use crate::peer::Peer;
use crate::ports::Ports;
use crate::supported::{Facts, ShardAware};
use crate::tally::Tallies;
use cluster::{Cluster, Settings};
use query::Processor;
use runtime::group::{self, Group};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The settings of CQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The ports for clients; port 0 takes a free one. Encryption is as [`ENCRYPTION`] says.
    pub direct: Ports,
    /// The ports for proxies, which send a PROXY protocol header first.
    pub proxied: Ports,
    /// Whether silent clients are probed.
    pub keepalive: bool,
    /// Whether SUPPORTED tells drivers of shards.
    pub tells_shards: bool,
    /// The largest request.
    pub body_bytes_max: usize,
    /// What may be in flight on a shard.
    pub limits: Limits,
}

/// What the connections of a shard share.
pub(crate) struct Service {
    pub(crate) config: Config,
    /// Where clients choose their shard; known once the ports are open.
    pub(crate) shard_aware: Cell<ShardAware>,
    cluster: Rc<Cluster>,
    processor: Rc<Processor>,
    admission: Rc<Admission>,
    handshakes: Handshakes,
    pub(crate) failed_logins: FailedLogins,
    /// Errors that clients were answered, by their code.
    errors: RefCell<BTreeMap<u32, u64>>,
    version_refusals: Cell<u64>,
    tallies: Tallies,
}

impl Service {
    /// That of this shard, whose cluster and processor are in `runtime::local`.
    pub(crate) fn new(config: Config) -> Service {
        let settings = Settings::of_shard();
        let requests_max = config.limits.requests_max as i64;
        let requests_max = settings.register(admission::REQUESTS_OPTION, requests_max, positive);
        let handshakes = settings.register(handshake::OPTION, handshake::CONCURRENCY, positive);
        Service {
            admission: Admission::live(config.limits, requests_max),
            handshakes: Handshakes::new(handshakes),
            failed_logins: FailedLogins::default(),
            config,
            shard_aware: Cell::default(),
            cluster: runtime::local::get::<Cluster>(),
            processor: runtime::local::get::<Processor>(),
            errors: RefCell::default(),
            version_refusals: Cell::new(0),
            tallies: Tallies::default(),
        }
    }

    /// What SUPPORTED says on this shard to that client.
    pub(crate) fn facts(&self, peer: Peer) -> Facts {
        Facts {
            host_id: self.cluster.node().host_id.to_string(),
            shard: runtime::shard_id(),
            shards: runtime::shard_count(),
            ports: match peer {
                Peer::Client(_) => self.shard_aware.get(),
                Peer::Maintenance => ShardAware::default(),
            },
        }
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub(crate) fn processor(&self) -> &Processor {
        &self.processor
    }

    pub(crate) fn admission(&self) -> &Rc<Admission> {
        &self.admission
    }

    pub(crate) fn handshakes(&self) -> &Handshakes {
        &self.handshakes
    }

    pub(crate) fn tallies(&self) -> &Tallies {
        &self.tallies
    }

    pub(crate) fn count_error(&self, code: u32) {
        *self.errors.borrow_mut().entry(code).or_default() += 1;
    }

    pub(crate) fn count_version_refusal(&self) {
        self.version_refusals.set(self.version_refusals.get() + 1);
    }

    /// The group of unauthenticated connections.
    pub(crate) fn group_of_unauthenticated(&self) -> Group {
        self.cluster.access().group_of_driver().unwrap_or(group::STATEMENT)
    }

    /// See [`crate::Server::version_refusals`].
    pub(crate) fn version_refusals(&self) -> u64 {
        self.version_refusals.get()
    }

    /// See [`crate::Server::errors`].
    pub(crate) fn errors(&self) -> Vec<(u32, u64)> {
        self.errors.borrow().iter().map(|(code, count)| (*code, *count)).collect()
    }
}

fn positive(number: &i64) -> Result<(), String> {
    if 0 < *number { Ok(()) } else { Err(format!("{number} is not greater than 0")) }
}
