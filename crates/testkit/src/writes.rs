//! Writes by a coordinator as workloads: logged batches, which are there as a whole or not at all,
//! and increments, which count once.
//!
//! Invariants
//!  - *whole-batches*: all keys of a group have one value, that of the last batch acknowledged or
//!    of the one in flight. Where the log is synced now and then an older one may be back, but
//!    whole.
//!  - *counted-once*: a counter is between what was acknowledged and what was attempted.

use crate::history::{Register, Sum, whole};
use crate::rounds::Workload;
use crate::rows::{add, counters, ints, put, scan, start_with_tables, token, write_options};
use replication::{BatchEntry, BatchKind, Coordinator, WriteKind};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use storage::SyncMode;

/// Logged batches over several shards, one after the other; each sets all keys of a group to one
/// value.
#[derive(Debug)]
pub struct Batches {
    sync: SyncMode,
    known: RefCell<Register<Option<i32>>>,
}

impl Batches {
    const GROUP: [i32; 6] = [1, 2, 3, 4, 5, 6];

    /// On a node whose commitlog is synced so. Those that were acknowledged may be lost unless it
    /// is for each batch.
    pub fn new(sync: SyncMode) -> Batches {
        Batches { sync, known: RefCell::new(Register::new(None)) }
    }

    /// Batches that were acknowledged.
    pub fn changes(&self) -> u64 {
        self.known.borrow().changes()
    }
}

impl Workload for Batches {
    async fn start(&self) {
        start_with_tables(self.sync, None).await;
    }

    async fn check(&self) -> Result<(), String> {
        let coordinator = runtime::local::get::<Coordinator>();
        let found = scan(&coordinator, &ints(), 100).await.into_iter();
        let found: BTreeMap<i32, i32> = found
            .map(|(pk, value)| (pk, i32::from_be_bytes(value.try_into().expect("an int"))))
            .collect();
        let value = whole(&Self::GROUP.map(|pk| found.get(&pk).copied()))?;
        match self.sync {
            SyncMode::Batch => self.known.borrow_mut().settle(value),
            SyncMode::Periodic { .. } => {
                self.known.borrow_mut().accept(value);
                Ok(())
            }
        }
    }

    async fn work(&self) {
        let (coordinator, table) = (runtime::local::get::<Coordinator>(), ints());
        loop {
            let value = self.known.borrow().known().unwrap_or(0) + 1;
            self.known.borrow_mut().attempt(Some(value));
            let entry = |pk: i32| BatchEntry {
                table: table.clone(),
                token: token(pk),
                mutation: put(&table, pk, value, value.into()),
            };
            let entries = Self::GROUP.map(entry).into();
            let options = write_options(WriteKind::Batch);
            let written = coordinator.write_batch(BatchKind::Logged, entries, &options);
            written.await.expect("a batch");
            self.known.borrow_mut().acknowledge();
        }
    }
}

/// Increments of one counter, some at a time.
#[derive(Debug, Default)]
pub struct Increments {
    counted: RefCell<Sum>,
}

impl Increments {
    const AT_A_TIME: usize = 4;

    /// What is known to be counted.
    pub fn counted(&self) -> i64 {
        self.counted.borrow().known()
    }

    async fn increment(&self, coordinator: &Rc<Coordinator>) {
        let table = counters();
        self.counted.borrow_mut().attempt(1);
        let options = write_options(WriteKind::Counter);
        let led = coordinator.increment(&table, token(7), add(&table, 7, 1), &options);
        led.await.expect("an increment");
        self.counted.borrow_mut().acknowledge(1);
    }
}

impl Workload for Increments {
    async fn start(&self) {
        start_with_tables(SyncMode::Batch, None).await;
    }

    async fn check(&self) -> Result<(), String> {
        let coordinator = runtime::local::get::<Coordinator>();
        let found = scan(&coordinator, &counters(), 100).await;
        let value = found.first().map(|(_, value)| value.as_slice().try_into());
        let total = value.map_or(0, |bytes| i64::from_be_bytes(bytes.expect("a counter")));
        self.counted.borrow_mut().settle(total)
    }

    async fn work(&self) {
        let coordinator = runtime::local::get::<Coordinator>();
        loop {
            let some = (0..Self::AT_A_TIME).map(|_| self.increment(&coordinator));
            runtime::task::join_all(some).await;
        }
    }
}
