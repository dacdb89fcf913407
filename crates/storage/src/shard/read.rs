//! Answering reads from memtables, the row cache and SSTables.
//!
//! What one memtable, one object of the cache, the two of them, or a few runs of the cache answer
//! is answered at once, without a permit and without fragments of the cache. All else is a merge of
//! a [`View`].
//!
//! Invariants
//!  - *in-table-order*: the clustering ranges of a command ascend and do not overlap.
//!  - *in-tablets*: of each tablet that part is read which lies in it.

use super::hot_partitions::Touch;
use super::view::View;
use super::{Shard, cached_page};
use crate::cache::TabletCache;
use crate::memtable::Partition;
use crate::table::{Broken, Table, Tablet, Through};
use model::{DecoratedKey, TableId, TableSchema, Token};
use mutation::page::{Opened, Page, Partitions, ReadCommand, Resume};
use mutation::{ClusteringRange, Fragment, RingBound};
use reader::semaphore::{Limits, Permit, ReadSemaphore, Reading};
use reader::{Budget, ChainSource, LocalFuture, PartitionScope, ReadError, Slice, Source};
use runtime::io::IoClass;
use runtime::time::Instant;
use sstable::{Access, IndexCache, Lookup};
use std::ops::ControlFlow;
use std::rc::Rc;
use stdx::Bytes;

/// How a source of [`crate::Storage::open_source`] reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceOptions {
    /// Neither asks the shard's caches nor leaves anything in them.
    pub bypass_cache: bool,
    /// What its disk requests count as.
    pub class: IoClass,
}

impl SourceOptions {
    /// As the reads of clients.
    pub const QUERY: SourceOptions = SourceOptions { bypass_cache: false, class: IoClass::Query };

    /// What a read with these options carries.
    fn access(self, cache: &Rc<IndexCache>) -> Access {
        match self.bypass_cache {
            true => Access::bypass(self.class),
            false => Access::new(self.class, cache),
        }
    }
}

/// What is known already of a read that has to wait.
#[derive(Debug, Default)]
pub struct Begun {
    /// The partition that it names.
    lookup: Option<Lookup>,
}

impl Shard {
    /// A table that can be read.
    pub(crate) fn readable(&self, id: TableId) -> Result<Rc<Table>, ReadError> {
        let Some(table) = self.table(id) else {
            return Err(ReadError::Overloaded(format!("no table {id} on this shard")));
        };
        if let Some(Broken { file, what, at, .. }) = table.broken.borrow().first() {
            return Err(ReadError::Damaged { file: file.clone(), what: what.clone(), at: *at });
        }
        Ok(table)
    }

    /// See [`crate::Storage::open_source`].
    pub(crate) fn open_source(
        &self,
        id: TableId,
        scope: PartitionScope,
        slice: Slice,
        options: SourceOptions,
    ) -> Result<Box<dyn Source>, ReadError> {
        let table = self.readable(id)?;
        if let PartitionScope::Key(key) = &scope
            && table.elsewhere(key.token).is_some()
        {
            return Err(ReadError::Moved);
        }
        let access = options.access(&self.index_cache);
        let through = Through::of(options.bypass_cache);
        let source = open(&table, &scope, &slice, (&access, through));
        Ok(Box::new(Reopened { table, slice, access, through, source }))
    }

    /// See [`crate::Storage::read_at_once`].
    pub(crate) fn read_at_once(
        &self,
        command: &ReadCommand,
    ) -> ControlFlow<Result<Page, ReadError>, Begun> {
        let Partitions::Key(key) = &command.partitions else {
            return ControlFlow::Continue(Begun::default());
        };
        let table = match self.readable(command.table) {
            Ok(table) => table,
            Err(error) => return ControlFlow::Break(Err(error)),
        };
        if command.resume.as_ref().is_some_and(|resume| resume.after.is_none()) {
            return ControlFlow::Break(Ok(Page::default()));
        }
        let schema = table.schema();
        debug_assert!(
            command.ranges.is_sorted_by(|a, b| {
                let (end, start) = ((&a.end.0[..], a.end.1), (&b.start.0[..], b.start.1));
                schema.order.compare(end, start).is_le()
            }),
            "in-table-order: {:?}",
            command.ranges
        );
        let lookup = Lookup::new(Bytes::copy_from(key));
        let parts = table.parts();
        let Some(tablet) = parts.tablet_of(lookup.key.token) else {
            return match table.elsewhere(lookup.key.token) {
                Some(_) => ControlFlow::Continue(Begun { lookup: Some(lookup) }),
                None => ControlFlow::Break(Ok(Page::default())),
            };
        };
        self.sampler.note(Touch::Read, table.id, lookup.key.token, key);
        tablet.count_request();
        let one = One { table: &table, tablet, schema: &schema, lookup, command };
        match one.read_at_once() {
            Some(read) => {
                self.reads.of(&schema).pass();
                ControlFlow::Break(read)
            }
            None => ControlFlow::Continue(Begun { lookup: Some(one.lookup) }),
        }
    }

    /// See [`crate::Storage::read_in_turn`].
    pub(crate) async fn read_in_turn(
        &self,
        command: &ReadCommand,
        begun: Begun,
    ) -> Result<Page, ReadError> {
        let table = self.readable(command.table)?;
        debug_assert!(!table.dropped.get(), "a table that was dropped is known");
        let schema = table.schema();
        if let Some(owner) = self.read_elsewhere(&table, command)? {
            return Box::pin(self.read_there(owner, command)).await;
        }
        let permit = self.admit(self.reads.of(&schema), &schema, command).await?;
        // It may have gone while the read waited.
        if let Some(owner) = self.read_elsewhere(&table, command)? {
            drop(permit);
            return Box::pin(self.read_there(owner, command)).await;
        }
        let page = match &command.partitions {
            Partitions::Key(key) => {
                let lookup = begun.lookup.filter(|lookup| *lookup.key.key == **key);
                let lookup = lookup.unwrap_or_else(|| Lookup::new(Bytes::copy_from(key)));
                let Some(tablet) = table.tablet_of(lookup.key.token) else {
                    return Ok(Page::default());
                };
                let one = One { table: &table, tablet: &tablet, schema: &schema, lookup, command };
                one.read(access_of(self, command), &permit).await
            }
            Partitions::Range { start, end } => {
                let mut source = open_range(self, &table, &schema, (start, end), command);
                reader::read_page_admitted(&mut *source, &schema, command, &permit).await
            }
        };
        counted(page, &permit)
    }

    /// A page of what is here, or on the shard that it has gone to.
    pub(crate) async fn read_wherever(&self, command: &ReadCommand) -> Result<Page, ReadError> {
        match self.read_at_once(command) {
            ControlFlow::Break(read) => read,
            ControlFlow::Continue(begun) => self.read_in_turn(command, begun).await,
        }
    }

    async fn admit(
        &self,
        semaphore: &Rc<ReadSemaphore>,
        schema: &Rc<TableSchema>,
        command: &ReadCommand,
    ) -> Result<Permit, ReadError> {
        if self.refuses() {
            return Err(ReadError::Overloaded("memory that a simulation refuses".to_string()));
        }
        let reading = Reading { schema: schema.clone(), operation: "data-query" };
        semaphore.admit(&reading, Some(self.read_deadline(command))).await
    }

    /// When a read that begins now has to end.
    fn read_deadline(&self, command: &ReadCommand) -> Instant {
        Instant::now()
            + match command.partitions {
                Partitions::Key(_) => self.read_timeouts.get().0,
                Partitions::Range { .. } => self.read_timeouts.get().1,
            }
    }
}

fn counted(page: Result<Page, ReadError>, permit: &Permit) -> Result<Page, ReadError> {
    if page.is_err() {
        permit.fail();
    }
    page
}

/// A read of one partition.
pub(crate) struct One<'r> {
    pub(crate) table: &'r Table,
    pub(crate) tablet: &'r Tablet,
    pub(crate) schema: &'r Rc<TableSchema>,
    pub(crate) lookup: Lookup,
    pub(crate) command: &'r ReadCommand,
}

impl One<'_> {
    fn through(&self) -> Through {
        Through::of(self.command.bypass_cache)
    }

    /// Answers from memory where one place has all there is. The cache comes before the filters of
    /// SSTables: of what it knows nobody has to ask them.
    pub(crate) fn read_at_once(&self) -> Option<Result<Page, ReadError>> {
        let Tablet { sealed, sstables, .. } = self.tablet;
        let one_memtable = sealed.borrow().is_empty() && sstables.borrow().is_empty();
        debug_assert!(
            self.table
                .tablet_of(self.lookup.key.token)
                .is_some_and(|own| { std::ptr::eq(&*own, self.tablet) }),
            "tablets-in-order: {:?} is of another tablet",
            self.lookup.key
        );
        let cache = self.table.cache_of(self.tablet, self.through()).filter(|_| !one_memtable);
        if let Some(cache) = cache {
            let mut held = self.tablet.in_memory(&self.lookup.key);
            let more = held.next();
            if held.next().is_none()
                && let Some(page) = self.read_whole(cache, more.as_deref())
            {
                return Some(Ok(page));
            }
            if more.is_none()
                && let Some(page) = self.read_runs(cache)
            {
                return Some(Ok(page));
            }
        }
        (self.is_in_memtable_alone() && !self.takes_long()).then(|| self.read_memtable())
    }

    /// Answers from one object of the cache, and what a memtable has besides; `None`: the cache has
    /// no such object, or the memtable more than a few rows.
    fn read_whole(&self, cache: &TabletCache, more: Option<&Partition>) -> Option<Page> {
        let One { schema, lookup, command, .. } = self;
        let key = &lookup.key;
        let more = match more {
            Some(partition) => Some(partition.plain()?),
            None => None,
        };
        cache.with_whole(key, |whole| {
            cache.cache().count_rows(whole.run.row_count(), 0);
            match more {
                None => cached_page::page_of(&whole, &key.key, schema, command),
                Some(more) => cached_page::page_of_both(&whole, more, &key.key, schema, command),
            }
        })
    }

    /// Answers from a few runs of the cache, of a partition that no memtable has.
    fn read_runs(&self, cache: &TabletCache) -> Option<Page> {
        let One { schema, lookup, command, .. } = self;
        let key = &lookup.key;
        cache.with_runs(key, |runs| cached_page::page_of_runs(runs, &key.key, schema, command))
    }

    /// Whether all there is of the partition is in the memtable that is written to.
    fn is_in_memtable_alone(&self) -> bool {
        let Tablet { sealed, sstables, .. } = self.tablet;
        sealed.borrow().is_empty()
            && !sstables.borrow().iter().any(|table| table.may_contain(&self.lookup))
    }

    /// Whether the memtable has rows of it that are put together in steps.
    fn takes_long(&self) -> bool {
        self.tablet.active.borrow().has_huge_rows(&self.lookup.key)
    }

    /// Reads the memtable without a merge.
    fn read_memtable(&self) -> Result<Page, ReadError> {
        let memtable = self.tablet.active.borrow().clone();
        debug_assert!(self.tablet.sealed.borrow().is_empty(), "one-view: there are sealed ones");
        Ok(memtable.page(self.schema, &self.lookup.key, self.command))
    }

    /// Merges what there is.
    async fn read(&self, access: Access, permit: &Permit) -> Result<Page, ReadError> {
        let One { schema, lookup, command, .. } = self;
        assert!(self.schema.id == self.table.id, "a read with another table's schema");
        if self.is_in_memtable_alone() && !self.takes_long() {
            return self.read_memtable();
        }
        let cache = self.table.cache_of(self.tablet, self.through());
        debug_assert!(self.table.id == command.table, "a read of another table");
        let view = View::of(self.tablet, schema, access, cache);
        let mut source = view.partition(lookup, Slice::resumed(command, &schema.order));
        let mut page = reader::read_page_admitted(&mut *source, schema, command, permit).await;
        let opened = view.opened();
        permit.count_sstables(opened);
        if let Ok(page) = &mut page {
            page.opened = Opened(opened);
        }
        page
    }
}

/// The semaphores of a shard.
pub(crate) struct Reads {
    pub(crate) user: Rc<ReadSemaphore>,
    pub(crate) system: Rc<ReadSemaphore>,
    pub(crate) streaming: Rc<ReadSemaphore>,
}

impl Reads {
    /// With the limits of a shard that has so much memory, and boots.
    pub(crate) fn new(shard_bytes: usize) -> Reads {
        Reads {
            user: ReadSemaphore::new("user", Limits::user(shard_bytes)),
            system: ReadSemaphore::new("system", Limits::booting(shard_bytes)),
            streaming: ReadSemaphore::new("streaming", Limits::streaming(shard_bytes)),
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> [&Rc<ReadSemaphore>; 3] {
        [&self.user, &self.system, &self.streaming]
    }

    /// The one that reads of a table for an answer take permits of.
    pub(crate) fn of(&self, schema: &TableSchema) -> &Rc<ReadSemaphore> {
        if is_of_system(schema) { &self.system } else { &self.user }
    }
}

/// Whether a table is one of the system's own.
pub(crate) fn is_of_system(schema: &TableSchema) -> bool {
    let rest = schema.keyspace.strip_prefix("system");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
}

/// How the partition that a command names, or stopped in, is read.
fn access_of(shard: &Shard, command: &ReadCommand) -> Access {
    let options = SourceOptions { bypass_cache: command.bypass_cache, ..SourceOptions::QUERY };
    options.access(&shard.index_cache)
}

/// What of a ring range is on this shard, from the command's resume point on.
fn open_range(
    shard: &Shard,
    table: &Table,
    schema: &Rc<TableSchema>,
    (start, end): (&RingBound, &RingBound),
    command: &ReadCommand,
) -> Box<dyn Source> {
    let through = Through::of(command.bypass_cache);
    let mut chain = Vec::new();
    let mut start = start.clone();
    if let Some(Resume { key, after, .. }) = &command.resume {
        let lookup = Lookup::new(Bytes::copy_from(key));
        let tablet = table.tablet_of(lookup.key.token);
        if let Some(tablet) = tablet.filter(|_| after.is_some()) {
            let cache = table.cache_of(&tablet, through);
            let view = View::of(&tablet, schema, access_of(shard, command), cache);
            chain.push(view.partition(&lookup, Slice::resumed(command, &schema.order)));
        }
        start = just_after(&lookup.key);
    }
    // A scan leaves the shard's index cache as it is.
    let access = Access::bypass(IoClass::Query);
    let slice = Slice::of(command);
    chain.extend(between(table, schema, (&start, end), &slice, (&access, through)));
    chained(chain)
}

/// Sources of disjoint parts of the ring as one, opened as their turn comes.
fn chained(mut chain: Vec<Box<dyn Source>>) -> Box<dyn Source> {
    match chain.pop() {
        Some(only) if chain.is_empty() => only,
        last => {
            chain.extend(last);
            Box::new(ChainSource::new(chain))
        }
    }
}

/// The bound just after a partition.
fn just_after(key: &DecoratedKey) -> RingBound {
    RingBound { token: key.token, key: Some(key.key.to_vec()), after: true }
}

/// A source of a whole table, of whatever tablets and SSTables there are when it is forwarded.
struct Reopened {
    table: Rc<Table>,
    slice: Slice,
    access: Access,
    through: Through,
    source: Box<dyn Source>,
}

/// Memtables and SSTables of a table, as one source.
fn open(
    table: &Table,
    scope: &PartitionScope,
    slice: &Slice,
    (access, through): (&Access, Through),
) -> Box<dyn Source> {
    let schema = table.schema();
    match scope {
        PartitionScope::Key(key) => {
            let Some(tablet) = table.tablet_of(key.token) else { return chained(Vec::new()) };
            let cache = table.cache_of(&tablet, through);
            let view = View::of(&tablet, &schema, access.clone(), cache);
            view.partition(&Lookup::new(key.key.clone()), slice.clone())
        }
        PartitionScope::Range { start, end } => {
            chained(between(table, &schema, (start, end), slice, (access, through)))
        }
    }
}

impl Source for Reopened {
    fn try_fill(
        &mut self,
        budget: Budget,
        out: &mut Vec<Fragment>,
    ) -> Option<Result<(), ReadError>> {
        self.source.try_fill(budget, out)
    }

    fn fill<'a>(
        &'a mut self,
        budget: Budget,
        out: &'a mut Vec<Fragment>,
    ) -> LocalFuture<'a, Result<(), ReadError>> {
        self.source.fill(budget, out)
    }

    fn next_partition(&mut self) {
        self.source.next_partition();
    }

    fn forward_partitions(&mut self, start: &RingBound, end: &RingBound) {
        let scope = PartitionScope::Range { start: start.clone(), end: end.clone() };
        self.source = open(&self.table, &scope, &self.slice, (&self.access, self.through));
    }

    fn forward_rows(&mut self, range: ClusteringRange) {
        self.source.forward_rows(range);
    }

    fn memory_bytes(&self) -> usize {
        self.source.memory_bytes()
    }
}

/// What lies between two bounds, a source per tablet of this shard.
fn between(
    table: &Table,
    schema: &Rc<TableSchema>,
    (start, end): (&RingBound, &RingBound),
    slice: &Slice,
    (access, through): (&Access, Through),
) -> Vec<Box<dyn Source>> {
    let parts = table.parts();
    debug_assert!(parts.tablets.is_sorted_by(|a, b| a.range.1 <= b.range.0), "tablets-in-order");
    let mut tablets = Vec::new();
    for tablet in parts.tablets.iter() {
        let Some((start, end)) = clip(tablet, start, end) else { continue };
        let cache = table.cache_of(tablet, through);
        let view = View::of(tablet, schema, access.clone(), cache);
        tablets.extend(view.range((&start, &end), slice));
    }
    tablets
}

/// What of a ring range lies in a tablet, if anything.
fn clip(tablet: &Tablet, start: &RingBound, end: &RingBound) -> Option<(RingBound, RingBound)> {
    let (after, last) = tablet.range;
    let bound = |token, after| RingBound { token, key: None, after };
    let low = match after == Token::MIN || after < start.token {
        true => start.clone(),
        false => bound(after, true),
    };
    let high = if end.token <= last { end.clone() } else { bound(last, true) };
    debug_assert!(start.token <= low.token && high.token <= end.token, "a range is cut");
    debug_assert!(
        (after == Token::MIN || after <= low.token) && high.token <= last,
        "in-tablets: from {low:?} to {high:?} of {:?}",
        tablet.range
    );
    (low.token <= high.token).then_some((low, high))
}
