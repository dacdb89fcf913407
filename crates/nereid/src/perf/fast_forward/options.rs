//! The command line of `perf-fast-forward`.

use super::dataset::{DATASETS, Dataset};
use super::groups::{GROUPS, Group};
use crate::options::Values;
use crate::perf::tool::{Bench, Tool, prefer};
use crate::perf::words::Words;
use sstable::Version;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) const USAGE: &str = "\
usage: nereid perf-fast-forward --populate [OPTIONS]
       nereid perf-fast-forward -c 1 [OPTIONS]
  --populate               make the data instead of reading it
  --rows N                 rows of the large partition, and small partitions [1000000]
  --value-size N           bytes of a value [100]
  --flush-threshold BYTES  of memtable [300M]
  --with-compression       LZ4
  --column-index-size-in-kb N
  --sstable-format F       me or ms
  --run-tests GROUPS       some groups [all]
  --run-cases CASES        some cases, by their parameters, such as 500000->1->1 [all]
  --datasets DATASETS      some data sets [the default ones]
  --list-tests, --list-datasets
  --enable-cache           the row cache
  --keep-cache-across-test-groups, --keep-cache-across-test-cases
                           otherwise caches are dropped before each group, case and repetition
  --test-case-duration S   repeat a case for so long; 0: run it once [1]
  --test-case-iterations N run a case exactly so often
                           the first time of several warms up, and is not told
  --output-format F        text or json (text is printed too) [text]
  --output-directory DIR   [./perf_fast_forward_output]
  --dump-all-results       write the results of all repetitions too
  --data-directory DIR     [./perf_large_partition_data]
  --name NAME              of this data in ks.config [default]
  --verbose, --trace       log more of what is read
and the options of the server: -m SIZE memory, --default-log-level, ...";

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
    const USAGE: &'static str = USAGE;
    const PREFERRED: &'static [(&'static str, &'static str)] = &[
        ("smp", "1"),
        ("overprovisioned", "1"),
        ("default_log_level", "warn"),
        ("blocked_reactor_notify_ms", "-1"),
    ];

    fn listing(words: &mut Words) -> Option<String> {
        if words.flag("list-tests") {
            return Some(lines(GROUPS.iter().map(|one| one.name)));
        }
        let listed = words.flag("list-datasets");
        listed.then(|| lines(DATASETS.iter().map(|one| one.name)))
    }

    fn take(words: &mut Words) -> Result<Options, String> {
        let datasets = chosen("datasets", words, DATASETS, |one| one.name)?;
        let datasets = datasets.unwrap_or_else(|| DATASETS.iter().filter(|d| d.default).collect());
        let groups = chosen("run-tests", words, GROUPS, |one| one.name)?;
        let options = Options {
            populate: words.flag("populate"),
            rows: words.number("rows")?.unwrap_or(1_000_000),
            value_bytes: words.number("value-size")?.unwrap_or(100),
            flush_bytes: words.size("flush-threshold", 300 << 20, 1)?,
            compressed: words.flag("with-compression"),
            column_index_bytes: words
                .number::<usize>("column-index-size-in-kb")?
                .map(|kib| kib.saturating_mul(1024)),
            version: crate::perf::writable(words)?,
            groups: groups.unwrap_or_else(|| GROUPS.iter().collect()),
            cases: words.list("run-cases")?,
            datasets,
            enable_cache: words.truth("enable-cache", false)?,
            keep_across_groups: words.flag("keep-cache-across-test-groups"),
            keep_across_cases: words.flag("keep-cache-across-test-cases"),
            repeat: repeat(words)?,
            output: output(words)?,
            name: words.text("name")?.unwrap_or("default".to_string()),
            verbose: words.flag("verbose"),
            trace: words.flag("trace"),
            data: PathBuf::from(
                words.text("data-directory")?.unwrap_or("./perf_large_partition_data".to_string()),
            ),
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
    words: &mut Words,
    all: &'static [T],
    name: fn(&T) -> &'static str,
) -> Result<Option<Vec<&'static T>>, String> {
    let Some(wanted) = words.list(option)? else { return Ok(None) };
    let find = |wanted: &String| {
        let found = all.iter().find(|one| name(one) == wanted);
        found.ok_or_else(|| format!("--{option}: there is no {wanted}"))
    };
    wanted.iter().map(find).collect::<Result<_, _>>().map(Some)
}

fn repeat(words: &mut Words) -> Result<Repeat, String> {
    let seconds: f64 = words.number("test-case-duration")?.unwrap_or(1.0);
    if let Some(times) = words.number("test-case-iterations")? {
        return Ok(Repeat::Times(1.max(times)));
    }
    match Duration::try_from_secs_f64(seconds) {
        Ok(Duration::ZERO) => Ok(Repeat::Once),
        Ok(span) => Ok(Repeat::For(span)),
        Err(_) => Err(format!("--test-case-duration: not a span: {seconds}")),
    }
}

fn output(words: &mut Words) -> Result<Output, String> {
    let json = match words.text("output-format")?.as_deref() {
        None | Some("text") => false,
        Some("json") => true,
        Some(other) => return Err(format!("--output-format: neither text nor json: {other}")),
    };
    let folder = words.text("output-directory")?.unwrap_or("./perf_fast_forward_output".into());
    Ok(Output { json, all: words.flag("dump-all-results"), folder: PathBuf::from(folder) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::tool::Asked;
    use crate::perf::tool::testing::{check_refusals, options, parse_text};

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
