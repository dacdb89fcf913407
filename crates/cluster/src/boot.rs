//! Starting a node, from directories to a schema that every shard shows; and stopping it.
//!
//! The order: identity, storage on every shard, system tables, schema log, schema, user tables,
//! data log, the row of `system.local`. Every error names the step that failed, and the shard.
//!
//! Invariants
//!  - *same-node*: a host id, once made, stays with the data directory. It is needed before any
//!    table can be opened, so it is also in a file of its own, [`IDENTITY_FILE`]; where the file
//!    and `system.local` differ, the table is right.

use crate::access;
use crate::local_rows::{self, Remembered};
use crate::node::{NodeConfig, NodeInfo};
use crate::registry::Cluster;
use crate::schema::{Schema, SchemaImage};
use crate::schema_tables::read::{self, Row, Stored};
use crate::schema_tables::write::{Owner, Writer};
use crate::schema_tables::{rows, write};
use crate::system_tables::{self, Home};
use crate::uuids::{random_uuid, time_of, time_uuid};
use crate::virtual_tables;
use model::{TableSchema, TabletMap, Uuid};
use mutation::FrozenMutation;
use runtime::io::{IoError, fs};
use std::fmt;
use std::path::Path;
use std::rc::Rc;
use storage::{Log, Storage};

/// Holds the node's host id, in the data directory.
pub const IDENTITY_FILE: &str = "host_id";

/// Bytes of a page of a system table that is read at the start, about.
const BOOT_PAGE_BYTES: usize = 128 << 10;
/// The key in `system.scylla_local` of what tells which system tables `system_schema` shows.
const SYSTEM_TABLES_KEY: &str = "nereid_system_tables";

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

/// Makes an error of `step`.
fn at<E: fmt::Display>(step: &'static str) -> impl FnOnce(E) -> BootError {
    move |error| BootError { step, what: error.to_string() }
}

/// Starts the node. Runs on shard 0, once; when it returns, [`Storage`] and [`Cluster`] are in
/// `runtime::local` of every shard.
pub async fn boot(config: BootConfig) -> Result<(), BootError> {
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

    let found = Found::read(&storage, shards).await?;
    let host_id = agree_on_identity(&found.remembered, host_id, &storage_config.data_dir).await?;
    let node = config.node.resolve(host_id, &found.remembered, shards);
    tracing::info!(
        target: "schema",
        keyspaces = found.schema.keyspaces.len(),
        tables = found.schema.by_id.len(),
        "schema loaded"
    );

    install(node.clone(), &found).await?;
    let replayed = storage.replay(Log::Data).await.map_err(at("replay the commitlog"))?;
    tracing::info!(
        target: "commitlog",
        segments = replayed.segments,
        bytes = replayed.bytes,
        mutations = replayed.applied,
        corrupt_bytes = replayed.corrupt_bytes,
        "commitlog replayed"
    );
    introduce(&storage, &node, &found).await?;
    tracing::info!(target: "init", host_id = %node.host_id, shards, "node started");
    Ok(())
}

/// Ends what [`boot`] started: waits for schema changes in progress, flushes and closes. Runs on
/// shard 0.
pub async fn stop() -> Result<(), BootError> {
    runtime::local::get::<Cluster>().stop().await;
    let stop = || async {
        runtime::local::clear::<Cluster>();
        let stopped = runtime::local::get::<Storage>().stop().await;
        stopped.map_err(|error| format!("shard {}: {error}", runtime::shard_id()))
    };
    let stopped = runtime::on_all_shards(stop).await;
    stopped.into_iter().collect::<Result<(), String>>().map_err(at("stop the storage"))
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

/// What the schema's tables hold.
struct Found {
    remembered: Remembered,
    schema: Schema,
    access: auth::State,
    /// When roles or grants changed last, microseconds.
    access_changed_at: i64,
    /// Which system tables `system_schema` shows; empty at first.
    shown: String,
}

impl Found {
    async fn read(storage: &Storage, shards: u16) -> Result<Found, BootError> {
        let remembered = local_rows::remembered(&read_table(storage, "system", "local").await?);
        let fresh = time_uuid(runtime::time::wall_micros(), runtime::random_u64());
        let version = remembered.schema_version.unwrap_or(fresh);
        let mut schema = Schema::of_system(version, shards);
        let mut stored = Stored::default();
        for table in read::TABLES {
            stored.add(table, read_table(storage, read::keyspace_of(table), table).await?);
        }
        read::load(&mut schema, &stored, shards).map_err(at("load the schema"))?;
        let facts = read_table(storage, "system", "scylla_local").await?;
        let shown = local_rows::find_fact(&facts, SYSTEM_TABLES_KEY);
        let access = access::read(storage).await?;
        let changed_at = local_rows::find_fact(&facts, access::LAST_CHANGE_KEY);
        let access_changed_at = changed_at.parse().unwrap_or(0);
        Ok(Found { remembered, schema, access, access_changed_at, shown })
    }
}

/// All rows of a system table of this shard.
pub(crate) async fn read_table(
    storage: &Storage,
    keyspace: &str,
    name: &str,
) -> Result<Vec<Row>, BootError> {
    let table = system_tables::table(keyspace, name);
    let now = runtime::time::wall_micros().div_euclid(1_000_000);
    let mut command = rows::read_all(&table, now);
    // Rows of a larger page hold the shard for milliseconds while they are decoded.
    command.bytes_max = command.bytes_max.min(BOOT_PAGE_BYTES);
    let mut found = Vec::new();
    loop {
        runtime::task::yield_if_needed().await;
        let page = storage.read(&command).await.map_err(|error| BootError {
            step: "read a system table",
            what: format!("{keyspace}.{name}: {error:?}"),
        })?;
        let decoded = rows::decode(&table, &command, &page, &mut found);
        decoded.map_err(at("read a system table"))?;
        if !rows::advance(&mut command, &page) {
            return Ok(found);
        }
    }
}

/// Puts a [`Cluster`] on every shard and opens the tables that the data log fills.
async fn install(node: NodeInfo, found: &Found) -> Result<(), BootError> {
    let image = SchemaImage::of(&found.schema);
    let last_timestamp = time_of(found.schema.version).unwrap_or(0).max(found.access_changed_at);
    let access = found.access.clone();
    let install = move || async move {
        let schema = image.into_schema();
        let storage = runtime::local::get::<Storage>();
        for entry in schema.by_id.values() {
            let (schema, tablets) = (&entry.schema, &entry.tablets);
            if is_data_table(schema, entry.kind) {
                add_table(&storage, (**schema).clone(), (**tablets).clone(), Log::Data).await?;
            }
        }
        for keyspace in schema.keyspaces.values().filter(|it| !it.keyspace.durable_writes) {
            let ids = keyspace.tables.values().map(|table| table.schema.id);
            ids.for_each(|id| storage.set_durable_writes(id, false));
        }
        let cluster = Rc::new(Cluster::new(node, schema, access, last_timestamp));
        runtime::local::set(cluster.clone());
        runtime::local::set(Rc::new(storage::Keyspaces(|name| {
            let schema = runtime::local::try_get::<Cluster>()?.schema();
            schema.keyspace(name).map(|entry| entry.keyspace.clone())
        })));
        virtual_tables::provide_own(&cluster);
        Ok(())
    };
    runtime::on_all_shards(install).await.into_iter().collect()
}

/// Whether a table's writes go to the data log.
fn is_data_table(table: &TableSchema, kind: crate::TableKind) -> bool {
    let in_schema_log = || {
        Schema::is_system(&table.keyspace) && system_tables::home(table.id) == Some(Home::SchemaLog)
    };
    kind == crate::TableKind::Stored && !in_schema_log()
}

/// Writes what the node says of itself, and the system's own tables where `system_schema` shows
/// others.
async fn introduce(storage: &Storage, node: &NodeInfo, found: &Found) -> Result<(), BootError> {
    let schema = &found.schema;
    let floor = time_of(schema.version).unwrap_or(0) + 1;
    let timestamp = runtime::time::wall_micros().max(floor);
    let mut mutations = vec![local_rows::node(schema, node, timestamp)];
    mutations.extend(local_rows::version(schema, schema.version, timestamp));
    let digest = system_tables::digest();
    if found.shown != digest {
        let owner = Owner { host_id: node.host_id, shards: node.shards };
        mutations.append(&mut show_system_tables(schema, owner, timestamp));
        mutations.push(local_rows::fact(schema, SYSTEM_TABLES_KEY, &digest, timestamp));
    }
    storage.apply_all(mutations).await.map_err(at("write the node's own tables"))
}

/// The rows of `system_schema` about the system's own tables, instead of those before.
fn show_system_tables(schema: &Schema, owner: write::Owner, timestamp: i64) -> Vec<FrozenMutation> {
    let mut writer = Writer::new(schema, owner);
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
