//! What the layer above decides of each peer: TLS and compression, by data centre and rack, of
//! which this crate knows nothing.

use crate::hello::Compression;
use crate::names::HostId;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tls::config::{ClientConfig, ServerConfig};

/// How a connection to a node is made.
#[derive(Clone, Debug, Default)]
pub struct Dialing {
    /// What we trust and show, and whom the node's certificate has to name; `None`: plain.
    pub tls: Option<(Arc<ClientConfig>, String)>,
    pub compression: Option<Compression>,
}

/// The decisions. Asked for each new connection, so that they may change.
pub trait Policy: 'static {
    /// How a node is dialed; `host` is `None` where only its address is known.
    fn dialing(&self, host: Option<HostId>, address: SocketAddr) -> Dialing;

    /// Whether connections of a node from this address must be encrypted.
    fn needs_tls(&self, host: HostId, from: IpAddr) -> bool;

    /// What we show, and whom we trust, when another node dials; `None`: we have no TLS.
    fn server(&self) -> Option<Arc<ServerConfig>>;

    /// Whether a node may show this certificate. The chain was checked already.
    fn may_show(&self, _host: HostId, _names: Option<&tls::peer::Names>) -> bool {
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
