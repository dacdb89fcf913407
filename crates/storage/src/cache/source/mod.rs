//! The cache of a tablet as a source of what the tablet's SSTables hold: known stretches from the
//! cache, others from below, which are cached as they pass.
//!
//! In reading order: [`CacheView`], [`Below`]; [`CacheSource`]; `walk` (inside of a known
//! partition), `scan` (partitions that are not known), `filler` (what is cached of them); `fresh`
//! (one partition of which nothing is known); `known` (what is cached of one, and nothing else).
//!
//! Invariants
//!  - *one-view*: what lies below is what the cache mirrored when the view was taken, in the same
//!    step. A partition is read from a snapshot, or all of it below. Where the cache may be ahead
//!    of the view it is not used: a reader never sees half of a write.
//!  - *same-phase*: what was read below is cached only while the cache mirrors what it was read
//!    from. The cache checks that itself, whenever something is put into it.
//!  - *exact*: below, what is known is not read, but for stretches of a scan that are too short
//!    to interrupt it.
//!  - *nothing-lost*: what was read below is yielded, before anything else is read.
//!  - *in-order*, *goes-on*: partitions ascend, and no step stays where it is.
//!  - *whole-slices*: which partitions there are is learnt from reads of whole partitions alone:
//!    others may leave some out.

mod filler;
mod fresh;
mod known;
mod scan;
#[cfg(test)]
mod tests;
mod walk;

use crate::cache::{Found, NextKey, Phase, Populate, TabletCache};
use filler::Filler;
pub(crate) use fresh::FreshSource;
pub(crate) use known::KnownSource;
use model::{ClusteringOrder, DecoratedKey, Token};
use mutation::{ClusteringPosition, ClusteringRange, Direction, Fragment, RingBound, Tombstone};
use reader::place::just_after;
use reader::{Budget, LocalFuture, PartitionScope, ReadError, Slice, Source};
use scan::{Scan, Wanted};
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use stdx::Bytes;
use walk::Walk;

/// A scan below ends where so many known partitions follow each other.
const STRETCH_MIN: usize = 8;
/// How many known partitions are looked at, at most, to find the end of a scan.
const LOOK_MAX: usize = 64;
const _: () = assert!(STRETCH_MIN < LOOK_MAX);
/// Partitions that are known not to exist are passed so many at a time.
const ABSENT_MAX: usize = 128;

/// What a cache mirrors, as one read sees it.
pub(crate) trait Below {
    /// A source of one partition; `None`: it is not there.
    fn partition(&self, key: &DecoratedKey, slice: &Slice) -> Option<Box<dyn Source>>;
    /// A source of the partitions between two bounds; `None`: there are none.
    fn range(&self, bounds: (&RingBound, &RingBound), slice: &Slice) -> Option<Box<dyn Source>>;
}

/// A tablet's cache as one read sees it, to be taken in one step with what lies below.
#[derive(Clone)]
pub(crate) struct CacheView {
    cache: Rc<TabletCache>,
    phase: Phase,
    /// Whether an update was under way: then the view has the memtable that it merges, sealed.
    updating: bool,
}

impl CacheView {
    /// Of what is known now.
    pub(crate) fn of(cache: &Rc<TabletCache>) -> CacheView {
        let phase = cache.phase();
        let updating = !cache.may_populate(phase, Token::MIN);
        CacheView { cache: cache.clone(), phase, updating }
    }

    /// Whether the cache knows something of a partition.
    pub(crate) fn knows(&self, key: &DecoratedKey) -> bool {
        self.cache.knows(key)
    }

    fn is_same_phase(&self) -> bool {
        let present = self.cache.phase();
        debug_assert!(self.phase.0 <= present.0, "phases-grow: {present:?} after {:?}", self.phase);
        present == self.phase
    }

    /// Whether the cache knows nothing of partitions of that token that the view does not.
    fn is_current(&self, token: Token) -> bool {
        let is_same = self.updating && self.is_same_phase();
        is_same || self.cache.may_populate(self.phase, token)
    }
}

/// What the parts of a source share.
struct Reading {
    view: CacheView,
    order: Rc<ClusteringOrder>,
    slice: Slice,
    /// Whether something was read below.
    missed: Cell<bool>,
}

impl Reading {
    fn new(view: CacheView, order: Rc<ClusteringOrder>, slice: Slice) -> Reading {
        debug_assert!(
            slice.ranges.is_sorted_by(|a, b| a.end.compare(&order, &b.start).is_le()),
            "in-order: {:?}",
            slice.ranges
        );
        view.cache.cache().count_read();
        Reading { view, order, slice, missed: Cell::new(false) }
    }

    fn direction(&self) -> Direction {
        self.slice.direction()
    }

    /// What is asked for of a partition at its start, in table order.
    fn ranges_at_start(&self) -> Vec<ClusteringRange> {
        match self.slice.forwarding {
            true => Vec::new(),
            false => self.slice.ranges.clone(),
        }
    }

    /// Whether nothing is left out of partitions (*whole-slices*).
    fn is_whole(&self) -> bool {
        !self.slice.forwarding && self.slice.ranges == [ClusteringRange::full()]
    }

    /// The slice of partitions that are to be cached: with their static rows.
    fn slice_below(&self) -> Slice {
        Slice { with_static: true, ..self.slice.clone() }
    }

    fn knows(&self, key: &DecoratedKey) -> bool {
        self.view.knows(key)
    }

    /// To cache a partition, if what is read of it still may be.
    fn populate(
        &self,
        key: &DecoratedKey,
        tombstone: Tombstone,
        static_row: impl FnOnce() -> Bytes,
    ) -> Option<Populate> {
        let CacheView { cache, phase, .. } = &self.view;
        let may = cache.may_populate(*phase, key.token);
        may.then(|| cache.populate(key.clone(), tombstone, static_row(), *phase))
    }

    /// Of a partition that was asked for nothing came.
    fn nothing_came(&self, key: &DecoratedKey) {
        if self.is_whole() {
            self.view.cache.populate_absent(key, self.view.phase);
        } else if !self.slice.forwarding
            && let Some(populate) = self.populate(key, Tombstone::NONE, Bytes::new)
        {
            Filler::new(self, populate, &self.slice.ranges, usize::MAX).finish();
        }
    }

    /// All partitions between two bounds came and are cached.
    fn continuous(&self, from: &RingBound, to: &RingBound) {
        debug_assert!(from.token <= to.token, "in-order: from {from:?} to {to:?}");
        if self.is_whole() {
            self.view.cache.populate_continuous(from, to, self.view.phase);
        }
    }

    fn missed(&self) {
        if !self.missed.replace(true) {
            self.view.cache.cache().count_read_with_misses();
        }
    }

    /// Something that was read below is not offered to the cache.
    fn mispopulated(&self) {
        self.view.cache.cache().count_mispopulation();
    }

    /// Rows came from the cache.
    fn count_known(&self, rows: usize) {
        self.view.cache.cache().count_rows(rows, 0);
    }

    /// A fragment came from below.
    fn count_read(&self, fragment: &Fragment) {
        if let Fragment::Row { .. } = fragment {
            self.view.cache.cache().count_rows(0, 1);
        }
    }
}

/// A stream of what the SSTables of a tablet hold.
pub(crate) struct CacheSource {
    reading: Reading,
    below: Rc<dyn Below>,
    /// Where the partitions end that are wanted.
    end: RingBound,
    /// All partitions before it have come.
    at: RingBound,
    state: State,
    /// A source below of partitions from somewhere up to `end`, to be forwarded.
    idle: Option<Box<dyn Source>>,
    /// What comes next.
    ready: VecDeque<Fragment>,
    /// What a source below yields goes here first: empty in between.
    batch: Vec<Fragment>,
    /// Whether the start of a partition was yielded, and its end was not.
    inside: bool,
}

enum State {
    /// Between two partitions.
    Outside,
    /// In a partition that the cache knows.
    Known(Box<Walk>),
    /// In or between partitions that it does not.
    Below(Box<Scan>),
}

/// What a step came to.
enum Progress {
    Yielded,
    /// The source below has to be filled first.
    Below,
    /// There is much to pass that yields nothing.
    Pause,
    /// Nothing is left, or nothing that was asked for.
    End,
}

impl CacheSource {
    /// The partitions of `scope`, in each what `slice` says. `below` is of the same step as the
    /// view. One partition is looked up at once: what is written to it later is not seen.
    pub(crate) fn new(
        view: CacheView,
        below: Rc<dyn Below>,
        order: Rc<ClusteringOrder>,
        scope: &PartitionScope,
        slice: Slice,
    ) -> CacheSource {
        let (at, end) = match scope {
            PartitionScope::Key(key) => (just_before(key), just_after(key)),
            PartitionScope::Range { start, end } => (start.clone(), end.clone()),
        };
        let mut source = CacheSource {
            reading: Reading::new(view, order, slice),
            below,
            end,
            at,
            state: State::Outside,
            idle: None,
            ready: VecDeque::new(),
            batch: Vec::new(),
            inside: false,
        };
        if let PartitionScope::Key(key) = scope {
            source.enter(key);
        }
        source
    }

    /// Goes to a partition: in the cache, if it is known there.
    fn enter(&mut self, key: &DecoratedKey) {
        debug_assert!(matches!(self.state, State::Outside), "in-order: in a partition");
        let reading = &self.reading;
        match reading.view.cache.find(key) {
            Found::Present(snapshot) => {
                let tombstone = snapshot.tombstone;
                self.ready.push_back(Fragment::PartitionStart { key: key.clone(), tombstone });
                let row = &snapshot.static_row;
                if reading.slice.with_static && !row.is_empty() {
                    self.ready.push_back(Fragment::StaticRow { row: row.clone() });
                }
                let ranges = reading.ranges_at_start();
                let walk = Walk::new(reading, key.clone(), snapshot, &ranges);
                self.state = State::Known(Box::new(walk));
                debug_assert!(self.at.place(key.token, &key.key).is_gt(), "in-order: {key:?}");
                self.at = just_after(key);
            }
            Found::Absent => self.at = just_after(key),
            Found::Unknown => self.read_below(Wanted::Only(key.clone())),
        }
    }

    /// Reads what is wanted below.
    fn read_below(&mut self, wanted: Wanted) {
        debug_assert!(matches!(self.state, State::Outside), "in-order: in a partition");
        let reading = &self.reading;
        let slice = reading.slice_below();
        let from = self.at.clone();
        let source = match &wanted {
            Wanted::Only(key) => {
                debug_assert!(from.place(key.token, &key.key).is_gt(), "in-order: {key:?}");
                self.at = just_after(key);
                self.below.partition(key, &slice)
            }
            Wanted::Until(until) => {
                let idle = self.idle.take();
                let goes_on = idle.is_some() || *until != self.end;
                let mut source = idle.or_else(|| self.below.range((&from, &self.end), &slice));
                if let Some(source) = source.as_mut().filter(|_| goes_on) {
                    source.forward_partitions(&from, until);
                }
                source
            }
        };
        match (source, wanted) {
            (Some(source), wanted) => {
                reading.missed();
                self.state = State::Below(Box::new(Scan::new(source, from, wanted)));
            }
            (None, Wanted::Until(until)) => {
                reading.continuous(&from, &until);
                self.at = until;
            }
            (None, Wanted::Only(_)) => {}
        }
    }

    /// Goes on with the next partition.
    fn next(&mut self) -> Progress {
        debug_assert!(self.batch.is_empty(), "nothing-lost: what was read below");
        let cache = self.reading.view.cache.clone();
        for _ in 0..ABSENT_MAX {
            if is_empty(&self.at, &self.end) {
                return Progress::End;
            }
            if !self.reading.view.is_same_phase() {
                self.read_below(Wanted::Until(self.end.clone()));
                return Progress::Yielded;
            }
            match cache.next_key(&self.at, &self.end) {
                NextKey::Known(key) if self.reading.view.is_current(key.token) => {
                    self.enter(&key);
                }
                NextKey::Known(key) => self.read_below(Wanted::Only(key)),
                NextKey::NothingKnown { until } => {
                    debug_assert!(!is_empty(&self.at, &until), "goes-on: nothing up to {until:?}");
                    let until = self.end_of_scan(until);
                    debug_assert!(is_empty(&self.end, &until), "in-order: {until:?} is too far");
                    self.read_below(Wanted::Until(until));
                }
                NextKey::End => self.at = self.end.clone(),
            }
            if !matches!(self.state, State::Outside) {
                return Progress::Yielded;
            }
        }
        Progress::Pause
    }

    /// Where a scan below had better end, if nothing is known up to `until`: where the cache
    /// knows what follows, and not only a little of it.
    fn end_of_scan(&self, mut until: RingBound) -> RingBound {
        let cache = &self.reading.view.cache;
        let mut looked = 0;
        'unknown: while looked < LOOK_MAX {
            let mut at = until.clone();
            for _ in 0..STRETCH_MIN {
                match cache.next_key(&at, &self.end) {
                    NextKey::Known(key) => at = just_after(&key),
                    NextKey::NothingKnown { until: next } => {
                        looked += 1;
                        until = next;
                        continue 'unknown;
                    }
                    NextKey::End => return until,
                }
                looked += 1;
            }
            return until;
        }
        until
    }

    /// One step; what it yields is ready then.
    fn step(&mut self) -> Progress {
        match &mut self.state {
            State::Outside => self.next(),
            State::Below(scan) => scan.step(),
            State::Known(walk) => match walk.step((&self.reading, &*self.below), &mut self.ready) {
                Progress::End if !self.reading.slice.forwarding => {
                    self.ready.push_back(Fragment::PartitionEnd);
                    self.state = State::Outside;
                    Progress::Yielded
                }
                Progress::End if !self.ready.is_empty() => Progress::Yielded,
                progress => progress,
            },
        }
    }

    /// The source below that has to be filled, and where to.
    fn below(&mut self) -> Option<(&mut Box<dyn Source>, &mut Vec<Fragment>)> {
        let source = match &mut self.state {
            State::Outside => None,
            State::Known(walk) => walk.below(),
            State::Below(scan) => Some(scan.below()),
        };
        source.map(|source| (source, &mut self.batch))
    }

    /// The source below was filled.
    fn digest(&mut self, filled: Result<(), ReadError>) -> Result<(), ReadError> {
        if filled.is_err() {
            match &mut self.state {
                State::Outside => {}
                State::Known(walk) => walk.discard(),
                State::Below(scan) => scan.discard(),
            }
            self.batch.clear();
            return filled;
        }
        match &mut self.state {
            State::Outside => {}
            State::Known(walk) => walk.digest(&self.reading, &mut self.batch, &mut self.ready),
            State::Below(scan) => {
                if !scan.digest(&self.reading, &mut self.batch, &mut self.ready) {
                    self.end_scan();
                }
            }
        }
        debug_assert!(self.batch.is_empty(), "nothing-lost: what was read below");
        Ok(())
    }

    /// The source of the scan is at its end.
    fn end_scan(&mut self) {
        debug_assert!(matches!(self.state, State::Below(_)), "nothing-lost: no scan ends");
        if let State::Below(scan) = std::mem::replace(&mut self.state, State::Outside)
            && let Some((source, until)) = scan.into_idle()
        {
            debug_assert!(is_empty(&until, &self.at), "in-order: back to {until:?}");
            (self.idle, self.at) = (Some(source), until);
        }
    }

    /// Moves what is ready within the budget; whether it is spent.
    fn yield_ready(&mut self, budget: &mut Budget, out: &mut Vec<Fragment>) -> bool {
        while let Some(fragment) = self.ready.pop_front() {
            debug_assert!(
                self.inside != matches!(fragment, Fragment::PartitionStart { .. })
                    || (self.inside && self.reading.slice.forwarding),
                "in-order: {fragment:?} in a partition or out of it"
            );
            self.inside = !matches!(fragment, Fragment::PartitionEnd);
            let more = budget.spend(&fragment);
            out.push(fragment);
            if !more {
                return true;
            }
        }
        false
    }
}

impl Source for CacheSource {
    fn try_fill(
        &mut self,
        mut budget: Budget,
        out: &mut Vec<Fragment>,
    ) -> Option<Result<(), ReadError>> {
        let (before, asked) = (out.len(), budget);
        while !self.yield_ready(&mut budget, out) {
            let waits = match self.step() {
                Progress::Yielded => continue,
                Progress::End => break,
                Progress::Pause => None,
                Progress::Below => match self.below() {
                    Some((source, batch)) => source.try_fill(asked, batch),
                    None => continue,
                },
            };
            match waits.map(|filled| self.digest(filled)) {
                Some(Ok(())) => {}
                None if before < out.len() => break,
                other => return other,
            }
        }
        Some(Ok(()))
    }

    fn fill<'a>(
        &'a mut self,
        mut budget: Budget,
        out: &'a mut Vec<Fragment>,
    ) -> LocalFuture<'a, Result<(), ReadError>> {
        Box::pin(async move {
            let (before, asked) = (out.len(), budget);
            while !self.yield_ready(&mut budget, out) {
                match self.step() {
                    Progress::Yielded => continue,
                    Progress::End => break,
                    _ if before < out.len() => break,
                    Progress::Pause => runtime::task::yield_if_needed().await,
                    Progress::Below => {
                        let Some((source, batch)) = self.below() else { continue };
                        let filled = source.fill(asked, batch).await;
                        self.digest(filled)?;
                    }
                }
            }
            Ok(())
        })
    }

    fn next_partition(&mut self) {
        if !std::mem::take(&mut self.inside) {
            return;
        }
        while let Some(fragment) = self.ready.pop_front() {
            if let Fragment::PartitionEnd = fragment {
                return;
            }
        }
        match &mut self.state {
            State::Outside => {}
            State::Known(_) => self.state = State::Outside,
            State::Below(scan) => scan.next_partition(&self.reading),
        }
    }

    fn forward_partitions(&mut self, start: &RingBound, end: &RingBound) {
        self.ready.clear();
        (self.state, self.idle, self.inside) = (State::Outside, None, false);
        (self.at, self.end) = (start.clone(), end.clone());
    }

    fn forward_rows(&mut self, asked: ClusteringRange) {
        assert!(self.reading.slice.forwarding, "rows are forwarded of a source not opened so");
        if !self.inside {
            return;
        }
        self.ready.clear();
        let ranges = self.reading.slice.within(&self.reading.order, &asked);
        match &mut self.state {
            State::Outside => {}
            State::Known(walk) => walk.forward(&self.reading, &ranges),
            State::Below(scan) => scan.forward_rows(asked, ranges),
        }
    }

    fn memory_bytes(&self) -> usize {
        let below = match &self.state {
            State::Outside => 0,
            State::Known(walk) => walk.memory_bytes(),
            State::Below(scan) => scan.memory_bytes(),
        };
        below + self.idle.as_ref().map_or(0, |source| source.memory_bytes())
    }
}

/// Where a range begins, in that direction.
fn first(range: &ClusteringRange, direction: Direction) -> &ClusteringPosition {
    match direction {
        Direction::Forward => &range.start,
        Direction::Reversed => &range.end,
    }
}

/// Where a range ends, in that direction.
fn last(range: &ClusteringRange, direction: Direction) -> &ClusteringPosition {
    first(
        range,
        match direction {
            Direction::Forward => Direction::Reversed,
            Direction::Reversed => Direction::Forward,
        },
    )
}

/// The bound just before a partition.
fn just_before(key: &DecoratedKey) -> RingBound {
    RingBound { token: key.token, key: Some(key.key.to_vec()), after: false }
}

/// Whether nothing lies between two bounds.
fn is_empty(start: &RingBound, end: &RingBound) -> bool {
    let place = |bound: &RingBound| match (&bound.key, bound.after) {
        (None, false) => (0, false),
        (Some(_), after) => (1, after),
        (None, true) => (2, true),
    };
    let ((start_kind, start_after), (end_kind, end_after)) = (place(start), place(end));
    let order = start.token.cmp(&end.token).then(start_kind.cmp(&end_kind));
    order.then_with(|| start.key.cmp(&end.key)).then(start_after.cmp(&end_after)).is_ge()
}
