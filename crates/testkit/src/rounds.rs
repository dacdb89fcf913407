//! A workload on a node that crashes, again and again: what it finds after each start must be what
//! may be there.
//!
//! Invariants
//!  - *one-seed*: spans, faults and what a crash leaves of the disk are drawn from one seed.
//!  - *well-when-checked*: no fault is there while the node starts and is checked.
//!  - *last-is-checked*: every crash is followed by a check, the last one too.

use crate::{Fault, SimNode};
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

/// What works on a node and knows what must be found.
pub trait Workload: 'static {
    /// Starts what it works on: on an empty disk, or on what a crash has left.
    fn start(&self) -> impl Future<Output = ()>;

    /// What is there, compared with what may be; it is known from now on.
    fn check(&self) -> impl Future<Output = Result<(), String>>;

    /// Works until it is dropped.
    fn work(&self) -> impl Future<Output = ()>;
}

/// How often a node crashes, and what happens to it before.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// From which all is drawn.
    pub seed: u64,
    /// Of the node.
    pub shards: u16,
    /// Crashes.
    pub count: u32,
    /// How long the workload works at most before a crash.
    pub most: Duration,
    /// One of these is wrong while it works, drawn for each round; empty: nothing is.
    pub faults: &'static [Fault],
}

impl Rounds {
    /// The usual ones of a seed, without faults.
    pub const fn new(seed: u64, shards: u16) -> Rounds {
        Rounds { seed, shards, count: 6, most: Duration::from_millis(60), faults: &[] }
    }

    /// Runs them. An error is the first violation, with the seed and the round.
    pub fn run<W: Workload>(&self, workload: W) -> Result<Rc<W>, String> {
        let mut node = SimNode::new(self.seed, self.shards);
        let workload = Rc::new(workload);
        for round in 0..=self.count {
            let checked = workload.clone();
            let found = node.run(async move {
                checked.start().await;
                checked.check().await
            });
            let Rounds { seed, count, .. } = self;
            found.map_err(|violation| format!("seed {seed} round {round}: {violation}"))?;
            if round == *count {
                break;
            }
            if let Some(last) = self.faults.len().checked_sub(1) {
                let drawn = node.world().random_u64() as usize % (last + 1);
                node.suffer(self.faults[drawn]);
            }
            let working = workload.clone();
            node.run_a_while(self.most, async move { working.work().await });
            node.crash();
            node.heal();
        }
        Ok(workload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Register;
    use runtime::io::fs;
    use std::cell::RefCell;

    /// A number in a file; `early`: it is acknowledged before it is there.
    struct Numbers {
        known: RefCell<Register<u32>>,
        early: bool,
    }

    const PATH: &str = "/d/number";

    impl Workload for Numbers {
        async fn start(&self) {
            let _ = fs::create_dir_all("/d").await; // It may be there.
            fs::sync_dir("/").await.expect("the root");
        }
        async fn check(&self) -> Result<(), String> {
            let found = fs::read_file(PATH).await.unwrap_or_default();
            let found = found.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
            self.known.borrow_mut().settle(found)
        }
        async fn work(&self) {
            loop {
                let next = *self.known.borrow().known() + 1;
                self.known.borrow_mut().attempt(next);
                if self.early {
                    self.known.borrow_mut().acknowledge();
                }
                fs::write_file_atomic(PATH, &next.to_be_bytes()).await.expect("a file");
                if !self.early {
                    self.known.borrow_mut().acknowledge();
                }
            }
        }
    }

    fn numbers(early: bool) -> Numbers {
        Numbers { known: RefCell::new(Register::new(0)), early }
    }

    #[test]
    fn what_keeps_its_promise_passes() {
        for seed in 0..10 {
            let faults = &[Fault::SlowDisk(3), Fault::Clock(-1_000_000)];
            let rounds = Rounds { faults, ..Rounds::new(seed, 2) };
            let done = rounds.run(numbers(false)).unwrap_or_else(|violation| panic!("{violation}"));
            assert!(0 < done.known.borrow().changes(), "seed {seed}: nothing was done");
        }
    }

    #[test]
    fn what_acknowledges_too_early_is_found_out() {
        let found = (0..10).find_map(|seed| Rounds::new(seed, 1).run(numbers(true)).err());
        assert!(found.is_some_and(|violation| violation.contains("round")));
    }
}
