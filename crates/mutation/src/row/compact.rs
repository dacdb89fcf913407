//! What is left of a row when deletions, time and garbage collection have had their say.

use super::*;
use crate::cell::Fate;
use crate::collection;
use crate::tombstone::{Compacted, Purge};
use model::TableSchema;

/// Drops what `shadow` (range and partition deletions) or the row's own tombstones cover, turns
/// what has expired at second `now` into deletions, forgets the deletions that `purge` allows.
/// Appends the result to `out` only if it differs from the input.
pub fn compact(
    row: RowView<'_>,
    shadow: Tombstone,
    now: i64,
    purge: &Purge,
    out: &mut Vec<u8>,
) -> Compacted {
    if shadow.is_none() && is_all_live(row) {
        return Compacted::Unchanged;
    }
    if row.is_empty() {
        return Compacted::Empty;
    }
    let rules = Rules { cover: shadow.merge(row.deletion()), now, purge };
    let tombstone = rules.tombstone(row.tombstone, shadow);
    // A marker that has cancelled the shadowable tombstone may itself turn into a deletion here;
    // what it cancelled stays cancelled.
    let cancelled = row.deletion() != row.shadowable();
    let shadowable = if cancelled { Tombstone::NONE } else { row.shadowable };
    let shadowable = rules.tombstone(shadowable, shadow);
    let same_head = tombstone == row.tombstone && shadowable == row.shadowable;
    if same_head && rules.leave_unchanged(row) {
        return Compacted::Unchanged;
    }
    let start = out.len();
    let mut builder = RowBuilder::append_to(std::mem::take(out));
    builder.tombstone(tombstone);
    builder.shadowable(shadowable);
    if let Some(cell) = row.marker.and_then(|marker| rules.cell(marker.cell())) {
        builder.marker(Marker::of_cell(cell));
    }
    let mut scratch = Vec::new();
    for (id, data) in row.columns() {
        match data {
            ColumnData::Atomic(cell) => {
                if let Some(cell) = rules.cell(cell) {
                    builder.cell(id, cell);
                }
            }
            ColumnData::Collection(view) => {
                scratch.clear();
                match collection::compact(view, rules.cover, now, purge, &mut scratch) {
                    Compacted::Unchanged => builder.collection(id, view.bytes()),
                    Compacted::Changed => builder.collection(id, &scratch),
                    Compacted::Empty => {}
                }
            }
        }
    }
    let any = !builder.is_empty();
    *out = builder.finish();
    if any {
        return Compacted::Changed;
    }
    out.truncate(start);
    Compacted::Empty
}

/// Whether it is something, and nothing but values that do not expire, which neither time nor
/// purge changes.
pub(crate) fn is_all_live(row: RowView<'_>) -> bool {
    row.is_plain() && row.live_cells().reach_the_end() && !row.is_empty()
}

/// Tells the timestamp and the time of each deletion that the row has at second `now`, of itself,
/// its marker, cells and collections, unless another one or `shadow` covers it.
pub(crate) fn for_each_deletion(
    row: RowView<'_>,
    shadow: Tombstone,
    now: i64,
    tell: &mut impl FnMut(i64, i64),
) {
    let own = row.deletion();
    if !shadow.subsumes(own) {
        tell(own.timestamp, own.deletion_time);
    }
    let cover = shadow.merge(own);
    row.marker.into_iter().for_each(|marker| tell_if_dead(marker.cell(), cover, now, tell));
    for (_, data) in row.columns() {
        match data {
            ColumnData::Atomic(cell) => tell_if_dead(cell, cover, now, tell),
            ColumnData::Collection(view) => {
                if !cover.subsumes(view.tomb()) {
                    tell(view.tomb().timestamp, view.tomb().deletion_time);
                }
                let cover = cover.merge(view.tomb());
                view.iter().for_each(|(_, cell)| tell_if_dead(cell, cover, now, tell));
            }
        }
    }
}

fn tell_if_dead(cell: Cell<'_>, cover: Tombstone, now: i64, tell: &mut impl FnMut(i64, i64)) {
    if let CellState::Dead { deletion_time } = cell.at(now).state
        && !cover.covers(cell.timestamp)
    {
        tell(cell.timestamp, deletion_time);
    }
}

/// Drops what `tombstone` covers; the tombstone itself is not put into the row.
pub fn apply_tombstone(row: RowView<'_>, tombstone: Tombstone, out: &mut Vec<u8>) -> Compacted {
    compact(row, tombstone, i64::MIN, &Purge::NEVER, out)
}

/// Whether a reader sees the row at second `now`: its marker is live, or a cell of a column that
/// `schema` still has, unless its rows live by their markers alone. `shadow` is what range and
/// partition deletions cover.
pub fn is_live(schema: &TableSchema, row: RowView<'_>, shadow: Tombstone, now: i64) -> bool {
    let cover = shadow.merge(row.deletion());
    let by_marker =
        row.marker.is_some_and(|marker| !cover.covers(marker.timestamp()) && marker.is_live(now));
    if by_marker || schema.lives_by_marker() {
        return by_marker;
    }
    row.columns().any(|(id, data)| {
        let live = match data {
            ColumnData::Atomic(cell) => !cover.covers(cell.timestamp) && cell.is_live(now),
            ColumnData::Collection(view) => collection::is_any_live(view, cover, now),
        };
        live && schema.column_by_id(id).is_some()
    })
}

/// A hash of which parts of a row a reader sees, as [`is_live`] does: of its marker, its columns,
/// and the elements of its collections by their keys. What they hold does not count.
pub fn live_parts(schema: &TableSchema, row: RowView<'_>, shadow: Tombstone, now: i64) -> u64 {
    let cover = shadow.merge(row.deletion());
    let sees = |cell: &Cell<'_>| !cover.covers(cell.timestamp) && cell.is_live(now);
    let mut parts = 0;
    if row.marker.is_some_and(|marker| sees(&marker.cell())) {
        parts = stdx::hash_one((parts, u32::MAX));
    }
    for (id, data) in row.columns().filter(|(id, _)| schema.column_by_id(*id).is_some()) {
        match data {
            ColumnData::Atomic(cell) if sees(&cell) => parts = stdx::hash_one((parts, id.0)),
            ColumnData::Atomic(_) => {}
            ColumnData::Collection(view) => {
                let live = |cell: &Cell<'_>| sees(cell) && !view.tomb().covers(cell.timestamp);
                for (key, _) in view.iter().filter(|(_, cell)| live(cell)) {
                    parts = stdx::hash_one((parts, id.0, key));
                }
            }
        }
    }
    parts
}

struct Rules<'p> {
    cover: Tombstone,
    now: i64,
    purge: &'p Purge,
}

impl Rules<'_> {
    fn tombstone(&self, own: Tombstone, shadow: Tombstone) -> Tombstone {
        if shadow.subsumes(own) { Tombstone::NONE } else { self.purge.retain(own) }
    }

    fn cell<'c>(&self, cell: Cell<'c>) -> Option<Cell<'c>> {
        match cell.fate(self.cover, self.now, self.purge) {
            Fate::Stays => Some(cell),
            Fate::Becomes(dead) => Some(dead),
            Fate::Goes => None,
        }
    }

    fn stays(&self, cell: Cell<'_>) -> bool {
        cell.fate(self.cover, self.now, self.purge) == Fate::Stays
    }

    fn leave_unchanged(&self, row: RowView<'_>) -> bool {
        let marker = row.marker.map(|marker| marker.cell());
        marker.is_none_or(|cell| self.stays(cell))
            && row.columns().all(|(_, data)| match data {
                ColumnData::Atomic(cell) => self.stays(cell),
                ColumnData::Collection(view) => {
                    let mut unused = Vec::new();
                    let (now, purge) = (self.now, self.purge);
                    let compacted = collection::compact(view, self.cover, now, purge, &mut unused);
                    compacted == Compacted::Unchanged
                }
            })
    }
}
