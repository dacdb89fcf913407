//! A table whose tablets are divided anew while it is open: of one become two, of two becomes one.
//!
//! ```text
//! merges of the tablets that leave end early, and none begins
//! in one step: new tablets have what reaches into them of
//!   memtables, which are sealed; SSTables; nothing of the row cache
//! each flush: what a memtable of several tablets became joins all of them
//! merges: each tablet writes its part of SSTables that several have, and lets go of them
//! ```
//!
//! Nobody waits for any of this, neither reads nor writes: what reaches over a border is in the
//! tablets on both sides of it, each of which reads what lies in its own range. That is what a
//! start makes of an SSTable that lies in several tablets, and it is divided in the same way, as a
//! job among others (`shard::compact::reshard`). Nothing of it is durable but SSTables that say the
//! same whoever has them: how a table is divided the next start is told, and a crash at any time
//! leaves what it would leave of any other table. Of tablets that become one the SSTables are one
//! set; they are apart, and keep level and run.
//!
//! What is cached of a tablet that leaves is forgotten, bit by bit: what is read comes back. So is
//! how often it changed: who compares that reads it once (`table::changes`).
//!
//! Invariants
//!  - *same-shards*: each token stays on its shard.
//!  - *in-one-step*: who takes the tablets of a table takes the old ones or the new ones. Who reads
//!    the old ones has all they had, and goes on with that.
//!  - *nothing-lost*: what an old tablet has is in a new one, as far as its tokens are, in the step
//!    in which it leaves. Nothing comes to it afterwards: a write that found it and had to wait
//!    finds the new one.
//!  - *stays-as-it-is*: a tablet whose range is one of the new ones as well stays, with all that it
//!    has and all that is done to it; its number changes.
//!  - *let-go-is-known*: an SSTable stays among those that this shard has let go of
//!    ([`Table::let_go`]) as long as one of its tablets is without it that it reaches into, and no
//!    longer. So no deletion is forgotten while a tablet may come to have it for two.
//!  - *one-after-the-other*: of a table one division goes on at a time, and none while ranges of it
//!    are cleared, which goes from tablet to tablet.

use super::Shard;
use crate::config::Planted;
use crate::error::StorageError;
use crate::table::{Parts, Shares, Standing, Table, Tablet, pass_gate};
use model::{TableId, TabletMap, Token};
use runtime::task::join_all;
use runtime::time::Instant;
use std::rc::Rc;

/// Tablets that are about to leave, and stay after all if nothing comes of it.
struct Leaving(Vec<Rc<Tablet>>);

impl Leaving {
    fn of(tablets: Vec<Rc<Tablet>>) -> Leaving {
        tablets.iter().for_each(|tablet| tablet.set_standing(Standing::Leaves));
        Leaving(tablets)
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let staying = self.0.iter().filter(|tablet| !tablet.is_gone());
        staying.for_each(|tablet| tablet.set_standing(Standing::Stays));
    }
}

impl Shard {
    /// See [`crate::Storage::divide`].
    pub(crate) async fn divide(&self, id: TableId, map: TabletMap) -> Result<(), StorageError> {
        let table = self.table(id).ok_or(StorageError::UnknownTable(id))?;
        let begun = Instant::now();
        let _turn = table.clearing.acquire(1).await;
        assert!(table.clearing.available() == 0, "one-after-the-other: of a table");
        check(&table, &map)?;
        let before = table.tablets();
        let leaving = before.iter().filter(|old| !has_range(&map, old.range));
        let leaving = Leaving::of(leaving.cloned().collect());
        // All at once: who sees that a tablet is about to leave waits behind this for it.
        let alone = join_all(leaving.0.iter().map(|tablet| tablet.compacting.acquire(1))).await;
        assert!(
            leaving.0.iter().all(|tablet| tablet.is_busy()),
            "one-at-a-time: nobody has a tablet of {} that leaves",
            table.name()
        );
        // Not while it is truncated or dropped.
        let _gate = pass_gate(&table, 1).await;
        if table.dropped.get() {
            return Err(StorageError::UnknownTable(id));
        }
        if map != *table.map() {
            self.exchange(&table, Rc::new(map));
            let (was, is, millis) =
                (before.len(), table.tablets().len(), begun.elapsed().as_millis());
            tracing::debug!(
                target: "storage",
                "{} has {is} tablets here, and had {was}; merges took {millis} ms to end",
                table.name()
            );
        }
        drop(alone);
        self.compaction_wake.notify_one();
        self.reclaim_wake.notify_one();
        Ok(())
    }

    /// The step (*in-one-step*).
    fn exchange(&self, table: &Rc<Table>, map: Rc<TabletMap>) {
        let (old, shard) = (table.tablets(), runtime::shard_id());
        let order = table.order.borrow().clone();
        for tablet in old.iter().filter(|old| old.is_leaving()) {
            self.seal(table, tablet);
        }
        let mine = (0..map.count()).filter(|index| map.shards()[*index] == shard);
        let mut new = Vec::new();
        for index in mine {
            let range = map.range(index);
            let from = overlapping(&old, range);
            if let [same] = from
                && same.range == range
            {
                assert!(!same.is_leaving(), "stays-as-it-is: tablet {index}");
                same.index.set(index);
                new.push(same.clone());
                continue;
            }
            let shares = Shares { dirty: &table.dirty, cache: self.row_cache.as_ref() };
            let tablet = Tablet::new(&map, index, &order, shares);
            tablet.inherit(from);
            if self.config.planted == Some(Planted::DividesNoMemtables) {
                tablet.sealed.take();
            }
            new.push(Rc::new(tablet));
        }
        let sealed = table.sealed_memtables();
        table.set_parts(Parts::new(map, new));
        assert!(
            self.config.planted == Some(Planted::DividesNoMemtables)
                || sealed.iter().all(|one| !table.holders_of(one).is_empty()),
            "nothing-lost: a memtable of {} that nobody has",
            table.name()
        );
        for tablet in old.iter().filter(|old| old.is_leaving()) {
            tablet.leave();
            table.note_lookups_of(tablet);
        }
        match self.config.planted {
            Some(Planted::DividesForgetful) => table.let_go.borrow_mut().clear(),
            _ => forget_what_all_have(table),
        }
    }
}

/// Refuses a division that is none, or of which tokens would go to other shards.
fn check(table: &Table, map: &TabletMap) -> Result<(), StorageError> {
    let (refused, name) = (|what| Err(StorageError::Shard(what)), table.name());
    let now = table.map();
    if now.sharder().is_some() || map.sharder().is_some() {
        return refused(format!(
            "{name} is not divided anew: it, or what it is to be, has no tablets"
        ));
    }
    let lasts = map.last_tokens();
    if lasts.first() == Some(&Token::MIN) || !lasts.is_sorted_by(|a, b| a < b) {
        return refused(format!("{name} is not divided anew: its tablets are to end at {lasts:?}"));
    }
    match first_moved(&now, map) {
        None => Ok(()),
        Some(token) => {
            let (from, to) = (now.shard_of(token), map.shard_of(token));
            let token = token.0;
            refused(format!("{name} is not divided anew: token {token} of shard {from} is of {to}"))
        }
    }
}

/// The first token at the end of a tablet that another map gives to another shard (*same-shards*).
fn first_moved(old: &TabletMap, new: &TabletMap) -> Option<Token> {
    let ends = old.last_tokens().iter().chain(new.last_tokens()).copied();
    ends.filter(|last| old.shard_of(*last) != new.shard_of(*last)).min()
}

/// Whether a map has a tablet of exactly that range.
fn has_range(map: &TabletMap, range: (Token, Token)) -> bool {
    map.range(map.tablet_of(range.1)) == range
}

/// Those of some tablets, which ascend, that have tokens of a range.
fn overlapping(tablets: &[Rc<Tablet>], (after, last): (Token, Token)) -> &[Rc<Tablet>] {
    let first = tablets.partition_point(|tablet| tablet.range.1 <= after);
    let until = tablets.partition_point(|tablet| tablet.range.0 < last);
    assert!(first < until, "same-shards: nobody had what lies after {after:?} up to {last:?}");
    &tablets[first..until]
}

/// What each tablet has that it reaches into is not let go of (*let-go-is-known*).
fn forget_what_all_have(table: &Table) {
    if table.let_go.borrow().is_empty() {
        return;
    }
    let (tablets, all) = (table.tablets(), table.sstables());
    table.let_go.borrow_mut().retain(|descriptor| {
        let Some(one) = all.iter().find(|one| one.descriptor() == *descriptor) else { return true };
        tablets.iter().any(|tablet| tablet.intersects(one) && !tablet.has_sstable(*descriptor))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(parts: &[(i64, u16)]) -> TabletMap {
        let (lasts, shards) = parts.iter().map(|(last, shard)| (Token(*last), *shard)).unzip();
        TabletMap::new(lasts, shards)
    }

    #[test]
    fn tokens_stay_on_their_shards() {
        let old = map(&[(-10, 0), (0, 1), (10, 0), (i64::MAX, 1)]);
        let check = |new: &[(i64, u16)], moved: Option<i64>| {
            assert_eq!(first_moved(&old, &map(new)), moved.map(Token), "{new:?}");
        };
        check(&[(-10, 0), (0, 1), (10, 0), (i64::MAX, 1)], None);
        check(&[(-20, 0), (-10, 0), (0, 1), (3, 0), (5, 0), (10, 0), (i64::MAX, 1)], None);
        check(&[(-20, 1), (-10, 0), (0, 1), (10, 0), (i64::MAX, 1)], Some(-20));
        check(&[(-10, 0), (1, 1), (10, 0), (i64::MAX, 1)], Some(1));
        check(&[(0, 0), (10, 0), (i64::MAX, 1)], Some(0));
        check(&[(-10, 0), (i64::MAX, 1)], Some(10));
    }

    #[test]
    fn a_range_is_of_a_map_or_is_not() {
        let map = map(&[(-10, 0), (0, 1), (i64::MAX, 1)]);
        let check = |after: i64, last: i64, expected: bool| {
            assert_eq!(has_range(&map, (Token(after), Token(last))), expected, "{after} {last}");
        };
        check(i64::MIN, -10, true);
        check(-10, 0, true);
        check(0, i64::MAX, true);
        check(-10, i64::MAX, false);
        check(-5, 0, false);
        check(i64::MIN, -11, false);
    }
}
