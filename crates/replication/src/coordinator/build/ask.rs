//! What all nodes say of views that are built. Asked for when somebody wants to know: nothing of it
//! is decided or kept by the group of all nodes.

use super::states;
use crate::coordinator::{Coordinator, own_coordinator};
use crate::wire::{built, verb};
use messaging::{HostId, Messaging, Payload, Target, ToShard};
use model::{TableId, Uuid};
use runtime::Erased;
use runtime::task::{join, join_all};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a node may take for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// What a node says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub host: Uuid,
    /// The views that are built there; `None`: it does not answer.
    pub built: Option<BTreeSet<TableId>>,
}

impl Coordinator {
    /// Whether a view is known to be built on all nodes: then it has what its base table has.
    #[inline]
    pub fn is_known_built(&self, view: TableId) -> bool {
        self.builds.everywhere.borrow().contains(&view)
    }

    /// The same, if need be asked of all nodes that are alive.
    pub async fn is_built_everywhere(&self, view: TableId) -> bool {
        if self.is_known_built(view) {
            return true;
        }
        let places = self.places();
        let others = places.others().into_iter().filter(|host| places.is_alive(*host));
        let others = join_all(others.map(ask)).await;
        let own = states().await.into_iter().any(|state| state.view == view && state.is_built);
        let is_built =
            own && others.iter().all(|it| it.as_ref().is_some_and(|it| it.contains(&view)));
        if is_built {
            let schema = self.cluster.schema();
            let mut everywhere = self.builds.everywhere.borrow_mut();
            everywhere.retain(|view| schema.table_by_id(*view).is_some());
            everywhere.insert(view);
        }
        is_built
    }
}

/// What each node says, this one first.
pub fn told_by_all() -> Erased<'static, Vec<Told>> {
    Erased::new(|| async {
        let Ok(coordinator) = own_coordinator() else { return Vec::new() };
        let own = async {
            let built = states().await.into_iter().filter(|state| state.is_built);
            let built = Some(built.map(|state| state.view).collect());
            Told { host: coordinator.cluster.node().host_id, built }
        };
        let hosts = coordinator.places().others();
        debug_assert!(!hosts.contains(&coordinator.cluster.node().host_id), "this node is another");
        let others = hosts.into_iter().map(async |host| Told { host, built: ask(host).await });
        let (own, others) = join(own, join_all(others)).await;
        [vec![own], others].concat()
    })
}

async fn ask(host: Uuid) -> Option<BTreeSet<TableId>> {
    let target = Target { shard: ToShard::At(0), ..Target::control(HostId(host.as_u128())) };
    let messaging = Messaging::current()?;
    let asked = messaging.call(target, verb::VIEWS_BUILT, Payload::from(Vec::new()), ANSWER_MAX);
    built::decode(&asked.await.ok()?).ok()
}
