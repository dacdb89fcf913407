//! How long CREATE TABLE and DROP TABLE take, and a start: `ddl DIRECTORY [SHARDS] [ROUNDS]`.

use cluster::{BootConfig, Cluster, NodeConfig, SchemaChange, system_tables};
use model::{Column, ColumnId, ColumnKind, Keyspace, TableSchema, Type, Uuid};
use runtime::time::Instant;
use std::net::{IpAddr, Ipv4Addr};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().expect("a directory for the data");
    let mut number =
        |default| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (shards, rounds) = (number(1), number(100));
    let ran = runtime::run(runtime::Config::new(shards), move |shard| {
        let directory = directory.clone();
        async move {
            if shard == 0 {
                measure(&directory, rounds).await;
            }
        }
    });
    ran.expect("shards");
}

async fn measure(directory: &str, rounds: u16) {
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let node = NodeConfig {
        cluster_name: "benchmark".into(),
        data_center: "dc1".into(),
        rack: "r1".into(),
        listen_address: address,
        broadcast_address: address,
        rpc_address: address,
        listen_port: 7000,
        rpc_port: Some(9042),
        num_tokens: 1,
        initial_tokens: Vec::new(),
    };
    let storage = storage::Config::new(directory, Uuid::nil());
    let start = Instant::now();
    cluster::boot(BootConfig { node, storage }).await.expect("a start");
    println!("start: {:?}", start.elapsed());
    change(|schema| match schema.keyspace("ks") {
        Some(_) => Vec::new(),
        None => vec![SchemaChange::CreateKeyspace(keyspace())],
    })
    .await;
    let mut spans = Vec::new();
    for _ in 0..rounds {
        let table = table();
        let drop = SchemaChange::DropTable { keyspace: "ks".into(), name: "t".into() };
        let start = Instant::now();
        change(move |_| vec![SchemaChange::CreateTable(table)]).await;
        change(move |_| vec![drop]).await;
        spans.push(start.elapsed());
    }
    spans.sort();
    let median = spans[spans.len() / 2];
    println!("create and drop: median {median:?}, least {:?}", spans[0]);
    cluster::stop().await.expect("a stop");
}

async fn change(decide: impl FnOnce(&cluster::Schema) -> Vec<SchemaChange> + Send + 'static) {
    let cluster = runtime::local::get::<Cluster>();
    let changed = cluster.change_schema(move |schema| Ok::<_, ()>(decide(schema))).await;
    changed.expect("a change");
}

fn keyspace() -> Keyspace {
    Keyspace {
        name: "ks".into(),
        replication: vec![
            ("class".into(), "SimpleStrategy".into()),
            ("replication_factor".into(), "1".into()),
        ],
        durable_writes: true,
        initial_tablets: None,
        storage: Vec::new(),
    }
}

fn table() -> TableSchema {
    let column = |id, name: &str, kind, ty| {
        let (id, name) = (ColumnId(id), name.to_owned());
        Column { id, name, kind, position: 0, ty, reversed: false }
    };
    TableSchema {
        id: Cluster::new_table_id(),
        keyspace: "ks".into(),
        name: "t".into(),
        columns: vec![
            column(0, "pk", ColumnKind::PartitionKey, Type::Int),
            column(1, "v", ColumnKind::Regular, Type::Text),
        ],
        next_column_id: 2,
        ..system_tables::table("system", "local")
    }
}
