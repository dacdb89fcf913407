//! Which disk request goes next: a fair queue over the classes of one shard, and its figures.
//!
//! A request costs 4096 plus its bytes, written ones twice; the class with the least cost per
//! share goes next. With room at the disk and nobody waiting a request passes at once.
//!
//! Invariants
//!  - *bounded-in-flight*: at most `in_flight_max` requests are at the kernel.

use super::ops::{Op, OpId};
use crate::io::{IoClass, IoStats};
use std::collections::VecDeque;

/// What a disk request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskKind {
    Read,
    Write,
    Sync,
}

impl Op {
    pub(crate) fn disk_kind(&self) -> DiskKind {
        match self {
            Op::Read { .. } => DiskKind::Read,
            Op::Write { .. } => DiskKind::Write,
            _ => DiskKind::Sync,
        }
    }
}

struct ClassState {
    waiting: VecDeque<(OpId, u64)>,
    /// Cost x 1024 / shares.
    used: u64,
    shares: u64,
    stats: IoStats,
}

pub(crate) struct IoQueue {
    classes: [ClassState; IoClass::ALL.len()],
    in_flight: usize,
    /// The most that were in flight since somebody asked.
    in_flight_peak: usize,
    in_flight_max: usize,
    waiting: usize,
    floor: u64,
}

impl IoQueue {
    pub(crate) fn new(in_flight_max: usize) -> IoQueue {
        let state = |shares| ClassState {
            waiting: VecDeque::new(),
            used: 0,
            shares,
            stats: IoStats::default(),
        };
        // In the order of the classes: commitlog, flush, compaction, query, streaming, system.
        let classes = [1000, 400, 200, 1000, 200, 400].map(state);
        let in_flight_max = in_flight_max.max(1);
        IoQueue { classes, in_flight: 0, in_flight_peak: 0, in_flight_max, waiting: 0, floor: 0 }
    }

    /// Counts a request; whether it may go to the kernel at once.
    pub(crate) fn admit(&mut self, class: IoClass, kind: DiskKind, bytes: usize) -> bool {
        let free = self.in_flight < self.in_flight_max && self.waiting == 0;
        let floor = self.floor;
        let class = &mut self.classes[class as usize];
        count(&mut class.stats, kind, bytes);
        if free {
            class.used = class.used.max(floor) + cost(kind, bytes) * 1024 / class.shares;
            class.stats.in_flight += 1;
            self.started();
        }
        free
    }

    /// Lets a counted request wait.
    pub(crate) fn push(&mut self, class: IoClass, id: OpId, kind: DiskKind, bytes: usize) {
        let floor = self.floor;
        let class = &mut self.classes[class as usize];
        if class.waiting.is_empty() {
            class.used = class.used.max(floor);
        }
        class.waiting.push_back((id, cost(kind, bytes)));
        class.stats.queued += 1;
        self.waiting += 1;
    }

    /// The next request that may go, counted as in flight.
    pub(crate) fn pop(&mut self) -> Option<(IoClass, OpId)> {
        if self.in_flight_max <= self.in_flight || self.waiting == 0 {
            return None;
        }
        let ready =
            IoClass::ALL.into_iter().filter(|c| !self.classes[*c as usize].waiting.is_empty());
        let class = ready.min_by_key(|class| self.classes[*class as usize].used)?;
        let state = &mut self.classes[class as usize];
        let (id, cost) = state.waiting.pop_front()?;
        self.floor = self.floor.max(state.used);
        state.used += cost * 1024 / state.shares;
        state.stats.queued -= 1;
        state.stats.in_flight += 1;
        self.waiting -= 1;
        self.started();
        Some((class, id))
    }

    fn started(&mut self) {
        self.in_flight += 1;
        self.in_flight_peak = self.in_flight_peak.max(self.in_flight);
    }

    /// The most requests that were in flight at once since the last call.
    pub(crate) fn take_peak(&mut self) -> usize {
        std::mem::replace(&mut self.in_flight_peak, self.in_flight)
    }

    /// A popped request waited for so long.
    pub(crate) fn waited(&mut self, class: IoClass, ns: u64) {
        self.classes[class as usize].stats.queue_ns += ns;
    }

    /// A popped request was given up before it went: as if it had never been.
    pub(crate) fn abandon(&mut self, class: IoClass, kind: DiskKind, bytes: usize) {
        let stats = &mut self.classes[class as usize].stats;
        stats.in_flight -= 1;
        self.in_flight -= 1;
        match kind {
            DiskKind::Read => {
                (stats.reads, stats.read_bytes) = (stats.reads - 1, stats.read_bytes - bytes as u64)
            }
            DiskKind::Write => {
                (stats.writes, stats.write_bytes) =
                    (stats.writes - 1, stats.write_bytes - bytes as u64)
            }
            DiskKind::Sync => stats.syncs -= 1,
        }
    }

    /// A request has ended.
    pub(crate) fn ended(&mut self, class: IoClass, service_ns: u64) {
        let stats = &mut self.classes[class as usize].stats;
        stats.in_flight -= 1;
        stats.service_ns += service_ns;
        self.in_flight -= 1;
    }

    pub(crate) fn stats(&self, class: IoClass) -> IoStats {
        self.classes[class as usize].stats
    }

    pub(crate) fn set_shares(&mut self, class: IoClass, shares: u32) {
        self.classes[class as usize].shares = shares.max(1) as u64;
    }
}

fn count(stats: &mut IoStats, kind: DiskKind, bytes: usize) {
    match kind {
        DiskKind::Read => {
            stats.reads += 1;
            stats.read_bytes += bytes as u64;
        }
        DiskKind::Write => {
            stats.writes += 1;
            stats.write_bytes += bytes as u64;
        }
        DiskKind::Sync => stats.syncs += 1,
    }
}

fn cost(kind: DiskKind, bytes: usize) -> u64 {
    let bytes = bytes as u64;
    match kind {
        DiskKind::Read => 4096 + bytes,
        DiskKind::Write => 4096 + 2 * bytes,
        DiskKind::Sync => 4096,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_beyond_the_limit_wait_and_share() {
        let mut queue = IoQueue::new(4);
        let mut next = 0;
        let mut ask = |queue: &mut IoQueue, class| {
            next += 1;
            if !queue.admit(class, DiskKind::Read, 4096) {
                queue.push(class, OpId(next), DiskKind::Read, 4096);
            }
        };
        for _ in 0..300 {
            ask(&mut queue, IoClass::Query);
            ask(&mut queue, IoClass::Compaction);
        }
        let total =
            |queue: &IoQueue| IoClass::ALL.map(|c| queue.stats(c).in_flight).iter().sum::<u64>();
        assert_eq!(total(&queue), 4);
        assert_eq!(queue.take_peak(), 4);
        assert_eq!(queue.pop(), None);
        queue.ended(IoClass::Query, 10);
        queue.ended(IoClass::Compaction, 10);
        let mut went = [0; IoClass::ALL.len()];
        for _ in 0..120 {
            let (class, _) = queue.pop().expect("requests wait");
            went[class as usize] += 1;
            assert!(total(&queue) <= 4);
            queue.ended(class, 10);
        }
        // 1000 shares against 200.
        let (query, compaction) =
            (went[IoClass::Query as usize], went[IoClass::Compaction as usize]);
        assert!((98..=102).contains(&query), "{query} and {compaction}");
        let stats = queue.stats(IoClass::Query);
        assert_eq!((stats.reads, stats.read_bytes), (300, 300 * 4096));
    }

    #[test]
    fn a_request_given_up_leaves_no_trace() {
        let mut queue = IoQueue::new(1);
        assert!(queue.admit(IoClass::Flush, DiskKind::Write, 100));
        assert!(!queue.admit(IoClass::Flush, DiskKind::Write, 7));
        queue.push(IoClass::Flush, OpId(1), DiskKind::Write, 7);
        queue.ended(IoClass::Flush, 1);
        assert_eq!(queue.pop(), Some((IoClass::Flush, OpId(1))));
        queue.abandon(IoClass::Flush, DiskKind::Write, 7);
        let expected = IoStats { writes: 1, write_bytes: 100, service_ns: 1, ..IoStats::default() };
        assert_eq!(queue.stats(IoClass::Flush), expected);
        assert!(queue.admit(IoClass::Query, DiskKind::Read, 1));
    }
}
