//! Taking over what another node decided: from rows to the next snapshot.
//!
//! A command reaches other nodes as the rows that make it durable. They are written as one entry of
//! the schema log, the keyspaces that they are of are read again, and what differs from the
//! snapshot before is what storage and clients have to be told.
//!
//! Invariants: those of [`super`].

use super::steps::{self, Steps};
use super::{ChangeError, Cluster, Read, show, tell};
use crate::at_last::{Attempt, at_last};
use crate::event::SchemaEvent;
use crate::node_tables::{ReadFailed, local, read_table};
use crate::schema::{Catalog, Schema};
use crate::stored;
use catalog::schema_tables::read;
use catalog::schema_tables::stored::PER_TABLE;
use catalog::system_tables::{self, Home};
use catalog::topology;
use catalog::{Command, SchemaChange};
use model::TableId;
use mutation::FrozenMutation;
use runtime::Erased;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use storage::Storage;

/// Why rows of another node were not taken.
pub(crate) type FollowError = ChangeError<Infallible>;

impl Cluster {
    /// Takes the rows of commands that another node decided, all together, from the snapshot that
    /// this node shows on; `last` is the latest of their timestamps. When it returns they are
    /// durable, every shard shows what they lead to, and subscribers were told; the changes are
    /// those that this node noticed. After an error it shows the snapshot before, or it has stopped
    /// halfway to show the next: a restart shows what is durable.
    ///
    /// Once begun it runs to its end, also when the returned future is dropped.
    pub fn follow(
        &self,
        rows: Vec<FrozenMutation>,
        last: i64,
    ) -> Erased<'_, Result<Vec<SchemaChange>, FollowError>> {
        Erased::new(move || async move {
            self.in_turn(move |cluster| async move {
                cluster.take(rows, last).await.map_err(ChangeError::Failed)
            })
            .await
        })
    }

    async fn take(
        &self,
        rows: Vec<FrozenMutation>,
        last: i64,
    ) -> Result<Vec<SchemaChange>, String> {
        let known = self.last_timestamp.get();
        if last <= known {
            return Err(format!("a command of {last} came after one of {known}"));
        }
        let mut touched = Touched::default();
        for row in &rows {
            let view = row.view().map_err(|damaged| format!("a command is damaged: {damaged}"))?;
            let table = view.table();
            if system_tables::home(table) != Some(Home::SchemaLog) {
                return Err(format!("a command has rows of table {table}, not of the catalog"));
            }
            touched.note(&self.schema(), table, view.key())?;
        }
        self.keep(rows).await?;
        self.last_timestamp.set(last);
        let durable = self.durable_until.replace(last);
        assert!(durable < last, "durable-before-visible: {last} after {durable}");

        let storage = runtime::local::get::<Storage>();
        let read = async || self.read_again(&storage, &touched).await.map_err(Attempt::passing);
        let after = at_last("reading the catalog", || self.goes_on(), read).await?;
        let before = self.schema();
        let command = Command::between(&before, &after.schema, last);
        let changes = command.schema_changes().to_vec();
        let steps = Steps::between(&before, &after.schema, &changes);
        self.add_tables(&steps).await?;
        steps::flush_tables(steps::losing_columns(&before, &steps.altered)).await;
        let same = self.access().state().says_the_same(&after.access);
        let access = (!same).then_some(after.access);
        let other = *self.topology() != *after.topology;
        let topology = other.then_some(after.topology);
        show(command, Read { access, topology }, steps.altered).await;
        let version = self.schema().version;
        assert!(version == after.schema.version, "as-decided: {version} is shown");
        self.drop_with_snapshots(&before, steps.dropped).await;
        if version != before.version {
            tracing::info!(target: "schema", %version, "schema changed by another node");
        }
        tell(changes.iter().map(SchemaEvent::of).collect()).await;
        Ok(changes)
    }

    /// What the tables of this node hold now, where that may differ from what it shows.
    async fn read_again(&self, storage: &Storage, touched: &Touched) -> Result<Catalog, String> {
        let failed = |error: ReadFailed| error.to_string();
        let local = read_table(storage, "system", "local").await.map_err(failed)?;
        let version = local::remembered(&local).schema_version;
        let version = version.ok_or("system.local names no version of the schema")?;
        let mut schema = self.schema().without(&touched.keyspaces, version);
        for name in &touched.keyspaces {
            let rows = stored::keyspace_rows(storage, name).await.map_err(failed)?;
            let loaded = read::load(&mut schema, &rows, self.node.here());
            loaded.map_err(|damaged| damaged.to_string())?;
        }
        // Which shards tablets are on is this node's own affair, and settled at its start.
        let schema = schema.with_tablets_of(&self.schema());
        let access = match touched.access {
            true => stored::access(storage).await.map_err(failed)?,
            false => self.access().state().clone(),
        };
        let topology = match touched.topology {
            true => Arc::new(stored::topology(storage).await.map_err(failed)?),
            false => self.topology(),
        };
        Ok(Catalog { schema: Rc::new(schema), access, topology })
    }
}

/// What rows may change.
#[derive(Debug, Default)]
struct Touched {
    keyspaces: BTreeSet<String>,
    /// Roles, grants or service levels.
    access: bool,
    /// The nodes.
    topology: bool,
}

impl Touched {
    /// A partition of a table of the catalog.
    fn note(&mut self, schema: &Schema, table: TableId, key: &[u8]) -> Result<(), String> {
        let Some(table) = schema.table_by_id(table).map(|entry| &entry.schema) else {
            return Err(format!("a command has rows of table {table}, which is not known"));
        };
        if table.keyspace == "system_schema" {
            let name = std::str::from_utf8(key);
            let name = name.map_err(|_| format!("{}: a keyspace that is no text", table.name))?;
            if !Schema::is_system(name) {
                self.keyspaces.insert(name.to_owned());
            }
        }
        if table.keyspace == "system" && PER_TABLE.contains(&&*table.name) {
            // Of a table that is dropped nothing is to be read, and a new one has rows beside.
            let entry = TableId::from_slice(key).ok().and_then(|id| schema.table_by_id(id));
            self.keyspaces.extend(entry.map(|entry| entry.schema.keyspace.clone()));
        }
        self.access |= Cluster::is_access_table(table);
        self.topology |= (&*table.keyspace, &*table.name) == ("system", topology::TABLE);
        Ok(())
    }
}
