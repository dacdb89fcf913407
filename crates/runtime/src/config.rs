//! How a process runs its shards: plain values.

use std::fmt;
use std::time::Duration;

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
