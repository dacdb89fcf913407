//! The command line of `perf-fast-forward`.

use super::dataset::{DATASETS, Dataset};
use super::groups::{GROUPS, Group};
use crate::options::Values;
use crate::perf::words::{Words, prefer};
use sstable::Version;
use std::path::PathBuf;
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
  --test-case-iterations N repeat a case exactly so often
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
    /// The node's own options.
    pub(crate) common: Values,
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

/// What the words ask for.
#[derive(Debug)]
pub(crate) enum Asked {
    Run(Box<Options>),
    Print(String),
}

impl Options {
    /// Reads the words after the tool's name; the error is what to print.
    pub(crate) fn parse(words: &[String]) -> Result<Asked, String> {
        let mut words = Words::new(words);
        if words.flag("help") {
            return Ok(Asked::Print(USAGE.to_string()));
        }
        if words.flag("list-tests") {
            return Ok(Asked::Print(lines(GROUPS.iter().map(|one| one.name))));
        }
        if words.flag("list-datasets") {
            return Ok(Asked::Print(lines(DATASETS.iter().map(|one| one.name))));
        }
        let datasets = chosen("datasets", &mut words, DATASETS, |one| one.name)?;
        let datasets = datasets.unwrap_or_else(|| DATASETS.iter().filter(|d| d.default).collect());
        let groups = chosen("run-tests", &mut words, GROUPS, |one| one.name)?;
        let options = Options {
            populate: words.flag("populate"),
            rows: words.number("rows")?.unwrap_or(1_000_000),
            value_bytes: words.number("value-size")?.unwrap_or(100),
            flush_bytes: bytes(&mut words, "flush-threshold")?.unwrap_or(300 << 20),
            compressed: words.flag("with-compression"),
            column_index_bytes: words
                .number::<usize>("column-index-size-in-kb")?
                .map(|kib| kib.saturating_mul(1024)),
            version: version(&mut words)?,
            groups: groups.unwrap_or_else(|| GROUPS.iter().collect()),
            cases: words.list("run-cases")?,
            datasets,
            enable_cache: words.truth("enable-cache", false)?,
            keep_across_groups: words.flag("keep-cache-across-test-groups"),
            keep_across_cases: words.flag("keep-cache-across-test-cases"),
            repeat: repeat(&mut words)?,
            output: output(&mut words)?,
            name: words.text("name")?.unwrap_or("default".to_string()),
            verbose: words.flag("verbose"),
            common: common(words)?,
        };
        if options.rows < 16 {
            return Err("--rows: at least 16".to_string());
        }
        if !options.populate && options.common.integer("smp") != 1 {
            return Err("the tests run on exactly one shard: -c 1".to_string());
        }
        Ok(Asked::Run(Box::new(options)))
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

fn bytes(words: &mut Words, name: &str) -> Result<Option<usize>, String> {
    let Some(text) = words.text(name)? else { return Ok(None) };
    let bytes = crate::options::parse_bytes(&text).filter(|bytes| 0 < *bytes);
    bytes.map(|bytes| Some(bytes as usize)).ok_or(format!("--{name}: not a size: {text}"))
}

fn version(words: &mut Words) -> Result<Option<Version>, String> {
    match words.text("sstable-format")? {
        Some(text) => crate::perf::writable(&text).map(Some),
        None => Ok(None),
    }
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

fn common(mut words: Words) -> Result<Values, String> {
    let folder = words.text("data-directory")?;
    let trace = words.flag("trace");
    let mut values = words.rest()?;
    let folder = folder.unwrap_or("./perf_large_partition_data".to_string());
    prefer(&mut values, "workdir", &folder);
    prefer(&mut values, "smp", "1");
    prefer(&mut values, "overprovisioned", "1");
    prefer(&mut values, "default_log_level", "warn");
    prefer(&mut values, "blocked_reactor_notify_ms", "-1");
    if trace {
        prefer(&mut values, "logger_log_level", "sstable=trace");
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Asked, String> {
        Options::parse(&text.split_whitespace().map(str::to_string).collect::<Vec<_>>())
    }

    fn options(text: &str) -> Options {
        match parse(text) {
            Ok(Asked::Run(options)) => *options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn defaults() {
        let options = options("");
        assert_eq!((options.rows, options.value_bytes), (1_000_000, 100));
        assert_eq!(options.flush_bytes, 300 << 20);
        assert_eq!(options.repeat, Repeat::For(Duration::from_secs(1)));
        assert_eq!(options.groups.len(), GROUPS.len());
        let names: Vec<_> = options.datasets.iter().map(|one| one.name).collect();
        assert_eq!(names, ["large-part-ds1", "small-part"]);
        assert_eq!(options.common.text("workdir"), "./perf_large_partition_data");
    }

    #[test]
    fn what_is_given_counts() {
        let options = options(
            "--populate --rows 100 --run-tests large-partition-skips --datasets sb-small-part \
             --column-index-size-in-kb=1 --test-case-duration=0 -m2G --data-directory /d",
        );
        assert!(options.populate);
        assert_eq!(options.column_index_bytes, Some(1024));
        assert_eq!(options.repeat, Repeat::Once);
        assert_eq!(options.groups[0].name, "large-partition-skips");
        assert_eq!(options.datasets[0].name, "sb-small-part");
        assert_eq!(options.common.text("workdir"), "/d");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (text, part) in [
            ("--run-tests nothing", "there is no nothing"),
            ("-c 2", "exactly one shard"),
            ("--rows 3", "at least"),
            ("--sstable-format la", "la"),
            ("--output-format xml", "xml"),
            ("--flush-threshold none", "not a size"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(matches!(parse("--list-tests"), Ok(Asked::Print(text)) if text.contains("skips")));
    }
}
