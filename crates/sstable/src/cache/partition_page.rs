//! A page of a partition index: the entries between two samples of the summary, as one object.
//!
//! Layout: one allocation holds, in this order, 8 bytes of token per entry, 4 bytes of where its
//! key starts, 4 bytes of data position from that of the first entry (8 where a page of the index
//! spans 4 GiB of data), and the keys. A search touches the tokens alone until they are equal.
//! What is known of promoted indexes is in a list beside, which has only the entries that have
//! one.
//!
//! Invariants
//!  - *ascending*: keys ascend in ring order, and data positions with them.

use crate::mx::layout::DeletionForm;
use model::Token;
use mutation::Tombstone;
use mutation::page::RingBound;
use std::cmp::Ordering;
use stdx::Damaged;

/// Bytes of an entry beside key and position: token and start of the key.
const FIXED_BYTES: usize = 12;

/// A promoted index, as far as it is read with its partition's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromotedAt {
    /// Where it starts in Index.db.
    pub start: u64,
    /// Bytes of all of it; the map of offsets is the last `4 * blocks` of them.
    pub len: u64,
    /// Where its blocks start in Index.db.
    pub blocks_at: u64,
    /// How many blocks it has: at least one, and their map fits into `len`.
    pub blocks: u32,
    /// Bytes of the partition's key, deletion time and static row.
    pub header_bytes: u64,
    /// Of the partition.
    pub tombstone: Tombstone,
    /// How its blocks have deletion times.
    pub form: DeletionForm,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct PartitionPage {
    count: usize,
    /// Of the first entry.
    base: u64,
    /// Bytes of each position: 4 or 8.
    position_bytes: usize,
    arena: Box<[u8]>,
    /// With the number of the entry, ascending.
    promoted: Box<[(u32, PromotedAt)]>,
    /// Where the data of the partition after the page starts, if that was seen.
    pub(crate) end: Option<u64>,
}

impl PartitionPage {
    /// How many entries there are: at least one.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    fn tokens(&self) -> &[[u8; 8]] {
        self.arena[..8 * self.count].as_chunks().0
    }
    fn key_starts(&self) -> &[[u8; 4]] {
        self.arena[8 * self.count..FIXED_BYTES * self.count].as_chunks().0
    }
    fn keys(&self) -> &[u8] {
        &self.arena[(FIXED_BYTES + self.position_bytes) * self.count..]
    }

    pub(crate) fn token(&self, entry: usize) -> Token {
        Token(i64::from_ne_bytes(self.tokens()[entry]))
    }
    /// Where the partition starts in the data.
    pub(crate) fn position(&self, entry: usize) -> u64 {
        debug_assert!(entry < self.count, "ascending: entry {entry} of {}", self.count);
        let positions = &self.arena[FIXED_BYTES * self.count..];
        self.base
            + match self.position_bytes {
                4 => u64::from(u32::from_ne_bytes(positions.as_chunks().0[entry])),
                _ => u64::from_ne_bytes(positions.as_chunks().0[entry]),
            }
    }
    pub(crate) fn key(&self, entry: usize) -> &[u8] {
        let starts = self.key_starts();
        debug_assert!(entry < starts.len(), "ascending: entry {entry} of {}", starts.len());
        let start = |entry: usize| starts.get(entry).map(|start| u32::from_ne_bytes(*start));
        let keys = self.keys();
        let end = start(entry + 1).map_or(keys.len(), |end| end as usize);
        &keys[u32::from_ne_bytes(starts[entry]) as usize..end]
    }
    /// Where the partition ends in the data, if that is known.
    pub(crate) fn end_of(&self, entry: usize) -> Option<u64> {
        if entry + 1 < self.count { Some(self.position(entry + 1)) } else { self.end }
    }
    pub(crate) fn promoted(&self, entry: usize) -> Option<PromotedAt> {
        if self.promoted.is_empty() {
            return None;
        }
        let at = self.promoted.binary_search_by_key(&(entry as u32), |(entry, _)| *entry);
        at.ok().map(|at| self.promoted[at].1)
    }

    /// The entry of a key.
    pub(crate) fn find(&self, token: Token, key: &[u8]) -> Option<usize> {
        let tokens = self.tokens();
        let mut entry = tokens.partition_point(|other| i64::from_ne_bytes(*other) < token.0);
        while tokens.get(entry).is_some_and(|other| i64::from_ne_bytes(*other) == token.0) {
            match self.key(entry).cmp(key) {
                Ordering::Less => entry += 1,
                Ordering::Equal => return Some(entry),
                Ordering::Greater => return None,
            }
        }
        None
    }

    /// The first entry that is not before a bound; the count of entries if all are.
    pub(crate) fn lower_bound(&self, bound: &RingBound) -> usize {
        let tokens = self.tokens();
        let mut entry = tokens.partition_point(|other| i64::from_ne_bytes(*other) < bound.token.0);
        while entry < self.count && bound.place(self.token(entry), self.key(entry)).is_lt() {
            entry += 1;
        }
        entry
    }

    /// Bytes of memory it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let promoted = std::mem::size_of_val::<[_]>(&self.promoted);
        debug_assert!(self.promoted.len() <= self.count, "more promoted indexes than entries");
        std::mem::size_of::<PartitionPage>() + self.arena.len() + promoted
    }
}

/// Collects the entries of a page.
#[derive(Debug, Default)]
pub(crate) struct PageBuilder {
    /// Token, data position, start of the key.
    entries: Vec<(i64, u64, u32)>,
    keys: Vec<u8>,
    promoted: Vec<(u32, PromotedAt)>,
}

impl PageBuilder {
    /// Makes room.
    pub(crate) fn reserve(&mut self, entries: usize, key_bytes: usize) {
        self.entries.reserve(entries);
        self.keys.reserve(key_bytes);
    }

    /// Whether nothing was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The key added last.
    pub(crate) fn last_key(&self) -> &[u8] {
        self.entries.last().map_or(&[], |(_, _, start)| &self.keys[*start as usize..])
    }

    /// Adds an entry (*ascending*).
    pub(crate) fn push(&mut self, key: &[u8], position: u64) -> Result<(), Damaged> {
        let token = Token::of(key).0;
        if let Some((last, before, _)) = self.entries.last() {
            let order = last.cmp(&token).then_with(|| self.last_key().cmp(key));
            if order.is_ge() {
                return Err(Damaged::new("keys of the index out of order", 0));
            }
            if position <= *before {
                return Err(Damaged::new("positions of partitions out of order", 0));
            }
        }
        let start = u32::try_from(self.keys.len());
        let start = start.map_err(|_| Damaged::new("an index page of over 4 GiB of keys", 0))?;
        self.entries.push((token, position, start));
        self.keys.extend_from_slice(key);
        Ok(())
    }

    /// Notes the promoted index of the entry added last.
    pub(crate) fn set_promoted(&mut self, promoted: PromotedAt) {
        let entry = self.entries.len() as u32 - 1;
        let behind = self.promoted.last().is_none_or(|(before, _)| *before < entry);
        debug_assert!(behind, "ascending: two promoted indexes of entry {entry}");
        debug_assert!(0 < promoted.blocks && promoted.start <= promoted.blocks_at, "{promoted:?}");
        self.promoted.push((self.entries.len() as u32 - 1, promoted));
    }

    /// The page, before a partition whose data starts at `end`, if that is known.
    pub(crate) fn finish(self, end: Option<u64>) -> PartitionPage {
        assert!(!self.entries.is_empty(), "an index page without entries");
        debug_assert!(self.entries.is_sorted_by(|a, b| a.1 < b.1 && a.0 <= b.0), "ascending");
        debug_assert!(self.entries.is_sorted_by_key(|entry| entry.2), "ascending: starts of keys");
        let base = self.entries[0].1;
        let span = self.entries[self.entries.len() - 1].1 - base;
        let position_bytes = if span <= u64::from(u32::MAX) { 4 } else { 8 };
        let bytes = (FIXED_BYTES + position_bytes) * self.entries.len() + self.keys.len();
        let mut arena = Vec::with_capacity(bytes);
        self.entries.iter().for_each(|entry| arena.extend_from_slice(&entry.0.to_ne_bytes()));
        self.entries.iter().for_each(|entry| arena.extend_from_slice(&entry.2.to_ne_bytes()));
        for (_, position, _) in &self.entries {
            let delta = position - base;
            match position_bytes {
                4 => arena.extend_from_slice(&(delta as u32).to_ne_bytes()),
                _ => arena.extend_from_slice(&delta.to_ne_bytes()),
            }
        }
        arena.extend_from_slice(&self.keys);
        assert_eq!(arena.len(), bytes, "a page is one allocation of its size");
        PartitionPage {
            count: self.entries.len(),
            base,
            position_bytes,
            arena: arena.into_boxed_slice(),
            promoted: self.promoted.into_boxed_slice(),
            end,
        }
    }
}
