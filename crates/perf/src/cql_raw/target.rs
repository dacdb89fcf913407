//! Where the node is, and how connections to it are encrypted.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tls::Stream;
use tls::config::{ClientConfig, Trust};

/// What a TLS handshake may take.
const SHAKING_MAX: Duration = Duration::from_secs(30);

/// Whom to connect to.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) address: SocketAddr,
    /// What is trusted, where connections are encrypted.
    encryption: Option<Arc<ClientConfig>>,
}

impl Target {
    /// `trust`: the file of who vouches for the node; `None`: nothing is encrypted.
    pub(super) async fn new(address: SocketAddr, trust: Option<&Path>) -> Result<Target, String> {
        let Some(file) = trust else { return Ok(Target { address, encryption: None }) };
        let pem = runtime::io::fs::read_file(file).await.map_err(|error| error.to_string())?;
        let roots = (file.to_path_buf(), pem);
        let trust = Trust { roots, ..Trust::default() };
        let config =
            tls::config::client(&trust).map_err(|error| format!("--tls-trust: {error}"))?;
        Ok(Target { address, encryption: Some(config) })
    }

    /// A connection.
    pub(super) async fn connect(&self) -> Result<Stream, String> {
        let connected = runtime::net::TcpStream::connect(self.address).await;
        let tcp = connected.map_err(|error| format!("cannot connect: {error}"))?;
        let Some(config) = &self.encryption else { return Ok(tcp.into()) };
        let host = self.address.ip().to_string();
        let shaken = tls::handshake::connect(tcp, config.clone(), &host, SHAKING_MAX).await;
        shaken.map_err(|error| error.to_string())
    }
}
