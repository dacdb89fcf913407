//! What nodes miss while they are away, others keep for them and send when they are back: all of
//! it, without a read, unless it may not be kept or is not worth it any more.

use super::world::*;
use cluster::Cluster;
use replication::hints::decide::Enabled;
use replication::hints::{Hints, Options, Planted, point};
use replication::{BatchEntry, BatchKind, Consistency, Coordinator, WriteError};
use runtime::time::{sleep, wall_micros};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use stdx::Prng;
use testkit::config::entry;
use testkit::rows;

const ANY: Consistency = Consistency::Any;
const ONE: Consistency = Consistency::One;
const QUORUM: Consistency = Consistency::Quorum;

fn hints() -> Rc<Hints> {
    Hints::of_shard().expect("hints of a shard")
}

/// Three nodes of one shard that keep hints.
fn three(seed: u64) -> Nodes {
    Plan::new(seed, &[1, 1, 1]).hinting(Hinting::new()).start()
}

fn write(nodes: &mut Nodes, coordinator: usize, keys: std::ops::Range<i32>, value: i32) {
    write_at(nodes, QUORUM, coordinator, keys, value);
}

fn write_at(
    nodes: &mut Nodes,
    level: Consistency,
    coordinator: usize,
    keys: std::ops::Range<i32>,
    value: i32,
) {
    nodes.run(coordinator, async move {
        for pk in keys {
            put(pk, value, value.into(), level).await.expect("a write");
        }
    });
}

/// What a node has, which asks nobody else: it is a replica.
fn found(nodes: &mut Nodes, node: usize, keys: std::ops::Range<i32>) -> Vec<Option<i32>> {
    let all = keys.clone().all(|pk| nodes.replicas_of(pk).contains(&node));
    assert!(all, "node {node} is no replica of {keys:?}");
    nodes.run(node, async move {
        let mut found = Vec::new();
        for pk in keys {
            found.push(get(pk, ONE).await.expect("a read"));
        }
        found
    })
}

fn set(nodes: &mut Nodes, node: usize, change: impl FnOnce(&mut Options) + 'static) {
    nodes.run(node, async move {
        let mut options = hints().options();
        change(&mut options);
        hints().set(options);
    });
}

/// Written, sent, dropped and discarded hints of a node's first shard.
fn counted(nodes: &mut Nodes, node: usize) -> (u64, u64, u64, u64) {
    nodes.run(node, async {
        let hints = hints();
        let all = hints.counters();
        (all.written.get(), all.sent.get(), all.dropped.get(), all.discarded.get())
    })
}

fn segments(nodes: &mut Nodes, node: usize) -> Vec<String> {
    let files = nodes.disk(node).files();
    files.into_iter().filter(|file| file.starts_with(HINTS) && file.ends_with(".log")).collect()
}

#[test]
fn what_a_node_misses_it_is_sent() {
    let mut nodes = three(1);
    nodes.crash(2);
    write(&mut nodes, 0, 0..20, 1);
    nodes.world.run_for(2 * SECOND);
    write(&mut nodes, 0, 20..30, 1);
    nodes.world.run_for(2 * SECOND);
    assert!(1 < segments(&mut nodes, 0).len(), "several segments");
    nodes.start(2);
    nodes.world.run_for(5 * SECOND);
    assert_eq!(found(&mut nodes, 2, 0..30), vec![Some(1); 30]);
    assert_eq!(counted(&mut nodes, 0), (30, 30, 0, 0));
    assert_eq!(segments(&mut nodes, 0), Vec::<String>::new());
    let received = nodes.run(2, async { hints().counters().received.get() });
    assert_eq!(received, 30);
    nodes.run(0, async { assert_eq!(hints().bytes(), (0, 0)) });
}

#[test]
fn hints_survive_crashes_of_who_has_them() {
    let mut nodes = three(2);
    nodes.crash(2);
    write(&mut nodes, 0, 0..20, 1);
    nodes.world.run_for(2 * SECOND);
    nodes.crash(0);
    nodes.start(0);
    write(&mut nodes, 0, 20..40, 1);
    nodes.world.run_for(2 * SECOND);
    nodes.crash(0);
    nodes.crash(1);
    nodes.start(2);
    nodes.start(0);
    nodes.world.run_for(5 * SECOND);
    assert_eq!(found(&mut nodes, 2, 0..40), vec![Some(1); 40]);
}

#[test]
fn a_later_write_stays_whatever_hints_come() {
    let mut nodes = three(3);
    nodes.crash(2);
    write(&mut nodes, 0, 0..5, 1);
    nodes.run(0, async { hints().pause(true) });
    nodes.start(2);
    write(&mut nodes, 1, 0..5, 2);
    nodes.world.run_for(3 * SECOND);
    assert_eq!(found(&mut nodes, 2, 0..5), vec![Some(2); 5]);
    assert_eq!(counted(&mut nodes, 0).1, 0, "paused");
    nodes.run(0, async { hints().pause(false) });
    nodes.world.run_for(3 * SECOND);
    assert_eq!(counted(&mut nodes, 0).1, 5);
    assert_eq!(found(&mut nodes, 2, 0..5), vec![Some(2); 5]);
}

#[test]
fn who_is_only_cut_off_is_sent_what_it_missed() {
    let mut nodes = three(4);
    nodes.set_cut(2, true);
    write(&mut nodes, 0, 0..10, 1);
    nodes.world.run_for(5 * SECOND);
    assert_eq!(counted(&mut nodes, 0).0, 10, "a time that is over is a hint");
    nodes.set_cut(2, false);
    nodes.world.run_for(40 * SECOND);
    assert_eq!(found(&mut nodes, 2, 0..10), vec![Some(1); 10]);
}

#[test]
fn batches_and_counters_are_kept_too() {
    let mut nodes = three(18);
    nodes.crash(2);
    nodes.run(0, async {
        let table = entry("ks", "t");
        let part = |pk: i32| BatchEntry {
            table: table.clone(),
            token: rows::token(pk),
            mutation: rows::put(&table, pk, 1, 1),
        };
        let options = write_options(QUORUM);
        for kind in [BatchKind::Logged, BatchKind::Unlogged] {
            let parts = (0..10).map(part).collect();
            coordinator().write_batch(kind, parts, &options).await.expect("a batch");
        }
        let table = entry("ks", "c");
        for pk in [1, 2, 1] {
            let add = rows::add(&table, pk, 5);
            coordinator().increment(&table, rows::token(pk), add, &options).await.expect("led");
        }
    });
    nodes.start(2);
    nodes.world.run_for(5 * SECOND);
    assert_eq!(found(&mut nodes, 2, 0..10), vec![Some(1); 10]);
    nodes.run(2, async {
        assert_eq!(count(1, ONE).await, Ok(Some(10)));
        assert_eq!(count(2, ONE).await, Ok(Some(5)));
    });
}

/// A node goes while it is sent hints: those that it did not acknowledge are sent again.
#[test]
fn what_fails_on_its_way_is_sent_again() {
    let mut hinting = Hinting::new();
    hinting.config.segment_bytes = 1 << 20;
    let mut nodes = Plan::new(19, &[1, 1, 1]).hinting(hinting).start();
    nodes.crash(2);
    write(&mut nodes, 0, 0..200, 1);
    nodes.world.run_for(2 * SECOND);
    set(&mut nodes, 0, |options| options.bytes_per_second = 300);
    nodes.start(2);
    for round in 0..4 {
        nodes.world.run_for(2 * SECOND);
        match round % 2 {
            0 => {
                nodes.crash(2);
                nodes.world.run_for(SECOND);
                nodes.start(2);
            }
            _ => {
                nodes.set_cut(2, true);
                nodes.world.run_for(12 * SECOND);
                nodes.set_cut(2, false);
            }
        }
    }
    let (_, sent, ..) = counted(&mut nodes, 0);
    assert!(10 < sent && sent < 200, "{sent} were sent so far");
    set(&mut nodes, 0, |options| options.bytes_per_second = 0);
    nodes.world.run_for(30 * SECOND);
    assert_eq!(found(&mut nodes, 2, 0..200), vec![Some(1); 200]);
    let errors = nodes.run(0, async { hints().counters().send_errors.get() });
    assert!(0 < errors, "nothing has failed");
}

/// Keys whose one copy is on that node.
fn keys_of(nodes: &Nodes, node: usize) -> Vec<i32> {
    (0..100).filter(|pk| nodes.replicas_of(*pk) == [node]).take(4).collect()
}

#[test]
fn at_any_a_hint_is_enough_and_is_on_the_disk_by_then() {
    let mut nodes = Plan::with(5, &[(1, 0); 3], 1, None).hinting(Hinting::new()).start();
    let keys = keys_of(&nodes, 2);
    nodes.crash(2);
    let (first, rest) = (keys[0], keys[1..].to_vec());
    nodes.run(0, async move {
        let one = put(first, 1, 1, ONE).await;
        assert!(matches!(one, Err(WriteError::Unavailable { alive: 0, .. })), "{one:?}");
        for pk in rest {
            put(pk, 1, 1, ANY).await.expect("a write");
        }
    });
    nodes.crash(0);
    nodes.start(2);
    nodes.start(0);
    nodes.world.run_for(5 * SECOND);
    nodes.run(2, async move {
        assert_eq!(get(first, ONE).await, Ok(None), "what was unavailable is nowhere");
        for pk in &keys[1..] {
            assert_eq!(get(*pk, ONE).await, Ok(Some(1)));
        }
    });
}

#[test]
fn at_any_what_may_not_be_kept_is_unavailable() {
    let mut nodes = Plan::with(6, &[(1, 0); 3], 1, None).hinting(Hinting::new()).start();
    let key = keys_of(&nodes, 2)[0];
    nodes.crash(2);
    set(&mut nodes, 0, |options| options.enabled = Enabled::No);
    nodes.run(0, async move {
        let any = put(key, 1, 1, ANY).await;
        let (required, alive, consistency) = (1, 0, ANY);
        assert_eq!(any, Err(WriteError::Unavailable { consistency, required, alive }));
    });
    set(&mut nodes, 0, |options| options.enabled = Enabled::Everywhere);
    nodes.disk(0).set_capacity(Some(1));
    nodes.run(0, async move {
        let any = put(key, 1, 1, ANY).await;
        assert!(matches!(any, Err(WriteError::Timeout { received: 0, .. })), "{any:?}");
    });
}

#[test]
fn hints_are_kept_within_the_window_and_for_whom_they_are_enabled() {
    let plan = Plan::with(7, &[(1, 0), (1, 0), (1, 1), (1, 1)], 4, None);
    let mut nodes = plan.hinting(Hinting::new()).start();
    set(&mut nodes, 0, |options| options.window = 10 * SECOND);
    nodes.crash(2);
    nodes.world.run_for(5 * SECOND);
    write(&mut nodes, 0, 0..5, 1);
    nodes.world.run_for(10 * SECOND);
    write(&mut nodes, 0, 5..10, 1);
    assert_eq!(counted(&mut nodes, 0).2, 5, "the window is over");
    // The window of another node is another one.
    nodes.crash(1);
    write_at(&mut nodes, ONE, 0, 10..15, 1);
    nodes.start(1);
    nodes.start(2);
    nodes.world.run_for(5 * SECOND);
    let (some, none) = (vec![Some(1); 5], vec![None; 5]);
    assert_eq!(found(&mut nodes, 1, 10..15), some);
    assert_eq!(found(&mut nodes, 2, 0..10), [&some[..], &none].concat());
    // A node that comes back and goes has a new window.
    nodes.crash(2);
    set(&mut nodes, 0, |options| options.enabled = Enabled::In(vec!["dc1".to_owned()]));
    write(&mut nodes, 0, 15..20, 1);
    set(&mut nodes, 0, |options| options.enabled = Enabled::In(vec!["dc2".to_owned()]));
    write(&mut nodes, 0, 20..25, 1);
    nodes.start(2);
    nodes.world.run_for(5 * SECOND);
    assert_eq!(found(&mut nodes, 2, 15..25), [none, some].concat());
}

#[test]
fn the_disk_has_no_more_hints_than_it_may() {
    let mut hinting = Hinting::new();
    hinting.config.disk_bytes_max = Some(2000);
    let mut nodes = Plan::new(8, &[1, 1, 1]).hinting(hinting).start();
    nodes.crash(2);
    for round in 0..20 {
        write(&mut nodes, 0, 5 * round..5 * round + 5, 1);
        nodes.world.run_for(2 * SECOND);
    }
    let (written, _, dropped, _) = counted(&mut nodes, 0);
    assert!(5 < written && 5 < dropped && written + dropped == 100, "{written} and {dropped}");
    nodes.run(0, async { assert!(hints().bytes().1 <= 2200) });
    nodes.start(2);
    nodes.world.run_for(5 * SECOND);
    let there = found(&mut nodes, 2, 0..100).into_iter().filter(Option::is_some).count();
    assert_eq!(there as u64, written);
    // There is room again.
    nodes.crash(2);
    write(&mut nodes, 0, 100..105, 1);
    nodes.start(2);
    nodes.world.run_for(5 * SECOND);
    assert_eq!(found(&mut nodes, 2, 100..105), vec![Some(1); 5]);
}

#[test]
fn a_full_disk_costs_hints_and_nothing_else() {
    let mut nodes = Plan::new(9, &[1, 1, 1, 1]).hinting(Hinting::new()).start();
    // Node 0 has none of these, so that its disk is for hints alone.
    let keys: Vec<i32> =
        (0..200).filter(|pk| !nodes.replicas_of(*pk).contains(&0)).take(9).collect();
    nodes.crash(3);
    let write = |nodes: &mut Nodes, keys: &[i32]| {
        let keys = keys.to_vec();
        nodes.run(0, async move {
            for pk in keys {
                put(pk, 1, 1, QUORUM).await.expect("a write");
            }
        });
        nodes.world.run_for(3 * SECOND);
    };
    write(&mut nodes, &keys[..3]);
    nodes.disk(0).set_capacity(Some(1));
    write(&mut nodes, &keys[3..6]);
    let (written, _, dropped, _) = counted(&mut nodes, 0);
    assert_eq!((written, dropped), (3, 3));
    nodes.disk(0).set_capacity(None);
    write(&mut nodes, &keys[6..]);
    nodes.start(3);
    nodes.world.run_for(5 * SECOND);
    nodes.run(3, async move {
        for (index, pk) in keys.into_iter().enumerate() {
            let expected = (!(3..6).contains(&index)).then_some(1);
            assert_eq!(get(pk, ONE).await, Ok(expected), "key {index}");
        }
    });
}

#[test]
fn a_torn_segment_is_read_up_to_the_tear() {
    let mut hinting = Hinting::new();
    hinting.config.segment_bytes = 1 << 20;
    let mut nodes = Plan::new(10, &[1, 1, 1]).hinting(hinting).start();
    nodes.crash(2);
    write(&mut nodes, 0, 0..10, 1);
    nodes.world.run_for(2 * SECOND);
    nodes.crash(0);
    let segment = segments(&mut nodes, 0).pop().expect("a segment");
    let bytes = nodes.disk(0).read(&segment).expect("a file").len() as u64;
    nodes.disk(0).truncate(&segment, bytes - 3);
    // One in the middle is damaged.
    nodes.disk(0).corrupt(&segment, bytes / 2, 1);
    nodes.start(0);
    nodes.start(2);
    nodes.world.run_for(5 * SECOND);
    let there = found(&mut nodes, 2, 0..10);
    assert_eq!(there[9], None, "the torn one");
    let damaged = nodes.run(0, async { hints().counters().damaged.get() });
    assert_eq!(damaged, 2);
    assert_eq!(there.iter().filter(|one| one.is_some()).count(), 8, "{there:?}");
    assert_eq!(segments(&mut nodes, 0), Vec::<String>::new());
}

#[test]
fn what_is_too_old_or_was_truncated_is_not_sent() {
    let mut nodes = three(11);
    nodes.crash(2);
    write(&mut nodes, 0, 0..5, 1);
    nodes.world.run_for(2 * SECOND);
    nodes.skew(0, 864_001_000_000);
    nodes.start(2);
    nodes.world.run_for(5 * SECOND);
    assert_eq!(found(&mut nodes, 2, 0..5), vec![None; 5]);
    assert_eq!(counted(&mut nodes, 0).3, 5);

    nodes.crash(2);
    write(&mut nodes, 0, 5..10, 1);
    nodes.run(0, async { hints().pause(true) });
    nodes.start(2);
    let truncate = async {
        let table = entry("ks", "t").schema.id;
        coordinator().truncate(table, 10 * SECOND).await.expect("a truncation");
    };
    nodes.run(1, truncate);
    nodes.crash(2);
    write(&mut nodes, 0, 10..15, 1);
    nodes.world.run_for(2 * SECOND);
    nodes.crash(0);
    nodes.start(0);
    nodes.start(2);
    nodes.world.run_for(5 * SECOND);
    assert_eq!(found(&mut nodes, 2, 5..15), [vec![None; 5], vec![Some(1); 5]].concat());
}

/// A hint is on its way while its table is truncated. A node that does not know when hints were
/// written takes it, and has the rows again.
#[test]
fn a_hint_that_comes_after_a_truncation_brings_nothing_back() {
    for is_old in [false, true] {
        let mut nodes = three(13);
        nodes.be_of_version(is_old);
        nodes.crash(2);
        write(&mut nodes, 0, 0..5, 1);
        nodes.world.run_for(2 * SECOND);
        nodes.run(0, async { hints().pause(true) });
        nodes.start(2);
        nodes.world.run_for(2 * SECOND);
        nodes.set_delay(0, 2, 4 * SECOND);
        nodes.run(0, async { hints().pause(false) });
        nodes.world.run_for(SECOND);
        nodes.run(1, async {
            let table = entry("ks", "t").schema.id;
            coordinator().truncate(table, 10 * SECOND).await.expect("a truncation");
        });
        assert_eq!(found(&mut nodes, 2, 0..5), [None; 5]);
        nodes.set_delay(0, 2, Duration::ZERO);
        nodes.world.run_for(20 * SECOND);
        assert_eq!(found(&mut nodes, 2, 0..5), [is_old.then_some(1); 5], "{is_old}");
        assert_eq!(segments(&mut nodes, 0), Vec::<String>::new());
        // What is written after it comes, as a hint, too.
        nodes.crash(2);
        write(&mut nodes, 0, 5..10, 1);
        nodes.world.run_for(2 * SECOND);
        nodes.start(2);
        nodes.world.run_for(5 * SECOND);
        assert_eq!(found(&mut nodes, 2, 5..10), [Some(1); 5]);
    }
}

#[test]
fn hints_of_shards_that_are_no_more_are_sent() {
    let mut nodes = Plan::new(12, &[5, 1, 1]).hinting(Hinting::new()).start();
    nodes.crash(2);
    for shard in 0..5 {
        nodes.run_on((0, shard), async move {
            let first = 10 * i32::from(shard);
            for pk in first..first + 10 {
                put(pk, 1, 1, QUORUM).await.expect("a write");
            }
        });
    }
    nodes.world.run_for(2 * SECOND);
    nodes.crash(0);
    nodes.set_shards(0, 2);
    nodes.start(0);
    nodes.start(2);
    nodes.world.run_for(5 * SECOND);
    assert_eq!(found(&mut nodes, 2, 0..50), vec![Some(1); 50]);
    assert_eq!(segments(&mut nodes, 0), Vec::<String>::new());
}

#[test]
fn hints_are_no_faster_than_they_may_be() {
    let mut nodes = three(13);
    nodes.crash(2);
    write(&mut nodes, 0, 0..100, 1);
    nodes.world.run_for(2 * SECOND);
    set(&mut nodes, 0, |options| options.bytes_per_second = 200);
    nodes.start(2);
    nodes.world.run_for(5 * SECOND);
    let sent = nodes.run(0, async { hints().counters().sent_bytes.get() });
    assert!(0 < sent && sent < 1500, "{sent} bytes");
    set(&mut nodes, 0, |options| options.bytes_per_second = 0);
    nodes.world.run_for(10 * SECOND);
    assert_eq!(found(&mut nodes, 2, 0..100), vec![Some(1); 100]);
}

#[test]
fn a_sync_point_is_reached_when_all_was_sent() {
    let mut nodes = three(14);
    nodes.crash(2);
    write(&mut nodes, 0, 0..20, 1);
    let me = async || runtime::local::get::<Cluster>().node().host_id;
    let marked = nodes.run(0, async move { point::mark(me().await, vec![id_of(2)]).await });
    let other = nodes.run(0, async move { point::mark(me().await, vec![id_of(1)]).await });
    let wait = move |nodes: &mut Nodes, point: point::Point, time: Duration| {
        nodes.run(0, async move { point::wait(me().await, point, time).await })
    };
    assert_eq!(wait(&mut nodes, other, Duration::ZERO), Ok(true));
    assert_eq!(wait(&mut nodes, marked.clone(), SECOND), Ok(false));
    write(&mut nodes, 0, 20..40, 1);
    nodes.start(2);
    assert_eq!(wait(&mut nodes, marked.clone(), 10 * SECOND), Ok(true));
    assert_eq!(found(&mut nodes, 2, 0..20), vec![Some(1); 20]);
    let elsewhere = nodes.run(1, async move { point::wait(me().await, marked, SECOND).await });
    assert!(elsewhere.is_err(), "{elsewhere:?}");
}

#[test]
fn hints_are_dropped_when_an_operator_says_so() {
    let mut nodes = three(15);
    nodes.crash(2);
    write(&mut nodes, 0, 0..10, 1);
    nodes.run(0, async { hints().discard(Some(id_of(2))).await });
    write(&mut nodes, 0, 10..20, 1);
    nodes.start(2);
    nodes.world.run_for(5 * SECOND);
    assert_eq!(found(&mut nodes, 2, 0..20), [vec![None; 10], vec![Some(1); 10]].concat());
}

/// A stop in order keeps what had not been written yet.
#[test]
fn a_stop_writes_what_waits() {
    let mut nodes = three(16);
    nodes.crash(2);
    nodes.run(0, async {
        for pk in 0..10 {
            put(pk, 1, 1, QUORUM).await.expect("a write");
        }
        Hints::stop().await;
    });
    nodes.crash(0);
    nodes.start(0);
    nodes.start(2);
    nodes.world.run_for(5 * SECOND);
    assert_eq!(found(&mut nodes, 2, 0..10), vec![Some(1); 10]);
}

/// So does one while replicas have not answered yet.
#[test]
fn a_stop_keeps_what_was_on_its_way() {
    let mut nodes = three(17);
    nodes.set_cut(2, true);
    nodes.run(0, async {
        for pk in 0..10 {
            put(pk, 1, 1, QUORUM).await.expect("a write");
        }
        assert_eq!(hints().bytes(), (0, 0), "their time is not over");
        Coordinator::stop().await;
        Hints::stop().await;
    });
    nodes.crash(0);
    nodes.set_cut(2, false);
    nodes.start(0);
    nodes.world.run_for(5 * SECOND);
    assert_eq!(found(&mut nodes, 2, 0..10), vec![Some(1); 10]);
}

/// After so long a write has ended, and hints of it are on the disk.
const SETTLED: Duration = Duration::from_secs(5);

/// What was acknowledged, each key once: by whom, and when.
#[derive(Default)]
struct Model {
    next: Cell<i32>,
    acknowledged: RefCell<Vec<(i32, usize, i64)>>,
    is_quiet: Cell<bool>,
}

struct Clients {
    _scope: runtime::task::Scope,
}

async fn client(model: Rc<Model>, node: usize) {
    while !model.is_quiet.get() {
        let key = model.next.get();
        model.next.set(key + 1);
        if put(key, key, 1, QUORUM).await.is_ok() {
            model.acknowledged.borrow_mut().push((key, node, wall_micros()));
        }
        sleep(Duration::from_micros(runtime::random_u64() % 300_000)).await;
    }
}

struct Schedule {
    nodes: Nodes,
    model: Rc<Model>,
    prng: Prng,
    /// Who died when.
    deaths: Vec<(usize, i64)>,
}

impl Schedule {
    fn new(seed: u64, planted: Option<Planted>) -> Schedule {
        let mut prng = Prng::from_seed(seed);
        // Every other schedule has two data centres, of several replicas each.
        let centers = 1 + seed % 2;
        let (count, copies) = if centers == 1 { (prng.between(3, 5), 3) } else { (5, 4) };
        let node = |node: u64| (prng.between(1, 3) as u16, (node % centers) as u16);
        let shards: Vec<_> = (0..count).map(node).collect();
        let plan = Plan::with(seed, &shards, copies, None);
        let nodes = plan.hinting(Hinting { planted, ..Hinting::new() }).start();
        let mut schedule = Schedule { nodes, model: Rc::default(), prng, deaths: Vec::new() };
        (0..schedule.nodes.count()).for_each(|node| schedule.start_clients(node));
        schedule
    }

    fn start_clients(&mut self, node: usize) {
        let model = self.model.clone();
        self.nodes.run(node, async move {
            let scope = runtime::task::Scope::new();
            drop(scope.spawn(client(model, node)));
            runtime::local::set(Rc::new(Clients { _scope: scope }));
        });
    }

    fn run_for(&mut self, millis: u64) {
        let millis = 1 + self.prng.below(millis);
        self.nodes.world.run_for(Duration::from_millis(millis));
    }

    fn suffer(&mut self) {
        let node = self.prng.below(self.nodes.count() as u64) as usize;
        match self.prng.below(4) {
            0..=2 => {
                let now = self.nodes.run(node, async { wall_micros() });
                self.deaths.push((node, now));
                self.nodes.crash(node);
                self.run_for(6000);
                self.nodes.start(node);
                self.start_clients(node);
            }
            _ => {
                self.nodes.set_cut(node, true);
                self.run_for(5000);
                self.nodes.set_cut(node, false);
            }
        }
        self.run_for(4000);
    }

    /// The keys that have to be on all of their replicas: those that were acknowledged by a node
    /// that lived for long enough to write down who missed them.
    fn owed(&self) -> Vec<i32> {
        let acknowledged = self.model.acknowledged.borrow();
        let is_owed = |(_, node, at): &&(i32, usize, i64)| {
            let settled = at + SETTLED.as_micros() as i64;
            !self.deaths.iter().any(|death| death.0 == *node && (*at..settled).contains(&death.1))
        };
        acknowledged.iter().filter(is_owed).map(|(key, _, _)| *key).collect()
    }

    fn run(mut self, steps: u32) -> Vec<String> {
        for _ in 0..steps {
            self.suffer();
        }
        self.model.is_quiet.set(true);
        self.nodes.world.run_for(60 * SECOND);
        let owed = self.owed();
        assert!(100 < owed.len(), "{} writes", owed.len());
        let mut wrong = Vec::new();
        for node in 0..self.nodes.count() {
            let is_there = |key: &i32| self.nodes.replicas_of(*key).contains(&node);
            let keys: Vec<i32> = owed.iter().copied().filter(is_there).collect();
            let lacks = self.nodes.run(node, async move {
                let mut lacks = Vec::new();
                for key in keys {
                    if get(key, ONE).await != Ok(Some(key)) {
                        lacks.push(key);
                    }
                }
                lacks
            });
            wrong.extend(lacks.iter().map(|key| format!("node {node} lacks {key}")));
        }
        wrong
    }
}

#[test]
fn whatever_happens_replicas_come_to_have_what_was_acknowledged() {
    for seed in runtime::sim::seeds(2) {
        let wrong = Schedule::new(seed, None).run(8);
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    }
}

/// A mistake that is planted is caught within so many schedules.
fn is_caught(planted: Planted) {
    let caught = (0..30).any(|seed| !Schedule::new(seed, Some(planted)).run(8).is_empty());
    assert!(caught, "{planted:?} is not caught");
}

#[test]
fn hints_that_are_forgotten_at_a_restart_are_caught() {
    is_caught(Planted::ForgetsAtRestart);
}

#[test]
fn a_first_hint_that_is_not_sent_is_caught() {
    is_caught(Planted::SkipsFirst);
}
