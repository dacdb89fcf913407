//! Single rows that are not wanted, of runs that are.
//!
//! Each row of a run has a bit that is set when the row is read. When a run's turn comes and it was
//! hit, what lies before the first such row and after the last one is dropped, if that makes the
//! run much smaller: what is left is a run, what was dropped a gap.
//!
//! Invariants
//!  - *keeps-what-was-wanted*: what is left has all rows that were read, and those between them.

use super::TabletId;
use super::index::{Content, Entry};
use super::partition::{Head, Large, PART, PART_HEAD_BYTES, WHOLE, WholeView, read_part};
use super::run::{self, RunView};
use super::run_list::{RunList, RunRef};
use super::store::{Store, Tablet};
use memory::{Age, Handle};
use model::{DecoratedKey, Token};
use mutation::{ClusteringPosition, ClusteringRange};
use std::ops::Range;
use std::rc::Rc;
use stdx::Bytes;

/// Smaller runs are left as they are.
const SHED_BYTES_MIN: usize = 1024;

/// Whose run an object is.
enum Owner {
    Whole(DecoratedKey, Head),
    Part(Rc<RunRef>),
}

impl Store {
    /// Where the run begins in an object.
    fn run_at(&self, handle: Handle) -> usize {
        match self.arena.kind(handle) {
            WHOLE => WholeView::of(self.arena.get(handle)).run_at,
            _ => PART_HEAD_BYTES,
        }
    }

    /// Rows of an object were read.
    pub(super) fn mark_rows(&mut self, handle: Handle, rows: Range<usize>) {
        let run_at = self.run_at(handle);
        let object = self.arena.get_mut(handle);
        let bits = RunView::of(&object[run_at..]).touched_bytes();
        let bits = &mut object[run_at..][bits];
        if !bits.is_empty() {
            debug_assert!(
                rows.end <= 8 * bits.len(),
                "own-bytes: {rows:?} of {} bytes",
                bits.len()
            );
            rows.for_each(|row| bits[row / 8] |= 1 << (row % 8));
        }
    }

    /// The turn of an object that was hit: it stays, or what of it was wanted does.
    pub(super) fn keep(&mut self, handle: Handle) {
        if self.shed(handle) {
            return;
        }
        self.clear_marks(handle);
        self.arena.relocate(handle);
    }

    pub(super) fn clear_marks(&mut self, handle: Handle) {
        let run_at = self.run_at(handle);
        let object = self.arena.get_mut(handle);
        let bits = RunView::of(&object[run_at..]).touched_bytes();
        object[run_at..][bits].fill(0);
        debug_assert!(
            RunView::of(&object[run_at..]).touched_rows().is_empty(),
            "own-bytes: a row is marked still"
        );
    }

    /// Puts the wanted rows of an object in its place; whether that was worth it and possible.
    pub(super) fn shed(&mut self, handle: Handle) -> bool {
        let object = self.arena.get(handle);
        let (len, run) = (object.len(), RunView::of(&object[self.run_at(handle)..]));
        let wanted = run.touched_rows();
        debug_assert!(wanted.end <= run.row_count(), "own-bytes: {wanted:?} of the rows");
        let dropped = run.row_count() - wanted.len();
        if len < SHED_BYTES_MIN || wanted.is_empty() || dropped < wanted.len() {
            return false;
        }
        let Some((id, owner)) = self.owner_of(handle) else { return false };
        let order = self.tablet(id).order.clone();
        let range = around(&run, &wanted);
        let mut left = Vec::new();
        run::clip(&order, &run, &range, |_, run| left.push(run.to_vec()));
        let [left] = &left[..] else { return false };
        debug_assert_eq!(RunView::of(left).row_count(), wanted.len(), "keeps-what-was-wanted");
        if len < 2 * left.len() {
            return false;
        }
        let heat = self.arena.heat(handle).saturating_sub(1);
        // Making room is what this is a part of; so it takes what there is.
        let token = match &owner {
            Owner::Whole(key, _) => key.token,
            Owner::Part(run) => run.owner.1,
        };
        let new = self.arena.allocate(Age::Main, PART, PART_HEAD_BYTES + left.len());
        let Some(new) = new else { return false };
        let new = self.name_part((id, token), &range.start, (new, left), heat);
        match owner {
            Owner::Whole(key, head) => {
                let mut runs = RunList::default();
                runs.insert(&order, new);
                let large = Large { key: key.key, head, runs: Rc::new(runs) };
                self.exchange(id, token, Content::Large(Box::new(large)));
            }
            Owner::Part(old) => {
                old.handle.set(None);
                self.arena.free(handle);
                let list = self.list_mut(id, token).expect("its owner was found");
                let removed = list.remove(&order, &old);
                assert!(removed, "lives-by-name: a run that is shed is not named");
                list.insert(&order, new);
            }
        }
        self.stats.add_evictions(0, dropped);
        true
    }

    /// The partition that an object is known as; `None`: only readers know it.
    fn owner_of(&self, handle: Handle) -> Option<(TabletId, Owner)> {
        let object = self.arena.get(handle);
        if self.arena.kind(handle) == WHOLE {
            let whole = WholeView::of(object);
            debug_assert!(
                matches!(
                    self.tablet(whole.tablet).index.get(Token::of(whole.key)),
                    Some(Entry::Whole { handle: own, .. }) if own == handle
                ),
                "linked-or-garbage: no entry names it"
            );
            let key = DecoratedKey::new(Bytes::copy_from(whole.key));
            return Some((whole.tablet, Owner::Whole(key, whole.head())));
        }
        let (slot, _) = read_part(object);
        let run = self.slots[slot as usize].upgrade()?;
        let (id, token) = run.owner;
        let Tablet { index, order, .. } = self.tablets[id.0 as usize].as_ref()?;
        let Some(Entry::Large { slot, .. }) = index.get(token) else { return None };
        let is_known = index.large(slot).runs.names(order, &run);
        is_known.then_some((id, Owner::Part(run)))
    }
}

/// The interval from just after the row before these up to just before the row after them.
fn around(run: &RunView<'_>, rows: &Range<usize>) -> ClusteringRange {
    let ClusteringRange { mut start, mut end } = run.interval();
    if 0 < rows.start {
        start = ClusteringPosition::after(Bytes::copy_from(run.row(rows.start - 1).0));
    }
    if rows.end < run.row_count() {
        end = ClusteringPosition::before(Bytes::copy_from(run.row(rows.end).0));
    }
    ClusteringRange { start, end }
}
