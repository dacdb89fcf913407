//! The other replicas of a range are asked and told.
//!
//! Invariants
//!  - *said-who*: see [`super::range`].

use crate::coordinator::{Coordinator, nodes};
use crate::wire::Refusal;
use crate::wire::sync::{Part, Range};
use messaging::{HostId, Messaging, Payload, Target, ToShard, Verb};
use model::Uuid;
use runtime::task::join_all;
use std::time::Duration;

/// How long a replica may take for one question.
const STEP_TIME: Duration = Duration::from_secs(60);
/// How long one is waited for that is told of the end.
const END_TIME: Duration = Duration::from_secs(2);

pub(super) fn part(range: &Range) -> Part {
    let Range { table, tokens: (first, last), .. } = *range;
    debug_assert!(first <= last, "all-or-nothing: from {first:?} to {last:?}");
    (table, first, last)
}

/// Tells the other replicas something, one way.
pub(super) async fn tell_all(range: &Range, verb: Verb, bytes: &[u8]) {
    let Some(messaging) = Messaging::current() else { return };
    debug_assert!(!range.others.is_empty(), "all-or-nothing: a range of one replica");
    let told = (0..range.others.len()).map(|index| {
        let payload = Payload::from(bytes.to_vec());
        messaging.send(target(range, index), verb, payload, END_TIME)
    });
    drop(join_all(told).await);
}

/// What a node said, with its name.
pub(super) fn said(coordinator: &Coordinator, host: Uuid, text: &str) -> String {
    let name = coordinator.places().told(host).0;
    // Of a call that did not come to an end it is told where to it went.
    let text = text.strip_prefix(&format!("node {host}: ")).unwrap_or(text);
    format!("node {name}: {text}")
}

pub(super) fn target(range: &Range, index: usize) -> Target {
    debug_assert!(index < range.others.len(), "said-who: replica {index}");
    let (host, shard) = range.others[index];
    Target::bulk(HostId(host.as_u128()), ToShard::At(shard))
}

pub(super) async fn call(
    range: &Range,
    index: usize,
    verb: Verb,
    payload: Payload,
) -> Result<Vec<u8>, Refusal> {
    nodes::call(target(range, index), verb, payload, STEP_TIME).await
}
