//! A write with all that it changes in views, and all that it carries for the log of its table:
//! derived, put into one group, and sent.
//!
//! Invariants: those of [`super`].

use super::pair;
use super::plans::Plans;
use super::ship::{self, Cargo};
use crate::coordinator::nodes::Planted;
use crate::coordinator::{Coordinator, unreadable};
use crate::cursor::Cursor;
use crate::epochs::{Entered, Epochs};
use crate::placement::Replica;
use cluster::{Replication, Schema, TableEntry};
use derived::{Buffers, Derived, DerivedList, Deriver};
use model::{DecoratedKey, TableId, Token};
use mutation::{FrozenMutation, FrozenView, PartitionSink};
use reader::{PartitionScope, Slice};
use runtime::time::{timeout, wall_micros};
use smallvec::SmallVec;
use std::rc::Rc;
use std::time::Duration;
use stdx::{Bytes, buggify};
use storage::{Before, Follower, Following, PartitionGuard, Promise, SourceOptions, WriteError};

/// How long a write waits for others that derive from the same partition, and for room for what is
/// on its way.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// A write of a partition of a base table.
struct Base {
    table: TableId,
    key: DecoratedKey,
    write: FrozenMutation,
}

/// What is to be written and to be sent.
#[derive(Default)]
pub(super) struct Outcome {
    /// In one group.
    pub(super) group: Vec<FrozenMutation>,
    pub(super) cargo: Cargo,
}

/// What a write carries: a mutation of the log of its table.
struct Carried {
    /// The table and the token of the write.
    base: (TableId, Token),
    to: TableId,
    mutation: FrozenMutation,
}

/// What a write has until it is visible, and until what follows from it has come.
struct Held {
    alone: Vec<PartitionGuard>,
    under_way: Entered<Rc<Epochs>>,
}

impl Coordinator {
    /// What follows from a write of a partition of this shard, and what it carries, if all of it is
    /// of this shard and what has to be read for it is in memory.
    pub(super) fn following<'m>(
        &self,
        write: FrozenView<'m>,
        before: &Before<'_>,
    ) -> Option<Following<'m>> {
        let schema = self.cluster.schema();
        let table: &TableEntry = schema.table_by_id(write.table())?;
        let base = (table, before.token());
        let mut following = Following::default();
        if write.has_attached() {
            self.carried_at_once(&schema, base, write, &mut following)?;
        }
        if !table.views.is_empty() {
            self.derived_at_once(&schema, base, (write, before), &mut following)?;
        }
        Some(following)
    }

    /// Takes off what a write carries, if all of it is of this shard.
    fn carried_at_once<'m>(
        &self,
        schema: &Schema,
        base: (&TableEntry, Token),
        write: FrozenView<'m>,
        following: &mut Following<'m>,
    ) -> Option<()> {
        if self.is_planted(Planted::LogsApart) {
            return None;
        }
        let (alone, attached) = write.apart();
        for carried in attached {
            // What is not known yet is heard of first, and what is damaged is told, step by step.
            let to = schema.table_by_id(carried.table())?;
            carried.check_order(&to.schema.order).ok()?;
            let token = Token::of(carried.key());
            let is_here = to.tablets.shard_of(token) == self.shard;
            if !is_here || !self.stays_here(base, (to, token)) {
                return None;
            }
            debug_assert!(!carried.has_attached(), "with-the-write: carried twice");
            following.others.push(Follower::Carried(token, carried.bytes()));
        }
        following.alone = Some(alone);
        Some(())
    }

    /// Derives from a write, if all of that is of this shard.
    fn derived_at_once(
        &self,
        schema: &Schema,
        base: (&TableEntry, Token),
        (write, before): (FrozenView<'_>, &Before<'_>),
        following: &mut Following<'_>,
    ) -> Option<()> {
        let plans = self.views.plans.of(schema, base.0).ok()?;
        let need = derived::need(&plans.base, &plans.plans, write);
        let mut deriver = deriver_of(&plans, write, self.views.buffers.take());
        if !need.is_nothing()
            && (self.is_planted(Planted::DerivesUnread)
                || !before.visit((&need.ranges, need.statics), &mut deriver))
        {
            return None;
        }
        let (derived, buffers) = deriver.finish_reused();
        self.views.buffers.set(buffers);
        for Derived { view, token, mutation } in derived {
            let view = schema.table_by_id(view)?;
            let is_here = view.tablets.shard_of(token) == self.shard;
            if !is_here || !self.stays_here(base, (view, token)) {
                return None;
            }
            debug_assert!(
                mutation.view().is_ok_and(|it| Token::of(it.key()) == token),
                "with-the-write: what was derived is of another partition"
            );
            following.others.push(Follower::Derived(token, mutation));
        }
        Some(())
    }

    /// Writes mutations of partitions of this shard with all that they change in views, and all
    /// that they carry.
    pub(super) async fn write_with_all(
        self: &Rc<Coordinator>,
        mutations: Vec<FrozenMutation>,
        promise: Promise,
    ) -> Result<(), WriteError> {
        let (mutations, carried) = detach(mutations)?;
        if !carried.is_empty() {
            self.know_logs(&carried).await?;
        }
        let (bases, others) = sort_out(&self.cluster.schema(), mutations)?;
        let alone = self.lock_all(&bases).await?;
        // One has gone while this one waited.
        let is_gone = |base: &Base| self.storage.elsewhere(base.table, base.key.token).is_some();
        if bases.iter().any(is_gone) {
            return Err(WriteError::Moved);
        }
        let held = Held { alone, under_way: Epochs::enter(self.epochs.clone()) };
        // As it is once nobody else writes to them: it may have changed while this one waited.
        let schema = self.cluster.schema();
        let mut outcome = Outcome { group: others, ..Outcome::default() };
        if self.is_planted(Planted::LogsApart) && bases.is_empty() {
            let entered = self.storage.enter_all(&std::mem::take(&mut outcome.group)).await?;
            self.storage.keep(entered, promise).await?;
        }
        for row in carried {
            self.place_row(&schema, row, &mut outcome)?;
        }
        for base in bases {
            self.derive(&schema, base, &mut outcome).await?;
        }
        self.write_group(&schema, outcome, held, promise).await
    }

    /// Writes what is derived from rows that were there already, each with the token of its row, as
    /// if one write had brought all of it; `with` are mutations of partitions of this shard that go
    /// into the same group.
    pub(crate) async fn bring_built(
        self: &Rc<Coordinator>,
        base: &TableEntry,
        derived: Vec<(Token, Derived)>,
        with: Vec<FrozenMutation>,
    ) -> Result<(), WriteError> {
        let held = Held { alone: Vec::new(), under_way: Epochs::enter(self.epochs.clone()) };
        let schema = self.cluster.schema();
        let mut outcome = Outcome { group: with, ..Outcome::default() };
        outcome.group.reserve(derived.len());
        for (at, one) in derived {
            if let Some(to) = schema.table_by_id(one.view) {
                self.place((base, at), to, one.token, one.mutation, &mut outcome);
            }
        }
        self.write_group(&schema, outcome, held, Promise::AsConfigured).await
    }

    /// A write may carry rows of a log of which this shard has not heard yet.
    async fn know_logs(&self, carried: &[Carried]) -> Result<(), WriteError> {
        debug_assert!(!carried.is_empty(), "with-the-write: nothing is carried");
        let schema = self.cluster.schema();
        let is_known = |one: &Carried| schema.table_by_id(one.to).is_some();
        if carried.iter().all(is_known) {
            return Ok(());
        }
        stdx::probe!("a write carries rows of a log that is not known");
        let caught_up = timeout(WAIT_MAX, Box::pin(self.cluster.catch_up())).await;
        match caught_up {
            Ok(Ok(())) => Ok(()),
            _ => Err(WriteError::Overloaded("news of the log of a table")),
        }
    }

    /// Places what a write carries. A log that is no more wants nothing.
    fn place_row(
        &self,
        schema: &Schema,
        Carried { base: (base, at), to, mutation }: Carried,
        outcome: &mut Outcome,
    ) -> Result<(), WriteError> {
        let base = schema.table_by_id(base).ok_or(WriteError::UnknownTable(base))?;
        let Some(to) = schema.table_by_id(to) else { return Ok(()) };
        let view = FrozenView::trusted(&mutation.0).map_err(WriteError::Damaged)?;
        debug_assert!(!view.has_attached(), "with-the-write: what is carried carries something");
        // It may have become known after it was checked where it came in.
        view.check_order(&to.schema.order).map_err(WriteError::Damaged)?;
        let token = Token::of(view.key());
        self.place((base, at), to, token, mutation, outcome);
        Ok(())
    }

    /// Writes a group, with a row of the outbox for what goes elsewhere, lets go of the partitions,
    /// and sends that.
    async fn write_group(
        self: &Rc<Coordinator>,
        schema: &Schema,
        outcome: Outcome,
        Held { alone, under_way }: Held,
        promise: Promise,
    ) -> Result<(), WriteError> {
        let Outcome { mut group, cargo } = outcome;
        let shipment = match cargo.is_empty() {
            true => None,
            false => {
                let room = self.views.outbox.make_room(cargo.size_bytes(), WAIT_MAX).await?;
                let (row, shipment) = self.pack(cargo, room, under_way);
                group.extend((!self.is_planted(Planted::KeepsNoOutbox)).then_some(row));
                Some(shipment)
            }
        };
        // Views that were dropped meanwhile want nothing any more.
        group.retain(|one| {
            let view = FrozenView::trusted(&one.0);
            view.is_ok_and(|view| {
                let id = view.table();
                self.storage.has_table(id) || !is_view(schema, id)
            })
        });
        let entered = self.storage.enter_all(&group).await?;
        drop(alone);
        self.storage.keep(entered, promise).await?;
        match shipment {
            Some(shipment) => ship::send(self, shipment).await,
            None => Ok(()),
        }
    }

    /// Locks partitions, in their order (*one-at-a-time*).
    async fn lock_all(&self, bases: &[Base]) -> Result<Vec<PartitionGuard>, WriteError> {
        debug_assert!(bases.is_sorted_by(|a, b| a.place() < b.place()), "one-at-a-time: in order");
        let mut alone = Vec::with_capacity(bases.len());
        for Base { table, key, .. } in bases {
            let lock = timeout(WAIT_MAX, self.storage.lock_deriving(*table, &key.key)).await;
            let waits = WriteError::Overloaded("others that write to a partition with views");
            alone.push(lock.map_err(|_| waits)?);
        }
        debug_assert!(alone.len() == bases.len(), "one-at-a-time: a partition is not locked");
        Ok(alone)
    }

    /// Adds a write of a partition that is locked, and what follows from it.
    async fn derive(
        &self,
        schema: &Schema,
        Base { table, key, write }: Base,
        outcome: &mut Outcome,
    ) -> Result<(), WriteError> {
        let entry = schema.table_by_id(table).ok_or(WriteError::UnknownTable(table))?;
        let plans = self.views.plans.of(schema, entry).map_err(|why| {
            tracing::error!(target: "views", "{why}: nothing can be written to its base table");
            WriteError::OverLimit(why)
        })?;
        let view = FrozenView::trusted(&write.0).map_err(WriteError::Damaged)?;
        debug_assert!(
            self.storage.elsewhere(table, key.token).is_none(),
            "owner-only: of another shard"
        );
        let derived = self.derive_from(&plans, &key, view).await?;
        for one in derived {
            if let Some(to) = schema.table_by_id(one.view) {
                self.place((entry, key.token), to, one.token, one.mutation, outcome);
            }
        }
        // The memory of the first decides: that of what clients write.
        outcome.group.insert(0, write);
        Ok(())
    }

    /// Reads what has to be known, and derives.
    async fn derive_from(
        &self,
        plans: &Plans,
        key: &DecoratedKey,
        write: FrozenView<'_>,
    ) -> Result<DerivedList, WriteError> {
        let base = &plans.base;
        let need = derived::need(base, &plans.plans, write);
        let mut deriver = deriver_of(plans, write, Buffers::default());
        if need.is_nothing() || self.is_planted(Planted::DerivesUnread) {
            return Ok(deriver.finish());
        }
        let wanted = (&need.ranges[..], need.statics);
        let looks = !buggify!("what a write meets is read from its stream", 4);
        let seen = looks.then(|| {
            self.storage.with_before(base.id, key, |before| before.visit(wanted, &mut deriver))
        });
        if seen.flatten() == Some(true) {
            return Ok(deriver.finish());
        }
        let (permit, _) = self.storage.admit_read(base.id).await.map_err(unread)?;
        let _cpu = permit.need_cpu();
        let scope = PartitionScope::Key(key.clone());
        let (ranges, with_static) = (need.ranges.into_vec(), need.statics);
        let slice = Slice { ranges, reversed: false, with_static, forwarding: false };
        let source = self.storage.open_source(base.id, scope, slice, SourceOptions::QUERY);
        let mut fragments = Cursor::new(source.map_err(unread)?, Some(&permit));
        while let Some(fragment) = fragments.next(usize::MAX).await.map_err(unread)? {
            deriver.fragment(&fragment);
        }
        Ok(deriver.finish())
    }

    /// Whether what this node derives for a partition of a view goes to nobody else.
    pub(in crate::coordinator) fn stays_here(
        &self,
        (base, at): (&TableEntry, Token),
        (view, token): (&TableEntry, Token),
    ) -> bool {
        let Some(replicas) = self.writers(view, token) else { return true };
        let written = self.writers(base, at).unwrap_or_default();
        let places = pair::targets(&written, &replicas, counts_by_center(view));
        matches!(&places[..], [only] if replicas[*only].is_here)
    }

    /// The tokens of a write's rows of the log, if they and the write, which is of a partition of
    /// this shard, may enter together, as they are: all of the rows are of this shard, and nobody
    /// else gets any of them.
    pub(in crate::coordinator) fn enter_together(
        &self,
        table: &TableEntry,
        token: Token,
        rows: &[FrozenMutation],
    ) -> Option<SmallVec<[Token; 1]>> {
        if !table.views.is_empty() || self.is_planted(Planted::LogsApart) {
            return None;
        }
        let schema = self.cluster.schema();
        let log = table.log.and_then(|log| schema.table_by_id(log))?;
        let token_here = |row: &FrozenMutation| {
            let row = FrozenView::trusted(&row.0).ok()?;
            let at = Token::of(row.key());
            let is_here = row.table() == log.schema.id
                && log.tablets.shard_of(at) == self.shard
                && self.stays_here((table, token), (log, at));
            is_here.then_some(at)
        };
        rows.iter().map(token_here).collect()
    }

    /// Puts a mutation of a view or a log where it goes: into the group, if this shard has it, and
    /// to others.
    pub(super) fn place(
        &self,
        (base, at): (&TableEntry, Token),
        view: &TableEntry,
        token: Token,
        mutation: FrozenMutation,
        outcome: &mut Outcome,
    ) {
        debug_assert!(
            mutation.view().is_ok_and(|it| Token::of(it.key()) == token),
            "with-the-write: what was derived is of another partition"
        );
        let shard = view.tablets.shard_of(token);
        let mut is_here = true;
        if let Some(hearers) = self.hearers((base, at), view, token) {
            is_here = false;
            // A log has what was acknowledged.
            let is_synchronous = view.schema.view.as_ref().is_none_or(|it| it.is_synchronous());
            for replica in &hearers {
                match replica.is_here {
                    true => is_here = true,
                    false => outcome.cargo.add(replica, is_synchronous, &mutation),
                }
            }
        }
        match is_here {
            true if shard == self.shard => {
                self.views.outbox.counters.pushed_local.add(1);
                outcome.group.push(mutation);
            }
            true => outcome.cargo.add_here(shard, mutation),
            false => {}
        }
    }

    /// The replicas of a partition of a view that hear from this node what follows from a partition
    /// of the base table; `None`: this node alone has the view.
    pub(in crate::coordinator) fn hearers(
        &self,
        (base, at): (&TableEntry, Token),
        view: &TableEntry,
        token: Token,
    ) -> Option<Vec<Replica>> {
        let replicas = self.writers(view, token)?;
        let written = self.writers(base, at).unwrap_or_default();
        let places = pair::targets(&written, &replicas, counts_by_center(view));
        Some(places.into_iter().map(|place| replicas[place]).collect())
    }
}

impl Base {
    /// Locks are taken in this order.
    fn place(&self) -> (TableId, &[u8]) {
        (self.table, &self.key.key)
    }
}

fn counts_by_center(view: &TableEntry) -> bool {
    matches!(*view.replication, Replication::PerDataCenter(_))
}

/// A deriver for a write that is applied now.
fn deriver_of<'a>(plans: &'a Plans, write: FrozenView<'a>, buffers: Buffers) -> Deriver<'a> {
    debug_assert!(plans.base.id == write.table(), "of-this-version: plans of another table");
    let now = wall_micros().div_euclid(1_000_000);
    Deriver::reusing(&plans.base, &plans.plans, write, now, buffers)
}

/// Writes of tables that have views, those of a partition as one, and the others.
fn sort_out(
    schema: &Schema,
    mutations: Vec<FrozenMutation>,
) -> Result<(Vec<Base>, Vec<FrozenMutation>), WriteError> {
    let (mut bases, mut others) = (Vec::new(), Vec::new());
    for mutation in mutations {
        let view = FrozenView::trusted(&mutation.0).map_err(WriteError::Damaged)?;
        let table = schema.table_by_id(view.table()).filter(|table| !table.views.is_empty());
        let Some(table) = table else {
            others.push(mutation);
            continue;
        };
        debug_assert!(table.schema.view.is_none(), "one-at-a-time: a view with views");
        let key = DecoratedKey::new(Bytes::copy_from(view.key()));
        bases.push(Base { table: table.schema.id, key, write: mutation });
    }
    Ok((merge_equal(schema, bases)?, others))
}

/// Each partition once, in the order of locks.
fn merge_equal(schema: &Schema, mut bases: Vec<Base>) -> Result<Vec<Base>, WriteError> {
    bases.sort_by(|a, b| a.place().cmp(&b.place()));
    let mut merged: Vec<Base> = Vec::with_capacity(bases.len());
    for base in bases {
        let Some(last) = merged.last_mut().filter(|last| last.place() == base.place()) else {
            merged.push(base);
            continue;
        };
        let unknown = WriteError::UnknownTable(base.table);
        let table = schema.table_by_id(base.table).ok_or(unknown)?;
        let before = FrozenView::trusted(&last.write.0).map_err(WriteError::Damaged)?;
        let write = FrozenView::trusted(&base.write.0).map_err(WriteError::Damaged)?;
        last.write = mutation::frozen::merge(&table.schema, before, write);
    }
    Ok(merged)
}

/// Whether a table is, or was, a view or a log.
fn is_view(schema: &Schema, id: TableId) -> bool {
    let table = schema.table_by_id(id).map(|table| &table.schema);
    table.is_none_or(|table| table.view.is_some() || table.log.is_some())
}

/// Takes off what mutations carry.
fn detach(
    mutations: Vec<FrozenMutation>,
) -> Result<(Vec<FrozenMutation>, Vec<Carried>), WriteError> {
    let mut carried = Vec::new();
    let mut alone = Vec::with_capacity(mutations.len());
    for mutation in mutations {
        let (mutation, rows) = mutation.detach();
        if !rows.is_empty() {
            let view = FrozenView::trusted(&mutation.0).map_err(WriteError::Damaged)?;
            let base = (view.table(), Token::of(view.key()));
            for mutation in rows {
                let to = FrozenView::trusted(&mutation.0).map_err(WriteError::Damaged)?.table();
                carried.push(Carried { base, to, mutation });
            }
        }
        alone.push(mutation);
    }
    debug_assert!(carried.is_empty() || !alone.is_empty(), "with-the-write: without a write");
    Ok((alone, carried))
}

/// A read that deriving needed has failed.
fn unread(error: reader::ReadError) -> WriteError {
    unreadable(error, ("what a view is derived from", "the read before a write with views"))
}
