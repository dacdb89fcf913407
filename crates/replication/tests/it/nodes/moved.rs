//! Nodes that join where there are data: what goes to them as files, and what does not.

use super::joined::{Joined, make_tables, read, write};
use super::world::SECOND;
use cluster::placement::Replicas;
use cluster::{Cluster, SchemaChange, TabletOrder, TopologyChange};
use model::{TableId, Token, Uuid};
use mutation::page::Partitions;
use replication::Consistency;
use replication::moves::{self, Totals};
use runtime::local;
use stdx::Prng;
use storage::Storage;
use testkit::config::{entry, keyspace};
use testkit::rows;

const PARTITIONS: i32 = 60;

/// One node with rows of tables `t` and `u`, half of them flushed.
fn one_with_rows(seed: u64, tablets: Option<u32>) -> Joined {
    let mut nodes = Joined::new(seed, &[2]);
    nodes.run(0, make_tables(1, tablets));
    for name in ["t", "u"] {
        nodes.run(0, async move {
            for pk in 0..PARTITIONS {
                write(name, pk, pk, Consistency::One).await.expect("a write");
                if pk == PARTITIONS / 2 {
                    flush(name).await;
                }
            }
        });
    }
    nodes
}

async fn flush(name: &'static str) {
    let flush = move || async move {
        local::get::<Storage>().flush(entry("ks", name).schema.id).await.expect("a flush");
    };
    drop(runtime::on_all_shards(flush).await);
}

/// Adds a node of so many shards, and waits until it has what it is to have.
fn add(nodes: &mut Joined, shards: u16) {
    let new = nodes.world.add_node(shards);
    nodes.nodes.push(new);
    nodes.start(1);
    nodes.settle(2);
    settle(nodes, 2);
}

/// Waits until nothing moves.
fn settle(nodes: &mut Joined, count: usize) {
    for _ in 0..200 {
        nodes.world.run_for(SECOND / 2);
        if (0..count).all(|node| nodes.run(node, moves::is_still())) {
            return;
        }
    }
    panic!("data are on the move for ever");
}

fn check(nodes: &mut Joined) {
    for node in 0..2 {
        nodes.run(node, async {
            for pk in 0..PARTITIONS {
                for name in ["t", "u"] {
                    assert_eq!(read(name, pk, Consistency::One).await, Ok(Some(pk)), "{name} {pk}");
                }
            }
        });
    }
}

fn totals(nodes: &mut Joined) -> Totals {
    nodes.run(1, async { moves::totals() })
}

#[test]
fn tablets_are_copied_as_files_whatever_the_shards() {
    for (seed, shards) in [(1, 1), (2, 2), (3, 3)] {
        let mut nodes = one_with_rows(seed, Some(8));
        add(&mut nodes, shards);
        let Totals { sstables_taken, mutations_taken, bytes_taken, .. } = totals(&mut nodes);
        assert!(8 <= sstables_taken, "{sstables_taken} SSTables");
        assert!(mutations_taken < PARTITIONS as u64 / 2, "{mutations_taken} mutations");
        assert!(10_000 < bytes_taken, "{bytes_taken} bytes");
        check(&mut nodes);
        // The giver has let go of what it linked, once it has heard that, and what came is there.
        nodes.world.run_for(5 * SECOND);
        let given = nodes.world.disk(nodes.nodes[0]).files();
        assert!(!given.iter().any(|path| path.contains("/given/")), "{given:?}");
        let new = nodes.nodes[1];
        nodes.world.crash(new);
        nodes.start(1);
        nodes.settle(2);
        check(&mut nodes);
    }
}

/// Reads of this node that found less than all in its cache.
async fn reads_with_misses() -> u64 {
    let count = || async { local::get::<Storage>().row_cache_stats().reads_with_misses };
    runtime::on_all_shards(count).await.into_iter().sum()
}

#[test]
fn what_clients_asked_for_is_in_the_cache_of_who_gets_it() {
    for (seed, shards) in [(6, 1), (7, 3)] {
        let mut nodes = one_with_rows(seed, Some(8));
        let hot = |pk: &i32| pk % 3 == 0;
        nodes.run(0, async move {
            flush("t").await;
            for _ in 0..2 {
                for pk in (0..PARTITIONS).filter(hot) {
                    assert_eq!(read("t", pk, Consistency::One).await, Ok(Some(pk)));
                }
            }
        });
        add(&mut nodes, shards);
        let moved =
            nodes.run(0, async { (0..PARTITIONS).filter(|pk| is_elsewhere(*pk)).collect() });
        let (warm, cold): (Vec<i32>, Vec<i32>) = Vec::into_iter(moved).partition(hot);
        assert!(4 <= warm.len() && 8 <= cold.len(), "{warm:?} {cold:?}");
        assert_eq!(totals(&mut nodes).partitions_warmed, warm.len() as u64);
        let misses = |which: Vec<i32>| async move {
            let before = reads_with_misses().await;
            for pk in which {
                assert_eq!(read("t", pk, Consistency::One).await, Ok(Some(pk)));
            }
            reads_with_misses().await - before
        };
        assert_eq!(nodes.run(1, misses(warm)), 0, "they are in memory");
        let all = cold.len() as u64;
        assert_eq!(nodes.run(1, misses(cold)), all, "nobody asked for them");
    }
}

#[test]
fn what_has_tokens_of_others_is_copied_as_rows() {
    let mut nodes = one_with_rows(4, None);
    add(&mut nodes, 2);
    let Totals { sstables_taken, mutations_taken, .. } = totals(&mut nodes);
    assert_eq!(sstables_taken, 0);
    // All that is the new node's now, of both tables.
    let owned = nodes.run(0, async { 2 * (0..PARTITIONS).filter(|pk| is_elsewhere(*pk)).count() });
    assert!(0 < owned && owned < 2 * PARTITIONS as usize, "{owned} rows");
    assert_eq!(mutations_taken, owned as u64);
    check(&mut nodes);
}

/// Whether a partition belongs to another node than this one.
fn is_elsewhere(pk: i32) -> bool {
    let cluster = local::get::<Cluster>();
    match cluster.replicas(&entry("ks", "t"), rows::token(pk)) {
        Replicas::Here => false,
        Replicas::Nodes(all) => all.iter().all(|it| it.host_id != cluster.node().host_id),
    }
}

/// Has a replica of the first tablet of `t` go from where it is to the other node.
async fn move_first(force: bool) -> Result<TabletOrder, String> {
    let table = entry("ks", "t");
    let from = table.replicas.of(0)[0];
    let topology = local::get::<Cluster>().topology();
    let other = topology.present().find(|member| member.host_id != from.0).expect("another node");
    let (table, to) = (table.schema.id, (other.host_id, other.shards - 1));
    let order = TabletOrder { table, token: Token(i64::MIN + 1), from, to, force };
    moves::move_tablet(order).await.map(|()| order)
}

#[test]
fn a_tablet_is_moved_by_hand_from_any_node() {
    let mut nodes = one_with_rows(8, Some(8));
    add(&mut nodes, 2);
    nodes.run(0, async {
        let stop = |_: &_| Ok(vec![TopologyChange::Balance(false)]);
        local::get::<Cluster>().change_topology(stop).await.expect("a change");
    });
    for by in [1, 0, 1] {
        let order = nodes.run(by, move_first(by == 0)).expect("a move");
        for node in 0..2 {
            let again = nodes.run(node, async move {
                assert_eq!(&entry("ks", "t").replicas.of(0), &[order.to]);
                moves::move_tablet(order).await
            });
            assert_eq!(again, Ok(()), "it is there");
        }
        let wrong = TabletOrder { from: (order.from.0, 7), to: order.from, ..order };
        let why = nodes.run(by, moves::move_tablet(wrong)).expect_err("it is not there");
        assert!(why.contains("tablet 0 is not on"), "{why}");
        check(&mut nodes);
    }
    let unknown = TabletOrder {
        table: TableId::from_u128(7),
        token: Token(0),
        from: (Uuid::from_u128(1), 0),
        to: (Uuid::from_u128(2), 0),
        force: false,
    };
    let why = nodes.run(0, moves::move_tablet(unknown)).expect_err("no such table");
    assert!(why.contains("was dropped"), "{why}");
}

/// A component that reads do without is damaged on the disk of the giver.
#[test]
fn a_damaged_file_is_refused_and_its_tablet_is_copied_as_rows() {
    let mut nodes = one_with_rows(5, Some(8));
    nodes.run(0, flush("t"));
    nodes.run(0, flush("u"));
    let giver = nodes.nodes[0];
    let files = nodes.world.disk(giver).files();
    let of_table = |path: &&String| path.contains("/ks/t-") && path.ends_with("-Filter.db");
    let filters: Vec<&String> = files.iter().filter(of_table).collect();
    assert!(8 <= filters.len(), "{filters:?}");
    for path in filters {
        nodes.world.disk(giver).corrupt(path, 9, 0x10);
    }
    add(&mut nodes, 2);
    let Totals { sstables_taken, mutations_taken, .. } = totals(&mut nodes);
    // Those of the other table.
    assert!(4 <= sstables_taken && 10 <= mutations_taken, "{sstables_taken} {mutations_taken}");
    check(&mut nodes);
    let new = nodes.nodes[1];
    let files = nodes.world.disk(new).files();
    assert!(!files.iter().any(|path| path.ends_with("-TOC.txt.tmp")), "{files:?}");
}

/// Of each row two of three nodes know, as of a write at QUORUM: those that stay when the keyspace
/// wants fewer copies have all of them.
#[test]
fn replicas_that_stay_have_what_others_had() {
    for (seed, copies) in [(9, 2), (10, 1), (11, 2), (12, 1)] {
        let mut nodes = Joined::new(seed, &[1, 2, 1]);
        nodes.run(0, make_tables(3, Some(4)));
        nodes.world.run_for(SECOND);
        let mut prng = Prng::from_seed(seed);
        let away: Vec<usize> = (0..PARTITIONS).map(|_| prng.below(3) as usize).collect();
        for node in 0..3 {
            let known: Vec<i32> = (0..PARTITIONS).filter(|pk| away[*pk as usize] != node).collect();
            nodes.run(node, async move {
                for pk in known {
                    apply_here(pk).await;
                }
            });
        }
        nodes.run(1, async move {
            let alter = move |_: &cluster::Schema| {
                let altered = keyspace("ks", copies, Some(4));
                Ok::<_, ()>(vec![SchemaChange::AlterKeyspace(altered)])
            };
            local::get::<Cluster>().change_schema(alter).await.expect("a change");
        });
        settle(&mut nodes, 3);
        let mut found = Vec::new();
        for node in 0..3 {
            found.extend(nodes.run(node, async { held_here().await }));
        }
        found.sort_unstable();
        let expected: Vec<i32> = (0..PARTITIONS).flat_map(|pk| vec![pk; copies as usize]).collect();
        assert_eq!(found, expected, "seed {seed}, {copies} copies");
    }
}

/// Writes a row of `t` on this node alone.
async fn apply_here(pk: i32) {
    let table = entry("ks", "t");
    let (shard, mutation) = (table.tablets.shard_of(rows::token(pk)), rows::put(&table, pk, pk, 1));
    let apply = move || async move { local::get::<Storage>().apply(mutation).await };
    runtime::on_shard(shard, apply).await.expect("a write");
}

/// The rows of `t` that this node has in tablets that are its own.
async fn held_here() -> Vec<i32> {
    let table = entry("ks", "t");
    let me = local::get::<Cluster>().node().host_id;
    let mut out = Vec::new();
    for pk in 0..PARTITIONS {
        let token = rows::token(pk);
        let of = table.replicas.of(table.replicas.tablet_of(token));
        if !of.iter().any(|(host, _)| *host == me) {
            continue;
        }
        let command = rows::read_of(&table, Partitions::Key(rows::key(pk).to_vec()), 10);
        let read = move || async move { local::get::<Storage>().read(&command).await };
        let page = runtime::on_shard(table.tablets.shard_of(token), read).await.expect("a read");
        out.extend((0..page.row_count).map(|_| pk));
    }
    out
}
