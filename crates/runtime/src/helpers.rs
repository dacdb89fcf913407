//! Helper threads: they do what would block a shard. Sees jobs, and no shard.
//!
//! Invariants
//!  - *counted-threads*: at most `threads_max` threads serve the queue, and those that are idle are
//!    among them.
//!  - *no-job-left*: a thread ends only when the queue is closed and empty.

use std::collections::VecDeque;
use std::sync::Arc;

#[allow(clippy::disallowed_types)] // Shards and helper threads meet here, off the hot path.
mod shared {
    pub(super) type Mutex<T> = std::sync::Mutex<T>;
    pub(super) type Condvar = std::sync::Condvar;
}
use shared::{Condvar, Mutex};

pub(crate) type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
}

/// Helper threads, started when first needed.
pub(crate) struct Helpers {
    inner: Arc<(Mutex<Queue>, Condvar)>,
    threads_max: usize,
}

impl std::fmt::Debug for Helpers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Helpers(at most {} threads)", self.threads_max)
    }
}

impl Helpers {
    pub(crate) fn new(threads_max: usize) -> Arc<Helpers> {
        Arc::new(Helpers { inner: Arc::default(), threads_max })
    }

    /// Hands a job to a helper.
    pub(crate) fn push(&self, job: Job) {
        let (queue, condvar) = &*self.inner;
        let mut queue = queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        assert!(0 < self.threads_max, "counted-threads: a job for nobody");
        queue.jobs.push_back(job);
        if queue.idle == 0 && queue.threads < self.threads_max {
            queue.threads += 1;
            let inner = self.inner.clone();
            let builder = std::thread::Builder::new().name("nereid-helper".into());
            let started = builder.spawn(move || serve(&inner));
            if started.is_err() {
                queue.threads -= 1;
                assert!(0 < queue.threads, "no-job-left: no helper thread can be started");
            }
        }
        debug_assert!(
            queue.idle <= queue.threads && queue.threads <= self.threads_max,
            "counted-threads: {} idle, {} in all",
            queue.idle,
            queue.threads
        );
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
        debug_assert!(held.idle <= held.threads, "counted-threads: more sleep than there are");
        held = condvar.wait(held).unwrap_or_else(|poisoned| poisoned.into_inner());
        assert!(0 < held.idle, "counted-threads: more wake than slept");
        held.idle -= 1;
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        let (queue, condvar) = &*self.inner;
        queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).closed = true;
        condvar.notify_all();
    }
}
