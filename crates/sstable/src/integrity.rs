//! Reads that trust nothing: the SSTable is compared with its digest, its CRC.db and the checksums
//! of its chunks before the first fragment comes. For scrubs, streams and compactions that ask for
//! it; other reads verify what they decompress.
//!
//! Invariants
//!  - *checked-before*: nothing is yielded of a file whose bytes are not those that were written.
//!
//! The file is read twice. In exchange no damage is found behind fragments that were used.

use crate::cache::Access;
use crate::mx::reader::{Scope, TableSource};
use crate::table::Table;
use mutation::page::RingBound;
use mutation::{ClusteringRange, Fragment};
use reader::{Budget, LocalFuture, ReadError, Slice, Source};
use std::rc::Rc;

/// A [`TableSource`] behind a check of the whole table.
#[derive(Debug)]
pub struct CheckedSource {
    table: Rc<Table>,
    access: Access,
    checked: bool,
    inner: TableSource,
}

impl Table {
    /// As [`Table::read`], after the whole table was verified.
    pub fn read_checked(
        self: &Rc<Self>,
        scope: Scope,
        slice: Slice,
        access: Access,
    ) -> CheckedSource {
        let inner = self.read(scope, slice, access.clone());
        CheckedSource { table: self.clone(), access, checked: false, inner }
    }
}

impl Source for CheckedSource {
    fn try_fill(
        &mut self,
        budget: Budget,
        out: &mut Vec<Fragment>,
    ) -> Option<Result<(), ReadError>> {
        if self.checked { self.inner.try_fill(budget, out) } else { None }
    }

    fn fill<'a>(
        &'a mut self,
        budget: Budget,
        out: &'a mut Vec<Fragment>,
    ) -> LocalFuture<'a, Result<(), ReadError>> {
        Box::pin(async move {
            if !self.checked {
                self.table.verify(self.access.class).await?;
                self.checked = true;
            }
            self.inner.fill(budget, out).await
        })
    }

    fn next_partition(&mut self) {
        self.inner.next_partition();
    }

    fn forward_partitions(&mut self, start: &RingBound, end: &RingBound) {
        self.inner.forward_partitions(start, end);
    }

    fn forward_rows(&mut self, range: ClusteringRange) {
        self.inner.forward_rows(range);
    }

    fn memory_bytes(&self) -> usize {
        self.inner.memory_bytes()
    }
}
