//! What is known of merges, and what is decided: nothing here reads or writes an SSTable. That is
//! for `shard::compact`.
//!
//! From the ground up: [`policy`] (what to merge; pure), [`files`] (what it is told), this (a job,
//! and which is next), [`weights`] (how many at a time), [`disk_space`] (what there is of the
//! disk), [`pace`] (how fast), [`obsolete`] (the end of a merge made durable), [`report`] (what is
//! told), [`progress`] (what runs).
//!
//! Invariants
//!  - *one-at-a-time*: a tablet's SSTables are merged by one job at a time.
//!  - *one-of-a-size*: of the merges that a shard does by itself at the same time no two are of
//!    about one size, and there are few. So a large one does not hold up the small ones, of which
//!    reads have more, and what runs has a bound.

pub(crate) mod disk_space;
pub(crate) mod files;
mod obsolete;
pub(crate) mod pace;
pub(crate) mod policy;
pub(crate) mod progress;
pub(crate) mod report;
pub(crate) mod weights;

pub(crate) use obsolete::Obsolete;
pub(crate) use policy::Windows;
pub(crate) use progress::Compactions;

use crate::table::{Table, Tablet};
use disk_space::Claim;
use model::{TableId, Uuid};
use policy::{Options, Why};
use report::CompactionKind;
use runtime::io::IoClass;
use runtime::sync::Permit;
use std::cmp::Reverse;
use std::rc::Rc;
use weights::{Counted, weight_of};

/// What is to be merged.
pub(crate) struct Job {
    pub(crate) table: Rc<Table>,
    pub(crate) tablet: Rc<Tablet>,
    pub(crate) inputs: Vec<Rc<sstable::Table>>,
    pub(crate) why: Why,
    /// Of the outputs: their level, and from which size on they are cut.
    pub(crate) level: u32,
    pub(crate) bytes_max: u64,
    /// The run that they join; `None`: one of their own.
    pub(crate) run: Option<Uuid>,
    /// How much of the inputs is read, about: 1 is all.
    pub(crate) part: f64,
    /// *fits-first*.
    pub(crate) claim: Option<Claim>,
    /// *one-at-a-time*.
    pub(crate) alone: Option<Permit>,
    /// *one-of-a-size*.
    pub(crate) counted: Option<Counted>,
}

impl Job {
    /// A job that a strategy wants, of these SSTables.
    pub(crate) fn of(
        (table, tablet): (&Rc<Table>, &Rc<Tablet>),
        own: &[Rc<sstable::Table>],
        wanted: &policy::Job,
    ) -> Job {
        Job {
            table: table.clone(),
            tablet: tablet.clone(),
            inputs: inputs_of(own, wanted),
            why: wanted.why,
            level: wanted.level,
            bytes_max: wanted.bytes_max,
            run: None,
            part: 1.0,
            claim: None,
            alone: None,
            counted: None,
        }
    }

    /// What it counts for among those that run; `None`: for nothing.
    pub(crate) fn weight(&self) -> Option<u32> {
        debug_assert!((0.0..=1.0).contains(&self.part), "a part of its inputs: {}", self.part);
        let bytes: u64 = self.inputs.iter().map(|one| one.data_bytes()).sum();
        (self.why != Why::Expired).then(|| weight_of((bytes as f64 * self.part) as u64))
    }

    /// Which job of a shard is next: the greatest. Parts of SSTables of several tablets come first,
    /// the smallest of them before others: until they are written, deletions stay. Where that has
    /// failed the other merges of the tablet have their turn. Of merges that strategies want the
    /// one with the most inputs spares reads most.
    pub(crate) fn urgency(&self) -> (i8, Reverse<u64>, usize, TableId, usize) {
        let (class, bytes) = match self.why {
            Why::Reshard => {
                let class = if self.tablet.reshard_last.get() { -1 } else { 1 };
                (class, self.inputs.iter().map(|one| one.data_bytes()).sum())
            }
            _ => (0, 0),
        };
        (class, Reverse(bytes), self.inputs.len(), self.table.id, self.tablet.index.get())
    }

    /// On whose behalf it asks for the disk.
    pub(crate) fn class(&self) -> IoClass {
        match self.why {
            Why::Major | Why::Upgrade | Why::Cleanup => IoClass::Maintenance,
            _ => IoClass::Compaction,
        }
    }

    pub(crate) fn kind(&self) -> CompactionKind {
        match self.why {
            Why::Major => CompactionKind::Major,
            Why::Upgrade => CompactionKind::Upgrade,
            Why::Reshard => CompactionKind::Reshard,
            Why::Cleanup => CompactionKind::Cleanup,
            _ => CompactionKind::Minor,
        }
    }

    /// Bytes on the disk in parts of bytes of data.
    pub(crate) fn compression(&self) -> f64 {
        let disk: u64 = self.inputs.iter().map(|one| one.disk_bytes()).sum();
        debug_assert!(!self.inputs.is_empty(), "a merge of nothing");
        let data: u64 = self.inputs.iter().map(|one| one.data_bytes()).sum();
        disk as f64 / data.max(1) as f64
    }
}

/// The SSTables that a strategy wants merged.
fn inputs_of(own: &[Rc<sstable::Table>], wanted: &policy::Job) -> Vec<Rc<sstable::Table>> {
    assert!(!wanted.files.is_empty(), "a job of nothing: {wanted:?}");
    assert!(wanted.files.is_sorted_by(|a, b| a < b), "disjoint: a file twice in {wanted:?}");
    assert!(0 < wanted.bytes_max, "outputs of no bytes: {wanted:?}");
    wanted.files.iter().map(|index| own[*index].clone()).collect()
}

/// What decides about the merges of a table at this time.
pub(crate) fn options_of(table: &Table) -> Options {
    let options = Options::of(&table.schema.borrow().options);
    match table.filling.get() {
        true => options.while_filled(),
        false => options,
    }
}

/// The windows of time by which what a table writes is to be divided, if it is.
pub(crate) fn windows_of(table: &Table) -> Option<Windows> {
    Options::of(&table.schema.borrow().options).windows()
}

/// A random UUID of version 4.
pub(crate) fn random_uuid() -> Uuid {
    let bits = (runtime::random_u64() as u128) << 64 | runtime::random_u64() as u128;
    // Version 4, as RFC 9562 has it.
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    Uuid::from_u128(bits)
}
