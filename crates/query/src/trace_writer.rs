//! Traces of requests that have ended, written to `system_traces`.
//!
//! Invariants
//!  - *after-the-answer*: a trace is written by a background task, which no request waits for.
//!  - *bounded*: at most [`WRITES_MAX`] traces of a shard wait to be written; what is more is
//!    dropped, and so is a trace that cannot be written.
//!
//! Traces are rows of `sessions`, `events` and `sessions_time_idx`, which expire after
//! [`TTL_SECS`]; slow requests also of `node_slow_log` and `node_slow_log_time_idx`, with the TTL
//! of their rule. While statements are counted by their form ([`cluster::statements`]) requests are
//! timed here too.

use crate::obscure::obscured;
use crate::parameters::Parameters;
use crate::processor::Processor;
use crate::session::Session;
use crate::trace::{Cause, PREPARE, TEXT_BYTES_MAX, Trace, Traced};
use cluster::SlowQueries;
use cluster::statements::Statements;
use model::value::{encode_inet, write_collection, write_map};
use plan::values::{Value, Values};
use replication::Consistency;
use runtime::time::Instant;

/// Traces of a shard that wait to be written at most.
const WRITES_MAX: usize = 64;
/// A day.
const TTL_SECS: u32 = 86_400;

impl Processor {
    /// Ends a trace, which is written in the background.
    pub fn end_trace(&self, trace: &Trace, traced: Traced<'_>, parameters: &Parameters<'_>) {
        // What is prepared is not executed.
        if self.trace_rules().counts() && traced.command != PREPARE {
            trace.count(&traced);
        }
        let text = obscured(traced.text);
        let traced = Traced { text: &text, ..traced };
        trace.finish(self, traced, told(&text, parameters));
    }

    /// The same of a request of another protocol: `parameters` are what it says of itself, by name.
    pub fn end_trace_of(&self, trace: &Trace, traced: Traced<'_>, parameters: &[(String, String)]) {
        trace.finish(self, traced, texts(parameters));
    }
}

impl Trace {
    /// Writes the trace, later; nothing of a request that was not slow and is traced for that
    /// alone.
    fn finish(&self, processor: &Processor, traced: Traced<'_>, parameters: Vec<u8>) {
        if self.cause == Cause::Counted {
            return;
        }
        let told = Told {
            duration: self.elapsed_micros(),
            coordinator: encode_inet(processor.cluster().node().rpc_address),
            parameters,
            traced,
        };
        let slow = match self.cause {
            Cause::MayBeSlow(slow) => Some(slow),
            Cause::Asked | Cause::Drawn => Some(processor.trace_rules().slow()),
            Cause::Counted => None,
        };
        let is_slow = |slow: &SlowQueries| {
            slow.enabled && slow.threshold_micros < u64::try_from(told.duration).unwrap_or(0)
        };
        let slow = slow.filter(is_slow);
        let (keeps, writes) = (self.cause.keeps(), processor.trace_writes());
        if (!keeps && slow.is_none()) || WRITES_MAX <= writes.scope.task_count() {
            return;
        }
        let mut rows = Vec::new();
        if let Some(slow) = &slow {
            rows.extend(self.slow_rows(&told, slow.ttl_secs));
        }
        match slow {
            _ if keeps => self.rows(&told, TTL_SECS, &mut rows),
            Some(slow) if !slow.fast => self.rows(&told, slow.ttl_secs, &mut rows),
            _ => {}
        }
        writes.scope.spawn(write(rows));
    }

    /// Records the request with those of its form. A batch has no text of its own.
    fn count(&self, traced: &Traced<'_>) {
        let form = match traced.text {
            "" => traced.command.to_owned(),
            text => syntax::form(text),
        };
        let nanos = (Instant::now() - self.started).as_nanos();
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        Statements::of_shard().record(&form, nanos, self.rows.get());
    }

    /// The rows of a slow request.
    fn slow_rows(&self, told: &Told<'_>, ttl_secs: u32) -> [Insert; 2] {
        let started_millis = self.started_micros.div_euclid(1000);
        let shard = i32::from(runtime::shard_id());
        let id = || Some(self.id.as_bytes().to_vec());
        let tables = self.tables.borrow();
        let names: Vec<&[u8]> = tables.iter().map(|name| name.as_bytes()).collect();
        let mut set = Vec::new();
        write_collection(names.iter().copied(), &mut set);
        // The session's id is of the time at which it began.
        let record = vec![
            id(),
            Some(told.coordinator.clone()),
            int(shard),
            text(told.traced.text_kept()),
            long(started_millis),
            int(told.duration),
            Some(told.parameters.clone()),
            id(),
            self.client.map(encode_inet),
            (!names.is_empty()).then_some(set),
            text(self.user.as_deref().unwrap_or("anonymous")),
        ];
        let time = vec![
            long(minute_of(started_millis)),
            long(started_millis),
            id(),
            id(),
            Some(told.coordinator.clone()),
            int(shard),
        ];
        let record_into = "node_slow_log (start_time, node_ip, shard, command, date, duration, \
                           parameters, session_id, source_ip, table_names, username)";
        let time_into = "node_slow_log_time_idx (minute, started_at, session_id, start_time, \
                         node_ip, shard)";
        [insert(record_into, ttl_secs, record), insert(time_into, ttl_secs, time)]
    }

    /// The rows of a trace as statements with their values: the session comes last, for with it a
    /// client takes the trace for complete.
    fn rows(&self, told: &Told<'_>, ttl_secs: u32, rows: &mut Vec<Insert>) {
        let id = || Some(self.id.as_bytes().to_vec());
        let thread = format!("shard {}", runtime::shard_id());
        let started_millis = self.started_micros.div_euclid(1000);
        for event in self.events.borrow().iter() {
            let into = "events (session_id, event_id, activity, source, source_elapsed, thread)";
            let values = vec![
                id(),
                Some(event.id.as_bytes().to_vec()),
                text(&event.activity),
                Some(told.coordinator.clone()),
                int(event.elapsed_micros),
                text(&thread),
            ];
            rows.push(insert(into, ttl_secs, values));
        }
        let into = "sessions_time_idx (minute, started_at, session_id)";
        let values = vec![long(minute_of(started_millis)), long(started_millis), id()];
        rows.push(insert(into, ttl_secs, values));
        let into = "sessions (session_id, client, command, coordinator, duration, parameters, \
                    request, request_size, started_at, username)";
        let Traced { command, request, request_bytes, .. } = told.traced;
        let values = vec![
            id(),
            self.client.map(encode_inet),
            text(command),
            Some(told.coordinator.clone()),
            int(told.duration),
            Some(told.parameters.clone()),
            text(request),
            int(i32::try_from(request_bytes).unwrap_or(i32::MAX)),
            long(started_millis),
            text(self.user.as_deref().unwrap_or("anonymous")),
        ];
        rows.push(insert(into, ttl_secs, values));
    }
}

/// What rows tell of a request that has ended.
struct Told<'a> {
    duration: i32,
    coordinator: Vec<u8>,
    parameters: Vec<u8>,
    traced: Traced<'a>,
}

/// A row to be written: a statement and its values.
type Insert = (String, Vec<Option<Vec<u8>>>);

/// Into a table of traces, with its columns.
fn insert(into: &str, ttl_secs: u32, values: Vec<Option<Vec<u8>>>) -> Insert {
    let markers = vec!["?"; values.len()].join(", ");
    let text = format!("INSERT INTO system_traces.{into} VALUES ({markers}) USING TTL {ttl_secs}");
    (text, values)
}

fn int(value: i32) -> Option<Vec<u8>> {
    Some(value.to_be_bytes().to_vec())
}

fn long(value: i64) -> Option<Vec<u8>> {
    Some(value.to_be_bytes().to_vec())
}

fn text(value: &str) -> Option<Vec<u8>> {
    Some(value.as_bytes().to_vec())
}

fn minute_of(millis: i64) -> i64 {
    millis - millis.rem_euclid(60_000)
}

/// Writes rows one after the other; the first that cannot be written is the last.
async fn write(rows: Vec<Insert>) {
    let processor = runtime::local::get::<Processor>();
    let session = Session::internal();
    for (text, values) in rows {
        let values: Vec<Value<'_>> =
            values.iter().map(|value| value.as_deref().map_or(Value::Null, Value::Bytes)).collect();
        let values = Values::Positional(&values);
        let parameters = Parameters { values, ..Parameters::plain(Consistency::One) };
        if let Err(error) = processor.query(&session, &text, &parameters).await {
            tracing::debug!(target: "tracing", "cannot write a trace: {error}");
            return;
        }
    }
}

/// The parameters of a request of CQL as a map of texts, by name.
fn told(text: &str, parameters: &Parameters<'_>) -> Vec<u8> {
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    let mut entries = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        entries.extend(value.map(|value| (name.to_owned(), value)));
    };
    add("consistency_level", Some(parameters.consistency.name().to_owned()));
    add("page_size", parameters.page_size.map(|size| size.to_string()));
    add("query", (!text.is_empty()).then(|| text[..end].to_owned()));
    let serial = parameters.serial_consistency;
    add("serial_consistency_level", serial.map(|level| level.name().to_owned()));
    add("user_timestamp", parameters.timestamp.map(|time| time.to_string()));
    texts(&entries)
}

/// A map of texts, in order of their names.
fn texts(entries: &[(String, String)]) -> Vec<u8> {
    debug_assert!(entries.is_sorted(), "a map is in order of its keys");
    let mut out = Vec::new();
    write_map(entries.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())), &mut out);
    out
}
