//! What a node keeps of generations and promises: facts of `system.scylla_local`.
//!
//! Invariants
//!  - *only-onward*: a fact is written at the time of its number, so that a later one replaces an
//!    earlier one whatever the clock says.

use super::decide::{Generation, Promise};
use super::form;
use crate::node_tables::read_table;
use crate::registry::Cluster;
use catalog::facts;
use model::Uuid;
use mutation::FrozenMutation;
use storage::Storage;

/// The fact of the generation, where it is not the first.
const GENERATION: &str = "nereid_group0_generation";
/// The fact of the last promise.
const PROMISE: &str = "nereid_group0_promise";

/// What was kept.
#[derive(Debug, Default)]
pub(in crate::membership) struct Kept {
    /// The generation, and the group whose log has this node's state until the generation's does.
    pub(in crate::membership) generation: Option<(Generation, Uuid)>,
    pub(in crate::membership) promised: Option<Promise>,
}

/// What this node has kept.
pub(in crate::membership) async fn kept(storage: &Storage) -> Result<Kept, String> {
    let found = read_table(storage, "system", "scylla_local").await;
    let found = found.map_err(|error| error.to_string())?;
    let damaged =
        |name: &str, text: &str| format!("system.scylla_local is damaged: {name} is {text}");
    let text = facts::find(&found, GENERATION);
    let generation = match form::generation_of(&text) {
        None if !text.is_empty() => return Err(damaged(GENERATION, &text)),
        generation => generation,
    };
    let text = facts::find(&found, PROMISE);
    let promised = match form::promise_of(&text) {
        None if !text.is_empty() => return Err(damaged(PROMISE, &text)),
        promised => promised,
    };
    let is_later = generation.as_ref().is_none_or(|(generation, _)| 0 < generation.number);
    debug_assert!(is_later, "only-onward: the first generation was kept");
    Ok(Kept { generation, promised })
}

pub(super) fn generation_fact(
    cluster: &Cluster,
    generation: &Generation,
    from: Uuid,
) -> FrozenMutation {
    assert!(0 < generation.number, "only-onward: the first generation is not told");
    let text = form::generation_text(generation, from);
    debug_assert!(
        form::generation_of(&text).is_some_and(|(found, _)| found == *generation),
        "only-onward: {text}"
    );
    facts::fact(&cluster.schema(), GENERATION, &text, generation.number as i64)
}

pub(super) fn promise_fact(cluster: &Cluster, promise: &Promise) -> FrozenMutation {
    assert!(0 < promise.number, "only-onward: a promise of nothing");
    let text = form::promise_text(promise);
    debug_assert_eq!(form::promise_of(&text).as_ref(), Some(promise), "only-onward: {text}");
    facts::fact(&cluster.schema(), PROMISE, &text, promise.number as i64)
}
