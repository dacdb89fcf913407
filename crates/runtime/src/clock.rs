//! The source of time: the kernel, or the virtual clock of a simulation.
//!
//! Invariants
//!  - *never-back*: nanoseconds of a clock do not decrease.
#![allow(unsafe_code, reason = "clock_gettime has no safe wrapper here")]

use std::cell::Cell;
use std::rc::Rc;

/// The wall clock of a world when its virtual clock is 0, microseconds since 1970.
pub(crate) const VIRTUAL_EPOCH_MICROS: i64 = 1_790_000_000_000_000;

const _: () = assert!(0 < VIRTUAL_EPOCH_MICROS, "worlds begin after 1970");

/// The clock of a shard.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// The kernel's.
    Real,
    /// A world's: nanoseconds since its start, and the skew of this node's wall clock.
    Virtual { now_ns: Rc<Cell<u64>>, skew_micros: Rc<Cell<i64>> },
}

impl Clock {
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        match self {
            Clock::Real => kernel_ns(libc::CLOCK_MONOTONIC),
            Clock::Virtual { now_ns, .. } => now_ns.get(),
        }
    }

    pub(crate) fn wall_micros(&self) -> i64 {
        match self {
            Clock::Real => (kernel_ns(libc::CLOCK_REALTIME) / 1000) as i64,
            Clock::Virtual { now_ns, skew_micros } => {
                VIRTUAL_EPOCH_MICROS + (now_ns.get() / 1000) as i64 + skew_micros.get()
            }
        }
    }
}

/// Processor time that a thread of this process has had; 0 when it has ended.
pub(crate) fn thread_cpu_ns(thread: i32) -> u64 {
    // How the kernel numbers the scheduler's clock of a thread.
    const PER_THREAD_SCHED: i32 = 6;
    kernel_ns((!thread << 3) | PER_THREAD_SCHED)
}

fn kernel_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: *valid-places* (of the driver): `time` is for the answer; without such a clock
    // it stays 0.
    unsafe { libc::clock_gettime(clock, &mut time) };
    debug_assert!(0 <= time.tv_sec, "never-back: {} s", time.tv_sec);
    debug_assert!((0..1_000_000_000).contains(&time.tv_nsec), "never-back: {} ns", time.tv_nsec);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
