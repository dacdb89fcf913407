//! A replica that derives: what it has of the base table and of the views.

use super::world::World;
use super::writes::Write;
use crate::{Buffers, Derived, Deriver, Need, need};
use model::key::{clustering_components, split_partition_key};
use model::schema::Origins;
use model::{DecoratedKey, TableSchema};
use mutation::frozen;
use mutation::{
    ClusteringRange, Direction, Fragment, FrozenMutation, FrozenView, PartitionSink,
    RangeTombstoneList,
};
use smallvec::smallvec;
use std::collections::BTreeMap;
use stdx::{Bytes, Prng};

/// A mistake that is made on purpose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Plant {
    None,
    /// What was there is read before the last write is applied.
    StaleBefore,
    /// A mutation of a view is lost now and then.
    LostUpdate,
    /// Rows that a deletion of a range may cover are not read.
    RangesUnread,
    /// Deletions of ranges and partitions are not read.
    DeletionsUnread,
    /// A write that has lost already derives nothing.
    LateForgotten,
}

type Views = BTreeMap<(usize, Vec<u8>), FrozenMutation>;

pub(super) struct Replica {
    plant: Plant,
    base: BTreeMap<Vec<u8>, FrozenMutation>,
    /// The same without the last write.
    stale: BTreeMap<Vec<u8>, FrozenMutation>,
    views: Views,
    /// Of the write before.
    buffers: Buffers,
}

fn merge(
    schema: &TableSchema,
    into: Option<&FrozenMutation>,
    new: &FrozenMutation,
) -> FrozenMutation {
    match into {
        Some(old) => frozen::merge(schema, view_of(old), view_of(new)),
        None => new.clone(),
    }
}

fn view_of(mutation: &FrozenMutation) -> FrozenView<'_> {
    mutation.view().expect("a sound mutation")
}

impl Replica {
    pub(super) fn new(plant: Plant) -> Replica {
        let (base, stale, views, buffers) = Default::default();
        Replica { plant, base, stale, views, buffers }
    }

    /// What these have of views, together.
    pub(super) fn views(world: &World, replicas: &[&Replica]) -> Views {
        let mut all = Views::new();
        for (key, mutation) in replicas.iter().flat_map(|replica| &replica.views) {
            let merged = merge(&world.views[key.0], all.get(key), mutation);
            all.insert(key.clone(), merged);
        }
        all
    }

    /// The partitions of the base table as they are now.
    pub(super) fn partitions(&self) -> Vec<FrozenMutation> {
        self.base.values().cloned().collect()
    }

    /// Writes, and derives from it.
    pub(super) fn write(&mut self, world: &World, write: &Write, prng: &mut Prng) {
        let frozen = write.freeze(&world.base);
        let view = view_of(&frozen);
        let mut need = need(&world.base, &world.plans, view);
        let buffers = std::mem::take(&mut self.buffers);
        let mut deriver = Deriver::reusing(&world.base, &world.plans, view, write.now, buffers);
        let is_all_read = prng.one_in(4);
        let known = if self.plant == Plant::StaleBefore { &self.stale } else { &self.base };
        if let Some(before) = known.get(&write.key) {
            if is_all_read {
                need = Need { statics: true, ranges: smallvec![ClusteringRange::full()], ..need };
                need.deletions_from = None;
            }
            let fragments = existing(&world.base, view_of(before), &need);
            for fragment in fragments.iter().filter(|fragment| self.reads(view, fragment)) {
                deriver.fragment(fragment);
            }
        }
        let early = if prng.one_in(3) { deriver.take() } else { Default::default() };
        let (late, buffers) = deriver.finish_reused();
        self.buffers = buffers;
        let derived: Vec<Derived> = early.into_iter().chain(late).collect();
        self.stale = self.base.clone();
        self.write_base(world, write);
        if self.plant == Plant::LateForgotten && self.stale == self.base {
            return;
        }
        for derived in derived {
            let is_lost = self.plant == Plant::LostUpdate && prng.one_in(8);
            assert_eq!(partition_of(world, &derived), write.key, "of {derived:?}");
            if !is_lost {
                self.apply(world, &derived);
            }
        }
    }

    /// Writes to the base table alone.
    pub(super) fn write_base(&mut self, world: &World, write: &Write) {
        let frozen = write.freeze(&world.base);
        let merged = merge(&world.base, self.base.get(&write.key), &frozen);
        self.base.insert(write.key.clone(), merged);
    }

    /// Derives from what was read of a partition.
    pub(super) fn build(&mut self, world: &World, partition: &FrozenMutation, now: i64) {
        let deriver = Deriver::new(&world.base, &world.plans, view_of(partition), now);
        deriver.finish().iter().for_each(|derived| self.apply(world, derived));
    }

    fn apply(&mut self, world: &World, derived: &Derived) {
        let is_it = |view: &TableSchema| view.id == derived.view;
        let index = world.views.iter().position(is_it).expect("a view");
        let mutation = view_of(&derived.mutation);
        let order = &world.views[index].order;
        mutation.check_order(order).expect("rows in order");
        let key = DecoratedKey::new(Bytes::copy_from(mutation.key()));
        assert_eq!(key.token, derived.token);
        assert!(!mutation.is_empty(), "a mutation that changes nothing");
        let at = (index, key.key.to_vec());
        let merged = merge(&world.views[index], self.views.get(&at), &derived.mutation);
        self.views.insert(at, merged);
    }

    /// Whether a fragment is read, with the mistake that is made.
    fn reads(&self, write: FrozenView<'_>, fragment: &Fragment) -> bool {
        let is_written = |key: &[u8]| write.rows().any(|(written, _)| written == key);
        match (self.plant, fragment) {
            (Plant::RangesUnread, Fragment::Row { key, .. }) => is_written(key),
            (Plant::DeletionsUnread, Fragment::PartitionStart { .. })
            | (Plant::DeletionsUnread, Fragment::RangeTombstoneChange { .. }) => false,
            _ => true,
        }
    }
}

/// The partition of the base table that a mutation of a view is of, as its key says.
fn partition_of(world: &World, derived: &Derived) -> Vec<u8> {
    let view = world.views.iter().find(|view| view.id == derived.view).expect("a view");
    let mutation = view_of(&derived.mutation);
    let mut parts = split_partition_key(mutation.key(), view.partition_key_count).expect("a key");
    let row = mutation.rows().next();
    parts.extend(row.into_iter().flat_map(|(clustering, _)| clustering_components(clustering)));
    Origins::of(&world.base, view).partition_of(&parts).expect("a key with all of its parts")
}

/// What is read for `need` of a partition as it is stored.
fn existing(base: &TableSchema, partition: FrozenView<'_>, need: &Need) -> Vec<Fragment> {
    if need.is_nothing() {
        return Vec::new();
    }
    let mut list = RangeTombstoneList::new();
    partition.ranges().for_each(|range| list.insert(&base.order, range));
    let deletions = list.iter().map(|range| range.tombstone).chain([partition.tombstone()]);
    let newest = deletions.map(|tombstone| tombstone.timestamp).max();
    if need.deletions_from.is_some_and(|from| newest.is_none_or(|newest| newest < from)) {
        return Vec::new();
    }
    let key = DecoratedKey::new(Bytes::copy_from(partition.key()));
    let mut out = vec![Fragment::PartitionStart { key, tombstone: partition.tombstone() }];
    if let (true, Some(row)) = (need.statics, partition.static_row()) {
        out.push(Fragment::StaticRow { row: Bytes::copy_from(row.bytes()) });
    }
    for range in &need.ranges {
        let changes = list.changes(&base.order, range, Direction::Forward);
        let mut part: Vec<Fragment> = changes.into_iter().map(Fragment::from).collect();
        if need.deletions_from.is_none() {
            let rows = partition.rows();
            let rows = rows.filter(|(key, _)| range.contains(&base.order, (key, 0)));
            part.extend(rows.map(|(key, row)| Fragment::Row {
                key: Bytes::copy_from(key),
                row: Bytes::copy_from(row.bytes()),
            }));
        }
        let position = |fragment: &Fragment| {
            let (key, weight) = fragment.clustering().expect("clustered");
            (key.to_vec(), weight)
        };
        part.sort_by(|a, b| {
            let (a, b) = (position(a), position(b));
            base.order.compare((&a.0, a.1), (&b.0, b.1))
        });
        out.extend(part);
    }
    out.push(Fragment::PartitionEnd);
    out
}
