//! Starting and ending the shards of a process: threads, pinning, shutdown order.
//!
//! Never decides what a shard does: that is `main`, given by the caller.

use crate::clock::Clock;
use crate::config::{Backend, Config, Pin, ShardId, StartError};
use crate::core::node::Node;
use crate::core::{self, Shard, stall};
use crate::driver::{self, Driver};
use crate::group;
use crate::helpers::Helpers;
use crate::remote::Remote;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stdx::Prng;

/// Runs `config.shards` shards; `main` is called once per shard, on it. Returns when `main` has
/// ended on every shard. A panic on any shard ends all of them and is resumed here.
pub fn run<F, Fut>(config: Config, main: F) -> Result<(), StartError>
where
    F: Fn(ShardId) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + 'static,
{
    if config.shards == 0 {
        return Err(StartError::Config("at least one shard is needed"));
    }
    if config.task_quota.is_zero() {
        return Err(StartError::Config("the task quota must not be zero"));
    }
    let backend = choose_backend(config.backend)?;
    debug_assert_ne!(backend, Backend::Auto, "a back end was chosen");
    let remotes = (0..config.shards).map(|_| eventfd().map(|fd| Remote::register(Some(fd))));
    let remotes: Vec<_> = remotes.collect::<Result<_, _>>()?;
    // Without a ring, file operations block: more helpers, so that a few can be in flight.
    let helpers = Helpers::new(if backend == Backend::Epoll { 4 } else { 1 });
    let node = Node::new(config, remotes, helpers);
    let main = Arc::new(main);
    let mut threads = Vec::new();
    let mut failed = None;
    for id in 0..node.shards() {
        let (node, main) = (node.clone(), main.clone());
        let builder = std::thread::Builder::new().name(format!("shard-{id}"));
        let body = move || run_shard(id, node, backend, |id| main(id));
        match builder.spawn(body) {
            Ok(thread) => threads.push(thread),
            Err(error) => failed = Some(StartError::Kernel("starting a shard thread", error)),
        }
    }
    if failed.is_some() {
        node.stop_all();
    }
    debug_assert!(
        failed.is_some() || threads.len() == node.shards() as usize,
        "one-owner: {} threads",
        threads.len()
    );
    let watchdog = stall::Watchdog::start(&node);
    let mut panic = None;
    for thread in threads {
        match thread.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => failed = Some(error),
            Err(payload) => panic = Some(payload),
        }
    }
    drop(watchdog);
    node.remotes.iter().for_each(|remote| remote.unregister());
    if let Some(payload) = panic {
        std::panic::resume_unwind(payload);
    }
    failed.map_or(Ok(()), Err)
}

/// The back end to use: never `Auto`.
fn choose_backend(wanted: Backend) -> Result<Backend, StartError> {
    if wanted == Backend::Epoll {
        return Ok(Backend::Epoll);
    }
    match driver::uring_refusal() {
        None => Ok(Backend::IoUring),
        Some(error) if wanted == Backend::IoUring => {
            Err(StartError::Kernel("the kernel refuses io_uring (io_uring_setup)", error))
        }
        Some(error) => {
            tracing::warn!(
                "the kernel refuses io_uring (io_uring_setup: {error}); using epoll and helper \
                 threads instead, which is slower. In a container, allow the io_uring system \
                 calls in its seccomp profile."
            );
            Ok(Backend::Epoll)
        }
    }
}

fn eventfd() -> Result<OwnedFd, StartError> {
    use rustix::event::{EventfdFlags, eventfd};
    let made = eventfd(0, EventfdFlags::CLOEXEC);
    made.map_err(|error| StartError::Kernel("eventfd", error.into()))
}

/// Ends the other shards when this one ends without having run to its end.
struct StopOthers(Arc<Node>);

impl Drop for StopOthers {
    fn drop(&mut self) {
        self.0.stop_all();
    }
}

/// The life of one shard, on its thread.
fn run_shard<Fut>(
    id: ShardId,
    node: Arc<Node>,
    backend: Backend,
    main: impl FnOnce(ShardId) -> Fut,
) -> Result<(), StartError>
where
    Fut: Future<Output = ()> + 'static,
{
    debug_assert_eq!(current_shard(), None, "current-shard: a thread is one shard's");
    let stop_others = StopOthers(node.clone());
    pin(id, &node.config.pin)?;
    let remote = &node.remotes[id as usize];
    remote.thread.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Release);
    let driver = Driver::new(backend, remote, &node.helpers)?;
    let idle_poll = node.config.idle_poll;
    let shard = Shard::new(id, node.clone(), Clock::Real, driver, Prng::from_seed(os_seed()?));
    core::enter(Some(shard.clone()));
    core::ticks::begin();
    let run = AssertUnwindSafe(|| {
        let future = main(id);
        let node = node.clone();
        let root = async move {
            future.await;
            node.main_ended();
        };
        shard.root.start(group::MAIN, Box::pin(root));
        shard.run_loop(idle_poll);
    });
    let ended = std::panic::catch_unwind(run);
    drop(stop_others);
    let drained = std::panic::catch_unwind(AssertUnwindSafe(|| shard.shut_down()));
    core::ticks::end();
    core::enter(None);
    if !matches!(drained, Ok(true)) {
        tracing::error!(
            "shard {id}: the kernel has not completed some operations: their memory is leaked"
        );
        std::mem::forget(shard);
    }
    match ended {
        Ok(()) => Ok(()),
        Err(payload) => std::panic::resume_unwind(payload),
    }
}

fn os_seed() -> Result<u64, StartError> {
    // The hasher's keys come from the kernel; this is std's only door to its randomness.
    use std::hash::{BuildHasher, RandomState};
    Ok(RandomState::new().hash_one(rustix::thread::gettid().as_raw_nonzero().get()))
}

/// Pins this thread.
fn pin(id: ShardId, pin: &Pin) -> Result<(), StartError> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let cpus: Vec<usize> = match pin {
        Pin::Anywhere => return Ok(()),
        Pin::Cpus(cpus) => cpus.clone(),
        Pin::OnePerCpu => {
            let ours = sched_getaffinity(None);
            let ours = ours.map_err(|e| StartError::Kernel("sched_getaffinity", e.into()))?;
            (0..CpuSet::MAX_CPU).filter(|cpu| ours.is_set(*cpu)).collect()
        }
    };
    if cpus.is_empty() {
        return Err(StartError::Config("no CPU to run on"));
    }
    let mut set = CpuSet::new();
    set.set(cpus[id as usize % cpus.len()]);
    debug_assert_eq!(set.count(), 1, "one-owner: a shard has one processor");
    sched_setaffinity(None, &set).map_err(|e| StartError::Kernel("sched_setaffinity", e.into()))
}

/// The number of the shard this code runs on. Panics outside of a shard.
pub fn shard_id() -> ShardId {
    core::with(|shard| {
        debug_assert!(shard.id < shard.node.shards(), "current-shard: {}", shard.id);
        shard.id
    })
}

/// The same, or `None` outside of a shard: for what may run anywhere, such as a log line.
pub fn current_shard() -> Option<ShardId> {
    core::try_with(|shard| shard.id)
}

/// How often a task has held this shard for longer than the stall threshold, and where the last
/// one was.
pub fn stalls() -> (u64, String) {
    core::with(|shard| shard.remote.stalls())
}

/// The number of shards of this node. Panics outside of a shard.
pub fn shard_count() -> u16 {
    core::with(|shard| shard.node.shards())
}
