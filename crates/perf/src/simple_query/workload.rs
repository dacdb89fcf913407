//! The operations of `perf-simple-query` on one shard: its keys, its prepared statement, its
//! workers.

use super::options::{Derived, Operation, Options};
use crate::cql::{self, Statement};
use crate::load::{Workers, Workload};
use cluster::Cluster;
use model::{Sharder, Token};
use query::{CqlError, Value};
use replication::Consistency;
use std::cell::Cell;
use std::rc::Rc;

const KEYSPACE: &str = "ks";
const VALUE_BYTES: usize = 34;

/// A shard's part of the test.
pub(crate) struct SingleRows {
    statement: Statement,
    /// Numbers of the keys whose partitions this shard owns.
    keys: Vec<u64>,
    next: Cell<usize>,
    single_key: bool,
    /// How often the statement has the key.
    markers: usize,
    /// How many keys have the same value of the first column.
    matches: u64,
    /// Of reads.
    page_size: Option<i32>,
    consistency: Consistency,
    workers: Workers,
}

/// Makes the table, fills it, and gives every shard its workload.
pub(crate) async fn prepare(options: &Options) -> Result<(), String> {
    for text in schema(options) {
        cql::execute(&text).await?;
    }
    populate(options).await?;
    for text in options.role.iter().flat_map(|role| grants(role)) {
        cql::execute(&text).await?;
    }
    let (statement, role) = (statement(options), options.role.clone());
    let (shards, partitions) = (runtime::shard_count(), options.partitions);
    let (plan, single_key) = (options.plan.clone(), options.single_key);
    let (consistency, matches) = (options.consistency, options.matches);
    let page_size = options.page_size.filter(|_| options.operation == Operation::Read);
    let markers = match options.operation {
        Operation::Write => write_markers(options),
        _ => 1,
    };
    let any_key = options.tablets.is_some() || !options.shard_aware;
    let made = runtime::on_all_shards(move || {
        let (statement, role, plan) = (statement.clone(), role.clone(), plan.clone());
        async move {
            let statement = Statement::prepare_as(role.as_deref(), &statement).await?;
            let shard = runtime::shard_id();
            let mut keys = Vec::new();
            for number in 0..partitions {
                if any_key || owner(number, shards) == shard {
                    keys.push(number);
                }
                runtime::task::yield_if_needed().await;
            }
            if keys.is_empty() {
                keys.push(0);
            }
            runtime::local::set(Rc::new(SingleRows {
                statement,
                keys,
                next: Cell::new(0),
                single_key,
                markers,
                matches,
                page_size,
                consistency,
                workers: Workers::new(&plan),
            }));
            Ok::<(), String>(())
        }
    })
    .await;
    made.into_iter().collect()
}

fn owner(number: u64, shards: u16) -> u16 {
    Sharder::of_node(shards).shard_of(Token::of(&number.to_be_bytes()))
}

fn schema(options: &Options) -> Vec<String> {
    let tablets = match options.tablets {
        Some(count) => format!(" AND tablets = {{'initial': {count}}}"),
        None => " AND tablets = {'enabled': false}".to_string(),
    };
    let columns = if options.counters {
        (0..5).map(|n| format!(", \"C{n}\" counter")).collect::<String>()
    } else {
        let map = if 0 < options.collection { ", \"CC\" map<blob, blob>" } else { "" };
        (0..5).map(|n| format!(", \"C{n}\" blob")).collect::<String>() + map
    };
    let mut texts = vec![
        format!(
            "CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': \
             'NetworkTopologyStrategy', 'replication_factor': 1}}{tablets}"
        ),
        format!(
            "CREATE TABLE {KEYSPACE}.cf (\"KEY\" blob PRIMARY KEY{columns}) WITH compaction = \
             {{'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'}}"
        ),
    ];
    match options.derived {
        Derived::Nothing => {}
        Derived::Index => texts.push(format!("CREATE INDEX ON {KEYSPACE}.cf (\"C0\")")),
        Derived::View => texts.push(format!(
            "CREATE MATERIALIZED VIEW {KEYSPACE}.by_first AS SELECT * FROM {KEYSPACE}.cf WHERE \
             \"C0\" IS NOT NULL AND \"KEY\" IS NOT NULL PRIMARY KEY (\"C0\", \"KEY\")"
        )),
        Derived::Log => {
            texts.push(format!("ALTER TABLE {KEYSPACE}.cf WITH cdc = {{'enabled': true}}"));
        }
    }
    texts
}

/// Makes the role, and lets it do what is measured.
fn grants(role: &str) -> Vec<String> {
    let role = syntax::quote_name(role).into_owned();
    let grant = |permission: &str| format!("GRANT {permission} ON {KEYSPACE}.cf TO {role}");
    vec![format!("CREATE ROLE {role}"), grant("SELECT"), grant("MODIFY")]
}

/// The bytes of column `n`: constant, so that every run stores the same.
fn value(n: usize) -> String {
    let byte = |i: usize| (i * 37 + n * 101 + 7) as u8;
    (0..VALUE_BYTES).map(|i| format!("{:02x}", byte(i))).collect()
}

fn write_statement(options: &Options) -> String {
    if options.counters {
        let sets: Vec<String> =
            (0..5).map(|n| format!("\"C{n}\" = \"C{n}\" + {}", n + 1)).collect();
        let timeout = using_timeout(options);
        return format!("UPDATE {KEYSPACE}.cf{timeout} SET {} WHERE \"KEY\" = ?", sets.join(", "));
    }
    let mut sets: Vec<String> = (0..5).map(|n| format!("\"C{n}\" = 0x{}", value(n))).collect();
    if options.derived != Derived::Nothing {
        sets[0] = "\"C0\" = ?".to_string();
    }
    if 0 < options.collection {
        let entries: Vec<String> = (0..options.collection)
            .map(|n| format!("0x{n:016x}: 0x{}", value(n as usize)))
            .collect();
        sets.push(format!("\"CC\" = {{{}}}", entries.join(", ")));
    }
    let timeout = using_timeout(options);
    format!("UPDATE {KEYSPACE}.cf{timeout} SET {} WHERE \"KEY\" = ?", sets.join(", "))
}

fn using_timeout(options: &Options) -> String {
    match options.timeout.as_str() {
        "" => String::new(),
        timeout => format!(" USING TIMEOUT {timeout}"),
    }
}

/// The statement that is measured.
fn statement(options: &Options) -> String {
    let map = if 0 < options.collection && !options.counters { ", \"CC\"" } else { "" };
    let columns = format!("\"C0\", \"C1\", \"C2\", \"C3\", \"C4\"{map}");
    let timeout = using_timeout(options);
    let bypass = if options.bypass_cache { " BYPASS CACHE" } else { "" };
    match options.operation {
        Operation::Read => {
            let column = if options.derived == Derived::Index { "C0" } else { "KEY" };
            format!("SELECT {columns} FROM {KEYSPACE}.cf WHERE \"{column}\" = ?{bypass}{timeout}")
        }
        Operation::Write | Operation::CounterUpdate => write_statement(options),
        Operation::Delete => {
            format!("DELETE {columns} FROM {KEYSPACE}.cf{timeout} WHERE \"KEY\" = ?")
        }
    }
}

async fn populate(options: &Options) -> Result<(), String> {
    let statement = Statement::prepare(&write_statement(options)).await?;
    for number in 0..options.partitions {
        let (first, key) = ((number / options.matches).to_be_bytes(), number.to_be_bytes());
        let values = [Value::Bytes(&first), Value::Bytes(&key)];
        let done = statement.run(&values[..write_markers(options)], Consistency::One).await;
        done.map_err(|error| error.to_string())?;
        runtime::task::yield_if_needed().await;
        if options.memtable_partitions.is_some_and(|count| (number + 1) % count == 0) {
            flush().await?;
        }
    }
    if options.flush { flush().await } else { Ok(()) }
}

/// Markers of [`write_statement`]: the key, and before it the first column where something is
/// derived.
fn write_markers(options: &Options) -> usize {
    if options.derived == Derived::Nothing { 1 } else { 2 }
}

async fn flush() -> Result<(), String> {
    let schema = runtime::local::get::<Cluster>().schema();
    let table = schema.table(KEYSPACE, "cf").ok_or("the table is gone")?.schema.id;
    let flushed = runtime::on_all_shards(move || async move {
        let storage = runtime::local::get::<storage::Storage>();
        storage.flush(table).await.map_err(|error| error.to_string())
    });
    flushed.await.into_iter().collect()
}

impl Workload for SingleRows {
    type Error = CqlError;

    fn workers(&self) -> &Workers {
        &self.workers
    }

    async fn operate(&self) -> Result<(), CqlError> {
        let index = self.next.get();
        self.next.set((index + 1) % self.keys.len());
        let number = if self.single_key { 0 } else { self.keys[index] };
        let (first, key) = ((number / self.matches).to_be_bytes(), number.to_be_bytes());
        let values = [Value::Bytes(&first), Value::Bytes(&key)];
        let values = &values[..self.markers];
        match self.page_size {
            None => self.statement.run(values, self.consistency).await.map(|_| ()),
            Some(size) => self.statement.run_pages(values, self.consistency, size).await,
        }
    }
}
