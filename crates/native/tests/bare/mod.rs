//! Bare clients of a served node, for the tests of this folder.
#![allow(dead_code, reason = "no test needs all of it")]

use native::{Config, Limits, Ports, Server};
use runtime::net::TcpStream;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use testkit::CqlEnv;

pub(crate) const STARTUP: u8 = 1;
pub(crate) const READY: u8 = 2;
pub(crate) const ERROR: u8 = 0;
pub(crate) const AUTHENTICATE: u8 = 3;
pub(crate) const OPTIONS: u8 = 5;
pub(crate) const SUPPORTED: u8 = 6;
pub(crate) const QUERY: u8 = 7;
pub(crate) const RESULT: u8 = 8;
pub(crate) const AUTH_RESPONSE: u8 = 15;
pub(crate) const AUTH_SUCCESS: u8 = 16;
pub(crate) const OVERLOADED: u32 = 0x1001;
pub(crate) const INVALID: u32 = 0x2200;

pub(crate) fn frame(stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![4, 0];
    out.extend(stream.to_be_bytes());
    out.push(opcode);
    out.extend((body.len() as u32).to_be_bytes());
    out.extend(body);
    out
}

pub(crate) fn query(stream: i16, text: &str) -> Vec<u8> {
    let mut body = (text.len() as u32).to_be_bytes().to_vec();
    body.extend(text.as_bytes());
    body.extend([0, 1, 0]);
    frame(stream, QUERY, &body)
}

/// A bare client.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    pub(crate) input: Vec<u8>,
}

/// An answer: the stream, what it is, and an error's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) stream: i16,
    pub(crate) opcode: u8,
    pub(crate) error: Option<u32>,
}

impl Client {
    pub(crate) async fn connect(port: u16) -> Client {
        let mut client = Client::start(IpAddr::V4(Ipv4Addr::LOCALHOST), port).await;
        assert_eq!(client.answer().await.map(|answer| answer.opcode), Some(READY));
        client
    }

    /// Logs in by name and password.
    pub(crate) async fn log_in(address: IpAddr, port: u16, name: &str, password: &str) -> Client {
        let mut client = Client::start(address, port).await;
        assert_eq!(client.answer().await.map(|answer| answer.opcode), Some(AUTHENTICATE));
        let token = format!("\0{name}\0{password}");
        let mut body = (token.len() as u32).to_be_bytes().to_vec();
        body.extend(token.as_bytes());
        assert_eq!(client.ask(frame(1, AUTH_RESPONSE, &body)).await.opcode, AUTH_SUCCESS);
        client
    }

    /// A connection that has sent STARTUP.
    async fn start(address: IpAddr, port: u16) -> Client {
        let address = SocketAddr::new(address, port);
        let stream = TcpStream::connect(address).await.expect("a connection");
        let client = Client { stream, input: Vec::new() };
        let mut body = vec![0, 1, 0, 11];
        body.extend(b"CQL_VERSION");
        body.extend([0, 5]);
        body.extend(b"3.0.0");
        client.send(frame(0, STARTUP, &body)).await;
        client
    }

    pub(crate) async fn send(&self, bytes: Vec<u8>) {
        // A connection that was ended is seen when its answers are read.
        let _ = self.stream.write_all(bytes).await;
    }

    /// The next answer; `None` at the end of the connection.
    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        loop {
            if let Some(header) = self.input.first_chunk::<9>() {
                let length = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
                let whole = 9 + length as usize;
                if whole <= self.input.len() {
                    let answer = Answer {
                        stream: i16::from_be_bytes([header[2], header[3]]),
                        opcode: header[4],
                        error: (header[4] == ERROR).then(|| {
                            u32::from_be_bytes(self.input[9..13].try_into().expect("a code"))
                        }),
                    };
                    self.input.drain(..whole);
                    return Some(answer);
                }
            }
            let (read, input) = self.stream.read(std::mem::take(&mut self.input)).await;
            self.input = input;
            if !matches!(read, Ok(1..)) {
                return None;
            }
        }
    }

    pub(crate) async fn answers(&mut self, count: usize) -> Vec<Answer> {
        let mut answers = Vec::new();
        for _ in 0..count {
            answers.push(self.answer().await.expect("an answer"));
        }
        answers
    }

    pub(crate) async fn ask(&mut self, request: Vec<u8>) -> Answer {
        self.send(request).await;
        self.answer().await.expect("an answer")
    }
}

/// A served node with the table `ks.t`, whose row 1 has a value of so many bytes.
pub(crate) async fn serve(env: &CqlEnv, limits: Limits, value_bytes: usize) -> (Rc<Server>, u16) {
    env.ok("CREATE TABLE t (k int PRIMARY KEY, v text)").await;
    let value = "x".repeat(value_bytes);
    env.ok(&format!("INSERT INTO t (k, v) VALUES (1, '{value}')")).await;
    let config = Config {
        direct: Ports {
            plain: Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0)),
            ..Ports::default()
        },
        proxied: Ports::default(),
        keepalive: false,
        tells_shards: false,
        body_bytes_max: 16 << 20,
        limits,
    };
    let server = Server::start(config);
    let bound = server.listen().await.expect("a port");
    (server, bound.direct.plain.expect("a port").port())
}
