//! From what several replicas have to what is true, to what each of them lacks, and to a page.
//! Pure.
//!
//! Replicas are cut at different places. What is complete on all of them is what lies before the
//! first cut: behind it one replica may have a deletion that nobody has sent. So what lies behind
//! is left out, and asked for again if the page is not full.
//!
//! Invariants
//!  - *before-the-first-cut*: nothing behind the first cut is in what is merged, or in a page.
//!  - *brought-up*: a replica that takes in its repair has all of what is merged.
//!  - *same-page*: a page of what is merged is what a node that has all of it would answer.

use crate::stretch::Stretch;
use model::{ClusteringOrder, DecoratedKey, TableSchema};
use mutation::page::{Page, Partitions, ReadCommand, Resume};
use mutation::range::{ClusteringPosition, ClusteringRange, Direction};
use mutation::{Fragment, FrozenMutation, FrozenView, MutationBuilder, QueryCompactor};
use mutation::{RangeTombstone, RowView, Step, frozen, row};
use reader::{Budget, Slice, Source, VecSource};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use stdx::Bytes;

/// What several stretches are together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// One a partition, in ring order.
    pub mutations: Vec<FrozenMutation>,
    /// Where the first cut is; `None`: nothing was cut.
    pub reached: Option<Resume>,
    /// For each stretch, what it lacks.
    pub repairs: Vec<Vec<FrozenMutation>>,
}

/// Merges stretches that answer one command.
pub fn merge(schema: &TableSchema, command: &ReadCommand, stretches: &[Stretch]) -> Merged {
    assert!(!stretches.is_empty(), "before-the-first-cut: no replica has answered");
    let direction = command.direction();
    let cuts = stretches.iter().filter_map(|stretch| stretch.reached.as_ref());
    let reached = cuts.min_by(|a, b| compare(&schema.order, direction, a, b)).cloned();
    let mut partitions: BTreeMap<DecoratedKey, Vec<Option<FrozenMutation>>> = BTreeMap::new();
    for (index, stretch) in stretches.iter().enumerate() {
        for mutation in &stretch.mutations {
            let Ok(view) = FrozenView::trusted(&mutation.0) else { continue };
            let Some(part) = before(schema, direction, view, reached.as_ref()) else { continue };
            let key = DecoratedKey::new(Bytes::copy_from(view.key()));
            let own = partitions.entry(key).or_insert_with(|| vec![None; stretches.len()]);
            own[index] = Some(part);
        }
    }
    let mut merged = Merged { mutations: Vec::new(), reached, repairs: Vec::new() };
    merged.repairs.resize(stretches.len(), Vec::new());
    for (key, own) in partitions {
        let Some(all) = unite(schema, &own) else { continue };
        for (repair, own) in merged.repairs.iter_mut().zip(&own) {
            repair.extend(lacking(schema, &key, &all, own.as_ref()));
        }
        debug_assert!(all.view().is_ok(), "same-page: a damaged mutation");
        merged.mutations.push(all);
    }
    merged
}

/// What mutations of one partition are together.
pub(crate) fn unite(
    schema: &TableSchema,
    parts: &[Option<FrozenMutation>],
) -> Option<FrozenMutation> {
    parts.iter().flatten().fold(None, |all: Option<FrozenMutation>, one| match all {
        None => Some(one.clone()),
        Some(all) => Some(merge_two(schema, &all, one)),
    })
}

/// Two mutations of one partition as one.
pub fn merge_two(schema: &TableSchema, a: &FrozenMutation, b: &FrozenMutation) -> FrozenMutation {
    match (FrozenView::trusted(&a.0), FrozenView::trusted(&b.0)) {
        (Ok(a), Ok(b)) => frozen::merge(schema, a, b),
        _ => a.clone(),
    }
}

/// The order of places in the direction of a read.
fn compare(order: &ClusteringOrder, direction: Direction, a: &Resume, b: &Resume) -> Ordering {
    let key = |at: &Resume| DecoratedKey::new(Bytes::copy_from(&at.key));
    key(a).cmp(&key(b)).then_with(|| match (&a.after, &b.after) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(a), Some(b)) => direction.apply(order.compare((&a.0, a.1), (&b.0, b.1))),
    })
}

/// The clustering range before a place, in the direction of a read.
fn range_before(direction: Direction, (prefix, weight): &(Vec<u8>, i8)) -> ClusteringRange {
    debug_assert!(*weight == 1 || *weight == -1, "before-the-first-cut: at a row");
    let place = ClusteringPosition { prefix: Bytes::copy_from(prefix), weight: *weight };
    match direction {
        Direction::Forward => ClusteringRange { start: ClusteringPosition::start(), end: place },
        Direction::Reversed => ClusteringRange { start: place, end: ClusteringPosition::end() },
    }
}

/// What of a mutation lies before the cut; `None`: nothing.
fn before(
    schema: &TableSchema,
    direction: Direction,
    view: FrozenView<'_>,
    reached: Option<&Resume>,
) -> Option<FrozenMutation> {
    let whole = || Some(FrozenMutation(view.bytes().into()));
    let Some(reached) = reached else { return whole() };
    let key = |bytes: &[u8]| DecoratedKey::new(Bytes::copy_from(bytes));
    let after = match key(view.key()).cmp(&key(&reached.key)) {
        Ordering::Less => return whole(),
        Ordering::Greater => return None,
        Ordering::Equal => reached.after.as_ref(),
    };
    debug_assert!(view.table() == schema.id, "same-page: a mutation of another table");
    let Some(after) = after else { return whole() };
    let kept = range_before(direction, after);
    let mut builder = MutationBuilder::new(schema, view.key());
    builder.delete_partition(view.tombstone());
    if let Some(row) = view.static_row() {
        builder.static_row(row.bytes());
    }
    for RangeTombstone { range, tombstone } in view.ranges() {
        if let Some(range) = range.intersect(&schema.order, &kept) {
            builder.delete_range(RangeTombstone { range, tombstone });
        }
    }
    for (key, row) in view.rows().filter(|(key, _)| kept.contains(&schema.order, (key, 0))) {
        builder.row(key, row.bytes());
    }
    (!builder.is_empty()).then(|| builder.freeze())
}

/// What `all` has and `own`, a part of it, has not; `None`: nothing.
pub(crate) fn lacking(
    schema: &TableSchema,
    key: &DecoratedKey,
    all: &FrozenMutation,
    own: Option<&FrozenMutation>,
) -> Option<FrozenMutation> {
    let Some(own) = own else { return Some(all.clone()) };
    if all.0 == own.0 {
        return None;
    }
    let (Ok(all), Ok(own)) = (FrozenView::trusted(&all.0), FrozenView::trusted(&own.0)) else {
        return None;
    };
    assert!(all.key() == own.key(), "brought-up: {key:?} by another partition");
    let mut builder = MutationBuilder::new(schema, &key.key);
    if !own.tombstone().subsumes(all.tombstone()) {
        builder.delete_partition(all.tombstone());
    }
    let mut out = Vec::new();
    if let Some(row) = all.static_row() {
        let own = own.static_row().unwrap_or(RowView::trusted(&[]));
        if row::difference(schema, row, own, &mut out) {
            builder.static_row(&out[..]);
        }
    }
    let ranges: Vec<RangeTombstone> = own.ranges().collect();
    for range in all.ranges().filter(|range| !ranges.contains(range)) {
        builder.delete_range(range);
    }
    let mut rows = own.rows().peekable();
    for (key, row) in all.rows() {
        while rows.next_if(|(own, _)| schema.order.compare_rows(own, key).is_lt()).is_some() {}
        let own = rows.next_if(|(own, _)| schema.order.compare_rows(own, key).is_eq());
        let own = own.map_or(RowView::trusted(&[]), |(_, row)| row);
        out.clear();
        if row::difference(schema, row, own, &mut out) {
            builder.row(key, &out);
        }
    }
    (!builder.is_empty()).then(|| builder.freeze())
}

/// A page of what was merged, and whether it ends because more has to be asked for.
pub fn page(
    schema: &TableSchema,
    command: &ReadCommand,
    mutations: &[FrozenMutation],
    reached: Option<&Resume>,
) -> (Page, bool) {
    let mut compactor = QueryCompactor::new(schema, command);
    for mutation in mutations {
        let Ok(view) = FrozenView::trusted(&mutation.0) else { continue };
        let cut = reached.filter(|reached| reached.key[..] == *view.key());
        let cut = cut.and_then(|reached| reached.after.as_ref());
        let mut left = false;
        for fragment in sliced(schema, command, view, cut) {
            if let (Fragment::PartitionEnd, Some((prefix, weight))) = (&fragment, cut) {
                let page = compactor.finish_within((prefix, *weight));
                return (page, true);
            }
            match compactor.consume(&fragment) {
                Step::Continue => {}
                Step::NextPartition => {
                    left = true;
                    break;
                }
                Step::Stop => return (compactor.finish(), false),
            }
        }
        if left && cut.is_some() {
            let mut page = compactor.finish();
            let key = view.key().to_vec();
            page.resume = Some(Resume { key, after: None, rows_in_partition: 0 });
            return (page, true);
        }
    }
    let mut page = compactor.finish();
    let Some(reached) = reached else { return (page, false) };
    debug_assert!(page.resume.is_none(), "same-page: a page that was cut ends there");
    let before = command.resume.as_ref().filter(|resume| resume.key == reached.key);
    let is_inside = reached.after.is_some();
    let rows = before.filter(|_| is_inside).map_or(0, |resume| resume.rows_in_partition);
    page.resume = Some(Resume { rows_in_partition: rows, ..reached.clone() });
    (page, true)
}

/// The fragments of a partition that a command reads, up to a cut, in its direction.
fn sliced(
    schema: &TableSchema,
    command: &ReadCommand,
    view: FrozenView<'_>,
    cut: Option<&(Vec<u8>, i8)>,
) -> Vec<Fragment> {
    let order = &schema.order;
    let resumes = command.resume.as_ref().is_some_and(|resume| resume.key[..] == *view.key());
    debug_assert!(command.table == schema.id, "same-page: a command of another table");
    let mut slice = match resumes {
        true => Slice::resumed(command, order),
        false => Slice::of(command),
    };
    if let Some(cut) = cut {
        slice.ranges = slice.within(order, &range_before(command.direction(), cut));
    }
    slice.ranges.retain(|range| !range.is_empty(order));
    let mut source = VecSource::new(order, view.fragments(order), &slice);
    let mut out = Vec::new();
    loop {
        let before = out.len();
        let budget = Budget { fragments_max: usize::MAX, bytes_max: usize::MAX };
        if source.try_fill(budget, &mut out).is_none_or(|filled| filled.is_err())
            || out.len() == before
        {
            return out;
        }
    }
}

/// Adds what the next stretches were to what was merged before them.
pub fn append(schema: &TableSchema, all: &mut Vec<FrozenMutation>, next: Vec<FrozenMutation>) {
    for mutation in next {
        let same = |a: &FrozenMutation| {
            let keys = (FrozenView::trusted(&a.0), FrozenView::trusted(&mutation.0));
            matches!(keys, (Ok(a), Ok(b)) if a.key() == b.key())
        };
        match all.last_mut().filter(|last| same(last)) {
            Some(last) => *last = merge_two(schema, last, &mutation),
            None => all.push(mutation),
        }
    }
    debug_assert!(all.iter().all(|one| one.view().is_ok()), "same-page: a damaged mutation");
}

/// What is left to be asked for of a command whose page has these rows, and ends at a cut.
pub fn rest(command: &ReadCommand, page: &Page, reached: &Resume) -> ReadCommand {
    let mut next = ReadCommand { resume: Some(reached.clone()), ..command.clone() };
    next.row_limit = command.row_limit.saturating_sub(page.row_count).max(1);
    if let Partitions::Key(_) = command.partitions {
        let before = command.resume.as_ref().map_or(0, |resume| resume.rows_in_partition);
        let rows_in_partition = before + page.row_count;
        next.resume = Some(Resume { rows_in_partition, ..reached.clone() });
    }
    debug_assert!(0 < next.row_limit, "same-page: no rows are asked for");
    crate::range::settle(next)
}

#[cfg(test)]
mod tests;
