//! One partition of which the cache knows nothing: read below, and cached as it passes, without
//! being put aside.

use super::scan::{Scan, Wanted};
use super::{Below, CacheSource, CacheView, Reading};
use model::{ClusteringOrder, DecoratedKey};
use mutation::{ClusteringRange, Fragment, RingBound};
use reader::{Budget, LocalFuture, PartitionScope, ReadError, Slice, Source};
use std::rc::Rc;

/// A stream of what the SSTables hold of one partition. Costs no allocation while it reads below.
pub(crate) struct FreshSource<B> {
    reading: Reading,
    below: B,
    scan: Scan,
    /// Whether static rows were asked for; they are read all the same.
    with_static: bool,
    at_end: bool,
    /// What came after the partition was asked for: this yields it.
    forwarded: Option<Box<CacheSource>>,
}

impl<B: Below + Clone + 'static> FreshSource<B> {
    /// Of the partition with that key, in it what `slice` says, which is not forwarding. `below`
    /// is of the same step as the view, and `open` opens a source of the partition there with the
    /// slice that it gets; `None`: nothing is there.
    pub(crate) fn new(
        view: CacheView,
        (below, order): (B, Rc<ClusteringOrder>),
        key: &DecoratedKey,
        mut slice: Slice,
        open: impl FnOnce(&B, &Slice) -> Option<Box<dyn Source>>,
    ) -> Option<FreshSource<B>> {
        assert!(!slice.forwarding, "rows of a fresh partition come as they are");
        view.cache.count_miss();
        let with_static = std::mem::replace(&mut slice.with_static, true);
        let source = open(&below, &slice)?;
        let reading = Reading::new(view, order, slice);
        reading.missed();
        let from = RingBound { token: key.token, key: None, after: false };
        let scan = Scan::new(source, from, Wanted::Only(key.clone()));
        Some(FreshSource { reading, below, scan, with_static, at_end: false, forwarded: None })
    }

    /// The source below was filled and appended what lies in `out` from `first` on; whether
    /// something is left of it, or nothing more comes.
    fn digest(
        &mut self,
        filled: Result<(), ReadError>,
        first: usize,
        out: &mut Vec<Fragment>,
    ) -> Result<bool, ReadError> {
        if let Err(error) = filled {
            self.scan.discard();
            return Err(error);
        }
        assert!(first <= out.len(), "a source takes back what it gave");
        if out.len() == first {
            self.scan.digest_nothing(&self.reading);
            self.at_end = true;
            return Ok(true);
        }
        out[first..].iter().for_each(|fragment| self.scan.pass(&self.reading, fragment));
        if !self.with_static {
            let is_static = |fragment: &Fragment| matches!(fragment, Fragment::StaticRow { .. });
            if let Some(found) = out[first..].iter().position(is_static) {
                out.remove(first + found);
            }
        }
        Ok(first < out.len())
    }
}

impl<B: Below + Clone + 'static> Source for FreshSource<B> {
    fn try_fill(
        &mut self,
        budget: Budget,
        out: &mut Vec<Fragment>,
    ) -> Option<Result<(), ReadError>> {
        if let Some(forwarded) = &mut self.forwarded {
            return forwarded.try_fill(budget, out);
        }
        let first = out.len();
        while !self.at_end {
            let filled = self.scan.below().try_fill(budget, out)?;
            match self.digest(filled, first, out) {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => return Some(Err(error)),
            }
        }
        Some(Ok(()))
    }

    fn fill<'a>(
        &'a mut self,
        budget: Budget,
        out: &'a mut Vec<Fragment>,
    ) -> LocalFuture<'a, Result<(), ReadError>> {
        if let Some(ref mut forwarded) = self.forwarded {
            return forwarded.fill(budget, out);
        }
        Box::pin(async move {
            let first = out.len();
            while !self.at_end {
                let filled = self.scan.below().fill(budget, out).await;
                if self.digest(filled, first, out)? {
                    break;
                }
            }
            Ok(())
        })
    }

    fn next_partition(&mut self) {
        match &mut self.forwarded {
            Some(forwarded) => forwarded.next_partition(),
            None => self.scan.next_partition(&self.reading),
        }
    }

    fn forward_partitions(&mut self, start: &RingBound, end: &RingBound) {
        let Reading { view, order, slice, .. } = &self.reading;
        let slice = Slice { with_static: self.with_static, ..slice.clone() };
        let scope = PartitionScope::Range { start: start.clone(), end: end.clone() };
        let below = Rc::new(self.below.clone());
        let source = CacheSource::new(view.clone(), below, order.clone(), &scope, slice);
        self.forwarded = Some(Box::new(source));
    }

    fn forward_rows(&mut self, _: ClusteringRange) {
        panic!("rows are forwarded of a source not opened so");
    }

    fn memory_bytes(&self) -> usize {
        match &self.forwarded {
            Some(forwarded) => forwarded.memory_bytes(),
            None => self.scan.memory_bytes(),
        }
    }
}
