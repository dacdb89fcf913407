//! Making the data: one mutation per row straight into the memtable, flushed at a threshold, then
//! merged into a single SSTable. `ks.config` tells later runs how many rows there are.

use super::dataset::{Dataset, KEYSPACE};
use super::measure::{Yield, since, spent};
use super::options::Options;
use super::report::{Line, Report};
use crate::cql::execute;
use cluster::Cluster;
use model::TableSchema;
use query::{Parameters, Processor, ResponseKind, Session, Value, Values};
use runtime::counters::Counters;
use std::rc::Rc;
use storage::Storage;

/// Makes the data sets that the options name.
pub(crate) async fn all(options: &Options, report: &mut Report) -> Result<(), String> {
    if runtime::shard_count() != 1 {
        return Err("the data is made on exactly one shard: -c 1".to_string());
    }
    execute(&format!(
        "CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH replication = {{'class': \
         'NetworkTopologyStrategy', 'replication_factor': 1}} AND tablets = {{'enabled': false}}"
    ))
    .await?;
    execute(&format!(
        "CREATE TABLE IF NOT EXISTS {KEYSPACE}.config (name text PRIMARY KEY, n_rows bigint, \
         value_size bigint)"
    ))
    .await?;
    for dataset in &options.datasets {
        execute(&format!("DROP TABLE IF EXISTS {KEYSPACE}.{}", dataset.table)).await?;
        execute(&dataset.create(options.compressed)).await?;
        fill(options, dataset, report).await?;
    }
    let name = options.name.replace('\'', "''");
    execute(&format!(
        "INSERT INTO {KEYSPACE}.config (name, n_rows, value_size) VALUES ('{name}', {}, {})",
        options.rows, options.value_bytes
    ))
    .await
}

/// Fills the table of a data set.
async fn fill(options: &Options, dataset: &Dataset, report: &mut Report) -> Result<(), String> {
    let text = |error: storage::StorageError| error.to_string();
    let storage = runtime::local::get::<Storage>();
    let schema = schema(dataset)?;
    let counters = Counters::open();
    let before = spent(&counters).await;
    let mut flushed_at = Vec::new();
    for row in 0..options.rows {
        let mutation = dataset.mutation(&schema, row, options.value_bytes);
        storage.apply_unlogged(&mutation).map_err(|error| error.to_string())?;
        let bytes = storage.table_stats(schema.id).map_or(0, |stats| stats.memtable_bytes);
        if row % 1024 == 1023 && options.flush_bytes as u64 <= bytes {
            flushed_at.push(bytes >> 20);
            storage.flush(schema.id).await.map_err(text)?;
        }
        if row % 256 == 0 {
            runtime::task::yield_if_needed().await;
        }
    }
    storage.flush(schema.id).await.map_err(text)?;
    let how = storage::Rewrite {
        column_index_bytes: options.column_index_bytes,
        version: options.version,
    };
    storage.compact_all(schema.id, how).await.map_err(|error| error.to_string())?;
    let read = Yield { fragments: options.rows };
    let sample = since(before, &counters, read, None).await;
    let heading = super::heading_of(dataset, &["flush@ (MiB)"]);
    report.begin(&heading);
    let threshold = (options.flush_bytes >> 20).to_string();
    let values = std::slice::from_ref(&threshold);
    let line = Line { values, file: &threshold, samples: &[sample] };
    report.add(&heading, &line).await?;
    let stats = storage.table_stats(schema.id).unwrap_or_default();
    let (count, bytes) = (stats.sstables, stats.sstable_bytes);
    println!("flushed at {flushed_at:?} MiB; {count} SSTable of {bytes} bytes");
    Ok(())
}

/// The schema of a data set's table.
pub(crate) fn schema(dataset: &Dataset) -> Result<Rc<TableSchema>, String> {
    let schema = runtime::local::get::<Cluster>().schema();
    let table = schema.table(KEYSPACE, dataset.table);
    let missing = || format!("no data set {}: make it with --populate", dataset.name);
    table.map(|entry| entry.schema.clone()).ok_or_else(missing)
}

/// How many rows the data of that name has.
pub(crate) async fn rows_of(name: &str) -> Result<u64, String> {
    let processor = runtime::local::get::<Processor>();
    let session = Session::internal();
    let values = [Value::Bytes(name.as_bytes())];
    let parameters = Parameters {
        values: Values::Positional(&values),
        ..Parameters::plain(replication::Consistency::One)
    };
    let text = format!("SELECT n_rows FROM {KEYSPACE}.config WHERE name = ?");
    let missing = format!("no data called {name}: make it with --populate");
    let answer =
        processor.query(&session, &text, &parameters).await.map_err(|_| missing.clone())?;
    let ResponseKind::Rows(rows) = answer.kind else { return Err(missing) };
    // One row of one column: a length and eight bytes.
    let number = rows.body.last_chunk::<8>().filter(|_| rows.row_count == 1);
    number.map(|bytes| u64::from_be_bytes(*bytes)).ok_or(missing)
}
