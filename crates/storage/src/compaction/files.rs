//! The SSTables of a tablet as strategies see them, and which part of one a tablet has.

use super::policy::File;
use crate::table::Tablet;
use model::Token;
use std::rc::Rc;

/// The SSTables that lie in this tablet with all they hold.
pub(crate) fn own_sstables(tablet: &Tablet) -> Vec<Rc<sstable::Table>> {
    let all = tablet.sstables.borrow();
    all.iter().filter(|one| tablet.holds_all_of(one)).cloned().collect()
}

/// The SSTables of this tablet that lie in others as well.
pub(crate) fn shared_sstables(tablet: &Tablet) -> Vec<Rc<sstable::Table>> {
    let all = tablet.sstables.borrow();
    all.iter().filter(|one| !tablet.holds_all_of(one)).cloned().collect()
}

/// What a strategy is told of an SSTable.
pub(crate) fn file_of(one: &sstable::Table, now_micros: i64) -> File {
    let made_at = one.descriptor().generation.made_at_micros();
    File {
        bytes: one.data_bytes(),
        tokens: (one.first_key().token, one.last_key().token),
        level: one.stats().level,
        run: one.scylla().run_id,
        timestamps: one.timestamps(),
        age: made_at.map_or(i64::MAX, |made_at| (now_micros - made_at) / 1_000_000),
        droppable: 0.0,
        expired: false,
        busy: false,
        merged: 0.0,
    }
}

/// Which part of the tokens from the first to the last lies in a range: after its first token, up
/// to its second.
fn part_of((first, last): (Token, Token), (after, until): (Token, Token)) -> f64 {
    let start = (after.0 as i128 + 1).max(first.0 as i128);
    let end = (until.0 as i128).min(last.0 as i128);
    debug_assert!(after <= until, "a range after {after:?} to {until:?}");
    let all = last.0 as i128 - first.0 as i128 + 1;
    let part = (end - start + 1).max(0) as f64 / all.max(1) as f64;
    debug_assert!(part <= 1.0, "{part} of {first:?} to {last:?}");
    part
}

/// Which part of the tokens from the first to the last a tablet has, about.
pub(crate) fn part_of_tablet(tokens: (Token, Token), tablet: &Tablet) -> f64 {
    let shards = tablet.share.map_or(1, |share| share.sharder.shards());
    part_of(tokens, tablet.range) / f64::from(shards)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_by_tokens() {
        let check = |tokens: (i64, i64), range: (i64, i64), expected| {
            let pair = |(a, b): (i64, i64)| (Token(a), Token(b));
            assert_eq!(part_of(pair(tokens), pair(range)), expected, "{tokens:?} {range:?}");
        };
        let (min, max) = (i64::MIN, i64::MAX);
        check((1, 100), (min, max), 1.0);
        check((1, 100), (0, 100), 1.0);
        check((1, 100), (0, 25), 0.25);
        check((1, 100), (75, max), 0.25);
        check((1, 100), (25, 75), 0.5);
        check((1, 100), (100, max), 0.0);
        check((1, 100), (-9, 0), 0.0);
        check((7, 7), (6, 7), 1.0);
        check((min + 1, max), (-1, max), 0.5);
    }
}
