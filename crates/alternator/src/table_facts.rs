//! What operations on tables and on their streams share: names for the outside, and what
//! decisions on the schema have to know.

use crate::node::Node;
use crate::table::Table;
use cluster::{Cluster, centers, features};
use plan::ddl::{Context, Rules};

/// What a decision on the schema has to know.
pub(crate) fn context(node: &Node) -> Context {
    let cluster = &node.cluster;
    let topology = cluster.topology();
    let data_centers = centers::data_centers(&topology, cluster.node());
    let nodes = data_centers.iter().map(|center| center.owners).sum::<usize>().max(1);
    Context {
        keyspace: None,
        data_centers,
        table_id: Cluster::new_table_id(),
        log_id: Cluster::new_table_id(),
        now_micros: runtime::time::wall_micros(),
        timestamp: None,
        rules: Rules::of(&node.processor.options().analysis).among(nodes as i64),
        has_views: topology.allows(features::VIEWS),
        changes_many: topology.allows(features::KEYSPACE_MULTI_RF_CHANGE),
        has_cdc: topology.allows(features::CDC),
        has_streams: cluster.has_streams(),
    }
}

/// By which name tables are known outside of their cluster.
pub(crate) fn arn(node: &Node, table: &Table) -> String {
    arn_of(node, &table.name)
}

/// The same of a table of that name, which may be gone.
pub(crate) fn arn_of(node: &Node, name: &str) -> String {
    let center = &node.cluster.node().data_center;
    format!("arn:aws:dynamodb:{center}:000000000000:table/{name}")
}
