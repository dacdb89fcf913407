//! The computed tables of which this crate knows the rows: of the node, its tokens, its storage,
//! its options. One of them, `system.config`, is written too.

use crate::membership;
use crate::nodes::{Node, Nodes, Range};
use crate::registry::Cluster;
use crate::schema::Schema;
use crate::settings::{By, Refused, Settings};
use crate::table_stats::{all_stats, totals};
use crate::virtual_tables::{VirtualRow, row};
use catalog::rows::Row;
use catalog::rows::partition::{self, Value};
use catalog::{Member, MemberState, Replication};
use model::{TableSchema, Token};
use std::rc::Rc;
use storage::Storage;

/// Provides the tables that this crate knows the rows of.
pub(crate) fn provide_own(cluster: &Cluster) {
    cluster.provide("peers", Rc::new(|| Box::pin(peers())));
    cluster.provide("peers_v2", Rc::new(|| Box::pin(peers_v2())));
    cluster.provide("cluster_status", Rc::new(|| Box::pin(cluster_status())));
    cluster.provide("token_ring", Rc::new(|| Box::pin(token_ring())));
    cluster.provide("raft_state", Rc::new(|| Box::pin(raft_state())));
    cluster.provide("size_estimates", Rc::new(|| Box::pin(size_estimates())));
    cluster.provide("snapshots", Rc::new(|| Box::pin(snapshots())));
    cluster.provide("one_row", Rc::new(|| Box::pin(async { vec![vec![Some(Vec::new())]] })));
    cluster.provide("config", Rc::new(|| Box::pin(config())));
    cluster.provide_writer("config", Rc::new(|row| Box::pin(change_option(row))));
}

async fn config() -> Vec<VirtualRow> {
    let Some((_, schema)) = own("config") else { return Vec::new() };
    let rows = Settings::of_shard().shown().into_iter().map(|option| {
        let values = vec![
            ("name", option.name.into_bytes()),
            ("source", option.source.as_bytes().to_vec()),
            ("type", option.kind.as_bytes().to_vec()),
            ("value", option.value.into_bytes()),
        ];
        row(&schema, values)
    });
    rows.collect()
}

async fn change_option(mut row: Row) -> Result<(), String> {
    if row.contains_key("type") {
        return Err("option type is immutable".to_owned());
    }
    if row.contains_key("source") {
        return Err("option source is not updateable".to_owned());
    }
    let mut text = |name: &str| row.remove(name).and_then(|bytes| String::from_utf8(bytes).ok());
    let name = text("name").ok_or_else(|| "option name is required".to_owned())?;
    let value = text("value").ok_or_else(|| "option value is required".to_owned())?;
    let changed = Settings::change(name.clone(), value.clone(), By::Client).await;
    changed.map_err(|Refused(why)| why)?;
    if Settings::of_shard().is_obeyed(&name) {
        tracing::info!(target: "config", %name, %value, "option changed");
    } else {
        tracing::warn!(target: "config", %name, %value, "option changed, but it has no effect yet");
    }
    Ok(())
}

/// This shard's cluster and one of its virtual tables; `None` when the node has stopped.
fn own(name: &str) -> Option<(Rc<Cluster>, Rc<TableSchema>)> {
    let cluster = runtime::local::try_get::<Cluster>()?;
    let schema = cluster.schema().table("system", name)?.schema.clone();
    Some((cluster, schema))
}

fn bytes(value: Option<Value>) -> Vec<u8> {
    match value {
        Some(Value::Atomic(bytes)) => bytes,
        _ => Vec::new(),
    }
}

/// What drivers are told of another node, in both tables of peers. A driver takes nodes that show
/// one version for agreed; of whom none is known, it does not wait.
fn peer(node: &Node) -> Vec<(&'static str, Vec<u8>)> {
    let Member { address, data_center, host_id, rack, release_version, .. } = &*node.member;
    debug_assert!(!node.is_here, "one-here: {host_id} is a peer of itself");
    let mut tokens = node.tokens();
    tokens.sort_unstable();
    let mut values = vec![
        ("peer", bytes(partition::inet(address.ip()))),
        ("data_center", data_center.clone().into_bytes()),
        ("host_id", host_id.as_bytes().to_vec()),
        ("rack", rack.clone().into_bytes()),
        ("release_version", release_version.clone().into_bytes()),
    ];
    if let Some(version) = node.heard.schema {
        values.push(("schema_version", version.as_bytes().to_vec()));
    }
    if !tokens.is_empty() {
        values.push(("tokens", bytes(partition::texts(tokens.iter().map(String::as_str)))));
    }
    values
}

/// The members of the group of all nodes.
async fn raft_state() -> Vec<VirtualRow> {
    let Some(group) = membership::view().await else { return Vec::new() };
    let Some((_, schema)) = own("raft_state") else { return Vec::new() };
    let shown = |member: &membership::GroupMember| {
        let values = vec![
            ("group_id", group.id.as_bytes().to_vec()),
            ("disposition", b"CURRENT".to_vec()),
            ("server_id", member.host_id.as_bytes().to_vec()),
            ("can_vote", vec![u8::from(member.votes)]),
        ];
        row(&schema, values)
    };
    group.members.iter().map(shown).collect()
}

async fn peers() -> Vec<VirtualRow> {
    let Some((cluster, schema)) = own("peers") else { return Vec::new() };
    peer_rows(&schema, &Nodes::seen(&cluster))
}

fn peer_rows(schema: &TableSchema, nodes: &Nodes) -> Vec<VirtualRow> {
    let shown = |node: &Node| {
        let mut values = peer(node);
        let features: Vec<&str> = node.member.features.iter().map(String::as_str).collect();
        values.push(("rpc_address", bytes(partition::inet(node.member.client_address))));
        values.push(("supported_features", features.join(",").into_bytes()));
        row(schema, values)
    };
    let served = nodes.others().filter(|node| node.is_for_clients());
    let rows: Vec<VirtualRow> = served.map(shown).collect();
    debug_assert!(rows.len() < nodes.all().len(), "one-here: as many peers as nodes");
    rows
}

async fn peers_v2() -> Vec<VirtualRow> {
    let Some((cluster, schema)) = own("peers_v2") else { return Vec::new() };
    peer_v2_rows(&schema, &Nodes::seen(&cluster))
}

fn peer_v2_rows(schema: &TableSchema, nodes: &Nodes) -> Vec<VirtualRow> {
    let port = |port: u16| i32::from(port).to_be_bytes().to_vec();
    let shown = |node: &Node| {
        let mut values = peer(node);
        values.push(("peer_port", port(node.member.address.port())));
        values.push(("native_address", bytes(partition::inet(node.member.client_address))));
        values.extend(node.member.client_port.map(|it| ("native_port", port(it))));
        row(schema, values)
    };
    let served = nodes.others().filter(|node| node.is_for_clients());
    let rows: Vec<VirtualRow> = served.map(shown).collect();
    debug_assert!(rows.len() < nodes.all().len(), "one-here: as many peers as nodes");
    rows
}

async fn cluster_status() -> Vec<VirtualRow> {
    let Some((cluster, schema)) = own("cluster_status") else { return Vec::new() };
    let load = totals(&cluster).await.sstable_bytes;
    status_rows(&schema, &Nodes::seen(&cluster), load)
}

fn status_rows(schema: &TableSchema, nodes: &Nodes, own_load: u64) -> Vec<VirtualRow> {
    let shown = |(node, owns): (&Node, f64)| {
        let Member { address, data_center, host_id, rack, tokens, .. } = &*node.member;
        let load = if node.is_here { Some(own_load) } else { node.heard.load_bytes() };
        let mut values = vec![
            ("peer", bytes(partition::inet(address.ip()))),
            ("dc", data_center.clone().into_bytes()),
            ("draining", vec![u8::from(node.member.state == MemberState::Leaving)]),
            ("excluded", vec![node.is_lost.into()]),
            ("host_id", host_id.as_bytes().to_vec()),
            ("owns", (owns as f32).to_be_bytes().to_vec()),
            ("rack", rack.clone().into_bytes()),
            ("status", node.doing().to_ascii_uppercase().into_bytes()),
            ("tokens", (tokens.len() as i32).to_be_bytes().to_vec()),
            ("up", vec![node.heard.is_up.into()]),
        ];
        values.extend(load.map(|load| ("load", load.to_string().into_bytes())));
        row(schema, values)
    };
    let parts = nodes.own_parts();
    debug_assert!(parts.len() == nodes.all().len(), "whole: {} parts", parts.len());
    nodes.all().iter().zip(parts).map(shown).collect()
}

async fn token_ring() -> Vec<VirtualRow> {
    let Some((cluster, schema)) = own("token_ring") else { return Vec::new() };
    ring_rows(&schema, &Nodes::seen(&cluster), &cluster.schema())
}

/// A row per token range, node and keyspace; per table where tables have tablets.
fn ring_rows(schema: &TableSchema, nodes: &Nodes, all: &Schema) -> Vec<VirtualRow> {
    let mut rows = Vec::new();
    let mut push = |keyspace: &str, table: &str, range: Range| {
        for node in range.nodes.iter().map(|place| &nodes.all()[*place]) {
            let values = vec![
                ("keyspace_name", keyspace.as_bytes().to_vec()),
                ("table_name", table.as_bytes().to_vec()),
                ("start_token", range.after.0.to_string().into_bytes()),
                ("endpoint", bytes(partition::inet(node.member.address.ip()))),
                ("dc", node.member.data_center.clone().into_bytes()),
                ("end_token", range.last.0.to_string().into_bytes()),
                ("rack", node.member.rack.clone().into_bytes()),
            ];
            rows.push(row(schema, values));
        }
    };
    for (name, keyspace) in &all.keyspaces {
        if *keyspace.replication == Replication::Local {
            continue;
        }
        if keyspace.keyspace.initial_tablets.is_none() {
            let ranges = nodes.ring_ranges(&keyspace.replication);
            ranges.into_iter().for_each(|range| push(name, "<ALL>", range));
            continue;
        }
        for (table, entry) in keyspace.tables.iter().filter(|(_, it)| !it.replicas.is_empty()) {
            let ranges = nodes.tablet_ranges(entry);
            ranges.into_iter().for_each(|range| push(name, table, range));
        }
    }
    rows
}

/// The stretches of the ring that this node answers for, of each user table: those of which it is
/// the first replica, so that whoever asks all nodes counts each partition once.
async fn size_estimates() -> Vec<VirtualRow> {
    let Some((cluster, schema)) = own("size_estimates") else { return Vec::new() };
    let (present, nodes) = (cluster.schema(), Nodes::seen(&cluster));
    let mut rows = Vec::new();
    for (id, stats) in all_stats(&cluster).await {
        let Some(entry) = present.table_by_id(id) else { continue };
        if Schema::is_system(&entry.schema.keyspace) {
            continue;
        }
        let held = stats.sstable_bytes + stats.memtable_bytes;
        let mean = held.checked_div(stats.partitions).unwrap_or(0) as i64;
        let ranges = match entry.replicas.is_empty() {
            true => nodes.ring_ranges(&entry.replication),
            false => nodes.tablet_ranges(entry),
        };
        let (mut part_so_far, mut told) = (0.0, 0);
        for Estimate { after, last, part } in answered_for(&ranges, &nodes) {
            // Many stretches that have less than one partition each have some together.
            part_so_far += part;
            let so_far = (stats.partitions as f64 * part_so_far).round() as i64;
            let partitions = so_far - std::mem::replace(&mut told, so_far);
            let values = vec![
                ("keyspace_name", entry.schema.keyspace.clone().into_bytes()),
                ("table_name", entry.schema.name.clone().into_bytes()),
                ("range_start", after.0.to_string().into_bytes()),
                ("range_end", last.0.to_string().into_bytes()),
                ("mean_partition_size", mean.to_be_bytes().to_vec()),
                ("partitions_count", partitions.to_be_bytes().to_vec()),
            ];
            rows.push(row(&schema, values));
        }
    }
    rows
}

/// A stretch that this node answers for, and which part of what it holds lies there.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Estimate {
    after: Token,
    last: Token,
    part: f64,
}

/// Of the ranges of a table, in the order of the ring: neighbours are one, and none goes beyond the
/// end of the ring.
fn answered_for(ranges: &[Range], nodes: &Nodes) -> Vec<Estimate> {
    let is_here = |place: &usize| nodes.all()[*place].is_here;
    let mut held = 0.0;
    let mut found: Vec<(Token, Token, f64)> = Vec::new();
    for range in ranges {
        // Around its end, where the last token is not after the first.
        let wraps = range.last <= range.after;
        let parts = [(range.after, Token::MAX), (Token::MIN, range.last)];
        let parts = if wraps { &parts[..] } else { &[(range.after, range.last)] };
        for (after, last) in parts.iter().filter(|(after, last)| after < last) {
            let width = last.0.abs_diff(after.0) as f64;
            held += if range.nodes.iter().any(is_here) { width } else { 0.0 };
            if range.nodes.first().is_some_and(is_here) {
                found.push((*after, *last, width));
            }
        }
    }
    found.sort_unstable_by_key(|(after, ..)| *after);
    let mut all: Vec<Estimate> = Vec::new();
    for (after, last, width) in found {
        let part = width / held;
        match all.last_mut().filter(|before| before.last == after) {
            Some(before) => (before.last, before.part) = (last, before.part + part),
            None => all.push(Estimate { after, last, part }),
        }
    }
    let sum: f64 = all.iter().map(|one| one.part).sum();
    debug_assert!(sum < 1.0 + 1e-9, "covering: {sum} of what is held");
    all
}

/// Errors are logged.
async fn snapshots() -> Vec<VirtualRow> {
    let Some((_, schema)) = own("snapshots") else { return Vec::new() };
    let Some(storage) = runtime::local::try_get::<Storage>() else { return Vec::new() };
    let found = storage.snapshots().await.unwrap_or_else(|error| {
        tracing::warn!(target: "snapshot", "cannot list snapshots: {error}");
        Vec::new()
    });
    let rows = found.into_iter().map(|one| {
        let values = vec![
            ("keyspace_name", one.keyspace.into_bytes()),
            ("table_name", one.table.into_bytes()),
            ("snapshot_name", one.tag.into_bytes()),
            ("live", (one.live_bytes as i64).to_be_bytes().to_vec()),
            ("total", (one.total_bytes as i64).to_be_bytes().to_vec()),
        ];
        row(&schema, values)
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::testing::node;
    use crate::nodes::Heard;
    use crate::peers::Activity;
    use catalog::SchemaChange;
    use catalog::schema::testing::keyspace;
    use catalog::topology::testing::{member, topology};
    use model::Uuid;

    /// The node itself (9), one that answers and one that does not.
    fn nodes() -> Nodes {
        let near = |number, tokens: &[i64]| member(number, ("d1", "r1"), tokens);
        let members = [near(1, &[-5]), near(2, &[]), near(9, &[7])];
        let heard = |id: Uuid| Heard {
            is_up: id.as_u128() == 1,
            schema: (id.as_u128() == 1).then(|| Uuid::from_u128(77)),
            activity: (id.as_u128() == 1)
                .then_some(Activity { load_bytes: 5, ..Activity::default() }),
            since: None,
            silent_since: None,
        };
        Nodes::of(&topology(&members), &node(vec![Token(7)]), heard)
    }

    /// The values of a column, as bytes.
    fn column(schema: &TableSchema, rows: &[VirtualRow], name: &str) -> Vec<Option<Vec<u8>>> {
        let at = schema.columns.iter().position(|column| column.name == name).expect(name);
        rows.iter().map(|row| row[at].clone()).collect()
    }

    fn table(name: &str) -> TableSchema {
        catalog::system_tables::table("system", name)
    }

    #[test]
    fn peers_are_all_others() {
        let ids = [1u128, 2].map(|id| Some(Uuid::from_u128(id).as_bytes().to_vec()));
        let (old, new) = (table("peers"), table("peers_v2"));
        let (old_rows, new_rows) = (peer_rows(&old, &nodes()), peer_v2_rows(&new, &nodes()));
        for (schema, rows) in [(&old, &old_rows), (&new, &new_rows)] {
            let of = |name| column(schema, rows, name);
            assert_eq!(of("host_id"), ids);
            let addresses = [[127, 0, 0, 1], [127, 0, 0, 2]].map(|it| Some(it.to_vec()));
            assert_eq!(of("peer"), addresses);
            let version = Some(Uuid::from_u128(77).as_bytes().to_vec());
            assert_eq!(of("schema_version"), [version, None]);
            let tokens = bytes(partition::texts(["-5"].into_iter()));
            assert_eq!(of("tokens"), [Some(tokens), None]);
        }
        let port = |port: i32| vec![Some(port.to_be_bytes().to_vec()); 2];
        assert_eq!(column(&new, &new_rows, "peer_port"), port(7000));
        assert_eq!(column(&new, &new_rows, "native_port"), port(9042));
    }

    #[test]
    fn the_status_is_of_all_nodes() {
        let schema = table("cluster_status");
        let rows = status_rows(&schema, &nodes(), 33);
        let of = |name| column(&schema, &rows, name);
        assert_eq!(of("up"), [1, 0, 1].map(|up| Some(vec![up])));
        assert_eq!(of("load"), [Some(b"5".to_vec()), None, Some(b"33".to_vec())]);
        assert_eq!(of("tokens"), [1i32, 0, 1].map(|it| Some(it.to_be_bytes().to_vec())));
        assert_eq!(of("owns")[1], Some(0f32.to_be_bytes().to_vec()));
    }

    #[test]
    fn the_ring_has_a_row_for_each_replica() {
        let schema = table("token_ring");
        let all = Schema::of_system(Uuid::from_u128(1), 2);
        let mut space = keyspace("ks", None);
        space.replication[1].1 = "2".to_owned();
        let all = all.after(vec![SchemaChange::CreateKeyspace(space)], 5, 2).expect("a keyspace");
        let rows = ring_rows(&schema, &nodes(), &all);
        let names = column(&schema, &rows, "keyspace_name");
        let of_ks = |values: Vec<Option<Vec<u8>>>| -> Vec<String> {
            let both = names.iter().zip(values).filter(|(name, _)| name.as_deref() == Some(b"ks"));
            both.map(|(_, it)| String::from_utf8(it.expect("a value")).expect("text")).collect()
        };
        assert_eq!(of_ks(column(&schema, &rows, "start_token")), ["7", "7", "-5", "-5"]);
        assert_eq!(of_ks(column(&schema, &rows, "end_token")), ["-5", "-5", "7", "7"]);
        let last = |address: Option<Vec<u8>>| Some(vec![address.expect("an address")[3] + b'0']);
        let ends: Vec<_> = column(&schema, &rows, "endpoint").into_iter().map(last).collect();
        assert_eq!(of_ks(ends), ["1", "9", "9", "1"]);
    }

    #[test]
    fn a_node_answers_for_what_it_is_the_first_replica_of() {
        let nodes = nodes();
        let one = Estimate { after: Token::MIN, last: Token::MAX, part: 1.0 };
        assert_eq!(answered_for(&nodes.ring_ranges(&Replication::Local), &nodes), [one]);
        // One copy: from the other node's token to its own; 12 tokens are all that it holds.
        let own = Estimate { after: Token(-5), last: Token(7), part: 1.0 };
        assert_eq!(answered_for(&nodes.ring_ranges(&Replication::Simple(1)), &nodes), [own]);
        // Two copies: it holds all, and answers for the same.
        let found = answered_for(&nodes.ring_ranges(&Replication::Simple(2)), &nodes);
        let part = 12.0 / 2f64.powi(64);
        assert_eq!((found.len(), found[0].after, found[0].last), (1, Token(-5), Token(7)));
        assert!((found[0].part / part - 1.0).abs() < 1e-9, "{found:?}");
        // The other one answers for the rest, on both sides of the end of the ring.
        let mut ranges = nodes.ring_ranges(&Replication::Simple(2));
        ranges.iter_mut().for_each(|range| range.nodes.reverse());
        let found = answered_for(&ranges, &nodes);
        let tokens: Vec<_> = found.iter().map(|it| (it.after, it.last)).collect();
        assert_eq!(tokens, [(Token::MIN, Token(-5)), (Token(7), Token::MAX)]);
        assert!((found[0].part + found[1].part - 1.0).abs() < 1e-9, "{found:?}");
        assert_eq!(answered_for(&[], &nodes), []);
    }
}
