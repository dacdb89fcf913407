//! Tables that are made, changed and dropped while rows are written to them.
//!
//! Invariants
//!  - *made-stays*: a table whose CREATE was acknowledged is there in the end, and what was
//!    acknowledged to it is read, unless its DROP began.
//!  - *dropped-stays*: one whose DROP was acknowledged is not.
//!  - *agreed*: in the end all nodes show one version of the schema.

use super::client::*;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

/// Tables that there are at once, at most.
const LIVE_MAX: usize = 4;

/// What is known of a table.
#[derive(Clone, Default)]
struct Table {
    is_made: bool,
    has_second: bool,
    is_dropping: bool,
    is_dropped: bool,
    rows: BTreeSet<i64>,
}

#[derive(Default)]
pub(super) struct Tables {
    next: Cell<i64>,
    tables: RefCell<BTreeMap<i64, Table>>,
    pub(super) ended: Cell<u64>,
}

impl Tables {
    fn number(&self) -> i64 {
        self.next.set(self.next.get() + 1);
        self.next.get()
    }

    /// One of those that are there for sure, and are to stay.
    fn any(&self) -> Option<i64> {
        let tables = self.tables.borrow();
        let live = tables.iter().filter(|(_, it)| it.is_made && !it.is_dropping);
        let live: Vec<i64> = live.map(|(name, _)| *name).collect();
        (!live.is_empty()).then(|| live[below(live.len() as u64) as usize])
    }

    fn note(&self, name: i64, change: impl FnOnce(&mut Table)) {
        change(self.tables.borrow_mut().entry(name).or_default());
        self.ended.set(self.ended.get() + 1);
    }

    pub(super) async fn work(&self, client: &mut Client) {
        let live = self.tables.borrow().values().filter(|it| !it.is_dropping).count();
        let Some(name) = self.any().filter(|_| below(6) != 0) else {
            if live < LIVE_MAX {
                self.make(client).await;
            }
            return;
        };
        match below(12) {
            0 => {
                self.tables.borrow_mut().entry(name).or_default().is_dropping = true;
                if client.execute(&format!("DROP TABLE ks.x{name}"), QUORUM).await.is_ok() {
                    self.note(name, |table| table.is_dropped = true);
                }
            }
            1 => {
                let text = format!("ALTER TABLE ks.x{name} ADD w int");
                if client.execute(&text, QUORUM).await.is_ok() {
                    self.note(name, |table| table.has_second = true);
                }
            }
            _ => {
                let row = self.number();
                let second = self.tables.borrow()[&name].has_second;
                let columns = if second { "k, v, w" } else { "k, v" };
                let values = if second { format!("{row}, 1, 1") } else { format!("{row}, 1") };
                let text = format!("INSERT INTO ks.x{name} ({columns}) VALUES ({values})");
                if client.execute(&text, QUORUM).await.is_ok() {
                    self.note(name, |table| {
                        table.rows.insert(row);
                    });
                }
            }
        }
    }

    async fn make(&self, client: &mut Client) {
        let name = self.number();
        self.tables.borrow_mut().insert(name, Table::default());
        let text = format!("CREATE TABLE ks.x{name} (k int PRIMARY KEY, v int)");
        match client.execute(&text, QUORUM).await {
            Ok(()) => self.note(name, |table| table.is_made = true),
            // Maybe it is there; it is not counted among those that are, so that others are made.
            Err(_) => self.note(name, |table| table.is_dropping = true),
        }
    }

    pub(super) async fn check(&self, client: &mut Client) -> Vec<String> {
        let mut wrong = Vec::new();
        let tables = self.tables.borrow().clone();
        for (name, table) in &tables {
            let found = client.rows(&format!("SELECT k FROM ks.x{name}"), ALL).await;
            match found {
                Ok(_) if table.is_dropped => {
                    wrong.push(format!("dropped-stays: x{name} is there"));
                }
                Ok(rows) => {
                    let rows: BTreeSet<i64> = rows.into_iter().filter_map(|row| row[0]).collect();
                    let lost: Vec<_> = table.rows.difference(&rows).collect();
                    if !lost.is_empty() {
                        wrong.push(format!("made-stays: rows {lost:?} of x{name} are gone"));
                    }
                }
                Err(why) if table.is_made && !table.is_dropping => {
                    wrong.push(format!("made-stays: x{name}: {why}"));
                }
                Err(_) => {}
            }
        }
        wrong
    }
}
