//! A tablet that goes to another shard of this node while it is open.
//!
//! ```text
//! giver    what several tablets have is divided; memtable -> SSTable     all goes on
//!          who reads to decide what he writes ends; the next ones wait
//!          closed: writes wait; the rest of the memtable -> SSTable
//!          record: the log of this shard has nothing of it up to here
//! getter   opens the SSTables, and has the tablet
//! giver    has it no longer: what waited, and what comes late, is sent on (`shard::elsewhere`)
//! others   know that
//! ```
//!
//! Reads go on all the time. Nothing is written anew: the SSTables stay where they are, in the
//! directory of the table, and another shard opens them. Nothing of it is durable but the record:
//! a start goes by how the node is told to divide the table, and takes the SSTables that lie in
//! each tablet; so a crash at any time leaves what it would leave of any other table.
//!
//! Invariants
//!  - *one-writer*: a tablet is written to on one shard at a time, and when the other one has it,
//!    that one has all that was written.
//!  - *one-decides*: nobody who has read on one shard what he goes by writes after the tablet was
//!    given away: counters, conditional writes of one replica, what is derived for views.
//!  - *log-has-nothing*: when a tablet has gone, no log of another shard would bring back any of
//!    it. Else a deletion that is forgotten where it is now, or a truncation there, would be undone
//!    by the next start.
//!  - *alone-in-files*: what goes has no SSTable with other tablets, none of which this shard has
//!    let go, and none that could not be removed: nobody but its owner would keep the deletions
//!    that they need.
//!  - *open-again*: where anything fails, the tablet stays, as it was.
//!  - *before-who-counts*: who goes over the SSTables of all shards (snapshots, files that are
//!    taken over, or that several shards had) does so before or after.

use super::Shard;
use super::compact::{check_clear, settle};
use super::locks::Closed;
use super::open::{Opened, open_all};
use crate::error::StorageError;
use crate::table::{Parts, Shares, Standing, Table, Tablet, TokenRanges, pass_gate};
use model::{TableId, TabletMap, Token};
use runtime::time::{sleep, timeout};
use runtime::{local, on_all_shards, on_shard};
use sstable::Descriptor;
use std::rc::Rc;
use std::time::Duration;

/// How long others may wait for those who decide what they write.
const DRAIN_MAX: Duration = Duration::from_millis(250);
/// Before they are asked to wait once more.
const DRAIN_PAUSE: Duration = Duration::from_millis(50);
/// How often.
const DRAINS_MAX: usize = 20;

type Range = (Token, Token);

/// A part that goes.
#[derive(Clone, Copy, Debug)]
struct Going {
    table: TableId,
    range: Range,
    from: u16,
    to: u16,
}

/// A tablet that is about to go, and stays after all if nothing comes of it (*open-again*).
struct Closing {
    table: Rc<Table>,
    tablet: Rc<Tablet>,
}

impl Closing {
    fn of(table: &Rc<Table>, tablet: &Rc<Tablet>) -> Closing {
        assert!(!tablet.is_leaving(), "one-writer: tablet {} goes twice", tablet.index.get());
        tablet.set_standing(Standing::Leaves);
        Closing { table: table.clone(), tablet: tablet.clone() }
    }

    /// From now on writes wait.
    fn close(&self) {
        assert!(!self.tablet.is_closed(), "one-writer: it was closed before");
        self.tablet.set_standing(Standing::Closed);
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        if !self.tablet.is_gone() {
            self.tablet.set_standing(Standing::Stays);
        }
        self.table.opened.notify_all();
    }
}

impl Shard {
    /// See [`crate::Storage::hand_over`].
    pub(crate) async fn hand_over(
        &self,
        id: TableId,
        range: Range,
        to: u16,
    ) -> Result<(), StorageError> {
        if runtime::shard_count() <= to {
            return refused(format!("a tablet is to go to shard {to}, which is none"));
        }
        loop {
            let map = self.table(id).ok_or(StorageError::UnknownTable(id))?.map();
            let Some((part, from)) = first_to_go(&map, range, to)? else { return Ok(()) };
            let going = Going { table: id, range: part, from, to };
            on_shard(from, move || give(going)).await.map_err(StorageError::Shard)?;
            let now = self.table(id).ok_or(StorageError::UnknownTable(id))?.map();
            assert!(now.shard_of(part.1) == to, "one-writer: {going:?} has not gone");
        }
    }
}

fn refused<T>(why: String) -> Result<T, StorageError> {
    Err(StorageError::Shard(why))
}

/// The first part of a range that is not on the shard where it is to be, and where it is.
fn first_to_go(
    map: &TabletMap,
    (after, last): Range,
    to: u16,
) -> Result<Option<(Range, u16)>, StorageError> {
    assert!(after < last, "one-writer: nothing lies after {after:?} up to {last:?}");
    if map.sharder().is_some() {
        return refused("a part of a ring stays on its shard".to_owned());
    }
    let within = |range: Range| after <= range.0 && range.1 <= last;
    let mut parts = map.tablet_of(Token(after.0.saturating_add(1)))..=map.tablet_of(last);
    if !parts.clone().all(|index| within(map.range(index))) {
        return refused(format!("no tablets from {} to {}", after.0, last.0));
    }
    let next = parts.find(|index| map.shards()[*index] != to);
    Ok(next.map(|index| (map.range(index), map.shards()[index])))
}

/// On the giver: what several tablets have is divided, and turns are taken, in the order in which
/// all take them: those of the table on both shards, then those of the node.
async fn give(going: Going) -> Result<(), String> {
    let (shard, table) = own(going.table)?;
    let _turn = table.clearing.acquire(1).await;
    assert!(runtime::shard_id() == going.from, "one-writer: another shard than that of {going:?}");
    check_clear(&shard, &table).map_err(|error| error.to_string())?;
    let ranges = TokenRanges::new(vec![going.range]);
    settle(&shard, &table, &ranges).await.map_err(|error| error.to_string())?;
    let on_getter = move || async move {
        let (shard, table) = own(going.table)?;
        let _turn = table.clearing.acquire(1).await;
        assert!(table.clearing.available() == 0, "one-after-the-other: of a table");
        check_clear(&shard, &table).map_err(|error| error.to_string())?;
        on_shard(0, move || in_turn(going)).await
    };
    on_shard(going.to, on_getter).await
}

/// On shard 0 (*before-who-counts*).
async fn in_turn(going: Going) -> Result<(), String> {
    let (shard, table) = own(going.table)?;
    let _snapshots = shard.snapshot_turn.acquire(1).await.map_err(|error| error.to_string())?;
    let _alone = table.loading.acquire(1).await;
    assert!(runtime::shard_id() == 0, "before-who-counts: turns are taken on another shard");
    assert!(table.loading.available() == 0, "before-who-counts: beside who takes over files");
    on_shard(going.from, move || carry_out(going)).await?;
    let known = on_all_shards(move || async move { learn(going) }).await;
    debug_assert!(known.len() == usize::from(runtime::shard_count()), "one-writer: not all know");
    Ok(())
}

fn own(id: TableId) -> Result<(Rc<Shard>, Rc<Table>), String> {
    let shard = local::try_get::<Shard>().ok_or("the node stops")?;
    let table = shard.table(id).ok_or("the table was dropped")?;
    Ok((shard, table))
}

/// On the giver.
async fn carry_out(going: Going) -> Result<(), String> {
    let (shard, table) = own(going.table)?;
    let tablet = table.tablet_of(going.range.1).filter(|it| it.range == going.range);
    let tablet = tablet.ok_or("the tablet was divided meanwhile")?;
    let closing = Closing::of(&table, &tablet);
    let _merges = tablet.compacting.acquire(1).await;
    assert!(tablet.is_busy(), "one-at-a-time: nobody has tablet {}", tablet.index.get());
    flush(&shard, &table, &tablet).await?;
    let locks = drain(&shard, going).await?;
    let early = shard.hasty_hand_overs.get().then(|| files_of(&tablet));
    closing.close();
    while 0 < table.in_pieces.get() {
        table.opened.notified().await;
    }
    let before = shard.log_of(table.log).position();
    flush(&shard, &table, &tablet).await?;
    let gate = pass_gate(&table, 1).await;
    check_alone(&table, &tablet)?;
    let recorded = shard.record_cleared(&table, vec![going.range], before).await;
    recorded.map_err(|error| error.to_string())?;
    assert!(tablet.active.borrow().is_empty(), "one-writer: it was written to after it was closed");
    let files = early.unwrap_or_else(|| files_of(&tablet));
    let count = files.len();
    on_shard(going.to, move || take(going, files)).await?;
    // The step.
    assert!(tablet.is_closed(), "one-writer: tablet {} is open", tablet.index.get());
    learn(going);
    drop((gate, locks, closing));
    let (from, to, name) = (going.from, going.to, table.name());
    tracing::info!(
        target: "tablets",
        "a tablet of {name} with {count} SSTables has gone from shard {from} to shard {to}"
    );
    Ok(())
}

fn files_of(tablet: &Tablet) -> Vec<Descriptor> {
    tablet.sstables.borrow().iter().map(|one| one.descriptor()).collect()
}

/// What is in memory of a tablet becomes SSTables.
async fn flush(shard: &Shard, table: &Rc<Table>, tablet: &Rc<Tablet>) -> Result<(), String> {
    shard.seal(table, tablet);
    let sealed = tablet.sealed.borrow().clone();
    let flushed = shard.await_memtables(sealed).await;
    flushed.map_err(|error| format!("a tablet that is to go to another shard: {error}"))
}

/// Has those end who decide what they write, and the next ones wait (*one-decides*).
async fn drain(shard: &Shard, going: Going) -> Result<[Closed; 2], String> {
    for _ in 0..DRAINS_MAX {
        let closed = async {
            // Who holds a partition writes, and so may derive: not the other way round.
            let decide = shard.locks.close(going.table, going.range).await;
            let derive = shard.deriving_locks.close(going.table, going.range).await;
            [decide, derive]
        };
        if let Ok(closed) = timeout(DRAIN_MAX, closed).await {
            return Ok(closed);
        }
        stdx::probe!("partitions of a tablet that is to go to another shard are held for long");
        sleep(DRAIN_PAUSE).await;
    }
    Err("partitions of a tablet that is to go to another shard are held all the time".to_owned())
}

/// *alone-in-files*, and nothing in memory.
fn check_alone(table: &Table, tablet: &Rc<Tablet>) -> Result<(), String> {
    if table.dropped.get() {
        return Err("the table was dropped".to_owned());
    }
    let is_shared = tablet.sstables.borrow().iter().any(|one| !tablet.holds_all_of(one));
    let is_left = !table.let_go.borrow().is_empty() || !table.unremoved.borrow().is_empty();
    if is_shared || is_left || !table.broken.borrow().is_empty() {
        let name = table.name();
        return Err(format!("SSTables of {name} are of several tablets, or could not be removed"));
    }
    assert!(tablet.sealed.borrow().is_empty(), "one-writer: a memtable is not flushed");
    Ok(())
}

/// On the getter: opens the SSTables, then has the tablet, in one step.
async fn take(going: Going, files: Vec<Descriptor>) -> Result<(), String> {
    let (shard, table) = own(going.table)?;
    let _gate = pass_gate(&table, 1).await;
    if table.dropped.get() {
        return Err("the table was dropped".to_owned());
    }
    assert!(runtime::shard_id() == going.to, "one-writer: another shard than that of {going:?}");
    assert!(table.tablet_of(going.range.1).is_none(), "no-circles: {going:?} is here already");
    let count = files.len();
    let mut opened = Vec::with_capacity(count);
    for one in open_all(&shard, &table, &files, table.schema()).await {
        match one {
            Opened::Good(one) => opened.push(one),
            Opened::Bad(_, error) => return Err(error.to_string()),
        }
    }
    // It may have been altered meanwhile.
    for one in &opened {
        one.set_schema(table.schema()).map_err(|error| error.to_string())?;
    }
    let map = table.map().with_shard(going.range, going.to);
    let order = table.order.borrow().clone();
    let shares = Shares { dirty: &table.dirty, cache: shard.row_cache.as_ref() };
    let tablet = Tablet::new(&map, map.tablet_of(going.range.1), &order, shares);
    opened.into_iter().for_each(|one| tablet.adopt(one));
    assert!(tablet.sstables.borrow().len() == count, "one-writer: not all of {count} SSTables");
    let mut all = table.tablets().to_vec();
    let at = all.partition_point(|one| one.range.1 <= going.range.0);
    all.insert(at, Rc::new(tablet));
    show(&table, map, all);
    shard.compaction_wake.notify_one();
    Ok(())
}

/// From now on this shard knows where the tablet is; where it had it, it has it no longer.
fn learn(going: Going) {
    let Ok((shard, table)) = own(going.table) else { return };
    let known = table.map();
    if known.shard_of(going.range.1) == going.to {
        return;
    }
    let mut all = table.tablets().to_vec();
    if runtime::shard_id() == going.from {
        all.retain(|one| one.range != going.range);
        let tablet = table.tablet_of(going.range.1).expect("one-writer: it was there");
        tablet.leave();
        table.note_lookups_of(&tablet);
        shard.reclaim_wake.notify_one();
    }
    show(&table, known.with_shard(going.range, going.to), all);
}

fn show(table: &Table, map: TabletMap, all: Vec<Rc<Tablet>>) {
    debug_assert!(map.count() == table.map().count(), "one-writer: other parts of {}", table.id);
    table.set_parts(Parts::new(Rc::new(map), all));
    table.hand_overs.set(table.hand_overs.get() + 1);
}
