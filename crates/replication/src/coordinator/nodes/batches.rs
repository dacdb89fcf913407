//! Batches of which a part is on several nodes: mutations with the same replicas go as one, and
//! each replica applies what one of its shards owns as one.
//!
//! Invariants
//!  - *complete*: as in `coordinator::batch`.

use super::Coordinator;
use super::peers::Told;
use super::write::Spread;
use crate::coordinator::{BatchEntry, batch};
use crate::error::{WriteError, write_failed};
use crate::options::{Consistency, WriteKind, WriteOptions};
use crate::placement::Replica;
use cluster::Replication;
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
pub(crate) struct Parts {
    /// By shard of this node.
    here: batch::Groups,
    spread: Vec<Part>,
}

/// Mutations that go to the same replicas.
struct Part {
    replicas: Rc<[Replica]>,
    copies: Rc<Replication>,
    mutations: Vec<FrozenMutation>,
}

impl Parts {
    /// Of entries; none is left out.
    pub(crate) fn of(coordinator: &Coordinator, entries: Vec<BatchEntry>) -> Parts {
        let mut parts = Parts::default();
        let asked = entries.len();
        for BatchEntry { table, token, mutation } in entries {
            let Some(replicas) = coordinator.replicas(&table, token) else {
                let shard = table.tablets.shard_of(token);
                parts.here.entry(shard).or_default().push(mutation);
                continue;
            };
            let same = |part: &Part| {
                Rc::ptr_eq(&part.copies, &table.replication)
                    && (Rc::ptr_eq(&part.replicas, &replicas) || is_same(&part.replicas, &replicas))
            };
            match parts.spread.iter_mut().find(|part| same(part)) {
                Some(part) => part.mutations.push(mutation),
                None => {
                    let (copies, mutations) = (table.replication.clone(), vec![mutation]);
                    parts.spread.push(Part { replicas, copies, mutations });
                }
            }
        }
        let sum = parts.mutations().count();
        assert!(sum == asked, "complete: {sum} of {asked} entries");
        parts
    }

    /// All mutations.
    pub(crate) fn mutations(&self) -> impl Iterator<Item = &FrozenMutation> {
        let spread = self.spread.iter().flat_map(|part| &part.mutations);
        self.here.values().flatten().chain(spread)
    }

    /// How many of them are written apart.
    pub(crate) fn count(&self) -> usize {
        self.here.len() + self.spread.len()
    }

    /// Writes all of them; an error is the first.
    pub(crate) async fn write(
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
        let spread = self.spread.into_iter().map(|Part { replicas, copies, mutations }| {
            let told = Told::new(mutations);
            coordinator.spread(Spread { replicas, copies, told, is_here_done: false }, options)
        });
        let spread = join_all(spread);
        let (here, spread) = runtime::task::join(here, spread).await;
        spread.into_iter().fold(here, |all, one| all.and(one))
    }
}

/// Whether the same shards of the same nodes have what is in two places, whatever their order
/// there.
fn is_same(a: &[Replica], b: &[Replica]) -> bool {
    let place = |replica: &Replica| (replica.host_id, replica.shard);
    a.iter().map(place).eq(b.iter().map(place))
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
    let remembered = mutations.len();
    let mut entries = Vec::with_capacity(remembered);
    for mutation in mutations {
        let Ok(view) = FrozenView::parse(&mutation.0) else { continue };
        let (table, token) = (schema.table_by_id(view.table()), Token::of(view.key()));
        if let Some(table) = table.cloned() {
            entries.push(BatchEntry { table, token, mutation });
        }
    }
    assert!(entries.len() <= remembered, "complete: {} of {remembered}", entries.len());
    let (consistency, kind) = (Consistency::Quorum, WriteKind::Batch);
    let options = WriteOptions { consistency, timeout: RETRY_TIMEOUT, kind };
    Parts::of(coordinator, entries).write(coordinator, &options).await
}
