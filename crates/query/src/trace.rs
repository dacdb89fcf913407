//! Traces: what was done for one request, for the client that asked for it.
//!
//! Invariants
//!  - *after-the-answer*: a trace is written by a task of its own, which nobody waits for.
//!  - *bounded*: at most [`WRITES_MAX`] traces of a shard wait to be written, each of at most
//!    [`EVENTS_MAX`] events; what is more is dropped, and so is a trace that cannot be written.
//!
//! A request without a trace costs a test of an `Option`. Traces are rows of
//! `system_traces.sessions`, `events` and `sessions_time_idx`, which go after [`TTL_SECS`].

use crate::ids::Ids;
use crate::parameters::{Parameters, Value, Values};
use crate::processor::Processor;
use crate::session::Session;
use model::Uuid;
use model::value::{encode_inet, write_map};
use replication::Consistency;
use runtime::task::Scope;
use runtime::time::Instant;
use std::cell::RefCell;
use std::net::IpAddr;

/// Events of a trace at most.
const EVENTS_MAX: usize = 64;
/// Traces of a shard that wait to be written at most.
const WRITES_MAX: usize = 64;
/// Bytes of a statement's text that are kept.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// A day.
const TTL_SECS: u32 = 86_400;

/// The trace of one request while it is executed.
#[derive(Debug)]
pub struct Trace {
    id: Uuid,
    started: Instant,
    started_micros: i64,
    client: Option<IpAddr>,
    user: Option<String>,
    events: RefCell<Vec<Event>>,
}

#[derive(Clone, Debug)]
struct Event {
    id: Uuid,
    activity: String,
    elapsed_micros: i32,
}

/// What a trace says of its request.
#[derive(Clone, Copy, Debug)]
pub struct Traced<'a> {
    /// `QUERY`, `EXECUTE` or `BATCH`.
    pub command: &'static str,
    /// `Execute CQL3 query`
    pub request: &'static str,
    /// The statement; empty for batches.
    pub text: &'a str,
    /// Bytes of the request's body.
    pub request_bytes: usize,
}

/// The traces of a shard that are being written.
pub(crate) struct Writes {
    scope: Scope,
}

impl Writes {
    pub(crate) fn new() -> Writes {
        Writes { scope: Scope::new() }
    }
}

impl Trace {
    pub(crate) fn begin(session: &Session, ids: &Ids) -> Trace {
        let started_micros = runtime::time::wall_micros();
        Trace {
            id: ids.timeuuid(started_micros),
            started: Instant::now(),
            started_micros,
            client: session.client.map(|address| address.ip()),
            user: session.user.borrow().clone(),
            events: RefCell::new(Vec::new()),
        }
    }

    /// The session, as the client is told.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Something has begun.
    pub(crate) fn event(&self, ids: &Ids, activity: String) {
        let mut events = self.events.borrow_mut();
        if events.len() < EVENTS_MAX {
            let elapsed_micros = self.elapsed_micros();
            let id = ids.timeuuid(runtime::time::wall_micros());
            events.push(Event { id, activity, elapsed_micros });
        }
    }

    fn elapsed_micros(&self) -> i32 {
        i32::try_from((Instant::now() - self.started).as_micros()).unwrap_or(i32::MAX)
    }

    /// Writes the trace, later.
    pub(crate) fn finish(
        &self,
        processor: &Processor,
        writes: &Writes,
        traced: Traced<'_>,
        parameters: &Parameters<'_>,
    ) {
        if WRITES_MAX <= writes.scope.task_count() {
            return;
        }
        let rows = self.rows(processor, traced, parameters);
        writes.scope.spawn(async move {
            let processor = runtime::local::get::<Processor>();
            let session = Session::internal();
            for (text, values) in rows {
                let values: Vec<Value<'_>> = values
                    .iter()
                    .map(|value| value.as_deref().map_or(Value::Null, Value::Bytes))
                    .collect();
                let values = Values::Positional(&values);
                let parameters = Parameters { values, ..Parameters::plain(Consistency::One) };
                if let Err(error) = processor.query(&session, &text, &parameters).await {
                    tracing::debug!(target: "tracing", "a trace is lost: {error}");
                    return;
                }
            }
        });
    }

    /// The rows as statements with their values: the session comes last, for with it a client
    /// takes the trace for complete.
    fn rows(
        &self,
        processor: &Processor,
        traced: Traced<'_>,
        parameters: &Parameters<'_>,
    ) -> Vec<(String, Vec<Option<Vec<u8>>>)> {
        let duration = self.elapsed_micros();
        let coordinator = processor.cluster().node().rpc_address;
        let id = || Some(self.id.as_bytes().to_vec());
        let inet = |address| Some(encode_inet(address));
        let int = |value: i32| Some(value.to_be_bytes().to_vec());
        let millis = |value: i64| Some(value.to_be_bytes().to_vec());
        let text = |value: &str| Some(value.as_bytes().to_vec());
        let thread = format!("shard {}", runtime::shard_id());
        let started_millis = self.started_micros.div_euclid(1000);
        let mut rows = Vec::new();
        for event in self.events.borrow().iter() {
            let insert = format!(
                "INSERT INTO system_traces.events (session_id, event_id, activity, source, \
                 source_elapsed, thread) VALUES (?, ?, ?, ?, ?, ?) USING TTL {TTL_SECS}"
            );
            let values = vec![
                id(),
                Some(event.id.as_bytes().to_vec()),
                text(&event.activity),
                inet(coordinator),
                int(event.elapsed_micros),
                text(&thread),
            ];
            rows.push((insert, values));
        }
        let insert = format!(
            "INSERT INTO system_traces.sessions_time_idx (minute, started_at, session_id) VALUES \
             (?, ?, ?) USING TTL {TTL_SECS}"
        );
        let minute = started_millis - started_millis.rem_euclid(60_000);
        rows.push((insert, vec![millis(minute), millis(started_millis), id()]));
        let insert = format!(
            "INSERT INTO system_traces.sessions (session_id, client, command, coordinator, \
             duration, parameters, request, request_size, started_at, username) VALUES (?, ?, ?, \
             ?, ?, ?, ?, ?, ?, ?) USING TTL {TTL_SECS}"
        );
        let values = vec![
            id(),
            self.client.and_then(inet),
            text(traced.command),
            inet(coordinator),
            int(duration),
            Some(told(traced.text, parameters)),
            text(traced.request),
            int(i32::try_from(traced.request_bytes).unwrap_or(i32::MAX)),
            millis(started_millis),
            text(self.user.as_deref().unwrap_or("anonymous")),
        ];
        rows.push((insert, values));
        rows
    }
}

/// The parameters of a request as a map of texts, by name.
fn told(text: &str, parameters: &Parameters<'_>) -> Vec<u8> {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut entries = vec![("consistency_level", parameters.consistency.name().to_owned())];
    entries.extend(parameters.page_size.map(|size| ("page_size", size.to_string())));
    if !text.is_empty() {
        entries.push(("query", text[..end].to_owned()));
    }
    let serial = parameters.serial_consistency;
    entries.extend(serial.map(|level| ("serial_consistency_level", level.name().to_owned())));
    entries.extend(parameters.timestamp.map(|time| ("user_timestamp", time.to_string())));
    let mut out = Vec::new();
    write_map(entries.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())), &mut out);
    out
}
