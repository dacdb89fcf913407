//! Partitions that the cache does not know, read below one after the other and cached as they
//! pass.

use super::filler::Filler;
use super::{Progress, Reading, just_after, just_before};
use model::DecoratedKey;
use mutation::{ClusteringRange, Fragment, RingBound, Tombstone};
use reader::Source;
use std::collections::VecDeque;
use stdx::Bytes;

/// Of a partition in a range, at most this much is cached: one that is larger would take the
/// place of many others.
const PARTITION_BYTES_MAX: usize = 2 << 20;

/// One source below.
pub(super) struct Scan {
    source: Box<dyn Source>,
    wanted: Wanted,
    /// Up to here it was learnt which partitions there are.
    from: RingBound,
    /// Whether any partition came.
    came: bool,
    present: Option<Present>,
}

/// Which partitions a scan yields.
pub(super) enum Wanted {
    Only(DecoratedKey),
    /// Those before this bound.
    Until(RingBound),
}

/// The partition that the source is inside of.
struct Present {
    key: DecoratedKey,
    /// Its tombstone, until it is clear whether it has a static row.
    due: Option<Tombstone>,
    filler: Option<Filler>,
    /// What is asked for, in table order; `None`: what the slice says.
    ranges: Option<Vec<ClusteringRange>>,
    /// The source yields nothing more of it until it is forwarded.
    drained: bool,
}

impl Scan {
    /// Of a source of what lies between `from` and what is wanted.
    pub(super) fn new(source: Box<dyn Source>, from: RingBound, wanted: Wanted) -> Scan {
        Scan { source, wanted, from, came: false, present: None }
    }

    pub(super) fn step(&self) -> Progress {
        match &self.present {
            Some(present) if present.drained => Progress::End,
            _ => Progress::Below,
        }
    }

    pub(super) fn below(&mut self) -> &mut Box<dyn Source> {
        &mut self.source
    }

    /// Bytes of buffers.
    pub(super) fn memory_bytes(&self) -> usize {
        self.source.memory_bytes()
    }

    /// At the end: the source, if it can be forwarded to more partitions, and how far it came.
    pub(super) fn into_idle(self) -> Option<(Box<dyn Source>, RingBound)> {
        match self.wanted {
            Wanted::Only(_) => None,
            Wanted::Until(until) => {
                debug_assert!(self.present.is_none(), "nothing-lost: it ends in a partition");
                Some((self.source, until))
            }
        }
    }

    /// Takes what the source yielded; whether it may yield more.
    pub(super) fn digest(
        &mut self,
        reading: &Reading,
        batch: &mut Vec<Fragment>,
        ready: &mut VecDeque<Fragment>,
    ) -> bool {
        if batch.is_empty() {
            return self.digest_nothing(reading);
        }
        for fragment in batch.drain(..) {
            self.pass(reading, &fragment);
            if reading.slice.with_static || !matches!(fragment, Fragment::StaticRow { .. }) {
                ready.push_back(fragment);
            }
        }
        true
    }

    /// A fragment came.
    pub(super) fn pass(&mut self, reading: &Reading, fragment: &Fragment) {
        match fragment {
            Fragment::PartitionStart { key, tombstone } => {
                let ranges = reading.slice.forwarding.then(Vec::new);
                let (key, due) = (key.clone(), Some(*tombstone));
                let (filler, drained) = (None, false);
                debug_assert!(self.present.is_none(), "a partition within another: {key:?}");
                debug_assert!(
                    match &self.wanted {
                        Wanted::Only(wanted) => *wanted == key,
                        Wanted::Until(until) => until.place(key.token, &key.key).is_lt(),
                    },
                    "in-order: {key:?} was not asked for"
                );
                debug_assert!(self.from.place(key.token, &key.key).is_gt(), "in-order: {key:?}");
                self.came = true;
                self.present = Some(Present { key, due, filler, ranges, drained });
            }
            Fragment::StaticRow { row } => {
                debug_assert!(self.present.is_some(), "in-order: a static row of no partition");
                self.made(reading, Some(row));
            }
            Fragment::Row { .. } | Fragment::RangeTombstoneChange { .. } => {
                debug_assert!(self.present.is_some(), "in-order: {fragment:?} of no partition");
                self.made(reading, None);
                if let Some(Present { filler: Some(filler), .. }) = &mut self.present {
                    filler.fragment(reading, fragment);
                }
                reading.count_read(fragment);
            }
            Fragment::PartitionEnd => {
                self.made(reading, None);
                self.leave(reading, Filler::finish);
            }
        }
    }

    /// The source is at its end, or at that of what was asked for of a partition.
    pub(super) fn digest_nothing(&mut self, reading: &Reading) -> bool {
        self.made(reading, None);
        if let Some(present) = &mut self.present {
            debug_assert!(reading.slice.forwarding, "nothing-lost: {:?} has no end", present.key);
            present.filler.iter_mut().for_each(Filler::finish);
            present.drained = true;
            return true;
        }
        match &self.wanted {
            Wanted::Only(key) if !self.came => reading.nothing_came(key),
            Wanted::Only(_) => {}
            Wanted::Until(until) => reading.continuous(&self.from, until),
        }
        false
    }

    /// The head of the present partition has come, with that static row or none: what comes of
    /// its rows can be cached.
    fn made(&mut self, reading: &Reading, static_row: Option<&Bytes>) {
        let Some(present) = &mut self.present else { return };
        let Some(tombstone) = present.due.take() else { return };
        let bytes_max = match self.wanted {
            Wanted::Only(_) => usize::MAX,
            Wanted::Until(_) if reading.knows(&present.key) => return,
            Wanted::Until(_) => PARTITION_BYTES_MAX,
        };
        let static_row = || static_row.cloned().unwrap_or_default();
        let populate = reading.populate(&present.key, tombstone, static_row);
        let ranges = present.ranges.as_ref().unwrap_or(&reading.slice.ranges);
        present.filler = populate.map(|populate| Filler::new(reading, populate, ranges, bytes_max));
    }

    /// The present partition is done: `end` says how to leave it to the cache.
    fn leave(&mut self, reading: &Reading, end: impl FnOnce(&mut Filler)) {
        let Some(mut present) = self.present.take() else { return };
        if let Some(mut filler) = present.filler.take() {
            end(&mut filler);
        }
        if let Wanted::Until(_) = self.wanted {
            reading.continuous(&self.from, &just_before(&present.key));
            self.from = just_after(&present.key);
        }
    }

    /// Goes on with the next partition.
    pub(super) fn next_partition(&mut self, reading: &Reading) {
        if self.present.is_some() {
            self.leave(reading, |_| {});
            self.source.next_partition();
        }
    }

    /// Goes on with these ranges of the present partition, in table order; `asked` is what they
    /// are part of.
    pub(super) fn forward_rows(&mut self, asked: ClusteringRange, ranges: Vec<ClusteringRange>) {
        let Some(present) = &mut self.present else { return };
        // Without knowing whether there is a static row nothing is cached.
        present.due = None;
        present.filler.iter_mut().for_each(|filler| filler.expect(&ranges));
        (present.ranges, present.drained) = (Some(ranges), false);
        self.source.forward_rows(asked);
    }

    /// The source broke.
    pub(super) fn discard(&mut self) {
        if let Some(filler) = self.present.take().and_then(|present| present.filler) {
            filler.discard();
        }
    }
}
