//! The batches that this node keeps in its `system.batchlog`: for coordinators elsewhere, and for
//! its own where no other node keeps them. They lie on one shard, whose coordinator knows in memory
//! which there are, so that nobody looks for them among the removals of a week.
//!
//! Invariants
//!  - *durable-first*: who asks for a batch to be kept is told so when it is on the disk.
//!  - *known-or-gone*: a batch that is kept is known, unless it was removed, or more are kept than
//!    may be known: those are found at the next start.
//!  - *bounded*: as many are known as [`KNOWN_MAX`]; nothing is kept for others beyond that.
//!  - *removed-by-its-time*: as in `batchlog`. A batch that is known and has no row was removed
//!    before it came.

use super::{Coordinator, own_coordinator, own_storage};
use crate::batchlog::{self, Logged};
use crate::error::WriteError;
use crate::options::{Consistency, ReadOptions};
use crate::range;
use cluster::TableEntry;
use cluster::traffic::Count;
use model::{Token, Uuid};
use mutation::FrozenMutation;
use mutation::page::{ColumnForm, Page, PageView, Partitions, ReadCommand, RingBound};
use runtime::time::Instant;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

/// Batches that are known at most.
const KNOWN_MAX: usize = 1 << 16;
/// Batches that are looked at one by one, to see how old they are.
const LOOKED_AT_MAX: usize = 1000;
/// How long a look at all of them may take.
const SCAN_TIMEOUT: Duration = Duration::from_secs(600);

/// The batches that are known, and what was done with others.
#[derive(Debug, Default)]
pub struct Held {
    /// From when on each is to be replayed.
    due: RefCell<BTreeMap<Uuid, Instant>>,
    /// Batches that other nodes had this one keep.
    pub received: Count,
    /// Batches that were replayed, all of them, since others have not.
    pub completed: Count,
    /// Mutations of batches that were too old to be replayed, or whose table is no more.
    pub discarded: Count,
}

impl Held {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.due.borrow().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.due.borrow().is_empty()
    }

    /// A batch is about to be kept, or was found; false: there are too many.
    fn admit(&self, id: Uuid, due: Instant) -> bool {
        let mut known = self.due.borrow_mut();
        debug_assert!(known.len() <= KNOWN_MAX, "bounded: {} batches are known", known.len());
        let fits = known.len() < KNOWN_MAX || known.contains_key(&id);
        if fits {
            known.insert(id, due);
        }
        fits
    }

    /// All of them, unless there are more than so many.
    fn all(&self, most: usize) -> Option<Vec<Uuid>> {
        let known = self.due.borrow();
        (known.len() <= most).then(|| known.keys().copied().collect())
    }

    pub(super) fn remove(&self, id: Uuid) {
        self.due.borrow_mut().remove(&id);
    }

    /// Those that are due, the first of them first.
    pub(super) fn due(&self, now: Instant) -> Vec<Uuid> {
        let known = self.due.borrow();
        let due = known.iter().filter(|(_, due)| **due <= now);
        let mut due: Vec<(Instant, Uuid)> = due.map(|(id, due)| (*due, *id)).collect();
        due.sort_unstable();
        debug_assert!(due.len() <= KNOWN_MAX, "bounded: {} batches are due", due.len());
        due.into_iter().map(|(_, id)| id).collect()
    }

    /// It could not be replayed: the others come before it the next time.
    pub(super) fn postpone(&self, id: Uuid, now: Instant) {
        if let Some(due) = self.due.borrow_mut().get_mut(&id) {
            *due = now;
        }
    }
}

/// A batch, as it is kept.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) logged: Logged,
    /// Microseconds, by the clock of this node.
    pub(super) kept_at: i64,
    pub(super) data: Vec<u8>,
}

/// The shard that has a batch.
pub(super) fn owner_of(table: &TableEntry, id: Uuid) -> u16 {
    table.tablets.shard_of(Token::of(id.as_bytes()))
}

impl Coordinator {
    /// The batches that this shard knows to be kept.
    pub fn held(&self) -> &Held {
        &self.held
    }

    /// Keeps a batch, to be replayed unless it is forgotten in time.
    pub(crate) async fn keep_batch(
        &self,
        logged: Logged,
        mutations: &[FrozenMutation],
    ) -> Result<(), storage::WriteError> {
        assert!(!mutations.is_empty(), "durable-first: a batch of nothing");
        let table = batchlog::table(&self.cluster.schema());
        let row = logged.row(&table.schema, mutations, runtime::time::wall_micros());
        let shard = owner_of(&table, logged.id);
        let keep = move || async move {
            let coordinator = own_coordinator()?;
            assert!(coordinator.shard == shard, "owner-only: a batch of {shard} is kept");
            let due = Instant::now() + coordinator.config.batch_age;
            if !coordinator.held.admit(logged.id, due) {
                return Err(storage::WriteError::Overloaded("batches that are kept"));
            }
            coordinator.storage.apply(row).await
        };
        self.count_call(shard);
        runtime::on_shard(shard, keep).await
    }

    /// Removes batches that are applied.
    pub(crate) async fn forget_batches(
        &self,
        batches: &[Logged],
    ) -> Result<(), storage::WriteError> {
        let table = batchlog::table(&self.cluster.schema());
        let mut groups: BTreeMap<u16, Vec<Logged>> = BTreeMap::new();
        for logged in batches {
            groups.entry(owner_of(&table, logged.id)).or_default().push(*logged);
        }
        let sum: usize = groups.values().map(Vec::len).sum();
        debug_assert!(sum == batches.len(), "removed-by-its-time: {sum} of {}", batches.len());
        for (shard, group) in groups {
            let removals = group.iter().map(|logged| logged.removal(&table.schema)).collect();
            self.count_call(shard);
            let forget = move || async move {
                own_storage()?.apply_all(removals).await?;
                let coordinator = own_coordinator()?;
                group.iter().for_each(|logged| coordinator.held.remove(logged.id));
                Ok(())
            };
            runtime::on_shard(shard, forget).await?;
        }
        Ok(())
    }

    /// A batch of an earlier life is kept, and to be replayed.
    pub(super) async fn know_batch(&self, id: Uuid) -> Result<(), storage::WriteError> {
        let shard = owner_of(&batchlog::table(&self.cluster.schema()), id);
        let know = move || async move {
            if !own_coordinator()?.held.admit(id, Instant::now()) {
                stdx::probe!("a batch is known at the next start only");
            }
            Ok(())
        };
        runtime::on_shard(shard, know).await
    }

    /// All batches that are kept.
    pub(super) async fn all_kept(&self) -> Result<Vec<Kept>, WriteError> {
        let bound = |token, after| RingBound { token, key: None, after };
        let (start, end) = (bound(Token::MIN, false), bound(Token::MAX, true));
        self.kept_batches(Partitions::Range { start, end }).await
    }

    /// A batch, unless it was removed.
    pub(super) async fn one_kept(&self, id: Uuid) -> Result<Option<Kept>, WriteError> {
        let found = self.kept_batches(Partitions::Key(id.as_bytes().to_vec())).await?;
        debug_assert!(found.len() < 2, "known-or-gone: {id} is there {} times", found.len());
        Ok(found.into_iter().next())
    }

    /// When the batch was kept that this shard has kept longest, in microseconds. Where there are
    /// many nobody looks.
    pub(crate) async fn oldest_batch(&self) -> Result<Option<i64>, String> {
        let Some(all) = self.held.all(LOOKED_AT_MAX) else {
            return Err(format!("{} batches are not applied yet", self.held.len()));
        };
        let mut oldest = None;
        for id in all {
            let kept = self.one_kept(id).await.map_err(|error| error.to_string())?;
            let kept_at = kept.map(|kept| kept.kept_at);
            oldest = [oldest, kept_at].into_iter().flatten().min();
        }
        debug_assert!(oldest.is_none() || !self.held.is_empty(), "known-or-gone: {oldest:?}");
        Ok(oldest)
    }

    async fn kept_batches(&self, partitions: Partitions) -> Result<Vec<Kept>, WriteError> {
        let table = batchlog::table(&self.cluster.schema());
        let token = match &partitions {
            Partitions::Key(key) => Token::of(key),
            Partitions::Range { .. } => Token::MIN,
        };
        let options = ReadOptions::new(Consistency::One, SCAN_TIMEOUT);
        let mut command = command(&table, partitions);
        let mut found = Vec::new();
        loop {
            let page = self.read(&table, token, &command, &options).await;
            let page = page.map_err(|error| {
                WriteError::Refused(format!("cannot read system.batchlog: {error}"))
            })?;
            collect(&command, &page, &mut found);
            match page.resume {
                Some(resume) => {
                    range::check_progress(command.resume.as_ref(), &resume);
                    command.resume = Some(resume);
                }
                None => return Ok(found),
            }
        }
    }
}

/// A read of batches: of each its blob, and when it was kept.
pub(super) fn command(table: &TableEntry, partitions: Partitions) -> ReadCommand {
    let column = |name: &str| {
        let column = table.schema.column(name).expect("a column of system.batchlog");
        (column.id, ColumnForm::ValueWithTimes)
    };
    ReadCommand {
        columns: vec![column("data"), column("written_at")],
        bypass_cache: true,
        ..ReadCommand::all(
            table.schema.id,
            partitions,
            runtime::time::wall_micros().div_euclid(1_000_000),
        )
    }
}

pub(super) fn collect(command: &ReadCommand, page: &Page, found: &mut Vec<Kept>) {
    range::check_page(command, page);
    for partition in PageView::trusted(&page.bytes, command.layout()).partitions() {
        let Ok(id) = Uuid::from_slice(partition.key()) else { continue };
        for row in partition.rows() {
            let columns: Vec<_> = row.columns().collect();
            let [data, kept_at] = &columns[..] else { continue };
            if let (Some(data), Some(times)) = (data.value, data.times) {
                let logged = Logged { id, written_at: times.timestamp };
                debug_assert!(0 < logged.written_at, "removed-by-its-time: {logged:?}");
                let kept_at = kept_at.value.and_then(batchlog::kept_at);
                let kept_at = kept_at.unwrap_or(logged.written_at);
                found.push(Kept { logged, kept_at, data: data.to_vec() });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_replayed_comes_last_the_next_time() {
        let held = Held::default();
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let ids: Vec<Uuid> = (0..4).map(Uuid::from_u128).collect();
        for (id, due) in ids.iter().zip([30, 10, 20, 90]) {
            assert!(held.admit(*id, at(due)));
        }
        assert_eq!(held.due(at(50)), [ids[1], ids[2], ids[0]]);
        held.postpone(ids[1], at(50));
        assert_eq!(held.due(at(60)), [ids[2], ids[0], ids[1]]);
        held.remove(ids[2]);
        held.postpone(ids[2], at(60));
        assert_eq!((held.due(at(60)), held.len()), (vec![ids[0], ids[1]], 3));
    }

    #[test]
    fn no_more_are_known_than_may_be() {
        let (held, now) = (Held::default(), Instant::from_nanos(1));
        let mut all = (0..KNOWN_MAX as u128).map(Uuid::from_u128);
        assert!(all.all(|id| held.admit(id, now)));
        assert!(!held.admit(Uuid::from_u128(u128::MAX), now));
        assert!(held.admit(Uuid::from_u128(5), now), "it is known");
        held.remove(Uuid::from_u128(6));
        assert!(held.admit(Uuid::from_u128(u128::MAX), now));
    }
}
