//! The command lines of the two tools.

use crate::Server;
use crate::csv::Dialect;
use crate::feed::Records;
use crate::load::{Earlier, Header, Load};
use crate::plan::Nulls;
use crate::unload::{Form, Unload};
use crate::values::Formats;
use crate::worker::Limits;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use client::Login;
use client::request::Consistency;
use client::target::TlsFiles;
use std::path::{Path, PathBuf};
use std::time::Duration;

const SERVER: &str = "Server";
const CSV: &str = "CSV";
const VALUES: &str = "Values";

/// The options of `nereid load`.
pub fn load_command() -> Command {
    let command = Command::new("nereid load")
        .about("Load rows from CSV, JSON or Parquet files into a table of a running node")
        .after_help(
            "Files that end in .gz or .zst are decompressed; - is standard input. An interrupted \
             load leaves a checkpoint; the same command with --resume continues it.\n\n\
             Exit codes: 0 all rows were loaded; 1 the load stopped before its end; 2 the command \
             line is wrong; 3 all was loaded but for bad rows.",
        )
        .arg(Arg::new("table").required(true).value_name("KEYSPACE.TABLE").help("The table"))
        .arg(
            Arg::new("files")
                .required(true)
                .num_args(1..)
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("The files, loaded in this order"),
        );
    let own = [
        number("skip", "N", "Records to pass over at the start").default_value("0"),
        number("max-records", "N", "Load at most so many records"),
        number("ttl", "SECS", "Rows expire after so many seconds")
            .value_parser(value_parser!(u32).range(1..)),
        option("timestamp", "MICROS", "Timestamp of all rows [default: the time at the start]")
            .allow_hyphen_values(true)
            .value_parser(value_parser!(i64)),
        option("nulls", "WHAT", "What a null does: unset leaves the column, delete deletes it")
            .value_parser(["unset", "delete"])
            .default_value("unset"),
        number("batch-size", "ROWS", "Rows in a batch [default: 256, 32 without shards]")
            .value_parser(value_parser!(u16).range(1..=10_000)),
        number("concurrency", "N", "Batches in flight per thread")
            .value_parser(value_parser!(u64).range(1..=10_000))
            .default_value("64"),
        number("threads", "N", "Threads of this client")
            .value_parser(value_parser!(u16).range(1..=64))
            .default_value("1"),
        number("rate", "ROWS", "Send at most so many rows a second")
            .value_parser(value_parser!(u64).range(1..)),
        number("retry-for", "SECS", "Repeat a request that fails for so long").default_value("120"),
        number("max-errors", "N", "Stop after so many bad rows").default_value("1000"),
        file("bad", "Where bad rows go [default: KEYSPACE.TABLE.bad]"),
        file("checkpoint", "Where the state is kept [default: KEYSPACE.TABLE.checkpoint]"),
        flag("resume", "Continue the load that was interrupted").conflicts_with("restart"),
        flag("restart", "Forget a load that was interrupted"),
        flag("dry-run", "Read and check everything, write nothing"),
        option("header", "WHEN", "Whether the first line of files names the columns")
            .value_parser(["auto", "yes", "no"])
            .default_value("auto")
            .help_heading(CSV),
    ];
    shared(command.args(own), true)
}

/// The options of `nereid unload`.
pub fn unload_command() -> Command {
    let command = Command::new("nereid unload")
        .about("Write the rows of a table of a running node to a CSV, JSON or Parquet file")
        .after_help(
            "A file that ends in .gz or .zst is compressed; - is standard output.\n\n\
             Exit codes: 0 all rows were written; 1 it stopped before its end; 2 the command line \
             is wrong.",
        )
        .arg(
            Arg::new("words")
                .num_args(0..=2)
                .value_name("KEYSPACE.TABLE FILE")
                .help("The table and the file; with --query only the file [default: -]"),
        );
    let own = [
        option("query", "SELECT", "The rows of this statement instead of a table's"),
        option("where", "CONDITION", "Only rows for which this CQL condition holds"),
        number("max-records", "N", "Write at most so many rows"),
        number("splits", "N", "Token ranges that the table is read in")
            .value_parser(value_parser!(u32).range(1..=1_000_000)),
        number("concurrency", "N", "Token ranges that are read at once")
            .value_parser(value_parser!(u64).range(1..=1000))
            .default_value("8"),
        number("page-size", "ROWS", "Rows in an answer")
            .value_parser(value_parser!(u32).range(1..=1_000_000))
            .default_value("1000"),
        number("retry-for", "SECS", "Repeat a request that fails for so long").default_value("120"),
        option("header", "WHETHER", "Whether the first line names the columns")
            .value_parser(["yes", "no"])
            .default_value("yes")
            .help_heading(CSV),
    ];
    shared(command.args(own), false)
}

fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn number(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    option(name, value, help).value_parser(value_parser!(u64))
}

fn file(name: &'static str, help: &'static str) -> Arg {
    option(name, "FILE", help).value_parser(value_parser!(PathBuf))
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

fn shared(command: Command, writes: bool) -> Command {
    let server = [
        option("host", "HOST,..", "Addresses of nodes").default_value("localhost"),
        option("port", "PORT", "Their CQL port")
            .value_parser(value_parser!(u16).range(1..))
            .default_value("9042"),
        option("user", "ROLE", "The role to log in as"),
        option("password", "TEXT", "Its password [default: the variable NEREID_PASSWORD]"),
        file("password-file", "A file with the password").conflicts_with("password"),
        file("tls-trust", "Use TLS; PEM file with the authority of the node's certificate"),
        file("tls-certificate", "PEM file with this client's certificate").requires("tls-key"),
        file("tls-key", "PEM file with its key").requires("tls-certificate"),
        option("consistency", "LEVEL", "Consistency level").default_value(match writes {
            true => "LOCAL_QUORUM",
            false => "LOCAL_ONE",
        }),
        number("timeout", "SECS", "How long an answer may take").default_value("60"),
    ];
    let csv = [
        option("delimiter", "CHAR", "Between fields: a character, or tab").default_value(","),
        option("quote", "CHAR", "Around fields: a character, or none").default_value("\""),
        option(
            "escape",
            "CHAR",
            "Before a special character: a character, or none; the quote \
                                  itself where quotes are doubled",
        )
        .default_value("\\"),
    ];
    let values = [
        option("null", "TEXT", "What stands for null").default_value(""),
        option("timestamp-format", "FORMAT", "As strftime has it [default: ISO 8601]"),
        option("date-format", "FORMAT", "As strftime has it [default: %Y-%m-%d]"),
        option("time-format", "FORMAT", "As strftime has it [default: %H:%M:%S.%f]"),
        option("boolean-words", "TRUE,FALSE", "Words for true and false"),
        option("decimal-separator", "CHAR", "In place of the point in numbers")
            .value_parser(value_parser!(char)),
        option("thousands-separator", "CHAR", "Left out of numbers")
            .value_parser(value_parser!(char)),
    ];
    command
        .arg(
            option("format", "FORMAT", "Format of files [default: by their names, else csv]")
                .value_parser(["csv", "json", "parquet"]),
        )
        .arg(
            option("columns", "NAME,..", "The columns of the fields; - is a field without one")
                .value_delimiter(','),
        )
        .arg(flag("quiet", "Show no progress").short('q'))
        .args(server.map(|arg| arg.help_heading(SERVER)))
        .args(csv.map(|arg| arg.help_heading(CSV)))
        .args(values.map(|arg| arg.help_heading(VALUES)))
}

fn matches(command: Command, words: &[String]) -> ArgMatches {
    let name = std::iter::once(command.get_name().to_string());
    match command.try_get_matches_from(name.chain(words.iter().cloned())) {
        Ok(matches) => matches,
        Err(error) => error.exit(),
    }
}

fn text(matches: &ArgMatches, name: &str) -> Option<String> {
    matches.get_one::<String>(name).cloned()
}

fn count(matches: &ArgMatches, name: &str) -> Option<u64> {
    matches.get_one::<u64>(name).copied()
}

fn path(matches: &ArgMatches, name: &str) -> Option<PathBuf> {
    matches.get_one::<PathBuf>(name).cloned()
}

/// Reads the words of `nereid load`.
pub(crate) fn read_load(words: &[String]) -> Result<Load, String> {
    let matches = matches(load_command(), words);
    let (keyspace, table) = table_name(&text(&matches, "table").unwrap_or_default())?;
    let files: Vec<PathBuf> = matches.get_many("files").into_iter().flatten().cloned().collect();
    let records = match form(&matches, &files)? {
        Form::Text(records) => records,
        // Its rows are read as JSON.
        Form::Parquet => Records::Json,
    };
    let beside = |ending: &str| PathBuf::from(format!("{keyspace}.{table}.{ending}"));
    let earlier = match (matches.get_flag("resume"), matches.get_flag("restart")) {
        (true, _) => Earlier::Resume,
        (_, true) => Earlier::Forget,
        _ => Earlier::Refuse,
    };
    Ok(Load {
        server: server(&matches)?,
        files,
        records,
        header: match text(&matches, "header").as_deref() {
            Some("yes") => Header::Yes,
            Some("no") => Header::No,
            _ => Header::Auto,
        },
        columns: columns(&matches),
        skip: count(&matches, "skip").unwrap_or(0),
        records_max: count(&matches, "max-records"),
        formats: formats(&matches)?,
        nulls: match text(&matches, "nulls").as_deref() {
            Some("delete") => Nulls::Delete,
            _ => Nulls::Unset,
        },
        ttl_secs: matches.get_one::<u32>("ttl").copied(),
        timestamp: matches.get_one::<i64>("timestamp").copied(),
        batch_rows: matches.get_one::<u16>("batch-size").copied(),
        limits: Limits {
            requests_max: count(&matches, "concurrency").unwrap_or(1) as usize,
            retry_for: Duration::from_secs(count(&matches, "retry-for").unwrap_or(0)),
            rate: count(&matches, "rate").map(|rate| rate as f64),
            is_dry: matches.get_flag("dry-run"),
        },
        threads: matches.get_one::<u16>("threads").copied().unwrap_or(1),
        errors_max: count(&matches, "max-errors").unwrap_or(0),
        bad: path(&matches, "bad").unwrap_or_else(|| beside("bad")),
        checkpoint: path(&matches, "checkpoint").unwrap_or_else(|| beside("checkpoint")),
        earlier,
        is_quiet: matches.get_flag("quiet"),
        keyspace,
        table,
    })
}

/// Reads the words of `nereid unload`.
pub(crate) fn read_unload(words: &[String]) -> Result<Unload, String> {
    let matches = matches(unload_command(), words);
    let mut words: Vec<String> = matches.get_many("words").into_iter().flatten().cloned().collect();
    let query = text(&matches, "query");
    let table = match &query {
        Some(_) if 1 < words.len() => return Err("--query stands in place of a table".to_string()),
        Some(_) => None,
        None if words.is_empty() => return Err("a table, or --query".to_string()),
        None => Some(table_name(&words.remove(0))?),
    };
    let file = PathBuf::from(words.pop().unwrap_or_else(|| "-".to_string()));
    let form = form(&matches, std::slice::from_ref(&file))?;
    Ok(Unload {
        server: server(&matches)?,
        table,
        query,
        condition: text(&matches, "where"),
        form,
        file,
        has_header: text(&matches, "header").as_deref() == Some("yes"),
        columns: columns(&matches),
        formats: formats(&matches)?,
        rows_max: count(&matches, "max-records"),
        splits: matches.get_one::<u32>("splits").copied(),
        concurrency: count(&matches, "concurrency").unwrap_or(1) as usize,
        page_rows: matches.get_one::<u32>("page-size").copied().unwrap_or(1000),
        retry_for: Duration::from_secs(count(&matches, "retry-for").unwrap_or(0)),
        is_quiet: matches.get_flag("quiet"),
    })
}

fn server(matches: &ArgMatches) -> Result<Server, String> {
    let hosts = text(matches, "host").unwrap_or_default();
    let hosts = hosts.split(',').map(|host| host.trim().to_string()).collect();
    let level = text(matches, "consistency").unwrap_or_default();
    let consistency = Consistency::parse(&level);
    let consistency =
        consistency.ok_or_else(|| format!("--consistency: no such level: {level}"))?;
    let tls = path(matches, "tls-trust").map(|trust| TlsFiles {
        trust,
        identity: path(matches, "tls-certificate").zip(path(matches, "tls-key")),
    });
    if tls.is_none() && path(matches, "tls-certificate").is_some() {
        return Err("--tls-certificate needs --tls-trust".to_string());
    }
    Ok(Server {
        hosts,
        port: matches.get_one::<u16>("port").copied().unwrap_or(9042),
        tls,
        login: login(matches)?,
        timeout: Duration::from_secs(count(matches, "timeout").unwrap_or(60).max(1)),
        consistency,
    })
}

#[allow(clippy::disallowed_methods, reason = "no shard runs yet")]
fn login(matches: &ArgMatches) -> Result<Option<Login>, String> {
    let Some(user) = text(matches, "user") else { return Ok(None) };
    let from_file = |path: &Path| {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let text = String::from_utf8_lossy(&bytes);
        Ok::<_, String>(text.trim_end_matches(['\r', '\n']).to_string())
    };
    let password = match (text(matches, "password"), path(matches, "password-file")) {
        (Some(password), _) => password,
        (None, Some(path)) => from_file(&path)?,
        (None, None) => std::env::var("NEREID_PASSWORD")
            .map_err(|_| "--user: no --password, --password-file or NEREID_PASSWORD")?,
    };
    Ok(Some(Login { user, password }))
}

fn dialect(matches: &ArgMatches) -> Result<Dialect, String> {
    let byte = |name: &str| match text(matches, name).unwrap_or_default().as_str() {
        "none" => Ok(None),
        "tab" | "\\t" => Ok(Some(b'\t')),
        other => match other.as_bytes() {
            [byte] if !matches!(byte, b'\n' | b'\r') => Ok(Some(*byte)),
            _ => Err(format!("--{name}: not one ASCII character: {other}")),
        },
    };
    let delimiter = byte("delimiter")?.ok_or("--delimiter: there must be one")?;
    let (quote, escape) = (byte("quote")?, byte("escape")?);
    if [quote, escape].contains(&Some(delimiter)) {
        return Err("--delimiter: it is the quote or the escape, too".to_string());
    }
    Ok(Dialect::new(delimiter, quote, escape))
}

fn formats(matches: &ArgMatches) -> Result<Formats, String> {
    let booleans = match text(matches, "boolean-words") {
        None => None,
        Some(words) => match words.split_once(',') {
            Some((yes, no)) => Some((yes.trim().to_string(), no.trim().to_string())),
            None => return Err(format!("--boolean-words: not two words: {words}")),
        },
    };
    Ok(Formats {
        null: text(matches, "null").unwrap_or_default(),
        timestamp: text(matches, "timestamp-format"),
        date: text(matches, "date-format"),
        time: text(matches, "time-format"),
        booleans,
        decimal_separator: matches.get_one::<char>("decimal-separator").copied(),
        thousands_separator: matches.get_one::<char>("thousands-separator").copied(),
    })
}

fn columns(matches: &ArgMatches) -> Option<Vec<String>> {
    let names = matches.get_many::<String>("columns")?;
    let name = |name: &String| match name.trim() {
        "-" => String::new(),
        name => name.to_string(),
    };
    Some(names.map(name).collect())
}

/// `keyspace.table`; a name with capitals may stand in double quotes.
fn table_name(text: &str) -> Result<(String, String), String> {
    let (keyspace, table) =
        text.split_once('.').ok_or_else(|| format!("not KEYSPACE.TABLE: {text}"))?;
    let name = |name: &str| match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => name.to_string(),
    };
    Ok((name(keyspace), name(table)))
}

/// By the option, else by the names of all files.
fn form(matches: &ArgMatches, files: &[PathBuf]) -> Result<Form, String> {
    let by_name = |path: &PathBuf| {
        let name = path.to_string_lossy();
        let name = name.strip_suffix(".gz").or(name.strip_suffix(".zst")).unwrap_or(&name);
        match name.rsplit_once('.') {
            Some((_, "json" | "jsonl" | "ndjson")) => "json",
            Some((_, "parquet")) => "parquet",
            _ => "csv",
        }
    };
    let first = files.first().map_or("csv", by_name);
    let given = text(matches, "format");
    if given.is_none() && files.iter().any(|file| by_name(file) != first) {
        return Err("files of several formats: load them one after the other".to_string());
    }
    let is_parquet = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "parquet");
    match given.as_deref().unwrap_or(first) {
        "json" => Ok(Form::Text(Records::Json)),
        "parquet" if files.iter().all(is_parquet) => Ok(Form::Parquet),
        "parquet" => Err("the names of Parquet files end in .parquet".to_string()),
        _ => Ok(Form::Text(Records::Csv(dialect(matches)?))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_string).collect()
    }

    fn refused(line: &str, part: &str) {
        let said = read_load(&words(line)).expect_err("a refusal");
        assert!(said.contains(part), "{line}: {said}");
    }

    #[test]
    fn the_command_lines_make_sense() {
        load_command().debug_assert();
        unload_command().debug_assert();
    }

    #[test]
    fn loads() {
        let load = read_load(&words("ks.t a.csv b.csv.gz --delimiter tab --columns a,-,b --ttl 5"));
        let load = load.expect("a load");
        assert_eq!((load.keyspace.as_str(), load.table.as_str()), ("ks", "t"));
        assert_eq!(load.records, Records::Csv(Dialect::new(b'\t', Some(b'"'), Some(b'\\'))));
        assert_eq!(load.columns, Some(vec!["a".into(), String::new(), "b".into()]));
        assert_eq!((load.ttl_secs, load.earlier), (Some(5), Earlier::Refuse));
        assert_eq!(load.checkpoint, Path::new("ks.t.checkpoint"));
        let load = read_load(&words("\"Ks\".t a.jsonl.zst")).expect("a load");
        assert_eq!((load.keyspace.as_str(), load.records), ("Ks", Records::Json));
    }

    #[test]
    fn refusals() {
        refused("t a.csv", "not KEYSPACE.TABLE: t");
        refused("ks.t a.csv b.json", "files of several formats");
        refused("ks.t a.csv --delimiter ab", "--delimiter: not one ASCII character: ab");
        refused("ks.t a.csv --quote ,", "--delimiter: it is the quote");
        refused("ks.t a.csv --consistency MOST", "no such level: MOST");
        refused("ks.t a.csv --boolean-words yes", "not two words: yes");
    }

    #[test]
    fn unloads() {
        let unload = read_unload(&words("ks.t out.json --concurrency 3")).expect("an unload");
        assert_eq!(unload.table, Some(("ks".to_string(), "t".to_string())));
        assert_eq!((unload.file.as_path(), unload.concurrency), (Path::new("out.json"), 3));
        let query = ["--query".to_string(), "SELECT 1".to_string()];
        let unload = read_unload(&query).expect("an unload");
        assert_eq!((unload.table, unload.file.as_path()), (None, Path::new("-")));
        assert!(read_unload(&[]).is_err());
    }
}
