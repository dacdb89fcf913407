//! The log on a simulated machine: random changes, flushes and merges, loads, stops, crashes with
//! torn writes, and clocks that step back.
//!
//! Invariants
//!  - *as-a-whole*: after a crash the log is as before the change in flight, or as after it.
//!  - *as-the-naive-one*: whatever was done, what is loaded is what a log in memory has.

use super::naive::{draw, fold};
use crate::boot::{BootConfig, boot, stop};
use crate::group0::log::{GroupLog, Planted, command_bytes_max};
use crate::node::NodeConfig;
use catalog::system_tables;
use consensus::Log as _;
use consensus::entry::{Cut, Entry, Kind};
use consensus::traits::{Change, Loaded};
use consensus::{Members, NodeId};
use model::Uuid;
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;
use stdx::prng::Prng;
use storage::{Rewrite, Storage};
use testkit::history::Register;
use testkit::rounds::{Rounds, Workload};
use testkit::{Fault, SimNode};

pub(super) const GROUP: Uuid = Uuid::from_u128(42);
pub(super) const SEGMENT_BYTES: usize = 1 << 20;
const HOUR: i64 = 3_600_000_000;
const NAMES: [&str; 3] = ["raft", "raft_snapshots", "raft_snapshot_config"];

pub(super) fn config() -> BootConfig {
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let node = NodeConfig {
        cluster_name: "test".into(),
        data_center: "dc1".into(),
        rack: "r1".into(),
        listen_address: address,
        broadcast_address: address,
        rpc_address: address,
        listen_port: 7000,
        rpc_port: None,
        num_tokens: 1,
        initial_tokens: Vec::new(),
        withheld_features: Default::default(),
        joins_ring: true,
    };
    let mut storage = storage::Config::new("/node", Uuid::nil());
    storage.segment_bytes = SEGMENT_BYTES;
    storage.commitlog_bytes_max = 16 << 20;
    storage.memtable_bytes_max = 4 << 20;
    BootConfig { node, storage }
}

fn log() -> GroupLog {
    GroupLog::new(runtime::local::get::<Storage>(), GROUP)
}

fn table_ids() -> [Uuid; 3] {
    NAMES.map(|name| system_tables::table_id("system", name))
}

/// Writes changes for ever; knows what they make.
struct Changes {
    known: RefCell<Register<Loaded>>,
    planted: Option<Planted>,
    is_writing: Cell<bool>,
    /// Changes in flight that a crash took, and that it left.
    taken_and_left: Cell<(u64, u64)>,
}

impl Changes {
    fn new(planted: Option<Planted>) -> Changes {
        Changes {
            known: RefCell::new(Register::new(Loaded::default())),
            planted,
            is_writing: Cell::new(false),
            taken_and_left: Cell::default(),
        }
    }
}

impl Workload for Changes {
    async fn start(&self) {
        boot(config()).await.expect("a start");
    }

    async fn check(&self) -> Result<(), String> {
        let log = log();
        let found = log.load().await.map_err(|failed| failed.to_string())?;
        if self.is_writing.take() {
            let (taken, left) = self.taken_and_left.get();
            let is_taken = found == *self.known.borrow().known();
            let both = if is_taken { (taken + 1, left) } else { (taken, left + 1) };
            self.taken_and_left.set(both);
        }
        self.known.borrow_mut().settle(found.clone())?;
        // A log that is loaded twice says the same.
        match log.load().await == Ok(found) {
            true => Ok(()),
            false => Err("another log when loaded again".to_owned()),
        }
    }

    async fn work(&self) {
        let log = log().with_mistake(self.planted);
        let mut random = Prng::from_seed(runtime::random_u64());
        if log.load().await.is_err() {
            // Its last write failed.
            std::future::pending::<()>().await;
        }
        loop {
            let before = self.known.borrow().known().clone();
            let change = draw(&before, SEGMENT_BYTES as u64 / 8, &mut random);
            self.known.borrow_mut().attempt(fold(before, &change));
            self.is_writing.set(true);
            if log.write(&change).await.is_err() {
                // The disk fails: it is not known what there is, until the next start.
                let refused = log.write(&change).await;
                assert!(refused.is_err(), "one-at-a-time: a write after one that failed");
                std::future::pending::<()>().await;
            }
            self.is_writing.set(false);
            self.known.borrow_mut().acknowledge();
            if random.one_in(16) {
                let id = *random.pick(&table_ids()).expect("a table");
                // Where the disk fails they are tried again.
                let _ = runtime::local::get::<Storage>().flush(id).await;
            }
            if random.one_in(32) {
                let id = *random.pick(&table_ids()).expect("a table");
                let storage = runtime::local::get::<Storage>();
                let _ = storage.compact_all(id, Rewrite::default()).await;
            }
        }
    }
}

const FAULTS: &[Fault] = &[
    Fault::Clock(HOUR),
    Fault::Clock(-HOUR),
    Fault::Clock(-24 * HOUR),
    Fault::SlowDisk(3),
    Fault::DiskErrors(100),
];

fn rounds(seed: u64, planted: Option<Planted>) -> Result<Rc<Changes>, String> {
    let rounds = Rounds { faults: FAULTS, count: 8, ..Rounds::new(seed, 1 + (seed % 2) as u16) };
    rounds.run(Changes::new(planted))
}

#[test]
fn a_crash_leaves_all_of_a_change_or_nothing() {
    let (mut taken, mut left) = (0, 0);
    for seed in runtime::sim::seeds(20) {
        let done = rounds(seed, None).unwrap_or_else(|violation| panic!("{violation}"));
        let changes = done.known.borrow().changes();
        assert!(10 < changes, "seed {seed}: {changes} changes");
        let of_seed = done.taken_and_left.get();
        (taken, left) = (taken + of_seed.0, left + of_seed.1);
    }
    assert!(0 < taken && 0 < left, "crashes took {taken} changes in flight, and left {left}");
}

#[test]
fn timestamps_of_a_clock_that_goes_back_are_found_out() {
    let found = (0..20).find_map(|seed| rounds(seed, Some(Planted::TrustsClock)).err());
    let tells = |violation: String| {
        // What an older timestamp does not replace is there, or what it wrote leaves a gap.
        violation.contains("found Loaded") || violation.contains("system.raft is damaged")
    };
    assert!(found.is_some_and(tells));
}

#[test]
fn a_change_in_two_entries_is_found_out() {
    let found = (0..20).find_map(|seed| rounds(seed, Some(Planted::WritesTwice)).err());
    assert!(found.is_some_and(|violation| violation.contains("found Loaded")));
}

/// Loads, restarts and clocks of any kind.
#[test]
fn it_is_what_a_naive_log_is() {
    for seed in runtime::sim::seeds(12) {
        let mut node = SimNode::new(seed, 1);
        let mut random = Prng::from_seed(seed);
        let naive = Rc::new(RefCell::new(Loaded::default()));
        for _ in 0..4 {
            node.suffer(Fault::Clock(random.below(2 * HOUR as u64) as i64 - HOUR));
            let (naive, mut random) = (naive.clone(), random.fork());
            node.run(async move {
                boot(config()).await.expect("a start");
                let mut log = log();
                for step in 0..30 {
                    if step == 0 || random.one_in(6) {
                        log = self::log();
                        let found = log.load().await.expect("a log");
                        assert_eq!(found, *naive.borrow(), "seed {seed} step {step}");
                    }
                    let change = draw(&naive.borrow(), SEGMENT_BYTES as u64 / 6, &mut random);
                    log.write(&change).await.expect("a write");
                    let before = naive.take();
                    naive.replace(fold(before, &change));
                    if random.one_in(10) {
                        let id = *random.pick(&table_ids()).expect("a table");
                        merge(id, random.one_in(2)).await;
                    }
                }
                if random.one_in(2) {
                    stop().await.expect("a stop");
                }
            });
            node.crash();
        }
    }
}

fn command(index: u64, bytes: usize) -> Entry {
    let (kind, origin) = (Kind::Command, vec![1; 16]);
    Entry { index, term: 1, kind, origin, data: vec![index as u8; bytes] }
}

fn cut(index: u64) -> Option<Cut> {
    Some(Cut { index, term: 1, members: Members::alone(NodeId(1)) })
}

#[test]
fn a_change_above_the_largest_entry_is_refused() {
    SimNode::new(3, 1).run(async {
        boot(config()).await.expect("a start");
        let log = log();
        assert_eq!(log.load().await, Ok(Loaded::default()));
        let most = command_bytes_max(SEGMENT_BYTES);
        // All that a step may have: the bound of a log, twice.
        let entries: Vec<_> = (1..=6).map(|index| command(index, most)).collect();
        let largest = Change { entries, ..Change::default() };
        log.write(&largest).await.expect("a change that fits");
        let above = Change { entries: vec![command(7, SEGMENT_BYTES)], ..Change::default() };
        let refused = log.write(&above).await.expect_err("a change that does not fit").to_string();
        assert!(refused.starts_with("cannot write system.raft: "), "{refused}");
        // It is not known then what there is.
        let refused = log.write(&largest).await.expect_err("a log to be loaded").to_string();
        let expected = "it is to be loaded first, also after a write that failed";
        assert_eq!(refused, format!("cannot write system.raft: {expected}"));
        let loaded = log.load().await.expect("a log");
        assert_eq!(loaded.entries, largest.entries);
        log.write(&Change { cut: cut(6), ..Change::default() }).await.expect("a change");
    });
}

/// Flushes everything, and merges a table as far as it wants to be, or to its end.
async fn merge(id: Uuid, to_the_end: bool) {
    let storage = runtime::local::get::<Storage>();
    storage.flush_all().await.expect("a flush");
    storage.close_log_segments();
    runtime::time::sleep(Duration::from_secs(2)).await;
    if to_the_end {
        storage.compact_all(id, Rewrite::default()).await.expect("a merge");
    }
    while 0 < storage.pending_compactions(id) || !storage.running_compactions().is_empty() {
        runtime::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The rows and the deletions in the SSTables of a table.
async fn in_sstables(id: Uuid) -> (u64, u64) {
    let all = runtime::local::get::<Storage>().sstable_facts(id).await.expect("facts");
    (all.iter().map(|one| one.rows).sum(), all.iter().map(|one| one.tombstones).sum())
}

#[test]
fn garbage_does_not_stay() {
    SimNode::new(6, 1).run(async {
        boot(config()).await.expect("a start");
        let log = log();
        log.load().await.expect("a log");
        let [raft, snapshots, config] = table_ids();
        for round in 0..40 {
            for step in 1..=10 {
                let entries = vec![command(10 * round + step, 100)];
                log.write(&Change { entries, ..Change::default() }).await.expect("a write");
            }
            let change = Change { cut: cut(10 * round + 8), ..Change::default() };
            log.write(&change).await.expect("a write");
            merge(raft, false).await;
            // Four SSTables of one size are merged.
            let (rows, deletions) = in_sstables(raft).await;
            assert!(rows <= 4 * 12 && deletions <= 4 * 2, "{rows} rows, {deletions} deletions");
        }
        for (id, rows) in [(raft, 2), (snapshots, 1), (config, 1)] {
            merge(id, true).await;
            assert_eq!(in_sstables(id).await, (rows, 0));
        }
        assert_eq!(log.load().await.expect("a log").entries.len(), 2);
    });
}

/// The log tries again what it could not write, and only then are its tables flushed.
#[test]
fn a_change_that_was_given_up_while_the_disk_failed_is_whole_too() {
    let mut node = SimNode::new(8, 1);
    let first = Change { install: cut(3), entries: vec![command(4, 9)], ..Change::default() };
    let second = Change { staged: cut(9), cut: cut(4), ..Change::default() };
    let (one, two) = (first.clone(), second.clone());
    let failing = node.run(async move {
        boot(config()).await.expect("a start");
        let log = log();
        log.load().await.expect("a log");
        log.write(&one).await.expect("a write");
        log
    });
    node.suffer(Fault::DiskErrors(1));
    node.run(async move {
        let written = runtime::time::timeout(Duration::from_secs(5), failing.write(&two)).await;
        written.expect_err("it is tried again until the disk works");
    });
    node.heal();
    node.run(async {
        let [raft, ..] = table_ids();
        let storage = runtime::local::get::<Storage>();
        while storage.flush(raft).await.is_err() {
            runtime::time::sleep(Duration::from_millis(100)).await;
        }
    });
    node.crash();
    let found = node.run(async {
        boot(config()).await.expect("a start");
        log().load().await.expect("a log")
    });
    assert_eq!(found, fold(fold(Loaded::default(), &first), &second));
}

#[test]
fn groups_do_not_see_each_other() {
    SimNode::new(4, 1).run(async {
        boot(config()).await.expect("a start");
        let storage = runtime::local::get::<Storage>();
        let logs = [7, 8].map(|id| GroupLog::new(storage.clone(), Uuid::from_u128(id)));
        for (log, bytes) in logs.iter().zip([3, 5]) {
            assert_eq!(log.load().await, Ok(Loaded::default()));
            let change = Change { entries: vec![command(1, bytes)], ..Change::default() };
            log.write(&change).await.expect("a write");
        }
        for (log, bytes) in logs.iter().zip([3, 5]) {
            let loaded = log.load().await.expect("a log");
            assert_eq!(loaded.entries, [command(1, bytes)]);
        }
    });
}

#[test]
#[should_panic(expected = "one-entry: the schema log is of shard 0")]
fn it_is_of_shard_0() {
    let mut node = SimNode::new(5, 2);
    node.run(async { boot(config()).await.expect("a start") });
    node.run_on(1, async { drop(log()) });
}
