//! Rows of the computed system tables that tell what tablets hold: `system.tablet_sizes`, a row for
//! each tablet, and `system.load_per_node`, a row for each node. All nodes are asked.

use crate::tables::{Named, arranged, octets};
use cluster::{Cluster, Member, Node, Nodes, VirtualFuture, VirtualRow};
use model::Uuid;
use model::value::{write_collection, write_map};
use replication::moves::{TabletSizes, sizes};
use std::rc::Rc;

/// Gives the tables their rows on this shard.
pub(crate) fn provide() {
    let cluster = runtime::local::get::<Cluster>();
    let provide = |name: &'static str, rows: fn(&[TabletSizes]) -> Vec<Named>| {
        let all = move || -> VirtualFuture { Box::pin(rows_of(name, rows)) };
        cluster.provide(name, Rc::new(all));
    };
    provide("tablet_sizes", |sizes| sizes.iter().map(of_tablet).collect());
    provide("load_per_node", |sizes| {
        let Some(cluster) = runtime::local::try_get::<Cluster>() else { return Vec::new() };
        let nodes = Nodes::seen(&cluster);
        nodes.all().iter().map(|node| of_node(node, sizes)).collect()
    });
}

async fn rows_of(name: &str, rows: fn(&[TabletSizes]) -> Vec<Named>) -> Vec<VirtualRow> {
    let sizes = sizes().await;
    arranged(name, &rows(&sizes))
}

/// Sizes that are known; and who has a replica, and did not tell of it.
fn of_tablet(tablet: &TabletSizes) -> Named {
    let bytes = |size: u64| i64::try_from(size).unwrap_or(i64::MAX).to_be_bytes();
    let known: Vec<(Uuid, [u8; 8])> =
        tablet.replicas.iter().filter_map(|(host, size)| Some((*host, bytes((*size)?)))).collect();
    let missing: Vec<Uuid> =
        tablet.replicas.iter().filter(|(_, size)| size.is_none()).map(|(host, _)| *host).collect();
    let (mut replicas, mut others) = (Vec::new(), Vec::new());
    write_map(known.iter().map(|(host, size)| (&host.as_bytes()[..], &size[..])), &mut replicas);
    write_collection(missing.iter().map(|host| &host.as_bytes()[..]), &mut others);
    vec![
        ("table_id", tablet.table.into_bytes().to_vec()),
        ("last_token", tablet.last.0.to_be_bytes().to_vec()),
        ("missing_replicas", others),
        ("replicas", replicas),
    ]
}

/// What a node has of all tablets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Load {
    tablets: u64,
    /// Bytes, as it told itself.
    told: u64,
    /// With those of tablets of which it did not tell, each as large as on the others on average.
    allocated: u64,
}

impl Load {
    fn of(host: Uuid, sizes: &[TabletSizes]) -> Load {
        let mut load = Load::default();
        for tablet in sizes {
            let own = tablet.replicas.iter().find(|(other, _)| *other == host);
            let Some((_, size)) = own else { continue };
            let known: Vec<u64> = tablet.replicas.iter().filter_map(|(_, size)| *size).collect();
            let mean = known.iter().sum::<u64>().checked_div(known.len() as u64).unwrap_or(0);
            load.tablets += 1;
            load.told += size.unwrap_or(0);
            load.allocated += size.unwrap_or(mean);
        }
        load
    }
}

/// How large its disk is nobody tells.
fn of_node(node: &Node, sizes: &[TabletSizes]) -> Named {
    let Member { host_id, data_center, rack, address, shards, .. } = &*node.member;
    let load = Load::of(*host_id, sizes);
    let bigint = |it: u64| i64::try_from(it).unwrap_or(i64::MAX).to_be_bytes().to_vec();
    let each = load.tablets as f64 / f64::from(*shards);
    let mut row = vec![
        ("node", host_id.as_bytes().to_vec()),
        ("dc", data_center.as_bytes().to_vec()),
        ("rack", rack.as_bytes().to_vec()),
        ("ip", octets(address.ip())),
        ("storage_allocated_load", bigint(load.allocated)),
        ("tablets_allocated", bigint(load.tablets)),
        ("tablets_allocated_per_shard", each.to_be_bytes().to_vec()),
        ("up", vec![node.heard.is_up.into()]),
    ];
    if node.heard.is_up {
        row.push(("storage_load", bigint(load.told)));
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{TableId, Token};

    /// A table of two tablets: the first is on both nodes, of the second one of them told nothing.
    fn sizes() -> Vec<TabletSizes> {
        let of = |last, sizes: [Option<u64>; 2]| TabletSizes {
            table: TableId::from_u128(5),
            last: Token(last),
            replicas: [1, 2].map(Uuid::from_u128).into_iter().zip(sizes).collect(),
        };
        vec![of(-1, [Some(100), Some(300)]), of(i64::MAX, [Some(7), None])]
    }

    #[test]
    fn a_tablet_shows_what_is_known_and_who_told_nothing() {
        let row = of_tablet(&sizes()[1]);
        let value = |name: &str| row.iter().find(|(known, _)| *known == name).map(|it| &it.1[..]);
        let one = Uuid::from_u128(1);
        let replicas =
            [&[0, 0, 0, 1, 0, 0, 0, 16][..], one.as_bytes(), &[0, 0, 0, 8], &[0; 7], &[7]];
        assert_eq!(value("replicas"), Some(&replicas.concat()[..]));
        let two = Uuid::from_u128(2);
        let missing = [&[0, 0, 0, 1, 0, 0, 0, 16][..], two.as_bytes()];
        assert_eq!(value("missing_replicas"), Some(&missing.concat()[..]));
        assert_eq!(value("last_token"), Some(&i64::MAX.to_be_bytes()[..]));
    }

    #[test]
    fn a_node_has_what_it_told_and_what_it_is_to_have() {
        let load = |host| Load::of(Uuid::from_u128(host), &sizes());
        assert_eq!(load(1), Load { tablets: 2, told: 107, allocated: 107 });
        assert_eq!(load(2), Load { tablets: 2, told: 300, allocated: 307 });
        assert_eq!(load(3), Load::default());
    }
}
