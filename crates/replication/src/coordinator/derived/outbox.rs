//! The outbox of a shard: rows of `system.nereid_view_updates` with mutations of views that are on
//! their way, each in the group of the write that they follow from.
//!
//! What is on its way is held in memory as well, and nobody reads its row. Rows that are left are
//! known by their names: those of an earlier life, and those of which something could not be
//! brought to its replica ([`super::again`]).
//!
//! Invariants: those of [`super`]; and
//!  - *known-or-gone*: a row that is there is on its way, or known, or waits for its removal,
//!    unless more are left than may be known: those are found at the next start.
//!  - *of-this-shard*: a row is of a token that this shard has, so that it is in its log, and its
//!    removal too.
//!  - *removed-by-its-time*: as in `batchlog`, whose rows have the same form.

use super::Counters;
use crate::batchlog::Logged;
use crate::coordinator::due::{Due, take_due};
use crate::coordinator::{Coordinator, own_coordinator};
use cluster::TableEntry;
use model::{Token, Uuid};
use mutation::FrozenMutation;
use runtime::sync::{Notify, Permit, Receiver, Semaphore, Sender, channel};
use runtime::time::{Instant, timeout};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use storage::WriteError;

/// The part of a shard's memory that may be on its way.
pub(super) const MEMORY_PART: usize = 10;
/// Rows that are left and known at most.
const LEFT_MAX: usize = 1 << 16;
/// Rows that wait for their removal at most; and that are removed at once.
const SETTLED_MAX: usize = 1 << 16;
const REMOVED_AT_ONCE_MAX: usize = 128;
/// Writers that wait for room at most.
const WAITING_MAX: usize = 1 << 16;

/// What is on its way from a shard to views elsewhere.
pub struct Outbox {
    room: Semaphore,
    bytes_max: usize,
    left: RefCell<BTreeSet<Uuid>>,
    /// Tells that something is left.
    has_left: Notify,
    settled: Sender<Settled>,
    removals: RefCell<Option<Receiver<Settled>>>,
    pub counters: Counters,
}

/// A row whose mutations are where they belong.
pub(super) struct Settled {
    logged: Logged,
    /// When that is durable.
    due: Instant,
}

impl Due for Settled {
    fn due(&self) -> Instant {
        self.due
    }
}

impl Outbox {
    pub(super) fn new(bytes_max: usize) -> Outbox {
        debug_assert!(0 < bytes_max, "bounded: nothing may be on its way");
        let bytes_max = bytes_max.max(1);
        let (settled, removals) = channel(SETTLED_MAX);
        Outbox {
            room: Semaphore::new(bytes_max, WAITING_MAX),
            bytes_max,
            left: RefCell::default(),
            has_left: Notify::new(),
            settled,
            removals: RefCell::new(Some(removals)),
            counters: Counters::default(),
        }
    }

    /// Bytes that are on their way, and the most.
    pub fn pending(&self) -> (usize, usize) {
        (self.bytes_max - self.room.available().min(self.bytes_max), self.bytes_max)
    }

    /// The names of rows that are left.
    pub(super) fn names(&self) -> Vec<Uuid> {
        self.left.borrow().iter().copied().collect()
    }

    /// Waits until a row is left, unless one is.
    pub(super) async fn left_some(&self) {
        while self.left.borrow().is_empty() {
            self.has_left.notified().await;
        }
    }

    /// A row is not left any more: it was brought, or is not there; whether it was known.
    pub(super) fn forget(&self, id: Uuid) -> bool {
        let mut left = self.left.borrow_mut();
        debug_assert!(left.len() <= LEFT_MAX, "bounded: {} rows are known", left.len());
        left.remove(&id)
    }

    /// What [`remove_durable`] takes, once.
    pub(super) fn take_removals(&self) -> Option<Receiver<Settled>> {
        let removals = self.removals.take();
        debug_assert!(removals.is_some(), "known-or-gone: rows are removed by two");
        removals
    }

    /// Takes room for so much, as if it was on its way.
    #[doc(hidden)]
    pub async fn hold(&self, bytes: usize) -> Option<Permit> {
        self.room.acquire(bytes).await.ok()
    }

    /// Rows that are left, to be brought again.
    pub fn left(&self) -> usize {
        self.left.borrow().len()
    }

    /// Room for what is on its way (*bounded*); what is larger than all of it goes alone.
    pub(super) async fn make_room(
        &self,
        bytes: usize,
        patience: Duration,
    ) -> Result<Permit, WriteError> {
        let bytes = bytes.min(self.bytes_max);
        debug_assert!(0 < bytes, "bounded: room for nothing");
        let room = timeout(patience, self.room.acquire(bytes)).await;
        let crowded = WriteError::Overloaded("updates of views on their way to other nodes");
        match room {
            Ok(Ok(room)) => Ok(room),
            Ok(Err(_)) | Err(_) => Err(crowded),
        }
    }

    /// A row, if it is there, has mutations that did not come to where they belong.
    pub(super) fn leave(&self, id: Uuid) {
        let mut left = self.left.borrow_mut();
        debug_assert!(left.len() <= LEFT_MAX, "bounded: {} rows are known", left.len());
        match left.len() < LEFT_MAX {
            true => drop(left.insert(id)),
            false => stdx::probe!("updates of views are brought after the next start only"),
        }
        self.has_left.notify_one();
    }

    /// All of a row is where it belongs: it is removed when that is durable (*sent-or-kept*).
    pub(super) fn settle(&self, coordinator: &Coordinator, (id, written_at): (Uuid, i64)) {
        let due = Instant::now() + coordinator.config.batch_memory;
        debug_assert!(0 < written_at, "removed-by-its-time: {id} of {written_at}");
        let logged = Logged { id, written_at };
        if self.settled.try_send(Settled { logged, due }).is_err() {
            self.leave(id);
        }
    }
}

pub(super) fn table(coordinator: &Coordinator) -> Rc<TableEntry> {
    let schema = coordinator.cluster.schema();
    let table = schema.table("system", "nereid_view_updates").cloned();
    table.expect("system.nereid_view_updates is a system table")
}

/// A new row of this shard (*of-this-shard*).
pub(super) fn new_row(
    coordinator: &Coordinator,
    mutations: &[FrozenMutation],
) -> (Logged, FrozenMutation) {
    let table = table(coordinator);
    let is_here = |logged: &Logged| {
        table.tablets.shard_of(Token::of(logged.id.as_bytes())) == coordinator.shard
    };
    let mut logged = Logged::new();
    while !is_here(&logged) {
        logged.id = cluster::uuids::random_uuid();
    }
    debug_assert!(is_here(&logged), "of-this-shard: a row of another shard");
    let row = logged.row(&table.schema, mutations, logged.written_at);
    (logged, row)
}

/// Removes rows that are settled and durable, many together.
pub(super) async fn remove_durable(mut settled: Receiver<Settled>) {
    let mut next = None;
    while let Some(due) = take_due(&mut settled, &mut next, REMOVED_AT_ONCE_MAX).await {
        let Ok(coordinator) = own_coordinator() else { return };
        let table = table(&coordinator);
        debug_assert!(due.len() <= REMOVED_AT_ONCE_MAX, "bounded: {} at once", due.len());
        let removals = due.iter().map(|one| one.logged.removal(&table.schema)).collect();
        if let Err(error) = coordinator.storage.apply_all(removals).await {
            tracing::warn!(target: "views", %error, "updates of views are sent again");
            due.iter().for_each(|one| coordinator.views.outbox.leave(one.logged.id));
        }
    }
}
