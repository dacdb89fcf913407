//! Starting a node, from directories to a schema that every shard shows; and stopping it.
//!
//! The order: identity, storage on every shard, system tables, schema log, schema, user tables,
//! data log, the row of `system.local`. Every error names the step that failed, and the shard.
//!
//! Invariants
//!  - *same-node*: a host id, once made, stays with the data directory. It is needed before any
//!    table can be opened, so it is also in a file of its own, [`IDENTITY_FILE`]; where the file
//!    and `system.local` differ, the table is right.

use crate::computed_tables;
use crate::node::{NodeConfig, NodeInfo, Remembered};
use crate::node_tables::{ReadFailed, local, read_table};
use crate::registry::Cluster;
use crate::schema::{Catalog, Schema};
use crate::stored;
use crate::stream_tables;
use crate::uuids::random_uuid;
use catalog::TableKind;
use catalog::facts::{self, ACCESS_CHANGED_AT, SYSTEM_TABLES_SHOWN};
use catalog::placement::Here;
use catalog::schema_tables::{read, write::Writer};
use catalog::system_tables::{self, Home};
use catalog::uuids::{time_of, time_uuid};
use model::{TableSchema, TabletMap, Uuid};
use mutation::FrozenMutation;
use runtime::Erased;
use runtime::io::{IoError, fs};
use std::fmt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use storage::{Log, ReplayStats, Storage};

/// Holds the node's host id, in the data directory.
pub const IDENTITY_FILE: &str = "host_id";

/// The time of the schema of every new node, which has nothing but the system's tables.
const NEW_SCHEMA_AT: i64 = 1;

/// What a node is started with.
#[derive(Clone, Debug)]
pub struct BootConfig {
    pub node: NodeConfig,
    /// Its `host_id` is replaced by the node's own.
    pub storage: storage::Config,
}

/// Why a node did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootError {
    /// What was being done.
    pub step: &'static str,
    /// What was wrong, with the file, table or shard.
    pub what: String,
}

impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.step, self.what)
    }
}
impl std::error::Error for BootError {}

impl From<ReadFailed> for BootError {
    fn from(failed: ReadFailed) -> BootError {
        BootError { step: ReadFailed::STEP, what: failed.what }
    }
}

/// Makes an error of `step`.
fn at<E: fmt::Display>(step: &'static str) -> impl FnOnce(E) -> BootError {
    move |error| BootError { step, what: error.to_string() }
}

/// Starts the node. Runs on shard 0, once; when it returns, [`Storage`] and [`Cluster`] are in
/// `runtime::local` of every shard.
pub fn boot(config: BootConfig) -> Erased<'static, Result<(), BootError>> {
    Erased::new(move || async move {
        assert!(runtime::shard_id() == 0, "boot runs on shard 0");
        let shards = runtime::shard_count();
        let mut storage_config = config.storage.clone();
        let dirs = [
            &storage_config.data_dir,
            &storage_config.commitlog_dir,
            &storage_config.schema_commitlog_dir,
        ];
        for dir in dirs {
            make_dir(dir).await.map_err(at("make the directories"))?;
        }
        let host_id = identity(&storage_config.data_dir).await.map_err(at("identify the node"))?;
        storage_config.host_id = host_id;
        open_storage(storage_config.clone()).await?;
        let storage = runtime::local::get::<Storage>();

        add_schema_tables(&storage).await?;
        let replayed = storage.replay(Log::Schema).await.map_err(at("replay the schema log"))?;
        tracing::info!(target: "schema", segments = replayed.segments, "schema log replayed");

        let found = Found::read(&storage, Here { host_id, shards }).await?;
        let host_id =
            agree_on_identity(&found.remembered, host_id, &storage_config.data_dir).await?;
        let is_member = found.catalog.topology.member(host_id).is_some();
        let node = config.node.resolve(host_id, &found.remembered, is_member, shards);
        let node = node.map_err(at("start the node"))?;
        assert!(node.host_id == host_id, "same-node: {} is not {host_id}", node.host_id);
        let known = found.remembered.host_id.is_none_or(|known| known == host_id);
        assert!(known, "same-node: {host_id} is not in system.local");
        tracing::info!(
            target: "schema",
            keyspaces = found.catalog.schema.keyspaces.len(),
            tables = found.catalog.schema.tables().count(),
            "schema loaded"
        );

        install(node.clone(), &found).await?;
        let replayed = storage.replay(Log::Data).await.map_err(at("replay the commitlog"))?;
        tell_replayed(&replayed);
        introduce(&storage, &node, &found).await?;
        tracing::info!(target: "init", host_id = %node.host_id, shards, "node started");
        Ok(())
    })
}

/// One line about the commitlog of the last run, if there is any.
fn tell_replayed(replayed: &ReplayStats) {
    if replayed.segments == 0 {
        return;
    }
    let skipped = replayed.unknown_table + replayed.truncated;
    tracing::info!(
        target: "commitlog",
        segments = replayed.segments,
        bytes = replayed.bytes,
        corrupt_bytes = replayed.corrupt_bytes,
        "Log replay complete, {} replayed mutations ({} invalid, {skipped} skipped)",
        replayed.applied,
        replayed.invalid,
    );
}

/// Ends what [`boot`] started: waits for schema changes in progress, flushes and closes. Runs on
/// shard 0.
pub fn stop() -> Erased<'static, Result<(), BootError>> {
    Erased::new(move || async move {
        assert!(runtime::shard_id() == 0, "stop runs on shard 0");
        runtime::local::get::<Cluster>().stop().await;
        let stop = || async {
            runtime::local::clear::<Cluster>();
            let stopped = runtime::local::get::<Storage>().stop().await;
            stopped.map_err(|error| format!("shard {}: {error}", runtime::shard_id()))
        };
        let stopped = runtime::on_all_shards(stop).await;
        stopped.into_iter().collect::<Result<(), String>>().map_err(at("stop the storage"))
    })
}

/// Makes a directory and those above it that are missing, so that a crash does not take them.
async fn make_dir(dir: &Path) -> Result<(), IoError> {
    let mut missing = Vec::new();
    for ancestor in dir.ancestors() {
        if ancestor.as_os_str().is_empty() || fs::exists(ancestor).await? {
            break;
        }
        missing.push(ancestor);
    }
    fs::create_dir_all(dir).await?;
    for made in missing.into_iter().rev() {
        match made.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => fs::sync_dir(parent).await?,
            _ => fs::sync_dir(".").await?,
        }
    }
    Ok(())
}

/// The host id of the data directory, made when it has none.
async fn identity(data_dir: &Path) -> Result<Uuid, String> {
    let path = data_dir.join(IDENTITY_FILE);
    if !fs::exists(&path).await.map_err(|error| error.to_string())? {
        let id = random_uuid();
        write_identity(&path, id).await?;
        return Ok(id);
    }
    let bytes = fs::read_file(&path).await.map_err(|error| error.to_string())?;
    let id = std::str::from_utf8(&bytes).ok().and_then(|text| Uuid::parse_str(text.trim()).ok());
    id.ok_or_else(|| format!("{} does not contain a UUID", path.display()))
}

async fn write_identity(path: &Path, id: Uuid) -> Result<(), String> {
    assert!(!id.is_nil(), "same-node: a node without a name");
    let line = format!("{id}\n");
    fs::write_file_atomic(path, line.as_bytes()).await.map_err(|error| error.to_string())
}

/// The table's id wins over the file's.
async fn agree_on_identity(
    remembered: &Remembered,
    host_id: Uuid,
    data_dir: &Path,
) -> Result<Uuid, BootError> {
    match remembered.host_id {
        Some(known) if known != host_id => {
            tracing::warn!(
                target: "init", %known, file = %host_id,
                "host id file differs from system.local: rewritten"
            );
            let path = data_dir.join(IDENTITY_FILE);
            write_identity(&path, known).await.map_err(at("identify the node"))?;
            Ok(known)
        }
        _ => Ok(host_id),
    }
}

async fn open_storage(config: storage::Config) -> Result<(), BootError> {
    let open = move || async move {
        let opened = Storage::open(config).await.map(drop);
        opened.map_err(|error| format!("shard {}: {error}", runtime::shard_id()))
    };
    let opened = runtime::on_all_shards(open).await;
    opened.into_iter().collect::<Result<(), String>>().map_err(at("open the storage"))
}

/// The tables that the schema log fills: on shard 0 alone.
async fn add_schema_tables(storage: &Storage) -> Result<(), BootError> {
    assert!(runtime::shard_id() == 0, "the schema log is of shard 0");
    for (table, home) in system_tables::tables() {
        if home == Home::SchemaLog {
            add_table(storage, table, TabletMap::single(0), Log::Schema).await?;
        }
    }
    Ok(())
}

async fn add_table(
    storage: &Storage,
    table: TableSchema,
    map: TabletMap,
    log: Log,
) -> Result<(), BootError> {
    let name = format!("{}.{}", table.keyspace, table.name);
    let added = storage.add_table(Rc::new(table), map, log).await;
    added.map_err(|error| BootError {
        step: "open a table",
        what: format!("{name} on shard {}: {error}", runtime::shard_id()),
    })
}

/// What the tables of the schema log hold.
struct Found {
    remembered: Remembered,
    catalog: Catalog,
    /// When roles or grants changed last, microseconds.
    access_changed_at: i64,
    /// Which system tables `system_schema` shows; empty at first.
    shown: String,
}

impl Found {
    /// `here`: the node, unless the tables know it by another id.
    async fn read(storage: &Storage, here: Here) -> Result<Found, BootError> {
        let remembered = local::remembered(&read_table(storage, "system", "local").await?);
        let version = remembered.schema_version.unwrap_or(time_uuid(NEW_SCHEMA_AT, 0));
        let host_id = remembered.host_id.unwrap_or(here.host_id);
        let mut schema = Schema::of_system(version, here.shards);
        let rows = stored::schema_rows(storage).await?;
        let here = Here { host_id, ..here };
        read::load(&mut schema, &rows, here).map_err(at("load the schema"))?;
        let facts = read_table(storage, "system", "scylla_local").await?;
        let shown = facts::find(&facts, SYSTEM_TABLES_SHOWN);
        let access = stored::access(storage).await?;
        let access_changed_at = facts::find(&facts, ACCESS_CHANGED_AT).parse().unwrap_or(0);
        let topology = Arc::new(stored::topology(storage).await?);
        // A node stores so until its next start (`catalog::placement::conversion`).
        let schema = schema.stored_by(topology.intended(host_id), here);
        let catalog = Catalog { schema: Rc::new(schema), access, topology };
        Ok(Found { remembered, catalog, access_changed_at, shown })
    }
}

/// Puts a [`Cluster`] on every shard and opens the tables that the data log fills.
async fn install(node: NodeInfo, found: &Found) -> Result<(), BootError> {
    let image = found.catalog.image();
    let version = found.catalog.schema.version;
    let last_timestamp = time_of(version).unwrap_or(0).max(found.access_changed_at);
    let install = move || async move {
        let catalog: Catalog = image.into_catalog();
        let schema = catalog.schema.clone();
        assert!(schema.version == version, "whole-snapshots: {} is not {version}", schema.version);
        let storage = runtime::local::get::<Storage>();
        for entry in schema.tables() {
            let (schema, tablets) = (&entry.schema, &entry.tablets);
            if is_data_table(schema, entry.kind) {
                add_table(&storage, (**schema).clone(), (**tablets).clone(), Log::Data).await?;
                storage.set_single(schema.id, entry.is_single());
            }
        }
        for keyspace in schema.keyspaces.values().filter(|it| !it.keyspace.durable_writes) {
            let ids = keyspace.tables.values().map(|table| table.schema.id);
            ids.for_each(|id| storage.set_durable_writes(id, false));
        }
        crate::registry::tell_deriving(&storage, &schema);
        let before = runtime::local::try_get::<Cluster>();
        assert!(before.is_none(), "a shard has one cluster");
        let cluster = Rc::new(Cluster::new(node, catalog, last_timestamp));
        runtime::local::set(cluster.clone());
        runtime::local::set(Rc::new(storage::Keyspaces(|name| {
            let schema = runtime::local::try_get::<Cluster>()?.schema();
            schema.keyspace(name).map(|entry| entry.keyspace.clone())
        })));
        computed_tables::provide_own(&cluster);
        stream_tables::provide(&cluster);
        Ok(())
    };
    let installed = runtime::on_all_shards(install).await;
    assert!(installed.len() == usize::from(runtime::shard_count()), "a shard has no cluster");
    installed.into_iter().collect()
}

/// Whether a table's writes go to the data log.
fn is_data_table(table: &TableSchema, kind: TableKind) -> bool {
    let in_schema_log = || {
        Schema::is_system(&table.keyspace) && system_tables::home(table.id) == Some(Home::SchemaLog)
    };
    kind == TableKind::Stored && !in_schema_log()
}

/// Writes what the node says of itself, and the system's own tables where `system_schema` shows
/// others.
async fn introduce(storage: &Storage, node: &NodeInfo, found: &Found) -> Result<(), BootError> {
    let schema = &*found.catalog.schema;
    let floor = time_of(schema.version).unwrap_or(0) + 1;
    let timestamp = runtime::time::wall_micros().max(floor);
    let before = time_of(schema.version).unwrap_or(0);
    assert!(before < timestamp, "later-than-all: {timestamp} after {before}");
    let mut mutations = vec![local::node(schema, node, timestamp)];
    if found.remembered.schema_version.is_none() {
        // At its own time: what other nodes have decided before this start is later.
        mutations.extend(facts::version(schema, schema.version, NEW_SCHEMA_AT));
    }
    let digest = system_tables::digest();
    if found.shown != digest {
        mutations.append(&mut show_system_tables(schema, timestamp));
        mutations.push(facts::fact(schema, SYSTEM_TABLES_SHOWN, &digest, timestamp));
    }
    storage.apply_all(mutations).await.map_err(at("write the node's own tables"))
}

/// The rows of `system_schema` about the system's own tables, instead of those before.
fn show_system_tables(schema: &Schema, timestamp: i64) -> Vec<FrozenMutation> {
    let mut writer = Writer::new(schema);
    for keyspace in system_tables::keyspaces() {
        writer.forget_keyspace(&keyspace.name, timestamp);
        writer.keyspace(&keyspace, timestamp);
    }
    for user in system_tables::types() {
        writer.user_type(&user, timestamp);
    }
    for (table, _) in system_tables::tables() {
        writer.table(&table, timestamp);
    }
    writer.finish()
}
