//! SSTables that lie in several tablets: a data directory was opened with another number of
//! shards, or somebody took them over from elsewhere. Each tablet writes its own part of such a
//! one, as a job among others, and lets go of it. When all tablets of all shards have, it is
//! removed. Nobody waits for any of this: reads have what they had.
//!
//! ```text
//! shard 0   D -> own part of D -> lets go   forgets no deletion -.
//! shard 1   D ---------> own part of D -> lets go  - " -  -------+-> D is removed, durably
//! shard 2   D -> nothing of D -> lets go    forgets no deletion -'
//! ```
//!
//! Nothing durable says which tablets have let go. After a crash the next start, with whatever
//! number of shards, finds the SSTable and the parts that were written; they merge to the same,
//! because of what is named below.
//!
//! Invariants
//!  - *parts-outlive-whole*: a tablet lets go of an SSTable in the step in which what it wrote of
//!    it joins its set, after that is durable. It writes every deletion.
//!  - *held-by-none*: an SSTable is removed when no tablet of any shard has it. Shard 0 asks all
//!    of them, while nobody takes over files (`Table::loading`); so none is about to get it. Who
//!    lets go last asks last: nothing is left behind.
//!  - *let-go-is-not-gone*: until the removal is durable, each shard that has let go forgets no
//!    deletion of the table (*all-known*), and names the SSTable in the record of a truncation.
//!    Otherwise a crash would bring back what the deletion covered, or what was truncated.
//!  - *smallest-first*: all shards go by the same order, so that they have done with the same
//!    SSTables at about the same time, and room is free again as early as possible.

use super::super::Shard;
use super::{Adjust, merge};
use crate::compaction::Job;
use crate::compaction::files::{part_of_tablet, shared_sstables};
use crate::compaction::policy::{self, Options, Why};
use crate::config::Planted;
use crate::table::{Table, Tablet, pass_gate};
use model::TableId;
use reader::ReadError;
use runtime::time::timeout;
use runtime::{local, on_all_shards, on_shard};
use sstable::{Component, Descriptor, store};
use std::rc::Rc;
use std::time::Duration;

/// After so long shard 0 is asked again about what is still there: it may have failed to remove
/// it, or some shard did not know its table yet.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// The job of a tablet that writes its own part of this SSTable.
pub(super) fn job_of((table, tablet): (&Rc<Table>, &Rc<Tablet>), one: &Rc<sstable::Table>) -> Job {
    debug_assert!(tablet.has_sstable(one.descriptor()), "parts-outlive-whole: it is not there");
    let bytes_max = Options::of(&table.schema.borrow().options).bytes_max();
    let level = one.stats().level;
    let wanted = policy::Job { files: vec![0], why: Why::Reshard, level, bytes_max };
    let mut job = Job::of((table, tablet), std::slice::from_ref(one), &wanted);
    job.run = one.scylla().run_id;
    job.part = part_of_tablet((one.first_key().token, one.last_key().token), tablet);
    job
}

/// The SSTables of which a tablet has to write its part.
pub(super) fn to_reshard(tablet: &Tablet) -> Vec<Rc<sstable::Table>> {
    let mut shared = shared_sstables(tablet);
    debug_assert!(shared.iter().all(|one| tablet.intersects(one)), "once-in-set: nothing of one");
    shared.retain(|one| !one.is_damaged());
    shared
}

/// The one that is next (*smallest-first*).
pub(super) fn next_of(tablet: &Tablet) -> Option<Rc<sstable::Table>> {
    to_reshard(tablet).into_iter().min_by_key(|one| (one.data_bytes(), one.descriptor()))
}

/// Writes the part of a tablet of each SSTable that lies in others as well, while nobody else
/// merges those of the tablet.
pub(crate) async fn write_parts(
    shard: &Shard,
    place: (&Rc<Table>, &Rc<Tablet>),
    adjust: Adjust<'_>,
) -> Result<(), ReadError> {
    for one in to_reshard(place.1) {
        let job = job_of(place, &one).with_room(shard).await?;
        merge::run(shard, &job, adjust).await?;
    }
    Ok(())
}

impl Shard {
    /// No tablet of this shard has these any more, or one has let go of them: they go when all
    /// have.
    pub(crate) fn let_go_of(&self, table: &Table, shared: impl Iterator<Item = Descriptor>) {
        let mut let_go = table.let_go.borrow_mut();
        for one in shared {
            if !let_go.contains(&one) {
                let_go.push(one);
            }
        }
        self.let_go_wake.notify_one();
    }

    /// Sees to it that what this shard has let go of is removed when all have.
    pub(crate) async fn see_to_removals(self: Rc<Shard>) {
        loop {
            let is_left = self.ask_for_removals().await;
            let wake = self.let_go_wake.notified();
            match is_left {
                true => drop(timeout(ASK_AGAIN, wake).await),
                false => wake.await,
            }
        }
    }

    /// Asks shard 0 to remove what no shard has; whether something is left to ask for.
    pub(crate) async fn ask_for_removals(&self) -> bool {
        let waits = |table: &&Rc<Table>| !table.let_go.borrow().is_empty();
        let tables: Vec<_> = self.tables.borrow().values().filter(waits).cloned().collect();
        let mut is_left = false;
        for table in tables {
            let (id, wanted) = (table.id, table.let_go.borrow().clone());
            debug_assert!(
                wanted.iter().enumerate().all(|(at, one)| !wanted[..at].contains(one)),
                "held-by-none: one twice in {wanted:?}"
            );
            on_shard(0, move || async move { remove_unheld(id, wanted).await }).await;
            is_left |= !table.let_go.borrow().is_empty();
        }
        is_left
    }
}

/// On shard 0: removes those that no shard has, and tells all shards when that is durable.
async fn remove_unheld(id: TableId, wanted: Vec<Descriptor>) {
    let Some(shard) = local::try_get::<Shard>() else { return };
    let Some(table) = shard.table(id) else { return };
    let asks = shard.config.planted != Some(Planted::RemovesShared);
    drop(shard);
    let _alone = table.loading.acquire(1).await;
    let mut unheld = wanted;
    if asks {
        let asked = unheld.clone();
        let held = on_all_shards(move || async move { held_of(id, asked) }).await;
        // Who does not know the table may get to know it, and have all of them.
        let is_held =
            |one: &Descriptor| held.iter().any(|h| h.as_ref().is_none_or(|h| h.contains(one)));
        unheld.retain(|one| !is_held(one));
    }
    let _gate = pass_gate(&table, 1).await;
    if table.dropped.get() {
        return;
    }
    assert!(runtime::shard_id() == 0, "held-by-none: shard 0 removes");
    let mut gone = Vec::new();
    for one in unheld {
        let (name, dir) = (one.file_name(Component::Data), table.dir.display());
        debug_assert!(
            !asks || !table.tablets().iter().any(|tablet| tablet.has_sstable(one)),
            "held-by-none: {name} is in use"
        );
        match store::remove(&table.dir, one).await {
            Ok(()) => {
                tracing::info!("{name} in {dir} is removed: each tablet has its part of it");
                gone.push(one);
            }
            Err(error) => tracing::warn!("{name} in {dir}, which is not needed, stays: {error}"),
        }
    }
    if !gone.is_empty() {
        on_all_shards(move || async move { forget(id, &gone) }).await;
    }
}

/// Which of these a tablet of this shard has; `None`: nobody knows. An SSTable that could not be
/// opened here may be opened at the next start.
fn held_of(id: TableId, asked: Vec<Descriptor>) -> Option<Vec<Descriptor>> {
    let table = local::try_get::<Shard>()?.table(id)?;
    if !table.broken.borrow().is_empty() {
        return None;
    }
    let is_held = |one: &Descriptor| {
        let of_tablet = |tablet: &Rc<Tablet>| {
            tablet.sstables.borrow().iter().any(|held| held.descriptor() == *one)
        };
        table.tablets().iter().any(of_tablet)
    };
    Some(asked.into_iter().filter(is_held).collect())
}

/// These are removed: what keeps deletions and goes into truncations is without them.
fn forget(id: TableId, gone: &[Descriptor]) {
    let Some(shard) = local::try_get::<Shard>() else { return };
    if let Some(table) = shard.table(id) {
        debug_assert!(
            shard.config.planted == Some(Planted::RemovesShared)
                || !table.sstables().iter().any(|one| gone.contains(&one.descriptor())),
            "held-by-none: one of {gone:?} is removed and in use"
        );
        table.let_go.borrow_mut().retain(|one| !gone.contains(one));
        shard.compaction_wake.notify_one();
    }
}
