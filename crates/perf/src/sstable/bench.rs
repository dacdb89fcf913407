//! The operations that are measured, on one shard.

use super::data;
use super::options::{Mode, Options};
use crate::offline::{self, BATCH, whole_ring};
use model::{DecoratedKey, TableSchema};
use mutation::{Direction, Fragment, RingBound};
use reader::{Slice, Source};
use runtime::io::{IoClass, fs};
use runtime::task::join_all;
use runtime::time::Instant;
use sstable::cache::{Access, IndexCache};
use sstable::{Descriptor, Scope, Table, WriterOptions, store};
use std::path::Path;
use std::rc::Rc;
use storage::memtable::Memtable;

/// Bytes of the cache of index pages.
const CACHE_BYTES: usize = 64 << 20;

/// What the operations need.
struct Bench<'b> {
    options: &'b Options,
    folder: &'b Path,
    schema: Rc<TableSchema>,
    memtables: Vec<Rc<Memtable>>,
    /// In ring order.
    keys: Vec<DecoratedKey>,
    tables: Vec<Rc<Table>>,
    cache: Rc<IndexCache>,
}

/// Makes the data and measures: partitions per second of each run, and the bytes of data that the
/// SSTables read have, before compression.
pub(crate) async fn run(options: &Options, folder: &Path) -> Result<(Vec<f64>, u64), String> {
    fs::create_dir_all(folder).await.map_err(|error| error.to_string())?;
    let schema = data::schema(options)?;
    let (memtables, keys) = data::memtables(options, &schema).await;
    let cache = IndexCache::new(CACHE_BYTES);
    let tables = Vec::new();
    let mut bench = Bench { options, folder, schema, memtables, keys, tables, cache };
    if !matches!(options.mode, Mode::Write | Mode::IndexWrite) {
        for memtable in std::mem::take(&mut bench.memtables) {
            let written = bench.write(&memtable).await?;
            bench.tables.push(bench.open(written).await?);
            Memtable::take_apart(memtable).await;
        }
    }
    let mut rates = Vec::new();
    for _ in 0..options.iterations {
        let start = Instant::now();
        let done = join_all((0..options.parallelism).map(|_| bench.operate())).await;
        let seconds = start.elapsed().as_secs_f64();
        let mut partitions = 0;
        for outcome in done {
            let (count, made) = outcome?;
            partitions += count;
            if let Some(descriptor) = made {
                let removed = store::remove(folder, descriptor).await;
                removed.map_err(|error| error.to_string())?;
            }
        }
        let wanted = options.partitions * options.parallelism;
        if partitions != wanted {
            return Err(format!("{partitions} partitions where {wanted} are"));
        }
        rates.push(partitions as f64 / seconds.max(1e-9));
    }
    for memtable in bench.memtables {
        Memtable::take_apart(memtable).await;
    }
    Ok((rates, bench.tables.iter().map(|table| table.data_bytes()).sum()))
}

impl Bench<'_> {
    /// One operation: how many partitions it went through, and the SSTable that it left.
    async fn operate(&self) -> Result<(u64, Option<Descriptor>), String> {
        let text = |error: reader::ReadError| error.to_string();
        match self.options.mode {
            Mode::Write | Mode::IndexWrite => {
                let made = self.write(&self.memtables[0]).await?;
                Ok((self.options.partitions, Some(made)))
            }
            Mode::Compaction => {
                let made = self.compact().await?;
                Ok((self.options.partitions, Some(made)))
            }
            Mode::SequentialRead => {
                let mut source = self.source(whole_ring(), IoClass::Query);
                Ok((drain(&mut *source).await.map_err(text)?, None))
            }
            Mode::FullScanStreaming => {
                let mut source = self.source(whole_ring(), IoClass::Streaming);
                Ok((drain(&mut *source).await.map_err(text)?, None))
            }
            Mode::PartitionedStreaming => Ok((self.one_by_one().await.map_err(text)?, None)),
            Mode::IndexRead => Ok((self.index().await.map_err(text)?, None)),
        }
    }

    async fn write(&self, memtable: &Rc<Memtable>) -> Result<Descriptor, String> {
        self.write_all(offline::source_of(memtable), "memtable", IoClass::Flush).await
    }

    /// Merges all SSTables as a compaction does.
    async fn compact(&self) -> Result<Descriptor, String> {
        let class = IoClass::Compaction;
        let sources = self.tables.iter().map(|table| self.source_of(table, whole_ring(), class));
        let merged = reader::merge(self.schema.clone(), Direction::Forward, sources.collect());
        self.write_all(merged, "compaction", class).await
    }

    async fn write_all(
        &self,
        source: Box<dyn Source>,
        origin: &str,
        class: IoClass,
    ) -> Result<Descriptor, String> {
        let mut options = WriterOptions::of_schema(&self.schema, origin)?;
        options.estimated_partitions = self.options.partitions;
        if let Some(version) = self.options.version {
            options.version = version;
        }
        let sealed = offline::write(self.folder, &self.schema, source, options, class).await?;
        Ok(sealed.descriptor)
    }

    async fn open(&self, descriptor: Descriptor) -> Result<Rc<Table>, String> {
        let opened = Table::open(self.folder, descriptor, self.schema.clone(), &self.cache).await;
        opened.map_err(|error| error.to_string())
    }

    fn source(&self, range: (RingBound, RingBound), class: IoClass) -> Box<dyn Source> {
        self.source_of(&self.tables[0], range, class)
    }

    fn source_of(
        &self,
        table: &Rc<Table>,
        (start, end): (RingBound, RingBound),
        class: IoClass,
    ) -> Box<dyn Source> {
        let (scope, access) = (Scope::Range { start, end }, Access::bypass(class));
        Box::new(match class {
            IoClass::Compaction => table.read_checked(scope, Slice::full(), access),
            _ => table.read(scope, Slice::full(), access),
        })
    }

    /// Reads each partition as a range of its own.
    async fn one_by_one(&self) -> Result<u64, reader::ReadError> {
        let bounds = |key: &DecoratedKey| {
            let bound = |after| RingBound { token: key.token, key: Some(key.key.to_vec()), after };
            (bound(false), bound(true))
        };
        let Some((first, rest)) = self.keys.split_first() else { return Ok(0) };
        let mut source = self.source(bounds(first), IoClass::Streaming);
        let mut partitions = drain(&mut *source).await?;
        for key in rest {
            let (start, end) = bounds(key);
            source.forward_partitions(&start, &end);
            partitions += drain(&mut *source).await?;
        }
        Ok(partitions)
    }

    /// Reads the index from its first entry to its last.
    async fn index(&self) -> Result<u64, reader::ReadError> {
        let access = Access::bypass(IoClass::Query);
        let mut entries = self.tables[0].index().entries(&whole_ring().0, &access);
        let mut partitions = 0;
        while entries.next().await?.is_some() {
            partitions += 1;
            if partitions % 128 == 0 {
                runtime::task::yield_if_needed().await;
            }
        }
        Ok(partitions)
    }
}

/// Reads to the end: how many partitions there were.
async fn drain(source: &mut dyn Source) -> Result<u64, reader::ReadError> {
    let (mut batch, mut partitions) = (Vec::new(), 0);
    loop {
        batch.clear();
        match source.try_fill(BATCH, &mut batch) {
            Some(filled) => filled?,
            None => source.fill(BATCH, &mut batch).await?,
        }
        if batch.is_empty() {
            return Ok(partitions);
        }
        let starts = batch.iter().filter(|one| matches!(one, Fragment::PartitionStart { .. }));
        partitions += starts.count() as u64;
        runtime::task::yield_if_needed().await;
    }
}
