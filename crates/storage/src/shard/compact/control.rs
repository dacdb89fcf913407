//! The shares of merges follow what there is to merge (*controller*, see `compaction::pace`).

use super::super::Shard;
use super::purge;
use crate::compaction::files::own_sstables;
use crate::compaction::options_of;
use crate::compaction::pace::PaceStats;
use crate::compaction::policy::File;
use crate::table::backlog::Found;
use crate::table::{Table, Tablet};
use runtime::group;
use runtime::io::{IoClass, set_shares};
use runtime::time::{Instant, sleep, wall_micros};
use std::rc::Rc;
use std::time::Duration;

/// Time between two looks at the backlog.
const CONTROL_PERIOD: Duration = Duration::from_millis(250);

impl Shard {
    /// Gives merges the shares that they need (*controller*), for ever.
    pub(crate) async fn control_compaction(&self) {
        let mut set = 0;
        loop {
            let (backlog, pending) = self.look_at_backlog();
            let pacer = &self.compactions.pacer;
            let normalized = backlog / self.config.memory_bytes.max(1) as f64;
            debug_assert!(0.0 <= normalized, "controller: a backlog of {normalized}");
            let fills = self.tables.borrow().values().any(|table| table.filling.get());
            let shares = pacer.pace.get().shares(normalized, fills).max(1);
            if shares != set {
                group::set_shares(group::COMPACTION, shares);
                set_shares(IoClass::Compaction, shares);
                set = shares;
            }
            pacer.stats.set(PaceStats { backlog, normalized, shares, pending });
            sleep(CONTROL_PERIOD).await;
        }
    }

    /// The backlog of all tables that are merged without being asked for, and their merges.
    fn look_at_backlog(&self) -> (f64, usize) {
        let now = Instant::now();
        let (mut backlog, mut pending) = (0.0, 0);
        for table in self.tables.borrow().values() {
            if !table.auto_compaction.get() || table.in_doubt.get() {
                continue;
            }
            for tablet in table.tablets().iter() {
                let mut look = tablet.backlog.0.borrow_mut();
                if look.as_ref().is_none_or(|found| !found.is_fresh(table, tablet, now)) {
                    // While a job goes on it is the same that is asked for.
                    let same = look.take().filter(|found| found.is_same(table, tablet));
                    let pending = same.filter(|_| tablet.is_busy()).map(|found| found.pending);
                    *look = Some(self.look_at(table, tablet, now, pending));
                }
                let found = look.as_ref().map_or((0.0, 0), |found| (found.backlog, found.pending));
                (backlog, pending) = (backlog + found.0, pending + found.1);
            }
        }
        (backlog, pending)
    }

    fn look_at(
        &self,
        table: &Table,
        tablet: &Tablet,
        now: Instant,
        pending: Option<usize>,
    ) -> Found {
        let schema = table.schema();
        let options = options_of(table);
        let mut own = own_sstables(tablet);
        own.retain(|one| !one.is_damaged());
        let wall = wall_micros();
        let mut files = purge::files_of(self, (table, tablet), &own, wall);
        let pending = pending.unwrap_or_else(|| options.pending(&files, wall));
        if tablet.is_busy() {
            self.note_merged(&own, &mut files);
        }
        Found {
            sstables: Rc::downgrade(&tablet.sstables.borrow()),
            schema,
            is_busy: tablet.is_busy(),
            at: now,
            backlog: options.backlog(&files, wall),
            pending,
        }
    }

    /// Says of files how much of them the jobs that run have merged.
    fn note_merged(&self, own: &[Rc<sstable::Table>], files: &mut [File]) {
        assert_eq!(own.len(), files.len(), "a file for each SSTable");
        for (one, file) in own.iter().zip(files) {
            file.merged = self.compactions.merged_of(one.descriptor(), file.tokens);
        }
    }
}
