//! The command line of `perf-compaction-efficiency`.

use super::workload::{Distribution, Mix};
use crate::given::{Given, flag, list, number, optional, ranged, text, word};
use crate::offline;
use crate::tool::{Bench, Tool};
use clap::{Arg, value_parser};
use model::{TableId, TableSchema};
use options::Values;
use serde_json::{Value, json};
use std::rc::Rc;
use std::time::Duration;

/// How long something goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Operations(u64),
    For(Duration),
}

/// The options, read and checked.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(super) partitions: u64,
    pub(super) measured: Extent,
    pub(super) warmup: Extent,
    pub(super) mix: Mix,
    pub(super) distribution: Distribution,
    pub(super) value_bytes: usize,
    pub(super) time_to_live: i64,
    gc_grace_secs: u32,
    pub(super) read_frequency: u64,
    /// The class and what else CREATE TABLE is told.
    compaction: Vec<(String, String)>,
    /// Operations between two flushes, at least and at most.
    pub(super) flush_interval: (u64, u64),
    pub(super) json: bool,
    pub(super) verbose: bool,
}

impl Tool for Options {
    const NAME: &'static str = "perf-compaction-efficiency";
    const ABOUT: &'static str =
        "Measures write, space and read amplification of compaction strategies";
    const PREFERRED: &'static [(&'static str, &'static str)] = &[
        ("smp", "1"),
        ("default_log_level", "warn"),
        ("blocked_reactor_notify_ms", "-1"),
        ("unsafe_bypass_fsync", "1"),
    ];

    fn args() -> Vec<Arg> {
        const ANY: u64 = u64::MAX;
        let ratio = |name, help| {
            let parser = value_parser!(f64);
            text(name, "R", help).value_parser(parser).default_value("0.25")
        };
        let distributions = ["gaussian", "uniform", "zipfian"];
        vec![
            ranged("partitions", "100000", (1, ANY), "Partitions to choose from"),
            optional("operations", "Operations that are measured [default: 1000000]"),
            optional("duration", "Measure for so many seconds instead"),
            optional("warmup-operations", "Operations before, not measured [default: 0]"),
            optional("warmup-duration", "Warm up for so many seconds instead"),
            ratio("rewrite-ratio", "Share of operations that overwrite live partitions"),
            ratio("delete-ratio", "Share that delete live partitions; the rest writes any"),
            word("distribution", "gaussian", distributions, "Distribution of partitions"),
            ranged("value-size", "200", (1, ANY), "Bytes of a value, incompressible"),
            number("default-time-to-live", "0", "TTL of what is written, in seconds; 0: none"),
            number("gc-grace-seconds", "0", "How long tombstones are kept"),
            number("read-frequency", "1", "Measure reads after every Nth flush; 0: never"),
            text("compaction-strategy", "CLASS", "With or without CompactionStrategy")
                .default_value("Incremental"),
            list("compaction-options", "Options as in CREATE TABLE: name=value,.."),
            ranged("min-flush-interval", "100", (1, ANY), "Operations between flushes, at least"),
            ranged("max-flush-interval", "2000", (1, ANY), "Operations between flushes, at most"),
            word("output-format", "text", ["text", "json"], "Form of the output"),
            flag("verbose", "Print a line for each flush"),
        ]
    }

    fn take(given: &Given) -> Result<Options, String> {
        let options = Options {
            partitions: given.number("partitions"),
            measured: extent(given, "operations", "duration", 1_000_000)?,
            warmup: extent(given, "warmup-operations", "warmup-duration", 0)?,
            mix: Mix {
                rewrite_ratio: ratio(given, "rewrite-ratio")?,
                delete_ratio: ratio(given, "delete-ratio")?,
            },
            distribution: distribution(given)?,
            value_bytes: given.count("value-size").min(1 << 20),
            time_to_live: given.number("default-time-to-live").min(630_720_000) as i64,
            gc_grace_secs: given.number("gc-grace-seconds").min(1 << 30) as u32,
            read_frequency: given.number("read-frequency"),
            compaction: compaction(given)?,
            flush_interval: (
                given.number("min-flush-interval"),
                given.number("max-flush-interval"),
            ),
            json: given.text("output-format") == Some("json"),
            verbose: given.flag("verbose"),
        };
        if 1.0 < options.mix.rewrite_ratio + options.mix.delete_ratio {
            return Err("--rewrite-ratio and --delete-ratio: more than all operations".into());
        }
        if options.flush_interval.1 < options.flush_interval.0 {
            return Err("--max-flush-interval is less than --min-flush-interval".into());
        }
        let checked = plan::offline::compaction_options(options.compaction.clone());
        checked.map_err(|error| format!("--compaction-options: {error}"))?;
        Ok(options)
    }

    fn adjust(&self, node: &mut Values) -> Result<(), String> {
        match node.integer("smp") {
            1 => Ok(()),
            _ => Err("one tablet is looked at: -c 1".to_string()),
        }
    }

    async fn measure(&self, bench: &Bench) -> Result<(), String> {
        super::measure(self, bench).await
    }
}

impl Options {
    /// A table as the options have it, with an identifier of its own.
    pub(super) fn table(&self, name: &str, id: u128) -> Result<Rc<TableSchema>, String> {
        let made = offline::table(&format!(
            "CREATE TABLE ks.{name} (pk blob PRIMARY KEY, v blob) WITH compression = \
             {{'sstable_compression': ''}} AND gc_grace_seconds = {} AND default_time_to_live = {}",
            self.gc_grace_secs, self.time_to_live
        ))?;
        let mut schema = TableSchema { id: TableId::from_u128(id), ..TableSchema::clone(&made) };
        schema.options.compaction = self.compaction.clone();
        Ok(Rc::new(schema))
    }

    /// The strategy with what it was told.
    pub(super) fn strategy(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.compaction {
            match name.as_str() {
                "class" => text.push_str(value),
                _ => text = format!("{text} {name}={value}"),
            }
        }
        text
    }

    /// What is written.
    pub(super) fn workload(&self) -> String {
        format!(
            "{} of {} partitions of {} bytes, rewrites {}, deletions {}, time to live {}",
            self.distribution.name(),
            self.partitions,
            self.value_bytes,
            self.mix.rewrite_ratio,
            self.mix.delete_ratio,
            self.time_to_live
        )
    }

    /// All that makes runs comparable, for JSON.
    pub(super) fn parameters(&self) -> Value {
        let seconds = |extent| match extent {
            Extent::For(span) => json!(span.as_secs()),
            Extent::Operations(_) => Value::Null,
        };
        let operations = |extent| match extent {
            Extent::Operations(count) => json!(count),
            Extent::For(_) => Value::Null,
        };
        let mut compaction = json!({});
        for (name, value) in &self.compaction {
            compaction[name] = json!(value);
        }
        json!({
            "partitions": self.partitions,
            "operations": operations(self.measured),
            "duration": seconds(self.measured),
            "warmup-operations": operations(self.warmup),
            "warmup-duration": seconds(self.warmup),
            "rewrite-ratio": self.mix.rewrite_ratio,
            "delete-ratio": self.mix.delete_ratio,
            "distribution": self.distribution.name(),
            "value-size": self.value_bytes,
            "default-time-to-live": self.time_to_live,
            "gc-grace-seconds": self.gc_grace_secs,
            "read-frequency": self.read_frequency,
            "min-flush-interval": self.flush_interval.0,
            "max-flush-interval": self.flush_interval.1,
            "compaction": compaction,
        })
    }
}

fn ratio(given: &Given, name: &str) -> Result<f64, String> {
    let ratio = given.decimal(name);
    match (0.0..=1.0).contains(&ratio) {
        true => Ok(ratio),
        false => Err(format!("--{name}: {ratio} is not between 0 and 1")),
    }
}

fn extent(given: &Given, count: &str, span: &str, usual: u64) -> Result<Extent, String> {
    match (given.optional(count), given.optional(span)) {
        (Some(_), Some(_)) => Err(format!("--{count} and --{span}: one of them")),
        (None, Some(seconds)) => Ok(Extent::For(Duration::from_secs(seconds))),
        (operations, None) => Ok(Extent::Operations(operations.unwrap_or(usual))),
    }
}

fn distribution(given: &Given) -> Result<Distribution, String> {
    let name = given.text("distribution").unwrap_or_default();
    Distribution::of(name).ok_or(format!("--distribution: no such distribution: {name}"))
}

/// What CREATE TABLE is told, the class first.
fn compaction(given: &Given) -> Result<Vec<(String, String)>, String> {
    let class = given.text("compaction-strategy").unwrap_or_default();
    let ending = if class.ends_with("Strategy") { "" } else { "CompactionStrategy" };
    let mut compaction = vec![("class".to_string(), format!("{class}{ending}"))];
    for pair in given.list("compaction-options").unwrap_or_default() {
        let refused = || format!("--compaction-options: not a name and a value: {pair}");
        let (name, value) = pair.split_once('=').ok_or_else(refused)?;
        compaction.push((name.to_string(), value.to_string()));
    }
    Ok(compaction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::testing::{check_refusals, options};

    #[test]
    fn what_is_given_counts() {
        let (given, _) = options::<Options>("");
        assert_eq!((given.partitions, given.measured), (100_000, Extent::Operations(1_000_000)));
        assert_eq!((given.warmup, given.flush_interval), (Extent::Operations(0), (100, 2000)));
        assert_eq!(given.mix, Mix { rewrite_ratio: 0.25, delete_ratio: 0.25 });
        assert_eq!((given.distribution, given.read_frequency), (Distribution::Gaussian, 1));
        assert_eq!(given.strategy(), "IncrementalCompactionStrategy");
        let line = "--duration 5 --warmup-duration=2 --distribution zipfian --compaction-strategy \
                    Leveled --compaction-options sstable_size_in_mb=1,fanout_size=4 -m1G";
        let (given, node) = options::<Options>(line);
        assert_eq!(given.measured, Extent::For(Duration::from_secs(5)));
        assert_eq!(given.warmup, Extent::For(Duration::from_secs(2)));
        assert_eq!(given.distribution, Distribution::Zipfian);
        let strategy = "LeveledCompactionStrategy sstable_size_in_mb=1 fanout_size=4";
        assert_eq!(given.strategy(), strategy);
        assert_eq!(given.parameters()["compaction"]["fanout_size"], "4");
        assert_eq!(node.text("memory"), "1G");
    }

    #[test]
    fn the_table_has_the_options_of_its_strategy() {
        let line = "--compaction-strategy SizeTieredCompactionStrategy --compaction-options \
                    min_sstable_size=1000 --gc-grace-seconds 7";
        let table = options::<Options>(line).0.table("t", 1).unwrap();
        let find = |name: &str| {
            let found = table.options.compaction.iter().find(|(key, _)| key == name);
            found.map(|(_, value)| value.as_str())
        };
        assert!(find("class").unwrap().ends_with("SizeTieredCompactionStrategy"));
        assert_eq!(find("min_sstable_size"), Some("1000"));
        assert_eq!(table.options.gc_grace_seconds, 7);
    }

    #[test]
    fn refusals() {
        check_refusals::<Options>(&[
            ("--partitions 0", "0 is not in 1.."),
            ("--operations 5 --duration 1", "--operations and --duration: one of them"),
            ("--rewrite-ratio 2", "--rewrite-ratio: 2 is not between 0 and 1"),
            ("--rewrite-ratio 0.6 --delete-ratio 0.6", "more than all operations"),
            ("--distribution flat", "invalid value 'flat' for '--distribution <WORD>'"),
            ("--min-flush-interval 9 --max-flush-interval 8", "--max-flush-interval is less"),
            ("--output-format xml", "invalid value 'xml' for '--output-format <WORD>'"),
            ("--compaction-options goal", "not a name and a value: goal"),
            ("--compaction-options goal=2", "Invalid compaction strategy options {{goal, 2}}"),
            ("--compaction-strategy Lucky", "Lucky"),
            ("-c 2", "-c 1"),
        ]);
    }
}
