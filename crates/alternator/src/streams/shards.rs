//! The shards of a stream: a stream of the table's log each, for the time that its set was in use
//! and the stream was there. Pure.
//!
//! Invariants
//!  - *one-shard*: each change of a table while its stream is open is in one shard: that of its
//!    token in the set of its time.
//!  - *parent-first*: a shard begins when its parent ends. Of tablets that were merged one is the
//!    parent.

use super::history::{KEPT_MILLIS, Stream};
use super::sequence::Sequence;
use cluster::{StreamId, Streams};
use std::fmt::Write;

const PREFIX: &str = "shardId-";

/// The name of a shard: when its set came into use, milliseconds, and its stream in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShardId {
    pub(super) since: i64,
    pub(super) stream: StreamId,
}

impl ShardId {
    pub(super) fn text(self) -> String {
        let mut out = format!("{PREFIX}{:015}-", self.since.max(0));
        for byte in self.stream.0 {
            let _ = write!(out, "{byte:02x}");
        }
        out
    }

    pub(super) fn parse(text: &str) -> Option<ShardId> {
        let (since, hex) = text.strip_prefix(PREFIX)?.split_once('-')?;
        let is_hex = hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        let bits = u128::from_str_radix(hex, 16).ok().filter(|_| is_hex)?;
        let id = ShardId { since: since.parse().ok()?, stream: StreamId(bits.to_be_bytes()) };
        (id.text() == text).then_some(id)
    }
}

/// A shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shard {
    pub(super) id: ShardId,
    pub(super) parent: Option<ShardId>,
    pub(super) start: Sequence,
    /// What is written from then on, in microseconds, is elsewhere.
    pub(super) end_micros: Option<i64>,
}

/// Those of a stream of a table, in order of their names.
pub(super) fn of(streams: &Streams, of: &Stream, now_millis: i64) -> Vec<(String, Shard)> {
    let sets = streams.sets();
    let mut all = Vec::new();
    for (at, set) in sets.iter().enumerate() {
        let next = sets.get(at + 1).map(|next| next.since_millis());
        let start = set.since_millis().max(of.created);
        let end = match (next, of.closed) {
            (Some(next), Some(closed)) => Some(next.min(closed)),
            (next, closed) => next.or(closed),
        };
        if end.is_some_and(|end| end <= start || end < now_millis - KEPT_MILLIS) {
            continue;
        }
        // One that was over before the stream was there has no shards.
        let before = at.checked_sub(1).filter(|_| of.created < set.since_millis());
        for stream in set.streams() {
            let parent = before.map(|before| ShardId {
                since: sets[before].since_millis(),
                stream: sets[before].of(stream.token()),
            });
            let id = ShardId { since: set.since_millis(), stream: *stream };
            let end_micros = end.map(|millis| millis.saturating_mul(1000));
            let start = Sequence::at(start.saturating_mul(1000));
            all.push((id.text(), Shard { id, parent, start, end_micros }));
        }
    }
    all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    all
}

#[cfg(test)]
mod tests {
    use super::super::history::View;
    use super::*;
    use cluster::streams::StreamSet;
    use model::Token;
    use proptest::prelude::*;

    fn sets(all: &[(i64, &[i64])]) -> Streams {
        let one = |(since, lasts): &(i64, &[i64])| {
            let range = |(at, last): (usize, &i64)| {
                (Token(*last), vec![StreamId::new(Token(*last), at as u32, *since as u64)])
            };
            StreamSet::new(*since, lasts.iter().enumerate().map(range).collect())
        };
        Streams::of_sets(all.iter().map(one).collect()).expect("times ascend")
    }

    #[test]
    fn shards_follow_each_other() {
        let streams = sets(&[(100, &[i64::MAX]), (200, &[0, i64::MAX]), (300, &[i64::MAX])]);
        let told = |created: i64, closed: Option<i64>| {
            let stream = Stream { created, closed, view: View::KeysOnly };
            let all = of(&streams, &stream, 400).into_iter().map(|(_, shard)| {
                let parent = shard.parent.map(|parent| parent.since);
                (shard.id.since, parent, shard.start.micros() / 1000, shard.end_micros)
            });
            all.collect::<Vec<_>>()
        };
        assert_eq!(
            told(50, None),
            [
                (100, None, 100, Some(200_000)),
                (200, Some(100), 200, Some(300_000)),
                (200, Some(100), 200, Some(300_000)),
                (300, Some(200), 300, None),
            ]
        );
        assert_eq!(
            told(250, Some(350)),
            [
                (200, None, 250, Some(300_000)),
                (200, None, 250, Some(300_000)),
                (300, Some(200), 300, Some(350_000)),
            ]
        );
        assert_eq!(told(350, Some(360)), [(300, None, 350, Some(360_000))]);
    }

    proptest! {
        #[test]
        fn names_go_both_ways(since in 0i64..1 << 45, bytes: [u8; 16]) {
            let id = ShardId { since, stream: StreamId(bytes) };
            prop_assert_eq!(ShardId::parse(&id.text()), Some(id));
            prop_assert!(id.text().len() <= 65);
        }

        #[test]
        fn foreign_names_do_not_panic(text: String, rest in "[-0-9a-f]{0,50}") {
            let _ = (ShardId::parse(&text), ShardId::parse(&format!("{PREFIX}{rest}")));
        }
    }
}
