//! What the parts of a node count, as samples for Prometheus. Names are those of ScyllaDB where it
//! counts the same. docs/metrics.md explains them.
//!
//! In reading order: `runtime` (processor, disk), `memory`, `storage`, `coordinator`, `cql`,
//! `dynamo`, `tables`; [`spans`] (how latencies are shown).
//!
//! Invariants
//!  - *by-shard*: every sample says of which shard it is, but those of the node as a whole.
//!  - *in-steps*: others have the shard between two tables, and between two groups of samples.

mod coordinator;
mod cql;
mod dynamo;
mod hints;
mod links;
mod memory;
mod moves;
mod runtime_counts;
mod spans;
mod storage_counts;
mod tables;

use admin::metrics::{Filter, Sheet};
use cluster::{Cluster, TableEntry};
use model::Uuid;
use native::Server;
use node::version::version;
use query::Processor;
use replication::Coordinator;
use replication::hints::Hints;
use runtime::task::yield_if_needed;
use std::rc::Rc;
use storage::Storage;
pub(crate) use tables::Tables;

/// The samples of all shards that the filter lets through.
pub(crate) async fn gather(filter: Filter, tables: Tables) -> Vec<Sheet> {
    let of_shard = {
        let filter = filter.clone();
        move || async move { of_shard(&filter, tables).await }
    };
    let shards = runtime::on_all_shards(of_shard).await;
    let (mut sheets, rows): (Vec<Sheet>, Vec<Vec<tables::Row>>) = shards.into_iter().unzip();
    let mut node = Sheet::new(&filter, None);
    tables::put_together(&mut node, rows).await;
    sheets.push(node);
    sheets
}

/// Of this shard, with the tables that are to be put together with those of others.
async fn of_shard(filter: &Filter, tables: Tables) -> (Sheet, Vec<tables::Row>) {
    let shard = runtime::shard_id();
    let mut sheet = Sheet::new(filter, Some(shard));
    if shard == 0 {
        node(&mut sheet);
        moves::all(&mut sheet);
        group(&mut sheet).await;
    }
    runtime_counts::reactor(&mut sheet);
    runtime_counts::disk(&mut sheet);
    yield_if_needed().await;
    if let Some(storage) = runtime::local::try_get::<Storage>() {
        memory::memory(&mut sheet, &storage);
        storage_counts::all(&mut sheet, &storage);
        yield_if_needed().await;
    }
    if let Some(processor) = runtime::local::try_get::<Processor>() {
        cql::statements(&mut sheet, &processor);
        cql::audit(&mut sheet, &processor);
        yield_if_needed().await;
    }
    if let Some(coordinator) = runtime::local::try_get::<Coordinator>() {
        coordinator::traffic(&mut sheet).await;
        coordinator::differences(&mut sheet, &coordinator);
        coordinator::batches(&mut sheet, &coordinator);
        coordinator::views(&mut sheet, &coordinator);
        coordinator::expiry(&mut sheet, &coordinator);
        coordinator::repairs(&mut sheet);
    }
    if let Some(hints) = Hints::of_shard() {
        hints::all(&mut sheet, &hints);
    }
    if let Some(server) = runtime::local::try_get::<Server>() {
        cql::transport(&mut sheet, &server);
    }
    if let Some(server) = runtime::local::try_get::<alternator::Server>() {
        dynamo::all(&mut sheet, &server).await;
    }
    if let Some(traffic) = cluster::membership::links::traffic() {
        links::all(&mut sheet, &traffic);
    }
    if let Some(cluster) = runtime::local::try_get::<Cluster>() {
        let help = "Tablets that are on this shard.";
        sheet.gauge("tablets_count", help, &[], tablets_of(&cluster, shard) as u64);
        yield_if_needed().await;
    }
    let rows = tables::of_shard(&mut sheet, tables).await;
    (sheet, rows)
}

/// How many tablets of all tables this node has on a shard.
fn tablets_of(cluster: &Cluster, shard: u16) -> usize {
    let (schema, me) = (cluster.schema(), cluster.node().host_id);
    let of_table = |table: &Rc<TableEntry>| {
        let here = |of: &&[(Uuid, u16)]| of.contains(&(me, shard));
        table.replicas.iter().filter(here).count()
    };
    schema.tables().map(of_table).sum()
}

/// What is told once, by shard 0.
fn node(sheet: &mut Sheet) {
    let version = version();
    let help = "The version of the server; always 0.";
    sheet.gauge("scylladb_current_version", help, &[("version", &version)], 0);
    let mode = admin::Mode::of_node();
    let help = "Operation mode of the node: 2 JOINING, 3 NORMAL, 4 LEAVING, 5 DECOMMISSIONED, 6 \
                DRAINING, 7 DRAINED, 9 MAINTENANCE.";
    sheet.gauge("node_operation_mode", help, &[("mode", mode.name())], mode as u64);
    if let Some(cluster) = runtime::local::try_get::<Cluster>() {
        let schema = cluster.schema();
        let tables = schema.tables().count() as u64;
        sheet.gauge("schema_tables", "Tables, including system tables.", &[], tables);
        let keyspaces = schema.keyspaces.len() as u64;
        sheet.gauge("schema_keyspaces", "Keyspaces.", &[], keyspaces);
        service_levels(sheet, &cluster.access().workloads());
    }
}

/// The group of all nodes, as this one knows it.
async fn group(sheet: &mut Sheet) {
    let Some(group) = cluster::membership::view().await else { return };
    let voters = group.members.iter().filter(|member| member.votes).count() as u64;
    let rows = [
        (
            "raft_group0_generation",
            "How often the group of all nodes was formed anew when its majority was lost.",
            group.generation,
        ),
        ("raft_group0_voters", "Voters of the group of all nodes.", voters),
        ("raft_group0_members", "Members of the group of all nodes.", group.members.len() as u64),
        (
            "raft_group0_has_leader",
            "Whether the node knows who leads the group of all nodes.",
            group.leader.is_some().into(),
        ),
    ];
    gauges(sheet, &rows);
}

/// For what load each service level is meant.
fn service_levels(sheet: &mut Sheet, workloads: &[(String, Option<&'static str>)]) {
    let help = "Workload of a service level: 0 unspecified, 1 batch, 2 interactive.";
    for (name, workload) in workloads {
        let number = match workload {
            None => 0,
            Some("batch") => 1,
            Some(_) => 2,
        };
        sheet.gauge(
            "service_level_workload_type",
            help,
            &[("service_level", name.as_str())],
            number,
        );
    }
}

/// The names, help texts and values of counters without labels.
fn counters(sheet: &mut Sheet, rows: &[(&'static str, &'static str, u64)]) {
    rows.iter().for_each(|(name, help, value)| sheet.counter(name, help, &[], *value));
}

/// The same of gauges.
fn gauges(sheet: &mut Sheet, rows: &[(&'static str, &'static str, u64)]) {
    rows.iter().for_each(|(name, help, value)| sheet.gauge(name, help, &[], *value));
}
