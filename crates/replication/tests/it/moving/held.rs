//! What is in the storage of each node, when all is quiet.
//!
//! Invariants
//!  - *nothing-left*: a node holds no partition of a table that it has no part of.
//!  - *all-replicas*: each range is of as many nodes as its keyspace wants, or of all there are,
//!    and of none that has left.
//!  - *equal*: after a repair all nodes that have a range have the same in it.
//!  - *shown*: who has repaired tablets sees that they were repaired then.

use super::registers::{KEYS, TABLES};
use super::world::{Nodes, SECOND};
use cluster::placement::Replicas;
use cluster::{Cluster, TableEntry, TabletOrder};
use model::{Token, Uuid};
use mutation::compact::{CompactionFilter, Outside};
use mutation::{Fragment, RingBound};
use reader::multishard::MultishardOptions;
use reader::{Budget, Slice, Source};
use replication::repair::{Wanted, Watch};
use replication::{Coordinator, moves};
use runtime::time::timeout;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use stdx::Prng;
use storage::{SourceOptions, Storage};
use testkit::config::entry;
use testkit::rows;

/// Each partition that a node holds of a table: the fragments that are not forgotten yet, as text.
type Held = BTreeMap<i32, Vec<String>>;

/// All that is in the storage of this node, whoever it is of.
async fn held(table: &'static str) -> Held {
    let bound = |token, after| RingBound { token, key: None, after };
    let bounds = (bound(Token::MIN, false), bound(Token::MAX, true));
    let storage = runtime::local::get::<Storage>();
    let (id, how) = (entry(table, table).schema.id, MultishardOptions::EXACT);
    let source = storage.open_multishard(id, bounds, Slice::full(), SourceOptions::QUERY, how);
    let (mut source, mut all) = (source.expect("a source"), Vec::new());
    loop {
        let before = all.len();
        source.fill(Budget::BATCH, &mut all).await.expect("a fill");
        if all.len() == before {
            break;
        }
    }
    let mut out = Held::new();
    let key = |fragment: &Fragment| match fragment {
        Fragment::PartitionStart { key, .. } => {
            Some(i32::from_be_bytes(key.key[..].try_into().expect("an int")))
        }
        _ => None,
    };
    for key in all.iter().filter_map(key) {
        out.entry(key).or_default();
    }
    let now = runtime::time::wall_micros() / 1_000_000;
    let mut filter = CompactionFilter::new(now, Box::new(|_| Outside::UNKNOWN));
    let (mut kept, mut at) = (Vec::new(), 0);
    all.into_iter().for_each(|fragment| filter.push(fragment, &mut kept));
    for fragment in kept {
        at = key(&fragment).unwrap_or(at);
        out.entry(at).or_default().push(format!("{fragment:?}"));
    }
    out
}

/// Has some tablet go to another shard of one of its nodes. Where that is this one, and it is there
/// still, this one has it on the shard that was named.
pub(super) async fn shift(prng: &mut Prng) -> Option<String> {
    let (cluster, name) = (runtime::local::get::<Cluster>(), TABLES[1]);
    let (table, topology) = (entry(name, name), cluster.topology());
    let tablet = prng.below(table.replicas.count() as u64) as usize;
    let from = *prng.pick(table.replicas.of(tablet))?;
    let shards = topology.member(from.0).filter(|it| 1 < it.shards)?.shards;
    let other = (from.1 + prng.between(1, u64::from(shards) - 1) as u16) % shards;
    let (to, last) = ((from.0, other), table.replicas.range(tablet).1);
    let order = TabletOrder { table: table.schema.id, token: last, from, to, force: false };
    let moved = timeout(20 * SECOND, moves::move_tablet(order)).await;
    stdx::trace!("tablet {tablet} from {from:?} to shard {other}: {moved:?}");
    let now = entry(name, name);
    let is_there = now.replicas.of(now.replicas.tablet_of(last)).contains(&to);
    let is_still = now.replicas.moves().is_empty() && to.0 == cluster.node().host_id;
    let storage = runtime::local::get::<Storage>();
    let lies = storage.tablet_map(now.schema.id).map(|map| map.shard_of(last));
    let shown = now.tablets.shard_of(last);
    let is_wrong = is_there && is_still && moved == Ok(Ok(())) && lies != Some(to.1);
    is_wrong.then(|| format!("as-said: {to:?} has tablet {tablet} on {lies:?}, shows {shown}"))
}

/// Who has a key, as this node sees it.
fn owners(table: &TableEntry, key: i32) -> BTreeSet<Uuid> {
    let cluster = runtime::local::get::<Cluster>();
    match cluster.replicas(table, rows::token(key)) {
        Replicas::Here => BTreeSet::from([cluster.node().host_id]),
        Replicas::Nodes(all) => all.iter().map(|replica| replica.host_id).collect(),
    }
}

/// *nothing-left*: what these nodes hold and have no part of.
pub(super) fn left_behind(nodes: &mut Nodes, members: &[usize]) -> Vec<String> {
    let mut wrong = Vec::new();
    for node in members.iter().copied() {
        let foreign = nodes.run(node, async {
            let me = runtime::local::get::<Cluster>().node().host_id;
            let mut foreign = Vec::new();
            for name in TABLES {
                let (table, all) = (entry(name, name), held(name).await);
                let keys = all.into_keys().filter(|key| !owners(&table, *key).contains(&me));
                foreign.extend(keys.map(|key| (name, key)));
            }
            foreign
        });
        if !foreign.is_empty() {
            wrong.push(format!("nothing-left: node {node} holds {foreign:?}"));
        }
    }
    wrong
}

/// *all-replicas*, as one of the members sees it.
pub(super) fn badly_placed(
    nodes: &mut Nodes,
    members: &[usize],
    copies: [usize; 2],
) -> Vec<String> {
    let hosts: BTreeSet<Uuid> = members.iter().map(|node| nodes.host(*node)).collect();
    let mut wrong = Vec::new();
    for node in members.iter().copied() {
        let of_keys = nodes.run(node, async {
            let all = TABLES.iter().flat_map(|name| (0..KEYS).map(move |key| (*name, key)));
            all.map(|(name, key)| (name, key, owners(&entry(name, name), key))).collect::<Vec<_>>()
        });
        for (name, key, owners) in of_keys {
            let of_table = TABLES.iter().position(|table| *table == name).expect("a table");
            let wanted = copies[of_table].min(hosts.len());
            if owners.len() != wanted || !owners.is_subset(&hosts) {
                wrong.push(format!("all-replicas: {key} of {name} is of {owners:?} at {node}"));
            }
        }
    }
    wrong
}

/// Each node removes what it has no part of, as `nodetool cleanup` has it.
pub(super) fn clean(nodes: &mut Nodes, members: &[usize]) -> Vec<String> {
    let mut wrong = Vec::new();
    for node in members.iter().copied() {
        let cleaned = nodes.run(node, async {
            let tables = TABLES.map(|name| entry(name, name).schema.id);
            moves::cleanup(tables.to_vec()).await
        });
        wrong.extend(cleaned.err().map(|why| format!("heals: cleanup of node {node}: {why}")));
    }
    wrong
}

/// Repairs all that this node has; the millisecond before which nothing was kept for a replica.
pub(super) async fn repair_here() -> Result<Option<i64>, String> {
    let tables = TABLES.map(|name| entry(name, name).schema.id).to_vec();
    let wanted = Wanted { tables, ..Wanted::default() };
    let coordinator = runtime::local::get::<Coordinator>();
    let watch = Rc::new(Watch::default());
    coordinator.repair(wanted, watch.clone()).await?;
    Ok(watch.moment.get().map(|micros| micros.div_euclid(1000)))
}

/// Repairs all that a node has, of so many copies of each tablet: *shown*.
pub(super) fn repair(nodes: &mut Nodes, node: usize, copies: usize) -> Option<String> {
    let moment = match nodes.run(node, repair_here()) {
        Err(why) => return Some(format!("heals: {why}")),
        Ok(None) => return None,
        Ok(Some(moment)) => moment,
    };
    let host = nodes.host(node);
    let late = nodes.run(node, async move {
        let replicas = entry(TABLES[1], TABLES[1]).replicas.clone();
        let own = |tablet: &usize| replicas.of(*tablet).iter().any(|(of, _)| *of == host);
        let is_late = |tablet: &usize| replicas.repaired().get(tablet) < Some(&moment);
        (0..replicas.count()).filter(own).filter(is_late).count()
    });
    (1 < copies && 0 < late).then(|| format!("shown: {late} tablets at {node} before {moment}"))
}

/// When each tablet was repaired, as a node knows.
pub(super) fn repair_times(nodes: &mut Nodes, node: usize) -> BTreeMap<usize, i64> {
    nodes.run(node, async { entry(TABLES[1], TABLES[1]).replicas.repaired().clone() })
}

/// *equal*: what differs among those that have a range.
pub(super) fn differing(nodes: &mut Nodes, members: &[usize]) -> Vec<String> {
    // Who holds what of each.
    type Kinds = BTreeMap<Vec<String>, Vec<usize>>;
    let mut of_all: BTreeMap<(&str, i32), Kinds> = BTreeMap::new();
    for node in members.iter().copied() {
        let own = nodes.run(node, async {
            let me = runtime::local::get::<Cluster>().node().host_id;
            let mut own = Vec::new();
            for name in TABLES {
                let (table, mut all) = (entry(name, name), held(name).await);
                let keys = (0..KEYS).filter(|key| owners(&table, *key).contains(&me));
                own.extend(keys.map(|key| ((name, key), all.remove(&key).unwrap_or_default())));
            }
            own
        });
        for (at, what) in own {
            of_all.entry(at).or_default().entry(what).or_default().push(node);
        }
    }
    let several = of_all.into_iter().filter(|(_, kinds)| 1 < kinds.len());
    several.map(|(at, kinds)| format!("equal: {at:?} is {kinds:#?}")).collect()
}
