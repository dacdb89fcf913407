//! What all performance tools share: a command line of own options and of the node's, log lines on
//! stderr, a folder, shards, a node, the exit code.
//!
//! Invariants
//!  - *own-options-first*: an option of the tool hides one of the node with the same name.
//!  - *operator-wins*: what a tool prefers for the node yields to what the operator said.

use super::given::Given;
use clap::{Arg, Command};
use logging::{Form, Stream};
use node::TemporaryFolder;
use options::{Line, Listed, Source, Values, terminal};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A performance tool: its options, and what it does with them.
pub(crate) trait Tool: Sized + Send + Sync + 'static {
    /// The name of the tool, and what it measures.
    const NAME: &'static str;
    const ABOUT: &'static str;
    /// Options of the node as this tool prefers them (*operator-wins*).
    const PREFERRED: &'static [(&'static str, &'static str)];

    /// A list that the words ask for instead of a run.
    fn listing(_: &Given) -> Option<String> {
        None
    }

    /// The tool's own options (*own-options-first*).
    fn args() -> Vec<Arg>;

    /// Takes what was given of them. The error is what to print.
    fn take(given: &Given) -> Result<Self, String>;

    /// Sets options of the node that own ones stand for; refuses what does not go together.
    fn adjust(&self, _: &mut Values) -> Result<(), String> {
        Ok(())
    }

    /// The folder that the data goes to; without one it is temporary.
    fn folder(&self) -> Option<&Path> {
        None
    }

    /// Measures, on shard 0. The error is printed.
    async fn measure(&self, bench: &Bench) -> Result<(), String>;
}

/// What the words ask for.
#[derive(Debug)]
pub(crate) enum Asked<T> {
    Run(T, Box<Values>),
    Print(String),
}

/// The command line of a tool: its own options, then those of the node.
pub(crate) fn command<T: Tool>() -> Command {
    command_of(T::NAME, T::ABOUT, T::args())
}

fn command_of(name: &str, about: &'static str, own: Vec<Arg>) -> Command {
    let names: Vec<&str> = own.iter().filter_map(Arg::get_long).collect();
    let of_node: Vec<Arg> = options::arguments(Listed::BesideOwn, &names).collect();
    Command::new(format!("nereid {name}"))
        .no_binary_name(true)
        .about(about)
        .after_help(options::OTHERS)
        .disable_help_flag(true)
        .args(own)
        .arg(options::help_flag())
        .args(of_node)
}

/// Reads the words after the tool's name; the error is what to print.
pub(crate) fn parse<T: Tool>(words: &[String]) -> Result<Asked<T>, String> {
    let matches = match options::read(command::<T>(), words) {
        Ok(Line::Given(matches)) => matches,
        Ok(Line::Help(text)) => return Ok(Asked::Print(text)),
        Err(refused) => return Err(refused.to_string()),
    };
    let given = Given(&matches);
    if let Some(text) = T::listing(&given) {
        return Ok(Asked::Print(text));
    }
    let tool = T::take(&given)?;
    let mut values = options::values_of(&matches).map_err(|refused| refused.to_string())?;
    if let Some(folder) = tool.folder() {
        prefer(&mut values, "workdir", &folder.display().to_string());
    }
    T::PREFERRED.iter().for_each(|(name, value)| prefer(&mut values, name, value));
    tool.adjust(&mut values)?;
    Ok(Asked::Run(tool, Box::new(values)))
}

/// Sets an option of the node where the operator has not said otherwise.
pub(crate) fn prefer(values: &mut Values, name: &str, value: &str) {
    if values.source(name) == Source::Default {
        let set = values.set(name, vec![value.to_string()], Source::File);
        debug_assert!(set.is_ok(), "{name} is an option");
    }
}

/// Sets an option of the node, as the operator's words mean it.
pub(crate) fn set(values: &mut Values, name: &str, value: &str) -> Result<(), String> {
    let set = values.set(name, vec![value.to_string()], Source::CommandLine);
    set.map_err(|refused| refused.to_string())
}

/// Runs a tool: the words after its name.
pub(crate) fn main<T: Tool>(words: &[String]) -> ExitCode {
    let (tool, values) = match parse::<T>(words) {
        Ok(Asked::Run(tool, values)) => (tool, *values),
        Ok(Asked::Print(text)) => return terminal::show(&text),
        Err(text) => return terminal::refuse(&text),
    };
    let tool = Arc::new(tool);
    let measure = move |bench: Arc<Bench>| -> Measured {
        let tool = tool.clone();
        Box::pin(async move { tool.measure(&bench).await })
    };
    start(values, Box::new(measure))
}

/// What comes of a measurement.
type Measured = Pin<Box<dyn Future<Output = Result<(), String>>>>;
/// The measurement of a tool. Behind a pointer, so that what runs shards is compiled once.
type Measure = Box<dyn Fn(Arc<Bench>) -> Measured + Send + Sync>;

/// Starts the log, and measures; the exit code.
fn start(values: Values, measure: Measure) -> ExitCode {
    let levels = values.list("logger_log_level");
    let form = Form::of(values.text("log_format"), Stream::Stderr);
    let default = values.text("default_log_level");
    if let Err(text) = logging::start(default, &levels, Stream::Stderr, form) {
        return terminal::refuse(&text);
    }
    match run(values, measure) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

/// Runs shards; the tool leads on shard 0, and when it has ended all of them end.
fn run(mut values: Values, measure: Measure) -> Result<(), String> {
    let mut temporary = None;
    if values.source("workdir") == Source::Default {
        let made =
            TemporaryFolder::make().map_err(|error| format!("no temporary folder: {error}"))?;
        prefer(&mut values, "workdir", &made.path().display().to_string());
        temporary = Some(made);
    }
    let config = node::runtime_config(&values)?;
    let bench = Arc::new(Bench { shards: config.shards, values });
    let measure = Arc::new(measure);
    let failed = Arc::new(AtomicBool::new(false));
    let outcome = failed.clone();
    runtime::run(config, move |shard| {
        let (bench, measure, outcome) = (bench.clone(), measure.clone(), outcome.clone());
        async move {
            if shard != 0 {
                return node::follow().await;
            }
            if let Err(text) = measure(bench).await {
                eprintln!("{text}");
                outcome.store(true, Ordering::Relaxed);
            }
            node::end_all().await;
        }
    })
    .map_err(|error| error.to_string())?;
    drop(temporary);
    if failed.load(Ordering::Relaxed) { Err("the measurement failed".into()) } else { Ok(()) }
}

/// Where a tool runs.
pub(crate) struct Bench {
    pub(crate) shards: u16,
    /// The node's options.
    pub(crate) values: Values,
}

impl Bench {
    /// The folder of all data.
    pub(crate) fn folder(&self) -> PathBuf {
        node::workdir(&self.values)
    }

    /// Does `work` on a node that `change` has adjusted, and stops the node.
    pub(crate) async fn with_node(
        &self,
        change: impl FnOnce(&mut node::Config),
        work: impl AsyncFnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        let _lock = node::lock(&self.folder()).await?;
        let mut config = node::config(&self.values, self.shards)?;
        change(&mut config);
        node::start(config).await?;
        let done = work().await;
        node::stop().await?;
        done
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Command lines of tools, in their tests.

    use super::*;

    pub(crate) fn parse_text<T: Tool>(line: &str) -> Result<Asked<T>, String> {
        parse(&line.split_whitespace().map(str::to_string).collect::<Vec<_>>())
    }

    /// The options of a line that is not refused, and the node's.
    pub(crate) fn options<T: Tool>(line: &str) -> (T, Values) {
        match parse_text(line) {
            Ok(Asked::Run(tool, values)) => (tool, *values),
            Ok(Asked::Print(text)) => panic!("{line}: {text}"),
            Err(text) => panic!("{line}: {text}"),
        }
    }

    /// Lines that are refused, and what the refusal must say.
    pub(crate) fn check_refusals<T: Tool>(lines: &[(&str, &str)]) {
        for (line, part) in lines {
            match parse_text::<T>(line) {
                Err(text) => assert!(text.contains(part), "{line}: {text}"),
                Ok(_) => panic!("{line} is not refused"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{check_refusals, options, parse_text};
    use super::*;
    use crate::given;

    #[derive(Debug, PartialEq)]
    struct Rows(u64);

    impl Tool for Rows {
        const NAME: &'static str = "rows";
        const ABOUT: &'static str = "Counts rows";
        const PREFERRED: &'static [(&'static str, &'static str)] = &[("smp", "1")];

        fn listing(given: &Given) -> Option<String> {
            given.flag("list").then_some("a list".to_string())
        }
        fn args() -> Vec<Arg> {
            vec![given::number("rows", "5", "rows"), given::flag("list", "list")]
        }
        fn take(given: &Given) -> Result<Rows, String> {
            Ok(Rows(given.number("rows")))
        }
        fn adjust(&self, node: &mut Values) -> Result<(), String> {
            if self.0 == 0 { Err("no rows".into()) } else { set(node, "memory", "1G") }
        }
        fn folder(&self) -> Option<&Path> {
            Some(Path::new("/data"))
        }
        async fn measure(&self, _: &Bench) -> Result<(), String> {
            Ok(())
        }
    }

    #[test]
    fn own_options_and_those_of_the_node() {
        let (tool, values) = options::<Rows>("--rows 7 -m2G --num-tokens 3");
        assert_eq!(tool, Rows(7));
        let texts = ["smp", "memory", "num_tokens", "workdir"].map(|name| values.text(name));
        assert_eq!(texts, ["1", "1G", "3", "/data"]);
        let (tool, values) = options::<Rows>("-c4 --workdir /here");
        assert_eq!(tool, Rows(5));
        assert_eq!((values.integer("smp"), values.text("workdir")), (4, "/here"));
    }

    #[test]
    fn words_may_ask_for_text() {
        let check = |line, expected: &str| match parse_text::<Rows>(line) {
            Ok(Asked::Print(text)) => assert!(text.contains(expected), "{text}"),
            other => panic!("{line}: {other:?}"),
        };
        check("--help", "Usage: nereid rows [OPTIONS]");
        check("--help", "--memory");
        check("--list", "a list");
    }

    #[test]
    fn refusals() {
        check_refusals::<Rows>(&[
            ("--rows x", "invalid value 'x' for '--rows <N>'"),
            ("--rows 0", "no rows"),
            ("--unheard-of", "unknown option --unheard-of"),
        ]);
    }
}
