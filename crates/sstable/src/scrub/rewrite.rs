//! Writing what was read to other files: in order where it was not ([`scrub`]), or chosen by
//! partition ([`distribute`]).
//!
//! Invariants
//!  - *sound-output*: what a file is given keeps every rule of a stream, whatever was read.
//!  - *all-or-nothing*: after an error no file is left that was begun.

use crate::scrub::check::{ROWS_OUT_OF_ORDER, follows};
use crate::scrub::scan::{Raw, RawScan};
use crate::scrub::validate::Positions;
use crate::scrub::{Follow, Steps};
use crate::store::Generation;
use crate::store::output::Output;
use crate::table::Table;
use crate::write::options::{Sealed, WriterOptions};
use crate::write::writer::Writer;
use model::{DecoratedKey, TableSchema};
use mutation::{ClusteringPosition, Fragment, Tombstone};
use reader::{Budget, ReadError, Source};
use runtime::Erased;
use runtime::io::IoClass;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use stdx::{Bytes, Put};

/// Files that a scrub writes at the same time at most: what is in order less often is refused.
const BUCKETS_MAX: usize = 100;

/// Bytes that are decompressed at once.
const DECOMPRESS_STEP_BYTES: u64 = 256 << 10;

/// What a scrub does about what is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It ends there, and leaves no files.
    Abort,
    /// Fragments out of order, and what cannot be read, are left out.
    Skip,
    /// Fragments out of order go to further files; what cannot be read is left out.
    Segregate,
}

/// What became of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The new files.
    pub written: Vec<Sealed>,
    /// How many breaches were found.
    pub problems: u64,
}

/// Where and how new files are written.
#[derive(Clone, Debug)]
pub struct Target {
    /// The directory, which exists.
    pub dir: PathBuf,
    /// The table.
    pub schema: Rc<TableSchema>,
    /// The same for each file.
    pub options: WriterOptions,
    /// Of reads and writes.
    pub class: IoClass,
}

impl Target {
    /// Files in `dir` of the present version of the schema.
    pub fn new(
        dir: &Path,
        schema: Rc<TableSchema>,
        options: WriterOptions,
        class: IoClass,
    ) -> Target {
        Target { dir: dir.to_path_buf(), schema, options, class }
    }

    /// A new file with a generation of its own.
    pub async fn create(&self) -> Result<Writer, ReadError> {
        let schema = self.schema.clone();
        let (options, generation) = (self.options.clone(), Generation::generate());
        let writer = Writer::create(&self.dir, generation, schema, options, self.class).await;
        writer.map_err(ReadError::Io)
    }
}

/// Rewrites a file such that what is written keeps *ordered*. Every breach is told to who follows.
/// The error is the breach that ended an abort, one of who follows, or what cannot be helped; then
/// no new files are left.
pub fn scrub<'a>(
    table: &'a Rc<Table>,
    mode: Mode,
    target: &'a Target,
    follower: &'a mut dyn Follow,
) -> Erased<'a, Result<Outcome, ReadError>> {
    Erased::new(move || async move {
        let mut scrubber = Scrubber {
            table,
            mode,
            target,
            buckets: Vec::new(),
            partition: None,
            active: None,
            open: Tombstone::NONE,
            problems: 0,
        };
        let done = scrubber.run(follower).await;
        let Scrubber { buckets, problems, .. } = scrubber;
        let mut outcome = Outcome { written: Vec::new(), problems };
        for bucket in buckets {
            match done.is_ok() {
                true => {
                    outcome.written.extend(bucket.writer.finish().await.map_err(ReadError::Io)?)
                }
                false => bucket.writer.abort().await.map_err(ReadError::Io)?,
            }
        }
        done.map(|()| outcome)
    })
}

struct Scrubber<'a> {
    table: &'a Rc<Table>,
    mode: Mode,
    target: &'a Target,
    buckets: Vec<Bucket>,
    /// The partition that is being read: start, and static row.
    partition: Option<(DecoratedKey, Tombstone, Option<Bytes>)>,
    /// The bucket that the latest element went to; `None`: the partition is left out.
    active: Option<usize>,
    /// The range tombstone that is open where the scan is.
    open: Tombstone,
    problems: u64,
}

/// A file that is being written.
struct Bucket {
    writer: Writer,
    last: Option<DecoratedKey>,
    /// In a partition: the latest position there.
    inside: bool,
    position: Option<(Vec<u8>, i8)>,
    /// The range tombstone that is open in the file.
    open: Tombstone,
}

impl Scrubber<'_> {
    async fn run(&mut self, follower: &mut dyn Follow) -> Result<(), ReadError> {
        let mut scan = RawScan::new(self.table.clone(), self.target.class);
        let mut positions = Positions::new(self.table, self.target.class);
        let mut steps = Steps::default();
        loop {
            steps.pass(scan.position(), follower).await?;
            match scan.next().await {
                Ok(Some(raw)) => self.take(raw, follower).await?,
                Ok(None) => break,
                Err(error) => {
                    self.problem(error, follower)?;
                    self.end_partition().await?;
                    match positions.after(scan.position()).await {
                        Some(position) => scan.seek(position),
                        None => break,
                    }
                }
            }
        }
        self.end_partition().await
    }

    /// Counts and tells a breach; ends an abort.
    fn problem(&mut self, error: ReadError, follower: &mut dyn Follow) -> Result<(), ReadError> {
        self.problems += 1;
        follower.tell(&error);
        match self.mode {
            Mode::Abort => Err(error),
            Mode::Skip | Mode::Segregate => Ok(()),
        }
    }

    async fn take(&mut self, raw: Raw, follower: &mut dyn Follow) -> Result<(), ReadError> {
        let damaged = |what: &str| self.table.data.damaged(what, raw.at);
        let broken = raw.broken.map(damaged);
        if let Some(error) = broken {
            self.problem(error, follower)?;
        }
        let damaged = |what: &str| self.table.data.damaged(what, raw.at);
        match raw.fragment {
            Fragment::PartitionStart { key, tombstone } => {
                self.open = Tombstone::NONE;
                let first = self.buckets.first();
                let ordered = first.is_none_or(|bucket| bucket.last.as_ref() < Some(&key));
                self.partition = Some((key, tombstone, None));
                self.active = None;
                if !ordered {
                    self.problem(damaged("partitions out of order"), follower)?;
                }
                if ordered || self.mode == Mode::Segregate {
                    self.active = Some(self.bucket_for(None).await?);
                }
                Ok(())
            }
            Fragment::StaticRow { row } => self.static_row(row, damaged(""), follower).await,
            Fragment::Row { key, row } => {
                let fragment = Fragment::Row { key: key.clone(), row };
                let error = damaged(ROWS_OUT_OF_ORDER);
                self.element((&key, 0), fragment, error, follower).await
            }
            Fragment::RangeTombstoneChange { position, tombstone } => {
                self.open = tombstone;
                let prefix = position.prefix.clone();
                let weight = position.weight;
                let fragment = Fragment::RangeTombstoneChange { position, tombstone };
                let error = damaged(ROWS_OUT_OF_ORDER);
                self.element((&prefix, weight), fragment, error, follower).await
            }
            Fragment::PartitionEnd => {
                if !self.open.is_none() && self.active.is_some() {
                    let what = "a range tombstone is open at the end of the partition";
                    self.problem(damaged(what), follower)?;
                }
                self.end_partition().await
            }
        }
    }

    async fn static_row(
        &mut self,
        row: Bytes,
        error: ReadError,
        follower: &mut dyn Follow,
    ) -> Result<(), ReadError> {
        let Some(active) = self.active else { return Ok(()) };
        let bucket = &mut self.buckets[active];
        debug_assert!(bucket.inside, "sound-output: a static row outside of a partition");
        let has_static = self.partition.as_ref().is_some_and(|(_, _, row)| row.is_some());
        if bucket.position.is_some() || has_static {
            let ReadError::Damaged { file, at, .. } = error else { return Err(error) };
            let what = "a static row after other rows".to_string();
            return self.problem(ReadError::Damaged { file, what, at }, follower);
        }
        if let Some((_, _, place)) = &mut self.partition {
            *place = Some(row.clone());
        }
        bucket.write(Fragment::StaticRow { row }).await
    }

    async fn element(
        &mut self,
        position: (&[u8], i8),
        fragment: Fragment,
        error: ReadError,
        follower: &mut dyn Follow,
    ) -> Result<(), ReadError> {
        let Some(active) = self.active else { return Ok(()) };
        debug_assert!(self.buckets[active].inside, "sound-output: outside of a partition");
        if self.buckets[active].takes(position, self.target) {
            return self.buckets[active].write_at(position, fragment).await;
        }
        self.problem(error, follower)?;
        if self.mode == Mode::Skip {
            return Ok(());
        }
        let next = self.bucket_for(Some(position)).await?;
        debug_assert!(next != active, "sound-output: the bucket that does not take it");
        let held = self.buckets[active].open;
        self.buckets[active].close_range(None).await?;
        debug_assert!(self.buckets[active].open.is_none(), "sound-output: open where it is left");
        if !held.is_none() && position.1 == 0 {
            let before = (position.0, -1);
            if self.buckets[next].takes(before, self.target) {
                let prefix = Bytes::copy_from(position.0);
                let place = ClusteringPosition { prefix, weight: -1 };
                let change = Fragment::RangeTombstoneChange { position: place, tombstone: held };
                self.buckets[next].write_at(before, change).await?;
            }
        }
        self.active = Some(next);
        self.buckets[next].write_at(position, fragment).await
    }

    /// A bucket where the present partition can go on at `position`: one that is in it already, or
    /// one that it can be started in, a new one at last.
    async fn bucket_for(&mut self, position: Option<(&[u8], i8)>) -> Result<usize, ReadError> {
        let (key, tombstone, row) = self.partition.clone().expect("asked for inside a partition");
        let target = self.target;
        let inside = self.buckets.iter().position(|bucket| {
            bucket.inside && position.is_some_and(|position| bucket.takes(position, target))
        });
        if let Some(index) = inside {
            return Ok(index);
        }
        let free = |bucket: &Bucket| !bucket.inside && bucket.last.as_ref() < Some(&key);
        let index = match self.buckets.iter().position(free) {
            Some(index) => index,
            None if self.buckets.len() < BUCKETS_MAX => {
                let writer = target.create().await?;
                let open = Tombstone::NONE;
                let bucket = Bucket { writer, last: None, inside: false, position: None, open };
                self.buckets.push(bucket);
                self.buckets.len() - 1
            }
            None => {
                let what = "out of order so often that more than 100 files would be written";
                return Err(self.table.data.damaged(what, 0));
            }
        };
        debug_assert!(self.buckets.len() <= BUCKETS_MAX, "{} files at a time", self.buckets.len());
        let bucket = &mut self.buckets[index];
        assert!(!bucket.inside && bucket.open.is_none(), "sound-output: a partition in another");
        assert!(bucket.last.as_ref() < Some(&key), "sound-output: {key:?} out of order");
        (bucket.inside, bucket.position) = (true, None);
        bucket.last = Some(key.clone());
        bucket.write(Fragment::PartitionStart { key, tombstone }).await?;
        if let Some(row) = row {
            bucket.write(Fragment::StaticRow { row }).await?;
        }
        Ok(index)
    }

    /// Ends the partition wherever it was started.
    async fn end_partition(&mut self) -> Result<(), ReadError> {
        for bucket in self.buckets.iter_mut().filter(|bucket| bucket.inside) {
            bucket.close_range(Some(ClusteringPosition::end())).await?;
            bucket.inside = false;
            bucket.write(Fragment::PartitionEnd).await?;
        }
        (self.partition, self.active, self.open) = (None, None, Tombstone::NONE);
        Ok(())
    }
}

impl Bucket {
    fn takes(&self, position: (&[u8], i8), target: &Target) -> bool {
        let last = self.position.as_ref();
        last.is_none_or(|(prefix, weight)| {
            follows(&target.schema.order, (prefix, *weight), position)
        })
    }

    async fn write(&mut self, fragment: Fragment) -> Result<(), ReadError> {
        self.writer.write(&fragment).await.map_err(ReadError::Io)
    }

    async fn write_at(
        &mut self,
        position: (&[u8], i8),
        fragment: Fragment,
    ) -> Result<(), ReadError> {
        self.position = Some((position.0.to_vec(), position.1));
        if let Fragment::RangeTombstoneChange { tombstone, .. } = &fragment {
            self.open = *tombstone;
        }
        self.write(fragment).await
    }

    /// Ends the open range tombstone, at `end` or behind the latest element.
    async fn close_range(&mut self, end: Option<ClusteringPosition>) -> Result<(), ReadError> {
        if self.open.is_none() {
            return Ok(());
        }
        let position = end.unwrap_or_else(|| match &self.position {
            Some((prefix, 0)) => ClusteringPosition::after(Bytes::copy_from(prefix)),
            Some((prefix, weight)) => {
                ClusteringPosition { prefix: Bytes::copy_from(prefix), weight: *weight }
            }
            None => ClusteringPosition::start(),
        });
        let place = (position.prefix.clone(), position.weight);
        let tombstone = Tombstone::NONE;
        let change = Fragment::RangeTombstoneChange { position, tombstone };
        self.write_at((&place.0, place.1), change).await
    }
}

/// Files by the index that each partition was given.
pub type Distribution = Vec<Option<Sealed>>;

/// Writes the partitions of a source to `count` files: each to the one that `choose` says, or to
/// none. A file that gets nothing is not written. After an error no new file is left.
pub fn distribute<'a>(
    source: &'a mut dyn Source,
    target: &'a Target,
    count: usize,
    choose: &'a mut dyn FnMut(&DecoratedKey) -> Option<usize>,
) -> Erased<'a, Result<Distribution, ReadError>> {
    Erased::new(move || async move {
        let mut writers: Vec<Option<Writer>> = (0..count).map(|_| None).collect();
        let done = pour(source, target, &mut writers, choose).await;
        let mut out = Vec::with_capacity(count);
        for writer in writers {
            out.push(match (writer, done.is_ok()) {
                (Some(writer), true) => writer.finish().await.map_err(ReadError::Io)?,
                (Some(writer), false) => {
                    writer.abort().await.map_err(ReadError::Io)?;
                    None
                }
                (None, _) => None,
            });
        }
        done.map(|()| out)
    })
}

async fn pour(
    source: &mut dyn Source,
    target: &Target,
    writers: &mut [Option<Writer>],
    choose: &mut dyn FnMut(&DecoratedKey) -> Option<usize>,
) -> Result<(), ReadError> {
    let mut batch = Vec::new();
    let mut chosen: Option<usize> = None;
    loop {
        batch.clear();
        source.fill(Budget::BATCH, &mut batch).await?;
        if batch.is_empty() {
            return Ok(());
        }
        let ends = matches!(batch.last(), Some(Fragment::PartitionEnd));
        for fragment in &batch {
            if let Fragment::PartitionStart { key, .. } = fragment {
                chosen = choose(key);
            }
            let Some(index) = chosen else { continue };
            debug_assert!(index < writers.len(), "sound-output: file {index} was chosen");
            if writers[index].is_none() {
                writers[index] = Some(target.create().await?);
            }
            if let Some(writer) = &mut writers[index] {
                writer.write(fragment).await.map_err(ReadError::Io)?;
            }
        }
        if chosen.is_none() && !ends {
            source.next_partition();
        }
    }
}

/// Writes the uncompressed data to a new file. After an error the file is removed.
pub fn decompress<'a>(
    table: &'a Table,
    path: &'a Path,
    class: IoClass,
) -> Erased<'a, Result<(), ReadError>> {
    Erased::new(move || async move {
        let mut output = Output::create(path, class).await.map_err(ReadError::Io)?;
        let done = pour_bytes(table, &mut output, class).await;
        match done {
            Ok(()) => output.finish().await.map_err(ReadError::Io),
            Err(error) => {
                drop(output);
                runtime::io::fs::remove_file(path).await.map_err(ReadError::Io)?;
                Err(error)
            }
        }
    })
}

async fn pour_bytes(table: &Table, output: &mut Output, class: IoClass) -> Result<(), ReadError> {
    let data = table.guarded_data().await?;
    let (mut position, mut bytes) = (0, Vec::new());
    while position < data.len() {
        let range = data.rounded(position..(position + DECOMPRESS_STEP_BYTES).min(data.len()));
        assert!(range.start == position && !range.is_empty(), "progress: {range:?}");
        position = range.end;
        bytes.clear();
        data.read(class, range, &mut bytes).await?;
        output.put(&bytes);
        output.flush().await.map_err(ReadError::Io)?;
    }
    assert!(output.position() == data.len(), "all-or-nothing: {} bytes", output.position());
    data.finish()
}
