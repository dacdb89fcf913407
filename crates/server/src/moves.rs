//! Nodes that join and leave, as the REST API asks for them.

use admin::{Giver, Handed, Moves, NodeMode, Taken};
use cluster::TabletOrder;
use model::{TableId, Uuid};
use native::Server;
use node::patience;
use replication::moves;
use std::time::Duration;

/// So long requests of clients may run at most when the node has given all away: the others wait.
const PATIENCE_MAX: Duration = Duration::from_secs(30);

/// Clients are not let in any more, and those that are there go when they have their answers.
pub(crate) fn farewell() -> moves::Farewell {
    moves::Farewell(Box::new(|| {
        Box::pin(async {
            let Some(server) = runtime::local::try_get::<Server>() else { return };
            if server.is_listening() {
                tracing::info!(target: "moves", "this node has given all away: its clients go");
                server.close(patience::now().min(PATIENCE_MAX)).await;
            }
        })
    }))
}

/// The part of this node.
pub(crate) struct OfNode;

impl Moves for OfNode {
    fn leave(&self, force: bool) -> Handed<Result<(), String>> {
        Box::pin(async move { moves::leave(force).await })
    }

    fn remove(&self, host: Uuid, force: bool) -> Handed<Result<(), String>> {
        Box::pin(async move { moves::remove(host, force).await })
    }

    fn move_tablet(&self, order: TabletOrder) -> Handed<Result<(), String>> {
        Box::pin(async move { moves::move_tablet(order).await })
    }

    fn cleanup(&self, tables: Vec<TableId>) -> Handed<Result<(), String>> {
        Box::pin(async move { moves::cleanup(tables).await })
    }

    fn taken(&self) -> Option<Taken> {
        let moves::Taken { stage, of_tablets, progress, from } = moves::taken()?;
        let moves::Progress { parts, parts_done, bytes, text, .. } = progress;
        let giver = |(host, giver): (Uuid, moves::Giver)| {
            let moves::Giver { parts, parts_done, bytes } = giver;
            (host, Giver { parts, parts_done, bytes })
        };
        Some(Taken {
            stage: stage.name(),
            of_tablets,
            all: Giver { parts, parts_done, bytes },
            text,
            from: from.into_iter().map(giver).collect(),
        })
    }

    fn is_still(&self) -> Handed<bool> {
        Box::pin(async move { moves::is_still().await })
    }

    fn node_modes(&self, keyspace: String) -> Handed<Result<Vec<NodeMode>, String>> {
        let mode = |it: moves::NodeMode| {
            let moves::NodeMode { host_id, current, intended } = it;
            NodeMode { host_id, current, intended }
        };
        Box::pin(async move {
            let modes = moves::node_modes(keyspace).await?;
            Ok(modes.into_iter().map(mode).collect())
        })
    }

    fn finalize_conversion(&self, keyspace: String) -> Handed<Result<(), String>> {
        Box::pin(async move { moves::finalize_conversion(keyspace).await })
    }
}
