//! Counters: a sum of shards, one per replica that leads updates.
//!
//! ```text
//! shards := count:be16 (id:16 clock:be64 value:be64)*     sorted by id, unique
//! ```
//!
//! Invariants
//!  - *one-writer*: only the node `id` advances its shard's clock, so of two shards of one id the
//!    one with the larger clock contains the other.

use stdx::{Cursor, Damaged, Put};

const SHARD_BYTES: usize = 32;

/// A counter that nobody has changed.
pub const NO_SHARDS: [u8; 2] = [0; 2];

/// The identity of a shard: of the node that leads with it.
pub type ShardId = [u8; 16];

/// One node's part of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shard {
    pub id: ShardId,
    /// Advances with every update of this shard.
    pub clock: i64,
    pub value: i64,
}

/// Checks the length and that ids ascend.
pub fn check(bytes: &[u8]) -> Result<(), Damaged> {
    let mut cursor = Cursor::new(bytes);
    let count = cursor.u16("counter shard count")?;
    if cursor.remaining() != count as usize * SHARD_BYTES {
        return Err(cursor.damaged("counter of another length than its shard count"));
    }
    let mut last: Option<ShardId> = None;
    for shard in shards(bytes) {
        if last.is_some_and(|last| shard.id <= last) {
            return Err(Damaged::new("counter shards out of order", 2));
        }
        last = Some(shard.id);
    }
    Ok(())
}

/// The shards, in order of id; stops at a malformed one.
pub fn shards(bytes: &[u8]) -> impl Iterator<Item = Shard> + Clone + '_ {
    bytes.get(2..).unwrap_or(&[]).chunks_exact(SHARD_BYTES).map_while(|chunk| {
        let mut cursor = Cursor::new(chunk);
        let id = cursor.array("shard id").ok()?;
        let clock = cursor.i64("shard clock").ok()?;
        let value = cursor.i64("shard value").ok()?;
        Some(Shard { id, clock, value })
    })
}

/// The counter's value.
pub fn total(bytes: &[u8]) -> i64 {
    shards(bytes).fold(0i64, |sum, shard| sum.wrapping_add(shard.value))
}

/// A counter of one shard.
pub fn single(id: ShardId, clock: i64, value: i64) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 + SHARD_BYTES);
    write_all([Shard { id, clock, value }].into_iter(), &mut out);
    out
}

/// Appends shards; ids must ascend.
pub fn write_all(shards: impl Iterator<Item = Shard>, out: &mut Vec<u8>) {
    let start = out.len();
    out.put_u16(0);
    let mut count = 0u16;
    let mut last: Option<ShardId> = None;
    for shard in shards {
        assert!(last < Some(shard.id), "counter shards out of order");
        last = Some(shard.id);
        out.put(&shard.id);
        out.put_i64(shard.clock);
        out.put_i64(shard.value);
        count = count.checked_add(1).expect("a counter has a shard per node: under 65536");
    }
    out[start..start + 2].copy_from_slice(&count.to_be_bytes());
}

/// Appends the merge of two counters: of each id the shard with the larger clock.
pub fn merge(a: &[u8], b: &[u8], out: &mut Vec<u8>) {
    out.reserve(a.len() + b.len());
    let (mut a, mut b) = (shards(a).peekable(), shards(b).peekable());
    let merged = std::iter::from_fn(|| match (a.peek().copied(), b.peek().copied()) {
        (Some(x), Some(y)) if x.id == y.id => {
            a.next();
            b.next();
            Some(x.max(y))
        }
        (Some(x), Some(y)) if y.id < x.id => b.next(),
        (Some(_), _) => a.next(),
        (None, _) => b.next(),
    });
    write_all(merged, out);
}

/// Appends the counter after its leader `id` has added `delta`.
pub fn apply_delta(bytes: &[u8], id: ShardId, delta: i64, clock: i64, out: &mut Vec<u8>) {
    out.reserve(bytes.len() + SHARD_BYTES);
    let mine = shards(bytes).find(|shard| shard.id == id);
    let updated = match mine {
        Some(shard) => Shard {
            id,
            clock: clock.max(shard.clock.saturating_add(1)),
            value: shard.value.wrapping_add(delta),
        },
        None => Shard { id, clock, value: delta },
    };
    let before = shards(bytes).take_while(|shard| shard.id < id);
    let after = shards(bytes).skip_while(|shard| shard.id <= id);
    write_all(before.chain([updated]).chain(after), out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_counter() -> impl Strategy<Value = Vec<u8>> {
        let shards = proptest::collection::btree_map(0u8..5, (0i64..4, -3i64..4), 0..5);
        shards.prop_map(|shards| {
            let mut out = Vec::new();
            let shards = shards.into_iter();
            write_all(
                shards.map(|(id, (clock, value))| Shard { id: [id; 16], clock, value }),
                &mut out,
            );
            out
        })
    }

    fn merged(a: &[u8], b: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        merge(a, b, &mut out);
        out
    }

    proptest! {
        #[test]
        fn merging_commutes_associates_and_repeats(
            a in any_counter(), b in any_counter(), c in any_counter(),
        ) {
            prop_assert_eq!(merged(&a, &b), merged(&b, &a));
            prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
            prop_assert_eq!(merged(&a, &a), a.clone());
            prop_assert!(check(&merged(&a, &b)).is_ok());
        }

        #[test]
        fn a_delta_adds_and_wins(a in any_counter(), id in 0u8..6, delta in -9i64..9) {
            let mut out = Vec::new();
            apply_delta(&a, [id; 16], delta, 2, &mut out);
            prop_assert!(check(&out).is_ok());
            prop_assert_eq!(total(&out), total(&a) + delta);
            prop_assert_eq!(merged(&a, &out), out);
        }

        #[test]
        fn damage_is_found_or_harmless(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = check(&bytes);
            let _ = total(&bytes);
        }
    }

    #[test]
    fn shards_out_of_order_are_damaged() {
        let mut bytes = single([2; 16], 1, 1);
        bytes[1] = 2;
        bytes.extend_from_slice(&single([1; 16], 1, 1)[2..]);
        assert_eq!(check(&bytes).unwrap_err().what, "counter shards out of order");
    }
}
