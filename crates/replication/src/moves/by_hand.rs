//! A replica of a tablet that an operator moves to another node, or to another shard. It goes as
//! those do that are moved for balance; where something else is on its way it waits for that.

use super::{LOOK, tablets};
use crate::coordinator::own_coordinator;
use cluster::{TabletOrder, TabletStep, TabletSteps, features};
use model::Uuid;
use runtime::Erased;
use runtime::time::sleep;

/// What became of it.
enum Seen {
    /// It has not begun.
    Before,
    OnItsWay,
    There,
}

/// Moves it. Ends when it is there; the error says why it stays, or is elsewhere.
pub fn move_tablet(order: TabletOrder) -> Erased<'static, Result<(), String>> {
    Erased::new(move || async move { runtime::on_shard(0, move || carry_out(order)).await })
}

async fn carry_out(order: TabletOrder) -> Result<(), String> {
    let coordinator = own_coordinator().map_err(|error| error.to_string())?;
    let cluster = &coordinator.cluster;
    assert!(runtime::shard_id() == 0, "one-hand: another shard than the first moves tablets");
    let mut has_begun = false;
    loop {
        match seen(&order)? {
            Seen::There => return Ok(()),
            Seen::OnItsWay => has_begun = true,
            Seen::Before if has_begun => return Err("the tablet stayed where it was".to_owned()),
            Seen::Before => {
                let decided = cluster.change_tablets(move |catalog| {
                    let table = catalog.schema.table_by_id(order.table).ok_or("it was dropped")?;
                    let (tablet, hosts) = order.hosts(&catalog.topology, &table.replicas)?;
                    let is_within = order.from.0 == order.to.0;
                    if is_within && !catalog.topology.enables(features::TABLET_SHARDS) {
                        let lacks = features::TABLET_SHARDS;
                        return Err(format!("not all nodes of the cluster can do that ({lacks})"));
                    }
                    let is_still = tablets::under_way(&catalog.schema).is_none();
                    let begins = is_still && catalog.topology.stage().is_none();
                    let step = (tablet, TabletStep::Begin(hosts));
                    let steps = begins.then(|| (order.table, vec![step]));
                    Ok(steps.into_iter().collect::<TabletSteps>())
                });
                decided.await.map_err(|error| error.to_string())?;
                if let Seen::OnItsWay = seen(&order)? {
                    has_begun = true;
                    let (from, to) = (order.from.0, order.to.0);
                    tracing::info!(
                        target: "moves",
                        "a tablet begins to move by hand, from node {from} to {to}"
                    );
                }
            }
        }
        sleep(LOOK).await;
    }
}

fn seen(order: &TabletOrder) -> Result<Seen, String> {
    let coordinator = own_coordinator().map_err(|error| error.to_string())?;
    let schema = coordinator.cluster.schema();
    let table = schema.table_by_id(order.table).ok_or("the table was dropped")?;
    let tablet = table.replicas.tablet_of(order.token);
    debug_assert!(tablet < table.replicas.count(), "covering: {:?} has no tablet", order.token);
    let goes = table.replicas.moves().get(&tablet);
    let has_gone = |replica: &(Uuid, u16)| match order.from.0 == order.to.0 {
        true => *replica != order.from,
        false => replica.0 != order.from.0,
    };
    let is_gone = table.replicas.of(tablet).iter().all(has_gone);
    Ok(match goes {
        Some(moving) if moving.to.contains(&order.to) => Seen::OnItsWay,
        None if is_gone && table.replicas.of(tablet).contains(&order.to) => Seen::There,
        _ => Seen::Before,
    })
}
