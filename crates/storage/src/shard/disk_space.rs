//! Room on the disk: a reserve that clients' writes leave alone, so that a node with a full disk
//! can still flush, delete, drop, truncate, and start.
//!
//! Lives on: every shard. Shard 0 looks at the disk and tells the others what it saw.
//!
//! Invariants
//!  - *reserve*: as long as less than the reserve and a quarter of it is free, writes of clients
//!    are refused and no compaction begins but small ones (`compaction::disk_space`). They are
//!    accepted again from one and a half times the reserve on. Flushes, the system's own tables,
//!    DROP and TRUNCATE may use all of it, deletions the first half.
//!  - *room-to-flush*: what memtables hold that no SSTable has takes half of the room beside the
//!    reserve at most, what the log may still allocate the other half. So whatever is in memory
//!    can be written out, and the log segments that held it give their room back.
//!  - *log-gives-way*: a shard that begins to refuse writes flushes all it has; so the room of its
//!    log comes free, which may be enough to go on.
//!  - *ballast*: a small file is given back to the file system when next to nothing is free, and
//!    made again when there is room: somebody else may have filled the disk, the reserve included.
//!  - *by-itself*: nothing of this needs a restart to end. What begins and what ends is logged.

use super::Shard;
use crate::config::Config;
use crate::error::WriteError;
use crate::memtable::dirty::Limits;
use mutation::FrozenView;
use runtime::io::fs::{self, Space};
use runtime::io::{File, IoClass, IoError, OpenOptions};
use runtime::time::sleep;
use runtime::{local, on_all_shards};
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// The part of the disk that may be used before writes are refused, unless the options say so.
pub const CRITICAL_LEVEL: f64 = 0.98;

/// At most this part of the disk is the reserve, unless a lower level was asked for.
const RESERVE_PART: u64 = 10;
/// What an SSTable takes however little is in it: its files, in blocks of a file system.
const SSTABLE_BYTES: u64 = 16 << 10;
/// Of the file that is given back.
const BALLAST_BYTES_MAX: u64 = 4 << 20;
const BALLAST: &str = "disk_reserve";
/// Between two looks at the disk: where there is much room, and where there is little.
const LOOK_FAR: Duration = Duration::from_secs(1);
const LOOK_NEAR: Duration = Duration::from_millis(100);
const _: () = assert!(LOOK_NEAR.as_nanos() < LOOK_FAR.as_nanos());
/// Free bytes that have come are worth trying flushes again.
const RETRY_BYTES: u64 = 64 << 10;

/// The disk as a shard saw it last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskState {
    /// Bytes of the file system that has the data; 0: not known yet.
    pub total_bytes: u64,
    /// Bytes of it that are free.
    pub free_bytes: u64,
    /// Bytes that clients' writes leave free.
    pub reserve_bytes: u64,
    /// Whether clients' writes are refused for want of room.
    pub refuses_writes: bool,
    /// Writes that were refused for want of room since the start.
    pub refused_writes: u64,
}

/// What the reserve is made of.
#[derive(Clone, Copy, Debug)]
struct Needs {
    /// Of a log segment.
    segment_bytes: u64,
    shards: u64,
    tables: u64,
    /// What log and memtables of all shards may come to.
    pending_bytes: u64,
    /// The part of the disk that may be used.
    level: f64,
}

/// Bytes of a disk that clients' writes leave free: a part of it, or what log and memtables may
/// come to where that is less; at least a segment for the log of each shard, one for the schema's,
/// and the files of an SSTable for each table.
fn reserve(total: u64, needs: &Needs) -> u64 {
    debug_assert!((0.0..=1.0).contains(&needs.level), "a level of {}", needs.level);
    let part = (total as f64 * (1.0 - needs.level)) as u64;
    let least = (needs.shards + 1) * needs.segment_bytes + needs.tables * SSTABLE_BYTES;
    let usual = least.max(part.min(needs.pending_bytes)).min(total / RESERVE_PART);
    if needs.level < CRITICAL_LEVEL { usual.max(part) } else { usual }
}

/// Whether clients' writes are refused (*reserve*).
fn is_short(was_short: bool, free: u64, reserve: u64) -> bool {
    let beside = free.saturating_sub(reserve);
    beside < if was_short { reserve / 2 } else { reserve / 4 }
}

/// What memtables of a shard may hold, and how much its log may grow, when so much was free at the
/// last look and this shard has taken so much since (*room-to-flush*).
fn share(free: u64, reserve: u64, shards: u64, taken: u64) -> u64 {
    debug_assert!(0 < shards, "room-to-flush: of no shard");
    let share = (free.saturating_sub(reserve) / shards.max(1)).saturating_sub(taken) / 2;
    debug_assert!(
        share == 0 || reserve + shards * (taken + 2 * share) <= free,
        "room-to-flush: {share} for memory, and for the log, of {free}"
    );
    share
}

/// Of memtables that are to keep to so many bytes which no SSTable has, and may as such keep to
/// `base`. Deletions go on in any case, so some are allowed.
fn limits(base: Limits, bytes: u64, reserve: u64, shards: u64) -> Limits {
    debug_assert!(base.unspooled_soft <= base.unspooled_max, "the soft limit: {base:?}");
    let least = reserve / 4 / shards.max(1);
    let unspooled_max = bytes.max(least).min(base.unspooled_max as u64) as usize;
    Limits { unspooled_max, unspooled_soft: base.unspooled_soft.min(unspooled_max / 5 * 3), ..base }
}

/// What a shard knows of the disk.
pub(crate) struct DiskSpace {
    seen: Cell<Space>,
    reserve: Cell<u64>,
    short: Cell<bool>,
    /// Whether the limits of memtables and log are lower than configured.
    low: Cell<bool>,
    level: Cell<f64>,
    refused: Cell<u64>,
    /// Bytes of the SSTables that this shard has flushed since it was told what is free.
    flushed: Cell<u64>,
    /// Bytes of the log of this shard then.
    log_bytes: Cell<u64>,
    /// What was free when flushes were told to try again.
    retried_at: Cell<u64>,
    /// Whether the log of an earlier run is being replayed.
    pub(crate) replaying: Cell<bool>,
    /// On shard 0: whether the file that is given back is there.
    ballast: Cell<bool>,
}

impl Default for DiskSpace {
    fn default() -> DiskSpace {
        DiskSpace {
            seen: Cell::new(Space { free: u64::MAX, total: 0 }),
            reserve: Cell::new(0),
            short: Cell::new(false),
            low: Cell::new(false),
            level: Cell::new(CRITICAL_LEVEL),
            refused: Cell::new(0),
            flushed: Cell::new(0),
            log_bytes: Cell::new(0),
            retried_at: Cell::new(u64::MAX),
            replaying: Cell::new(false),
            ballast: Cell::new(false),
        }
    }
}

impl DiskState {
    /// What an operator has to know at once: that writes are refused, and what ends it.
    pub fn notice(&self) -> Option<String> {
        let [free, total, reserve] =
            [self.free_bytes, self.total_bytes, self.reserve_bytes].map(|bytes| bytes >> 20);
        self.refuses_writes.then(|| {
            format!(
                "the disk is full, writes of clients are refused: {free} of {total} MiB are free, \
                 {reserve} MiB are reserved; free disk space, or use DROP, TRUNCATE or DELETE"
            )
        })
    }
}

impl DiskSpace {
    /// Whether memtables and log have less than they were configured to have.
    pub(crate) fn is_low(&self) -> bool {
        self.low.get()
    }

    pub(crate) fn is_short(&self) -> bool {
        self.short.get()
    }

    /// Bytes that compactions leave alone: more than what makes writes be refused.
    pub(crate) fn reserve_of_compaction(&self) -> u64 {
        self.reserve.get() + self.reserve.get() / 2
    }

    pub(crate) fn set_level(&self, level: f64) {
        assert!((0.0..=1.0).contains(&level), "reserve: a level of {level}");
        self.level.set(level);
    }

    pub(crate) fn free(&self) -> u64 {
        self.seen.get().free
    }

    pub(crate) fn state(&self) -> DiskState {
        let Space { free, total } = self.seen.get();
        DiskState {
            total_bytes: total,
            free_bytes: if total == 0 { 0 } else { free },
            reserve_bytes: self.reserve.get(),
            refuses_writes: self.short.get(),
            refused_writes: self.refused.get(),
        }
    }

    /// How full the disk is, for people.
    fn told(&self) -> String {
        let Space { free, total } = self.seen.get();
        let mib = |bytes: u64| bytes >> 20;
        let (free, total, reserve) = (mib(free), mib(total), mib(self.reserve.get()));
        format!("{free} MiB of the disk's {total} MiB are free, the reserve is {reserve} MiB")
    }

    /// Refuses what may not use the reserve. Asked only where writes of clients are not let in.
    pub(crate) fn admit(&self, views: &[&FrozenView<'_>]) -> Result<(), WriteError> {
        debug_assert!(!views.is_empty(), "reserve: a write of nothing");
        let Space { free, total } = self.seen.get();
        let reserve = self.reserve.get();
        if !self.short.get() || (reserve / 2 <= free && views.iter().all(|one| only_deletes(one))) {
            return Ok(());
        }
        debug_assert!(self.short.get(), "reserve: a write is refused although there is room");
        self.refused.set(self.refused.get() + 1);
        Err(WriteError::NoRoom { free, total, reserve })
    }
}

/// Whether a mutation adds no data.
fn only_deletes(view: &FrozenView<'_>) -> bool {
    let rows = view.rows().map(|(_, row)| row);
    view.static_row().into_iter().chain(rows).all(|row| row.oldest_live() == i64::MAX)
}

/// Looks at the disk, for ever. On shard 0.
pub(crate) async fn watch(shard: Rc<Shard>) {
    loop {
        let near = shard.space.is_low() || shard.space.is_short();
        sleep(if near { LOOK_NEAR } else { LOOK_FAR }).await;
        look(&shard).await;
    }
}

/// Has all shards that are open see how much of the disk is free. On shard 0.
pub(crate) async fn look(shard: &Shard) {
    assert!(runtime::shard_id() == 0, "shard 0 looks at the disk");
    let dir = &shard.config.data_dir;
    let seen = match fs::space(dir).await {
        Ok(seen) => seen,
        Err(error) => return tracing::debug!("{error}"),
    };
    on_all_shards(move || async move {
        if let Some(shard) = local::try_get::<Shard>() {
            shard.see(seen);
        }
    })
    .await;
    if let Err(error) = keep_ballast(shard, seen).await {
        tracing::debug!("{error}");
    }
}

/// *ballast*
async fn keep_ballast(shard: &Shard, seen: Space) -> Result<(), IoError> {
    let path = shard.config.data_dir.join(BALLAST);
    let wanted = BALLAST_BYTES_MAX.min(shard.space.reserve.get() / 8);
    if seen.free < wanted {
        match fs::remove_file(&path).await {
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
            Ok(()) => tracing::warn!(
                "the disk is full: {} was removed, so that flushes, DROP and TRUNCATE have room",
                path.display()
            ),
        }
        shard.space.ballast.set(false);
    } else if !shard.space.is_short() && !shard.space.ballast.get() && seen.free != u64::MAX {
        make_ballast(&path, wanted).await?;
        shard.space.ballast.set(true);
    }
    Ok(())
}

async fn make_ballast(path: &Path, bytes: u64) -> Result<(), IoError> {
    let file = File::open(path, OpenOptions::create()).await?;
    // Not removed where that fails: an empty file is no room, and does no harm.
    file.allocate(0, bytes).await?;
    file.fdatasync(IoClass::System).await
}

impl Shard {
    /// Bytes that log and memtables of this shard may come to.
    fn pending_bytes_max(config: &Config) -> u64 {
        config.commitlog_bytes_max + config.memtable_bytes_max as u64 / 2
    }

    /// Takes note of how much of the disk is free, and keeps to it.
    fn see(&self, seen: Space) {
        self.space.seen.set(seen);
        self.space.flushed.set(0);
        self.space.log_bytes.set(self.data_log.stats().disk_bytes);
        self.keep_to_room();
        self.retry_flushes(seen.free);
    }

    /// Takes note of an SSTable that was flushed. Many may be before the next look at the disk:
    /// each gives memory and log to more writes.
    pub(crate) fn note_flushed(&self, bytes: u64) {
        self.space.flushed.set(self.space.flushed.get() + bytes);
        if self.space.seen.get().total != 0 {
            self.keep_to_room();
        }
    }

    /// Adapts the limits of memtables and log to the room there is (*room-to-flush*).
    fn keep_to_room(&self) {
        let (space, shards) = (&self.space, u64::from(runtime::shard_count()));
        let seen = space.seen.get();
        let reserve = reserve(
            seen.total,
            &Needs {
                segment_bytes: self.config.segment_bytes as u64,
                shards,
                tables: self.tables.borrow().len() as u64,
                pending_bytes: shards * Shard::pending_bytes_max(&self.config),
                level: space.level.get(),
            },
        );
        space.reserve.set(reserve);
        let log_bytes = self.data_log.stats().disk_bytes;
        let taken = space.flushed.get() + log_bytes.saturating_sub(space.log_bytes.get());
        debug_assert!(reserve <= seen.total, "reserve: {reserve} of {}", seen.total);
        let free = seen.free.saturating_sub(taken);
        let was_short = space.short.get();
        let found_full = self.full_disk.borrow().is_some();
        let short = is_short(was_short, free, reserve) || found_full;
        space.short.set(short);
        let share = share(seen.free, reserve, shards, taken);
        let base = self.dirty[0].base();
        let usual = (base.unspooled_max as u64).max(2 * self.config.segment_bytes as u64);
        space.low.set(short || share < usual);
        // What is replayed had room before: rather there than in many small SSTables.
        let lower = limits(base, share, reserve, shards);
        self.dirty[0].restrict(if space.replaying.get() { base } else { lower }, short);
        let segment = self.config.segment_bytes as u64;
        self.data_log.restrict(share, reserve / 2 + shards * segment <= free);
        assert!(!short || space.low.get(), "room-to-flush: short of room, with all limits");
        if short && !was_short {
            self.begin_to_refuse();
        } else if was_short && !short {
            self.end_refusing();
        }
    }

    /// *log-gives-way*
    fn begin_to_refuse(&self) {
        if runtime::shard_id() == 0 {
            tracing::error!(
                "{}: writes of clients are refused; reads, DELETE, TRUNCATE and DROP \
                 go on, and writes do when there is room again",
                self.space.told()
            );
        }
        let tables: Vec<_> = self.tables.borrow().values().cloned().collect();
        tables.iter().for_each(|table| drop(self.seal_all(table)));
        debug_assert!(
            tables
                .iter()
                .all(|table| table.tablets().iter().all(|it| it.active.borrow().is_empty())),
            "log-gives-way: writes stay that are not to be flushed"
        );
    }

    fn end_refusing(&self) {
        if runtime::shard_id() == 0 {
            tracing::info!("the disk has room again: writes are accepted; {}", self.space.told());
        }
        self.dirty[0].look_again();
        self.compaction_wake.notify_one();
    }

    /// Flushes that found no room do not wait for their next turn when some has come.
    fn retry_flushes(&self, free: u64) {
        let space = &self.space;
        if self.full_disk.borrow().is_none() {
            space.retried_at.set(u64::MAX);
        } else if space.retried_at.get().saturating_add(RETRY_BYTES) < free {
            space.retried_at.set(free);
            self.retry_now.notify_all();
        } else {
            space.retried_at.set(space.retried_at.get().min(free));
        }
    }
}
