//! Reading a memtable as a stream.
//!
//! Between two fills the memtable may change. Of the partition that it is in the source holds what
//! was there when it came to it (*snapshots*): of one partition, when the source was made. Of the
//! others it keeps where it stands: partitions that are written behind that place are not seen,
//! those ahead of it are.
//!
//! Invariants
//!  - *ring-order*: partitions come in ring order, each once.
//!  - *positions-grow*: in a partition each fragment lies beyond the one before it, in the
//!    direction of the stream.
//!  - *in-ranges*: what comes lies in the ranges that were asked for, and no range tombstone stays
//!    open behind them.
//!  - *goes-on*: each fill yields something, unless all has come that was asked for.

use super::assembly::Assembly;
use super::fetch::Upcoming;
use super::{Memtable, Partition};
use model::{DecoratedKey, Token};
use mutation::{
    ClusteringPosition, ClusteringRange, Direction, Fragment, RingBound, Tombstone, TombstoneChange,
};
use reader::{Budget, LocalFuture, ReadError, Slice, Source};
use runtime::task::yield_if_needed;
use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::rc::Rc;
use stdx::Bytes;

/// Parts of a row, of some KiB each, that are put together between two looks at the clock.
const PARTS_PER_STEP: usize = 32;

/// Which partitions a source yields.
#[derive(Clone, Debug)]
pub enum KeyRange {
    /// One partition.
    One(DecoratedKey),
    /// Those between two bounds.
    Between(RingBound, RingBound),
}

/// A stream of a memtable's fragments.
pub struct MemtableSource {
    // What it holds of a partition goes before the memtable does: so the memtable is the last to
    // hold its nodes, and frees them gently.
    at: At,
    memtable: Rc<Memtable>,
    keys: (RingBound, RingBound),
    /// With the ranges at hand: of a forwarding source those that were asked for last.
    slice: Slice,
    /// All ranges of a forwarding source.
    whole: Vec<ClusteringRange>,
    /// What comes next is this row, once it is put together.
    huge: Option<Huge>,
    upcoming: Upcoming,
}

/// A row that is put together in steps; `key`: none if it is the static row.
struct Huge {
    key: Option<Bytes>,
    row: Assembly,
}

/// Where the stream stands.
enum At {
    /// Before the first partition.
    Start,
    /// Before the only partition.
    Found(DecoratedKey, Rc<Partition>),
    /// Inside a partition: before its static row if that is due; in the range of that index (in
    /// the direction of the stream), beyond `beyond` if it is set, with the tombstone `open`.
    Inside {
        key: DecoratedKey,
        partition: Rc<Partition>,
        static_due: bool,
        range: usize,
        beyond: Option<ClusteringPosition>,
        open: Tombstone,
    },
    /// After that partition.
    After(DecoratedKey),
    End,
}

/// Appends within a budget.
struct Output<'a> {
    out: &'a mut Vec<Fragment>,
    fragments_left: usize,
    bytes_left: usize,
}

impl Output<'_> {
    fn push(&mut self, fragment: Fragment) {
        self.fragments_left = self.fragments_left.saturating_sub(1);
        self.bytes_left = self.bytes_left.saturating_sub(fragment.size_bytes());
        self.out.push(fragment);
    }
    fn is_full(&self) -> bool {
        self.fragments_left == 0 || self.bytes_left == 0
    }
    fn go_on(&self) -> ControlFlow<()> {
        if self.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl MemtableSource {
    /// The partitions `keys` of `memtable`, in each what `slice` says.
    pub fn new(memtable: Rc<Memtable>, keys: KeyRange, mut slice: Slice) -> MemtableSource {
        debug_assert!(
            slice.ranges.is_sorted_by(|a, b| a.end.compare(&memtable.order, &b.start).is_le()),
            "positions-grow: {:?}",
            slice.ranges
        );
        let whole = match slice.forwarding {
            true => std::mem::take(&mut slice.ranges),
            false => Vec::new(),
        };
        let (keys, at) = match keys {
            KeyRange::Between(start, end) => ((start, end), At::Start),
            KeyRange::One(key) => {
                let nowhere = RingBound { token: Token::MIN, key: None, after: false };
                let found = memtable.snapshot(&key);
                ((nowhere.clone(), nowhere), found.map_or(At::End, |one| At::Found(key, one)))
            }
        };
        MemtableSource {
            at,
            memtable,
            keys,
            slice,
            whole,
            huge: None,
            upcoming: Upcoming::default(),
        }
    }

    /// Appends at least one fragment, unless at the end, or before a row that takes long.
    fn advance(&mut self, output: &mut Output<'_>) {
        while !output.is_full() {
            match std::mem::replace(&mut self.at, At::End) {
                At::End => return,
                At::Found(key, partition) => self.enter(key, partition, output),
                inside @ At::Inside { .. } => {
                    self.at = inside;
                    if self.inside(output).is_break() {
                        return;
                    }
                }
                At::Start => self.enter_next(None, output),
                At::After(key) => self.enter_next(Some(&key), output),
            }
        }
    }

    /// Goes to the first partition, or to the one after `left`.
    fn enter_next(&mut self, left: Option<&DecoratedKey>, output: &mut Output<'_>) {
        let memtable = self.memtable.clone();
        let partitions = memtable.partitions.borrow();
        let (start, end) = &self.keys;
        let left = left.filter(|key| !before(key, start));
        let mut last = left.cloned();
        loop {
            let next = self.upcoming.next(&partitions, last.as_ref(), start.token);
            let Some((key, partition)) = next.map(|number| partitions.at(number)) else { return };
            debug_assert!(last.as_ref().is_none_or(|last| last < key), "ring-order: {key:?}");
            if before(key, start) {
                last = Some(key.clone());
            } else if before(key, end) {
                return self.enter(key.clone(), partition.clone(), output);
            } else {
                return;
            }
        }
    }

    fn enter(&mut self, key: DecoratedKey, partition: Rc<Partition>, output: &mut Output<'_>) {
        let tombstone = partition.tombstone;
        debug_assert!(self.huge.is_none(), "snapshots: a row of the partition before {key:?}");
        output.push(Fragment::PartitionStart { key: key.clone(), tombstone });
        let static_due = self.slice.with_static;
        if self.slice.forwarding {
            self.slice.ranges.clear();
        }
        let (range, beyond, open) = (0, None, Tombstone::NONE);
        self.at = At::Inside { key, partition, static_due, range, beyond, open };
    }

    /// Goes on in the partition at hand, up to its end or until the output is full or nothing
    /// more is asked for.
    fn inside(&mut self, output: &mut Output<'_>) -> ControlFlow<()> {
        let At::Inside { key, partition, static_due, range, beyond, open } = &mut self.at else {
            return ControlFlow::Continue(());
        };
        if std::mem::take(static_due)
            && let Some(row) = &partition.static_row
        {
            if let Some(row) = row.slowly() {
                self.huge = Some(Huge { key: None, row });
                return ControlFlow::Break(());
            }
            output.push(Fragment::StaticRow { row: row.bytes() });
            output.go_on()?;
        }
        let direction = Direction::of(self.slice.reversed);
        let count = self.slice.ranges.len();
        debug_assert!(*range <= count, "in-ranges: {range} of {count}");
        while *range < count {
            let index = match direction {
                Direction::Forward => *range,
                Direction::Reversed => count - 1 - *range,
            };
            let left = rest(&self.slice.ranges[index], beyond.as_ref(), direction);
            let order = &self.memtable.order;
            let huge = &mut self.huge;
            let mut walk = Walk { order, direction, output, beyond, open, huge };
            walk.range(partition, &left)?;
            *range += 1;
            *beyond = None;
            output.go_on()?;
        }
        debug_assert!(open.is_none(), "in-ranges: {open:?} is open after {key:?}");
        if self.slice.forwarding {
            return ControlFlow::Break(());
        }
        output.push(Fragment::PartitionEnd);
        self.at = At::After(key.clone());
        ControlFlow::Continue(())
    }
}

impl MemtableSource {
    /// Yields the row that is put together in steps, and lets other tasks go on between them.
    async fn assemble(&mut self, out: &mut Vec<Fragment>) -> Result<(), ReadError> {
        let Some(huge) = &mut self.huge else { return Ok(()) };
        assert!(matches!(self.at, At::Inside { .. }), "a row is of a partition");
        let row = loop {
            match huge.row.step(PARTS_PER_STEP) {
                Some(row) => break row,
                None => yield_if_needed().await,
            }
        };
        let key = huge.key.take();
        self.huge = None;
        out.push(match &key {
            None => Fragment::StaticRow { row },
            Some(key) => Fragment::Row { key: key.clone(), row },
        });
        if let (Some(key), At::Inside { beyond, .. }) = (key, &mut self.at) {
            *beyond = Some(behind(key, Direction::of(self.slice.reversed)));
        }
        Ok(())
    }
}

/// One pass over what is left of a range.
struct Walk<'w, 'o> {
    order: &'w Rc<model::ClusteringOrder>,
    direction: Direction,
    output: &'w mut Output<'o>,
    beyond: &'w mut Option<ClusteringPosition>,
    open: &'w mut Tombstone,
    huge: &'w mut Option<Huge>,
}

impl Walk<'_, '_> {
    fn range(&mut self, partition: &Partition, left: &ClusteringRange) -> ControlFlow<()> {
        let (order, direction) = (self.order, self.direction);
        let list = partition.ranges.as_deref();
        let mut changes =
            list.into_iter().flat_map(|list| list.each_change(order, left, direction)).peekable();
        let first = match direction {
            Direction::Forward => &left.start,
            Direction::Reversed => &left.end,
        };
        let opens = changes.next_if(|change| change.position.compare(order, first).is_eq());
        let at_first = opens.map_or(Tombstone::NONE, |change| change.tombstone);
        if at_first != *self.open {
            self.change(TombstoneChange { position: first.clone(), tombstone: at_first })?;
        }
        let bounds = (left.start.as_parts(), left.end.as_parts());
        partition.rows.visit(order, bounds, direction, |key, row| {
            let before = |change: &TombstoneChange| {
                let place = order.compare(change.position.as_parts(), (key, 0));
                direction.apply(place).is_lt()
            };
            if self.output.is_full() {
                let change = changes.peek().filter(|change| before(change));
                self.ends(change.map_or((key, 0), |change| change.position.as_parts()))?;
            }
            while let Some(change) = changes.next_if(before) {
                self.change(change)?;
            }
            debug_assert!(
                self.has_left(|last| order.compare(last, (key, 0)), Ordering::is_lt),
                "positions-grow: {key:?} is not beyond {:?}",
                self.beyond
            );
            debug_assert!(left.contains(order, (key, 0)), "in-ranges: {key:?} of {left:?}");
            if let Some(row) = row.slowly() {
                debug_assert!(partition.is_huge, "small-steps: nobody knows of {key:?}");
                *self.huge = Some(Huge { key: Some(key.clone()), row });
                return ControlFlow::Break(());
            }
            self.output.push(Fragment::Row { key: key.clone(), row: row.bytes() });
            *self.beyond = Some(behind(key.clone(), direction));
            ControlFlow::Continue(())
        })?;
        changes.try_for_each(|change| {
            if self.output.is_full() {
                self.ends(change.position.as_parts())?;
            }
            self.change(change)
        })
    }

    /// Breaks before what comes at a place, unless that lies before `beyond`, from where the stream
    /// goes on. Of a COMPACT STORAGE table a row may have fewer components than there are columns,
    /// and what has more of them follows it: before the place behind all that begins alike.
    fn ends(&self, place: (&[u8], i8)) -> ControlFlow<()> {
        let is_left = |beyond: &ClusteringPosition| {
            self.direction.apply(self.order.compare(beyond.as_parts(), place)).is_le()
        };
        match self.beyond.as_ref().is_none_or(is_left) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// Whether the last that was yielded, a row of few components itself, is before a place, to
    /// which `compare` compares it.
    fn has_left(
        &self,
        compare: impl Fn((&[u8], i8)) -> Ordering,
        is_before: impl Fn(Ordering) -> bool,
    ) -> bool {
        self.beyond.as_ref().is_none_or(|beyond| {
            let (prefix, weight) = beyond.as_parts();
            // What is of a row may be of a change there, which comes no later.
            let row = if self.direction == Direction::Forward { weight.min(0) } else { weight };
            is_before(self.direction.apply(compare((prefix, row))))
        })
    }

    fn change(&mut self, change: TombstoneChange) -> ControlFlow<()> {
        let place = change.position.as_parts();
        debug_assert!(
            self.has_left(|last| self.order.compare(last, place), Ordering::is_le),
            "positions-grow: {change:?} is not beyond {:?}",
            self.beyond
        );
        *self.open = change.tombstone;
        *self.beyond = Some(change.position.clone());
        self.output.push(change.into());
        self.output.go_on()
    }
}

/// Just behind a row, in that direction.
fn behind(key: Bytes, direction: Direction) -> ClusteringPosition {
    match direction {
        Direction::Forward => ClusteringPosition::after(key),
        Direction::Reversed => ClusteringPosition::before(key),
    }
}

/// What of `range` lies beyond a position, in that direction.
fn rest(
    range: &ClusteringRange,
    beyond: Option<&ClusteringPosition>,
    direction: Direction,
) -> ClusteringRange {
    let mut left = range.clone();
    if let Some(beyond) = beyond {
        match direction {
            Direction::Forward => left.start = beyond.clone(),
            Direction::Reversed => left.end = beyond.clone(),
        }
    }
    left
}

fn before(key: &DecoratedKey, bound: &RingBound) -> bool {
    bound.place(key.token, &key.key).is_lt()
}

impl Source for MemtableSource {
    fn try_fill(
        &mut self,
        budget: Budget,
        out: &mut Vec<Fragment>,
    ) -> Option<Result<(), ReadError>> {
        if self.huge.is_some() {
            return None;
        }
        debug_assert!(
            self.slice.forwarding || self.whole.is_empty(),
            "in-ranges: those of a source that is not forwarded"
        );
        let before = out.len();
        let fragments_left = budget.fragments_max.max(1);
        let bytes_left = budget.bytes_max.max(1);
        self.advance(&mut Output { out, fragments_left, bytes_left });
        let waits = self.huge.is_some() && out.len() == before;
        debug_assert!(
            waits
                || before < out.len()
                || matches!(self.at, At::End)
                || (self.slice.forwarding && matches!(self.at, At::Inside { .. })),
            "goes-on: nothing comes, and it is not at an end"
        );
        (!waits).then_some(Ok(()))
    }

    fn fill<'a>(
        &'a mut self,
        budget: Budget,
        out: &'a mut Vec<Fragment>,
    ) -> LocalFuture<'a, Result<(), ReadError>> {
        match self.try_fill(budget, out) {
            Some(done) => Box::pin(std::future::ready(done)),
            None => Box::pin(self.assemble(out)),
        }
    }

    fn next_partition(&mut self) {
        self.huge = None;
        if let At::Inside { key, .. } = &self.at {
            self.at = At::After(key.clone());
        }
    }

    fn forward_partitions(&mut self, start: &RingBound, end: &RingBound) {
        self.next_partition();
        if let At::End | At::Found(..) = self.at {
            self.at = At::Start;
        }
        self.keys = (start.clone(), end.clone());
        self.upcoming.clear();
    }

    fn forward_rows(&mut self, asked: ClusteringRange) {
        assert!(self.slice.forwarding, "rows are forwarded of a source that was not opened so");
        self.huge = None;
        if let At::Inside { range, beyond, open, static_due, .. } = &mut self.at {
            let order = &self.memtable.order;
            let parts = self.whole.iter().filter_map(|own| own.intersect(order, &asked));
            self.slice.ranges.clear();
            self.slice.ranges.extend(parts);
            (*static_due, *range, *beyond, *open) = (false, 0, None, Tombstone::NONE);
        }
    }
}
