//! What a reader read below the cache goes into it.
//!
//! Invariants
//!  - *complete*: an interval gets in only up to a position before which everything has come.
//!  - *phase*, *behind-the-update*: asked for each time that something gets in.

use super::partition::Head;
use super::run::{Draft, RUN_BYTES};
use super::store::{OBJECT_BYTES_MAX, Store};
use super::{Phase, TabletCache, TabletId};
use model::DecoratedKey;
use mutation::range::RangeAssembler;
use mutation::{
    ClusteringPosition, Direction, Fragment, RangeTombstone, RingBound, Tombstone, TombstoneChange,
};
use std::rc::Rc;
use stdx::Bytes;

/// About what a tombstone change takes in a run.
const CHANGE_BYTES: usize = 48;

/// Gathers what a reader read of one partition, interval by interval. Where it cannot get into the
/// cache it is dropped.
pub(crate) struct Populate {
    tablet: Rc<TabletCache>,
    key: DecoratedKey,
    head: Head,
    opened_at: Phase,
    interval: Option<Interval>,
    draft: Draft,
}

/// What has come of an interval and is not yet in the cache.
struct Interval {
    direction: Direction,
    /// Where it begins, in that direction.
    from: ClusteringPosition,
    /// Of an interval that is read backwards, in that direction; others go into the draft at once.
    rows: Vec<(Bytes, Bytes)>,
    ranges: Vec<RangeTombstone>,
    changes: RangeAssembler,
    bytes: usize,
}

impl Populate {
    pub(super) fn new(
        tablet: Rc<TabletCache>,
        key: DecoratedKey,
        head: Head,
        opened_at: Phase,
    ) -> Populate {
        let spare = tablet.cache.spare_draft.take();
        let draft = spare.unwrap_or_else(|| Draft::new(ClusteringPosition::start()));
        Populate { tablet, key, head, opened_at, interval: None, draft }
    }

    /// What comes next lies in an interval that is read from `start` on. What has come of another
    /// one since [`Populate::reached`] is dropped.
    pub(crate) fn interval(&mut self, start: ClusteringPosition) {
        self.begin(start, Direction::Forward);
    }

    /// What comes next lies in an interval that is read backwards from `end` on.
    pub(crate) fn interval_reversed(&mut self, end: ClusteringPosition) {
        self.begin(end, Direction::Reversed);
    }

    fn begin(&mut self, from: ClusteringPosition, direction: Direction) {
        self.draft.restart(from.clone());
        self.interval = Some(Interval {
            direction,
            from,
            rows: Vec::new(),
            ranges: Vec::new(),
            changes: RangeAssembler::new(direction),
            bytes: 0,
        });
    }

    /// A row or a tombstone change of the interval, in the order of the stream.
    pub(crate) fn fragment(&mut self, fragment: &Fragment) {
        let Some(interval) = &self.interval else { return };
        let is_huge = matches!(fragment, Fragment::Row { row, .. } if OBJECT_BYTES_MAX < row.len());
        if is_huge || RUN_BYTES <= interval.bytes {
            let Some((before, after)) = around(fragment, interval.direction) else { return };
            self.insert(&before);
            if is_huge {
                self.skip(after);
                return;
            }
        }
        let Some(interval) = &mut self.interval else { return };
        debug_assert!(
            fragment.clustering().is_none_or(|position| {
                let place = self.tablet.order().compare(interval.from.as_parts(), position);
                interval.direction.apply(place).is_le()
            }),
            "complete: {fragment:?} before {:?}",
            interval.from
        );
        match fragment {
            Fragment::Row { key, row } => {
                interval.bytes += key.len() + row.len();
                match interval.direction {
                    Direction::Forward => self.draft.row(key, row),
                    Direction::Reversed => interval.rows.push((key.clone(), row.clone())),
                }
            }
            Fragment::RangeTombstoneChange { position, tombstone } => {
                interval.bytes += CHANGE_BYTES + position.prefix.len();
                interval.change(position.clone(), *tombstone);
            }
            _ => {}
        }
    }

    /// A row is too large to be cached: the interval goes on after it.
    fn skip(&mut self, after: ClusteringPosition) {
        let Some(interval) = &mut self.interval else { return };
        let place = interval.from.compare(&self.tablet.order(), &after);
        debug_assert!(interval.direction.apply(place).is_lt(), "complete: goes back to {after:?}");
        interval.change(after.clone(), interval.changes.current());
        interval.ranges.clear();
        self.draft.restart(after.clone());
        interval.from = after;
        self.tablet.cache.count_mispopulation();
    }

    /// All that lies before `end` has come.
    pub(crate) fn reached(&mut self, end: &ClusteringPosition) {
        self.insert(end);
    }

    /// All that lies after `start` has come.
    pub(crate) fn reached_reversed(&mut self, start: &ClusteringPosition) {
        self.insert(start);
    }

    /// What has come gets in, up to a position.
    fn insert(&mut self, to: &ClusteringPosition) {
        if !self.tablet.may_populate(self.opened_at, self.key.token) {
            if self.interval.take().is_some() {
                self.tablet.cache.count_mispopulation();
            }
            return;
        }
        let Some(interval) = &mut self.interval else { return };
        let order = &*self.tablet.order();
        let place = interval.direction.apply(interval.from.compare(order, to));
        if place.is_ge() {
            return;
        }
        debug_assert!(
            interval.direction == Direction::Forward || self.draft.bytes() == 0,
            "complete: a draft of what is read backwards"
        );
        debug_assert!(
            interval.direction == Direction::Reversed || *self.draft.start() == interval.from,
            "complete: a draft from {:?} on",
            self.draft.start()
        );
        interval.change(to.clone(), interval.changes.current());
        let from = std::mem::replace(&mut interval.from, to.clone());
        let end = match interval.direction {
            Direction::Forward => to.clone(),
            Direction::Reversed => {
                self.draft.restart(to.clone());
                let rows = interval.rows.drain(..).rev();
                rows.for_each(|(key, row)| self.draft.row(&key, &row));
                from
            }
        };
        interval.ranges.drain(..).for_each(|range| self.draft.range(order, range));
        interval.bytes = 0;
        debug_assert!(
            interval.rows.is_empty() && interval.ranges.is_empty(),
            "complete: rows stay"
        );
        let key = (self.tablet.id, &self.key);
        let mut store = self.tablet.cache.store.borrow_mut();
        self.draft.finish(order, &end, |start, run| {
            store.add_run(key, &self.head, start, run);
        });
    }
}

impl Drop for Populate {
    fn drop(&mut self) {
        let draft = std::mem::replace(&mut self.draft, Draft::new(ClusteringPosition::start()));
        if draft.capacity() <= 16 * RUN_BYTES {
            self.tablet.cache.spare_draft.set(Some(draft));
        }
    }
}

/// The positions just before a fragment and just after it, in that direction.
fn around(
    fragment: &Fragment,
    direction: Direction,
) -> Option<(ClusteringPosition, ClusteringPosition)> {
    match fragment {
        Fragment::Row { key, .. } => {
            let before = ClusteringPosition::before(key.clone());
            let after = ClusteringPosition::after(key.clone());
            Some(match direction {
                Direction::Forward => (before, after),
                Direction::Reversed => (after, before),
            })
        }
        Fragment::RangeTombstoneChange { position, .. } => {
            Some((position.clone(), position.clone()))
        }
        _ => None,
    }
}

impl Interval {
    fn change(&mut self, position: ClusteringPosition, tombstone: Tombstone) {
        let change = TombstoneChange { position, tombstone };
        self.ranges.extend(self.changes.change(change));
    }
}

impl Store {
    /// The SSTables have nothing of a partition.
    pub(super) fn add_absent(&mut self, id: TabletId, key: &DecoratedKey) {
        let index = &self.tablet(id).index;
        let is_new = index.get(key.token).is_none();
        if !is_new || !matches!(self.lookup(id, key), super::index::Known::Nothing) {
            return;
        }
        let head = Head { tombstone: Tombstone::NONE, static_row: Bytes::new() };
        let order = self.tablet(id).order.clone();
        let mut draft = Draft::new(ClusteringPosition::start());
        draft.finish(&order, &ClusteringPosition::end(), |start, run| {
            self.add_run((id, key), &head, start, run);
        });
    }

    /// The SSTables have no partition strictly between two bounds.
    pub(super) fn set_continuous(&mut self, id: TabletId, from: &RingBound, to: &RingBound) {
        let Store { arena, tablets, .. } = self;
        let tablet = tablets[id.0 as usize].as_mut().expect("a tablet that is open");
        tablet.index.set_continuous(arena, tablet.range, (from, to));
    }

    /// Forgets all of a tablet.
    pub(super) fn invalidate(&mut self, id: TabletId) {
        let tablet = self.tablet_mut(id);
        tablet.phase.0 += 1;
        let index = std::mem::take(&mut tablet.index);
        self.stats.add_removals(index.len());
        self.drop_index(index);
    }
}
