//! Whether the keyspaces that are there are at home in the racks of the cluster, and have enough
//! nodes for a quorum, looked at once, at the start.

use cluster::centers::{data_centers, ill_racked, thin};
use cluster::{Cluster, Settings};

/// The option that makes it a condition of a start.
const OPTION: &str = "rf_rack_valid_keyspaces";

/// An error where the node wants a rack for each replica and a keyspace with tablets has none. On
/// shard 0, when the options are registered and the cluster is known.
pub(crate) fn check() -> Result<(), String> {
    let cluster = runtime::local::get::<Cluster>();
    for thin in thin(&cluster.schema(), &cluster.topology(), cluster.node()) {
        tracing::warn!(target: "init", "{thin}");
    }
    let centers = data_centers(&cluster.topology(), cluster.node());
    let ill = ill_racked(&cluster.schema(), &centers);
    let Some(first) = ill.first() else { return Ok(()) };
    let shown = Settings::of_shard().shown();
    if shown.iter().any(|it| it.name == OPTION && it.value == "true") {
        return Err(first.to_string());
    }
    let names: Vec<&str> = ill.iter().map(|it| it.keyspace.as_str()).collect();
    tracing::warn!(
        target: "init",
        "keyspaces with tablets that have two replicas in a rack, or none in some: {}; with a rack \
         a lot of their replicas may be gone. Name racks: ALTER KEYSPACE .. WITH replication = \
         {{.., '{}': ['rack', ..]}}",
        names.join(", "),
        first.center
    );
    Ok(())
}
