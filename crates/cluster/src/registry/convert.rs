//! Keyspaces that are given tablets, on this node: what is decided of them, and how it stores them.
//!
//! Invariants: *all-or-none* and *as-on-the-ring* of [`catalog::placement::conversion`], and
//!  - *parted-first*: a node serves no clients before each of its tablets has its own SSTables of
//!    the tables that it stores in another way than before.

use super::{ChangeError, Cluster};
use crate::schema::{Catalog, Schema, ShardLocal};
use catalog::placement::conversion::Modes;
use catalog::{Command, Moment, SchemaChange, StorageMode};
use model::TableId;
use runtime::Erased;
use storage::Storage;

/// How this node stores the tables of a keyspace that is being given tablets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub modes: Modes,
    /// The version of the topology by which it is so.
    pub version: u64,
}

impl Cluster {
    /// Begins to give tablets to a keyspace: each of its tables gets a map of those that it is to
    /// have. Where that was interrupted it is ended. Ends when this node shows it.
    pub fn start_conversion(&self, keyspace: String) -> Erased<'_, Result<(), String>> {
        Erased::new(move || async move {
            loop {
                let name = keyspace.clone();
                let decided = move |catalog: &Catalog, moment: Moment| {
                    let command = Command::of_conversion(catalog, &name, moment.micros);
                    let command = command.map_err(ChangeError::Refused)?;
                    let is_more = command.is_some();
                    Ok((command, is_more))
                };
                let made: Result<_, ChangeError<String>> = self.change_catalog(decided).await;
                let (is_more, _) = made.map_err(|error| error.to_string())?;
                if !is_more {
                    tracing::info!(target: "tablets", "the tables of {keyspace} have tablet maps");
                    return Ok(());
                }
            }
        })
    }

    /// From its next start on this node stores keyspaces that are being given tablets so.
    pub fn intend_storage(&self, mode: StorageMode) -> Erased<'_, Result<(), String>> {
        let host = self.node().host_id;
        Erased::new(move || async move {
            let decided = move |catalog: &Catalog, moment: Moment| {
                let command = Command::of_intention(catalog, host, mode, moment.micros);
                Ok((Some(command.map_err(ChangeError::Refused)?), ()))
            };
            let made: Result<_, ChangeError<String>> = self.change_catalog(decided).await;
            made.map_err(|error| error.to_string())?;
            tracing::info!(target: "tablets", "from the next start on: {}", mode.name());
            Ok(())
        })
    }

    /// Ends it, as all nodes were seen to store the tables of the keyspace by the topology of that
    /// version; nothing is changed where there is another one by now (*all-or-none*).
    pub fn finalize_conversion(
        &self,
        keyspace: String,
        outcome: StorageMode,
        version: u64,
    ) -> Erased<'_, Result<(), String>> {
        Erased::new(move || async move {
            let name = keyspace.clone();
            let decided = move |catalog: &Catalog, moment: Moment| {
                if catalog.topology.version() != version {
                    let why = "nodes were changed meanwhile: try again".to_owned();
                    return Err(ChangeError::Refused(why));
                }
                let command = Command::of_finalization(catalog, &name, outcome, moment);
                Ok((Some(command.map_err(ChangeError::Refused)?), ()))
            };
            let made: Result<_, ChangeError<String>> = self.change_catalog(decided).await;
            made.map_err(|error| error.to_string())?;
            let kind = outcome.name();
            tracing::info!(target: "tablets", "the migration of {keyspace} has ended: {kind}");
            Ok(())
        })
    }

    /// How this node stores the tables of a keyspace, by all that was decided before; `None`: it is
    /// not being given tablets.
    pub fn stored(&self, keyspace: String) -> Erased<'_, Result<Option<Stored>, String>> {
        Erased::new(move || async move {
            self.catch_up().await?;
            let catalog = self.catalog();
            if !catalog.topology.converting().contains(&keyspace) {
                return Ok(None);
            }
            let Some(entry) = catalog.schema.keyspace(&keyspace) else { return Ok(None) };
            let modes: Modes =
                entry.tables.iter().map(|(name, it)| (name.clone(), it.storage_mode())).collect();
            debug_assert!(modes.len() == entry.tables.len(), "all-or-none: of {keyspace}");
            Ok(Some(Stored { modes, version: catalog.topology.version() }))
        })
    }

    /// Has each tablet, or part of the ring, of this node write its part of what it has of tables
    /// that are being given tablets (*parted-first*). Nothing where it stores them as before.
    pub fn part_converted(&self) -> Erased<'_, Result<(), String>> {
        Erased::new(move || async move {
            assert!(runtime::shard_id() == 0, "parted-first: from another shard");
            let schema = self.schema();
            let given = schema.tables().filter(|table| !table.intended.is_empty());
            let ids: Vec<TableId> = given.map(|table| table.schema.id).collect();
            for id in ids {
                let part = move || async move {
                    let storage = runtime::local::try_get::<Storage>().ok_or("the node stops")?;
                    storage.reshard(id).await.map_err(|error| error.to_string())
                };
                let parted: Result<Vec<()>, String> =
                    runtime::on_all_shards(part).await.into_iter().collect();
                parted.map_err(|why| format!("table {id} is not parted: {why}"))?;
            }
            Ok(())
        })
    }
}

/// Whoever holds a table of an earlier snapshot finds the tablets that it was given.
pub(super) fn show_converted(next: &Schema, changes: &[SchemaChange]) {
    for change in changes {
        let SchemaChange::AlterKeyspace(altered) = change else { continue };
        let Some(entry) = next.keyspace(&altered.name) else { continue };
        for table in entry.tables.values().filter(|table| !table.replicas.is_empty()) {
            if !ShardLocal::are_shown(table, &table.replicas) {
                continue;
            }
            table.local.show(table.replicas.clone());
            let shown = ShardLocal::are_shown(table, &table.replicas);
            assert!(shown, "as-on-the-ring: other tablets of {}", table.schema.name);
        }
    }
}
