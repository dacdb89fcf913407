//! What of a flush goes to which window of time, in tables that are compacted by windows: an
//! SSTable with data of several belongs to the newest of them, and what is old in it goes with
//! that one. Pure.
//!
//! Invariants
//!  - *nothing-lost*: the parts merge to what was divided.
//!  - *streams*: each part is a stream as the whole is: partitions begin and end, and no range
//!    tombstone outlives its partition.
//!  - *few*: there are no more parts than [`PARTS_MAX`]; what is of another window goes to the
//!    closest.

use crate::compaction::Windows;
use model::DecoratedKey;
use mutation::{Fragment, RowView, Tombstone};

/// Parts of one flush, at most: each takes buffers while it is written.
pub(super) const PARTS_MAX: usize = 16;

/// Divides a stream. Parts are numbered as they come up.
pub(super) struct Division {
    windows: Windows,
    parts: Vec<Part>,
    /// Of the partition that is divided.
    key: Option<DecoratedKey>,
    /// The part with the range tombstone that holds.
    range: Option<usize>,
}

struct Part {
    window: i64,
    /// Whether the partition has begun there.
    begun: bool,
}

impl Division {
    pub(super) fn new(windows: Windows) -> Division {
        Division { windows, parts: Vec::new(), key: None, range: None }
    }

    /// Takes a fragment; appends what is to be written, with its part.
    pub(super) fn push(&mut self, fragment: &Fragment, out: &mut Vec<(usize, Fragment)>) {
        match fragment {
            Fragment::PartitionStart { key, tombstone } => {
                assert!(self.key.is_none(), "streams: a partition within another: {key:?}");
                debug_assert!(self.parts.iter().all(|part| !part.begun), "streams: one is open");
                self.key = Some(key.clone());
                if !tombstone.is_none() {
                    let part = self.part_of(tombstone.timestamp);
                    self.begin(part, *tombstone, out);
                }
            }
            Fragment::StaticRow { row } | Fragment::Row { row, .. } => {
                let part = self.part_of(RowView::trusted(row).last_update());
                self.begin(part, Tombstone::NONE, out);
                out.push((part, fragment.clone()));
            }
            Fragment::RangeTombstoneChange { position, tombstone } => {
                let next = (!tombstone.is_none()).then(|| self.part_of(tombstone.timestamp));
                let ended = self.range.filter(|part| Some(*part) != next);
                if let Some(part) = ended {
                    assert!(self.parts[part].begun, "streams: a tombstone of no partition");
                    let (position, tombstone) = (position.clone(), Tombstone::NONE);
                    out.push((part, Fragment::RangeTombstoneChange { position, tombstone }));
                }
                if let Some(part) = next {
                    self.begin(part, Tombstone::NONE, out);
                    out.push((part, fragment.clone()));
                }
                self.range = next;
            }
            Fragment::PartitionEnd => {
                for (at, part) in self.parts.iter_mut().enumerate().filter(|(_, part)| part.begun) {
                    part.begun = false;
                    out.push((at, Fragment::PartitionEnd));
                }
                assert!(self.range.is_none(), "streams: a range tombstone outlives its partition");
                self.key = None;
            }
        }
    }

    /// Begins the partition in a part, unless it has.
    fn begin(&mut self, at: usize, tombstone: Tombstone, out: &mut Vec<(usize, Fragment)>) {
        let part = &mut self.parts[at];
        if !part.begun {
            part.begun = true;
            let key = self.key.clone().expect("a partition begins before its fragments");
            out.push((at, Fragment::PartitionStart { key, tombstone }));
        }
    }

    fn part_of(&mut self, timestamp: i64) -> usize {
        let window = self.windows.of(timestamp);
        if let Some(at) = self.parts.iter().position(|part| part.window == window) {
            return at;
        }
        if self.parts.len() < PARTS_MAX {
            self.parts.push(Part { window, begun: false });
            return self.parts.len() - 1;
        }
        assert!(self.parts.len() == PARTS_MAX, "few: {} parts", self.parts.len());
        let distance = |at: &usize| self.parts[*at].window.abs_diff(window);
        (0..self.parts.len()).min_by_key(distance).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{V, clustering, key};
    use mutation::{Cell, CellState, ClusteringPosition, Marker, RowBuilder};
    use stdx::Bytes;

    fn start(number: u64, timestamp: Option<i64>) -> Fragment {
        let key = DecoratedKey::new(Bytes::from(key(number)));
        let tombstone = timestamp.map_or(Tombstone::NONE, |at| Tombstone::new(at, 1));
        Fragment::PartitionStart { key, tombstone }
    }

    fn row(number: u32, timestamps: [i64; 2]) -> Fragment {
        let mut row = RowBuilder::new(Vec::new());
        row.marker(Marker::Live { timestamp: timestamps[0] });
        let state = CellState::Live { value: b"v" };
        row.cell(V, Cell { timestamp: timestamps[1], state });
        let (key, row) = (clustering(&[number, 0]), row.finish());
        Fragment::Row { key: Bytes::from(key), row: Bytes::from(row) }
    }

    fn change(number: u32, timestamp: Option<i64>) -> Fragment {
        let position = ClusteringPosition::before(Bytes::from(clustering(&[number])));
        let tombstone = timestamp.map_or(Tombstone::NONE, |at| Tombstone::new(at, 1));
        Fragment::RangeTombstoneChange { position, tombstone }
    }

    /// Windows are ten units long.
    #[track_caller]
    fn check(whole: &[Fragment], parts: &[&[Fragment]]) {
        let mut division = Division::new(Windows::of_units(10));
        let mut out = Vec::new();
        whole.iter().for_each(|fragment| division.push(fragment, &mut out));
        let mut found = vec![Vec::new(); division.parts.len()];
        out.into_iter().for_each(|(part, fragment)| found[part].push(fragment));
        assert_eq!(found, parts);
    }

    const END: Fragment = Fragment::PartitionEnd;

    #[test]
    fn rows_go_to_the_window_of_what_is_newest_in_them() {
        let (a, b) = (row(1, [3, 14]), row(2, [5, 5]));
        check(
            &[start(1, None), a.clone(), b.clone(), END, start(2, None), b.clone(), END],
            &[&[start(1, None), a, END], &[start(1, None), b.clone(), END, start(2, None), b, END]],
        );
        check(&[start(1, None), END], &[]);
    }

    #[test]
    fn deletions_go_to_their_own() {
        let (a, b) = (row(2, [15, 15]), row(4, [25, 25]));
        let whole = [
            start(1, Some(5)),
            change(1, Some(16)),
            a.clone(),
            change(3, Some(26)),
            b.clone(),
            change(5, Some(27)),
            change(6, None),
            END,
        ];
        check(
            &whole,
            &[
                &[start(1, Some(5)), END],
                &[start(1, None), change(1, Some(16)), a, change(3, None), END],
                &[
                    start(1, None),
                    change(3, Some(26)),
                    b,
                    change(5, Some(27)),
                    change(6, None),
                    END,
                ],
            ],
        );
    }

    #[test]
    fn parts_are_few() {
        let mut division = Division::new(Windows::of_units(10));
        let places: Vec<_> = (0..40).map(|window| division.part_of(window * 10)).collect();
        assert_eq!(places[..PARTS_MAX], (0..PARTS_MAX).collect::<Vec<_>>());
        assert!(places[PARTS_MAX..].iter().all(|place| *place == PARTS_MAX - 1));
    }
}
