//! What a log line looks like.
//!
//! ```text
//! text      LEVEL  YYYY-MM-DD HH:MM:SS,mmm [shard N] logger - message
//! json      {"timestamp", "level", "message", "target", "threadName"}, an object a line
//! journald  <priority>[shard N] logger - message; the journal keeps the time itself
//! ```

use crate::Stream;
use jiff::Timestamp;
use std::fmt::{self, Debug, Write};
use std::os::linux::fs::MetadataExt;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{Format, Json, JsonFields, Writer};
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent};
use tracing_subscriber::registry::LookupSpan;

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    Json,
    Journal,
}

impl Form {
    /// By the name that an operator gives it. `auto` is the journal's where the stream leads there,
    /// or else text.
    pub fn of(name: &str, stream: Stream) -> Form {
        match name {
            "text" => Form::Text,
            "json" => Form::Json,
            "journald" => Form::Journal,
            _ if is_journal(stream) => Form::Journal,
            _ => Form::Text,
        }
    }

    /// The line that says how many could not be written.
    pub(super) fn lost(self, count: u64) -> String {
        let text = format!("{count} log lines lost: the reader of the log does not keep up");
        let mut line = String::new();
        // Writing to a String does not fail.
        let _ = match self {
            Form::Json => writeln!(
                line,
                "{}",
                serde_json::json!({
                    "timestamp": now().to_string(), "level": "WARN", "message": text,
                    "target": LOGGER,
                })
            ),
            form => {
                head(&mut line, form, Level::WARN, LOGGER).and_then(|()| writeln!(line, "{text}"))
            }
        };
        line
    }
}

/// Whose lines those of the log about itself are.
const LOGGER: &str = "log";

/// Whether a stream leads to the journal: systemd names the device and the inode of what it gave.
fn is_journal(stream: Stream) -> bool {
    let Ok(named) = std::env::var("JOURNAL_STREAM") else { return false };
    let path = match stream {
        Stream::Stdout => "/proc/self/fd/1",
        Stream::Stderr => "/proc/self/fd/2",
    };
    let found = std::fs::metadata(path);
    found.is_ok_and(|found| named == format!("{}:{}", found.st_dev(), found.st_ino()))
}

fn now() -> Timestamp {
    Timestamp::from_microsecond(runtime::time::wall_micros()).unwrap_or_default()
}

/// What stands before the message.
fn head(out: &mut dyn Write, form: Form, level: Level, logger: &str) -> fmt::Result {
    let shard = runtime::current_shard().unwrap_or(0);
    if form == Form::Journal {
        let priority = match level {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            _ => 7,
        };
        return write!(out, "<{priority}>[shard {shard:2}] {logger} - ");
    }
    let name = level.as_str();
    let time = now().strftime("%Y-%m-%d %H:%M:%S,%3f");
    write!(out, "{name:<5} {time} [shard {shard:2}] {logger} - ")
}

/// Lines for people.
pub(super) struct Lines(pub(super) Form);

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> tracing_subscriber::fmt::FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        head(&mut out, self.0, *metadata.level(), metadata.target())?;
        message(&mut out, event);
        writeln!(out)
    }
}

/// The message of a line, and the fields after it.
pub(crate) fn message(out: &mut dyn Write, event: &Event<'_>) {
    event.record(&mut Message { out });
}

struct Message<'a> {
    out: &'a mut dyn Write,
}

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = match field.name() {
            "message" => write!(self.out, "{value:?}"),
            name => write!(self.out, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = match field.name() {
            "message" => write!(self.out, "{value}"),
            name => write!(self.out, " {name}={value}"),
        };
    }
}

/// Lines for programs: the library's own form, with our clock.
pub(super) fn json() -> Format<Json, Clock> {
    Format::default()
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_span_list(false)
        .with_thread_names(true)
        .with_timer(Clock)
}

/// How the library is to write the fields.
pub(super) fn json_fields() -> JsonFields {
    JsonFields::new()
}

/// The runtime's time, as RFC 3339.
pub(super) struct Clock;

impl FormatTime for Clock {
    fn format_time(&self, out: &mut Writer<'_>) -> fmt::Result {
        write!(out, "{:.6}", now())
    }
}
