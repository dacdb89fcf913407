//! Snapshots: the SSTables of a table under second names, in `snapshots/TAG/` of its directory.
//!
//! Taking one copies nothing: each file gets a hard link, so a snapshot takes room of its own only
//! as compaction and deletion take the table's own names away. Beside the links lie `schema.cql`,
//! which makes the table on a node that has nothing of it, and `manifest.json`, which tells what it
//! is and when it expires. To put one back, its files are copied into `upload/` of a table of that
//! schema (see `upload`), or its directory is imported (see `import`).
//!
//! Invariants
//!  - *manifest-last*: the manifest is written when all links are durable, and is what clearing
//!    removes first: a directory without one is a snapshot that a crash left unfinished. It is
//!    listed and cleared like others, and never expires.
//!  - *whole-sets*: while a shard links, nothing that it links is removed ([`Table::removals`]).
//!    What a truncation on another shard takes away meanwhile makes the snapshot fail, and go.
//!  - *one-place*: a snapshot is a directory right below `snapshots/`.
//!  - *in-turn*: shard 0 takes and clears, one at a time.
//!  - *outlives-the-table*: dropping a table leaves its snapshots and what is in `backups/`, and
//!    nothing beside them. With the last snapshot its directory goes, unless it has backups: those
//!    are for somebody to take away.

mod manifest;
mod reading;

pub use reading::{OpenSnapshot, SnapshotPlace};

use super::Shard;
use crate::error::StorageError;
use crate::table::dir::{BACKUPS, SNAPSHOTS, directory, prepare_dir};
use crate::table::{Table, pass_gate};
use manifest::Manifest;
use model::{Keyspace, TableId, TableSchema};
use runtime::io::{IoError, fs};
use runtime::task::race;
use runtime::time::{sleep, wall_micros};
use runtime::{local, on_all_shards, on_shard};
use sstable::{Descriptor, store};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

const SCHEMA: &str = "schema.cql";
/// The longest name of a file.
const TAG_BYTES_MAX: usize = 255;
/// After so long snapshots are looked at again, whatever is known of them.
const EXPIRY_PERIOD_MAX: Duration = Duration::from_secs(3600);

/// The name of a snapshot: the name of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotTag(String);

impl SnapshotTag {
    /// Refuses what cannot be the name of a directory; says why.
    pub fn new(text: &str) -> Result<SnapshotTag, String> {
        let why = match text {
            "" => "it is empty",
            "." | ".." => "it is no name",
            _ if TAG_BYTES_MAX < text.len() => "it is too long",
            _ if text.contains(['/', '\0']) => "it has a slash or a zero in it",
            _ => return Ok(SnapshotTag(text.to_owned())),
        };
        Err(format!("not a name of a snapshot: {why}: {text:?}"))
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What names begin with of snapshots that are parts of backups: who clears all snapshots does not
/// mean them.
pub const BACKUP_PREFIX: &str = "dynamodb-";

/// What is done about memtables before a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memtables {
    /// They are flushed: the snapshot has all that was written before.
    Flushed,
    /// They are left out.
    LeftOut,
}

/// Tells keyspaces by name. Whoever knows them sets it in `runtime::local` of shard 0; a snapshot's
/// `schema.cql` makes its keyspace then.
pub struct Keyspaces(pub fn(&str) -> Option<Keyspace>);

/// A snapshot that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotOrder {
    /// Its name; a table has one snapshot of a name.
    pub tag: SnapshotTag,
    /// Whether it holds what is in memory only.
    pub memtables: Memtables,
    /// After how long it is cleared, rounded up to seconds; `None`: not by itself.
    pub ttl: Option<Duration>,
}

/// A snapshot of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The table's keyspace.
    pub keyspace: String,
    /// The table, which may have been dropped.
    pub table: String,
    /// The table's id, as its directory has it.
    pub table_id: Option<TableId>,
    /// Its name.
    pub tag: String,
    /// Bytes of its SSTables.
    pub total_bytes: u64,
    /// Those of files that the table itself has no more: what clearing it gives back.
    pub live_bytes: u64,
    /// When it was taken, in seconds since 1970; `None` if it is unfinished.
    pub created_secs: Option<i64>,
    /// When it is cleared, in seconds since 1970.
    pub expires_secs: Option<i64>,
}

/// Which snapshots are meant: what is said must fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotFilter {
    /// The name; any but those of backups ([`BACKUP_PREFIX`]), if it is not said.
    pub tag: Option<String>,
    /// One of these keyspaces; empty: any.
    pub keyspaces: Vec<String>,
    /// The table.
    pub table: Option<String>,
}

/// Why a snapshot was not taken, or some were not cleared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// It is there already.
    Exists(String),
    /// Files could not be linked, written, or removed.
    Failed(String),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (SnapshotError::Exists(text) | SnapshotError::Failed(text)) = self;
        f.write_str(text)
    }
}
impl std::error::Error for SnapshotError {}

impl From<StorageError> for SnapshotError {
    fn from(error: StorageError) -> SnapshotError {
        SnapshotError::Failed(error.to_string())
    }
}
impl From<IoError> for SnapshotError {
    fn from(error: IoError) -> SnapshotError {
        SnapshotError::Failed(error.to_string())
    }
}

impl Shard {
    /// See [`crate::Storage::take_snapshot`].
    pub(crate) async fn take_snapshot(
        &self,
        tables: Vec<TableId>,
        order: SnapshotOrder,
    ) -> Result<(), SnapshotError> {
        let take = move || async move {
            let shard = of_shard()?;
            let _turn = shard.await_snapshot_turn().await?;
            shard.take_in_turn(tables, &order).await
        };
        on_shard(0, take).await
    }

    /// See [`crate::Storage::snapshots`].
    pub(crate) async fn snapshots(&self) -> Result<Vec<Snapshot>, SnapshotError> {
        let mut found = Vec::new();
        for place in places(&self.config.data_dir).await? {
            found.extend(place.look().await?);
        }
        Ok(found)
    }

    /// See [`crate::Storage::clear_snapshots`].
    pub(crate) async fn clear_snapshots(
        &self,
        filter: SnapshotFilter,
    ) -> Result<usize, SnapshotError> {
        let clear = move || async move {
            let shard = of_shard()?;
            let _turn = shard.await_snapshot_turn().await?;
            let mut cleared = 0;
            for place in places(&shard.config.data_dir).await? {
                if place.fits(&filter) {
                    shard.clear_place(&place).await?;
                    cleared += 1;
                }
            }
            Ok(cleared)
        };
        on_shard(0, clear).await
    }

    /// See [`crate::Storage::expire_snapshots`].
    pub(crate) async fn expire_snapshots(&self) {
        assert_eq!(runtime::shard_id(), 0, "shard 0 clears snapshots");
        loop {
            let wait = match self.clear_expired().await {
                Ok(next) => next.map(|at| Duration::from_secs((at - now_secs()).max(1) as u64)),
                Err(error) => {
                    tracing::warn!("expired snapshots cannot be cleared: {error}");
                    None
                }
            };
            let wait = wait.unwrap_or(EXPIRY_PERIOD_MAX).min(EXPIRY_PERIOD_MAX);
            race(sleep(wait), self.snapshot_taken.notified()).await;
        }
    }

    /// See [`crate::Storage::complete_dropped`].
    pub(crate) async fn complete_dropped(
        &self,
        schema: &TableSchema,
        keyspace: Option<&Keyspace>,
        made: Option<(&SnapshotTag, Option<Duration>)>,
    ) -> Result<(), SnapshotError> {
        assert!(runtime::shard_id() == 0, "in-turn: shard 0 completes snapshots");
        assert!(self.table(schema.id).is_none(), "outlives-the-table: {} is known", schema.name);
        let dir = directory(&self.config.data_dir, schema);
        if !fs::exists(&dir).await? {
            return Ok(());
        }
        let _turn = self.await_snapshot_turn().await?;
        if let Some((tag, ttl)) = made
            && fs::exists(snapshot_dir(&dir, tag.as_str())).await?
        {
            self.complete(&dir, (schema, keyspace), tag, ttl).await?;
        }
        let staying = staying(&dir).await?;
        if staying.is_empty() {
            ignore_missing(fs::remove_dir_all(&dir).await)?;
            return Ok(());
        }
        for entry in entries(&dir).await?.unwrap_or_default() {
            let path = dir.join(&entry.name);
            match entry.is_dir {
                true if staying.contains(&entry.name.as_str()) => continue,
                true => ignore_missing(fs::remove_dir_all(path).await)?,
                false => ignore_missing(fs::remove_file(path).await)?,
            };
        }
        Ok(())
    }

    async fn await_snapshot_turn(&self) -> Result<runtime::sync::Permit, SnapshotError> {
        let turn = self.snapshot_turn.acquire(1).await;
        turn.map_err(|error| SnapshotError::Failed(error.to_string()))
    }

    async fn take_in_turn(
        &self,
        ids: Vec<TableId>,
        order: &SnapshotOrder,
    ) -> Result<(), SnapshotError> {
        assert!(runtime::shard_id() == 0, "in-turn: shard 0 takes snapshots");
        assert!(self.snapshot_turn.available() == 0, "in-turn: nobody has the turn");
        let tables: Vec<Rc<Table>> = ids.into_iter().filter_map(|id| self.table(id)).collect();
        for table in &tables {
            if fs::exists(snapshot_dir(&table.dir, order.tag.as_str())).await? {
                let schema = table.schema();
                return Err(SnapshotError::Exists(format!(
                    "Keyspace {}: snapshot {} of table {} already exists",
                    schema.keyspace,
                    order.tag.as_str(),
                    schema.name
                )));
            }
        }
        for (at, table) in tables.iter().enumerate() {
            if let Err(error) = self.take_one(table, order).await {
                for table in &tables[..=at] {
                    let dir = snapshot_dir(&table.dir, order.tag.as_str());
                    if let Err(error) = clear(&dir).await {
                        tracing::warn!("an unfinished snapshot stays: {error}");
                    }
                }
                return Err(error);
            }
        }
        Ok(())
    }

    async fn take_one(
        &self,
        table: &Rc<Table>,
        order: &SnapshotOrder,
    ) -> Result<(), SnapshotError> {
        prepare_dir(&self.config.data_dir, table).await?;
        fs::create_dir_all(snapshot_dir(&table.dir, order.tag.as_str())).await?;
        let (id, tag, memtables) = (table.id, order.tag.clone(), order.memtables);
        let link = move || {
            let tag = tag.clone();
            async move {
                let shard = local::try_get::<Shard>().ok_or("the node stops")?;
                let linked = shard.link_table(id, tag.as_str(), memtables).await;
                linked.map_err(|error| error.to_string())
            }
        };
        for (shard, linked) in on_all_shards(link).await.into_iter().enumerate() {
            linked.map_err(|why| SnapshotError::Failed(format!("shard {shard}: {why}")))?;
        }
        let schema = table.schema();
        let keyspaces = local::try_get::<Keyspaces>();
        let keyspace = keyspaces.and_then(|keyspaces| (keyspaces.0)(&schema.keyspace));
        self.complete(&table.dir, (&schema, keyspace.as_ref()), &order.tag, order.ttl).await
    }

    /// Writes what lies beside the links (*manifest-last*).
    async fn complete(
        &self,
        table_dir: &Path,
        (schema, keyspace): (&TableSchema, Option<&Keyspace>),
        tag: &SnapshotTag,
        ttl: Option<Duration>,
    ) -> Result<(), SnapshotError> {
        assert!(self.snapshot_turn.available() == 0, "in-turn: nobody has the turn");
        let dir = snapshot_dir(table_dir, tag.as_str());
        let text = schema.describe_alone(keyspace);
        fs::write_file_atomic(dir.join(SCHEMA), text.as_bytes()).await?;
        let created_secs = now_secs();
        let ttl_secs = ttl.map(|ttl| i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX));
        let manifest = Manifest {
            tag: tag.as_str(),
            host_id: self.config.host_id,
            schema,
            created_secs,
            expires_secs: ttl_secs.map(|secs| created_secs.saturating_add(secs.max(1))),
            entries: &fs::list_dir(&dir).await?,
        };
        assert!(
            !manifest.entries.iter().any(|entry| entry.name == manifest::NAME),
            "manifest-last: {} is complete already",
            tag.as_str()
        );
        let expires_secs = manifest.expires_secs;
        assert!(expires_secs.is_none_or(|at| created_secs < at), "expired when it is taken");
        fs::write_file_atomic(dir.join(manifest::NAME), &manifest.to_json()).await?;
        fs::sync_dir(table_dir.join(SNAPSHOTS)).await?;
        fs::sync_dir(table_dir).await?;
        tracing::info!("snapshot {} of {}.{} is taken", tag.as_str(), schema.keyspace, schema.name);
        self.snapshot_taken.notify_one();
        Ok(())
    }

    /// Removes a snapshot; with the last one of a dropped table, its directory.
    async fn clear_place(&self, place: &Place) -> Result<(), SnapshotError> {
        assert!(self.snapshot_turn.available() == 0, "in-turn: nobody has the turn");
        clear(&place.dir).await?;
        let snapshots = place.table_dir.join(SNAPSHOTS);
        debug_assert!(place.dir.starts_with(&snapshots), "a snapshot elsewhere: {:?}", place.dir);
        fs::sync_dir(&snapshots).await?;
        let is_known = place.table_id.is_none_or(|id| self.table(id).is_some());
        if is_known || !dirs(&snapshots).await?.is_empty() {
            return Ok(());
        }
        // What is not empty has something that no drop has left.
        for dir in [&snapshots, &place.table_dir.join(BACKUPS), &place.table_dir] {
            if entries(dir).await?.is_some_and(|entries| entries.is_empty()) {
                ignore_missing(fs::remove_dir_all(dir).await)?;
            }
        }
        Ok(())
    }

    /// When the next snapshot expires.
    async fn clear_expired(&self) -> Result<Option<i64>, SnapshotError> {
        let _turn = self.await_snapshot_turn().await?;
        let mut next: Option<i64> = None;
        for place in places(&self.config.data_dir).await? {
            let Some(expires) = manifest::times(&place.dir).await?.expires_secs else { continue };
            if now_secs() < expires {
                next = Some(next.map_or(expires, |next| next.min(expires)));
                continue;
            }
            self.clear_place(&place).await?;
            tracing::info!(
                "snapshot {} of {}.{} has expired",
                place.tag,
                place.keyspace,
                place.table
            );
        }
        Ok(next)
    }
}

impl Shard {
    /// Links what this shard has of a table.
    async fn link_table(
        &self,
        id: TableId,
        tag: &str,
        memtables: Memtables,
    ) -> Result<(), StorageError> {
        let Some(table) = self.table(id) else { return Ok(()) };
        if memtables == Memtables::Flushed {
            self.flush_table(&table).await?;
        }
        let _gate = pass_gate(&table, 1).await;
        let _whole = table.removals.acquire(1).await;
        assert!(table.removals.available() == 0, "whole-sets: SSTables may go");
        link(&table.dir, &table.sstables(), tag).await
    }
}

/// Links the files of SSTables of a table's directory into a snapshot. Nobody removes them
/// meanwhile (*whole-sets*).
pub(crate) async fn link(
    dir: &Path,
    sstables: &[Rc<sstable::Table>],
    tag: &str,
) -> Result<(), StorageError> {
    if sstables.is_empty() {
        return Ok(());
    }
    let target = snapshot_dir(dir, tag);
    fs::create_dir_all(&target).await?;
    link_into(dir, sstables, &target).await?;
    Ok(fs::sync_dir(&target).await?)
}

/// Links the files of SSTables of a table's directory into another one, which is there. Nobody
/// removes them meanwhile. The links are not made durable.
pub(crate) async fn link_into(
    dir: &Path,
    sstables: &[Rc<sstable::Table>],
    target: &Path,
) -> Result<(), StorageError> {
    if sstables.is_empty() {
        return Ok(());
    }
    let mut missing: BTreeSet<Descriptor> = sstables.iter().map(|one| one.descriptor()).collect();
    assert!(missing.len() == sstables.len(), "once-in-set: an SSTable twice");
    for found in store::list(dir).await?.tables {
        if !missing.remove(&found.descriptor) {
            continue;
        }
        for suffix in &found.suffixes {
            let file = found.descriptor.file_name_of(suffix);
            match fs::hard_link(dir.join(&file), target.join(&file)).await {
                // Two shards may have one SSTable.
                Err(error) if !error.is_already_exists() => return Err(error.into()),
                _ => {}
            }
        }
    }
    if !missing.is_empty() {
        return Err(StorageError::Shard("an SSTable went while it was linked".to_owned()));
    }
    Ok(())
}

/// What of a table's directory is not to go with it: names of the directories of snapshots and of
/// backups, where there are any.
pub(crate) async fn staying(dir: &Path) -> Result<Vec<&'static str>, IoError> {
    let mut staying = Vec::new();
    if !dirs(&dir.join(SNAPSHOTS)).await?.is_empty() {
        staying.push(SNAPSHOTS);
    }
    if entries(&dir.join(BACKUPS)).await?.is_some_and(|files| !files.is_empty()) {
        staying.push(BACKUPS);
    }
    Ok(staying)
}

/// Where a snapshot is.
struct Place {
    keyspace: String,
    table: String,
    table_id: Option<TableId>,
    tag: String,
    table_dir: PathBuf,
    dir: PathBuf,
}

impl Place {
    fn fits(&self, filter: &SnapshotFilter) -> bool {
        let keyspaces = &filter.keyspaces;
        let is_named = match &filter.tag {
            Some(tag) => *tag == self.tag,
            None => !self.tag.starts_with(BACKUP_PREFIX),
        };
        is_named
            && (keyspaces.is_empty() || keyspaces.contains(&self.keyspace))
            && filter.table.as_ref().is_none_or(|table| *table == self.table)
    }

    /// `None` if it is gone.
    async fn look(self) -> Result<Option<Snapshot>, SnapshotError> {
        let Some(files) = entries(&self.dir).await? else { return Ok(None) };
        let own = entries(&self.table_dir).await?.unwrap_or_default();
        let own: BTreeSet<&str> = own.iter().map(|entry| entry.name.as_str()).collect();
        let (mut total_bytes, mut live_bytes) = (0, 0);
        for file in files.iter().filter(|file| !is_beside(&file.name)) {
            total_bytes += file.len;
            if !own.contains(file.name.as_str()) {
                live_bytes += file.len;
            }
        }
        let times = manifest::times(&self.dir).await?;
        let Place { keyspace, table, table_id, tag, .. } = self;
        let (created_secs, expires_secs) = (times.created_secs, times.expires_secs);
        Ok(Some(Snapshot {
            keyspace,
            table,
            table_id,
            tag,
            total_bytes,
            live_bytes,
            created_secs,
            expires_secs,
        }))
    }
}

/// Removes a snapshot's directory, the manifest first (*manifest-last*).
async fn clear(dir: &Path) -> Result<(), IoError> {
    if ignore_missing(fs::remove_file(dir.join(manifest::NAME)).await)? {
        fs::sync_dir(dir).await?;
    }
    ignore_missing(fs::remove_dir_all(dir).await).map(drop)
}

/// All snapshots below a data directory: `keyspace/table-<id>/snapshots/tag`.
async fn places(data_dir: &Path) -> Result<Vec<Place>, IoError> {
    let mut places = Vec::new();
    for keyspace in dirs(data_dir).await? {
        let keyspace_dir = data_dir.join(&keyspace);
        for name in dirs(&keyspace_dir).await? {
            let Some((table, id)) = name.rsplit_once('-') else { continue };
            let table_dir = keyspace_dir.join(&name);
            let snapshots = table_dir.join(SNAPSHOTS);
            for tag in dirs(&snapshots).await? {
                let dir = snapshots.join(&tag);
                places.push(Place {
                    keyspace: keyspace.clone(),
                    table: table.to_owned(),
                    table_id: TableId::parse_str(id).ok(),
                    tag,
                    table_dir: table_dir.clone(),
                    dir,
                });
            }
        }
    }
    Ok(places)
}

/// Names of the directories in one; none if it is not there.
async fn dirs(dir: &Path) -> Result<Vec<String>, IoError> {
    let entries = entries(dir).await?.unwrap_or_default();
    Ok(entries.into_iter().filter(|entry| entry.is_dir).map(|entry| entry.name).collect())
}

async fn entries(dir: &Path) -> Result<Option<Vec<fs::DirEntry>>, IoError> {
    match fs::list_dir(dir).await {
        Ok(entries) => Ok(Some(entries)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn snapshot_dir(table_dir: &Path, tag: &str) -> PathBuf {
    // What is cleared is removed with all that lies below it.
    assert!(SnapshotTag::new(tag).is_ok(), "one-place: {tag:?} is no name of a snapshot");
    table_dir.join(SNAPSHOTS).join(tag)
}

/// Whether a file of a snapshot is none of an SSTable.
fn is_beside(name: &str) -> bool {
    matches!(name, SCHEMA | manifest::NAME)
}

fn of_shard() -> Result<Rc<Shard>, SnapshotError> {
    local::try_get().ok_or_else(|| SnapshotError::Failed("the node stops".to_owned()))
}

fn now_secs() -> i64 {
    wall_micros().div_euclid(1_000_000)
}

/// Whether something was done.
fn ignore_missing(result: Result<(), IoError>) -> Result<bool, IoError> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}
