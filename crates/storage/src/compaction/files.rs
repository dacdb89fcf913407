//! SSTables as strategies see them.

use super::policy::File;
use crate::table::Tablet;
use std::rc::Rc;

/// The SSTables that lie in this tablet with all they hold.
pub(super) fn own_sstables(tablet: &Tablet) -> Vec<Rc<sstable::Table>> {
    let all = tablet.sstables.borrow();
    all.iter().filter(|one| tablet.holds_all_of(one)).cloned().collect()
}

/// The SSTables of this tablet that lie in others as well.
pub(super) fn shared_sstables(tablet: &Tablet) -> Vec<Rc<sstable::Table>> {
    let all = tablet.sstables.borrow();
    all.iter().filter(|one| !tablet.holds_all_of(one)).cloned().collect()
}

/// What a strategy is told of an SSTable.
pub(super) fn file_of(one: &sstable::Table, now_micros: i64) -> File {
    let made_at = one.descriptor().generation.made_at_micros();
    File {
        bytes: one.data_bytes(),
        tokens: (one.first_key().token, one.last_key().token),
        level: one.stats().level,
        run: one.scylla().run_id,
        timestamps: one.timestamps(),
        age: made_at.map_or(i64::MAX, |made_at| (now_micros - made_at) / 1_000_000),
        droppable: 0.0,
        expired: false,
        busy: false,
        merged: 0.0,
    }
}
