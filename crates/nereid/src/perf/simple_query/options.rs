//! The command line of `perf-simple-query`: its own options, and those of the node that it runs.

use crate::options::Values;
use crate::perf::load::Plan;
use crate::perf::tool::{Bench, Tool, set};
use crate::perf::words::Words;
use sstable::Version;

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Write,
    Delete,
    CounterUpdate,
}

/// The options, read and checked.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) operation: Operation,
    pub(crate) counters: bool,
    pub(crate) partitions: u64,
    pub(crate) collection: u64,
    pub(crate) single_key: bool,
    /// Each shard takes the keys that it owns.
    pub(crate) shard_aware: bool,
    pub(crate) flush: bool,
    pub(crate) memtable_partitions: Option<u64>,
    pub(crate) bypass_cache: bool,
    pub(crate) timeout: String,
    pub(crate) tablets: Option<u64>,
    pub(crate) consistency: replication::Consistency,
    pub(crate) enable_cache: bool,
    pub(crate) enable_index_cache: bool,
    pub(crate) version: Option<Version>,
    /// Whose permissions are looked up with each operation.
    pub(crate) role: Option<String>,
    pub(crate) plan: Plan,
}

const USAGE: &str = "\
usage: nereid perf-simple-query [OPTIONS]
  --partitions N           partitions of the data set [10000]
  --write | --delete | --counters      instead of reads
  --collection N           a map column with N cells per row [0]
  --duration N             samples of one second [5]
  --operations-per-shard N a sample is so many operations instead
  --warm-up N              operations of each shard before the first sample [0]
  --concurrency N          workers per shard [100]
  --query-single-key       always the first key
  --flush                  flush memtables before the test
  --memtable-partitions N  flush after every N partitions while populating
  --shard-aware 0|1        each shard takes keys of its own [1]
  --enable-index-cache 0|1 [1]
  --enable-cache 0|1       the row cache [1]
  --sstable-format F       me or ms
  --bypass-cache           SELECT .. BYPASS CACHE
  --timeout D              USING TIMEOUT D
  --stop-on-error 0|1      end at the first error [1]
  --tablets                the keyspace has tablets
  --initial-tablets N      so many [128]
  --role NAME              as a role that was granted SELECT and MODIFY on the table, with
                           permissions that count
  --consistency-level L    [QUORUM]
  --json-result FILE       write the result there too
and the options of the server: -c N shards, -m SIZE memory, --default-log-level, ...";

impl Tool for Options {
    const USAGE: &'static str = USAGE;
    const PREFERRED: &'static [(&'static str, &'static str)] =
        &[("smp", "1"), ("unsafe_bypass_fsync", "1"), ("commitlog_sync", "periodic")];

    fn take(words: &mut Words) -> Result<Options, String> {
        let role = words.text("role")?.filter(|name| !name.is_empty());
        refuse_unable(words, role.as_deref())?;
        let counters = words.flag("counters");
        let has_tablets = words.flag("tablets");
        let initial_tablets = words.number("initial-tablets")?.unwrap_or(128);
        Ok(Options {
            operation: operation(words.flag("write"), words.flag("delete"), counters)?,
            counters,
            partitions: words.number("partitions")?.unwrap_or(10_000).max(1),
            collection: words.number("collection")?.unwrap_or(0),
            single_key: words.flag("query-single-key"),
            shard_aware: words.truth("shard-aware", true)?,
            flush: words.flag("flush"),
            memtable_partitions: words.number("memtable-partitions")?.filter(|count| 0 < *count),
            bypass_cache: words.flag("bypass-cache"),
            timeout: words.text("timeout")?.unwrap_or_default(),
            tablets: has_tablets.then_some(initial_tablets),
            consistency: consistency(words)?,
            enable_cache: words.truth("enable-cache", true)?,
            enable_index_cache: words.truth("enable-index-cache", true)?,
            version: crate::perf::writable(words)?,
            role,
            plan: Plan::take(words)?,
        })
    }

    fn adjust(&self, node: &mut Values) -> Result<(), String> {
        if !self.enable_cache {
            set(node, "enable_cache", "0")?;
        }
        if !self.enable_index_cache {
            set(node, "cache_index_pages", "0")?;
            set(node, "index_cache_fraction", "0")?;
        }
        if self.role.is_some() {
            set(node, "authorizer", "CassandraAuthorizer")?;
        }
        match self.version {
            Some(version) => set(node, "sstable_format", version.name()),
            None => Ok(()),
        }
    }

    async fn measure(&self, bench: &Bench) -> Result<(), String> {
        super::measure(self, bench).await
    }
}

impl Options {
    /// `read`, `write`, `delete`, with `_counters` for counters.
    pub(crate) fn kind(&self) -> String {
        let kind = match self.operation {
            Operation::Read => "read",
            Operation::Write | Operation::CounterUpdate => "write",
            Operation::Delete => "delete",
        };
        if self.counters { format!("{kind}_counters") } else { kind.to_string() }
    }

    /// The first line of the output.
    pub(crate) fn heading(&self, shards: u16) -> String {
        format!(
            "Running test with config: {{partitions={}, concurrency={}, mode={}, shards={shards}, \
             query_single_key={}, collection={}}}",
            self.partitions,
            self.plan.concurrency,
            self.kind(),
            self.single_key,
            self.collection,
        )
    }
}

fn operation(write: bool, delete: bool, counters: bool) -> Result<Operation, String> {
    match (write, delete, counters) {
        (false, true, _) => Ok(Operation::Delete),
        (true, false, true) => Ok(Operation::CounterUpdate),
        (true, false, false) => Ok(Operation::Write),
        (false, false, _) => Ok(Operation::Read),
        (true, true, _) => Err("--write and --delete exclude each other".to_string()),
    }
}

fn consistency(words: &mut Words) -> Result<replication::Consistency, String> {
    let level = words.text("consistency-level")?.unwrap_or("QUORUM".to_string());
    let all = (0..=10).filter_map(replication::Consistency::from_wire);
    let found = all.into_iter().find(|known| known.name() == level);
    found.ok_or(format!("--consistency-level: no such level: {level}"))
}

/// Options of audit.
const AUDIT: [&str; 7] = [
    "audit",
    "audit-keyspaces",
    "audit-tables",
    "audit-categories",
    "audit-rules",
    "audit-unix-socket-path",
    "audit-syslog-write-buffer-size",
];

/// Refuses options of runs that others publish whose measurement would not be the one asked for.
fn refuse_unable(words: &mut Words, role: Option<&str>) -> Result<(), String> {
    if words.truth("strongly-consistent-tables", false)? {
        return Err("--strongly-consistent-tables: there are no such tables yet".to_string());
    }
    if words.text("sstable-summary-ratio")?.is_some() {
        return Err("--sstable-summary-ratio: the ratio is fixed".to_string());
    }
    // With a role they are the node's.
    for name in AUDIT.into_iter().filter(|_| role.is_none()) {
        if words.text(name)?.is_some_and(|value| !matches!(&*value, "" | "none")) {
            return Err(format!(
                "--{name}: what the node does for itself is not written down; give a --role"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::tool::testing::{check_refusals, options};

    #[test]
    fn own_options_and_those_of_the_node() {
        let line = "-c1 -m2G --write --collection=16 --partitions 5 --timeout 1s";
        let (given, node) = options::<Options>(line);
        assert_eq!(given.operation, Operation::Write);
        assert_eq!((given.collection, given.partitions), (16, 5));
        assert_eq!((node.text("smp"), node.text("memory")), ("1", "2G"));
        assert_eq!(given.kind(), "write");
        let kind = |line| options::<Options>(line).0.kind();
        assert_eq!((&*kind("--write --counters"), &*kind("")), ("write_counters", "read"));
        let line = "--sstable-format me --enable-index-cache 0 --enable-cache=false --audit none";
        let (_, node) = options::<Options>(line);
        let names = ["sstable_format", "cache_index_pages", "enable_cache", "authorizer"];
        assert_eq!(names.map(|name| node.text(name)), ["me", "0", "0", "AllowAllAuthorizer"]);
        let (_, node) = options::<Options>("--role reader --audit table --audit-keyspaces=ks");
        assert_eq!(
            (node.text("audit_keyspaces"), node.list("audit")),
            ("ks", vec!["table".into()])
        );
        let (given, node) = options::<Options>("--role reader");
        assert_eq!(given.role.as_deref(), Some("reader"));
        assert_eq!(node.text("authorizer"), "CassandraAuthorizer");
    }

    #[test]
    fn refusals() {
        check_refusals::<Options>(&[
            ("--partitions many", "--partitions: not a number: many"),
            ("--write --delete", "exclude each other"),
            ("--consistency-level SOME", "no such level: SOME"),
            ("--strongly-consistent-tables", "no such tables"),
            ("--sstable-summary-ratio 0.01", "fixed"),
            ("--audit table", "--audit: what the node does for itself"),
            ("--audit-categories=DML", "--audit-categories: what the node"),
            ("--sstable-format ka", "cannot be written"),
            ("--nonsense 1", "unknown option --nonsense"),
        ]);
    }
}
