//! Disks that fill up, with crashes at random moments: nothing that was acknowledged is lost, every
//! start ends, and when there is room again (a table is truncated or dropped, the disk grows,
//! somebody else's file goes) writes are accepted without another start.
//!
//! `NEREID_SIM_ROUNDS` sets the number of fillings; a failure prints its seed, and
//! `NEREID_SIM_SEED` runs that one alone.

use super::*;
use crate::WriteError;
use std::cell::{Cell, RefCell};
use stdx::Prng;
use testkit::SimNode;

const CLIENTS: u32 = 3;
const PARTITIONS: u64 = 24;
/// A start on a full disk does not take longer, nor does what follows more room.
const START_MAX: Duration = Duration::from_secs(120);
/// Of the log: files of an SSTable take little beside it, as they do on a real disk.
const SEGMENT_BYTES: usize = 1 << 20;
const FOREIGN: &str = "/foreign";

/// Table, partition, row.
type Place = (u128, u64, u32);

/// What is known of a row that one client alone writes to.
#[derive(Default)]
struct Row {
    /// Timestamp and length of the last value that was acknowledged; length 0: deleted.
    acked: Option<(i64, usize)>,
    /// Those that were refused or cut off since.
    maybe: Vec<(i64, usize)>,
}

#[derive(Default)]
struct Model {
    rows: BTreeMap<Place, Row>,
    clock: i64,
    acks: u64,
    refused: u64,
    deleted_when_full: u64,
    truncating: bool,
}

/// The shape of one simulation.
#[derive(Clone, Debug)]
struct Shape {
    seed: u64,
    shards: u16,
    tables: u128,
    capacity: u64,
    config: Config,
}

impl Shape {
    fn of(seed: u64) -> Shape {
        let mut prng = Prng::from_seed(seed);
        let shards = 1 + prng.below(2) as u16;
        let segments = prng.between(6, 40);
        let sync = match prng.one_in(3) {
            true => SyncMode::Periodic { period: Duration::from_millis(100) },
            false => SyncMode::Batch,
        };
        let config = Config {
            sync,
            memtable_bytes_max: prng.between(2, 16) as usize * 1024 * 1024,
            segment_bytes: SEGMENT_BYTES,
            commitlog_bytes_max: segments * SEGMENT_BYTES as u64,
            write_wait_max: Duration::from_secs(2),
            ..config()
        };
        let capacity = prng.between(64, 160) * 1024 * 1024;
        Shape { seed, shards, tables: 1 + prng.below(4) as u128, capacity, config }
    }

    fn is_batch(&self) -> bool {
        self.config.sync == SyncMode::Batch
    }
}

/// What the shards of one life of the node share.
struct Life {
    model: Rc<RefCell<Model>>,
    shape: Shape,
    opened: Cell<u16>,
    replayed: Cell<bool>,
    verified: Cell<u16>,
    /// Writes that were refused in this life.
    refused: Cell<u64>,
    acked: Cell<u64>,
}

fn owner(partition: u64, shards: u16) -> u16 {
    TabletMap::static_map(shards).shard_of(model::Token::of(&key(partition)))
}

fn storage() -> Rc<Storage> {
    runtime::local::get::<Storage>()
}

fn table(id: u128) -> TableSchema {
    schema(id, &format!("t{id}"))
}

async fn open_shard(shape: &Shape) -> Rc<Storage> {
    let storage = Storage::open(shape.config.clone()).await.unwrap();
    for id in 1..=shape.tables {
        let map = TabletMap::static_map(runtime::shard_count());
        storage.add_table(Rc::new(table(id)), map, Log::Data).await.unwrap();
    }
    storage
}

impl Life {
    fn new(model: &Rc<RefCell<Model>>, shape: &Shape) -> Rc<Life> {
        Rc::new(Life {
            model: model.clone(),
            shape: shape.clone(),
            opened: Cell::new(0),
            replayed: Cell::new(false),
            verified: Cell::new(0),
            refused: Cell::new(0),
            acked: Cell::new(0),
        })
    }

    fn is_up(&self) -> bool {
        self.verified.get() == self.shape.shards
    }

    async fn run(self: Rc<Life>, shard: u16, seed: u64) {
        let storage = open_shard(&self.shape).await;
        self.opened.set(self.opened.get() + 1);
        let pause = Duration::from_micros(500);
        while self.opened.get() < self.shape.shards {
            runtime::time::sleep(pause).await;
        }
        if shard == 0 {
            let stats = storage.replay(Log::Data).await.unwrap();
            // Of what was not synced a crash may keep a later chunk without an earlier one.
            let corrupt = if self.shape.is_batch() { stats.corrupt_bytes } else { 0 };
            assert_eq!((stats.broken_files, corrupt, stats.invalid), (0, 0, 0));
            self.replayed.set(true);
        }
        while !self.replayed.get() {
            runtime::time::sleep(pause).await;
        }
        self.verify(&storage, shard).await;
        self.verified.set(self.verified.get() + 1);
        let mut prng = Prng::from_seed(seed ^ shard as u64);
        let clients = (0..CLIENTS).map(|number| self.clone().client(number, shard, prng.fork()));
        runtime::task::join_all(clients).await;
    }

    /// What was acknowledged is there; what else is there was asked for.
    async fn verify(&self, storage: &Storage, shard: u16) {
        let seed = self.shape.seed;
        for id in 1..=self.shape.tables {
            for partition in (0..PARTITIONS).filter(|one| owner(*one, self.shape.shards) == shard) {
                let found = rows(storage, &table(id), partition).await;
                let mut model = self.model.borrow_mut();
                let truncating = model.truncating;
                let places = (id, partition, 0)..(id, partition, u32::MAX);
                for ((_, _, row), known) in model.rows.range_mut(places) {
                    let seen = found.get(row).map(|(timestamp, value)| (*timestamp, value.len()));
                    let visible = |one: &(i64, usize)| (0 < one.1).then_some(*one);
                    let acked = known.acked.as_ref().and_then(visible);
                    let fits = seen == acked
                        || known.maybe.iter().any(|one| seen == visible(one))
                        || (truncating && seen.is_none())
                        // What a crash may take in periodic mode was acknowledged all the same.
                        || !self.shape.is_batch();
                    assert!(fits, "seed {seed}: {id} {partition} {row}: {seen:?}, acked {acked:?}");
                }
            }
        }
    }

    async fn client(self: Rc<Life>, number: u32, shard: u16, mut prng: Prng) {
        let mine = (0..PARTITIONS).filter(|one| owner(*one, self.shape.shards) == shard);
        let partitions: Vec<u64> = mine.collect();
        for turn in 0.. {
            let id = 1 + prng.below(self.shape.tables as u64) as u128;
            match prng.below(400) {
                0 => drop(storage().flush(Uuid::from_u128(id)).await),
                1 => drop(storage().compact_all(Uuid::from_u128(id), Default::default()).await),
                _ => {
                    let partition = *prng.pick(&partitions).unwrap();
                    // Most go to rows of their own, so that the disk fills.
                    let row = match prng.one_in(4) {
                        true => prng.below(20) as u32,
                        false => 20 + turn % 4_000,
                    };
                    self.write((id, partition, row * CLIENTS + number), &mut prng).await;
                }
            }
            if prng.one_in(8) {
                runtime::time::sleep(Duration::from_micros(prng.below(800))).await;
            }
        }
    }

    async fn write(&self, place: Place, prng: &mut Prng) {
        let deletes = prng.one_in(12);
        let len = match prng.below(60) {
            // Logged in pieces.
            0 => prng.between(600_000, 900_000),
            1..8 => prng.between(60_000, 140_000),
            _ => prng.between(3_000, 30_000),
        } as usize;
        let timestamp = {
            let mut model = self.model.borrow_mut();
            model.clock += 1;
            let timestamp = model.clock;
            let op = (timestamp, if deletes { 0 } else { len });
            model.rows.entry(place).or_default().maybe.push(op);
            timestamp
        };
        let (id, partition, row) = place;
        let mut value = vec![0; len];
        prng.fill(&mut value);
        let new = match deletes {
            true => super::crash::delete(&table(id), partition, row, timestamp),
            false => write(&table(id), partition, row, timestamp, &value),
        };
        let was_refused = 0 < self.refused.get();
        let written = storage().apply(new).await;
        let pause = {
            let mut model = self.model.borrow_mut();
            match written {
                Ok(()) => {
                    let row = model.rows.get_mut(&place).unwrap();
                    row.acked = row.maybe.iter().find(|one| one.0 == timestamp).copied();
                    row.maybe.clear();
                    model.acks += 1;
                    self.acked.set(self.acked.get() + 1);
                    model.deleted_when_full += u64::from(deletes && was_refused);
                    return;
                }
                Err(WriteError::UnknownTable(_)) => Duration::from_millis(5),
                Err(_) => {
                    model.refused += 1;
                    self.refused.set(self.refused.get() + 1);
                    Duration::from_millis(20)
                }
            }
        };
        runtime::time::sleep(pause).await;
    }
}

/// How room comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relief {
    Truncate,
    Drop,
    Grow,
    ForeignFileGoes,
}

struct Filling {
    shape: Shape,
    node: SimNode,
    model: Rc<RefCell<Model>>,
    prng: Prng,
    /// Whether somebody else has taken the room that was left, the reserve included.
    foreign: bool,
}

impl Filling {
    fn new(seed: u64) -> Filling {
        let shape = Shape::of(seed);
        let mut node = SimNode::new(seed, shape.shards);
        node.disk().set_capacity(Some(shape.capacity));
        let prng = Prng::from_seed(seed ^ 0xF1);
        Filling { shape, node, model: Rc::default(), prng, foreign: false }
    }

    fn start(&mut self) -> Rc<Life> {
        let life = Life::new(&self.model, &self.shape);
        let (main, seed) = (life.clone(), self.prng.next_u64());
        self.node.start(move |shard| main.clone().run(shard, seed));
        life
    }

    /// Starts until the node is up, with crashes before that.
    fn start_up(&mut self) -> Rc<Life> {
        loop {
            let life = self.start();
            if self.prng.one_in(3) {
                // In the middle of the replay, and of what it flushes.
                let span = Duration::from_micros(self.prng.below(60_000));
                self.node.run_for(span);
                if !life.is_up() && self.prng.one_in(2) {
                    self.node.crash();
                    continue;
                }
            }
            let seed = self.shape.seed;
            let mut up = self.node.run_until(|| life.is_up(), START_MAX);
            if !up && self.foreign {
                // What was logged is more than memory takes, and the reserve is another's: the
                // start waits for room, and goes on by itself when there is some.
                self.relieve(Relief::ForeignFileGoes);
                up = self.node.run_until(|| life.is_up(), START_MAX);
            }
            let free = self.free();
            if !up {
                println!("{}", self.state());
            }
            assert!(up, "seed {seed}: the start is stuck, {free} bytes free: {:?}", self.shape);
            return life;
        }
    }

    fn free(&mut self) -> u64 {
        let disk = self.node.disk();
        let sizes = disk.files().into_iter().map(|path| disk.read(&path).map_or(0, |it| it.len()));
        self.shape.capacity.saturating_sub(sizes.sum::<usize>() as u64)
    }

    /// What the shards know, for a failure.
    fn state(&mut self) -> String {
        let free = self.free();
        let files = self.node.disk();
        let mut sizes = BTreeMap::<String, (u64, usize)>::new();
        for path in files.files() {
            let name = path.to_string();
            let kind = match name.rsplit_once("-big-") {
                Some((_, kind)) => kind.to_owned(),
                None => name.rsplit_once('/').unwrap().0.to_owned(),
            };
            let sum = sizes.entry(kind).or_default();
            *sum = (sum.0 + 1, sum.1 + files.read(&path).map_or(0, |it| it.len()));
        }
        let shards = (0..self.shape.shards).map(|shard| {
            self.node.run_on(shard, async {
                let storage = storage();
                let shard = storage.shard();
                format!(
                    "{:?} dirty {:?} limits {:?} full {:?} log {:?} restricted {}",
                    storage.disk_state(),
                    shard.dirty[0].level(),
                    shard.dirty[0].limits(),
                    shard.full_disk.borrow(),
                    shard.data_log.stats(),
                    shard.data_log.is_restricted(),
                )
            })
        });
        let shards: Vec<_> = shards.collect();
        format!("{free} bytes free\n{sizes:#?}\n{}", shards.join("\n"))
    }

    /// Somebody else takes what is left.
    fn fill_by_others(&mut self) {
        let free = self.free() as usize;
        let left = self.prng.below(2) as usize * self.prng.below(free as u64 / 4 + 1) as usize;
        self.node.disk().write(FOREIGN, &vec![7; free - left]);
        self.foreign = true;
    }

    fn relieve(&mut self, relief: Relief) {
        let tables = self.shape.tables;
        match relief {
            Relief::Grow => {
                let more = self.shape.capacity * 2;
                self.node.disk().set_capacity(Some(more));
            }
            Relief::ForeignFileGoes => {
                self.foreign = false;
                self.node.disk().write(FOREIGN, &[]);
            }
            Relief::Truncate => {
                self.model.borrow_mut().truncating = true;
                self.node.run(async move {
                    runtime::on_all_shards(move || async move {
                        for id in 1..=tables {
                            storage().truncate(Uuid::from_u128(id), 1).await.unwrap();
                        }
                    })
                    .await;
                });
            }
            Relief::Drop => {
                self.node.run(async move {
                    runtime::on_all_shards(move || async move {
                        for id in 1..=tables {
                            storage().drop_table(Uuid::from_u128(id), None).await.unwrap();
                        }
                        let map = TabletMap::static_map(runtime::shard_count());
                        let fresh = Rc::new(table(1));
                        storage().add_table(fresh, map, Log::Data).await.unwrap();
                    })
                    .await;
                });
            }
        }
    }
}

/// Fills a disk, crashes, starts again, makes room; acknowledged writes, refused ones, and
/// deletions that were accepted when writes were not.
fn simulate(seed: u64) -> (u64, u64, u64) {
    let mut filling = Filling::new(seed);
    let crashes = 1 + filling.prng.below(3);
    let others = filling.prng.one_in(3);
    let mut life = filling.start_up();
    if others {
        while filling.shape.capacity / 2 < filling.free() {
            filling.node.run_for(Duration::from_millis(1));
        }
        filling.fill_by_others();
    }
    for _ in 0..crashes {
        let wanted = filling.prng.below(12);
        let many = Duration::from_secs(600);
        let full = filling.node.run_until(|| wanted < life.refused.get(), many);
        assert!(full, "seed {seed}: the disk was never full");
        let span = Duration::from_micros(filling.prng.below(300_000));
        filling.node.run_for(span);
        filling.node.crash();
        life = filling.start_up();
    }
    let reliefs = match filling.foreign {
        true => &[Relief::Grow, Relief::ForeignFileGoes, Relief::Truncate, Relief::Drop][..],
        false => &[Relief::Grow, Relief::Truncate, Relief::Drop][..],
    };
    let relief = *filling.prng.pick(reliefs).unwrap();
    filling.relieve(relief);
    let before = life.acked.get();
    let went_on = filling.node.run_until(|| before + 20 < life.acked.get(), START_MAX);
    if !went_on {
        println!("{}", filling.state());
    }
    assert!(went_on, "seed {seed}: no writes after {relief:?}: {:?}", filling.shape);
    // All of it can be made durable, and is there after another start.
    if relief != Relief::Drop {
        filling.node.crash();
        filling.model.borrow_mut().truncating |= relief == Relief::Truncate;
        filling.start_up();
    }
    let model = filling.model.borrow();
    (model.acks, model.refused, model.deleted_when_full)
}

#[test]
fn a_node_that_died_on_a_full_disk_serves_again_and_recovers() {
    let seeds = runtime::sim::seeds(4);
    let count = seeds.end - seeds.start;
    let (mut acks, mut refused, mut deleted) = (0, 0, 0);
    for seed in seeds {
        let seen = simulate(seed);
        (acks, refused, deleted) = (acks + seen.0, refused + seen.1, deleted + seen.2);
    }
    println!(
        "{count} fillings: {acks} writes acknowledged, {refused} refused, {deleted} deletions"
    );
    assert!(count < 8 || (1_000 < acks && 50 < refused && 0 < deleted), "nothing was at stake");
}
