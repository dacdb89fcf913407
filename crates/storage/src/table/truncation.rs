//! What makes a truncation durable: one small text file per shard in the table's directory. A shard
//! that had another part of the ring in an earlier run may have left a record there that is still
//! needed: then the file has both, one after the other.
//!
//! Ranges that are cleared (`shard::compact::clear`) have a record each, too, in the same file: of
//! those ranges and of no SSTable.
//!
//! ```text
//! nereid-truncation 1
//! at <microseconds>
//! before <segment> <offset>
//! old <base>
//! tablet <after token> <last token>     one line each
//! share <shard> of <shards>, <n> ignored bits    where the shard has only a part of those tokens
//! sstable <name of its Data file>       one line each
//! ```
//! Gone are the SSTables, and of the partitions in these tablets: log entries of the writing shard
//! before the position, and log entries of any shard in segments with a base up to `old` (those
//! that the run had found at its start).
//!
//! Invariants
//!  - *one-writer*: a shard writes the file of its number alone, and of its own truncations; what
//!    it writes is what the next start reads.

use crate::commitlog::{ReplayPosition, SegmentId};
use crate::error::StorageError;
use model::{RingShare, Token};
use runtime::io::fs;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const FIRST_LINE: &str = "nereid-truncation 1";
const PREFIX: &str = "truncated-";

/// One truncation of a table, on one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Truncation {
    pub(crate) at_micros: i64,
    pub(crate) before: ReplayPosition,
    pub(crate) old_base_max: u64,
    /// The tablets of the writing shard, or the ranges of them that were cleared: after the first
    /// token, up to the second.
    pub(crate) tablets: Vec<(Token, Token)>,
    /// What of the tokens in these the writing shard had, unless all.
    pub(crate) share: Option<RingShare>,
    pub(crate) sstables: Vec<String>,
}

impl Truncation {
    /// Whether an entry at that position, of a partition with that token, is gone.
    pub(crate) fn covers(&self, position: ReplayPosition, token: Token) -> bool {
        debug_assert!(
            self.tablets.iter().all(|(after, last)| after <= last),
            "tablets-in-order: {:?}",
            self.tablets
        );
        let segment = position.segment;
        let inside = |(after, last): &(Token, Token)| *after < token && token <= *last;
        let shared_out = self.share.is_some_and(|share| !share.holds(token));
        if shared_out || !self.tablets.iter().any(inside) {
            return false;
        }
        segment.base() <= self.old_base_max
            || (segment.shard() == self.before.segment.shard() && position < self.before)
    }

    fn print(&self) -> String {
        let mut out = format!("{FIRST_LINE}\nat {}\n", self.at_micros);
        let ReplayPosition { segment, offset } = self.before;
        // Writing to a string cannot fail.
        let _ = writeln!(out, "before {} {offset}\nold {}", segment.0, self.old_base_max);
        for (after, last) in &self.tablets {
            let _ = writeln!(out, "tablet {} {}", after.0, last.0);
        }
        if let Some(share) = self.share {
            let _ = writeln!(out, "share {share}");
        }
        for name in &self.sstables {
            let _ = writeln!(out, "sstable {name}");
        }
        out
    }

    /// Whether a later truncation by the same shard, in segments that are newer than all that this
    /// one has to do with, makes this one needless: it is of all these tablets.
    pub(crate) fn is_within(&self, later: &Truncation) -> bool {
        let covers = |(after, last): &(Token, Token)| {
            later.tablets.iter().any(|(from, until)| from <= after && last <= until)
        };
        debug_assert!(self.before.segment.shard() == later.before.segment.shard(), "of one shard");
        (later.share.is_none() || later.share == self.share) && self.tablets.iter().all(covers)
    }

    /// The records of a file.
    fn parse_all(text: &str) -> Option<Vec<Truncation>> {
        let starts = text.match_indices(FIRST_LINE).map(|(at, _)| at);
        let starts: Vec<usize> = starts.collect();
        if starts.first() != Some(&0) {
            return None;
        }
        let ends = starts.iter().skip(1).copied().chain([text.len()]);
        starts.iter().zip(ends).map(|(start, end)| Truncation::parse(&text[*start..end])).collect()
    }

    fn parse(text: &str) -> Option<Truncation> {
        let mut lines = text.lines();
        if lines.next()? != FIRST_LINE {
            return None;
        }
        let at_micros = lines.next()?.strip_prefix("at ")?.parse().ok()?;
        let (segment, offset) = lines.next()?.strip_prefix("before ")?.split_once(' ')?;
        let segment = SegmentId(segment.parse().ok()?);
        let before = ReplayPosition { segment, offset: offset.parse().ok()? };
        let old_base_max = lines.next()?.strip_prefix("old ")?.parse().ok()?;
        let (mut tablets, mut share, mut sstables) = (Vec::new(), None, Vec::new());
        for line in lines {
            if let Some(name) = line.strip_prefix("sstable ") {
                sstables.push(name.to_string());
                continue;
            }
            if let Some(text) = line.strip_prefix("share ") {
                share = Some(RingShare::parse(text)?);
                continue;
            }
            let (after, last) = line.strip_prefix("tablet ")?.split_once(' ')?;
            tablets.push((Token(after.parse().ok()?), Token(last.parse().ok()?)));
        }
        Some(Truncation { at_micros, before, old_base_max, tablets, share, sstables })
    }
}

fn path(dir: &Path, log_shard: u16) -> PathBuf {
    dir.join(format!("{PREFIX}{log_shard}"))
}

/// Makes a truncation durable, with those of the same shard that are still needed.
pub(crate) async fn store(
    dir: &Path,
    new: &Truncation,
    needed: &[Truncation],
) -> Result<(), StorageError> {
    let shard = new.before.segment.shard();
    assert!(
        needed.iter().all(|one| one.before.segment.shard() == shard),
        "one-writer: a record of another shard than {shard}"
    );
    let all: String = needed.iter().chain([new]).map(|one| one.print()).collect();
    debug_assert!(
        Truncation::parse_all(&all).is_some_and(|read| read.iter().eq(needed.iter().chain([new]))),
        "one-writer: not read back: {all}"
    );
    Ok(fs::write_file_atomic(&path(dir, shard), all.as_bytes()).await?)
}

/// The truncations that a directory records.
pub(crate) async fn load(dir: &Path) -> Result<Vec<Truncation>, StorageError> {
    let mut found = Vec::new();
    for entry in fs::list_dir(dir).await? {
        let number = entry.name.strip_prefix(PREFIX).and_then(|rest| rest.parse::<u16>().ok());
        let Some(number) = number else { continue };
        let file = path(dir, number);
        let bytes = fs::read_file(&file).await?;
        let parsed = std::str::from_utf8(&bytes).ok().and_then(Truncation::parse_all);
        let what = || "not a record of a truncation".to_string();
        found.extend(parsed.ok_or_else(|| StorageError::Damaged { file, what: what() })?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Sharder;

    fn sample() -> Truncation {
        Truncation {
            at_micros: -5,
            before: ReplayPosition { segment: SegmentId::new(2, 50), offset: 4096 },
            old_base_max: 40,
            tablets: vec![(Token::MIN, Token(-7)), (Token(5), Token(9))],
            share: None,
            sstables: vec!["me-1-big-Data.db".into(), "me-2-big-Data.db".into()],
        }
    }

    #[test]
    fn what_is_printed_is_parsed() {
        assert_eq!(Truncation::parse(&sample().print()), Some(sample()));
        for cut in ["", "nereid-truncation 2\n", "nereid-truncation 1\nat x\n"] {
            assert_eq!(Truncation::parse_all(cut), None);
        }
        let share = Some(RingShare { sharder: Sharder::of_node(3), shard: 1 });
        let other = Truncation { at_micros: 9, share, ..sample() };
        let both = sample().print() + &other.print();
        assert_eq!(Truncation::parse_all(&both), Some(vec![sample(), other]));
    }

    #[test]
    fn what_was_of_more_of_the_ring_is_needed_besides() {
        let of = |tablets: &[(i64, i64)]| {
            let tablets = tablets.iter().map(|(after, last)| (Token(*after), Token(*last)));
            Truncation { tablets: tablets.collect(), ..sample() }
        };
        let check = |older: &[(i64, i64)], later: &[(i64, i64)], needless| {
            assert_eq!(of(older).is_within(&of(later)), needless, "{older:?} {later:?}");
        };
        check(&[(0, 9)], &[(0, 9)], true);
        check(&[(0, 4), (5, 9)], &[(0, 9)], true);
        check(&[(0, 9)], &[(0, 4)], false);
        check(&[(0, 4), (20, 30)], &[(0, 9)], false);
        check(&[], &[(0, 4)], true);
    }

    #[test]
    fn a_share_is_covered_alone() {
        let of = |shards, shard| {
            let share = Some(RingShare { sharder: Sharder::of_node(shards), shard });
            Truncation { tablets: vec![(Token::MIN, Token::MAX)], share, ..sample() }
        };
        let position = ReplayPosition { segment: SegmentId::new(0, 40), offset: 9 };
        let token = Token(1 << 40);
        let owner = Sharder::of_node(2).shard_of(token);
        assert!(of(2, owner).covers(position, token) && !of(2, 1 - owner).covers(position, token));
        assert!(of(2, 0).is_within(&of(2, 0)) && !of(2, 0).is_within(&of(2, 1)));
        let all = Truncation { share: None, ..of(2, 0) };
        assert!(of(2, 0).is_within(&all) && !all.is_within(&of(2, 0)));
    }

    #[test]
    fn what_is_old_or_before_is_covered() {
        let check = |shard, base, offset, covered| {
            let position = ReplayPosition { segment: SegmentId::new(shard, base), offset };
            assert_eq!(sample().covers(position, Token(9)), covered, "{shard} {base} {offset}");
            assert!(!sample().covers(position, Token(5)) && !sample().covers(position, Token(10)));
        };
        check(0, 40, 9999, true);
        check(0, 41, 0, false);
        check(2, 49, 9999, true);
        check(2, 50, 4095, true);
        check(2, 50, 4096, false);
        check(3, 45, 0, false);
    }
}
