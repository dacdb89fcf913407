//! What the layer above decides of each peer: TLS and compression, by data centre and rack, of
//! which this crate knows nothing.

use crate::algorithms::{Algorithms, ZstdRules};
use crate::error::Refusal;
use crate::names::HostId;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
pub use tls::config::{ClientConfig, ServerConfig};
pub use tls::peer::Names;

/// How a connection to a node is made.
#[derive(Clone, Debug, Default)]
pub struct Dialing {
    /// What we trust and show, and whom the node's certificate has to name; `None`: we have no TLS.
    pub tls: Option<(Arc<ClientConfig>, String)>,
    /// Whether TLS is used, where we have it.
    pub encrypts: Encrypts,
    /// How bodies may be compressed, where the other node takes it.
    pub compression: Algorithms,
}

/// When a connection is encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encrypts {
    /// Whatever the other node says.
    #[default]
    Always,
    /// Where the other node asks for it: which may know better what we are to it.
    IfAsked,
    /// Unless the other node has no TLS: while TLS is being introduced.
    IfAble,
}

impl Dialing {
    /// Whether the first attempt is encrypted.
    pub(crate) fn begins_encrypted(&self) -> bool {
        self.tls.is_some() && self.encrypts != Encrypts::IfAsked
    }

    /// Whether it is tried the other way, encrypted or not, when a first attempt was refused.
    pub(crate) fn turns(&self, why: Refusal) -> bool {
        let turns = match self.encrypts {
            Encrypts::Always => false,
            Encrypts::IfAsked => why == Refusal::NeedsTls,
            Encrypts::IfAble => why == Refusal::NoTls,
        };
        turns && self.tls.is_some()
    }
}

/// The decisions. Asked for each new connection, so that they may change.
pub trait Policy: 'static {
    /// How a node is dialed; `host` is `None` where only its address is known.
    fn dialing(&self, host: Option<HostId>, address: SocketAddr) -> Dialing;

    /// Whether connections of a node from this address must be encrypted.
    fn needs_tls(&self, host: HostId, from: IpAddr) -> bool;

    /// What we show, and whom we trust, when another node dials; `None`: we have no TLS.
    fn server(&self) -> Option<Arc<ServerConfig>>;

    /// How bodies may be compressed over links that others dial.
    fn takes(&self) -> Algorithms {
        Algorithms::ALL
    }

    /// What Zstandard is used for. Asked for each body that could be for it.
    fn zstd(&self) -> ZstdRules {
        ZstdRules::default()
    }

    /// Whether a node may show this certificate. The chain was checked already.
    fn may_show(&self, _host: HostId, _names: Option<&Names>) -> bool {
        true
    }
}

/// Nothing is encrypted, and nothing compressed.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Policy for Plain {
    fn dialing(&self, _: Option<HostId>, _: SocketAddr) -> Dialing {
        Dialing::default()
    }
    fn needs_tls(&self, _: HostId, _: IpAddr) -> bool {
        false
    }
    fn server(&self) -> Option<Arc<ServerConfig>> {
        None
    }
}
