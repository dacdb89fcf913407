//! A sealed memtable is merged into what the cache knows, before its SSTable joins the set.
//!
//! Rows and range tombstones that fall into known intervals are merged with what is there, others
//! are dropped: the SSTable will have them. A partition of which nothing is known is made of the
//! memtable alone if it is known that the SSTables have nothing of it.
//!
//! A run is merged by copying it out, drafting what it becomes, and exchanging it in the list of
//! its partition for what was drafted. While a run is being merged it may be evicted.
//!
//! Invariants
//!  - *behind-the-update*: the position of the update moves to a partition before anything of it
//!    is merged; so nobody populates what was merged.
//!  - *replace-or-forget*: what was drafted replaces the very run that it was made of; if that is
//!    not there any more, all that is known of its interval is forgotten.
//!  - *bounded*: a call copies at most one run in and out, whatever the fragment covers.

use super::index::{Content, Entry, Known};
use super::partition::{Head, Large, PART, PART_HEAD_BYTES, WholeView, read_part};
use super::run::{self, Draft, Parts, RUN_BYTES, RunView, owned};
use super::run_list::{Place, RunList, RunRef};
use super::store::{Fresh, OBJECT_BYTES_MAX, Store, Tablet};
use super::{Phase, TabletCache, TabletId};
use memory::{Age, Handle};
use model::{ClusteringOrder, DecoratedKey, TableSchema, Token};
use mutation::range::later;
use mutation::{ClusteringPosition, ClusteringRange, Fragment, RangeTombstone, RowView, Tombstone};
use std::ops::Range;
use std::rc::Rc;
use stdx::Bytes;

/// How far a call of [`Update::fragment`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum UpdateStep {
    /// The fragment is merged.
    Done,
    /// Call again with the same fragment; meanwhile anything may happen, so this is where a driver
    /// yields.
    Again,
}

/// See the module. Dropping it before it is finished forgets all that the tablet's cache knows.
pub(crate) struct Update {
    pub(super) tablet: Rc<TabletCache>,
    pub(super) schema: Rc<TableSchema>,
    opened_at: Phase,
    pub(super) partition: Option<Partition>,
    /// The run that is being merged, or what becomes of one.
    pub(super) source: Vec<u8>,
    pub(super) draft: Draft,
    finished: bool,
}

/// The partition whose fragments come.
pub(super) struct Partition {
    key: DecoratedKey,
    /// Of a partition that is one object, or is made: what it becomes.
    head: Head,
    is_new: bool,
    /// The tombstone that holds from `open_from` on.
    open: Tombstone,
    /// What lies before it was merged with the tombstone.
    open_from: ClusteringPosition,
    from: Option<From>,
    /// Nothing is known before it.
    gap_until: Option<ClusteringPosition>,
    /// Where the run was that was merged last. A hint.
    near: Option<Place>,
}

/// What is being merged with the memtable.
struct From {
    origin: Origin,
    end: ClusteringPosition,
    /// The first row that is not yet in the draft.
    next_row: usize,
    /// Where the key and the blob of that row lie in the run; noted where the next fragment of the
    /// memtable was reached.
    next: Option<(Range<usize>, Range<usize>)>,
}

/// What a draft is made of.
#[derive(Clone)]
enum Origin {
    /// A partition that is one object.
    Whole(Handle),
    /// A run of a large one.
    Run(Rc<RunRef>),
    /// Nothing: the partition is new.
    Nothing,
}

impl Update {
    pub(super) fn new(tablet: Rc<TabletCache>, schema: Rc<TableSchema>) -> Update {
        let mut store = tablet.cache.store.borrow_mut();
        let own = store.tablet_mut(tablet.id);
        assert!(own.updated_to.is_none(), "two updates of one tablet");
        own.updated_to = Some(Token::MIN);
        let opened_at = own.phase;
        drop(store);
        Update {
            tablet,
            schema,
            opened_at,
            partition: None,
            source: Vec::new(),
            draft: Draft::new(ClusteringPosition::start()),
            finished: false,
        }
    }

    /// Merges a fragment of the memtable; they come in the order of a stream. `surely_absent`
    /// tells whether no SSTable of the set has the partition.
    pub(crate) fn fragment(
        &mut self,
        fragment: &Fragment,
        surely_absent: &dyn Fn(&DecoratedKey) -> bool,
    ) -> UpdateStep {
        let cache = self.tablet.cache.clone();
        let mut store = cache.store.borrow_mut();
        if self.is_overtaken(&store) {
            self.partition = None;
            return UpdateStep::Done;
        }
        match fragment {
            Fragment::PartitionStart { key, tombstone } => {
                self.start(&mut store, key, *tombstone, surely_absent);
            }
            Fragment::StaticRow { row } => self.static_row(&mut store, row),
            Fragment::Row { key, row } => {
                if self.reach(&mut store, (key, 0), true) == UpdateStep::Again {
                    return UpdateStep::Again;
                }
                match row.len() <= OBJECT_BYTES_MAX {
                    true => self.row(key, row),
                    false => self.forget_source(&mut store),
                }
            }
            Fragment::RangeTombstoneChange { position, tombstone } => {
                let opens = !tombstone.is_none();
                if self.reach(&mut store, position.as_parts(), opens) == UpdateStep::Again {
                    return UpdateStep::Again;
                }
                self.change(position, *tombstone);
            }
            Fragment::PartitionEnd => {
                if self.reach(&mut store, (&[], 1), false) == UpdateStep::Again {
                    return UpdateStep::Again;
                }
                self.end(&mut store);
            }
        }
        UpdateStep::Done
    }

    /// All was merged. The caller exchanges the set in the same step.
    pub(crate) fn finish(mut self) {
        assert!(self.partition.is_none(), "an update that ends inside a partition");
        self.finished = true;
        let mut store = self.tablet.cache.store.borrow_mut();
        if self.is_overtaken(&store) {
            // What was populated since lacks what this memtable holds.
            store.invalidate(self.tablet.id);
        }
        let own = store.tablet_mut(self.tablet.id);
        assert!(own.updated_to.is_some(), "behind-the-update: there is no update");
        own.phase.0 += 1;
        own.updated_to = None;
    }

    /// Whether what it has merged so far was invalidated.
    pub(super) fn is_overtaken(&self, store: &Store) -> bool {
        store.tablet(self.tablet.id).phase != self.opened_at
    }

    fn start(
        &mut self,
        store: &mut Store,
        key: &DecoratedKey,
        tombstone: Tombstone,
        surely_absent: &dyn Fn(&DecoratedKey) -> bool,
    ) {
        let id = self.tablet.id;
        debug_assert!(self.partition.is_none(), "a partition within another: {key:?}");
        let reached = store.tablet_mut(id).updated_to.replace(key.token);
        debug_assert!(reached <= Some(key.token), "behind-the-update: {key:?} after {reached:?}");
        let nothing = Head { tombstone: Tombstone::NONE, static_row: Bytes::new() };
        let known = store.lookup(id, key);
        if let Known::Nothing | Known::Absent = known {
            if store.tablet(id).index.get(key.token).is_some() {
                store.collide(id, key.token);
                return;
            }
            if matches!(known, Known::Nothing) && !surely_absent(key) {
                return;
            }
        }
        self.partition = Some(Partition {
            key: key.clone(),
            head: nothing,
            is_new: false,
            open: Tombstone::NONE,
            open_from: ClusteringPosition::start(),
            from: None,
            gap_until: None,
            near: None,
        });
        match known {
            Known::Whole(handle) => {
                let whole = WholeView::of(store.arena.get(handle));
                let (mut head, run_at) = (whole.head(), whole.run_at);
                head.tombstone = head.tombstone.merge(tombstone);
                let run = &store.arena.get(handle)[run_at..];
                self.open(run, Origin::Whole(handle));
                self.with_head(head, false);
            }
            Known::Large(slot) => {
                let head = &mut store.tablet_mut(id).index.large_mut(slot).head;
                head.tombstone = head.tombstone.merge(tombstone);
                let head = head.clone();
                self.with_head(head, false);
            }
            Known::Absent | Known::Nothing => {
                let mut draft = Draft::new(ClusteringPosition::start());
                let mut run = Vec::new();
                draft.finish(&self.tablet.order(), &ClusteringPosition::end(), |_, bytes| {
                    run.extend_from_slice(bytes);
                });
                self.open(&run, Origin::Nothing);
                self.with_head(Head { tombstone, static_row: Bytes::new() }, true);
            }
        }
    }

    fn with_head(&mut self, head: Head, is_new: bool) {
        let partition = self.partition.as_mut().expect("a partition began");
        debug_assert!(partition.open.is_none(), "a head behind range tombstones");
        partition.head = head;
        partition.is_new = is_new;
    }

    /// Begins to merge a run.
    fn open(&mut self, run: &[u8], origin: Origin) {
        self.source.clear();
        self.source.extend_from_slice(run);
        let view = RunView::of(&self.source);
        let start = match &origin {
            Origin::Run(run) => run.start.clone(),
            _ => owned(view.start()),
        };
        self.draft.restart(start);
        view.ranges().for_each(|range| self.draft.range(&self.tablet.order(), range));
        let end = owned(view.end());
        let partition = self.partition.as_mut().expect("a partition began");
        debug_assert!(partition.from.is_none(), "replace-or-forget: two runs are being merged");
        partition.from = Some(From { origin, end, next_row: 0, next: None });
    }

    fn static_row(&mut self, store: &mut Store, row: &Bytes) {
        let Some(partition) = &mut self.partition else { return };
        let old = &partition.head.static_row;
        let mut merged = Vec::new();
        match old.is_empty() {
            true => merged.extend_from_slice(row),
            false => {
                let (old, new) = (RowView::trusted(old), RowView::trusted(row));
                mutation::row::merge(&self.schema, old, new, &mut merged);
            }
        }
        debug_assert!(!merged.is_empty(), "a static row of nothing");
        partition.head.static_row = Bytes::from(merged);
        let token = partition.key.token;
        if let Some(Entry::Large { slot, .. }) = store.tablet(self.tablet.id).index.get(token) {
            let new = partition.head.static_row.clone();
            let head = &mut store.tablet_mut(self.tablet.id).index.large_mut(slot).head;
            let added = new.len();
            let old = std::mem::replace(&mut head.static_row, new);
            debug_assert!(old.len() <= store.heap_bytes + added, "heap-accounted");
            store.heap_bytes = store.heap_bytes + added - old.len();
        }
    }

    /// Merges all that lies before a position; stands in the run that holds it, if `wanted` and
    /// there is one.
    fn reach(&mut self, store: &mut Store, to: Parts<'_>, wanted: bool) -> UpdateStep {
        let Some(partition) = &mut self.partition else { return UpdateStep::Done };
        let order = self.tablet.order().clone();
        if partition.from.is_none() {
            let found = partition.find(store, self.tablet.id, &order, to, wanted);
            let Some(run) = found else { return UpdateStep::Done };
            let Some(bytes) = store.run_of(&run) else { return UpdateStep::Done };
            self.open(bytes, Origin::Run(run.clone()));
        }
        self.merge_up_to(store, to)
    }

    /// Drafts what of the run lies before a position.
    fn merge_up_to(&mut self, store: &mut Store, to: Parts<'_>) -> UpdateStep {
        let Some(partition) = &mut self.partition else { return UpdateStep::Done };
        let Some(from) = &mut partition.from else { return UpdateStep::Done };
        let order = self.tablet.order().clone();
        let view = RunView::of(&self.source);
        let last = view.rows_before_from(&order, to, from.next_row);
        // A row that does not lie before the position tells that the end does not either.
        let is_behind = last == view.row_count() && order.compare(from.end.as_parts(), to).is_le();
        debug_assert!(from.next_row <= last, "in-order: {last} rows after {}", from.next_row);
        self.draft.rows_of(&view, from.next_row..last);
        from.next_row = last;
        from.next = view.bytes_of(last);
        if is_behind {
            let end = from.end.clone();
            self.cut(store, &end);
            return UpdateStep::Again;
        }
        if 2 * RUN_BYTES <= self.draft.bytes() {
            let cut = match to.1 {
                0 => ClusteringPosition::before(Bytes::copy_from(to.0)),
                _ => owned(to),
            };
            if self.draft.start().compare(&order, &cut).is_lt() {
                self.cut(store, &cut);
                return UpdateStep::Again;
            }
        }
        UpdateStep::Done
    }

    /// What was drafted takes its place, up to a position. What is left of the run after it becomes
    /// a run of its own.
    fn cut(&mut self, store: &mut Store, to: &ClusteringPosition) {
        let Some(partition) = &mut self.partition else { return };
        let from = partition.from.take().expect("a run is being merged");
        let order = self.tablet.order().clone();
        let start = self.draft.start().clone();
        debug_assert!(start.compare(&order, to).is_le(), "in-order: a cut at {to:?}");
        debug_assert!(start.compare(&order, &from.end).is_le(), "in-order: a cut at {to:?}");
        let interval = ClusteringRange { start, end: from.end.clone() };
        partition.close_up_to(&order, to, &mut self.draft);
        let place = (self.tablet.id, &partition.key);
        if !store.is_there(place, &from.origin, partition.near) {
            store.forget_interval(place, &interval);
            return;
        }
        let is_last = from.end.compare(&order, to).is_le();
        if is_last && self.draft.is_one_run() && store.is_alone(place, &from.origin, partition.near)
        {
            let Origin::Run(run) = &from.origin else { return };
            let mut exchanged = false;
            self.draft.finish(&order, to, |_, bytes| exchanged = store.exchange_run(run, bytes));
            if !exchanged {
                store.forget_interval(place, &interval);
            }
            return;
        }
        let heat = store.heat_of_origin(&from.origin);
        let mut fresh = Fresh::default();
        self.draft.finish(&order, to, |start, run| {
            store.make_fresh(place, &partition.head, (start, run), heat, &mut fresh);
        });
        if !is_last && !matches!(from.origin, Origin::Nothing) {
            let left = ClusteringRange { start: to.clone(), end: from.end.clone() };
            run::clip(&order, &RunView::of(&self.source), &left, |start, run| {
                store.make_fresh(place, &partition.head, (start, run), heat, &mut fresh);
            });
        }
        store.replace(place, &partition.head, &from.origin, &interval, fresh);
        if !is_last && matches!(from.origin, Origin::Nothing) {
            partition.from = Some(from);
        }
    }

    /// A row is too large to be cached: what is being merged is forgotten.
    fn forget_source(&mut self, store: &mut Store) {
        let Some(partition) = &mut self.partition else { return };
        let Some(from) = partition.from.take() else { return };
        let interval = ClusteringRange { start: self.draft.start().clone(), end: from.end };
        store.forget_interval((self.tablet.id, &partition.key), &interval);
        partition.open_from = interval.end;
    }

    fn row(&mut self, key: &Bytes, row: &Bytes) {
        let Some(partition) = &mut self.partition else { return };
        let Some(from) = &mut partition.from else { return };
        debug_assert!(
            self.tablet.order().compare((key, 0), from.end.as_parts()).is_lt(),
            "in-order: {key:?} is behind the run"
        );
        if let Some((old_key, old)) = from.next.take() {
            let (old_key, old) = (&self.source[old_key], &self.source[old]);
            if old_key == &**key || self.tablet.order().compare_rows(old_key, key).is_eq() {
                let (old, new) = (RowView::trusted(old), RowView::trusted(row));
                let schema = &self.schema;
                self.draft.row_with(key, |out| mutation::row::merge(schema, old, new, out));
                from.next_row += 1;
                return;
            }
        }
        self.draft.row(key, row);
    }

    fn change(&mut self, position: &ClusteringPosition, tombstone: Tombstone) {
        let Some(partition) = &mut self.partition else { return };
        if partition.from.is_some() {
            partition.close_up_to(&self.tablet.order(), position, &mut self.draft);
        }
        partition.open = tombstone;
        partition.open_from = position.clone();
        partition.gap_until = None;
    }

    fn end(&mut self, store: &mut Store) {
        let Some(partition) = self.partition.take() else { return };
        assert!(partition.from.is_none(), "a run that reaches beyond its partition");
        let (id, token) = (self.tablet.id, partition.key.token);
        if partition.is_new && store.tablet(id).index.get(token).is_none() {
            // It exists from now on, and is not cached.
            store.tablet_mut(id).index.break_after(token);
        }
    }
}

impl Drop for Update {
    fn drop(&mut self) {
        if !self.finished {
            let mut store = self.tablet.cache.store.borrow_mut();
            store.invalidate(self.tablet.id);
            store.tablet_mut(self.tablet.id).updated_to = None;
        }
    }
}

impl Partition {
    /// The run that has to be merged next to reach a position; notes where there is none.
    fn find(
        &mut self,
        store: &Store,
        id: TabletId,
        order: &ClusteringOrder,
        to: Parts<'_>,
        wanted: bool,
    ) -> Option<Rc<RunRef>> {
        if self.open.is_none() {
            let until = self.gap_until.as_ref();
            let in_gap = until.is_some_and(|until| order.compare(to, until.as_parts()).is_lt());
            if !wanted || in_gap {
                return None;
            }
        }
        let from = if self.open.is_none() { to } else { self.open_from.as_parts() };
        let place = order.compare(from, to);
        if place.is_gt() || (place.is_eq() && !wanted) {
            return None;
        }
        let Some((place, run)) = self.next_run(store, id, order, from) else {
            self.gap_until = Some(ClusteringPosition::end());
            return None;
        };
        self.near = Some(place);
        let place = order.compare(run.start.as_parts(), to);
        if place.is_lt() || (place.is_eq() && wanted) {
            return Some(run);
        }
        self.gap_until = Some(run.start.clone());
        None
    }

    /// The first run that ends after a position.
    fn next_run(
        &self,
        store: &Store,
        id: TabletId,
        order: &ClusteringOrder,
        from: Parts<'_>,
    ) -> Option<(Place, Rc<RunRef>)> {
        let index = &store.tablet(id).index;
        let Some(Entry::Large { slot, .. }) = index.get(self.key.token) else { return None };
        let runs = &index.large(slot).runs;
        let floor = runs.floor_near(order, from, self.near);
        let mut place = floor.or_else(|| runs.after(None));
        while let Some(at) = place {
            let run = runs.at(at);
            if let Some(bytes) = store.run_of(run) {
                let end = RunView::of(bytes).end();
                if order.compare(from, end).is_lt() {
                    return Some((at, run.clone()));
                }
            }
            place = runs.after(Some(at));
        }
        None
    }

    /// Merges the open tombstone with what is drafted, up to a position.
    fn close_up_to(&mut self, order: &ClusteringOrder, to: &ClusteringPosition, draft: &mut Draft) {
        if !self.open.is_none() {
            let start = later(order, &self.open_from, draft.start()).clone();
            let range = ClusteringRange { start, end: to.clone() };
            draft.range(order, RangeTombstone { range, tombstone: self.open });
            self.open_from = to.clone();
        }
    }
}

impl Store {
    fn heat_of_origin(&self, origin: &Origin) -> (Age, u8) {
        match origin {
            Origin::Whole(handle) => self.heat_of_object(*handle),
            Origin::Run(run) => self.heat_of(run),
            Origin::Nothing => (Age::Probation, 0),
        }
    }

    /// Whether what is being merged is still what is known. `near`: see [`Partition`].
    fn is_there(
        &self,
        (id, key): (TabletId, &DecoratedKey),
        origin: &Origin,
        near: Option<Place>,
    ) -> bool {
        let tablet = self.tablet(id);
        match (tablet.index.get(key.token), origin) {
            (_, Origin::Nothing) => true,
            (Some(Entry::Whole { handle, .. }), Origin::Whole(own)) => handle == *own,
            (Some(Entry::Large { slot, .. }), Origin::Run(run)) => {
                let runs = &tablet.index.large(slot).runs;
                let is_named = || runs.place_of(&tablet.order, run, near).is_some();
                run.handle.get().is_some() && is_named()
            }
            _ => false,
        }
    }

    /// Whether what is being merged is a run that nobody else reads or names (*lives-by-name*).
    fn is_alone(
        &self,
        (id, key): (TabletId, &DecoratedKey),
        origin: &Origin,
        near: Option<Place>,
    ) -> bool {
        let Origin::Run(run) = origin else { return false };
        let Tablet { index, order, .. } = self.tablet(id);
        let Some(Entry::Large { slot, .. }) = index.get(key.token) else { return false };
        let runs = &index.large(slot).runs;
        let place = runs.place_of(order, run, near);
        let is_named_alone = place.is_some_and(|place| runs.names_alone(place));
        // The list's name, and the one that whoever merges has.
        is_named_alone && Rc::strong_count(runs) == 1 && Rc::strong_count(run) == 2
    }

    /// Makes those bytes the object of a run, which are of the same interval; `false`: there is no
    /// room, or making it has evicted the run.
    fn exchange_run(&mut self, name: &RunRef, bytes: &[u8]) -> bool {
        debug_assert!(RunView::of(bytes).start() == name.start.as_parts(), "another interval");
        let Some(old) = name.handle.get() else { return false };
        debug_assert!(
            RunView::of(bytes).end() == RunView::of(read_part(self.arena.get(old)).1).end(),
            "lives-by-name: another interval"
        );
        let (len, before) = (PART_HEAD_BYTES + bytes.len(), self.arena.get(old).len());
        let mut handle = old;
        if len < before {
            self.arena.shrink(old, len);
        } else if before < len {
            let (age, heat) = self.heat_of_object(old);
            let Some(new) = self.allocate(age, PART, len) else { return false };
            if name.handle.get() != Some(old) {
                self.arena.free(new);
                return false;
            }
            name.handle.set(Some(new));
            (0..heat).for_each(|_| self.arena.touch(new));
            self.arena.free(old);
            handle = new;
        }
        let object = self.arena.get_mut(handle);
        object[..PART_HEAD_BYTES].copy_from_slice(&name.slot.to_be_bytes());
        object[PART_HEAD_BYTES..].copy_from_slice(bytes);
        true
    }

    /// Makes a run, or the object of a partition of which it is all.
    fn make_fresh(
        &mut self,
        place: (TabletId, &DecoratedKey),
        head: &Head,
        (start, run): (&ClusteringPosition, &[u8]),
        heat: (Age, u8),
        fresh: &mut Fresh,
    ) {
        match RunView::of(run).is_whole() {
            true => fresh.whole = self.make_whole(place, head, run, heat),
            false => {
                let owner = (place.0, place.1.token);
                fresh.runs.extend(self.make_part(owner, start, run, heat));
            }
        }
    }

    /// *replace-or-forget*: `interval` is what `origin` is known of.
    fn replace(
        &mut self,
        (id, key): (TabletId, &DecoratedKey),
        head: &Head,
        origin: &Origin,
        interval: &ClusteringRange,
        fresh: Fresh,
    ) {
        let Fresh { whole, runs } = fresh;
        debug_assert!(whole.is_none() || runs.is_empty(), "replace-or-forget: whole, and in runs");
        if !self.is_there((id, key), origin, None) {
            if let Some(handle) = whole {
                self.arena.free(handle);
            }
            self.forget_interval((id, key), interval);
            return;
        }
        let is_new = matches!(origin, Origin::Nothing);
        if let Some(handle) = whole {
            match is_new {
                true => {
                    let rows = WholeView::of(self.arena.get(handle)).run().row_count();
                    self.stats.add_insertions(1, rows);
                    self.insert(id, key.token, Content::Whole(handle));
                }
                false => self.exchange(id, key.token, Content::Whole(handle)),
            }
            return;
        }
        if is_new {
            runs.into_iter().for_each(|run| self.link_part((id, key), head, Some(run)));
            return;
        }
        let order = self.tablet(id).order.clone();
        let runs = runs.into_iter().filter(|run| run.handle.get().is_some());
        match origin {
            Origin::Run(old) => {
                let list = self.list_mut(id, key.token).expect("it is there");
                let removed = list.remove(&order, old);
                assert!(removed, "replace-or-forget: another run at {:?}", old.start);
                runs.for_each(|run| list.insert(&order, run));
            }
            _ => {
                let mut list = RunList::default();
                runs.for_each(|run| list.insert(&order, run));
                let (key_bytes, head) = (key.key.clone(), head.clone());
                let large = Large { key: key_bytes, head, runs: Rc::new(list) };
                self.exchange(id, key.token, Content::Large(Box::new(large)));
            }
        }
        debug_assert!(self.is_apart(id, key.token), "apart: runs of {key:?}");
        self.forget_if_empty(id, key.token);
    }

    /// Nothing is known of an interval of a partition any more.
    fn forget_interval(
        &mut self,
        (id, key): (TabletId, &DecoratedKey),
        interval: &ClusteringRange,
    ) {
        let order = self.tablet(id).order.clone();
        if self.list_mut(id, key.token).is_none() {
            self.forget(id, key.token);
            return;
        }
        while let Some(run) = self.overlapping(id, key.token, interval) {
            let list = self.list_mut(id, key.token).expect("a run of it was found");
            let removed = list.remove(&order, &run);
            assert!(removed, "replace-or-forget: a run stays at {:?}", run.start);
        }
        self.forget_if_empty(id, key.token);
    }

    /// A run that holds a part of an interval.
    fn overlapping(
        &self,
        id: TabletId,
        token: Token,
        interval: &ClusteringRange,
    ) -> Option<Rc<RunRef>> {
        let Tablet { index, order, .. } = self.tablet(id);
        let Some(Entry::Large { slot, .. }) = index.get(token) else { return None };
        let runs = &index.large(slot).runs;
        let run = runs.at(runs.lower(order, interval.end.as_parts())?);
        debug_assert!(run.handle.get().is_some(), "lives-by-name: a list names what is evicted");
        let end = RunView::of(self.run_of(run)?).end();
        order.compare(interval.start.as_parts(), end).is_lt().then(|| run.clone())
    }

    pub(super) fn list_mut(&mut self, id: TabletId, token: Token) -> Option<&mut RunList> {
        let index = &mut self.tablet_mut(id).index;
        match index.get(token) {
            Some(Entry::Large { slot, .. }) => Some(Rc::make_mut(&mut index.large_mut(slot).runs)),
            _ => None,
        }
    }

    fn forget_if_empty(&mut self, id: TabletId, token: Token) {
        if self.list_mut(id, token).is_some_and(|list| list.is_empty()) {
            self.forget(id, token);
        }
    }
}
