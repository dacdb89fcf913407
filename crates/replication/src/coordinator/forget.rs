//! Batches that are applied, and whose rows go: here, and where other nodes keep them. In the
//! background, as many together as there are: who is not told forgets them when it has replayed
//! them.
//!
//! Invariants
//!  - *forgotten-when-durable*: the row of a batch is removed only after all of it was applied,
//!    and not before what was applied is durable.
//!  - *bounded*: batches that wait to be forgotten, and requests to forget, have bounds; beyond
//!    them rows stay until they are replayed.

use super::due::{Due, take_due};
use super::nodes::{self, FORGOTTEN_AT_ONCE_MAX};
use super::{Coordinator, own_coordinator};
use crate::batchlog::Logged;
use model::Uuid;
use runtime::sync::Receiver;
use runtime::time::Instant;
use std::collections::BTreeMap;

/// Batches of one shard that wait to be forgotten at most.
pub(crate) const FORGETTING_MAX: usize = 1 << 16;
/// Requests of one shard to forget that are under way at most.
const TELLING_MAX: u32 = 64;

const _: () = assert!(FORGOTTEN_AT_ONCE_MAX <= FORGETTING_MAX, "a part of what waits");

/// Who keeps a batch, or may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holders {
    pub(crate) is_here: bool,
    pub(crate) hosts: Vec<Uuid>,
}

impl Holders {
    /// This node.
    pub(crate) fn here() -> Holders {
        Holders { is_here: true, hosts: Vec::new() }
    }
}

/// A batch that is applied.
#[derive(Debug)]
pub(crate) struct Applied {
    logged: Logged,
    holders: Holders,
    /// When it is durable.
    due: Instant,
}

/// Schedules the removal of a batch's rows, for when all of the batch is durable.
pub(crate) fn forget(coordinator: &Coordinator, logged: Logged, holders: Holders) {
    let due = Instant::now() + coordinator.config.batch_memory;
    if coordinator.applied.try_send(Applied { logged, holders, due }).is_err() {
        stdx::probe!("a batch is remembered until it is replayed");
    }
}

impl Due for Applied {
    fn due(&self) -> Instant {
        self.due
    }
}

/// Removes the rows of batches that are durable, for as long as the coordinator lives.
pub(crate) async fn forget_durable(mut applied: Receiver<Applied>) {
    let mut next = None;
    while let Some(due) = take_due(&mut applied, &mut next, FORGOTTEN_AT_ONCE_MAX).await {
        debug_assert!(!due.is_empty(), "forgotten-when-durable: nothing is");
        remove(&due).await;
    }
}

async fn remove(batches: &[Applied]) {
    let Ok(coordinator) = own_coordinator() else { return };
    let mut elsewhere: BTreeMap<Uuid, Vec<Logged>> = BTreeMap::new();
    for Applied { logged, holders, .. } in batches {
        holders.hosts.iter().for_each(|host| elsewhere.entry(*host).or_default().push(*logged));
    }
    for (host, batches) in elsewhere {
        tell(&coordinator, host, batches);
    }
    let here = batches.iter().filter(|one| one.holders.is_here);
    let here: Vec<Logged> = here.map(|one| one.logged).collect();
    if let Err(error) = coordinator.forget_batches(&here).await {
        tracing::warn!(
            target: "batchlog", %error,
            "cannot remove applied batches from system.batchlog"
        );
    }
}

/// Has another node forget batches, unless too many are being told.
fn tell(coordinator: &Coordinator, host: Uuid, batches: Vec<Logged>) {
    let telling = coordinator.telling.clone();
    assert!(!batches.is_empty(), "bounded: a request to forget nothing");
    debug_assert!(telling.get() <= TELLING_MAX, "bounded: {} are told", telling.get());
    if telling.get() == TELLING_MAX {
        stdx::probe!("a node replays batches that it need not");
        return;
    }
    telling.set(telling.get() + 1);
    coordinator.background.spawn(async move {
        nodes::tell_to_forget(host, &batches).await;
        assert!(0 < telling.get(), "bounded: more were told than are counted");
        telling.set(telling.get() - 1);
    });
}
