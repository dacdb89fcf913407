//! What a connection has still to send.
//!
//! Three lanes: what is small and never waits for others (windows, cancellations, beats), messages
//! in the order in which they came, and pieces of streams, of which each stream has one at a time.
//! The writing loop takes a batch of all three, so that no lane waits for all of another.
//!
//! Invariants
//!  - *taken-is-sent*: what was taken counts as sent, whatever becomes of it; what was not taken
//!    never leaves. So a request that is withdrawn was never sent.
//!  - *opened-first*: no piece of a stream is taken before what opens it.
//!  - *bounded-lanes*: each item stands for a request, message or stream within the window of the
//!    connection; so the lanes have no bound of their own.

use crate::budget::Pair;
use crate::compress::BYTES_MIN;
use crate::error::Refused;
use crate::frame::{HEADER_BYTES, Header, Kind};
use crate::payload::Payload;
use runtime::sync::Notify;
use runtime::time::Instant;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::mem::take;

/// A batch takes messages until it has so many bytes,
const MESSAGES_BYTES: usize = 64 << 10;
/// and then pieces of streams until it has so many.
const BATCH_BYTES: usize = 128 << 10;
/// Longer bodies are handed to the kernel as they are; shorter ones are copied together.
pub(crate) const COPIED_BYTES_MAX: usize = 8 << 10;
/// The most bytes that one frame of a stream has.
pub(crate) const CHUNK_BYTES_MAX: usize = 64 << 10;

const _: () = assert!(CHUNK_BYTES_MAX <= BATCH_BYTES, "a batch has room for a piece");
const _: () = assert!(BYTES_MIN <= CHUNK_BYTES_MAX, "pieces of streams are compressed");

/// A frame to be sent.
#[derive(Debug)]
pub(crate) struct Frame {
    /// Without what is known of its body only when it is packed.
    pub(crate) header: Header,
    pub(crate) payload: Payload,
    /// Of what asks: until when; its header is told how much is left of that when it is taken.
    pub(crate) deadline: Option<Instant>,
    /// The memory that it holds.
    pub(crate) memory: Pair,
}

impl Frame {
    /// A frame that has no deadline.
    pub(crate) fn new(header: Header, payload: Payload, memory: Pair) -> Frame {
        Frame { header, payload, deadline: None, memory }
    }
}

/// What has left the lanes for one batch.
#[derive(Debug)]
pub(crate) struct Leaving {
    now: Instant,
    bytes: usize,
}

/// The lanes of one connection.
#[derive(Debug)]
pub(crate) struct Outbox {
    small: RefCell<VecDeque<Header>>,
    messages: RefCell<VecDeque<Frame>>,
    chunks: RefCell<VecDeque<Frame>>,
    goodbye: RefCell<Option<Refused>>,
    /// The id of the last message that was taken; all of them where we do not give ids.
    taken_id: Cell<u64>,
    queued_bytes: Cell<usize>,
    closed: Cell<bool>,
    filled: Notify,
}

impl Outbox {
    /// `gives_ids`: whether it is the dialer's.
    pub(crate) fn new(gives_ids: bool) -> Outbox {
        Outbox {
            small: RefCell::default(),
            messages: RefCell::default(),
            chunks: RefCell::default(),
            goodbye: RefCell::default(),
            taken_id: Cell::new(if gives_ids { 0 } else { u64::MAX }),
            queued_bytes: Cell::new(0),
            closed: Cell::new(false),
            filled: Notify::new(),
        }
    }

    /// Bytes of bodies that were not taken.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued_bytes.get()
    }

    /// Whether nothing is to be sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.small.borrow().is_empty()
            && self.messages.borrow().is_empty()
            && self.chunks.borrow().is_empty()
    }

    /// Sends a frame without a body, before others.
    pub(crate) fn push_small(&self, header: Header) {
        debug_assert_eq!(header.raw_bytes, 0, "bounded-lanes: {header:?} has a body");
        if !self.closed.get() {
            self.small.borrow_mut().push_back(header);
            self.filled.notify_one();
        }
    }

    /// Sends a message; a dialer's have growing ids.
    pub(crate) fn push_message(&self, frame: Frame) {
        if self.closed.get() {
            return;
        }
        let mut messages = self.messages.borrow_mut();
        debug_assert!(
            self.taken_id.get() == u64::MAX
                || messages.back().map_or(self.taken_id.get(), |last| last.header.id)
                    < frame.header.id,
            "opened-first: ids of messages grow, not to {}",
            frame.header.id
        );
        self.add_queued(frame.payload.len());
        messages.push_back(frame);
        self.filled.notify_one();
    }

    /// Sends a piece of a stream, or its end.
    pub(crate) fn push_chunk(&self, frame: Frame) {
        debug_assert!(
            matches!(frame.header.kind, Kind::Chunk | Kind::End | Kind::Reset),
            "opened-first: {:?} is of no stream",
            frame.header.kind
        );
        debug_assert!(frame.payload.len() <= CHUNK_BYTES_MAX, "{} bytes", frame.payload.len());
        if !self.closed.get() {
            self.add_queued(frame.payload.len());
            self.chunks.borrow_mut().push_back(frame);
            self.filled.notify_one();
        }
    }

    fn add_queued(&self, bytes: usize) {
        debug_assert!(!self.closed.get(), "bounded-lanes: {bytes} bytes after the end");
        self.queued_bytes.set(self.queued_bytes.get() + bytes);
    }

    fn sub_queued(&self, bytes: usize) {
        let queued = self.queued_bytes.get();
        assert!(bytes <= queued, "bounded-lanes: {bytes} bytes leave of {queued}");
        self.queued_bytes.set(queued - bytes);
    }

    /// Takes a message back that was not taken (*taken-is-sent*): whether that could be.
    pub(crate) fn withdraw(&self, id: u64) -> bool {
        let mut messages = self.messages.borrow_mut();
        let Ok(at) = messages.binary_search_by_key(&id, |frame| frame.header.id) else {
            return false;
        };
        let frame = messages.remove(at);
        drop(messages);
        debug_assert!(self.taken_id.get() < id || self.taken_id.get() == u64::MAX, "taken-is-sent");
        self.sub_queued(frame.map_or(0, |frame| frame.payload.len()));
        true
    }

    /// Whether a message was not taken.
    pub(crate) fn has(&self, id: u64) -> bool {
        let messages = self.messages.borrow();
        messages.binary_search_by_key(&id, |frame| frame.header.id).is_ok()
    }

    /// Takes back what a stream has still to send.
    pub(crate) fn withdraw_chunks(&self, id: u64) {
        let mut chunks = self.chunks.borrow_mut();
        let (theirs, others): (VecDeque<_>, VecDeque<_>) =
            take(&mut *chunks).into_iter().partition(|frame| frame.header.id == id);
        *chunks = others;
        drop(chunks);
        debug_assert!(theirs.iter().all(|frame| frame.header.id == id), "one-piece: of {id} alone");
        self.sub_queued(theirs.iter().map(|frame| frame.payload.len()).sum());
    }

    /// Sends nothing more but what there is to say to that.
    pub(crate) fn say_goodbye(&self, refused: Refused) {
        debug_assert!(!refused.text.is_empty(), "told-why: a goodbye without a word");
        self.goodbye.borrow_mut().get_or_insert(refused);
        self.filled.notify_one();
    }

    /// Nothing is sent any more. The ids of the messages that were not taken.
    pub(crate) fn close(&self) -> Vec<u64> {
        self.closed.set(true);
        self.small.borrow_mut().clear();
        let chunks = self.chunks.take();
        let messages = self.messages.take();
        let left = messages.iter().chain(&chunks).map(|frame| frame.payload.len()).sum();
        self.sub_queued(left);
        debug_assert_eq!(self.queued_bytes.get(), 0, "bounded-lanes: something is left");
        messages.iter().map(|frame| frame.header.id).collect()
    }

    /// The first frame of a batch, once there is one, and about how much room its frames need.
    /// After a goodbye, which has no batch, nothing is sent.
    pub(crate) async fn first(&self) -> (Frame, usize, Option<Leaving>) {
        loop {
            if let Some(refused) = self.goodbye.take() {
                let header = Header::bare(Kind::Goodbye, 0, refused.why as u32);
                let payload = refused.text.into_bytes().into();
                return (Frame::new(header, payload, Pair::default()), 0, None);
            }
            let mut leaving = Leaving { now: Instant::now(), bytes: 0 };
            let room = self.room();
            if let Some(frame) = self.take(&mut leaving) {
                return (frame, room, Some(leaving));
            }
            self.filled.notified().await;
        }
    }

    /// Of what is to be sent, as far as one batch has it.
    fn room(&self) -> usize {
        let lanes = [&self.messages, &self.chunks].map(|lane| lane.borrow().len());
        let frames = self.small.borrow().len() + lanes[0] + lanes[1];
        debug_assert!(
            0 < frames || self.queued_bytes.get() == 0,
            "bounded-lanes: bytes of nothing"
        );
        frames * HEADER_BYTES + self.queued_bytes.get().min(MESSAGES_BYTES)
    }

    /// Takes the next frame of a batch: what is small, messages, pieces of streams.
    pub(crate) fn take(&self, leaving: &mut Leaving) -> Option<Frame> {
        if let Some(header) = self.small.borrow_mut().pop_front() {
            return Some(Frame::new(header, Payload::empty(), Pair::default()));
        }
        let mut frame = match self.take_message(leaving) {
            Some(frame) => frame,
            None => self.take_chunk(leaving)?,
        };
        let bytes = frame.payload.len();
        leaving.bytes += bytes;
        self.sub_queued(bytes);
        if let Some(deadline) = frame.deadline {
            frame.header.extra = remaining_micros(deadline, leaving.now);
        }
        Some(frame)
    }

    fn take_message(&self, leaving: &Leaving) -> Option<Frame> {
        if MESSAGES_BYTES <= leaving.bytes {
            return None;
        }
        let frame = self.messages.borrow_mut().pop_front()?;
        if self.taken_id.get() < u64::MAX {
            debug_assert!(self.taken_id.get() < frame.header.id, "taken-is-sent: twice");
            self.taken_id.set(frame.header.id);
        }
        Some(frame)
    }

    fn take_chunk(&self, leaving: &Leaving) -> Option<Frame> {
        if BATCH_BYTES <= leaving.bytes {
            return None;
        }
        let mut chunks = self.chunks.borrow_mut();
        // *opened-first*
        let is_open = chunks.front()?.header.id <= self.taken_id.get();
        let chunk = if is_open { chunks.pop_front() } else { None };
        let is_piece = |it: &Frame| it.deadline.is_none() && !it.header.kind.has_verb();
        debug_assert!(chunk.as_ref().is_none_or(is_piece), "one-piece: {chunk:?}");
        chunk
    }
}

/// What is left until a deadline, as it travels: never 0, which is for ever.
fn remaining_micros(deadline: Instant, now: Instant) -> u32 {
    let micros = (deadline - now).as_micros().clamp(1, u128::from(u32::MAX)) as u32;
    assert!(0 < micros, "a deadline of 0 is none");
    micros
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn message(id: u64, bytes: usize) -> Frame {
        let header = Header { verb: 1, ..Header::bare(Kind::Request, id, 0) };
        Frame::new(header, vec![7; bytes].into(), Pair::default())
    }

    fn chunk(id: u64, bytes: usize) -> Frame {
        Frame::new(Header::bare(Kind::Chunk, id, 0), vec![8; bytes].into(), Pair::default())
    }

    fn taken(outbox: &Outbox) -> Vec<(Kind, u64)> {
        let mut leaving = Leaving { now: Instant::ZERO, bytes: 0 };
        let frames = std::iter::from_fn(|| outbox.take(&mut leaving));
        frames.map(|frame| (frame.header.kind, frame.header.id)).collect()
    }

    #[test]
    fn lanes_take_turns_and_what_opens_goes_first() {
        let outbox = Outbox::new(true);
        for id in [1, 2, 4] {
            outbox.push_message(message(id, MESSAGES_BYTES / 2));
        }
        outbox.push_chunk(chunk(4, 9));
        outbox.push_chunk(chunk(1, CHUNK_BYTES_MAX));
        outbox.push_small(Header::bare(Kind::Beat, 0, 0));
        let (beat, one, two) = ((Kind::Beat, 0), (Kind::Request, 1), (Kind::Request, 2));
        assert_eq!(taken(&outbox), [beat, one, two]);
        let rest = [(Kind::Request, 4), (Kind::Chunk, 4), (Kind::Chunk, 1)];
        assert_eq!(taken(&outbox), rest);
        assert!(outbox.is_empty() && outbox.queued_bytes() == 0);
    }

    #[test]
    fn what_is_withdrawn_never_leaves() {
        let outbox = Outbox::new(true);
        for id in [3, 5, 9] {
            outbox.push_message(message(id, 10));
        }
        outbox.push_chunk(chunk(9, 10));
        assert!(outbox.withdraw(5) && !outbox.withdraw(5) && !outbox.withdraw(4));
        assert!(outbox.withdraw(9));
        outbox.withdraw_chunks(9);
        assert_eq!(outbox.queued_bytes(), 10);
        assert_eq!(taken(&outbox), [(Kind::Request, 3)]);
        assert!(!outbox.withdraw(3), "it was sent");
        outbox.push_message(message(10, 1));
        assert_eq!(outbox.close(), [10]);
        outbox.push_message(message(11, 1));
        assert!(outbox.is_empty());
    }

    #[test]
    fn what_is_left_of_a_deadline_travels() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        assert_eq!(remaining_micros(at(5), at(2)), 3_000);
        assert_eq!(remaining_micros(at(2), at(5)), 1);
        assert_eq!(remaining_micros(at(10_000_000), at(0)), u32::MAX);
    }
}
