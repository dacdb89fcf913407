//! Mutations of views that are being made.

use crate::place::{Place, ViewKey};
use crate::plan::ViewPlan;
use model::{TableId, Token};
use mutation::{FrozenMutation, MutationBuilder, RowBuilder, Tombstone};
use smallvec::SmallVec;
use std::convert::Infallible;

/// A mutation of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derived {
    pub view: TableId,
    /// Of its partition.
    pub token: Token,
    pub mutation: FrozenMutation,
}

/// Of one write mostly one or two.
pub type DerivedList = SmallVec<[Derived; 2]>;

/// A buffer that has grown beyond this is not kept for the next write.
const KEPT_BYTES_MAX: usize = 64 << 10;
/// So many partitions of one view are looked at for one that is open: rows of a write that stand
/// together in the view come one after the other, with those that they replace between them.
const LOOKED_AT_MAX: usize = 4;

/// What a mutation of one row takes besides its key and the row, about.
const HEAD_BYTES: usize = 64;
/// Room is made for so much at most: a write of many rows may have few of them in each partition.
const ROOM_BYTES_MAX: usize = 1024;

/// Buffers for who derives from one write after the other.
#[derive(Debug, Default)]
pub struct Buffers {
    key: ViewKey,
    mutation: Vec<u8>,
    pub(crate) row: Vec<u8>,
}

impl Buffers {
    /// Without what a large write has left.
    pub(crate) fn trimmed(mut self) -> Buffers {
        let Buffers { key: ViewKey { partition, clustering }, mutation, row } = &mut self;
        for buffer in [partition, clustering, mutation, row] {
            if KEPT_BYTES_MAX < buffer.capacity() {
                *buffer = Vec::new();
            }
        }
        self
    }
}

/// Collects rows of views by their partitions.
pub(crate) struct Out<'a> {
    /// Most writes change one row of a view, in its place or from one place to another.
    open: SmallVec<[Open<'a>; 2]>,
    buffers: Buffers,
    rows: usize,
    /// Bytes of what the rows are made of: room is made for so much.
    bytes: usize,
}

struct Open<'a> {
    plan: &'a ViewPlan,
    builder: MutationBuilder<'a>,
}

impl<'a> Out<'a> {
    /// For a write of so many bytes.
    #[inline]
    pub(crate) fn of(bytes: usize, buffers: Buffers) -> Out<'a> {
        Out { open: SmallVec::new(), buffers, rows: 0, bytes }
    }

    /// What was given to it.
    pub(crate) fn take_buffers(&mut self) -> Buffers {
        debug_assert!(self.open.is_empty(), "bounded: {} partitions are left", self.open.len());
        std::mem::take(&mut self.buffers)
    }

    /// Rows that wait.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Adds to the row of a view what `build` writes; nothing if it writes nothing, or if there can
    /// be no such row.
    pub(crate) fn row(
        &mut self,
        plan: &'a ViewPlan,
        place: &Place<'_>,
        build: impl FnOnce(&mut RowBuilder),
    ) {
        if !self.buffers.key.set((&plan.partition, &plan.clustering), place) {
            return;
        }
        let index = self.partition(plan);
        self.rows += 1;
        let clustering = &self.buffers.key.clustering;
        let built = self.open[index].builder.row_with(clustering, |row| {
            build(row);
            Ok::<(), Infallible>(())
        });
        let Ok(()) = built;
    }

    /// Deletes a partition of a view.
    pub(crate) fn delete_partition(
        &mut self,
        plan: &'a ViewPlan,
        place: &Place<'_>,
        tombstone: Tombstone,
    ) {
        if self.buffers.key.set_partition(&plan.partition, place) {
            let index = self.partition(plan);
            self.open[index].builder.delete_partition(tombstone);
        }
    }

    /// The place among the open ones of the partition whose key is set.
    fn partition(&mut self, plan: &'a ViewPlan) -> usize {
        let key = &self.buffers.key.partition[..];
        let is_it = |open: &Open<'_>| std::ptr::eq(open.plan, plan) && open.builder.key() == key;
        let of_plan = |(_, open): &(usize, &Open<'_>)| std::ptr::eq(open.plan, plan);
        let last = self.open.iter().enumerate().rev().filter(of_plan).take(LOOKED_AT_MAX);
        if let Some((index, _)) = last.into_iter().find(|(_, open)| is_it(open)) {
            return index;
        }
        let mut buffer = std::mem::take(&mut self.buffers.mutation);
        let room = key.len() + HEAD_BYTES + self.bytes.min(ROOM_BYTES_MAX);
        buffer.clear();
        buffer.reserve(room);
        let builder = MutationBuilder::reusing(&plan.view, key, buffer);
        self.open.push(Open { plan, builder });
        self.open.len() - 1
    }

    /// What there is.
    pub(crate) fn take(&mut self) -> DerivedList {
        self.rows = 0;
        let mut derived = DerivedList::new();
        for Open { plan, builder } in &mut self.open {
            if builder.is_empty() {
                continue;
            }
            let (view, token) = (plan.view.id, Token::of(builder.key()));
            let (mutation, buffer) = builder.freeze_reused();
            self.buffers.mutation = buffer;
            derived.push(Derived { view, token, mutation });
        }
        self.open.clear();
        derived
    }
}
