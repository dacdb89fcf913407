//! Clients that set numbers by statements, each its own, and conditional writes that count: none
//! that was acknowledged is lost.
//!
//! Invariants
//!  - *one-writer*: a key has one writer, so that what it holds after a crash is certain but for
//!    one write in flight. The conditional writer is alone too: its condition always holds.

use crate::CqlEnv;
use crate::history::{Register, Sum};
use crate::rounds::Workload;
use std::cell::RefCell;
use storage::SyncMode;

/// Clients of one node.
#[derive(Debug)]
pub struct Registers {
    sync: SyncMode,
    known: Vec<RefCell<Register<Option<i32>>>>,
    counted: RefCell<Sum>,
}

impl Registers {
    /// So many clients of a node whose commitlog is synced so.
    pub fn new(sync: SyncMode, clients: usize) -> Registers {
        let known = (0..clients).map(|_| RefCell::new(Register::new(None))).collect();
        Registers { sync, known, counted: RefCell::new(Sum::default()) }
    }

    /// Writes that were acknowledged.
    pub fn changes(&self) -> u64 {
        let sets: u64 = self.known.iter().map(|known| known.borrow().changes()).sum();
        sets + self.counted.borrow().known().unsigned_abs()
    }

    /// Sets the number of one client, again and again.
    async fn set(&self, client: usize, env: &CqlEnv) {
        let known = &self.known[client];
        loop {
            let value = known.borrow().known().unwrap_or(0) + 1;
            known.borrow_mut().attempt(Some(value));
            env.ok(&format!("UPDATE registers SET v = {value} WHERE k = {client}")).await;
            known.borrow_mut().acknowledge();
        }
    }

    /// Counts by conditional writes, each from what was there.
    async fn count(&self, env: &CqlEnv) {
        loop {
            let found = env.rows("SELECT v FROM registers WHERE k = -1").await;
            self.counted.borrow_mut().attempt(1);
            let next = found.parse::<i64>().unwrap_or(0) + 1;
            let found = if found.is_empty() { "null".to_owned() } else { found };
            let update = format!("UPDATE registers SET v = {next} WHERE k = -1 IF v = {found}");
            assert!(env.rows(&update).await.starts_with("true"), "nobody else counts");
            self.counted.borrow_mut().acknowledge(1);
        }
    }
}

impl Workload for Registers {
    async fn start(&self) {
        let env = CqlEnv::start_in("/node", self.sync).await;
        env.ok("CREATE TABLE IF NOT EXISTS registers (k int PRIMARY KEY, v int)").await;
    }

    async fn check(&self) -> Result<(), String> {
        let env = CqlEnv::of_this_shard().await;
        for (client, known) in self.known.iter().enumerate() {
            let found = env.rows(&format!("SELECT v FROM registers WHERE k = {client}")).await;
            let found = known.borrow_mut().settle(found.parse().ok());
            found.map_err(|violation| format!("client {client}: {violation}"))?;
        }
        let found = env.rows("SELECT v FROM registers WHERE k = -1").await;
        let counted = self.counted.borrow_mut().settle(found.parse().unwrap_or(0));
        counted.map_err(|violation| format!("conditional writes: {violation}"))
    }

    async fn work(&self) {
        let env = CqlEnv::of_this_shard().await;
        let setting = (0..self.known.len()).map(|client| self.set(client, &env));
        let setting = runtime::task::join_all(setting);
        runtime::task::join(setting, self.count(&env)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fault;
    use crate::rounds::Rounds;
    use std::time::Duration;

    #[test]
    fn nothing_acknowledged_is_lost() {
        for seed in 0..8 {
            let faults = &[Fault::SlowDisk(1), Fault::SlowDisk(10)];
            let rounds = Rounds { faults, ..Rounds::new(seed, 1 + (seed % 3) as u16) };
            let done = rounds.run(Registers::new(SyncMode::Batch, 4));
            let done = done.unwrap_or_else(|violation| panic!("{violation}"));
            assert!(0 < done.changes(), "seed {seed}: nothing was done");
        }
    }

    /// That it can fail: what is acknowledged before it is synced.
    #[test]
    fn what_is_acknowledged_too_early_is_found_out() {
        let sync = SyncMode::Periodic { period: Duration::from_millis(20) };
        let found = (0..8).find_map(|seed| Rounds::new(seed, 1).run(Registers::new(sync, 4)).err());
        assert!(found.is_some_and(|violation| violation.contains("client")));
    }
}
