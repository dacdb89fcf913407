//! What the console of `admin` needs of the parts that it does not know: statements are executed by
//! the processor of shard 0, as for a client of CQL.
//!
//! Invariants
//!  - *bounded*: a page of [`BYTES_MAX`] bytes of text, values of [`CELL_BYTES_MAX`].

use admin::console::logs::LogLine;
use admin::console::{
    Asked, Cell, Column, Console, Cql, Credentials, EdgeCounts, Failure, LocalFuture, Origin,
    Outcome, Parts, Rows, Session,
};
use cluster::Authenticator;
use model::Type;
use model::value::{print_scalar, to_literal};
use native::Server;
use query::trace::{Cause, Traced};
use query::{CqlError, Parameters, Processor, ResponseKind};
use replication::Consistency;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

/// Text of a page; what comes after is left out, value by value.
const BYTES_MAX: usize = 512 << 10;
/// Text of a value.
const CELL_BYTES_MAX: usize = 4 << 10;
/// Values with parts of more bytes are not written out.
const PARTS_BYTES_MAX: usize = 64 << 10;

/// The console of this node, on shard 0.
pub(crate) fn console(cluster: Rc<cluster::Cluster>, version: String) -> Console {
    Console::new(Parts { cluster, version, edge, cql: Rc::new(Door), logs })
}

/// The latest lines of the log of all shards, after the one of that number.
fn logs(after: u64) -> LocalFuture<'static, Vec<LogLine>> {
    Box::pin(async move {
        let lines = logging::ring::after(after).await.into_iter().map(|line| {
            let logging::ring::Line { number, at_micros, level, shard, logger, text } = line;
            LogLine { number, at_micros, level, shard, logger, text }
        });
        lines.collect()
    })
}

/// What this shard counts at the door of clients.
fn edge() -> EdgeCounts {
    let heap_bytes = u64::try_from(memory::live_bytes()).unwrap_or(0);
    let Some(server) = runtime::local::try_get::<Server>() else {
        return EdgeCounts { heap_bytes, ..EdgeCounts::default() };
    };
    let counters = server.admission_counters();
    EdgeCounts {
        connections: server.clients().len() as u64,
        requests: counters.requests_admitted,
        under_way: counters.requests_in_flight,
        waiting: counters.connections_waiting,
        shed: counters.requests_shed,
        errors: server.errors().iter().map(|(_, count)| count).sum(),
        heap_bytes,
    }
}

/// The way to the processor.
struct Door;

impl Cql for Door {
    fn asks_passwords(&self) -> bool {
        // While the node starts or stops nobody is let in without.
        let cluster = runtime::local::try_get::<cluster::Cluster>();
        cluster.is_none_or(|cluster| cluster.access().authenticator() != Authenticator::AllowAll)
    }

    fn login(
        &self,
        client: Option<SocketAddr>,
        credentials: Option<Credentials>,
    ) -> LocalFuture<'_, Result<Rc<dyn Session>, Failure>> {
        let client = client.unwrap_or(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0));
        let session = query::Session::new(client);
        Box::pin(async move {
            let Some(processor) = runtime::local::try_get::<Processor>() else {
                return Err(failed(CqlError::Overloaded("the node starts or stops".to_owned())));
            };
            let asks_passwords = self.asks_passwords();
            let Credentials { name, password } = match credentials {
                Some(credentials) if asks_passwords => credentials,
                None if asks_passwords => {
                    let text = "a name and a password are asked for";
                    return Err(failed(CqlError::BadCredentials(text.to_owned())));
                }
                _ => return Ok(Rc::new(Connection { session }) as Rc<dyn Session>),
            };
            if let Err(error) = processor.log_in(&session, &name, &password).await {
                let address = client.ip();
                tracing::info!(target: "auth", %address, "a login of the console failed: {error}");
                return Err(failed(error));
            }
            Ok(Rc::new(Connection { session }) as Rc<dyn Session>)
        })
    }
}

fn failed(error: CqlError) -> Failure {
    Failure { code: error.code(), message: error.message() }
}

struct Connection {
    session: query::Session,
}

impl Session for Connection {
    fn user(&self) -> Option<String> {
        self.session.user.borrow().clone()
    }

    fn execute(&self, asked: Asked) -> LocalFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async move {
            let Some(processor) = runtime::local::try_get::<Processor>() else {
                return Err(failed(CqlError::Overloaded("the node starts or stops".to_owned())));
            };
            let Some(level) = level(&asked.consistency) else {
                let text = format!("no consistency level is called {}", asked.consistency);
                return Err(failed(CqlError::invalid(text)));
            };
            let parameters = Parameters {
                page_size: Some(asked.page_size as i32),
                paging_state: asked.paging_state.as_deref(),
                ..Parameters::plain(level)
            };
            let (text, origin) = (asked.statement.as_str(), asked.origin);
            let answered = self.answered(&processor, text, &parameters, origin).await;
            let response = answered.map_err(failed)?;
            let trace = response.tracing_id.map(|id| id.to_string());
            let (rows, done) = match response.kind {
                ResponseKind::Rows(rows) => (Some(told(&rows).await), String::new()),
                ResponseKind::Void => (None, "Done.".to_owned()),
                ResponseKind::SetKeyspace(name) => (None, format!("Keyspace {name} is in use.")),
                ResponseKind::SchemaChange(_) => (None, "The schema was changed.".to_owned()),
            };
            let keyspace = self.session.keyspace().map(|name| name.to_string());
            Ok(Outcome { rows, done, warnings: response.warnings, keyspace, trace })
        })
    }
}

impl Connection {
    /// Executes a statement, traced where its operator or the node's rules want it. What the page
    /// asks for itself is never traced: it would fill the list of slow queries that it shows.
    async fn answered(
        &self,
        processor: &Processor,
        statement: &str,
        parameters: &Parameters<'_>,
        origin: Origin,
    ) -> Result<query::Response, CqlError> {
        let cause = match origin {
            Origin::Page => None,
            Origin::Traced => Some(Cause::Asked),
            Origin::Editor => processor.traces_unasked(),
        };
        let Some(cause) = cause else {
            return processor.query(&self.session, statement, parameters).await;
        };
        let trace = processor.begin_trace(&self.session, cause);
        let bound = Parameters { trace: Some(&trace), ..parameters.clone() };
        let mut response = processor.query(&self.session, statement, &bound).await?;
        response.tracing_id = trace.told_id();
        trace.answered(&response);
        let (command, request) = ("QUERY", "Execute CQL3 query");
        let traced = Traced { command, request, text: statement, request_bytes: statement.len() };
        processor.end_trace(&trace, traced, &bound);
        Ok(response)
    }
}

/// The consistency level of that name.
fn level(name: &str) -> Option<Consistency> {
    let mut all = (0..=u16::from(u8::MAX)).map_while(Consistency::from_wire);
    all.find(|level| level.name().eq_ignore_ascii_case(name))
}

/// Rows as the console shows them.
async fn told(rows: &query::Rows) -> Rows {
    let specs = &rows.metadata.columns;
    let columns = specs.iter().map(|it| Column { name: it.name.to_string(), ty: it.ty.to_cql() });
    let mut told = Rows {
        columns: columns.collect(),
        rows: Vec::with_capacity(rows.row_count as usize),
        next: rows.paging_state.clone(),
    };
    let (mut body, mut left) = (&rows.body[..], BYTES_MAX);
    for _ in 0..rows.row_count {
        let mut row = Vec::with_capacity(specs.len());
        for spec in specs {
            let value = next_value(&mut body);
            let cell = value.map(|value| cell(&spec.ty, value, left.min(CELL_BYTES_MAX)));
            left = left.saturating_sub(cell.as_ref().map_or(0, |cell| cell.text.len()));
            row.push(cell);
        }
        told.rows.push(row);
        runtime::task::yield_if_needed().await;
    }
    told
}

/// The next `[int length][bytes]`; `None`: null, or nothing is left.
fn next_value<'b>(body: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (length, rest) = body.split_first_chunk()?;
    *body = rest;
    let length = usize::try_from(i32::from_be_bytes(*length)).ok()?;
    let (value, rest) = body.split_at_checked(length)?;
    *body = rest;
    Some(value)
}

/// A value as text of so many bytes at most. Texts stand without quotes, but within others.
fn cell(ty: &Type, value: &[u8], bytes_max: usize) -> Cell {
    // Twice as long at most, as a blob; a text may be cut within a character, and is told as one.
    let cut = &value[..value.len().min(bytes_max)];
    let text = match ty {
        Type::Ascii | Type::Text => String::from_utf8_lossy(cut).into_owned(),
        Type::Blob | Type::Custom(_) => print_scalar(ty, cut),
        _ if PARTS_BYTES_MAX < value.len() => format!("{} bytes", value.len()),
        _ if ty.is_native() => print_scalar(ty, value),
        _ => to_literal(ty, value),
    };
    let shown = &text[..text.floor_char_boundary(bytes_max)];
    let is_cut = cut.len() < value.len() && matches!(ty, Type::Ascii | Type::Text | Type::Blob);
    let is_clipped = is_cut || shown.len() < text.len() || PARTS_BYTES_MAX < value.len();
    Cell { text: shown.to_owned(), is_clipped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_texts_of_bounded_length() {
        let check = |ty: Type, value: &[u8], bytes_max, expected: &str, is_clipped| {
            let expected = Cell { text: expected.to_owned(), is_clipped };
            assert_eq!(cell(&ty, value, bytes_max), expected, "{ty:?}");
        };
        check(Type::Int, &7_i32.to_be_bytes(), 100, "7", false);
        check(Type::Text, b"it's <b>", 100, "it's <b>", false);
        check(Type::Text, b"", 100, "", false);
        check(Type::Text, b"abcdef", 3, "abc", true);
        check(Type::Text, "a\u{e9}\u{e9}".as_bytes(), 3, "a\u{e9}", true);
        check(Type::Blob, b"\x01\x02", 100, "0x0102", false);
        check(Type::Blob, b"\x01\x02\x03\x04", 4, "0x01", true);
        let list = Type::List { element: Box::new(Type::Text), frozen: false };
        let value = b"\0\0\0\x01\0\0\0\x01a";
        check(list.clone(), value, 100, "['a']", false);
        check(list.clone(), value, 2, "['", true);
        let large = vec![0; PARTS_BYTES_MAX + 1];
        check(list, &large, 100, "65537 bytes", true);
        check(Type::Text, b"a", 0, "", true);
    }

    #[test]
    fn levels_have_names() {
        assert_eq!(level("one"), Some(Consistency::One));
        assert_eq!(level("LOCAL_QUORUM"), Some(Consistency::LocalQuorum));
        assert_eq!(level("SOME"), None);
    }

    #[test]
    fn values_are_taken_one_by_one() {
        let mut body: &[u8] = b"\0\0\0\x01a\xff\xff\xff\xff\0\0\0\0\0\0\0\x09short";
        assert_eq!(next_value(&mut body), Some(&b"a"[..]));
        assert_eq!(next_value(&mut body), None);
        assert_eq!(next_value(&mut body), Some(&b""[..]));
        assert_eq!(next_value(&mut body), None, "what is missing is not read");
    }
}
