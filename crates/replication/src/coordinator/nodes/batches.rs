//! Batches of which a part is on several nodes: mutations with the same replicas go as one, and
//! each replica applies what one of its shards owns as one.
//!
//! Invariants
//!  - *complete*: as in `coordinator::batch`.
//!  - *said-uncertain*: as in [`super`]: a batch is unavailable only if no replica was told of any
//!    part of it.

use super::Coordinator;
use super::peers::Told;
use super::write::{Spread, Watch, unavailable};
use crate::coordinator::{BatchEntry, batch};
use crate::error::{WriteError, write_failed};
use crate::options::{Consistency, WriteOptions};
use crate::placement::Replica;
use crate::plan::nodes::plan_write;
use cluster::Replication;
use mutation::FrozenMutation;
use runtime::task::join_all;
use runtime::time::timeout;
use std::rc::Rc;

/// A batch by where it goes.
#[derive(Default)]
pub(crate) struct Parts {
    /// By shard of this node.
    pub(super) here: batch::Groups,
    pub(super) spread: Vec<Part>,
}

/// Mutations that go to the same replicas.
pub(super) struct Part {
    pub(super) replicas: Rc<[Replica]>,
    pub(super) copies: Rc<Replication>,
    pub(super) mutations: Vec<FrozenMutation>,
}

impl Parts {
    /// Of entries; none is left out.
    pub(crate) fn of(coordinator: &Coordinator, entries: Vec<BatchEntry>) -> Parts {
        let mut parts = Parts::default();
        let asked = entries.len();
        for BatchEntry { table, token, mutation } in entries {
            let Some(replicas) = coordinator.writers(&table, token) else {
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

    /// Whether they are all of one partition.
    pub(crate) fn is_of_one_partition(&self) -> bool {
        let place = |mutation: &FrozenMutation| {
            mutation.view().ok().map(|view| (view.table(), view.key().to_vec()))
        };
        let mut places = self.mutations().map(place);
        let first = places.next();
        places.all(|place| Some(place) == first)
    }

    /// Whether some of them are of tables that no other node has.
    pub(crate) fn is_partly_here(&self) -> bool {
        !self.here.is_empty()
    }

    /// Refuses what has too few replicas alive for one of its parts, before anybody is told of
    /// another one.
    pub(crate) fn check(
        &self,
        coordinator: &Coordinator,
        options: &WriteOptions,
    ) -> Result<(), WriteError> {
        // One part is refused where it is written.
        if self.spread.len() + self.here.len() < 2 {
            return Ok(());
        }
        let level = options.consistency;
        for Part { replicas, copies, .. } in &self.spread {
            let candidates = coordinator.candidates(replicas);
            assert!(candidates.len() == replicas.len(), "said-uncertain: {candidates:?}");
            let factors = coordinator.factors(copies, replicas, level);
            match plan_write(level, &factors, &candidates) {
                // Hints may be enough.
                Err(_) if level == Consistency::Any => {}
                planned => drop(planned.map_err(|missing| unavailable(options, missing))?),
            }
        }
        Ok(())
    }

    /// Writes all of them; an error is the first. What goes to several nodes can be watched.
    pub(crate) async fn write(
        self,
        coordinator: &Coordinator,
        options: &WriteOptions,
    ) -> Result<Vec<Watch>, WriteError> {
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
            coordinator
                .spread_watched(Spread { replicas, copies, told, is_here_done: false }, options)
        });
        let spread = join_all(spread);
        let (here, spread) = runtime::task::join(here, spread).await;
        here.and_then(|()| spread.into_iter().collect())
    }
}

/// Whether the same shards of the same nodes have what is in two places, whatever their order
/// there.
fn is_same(a: &[Replica], b: &[Replica]) -> bool {
    let place = |replica: &Replica| (replica.host_id, replica.shard, replica.sides);
    a.iter().map(place).eq(b.iter().map(place))
}
