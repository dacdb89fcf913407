//! Memory of memtables under pressure: who waits, in which order, for how long, and for whom.

use super::*;
use crate::WriteError;
use crate::table::GATE_UNITS;
use crate::table::pass_gate;
use runtime::sync::Permit;
use runtime::task::Scope;
use std::cell::RefCell;
use testkit::SimNode;

fn small() -> Config {
    Config { memtable_bytes_max: 256 << 10, commitlog_bytes_max: 64 * SEGMENT as u64, ..config() }
}

/// Keeps the flushes of table 1 from writing until it is dropped.
async fn hold_flushes(storage: &Storage) -> Permit {
    let table = storage.shard().table(Uuid::from_u128(1)).unwrap();
    pass_gate(&table, GATE_UNITS).await.unwrap()
}

async fn fill_up(storage: &Storage) {
    let mut partition = 0;
    while storage.shard().dirty[0].has_room() {
        partition += 1;
        storage.apply(write(&schema(1, "t1"), partition, 1, 1, &[7; 2000])).await.unwrap();
    }
}

#[test]
fn writes_that_wait_are_let_in_one_by_one_in_their_order() {
    let mut node = SimNode::new(1, 1);
    node.run(async {
        // Answers follow at once: their order is that in which writes came in.
        let sync = SyncMode::Periodic { period: Duration::from_secs(10) };
        let patient = Config { sync, write_wait_max: Duration::from_secs(600), ..small() };
        let storage = open(patient).await;
        let held = hold_flushes(&storage).await;
        fill_up(&storage).await;
        let order: Rc<RefCell<Vec<u64>>> = Rc::default();
        let most = Rc::new(std::cell::Cell::new(0));
        let scope = Scope::new();
        for number in 0..300 {
            let (storage, order, most) = (storage.clone(), order.clone(), most.clone());
            scope.spawn(async move {
                let new = write(&schema(1, "t1"), 1000 + number, 1, 1, &[7; 1500]);
                storage.apply(new).await.unwrap();
                most.set(most.get().max(storage.dirty_bytes()));
                order.borrow_mut().push(number);
            });
            // In the order of their numbers.
            runtime::time::sleep(Duration::from_micros(10)).await;
        }
        let [user, _] = storage.dirty_stats();
        assert_eq!(user.blocked, 300, "{user:?}");
        // They need more than all of the memory: flushes make room again and again.
        drop(held);
        scope.join().await;
        let order = order.take();
        assert!(order.is_sorted(), "{order:?}");
        assert!(most.get() <= (256 << 10) + 4096, "{} bytes", most.get());
        let [user, _] = storage.dirty_stats();
        assert_eq!((user.blocked, user.timed_out_total), (0, 0), "{user:?}");
        assert!(0 < user.blocked_micros, "{user:?}");
        storage.stop().await.unwrap();
    });
}

#[test]
fn a_write_that_waits_too_long_is_refused_and_the_system_goes_on() {
    let mut node = SimNode::new(2, 1);
    node.run(async {
        let wait = Duration::from_secs(3);
        let storage = open(Config { write_wait_max: wait, ..small() }).await;
        let mut system = schema(3, "local");
        system.keyspace = "system".to_string();
        let map = TabletMap::static_map(1);
        storage.add_table(Rc::new(system.clone()), map, Log::Data).await.unwrap();
        let held = hold_flushes(&storage).await;
        fill_up(&storage).await;
        let start = runtime::time::Instant::now();
        let some: Vec<_> = (0..5)
            .map(|number| storage.apply(write(&schema(1, "t1"), 1000 + number, 1, 1, b"x")))
            .collect();
        for refused in runtime::task::join_all(some).await {
            assert!(matches!(refused, Err(WriteError::Overloaded(_))), "{refused:?}");
        }
        let waited = start.elapsed();
        assert!(wait <= waited && waited < wait + Duration::from_millis(100), "{waited:?}");
        storage.apply(write(&system, 1, 1, 1, b"x")).await.unwrap();
        let [user, of_system] = storage.dirty_stats();
        assert_eq!((user.timed_out_total, of_system.blocked_total), (5, 0));
        assert!(0 < of_system.real_bytes);
        drop(held);
        storage.apply(write(&schema(1, "t1"), 2000, 1, 1, b"x")).await.unwrap();
        storage.stop().await.unwrap();
    });
}

#[test]
fn a_large_memtable_is_freed_piece_by_piece() {
    let mut node = SimNode::new(3, 1);
    node.run(async {
        let large = Config { memtable_bytes_max: 64 << 20, ..small() };
        let storage = open(large).await;
        let schema = schema(1, "t1");
        for row in 0..3_000 {
            let new = write(&schema, row as u64 % 700, row, 1, &[7; 100]);
            storage.apply_unlogged(&new).unwrap();
        }
        let before = storage.dirty_bytes();
        storage.flush(schema.id).await.unwrap();
        let [user, _] = storage.dirty_stats();
        assert_eq!(user.unspooled_bytes, 0);
        while 0 < storage.dirty_bytes() {
            assert!(storage.dirty_bytes() <= before);
            runtime::task::yield_now().await;
        }
        assert_eq!(rows(&storage, &schema, 5).await.len(), 5);
        storage.stop().await.unwrap();
    });
}

#[test]
fn a_large_collection_is_read_from_memory_and_from_its_sstable() {
    let mut node = SimNode::new(4, 1);
    node.run(async {
        let large = Config { memtable_bytes_max: 64 << 20, ..small() };
        let storage = open(large).await;
        let schema = schema(1, "t1");
        for element in 0..3_000u32 {
            let mut set = mutation::CollectionWriter::new(mutation::Tombstone::NONE);
            let state = CellState::Live { value: b"" };
            set.push(&element.wrapping_mul(77).to_be_bytes(), Cell { timestamp: 5, state });
            let mut blob = RowBuilder::new(Vec::new());
            blob.collection(crate::testing::C, &set.finish());
            let mut builder = MutationBuilder::new(&schema, &key(1));
            builder.row(&clustering(&[1, 0]), &blob.finish());
            storage.apply_unlogged(&builder.freeze()).unwrap();
        }
        let command = ReadCommand {
            columns: vec![(crate::testing::C, ColumnForm::Value)],
            ..command(&schema, Partitions::Key(key(1)))
        };
        let from_memory = storage.read(&command).await.unwrap();
        storage.flush(schema.id).await.unwrap();
        let from_disk = storage.read(&command).await.unwrap();
        assert_eq!(from_memory.bytes, from_disk.bytes);
        assert!(3_000 * 8 < from_disk.bytes.len());
        storage.stop().await.unwrap();
    });
}

#[test]
fn flushes_have_the_shares_that_they_are_told() {
    let mut node = SimNode::new(9, 1);
    node.run(async {
        let storage = open(small()).await;
        for told in [333, 0] {
            storage.set_flush_shares(told);
            runtime::time::sleep(Duration::from_secs(1)).await;
            let shares = runtime::group::stats(runtime::group::FLUSH).shares;
            assert_eq!(shares == 333, told == 333, "{shares} of {told}");
        }
    });
}

/// *underived-is-counted*, of `shard::deriving`.
#[test]
fn writes_that_wait_when_their_table_begins_to_derive_are_waited_for() {
    let mut node = SimNode::new(3, 1);
    node.run(async {
        let patient = Config { write_wait_max: Duration::from_secs(600), ..small() };
        let storage = open(patient).await;
        let table = Uuid::from_u128(1);
        let held = hold_flushes(&storage).await;
        fill_up(&storage).await;
        let scope = Scope::new();
        let writer = storage.clone();
        scope.spawn(async move {
            writer.apply(write(&schema(1, "t1"), 5000, 1, 1, &[7; 1500])).await.unwrap();
        });
        runtime::time::sleep(Duration::from_millis(1)).await;
        storage.set_deriving(table, true);
        let waits = runtime::time::timeout(Duration::from_secs(60), storage.await_underived(table));
        assert!(waits.await.is_err(), "a write that waits for memory was forgotten");
        drop(held);
        storage.await_underived(table).await;
        assert_eq!(rows(&storage, &schema(1, "t1"), 5000).await.len(), 1);
        scope.join().await;
        storage.set_deriving(table, false);
        storage.stop().await.unwrap();
    });
}
