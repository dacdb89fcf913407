//! Asking the REST API of a node, as tools do.
//!
//! Invariants
//!  - *bounded*: an answer has so many bytes, or it is none. How long to wait the caller says.

use crate::http::Socket;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::Request;
use hyper::client::conn::http1::handshake;
use hyper::header::HOST;
use runtime::net::TcpStream;
use runtime::task::{Either, race};
use std::error::Error;
use std::net::SocketAddr;

/// *bounded*
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status of HTTP: 200 is well.
    pub status: u16,
    /// What was answered; JSON, from a node.
    pub body: Vec<u8>,
}

/// Asks `peer` for `path`, with its query, on a connection of its own. The error names the address.
pub async fn get(peer: SocketAddr, path: &str) -> Result<Reply, String> {
    let failed = |what: &(dyn Error + 'static)| format!("GET {path} of {peer}: {}", told(what));
    let stream = TcpStream::connect(peer).await.map_err(|error| error.to_string())?;
    let request = Request::get(path).header(HOST, peer.to_string()).body(Empty::<Bytes>::new());
    let request = request.map_err(|error| failed(&error))?;
    let shaken = handshake(Socket::new(stream)).await;
    let (mut sender, connection) = shaken.map_err(|error| failed(&error))?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(|error| failed(&error))?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| failed(&*error))?.to_bytes().to_vec();
        Ok(Reply { status, body })
    };
    // It carries the exchange, which is told when it ends.
    let carried = async {
        let _ = connection.await;
        std::future::pending().await
    };
    match race(exchange, carried).await {
        Either::Left(done) => done,
        Either::Right(never) => never,
    }
}

/// An error with what it comes of.
fn told(error: &(dyn Error + 'static)) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests;
