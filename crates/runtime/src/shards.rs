//! Starting and ending the shards of a process: configuration, pinning, shutdown order.
//!
//! Never decides what a shard does: that is `main`, given by the caller.

use crate::core::clock::Clock;
use crate::core::node::Node;
use crate::core::offload::Pool;
use crate::core::waker::Remote;
use crate::core::{self, Shard, stall};
use crate::driver::Driver;
use std::fmt;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stdx::Prng;

/// A shard's number within its node, from 0.
pub type ShardId = u16;

/// Which kernel interface the reactors use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// io_uring where the kernel allows it, epoll otherwise (a log line says which and why).
    Auto,
    /// io_uring or a start error.
    IoUring,
    /// epoll for sockets and a small pool of threads for files.
    Epoll,
}

/// Where shard threads may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pin {
    /// The scheduler of the kernel decides.
    Anywhere,
    /// Shard `n` runs on the `n`-th CPU this process may use, modulo their count.
    OnePerCpu,
    /// Shard `n` runs on the `n`-th CPU of the list, modulo its length.
    Cpus(Vec<usize>),
}

/// Whether files are opened past the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectIo {
    /// O_DIRECT where the file system allows it, buffered elsewhere.
    Auto,
    /// Always through the page cache.
    Off,
}

/// How a process runs its shards. `Config::new` holds the defaults.
#[derive(Clone, Debug)]
pub struct Config {
    /// The number of shards, at least 1.
    pub shards: u16,
    /// The kernel interface.
    pub backend: Backend,
    /// Where shard threads run.
    pub pin: Pin,
    /// How long one group runs before the reactor looks at the kernel and at other groups.
    pub task_quota: Duration,
    /// How long an idle shard polls before it sleeps in the kernel.
    pub idle_poll: Duration,
    /// A task that holds its shard for longer is reported with a backtrace.
    pub stall_threshold: Option<Duration>,
    /// Makes every sync succeed without doing it. For measurements only.
    pub bypass_fsync: bool,
    /// Whether files are opened past the page cache.
    pub direct_io: DirectIo,
    /// Disk requests of one shard that are at the kernel at once; more wait by class.
    pub disk_requests_max: usize,
}

impl Config {
    /// The defaults for `shards` shards.
    pub fn new(shards: u16) -> Config {
        Config {
            shards,
            backend: Backend::Auto,
            pin: Pin::Anywhere,
            task_quota: Duration::from_micros(500),
            idle_poll: Duration::from_micros(50),
            stall_threshold: Some(Duration::from_millis(50)),
            bypass_fsync: false,
            direct_io: DirectIo::Auto,
            disk_requests_max: 128,
        }
    }
}

/// Why the shards could not be started.
#[derive(Debug)]
pub enum StartError {
    /// A value of the configuration is out of range.
    Config(&'static str),
    /// The kernel refused something: what, and its error.
    Kernel(&'static str, std::io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Config(what) => write!(f, "runtime configuration: {what}"),
            StartError::Kernel(what, error) => write!(f, "{what}: {error}"),
        }
    }
}
impl std::error::Error for StartError {}

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
    let remotes = (0..config.shards).map(|_| eventfd().map(|fd| Remote::register(Some(fd))));
    let remotes: Vec<_> = remotes.collect::<Result<_, _>>()?;
    // Without a ring, file operations block: more helpers, so that a few can be in flight.
    let pool = Pool::new(if backend == Backend::Epoll { 4 } else { 1 });
    let node = Node::new(config, remotes, pool);
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
    match crate::driver::uring_refusal() {
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
    let stop_others = StopOthers(node.clone());
    pin(id, &node.config.pin)?;
    let remote = &node.remotes[id as usize];
    remote.thread.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Release);
    let driver = Driver::new(backend, &node, id)?;
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
        shard.root.start(crate::group::MAIN, Box::pin(root));
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
    sched_setaffinity(None, &set).map_err(|e| StartError::Kernel("sched_setaffinity", e.into()))
}

/// The number of the shard this code runs on. Panics outside of a shard.
pub fn shard_id() -> ShardId {
    core::with(|shard| shard.id)
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
