//! Two blobs of one column: what both say together, and what one says beyond the other.

use super::{CollectionView, RawElement, RawIter, RunSink};
use crate::cell;
use crate::tombstone::Tombstone;
use model::{Type, value};
use std::cmp::Ordering;

/// How the paths of a column compare.
#[derive(Clone, Copy)]
pub(super) enum PathOrder<'t> {
    Bytes,
    Typed(&'t Type),
}

impl<'t> PathOrder<'t> {
    pub(super) fn of(ty: Option<&'t Type>) -> PathOrder<'t> {
        match ty {
            Some(Type::Map { key, .. }) => PathOrder::Typed(key),
            Some(Type::Set { element, .. }) => PathOrder::Typed(element),
            Some(Type::List { .. }) => PathOrder::Typed(&Type::TimeUuid),
            _ => PathOrder::Bytes,
        }
    }
    pub(super) fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            PathOrder::Bytes => a.cmp(b),
            PathOrder::Typed(ty) => value::compare(ty, a, b),
        }
    }
}

/// Which of two elements of one path holds. Values may be equal and yet have different bytes
/// (decimal 1.0 and 1.00), so the path's bytes decide last.
fn wins(a: &RawElement<'_>, b: &RawElement<'_>) -> bool {
    let (Some(x), Some(y)) = (a.cell(), b.cell()) else { return b.blob <= a.blob };
    Ordering::Less != cell::compare(&x, &y).then_with(|| a.path.cmp(b.path))
}

/// Merges two blobs of a column of type `ty` (`None`, a column that nobody knows any more: paths
/// compare as bytes) and appends the result.
pub fn merge(ty: Option<&Type>, a: CollectionView<'_>, b: CollectionView<'_>, out: &mut Vec<u8>) {
    let order = PathOrder::of(ty);
    let tomb = a.tomb().merge(b.tomb());
    let mut sink = RunSink::begin(out, tomb);
    let (mut a_rest, mut b_rest) = (Uncovered::of(a, tomb), Uncovered::of(b, tomb));
    let (mut a_next, mut b_next) = (a_rest.next(), b_rest.next());
    loop {
        let (x, y) = match (&a_next, &b_next) {
            (Some(x), Some(y)) => (x, y),
            (Some(x), None) => break a_rest.copy_from(x, &mut sink),
            (None, Some(y)) => break b_rest.copy_from(y, &mut sink),
            (None, None) => break,
        };
        let take = order.compare(x.path, y.path);
        match take {
            Ordering::Less => sink.copy(a, x),
            Ordering::Greater => sink.copy(b, y),
            Ordering::Equal if wins(x, y) => sink.copy(a, x),
            Ordering::Equal => sink.copy(b, y),
        }
        if take != Ordering::Greater {
            a_next = a_rest.next();
        }
        if take != Ordering::Less {
            b_next = b_rest.next();
        }
    }
    sink.finish();
}

/// The elements of a blob that a tombstone does not cover.
struct Uncovered<'a> {
    view: CollectionView<'a>,
    raw: RawIter<'a>,
    /// [`Tombstone::NONE`] if it is the blob's own: nothing in the blob is under that.
    tomb: Tombstone,
}

impl<'a> Uncovered<'a> {
    fn of(view: CollectionView<'a>, tomb: Tombstone) -> Uncovered<'a> {
        let tomb = if tomb == view.tomb() { Tombstone::NONE } else { tomb };
        Uncovered { view, raw: view.raw(), tomb }
    }

    fn next(&mut self) -> Option<RawElement<'a>> {
        let tomb = self.tomb;
        self.raw.find(|element| !element.is_covered(tomb))
    }

    /// Copies `first`, which came last, and what is left.
    fn copy_from(&mut self, first: &RawElement<'a>, sink: &mut RunSink<'a, '_>) {
        if self.tomb.is_none() {
            return sink.copy_rest(self.view, first, 1 + self.raw.left);
        }
        sink.copy(self.view, first);
        while let Some(element) = self.next() {
            sink.copy(self.view, &element);
        }
    }
}

/// Appends what `a` says beyond `b`: merged with `b` it gives the same as `a` does. Returns
/// whether there is anything; if not, nothing was appended.
pub fn difference(
    ty: Option<&Type>,
    a: CollectionView<'_>,
    b: CollectionView<'_>,
    out: &mut Vec<u8>,
) -> bool {
    let order = PathOrder::of(ty);
    let tomb = if b.tomb().subsumes(a.tomb()) { Tombstone::NONE } else { a.tomb() };
    let mut sink = RunSink::begin(out, tomb);
    let mut b_rest = b.raw();
    let mut b_next = b_rest.next();
    for x in a.raw() {
        while b_next.as_ref().is_some_and(|y| order.compare(y.path, x.path).is_lt()) {
            b_next = b_rest.next();
        }
        let told =
            b_next.as_ref().is_some_and(|y| order.compare(y.path, x.path).is_eq() && wins(y, &x));
        if !told && !x.is_covered(b.tomb()) {
            sink.copy(a, &x);
        }
    }
    sink.finish_or_retract()
}
