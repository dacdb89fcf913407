//! Reading partitions of an SSTable as a stream of fragments.

use crate::index::reader::Lookup;
use crate::table::Table;
use mutation::Fragment;
use mutation::page::RingBound;
use reader::{Budget, LocalFuture, ReadError, Slice, Source};
use runtime::io::IoClass;
use std::rc::Rc;

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

/// A source of the fragments of one SSTable.
#[derive(Debug)]
pub struct TableSource {
    table: Rc<Table>,
    scope: Scope,
    slice: Slice,
    class: IoClass,
}

impl TableSource {
    pub(crate) fn new(table: Rc<Table>, scope: Scope, slice: Slice, class: IoClass) -> TableSource {
        TableSource { table, scope, slice, class }
    }
}

impl Source for TableSource {
    fn try_fill(
        &mut self,
        budget: Budget,
        out: &mut Vec<Fragment>,
    ) -> Option<Result<(), ReadError>> {
        let _ = (budget, out, &self.table, &self.scope, &self.slice, self.class);
        todo!()
    }
    fn fill<'a>(
        &'a mut self,
        budget: Budget,
        out: &'a mut Vec<Fragment>,
    ) -> LocalFuture<'a, Result<(), ReadError>> {
        let _ = (budget, out);
        todo!()
    }
    fn next_partition(&mut self) {
        todo!()
    }
}
