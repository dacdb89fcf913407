//! Work that would block the shard, or hold it for long: handed to helper threads, one per process
//! (four where there is no io_uring). Long computations have a thread of their own, so that no file
//! operation waits for them.
//!
//! Invariants
//!  - *bounded-jobs*: a shard has at most 64 jobs with the helpers; more wait on the shard.

use crate::core::node::Node;
use crate::core::{simulated, with};
use crate::helpers::Helpers;
use crate::local;
use crate::sync::Semaphore;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

#[allow(clippy::disallowed_types)] // A shard and a helper thread meet here, off the hot path.
type Mutex<T> = std::sync::Mutex<T>;

const SHARD_JOBS_MAX: usize = 64;

/// The permits of a shard's jobs.
struct Jobs(Semaphore);

impl Default for Jobs {
    fn default() -> Jobs {
        Jobs(Semaphore::new(SHARD_JOBS_MAX, usize::MAX))
    }
}

struct Shared<T> {
    result: Option<T>,
    waker: Option<Waker>,
}

/// Runs `work` on a helper thread. Dropping the future abandons the result, not the work.
pub(crate) async fn offload<T, F>(work: F) -> T
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    offload_to(|node| &node.helpers, work).await
}

/// Runs `work` on one of these helpers.
pub(crate) async fn offload_to<T, F>(helpers: fn(&Node) -> &Helpers, work: F) -> T
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let jobs = local::get_or_default::<Jobs>();
    debug_assert!(simulated().is_none(), "one-machine: a helper thread in a simulation");
    let permit = jobs.0.acquire(1).await;
    debug_assert!(jobs.0.available() < SHARD_JOBS_MAX, "bounded-jobs: a job without a permit");
    let shared = Arc::new(Mutex::new(Shared { result: None, waker: None }));
    let theirs = shared.clone();
    with(|shard| {
        helpers(&shard.node).push(Box::new(move || {
            let result = work();
            let mut shared = theirs.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            debug_assert!(shared.result.is_none(), "bounded-jobs: a job is done twice");
            shared.result = Some(result);
            let waker = shared.waker.take();
            drop(shared);
            waker.into_iter().for_each(Waker::wake);
        }));
    });
    let result = poll_fn(|cx| {
        let mut shared = shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match shared.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                shared.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    })
    .await;
    drop(permit);
    result
}
