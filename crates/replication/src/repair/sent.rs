//! Before a repair each node sends what it keeps for the replicas: hints, and logged batches that
//! are not applied. Where deletions are forgotten once they were repaired (`tombstone_gc` of mode
//! `repair`), nothing older may come behind them.
//!
//! Each node tells a moment of its clock: nothing that was coordinated before it is kept there for
//! these replicas any more. What is under way in that moment, and may become a hint yet, is what
//! the table's `propagation_delay_in_seconds` is for.
//!
//! Invariants
//!  - *nothing-older*: of what was to be written before the moment that a node tells, it keeps
//!    nothing for these replicas.
//!  - *all-of-them*: the moment of a repair is the earliest that any node of the cluster tells;
//!    where one is down, or does not tell in time, there is none. The repair goes on without.
//!  - *not-again*: who has sent is not asked to send for a while (an option), and tells the moment
//!    that it told then.
//!
//! Lives on shard 0 of each node.

use super::ask::said;
use crate::coordinator::{Coordinator, nodes, own_coordinator};
use crate::hints::{Hints, point};
use crate::wire::sync::{decode_moment, encode_hosts};
use crate::wire::verb;
use cluster::features;
use cluster::settings::{Live, Rule, Settings};
use messaging::{HostId, Payload, Target, ToShard};
use model::Uuid;
use runtime::sync::Semaphore;
use runtime::task::{join, join_all};
use runtime::time::{Instant, wall_micros};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

const AGAIN: &str = "repair_hints_batchlog_flush_cache_time_in_ms";
const AGAIN_MILLIS: i64 = 60_000;
/// How long hints may take. Batches have a round, which ends with its time.
const HINTS_TIME: Duration = Duration::from_secs(60);
/// How long another node may take for both.
const SEND_TIME: Duration = Duration::from_secs(180);
/// Repairs that wait until a node has sent for another one.
const WAITING_MAX: usize = 64;

const _: () = assert!(2 * HINTS_TIME.as_secs() < SEND_TIME.as_secs());

/// The option of a shard. Stands in `runtime::local`.
pub struct Sending {
    again_millis: Live<i64>,
}

impl Default for Sending {
    fn default() -> Sending {
        Sending { again_millis: Live::fixed(AGAIN_MILLIS) }
    }
}

impl Sending {
    /// Registers the option.
    pub fn registered(settings: &Settings) -> Sending {
        let positive: Rule<i64> = |millis| match 0 <= *millis {
            true => Ok(()),
            false => Err("not a number of milliseconds from 0 on".to_owned()),
        };
        Sending { again_millis: settings.register(AGAIN, AGAIN_MILLIS, positive) }
    }

    /// The option is obeyed on this shard from now on.
    pub fn provide() {
        let registered = Sending::registered(&Settings::of_shard());
        debug_assert!(0 <= registered.again_millis.get(), "not-again: for less than nothing");
        runtime::local::set(Rc::new(registered));
    }
}

/// What a node has sent last.
struct Sent {
    moment: i64,
    at: Instant,
    to: BTreeSet<Uuid>,
}

/// Of this node. Stands in `runtime::local` of shard 0.
struct OfNode {
    turn: Semaphore,
    last: RefCell<Option<Sent>>,
}

impl Default for OfNode {
    fn default() -> OfNode {
        OfNode { turn: Semaphore::new(1, WAITING_MAX), last: RefCell::default() }
    }
}

impl OfNode {
    /// *not-again*
    fn told(&self, to: &BTreeSet<Uuid>) -> Option<i64> {
        let again = runtime::local::get_or_default::<Sending>().again_millis.get();
        let again = Duration::from_millis(u64::try_from(again).unwrap_or(0));
        let last = self.last.borrow();
        let last = last.as_ref().filter(|last| to.is_subset(&last.to))?;
        debug_assert!(last.at <= Instant::now(), "not-again: sent at {:?}", last.at);
        (last.at.elapsed() < again).then_some(last.moment)
    }
}

/// This node sends what it keeps for others; from which microsecond on something may be left
/// (*nothing-older*).
pub(crate) async fn send(to: BTreeSet<Uuid>) -> Result<i64, String> {
    assert!(!to.is_empty(), "nothing-older: for nobody");
    let send = move || async move {
        let node = runtime::local::get_or_default::<OfNode>();
        let turn = node.turn.acquire(1).await;
        let _turn = turn.map_err(|error| error.to_string())?;
        if let Some(moment) = node.told(&to) {
            return Ok(moment);
        }
        let at = Instant::now();
        let moment = send_now(&to).await?;
        *node.last.borrow_mut() = Some(Sent { moment, at, to });
        Ok(moment)
    };
    runtime::on_shard(0, send).await
}

async fn send_now(to: &BTreeSet<Uuid>) -> Result<i64, String> {
    let stops = |_| "the node stops".to_owned();
    let host = own_coordinator().map_err(stops)?.cluster.node().host_id;
    let now = wall_micros();
    // A node that keeps none has none to send.
    if Hints::of_shard().is_some() {
        let point = point::mark(host, to.iter().copied().collect()).await;
        if !point::wait(host, point, HINTS_TIME).await? {
            stdx::probe!("hints were not sent in time before a repair");
            return Err(format!("not all hints were sent within {} s", HINTS_TIME.as_secs()));
        }
    }
    Coordinator::replay_batchlog().await;
    let left = move || async move { own_coordinator().map_err(stops)?.oldest_batch().await };
    let left = runtime::on_all_shards(left).await;
    let left: Vec<Option<i64>> = left.into_iter().collect::<Result<_, String>>()?;
    let moment = left.into_iter().flatten().fold(now, i64::min);
    debug_assert!(moment <= now, "nothing-older: {moment} is later than {now}");
    Ok(moment)
}

impl Coordinator {
    /// Has each node of the cluster send what it keeps for these (*all-of-them*).
    pub(super) async fn have_sent(&self, to: &BTreeSet<Uuid>) -> Result<i64, String> {
        let places = self.places();
        if !places.enables(features::REPAIR_HISTORY) {
            return Err("a node does not know how to send what it keeps".to_owned());
        }
        let others = places.others();
        if let Some(down) = others.iter().find(|host| !places.is_alive(**host)) {
            return Err(format!("node {} is down", places.told(*down).0));
        }
        let bytes = encode_hosts(to);
        let asked = others.into_iter().map(|host| {
            let payload = Payload::from(bytes.clone());
            async move {
                let target = Target::bulk(HostId(host.as_u128()), ToShard::At(0));
                let told = nodes::call(target, verb::SYNC_SENT, payload, SEND_TIME).await;
                let told = told.map_err(|refusal| said(self, host, &refusal.text))?;
                decode_moment(&told).map_err(|damaged| said(self, host, &damaged.to_string()))
            }
        });
        let (here, others) = join(send(to.clone()), join_all(asked)).await;
        let here = here.map_err(|why| format!("this node: {why}"));
        let told: Vec<i64> = [here].into_iter().chain(others).collect::<Result<_, String>>()?;
        debug_assert!(!told.is_empty(), "all-of-them: nobody was asked");
        Ok(told.into_iter().min().unwrap_or(i64::MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who has sent to `sent`, as letters, so many milliseconds ago: whether it sends to `to`.
    fn check(sent: &str, millis: u64, to: &str, sends: bool) {
        let hosts = |text: &str| -> BTreeSet<Uuid> {
            text.bytes().map(|letter| Uuid::from_u128(letter.into())).collect()
        };
        let sent = hosts(sent);
        let to = hosts(to);
        runtime::sim::test(1, move || async move {
            let node = OfNode::default();
            let at = Instant::now();
            *node.last.borrow_mut() = Some(Sent { moment: 7, at, to: sent.clone() });
            runtime::time::sleep(Duration::from_millis(millis)).await;
            assert_eq!(node.told(&to), (!sends).then_some(7), "{sent:?} {millis} {to:?}");
        });
    }

    #[test]
    fn what_was_sent_is_not_sent_again_for_a_while() {
        check("ab", 0, "ab", false);
        check("ab", 59_000, "b", false);
        check("ab", 61_000, "b", true);
        check("ab", 0, "abc", true);
        check("ab", 0, "c", true);
    }
}
