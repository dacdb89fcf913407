//! What is left of a blob when deletions, time and garbage collection have had their say.

use super::{CollectionView, RawElement, RunSink};
use crate::cell::{self, Fate};
use crate::tombstone::{Compacted, NO_TIMESTAMP, Purge, Tombstone};

/// Drops what `shadow` (the row's deletions) or the blob's own tombstone covers, turns expired
/// elements into deletions, forgets the deletions that `purge` allows. Appends the result to
/// `out` only if it differs from the input.
pub fn compact<'a>(
    view: CollectionView<'a>,
    shadow: Tombstone,
    now: i64,
    purge: &Purge,
    out: &mut Vec<u8>,
) -> Compacted {
    if view.is_void() {
        return Compacted::Empty;
    }
    let both = shadow.merge(view.tomb());
    let tomb = if shadow.subsumes(view.tomb()) { Tombstone::NONE } else { view.tomb() };
    let tomb = purge.retain(tomb);
    let fate = |element: &RawElement<'a>| match element.cell() {
        Some(cell) => cell.fate(both, now, purge),
        None => Fate::Goes,
    };
    if tomb == view.tomb() && view.raw().all(|element| fate(&element) == Fate::Stays) {
        return Compacted::Unchanged;
    }
    let mut sink = RunSink::begin(out, tomb);
    for element in view.raw() {
        match fate(&element) {
            Fate::Stays => sink.copy(view, &element),
            Fate::Becomes(cell) => sink.push(element.path, &cell),
            Fate::Goes => {}
        }
    }
    if sink.finish_or_retract() { Compacted::Changed } else { Compacted::Empty }
}

/// Whether an element that `shadow` does not cover is live at `now`.
pub fn is_any_live(view: CollectionView<'_>, shadow: Tombstone, now: i64) -> bool {
    let shadow = shadow.merge(view.tomb());
    view.iter().any(|(_, cell)| !shadow.covers(cell.timestamp) && cell.is_live(now))
}

/// The greatest timestamp in the blob.
pub fn last_update(view: CollectionView<'_>) -> i64 {
    let newest = view.raw().filter_map(|element| cell::timestamp_of(element.blob)).max();
    newest.unwrap_or(NO_TIMESTAMP).max(view.tomb().timestamp)
}

/// Appends a blob of the live elements alone, without a tombstone. Returns whether there are
/// any; if not, nothing was appended.
pub fn live_elements(
    view: CollectionView<'_>,
    shadow: Tombstone,
    now: i64,
    out: &mut Vec<u8>,
) -> bool {
    let shadow = shadow.merge(view.tomb());
    let mut sink = RunSink::begin(out, Tombstone::NONE);
    for element in view.raw() {
        if !element.is_covered(shadow) && element.cell().is_some_and(|cell| cell.is_live(now)) {
            sink.copy(view, &element);
        }
    }
    sink.finish_or_retract()
}
