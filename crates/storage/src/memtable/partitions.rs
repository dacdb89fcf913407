//! The partitions of a memtable: in ring order, and each at hand by its token.
//!
//! Invariants
//!  - *numbers-count*: slots are numbered as they came, from one on, without a gap; all chunks of
//!    slots but the last are full (*chunks-full*).
//!  - *hints-agree*: where hints say that a partition is not there, it is in no map.
//!  - *only-grows*: a partition stays in its slot until all are taken apart.
//!  - *one-or-collided*: of partitions that have a token in common the map of tokens names the one
//!    that came first, the map of keys the others.

use super::Partition;
use crate::token_hints::{ENTRIES_MIN, Hint, Hints};
use model::{DecoratedKey, Token};
use std::collections::BTreeMap;
use std::collections::btree_map::{Entry, IntoIter};
use std::num::NonZeroU32;
use std::rc::Rc;
use stdx::Bytes;

/// Slots that are allocated together.
const CHUNK: usize = 1024;

/// Partitions by key.
#[derive(Default)]
pub(super) struct Partitions {
    order: BTreeMap<Token, Number>,
    /// *one-or-collided*.
    collided: BTreeMap<DecoratedKey, Number>,
    hints: Option<Hints<Number>>,
    slots: Vec<Vec<Slot>>,
}

/// The number of a slot, counted from one.
pub(crate) type Number = NonZeroU32;

struct Slot {
    key: DecoratedKey,
    partition: Rc<Partition>,
}

/// What an entry takes beside its key and its partition: of a map whose nodes are two thirds full
/// and of the nodes above, of a table of hints, and its slot.
pub(super) const SLOT_BYTES: usize = 22 + crate::token_hints::HINT_BYTES + size_of::<Slot>();

impl Partitions {
    pub(super) fn len(&self) -> usize {
        self.slots.last().map_or(0, |last| (self.slots.len() - 1) * CHUNK + last.len())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    fn slot(&self, number: Number) -> &Slot {
        let index = number.get() as usize - 1;
        &self.slots[index / CHUNK][index % CHUNK]
    }

    fn slot_mut(&mut self, number: Number) -> &mut Slot {
        let index = number.get() as usize - 1;
        &mut self.slots[index / CHUNK][index % CHUNK]
    }

    fn find(&self, key: &DecoratedKey) -> Option<Number> {
        let is = |number: &Number| {
            let slot = self.slot(*number);
            // Key and partition lie apart: so they are waited for at once.
            memory::prefetch(&*slot.partition);
            slot.key == *key
        };
        if let Some(hints) = &self.hints {
            match hints.find(key.token, |number| Some(number).filter(is)) {
                Hint::Is(number) => {
                    debug_assert_eq!(self.find_in_order(key), Some(number), "hints-agree: {key:?}");
                    return Some(number);
                }
                Hint::IsNot => {
                    debug_assert!(self.find_in_order(key).is_none(), "hints-agree: {key:?}");
                    return None;
                }
                Hint::Unsure => {}
            }
        }
        let first = self.order.get(&key.token).copied()?;
        Some(first).filter(is).or_else(|| self.collided.get(key).copied())
    }

    /// The same, whatever hints say.
    fn find_in_order(&self, key: &DecoratedKey) -> Option<Number> {
        let first = self.order.get(&key.token).copied()?;
        let found = Some(first).filter(|number| self.slot(*number).key == *key);
        found.or_else(|| self.collided.get(key).copied())
    }

    /// Has the processor fetch what looking for a partition of that token begins with.
    #[inline]
    pub(super) fn prefetch(&self, token: Token) {
        if let Some(hints) = &self.hints {
            hints.prefetch(token);
        }
    }

    /// Once that is there: has the processor fetch the slot of a partition of that token, if there
    /// is one; its number.
    #[inline]
    pub(super) fn prefetch_slot(&self, token: Token) -> Option<Number> {
        let number = self.hints.as_ref()?.guess(token)?;
        memory::prefetch_all(self.slot(number));
        Some(number)
    }

    /// A partition.
    pub(super) fn get(&self, key: &DecoratedKey) -> Option<&Rc<Partition>> {
        self.find(key).map(|number| &self.slot(number).partition)
    }

    /// A partition; where there is none, the one that `make` makes.
    pub(super) fn entry(
        &mut self,
        key: DecoratedKey,
        make: impl FnOnce() -> Rc<Partition>,
    ) -> &mut Rc<Partition> {
        let number = match self.find(&key) {
            Some(number) => number,
            None => self.add(key, make()),
        };
        &mut self.slot_mut(number).partition
    }

    fn add(&mut self, key: DecoratedKey, partition: Rc<Partition>) -> Number {
        let count = u32::try_from(self.len() + 1).expect("a memtable of under 2^32 partitions");
        let number = Number::new(count).expect("one more than there were");
        let token = key.token;
        match self.order.entry(token) {
            Entry::Vacant(vacant) => _ = vacant.insert(number),
            Entry::Occupied(_) => _ = self.collided.insert(key.clone(), number),
        }
        if self.len().is_multiple_of(CHUNK) {
            // The first ones grow as they need to: there are many small memtables.
            let room = if self.slots.is_empty() { 0 } else { CHUNK };
            self.slots.push(Vec::with_capacity(room));
        }
        let last = self.slots.last_mut().expect("there is room in the last chunk");
        last.push(Slot { key, partition });
        if let Some(hints) = &mut self.hints {
            hints.insert(token, number);
        } else if self.len() == ENTRIES_MIN {
            self.hints = Some(self.all_hints());
        }
        assert!(self.len() == number.get() as usize, "numbers-count: {number} of {}", self.len());
        debug_assert!(
            self.order.len() + self.collided.len() == self.len(),
            "one-or-collided: {} and {} of {}",
            self.order.len(),
            self.collided.len(),
            self.len()
        );
        number
    }

    fn all_hints(&self) -> Hints<Number> {
        let mut hints = Hints::default();
        for (slot, number) in self.slots.iter().flatten().zip(1..) {
            debug_assert!(
                self.order.contains_key(&slot.key.token),
                "one-or-collided: {:?}",
                slot.key
            );
            hints.insert(slot.key.token, Number::new(number).expect("it counts from one"));
        }
        hints
    }

    /// The key and the partition in a slot.
    #[inline]
    pub(super) fn at(&self, number: Number) -> (&DecoratedKey, &Rc<Partition>) {
        let Slot { key, partition } = self.slot(number);
        debug_assert!(
            self.order.get(&key.token) == Some(&number) || self.collided.get(key) == Some(&number),
            "one-or-collided: {key:?} has another slot"
        );
        (key, partition)
    }

    /// The slots of all after a key, in ring order.
    pub(super) fn after(&self, key: &DecoratedKey) -> impl Iterator<Item = Number> {
        self.from(key.token).skip_while(move |&one| self.slot(one).key <= *key)
    }

    /// The slots of all from a token on, in ring order. Looks into no slot, unless tokens collide.
    pub(super) fn from(&self, token: Token) -> impl Iterator<Item = Number> {
        let mut first = self.order.range(token..).map(|(_, &one)| one).peekable();
        let from = DecoratedKey { token, key: Bytes::new() };
        let mut others = self.collided.range(from..).map(|(_, &one)| one).peekable();
        std::iter::from_fn(move || match (first.peek(), others.peek()) {
            (Some(&one), Some(&other)) if self.slot(other).key < self.slot(one).key => {
                others.next()
            }
            (None, _) => others.next(),
            _ => first.next(),
        })
    }

    /// Has the processor fetch these slots.
    pub(super) fn prefetch_slots(&self, numbers: &[Number]) {
        numbers.iter().for_each(|&number| memory::prefetch_all(self.slot(number)));
    }

    /// Its parts, to be freed a few at a time.
    pub(super) fn into_remains(self) -> Parts {
        let Partitions { order, collided, hints, slots } = self;
        Parts { order: order.into_iter(), collided: collided.into_iter(), hints, slots }
    }
}

/// What is left of a map that nobody asks any more.
pub(super) struct Parts {
    order: IntoIter<Token, Number>,
    collided: IntoIter<DecoratedKey, Number>,
    hints: Option<Hints<Number>>,
    slots: Vec<Vec<Slot>>,
}

impl Parts {
    /// Of nothing.
    pub(super) fn none() -> Parts {
        Partitions::default().into_remains()
    }

    /// Takes a partition out.
    pub(super) fn take(&mut self) -> Option<Rc<Partition>> {
        self.order.next();
        self.collided.next();
        loop {
            let Some(slots) = self.slots.last_mut() else {
                debug_assert!(
                    self.order.len() == 0 && self.collided.len() == 0,
                    "one-or-collided: a name of no slot"
                );
                return None;
            };
            if let Some(slot) = slots.pop() {
                return Some(slot.partition);
            }
            self.slots.pop();
            debug_assert!(self.slots.last().is_none_or(|all| all.len() == CHUNK), "chunks-full");
            if let Some(hints) = &mut self.hints {
                (0..2 * CHUNK / ENTRIES_MIN).for_each(|_| _ = hints.free_one());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ops::Bound;

    /// Keys whose tokens are chosen, so that some collide.
    fn key(number: u16, tokens: u16) -> DecoratedKey {
        let token = Token(i64::from(number % tokens).wrapping_mul(0x1357_9bdf_0246_8ace));
        DecoratedKey { token, key: Bytes::copy_from(&number.to_be_bytes()) }
    }

    fn check(numbers: &[u16], tokens: u16) {
        let (mut partitions, mut model) = (Partitions::default(), BTreeMap::new());
        assert!(partitions.is_empty());
        for &number in numbers {
            let made = Rc::new(Partition::new());
            let there = model.entry(key(number, tokens)).or_insert(made.clone());
            let found = partitions.entry(key(number, tokens), || made);
            assert!(Rc::ptr_eq(there, found));
        }
        assert_eq!((partitions.len(), partitions.is_empty()), (model.len(), model.is_empty()));
        assert_eq!(partitions.hints.is_some(), ENTRIES_MIN <= model.len());
        for number in (0..4000).step_by(7) {
            let key = key(number, tokens);
            let (there, found) = (model.get(&key), partitions.get(&key));
            assert!(there.map(Rc::as_ptr) == found.map(Rc::as_ptr));
            let wanted = model.range((Bound::Excluded(&key), Bound::Unbounded)).take(5);
            let after = partitions.after(&key).take(5);
            assert!(after.map(|one| partitions.at(one).0).eq(wanted.map(|one| one.0)));
            let wanted = model.keys().filter(|one| key.token <= one.token).take(5);
            let from = partitions.from(key.token);
            assert!(from.take(5).map(|one| partitions.at(one).0).eq(wanted));
        }
        let mut parts = partitions.into_remains();
        let count = std::iter::from_fn(|| parts.take()).count();
        assert_eq!((count, parts.order.len() + parts.collided.len()), (model.len(), 0));
    }

    #[test]
    fn partitions_whose_tokens_collide_are_told_apart() {
        check(&[3, 1, 2, 1, 3], 1);
        check(&[], 1);
        let many: Vec<u16> = (0..3000).map(|number| number * 7 % 3001).collect();
        check(&many, 4000);
        check(&many, 1000);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..Default::default() })]
        #[test]
        fn partitions_are_a_map(
            numbers in proptest::collection::vec(0u16..4000, 0..1500),
            tokens in prop_oneof![Just(1u16), Just(50), Just(4000)],
        ) {
            check(&numbers, tokens);
        }
    }
}
