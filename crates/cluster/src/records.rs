//! What is written down on this node besides the catalog: truncations, ended compactions, ranges
//! that were repaired, routes of clients.
//!
//! Invariants
//!  - *on-its-shard*: each goes to the shard that has its partition, and nowhere else.

use crate::node_tables::client_routes::{self, ClientRoute};
use crate::node_tables::compaction_history::{self, CompactionRecord};
use crate::node_tables::repair_history::{self, RepairRecord};
use crate::node_tables::{local, read_table};
use crate::registry::Cluster;
use catalog::system_tables;
use model::{TableId, Token, Uuid};
use mutation::FrozenMutation;
use runtime::Erased;
use runtime::time::wall_micros;
use storage::commitlog::ReplayPosition;
use storage::{FinishedCompaction, Storage};

impl Cluster {
    /// Writes down in `system.truncated` that a table was truncated, at `at` microseconds: for each
    /// shard that had something of it the position in its log before which writes are discarded.
    pub fn note_truncation<'a>(
        &'a self,
        table: TableId,
        at: i64,
        places: &'a [(u16, ReplayPosition)],
    ) -> Erased<'a, Result<(), String>> {
        Erased::new(move || async move {
            let shards = runtime::shard_count();
            let known = places.iter().all(|(shard, _)| *shard < shards);
            assert!(known, "a truncation on a shard that is none: {places:?}");
            let mutation = local::truncated(&self.schema(), table, at, places);
            self.write_down("truncated", table, mutation).await
        })
    }

    /// Removes from `system.truncated` what is said there of a table that was dropped, on whichever
    /// shards it was: its writes are nowhere, so nothing is left to discard.
    pub(crate) async fn forget_truncation(&self, table: TableId) {
        let schema = self.schema();
        debug_assert!(schema.table_by_id(table).is_none(), "{table} is still there");
        let mutation = local::not_truncated(&schema, table, wall_micros());
        if let Err(error) = self.write_down("truncated", table, mutation).await {
            tracing::warn!(
                target: "truncation",
                "cannot forget when the dropped table {table} was truncated: {error}"
            );
        }
    }

    /// Records in `system.compaction_history` that a compaction has ended on a shard. Those of that
    /// table itself are not written down: each would be reason for another.
    pub fn note_compaction<'a>(
        &'a self,
        shard: u16,
        done: &'a FinishedCompaction,
    ) -> Erased<'a, Result<(), String>> {
        Erased::new(move || async move {
            let history = compaction_history::TABLE;
            assert!(shard < runtime::shard_count(), "a compaction on shard {shard}, which is none");
            if done.job.keyspace == "system" && done.job.name == history {
                return Ok(());
            }
            let mutation = compaction_history::compacted(&self.schema(), shard, done);
            self.write_down(history, done.job.id, mutation).await
        })
    }

    /// The compactions in `system.compaction_history`, of all shards, the latest first.
    pub fn compaction_history(&self) -> Erased<'_, Result<Vec<CompactionRecord>, String>> {
        Erased::new(move || async move {
            let read = || async {
                let storage = runtime::local::try_get::<Storage>().ok_or("the node stops")?;
                let rows = read_table(&storage, "system", compaction_history::TABLE).await;
                rows.map_err(|error| error.to_string())
            };
            let mut all = Vec::new();
            for rows in runtime::on_all_shards(read).await {
                all.extend(rows?.iter().map(CompactionRecord::of));
            }
            all.sort_by_key(|record: &CompactionRecord| (-record.ended_at, record.id));
            let once = all.windows(2).all(|pair| pair[0].id != pair[1].id);
            debug_assert!(once, "on-its-shard: a compaction is written down on two shards");
            Ok(all)
        })
    }

    /// Records in `system.repair_history` that a range of a table was repaired, in place of what is
    /// said there of an earlier repair of the same range.
    pub fn note_repair<'a>(
        &'a self,
        record: &'a RepairRecord,
        earlier: Option<&'a RepairRecord>,
    ) -> Erased<'a, Result<(), String>> {
        Erased::new(move || async move {
            let schema = self.schema();
            let history = schema.table("system", repair_history::TABLE).expect("a system table");
            let Some(table) = schema.table_by_id(record.table) else { return Ok(()) };
            let name = (&*table.schema.keyspace, &*table.schema.name);
            let mutation = record.mutation(&history.schema, name, earlier, wall_micros());
            self.write_down(repair_history::TABLE, record.table, mutation).await
        })
    }

    /// Removes from `system.repair_history` what is said there of a table that is no more.
    pub fn forget_repairs(&self, table: TableId) -> Erased<'_, Result<(), String>> {
        Erased::new(move || async move {
            let schema = self.schema();
            debug_assert!(schema.table_by_id(table).is_none(), "{table} is still there");
            let history = schema.table("system", repair_history::TABLE).expect("a system table");
            let mutation = repair_history::forgotten(&history.schema, table, wall_micros());
            self.write_down(repair_history::TABLE, table, mutation).await
        })
    }

    /// The ranges in `system.repair_history`.
    pub fn repair_history(&self) -> Erased<'_, Result<Vec<RepairRecord>, String>> {
        Erased::new(move || async move {
            let read = || async {
                let storage = runtime::local::try_get::<Storage>().ok_or("the node stops")?;
                let rows = read_table(&storage, "system", repair_history::TABLE).await;
                rows.map_err(|error| error.to_string())
            };
            let mut all = Vec::new();
            for rows in runtime::on_all_shards(read).await {
                all.extend(rows?.iter().filter_map(RepairRecord::of));
            }
            let of_ranges = all.iter().all(|record| record.tokens.0 <= record.tokens.1);
            debug_assert!(of_ranges, "on-its-shard: a repair of no range");
            Ok(all)
        })
    }

    /// Applies a mutation of the partition `key` of a system table on the shard that has it.
    async fn write_down(&self, table: &str, key: Uuid, new: FrozenMutation) -> Result<(), String> {
        let shard = {
            let schema = self.schema();
            let entry = schema.table("system", table).expect("a system table");
            assert!(
                new.view().is_ok_and(|view| view.key() == key.as_bytes()),
                "on-its-shard: {key}"
            );
            entry.tablets.shard_of(Token::of(key.as_bytes()))
        };
        let write = move || async move {
            let storage = runtime::local::try_get::<Storage>().ok_or("the node stops")?;
            storage.apply(new).await.map_err(|error| error.to_string())
        };
        runtime::on_shard(shard, write).await
    }

    /// All rows of `system.client_routes`.
    pub fn client_routes(&self) -> Erased<'_, Result<Vec<ClientRoute>, String>> {
        Erased::new(move || async move {
            let read = || async {
                let storage = runtime::local::try_get::<Storage>().ok_or("the node stops")?;
                let rows = read_table(&storage, "system", client_routes::TABLE).await;
                rows.map_err(|error| error.to_string())
            };
            let mut all = Vec::new();
            for rows in runtime::on_all_shards(read).await {
                all.extend(rows?.iter().map(ClientRoute::of));
            }
            Ok(all)
        })
    }

    /// Adds routes, or puts them in the place of others of the same connection and node.
    pub fn write_client_routes<'a>(
        &'a self,
        routes: &'a [ClientRoute],
    ) -> Erased<'a, Result<(), String>> {
        Erased::new(move || async move { self.change_client_routes(routes, true).await })
    }

    /// Removes the routes of connections to nodes.
    pub fn remove_client_routes<'a>(
        &'a self,
        routes: &'a [ClientRoute],
    ) -> Erased<'a, Result<(), String>> {
        Erased::new(move || async move { self.change_client_routes(routes, false).await })
    }

    async fn change_client_routes(
        &self,
        routes: &[ClientRoute],
        is_kept: bool,
    ) -> Result<(), String> {
        let mut of_shards: Vec<Vec<ClientRoute>> = Vec::new();
        of_shards.resize_with(usize::from(runtime::shard_count()), Vec::new);
        let tablets = {
            let schema = self.schema();
            schema.table("system", client_routes::TABLE).expect("a system table").tablets.clone()
        };
        for route in routes {
            let shard = tablets.shard_of(Token::of(route.connection_id.as_bytes()));
            of_shards[usize::from(shard)].push(route.clone());
        }
        let dealt: usize = of_shards.iter().map(Vec::len).sum();
        assert!(dealt == routes.len(), "on-its-shard: {dealt} of {} routes", routes.len());
        for (shard, routes) in of_shards.into_iter().enumerate() {
            let write = move || async move {
                let storage = runtime::local::try_get::<Storage>().ok_or("the node stops")?;
                let table = system_tables::table("system", client_routes::TABLE);
                for route in routes {
                    let mutation = route.mutation(&table, is_kept, runtime::time::wall_micros());
                    let applied = storage.apply_durably(mutation).await;
                    applied.map_err(|error| error.to_string())?;
                    runtime::task::yield_if_needed().await;
                }
                Ok::<(), String>(())
            };
            runtime::on_shard(shard as u16, write).await?;
        }
        Ok(())
    }
}
