//! A data directory that is opened with one number of shards after the other, in whatever
//! schedule of writes, deletions, flushes, merges, truncations, divisions of its tablets, crashes
//! and steps of the clock: it holds what a naive model holds, before and after. In the end no
//! SSTable lies in several tablets, and none is in the directory that no shard has.
//!
//! `NEREID_SIM_ROUNDS` sets the number of schedules; a failure prints its seed, and
//! `NEREID_SIM_SEED` runs that one alone.

use super::purge::{Clock, Model, Op, Rules, State, observe};
use super::*;
use crate::compaction::report::CompactionKind;
use crate::config::Planted;
use crate::shard::compact::merge_some;
use crate::table::GATE_UNITS;
use crate::table::pass_gate;
use crate::testing::divided;
use crate::{Invalid, Outdated, ScrubMode, Upkeep};
use model::Token;
use mutation::RingBound;
use runtime::time::{sleep, timeout, wall_micros};
use runtime::{local, on_all_shards, on_shard};
use sstable::store::{self, State as FileState};
use std::cell::{Cell as Slot, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use stdx::Prng;
use testkit::SimNode;

const PARTITIONS: u64 = 8;
const SHARDS: [u16; 4] = [1, 2, 3, 8];
const LIVES: u64 = 5;
/// A second after everything has expired that will.
const FAR: i64 = 1 << 31;
const PAUSE: Duration = Duration::from_micros(100);

/// What one life of the node hands to the next.
#[derive(Default)]
struct Handed {
    /// A truncation was under way: it is asked for again.
    truncating: Slot<bool>,
    /// What all rows were when the node stopped in order.
    digest: Slot<Option<u64>>,
    compared: Slot<u64>,
    /// SSTables that lay in several tablets when a life began.
    shared: Slot<u64>,
    /// Divisions of shards, and those of them that nobody waited for the end of.
    divided: Slot<u64>,
    left: Slot<u64>,
    wrong: RefCell<Vec<String>>,
}

/// One life of the node.
struct Life {
    rules: Rules,
    config: Config,
    shards: u16,
    map: TabletMap,
    model: Rc<RefCell<Model>>,
    handed: Rc<Handed>,
    opened: Slot<u16>,
    /// Whether it is to end in order, and whether it has.
    stops: Slot<bool>,
    ended: Slot<bool>,
    is_last: bool,
}

fn storage() -> Rc<Storage> {
    local::get::<Storage>()
}

fn mine() -> Rc<crate::table::Table> {
    storage().shard().table(Uuid::from_u128(1)).unwrap()
}

/// What a full scan of this shard yields: key, clustering, timestamp of the value.
async fn scan(rules: Rules, now: i64) -> Vec<(Vec<u8>, Vec<u8>, Option<i64>)> {
    let schema = rules.schema();
    let bound = |token, after| RingBound { token, key: None, after };
    let (start, end) = (bound(Token::MIN, false), bound(Token::MAX, true));
    let command = ReadCommand { now, ..command(&schema, Partitions::Range { start, end }) };
    let page = storage().read(&command).await.unwrap();
    assert_eq!(page.resume, None);
    let view = PageView::parse(&page.bytes, command.layout()).unwrap();
    let mut out = Vec::new();
    for partition in view.partitions() {
        for row in partition.rows() {
            let column = row.columns().next().unwrap();
            let at = column.value.and(column.times).map(|times| times.timestamp);
            out.push((partition.key().to_vec(), row.clustering().to_vec(), at));
        }
    }
    out
}

/// Of everything on all shards, as it is when all has expired that will.
async fn digest(rules: &Rules) -> u64 {
    let rules = rules.clone();
    let all = on_all_shards(move || async move { scan(rules, FAR).await }).await;
    let rows: Vec<_> = all.into_iter().flatten().collect();
    let sorted: BTreeSet<_> = rows.iter().collect();
    assert_eq!(sorted.len(), rows.len(), "a row of two shards");
    let mut hasher = DefaultHasher::new();
    sorted.hash(&mut hasher);
    hasher.finish()
}

/// SSTables of several tablets on this shard, with those that it has let go of.
fn shared_here() -> usize {
    let table = mine();
    let all = table.sstables();
    all.iter().filter(|one| table.is_shared(one)).count() + table.let_go.borrow().len()
}

impl Life {
    async fn run(self: Rc<Life>, shard: u16, mut prng: Prng) {
        let opened = Storage::open(self.config.clone()).await.unwrap();
        for schema in [self.rules.schema(), schema(2, "t2")] {
            let map = self.map.clone();
            opened.add_table(Rc::new(schema), map, Log::Data).await.unwrap();
        }
        self.opened.set(self.opened.get() + 1);
        if shard != 0 {
            return std::future::pending().await;
        }
        while self.opened.get() < self.shards {
            sleep(PAUSE).await;
        }
        let shared = on_all_shards(|| async { shared_here() as u64 }).await;
        self.handed.shared.set(self.handed.shared.get() + shared.iter().sum::<u64>());
        opened.replay(Log::Data).await.unwrap();
        self.check().await;
        self.model.borrow_mut().starts += 1;
        if self.is_last {
            self.settle().await;
            self.check().await;
            return self.ended.set(true);
        }
        while !self.stops.get() {
            self.act(&mut prng).await;
        }
        self.handed.digest.set(Some(digest(&self.rules).await));
        on_all_shards(|| async { storage().stop().await.unwrap() }).await;
        self.ended.set(true);
        std::future::pending().await
    }

    /// After a start: what has to be there is, and is the same as before.
    async fn check(&self) {
        if self.handed.truncating.get() {
            self.truncate().await;
        }
        for partition in 0..PARTITIONS {
            self.look(partition).await;
        }
        if let Some(before) = self.handed.digest.take() {
            self.handed.compared.set(self.handed.compared.get() + 1);
            if before != digest(&self.rules).await {
                self.handed.wrong.borrow_mut().push("another digest".to_string());
            }
        }
    }

    async fn act(&self, prng: &mut Prng) {
        let shard = prng.below(self.shards as u64) as u16;
        let draw = prng.next_u64();
        match prng.below(100) {
            0..46 => self.write(prng).await,
            46..52 => self.write_other(prng.below(9)).await,
            52..56 => self.look(prng.below(PARTITIONS)).await,
            56..70 => self.flush(1, prng.one_in(2)).await,
            70..72 => self.flush(2, false).await,
            72..82 => on_shard(shard, move || merge(draw)).await,
            82..85 => on_shard(shard, compact).await,
            85..87 => on_shard(shard, move || keep_up(draw)).await,
            87..90 => {
                let now = wall_micros().div_euclid(1_000_000);
                let all = (Token::MIN, Token::MAX);
                let set = move || async move { storage().note_repair(mine().id, all, now) };
                drop(on_all_shards(set).await);
            }
            90..93 => on_shard(shard, move || hold(draw)).await,
            93 => self.truncate().await,
            94..98 => self.divide(prng).await,
            _ => sleep(Duration::from_micros(prng.below(10_000))).await,
        }
    }

    async fn write(&self, prng: &mut Prng) {
        let op = Op::random(prng, &self.rules, &self.model);
        self.model.borrow_mut().under_way = Some(op.clone());
        let shard = self.map.shard_of(Token::of(&key(op.partition)));
        let (made, rules) = (op.clone(), self.rules.clone());
        let write = move || async move {
            storage().apply(made.mutation(&rules.schema())).await.unwrap();
        };
        on_shard(shard, write).await;
        let model = &mut *self.model.borrow_mut();
        model.states.iter_mut().for_each(|state| state.apply(&op));
        model.under_way = None;
    }

    /// To the table that keeps segments of the log.
    async fn write_other(&self, partition: u64) {
        let shard = self.map.shard_of(Token::of(&key(partition)));
        let write = move || async move {
            let new = write(&schema(2, "t2"), partition, 1, wall_micros(), b"other");
            storage().apply(new).await.unwrap();
        };
        on_shard(shard, write).await;
    }

    async fn look(&self, partition: u64) {
        let now = self.model.borrow().now();
        let shard = self.map.shard_of(Token::of(&key(partition)));
        let rules = self.rules.clone();
        let look =
            move || async move { observe(&storage(), &rules.schema(), partition, now).await };
        let found: BTreeMap<u32, Option<i64>> = on_shard(shard, look).await;
        self.model.borrow_mut().check(partition, &found, now);
    }

    async fn flush(&self, id: u128, closes: bool) {
        let flush = move || async move {
            if closes {
                storage().close_log_segments();
            }
            storage().flush(Uuid::from_u128(id)).await.unwrap();
        };
        on_all_shards(flush).await;
    }

    async fn truncate(&self) {
        self.handed.truncating.set(true);
        on_all_shards(|| async { storage().truncate(mine().id, 1).await.unwrap() }).await;
        self.model.borrow_mut().states = vec![State::new()];
        self.handed.truncating.set(false);
    }

    /// Divides tablets anew, on some shards or on all.
    async fn divide(&self, prng: &mut Prng) {
        if self.map.sharder().is_some() {
            return;
        }
        let now = storage().tablet_map(mine().id).unwrap();
        let (map, span) = (divided(&now, prng), Duration::from_micros(prng.below(2_000)));
        let (alone, patient) = (prng.below(2 * self.shards as u64) as u16, prng.one_in(2));
        let divide = move || {
            let map = map.clone();
            async move {
                if alone < runtime::shard_count() && alone != runtime::shard_id() {
                    return (0, 0);
                }
                let storage = storage();
                let divided = storage.divide(mine().id, map);
                if patient {
                    divided.await.unwrap();
                    return (1, 0);
                }
                match timeout(span, divided).await {
                    Ok(divided) => divided.map(|()| (1, 0)).unwrap(),
                    Err(_) => (0, 1),
                }
            }
        };
        for (divided, left) in on_all_shards(divide).await {
            self.handed.divided.set(self.handed.divided.get() + divided);
            self.handed.left.set(self.handed.left.get() + left);
        }
    }

    /// Waits until each SSTable is of one tablet; then the directory has those of the shards, and
    /// no others.
    async fn settle(&self) {
        for _ in 0..10_000 {
            let left = on_all_shards(|| async { shared_here() }).await;
            if left.iter().sum::<usize>() == 0 {
                break;
            }
            sleep(Duration::from_millis(10)).await;
        }
        let held = on_all_shards(|| async {
            // Nothing is written or removed any more.
            let table = mine();
            std::mem::forget(pass_gate(&table, GATE_UNITS).await.unwrap());
            let all = table.sstables();
            assert!(all.iter().all(|one| !table.is_shared(one)));
            assert!(table.let_go.borrow().is_empty() && table.unremoved.borrow().is_empty());
            all.iter().map(|one| one.descriptor()).collect::<Vec<_>>()
        });
        let held: Vec<_> = held.await.into_iter().flatten().collect();
        let once: BTreeSet<_> = held.iter().copied().collect();
        assert_eq!(once.len(), held.len(), "an SSTable of two shards");
        let found = store::list(&mine().dir).await.unwrap().tables;
        let whole = found.iter().filter(|found| found.state == FileState::Complete);
        let there: BTreeSet<_> = whole.map(|found| found.descriptor).collect();
        assert_eq!(there, once, "what is in the directory and what shards have");
    }
}

/// Merges some SSTables of some tablet of this shard, whichever, into one or into many.
async fn merge(draw: u64) {
    let (mut prng, table) = (Prng::from_seed(draw), mine());
    let tablets = table.tablets();
    let Some(tablet) = prng.pick(&tablets) else { return };
    let bytes_max = if prng.one_in(3) { 1 } else { u64::MAX };
    let most = prng.one_in(2);
    let pick = |count: usize| (0..count).filter(|_| prng.one_in(3) != most).collect();
    merge_some(storage().shard(), (&table, tablet), pick, bytes_max).await.unwrap();
}

async fn compact() {
    storage().compact_all(mine().id, Default::default()).await.unwrap();
}

async fn keep_up(draw: u64) {
    let what = match draw % 3 {
        0 => Upkeep::Scrub(ScrubMode::Skip),
        1 => Upkeep::Upgrade(Outdated::All),
        _ => Upkeep::Validate(Invalid::PutAside),
    };
    let done = storage().keep_up(mine().id, what).await.unwrap();
    assert_eq!((done.invalid, done.aborted), (Vec::new(), None));
}

/// Keeps the merges of this shard from beginning for a while, without waiting for that.
async fn hold(draw: u64) {
    for tablet in mine().tablets().iter() {
        let tablet = tablet.clone();
        let hold = async move {
            let held = tablet.compacting.acquire(1).await;
            sleep(Duration::from_micros(draw % 60_000)).await;
            drop(held);
            storage().shard().compaction_wake.notify_one();
        };
        drop(storage().scope().spawn(hold));
    }
}

/// What a schedule came to.
#[derive(Default)]
struct Outcome {
    wrong: Vec<String>,
    compared: u64,
    shared: u64,
    divided: u64,
    left: u64,
}

/// A node that lives through a schedule, each time with as many shards as it happens.
fn simulate(seed: u64, planted: Option<Planted>) -> Outcome {
    let mut prng = Prng::from_seed(seed);
    let mut node = SimNode::new(seed, 1);
    let rules = Rules::random(&mut prng, PARTITIONS);
    let (model, handed): (Rc<RefCell<Model>>, Rc<Handed>) = Default::default();
    model.borrow_mut().states.push(State::new());
    let (mut clock, back) = (Clock::default(), rules.back);
    for life in 0..=LIVES {
        let shards = *prng.pick(&SHARDS).unwrap();
        let map = match prng.one_in(2) {
            true => TabletMap::tablets(6, shards),
            false => TabletMap::static_map(shards),
        };
        let life = Rc::new(Life {
            rules: rules.clone(),
            config: Config { planted, ..config() },
            shards,
            map,
            model: model.clone(),
            handed: handed.clone(),
            opened: Slot::new(0),
            stops: Slot::new(false),
            ended: Slot::new(false),
            is_last: life == LIVES,
        });
        node.set_shards(shards);
        let (main, fork, starts) = (life.clone(), prng.fork(), model.borrow().starts);
        node.start(move |shard| main.clone().run(shard, fork.clone()));
        if prng.one_in(8) && !life.is_last {
            // Again before it is up.
            node.run_for(Duration::from_micros(prng.below(20_000)));
        } else {
            let patience = Duration::from_secs(600);
            let is_up = || starts < model.borrow().starts;
            assert!(node.run_until(is_up, patience), "seed {seed}: no start");
            if life.is_last {
                assert!(node.run_until(|| life.ended.get(), patience), "seed {seed}: no quiet");
            }
            for _ in 0..1 + prng.below(4) {
                node.run_for(Duration::from_micros(prng.below(60_000)));
                clock.step(&mut node, &mut prng, back, &model.borrow());
            }
            if prng.one_in(2) && !life.is_last {
                life.stops.set(true);
                let ended = || life.ended.get();
                assert!(node.run_until(ended, patience), "seed {seed}: no end");
            }
        }
        node.crash();
        let mut model = model.borrow_mut();
        model.crash();
        if !model.violations.is_empty() || !handed.wrong.borrow().is_empty() {
            break;
        }
    }
    drop(node);
    let mut wrong = model.borrow().violations.clone();
    wrong.extend(handed.wrong.take());
    Outcome {
        wrong,
        compared: handed.compared.get(),
        shared: handed.shared.get(),
        divided: handed.divided.get(),
        left: handed.left.get(),
    }
}

#[test]
fn other_shard_counts_have_the_same_content() {
    let seeds = runtime::sim::seeds(40);
    let (mut compared, mut shared, count) = (0, 0, seeds.end - seeds.start);
    let (mut divided, mut left) = (0, 0);
    for seed in seeds {
        let seen = simulate(seed, None);
        assert!(seen.wrong.is_empty(), "NEREID_SIM_SEED={seed}: {:#?}", seen.wrong);
        compared += seen.compared;
        shared += seen.shared;
        divided += seen.divided;
        left += seen.left;
    }
    eprintln!("{count} schedules, {compared} digests compared, {shared} SSTables lay in several");
    eprintln!("{divided} divisions, and {left} that nobody waited for");
    assert!(count <= divided + 5, "{divided} of {count}");
    assert!(count <= compared + 5 && count <= shared + 5, "{compared} {shared} of {count}");
}

/// Seeds that a mistake may take to be caught.
const SEEDS: u64 = 1000;

fn is_caught(planted: Planted) {
    is_caught_from(0, planted);
}

/// Mistakes that few schedules catch are looked for from a seed near one that does.
fn is_caught_from(first: u64, planted: Planted) {
    let caught =
        (first..first + SEEDS).find(|seed| !simulate(*seed, Some(planted)).wrong.is_empty());
    assert!(caught.is_some(), "{planted:?}");
    eprintln!("{planted:?} is caught by seed {caught:?}");
}

#[test]
fn deletions_that_go_before_what_was_let_go_of_are_caught() {
    is_caught_from(330, Planted::ForgetsSharers);
}

#[test]
fn what_is_removed_when_the_first_lets_go_is_caught() {
    is_caught(Planted::RemovesShared);
}

#[test]
fn memtables_that_a_division_leaves_behind_are_caught() {
    is_caught(Planted::DividesNoMemtables);
}

/// Rows of 30 partitions in one SSTable, written by one shard; then the node has two.
fn shared_by_two(seed: u64) -> SimNode {
    let mut node = SimNode::new(seed, 1);
    node.run(async {
        open_plain().await;
        storage().replay(Log::Data).await.unwrap();
        for partition in 0..30 {
            storage().apply(write(&plain(), partition, 1, 1, &VALUE)).await.unwrap();
        }
        storage().flush(mine().id).await.unwrap();
        storage().stop().await.unwrap();
    });
    node.crash();
    node.set_shards(2);
    node
}

/// So large that checksums are of a few partitions each.
static VALUE: [u8; 20_000] = [0x5a; 20_000];

/// A table that is not compressed.
fn plain() -> TableSchema {
    let mut schema = schema(1, "t1");
    schema.options.compression = vec![("sstable_compression".to_string(), String::new())];
    schema.options.compaction = vec![("enabled".to_string(), "false".to_string())];
    schema
}

async fn open_plain() {
    open_mapped(TabletMap::static_map(runtime::shard_count())).await;
}

async fn open_mapped(map: TabletMap) {
    let (memtable_bytes_max, commitlog_bytes_max) = (8 << 20, 4 << 20);
    let config = Config { memtable_bytes_max, commitlog_bytes_max, ..config() };
    let storage = Storage::open(config).await.unwrap();
    storage.add_table(Rc::new(plain()), map, Log::Data).await.unwrap();
}

fn files(node: &mut SimNode, component: &str) -> Vec<String> {
    let all = node.disk().files();
    all.into_iter().filter(|path| path.contains("/t1-") && path.ends_with(component)).collect()
}

/// How many of the partitions there are, and whether all that could be read were.
async fn present() -> usize {
    let of_shard = on_all_shards(|| async {
        let mut count = 0;
        for partition in 0..30 {
            let command = command(&plain(), Partitions::Key(key(partition)));
            let here = mine().tablet_of(Token::of(&key(partition))).is_some();
            if here && let Ok(page) = storage().read(&command).await {
                let view = PageView::parse(&page.bytes, command.layout()).unwrap();
                count += view.partitions().count();
            }
        }
        count
    });
    of_shard.await.into_iter().sum()
}

async fn until(condition: impl AsyncFn() -> bool) {
    for _ in 0..10_000 {
        if condition().await {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("it does not come to that");
}

async fn shared_on_all() -> usize {
    on_all_shards(|| async { shared_here() }).await.into_iter().sum()
}

#[test]
fn each_shard_writes_its_part_and_the_whole_goes() {
    let mut node = shared_by_two(1);
    for shard in [1, 0] {
        node.run_on(shard, open_plain());
    }
    node.run(async {
        assert_eq!((shared_on_all().await, present().await), (2, 30));
        // Whoever waits for nothing but merges that strategies want waits for these as well.
        let pending = on_all_shards(|| async { storage().pending_compactions(mine().id) });
        assert_eq!(pending.await, [1, 1]);
        storage().replay(Log::Data).await.unwrap();
        until(|| async { shared_on_all().await == 0 }).await;
        assert_eq!(present().await, 30);
        let done = on_all_shards(|| async { storage().take_finished_compactions() }).await;
        let rows: Vec<_> = done.iter().flatten().map(|done| done.job.rows_done).collect();
        assert_eq!((rows.len(), rows.iter().sum::<u64>()), (2, 30));
        for done in done.iter().flatten() {
            assert_eq!(done.job.kind, "Reshard");
            // Estimates are of the part.
            assert!((5..=25).contains(&done.job.partitions), "{done:?}");
        }
    });
    assert_eq!(files(&mut node, "-Data.db").len(), 2);
}

#[test]
fn what_several_tablets_have_is_validated_while_one_of_them_writes_its_part() {
    let mut node = SimNode::new(9, 1);
    node.run(async {
        open_plain().await;
        storage().replay(Log::Data).await.unwrap();
        for partition in 0..30 {
            storage().apply(write(&plain(), partition, 1, 1, &VALUE)).await.unwrap();
        }
        storage().flush(mine().id).await.unwrap();
        storage().stop().await.unwrap();
    });
    node.crash();
    node.run(async {
        open_mapped(TabletMap::tablets(6, 1)).await;
        let (storage, table) = (storage(), mine());
        let whole = table.sstables().to_vec();
        assert!(whole.len() == 1 && table.is_shared(&whole[0]), "{whole:?}");
        let compactions = &storage.shard().compactions;
        let tablet = Some(&*table.tablets()[0]);
        let part = compactions.begin(&table, CompactionKind::Reshard, &whole, tablet);
        let done = storage.keep_up(table.id, Upkeep::Validate(Invalid::Kept)).await.unwrap();
        assert_eq!((done.sstables, done.invalid), (6, Vec::new()));
        drop(part);
    });
}

#[test]
fn a_ring_of_one_range_per_shard_is_divided_anew() {
    let mut node = SimNode::new(8, 2);
    for shard in [1, 0] {
        node.run_on(shard, open_mapped(TabletMap::tablets(2, 2)));
    }
    node.run(async {
        storage().replay(Log::Data).await.unwrap();
        // Some are in SSTables, the others only in the log, of shards that are not theirs any more.
        for (partitions, is_flushed) in [(0..20, true), (20..30, false)] {
            on_all_shards(move || async move {
                for partition in partitions {
                    if mine().tablet_of(Token::of(&key(partition))).is_some() {
                        let write = write(&plain(), partition, 1, 1, &VALUE);
                        storage().apply_durably(write).await.unwrap();
                    }
                }
                if is_flushed {
                    storage().flush(mine().id).await.unwrap();
                }
            })
            .await;
        }
        assert_eq!(present().await, 30);
    });
    node.crash();
    for shard in [1, 0] {
        node.run_on(shard, open_plain());
    }
    node.run(async {
        assert_eq!(shared_on_all().await, 4);
        storage().replay(Log::Data).await.unwrap();
        assert_eq!(present().await, 30);
        until(|| async { shared_on_all().await == 0 }).await;
        assert_eq!(present().await, 30);
        let own = on_all_shards(|| async {
            let table = mine();
            let share = table.tablets()[0].share.expect("a ring of two shards");
            storage().flush(table.id).await.unwrap();
            table.sstables().iter().all(|one| one.scylla().share() == Some(share))
        });
        assert_eq!(own.await, [true, true]);
    });
}

#[test]
fn who_asks_for_parts_need_not_wait_until_shards_come_to_them() {
    let mut node = shared_by_two(6);
    for shard in [1, 0] {
        node.run_on(shard, open_plain());
    }
    node.run(async {
        assert_eq!((shared_on_all().await, present().await), (2, 30));
        // Nothing is replayed yet: nobody merges by himself.
        let left = on_all_shards(|| async {
            storage().reshard(mine().id).await.unwrap();
            let table = mine();
            table.sstables().iter().filter(|one| table.is_shared(one)).count()
        });
        assert_eq!((left.await, present().await), (vec![0, 0], 30));
        let unknown = storage().reshard(model::Uuid::nil()).await;
        assert!(unknown.is_err());
    });
}

#[test]
fn what_one_shard_cannot_open_stays_for_it() {
    let mut node = shared_by_two(2);
    let [statistics] = &files(&mut node, "-Statistics.db")[..] else { panic!("one SSTable") };
    node.run_on(1, open_plain());
    node.disk().corrupt(statistics, 0, 0xff);
    node.run(async {
        open_plain().await;
        storage().replay(Log::Data).await.unwrap();
        let let_go = || on_shard(1, || async { mine().let_go.borrow().len() });
        until(|| async { let_go().await == 1 }).await;
        sleep(Duration::from_secs(200)).await;
        assert_eq!(let_go().await, 1);
    });
    assert_eq!(files(&mut node, "-Data.db").len(), 2);
    node.crash();
    node.disk().corrupt(statistics, 0, 0xff);
    for shard in [1, 0] {
        node.run_on(shard, open_plain());
    }
    node.run(async {
        storage().replay(Log::Data).await.unwrap();
        until(|| async { shared_on_all().await == 0 }).await;
        assert_eq!(present().await, 30);
    });
}

#[test]
fn what_is_damaged_stays_until_it_is_put_aside() {
    let mut node = shared_by_two(3);
    let [data] = &files(&mut node, "-Data.db")[..] else { panic!("one SSTable") };
    let content = node.disk().read(data).unwrap();
    let value = content.windows(50).position(|bytes| bytes == [0x5a; 50]).unwrap();
    // In what lies first, which is of shard 0.
    node.disk().corrupt(data, value as u64 + 20, 0x01);
    // In a ring without tablets each shard would read all of it, and find the damage.
    for shard in [1, 0] {
        node.run_on(shard, open_mapped(TabletMap::tablets(2, 2)));
    }
    let name = data.rsplit('/').next().unwrap().to_string();
    node.run(async move {
        storage().replay(Log::Data).await.unwrap();
        let let_go = || on_shard(1, || async { mine().let_go.borrow().len() });
        until(|| async { let_go().await == 1 }).await;
        sleep(Duration::from_secs(200)).await;
        // It is told, left alone, and read as before; of the other shard all is there.
        let [one] = &mine().sstables()[..] else { panic!("one SSTable") };
        assert!(one.is_damaged());
        assert_eq!(storage().pending_compactions(mine().id), 0);
        let before = present().await;
        assert!((15..=30).contains(&before), "{before}");
        for what in [Upkeep::Scrub(ScrubMode::Skip), Upkeep::Validate(Invalid::PutAside)] {
            assert_eq!(let_go().await, 1);
            let done = storage().keep_up(mine().id, what).await.unwrap();
            assert_eq!(done.invalid, std::slice::from_ref(&name));
        }
        assert_eq!((let_go().await, shared_on_all().await), (0, 0));
        let of_one = on_shard(1, || async { mine().sstables().len() }).await;
        assert_eq!((mine().sstables().len(), of_one), (0, 1));
        let aside = Upkeep::Scrub(ScrubMode::Skip);
        let done = storage().keep_up_quarantined(mine().id, aside).await.unwrap();
        assert_eq!(done.sstables, 1);
        until(|| async { shared_on_all().await == 0 }).await;
        assert!((25..30).contains(&present().await));
    });
}

#[test]
fn what_somebody_asks_for_is_done_to_parts() {
    for (seed, what) in [
        (4, None),
        (5, Some(Upkeep::Scrub(ScrubMode::Abort))),
        (6, Some(Upkeep::Upgrade(Outdated::All))),
        (7, Some(Upkeep::Validate(Invalid::PutAside))),
    ] {
        let mut node = shared_by_two(seed);
        for shard in [1, 0] {
            node.run_on(shard, open_plain());
        }
        node.run(async move {
            // Nothing is done by itself: the replay has not ended.
            let ask = move || async move {
                match what {
                    None => storage().compact_all(mine().id, Default::default()).await.unwrap(),
                    Some(what) => {
                        let done = storage().keep_up(mine().id, what).await.unwrap();
                        assert_eq!((done.invalid, done.aborted), (Vec::new(), None));
                    }
                }
                let table = mine();
                table.sstables().iter().filter(|one| table.is_shared(one)).count()
            };
            let is_read = matches!(what, Some(Upkeep::Validate(_)));
            assert_eq!(on_shard(1, ask).await, is_read as usize, "{what:?}");
            assert_eq!(on_shard(0, ask).await, is_read as usize, "{what:?}");
            storage().replay(Log::Data).await.unwrap();
            until(|| async { shared_on_all().await == 0 }).await;
            assert_eq!(present().await, 30);
        });
        assert_eq!(files(&mut node, "-Data.db").len(), 2, "{what:?}");
    }
}

#[test]
fn a_table_that_is_dropped_meanwhile_leaves_nothing_or_its_snapshot() {
    for (seed, tag) in [(8, None), (9, Some(crate::SnapshotTag::new("kept").unwrap()))] {
        let mut node = shared_by_two(seed);
        for shard in [1, 0] {
            node.run_on(shard, open_plain());
        }
        let made = tag.clone();
        node.run(async move {
            // Shard 1 has let go; shard 0 is kept from it.
            let held = mine().tablets()[0].compacting.acquire(1).await.unwrap();
            storage().replay(Log::Data).await.unwrap();
            until(|| on_shard(1, || async { mine().let_go.borrow().len() == 1 })).await;
            let id = mine().id;
            for shard in [1, 0] {
                let tag = made.clone();
                let drop = move || async move { storage().drop_table(id, tag.as_ref()).await };
                on_shard(shard, || async { drop().await.unwrap() }).await;
            }
            drop(held);
            let made = made.as_ref().map(|tag| (tag, None));
            storage().complete_dropped(&plain(), None, made).await.unwrap();
            sleep(Duration::from_secs(200)).await;
        });
        let left = files(&mut node, "-Data.db");
        assert!(left.iter().all(|path| path.contains("/snapshots/kept/")), "{left:?}");
        // What shard 1 wrote of it, and all of it.
        assert_eq!(left.len(), if tag.is_some() { 2 } else { 0 });
    }
}
