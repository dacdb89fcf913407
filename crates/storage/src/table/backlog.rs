//! What a tablet has to merge, as it was found when somebody looked last.
//!
//! Invariants
//!  - *unchanged-is-free*: a look at a tablet whose files are as they were is a comparison.

use super::{Table, Tablet};
use model::TableSchema;
use runtime::time::Instant;
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Duration;

/// After so long a tablet is looked at although its files are as they were: windows of time end.
const LOOK_AGE_MAX: Duration = Duration::from_secs(60);
/// What was found when a tablet was looked at last.
#[derive(Default)]
pub(crate) struct Backlog(pub(crate) RefCell<Option<Found>>);

impl Backlog {
    /// Has the next look find everything anew.
    pub(crate) fn forget(&self) {
        self.0.take();
    }

    /// Merges that were asked for then.
    pub(crate) fn pending(&self) -> usize {
        self.0.borrow().as_ref().map_or(0, |found| found.pending)
    }
}

/// What there was.
pub(crate) struct Found {
    /// Its SSTables then. Does not keep them; keeps their place from being another's.
    pub(crate) sstables: Weak<Vec<Rc<sstable::Table>>>,
    pub(crate) schema: Rc<TableSchema>,
    /// Whether somebody merged it.
    pub(crate) is_busy: bool,
    pub(crate) at: Instant,
    /// Bytes that are to be written until there is nothing to merge.
    pub(crate) backlog: f64,
    pub(crate) pending: usize,
}

impl Found {
    /// Whether files and options are as they were.
    pub(crate) fn is_same(&self, table: &Table, tablet: &Tablet) -> bool {
        let same_files = self.sstables.as_ptr() == Rc::as_ptr(&tablet.sstables.borrow());
        debug_assert!(
            !same_files || 0 < self.sstables.strong_count(),
            "unchanged-is-free: another set lies where one that is gone lay"
        );
        same_files && Rc::ptr_eq(&self.schema, &table.schema.borrow())
    }

    /// Whether there is nothing new to find.
    pub(crate) fn is_fresh(&self, table: &Table, tablet: &Tablet, now: Instant) -> bool {
        debug_assert!(self.at <= now, "a look that is still to come");
        debug_assert!(0.0 <= self.backlog, "a backlog of {}", self.backlog);
        let same = self.is_same(table, tablet);
        same && !self.is_busy && !tablet.is_busy() && now < self.at + LOOK_AGE_MAX
    }
}
