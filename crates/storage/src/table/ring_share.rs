//! What of an SSTable one shard has, in a ring without tablets. There a shard's tokens are all over
//! the ring, so an SSTable's first and last token do not tell whose it is: the writer says so in
//! Scylla.db. One without that word, of another number of shards, of an earlier layout or from
//! elsewhere, may have partitions of every shard: it is read without those of others, until each
//! shard has written its own part (`shard::compact::reshard`). The same way one is read without
//! ranges of tokens that are to go (`shard::compact::clear`).
//!
//! Invariants
//!  - *own-alone*: a tablet never yields a partition that another shard has. What another shard
//!    deleted and forgot must not come back by an SSTable that both have.

use super::token_ranges::TokenRanges;
use model::{RingShare, Token};
use mutation::{ClusteringRange, Fragment, RingBound};
use reader::{Budget, LocalFuture, ReadError, Source};
use std::rc::Rc;

/// How much of an SSTable a part of a ring has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    All,
    Nothing,
    /// Perhaps; it has partitions of others.
    Some,
}

impl Held {
    /// By what its writer said, else by its first and last token.
    pub(crate) fn of(table: &sstable::Table, share: RingShare) -> Held {
        let own = |is_own: bool| if is_own { Held::All } else { Held::Nothing };
        if let Some(written) = table.scylla().share().filter(|one| one.sharder == share.sharder) {
            return own(written == share);
        }
        let (first, last) = (table.first_key().token, table.last_key().token);
        match share.sharder.piece_of(first) == share.sharder.piece_of(last) {
            true => own(share.holds(first)),
            false => Held::Some,
        }
    }

    /// What a source of an SSTable yields of a share (*own-alone*).
    pub(crate) fn part_of(
        share: Option<RingShare>,
        table: &sstable::Table,
        all: Box<dyn Source>,
    ) -> Box<dyn Source> {
        match share {
            Some(share) if Held::of(table, share) != Held::All => {
                Box::new(PartSource::new(all, Kept::Share(share)))
            }
            _ => all,
        }
    }
}

/// What a source yields outside of these ranges.
pub(crate) fn part_outside(ranges: Rc<TokenRanges>, all: Box<dyn Source>) -> Box<dyn Source> {
    Box::new(PartSource::new(all, Kept::Outside(ranges)))
}

/// Which partitions are seen, by their tokens.
enum Kept {
    Share(RingShare),
    Outside(Rc<TokenRanges>),
}

impl Kept {
    fn holds(&self, token: Token) -> bool {
        match self {
            Kept::Share(share) => share.holds(token),
            Kept::Outside(ranges) => !ranges.holds(token),
        }
    }
}

/// The partitions that are to be seen of a source.
struct PartSource {
    source: Box<dyn Source>,
    kept: Kept,
    /// Whether the partition at hand is not to be seen.
    skips: bool,
    /// Whether the consumer is inside a partition.
    inside: bool,
}

impl PartSource {
    fn new(source: Box<dyn Source>, kept: Kept) -> PartSource {
        PartSource { source, kept, skips: false, inside: false }
    }

    /// Takes what is not to be seen out of a batch that begins at `from`; whether the batch is all
    /// that comes now.
    fn keep_own(&mut self, from: usize, out: &mut Vec<Fragment>) -> bool {
        if out.len() == from {
            return true;
        }
        let mut kept = from;
        for at in from..out.len() {
            if let Fragment::PartitionStart { key, .. } = &out[at] {
                debug_assert!(self.skips || !self.inside, "a partition within another: {key:?}");
                self.skips = !self.kept.holds(key.token);
            }
            if !self.skips {
                self.inside = !matches!(out[at], Fragment::PartitionEnd);
                out.swap(kept, at);
                kept += 1;
            }
        }
        let ends = matches!(out.last(), Some(Fragment::PartitionEnd));
        debug_assert!(from <= kept && kept <= out.len(), "own-alone: {kept} of {}", out.len());
        out.truncate(kept);
        debug_assert!(
            out[from..].iter().all(|fragment| match fragment {
                Fragment::PartitionStart { key, .. } => self.kept.holds(key.token),
                _ => true,
            }),
            "own-alone"
        );
        debug_assert!(!(self.skips && self.inside), "own-alone: inside of another shard's");
        if self.skips && !ends {
            self.source.next_partition();
        }
        from < kept
    }
}

impl Source for PartSource {
    fn try_fill(
        &mut self,
        budget: Budget,
        out: &mut Vec<Fragment>,
    ) -> Option<Result<(), ReadError>> {
        let from = out.len();
        loop {
            let filled = self.source.try_fill(budget, out)?;
            if filled.is_err() || self.keep_own(from, out) {
                return Some(filled);
            }
        }
    }

    fn fill<'a>(
        &'a mut self,
        budget: Budget,
        out: &'a mut Vec<Fragment>,
    ) -> LocalFuture<'a, Result<(), ReadError>> {
        Box::pin(async move {
            let from = out.len();
            loop {
                self.source.fill(budget, out).await?;
                if self.keep_own(from, out) {
                    return Ok(());
                }
                runtime::task::yield_if_needed().await;
            }
        })
    }

    fn next_partition(&mut self) {
        if std::mem::take(&mut self.inside) {
            self.source.next_partition();
        }
    }

    fn forward_partitions(&mut self, start: &RingBound, end: &RingBound) {
        (self.inside, self.skips) = (false, false);
        self.source.forward_partitions(start, end);
    }

    fn forward_rows(&mut self, range: ClusteringRange) {
        if self.inside {
            self.source.forward_rows(range);
        }
    }

    fn memory_bytes(&self) -> usize {
        self.source.memory_bytes()
    }
}
