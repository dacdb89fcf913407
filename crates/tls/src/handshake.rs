//! From a plain connection to an encrypted one.

use crate::session::{Broken, Session};
use crate::stream::Stream;
use runtime::net::{NetError, TcpStream};
use rustls::{ClientConfig, ServerConfig};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// *bounded-handshake*: chains of certificates are a few KiB.
pub const BYTES_MAX: usize = 32 << 10;
/// What is read at once.
const READ_BYTES: usize = 4 << 10;

/// A connection that did not get encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The peer is gone.
    Ended,
    /// It took too long.
    Late,
    /// It sent more than a handshake has.
    TooLong,
    /// What it sent is not TLS, or not what we accept.
    Refused(String),
    /// It does not accept what we sent.
    RefusedByPeer(String),
    Net(NetError),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Ended => f.write_str("the peer ended the connection in the TLS handshake"),
            Failed::Late => f.write_str("the TLS handshake took too long"),
            Failed::TooLong => write!(f, "more than {BYTES_MAX} bytes in the TLS handshake"),
            Failed::Refused(what) | Failed::RefusedByPeer(what) => write!(f, "TLS: {what}"),
            Failed::Net(error) => error.fmt(f),
        }
    }
}
impl std::error::Error for Failed {}

impl From<Broken> for Failed {
    fn from(Broken { what, by_peer }: Broken) -> Failed {
        if by_peer { Failed::RefusedByPeer(what) } else { Failed::Refused(what) }
    }
}

/// Answers the handshake of a client within `limit`.
pub async fn accept(
    tcp: TcpStream,
    config: Arc<ServerConfig>,
    limit: Duration,
) -> Result<Stream, Failed> {
    let session = Session::server(config)?;
    within(limit, tcp, session).await
}

/// Begins a handshake with the server that `host` names (a name or an address in its certificate),
/// within `limit`.
pub async fn connect(
    tcp: TcpStream,
    config: Arc<ClientConfig>,
    host: &str,
    limit: Duration,
) -> Result<Stream, Failed> {
    let host = host.to_string();
    // A client makes its keys as it is made.
    let session = runtime::task::compute(move || Session::client(config, &host)).await?;
    within(limit, tcp, session).await
}

async fn within(limit: Duration, tcp: TcpStream, session: Session) -> Result<Stream, Failed> {
    let shaken = runtime::time::timeout(limit, shake(tcp, session)).await;
    shaken.unwrap_or(Err(Failed::Late))
}

async fn shake(tcp: TcpStream, mut session: Session) -> Result<Stream, Failed> {
    let (mut plain, mut taken, mut buf) = (Vec::new(), 0, Vec::with_capacity(READ_BYTES));
    let mut goes_on = true;
    loop {
        let mut wire = Vec::new();
        session.take(&mut wire);
        if !wire.is_empty() {
            tcp.write_all(wire).await.0.map_err(Failed::Net)?;
        }
        if !session.is_handshaking() {
            return Ok(Stream::encrypted(tcp, session, plain, goes_on));
        }
        if !goes_on {
            return Err(Failed::Ended);
        }
        let (read, arrived) = tcp.read(buf).await;
        match read.map_err(Failed::Net)? {
            0 => return Err(Failed::Ended),
            count => taken += count,
        }
        if BYTES_MAX < taken {
            return Err(Failed::TooLong);
        }
        // *aside*
        let stepped = runtime::task::compute(move || step(session, arrived, plain)).await;
        let opened;
        (session, buf, plain, opened) = stepped;
        goes_on = match opened {
            Ok(goes_on) => goes_on,
            Err(broken) => {
                let mut alert = Vec::new();
                session.take(&mut alert);
                // Whether the peer learns why is its own business.
                let _ = tcp.write_all(alert).await;
                let _ = tcp.shutdown();
                return Err(broken.into());
            }
        };
    }
}

type Stepped = (Session, Vec<u8>, Vec<u8>, Result<bool, Broken>);

fn step(mut session: Session, mut arrived: Vec<u8>, mut plain: Vec<u8>) -> Stepped {
    let opened = session.open(&arrived, &mut plain);
    arrived.clear();
    (session, arrived, plain, opened)
}
