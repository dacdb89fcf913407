//! Memory of memtables: how much there is, who waits for it, and when to write some of it out.
//!
//! *Real* is what all memtables take, those being flushed and those being freed included.
//! *Spooled* is what of it is in an SSTable already, finished or not; *unspooled* the rest. Above
//! the soft limit the largest memtable is written; above a hard one writes wait. So while one
//! memtable is written another fills, and as its bytes are written writers come in: at the pace of
//! the disk, without a step.
//!
//! Invariants
//!  - *in-turn*: writes that wait are let in one by one, in the order in which they came; none
//!    that comes later passes one that finds no room. (Once there is room those who come then do
//!    pass the others, who are on their way: or a queue would last as long as writes come, each of
//!    them woken once for nothing.)
//!  - *bounded-wait*: each waits until its deadline and no longer.
//!  - *accounted*: what comes in leaves, neither more nor less.
//!  - *spools-in-time*: memory is written before it must be, and must be before it is full: the
//!    soft limit is at most the one of unspooled bytes, and that one at most the one of all.
//!  - *shares-rise*: whoever flushes gets the more the nearer memory, or the log, is to its limit.
//!  - *own-pools*: tables of the system have a pool of their own, so what clients write never
//!    keeps the node from writing what it must.

use super::garbage::Remains;
use runtime::sync::{Notify, Permit, Semaphore};
use runtime::time::{Instant, timeout};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// Memory of the memtables of the tables of the system, in bytes.
const SYSTEM_BYTES_MAX: usize = 10 << 20;

/// Caches follow memtables in so many steps from nothing to the limit.
const STEPS: usize = 64;

/// Limits of one pool, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Of all its memtables.
    pub(crate) real_max: usize,
    /// Of what is not written to an SSTable.
    pub(crate) unspooled_max: usize,
    /// Unspooled bytes above which the largest memtable is flushed.
    pub(crate) unspooled_soft: usize,
}

impl Limits {
    /// Nothing comes in.
    const NONE: Limits = Limits { real_max: 0, unspooled_max: 0, unspooled_soft: 0 };

    /// Of a pool that may take so much in all: half of it unspooled, of this 60 % untouched.
    pub(crate) fn of(real_max: usize) -> Limits {
        let unspooled_max = real_max / 2;
        Limits { real_max, unspooled_max, unspooled_soft: unspooled_max / 5 * 3 }
    }

    /// Of the tables of the system, on a shard whose clients have so much.
    pub(crate) fn of_system(user_max: usize) -> Limits {
        Limits::of(SYSTEM_BYTES_MAX.min(user_max))
    }
}

/// What there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) real: usize,
    pub(crate) spooled: usize,
}

impl Level {
    pub(crate) fn unspooled(self) -> usize {
        self.real.saturating_sub(self.spooled)
    }
    /// Whether a write may come in.
    pub(crate) fn allows(self, limits: &Limits) -> bool {
        self.real < limits.real_max && self.unspooled() < limits.unspooled_max
    }
    /// Whether something should be flushed.
    pub(crate) fn wants_flush(self, limits: &Limits) -> bool {
        limits.unspooled_soft < self.unspooled()
    }
    /// How far unspooled or real memory is towards its limit, in thousandths.
    pub(crate) fn thousandths(self, limits: &Limits) -> u64 {
        let part = |bytes: usize, max: usize| (bytes as u64 * 1000 / max.max(1) as u64).min(1000);
        part(self.unspooled(), limits.unspooled_max).max(part(self.real, limits.real_max))
    }
}

/// Shares of those who flush when memory, or log, is so far towards its limit, in thousandths:
/// none below 60 %, then little, at the limit all that others have.
pub(crate) fn flush_shares(thousandths: u64) -> u32 {
    const POINTS: [(u64, u64); 4] = [(0, 1), (600, 10), (800, 200), (1000, 1000)];
    const { assert!(rise(&POINTS), "shares-rise") };
    let at = thousandths.min(1000);
    let upper = POINTS.iter().position(|(x, _)| at <= *x).unwrap_or(3).max(1);
    let ((x0, y0), (x1, y1)) = (POINTS[upper - 1], POINTS[upper]);
    debug_assert!(x0 <= at && at <= x1, "between two points: {at}");
    (y0 + (y1 - y0) * (at - x0) / (x1 - x0)) as u32
}

/// Whether there are more shares the nearer the limit is.
const fn rise(points: &[(u64, u64)]) -> bool {
    let [before @ .., (x1, y1)] = points else { return true };
    let [.., (x0, y0)] = before else { return true };
    *x0 < *x1 && *y0 < *y1 && rise(before)
}

/// Memory of memtables, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirtyStats {
    /// Bytes that all memtables may have.
    pub limit_bytes: u64,
    /// Bytes of all memtables.
    pub real_bytes: u64,
    /// Bytes of them that are not in any SSTable yet.
    pub unspooled_bytes: u64,
    /// Writes that wait now.
    pub blocked: u64,
    /// Writes that have had to wait.
    pub blocked_total: u64,
    /// Writes that waited in vain.
    pub timed_out_total: u64,
    /// How long writes have waited, all of them together, in microseconds.
    pub blocked_micros: u64,
}

/// The memory of the memtables of one pool of tables on one shard.
pub(crate) struct Dirty {
    base: Limits,
    /// As long as the disk has room these are `base`.
    limits: Cell<Limits>,
    /// What writes of clients are let in by at once: `limits`, or nothing.
    entry: Cell<Limits>,
    level: Cell<Level>,
    /// Tells who picks what is to be flushed.
    pressure: Rc<Notify>,
    /// Who holds it waits for memory or log space; the others wait for it (*in-turn*).
    turn: Semaphore,
    /// Who holds it has found no room.
    lacks: Cell<bool>,
    /// Tells the one who has the turn that bytes came free.
    drained: Notify,
    garbage: RefCell<VecDeque<(Remains, usize, usize)>>,
    littered: Notify,
    stats: Cell<DirtyStats>,
}

impl Dirty {
    pub(crate) fn new(limits: Limits, pressure: Rc<Notify>) -> Dirty {
        assert!(
            limits.unspooled_soft <= limits.unspooled_max
                && limits.unspooled_max <= limits.real_max,
            "spools-in-time: {limits:?}"
        );
        Dirty {
            base: limits,
            limits: Cell::new(limits),
            entry: Cell::new(limits),
            level: Cell::default(),
            pressure,
            turn: Semaphore::new(1, usize::MAX),
            lacks: Cell::new(false),
            drained: Notify::new(),
            garbage: RefCell::default(),
            littered: Notify::new(),
            stats: Cell::default(),
        }
    }

    pub(crate) fn level(&self) -> Level {
        self.level.get()
    }

    /// The limits that it was made with.
    pub(crate) fn base(&self) -> Limits {
        self.base
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits.get()
    }

    /// Sets lower limits, where the disk has little room; `closed`: no write is let in without
    /// being looked at (`shard::disk_space`).
    pub(crate) fn restrict(&self, limits: Limits, closed: bool) {
        assert!(limits.unspooled_max <= self.base.unspooled_max, "limits above {:?}", self.base);
        assert!(limits.unspooled_soft <= limits.unspooled_max, "spools-in-time: {limits:?}");
        let before = self.limits.replace(limits);
        self.entry.set(if closed { Limits::NONE } else { limits });
        if before.unspooled_max < limits.unspooled_max {
            self.drained.notify_one();
        } else if self.level.get().wants_flush(&limits) {
            self.pressure.notify_one();
        }
    }

    /// Active memtables have grown, or shrunk.
    pub(crate) fn grow(&self, bytes: isize) {
        let before = self.level.get();
        debug_assert!(
            before.real.checked_add_signed(bytes).is_some(),
            "accounted: {} and {bytes}",
            before.real
        );
        let real = before.real.saturating_add_signed(bytes);
        let after = Level { real, ..before };
        self.level.set(after);
        let limits = self.limits.get();
        let crossed = !before.wants_flush(&limits) && after.wants_flush(&limits);
        let step = limits.real_max / STEPS + 1;
        if crossed || before.real / step != real / step {
            self.pressure.notify_one();
        }
    }

    /// A flush has written so much; where it failed, less than nothing.
    pub(crate) fn spool(&self, bytes: isize) {
        let level = self.level.get();
        debug_assert!(
            level.spooled.checked_add_signed(bytes).is_some(),
            "accounted: {} spooled and {bytes}",
            level.spooled
        );
        let spooled = level.spooled.saturating_add_signed(bytes);
        debug_assert!(spooled <= level.real, "accounted: {spooled} of {} spooled", level.real);
        self.level.set(Level { spooled, ..level });
        if 0 < bytes {
            self.drained.notify_one();
        }
    }

    /// A memtable of so many bytes, so many of them spooled, is no more.
    pub(crate) fn freed(&self, bytes: usize, spooled: usize) {
        let level = self.level.get();
        assert!(bytes <= level.real, "accounted: {bytes} of {} freed", level.real);
        assert!(spooled <= level.spooled, "accounted: {spooled} of {} spooled", level.spooled);
        let (real, spooled) = (level.real - bytes, level.spooled - spooled);
        debug_assert!(spooled <= real, "accounted: {spooled} of {real} spooled");
        self.level.set(Level { real, spooled });
        self.drained.notify_one();
    }

    /// Wakes the one who has the turn: what it waits for may not come.
    pub(crate) fn look_again(&self) {
        self.drained.notify_one();
    }

    /// As [`Dirty::freed`], once `remains` are freed piece by piece.
    pub(crate) fn free_gently(&self, remains: Remains, bytes: usize, spooled: usize) {
        debug_assert!(spooled <= bytes, "accounted: {spooled} of {bytes} are spooled");
        debug_assert!(bytes <= self.level.get().real, "accounted: {bytes} did not come in");
        self.garbage.borrow_mut().push_back((remains, bytes, spooled));
        self.littered.notify_one();
    }

    /// Frees what is given to [`Dirty::free_gently`], for ever. What is freed is accounted for
    /// little by little.
    pub(crate) async fn collect_garbage(&self) {
        loop {
            let next = self.garbage.borrow_mut().pop_front();
            let Some((mut remains, mut bytes, mut spooled)) = next else {
                self.littered.notified().await;
                continue;
            };
            assert!(0 < remains.steps, "accounted: of no steps");
            let (bytes_step, spooled_step) = (bytes / remains.steps, spooled / remains.steps);
            while remains.step() {
                // Steps are rounded: of what is left no more is spooled than there is.
                let some = bytes_step.min(bytes);
                let some_spooled =
                    spooled_step.min(spooled).max(spooled.saturating_sub(bytes - some));
                self.freed(some, some_spooled);
                (bytes, spooled) = (bytes - some, spooled - some_spooled);
                runtime::task::yield_if_needed().await;
            }
            self.freed(bytes, spooled);
        }
    }

    /// Whether a write may come in now, passing nobody who has found no room.
    pub(crate) fn is_open(&self) -> bool {
        debug_assert!(!self.lacks.get() || self.turn.available() == 0, "in-turn: nobody lacks it");
        !self.lacks.get() && self.level.get().allows(&self.entry.get())
    }

    /// Nobody comes in until the guard goes: who has the turn has found no room.
    pub(crate) fn lack(&self) -> Lacks<'_> {
        assert!(self.turn.available() == 0, "in-turn: who has not the turn stops others");
        let before = self.lacks.replace(true);
        debug_assert!(!before, "in-turn: two have the turn");
        Lacks { dirty: self }
    }

    /// Whether memory allows a write, whoever waits.
    pub(crate) fn has_room(&self) -> bool {
        self.level.get().allows(&self.limits.get())
    }

    /// Whether memory is left where nothing can be flushed.
    pub(crate) fn has_last_room(&self) -> bool {
        self.level.get().real < self.base.real_max
    }

    /// Waits until bytes came free; who asks holds the turn, or waits alone.
    pub(crate) async fn room_made(&self) {
        self.pressure.notify_one();
        self.drained.notified().await;
    }

    /// Waits for the turn to wait, at most until `deadline`.
    pub(crate) async fn take_turn(&self, deadline: Instant) -> Option<Permit> {
        let span = deadline - Instant::now();
        let turn = timeout(span, self.turn.acquire(1)).await.ok().and_then(Result::ok);
        debug_assert!(turn.is_none() || self.turn.available() == 0, "in-turn: two at a time");
        debug_assert!(turn.is_some() || deadline <= Instant::now(), "bounded-wait: gave up early");
        turn
    }

    /// Counts a write that waits, until the guard goes.
    pub(crate) fn block(&self) -> Blocked<'_> {
        let stats = self.stats.get();
        let (blocked, blocked_total) = (stats.blocked + 1, stats.blocked_total + 1);
        self.stats.set(DirtyStats { blocked, blocked_total, ..stats });
        Blocked { dirty: self, since: Instant::now() }
    }

    /// Counts a write that waited in vain.
    pub(crate) fn count_timeout(&self) {
        let stats = self.stats.get();
        assert!(0 < stats.blocked, "accounted: who waited in vain did not wait");
        self.stats.set(DirtyStats { timed_out_total: stats.timed_out_total + 1, ..stats });
    }

    pub(crate) fn stats(&self) -> DirtyStats {
        let level = self.level.get();
        DirtyStats {
            limit_bytes: self.limits().real_max as u64,
            real_bytes: level.real as u64,
            unspooled_bytes: level.unspooled() as u64,
            ..self.stats.get()
        }
    }
}

/// A write that waits.
pub(crate) struct Blocked<'d> {
    dirty: &'d Dirty,
    since: Instant,
}

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        let stats = self.dirty.stats.get();
        assert!(0 < stats.blocked, "accounted: nobody waits");
        let waited: Duration = self.since.elapsed();
        self.dirty.stats.set(DirtyStats {
            blocked: stats.blocked - 1,
            blocked_micros: stats.blocked_micros + waited.as_micros() as u64,
            ..stats
        });
    }
}

/// See [`Dirty::lack`].
pub(crate) struct Lacks<'d> {
    dirty: &'d Dirty,
}

impl Drop for Lacks<'_> {
    fn drop(&mut self) {
        self.dirty.lacks.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_parts_of_the_pool() {
        let limits = Limits::of(1000);
        assert_eq!((limits.unspooled_max, limits.unspooled_soft), (500, 300));
        assert_eq!(Limits::of_system(1 << 30).real_max, 10 << 20);
        assert_eq!(Limits::of_system(1 << 20).real_max, 1 << 20);
    }

    #[test]
    fn writes_stop_at_either_hard_limit_and_flushes_start_at_the_soft_one() {
        let limits = Limits::of(1000);
        for (real, spooled, allows, wants_flush) in [
            (0, 0, true, false),
            (300, 0, true, false),
            (301, 0, true, true),
            (499, 0, true, true),
            (500, 0, false, true),
            (800, 301, true, true),
            (800, 300, false, true),
            (800, 600, true, false),
            (999, 800, true, false),
            (1000, 1000, false, false),
        ] {
            let level = Level { real, spooled };
            let seen = (level.allows(&limits), level.wants_flush(&limits));
            assert_eq!(seen, (allows, wants_flush), "{level:?}");
        }
    }

    #[test]
    fn a_queue_that_has_room_holds_up_nobody() {
        runtime::sim::test(1, || async {
            let dirty = Dirty::new(Limits::of(1000), Rc::default());
            let soon = Instant::now() + Duration::from_secs(1);
            assert!(dirty.is_open());
            let first = dirty.take_turn(soon).await.expect("nobody else has it");
            let lacks = dirty.lack();
            assert!(!dirty.is_open(), "the first has found no room");
            let mut second = std::pin::pin!(dirty.take_turn(soon));
            let queues = runtime::task::race(second.as_mut(), std::future::ready(())).await;
            assert!(matches!(queues, runtime::task::Either::Right(())));
            drop(lacks);
            assert!(dirty.is_open(), "there is room, and one is on its way");
            drop(first);
            let second = second.await.expect("it is its turn");
            assert!(dirty.is_open());
            let lacks = dirty.lack();
            drop((lacks, second));
            assert!(dirty.is_open(), "who gave up holds up nobody");
        });
    }

    #[test]
    fn shares_rise_with_pressure() {
        for (thousandths, shares) in [
            (0, 1),
            (300, 5),
            (600, 10),
            (700, 105),
            (800, 200),
            (900, 600),
            (1000, 1000),
            (5000, 1000),
        ] {
            assert_eq!(flush_shares(thousandths), shares, "{thousandths}");
        }
        let limits = Limits::of(1000);
        assert_eq!(Level { real: 450, spooled: 50 }.thousandths(&limits), 800);
        assert_eq!(Level { real: 900, spooled: 800 }.thousandths(&limits), 900);
        assert_eq!(Level { real: 4500, spooled: 50 }.thousandths(&limits), 1000);
    }
}
