//! Counters that only grow.
//!
//! Invariants
//!  - *counted-once*: a read at QUORUM shows all that was acknowledged before it began, and no more
//!    than was ever asked for.
//!  - *never-back*: nor less than an earlier read.

use super::client::*;
use ::client::request::Consistency;
use std::cell::{Cell, RefCell};

const KEYS: usize = 2;

pub(super) const TABLE: &str = "CREATE TABLE ks.counters (k int PRIMARY KEY, v counter)";

#[derive(Default)]
pub(super) struct Counters {
    /// What was acknowledged, or seen.
    least: Cell<[i64; KEYS]>,
    /// Increments that were acknowledged: those that nobody knows of may be in what was seen.
    acknowledged: Cell<[i64; KEYS]>,
    /// What was asked for, but for what did nothing for sure.
    most: Cell<[i64; KEYS]>,
    pub(super) ended: Cell<u64>,
    pub(super) wrong: RefCell<Vec<String>>,
}

fn add(to: &Cell<[i64; KEYS]>, key: usize, by: i64) {
    let mut all = to.get();
    all[key] += by;
    to.set(all);
}

impl Counters {
    pub(super) async fn work(&self, client: &mut Client) {
        let key = below(KEYS as u64) as usize;
        if below(2) == 0 {
            // Nobody has to answer yet.
            let _ = self.read(client, key, QUORUM).await;
            return;
        }
        let by = 1 + below(9) as i64;
        add(&self.most, key, by);
        let text = format!("UPDATE ks.counters SET v = v + {by} WHERE k = {key}");
        match client.execute(&text, QUORUM).await {
            Ok(()) => {
                add(&self.acknowledged, key, by);
                self.ended.set(self.ended.get() + 1);
            }
            Err(why) if why.is_unknown => {}
            Err(_) => add(&self.most, key, -by),
        }
    }

    async fn read(
        &self,
        client: &mut Client,
        key: usize,
        level: Consistency,
    ) -> Result<i64, Unanswered> {
        let least = self.least.get()[key].max(self.acknowledged.get()[key]);
        let text = format!("SELECT v FROM ks.counters WHERE k = {key}");
        // What is asked for, and refused, while this reads was not there.
        let rows = client.rows(&text, level).await?;
        let value = rows.first().and_then(|row| row[0]).unwrap_or(0);
        let most = self.most.get()[key];
        if value < least || most < value {
            let text = format!("counted-once, never-back: {value} of {key}, not {least} to {most}");
            self.wrong.borrow_mut().push(text);
        }
        let mut all = self.least.get();
        all[key] = all[key].max(value);
        self.least.set(all);
        self.ended.set(self.ended.get() + 1);
        Ok(value)
    }

    /// Reads all at ALL.
    pub(super) async fn check(&self, client: &mut Client) -> Vec<String> {
        for key in 0..KEYS {
            if let Err(why) = self.read(client, key, ALL).await {
                self.wrong.borrow_mut().push(format!("heals: a counter: {why}"));
            }
        }
        self.wrong.take()
    }
}
