//! Streams: sequences of bytes both ways, each with a window of its own.
//!
//! Each end tells once that it is done ([`Kind::End`]), or gives up both ways ([`Kind::Reset`]). A
//! stream is over when each end has told the other; until then it holds its place in the window of
//! its connection.
//!
//! Invariants
//!  - *within-window*: what was sent and not taken by the other end's reader is no more than that
//!    end allowed; who sends more breaks the protocol.
//!  - *one-piece*: a stream has one piece of its own in the outbox; so streams take turns.
//!  - *told-then-over*: a stream leaves the table when both ends have told their end, and ours has
//!    left.

use crate::budget::Pair;
use crate::error::Down;
use crate::frame::{Code, Header, Kind};
use crate::outbox::{CHUNK_BYTES_MAX, Frame, Outbox};
use runtime::sync::{Notify, Permit};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::Rc;
use stdx::Damaged;

/// What the end of a stream may say of its failure.
pub(crate) const FAILURE_BYTES_MAX: usize = 4 << 10;

/// Why a stream ended before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// The other end has failed, in its own words.
    Failed(Vec<u8>),
    /// The other end was dropped.
    Cancelled,
    /// The other node has no such verb.
    UnknownVerb,
    /// The other node stops.
    PeerStops,
    /// The other node has no room for another stream.
    Crowded,
    /// The connection ended.
    Broken(Down),
    /// We have ended it.
    Ended,
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamError::Failed(_) => f.write_str("the other end of the stream failed"),
            StreamError::Cancelled => f.write_str("the other end of the stream is gone"),
            StreamError::UnknownVerb => f.write_str("the other node does not know this verb"),
            StreamError::Crowded => f.write_str("the other node has too many streams"),
            StreamError::PeerStops => f.write_str("the other node stops"),
            StreamError::Broken(down) => write!(f, "the connection ended: {down}"),
            StreamError::Ended => f.write_str("the stream was ended here"),
        }
    }
}
impl std::error::Error for StreamError {}

/// How far an end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    Open,
    Ended,
    Reset,
}

/// One end of a stream.
#[derive(Debug)]
struct End {
    id: u64,
    /// Pieces that came and were not read.
    arrived: RefCell<VecDeque<Vec<u8>>>,
    /// Bytes that may still come.
    allowed: Cell<usize>,
    /// Bytes that were read since the other end was told.
    read: Cell<usize>,
    /// Bytes that we may still send.
    credit: Cell<usize>,
    /// A piece of ours is in the outbox.
    queued: Cell<bool>,
    ours: Cell<Half>,
    /// Our last word has left.
    ours_left: Cell<bool>,
    theirs: Cell<Half>,
    failure: RefCell<Option<StreamError>>,
    /// Why nothing more is to be sent, although what came is read to its end.
    refused: RefCell<Option<StreamError>>,
    may_read: Notify,
    may_send: Notify,
    /// Its place in the window of the connection.
    place: RefCell<Pair>,
    /// The memory of its window, and of a piece that is to leave.
    _memory: Option<Permit>,
}

impl End {
    fn fail(&self, error: StreamError) {
        debug_assert!(
            self.arrived.borrow().is_empty() || matches!(error, StreamError::Broken(_)),
            "whole-streams: pieces of stream {} are behind its failure",
            self.id
        );
        self.failure.borrow_mut().get_or_insert(error);
        self.may_read.notify_all();
        self.may_send.notify_all();
    }

    fn refuse(&self, error: StreamError) {
        debug_assert_ne!(self.theirs.get(), Half::Open, "told-then-over: more may come");
        self.refused.borrow_mut().get_or_insert(error);
        self.may_send.notify_all();
    }

    fn is_over(&self) -> bool {
        debug_assert!(
            !self.ours_left.get() || self.ours.get() != Half::Open,
            "told-then-over: a last word of stream {} has left that was not said",
            self.id
        );
        self.ours_left.get() && self.theirs.get() != Half::Open
    }
}

/// What a stream begins with.
#[derive(Debug)]
pub(crate) struct Begins {
    pub(crate) id: u64,
    /// Bytes that the other end takes at once.
    pub(crate) credit: usize,
    pub(crate) place: Pair,
    /// None where it is refused.
    pub(crate) memory: Option<Permit>,
}

/// The memory that a stream of such a window holds at each end.
pub(crate) fn memory_bytes(window_bytes: usize) -> usize {
    debug_assert!(0 < window_bytes, "within-window: a window of nothing");
    window_bytes + window_bytes.min(CHUNK_BYTES_MAX)
}

/// The streams of a connection.
#[derive(Debug)]
pub(crate) struct Streams {
    table: RefCell<BTreeMap<u64, Rc<End>>>,
    outbox: Rc<Outbox>,
    window_bytes: usize,
    /// Tests plant mistakes.
    ignores_window: bool,
}

impl Streams {
    pub(crate) fn new(outbox: Rc<Outbox>, window_bytes: usize, ignores_window: bool) -> Streams {
        Streams { table: RefCell::default(), outbox, window_bytes, ignores_window }
    }

    pub(crate) fn count(&self) -> usize {
        self.table.borrow().len()
    }

    /// One end of a stream that begins.
    pub(crate) fn begin(self: &Rc<Self>, begins: Begins) -> Stream {
        let Begins { id, credit, place, memory } = begins;
        let end = Rc::new(End {
            id,
            arrived: RefCell::default(),
            allowed: Cell::new(self.window_bytes),
            read: Cell::new(0),
            credit: Cell::new(credit),
            queued: Cell::new(false),
            ours: Cell::new(Half::Open),
            ours_left: Cell::new(false),
            theirs: Cell::new(Half::Open),
            failure: RefCell::default(),
            refused: RefCell::default(),
            may_read: Notify::new(),
            may_send: Notify::new(),
            place: RefCell::new(place),
            _memory: memory,
        });
        let before = self.table.borrow_mut().insert(id, end.clone());
        assert!(before.is_none(), "told-then-over: two streams of id {id}");
        Stream { end, streams: self.clone() }
    }

    fn get(&self, id: u64) -> Option<Rc<End>> {
        self.table.borrow().get(&id).cloned()
    }

    fn remove_if_over(&self, end: &End) {
        if end.is_over() {
            let over = self.table.borrow_mut().remove(&end.id);
            debug_assert!(over.is_some(), "told-then-over: stream {} is over twice", end.id);
            end.place.take();
        }
    }

    /// A piece came.
    pub(crate) fn arrived(&self, id: u64, bytes: Vec<u8>) -> Result<(), Damaged> {
        let end = self.get(id).ok_or(Damaged::new("piece of a stream that is over", 0))?;
        if end.theirs.get() != Half::Open {
            return Err(Damaged::new("piece of a stream after its end", 0));
        }
        let Some(allowed) = end.allowed.get().checked_sub(bytes.len()) else {
            return Err(Damaged::new("more of a stream than its window allows", 0));
        };
        end.allowed.set(allowed);
        debug_assert!(allowed <= self.window_bytes, "within-window: {allowed} bytes are allowed");
        if end.ours.get() == Half::Reset {
            // Nobody reads it any more.
            return Ok(());
        }
        end.arrived.borrow_mut().push_back(bytes);
        end.may_read.notify_one();
        Ok(())
    }

    /// The other end has no more.
    pub(crate) fn ended(&self, id: u64) -> Result<(), Damaged> {
        let end = self.get(id).ok_or(Damaged::new("end of a stream that is over", 0))?;
        if end.theirs.get() != Half::Open {
            return Err(Damaged::new("second end of a stream", 0));
        }
        end.theirs.set(Half::Ended);
        end.may_read.notify_all();
        self.remove_if_over(&end);
        Ok(())
    }

    /// The other end gives up. It may have crossed our last word.
    pub(crate) fn reset(&self, id: u64, code: Code, bytes: Vec<u8>) {
        let Some(end) = self.get(id) else { return };
        let error = match code {
            Code::Failed => StreamError::Failed(bytes),
            Code::UnknownVerb => StreamError::UnknownVerb,
            Code::Stopping => StreamError::PeerStops,
            Code::Crowded => StreamError::Crowded,
            Code::Cancelled | Code::TooLate | Code::TooLarge => StreamError::Cancelled,
        };
        match end.theirs.get() {
            // All that it had to say has come.
            Half::Ended => end.refuse(error),
            Half::Open | Half::Reset => {
                end.theirs.set(Half::Reset);
                end.arrived.borrow_mut().clear();
                end.fail(error);
            }
        }
        self.last_word(&end, Half::Reset, Header::bare(Kind::Reset, id, code as u32), &[]);
        self.remove_if_over(&end);
    }

    /// We may send more. It may come after the end.
    pub(crate) fn allowed(&self, id: u64, bytes: usize) -> Result<(), Damaged> {
        let Some(end) = self.get(id) else { return Ok(()) };
        let credit = end.credit.get().saturating_add(bytes);
        if crate::frame::BODY_BYTES_MAX < credit {
            return Err(Damaged::new("window of a stream is too large", 0));
        }
        end.credit.set(credit);
        end.may_send.notify_all();
        Ok(())
    }

    /// A frame of a stream was taken from the outbox.
    pub(crate) fn taken(&self, header: &Header) {
        let Some(end) = self.get(header.id) else { return };
        match header.kind {
            Kind::Chunk => {
                debug_assert!(end.queued.get(), "one-piece: one of stream {} too many", end.id);
                debug_assert!(!end.ours_left.get(), "told-then-over: a piece after the last word");
                end.queued.set(false);
                end.may_send.notify_all();
            }
            _ => {
                debug_assert_ne!(end.ours.get(), Half::Open, "told-then-over: {header:?}");
                end.ours_left.set(true);
                self.remove_if_over(&end);
            }
        }
    }

    /// Says our last word, if it was not said.
    fn last_word(&self, end: &End, half: Half, header: Header, bytes: &[u8]) {
        if end.ours.get() != Half::Open {
            return;
        }
        debug_assert!(!end.ours_left.get(), "told-then-over: two last words of stream {}", end.id);
        debug_assert_ne!(half, Half::Open, "told-then-over: a last word that is none");
        end.ours.set(half);
        end.may_send.notify_all();
        self.outbox.push_chunk(Frame::new(header, bytes.into(), Pair::default()));
    }

    /// Gives up both ways.
    fn give_up(&self, end: &End, code: Code, bytes: &[u8]) {
        debug_assert!(bytes.len() <= FAILURE_BYTES_MAX, "a failure of {} bytes", bytes.len());
        end.arrived.borrow_mut().clear();
        end.fail(StreamError::Ended);
        if self.outbox.withdraw(end.id) {
            // The other node has heard nothing of it.
            self.outbox.withdraw_chunks(end.id);
            end.ours.set(Half::Reset);
            end.ours_left.set(true);
            end.theirs.set(Half::Reset);
            self.remove_if_over(end);
            return;
        }
        let header = Header::bare(Kind::Reset, end.id, code as u32);
        match end.ours.get() {
            Half::Open => self.last_word(end, Half::Reset, header, bytes),
            Half::Ended if end.theirs.get() == Half::Open => {
                end.ours.set(Half::Reset);
                self.outbox.push_chunk(Frame::new(header, bytes.into(), Pair::default()));
            }
            Half::Ended | Half::Reset => {}
        }
    }

    /// The connection has ended.
    pub(crate) fn close(&self, down: &Down) {
        for end in std::mem::take(&mut *self.table.borrow_mut()).into_values() {
            end.place.take();
            // What has arrived before its end can still be read.
            match end.theirs.get() {
                Half::Open => end.fail(StreamError::Broken(down.clone())),
                Half::Ended | Half::Reset => end.refuse(StreamError::Broken(down.clone())),
            }
        }
    }
}

/// One end of a stream. Reading and writing may go on at once; two reads, or two writes, may not.
/// Dropping it before both ends are done tells the other end so.
#[derive(Debug)]
pub struct Stream {
    end: Rc<End>,
    streams: Rc<Streams>,
}

impl Stream {
    /// The next bytes, at most 64 KiB; `None`: the other end has no more.
    pub async fn recv(&self) -> Result<Option<Vec<u8>>, StreamError> {
        let end = &self.end;
        loop {
            let piece = end.arrived.borrow_mut().pop_front();
            if let Some(piece) = piece {
                self.allow_more(piece.len());
                return Ok(Some(piece));
            }
            if let Some(error) = end.failure.borrow().clone() {
                return Err(error);
            }
            if end.theirs.get() != Half::Open {
                return Ok(None);
            }
            end.may_read.notified().await;
        }
    }

    fn allow_more(&self, bytes: usize) {
        let end = &self.end;
        debug_assert!(bytes <= CHUNK_BYTES_MAX, "one-piece: {bytes} bytes in one");
        end.read.set(end.read.get() + bytes);
        if end.theirs.get() != Half::Open || end.read.get() < self.streams.window_bytes / 2 {
            return;
        }
        let more = end.read.take();
        end.allowed.set(end.allowed.get() + more);
        debug_assert!(
            end.allowed.get() <= self.streams.window_bytes,
            "within-window: {} bytes allowed",
            end.allowed.get()
        );
        self.streams.outbox.push_small(Header::bare(Kind::Window, end.id, more as u32));
    }

    /// Sends `bytes`, waiting while the other end does not read.
    pub async fn send(&self, bytes: &[u8]) -> Result<(), StreamError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = self.wait_for_room().await?;
            let (piece, after) = rest.split_at(rest.len().min(room).min(CHUNK_BYTES_MAX));
            let credit = self.end.credit.get();
            assert!(
                piece.len() <= credit || self.streams.ignores_window,
                "within-window: {} bytes of {credit}",
                piece.len()
            );
            self.end.credit.set(credit.saturating_sub(piece.len()));
            let was_queued = self.end.queued.replace(true);
            debug_assert!(!was_queued, "one-piece: stream {} has two", self.end.id);
            let header = Header::bare(Kind::Chunk, self.end.id, 0);
            self.streams.outbox.push_chunk(Frame::new(header, piece.into(), Pair::default()));
            rest = after;
        }
        Ok(())
    }

    fn check_open(&self) -> Result<(), StreamError> {
        if let Some(error) = self.end.failure.borrow().clone() {
            return Err(error);
        }
        if let Some(error) = self.end.refused.borrow().clone() {
            return Err(error);
        }
        match self.end.ours.get() {
            Half::Open => Ok(()),
            Half::Ended | Half::Reset => Err(StreamError::Ended),
        }
    }

    async fn wait_for_room(&self) -> Result<usize, StreamError> {
        loop {
            self.check_open()?;
            let credit = match self.streams.ignores_window {
                true => CHUNK_BYTES_MAX,
                false => self.end.credit.get(),
            };
            if 0 < credit && !self.end.queued.get() {
                return Ok(credit);
            }
            self.end.may_send.notified().await;
        }
    }

    /// We have no more to send; the other end reads to the end.
    pub fn finish(&self) {
        let header = Header::bare(Kind::End, self.end.id, 0);
        self.streams.last_word(&self.end, Half::Ended, header, &[]);
    }

    /// Ends the stream both ways, and tells the other end why: at most 4 KiB, the rest is left
    /// out.
    pub fn fail(&self, why: &[u8]) {
        let why = &why[..why.len().min(FAILURE_BYTES_MAX)];
        self.streams.give_up(&self.end, Code::Failed, why);
    }

    pub(crate) fn refuse(&self, code: Code) {
        self.streams.give_up(&self.end, code, &[]);
    }

    /// Whether the connection still has it.
    #[cfg(test)]
    pub(crate) fn is_over(&self) -> bool {
        self.streams.get(self.end.id).is_none()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let end = &self.end;
        if end.ours.get() == Half::Open || end.theirs.get() == Half::Open {
            self.streams.give_up(end, Code::Cancelled, &[]);
        }
    }
}
