//! A source that can be given up between two fills and is made again where it stood.
//!
//! Invariants
//!  - *same-stream*: over data that does not change, the consumer sees the same rows and the same
//!    range tombstones whenever, and however often, the source is given up. Over data that does
//!    change the stream stays well-formed (*paired* and *ascending* of [`crate::place`]).
//!  - *one-ahead*: what was read and not yielded is lost with the source, never yielded twice.

use crate::place::{At, Place, Rest};
use crate::{Budget, LocalFuture, PartitionScope, ReadError, Slice, Source};
use model::ClusteringOrder;
use mutation::{ClusteringRange, Fragment, RingBound, Tombstone};
use std::collections::VecDeque;
use std::rc::Rc;

/// Opens a source of some partitions.
pub type OpenSource = Box<dyn FnMut(&PartitionScope, &Slice) -> Result<Box<dyn Source>, ReadError>>;

/// See the module. Opens its source when it is first filled.
pub struct EvictableSource {
    order: Rc<ClusteringOrder>,
    open: OpenSource,
    place: Place,
    source: Option<Box<dyn Source>>,
    /// The source has only the partition at hand.
    only_rest: bool,
    /// How far a source that was made again has come to where the stream stands.
    catching_up: CatchUp,
    /// What it yielded while it caught up, for the consumer.
    pending: VecDeque<Fragment>,
    /// For filling: empty in between.
    batch: Vec<Fragment>,
}

/// A new source repeats the start of the partition, and opens again what is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CatchUp {
    /// It stands where the stream does.
    Done,
    /// Rows are asked for when the head of the partition has passed.
    Head,
    /// The first clustered fragment tells which range tombstone holds.
    First,
}

/// What a fill does next.
enum Next {
    Return,
    /// Read for the consumer.
    Direct,
    /// Read what is compared with where the stream stands.
    CatchUp,
}

impl EvictableSource {
    /// The partitions of `scope`, in each what `slice` says, from sources that `open` makes.
    pub fn new(
        order: Rc<ClusteringOrder>,
        scope: PartitionScope,
        slice: Slice,
        open: OpenSource,
    ) -> EvictableSource {
        EvictableSource::at(order, Place::new(scope, slice), open)
    }

    /// Goes on with a stream that another source began.
    pub fn at(order: Rc<ClusteringOrder>, place: Place, open: OpenSource) -> EvictableSource {
        EvictableSource {
            order,
            open,
            place,
            source: None,
            only_rest: false,
            catching_up: CatchUp::Done,
            pending: VecDeque::new(),
            batch: Vec::new(),
        }
    }

    /// Gives the source up; the next fill makes another one.
    pub fn evict(&mut self) {
        self.source = None;
        self.pending.clear();
        self.catching_up = CatchUp::Done;
    }

    /// Lends the source to one who may give it up. Until [`EvictableSource::resume`] nothing may
    /// be asked of this one.
    pub fn pause(&mut self) -> Option<Box<dyn Source>> {
        debug_assert!(self.batch.is_empty(), "one-ahead: paused while it is filled");
        self.source.take()
    }

    /// Takes back what was lent; `None`: it was given up.
    pub fn resume(&mut self, source: Option<Box<dyn Source>>) {
        debug_assert!(self.source.is_none(), "same-stream: another source while one was lent");
        self.source = source;
        if self.source.is_none() {
            self.evict();
        }
    }

    /// Where the stream stands.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Whether there is a source at present.
    pub fn is_open(&self) -> bool {
        self.source.is_some()
    }

    fn next(
        &mut self,
        budget: &mut Budget,
        out: &mut Vec<Fragment>,
        start: usize,
    ) -> Result<Next, ReadError> {
        while let Some(fragment) = self.pending.pop_front() {
            self.place.advance(std::slice::from_ref(&fragment));
            let more = budget.spend(&fragment);
            out.push(fragment);
            if !more {
                break;
            }
        }
        if start < out.len() {
            return Ok(Next::Return);
        }
        if self.source.is_none() && !self.reopen()? {
            return Ok(if self.pending.is_empty() { Next::Return } else { Next::CatchUp });
        }
        Ok(if self.catching_up == CatchUp::Done { Next::Direct } else { Next::CatchUp })
    }

    /// Opens a source of what is left; false when nothing needs to be read.
    fn reopen(&mut self) -> Result<bool, ReadError> {
        debug_assert!(self.source.is_none() && self.pending.is_empty(), "one-ahead");
        debug_assert!(self.catching_up == CatchUp::Done, "same-stream: {:?}", self.catching_up);
        match self.place.rest(&self.order) {
            Rest::Nothing => Ok(false),
            Rest::Partitions(scope) => {
                self.source = Some((self.open)(&scope, &self.place.slice)?);
                self.only_rest = false;
                Ok(true)
            }
            Rest::Partition(slice) => {
                let At::Inside(inside) = &self.place.at else { return Ok(false) };
                if !slice.with_static {
                    if slice.forwarding && self.place.rest_of_asked(&self.order).is_none() {
                        self.close();
                        return Ok(false);
                    }
                    if slice.ranges.is_empty() && !slice.forwarding {
                        self.end_of_rest();
                        return Ok(false);
                    }
                }
                let scope = PartitionScope::Key(inside.key.clone());
                let forwarding = slice.forwarding;
                self.source = Some((self.open)(&scope, &slice)?);
                self.only_rest = true;
                self.catching_up = if forwarding { CatchUp::Head } else { CatchUp::First };
                Ok(true)
            }
        }
    }

    /// Compares what a new source yielded with where the stream stands.
    fn catch_up(&mut self) {
        let mut batch = std::mem::take(&mut self.batch);
        debug_assert!(self.catching_up != CatchUp::Done, "same-stream: nothing to catch up with");
        debug_assert!(self.pending.is_empty(), "one-ahead: {} unseen", self.pending.len());
        if batch.is_empty() {
            self.caught_nothing();
        }
        for fragment in batch.drain(..) {
            match (&fragment, self.catching_up) {
                (Fragment::PartitionStart { key, .. }, _) => {
                    let at = &self.place.at;
                    let same = matches!(at, At::Inside(inside) if inside.key == *key);
                    debug_assert!(same, "same-stream: {key:?} at {at:?}");
                    continue;
                }
                (Fragment::StaticRow { .. }, _) | (_, CatchUp::Done) => {}
                _ if self.reopens(&fragment) => continue,
                _ => {}
            }
            self.pending.push_back(fragment);
        }
        self.batch = batch;
    }

    /// The new source has nothing more (of what it was asked for).
    fn caught_nothing(&mut self) {
        match self.catching_up {
            CatchUp::Head => {
                self.catching_up = CatchUp::Done;
                if let Some(asked) = self.place.rest_of_asked(&self.order)
                    && let Some(source) = &mut self.source
                {
                    source.forward_rows(asked);
                    self.catching_up = CatchUp::First;
                }
            }
            CatchUp::First if self.place.slice.forwarding => {
                self.close();
                self.catching_up = CatchUp::Done;
            }
            // The partition is not there any more.
            _ => self.end_of_rest(),
        }
    }

    /// The first clustered fragment, or the end, of the rest: closes what is open and does not
    /// hold any more. True when the fragment only says what the consumer knows.
    fn reopens(&mut self, fragment: &Fragment) -> bool {
        debug_assert!(self.catching_up == CatchUp::First, "same-stream: rows before they were due");
        self.catching_up = CatchUp::Done;
        let At::Inside(inside) = &self.place.at else { return false };
        if let (Fragment::RangeTombstoneChange { position, tombstone }, Some(beyond)) =
            (fragment, &inside.beyond)
            && position.compare(&self.order, beyond).is_eq()
        {
            return *tombstone == inside.open;
        }
        self.close();
        false
    }

    /// Closes what is open, where the stream stands.
    fn close(&mut self) {
        if let At::Inside(inside) = &self.place.at
            && !inside.open.is_none()
            && let Some(position) = inside.beyond.clone()
        {
            let tombstone = Tombstone::NONE;
            debug_assert!(position.weight != 0, "a range tombstone open at a row: {position:?}");
            self.pending.push_back(Fragment::RangeTombstoneChange { position, tombstone });
        }
    }

    fn end_of_rest(&mut self) {
        debug_assert!(!self.place.slice.forwarding, "the end of a partition that is forwarded");
        self.close();
        self.pending.push_back(Fragment::PartitionEnd);
        self.source = None;
        self.catching_up = CatchUp::Done;
    }

    /// After the consumer got something, or nothing.
    fn passed(&mut self, fragments: &[Fragment]) -> Next {
        debug_assert!(self.catching_up == CatchUp::Done, "same-stream: unseen before it was due");
        self.place.advance(fragments);
        let is_inside = matches!(self.place.at, At::Inside(_));
        if fragments.is_empty() && !is_inside {
            if !self.only_rest {
                self.place.at = At::End;
                return Next::Return;
            }
            // The rest of the partition has passed; the partitions after it follow.
            (self.source, self.only_rest) = (None, false);
            return Next::Direct;
        }
        Next::Return
    }
}

impl Source for EvictableSource {
    fn try_fill(
        &mut self,
        mut budget: Budget,
        out: &mut Vec<Fragment>,
    ) -> Option<Result<(), ReadError>> {
        let start = out.len();
        loop {
            let next = match self.next(&mut budget, out, start) {
                Ok(next) => next,
                Err(error) => return Some(Err(error)),
            };
            let filled = match (next, &mut self.source) {
                (Next::Return, _) => return Some(Ok(())),
                (Next::Direct, Some(source)) => {
                    let filled = source.try_fill(budget, out)?;
                    debug_assert!(budget.allows(out.len() - start), "bounded: {}", out.len());
                    filled
                }
                (Next::CatchUp, Some(source)) => {
                    if let Err(error) = source.try_fill(budget, &mut self.batch)? {
                        return Some(Err(error));
                    }
                    self.catch_up();
                    continue;
                }
                (_, None) => continue,
            };
            if let Err(error) = filled {
                return Some(Err(error));
            }
            if let Next::Return = self.passed(&out[start..]) {
                return Some(Ok(()));
            }
        }
    }

    fn fill<'a>(
        &'a mut self,
        mut budget: Budget,
        out: &'a mut Vec<Fragment>,
    ) -> LocalFuture<'a, Result<(), ReadError>> {
        Box::pin(async move {
            let start = out.len();
            loop {
                let next = self.next(&mut budget, out, start)?;
                match (next, &mut self.source) {
                    (Next::Return, _) => return Ok(()),
                    (Next::Direct, Some(source)) => {
                        source.fill(budget, out).await?;
                        debug_assert!(budget.allows(out.len() - start), "bounded: {}", out.len());
                    }
                    (Next::CatchUp, Some(source)) => {
                        source.fill(budget, &mut self.batch).await?;
                        self.catch_up();
                        continue;
                    }
                    (_, None) => continue,
                }
                if let Next::Return = self.passed(&out[start..]) {
                    return Ok(());
                }
            }
        })
    }

    fn next_partition(&mut self) {
        if !matches!(self.place.at, At::Inside(_)) {
            return;
        }
        self.place.leave_partition();
        self.pending.clear();
        self.catching_up = CatchUp::Done;
        match &mut self.source {
            Some(_) if self.only_rest => self.source = None,
            Some(source) => source.next_partition(),
            None => {}
        }
    }

    fn forward_partitions(&mut self, start: &RingBound, end: &RingBound) {
        self.place.forward_partitions(start, end);
        self.pending.clear();
        self.catching_up = CatchUp::Done;
        match &mut self.source {
            Some(_) if self.only_rest => self.source = None,
            Some(source) => source.forward_partitions(start, end),
            None => {}
        }
    }

    fn forward_rows(&mut self, range: ClusteringRange) {
        assert!(self.place.slice.forwarding, "rows are forwarded of a source not opened so");
        if !matches!(self.place.at, At::Inside(_)) {
            return;
        }
        self.place.forward_rows(range.clone());
        self.pending.clear();
        if let Some(source) = &mut self.source
            && self.catching_up != CatchUp::Head
        {
            source.forward_rows(range);
            self.catching_up = CatchUp::Done;
        }
    }

    fn memory_bytes(&self) -> usize {
        self.source.as_ref().map_or(0, |source| source.memory_bytes())
    }
}
