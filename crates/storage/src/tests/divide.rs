//! Tables that are divided anew while they are open: what single divisions do, and readers and
//! writers that go on beside many of them. Among deletions, crashes, merges, clears and truncations
//! they are in `tests::reshard` and `tests::clear`.
//!
//! `NEREID_SIM_ROUNDS` sets the number of histories; a failure prints its seed, and
//! `NEREID_SIM_SEED` runs that one alone.

use super::against_model::read_all;
use super::*;
use crate::SourceOptions;
use crate::config::Planted;
use crate::shard::compact::merge_some;
use crate::table::{Table, Tablet};
use crate::testing::divided;
use model::{DecoratedKey, Token};
use mutation::{Fragment, RingBound};
use reader::multishard::{Demand, MultishardOptions, ReadAhead};
use reader::{Budget, Slice, Source};
use runtime::task::{join, join_all};
use runtime::time::sleep;
use runtime::{local, on_all_shards, on_shard};
use std::cell::{Cell as Slot, RefCell};
use std::collections::BTreeSet;
use stdx::Prng;
use testkit::{Fault, SimNode};

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

fn mine() -> Rc<Table> {
    storage().shard().table(own().id).unwrap()
}

async fn open_with(config: Config, map: TabletMap) {
    on_all_shards(move || {
        let (config, map) = (config.clone(), map.clone());
        async move {
            let storage = Storage::open(config).await.unwrap();
            storage.add_table(Rc::new(own()), map, Log::Data).await.unwrap();
        }
    })
    .await;
    storage().replay(Log::Data).await.unwrap();
}

/// Writes one row of each partition from the first to before the last.
async fn fill(from: u64, until: u64) {
    for partition in from..until {
        storage().apply(write(&own(), partition, 1, 1, &VALUE)).await.unwrap();
    }
}

async fn divide(map: TabletMap) {
    storage().divide(own().id, map).await.unwrap();
}

/// How many of the first partitions have their row.
async fn present(until: u64) -> usize {
    let mut count = 0;
    for partition in 0..until {
        count += rows(&storage(), &own(), partition).await.len();
    }
    count
}

/// Runs on one shard whose table has so many equal tablets.
fn on_one<F: Future<Output = ()> + 'static>(tablets: u32, test: impl FnOnce() -> F + 'static) {
    let mut node = SimNode::new(3, 1);
    node.run(async move {
        open_with(config(), TabletMap::tablets(tablets, 1)).await;
        test().await;
    });
}

fn sets(table: &Table) -> Vec<usize> {
    table.tablets().iter().map(|tablet| tablet.sstables.borrow().len()).collect()
}

#[test]
fn what_is_in_memory_is_in_both_halves_and_once_on_the_disk() {
    on_one(1, || async {
        fill(0, KEYS).await;
        let before = storage().table_stats(own().id).unwrap();
        divide(TabletMap::tablets(2, 1)).await;
        let table = mine();
        // No half writes its part yet.
        let tablets = table.tablets();
        let held = join_all(tablets.iter().map(|tablet| tablet.compacting.acquire(1))).await;
        let after = storage().table_stats(own().id).unwrap();
        assert_eq!(after.memtable_partitions, KEYS);
        assert_eq!(after.memtable_bytes, before.memtable_bytes);
        assert_eq!(storage().pending_flushes(own().id), 1);
        assert_eq!(present(KEYS).await, KEYS as usize);
        // What is written now comes to the halves.
        fill(KEYS, KEYS + 20).await;
        assert!(table.tablets().iter().all(|tablet| !tablet.active.borrow().is_empty()));
        storage().flush(own().id).await.unwrap();
        assert_eq!((sets(&table), table.sstables().len()), (vec![2, 2], 3));
        assert_eq!(table.sstables().iter().filter(|one| table.is_shared(one)).count(), 1);
        let scanned = read_all(&storage(), &all_of(0)).await.len();
        assert_eq!((present(KEYS + 20).await, scanned), (KEYS as usize + 20, KEYS as usize + 20));
        drop(held);
        storage().reshard(own().id).await.unwrap();
        assert!(table.sstables().iter().all(|one| !table.is_shared(one)));
        sleep(Duration::from_secs(1)).await;
        assert!(table.let_go.borrow().is_empty());
        let left = sstable::store::list(&table.dir).await.unwrap().tables.len();
        assert_eq!((left, table.sstables().len()), (4, 4));
        assert_eq!(present(KEYS + 20).await, KEYS as usize + 20);
    });
}

#[test]
fn halves_that_become_one_have_one_set_and_nothing_to_write() {
    on_one(2, || async {
        fill(0, KEYS).await;
        storage().flush(own().id).await.unwrap();
        fill(KEYS, 2 * KEYS).await;
        divide(TabletMap::single(0)).await;
        let table = mine();
        assert_eq!((sets(&table), table.tablets().len()), (vec![2], 1));
        assert_eq!(table.tablets()[0].sealed.borrow().len(), 2);
        assert_eq!(present(2 * KEYS).await, 2 * KEYS as usize);
        storage().flush(own().id).await.unwrap();
        assert_eq!(sets(&table), [4]);
        assert!(table.sstables().iter().all(|one| !table.is_shared(one)));
        assert_eq!(present(2 * KEYS).await, 2 * KEYS as usize);
    });
}

#[test]
fn tablets_with_the_same_range_stay_as_they_are() {
    on_one(4, || async {
        fill(0, KEYS).await;
        let before = mine().tablets();
        // The first becomes two.
        let lasts = mine().map().last_tokens().to_vec();
        let half = Token(lasts[0].0 - 1000);
        let new: Vec<Token> = [half].into_iter().chain(lasts).collect();
        divide(TabletMap::new(new, vec![0; 5])).await;
        let after = mine().tablets();
        assert!(before[0].is_gone() && before[0].memtables().count() == 0);
        for (old, new) in before[1..].iter().zip(&after[2..]) {
            assert!(Rc::ptr_eq(old, new) && !new.is_leaving());
        }
        let numbers: Vec<usize> = after.iter().map(|tablet| tablet.index.get()).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4]);
        // The same again does nothing.
        divide((*mine().map()).clone()).await;
        assert!(after.iter().zip(mine().tablets().iter()).all(|(a, b)| Rc::ptr_eq(a, b)));
        assert_eq!(present(KEYS).await, KEYS as usize);
    });
}

#[test]
fn what_cannot_be_divided_so_is_refused_and_stays() {
    let mut node = SimNode::new(5, 2);
    node.run(async {
        open_with(config(), TabletMap::tablets(4, 2)).await;
        let other = async |id: u128, map: TabletMap| {
            let divided = storage().divide(Uuid::from_u128(id), map).await;
            divided.map_err(|error| error.to_string()).unwrap_err()
        };
        let unknown = other(9, TabletMap::tablets(4, 2)).await;
        assert!(unknown.contains("no table"), "{unknown}");
        let ring = other(1, TabletMap::static_map(2)).await;
        assert!(ring.contains("ks.t1 is not divided anew") && ring.contains("tablets"), "{ring}");
        let double = TabletMap::new(vec![Token(0), Token(0), Token::MAX], vec![0, 0, 0]);
        let double = other(1, double).await;
        assert!(double.contains("its tablets are to end at"), "{double}");
        let moved = other(1, TabletMap::tablets(2, 2)).await;
        assert!(moved.contains("of shard 1 is of 0"), "{moved}");
        assert_eq!(*storage().tablet_map(own().id).unwrap(), TabletMap::tablets(4, 2));
        assert!(mine().tablets().iter().all(|tablet| !tablet.is_leaving()));
        let ring = Rc::new(schema(2, "t2"));
        storage().add_table(ring, TabletMap::static_map(2), Log::Data).await.unwrap();
        let refused = other(2, TabletMap::tablets(4, 2)).await;
        assert!(refused.contains("ks.t2 is not divided anew"), "{refused}");
    });
}

#[test]
fn bytes_of_tablets_add_up() {
    on_one(1, || async {
        let loads = || storage().tablet_loads(own().id);
        let bytes = || loads().iter().map(|it| (it.tablet, it.bytes)).collect::<Vec<_>>();
        assert_eq!(bytes(), [(0, 0)]);
        fill(0, KEYS).await;
        let in_memory = bytes()[0].1;
        assert!(KEYS * 300 < in_memory, "{in_memory}");
        divide(TabletMap::tablets(4, 1)).await;
        let split: Vec<u64> = bytes().iter().map(|(_, bytes)| *bytes).collect();
        let sum = split.iter().sum::<u64>();
        assert!(split.len() == 4 && sum <= in_memory && in_memory <= sum + 4, "{split:?}");
        storage().flush(own().id).await.unwrap();
        let whole = storage().table_stats(own().id).unwrap().sstable_bytes;
        let split: Vec<u64> = bytes().iter().map(|(_, bytes)| *bytes).collect();
        let sum = split.iter().sum::<u64>();
        // Estimated by tokens, of one SSTable in all of them.
        assert!(sum <= whole && whole <= sum + 4, "{split:?} of {whole}");
        assert!(split.iter().all(|bytes| whole / 8 < *bytes), "{split:?} of {whole}");
        storage().reshard(own().id).await.unwrap();
        let whole = storage().table_stats(own().id).unwrap().sstable_bytes;
        assert_eq!(bytes().iter().map(|(_, bytes)| bytes).sum::<u64>(), whole);
        assert_eq!(storage().tablet_loads(Uuid::from_u128(9)), []);
    });
}

#[test]
fn what_was_looked_up_is_not_counted_down() {
    on_one(1, || async {
        fill(0, KEYS).await;
        storage().flush(own().id).await.unwrap();
        present(KEYS).await;
        let lookups = || storage().table_stats(own().id).unwrap().cache_lookups;
        let before = lookups();
        assert!(0 < before.hits + before.misses);
        divide(TabletMap::tablets(3, 1)).await;
        assert_eq!(lookups(), before);
    });
}

#[test]
fn a_merge_that_was_asked_for_is_done_to_what_takes_the_place_of_a_tablet() {
    on_one(1, || async {
        for _ in 0..4 {
            fill(0, KEYS).await;
            storage().flush(own().id).await.unwrap();
        }
        // It is not at its end when the tablet is about to leave.
        let pace = crate::Pace { bytes_per_second: 16 << 10, ..crate::Pace::default() };
        storage().set_compaction_pace(pace);
        let merged = Slot::new(false);
        let merge = async {
            storage().compact_all(own().id, Default::default()).await.unwrap();
            merged.set(true);
        };
        let division = async {
            sleep(Duration::from_millis(1)).await;
            let old = mine().tablets()[0].clone();
            assert!(old.is_busy() && !merged.get());
            divide(TabletMap::tablets(2, 1)).await;
            assert!(old.is_gone() && !merged.get());
        };
        join(merge, division).await;
        let table = mine();
        assert_eq!(sets(&table), [1, 1]);
        assert!(table.sstables().iter().all(|one| !table.is_shared(one)));
        assert_eq!(present(KEYS).await, KEYS as usize);
    });
}

#[test]
fn a_table_that_is_truncated_or_dropped_when_tablets_share_memtables_has_nothing() {
    on_one(1, || async {
        fill(0, KEYS).await;
        divide(TabletMap::tablets(2, 1)).await;
        storage().truncate(own().id, 1).await.unwrap();
        assert_eq!((present(KEYS).await, storage().pending_flushes(own().id)), (0, 0));
        fill(0, KEYS).await;
        divide(TabletMap::tablets(4, 1)).await;
        storage().drop_table(own().id, None).await.unwrap();
        assert_eq!(storage().dirty_bytes(), 0);
        assert!(storage().divide(own().id, TabletMap::tablets(2, 1)).await.is_err());
    });
}

#[test]
fn what_several_tablets_have_in_memory_is_cleared_from_each() {
    let mut node = SimNode::new(6, 1);
    let halves = TabletMap::tablets(2, 1);
    let (first, middle) = (halves.range(0), halves.range(0).1);
    let right = (0..KEYS).filter(|number| middle < Token::of(&key(*number))).count();
    assert!(0 < right && right < KEYS as usize);
    node.run(async move {
        open_with(config(), TabletMap::single(0)).await;
        fill(0, KEYS).await;
        divide(halves).await;
        assert_eq!(storage().pending_flushes(own().id), 1);
        storage().clear(own().id, vec![first]).await.unwrap();
        assert_eq!(present(KEYS).await, right);
    });
    node.crash();
    node.run(async move {
        open_with(config(), TabletMap::single(0)).await;
        assert_eq!(present(KEYS).await, right);
    });
}

#[test]
fn a_flush_that_fails_is_done_again_for_both_halves() {
    let mut node = SimNode::new(4, 1);
    node.run(async {
        open_with(config(), TabletMap::single(0)).await;
        fill(0, KEYS).await;
        divide(TabletMap::tablets(2, 1)).await;
    });
    node.suffer(Fault::DiskErrors(1));
    node.run(async {
        assert!(storage().flush(own().id).await.is_err());
        divide(TabletMap::tablets(4, 1)).await;
        assert_eq!(present(KEYS).await, KEYS as usize);
    });
    node.suffer(Fault::DiskErrors(0));
    node.run(async {
        storage().flush(own().id).await.unwrap();
        assert_eq!(storage().pending_flushes(own().id), 0);
        assert_eq!(present(KEYS).await, KEYS as usize);
    });
    node.crash();
    node.run(async {
        open_with(config(), TabletMap::tablets(2, 1)).await;
        assert_eq!(present(KEYS).await, KEYS as usize);
    });
}

async fn until(condition: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if condition() {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("it does not come to that");
}

/// Whether a row is back that was deleted, and whose deletion a tablet could forget after it had
/// written its part of an SSTable that another one still has, which it becomes one with.
fn comes_back(planted: Option<Planted>) -> bool {
    let mut node = SimNode::new(13, 1);
    node.run(async move {
        open_with(Config { planted, ..config() }, TabletMap::single(0)).await;
        fill(0, KEYS).await;
        storage().flush(own().id).await.unwrap();
        let (table, thirds) = (mine(), TabletMap::tablets(3, 1));
        divide(thirds.clone()).await;
        let tablets = table.tablets();
        let held = tablets[1].compacting.acquire(1).await.unwrap();
        let has_own = |at: usize| {
            let set = tablets[at].sstables.borrow();
            set.iter().all(|one| tablets[at].holds_all_of(one))
        };
        until(|| has_own(0) && has_own(2)).await;
        assert!(!has_own(1) && table.let_go.borrow().len() == 1);
        let is_of_first = |number: &u64| thirds.tablet_of(Token::of(&key(*number))) == 0;
        let number = (0..KEYS).find(is_of_first).unwrap();
        storage().apply(super::carry::delete(&own(), number, 1, 2)).await.unwrap();
        storage().flush(own().id).await.unwrap();
        storage().close_log_segments();
        sleep(Duration::from_secs(10)).await;
        let mut lasts = thirds.last_tokens().to_vec();
        lasts.insert(2, Token(i64::MAX - (1 << 40)));
        divide(TabletMap::new(lasts, vec![0; 4])).await;
        let all = |count: usize| (0..count).collect();
        merge_some(storage().shard(), (&table, &tablets[0]), all, u64::MAX).await.unwrap();
        assert_eq!(rows(&storage(), &own(), number).await.len(), 0);
        drop(held);
        divide(TabletMap::single(0)).await;
        assert!(table.let_go.borrow().is_empty() && table.knows_all_sstables());
        !rows(&storage(), &own(), number).await.is_empty()
    })
}

#[test]
fn what_was_let_go_of_is_known_after_a_division() {
    assert!(!comes_back(None));
    assert!(comes_back(Some(Planted::DividesForgetful)));
}

/// All rows of all partitions, in pages of so many bytes; 0: in one page.
fn all_of(page_bytes: u64) -> ReadCommand {
    let bound = |token, after| RingBound { token, key: None, after };
    let (start, end) = (bound(Token::MIN, false), bound(Token::MAX, true));
    let all = command(&own(), Partitions::Range { start, end });
    match page_bytes {
        0 => all,
        bytes => ReadCommand { bytes_max: bytes as usize, ..all },
    }
}

/// Rows that were written, by partition: how many.
type Written = Rc<RefCell<BTreeMap<u64, u32>>>;

/// What one history came to.
#[derive(Debug, Default)]
struct Counts {
    divisions: u64,
    scans: u64,
    waited: u64,
}

struct History {
    written: Written,
    ended: Slot<u32>,
    counts: RefCell<Counts>,
}

const WRITERS: u32 = 6;

impl History {
    /// Adds rows to partitions, each row once.
    async fn write(&self, mut prng: Prng, number: u32) {
        for _ in 0..prng.between(20, 80) {
            let partition = prng.below(KEYS / 2) * WRITERS as u64 + number as u64;
            let row = self.written.borrow().get(&partition).copied().unwrap_or(0);
            let value = vec![row as u8; prng.below(4_000) as usize];
            let shard = owner(partition);
            let put = move || async move {
                let one = write(&own(), partition, row, 1, &value);
                storage().apply(one).await.unwrap();
            };
            on_shard(shard, put).await;
            self.written.borrow_mut().insert(partition, row + 1);
            if prng.one_in(4) {
                sleep(Duration::from_micros(prng.below(3_000))).await;
            }
        }
        self.ended.set(self.ended.get() + 1);
    }

    fn is_over(&self) -> bool {
        self.ended.get() == WRITERS
    }

    /// Divides again and again, on the shards one after the other, beside flushes and merges.
    async fn divide(&self, mut prng: Prng) {
        while !self.is_over() {
            let now = storage().tablet_map(own().id).unwrap();
            let map = divided(&now, &mut prng);
            for shard in 0..runtime::shard_count() {
                let map = map.clone();
                on_shard(shard, move || divide(map)).await;
                self.counts.borrow_mut().divisions += 1;
                if prng.one_in(3) {
                    sleep(Duration::from_micros(prng.below(2_000))).await;
                }
            }
            let (flushes, merges) = (prng.one_in(3), prng.one_in(6));
            let work = move || async move {
                if flushes {
                    storage().flush(own().id).await.unwrap();
                }
                if merges {
                    storage().compact_all(own().id, Default::default()).await.unwrap();
                }
            };
            let shard = prng.below(runtime::shard_count() as u64) as u16;
            on_shard(shard, work).await;
            sleep(Duration::from_micros(prng.below(20_000))).await;
        }
    }

    /// What was written before is seen, each row once, in the order of the ring.
    fn check(&self, before: &BTreeMap<u64, u32>, seen: &[(Vec<u8>, u32)], how: &str) {
        let once: BTreeSet<_> = seen.iter().collect();
        assert_eq!(once.len(), seen.len(), "{how}: a row is there twice");
        let tokens = seen.iter().map(|(key, row)| (Token::of(key), *row));
        assert!(tokens.is_sorted(), "{how}: out of order");
        for (partition, rows) in before {
            for row in 0..*rows {
                let place = (key(*partition).to_vec(), row);
                assert!(once.contains(&place), "{how}: row {row} of {partition} is not there");
            }
        }
        self.counts.borrow_mut().scans += 1;
    }

    /// Scans of one shard page by page.
    async fn scan(&self, mut prng: Prng) {
        while !self.is_over() {
            let before = self.written.borrow().clone();
            let shard = prng.below(runtime::shard_count() as u64) as u16;
            let (bytes, pause) = (prng.between(500, 20_000), prng.below(2_000));
            let pages = move || async move {
                let (mut command, mut seen) = (all_of(bytes), Vec::new());
                loop {
                    let page = storage().read(&command).await.unwrap();
                    let view = PageView::parse(&page.bytes, command.layout()).unwrap();
                    for partition in view.partitions() {
                        for row in partition.rows() {
                            let number = row.clustering()[2..6].try_into().unwrap();
                            seen.push((partition.key().to_vec(), u32::from_be_bytes(number)));
                        }
                    }
                    let Some(resume) = page.resume else { return seen };
                    command.resume = Some(resume);
                    sleep(Duration::from_micros(pause)).await;
                }
            };
            let seen = on_shard(shard, pages).await;
            let own: BTreeMap<_, _> =
                before.into_iter().filter(|(partition, _)| owner(*partition) == shard).collect();
            self.check(&own, &seen, "pages");
            sleep(Duration::from_micros(prng.below(4_000))).await;
        }
    }

    /// Streams of all shards, which rest and go on.
    async fn stream(&self, mut prng: Prng) {
        while !self.is_over() {
            let before = self.written.borrow().clone();
            let bound = |token, after| RingBound { token, key: None, after };
            let bounds = (bound(Token::MIN, false), bound(Token::MAX, true));
            let how = MultishardOptions {
                demand: match prng.one_in(2) {
                    true => Demand::Hint,
                    false => Demand::Buffer(prng.between(300, 20_000) as usize),
                },
                read_ahead: ReadAhead::Off,
            };
            let options = SourceOptions { bypass_cache: prng.one_in(2), ..SourceOptions::QUERY };
            let mut source =
                storage().open_multishard(own().id, bounds, Slice::full(), options, how).unwrap();
            let (mut seen, mut at) = (Vec::new(), None::<DecoratedKey>);
            loop {
                let mut batch = Vec::new();
                let budget = Budget { fragments_max: 7, ..Budget::BATCH };
                source.fill(budget, &mut batch).await.unwrap();
                if batch.is_empty() {
                    break;
                }
                for fragment in batch {
                    match fragment {
                        Fragment::PartitionStart { key, .. } => at = Some(key),
                        Fragment::Row { key, .. } => {
                            let number = key[2..6].try_into().map(u32::from_be_bytes).unwrap();
                            seen.push((at.as_ref().unwrap().key.to_vec(), number));
                        }
                        _ => {}
                    }
                }
                if prng.one_in(3) {
                    sleep(Duration::from_micros(prng.below(3_000))).await;
                }
            }
            self.check(&before, &seen, "a stream");
            sleep(Duration::from_micros(prng.below(4_000))).await;
        }
    }
}

fn owner(partition: u64) -> u16 {
    let map = storage().tablet_map(own().id).unwrap();
    map.shard_of(Token::of(&key(partition)))
}

fn history(seed: u64, sum: &mut Counts) {
    let mut prng = Prng::from_seed(seed);
    let shards = 1 + prng.below(3) as u16;
    let map = TabletMap::tablets(1 + prng.below(9) as u32, shards);
    let mut node = SimNode::new(seed, shards);
    let config = config();
    let (first, again) = (config.clone(), config);
    let start = map.clone();
    node.run(open_with(first, start));
    let fork = prng.fork();
    let written: Written = Rc::default();
    let of_run = written.clone();
    let counts = node.run(async move {
        let mut prng = fork;
        let history = History { written: of_run, ended: Slot::new(0), counts: RefCell::default() };
        let writers = (0..WRITERS).map(|number| history.write(prng.fork(), number));
        let writers: Vec<_> = writers.collect();
        let (divides, scans, streams) =
            (history.divide(prng.fork()), history.scan(prng.fork()), history.stream(prng.fork()));
        join(join(join_all(writers), divides), join(scans, streams)).await;
        let blocked = on_all_shards(|| async { storage().dirty_stats()[0].blocked_total }).await;
        history.counts.borrow_mut().waited = blocked.iter().sum();
        history.counts.into_inner()
    });
    sum.divisions += counts.divisions;
    sum.scans += counts.scans;
    sum.waited += counts.waited;
    // Whatever the next start is told, with as many shards or not.
    node.crash();
    let shards = 1 + prng.below(3) as u16;
    node.set_shards(shards);
    let map = divided(&TabletMap::tablets(1 + prng.below(9) as u32, shards), &mut prng);
    let all = written.borrow().clone();
    node.run(async move {
        open_with(again, map).await;
        for (partition, rows_written) in all {
            let look = move || async move { rows(&storage(), &own(), partition).await.len() };
            let found = on_shard(owner(partition), look).await;
            assert_eq!(found, rows_written as usize, "partition {partition} after a crash");
        }
    });
}

#[test]
fn reads_and_writes_go_on_beside_divisions() {
    let seeds = runtime::sim::seeds(30);
    let (count, mut sum) = (seeds.end - seeds.start, Counts::default());
    for seed in seeds {
        println!("NEREID_SIM_SEED={seed}");
        history(seed, &mut sum);
    }
    println!("{sum:?}");
    if 30 <= count {
        assert!(300 < sum.divisions && 100 < sum.scans && 50 < sum.waited, "{sum:?}");
    }
}

#[test]
fn a_write_that_waits_comes_to_the_tablet_that_there_is_then() {
    on_one(1, || async {
        let (storage, table) = (storage(), mine());
        let old: Rc<Tablet> = table.tablets()[0].clone();
        // No flush ends.
        let gate = crate::table::pass_gate(&table, crate::table::GATE_UNITS - 1).await;
        let held = storage.shard().flush_queues[0].writing.acquire(1).await.unwrap();
        let waits = async {
            for partition in 0..KEYS {
                storage.apply(write(&own(), partition, 1, 1, &[7; 20_000])).await.unwrap();
            }
        };
        let division = async {
            sleep(Duration::from_secs(1)).await;
            assert!(0 < storage.dirty_stats()[0].blocked_total, "nobody waits");
            divide(TabletMap::tablets(8, 1)).await;
            drop((gate, held));
        };
        join(waits, division).await;
        assert!(old.is_gone() && old.active.borrow().is_empty());
        assert_eq!(present(KEYS).await, KEYS as usize);
    });
}
