//! Sources one after the other.
//!
//! Invariants
//!  - *in-turn*: a source yields outside of a partition of the one before it; those before the
//!    source at hand are at their end, and the partitions of all ascend.

use crate::validate::is_paired;
use crate::{Budget, LocalFuture, ReadError, Source};
use mutation::{ClusteringRange, Fragment, RingBound};

/// Yields all of each source in turn; the caller vouches that their partitions ascend. For a
/// resumed scan (the rest of one partition, then the partitions after it) and for sources that
/// hold disjoint parts of the ring. Only the latter may be forwarded to other partitions: each
/// source is, and yields what it holds of them.
pub struct ChainSource {
    sources: Vec<Box<dyn Source>>,
    /// The source at hand.
    at: usize,
    /// Whether it is inside a partition.
    inside: bool,
}

impl ChainSource {
    /// Of sources in their order.
    pub fn new(sources: Vec<Box<dyn Source>>) -> ChainSource {
        ChainSource { sources, at: 0, inside: false }
    }
}

impl Source for ChainSource {
    fn try_fill(
        &mut self,
        budget: Budget,
        out: &mut Vec<Fragment>,
    ) -> Option<Result<(), ReadError>> {
        let before = out.len();
        while let Some(source) = self.sources.get_mut(self.at) {
            let filled = source.try_fill(budget, out)?;
            debug_assert!(before <= out.len(), "a source took away what others had yielded");
            if filled.is_err() || before < out.len() || self.inside {
                let batch = out.get(before..).unwrap_or(&[]);
                debug_assert!(is_paired(self.inside, batch), "in-turn: source {}", self.at);
                debug_assert!(budget.allows(batch.len()), "bounded: {}", batch.len());
                self.inside = is_inside(self.inside, batch);
                return Some(filled);
            }
            self.at += 1;
        }
        Some(Ok(()))
    }

    fn fill<'a>(
        &'a mut self,
        budget: Budget,
        out: &'a mut Vec<Fragment>,
    ) -> LocalFuture<'a, Result<(), ReadError>> {
        Box::pin(async move {
            let before = out.len();
            while let Some(source) = self.sources.get_mut(self.at) {
                source.fill(budget, out).await?;
                if before < out.len() || self.inside {
                    let batch = out.get(before..).unwrap_or(&[]);
                    debug_assert!(is_paired(self.inside, batch), "in-turn: source {}", self.at);
                    debug_assert!(budget.allows(batch.len()), "bounded: {}", batch.len());
                    self.inside = is_inside(self.inside, batch);
                    return Ok(());
                }
                self.at += 1;
            }
            Ok(())
        })
    }

    fn next_partition(&mut self) {
        self.inside = false;
        if let Some(source) = self.sources.get_mut(self.at) {
            source.next_partition();
        }
    }

    fn forward_partitions(&mut self, start: &RingBound, end: &RingBound) {
        (self.at, self.inside) = (0, false);
        self.sources.iter_mut().for_each(|source| source.forward_partitions(start, end));
    }

    fn forward_rows(&mut self, range: ClusteringRange) {
        if let Some(source) = self.sources.get_mut(self.at) {
            source.forward_rows(range);
        }
    }

    fn memory_bytes(&self) -> usize {
        self.sources.iter().map(|source| source.memory_bytes()).sum()
    }
}

/// Whether a stream that was (not) inside a partition is so after a batch.
pub(crate) fn is_inside(inside: bool, batch: &[Fragment]) -> bool {
    batch.last().map_or(inside, |last| !matches!(last, Fragment::PartitionEnd))
}
