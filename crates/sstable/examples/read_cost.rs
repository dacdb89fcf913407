//! What reads of a large partition cost: `read_cost DIRECTORY FORMAT [WHAT ROUNDS]`.
//!
//! The partition has 1 000 000 rows of an int and a blob of 100 bytes, in blocks of 1 KiB, and is
//! made in DIRECTORY unless it is there. FORMAT is `me` or `ms`. With WHAT, one of the cases, only
//! that is done, ROUNDS times, so that an instruction counter run with two numbers of rounds gives
//! the instructions of one.

use model::TableSchema;
use model::key::push_clustering;
use mutation::row::RowBuilder;
use mutation::{Cell, ClusteringRange, Fragment, Marker, Tombstone};
use reader::{Budget, Slice, Source};
use runtime::io::{IoClass, fs};
use runtime::time::Instant;
use sstable::mx::header::SerializationHeader;
use sstable::store::clean_up;
use sstable::testing::schema_of_header;
use sstable::{
    Access, Bases, Compression, Generation, IndexCache, Lookup, ReadStats, Scope, Table, Version,
    Writer, WriterOptions,
};
use std::path::Path;
use std::rc::Rc;
use stdx::{Bytes, Prng};

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator;

const ROWS: i32 = 1_000_000;
const CASES: [&str; 8] =
    ["cold", "next", "missing", "many", "first10", "last10", "scan", "scan-backwards"];

fn schema() -> TableSchema {
    let class = |name: &str| format!("org.apache.cassandra.db.marshal.{name}");
    let header = SerializationHeader {
        bases: Bases::EPOCH,
        partition_key: class("Int32Type"),
        clustering: vec![class("Int32Type")],
        statics: Vec::new(),
        regulars: vec![("value".to_string(), class("BytesType"))],
    };
    schema_of_header(&header).expect("known classes")
}

fn key() -> Lookup {
    Lookup::new(Bytes::copy_from(&1i32.to_be_bytes()))
}

fn prefix(value: i32) -> Bytes {
    let mut out = Vec::new();
    push_clustering(&value.to_be_bytes(), &mut out);
    out.into()
}

async fn make(directory: &Path, schema: &Rc<TableSchema>, version: Version) {
    let options = WriterOptions::of_schema(schema, "memtable").expect("supported options");
    let compression = Compression::None;
    let options = WriterOptions { column_index_bytes: 1024, compression, version, ..options };
    let (generation, class) = (Generation::Number(1), IoClass::Flush);
    let writer = Writer::create(directory, generation, schema.clone(), options, class).await;
    let mut writer = writer.expect("a directory to write to");
    let start = Fragment::PartitionStart { key: key().key, tombstone: Tombstone::NONE };
    writer.write(&start).await.expect("written");
    let mut prng = Prng::from_seed(1);
    let mut value = [0; 100];
    for number in 0..ROWS {
        let timestamp = Bases::EPOCH.timestamp + number as i64;
        let mut builder = RowBuilder::new(Vec::new());
        builder.marker(Marker::Live { timestamp });
        prng.fill(&mut value);
        builder.cell(schema.regulars()[0].id, Cell::live(timestamp, &value));
        let row = Fragment::Row { key: prefix(2 * number), row: builder.finish().into() };
        writer.write(&row).await.expect("written");
    }
    writer.write(&Fragment::PartitionEnd).await.expect("written");
    writer.finish().await.expect("written");
}

/// What a case reads, and how many fragments of it, in one of its rounds.
fn case(what: &str, round: usize) -> (Slice, usize) {
    let full = || Slice { with_static: false, ..Slice::full() };
    let rows = |numbers: &[i32]| {
        let ranges = numbers.iter().map(|number| ClusteringRange::of_prefix(prefix(*number)));
        Slice { ranges: ranges.collect(), ..full() }
    };
    let at = 2 * (ROWS / 2 + round as i32 % 1000);
    match what {
        "cold" | "next" => (rows(&[at]), usize::MAX),
        "missing" => (rows(&[at + 1]), usize::MAX),
        "many" => {
            let mut prng = Prng::from_seed(round as u64 % 3);
            let mut all: Vec<i32> = (0..100).map(|_| 2 * prng.below(ROWS as u64) as i32).collect();
            all.sort_unstable();
            all.dedup();
            (rows(&all), usize::MAX)
        }
        "first10" => (full(), 11),
        "last10" => (Slice { reversed: true, ..full() }, 11),
        "scan" => (full(), usize::MAX),
        "scan-backwards" => (Slice { reversed: true, ..full() }, usize::MAX),
        other => panic!("no case {other}: {CASES:?}"),
    }
}

async fn read(
    table: &Rc<Table>,
    cache: &Rc<IndexCache>,
    lookup: &Lookup,
    of: (Slice, usize),
) -> usize {
    let (slice, limit) = of;
    let access = Access::new(IoClass::Query, cache);
    let mut source = table.read(Scope::Key(lookup.clone()), slice, access);
    let mut out = Vec::with_capacity(64);
    let mut count = 0;
    while count < limit {
        out.clear();
        let fragments_max = Budget::BATCH.fragments_max.min(limit - count);
        let budget = Budget { fragments_max, ..Budget::BATCH };
        match source.try_fill(budget, &mut out) {
            Some(filled) => filled.expect("a sound file"),
            None => source.fill(budget, &mut out).await.expect("a sound file"),
        }
        if out.is_empty() {
            break;
        }
        count += out.len();
    }
    count
}

async fn measure(table: &Rc<Table>, what: &str, rounds: usize) {
    let cache = IndexCache::new(64 << 20);
    let lookup = key();
    // Once before, so that what a warm case needs is there.
    for round in 0..3 {
        read(table, &cache, &lookup, case(what, round)).await;
    }
    let (mut ns, mut allocations, mut fragments) = (0, 0, 0);
    let (mut reads, mut bytes) = (0, 0);
    runtime::io::take_peak_in_flight();
    let before = ReadStats::of_shard().counts();
    for round in 0..rounds {
        if what == "cold" {
            cache.clear();
        }
        let case = case(what, 3 + round);
        let io = runtime::io::stats(IoClass::Query);
        let counted = memory::counts().allocations;
        let start = Instant::now();
        fragments += read(table, &cache, &lookup, case).await;
        ns += start.elapsed().as_nanos() as u64;
        allocations += memory::counts().allocations - counted;
        let after = runtime::io::stats(IoClass::Query);
        reads += after.reads - io.reads;
        bytes += after.read_bytes - io.read_bytes;
    }
    let per = |total: u64| total as f64 / rounds as f64;
    let dropped = ReadStats::of_shard().counts().discarded_bytes - before.discarded_bytes;
    println!(
        "{what:>15}: {:>9.1} us, {:>6.1} aio, {:>9.1} KiB, {:>9.1} allocations, {:>9.1} fragments, \
         depth {}, dropped {dropped}",
        per(ns) / 1000.0,
        per(reads),
        per(bytes) / 1024.0,
        per(allocations),
        per(fragments as u64),
        runtime::io::take_peak_in_flight(),
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, format, rest @ ..] = arguments.as_slice() else {
        panic!("read_cost DIRECTORY FORMAT [WHAT ROUNDS]");
    };
    let version = if format == "ms" { Version::Ms } else { Version::Me };
    let directory = format!("{directory}/{format}");
    let alone = rest.first().cloned();
    let rounds = rest.get(1).map(|text| text.parse().expect("a number of rounds"));
    let mut config = runtime::Config::new(1);
    if rounds.is_some() {
        // What counts instructions knows no io_uring.
        config.backend = runtime::Backend::Epoll;
        config.stall_threshold = None;
    }
    let ran = runtime::run(config, move |_| {
        let (directory, alone) = (directory.clone(), alone.clone());
        async move {
            let directory = Path::new(&directory);
            let schema = Rc::new(schema());
            fs::create_dir_all(directory).await.expect("a directory to write to");
            if clean_up(directory).await.expect("a directory").tables.is_empty() {
                make(directory, &schema, version).await;
            }
            let found = clean_up(directory).await.expect("a directory").tables;
            let cache = IndexCache::new(1 << 20);
            let table = Table::open(directory, found[0].descriptor, schema, &cache).await;
            let table = table.expect("the SSTable just written");
            match &alone {
                Some(what) => measure(&table, what, rounds.unwrap_or(1)).await,
                None => {
                    for what in CASES {
                        let rounds = if what.starts_with("scan") { 3 } else { 300 };
                        measure(&table, what, rounds).await;
                    }
                }
            }
        }
    });
    ran.expect("the runtime starts");
}
