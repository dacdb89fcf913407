//! Reads take permits: more of them than fit wait, and are refused or time out.

use super::{command, config, open, write};
use crate::testing::{key, schema};
use crate::{Config, Storage};
use mutation::page::ReadCommand;
use mutation::{Partitions, RingBound};
use reader::ReadError;
use reader::semaphore::{Permit, Reading};
use runtime::task::{Either, join_all, race};
use std::rc::Rc;
use std::time::Duration;

/// A table with some rows in an SSTable and nowhere else, and a command that reads one of them.
async fn table_on_disk(config: Config) -> (Rc<Storage>, ReadCommand) {
    let storage = open(Config { row_cache_bytes_max: 0, ..config }).await;
    let schema = schema(1, "t1");
    for partition in 0..50 {
        storage.apply(write(&schema, partition, 1, 1, b"value")).await.unwrap();
    }
    storage.flush(schema.id).await.unwrap();
    let command = command(&schema, Partitions::Key(key(7)));
    (storage, command)
}

#[test]
fn many_reads_at_a_time_take_turns() {
    runtime::sim::test(1, || async {
        let (storage, command) = table_on_disk(config()).await;
        let reads = (0..500).map(|_| storage.read(&command));
        for page in join_all(reads).await {
            assert_eq!(page.unwrap().row_count, 1);
        }
        let [user, ..] = storage.semaphores();
        let counters = user.counters();
        assert_eq!((counters.total_permits, counters.total_successful_reads), (500, 500));
        assert!(0 < counters.reads_enqueued_for_admission, "{counters:?}");
        assert!(0 < counters.sstables_read, "{counters:?}");
        assert_eq!((user.load().consumed, counters.current_permits), (0, 0));
        storage.stop().await.unwrap();
    });
}

#[test]
fn what_is_read_at_once_waits_for_no_other_read() {
    runtime::sim::test(4, || async {
        let storage = open(config()).await;
        let schema = schema(1, "t1");
        storage.apply(write(&schema, 7, 1, 1, b"value")).await.unwrap();
        let command = command(&schema, Partitions::Key(key(7)));
        let reading = Reading { schema: Rc::new(schema), operation: "scan" };
        let [user, ..] = storage.semaphores();
        // Scans have the processor, and another one waits.
        let scans: Vec<_> = (0..2).map(|_| user.try_admit(&reading).unwrap()).collect();
        let computing: Vec<_> = scans.iter().map(Permit::need_cpu).collect();
        let third = user.admit(&reading, None);
        let read = async {
            assert_eq!(user.waiting_count(), 1);
            storage.read(&command).await.unwrap()
        };
        match race(third, read).await {
            Either::Right(page) => assert_eq!(page.row_count, 1),
            Either::Left(_) => panic!("a third scan is let in"),
        }
        drop(computing);
        drop(scans);
        storage.stop().await.unwrap();
    });
}

#[test]
fn a_flood_is_refused() {
    runtime::sim::test(2, || async {
        let small = Config { memory_bytes: 1 << 20, ..config() };
        let (storage, command) = table_on_disk(small).await;
        let reads = (0..200).map(|_| storage.read(&command));
        let pages = join_all(reads).await;
        let refused = pages.iter().filter(|page| matches!(page, Err(ReadError::Overloaded(_))));
        assert!(0 < refused.count());
        assert!(pages.iter().any(Result::is_ok));
        let [user, ..] = storage.semaphores();
        assert_eq!(user.load().consumed, 0);
        storage.stop().await.unwrap();
    });
}

#[test]
fn what_waits_too_long_times_out() {
    runtime::sim::test(3, || async {
        let limit = Duration::from_micros(100);
        let hasty = Config { read_timeout: limit, range_read_timeout: limit, ..config() };
        let (storage, command) = table_on_disk(hasty).await;
        let bound = |token, after| RingBound { token, key: None, after };
        let all = Partitions::Range {
            start: bound(model::Token::MIN, false),
            end: bound(model::Token::MAX, true),
        };
        let scan = ReadCommand { partitions: all, ..command };
        let pages = join_all((0..2000).map(|_| storage.read(&scan))).await;
        assert!(pages.iter().any(|page| matches!(page, Err(ReadError::TimedOut))));
        let [user, ..] = storage.semaphores();
        assert_eq!((user.load().consumed, user.waiting_count()), (0, 0));
        storage.stop().await.unwrap();
    });
}
