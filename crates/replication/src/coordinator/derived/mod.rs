//! Views: what a write of a base table brings with it, and how that comes to where it belongs.
//!
//! Storage hands every write of a table that has views to this room, whoever writes: clients, other
//! coordinators, batches, rounds of conditional writes, hints, repairs of reads and of rows, and
//! rows that come from other nodes while ranges move. Here the partition is locked, what has to be
//! known of it is read, and what changes in the views is derived (crate `derived`); where what has
//! to be known is in memory and what follows is of this shard, all in one step and without a lock.
//! One group of the log holds all of it: the write, those mutations of views that this shard has
//! itself, and a row of `system.nereid_view_updates`, the outbox, with those that go to other
//! shards and nodes. These are sent then, and the row is removed when they are where they belong.
//!
//! Each replica of the base table derives for itself, and sends to *its* replica of the view
//! ([`pair`]). They are writes like others there: a view has no views. Nothing that is derived is
//! wrong whenever it comes, nor how often: all of it has the times of the write. So what is in
//! doubt is sent again, to the same replica: what ends a row comes from who has written it, and
//! the partner of another replica may never have the write. Only while a move is under way, or
//! where a replica that is down may have no hint, more are told than hear of the write by
//! themselves; such a row is found as a ghost by a verification if nobody else ends it.
//!
//! A write of a table with a log of its changes carries the rows of the log ([`super::cdc`]). They
//! are taken off here, and go into the same group: no lock is taken for them and nothing is read;
//! where they are of this shard, and nothing else has to be waited for, they enter in one step.
//! Streams are chosen so that a log's partition is where the writes are that it tells of; where it
//! is not, since one of them has moved, its rows go by the outbox, and are waited for.
//!
//! What a move brings as files, to base table or view, is derived from by nobody: who gave it had
//! derived from it when it was written, and a view's ranges move by themselves, with all that was
//! derived. What a move brings as rows is written like any write; most of it changes nothing.
//!
//! Invariants
//!  - *with-the-write*: after a crash a write of a base table is there with all that it changes in
//!    views, here or in the outbox, or none of it is. In periodic sync mode a crash may take back a
//!    write of the last period of which a view elsewhere has its part already, as it may take it
//!    from one replica and not from another.
//!  - *one-at-a-time*: from the read of a partition until what was derived is visible nobody else
//!    derives from it. Locks are taken in the order of tables and keys.
//!  - *sent-or-kept*: a row leaves the outbox only after each of its mutations was acknowledged by
//!    its replica, or a hint of it is on the disk; or, where the replica is down and may have no
//!    hint, it was brought to a quorum of all replicas; and not before what was acknowledged is
//!    durable.
//!  - *seen-here*: a write is acknowledged after the other shards of this node have what is theirs
//!    of it; after other nodes have it where the view is synchronous.
//!  - *ends-with-its-stage*: what is derived goes to those who had the view's data when it was
//!    derived. It is a request under way (`epochs`) until it was told or left: a move goes on only
//!    when it has ended. What is left goes to those who have the data then.
//!  - *bounded*: what is on its way takes a tenth of the shard's memory; who writes waits beyond
//!    it, and is refused if that takes too long, before anything was written.
//!
//! In reading order: [`pair`] (pure), `plans`, `write`, `ship`, `outbox`, `again`.

mod again;
mod outbox;
pub(crate) mod pair;
mod plans;
mod ship;
mod write;

pub(super) use again::{keep_bringing, recall};
pub use outbox::Outbox;

use super::own_coordinator;
use cluster::traffic::Count;
use derived::Buffers;
use mutation::{FrozenMutation, FrozenView};
use reader::LocalFuture;
use std::cell::Cell;
use std::rc::Rc;
use storage::{Before, Deriving, Following, Promise, Storage, WriteError};

/// What a shard knows of views.
pub(crate) struct Views {
    plans: plans::Cache,
    /// For the next write that is derived from at once.
    buffers: Cell<Buffers>,
    pub(crate) outbox: Rc<Outbox>,
}

impl Views {
    pub(super) fn new(storage: &Storage) -> Views {
        let bytes_max = storage.memory_bytes() / outbox::MEMORY_PART;
        let outbox = Rc::new(Outbox::new(bytes_max));
        Views { plans: plans::Cache::default(), buffers: Cell::default(), outbox }
    }
}

/// What a shard has sent to views.
#[derive(Debug, Default)]
pub struct Counters {
    /// Mutations of views that this shard has written, or others of this node.
    pub pushed_local: Count,
    /// Those that other nodes have.
    pub pushed_remote: Count,
    /// Those that another shard of this node could not write at once.
    pub failed_local: Count,
    /// Those that other nodes could not write at once.
    pub failed_remote: Count,
    /// Those for which a hint was left.
    pub hinted: Count,
    /// Those that had to be brought again.
    pub brought: Count,
}

/// Hands the writes that storage has to the shard's coordinator.
pub(super) struct Hook {
    outbox: Rc<Outbox>,
}

impl Hook {
    pub(super) fn new(views: &Views) -> Hook {
        Hook { outbox: views.outbox.clone() }
    }
}

impl Deriving for Hook {
    fn write(
        &self,
        mutations: Vec<FrozenMutation>,
        promise: Promise,
    ) -> LocalFuture<'_, Result<(), WriteError>> {
        Box::pin(async move { own_coordinator()?.write_with_all(mutations, promise).await })
    }

    fn at_once<'m>(&self, mutation: FrozenView<'m>, before: &Before<'_>) -> Option<Following<'m>> {
        own_coordinator().ok()?.following(mutation, before)
    }

    fn entered(&self, count: usize) {
        self.outbox.counters.pushed_local.add(count as u64);
    }
}
