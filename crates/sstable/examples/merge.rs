//! What merging two SSTables into one costs: `merge DIRECTORY RUNS ROWS [lz4]`, with ROWS rows to a
//! partition and 20 000 rows in all, each of 5 columns of 64 bytes. An instruction counter run with
//! two numbers of runs gives the instructions of one.

use model::{DecoratedKey, TableSchema, Token};
use mutation::{
    Cell, CompactionFilter, Direction, Fragment, Marker, Outside, RingBound, RowBuilder, Tombstone,
};
use reader::{Budget, Slice, Source};
use runtime::io::IoClass;
use sstable::mx::header::SerializationHeader;
use sstable::{
    Access, Algorithm, Bases, Compression, Descriptor, Generation, IndexCache, Scope, Table,
    Writer, WriterOptions, store,
};
use std::path::Path;
use std::rc::Rc;
use stdx::{Bytes, Prng};

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator;

const ROWS: usize = 20_000;
const KEY_BYTES: usize = 128;
const COLUMNS: usize = 5;
const COLUMN_BYTES: usize = 64;
/// One batch, as compactions take it.
const BATCH: Budget = Budget { fragments_max: 128, bytes_max: 64 << 10 };

fn schema(rows: usize) -> Rc<TableSchema> {
    let class = |name: &str| format!("org.apache.cassandra.db.marshal.{name}");
    let clustering = if rows == 1 { Vec::new() } else { vec![class("Int32Type")] };
    let header = SerializationHeader {
        bases: Bases::EPOCH,
        partition_key: class("BytesType"),
        clustering,
        statics: Vec::new(),
        regulars: (0..COLUMNS).map(|index| (format!("c{index}"), class("BytesType"))).collect(),
    };
    Rc::new(sstable::testing::schema_of_header(&header).expect("known classes"))
}

fn partition(
    key: DecoratedKey,
    schema: &TableSchema,
    rows: usize,
    prng: &mut Prng,
) -> Vec<Fragment> {
    let mut out = vec![Fragment::PartitionStart { key, tombstone: Tombstone::NONE }];
    let mut value = vec![0; COLUMN_BYTES];
    for number in 0..rows as u32 {
        let mut row = RowBuilder::new(Vec::new());
        row.marker(Marker::Live { timestamp: 0 });
        for column in schema.regulars() {
            prng.fill(&mut value);
            for word in value.chunks_mut(8) {
                let number = word[0] % 64;
                word.iter_mut().zip(1u8..).for_each(|(byte, place)| {
                    *byte = number.wrapping_mul(37).wrapping_add(place.wrapping_mul(11));
                });
            }
            row.cell(column.id, Cell::live(0, &value));
        }
        let mut key = Vec::new();
        if 1 < rows {
            model::key::push_clustering(&number.to_be_bytes(), &mut key);
        }
        let (key, row) = (Bytes::from(key), Bytes::from(row.finish()));
        out.push(Fragment::Row { key, row });
    }
    out.push(Fragment::PartitionEnd);
    out
}

struct Merge<'m> {
    directory: &'m Path,
    schema: Rc<TableSchema>,
    compression: Compression,
}

impl Merge<'_> {
    async fn writer(&self, class: IoClass) -> Writer {
        let mut options = WriterOptions::of_schema(&self.schema, "compaction").expect("options");
        options.compression = self.compression;
        let (directory, generation) = (self.directory, Generation::generate());
        let created = Writer::create(directory, generation, self.schema.clone(), options, class);
        created.await.expect("a directory to write to")
    }

    async fn make(&self, keys: &[DecoratedKey], rows: usize, prng: &mut Prng) -> Descriptor {
        let mut writer = self.writer(IoClass::Flush).await;
        for key in keys {
            for fragment in partition(key.clone(), &self.schema, rows, prng) {
                writer.write(&fragment).await.expect("room");
            }
        }
        writer.finish().await.expect("room").expect("partitions").descriptor
    }

    async fn merge(&self, tables: &[Rc<Table>]) -> Descriptor {
        let bound = |token, after| RingBound { token, key: None, after };
        let sources = tables.iter().map(|table| {
            let (start, end) = (bound(Token::MIN, false), bound(Token::MAX, true));
            let access = Access::bypass(IoClass::Compaction);
            let source = table.read_checked(Scope::Range { start, end }, Slice::full(), access);
            Box::new(source) as Box<dyn Source>
        });
        let counts = reader::MergeCounts::new(tables.len());
        let (schema, sources) = (self.schema.clone(), sources.collect());
        let mut source = reader::merge_counted(schema, Direction::Forward, sources, &counts);
        let mut writer = self.writer(IoClass::Compaction).await;
        let mut filter = CompactionFilter::new(0, Box::new(|_| Outside::UNKNOWN));
        let (mut batch, mut kept) = (Vec::new(), Vec::new());
        loop {
            source.fill(BATCH, &mut batch).await.expect("sound SSTables");
            if batch.is_empty() {
                break;
            }
            batch.drain(..).for_each(|fragment| filter.push(fragment, &mut kept));
            for fragment in &kept {
                writer.write(fragment).await.expect("room");
            }
            kept.clear();
            runtime::task::yield_if_needed().await;
        }
        writer.finish().await.expect("room").expect("partitions").descriptor
    }
}

async fn run(directory: &Path, runs: usize, rows: usize, compression: Compression) {
    let schema = schema(rows);
    let mut prng = Prng::from_seed(1);
    let mut keys: Vec<DecoratedKey> = (0..ROWS / rows)
        .map(|_| {
            let mut key = vec![0; KEY_BYTES];
            prng.fill(&mut key);
            DecoratedKey::new(Bytes::from(key))
        })
        .collect();
    keys.sort();
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for key in keys {
        if prng.one_in(2) { first.push(key) } else { second.push(key) }
    }
    let merge = Merge { directory, schema: schema.clone(), compression };
    let cache = IndexCache::new(64 << 20);
    let mut tables = Vec::new();
    for keys in [first, second] {
        let made = merge.make(&keys, rows, &mut prng).await;
        let opened = Table::open(directory, made, schema.clone(), &cache).await;
        tables.push(opened.expect("the SSTable just written"));
    }
    for _ in 0..runs {
        let made = merge.merge(&tables).await;
        store::remove(directory, made).await.expect("the SSTable just written");
    }
    for table in tables {
        store::remove(directory, table.descriptor()).await.expect("the SSTable just written");
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().expect("a directory for the files");
    let mut number = || arguments.next().and_then(|text| text.parse().ok()).expect("a number");
    let (runs, rows) = (number(), number());
    let compression = match arguments.next() {
        None => Compression::None,
        Some(_) => Compression::Chunks { algorithm: Algorithm::Lz4, chunk_bytes: 4096 },
    };
    let mut config = runtime::Config::new(1);
    // What counts instructions knows no io_uring.
    config.backend = runtime::Backend::Epoll;
    config.stall_threshold = None;
    let ran = runtime::run(config, move |_| {
        let directory = directory.clone();
        async move { run(Path::new(&directory), runs, rows, compression).await }
    });
    ran.expect("a shard");
}
