//! `nereid sstable`: looking into SSTables, checking, writing and rewriting them, without a node.
//!
//! One shard runs one operation. Data streams through it: memory does not grow with the files.
//!
//! From the ground up: [`options`] (the command line), [`config`] (of the node), [`output`],
//! [`files`] (which SSTables), [`schema`] (whose they are), [`values`] and [`as_json`] (values,
//! times and rows as text and as JSON), then the operations: [`dump`] with [`components`],
//! [`check`], [`rewrite`], [`scanner`] and [`input`] (write), [`query`], [`script`].
//!
//! Exit codes: 0 done; 1 the command line, the schema or the input does not make sense; 2 the
//! operation failed.

mod as_json;
mod check;
mod components;
mod config;
mod dump;
mod files;
mod input;
mod options;
mod output;
mod query;
mod rewrite;
mod scanner;
mod schema;
mod script;
mod values;

pub use self::options::command;
pub(super) use check::static_shard;
pub(super) use values::{hex, of_hex, parse as value_of, text as text_of};

use self::options::{Invocation, Operation, Options};
use ::options::terminal::{program, show};
use config::Config;
use logging::{Form, Stream};
use output::Output;
use reader::ReadError;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Why an operation ended early.
#[derive(Debug)]
enum Failure {
    /// What was asked for does not make sense.
    Arguments(String),
    /// It does, and did not work.
    Operation(String),
}

impl Failure {
    fn arguments<T>(text: impl Into<String>) -> Result<T, Failure> {
        Err(Failure::Arguments(text.into()))
    }
    fn operation<T>(text: impl Into<String>) -> Result<T, Failure> {
        Err(Failure::Operation(text.into()))
    }
    fn code(&self) -> u8 {
        match self {
            Failure::Arguments(_) => 1,
            Failure::Operation(_) => 2,
        }
    }
    fn tell(&self) {
        match self {
            Failure::Arguments(text) => eprintln!("error processing arguments: {text}"),
            Failure::Operation(text) => eprintln!("error running operation: {text}"),
        }
    }
}
impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Failure {
        Failure::Operation(error.to_string())
    }
}
impl From<runtime::io::IoError> for Failure {
    fn from(error: runtime::io::IoError) -> Failure {
        Failure::Operation(error.to_string())
    }
}

/// Runs the tool.
pub fn main(words: &[String]) -> ExitCode {
    if words.is_empty() {
        let program = program();
        eprintln!("Usage: {program} sstable OPERATION [OPTIONS] ...");
        eprintln!("Try `{program} sstable --help` for more information.");
        return ExitCode::from(1);
    }
    let options = match options::parse(words) {
        Ok(Invocation::Run(options)) => *options,
        Ok(Invocation::Print(text)) => return show(&text),
        Err(text) => {
            Failure::Arguments(text).tell();
            return ExitCode::from(1);
        }
    };
    let (level, levels) = (&options.log_level, &options.log_levels);
    if let Err(text) = logging::start(level, levels, Stream::Stderr, Form::Text) {
        Failure::Arguments(text).tell();
        return ExitCode::from(1);
    }
    match start(options) {
        Ok(code) => ExitCode::from(code),
        Err(text) => {
            Failure::Operation(text).tell();
            ExitCode::from(2)
        }
    }
}

/// Runs the operation on a shard of its own; its exit code.
fn start(options: Options) -> Result<u8, String> {
    let mut config = runtime::Config::new(1);
    config.idle_poll = std::time::Duration::ZERO;
    // Printing is what this shard is there for.
    config.stall_threshold = None;
    config.bypass_fsync = options.operation.needs_node();
    let options = Arc::new(options);
    let code = Arc::new(AtomicU8::new(0));
    let outcome = code.clone();
    runtime::run(config, move |_| {
        let (options, outcome) = (options.clone(), outcome.clone());
        async move {
            if let Err(failure) = run(&options).await {
                failure.tell();
                outcome.store(failure.code(), Ordering::Relaxed);
            }
        }
    })
    .map_err(|error| error.to_string())?;
    Ok(code.load(Ordering::Relaxed))
}

async fn run(options: &Options) -> Result<(), Failure> {
    let mut out = Output::new();
    let config = Config::read(options).await;
    let targets = files::find(&options.files, options.digests).await?;
    if targets.is_empty() && options.operation.needs_files() {
        return Failure::arguments("no sstables specified on the command line");
    }
    let source = schema::load(options, &config, &targets).await?;
    let job = Job { options, config, targets, source };
    let done = job.run(&mut out).await;
    // What was found before an error is worth showing.
    let flushed = out.flush();
    done.and(flushed)
}

/// An operation with all that it works on.
struct Job<'a> {
    options: &'a Options,
    config: Config,
    targets: Vec<files::Target>,
    source: schema::Sourced,
}

impl Job<'_> {
    async fn run(&self, out: &mut Output) -> Result<(), Failure> {
        match self.options.operation {
            Operation::DumpData => dump::data(self, out).await,
            Operation::Dump => dump::all(self, out).await,
            Operation::DumpIndex => dump::each(self, out, dump::Component::Index).await,
            Operation::DumpSummary => dump::each(self, out, dump::Component::Summary).await,
            Operation::DumpStatistics => dump::each(self, out, dump::Component::Statistics).await,
            Operation::DumpScyllaMetadata => {
                dump::each(self, out, dump::Component::ScyllaMetadata).await
            }
            Operation::DumpCompressionInfo => {
                dump::each(self, out, dump::Component::CompressionInfo).await
            }
            Operation::DumpSchema => schema::dump(self, out),
            Operation::Validate => check::validate(self, out).await,
            Operation::ValidateChecksums => check::checksums(self, out).await,
            Operation::ShardOf => check::shard_of(self, out).await,
            Operation::Scrub => rewrite::scrub(self, out).await,
            Operation::Split => rewrite::split(self, out).await,
            Operation::Filter => rewrite::filter(self, out).await,
            Operation::Upgrade => rewrite::upgrade(self, out).await,
            Operation::Decompress => rewrite::decompress(self, out).await,
            Operation::Write => input::write(self, out).await,
            Operation::Query => query::query(self, out).await,
            Operation::Script => script::script(self, out).await,
        }
    }
}
