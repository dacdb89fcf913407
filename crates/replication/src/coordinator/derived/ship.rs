//! Mutations of views on their way to other shards and nodes.
//!
//! Invariants: those of [`super`]; and
//!  - *runs-to-its-end*: what was packed is sent whether its writer still waits or not; what breaks
//!    off before is left to the outbox.

use super::outbox::{Outbox, new_row};
use crate::coordinator::nodes::{self, Brought, Planted};
use crate::coordinator::{Coordinator, own_storage};
use crate::epochs::{Entered, Epochs};
use crate::placement::Replica;
use model::Uuid;
use mutation::FrozenMutation;
use runtime::sync::{Permit, oneshot};
use runtime::task::{join, join_all};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use storage::WriteError;

/// How long a replica may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Mutations that go to a replica at once, and their bytes; a larger one goes alone.
const AT_ONCE_MAX: usize = 128;
const BYTES_AT_ONCE_MAX: usize = 1 << 20;
/// What a mutation takes of memory besides its bytes, as the room for them is counted.
const OVERHEAD: usize = 2288;

/// What goes elsewhere.
#[derive(Default)]
pub(super) struct Cargo {
    /// To other shards of this node.
    pub(super) here: BTreeMap<u16, Vec<FrozenMutation>>,
    /// To other nodes: those that are waited for first.
    pub(super) there: [BTreeMap<Uuid, Parcel>; 2],
    /// All of it, each once.
    all: Vec<FrozenMutation>,
}

/// What goes to one node.
pub(super) struct Parcel {
    replica: Replica,
    mutations: Vec<FrozenMutation>,
}

/// What is packed: it is in the outbox when its write is there.
pub(super) struct Shipment {
    cargo: Cargo,
    row: Row,
    under_way: Entered<Rc<Epochs>>,
}

/// A row of the outbox whose mutations are on their way. Unless it is settled it is left to the
/// outbox on drop (*runs-to-its-end*).
pub(super) struct Row {
    id: Uuid,
    written_at: i64,
    outbox: Rc<Outbox>,
    /// What it takes of what may be on its way.
    _room: Permit,
    is_settled: bool,
}

impl Row {
    fn settle(mut self, coordinator: &Coordinator) {
        debug_assert!(!self.is_settled, "sent-or-kept: settled twice");
        self.is_settled = true;
        self.outbox.settle(coordinator, (self.id, self.written_at));
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        if !self.is_settled {
            self.outbox.leave(self.id);
        }
    }
}

impl Cargo {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.all.iter().map(|one| OVERHEAD + one.0.len()).sum()
    }

    pub(super) fn add_here(&mut self, shard: u16, mutation: FrozenMutation) {
        self.note(&mutation);
        self.here.entry(shard).or_default().push(mutation);
    }

    pub(super) fn add(&mut self, to: &Replica, is_awaited: bool, mutation: &FrozenMutation) {
        debug_assert!(!to.is_here, "seen-here: sent to this node");
        self.note(mutation);
        let parcels = &mut self.there[usize::from(!is_awaited)];
        let new = || Parcel { replica: *to, mutations: Vec::new() };
        parcels.entry(to.host_id).or_insert_with(new).mutations.push(mutation.clone());
    }

    /// Of one mutation after the other: it may go to several.
    fn note(&mut self, mutation: &FrozenMutation) {
        if self.all.last() != Some(mutation) {
            self.all.push(mutation.clone());
        }
    }
}

impl Coordinator {
    /// The row of the outbox for it, and what is to be sent once that is kept.
    pub(super) fn pack(
        &self,
        cargo: Cargo,
        room: Permit,
        under_way: Entered<Rc<Epochs>>,
    ) -> (FrozenMutation, Shipment) {
        assert!(!cargo.is_empty(), "sent-or-kept: a row of nothing");
        let (logged, row) = new_row(self, &cargo.all);
        let outbox = self.views.outbox.clone();
        let (id, written_at) = (logged.id, logged.written_at);
        let row_on_its_way = Row { id, written_at, outbox, _room: room, is_settled: false };
        (row, Shipment { cargo, row: row_on_its_way, under_way })
    }
}

/// Sends a shipment; returns when all has come that its writer waits for (*seen-here*).
pub(super) async fn send(
    coordinator: &Rc<Coordinator>,
    shipment: Shipment,
) -> Result<(), WriteError> {
    let (tell, told) = oneshot();
    let sender = coordinator.clone();
    coordinator.background.spawn(async move {
        let Shipment { cargo, row, under_way: _under_way } = shipment;
        let Cargo { here, there: [awaited, others], .. } = cargo;
        let (written_at, mut row) = (row.written_at, Some(row));
        if sender.is_planted(Planted::SettlesEarly) {
            row.take().into_iter().for_each(|row| row.settle(&sender));
        }
        let first = async {
            let here = write_here(&sender, here);
            let (here, there) = join(here, bring_all(&sender, awaited, written_at)).await;
            let has_all = here.is_ok() && there.iter().all(|one| *one == Brought::Told);
            let is_safe = here.is_ok() && there.iter().all(Brought::is_safe);
            let _ = tell.send(match (here, has_all) {
                (Ok(()), false) => Err(WriteError::Overloaded("replicas of a synchronous view")),
                (here, _) => here,
            });
            is_safe
        };
        let (first, rest) = join(first, bring_all(&sender, others, written_at)).await;
        if let Some(row) = row
            && first
            && rest.iter().all(Brought::is_safe)
        {
            row.settle(&sender);
        }
    });
    told.await.unwrap_or(Err(WriteError::Stopped))
}

/// On the other shards of this node.
pub(super) async fn write_here(
    coordinator: &Coordinator,
    here: BTreeMap<u16, Vec<FrozenMutation>>,
) -> Result<(), WriteError> {
    let counters = &coordinator.views.outbox.counters;
    let write = async |(shard, mutations): (u16, Vec<FrozenMutation>)| {
        debug_assert!(shard != coordinator.shard, "with-the-write: this shard has its own");
        coordinator.count_call(shard);
        let count = mutations.len() as u64;
        let write = move || async move { own_storage()?.apply_all(mutations).await };
        let written = runtime::on_shard(shard, write).await;
        match &written {
            Ok(()) => counters.pushed_local.add(count),
            Err(_) => counters.failed_local.add(count),
        }
        match written {
            // It was dropped: it wants nothing any more.
            Err(WriteError::UnknownTable(_)) => Ok(()),
            written => written,
        }
    };
    join_all(here.into_iter().map(write)).await.into_iter().collect()
}

/// To other nodes.
pub(super) async fn bring_all(
    coordinator: &Coordinator,
    parcels: BTreeMap<Uuid, Parcel>,
    written_at: i64,
) -> Vec<Brought> {
    join_all(parcels.into_values().map(|parcel| bring(coordinator, parcel, written_at))).await
}

/// To one: so many at a time.
async fn bring(coordinator: &Coordinator, parcel: Parcel, written_at: i64) -> Brought {
    let Parcel { replica, mutations } = parcel;
    debug_assert!(!mutations.is_empty(), "sent-or-kept: nothing is sent");
    let counters = &coordinator.views.outbox.counters;
    let (mut worst, mut left) = (Brought::Told, mutations.into_iter().peekable());
    while left.peek().is_some() {
        let (mut together, mut bytes) = (Vec::new(), 0);
        while let Some(next) = left.peek()
            && together.len() < AT_ONCE_MAX
            && (together.is_empty() || bytes + next.0.len() <= BYTES_AT_ONCE_MAX)
        {
            bytes += next.0.len();
            together.extend(left.next());
        }
        let count = together.len() as u64;
        assert!(0 < count, "runs-to-its-end: nothing is taken");
        let brought = nodes::bring_to(coordinator, &replica, together, written_at, TIMEOUT).await;
        match &brought {
            Brought::Told => counters.pushed_remote.add(count),
            Brought::Hinted => {
                counters.failed_remote.add(count);
                counters.hinted.add(count);
            }
            Brought::Barred(why) | Brought::Not(why) => {
                counters.failed_remote.add(count);
                let host = replica.host_id;
                tracing::debug!(target: "views", %host, "what is of a view is sent later: {why}");
            }
        }
        worst = worst.max(brought);
    }
    worst
}
