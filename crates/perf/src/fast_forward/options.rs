//! The command line of `perf-fast-forward`.

use super::dataset::{DATASETS, Dataset};
use super::groups::{GROUPS, Group};
use crate::given::{Given, flag, list, number, optional, size, text, truth, word};
use crate::tool::{Bench, Tool, prefer};
use clap::{Arg, value_parser};
use options::Values;
use sstable::Version;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The options, read and checked.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) populate: bool,
    pub(crate) rows: u64,
    pub(crate) value_bytes: usize,
    pub(crate) flush_bytes: usize,
    pub(crate) compressed: bool,
    pub(crate) column_index_bytes: Option<usize>,
    pub(crate) version: Option<Version>,
    pub(crate) groups: Vec<&'static Group>,
    pub(crate) cases: Option<Vec<String>>,
    pub(crate) datasets: Vec<&'static Dataset>,
    pub(crate) enable_cache: bool,
    pub(crate) keep_across_groups: bool,
    pub(crate) keep_across_cases: bool,
    pub(crate) repeat: Repeat,
    pub(crate) output: Output,
    pub(crate) name: String,
    pub(crate) verbose: bool,
    pub(crate) trace: bool,
    pub(crate) data: PathBuf,
}

/// How often a case runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Repeat {
    Once,
    For(Duration),
    Times(u64),
}

/// Where results go besides stdout.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
    pub(crate) all: bool,
    pub(crate) folder: PathBuf,
}

impl Tool for Options {
    const NAME: &'static str = "perf-fast-forward";
    const ABOUT: &'static str =
        "Measures readers that skip, slice and forward; --populate makes the data first";
    const PREFERRED: &'static [(&'static str, &'static str)] = &[
        ("smp", "1"),
        ("overprovisioned", "1"),
        ("default_log_level", "warn"),
        ("blocked_reactor_notify_ms", "-1"),
    ];

    fn listing(given: &Given) -> Option<String> {
        if given.flag("list-tests") {
            return Some(lines(GROUPS.iter().map(|one| one.name)));
        }
        let listed = given.flag("list-datasets");
        listed.then(|| lines(DATASETS.iter().map(|one| one.name)))
    }

    fn args() -> Vec<Arg> {
        vec![
            flag("populate", "Write the data instead of reading it"),
            number("rows", "1000000", "Rows of the large partition, and small partitions"),
            number("value-size", "100", "Bytes of a value"),
            size("flush-threshold", "300M", 1, "Size of a memtable"),
            flag("with-compression", "Compress with LZ4"),
            optional("column-index-size-in-kb", "KiB between entries of the row index"),
            crate::format(),
            list("run-tests", "Run these groups only"),
            list("run-cases", "Run these cases only, by parameters such as 500000->1->1"),
            list("datasets", "Use these data sets instead of the default ones"),
            flag("list-tests", "List the groups"),
            flag("list-datasets", "List the data sets"),
            truth("enable-cache", "0", "Use the row cache"),
            flag("keep-cache-across-test-groups", "Do not drop caches before each group"),
            flag("keep-cache-across-test-cases", "Do not drop caches before each case"),
            text("test-case-duration", "SECONDS", "Repeat a case for so long; 0: run it once")
                .value_parser(value_parser!(f64))
                .default_value("1"),
            optional("test-case-iterations", "Run a case so often; the first of several warms up"),
            word("output-format", "text", ["text", "json"], "Form of results in files"),
            text("output-directory", "DIR", "Folder of results")
                .default_value("./perf_fast_forward_output"),
            flag("dump-all-results", "Write the results of all repetitions too"),
            text("data-directory", "DIR", "Folder of the data")
                .default_value("./perf_large_partition_data"),
            text("name", "NAME", "Name of this data in ks.config").default_value("default"),
            flag("verbose", "Log more"),
            flag("trace", "Log each read"),
        ]
    }

    fn take(given: &Given) -> Result<Options, String> {
        let datasets = chosen("datasets", given, DATASETS, |one| one.name)?;
        let datasets = datasets.unwrap_or_else(|| DATASETS.iter().filter(|d| d.default).collect());
        let groups = chosen("run-tests", given, GROUPS, |one| one.name)?;
        let options = Options {
            populate: given.flag("populate"),
            rows: given.number("rows"),
            value_bytes: given.count("value-size"),
            flush_bytes: given.count("flush-threshold"),
            compressed: given.flag("with-compression"),
            column_index_bytes: given
                .optional("column-index-size-in-kb")
                .map(|kib| (kib as usize).saturating_mul(1024)),
            version: crate::writable(given),
            groups: groups.unwrap_or_else(|| GROUPS.iter().collect()),
            cases: given.list("run-cases"),
            datasets,
            enable_cache: given.truth("enable-cache"),
            keep_across_groups: given.flag("keep-cache-across-test-groups"),
            keep_across_cases: given.flag("keep-cache-across-test-cases"),
            repeat: repeat(given)?,
            output: output(given),
            name: given.text("name").unwrap_or_default().to_owned(),
            verbose: given.flag("verbose"),
            trace: given.flag("trace"),
            data: given.path("data-directory").unwrap_or_default(),
        };
        match options.rows {
            ..16 => Err("--rows: at least 16".to_string()),
            _ => Ok(options),
        }
    }

    fn adjust(&self, node: &mut Values) -> Result<(), String> {
        if self.trace {
            prefer(node, "logger_log_level", "sstable=trace");
        }
        match self.populate || node.integer("smp") == 1 {
            true => Ok(()),
            false => Err("the tests run on exactly one shard: -c 1".to_string()),
        }
    }

    fn folder(&self) -> Option<&Path> {
        Some(&self.data)
    }

    async fn measure(&self, place: &Bench) -> Result<(), String> {
        super::measure(self, place).await
    }
}

fn lines<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join("\n")
}

/// The items that an option names.
fn chosen<T>(
    option: &str,
    given: &Given,
    all: &'static [T],
    name: fn(&T) -> &'static str,
) -> Result<Option<Vec<&'static T>>, String> {
    let Some(wanted) = given.list(option) else { return Ok(None) };
    let find = |wanted: &String| {
        let found = all.iter().find(|one| name(one) == wanted);
        found.ok_or_else(|| format!("--{option}: there is no {wanted}"))
    };
    wanted.iter().map(find).collect::<Result<_, _>>().map(Some)
}

fn repeat(given: &Given) -> Result<Repeat, String> {
    let seconds = given.decimal("test-case-duration");
    if let Some(times) = given.optional("test-case-iterations") {
        return Ok(Repeat::Times(1.max(times)));
    }
    match Duration::try_from_secs_f64(seconds) {
        Ok(Duration::ZERO) => Ok(Repeat::Once),
        Ok(span) => Ok(Repeat::For(span)),
        Err(_) => Err(format!("--test-case-duration: not a span: {seconds}")),
    }
}

fn output(given: &Given) -> Output {
    Output {
        json: given.text("output-format") == Some("json"),
        all: given.flag("dump-all-results"),
        folder: given.path("output-directory").unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::Asked;
    use crate::tool::testing::{check_refusals, options, parse_text};

    #[test]
    fn defaults() {
        let (options, node) = options::<Options>("");
        assert_eq!((options.rows, options.value_bytes), (1_000_000, 100));
        assert_eq!(options.flush_bytes, 300 << 20);
        assert_eq!(options.repeat, Repeat::For(Duration::from_secs(1)));
        assert_eq!(options.groups.len(), GROUPS.len());
        let names: Vec<_> = options.datasets.iter().map(|one| one.name).collect();
        assert_eq!(names, ["large-part-ds1", "small-part"]);
        assert_eq!(node.text("workdir"), "./perf_large_partition_data");
    }

    #[test]
    fn what_is_given_counts() {
        let (options, node) = options::<Options>(
            "--populate --rows 100 --run-tests large-partition-skips --datasets sb-small-part \
             --column-index-size-in-kb=1 --test-case-duration=0 -m2G --data-directory /d",
        );
        assert!(options.populate);
        assert_eq!(options.column_index_bytes, Some(1024));
        assert_eq!(options.repeat, Repeat::Once);
        assert_eq!(options.groups[0].name, "large-partition-skips");
        assert_eq!(options.datasets[0].name, "sb-small-part");
        assert_eq!(node.text("workdir"), "/d");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        check_refusals::<Options>(&[
            ("--run-tests nothing", "there is no nothing"),
            ("-c 2", "exactly one shard"),
            ("--rows 3", "at least"),
            ("--sstable-format la", "la"),
            ("--output-format xml", "xml"),
            ("--flush-threshold none", "not a size"),
        ]);
        let listed = parse_text::<Options>("--list-tests");
        assert!(matches!(listed, Ok(Asked::Print(text)) if text.contains("skips")));
    }
}
