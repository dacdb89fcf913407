//! The hints of the node, and the batches that it keeps, as the REST API asks for them.

use admin::{Handed, Handoff};
use model::Uuid;
use replication::Coordinator;
use replication::hints::Hints;
use replication::hints::point::{self, Point};
use std::collections::BTreeSet;
use std::time::Duration;

/// The hints of all shards.
pub(crate) struct Kept {
    /// This node.
    pub(crate) host: Uuid,
}

/// What each shard's hints answer.
async fn each<T: Send + 'static>(ask: impl Fn(&Hints) -> T + Clone + Send + 'static) -> Vec<T> {
    let asked = runtime::on_all_shards(move || {
        let ask = ask.clone();
        async move { Hints::of_shard().map(|hints| ask(&hints)) }
    });
    asked.await.into_iter().flatten().collect()
}

impl Handoff for Kept {
    fn mark(&self, targets: Vec<Uuid>) -> Handed<Vec<u8>> {
        let host = self.host;
        Box::pin(async move { point::mark(host, targets).await.encode() })
    }

    fn wait(&self, point: Vec<u8>, time: Duration) -> Handed<Result<bool, String>> {
        let host = self.host;
        Box::pin(async move {
            let point = Point::decode(&point).map_err(|damaged| damaged.what.to_owned())?;
            point::wait(host, point, time).await
        })
    }

    fn pause(&self, is_paused: bool) -> Handed<()> {
        Box::pin(async move { drop(each(move |hints| hints.pause(is_paused)).await) })
    }

    fn discard(&self, of: Option<Uuid>) -> Handed<()> {
        Box::pin(async move {
            let discard = move || async move {
                if let Some(hints) = Hints::of_shard() {
                    hints.discard(of).await;
                }
            };
            runtime::on_all_shards(discard).await;
        })
    }

    fn replay_batches(&self) -> Handed<()> {
        Box::pin(async { Coordinator::replay_batchlog().await })
    }

    fn hosts(&self) -> Handed<Vec<Uuid>> {
        Box::pin(async move {
            let hosts: BTreeSet<Uuid> = each(Hints::hosts).await.into_iter().flatten().collect();
            hosts.into_iter().collect()
        })
    }

    fn written(&self) -> Handed<(u64, u64)> {
        Box::pin(async move {
            let each = each(|hints| (hints.counters().written.get(), hints.bytes().0 as u64));
            each.await.into_iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
        })
    }
}
