//! Random schedules of writes, deletions, expiry, flushes, merges, crashes and steps of the clock
//! against a naive model: nothing that was deleted comes back, nothing that lives goes.
//!
//! What forgetting may rely on, schedules keep to: a write is at most `LATE` older than the clock
//! of its node, the clock is at most `BACK` behind the latest that it was, and both together are
//! less than the grace. With the mode `immediate` writes are in order, and the clock only goes on.
//!
//! `NEREID_SIM_ROUNDS` sets the number of schedules; a failure prints its seed, and
//! `NEREID_SIM_SEED` runs that one alone.

use super::*;
use crate::config::Planted;
use crate::shard::compact::merge_some;
use model::Token;
use mutation::{ClusteringPosition, ClusteringRange, RangeTombstone, Tombstone};
use runtime::time::{sleep, wall_micros};
use std::cell::{Cell as Slot, RefCell};
use std::collections::BTreeSet;
use stdx::{Bytes, Prng};
use testkit::{Fault, SimNode};

/// Of any schedule.
pub(super) const PARTITIONS_MAX: u64 = 8;
const ROWS: u32 = 3;
const CRASHES: u64 = 3;

/// In seconds.
const GRACE: i64 = 100;
/// In microseconds.
const LATE: u64 = 30_000_000;
const BACK: u64 = 40_000_000;
const FORTH: u64 = 200_000_000;

/// What a marker or a value is after the newest write of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Dead,
    Live,
    /// Until that second.
    Until(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Newest {
    timestamp: i64,
    kind: Kind,
}

/// What is known of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    marker: Newest,
    value: Newest,
}

/// What a reader sees of a row: nothing, or the timestamp of its value, if it has one.
type Seen = Option<Option<i64>>;

/// One mutation: it concerns the values of some rows of a partition, and their markers.
#[derive(Clone, Debug)]
pub(super) struct Op {
    what: What,
    pub(super) partition: u64,
    /// The first and the last.
    rows: (u32, u32),
    newest: Newest,
    /// By the clock, in seconds.
    made_at: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Row,
    Value,
    Range,
    Partition,
}

impl Newest {
    const NONE: Newest = Newest { timestamp: i64::MIN, kind: Kind::Dead };

    fn take(&mut self, other: Newest) {
        if self.timestamp < other.timestamp {
            *self = other;
        }
    }

    fn is_live(&self, now: i64) -> bool {
        match self.kind {
            Kind::Dead => false,
            Kind::Live => true,
            Kind::Until(expiry) => now < expiry,
        }
    }

    fn state<'v>(&self, value: &'v [u8], made_at: i64) -> CellState<'v> {
        match self.kind {
            Kind::Dead => CellState::Dead { deletion_time: made_at },
            Kind::Live => CellState::Live { value },
            Kind::Until(expiry) => {
                CellState::Expiring { value, expiry, ttl: (expiry - made_at) as i32 }
            }
        }
    }
}

/// All rows, as one run of events has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State(Vec<Row>);

impl State {
    pub(super) fn new() -> State {
        let row = Row { marker: Newest::NONE, value: Newest::NONE };
        State(vec![row; PARTITIONS_MAX as usize * ROWS as usize])
    }

    fn at(partition: u64, row: u32) -> usize {
        partition as usize * ROWS as usize + row as usize
    }

    pub(super) fn apply(&mut self, op: &Op) {
        for row in op.rows.0..=op.rows.1 {
            let row = &mut self.0[State::at(op.partition, row)];
            row.value.take(op.newest);
            if op.what != What::Value {
                row.marker.take(op.newest);
            }
        }
    }

    fn seen(&self, partition: u64, row: u32, now: i64) -> Seen {
        let row = self.0[State::at(partition, row)];
        let value = row.value.is_live(now).then_some(row.value.timestamp);
        (value.is_some() || row.marker.is_live(now)).then_some(value)
    }
}

impl Op {
    pub(super) fn random(prng: &mut Prng, rules: &Rules, model: &RefCell<Model>) -> Op {
        let wall = wall_micros();
        let made_at = wall.div_euclid(1_000_000);
        let late = if prng.one_in(2) { prng.below(rules.late + 1) } else { 0 };
        let mut timestamp = wall - late as i64;
        while !model.borrow_mut().used.insert(timestamp) {
            timestamp += 1;
        }
        let row = prng.below(ROWS as u64) as u32;
        let (what, rows, kind) = match prng.below(20) {
            0..11 => {
                let ttl = *prng.pick(&[1, 5, 50, 150, 1000]).unwrap();
                let kind = if prng.one_in(3) { Kind::Until(made_at + ttl) } else { Kind::Live };
                (if prng.one_in(2) { What::Row } else { What::Value }, (row, row), kind)
            }
            11..14 => (What::Row, (row, row), Kind::Dead),
            14..17 => (What::Value, (row, row), Kind::Dead),
            17..19 => {
                let last = row + prng.below((ROWS - row) as u64) as u32;
                (What::Range, (row, last), Kind::Dead)
            }
            _ => (What::Partition, (0, ROWS - 1), Kind::Dead),
        };
        let partition = prng.below(rules.partitions);
        Op { what, partition, rows, newest: Newest { timestamp, kind }, made_at }
    }

    pub(super) fn mutation(&self, schema: &TableSchema) -> FrozenMutation {
        let Newest { timestamp, kind } = self.newest;
        let tombstone = Tombstone::new(timestamp, self.made_at);
        let mut builder = MutationBuilder::new(schema, &key(self.partition));
        let mut row = RowBuilder::new(Vec::new());
        let ttl = |expiry| (expiry - self.made_at) as i32;
        match (self.what, kind) {
            (What::Partition, _) => builder.delete_partition(tombstone),
            (What::Range, _) => {
                let prefix = |row: u32| Bytes::from(clustering(&[row]));
                let start = ClusteringPosition::before(prefix(self.rows.0));
                let end = ClusteringPosition::after(prefix(self.rows.1));
                let range = ClusteringRange { start, end };
                builder.delete_range(RangeTombstone { range, tombstone });
            }
            (What::Row, Kind::Dead) => row.tombstone(tombstone),
            (What::Row, Kind::Live) => row.marker(Marker::Live { timestamp }),
            (What::Row, Kind::Until(expiry)) => {
                row.marker(Marker::Expiring { timestamp, expiry, ttl: ttl(expiry) });
            }
            (What::Value, _) => {}
        }
        let has_value = self.what == What::Value || (self.what == What::Row && kind != Kind::Dead);
        if has_value {
            row.cell(V, Cell { timestamp, state: self.newest.state(b"value", self.made_at) });
        }
        if has_value || self.what == What::Row {
            builder.row(&clustering(&[self.rows.0, 0]), &row.finish());
        }
        builder.freeze()
    }
}

/// How one schedule differs from others.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) partitions: u64,
    late: u64,
    pub(super) back: u64,
    tombstone_gc: &'static [(&'static str, &'static str)],
    compaction: &'static [(&'static str, &'static str)],
}

const BY_REPAIR: &[(&str, &str)] = &[("mode", "repair"), ("propagation_delay_in_seconds", "100")];
const STRATEGIES: [&[(&str, &str)]; 5] = [
    &[("class", "NullCompactionStrategy")],
    &[("class", "SizeTieredCompactionStrategy"), ("min_threshold", "2"), ("min_sstable_size", "0")],
    &[("class", "LeveledCompactionStrategy"), ("sstable_size_in_mb", "1")],
    &[("class", "TimeWindowCompactionStrategy"), ("compaction_window_unit", "MINUTES")],
    &[("class", "IncrementalCompactionStrategy"), ("min_threshold", "3")],
];

impl Rules {
    pub(super) fn random(prng: &mut Prng, partitions: u64) -> Rules {
        let compaction = *prng.pick(&STRATEGIES).unwrap();
        let (late, back, tombstone_gc): (_, _, &[_]) = match prng.below(4) {
            0 => (0, 0, &[("mode", "immediate")]),
            1 => (LATE, BACK, BY_REPAIR),
            _ => (LATE, BACK, &[]),
        };
        Rules { partitions, late, back, tombstone_gc, compaction }
    }

    pub(super) fn schema(&self) -> TableSchema {
        let owned = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
        };
        let mut schema = schema(1, "t1");
        schema.options.gc_grace_seconds = GRACE as i32;
        schema.options.compaction = owned(self.compaction);
        schema.options.tombstone_gc = owned(self.tombstone_gc);
        schema
    }
}

#[derive(Default)]
pub(super) struct Model {
    /// What there may be: crashes leave open whether the write under way was made.
    pub(super) states: Vec<State>,
    pub(super) under_way: Option<Op>,
    /// Timestamps: no two writes have one.
    used: BTreeSet<i64>,
    /// How far the clock was behind the latest that it was when it was last set, in microseconds.
    pub(super) behind: Slot<i64>,
    pub(super) starts: u64,
    pub(super) merges: u64,
    pub(super) violations: Vec<String>,
}

impl Model {
    /// The second of a reader that has seen the latest there was of the clock.
    pub(super) fn now(&self) -> i64 {
        (wall_micros() + self.behind.get()).div_euclid(1_000_000)
    }

    /// The write under way may have been made or not.
    pub(super) fn crash(&mut self) {
        let Some(op) = self.under_way.take() else { return };
        let made = self.states.clone().into_iter().map(|mut state| {
            state.apply(&op);
            state
        });
        self.states.extend(made.collect::<Vec<_>>());
    }

    /// Whoever sees a partition so is right, or there is nothing left that may be.
    pub(super) fn check(&mut self, partition: u64, found: &BTreeMap<u32, Option<i64>>, now: i64) {
        let is_so = |state: &State| {
            (0..ROWS).all(|row| state.seen(partition, row, now) == found.get(&row).copied())
        };
        let before = self.states.clone();
        self.states.retain(is_so);
        if self.states.is_empty() {
            let rows = State::at(partition, 0)..State::at(partition, ROWS);
            let known: Vec<_> = before.iter().map(|state| &state.0[rows.clone()]).collect();
            self.violations.push(format!("{partition}: {found:?} at {now}, not {known:?}"));
            self.states = before;
        }
    }
}

/// What is seen of a partition at that second.
pub(super) async fn observe(
    storage: &Storage,
    schema: &TableSchema,
    partition: u64,
    now: i64,
) -> BTreeMap<u32, Option<i64>> {
    let command = ReadCommand { now, ..command(schema, Partitions::Key(key(partition))) };
    let page = storage.read(&command).await.unwrap();
    let view = PageView::parse(&page.bytes, command.layout()).unwrap();
    let mut out = BTreeMap::new();
    for row in view.partitions().flat_map(|partition| partition.rows()) {
        let number = row.clustering()[2..6].try_into().map(u32::from_be_bytes).unwrap();
        let column = row.columns().next().unwrap();
        let times = column.value.and(column.times);
        out.insert(number, times.map(|times| times.timestamp));
    }
    out
}

/// One life of the node.
struct Life {
    rules: Rules,
    config: Config,
    model: Rc<RefCell<Model>>,
}

impl Life {
    async fn run(self: Rc<Life>, mut prng: Prng) {
        let storage = Storage::open(self.config.clone()).await.unwrap();
        let (mine, other) = (self.rules.schema(), schema(2, "t2"));
        for schema in [&mine, &other] {
            let map = TabletMap::static_map(1);
            storage.add_table(Rc::new(schema.clone()), map, Log::Data).await.unwrap();
        }
        storage.replay(Log::Data).await.unwrap();
        for partition in 0..self.rules.partitions {
            self.look(&storage, &mine, partition).await;
        }
        self.model.borrow_mut().starts += 1;
        loop {
            match prng.below(100) {
                0..44 => self.write(&storage, &mine, &mut prng).await,
                44..50 => {
                    let new = write(&other, prng.below(9), 1, wall_micros(), b"other");
                    storage.apply(new).await.unwrap();
                }
                50..56 => self.look(&storage, &mine, prng.below(self.rules.partitions)).await,
                56..74 => {
                    if prng.one_in(2) {
                        storage.close_log_segments();
                    }
                    storage.flush(mine.id).await.unwrap();
                }
                74..76 => storage.flush(other.id).await.unwrap(),
                76..92 => self.merge(&storage, &mine, &mut prng).await,
                92..95 => {
                    storage.compact_all(mine.id, Default::default()).await.unwrap();
                    self.model.borrow_mut().merges += 1;
                }
                95..98 => {
                    let now = wall_micros().div_euclid(1_000_000);
                    let (a, b) = (Token(prng.next_u64() as i64), Token(prng.next_u64() as i64));
                    let some = (a.min(b), a.max(b));
                    let all = (Token::MIN, Token::MAX);
                    storage.note_repair(mine.id, if prng.one_in(2) { all } else { some }, now);
                }
                // Its keyspace gets other copies, or none but this.
                98 => storage.set_single(mine.id, prng.one_in(2)),
                _ => sleep(Duration::from_millis(2 * prng.below(20))).await,
            }
        }
    }

    async fn write(&self, storage: &Storage, schema: &TableSchema, prng: &mut Prng) {
        let op = Op::random(prng, &self.rules, &self.model);
        self.model.borrow_mut().under_way = Some(op.clone());
        storage.apply(op.mutation(schema)).await.unwrap();
        let model = &mut *self.model.borrow_mut();
        model.states.iter_mut().for_each(|state| state.apply(&op));
        model.under_way = None;
    }

    async fn look(&self, storage: &Storage, schema: &TableSchema, partition: u64) {
        let now = self.model.borrow().now();
        let found = observe(storage, schema, partition, now).await;
        self.model.borrow_mut().check(partition, &found, now);
    }

    /// Merges some SSTables, whichever, into one or into many.
    async fn merge(&self, storage: &Storage, schema: &TableSchema, prng: &mut Prng) {
        let table = storage.shard().table(schema.id).unwrap();
        let tablet = &table.tablets()[0];
        let bytes_max = if prng.one_in(3) { 1 } else { u64::MAX };
        let (most, draw) = (prng.one_in(2), prng.next_u64());
        let pick = |count: usize| {
            let mut prng = Prng::from_seed(draw);
            (0..count).filter(|_| prng.one_in(3) != most).collect()
        };
        merge_some(storage.shard(), (&table, tablet), pick, bytes_max).await.unwrap();
        self.model.borrow_mut().merges += 1;
    }
}

/// The wall clock of the node, in microseconds.
#[derive(Default)]
pub(super) struct Clock {
    skew: i64,
    /// The latest that it was.
    latest: i64,
}

impl Clock {
    /// Sets it to another time, at most so far behind the latest that it was.
    pub(super) fn step(&mut self, node: &mut SimNode, prng: &mut Prng, back: u64, model: &Model) {
        let now = node.now().as_micros() as i64;
        self.latest = self.latest.max(now + self.skew);
        self.skew = match prng.below(5) {
            0 => self.skew,
            1 => self.latest - now - prng.below(back + 1) as i64,
            2 => self.skew + prng.below(FORTH / 10) as i64,
            _ => self.skew + prng.between(FORTH / 2, FORTH) as i64,
        };
        node.suffer(Fault::Clock(self.skew));
        model.behind.set((self.latest - now - self.skew).max(0));
    }
}

/// A node that lives through a schedule; what came back or went, and how often it merged.
fn simulate(seed: u64, planted: Option<Planted>) -> (Vec<String>, u64) {
    let mut prng = Prng::from_seed(seed);
    let mut node = SimNode::new(seed, 1);
    let rules = Rules::random(&mut prng, 2);
    let model: Rc<RefCell<Model>> = Rc::default();
    model.borrow_mut().states.push(State::new());
    let config = Config { planted, ..config() };
    let life = Rc::new(Life { rules, config, model: model.clone() });
    let mut clock = Clock::default();
    for crash in 0..=CRASHES {
        let (life, fork) = (life.clone(), prng.fork());
        let back = life.rules.back;
        node.start(move |_| life.clone().run(fork.clone()));
        let up = || model.borrow().starts == crash + 1;
        assert!(node.run_until(up, Duration::from_secs(600)), "seed {seed}: no start");
        for _ in 0..2 + prng.below(4) {
            node.run_for(Duration::from_micros(prng.below(80_000)));
            clock.step(&mut node, &mut prng, back, &model.borrow());
        }
        node.run_for(Duration::from_micros(prng.below(60_000)));
        node.crash();
        let model = &mut *model.borrow_mut();
        if !model.violations.is_empty() {
            break;
        }
        model.crash();
    }
    drop(node);
    let model = model.borrow();
    (model.violations.clone(), model.merges)
}

#[test]
fn nothing_comes_back_and_nothing_goes() {
    let seeds = runtime::sim::seeds(60);
    let (mut merges, count) = (0, seeds.end - seeds.start);
    for seed in seeds {
        let (violations, merged) = simulate(seed, None);
        assert!(violations.is_empty(), "NEREID_SIM_SEED={seed}: {violations:#?}");
        merges += merged;
    }
    assert!(count <= merges + 10, "{merges} merges in {count} schedules");
}

/// Seeds that a mistake may take to be caught.
const SEEDS: u64 = 1000;

fn is_caught(planted: Planted) {
    is_caught_from(0, planted);
}

/// Mistakes that few schedules catch are looked for from a seed near one that does.
fn is_caught_from(first: u64, planted: Planted) {
    let caught = (first..first + SEEDS).find(|seed| !simulate(*seed, Some(planted)).0.is_empty());
    assert!(caught.is_some(), "{planted:?}");
    eprintln!("{planted:?} is caught by seed {caught:?}");
}

#[test]
fn a_merge_that_forgets_what_it_does_not_see_is_caught() {
    is_caught(Planted::ForgetsUnseen);
}

#[test]
fn a_merge_that_forgets_too_early_is_caught() {
    is_caught_from(110, Planted::ForgetsEarly);
}

#[test]
fn a_merge_that_forgets_what_a_replay_brings_back_is_caught() {
    is_caught(Planted::ForgetsReplays);
}

#[test]
fn inputs_that_go_before_their_outputs_are_caught() {
    is_caught(Planted::RemovesInputsFirst);
}

#[test]
fn inputs_that_go_one_by_one_are_caught() {
    is_caught_from(75, Planted::RemovesInputsApart);
}
