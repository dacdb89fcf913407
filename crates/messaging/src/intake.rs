//! From what arrives to frames.
//!
//! Invariants
//!  - *length-first* (of frames): no memory is reserved for a body before its length was looked at.
//!  - *all-in-order*: each byte that arrived is in one header or one body, in order.

use crate::frame::{HEADER_BYTES, Header};
use runtime::net::NetError;
use runtime::time::Instant;
use std::cell::Cell;
use std::fmt;
use std::ops::RangeInclusive;
use stdx::Damaged;
use tls::Stream;

/// What is read at once: more where much comes, and no more than that is held by who waits.
const READ_BYTES: RangeInclusive<usize> = 2 << 10..=64 << 10;

const _: () = assert!(HEADER_BYTES < *READ_BYTES.start(), "a read has room for a header");

/// Why nothing more is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The other end has closed.
    Closed,
    Net(NetError),
    Damaged(Damaged),
}

impl From<Damaged> for Ended {
    fn from(damaged: Damaged) -> Ended {
        Ended::Damaged(damaged)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Closed => f.write_str("the other node has closed the connection"),
            Ended::Net(error) => error.fmt(f),
            Ended::Damaged(damaged) => damaged.fmt(f),
        }
    }
}

/// Whether the other end is heard.
#[derive(Debug)]
pub(crate) struct Pulse {
    heard: Cell<Instant>,
    /// We read nothing now, so silence means nothing.
    paused: Cell<bool>,
}

impl Pulse {
    pub(crate) fn new() -> Pulse {
        Pulse { heard: Cell::new(Instant::now()), paused: Cell::new(false) }
    }

    pub(crate) fn pause(&self) {
        debug_assert!(!self.paused.get(), "paused-is-not-dead: it is paused already");
        self.paused.set(true);
    }

    pub(crate) fn goes_on(&self) {
        let now = Instant::now();
        debug_assert!(self.heard.get() <= now, "paused-is-not-dead: heard in the future");
        self.paused.set(false);
        self.heard.set(now);
    }

    /// What was not heard before does not count.
    pub(crate) fn goes_on_from(&self, now: Instant) {
        debug_assert!(self.heard.get() <= now, "paused-is-not-dead: heard in the future");
        self.heard.set(now);
    }

    /// Since when nothing was heard although we listen.
    pub(crate) fn silent_since(&self) -> Option<Instant> {
        (!self.paused.get()).then(|| self.heard.get())
    }
}

/// What was read of a connection and not used yet.
#[derive(Debug, Default)]
pub(crate) struct Intake {
    buf: Vec<u8>,
    used: usize,
    received: u64,
    /// What the next read asks for.
    read_bytes: usize,
}

impl Intake {
    /// What is read begins with these bytes.
    pub(crate) fn new(early: Vec<u8>) -> Intake {
        Intake { buf: early, read_bytes: *READ_BYTES.start(), ..Intake::default() }
    }

    /// Bytes that arrived since this was asked last.
    pub(crate) fn take_received(&mut self) -> u64 {
        std::mem::take(&mut self.received)
    }

    fn rest(&self) -> &[u8] {
        debug_assert!(self.used <= self.buf.len(), "all-in-order: {} used", self.used);
        &self.buf[self.used..]
    }

    async fn more(&mut self, stream: &Stream, pulse: &Pulse) -> Result<(), Ended> {
        let mut buf = std::mem::take(&mut self.buf);
        buf.drain(..std::mem::take(&mut self.used));
        if 2 * self.read_bytes < buf.capacity() {
            buf.shrink_to(HEADER_BYTES);
        }
        buf.reserve(self.read_bytes);
        let (before, room) = (buf.len(), buf.capacity() - buf.len());
        debug_assert!(buf.len() < HEADER_BYTES, "all-in-order: {} bytes are unused", buf.len());
        let (read, buf) = stream.read(buf).await;
        self.buf = buf;
        let read_bytes = match self.buf.len() - before {
            count if count == room => 2 * self.read_bytes,
            count if count < self.read_bytes / 4 => self.read_bytes / 2,
            _ => self.read_bytes,
        };
        self.read_bytes = read_bytes.clamp(*READ_BYTES.start(), *READ_BYTES.end());
        self.heard(read, pulse)
    }

    fn heard(&mut self, read: Result<usize, NetError>, pulse: &Pulse) -> Result<(), Ended> {
        match read {
            Ok(0) => Err(Ended::Closed),
            Ok(count) => {
                debug_assert!(
                    !pulse.paused.get(),
                    "paused-is-not-dead: it reads while it is paused"
                );
                self.received += count as u64;
                pulse.goes_on();
                Ok(())
            }
            Err(error) => Err(Ended::Net(error)),
        }
    }

    /// The next header.
    pub(crate) async fn header(&mut self, stream: &Stream, pulse: &Pulse) -> Result<Header, Ended> {
        while self.rest().len() < HEADER_BYTES {
            self.more(stream, pulse).await?;
        }
        let header = Header::decode(self.rest())?;
        self.used += HEADER_BYTES;
        debug_assert!(self.used <= self.buf.len(), "all-in-order: {} used", self.used);
        Ok(header)
    }

    /// The body of a header, whose length was looked at; checked.
    pub(crate) async fn body(
        &mut self,
        header: &Header,
        stream: &Stream,
        pulse: &Pulse,
    ) -> Result<Vec<u8>, Ended> {
        let bytes = header.body_bytes as usize;
        let here = bytes.min(self.rest().len());
        let mut body = Vec::with_capacity(bytes);
        body.extend_from_slice(&self.rest()[..here]);
        self.used += here;
        while body.len() < bytes {
            debug_assert!(self.rest().is_empty(), "all-in-order: bytes wait before those read");
            let (read, back) = stream.read(body).await;
            body = back;
            self.heard(read, pulse)?;
        }
        if bytes < body.len() {
            // What is encrypted may give more than there was room for.
            (self.buf, self.used) = (body.split_off(bytes), 0);
        }
        debug_assert_eq!(body.len(), bytes, "length-first: another length");
        header.check_body(&body)?;
        Ok(body)
    }
}
