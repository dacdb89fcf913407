//! A write with all that it changes in views: derived, put into one group, and sent.
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
use derived::{Derived, Deriver};
use model::{DecoratedKey, TableId, Token};
use mutation::{FrozenMutation, FrozenView};
use reader::{PartitionScope, Slice};
use runtime::time::{timeout, wall_micros};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use stdx::Bytes;
use storage::{PartitionGuard, Promise, SourceOptions, WriteError};

/// How long a write waits for others that derive from the same partition, and for room for what is
/// on its way.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Writes of partitions of base tables, by table and key: each partition once.
type Bases = BTreeMap<(TableId, Vec<u8>), FrozenMutation>;

/// What is to be written and to be sent.
#[derive(Default)]
struct Outcome {
    /// In one group.
    group: Vec<FrozenMutation>,
    cargo: Cargo,
}

/// What a write has until it is visible, and until what follows from it has come.
struct Held {
    alone: Vec<PartitionGuard>,
    under_way: Entered<Rc<Epochs>>,
}

impl Coordinator {
    /// Writes mutations of partitions of this shard with all that they change in views.
    pub(super) async fn write_with_views(
        self: &Rc<Coordinator>,
        mutations: Vec<FrozenMutation>,
        promise: Promise,
    ) -> Result<(), WriteError> {
        let (bases, others) = sort_out(&self.cluster.schema(), mutations)?;
        let alone = self.lock_all(&bases).await?;
        let held = Held { alone, under_way: Epochs::enter(self.epochs.clone()) };
        // As it is once nobody else writes to them: it may have changed while this one waited.
        let schema = self.cluster.schema();
        let mut outcome = Outcome { group: others, ..Outcome::default() };
        for ((table, _), write) in bases {
            self.derive(&schema, table, write, &mut outcome).await?;
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
        for (at, one) in derived {
            if let Some(to) = schema.table_by_id(one.view) {
                self.place((base, at), to, one, &mut outcome);
            }
        }
        self.write_group(&schema, outcome, held, Promise::AsConfigured).await
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
    async fn lock_all(&self, bases: &Bases) -> Result<Vec<PartitionGuard>, WriteError> {
        let mut alone = Vec::with_capacity(bases.len());
        for (table, key) in bases.keys() {
            let lock = timeout(WAIT_MAX, self.storage.lock_deriving(*table, key)).await;
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
        table: TableId,
        write: FrozenMutation,
        outcome: &mut Outcome,
    ) -> Result<(), WriteError> {
        let entry = schema.table_by_id(table).ok_or(WriteError::UnknownTable(table))?;
        let plans = self.views.plans.of(schema, entry).map_err(|why| {
            tracing::error!(target: "views", "{why}: nothing can be written to its base table");
            WriteError::OverLimit(why)
        })?;
        let view = FrozenView::trusted(&write.0).map_err(WriteError::Damaged)?;
        let token = Token::of(view.key());
        debug_assert!(entry.tablets.shard_of(token) == self.shard, "owner-only: of another shard");
        let derived = self.derive_from(&plans, view).await?;
        for one in derived {
            if let Some(to) = schema.table_by_id(one.view) {
                self.place((entry, token), to, one, outcome);
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
        write: FrozenView<'_>,
    ) -> Result<Vec<Derived>, WriteError> {
        let Plans { base, plans, .. } = plans;
        let need = derived::need(base, plans, write);
        debug_assert!(base.id == write.table(), "of-this-version: plans of another table");
        let now = wall_micros().div_euclid(1_000_000);
        let mut deriver = Deriver::new(base, plans, write, now);
        if need.is_nothing() || self.is_planted(Planted::DerivesUnread) {
            return Ok(deriver.finish());
        }
        let (permit, _) = self.storage.admit_read(base.id).await.map_err(unread)?;
        let _cpu = permit.need_cpu();
        let scope = PartitionScope::Key(DecoratedKey::new(Bytes::copy_from(write.key())));
        let (ranges, with_static) = (need.ranges, need.statics);
        let slice = Slice { ranges, reversed: false, with_static, forwarding: false };
        let source = self.storage.open_source(base.id, scope, slice, SourceOptions::QUERY);
        let mut fragments = Cursor::new(source.map_err(unread)?, Some(&permit));
        while let Some(fragment) = fragments.next(usize::MAX).await.map_err(unread)? {
            deriver.consume(&fragment);
        }
        Ok(deriver.finish())
    }

    /// Puts a mutation of a view where it goes: into the group, if this shard has it, and to
    /// others.
    fn place(
        &self,
        (base, at): (&TableEntry, Token),
        view: &TableEntry,
        derived: Derived,
        outcome: &mut Outcome,
    ) {
        let Derived { token, mutation, .. } = derived;
        debug_assert!(
            mutation.view().is_ok_and(|it| Token::of(it.key()) == token),
            "with-the-write: what was derived is of another partition"
        );
        let shard = view.tablets.shard_of(token);
        let mut is_here = true;
        if let Some(hearers) = self.hearers((base, at), view, token) {
            is_here = false;
            let is_synchronous = view.schema.view.as_ref().is_some_and(|it| it.is_synchronous);
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
        let by_center = matches!(*view.replication, Replication::PerDataCenter(_));
        let written = self.writers(base, at).unwrap_or_default();
        let places = pair::targets(&written, &replicas, by_center);
        Some(places.into_iter().map(|place| replicas[place]).collect())
    }
}

/// Writes of tables that have views, those of a partition as one, and the others.
fn sort_out(
    schema: &Schema,
    mutations: Vec<FrozenMutation>,
) -> Result<(Bases, Vec<FrozenMutation>), WriteError> {
    let (mut bases, mut others) = (Bases::new(), Vec::new());
    for mutation in mutations {
        let view = FrozenView::trusted(&mutation.0).map_err(WriteError::Damaged)?;
        let table = schema.table_by_id(view.table()).filter(|table| !table.views.is_empty());
        let Some(table) = table else {
            others.push(mutation);
            continue;
        };
        debug_assert!(table.schema.view.is_none(), "one-at-a-time: a view with views");
        let place = (table.schema.id, view.key().to_vec());
        let merged = match bases.get(&place) {
            None => mutation,
            Some(before) => {
                let before = FrozenView::trusted(&before.0).map_err(WriteError::Damaged)?;
                mutation::frozen::merge(&table.schema, before, view)
            }
        };
        bases.insert(place, merged);
    }
    Ok((bases, others))
}

fn is_view(schema: &Schema, id: TableId) -> bool {
    schema.table_by_id(id).is_none_or(|table| table.schema.view.is_some())
}

/// A read that deriving needed has failed.
fn unread(error: reader::ReadError) -> WriteError {
    unreadable(error, ("what a view is derived from", "the read before a write with views"))
}
