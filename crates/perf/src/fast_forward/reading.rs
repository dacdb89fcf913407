//! Reads of one case: the code under test, and no more than it takes to count what it yields.

use super::dataset::{Dataset, Kind};
use super::groups::{Work, spread};
use super::measure::{Sample, Yield, counted, since, spent};
use super::ranges::Range;
use model::{DecoratedKey, TableSchema, Token};
use mutation::{ClusteringPosition, ClusteringRange, Fragment, RingBound};
use reader::{Budget, PartitionScope, Slice, Source};
use runtime::counters::Counters;
use runtime::task::compute;
use std::cell::RefCell;
use std::rc::Rc;

/// How many places are looked at for the end of an index block.
const PLACES_MAX: u64 = 4096;

/// A data set that is being read.
pub(crate) struct Bench {
    pub(crate) dataset: &'static Dataset,
    pub(crate) schema: Rc<TableSchema>,
    pub(crate) rows: u64,
    pub(crate) bypass_cache: bool,
    /// The numbers of small partitions, in ring order of their keys.
    order: Vec<u64>,
    /// The partition of the large ones.
    only_key: DecoratedKey,
    /// Fragments on their way, used again.
    batch: RefCell<Vec<Fragment>>,
    counters: Counters,
}

impl Bench {
    /// Of `rows` rows.
    pub(crate) async fn new(
        dataset: &'static Dataset,
        schema: Rc<TableSchema>,
        rows: u64,
        bypass_cache: bool,
    ) -> Bench {
        let order = match dataset.kind {
            // Of a million of them this takes long.
            Kind::Small => {
                compute(move || {
                    let key = |number| (dataset.partition_key(number), number);
                    let mut keys: Vec<_> = (0..rows).map(key).collect();
                    keys.sort_unstable();
                    keys.into_iter().map(|(_, number)| number).collect()
                })
                .await
            }
            Kind::Large => Vec::new(),
        };
        let (only_key, batch) = (dataset.partition_key(0), RefCell::default());
        let counters = Counters::open();
        Bench { dataset, schema, rows, bypass_cache, order, only_key, batch, counters }
    }

    /// Does the work of a case once: a sample for each of its reads.
    pub(crate) async fn run(&self, work: &Work) -> Result<Vec<Sample>, String> {
        let mut samples = match work {
            Work::SkipsThenAll { read, skip } => {
                let first = Work::RowSkips { read: *read, skip: *skip };
                let all = Work::RowSkips { read: 1, skip: 0 };
                vec![self.measured(&first).await?, self.measured(&all).await?]
            }
            Work::Ranges(ranges) => self.ranges(ranges).await?,
            Work::BetweenBlocks { offset } => vec![self.between_blocks(*offset).await?],
            other => vec![self.measured(other).await?],
        };
        for (sample, expected) in samples.iter_mut().zip(work.expected(self.rows)) {
            if sample.error.is_none() && sample.fragments != expected {
                let found = sample.fragments;
                sample.error = Some(format!("expected {expected} fragments, got {found}"));
            }
        }
        Ok(samples)
    }

    async fn measured(&self, work: &Work) -> Result<Sample, String> {
        let before = spent(&self.counters).await;
        let (read, own) = counted(self.read(work)).await;
        let read = read.map_err(|error| error.to_string())?;
        Ok(since(before, &self.counters, read, Some(own)).await)
    }

    async fn ranges(&self, ranges: &[Range]) -> Result<Vec<Sample>, String> {
        let mut samples = Vec::new();
        for (index, range) in ranges.iter().enumerate() {
            let before = spent(&self.counters).await;
            let wanted = vec![range.clustering(self.dataset)];
            let (read, own) = counted(self.slice(wanted)).await;
            let read = read.map_err(|error| error.to_string())?;
            let mut sample = since(before, &self.counters, read, Some(own)).await;
            let read_before = ranges[..index].iter().any(|earlier| earlier.covers(range));
            if read_before && 0 < sample.aio {
                sample.error = Some(format!("expected no disk reads, got {}", sample.aio));
            }
            samples.push(sample);
        }
        Ok(samples)
    }

    /// Finds a place between two blocks, from `offset` on, and reads there. An index that knows the
    /// last row of each block answers without data; one that knows only what separates blocks
    /// needs one look.
    async fn between_blocks(&self, offset: u64) -> Result<Sample, String> {
        let storage = runtime::local::get::<storage::Storage>();
        let versions = storage.sstable_versions(self.schema.id);
        let least = u64::from(versions.iter().any(|version| version.has_trie_index()));
        let last = (offset + PLACES_MAX).min(self.rows - 1);
        for place in offset..last {
            let work = Work::Missing { offset: place };
            self.measured(&work).await?;
            let sample = self.measured(&work).await?;
            if sample.aio <= least {
                return Ok(sample);
            }
        }
        let mut sample = self.measured(&Work::Missing { offset }).await?;
        sample.error = Some(format!("expected a place with at most {least} disk reads"));
        Ok(sample)
    }

    async fn read(&self, work: &Work) -> Result<Yield, reader::ReadError> {
        let dataset = self.dataset;
        let singular = |row| ClusteringRange::of_prefix(dataset.clustering_key(row));
        match work {
            Work::RowSkips { read, skip: 0 } if *read == 1 => {
                self.slice(vec![ClusteringRange::full()]).await
            }
            Work::RowSkips { read, skip } => {
                let mut reading = self.forwarding(PartitionScope::Key(self.only_key())).await?;
                let mut row = 0;
                while row < self.rows {
                    let end = (row + read).min(self.rows);
                    reading.forward(dataset.before(row), dataset.before(end)).await?;
                    row = end + skip;
                }
                Ok(reading.counted)
            }
            Work::ScanSlice { offset, read } => {
                let mut reading = self.forwarding(whole_ring()).await?;
                let end = dataset.before(offset + read);
                reading.forward(dataset.before(*offset), end).await?;
                Ok(reading.counted)
            }
            Work::KeySlice { offset, read } => {
                let start = dataset.before(*offset);
                self.slice(vec![ClusteringRange { start, end: dataset.before(offset + read) }])
                    .await
            }
            Work::ForwardSlice { offset, read } => {
                let mut reading = self.forwarding(PartitionScope::Key(self.only_key())).await?;
                let end = dataset.before(offset + read);
                reading.forward(dataset.before(*offset), end).await?;
                Ok(reading.counted)
            }
            Work::Rows { offset, stride, rows } => {
                let rows = (0..*rows).map(|row| offset + row * stride);
                self.slice(rows.map(singular).collect()).await
            }
            Work::RandomRows { rows } => {
                self.slice(spread(self.rows, *rows).into_iter().map(singular).collect()).await
            }
            Work::Missing { offset } => {
                let (start, end) = (dataset.after(*offset), dataset.before(offset + 1));
                self.slice(vec![ClusteringRange { start, end }]).await
            }
            Work::Forwarding { scan } => self.restricted(*scan).await,
            Work::PartitionSkips { read, skip } => self.partition_skips(*read, *skip).await,
            Work::PartitionSlice { offset, read } => {
                let scope = self.partitions(*offset, offset + read);
                let mut reading = self.open(scope, Slice::full()).await?;
                reading.drain().await?;
                Ok(reading.counted)
            }
            Work::Limit { reversed, limit } => self.limit(*reversed, *limit).await,
            Work::SkipsThenAll { .. } | Work::Ranges(_) | Work::BetweenBlocks { .. } => {
                unreachable!("more than one read")
            }
        }
    }

    /// A restriction from the middle on, forwarded to a place before it and to one at its start.
    async fn restricted(&self, scan: bool) -> Result<Yield, reader::ReadError> {
        let middle = self.rows / 2;
        let dataset = self.dataset;
        let range =
            ClusteringRange { start: dataset.before(middle), end: ClusteringPosition::end() };
        let slice = Slice { ranges: vec![range], forwarding: true, ..Slice::full() };
        let scope = match scan {
            true => whole_ring(),
            false => PartitionScope::Key(self.only_key()),
        };
        let mut reading = self.open(scope, slice).await?;
        reading.drain().await?;
        reading.forward(dataset.before(1), dataset.before(2)).await?;
        reading.forward(dataset.before(middle - 2), dataset.before(middle + 2)).await?;
        Ok(reading.counted)
    }

    async fn partition_skips(&self, read: u64, skip: u64) -> Result<Yield, reader::ReadError> {
        if skip == 0 {
            let mut reading = self.open(whole_ring(), Slice::full()).await?;
            reading.drain().await?;
            return Ok(reading.counted);
        }
        let mut reading = self.open(self.partitions(0, read), Slice::full()).await?;
        reading.drain().await?;
        let mut next = read + skip;
        while next < self.rows {
            if let PartitionScope::Range { start, end } = self.partitions(next, next + read) {
                reading.source.forward_partitions(&start, &end);
                reading.drain().await?;
            }
            next += read + skip;
        }
        Ok(reading.counted)
    }

    /// The first rows as a query reads them.
    async fn limit(&self, reversed: bool, limit: u64) -> Result<Yield, reader::ReadError> {
        let columns = self.schema.regulars().iter();
        let command = mutation::ReadCommand {
            ranges: vec![mutation::SendRange::full()],
            reversed,
            columns: columns.map(|column| (column.id, mutation::ColumnForm::Value)).collect(),
            row_limit: limit,
            static_only_rows: true,
            bypass_cache: self.bypass_cache,
            ..mutation::ReadCommand::all(
                self.schema.id,
                mutation::Partitions::Key(self.only_key().key.to_vec()),
                runtime::time::wall_micros() / 1_000_000,
            )
        };
        let page = runtime::local::get::<storage::Storage>().read(&command).await?;
        Ok(Yield { fragments: page.row_count })
    }

    /// All of some ranges of the large partition.
    async fn slice(&self, ranges: Vec<ClusteringRange>) -> Result<Yield, reader::ReadError> {
        let slice = Slice { ranges, ..Slice::full() };
        let mut reading = self.open(PartitionScope::Key(self.only_key()), slice).await?;
        reading.drain().await?;
        Ok(reading.counted)
    }

    /// At the start of a partition, waiting for what is wanted of it.
    async fn forwarding(&self, scope: PartitionScope) -> Result<Reading<'_>, reader::ReadError> {
        let slice = Slice { forwarding: true, ..Slice::full() };
        let mut reading = self.open(scope, slice).await?;
        reading.drain().await?;
        Ok(reading)
    }

    async fn open(
        &self,
        scope: PartitionScope,
        slice: Slice,
    ) -> Result<Reading<'_>, reader::ReadError> {
        let storage = runtime::local::get::<storage::Storage>();
        let query = storage::SourceOptions::QUERY;
        let how = storage::SourceOptions { bypass_cache: self.bypass_cache, ..query };
        let source = storage.open_source(self.schema.id, scope, slice, how)?;
        Ok(Reading { source, batch: &self.batch, counted: Yield::default() })
    }

    fn only_key(&self) -> DecoratedKey {
        self.only_key.clone()
    }

    /// Small partitions from the `from`-th up to and without the `to`-th, in ring order.
    fn partitions(&self, from: u64, to: u64) -> PartitionScope {
        let bound = |at: u64| match self.order.get(at as usize) {
            Some(number) => {
                let DecoratedKey { token, key } = self.dataset.partition_key(*number);
                RingBound { token, key: Some(key.to_vec()), after: false }
            }
            None => RingBound { token: Token::MAX, key: None, after: true },
        };
        PartitionScope::Range { start: bound(from), end: bound(to) }
    }
}

fn whole_ring() -> PartitionScope {
    let bound = |token, after| RingBound { token, key: None, after };
    PartitionScope::Range { start: bound(Token::MIN, false), end: bound(Token::MAX, true) }
}

/// An open source, and what it has yielded.
struct Reading<'b> {
    source: Box<dyn Source>,
    batch: &'b RefCell<Vec<Fragment>>,
    counted: Yield,
}

impl Reading<'_> {
    /// Reads until there is nothing, or nothing for now.
    async fn drain(&mut self) -> Result<(), reader::ReadError> {
        let mut batch = self.batch.take();
        loop {
            batch.clear();
            match self.source.try_fill(Budget::BATCH, &mut batch) {
                Some(filled) => filled?,
                None => self.source.fill(Budget::BATCH, &mut batch).await?,
            }
            if batch.is_empty() {
                self.batch.replace(batch);
                return Ok(());
            }
            self.counted.fragments += batch.iter().filter(|one| is_content(one)).count() as u64;
            runtime::task::yield_if_needed().await;
        }
    }

    /// Goes to a range of rows and reads it.
    async fn forward(
        &mut self,
        start: ClusteringPosition,
        end: ClusteringPosition,
    ) -> Result<(), reader::ReadError> {
        self.source.forward_rows(ClusteringRange { start, end });
        self.drain().await
    }
}

fn is_content(fragment: &Fragment) -> bool {
    !matches!(fragment, Fragment::PartitionStart { .. } | Fragment::PartitionEnd)
}
