//! Batches: `BEGIN BATCH ..` as text, and BATCH messages.

use crate::error::CqlError;
use crate::modify::{
    Existing, OwnedStatement, Shown, Write, add_to, check_consistency, check_level, check_sizes,
    check_view_keys, default_timestamp, existing, metadata_of_existing, note_views, on_owner,
    partition_keys, refused, shown_of_existing, tell_exceeded,
};
use crate::options::Options;
use crate::request::Request;
use crate::response::Response;
use crate::session::BatchForm;
use cluster::{TableEntry, TableKind};
use model::{TableId, Token};
use mutation::MutationBuilder;
use plan::modify::{ModifyPlan, metadata_of_batch, shown_of_batch};
use plan::restrictions::Keys;
use plan::values::Value;
use plan::{Plan, Statement};
use replication::{BatchEntry, Coordinator, WriteKind, WriteOptions};
use std::collections::BTreeSet;
use std::rc::Rc;
use stdx::HashMap;
use syntax::ast::BatchKind;

/// A statement of a batch with its values.
#[derive(Clone, Copy)]
pub(crate) struct Item<'a> {
    pub(crate) plan: &'a ModifyPlan,
    pub(crate) values: &'a [Value<'a>],
    /// Where the plan is from.
    pub(crate) statement: &'a Statement,
    pub(crate) part: Option<usize>,
}

/// Executes a batch.
pub(crate) async fn execute(
    kind: BatchKind,
    items: &[Item<'_>],
    timestamp: Option<i64>,
    request: &Request<'_>,
    form: BatchForm,
) -> Result<Response, CqlError> {
    check_level(request)?;
    let conditional = items.iter().any(|item| item.plan.is_conditional());
    if !conditional {
        check_consistency(request)?;
    }
    let timestamp = match timestamp {
        Some(timestamp) => timestamp,
        None => default_timestamp(request)?,
    };
    if items.iter().any(|item| item.plan.table.kind == TableKind::Virtual) {
        return Err(refused(request, "virtual tables cannot be written in batches"));
    }
    if conditional {
        return owned(items, request, timestamp, form).await;
    }
    let (entries, bytes) = mutations(items, request, timestamp).await?;
    if let Some(warning) = check_size(&entries, bytes, request.options)? {
        request.warn(warning);
    }
    let coordinator = request.coordinator;
    if entries.is_empty() {
        return Ok(Response::VOID);
    }
    let is_counter = items.iter().any(|item| item.plan.is_counter());
    if is_counter {
        let options = request.write_options(WriteKind::Counter);
        check_limits(items, &entries, request, &options).await?;
        for BatchEntry { table, token, mutation } in entries {
            coordinator.increment(&table, token, mutation, &options).await?;
        }
        return Ok(Response::VOID);
    }
    let (kind, write_kind) = match kind {
        BatchKind::Logged => (replication::BatchKind::Logged, WriteKind::Batch),
        _ => (replication::BatchKind::Unlogged, WriteKind::UnloggedBatch),
    };
    let mut options = request.write_options(write_kind);
    check_limits(items, &entries, request, &options).await?;
    for entry in entries.iter().filter(|entry| Coordinator::limits_requests(&entry.table)) {
        let limit = request.admit_write(&entry.table, entry.token).await?;
        options.limit = options.limit.or(limit);
    }
    let count = entries.len();
    request.note(|| format!("Writing {count} partitions to the commitlogs and memtables"));
    entries.iter().for_each(|entry| note_views(&entry.table, request));
    coordinator.write_batch(kind, entries, &options).await?;
    request.note(|| "The writes are acknowledged".to_owned());
    Ok(Response::VOID)
}

/// Refuses a batch that exceeds a hard limit of large data guardrails; warns of soft ones.
async fn check_limits(
    items: &[Item<'_>],
    entries: &[BatchEntry],
    request: &Request<'_>,
    options: &WriteOptions,
) -> Result<(), CqlError> {
    let guarded = guarded(items);
    for id in &guarded {
        let of_table = entries.iter().filter(|entry| entry.table.schema.id == *id);
        let exceeded = request.coordinator.check_sizes(of_table.clone(), options).await?;
        if let Some(entry) = of_table.clone().next() {
            tell_exceeded(&entry.table.schema, exceeded, request);
        }
    }
    Ok(())
}

/// The tables with limits that a batch writes to, each once.
fn guarded(items: &[Item<'_>]) -> Vec<TableId> {
    let mut ids: Vec<TableId> = Vec::new();
    for item in items.iter().filter(|item| item.plan.is_guarded) {
        let id = item.plan.table.schema.id;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids
}

/// Refuses a batch of several partitions that is over the limit; gives a warning of one that is
/// large. Both are logged.
fn check_size(
    entries: &[BatchEntry],
    bytes: usize,
    options: &Options,
) -> Result<Option<String>, CqlError> {
    let over = |kind: &str, bytes_max: usize| {
        let table = |entry: &BatchEntry| {
            format!("{}.{}", entry.table.schema.keyspace, entry.table.schema.name)
        };
        let tables: BTreeSet<String> = entries.iter().map(table).collect();
        let tables: Vec<String> = tables.into_iter().collect();
        format!(
            "Batch modifying {} partitions in {} is of size {bytes} bytes, exceeding specified \
             {kind} threshold of {bytes_max} by {}.",
            entries.len(),
            tables.join(", "),
            bytes - bytes_max
        )
    };
    if entries.len() < 2 {
        return Ok(None);
    }
    let warn_bytes = (options.batch_size_warn_threshold_in_kb.get() as usize) << 10;
    let fail_bytes = (options.batch_size_fail_threshold_in_kb.get() as usize) << 10;
    if bytes <= warn_bytes.min(fail_bytes) {
        return Ok(None);
    }
    if fail_bytes < bytes {
        tracing::error!(target: "BatchStatement", "{}", over("FAIL", fail_bytes));
        return Err(CqlError::invalid("Batch too large"));
    }
    let warning = over("WARN", warn_bytes);
    tracing::warn!(target: "BatchStatement", "{warning}");
    Ok(Some(warning))
}

/// What a partition of a batch counts besides its bytes: about what it takes in memory.
const PARTITION_BYTES: usize = 256;

/// The mutations of a batch, one per partition, and their size in bytes.
async fn mutations(
    items: &[Item<'_>],
    request: &Request<'_>,
    timestamp: i64,
) -> Result<(Vec<BatchEntry>, usize), CqlError> {
    let mut builders: Vec<(&Rc<TableEntry>, Token, MutationBuilder<'_>)> = Vec::new();
    let mut by_key: HashMap<(TableId, Vec<u8>), usize> = HashMap::default();
    for item in items {
        let request = Request { values: item.values, ..*request };
        let write = request.step(|_| Write::of(item.plan, &request, timestamp)).await?;
        let keys = match request.step(|env| partition_keys(item.plan, env)).await? {
            Keys::One(key) => vec![(Token::of(&key), key)],
            Keys::Many(keys) => keys,
        };
        for (token, key) in keys {
            let table = &item.plan.table;
            let existing = match item.plan.needs_owner() {
                true => existing(item.plan, &key, &request).await?,
                false => Existing::default(),
            };
            let next = builders.len();
            let builder = MutationBuilder::new(&table.schema, &key);
            // Increments add up, they do not merge: each is applied by itself.
            let at = match item.plan.is_counter() {
                true => next,
                false => *by_key.entry((table.schema.id, key)).or_insert(next),
            };
            if at == next {
                builders.push((table, token, builder));
            }
            let builder = &mut builders[at].2;
            match request.calls {
                None => add_to(builder, item.plan, &write, &existing)?,
                // Calls may be interrupted: the builder takes all of it, or nothing.
                Some(_) => {
                    let build = || {
                        let mut with = builder.clone();
                        add_to(&mut with, item.plan, &write, &existing).map(|()| with)
                    };
                    let with = request.step(|_| build()).await?;
                    *builder = with;
                }
            }
        }
    }
    let guarded = guarded(items);
    let mut entries = Vec::with_capacity(builders.len());
    let mut bytes = 0;
    for (table, token, builder) in builders {
        if !builder.is_empty() {
            let mutation = builder.freeze();
            check_view_keys(table, &mutation)?;
            if guarded.contains(&table.schema.id) {
                check_sizes(&table.schema, &mutation, request)?;
            }
            bytes += PARTITION_BYTES + mutation.0.len();
            entries.push(BatchEntry { table: table.clone(), token, mutation });
        }
    }
    Ok((entries, bytes))
}

/// A conditional batch: all of it must be of one partition.
async fn owned(
    items: &[Item<'_>],
    request: &Request<'_>,
    timestamp: i64,
    form: BatchForm,
) -> Result<Response, CqlError> {
    let mut place: Option<(&Rc<TableEntry>, Vec<u8>)> = None;
    let mut owned = Vec::with_capacity(items.len());
    for item in items {
        let request = Request { values: item.values, ..*request };
        let keys = request.step(|env| partition_keys(item.plan, env)).await?;
        let Keys::One(key) = keys else {
            return Err(CqlError::invalid(
                "IN on the partition key is not supported with conditional updates",
            ));
        };
        let table = &item.plan.table;
        match &place {
            None => place = Some((table, key)),
            Some((first, _)) if first.schema.id != table.schema.id => {
                return Err(CqlError::invalid("BATCH with conditions cannot span multiple tables"));
            }
            Some((_, first)) if *first != key => {
                return Err(CqlError::invalid(
                    "BATCH with conditions cannot span multiple partitions",
                ));
            }
            Some(_) => {}
        }
        owned.push(OwnedStatement::new(item.statement, item.part, item.values));
    }
    let Some((table, key)) = place else { return Ok(Response::VOID) };
    note_views(table, request);
    let plans = items.iter().map(|item| item.plan);
    let shown = match form {
        BatchForm::Scylla => {
            shown_of_batch(plans.clone()).map(|shown| Shown::of_statements(&shown))
        }
        BatchForm::Cassandra => shown_of_existing(plans.clone()),
    };
    let outcome = on_owner(table, key, owned, shown, request, timestamp).await?;
    let result = match (form, items.first().map(|item| &item.statement.plan)) {
        (BatchForm::Cassandra, _) => metadata_of_existing(plans, outcome.is_bare),
        (BatchForm::Scylla, Some(Plan::Batch(plan))) => plan.result.clone(),
        (BatchForm::Scylla, _) => metadata_of_batch(plans),
    };
    Ok(outcome.answer(result))
}
