//! A batch by the shards of this node that own its parts.
//!
//! Invariants
//!  - *complete*: every entry is written, on the shard that owns it, and what one shard owns in
//!    the batch's order.

use crate::coordinator::{BatchEntry, Coordinator, own_storage};
use mutation::FrozenMutation;
use runtime::task::join_all;
use runtime::time::sleep;
use std::collections::BTreeMap;
use std::time::Duration;

/// Before a group is divided anew.
const PARTED_PAUSE: Duration = Duration::from_millis(1);

/// The mutations of a batch by owning shard.
pub(crate) type Groups = BTreeMap<u16, Vec<FrozenMutation>>;

/// Splits a batch; what one shard owns keeps its order.
pub(crate) fn by_shard(entries: Vec<BatchEntry>) -> Groups {
    let mut groups = Groups::new();
    let asked = entries.len();
    for entry in entries {
        entry.check();
        let shard = entry.table.tablets.shard_of(entry.token);
        groups.entry(shard).or_default().push(entry.mutation);
    }
    let grouped: usize = groups.values().map(Vec::len).sum();
    assert!(grouped == asked, "complete: {grouped} of {asked} entries");
    groups
}

/// Applies every group on its shard at once; the first error is returned when all have ended. What
/// is not of one shard any more, since a tablet has gone to another one, is divided anew.
pub(crate) async fn apply(
    coordinator: &Coordinator,
    groups: Groups,
) -> Result<(), storage::WriteError> {
    let applied = groups.into_iter().map(|(shard, mutations)| async move {
        match apply_on(coordinator, shard, mutations).await {
            Ok(applied) => applied,
            Err(parted) => {
                let groups = divided_anew(coordinator, parted).await?;
                Box::pin(apply(coordinator, groups)).await
            }
        }
    });
    join_all(applied).await.into_iter().collect()
}

/// Groups of what was one, by where tablets are now.
pub(crate) async fn divided_anew(
    coordinator: &Coordinator,
    parted: Vec<FrozenMutation>,
) -> Result<Groups, storage::WriteError> {
    stdx::probe!("a group is divided anew: a tablet has gone to another shard");
    // Until this shard shows where it is.
    sleep(PARTED_PAUSE).await;
    let (mut groups, asked) = (Groups::new(), parted.len());
    for mutation in parted {
        let shard = coordinator.shard_of(&mutation)?;
        groups.entry(shard).or_default().push(mutation);
    }
    let grouped: usize = groups.values().map(Vec::len).sum();
    assert!(grouped == asked, "complete: {grouped} of {asked} mutations");
    Ok(groups)
}

/// Applies a group on its shard, or gives it back: it is not of one shard any more, and nothing of
/// it is written.
pub(crate) async fn apply_on(
    coordinator: &Coordinator,
    shard: u16,
    mutations: Vec<FrozenMutation>,
) -> Result<Result<(), storage::WriteError>, Vec<FrozenMutation>> {
    debug_assert!(!mutations.is_empty(), "complete: a part of nothing");
    if shard == coordinator.shard {
        return coordinator.storage.apply_group(mutations).await;
    }
    coordinator.count_call(shard);
    let apply = move || async move {
        match own_storage() {
            Ok(storage) => storage.apply_group(mutations).await,
            Err(error) => Ok(Err(error)),
        }
    };
    runtime::on_shard(shard, apply).await
}
