//! Stall detection: finds tasks that block their shard, and logs their stack traces.
//!
//! One thread per process looks at the poll counter of every shard. A counter that stays odd for
//! longer than the threshold is a task that does not return: its thread is sent a signal, whose
//! handler notes the return addresses; the watchdog turns them into names and logs them, with the
//! processor time that the thread has used meanwhile. What others took of the processor is no
//! stall of the task: it is reported when it has run for the threshold, or when it waits in the
//! kernel and all but its waits for a processor come to that. Where the kernel does not tell of
//! such waits, a task that did not run is reported after many thresholds.
//!
//! Invariants
//!  - *handler-stores*: the handler unwinds and stores words, nothing else: no lock, no memory
//!    from the heap, no formatting.
//!  - *one-capture*: at most one capture is in progress in the process.
#![allow(unsafe_code, reason = "a signal handler that unwinds")]

use super::node::Node;
use crate::clock::{self, Clock};
use crate::remote::Remote;
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

#[allow(clippy::disallowed_types)] // The watchdog and who stops it.
mod shared {
    pub(super) type Mutex<T> = std::sync::Mutex<T>;
    pub(super) type Condvar = std::sync::Condvar;
}
use shared::{Condvar, Mutex};

const FRAMES_MAX: usize = 64;
/// The watchdog looks so often within a threshold.
const LOOKS: u32 = 2;
/// Where waits for a processor are not known, a thread that did not run is no stall, unless it
/// takes so many thresholds.
const UNSCHEDULED_LIMIT: u32 = 8;
/// Naming a place costs a second of processor time the first time: not more often than this.
const REPORT_INTERVAL_NS: u64 = 1_000_000_000;
/// Between two looks when all shards are idle.
const IDLE_LOOK: Duration = Duration::from_millis(100);

/// Where a handler leaves what it saw (*one-capture*).
struct Capture {
    stage: AtomicU32,
    count: AtomicUsize,
    frames: [AtomicUsize; FRAMES_MAX],
}

const _: () = assert!(0 < LOOKS && 0 < FRAMES_MAX, "a watchdog that sees nothing");

const IDLE: u32 = 0;
const ASKED: u32 = 1;
const TAKEN: u32 = 2;

static CAPTURE: Capture = Capture {
    stage: AtomicU32::new(IDLE),
    count: AtomicUsize::new(0),
    frames: [const { AtomicUsize::new(0) }; FRAMES_MAX],
};
static CAPTURING: Mutex<()> = Mutex::new(());

extern "C" fn on_signal(_number: libc::c_int) {
    if CAPTURE.stage.load(Ordering::Acquire) != ASKED {
        return;
    }
    let mut count = 0;
    let note = |frame: &backtrace::Frame| {
        CAPTURE.frames[count].store(frame.ip() as usize, Ordering::Relaxed);
        count += 1;
        count < FRAMES_MAX
    };
    // SAFETY: only this thread unwinds through the crate now (*one-capture*); unwinding itself
    // takes no lock and no memory (*handler-stores*).
    unsafe { backtrace::trace_unsynchronized(note) };
    CAPTURE.count.store(count, Ordering::Relaxed);
    CAPTURE.stage.store(TAKEN, Ordering::Release);
}

fn signal_number() -> libc::c_int {
    libc::SIGRTMIN() + 3
}

fn install_handler() {
    // SAFETY: *handler-stores*: the handler does what a handler may; zeros are a valid `sigaction`.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal_number(), &action, std::ptr::null_mut());
    }
}

/// The thread that watches the shards of a node; it ends when this is dropped.
pub(crate) struct Watchdog {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Watchdog {
    /// Starts it, where the configuration asks for one.
    pub(crate) fn start(node: &Arc<Node>) -> Option<Watchdog> {
        let threshold = node.config.stall_threshold?;
        debug_assert!(!threshold.is_zero(), "a watchdog that never sleeps");
        install_handler();
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let (theirs, node) = (stop.clone(), node.clone());
        let builder = std::thread::Builder::new().name("nereid-watchdog".into());
        let thread = builder.spawn(move || watch(&node, threshold, &theirs)).ok()?;
        Some(Watchdog { stop, thread: Some(thread) })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let (stop, condvar) = &*self.stop;
        *stop.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = true;
        condvar.notify_all();
        if let Some(thread) = self.thread.take() {
            // A watchdog that panicked has said so already.
            let _ = thread.join();
        }
    }
}

/// What was last seen of a shard.
#[derive(Clone, Copy, Default)]
struct Seen {
    polls: u64,
    since_ns: u64,
    /// Processor time of the thread at `since_ns`, and what it had waited for a processor.
    cpu_ns: u64,
    queued_ns: Option<u64>,
    reported: bool,
}

fn watch(node: &Node, threshold: Duration, stop: &(Mutex<bool>, Condvar)) {
    let (stopped, condvar) = stop;
    let mut seen = vec![Seen::default(); node.remotes.len()];
    let mut held = stopped.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut busy = true;
    let mut last_report_ns = 0;
    while !*held {
        let look = threshold / LOOKS;
        let span = if busy { look } else { look.max(IDLE_LOOK) };
        held = match condvar.wait_timeout(held, span) {
            Ok((held, _)) => held,
            Err(poisoned) => poisoned.into_inner().0,
        };
        busy = false;
        for (id, (remote, seen)) in node.remotes.iter().zip(&mut seen).enumerate() {
            let (polls, now) = (remote.polls.load(Ordering::Relaxed), Clock::Real.now_ns());
            let thread = remote.thread.load(Ordering::Acquire);
            busy |= polls != seen.polls || polls % 2 == 1;
            if polls != seen.polls {
                let (cpu_ns, queued_ns) = (clock::thread_cpu_ns(thread), thread_queued_ns(thread));
                *seen = Seen { polls, since_ns: now, cpu_ns, queued_ns, reported: false };
                continue;
            }
            debug_assert!(seen.since_ns <= now, "never-back: {} to {now}", seen.since_ns);
            let held_for = Duration::from_nanos(now - seen.since_ns);
            if polls % 2 == 0 || seen.reported || held_for < threshold {
                continue;
            }
            let ran_ns = clock::thread_cpu_ns(thread).saturating_sub(seen.cpu_ns);
            let ran_for = Duration::from_nanos(ran_ns);
            if threshold <= ran_for || waits_too_long(thread, seen, held_for, threshold) {
                seen.reported = true;
                let quiet = now - last_report_ns < REPORT_INTERVAL_NS;
                if quiet {
                    remote.stalled(None);
                } else {
                    report(id, remote, held_for, ran_for);
                    last_report_ns = Clock::Real.now_ns();
                }
            }
        }
    }
}

/// Whether a thread that has hardly run is held up in the kernel, and not by other threads.
fn waits_too_long(thread: i32, seen: &Seen, held_for: Duration, threshold: Duration) -> bool {
    let queued_ns = thread_queued_ns(thread).zip(seen.queued_ns);
    let Some((state, (queued_ns, before_ns))) = thread_state(thread).zip(queued_ns) else {
        return threshold * UNSCHEDULED_LIMIT <= held_for;
    };
    let queued_for = Duration::from_nanos(queued_ns.saturating_sub(before_ns));
    // Of one that is ready the present wait is not counted yet.
    state != b'R' && threshold <= held_for.saturating_sub(queued_for)
}

/// What a thread of this process has waited for a processor while it was ready, in nanoseconds.
fn thread_queued_ns(thread: i32) -> Option<u64> {
    proc_file(thread, "schedstat")?.split(' ').nth(1)?.parse().ok()
}

/// The state of a thread as the kernel names it: `R` when it runs or is ready to.
fn thread_state(thread: i32) -> Option<u8> {
    let text = proc_file(thread, "stat")?;
    let (_, rest) = text.rsplit_once(") ")?;
    rest.bytes().next()
}

#[allow(clippy::disallowed_methods, reason = "the watchdog's thread may block")]
fn proc_file(thread: i32, name: &str) -> Option<String> {
    let mut text = String::new();
    let mut file = File::open(format!("/proc/self/task/{thread}/{name}")).ok()?;
    file.read_to_string(&mut text).ok()?;
    Some(text)
}

fn report(shard: usize, remote: &Remote, held_for: Duration, ran_for: Duration) {
    let trace = capture(remote.thread.load(Ordering::Acquire));
    let (held, ran) = (held_for.as_micros(), ran_for.as_micros());
    tracing::warn!(
        "shard {shard}: stalled by a task for {}.{} ms, {}.{} ms on the processor, at\n{trace}",
        held / 1000,
        held / 100 % 10,
        ran / 1000,
        ran / 100 % 10
    );
    remote.stalled(Some(trace));
}

/// Where a thread of this process is now.
fn capture(thread: i32) -> String {
    let _one = CAPTURING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let before = CAPTURE.stage.load(Ordering::Acquire);
    debug_assert_ne!(before, ASKED, "one-capture: another one is in progress");
    CAPTURE.stage.store(ASKED, Ordering::Release);
    // SAFETY: *handler-stores*: the signal has its handler, in a thread of ours; one that has ended
    // gives an error, which the wait below notices.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal_number()) };
    let start = Clock::Real.now_ns();
    while CAPTURE.stage.load(Ordering::Acquire) != TAKEN {
        if 100_000_000 < Clock::Real.now_ns() - start {
            CAPTURE.stage.store(IDLE, Ordering::Release);
            return "  (no answer from the thread)".to_string();
        }
        std::thread::yield_now();
    }
    let count = CAPTURE.count.load(Ordering::Relaxed);
    assert!(count <= FRAMES_MAX, "handler-stores: {count} frames");
    let frames: Vec<_> =
        CAPTURE.frames[..count].iter().map(|frame| frame.load(Ordering::Relaxed)).collect();
    CAPTURE.stage.store(IDLE, Ordering::Release);
    resolve(&frames)
}

/// Names the frames between the signal and the reactor.
fn resolve(frames: &[usize]) -> String {
    let mut text = String::new();
    for frame in frames {
        let mut ours = false;
        backtrace::resolve(*frame as *mut _, |symbol| {
            let Some(name) = symbol.name() else { return };
            let name = format!("{name:#}");
            let in_tasks = symbol.filename().is_some_and(|file| file.ends_with("core/tasks.rs"));
            ours |= in_tasks && name.contains("poll_task");
            let place = match (symbol.filename(), symbol.lineno()) {
                (Some(file), Some(line)) => format!(" ({}:{line})", file.display()),
                _ => String::new(),
            };
            // Writing to a string does not fail.
            let _ = writeln!(text, "  {name}{place}");
        });
        if ours {
            break;
        }
    }
    // Else all of the executable's line tables would stay in memory.
    backtrace::clear_symbol_cache();
    text
}
