//! What the index cache costs: evicting pages of partition indexes by their number of entries,
//! memory per entry, lookups that find their page. `index_cache DIRECTORY [ROUNDS]`.
//!
//! With a third argument, `find` or `page`, it does ROUNDS of that alone, so that an instruction
//! counter run with two numbers of rounds gives the instructions of one.

use model::DecoratedKey;
use runtime::io::{File, IoClass, OpenOptions, fs};
use runtime::time::Instant;
use sstable::cache::CachedFile;
use sstable::index::entry::EntryHead;
use sstable::index::summary::SummaryBuilder;
use sstable::index::{BigIndex, PartitionIndex};
use sstable::{Access, IndexCache, Lookup};
use std::hint::black_box;
use std::path::Path;
use std::rc::Rc;
use stdx::Bytes;

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator;

/// Room for everything.
const BYTES_MAX: usize = 1 << 30;

struct Index {
    index: PartitionIndex,
    file: CachedFile,
    /// A key of each page.
    sample: Vec<Lookup>,
    entries: u64,
    key_bytes: u64,
}

/// An index of pages with as many entries each.
async fn make(path: &Path, pages: usize, entries: usize) -> Index {
    let key =
        |number: usize| DecoratedKey::new(Bytes::copy_from(format!("{number:016}").as_bytes()));
    let mut keys: Vec<DecoratedKey> = (0..pages * entries).map(key).collect();
    keys.sort();
    let (mut bytes, mut summary) = (Vec::new(), SummaryBuilder::default());
    for (number, key) in keys.iter().enumerate() {
        // The summary takes an entry in when so much data has gone by.
        let disk_position = (number / entries) as u64 * (1 << 20);
        summary.offer(&key.key, bytes.len() as u64, disk_position);
        let head = EntryHead { key: &key.key, position: number as u64 * 100, promoted_bytes: 0 };
        head.put(&mut bytes);
    }
    let summary = summary.finish(&keys[0].key, &keys[keys.len() - 1].key).expect("entries");
    assert_eq!(summary.len(), pages);
    fs::write_file_atomic(path, &bytes).await.expect("a directory to write to");
    let file = File::open(path, OpenOptions::read_only()).await.expect("the file just written");
    let file = CachedFile::new(file, bytes.len() as u64);
    let count = keys.len() as u64;
    let index = BigIndex::new(file.clone(), summary, count * 100, count);
    let sample = keys.iter().step_by(entries).map(|key| Lookup::new(key.key.clone()));
    Index {
        index: PartitionIndex::Big(Rc::new(index)),
        file,
        sample: sample.collect(),
        entries: count,
        key_bytes: 16 * count,
    }
}

/// Loads every page of the index.
async fn load(index: &Index, cache: &Rc<IndexCache>) {
    for lookup in &index.sample {
        let access = Access::new(IoClass::Query, cache);
        assert!(index.index.find(lookup, &access).await.expect("a sound index").is_some());
    }
}

async fn evictions(directory: &Path, rounds: usize) {
    println!("entries  pages  eviction: median, max of {rounds}  bytes/entry beside the key");
    for (entries, pages) in [(10, 4000), (100, 1000), (1000, 400), (10_000, 64)] {
        let index = make(&directory.join("Index.db"), pages, entries).await;
        let cache = IndexCache::new(BYTES_MAX);
        let mut times = Vec::new();
        let mut beside = 0.0;
        for _ in 0..rounds {
            load(&index, &cache).await;
            let stats = cache.stats().partitions;
            assert_eq!(stats.pages, pages as u64);
            beside = (stats.bytes - index.key_bytes) as f64 / index.entries as f64;
            let start = Instant::now();
            cache.clear().await;
            times.push(start.elapsed().as_nanos() as u64 / pages as u64);
            assert_eq!(cache.stats().partitions.pages, 0);
        }
        times.sort_unstable();
        let (median, max) = (times[times.len() / 2], times[times.len() - 1]);
        println!("{entries:>7}  {pages:>5}  {median:>6} ns, {max:>6} ns  {beside:>12.2}");
    }
}

/// Finds and touches of what is there.
async fn warm(directory: &Path, rounds: usize, what: &str) {
    let index = make(&directory.join("Index.db"), 200, 500).await;
    let cache = IndexCache::new(BYTES_MAX);
    load(&index, &cache).await;
    let pages = index.file.len() / sstable::cache::PAGE_BYTES;
    let access = Access::new(IoClass::Query, &cache);
    for number in 0..pages {
        index.file.page(&access, number).await.expect("a page of the file");
    }
    let before = memory::counts().allocations;
    let start = Instant::now();
    for round in 0..rounds {
        let access = Access::new(IoClass::Query, &cache);
        match what {
            "find" => {
                let lookup = &index.sample[round % index.sample.len()];
                black_box(index.index.find(lookup, &access).await).expect("a sound index");
            }
            _ => {
                let page = index.file.page_now(&access, round as u64 % pages);
                black_box(page.expect("a cached page")[0]);
            }
        }
    }
    let ns = start.elapsed().as_nanos() as f64 / rounds as f64;
    let allocations = memory::counts().allocations - before;
    println!("{what} of what is cached: {ns:.0} ns, {allocations} allocations in {rounds} rounds");
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().expect("a directory for the files");
    let rounds = arguments.next().map_or(21, |text| text.parse().expect("a number of rounds"));
    let alone = arguments.next();
    let mut config = runtime::Config::new(1);
    if alone.is_some() {
        // What counts instructions knows no io_uring.
        config.backend = runtime::Backend::Epoll;
        config.stall_threshold = None;
    }
    let ran = runtime::run(config, move |_| {
        let (directory, alone) = (directory.clone(), alone.clone());
        async move {
            let directory = Path::new(&directory);
            if let Some(what) = alone {
                return warm(directory, rounds, &what).await;
            }
            evictions(directory, rounds).await;
            warm(directory, 1_000_000, "find").await;
            warm(directory, 1_000_000, "page").await;
        }
    });
    ran.expect("a shard");
}
