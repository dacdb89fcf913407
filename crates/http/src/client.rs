//! Asking a server, as tools ask the REST API of a node.
//!
//! Invariants
//!  - *bounded*: an answer has so many bytes and so much time, or it is none.
//!  - *asked-once*: a request that a server may have seen is not sent again.

use crate::socket::Socket;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{Connection, SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST, SERVER};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use runtime::net::TcpStream;
use runtime::task::{Either, race};
use runtime::time::timeout;
use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// *bounded*
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// What stands for itself in a part of a path or of a query; the colon, as in `ks:table`, too.
const PLAIN: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// What is done with a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// It is read.
    Get,
    /// Something is begun.
    Post,
    /// It is replaced.
    Put,
    /// It is removed.
    Delete,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.hyper().as_str())
    }
}

impl Method {
    fn hyper(self) -> hyper::Method {
        match self {
            Method::Get => hyper::Method::GET,
            Method::Post => hyper::Method::POST,
            Method::Put => hyper::Method::PUT,
            Method::Delete => hyper::Method::DELETE,
        }
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    method: Method,
    /// As it is sent.
    path: String,
    /// As it is sent; without its question mark.
    query: String,
    json: Option<String>,
}

impl Request {
    /// For a path of constant text; what varies goes in by [`Request::part`].
    pub fn new(method: Method, path: &str) -> Request {
        Request { method, path: path.to_string(), query: String::new(), json: None }
    }

    /// With one more part of the path.
    pub fn part(mut self, part: &str) -> Request {
        if !self.path.ends_with('/') {
            self.path.push('/');
        }
        self.path.extend(utf8_percent_encode(part, PLAIN));
        self
    }

    /// With a parameter.
    pub fn with(mut self, name: &str, value: &str) -> Request {
        if !self.query.is_empty() {
            self.query.push('&');
        }
        self.query.extend(utf8_percent_encode(name, PLAIN));
        self.query.push('=');
        self.query.extend(utf8_percent_encode(value, PLAIN));
        self
    }

    /// With a body.
    pub fn json(mut self, body: String) -> Request {
        self.json = Some(body);
        self
    }

    /// Path and query, as they are sent.
    pub fn target(&self) -> String {
        match self.query.is_empty() {
            true => self.path.clone(),
            false => format!("{}?{}", self.path, self.query),
        }
    }

    fn built(&self, host: &str) -> Result<hyper::Request<Full<Bytes>>, String> {
        let mut built = hyper::Request::builder().method(self.method.hyper()).uri(self.target());
        built = built.header(HOST, host);
        if self.json.is_some() {
            built = built.header(CONTENT_TYPE, "application/json");
        }
        let body = Bytes::from(self.json.clone().unwrap_or_default());
        built.body(Full::new(body)).map_err(|error| error.to_string())
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.target())
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status of HTTP: 200 is well.
    pub status: u16,
    /// What was answered; JSON, from a node.
    pub body: Vec<u8>,
    /// What the server calls itself.
    pub server: Option<String>,
    /// What a node has its operator know, whatever was asked: the header `Nereid-Notice`.
    pub notice: Option<String>,
}

/// What a status of HTTP is called.
pub fn reason(status: u16) -> &'static str {
    let known = hyper::StatusCode::from_u16(status).ok();
    known.and_then(|status| status.canonical_reason()).unwrap_or("Unknown")
}

/// Asks one server. Its connection is made when it is needed, and kept.
pub struct Client {
    peer: SocketAddr,
    open: Option<Open>,
}

/// A connection that is free for a request.
struct Open {
    sender: SendRequest<Full<Bytes>>,
    /// `None`: it has ended.
    connection: Option<Connection<Socket<TcpStream>, Full<Bytes>>>,
}

impl Client {
    /// Nothing is sent yet.
    pub fn new(peer: SocketAddr) -> Client {
        Client { peer, open: None }
    }

    /// Who is asked.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Connects ahead, so that who is there is known before anything is asked. The error names the
    /// address.
    pub async fn connect(&mut self, within: Duration) -> Result<(), String> {
        let connected = timeout(within, connect(self.peer)).await;
        let late = |_| Err(format!("connect {}: no answer within {within:?}", self.peer));
        self.open = Some(connected.unwrap_or_else(late)?);
        Ok(())
    }

    /// Asks and waits at most that long. The error names the request and the address.
    pub async fn send(&mut self, request: &Request, within: Duration) -> Result<Reply, String> {
        let answered = timeout(within, self.exchange(request)).await;
        let answered = answered.unwrap_or_else(|_| Err(format!("no answer within {within:?}")));
        answered.map_err(|what| format!("{request} of {}: {what}", self.peer))
    }

    async fn exchange(&mut self, request: &Request) -> Result<Reply, String> {
        let mut open = match self.kept().await {
            Some(open) => open,
            None => connect(self.peer).await?,
        };
        let built = request.built(&self.peer.to_string())?;
        let reply = open.carry(async |sender| exchange(sender, built).await).await?;
        self.open = Some(open); // What failed, or was given up, is dropped with its connection.
        Ok(reply)
    }

    /// The connection of the last request, if the server has left it open. (*asked-once*: what was
    /// closed is known before anything is sent.)
    async fn kept(&mut self) -> Option<Open> {
        let mut open = self.open.take()?;
        let ready = open.carry(async |sender| sender.ready().await.map_err(|e| told(&e))).await;
        (ready.is_ok() && open.connection.is_some()).then_some(open)
    }
}

async fn connect(peer: SocketAddr) -> Result<Open, String> {
    let stream = TcpStream::connect(peer).await.map_err(|error| error.to_string())?;
    let shaken = handshake(Socket::new(stream)).await;
    let (sender, connection) = shaken.map_err(|error| told(&error))?;
    Ok(Open { sender, connection: Some(connection) })
}

impl Open {
    /// Does that while the connection works. (Its end is told to the sender when it is dropped.)
    async fn carry<T>(&mut self, with: impl AsyncFnOnce(&mut SendRequest<Full<Bytes>>) -> T) -> T {
        let Open { sender, connection } = self;
        let carried = async {
            if let Some(carrying) = connection {
                let _ = carrying.await;
            }
            *connection = None;
            std::future::pending().await
        };
        // The connection first: whether the server has closed it is known before anything is sent.
        match race(carried, with(sender)).await {
            Either::Left(never) => never,
            Either::Right(done) => done,
        }
    }
}

async fn exchange(
    sender: &mut SendRequest<Full<Bytes>>,
    request: hyper::Request<Full<Bytes>>,
) -> Result<Reply, String> {
    let response = sender.send_request(request).await.map_err(|error| told(&error))?;
    let status = response.status().as_u16();
    let header = |name: &str| {
        let value = response.headers().get(name).and_then(|value| value.to_str().ok());
        value.map(str::to_string)
    };
    let (server, notice) = (header(SERVER.as_str()), header("nereid-notice"));
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| told(&*error))?.to_bytes().to_vec();
    Ok(Reply { status, body, server, notice })
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
