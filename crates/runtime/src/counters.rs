//! Instructions and cycles that this thread spent in user mode, from the processor's own counters
//! (`perf_event_open`). Many virtual machines and containers have none: then there is no value,
//! never a guessed one.
#![allow(unsafe_code, reason = "perf_event_open has no safe wrapper")]

use crate::clock;
use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;

const TYPE_HARDWARE: u32 = 0;
const CPU_CYCLES: u64 = 0;
const INSTRUCTIONS: u64 = 1;
/// Bits of `perf_event_attr.flags`: exclude the kernel, exclude the hypervisor.
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// Size of the first published version of the structure; the kernel takes any.
const ATTRIBUTE_BYTES: u32 = 64;

/// The start of the kernel's `perf_event_attr`.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

const _: () = assert!(size_of::<Attributes>() == ATTRIBUTE_BYTES as usize, "valid-places");

/// The counters of the thread that made them.
#[derive(Debug)]
pub struct Counters {
    instructions: Option<File>,
    cycles: Option<File>,
}

/// What was counted so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Retired in user mode.
    pub instructions: Option<u64>,
    /// Spent in user mode.
    pub cycles: Option<u64>,
}

impl Counters {
    /// Starts counting this thread, where the kernel lets us.
    pub fn open() -> Counters {
        Counters { instructions: open(INSTRUCTIONS), cycles: open(CPU_CYCLES) }
    }

    /// What was counted since [`Counters::open`].
    pub fn read(&self) -> Counted {
        Counted { instructions: read(&self.instructions), cycles: read(&self.cycles) }
    }
}

/// Processor time that this thread has had, in user mode and in the kernel, in nanoseconds. It goes
/// on in a simulation, whose clocks it does not follow.
pub fn cpu_ns() -> u64 {
    const THIS_THREAD: i32 = 0;
    clock::thread_cpu_ns(THIS_THREAD)
}

fn open(config: u64) -> Option<File> {
    let attributes = Attributes {
        kind: TYPE_HARDWARE,
        size: ATTRIBUTE_BYTES,
        config,
        sample_period: 0,
        sample_type: 0,
        read_format: 0,
        flags: EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
        wakeup_events: 0,
        breakpoint_type: 0,
        config1: 0,
    };
    let (this_thread, any_cpu, no_group, close_on_exec) = (0, -1, -1, 8);
    // SAFETY: *valid-places* (of the driver's calls): the structure lives through the call and has
    // the size that it states; the kernel reads it and keeps nothing.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            this_thread,
            any_cpu,
            no_group,
            close_on_exec,
        )
    };
    let fd = i32::try_from(fd).ok().filter(|fd| 0 <= *fd)?;
    // SAFETY: *fd-outlives-ops* (of the driver): the descriptor is new and not shared.
    Some(unsafe { File::from_raw_fd(fd) })
}

fn read(counter: &Option<File>) -> Option<u64> {
    let mut value = [0; 8];
    counter.as_ref()?.read_exact(&mut value).ok()?;
    Some(u64::from_ne_bytes(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_grow_or_are_absent() {
        let counters = Counters::open();
        let (before, cpu_ns) = (counters.read(), cpu_ns());
        let sum: u64 = (0..100_000u64).map(std::hint::black_box).sum();
        let after = counters.read();
        assert_ne!(sum, 0);
        assert!(cpu_ns < super::cpu_ns());
        match (before.instructions, after.instructions) {
            (Some(before), Some(after)) => assert!(before < after),
            (before, after) => assert_eq!((before, after), (None, None)),
        }
    }
}
