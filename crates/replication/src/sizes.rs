//! Writes to tables with large-data guardrails.
//!
//! Each shard knows its large partitions, rows and collections (`storage`). Writes to such are
//! refused by the shard that would apply them. A single write is checked in the same step in
//! which it is applied; a batch is checked on all its shards before any part of it is written, so
//! that nothing of a refused batch is recorded.

use crate::coordinator::{BatchEntry, Coordinator, check_place, own_storage};
use crate::error::WriteError;
use crate::options::WriteOptions;
use cluster::TableEntry;
use derived::log::Origin;
use model::Token;
use mutation::FrozenMutation;
use runtime::task::join_all;
use runtime::time::timeout;
use std::collections::BTreeMap;
use storage::Exceeded;

impl Coordinator {
    /// As [`Coordinator::write`], unless what is written to is over an upper limit. Returns which
    /// lower limits it is over.
    pub async fn write_within(
        &self,
        table: &TableEntry,
        token: Token,
        mutation: FrozenMutation,
        options: &WriteOptions,
    ) -> Result<Exceeded, WriteError> {
        if self.is_spread(table) {
            // What is large the replicas know, and do not tell yet.
            let written = Box::pin(self.write(table, token, mutation, options)).await;
            return written.map(|()| Exceeded::default());
        }
        let mutation = match table.log {
            None => mutation,
            Some(_) => self.logged((table, token), mutation, options, Origin::Client).await?,
        };
        self.admit_write(table, options)?;
        check_place(table, token, &mutation);
        let begun = self.begin_write(options, 1);
        let shard = table.tablets.shard_of(token);
        let write = move || async move {
            let storage = own_storage()?;
            let exceeded = storage.check_sizes(&mutation)?;
            storage.apply(mutation).await.map(|()| exceeded)
        };
        self.count_call(shard);
        let written = timeout(options.timeout, runtime::on_shard(shard, write)).await;
        self.end_write(table, options, begun, written)
    }

    /// Refuses writes if one of them is to what is over an upper limit. Returns which lower limits
    /// they meet. To be asked before they are made.
    pub async fn check_sizes(
        &self,
        entries: impl Iterator<Item = &BatchEntry>,
        options: &WriteOptions,
    ) -> Result<Exceeded, WriteError> {
        let mut exceeded = Exceeded::default();
        let mut elsewhere: BTreeMap<u16, Vec<FrozenMutation>> = BTreeMap::new();
        let mut last = None;
        for entry in entries.filter(|entry| !self.is_spread(&entry.table)) {
            let shard = entry.table.tablets.shard_of(entry.token);
            entry.check();
            if shard == self.shard {
                let found = Ok(self.storage.check_sizes(&entry.mutation));
                exceeded = exceeded.and(self.answer(&entry.table, options, found)?);
            } else {
                elsewhere.entry(shard).or_default().push(entry.mutation.clone());
                last = Some(entry);
            }
        }
        let Some(entry) = last else { return Ok(exceeded) };
        let own = elsewhere.contains_key(&self.shard);
        assert!(!own, "owner-only: shard {} asks itself", self.shard);
        let asked = elsewhere.into_iter().map(|(shard, mutations)| {
            runtime::on_shard(shard, move || async move {
                let storage = own_storage()?;
                let mut found = mutations.iter().map(|one| storage.check_sizes(one));
                found.try_fold(Exceeded::default(), |all, one| Ok(all.and(one?)))
            })
        });
        for found in join_all(asked).await {
            exceeded = exceeded.and(self.answer(&entry.table, options, Ok(found))?);
        }
        Ok(exceeded)
    }
}
