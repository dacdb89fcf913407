//! The partitions of a table over all shards of a node, as one stream: a reader per shard, each
//! visited when its tablets' turn comes, or the pieces that it has of a ring without tablets.
//!
//! Between two visits a reader is at rest: its shard may take its memory away, and makes it again
//! from its place at the next one. So a visit should bring just what is needed: the consumer's
//! budget, or the shard's part of it, goes with it as the *hint*. Without, a visit fills a buffer
//! of a fixed size. A fill goes on until the budget is spent.
//!
//! Invariants
//!  - *one-owner*: a token belongs to one shard; what another shard yields of it is not seen.
//!  - *bounded*: per shard at most one visit is under way, and at most what it was asked for, and
//!    a fragment more, lies in the buffer.
//!  - *progress*: a visit brings a fragment, or says that there is none.
//!  - *one-permit*: a visit holds a permit of its own shard alone. Nobody who holds one waits for
//!    another shard.
//!
//! In reading order: [`ShardReader`], [`MultishardSource`]; [`wire`].

#[cfg(test)]
mod tests;
pub mod wire;

use crate::place::{At, Place};
use crate::{Budget, LocalFuture, PartitionScope, ReadError, Slice, Source};
use model::{TabletMap, Token};
use mutation::{ClusteringRange, Fragment, RingBound};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

/// One shard's reader, wherever it runs.
pub trait ShardReader {
    /// Reads from `place` on what the shard has, until there are `bytes_max` bytes or nothing
    /// more, at least one fragment where there is one. Dropping the future abandons what was read.
    fn visit(&self, place: &Place, bytes_max: usize) -> VisitFuture;
}

/// A visit under way.
pub type VisitFuture = LocalFuture<'static, Result<Visited, ReadError>>;

/// What a visit brought.
#[derive(Debug)]
pub struct Visited {
    pub fragments: Vec<Fragment>,
    /// Nothing more comes: of what the place names, or of what was asked for of its partition.
    pub at_end: bool,
}

/// How much a visit brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// What the consumer's budget needs of the shard: the hint.
    Hint,
    /// A buffer of so many bytes, whatever the consumer needs.
    Buffer(usize),
}

/// Whether shards are visited before their turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAhead {
    Off,
    /// While one is waited for, the next one in ring order is visited.
    NextShard,
}

/// How a multishard source reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultishardOptions {
    pub demand: Demand,
    pub read_ahead: ReadAhead,
}

impl MultishardOptions {
    /// Each shard once, for as much as is needed.
    pub const EXACT: MultishardOptions =
        MultishardOptions { demand: Demand::Hint, read_ahead: ReadAhead::Off };
}

/// The least that a visit is asked for: it costs a trip, however little it brings.
const VISIT_BYTES_MIN: usize = 4 << 10;

/// See the module.
pub struct MultishardSource {
    map: Rc<TabletMap>,
    end: RingBound,
    /// The tablet at hand, or the piece of a ring; after the last one, the end.
    tablet: usize,
    shards: Vec<ShardState>,
    options: MultishardOptions,
    /// Whether the consumer is inside a partition.
    inside: bool,
    /// Bytes yielded of the tablet at hand, and of a tablet on average.
    tablet_bytes: usize,
    tablet_bytes_mean: usize,
}

struct ShardState {
    reader: Box<dyn ShardReader>,
    /// Behind what is in the buffer.
    place: Place,
    buffer: VecDeque<Fragment>,
    visit: Option<VisitFuture>,
    /// It has nothing more, or nothing more of the partition until it is forwarded.
    drained: bool,
}

impl ShardState {
    fn is_hungry(&self) -> bool {
        self.buffer.is_empty() && !self.drained
    }

    /// Starts a visit unless one is under way, and looks whether it has ended.
    fn poll(&mut self, bytes_max: usize, cx: &mut Context<'_>) -> Poll<Result<(), ReadError>> {
        debug_assert!(self.is_hungry(), "bounded: visited with {} left", self.buffer.len());
        let (reader, place) = (&self.reader, &self.place);
        let visit = self.visit.get_or_insert_with(|| reader.visit(place, bytes_max));
        let Poll::Ready(visited) = visit.as_mut().poll(cx) else { return Poll::Pending };
        self.visit = None;
        let Visited { fragments, at_end } = visited?;
        debug_assert!(at_end || !fragments.is_empty(), "progress: {:?}", self.place.at);
        self.drained = at_end;
        self.place.advance(&fragments);
        if self.drained && !matches!(self.place.at, At::Inside(_)) {
            self.place.at = At::End;
        }
        self.buffer.extend(fragments);
        Poll::Ready(Ok(()))
    }

    /// Drops what is left of the present partition.
    fn next_partition(&mut self) {
        while let Some(fragment) = self.buffer.pop_front() {
            if let Fragment::PartitionEnd = fragment {
                return;
            }
        }
        debug_assert!(self.buffer.is_empty(), "bounded: {} of a left partition", self.buffer.len());
        self.place.leave_partition();
        (self.visit, self.drained) = (None, false);
    }

    fn head(&self) -> Option<Token> {
        match self.buffer.front() {
            Some(Fragment::PartitionStart { key, .. }) => Some(key.token),
            _ => None,
        }
    }
}

/// What the next step needs.
enum Step {
    Enough,
    /// This shard has to be visited.
    Visit(usize),
    End,
}

impl MultishardSource {
    /// The partitions between two bounds of the shards that `map` names. `readers`: one per shard,
    /// in their order.
    pub fn new(
        map: Rc<TabletMap>,
        (start, end): (RingBound, RingBound),
        slice: Slice,
        readers: Vec<Box<dyn ShardReader>>,
        options: MultishardOptions,
    ) -> MultishardSource {
        let served = map.shards().iter().all(|shard| (*shard as usize) < readers.len());
        assert!(served, "*one-owner*: a shard without a reader");
        debug_assert!(start.token <= end.token, "from {start:?} to {end:?}");
        let scope = PartitionScope::Range { start: start.clone(), end: end.clone() };
        let shard = |reader| ShardState {
            reader,
            place: Place::new(scope.clone(), slice.clone()),
            buffer: VecDeque::new(),
            visit: None,
            drained: false,
        };
        let shards = readers.into_iter().map(shard).collect();
        let tablet = map.stretch_of(start.token);
        MultishardSource {
            map,
            end,
            tablet,
            shards,
            options,
            inside: false,
            tablet_bytes: 0,
            tablet_bytes_mean: 0,
        }
    }

    fn owner(&self) -> usize {
        debug_assert!(self.tablet < self.map.stretches(), "one-owner: past the last tablet");
        self.map.stretch_shard(self.tablet) as usize
    }

    /// Whether the tablet at hand is in range.
    fn in_range(&self) -> bool {
        if self.map.stretches() <= self.tablet {
            return false;
        }
        let (after, _) = self.map.stretch_range(self.tablet);
        self.tablet == 0 || after < self.end.token
    }

    /// Yields what is buffered.
    fn run(&mut self, budget: &mut Budget, out: &mut Vec<Fragment>) -> Step {
        while self.in_range() {
            let (_, last) = self.map.stretch_range(self.tablet);
            let owner = self.owner();
            let shard = &mut self.shards[owner];
            if self.inside {
                let Some(fragment) = shard.buffer.pop_front() else {
                    return if shard.drained { Step::Enough } else { Step::Visit(owner) };
                };
                self.inside = !matches!(fragment, Fragment::PartitionEnd);
                self.tablet_bytes += fragment.size_bytes();
                let more = budget.spend(&fragment);
                out.push(fragment);
                if !more {
                    return Step::Enough;
                }
                continue;
            }
            if shard.is_hungry() {
                return Step::Visit(owner);
            }
            match shard.head() {
                Some(token) if token <= last => {
                    debug_assert!(
                        self.map.stretch_of(token) == self.tablet,
                        "one-owner: {token:?} in tablet {}",
                        self.tablet
                    );
                    self.inside = true;
                }
                _ => self.next_tablet(),
            }
        }
        Step::End
    }

    fn next_tablet(&mut self) {
        debug_assert!(!self.inside, "one-owner: tablet {} left inside", self.tablet);
        let seen = std::mem::take(&mut self.tablet_bytes);
        self.tablet_bytes_mean = match self.tablet_bytes_mean {
            0 => seen,
            mean => (7 * mean + seen) / 8,
        };
        self.tablet += 1;
    }

    /// What to ask of the shard at hand, to visit it once for a batch of `asked`, of which `left`
    /// is still to come: all of it, or its part where the batch spans tablets of several shards.
    fn share(&self, asked: usize, left: usize) -> usize {
        debug_assert!(left <= asked, "more is left than was asked for");
        let tablets = asked.div_ceil(self.tablet_bytes_mean.max(1)).max(1);
        let last = self.tablet.saturating_add(tablets).min(self.map.stretches());
        let in_range = |index: &usize| self.map.stretch_range(*index).0 < self.end.token;
        let mut sharing = vec![false; self.shards.len()];
        let mut count = 0;
        for index in (self.tablet..last).take_while(in_range) {
            let shard = self.map.stretch_shard(index) as usize;
            count += !std::mem::replace(&mut sharing[shard], true) as usize;
            if count == self.shards.len() {
                break;
            }
        }
        debug_assert!(count <= self.shards.len(), "one-owner: {count} shards share a batch");
        if count <= 1 { left } else { asked / count }
    }

    /// The shard of the next tablet in range that is another one's and has to be visited.
    fn next_hungry(&self, owner: usize) -> Option<usize> {
        let tablets = self.tablet + 1..self.map.stretches();
        let in_range = |index: &usize| self.map.stretch_range(*index).0 < self.end.token;
        debug_assert!(owner < self.shards.len(), "one-owner: shard {owner}");
        let mut shards =
            tablets.take_while(in_range).map(|index| self.map.stretch_shard(index) as usize);
        let next = shards.find(|shard| *shard != owner)?;
        self.shards[next].is_hungry().then_some(next)
    }

    fn visit_bytes(&self, asked: &Budget, left: &Budget) -> usize {
        match self.options.demand {
            Demand::Hint => self.share(asked.bytes_max, left.bytes_max).max(VISIT_BYTES_MIN),
            Demand::Buffer(bytes) => bytes,
        }
    }

    /// Polls the visit of `shard`, and starts the one after it.
    fn poll_visit(
        &mut self,
        shard: usize,
        bytes: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), ReadError>> {
        if self.options.read_ahead == ReadAhead::NextShard
            && let Some(next) = self.next_hungry(shard)
            && self.shards[next].visit.is_none()
        {
            let state = &mut self.shards[next];
            debug_assert!(next != shard && state.is_hungry(), "bounded: shard {next} read ahead");
            state.visit = Some(state.reader.visit(&state.place, bytes));
        }
        for (index, state) in self.shards.iter_mut().enumerate() {
            if let Some(visit) = state.visit.as_mut().filter(|_| index != shard)
                && let Poll::Ready(done) = visit.as_mut().poll(cx)
            {
                // What came of it is seen when its turn comes, errors too.
                state.visit = Some(Box::pin(std::future::ready(done)));
            }
        }
        self.shards[shard].poll(bytes, cx)
    }
}

impl Source for MultishardSource {
    fn try_fill(
        &mut self,
        mut budget: Budget,
        out: &mut Vec<Fragment>,
    ) -> Option<Result<(), ReadError>> {
        let before = out.len();
        match self.run(&mut budget, out) {
            Step::Visit(_) if before == out.len() => None,
            _ => Some(Ok(())),
        }
    }

    fn fill<'a>(
        &'a mut self,
        mut budget: Budget,
        out: &'a mut Vec<Fragment>,
    ) -> LocalFuture<'a, Result<(), ReadError>> {
        Box::pin(async move {
            let asked = budget;
            while let Step::Visit(shard) = self.run(&mut budget, out) {
                let bytes = self.visit_bytes(&asked, &budget);
                poll_fn(|cx| self.poll_visit(shard, bytes, cx)).await?;
            }
            Ok(())
        })
    }

    fn next_partition(&mut self) {
        if std::mem::take(&mut self.inside) {
            let owner = self.owner();
            self.shards[owner].next_partition();
        }
    }

    fn forward_partitions(&mut self, start: &RingBound, end: &RingBound) {
        self.inside = false;
        self.tablet = self.map.stretch_of(start.token);
        self.end = end.clone();
        for shard in &mut self.shards {
            shard.place.forward_partitions(start, end);
            shard.buffer.clear();
            (shard.visit, shard.drained) = (None, false);
        }
    }

    fn forward_rows(&mut self, range: ClusteringRange) {
        if self.inside {
            let owner = self.owner();
            let shard = &mut self.shards[owner];
            shard.place.forward_rows(range);
            shard.buffer.clear();
            (shard.visit, shard.drained) = (None, false);
        }
    }

    fn memory_bytes(&self) -> usize {
        let buffers = self.shards.iter().flat_map(|shard| &shard.buffer);
        buffers.map(Fragment::size_bytes).sum()
    }
}
