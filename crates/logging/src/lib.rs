//! The log: lines by level and logger, on stdout; `tracing-subscriber` collects them.
//!
//! A logger is a `tracing` target. Its level is the default one or the one set by name, at the
//! start or since; events below it cost one comparison.
//!
//! From the ground up: `form` (what a line looks like), `sink` (how it is written: a shard never
//! waits for who reads the log), [`ring`] (the latest lines, kept in memory), this file (levels).
//!
//! Options are not known here: who starts the log has read them.

mod form;
pub mod ring;
mod sink;

pub use form::Form;
use form::Lines;
use ring::Kept;
use sink::Sink;
use std::sync::atomic::{AtomicU8, Ordering};
use tracing::subscriber::Interest;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::{Layer, Registry};

/// Where lines go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
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
    "messaging",
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

/// The loggers of the process, for who shows and sets them while it runs.
#[derive(Debug)]
pub struct Loggers {
    default: Level,
    named: Vec<(String, Level)>,
}

impl Loggers {
    /// Those that were started with these levels.
    pub fn of(default: &str, levels: &[String]) -> Result<Loggers, String> {
        Ok(Loggers { default: parse_level(default)?, named: parse_levels(levels)? })
    }

    /// Their names.
    pub fn names(&self) -> &'static [&'static str] {
        LOGGERS
    }

    /// The level of one; `None`: there is no such logger.
    pub fn level(&self, name: &str) -> Option<&'static str> {
        LOGGERS.contains(&name).then(|| match level_of(name, self.default, &self.named) {
            Level::ERROR => "error",
            Level::WARN => "warn",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        })
    }

    /// Sets the level of one, or of all. The error names what is not a level.
    pub fn set(&self, name: Option<&str>, level: &str) -> Result<(), String> {
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
pub fn loggers() -> String {
    LOGGERS.join("\n")
}

/// Sends log lines to `stream` from now on. `levels` holds `logger=level` entries. The text of
/// the error names what is not a level.
pub fn start(default: &str, levels: &[String], stream: Stream, form: Form) -> Result<(), String> {
    let levels = Levels { default: parse_level(default)?, named: parse_levels(levels)? };
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(Sink { stream, form })
        .with_ansi(false)
        .log_internal_errors(false);
    let set = match form {
        Form::Json => {
            let layer = layer.fmt_fields(form::json_fields()).event_format(form::json());
            tracing::subscriber::set_global_default(
                Registry::default().with(layer).with(Kept).with(levels),
            )
        }
        Form::Text | Form::Journal => {
            let layer = layer.event_format(Lines(form));
            tracing::subscriber::set_global_default(
                Registry::default().with(layer).with(Kept).with(levels),
            )
        }
    };
    set.map_err(|error| error.to_string())
}

/// Refuses what [`start`] would.
pub fn check(default: &str, levels: &[String]) -> Result<(), String> {
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

/// Lets through what somebody wants to read.
struct Levels {
    default: Level,
    named: Vec<(String, Level)>,
}

impl Levels {
    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= level_of(metadata.target(), self.default, &self.named)
    }
}

impl<S: Subscriber> Layer<S> for Levels {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        // Remembered by each event until a level changes.
        if self.wants(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.wants(metadata)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels() {
        assert_eq!(parse_level("WARN"), Ok(Level::WARN));
        assert!(parse_level("loud").unwrap_err().contains("loud"));
    }
}
