//! An open SSTable: what of it stays in memory, and its files.
//!
//! Invariants
//!  - *checked-at-open*: components that are held in memory were parsed whole, and their digests
//!    compared where Scylla.db has them.
//!  - *hits-agree*: what a filter let through in vain is part of what it let through.

use crate::cache::{Access, CachedFile, IndexCache};
use crate::compress::data::ReadFile;
use crate::compress::guard::Guard;
use crate::compress::{Chunks, ChunksError};
use crate::filter::Filter;
use crate::index::big::rebuild_summary;
use crate::index::summary::{Summary, SummaryEntries};
use crate::index::trie::TrieIndex;
use crate::index::{BigIndex, Lookup, PartitionIndex};
use crate::mx::header::{Mapping, Shape};
use crate::scylla::{Metadata, features};
use crate::statistics::{PARTITIONER, Statistics, Stats};
use crate::store::Version;
use crate::store::name::{Component, Descriptor};
use crate::store::toc::Toc;
use model::{DecoratedKey, TableSchema};
use reader::ReadError;
use runtime::Erased;
use runtime::io::{File, IoClass, OpenOptions, fs};
use runtime::task::yield_if_needed;
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use stdx::Damaged;
use stdx::checksum::crc32_append;

/// An open SSTable.
#[derive(Debug)]
pub struct Table {
    dir: PathBuf,
    descriptor: Descriptor,
    components: Toc,
    mapping: RefCell<Rc<Mapping>>,
    statistics: Statistics,
    scylla: Metadata,
    filter: Option<Filter>,
    pub(crate) data: Rc<ReadFile>,
    pub(crate) index: PartitionIndex,
    damaged: Cell<bool>,
    filter_hits: Cell<FilterHits>,
}

/// What a filter let through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterHits {
    /// Keys that were not there.
    pub in_vain: u64,
    /// All keys.
    pub all: u64,
}

/// What is done about digests of components that do not match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Digests {
    /// Such a file is damaged.
    #[default]
    Compared,
    /// A warning tells of it.
    Told,
}

impl Digests {
    fn judge(self, checked: Result<(), ReadError>) -> Result<(), ReadError> {
        match (self, checked) {
            (Digests::Told, Err(error)) => {
                tracing::warn!(target: "sstable", "{error}");
                Ok(())
            }
            (_, checked) => checked,
        }
    }
}

/// What a checksum file that is named in the TOC, and not there, is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    /// Damage.
    Damage,
    /// Done without.
    Accepted,
}

impl Table {
    /// Opens a sealed SSTable, whose index will be read through `cache`. What is wrong with one is
    /// [`ReadError::Damaged`], which names file and rule; so is what cannot be read (a version, a
    /// compressor, a column that the table does not have).
    pub fn open<'a>(
        dir: &'a Path,
        descriptor: Descriptor,
        schema: Rc<TableSchema>,
        cache: &'a Rc<IndexCache>,
    ) -> Erased<'a, Result<Rc<Table>, ReadError>> {
        Table::open_with(dir, descriptor, schema, cache, Digests::Compared)
    }

    /// As [`Table::open`]; `digests` are those of the components that are held in memory.
    pub fn open_with<'a>(
        dir: &'a Path,
        descriptor: Descriptor,
        schema: Rc<TableSchema>,
        cache: &'a Rc<IndexCache>,
        digests: Digests,
    ) -> Erased<'a, Result<Rc<Table>, ReadError>> {
        Erased::new(move || Table::open_components(dir, descriptor, schema, cache, digests))
    }

    async fn open_components(
        dir: &Path,
        descriptor: Descriptor,
        schema: Rc<TableSchema>,
        cache: &Rc<IndexCache>,
        digests: Digests,
    ) -> Result<Rc<Table>, ReadError> {
        let toc = read_component(dir, descriptor, Component::Toc).await?;
        let components = Toc::parse(&toc).ok_or_else(|| {
            error_at(dir, descriptor, Component::Toc, Damaged::new("not a TOC", 0))
        })?;
        let scylla = open_scylla(dir, descriptor, &components).await?;
        let load = async |component| {
            let bytes = read_component(dir, descriptor, component).await?;
            let checked = check_digest(dir, descriptor, component, &bytes, &scylla).await;
            digests.judge(checked)?;
            Ok::<_, ReadError>(bytes)
        };
        // What can be made again, or done without, may be missing.
        let load_optional = async |component: Component| {
            let exists =
                components.has(component) && fs::exists(descriptor.path(dir, component)).await?;
            Ok::<_, ReadError>(if exists { Some(load(component).await?) } else { None })
        };
        let at = |component| move |damaged| error_at(dir, descriptor, component, damaged);
        let statistics = load(Component::Statistics).await?;
        let statistics = Statistics::parse(&statistics, descriptor.version)
            .map_err(at(Component::Statistics))?;
        let mapping = map(dir, descriptor, &statistics, schema)?;
        let filter = match load_optional(Component::Filter).await? {
            Some(bytes) => {
                let filter = load_filter(&bytes, descriptor.version).await;
                Some(filter.map_err(at(Component::Filter))?)
            }
            None => None,
        };
        let (data, data_bytes) = open_file(dir, descriptor, Component::Data).await?;
        let chunks = match components.has(Component::CompressionInfo) {
            true => {
                let bytes = load(Component::CompressionInfo).await?;
                let chunks = load_chunks(&bytes, data_bytes, descriptor.version).await;
                Some(chunks.map_err(|error| chunks_error(dir, descriptor, error))?)
            }
            false => None,
        };
        let data = Rc::new(ReadFile::new(data, data_bytes, chunks));
        let index = match descriptor.version.has_trie_index() {
            true => open_trie(dir, descriptor, &data, &mapping.schema, cache).await?,
            false => {
                let summary = load_optional(Component::Summary).await?;
                let partitions = statistics.stats.partition_sizes.count();
                open_big(dir, descriptor, &data, summary, partitions).await?
            }
        };
        debug_assert!(index.first_key() <= index.last_key(), "checked-at-open: keys");
        Ok(Rc::new(Table {
            dir: dir.to_path_buf(),
            descriptor,
            components,
            mapping: RefCell::new(Rc::new(mapping)),
            statistics,
            scylla,
            filter,
            data,
            index,
            damaged: Cell::new(false),
            filter_hits: Cell::default(),
        }))
    }

    /// Whether the key may be here: false is certain.
    pub fn may_contain(&self, lookup: &Lookup) -> bool {
        self.first_key() <= &lookup.key
            && &lookup.key <= self.last_key()
            && self.filter.as_ref().is_none_or(|filter| filter.may_contain(lookup.hash))
    }

    /// What its filter let through when partitions were read.
    pub fn filter_hits(&self) -> FilterHits {
        self.filter_hits.get()
    }

    /// Counts a key that the filter let through.
    pub(crate) fn count_hit(&self) {
        let hits = self.filter_hits.get();
        debug_assert!(hits.in_vain <= hits.all, "hits-agree: {hits:?}");
        self.filter_hits.set(FilterHits { all: hits.all + 1, ..hits });
    }

    /// Counts that one of those was not there.
    pub(crate) fn count_in_vain(&self) {
        let hits = self.filter_hits.get();
        debug_assert!(hits.in_vain < hits.all, "hits-agree: {hits:?}");
        self.filter_hits.set(FilterHits { in_vain: hits.in_vain + 1, ..hits });
    }

    /// From now on rows are read as rows of this version of the schema. Reads that are under way
    /// go on with theirs.
    pub fn set_schema(&self, schema: Rc<TableSchema>) -> Result<(), ReadError> {
        let mapping = map(&self.dir, self.descriptor, &self.statistics, schema)?;
        debug_assert!(mapping.schema.id == self.mapping().schema.id, "of another table");
        self.mapping.replace(Rc::new(mapping));
        Ok(())
    }

    /// The present schema and the columns of the file in it.
    pub fn mapping(&self) -> Rc<Mapping> {
        self.mapping.borrow().clone()
    }
    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
    /// Which SSTable of the directory.
    pub fn descriptor(&self) -> Descriptor {
        self.descriptor
    }
    /// The files that it consists of.
    pub fn components(&self) -> &Toc {
        &self.components
    }
    /// The first partition.
    pub fn first_key(&self) -> &DecoratedKey {
        self.index.first_key()
    }
    /// The last partition.
    pub fn last_key(&self) -> &DecoratedKey {
        self.index.last_key()
    }
    /// Statistics of the data.
    pub fn stats(&self) -> &Stats {
        &self.statistics.stats
    }
    /// All of Statistics.db.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }
    /// All of Scylla.db; empty where there is none.
    pub fn scylla(&self) -> &Metadata {
        &self.scylla
    }
    /// Where its partitions are.
    pub fn index(&self) -> &PartitionIndex {
        &self.index
    }
    /// The oldest and the newest timestamp, in microseconds.
    pub fn timestamps(&self) -> (i64, i64) {
        (self.stats().min_timestamp, self.stats().max_timestamp)
    }
    /// How many partitions there are, about.
    pub fn partition_count(&self) -> u64 {
        self.stats().partition_sizes.count()
    }
    /// Uncompressed bytes of the data.
    pub fn data_bytes(&self) -> u64 {
        self.data.len()
    }
    /// Bytes of the data and of its index on the disk.
    pub fn disk_bytes(&self) -> u64 {
        self.data.file_bytes() + self.index.file_bytes()
    }
    /// Bytes of memory that index and filter take beside what is cached.
    pub fn memory_bytes(&self) -> usize {
        self.index.memory_bytes() + self.filter.as_ref().map_or(0, Filter::memory_bytes)
    }
    /// Whether widths of promoted index blocks can be trusted.
    pub fn has_exact_widths(&self) -> bool {
        self.scylla.features & features::LAST_BLOCK_WIDTH != 0
    }

    /// Whether a read found something damaged since it was opened.
    pub fn is_damaged(&self) -> bool {
        self.damaged.get()
    }

    /// A read failed.
    pub(crate) fn note(&self, error: &ReadError) {
        if let ReadError::Damaged { .. } = error {
            self.damaged.set(true);
        }
    }

    /// Reads data and index once and compares every checksum that there is.
    pub fn verify(&self, class: IoClass) -> Erased<'_, Result<(), ReadError>> {
        Erased::new(move || async move {
            self.guard(Missing::Damage).await?.verify(class).await?;
            let check = async |file: &CachedFile, digest| {
                let guard = Guard::new(None, digest).expect("no checksums to be read");
                let file = ReadFile::new(file.file().clone(), file.len(), None).guarded(guard);
                file.verify(class).await
            };
            match &self.index {
                PartitionIndex::Big(index) => {
                    check(index.file(), self.scylla.digest_of(Component::Index)).await
                }
                // No digest of its files is known: they are read for their bytes to be there.
                PartitionIndex::Trie(index) => {
                    check(index.partitions(), None).await?;
                    check(index.rows(), None).await
                }
            }
        })
    }

    /// The data, whose reads are compared with every checksum that there is.
    pub(crate) async fn guarded_data(&self) -> Result<ReadFile, ReadError> {
        self.guard(Missing::Accepted).await
    }

    async fn guard(&self, missing: Missing) -> Result<ReadFile, ReadError> {
        let mut digest = None;
        if let Some(bytes) = self.checksums(Component::Digest, missing).await? {
            let text = std::str::from_utf8(&bytes).ok().and_then(|text| text.trim().parse().ok());
            let wrong = Damaged::new("the digest is no number", 0);
            let wrong = error_at(&self.dir, self.descriptor, Component::Digest, wrong);
            digest = Some(text.ok_or(wrong)?);
        }
        // Compressed chunks have their checksums behind them.
        let checksums = match self.data.chunks() {
            None => self.checksums(Component::Crc, missing).await?,
            Some(_) => None,
        };
        debug_assert!(!self.data.is_guarded(), "checked-at-open: guarded twice");
        let guard = Guard::new(checksums.as_deref(), digest);
        let guard =
            guard.map_err(|error| error_at(&self.dir, self.descriptor, Component::Crc, error))?;
        let guarded = self.data.guarded(guard);
        debug_assert!(guarded.len() == self.data.len(), "checked-at-open: of other data");
        Ok(guarded)
    }

    async fn checksums(
        &self,
        component: Component,
        missing: Missing,
    ) -> Result<Option<Vec<u8>>, ReadError> {
        let of_checksums = matches!(component, Component::Digest | Component::Crc);
        debug_assert!(of_checksums, "{component:?} has no checksums");
        let path = self.descriptor.path(&self.dir, component);
        let done_without = !self.components.has(component)
            || missing == Missing::Accepted && !fs::exists(path).await?;
        match done_without {
            true => Ok(None),
            false => self.component(component).await.map(Some),
        }
    }

    async fn component(&self, component: Component) -> Result<Vec<u8>, ReadError> {
        read_component(&self.dir, self.descriptor, component).await
    }
}

fn error_at(
    dir: &Path,
    descriptor: Descriptor,
    component: Component,
    damaged: Damaged,
) -> ReadError {
    let file = descriptor.path(dir, component).display().to_string();
    ReadError::Damaged { file, what: damaged.what.to_string(), at: damaged.at }
}

async fn read_component(
    dir: &Path,
    descriptor: Descriptor,
    component: Component,
) -> Result<Vec<u8>, ReadError> {
    debug_assert!(!is_read_in_parts(component), "checked-at-open: all of {component:?}");
    let path = descriptor.path(dir, component);
    match fs::read_file(&path).await {
        Ok(bytes) => Ok(bytes),
        Err(error) if error.is_not_found() => {
            Err(error_at(dir, descriptor, component, Damaged::new("the file is missing", 0)))
        }
        Err(error) => Err(ReadError::Io(error)),
    }
}

/// Whether a component is too large to be held in memory.
fn is_read_in_parts(component: Component) -> bool {
    use Component::{Data, Index, Partitions, Rows};
    matches!(component, Data | Index | Partitions | Rows)
}

async fn open_file(
    dir: &Path,
    descriptor: Descriptor,
    component: Component,
) -> Result<(File, u64), ReadError> {
    debug_assert!(is_read_in_parts(component), "checked-at-open: parts of {component:?}");
    let path = descriptor.path(dir, component);
    match File::open(&path, OpenOptions::read_only()).await {
        Ok(file) => {
            let bytes = file.len().await.map_err(ReadError::Io)?;
            Ok((file, bytes))
        }
        Err(error) if error.is_not_found() => {
            Err(error_at(dir, descriptor, component, Damaged::new("the file is missing", 0)))
        }
        Err(error) => Err(ReadError::Io(error)),
    }
}

/// Opens Index.db; a summary that is missing is made again.
async fn open_big(
    dir: &Path,
    descriptor: Descriptor,
    data: &ReadFile,
    summary: Option<Vec<u8>>,
    partitions: u64,
) -> Result<PartitionIndex, ReadError> {
    debug_assert!(!descriptor.version.has_trie_index(), "checked-at-open: {descriptor:?}");
    let (index, index_bytes) = open_file(dir, descriptor, Component::Index).await?;
    let index = CachedFile::new(index, index_bytes);
    let summary = match summary {
        Some(bytes) => load_summary(&bytes, index_bytes)
            .await
            .map_err(|damaged| error_at(dir, descriptor, Component::Summary, damaged))?,
        None => rebuild_summary(&index, data).await?,
    };
    debug_assert!(!index.is_empty(), "checked-at-open: an empty index with a summary");
    let index = BigIndex::new(index, summary, data.len(), partitions)
        .with_form(descriptor.version.deletion_form());
    Ok(PartitionIndex::Big(Rc::new(index)))
}

/// Opens Partitions.db and Rows.db.
async fn open_trie(
    dir: &Path,
    descriptor: Descriptor,
    data: &Rc<ReadFile>,
    schema: &TableSchema,
    cache: &Rc<IndexCache>,
) -> Result<PartitionIndex, ReadError> {
    let open = async |component| {
        let (file, bytes) = open_file(dir, descriptor, component).await?;
        Ok::<_, ReadError>(CachedFile::new(file, bytes))
    };
    let files = (open(Component::Partitions).await?, open(Component::Rows).await?);
    debug_assert!(descriptor.version.has_trie_index(), "checked-at-open: {descriptor:?}");
    let access = Access::new(IoClass::System, cache);
    let version = descriptor.version;
    let index = TrieIndex::open(files, data.clone(), version, schema, &access).await?;
    Ok(PartitionIndex::Trie(Rc::new(index)))
}

async fn open_scylla(
    dir: &Path,
    descriptor: Descriptor,
    components: &Toc,
) -> Result<Metadata, ReadError> {
    if !components.has(Component::Scylla) {
        return Ok(Metadata::default());
    }
    let bytes = read_component(dir, descriptor, Component::Scylla).await?;
    Metadata::parse(&bytes).map_err(|error| error_at(dir, descriptor, Component::Scylla, error))
}

/// Entries of a component that are parsed before others may run: well under 500 us.
const STEP_ITEMS: usize = 4096;
/// Bytes whose checksum is computed before others may run.
const STEP_BYTES: usize = 256 << 10;

async fn load_filter(bytes: &[u8], version: Version) -> Result<Filter, Damaged> {
    let (mut filter, words) = Filter::begin(bytes)?;
    for step in words.chunks(STEP_ITEMS) {
        filter.extend(step, version.filter_form());
        yield_if_needed().await;
    }
    assert!(filter.words().len() == words.len(), "checked-at-open: {} words", words.len());
    Ok(filter)
}

async fn load_chunks(
    bytes: &[u8],
    data_bytes: u64,
    version: Version,
) -> Result<Chunks, ChunksError> {
    let (mut chunks, mut rest) = Chunks::begin(bytes, data_bytes, version)?;
    while rest.step(&mut chunks.offsets, STEP_ITEMS)? {
        yield_if_needed().await;
    }
    let needed = chunks.data_bytes.div_ceil(chunks.chunk_bytes as u64);
    assert!(needed <= chunks.offsets.len() as u64, "checked-at-open: {needed} chunks");
    Ok(chunks)
}

async fn load_summary(bytes: &[u8], index_bytes: u64) -> Result<Summary, Damaged> {
    let mut entries = SummaryEntries::begin(bytes)?;
    while entries.step(STEP_ITEMS)? {
        yield_if_needed().await;
    }
    let summary = entries.finish(index_bytes)?;
    debug_assert!(!summary.is_empty(), "checked-at-open: a summary of no entry");
    Ok(summary)
}

async fn check_digest(
    dir: &Path,
    descriptor: Descriptor,
    component: Component,
    bytes: &[u8],
    scylla: &Metadata,
) -> Result<(), ReadError> {
    let Some(digest) = scylla.digest_of(component) else { return Ok(()) };
    let mut found = 0;
    for step in bytes.chunks(STEP_BYTES) {
        found = crc32_append(found, step);
        yield_if_needed().await;
    }
    match digest == found {
        false => {
            let damaged = Damaged::new("digest of the component does not match", 0);
            Err(error_at(dir, descriptor, component, damaged))
        }
        true => Ok(()),
    }
}

fn chunks_error(dir: &Path, descriptor: Descriptor, error: ChunksError) -> ReadError {
    match error {
        ChunksError::Damaged(damaged) => {
            error_at(dir, descriptor, Component::CompressionInfo, damaged)
        }
        ChunksError::Unsupported(name) => ReadError::Damaged {
            file: descriptor.path(dir, Component::CompressionInfo).display().to_string(),
            what: format!("the compressor {name} is not supported"),
            at: 0,
        },
    }
}

fn map(
    dir: &Path,
    descriptor: Descriptor,
    statistics: &Statistics,
    schema: Rc<TableSchema>,
) -> Result<Mapping, ReadError> {
    let wrong = |what: String| ReadError::Damaged {
        file: descriptor.path(dir, Component::Statistics).display().to_string(),
        what,
        at: 0,
    };
    if statistics.partitioner != PARTITIONER {
        return Err(wrong(format!("the partitioner {} is not supported", statistics.partitioner)));
    }
    let shape = Shape::new(&statistics.header, &schema).map_err(wrong)?;
    debug_assert!(shape.clustering.len() == schema.clustering_count, "checked-at-open: columns");
    Ok(Mapping { schema, shape })
}
