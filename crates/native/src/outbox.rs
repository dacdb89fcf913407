//! What a connection has still to send: one buffer that requests append to while the previous one
//! is on its way, so that answers which are ready together leave together.
//!
//! Who answers many requests in one turn holds the outbox and flushes it in the end: what the
//! kernel takes at once leaves in one call. The rest, and what is appended at other times, is the
//! writing loop's.
//!
//! Invariants
//!  - *whole-envelopes*: the buffer holds whole envelopes; nobody awaits while appending one.
//!  - *bounded*: requests are read and run only while no more is unsent than the admission allows.
//!  - *in-order*: nothing leaves while something older is on its way.
//!  - *charged*: what is unsent is charged to the admission, until it is sent or dropped.

use crate::admission::Admission;
use crate::compress::Compression;
use crate::frame::{HEADER_BYTES, flag};
use crate::segment::{self, Packing};
use runtime::net::TcpStream;
use runtime::sync::Notify;
use runtime::time::Instant;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Buffers above this are given back to the allocator once they are sent.
const KEPT_BYTES_MAX: usize = 64 << 10;
/// What is held is flushed when it has so many bytes: so the buffer is kept, and the client has
/// something to do.
const HELD_BYTES_MAX: usize = 32 << 10;
/// More is not handed to the kernel by whoever answers.
const SENT_AT_ONCE_MAX: usize = 256 << 10;

/// How envelopes leave: the choice of STARTUP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carriage {
    /// As they are, with bodies compressed or not (versions 3 and 4).
    Envelopes(Option<Compression>),
    /// In segments (version 5).
    Segments(Packing),
}

/// The unsent answers of one connection.
#[derive(Debug)]
pub(crate) struct Outbox {
    admission: Rc<Admission>,
    pending: RefCell<Vec<u8>>,
    /// What the kernel did not take at once, as it is to leave, and the bytes that it is charged.
    left: RefCell<(Vec<u8>, usize)>,
    /// The writing loop waits for the kernel.
    sends: Cell<bool>,
    /// Somebody is going to flush.
    held: Cell<bool>,
    /// Bytes that are charged: what is pending, and what is on its way.
    unsent: Cell<usize>,
    /// Since when the client has taken nothing of what is on its way.
    sends_since: Cell<Option<Instant>>,
    carriage: Cell<Carriage>,
    /// Bytes at the start of `pending` that leave as they are, whatever the carriage: the answer
    /// to STARTUP is the last one before segments begin.
    plain_bytes: Cell<usize>,
    closed: Cell<bool>,
    filled: Notify,
    drained: Notify,
}

impl Outbox {
    pub(crate) fn new(admission: Rc<Admission>) -> Outbox {
        Outbox {
            admission,
            pending: RefCell::new(Vec::new()),
            left: RefCell::default(),
            sends: Cell::new(false),
            held: Cell::new(false),
            unsent: Cell::new(0),
            sends_since: Cell::new(None),
            carriage: Cell::new(Carriage::Envelopes(None)),
            plain_bytes: Cell::new(0),
            closed: Cell::new(false),
            filled: Notify::new(),
            drained: Notify::new(),
        }
    }

    /// Appends one envelope that `encode` writes; how many bytes it has.
    pub(crate) fn push(&self, encode: impl FnOnce(&mut Vec<u8>)) -> usize {
        self.append(encode, self.compression())
    }

    /// Appends one that is not worth compressing.
    pub(crate) fn push_plain(&self, encode: impl FnOnce(&mut Vec<u8>)) {
        self.append(encode, None);
    }

    fn compression(&self) -> Option<Compression> {
        match self.carriage.get() {
            Carriage::Envelopes(compression) => compression,
            Carriage::Segments(_) => None,
        }
    }

    fn append(&self, encode: impl FnOnce(&mut Vec<u8>), compression: Option<Compression>) -> usize {
        if self.closed.get() {
            return 0;
        }
        let mut pending = self.pending.borrow_mut();
        let start = pending.len();
        encode(&mut pending);
        let bytes = pending.len() - start;
        if let Some(compression) = compression {
            compress(compression, &mut pending, start);
        }
        let appended = pending.len() - start;
        self.unsent.set(self.unsent.get() + appended);
        self.admission.add_unsent(appended);
        if start == 0 && appended != 0 && !self.held.get() && !self.sends.get() {
            drop(pending);
            self.filled.notify_one();
        }
        bytes
    }

    /// Changes the carriage of all that is appended from now on.
    pub(crate) fn carry(&self, carriage: Carriage) {
        if let Carriage::Segments(_) = carriage {
            self.plain_bytes.set(self.pending.borrow().len());
        }
        self.carriage.set(carriage);
    }

    /// Whether the client has read enough of what it asked for.
    pub(crate) fn has_room(&self) -> bool {
        let unsent = self.unsent.get();
        unsent == 0 || self.closed.get() || unsent <= self.admission.unsent_bytes_max()
    }

    /// Waits while the client does not read what it asked for.
    pub(crate) async fn wait_for_room(&self) {
        while !self.has_room() {
            self.drained.notified().await;
        }
    }

    /// Since when the client has taken nothing of what is on its way to it.
    pub(crate) fn sends_since(&self) -> Option<Instant> {
        self.sends_since.get()
    }

    /// So many bytes are not charged any more.
    fn discharge(&self, bytes: usize) {
        self.unsent.set(self.unsent.get() - bytes);
        self.admission.sub_unsent(bytes);
    }

    /// Nothing is appended any more; what is pending still leaves.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.filled.notify_one();
        self.drained.notify_all();
    }

    /// What is appended from now on waits for [`Outbox::flush`]. Who holds does not await.
    pub(crate) fn hold(&self) {
        self.held.set(true);
    }

    /// Whether so much is held that it should leave now.
    pub(crate) fn is_full(&self) -> bool {
        HELD_BYTES_MAX <= self.pending.borrow().len()
    }

    /// Sends what is pending as far as the kernel takes it at once; the writing loop has the rest.
    pub(crate) fn flush(&self, stream: &TcpStream) {
        self.held.set(false);
        if !self.sends.get() && !self.closed.get() && !self.send_now(stream) {
            self.filled.notify_one();
        }
    }

    /// Hands what is pending to the kernel; whether nothing is left.
    fn send_now(&self, stream: &TcpStream) -> bool {
        if !self.left.borrow().0.is_empty() {
            return false;
        }
        let ready = self.pending.take();
        if ready.is_empty() {
            self.pending.replace(ready);
            return true;
        }
        let charged = ready.len();
        let mut ready = self.carried(ready);
        // An error shows when the writing loop meets it, which sends what is long bit by bit.
        let sent = match ready.len() <= SENT_AT_ONCE_MAX {
            true => stream.try_write(&ready).unwrap_or(0),
            false => 0,
        };
        if sent < ready.len() {
            ready.drain(..sent);
            self.left.replace((ready, charged));
            return false;
        }
        self.sent(ready, charged);
        true
    }

    /// All of a buffer was sent: it is used again.
    fn sent(&self, mut buffer: Vec<u8>, charged: usize) {
        self.discharge(charged);
        self.drained.notify_all();
        let mut pending = self.pending.borrow_mut();
        if pending.capacity() == 0 && buffer.capacity() <= KEPT_BYTES_MAX {
            buffer.clear();
            *pending = buffer;
        }
    }

    /// Sends what is appended, until the outbox is closed and empty or the client is gone.
    pub(crate) async fn send_all(&self, stream: &TcpStream) {
        loop {
            if self.send_now(stream) {
                if self.closed.get() {
                    return;
                }
                self.filled.notified().await;
                // Requests that are ready in this turn add their answers first.
                runtime::task::yield_now().await;
                continue;
            }
            let (left, charged) = self.left.take();
            self.sends.set(true);
            self.sends_since.set(Some(Instant::now()));
            let (sent, buffer) = stream.write_all(left).await;
            self.sends_since.set(None);
            self.sends.set(false);
            self.sent(buffer, charged);
            if sent.is_err() {
                self.closed.set(true);
                self.pending.borrow_mut().clear();
                self.discharge(self.unsent.get());
                return;
            }
        }
    }

    fn carried(&self, ready: Vec<u8>) -> Vec<u8> {
        let Carriage::Segments(packing) = self.carriage.get() else { return ready };
        let (plain, envelopes) = ready.split_at(self.plain_bytes.take());
        let mut out = plain.to_vec();
        segment::encode(packing, envelopes, &mut out);
        out
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.discharge(self.unsent.get());
    }
}

/// Compresses the body of the envelope at `start`.
fn compress(compression: Compression, pending: &mut Vec<u8>, start: usize) {
    let body_start = start + HEADER_BYTES;
    if pending.len() <= body_start {
        return;
    }
    let body = pending.split_off(body_start);
    compression.pack(&body, pending);
    let length = (pending.len() - body_start) as u32;
    pending[start + 5..body_start].copy_from_slice(&length.to_be_bytes());
    pending[start + 1] |= flag::COMPRESSED;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{self, opcode};

    fn outbox() -> Outbox {
        Outbox::new(Admission::new(crate::admission::Limits::of_shard(1 << 30)))
    }

    fn envelope(out: &mut Vec<u8>, body: &[u8]) {
        let start = frame::begin(out, 5, 0, 1, opcode::RESULT);
        out.extend_from_slice(body);
        frame::finish(out, start);
    }

    #[test]
    fn the_answer_to_startup_leaves_before_segments_begin() {
        let outbox = outbox();
        outbox.push(|out| envelope(out, b"ready"));
        outbox.carry(Carriage::Segments(Packing::Plain));
        outbox.push(|out| envelope(out, b"rows"));
        let carried = outbox.carried(outbox.pending.take());
        let plain = HEADER_BYTES + 5;
        assert_eq!(&carried[HEADER_BYTES..plain], b"ready");
        let mut payload = Vec::new();
        let used = segment::decode(Packing::Plain, &carried[plain..], &mut payload).unwrap();
        assert_eq!(used, Some(carried.len() - plain));
        assert_eq!(&payload[HEADER_BYTES..], b"rows");
    }

    #[test]
    fn compression_touches_the_new_envelope_only() {
        let outbox = outbox();
        outbox.push(|out| envelope(out, b"plain"));
        outbox.carry(Carriage::Envelopes(Some(Compression::Lz4)));
        outbox.push(|out| envelope(out, &[7; 1000]));
        let pending = outbox.pending.take();
        assert_eq!(&pending[HEADER_BYTES..HEADER_BYTES + 5], b"plain");
        let second = &pending[HEADER_BYTES + 5..];
        assert_eq!(second[1], flag::COMPRESSED);
        assert!(second.len() < 100);
        let body = Compression::Lz4.unpack(&second[HEADER_BYTES..], 2000).unwrap();
        assert_eq!(body, [7; 1000]);
    }
}
