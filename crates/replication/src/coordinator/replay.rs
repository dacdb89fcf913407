//! Replaying the batches that this node keeps, and whose coordinators have not told it in time that
//! they are applied: it may have died, or be cut off, or still be at it.
//!
//! Each holder replays by itself, and forgets what it has replayed; nobody asks who else does. What
//! is replayed is what was written, with its timestamps: twice is as good as once.
//!
//! Invariants
//!  - *all-of-it*: a batch is forgotten only when each of its parts is on a quorum of its replicas,
//!    and each other one has it, has a hint, or may have none (`nodes::complete`).
//!  - *bounded*: so many at once, of so many bytes, and so many bytes a second; a round ends with
//!    its time. What is left comes first in the next one.

use super::forget::{Holders, forget};
use super::held::Kept;
use super::{Coordinator, nodes, own_coordinator};
use crate::batchlog;
use crate::hints::Hints;
use crate::hints::decide::Throttle;
use runtime::Erased;
use runtime::sync::Semaphore;
use runtime::task::join_all;
use runtime::time::{Instant, sleep};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Between two rounds.
const PERIOD: Duration = Duration::from_secs(60);
/// Before the first round after a start; doubled until it is the period: other nodes, who start
/// with this one, may not be there at once.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// How long a round may begin to replay batches.
const ROUND_TIME: Duration = Duration::from_secs(60);
/// Batches that are replayed at once.
const AT_ONCE_MAX: usize = 16;
/// Their bytes; a larger one goes alone.
const BYTES_AT_ONCE_MAX: usize = 4 << 20;
/// Of more than so many the log tells how far they are.
const MANY: usize = 1000;
/// Rounds that operators ask for and that wait for one that runs.
const WAITING_MAX: usize = 16;

const _: () = assert!(0 < AT_ONCE_MAX && AT_ONCE_MAX < MANY, "bounded: some at once");

/// What rounds share.
#[derive(Debug)]
pub(crate) struct Replaying {
    turn: Semaphore,
    throttle: RefCell<Throttle>,
}

impl Default for Replaying {
    fn default() -> Replaying {
        Replaying { turn: Semaphore::new(1, WAITING_MAX), throttle: RefCell::default() }
    }
}

/// Replays what is due, again and again, for as long as the shard's coordinator lives.
pub(crate) async fn keep_replaying() {
    let mut pause = FIRST_PAUSE;
    loop {
        sleep(pause).await;
        pause = (2 * pause).min(PERIOD);
        let Ok(coordinator) = own_coordinator() else { return };
        if !round(&coordinator).await {
            pause = FIRST_PAUSE;
        }
    }
}

impl Coordinator {
    /// Replays the batches that this node keeps for longer than those who coordinate them may take;
    /// returns when that was tried.
    pub fn replay_batchlog() -> Erased<'static, ()> {
        Erased::new(|| async {
            let replay = || async {
                if let Ok(coordinator) = own_coordinator() {
                    round(&coordinator).await;
                }
            };
            runtime::on_all_shards(replay).await;
            tracing::info!(target: "batchlog", "Finished replayAllFailedBatches");
        })
    }
}

/// Replays what is due now; false: its time was over before.
async fn round(coordinator: &Rc<Coordinator>) -> bool {
    // Without hints it is not known which tables were truncated.
    if coordinator.held.is_empty() || Hints::of_shard().is_none() {
        return true;
    }
    let Ok(_turn) = coordinator.replaying.turn.acquire(1).await else { return true };
    let began = Instant::now();
    let due = coordinator.held.due(began);
    let (all, mut tried, mut completed) = (due.len(), 0, 0);
    let mut left = due.into_iter().peekable();
    while left.peek().is_some() && began.elapsed() < ROUND_TIME {
        let (mut together, mut bytes) = (Vec::new(), 0);
        while together.len() < AT_ONCE_MAX && bytes < BYTES_AT_ONCE_MAX {
            let Some(id) = left.next() else { break };
            tried += 1;
            match coordinator.one_kept(id).await {
                Ok(Some(kept)) => {
                    bytes += kept.data.len();
                    together.push(kept);
                }
                Ok(None) => coordinator.held.remove(id),
                Err(error) => tracing::warn!(target: "batchlog", %id, %error, "not replayed"),
            }
        }
        assert!(together.len() <= AT_ONCE_MAX, "bounded: {} at once", together.len());
        let rate = coordinator.config.replay_bytes_per_second;
        let now = Instant::now().as_nanos();
        let wait = coordinator.replaying.throttle.borrow_mut().take(bytes, rate, now);
        sleep(wait).await;
        let each = together.into_iter().map(|kept| replay(coordinator, kept));
        completed += join_all(each).await.into_iter().filter(|done| *done).count();
        if tried % MANY < AT_ONCE_MAX && MANY <= all {
            tracing::info!(target: "batchlog", "{tried} of {all} batches are replayed");
        }
    }
    debug_assert!(completed <= tried && tried <= all, "bounded: {completed}, {tried}, {all}");
    if 0 < all {
        let left = all - tried;
        tracing::info!(
            target: "batchlog",
            "Finished replayAllFailedBatches: {completed} of {tried} are done, {left} left"
        );
    }
    left.peek().is_none()
}

/// Replays a batch; whether all of it is applied.
async fn replay(coordinator: &Rc<Coordinator>, kept: Kept) -> bool {
    let Kept { logged, kept_at, data } = kept;
    let mutations = match batchlog::mutations(&data) {
        Ok(mutations) => mutations,
        Err(damaged) => {
            let id = logged.id;
            tracing::warn!(target: "batchlog", %id, %damaged, "a damaged batch is skipped");
            coordinator.held.remove(id);
            return false;
        }
    };
    debug_assert!(!mutations.is_empty(), "all-of-it: {} is a batch of nothing", logged.id);
    coordinator.traffic.batch_retries.add(1);
    match nodes::complete(coordinator, kept_at, mutations).await {
        Ok(()) => {
            coordinator.held.completed.add(1);
            forget(coordinator, logged, Holders::here());
            true
        }
        Err(error) => {
            tracing::debug!(target: "batchlog", id = %logged.id, %error, "replayed later");
            coordinator.held.postpone(logged.id, Instant::now());
            false
        }
    }
}
