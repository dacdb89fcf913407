//! The set of SSTables of a tablet: which join and leave, with memtables and row cache in step.
//!
//! Invariants
//!  - *one-step*: the set of SSTables, the memtables and the phase of the cache change in one step;
//!    what a flush adds was merged into the cache before.
//!  - *once-in-set*: no SSTable is in the set of a tablet twice, and none that has nothing of it.

use super::cache_update::Merged;
use super::{Standing, Tablet};
use crate::large_data::Known;
use crate::memtable::Memtable;
use std::rc::Rc;

impl Tablet {
    /// An SSTable with content that the tablet did not have joins the set.
    pub(crate) fn adopt(&self, table: Rc<sstable::Table>) {
        self.add(table);
        self.changes.note_all();
        self.forget_cached();
    }

    /// What was a memtable joins the set as SSTables, if it has some (*one-step*); whether the
    /// memtable was still there to leave.
    pub(crate) fn exchange(
        &self,
        memtable: &Rc<Memtable>,
        flushed: Option<(Vec<Rc<sstable::Table>>, Merged)>,
    ) -> bool {
        if let Some((tables, merged)) = flushed {
            self.replace(&[], tables);
            merged.finish();
        }
        let was_there = self.remove_sealed(memtable);
        debug_assert!(!self.is_sealed(memtable), "one-step: a memtable and what it became");
        was_there
    }

    /// The same of a memtable that several tablets had when it was handed over, or that another one
    /// had when it was written: of what it became this one gets what reaches into it. Nothing of it
    /// was merged into the cache.
    pub(crate) fn exchange_part(&self, memtable: &Rc<Memtable>, tables: &[Rc<sstable::Table>]) {
        let mut all = self.sstables.borrow().to_vec();
        let before = all.len();
        all.extend(tables.iter().filter(|one| self.intersects(one)).cloned());
        if before < all.len() {
            self.set_sstables(all);
            self.forget_cached();
        }
        self.remove_sealed(memtable);
        debug_assert!(!self.is_sealed(memtable), "one-step: a memtable and what it became");
    }

    /// A new tablet has what others had that it takes the place of, as far as it may lie in it
    /// (`shard::divide`).
    pub(crate) fn inherit(&self, from: &[Rc<Tablet>]) {
        assert!(self.sstables.borrow().is_empty(), "in-one-step: it has something already");
        let (mut all, mut sealed): (Vec<Rc<sstable::Table>>, Vec<Rc<Memtable>>) =
            Default::default();
        for old in from {
            for one in old.sstables.borrow().iter().filter(|one| self.intersects(one)) {
                if old.holds_all_of(one) || !all.iter().any(|seen| Rc::ptr_eq(seen, one)) {
                    all.push(one.clone());
                }
            }
            for one in old.sealed.borrow().iter().filter(|one| one.meets(self.range)) {
                if !sealed.iter().any(|seen| Rc::ptr_eq(seen, one)) {
                    sealed.push(one.clone());
                }
            }
        }
        self.set_sstables(all);
        self.sealed.replace(sealed);
    }

    /// Others have all that it had: it has nothing any more, and gets nothing.
    pub(crate) fn leave(&self) {
        assert!(self.active.borrow().is_empty(), "nothing-lost: writes that nobody has");
        self.set_sstables(Vec::new());
        self.sealed.take();
        self.forget_cached();
        self.set_standing(Standing::Gone);
    }

    /// What was merged takes the place of its inputs: the content is the same.
    pub(crate) fn replace(&self, inputs: &[Rc<sstable::Table>], outputs: Vec<Rc<sstable::Table>>) {
        let mut all = self.sstables.borrow().to_vec();
        let before = all.len();
        all.retain(|one| !inputs.iter().any(|input| Rc::ptr_eq(one, input)));
        assert!(
            before - all.len() == inputs.len(),
            "inputs-outlive-output: {} of {} were there",
            before - all.len(),
            inputs.len()
        );
        debug_assert!(outputs.iter().all(|one| self.holds_all_of(one)), "own-alone: an output");
        all.extend(outputs);
        self.set_sstables(all);
    }

    /// SSTables leave the set, and what they hold the tablet.
    pub(crate) fn forget(&self, is_gone: impl Fn(&sstable::Table) -> bool) {
        let mut all = self.sstables.borrow().to_vec();
        all.retain(|one| !is_gone(one));
        self.set_sstables(all);
        self.changes.note_all();
        self.forget_cached();
    }

    /// Forgets all that is cached.
    pub(crate) fn forget_cached(&self) {
        if let Some(cache) = &self.cache {
            cache.invalidate();
        }
    }

    fn set_sstables(&self, all: Vec<Rc<sstable::Table>>) {
        debug_assert!(
            all.iter().enumerate().all(|(at, one)| {
                all[..at].iter().all(|other| other.descriptor() != one.descriptor())
            }),
            "once-in-set"
        );
        debug_assert!(
            all.iter().all(|one| self.intersects(one)),
            "once-in-set: one that has nothing of the tablet"
        );
        *self.known.borrow_mut() = Known::of(&all);
        *self.sstables.borrow_mut() = Rc::new(all);
    }

    fn add(&self, table: Rc<sstable::Table>) {
        assert!(self.intersects(&table), "once-in-set: {:?} has nothing", table.descriptor());
        let mut all = self.sstables.borrow().to_vec();
        all.push(table);
        self.set_sstables(all);
    }
}
