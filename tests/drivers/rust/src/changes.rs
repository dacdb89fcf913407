//! Who reads a log of changes by the library for it: all changes, each once, in order of a row.

use crate::Outcome;
use async_trait::async_trait;
use scylla::client::session::Session;
use scylla::value::CqlValue;
use scylla_cdc::consumer::{CDCRow, Consumer, ConsumerFactory};
use scylla_cdc::log_reader::CDCLogReaderBuilder;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

const ROWS: i32 = 60;

/// By the key of a row, what was told of it: operation, value, whether the value was deleted.
type Told = Arc<Mutex<BTreeMap<i32, Vec<(String, Option<i32>, bool)>>>>;

struct Teller(Told);

#[async_trait]
impl Consumer for Teller {
    async fn consume_cdc(&mut self, row: CDCRow<'_>) -> anyhow::Result<()> {
        let int = |value: &Option<CqlValue>| value.as_ref().and_then(CqlValue::as_int);
        let p = int(row.get_value("p")).ok_or_else(|| anyhow::anyhow!("a row without a key"))?;
        let told = (row.operation.to_string(), int(row.get_value("v")), row.is_value_deleted("v"));
        self.0.lock().expect("nobody panics").entry(p).or_default().push(told);
        Ok(())
    }
}

struct Tellers(Told);

#[async_trait]
impl ConsumerFactory for Tellers {
    async fn new_consumer(&self) -> Box<dyn Consumer> {
        Box::new(Teller(self.0.clone()))
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970")
}

/// In a keyspace with tablets, or without.
pub async fn read(session: &Arc<Session>, tablets: bool) -> Outcome {
    let keyspace = if tablets { "rust_changes_tablets" } else { "rust_changes" };
    let create = format!(
        "CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'NetworkTopologyStrategy', \
         'replication_factor': 1}} AND tablets = {{'enabled': {tablets}}}"
    );
    session.query_unpaged(create, &[]).await?;
    let table = format!("{keyspace}.t");
    let create = format!(
        "CREATE TABLE {table} (p int, c int, v int, PRIMARY KEY (p, c)) WITH cdc = {{'enabled': \
         true, 'preimage': true}}"
    );
    session.query_unpaged(create, &[]).await?;
    let begin = now();
    let insert = session.prepare(format!("INSERT INTO {table} (p, c, v) VALUES (?, 1, ?)")).await?;
    let clear =
        session.prepare(format!("UPDATE {table} SET v = null WHERE p = ? AND c = 1")).await?;
    let delete = session.prepare(format!("DELETE FROM {table} WHERE p = ? AND c = 1")).await?;
    for p in 0..ROWS {
        session.execute_unpaged(&insert, (p, 10 * p)).await?;
        session.execute_unpaged(&clear, (p,)).await?;
        session.execute_unpaged(&delete, (p,)).await?;
    }
    let told = Told::default();
    let short = Duration::from_millis(200);
    let (_, reading) = CDCLogReaderBuilder::new()
        .session(session.clone())
        .keyspace(keyspace)
        .table_name("t")
        .start_timestamp(begin - Duration::from_secs(1))
        .end_timestamp(now() + Duration::from_millis(500))
        .window_size(Duration::from_secs(5))
        .safety_interval(short)
        .sleep_interval(short)
        .consumer_factory(Arc::new(Tellers(told.clone())))
        .build()
        .await?;
    reading.await?;
    let told = told.lock().expect("nobody panics");
    if told.len() != ROWS as usize {
        return Err(format!("{} of {ROWS} rows were told", told.len()).into());
    }
    for (p, changes) in told.iter() {
        let expected = [
            ("RowInsert", Some(10 * p), false),
            ("PreImage", Some(10 * p), false),
            ("RowUpdate", None, true),
            ("PreImage", None, true),
            ("RowDelete", None, false),
        ];
        let found = changes.iter().map(|(name, v, gone)| (name.as_str(), *v, *gone));
        if !found.eq(expected) {
            return Err(format!("of row {p}: {changes:?}").into());
        }
    }
    Ok(())
}
