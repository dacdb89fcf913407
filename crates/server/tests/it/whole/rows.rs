//! Rows that come and go, which are read page by page, each page from another node.
//!
//! Invariants
//!  - *rows-stay*: a row that was acknowledged is in every read that begins later, until its
//!    deletion begins.
//!  - *deleted-stays*: after its deletion was acknowledged it is in none.
//!  - *each-once*: a read has each row once, those of a partition in their order.

use super::client::*;
use ::client::request::{Consistency, Page};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

const PARTITIONS: u64 = 3;

pub(super) const TABLE: &str =
    "CREATE TABLE ks.rows (p int, c int, v int, PRIMARY KEY (p, c)) WITH gc_grace_seconds = 864000";

type Row = (i64, i64);

#[derive(Default)]
pub(super) struct Rows {
    next: Cell<i64>,
    there: RefCell<BTreeSet<Row>>,
    deleting: RefCell<BTreeSet<Row>>,
    deleted: RefCell<BTreeSet<Row>>,
    pub(super) ended: Cell<u64>,
    pub(super) wrong: RefCell<Vec<String>>,
}

impl Rows {
    fn number(&self) -> i64 {
        self.next.set(self.next.get() + 1);
        self.next.get()
    }

    pub(super) async fn work(&self, client: &mut Client) {
        match below(5) {
            0 | 1 => self.insert(client).await,
            2 => self.delete(client).await,
            _ => {
                let partition = (below(3) != 0).then(|| below(PARTITIONS) as i64);
                let page = 1 + below(7) as i32;
                // Nobody has to answer yet.
                let _ = self.read(client, partition, page, QUORUM).await;
            }
        }
    }

    async fn insert(&self, client: &mut Client) {
        let (p, number) = (below(PARTITIONS) as i64, self.number());
        let text = format!(
            "INSERT INTO ks.rows (p, c, v) VALUES ({p}, {number}, 1) USING TIMESTAMP {number}"
        );
        if client.execute(&text, QUORUM).await.is_ok() {
            self.there.borrow_mut().insert((p, number));
            self.ended.set(self.ended.get() + 1);
        }
    }

    async fn delete(&self, client: &mut Client) {
        let chosen = {
            let (there, deleting) = (self.there.borrow(), self.deleting.borrow());
            let left: Vec<Row> = there.difference(&deleting).copied().collect();
            if left.is_empty() {
                return;
            }
            left[below(left.len() as u64) as usize]
        };
        self.deleting.borrow_mut().insert(chosen);
        let ((p, c), timestamp) = (chosen, self.number());
        let text =
            format!("DELETE FROM ks.rows USING TIMESTAMP {timestamp} WHERE p = {p} AND c = {c}");
        if client.execute(&text, QUORUM).await.is_ok() {
            self.deleted.borrow_mut().insert(chosen);
            self.ended.set(self.ended.get() + 1);
        }
    }

    async fn read(
        &self,
        client: &mut Client,
        partition: Option<i64>,
        page_rows: i32,
        level: Consistency,
    ) -> Result<(), Unanswered> {
        let (there, deleted) = (self.there.borrow().clone(), self.deleted.borrow().clone());
        let text = match partition {
            Some(p) => format!("SELECT p, c FROM ks.rows WHERE p = {p}"),
            None => "SELECT p, c FROM ks.rows".to_owned(),
        };
        let (mut found, mut state) = (Vec::new(), None::<Vec<u8>>);
        loop {
            let page = Page { rows: page_rows, state: state.as_deref() };
            let rows = client.page(&text, level, page).await?;
            let cell = |cell: Option<i64>| cell.expect("a key");
            found.extend(numbers(&rows).into_iter().map(|row| (cell(row[0]), cell(row[1]))));
            state = rows.more;
            if state.is_none() {
                break;
            }
            client.move_on();
        }
        self.ended.set(self.ended.get() + 1);
        self.compare(&found, partition, (&there, &deleted));
        Ok(())
    }

    fn compare(
        &self,
        found: &[Row],
        partition: Option<i64>,
        (there, deleted): (&BTreeSet<Row>, &BTreeSet<Row>),
    ) {
        let mut wrong = self.wrong.borrow_mut();
        let all: BTreeSet<Row> = found.iter().copied().collect();
        let in_order = found.windows(2).all(|two| two[0].0 != two[1].0 || two[0].1 < two[1].1);
        if all.len() != found.len() || !in_order {
            wrong.push(format!("each-once: {found:?}"));
        }
        let asked = |row: &&Row| partition.is_none_or(|p| p == row.0);
        let deleting = self.deleting.borrow();
        for row in there.difference(&deleting).filter(asked).filter(|row| !all.contains(row)) {
            wrong.push(format!("rows-stay: {row:?} is not in {found:?}"));
        }
        for row in deleted.iter().filter(|row| all.contains(row)) {
            wrong.push(format!("deleted-stays: {row:?} is in {found:?}"));
        }
    }

    /// Reads all at ALL.
    pub(super) async fn check(&self, client: &mut Client) -> Vec<String> {
        for partition in [None, Some(0), Some(1), Some(2)] {
            if let Err(why) = self.read(client, partition, 100, ALL).await {
                self.wrong.borrow_mut().push(format!("heals: rows: {why}"));
            }
        }
        self.wrong.take()
    }
}
