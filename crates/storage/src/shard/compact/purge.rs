//! Which deletions a merge may forget (compaction reference, section 6).
//!
//! A deletion is forgotten when it is old enough, as `tombstone_gc` of its table says, and no data
//! that it covers can lie anywhere else: in an SSTable that is not merged, in a memtable, or in a
//! segment of the commitlog that a restart would replay.
//!
//! Invariants
//!  - *nothing-beneath*: a deletion is forgotten only where all live data of its partition outside
//!    of the merge is newer. SSTables and memtables are asked as they are when the merge comes to
//!    the partition; what arrives later arrives after the time that was given for it to arrive.
//!  - *old-enough*: no deletion is forgotten before its time.
//!  - *not-replayed*: nothing is forgotten before the segments of earlier runs are gone, and
//!    nothing as old as what live segments hold of the table, flushed or not.
//!  - *all-known*: nothing is forgotten while an SSTable of the table that has left the set could
//!    not be removed, or other shards may still have it, or one could not be opened: after a
//!    restart they may be back. Nor is it while SSTables of other nodes arrive (`shard::carry`).

use super::super::Shard;
use crate::compaction::files::file_of;
use crate::compaction::policy::File;
use crate::config::Planted;
use crate::table::{Table, Tablet};
use model::schema::TableOptions;
use model::{DecoratedKey, Token};
use mutation::Outside;
use sstable::Lookup;
use std::rc::Rc;

/// Deletion times of SSTables that say "never", and "later than can be said".
const NEVER: i64 = i32::MAX as i64 - 1;

/// When a deletion is old enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// After `gc_grace_seconds`.
    Timeout,
    /// At once.
    Immediate,
    /// Never.
    Disabled,
    /// When a repair has taken it to all replicas; so long, in seconds, a write may be under way.
    Repair { delay: i64 },
}

impl Mode {
    fn of(options: &TableOptions) -> Mode {
        let get = |name: &str| {
            let found = options.tombstone_gc.iter().find(|(key, _)| key == name);
            found.map(|(_, value)| value.as_str())
        };
        let delay = get("propagation_delay_in_seconds").and_then(|secs| secs.parse().ok());
        match get("mode") {
            Some("immediate") => Mode::Immediate,
            Some("disabled") => Mode::Disabled,
            Some("repair") => Mode::Repair { delay: delay.unwrap_or(3600) },
            _ => Mode::Timeout,
        }
    }
}

/// What is known of the replicas of a place.
#[derive(Clone, Copy, Debug)]
enum Replicas {
    /// There is one, and nothing to repair.
    One,
    /// They were repaired at this second, if ever.
    Repaired(Option<i64>),
}

impl Replicas {
    fn of(table: &Table, repaired_at: Option<i64>) -> Replicas {
        match table.is_single.get() {
            true => Replicas::One,
            false => Replicas::Repaired(repaired_at),
        }
    }
}

/// The second before which deletions are old enough at such a place; `i64::MIN`: none is.
fn gc_before(options: &TableOptions, replicas: Replicas, now: i64) -> i64 {
    let before = match (Mode::of(options), replicas) {
        (Mode::Timeout, _) | (Mode::Repair { .. }, Replicas::One) => {
            now - options.gc_grace_seconds as i64
        }
        (Mode::Immediate, _) => now,
        (Mode::Disabled, _) => i64::MIN,
        (Mode::Repair { delay }, Replicas::Repaired(at)) => {
            at.map_or(i64::MIN, |repaired| repaired.saturating_sub(delay).min(now))
        }
    };
    debug_assert!(before <= now, "old-enough: deletions of {before} at {now}");
    before
}

/// The same of all between two tokens, by the table's options alone.
pub(crate) fn deletions_before(table: &Table, tokens: (Token, Token), now: i64) -> i64 {
    let repaired_at = table.repairs.borrow().least(tokens);
    gc_before(&table.schema.borrow().options, Replicas::of(table, repaired_at), now)
}

/// What is old enough in a table as it is now, by where it is.
#[derive(Clone, Copy)]
struct OldEnough<'t> {
    table: &'t Table,
    now: i64,
    /// Whether anything is.
    may_forget: bool,
    is_planted: bool,
}

impl<'t> OldEnough<'t> {
    fn of(shard: &Shard, table: &'t Table, now: i64) -> OldEnough<'t> {
        let replayed = shard.replay_state(table.log).old_gone.get();
        let may_forget = replayed && knows_all(shard, table) && table.tombstone_gc.get();
        let is_planted = shard.config.planted == Some(Planted::ForgetsEarly);
        OldEnough { table, now, may_forget, is_planted }
    }

    fn by(&self, repaired_at: Option<i64>) -> i64 {
        match (self.may_forget, self.is_planted) {
            (false, _) => i64::MIN,
            (true, true) => self.now,
            _ => {
                let replicas = Replicas::of(self.table, repaired_at);
                gc_before(&self.table.schema.borrow().options, replicas, self.now)
            }
        }
    }

    /// The second before which deletions at a token are.
    fn at(&self, token: Token) -> i64 {
        self.by(self.table.repairs.borrow().at(token))
    }

    /// Before which all deletions of an SSTable are.
    fn throughout(&self, one: &sstable::Table) -> i64 {
        self.by(self.table.repairs.borrow().least(span_of(one)))
    }

    /// Before which some of its may be.
    fn anywhere(&self, one: &sstable::Table) -> i64 {
        let most = self.by(self.table.repairs.borrow().most(span_of(one)));
        debug_assert!(self.throughout(one) <= most, "old-enough: more of all than of some");
        most
    }
}

/// The tokens between which an SSTable has partitions.
fn span_of(one: &sstable::Table) -> (Token, Token) {
    let (first, last) = (one.first_key().token, one.last_key().token);
    debug_assert!(first <= last, "old-enough: an SSTable from {first:?} to {last:?}");
    (first, last)
}

/// Whether the next start will find no SSTables but those of the set, and none arrive
/// (*all-known*).
fn knows_all(shard: &Shard, table: &Table) -> bool {
    if 0 < table.arriving.get() && shard.config.planted != Some(Planted::ForgetsArriving) {
        return false;
    }
    table.knows_all_sstables() || shard.config.planted == Some(Planted::ForgetsSharers)
}

/// The oldest live data of an SSTable, in the unit of its timestamps.
fn oldest_live(one: &sstable::Table) -> i64 {
    let known = one.scylla().timestamps.iter().find(|(kind, _)| *kind == 1);
    known.map_or(one.timestamps().0, |(_, timestamp)| *timestamp)
}

/// The oldest live data of a table that was flushed and that a restart would replay all the same.
fn oldest_logged(shard: &Shard, table: &Table) -> i64 {
    if shard.config.planted == Some(Planted::ForgetsReplays) {
        return i64::MAX;
    }
    shard.log_of(table.log).oldest_flushed(table.id)
}

/// Asked what may be forgotten of a partition.
pub(super) struct Purger<'j> {
    shard: &'j Shard,
    table: &'j Table,
    tablet: &'j Tablet,
    inputs: &'j [Rc<sstable::Table>],
    old_enough: OldEnough<'j>,
    /// The newest that the inputs have: they cover nothing that is newer.
    newest: i64,
    /// What the log would bring back of what was flushed before. What is flushed meanwhile is in
    /// SSTables that are asked, or under what they have.
    logged: i64,
    /// The SSTables of the tablet when they were looked at last, and which of them matter.
    seen: Rc<Vec<Rc<sstable::Table>>>,
    others: Vec<Other>,
}

/// An SSTable that is not merged, and has live data that the inputs may cover.
struct Other {
    oldest: i64,
    sstable: Rc<sstable::Table>,
}

impl<'j> Purger<'j> {
    /// `None`: the inputs have nothing that is old enough.
    pub(super) fn of(
        shard: &'j Shard,
        (table, tablet): (&'j Table, &'j Tablet),
        inputs: &'j [Rc<sstable::Table>],
        now: i64,
    ) -> Option<Purger<'j>> {
        let old_enough = OldEnough::of(shard, table, now);
        // Of what expires statistics have when it does; the deletion is as old as the write.
        let has_old = |one: &Rc<sstable::Table>| {
            let stats = one.stats();
            let oldest = stats.min_deletion_time.saturating_sub(stats.max_ttl as i64);
            oldest < old_enough.anywhere(one)
        };
        if !inputs.iter().any(has_old) {
            return None;
        }
        assert!(old_enough.may_forget, "all-known: nothing is old enough");
        let newest = inputs.iter().map(|one| one.timestamps().1).max()?;
        let logged = oldest_logged(shard, table);
        let (seen, others) = (Rc::default(), Vec::new());
        Some(Purger { shard, table, tablet, inputs, old_enough, newest, logged, seen, others })
    }

    pub(super) fn outside_of(&mut self, key: &DecoratedKey) -> Outside {
        debug_assert!(
            self.table.tablet_of(key.token).is_some_and(|own| std::ptr::eq(&*own, self.tablet)),
            "nothing-beneath: {key:?} is of another tablet"
        );
        // What could not be removed or opened meanwhile counts as well.
        if !knows_all(self.shard, self.table) {
            return Outside::UNKNOWN;
        }
        self.look_at_others();
        let mut lookup = None;
        let elsewhere = self.others.iter().find(|other| {
            other.sstable.may_contain(lookup.get_or_insert_with(|| Lookup::new(key.key.clone())))
        });
        let elsewhere = elsewhere.map_or(i64::MAX, |other| other.oldest);
        debug_assert!(
            self.others.is_sorted_by_key(|other| other.oldest),
            "nothing-beneath: the oldest is not first"
        );
        let memtables = self
            .tablet
            .memtables()
            .filter(|memtable| memtable.oldest_live() <= self.newest && memtable.contains(key));
        let in_memory = memtables.map(|memtable| memtable.oldest_live()).min();
        let known = Outside {
            gc_before: self.old_enough.at(key.token),
            log: self.logged,
            memtables: in_memory.unwrap_or(i64::MAX),
            sstables: elsewhere,
        };
        match self.shard.config.planted {
            Some(Planted::ForgetsUnseen) => {
                Outside { log: i64::MAX, memtables: i64::MAX, sstables: i64::MAX, ..known }
            }
            _ => known,
        }
    }

    /// Which SSTables matter, the one with the oldest data first.
    fn look_at_others(&mut self) {
        let all = self.tablet.sstables.borrow().clone();
        if Rc::ptr_eq(&all, &self.seen) {
            return;
        }
        let is_input =
            |one: &&Rc<sstable::Table>| self.inputs.iter().any(|input| Rc::ptr_eq(input, one));
        let others = all.iter().filter(|one| !is_input(one));
        let others = others.map(|one| Other { oldest: oldest_live(one), sstable: one.clone() });
        self.others = others.filter(|other| other.oldest <= self.newest).collect();
        self.others.sort_by_key(|other| other.oldest);
        debug_assert!(
            self.others.iter().all(|other| other.oldest <= self.newest),
            "nothing-beneath: what the inputs cannot cover"
        );
        self.seen = all;
    }
}

/// What strategies are told of these SSTables of a tablet.
pub(super) fn files_of(
    shard: &Shard,
    (table, tablet): (&Table, &Tablet),
    own: &[Rc<sstable::Table>],
    now_micros: i64,
) -> Vec<File> {
    let old_enough = OldEnough::of(shard, table, now_micros.div_euclid(1_000_000));
    let mut files: Vec<File> = own.iter().map(|one| file_of(one, now_micros)).collect();
    if !old_enough.may_forget {
        return files;
    }
    assert_eq!(files.len(), own.len(), "a file for each SSTable");
    let beneath = Beneath::of(shard, (table, tablet), &old_enough);
    for (file, one) in files.iter_mut().zip(own) {
        file.droppable = droppable(one, old_enough.throughout(one));
        file.expired = is_dead(one, &old_enough) && one.timestamps().1 < beneath.oldest();
    }
    files
}

/// Whether one of these SSTables would be dropped unread, if it were not for what the log would
/// bring back.
pub(super) fn log_keeps_expired(
    shard: &Shard,
    (table, tablet): (&Table, &Tablet),
    own: &[Rc<sstable::Table>],
    now_micros: i64,
) -> bool {
    let old_enough = OldEnough::of(shard, table, now_micros.div_euclid(1_000_000));
    let mut dead = own.iter().filter(|one| is_dead(one, &old_enough)).peekable();
    if dead.peek().is_none() {
        return false;
    }
    let beneath = Beneath::of(shard, (table, tablet), &old_enough);
    dead.any(|one| (beneath.logged..beneath.stored).contains(&one.timestamps().1))
}

/// Whether all of an SSTable is old enough to be dropped. What lives on has the latest time that
/// the format can say; what goes later than that as well.
fn is_dead(one: &sstable::Table, old_enough: &OldEnough<'_>) -> bool {
    let latest = one.stats().max_deletion_time;
    latest < NEVER && latest < old_enough.throughout(one)
}

/// The oldest live data that what is dropped could have covered; `i64::MAX` where there is none.
struct Beneath {
    /// In SSTables and memtables.
    stored: i64,
    /// In the log, flushed.
    logged: i64,
}

impl Beneath {
    fn of(
        shard: &Shard,
        (table, tablet): (&Table, &Tablet),
        old_enough: &OldEnough<'_>,
    ) -> Beneath {
        // Of what has no live data nothing can come back.
        let all = tablet.sstables.borrow().clone();
        let alive = all.iter().filter(|one| !is_dead(one, old_enough));
        let in_files = alive.map(|one| oldest_live(one)).min();
        let in_memory = tablet.memtables().map(|memtable| memtable.oldest_live()).min();
        let stored = in_files.into_iter().chain(in_memory).fold(i64::MAX, i64::min);
        Beneath { stored, logged: oldest_logged(shard, table) }
    }

    fn oldest(&self) -> i64 {
        self.stored.min(self.logged)
    }
}

/// The part of an SSTable that is deletions, or has expired, before a second; about.
fn droppable(one: &sstable::Table, gc_before: i64) -> f64 {
    let stats = one.stats();
    let cells = stats.cell_counts.mean() * stats.partition_sizes.count() as f64;
    let dropped = stats.tombstones.count_until(gc_before.saturating_sub(1));
    debug_assert!(0.0 <= cells, "a part of {cells} cells");
    if dropped == 0 { 0.0 } else { (dropped as f64 / cells.max(1.0)).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tombstone_gc_says_what_is_old_enough() {
        let check_at = |pairs: &[(&str, &str)], replicas, expected| {
            let mut options = crate::testing::schema(1, "t").options;
            options.gc_grace_seconds = 100;
            let pairs = pairs.iter().map(|(key, value)| (key.to_string(), value.to_string()));
            options.tombstone_gc = pairs.collect();
            assert_eq!(gc_before(&options, replicas, 10_000), expected, "{options:?}");
        };
        let check = |pairs: &[(&str, &str)], repaired_at, expected| {
            check_at(pairs, Replicas::Repaired(repaired_at), expected);
        };
        check(&[], None, 9_900);
        check(&[("mode", "timeout")], Some(5), 9_900);
        check(&[("mode", "immediate")], None, 10_000);
        check(&[("mode", "disabled")], Some(9_999), i64::MIN);
        check(&[("mode", "repair")], None, i64::MIN);
        check(&[("mode", "repair")], Some(9_000), 5_400);
        let delay = ("propagation_delay_in_seconds", "7");
        check(&[("mode", "repair"), delay], Some(9_000), 8_993);
        check(&[("mode", "repair"), delay], Some(i64::MAX), 10_000);
        check_at(&[("mode", "repair"), delay], Replicas::One, 9_900);
        check_at(&[("mode", "immediate")], Replicas::One, 10_000);
        check_at(&[("mode", "disabled")], Replicas::One, i64::MIN);
    }
}
