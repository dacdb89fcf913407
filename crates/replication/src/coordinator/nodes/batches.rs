//! Batches of which a part is on several nodes.
//!
//! Mutations with the same replicas go as one, and each replica applies what one of its shards owns
//! as one. A logged batch of several such parts is in this node's batchlog before any of them is
//! told, and until all of them were acknowledged; a start tries again what was left.
//!
//! Invariants
//!  - *complete*: as in `coordinator::batch`.

use super::write::{Spread, with_kind};
use super::{Coordinator, refuse_write};
use crate::coordinator::{BatchEntry, batch, own_coordinator};
use crate::error::{WriteError, write_failed};
use crate::options::{BatchKind, Consistency, WriteKind, WriteOptions};
use model::Token;
use mutation::{FrozenMutation, FrozenView};
use runtime::task::join_all;
use runtime::time::timeout;
use std::rc::Rc;
use std::time::Duration;

/// How long one try of a batch that is left waits for its replicas.
const RETRY_TIMEOUT: Duration = Duration::from_secs(10);

/// A batch by where it goes.
#[derive(Default)]
struct Parts {
    /// By shard of this node.
    here: batch::Groups,
    spread: Vec<Spread>,
}

impl Parts {
    fn of(coordinator: &Coordinator, entries: Vec<BatchEntry>) -> Parts {
        let mut parts = Parts::default();
        for BatchEntry { table, token, mutation } in entries {
            let Some(replicas) = coordinator.replicas(&table, token) else {
                let shard = table.tablets.shard_of(token);
                parts.here.entry(shard).or_default().push(mutation);
                continue;
            };
            let same = |part: &Spread| {
                Rc::ptr_eq(&part.copies, &table.replication)
                    && (Rc::ptr_eq(&part.replicas, &replicas) || part.replicas == replicas)
            };
            match parts.spread.iter_mut().find(|part| same(part)) {
                Some(part) => part.mutations.push(mutation),
                None => parts.spread.push(Spread {
                    replicas,
                    copies: table.replication.clone(),
                    mutations: vec![mutation],
                    is_here_done: false,
                }),
            }
        }
        parts
    }

    fn count(&self) -> usize {
        self.here.len() + self.spread.len()
    }

    async fn write(
        self,
        coordinator: &Coordinator,
        options: &WriteOptions,
    ) -> Result<(), WriteError> {
        let here = async {
            if self.here.is_empty() {
                return Ok(());
            }
            let applied = timeout(options.timeout, batch::apply(coordinator, self.here)).await;
            let WriteOptions { consistency, kind, .. } = *options;
            match applied {
                Ok(applied) => applied.map_err(|error| write_failed(error, consistency, kind, 1)),
                Err(_) => {
                    let (received, required) = (0, 1);
                    Err(WriteError::Timeout { consistency, received, required, kind })
                }
            }
        };
        let spread =
            join_all(self.spread.into_iter().map(|part| coordinator.spread(part, options)));
        let (here, spread) = runtime::task::join(here, spread).await;
        spread.into_iter().fold(here, |all, one| all.and(one))
    }
}

/// As [`Coordinator::write_batch`], once this node has joined others.
pub(crate) async fn write_batch(
    coordinator: &Coordinator,
    kind: BatchKind,
    entries: Vec<BatchEntry>,
    options: &WriteOptions,
) -> Result<(), WriteError> {
    refuse_write(options.consistency)?;
    let asked = entries.len();
    entries.iter().for_each(BatchEntry::check);
    let parts = Parts::of(coordinator, entries);
    let sum = |parts: &Parts| {
        let spread = parts.spread.iter().map(|part| part.mutations.len());
        parts.here.values().map(Vec::len).chain(spread).sum::<usize>()
    };
    assert!(sum(&parts) == asked, "complete: {} of {asked} entries", sum(&parts));
    if kind == BatchKind::Unlogged || parts.count() < 2 {
        return parts.write(coordinator, options).await;
    }
    let options = with_kind(options, WriteKind::Batch);
    // A task of its own: once remembered the batch goes on, also when its client goes.
    let task = coordinator.background.spawn(write_remembered(parts, options));
    let stopped = || Err(WriteError::Overloaded("the node stops".to_owned()));
    task.await.unwrap_or_else(|_| stopped())
}

async fn write_remembered(parts: Parts, options: WriteOptions) -> Result<(), WriteError> {
    let failed = |error| write_failed(error, options.consistency, options.kind, 1);
    let coordinator = own_coordinator().map_err(failed)?;
    let spread = parts.spread.iter().flat_map(|part| &part.mutations);
    let all: Vec<FrozenMutation> = parts.here.values().flatten().chain(spread).cloned().collect();
    let logged = batch::remember(&coordinator, &all).await.map_err(failed)?;
    let written = parts.write(&coordinator, &options).await;
    match &written {
        Ok(()) => batch::forget(&coordinator, logged),
        // Nobody was told: the client may try again, and nobody else does.
        Err(_) => batch::retry_later(&coordinator, logged, all),
    }
    written
}

/// Whether a part of a batch is on several nodes.
pub(crate) fn is_spread(coordinator: &Coordinator, mutations: &[FrozenMutation]) -> bool {
    let schema = coordinator.cluster.schema();
    mutations.iter().any(|mutation| {
        let table = mutation.view().ok().and_then(|view| schema.table_by_id(view.table()));
        table.is_some_and(|table| coordinator.is_spread(table))
    })
}

/// Writes the mutations of a batch that is left, where their tables are still there.
pub(crate) async fn retry(
    coordinator: &Coordinator,
    mutations: Vec<FrozenMutation>,
) -> Result<(), WriteError> {
    let schema = coordinator.cluster.schema();
    let mut entries = Vec::with_capacity(mutations.len());
    for mutation in mutations {
        let Ok(view) = FrozenView::parse(&mutation.0) else { continue };
        let (table, token) = (schema.table_by_id(view.table()), Token::of(view.key()));
        if let Some(table) = table.cloned() {
            entries.push(BatchEntry { table, token, mutation });
        }
    }
    let (consistency, kind) = (Consistency::Quorum, WriteKind::Batch);
    let options = WriteOptions { consistency, timeout: RETRY_TIMEOUT, kind };
    Parts::of(coordinator, entries).write(coordinator, &options).await
}
