//! Sync points: whether all hints that there were at a moment have been sent.
//!
//! A point names, of each shard and each node, the last segment that had hints then. It is given to
//! an operator as text and comes back, perhaps after a restart.
//!
//! ```text
//! point := version:u8 host:16 shards:be16 (shard:be16 target:16 number:be64)* crc32:be32
//! ```
//!
//! Invariants
//!  - *one-form*: a point that is taken is made of the same bytes again.
//!  - *sent-by-then*: a point is reached only when each hint from before it was sent or dropped.

use super::Hints;
use model::Uuid;
use runtime::Erased;
use runtime::time::{Instant, sleep, timeout};
use std::time::Duration;
use stdx::checksum::crc32;
use stdx::{Cursor, Damaged, Put};

const VERSION: u8 = 4;
/// How long a shard waits until its hints are on the disk.
const MARK_TIME: Duration = Duration::from_secs(10);
/// Between two looks whether a point is reached.
const LOOK: Duration = Duration::from_millis(100);

/// The last segment of a shard for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    shard: u16,
    target: Uuid,
    number: u64,
}

/// A moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Whose hints they are.
    host: Uuid,
    shards: u16,
    places: Vec<Place>,
}

impl Point {
    pub fn encode(&self) -> Vec<u8> {
        debug_assert!(self.places.is_sorted_by(|a, b| a < b), "one-form: {:?}", self.places);
        let known = self.places.iter().all(|place| place.shard < self.shards);
        debug_assert!(known, "one-form: of {} shards: {:?}", self.shards, self.places);
        let mut out = Vec::with_capacity(23 + 26 * self.places.len());
        out.put_u8(VERSION);
        out.put(self.host.as_bytes());
        out.put_u16(self.shards);
        for Place { shard, target, number } in &self.places {
            out.put_u16(*shard);
            out.put(target.as_bytes());
            out.put_u64(*number);
        }
        out.put_u32(crc32(&out));
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Point, Damaged> {
        let Some((told, sum)) = bytes.split_last_chunk::<4>() else {
            return Err(Damaged::new("a sync point is too short", 0));
        };
        if told.first().is_some_and(|version| *version != VERSION) {
            return Err(Damaged::new("a sync point has an unknown version", 0));
        }
        if crc32(told) != u32::from_be_bytes(*sum) {
            return Err(Damaged::new("wrong checksum of the sync point", told.len() as u64));
        }
        let mut cursor = Cursor::new(told);
        cursor.u8("version of a sync point")?;
        let host = Uuid::from_bytes(cursor.array("host of a sync point")?);
        let shards = cursor.u16("shards of a sync point")?;
        let mut places: Vec<Place> = Vec::new();
        while !cursor.is_empty() {
            let shard = cursor.u16("shard of a sync point")?;
            let target = Uuid::from_bytes(cursor.array("node of a sync point")?);
            let place = Place { shard, target, number: cursor.u64("place of a sync point")? };
            let is_next = places.last().is_none_or(|last| *last < place);
            if shards <= shard || !is_next {
                return Err(cursor.damaged("a sync point has no order"));
            }
            places.push(place);
        }
        Ok(Point { host, shards, places })
    }
}

/// The moment that is now, of the hints for these nodes; of none: for all.
pub fn mark(host: Uuid, targets: Vec<Uuid>) -> Erased<'static, Point> {
    Erased::new(move || async move {
        let places = runtime::on_all_shards(move || {
            let targets = targets.clone();
            async move { mark_here(targets).await }
        });
        let mut places: Vec<Place> = places.await.into_iter().flatten().collect();
        places.sort_unstable();
        Point { host, shards: runtime::shard_count(), places }
    })
}

async fn mark_here(targets: Vec<Uuid>) -> Vec<Place> {
    let Some(hints) = Hints::of_shard() else { return Vec::new() };
    let mut places = Vec::new();
    for queue in hints.queues_of(&targets) {
        // What is not written by then goes to the next segment, or is dropped.
        let _ = timeout(MARK_TIME, queue.end_segment()).await;
        if !queue.is_empty() {
            let (shard, target) = (runtime::shard_id(), queue.host);
            places.push(Place { shard, target, number: queue.last() });
        }
    }
    places
}

/// Whether a point of this node is reached, or is within that time. Refuses those of others.
pub fn wait(host: Uuid, point: Point, time: Duration) -> Erased<'static, Result<bool, String>> {
    Erased::new(move || async move {
        if point.host != host {
            return Err(format!("the sync point is of node {}", point.host));
        }
        if point.shards != runtime::shard_count() {
            return Err(format!("the node has no longer {} shards", point.shards));
        }
        let until = Instant::now() + time;
        loop {
            let places = point.places.clone();
            let reached = runtime::on_all_shards(move || {
                let places = places.clone();
                async move { is_reached_here(&places) }
            });
            if reached.await.into_iter().all(|reached| reached) {
                return Ok(true);
            }
            if until <= Instant::now() {
                return Ok(false);
            }
            sleep(LOOK).await;
        }
    })
}

fn is_reached_here(places: &[Place]) -> bool {
    let Some(hints) = Hints::of_shard() else { return false };
    let shard = runtime::shard_id();
    places.iter().filter(|place| place.shard == shard).all(|place| {
        let queues = hints.queues.borrow();
        queues.get(&place.target).is_none_or(|queue| queue.is_past(place.number))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn points_are_read_back(
            (host, shards) in (any::<u128>(), 1u16..9),
            places: BTreeSet<(u16, u128, u64)>,
            at in any::<prop::sample::Index>(),
        ) {
            let place = |(shard, target, number): (u16, u128, u64)| {
                Place { shard: shard % shards, target: Uuid::from_u128(target), number }
            };
            let places: BTreeSet<Place> = places.into_iter().map(place).collect();
            let places = places.into_iter().collect();
            let point = Point { host: Uuid::from_u128(host), shards, places };
            let mut bytes = point.encode();
            prop_assert_eq!(Point::decode(&bytes), Ok(point));
            let at = at.index(bytes.len());
            bytes[at] ^= 1;
            prop_assert!(Point::decode(&bytes).is_err());
        }

        #[test]
        fn any_bytes_are_a_point_or_damage(bytes in proptest::collection::vec(any::<u8>(), 0..90)) {
            let mut bytes = [&[VERSION][..], &bytes].concat();
            bytes.extend_from_slice(&crc32(&bytes).to_be_bytes());
            if let Ok(point) = Point::decode(&bytes) {
                prop_assert_eq!(point.encode(), bytes);
            }
        }
    }
}
