//! Twelve readers over sixteen shards, each shard visited for what is needed or for a buffer of a
//! fixed size: what either costs. Simulated shards, each with a semaphore, an index cache, an
//! SSTable and the visits of [`crate::shard::multishard`].
//!
//! `NEREID_MULTISHARD_MIB=12 cargo test -p storage --lib twelve -- --nocapture` prints the table of
//! the documentation. All is counted, and the time simulated: the build and the machine do not
//! matter.

use crate::shard::multishard::{Host, ShardReads, visited};
use crate::testing::{V, clustering, key, schema};
use model::{DecoratedKey, TableSchema, TabletMap, Token};
use mutation::{Cell, CellState, Fragment, Marker, RingBound, RowBuilder, Tombstone};
use reader::multishard::wire::SendPlace;
use reader::multishard::{
    Demand, MultishardOptions, MultishardSource, ReadAhead, ShardReader, VisitFuture,
};
use reader::place::Place;
use reader::semaphore::{Limits, ReadSemaphore, Reading};
use reader::{Budget, OpenSource, PartitionScope, Slice, Source};
use runtime::io::{IoClass, stats};
use runtime::time::{Instant, sleep};
use sstable::{Access, Generation, IndexCache, Lookup, Scope, Table, Writer, WriterOptions};
use std::fmt;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

const SHARDS: u16 = 16;
const READERS: u16 = 12;
/// Parts of the ring per shard: fine-grained, as token ranges of shards are.
const TABLETS_PER_SHARD: u32 = 512;
const ROW_BYTES: usize = 1 << 10;
const ROWS_PER_PARTITION: u32 = 4;
const DIR: &str = "/multishard";
/// From shard to shard, each way.
const HOP: Duration = Duration::from_micros(20);

/// One shard of those that are read.
struct Served {
    schema: Rc<TableSchema>,
    table: Rc<Table>,
    semaphore: Rc<ReadSemaphore>,
    cache: Rc<IndexCache>,
    reads: ShardReads,
}

impl Served {
    fn opener(self: &Rc<Self>) -> OpenSource {
        let served = Rc::downgrade(self);
        Box::new(move |scope, slice| {
            let served = served.upgrade().expect("the shard is there");
            let access = Access::new(IoClass::Streaming, &served.cache);
            let scope = match scope.clone() {
                PartitionScope::Key(key) => Scope::Key(Lookup::new(key.key)),
                PartitionScope::Range { start, end } => Scope::Range { start, end },
            };
            Ok(Box::new(served.table.read(scope, slice.clone(), access)))
        })
    }
}

/// One reader of one shard.
struct Seat {
    served: Rc<Served>,
    read: u64,
}

impl ShardReader for Seat {
    fn visit(&self, place: &Place, bytes_max: usize) -> VisitFuture {
        let (served, read, place) = (self.served.clone(), self.read, SendPlace::from(place));
        Box::pin(async move {
            sleep(HOP).await;
            let reading = Reading { schema: served.schema.clone(), operation: "shard-reader" };
            let (reads, semaphore) = (&served.reads, &served.semaphore);
            let host = Host { reads, semaphore, reading };
            let place = Place::from(&place);
            let reply = host.visit((read, place), bytes_max, || served.opener()).await;
            sleep(HOP).await;
            let (encoded, at_end) = reply?;
            visited(&encoded, at_end)
        })
    }
}

/// The fragments of a partition.
fn partition(number: u64, key: DecoratedKey) -> Vec<Fragment> {
    let mut out = vec![Fragment::PartitionStart { key, tombstone: Tombstone::NONE }];
    for row in 0..ROWS_PER_PARTITION {
        let mut blob = RowBuilder::new(Vec::new());
        blob.marker(Marker::Live { timestamp: 1 });
        // Nothing that compresses.
        let mut value = vec![0; ROW_BYTES];
        stdx::Prng::from_seed(number << 8 | row as u64).fill(&mut value);
        blob.cell(V, Cell { timestamp: 1, state: CellState::Live { value: &value } });
        let key = clustering(&[row, 0]).into();
        out.push(Fragment::Row { key, row: blob.finish().into() });
    }
    out.push(Fragment::PartitionEnd);
    out
}

/// Writes what each shard has.
async fn serve(map: &TabletMap, shard_bytes: usize) -> Vec<Rc<Served>> {
    let schema = Rc::new(schema(1, "t1"));
    let partitions = SHARDS as usize * shard_bytes / (ROWS_PER_PARTITION as usize * ROW_BYTES);
    let keys = (0..partitions as u64).map(|n| (DecoratedKey::new(key(n).into()), n));
    let mut keys: Vec<(DecoratedKey, u64)> = keys.collect();
    keys.sort();
    let mut shards = Vec::new();
    for shard in 0..SHARDS {
        let dir = Path::new(DIR).join(shard.to_string());
        runtime::io::fs::create_dir_all(&dir).await.unwrap();
        let options = WriterOptions::of_schema(&schema, "memtable").unwrap();
        let generation = Generation::generate();
        let class = IoClass::Flush;
        let mut writer =
            Writer::create(&dir, generation, schema.clone(), options, class).await.unwrap();
        let mine = keys.iter().filter(|(key, _)| map.shard_of(key.token) == shard);
        for (key, number) in mine {
            for fragment in partition(*number, key.clone()) {
                writer.write(&fragment).await.unwrap();
            }
        }
        let sealed = writer.finish().await.unwrap().unwrap();
        let cache = IndexCache::new(1 << 20);
        let table = Table::open(&dir, sealed.descriptor, schema.clone(), &cache).await.unwrap();
        let semaphore = ReadSemaphore::new("streaming", Limits::streaming(8 << 30));
        let (schema, reads) = (schema.clone(), ShardReads::default());
        shards.push(Rc::new(Served { schema, table, semaphore, cache, reads }));
    }
    shards
}

/// What reading all took.
#[derive(Clone, Copy)]
struct Figures {
    evictions: u64,
    bytes: u64,
    ops: u64,
    time: Duration,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { evictions, bytes, ops, time } = self;
        let mib = *bytes as f64 / (1 << 20) as f64;
        write!(f, "{evictions:>9} | {mib:>8.1} MiB | {ops:>8} | {:>8.1} ms", ms(*time))
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Every reader reads its own part of the ring, batch by batch, all at the same time.
async fn read_all(
    map: &Rc<TabletMap>,
    shards: &[Rc<Served>],
    batch_bytes: usize,
    how: MultishardOptions,
) -> Figures {
    let parts = TabletMap::tablets(READERS.into(), READERS);
    let evictions = || shards.iter().map(|one| one.semaphore.counters().permit_based_evictions);
    let (before, evicted, start) =
        (stats(IoClass::Streaming), evictions().sum::<u64>(), Instant::now());
    for shard in shards {
        shard.cache.clear().await;
    }
    let readers = (0..READERS).map(|number| {
        let (after, last) = parts.range(number as usize);
        let bound = |token| RingBound { token, key: None, after: true };
        let start = match after {
            Token::MIN => RingBound { after: false, ..bound(after) },
            after => bound(after),
        };
        let seats = shards.iter().map(|served| -> Box<dyn ShardReader> {
            Box::new(Seat { served: served.clone(), read: number as u64 })
        });
        let seats = seats.collect();
        let bounds = (start, bound(last));
        let mut source = MultishardSource::new(map.clone(), bounds, Slice::full(), seats, how);
        async move {
            let mut rows = 0;
            loop {
                let mut batch = Vec::new();
                let budget = Budget { fragments_max: usize::MAX, bytes_max: batch_bytes };
                source.fill(budget, &mut batch).await.unwrap();
                if batch.is_empty() {
                    return rows;
                }
                let is_row = |one: &&Fragment| matches!(one, Fragment::Row { .. });
                rows += batch.iter().filter(is_row).count();
                // The batch goes out.
                sleep(Duration::from_millis(2)).await;
            }
        }
    });
    let rows: usize = runtime::task::join_all(readers).await.iter().sum();
    let partitions: u64 = shards.iter().map(|one| one.table.partition_count()).sum();
    assert_eq!(rows as u64, partitions * ROWS_PER_PARTITION as u64, "every row, once");
    let after = stats(IoClass::Streaming);
    for shard in shards {
        assert_eq!(shard.semaphore.waiting_count(), 0);
        shard.reads.clear();
        assert_eq!(shard.semaphore.load().consumed, 0);
    }
    Figures {
        evictions: evictions().sum::<u64>() - evicted,
        bytes: after.read_bytes - before.read_bytes,
        ops: after.reads - before.reads,
        time: Instant::now() - start,
    }
}

#[test]
fn twelve_readers_over_sixteen_shards() {
    let asked = std::env::var("NEREID_MULTISHARD_MIB").ok();
    let mib = asked.and_then(|text| text.parse().ok()).unwrap_or(3usize);
    runtime::sim::test(1, move || async move {
        let tablets = TABLETS_PER_SHARD * SHARDS as u32;
        let map = Rc::new(TabletMap::tablets(tablets, SHARDS));
        let shards = serve(&map, mib << 20).await;
        // Half of what a reader reads at all.
        let batch = (mib << 20) * SHARDS as usize / READERS as usize / 2;
        println!("{mib} MiB per shard, batches of {batch} bytes");
        println!("demand          | evictions | bytes read   | read ops | time");
        let exact = read_all(&map, &shards, batch, MultishardOptions::EXACT).await;
        println!("hint            | {exact}");
        for buffer in [8 << 10, 32 << 10, 128 << 10] {
            let (demand, read_ahead) = (Demand::Buffer(buffer), ReadAhead::NextShard);
            let how = MultishardOptions { demand, read_ahead };
            let old = read_all(&map, &shards, batch, how).await;
            println!("buffer {:>3} KiB  | {old}", buffer >> 10);
            let ratio = |old: u64, new: u64| old as f64 / new.max(1) as f64;
            let evictions = ratio(old.evictions, exact.evictions);
            let (bytes, ops) = (ratio(old.bytes, exact.bytes), ratio(old.ops, exact.ops));
            println!("                | / {evictions:.1} | / {bytes:.1} | / {ops:.1}");
            if buffer == 8 << 10 {
                assert!(9.7 <= evictions && 2.3 <= bytes && 2.6 <= ops, "against the default");
            }
        }
    });
}
