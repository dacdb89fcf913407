//! Reading a range of the ring tablet by tablet. Pure.
//!
//! Invariants
//!  - *no-gap*: the parts of a range are its tablets in token order; the next part is read only
//!    when the one before has nothing left, and with what is left of the limits.
//!  - *within-limits*: an answer has no more rows and partitions than its command allows.
//!  - *forward*: an answer is resumed at a place behind the one at which its command began.

use model::{ClusteringOrder, TableSchema, TabletMap, Token};
use mutation::page::{Page, PageView, Partitions, ReadCommand, Resume, RingBound, SendRange};
use std::cmp::Ordering;
use stdx::Damaged;

/// Prepares a command to be cut into parts: where it resumes, its range starts.
pub fn settle(mut command: ReadCommand) -> ReadCommand {
    let Some(resume) = command.resume.take() else { return command };
    if let Partitions::Range { start, .. } = &mut command.partitions {
        let after = resume.after.is_none();
        let token = Token::of(&resume.key);
        let bound = RingBound { token, key: Some(resume.key.clone()), after };
        if compare(start, &bound) == Ordering::Less {
            *start = bound;
        }
        if after {
            return command;
        }
    }
    command.resume = Some(resume);
    command
}

/// Whether a command of one partition reads rows that it names, so that there are no more of them.
pub(crate) fn names_rows(command: &ReadCommand, schema: &TableSchema) -> bool {
    debug_assert!(command.table == schema.id, "a command of another table");
    let is_row = |range: &SendRange| {
        range.start.0 == range.end.0
            && model::key::clustering_components(&range.start.0).count() == schema.clustering_count
    };
    schema.clustering_count == 0 || command.ranges.iter().all(is_row)
}

/// A command of another node against the schema: its ranges ascend and do not overlap.
pub(crate) fn check_ranges(command: &ReadCommand, order: &ClusteringOrder) -> Result<(), Damaged> {
    debug_assert!(command.static_count <= command.columns.len(), "statics-first: too many");
    match are_apart(&command.ranges, order) {
        true => Ok(()),
        false => Err(Damaged::new("ranges of a read out of order", 0)),
    }
}

/// Whether ranges of rows ascend and do not overlap.
pub(crate) fn are_apart(ranges: &[SendRange], order: &ClusteringOrder) -> bool {
    let place = |at: &(Vec<u8>, i8), then: &(Vec<u8>, i8)| {
        order.compare((&at.0, at.1), (&then.0, then.1)).is_le()
    };
    let each = ranges.iter().all(|range| place(&range.start, &range.end));
    each && ranges.windows(2).all(|pair| place(&pair[0].end, &pair[1].start))
}

/// The tablet in which a settled command begins.
pub fn first_tablet(command: &ReadCommand, tablets: &TabletMap) -> usize {
    let index = match &command.partitions {
        Partitions::Range { start, .. } => tablets.tablet_of(start.token),
        Partitions::Key(key) => tablets.tablet_of(Token::of(key)),
    };
    assert!(index < tablets.count(), "no-gap: a token of no tablet");
    index
}

/// Asserts *within-limits* and *forward* of a page that answers a command.
#[inline]
pub(crate) fn check_page(command: &ReadCommand, page: &Page) {
    if !cfg!(debug_assertions) {
        return;
    }
    let (rows, partitions) = (page.row_count, page.partition_count);
    debug_assert!(rows <= command.row_limit, "within-limits: {rows} rows");
    debug_assert!(partitions <= command.partition_limit, "within-limits: {partitions} partitions");
    debug_assert!(page.bytes.is_empty() == (rows == 0), "within-limits: {rows} rows in no bytes");
    let Some(resume) = &page.resume else { return };
    match &command.partitions {
        Partitions::Key(key) => {
            debug_assert!(*key == resume.key, "forward: in another partition than was read");
        }
        Partitions::Range { start, .. } => {
            let token = Token::of(&resume.key);
            debug_assert!(start.token <= token, "forward: back to {token:?}");
        }
    }
}

/// Asserts *forward* of two resumptions, of which the second answered a command with the first.
pub(crate) fn check_progress(before: Option<&Resume>, after: &Resume) {
    let place = |resume: &Resume| (Token::of(&resume.key), resume.key.clone());
    let order = before.map(|before| place(before).cmp(&place(after)));
    assert!(order != Some(Ordering::Greater), "forward: a scan goes back to {:?}", after.key);
}

/// The part of a settled command that is in tablet `index`, with what `answer` leaves of the
/// limits; `None` when the range ends before the tablet.
pub fn part(
    command: &ReadCommand,
    tablets: &TabletMap,
    index: usize,
    answer: &Page,
) -> Option<ReadCommand> {
    let Partitions::Range { start, end } = &command.partitions else { return None };
    debug_assert!(answer.resume.is_none(), "no-gap: tablet {index} is read too early");
    debug_assert!(answer.row_count <= command.row_limit, "within-limits: too many rows so far");
    let (before, last) = tablets.range(index);
    let tablet_start = RingBound { token: before, key: None, after: 0 < index };
    let tablet_end = RingBound { token: last, key: None, after: true };
    if compare(end, &tablet_start) != Ordering::Greater {
        return None;
    }
    let start = later(start, tablet_start).clone();
    let end = earlier(end, tablet_end);
    let first = first_tablet(command, tablets);
    assert!(first <= index, "no-gap: tablet {index} is before the first, {first}");
    let is_first = index == first;
    Some(ReadCommand {
        partitions: Partitions::Range { start, end },
        row_limit: command.row_limit.saturating_sub(answer.row_count),
        partition_limit: command.partition_limit.saturating_sub(answer.partition_count),
        bytes_max: command.bytes_max.saturating_sub(answer.bytes.len()),
        tombstone_limit: command.tombstone_limit.saturating_sub(answer.tombstones_seen),
        resume: if is_first { command.resume.clone() } else { None },
        ..command.clone()
    })
}

/// The part of a settled command that lies behind a token (from its start on, where none is given)
/// and up to another one, that one included, with what `answer` leaves of the limits; `None`: there
/// is none.
pub(crate) fn stretch(
    command: &ReadCommand,
    (behind, last): (Option<Token>, Token),
    answer: &Page,
) -> Option<ReadCommand> {
    let Partitions::Range { start, end } = &command.partitions else { return None };
    debug_assert!(answer.resume.is_none(), "no-gap: the stretch to {last:?} is read too early");
    debug_assert!(behind < Some(last), "no-gap: a stretch from {behind:?} to {last:?}");
    let start = match behind {
        Some(token) => later(start, RingBound { token, key: None, after: true }),
        None => start.clone(),
    };
    let end = earlier(end, RingBound { token: last, key: None, after: true });
    if compare(&start, &end) != Ordering::Less {
        return None;
    }
    Some(ReadCommand {
        partitions: Partitions::Range { start, end },
        row_limit: command.row_limit.saturating_sub(answer.row_count),
        partition_limit: command.partition_limit.saturating_sub(answer.partition_count),
        bytes_max: command.bytes_max.saturating_sub(answer.bytes.len()),
        tombstone_limit: command.tombstone_limit.saturating_sub(answer.tombstones_seen),
        resume: command.resume.clone().filter(|_| behind.is_none()),
        ..command.clone()
    })
}

/// Whether the page of a part that was `asked` for has no more than there is room for by now.
pub(crate) fn fits(asked: &ReadCommand, room: &ReadCommand, page: &Page) -> bool {
    let limits =
        |it: &ReadCommand| (it.row_limit, it.partition_limit, it.bytes_max, it.tombstone_limit);
    debug_assert!(asked.partitions == room.partitions, "no-gap: the room of another part");
    debug_assert!(
        room.row_limit <= asked.row_limit,
        "within-limits: there is more room than before"
    );
    // A page is cut by the row or tombstone that reaches a limit of the latter two.
    let has_room = page.row_count <= room.row_limit
        && page.partition_count <= room.partition_limit
        && page.bytes.len() < room.bytes_max
        && page.tombstones_seen < room.tombstone_limit;
    limits(asked) == limits(room) || has_room
}

/// How many parts of a range are to be read next, `most` at most: as many as fill the answer if
/// they are like the `read` ones before.
pub(crate) fn ahead(command: &ReadCommand, answer: &Page, read: usize, most: usize) -> usize {
    debug_assert!(answer.resume.is_none(), "no-gap: a full answer needs no more");
    let parts = |so_far: u64, limit: u64| match so_far {
        0 => most as u64,
        _ => limit.saturating_sub(so_far).saturating_mul(read as u64) / so_far,
    };
    let wanted = parts(answer.row_count, command.row_limit)
        .min(parts(answer.partition_count, command.partition_limit))
        .min(parts(answer.bytes.len() as u64, command.bytes_max as u64))
        .min(parts(answer.tombstones_seen, command.tombstone_limit));
    usize::try_from(wanted).unwrap_or(most).clamp(1, most.max(1))
}

/// Adds the page of a part to the answer.
pub fn append(answer: &mut Page, mut page: Page) {
    assert!(answer.resume.is_none(), "no-gap: a part is added to one that has something left");
    if answer.bytes.is_empty() {
        answer.bytes = page.bytes;
    } else {
        answer.bytes.append(&mut page.bytes);
    }
    answer.row_count += page.row_count;
    answer.partition_count += page.partition_count;
    answer.tombstones_seen += page.tombstones_seen;
    answer.opened.0 += page.opened.0;
    answer.resume = page.resume;
}

/// Where an answer that has reached a limit with its last partition goes on; `None`: it has not.
pub(crate) fn full_at(command: &ReadCommand, answer: &Page) -> Option<Resume> {
    let is_full = command.row_limit <= answer.row_count
        || command.partition_limit <= answer.partition_count
        || command.bytes_max <= answer.bytes.len();
    debug_assert!(command.shape == mutation::RowShape::Whole, "forward: a range in pieces");
    let partitions = PageView::trusted(&answer.bytes, command.layout()).partitions();
    let last = partitions.last().filter(|_| is_full)?;
    Some(Resume { key: last.key().to_vec(), after: None, rows_in_partition: 0 })
}

/// The order of bounds on the ring.
fn compare(a: &RingBound, b: &RingBound) -> Ordering {
    a.token.cmp(&b.token).then_with(|| match (&a.key, &b.key) {
        (Some(x), Some(y)) => x.cmp(y).then(a.after.cmp(&b.after)),
        (None, None) => a.after.cmp(&b.after),
        // A bound without a key lies before or after all keys of its token.
        (None, Some(_)) if a.after => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) if b.after => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
    })
}

fn later(a: &RingBound, b: RingBound) -> RingBound {
    if compare(a, &b) == Ordering::Less { b } else { a.clone() }
}

fn earlier(a: &RingBound, b: RingBound) -> RingBound {
    if compare(a, &b) == Ordering::Greater { b } else { a.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mutation::testing::{clustering, partition_key, schema};
    use proptest::prelude::*;

    #[test]
    fn rows_are_named_by_whole_keys() {
        let schema = schema();
        let check = |ranges: &[SendRange], expected| {
            let command = ReadCommand::all(schema.id, Partitions::Key(partition_key(1)), 0);
            let command = ReadCommand { ranges: ranges.to_vec(), ..command };
            assert_eq!(names_rows(&command, &schema), expected, "{ranges:?}");
        };
        let row = |c| SendRange::of_prefix(&clustering(c, "x"));
        let mut prefix = Vec::new();
        model::key::push_clustering(&1i32.to_be_bytes(), &mut prefix);
        check(&[row(1), row(2)], true);
        check(&[row(1), SendRange::of_prefix(&prefix)], false);
        check(&[SendRange::full()], false);
        check(&[SendRange { start: row(1).start, end: row(2).end }], false);
        check(&[], true);
        let mut flat = schema.clone();
        flat.clustering_count = 0;
        let command = ReadCommand::all(flat.id, Partitions::Key(partition_key(1)), 0);
        assert!(names_rows(&command, &flat));
    }

    #[test]
    fn as_many_parts_are_read_ahead_as_fill_the_answer() {
        let (from, to) = (Token(i64::MIN + 1), Token(i64::MAX));
        let bound = |token, after| RingBound { token, key: None, after };
        let wanted = command(bound(from, false), bound(to, true));
        let answer = |row_count, bytes| Page {
            bytes: vec![0; bytes],
            row_count,
            partition_count: row_count.min(1),
            ..Page::default()
        };
        let check = |row_count, bytes, read, most, expected| {
            assert_eq!(ahead(&wanted, &answer(row_count, bytes), read, most), expected);
        };
        check(0, 0, 1, 2, 2);
        check(0, 0, 3, 4, 4);
        // Of 10 rows and 1 000 bytes.
        check(1, 10, 1, 16, 9);
        check(5, 10, 1, 16, 1);
        check(9, 10, 1, 16, 1);
        check(1, 500, 4, 16, 4);
        let room = ReadCommand { row_limit: 4, bytes_max: 100, ..wanted.clone() };
        for (rows, bytes, expected) in [(4, 99, true), (5, 99, false), (4, 100, false)] {
            assert_eq!(fits(&wanted, &room, &answer(rows, bytes)), expected);
            assert!(fits(&room, &room, &answer(rows, bytes)), "it was asked for with that");
        }
    }

    fn command(start: RingBound, end: RingBound) -> ReadCommand {
        ReadCommand {
            table: model::Uuid::from_u128(1),
            partitions: Partitions::Range { start, end },
            ranges: vec![SendRange::full()],
            reversed: false,
            columns: Vec::new(),
            static_count: 0,
            row_limit: 10,
            per_partition_limit: 10,
            partition_limit: 10,
            bytes_max: 1000,
            static_only_rows: true,
            tombstone_limit: 1000,
            now: 0,
            bypass_cache: false,
            shape: mutation::RowShape::Whole,
            resume: None,
        }
    }

    fn holds(command: &ReadCommand, token: Token, key: &[u8]) -> bool {
        let Partitions::Range { start, end } = &command.partitions else { return false };
        start.place(token, key).is_gt() && end.place(token, key).is_lt()
    }

    fn any_token() -> impl Strategy<Value = Token> {
        prop_oneof![
            any::<i64>().prop_map(|token| Token(token.max(i64::MIN + 1))),
            (0usize..8).prop_map(|index| TabletMap::tablets(8, 3).last_tokens()[index]),
        ]
    }

    fn any_bound() -> impl Strategy<Value = RingBound> {
        let key = proptest::option::of(proptest::collection::vec(0u8..3, 0..2));
        (any_token(), key, any::<bool>()).prop_map(|(token, key, after)| RingBound {
            token,
            key,
            after,
        })
    }

    proptest! {
        #[test]
        fn the_parts_are_the_range(
            start in any_bound(),
            end in any_bound(),
            tokens in proptest::collection::vec(any_token(), 1..20),
        ) {
            let tablets = TabletMap::tablets(8, 3);
            let whole = settle(command(start, end));
            for token in tokens {
                let key = b"\x01";
                let first = first_tablet(&whole, &tablets);
                let parts: Vec<usize> = (first..tablets.count())
                    .filter(|index| {
                        let part = part(&whole, &tablets, *index, &Page::default());
                        part.is_some_and(|part| holds(&part, token, key))
                    })
                    .collect();
                let owner = tablets.tablet_of(token);
                let expected = if holds(&whole, token, key) { vec![owner] } else { vec![] };
                prop_assert_eq!(parts, expected);
            }
        }
    }

    #[test]
    fn limits_shrink_and_only_the_first_part_resumes() {
        let tablets = TabletMap::tablets(4, 2);
        let bound = |token, after| RingBound { token, key: None, after };
        let mut read = command(bound(Token::MIN, false), bound(Token::MAX, true));
        let key = b"key".to_vec();
        let place = Token::of(&key);
        let after = Some((vec![1], 1));
        read.resume = Some(Resume { key: key.clone(), after, rows_in_partition: 2 });
        let read = settle(read);
        let first = first_tablet(&read, &tablets);
        assert_eq!(first, tablets.tablet_of(place));
        let answer = Page { row_count: 4, bytes: vec![0; 100], ..Page::default() };
        let part = |index| part(&read, &tablets, index, &answer);
        assert_eq!(part(first).and_then(|part| part.resume), read.resume);
        assert!(holds(&read, place, &key));
        if first + 1 < tablets.count() {
            let next = part(first + 1).expect("the range goes on");
            assert_eq!((next.resume, next.row_limit, next.bytes_max), (None, 6, 900));
        }
    }

    #[test]
    fn a_partition_that_is_done_is_left_out() {
        let bound = |token, after| RingBound { token, key: None, after };
        let mut read = command(bound(Token::MIN, false), bound(Token::MAX, true));
        let key = b"key".to_vec();
        read.resume = Some(Resume { key: key.clone(), after: None, rows_in_partition: 0 });
        let read = settle(read);
        assert_eq!(read.resume, None);
        assert!(!holds(&read, Token::of(&key), &key));
        assert!(holds(&read, Token::of(&key), b"kez"));
    }
}
