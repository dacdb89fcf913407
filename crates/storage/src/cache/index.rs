//! The partitions of a tablet that are cached, in the order of the ring, and where it is known
//! that there are no others.
//!
//! Invariants
//!  - *continuous*: the flag of an entry says: the SSTables have no partition strictly between the
//!    key of the entry before it (or the tablet's start) and its own. `end_continuous` says so of
//!    what lies after the last entry.
//!  - *forgotten-with*: taking an entry out turns off the flag of the one after it.
//!  - *hinted*: every entry of a whole partition has its object among the hints, where there are
//!    hints; nothing else is there.
//!  - *one-slot*: a slot of large partitions is free, or one entry names it.
//!  - *collided*: of a token with two keys nothing is known, on either side of it neither.

use super::NextKey;
use super::partition::{Large, WholeView};
use crate::token_hints::{ENTRIES_MIN, HINT_BYTES, Hint, Hints};
use memory::{Arena, Handle};
use model::{DecoratedKey, Token};
use mutation::RingBound;
use std::collections::BTreeMap;
use std::ops::Bound;
use stdx::Bytes;

/// Entries of partitions known not to exist, or pairs of entries, that one call passes at most.
const PASSED_MAX: usize = 64;

/// What is known of a token.
#[derive(Clone, Copy, Debug)]
pub(super) enum Entry {
    /// All of its partition is one object.
    Whole { continuous: bool, handle: Handle },
    /// Its partition has a head and runs: one of `Index::larges`.
    Large { continuous: bool, slot: u32 },
    /// *collided*.
    Collided,
}

impl Entry {
    fn is_continuous(self) -> bool {
        match self {
            Entry::Whole { continuous, .. } | Entry::Large { continuous, .. } => continuous,
            Entry::Collided => false,
        }
    }
    fn set_continuous(&mut self, value: bool) {
        match self {
            Entry::Whole { continuous, .. } | Entry::Large { continuous, .. } => {
                *continuous = value
            }
            Entry::Collided => {}
        }
    }
}

/// What an entry is made of.
pub(super) enum Content {
    Whole(Handle),
    Large(Box<Large>),
    Nothing,
}

/// What a key is known to be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Known {
    Whole(Handle),
    Large(u32),
    Absent,
    Nothing,
}

#[derive(Debug, Default)]
pub(super) struct Index {
    entries: BTreeMap<Token, Entry>,
    /// *hinted*.
    hints: Option<Hints<Handle>>,
    end_continuous: bool,
    larges: Vec<Option<Box<Large>>>,
    free: Vec<u32>,
}

/// About what an entry takes on the heap: a place in a tree whose nodes are two thirds full, and a
/// hint.
pub(super) const ENTRY_BYTES: usize = 28 + HINT_BYTES;

impl Index {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
    pub(super) fn get(&self, token: Token) -> Option<Entry> {
        self.entries.get(&token).copied()
    }

    /// The object of a partition that is one.
    #[inline]
    pub(super) fn whole<'a>(
        &self,
        arena: &'a Arena,
        key: &DecoratedKey,
    ) -> Option<(Handle, WholeView<'a>)> {
        let of_key = |handle| {
            let view = WholeView::of(arena.get(handle));
            (view.key == &*key.key).then_some((handle, view))
        };
        match self.hints.as_ref().map_or(Hint::Unsure, |hints| hints.find(key.token, of_key)) {
            Hint::Is(found) => {
                debug_assert!(self.is_whole_at(key.token, Some(found.0)), "hinted: {key:?}");
                Some(found)
            }
            Hint::IsNot => {
                debug_assert!(
                    !matches!(self.lookup(arena, key), Known::Whole(_)),
                    "hinted: {key:?} is not"
                );
                None
            }
            Hint::Unsure => match self.get(key.token)? {
                Entry::Whole { handle, .. } => of_key(handle),
                _ => None,
            },
        }
    }

    /// Whether the entry of a token is a whole partition with that object.
    fn is_whole_at(&self, token: Token, object: Option<Handle>) -> bool {
        let entry = self.get(token);
        matches!(entry, Some(Entry::Whole { handle, .. }) if Some(handle) == object)
    }

    /// The object that a partition of that token probably is, if there is one.
    #[inline]
    pub(super) fn probable(&self, token: Token) -> Option<Handle> {
        match self.hints.as_ref().map_or(Hint::Unsure, |hints| hints.find(token, Some)) {
            Hint::Is(handle) => Some(handle),
            Hint::IsNot => {
                debug_assert!(
                    !matches!(self.get(token), Some(Entry::Whole { .. })),
                    "hinted: {token:?} is not"
                );
                None
            }
            Hint::Unsure => match self.get(token)? {
                Entry::Whole { handle, .. } => Some(handle),
                _ => None,
            },
        }
    }

    /// Whether it is continuous after a token that has no entry; `None`: it has one.
    pub(super) fn gap_at(&self, token: Token) -> Option<bool> {
        match self.entries.range(token..).next() {
            Some((&found, _)) if found == token => None,
            Some((_, entry)) => Some(entry.is_continuous()),
            None => Some(self.end_continuous),
        }
    }

    /// Has the processor fetch what [`Index::whole`] is going to look at first.
    #[inline]
    pub(super) fn prefetch(&self, token: Token) {
        if let Some(hints) = &self.hints {
            hints.prefetch(token);
        }
    }

    /// Once that is there: the object of a whole partition of that token, perhaps.
    #[inline]
    pub(super) fn guess(&self, token: Token) -> Option<Handle> {
        self.hints.as_ref()?.guess(token)
    }

    /// Notes or forgets where the object of a whole partition is (*hinted*).
    fn hint(&mut self, token: Token, old: Option<Entry>, new: Option<Entry>) {
        let Some(hints) = &mut self.hints else {
            if self.entries.len() == ENTRIES_MIN {
                self.hints = Some(self.all_hints());
            }
            return;
        };
        if let Some(Entry::Whole { handle, .. }) = old {
            hints.remove(token, handle);
        }
        if let Some(Entry::Whole { handle, .. }) = new {
            hints.insert(token, handle);
        }
    }

    fn all_hints(&self) -> Hints<Handle> {
        let mut hints = Hints::default();
        for (&token, entry) in &self.entries {
            if let Entry::Whole { handle, .. } = *entry {
                hints.insert(token, handle);
            }
        }
        hints
    }

    /// Whether what is *hinted* is what there is.
    #[cfg(test)]
    pub(super) fn is_hinted(&self) -> bool {
        let Some(hints) = &self.hints else { return self.entries.len() < ENTRIES_MIN };
        let wholes = self.entries.iter().filter_map(|(&token, &entry)| match entry {
            Entry::Whole { handle, .. } => Some((token, handle)),
            _ => None,
        });
        let known = |&(token, handle): &(Token, Handle)| {
            hints.find(token, |found| (found == handle).then_some(())) == Hint::Is(())
        };
        wholes.clone().count() == hints.len() && wholes.clone().all(|whole| known(&whole))
    }

    /// The entries of the tokens after the first one, up to and including the second.
    pub(super) fn entries_within(
        &self,
        (after, last): (Token, Token),
    ) -> impl Iterator<Item = (Token, Entry)> {
        assert!(after < last, "continuous: nothing lies after {after:?} up to {last:?}");
        let within = (Bound::Excluded(after), Bound::Included(last));
        self.entries.range(within).map(|(&token, &entry)| (token, entry))
    }

    #[cfg(test)]
    pub(super) fn entries(&self) -> impl Iterator<Item = (Token, Entry)> {
        self.entries.iter().map(|(&token, &entry)| (token, entry))
    }

    /// The key of an entry; `None`: it has several.
    pub(super) fn key_of<'a>(&'a self, arena: &'a Arena, entry: Entry) -> Option<&'a [u8]> {
        match entry {
            Entry::Whole { handle, .. } => Some(WholeView::of(arena.get(handle)).key),
            Entry::Large { slot, .. } => Some(&self.large(slot).key),
            Entry::Collided => None,
        }
    }

    pub(super) fn large(&self, slot: u32) -> &Large {
        self.larges[slot as usize].as_ref().expect("an entry names a large partition that is there")
    }
    pub(super) fn large_mut(&mut self, slot: u32) -> &mut Large {
        self.larges[slot as usize].as_mut().expect("an entry names a large partition that is there")
    }

    /// What is known of a key.
    pub(super) fn lookup(&self, arena: &Arena, key: &DecoratedKey) -> Known {
        let Some(&entry) = self.entries.get(&key.token) else {
            return self.absent_if(self.is_continuous_after(key.token));
        };
        let Some(own) = self.key_of(arena, entry) else { return Known::Nothing };
        if own != &*key.key {
            return match *key.key < *own {
                true => self.absent_if(entry.is_continuous()),
                false => self.absent_if(self.is_continuous_after(key.token)),
            };
        }
        match entry {
            Entry::Whole { handle, .. } => Known::Whole(handle),
            Entry::Large { slot, .. } => Known::Large(slot),
            Entry::Collided => Known::Nothing,
        }
    }

    fn absent_if(&self, continuous: bool) -> Known {
        if continuous { Known::Absent } else { Known::Nothing }
    }

    /// The flag of the first entry after a token.
    pub(super) fn is_continuous_after(&self, token: Token) -> bool {
        let mut after = self.entries.range(above(token));
        after.next().map_or(self.end_continuous, |(_, entry)| entry.is_continuous())
    }

    /// What lies before the first entry after a token is not known any more.
    pub(super) fn break_after(&mut self, token: Token) {
        match self.entries.range_mut(above(token)).next() {
            Some((_, entry)) => entry.set_continuous(false),
            None => self.end_continuous = false,
        }
        debug_assert!(!self.is_continuous_after(token), "forgotten-with: after {token:?}");
    }

    /// Adds a partition of a token that has none. What was continuous stays so.
    pub(super) fn insert(&mut self, token: Token, content: Content) {
        let continuous = self.is_continuous_after(token);
        debug_assert!(self.get(token).is_none(), "a token with two entries: {token:?}");
        self.insert_at(token, content, continuous);
    }

    /// The same, where it is known whether it is continuous after the token.
    pub(super) fn insert_at(&mut self, token: Token, content: Content, continuous: bool) {
        let entry = self.entry(content, continuous);
        let old = self.entries.insert(token, entry);
        assert!(old.is_none(), "a token with two entries");
        debug_assert!(
            continuous == self.is_continuous_after(token),
            "continuous: what lies after {token:?} was not what lay around it"
        );
        debug_assert!(
            !matches!(entry, Entry::Collided) || !entry.is_continuous(),
            "collided: {token:?} is continuous"
        );
        self.hint(token, None, Some(entry));
    }

    fn entry(&mut self, content: Content, continuous: bool) -> Entry {
        match content {
            Content::Nothing => Entry::Collided,
            Content::Whole(handle) => Entry::Whole { continuous, handle },
            Content::Large(large) => {
                let slot = self.free.pop().unwrap_or(self.larges.len() as u32);
                if slot as usize == self.larges.len() {
                    self.larges.push(None);
                }
                let place = &mut self.larges[slot as usize];
                assert!(place.is_none(), "one-slot: two large partitions in {slot}");
                *place = Some(large);
                Entry::Large { continuous, slot }
            }
        }
    }

    /// Exchanges what is known of a partition; gives what was.
    pub(super) fn exchange(&mut self, token: Token, content: Content) -> Content {
        let mut entry = self.entry(content, false);
        let old = self.entries.get_mut(&token).expect("a partition that is cached");
        entry.set_continuous(old.is_continuous());
        debug_assert!(
            matches!(entry, Entry::Collided) || entry.is_continuous() == old.is_continuous(),
            "continuous: {token:?} is exchanged"
        );
        let old = std::mem::replace(old, entry);
        self.hint(token, Some(old), Some(entry));
        self.take_content(old)
    }

    /// Exchanges the object of a partition that is one.
    pub(super) fn set_whole(&mut self, token: Token, new: Handle) {
        let Some(entry @ &mut Entry::Whole { continuous, .. }) = self.entries.get_mut(&token)
        else {
            unreachable!("hinted: {token:?} is no whole partition");
        };
        let old = std::mem::replace(entry, Entry::Whole { continuous, handle: new });
        debug_assert!(
            matches!(old, Entry::Whole { handle, .. } if handle != new),
            "hinted: {token:?} is exchanged for itself"
        );
        let new = *entry;
        self.hint(token, Some(old), Some(new));
    }

    /// Takes a partition out (*forgotten-with*).
    pub(super) fn remove(&mut self, token: Token) -> Option<Content> {
        let old = self.entries.remove(&token)?;
        self.break_after(token);
        debug_assert!(!self.is_continuous_after(token), "forgotten-with: {token:?}");
        self.hint(token, Some(old), None);
        Some(self.take_content(old))
    }

    /// A second key of that token has come up (*collided*); gives what was known of the first.
    pub(super) fn collide(&mut self, token: Token) -> Option<Content> {
        let old = self.remove(token);
        assert!(old.is_some(), "collided: {token:?} has no entry");
        self.insert(token, Content::Nothing);
        debug_assert!(!self.is_continuous_after(token), "collided: {token:?} and what follows");
        old
    }

    /// Takes the last entry out of an index that nobody reads any more.
    pub(super) fn pop(&mut self) -> Option<Content> {
        let Some((_, entry)) = self.entries.pop_last() else {
            debug_assert!(self.free.len() == self.larges.len(), "one-slot: {:?}", self.free);
            return None;
        };
        if let Some(hints) = &mut self.hints {
            hints.free_one();
        }
        Some(self.take_content(entry))
    }

    fn take_content(&mut self, entry: Entry) -> Content {
        match entry {
            Entry::Collided => Content::Nothing,
            Entry::Whole { handle, .. } => Content::Whole(handle),
            Entry::Large { slot, .. } => {
                self.free.push(slot);
                let large = self.larges[slot as usize].take();
                debug_assert!(
                    self.free.len() <= self.larges.len(),
                    "one-slot: {slot} is free twice"
                );
                Content::Large(large.expect("an entry names a large partition that is there"))
            }
        }
    }

    /// The SSTables have no partition strictly between two bounds. `start`: after which token the
    /// tablet begins, `end`: its last token.
    pub(super) fn set_continuous(
        &mut self,
        arena: &Arena,
        (start, end): (Token, Token),
        (from, to): (&RingBound, &RingBound),
    ) {
        debug_assert!(start <= end, "continuous: a tablet after {start:?} to {end:?}");
        let mut known = Vec::new();
        let before = self.entries.range(..from.token).next_back();
        let mut previous = before.map(|(&token, &entry)| (token, entry));
        let mut at_end = true;
        for (passed, (&token, &entry)) in self.entries.range(from.token..).enumerate() {
            let starts = self.starts_at_or_before(arena, previous, from, start);
            if starts && self.ends_at_or_after(arena, (token, entry), to) {
                known.push(token);
            }
            previous = Some((token, entry));
            if to.token < token || passed == PASSED_MAX {
                at_end = false;
                break;
            }
        }
        let to_end = end < to.token || (end == to.token && to.key.is_none() && to.after);
        if at_end && to_end && self.starts_at_or_before(arena, previous, from, start) {
            self.end_continuous = true;
        }
        for token in known {
            self.entries.get_mut(&token).expect("it was just there").set_continuous(true);
        }
    }

    /// Whether what lies between a bound and the entry after `previous` is all that lies between
    /// the two entries.
    fn starts_at_or_before(
        &self,
        arena: &Arena,
        previous: Option<(Token, Entry)>,
        from: &RingBound,
        start: Token,
    ) -> bool {
        let Some((token, entry)) = previous else {
            let first = from.key.is_none() && !from.after;
            return from.token <= start || first && from.token.0 - 1 == start.0;
        };
        let Some(key) = self.key_of(arena, entry) else { return false };
        let just_after = token == from.token && from.key.as_deref() == Some(key) && from.after;
        just_after || from.place(token, key).is_gt()
    }

    fn ends_at_or_after(
        &self,
        arena: &Arena,
        (token, entry): (Token, Entry),
        to: &RingBound,
    ) -> bool {
        let Some(key) = self.key_of(arena, entry) else { return false };
        let just_before = token == to.token && to.key.as_deref() == Some(key) && !to.after;
        just_before || to.place(token, key).is_lt()
    }

    /// See [`super::TabletCache::next_key`].
    pub(super) fn next_key(&self, arena: &Arena, after: &RingBound, before: &RingBound) -> NextKey {
        let until_end = || NextKey::NothingKnown { until: before.clone() };
        let mut passed = 0;
        for (&token, &entry) in self.entries.range(after.token..) {
            let Some(key) = self.key_of(arena, entry) else {
                if after.place(token, &[]).is_lt() && after.key.is_none() {
                    continue;
                }
                let until = RingBound { token, key: None, after: true };
                let beyond = before.token <= token;
                return if beyond { until_end() } else { NextKey::NothingKnown { until } };
            };
            if after.place(token, key).is_lt() {
                continue;
            }
            if before.place(token, key).is_gt() {
                return if entry.is_continuous() { NextKey::End } else { until_end() };
            }
            let is_next = token == after.token && after.key.as_deref() == Some(key);
            if !entry.is_continuous() && !is_next {
                let until = RingBound { token, key: Some(key.to_vec()), after: false };
                return NextKey::NothingKnown { until };
            }
            if passed < PASSED_MAX && is_absent(arena, entry) {
                passed += 1;
                continue;
            }
            return NextKey::Known(DecoratedKey { token, key: Bytes::copy_from(key) });
        }
        if self.end_continuous { NextKey::End } else { until_end() }
    }
}

fn is_absent(arena: &Arena, entry: Entry) -> bool {
    match entry {
        Entry::Whole { handle, .. } => WholeView::of(arena.get(handle)).is_absent(),
        _ => false,
    }
}

/// All tokens after that one.
fn above(token: Token) -> (Bound<Token>, Bound<Token>) {
    (Bound::Excluded(token), Bound::Unbounded)
}
