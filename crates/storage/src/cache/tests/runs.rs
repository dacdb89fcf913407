//! A run gives what a draft was given, in any slice and direction.

use super::super::run::{self, Draft, RUN_BYTES, RunView};
use super::world::{self, SHAPES, Shape};
use mutation::{
    ClusteringPosition, ClusteringRange, Direction, FrozenMutation, RangeTombstoneList,
};
use proptest::prelude::*;
use stdx::Prng;

/// A draft of what of a mutation lies in a range, as runs.
fn draft(
    schema: &model::TableSchema,
    mutation: &FrozenMutation,
    range: &ClusteringRange,
) -> Vec<(ClusteringPosition, Vec<u8>)> {
    let view = mutation.view().unwrap();
    let mut draft = Draft::new(range.start.clone());
    for (key, row) in view.rows().filter(|(key, _)| range.contains(&schema.order, (key, 0))) {
        draft.row(key, row.bytes());
    }
    view.ranges().for_each(|tombstone| draft.range(&schema.order, tombstone));
    let mut runs = Vec::new();
    draft.finish(&schema.order, &range.end, |start, run| runs.push((start.clone(), run.to_vec())));
    runs
}

fn check_run(
    schema: &model::TableSchema,
    run: &RunView<'_>,
    range: &ClusteringRange,
    mutation: &FrozenMutation,
) {
    let order = &schema.order;
    let view = mutation.view().unwrap();
    let within = run.interval().intersect(order, range);
    let inside = |key: &[u8]| within.as_ref().is_some_and(|all| all.contains(order, (key, 0)));
    let rows: Vec<(&[u8], &[u8])> =
        view.rows().filter(|(key, _)| inside(key)).map(|(key, row)| (key, row.bytes())).collect();
    assert!(run.rows(order, range).eq(rows.iter().copied()));
    assert!(run.rows(order, range).rev().eq(rows.iter().rev().copied()));
    for (key, row) in view.rows() {
        let expected = run.interval().contains(order, (key, 0)).then(|| row.bytes());
        assert_eq!(run.find(order, key), expected);
    }
    let mut list = RangeTombstoneList::new();
    view.ranges().for_each(|range| list.insert(order, range));
    for direction in [Direction::Forward, Direction::Reversed] {
        let expected = within.as_ref().map(|within| list.changes(order, within, direction));
        assert_eq!(run.changes(order, range, direction), expected.unwrap_or_default());
    }
}

proptest! {
    #[test]
    fn runs_give_what_was_drafted(seed: u64, shape in prop::sample::select(&SHAPES)) {
        let mut prng = Prng::from_seed(seed);
        let schema = shape.schema();
        let order = &schema.order;
        let key = &world::keys()[0];
        let mut all = world::mutation(&mut prng, shape, &schema, key);
        for _ in 0..prng.below(4) {
            let more = world::mutation(&mut prng, shape, &schema, key);
            all = mutation::frozen::merge(&schema, all.view().unwrap(), more.view().unwrap());
        }
        let whole = world::range(&mut prng, shape, order);
        let runs = draft(&schema, &all, &whole);
        let mut at = whole.start.clone();
        for (start, bytes) in &runs {
            let run = RunView::of(bytes);
            prop_assert_eq!(start.as_parts(), run.start());
            prop_assert_eq!(at.as_parts(), run.start(), "runs touch");
            at = run.interval().end;
            let is_small = bytes.len() <= 2 * RUN_BYTES || run.row_count() <= 2;
            prop_assert!(is_small || run.has_tombstones());
            let slice = world::range(&mut prng, shape, order);
            check_run(&schema, &run, &slice, &all);
            run::clip(order, &run, &slice, |_, clipped| {
                let clipped = RunView::of(clipped);
                let part = world::slice(&schema, key, Some(&all), &clipped.interval());
                check_run(&schema, &clipped, &ClusteringRange::full(), &part);
            });
        }
        prop_assert_eq!(&at, &whole.end);
        for pair in runs.windows(2) {
            let (left, right) = (RunView::of(&pair[0].1), RunView::of(&pair[1].1));
            let mut rows = 0;
            run::join(order, (&left, &right), |_, joined| {
                let joined = RunView::of(joined);
                rows += joined.row_count();
                check_run(&schema, &joined, &ClusteringRange::full(), &all);
            });
            prop_assert_eq!(rows, left.row_count() + right.row_count());
        }
    }
}

#[test]
fn rows_over_sixty_four_kibibytes_have_wide_ends() {
    let schema = Shape::Descending.schema();
    let mut draft = Draft::new(ClusteringPosition::start());
    for (index, len) in [(3, 10), (2, 70_000), (1, 10)] {
        draft.row(&crate::testing::clustering(&[index]), &vec![index as u8; len]);
    }
    let mut lengths = Vec::new();
    draft.finish(&schema.order, &ClusteringPosition::end(), |_, run| {
        let view = RunView::of(run);
        lengths.extend(view.all_rows().map(|(_, row)| row.len()));
    });
    assert_eq!(lengths, [10, 70_000, 10]);
}

#[test]
fn a_row_alone_is_written_as_a_draft_writes_it() {
    let order = crate::testing::schema(1, "t").order;
    for (key_bytes, row_bytes) in [(0, 0), (0, 5), (7, 0), (9, 300), (200, RUN_BYTES)] {
        let (key, row) = (vec![1; key_bytes], vec![2; row_bytes]);
        let mut draft = Draft::new(ClusteringPosition::start());
        draft.row(&key, &row);
        let (mut expected, mut written) = (vec![9], vec![9]);
        draft.take_whole(&order, &mut expected);
        run::write_only_row(&mut written, &key, &row);
        assert_eq!(written, expected, "{key_bytes} {row_bytes}");
        let view = RunView::of(&written[1..]);
        let (key_at, row_at) = view.bytes_of(0).unwrap();
        assert_eq!((&written[1..][key_at], &written[1..][row_at]), view.row(0));
        assert_eq!(view.bytes_of(1), None);
    }
}
