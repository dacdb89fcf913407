//! One end of a TLS connection as a machine from bytes to bytes. No I/O, no wait.
//!
//! Invariants
//!  - *nothing-lags*: what [`Session::open`] took in and could decrypt is in the caller's buffer;
//!    what [`Session::take`] leaves behind is nothing.

use crate::peer::{self, Names};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, Connection, ProtocolVersion, ServerConfig};
use std::io::{BufRead, Write};
use std::sync::Arc;

/// The peer broke the protocol, or is not whom we want; the connection is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) what: String,
    /// Whether the peer said so.
    pub(crate) by_peer: bool,
}

impl Broken {
    fn by_us(what: String) -> Broken {
        Broken { what, by_peer: false }
    }
}

/// What was agreed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreed {
    /// Such as `TLS1.3`.
    pub protocol: &'static str,
    /// Such as `TLS_AES_256_GCM_SHA384`.
    pub cipher_suite: String,
    /// Whether an earlier session goes on.
    pub resumed: bool,
    /// Whom the peer's certificate names, where it showed one.
    pub peer: Option<Names>,
}

/// One end.
#[derive(Debug)]
pub(crate) struct Session {
    connection: Connection,
}

impl Session {
    pub(crate) fn server(config: Arc<ServerConfig>) -> Result<Session, Broken> {
        let connection = rustls::ServerConnection::new(config).map_err(|error| broken(&error))?;
        Ok(Session::new(connection.into()))
    }

    /// The end of a client that wants to reach `host`.
    pub(crate) fn client(config: Arc<ClientConfig>, host: &str) -> Result<Session, Broken> {
        let name = ServerName::try_from(host.to_string());
        let name = name.map_err(|_| Broken::by_us(format!("not the name of a server: {host}")))?;
        let made = rustls::ClientConnection::new(config, name);
        Ok(Session::new(made.map_err(|error| broken(&error))?.into()))
    }

    fn new(mut connection: Connection) -> Session {
        // All that is sealed is taken at once.
        connection.set_buffer_limit(None);
        Session { connection }
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Takes in what has arrived and appends what it holds to `plain`; whether the peer may send
    /// more. After an error there may be something to take.
    pub(crate) fn open(&mut self, mut wire: &[u8], plain: &mut Vec<u8>) -> Result<bool, Broken> {
        while !wire.is_empty() {
            let read = self.connection.read_tls(&mut wire);
            let read = read.map_err(|error| Broken::by_us(error.to_string()))?;
            let state = self.connection.process_new_packets().map_err(|error| broken(&error))?;
            if 0 < state.plaintext_bytes_to_read() {
                self.drain(plain);
            }
            if state.peer_has_closed() || read == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn drain(&mut self, plain: &mut Vec<u8>) {
        let mut reader = self.connection.reader();
        while let Ok(chunk @ [_, ..]) = reader.fill_buf() {
            let length = chunk.len();
            plain.extend_from_slice(chunk);
            reader.consume(length);
        }
    }

    /// Appends to `wire` what carries `plain`, after what is still to be sent.
    pub(crate) fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) {
        // A broken connection takes nothing; its reading side tells.
        let _ = self.connection.writer().write_all(plain);
        self.take(wire);
    }

    /// Appends to `wire` what is to be sent.
    pub(crate) fn take(&mut self, wire: &mut Vec<u8>) {
        while self.connection.wants_write() {
            // A vector takes everything.
            if !matches!(self.connection.write_tls(wire), Ok(1..)) {
                return;
            }
        }
    }

    /// Nothing more is sealed: the peer is to be told.
    pub(crate) fn end(&mut self) {
        self.connection.send_close_notify();
    }

    /// What was agreed on, after the handshake.
    pub(crate) fn agreed(&self) -> Agreed {
        let protocol = match self.connection.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => "TLS1.3",
            Some(ProtocolVersion::TLSv1_2) => "TLS1.2",
            _ => "",
        };
        let suite = self.connection.negotiated_cipher_suite();
        let name = suite.map(|suite| format!("{:?}", suite.suite())).unwrap_or_default();
        let shown = self.connection.peer_certificates().and_then(|chain| chain.first());
        let kind = self.connection.handshake_kind();
        Agreed {
            protocol,
            cipher_suite: name.replacen("TLS13_", "TLS_", 1),
            resumed: kind == Some(rustls::HandshakeKind::Resumed),
            peer: shown.and_then(peer::names),
        }
    }
}

fn broken(error: &rustls::Error) -> Broken {
    let by_peer = matches!(error, rustls::Error::AlertReceived(_));
    Broken { what: error.to_string(), by_peer }
}
