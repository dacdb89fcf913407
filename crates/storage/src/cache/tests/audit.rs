//! The cache's own books: every object is named once, and what is counted is what there is.

use super::super::index::{ENTRY_BYTES, Entry};
use super::super::partition::{WHOLE, WholeView, read_part};
use super::super::run::RunView;
use super::super::store::Store;
use memory::Handle;

impl Store {
    /// The objects that indexes and runs name, dead indexes left out.
    pub(in super::super) fn linked(&self) -> Vec<Handle> {
        let mut all = Vec::new();
        for tablet in self.tablets.iter().flatten() {
            all.extend(tablet.index.entries().filter_map(|(_, entry)| match entry {
                Entry::Whole { handle, .. } => Some(handle),
                _ => None,
            }));
        }
        let runs = self.slots.iter().filter_map(|slot| slot.upgrade());
        all.extend(runs.filter_map(|run| run.handle.get()));
        all
    }

    /// *linked-or-garbage*, *apart*, *hinted*, and the books of the heap.
    pub(in super::super) fn audit(&mut self) {
        while self.collect_step() {}
        assert_eq!(self.is_to_reclaim(), self.arena.over_limit(), "no garbage is left");
        let mut linked = self.linked();
        linked.sort();
        linked.dedup();
        assert_eq!(linked.len(), self.arena.objects(), "linked-or-garbage");
        let mut heap = self.ghosts.heap_bytes();
        let runs: Vec<_> = self.slots.iter().filter_map(|slot| slot.upgrade()).collect();
        heap += runs.iter().map(|run| run.heap_bytes()).sum::<usize>();
        for tablet in self.tablets.iter().flatten() {
            assert!(tablet.index.is_hinted(), "hinted");
            for (_, entry) in tablet.index.entries() {
                heap += ENTRY_BYTES;
                let Entry::Large { slot, .. } = entry else { continue };
                let large = tablet.index.large(slot);
                heap += large.heap_bytes();
                assert!(!large.runs.is_empty(), "a large partition of which nothing is known");
                let mut last = None;
                for run in large.runs.iter() {
                    let bytes = self.run_of(run).expect("what is evicted leaves its list");
                    let view = RunView::of(bytes);
                    let start = run.start.as_parts();
                    assert!(tablet.order.compare(start, view.start()).is_eq());
                    assert!(tablet.order.compare(start, view.end()).is_lt());
                    if let Some(last) = &last {
                        assert!(run.start.compare(&tablet.order, last).is_ge(), "apart");
                    }
                    last = Some(view.interval().end);
                }
            }
        }
        assert_eq!(heap, self.heap_bytes, "bytes of the heap");
        assert!(self.free_slots.len() + runs.len() == self.slots.len());
        drop(runs);
    }

    /// How many rows an object has.
    pub(in super::super) fn row_count(&self, handle: Handle) -> usize {
        let object = self.arena.get(handle);
        match self.arena.kind(handle) {
            WHOLE => WholeView::of(object).run().row_count(),
            _ => RunView::of(read_part(object).1).row_count(),
        }
    }

    /// Drops everything, as a shard does that ends.
    pub(in super::super) fn evict_all(&mut self) {
        while self.collect_step() {}
        let wholes: Vec<Handle> = self.linked();
        wholes.into_iter().for_each(|handle| self.evict(handle));
        while self.collect_step() {}
    }
}
