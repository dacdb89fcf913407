//! A batch by the shards of this node that own its parts.
//!
//! Invariants
//!  - *complete*: every entry is written, on the shard that owns it, and what one shard owns in
//!    the batch's order.

use crate::coordinator::{BatchEntry, Coordinator, own_storage};
use mutation::FrozenMutation;
use runtime::task::join_all;
use std::collections::BTreeMap;

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

/// Applies every group on its shard at once; the first error is returned when all have ended.
pub(crate) async fn apply(
    coordinator: &Coordinator,
    groups: Groups,
) -> Result<(), storage::WriteError> {
    let applied =
        groups.into_iter().map(|(shard, mutations)| apply_on(coordinator, shard, mutations));
    join_all(applied).await.into_iter().collect()
}

async fn apply_on(
    coordinator: &Coordinator,
    shard: u16,
    mutations: Vec<FrozenMutation>,
) -> Result<(), storage::WriteError> {
    debug_assert!(!mutations.is_empty(), "complete: a part of nothing");
    if shard == coordinator.shard {
        return coordinator.storage.apply_all(mutations).await;
    }
    coordinator.count_call(shard);
    let apply = move || async move { own_storage()?.apply_all(mutations).await };
    runtime::on_shard(shard, apply).await
}
