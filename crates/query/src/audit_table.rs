//! The table of the audit log: made, and written by tasks that no statement waits for.

use crate::audit::{Audit, Config, Queue};
use crate::parameters::Parameters;
use crate::processor::Processor;
use crate::session::Session;
use auth::audit::Event;
use model::value::encode_inet;
use plan::values::{Value, Values};
use replication::Consistency;
use runtime::Erased;
use std::rc::Rc;

/// Rows of a shard that are written at once.
const WRITERS: usize = 16;

const SCHEMA: [&str; 2] = [
    "CREATE KEYSPACE IF NOT EXISTS audit WITH replication = {'class': \
     'org.apache.cassandra.locator.NetworkTopologyStrategy', 'replication_factor': 1}",
    "CREATE TABLE IF NOT EXISTS audit.audit_log (date timestamp, node inet, event_time timeuuid, \
     category text, consistency text, table_name text, keyspace_name text, operation text, source \
     inet, username text, error boolean, PRIMARY KEY ((date, node), event_time)) WITH comment = \
     'what clients did and tried'",
];
const INSERT: &str = "INSERT INTO audit.audit_log (date, node, event_time, category, consistency, \
                      table_name, keyspace_name, operation, source, username, error) VALUES (?, \
                      ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

impl Audit {
    /// Writes down what clients do from now on, on every shard. Runs on shard 0, after processors
    /// were started.
    pub fn start(config: Config) -> Erased<'static, Result<(), String>> {
        Erased::new(move || async move {
            if config.to_table {
                create_table().await?;
            }
            runtime::on_all_shards(move || async move { start_here(config) }).await;
            Ok(())
        })
    }

    /// Writes what waits, for some seconds at most.
    pub fn stop() -> Erased<'static, ()> {
        let stop = || async {
            let Some(processor) = runtime::local::try_get::<Processor>() else { return };
            if let Some(audit) = processor.audit() {
                audit.end().await;
            }
        };
        Erased::new(move || async move { drop(runtime::on_all_shards(stop).await) })
    }
}

async fn create_table() -> Result<(), String> {
    let processor = runtime::local::get::<Processor>();
    if processor.cluster().schema().table("audit", "audit_log").is_some() {
        // Without asking the others: a node starts without a majority, too.
        return Ok(());
    }
    for text in SCHEMA {
        let parameters = Parameters::plain(Consistency::One);
        let made = processor.query(&Session::internal(), text, &parameters).await;
        made.map_err(|error| format!("cannot create the audit table: {error}"))?;
    }
    Ok(())
}

fn start_here(config: Config) {
    let Some(audit) = Audit::of_shard(config) else { return };
    for _ in 0..WRITERS {
        audit.write_table(write_rows);
    }
    runtime::local::get::<Processor>().set_audit(audit);
}

/// Writes events as rows, one after the other.
async fn write_rows(queue: Rc<Queue>) {
    while let Some(event) = queue.next().await {
        let written = Box::pin(write_row(&event)).await;
        queue.conclude(&event, written);
    }
}

async fn write_row(event: &Event) -> Result<(), String> {
    const DAY_MICROS: i64 = 86_400_000_000;
    let Some(processor) = runtime::local::try_get::<Processor>() else {
        return Err("the node stops".to_owned());
    };
    let node = encode_inet(processor.cluster().node().rpc_address);
    let day = event.at_micros.div_euclid(DAY_MICROS) * (DAY_MICROS / 1000);
    let (day, time) = (day.to_be_bytes(), processor.timeuuid(event.at_micros));
    let (client, is_error) = (event.client.map(encode_inet), [u8::from(event.is_error)]);
    let values = [
        Value::Bytes(&day),
        Value::Bytes(&node),
        Value::Bytes(time.as_bytes()),
        Value::Bytes(event.category.name().as_bytes()),
        Value::Bytes(event.consistency.as_bytes()),
        Value::Bytes(event.table.as_bytes()),
        Value::Bytes(event.keyspace.as_bytes()),
        Value::Bytes(event.operation.as_bytes()),
        client.as_deref().map_or(Value::Null, Value::Bytes),
        Value::Bytes(event.user.as_bytes()),
        Value::Bytes(&is_error),
    ];
    let values = Values::Positional(&values);
    let parameters = Parameters { values, ..Parameters::plain(Consistency::One) };
    let written = processor.query(&Session::internal(), INSERT, &parameters).await;
    written.map(drop).map_err(|error| error.to_string())
}
