//! Parts of committed transactions, on their way to their replicas ([`crate::transactions`]).

use super::Coordinator;
use super::peers::Told;
use super::write::Spread;
use crate::coordinator::{lwt, own_coordinator};
use crate::error::WriteError;
use crate::options::{Consistency, WriteKind, WriteOptions};
use crate::paxos::Place;
use crate::transactions::Part;
use cluster::TableEntry;
use model::Token;
use runtime::time::timeout;
use std::time::Duration;

/// Has the replicas of a partition learn what a committed transaction makes of it; a majority of
/// each data centre has, when this ends. However the partition was held, and wherever it is now.
pub(in crate::coordinator) async fn learn_part(
    coordinator: &Coordinator,
    table: &TableEntry,
    (place, part): (Place, &Part),
    time: Duration,
) -> Result<(), WriteError> {
    let is_told = part.is_alone() || !part.is_empty();
    debug_assert!(is_told, "kept-until-learned: nothing is to be learned");
    let token = Token::of(&place.key);
    debug_assert!(table.schema.id == place.table, "kept-until-learned: of another table");
    let (consistency, kind) = (Consistency::EachQuorum, WriteKind::Simple);
    let options = WriteOptions { consistency, timeout: time, kind, limit: None };
    let writers = coordinator.writers(table, token);
    if let Some(replicas) = writers.filter(|_| !part.is_empty()) {
        let told = match part.ballot.is_alone() {
            // There was one replica when it was held.
            true => Told::one(part.mutation.clone()),
            false => Told::learned(place.clone(), part.ballot, part.mutation.clone()),
        };
        coordinator.spread(Spread::of(table, replicas, told), &options).await?;
        if !part.is_alone() {
            return Ok(());
        }
        // It is held here no longer.
    }
    learn_alone(table, (place, part), time).await
}

/// The same on this node alone.
pub(in crate::coordinator) async fn learn_alone(
    table: &TableEntry,
    (place, part): (Place, &Part),
    time: Duration,
) -> Result<(), WriteError> {
    debug_assert!(table.schema.id == place.table, "kept-until-learned: of another table");
    let (consistency, kind) = (Consistency::EachQuorum, WriteKind::Simple);
    let shard = table.tablets.shard_of(Token::of(&place.key));
    let (ballot, mutation) = (part.ballot, part.mutation.clone());
    let learn = move || async move {
        if !ballot.is_alone() {
            let applied = own_coordinator()?.apply(shard, mutation).await;
            return applied.map(Ok);
        }
        Ok(lwt::learn_part(&place, ballot, mutation).await)
    };
    let learned = timeout(time, runtime::on_shard(shard, learn)).await;
    let (received, required) = (0, 1);
    match learned {
        Ok(Ok(learned)) => learned,
        Ok(Err(error)) => Err(crate::error::write_failed(error, consistency, kind, required)),
        Err(_) => Err(WriteError::Timeout { consistency, received, required, kind }),
    }
}
