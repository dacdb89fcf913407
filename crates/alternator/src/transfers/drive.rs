//! What nodes have left of imports and exports.
//!
//! Invariants
//!  - *ends-some-day*: one whose node has stopped is written down as failed: by that node when it
//!    has started again, or by the first of those that are alive when it was seen dead for
//!    [`DEAD_MAX`].
//!  - *kept-for-so-long*: what is known of one that is over goes after [`KEPT_MILLIS`].

use super::ends::{ended, settle, settle_table};
use super::record::{Failure, Record, Status};
use super::records;
use crate::error::Error;
use crate::kept::Kind;
use crate::node::Node;
use crate::restored;
use model::Uuid;
use runtime::time::{Instant, wall_micros};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// How often it is looked what there is to do, and what was left behind.
const LOOK_PERIOD: Duration = Duration::from_secs(5);
const UPKEEP_PERIOD: Duration = Duration::from_secs(20);
/// One whose node is dead for so long has failed.
const DEAD_MAX: Duration = Duration::from_secs(60);
/// 90 days, as the service has it.
const KEPT_MILLIS: i64 = 90 * 24 * 3600 * 1000;

/// Looks after them, for as long as the server of shard 0 lives.
pub(crate) async fn keep(node: Rc<Node>) {
    let mut dead: BTreeMap<Uuid, Instant> = BTreeMap::new();
    let mut looked_at: Option<Instant> = None;
    loop {
        let leads = node.leads();
        // Once after its start each node looks for what it has left behind itself.
        if looked_at.is_none_or(|at| leads && UPKEEP_PERIOD <= at.elapsed()) {
            match look_after(&node, leads, &mut dead).await {
                Ok(()) => looked_at = Some(Instant::now()),
                Err(error) => {
                    tracing::debug!(target: "transfers", "they are looked after later: {error}");
                }
            }
        }
        node.cluster.changed_within(LOOK_PERIOD).await;
    }
}

/// What is to be done with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Its node was this one before it has started again.
    Stopped,
    /// Its node is dead.
    Dead,
    /// It was kept for long enough.
    Old,
}

async fn look_after(
    node: &Node,
    leads: bool,
    dead: &mut BTreeMap<Uuid, Instant>,
) -> Result<(), Error> {
    let (me, began) = (node.cluster.node().host_id, node.started);
    dead.retain(|host, _| !node.cluster.is_alive(*host));
    let now = wall_micros().div_euclid(1000);
    let left = |record: &Record| {
        let is_dead = !node.cluster.is_alive(record.by);
        left(record, (me, began), leads.then_some(now), is_dead)
    };
    let is_left = |record: &Record| left(record).is_some();
    let (mut all, _) = records::list(node, (Kind::Import, None), usize::MAX, is_left).await?;
    all.extend(records::list(node, (Kind::Export, None), usize::MAX, is_left).await?.0);
    for record in all {
        let why = match left(&record) {
            Some(Left::Stopped) => "its node was stopped",
            Some(Left::Dead) => {
                let since = dead.entry(record.by).or_insert_with(Instant::now);
                if since.elapsed() < DEAD_MAX {
                    continue;
                }
                "its node is dead"
            }
            Some(Left::Old) => {
                records::forget(node, &record).await?;
                continue;
            }
            None => continue,
        };
        let failed = ended(record, Some(Failure::new("NodeStopped", why)));
        if records::note(node, &failed).await? {
            let (kind, id) = (failed.kind.name(), &failed.id);
            tracing::warn!(target: "transfers", "{kind} {id} has failed: {why}");
            settle(node, &failed).await?;
        }
    }
    settle_all(node).await
}

/// Tables that wait for an import that is over: whoever was to end them was stopped before.
async fn settle_all(node: &Node) -> Result<(), Error> {
    let schema = node.schema();
    for entry in schema.tables() {
        if let Some(id) = restored::import_under_way(&entry.schema) {
            let record = records::find(node, (Kind::Import, id)).await?;
            settle_table(node, entry.schema.id, record.as_ref()).await?;
        }
    }
    Ok(())
}

/// Whether one was left behind, as a node sees it that began then, in milliseconds; `now`: as
/// the one that drives sees it. (*ends-some-day*, *kept-for-so-long*)
fn left(
    record: &Record,
    (me, began): (Uuid, i64),
    now: Option<i64>,
    is_dead: bool,
) -> Option<Left> {
    match (record.status, now) {
        (Status::InProgress, _) if record.by == me => {
            (record.started < began).then_some(Left::Stopped)
        }
        (Status::InProgress, Some(_)) => is_dead.then_some(Left::Dead),
        (Status::InProgress, None) => None,
        (_, Some(now)) => {
            let over = record.ended.unwrap_or(record.started);
            (over + KEPT_MILLIS < now).then_some(Left::Old)
        }
        (_, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfers::record::tests::record;

    /// *ends-some-day*, *kept-for-so-long*
    #[test]
    fn what_was_left_is_known() {
        let (me, other) = (Uuid::from_u128(9), Uuid::from_u128(8));
        let under_way = record("1-a", Status::InProgress);
        let check = |host, began, now, is_dead, expected| {
            assert_eq!(left(&under_way, (host, began), now, is_dead), expected);
        };
        check(me, 1501, None, false, Some(Left::Stopped));
        check(me, 1500, None, false, None);
        check(other, 1501, None, true, None);
        check(other, 1501, Some(0), true, Some(Left::Dead));
        check(other, 1501, Some(0), false, None);
        for status in [Status::Completed, Status::Failed] {
            let over = record("1-a", status);
            let old = |now| left(&over, (me, 9000), now, true);
            assert_eq!(old(Some(2500 + KEPT_MILLIS)), None);
            assert_eq!(old(Some(2501 + KEPT_MILLIS)), Some(Left::Old));
            assert_eq!(old(None), None);
        }
    }
}
