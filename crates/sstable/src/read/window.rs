//! Stretches of a file, read forward: what is loaded of them, what is on its way, and how much is
//! asked for next.
//!
//! Who reads *plans* the extents that it will need, in order; they are asked for together, as far
//! as the bounds below go. Then it *goes* from stretch to stretch in them. A long extent is read
//! in steps that double, the next step being on its way while one is consumed.
//!
//! Invariants
//!  - *exact*: nothing past the end of an extent is read, but the rest of a chunk.
//!  - *bounded-ahead*: at most [`FLIGHTS_MAX`] reads and [`AHEAD_BYTES_MAX`] bytes are on their way
//!    or wait to be consumed, and of one extent two steps.
//!  - *within-file*: extents and stretches lie in the file.
//!  - *in-place*: what is loaded is what the file has from `base` on, and where the consumer is
//!    lies in its stretch.

use crate::compress::data::{Loaded, Memory, ReadFile};
use crate::read::queue::Queue;
use crate::read_stats::ReadStats;
use reader::ReadError;
use runtime::io::{AlignedBuf, IoClass};
use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

/// An extent up to this long is read at once.
pub(super) const WHOLE_BYTES: u64 = 64 << 10;
/// The first step of a longer one, and the longest.
pub(super) const STEP_BYTES: std::ops::RangeInclusive<u64> = (16 << 10)..=(256 << 10);
/// What one read brings of what does not lie in the window as a whole.
const READ_BYTES_MAX: u64 = 1 << 20;
/// What reads may bring behind that.
const ROOM_BEHIND: usize = 2 * READ_BYTES_MAX as usize;
/// Room is made for no more at once: a damaged length costs memory only as its bytes come.
const ROOM_MAX: usize = 64 << 20;
/// Reads that are under way at once.
pub(super) const FLIGHTS_MAX: usize = 32;
/// Bytes of planned extents that are asked for before the consumer comes to them.
pub(super) const AHEAD_BYTES_MAX: u64 = 1 << 20;
/// What was left of one step is put before the next where it is not more: nothing else is moved.
pub(super) const ROOM_BEFORE: usize = 4 << 10;
/// Extents closer than this are read as one: a request costs as much as that many bytes.
pub(super) const GAP_BYTES: u64 = 16 << 10;

type LoadFuture = Pin<Box<dyn Future<Output = Result<Loaded, ReadError>>>>;

/// A read under way.
struct Flight {
    range: Range<u64>,
    state: FlightState,
}

enum FlightState {
    Flying(LoadFuture),
    Landed(Result<Loaded, ReadError>),
}

impl Flight {
    async fn landed(self) -> Result<Loaded, ReadError> {
        match self.state {
            FlightState::Flying(future) => future.await,
            FlightState::Landed(landed) => landed,
        }
    }
}

impl fmt::Debug for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flight({:?})", self.range)
    }
}

/// Bytes that will be needed.
#[derive(Debug)]
struct Extent {
    range: Range<u64>,
    /// Up to here they were asked for.
    issued: u64,
    step: u64,
}

impl Extent {
    fn new(range: Range<u64>) -> Extent {
        debug_assert!(range.start < range.end, "exact: an empty extent at {}", range.start);
        let whole = range.end - range.start <= WHOLE_BYTES;
        let step = if whole { WHOLE_BYTES } else { *STEP_BYTES.start() };
        Extent { issued: range.start, range, step }
    }

    fn is_begun(&self) -> bool {
        self.range.start < self.issued
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Window {
    file: Rc<ReadFile>,
    class: IoClass,
    stats: Rc<ReadStats>,
    /// What is loaded, from `base` on.
    buf: Loaded,
    base: u64,
    /// Where the consumer is, and where its stretch ends.
    here: u64,
    limit: u64,
    /// The extent that the consumer is in, if any, and those to come.
    extents: Queue<Extent>,
    flights: VecDeque<Flight>,
    /// Reads of stretches that are gone to in the order in which they were asked for, wherever
    /// they lie: for who reads backwards.
    asked: VecDeque<Flight>,
    /// Memory for the next read, and for what it decompresses.
    spare: AlignedBuf,
    spare_chunk: Vec<u8>,
    /// Bytes that what is loaded has room for at least, once it grows.
    room: usize,
}

impl Window {
    /// An empty stretch.
    pub(super) fn new(file: Rc<ReadFile>, class: IoClass, stats: Rc<ReadStats>) -> Window {
        Window {
            file,
            class,
            stats,
            buf: Loaded::Own(Vec::new(), 0),
            base: 0,
            here: 0,
            limit: 0,
            extents: Queue::new(),
            flights: VecDeque::new(),
            asked: VecDeque::new(),
            spare: AlignedBuf::new(),
            spare_chunk: Vec::new(),
            room: 0,
        }
    }

    /// Forgets all plans, and goes to a stretch that is read alone.
    pub(super) fn reset(&mut self, start: u64, end: u64) {
        self.forget_plans();
        self.plan(start..end);
        self.go(start, end);
    }

    /// Forgets the extents that were planned. What is loaded stays.
    pub(super) fn forget_plans(&mut self) {
        self.discard_ahead(u64::MAX);
        while let Some(flight) = self.asked.pop_front() {
            self.discard(&flight.range);
        }
        self.extents.clear();
    }

    /// An extent will be needed, behind all that were planned. One that starts in the last one, or
    /// close behind it, becomes part of it, if that was not asked for yet.
    pub(super) fn plan(&mut self, range: Range<u64>) {
        assert!(range.start <= range.end && range.end <= self.file.len(), "within-file: {range:?}");
        if range.is_empty() || (self.base <= range.start && range.end <= self.loaded()) {
            return;
        }
        if let Some(last) = self.extents.back_mut() {
            if range.end <= last.range.end && last.range.start <= range.start {
                return;
            }
            let close = range.start <= last.range.end.saturating_add(GAP_BYTES);
            if last.range.start <= range.start && close && !last.is_begun() {
                let step = last.step;
                *last = Extent::new(last.range.start..range.end);
                last.step = last.step.max(step);
                return;
            }
        }
        self.stats.add_range(range.end - range.start);
        tracing::trace!(file = %self.file.path().display(), start = range.start, end = range.end,
            "data range planned");
        self.extents.push_back(Extent::new(range));
    }

    /// What the first read of the extent planned last takes at least.
    pub(super) fn set_step(&mut self, step: u64) {
        if let Some(extent) = self.extents.back_mut()
            && !extent.is_begun()
        {
            debug_assert!(0 < step, "exact: steps of no byte");
            extent.step = step;
        }
    }

    /// Goes to a stretch: of what is loaded, or of what was planned; else it is planned now.
    pub(super) fn go(&mut self, start: u64, end: u64) {
        assert!(start <= end && end <= self.file.len(), "within-file: {start} to {end}");
        let loaded = self.loaded();
        if !(self.base <= start && start <= loaded) {
            self.discard_loaded();
        }
        (self.here, self.limit) = (start, end);
        if self.base <= start && end <= loaded {
            return;
        }
        while let Some(extent) = self.extents.front()
            && extent.range.end <= start.max(self.loaded())
            && !(start..end).is_empty()
        {
            self.extents.pop_front();
        }
        self.discard_ahead(start);
        let from = start.max(self.loaded().min(end));
        match self.extents.front_mut() {
            Some(extent) if extent.range.start <= from => {
                extent.range.end = extent.range.end.max(end);
            }
            _ if from < end => {
                self.stats.add_range(end - from);
                self.extents.push_front(Extent::new(from..end));
            }
            _ => {}
        }
    }

    /// The stretch ends here, and its extent does not go on.
    pub(super) fn shorten(&mut self, end: u64) {
        debug_assert!(self.here <= self.limit, "in-place: {} of {}", self.here, self.limit);
        self.limit = end.clamp(self.here, self.limit);
        if let Some(extent) = self.extents.front_mut()
            && extent.range.start <= self.limit
        {
            extent.range.end = extent.range.end.min(self.limit.max(extent.issued));
        }
    }

    /// Bytes of memory that it holds, and of reads that are under way.
    pub(super) fn memory_bytes(&self) -> usize {
        let flights = self.flights.iter().chain(&self.asked);
        let flights = flights.map(|flight| flight.range.end - flight.range.start);
        let spare = self.spare.capacity() + self.spare_chunk.capacity();
        self.buf.memory_bytes() + spare + flights.sum::<u64>() as usize
    }
    /// The file.
    pub(super) fn file(&self) -> &ReadFile {
        &self.file
    }
    /// What is loaded of the stretch and not consumed.
    pub(super) fn rest(&self) -> &[u8] {
        let start = self.here.saturating_sub(self.base);
        let end = self.limit.saturating_sub(self.base).min(self.buf.len() as u64);
        match self.base <= self.here && start < end {
            true => &self.buf[start as usize..end as usize],
            false => &[],
        }
    }
    /// Where `rest` starts.
    pub(super) fn position(&self) -> u64 {
        self.here
    }
    /// Bytes between `position` and the end of the stretch.
    pub(super) fn remaining(&self) -> u64 {
        debug_assert!(self.here <= self.limit, "in-place: {} of {}", self.here, self.limit);
        self.limit - self.here
    }
    /// Whether all of the stretch is loaded.
    pub(super) fn is_loaded(&self) -> bool {
        self.base <= self.here && self.limit <= self.loaded()
    }
    /// The position behind what is loaded.
    pub(super) fn loaded(&self) -> u64 {
        let loaded = self.base + self.buf.len() as u64;
        debug_assert!(loaded <= self.file.len(), "within-file: loaded up to {loaded}");
        loaded
    }
    /// Where the stretch ends.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }
    /// Whether something of the present extent was asked for.
    pub(super) fn has_begun(&self) -> bool {
        self.extents.front().is_some_and(Extent::is_begun)
    }
    /// Where what is loaded starts.
    pub(super) fn loaded_from(&self) -> u64 {
        self.base
    }

    /// Goes forward by `count` bytes of the stretch, loaded or not.
    pub(super) fn skip(&mut self, count: u64) {
        assert!(count <= self.remaining(), "in-place: {count} past the end of the stretch");
        self.here += count;
    }

    /// Goes to a stretch of what is loaded, before the present one or behind it.
    pub(super) fn focus(&mut self, start: u64, end: u64) {
        let inside = self.base <= start && start <= end && end <= self.loaded();
        assert!(inside || start == end, "in-place: {start} to {end} is not loaded");
        self.extents.clear();
        (self.here, self.limit) = (start, end);
    }

    /// Starts a read of a stretch that [`Window::land`] will go to.
    pub(super) async fn ask(&mut self, range: Range<u64>) {
        debug_assert!(range.end <= self.file.len(), "within-file: {range:?} is asked for");
        self.stats.add_range(range.end - range.start);
        let flight = self.take_off(self.file.rounded(range), 0, "planned").await;
        self.asked.push_back(flight);
        debug_assert!(self.asked.len() <= FLIGHTS_MAX, "bounded-ahead: {}", self.asked.len());
    }

    /// So many of these reads were not gone to yet.
    pub(super) fn asked(&self) -> usize {
        self.asked.len()
    }

    /// Goes to a stretch that was asked for; whether it was.
    pub(super) async fn land(&mut self, start: u64, end: u64) -> Result<bool, ReadError> {
        while let Some(flight) = self.asked.pop_front() {
            let range = flight.range.clone();
            if start < range.start || range.end < end {
                self.discard(&range);
                continue;
            }
            self.stats.add(|counts| counts.data_waits += 1);
            let bytes = flight.landed().await?;
            self.extents.clear();
            self.discard_loaded();
            let length = range.end - range.start;
            debug_assert!(bytes.len() as u64 == length, "in-place: {} bytes", bytes.len());
            (self.buf, self.base) = (bytes, range.start);
            (self.here, self.limit) = (start, end);
            return Ok(true);
        }
        Ok(false)
    }

    /// Loads such that `rest` has at least `want` bytes, or all there are.
    pub(super) async fn load(&mut self, want: usize) -> Result<(), ReadError> {
        let large = READ_BYTES_MAX < want as u64;
        // What comes piece by piece does not move as it grows.
        self.room = if large { want.min(ROOM_MAX) + ROOM_BEHIND } else { 0 };
        while self.rest().len() < want && !self.is_loaded() {
            let before = self.rest().len();
            let lacks = (want - before) as u64;
            self.load_more(lacks.min(READ_BYTES_MAX)).await?;
            debug_assert!(
                before < self.rest().len(),
                "in-place: nothing was loaded at {}",
                self.here
            );
            if large {
                runtime::task::yield_if_needed().await;
            }
        }
        Ok(())
    }

    async fn load_more(&mut self, want: u64) -> Result<(), ReadError> {
        self.issue_planned().await;
        let loaded = self.loaded();
        let joins = self.base <= self.here && self.here <= loaded;
        let from = if joins { loaded } else { self.here };
        self.discard_ahead(from);
        self.stats.add(|counts| counts.data_waits += 1);
        let flight = match self.flights.front() {
            Some(flight) if flight.range.start <= from => self.flights.pop_front(),
            _ => None,
        };
        let (start, more) = match flight {
            Some(flight) => (flight.range.start, flight.landed().await?),
            None => {
                let range = self.next_read(from, want);
                self.note(&range, "read");
                let left = loaded.saturating_sub(self.here);
                let room = if joins && 0 < left { ROOM_BEFORE } else { 0 };
                let memory = self.take_memory(room);
                let spares = self.stats.spares();
                let more = self.file.load(self.class, range.clone(), memory, spares).await?;
                (range.start, more)
            }
        };
        debug_assert!(start <= from, "in-place: a gap from {from} to {start}");
        self.append(start, more);
        self.read_ahead().await;
        Ok(())
    }

    /// What to ask for next of the present extent, from `from` on.
    fn next_read(&mut self, from: u64, want: u64) -> Range<u64> {
        let limit = self.limit;
        if self.extents.front().is_none_or(|extent| from < extent.range.start) {
            self.extents.push_front(Extent::new(from..limit));
        }
        let Some(extent) = self.extents.front_mut() else { unreachable!("one was just put there") };
        extent.range.end = extent.range.end.max(limit);
        let end = from.saturating_add(want.max(extent.step)).min(extent.range.end);
        extent.step = (extent.step * 2).min(*STEP_BYTES.end());
        let range = self.file.rounded(from..end);
        debug_assert!(range.start <= from && from < range.end, "exact: {range:?} for {from}");
        extent.issued = extent.issued.max(range.end);
        range
    }

    /// Puts what was read behind what is loaded and not consumed.
    fn append(&mut self, start: u64, mut more: Loaded) {
        let loaded = self.loaded();
        let left = match self.base <= self.here && self.here < loaded {
            true => (loaded - self.here) as usize,
            false => 0,
        };
        if left == 0 {
            let old = std::mem::replace(&mut self.buf, more);
            self.base = start;
            self.keep_memory(old);
            return;
        }
        let cut = loaded.saturating_sub(start).min(more.len() as u64) as usize;
        debug_assert!(start <= loaded, "in-place: {start} is put behind {loaded}");
        let at = self.buf.len() - left;
        let goes_on = start + cut as u64 == loaded && cut <= left;
        if self.room == 0 && goes_on && left - cut <= more.room() {
            // All that was loaded is used but for a part of a row, as a rule.
            more.prepend(&self.buf[at..at + left - cut]);
            let old = std::mem::replace(&mut self.buf, more);
            self.base = self.here;
            return self.keep_memory(old);
        }
        match &mut self.buf {
            Loaded::Own(bytes, before) => {
                bytes.drain(..*before + at);
                *before = 0;
                bytes.reserve(self.room.saturating_sub(left).max(more.len() - cut));
                bytes.extend_from_slice(&more[cut..]);
            }
            Loaded::Direct(_) => {
                let mut bytes = Vec::with_capacity(self.room.max(left + more.len() - cut));
                bytes.extend_from_slice(&self.buf[at..]);
                bytes.extend_from_slice(&more[cut..]);
                let old = std::mem::replace(&mut self.buf, Loaded::Own(bytes, 0));
                self.keep_memory(old);
            }
        }
        self.base = self.here;
        self.keep_memory(more);
    }

    /// Memory for a read: what this window has to spare, or what another left.
    fn take_memory(&mut self, room: usize) -> Memory {
        let block = match self.spare.capacity() {
            0 => self.stats.spares().block(),
            _ => std::mem::take(&mut self.spare),
        };
        Memory { block, chunk: std::mem::take(&mut self.spare_chunk), room }
    }

    fn keep_memory(&mut self, old: Loaded) {
        match old {
            Loaded::Own(bytes, _) if self.spare_chunk.capacity() < bytes.capacity() => {
                let less = std::mem::replace(&mut self.spare_chunk, bytes);
                self.stats.spares().keep_chunk(less);
            }
            Loaded::Own(bytes, _) => self.stats.spares().keep_chunk(bytes),
            Loaded::Direct(bytes) => {
                let memory = bytes.into_buffer();
                if self.spare.capacity() < memory.capacity() {
                    self.spare = memory;
                }
            }
        }
    }

    /// Asks for the extents that were planned, but for the last one, which may still grow.
    pub(super) async fn issue_ahead(&mut self) {
        self.issue(self.extents.len().saturating_sub(1)).await;
    }

    /// Asks for the extents to come, if there is more than one.
    async fn issue_planned(&mut self) {
        if 1 < self.extents.len() || !self.flights.is_empty() {
            self.issue(self.extents.len()).await;
        }
    }

    async fn issue(&mut self, count: usize) {
        let mut ahead: u64 = self.flights.iter().map(|one| one.range.end - one.range.start).sum();
        for index in 0..count {
            if FLIGHTS_MAX <= self.flights.len() || AHEAD_BYTES_MAX <= ahead {
                return;
            }
            let Some(extent) = self.extents.get_mut(index) else { return };
            if extent.is_begun() {
                continue;
            }
            let end = (extent.range.start + extent.step.max(WHOLE_BYTES)).min(extent.range.end);
            let range = self.file.rounded(extent.range.start..end);
            debug_assert!(!range.is_empty(), "exact: an empty read of {:?}", extent.range);
            extent.issued = range.end;
            ahead += range.end - range.start;
            let flight = self.take_off(range, 0, "planned").await;
            self.flights.push_back(flight);
            debug_assert!(self.flights.len() <= FLIGHTS_MAX, "bounded-ahead");
        }
    }

    /// Starts the next step of the present extent, if that is a long one that is being read.
    async fn read_ahead(&mut self) {
        let loaded = self.loaded();
        let Some(extent) = self.extents.front_mut() else { return };
        let goes_on = extent.issued < extent.range.end && extent.issued <= loaded;
        // The first step may have all that the consumer wants.
        if !goes_on || !self.flights.is_empty() || extent.step <= 2 * *STEP_BYTES.start() {
            return;
        }
        let end = extent.issued.saturating_add(extent.step).min(extent.range.end);
        extent.step = (extent.step * 2).min(*STEP_BYTES.end());
        let range = self.file.rounded(extent.issued..end);
        extent.issued = range.end;
        let flight = self.take_off(range, ROOM_BEFORE, "ahead").await;
        self.flights.push_back(flight);
    }

    /// Starts a read, with room for so many bytes before what it brings.
    async fn take_off(&mut self, range: Range<u64>, room: usize, why: &'static str) -> Flight {
        debug_assert!(range.end <= self.file.len(), "within-file: {range:?} {why}");
        self.note(&range, why);
        let (file, class, stats) = (self.file.clone(), self.class, self.stats.clone());
        let (wanted, memory) = (range.clone(), self.take_memory(room));
        let mut future: LoadFuture =
            Box::pin(async move { file.load(class, wanted, memory, stats.spares()).await });
        // Polled once, it is under way; who needs it waits for it.
        let polled = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
        let state = match polled {
            Poll::Ready(landed) => FlightState::Landed(landed),
            Poll::Pending => FlightState::Flying(future),
        };
        Flight { range, state }
    }

    fn note(&self, range: &Range<u64>, why: &'static str) {
        let bytes = range.end - range.start;
        self.stats.add(|counts| {
            counts.data_reads += 1;
            counts.data_bytes += bytes;
        });
        tracing::debug!(file = %self.file.path().display(), start = range.start, end = range.end,
            why, "data range read");
    }

    /// Forgets reads that end at or before `until`, and counts them.
    fn discard_ahead(&mut self, until: u64) {
        while let Some(flight) = self.flights.front()
            && flight.range.end <= until
        {
            let range = flight.range.clone();
            self.discard(&range);
            self.flights.pop_front();
        }
    }

    /// Counts a read that nobody wanted.
    fn discard(&self, range: &Range<u64>) {
        let bytes = range.end - range.start;
        self.stats.add(|counts| counts.discarded_bytes += bytes);
    }

    /// Forgets what is loaded, and counts what of it was read ahead: the rest of a stretch that
    /// is loaded to its end was asked for.
    fn discard_loaded(&mut self) {
        let loaded = self.loaded();
        let end = self.extents.front().map_or(self.limit, |extent| extent.range.end);
        let used = if self.limit <= loaded { self.limit } else { self.here };
        let bytes = loaded.min(end).saturating_sub(used.max(self.base));
        self.stats.add(|counts| counts.discarded_bytes += bytes);
        let old = std::mem::replace(&mut self.buf, Loaded::Own(Vec::new(), 0));
        self.keep_memory(old);
        self.base = 0;
        debug_assert!(self.buf.is_empty(), "in-place: {} bytes are left", self.buf.len());
    }

    /// Nothing more is read, unless somebody goes elsewhere: others have its memory.
    pub(super) fn let_go(&mut self) {
        self.forget_plans();
        self.discard_loaded();
        self.stats.spares().keep_block(std::mem::take(&mut self.spare));
        self.stats.spares().keep_chunk(std::mem::take(&mut self.spare_chunk));
        debug_assert!(self.flights.is_empty(), "bounded-ahead: {} reads", self.flights.len());
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.let_go();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::guard::Guard;
    use crate::compress::output::{DataOutput, crc_file};
    use crate::compress::{Algorithm, Compression};
    use proptest::prelude::*;
    use runtime::io::{File, OpenOptions};
    use std::path::Path;
    use stdx::{Prng, Put};
    use testkit::SimNode;

    /// A file with this content, and one of its kinds of checks.
    async fn open(content: &[u8], compression: Compression, guarded: bool) -> Rc<ReadFile> {
        let path = Path::new("/data");
        let output = DataOutput::create(path, compression, None, IoClass::Flush).await;
        let mut output = output.unwrap();
        for piece in content.chunks(50_000) {
            output.put(piece);
            output.flush().await.unwrap();
        }
        let made = output.finish().await.unwrap();
        let file = File::open(path, OpenOptions::read_only()).await.unwrap();
        let (checksums, chunks) = match made.side {
            Ok(chunks) => (None, Some(chunks)),
            Err(checksums) => (Some(crc_file(&checksums)), None),
        };
        let file = ReadFile::new(file, made.file_bytes, chunks);
        if !guarded {
            return Rc::new(file);
        }
        Rc::new(file.guarded(Guard::new(checksums.as_deref(), Some(made.digest)).unwrap()))
    }

    /// Goes through a stretch by elements of random lengths, some of them skipped unread.
    async fn go_through(file: Rc<ReadFile>, content: &[u8], stretch: Range<u64>, prng: &mut Prng) {
        let mut window = Window::new(file, IoClass::Query, ReadStats::of_shard());
        window.reset(stretch.start, stretch.end);
        let length = [10, 400, 6_000, 90_000][prng.below(4) as usize];
        while 0 < window.remaining() {
            let left = window.remaining() as usize;
            let want = (1 + prng.below(length) as usize).min(left);
            window.load(want).await.unwrap();
            let (here, rest) = (window.position() as usize, window.rest());
            assert!(want <= rest.len() && rest.len() <= left);
            assert_eq!(rest, &content[here..here + rest.len()]);
            window.skip(if prng.one_in(50) { left as u64 / 2 } else { want as u64 });
        }
        window.file().finish().unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// However steps and elements meet, what is loaded is what the file has there.
        #[test]
        fn a_window_has_what_the_file_has(
            bytes in 1usize..600_000,
            compressed: bool,
            guarded: bool,
            seed: u64,
        ) {
            let mut prng = Prng::from_seed(seed);
            let mut content = vec![0; bytes];
            prng.fill(&mut content);
            // Some of it compresses.
            content.chunks_mut(100).step_by(2).for_each(|piece| piece.fill(7));
            let compression = match compressed {
                true => Compression::Chunks { algorithm: Algorithm::Lz4, chunk_bytes: 4096 },
                false => Compression::None,
            };
            let mut node = SimNode::new(seed, 1);
            node.run(async move {
                let file = open(&content, compression, guarded).await;
                let total = bytes as u64;
                go_through(file.clone(), &content, 0..total, &mut prng).await;
                for _ in 0..3 {
                    let start = prng.below(total);
                    let end = start + prng.below(total - start + 1);
                    go_through(file.clone(), &content, start..end, &mut prng).await;
                }
            });
        }
    }
}
