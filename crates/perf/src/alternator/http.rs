//! A connection over which requests of the API go one by one, and whose memory is used again: what
//! the client takes is little beside what the server does.
//!
//! Invariants
//!  - *bounded*: an answer has so many bytes at most, head and body, or it is an error.
//!  - *foreign-never-panics*: no answer does, whatever its bytes.

use super::request::Asked;
use runtime::net::TcpStream;
use std::fmt::Write;
use std::net::SocketAddr;

/// *bounded*: a page of a scan has a megabyte of items, whose JSON is larger.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Of the body of an error, so many are shown.
const SHOWN_BYTES: usize = 300;

/// Where an answer is in what has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    head_bytes: usize,
    body_bytes: usize,
}

/// An answer's head, if it is all there.
fn head(input: &[u8]) -> Result<Option<Answer>, String> {
    let Some(end) = input.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&input[..end]).map_err(|_| "a head that is no text")?;
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let status = status.ok_or("an answer that is no HTTP")?;
    let mut length = None;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse::<usize>().ok();
        }
    }
    let body_bytes = length.ok_or("an answer that does not say its length")?;
    if ANSWER_BYTES_MAX < body_bytes {
        return Err(format!("an answer of {body_bytes} bytes"));
    }
    Ok(Some(Answer { status, head_bytes: end + 4, body_bytes }))
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// The status, and the beginning of the body.
    Refused(u16, String),
}

/// A connection to a server.
pub(super) struct Connection {
    stream: TcpStream,
    host: String,
    request: Vec<u8>,
    input: Vec<u8>,
}

impl Connection {
    pub(super) async fn connect(address: SocketAddr) -> Result<Connection, String> {
        let connected = TcpStream::connect(address).await;
        let stream = connected.map_err(|error| format!("cannot connect: {error}"))?;
        let host = address.to_string();
        Ok(Connection { stream, host, request: Vec::new(), input: Vec::new() })
    }

    /// Sends a request and waits for its answer. After an error the connection is of no use.
    pub(super) async fn ask(&mut self, asked: Asked<'_>) -> Result<Outcome, String> {
        let answer = self.exchange(asked).await?;
        let outcome = match answer.status {
            200 => Outcome::Done,
            status => {
                let body = &self.input[answer.head_bytes..];
                let shown = &body[..body.len().min(SHOWN_BYTES)];
                Outcome::Refused(status, String::from_utf8_lossy(shown).into_owned())
            }
        };
        self.input.clear();
        Ok(outcome)
    }

    /// The same, for the body of an answer that is well.
    pub(super) async fn answer(&mut self, asked: Asked<'_>) -> Result<String, String> {
        let answer = self.exchange(asked).await?;
        let body = String::from_utf8_lossy(&self.input[answer.head_bytes..]).into_owned();
        self.input.clear();
        match answer.status {
            200 => Ok(body),
            status => Err(format!("{}: status {status}: {body}", asked.0)),
        }
    }

    async fn exchange(&mut self, (operation, body): Asked<'_>) -> Result<Answer, String> {
        let mut request = std::mem::take(&mut self.request);
        request.clear();
        put(&mut request, &self.host, (operation, body));
        let (sent, request) = self.stream.write_all(request).await;
        self.request = request;
        sent.map_err(|error| error.to_string())?;
        loop {
            if let Some(answer) = head(&self.input)?
                && answer.head_bytes + answer.body_bytes <= self.input.len()
            {
                return Ok(answer);
            }
            if ANSWER_BYTES_MAX * 2 < self.input.len() {
                return Err("an answer without an end".to_string());
            }
            let (read, input) = self.stream.read(std::mem::take(&mut self.input)).await;
            self.input = input;
            if read.map_err(|error| error.to_string())? == 0 {
                return Err("the server ended the connection".to_string());
            }
        }
    }
}

/// Appends a request as it is sent.
fn put(out: &mut Vec<u8>, host: &str, (operation, body): Asked<'_>) {
    let mut text = String::from_utf8(std::mem::take(out)).unwrap_or_default();
    let _ = write!(
        text,
        "POST / HTTP/1.1\r\nHost: {host}\r\nX-Amz-Target: DynamoDB_20120810.{operation}\r\n\
         Content-Type: application/x-amz-json-1.0\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    *out = text.into_bytes();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_taken_when_they_are_whole() {
        let whole = b"HTTP/1.1 400 Bad Request\r\ncontent-LENGTH: 5\r\nServer: x\r\n\r\nwrong";
        let answer = Answer { status: 400, head_bytes: whole.len() - 5, body_bytes: 5 };
        for end in 0..whole.len() {
            let expected = (whole.len() - 5 <= end).then_some(answer);
            assert_eq!(head(&whole[..end]), Ok(expected), "{end}");
        }
        let check = |bytes: &[u8], part: &str| {
            let text = head(bytes).expect_err(part);
            assert!(text.contains(part), "{text}");
        };
        check(b"SSH-2.0\r\n\r\n", "no HTTP");
        check(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "its length");
        check(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "99999999999 bytes");
        check(b"HTTP/1.1 200 \xff\r\n\r\n", "no text");
    }

    #[test]
    fn a_request_says_its_length() {
        let mut out = Vec::new();
        put(&mut out, "127.0.0.1:8000", ("GetItem", "{}"));
        let expected = "POST / HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nX-Amz-Target: \
                        DynamoDB_20120810.GetItem\r\nContent-Type: application/x-amz-json-1.0\r\n\
                        Content-Length: 2\r\n\r\n{}";
        assert_eq!(String::from_utf8(out).as_deref(), Ok(expected));
    }
}
