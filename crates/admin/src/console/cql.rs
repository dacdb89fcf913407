//! The prompt: who may execute statements, and what they are answered.
//!
//! Whoever logs in gets a secret, which the page keeps in memory and sends with each request. Where
//! no passwords are asked for, everybody who reaches the page is let in, as with CQL itself.
//!
//! Invariants
//!  - *bounded*: [`SESSIONS_MAX`] sessions, of [`IDLE_MAX`] without a request; statements of
//!    [`STATEMENT_BYTES_MAX`] bytes, [`RUNNING_MAX`] at a time; pages of [`ROWS_MAX`] rows.
//!  - *slower-with-each*: the answer to a failed login is held back, for longer with each further
//!    one, and [`LOGINS_MAX`] are under way at a time: guessing is slow.
//!  - *nothing-told*: passwords and statements go to [`Cql`] and nowhere else: no log, no error.

use crate::call::{Answer, Call};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use runtime::sync::Semaphore;
use runtime::time::{Instant, sleep};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

const SESSIONS_MAX: usize = 64;
const IDLE_MAX: Duration = Duration::from_secs(1800);
const STATEMENT_BYTES_MAX: usize = 64 << 10;
const RUNNING_MAX: usize = 16;
const LOGINS_MAX: usize = 4;
/// How long the answer to a first failed login is held back, and to many.
const DELAY_MIN: Duration = Duration::from_millis(20);
const DELAY_MAX: Duration = Duration::from_secs(2);
/// After so long without a failed login they are forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
const ROWS_MAX: u64 = 1000;
const ROWS_DEFAULT: u64 = 100;

/// The header that names a session.
const SESSION: &str = "x-nereid-session";

/// What one waits for.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// CQL, as the console reaches it.
pub trait Cql {
    /// Whether clients have to say who they are.
    fn asks_passwords(&self) -> bool;
    /// Lets a client in, or tells why not.
    fn login(
        &self,
        client: Option<SocketAddr>,
        credentials: Option<Credentials>,
    ) -> LocalFuture<'_, Result<Rc<dyn Session>, Failure>>;
}

/// A client that was let in.
pub trait Session {
    /// Who it is; `None` where nobody is asked.
    fn user(&self) -> Option<String>;
    /// Executes a statement with the permissions of that client.
    fn execute(&self, asked: Asked) -> LocalFuture<'_, Result<Outcome, Failure>>;
}

/// Who one says one is.
pub struct Credentials {
    pub name: String,
    pub password: String,
}

/// A statement to be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub statement: String,
    /// Rows at most.
    pub page_size: u32,
    /// Where the page before ended.
    pub paging_state: Option<Vec<u8>>,
    /// As `ONE`; of a name that is none it is an error.
    pub consistency: String,
    pub origin: Origin,
}

/// Whose statement it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An operator's, of the editor: traced where the node's rules say so.
    Editor,
    /// The same, which is to be traced.
    Traced,
    /// The page's own. It appears in no trace, slow query or statistics.
    Page,
}

/// What a statement was answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// `None`: nothing but that it was done.
    pub rows: Option<Rows>,
    /// What was done, where there are no rows.
    pub done: String,
    pub warnings: Vec<String>,
    /// The keyspace in use.
    pub keyspace: Option<String>,
    /// Its trace, where one was wanted.
    pub trace: Option<String>,
}

/// A page of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Option<Cell>>>,
    /// Where the next page begins.
    pub next: Option<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    /// As CQL writes it.
    pub ty: String,
}

/// A value as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub text: String,
    /// Whether it is longer than what is told.
    pub is_clipped: bool,
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Of the native protocol.
    pub code: u32,
    pub message: String,
}

/// Wrong names and passwords.
const BAD_CREDENTIALS: u32 = 0x0100;
const OVERLOADED: u32 = 0x1001;

impl Failure {
    fn answer(self) -> Answer {
        let status = match self.code {
            BAD_CREDENTIALS => 401,
            OVERLOADED => 503,
            // A server's error is ours.
            0 => 500,
            _ => 400,
        };
        let value = json!({
            "message": self.message,
            "code": status,
            "error": format!("0x{:04x}", self.code),
        });
        Answer { status, ..Answer::json(value) }
    }
}

/// Those who are let in, the one that asked last at the end.
pub(super) struct Sessions {
    cql: Rc<dyn Cql>,
    all: RefCell<Vec<Known>>,
    running: Semaphore,
    logins: Semaphore,
    /// Failed logins of late, and when the last one was.
    failed: RefCell<(u32, Option<Instant>)>,
}

struct Known {
    secret: String,
    session: Rc<dyn Session>,
    used: Instant,
}

impl Sessions {
    pub(super) fn new(cql: Rc<dyn Cql>) -> Sessions {
        let running = Semaphore::new(RUNNING_MAX, RUNNING_MAX);
        let logins = Semaphore::new(LOGINS_MAX, LOGINS_MAX);
        Sessions { cql, all: RefCell::default(), running, logins, failed: RefCell::default() }
    }

    pub(super) fn asks_passwords(&self) -> bool {
        self.cql.asks_passwords()
    }

    /// Refuses who would have to log in and has not.
    pub(super) fn check(&self, call: &Call) -> Result<(), Answer> {
        match self.asks_passwords() {
            true => self.of(call).map(|_| ()),
            false => Ok(()),
        }
    }

    /// The session that a request names.
    pub(super) fn of(&self, call: &Call) -> Result<Rc<dyn Session>, Answer> {
        let refused = || Answer::refused(401, "log in first, or again");
        let secret = call.header(SESSION).ok_or_else(refused)?;
        let mut all = self.all.borrow_mut();
        all.retain(|one| one.used.elapsed() < IDLE_MAX);
        let found = all.iter().position(|one| is_same(&one.secret, secret)).ok_or_else(refused)?;
        let mut known = all.remove(found);
        known.used = Instant::now();
        let session = known.session.clone();
        all.push(known);
        Ok(session)
    }

    pub(super) async fn login(&self, call: &Call) -> Result<Answer, Answer> {
        let credentials =
            match call.header("authorization") {
                Some(text) => Some(credentials(text).ok_or_else(|| {
                    Answer::refused(400, "authorization: not a name and password")
                })?),
                None if self.asks_passwords() => {
                    return Err(Answer::refused(401, "a name and a password are asked for"));
                }
                None => None,
            };
        let busy = || Answer::refused(503, "too many others log in, try again");
        let _turn = self.logins.acquire(1).await.map_err(|_| busy())?;
        let session = match self.cql.login(call.peer, credentials).await {
            Ok(session) => session,
            Err(failure) => {
                sleep(self.held_back(Instant::now())).await;
                return Err(failure.answer());
            }
        };
        let secret: String =
            runtime::random_secret().iter().map(|byte| format!("{byte:02x}")).collect();
        let user = session.user();
        let mut all = self.all.borrow_mut();
        if SESSIONS_MAX <= all.len() {
            all.remove(0); // Of all the one that has been silent for longest.
        }
        all.push(Known { secret: secret.clone(), session, used: Instant::now() });
        Ok(Answer::json(json!({ "session": secret, "user": user })))
    }

    /// Counts a failed login; how long its answer is held back (*slower-with-each*).
    fn held_back(&self, now: Instant) -> Duration {
        let (count, last) = *self.failed.borrow();
        let is_old = last.is_none_or(|last| FORGOTTEN_AFTER <= now - last);
        let count = if is_old { 0 } else { count };
        self.failed.replace((count.saturating_add(1), Some(now)));
        DELAY_MIN.saturating_mul(1 << count.min(16)).min(DELAY_MAX)
    }

    pub(super) fn logout(&self, call: &Call) -> Answer {
        let secret = call.header(SESSION).unwrap_or("");
        self.all.borrow_mut().retain(|one| !is_same(&one.secret, secret));
        Answer::done()
    }

    pub(super) async fn execute(&self, call: &Call) -> Result<Answer, Answer> {
        let session = self.of(call)?;
        let asked = asked(&call.body).map_err(|why| Answer::refused(400, why))?;
        let busy = || Answer::refused(503, "too many statements of consoles run already");
        let _turn = self.running.acquire(1).await.map_err(|_| busy())?;
        let began = Instant::now();
        let outcome = session.execute(asked).await.map_err(Failure::answer)?;
        let micros = began.elapsed().as_micros() as u64;
        Ok(Answer::json(shown(outcome, micros)))
    }
}

/// Compares in a time that does not tell how much is the same.
fn is_same(one: &str, other: &str) -> bool {
    let differences = one.bytes().zip(other.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    one.len() == other.len() && differences == 0
}

/// Of `Basic <name:password in base64>`.
fn credentials(text: &str) -> Option<Credentials> {
    let decoded = BASE64_STANDARD.decode(text.strip_prefix("Basic ")?.trim()).ok()?;
    let (name, password) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
    Some(Credentials { name: name.to_owned(), password: password.to_owned() })
}

/// What a request's body asks for; the error does not repeat it.
fn asked(body: &[u8]) -> Result<Asked, &'static str> {
    let value: Value = serde_json::from_slice(body).map_err(|_| "the body is not JSON")?;
    let statement = value["statement"].as_str().ok_or("statement: a text is wanted")?;
    if STATEMENT_BYTES_MAX < statement.len() {
        return Err("statement: longer than 64 KiB");
    }
    let page_size = match &value["page_size"] {
        Value::Null => ROWS_DEFAULT,
        size => size.as_u64().ok_or("page_size: not a number")?.clamp(1, ROWS_MAX),
    };
    let paging_state = match &value["paging_state"] {
        Value::Null => None,
        state => Some(state.as_str().and_then(unhex).ok_or("paging_state: not of an answer")?),
    };
    let consistency = value["consistency"].as_str().unwrap_or("ONE").to_owned();
    let statement = statement.trim().trim_end_matches(';').to_owned();
    let origin = match (value["trace"].as_bool(), value["page"].as_bool()) {
        (Some(true), _) => Origin::Traced,
        (_, Some(true)) => Origin::Page,
        _ => Origin::Editor,
    };
    Ok(Asked { statement, page_size: page_size as u32, paging_state, consistency, origin })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An answer as the page shows it.
fn shown(outcome: Outcome, micros: u64) -> Value {
    let Outcome { rows, done, warnings, keyspace, trace } = outcome;
    let mut value = json!({
        "micros": micros,
        "done": done,
        "warnings": warnings,
        "keyspace": keyspace,
        "trace": trace,
    });
    if let Some(Rows { columns, rows, next }) = rows {
        let cell = |cell: Option<Cell>| match cell {
            None => Value::Null,
            Some(Cell { text, is_clipped: false }) => Value::String(text),
            Some(Cell { text, is_clipped: true }) => json!({ "clipped": text }),
        };
        let columns = columns.into_iter().map(|it| json!({ "name": it.name, "type": it.ty }));
        let rows = rows.into_iter().map(|row| Value::from_iter(row.into_iter().map(cell)));
        value["columns"] = Value::from_iter(columns);
        value["rows"] = Value::from_iter(rows);
        value["next"] = json!(next.map(|next| hex(&next)));
    }
    value
}

#[cfg(test)]
#[path = "cql/tests.rs"]
mod tests;
