//! Replicas that have got different writes, and are repaired. What each of them has afterwards is
//! read from its own storage.
//!
//! `NEREID_SIM_ROUNDS` sets how many schedules of random writes and faults run, `NEREID_SIM_SEED`
//! replays one.

use super::world::*;
use cluster::settings::Offer;
use model::{TableSchema, Token};
use mutation::compact::{CompactionFilter, Outside};
use mutation::range::{ClusteringPosition, ClusteringRange};
use mutation::{
    Cell, Fragment, FrozenMutation, Marker, MutationBuilder, RangeTombstone, RingBound,
};
use mutation::{RowBuilder, Tombstone, frozen};
use reader::multishard::MultishardOptions;
use reader::semaphore::Limits;
use reader::{Budget, Slice, Source};
use replication::repair::{Figures, How, Reading, Wanted, Watch};
use replication::{Consistency, Coordinator};
use runtime::io::IoClass;
use runtime::task::Scope;
use runtime::time::{sleep, wall_micros};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stdx::{Bytes, Prng};
use storage::{SourceOptions, Storage};
use testkit::config::{change, entry};
use testkit::rows;

const ONE: Consistency = Consistency::One;
const TABLES: [&str; 4] = ["t", "c", "r", "s"];
const KEYS: i32 = 12;

pub(super) type Repaired = (Figures, Result<(), String>);

/// What a node's storage has of a table: fragments of each partition, as text.
pub(super) type Contents = BTreeMap<i32, Vec<String>>;

fn judged(now: i64, fragments: Vec<Fragment>) -> Contents {
    let mut filter = CompactionFilter::new(now, Box::new(|_| Outside::UNKNOWN));
    let (mut kept, mut out, mut at) = (Vec::new(), Contents::new(), 0);
    fragments.into_iter().for_each(|fragment| filter.push(fragment, &mut kept));
    for fragment in kept {
        if let Fragment::PartitionStart { key, .. } = &fragment {
            at = i32::from_be_bytes(key.key[..].try_into().expect("an int"));
        }
        out.entry(at).or_default().push(format!("{fragment:?}"));
    }
    out
}

pub(super) fn contents(nodes: &mut Nodes, node: usize, table: &'static str, now: i64) -> Contents {
    let all = nodes.run(node, async move {
        let bound = |token, after| RingBound { token, key: None, after };
        let bounds = (bound(Token::MIN, false), bound(Token::MAX, true));
        let storage = runtime::local::get::<Storage>();
        let (id, how) = (entry("ks", table).schema.id, MultishardOptions::EXACT);
        let options = SourceOptions { bypass_cache: true, ..SourceOptions::QUERY };
        let source = storage.open_multishard(id, bounds, Slice::full(), options, how);
        let (mut source, mut out) = (source.expect("a source"), Vec::new());
        loop {
            let before = out.len();
            source.fill(Budget::BATCH, &mut out).await.expect("a fill");
            if out.len() == before {
                return out;
            }
        }
    });
    judged(now, all)
}

pub(super) fn now(nodes: &mut Nodes) -> i64 {
    nodes.run(0, async { wall_micros() / 1_000_000 })
}

pub(super) fn wanted(tables: &'static [&'static str]) -> impl FnOnce() -> Wanted {
    move || {
        let tables = tables.iter().map(|name| entry("ks", name).schema.id).collect();
        Wanted { tables, ..Wanted::default() }
    }
}

fn buffer(buffer_bytes: u32) -> How {
    How { buffer_bytes, ..How::default() }
}

pub(super) fn repair(
    nodes: &mut Nodes,
    node: usize,
    wanted: impl FnOnce() -> Wanted + 'static,
) -> Repaired {
    nodes.run(node, async move {
        let watch = Rc::new(Watch::default());
        let ended = coordinator().repair(wanted(), watch.clone()).await;
        assert_eq!(watch.done.get(), watch.ranges.get());
        (watch.figures.get(), ended)
    })
}

/// A repair that goes on while other things happen, and how it ended.
struct Running {
    ended: Rc<RefCell<Option<Repaired>>>,
    watch: Rc<Watch>,
}

struct Held {
    _scope: Scope,
}

fn begin(nodes: &mut Nodes, node: usize, wanted: impl FnOnce() -> Wanted + 'static) -> Running {
    let running = Running { ended: Rc::default(), watch: Rc::default() };
    let (ended, watch) = (running.ended.clone(), running.watch.clone());
    nodes.run(node, async move {
        let scope = Scope::new();
        drop(scope.spawn(async move {
            let repaired = coordinator().repair(wanted(), watch.clone()).await;
            *ended.borrow_mut() = Some((watch.figures.get(), repaired));
        }));
        runtime::local::set(Rc::new(Held { _scope: scope }));
    });
    running
}

/// Writes go to these nodes alone.
pub(super) fn only(nodes: &Nodes, alive: &[usize]) {
    for (node, is_alive) in nodes.known.alive.iter().enumerate() {
        is_alive.store(alive.contains(&node), Ordering::Relaxed);
    }
}

pub(super) fn all(nodes: &Nodes) -> Vec<usize> {
    (0..nodes.count()).collect()
}

pub(super) fn settle(nodes: &mut Nodes) {
    nodes.world.run_for(3 * SECOND);
    only(nodes, &all(nodes));
}

/// Three nodes, the last of which misses keys of `t`.
fn three_with_a_gap(seed: u64, shards: &[u16], missed: std::ops::Range<i32>) -> Nodes {
    let mut nodes = Nodes::new(seed, shards);
    put_all(&mut nodes, 0..100, 1);
    only(&nodes, &[0, 1]);
    put_all(&mut nodes, missed, 2);
    settle(&mut nodes);
    nodes
}

pub(super) fn put_all(nodes: &mut Nodes, keys: std::ops::Range<i32>, value: i32) {
    nodes.run(0, async move {
        for pk in keys {
            put(pk, value, value.into(), ONE).await.expect("a write");
        }
    });
    nodes.world.run_for(SECOND);
}

pub(super) fn found(
    nodes: &mut Nodes,
    node: usize,
    keys: std::ops::Range<i32>,
) -> Vec<Option<i32>> {
    nodes.run(node, async move {
        let mut found = Vec::new();
        for pk in keys {
            found.push(get(pk, ONE).await.expect("a read"));
        }
        found
    })
}

#[test]
fn a_node_gets_what_it_missed_and_nothing_else_travels() {
    for (seed, master) in [(1, 0), (2, 2), (3, 1)] {
        let mut nodes = three_with_a_gap(seed, &[2, 1, 3], 10..30);
        assert_eq!(found(&mut nodes, 2, 0..100).iter().filter(|it| **it == Some(2)).count(), 0);
        let (figures, ended) = repair(&mut nodes, master, wanted(&["t"]));
        ended.expect("a repair");
        let expected: Vec<_> =
            (0..100).map(|pk| Some(if (10..30).contains(&pk) { 2 } else { 1 })).collect();
        for node in 0..3 {
            assert_eq!(found(&mut nodes, node, 0..100), expected, "node {node}");
        }
        // A master that lacks them fetches each once, from the first that has it; it is sent the
        // old ones, of which all has something newer, by nobody.
        let (fetched, sent) = if master == 2 { (20, 0) } else { (20, 20) };
        assert_eq!((figures.fetched, figures.sent), (fetched, sent), "{figures:?}");
        let (again, ended) = repair(&mut nodes, 1, wanted(&["t"]));
        ended.expect("a repair");
        assert_eq!((again.hashes, again.fetched, again.sent, again.written), (0, 0, 0, 0));
        assert_eq!(again.bytes_of_rows, 0);
    }
}

/// As many rows as fit some buffers, of which few differ.
#[test]
fn bytes_are_those_of_rows_that_differ_and_hashes() {
    let mut nodes = Nodes::new(4, &[1, 1, 1]);
    let write = |nodes: &mut Nodes, pk: i32, from: i32, to: i32, timestamp: i64| {
        nodes.run(0, async move {
            let mutation = rows_of(pk, |builder, table| {
                (from..to).for_each(|ck| row(ck, ck, timestamp)(builder, table));
            });
            write_rows(pk, mutation, ONE).await.expect("a write");
        });
    };
    (0..40).for_each(|pk| write(&mut nodes, pk, 0, 600, 1));
    nodes.world.run_for(SECOND);
    only(&nodes, &[0, 1]);
    (0..40).for_each(|pk| write(&mut nodes, pk, 7, 8, 2));
    settle(&mut nodes);
    let (figures, ended) = repair(&mut nodes, 0, wanted(&["r"]));
    ended.expect("a repair");
    // The new versions go to the third node; its old ones came, since nobody knew them.
    assert_eq!((figures.fetched, figures.sent, figures.written), (40, 40, 0), "{figures:?}");
    let bytes = figures.bytes_sent + figures.bytes_received;
    let bound = figures.bytes_of_rows * 11 / 10 + 10 * figures.hashes;
    assert!(bytes <= bound, "{bytes} of {bound}: {figures:?}");
}

#[test]
fn a_partition_may_be_larger_than_the_buffer() {
    let mut nodes = Nodes::new(5, &[1, 2, 1]);
    let write = |nodes: &mut Nodes, cks: Vec<i32>, timestamp: i64| {
        nodes.run(0, async move {
            let mutation = rows_of(7, |builder, table| {
                cks.into_iter().for_each(|ck| row(ck, ck, timestamp)(builder, table));
            });
            write_rows(7, mutation, ONE).await.expect("a write");
        });
        nodes.world.run_for(SECOND);
    };
    write(&mut nodes, (0..600).collect(), 1);
    only(&nodes, &[0, 1]);
    write(&mut nodes, (0..600).step_by(5).collect(), 2);
    only(&nodes, &[0]);
    // A deletion of many rows, which the edges of buffers cut.
    nodes.run(0, async move {
        let range = ClusteringRange {
            start: ClusteringPosition::before(Bytes::copy_from(&clustering(100))),
            end: ClusteringPosition::after(Bytes::copy_from(&clustering(300))),
        };
        let tombstone = Tombstone::new(1, wall_micros() / 1_000_000);
        let deletion = rows_of(7, move |builder, _| {
            builder.delete_range(RangeTombstone { range, tombstone });
        });
        write_rows(7, deletion, ONE).await.expect("a write");
    });
    settle(&mut nodes);
    let small = || Wanted { how: buffer(3000), ..wanted(&["r"])() };
    let (figures, ended) = repair(&mut nodes, 1, small);
    ended.expect("a repair");
    assert!(20 < figures.rounds, "{figures:?}");
    let at = now(&mut nodes);
    let first = contents(&mut nodes, 0, "r", at);
    assert!(100 < first[&7].len());
    for node in 1..3 {
        assert_eq!(contents(&mut nodes, node, "r", at), first, "node {node}");
    }
    let (again, ended) = repair(&mut nodes, 0, small);
    ended.expect("a repair");
    assert_eq!((again.hashes, again.fetched, again.sent), (0, 0, 0), "{again:?}");
}

/// Random writes to random replicas, and what a node that got all of them would have.
struct Writes {
    nodes: Nodes,
    prng: Prng,
    model: BTreeMap<(&'static str, i32), FrozenMutation>,
    schemas: BTreeMap<&'static str, Rc<TableSchema>>,
    counts: BTreeMap<i32, i64>,
    step: i64,
}

impl Writes {
    fn new(seed: u64) -> Writes {
        let mut prng = Prng::from_seed(seed);
        let count = prng.between(3, 5);
        let shards: Vec<u16> = (0..count).map(|_| prng.between(1, 4) as u16).collect();
        let mut nodes = Nodes::new(seed, &shards);
        let schemas = nodes.run(0, async {
            TABLES.map(|name| (name, entry("ks", name).schema.clone())).into_iter().collect()
        });
        let (model, counts) = (BTreeMap::new(), BTreeMap::new());
        Writes { nodes, prng, model, schemas, counts, step: 0 }
    }

    fn below(&mut self, bound: u64) -> i32 {
        self.prng.below(bound) as i32
    }

    /// A change of a partition of `r` or `s`.
    fn change(&mut self, name: &'static str, pk: i32, timestamp: i64) -> FrozenMutation {
        let schema = self.schemas[name].clone();
        let tombstone = Tombstone::new(timestamp, timestamp / 1_000_000);
        let mut builder = MutationBuilder::new(&schema, &rows::key(pk));
        let column = |name: &str| schema.column(name).expect("a column").id;
        let (value, ck) = (timestamp as i32, self.below(30));
        let value = value.to_be_bytes();
        match self.below(8) {
            0 => builder.delete_partition(tombstone),
            1 => {
                let other = ck + self.below(10);
                let range = ClusteringRange {
                    start: ClusteringPosition::before(Bytes::copy_from(&clustering(ck))),
                    end: ClusteringPosition::after(Bytes::copy_from(&clustering(other))),
                };
                builder.delete_range(RangeTombstone { range, tombstone });
            }
            2 => {
                let mut row = RowBuilder::new(Vec::new());
                row.tombstone(tombstone);
                builder.row(&clustering(ck), &row.finish());
            }
            3 => {
                let (expiry, ttl) = (timestamp / 1_000_000 + i64::from(self.below(20)), 20);
                let mut row = RowBuilder::new(Vec::new());
                row.marker(Marker::Expiring { timestamp, expiry, ttl });
                row.cell(column("v"), Cell::expiring(timestamp, &value, expiry, ttl));
                builder.row(&clustering(ck), &row.finish());
            }
            4 if name == "s" => {
                let mut row = RowBuilder::new(Vec::new());
                row.cell(column("st"), Cell::live(timestamp, &value));
                builder.static_row(&row.finish()[..]);
            }
            5 => {
                let mut row = RowBuilder::new(Vec::new());
                row.cell(column("w"), Cell::dead(timestamp, timestamp / 1_000_000));
                builder.row(&clustering(ck), &row.finish());
            }
            _ => {
                for ck in ck..ck + 1 + self.below(5) {
                    let mut row = RowBuilder::new(Vec::new());
                    row.marker(Marker::Live { timestamp });
                    row.cell(column("v"), Cell::live(timestamp, &value));
                    builder.row(&clustering(ck), &row.finish());
                }
            }
        }
        builder.freeze()
    }

    fn write(&mut self) {
        let pk = self.below(KEYS as u64);
        let replicas = self.nodes.replicas_of(pk);
        let first = replicas[self.below(replicas.len() as u64) as usize];
        let bits = self.prng.next_u64();
        let who: Vec<usize> =
            replicas.into_iter().filter(|node| *node == first || bits >> node & 1 == 1).collect();
        only(&self.nodes, &who);
        self.step += 1;
        let step = self.step;
        let timestamp = self.nodes.run(first, async { wall_micros() }) + step;
        let name = TABLES[self.below(4) as usize];
        if name == "c" {
            *self.counts.entry(pk).or_default() += step;
            return self.nodes.run(first, async move {
                let table = entry("ks", "c");
                let (add, options) = (rows::add(&table, pk, step), write_options(ONE));
                let led = coordinator().increment(&table, rows::token(pk), add, &options).await;
                led.expect("an increment");
            });
        }
        let mutation = match name {
            "t" => {
                let schema = self.schemas[name].clone();
                let mut row = RowBuilder::new(Vec::new());
                row.marker(Marker::Live { timestamp });
                let column = schema.column("v").expect("a column").id;
                row.cell(column, Cell::live(timestamp, &pk.to_be_bytes()));
                let mut builder = MutationBuilder::new(&schema, &rows::key(pk));
                builder.row(&[], &row.finish());
                builder.freeze()
            }
            _ => self.change(name, pk, timestamp),
        };
        let (schema, model) = (&self.schemas[name], &mut self.model);
        let next = match model.remove(&(name, pk)) {
            None => mutation.clone(),
            Some(before) => {
                let views = (before.view().expect("one"), mutation.view().expect("one"));
                frozen::merge(schema, views.0, views.1)
            }
        };
        model.insert((name, pk), next);
        self.nodes.run(first, async move {
            let table = entry("ks", name);
            let (token, options) = (rows::token(pk), write_options(ONE));
            coordinator().write(&table, token, mutation, &options).await.expect("a write");
        });
        // Some is in files.
        if self.below(20) == 0 {
            self.nodes.run(first, async move {
                let id = entry("ks", name).schema.id;
                runtime::local::get::<Storage>().flush(id).await.expect("a flush");
            });
        }
    }

    fn write_many(&mut self) {
        (0..120).for_each(|_| self.write());
        settle(&mut self.nodes);
    }

    /// All replicas have what all of them have got together.
    fn check(&mut self) {
        let at = now(&mut self.nodes);
        for name in TABLES {
            let order = self.schemas[name].order.clone();
            let all: Vec<Contents> = (0..self.nodes.count())
                .map(|node| contents(&mut self.nodes, node, name, at))
                .collect();
            for pk in 0..KEYS {
                let replicas = self.nodes.replicas_of(pk);
                let expected = match name {
                    "c" => all[replicas[0]].get(&pk).cloned(),
                    _ => self.model.get(&(name, pk)).and_then(|mutation| {
                        let fragments = mutation.view().expect("one").fragments(&order);
                        judged(at, fragments).remove(&pk)
                    }),
                };
                for node in replicas {
                    let own = all[node].get(&pk);
                    assert_eq!(own, expected.as_ref(), "{name}: {pk} on node {node}");
                }
            }
        }
        for (pk, expected) in self.counts.clone() {
            for node in self.nodes.replicas_of(pk) {
                let counted = self.nodes.run(node, async move { count(pk, ONE).await });
                assert_eq!(counted, Ok(Some(expected)), "{pk} on node {node}");
            }
        }
    }

    /// One node has all ranges repaired, or each its primary ones.
    fn repair(&mut self) -> Vec<Repaired> {
        let buffer_bytes = [100, 500, 4000, 0][self.below(4) as usize];
        let wanted = move || Wanted { how: buffer(buffer_bytes), ..wanted(&TABLES)() };
        match self.below(2) {
            0 => {
                let node = self.below(self.nodes.count() as u64) as usize;
                let everywhere = move || Wanted { is_everywhere: true, ..wanted() };
                vec![repair(&mut self.nodes, node, everywhere)]
            }
            _ => {
                let primary = move || Wanted { is_primary: true, ..wanted() };
                (0..self.nodes.count()).map(|node| repair(&mut self.nodes, node, primary)).collect()
            }
        }
    }
}

#[test]
fn whatever_replicas_got_all_have_all_of_it_after_a_repair() {
    for seed in runtime::sim::seeds(4) {
        let mut writes = Writes::new(seed);
        writes.write_many();
        for (_, ended) in writes.repair() {
            ended.unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        }
        writes.check();
        for (figures, ended) in writes.repair() {
            ended.unwrap_or_else(|why| panic!("seed {seed}: {why}"));
            assert_eq!((figures.fetched, figures.sent, figures.written), (0, 0, 0), "seed {seed}");
        }
    }
}

/// A repair of which something happens to a replica or to who asks: it ends, and one after it finds
/// what it has left. Where a replica was only away for a moment it goes on by itself.
#[test]
fn whatever_happens_to_a_repair_the_next_one_ends_it() {
    let mut went_on = 0;
    for seed in runtime::sim::seeds(6) {
        let mut writes = Writes::new(1000 + seed);
        writes.write_many();
        let (master, other) = (0, 1 + seed as usize % 2);
        let small = || Wanted { how: buffer(300), at_once: 1, ..wanted(&TABLES)() };
        // Each takes its time.
        let nodes = &mut writes.nodes;
        for node in 1..nodes.count() {
            nodes.set_delay(node, master, Duration::from_millis(5));
        }
        let running = begin(nodes, master, small);
        let millis = 1 + writes.prng.below(400);
        nodes.world.run_for(Duration::from_millis(millis));
        let was_running = running.ended.borrow().is_none();
        match seed % 4 {
            // It is thought to be alive all the while.
            0 => {
                nodes.crash(other);
                nodes.known.alive[other].store(true, Ordering::Relaxed);
                nodes.start(other);
            }
            1 => {
                nodes.crash(other);
                nodes.world.run_for(30 * SECOND);
                nodes.start(other);
            }
            2 => {
                nodes.set_cut(other, true);
                nodes.world.run_for(Duration::from_millis(500));
                nodes.set_cut(other, false);
            }
            _ => {
                nodes.crash(master);
                nodes.start(master);
            }
        }
        nodes.world.run_for(400 * SECOND);
        let ended = running.ended.borrow_mut().take();
        match (seed % 4, ended) {
            (3, _) => {}
            (_, None) => panic!("seed {seed}: a repair that does not end"),
            (0 | 2, Some((_, ended))) => {
                ended.unwrap_or_else(|why| panic!("seed {seed}: {why}"));
                went_on += u32::from(was_running);
            }
            (_, Some((_, Err(why)))) => assert!(why.contains("is down"), "{why}"),
            (_, Some(_)) => {}
        }
        // What others kept for it is gone.
        for node in 0..nodes.count() {
            let kept = nodes.run(node, async { Coordinator::repair_sessions() });
            assert_eq!(kept, 0, "seed {seed}: node {node}");
        }
        for (_, ended) in writes.repair() {
            ended.unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        }
        writes.check();
    }
    assert!(0 < went_on, "no repair was hit");
}

#[test]
fn a_range_whose_replica_is_down_fails_and_the_others_go_on() {
    let mut nodes = Nodes::new(7, &[1, 1, 2, 1, 1]);
    only(&nodes, &[0]);
    let keys: Vec<i32> = (0..60).filter(|pk| nodes.replicas_of(*pk).contains(&0)).collect();
    let written = keys.clone();
    nodes.run(0, async move {
        for pk in written {
            put(pk, 1, 1, ONE).await.expect("a write");
        }
    });
    settle(&mut nodes);
    nodes.crash(1);
    let (_, ended) = repair(&mut nodes, 0, wanted(&["t"]));
    let why = ended.expect_err("a range without its replica");
    let name = id_of(1).to_string();
    assert!(why.contains(&name) && why.contains("is down") && why.contains("of"), "{why}");
    let (mut with, mut without) = (0, 0);
    for pk in keys {
        let replicas = nodes.replicas_of(pk);
        for node in replicas.iter().copied().filter(|node| ![0, 1].contains(node)) {
            let expected = (!replicas.contains(&1)).then_some(1);
            *(if expected.is_some() { &mut with } else { &mut without }) += 1;
            assert_eq!(found(&mut nodes, node, pk..pk + 1), [expected], "{pk} on node {node}");
        }
    }
    assert!(0 < with && 0 < without, "{with} {without}");
    // Without that node the others are brought up to date.
    let spared = || Wanted { without: [id_of(1)].into(), ..wanted(&["t"])() };
    repair(&mut nodes, 0, spared).1.expect("a repair of those that are there");
}

/// A deletion that is older than `gc_grace_seconds`, which one replica has not forgotten yet.
#[test]
fn old_deletions_are_compared_unless_they_count_as_forgotten() {
    let mut nodes = Nodes::new(11, &[1, 2, 1]);
    let write = |nodes: &mut Nodes, mutation: fn() -> FrozenMutation| {
        nodes.run(0, async move { write_rows(7, mutation(), ONE).await.expect("a write") });
        nodes.world.run_for(SECOND);
    };
    write(&mut nodes, || rows_of(7, row(1, 1, 1)));
    only(&nodes, &[0]);
    // Made soon after 1970.
    write(&mut nodes, || rows_of(7, deletion(2, 2_000_000)));
    settle(&mut nodes);
    let how = How { forgets: true, ..How::default() };
    let (figures, ended) = repair(&mut nodes, 1, move || Wanted { how, ..wanted(&["r"])() });
    ended.expect("a repair");
    assert_eq!((figures.hashes, figures.fetched, figures.sent), (0, 0, 0), "{figures:?}");
    let (figures, ended) = repair(&mut nodes, 1, wanted(&["r"]));
    ended.expect("a repair");
    assert_eq!((figures.fetched, figures.written, figures.sent), (1, 1, 1), "{figures:?}");
}

/// *each-once*: what is small is not cut into parts, and all of it is repaired.
#[test]
fn a_small_table_is_repaired_in_few_ranges() {
    let ranges = |nodes: &mut Nodes, is_small| {
        nodes.run(1, async move {
            let watch = Rc::new(Watch::default());
            let wanted = Wanted { is_small, ..wanted(&["r"])() };
            coordinator().repair(wanted, watch.clone()).await.expect("a repair");
            (watch.ranges.get(), watch.figures.get().fetched)
        })
    };
    let mut nodes = Nodes::new(13, &[1, 2, 1]);
    only(&nodes, &[0]);
    nodes.run(0, async { write_rows(7, rows_of(7, row(1, 1, 1)), ONE).await.expect("a write") });
    settle(&mut nodes);
    // A range for each set of nodes in turn.
    let (few, fetched) = ranges(&mut nodes, true);
    assert!(few <= 16 && fetched == 1, "{few} {fetched}");
    assert!(64 <= ranges(&mut nodes, false).0);
}

/// Replicas that are left out take no part; of tablets only those that hold a token.
#[test]
fn only_what_was_asked_for_is_repaired() {
    let mut nodes = three_with_a_gap(12, &[1, 1, 2], 0..100);
    let among = || Some([id_of(0), id_of(1)].into());
    repair(&mut nodes, 0, move || Wanted { among: among(), ..wanted(&["t"])() })
        .1
        .expect("a repair");
    assert_eq!(found(&mut nodes, 2, 0..100), vec![Some(1); 100]);
    repair(&mut nodes, 0, wanted(&["c", "r"])).1.expect("a repair of other tables");
    assert_eq!(found(&mut nodes, 2, 0..100), vec![Some(1); 100]);
    let token = rows::token(5);
    repair(&mut nodes, 1, move || Wanted { within: vec![(token, token)], ..wanted(&["t"])() })
        .1
        .expect("a repair of a token");
    let expected: Vec<_> = (0..100).map(|pk| Some(if pk == 5 { 2 } else { 1 })).collect();
    assert_eq!(found(&mut nodes, 2, 0..100), expected);
    let holding = rows::token(6);
    let (_, ended) =
        repair(&mut nodes, 2, move || Wanted { holding: vec![holding], ..wanted(&["t"])() });
    ended.expect("a repair of a range");
    let now = found(&mut nodes, 2, 0..100);
    let repaired = now.iter().filter(|value| **value == Some(2)).count();
    assert!(now[6] == Some(2) && repaired < 20, "{now:?}");
}

#[test]
fn a_table_that_is_dropped_meanwhile_is_no_error() {
    let mut nodes = three_with_a_gap(8, &[1, 1, 1], 0..100);
    for node in 1..3 {
        nodes.set_delay(node, 0, Duration::from_millis(20));
    }
    let small = || Wanted { how: buffer(1), at_once: 1, ..wanted(&["t"])() };
    let running = begin(&mut nodes, 0, small);
    nodes.world.run_for(Duration::from_millis(200));
    assert!(running.ended.borrow().is_none());
    for node in [1, 0, 2] {
        nodes.run(node, async {
            change(|_| {
                let (keyspace, name) = ("ks".to_owned(), "t".to_owned());
                vec![cluster::SchemaChange::DropTable { keyspace, name }]
            })
            .await;
        });
    }
    nodes.world.run_for(100 * SECOND);
    let ended = running.ended.borrow_mut().take().expect("an end");
    assert_eq!(ended.1, Ok(()));
}

#[test]
fn a_repair_ends_at_a_word() {
    let mut nodes = three_with_a_gap(9, &[1, 2, 1], 0..100);
    for node in 1..3 {
        nodes.set_delay(node, 0, Duration::from_millis(20));
    }
    let small = || Wanted { how: buffer(1), at_once: 1, ..wanted(&["t"])() };
    let running = begin(&mut nodes, 0, small);
    nodes.world.run_for(Duration::from_millis(200));
    assert!(running.ended.borrow().is_none());
    let watch = running.watch.clone();
    nodes.run(0, async move { watch.end() });
    nodes.world.run_for(2 * SECOND);
    let ended = running.ended.borrow_mut().take().expect("an end");
    assert!(ended.1.expect_err("not all was done").contains("it was ended"));
    assert_eq!(running.watch.done.get(), running.watch.ranges.get());
    nodes.run(0, async { sleep(SECOND).await });
    repair(&mut nodes, 0, wanted(&["t"])).1.expect("a repair");
    assert_eq!(found(&mut nodes, 2, 0..100), vec![Some(2); 100]);
}

/// Bytes that repairs have read of files, on all nodes.
fn bytes_read(nodes: &mut Nodes) -> u64 {
    let of_node = |node| {
        nodes.run(node, async {
            let read = || async { runtime::io::stats(IoClass::Streaming).read_bytes };
            runtime::on_all_shards(read).await.into_iter().sum::<u64>()
        })
    };
    (0..3).map(of_node).sum()
}

pub(super) fn flush_all(nodes: &mut Nodes, table: &'static str) {
    for node in 0..nodes.count() {
        nodes.run(node, async move {
            let flush = move || async move {
                let id = entry("ks", table).schema.id;
                runtime::local::get::<Storage>().flush(id).await.expect("a flush");
            };
            runtime::on_all_shards(flush).await;
        });
    }
}

#[test]
fn of_replicas_that_agree_nothing_is_read_a_second_time() {
    let mut nodes = Nodes::new(14, &[2, 1, 3]);
    put_all(&mut nodes, 0..100, 1);
    flush_all(&mut nodes, "t");
    let (first, ended) = repair(&mut nodes, 0, wanted(&["t"]));
    ended.expect("a repair");
    assert_eq!((first.known, first.sent, first.written), (0, 0, 0), "{first:?}");
    let read = bytes_read(&mut nodes);
    assert!(0 < read, "the first one reads files");
    // Whoever asks, and though what was in memory is in files now.
    for node in [0, 2, 1] {
        let (again, ended) = repair(&mut nodes, node, wanted(&["t"]));
        ended.expect("a repair");
        assert_eq!((again.known, again.rounds), (64, 0), "{again:?}");
        let bytes = again.bytes_sent + again.bytes_received;
        assert!(bytes <= 64 * 1024, "{bytes} bytes for 64 tablets");
        flush_all(&mut nodes, "t");
    }
    assert_eq!(bytes_read(&mut nodes), read);
    // All of it is read for who wants that, here and on others.
    for (node, is_everywhere) in [(1, false), (2, true)] {
        let how = How { is_full: true, ..How::default() };
        let full = move || Wanted { how, is_everywhere, ..wanted(&["t"])() };
        let (full, ended) = repair(&mut nodes, node, full);
        ended.expect("a repair");
        assert_eq!((full.known, full.sent), (0, 0), "{full:?}");
        assert!(read < bytes_read(&mut nodes), "nothing was read");
    }
    // One row that one replica has: its tablet alone is read.
    only(&nodes, &[1]);
    nodes.run(1, async { put(7, 9, 9, ONE).await.expect("a write") });
    settle(&mut nodes);
    let (third, ended) = repair(&mut nodes, 0, wanted(&["t"]));
    ended.expect("a repair");
    assert!(third.known < 64 && 48 <= third.known && 0 < third.sent, "{third:?}");
    assert_eq!(found(&mut nodes, 2, 7..8), [Some(9)]);
    // A node that has started anew knows nothing; the others are asked in vain.
    nodes.crash(2);
    nodes.start(2);
    settle(&mut nodes);
    let (fourth, ended) = repair(&mut nodes, 0, wanted(&["t"]));
    ended.expect("a repair");
    assert_eq!((fourth.known, fourth.sent), (0, 0), "{fourth:?}");
}

/// Nodes that know neither turns nor what is known; then all are of this version.
#[test]
fn nodes_that_do_not_know_of_turns_are_repaired_without() {
    let mut nodes = three_with_a_gap(16, &[2, 1, 3], 0..0);
    nodes.be_of_version(true);
    for (master, missed) in [(0, 10..30), (2, 30..50)] {
        only(&nodes, &[0, 1]);
        put_all(&mut nodes, missed.clone(), 2);
        settle(&mut nodes);
        let (figures, ended) = repair(&mut nodes, master, wanted(&["t"]));
        ended.expect("a repair");
        assert_eq!((figures.known, figures.fetched), (0, 20), "{figures:?}");
        assert_eq!(found(&mut nodes, 2, missed), [Some(2); 20]);
        let (again, ended) = repair(&mut nodes, master, wanted(&["t"]));
        ended.expect("a repair");
        assert_eq!((again.known, again.sent), (0, 0), "{again:?}");
    }
    // At another node's word, too.
    let everywhere = || Wanted { is_everywhere: true, ..wanted(&["t"])() };
    repair(&mut nodes, 1, everywhere).1.expect("a repair");
    nodes.be_of_version(false);
    repair(&mut nodes, 1, wanted(&["t"])).1.expect("a repair");
    let (known, ended) = repair(&mut nodes, 1, wanted(&["t"]));
    ended.expect("a repair");
    assert_eq!((known.known, known.rounds), (64, 0), "{known:?}");
}

/// A row comes to one replica after it was compared there, before the repair has ended. Counts that
/// are taken at the end, as a mistake that is planted here takes them, hide it from the next.
#[test]
fn what_comes_during_a_repair_is_not_taken_for_compared() {
    for planted in [false, true] {
        let mut nodes = Nodes::new(15, &[1, 1, 1]);
        nodes.run(0, async {
            let mutation = rows_of(7, |builder, table| {
                (100..400).for_each(|ck| row(ck, ck, 1)(builder, table));
            });
            write_rows(7, mutation, ONE).await.expect("a write");
        });
        nodes.world.run_for(SECOND);
        for node in 0..3 {
            if planted {
                nodes.run(node, async { Coordinator::plant_late_counts() });
            }
        }
        for node in 1..3 {
            nodes.set_delay(node, 0, Duration::from_millis(5));
        }
        let token = rows::token(7);
        let small =
            move || Wanted { how: buffer(500), within: vec![(token, token)], ..wanted(&["r"])() };
        let running = begin(&mut nodes, 0, small);
        nodes.world.run_for(Duration::from_millis(300));
        assert!(running.ended.borrow().is_none(), "it is over");
        nodes.run(1, async {
            let storage = runtime::local::get::<Storage>();
            storage.apply(rows_of(7, row(1, 1, 2))).await.expect("a write");
        });
        nodes.world.run_for(100 * SECOND);
        running.ended.borrow_mut().take().expect("an end").1.expect("a repair");
        let (second, ended) = repair(&mut nodes, 0, small);
        ended.expect("a repair");
        let at = now(&mut nodes);
        let all: Vec<Contents> = (0..3).map(|node| contents(&mut nodes, node, "r", at)).collect();
        let agree = all.iter().all(|one| *one == all[0]);
        assert_eq!((agree, second.known), (!planted, u64::from(planted)), "{second:?}");
    }
}

/// Writes to random replicas, flushes and crashes, also in the middle of repairs: where a repair
/// says that there is nothing to do, all replicas have what a naive model has.
#[test]
fn what_is_known_to_agree_agrees() {
    let mut known = 0;
    for seed in runtime::sim::seeds(3) {
        let mut writes = Writes::new(2000 + seed);
        for turn in 0..6 {
            (0..writes.prng.below(6)).for_each(|_| writes.write());
            settle(&mut writes.nodes);
            let master = writes.below(writes.nodes.count() as u64) as usize;
            let small = || Wanted { how: buffer(300), ..wanted(&TABLES)() };
            let running = begin(&mut writes.nodes, master, small);
            writes.nodes.world.run_for(Duration::from_millis(writes.prng.below(30)));
            (0..writes.prng.below(3)).for_each(|_| writes.write());
            settle(&mut writes.nodes);
            writes.nodes.world.run_for(30 * SECOND);
            drop(running);
            match writes.below(4) {
                0 => {
                    let node = writes.below(writes.nodes.count() as u64) as usize;
                    writes.nodes.crash(node);
                    writes.nodes.start(node);
                    settle(&mut writes.nodes);
                }
                1 => TABLES.iter().for_each(|table| flush_all(&mut writes.nodes, table)),
                _ => {}
            }
            for (figures, ended) in writes.repair() {
                ended.unwrap_or_else(|why| panic!("seed {seed}, turn {turn}: {why}"));
                known += figures.known;
            }
            writes.check();
        }
    }
    assert!(100 < known, "only {known} ranges were known");
}

/// All shards of all nodes give few permits to reads of repairs, and have this hint.
fn be_short_of_permits(nodes: &mut Nodes, hint_bytes: i64) {
    for node in 0..nodes.count() {
        nodes.run(node, async move {
            let be_short = move || async move {
                let storage = runtime::local::get::<Storage>();
                let streaming = storage.semaphores()[2];
                streaming.set_limits(Limits { count: 2, ..streaming.limits() });
                let name = "repair_multishard_reader_buffer_hint_size";
                let (kind, source, shown) = ("integer", "cli", hint_bytes.to_string());
                let offer = Offer { name, kind, source, shown, changes: true };
                cluster::Settings::of_shard().offer(offer);
                Reading::provide();
            };
            runtime::on_all_shards(be_short).await;
        });
    }
}

fn evictions(nodes: &mut Nodes) -> u64 {
    let of_node = |node| {
        nodes.run(node, async {
            let count = || async {
                let storage = runtime::local::get::<Storage>();
                storage.semaphores()[2].counters().permit_based_evictions
            };
            runtime::on_all_shards(count).await.into_iter().sum::<u64>()
        })
    };
    (0..3).map(of_node).sum()
}

/// Many ranges of all nodes at once, on shards that have permits for few: with turns no read is
/// given up for another one, and nobody waits in a circle. Without a hint there are none.
#[test]
fn ranges_take_turns_where_permits_are_few() {
    for (hint_bytes, gives_up) in [(4096, false), (0, true)] {
        let mut nodes = Nodes::new(13, &[3, 2, 4]);
        for pk in 0..40 {
            nodes.run(0, async move {
                let mutation = rows_of(pk, |builder, table| {
                    (0..600).for_each(|ck| row(ck, ck, 1)(builder, table));
                });
                write_rows(pk, mutation, ONE).await.expect("a write");
            });
        }
        nodes.world.run_for(SECOND);
        be_short_of_permits(&mut nodes, hint_bytes);
        let small = || Wanted { how: buffer(20_000), ..wanted(&["r"])() };
        let running: Vec<Running> = (0..3).map(|node| begin(&mut nodes, node, small)).collect();
        nodes.world.run_for(100 * SECOND);
        for running in running {
            let (figures, ended) = running.ended.borrow_mut().take().expect("an end");
            ended.expect("a repair");
            assert_eq!((figures.fetched, figures.sent), (0, 0), "{figures:?}");
        }
        let evictions = evictions(&mut nodes);
        assert_eq!(0 < evictions, gives_up, "{evictions} with a hint of {hint_bytes}");
    }
}

/// Writes rows that do not compress to partitions of `b`, so many KiB to each, and flushes them.
fn put_blobs(nodes: &mut Nodes, (keys, kib): (i32, i32), from: i32) {
    for pk in 0..keys {
        nodes.run(0, async move {
            let table = entry("ks", "b");
            let mut prng = Prng::from_seed((pk * 1000 + from) as u64);
            let mut builder = MutationBuilder::new(&table.schema, &rows::key(pk));
            let column = table.schema.column("v").expect("a column").id;
            for ck in from..from + kib / 4 {
                let mut value = vec![0; 4 << 10];
                prng.fill(&mut value);
                let mut row = RowBuilder::new(Vec::new());
                row.cell(column, Cell::live(1, &value));
                builder.row(&clustering(ck), &row.finish());
            }
            let (token, options) = (rows::token(pk), write_options(Consistency::All));
            let written = coordinator().write(&table, token, builder.freeze(), &options).await;
            written.expect("a write");
        });
    }
    flush_all(nodes, "b");
}

/// SSTables that are large beside the memory for reads: a turn counts on what reads of them take,
/// and who waits reads nothing.
#[test]
fn ranges_take_turns_where_memory_is_little() {
    let mut nodes = Nodes::new(17, &[2, 1, 2]);
    for node in 0..3 {
        nodes.run(node, async {
            let be_short = || async {
                let storage = runtime::local::get::<Storage>();
                storage.set_auto_compaction(entry("ks", "b").schema.id, false);
                let streaming = storage.semaphores()[2];
                let memory_bytes = 1600 << 10;
                streaming.set_limits(Limits {
                    memory_bytes,
                    shared_bytes: 0,
                    ..streaming.limits()
                });
            };
            runtime::on_all_shards(be_short).await;
        });
    }
    (0..4).for_each(|sstable| put_blobs(&mut nodes, (12, 240), 60 * sstable));
    let running: Vec<Running> =
        (0..3).map(|node| begin(&mut nodes, node, wanted(&["b"]))).collect();
    nodes.world.run_for(100 * SECOND);
    for running in running {
        let (figures, ended) = running.ended.borrow_mut().take().expect("an end");
        ended.expect("a repair");
        assert_eq!((figures.fetched, figures.sent), (0, 0), "{figures:?}");
    }
    assert_eq!(evictions(&mut nodes), 0);
}

/// Nodes repair at the same time, more ranges than others keep sessions for.
#[test]
fn all_nodes_repair_at_once() {
    let mut nodes = three_with_a_gap(10, &[1, 1, 1], 0..100);
    let running: Vec<Running> =
        (0..3).map(|node| begin(&mut nodes, node, wanted(&TABLES))).collect();
    nodes.world.run_for(100 * SECOND);
    for running in running {
        running.ended.borrow_mut().take().expect("an end").1.expect("a repair");
    }
    assert_eq!(found(&mut nodes, 2, 0..100), vec![Some(2); 100]);
}
