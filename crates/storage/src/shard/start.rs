//! The start of a shard: its configuration is checked, its directories are made, its logs opened.

use super::Shard;
use super::disk_space::DiskSpace;
use super::locks::PartitionLocks;
use super::multishard::ShardReads;
use super::read::Reads;
use crate::cache::RowCache;
use crate::commitlog::{Commitlog, LogConfig, SEGMENT_BYTES_MIN, SegmentId, files};
use crate::compaction::Compactions;
use crate::config::{Config, Log, SyncMode};
use crate::error::StartError;
use crate::large_data::SizeLimits;
use crate::memory::Division;
use crate::memtable::dirty::{Dirty, Limits};
use runtime::io::{IoError, fs};
use runtime::sync::{Notify, Semaphore};
use sstable::IndexCache;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The largest entry of a log of any size.
const ENTRY_BYTES_MAX: usize = 256 << 20;

/// Those who wait for their turn to take or clear snapshots, at most.
const SNAPSHOTS_WAITING_MAX: usize = 256;

impl Shard {
    pub(crate) async fn open(config: Config) -> Result<Shard, StartError> {
        check(&config)?;
        let first_shard = runtime::shard_id() == 0;
        make_dirs(&config).await?;
        let pressure = Rc::new(Notify::new());
        let data_log = open_log(&config, Log::Data, &pressure).await?;
        let schema_log = match first_shard {
            true => Some(open_log(&config, Log::Schema, &pressure).await?),
            false => None,
        };
        let index_cache = IndexCache::new(config.index_cache_bytes);
        let (limits, system) = {
            let bytes_max = config.memtable_bytes_max;
            (Limits::of(bytes_max), Limits::of_system(bytes_max))
        };
        let dirty = [limits, system].map(|limits| Rc::new(Dirty::new(limits, pressure.clone())));
        let row_cache_bytes = config.row_cache_bytes();
        let row_cache = (0 < row_cache_bytes)
            .then(|| RowCache::new(config.memory_bytes.max(row_cache_bytes), row_cache_bytes));
        Ok(Shard {
            sstables: Cell::new(config.sstables),
            incremental_backups: Cell::new(config.incremental_backups),
            read_timeouts: Cell::new((config.read_timeout, config.range_read_timeout)),
            size_limits: Cell::new(SizeLimits::of_soft(config.sstables.large)),
            large_writes: Cell::default(),
            reads: Reads::new(config.memory_bytes),
            shard_reads: ShardReads::default(),
            sampler: Rc::default(),
            division: Division::unchecked(config.memory_bytes, config.index_cache_bytes),
            config,
            index_cache,
            row_cache,
            reclaim_wake: Notify::new(),
            tables: RefCell::default(),
            data_log,
            schema_log,
            locks: PartitionLocks::default(),
            deriving_locks: PartitionLocks::default(),
            deriving: RefCell::default(),
            dirty,
            flush_queues: Default::default(),
            retry_now: Notify::new(),
            compaction_wake: Notify::new(),
            let_go_wake: Notify::new(),
            compactions: Compactions::default(),
            pressure,
            flushed: Notify::new(),
            flushes_awaited: Cell::new(0),
            flush_shares: Cell::new(0),
            pressed: Cell::new(0),
            space: DiskSpace::default(),
            full_disk: RefCell::new(None),
            replays: Default::default(),
            stopping: Cell::new(false),
            hasty_hand_overs: Cell::new(false),
            snapshot_turn: Semaphore::new(1, SNAPSHOTS_WAITING_MAX),
            snapshot_taken: Notify::new(),
        })
    }
}

/// Refuses a configuration that cannot work.
fn check(config: &Config) -> Result<(), StartError> {
    let wrong = |what| Err(StartError::Config(what));
    if config.segment_bytes < SEGMENT_BYTES_MIN || !config.segment_bytes.is_multiple_of(4096) {
        return wrong("segment_bytes is at least 65536 and a multiple of 4096");
    }
    if (1 << 31) < config.segment_bytes {
        return wrong("segment_bytes is at most 2 GiB");
    }
    if config.memtable_bytes_max == 0 {
        return wrong("memtable_bytes_max is not 0");
    }
    if let SyncMode::Periodic { period } = config.sync
        && period.is_zero()
    {
        return wrong("the sync period is not 0");
    }
    Ok(())
}

/// Makes the directories; on shard 0, which every start includes, durably from the root on.
async fn make_dirs(config: &Config) -> Result<(), IoError> {
    let dirs = [&config.data_dir, &config.commitlog_dir, &config.schema_commitlog_dir];
    let (mut parents, mut above) = (BTreeSet::new(), BTreeSet::new());
    for dir in dirs {
        fs::create_dir_all(dir).await?;
        parents.extend(dir.parent());
        above.extend(dir.ancestors().skip(2));
    }
    if runtime::shard_id() != 0 {
        return Ok(());
    }
    let or_here = |dir: &Path| match dir.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => dir.to_path_buf(),
    };
    for dir in &parents {
        fs::sync_dir(or_here(dir)).await?;
    }
    for dir in above.difference(&parents) {
        // Far above there may be directories that are not ours to open, and not new.
        if let Err(error) = fs::sync_dir(or_here(dir)).await {
            tracing::debug!("{error}");
        }
    }
    Ok(())
}

/// The largest entry of a log: a quarter of it, so that it holds some however they are cut; half a
/// segment at least, and no more than a request of a client can be.
fn entry_bytes_max(segment_bytes: usize, bytes_max: u64) -> usize {
    let quarter = usize::try_from(bytes_max / 4).unwrap_or(usize::MAX);
    quarter.min(ENTRY_BYTES_MAX).max(segment_bytes / 2)
}

/// A log whose new segments come after all that are there (*ids-ascend*).
pub(crate) async fn open_log(
    config: &Config,
    log: Log,
    pressure: &Rc<Notify>,
) -> Result<Rc<Commitlog>, StartError> {
    let segment_bytes = config.segment_bytes;
    let (dir, sync, bytes_max) = match log {
        Log::Data => (&config.commitlog_dir, config.sync, config.commitlog_bytes_max),
        Log::Schema => (&config.schema_commitlog_dir, SyncMode::Batch, 4 * segment_bytes as u64),
    };
    let (shard, shards) = (runtime::shard_id(), runtime::shard_count());
    let mine = |id: SegmentId| id.shard() == shard || (shard == 0 && shards <= id.shard());
    files::clean_up(dir, mine).await?;
    let mut found = files::list(dir).await?;
    found.extend(files::marks(dir).await?);
    let above = found.iter().map(|id| id.base() + 1).max().unwrap_or(1);
    let now = (runtime::time::wall_micros() / 1000).max(1) as u64;
    assert!(found.iter().all(|id| id.base() < above), "ids-ascend: {above} was there");
    let log_config = LogConfig {
        dir: dir.clone(),
        shard,
        sync,
        segment_bytes,
        bytes_max,
        entry_bytes_max: entry_bytes_max(segment_bytes, bytes_max),
        sparse_allowed: log == Log::Schema,
        insists: log == Log::Schema,
        planted: config.planted,
        flush_bytes: config.commitlog_flush_bytes.filter(|_| log == Log::Data),
        lifetime: config.commitlog_lifetime.filter(|_| log == Log::Data),
    };
    Ok(Rc::new(Commitlog::new(log_config, above.max(now), pressure.clone())))
}
