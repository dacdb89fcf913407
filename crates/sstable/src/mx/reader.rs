//! Reading partitions of an SSTable as a stream of fragments.
//!
//! One partition: filter, summary, one page of the index, then exactly the bytes of the partition,
//! or of the blocks that the clustering ranges need. A range of partitions: the data from its
//! first to its last byte, with growing read-ahead. Backwards: block by block from the last.
//!
//! Memory: what the window has loaded; backwards, the rows of one block of the promoted index.

use crate::cache::Access;
use crate::index::promoted::PromotedIndex;
use crate::index::{Entries, Located, Lookup, PartitionIndex, RowIndex, is_before};
use crate::mx::elements::{Elements, Step};
use crate::mx::partition::{PARTITION_HEAD_BYTES_MAX, PartitionHead};
use crate::mx::window::Window;
use crate::store::Component;
use crate::table::{Mapping, Table};
use model::DecoratedKey;
use mutation::page::RingBound;
use mutation::{ClusteringRange, Fragment, Tombstone};
use reader::{Budget, LocalFuture, ReadError, Slice, Source};
use std::cmp::Ordering;
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

/// The first read of a partition whose length is not known.
const UNKNOWN_STEP_BYTES: u64 = 8 << 10;

/// A source of the fragments of one SSTable.
#[derive(Debug)]
pub struct TableSource {
    table: Rc<Table>,
    mapping: Rc<Mapping>,
    scope: Scope,
    slice: Slice,
    access: Access,
    state: State,
    window: Window,
    elements: Elements,
    /// Fragments to be yielded before anything else, the next one last.
    pending: Vec<Fragment>,
    /// The partition read last.
    last: Option<DecoratedKey>,
    /// Entries of partitions that are read backwards, one after the other.
    entries: Option<Entries>,
    /// The rest of the partition is not wanted.
    skipping: bool,
    /// A partition was yielded whose end was not.
    inside: bool,
    /// Of a source with `Slice::forwarding`.
    forward: Option<Forward>,
}

/// How a source yields rows as they are asked for: it reads partitions without any, and those
/// that are asked for by a source of their own.
#[derive(Debug)]
struct Forward {
    /// All ranges of the slice.
    ranges: Vec<ClusteringRange>,
    /// The head of a partition was yielded, and nothing more comes but rows.
    waiting: bool,
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
    /// Blocks of a partition are read from the last to the first.
    Backwards(Blocks),
    /// The next partition is found by the index.
    NextEntry,
    /// Nothing is left, or there was an error.
    Done,
}

/// What is left of a partition that is read backwards.
#[derive(Debug)]
struct Blocks {
    /// Of the partition.
    position: u64,
    data_end: u64,
    promoted: PromotedIndex,
    /// Blocks from `lower` to before `next` are to be read.
    lower: usize,
    next: usize,
    /// Whether `next` is the last block that the slice needs.
    at_top: bool,
}

enum Progress {
    /// The budget is used up.
    Enough,
    /// This many bytes must be in the window.
    Need(usize),
    /// Something else must be read.
    Advance,
    /// Nothing is left.
    End,
}

impl TableSource {
    pub(crate) fn new(
        table: Rc<Table>,
        scope: Scope,
        mut slice: Slice,
        access: Access,
    ) -> TableSource {
        let mapping = table.mapping();
        let forward = slice.forwarding.then(|| {
            let ranges = std::mem::take(&mut slice.ranges);
            Forward { ranges, waiting: false, rows: None }
        });
        TableSource {
            window: Window::new(table.data.clone(), access.class),
            elements: Elements::new(mapping.clone(), slice.ranges.clone(), slice.with_static),
            mapping,
            table,
            scope,
            slice,
            access,
            state: State::Start,
            pending: Vec::new(),
            last: None,
            entries: None,
            skipping: false,
            inside: false,
            forward,
        }
    }

    /// Whether nothing comes but what was asked for of the present partition.
    fn waits_to_be_forwarded(&self) -> bool {
        self.forward.as_ref().is_some_and(|forward| forward.waiting)
    }

    /// Yields what was asked for of the present partition.
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

    /// Yields what can be yielded without I/O.
    fn drain(&mut self, budget: Budget, out: &mut Vec<Fragment>) -> Result<Progress, ReadError> {
        let mut left = budget;
        let mut counted = out.len();
        loop {
            while let Some(fragment) = out.get(counted) {
                if let (Fragment::PartitionEnd, Some(forward)) = (fragment, &mut self.forward) {
                    forward.waiting = true;
                    self.pending.extend(out.drain(counted + 1..).rev());
                    out.pop();
                    return Ok(Progress::End);
                }
                self.inside = !matches!(fragment, Fragment::PartitionEnd);
                counted += 1;
                if !left.spend(fragment) {
                    // One element may yield more fragments than are wanted now.
                    self.pending.extend(out.drain(counted..).rev());
                    return Ok(Progress::Enough);
                }
            }
            if let Some(fragment) = self.pending.pop() {
                out.push(fragment);
                continue;
            }
            let step = match self.state {
                State::Start | State::Backwards(_) | State::NextEntry => {
                    return Ok(Progress::Advance);
                }
                State::Done => return Ok(Progress::End),
                State::BetweenPartitions => self.partition_start(out)?,
                State::Rows { bounded } => self.element(bounded, out)?,
            };
            if let Some(need) = step {
                return Ok(Progress::Need(need));
            }
        }
    }

    /// Reads the head of a partition. Answers how many bytes it lacks.
    fn partition_start(&mut self, out: &mut Vec<Fragment>) -> Result<Option<usize>, ReadError> {
        if self.window.remaining() == 0 {
            self.end_of_scan()?;
            return Ok(None);
        }
        let rest = self.window.rest();
        let head = match PartitionHead::parse(rest, self.table.descriptor().version.deletion_form())
        {
            Ok(head) => head,
            Err(_) if !self.window.is_loaded() && rest.len() < PARTITION_HEAD_BYTES_MAX => {
                return Ok(Some(2 * rest.len() + 1));
            }
            Err(error) => return Err(self.damaged_here(error)),
        };
        let key = DecoratedKey::new(Bytes::copy_from(head.key));
        let (tombstone, bytes) = (head.tombstone, head.bytes);
        if self.last.as_ref() >= Some(&key) {
            return Err(self.damaged_here(Damaged::new("partitions out of order", 0)));
        }
        if let Scope::Key(lookup) = &self.scope
            && lookup.key != key
        {
            let what = "the index leads to another partition";
            return Err(self.damaged_here(Damaged::new(what, 0)));
        }
        self.window.consume(bytes);
        self.last = Some(key.clone());
        self.elements.start_partition();
        self.skipping = false;
        self.state = State::Rows { bounded: false };
        out.push(Fragment::PartitionStart { key, tombstone });
        Ok(None)
    }

    /// Reads an element. Answers how many bytes it lacks.
    fn element(
        &mut self,
        bounded: bool,
        out: &mut Vec<Fragment>,
    ) -> Result<Option<usize>, ReadError> {
        match self.elements.next(&mut self.window, bounded, self.skipping, out)? {
            Step::Need(bytes) => return Ok(Some(bytes)),
            Step::Taken => {}
            Step::PartitionEnd | Step::Limit => {
                if !self.skipping {
                    self.elements.finish(out);
                    out.push(Fragment::PartitionEnd);
                }
                self.state = self.after_partition();
            }
            Step::Beyond => {
                out.push(Fragment::PartitionEnd);
                self.skip_rest();
            }
        }
        Ok(None)
    }

    /// The data that was to be read is read. Where it was cut between two partitions, that is
    /// damage.
    fn end_of_scan(&mut self) -> Result<(), ReadError> {
        let last = self.table.last_key();
        let wanted = match &self.scope {
            Scope::Key(_) => false,
            Scope::Range { end, .. } => is_before(last.token, &last.key, end),
        };
        if wanted && self.scans() && self.last.as_ref() != Some(last) {
            let what = Damaged::new("the data ends before its last partition", 0);
            return Err(self.damaged_here(what));
        }
        self.state = State::Done;
        Ok(())
    }

    /// What follows a partition that was read to its end.
    fn after_partition(&self) -> State {
        match (&self.scope, &self.entries) {
            (Scope::Key(_), _) => State::Done,
            (Scope::Range { .. }, Some(_)) => State::NextEntry,
            (Scope::Range { .. }, None) => State::BetweenPartitions,
        }
    }

    /// Nothing more of the present partition is wanted.
    fn skip_rest(&mut self) {
        match self.state {
            State::Rows { .. } if self.scans() => self.skipping = true,
            State::Rows { .. } | State::Backwards(_) => self.state = self.after_partition(),
            _ => {}
        }
    }

    /// Whether partitions are read one after the other from the data.
    fn scans(&self) -> bool {
        matches!(self.scope, Scope::Range { .. }) && self.entries.is_none()
    }

    /// Reads what `drain` cannot go on without.
    async fn advance(&mut self) -> Result<(), ReadError> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Start => self.start().await,
            State::NextEntry => self.next_entry().await,
            State::Backwards(blocks) => self.block_backwards(blocks).await,
            other => {
                self.state = other;
                Ok(())
            }
        }
    }

    async fn start(&mut self) -> Result<(), ReadError> {
        let table = self.table.clone();
        match self.scope.clone() {
            Scope::Key(lookup) => {
                if table.may_contain(&lookup)
                    && let Some(located) = table.index.find(&lookup, &self.access).await?
                {
                    return self.open_partition(located).await;
                }
                Ok(())
            }
            Scope::Range { start, end } => {
                if self.slice.reversed {
                    self.entries = Some(table.index.entries(&start, &self.access));
                    return self.next_entry().await;
                }
                let first = table.index.lower_bound(&start, &self.access).await?;
                let last = table.index.lower_bound(&end, &self.access).await?;
                let holds = !is_before(table.last_key().token, &table.last_key().key, &start);
                if holds && first <= last {
                    self.window.reset(first, last);
                    self.state = State::BetweenPartitions;
                }
                Ok(())
            }
        }
    }

    /// Opens the partition at the index cursor, if it is in scope.
    async fn next_entry(&mut self) -> Result<(), ReadError> {
        let Some(entries) = &mut self.entries else { return Ok(()) };
        let Some(located) = entries.next().await? else { return Ok(()) };
        if let (Scope::Range { end, .. }, Some(key)) = (&self.scope, &located.key)
            && !is_before(key.token, &key.key, end)
        {
            return Ok(());
        }
        self.open_partition(located).await
    }

    async fn open_partition(&mut self, located: Located) -> Result<(), ReadError> {
        let data_bytes = self.table.data_bytes();
        let data_end = located.end.unwrap_or(data_bytes);
        if data_end <= located.position || data_bytes < data_end {
            let what = Damaged::new("positions of partitions out of order", located.position);
            return Err(self.damaged(Component::Index, what));
        }
        let is_full = self.slice.ranges == [ClusteringRange::full()];
        if let (Some(RowIndex::Promoted(at)), Some(key)) = (located.rows, located.key)
            && (!is_full || self.slice.reversed)
            && let PartitionIndex::Big(index) = &self.table.index
        {
            let mut bytes = Vec::new();
            index.file().read(&self.access, at.start..at.start + at.len, &mut bytes).await?;
            let promoted = PromotedIndex::parse(bytes, at.form);
            let promoted = promoted.map_err(|error| self.damaged(Component::Index, error))?;
            return self.open_blocks(key, located.position, data_end, promoted).await;
        }
        self.window.reset(located.position, data_end);
        if located.end.is_none() {
            self.window.set_step(UNKNOWN_STEP_BYTES);
        }
        self.state = State::BetweenPartitions;
        if self.slice.reversed {
            return self.whole_backwards().await;
        }
        Ok(())
    }

    /// Opens a partition that has a promoted index: only the blocks that the slice needs.
    async fn open_blocks(
        &mut self,
        key: DecoratedKey,
        position: u64,
        data_end: u64,
        promoted: PromotedIndex,
    ) -> Result<(), ReadError> {
        let range = self.block_range(&promoted);
        let (lower, upper) = range.map_err(|error| self.damaged(Component::Index, error))?;
        let block_start = |index: usize| -> Result<u64, ReadError> {
            let block = promoted.block(index, &self.mapping.shape.clustering);
            let block = block.map_err(|error| self.damaged(Component::Index, error))?;
            let start = position.checked_add(block.offset).filter(|start| *start <= data_end);
            let wrong = Damaged::new("block past the end of its partition", block.offset);
            start.ok_or_else(|| self.damaged(Component::Index, wrong))
        };
        let bounded = upper < promoted.count();
        let end = if bounded { block_start(upper)? } else { data_end };
        if lower == 0 && !self.slice.reversed {
            self.window.reset(position, end);
            self.state = State::BetweenPartitions;
            if bounded {
                self.head_of_bounded().await?;
            }
            return Ok(());
        }
        let start = if lower < upper { block_start(lower)? } else { end };
        let header_end = position.saturating_add(promoted.header_bytes);
        if header_end <= position || data_end < header_end {
            let wrong =
                Damaged::new("impossible header of a promoted index", promoted.header_bytes);
            return Err(self.damaged(Component::Index, wrong));
        }
        self.header(key, position, header_end, promoted.tombstone).await?;
        if self.slice.reversed {
            let blocks = Blocks { position, data_end, promoted, lower, next: upper, at_top: true };
            self.state = State::Backwards(blocks);
            return Ok(());
        }
        if start > end {
            let wrong = Damaged::new("blocks of a promoted index out of order", start);
            return Err(self.damaged(Component::Index, wrong));
        }
        if 0 < lower {
            let before = promoted.block(lower - 1, &self.mapping.shape.clustering);
            let before = before.map_err(|error| self.damaged(Component::Index, error))?;
            self.elements.resume((&before.last.0, before.last.1), before.open);
        }
        self.window.reset(start, end);
        self.state = State::Rows { bounded: bounded || start == end };
        Ok(())
    }

    /// Which blocks the slice needs: from the first to before the second.
    fn block_range(&self, promoted: &PromotedIndex) -> Result<(usize, usize), Damaged> {
        let (Some(first), Some(last)) = (self.slice.ranges.first(), self.slice.ranges.last())
        else {
            return Ok((0, 0));
        };
        let fixed = &self.mapping.shape.clustering;
        let order = &self.mapping.schema.order;
        let start = (&*first.start.prefix, first.start.weight);
        let end = (&*last.end.prefix, last.end.weight);
        let upper = promoted.blocks_before(order, fixed, end, false)?;
        let mut lower =
            promoted.blocks_before(order, fixed, start, true)?.saturating_sub(1).min(upper);
        if lower < upper {
            let block = promoted.block(lower, fixed)?;
            let ends_before = order.compare((&block.last.0, block.last.1), start);
            if ends_before == Ordering::Less {
                lower += 1;
            }
        }
        Ok((lower, upper))
    }

    /// Yields the start of the partition, and its static row if wanted, from a stretch that ends
    /// with its header.
    async fn header(
        &mut self,
        key: DecoratedKey,
        position: u64,
        header_end: u64,
        tombstone: Tombstone,
    ) -> Result<(), ReadError> {
        let wants_static = self.slice.with_static && !self.mapping.shape.statics.list.is_empty();
        self.elements.start_partition();
        self.skipping = false;
        if self.last.as_ref() >= Some(&key) {
            let wrong = Damaged::new("partitions out of order", position);
            return Err(self.damaged(Component::Index, wrong));
        }
        if !wants_static {
            self.last = Some(key.clone());
            self.pending.push(Fragment::PartitionStart { key, tombstone });
            return Ok(());
        }
        self.window.reset(position, header_end);
        self.window.load((header_end - position) as usize).await?;
        let mut out = Vec::new();
        let lacks = "the header of a partition is longer than the index says";
        if self.partition_start(&mut out)?.is_some() {
            return Err(self.damaged_here(Damaged::new(lacks, 0)));
        }
        while 0 < self.window.remaining() {
            match self.elements.next(&mut self.window, true, false, &mut out)? {
                Step::Taken => {}
                _ => return Err(self.damaged_here(Damaged::new(lacks, 0))),
            }
        }
        out.reverse();
        self.pending = out;
        Ok(())
    }

    /// Reads the head of the partition that the window starts with, and stops before its end.
    async fn head_of_bounded(&mut self) -> Result<(), ReadError> {
        let mut out = Vec::new();
        while let Some(need) = self.partition_start(&mut out)? {
            self.window.load(need).await?;
        }
        self.pending = out;
        self.state = State::Rows { bounded: true };
        Ok(())
    }

    /// A partition without promoted index, backwards: all of its rows at once.
    async fn whole_backwards(&mut self) -> Result<(), ReadError> {
        let mut start = Vec::new();
        while let Some(need) = self.partition_start(&mut start)? {
            self.window.load(need).await?;
        }
        let mut rows = Vec::new();
        self.collect(false, true, &mut rows).await?;
        let statics = rows.iter().take_while(|f| matches!(f, Fragment::StaticRow { .. })).count();
        start.extend(rows.drain(..statics));
        reverse_changes(Tombstone::NONE, &mut rows);
        let mut pending = vec![Fragment::PartitionEnd];
        pending.append(&mut rows);
        start.reverse();
        pending.append(&mut start);
        self.pending = pending;
        self.state = self.after_partition();
        Ok(())
    }

    /// The next block of a partition that is read backwards.
    async fn block_backwards(&mut self, mut blocks: Blocks) -> Result<(), ReadError> {
        if blocks.next <= blocks.lower {
            if std::mem::take(&mut blocks.at_top) {
                self.gap_backwards(&blocks)?;
                self.state = State::Backwards(blocks);
            } else {
                self.pending.push(Fragment::PartitionEnd);
                self.state = self.after_partition();
            }
            return Ok(());
        }
        let index = blocks.next - 1;
        let fixed = &self.mapping.shape.clustering;
        let parse = |index: usize| {
            let block = blocks.promoted.block(index, fixed);
            block.map_err(|error| self.damaged(Component::Index, error))
        };
        let block = parse(index)?;
        let before = if 0 < index { Some(parse(index - 1)?) } else { None };
        let start = blocks.position.saturating_add(block.offset);
        let end = match index + 1 < blocks.promoted.count() {
            true => blocks.position.saturating_add(parse(index + 1)?.offset),
            false => blocks.data_end.min(start.saturating_add(block.width)),
        };
        if end < start || blocks.data_end < end {
            let wrong = Damaged::new("block past the end of its partition", block.offset);
            return Err(self.damaged(Component::Index, wrong));
        }
        self.elements.start_partition();
        if let Some(before) = before {
            self.elements.resume((&before.last.0, before.last.1), before.open);
        }
        let held = self.elements.emitted();
        self.window.reset(start, end);
        self.window.set_step(end - start);
        let mut rows = Vec::new();
        self.collect(true, blocks.at_top, &mut rows).await?;
        // The static row was yielded with the start of the partition.
        rows.retain(|fragment| !matches!(fragment, Fragment::StaticRow { .. }));
        reverse_changes(held, &mut rows);
        self.pending = rows;
        blocks.next = index;
        blocks.at_top = false;
        self.state = State::Backwards(blocks);
        Ok(())
    }

    /// The slice lies between two blocks: at most a range tombstone holds there.
    fn gap_backwards(&mut self, blocks: &Blocks) -> Result<(), ReadError> {
        self.elements.start_partition();
        if 0 < blocks.lower {
            let before = blocks.promoted.block(blocks.lower - 1, &self.mapping.shape.clustering);
            let before = before.map_err(|error| self.damaged(Component::Index, error))?;
            self.elements.resume((&before.last.0, before.last.1), before.open);
        }
        let held = self.elements.emitted();
        let mut rows = Vec::new();
        self.elements.finish(&mut rows);
        reverse_changes(held, &mut rows);
        self.pending = rows;
        Ok(())
    }

    /// Reads elements to the end of the window or of the partition, or to where the slice ends.
    async fn collect(
        &mut self,
        bounded: bool,
        to_the_end: bool,
        rows: &mut Vec<Fragment>,
    ) -> Result<(), ReadError> {
        loop {
            match self.elements.next(&mut self.window, bounded, false, rows)? {
                Step::Need(bytes) => self.window.load(bytes).await?,
                Step::Taken => {}
                Step::PartitionEnd | Step::Limit => break,
                Step::Beyond => return Ok(()),
            }
        }
        if to_the_end {
            self.elements.finish(rows);
        }
        Ok(())
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

/// Turns changes of a forward stream, in which `held` holds at first, into what a backward stream
/// changes to: what held before.
fn reverse_changes(mut held: Tombstone, rows: &mut [Fragment]) {
    for fragment in rows {
        if let Fragment::RangeTombstoneChange { tombstone, .. } = fragment {
            std::mem::swap(tombstone, &mut held);
        }
    }
}

impl Source for TableSource {
    fn try_fill(
        &mut self,
        budget: Budget,
        out: &mut Vec<Fragment>,
    ) -> Option<Result<(), ReadError>> {
        if self.waits_to_be_forwarded() {
            let asked = self.forward.as_ref().is_some_and(|forward| forward.rows.is_some());
            return if asked { None } else { Some(Ok(())) };
        }
        let start = out.len();
        match self.drain(budget, out) {
            Ok(Progress::Enough | Progress::End) => Some(Ok(())),
            Ok(Progress::Need(_) | Progress::Advance) if start < out.len() => Some(Ok(())),
            Ok(Progress::Need(_) | Progress::Advance) => None,
            Err(error) => {
                self.state = State::Done;
                Some(Err(error))
            }
        }
    }

    fn fill<'a>(
        &'a mut self,
        budget: Budget,
        out: &'a mut Vec<Fragment>,
    ) -> LocalFuture<'a, Result<(), ReadError>> {
        Box::pin(async move {
            if self.waits_to_be_forwarded() {
                return self.fill_forwarded(budget, out).await;
            }
            let start = out.len();
            loop {
                let step = match self.drain(budget, out) {
                    Ok(Progress::Enough | Progress::End) => return Ok(()),
                    Ok(_) if start < out.len() => return Ok(()),
                    Ok(Progress::Need(bytes)) => self.window.load(bytes).await,
                    Ok(Progress::Advance) => self.advance().await,
                    Err(error) => Err(error),
                };
                if let Err(error) = step {
                    self.pending.clear();
                    self.state = State::Done;
                    return Err(error);
                }
            }
        })
    }

    fn next_partition(&mut self) {
        let waited = match &mut self.forward {
            Some(forward) => {
                forward.rows = None;
                std::mem::take(&mut forward.waiting)
            }
            None => false,
        };
        if std::mem::take(&mut self.inside) && !waited {
            self.pending.clear();
            self.skip_rest();
        }
    }

    fn forward_partitions(&mut self, start: &RingBound, end: &RingBound) {
        self.next_partition();
        self.pending.clear();
        self.entries = None;
        self.skipping = false;
        self.scope = Scope::Range { start: start.clone(), end: end.clone() };
        self.state = State::Start;
    }

    fn forward_rows(&mut self, range: ClusteringRange) {
        let (Some(forward), Some(key), true) = (&mut self.forward, &self.last, self.inside) else {
            return;
        };
        let order = &self.mapping.schema.order;
        let ranges = forward.ranges.iter().filter_map(|own| own.intersect(order, &range)).collect();
        let slice = Slice { ranges, with_static: false, forwarding: false, ..self.slice };
        let scope = Scope::Key(Lookup::new(key.key.clone()));
        let rows = TableSource::new(self.table.clone(), scope, slice, self.access.clone());
        forward.rows = Some(Box::new(rows));
        if !std::mem::replace(&mut forward.waiting, true) {
            self.pending.clear();
            self.skip_rest();
        }
    }

    fn memory_bytes(&self) -> usize {
        self.window.memory_bytes()
    }
}
