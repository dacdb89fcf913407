//! Which disk request goes next: a fair queue over the classes of one shard, and its figures.
//!
//! A request costs 4096 plus its bytes, written ones twice; the class with the least cost per
//! share goes next. With room at the disk and no request waiting a request passes at once.
//!
//! Invariants
//!  - *bounded-in-flight*: at most `in_flight_max` requests are at the kernel.
//!  - *bounded-background*: of flushes, compaction, streaming and maintenance, whose requests are
//!    large and come many at a time, at most `BACKGROUND_BYTES_MAX` are at the kernel, or one
//!    request. What the disk has taken it serves in its own order; a write to the commitlog waits
//!    for no more than that. They hold up no other class while they wait. After
//!    `UNDISTURBED_BYTES` of them without a request of a client it is `ALONE_BYTES_MAX`, until the
//!    next one comes.
//!  - *in-its-turn*: a request of the background that has no room yet is not passed by smaller ones
//!    of classes that come after it.
//!  - *counters-balance*: what is in flight and what waits is the sum of the classes' parts, and a
//!    request that ends, or is given up, was counted before.

use super::io_class::{IoClass, IoStats};
use crate::driver::op::{DiskKind, OpId};
use std::collections::VecDeque;

/// A disk that gives 1 GiB a second after a millisecond is not slowed by it; one of 40 MiB a
/// second is busy with it for 25 ms.
const BACKGROUND_BYTES_MAX: usize = 1 << 20;
/// What keeps disks busy that do much at once. The first client that comes waits for it, once.
const ALONE_BYTES_MAX: usize = 8 << 20;
const UNDISTURBED_BYTES: usize = 64 * BACKGROUND_BYTES_MAX;

fn is_background(class: IoClass) -> bool {
    match class {
        IoClass::Flush | IoClass::Compaction | IoClass::Streaming | IoClass::Maintenance => true,
        IoClass::Commitlog | IoClass::Query | IoClass::System => false,
    }
}

/// Whether a client waits for it.
fn is_of_client(class: IoClass) -> bool {
    matches!(class, IoClass::Commitlog | IoClass::Query)
}

struct Waiting {
    id: OpId,
    cost: u64,
    bytes: usize,
}

struct ClassState {
    waiting: VecDeque<Waiting>,
    /// Cost x 1024 / shares.
    used: u64,
    shares: u64,
    stats: IoStats,
}

pub(crate) struct IoQueue {
    classes: [ClassState; IoClass::ALL.len()],
    in_flight: usize,
    /// The most that were in flight since the last look at the figures.
    in_flight_peak: usize,
    in_flight_max: usize,
    /// Of the background's requests in flight.
    background_bytes: usize,
    /// Of the background's requests that have ended since a client's came.
    undisturbed_bytes: usize,
    waiting: usize,
    background_waiting: usize,
    floor: u64,
}

impl IoQueue {
    pub(crate) fn new(in_flight_max: usize) -> IoQueue {
        let state = |shares| ClassState {
            waiting: VecDeque::new(),
            used: 0,
            shares,
            stats: IoStats::default(),
        };
        // In the order of the classes: commitlog, flush, compaction, query, streaming, system,
        // maintenance.
        let classes = [1000, 400, 200, 1000, 200, 400, 200].map(state);
        assert!(
            classes.iter().all(|class| 0 < class.shares),
            "counters-balance: a class of no share"
        );
        IoQueue {
            classes,
            in_flight: 0,
            in_flight_peak: 0,
            in_flight_max: in_flight_max.max(1),
            background_bytes: 0,
            undisturbed_bytes: 0,
            waiting: 0,
            background_waiting: 0,
            floor: 0,
        }
    }

    /// *bounded-in-flight*, *bounded-background*, *counters-balance*.
    fn check(&self) {
        let sum = |of: fn(&ClassState) -> u64| self.classes.iter().map(of).sum::<u64>();
        debug_assert!(
            self.in_flight <= self.in_flight_max,
            "bounded-in-flight: {}",
            self.in_flight
        );
        debug_assert!(self.in_flight <= self.in_flight_peak, "bounded-in-flight: above its peak");
        debug_assert_eq!(
            sum(|class| class.stats.in_flight),
            self.in_flight as u64,
            "counters-balance: in flight"
        );
        debug_assert_eq!(
            sum(|class| class.waiting.len() as u64),
            self.waiting as u64,
            "counters-balance: waiting"
        );
        debug_assert_eq!(
            sum(|class| class.stats.queued),
            self.waiting as u64,
            "counters-balance: queued"
        );
        debug_assert!(self.background_waiting <= self.waiting, "counters-balance: background");
        debug_assert!(
            self.background_bytes == 0 || 0 < self.in_flight,
            "bounded-background: {} bytes of no request",
            self.background_bytes
        );
    }

    /// Whether there is room at the disk for such a request.
    fn has_room(&self, class: IoClass, bytes: usize) -> bool {
        let fits = !is_background(class) || self.fits_background(bytes);
        self.in_flight < self.in_flight_max && fits
    }

    /// *bounded-background*
    fn fits_background(&self, bytes: usize) -> bool {
        let most = match UNDISTURBED_BYTES <= self.undisturbed_bytes {
            true => ALONE_BYTES_MAX,
            false => BACKGROUND_BYTES_MAX,
        };
        self.background_bytes == 0 || self.background_bytes + bytes <= most
    }

    /// Counts a request; whether it may go to the kernel at once.
    pub(crate) fn admit(&mut self, class: IoClass, kind: DiskKind, bytes: usize) -> bool {
        if is_of_client(class) {
            self.undisturbed_bytes = 0;
        }
        // Those that wait while there is room are of the background.
        let first = !is_background(class) || self.background_waiting == 0;
        let free = first && self.has_room(class, bytes);
        let floor = self.floor;
        let state = &mut self.classes[class as usize];
        count(&mut state.stats, kind, bytes);
        if free {
            state.used = state.used.max(floor) + cost(kind, bytes) * 1024 / state.shares;
            state.stats.in_flight += 1;
            self.started(class, bytes);
        }
        self.check();
        free
    }

    /// Lets a counted request wait.
    pub(crate) fn push(&mut self, class: IoClass, id: OpId, kind: DiskKind, bytes: usize) {
        let floor = self.floor;
        let state = &mut self.classes[class as usize];
        if state.waiting.is_empty() {
            state.used = state.used.max(floor);
        }
        debug_assert!(
            state.waiting.back().is_none_or(|last| last.id != id),
            "counters-balance: {id:?} waits twice"
        );
        state.waiting.push_back(Waiting { id, cost: cost(kind, bytes), bytes });
        state.stats.queued += 1;
        self.waiting += 1;
        self.background_waiting += is_background(class) as usize;
        self.check();
    }

    /// The next request that may go, counted as in flight.
    pub(crate) fn pop(&mut self) -> Option<(IoClass, OpId)> {
        if self.in_flight_max <= self.in_flight || self.waiting == 0 {
            return None;
        }
        let used = |class: &IoClass| self.classes[*class as usize].used;
        let first = |class: IoClass| self.classes[class as usize].waiting.front();
        let waiting = || IoClass::ALL.into_iter().filter(|class| first(*class).is_some());
        // *in-its-turn*
        let next = waiting().filter(|class| is_background(*class)).min_by_key(used);
        let fits =
            |class: &IoClass| first(*class).is_some_and(|it| self.has_room(*class, it.bytes));
        let others = waiting().filter(|class| !is_background(*class));
        let class = others.chain(next.filter(fits)).min_by_key(used)?;
        let state = &mut self.classes[class as usize];
        let Waiting { id, cost, bytes } = state.waiting.pop_front()?;
        self.floor = self.floor.max(state.used);
        state.used += cost * 1024 / state.shares;
        state.stats.queued -= 1;
        state.stats.in_flight += 1;
        self.waiting -= 1;
        self.background_waiting -= is_background(class) as usize;
        self.started(class, bytes);
        self.check();
        Some((class, id))
    }

    fn started(&mut self, class: IoClass, bytes: usize) {
        debug_assert!(
            !is_background(class) || self.fits_background(bytes),
            "bounded-background: {bytes} bytes beside {}",
            self.background_bytes
        );
        self.in_flight += 1;
        self.background_bytes += if is_background(class) { bytes } else { 0 };
        self.in_flight_peak = self.in_flight_peak.max(self.in_flight);
    }

    /// The most requests that were in flight at once since the last call.
    pub(crate) fn take_peak(&mut self) -> usize {
        std::mem::replace(&mut self.in_flight_peak, self.in_flight)
    }

    /// A popped request waited for so long.
    pub(crate) fn waited(&mut self, class: IoClass, ns: u64) {
        let stats = &mut self.classes[class as usize].stats;
        debug_assert!(0 < stats.in_flight, "counters-balance: what waited is in flight now");
        stats.queue_ns += ns;
    }

    /// A popped request was given up before it went: as if it had never been.
    pub(crate) fn abandon(&mut self, class: IoClass, kind: DiskKind, bytes: usize) {
        self.left(class, bytes);
        let stats = &mut self.classes[class as usize].stats;
        match kind {
            DiskKind::Read => {
                let is_counted = 0 < stats.reads && bytes as u64 <= stats.read_bytes;
                debug_assert!(is_counted, "counters-balance: a read that was not counted");
                (stats.reads, stats.read_bytes) = (stats.reads - 1, stats.read_bytes - bytes as u64)
            }
            DiskKind::Write => {
                let is_counted = 0 < stats.writes && bytes as u64 <= stats.write_bytes;
                debug_assert!(is_counted, "counters-balance: a write that was not counted");
                (stats.writes, stats.write_bytes) =
                    (stats.writes - 1, stats.write_bytes - bytes as u64)
            }
            DiskKind::Sync => {
                debug_assert!(0 < stats.syncs, "counters-balance: a sync that was not counted");
                stats.syncs -= 1;
            }
        }
    }

    /// A request of so many bytes has ended.
    pub(crate) fn ended(&mut self, class: IoClass, bytes: usize, service_ns: u64) {
        self.left(class, bytes);
        self.classes[class as usize].stats.service_ns += service_ns;
    }

    fn left(&mut self, class: IoClass, bytes: usize) {
        let state = &mut self.classes[class as usize].stats;
        assert!(0 < state.in_flight, "counters-balance: {class:?} has none in flight");
        assert!(0 < self.in_flight, "bounded-in-flight: one ended of none");
        state.in_flight -= 1;
        self.in_flight -= 1;
        let bytes = if is_background(class) { bytes } else { 0 };
        assert!(
            bytes <= self.background_bytes,
            "bounded-background: {bytes} bytes ended of {}",
            self.background_bytes
        );
        self.background_bytes -= bytes;
        self.undisturbed_bytes = self.undisturbed_bytes.saturating_add(bytes);
        self.check();
    }

    pub(crate) fn stats(&self, class: IoClass) -> IoStats {
        self.classes[class as usize].stats
    }

    pub(crate) fn set_shares(&mut self, class: IoClass, shares: u32) {
        self.classes[class as usize].shares = shares.max(1) as u64;
    }
}

fn count(stats: &mut IoStats, kind: DiskKind, bytes: usize) {
    match kind {
        DiskKind::Read => {
            stats.reads += 1;
            stats.read_bytes += bytes as u64;
        }
        DiskKind::Write => {
            stats.writes += 1;
            stats.write_bytes += bytes as u64;
        }
        DiskKind::Sync => stats.syncs += 1,
    }
}

fn cost(kind: DiskKind, bytes: usize) -> u64 {
    let bytes = bytes as u64;
    match kind {
        DiskKind::Read => 4096 + bytes,
        DiskKind::Write => 4096 + 2 * bytes,
        DiskKind::Sync => 4096,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_beyond_the_limit_wait_and_share() {
        let mut queue = IoQueue::new(4);
        let mut next = 0;
        let mut ask = |queue: &mut IoQueue, class| {
            next += 1;
            if !queue.admit(class, DiskKind::Read, 4096) {
                queue.push(class, OpId(next), DiskKind::Read, 4096);
            }
        };
        for _ in 0..300 {
            ask(&mut queue, IoClass::Query);
            ask(&mut queue, IoClass::Compaction);
        }
        let total =
            |queue: &IoQueue| IoClass::ALL.map(|c| queue.stats(c).in_flight).iter().sum::<u64>();
        assert_eq!(total(&queue), 4);
        assert_eq!(queue.take_peak(), 4);
        assert_eq!(queue.pop(), None);
        queue.ended(IoClass::Query, 4096, 10);
        queue.ended(IoClass::Compaction, 4096, 10);
        let mut went = [0; IoClass::ALL.len()];
        for _ in 0..120 {
            let (class, _) = queue.pop().expect("requests wait");
            went[class as usize] += 1;
            assert!(total(&queue) <= 4);
            queue.ended(class, 4096, 10);
        }
        // 1000 shares against 200.
        let (query, compaction) =
            (went[IoClass::Query as usize], went[IoClass::Compaction as usize]);
        assert!((98..=102).contains(&query), "{query} and {compaction}");
        let stats = queue.stats(IoClass::Query);
        assert_eq!((stats.reads, stats.read_bytes), (300, 300 * 4096));
    }

    #[test]
    fn the_background_is_bounded_and_holds_up_nobody() {
        const LARGE: usize = BACKGROUND_BYTES_MAX / 2;
        let mut queue = IoQueue::new(8);
        assert!(queue.admit(IoClass::Flush, DiskKind::Write, LARGE));
        assert!(queue.admit(IoClass::Compaction, DiskKind::Write, LARGE));
        assert!(!queue.admit(IoClass::Compaction, DiskKind::Write, LARGE));
        queue.push(IoClass::Compaction, OpId(1), DiskKind::Write, LARGE);
        assert_eq!(queue.pop(), None);
        // Smaller than what waits, and behind it all the same.
        assert!(!queue.admit(IoClass::Flush, DiskKind::Sync, 0));
        queue.push(IoClass::Flush, OpId(2), DiskKind::Sync, 0);
        assert!(queue.admit(IoClass::Commitlog, DiskKind::Write, LARGE));
        assert!(queue.admit(IoClass::Query, DiskKind::Read, 10 * LARGE));
        queue.ended(IoClass::Commitlog, LARGE, 1);
        assert_eq!(queue.pop(), Some((IoClass::Flush, OpId(2))));
        assert_eq!(queue.pop(), None);
        queue.ended(IoClass::Flush, LARGE, 1);
        assert_eq!(queue.pop(), Some((IoClass::Compaction, OpId(1))));
        assert_eq!(queue.background_bytes, BACKGROUND_BYTES_MAX);
    }

    #[test]
    fn the_background_has_more_while_it_is_alone() {
        const LARGE: usize = BACKGROUND_BYTES_MAX / 2;
        let mut queue = IoQueue::new(64);
        let (mut next, mut most) = (0, 0);
        let mut step = |queue: &mut IoQueue| {
            next += 1;
            if !queue.admit(IoClass::Streaming, DiskKind::Read, LARGE) {
                queue.push(IoClass::Streaming, OpId(next), DiskKind::Read, LARGE);
            }
            if next % 3 == 0 {
                queue.ended(IoClass::Streaming, LARGE, 1);
                while queue.pop().is_some() {}
            }
            queue.background_bytes
        };
        for _ in 0..1_000 {
            most = most.max(step(&mut queue));
            if queue.undisturbed_bytes < UNDISTURBED_BYTES {
                assert!(most <= BACKGROUND_BYTES_MAX, "bounded-background: {most}");
            }
        }
        assert_eq!(most, ALONE_BYTES_MAX);
        // A client comes: what is there ends, and no more than the bound takes its place.
        assert!(queue.admit(IoClass::Query, DiskKind::Read, 4096));
        while BACKGROUND_BYTES_MAX < queue.background_bytes {
            assert_eq!(queue.pop(), None);
            queue.ended(IoClass::Streaming, LARGE, 1);
        }
        assert_eq!(queue.pop(), None);
        queue.ended(IoClass::Streaming, LARGE, 1);
        assert!(queue.pop().is_some());
        assert_eq!(queue.background_bytes, BACKGROUND_BYTES_MAX);
    }

    #[test]
    fn small_requests_do_not_pass_a_large_one_for_ever() {
        let small = BACKGROUND_BYTES_MAX / 8;
        let mut queue = IoQueue::new(64);
        let mut next = 0;
        let mut ask = |queue: &mut IoQueue, class, bytes| {
            next += 1;
            if !queue.admit(class, DiskKind::Write, bytes) {
                queue.push(class, OpId(next), DiskKind::Write, bytes);
            }
        };
        (0..20).for_each(|_| ask(&mut queue, IoClass::Compaction, small));
        ask(&mut queue, IoClass::Streaming, BACKGROUND_BYTES_MAX);
        for ended in 1.. {
            assert!(ended <= 16, "in-its-turn: it waits still");
            queue.ended(IoClass::Compaction, small, 1);
            ask(&mut queue, IoClass::Compaction, small);
            if std::iter::from_fn(|| queue.pop()).any(|(class, _)| class == IoClass::Streaming) {
                assert_eq!(queue.background_bytes, BACKGROUND_BYTES_MAX);
                return;
            }
        }
    }

    #[test]
    fn one_request_of_the_background_may_be_larger_than_its_bound() {
        let mut queue = IoQueue::new(8);
        assert!(queue.admit(IoClass::Flush, DiskKind::Write, 2 * BACKGROUND_BYTES_MAX));
        assert!(!queue.admit(IoClass::Flush, DiskKind::Write, 1));
        queue.push(IoClass::Flush, OpId(1), DiskKind::Write, 1);
        assert_eq!(queue.pop(), None);
        queue.ended(IoClass::Flush, 2 * BACKGROUND_BYTES_MAX, 1);
        assert_eq!(queue.pop(), Some((IoClass::Flush, OpId(1))));
        queue.ended(IoClass::Flush, 1, 1);
        assert_eq!((queue.background_bytes, queue.in_flight), (0, 0));
    }

    #[test]
    fn a_request_given_up_leaves_no_trace() {
        let mut queue = IoQueue::new(1);
        assert!(queue.admit(IoClass::Flush, DiskKind::Write, 100));
        assert!(!queue.admit(IoClass::Flush, DiskKind::Write, 7));
        queue.push(IoClass::Flush, OpId(1), DiskKind::Write, 7);
        queue.ended(IoClass::Flush, 100, 1);
        assert_eq!(queue.pop(), Some((IoClass::Flush, OpId(1))));
        queue.abandon(IoClass::Flush, DiskKind::Write, 7);
        let expected = IoStats { writes: 1, write_bytes: 100, service_ns: 1, ..IoStats::default() };
        assert_eq!(queue.stats(IoClass::Flush), expected);
        assert!(queue.admit(IoClass::Query, DiskKind::Read, 1));
    }
}
