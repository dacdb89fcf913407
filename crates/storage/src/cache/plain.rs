//! Merging a small partition of a memtable into one object of the cache at once: without
//! fragments, and where the object stands if it does not grow.
//!
//! What does not lie so simply goes the way of `update`, fragment by fragment.
//!
//! Invariants
//!  - *nothing-lost*: what a partition becomes has each row of the memtable and of what was known.

use super::TabletId;
use super::index::{Content, ENTRY_BYTES, Entry};
use super::partition::{WHOLE, WholeView, write_whole};
use super::run::{self, Draft, RUN_BYTES, RunView};
use super::store::Store;
use super::update::Update;
use crate::memtable::{Partition, Plain};
use memory::{Age, Handle};
use model::{ClusteringOrder, DecoratedKey, TableSchema, Token};
use mutation::{ClusteringPosition, RowView};
use std::rc::Rc;

/// What the processor fetches of memory at a time.
const LINE_BYTES: usize = 64;

impl Update {
    /// Merges partitions of the memtable, in order, up to one whose fragments have to be merged one
    /// by one; how many. `surely_absent`: see [`Update::fragment`].
    pub(crate) fn plain_few(
        &mut self,
        few: &[(&DecoratedKey, &Rc<Partition>)],
        surely_absent: &dyn Fn(&DecoratedKey) -> bool,
    ) -> usize {
        self.fetch(few);
        let merge = |this: &mut Update, key: &DecoratedKey, partition: &Partition| {
            partition.plain().is_some_and(|plain| this.plain(key, plain, surely_absent))
        };
        debug_assert!(few.is_sorted_by(|a, b| a.0 < b.0), "ring-order");
        let stop = few.iter().position(|(key, partition)| !merge(self, key, partition));
        stop.unwrap_or(few.len())
    }

    /// Looks at all that merging them will read, of all of them at each step of the way: so the
    /// processor waits for many lines of memory at once. Each partition is behind half a dozen
    /// pointers, of which no two are close to each other.
    fn fetch(&self, few: &[(&DecoratedKey, &Rc<Partition>)]) {
        let store = self.tablet.cache.store.borrow();
        let index = &store.tablet(self.tablet.id).index;
        few.iter().for_each(|(key, _)| index.prefetch(key.token));
        let plains: Vec<_> = few.iter().map(|(_, partition)| partition.plain()).collect();
        let mut sum = few.iter().fold(0, |sum, (key, _)| sum ^ at(&key.key, 0));
        for plain in plains.iter().flatten() {
            for (key, row) in (0..plain.row_count()).map(|index| plain.row(index)) {
                sum ^= at(key, 0) ^ at(row, 0) ^ at(row, LINE_BYTES);
            }
        }
        let handles: Vec<_> = few.iter().map(|(key, _)| index.probable(key.token)).collect();
        for (handle, (key, _)) in handles.iter().zip(few) {
            match handle {
                Some(handle) => {
                    let object = store.arena.get(*handle);
                    sum ^= at(object, 0) ^ at(object, LINE_BYTES) ^ at(object, 2 * LINE_BYTES);
                }
                None => sum ^= u8::from(index.gap_at(key.token).is_none()),
            }
        }
        std::hint::black_box(sum);
    }

    /// Merges all of a partition of the memtable; `false`: its fragments have to be merged one by
    /// one.
    fn plain(
        &mut self,
        key: &DecoratedKey,
        partition: Plain<'_>,
        surely_absent: &dyn Fn(&DecoratedKey) -> bool,
    ) -> bool {
        let cache = self.tablet.cache.clone();
        let mut store = cache.store.borrow_mut();
        assert!(self.partition.is_none(), "a partition inside of another one");
        if self.is_overtaken(&store) {
            return true;
        }
        let reached = store.tablet_mut(self.tablet.id).updated_to.replace(key.token);
        debug_assert!(reached <= Some(key.token), "behind-the-update: {key:?} after {reached:?}");
        let index = &store.tablet(self.tablet.id).index;
        if let Some((handle, _)) = index.whole(&store.arena, key) {
            return self.merge_plain(&mut store, handle, key, partition);
        }
        // Of a token that has something else than that partition as one object, see `update`.
        let Some(continuous) = index.gap_at(key.token) else { return false };
        let known = continuous || surely_absent(key);
        !known || self.add_plain(&mut store, key, partition, continuous)
    }

    /// Into what is known of all of it.
    fn merge_plain(
        &mut self,
        store: &mut Store,
        handle: Handle,
        key: &DecoratedKey,
        partition: Plain<'_>,
    ) -> bool {
        let Update { tablet, schema, draft, source: bytes, .. } = self;
        let order = &**tablet.order();
        let whole = WholeView::of(store.arena.get(handle));
        let run = whole.run();
        if whole.key != &*key.key || run.has_tombstones() {
            return false;
        }
        if let Some(tail) = replaced(&run, partition) {
            store.rewrite_tail((tablet.id, key.token), handle, tail, bytes);
            return true;
        }
        draft.restart(ClusteringPosition::start());
        draft_both(draft, &run, partition, (schema, order));
        if !draft.is_one_run() {
            return false;
        }
        let mut merged = Vec::new();
        let static_row = match (whole.static_row, partition.static_row) {
            (old, []) => old,
            ([], new) => new,
            (old, new) => {
                let (old, new) = (RowView::trusted(old), RowView::trusted(new));
                mutation::row::merge(schema, old, new, &mut merged);
                &merged
            }
        };
        let head = (whole.tombstone.merge(partition.tombstone), static_row);
        bytes.clear();
        write_whole(bytes, tablet.id, whole.key, head);
        draft.take_whole(order, bytes);
        debug_assert!(
            run.row_count().max(partition.row_count()) <= WholeView::of(bytes).run().row_count(),
            "nothing-lost: rows of {key:?}"
        );
        store.rewrite((tablet.id, key.token), handle, bytes);
        true
    }

    /// As the first that is known of it. `continuous`: of the index, just after the key.
    fn add_plain(
        &mut self,
        store: &mut Store,
        key: &DecoratedKey,
        partition: Plain<'_>,
        continuous: bool,
    ) -> bool {
        let Update { tablet, draft, source: bytes, .. } = self;
        let head = (partition.tombstone, partition.static_row);
        bytes.clear();
        if let Some((row_key, row)) = only_row(partition) {
            write_whole(bytes, tablet.id, &key.key, head);
            run::write_only_row(bytes, row_key, row);
            store.add_whole((tablet.id, key.token), bytes, 1, continuous);
            return true;
        }
        draft.restart(ClusteringPosition::start());
        for index in 0..partition.row_count() {
            let (key, row) = partition.row(index);
            draft.row(key, row);
        }
        if !draft.is_one_run() {
            return false;
        }
        write_whole(bytes, tablet.id, &key.key, head);
        draft.take_whole(&tablet.order(), bytes);
        store.add_whole((tablet.id, key.token), bytes, partition.row_count(), continuous);
        true
    }
}

/// A byte of what may be shorter.
fn at(bytes: &[u8], index: usize) -> u8 {
    bytes.get(index).copied().unwrap_or(0)
}

/// The only row of a partition, if it is small.
fn only_row(partition: Plain<'_>) -> Option<(&[u8], &[u8])> {
    let only = (partition.row_count() == 1).then(|| partition.row(0));
    only.filter(|(key, row)| key.len() + row.len() <= RUN_BYTES)
}

/// How long the blob of the only row of a run is, and the one of a memtable that takes its place
/// without more ado.
fn replaced<'p>(run: &RunView<'_>, partition: Plain<'p>) -> Option<(usize, &'p [u8])> {
    let (key, new) = only_row(partition)?;
    if run.row_count() != 1 || !partition.tombstone.is_none() || !partition.static_row.is_empty() {
        return None;
    }
    debug_assert!(!run.has_tombstones(), "what range tombstones cover is not replaced");
    let (old_key, old) = run.row(0);
    let replaces = || mutation::row::replaces(RowView::trusted(new), RowView::trusted(old));
    (old_key == key && replaces()).then_some((old.len(), new))
}

/// Drafts the rows of a run and those of a partition of a memtable, in order.
fn draft_both(
    draft: &mut Draft,
    run: &RunView<'_>,
    partition: Plain<'_>,
    (schema, order): (&TableSchema, &ClusteringOrder),
) {
    let mut next = 0;
    for index in 0..partition.row_count() {
        let (key, row) = partition.row(index);
        let place = run.rows_before_from(order, (key, 0), next);
        debug_assert!(next <= place, "in-order: {place} rows after {next}");
        draft.rows_of(run, next..place);
        next = place;
        if place < run.row_count() {
            let (old_key, old) = run.row(place);
            if order.compare_rows(old_key, key).is_eq() {
                let (old, new) = (RowView::trusted(old), RowView::trusted(row));
                draft.row_with(key, |out| mutation::row::merge(schema, old, new, out));
                next += 1;
                continue;
            }
        }
        draft.row(key, row);
    }
    draft.rows_of(run, next..run.row_count());
}

impl Store {
    /// Makes the object of a whole partition those bytes; where there is no room, forgets the
    /// partition.
    fn rewrite(&mut self, (id, token): (TabletId, Token), handle: Handle, bytes: &[u8]) {
        debug_assert_eq!(self.arena.kind(handle), WHOLE, "linked-or-garbage: a whole partition");
        debug_assert!(
            {
                let whole = WholeView::of(bytes);
                whole.tablet == id && Token::of(whole.key) == token && whole.run().is_whole()
            },
            "own-bytes: of another partition than {token:?}"
        );
        let before = self.arena.get(handle).len();
        if bytes.len() <= before {
            if bytes.len() < before {
                self.arena.shrink(handle, bytes.len());
            }
            self.arena.get_mut(handle).copy_from_slice(bytes);
            return;
        }
        let (age, heat) = self.heat_of_object(handle);
        let new = self.allocate(age, WHOLE, bytes.len());
        // Making room for it may have evicted the old one.
        let there = match self.tablet(id).index.get(token) {
            Some(Entry::Whole { handle: there, .. }) => there == handle,
            _ => false,
        };
        match new {
            Some(new) if there => {
                self.arena.get_mut(new).copy_from_slice(bytes);
                (0..heat).for_each(|_| self.arena.touch(new));
                self.tablet_mut(id).index.set_whole(token, new);
                self.arena.free(handle);
            }
            new => {
                if let Some(new) = new {
                    self.arena.free(new);
                }
                self.forget(id, token);
            }
        }
    }

    /// Exchanges the last so many bytes of the object of a whole partition. `scratch` is anything.
    fn rewrite_tail(
        &mut self,
        place: (TabletId, Token),
        handle: Handle,
        (replaced, tail): (usize, &[u8]),
        scratch: &mut Vec<u8>,
    ) {
        debug_assert_eq!(
            WholeView::of(self.arena.get(handle)).run().row_count(),
            1,
            "own-bytes: a tail is the blob of the only row"
        );
        let object = self.arena.get_mut(handle);
        assert!(replaced <= object.len(), "a tail of {replaced} of {}", object.len());
        let kept = object.len() - replaced;
        if replaced == tail.len() {
            return object[kept..].copy_from_slice(tail);
        }
        scratch.clear();
        scratch.extend_from_slice(&object[..kept]);
        scratch.extend_from_slice(tail);
        self.rewrite(place, handle, scratch);
    }

    /// Adds a partition of a token that has none. Without room for it, it is known no more that
    /// there is none. `continuous`: whether it was, just after the token.
    fn add_whole(
        &mut self,
        (id, token): (TabletId, Token),
        bytes: &[u8],
        rows: usize,
        continuous: bool,
    ) {
        let before = self.tablet(id).index.len();
        debug_assert!(self.tablet(id).index.get(token).is_none(), "a token with two entries");
        debug_assert_eq!(WholeView::of(bytes).run().row_count(), rows, "own-bytes: {token:?}");
        let Some(handle) = self.allocate(Age::Probation, WHOLE, bytes.len()) else {
            self.tablet_mut(id).index.break_after(token);
            return;
        };
        self.arena.get_mut(handle).copy_from_slice(bytes);
        self.stats.add_insertions(1, rows);
        self.heap_bytes += ENTRY_BYTES;
        let index = &mut self.tablet_mut(id).index;
        // Flags change as entries go, and making room takes some out.
        match index.len() == before {
            true => index.insert_at(token, Content::Whole(handle), continuous),
            false => index.insert(token, Content::Whole(handle)),
        }
    }
}
