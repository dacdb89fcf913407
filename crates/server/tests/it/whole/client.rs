//! Statements over connections, as a driver without retries sends them: now to one node, now to
//! another.
//!
//! Invariants
//!  - *known-or-not*: a statement was done, did nothing for sure, or nobody knows.

use ::client::connection::{Connection, Failure};
use ::client::request::{self, Consistency, Page, opcode};
use ::client::{Rows, Target};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

pub(super) const ONE: Consistency = Consistency(1);
pub(super) const QUORUM: Consistency = Consistency(4);
pub(super) const ALL: Consistency = Consistency(5);
pub(super) const SERIAL: Consistency = Consistency(8);

/// A client waits so long for an answer.
const TIMEOUT: Duration = Duration::from_secs(6);
/// One statement of so many goes to another node than the last one.
const MOVES_ONE_IN: u64 = 5;

/// Why a statement has no answer.
#[derive(Clone, Debug)]
pub(super) struct Unanswered {
    why: String,
    /// Nobody knows what it did; else it did nothing.
    pub(super) is_unknown: bool,
}

impl Unanswered {
    fn nothing(why: impl ToString) -> Unanswered {
        Unanswered { why: why.to_string(), is_unknown: false }
    }
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// A client.
pub(super) struct Client {
    addresses: Vec<SocketAddr>,
    open: Option<(Target, Connection)>,
}

pub(super) fn below(bound: u64) -> u64 {
    runtime::random_u64() % bound
}

impl Client {
    pub(super) fn new(addresses: Vec<SocketAddr>) -> Client {
        Client { addresses, open: None }
    }

    /// Asks this node from now on.
    pub(super) fn stay_at(&mut self, node: usize) {
        self.addresses = vec![self.addresses[node]];
        self.open = None;
    }

    /// The next statement may go to another node.
    pub(super) fn move_on(&mut self) {
        self.open = None;
    }

    async fn connection(&mut self) -> Result<(), Unanswered> {
        let moves = 1 < self.addresses.len() && below(MOVES_ONE_IN) == 0;
        if self.open.as_ref().is_some_and(|(_, open)| !open.is_broken() && !moves) {
            return Ok(());
        }
        self.open = None;
        let address = self.addresses[below(self.addresses.len() as u64) as usize];
        let (host, port) = (address.ip().to_string(), address.port());
        let target = Target::new(&host, port, None, None, TIMEOUT).await;
        let target = target.map_err(Unanswered::nothing)?;
        let opening = runtime::time::timeout(TIMEOUT, Connection::open(&target)).await;
        let opened = opening.map_err(|_| Unanswered::nothing("no connection"))?;
        let opened = opened.map_err(Unanswered::nothing)?;
        self.open = Some((target, opened));
        Ok(())
    }

    /// Executes a statement that has no rows to show.
    pub(super) async fn execute(
        &mut self,
        text: &str,
        level: Consistency,
    ) -> Result<(), Unanswered> {
        self.connection().await?;
        let (target, connection) = self.open.as_ref().expect("a connection");
        let body = request::query(text, level, None);
        stdx::trace!("asks {} at {}: {text}", target.address, level.0);
        let asked = connection.ask(target, opcode::QUERY, &body).await;
        let answer = asked.map(drop).map_err(unanswered);
        stdx::trace!("is told: {text}: {answer:?}");
        answer
    }

    /// A page of the rows of a statement.
    pub(super) async fn page(
        &mut self,
        text: &str,
        level: Consistency,
        page: Page<'_>,
    ) -> Result<Rows, Unanswered> {
        self.connection().await?;
        let (target, connection) = self.open.as_ref().expect("a connection");
        stdx::trace!("asks {} at {}: {text}", target.address, level.0);
        let answer = connection.page(target, text, level, page).await;
        stdx::trace!("is told: {text}: {:?}", answer.as_ref().map(numbers));
        answer.map_err(unanswered)
    }

    /// The rows of a statement, of which there are few.
    pub(super) async fn rows(
        &mut self,
        text: &str,
        level: Consistency,
    ) -> Result<Vec<Vec<Option<i64>>>, Unanswered> {
        let rows = self.page(text, level, Page { rows: 5000, state: None }).await?;
        assert_eq!(rows.more, None, "{text}: more than a page");
        Ok(numbers(&rows))
    }
}

/// The cells of rows, all of which are booleans, ints or bigints.
pub(super) fn numbers(rows: &Rows) -> Vec<Vec<Option<i64>>> {
    let mut found = Vec::with_capacity(rows.row_count);
    let read = rows.for_each::<stdx::Damaged>(|cells| {
        found.push(cells.iter().map(|cell| cell.map(number)).collect());
        Ok(())
    });
    read.expect("rows as the protocol has them");
    found
}

fn number(bytes: &[u8]) -> i64 {
    match *bytes {
        [one] => one.into(),
        [a, b, c, d] => i32::from_be_bytes([a, b, c, d]).into(),
        _ => i64::from_be_bytes(bytes.try_into().expect("a boolean, an int or a bigint")),
    }
}

/// *known-or-not*
fn unanswered(failure: Failure) -> Unanswered {
    let is_nothing = failure.did_nothing() || failure.is_invalid();
    Unanswered { why: failure.to_string(), is_unknown: !is_nothing }
}
