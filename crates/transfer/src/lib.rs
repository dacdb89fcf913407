//! `nereid load` and `nereid unload`: rows of files into a table, rows of a table into files, as a
//! client of a running node.
//!
//! Lives on: shards of a process of its own. Sees: files, and a server by the CQL protocol: Nereid,
//! ScyllaDB or Cassandra.
//!
//! In reading order: `line` (the command line), [`csv`], [`values`], `json` and `parquet` (values),
//! `table` (what the server says of the table), `plan` (from a record to the values of a
//! statement), `feed` (files as chunks), `worker` (chunks as requests), `ledger` and `checkpoint`
//! (how far it is), `bad` (records that are no rows), `progress`, `load` (all of that together),
//! `unload`.
//!
//! Invariants
//!  - *bounded*: what was read and is not acknowledged yet has a limit in bytes, whatever the size
//!    of the files.
//!  - *resume-exact*: a checkpoint never passes a row that was neither acknowledged nor written to
//!    the file of bad rows.
//!  - *same-again*: all rows of a load have one timestamp, also when it is continued: a row that is
//!    sent twice is the same row.

mod bad;
mod checkpoint;
pub mod csv;
mod feed;
mod json;
mod ledger;
mod line;
mod load;
mod parquet;
mod plan;
mod progress;
mod table;
mod unload;
pub mod values;
mod worker;

pub use line::{load_command, unload_command};

use client::target::TlsFiles;
use client::{Failure, Login, Pool, Target, request::Consistency};
use std::process::ExitCode;
use std::time::Duration;

/// A server and how to talk to it.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) hosts: Vec<String>,
    pub(crate) port: u16,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) login: Option<Login>,
    pub(crate) timeout: Duration,
    pub(crate) consistency: Consistency,
}

impl Server {
    /// Connections to each of its hosts.
    pub(crate) async fn connect(&self) -> Result<Vec<Pool>, String> {
        let mut pools = Vec::new();
        for host in &self.hosts {
            let (tls, login) = (self.tls.as_ref(), self.login.clone());
            let target = Target::new(host, self.port, tls, login, self.timeout).await?;
            let pool = Pool::open(target).await.map_err(|failure| match failure {
                Failure::Refused { message, .. } => format!("{host}: {message}"),
                Failure::Lost(why) => why,
            })?;
            pools.push(pool);
        }
        Ok(pools)
    }
}

/// How a transfer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Whole,
    /// All of it was done, but for records that are no rows.
    WithErrors,
}

/// Runs `nereid load` with the words after its name.
pub fn load(words: &[String]) -> ExitCode {
    match line::read_load(words) {
        Ok(options) => exit(load::run(options)),
        Err(text) => refused(&text),
    }
}

/// Runs `nereid unload` with the words after its name.
pub fn unload(words: &[String]) -> ExitCode {
    match line::read_unload(words) {
        Ok(options) => exit(unload::run(options)),
        Err(text) => refused(&text),
    }
}

fn refused(text: &str) -> ExitCode {
    eprintln!("error: {text}");
    ExitCode::from(2)
}

/// 0 all of it; 1 it stopped before the end; 3 some records are no rows. 2 is the command line's.
fn exit(ended: Result<Ended, String>) -> ExitCode {
    match ended {
        Ok(Ended::Whole) => ExitCode::SUCCESS,
        Ok(Ended::WithErrors) => ExitCode::from(3),
        Err(text) => {
            eprintln!("error: {text}");
            ExitCode::FAILURE
        }
    }
}
