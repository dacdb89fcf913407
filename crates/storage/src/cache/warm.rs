//! What of a tablet was asked for again since it came into the cache. Who gets the tablet next
//! reads that ahead, so that clients find it in memory there, too.
//!
//! Invariants
//!  - *no-waiting*: a call looks at [`LOOKS_MAX`] objects at most, or at one partition.
//!  - *ring-order*: partitions are told in the order of the ring, what of their rows in the
//!    table's order.

use super::index::Entry;
use super::partition::WholeView;
use super::run::RunView;
use super::store::Store;
use super::{TabletCache, TabletId};
use memory::{Age, Handle};
use model::{ClusteringOrder, DecoratedKey, Token};
use mutation::ClusteringRange;
use mutation::page::SendRange;

/// Objects that one call looks at, and runs of a partition that are told: the first ones.
const LOOKS_MAX: usize = 2048;

/// A partition of which something was asked for again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmPartition {
    pub key: Vec<u8>,
    /// Which of its rows, apart and in the table's order. None: all of them.
    pub ranges: Vec<SendRange>,
}

impl TabletCache {
    /// Adds the warm partitions after the first token, up to and including the second. Up to which
    /// token it looked; `None`: at all of them.
    pub(crate) fn add_warm(
        &self,
        (after, last): (Token, Token),
        out: &mut Vec<WarmPartition>,
    ) -> Option<Token> {
        let store = self.cache.store.borrow();
        let index = &store.tablet(self.id).index;
        let mut looks = 0;
        for (token, entry) in index.entries_within((after, last)) {
            let warm = match entry {
                Entry::Whole { handle, .. } => {
                    looks += 1;
                    store.warm_whole(handle)
                }
                Entry::Large { slot, .. } => store.warm_runs((self.id, slot), &mut looks),
                Entry::Collided => None,
            };
            debug_assert!(
                warm.as_ref().is_none_or(|warm| Token::of(&warm.key) == token),
                "ring-order: {warm:?} at {token:?}"
            );
            out.extend(warm);
            if LOOKS_MAX <= looks {
                return Some(token).filter(|token| *token < last);
            }
        }
        None
    }

    /// What is cached of a partition counts as asked for once more.
    pub(crate) fn warm_up(&self, key: &DecoratedKey) {
        let store = self.cache.store.borrow();
        let index = &store.tablet(self.id).index;
        let Some(entry) = index.get(key.token) else { return };
        if index.key_of(&store.arena, entry) != Some(&key.key) {
            return;
        }
        match entry {
            Entry::Whole { handle, .. } => store.arena.touch(handle),
            Entry::Large { slot, .. } => {
                let runs = index.large(slot).runs.iter().take(LOOKS_MAX);
                runs.filter_map(|run| run.handle.get()).for_each(|run| store.arena.touch(run));
            }
            Entry::Collided => {}
        }
    }
}

impl Store {
    fn is_warm(&self, handle: Handle) -> bool {
        let (age, heat) = self.heat_of_object(handle);
        age == Age::Main || 0 < heat
    }

    fn warm_whole(&self, handle: Handle) -> Option<WarmPartition> {
        let whole = WholeView::of(self.arena.get(handle));
        let is_wanted = self.is_warm(handle) && !whole.is_absent();
        is_wanted.then(|| WarmPartition { key: whole.key.to_vec(), ranges: Vec::new() })
    }

    /// Those that follow each other are one range.
    fn warm_runs(&self, (id, slot): (TabletId, u32), looks: &mut usize) -> Option<WarmPartition> {
        let tablet = self.tablet(id);
        let large = tablet.index.large(slot);
        let mut ranges: Vec<ClusteringRange> = Vec::new();
        for run in large.runs.iter().take(LOOKS_MAX) {
            *looks += 1;
            let Some(bytes) = self.run_of(run) else { continue };
            if run.handle.get().is_some_and(|handle| self.is_warm(handle)) {
                join(&tablet.order, &mut ranges, RunView::of(bytes).interval());
            }
        }
        debug_assert!(
            ranges.windows(2).all(|two| two[0].end.compare(&tablet.order, &two[1].start).is_lt()),
            "ring-order: {ranges:?}"
        );
        let ranges: Vec<SendRange> = ranges.iter().map(SendRange::from).collect();
        (!ranges.is_empty()).then(|| WarmPartition { key: large.key.to_vec(), ranges })
    }
}

/// Adds a range that lies behind the others.
fn join(order: &ClusteringOrder, ranges: &mut Vec<ClusteringRange>, next: ClusteringRange) {
    debug_assert!(
        ranges.last().is_none_or(|last| last.end.compare(order, &next.start).is_le()),
        "ring-order: {next:?} after {ranges:?}"
    );
    match ranges.last_mut() {
        Some(last) if last.end.compare(order, &next.start).is_eq() => last.end = next.end,
        _ => ranges.push(next),
    }
}
