//! A node that is served to clients, and clients without a driver: they send what a test says.
//!
//! Invariants
//!  - *own-encoding*: frames are made and read here, not by `native`, whose mistakes would cancel
//!    out.

use crate::CqlEnv;
use native::{Config, Limits, Ports, Server};
use runtime::net::TcpStream;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;

/// Opcodes of the protocol.
pub mod opcode {
    #![allow(missing_docs, reason = "the protocol's own names")]

    pub const ERROR: u8 = 0;
    pub const STARTUP: u8 = 1;
    pub const READY: u8 = 2;
    pub const AUTHENTICATE: u8 = 3;
    pub const OPTIONS: u8 = 5;
    pub const SUPPORTED: u8 = 6;
    pub const QUERY: u8 = 7;
    pub const RESULT: u8 = 8;
    pub const AUTH_RESPONSE: u8 = 15;
    pub const AUTH_SUCCESS: u8 = 16;
}

/// The error of a request that was shed.
pub const OVERLOADED: u32 = 0x1001;
/// The error of a request that is refused.
pub const INVALID: u32 = 0x2200;

/// The address of this machine, as its own clients have it.
pub const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A request of version 4.
pub fn frame(stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![4, 0];
    out.extend(stream.to_be_bytes());
    out.push(opcode);
    out.extend((body.len() as u32).to_be_bytes());
    out.extend(body);
    out
}

/// A QUERY without values.
pub fn query(stream: i16, text: &str) -> Vec<u8> {
    let mut body = (text.len() as u32).to_be_bytes().to_vec();
    body.extend(text.as_bytes());
    body.extend([0, 1, 0]);
    frame(stream, opcode::QUERY, &body)
}

/// A STARTUP without options.
pub fn startup() -> Vec<u8> {
    let mut body = vec![0, 1, 0, 11];
    body.extend(b"CQL_VERSION");
    body.extend([0, 5]);
    body.extend(b"3.0.0");
    frame(0, opcode::STARTUP, &body)
}

/// A bare client.
#[derive(Debug)]
pub struct Client {
    /// Its connection.
    pub stream: TcpStream,
    /// Bytes that were received and not read.
    pub input: Vec<u8>,
}

/// An answer: the stream, what it is, and an error's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The stream of the request.
    pub stream: i16,
    /// What it is.
    pub opcode: u8,
    /// The code of an error.
    pub error: Option<u32>,
}

impl Client {
    /// A client of this machine whose requests are answered.
    pub async fn connect(port: u16) -> Client {
        let mut client = Client::start(HERE, port).await;
        assert_eq!(client.answer().await.map(|answer| answer.opcode), Some(opcode::READY));
        client
    }

    /// Logs in by name and password.
    pub async fn log_in(address: IpAddr, port: u16, name: &str, password: &str) -> Client {
        let mut client = Client::start(address, port).await;
        assert_eq!(client.answer().await.map(|answer| answer.opcode), Some(opcode::AUTHENTICATE));
        let token = format!("\0{name}\0{password}");
        let mut body = (token.len() as u32).to_be_bytes().to_vec();
        body.extend(token.as_bytes());
        let asked = client.ask(frame(1, opcode::AUTH_RESPONSE, &body)).await;
        assert_eq!(asked.opcode, opcode::AUTH_SUCCESS);
        client
    }

    /// A connection that has sent STARTUP.
    async fn start(address: IpAddr, port: u16) -> Client {
        let address = SocketAddr::new(address, port);
        let stream = TcpStream::connect(address).await.expect("a connection");
        let client = Client { stream, input: Vec::new() };
        client.send(startup()).await;
        client
    }

    /// Sends bytes; nothing is wrong if nobody takes them.
    pub async fn send(&self, bytes: Vec<u8>) {
        // A connection that was ended is seen when its answers are read.
        let _ = self.stream.write_all(bytes).await;
    }

    /// The next answer; `None` at the end of the connection.
    pub async fn answer(&mut self) -> Option<Answer> {
        loop {
            if let Some(header) = self.input.first_chunk::<9>() {
                let length = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
                let whole = 9 + length as usize;
                if whole <= self.input.len() {
                    let answer = Answer {
                        stream: i16::from_be_bytes([header[2], header[3]]),
                        opcode: header[4],
                        error: (header[4] == opcode::ERROR).then(|| {
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

    /// The next answers.
    pub async fn answers(&mut self, count: usize) -> Vec<Answer> {
        let mut answers = Vec::new();
        for _ in 0..count {
            answers.push(self.answer().await.expect("an answer"));
        }
        answers
    }

    /// The answer to a request.
    pub async fn ask(&mut self, request: Vec<u8>) -> Answer {
        self.send(request).await;
        self.answer().await.expect("an answer")
    }
}

/// A served node with the table `ks.t`, whose row 1 has a value of so many bytes.
pub async fn serve(env: &CqlEnv, limits: Limits, value_bytes: usize) -> (Rc<Server>, u16) {
    env.ok("CREATE TABLE t (k int PRIMARY KEY, v text)").await;
    let value = "x".repeat(value_bytes);
    env.ok(&format!("INSERT INTO t (k, v) VALUES (1, '{value}')")).await;
    let server = Server::start(config(free_port(), Ports::default(), limits));
    let bound = server.listen().await.expect("a port");
    (server, bound.direct.plain.expect("a port").port())
}

/// A free port of this machine, without encryption.
pub fn free_port() -> Ports {
    let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
    Ports { plain: Some(any), ..Ports::default() }
}

/// A server at these ports, for clients and for proxies.
pub fn config(direct: Ports, proxied: Ports, limits: Limits) -> Config {
    Config {
        direct,
        proxied,
        keepalive: false,
        tells_shards: false,
        body_bytes_max: 16 << 20,
        limits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    async fn asks(env: CqlEnv) {
        let (server, port) = serve(&env, Limits::of_shard(64 << 20), 100).await;
        let mut client = Client::connect(port).await;
        let served = Answer { stream: 3, opcode: opcode::RESULT, error: None };
        assert_eq!(client.ask(query(3, "SELECT v FROM ks.t WHERE k = 1")).await, served);
        let refused = Answer { stream: 4, opcode: opcode::ERROR, error: Some(INVALID) };
        assert_eq!(client.ask(query(4, "SELECT v FROM ks.none")).await, refused);
        server.stop(Duration::from_secs(1)).await;
        assert_eq!(client.answer().await, None);
    }

    #[test]
    fn a_simulated_node_answers() {
        CqlEnv::run(1, 1, asks);
    }

    #[test]
    fn a_real_node_answers() {
        CqlEnv::run_on_real(1, asks);
    }
}
