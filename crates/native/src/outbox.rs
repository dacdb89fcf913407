//! What a connection has still to send: one buffer that requests append to while the previous one
//! is on its way, so that answers which are ready together leave together.
//!
//! A task that answers many requests in one turn holds the outbox and flushes it in the end: what
//! the kernel takes at once leaves in one call. The rest, and what is appended at other times, is
//! the writing loop's.
//!
//! Invariants
//!  - *whole-envelopes*: the buffer holds whole envelopes; there is no await while one is appended.
//!  - *bounded*: requests are read and run only while no more is unsent than the admission allows.
//!  - *in-order*: nothing leaves while something older is on its way.
//!  - *charged*: what is unsent is charged to the admission, until it is sent or dropped.
//!  - *small-steps*: what is large is packed by a helper thread, on behalf of the writing loop.

use crate::admission::Admission;
use crate::compress::Compression;
use crate::frame::{self, HEADER_BYTES, flag};
use crate::segment::{self, Packing};
use runtime::sync::Notify;
use runtime::task::compute;
use runtime::time::Instant;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tls::Stream;

/// Buffers above this are given back to the allocator once they are sent.
const KEPT_BYTES_MAX: usize = 64 << 10;
/// What is held is flushed when it has so many bytes: so the buffer is kept, and the client has
/// something to do.
const HELD_BYTES_MAX: usize = 32 << 10;
/// More is packed and handed to the kernel by the writing loop only.
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
    /// Where in `pending` the envelopes begin that are to be compressed yet, being large.
    unpacked: RefCell<Vec<usize>>,
    /// What the writing loop has to send next.
    left: RefCell<Left>,
    /// The writing loop waits for the kernel.
    sends: Cell<bool>,
    /// A flush will follow.
    held: Cell<bool>,
    /// Bytes that are charged: what is pending, and what is on its way.
    unsent: Cell<usize>,
    /// Since when the client has taken nothing of what is on its way.
    sends_since: Cell<Option<Instant>>,
    carriage: Cell<Carriage>,
    /// Bytes at the start of `pending` that leave as they are, whatever the carriage: the answer
    /// to STARTUP is the last one before segments begin.
    plain_bytes: Cell<usize>,
    /// About the most bytes that left together of late: the next buffer has room for them from the
    /// start, and does not grow answer by answer.
    usual_bytes: Cell<usize>,
    closed: Cell<bool>,
    filled: Notify,
    drained: Notify,
}

/// What leaves next.
#[derive(Debug, Default)]
struct Left {
    bytes: Vec<u8>,
    /// What it is charged.
    charged: usize,
    /// What is to be done first; `None`: it is as it is to leave, sealed.
    carrying: Option<Carrying>,
}

/// How envelopes become what leaves.
#[derive(Debug)]
struct Carrying {
    carriage: Carriage,
    /// Bytes at the start that leave as they are.
    plain_bytes: usize,
    /// Where the envelopes begin that are to be compressed.
    unpacked: Vec<usize>,
}

impl Outbox {
    pub(crate) fn new(admission: Rc<Admission>) -> Outbox {
        Outbox {
            admission,
            pending: RefCell::new(Vec::new()),
            unpacked: RefCell::default(),
            left: RefCell::default(),
            sends: Cell::new(false),
            held: Cell::new(false),
            unsent: Cell::new(0),
            sends_since: Cell::new(None),
            carriage: Cell::new(Carriage::Envelopes(None)),
            plain_bytes: Cell::new(0),
            usual_bytes: Cell::new(0),
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
        if pending.capacity() == 0 {
            pending.reserve(self.usual_bytes.get());
        }
        encode(&mut pending);
        let bytes = pending.len() - start;
        match compression {
            Some(compression) if bytes <= SENT_AT_ONCE_MAX => {
                compress(compression, &mut pending, start);
            }
            Some(_) => self.unpacked.borrow_mut().push(start),
            None => {}
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

    /// Bytes that the client has not taken.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.unsent.get()
    }

    /// Whether the client has read enough of what it asked for.
    pub(crate) fn has_room(&self) -> bool {
        let unsent = self.unsent.get();
        unsent == 0 || self.closed.get() || unsent <= self.admission.unsent_bytes_max()
    }

    /// Whether nothing is sent any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
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

    /// Waits while more than so many bytes are unsent.
    pub(crate) async fn wait_for_less(&self, bytes_max: usize) {
        while bytes_max < self.unsent.get() && !self.closed.get() {
            self.drained.notified().await;
        }
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

    /// What is appended from now on waits for [`Outbox::flush`]; no await comes in between.
    pub(crate) fn hold(&self) {
        self.held.set(true);
    }

    /// Whether so much is held that it should leave now.
    pub(crate) fn is_full(&self) -> bool {
        HELD_BYTES_MAX <= self.pending.borrow().len()
    }

    /// Sends what is pending as far as the kernel takes it at once; the writing loop has the rest.
    pub(crate) fn flush(&self, stream: &Stream) {
        self.held.set(false);
        if !self.sends.get() && !self.closed.get() && !self.send_now(stream) {
            self.filled.notify_one();
        }
    }

    /// Hands what is pending to the kernel; whether nothing is left.
    fn send_now(&self, stream: &Stream) -> bool {
        if !self.left.borrow().bytes.is_empty() {
            return false;
        }
        let ready = self.pending.take();
        if ready.is_empty() {
            self.pending.replace(ready);
            return true;
        }
        let charged = ready.len();
        let usual = self.usual_bytes.get();
        self.usual_bytes.set(charged.min(SENT_AT_ONCE_MAX).max(usual - usual.div_ceil(8)));
        let carrying = self.carrying();
        if SENT_AT_ONCE_MAX < ready.len() {
            self.left.replace(Left { bytes: ready, charged, carrying: Some(carrying) });
            return false;
        }
        let mut ready = stream.seal(carrying.carry(ready));
        // An error shows when the writing loop meets it.
        let sent = stream.try_write_sealed(&ready).unwrap_or(0);
        if sent < ready.len() {
            ready.drain(..sent);
            self.left.replace(Left { bytes: ready, charged, carrying: None });
            return false;
        }
        self.sent(ready, charged);
        true
    }

    /// How what is pending is carried.
    fn carrying(&self) -> Carrying {
        let (plain_bytes, unpacked) = (self.plain_bytes.take(), self.unpacked.take());
        Carrying { carriage: self.carriage.get(), plain_bytes, unpacked }
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

    /// Sends what is appended, until the outbox is closed and empty or the client has disconnected.
    /// `enter` is awaited before there is something to do.
    pub(crate) async fn send_all(&self, stream: &Stream, enter: impl AsyncFn()) {
        loop {
            if self.send_now(stream) {
                if self.closed.get() {
                    return;
                }
                self.filled.notified().await;
                enter().await;
                // Requests that are ready in this turn add their answers first.
                runtime::task::yield_now().await;
                continue;
            }
            let Left { bytes, charged, carrying } = self.left.take();
            self.sends.set(true);
            let bytes = match carrying {
                Some(carrying) => stream.seal_all(carrying.carry_aside(bytes).await).await,
                None => bytes,
            };
            self.sends_since.set(Some(Instant::now()));
            let (sent, buffer) = stream.write_sealed(bytes).await;
            self.sends_since.set(None);
            self.sends.set(false);
            self.sent(buffer, charged);
            if sent.is_err() {
                self.closed.set(true);
                self.pending.borrow_mut().clear();
                self.unpacked.borrow_mut().clear();
                self.discharge(self.unsent.get());
                return;
            }
        }
    }
}

impl Carrying {
    /// As what envelopes leave.
    fn carry(&self, ready: Vec<u8>) -> Vec<u8> {
        match self.carriage {
            Carriage::Envelopes(Some(compression)) if !self.unpacked.is_empty() => {
                self.packed(compression, &ready)
            }
            Carriage::Envelopes(_) => ready,
            Carriage::Segments(packing) => {
                let (plain, envelopes) = ready.split_at(self.plain_bytes);
                let mut out = Vec::with_capacity(ready.len() + ready.len() / 1024);
                out.extend_from_slice(plain);
                segment::encode(packing, envelopes, &mut out);
                out
            }
        }
    }

    /// The same of many bytes, on a helper thread.
    async fn carry_aside(self, ready: Vec<u8>) -> Vec<u8> {
        match self.carriage {
            Carriage::Envelopes(_) if self.unpacked.is_empty() => ready,
            _ => compute(move || self.carry(ready)).await,
        }
    }

    /// With all envelopes compressed that are to be.
    fn packed(&self, compression: Compression, ready: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(ready.len() / 2);
        let mut done = 0;
        for &start in &self.unpacked {
            let (before, rest) = ready[done..].split_at(start - done);
            let whole = frame::envelope_bytes(rest).expect("an envelope of ours is whole");
            out.extend_from_slice(before);
            let at = out.len();
            out.extend_from_slice(&rest[..HEADER_BYTES]);
            compression.pack(&rest[HEADER_BYTES..whole], &mut out);
            mark_compressed(&mut out, at);
            done = start + whole;
        }
        out.extend_from_slice(&ready[done..]);
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
    mark_compressed(pending, start);
}

/// Says in the header of the envelope at `start`, which is the last one, that its body is
/// compressed, and how long it is.
fn mark_compressed(out: &mut [u8], start: usize) {
    let body_start = start + HEADER_BYTES;
    let length = (out.len() - body_start) as u32;
    out[start + 5..body_start].copy_from_slice(&length.to_be_bytes());
    out[start + 1] |= flag::COMPRESSED;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::opcode;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

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
        let carried = outbox.carrying().carry(outbox.pending.take());
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

    /// What leaves of one large answer between two small ones, in each carriage.
    fn carried(carriage: Carriage, body: &[u8]) -> (Vec<u8>, usize) {
        let outbox = outbox();
        outbox.carry(carriage);
        outbox.push(|out| envelope(out, b"before"));
        outbox.push(|out| envelope(out, body));
        outbox.push(|out| envelope(out, &[5; 1000]));
        let pending = outbox.pending.take();
        let pushed = pending.len();
        assert_eq!(outbox.unsent.get(), pushed);
        (outbox.carrying().carry(pending), pushed)
    }

    #[test]
    fn a_large_answer_is_packed_by_the_writing_loop() {
        let large: Vec<u8> = (0..SENT_AT_ONCE_MAX as u32 + 1).map(|n| (n >> 9) as u8).collect();
        for compression in [Compression::Lz4, Compression::Snappy] {
            let carriage = Carriage::Envelopes(Some(compression));
            let (carried, pushed) = carried(carriage, &large);
            // Who answers leaves it as it is.
            assert!(large.len() < pushed, "{pushed}");
            let (mut at, mut bodies) = (0, Vec::new());
            while at < carried.len() {
                let bytes = frame::envelope_bytes(&carried[at..]).unwrap();
                assert_eq!(carried[at + 1] & flag::COMPRESSED, flag::COMPRESSED);
                let body = &carried[at + HEADER_BYTES..at + bytes];
                bodies.push(compression.unpack(body, 1 << 20).unwrap());
                at += bytes;
            }
            assert!(bodies == [b"before".to_vec(), large.clone(), vec![5; 1000]]);
        }
        let (plain, pushed) = carried(Carriage::Envelopes(None), &large);
        assert_eq!(plain.len(), pushed);
    }

    #[test]
    fn what_is_small_is_packed_where_it_is_pushed() {
        let outbox = outbox();
        outbox.carry(Carriage::Envelopes(Some(Compression::Lz4)));
        outbox.push(|out| envelope(out, &[1; SENT_AT_ONCE_MAX - HEADER_BYTES]));
        assert!(outbox.unpacked.borrow().is_empty());
        assert!(outbox.pending.borrow().len() < SENT_AT_ONCE_MAX / 100);
    }

    #[test]
    fn a_large_answer_is_carried_aside() {
        let body = vec![3; SENT_AT_ONCE_MAX + 1];
        runtime::testing::block_on_with(runtime::Config::new(1), move || async move {
            for carriage in
                [Carriage::Envelopes(Some(Compression::Lz4)), Carriage::Segments(Packing::Lz4)]
            {
                let outbox = outbox();
                outbox.carry(carriage);
                outbox.push(|out| envelope(out, &body));
                // What occupies the one helper: it cannot be done before it is let go.
                let (let_go, held) = std::sync::mpsc::channel::<()>();
                let mut occupied = pin!(compute(move || held.recv().is_err()));
                let mut aside = pin!(outbox.carrying().carry_aside(outbox.pending.take()));
                poll_fn(|context| {
                    assert!(occupied.as_mut().poll(context).is_pending());
                    let polled = aside.as_mut().poll(context);
                    assert!(polled.is_pending(), "{carriage:?}: it holds the shard");
                    Poll::Ready(())
                })
                .await;
                drop(let_go);
                assert!(aside.await.len() < SENT_AT_ONCE_MAX / 10);
                assert!(occupied.await);
            }
        });
    }
}
