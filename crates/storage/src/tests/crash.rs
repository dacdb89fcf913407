//! Crashes at random moments, with torn and lost unsynced writes: every acknowledged write is
//! there afterwards, nothing else is but writes that were under way, and groups are whole.
//!
//! `NEREID_SIM_ROUNDS` sets the number of schedules, of three crashes each; a failure prints its
//! seed, and `NEREID_SIM_SEED` runs that one alone.

use super::*;
use crate::config::Planted;
use std::cell::{Cell, RefCell};
use stdx::Prng;
use testkit::SimNode;

const TABLES: [u128; 2] = [1, 2];
const CLIENTS: u32 = 4;
const ROWS: u32 = 5;
const PARTITIONS: u64 = 12;
const CRASHES: u64 = 3;

/// Table, partition, row.
type Place = (u128, u64, u32);

/// What a row holds after an operation: `None` where it deletes.
#[derive(Clone, Debug, PartialEq)]
struct Op {
    timestamp: i64,
    value: Option<Vec<u8>>,
    group: Option<u64>,
}

/// A row that one client alone writes to, one operation after the other.
#[derive(Default)]
struct Row {
    acked: Option<Op>,
    /// The operation that the crash may have cut off.
    maybe: Option<Op>,
}

#[derive(Default)]
struct Model {
    rows: BTreeMap<Place, Row>,
    clock: i64,
    groups: u64,
    /// Shards on which a truncation of the second table is under way.
    truncating: Vec<u16>,
    acks: u64,
    refused: u64,
    violations: Vec<String>,
}

/// What the shards of one life of the node share.
struct Life {
    model: Rc<RefCell<Model>>,
    shards: u16,
    opened: Cell<u16>,
    replayed: Cell<bool>,
    verified: Cell<u16>,
    config: Config,
}

fn owner(partition: u64, shards: u16) -> u16 {
    TabletMap::static_map(shards).shard_of(model::Token::of(&key(partition)))
}

/// Timestamp and length of a value; its bytes repeat the timestamp.
type Seen = (i64, usize);

fn visible(op: &Option<Op>) -> Option<Seen> {
    let op = op.as_ref()?;
    Some((op.timestamp, op.value.as_ref()?.len()))
}

fn seen(found: &(i64, Vec<u8>)) -> Seen {
    assert!(found.1.starts_with(&found.0.to_be_bytes()), "a value of another write");
    (found.0, found.1.len())
}

impl Life {
    async fn run(self: Rc<Life>, shard: u16, seed: u64) {
        let storage = open(self.config.clone()).await;
        self.opened.set(self.opened.get() + 1);
        let pause = Duration::from_micros(200);
        while self.opened.get() < self.shards {
            runtime::time::sleep(pause).await;
        }
        if shard == 0 {
            let stats = storage.replay(Log::Data).await.unwrap();
            let bad = stats.broken_files + stats.corrupt_bytes + stats.invalid;
            if bad != 0 || stats.unknown_table != 0 {
                self.model.borrow_mut().violations.push(format!("{stats:?}"));
            }
            self.replayed.set(true);
        }
        while !self.replayed.get() {
            runtime::time::sleep(pause).await;
        }
        self.verify(&storage, shard).await;
        self.verified.set(self.verified.get() + 1);
        let mut prng = Prng::from_seed(seed ^ shard as u64);
        let clients = (0..CLIENTS).map(|number| {
            let mine = Client { life: self.clone(), storage: storage.clone(), shard, number };
            mine.run(prng.fork())
        });
        runtime::task::join_all(clients).await;
    }

    /// Compares what is there with what may be, and settles what was in doubt.
    async fn verify(&self, storage: &Storage, shard: u16) {
        let mut all = BTreeMap::new();
        for id in TABLES {
            for partition in (0..PARTITIONS).filter(|one| owner(*one, self.shards) == shard) {
                for (row, found) in rows(storage, &schema(id, "t"), partition).await {
                    all.insert((id, partition, row), seen(&found));
                }
            }
        }
        let mut model = self.model.borrow_mut();
        let Model { rows, violations, truncating, .. } = &mut *model;
        let was_truncating = truncating.contains(&shard);
        truncating.retain(|one| *one != shard);
        let mine = |place: &Place| owner(place.1, self.shards) == shard;
        for place in all.keys().filter(|place| !rows.contains_key(place)) {
            violations.push(format!("phantom {place:?}"));
        }
        let mut groups: BTreeMap<u64, Vec<bool>> = BTreeMap::new();
        let mut truncated = Vec::new();
        for (place, row) in rows.iter_mut().filter(|(place, _)| mine(place)) {
            let found = all.get(place).copied();
            let (acked, maybe) = (visible(&row.acked), visible(&row.maybe));
            let new = row.maybe.take();
            let in_doubt = new.is_some() && maybe != acked;
            if let Some(group) = new.as_ref().and_then(|op| op.group).filter(|_| in_doubt) {
                groups.entry(group).or_default().push(found == maybe);
            }
            if in_doubt && found == maybe {
                row.acked = new;
            } else if was_truncating && place.0 == 2 && acked.is_some() {
                truncated.push(found.is_none());
                if found.is_none() {
                    row.acked = None;
                } else if found != acked {
                    violations.push(format!("{place:?}: {found:?}, truncating {acked:?}"));
                }
            } else if found != acked {
                violations.push(format!("{place:?}: found {found:?}, acked {acked:?}, {maybe:?}"));
            }
        }
        if truncated.contains(&true) && truncated.contains(&false) {
            violations.push(format!("half a truncation: {truncated:?}"));
        }
        for (group, there) in groups {
            if there.contains(&true) && there.contains(&false) {
                violations.push(format!("half of group {group}: {there:?}"));
            }
        }
    }
}

/// One writer of its own rows.
struct Client {
    life: Rc<Life>,
    storage: Rc<Storage>,
    shard: u16,
    number: u32,
}

impl Client {
    async fn run(self, mut prng: Prng) {
        let partitions: Vec<u64> =
            (0..PARTITIONS).filter(|one| owner(*one, self.life.shards) == self.shard).collect();
        if partitions.is_empty() {
            return;
        }
        loop {
            // The second table belongs to the first client: it is truncated now and then.
            let id = if self.number == 0 { prng.between(1, 2) as u128 } else { 1 };
            let mut places: Vec<Place> = Vec::new();
            let count = if prng.one_in(5) { 1 + prng.below(3) } else { 1 };
            for _ in 0..count {
                let partition = *prng.pick(&partitions).unwrap();
                let place = (id, partition, self.number * ROWS + prng.below(ROWS as u64) as u32);
                if !places.contains(&place) {
                    places.push(place);
                }
            }
            match prng.below(100) {
                0..3 => self.flush(id).await,
                3..5 if self.number == 0 => self.truncate().await,
                5..15 => self.check(places[0]).await,
                _ => self.write(&places, &mut prng).await,
            }
            if prng.one_in(4) {
                runtime::time::sleep(Duration::from_micros(prng.below(800))).await;
            }
        }
    }

    async fn write(&self, places: &[Place], prng: &mut Prng) {
        let mut mutations = Vec::new();
        for place in places {
            let mut model = self.life.model.borrow_mut();
            model.clock += 1;
            let timestamp = model.clock;
            let deletes = prng.one_in(8);
            let len = match prng.below(30) {
                // Logged in pieces.
                0 => prng.between(20_000, 60_000),
                1..4 => prng.below(9_000),
                _ => prng.below(200),
            } as usize;
            let mut value = timestamp.to_be_bytes().to_vec();
            value.resize(8 + len, b'.');
            let group = (1 < places.len()).then_some(model.groups);
            let schema = schema(place.0, "t");
            mutations.push(match deletes {
                false => write(&schema, place.1, place.2, timestamp, &value),
                true => delete(&schema, place.1, place.2, timestamp),
            });
            let op = Op { timestamp, value: (!deletes).then_some(value), group };
            model.rows.entry(*place).or_default().maybe = Some(op);
        }
        self.life.model.borrow_mut().groups += 1;
        let written = match mutations.len() {
            1 => self.storage.apply(mutations.remove(0)).await,
            _ => self.storage.apply_all(mutations).await,
        };
        let mut model = self.life.model.borrow_mut();
        if let Err(crate::WriteError::Overloaded(_)) = &written
            && self.life.config.refuse_one_in.is_some()
        {
            // Refused before anything was done.
            model.refused += 1;
            places.iter().for_each(|place| drop(model.rows.get_mut(place).unwrap().maybe.take()));
            return;
        }
        written.unwrap();
        for place in places {
            let row = model.rows.get_mut(place).unwrap();
            row.acked = row.maybe.take();
        }
        model.acks += 1;
    }

    /// Reads what was written.
    async fn check(&self, place: Place) {
        let found = rows(&self.storage, &schema(place.0, "t"), place.1).await;
        let mut model = self.life.model.borrow_mut();
        let acked = model.rows.get(&place).and_then(|row| visible(&row.acked));
        let found = found.get(&place.2).map(seen);
        if found != acked {
            model.violations.push(format!("{place:?}: read {found:?}, acked {acked:?}"));
        }
    }

    async fn flush(&self, id: u128) {
        self.storage.flush(Uuid::from_u128(id)).await.unwrap();
    }

    async fn truncate(&self) {
        self.life.model.borrow_mut().truncating.push(self.shard);
        self.storage.truncate(Uuid::from_u128(2), 1).await.unwrap();
        let mut model = self.life.model.borrow_mut();
        let (shard, shards) = (self.shard, self.life.shards);
        model.truncating.retain(|one| *one != shard);
        let mine = |place: &Place| place.0 == 2 && owner(place.1, shards) == shard;
        for (_, row) in model.rows.iter_mut().filter(|(place, _)| mine(place)) {
            row.acked = None;
        }
    }
}

pub(super) fn delete(
    schema: &TableSchema,
    partition: u64,
    row: u32,
    timestamp: i64,
) -> FrozenMutation {
    let mut builder = MutationBuilder::new(schema, &key(partition));
    let mut blob = RowBuilder::new(Vec::new());
    blob.tombstone(mutation::Tombstone::new(timestamp, 500));
    builder.row(&clustering(&[row, 0]), &blob.finish());
    builder.freeze()
}

/// One node, crashed a few times; what was found wrong, and how many writes were acknowledged.
fn simulate(seed: u64, planted: Option<Planted>) -> (Vec<String>, u64) {
    let seen = simulate_with(seed, Config { planted, ..config() });
    (seen.violations, seen.acks)
}

fn simulate_with(seed: u64, config: Config) -> Model {
    let mut prng = Prng::from_seed(seed);
    let shards = 1 + prng.below(2) as u16;
    let mut node = SimNode::new(seed, shards);
    let model = Rc::new(RefCell::new(Model::default()));
    for crash in 0..=CRASHES {
        let life = Rc::new(Life {
            model: model.clone(),
            shards,
            opened: Cell::new(0),
            replayed: Cell::new(false),
            verified: Cell::new(0),
            config: config.clone(),
        });
        let main = life.clone();
        node.start(move |shard| main.clone().run(shard, seed ^ (crash << 32)));
        if prng.one_in(4) {
            // Again before it is up.
            node.run_for(Duration::from_micros(prng.below(20_000)));
        }
        if 0 < crash && life.verified.get() < shards && prng.one_in(2) {
            node.crash();
            continue;
        }
        let up = node.run_until(|| life.verified.get() == shards, Duration::from_secs(600));
        assert!(up, "seed {seed}: the start did not end");
        node.run_for(Duration::from_micros(prng.below(150_000)));
        node.crash();
    }
    drop(node);
    model.take()
}

#[test]
fn no_acknowledged_write_is_lost_in_a_crash() {
    let seeds = runtime::sim::seeds(60);
    let (mut acks, count) = (0, seeds.end - seeds.start);
    for seed in seeds {
        let (violations, acked) = simulate(seed, None);
        let some = &violations[..violations.len().min(8)];
        assert!(
            violations.is_empty(),
            "NEREID_SIM_SEED={seed}: {} wrong: {some:#?}",
            violations.len()
        );
        acks += acked;
    }
    assert!(count < 10 || 100 < acks, "the clients did nothing");
}

#[test]
fn who_is_refused_memory_fails_alone() {
    let mut refused = 0;
    for seed in 2000..2012 {
        let seen = simulate_with(seed, Config { refuse_one_in: Some(8), ..config() });
        assert_eq!(seen.violations, Vec::<String>::new(), "seed {seed}");
        assert!(0 < seen.acks, "seed {seed}");
        refused += seen.refused;
    }
    assert!(20 < refused, "{refused} writes were refused");
}

#[test]
fn an_answer_before_the_sync_is_caught() {
    let caught = |seed| !simulate(seed, Some(Planted::AckBeforeSync)).0.is_empty();
    assert!((1000..1010).any(caught));
}

/// In periodic mode a crash may take what was acknowledged within the last period, no more. Returns
/// how many writes it took.
fn simulate_periodic(seed: u64) -> usize {
    let period = Duration::from_millis(300);
    let periodic = move || Config { sync: SyncMode::Periodic { period }, ..config() };
    let mut prng = Prng::from_seed(seed);
    let mut node = SimNode::new(seed, 1);
    let acked: Rc<RefCell<Vec<runtime::time::Instant>>> = Rc::default();
    let log = acked.clone();
    node.start(move |_| {
        let (log, mut prng) = (log.clone(), Prng::from_seed(seed));
        async move {
            let storage = open(periodic()).await;
            for row in 0.. {
                let len = prng.below(2_000) as usize;
                let new = write(&schema(1, "t1"), row as u64 % 9, row, 1, &vec![1; len]);
                storage.apply(new).await.unwrap();
                log.borrow_mut().push(runtime::time::Instant::now());
                runtime::time::sleep(Duration::from_micros(prng.below(8_000))).await;
            }
        }
    });
    node.run_for(Duration::from_micros(prng.between(400_000, 1_500_000)));
    let crashed_at = node.run(async { runtime::time::Instant::now() });
    node.crash();
    let seen = node.run(async move {
        let storage = open(periodic()).await;
        storage.replay(Log::Data).await.unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for partition in 0..9 {
            seen.extend(rows(&storage, &schema(1, "t1"), partition).await.into_keys());
        }
        seen
    });
    let acked = acked.borrow();
    assert!(seen.last().is_none_or(|last| *last as usize <= acked.len()), "seed {seed}: phantom");
    for (row, at) in acked.iter().enumerate() {
        let old = period + Duration::from_millis(1) < crashed_at - *at;
        assert!(!old || seen.contains(&(row as u32)), "seed {seed}: row {row} of {}", acked.len());
    }
    (0..acked.len() as u32).filter(|row| !seen.contains(row)).count()
}

#[test]
fn a_periodic_log_loses_a_period_at_most() {
    let lost: usize = (0..40).map(simulate_periodic).sum();
    assert!(0 < lost, "nothing was at stake");
}
