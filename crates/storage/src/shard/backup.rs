//! Incremental backups: SSTables that bring something new, under second names in `backups/` of the
//! directory of their table.
//!
//! As long as they are wanted, what a flush writes and what is taken over from `upload/` is linked
//! there, file by file, when it is sealed and before anybody reads it. What a merge writes is not:
//! it has nothing that its inputs did not have. So a snapshot, and what has come into `backups/`
//! since it was taken, are all that the table was told, whatever was merged meanwhile. The files
//! are for somebody to take away: the node never reads or changes them, and removes none.
//!
//! ```text
//! memtable -> sealed SSTable -> linked, durable -> it joins the set -> log entries are let go
//! ```
//!
//! Invariants
//!  - *whole-or-no-toc*: what has a `TOC.txt` in `backups/` is a whole SSTable
//!    ([`sstable::store::link()`]). Files without one are what a crash or a failing disk left.
//!  - *linked-before-released*: the log lets go of what a flush wrote when its links are durable. A
//!    crash before that leaves the log, from which another SSTable is written, and linked. What was
//!    taken over is in no log: a crash between the move and the links leaves it in the table alone.
//!  - *never-in-the-way*: where links cannot be made, the log of the node names the SSTable, and it
//!    joins the set without them.
//!  - *outlives-the-table*: see `snapshot`.

use super::Shard;
use crate::table::dir::BACKUPS;
use crate::table::{GATE_UNITS, Table};
use sstable::{Component, Descriptor, store};
use std::rc::Rc;

/// Links what a flush has sealed, if that is wanted. The caller has passed the gate of the table.
pub(crate) async fn link_flushed(shard: &Shard, table: &Table, sealed: &[Rc<sstable::Table>]) {
    for one in sealed {
        link(shard, table, one.descriptor(), one.components().suffixes()).await;
    }
}

/// Links a sealed SSTable of the table's directory whose files are `suffixes`, if that is wanted
/// (*never-in-the-way*). The caller has passed the gate of the table.
pub(crate) async fn link<'s>(
    shard: &Shard,
    table: &Table,
    descriptor: Descriptor,
    suffixes: impl IntoIterator<Item = &'s str>,
) {
    debug_assert!(
        !table.tablets().iter().any(|tablet| tablet.has_sstable(descriptor)),
        "linked-before-released: {descriptor:?} is in use already"
    );
    // What a dropped table still writes goes.
    if !shard.incremental_backups.get() || table.dropped.get() {
        return;
    }
    debug_assert!(table.gate.available() < GATE_UNITS, "gate-units: nobody passed");
    if let Err(error) = store::link(&table.dir, BACKUPS, descriptor, suffixes).await {
        let (file, dir) = (descriptor.file_name(Component::Data), table.dir.display());
        tracing::error!("{file} in {dir} is in use without a copy in {BACKUPS}/: {error}");
    }
}
