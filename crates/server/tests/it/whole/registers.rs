//! Registers: some are changed on conditions and read at SERIAL, the others written and read at
//! QUORUM with timestamps of the clients, since clocks of nodes are apart.
//!
//! Invariants
//!  - *linearizable*: the history of each register with conditions is one of a register that one
//!    machine has, in which what nobody knows of happened once or never.
//!  - *acknowledged-is-read*, *never-back*: a read at QUORUM sees what was acknowledged, or read,
//!    before it began, or what is later.
//!  - *written-once*: nothing is read that nobody wrote.

use super::client::*;
use ::client::request;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use testkit::linear::{Histories, Kind};

const KEYS: usize = 3;

pub(super) const TABLES: [&str; 2] = [
    "CREATE TABLE ks.conditional (k int PRIMARY KEY, v int)",
    "CREATE TABLE ks.plain (k int PRIMARY KEY, v int)",
];

/// Registers that are changed on conditions.
pub(super) struct Conditional {
    next: Cell<u64>,
    histories: Histories,
    /// What was read last.
    seen: Cell<[u64; KEYS]>,
}

impl Default for Conditional {
    fn default() -> Conditional {
        Conditional { next: Cell::new(0), histories: Histories::new(KEYS), seen: Cell::default() }
    }
}

impl Conditional {
    pub(super) fn ended(&self) -> u64 {
        self.histories.ended()
    }

    fn see(&self, key: usize, value: u64) {
        let mut seen = self.seen.get();
        seen[key] = value;
        self.seen.set(seen);
    }

    pub(super) async fn work(&self, client: &mut Client) {
        let key = below(KEYS as u64) as usize;
        match below(3) {
            0 => drop(self.read(client, key).await),
            level => {
                let level = if level == 1 { QUORUM } else { ONE };
                self.change(client, key, level).await;
            }
        }
    }

    pub(super) async fn read(&self, client: &mut Client, key: usize) -> Result<(), Unanswered> {
        let at = self.histories.begin(key, Kind::Read(0));
        let text = format!("SELECT v FROM ks.conditional WHERE k = {key}");
        let rows = client.rows(&text, SERIAL).await?;
        let value = rows.first().and_then(|row| row[0]).unwrap_or(0) as u64;
        self.histories.end(key, at, Kind::Read(value));
        self.see(key, value);
        Ok(())
    }

    async fn change(&self, client: &mut Client, key: usize, level: request::Consistency) {
        self.next.set(self.next.get() + 1);
        let (from, to) = (self.seen.get()[key], self.next.get());
        let kind = |took_effect| Kind::Change { from, to, took_effect };
        let at = self.histories.begin(key, kind(None));
        let expected = if from == 0 { "null".to_owned() } else { from.to_string() };
        let text = format!("UPDATE ks.conditional SET v = {to} WHERE k = {key} IF v = {expected}");
        match client.rows(&text, level).await {
            Ok(rows) if rows[0][0] == Some(1) => {
                self.histories.end(key, at, kind(Some(true)));
                self.see(key, to);
            }
            Ok(rows) => {
                let value = rows[0][1].unwrap_or(0) as u64;
                assert_ne!(value, from, "a condition that holds: {text}");
                self.histories.end(key, at, Kind::Read(value));
                self.see(key, value);
            }
            Err(why) if why.is_unknown => {}
            Err(_) => self.histories.forget(key, at),
        }
    }

    /// Reads all, when nothing is wrong any more; then, what is wrong with the histories.
    pub(super) async fn check(&self, client: &mut Client) -> Vec<String> {
        let mut wrong = Vec::new();
        for key in 0..KEYS {
            if let Err(why) = self.read(client, key).await {
                wrong.push(format!("heals: a register with conditions: {why}"));
            }
        }
        wrong.extend(self.histories.violations());
        wrong
    }
}

/// Registers that are written as they come.
#[derive(Default)]
pub(super) struct Plain {
    next: Cell<i64>,
    floors: Cell<[i64; KEYS]>,
    written: RefCell<BTreeSet<(usize, i64)>>,
    pub(super) ended: Cell<u64>,
    pub(super) wrong: RefCell<Vec<String>>,
}

impl Plain {
    fn raise(&self, key: usize, to: i64) {
        let mut floors = self.floors.get();
        floors[key] = floors[key].max(to);
        self.floors.set(floors);
        self.ended.set(self.ended.get() + 1);
    }

    pub(super) async fn work(&self, client: &mut Client) {
        let key = below(KEYS as u64) as usize;
        if below(3) == 0 {
            let number = self.next.get() + 1;
            self.next.set(number);
            self.written.borrow_mut().insert((key, number));
            let text = format!(
                "UPDATE ks.plain USING TIMESTAMP {number} SET v = {number} WHERE k = {key}"
            );
            if client.execute(&text, QUORUM).await.is_ok() {
                self.raise(key, number);
            }
            return;
        }
        // Nobody has to answer yet.
        let _ = self.read(client, key, QUORUM).await;
    }

    async fn read(
        &self,
        client: &mut Client,
        key: usize,
        level: request::Consistency,
    ) -> Result<(), Unanswered> {
        let floor = self.floors.get()[key];
        let text = format!("SELECT v FROM ks.plain WHERE k = {key}");
        let rows = client.rows(&text, level).await?;
        let value = rows.first().and_then(|row| row[0]).unwrap_or(0);
        let mut wrong = self.wrong.borrow_mut();
        if value < floor {
            wrong.push(format!("acknowledged-is-read, never-back: {value} of {key} after {floor}"));
        }
        if value != 0 && !self.written.borrow().contains(&(key, value)) {
            wrong.push(format!("written-once: {value} of {key}"));
        }
        self.raise(key, value);
        Ok(())
    }

    /// Reads all at ALL.
    pub(super) async fn check(&self, client: &mut Client) -> Vec<String> {
        for key in 0..KEYS {
            if let Err(why) = self.read(client, key, ALL).await {
                self.wrong.borrow_mut().push(format!("heals: a register: {why}"));
            }
        }
        self.wrong.take()
    }
}
