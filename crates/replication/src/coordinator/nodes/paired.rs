//! Mutations of a view on their way to one of its replicas, from the one that is paired with it.
//!
//! Invariants
//!  - *told-or-hinted*: what counts as brought is acknowledged by the replica, or a hint of it is
//!    on the disk.

use super::Coordinator;
use super::peers::Told;
use crate::hints::decide::Denied;
use crate::hints::{Hints, Missed};
use crate::placement::Replica;
use mutation::FrozenMutation;
use std::time::Duration;

/// What became of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Brought {
    Told,
    Hinted,
    /// Why not: the node is down, and no hint may be kept for it.
    Barred(String),
    /// Why not now.
    Not(String),
}

impl Brought {
    /// Whether they cannot be lost any more.
    pub(crate) fn is_safe(&self) -> bool {
        matches!(self, Brought::Told | Brought::Hinted)
    }
}

/// Brings mutations that were written at some time, in microseconds, to another node.
pub(crate) async fn bring_to(
    coordinator: &Coordinator,
    replica: &Replica,
    mutations: Vec<FrozenMutation>,
    written_at: i64,
    time: Duration,
) -> Brought {
    assert!(!replica.is_here, "told-or-hinted: this node is told of its own");
    let told = Told::new(mutations);
    debug_assert!(0 < written_at, "told-or-hinted: of {written_at}");
    let is_alive = coordinator.places().is_alive(replica.host_id);
    let why = match is_alive {
        true => match coordinator.tell(replica, &told, time).await {
            Ok(()) => return Brought::Told,
            Err(refusal) => refusal.text,
        },
        false => "the node is down".to_owned(),
    };
    let Some(hints) = Hints::of_shard() else { return Brought::Not(why) };
    let (host, bytes, request) = (replica.host_id, told.request_bytes(), || told.request());
    let missed = Missed { host, written_at, bytes, request: &request };
    match hints.keep_durably(&missed).await {
        Ok(true) => Brought::Hinted,
        Ok(false) => Brought::Not(why),
        Err(denied) => {
            let passes = is_alive || matches!(denied, Denied::Crowded | Denied::OverQuota);
            let why = format!("{why}; {denied:?}");
            if passes { Brought::Not(why) } else { Brought::Barred(why) }
        }
    }
}
