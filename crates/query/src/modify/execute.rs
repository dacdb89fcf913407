//! Unconditional writes.

use super::build::{Existing, Write, add_to, partition_keys};
use super::computed;
use super::guardrails::{check_level, check_sizes, tell_exceeded};
use super::owner::on_owner;
use super::view_keys::{check_view_keys, note_views};
use super::work::{OwnedStatement, Shown};
use crate::error::CqlError;
use crate::request::Request;
use crate::response::Response;
use cluster::TableKind;
use model::Token;
use mutation::{FrozenMutation, MutationBuilder};
use plan::Statement;
use plan::modify::ModifyPlan;
use plan::modify::check_timestamp;
use plan::restrictions::Keys;
use replication::{BatchEntry, BatchKind, Consistency, Coordinator, WriteKind, WriteOptions};

/// Executes a write. `text` finds its plan again on the shard that owns the partition.
pub(crate) async fn execute(
    plan: &ModifyPlan,
    request: &Request<'_>,
    statement: &Statement,
) -> Result<Response, CqlError> {
    check_level(request)?;
    if !plan.is_conditional() {
        check_consistency(request)?;
    }
    let default = default_timestamp(request)?;
    let keys = request.step(|env| partition_keys(plan, env)).await?;
    if plan.table.kind == TableKind::Virtual {
        return Box::pin(computed::execute(plan, request, keys, default)).await;
    }
    if plan.needs_owner() {
        return Box::pin(owned(plan, request, statement, keys, default)).await;
    }
    let write = request.step(|_| Write::of(plan, request, default)).await?;
    let schema = &plan.table.schema;
    let build = |key: &[u8]| {
        let mut builder = MutationBuilder::reusing(schema, key, request.scratch.take());
        add_to(&mut builder, plan, &write, &Existing::default())?;
        let is_empty = builder.is_empty();
        let (mutation, buffer) = builder.freeze_reused();
        request.scratch.give_back(buffer);
        check_view_keys(&plan.table, &mutation)?;
        if plan.is_guarded {
            check_sizes(schema, &mutation, request)?;
        }
        Ok::<_, CqlError>((!is_empty).then_some(mutation))
    };
    let key = match keys {
        Keys::One(key) if !plan.is_guarded => key,
        keys => return Box::pin(several(plan, request, keys, build)).await,
    };
    let kind = if plan.is_counter() { WriteKind::Counter } else { WriteKind::Simple };
    let mut options = request.write_options(kind);
    let coordinator = request.coordinator;
    let token = Token::of(&key);
    if !request.parameters.is_fetched {
        coordinator.prefetch(&plan.table, token);
    }
    let built = request.step(|_| build(&key)).await?;
    let Some(mutation) = built else { return Ok(Response::VOID) };
    if plan.is_counter() {
        let led = coordinator.increment(&plan.table, token, mutation, &options);
        Box::pin(led).await?;
    } else {
        request.note(|| {
            let (bytes, shard) = (mutation.size_bytes(), plan.table.tablets.shard_of(token));
            format!("Writing {bytes} bytes to the commitlog and a memtable of shard {shard}")
        });
        note_views(&plan.table, request);
        if Coordinator::limits_requests(&plan.table) {
            options.limit = Box::pin(request.admit_write(&plan.table, token)).await?;
        }
        coordinator.write(&plan.table, token, mutation, &options).await?;
        request.note(|| "The write is acknowledged".to_owned());
    }
    Ok(Response::VOID)
}

/// Writes of several partitions, and all writes to a table with limits for what is large.
async fn several(
    plan: &ModifyPlan,
    request: &Request<'_>,
    keys: Keys,
    build: impl Fn(&[u8]) -> Result<Option<FrozenMutation>, CqlError>,
) -> Result<Response, CqlError> {
    let keys = match keys {
        Keys::One(key) => vec![(Token::of(&key), key)],
        Keys::Many(keys) => keys,
    };
    let mut entries = Vec::with_capacity(keys.len());
    for (token, key) in keys {
        if let Some(mutation) = request.step(|_| build(&key)).await? {
            entries.push(BatchEntry { table: plan.table.clone(), token, mutation });
        }
    }
    let coordinator = request.coordinator;
    let mut limit = None;
    if Coordinator::limits_requests(&plan.table) && !plan.is_counter() {
        for entry in &entries {
            limit = limit.or(request.admit_write(&entry.table, entry.token).await?);
        }
    }
    let tell = |exceeded| tell_exceeded(&plan.table.schema, exceeded, request);
    if plan.is_counter() {
        let options = request.write_options(WriteKind::Counter);
        if plan.is_guarded {
            tell(coordinator.check_sizes(entries.iter(), &options).await?);
        }
        for BatchEntry { table, token, mutation } in entries {
            coordinator.increment(&table, token, mutation, &options).await?;
        }
    } else if plan.is_guarded
        && entries.len() == 1
        && let Some(BatchEntry { table, token, mutation }) = entries.pop()
    {
        let options = WriteOptions { limit, ..request.write_options(WriteKind::Simple) };
        tell(coordinator.write_within(&table, token, mutation, &options).await?);
    } else if !entries.is_empty() {
        let options = WriteOptions { limit, ..request.write_options(WriteKind::UnloggedBatch) };
        note_views(&plan.table, request);
        if plan.is_guarded {
            tell(coordinator.check_sizes(entries.iter(), &options).await?);
        }
        coordinator.write_batch(BatchKind::Unlogged, entries, &options).await?;
    }
    Ok(Response::VOID)
}

/// The timestamp of a write that says none, microseconds.
pub(crate) fn default_timestamp(request: &Request<'_>) -> Result<i64, CqlError> {
    match request.parameters.timestamp {
        Some(timestamp) => {
            request.options.met.drift.count(timestamp.abs_diff(request.now_micros));
            check_timestamp(timestamp, request.now_micros)?;
            Ok(timestamp)
        }
        None => Ok(request.timestamps.next(request.now_micros)),
    }
}

/// Refuses levels that no write has.
pub(crate) fn check_consistency(request: &Request<'_>) -> Result<(), CqlError> {
    let level = request.parameters.consistency;
    if matches!(level, Consistency::Serial | Consistency::LocalSerial) {
        let text = "You must use conditional updates for serializable writes";
        return Err(CqlError::invalid(text));
    }
    Ok(())
}

async fn owned(
    plan: &ModifyPlan,
    request: &Request<'_>,
    statement: &Statement,
    keys: Keys,
    timestamp: i64,
) -> Result<Response, CqlError> {
    let keys = match keys {
        Keys::One(key) => vec![key],
        Keys::Many(keys) => keys.into_iter().map(|(_, key)| key).collect(),
    };
    let shown = plan.condition.as_ref().map(|it| Shown::of_statements(&it.shown));
    let mut response = Response::VOID;
    for key in keys {
        note_views(&plan.table, request);
        let owned = vec![OwnedStatement::new(statement, None, request.values)];
        let shown = shown.clone();
        let outcome = on_owner(&plan.table, key, owned, shown, request, timestamp).await?;
        response = outcome.answer(plan.result().cloned());
    }
    Ok(response)
}
