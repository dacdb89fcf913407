//! What a description of a table tells beside its schema: which indexes are built, and how many
//! items there are and how many bytes they take, about, of the table and of each index.
//!
//! A node asks its own shards, and takes it that the others have as much ([`Extent::of_all`]). So
//! one that has just joined tells too little.

use crate::extent::Extent;
use crate::index_operations::built_of;
use crate::node::Node;
use crate::table::Table;
use cluster::{Replicas, table_stats};
use model::{TableId, Token};

/// Of a table and its views.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    built: Vec<TableId>,
    extents: Vec<(TableId, Extent)>,
}

impl Seen {
    pub(crate) async fn of(node: &Node, table: &Table) -> Seen {
        let built = built_of(table).await;
        let own = std::iter::once(table.entry.schema.id);
        let ids: Vec<TableId> = own.chain(table.entry.views.iter().copied()).collect();
        let (nodes, copies) = match node.cluster.replicas(&table.entry, Token(0)) {
            Replicas::Here => (1, 1),
            Replicas::Nodes(replicas) => {
                (node.cluster.topology().present().count(), replicas.len())
            }
        };
        let stats = table_stats::of(ids.clone()).await;
        let extents = ids.into_iter().zip(stats).map(|(id, stats)| {
            let bytes = stats.sstable_bytes + stats.memtable_bytes;
            (id, Extent { items: stats.rows, bytes }.of_all(nodes, copies))
        });
        Seen { built, extents: extents.collect() }
    }

    /// Whether nothing of what was there before it misses in a view.
    pub(crate) fn is_built(&self, view: TableId) -> bool {
        self.built.contains(&view)
    }

    pub(crate) fn extent(&self, id: TableId) -> Extent {
        let found = self.extents.iter().find(|(known, _)| *known == id);
        found.map_or_else(Extent::default, |(_, extent)| *extent)
    }
}
