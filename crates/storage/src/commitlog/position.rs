//! Places in a log.

use std::fmt;

/// The identity of a segment: the shard in the upper 10 bits, an ascending base in the others.
///
/// Invariants
///  - *ids-ascend*: a new segment's base is above that of every segment found at start, and of
///    those that truncations were at (`files::mark`): so no id is ever used twice, and none seems
///    to be older than a truncation before it, whatever the clock says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u64);

const BASE_BITS: u32 = 54;

impl SegmentId {
    /// The id of shard `shard` with base `base`. Panics for a shard over 1023.
    pub fn new(shard: u16, base: u64) -> SegmentId {
        assert!(shard < 1 << 10 && base < 1 << BASE_BITS, "segment id out of range");
        SegmentId(((shard as u64) << BASE_BITS) | base)
    }
    /// The shard that wrote the segment.
    pub fn shard(self) -> u16 {
        (self.0 >> BASE_BITS) as u16
    }
    /// The part that ascends from segment to segment.
    pub fn base(self) -> u64 {
        self.0 & ((1 << BASE_BITS) - 1)
    }
}

/// Where an entry starts: comparable within one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplayPosition {
    /// The segment.
    pub segment: SegmentId,
    /// Offset in the file of the entry's first byte.
    pub offset: u32,
}

impl fmt::Display for ReplayPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.segment.0, self.offset)
    }
}

/// How many entries of each segment something holds; few segments, mostly one.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldEntries {
    pub(crate) counts: Vec<(SegmentId, u64)>,
}

impl HeldEntries {
    pub(crate) fn add(&mut self, segment: SegmentId, count: u64) {
        debug_assert!(0 < count, "nothing of {segment:?} is held");
        match self.counts.iter_mut().rev().find(|(id, _)| *id == segment) {
            Some((_, held)) => *held += count,
            None => self.counts.push((segment, count)),
        }
    }
}
