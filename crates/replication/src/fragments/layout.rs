//! The table that fragments are shown as: its columns, how its keys are made of places and
//! positions, and which part of a place its clustering ranges name. Pure.
//!
//! ```text
//! clustering := source region                                   the partition's start and end,
//!                                                               and its static row
//!             | source 2 column* weight spot                    a row, or a tombstone change
//! spot       := columns:be16 opening:u8 [ts:be64 deletion_time:be64]
//! ```
//! Each part is a component of the clustering key. A position that names only the first columns
//! has empty ones for the others; `columns` counts those that it names.

use model::key::{clustering_components, push_clustering};
use model::schema::fragments::output_schema;
use model::{ClusteringOrder, TableSchema, Type};
use mutation::{ClusteringPosition, ClusteringRange, Tombstone};
use std::cmp::Ordering;
use std::rc::Rc;
use stdx::{Bytes, Cursor, Put};

/// `partition_region` of the rows.
pub(super) const START: i8 = 0;
pub(super) const STATIC: i8 = 1;
pub(super) const CLUSTERED: i8 = 2;
pub(super) const END: i8 = 3;

/// [`output_schema`], where the coordinator had it before.
pub(super) fn output_of(base: &TableSchema) -> Result<TableSchema, reader::ReadError> {
    let table = output_schema(base).map_err(reader::ReadError::Overloaded)?;
    let (shown, own) = (table.clustering_count, base.clustering_count);
    debug_assert!(shown == own + 3, "place-by-place: {shown} clustering columns for {own}");
    Ok(table)
}

/// How keys of the two tables stand to each other.
pub(super) struct Layout {
    /// Of the table whose fragments they are.
    pub(super) base: Rc<ClusteringOrder>,
    /// Of the fragments' table.
    order: ClusteringOrder,
}

/// Where in a range of rows reading goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    /// Of the fragment shown last.
    pub(super) position: ClusteringPosition,
    /// It tells what was open at the start of a range: changes at that very position come after.
    pub(super) opening: bool,
    /// The range tombstone that holds after it.
    pub(super) open: Tombstone,
}

/// A row of the fragments' table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place<'a> {
    pub(super) source: &'a [u8],
    pub(super) region: i8,
    /// In [`CLUSTERED`].
    pub(super) spot: Option<Spot>,
}

/// What is wanted of one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) start: bool,
    pub(super) statics: bool,
    pub(super) end: bool,
    pub(super) rows: Vec<RowRange>,
}

/// Fragments of an interval of positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowRange {
    pub(super) range: ClusteringRange,
    /// The least weight that is wanted of positions of that full key.
    pub(super) low: Option<(Bytes, i8)>,
    /// The greatest one.
    pub(super) high: Option<(Bytes, i8)>,
    /// The last position wanted, if it is before the end of `range`.
    pub(super) stop: Option<ClusteringPosition>,
    /// What was shown of it before.
    pub(super) resumed: Option<Spot>,
}

impl Layout {
    /// Of the fragments of a table.
    pub(super) fn of(base: &TableSchema) -> Layout {
        let mut columns = vec![(Type::Text, false), (Type::TinyInt, false)];
        columns.extend(base.order.columns.iter().cloned());
        columns.push((Type::TinyInt, false));
        Layout { base: Rc::new(base.order.clone()), order: ClusteringOrder { columns } }
    }

    fn column_count(&self) -> usize {
        self.base.columns.len()
    }

    /// The clustering key of what is not clustered.
    pub(super) fn key(&self, source: &str, region: i8) -> Vec<u8> {
        let mut out = Vec::with_capacity(source.len() + 32);
        push_clustering(source.as_bytes(), &mut out);
        push_clustering(&[region as u8], &mut out);
        out
    }

    /// The clustering key of a row or a tombstone change.
    pub(super) fn key_of(&self, source: &str, spot: &Spot) -> Vec<u8> {
        let mut out = self.key(source, CLUSTERED);
        let ClusteringPosition { prefix, weight } = &spot.position;
        out.put(prefix);
        let named = clustering_components(prefix).count();
        (named..self.column_count()).for_each(|_| push_clustering(&[], &mut out));
        push_clustering(&[*weight as u8], &mut out);
        let mut tail = Vec::with_capacity(19);
        tail.put_u16(u16::try_from(named).expect("a table has fewer columns"));
        tail.put_u8(u8::from(spot.opening));
        if !spot.open.is_none() {
            tail.put_i64(spot.open.timestamp);
            tail.put_i64(spot.open.deletion_time);
        }
        push_clustering(&tail, &mut out);
        if cfg!(debug_assertions) {
            let read = self.place(&out).and_then(|place| place.spot);
            debug_assert!(read.as_ref() == Some(spot), "goes-on-after: {spot:?} is {read:?}");
        }
        out
    }

    /// Reads what [`Layout::key`] or [`Layout::key_of`] made; `None`: neither has.
    pub(super) fn place<'a>(&self, key: &'a [u8]) -> Option<Place<'a>> {
        let mut parts = clustering_components(key);
        let source = parts.next()?;
        let [region] = parts.next()? else { return None };
        let region = *region as i8;
        if region != CLUSTERED {
            let whole = parts.rest().is_empty() && matches!(region, START | STATIC | END);
            return whole.then_some(Place { source, region, spot: None });
        }
        let all = parts.rest();
        let mut ends = vec![0];
        for _ in 0..self.column_count() {
            parts.next()?;
            ends.push(all.len() - parts.rest().len());
        }
        let [weight] = parts.next()? else { return None };
        let mut tail = Cursor::new(parts.next()?);
        let named = tail.u16("columns").ok()?;
        let opening = tail.u8("opening").ok()? != 0;
        let open = match tail.is_empty() {
            true => Tombstone::NONE,
            false => {
                let timestamp = tail.i64("timestamp").ok()?;
                Tombstone::new(timestamp, tail.i64("deletion time").ok()?)
            }
        };
        let weight = *weight as i8;
        let whole = parts.rest().is_empty() && tail.is_empty() && (-1..=1).contains(&weight);
        let prefix = Bytes::copy_from(&all[..*ends.get(named as usize).filter(|_| whole)?]);
        let position = ClusteringPosition { prefix, weight };
        Some(Place { source, region, spot: Some(Spot { position, opening, open }) })
    }

    /// What clustering ranges of the fragments' table name of a place, after `after`; `None`:
    /// nothing.
    pub(super) fn wanted(
        &self,
        source: &str,
        ranges: &[ClusteringRange],
        after: Option<&Place<'_>>,
    ) -> Option<Wanted> {
        let after = match after.map(|place| (place.source.cmp(source.as_bytes()), place)) {
            Some((Ordering::Greater, _)) => return None,
            Some((Ordering::Equal, place)) => Some(place),
            _ => None,
        };
        let past = after.map_or(START - 1, |place| place.region);
        let is_in = |region: i8| {
            let key = self.key(source, region);
            past < region && ranges.iter().any(|range| range.contains(&self.order, (&key, 0)))
        };
        let (start, statics, end) = (is_in(START), is_in(STATIC), is_in(END));
        let spot = after.and_then(|place| place.spot.as_ref());
        let mut rows = Vec::new();
        if past <= CLUSTERED {
            let all = self.key(source, CLUSTERED);
            let mine = ranges.iter().filter_map(|range| self.rows_of(&all, range));
            rows.extend(mine.filter_map(|rows| match spot {
                None => Some(rows),
                Some(spot) => rows.after(&self.base, spot),
            }));
        }
        let wanted = Wanted { start, statics, end, rows };
        (wanted != Wanted::default()).then_some(wanted)
    }

    /// What a range names of the rows of a place, all of which have keys that begin with `all`.
    fn rows_of(&self, all: &[u8], range: &ClusteringRange) -> Option<RowRange> {
        let (first, last) = ((all, -1), (all, 1));
        let (start, end) = (range.start.as_parts(), range.end.as_parts());
        if self.order.compare(start, last).is_ge() || self.order.compare(end, first).is_le() {
            return None;
        }
        let (start, low) = match self.order.compare(start, first).is_le() {
            true => (ClusteringPosition::start(), None),
            false => self.lower(start),
        };
        let (end, high) = match self.order.compare(end, last).is_ge() {
            true => (ClusteringPosition::end(), None),
            false => self.upper(end),
        };
        let whole =
            RowRange { range: ClusteringRange { start, end }, low, high, ..RowRange::all() };
        let wanted = match &whole.high {
            // What begins just after the key is wanted, too.
            Some((key, 1..)) => RowRange {
                stop: Some(ClusteringPosition::after(key.clone())),
                range: ClusteringRange { end: ClusteringPosition::end(), ..whole.range },
                ..whole
            },
            _ => whole,
        };
        (!wanted.range.is_empty(&self.base)).then_some(wanted)
    }

    /// Where rows begin that lie after a bound within them, and the least weight there.
    fn lower(&self, (bound, side): (&[u8], i8)) -> (ClusteringPosition, Option<(Bytes, i8)>) {
        let (prefix, weight) = self.split(bound);
        let Some(weight) = weight else {
            let weight = if side <= 0 { -1 } else { 1 };
            return (ClusteringPosition { prefix, weight }, None);
        };
        let least = if side <= 0 { weight } else { weight.saturating_add(1) };
        (ClusteringPosition::before(prefix.clone()), Some((prefix, least)))
    }

    /// Where rows end that lie before a bound within them, and the greatest weight there.
    fn upper(&self, (bound, side): (&[u8], i8)) -> (ClusteringPosition, Option<(Bytes, i8)>) {
        let (prefix, weight) = self.split(bound);
        let Some(weight) = weight else {
            let weight = if side <= 0 { -1 } else { 1 };
            return (ClusteringPosition { prefix, weight }, None);
        };
        let greatest = if 0 < side { weight } else { weight.saturating_sub(1) };
        (ClusteringPosition::after(prefix.clone()), Some((prefix, greatest)))
    }

    /// The columns of the base table in a bound behind source and region, and the weight, if the
    /// bound has one.
    fn split(&self, bound: &[u8]) -> (Bytes, Option<i8>) {
        let mut parts = clustering_components(bound);
        let _ = (parts.next(), parts.next());
        let all = parts.rest();
        for _ in 0..self.column_count() {
            if parts.next().is_none() {
                break;
            }
        }
        let prefix = Bytes::copy_from(&all[..all.len() - parts.rest().len()]);
        // An empty value is less than all others.
        let weight = parts.next().map(|part| part.first().map_or(i8::MIN, |byte| *byte as i8));
        (prefix, weight)
    }
}

impl RowRange {
    /// All rows.
    fn all() -> RowRange {
        let (low, high, stop, resumed) = (None, None, None, None);
        RowRange { range: ClusteringRange::full(), low, high, stop, resumed }
    }

    /// Whether nothing of a partition's rows is left out.
    pub(super) fn is_whole(&self) -> bool {
        *self == RowRange::all()
    }

    /// What is left of it after a spot.
    fn after(mut self, order: &ClusteringOrder, spot: &Spot) -> Option<RowRange> {
        let mut point = spot.position.clone();
        if point.weight == 0 {
            point.weight = 1;
        }
        let done = match &self.stop {
            Some(stop) => point.compare(order, stop).is_gt(),
            None => self.range.end.compare(order, &point).is_le(),
        };
        if done {
            return None;
        }
        if point.compare(order, &self.range.start).is_ge() {
            self.range.start = point;
            self.resumed = Some(spot.clone());
        }
        Some(self)
    }

    /// Whether the weight of a position within the range is one that is wanted.
    pub(super) fn takes(&self, order: &ClusteringOrder, position: &ClusteringPosition) -> bool {
        let is_at = |key: &Bytes| order.compare((key, 0), (&position.prefix, 0)).is_eq();
        let low = self.low.as_ref().filter(|(key, _)| is_at(key));
        let high = self.high.as_ref().filter(|(key, _)| is_at(key));
        low.is_none_or(|(_, least)| *least <= position.weight)
            && high.is_none_or(|(_, greatest)| position.weight <= *greatest)
    }
}

#[cfg(test)]
mod tests;
