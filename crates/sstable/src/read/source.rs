//! Reading partitions of an SSTable as a stream of fragments.
//!
//! One partition: filter, partition index, and of a large one the index of its rows, which says
//! where each range of the slice starts and ends in the data; then exactly these bytes. A range of
//! partitions: the data from its first to its last byte, with growing read-ahead; what is skipped
//! of it is looked up in the index as soon as it is not loaded. Backwards: block by block from the
//! last.
//!
//! Memory: what the window has loaded; backwards, the rows of one block.
//!
//! Invariants
//!  - *ordered* and *paired* of [`reader`]: what is yielded keeps them, or is an error.
//!  - *in-scope*: a partition that is yielded is one of those that were asked for.
//!  - *nothing-after*: nothing comes after an error.

use crate::cache::Access;
use crate::index::block::Widths;
use crate::index::cursor::{BlockCursor, PromotedCursor};
use crate::index::ordinal::Ordinal;
use crate::index::trie::RowsCursor;
use crate::index::{Entries, Located, Lookup, PartitionIndex, RowIndex};
use crate::mx::header::Mapping;
use crate::mx::partition::{PARTITION_HEAD_BYTES_MAX, PartitionHead};
use crate::read::backwards::{Backwards, reverse_changes, scan};
use crate::read::elements::{Elements, Step};
use crate::read::stretches::{Ranges, SKIP_BYTES, Stretch, Stretches};
use crate::read::window::Window;
use crate::read_stats::ReadStats;
use crate::store::Component;
use crate::table::Table;
use model::DecoratedKey;
use mutation::page::RingBound;
use mutation::{ClusteringRange, Fragment, Tombstone};
use reader::{Budget, LocalFuture, ReadError, Slice, Source};
use std::rc::Rc;
use stdx::{Bytes, Damaged};

/// Which partitions are read.
#[derive(Clone, Debug)]
pub enum Scope {
    /// One.
    Key(Lookup),
    /// Those between two bounds.
    Range {
        /// Where it starts.
        start: RingBound,
        /// Where it ends.
        end: RingBound,
    },
}

/// The first read of a partition whose length is not known, at most.
const UNKNOWN_STEP_BYTES: u64 = 8 << 10;
/// A partition without an index of its rows that is longer than this is not held in memory to be
/// read backwards.
const WHOLE_BACKWARDS_BYTES: u64 = 256 << 10;
/// Of a table whose partitions are larger than this, on the average, selective slices of many
/// partitions are read by the index.
const LARGE_PARTITION_BYTES: u64 = 128 << 10;

/// A source of the fragments of one SSTable.
#[derive(Debug)]
pub struct TableSource {
    table: Rc<Table>,
    mapping: Rc<Mapping>,
    stats: Rc<ReadStats>,
    scope: Scope,
    slice: Slice,
    access: Access,
    state: State,
    window: Window,
    elements: Elements,
    /// The start of the present partition, if it is to be yielded before anything else.
    head: Option<Fragment>,
    /// Fragments to be yielded after it and before anything else, the next one last.
    pending: Vec<Fragment>,
    /// The partition read last.
    last: Option<DecoratedKey>,
    /// Entries of partitions that are opened one after the other by the index.
    entries: Option<Entries>,
    /// The rows of the present partition, if they have an index that is of use.
    rows: Option<Stretches>,
    /// The range whose end the present stretch should have.
    refine: Option<usize>,
    /// Every partition is opened by the index.
    by_index: bool,
    /// Data is compared with its checksums before it is used.
    checked: bool,
    /// The rest of the partition is not wanted.
    skipping: bool,
    /// A partition was yielded whose end was not.
    inside: bool,
    /// Of a source with `Slice::forwarding`.
    forward: Option<Forward>,
}

/// How a source yields rows as they are asked for.
#[derive(Debug)]
struct Forward {
    /// All ranges of the slice.
    ranges: Vec<ClusteringRange>,
    /// In a scan: the index of the rows of the present partition, once it was looked for.
    index: Option<Option<Stretches>>,
    /// The index was asked, and nothing was loaded since.
    jumped: bool,
    /// Backwards, what is asked for is read by a source of its own.
    rows: Option<Box<TableSource>>,
}

#[derive(Debug)]
enum State {
    /// Nothing is done yet.
    Start,
    /// The window is at the start of a partition, or at its end.
    BetweenPartitions,
    /// The window is among the elements of a partition. `bounded`: it ends before the partition.
    Rows { bounded: bool },
    /// The next stretch of the partition is to be gone to.
    NextStretch,
    /// Blocks of a partition are read from the last to the first.
    Backwards(Box<Backwards>),
    /// The next partition is found by the index.
    NextEntry,
    /// What was asked for of the present partition was yielded. `ended`: so was all of it.
    Waiting { ended: bool, bounded: bool },
    /// Nothing is left, or there was an error.
    Done,
}

enum Progress {
    /// The budget is used up.
    Enough,
    /// This many bytes must be in the window.
    Need(usize),
    /// Others should have the shard before it goes on.
    Pause,
    /// Something else must be read.
    Advance,
    /// Nothing is left.
    End,
}

/// What one step came to.
enum Moved {
    On,
    Need(usize),
    Pause,
    Advance,
    End,
}

/// Reading an open SSTable.
impl Table {
    /// Reads one partition or a range of them. Errors come from the source.
    pub fn read(self: &Rc<Self>, scope: Scope, slice: Slice, access: Access) -> TableSource {
        TableSource::new(self.clone(), scope, slice, access)
    }

    /// As [`Table::read`], of bytes that were compared with every checksum before they are used.
    /// Who reads all of it gets an error instead of the end where the digest does not match.
    pub fn read_checked(
        self: &Rc<Self>,
        scope: Scope,
        slice: Slice,
        access: Access,
    ) -> TableSource {
        TableSource::new(self.clone(), scope, slice, access).checked()
    }
}

impl TableSource {
    fn new(table: Rc<Table>, scope: Scope, mut slice: Slice, access: Access) -> TableSource {
        let mapping = table.mapping();
        let forward = slice.forwarding.then(|| {
            let ranges = std::mem::take(&mut slice.ranges);
            Forward { ranges, index: None, jumped: false, rows: None }
        });
        let stats = ReadStats::of_shard();
        let ranges = std::mem::take(&mut slice.ranges);
        TableSource {
            window: Window::new(table.data.clone(), access.class, stats.clone()),
            elements: Elements::new(mapping.clone(), ranges, slice.with_static, stats.clone()),
            mapping,
            stats,
            table,
            scope,
            slice,
            access,
            state: State::Start,
            head: None,
            pending: Vec::new(),
            last: None,
            entries: None,
            by_index: false,
            checked: false,
            rows: None,
            refine: None,
            skipping: false,
            inside: false,
            forward,
        }
    }

    /// Opens every partition of a range by the index, however small they are.
    pub fn by_index(mut self) -> TableSource {
        self.by_index = true;
        self
    }

    /// Compares data with its checksums before it is used.
    fn checked(mut self) -> TableSource {
        self.checked = true;
        self
    }

    /// Yields what can be yielded without I/O.
    fn drain(&mut self, budget: Budget, out: &mut Vec<Fragment>) -> Result<Progress, ReadError> {
        let mut left = budget;
        let mut counted = out.len();
        loop {
            while let Some(fragment) = out.get(counted) {
                let starts = matches!(fragment, Fragment::PartitionStart { .. });
                debug_assert!(starts != self.inside, "paired: {fragment:?}");
                self.inside = !matches!(fragment, Fragment::PartitionEnd);
                counted += 1;
                if !left.spend(fragment) {
                    // One element may yield more fragments than are wanted now.
                    self.pending.extend(out.drain(counted..).rev());
                    return Ok(Progress::Enough);
                }
            }
            if let Some(fragment) = self.head.take().or_else(|| self.pending.pop()) {
                out.push(fragment);
                continue;
            }
            let moved = match self.state {
                State::Start | State::Backwards(_) | State::NextEntry => Moved::Advance,
                State::Done | State::Waiting { .. } => Moved::End,
                State::BetweenPartitions => self.partition_start(out)?,
                State::Rows { bounded } => self.element(bounded, out)?,
                State::NextStretch => self.next_stretch(out)?,
            };
            match moved {
                Moved::On => {}
                Moved::Need(bytes) => return Ok(Progress::Need(bytes)),
                Moved::Pause => return Ok(Progress::Pause),
                Moved::Advance => return Ok(Progress::Advance),
                Moved::End if out.len() == counted => return Ok(Progress::End),
                Moved::End => {}
            }
        }
    }

    /// Reads the head of a partition.
    fn partition_start(&mut self, out: &mut Vec<Fragment>) -> Result<Moved, ReadError> {
        if self.window.remaining() == 0 {
            self.end_of_scan()?;
            return Ok(Moved::On);
        }
        let rest = self.window.rest();
        let head = match PartitionHead::parse(rest, self.table.descriptor().version.deletion_form())
        {
            Ok(head) => head,
            Err(_) if !self.window.is_loaded() && rest.len() < PARTITION_HEAD_BYTES_MAX => {
                return Ok(Moved::Need(2 * rest.len() + 1));
            }
            Err(error) => return Err(self.damaged_here(error)),
        };
        let (tombstone, bytes) = (head.tombstone, head.bytes);
        let key = match &self.scope {
            Scope::Key(lookup) if &*lookup.key.key == head.key => lookup.key.clone(),
            // What the index could not confirm was not what was asked for.
            Scope::Key(_) => {
                self.stats.add(|counts| counts.filter_false_positives += 1);
                self.table.count_in_vain();
                self.state = State::Done;
                return Ok(Moved::On);
            }
            Scope::Range { start, end } => {
                let key = DecoratedKey::new(Bytes::copy_from(head.key));
                if self.entries.is_some() && end.place(key.token, &key.key).is_ge() {
                    self.state = State::Done;
                    return Ok(Moved::On);
                }
                if self.entries.is_some() && start.place(key.token, &key.key).is_lt() {
                    self.state = State::NextEntry;
                    return Ok(Moved::On);
                }
                key
            }
        };
        if self.last.as_ref() >= Some(&key) {
            return Err(self.damaged_here(Damaged::new("partitions out of order", 0)));
        }
        self.window.skip(bytes as u64);
        self.start_partition(key.clone());
        self.state = State::Rows { bounded: false };
        out.push(Fragment::PartitionStart { key, tombstone });
        Ok(Moved::On)
    }

    fn start_partition(&mut self, key: DecoratedKey) {
        debug_assert!(self.last.as_ref() < Some(&key), "ordered: {key:?} after {:?}", self.last);
        self.last = Some(key);
        self.elements.start_partition();
        self.skipping = false;
        self.refine = None;
        if let Some(forward) = &mut self.forward {
            forward.index = None;
            self.elements.set_ranges(Vec::new());
        }
    }

    /// Reads an element.
    fn element(&mut self, bounded: bool, out: &mut Vec<Fragment>) -> Result<Moved, ReadError> {
        let step = self.elements.next(&mut self.window, bounded, self.skipping, out)?;
        match step {
            Step::Need(bytes) => return Ok(Moved::Need(bytes)),
            Step::Pause => return Ok(Moved::Pause),
            Step::Taken => {}
            Step::Limit if let Some(rows) = &mut self.rows => {
                rows.catch_up(self.window.position());
                self.state = State::NextStretch;
            }
            Step::PartitionEnd | Step::Limit => {
                if self.skipping {
                    self.state = self.after_partition();
                } else {
                    self.elements.finish(out);
                    self.end_partition(true, out);
                }
            }
            Step::Beyond => self.end_partition(false, out),
        }
        Ok(Moved::On)
    }

    /// All that is wanted of a partition was yielded; `whole`: and nothing of it is left.
    fn end_partition(&mut self, whole: bool, out: &mut Vec<Fragment>) {
        debug_assert!(self.last.is_some(), "paired: the end of no partition");
        debug_assert!(!self.skipping, "paired: the end of a partition that was left");
        if self.forward.is_some() {
            let bounded = matches!(self.state, State::Rows { bounded: true });
            self.state = State::Waiting { ended: whole, bounded };
            return;
        }
        out.push(Fragment::PartitionEnd);
        if whole {
            self.state = self.after_partition();
        } else {
            self.skip_rest();
        }
    }

    /// Goes to the next stretch that was located.
    fn next_stretch(&mut self, out: &mut Vec<Fragment>) -> Result<Moved, ReadError> {
        let Some(rows) = &mut self.rows else { unreachable!("stretches are of rows") };
        if let Some(stretch) = rows.take() {
            let Stretch { start, end, open, range, bounded, refine } = stretch;
            debug_assert!(end <= self.table.data_bytes(), "within-file: {stretch:?}");
            if let Some(open) = open {
                let jumped = self.elements.jump(range, open, out);
                jumped.map_err(|what| self.damaged_here(what))?;
            }
            self.window.go(start, end);
            self.refine = refine;
            self.state = State::Rows { bounded };
            return Ok(Moved::On);
        }
        if rows.lacks(self.elements.ranges()) {
            return Ok(Moved::Advance);
        }
        self.elements.finish(out);
        self.state = State::Rows { bounded: true };
        let waits = self.forward.is_some();
        self.end_partition(!waits, out);
        Ok(Moved::On)
    }

    /// The data that was to be read is read. Where it was cut between two partitions, that is
    /// damage.
    fn end_of_scan(&mut self) -> Result<(), ReadError> {
        let last = self.table.last_key();
        let wanted = match &self.scope {
            Scope::Key(_) => false,
            Scope::Range { end, .. } => end.place(last.token, &last.key).is_lt(),
        };
        if wanted && self.scans() && self.last.as_ref() != Some(last) {
            let what = Damaged::new("the data ends before its last partition", 0);
            return Err(self.damaged_here(what));
        }
        debug_assert!(self.window.remaining() == 0, "in-scope: {} left", self.window.remaining());
        self.state = State::Done;
        // Others of the same read may go on for long.
        self.window.let_go();
        self.window.file().finish()
    }

    /// What follows a partition that was read to its end.
    fn after_partition(&mut self) -> State {
        self.rows = None;
        match (&self.scope, &self.entries) {
            (Scope::Key(_), _) => State::Done,
            (Scope::Range { .. }, Some(_)) => State::NextEntry,
            (Scope::Range { .. }, None) => State::BetweenPartitions,
        }
    }

    /// Nothing more of the present partition is wanted.
    fn skip_rest(&mut self) {
        match self.state {
            State::Waiting { ended: true, .. } => self.state = self.after_partition(),
            State::Rows { .. } | State::Waiting { .. } if self.scans() => {
                self.skipping = true;
                self.state = State::Rows { bounded: false };
            }
            State::Rows { .. }
            | State::NextStretch
            | State::Waiting { .. }
            | State::Backwards(_) => self.state = self.after_partition(),
            _ => {}
        }
    }

    /// Whether partitions are read one after the other from the data.
    fn scans(&self) -> bool {
        matches!(self.scope, Scope::Range { .. }) && self.entries.is_none()
    }

    /// Loads what the window lacks; or, where what comes first is not wanted, goes past that.
    async fn load(&mut self, bytes: usize) -> Result<(), ReadError> {
        if self.skipping && self.scans() {
            return self.skip_by_index(bytes).await;
        }
        let begun = !self.window.rest().is_empty() || self.window.has_begun();
        if begun && let Some(number) = self.refine.take() {
            self.refine_end(number).await?;
        }
        if self.forward.is_some() && self.elements.is_before() && self.jump_forward().await? {
            return Ok(());
        }
        self.window.load(bytes).await
    }

    /// Looks up where the present stretch ends exactly.
    async fn refine_end(&mut self, number: usize) -> Result<(), ReadError> {
        let Some(rows) = &mut self.rows else { return Ok(()) };
        debug_assert!(number < self.elements.ranges().len(), "in-scope: range {number}");
        let range = self.elements.ranges()[number].clone();
        if let Some(end) = rows.refined_end(&range).await?
            && self.window.position() <= end
        {
            self.window.shorten(end);
            self.state = State::Rows { bounded: true };
        }
        Ok(())
    }

    /// Goes to the next partition of a scan by the index, if that is not near.
    async fn skip_by_index(&mut self, bytes: usize) -> Result<(), ReadError> {
        let Some(last) = &self.last else { return self.window.load(bytes).await };
        let after = RingBound { token: last.token, key: Some(last.key.to_vec()), after: true };
        let next = self.table.index.lower_bound(&after, &self.access).await?;
        let (here, end) = (self.window.position(), self.window.limit());
        // The data of the last partition may end later than the scan.
        let next = next.min(end);
        if next < here {
            let what = Damaged::new("positions of partitions out of order", next);
            return Err(self.damaged(Component::Index, what));
        }
        debug_assert!(here <= next && next <= end, "ordered: a skip from {here} to {next}");
        self.skipping = false;
        self.window.go(next, end);
        self.state = self.after_partition();
        Ok(())
    }

    /// Reads what `drain` cannot go on without.
    async fn advance(&mut self) -> Result<(), ReadError> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Start => self.start().await,
            State::NextEntry => self.next_entry().await,
            State::NextStretch => {
                self.locate().await?;
                self.state = State::NextStretch;
                Ok(())
            }
            State::Backwards(blocks) => self.block_backwards(blocks).await,
            other => {
                self.state = other;
                Ok(())
            }
        }
    }

    /// Locates the next stretches of the partition.
    async fn locate(&mut self) -> Result<(), ReadError> {
        let Some(rows) = &mut self.rows else { return Ok(()) };
        let table = &self.table;
        let damaged = |error: Damaged| table.index.damaged(error.what, error.at);
        rows.locate(self.elements.ranges(), &mut self.window, damaged).await
    }

    async fn start(&mut self) -> Result<(), ReadError> {
        debug_assert!(!self.inside && self.entries.is_none(), "paired: begun inside a partition");
        let table = self.table.clone();
        if self.checked && !self.window.file().is_guarded() {
            let data = Rc::new(table.guarded_data().await?);
            self.window = Window::new(data, self.access.class, self.stats.clone());
        }
        match self.scope.clone() {
            Scope::Key(lookup) => {
                self.stats.add(|counts| counts.single_reads += 1);
                if !table.may_contain(&lookup) {
                    return Ok(());
                }
                self.stats.add(|counts| counts.filter_positives += 1);
                table.count_hit();
                match table.index.find(&lookup, &self.access).await? {
                    Some(located) => self.open_partition(located).await,
                    None => {
                        self.stats.add(|counts| counts.filter_false_positives += 1);
                        table.count_in_vain();
                        Ok(())
                    }
                }
            }
            Scope::Range { start, end } => {
                self.stats.add(|counts| counts.range_reads += 1);
                if self.slice.reversed || self.by_index || self.is_selective() {
                    self.entries = Some(table.index.entries(&start, &self.access));
                    return self.next_entry().await;
                }
                let first = table.index.lower_bound(&start, &self.access).await?;
                let last = table.index.lower_bound(&end, &self.access).await?;
                let holds = start.place(table.last_key().token, &table.last_key().key).is_ge();
                if holds && first <= last {
                    self.window.forget_plans();
                    self.window.go(first, last);
                    self.state = State::BetweenPartitions;
                }
                Ok(())
            }
        }
    }

    /// Whether only a part of large partitions is wanted.
    fn is_selective(&self) -> bool {
        let mean = self.table.data_bytes() / self.table.partition_count().max(1);
        self.forward.is_none()
            && LARGE_PARTITION_BYTES <= mean
            && self.elements.ranges() != [ClusteringRange::full()]
    }

    /// Opens the partition at the index cursor, if it is in scope.
    async fn next_entry(&mut self) -> Result<(), ReadError> {
        let Some(entries) = &mut self.entries else { return Ok(()) };
        let Some(located) = entries.next().await? else { return Ok(()) };
        if let (Scope::Range { end, .. }, Some(key)) = (&self.scope, &located.key)
            && end.place(key.token, &key.key).is_ge()
        {
            return Ok(());
        }
        self.open_partition(located).await
    }

    async fn open_partition(&mut self, located: Located) -> Result<(), ReadError> {
        debug_assert!(self.head.is_none() && self.pending.is_empty(), "paired: unseen fragments");
        self.stats.add(|counts| counts.partition_seeks += 1);
        let (position, data_bytes) = (located.position, self.table.data_bytes());
        let end = located.end.unwrap_or(data_bytes);
        if end <= position || data_bytes < end {
            let what = Damaged::new("positions of partitions out of order", position);
            return Err(self.damaged(Component::Index, what));
        }
        let reversed = self.slice.reversed;
        let is_full = self.elements.ranges() == [ClusteringRange::full()];
        if (!is_full || reversed)
            && let (Some(rows), Some(key)) = (&located.rows, &located.key)
        {
            let cursor = self.block_cursor(rows, end - position).await?;
            let ranges = if self.forward.is_some() { Ranges::Asked } else { Ranges::Known };
            let rows = Stretches::new(cursor, (position, end), ranges);
            let rows = rows.map_err(|error| self.damaged(Component::Index, error))?;
            return self.open_rows(key.clone(), rows, located.end).await;
        }
        self.window.forget_plans();
        self.window.go(position, end);
        if located.end.is_none() {
            self.window.set_step(self.unknown_step());
        }
        self.state = State::BetweenPartitions;
        if reversed && !self.elements.ranges().is_empty() {
            return self.whole_backwards(position, located.end).await;
        }
        Ok(())
    }

    /// What to read first of a partition of unknown length.
    fn unknown_step(&self) -> u64 {
        let mean = self.table.data_bytes() / self.table.partition_count().max(1);
        (2 * mean).clamp(512, UNKNOWN_STEP_BYTES)
    }

    /// The walk over the blocks of a partition of that many bytes.
    async fn block_cursor(&self, rows: &RowIndex, bytes: u64) -> Result<BlockCursor, ReadError> {
        let widths = match self.table.has_exact_widths() {
            true => Widths::Exact,
            false => Widths::Loose,
        };
        // Of a partition that is most of the file, its bounds are known.
        let outer = (self.table.data_bytes() / 10 * 9 <= bytes)
            .then(|| self.table.stats().max_clustering.first())
            .flatten()
            .map(|value| Ordinal::behind(&self.mapping.schema.order, value));
        let (mapping, access) = (self.mapping.clone(), self.access.clone());
        match (rows, &self.table.index) {
            (RowIndex::Promoted(at), PartitionIndex::Big(index)) => {
                let place = (index.file().clone(), *at);
                let cursor = PromotedCursor::new(place, mapping, widths, outer, access);
                Ok(BlockCursor::Promoted(cursor))
            }
            (RowIndex::Trie(at), PartitionIndex::Trie(index)) => {
                let place = (index.rows().clone(), *at);
                let exact = widths == Widths::Exact;
                let cursor = RowsCursor::open(place, mapping, exact, access).await?;
                Ok(BlockCursor::Rows(cursor))
            }
            _ => unreachable!("an index of rows is of the form of the index that led to it"),
        }
    }

    /// Opens a partition whose rows have an index.
    async fn open_rows(
        &mut self,
        key: DecoratedKey,
        rows: Stretches,
        end: Option<u64>,
    ) -> Result<(), ReadError> {
        if self.last.as_ref() >= Some(&key) {
            let wrong = Damaged::new("partitions out of order", rows.header().0);
            return Err(self.damaged(Component::Index, wrong));
        }
        let (position, header_end) = rows.header();
        debug_assert!(position < header_end, "within-file: a header from {position} on");
        let tombstone = rows.tombstone();
        let wants_static = self.slice.with_static && !self.mapping.shape.statics.list.is_empty();
        self.window.forget_plans();
        self.rows = Some(rows);
        self.start_partition(key.clone());
        if wants_static {
            self.window.plan(position..header_end);
        }
        if !self.slice.reversed {
            self.locate().await?;
        }
        if wants_static {
            self.last = None;
            self.header(position, header_end).await?;
        } else {
            self.head = Some(Fragment::PartitionStart { key, tombstone });
        }
        self.state = State::NextStretch;
        if self.slice.reversed {
            let Some(rows) = self.rows.take() else { unreachable!("set above") };
            let ranges = self.elements.ranges().len();
            let place = (rows.into_cursor(), position, end);
            let blocks = Backwards::new(place, self.table.data_bytes(), ranges);
            self.state = State::Backwards(Box::new(blocks));
        }
        Ok(())
    }

    /// Reads the start of the partition and its static row, from a stretch that ends with these.
    async fn header(&mut self, position: u64, header_end: u64) -> Result<(), ReadError> {
        self.window.go(position, header_end);
        self.window.load((header_end - position) as usize).await?;
        let mut out = Vec::new();
        let lacks = "the header of a partition is longer than the index says";
        match self.partition_start(&mut out)? {
            Moved::On if !out.is_empty() => {}
            _ => return Err(self.damaged_here(Damaged::new(lacks, 0))),
        }
        while 0 < self.window.remaining() {
            match self.elements.next(&mut self.window, true, false, &mut out)? {
                Step::Taken => {}
                _ => return Err(self.damaged_here(Damaged::new(lacks, 0))),
            }
        }
        let starts = matches!(out.first(), Some(Fragment::PartitionStart { .. }));
        debug_assert!(starts && out.len() <= 2, "paired: the head of a partition is {out:?}");
        out.reverse();
        self.pending = out;
        Ok(())
    }

    /// A partition without an index of its rows, backwards: all of its rows at once; or, of a long
    /// one, by blocks that a scan finds.
    async fn whole_backwards(&mut self, position: u64, end: Option<u64>) -> Result<(), ReadError> {
        let mut start = Vec::new();
        while let State::BetweenPartitions = self.state {
            if let Moved::Need(need) = self.partition_start(&mut start)? {
                self.window.load(need).await?;
            }
        }
        let Some(Fragment::PartitionStart { tombstone, .. }) = start.first() else {
            return Ok(());
        };
        if WHOLE_BACKWARDS_BYTES < self.window.remaining() && end.is_some() {
            let head = (position, *tombstone);
            let (window, elements) = (&mut self.window, &mut self.elements);
            let cursor = scan(window, elements, head, &mut start).await?;
            start.reverse();
            self.pending = start;
            let place = (BlockCursor::Scanned(cursor), position, end);
            let ranges = self.elements.ranges().len();
            let blocks = Backwards::new(place, self.table.data_bytes(), ranges);
            self.state = State::Backwards(Box::new(blocks));
            return Ok(());
        }
        let mut rows = Vec::new();
        loop {
            match self.elements.next(&mut self.window, false, false, &mut rows)? {
                Step::Need(bytes) => self.window.load(bytes).await?,
                Step::Pause => runtime::task::yield_now().await,
                Step::Taken => {}
                Step::PartitionEnd | Step::Limit => break self.elements.finish(&mut rows),
                Step::Beyond => break,
            }
        }
        let statics = rows.iter().take_while(|f| matches!(f, Fragment::StaticRow { .. })).count();
        start.extend(rows.drain(..statics));
        reverse_changes(Tombstone::NONE, &mut rows);
        debug_assert!(self.elements.emitted().is_none(), "closed: in a partition backwards");
        let mut pending = vec![Fragment::PartitionEnd];
        pending.append(&mut rows);
        start.reverse();
        pending.append(&mut start);
        self.pending = pending;
        self.state = self.after_partition();
        Ok(())
    }

    /// The next block of a partition that is read backwards.
    async fn block_backwards(&mut self, mut blocks: Box<Backwards>) -> Result<(), ReadError> {
        debug_assert!(self.pending.is_empty(), "last-first: unseen fragments");
        let mut rows = std::mem::take(&mut self.pending);
        let table = &self.table;
        let damaged = |error: Damaged| table.index.damaged(error.what, error.at);
        let more = blocks.next(&mut self.window, &mut self.elements, &mut rows, damaged).await?;
        self.pending = rows;
        self.state = State::Backwards(blocks);
        if !more {
            let mut end = Vec::new();
            self.end_partition(true, &mut end);
            self.pending = end;
        }
        Ok(())
    }

    /// Nothing comes after an error.
    fn failed(&mut self, error: ReadError) -> ReadError {
        self.table.note(&error);
        self.head = None;
        self.pending.clear();
        self.state = State::Done;
        error
    }

    fn damaged_here(&self, damaged: Damaged) -> ReadError {
        self.window.file().damaged(damaged.what, self.window.position() + damaged.at)
    }

    fn damaged(&self, component: Component, damaged: Damaged) -> ReadError {
        match component {
            Component::Index => self.table.index.damaged(damaged.what, damaged.at),
            _ => self.table.data.damaged(damaged.what, damaged.at),
        }
    }
}

/// Rows as they are asked for.
impl TableSource {
    /// Goes past what lies before the range that was asked for, by the index of the rows; whether
    /// that led anywhere.
    async fn jump_forward(&mut self) -> Result<bool, ReadError> {
        let here = self.window.position();
        let Some(forward) = &mut self.forward else { return Ok(false) };
        forward.jumped = !forward.jumped;
        if !forward.jumped {
            return Ok(false);
        }
        if let Some(rows) = &mut self.rows {
            let streams = matches!(self.state, State::Rows { bounded: false });
            if !streams || !self.window.has_begun() {
                return Ok(false);
            }
            rows.restart(self.elements.next_range(), here);
            self.state = State::NextStretch;
            return Ok(true);
        }
        self.look_up_rows().await?;
        let rows = self.forward.as_mut().and_then(|forward| forward.index.as_mut());
        let (Some(Some(rows)), Some(range)) = (rows, self.elements.ranges().first()) else {
            return Ok(false);
        };
        let Some((place, open)) = rows.place_of(range).await? else { return Ok(false) };
        let limit = self.window.limit();
        if place < self.window.loaded().max(here).saturating_add(SKIP_BYTES) || limit < place {
            return Ok(false);
        }
        debug_assert!(here <= place && place <= limit, "ordered: a jump from {here} to {place}");
        let jumped = self.elements.jump(0, open, &mut self.pending);
        jumped.map_err(|what| self.damaged_here(what))?;
        self.window.go(place, limit);
        Ok(true)
    }

    /// In a scan, looks the rows of the present partition up in the index, once.
    async fn look_up_rows(&mut self) -> Result<(), ReadError> {
        let (Some(forward), Some(key)) = (&mut self.forward, &self.last) else { return Ok(()) };
        if forward.index.is_some() {
            return Ok(());
        }
        forward.index = Some(None);
        let lookup = Lookup::new(key.key.clone());
        let Some(located) = self.table.index.find(&lookup, &self.access).await? else {
            return Ok(());
        };
        let (position, data_bytes) = (located.position, self.table.data_bytes());
        let end = located.end.unwrap_or(data_bytes);
        if let Some(rows) = &located.rows
            && position < end
            && end <= data_bytes
        {
            let cursor = self.block_cursor(rows, end - position).await?;
            let rows = Stretches::new(cursor, (position, end), Ranges::Asked);
            let rows = rows.map_err(|error| self.damaged(Component::Index, error))?;
            if let Some(forward) = &mut self.forward {
                forward.index = Some(Some(rows));
            }
        }
        Ok(())
    }

    /// Backwards, whether what is asked for is read by a source of its own.
    fn forwards_by_source(&self) -> bool {
        self.forward.as_ref().is_some_and(|forward| forward.rows.is_some())
    }

    /// Yields what was asked for of the present partition, backwards.
    async fn fill_forwarded(
        &mut self,
        budget: Budget,
        out: &mut Vec<Fragment>,
    ) -> Result<(), ReadError> {
        let Some(rows) = self.forward.as_mut().and_then(|forward| forward.rows.as_mut()) else {
            return Ok(());
        };
        let before = out.len();
        loop {
            let filled = out.len();
            Box::pin(rows.fill(budget, out)).await?;
            if out.len() == filled {
                return Ok(());
            }
            out.retain(|fragment| {
                !matches!(fragment, Fragment::PartitionStart { .. } | Fragment::PartitionEnd)
            });
            if before < out.len() {
                return Ok(());
            }
        }
    }
}

impl Source for TableSource {
    fn try_fill(
        &mut self,
        budget: Budget,
        out: &mut Vec<Fragment>,
    ) -> Option<Result<(), ReadError>> {
        if self.forwards_by_source() {
            return None;
        }
        let start = out.len();
        match self.drain(budget, out) {
            Ok(Progress::Enough | Progress::End) => Some(Ok(())),
            Ok(_) if start < out.len() => Some(Ok(())),
            Ok(_) => None,
            Err(error) => Some(Err(self.failed(error))),
        }
    }

    fn fill<'a>(
        &'a mut self,
        budget: Budget,
        out: &'a mut Vec<Fragment>,
    ) -> LocalFuture<'a, Result<(), ReadError>> {
        Box::pin(async move {
            if self.forwards_by_source() {
                return self.fill_forwarded(budget, out).await;
            }
            let start = out.len();
            loop {
                let step = match self.drain(budget, out) {
                    Ok(Progress::Enough | Progress::End) => return Ok(()),
                    Ok(_) if start < out.len() => return Ok(()),
                    Ok(Progress::Need(bytes)) => {
                        debug_assert!(0 < bytes, "progress: nothing is needed");
                        self.load(bytes).await
                    }
                    Ok(Progress::Pause) => {
                        runtime::task::yield_now().await;
                        Ok(())
                    }
                    Ok(Progress::Advance) => self.advance().await,
                    Err(error) => Err(error),
                };
                if let Err(error) = step {
                    return Err(self.failed(error));
                }
            }
        })
    }

    fn next_partition(&mut self) {
        if let Some(forward) = &mut self.forward {
            forward.rows = None;
        }
        if std::mem::take(&mut self.inside) {
            self.pending.clear();
            self.skip_rest();
        }
    }

    fn forward_partitions(&mut self, start: &RingBound, end: &RingBound) {
        debug_assert!(start.token <= end.token, "forwarded: from {start:?} to {end:?}");
        self.next_partition();
        debug_assert!(!self.inside, "paired: forwarded inside a partition");
        self.head = None;
        self.pending.clear();
        self.entries = None;
        self.rows = None;
        self.skipping = false;
        self.scope = Scope::Range { start: start.clone(), end: end.clone() };
        self.state = State::Start;
    }

    fn forward_rows(&mut self, range: ClusteringRange) {
        let (Some(forward), Some(key), true) = (&mut self.forward, &self.last, self.inside) else {
            return;
        };
        let order = &self.mapping.schema.order;
        let ranges: Vec<ClusteringRange> =
            forward.ranges.iter().filter_map(|own| own.intersect(order, &range)).collect();
        self.pending.clear();
        if self.slice.reversed {
            let slice = Slice { ranges, with_static: false, forwarding: false, ..self.slice };
            let scope = Scope::Key(Lookup::new(key.key.clone()));
            let rows = TableSource::new(self.table.clone(), scope, slice, self.access.clone());
            let rows = TableSource { checked: self.checked, ..rows };
            forward.rows = Some(Box::new(rows));
            return;
        }
        if let State::Waiting { ended: true, .. } = self.state {
            return;
        }
        self.elements.set_ranges(ranges);
        self.refine = None;
        let bounded = match self.state {
            State::Waiting { bounded, .. } | State::Rows { bounded } => bounded,
            _ => true,
        };
        match &mut self.rows {
            Some(rows) => {
                rows.restart(0, self.window.position());
                let begun = 0 < self.window.remaining() && self.window.has_begun();
                self.state = if begun { State::Rows { bounded } } else { State::NextStretch };
            }
            None => self.state = State::Rows { bounded },
        }
    }

    fn memory_bytes(&self) -> usize {
        self.window.memory_bytes()
    }
}
