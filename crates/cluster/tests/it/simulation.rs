//! A simulated node whose schema changes while it crashes: what was acknowledged is there, what
//! was not is there as a whole or not at all, and all shards say the same.

use cluster::{BootConfig, ChangeError, Cluster, CompactionRecord, Event, SchemaChange};
use model::{Token, Type, UserType, Uuid};
use mutation::PurgeCounts;
use storage::{CompactedSstable, FinishedCompaction, Generation, RunningCompaction, SyncMode};
use testkit::SimNode;
use testkit::config::{boot_config, keyspace, node_config, table};
use testkit::rounds::Rounds;
use testkit::schema::{SchemaChanges, of_all_shards};

/// The node of these tests, which owns four tokens.
fn config() -> BootConfig {
    BootConfig { node: node_config(4), ..boot_config("/node", SyncMode::Batch) }
}

#[test]
fn schema_changes_survive_crashes_as_a_whole() {
    for seed in 0..20 {
        let rounds = Rounds::new(seed, 1 + (seed % 3) as u16);
        let done =
            rounds.run(SchemaChanges::default()).unwrap_or_else(|violation| panic!("{violation}"));
        assert!(0 < done.changes(), "seed {seed}: nothing was changed");
    }
}

#[test]
fn shards_agree_and_subscribers_are_told() {
    let mut node = SimNode::new(7, 3);
    node.run(async {
        cluster::boot(config()).await.expect("a start");
        let cluster = runtime::local::get::<Cluster>();
        let mut events = cluster.subscribe();
        let user = UserType {
            keyspace: "ks".into(),
            name: "u".into(),
            fields: vec![("f".into(), Type::Int)],
        };
        let made = table("ks", "t", Type::Text);
        let changes = vec![
            SchemaChange::CreateKeyspace(keyspace("ks", 1, Some(2))),
            SchemaChange::CreateType(user),
            SchemaChange::CreateTable(made),
        ];
        // Asked of another shard, decided on the first.
        let ask = move || async move {
            let cluster = runtime::local::get::<Cluster>();
            let version = cluster.schema().version;
            let told = cluster.change_schema(move |_| Ok::<_, ()>(changes.clone())).await;
            assert_ne!(cluster.schema().version, version);
            told
        };
        let told = runtime::on_shard(2, ask).await.expect("a change");
        for expected in told {
            assert_eq!(events.next().await, Some(Event::Schema(expected)));
        }
        let schemas = of_all_shards().await;
        assert!(schemas.iter().all(|schema| *schema == schemas[0]));
        let again = SchemaChange::CreateKeyspace(keyspace("ks", 1, None));
        let refused = cluster.change_schema(|_| Err::<Vec<SchemaChange>, _>("no")).await;
        assert_eq!(refused, Err(ChangeError::Refused("no")));
        let failed = cluster.change_schema(move |_| Ok::<_, ()>(vec![again.clone()])).await;
        assert_eq!(failed, Err(ChangeError::Failed("keyspace ks already exists".into())));
        assert_eq!(of_all_shards().await, schemas);
    });
}

#[test]
fn a_node_stops_and_starts_as_the_same_node() {
    let mut node = SimNode::new(11, 2);
    let mut seen: Vec<(Uuid, Vec<Token>, i32)> = Vec::new();
    for _ in 0..3 {
        let identity = node.run(async {
            cluster::boot(config()).await.expect("a start");
            let node = runtime::local::get::<Cluster>().node().clone();
            cluster::stop().await.expect("a stop");
            (node.host_id, node.tokens, node.generation)
        });
        node.crash();
        seen.push(identity);
    }
    assert!(seen.windows(2).all(|pair| pair[0].0 == pair[1].0 && pair[0].1 == pair[1].1));
    assert!(seen.windows(2).all(|pair| pair[0].2 < pair[1].2));
    assert_eq!(seen[0].1.len(), 4);
}

#[test]
fn merges_that_have_ended_are_told_for_a_week() {
    let mut node = SimNode::new(12, 2);
    node.run(async {
        cluster::boot(config()).await.expect("a start");
        let cluster = runtime::local::get::<Cluster>();
        let now = runtime::time::wall_micros();
        let named = Generation::new(now, 9);
        let sstable = |generation, disk_bytes| CompactedSstable {
            generation,
            origin: "memtable".to_owned(),
            disk_bytes,
        };
        let ended = |number: u128, name: &str, ended_micros| FinishedCompaction {
            job: RunningCompaction {
                id: Uuid::from_u128(number),
                table: Uuid::from_u128(7),
                keyspace: "system".to_owned(),
                name: name.to_owned(),
                kind: "Compaction",
                started_micros: ended_micros - 5000,
                bytes_in: 100,
                partitions: 3,
                partitions_done: 3,
                rows_done: 4,
                bytes_written: 70,
                done_millionths: 1_000_000,
            },
            ended_micros,
            bytes_out: 60,
            merged: vec![(1, 5), (2, 7)],
            purges: PurgeCounts { tried: 4, kept_for_memtables: 2, kept_for_sstables: 1 },
            inputs: vec![sstable(Generation::Number(7), 60), sstable(named, 40)],
            outputs: (0..200).map(|size| sstable(named, size)).collect(),
        };
        let week = 7 * 86_400_000_000;
        let merges = [
            ended(1, "peers", now - 2_000_000),
            ended(2, "local", now),
            ended(3, "gone", now - week - 1_000_000),
            ended(4, "compaction_history", now),
        ];
        for merge in &merges {
            cluster.note_compaction(1, merge).await.expect("a written row");
        }
        let told = cluster.compaction_history().await.expect("the history");
        let names: Vec<_> = told.iter().map(|record| record.table.as_str()).collect();
        assert_eq!(names, ["local", "peers"]);
        let expected = CompactionRecord {
            id: Uuid::from_u128(2),
            keyspace: "system".to_owned(),
            table: "local".to_owned(),
            kind: "Compaction".to_owned(),
            shard: 1,
            started_at: (now - 5000).div_euclid(1000),
            ended_at: now.div_euclid(1000),
            bytes_in: 100,
            bytes_out: 60,
            merged: merges[1].merged.clone(),
            purges: merges[1].purges,
            inputs: merges[1].inputs.clone(),
            outputs: merges[1].outputs.clone(),
        };
        assert_eq!(told[0], expected);
        cluster::stop().await.expect("a stop");
    });
}
