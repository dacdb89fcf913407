//! From a source to a page of an answer.
//!
//! Invariants
//!  - *bounded*: a source yields no more fragments than it was asked for.
//!  - *paired*: what is not wanted of a partition ends with its end, or is skipped by the source.

use crate::semaphore::Permit;
use crate::{Budget, ReadError, Source};
use model::TableSchema;
use mutation::page::{Page, ReadCommand};
use mutation::{Fragment, QueryCompactor, RowView, Step};
use runtime::task::yield_if_needed;

/// Reads one page: what `source` (which is sliced as `command` says, from its resume point on)
/// holds, compacted at the command's time, up to its limits. Yields to other tasks between
/// batches. A row from a source that need not wait costs two allocations here.
pub async fn read_page(
    source: &mut dyn Source,
    schema: &TableSchema,
    command: &ReadCommand,
) -> Result<Page, ReadError> {
    let mut reading = Reading::new(schema, command);
    loop {
        match source.try_fill(reading.budget, &mut reading.batch) {
            Some(filled) => filled?,
            None => source.fill(reading.budget, &mut reading.batch).await?,
        }
        if let Demand::Nothing = reading.digest_slowly(source).await {
            return Ok(reading.compactor.finish());
        }
        yield_if_needed().await;
    }
}

/// As [`read_page`], for a read that has a permit, to which the buffers of the source are charged.
/// Ends where the permit says so: at the deadline, or for lack of memory.
pub async fn read_page_admitted(
    source: &mut dyn Source,
    schema: &TableSchema,
    command: &ReadCommand,
    permit: &Permit,
) -> Result<Page, ReadError> {
    let _cpu = permit.need_cpu();
    let mut units = permit.no_units();
    let mut reading = Reading::new(schema, command);
    loop {
        match source.try_fill(reading.budget, &mut reading.batch) {
            Some(filled) => filled?,
            None => {
                let io = permit.request_memory(IO_BYTES).await?;
                permit.awaiting(source.fill(reading.budget, &mut reading.batch)).await?;
                drop(io);
                permit.check()?;
                units.set(source.memory_bytes())?;
            }
        }
        if let Demand::Nothing = reading.digest_slowly(source).await {
            return Ok(reading.compactor.finish());
        }
        yield_if_needed().await;
    }
}

/// What a fill that has to wait is charged for while it does.
const IO_BYTES: usize = 16 << 10;

/// As [`read_page`], for a source that never has to wait; `None` when it has to.
pub fn read_page_now(
    source: &mut dyn Source,
    schema: &TableSchema,
    command: &ReadCommand,
) -> Option<Result<Page, ReadError>> {
    let mut reading = Reading::new(schema, command);
    loop {
        if let Err(error) = source.try_fill(reading.budget, &mut reading.batch)? {
            return Some(Err(error));
        }
        if let Demand::Nothing = reading.digest(source) {
            return Some(Ok(reading.compactor.finish()));
        }
    }
}

/// A page in the making.
struct Reading<'c> {
    compactor: QueryCompactor<'c>,
    budget: Budget,
    batch: Vec<Fragment>,
}

enum Demand {
    More,
    Nothing,
}

/// Rows of more bytes are consumed in steps, where the reader may let others go on.
const ROW_BYTES_AT_ONCE: usize = 64 << 10;
/// Elements of collections of such a row between two looks at the clock.
const ELEMENTS_PER_STEP: usize = 1024;

impl<'c> Reading<'c> {
    fn new(schema: &'c TableSchema, command: &'c ReadCommand) -> Reading<'c> {
        // Few rows wanted: no need to prepare many. Start, static row and end come beside them.
        let rows = usize::try_from(command.row_limit).unwrap_or(usize::MAX);
        let fragments_max = rows.saturating_add(3).min(Budget::BATCH.fragments_max);
        let budget = Budget { fragments_max, ..Budget::BATCH };
        debug_assert!(0 < fragments_max && 0 < budget.bytes_max, "bounded: nothing is asked for");
        let compactor = QueryCompactor::new(schema, command);
        Reading { compactor, budget, batch: Vec::new() }
    }

    /// Consumes a batch; an empty one is the end of the source.
    fn digest(&mut self, source: &mut dyn Source) -> Demand {
        debug_assert!(self.budget.allows(self.batch.len()), "bounded: {}", self.batch.len());
        if self.batch.is_empty() {
            return Demand::Nothing;
        }
        let mut skipping = false;
        for fragment in self.batch.drain(..) {
            if skipping {
                skipping = !matches!(fragment, Fragment::PartitionEnd);
                continue;
            }
            match self.compactor.consume(&fragment) {
                Step::Continue => {}
                Step::NextPartition => skipping = true,
                Step::Stop => return Demand::Nothing,
            }
        }
        if skipping {
            source.next_partition();
        }
        Demand::More
    }

    /// As [`Reading::digest`], but large rows in steps between which others go on.
    async fn digest_slowly(&mut self, source: &mut dyn Source) -> Demand {
        if !self.batch.iter().any(|fragment| large_row(fragment).is_some()) {
            return self.digest(source);
        }
        debug_assert!(self.budget.allows(self.batch.len()), "bounded: {}", self.batch.len());
        // What it does not want of a partition the compactor does not look at.
        let mut last = Step::Continue;
        for fragment in std::mem::take(&mut self.batch) {
            last = match large_row(&fragment) {
                Some((key, row)) => {
                    yield_if_needed().await;
                    self.take_slowly(key, row).await
                }
                None => self.compactor.consume(&fragment),
            };
            if last == Step::Stop {
                return Demand::Nothing;
            }
        }
        if last == Step::NextPartition {
            source.next_partition();
        }
        Demand::More
    }

    async fn take_slowly(&mut self, key: &[u8], row: RowView<'_>) -> Step {
        let compactor = &mut self.compactor;
        let Some(mut steps) = compactor.begin_row(key, row) else {
            return compactor.row(key, row);
        };
        while !compactor.step_row(key, &mut steps, ELEMENTS_PER_STEP) {
            yield_if_needed().await;
        }
        compactor.end_row(key, steps)
    }
}

/// A row that is consumed in steps.
fn large_row(fragment: &Fragment) -> Option<(&[u8], RowView<'_>)> {
    match fragment {
        Fragment::Row { key, row } if ROW_BYTES_AT_ONCE < row.len() => {
            Some((key, RowView::trusted(row)))
        }
        _ => None,
    }
}
