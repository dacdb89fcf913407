//! What the `scylla` crate must be able to do, and who reads logs of changes with `scylla-cdc`:
//! `cargo run -- ADDRESS PORT`. Prints "N passed, N failed".

mod changes;

use futures::TryStreamExt;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::unprepared::Statement;
use scylla::value::{Counter, CqlTimeuuid};
use scylla::{DeserializeValue, SerializeValue};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use uuid::Uuid;

type Outcome = Result<(), Box<dyn Error>>;

async fn connect() -> Result<Session, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let address = format!("{}:{}", arguments[1], arguments[2]);
    let session = SessionBuilder::new().known_node(address).build().await?;
    let create = "CREATE KEYSPACE rust_tests WITH replication = \
                  {'class': 'NetworkTopologyStrategy', 'replication_factor': 1}";
    session.query_unpaged(create, &[]).await?;
    session.use_keyspace("rust_tests", false).await?;
    Ok(session)
}

macro_rules! round_trip {
    ($session:expr, $number:expr, $name:literal, $kind:ty, $value:expr) => {{
        let table = format!("type_{}", $number);
        let create = format!("CREATE TABLE {table} (k int PRIMARY KEY, v {})", $name);
        $session.query_unpaged(create, &[]).await?;
        let insert = $session.prepare(format!("INSERT INTO {table} (k, v) VALUES (?, ?)")).await?;
        let value: $kind = $value;
        $session.execute_unpaged(&insert, (1, &value)).await?;
        let select = $session.prepare(format!("SELECT v FROM {table} WHERE k = ?")).await?;
        let rows = $session.execute_unpaged(&select, (1,)).await?.into_rows_result()?;
        let (got,): ($kind,) = rows.single_row()?;
        if got != value {
            return Err(format!("{}: {got:?} is not {value:?}", $name).into());
        }
    }};
}

async fn types(session: &Session) -> Outcome {
    round_trip!(session, 1, "ascii", String, "plain".to_string());
    round_trip!(session, 2, "bigint", i64, i64::MIN);
    round_trip!(session, 3, "blob", Vec<u8>, vec![0, 255]);
    round_trip!(session, 4, "boolean", bool, true);
    round_trip!(session, 5, "double", f64, 1.5e300);
    round_trip!(session, 6, "float", f32, 0.25);
    round_trip!(session, 7, "inet", IpAddr, "2001:db8::1".parse()?);
    round_trip!(session, 8, "int", i32, -7);
    round_trip!(session, 9, "smallint", i16, -300);
    round_trip!(session, 10, "tinyint", i8, -128);
    round_trip!(session, 11, "text", String, "gr\u{fc}\u{df}".to_string());
    round_trip!(session, 12, "list<int>", Vec<i32>, vec![3, 1, 3]);
    let set = BTreeSet::from(["a".to_string(), "b".to_string()]);
    round_trip!(session, 13, "set<text>", BTreeSet<String>, set);
    let map = BTreeMap::from([(1, "x".to_string()), (2, "y".to_string())]);
    round_trip!(session, 14, "map<int, text>", BTreeMap<i32, String>, map);
    round_trip!(session, 15, "tuple<int, text>", (i32, String), (1, "z".to_string()));
    round_trip!(session, 16, "vector<float, 3>", Vec<f32>, vec![0.5, 1.5, -2.0]);
    use scylla::value::{CqlDate, CqlDecimal, CqlDuration, CqlTime, CqlTimestamp, CqlVarint};
    round_trip!(session, 17, "date", CqlDate, CqlDate(1 << 31));
    round_trip!(session, 18, "time", CqlTime, CqlTime(86_399_999_999_999));
    round_trip!(session, 19, "timestamp", CqlTimestamp, CqlTimestamp(-5));
    let duration = CqlDuration { months: 1, days: 2, nanoseconds: 3 };
    round_trip!(session, 20, "duration", CqlDuration, duration);
    let varint = CqlVarint::from_signed_bytes_be(vec![0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    round_trip!(session, 21, "varint", CqlVarint, varint);
    let decimal = CqlDecimal::from_signed_be_bytes_and_exponent(vec![0x12, 0x34], 4);
    round_trip!(session, 22, "decimal", CqlDecimal, decimal);
    let id = "c4e2f8a0-1d3b-11f0-8de9-0242ac120002";
    round_trip!(session, 23, "uuid", Uuid, Uuid::parse_str(id)?);
    round_trip!(session, 24, "timeuuid", CqlTimeuuid, id.parse::<CqlTimeuuid>()?);
    Ok(())
}

#[derive(Debug, PartialEq, SerializeValue, DeserializeValue)]
struct Address {
    street: String,
    number: i32,
}

async fn structured(session: &Session) -> Outcome {
    session.query_unpaged("CREATE TYPE address (street text, number int)", &[]).await?;
    let home = Address { street: "a".to_string(), number: 3 };
    round_trip!(session, 25, "frozen<address>", Address, home);
    let create = "CREATE TABLE counted (k int PRIMARY KEY, n counter)";
    session.query_unpaged(create, &[]).await?;
    let update = session.prepare("UPDATE counted SET n = n + ? WHERE k = ?").await?;
    for delta in [7, -2] {
        session.execute_unpaged(&update, (Counter(delta), 1)).await?;
    }
    let rows = session.query_unpaged("SELECT n FROM counted", &[]).await?.into_rows_result()?;
    let (Counter(count),) = rows.single_row()?;
    if count == 5 { Ok(()) } else { Err(format!("{count} is not 5").into()) }
}

async fn pages(session: &Session) -> Outcome {
    let create = "CREATE TABLE wide (p int, c int, v text, PRIMARY KEY (p, c))";
    session.query_unpaged(create, &[]).await?;
    let insert = session.prepare("INSERT INTO wide (p, c, v) VALUES (?, ?, ?)").await?;
    for start in (0..10_000).step_by(200) {
        let writes = (start..start + 200).map(|c| {
            let insert = &insert;
            async move { session.execute_unpaged(insert, (c % 7, c, format!("v{c}"))).await }
        });
        futures::future::try_join_all(writes).await?;
    }
    let select = Statement::new("SELECT p, c, v FROM wide").with_page_size(300);
    let mut rows = session.query_iter(select, &[]).await?.rows_stream::<(i32, i32, String)>()?;
    let mut seen = BTreeSet::new();
    while let Some((p, c, v)) = rows.try_next().await? {
        if p != c % 7 || v != format!("v{c}") {
            return Err(format!("row ({p}, {c}, {v})").into());
        }
        seen.insert(c);
    }
    if seen.len() == 10_000 { Ok(()) } else { Err(format!("{} rows of 10000", seen.len()).into()) }
}

async fn batches(session: &Session) -> Outcome {
    session.query_unpaged("CREATE TABLE batched (k int PRIMARY KEY, v int)", &[]).await?;
    let insert = session.prepare("INSERT INTO batched (k, v) VALUES (?, ?)").await?;
    let mut batch = Batch::new(BatchType::Logged);
    (0..20).for_each(|_| batch.append_statement(insert.clone()));
    session.batch(&batch, (0..20).map(|k| (k, k * k)).collect::<Vec<_>>()).await?;
    let rows = session.query_unpaged("SELECT count(*) FROM batched", &[]).await?;
    let (count,): (i64,) = rows.into_rows_result()?.single_row()?;
    if count == 20 { Ok(()) } else { Err(format!("{count} rows of 20").into()) }
}

async fn shards(session: &Session) -> Outcome {
    let state = session.get_cluster_state();
    let node = state.get_nodes_info().first().ok_or("no node is known")?;
    let sharder = node.sharder().ok_or("the driver was not told of shards")?;
    if sharder.nr_shards.get() == 2 { Ok(()) } else { Err("not two shards".into()) }
}

#[tokio::main]
async fn main() -> Outcome {
    let session = Arc::new(connect().await?);
    let outcomes = [
        ("types", types(&session).await),
        ("structured", structured(&session).await),
        ("pages", pages(&session).await),
        ("batches", batches(&session).await),
        ("shards", shards(&session).await),
        ("changes by tablet", changes::read(&session, true).await),
        ("changes by range", changes::read(&session, false).await),
    ];
    for (name, outcome) in &outcomes {
        if let Err(error) = outcome {
            println!("FAILED {name}: {error}");
        }
    }
    let failed = outcomes.iter().filter(|(_, outcome)| outcome.is_err()).count();
    println!("{} passed, {failed} failed", outcomes.len() - failed);
    if failed == 0 { Ok(()) } else { Err("some tests failed".into()) }
}
