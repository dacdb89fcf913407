//! The log in memory: what the library reads of it. Durable what is here, all of it.
//!
//! Invariants
//!  - *durable-first*: what is here is in the durable log already.
//!  - *no-gap*: the entries follow the cut and each other by one.
//!  - *counted*: `bytes` is the size of the entries.

use crate::convert;
use crate::entry::{Cut, Entry};
use crate::traits::{Hard, Loaded};
use raft::eraftpb;
use raft::{GetEntriesContext, RaftState, StorageError};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// The log in memory, shared with the library.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    inner: Rc<RefCell<Inner>>,
}

#[derive(Debug)]
struct Inner {
    hard: Hard,
    cut: Cut,
    entries: VecDeque<eraftpb::Entry>,
    bytes: usize,
    /// What a snapshot would be of now.
    applied: Cut,
}

fn bytes_of(entry: &eraftpb::Entry) -> usize {
    size_of::<Entry>() + entry.data.len() + entry.context.len()
}

impl Store {
    pub(crate) fn new(loaded: Loaded) -> Store {
        let cut = loaded.cut.unwrap_or_default();
        let inner = Inner {
            hard: loaded.hard,
            applied: cut.clone(),
            cut,
            entries: VecDeque::new(),
            bytes: 0,
        };
        let store = Store { inner: Rc::new(RefCell::new(inner)) };
        store.append(&loaded.entries.into_iter().map(convert::entry_in).collect::<Vec<_>>());
        store
    }

    /// Entries that became durable; they replace what there was from the first of them on.
    pub(crate) fn append(&self, entries: &[eraftpb::Entry]) {
        let Some(first) = entries.first() else { return };
        let mut inner = self.inner.borrow_mut();
        assert!(inner.cut.index < first.index, "no-gap: {} is covered", first.index);
        let keep = (first.index - inner.cut.index - 1) as usize;
        assert!(keep <= inner.entries.len(), "no-gap: {} after {keep} entries", first.index);
        let replaced = inner.entries.split_off(keep);
        let gone: usize = replaced.iter().map(bytes_of).sum();
        let new: usize = entries.iter().map(bytes_of).sum();
        inner.bytes = inner.bytes - gone + new;
        inner.entries.extend(entries.iter().cloned());
        debug_assert!(inner.is_sound(), "no-gap, counted: after {}", first.index);
    }

    pub(crate) fn set_hard(&self, hard: Hard) {
        let mut inner = self.inner.borrow_mut();
        assert!(inner.hard.term <= hard.term, "term-grows: {:?} to {hard:?}", inner.hard);
        assert!(hard.commit <= inner.last(), "durable-first: {} is not here", hard.commit);
        inner.hard = hard;
    }

    pub(crate) fn hard(&self) -> Hard {
        self.inner.borrow().hard
    }

    /// The log begins after a snapshot that the machine has; its entries are gone.
    pub(crate) fn install(&self, cut: &Cut) {
        let mut inner = self.inner.borrow_mut();
        assert!(inner.cut.index <= cut.index, "no-gap: a snapshot of {} from before", cut.index);
        (inner.cut, inner.applied) = (cut.clone(), cut.clone());
        inner.entries.clear();
        inner.bytes = 0;
    }

    /// The log begins after this entry, which it has.
    pub(crate) fn cut(&self, cut: &Cut) {
        let mut inner = self.inner.borrow_mut();
        assert!(inner.cut.index <= cut.index, "no-gap: cut back to {}", cut.index);
        assert!(inner.term(cut.index) == Ok(cut.term), "no-gap: cut at another {}", cut.index);
        let count = (cut.index - inner.cut.index) as usize;
        let gone: usize = inner.entries.drain(..count).map(|entry| bytes_of(&entry)).sum();
        inner.bytes -= gone;
        inner.cut = cut.clone();
        debug_assert!(inner.is_sound(), "no-gap, counted: cut at {}", cut.index);
    }

    /// What a snapshot is of from now on.
    pub(crate) fn set_applied(&self, applied: Cut) {
        let mut inner = self.inner.borrow_mut();
        assert!(inner.applied.index <= applied.index, "applied-grows: to {}", applied.index);
        inner.applied = applied;
    }

    pub(crate) fn applied(&self) -> Cut {
        self.inner.borrow().applied.clone()
    }

    /// Where it begins.
    pub(crate) fn begin(&self) -> Cut {
        self.inner.borrow().cut.clone()
    }

    pub(crate) fn last(&self) -> u64 {
        self.inner.borrow().last()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.inner.borrow().bytes
    }

    pub(crate) fn term_at(&self, index: u64) -> Option<u64> {
        self.inner.borrow().term(index).ok()
    }

    /// The first index of those at the end that have no more than so many bytes together.
    pub(crate) fn tail_within(&self, bytes: usize) -> u64 {
        let inner = self.inner.borrow();
        let mut left = bytes;
        let fits = |entry: &&eraftpb::Entry| {
            let fitting = left.checked_sub(bytes_of(entry));
            left = fitting.unwrap_or(0);
            fitting.is_some()
        };
        let count = inner.entries.iter().rev().take_while(fits).count() as u64;
        debug_assert!(count <= inner.entries.len() as u64, "counted: {count} entries");
        inner.last() + 1 - count
    }
}

impl Inner {
    fn last(&self) -> u64 {
        self.cut.index + self.entries.len() as u64
    }

    fn term(&self, index: u64) -> Result<u64, StorageError> {
        if index < self.cut.index {
            return Err(StorageError::Compacted);
        }
        if index == self.cut.index {
            return Ok(self.cut.term);
        }
        let entry = self.entries.get((index - self.cut.index - 1) as usize);
        entry.map(|entry| entry.term).ok_or(StorageError::Unavailable)
    }

    fn is_sound(&self) -> bool {
        let indices = self.entries.iter().map(|entry| entry.index);
        let bytes: usize = self.entries.iter().map(bytes_of).sum();
        indices.eq(self.cut.index + 1..=self.last()) && bytes == self.bytes
    }
}

impl raft::Storage for Store {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let inner = self.inner.borrow();
        let mut hard = eraftpb::HardState::default();
        hard.term = inner.hard.term;
        hard.vote = inner.hard.vote;
        hard.commit = inner.hard.commit;
        Ok(RaftState::new(hard, convert::members_in(&inner.cut.members)))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<eraftpb::Entry>> {
        let inner = self.inner.borrow();
        if low <= inner.cut.index {
            return Err(StorageError::Compacted.into());
        }
        assert!(high <= inner.last() + 1, "no-gap: {low}..{high} of {}", inner.last());
        let offset = (low - inner.cut.index - 1) as usize;
        debug_assert!(low <= high, "no-gap: entries from {low} to {high}");
        let mut left = max_size.into().unwrap_or(u64::MAX);
        let mut out = Vec::new();
        for entry in inner.entries.iter().skip(offset).take((high - low) as usize) {
            let bytes = bytes_of(entry) as u64;
            if left < bytes && !out.is_empty() {
                break;
            }
            left = left.saturating_sub(bytes);
            out.push(entry.clone());
        }
        Ok(out)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        self.inner.borrow().term(index).map_err(Into::into)
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.inner.borrow().cut.index + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.inner.borrow().last())
    }

    /// What it is of; the machine's state is pulled by who wants it.
    fn snapshot(&self, request_index: u64, _to: u64) -> raft::Result<eraftpb::Snapshot> {
        let inner = self.inner.borrow();
        if inner.applied.index < request_index || inner.applied.index == 0 {
            return Err(StorageError::SnapshotTemporarilyUnavailable.into());
        }
        debug_assert!(inner.cut.index <= inner.applied.index, "applied-grows: behind the cut");
        Ok(convert::snapshot_in(&inner.applied))
    }
}
