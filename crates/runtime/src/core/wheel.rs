//! A hierarchical timer wheel: arming and cancelling cost a few stores, however many timers.
//!
//! A tick is 2^16 ns. Level `n` has 64 slots of `64^n` ticks; a timer sits in the lowest level
//! that reaches its tick and moves down as time comes closer.
//!
//! Invariants
//!  - *never-early*: a timer fires at the first advance whose time is at or after its deadline.
//!  - *next-is-a-bound*: no list fires or moves down before tick `next`.
//!  - *bit-means-list*: bit `s` of a level's map is set exactly when its slot `s` has a timer.
//!  - *ahead*: an armed timer is in a list, and its tick is after every tick that has fired.
//!  - *never-back*: time only moves forward.

use std::task::Waker;

const TICK_BITS: u32 = 16;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
const LEVELS: usize = 7;
const NONE: u32 = u32::MAX;

const _: () = assert!(SLOTS == u64::BITS as usize, "bit-means-list: a slot has a bit");
const _: () =
    assert!(TICK_BITS + SLOT_BITS * LEVELS as u32 <= u64::BITS, "ahead: a level is too far");

/// A timer of a wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerKey {
    index: u32,
    generation: u32,
}

#[derive(Debug)]
struct Timer {
    generation: u32,
    tick: u64,
    /// The list it is in: `level * SLOTS + slot`; `NONE` when free.
    list: u32,
    next: u32,
    previous: u32,
    waker: Option<Waker>,
}

#[derive(Debug)]
pub(crate) struct Wheel {
    timers: Vec<Timer>,
    free: u32,
    heads: Box<[u32]>,
    maps: [u64; LEVELS],
    /// Every tick up to this one has fired.
    now: u64,
    next: u64,
    len: usize,
}

impl Wheel {
    pub(crate) fn new(now_ns: u64) -> Wheel {
        Wheel {
            timers: Vec::new(),
            free: NONE,
            heads: vec![NONE; LEVELS * SLOTS].into_boxed_slice(),
            maps: [0; LEVELS],
            now: now_ns >> TICK_BITS,
            next: u64::MAX,
            len: 0,
        }
    }

    /// The number of timers.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Arms a timer.
    pub(crate) fn arm(&mut self, deadline_ns: u64, waker: Waker) -> TimerKey {
        // Rounded up; a tick that has fired already means the next one.
        let tick =
            (deadline_ns.saturating_add((1 << TICK_BITS) - 1) >> TICK_BITS).max(self.now + 1);
        let index = match self.free {
            NONE => {
                let blank = Timer {
                    generation: 0,
                    tick,
                    list: NONE,
                    next: NONE,
                    previous: NONE,
                    waker: None,
                };
                self.timers.push(blank);
                (self.timers.len() - 1) as u32
            }
            index => {
                self.free = self.timers[index as usize].next;
                index
            }
        };
        let timer = &mut self.timers[index as usize];
        debug_assert_eq!(timer.list, NONE, "ahead: timer {index} is armed already");
        timer.tick = tick;
        timer.waker = Some(waker);
        let generation = timer.generation;
        self.link(index);
        self.len += 1;
        debug_assert!(self.next <= tick, "next-is-a-bound: {} for {tick}", self.next);
        TimerKey { index, generation }
    }

    /// Whether the timer is still to fire; if so it wakes this waker.
    pub(crate) fn refresh(&mut self, key: TimerKey, waker: &Waker) -> bool {
        let timer = &mut self.timers[key.index as usize];
        if timer.generation != key.generation {
            return false;
        }
        debug_assert_ne!(timer.list, NONE, "ahead: a timer that waits is in no list");
        if !timer.waker.as_ref().is_some_and(|old| old.will_wake(waker)) {
            timer.waker = Some(waker.clone());
        }
        true
    }

    /// Disarms a timer, if it has not fired.
    pub(crate) fn cancel(&mut self, key: TimerKey) {
        if self.timers[key.index as usize].generation == key.generation {
            self.unlink(key.index);
            self.release(key.index);
        }
    }

    /// A lower bound of the next deadline, in nanoseconds; `None` without timers.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        if self.len == 0 { None } else { Some(self.next << TICK_BITS) }
    }

    /// Moves time forward and hands every due waker to `fire`.
    pub(crate) fn advance(&mut self, now_ns: u64, mut fire: impl FnMut(Waker)) {
        let target = now_ns >> TICK_BITS;
        debug_assert!(self.now <= target, "never-back: tick {} to {target}", self.now);
        while self.now < target {
            if target < self.next {
                self.now = target;
                return;
            }
            // The bound may be of a timer that was cancelled.
            let next = (0..LEVELS).filter_map(|level| self.next_tick(level)).min();
            self.next = next.unwrap_or(u64::MAX);
            if target < self.next {
                continue;
            }
            debug_assert!(self.now < self.next, "ahead: tick {} after {}", self.next, self.now);
            self.now = self.next;
            for level in (1..LEVELS).rev() {
                self.cascade(level);
            }
            let slot = (self.now & (SLOTS as u64 - 1)) as usize;
            while self.heads[slot] != NONE {
                let index = self.heads[slot];
                let tick = self.timers[index as usize].tick;
                debug_assert!(tick <= self.now, "never-early: tick {tick} at {}", self.now);
                self.unlink(index);
                let waker = self.timers[index as usize].waker.take();
                self.release(index);
                waker.into_iter().for_each(&mut fire);
            }
            let next = (0..LEVELS).filter_map(|level| self.next_tick(level)).min();
            self.next = next.unwrap_or(u64::MAX);
            debug_assert!(
                (self.len == 0) == (self.next == u64::MAX),
                "next-is-a-bound: {} of {} timers",
                self.next,
                self.len
            );
        }
    }

    /// The tick at which the first list of a level fires or moves down.
    fn next_tick(&self, level: usize) -> Option<u64> {
        let map = self.maps[level];
        if map == 0 {
            return None;
        }
        let shift = SLOT_BITS * level as u32;
        let position = self.now >> shift;
        let slot = (position & (SLOTS as u64 - 1)) as u32;
        // The present slot of a level holds nothing due now: it is a whole turn away.
        let ahead = map.rotate_right((slot + 1) % SLOTS as u32).trailing_zeros() as u64 + 1;
        debug_assert!(ahead <= SLOTS as u64, "next-is-a-bound: {ahead} slots ahead");
        Some((position + ahead) << shift)
    }

    /// Moves down what a level's present slot holds, if its time starts now.
    fn cascade(&mut self, level: usize) {
        let shift = SLOT_BITS * level as u32;
        if self.now & ((1u64 << shift) - 1) != 0 {
            return;
        }
        let slot = ((self.now >> shift) & (SLOTS as u64 - 1)) as usize;
        let list = level * SLOTS + slot;
        let mut index = std::mem::replace(&mut self.heads[list], NONE);
        debug_assert_eq!(
            index != NONE,
            self.maps[level] & 1 << slot != 0,
            "bit-means-list: slot {slot} of level {level}"
        );
        self.maps[level] &= !(1 << slot);
        while index != NONE {
            let next = self.timers[index as usize].next;
            debug_assert!(
                self.now <= self.timers[index as usize].tick,
                "ahead: a timer comes down after its tick"
            );
            self.link(index);
            debug_assert_ne!(
                self.timers[index as usize].list, list as u32,
                "next-is-a-bound: a timer stays in the list that is over"
            );
            index = next;
        }
    }

    fn link(&mut self, index: u32) {
        let tick = self.timers[index as usize].tick;
        let distance = tick.saturating_sub(self.now);
        let used = u64::BITS - distance.leading_zeros();
        let level = (used.saturating_sub(1) / SLOT_BITS) as usize;
        // What is further than the top level reaches waits in its last slot and is linked again.
        let top = LEVELS - 1;
        let (level, tick) = if top < level {
            (top, self.now + ((SLOTS as u64 - 1) << (SLOT_BITS * top as u32)))
        } else {
            (level, tick)
        };
        debug_assert!(level < LEVELS, "ahead: tick {tick} at {}", self.now);
        let shift = SLOT_BITS * level as u32;
        let slot = ((tick >> shift) & (SLOTS as u64 - 1)) as usize;
        self.next = self.next.min(tick >> shift << shift);
        let list = level * SLOTS + slot;
        let head = std::mem::replace(&mut self.heads[list], index);
        debug_assert_eq!(
            head != NONE,
            self.maps[level] & 1 << slot != 0,
            "bit-means-list: slot {slot} of level {level}"
        );
        if head != NONE {
            self.timers[head as usize].previous = index;
        }
        let timer = &mut self.timers[index as usize];
        (timer.list, timer.next, timer.previous) = (list as u32, head, NONE);
        self.maps[level] |= 1 << slot;
    }

    fn unlink(&mut self, index: u32) {
        let timer = &self.timers[index as usize];
        debug_assert_ne!(timer.list, NONE, "ahead: timer {index} is in no list");
        let (list, next, previous) = (timer.list as usize, timer.next, timer.previous);
        debug_assert!(
            previous != NONE || self.heads[list] == index,
            "ahead: timer {index} is not the first of its list"
        );
        debug_assert_ne!(
            self.maps[list / SLOTS] & 1 << (list % SLOTS),
            0,
            "bit-means-list: the list of timer {index}"
        );
        match previous {
            NONE => self.heads[list] = next,
            previous => self.timers[previous as usize].next = next,
        }
        if next != NONE {
            self.timers[next as usize].previous = previous;
        }
        if self.heads[list] == NONE {
            self.maps[list / SLOTS] &= !(1 << (list % SLOTS));
        }
    }

    fn release(&mut self, index: u32) {
        let free = std::mem::replace(&mut self.free, index);
        debug_assert!(0 < self.len, "ahead: more timers end than were armed");
        let timer = &mut self.timers[index as usize];
        timer.generation = timer.generation.wrapping_add(1);
        timer.waker = None;
        (timer.list, timer.next) = (NONE, free);
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests;
