//! Mutations of views that are being made.

use crate::place::{Place, ViewKey};
use crate::plan::ViewPlan;
use model::{TableId, Token};
use mutation::{FrozenMutation, MutationBuilder, RowBuilder, Tombstone};
use std::convert::Infallible;

/// A mutation of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derived {
    pub view: TableId,
    /// Of its partition.
    pub token: Token,
    pub mutation: FrozenMutation,
}

/// So many partitions of one view are looked at for one that is open: rows of a write that stand
/// together in the view come one after the other, with those that they replace between them.
const LOOKED_AT_MAX: usize = 4;

/// What a mutation of one row takes besides its key and the row, about.
const HEAD_BYTES: usize = 64;
/// Room is made for so much at most: a write of many rows may have few of them in each partition.
const ROOM_BYTES_MAX: usize = 1024;

/// Collects rows of views by their partitions.
#[derive(Default)]
pub(crate) struct Out<'a> {
    open: Vec<Open<'a>>,
    key: ViewKey,
    rows: usize,
    /// Bytes of what the rows are made of: room is made for so much.
    bytes: usize,
}

struct Open<'a> {
    plan: &'a ViewPlan,
    key: Vec<u8>,
    builder: MutationBuilder<'a>,
}

impl<'a> Out<'a> {
    /// For a write of so many bytes.
    pub(crate) fn of(bytes: usize) -> Out<'a> {
        Out { bytes, ..Out::default() }
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
        if !self.key.set((&plan.partition, &plan.clustering), place) {
            return;
        }
        let index = self.partition(plan);
        self.rows += 1;
        let built = self.open[index].builder.row_with(&self.key.clustering, |row| {
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
        if self.key.set_partition(&plan.partition, place) {
            let index = self.partition(plan);
            self.open[index].builder.delete_partition(tombstone);
        }
    }

    /// The place among the open ones of the partition whose key is set.
    fn partition(&mut self, plan: &'a ViewPlan) -> usize {
        let is_it =
            |open: &Open<'_>| std::ptr::eq(open.plan, plan) && open.key == self.key.partition;
        let of_plan = |(_, open): &(usize, &Open<'_>)| std::ptr::eq(open.plan, plan);
        let last = self.open.iter().enumerate().rev().filter(of_plan).take(LOOKED_AT_MAX);
        if let Some((index, _)) = last.into_iter().find(|(_, open)| is_it(open)) {
            return index;
        }
        let key = self.key.partition.clone();
        let room = key.len() + HEAD_BYTES + self.bytes.min(ROOM_BYTES_MAX);
        let builder = MutationBuilder::reusing(&plan.view, &key, Vec::with_capacity(room));
        self.open.push(Open { plan, key, builder });
        self.open.len() - 1
    }

    /// What there is.
    pub(crate) fn take(&mut self) -> Vec<Derived> {
        self.rows = 0;
        let open = self.open.drain(..).filter(|open| !open.builder.is_empty());
        let derived = open.map(|Open { plan, key, builder }| Derived {
            view: plan.view.id,
            token: Token::of(&key),
            mutation: builder.freeze(),
        });
        derived.collect()
    }
}
