//! Tablets that go from shard to shard of a node while they are open: what a single way does, and
//! readers, writers, and writers that read first, beside many of them.
//!
//! `NEREID_SIM_ROUNDS` sets the number of histories; a failure prints its seed, and
//! `NEREID_SIM_SEED` runs that one alone.

use super::carry::delete;
use super::*;
use crate::SourceOptions;
use crate::table::Table;
use model::{DecoratedKey, Token};
use mutation::{Fragment, RingBound};
use reader::multishard::MultishardOptions;
use reader::{Budget, ReadError, Slice, Source};
use runtime::task::join_all;
use runtime::time::sleep;
use runtime::{local, on_all_shards, on_shard};
use std::cell::{Cell as Slot, RefCell};
use std::collections::BTreeSet;
use stdx::Prng;
use testkit::SimNode;

const KEYS: u64 = 40;
static VALUE: [u8; 300] = [0x5a; 300];

fn storage() -> Rc<Storage> {
    local::get::<Storage>()
}

fn own() -> TableSchema {
    let mut schema = schema(1, "t1");
    schema.options.compaction = vec![("enabled".to_string(), "false".to_string())];
    schema.options.tombstone_gc = vec![("mode".to_string(), "immediate".to_string())];
    schema
}

/// Another table, whose writes keep segments of the log.
fn other() -> TableSchema {
    schema(2, "t2")
}

fn mine() -> Rc<Table> {
    storage().shard().table(own().id).unwrap()
}

/// Opens both tables on all shards: the first one divided by this map.
async fn open_by(map: TabletMap) {
    on_all_shards(move || {
        let map = map.clone();
        async move {
            let storage = Storage::open(config()).await.unwrap();
            storage.add_table(Rc::new(own()), map, Log::Data).await.unwrap();
            let ring = TabletMap::static_map(runtime::shard_count());
            storage.add_table(Rc::new(other()), ring, Log::Data).await.unwrap();
        }
    })
    .await;
    storage().replay(Log::Data).await.unwrap();
}

fn map_of(shards: &[u16]) -> TabletMap {
    let equal = TabletMap::tablets(shards.len() as u32, 1);
    TabletMap::new(equal.last_tokens().to_vec(), shards.to_vec())
}

/// Writes one row of each partition of a range, wherever this shard finds it.
async fn fill(from: u64, until: u64) {
    for partition in from..until {
        storage().apply(write(&own(), partition, 1, 1, &VALUE)).await.unwrap();
    }
}

/// The rows of the first partitions, as a shard finds them.
async fn count_on(shard: u16, until: u64) -> usize {
    on_shard(shard, move || async move {
        let mut count = 0;
        for partition in 0..until {
            count += rows(&storage(), &own(), partition).await.len();
        }
        count
    })
    .await
}

async fn files() -> BTreeSet<String> {
    let found = sstable::store::list(&mine().dir).await.unwrap().tables;
    found.iter().map(|one| format!("{:?}", one.descriptor)).collect()
}

fn whole() -> (Token, Token) {
    (Token::MIN, Token::MAX)
}

async fn hand_over(range: (Token, Token), to: u16) {
    storage().hand_over(own().id, range, to).await.unwrap();
}

#[test]
fn a_tablet_goes_with_all_that_it_has_and_nothing_is_written_anew() {
    let mut node = SimNode::new(3, 3);
    node.run(async {
        open_by(map_of(&[0])).await;
        fill(0, KEYS).await;
        storage().flush(own().id).await.unwrap();
        let before = files().await;
        fill(KEYS, KEYS + 10).await;
        hand_over(whole(), 2).await;
        let tablets = on_all_shards(|| async { mine().tablets().len() }).await;
        assert_eq!(tablets, [0, 0, 1]);
        // What lay there stays as it is; what was in memory is one more.
        assert!(before.is_subset(&files().await) && files().await.len() == before.len() + 1);
        let all = KEYS as usize + 10;
        for shard in 0..3 {
            assert_eq!(count_on(shard, KEYS + 10).await, all, "asked of shard {shard}");
        }
        // Who comes late is sent on, and so is who never knew.
        fill(KEYS + 10, KEYS + 20).await;
        on_shard(1, || fill(KEYS + 20, KEYS + 30)).await;
        assert!(mine().tablets().is_empty() && mine().sstables().is_empty());
        assert_eq!(count_on(2, KEYS + 30).await, all + 20);
        // And back, and again to where it is.
        hand_over(whole(), 0).await;
        hand_over(whole(), 0).await;
        assert_eq!((mine().tablets().len(), count_on(0, KEYS + 30).await), (1, all + 20));
        assert!(storage().hand_over(own().id, whole(), 3).await.is_err());
        let half = (Token::MIN, Token(0));
        assert!(storage().hand_over(own().id, half, 1).await.is_err());
    });
    node.crash();
    node.run(async {
        open_by(map_of(&[1])).await;
        assert_eq!(count_on(1, KEYS + 30).await, KEYS as usize + 30);
    });
}

/// *log-has-nothing*: a row that was deleted, and whose deletion was forgotten where the tablet is
/// now, though the log of the shard that had it is still there.
#[test]
fn the_log_of_the_shard_that_had_it_brings_nothing_back() {
    let mut node = SimNode::new(5, 2);
    node.run(async {
        open_by(map_of(&[0])).await;
        // Keeps the segment in which the row is.
        for partition in 0..KEYS {
            on_shard(0, move || async move {
                let one = write(&other(), partition, 1, 1, &VALUE);
                let key = Token::of(&key(partition));
                if TabletMap::static_map(2).shard_of(key) == 0 {
                    storage().apply(one).await.unwrap();
                }
            })
            .await;
        }
        fill(0, KEYS).await;
        storage().close_log_segments();
        storage().apply(delete(&own(), 7, 1, 2)).await.unwrap();
        hand_over(whole(), 1).await;
        on_shard(1, || async {
            storage().close_log_segments();
            sleep(Duration::from_secs(10)).await;
            storage().compact_all(own().id, Default::default()).await.unwrap();
            assert!(rows(&storage(), &own(), 7).await.is_empty());
        })
        .await;
        storage().flush(other().id).await.ok();
    });
    node.crash();
    node.run(async {
        open_by(map_of(&[1])).await;
        assert_eq!(count_on(1, KEYS).await, KEYS as usize - 1);
    });
}

/// The same of a truncation: on both shards, as nodes do it.
#[test]
fn what_was_truncated_where_it_is_now_does_not_come_back() {
    let mut node = SimNode::new(6, 2);
    node.run(async {
        open_by(map_of(&[0, 0])).await;
        fill(0, KEYS).await;
        let first = TabletMap::tablets(2, 1).range(0);
        hand_over(first, 1).await;
        fill(0, KEYS).await;
        on_all_shards(|| async { storage().truncate(own().id, 3).await.map(drop).unwrap() }).await;
        assert_eq!(count_on(0, KEYS).await, 0);
    });
    node.crash();
    node.run(async {
        open_by(map_of(&[1, 0])).await;
        assert_eq!(count_on(0, KEYS).await, 0);
    });
}

/// Rows that were acknowledged, by partition: how many.
type Written = Rc<RefCell<BTreeMap<u64, u32>>>;

struct History {
    written: Written,
    ended: Slot<u32>,
    hand_overs: Slot<u64>,
    scans: Slot<u64>,
    begun_anew: Slot<u64>,
}

const WRITERS: u32 = 4;
const DECIDERS: u32 = 3;
/// Partitions of those who read before they write.
const DECIDED: u64 = 1_000;

fn any_shard(prng: &mut Prng) -> u16 {
    prng.below(u64::from(runtime::shard_count())) as u16
}

/// Adds a row to a partition, after those that are there, on the shard that has it.
async fn decide(partition: u64) {
    let lock = storage().lock_partition(own().id, &key(partition)).await;
    if let Some(owner) = storage().elsewhere(own().id, Token::of(&key(partition))) {
        drop(lock);
        return Box::pin(on_shard(owner, move || decide_boxed(partition))).await;
    }
    let row = rows(&storage(), &own(), partition).await.len() as u32;
    sleep(Duration::from_micros(200)).await;
    storage().apply(write(&own(), partition, row, 1, &VALUE)).await.unwrap();
}

fn decide_boxed(partition: u64) -> std::pin::Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(decide(partition))
}

impl History {
    /// Adds rows to partitions of its own, each once, by way of any shard.
    async fn write(&self, mut prng: Prng, number: u32) {
        for _ in 0..prng.between(20, 80) {
            let partition = prng.below(KEYS / 2) * u64::from(WRITERS) + u64::from(number);
            let row = self.written.borrow().get(&partition).copied().unwrap_or(0);
            let bytes = if prng.one_in(20) { 40_000 } else { prng.below(4_000) };
            let value = vec![row as u8; bytes as usize];
            let put = move || async move {
                let one = write(&own(), partition, row, 1, &value);
                storage().apply(one).await.unwrap();
            };
            on_shard(any_shard(&mut prng), put).await;
            self.written.borrow_mut().insert(partition, row + 1);
            if prng.one_in(4) {
                sleep(Duration::from_micros(prng.below(3_000))).await;
            }
        }
        self.ended.set(self.ended.get() + 1);
    }

    /// Adds rows to partitions that others add to as well.
    async fn decide(&self, mut prng: Prng) {
        for _ in 0..40 {
            let partition = DECIDED + prng.below(3);
            on_shard(any_shard(&mut prng), move || decide(partition)).await;
            *self.written.borrow_mut().entry(partition).or_default() += 1;
        }
        self.ended.set(self.ended.get() + 1);
    }

    fn is_over(&self) -> bool {
        self.ended.get() == WRITERS + DECIDERS
    }

    /// Has tablets go to and fro, beside flushes and merges.
    async fn go(&self, mut prng: Prng) {
        while !self.is_over() {
            let map = storage().tablet_map(own().id).unwrap();
            let range = map.range(prng.below(map.count() as u64) as usize);
            let to = any_shard(&mut prng);
            match storage().hand_over(own().id, range, to).await {
                Ok(()) => self.hand_overs.set(self.hand_overs.get() + 1),
                Err(error) => tracing::debug!("{error}"),
            }
            let (flushes, merges) = (prng.one_in(3), prng.one_in(4));
            let work = move || async move {
                if flushes {
                    storage().flush(own().id).await.unwrap();
                }
                if merges {
                    storage().compact_all(own().id, Default::default()).await.unwrap();
                }
            };
            on_shard(any_shard(&mut prng), work).await;
            sleep(Duration::from_micros(prng.below(5_000))).await;
        }
    }

    /// Reads partitions by way of any shard: what was acknowledged before is there.
    async fn read(&self, mut prng: Prng) {
        while !self.is_over() {
            let before = self.written.borrow().clone();
            let Some((partition, count)) = before.iter().nth(prng.below(150) as usize) else {
                sleep(Duration::from_micros(100)).await;
                continue;
            };
            let partition = *partition;
            let look = move || async move { rows(&storage(), &own(), partition).await.len() };
            let found = on_shard(any_shard(&mut prng), look).await;
            assert!(*count as usize <= found, "{found} of {count} rows of {partition}");
            sleep(Duration::from_micros(prng.below(1_000))).await;
        }
    }

    /// Goes over all shards, from this one.
    async fn scan(&self, mut prng: Prng) {
        while !self.is_over() {
            let before = self.written.borrow().clone();
            match scan_all().await {
                Ok(seen) => {
                    for (partition, count) in before {
                        let found = seen.get(&key(partition)[..]).copied().unwrap_or(0);
                        assert!(count <= found, "a scan: {found} of {count} of {partition}");
                    }
                    self.scans.set(self.scans.get() + 1);
                }
                Err(ReadError::Moved) => self.begun_anew.set(self.begun_anew.get() + 1),
                Err(error) => panic!("{error}"),
            }
            sleep(Duration::from_micros(prng.below(3_000))).await;
        }
    }
}

/// The rows of each partition on all shards.
async fn scan_all() -> Result<BTreeMap<Vec<u8>, u32>, ReadError> {
    let bound = |token, after| RingBound { token, key: None, after };
    let bounds = (bound(Token::MIN, false), bound(Token::MAX, true));
    let how = MultishardOptions::EXACT;
    let mut source =
        storage().open_multishard(own().id, bounds, Slice::full(), SourceOptions::QUERY, how)?;
    let (mut seen, mut at, mut last) = (BTreeMap::new(), Vec::new(), None::<DecoratedKey>);
    loop {
        let mut batch = Vec::new();
        source.fill(Budget { fragments_max: 16, bytes_max: 4_000 }, &mut batch).await?;
        if batch.is_empty() {
            return Ok(seen);
        }
        for fragment in batch {
            match fragment {
                Fragment::PartitionStart { key, .. } => {
                    assert!(last.as_ref().is_none_or(|last| *last < key), "out of order");
                    at = key.key.to_vec();
                    last = Some(key);
                }
                Fragment::Row { .. } => *seen.entry(at.clone()).or_default() += 1,
                _ => {}
            }
        }
    }
}

/// One history: how many tablets went, how many scans there were, and how many were begun anew.
fn history(seed: u64, hasty: bool) -> [u64; 3] {
    let mut prng = Prng::from_seed(seed);
    let shards = prng.between(2, 3) as u16;
    let mut node = SimNode::new(seed, shards);
    let tablets = prng.between(1, 5) as usize;
    let draw = |prng: &mut Prng| -> Vec<u16> {
        (0..tablets).map(|_| prng.below(u64::from(shards)) as u16).collect()
    };
    let (first, second) = (map_of(&draw(&mut prng)), map_of(&draw(&mut prng)));
    let (counts, expected) = node.run(async move {
        open_by(first).await;
        if hasty {
            on_all_shards(|| async { storage().plant_hasty_hand_overs() }).await;
        }
        let history = Rc::new(History {
            written: Written::default(),
            ended: Slot::new(0),
            hand_overs: Slot::new(0),
            scans: Slot::new(0),
            begun_anew: Slot::new(0),
        });
        let mut work: Vec<std::pin::Pin<Box<dyn Future<Output = ()>>>> = Vec::new();
        for number in 0..WRITERS {
            let (history, prng) = (history.clone(), prng.fork());
            work.push(Box::pin(async move { history.write(prng, number).await }));
        }
        for _ in 0..DECIDERS {
            let (history, prng) = (history.clone(), prng.fork());
            work.push(Box::pin(async move { history.decide(prng).await }));
        }
        let (each, prngs) = (history.clone(), [prng.fork(), prng.fork(), prng.fork()]);
        let [go, read, scan] = prngs;
        let one = each.clone();
        work.push(Box::pin(async move { one.go(go).await }));
        let one = each.clone();
        work.push(Box::pin(async move { one.read(read).await }));
        work.push(Box::pin(async move { each.scan(scan).await }));
        join_all(work).await;
        let counts = [&history.hand_overs, &history.scans, &history.begun_anew].map(|it| it.get());
        let written = history.written.borrow().clone();
        check(&written, "at the end").await;
        (counts, written)
    });
    node.crash();
    node.run(async move {
        open_by(second).await;
        check(&expected, "after a crash").await;
    });
    counts
}

/// Just what was written is there, on whatever shard it is asked for.
async fn check(written: &BTreeMap<u64, u32>, when: &str) {
    for (partition, count) in written {
        let (partition, count) = (*partition, *count as usize);
        let found = rows(&storage(), &own(), partition).await.len();
        assert_eq!(found, count, "partition {partition}, {when}");
    }
}

#[test]
fn nothing_is_lost_while_tablets_go_from_shard_to_shard() {
    let mut sums = [0; 3];
    let seeds = runtime::sim::seeds(20);
    let rounds = seeds.end - seeds.start;
    for seed in seeds {
        println!("NEREID_SIM_SEED={seed}");
        let counts = history(seed, false);
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    println!("{sums:?}: gone, scans, begun anew");
    let [gone, scans, anew] = sums;
    assert!(rounds < 20 || rounds <= gone && rounds <= scans && 0 < anew, "{sums:?} in {rounds}");
}

#[test]
fn what_is_not_handed_over_is_missed() {
    let finds = |seed| std::panic::catch_unwind(|| history(seed, true)).is_err();
    assert!((1..20).any(finds), "rows that stay behind are not missed");
}
