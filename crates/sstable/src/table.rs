//! An open SSTable: what of it stays in memory, and its files.
//!
//! Invariants
//!  - *checked-at-open*: components that are held in memory were parsed whole, and their digests
//!    compared where Scylla.db has them.

use crate::cache::{Access, CachedFile, IndexCache};
use crate::compress::data::ReadFile;
use crate::compress::{Chunks, ChunksError};
use crate::filter::Filter;
use crate::index::big::rebuild_summary;
use crate::index::summary::Summary;
use crate::index::trie::TrieIndex;
use crate::index::{BigIndex, Lookup, PartitionIndex};
use crate::mx::header::Shape;
use crate::mx::reader::{Scope, TableSource};
use crate::scylla::{Metadata, features};
use crate::statistics::{PARTITIONER, Statistics, Stats};
use crate::store::name::{Component, Descriptor};
use crate::store::toc::Toc;
use model::{DecoratedKey, TableSchema};
use reader::{ReadError, Slice};
use runtime::io::{File, IoClass, OpenOptions, fs};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use stdx::Damaged;
use stdx::checksum::crc32;

/// How the rows of a file map to a version of its table's schema.
#[derive(Debug)]
pub struct Mapping {
    /// The schema.
    pub schema: Rc<TableSchema>,
    /// The columns of the file in it.
    pub shape: Shape,
}

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
}

impl Table {
    /// Opens a sealed SSTable, whose index will be read through `cache`. What is wrong with one is
    /// [`ReadError::Damaged`], which names file and rule; so is what cannot be read (a version, a
    /// compressor, a column that the table does not have).
    pub async fn open(
        dir: &Path,
        descriptor: Descriptor,
        schema: Rc<TableSchema>,
        cache: &Rc<IndexCache>,
    ) -> Result<Rc<Table>, ReadError> {
        let toc = read_component(dir, descriptor, Component::Toc).await?;
        let components = Toc::parse(&toc).ok_or_else(|| {
            error_at(dir, descriptor, Component::Toc, Damaged::new("not a TOC", 0))
        })?;
        let scylla = open_scylla(dir, descriptor, &components).await?;
        let load = async |component| {
            let bytes = read_component(dir, descriptor, component).await?;
            check_digest(dir, descriptor, component, &bytes, &scylla)?;
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
                let filter = Filter::parse(&bytes, descriptor.version.filter_form());
                Some(filter.map_err(at(Component::Filter))?)
            }
            None => None,
        };
        let (data, data_bytes) = open_file(dir, descriptor, Component::Data).await?;
        let chunks = match components.has(Component::CompressionInfo) {
            true => {
                let bytes = load(Component::CompressionInfo).await?;
                let chunks = Chunks::parse(&bytes, data_bytes, descriptor.version);
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
        }))
    }

    /// Reads one partition or a range of them. Errors come from the source.
    pub fn read(self: &Rc<Self>, scope: Scope, slice: Slice, access: Access) -> TableSource {
        TableSource::new(self.clone(), scope, slice, access)
    }

    /// Whether the key may be here: false is certain.
    pub fn may_contain(&self, lookup: &Lookup) -> bool {
        self.first_key() <= &lookup.key
            && &lookup.key <= self.last_key()
            && self.filter.as_ref().is_none_or(|filter| filter.may_contain(lookup.hash))
    }

    /// From now on rows are read as rows of this version of the schema. Reads that are under way
    /// go on with theirs.
    pub fn set_schema(&self, schema: Rc<TableSchema>) -> Result<(), ReadError> {
        let mapping = map(&self.dir, self.descriptor, &self.statistics, schema)?;
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

    /// Reads all of the data and compares every checksum that there is.
    pub async fn verify(&self, class: IoClass) -> Result<(), ReadError> {
        let mut digest = None;
        if self.components.has(Component::Digest) {
            let bytes = self.component(Component::Digest).await?;
            let text = std::str::from_utf8(&bytes).ok().and_then(|text| text.trim().parse().ok());
            let wrong = Damaged::new("the digest is no number", 0);
            let wrong = error_at(&self.dir, self.descriptor, Component::Digest, wrong);
            digest = Some(text.ok_or(wrong)?);
        }
        let checksums = match self.components.has(Component::Crc) {
            true => Some(self.component(Component::Crc).await?),
            false => None,
        };
        self.data.verify(class, digest, checksums.as_deref()).await?;
        match &self.index {
            PartitionIndex::Big(index) => {
                let file = ReadFile::new(index.file().file().clone(), index.file().len(), None);
                file.verify(class, self.scylla.digest_of(Component::Index), None).await?;
            }
            // No digest of its files is known: they are read for their bytes to be there.
            PartitionIndex::Trie(index) => {
                for file in [index.partitions(), index.rows()] {
                    let file = ReadFile::new(file.file().clone(), file.len(), None);
                    file.verify(class, None, None).await?;
                }
            }
        }
        if self.data.chunks().is_some() {
            let (mut position, mut chunk) = (0, Vec::new());
            while position < self.data.len() {
                let end = self.data.round_up(position + 1).min(self.data.len());
                chunk.clear();
                self.data.read(class, position..end, &mut chunk).await?;
                position = end;
            }
        }
        Ok(())
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
    let path = descriptor.path(dir, component);
    match fs::read_file(&path).await {
        Ok(bytes) => Ok(bytes),
        Err(error) if error.is_not_found() => {
            Err(error_at(dir, descriptor, component, Damaged::new("the file is missing", 0)))
        }
        Err(error) => Err(ReadError::Io(error)),
    }
}

async fn open_file(
    dir: &Path,
    descriptor: Descriptor,
    component: Component,
) -> Result<(File, u64), ReadError> {
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
    let (index, index_bytes) = open_file(dir, descriptor, Component::Index).await?;
    let index = CachedFile::new(index, index_bytes);
    let summary = match summary {
        Some(bytes) => Summary::parse(&bytes, index_bytes)
            .map_err(|damaged| error_at(dir, descriptor, Component::Summary, damaged))?,
        None => rebuild_summary(&index, data).await?,
    };
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

fn check_digest(
    dir: &Path,
    descriptor: Descriptor,
    component: Component,
    bytes: &[u8],
    scylla: &Metadata,
) -> Result<(), ReadError> {
    match scylla.digest_of(component) {
        Some(digest) if digest != crc32(bytes) => {
            let damaged = Damaged::new("digest of the component does not match", 0);
            Err(error_at(dir, descriptor, component, damaged))
        }
        _ => Ok(()),
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
    Ok(Mapping { schema, shape })
}
