//! The fragments of a source one by one, in the order of its stream.
//!
//! Invariants
//!  - *bounded*: at most a batch of fragments is held, and no more than was asked for.

use model::DecoratedKey;
use mutation::Fragment;
use reader::semaphore::{Permit, Units};
use reader::{Budget, Source};
use std::collections::VecDeque;

/// What a fill that has to wait is charged for while it does.
const IO_BYTES: usize = 16 << 10;

/// The fragments of a source one by one, its buffers charged to the permit.
pub(crate) struct Cursor<'p> {
    source: Box<dyn Source>,
    permit: Option<&'p Permit>,
    units: Option<Units>,
    ready: VecDeque<Fragment>,
    batch: Vec<Fragment>,
}

impl<'p> Cursor<'p> {
    pub(crate) fn new(source: Box<dyn Source>, permit: Option<&'p Permit>) -> Cursor<'p> {
        let units = permit.map(Permit::no_units);
        Cursor { source, permit, units, ready: VecDeque::new(), batch: Vec::new() }
    }

    /// The next fragment, and with it at most `ahead` more; `None`: the source is at its end.
    pub(crate) async fn next(
        &mut self,
        ahead: usize,
    ) -> Result<Option<Fragment>, reader::ReadError> {
        if self.ready.is_empty() {
            debug_assert!(self.batch.is_empty(), "bounded: a batch was not taken");
            let fragments_max = Budget::BATCH.fragments_max.min(ahead.saturating_add(1));
            let budget = Budget { fragments_max, ..Budget::BATCH };
            match (self.source.try_fill(budget, &mut self.batch), self.permit) {
                (Some(filled), _) => filled?,
                (None, None) => self.source.fill(budget, &mut self.batch).await?,
                (None, Some(permit)) => {
                    let io = permit.request_memory(IO_BYTES).await?;
                    permit.awaiting(self.source.fill(budget, &mut self.batch)).await?;
                    drop(io);
                    permit.check()?;
                }
            }
            if let Some(units) = &mut self.units {
                units.set(self.source.memory_bytes())?;
            }
            self.ready.extend(self.batch.drain(..));
            runtime::task::yield_if_needed().await;
        }
        Ok(self.ready.pop_front())
    }

    /// Gives back what was taken last.
    pub(crate) fn put_back(&mut self, fragment: Fragment) {
        let held = self.ready.len();
        debug_assert!(held <= Budget::BATCH.fragments_max, "bounded: {held} fragments");
        self.ready.push_front(fragment);
    }

    /// The key of the next partition, whose rest is skipped. Nothing else is read from it.
    pub(crate) async fn next_key(&mut self) -> Result<Option<DecoratedKey>, reader::ReadError> {
        while let Some(fragment) = self.next(0).await? {
            if let Fragment::PartitionStart { key, .. } = fragment {
                self.source.next_partition();
                return Ok(Some(key));
            }
        }
        Ok(None)
    }
}
