//! Work that would block the shard: done by helper threads, one per process (four where there is
//! no io_uring). Long computations have a thread of their own, so that no file operation waits
//! for them.
//!
//! Invariants
//!  - *bounded-jobs*: a shard has at most 64 jobs with the helpers; more wait on the shard.

use super::node::Node;
use super::with;
use crate::sync::Semaphore;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

#[allow(clippy::disallowed_types)] // Shards and helper threads meet here, off the hot path.
mod shared {
    pub(super) type Mutex<T> = std::sync::Mutex<T>;
    pub(super) type Condvar = std::sync::Condvar;
}
use shared::{Condvar, Mutex};

pub(crate) type Job = Box<dyn FnOnce() + Send>;

const SHARD_JOBS_MAX: usize = 64;

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
}

/// Helper threads, started when first needed.
pub(crate) struct Pool {
    inner: Arc<(Mutex<Queue>, Condvar)>,
    threads_max: usize,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool(at most {} threads)", self.threads_max)
    }
}

impl Pool {
    pub(crate) fn new(threads_max: usize) -> Pool {
        Pool { inner: Arc::default(), threads_max }
    }

    /// Hands a job to a helper.
    pub(crate) fn push(&self, job: Job) {
        let (queue, condvar) = &*self.inner;
        let mut queue = queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        queue.jobs.push_back(job);
        if queue.idle == 0 && queue.threads < self.threads_max {
            queue.threads += 1;
            let inner = self.inner.clone();
            let builder = std::thread::Builder::new().name("nereid-helper".into());
            let started = builder.spawn(move || serve(&inner));
            if started.is_err() {
                queue.threads -= 1;
                assert!(0 < queue.threads, "no helper thread can be started");
            }
        }
        condvar.notify_one();
    }
}

fn serve(inner: &(Mutex<Queue>, Condvar)) {
    let (queue, condvar) = inner;
    let mut held = queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    loop {
        if let Some(job) = held.jobs.pop_front() {
            drop(held);
            job();
            held = queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            continue;
        }
        if held.closed {
            return;
        }
        held.idle += 1;
        held = condvar.wait(held).unwrap_or_else(|poisoned| poisoned.into_inner());
        held.idle -= 1;
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let (queue, condvar) = &*self.inner;
        queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).closed = true;
        condvar.notify_all();
    }
}

/// The permits of a shard's jobs.
struct Jobs(Semaphore);

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
    offload_to(|node| &node.pool, work).await
}

/// Runs `work` on a thread of `pool`.
pub(crate) async fn offload_to<T, F>(pool: fn(&Node) -> &Pool, work: F) -> T
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let jobs = crate::local::try_get::<Jobs>().unwrap_or_else(|| {
        let jobs = Rc::new(Jobs(Semaphore::new(SHARD_JOBS_MAX, usize::MAX)));
        crate::local::set(jobs.clone());
        jobs
    });
    let permit = jobs.0.acquire(1).await;
    let shared = Arc::new(Mutex::new(Shared { result: None, waker: None }));
    let theirs = shared.clone();
    with(|shard| {
        pool(&shard.node).push(Box::new(move || {
            let result = work();
            let mut shared = theirs.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
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
