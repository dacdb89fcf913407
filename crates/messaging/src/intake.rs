//! From what arrives to frames.
//!
//! Invariants
//!  - *length-first* (of frames): no memory is reserved for a body before its length was looked at.
//!  - *all-in-order*: each byte that arrived is in one head, header or body, in order.
//!  - *checked-first*: nothing of a parcel of several frames is given out before all of it was
//!    checked; a body that is alone in its parcel is checked before it is given out.

use crate::frame::{HEADER_BYTES, Header};
use crate::parcel::{self, HEAD_BYTES, Head, PARCEL_BYTES_MAX};
use runtime::net::NetError;
use runtime::time::Instant;
use std::cell::Cell;
use std::fmt;
use std::ops::RangeInclusive;
use stdx::Damaged;
use tls::Stream;

/// What is read at once: more where much comes, and no more than that is held by who waits.
const READ_BYTES: RangeInclusive<usize> = 2 << 10..=64 << 10;

const _: () = assert!(HEAD_BYTES + HEADER_BYTES < *READ_BYTES.start(), "a read has room for both");
/// What is here of a parcel that is not whole.
const PART_BYTES_MAX: usize = HEAD_BYTES + PARCEL_BYTES_MAX;

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
    /// Up to where the frames of a checked parcel are.
    checked: usize,
    /// The parcel of the single frame whose header was given out last.
    alone: Option<Head>,
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

    /// Reads until there are so many bytes.
    async fn until(&mut self, bytes: usize, stream: &Stream, pulse: &Pulse) -> Result<(), Ended> {
        debug_assert!(bytes <= PART_BYTES_MAX, "length-first: {bytes} bytes are gathered");
        while self.rest().len() < bytes {
            self.more(bytes, stream, pulse).await?;
        }
        Ok(())
    }

    async fn more(&mut self, wanted: usize, stream: &Stream, pulse: &Pulse) -> Result<(), Ended> {
        let mut buf = std::mem::take(&mut self.buf);
        buf.drain(..std::mem::take(&mut self.used));
        self.checked = 0;
        let asked = self.read_bytes.max(wanted - buf.len());
        if 2 * (buf.len() + asked) < buf.capacity() {
            buf.shrink_to(HEADER_BYTES);
        }
        buf.reserve(asked);
        let (before, room) = (buf.len(), buf.capacity() - buf.len());
        debug_assert!(buf.len() < wanted, "all-in-order: {} bytes are unused", buf.len());
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

    /// The header of the next frame, if all of the frame is here. It stays here.
    pub(crate) fn here(&mut self) -> Result<Option<Header>, Damaged> {
        debug_assert!(self.alone.is_none(), "all-in-order: a body was left");
        if self.used == self.checked && !self.opens()? {
            return Ok(None);
        }
        debug_assert!(self.checked <= self.buf.len(), "checked-first: {}", self.checked);
        parcel::frame(&self.buf[self.used..self.checked]).map(|(header, _)| Some(header))
    }

    /// Opens the next parcel, if it is of several frames, and all of it is here.
    fn opens(&mut self) -> Result<bool, Damaged> {
        if self.rest().len() < HEAD_BYTES {
            return Ok(false);
        }
        let head = Head::decode(self.rest())?;
        let bytes = head.bytes as usize;
        if head.is_alone() || self.rest().len() < HEAD_BYTES + bytes {
            return Ok(false);
        }
        head.check(&self.rest()[HEAD_BYTES..][..bytes])?;
        self.used += HEAD_BYTES;
        self.checked = self.used + bytes;
        Ok(true)
    }

    /// The body of the frame that is here.
    pub(crate) fn take_here(&mut self, header: &Header) -> Vec<u8> {
        let start = self.used + HEADER_BYTES;
        let end = start + header.body_bytes as usize;
        debug_assert!(end <= self.checked, "checked-first: {end} of {}", self.checked);
        debug_assert!(self.used < self.checked, "all-in-order: no frame is here");
        self.used = end;
        self.buf[start..end].to_vec()
    }

    /// The next header.
    pub(crate) async fn header(&mut self, stream: &Stream, pulse: &Pulse) -> Result<Header, Ended> {
        if let Some(header) = self.here()? {
            self.used += HEADER_BYTES;
            return Ok(header);
        }
        self.until(HEAD_BYTES, stream, pulse).await?;
        let head = Head::decode(self.rest())?;
        if !head.is_alone() {
            self.until(HEAD_BYTES + head.bytes as usize, stream, pulse).await?;
            let header = self.here()?.ok_or(Damaged::new("parcel without a frame", 0))?;
            self.used += HEADER_BYTES;
            return Ok(header);
        }
        self.until(HEAD_BYTES + HEADER_BYTES, stream, pulse).await?;
        let header = head.alone(&self.rest()[HEAD_BYTES..])?;
        self.used += HEAD_BYTES + HEADER_BYTES;
        self.alone = Some(head);
        Ok(header)
    }

    /// The body of the header that was given out last, whose length was looked at; checked.
    pub(crate) async fn body(
        &mut self,
        header: &Header,
        stream: &Stream,
        pulse: &Pulse,
    ) -> Result<Vec<u8>, Ended> {
        let bytes = header.body_bytes as usize;
        let Some(head) = self.alone.take() else {
            debug_assert!(self.used + bytes <= self.checked, "checked-first: {bytes} more");
            let body = self.buf[self.used..self.used + bytes].to_vec();
            self.used += bytes;
            return Ok(body);
        };
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
        self.checked = self.used;
        debug_assert_eq!(body.len(), bytes, "length-first: another length");
        head.check_alone(header, &body)?;
        Ok(body)
    }
}
