//! The tablets of a table one after the other, each alone, for who does something to their
//! SSTables.
//!
//! Invariants
//!  - *each-once*: what is there when a walk begins is passed by, however the table is divided
//!    meanwhile (`shard::divide`). What was being done to a tablet that was about to leave ended
//!    early: it is done again to what takes its place.

use crate::table::{Table, Tablet};
use model::Token;
use runtime::sync::Permit;
use std::rc::Rc;

/// See the module.
pub(super) struct Walk<'t> {
    table: &'t Table,
    /// Up to here all is done.
    done: Option<Token>,
}

impl<'t> Walk<'t> {
    pub(super) fn new(table: &'t Table) -> Walk<'t> {
        Walk { table, done: None }
    }

    /// The next tablet, when nobody else merges its SSTables.
    pub(super) async fn next(&mut self) -> Option<(Rc<Tablet>, Option<Permit>)> {
        loop {
            let tablet = self.table.tablet_after(self.done)?;
            let alone = tablet.compacting.acquire(1).await.ok();
            assert!(tablet.is_busy(), "one-at-a-time: nobody has tablet {}", tablet.index.get());
            // It left while this waited.
            if !tablet.is_gone() {
                return Some((tablet, alone));
            }
        }
    }

    /// It was done to this tablet, unless that is about to leave (*each-once*).
    pub(super) fn pass(&mut self, tablet: &Tablet) {
        debug_assert!(self.done < Some(tablet.range.1), "each-once: {:?} again", tablet.range);
        if !tablet.is_leaving() {
            self.done = Some(tablet.range.1);
        }
    }
}
