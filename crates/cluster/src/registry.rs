//! The schema registry of one shard: the current snapshot, and the way to the next.
//!
//! A change goes through shard 0: decided and completed under the lock, its tables added to
//! storage (no statement can name them yet), its rows written as one entry of the schema log,
//! then made visible on all shards, then announced to clients. What a crash interrupts is either
//! in the log or not.

use crate::access::{self, Access};
use crate::auto_snapshots::AutoSnapshots;
use crate::boot;
use crate::compaction_rows::{self, CompactionRecord};
use crate::event::{Event, Events, SchemaEvent, Subscribers};
use crate::local_rows;
use crate::node::NodeInfo;
use crate::schema::{Schema, SchemaChange};
use crate::schema_tables::{self, write::Owner};
use crate::uuids::{time_uuid, time_uuid_now};
use crate::virtual_tables::{self, VirtualRows, VirtualWriter};
use model::{TableId, TableSchema, TabletMap, Token, Uuid};
use mutation::FrozenMutation;
use runtime::sync::Semaphore;
use runtime::task::Scope;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use stdx::HashMap;
use storage::commitlog::ReplayPosition;
use storage::{FinishedCompaction, Log, SnapshotTag, Storage};

/// Schema changes that wait for their turn at most.
const WAITING_MAX: usize = 4096;

/// Why a schema change did not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeError<E> {
    /// The decision said no.
    Refused(E),
    /// It could not be made durable, or not be carried out: the reason.
    Failed(String),
}

impl<E: fmt::Display> fmt::Display for ChangeError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeError::Refused(error) => write!(f, "{error}"),
            ChangeError::Failed(reason) => write!(f, "schema change failed: {reason}"),
        }
    }
}

/// What one shard knows of the cluster. Lives in `runtime::local`.
pub struct Cluster {
    node: NodeInfo,
    schema: RefCell<Rc<Schema>>,
    subscribers: Subscribers,
    providers: RefCell<HashMap<TableId, VirtualRows>>,
    writers: RefCell<HashMap<TableId, VirtualWriter>>,
    /// Shard 0: whose turn it is to change the schema.
    turn: Semaphore,
    /// Shard 0: the timestamp of the last change; the next one has a later one.
    last_timestamp: Cell<i64>,
    /// Changes run here, so that a client that disconnects does not stop one halfway.
    changes: Scope,
    auto_snapshots: AutoSnapshots,
    access: Access,
}

impl Cluster {
    pub(crate) fn new(
        node: NodeInfo,
        schema: Schema,
        access: auth::State,
        last_timestamp: i64,
    ) -> Cluster {
        Cluster {
            node,
            schema: RefCell::new(Rc::new(schema)),
            subscribers: Subscribers::default(),
            providers: RefCell::new(HashMap::default()),
            writers: RefCell::new(HashMap::default()),
            turn: Semaphore::new(1, WAITING_MAX),
            last_timestamp: Cell::new(last_timestamp),
            changes: Scope::new(),
            auto_snapshots: AutoSnapshots::of_shard(),
            access: Access::new(access),
        }
    }

    /// The identity of this node.
    pub fn node(&self) -> &NodeInfo {
        &self.node
    }

    /// The present snapshot.
    pub fn schema(&self) -> Rc<Schema> {
        self.schema.borrow().clone()
    }

    /// Roles and grants.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Changes the schema. `decide` runs on shard 0, alone, and sees the schema as it is then; what
    /// it returns is made durable as one, then carried out and shown on every shard, then told to
    /// subscribers. Returns the events, one per change, when all shards show the new schema.
    /// No changes: nothing happens, `Ok` with an empty list.
    ///
    /// Once begun it runs to its end, also when the returned future is dropped.
    pub async fn change_schema<E, F>(&self, decide: F) -> Result<Vec<SchemaEvent>, ChangeError<E>>
    where
        F: FnOnce(&Schema) -> Result<Vec<SchemaChange>, E> + Send + 'static,
        E: Send + 'static,
    {
        self.change_schema_for(None, decide).await
    }

    /// The same for a role, which may do everything with what it creates.
    pub async fn change_schema_for<E, F>(
        &self,
        creator: Option<String>,
        decide: F,
    ) -> Result<Vec<SchemaEvent>, ChangeError<E>>
    where
        F: FnOnce(&Schema) -> Result<Vec<SchemaChange>, E> + Send + 'static,
        E: Send + 'static,
    {
        self.in_turn(|cluster| async move { cluster.change(creator.as_deref(), decide).await })
            .await
    }

    /// Runs a change on shard 0, when it has its turn; to its end, also when the returned future is
    /// dropped.
    pub(crate) async fn in_turn<T, E, F, Fut>(&self, change: F) -> Result<T, ChangeError<E>>
    where
        F: FnOnce(Rc<Cluster>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, ChangeError<E>>> + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        let run = move || async move {
            let stops = || Err(ChangeError::Failed("the node stops".to_owned()));
            let Some(cluster) = runtime::local::try_get::<Cluster>() else { return stops() };
            let running = cluster.clone();
            let task = cluster.changes.spawn(async move {
                let turn = running.turn.acquire(1).await;
                let _turn = turn.map_err(|error| ChangeError::Failed(error.to_string()))?;
                change(running.clone()).await
            });
            task.await.unwrap_or_else(|_| stops())
        };
        runtime::on_shard(0, run).await
    }

    /// Microseconds of the next change, later than all before.
    pub(crate) fn next_timestamp(&self) -> i64 {
        let micros = runtime::time::wall_micros().max(self.last_timestamp.get() + 1) + 2;
        self.last_timestamp.set(micros);
        micros
    }

    /// Writes down in `system.truncated` that a table was truncated, at `at` microseconds: for each
    /// shard that had something of it the position in its log before which writes are discarded.
    pub async fn note_truncation(
        &self,
        table: TableId,
        at: i64,
        places: &[(u16, ReplayPosition)],
    ) -> Result<(), String> {
        let mutation = local_rows::truncated(&self.schema.borrow(), table, at, places);
        self.write_down("truncated", table, mutation).await
    }

    /// Records in `system.compaction_history` that a compaction has ended on a shard. Those of that
    /// table itself are not written down: each would be reason for another.
    pub async fn note_compaction(
        &self,
        shard: u16,
        done: &FinishedCompaction,
    ) -> Result<(), String> {
        let history = compaction_rows::TABLE;
        if done.job.keyspace == "system" && done.job.name == history {
            return Ok(());
        }
        let mutation = compaction_rows::compacted(&self.schema.borrow(), shard, done);
        self.write_down(history, done.job.id, mutation).await
    }

    /// The compactions in `system.compaction_history`, of all shards, the latest first.
    pub async fn compaction_history(&self) -> Result<Vec<CompactionRecord>, String> {
        let read = || async {
            let storage = runtime::local::try_get::<Storage>().ok_or("the node stops")?;
            let rows = boot::read_table(&storage, "system", compaction_rows::TABLE).await;
            rows.map_err(|error| error.to_string())
        };
        let mut all = Vec::new();
        for rows in runtime::on_all_shards(read).await {
            all.extend(rows?.iter().map(CompactionRecord::of));
        }
        all.sort_by_key(|record: &CompactionRecord| (-record.ended_at, record.id));
        Ok(all)
    }

    /// Applies a mutation of the partition `key` of a system table on the shard that has it.
    async fn write_down(&self, table: &str, key: Uuid, new: FrozenMutation) -> Result<(), String> {
        let shard = {
            let schema = self.schema.borrow();
            let entry = schema.table("system", table).expect("a system table");
            entry.tablets.shard_of(Token::of(key.as_bytes()))
        };
        let write = move || async move {
            let storage = runtime::local::try_get::<Storage>().ok_or("the node stops")?;
            storage.apply(new).await.map_err(|error| error.to_string())
        };
        runtime::on_shard(shard, write).await
    }

    /// Events from now on.
    pub fn subscribe(&self) -> Events {
        self.subscribers.subscribe()
    }

    /// Notifies the subscribers of this shard.
    pub fn publish(&self, event: &Event) {
        self.subscribers.publish(event);
    }

    /// Gives the virtual table `system.name` its rows on this shard (every shard must). Panics
    /// when there is no such virtual table.
    pub fn provide(&self, name: &str, rows: VirtualRows) {
        let id = self.virtual_id(name);
        self.providers.borrow_mut().insert(id, rows);
    }

    /// Lets the virtual table `system.name` be written on this shard (every shard must).
    pub(crate) fn provide_writer(&self, name: &str, writer: VirtualWriter) {
        let id = self.virtual_id(name);
        self.writers.borrow_mut().insert(id, writer);
    }

    fn virtual_id(&self, name: &str) -> TableId {
        match self.schema.borrow().table("system", name) {
            Some(entry) if entry.kind == crate::TableKind::Virtual => entry.schema.id,
            _ => panic!("no virtual table system.{name}"),
        }
    }

    /// The handler of writes to a virtual table.
    pub(crate) fn virtual_writer(&self, id: TableId) -> Option<VirtualWriter> {
        self.writers.borrow().get(&id).cloned()
    }

    /// Writes to a virtual table. Most are read-only: the error says why.
    pub async fn write_virtual(
        &self,
        table: &TableSchema,
        mutation: &FrozenMutation,
    ) -> Result<(), String> {
        virtual_tables::write(self, table, mutation).await
    }

    /// The provider of the rows of a virtual table; `None`: it has no rows.
    pub fn virtual_rows(&self, id: TableId) -> Option<VirtualRows> {
        self.providers.borrow().get(&id).cloned()
    }

    /// An id for a new table: a time-based UUID, never given twice.
    pub fn new_table_id() -> Uuid {
        time_uuid_now()
    }

    /// Waits for changes in progress, refuses new ones.
    pub(crate) async fn stop(&self) {
        self.turn.close();
        self.changes.join().await;
    }

    async fn change<E, F>(
        &self,
        creator: Option<&str>,
        decide: F,
    ) -> Result<Vec<SchemaEvent>, ChangeError<E>>
    where
        F: FnOnce(&Schema) -> Result<Vec<SchemaChange>, E>,
    {
        let before = self.schema();
        let changes = decide(&before).map_err(ChangeError::Refused)?;
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        let events: Vec<SchemaEvent> = changes.iter().map(SchemaEvent::of).collect();
        let micros = runtime::time::wall_micros().max(self.last_timestamp.get() + 1);
        let shards = self.node.shards;
        let changes = before.complete(changes, micros, shards).map_err(ChangeError::Failed)?;
        self.carry_out(&before, changes, creator, micros).await.map_err(ChangeError::Failed)?;
        tell(events.clone()).await;
        Ok(events)
    }

    /// Makes complete changes durable and visible.
    async fn carry_out(
        &self,
        before: &Schema,
        changes: Vec<SchemaChange>,
        creator: Option<&str>,
        micros: i64,
    ) -> Result<(), String> {
        let shards = self.node.shards;
        let owner = Owner { host_id: self.node.host_id, shards };
        let (mut mutations, last) = schema_tables::mutations(before, &changes, owner, micros);
        self.last_timestamp.set(last);
        let version = time_uuid(last, runtime::random_u64());
        mutations.extend(local_rows::version(before, version, last));
        let grants: Vec<auth::Change> = {
            let access = self.access.state();
            let of = |change| access::consequences(&access, before, change, creator);
            changes.iter().flat_map(of).collect()
        };
        if !grants.is_empty() {
            mutations.append(&mut self.access_mutations(&grants, last));
        }
        let steps = Steps::between(before, &before.apply(&changes, version, shards), &changes);

        let storage = runtime::local::get::<Storage>();
        if let Err(reason) = add_tables(steps.created.clone()).await {
            drop_tables(steps.created_ids(), None).await;
            return Err(reason);
        }
        if let Err(error) = storage.apply_all(mutations).await {
            drop_tables(steps.created_ids(), None).await;
            return Err(error.to_string());
        }
        flush_tables(losing_columns(before, &steps.altered)).await;
        access::show(grants).await;
        show(changes, version, steps.altered).await;
        self.drop_with_snapshots(before, steps.dropped).await;
        tracing::info!(target: "schema", %version, "schema changed");
        Ok(())
    }

    /// Removes dropped tables; takes a snapshot of each, if `auto_snapshot` is set.
    async fn drop_with_snapshots(&self, before: &Schema, ids: Vec<TableId>) {
        let auto = self.auto_snapshots.order("pre-drop", None);
        drop_tables(ids.clone(), auto.as_ref().map(|order| order.tag.clone())).await;
        let made = auto.as_ref().map(|order| (&order.tag, order.ttl));
        let storage = runtime::local::get::<Storage>();
        for table in ids.iter().filter_map(|id| before.table_by_id(*id)) {
            let keyspace = before.keyspace(&table.schema.keyspace).map(|it| &it.keyspace);
            if let Err(error) = storage.complete_dropped(&table.schema, keyspace, made).await {
                let TableSchema { keyspace, name, .. } = &*table.schema;
                tracing::warn!(
                    target: "snapshot",
                    "cannot complete the snapshot of dropped table {keyspace}.{name}: {error}"
                );
            }
        }
    }

    /// Takes a snapshot of a table that is about to be truncated, if `auto_snapshot` is set.
    pub async fn snapshot_before_truncation(&self, table: &TableSchema) -> Result<(), String> {
        let Some(order) = self.auto_snapshots.order("truncated", Some(&table.name)) else {
            return Ok(());
        };
        let storage = runtime::local::try_get::<Storage>().ok_or("the node stops")?;
        storage.take_snapshot(vec![table.id], order).await.map_err(|error| error.to_string())
    }

    /// Replaces this shard's snapshot.
    fn install(&self, changes: &[SchemaChange], version: Uuid) {
        let next = self.schema.borrow().apply(changes, version, self.node.shards);
        if let Some(storage) = runtime::local::try_get::<Storage>() {
            for change in changes {
                tell_durable_writes(&storage, &next, change);
            }
        }
        *self.schema.borrow_mut() = Rc::new(next);
    }
}

/// Tells storage whether the writes of tables that a change concerns are logged.
fn tell_durable_writes(storage: &Storage, next: &Schema, change: &SchemaChange) {
    match change {
        SchemaChange::AlterKeyspace(keyspace) => {
            let tables = next.keyspace(&keyspace.name).into_iter().flat_map(|it| &it.tables);
            let ids = tables.map(|(_, table)| table.schema.id);
            ids.for_each(|id| storage.set_durable_writes(id, keyspace.durable_writes));
        }
        SchemaChange::CreateTable(table) => {
            let durable =
                next.keyspace(&table.keyspace).is_none_or(|it| it.keyspace.durable_writes);
            storage.set_durable_writes(table.id, durable);
        }
        _ => {}
    }
}

/// What changes mean for storage.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Steps {
    created: Vec<(TableSchema, TabletMap)>,
    altered: Vec<TableSchema>,
    dropped: Vec<TableId>,
}

impl Steps {
    /// Only what is there in the end is created, only what was there before is dropped.
    fn between(before: &Schema, after: &Schema, changes: &[SchemaChange]) -> Steps {
        let mut steps = Steps { created: Vec::new(), altered: Vec::new(), dropped: Vec::new() };
        for change in changes {
            match change {
                SchemaChange::CreateTable(table) => {
                    if let Some(entry) = after.table_by_id(table.id) {
                        let made = ((*entry.schema).clone(), (*entry.tablets).clone());
                        steps.created.push(made);
                    }
                }
                SchemaChange::AlterTable(table) if before.table_by_id(table.id).is_some() => {
                    steps.altered.push(table.clone());
                }
                SchemaChange::DropTable { keyspace, name } => {
                    steps.dropped.extend(before.table(keyspace, name).map(|it| it.schema.id));
                }
                SchemaChange::DropKeyspace(name) => {
                    let tables = before.keyspace(name).into_iter().flat_map(|it| &it.tables);
                    steps.dropped.extend(tables.map(|(_, table)| table.schema.id));
                }
                _ => {}
            }
        }
        steps
    }

    fn created_ids(&self) -> Vec<TableId> {
        self.created.iter().map(|(table, _)| table.id).collect()
    }
}

/// Makes new tables known to the storage of every shard.
async fn add_tables(tables: Vec<(TableSchema, TabletMap)>) -> Result<(), String> {
    if tables.is_empty() {
        return Ok(());
    }
    let add = move || async move {
        let storage = runtime::local::get::<Storage>();
        for (table, map) in tables {
            let name = format!("{}.{}", table.keyspace, table.name);
            let added = storage.add_table(Rc::new(table), map, Log::Data).await;
            added.map_err(|error| format!("table {name}: {error}"))?;
        }
        Ok(())
    };
    runtime::on_all_shards(add).await.into_iter().collect()
}

/// Removes dropped tables from the storage of every shard. That they are dropped is durable
/// already, so errors are only logged.
/// With `snapshot`, their SSTables stay as one of that name.
async fn drop_tables(ids: Vec<TableId>, snapshot: Option<SnapshotTag>) {
    if ids.is_empty() {
        return;
    }
    let remove = move || async move {
        let storage = runtime::local::get::<Storage>();
        for id in ids {
            if let Err(error) = storage.drop_table(id, snapshot.as_ref()).await {
                tracing::warn!(
                    target: "schema", %id, %error,
                    "cannot remove the files of a dropped table"
                );
            }
        }
    };
    runtime::on_all_shards(remove).await;
}

/// The altered tables that lose columns.
fn losing_columns(before: &Schema, altered: &[TableSchema]) -> Vec<TableId> {
    let loses = |table: &&TableSchema| {
        let old = before.table_by_id(table.id);
        old.is_some_and(|old| old.schema.dropped.len() < table.dropped.len())
    };
    altered.iter().filter(loses).map(|table| table.id).collect()
}

/// Writes memtables on every shard. Cells that are newer than the drop of their column come back
/// with a column of its name, and only SSTables keep those of columns that are not there.
async fn flush_tables(ids: Vec<TableId>) {
    if ids.is_empty() {
        return;
    }
    let flush = move || async move {
        let storage = runtime::local::get::<Storage>();
        for id in ids {
            if let Err(error) = storage.flush(id).await {
                tracing::warn!(
                    target: "schema", %id, %error,
                    "cannot flush a table before columns are dropped"
                );
            }
        }
    };
    runtime::on_all_shards(flush).await;
}

/// Shows a durable change on every shard.
async fn show(changes: Vec<SchemaChange>, version: Uuid, altered: Vec<TableSchema>) {
    let show = move || async move {
        if !altered.is_empty() {
            let storage = runtime::local::get::<Storage>();
            altered.into_iter().for_each(|table| storage.alter_table(Rc::new(table)));
        }
        runtime::local::get::<Cluster>().install(&changes, version);
    };
    runtime::on_all_shards(show).await;
}

/// Notifies the subscribers of every shard.
async fn tell(events: Vec<SchemaEvent>) {
    let tell = move || async move {
        let cluster = runtime::local::get::<Cluster>();
        events.into_iter().for_each(|event| cluster.publish(&Event::Schema(event)));
    };
    runtime::on_all_shards(tell).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::testing::{keyspace, table};
    use model::ColumnKind;

    #[test]
    fn storage_learns_only_what_lasts() {
        let columns = [("pk", "int", ColumnKind::PartitionKey)];
        let made = |name, id| SchemaChange::CreateTable(table("ks", name, id, &columns));
        let drop =
            |name: &str| SchemaChange::DropTable { keyspace: "ks".into(), name: name.into() };
        let empty = Schema::of_system(Uuid::from_u128(1), 2);
        let space = SchemaChange::CreateKeyspace(keyspace("ks", None));
        let before = empty.apply(&[space, made("a", 1), made("b", 2)], empty.version, 2);
        let check = |changes: Vec<SchemaChange>, created: &[u128], dropped: &[u128]| {
            let after = before.apply(&changes, before.version, 2);
            let steps = Steps::between(&before, &after, &changes);
            let ids = |ids: &[u128]| ids.iter().map(|id| Uuid::from_u128(*id)).collect::<Vec<_>>();
            assert_eq!(steps.created_ids(), ids(created));
            assert_eq!(steps.dropped, ids(dropped));
        };
        check(vec![made("c", 3)], &[3], &[]);
        check(vec![made("c", 3), drop("c")], &[], &[]);
        check(vec![drop("a"), made("a", 4)], &[4], &[1]);
        check(vec![SchemaChange::DropKeyspace("ks".into())], &[], &[1, 2]);
    }

    #[test]
    fn tables_that_lose_columns_are_found() {
        let columns = [("pk", "int", ColumnKind::PartitionKey), ("v", "int", ColumnKind::Regular)];
        let old = table("ks", "t", 1, &columns);
        let space = SchemaChange::CreateKeyspace(keyspace("ks", None));
        let empty = Schema::of_system(Uuid::from_u128(1), 2);
        let before =
            empty.apply(&[space, SchemaChange::CreateTable(old.clone())], empty.version, 2);
        let lost = old.edit().drop_column("v", 5).build().unwrap();
        let again = lost.edit().regular("v", model::Type::Int).build().unwrap();
        let more = old.edit().regular("w", model::Type::Int).build().unwrap();
        let check = |altered: &[&TableSchema], expected: &[TableId]| {
            let altered: Vec<TableSchema> = altered.iter().map(|it| (*it).clone()).collect();
            assert_eq!(losing_columns(&before, &altered), expected);
        };
        check(&[], &[]);
        check(&[&more], &[]);
        check(&[&lost], &[old.id]);
        let after = before.apply(&[SchemaChange::AlterTable(lost)], before.version, 2);
        assert!(losing_columns(&after, &[again]).is_empty());
    }
}
