//! The command line of `nereid sstable`.

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};
use sstable::{Digests, RowOrder};
use std::path::PathBuf;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    DumpData,
    Dump,
    DumpIndex,
    DumpSummary,
    DumpStatistics,
    DumpScyllaMetadata,
    DumpCompressionInfo,
    DumpSchema,
    Validate,
    ValidateChecksums,
    ShardOf,
    Scrub,
    Split,
    Filter,
    Upgrade,
    Decompress,
    Write,
    Query,
    Script,
}

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

/// Where the schema comes from, if it was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchemaSource {
    Automatic,
    File,
    System,
    Tables,
    Sstable,
}

/// What the words ask for.
#[derive(Debug)]
pub(crate) enum Invocation {
    /// An operation.
    Run(Box<Options>),
    /// Print this and end well.
    Print(String),
}

/// The options, read and checked.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) operation: Operation,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) schema_source: SchemaSource,
    pub(crate) schema_file: PathBuf,
    pub(crate) keyspace: Option<String>,
    pub(crate) table: Option<String>,
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) yaml_file: Option<PathBuf>,
    pub(crate) format: Format,
    pub(crate) merge: bool,
    /// Serialized partition keys.
    pub(crate) partitions: Vec<String>,
    pub(crate) partitions_file: Option<PathBuf>,
    pub(crate) components: Vec<String>,
    pub(crate) scrub_mode: String,
    pub(crate) output_dir: PathBuf,
    pub(crate) accepts_nonempty: bool,
    pub(crate) version: Option<String>,
    pub(crate) input_file: Option<PathBuf>,
    pub(crate) input_format: String,
    /// Whether rows that are written must come in order.
    pub(crate) rows: RowOrder,
    /// Bytes of memtables after which statements have made one more SSTable.
    pub(crate) memory_limit: Option<u64>,
    pub(crate) query: Option<String>,
    pub(crate) query_file: Option<PathBuf>,
    /// A program in Lua, and what is handed to it.
    pub(crate) script_file: Option<PathBuf>,
    pub(crate) script_args: Vec<String>,
    pub(crate) tokens: Vec<i64>,
    pub(crate) all: bool,
    pub(crate) shards: u32,
    pub(crate) ignored_bits: u32,
    /// Whether `shard-of` goes by the tablets.
    pub(crate) tablets: bool,
    pub(crate) include: bool,
    /// What becomes of components whose digest does not match.
    pub(crate) digests: Digests,
    pub(crate) log_level: String,
    /// `logger=level`, several of them joined by colons.
    pub(crate) log_levels: Vec<String>,
}

impl Options {
    /// Whether the operator said where data are.
    pub(crate) fn names_data_dir(&self) -> bool {
        self.data_dir.is_some() || self.yaml_file.is_some()
    }
}

struct Spec {
    operation: Operation,
    name: &'static str,
    about: &'static str,
    help: &'static str,
    options: &'static [&'static str],
}

const OUTPUT: [&str; 3] = ["output-dir", "unsafe-accept-nonempty-output-dir", "sstable-version"];

const SPECS: &[Spec] = &[
    Spec {
        operation: Operation::DumpData,
        name: "dump-data",
        about: "Print the partitions",
        help: "Prints partitions, rows, cells and tombstones as stored, including expired and \
               deleted ones. As JSON: {\"sstables\": {path: [partition, ..]}}.",
        options: &["output-format-json", "merge", "partition", "partitions-file"],
    },
    Spec {
        operation: Operation::Dump,
        name: "dump",
        about: "Print several components at once",
        help: "Prints the named components, each like its own operation: \
               {\"sstables\": {path: {component: ..}}}.",
        options: &["components", "all-components"],
    },
    Spec {
        operation: Operation::DumpIndex,
        name: "dump-index",
        about: "Print the keys and positions of the partition index",
        help: "Prints for each partition its key and its position in the uncompressed data.",
        options: &[],
    },
    Spec {
        operation: Operation::DumpSummary,
        name: "dump-summary",
        about: "Print the sample of the index",
        help: "Prints Summary.db: its header, the sampled keys with their positions in Index.db, \
               the first and the last key. Versions with a trie index have none.",
        options: &[],
    },
    Spec {
        operation: Operation::DumpStatistics,
        name: "dump-statistics",
        about: "Print the statistics and the serialization header",
        help: "Prints Statistics.db: statistics of the data, columns and types.",
        options: &[],
    },
    Spec {
        operation: Operation::DumpScyllaMetadata,
        name: "dump-scylla-metadata",
        about: "Print Scylla.db",
        help: "Prints Scylla.db: token ranges, features, origin, identifiers, large data, schema, \
               digests. Apache Cassandra writes none.",
        options: &[],
    },
    Spec {
        operation: Operation::DumpCompressionInfo,
        name: "dump-compression-info",
        about: "Print the compressor and the positions of chunks",
        help: "Prints CompressionInfo.db; null for an uncompressed file.",
        options: &[],
    },
    Spec {
        operation: Operation::DumpSchema,
        name: "dump-schema",
        about: "Print the schema as CQL",
        help: "Prints the schema that the other operations would use, as CREATE statements.",
        options: &[],
    },
    Spec {
        operation: Operation::Validate,
        name: "validate",
        about: "Check data and index for damage",
        help: "Reads each file completely and checks the order of partitions, rows and range \
               tombstones, their format, and that the index finds every partition. Errors go to \
               stderr: file, offset, rule. The exit code is 0 whether or not files are valid: \
               see the output.",
        options: &[],
    },
    Spec {
        operation: Operation::ValidateChecksums,
        name: "validate-checksums",
        about: "Check the checksums and the digest of the data",
        help: "Reads each Data.db completely and compares the checksum of every chunk, and the \
        digest.",
        options: &[],
    },
    Spec {
        operation: Operation::ShardOf,
        name: "shard-of",
        about: "Print which shards own the partitions",
        help: "Prints the shards that partitions of each file belong to: numbers, by the static \
               sharder, or with --tablets {\"host\", \"shard\"}, by the tablets that the data \
               directory of the file has in system.tablets (as far as it was flushed).",
        options: &["shards", "ignore-msb-bits", "vnodes", "tablets"],
    },
    Spec {
        operation: Operation::Scrub,
        name: "scrub",
        about: "Rewrite the readable part of damaged files",
        help: "Rewrites each file with its partitions and rows in order.\n\n\
               abort      stop at the first error\n\
               skip       drop what is out of order or cannot be read\n\
               segregate  write what is out of order to further files, drop what cannot be \
               read\n\
               validate   write nothing, like the operation validate\n\n\
               Prints what was written; errors go to stderr.",
        options: &["scrub-mode"],
    },
    Spec {
        operation: Operation::Split,
        name: "split",
        about: "Split files at tokens",
        help: "Writes the partitions before the first token, from each token on to the next, and \
               from the last on, to a file each.",
        options: &["token", "merge"],
    },
    Spec {
        operation: Operation::Filter,
        name: "filter",
        about: "Keep or remove some partitions",
        help: "Rewrites each file with only the partitions that are given (--include), or without \
               them (--exclude).",
        options: &["partition", "partitions-file", "include", "exclude", "merge"],
    },
    Spec {
        operation: Operation::Upgrade,
        name: "upgrade",
        about: "Rewrite files of older versions",
        help: "Rewrites files of older versions than the one that is written now (sstable_format \
               of the configuration), or of others than the one that --sstable-version names.",
        options: &["all"],
    },
    Spec {
        operation: Operation::Decompress,
        name: "decompress",
        about: "Write the uncompressed data beside Data.db",
        help: "Writes Data.db.decompressed beside each compressed Data.db; nothing for others.",
        options: &[],
    },
    Spec {
        operation: Operation::Write,
        name: "write",
        about: "Write an SSTable from JSON or CQL",
        help: "Writes a new SSTable of what dump-data prints of one: [partition, ..]; or of \
               INSERT, UPDATE and DELETE statements on scylla_sstable.TABLE. Prints its \
               generation.\n\nPartitions must be in order, and the rows of each, unless \
               --validation-level is other than clustering_key: then rows stand in the file as \
               they come, without an index. Of statements there is one SSTable for each \
               --memory-limit bytes that they take in memory, if it is given.",
        options: &["input-file", "input-format", "validation-level", "memory-limit"],
    },
    Spec {
        operation: Operation::Query,
        name: "query",
        about: "Run a SELECT on the files",
        help: "Answers a CQL query from all files together, as a node would that has nothing else. \
               The keyspace is scylla_sstable; without a query all rows are printed. A schema that \
               comes from the files themselves may name key columns \"$pk0\", \"$ck0\", and the \
               table my_table. Uses a folder in TMPDIR, for links and a log.",
        options: &["query", "query-file", "output-format-text"],
    },
    Spec {
        operation: Operation::Script,
        name: "script",
        about: "Run a Lua program over the partitions",
        help: "Calls the functions of a program in Lua, as far as it has them, with what the files \
               hold: consume_stream_start(args), consume_sstable_start(sst), \
               consume_partition_start(ps), consume_static_row(sr), consume_clustering_row(cr), \
               consume_range_tombstone_change(rtc), consume_partition_end(), \
               consume_sstable_end(), consume_stream_end(). Returning false skips the rest of \
               the partition, the SSTable or the stream. docs/tools.md describes their arguments.",
        options: &["script-file", "script-arg", "merge", "partition", "partitions-file"],
    },
];

impl Operation {
    /// Whether it is nothing without files.
    pub(crate) fn needs_files(self) -> bool {
        !matches!(self, Operation::Write | Operation::DumpSchema)
    }
    /// Whether it may start a node in a temporary folder.
    pub(crate) fn needs_node(self) -> bool {
        self == Operation::Query
    }
    fn writes(self) -> bool {
        use Operation::{Decompress, Filter, Scrub, Split, Upgrade, Write};
        matches!(self, Scrub | Split | Filter | Upgrade | Write | Decompress)
    }
}

/// Reads the words after `sstable`. The error is what to print.
pub(crate) fn parse(words: &[String]) -> Result<Invocation, String> {
    let words = std::iter::once("nereid sstable".to_string()).chain(words.iter().cloned());
    let matches = match command().try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) => {
            return match error.kind() {
                ErrorKind::DisplayHelp => Ok(Invocation::Print(error.to_string())),
                _ => Err(error.to_string().trim_end().trim_start_matches("error: ").to_string()),
            };
        }
    };
    let (name, matches) = matches.subcommand().ok_or("an operation is needed; see --help")?;
    let spec = SPECS.iter().find(|spec| spec.name == name).ok_or("no such operation")?;
    options(spec, matches).map(|options| Invocation::Run(Box::new(options)))
}

pub fn command() -> Command {
    let command = Command::new("nereid sstable")
        .bin_name("nereid sstable")
        .about("Inspect, check, write and rewrite SSTables, without a node")
        .after_help(
            "An SSTable is named by the path of any of its components; a directory stands for all \
             SSTables in it. \
             The schema is taken from ./schema.cql, from the data directory that the file is in, \
             from the one that the configuration names, or from the file itself; or from where \
             the options say.\n\nExit codes: 0 success, 1 invalid arguments, 2 the operation \
             failed.",
        )
        .subcommand_required(true)
        .infer_long_args(true)
        .disable_help_subcommand(true);
    command.subcommands(SPECS.iter().map(subcommand))
}

fn subcommand(spec: &Spec) -> Command {
    let mut command = Command::new(spec.name).about(spec.about).long_about(spec.help);
    for arg in schema_args().into_iter().chain(hidden_args()) {
        command = command.arg(arg);
    }
    let output: &[&str] = if spec.operation.writes() { &OUTPUT } else { &[] };
    for name in spec.options.iter().chain(output) {
        command = command.arg(arg_of(name));
    }
    let many = |name: &'static str| Arg::new(name).value_name("FILES").action(ArgAction::Append);
    let files = many("files").num_args(0..);
    let named = many("sstables").long("sstables").num_args(1..);
    command
        .arg(files.help("SSTables, by the path of any component, or directories of them"))
        .arg(named.help("The same, all up to the next option"))
}

fn value(name: &'static str, value_name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value_name).help(help).allow_hyphen_values(true)
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

fn schema_args() -> Vec<Arg> {
    vec![
        value("schema-file", "FILE", "Take the schema from this file of CQL"),
        flag("system-schema", "Take the built-in schema of a table of the system"),
        flag("schema-tables", "Take the schema from the tables of a data directory"),
        flag("sstable-schema", "Take the schema from the SSTable itself"),
        value("keyspace", "NAME", "Keyspace, unless the path names it"),
        value("table", "NAME", "Table, unless the path names it"),
        value("scylla-data-dir", "DIR", "The data directory").alias("data-dir"),
        value("scylla-yaml-file", "FILE", "Options file that names the data directory"),
    ]
}

/// Options of the server that scripts give to every tool.
fn hidden_args() -> Vec<Arg> {
    let names = ["reactor-backend", "smp", "memory", "overprovisioned"];
    let mut args: Vec<Arg> = names
        .into_iter()
        .map(|name| value(name, "X", "").hide(true).action(ArgAction::Append).num_args(0..=1))
        .collect();
    args.push(value("default-log-level", "LEVEL", "").hide(true).default_value("warn"));
    args.push(
        value("logger-log-level", "LOGGER=LEVEL", "Level of a logger, such as sstable_tool=debug")
            .action(ArgAction::Append),
    );
    args.push(flag(
        "ignore-component-digest-mismatch",
        "Only warn of components whose digest does not match",
    ));
    args
}

/// The options that some operations have.
fn arg_of(name: &str) -> Arg {
    let format = |default: &'static str| {
        value("output-format", "FORMAT", "text or json")
            .value_parser(["text", "json"])
            .default_value(default)
    };
    match name {
        "output-format-json" => format("json"),
        "output-format-text" => format("text"),
        "merge" => flag("merge", "Merge all files into one stream"),
        "partition" => value("partition", "KEY", "A partition: its serialized key in hex")
            .alias("partitions")
            .action(ArgAction::Append),
        "partitions-file" => value("partitions-file", "FILE", "Keys in hex, one a line"),
        "components" => value("components", "NAME", "data, index, summary, ..")
            .action(ArgAction::Append)
            .value_delimiter(','),
        "all-components" => flag("all-components", "All of them"),
        "scrub-mode" => value("scrub-mode", "MODE", "abort, skip, segregate or validate")
            .value_parser(["abort", "skip", "segregate", "validate"]),
        "token" => value("token", "TOKEN", "Where to divide; may be given more than once")
            .short('t')
            .action(ArgAction::Append)
            .value_parser(clap::value_parser!(i64))
            .required(true),
        "include" => flag("include", "Keep only these partitions"),
        "exclude" => flag("exclude", "Leave these partitions out").conflicts_with("include"),
        "all" => flag("all", "Also files that are of that version already"),
        "input-file" => value("input-file", "FILE", "What to write").required(true),
        "input-format" => value("input-format", "FORMAT", "json or cql")
            .value_parser(["json", "cql"])
            .default_value("json"),
        "validation-level" => value("validation-level", "LEVEL", "What must be in order")
            .value_parser(["none", "partition_region", "token", "partition_key", "clustering_key"])
            .default_value("clustering_key"),
        "memory-limit" => value("memory-limit", "BYTES", "Of statements: memory for one SSTable")
            .value_parser(clap::value_parser!(u64).range(1..)),
        "query" => value("query", "CQL", "The query").short('q'),
        "query-file" => value("query-file", "FILE", "A file that holds the query"),
        "script-file" => value("script-file", "FILE", "The program"),
        "script-arg" => value("script-arg", "KEY=VALUE", "For the program; several joined by :")
            .action(ArgAction::Append),
        "shards" => value("shards", "N", "Shards of the node")
            .value_parser(clap::value_parser!(u32).range(1..=4096))
            .required_unless_present("tablets"),
        "ignore-msb-bits" => value("ignore-msb-bits", "N", "Bits of tokens that do not count")
            .value_parser(clap::value_parser!(u32).range(0..=63))
            .default_value("12"),
        "vnodes" => flag("vnodes", "By the static sharder (the default)"),
        "tablets" => flag("tablets", "By tablets").conflicts_with("vnodes"),
        "output-dir" => value("output-dir", "DIR", "Where new files go")
            .alias("output-directory")
            .default_value("."),
        "unsafe-accept-nonempty-output-dir" => {
            flag("unsafe-accept-nonempty-output-dir", "Even if there are files already")
        }
        "sstable-version" => {
            value("sstable-version", "VERSION", "The version of new files").alias("version")
        }
        other => unreachable!("{other} is an option of no operation"),
    }
}

fn options(spec: &Spec, matches: &ArgMatches) -> Result<Options, String> {
    let has = |name: &str| matches.try_contains_id(name).unwrap_or(false);
    let text = |name: &str| match has(name) {
        true => matches.get_one::<String>(name).cloned(),
        false => None,
    };
    let path = |name: &str| text(name).map(PathBuf::from);
    let flag = |name: &str| has(name) && matches.get_flag(name);
    let many = |name: &str| match has(name) {
        true => matches.get_many::<String>(name).unwrap_or_default().cloned().collect(),
        false => Vec::new(),
    };
    let number = |name: &str, other: u32| match has(name) {
        true => matches.get_one::<u32>(name).copied().unwrap_or(other),
        false => other,
    };
    refuse(spec, &text, &flag)?;
    let tokens = match has("token") {
        true => matches.get_many::<i64>("token").unwrap_or_default().copied().collect(),
        false => Vec::new(),
    };
    let memory_limit = match has("memory-limit") {
        true => matches.get_one::<u64>("memory-limit").copied(),
        false => None,
    };
    let log_level = text("default-log-level").unwrap_or_default();
    Ok(Options {
        operation: spec.operation,
        files: many("files").into_iter().chain(many("sstables")).map(PathBuf::from).collect(),
        schema_source: schema_source(&text("schema-file"), &flag)?,
        schema_file: path("schema-file").unwrap_or_else(|| PathBuf::from("schema.cql")),
        keyspace: text("keyspace"),
        table: text("table"),
        data_dir: path("scylla-data-dir"),
        yaml_file: path("scylla-yaml-file"),
        format: match text("output-format").as_deref() {
            Some("text") => Format::Text,
            _ => Format::Json,
        },
        merge: flag("merge"),
        partitions: many("partition"),
        partitions_file: path("partitions-file"),
        components: components(flag("all-components"), many("components"), spec)?,
        scrub_mode: text("scrub-mode").unwrap_or_default(),
        output_dir: path("output-dir").unwrap_or_else(|| PathBuf::from(".")),
        accepts_nonempty: flag("unsafe-accept-nonempty-output-dir"),
        version: text("sstable-version"),
        input_file: path("input-file"),
        input_format: text("input-format").unwrap_or_default(),
        rows: rows_of(text("validation-level").as_deref()),
        memory_limit,
        query: text("query"),
        query_file: path("query-file"),
        script_file: path("script-file"),
        script_args: many("script-arg"),
        tokens,
        all: flag("all"),
        shards: number("shards", 1),
        ignored_bits: number("ignore-msb-bits", 12),
        tablets: flag("tablets"),
        include: flag("include"),
        digests: match flag("ignore-component-digest-mismatch") {
            true => Digests::Told,
            false => Digests::Compared,
        },
        log_level,
        log_levels: many("logger-log-level").iter().map(|levels| own_logger(levels)).collect(),
    })
}

/// The order of rows by `--validation-level`.
fn rows_of(level: Option<&str>) -> RowOrder {
    match level {
        None | Some("clustering_key") => RowOrder::Kept,
        Some(_) => RowOrder::Unchecked,
    }
}

/// Scripts call the tool's logger by another's name.
fn own_logger(levels: &str) -> String {
    levels.replace("scylla-sstable=", "sstable_tool=")
}

/// Options that make no sense together, or are missing.
fn refuse(
    spec: &Spec,
    text: &dyn Fn(&str) -> Option<String>,
    flag: &dyn Fn(&str) -> bool,
) -> Result<(), String> {
    if text("query").is_some() && text("query-file").is_some() {
        return Err("cannot provide both -q|--query and --query-file".to_string());
    }
    if spec.operation == Operation::Scrub && text("scrub-mode").is_none() {
        return Err("missing mandatory command-line argument --scrub-mode".to_string());
    }
    if spec.operation == Operation::Filter && flag("include") == flag("exclude") {
        return Err("filter needs either --include or --exclude".to_string());
    }
    Ok(())
}

fn schema_source(
    file: &Option<String>,
    flag: &dyn Fn(&str) -> bool,
) -> Result<SchemaSource, String> {
    let given = [
        (file.is_some(), SchemaSource::File),
        (flag("system-schema"), SchemaSource::System),
        (flag("schema-tables"), SchemaSource::Tables),
        (flag("sstable-schema"), SchemaSource::Sstable),
    ];
    let mut given = given.into_iter().filter(|(given, _)| *given).map(|(_, source)| source);
    match (given.next(), given.next()) {
        (_, Some(_)) => Err("the schema can come from one source only".to_string()),
        (source, None) => Ok(source.unwrap_or(SchemaSource::Automatic)),
    }
}

/// The components that `dump` can print.
pub(crate) const COMPONENTS: [&str; 6] =
    ["data", "index", "compression-info", "summary", "statistics", "scylla-metadata"];

fn components(all: bool, given: Vec<String>, spec: &Spec) -> Result<Vec<String>, String> {
    if all {
        return Ok(COMPONENTS.iter().map(ToString::to_string).collect());
    }
    if spec.operation == Operation::Dump && given.is_empty() {
        return Err("dump needs --components or --all-components".to_string());
    }
    match given.iter().find(|name| !COMPONENTS.contains(&name.as_str())) {
        Some(name) => Err(format!("no component {name}; there are {}", COMPONENTS.join(", "))),
        None => Ok(given),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<Options, String> {
        let words: Vec<String> = words.split_whitespace().map(str::to_string).collect();
        match parse(&words)? {
            Invocation::Run(options) => Ok(*options),
            Invocation::Print(text) => Err(text),
        }
    }

    #[test]
    fn every_operation_has_a_help_text() {
        command().debug_assert();
        for spec in SPECS {
            let text = parsed(&format!("{} --help", spec.name)).unwrap_err();
            assert!(text.contains("--schema-file"), "{text}");
        }
        assert!(parsed("--help").unwrap_err().contains("dump-data"));
    }

    #[test]
    fn words_are_options() {
        let options = parsed("dump-data --merge --schema-file s a-Data.db b-TOC.txt").unwrap();
        assert_eq!((options.merge, options.format, options.files.len()), (true, Format::Json, 2));
        assert_eq!(options.schema_source, SchemaSource::File);
        let named = parsed("dump-data a --sstables b c --merge --sstables d").unwrap();
        let expected = ["a", "b", "c", "d"].map(PathBuf::from).to_vec();
        assert_eq!((named.files, named.merge), (expected, true));
        assert_eq!(parsed("query a").unwrap().format, Format::Text);
        assert_eq!(parsed("split -t -5 --token 7 a").unwrap().tokens, [-5, 7]);
        assert_eq!(parsed("dump --components data,index a").unwrap().components.len(), 2);
        assert_eq!(parsed("dump --all-components a").unwrap().components.len(), 6);
        let others = "validate --logger-log-level a=debug:scylla-sstable=trace \
                      --reactor-backend=linux-aio --scylla-yaml y a";
        let options = parsed(others).unwrap();
        assert_eq!(options.log_levels, ["a=debug:sstable_tool=trace"]);
        assert_eq!((options.files.len(), options.yaml_file), (1, Some(PathBuf::from("y"))));
        assert!(parsed("shard-of --tablets a").unwrap().tablets);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for words in [
            "",
            "unknown a",
            "scrub a",
            "scrub --scrub-mode fix a",
            "filter a",
            "filter --include --exclude a",
            "query -q x --query-file y a",
            "dump a",
            "dump --components nothing a",
            "dump-data --schema-file s --sstable-schema a",
            "shard-of --tablets --vnodes --shards 2 a",
            "shard-of a",
            "split -t x a",
            "dump-data --nonsense a",
            "dump-data --sstables",
        ] {
            assert!(parsed(words).is_err(), "{words}");
        }
    }
}
