//! How long CREATE TABLE and DROP TABLE take, and a start: `ddl DIRECTORY [SHARDS] [ROUNDS]`.

use cluster::{BootConfig, SchemaChange};
use model::{Type, Uuid};
use runtime::time::Instant;
use testkit::config::{change, keyspace, node_config, table};

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
    let storage = storage::Config::new(directory, Uuid::nil());
    let start = Instant::now();
    cluster::boot(BootConfig { node: node_config(1), storage }).await.expect("a start");
    println!("start: {:?}", start.elapsed());
    change(|schema| match schema.keyspace("ks") {
        Some(_) => Vec::new(),
        None => vec![SchemaChange::CreateKeyspace(keyspace("ks", 1, None))],
    })
    .await;
    let mut spans = Vec::new();
    for _ in 0..rounds {
        let table = table("ks", "t", Type::Text);
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
