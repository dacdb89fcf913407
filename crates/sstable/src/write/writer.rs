//! Writing partitions to a new SSTable.
//!
//! Memory: one row, what the index needs, and 16 bytes per partition for the filter (up to 2^20
//! partitions; `filter::KeyHashes`).

use crate::compress::output::DataOutput;
use crate::filter::KeyHashes;
use crate::index::promoted::BlockBound;
use crate::mx::clustering::{BoundKind, put_blocks};
use crate::mx::header::{SerializationHeader, Shape};
use crate::mx::layout::{ext_flags, flags, put_deletion};
use crate::mx::marker::{kind_of_change, put_marker_body};
use crate::mx::row::RowFlags;
use crate::statistics::Collector;
use crate::statistics::cardinality::Cardinality;
use crate::store::{self, Component, Descriptor, Generation};
use crate::write::index::{BlockEntry, IndexWriter, PartitionEntry};
use crate::write::options::{RowOrder, Sealed, WriterOptions};
use crate::write::row::RowEncoder;
use crate::write::seal::{self, Written};
use model::key::clustering_components;
use model::{DecoratedKey, TableSchema, Token, token};
use mutation::{Fragment, RowView, Tombstone};
use runtime::Erased;
use runtime::io::{IoClass, IoError};
use runtime::task::yield_if_needed;
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use stdx::{Put, vint};

/// Rows with more bytes in memory are written in steps.
const ROW_BYTES_AT_ONCE: usize = 64 << 10;
/// Of such a row: cells that are encoded, and bytes that are put out, between two looks at the
/// clock.
const CELLS_PER_STEP: usize = 512;
const PIECE_BYTES: usize = 64 << 10;

/// Writes one SSTable. Dropped without [`Writer::finish`], it leaves garbage that is marked as
/// such; [`Writer::abort`] removes it.
#[derive(Debug)]
pub struct Writer {
    dir: PathBuf,
    descriptor: Descriptor,
    schema: Rc<TableSchema>,
    header: SerializationHeader,
    shape: Shape,
    options: WriterOptions,
    class: IoClass,
    data: DataOutput,
    index: IndexWriter,
    keys: KeyHashes,
    cardinality: Cardinality,
    stats: Collector,
    bounds: Bounds,
    encoder: RowEncoder,
    /// Head of an element.
    scratch: Vec<u8>,
    partition: Option<Partition>,
    first: Option<DecoratedKey>,
    last: Option<DecoratedKey>,
    partitions: u64,
}

/// The partition that is being written.
#[derive(Debug)]
struct Partition {
    key: DecoratedKey,
    hash: (u64, u64),
    tombstone: Tombstone,
    /// Where it starts, and where its latest element does.
    start: u64,
    latest_start: u64,
    /// Bytes of key, deletion time and static row; 0 until the first element.
    header_bytes: u64,
    /// The latest element.
    position: Option<(BlockBound, i8)>,
    /// The range tombstone that is open.
    open: Tombstone,
    block: Option<OpenBlock>,
    /// Where the latest block of the index ends: the next one starts there.
    indexed_to: u64,
    /// Bytes of a block, and of promoted index at which they double.
    block_bytes: u64,
    scale_at: usize,
}

#[derive(Debug)]
struct OpenBlock {
    first: BlockBound,
    start: u64,
    /// The range tombstone that is open at its start.
    open: Tombstone,
}

/// Which elements have the least and the greatest clustering values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bounds {
    /// There are no clustering columns.
    None,
    /// The first and the last of each partition: there is one column, and they are in order.
    OfEnds,
    /// Any.
    OfAll,
}

impl Bounds {
    fn of(schema: &TableSchema, rows: RowOrder) -> Bounds {
        match (schema.clustering_count, rows) {
            (0, _) => Bounds::None,
            (1, RowOrder::Kept) => Bounds::OfEnds,
            _ => Bounds::OfAll,
        }
    }
}

impl Writer {
    /// Starts an SSTable. Panics if its version is none that is written ([`Version::WRITTEN`]).
    pub fn create(
        dir: &Path,
        generation: Generation,
        schema: Rc<TableSchema>,
        options: WriterOptions,
        class: IoClass,
    ) -> Erased<'_, Result<Writer, IoError>> {
        Erased::new(move || async move {
            let version = options.version;
            assert!(version.is_written(), "{} is not written", version.name());
            let descriptor = Descriptor { version, generation };
            let header = SerializationHeader::of_schema(&schema, options.bases);
            let shape = Shape::new(&header, &schema).expect("a header made of a schema fits it");
            let components = seal::components(&options);
            let path = |component| descriptor.path(dir, component);
            let toc = store::toc::to_bytes(&components);
            store::output::write_whole(&path(Component::TemporaryToc), &toc, class).await?;
            runtime::io::fs::sync_dir(dir).await?;
            let WriterOptions { compression, dictionary, .. } = &options;
            let stats = Collector::with(options.large);
            let keys = KeyHashes::new(options.bloom_fp_chance, options.estimated_partitions);
            let bounds = Bounds::of(&schema, options.rows);
            let data = path(Component::Data);
            let data = DataOutput::create(&data, *compression, dictionary.clone(), class).await?;
            let index = IndexWriter::create(dir, descriptor, &schema, class).await?;
            Ok(Writer {
                dir: dir.to_path_buf(),
                descriptor,
                schema,
                header,
                shape,
                options,
                class,
                data,
                index,
                keys,
                cardinality: Cardinality::new(),
                stats,
                bounds,
                encoder: RowEncoder::default(),
                scratch: Vec::new(),
                partition: None,
                first: None,
                last: None,
                partitions: 0,
            })
        })
    }

    /// Writes a fragment. Panics on fragments out of order (*ordered*).
    pub async fn write(&mut self, fragment: &Fragment) -> Result<(), IoError> {
        match fragment {
            Fragment::PartitionStart { key, tombstone } => self.start(key, *tombstone),
            Fragment::StaticRow { row } => self.static_row(RowView::trusted(row)),
            Fragment::Row { key, row } if ROW_BYTES_AT_ONCE < row.len() => {
                self.large_row(key, RowView::trusted(row)).await?;
            }
            Fragment::Row { key, row } => self.row(key, RowView::trusted(row)),
            Fragment::RangeTombstoneChange { position, tombstone } => {
                self.change(&position.prefix, position.weight, *tombstone);
            }
            Fragment::PartitionEnd => {
                self.end();
                if self.keys.is_due() {
                    self.keys.settle().await;
                }
            }
        }
        if self.data.is_due() {
            self.data.flush().await?;
        }
        if self.index.is_due() {
            self.index.flush().await?;
        }
        Ok(())
    }

    /// Bytes of data written so far, before compression.
    pub fn data_bytes(&self) -> u64 {
        self.data.position()
    }

    /// Seals the SSTable: from now on it exists. `None`, and no files, when nothing was written.
    pub fn finish(self) -> Erased<'static, Result<Option<Sealed>, IoError>> {
        Erased::new(move || async move {
            assert!(self.partition.is_none(), "paired: a partition without its end");
            assert!(self.first <= self.last, "ordered: {:?} to {:?}", self.first, self.last);
            assert!((self.partitions == 0) == self.first.is_none(), "paired: {}", self.partitions);
            let data_bytes = self.data.position();
            let (Some(first), Some(last)) = (self.first.clone(), self.last.clone()) else {
                self.abort().await?;
                return Ok(None);
            };
            let filter = self.keys.finish().await;
            let data = self.data.finish().await?;
            assert!(data.data_bytes == data_bytes, "announced-lengths: {data_bytes} bytes of data");
            let index = self.index.finish(&first, &last).await?;
            let written = Written {
                dir: self.dir,
                descriptor: self.descriptor,
                schema: self.schema,
                header: self.header,
                options: self.options,
                class: self.class,
                data,
                index,
                filter,
                cardinality: self.cardinality,
                stats: self.stats,
                first,
                last,
                partitions: self.partitions,
            };
            seal::seal(written).await.map(Some)
        })
    }

    /// Removes what was written.
    pub fn abort(self) -> Erased<'static, Result<(), IoError>> {
        Erased::new(move || async move {
            let Writer { dir, descriptor, data, index, .. } = self;
            drop((data, index));
            store::remove(&dir, descriptor).await
        })
    }

    fn start(&mut self, key: &DecoratedKey, tombstone: Tombstone) {
        assert!(self.partition.is_none(), "paired: a partition inside a partition");
        assert!(self.last.as_ref() < Some(key), "ordered: {key:?} after {:?}", self.last);
        debug_assert!(
            key.key.len() <= u16::MAX as usize,
            "announced-lengths: {} bytes",
            key.key.len()
        );
        debug_assert!(self.index.blocks().0 == 0, "contiguous-blocks: of the partition before");
        let start = self.data.position();
        self.scratch.clear();
        self.scratch.put_u16_bytes(&key.key);
        put_deletion(tombstone, &mut self.scratch);
        self.index.start(&key.key, self.data.disk_len());
        self.data.put(&self.scratch);
        if !tombstone.is_none() {
            self.stats.partition_tombstone(tombstone);
        }
        let hash = token::murmur3(&key.key);
        debug_assert!(key.token == Token::of_hash(hash), "ordered: {key:?} by another token");
        self.keys.add(hash);
        self.cardinality.add(&key.key);
        self.first.get_or_insert_with(|| key.clone());
        self.partition = Some(Partition {
            key: key.clone(),
            hash,
            tombstone,
            start,
            latest_start: start,
            header_bytes: 0,
            position: None,
            open: Tombstone::NONE,
            block: None,
            indexed_to: 0,
            block_bytes: match self.options.rows {
                RowOrder::Kept => self.options.column_index_bytes.max(1) as u64,
                RowOrder::Unchecked => u64::MAX,
            },
            scale_at: self.options.column_index_scale_bytes.max(1),
        });
    }

    fn static_row(&mut self, row: RowView<'_>) {
        let partition = self.partition.as_mut().expect("a static row in a partition");
        assert!(partition.header_bytes == 0, "paired: a static row after other rows");
        debug_assert!(partition.position.is_none(), "paired: a static row after other rows");
        if self.shape.statics.list.is_empty() {
            return;
        }
        let columns = &self.shape.statics;
        let head = self.encoder.encode(row, columns, &self.shape.bases, &mut self.stats);
        let ext = head.ext | ext_flags::IS_STATIC;
        self.scratch.clear();
        self.scratch.put(&[head.flags | flags::EXTENSION, ext]);
        put_sizes(self.encoder.body.len(), 0, &mut self.scratch);
        self.data.put(&self.scratch);
        self.data.put(&self.encoder.body);
        let key = partition.key.key.as_slice();
        debug_assert!(head.flags & flags::IS_MARKER == 0, "a static row that is a marker");
        self.stats.static_row(key, (self.scratch.len() + self.encoder.body.len()) as u64);
        partition.header_bytes = self.data.position() - partition.start;
    }

    /// Before the first element and before the end: a table with static columns has a static row
    /// in every partition.
    fn end_header(&mut self) {
        let header_bytes = self.partition.as_ref().expect("inside a partition").header_bytes;
        if header_bytes == 0 && !self.shape.statics.list.is_empty() {
            self.static_row(RowView::trusted(&mutation::RowBuilder::new(Vec::new()).finish()));
        }
        let partition = self.partition.as_mut().expect("inside a partition");
        if partition.header_bytes == 0 {
            partition.header_bytes = self.data.position() - partition.start;
        }
        debug_assert!(0 < partition.header_bytes, "paired: rows before the start of a partition");
    }

    fn row(&mut self, key: &[u8], row: RowView<'_>) {
        self.end_header();
        let columns = &self.shape.regulars;
        let head = self.encoder.encode(row, columns, &self.shape.bases, &mut self.stats);
        self.scratch.clear();
        put_row_flags(head, &mut self.scratch);
        let fixed = &self.shape.clustering;
        put_blocks(key, fixed, fixed.len(), &mut self.scratch);
        let open = self.partition.as_ref().expect("inside a partition").open;
        self.put_element(BoundKind::Row, key, 0, open);
    }

    /// As [`Writer::row`], in steps between which others go on.
    async fn large_row(&mut self, key: &[u8], row: RowView<'_>) -> Result<(), IoError> {
        self.end_header();
        let (columns, bases) = (&self.shape.regulars, &self.shape.bases);
        // As a rule it takes less on disk; so that it does not move as it grows.
        self.encoder.body.reserve(row.bytes().len());
        let mut encoding = self.encoder.begin(row, columns, bases, &mut self.stats);
        let context = (columns, bases);
        while !self.encoder.step(&mut encoding, CELLS_PER_STEP, context, &mut self.stats) {
            yield_if_needed().await;
        }
        let head = self.encoder.end(encoding);
        self.scratch.clear();
        put_row_flags(head, &mut self.scratch);
        let fixed = &self.shape.clustering;
        put_blocks(key, fixed, fixed.len(), &mut self.scratch);
        let open = self.partition.as_ref().expect("inside a partition").open;
        let body = std::mem::take(&mut self.encoder.body);
        let start = self.begin_element(body.len());
        for piece in body.chunks(PIECE_BYTES) {
            self.data.put(piece);
            self.data.flush().await?;
            yield_if_needed().await;
        }
        self.end_element((BoundKind::Row, key, 0), open, (start, body.len()));
        Ok(())
    }

    fn change(&mut self, prefix: &[u8], weight: i8, tombstone: Tombstone) {
        self.end_header();
        let partition = self.partition.as_mut().expect("inside a partition");
        let before = partition.open;
        debug_assert!(matches!(weight, -1 | 1), "ordered: a change at weight {weight}");
        let Some(kind) = kind_of_change(before, tombstone, weight) else { return };
        self.encoder.body.clear();
        put_marker_body(kind, before, tombstone, &self.shape.bases, &mut self.encoder.body);
        for tombstone in [before, tombstone].iter().filter(|tombstone| !tombstone.is_none()) {
            self.stats.tombstone(*tombstone);
        }
        self.stats.range_tombstone();
        let count = clustering_components(prefix).count();
        debug_assert!(count <= self.shape.clustering.len(), "a bound of {count} values");
        self.scratch.clear();
        self.scratch.put(&[flags::IS_MARKER, kind as u8]);
        self.scratch.put_u16(count as u16);
        put_blocks(prefix, &self.shape.clustering, count, &mut self.scratch);
        self.put_element(kind, prefix, weight, tombstone);
    }

    /// Writes the element whose flags and clustering values are in `scratch` and whose body the
    /// encoder has. Behind it the range tombstone `open` is open.
    fn put_element(&mut self, kind: BoundKind, prefix: &[u8], weight: i8, open: Tombstone) {
        let body_bytes = self.encoder.body.len();
        let start = self.begin_element(body_bytes);
        self.data.put(&self.encoder.body);
        self.end_element((kind, prefix, weight), open, (start, body_bytes));
    }

    /// Writes what stands before the body of an element; where the element starts.
    fn begin_element(&mut self, body_bytes: usize) -> u64 {
        let partition = self.partition.as_ref().expect("inside a partition");
        let start = self.data.position();
        debug_assert!(
            partition.latest_start < start,
            "announced-lengths: the element before {start}"
        );
        put_sizes(body_bytes, start - partition.latest_start, &mut self.scratch);
        self.data.put(&self.scratch);
        start
    }

    /// An element is written.
    fn end_element(
        &mut self,
        (kind, prefix, weight): (BoundKind, &[u8], i8),
        open: Tombstone,
        (start, body_bytes): (u64, usize),
    ) {
        let partition = self.partition.as_mut().expect("inside a partition");
        let order = &self.schema.order;
        let bytes = (self.scratch.len() + body_bytes) as u64;
        debug_assert!(
            self.data.position() == start + bytes,
            "announced-lengths: {bytes} at {start}"
        );
        self.stats.row(&partition.key.key, prefix, bytes);
        let is_first = partition.position.is_none();
        if match self.bounds {
            Bounds::None => false,
            Bounds::OfEnds => is_first,
            Bounds::OfAll => true,
        } {
            self.stats.clustering(&self.schema, prefix);
        }
        partition.latest_start = start;
        partition.block.get_or_insert_with(|| OpenBlock {
            first: BlockBound { kind, prefix: prefix.to_vec() },
            start,
            open: partition.open,
        });
        partition.open = open;
        let in_order = partition.advance(kind, prefix, weight, |a, b| order.compare(a, b));
        let checked = self.options.rows == RowOrder::Kept;
        assert!(in_order || !checked, "ordered: {prefix:?} {weight} is not after the latest");
        let block = partition.block.as_ref().expect("a block was opened above");
        if partition.block_bytes <= self.data.position() - block.start {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        let partition = self.partition.as_mut().expect("inside a partition");
        let (Some(block), Some((last, _))) = (partition.block.take(), &partition.position) else {
            return;
        };
        let is_next = partition.indexed_to == block.start
            || partition.indexed_to == 0 && block.start == partition.start + partition.header_bytes;
        assert!(is_next, "contiguous-blocks: {} after {}", block.start, partition.indexed_to);
        partition.indexed_to = self.data.position();
        assert!(block.start < partition.indexed_to, "contiguous-blocks: an empty block");
        let entry = BlockEntry {
            first: &block.first,
            last,
            offset: block.start - partition.start,
            width: self.data.position() - block.start,
            open: (block.open, partition.open),
        };
        self.index.push(entry, &self.schema.order, &self.shape.clustering);
        if partition.scale_at <= self.index.blocks().1 {
            partition.block_bytes = partition.block_bytes.saturating_mul(2);
            partition.scale_at =
                partition.scale_at.saturating_add(self.options.column_index_scale_bytes.max(1));
        }
    }

    fn end(&mut self) {
        self.end_header();
        if 0 < self.index.blocks().0 {
            self.end_block();
        }
        let partition = self.partition.take().expect("the end of a partition in one");
        assert!(partition.open.is_none(), "paired: a range tombstone open at a partition's end");
        if let Some((last, _)) = &partition.position
            && self.bounds == Bounds::OfEnds
            && 1 < self.stats.rows_of_partition()
        {
            self.stats.clustering(&self.schema, &last.prefix);
        }
        let rows_end = self.data.position() - partition.start;
        debug_assert!(
            partition.header_bytes <= rows_end,
            "announced-lengths: {rows_end} with a header"
        );
        let indexed = self.index.blocks().0 == 0 || partition.indexed_to == self.data.position();
        assert!(indexed, "contiguous-blocks: the rows end behind {}", partition.indexed_to);
        self.data.put_u8(flags::END_OF_PARTITION);
        self.stats.partition_end(&partition.key.key, self.data.position() - partition.start);
        self.index.end(PartitionEntry {
            key: &partition.key,
            hash: partition.hash,
            position: partition.start,
            tombstone: partition.tombstone,
            header_bytes: partition.header_bytes,
            rows_end,
        });
        self.last = Some(partition.key);
        self.partitions += 1;
    }
}

impl Partition {
    /// Takes note of the element at a position; whether it is after the latest.
    fn advance(
        &mut self,
        kind: BoundKind,
        prefix: &[u8],
        weight: i8,
        compare: impl Fn((&[u8], i8), (&[u8], i8)) -> Ordering,
    ) -> bool {
        let Some((bound, latest)) = &mut self.position else {
            self.position = Some((BlockBound { kind, prefix: prefix.to_vec() }, weight));
            return true;
        };
        let order = compare((&bound.prefix, *latest), (prefix, weight));
        let in_order = order == Ordering::Less || (order == Ordering::Equal && weight != 0);
        bound.kind = kind;
        bound.prefix.clear();
        bound.prefix.extend_from_slice(prefix);
        *latest = weight;
        in_order
    }
}

fn put_row_flags(head: RowFlags, out: &mut Vec<u8>) {
    debug_assert!((head.ext != 0) <= (head.flags & flags::EXTENSION != 0), "{head:?}");
    out.put_u8(head.flags);
    if head.flags & flags::EXTENSION != 0 {
        out.put_u8(head.ext);
    }
}

/// Appends body size, which includes the other, and distance to the previous element.
fn put_sizes(body_bytes: usize, prev_bytes: u64, out: &mut Vec<u8>) {
    out.put_vint((body_bytes + vint::size(prev_bytes)) as u64);
    out.put_vint(prev_bytes);
}
