//! SSTables that come from elsewhere, and damaged ones that go aside.
//!
//! Taking over SSTables that somebody copied into `upload/` of a table's directory: of ScyllaDB,
//! or of Cassandra 3, 4 and 5.
//!
//! Each is checked against the schema, gets a generation of its own and moves into the directory
//! of the table; then every shard opens it. What cannot be taken over stays where it is, and is
//! named with the reason.
//!
//! Invariants
//!  - *one-rename*: see [`sstable::store::relocate`]: a crash leaves each SSTable in `upload/` or
//!    in the table, whole, and never in both.
//!  - *checked-before*: nothing moves that could not be opened with the table's schema.
//!
//! A truncation while files are taken over may leave some of them on some shards: the caller
//! keeps the two apart.

use super::open::{open_all, place};
use super::{Shard, backup};
use crate::error::StorageError;
use crate::table::dir::{UPLOAD, prepare_dir};
use crate::table::{Table, pass_gate, quiet};
use model::{TableId, TableSchema, Type};
use runtime::io::{IoClass, fs};
use runtime::{local, on_all_shards, on_shard};
use sstable::store::dir::{Found, State};
use sstable::store::name::{Parsed, parse_file_name, refusal};
use sstable::store::relocate::{Place, end_moves, relocate, suffixes_of};
use sstable::store::toc::Toc;
use sstable::{Component, Descriptor, Generation, Table as SsTable};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use stdx::checksum::crc32;

const STOPS: &str = "the node stops";

/// What is done to SSTables before they are taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    /// They are opened: the components that stay in memory are parsed, their digests compared.
    Open,
    /// They are read whole as well, and the digest of the data compared.
    Verify,
}

/// What was taken over and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Where it came from.
    pub directory: PathBuf,
    /// By the name of the data file in that directory: what is in the table now.
    pub loaded: Vec<LoadedSsTable>,
    /// By the name of a file in that directory: why it stays there.
    pub refused: Vec<(String, String)>,
}

/// An SSTable that was taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedSsTable {
    /// The name of its data file where it came from.
    pub from: String,
    /// The name of its data file in the table's directory.
    pub to: String,
    /// Estimated partitions.
    pub partitions: u64,
    /// Bytes of its data and its index.
    pub bytes: u64,
}

impl Shard {
    /// See [`crate::Storage::load_new`].
    pub(crate) async fn load_new(
        self: &Rc<Self>,
        id: TableId,
        checks: Checks,
    ) -> Result<Loaded, StorageError> {
        if runtime::shard_id() == 0 {
            return load(self, id, checks).await;
        }
        let loaded = on_shard(0, move || async move {
            let shard = local::get::<Shard>();
            load(&shard, id, checks).await.map_err(|error| error.to_string())
        });
        loaded.await.map_err(StorageError::Shard)
    }
}

impl Shard {
    /// See [`crate::Storage::quarantine`].
    pub(crate) async fn quarantine(&self, id: TableId, name: &str) -> Result<bool, StorageError> {
        let name = name.to_string();
        // Two shards may have found one SSTable damaged.
        let put = on_shard(0, move || async move {
            let shard = local::try_get::<Shard>().ok_or(STOPS)?;
            shard.put_aside(id, &name).await.map_err(|error| error.to_string())
        });
        put.await.map_err(StorageError::Shard)
    }

    async fn put_aside(&self, id: TableId, name: &str) -> Result<bool, StorageError> {
        let table = self.table(id).ok_or(StorageError::UnknownTable(id))?;
        let Parsed::Known(descriptor, _) = parse_file_name(name) else { return Ok(false) };
        let _alone = table.loading.acquire(1).await;
        if !fs::exists(descriptor.path(&table.dir, Component::Data)).await? {
            return Ok(false);
        }
        on_all_shards(move || async move {
            let shard = local::get::<Shard>();
            shard.forget_sstable(id, descriptor).await;
        })
        .await;
        let aside = sstable::quarantine(&table.dir, descriptor, IoClass::System).await?;
        on_all_shards(move || async move {
            if let Some(table) = local::get::<Shard>().table(id) {
                table.unremoved.borrow_mut().retain(|one| *one != descriptor);
                table.let_go.borrow_mut().retain(|one| *one != descriptor);
            }
        })
        .await;
        tracing::warn!("{name} of {} is now in {}", table.dir.display(), aside.display());
        Ok(true)
    }
}

/// What was found good.
struct Candidate {
    found: Found,
    suffixes: Vec<String>,
    replaced: Vec<(Component, Vec<u8>)>,
    partitions: u64,
    bytes: u64,
}

async fn load(shard: &Rc<Shard>, id: TableId, checks: Checks) -> Result<Loaded, StorageError> {
    let table = started(shard, id)?;
    let _alone = table.loading.acquire(1).await;
    let upload = prepare(shard, &table).await?;
    load_from(shard, &table, &upload, checks).await
}

/// The table, on a shard that has replayed its log.
pub(crate) fn started(shard: &Shard, id: TableId) -> Result<Rc<Table>, StorageError> {
    let table = shard.table(id).ok_or(StorageError::UnknownTable(id))?;
    match shard.replay_state(table.log).done.get() {
        true => Ok(table),
        false => Err(StorageError::Shard("the node is still starting".to_string())),
    }
}

/// Makes `upload/` of a table durable.
pub(crate) async fn prepare(shard: &Shard, table: &Table) -> Result<PathBuf, StorageError> {
    let upload = table.dir.join(UPLOAD);
    prepare_dir(&shard.config.data_dir, table).await?;
    fs::create_dir_all(&upload).await?;
    fs::sync_dir(&table.dir).await?;
    Ok(upload)
}

/// Takes over what is in a directory on the file system of the table. The caller has
/// [`Table::loading`].
pub(crate) async fn load_from(
    shard: &Rc<Shard>,
    table: &Rc<Table>,
    upload: &Path,
    checks: Checks,
) -> Result<Loaded, StorageError> {
    assert!(table.loading.available() == 0, "the caller takes over files alone");
    let id = table.id;
    let listing = end_moves(upload).await?;
    let mut out = Loaded { directory: upload.to_path_buf(), ..Loaded::default() };
    for name in listing.unreadable.iter().filter(|name| name.ends_with("-Data.db")) {
        if let Parsed::OtherVersion(version) = parse_file_name(name) {
            out.refused.push((name.clone(), refusal(version)));
        }
    }
    let (mut moved, mut failed) = (Vec::new(), Ok(()));
    for found in listing.tables {
        let descriptor = found.descriptor;
        let name = descriptor.file_name(Component::Data);
        let candidate = match check(shard, table, upload, found, checks).await {
            Ok(candidate) => candidate,
            Err(why) => {
                tracing::warn!("{name} in {} is not taken over: {why}", upload.display());
                out.refused.push((name, why));
                continue;
            }
        };
        let to = match move_in(shard, table, upload, &candidate).await {
            Ok(to) => to,
            Err(error) => {
                failed = Err(error);
                break;
            }
        };
        let (partitions, bytes) = (candidate.partitions, candidate.bytes);
        assert!(!moved.contains(&to), "one-rename: two SSTables become {to:?}");
        moved.push(to);
        let to = to.file_name(Component::Data);
        tracing::info!("{name} in {} is taken over as {to}", upload.display());
        out.loaded.push(LoadedSsTable { from: name, to, partitions, bytes });
    }
    take_over(id, moved).await;
    failed.map(|()| out)
}

/// What is new in the directory of a table is in use from now on, on every shard that it concerns.
pub(crate) async fn take_over(id: TableId, new: Vec<Descriptor>) {
    if !new.is_empty() {
        on_all_shards(move || {
            let new = new.clone();
            async move { local::get::<Shard>().adopt(id, &new).await }
        })
        .await;
    }
}

impl Shard {
    /// Opens SSTables that are new in the directory of a table.
    async fn adopt(&self, id: TableId, descriptors: &[Descriptor]) {
        let Some(table) = self.table(id) else { return };
        let _gate = pass_gate(&table, 1).await;
        if table.dropped.get() {
            return;
        }
        debug_assert!(
            !table
                .tablets()
                .iter()
                .any(|tablet| descriptors.iter().any(|one| tablet.has_sstable(*one))),
            "once-in-set: one of {descriptors:?} is not new"
        );
        for opened in open_all(self, &table, descriptors, table.schema()).await {
            place(&table, opened);
        }
        self.compaction_wake.notify_one();
    }
}

impl Shard {
    /// Takes an SSTable out of the sets of all tablets.
    async fn forget_sstable(&self, id: TableId, descriptor: Descriptor) {
        let Some(table) = self.table(id) else { return };
        let _quiet = quiet(&table).await;
        for tablet in table.tablets().iter() {
            tablet.forget(|one| one.descriptor() == descriptor);
        }
        debug_assert!(
            !table.tablets().iter().any(|tablet| tablet.has_sstable(descriptor)),
            "once-in-set: {descriptor:?} stays"
        );
        // Until it is aside, a start would find it.
        table.unremoved.borrow_mut().push(descriptor);
        table.broken.borrow_mut().retain(|one| one.descriptor != Some(descriptor));
    }
}

/// Whether an SSTable can be taken over; the error says why not.
async fn check(
    shard: &Shard,
    table: &Table,
    upload: &Path,
    found: Found,
    checks: Checks,
) -> Result<Candidate, String> {
    match found.state {
        State::Complete => {}
        State::NoToc => return Err("it has no TOC.txt: was it copied whole?".to_string()),
        State::Unfinished => return Err("it was not finished by who wrote it".to_string()),
    }
    let descriptor = found.descriptor;
    let read = async |component| {
        let path = descriptor.path(upload, component);
        fs::read_file(path).await.map_err(|error| error.to_string())
    };
    let toc = Toc::parse(&read(Component::Toc).await?);
    let toc = toc.ok_or("its TOC.txt is no list of components")?;
    let suffixes = suffixes_of(&found.suffixes, &toc)?;
    let schema = table.schema();
    let opened = SsTable::open(upload, descriptor, schema.clone(), &shard.index_cache).await;
    let opened = opened.map_err(|error| error.to_string())?;
    check_content(&opened, &schema)?;
    if checks == Checks::Verify {
        opened.verify(IoClass::System).await.map_err(|error| error.to_string())?;
    }
    let replaced = without_level(upload, &opened).await.map_err(|error| error.to_string())?;
    let (partitions, bytes) = (opened.partition_count(), opened.disk_bytes());
    Ok(Candidate { found, suffixes, replaced, partitions, bytes })
}

/// Components of an SSTable of a directory as they are to be in level 0, where they are not.
pub(crate) async fn without_level(
    dir: &Path,
    opened: &SsTable,
) -> Result<Vec<(Component, Vec<u8>)>, StorageError> {
    let mut replaced = Vec::new();
    if opened.stats().level == 0 {
        return Ok(replaced);
    }
    let descriptor = opened.descriptor();
    let path = |component| descriptor.path(dir, component);
    let bytes = fs::read_file(path(Component::Statistics)).await?;
    let bytes = sstable::statistics::with_level(&bytes, descriptor.version, 0);
    let wrong = |error: stdx::Damaged| StorageError::Damaged {
        file: path(Component::Statistics),
        what: error.to_string(),
    };
    let bytes = bytes.map_err(wrong)?;
    if opened.components().has(Component::Scylla) {
        let other = fs::read_file(path(Component::Scylla)).await?;
        let crc = crc32(&bytes);
        let other = sstable::scylla::with_digest(&other, Component::Statistics, crc);
        replaced.push((Component::Scylla, other));
    }
    replaced.push((Component::Statistics, bytes));
    debug_assert!(replaced.len() <= 2, "checked-before: {} components change", replaced.len());
    Ok(replaced)
}

/// What opening does not ask: whether the types are the same, not only of the same shape.
pub(crate) fn check_content(opened: &SsTable, schema: &TableSchema) -> Result<(), String> {
    let statistics = opened.statistics();
    statistics.header.check_types(schema)?;
    let counters = schema.columns.iter().any(|column| column.ty == Type::Counter);
    if counters && statistics.stats.legacy_counter_shards {
        let text = "it has counter shards of Cassandra 2.0 and before: rewrite it with the \
                    sstableupgrade of a newer Cassandra first";
        return Err(text.to_string());
    }
    Ok(())
}

async fn move_in(
    shard: &Shard,
    table: &Table,
    upload: &Path,
    candidate: &Candidate,
) -> Result<Descriptor, StorageError> {
    let _gate = pass_gate(table, 1).await;
    if table.dropped.get() {
        return Err(StorageError::UnknownTable(table.id));
    }
    let from = candidate.found.descriptor;
    let to = Descriptor { version: from.version, generation: Generation::generate() };
    assert!(upload != table.dir, "one-rename: from the table into itself");
    assert!(!candidate.suffixes.is_empty(), "checked-before: an SSTable of no file");
    let Candidate { suffixes, replaced, .. } = candidate;
    let old = Place { dir: upload, descriptor: from };
    let new = Place { dir: &table.dir, descriptor: to };
    relocate(old, new, suffixes, replaced, IoClass::System).await?;
    backup::link(shard, table, to, suffixes.iter().map(String::as_str)).await;
    Ok(to)
}
