//! Spans for a few instructions: the processor's own counter, where it counts time.
//!
//! Reading the kernel's clock costs a part of what a read of the cache does. Processors that say
//! so have a counter that runs at one speed whatever they do, and that is the same on all of them.
//! What a tick of it takes is measured once, against the kernel's clock. Elsewhere, outside of
//! shards, and in a simulation, spans are measured by the usual clock.
//!
//! Invariants
//!  - *one-clock*: the marks of a shard are all of one clock.
#![allow(unsafe_code, reason = "the instruction has no safe wrapper")]

use super::now_ns;
use crate::clock::Clock;
use std::cell::Cell;
use std::sync::OnceLock;

/// So many bits of a nanosecond are told of a tick.
const FRACTION_BITS: u32 = 32;

const _: () = assert!(FRACTION_BITS < u64::BITS, "one-clock: a tick has a part above its fraction");

/// How long ticks are counted to learn what one takes, in nanoseconds.
const MEASURED_NS: u64 = 500_000;

thread_local! {
    /// What a tick takes on this shard; 0: its marks are the usual clock's.
    static TICK: Cell<u64> = const { Cell::new(0) };
}

/// The marks of this thread are ticks from now on, if this processor has them.
pub(crate) fn begin() {
    static MEASURED: OnceLock<u64> = OnceLock::new();
    TICK.set(*MEASURED.get_or_init(measure));
}

/// They are not any more.
pub(crate) fn end() {
    TICK.set(0);
}

/// Now; see [`since`].
#[inline]
pub(crate) fn mark() -> u64 {
    if TICK.get() == 0 { now_ns() } else { counter() }
}

/// Nanoseconds since `mark`; 0 if it lies ahead.
#[inline]
pub(crate) fn since(mark: u64) -> u64 {
    match TICK.get() {
        0 => now_ns().saturating_sub(mark),
        tick => nanos(counter().saturating_sub(mark), tick),
    }
}

/// What so many ticks take.
#[inline]
fn nanos(ticks: u64, tick: u64) -> u64 {
    ((u128::from(ticks) * u128::from(tick)) >> FRACTION_BITS) as u64
}

/// What a tick takes, in parts of a nanosecond; 0: there is no such counter.
fn measure() -> u64 {
    if !runs_evenly() {
        return 0;
    }
    let (first_ns, first) = both();
    loop {
        let (ns, ticks) = both();
        debug_assert!(first_ns <= ns, "never-back: {first_ns} to {ns}");
        let (span_ns, span) = (ns - first_ns, ticks.saturating_sub(first));
        if MEASURED_NS <= span_ns {
            let tick = (u128::from(span_ns) << FRACTION_BITS).checked_div(u128::from(span));
            // One that is slower than a megahertz is no clock for what is measured here.
            return tick
                .and_then(|tick| u64::try_from(tick).ok())
                .filter(slow_at_most)
                .unwrap_or(0);
        }
    }
}

fn slow_at_most(tick: &u64) -> bool {
    *tick <= 1000 << FRACTION_BITS
}

/// Both clocks at the same time: as close together as a few tries come.
fn both() -> (u64, u64) {
    let look = |_| {
        let before = counter();
        let ns = Clock::Real.now_ns();
        let after = counter();
        (after.saturating_sub(before), ns, before / 2 + after / 2)
    };
    let (_, ns, ticks) = (0..8).map(look).min().expect("eight tries");
    (ns, ticks)
}

#[cfg(target_arch = "x86_64")]
fn runs_evenly() -> bool {
    use std::arch::x86_64::__cpuid;
    const EXTENDED: u32 = 0x8000_0000;
    const POWER: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    POWER <= __cpuid(EXTENDED).eax && __cpuid(POWER).edx & INVARIANT != 0
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: *valid-places* (of the driver): it touches no memory, and every processor of this
    // architecture has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn runs_evenly() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_turned_into_nanoseconds() {
        let check = |ticks: u64, nanos_of_tick: f64, expected: u64| {
            let tick = (nanos_of_tick * (1u64 << FRACTION_BITS) as f64) as u64;
            assert_eq!(nanos(ticks, tick), expected, "{ticks} of {nanos_of_tick}");
        };
        check(0, 0.5, 0);
        check(3_000, 0.5, 1_500);
        check(u64::MAX, 1.0, u64::MAX);
        check(10, 1000.0, 10_000);
    }

    #[test]
    fn both_clocks_tell_the_same_span() {
        begin();
        let (mark, started) = (mark(), Clock::Real.now_ns());
        let busy = || Clock::Real.now_ns() - started;
        while busy() < 2_000_000 {}
        let (least, told, most) = (busy(), since(mark), busy());
        end();
        // The mark is a little older than the other start, and 1 of 1000 may be off.
        let slack = 200_000;
        assert!(least <= told + slack && told <= most + slack, "{least} <= {told} <= {most}");
        assert_eq!(TICK.get(), 0);
    }
}
