//! Nodes that found each other, with the placement, the liveness and the schema of a real cluster.

use super::world::SECOND;
use cluster::membership::{self, Phase};
use cluster::{BootConfig, Cluster, NodeConfig, SchemaChange};
use messaging::Plain;
use model::{Token, Type};
use mutation::page::Partitions;
use replication::{Config, Consistency, Coordinator, ReadError, ReadOptions, WriteError};
use replication::{WriteKind, WriteOptions};
use runtime::sim::{NodeId, Options, World};
use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use storage::SyncMode;
use testkit::config::{boot_config, entry, keyspace, node_config, table};
use testkit::rows;

const PORT: u16 = 7000;
const QUORUM: Consistency = Consistency::Quorum;

async fn live(ip: IpAddr, seed: SocketAddr) {
    let config = boot_config("/node", SyncMode::Batch);
    let node =
        NodeConfig { listen_address: ip, broadcast_address: ip, rpc_address: ip, ..node_config(4) };
    let segment_bytes = config.storage.segment_bytes;
    cluster::boot(BootConfig { node, ..config }).await.expect("a start");
    Coordinator::start(Config::new(Duration::ZERO)).await.expect("a start");
    let config = membership::Config {
        replaces: String::new(),
        ignores: Vec::new(),
        seeds: vec![seed],
        listen: SocketAddr::new(ip, PORT),
        ping_timeout: Duration::from_millis(600),
        down_after: 2 * SECOND,
        command_time: 20 * SECOND,
        segment_bytes,
        policy: Arc::new(|| Rc::new(Plain)),
        verbs: Arc::new(replication::serve),
    };
    membership::start(config).await.expect("it is let in");
    replication::moves::start();
    replication::moves::joined().await.expect("it joins");
    membership::enter(Phase::Serving).await;
}

pub(super) struct Joined {
    pub(super) world: World,
    pub(super) nodes: Vec<NodeId>,
}

impl Joined {
    pub(super) fn new(seed: u64, shards: &[u16]) -> Joined {
        let mut world = World::new(Options::new(seed));
        let nodes = shards.iter().map(|shards| world.add_node(*shards)).collect();
        let mut joined = Joined { world, nodes };
        (0..shards.len()).for_each(|node| joined.start(node));
        joined.settle(shards.len());
        joined
    }

    pub(super) fn start(&mut self, node: usize) {
        let seed = SocketAddr::new(self.world.ip(self.nodes[0]), PORT);
        let (ip, done) = (self.world.ip(self.nodes[node]), Rc::new(Cell::new(false)));
        let told = done.clone();
        self.world.start(self.nodes[node], move |shard| {
            let told = told.clone();
            async move {
                if shard == 0 {
                    live(ip, seed).await;
                    told.set(true);
                }
                std::future::pending::<()>().await;
            }
        });
        assert!(self.world.run_until(|| done.get(), 60 * SECOND), "node {node} does not start");
    }

    pub(super) fn run<F: Future + 'static>(&mut self, node: usize, body: F) -> F::Output
    where
        F::Output: 'static,
    {
        self.world.block_on(self.nodes[node], 0, body)
    }

    /// Waits until all that run think so many alive.
    pub(super) fn settle(&mut self, count: usize) {
        for _ in 0..60 {
            self.world.run_for(SECOND / 2);
            let running =
                (0..self.nodes.len()).filter(|node| self.world.is_running(self.nodes[*node]));
            let running: Vec<usize> = running.collect();
            let alive = |node: &usize| {
                self.run(*node, async {
                    let cluster = runtime::local::get::<Cluster>();
                    cluster.lives().values().filter(|life| life.is_alive).count() + 1
                })
            };
            let alive: Vec<usize> = running.iter().map(alive).collect();
            if running.len() == count && alive.iter().all(|alive| *alive == count) {
                return;
            }
        }
        panic!("nodes do not see {count} of them");
    }
}

pub(super) async fn write(
    name: &str,
    pk: i32,
    value: i32,
    level: Consistency,
) -> Result<(), WriteError> {
    let table = entry("ks", name);
    let mutation = rows::put(&table, pk, value, value.into());
    let kind = WriteKind::Simple;
    let options = WriteOptions { consistency: level, timeout: 2 * SECOND, kind, limit: None };
    let coordinator = runtime::local::get::<Coordinator>();
    coordinator.write(&table, rows::token(pk), mutation, &options).await
}

pub(super) async fn read(
    name: &str,
    pk: i32,
    level: Consistency,
) -> Result<Option<i32>, ReadError> {
    let table = entry("ks", name);
    let command = rows::read_of(&table, Partitions::Key(rows::key(pk).to_vec()), 10);
    let options = ReadOptions::new(level, 2 * SECOND);
    let coordinator = runtime::local::get::<Coordinator>();
    let page = coordinator.read(&table, rows::token(pk), &command, &options).await?;
    let found = rows::pairs(&command, &page).pop();
    Ok(found.map(|(_, value)| i32::from_be_bytes(value[..].try_into().expect("an int"))))
}

async fn scan(name: &str, limit: u64) -> Vec<i32> {
    let table = entry("ks", name);
    let mut command = rows::read_of(&table, rows::whole_ring(), limit);
    let options = ReadOptions::new(QUORUM, 5 * SECOND);
    let mut found = Vec::new();
    loop {
        let coordinator = runtime::local::get::<Coordinator>();
        let page = coordinator.read(&table, Token::MIN, &command, &options).await.expect("rows");
        found.extend(rows::pairs(&command, &page).into_iter().map(|(pk, _)| pk));
        match page.resume {
            Some(resume) => command.resume = Some(resume),
            None => return found,
        }
    }
}

/// A keyspace of so many copies, with tables `t` and `u`.
pub(super) async fn make_tables(copies: u32, tablets: Option<u32>) {
    let made = [table("ks", "t", Type::Int), table("ks", "u", Type::Int)];
    let decide = move |_: &cluster::Schema| {
        let mut changes = vec![SchemaChange::CreateKeyspace(keyspace("ks", copies, tablets))];
        changes.extend(made.iter().cloned().map(SchemaChange::CreateTable));
        Ok::<_, ()>(changes)
    };
    let changed = runtime::local::get::<Cluster>().change_schema(decide).await;
    changed.expect("a keyspace");
}

#[test]
fn a_cluster_keeps_copies_with_tablets_and_without() {
    for (seed, tablets) in [(1, None), (2, Some(8))] {
        let mut nodes = Joined::new(seed, &[1, 2, 3]);
        nodes.run(1, make_tables(3, tablets));
        nodes.world.run_for(SECOND);
        nodes.run(0, async {
            for pk in 0..40 {
                write("t", pk, 1, QUORUM).await.expect("a write");
            }
        });
        let mut expected: Vec<i32> = (0..40).collect();
        expected.sort_by_key(|pk| rows::token(*pk));
        for node in 0..3 {
            let found = nodes.run(node, async {
                for pk in 0..40 {
                    assert_eq!(read("t", pk, Consistency::All).await, Ok(Some(1)));
                }
                (scan("t", 1000).await, scan("t", 7).await)
            });
            assert_eq!(found, (expected.clone(), expected.clone()), "node {node}");
        }
        // One is away, and comes back.
        let away = nodes.nodes[2];
        nodes.world.crash(away);
        nodes.settle(2);
        nodes.run(0, async {
            for pk in 0..40 {
                write("t", pk, 2, QUORUM).await.expect("a write");
            }
            let all = write("t", 1, 3, Consistency::All).await;
            assert!(matches!(all, Err(WriteError::Unavailable { required: 3, alive: 2, .. })));
        });
        nodes.start(2);
        nodes.settle(3);
        let found = nodes.run(2, async {
            for pk in 0..40 {
                assert_eq!(read("t", pk, QUORUM).await, Ok(Some(2)));
            }
            scan("t", 9).await
        });
        assert_eq!(found, expected);
    }
}
