//! Logged batches over partitions.
//!
//! Invariants
//!  - *acknowledged-stays*: the parts of a batch that was acknowledged are read at QUORUM.
//!  - *whole*: in the end all parts of a batch are there, or none of them.

use super::client::*;
use ::client::request::Consistency;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

const PARTS: i64 = 3;

pub(super) const TABLE: &str = "CREATE TABLE ks.batches (p int, b int, PRIMARY KEY (p, b))";

#[derive(Default)]
pub(super) struct Batches {
    next: Cell<i64>,
    acknowledged: RefCell<BTreeSet<i64>>,
    /// Did nothing for sure.
    refused: RefCell<BTreeSet<i64>>,
    pub(super) ended: Cell<u64>,
    pub(super) wrong: RefCell<Vec<String>>,
}

impl Batches {
    pub(super) async fn work(&self, client: &mut Client) {
        if below(3) == 0 {
            // Nobody has to answer yet.
            let _ = self.read(client, below(PARTS as u64) as i64, QUORUM).await;
            return;
        }
        let number = self.next.get() + 1;
        self.next.set(number);
        let parts = (0..PARTS)
            .map(|part| format!("INSERT INTO ks.batches (p, b) VALUES ({part}, {number}); "));
        let text = format!("BEGIN BATCH {}APPLY BATCH", parts.collect::<String>());
        match client.execute(&text, QUORUM).await {
            Ok(()) => {
                self.acknowledged.borrow_mut().insert(number);
                self.ended.set(self.ended.get() + 1);
            }
            Err(why) if why.is_unknown => {}
            Err(_) => {
                self.refused.borrow_mut().insert(number);
            }
        }
    }

    async fn read(
        &self,
        client: &mut Client,
        part: i64,
        level: Consistency,
    ) -> Result<BTreeSet<i64>, Unanswered> {
        let acknowledged = self.acknowledged.borrow().clone();
        let text = format!("SELECT b FROM ks.batches WHERE p = {part}");
        let rows = client.rows(&text, level).await?;
        let found: BTreeSet<i64> = rows.into_iter().filter_map(|row| row[0]).collect();
        for number in acknowledged.difference(&found) {
            let text = format!("acknowledged-stays: {number} is not in part {part}: {found:?}");
            self.wrong.borrow_mut().push(text);
        }
        self.ended.set(self.ended.get() + 1);
        Ok(found)
    }

    /// Reads all at ALL.
    pub(super) async fn check(&self, client: &mut Client) -> Vec<String> {
        let mut all = Vec::new();
        for part in 0..PARTS {
            match self.read(client, part, ALL).await {
                Ok(found) => all.push(found),
                Err(why) => {
                    self.wrong.borrow_mut().push(format!("heals: batches: {why}"));
                }
            }
        }
        let mut wrong = self.wrong.take();
        for two in all.windows(2) {
            let parts: Vec<_> = two[0].symmetric_difference(&two[1]).collect();
            if !parts.is_empty() {
                wrong.push(format!("whole: {parts:?} are in some parts only"));
            }
        }
        let first = all.first().cloned().unwrap_or_default();
        for number in self.refused.borrow().iter().filter(|it| first.contains(it)) {
            wrong.push(format!("known-or-not: {number} was refused, and is there"));
        }
        wrong
    }
}
