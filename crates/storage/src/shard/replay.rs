//! Applying what earlier runs logged.
//!
//! Shard 0 reads the segments one after the other, whatever shards wrote them, and hands each
//! shard what belongs to it. What is applied is not logged again: the old segments stay until
//! every memtable with something of them has become an SSTable, on every shard; then they are
//! removed. A crash before that replays them again, which changes nothing: timestamps decide.
//!
//! Where the disk has little room it goes in rounds: when memtables are full all that was replayed
//! is flushed, and the segments that were read are removed, so that their room is there for the
//! next round. Where nothing can be flushed it goes on as long as there is memory, whatever limits
//! writes have, and then says what it waits for.
//!
//! Invariants
//!  - *removed-after-durable*: an old segment is removed only when no shard holds a memtable that
//!    was replayed into, or none that something of this segment or of one before was replayed into;
//!    and not before an item of which it has a piece is put together.
//!  - *each-once*: each entry that is read is applied by the shard that has its partition, or is
//!    counted as skipped, with the reason.
//!  - *in-the-order*: entries come in the order in which they were logged.
//!  - *replay-goes-on*: a replay waits for nothing but memory, memory for nothing but a flush, and
//!    a flush for nothing but room on the disk: it ends when there is room, without a restart.

use super::{Shard, disk_space};
use crate::commitlog::files;
use crate::commitlog::{Parser, ReplayPosition, SegmentId, SegmentState, Unfinished};
use crate::config::Log;
use crate::error::StartError;
use model::{DecoratedKey, Token};
use mutation::FrozenView;
use runtime::io::{AlignedBuf, DmaBuf, File, IoClass, IoError, OpenOptions, fs};
use runtime::task::{join, join_all};
use runtime::time::timeout;
use runtime::{local, on_all_shards, on_shard, shard_count, shard_id};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use stdx::{Bytes, Cursor, Damaged, HashSet, Put};

/// Entries for one shard, some in each part: each a 32-bit length and a frozen mutation.
type Batch = Vec<Vec<u8>>;

/// A part of a batch that has so much gets no more: parts do not grow by being copied.
const PART_BYTES: usize = 256 << 10;

/// How often the log is told that a replay waits.
const TELL_PERIOD: Duration = Duration::from_secs(10);

/// What a replay found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayStats {
    /// Files read.
    pub segments: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Entries applied.
    pub applied: u64,
    /// Entries skipped: their table was dropped.
    pub unknown_table: u64,
    /// Entries skipped: their table was truncated later.
    pub truncated: u64,
    /// Entries skipped: they are no mutations.
    pub invalid: u64,
    /// Bytes between valid data that could not be read.
    pub corrupt_bytes: u64,
    /// Files of which nothing could be read.
    pub broken_files: u64,
}

/// Applies the segments of a log that this run did not write.
pub(crate) async fn replay(
    shard: &Rc<Shard>,
    log: Log,
) -> Result<(ReplayStats, OldSegments), StartError> {
    assert!(shard_id() == 0, "a replay is started on shard 0");
    let dir = shard.log_dir(log);
    let own: HashSet<SegmentId> = on_all_shards(move || async move { own_segments(log) })
        .await
        .into_iter()
        .flatten()
        .collect();
    let mut old = files::list(&dir).await?;
    old.retain(|id| !own.contains(id));
    assert!(old.is_sorted_by_key(|id| (id.base(), id.shard())), "segments are replayed in order");
    let base_max = old.iter().map(|id| id.base()).max().unwrap_or(0);
    assert!(
        own.iter().all(|id| base_max < id.base()),
        "ids-ascend: {base_max} is older than some of {own:?}"
    );
    on_all_shards(move || async move {
        let shard = local::get::<Shard>();
        shard.replay_state(log).old_base_max.set(base_max);
        shard.space.replaying.set(true);
    })
    .await;
    disk_space::look(shard).await;
    let (mut stats, mut removed) = (ReplayStats::default(), 0);
    let (mut damaged, mut unfinished) = (HashSet::default(), Unfinished::default());
    let mut next = read(&dir, old.first(), AlignedBuf::new()).await?;
    for (index, id) in old.iter().enumerate() {
        let before = (stats.broken_files, stats.corrupt_bytes);
        let batches = sort_out(shard, log, (*id, &next), &mut unfinished, &mut stats).await;
        if before != (stats.broken_files, stats.corrupt_bytes) {
            damaged.insert(*id);
        }
        let ahead = read(&dir, old.get(index + 1), next.into_buffer());
        let (applied, ahead) = join(hand_out(log, batches), ahead).await;
        let wants_flush = applied.iter().any(|one| one.wants_flush);
        for Applied { applied, invalid, .. } in applied {
            stats.applied += applied;
            stats.invalid += invalid;
        }
        next = ahead?;
        if shard.space.is_low() {
            let needed =
                unfinished.first_segment().and_then(|id| old.iter().position(|it| *it == id));
            let until = needed.unwrap_or(usize::MAX).min(index + 1);
            if wants_flush && removed < until && flush_replayed().await {
                remove(&dir, &old[removed..until], &damaged).await;
                removed = until;
            }
            disk_space::look(shard).await;
        }
    }
    assert!(removed <= old.len(), "removed-after-durable: {removed} of {}", old.len());
    assert!(stats.segments == old.len() as u64, "a segment was not read");
    Ok((stats, OldSegments { log, dir, ids: old.split_off(removed), damaged }))
}

/// Makes durable all that was replayed so far, on every shard; false: it cannot be done yet.
async fn flush_replayed() -> bool {
    let flushed = on_all_shards(|| async {
        let shard = local::get::<Shard>();
        shard.seal_replayed();
        let tables: Vec<_> = shard.tables.borrow().values().cloned().collect();
        shard.await_flushes(&tables).await.is_ok()
    });
    !flushed.await.contains(&false)
}

/// Removes segments of which all is durable; whether that is durable.
async fn remove(dir: &Path, ids: &[SegmentId], damaged: &HashSet<SegmentId>) -> bool {
    debug_assert!(ids.is_sorted_by_key(|id| (id.base(), id.shard())), "removed in order");
    let mut gone = true;
    for id in ids {
        let removed = match damaged.contains(id) {
            true => files::set_aside(dir, *id).await,
            false => files::remove(dir, *id).await,
        };
        if let Err(error) = removed {
            tracing::warn!("commitlog: {error}");
            gone = false;
        }
    }
    if let Err(error) = fs::sync_dir(dir).await {
        tracing::warn!("commitlog: {error}");
        gone = false;
    }
    gone
}

/// What a replay leaves to be removed.
pub(crate) struct OldSegments {
    log: Log,
    dir: PathBuf,
    pub(crate) ids: Vec<SegmentId>,
    /// Not all of these could be read: they are kept under another name.
    damaged: HashSet<SegmentId>,
}

fn own_segments(log: Log) -> Vec<SegmentId> {
    let shard = local::get::<Shard>();
    match log {
        Log::Data => shard.data_log.own_segments(),
        Log::Schema => shard.schema_log.iter().flat_map(|log| log.own_segments()).collect(),
    }
}

/// All of a segment; nothing for none, and of a file whose size is not durable yet.
async fn read(dir: &Path, id: Option<&SegmentId>, buf: AlignedBuf) -> Result<DmaBuf, IoError> {
    let Some(id) = id else { return Ok(DmaBuf::default()) };
    let file = File::open(files::path_of(dir, *id), OpenOptions::read_only()).await?;
    let len = file.len().await?;
    if len == 0 {
        return Ok(DmaBuf::default());
    }
    file.read_into(IoClass::Commitlog, 0, len as usize, buf).await
}

/// What a shard made of its part of a segment.
#[derive(Clone, Copy, Debug, Default)]
struct Applied {
    applied: u64,
    invalid: u64,
    /// Whether its memtables should be flushed.
    wants_flush: bool,
}

/// Divides a segment's entries among the shards.
async fn sort_out(
    shard: &Shard,
    log: Log,
    (id, bytes): (SegmentId, &[u8]),
    unfinished: &mut Unfinished,
    stats: &mut ReplayStats,
) -> Vec<Batch> {
    let mut batches = vec![Batch::new(); shard_count() as usize];
    let mut seen = ReplayStats::default();
    let (mut handed_out, mut last) = (0, None);
    let mut parser = Parser::new(id, bytes, unfinished);
    while parser.step(&mut |position, payload| {
        // Entries of a group in pieces are all at one place.
        debug_assert!(last <= Some(position), "in-the-order: {position} after {last:?}");
        last = Some(position);
        match owner(shard, log, position, payload) {
            Owner::Shard(owner) => {
                if let Some(batch) = batches.get_mut(owner as usize) {
                    put_entry(batch, payload);
                    handed_out += 1;
                }
            }
            Owner::Unknown => seen.unknown_table += 1,
            Owner::Truncated => seen.truncated += 1,
            Owner::Invalid(damaged) => {
                tracing::warn!("commitlog entry {position} is skipped: {damaged}");
                seen.invalid += 1;
            }
        }
    }) {
        runtime::task::yield_if_needed().await;
    }
    let report = parser.report;
    assert!(
        handed_out + seen.unknown_table + seen.truncated + seen.invalid == report.entries,
        "each-once: {handed_out} entries are handed out, {seen:?} are not, of {}",
        report.entries
    );
    assert!(batches.len() == shard_count() as usize, "a batch for each shard");
    stats.segments += 1;
    stats.bytes += bytes.len() as u64;
    stats.unknown_table += seen.unknown_table;
    stats.truncated += seen.truncated;
    stats.invalid += seen.invalid;
    stats.corrupt_bytes += report.corrupt_bytes;
    let path = files::path_of(&shard.log_dir(log), id);
    let path = path.display();
    let damage = report.damage.map(|damage| damage.to_string()).unwrap_or_default();
    if report.state == SegmentState::Broken {
        stats.broken_files += 1;
        tracing::error!("commitlog: {path} cannot be read: {damage}");
    } else if 0 < report.corrupt_bytes {
        let lost = report.corrupt_bytes;
        tracing::error!("commitlog: {path} has {lost} corrupt bytes, skipped: {damage}");
    } else if 0 < report.torn_bytes {
        tracing::info!("commitlog: {path} ends with an unfinished write: {damage}");
    }
    batches
}

fn put_entry(batch: &mut Batch, payload: &[u8]) {
    let bytes = payload.len() + size_of::<u32>();
    match batch.last_mut().filter(|part| part.len() + bytes <= part.capacity()) {
        Some(part) => {
            let before = part.capacity();
            part.put_u32_bytes(payload);
            debug_assert!(part.capacity() == before, "small-parts: a part of {before} has grown");
        }
        None => {
            let mut part = Vec::with_capacity(bytes.max(PART_BYTES));
            part.put_u32_bytes(payload);
            batch.push(part);
        }
    }
}

enum Owner {
    Shard(u16),
    Unknown,
    Truncated,
    Invalid(Damaged),
}

fn owner(shard: &Shard, log: Log, position: ReplayPosition, payload: &[u8]) -> Owner {
    let view = match FrozenView::trusted(payload) {
        Ok(view) => view,
        Err(damaged) => return Owner::Invalid(damaged),
    };
    let tables = shard.tables.borrow();
    let token = Token::of(view.key());
    match tables.get(&view.table()).filter(|table| table.log == log) {
        None => Owner::Unknown,
        Some(table) if table.is_truncated(position, token) => Owner::Truncated,
        Some(table) => Owner::Shard(table.parts().map.shard_of(token)),
    }
}

/// Has each shard apply its batch.
async fn hand_out(log: Log, batches: Vec<Batch>) -> Vec<Applied> {
    let busy = batches.into_iter().enumerate().filter(|(_, batch)| !batch.is_empty());
    join_all(busy.map(|(owner, batch)| {
        on_shard(owner as u16, move || async move {
            let shard = local::get::<Shard>();
            shard.apply_batch(log, batch).await
        })
    }))
    .await
}

impl Shard {
    /// Applies replayed entries, waiting for memory where it is short.
    async fn apply_batch(&self, log: Log, batch: Batch) -> Applied {
        let mut all = Applied::default();
        for part in batch {
            self.apply_part(log, &part, &mut all).await;
        }
        all.wants_flush = self.dirty.iter().any(|dirty| dirty.level().wants_flush(&dirty.limits()));
        all
    }

    async fn apply_part(&self, log: Log, part: &[u8], all: &mut Applied) {
        let mut cursor = Cursor::new(part);
        while let Ok(payload) = cursor.u32_bytes("replayed entry") {
            self.wait_to_replay().await;
            match self.apply_replayed(log, payload).await {
                Ok(()) => all.applied += 1,
                Err(damaged) => {
                    tracing::warn!("a commitlog entry is skipped: {damaged}");
                    all.invalid += 1;
                }
            }
            runtime::task::yield_if_needed().await;
        }
        assert!(cursor.is_empty(), "each-once: what was handed out is cut off");
    }

    /// Waits for memory (*replay-goes-on*).
    async fn wait_to_replay(&self) {
        while let Some(dirty) = self.dirty.iter().find(|dirty| !dirty.has_room()) {
            let cannot_flush = self.full_disk.borrow().is_some();
            if cannot_flush && dirty.has_last_room() {
                return;
            }
            if timeout(TELL_PERIOD, dirty.room_made()).await.is_err() && cannot_flush {
                tracing::error!(
                    "the replay of the commitlog waits for room on the disk: memtables have {} \
                     MiB, all they may have, and to write them to SSTables the disk has too \
                     little room, {} MiB; it goes on when there is more",
                    dirty.level().real >> 20,
                    self.space.free() >> 20
                );
            }
        }
    }

    async fn apply_replayed(&self, log: Log, payload: &[u8]) -> Result<(), Damaged> {
        let view = FrozenView::parse(payload)?;
        if view.has_attached() {
            return Err(Damaged::new("an entry that carries others", 0));
        }
        let table = self.table(view.table());
        let Some(table) = table else { return Ok(()) };
        view.check_order(&table.schema.borrow().order)?;
        let key = DecoratedKey::new(Bytes::copy_from(view.key()));
        let tablet = table.tablet_of(key.token);
        assert!(tablet.is_some(), "each-once: {:?} is of another shard", key.token);
        let Some(tablet) = tablet else { return Ok(()) };
        assert!(table.log == log, "an entry of another log");
        let (memtable, schema) = (tablet.active.borrow().clone(), table.schema.borrow().clone());
        let ahead = memtable.prepare(&schema, &key, &view, table.watch.get()).await;
        // It may have been sealed meanwhile, and the tablet divided.
        let tablet = table.tablet_of(key.token).unwrap_or(tablet);
        assert!(!tablet.is_gone(), "nothing-lost: no tablet has {:?}", key.token);
        let memtable = tablet.active.borrow().clone();
        tablet.changes.note(key.token);
        memtable.apply_watched(&schema, key, &view, table.watch.get(), ahead);
        if memtable.mark_replayed() {
            let held = &self.replay_state(log).memtables;
            held.set(held.get() + 1);
        }
        Ok(())
    }

    /// A memtable that was replayed into is durable, truncated or dropped.
    pub(crate) fn replayed_released(&self, log: Log) {
        let held = &self.replay_state(log).memtables;
        assert!(0 < held.get(), "removed-after-durable: nothing that was replayed is held");
        held.set(held.get() - 1);
        if held.get() == 0 {
            self.replay_state(log).released.notify_one();
        }
    }

    /// Waits until this shard holds no memtable that was replayed into.
    pub(crate) async fn replayed_is_durable(&self, log: Log) {
        let state = self.replay_state(log);
        while 0 < state.memtables.get() {
            state.released.notified().await;
        }
    }
}

impl OldSegments {
    /// Waits until every shard has let go of what was replayed, then removes the segments.
    pub(crate) async fn remove_when_durable(self) {
        let OldSegments { log, dir, ids, damaged } = self;
        let durable = on_all_shards(move || async move {
            let Some(shard) = local::try_get::<Shard>() else { return false };
            shard.replayed_is_durable(log).await;
            true
        });
        if durable.await.contains(&false) {
            return;
        }
        if remove(&dir, &ids, &damaged).await {
            on_all_shards(move || async move {
                if let Some(shard) = local::try_get::<Shard>() {
                    shard.replay_state(log).old_gone.set(true);
                    shard.compaction_wake.notify_one();
                }
            })
            .await;
        }
    }
}
