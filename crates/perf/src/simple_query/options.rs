//! The command line of `perf-simple-query`: its own options, and those of the node that it runs.

use crate::given::{Given, flag, number, optional, text, truth};
use crate::load::Plan;
use crate::tool::{Bench, Tool, set};
use clap::Arg;
use options::{Source, Values};
use sstable::Version;

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Write,
    Delete,
    CounterUpdate,
}

/// What is derived from each write. The first column has the key of its row then, so that no two
/// rows share a partition of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Derived {
    Nothing,
    /// An index on the first column, by which reads ask.
    Index,
    /// A view by the first column.
    View,
    /// A log of changes, without images.
    Log,
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
    /// What is kept beside the table.
    pub(crate) derived: Derived,
    /// Rows that have the same value of the column that is indexed.
    pub(crate) matches: u64,
    /// Rows of a page of a read; `None`: all rows in one.
    pub(crate) page_size: Option<i32>,
    /// Whose permissions are looked up with each operation.
    pub(crate) role: Option<String>,
    pub(crate) plan: Plan,
}

impl Tool for Options {
    const NAME: &'static str = "perf-simple-query";
    const ABOUT: &'static str = "Measures reads and writes of single rows, in process";
    const PREFERRED: &'static [(&'static str, &'static str)] =
        &[("smp", "1"), ("unsafe_bypass_fsync", "1"), ("commitlog_sync", "periodic")];

    fn args() -> Vec<Arg> {
        let mut args = vec![
            number("partitions", "10000", "Partitions of the data set"),
            flag("write", "Write instead of reading"),
            flag("delete", "Delete instead of reading"),
            flag("counters", "Use a table of counters"),
            number("collection", "0", "Cells of a map in each row; 0: no map"),
            flag("index", "Index the first column; reads ask by it"),
            number("matches", "1", "Rows that have the same value of the column with --index"),
            number("page-size", "0", "Rows of a page of a read; 0: all rows in one"),
            flag("view", "Keep a view of the table by its first column"),
            flag("cdc", "Keep a log of the changes of the table (CDC)"),
            flag("query-single-key", "Always take the first key"),
            flag("flush", "Flush memtables before the test"),
            optional("memtable-partitions", "Flush after every N partitions while populating"),
            truth("shard-aware", "1", "Each shard takes keys that it owns"),
            truth("enable-index-cache", "1", "Cache indexes of SSTables"),
            truth("enable-cache", "1", "Use the row cache"),
            crate::format(),
            flag("bypass-cache", "SELECT .. BYPASS CACHE"),
            text("timeout", "DURATION", "USING TIMEOUT").default_value(""),
            flag("tablets", "Make the keyspace with tablets"),
            number("initial-tablets", "128", "Tablets of the table"),
            text("role", "NAME", "Run as a role that was granted SELECT and MODIFY"),
            text("consistency-level", "LEVEL", "Consistency level").default_value("QUORUM"),
            truth("strongly-consistent-tables", "0", "").hide(true),
            text("sstable-summary-ratio", "RATIO", "").hide(true),
        ];
        args.extend(Plan::args());
        args.push(Plan::stop_on_error());
        args
    }

    fn take(given: &Given) -> Result<Options, String> {
        refuse_unable(given)?;
        let counters = given.flag("counters");
        Ok(Options {
            operation: operation(given.flag("write"), given.flag("delete"), counters)?,
            counters,
            partitions: given.number("partitions").max(1),
            collection: given.number("collection"),
            single_key: given.flag("query-single-key"),
            shard_aware: given.truth("shard-aware"),
            flush: given.flag("flush"),
            memtable_partitions: given.optional("memtable-partitions").filter(|n| 0 < *n),
            bypass_cache: given.flag("bypass-cache"),
            timeout: given.text("timeout").unwrap_or_default().to_owned(),
            tablets: given.flag("tablets").then(|| given.number("initial-tablets")),
            consistency: consistency(given)?,
            enable_cache: given.truth("enable-cache"),
            enable_index_cache: given.truth("enable-index-cache"),
            version: crate::writable(given),
            derived: derived(given)?,
            matches: matches(given)?,
            page_size: page_size(given)?,
            role: given.text("role").filter(|name| !name.is_empty()).map(str::to_owned),
            plan: Plan::take(given, given.truth("stop-on-error")),
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
        match self.role {
            Some(_) => set(node, "authorizer", "CassandraAuthorizer")?,
            None => refuse_audit(node)?,
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

fn derived(given: &Given) -> Result<Derived, String> {
    let all = [("index", Derived::Index), ("view", Derived::View), ("cdc", Derived::Log)];
    let asked: Vec<_> = all.into_iter().filter(|(name, _)| given.flag(name)).collect();
    match asked[..] {
        [] => Ok(Derived::Nothing),
        [(name, _)] if given.flag("counters") => {
            Err(format!("--counters: such tables have no --{name}"))
        }
        [(_, derived)] => Ok(derived),
        [(one, _), (other, _), ..] => Err(format!("--{one} and --{other} exclude each other")),
    }
}

fn matches(given: &Given) -> Result<u64, String> {
    match given.number("matches") {
        0 => Err("--matches: there is no value without rows".to_string()),
        1 => Ok(1),
        _ if !given.flag("index") => Err("--matches: only with --index".to_string()),
        _ if given.flag("delete") => Err("--matches: not with --delete".to_string()),
        matches => Ok(matches),
    }
}

fn page_size(given: &Given) -> Result<Option<i32>, String> {
    let size = given.number("page-size");
    let size = i32::try_from(size).map_err(|_| format!("--page-size: too large: {size}"))?;
    Ok((0 < size).then_some(size))
}

fn consistency(given: &Given) -> Result<replication::Consistency, String> {
    let level = given.text("consistency-level").unwrap_or_default();
    let all = (0..=10).filter_map(replication::Consistency::from_wire);
    let found = all.into_iter().find(|known| known.name() == level);
    found.ok_or(format!("--consistency-level: no such level: {level}"))
}

/// Options of audit.
const AUDIT: [&str; 7] = [
    "audit",
    "audit_keyspaces",
    "audit_tables",
    "audit_categories",
    "audit_rules",
    "audit_unix_socket_path",
    "audit_syslog_write_buffer_size",
];

/// Refuses options of runs that others publish whose measurement would not be the one asked for.
fn refuse_unable(given: &Given) -> Result<(), String> {
    if given.truth("strongly-consistent-tables") {
        return Err("--strongly-consistent-tables: there are no such tables yet".to_string());
    }
    if given.text("sstable-summary-ratio").is_some() {
        return Err("--sstable-summary-ratio: the ratio is fixed".to_string());
    }
    Ok(())
}

/// Without a role nothing that the tool does is audited.
fn refuse_audit(node: &Values) -> Result<(), String> {
    let given = AUDIT.into_iter().find(|name| {
        let is_set = node.source(name) == Source::CommandLine;
        is_set && !matches!(node.text(name), "" | "none")
    });
    given.map_or(Ok(()), |name| {
        let name = name.replace('_', "-");
        Err(format!("--{name}: what the node does for itself is not audited; give a --role"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::testing::{check_refusals, options};

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
            ("--partitions many", "invalid value 'many' for '--partitions <N>'"),
            ("--write --delete", "exclude each other"),
            ("--matches 10", "--matches: only with --index"),
            ("--index --delete --matches 10", "--matches: not with --delete"),
            ("--index --matches 0", "no value without rows"),
            ("--page-size 3000000000", "--page-size: too large"),
            ("--consistency-level SOME", "no such level: SOME"),
            ("--strongly-consistent-tables", "no such tables"),
            ("--sstable-summary-ratio 0.01", "fixed"),
            ("--audit table", "--audit: what the node does for itself"),
            ("--audit-categories=DML", "--audit-categories: what the node"),
            ("--sstable-format ka", "invalid value 'ka' for '--sstable-format <VERSION>'"),
            ("--nonsense 1", "unknown option --nonsense"),
        ]);
    }
}
