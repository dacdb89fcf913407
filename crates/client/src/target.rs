//! Where a node is, how connections to it are encrypted, and who logs in.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tls::Stream;
use tls::config::{ClientConfig, Trust};

/// What a TLS handshake may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(30);
/// What a connection may take to open.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// A role and its password.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    pub user: String,
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (password not shown)", self.user)
    }
}

/// The files of a client with TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// PEM: who vouches for the node.
    pub trust: std::path::PathBuf,
    /// PEM: our certificate and its key, where the node asks for one.
    pub identity: Option<(std::path::PathBuf, std::path::PathBuf)>,
}

/// A node.
#[derive(Clone, Debug)]
pub struct Target {
    pub address: SocketAddr,
    /// The name that its certificate must have.
    host: String,
    encryption: Option<Arc<ClientConfig>>,
    pub login: Option<Login>,
    /// A request that takes longer ends its connection.
    pub timeout: Duration,
}

impl Target {
    /// The node at `host` and `port`. The error says what of that is wrong.
    pub async fn new(
        host: &str,
        port: u16,
        tls: Option<&TlsFiles>,
        login: Option<Login>,
        timeout: Duration,
    ) -> Result<Target, String> {
        let found = (host, port).to_socket_addrs().ok().and_then(|mut found| found.next());
        let address = found.ok_or_else(|| format!("{host}: no such host"))?;
        let encryption = match tls {
            Some(files) => Some(encryption(files).await?),
            None => None,
        };
        Ok(Target { address, host: host.to_string(), encryption, login, timeout })
    }

    /// A connection without a word said on it.
    pub(crate) async fn connect(&self) -> Result<Stream, String> {
        let refused = |why: &str| format!("cannot connect to {}: {why}", self.address);
        let opening = runtime::net::TcpStream::connect(self.address);
        let tcp = match runtime::time::timeout(CONNECT_MAX, opening).await {
            Ok(Ok(tcp)) => tcp,
            Ok(Err(error)) => return Err(refused(&error.to_string())),
            Err(_) => return Err(refused(&format!("no answer within {CONNECT_MAX:?}"))),
        };
        let Some(config) = &self.encryption else { return Ok(tcp.into()) };
        let shaken = tls::handshake::connect(tcp, config.clone(), &self.host, HANDSHAKE_MAX).await;
        shaken.map_err(|error| refused(&error.to_string()))
    }
}

async fn encryption(files: &TlsFiles) -> Result<Arc<ClientConfig>, String> {
    let read = async |path: &Path| {
        let bytes = runtime::io::fs::read_file(path).await.map_err(|error| error.to_string())?;
        Ok::<_, String>((path.to_path_buf(), bytes))
    };
    let roots = read(&files.trust).await?;
    let identity = match &files.identity {
        Some((certificate, key)) => Some([read(certificate).await?, read(key).await?]),
        None => None,
    };
    tls::config::client(&Trust { roots, identity, ..Trust::default() })
}
