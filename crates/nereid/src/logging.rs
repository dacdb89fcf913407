//! Log lines: `LEVEL  YYYY-MM-DD HH:MM:SS,mmm [shard N:group] logger - message`, to stdout.
//!
//! A logger is a `tracing` target. Its level is the default one or the one set by name; events
//! below it cost one comparison.
//!
//! Invariants
//!  - *one-write*: a line reaches the stream in one write, so that lines of shards do not mix.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Where lines go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// The loggers that an operator may name.
const LOGGERS: &[&str] = &[
    "api",
    "auth",
    "batchlog",
    "commitlog",
    "compaction",
    "config",
    "cql_server",
    "error_injection",
    "init",
    "large_data",
    "paxos",
    "query",
    "reactor",
    "reader_concurrency_semaphore",
    "replication",
    "schema",
    "snapshot",
    "sstable",
    "stall",
    "storage",
    "storage_service",
    "tablets",
    "task_manager",
    "tls",
    "tracing",
    "ttl",
];

/// The level of each of [`LOGGERS`] as an operator has set it since the start: its place in
/// [`LEVELS`] and one more; 0: as it was.
static CHANGED: [AtomicU8; LOGGERS.len()] = [const { AtomicU8::new(0) }; LOGGERS.len()];

const LEVELS: [Level; 5] = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];

/// The loggers of the process, as the REST API shows and sets them.
pub(crate) struct Loggers {
    default: Level,
    named: Vec<(String, Level)>,
}

impl Loggers {
    /// Those that were started with these levels.
    pub(crate) fn of(default: &str, levels: &[String]) -> Result<Loggers, String> {
        Ok(Loggers { default: parse_level(default)?, named: parse_levels(levels)? })
    }
}

impl admin::Loggers for Loggers {
    fn names(&self) -> &'static [&'static str] {
        LOGGERS
    }

    fn level(&self, name: &str) -> Option<&'static str> {
        LOGGERS.contains(&name).then(|| match level_of(name, self.default, &self.named) {
            Level::ERROR => "error",
            Level::WARN => "warn",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        })
    }

    fn set(&self, name: Option<&str>, level: &str) -> Result<(), String> {
        let level = parse_level(level)?;
        let place = LEVELS.iter().position(|one| *one == level).unwrap_or(2) as u8 + 1;
        for (logger, changed) in LOGGERS.iter().zip(&CHANGED) {
            if name.is_none_or(|name| name == *logger) {
                changed.store(place, Ordering::Relaxed);
            }
        }
        // Events remember whether anybody wants them.
        tracing::callsite::rebuild_interest_cache();
        Ok(())
    }
}

/// The level of a logger.
fn level_of(target: &str, default: Level, named: &[(String, Level)]) -> Level {
    let changed = LOGGERS.iter().position(|name| *name == target);
    let changed = changed.map_or(0, |at| CHANGED[at].load(Ordering::Relaxed));
    if let Some(level) = usize::from(changed).checked_sub(1).and_then(|place| LEVELS.get(place)) {
        return *level;
    }
    let named = named.iter().rev().find(|(name, _)| name == target);
    named.map_or(default, |(_, level)| *level)
}

/// For `--help-loggers`.
pub(crate) fn loggers() -> String {
    LOGGERS.join("\n")
}

/// Sends log lines to `stream` from now on. `levels` holds `logger=level` entries. The text of
/// the error names what is not a level.
pub(crate) fn start(default: &str, levels: &[String], stream: Stream) -> Result<(), String> {
    let default = parse_level(default)?;
    let named = parse_levels(levels)?;
    let lines = Lines { default, named, stream, spans: AtomicU64::new(1) };
    tracing::subscriber::set_global_default(lines).map_err(|error| error.to_string())
}

/// Refuses what [`start`] would.
pub(crate) fn check(default: &str, levels: &[String]) -> Result<(), String> {
    parse_level(default)?;
    parse_levels(levels).map(drop)
}

fn parse_levels(levels: &[String]) -> Result<Vec<(String, Level)>, String> {
    let mut named = Vec::new();
    for entry in levels.iter().flat_map(|entry| entry.split(':')) {
        let Some((logger, level)) = entry.split_once('=') else {
            return Err(format!("option logger_log_level: not logger=level: {entry}"));
        };
        named.push((logger.to_string(), parse_level(level)?));
    }
    Ok(named)
}

fn parse_level(text: &str) -> Result<Level, String> {
    match text.to_ascii_lowercase().as_str() {
        "trace" => Ok(Level::TRACE),
        "debug" => Ok(Level::DEBUG),
        "info" => Ok(Level::INFO),
        "warn" | "warning" => Ok(Level::WARN),
        "error" => Ok(Level::ERROR),
        _ => Err(format!("not a log level: {text} (trace, debug, info, warn, error)")),
    }
}

struct Lines {
    default: Level,
    named: Vec<(String, Level)>,
    stream: Stream,
    spans: AtomicU64,
}

impl Lines {
    fn level_of(&self, target: &str) -> Level {
        level_of(target, self.default, &self.named)
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level_of(metadata.target())
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = String::with_capacity(160);
        head(&mut line, event.metadata());
        let text = line.len();
        event.record(&mut Text { line: &mut line });
        let level = event.metadata().level().as_str();
        crate::log_ring::note(level, event.metadata().target(), &line[text..]);
        line.push('\n');
        // A log that cannot be written must not stop the database.
        let _ = match self.stream {
            Stream::Stdout => std::io::stdout().lock().write_all(line.as_bytes()),
            Stream::Stderr => std::io::stderr().lock().write_all(line.as_bytes()),
        };
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn head(line: &mut String, metadata: &Metadata<'_>) {
    let now = runtime::time::wall_micros();
    let level = match *metadata.level() {
        Level::WARN => "WARN",
        Level::ERROR => "ERROR",
        Level::INFO => "INFO",
        Level::DEBUG => "DEBUG",
        Level::TRACE => "TRACE",
    };
    let (seconds, millis) = (now.div_euclid(1_000_000), now.rem_euclid(1_000_000) / 1000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let _ = write!(
        line,
        "{level:<5} {year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02},{millis:03} "
    );
    let _ = match runtime::current_shard() {
        Some(shard) => write!(line, "[shard {shard:2}] "),
        None => write!(line, "[shard  0] "),
    };
    let _ = write!(line, "{} - ", metadata.target());
}

/// The civil date of a day counted from 1970-01-01 (proleptic Gregorian): years of 400 are counted
/// from 1 March, so that the leap day is the last of its year.
fn civil(days: i64) -> (i64, i64, i64) {
    let from_march = days + 719_468;
    let era = from_march.div_euclid(146_097);
    let day_of_era = from_march.rem_euclid(146_097);
    let leaps = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leaps) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

struct Text<'a> {
    line: &'a mut String,
}

impl Visit for Text<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.line, "{value:?}"),
            name => write!(self.line, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = match field.name() {
            "message" => write!(self.line, "{value}"),
            name => write!(self.line, " {name}={value}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let check = |days, expected| assert_eq!(civil(days), expected);
        check(0, (1970, 1, 1));
        check(-1, (1969, 12, 31));
        check(11_016, (2000, 2, 29));
        check(20_778, (2026, 11, 21));
    }

    #[test]
    fn levels() {
        assert_eq!(parse_level("WARN"), Ok(Level::WARN));
        assert!(parse_level("loud").unwrap_err().contains("loud"));
    }
}
