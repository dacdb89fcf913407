//! The command line of `perf-compaction-efficiency`.

use super::workload::{Distribution, Mix};
use crate::options::Values;
use crate::perf::offline;
use crate::perf::tool::{Bench, Tool};
use crate::perf::words::Words;
use model::{TableId, TableSchema};
use serde_json::{Value, json};
use std::rc::Rc;
use std::time::Duration;

const USAGE: &str = "\
usage: nereid perf-compaction-efficiency [OPTIONS]
  --partitions N           partitions to choose from [100000]
  --operations N           measured [1000000]
  --duration S             or as many as take so many seconds
  --warmup-operations N    before, not measured [0]
  --warmup-duration S      or as many as take so many seconds
  --rewrite-ratio R        of the operations, writes to partitions that live [0.25]
  --delete-ratio R         of the operations, deletions of such; the rest writes any [0.25]
  --distribution D         of partitions: gaussian, uniform, zipfian [gaussian]
  --value-size N           bytes of a value; they do not compress [200]
  --default-time-to-live S of what is written; 0: it does not expire [0]
  --gc-grace-seconds S     how long deletions are kept [0]
  --read-frequency N       look at reads after every Nth flush; 0: never [1]
  --compaction-strategy C  its class, or that without CompactionStrategy [Incremental]
  --compaction-options K=V,...  as in CREATE TABLE
  --min-flush-interval N   operations between two flushes, [100]
  --max-flush-interval N   at least and at most [2000]
  --output-format F        text or json [text]
  --verbose                a line for each flush
and the options of the server: -m SIZE memory, --workdir DIR, ...";

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
    const USAGE: &'static str = USAGE;
    const PREFERRED: &'static [(&'static str, &'static str)] = &[
        ("smp", "1"),
        ("default_log_level", "warn"),
        ("blocked_reactor_notify_ms", "-1"),
        ("unsafe_bypass_fsync", "1"),
    ];

    fn take(words: &mut Words) -> Result<Options, String> {
        let options = Options {
            partitions: number(words, "partitions", 100_000, 1)?,
            measured: extent(words, "operations", "duration", 1_000_000)?,
            warmup: extent(words, "warmup-operations", "warmup-duration", 0)?,
            mix: Mix {
                rewrite_ratio: ratio(words, "rewrite-ratio")?,
                delete_ratio: ratio(words, "delete-ratio")?,
            },
            distribution: distribution(words)?,
            value_bytes: number(words, "value-size", 200, 1)?.min(1 << 20) as usize,
            time_to_live: number(words, "default-time-to-live", 0, 0)?.min(630_720_000) as i64,
            gc_grace_secs: number(words, "gc-grace-seconds", 0, 0)?.min(1 << 30) as u32,
            read_frequency: number(words, "read-frequency", 1, 0)?,
            compaction: compaction(words)?,
            flush_interval: (
                number(words, "min-flush-interval", 100, 1)?,
                number(words, "max-flush-interval", 2000, 1)?,
            ),
            json: match words.text("output-format")?.as_deref() {
                None | Some("text") => false,
                Some("json") => true,
                Some(other) => return Err(format!("--output-format: no such format: {other}")),
            },
            verbose: words.flag("verbose"),
        };
        if 1.0 < options.mix.rewrite_ratio + options.mix.delete_ratio {
            return Err("--rewrite-ratio and --delete-ratio: more than all operations".into());
        }
        if options.flush_interval.1 < options.flush_interval.0 {
            return Err("--max-flush-interval is less than --min-flush-interval".into());
        }
        let checked = query::offline::compaction_options(options.compaction.clone());
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

fn number(words: &mut Words, name: &str, usual: u64, least: u64) -> Result<u64, String> {
    let given = words.number(name)?.unwrap_or(usual);
    if given < least {
        return Err(format!("--{name}: {given} is less than {least}"));
    }
    Ok(given)
}

fn ratio(words: &mut Words, name: &str) -> Result<f64, String> {
    let given = words.number(name)?.unwrap_or(0.25);
    match (0.0..=1.0).contains(&given) {
        true => Ok(given),
        false => Err(format!("--{name}: {given} is not between 0 and 1")),
    }
}

fn extent(words: &mut Words, count: &str, span: &str, usual: u64) -> Result<Extent, String> {
    match (words.number(count)?, words.number(span)?) {
        (Some(_), Some(_)) => Err(format!("--{count} and --{span}: one of them")),
        (None, Some(seconds)) => Ok(Extent::For(Duration::from_secs(seconds))),
        (operations, None) => Ok(Extent::Operations(operations.unwrap_or(usual))),
    }
}

fn distribution(words: &mut Words) -> Result<Distribution, String> {
    let name = words.text("distribution")?.unwrap_or("gaussian".to_string());
    Distribution::of(&name).ok_or(format!("--distribution: no such distribution: {name}"))
}

/// What CREATE TABLE is told, the class first.
fn compaction(words: &mut Words) -> Result<Vec<(String, String)>, String> {
    let class = words.text("compaction-strategy")?.unwrap_or("Incremental".to_string());
    let ending = if class.ends_with("Strategy") { "" } else { "CompactionStrategy" };
    let mut compaction = vec![("class".to_string(), format!("{class}{ending}"))];
    for pair in words.list("compaction-options")?.unwrap_or_default() {
        let refused = || format!("--compaction-options: not a name and a value: {pair}");
        let (name, value) = pair.split_once('=').ok_or_else(refused)?;
        compaction.push((name.to_string(), value.to_string()));
    }
    Ok(compaction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::tool::testing::{check_refusals, options};

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
            ("--partitions 0", "--partitions: 0 is less than 1"),
            ("--operations 5 --duration 1", "--operations and --duration: one of them"),
            ("--rewrite-ratio 2", "--rewrite-ratio: 2 is not between 0 and 1"),
            ("--rewrite-ratio 0.6 --delete-ratio 0.6", "more than all operations"),
            ("--distribution flat", "--distribution: no such distribution: flat"),
            ("--min-flush-interval 9 --max-flush-interval 8", "--max-flush-interval is less"),
            ("--output-format xml", "--output-format: no such format: xml"),
            ("--compaction-options goal", "not a name and a value: goal"),
            ("--compaction-options goal=2", "Invalid compaction strategy options {{goal, 2}}"),
            ("--compaction-strategy Lucky", "Lucky"),
            ("-c 2", "-c 1"),
        ]);
    }
}
