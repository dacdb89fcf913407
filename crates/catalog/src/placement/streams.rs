//! The streams of a table with tablets, and those of a ring: their ranges, and names that are where
//! their writes are. Pure.
//!
//! Invariants
//!  - *together*: the partition of a stream is on the same tablet, or in the same range of the ring
//!    and on the same shard, as the writes that go to it; where such a name was not found in
//!    [`TRIES`] or so, it is elsewhere, and log rows go there.
//!  - *bounded*: a name is searched for so long at most, all names of a set no longer.

use super::ring::Ring;
use super::tablets::TabletReplicas;
use crate::streams::{StreamId, StreamSet};
use model::{Sharder, Token};
use stdx::prng::Prng;

/// Names that are tried for all streams of a set together, at most.
const TRIES: usize = 1 << 24;
/// For one of them.
const TRIES_OF_ONE: usize = 1 << 16;
/// More streams of a ring are not made: then ranges have one each.
const STREAMS_MAX: usize = 1 << 16;

/// A search for names.
#[derive(Debug)]
struct Search {
    random: Prng,
    /// Names to try for each stream.
    tries: usize,
}

impl Search {
    fn new(seed: u64, streams: usize) -> Search {
        assert!(0 < streams, "bounded: a set without streams");
        let tries = (TRIES / streams).clamp(1, TRIES_OF_ONE);
        Search { random: Prng::from_seed(seed), tries }
    }

    /// A name with its partition at a token that is `wanted`, if one is found.
    fn find(&mut self, token: Token, index: u32, wanted: impl Fn(Token) -> bool) -> StreamId {
        let mut last = StreamId::new(token, index, self.random.next_u64());
        for _ in 1..self.tries {
            if wanted(last.partition()) {
                break;
            }
            last = StreamId::new(token, index, self.random.next_u64());
        }
        last
    }
}

/// A set for a table with these tablets, whose log has those.
pub(crate) fn of_tablets(
    base: &TabletReplicas,
    log: &TabletReplicas,
    since_millis: i64,
    seed: u64,
) -> StreamSet {
    assert!(!base.is_empty() && !log.is_empty(), "together: tablets of a ring");
    let mut search = Search::new(seed, base.count());
    let ranges = base.last_tokens().iter().map(|last| {
        let tablet = log.tablet_of(*last);
        let stream = search.find(*last, 0, |token| log.tablet_of(token) == tablet);
        (*last, vec![stream])
    });
    StreamSet::new(since_millis, ranges.collect())
}

/// Whether a set is one of a table with these tablets.
pub(crate) fn is_of_tablets(set: &StreamSet, tablets: &TabletReplicas) -> bool {
    debug_assert!(!tablets.is_empty(), "together: tablets of a ring");
    set.ranges().map(|(last, _)| last).eq(tablets.last_tokens().iter().copied())
}

/// A set for a node that is alone, with so many shards, and whose ring has one range.
pub(crate) fn of_one(shards: u16, since_millis: i64, seed: u64) -> StreamSet {
    let search = Search::new(seed, shards.into());
    let mut making = Making { search, streams: vec![shards], ranges: Vec::new() };
    making.range(Token::MIN, Token::MAX, 0, shards);
    StreamSet::new(since_millis, making.ranges)
}

/// Whether a set is one of that ring.
pub fn is_of_ring(set: &StreamSet, ring: &Ring) -> bool {
    let has = set.ranges().map(|(last, streams)| (last, streams.len()));
    debug_assert!(ring.points().is_sorted(), "together: a ring out of order");
    let streams = streams_of(ring).into_iter().map(usize::from);
    debug_assert!(streams.len() == ring.points().len(), "together: a range without streams");
    has.eq(ring.points().iter().map(|(token, _)| *token).zip(streams))
}

/// How many streams each range has: one for each shard of its owner.
fn streams_of(ring: &Ring) -> Vec<u16> {
    let shards = |(_, owner): &(Token, u16)| ring.members()[usize::from(*owner)].shards;
    let all: Vec<u16> = ring.points().iter().map(shards).collect();
    match STREAMS_MAX < all.iter().copied().map(usize::from).sum() {
        true => vec![1; all.len()],
        false => all,
    }
}

/// A set for a ring, while it is made: range by range, for whoever makes it has other things to do.
#[derive(Debug)]
pub struct Making {
    search: Search,
    /// Of each range, how many streams it has.
    streams: Vec<u16>,
    ranges: Vec<(Token, Vec<StreamId>)>,
}

impl Making {
    /// Begins with nothing.
    pub fn new(ring: &Ring, seed: u64) -> Making {
        assert!(!ring.points().is_empty(), "together: streams of a ring without nodes");
        let streams = streams_of(ring);
        let count = streams.iter().copied().map(usize::from).sum();
        Making { search: Search::new(seed, count), streams, ranges: Vec::new() }
    }

    /// Makes the streams of one more range; `false`: all ranges of this ring have some.
    pub fn step(&mut self, ring: &Ring) -> bool {
        let at = self.ranges.len();
        let Some((last, _)) = ring.points().get(at) else { return false };
        let before = at.checked_sub(1).or(ring.points().len().checked_sub(1));
        let after = before.map_or(*last, |before| ring.points()[before].0);
        self.range(after, *last, at as u32, self.streams[at]);
        true
    }

    /// The set.
    pub fn finish(self, since_millis: i64) -> StreamSet {
        let (made, all) = (self.ranges.len(), self.streams.len());
        assert!(made == all, "together: streams of {made} of {all} ranges");
        StreamSet::new(since_millis, self.ranges)
    }

    /// The streams of a range: after the first token, up to the second, around the end of the ring
    /// where that is not greater.
    fn range(&mut self, after: Token, last: Token, index: u32, shards: u16) {
        assert!(0 < shards, "together: a range of a node without shards");
        let sharder = Sharder::of_node(shards);
        let width = last.biased().wrapping_sub(after.biased());
        let within = |token: Token| {
            let at = token.biased().wrapping_sub(after.biased());
            width == 0 || (0 < at && at <= width)
        };
        let stream = |shard: u16| {
            let wanted = |token: Token| within(token) && sharder.shard_of(token) == shard;
            // Any token of its writes; where there is none, nothing is written to it.
            let mut token = last;
            for _ in 0..TOKENS_TRIED {
                if wanted(token) {
                    break;
                }
                let by = match width {
                    0 => self.search.random.next_u64(),
                    width => 1 + self.search.random.below(width),
                };
                token = Token::from_biased(after.biased().wrapping_add(by));
            }
            let token = if wanted(token) { token } else { last };
            self.search.find(token, index, wanted)
        };
        let streams = (0..shards).map(stream).collect();
        self.ranges.push((last, streams));
    }
}

/// Tokens of a range that are tried for one of a shard.
const TOKENS_TRIED: usize = 1 << 12;

#[cfg(test)]
mod tests;
