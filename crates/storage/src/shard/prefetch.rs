//! Fetching many partitions that are about to be read or written, before the first of them is: so
//! that the processor waits for memory a few times, and not a few times for each.
//!
//! A partition is several places in memory away, each found in the one before it. They are fetched
//! step by step, each step for all partitions: while the last one's place is asked for, that of the
//! first has come. Nothing is changed, nothing waits, and nothing is said of what is there.

use super::Shard;
use crate::memtable::{Memtable, Number, Step};
use crate::table::{Parts, Tablet};
use memory::Handle;
use model::{TableId, Token};
use smallvec::SmallVec;
use std::cell::Ref;
use std::rc::Rc;

/// Partitions that are fetched at once, at most: what is fetched for the last one must not drive
/// out what was for the first.
pub const AHEAD_MAX: usize = 16;

/// A partition on its way.
struct Sought<'t> {
    token: Token,
    tablet: &'t Tablet,
    memtable: Ref<'t, Rc<Memtable>>,
    number: Option<Number>,
    handle: Option<Handle>,
}

impl Shard {
    /// See [`crate::Storage::prefetch`].
    pub(crate) fn prefetch(&self, id: TableId, token: Token) {
        let tables = self.tables.borrow();
        let Some(table) = tables.get(&id) else { return };
        if let Some(tablet) = table.parts().tablet_of(token) {
            tablet.active.borrow().prefetch(token);
            if let Some(cache) = &tablet.cache {
                cache.prefetch(token);
            }
        }
    }

    /// See [`crate::Storage::prefetch_all`].
    pub(crate) fn prefetch_all(&self, id: TableId, tokens: &[Token]) {
        if let Some(table) = self.tables.borrow().get(&id) {
            let _ = fetch(&table.parts(), tokens);
        }
    }
}

/// Has memory fetch the partitions of these tokens: how far it came with those that are here.
fn fetch<'t>(parts: &'t Parts, tokens: &[Token]) -> SmallVec<[Sought<'t>; AHEAD_MAX]> {
    let mut all: SmallVec<[Sought<'t>; AHEAD_MAX]> = SmallVec::new();
    for &token in tokens.iter().take(AHEAD_MAX) {
        let Some(tablet) = parts.tablet_of(token) else { continue };
        let memtable = tablet.active.borrow();
        memtable.prefetch(token);
        if let Some(cache) = &tablet.cache {
            cache.prefetch(token);
        }
        all.push(Sought { token, tablet, memtable, number: None, handle: None });
    }
    debug_assert!(all.len() <= AHEAD_MAX, "{} at once", all.len());
    for one in &mut all {
        one.number = one.memtable.prefetch_slot(one.token);
        let cache = one.tablet.cache.as_ref();
        one.handle = cache.and_then(|cache| cache.prefetch_place(one.token));
    }
    for one in &all {
        if let (Some(cache), Some(handle)) = (&one.tablet.cache, one.handle) {
            cache.prefetch_object(handle);
        }
    }
    take_steps(all.iter().map(|one| (&**one.memtable, one.number)));
    all
}

/// The same for mutations that are about to enter: of memtables alone.
pub(super) fn fetch_entering<'t>(places: impl Iterator<Item = (&'t Tablet, Token)>) {
    let mut all: SmallVec<[(Ref<'t, Rc<Memtable>>, Token); AHEAD_MAX]> = SmallVec::new();
    for (tablet, token) in places {
        let memtable = tablet.active.borrow();
        memtable.prefetch(token);
        all.push((memtable, token));
    }
    debug_assert!(all.len() <= AHEAD_MAX, "{} at once", all.len());
    let slot = |(memtable, token): &(Ref<'_, Rc<Memtable>>, Token)| memtable.prefetch_slot(*token);
    let numbers: SmallVec<[Option<Number>; AHEAD_MAX]> = all.iter().map(slot).collect();
    let memtables = all.iter().map(|(memtable, _)| &***memtable);
    take_steps(memtables.zip(numbers.iter().copied()));
}

/// What lies behind the slots of these partitions.
fn take_steps<'m>(all: impl Iterator<Item = (&'m Memtable, Option<Number>)> + Clone) {
    for step in Step::ALL {
        for (memtable, number) in all.clone() {
            if let Some(number) = number {
                memtable.prefetch_step(number, step);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{key, schema};
    use crate::tests::{command, config, open, rows, write};
    use mutation::Partitions;

    /// How many of the partitions from 0 on, 20 of which are there, are in the memtable and in the
    /// cache, by what is fetched of them.
    fn found(shard: &Shard, id: TableId, count: u64) -> (usize, usize) {
        let tokens: Vec<Token> = (0..count).map(|number| Token::of(&key(number))).collect();
        let table = shard.table(id).unwrap();
        let parts = table.parts();
        let (mut numbers, mut handles) = (0, 0);
        for some in tokens.chunks(AHEAD_MAX) {
            shard.prefetch_all(id, some);
            let all = fetch(&parts, some);
            assert_eq!(all.len(), some.len());
            numbers += all.iter().filter(|one| one.number.is_some()).count();
            handles += all.iter().filter(|one| one.handle.is_some()).count();
        }
        (numbers, handles)
    }

    #[test]
    fn what_is_there_is_fetched_and_stays_as_it_is() {
        runtime::sim::test(1, || async {
            let storage = open(config()).await;
            let schema = schema(1, "t1");
            let shard = storage.shard();
            assert_eq!(found(shard, schema.id, 40), (0, 0));
            for partition in 0..20 {
                // Of one row, of a few, and of a tree of them.
                for row in 0..1 + partition as u32 % 12 {
                    let bytes = if (partition, row) == (11, 1) { 20 << 10 } else { 100 };
                    let one = write(&schema, partition, row, 1, &vec![7; bytes]);
                    storage.apply(one).await.unwrap();
                }
            }
            assert_eq!(found(shard, schema.id, 40), (20, 0));
            let before = rows(&storage, &schema, 11).await;
            storage.flush(schema.id).await.unwrap();
            for partition in 0..20 {
                let command = command(&schema, Partitions::Key(key(partition)));
                storage.read(&command).await.unwrap();
            }
            let (numbers, handles) = found(shard, schema.id, 40);
            assert!(numbers == 0 && 0 < handles && handles <= 20, "{numbers} {handles}");
            assert_eq!(rows(&storage, &schema, 11).await, before);
            shard.prefetch_all(TableId::from_u128(99), &[Token(1)]);
            storage.stop().await.unwrap();
        });
    }
}
