//! Who counts and rejects requests to partitions of tables that limit them ([`crate::rate`]).
//!
//! Invariants
//!  - *clients-only*: internal requests are neither counted nor refused; nor are counters,
//!    conditional writes, range reads and repairs.
//!  - *counted-once*: a replica counts a request that it is asked for once; the coordinator counts
//!    as the replica that it is, or not at all.

use crate::coordinator::{Coordinator, own_coordinator};
use crate::rate::{Draw, Limit, Operation, RateLimited};
use cluster::TableEntry;
use cluster::features;
use cluster::traffic::{Failure, Work};
use model::{TableSchema, Token};
use std::time::Duration;

fn limit_of(table: &TableSchema, operation: Operation) -> Option<u32> {
    let options = &table.options.per_partition_rate_limit;
    let (_, value) = options.iter().find(|(name, _)| name == operation.option())?;
    value.parse().ok()
}

impl Coordinator {
    /// Whether a table has limits for requests to its partitions.
    #[inline]
    pub fn limits_requests(table: &TableEntry) -> bool {
        !table.schema.options.per_partition_rate_limit.is_empty()
    }

    /// Counts a client's request to the partition at `token`, if it is this node's to count, and
    /// refuses it where the table has a limit that it goes over. If its owner does not say so
    /// within `patience`, it goes on. The answer is what replicas on other nodes are to be told.
    pub async fn admit_request(
        &self,
        table: &TableEntry,
        token: Token,
        operation: Operation,
        patience: Duration,
    ) -> Result<Option<Limit>, RateLimited> {
        if limit_of(&table.schema, operation).is_none() {
            return Ok(None);
        }
        let draw = Draw::of(runtime::random_u64());
        // Where nodes of an older version only count what they coordinate, so does this one.
        let is_told = || self.places().enables(features::PER_PARTITION_RATE_LIMIT);
        let replicas = self.replicas(table, token).filter(|_| is_told());
        let told = replicas.as_ref().map(|_| Limit::Decides(draw));
        let is_elsewhere = replicas.is_some_and(|all| all.iter().all(|one| !one.is_here));
        debug_assert!(!is_elsewhere || told.is_some(), "counted-once: nobody counts it");
        if is_elsewhere || self.count_request(table, token, operation, (draw, patience)).await {
            return Ok(told);
        }
        let TableSchema { keyspace, name, .. } = &*table.schema;
        let by_coordinator = table.tablets.shard_of(token) == self.shard;
        let failure = if by_coordinator { Failure::RateLimited } else { Failure::LimitedThere };
        self.traffic.fail(work_of(operation), failure);
        Err(RateLimited { operation, by_coordinator, table: format!("{keyspace}.{name}") })
    }

    /// Counts a request that another node coordinates: whether it goes on here.
    pub(crate) async fn admit_told(
        &self,
        table: &TableEntry,
        token: Token,
        operation: Operation,
        (limit, patience): (Limit, Duration),
    ) -> bool {
        let draw = match limit {
            // It goes on, whatever the count says.
            Limit::Counts => Draw::of(0),
            Limit::Decides(draw) => draw,
        };
        let admitted = self.count_request(table, token, operation, (draw, patience)).await;
        if !admitted && limit != Limit::Counts {
            self.traffic.rejected[operation as usize].add(1);
        }
        admitted || limit == Limit::Counts
    }

    /// Counts a request where its partition is owned; whether it goes on.
    async fn count_request(
        &self,
        table: &TableEntry,
        token: Token,
        operation: Operation,
        (draw, patience): (Draw, Duration),
    ) -> bool {
        let Some(limit) = limit_of(&table.schema, operation) else { return true };
        let counted = (table.schema.id, token, operation);
        let second = u64::try_from(runtime::time::wall_micros() / 1_000_000).unwrap_or(0);
        let shard = table.tablets.shard_of(token);
        debug_assert!(shard < runtime::shard_count(), "counted-once: {shard} is no shard");
        if shard == self.shard {
            return self.requests.admit(counted, limit, second, draw);
        }
        let admit = move || async move {
            let Ok(owner) = own_coordinator() else { return true };
            owner.requests.admit(counted, limit, second, draw)
        };
        let asked = runtime::time::timeout(patience, runtime::on_shard(shard, admit));
        asked.await.unwrap_or(true)
    }
}

fn work_of(operation: Operation) -> Work {
    match operation {
        Operation::Read => Work::Read,
        Operation::Write => Work::Write,
    }
}
