//! Sources one after the other.

use crate::{Budget, LocalFuture, ReadError, Source};
use mutation::Fragment;

/// Yields all of each source in turn; the caller vouches that their partitions ascend. For a
/// resumed scan: the rest of one partition, then the partitions after it.
pub struct ChainSource {
    /// The present source last.
    sources: Vec<Box<dyn Source>>,
}

impl ChainSource {
    /// Of sources in their order.
    pub fn new(mut sources: Vec<Box<dyn Source>>) -> ChainSource {
        sources.reverse();
        ChainSource { sources }
    }
}

impl Source for ChainSource {
    fn try_fill(
        &mut self,
        budget: Budget,
        out: &mut Vec<Fragment>,
    ) -> Option<Result<(), ReadError>> {
        let before = out.len();
        while let Some(source) = self.sources.last_mut() {
            let filled = source.try_fill(budget, out)?;
            if filled.is_err() || before < out.len() {
                return Some(filled);
            }
            self.sources.pop();
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
            while let Some(source) = self.sources.last_mut() {
                source.fill(budget, out).await?;
                if before < out.len() {
                    return Ok(());
                }
                self.sources.pop();
            }
            Ok(())
        })
    }

    fn next_partition(&mut self) {
        if let Some(source) = self.sources.last_mut() {
            source.next_partition();
        }
    }
}
