//! The UUIDs of a shard: time-based and random ones.
//!
//! Invariants
//!  - *never-back*: ticks ascend strictly, whatever the wall clock does.

use model::Uuid;
use model::value::timeuuid_from_ticks;
use std::cell::{Cell, RefCell};
use stdx::Prng;

/// The source of one shard.
#[derive(Debug)]
pub struct Uuids {
    last_ticks: Cell<i64>,
    clock_and_node: [u8; 8],
    prng: RefCell<Prng>,
}

impl Uuids {
    /// A source of its own for each `seed`.
    pub fn new(seed: u64) -> Uuids {
        let mut prng = Prng::from_seed(seed);
        let mut clock_and_node = prng.next_u64().to_be_bytes();
        clock_and_node[0] = clock_and_node[0] & 0x3f | 0x80; // The variant.
        clock_and_node[2] |= 1; // Multicast: no network card has this address.
        let last_ticks = Cell::new(i64::MIN);
        Uuids { last_ticks, clock_and_node, prng: RefCell::new(prng) }
    }

    /// A timeuuid of now, after all that were given.
    pub fn timeuuid(&self, now_micros: i64) -> Uuid {
        timeuuid_from_ticks(self.ticks(now_micros), self.clock_and_node)
    }

    /// A timeuuid before all that were given by this and by [`Uuids::timeuuid`].
    pub fn timeuuid_before(&self, now_micros: i64) -> Uuid {
        // Mirrored at 2010-01-01: the later it is, the earlier the UUID.
        const MIRROR_TICKS: i64 = 1_262_304_000 * 10_000_000;
        let ticks = MIRROR_TICKS - (self.ticks(now_micros) - MIRROR_TICKS);
        timeuuid_from_ticks(ticks, self.clock_and_node)
    }

    /// A random UUID.
    pub fn random_uuid(&self) -> Uuid {
        let mut prng = self.prng.borrow_mut();
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&prng.next_u64().to_be_bytes());
        bytes[8..].copy_from_slice(&prng.next_u64().to_be_bytes());
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Uuid::from_bytes(bytes)
    }

    fn ticks(&self, now_micros: i64) -> i64 {
        let next = now_micros.saturating_mul(10).max(self.last_ticks.get().saturating_add(1));
        self.last_ticks.set(next);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Type, value};

    #[test]
    fn nothing_goes_back_when_the_clock_does() {
        let uuids = Uuids::new(1);
        let now = 1_700_000_000_000_000;
        let after = [now, now, now - 10].map(|now| uuids.timeuuid(now));
        let before = [now, now, now - 10].map(|now| uuids.timeuuid_before(now));
        let all: Vec<Uuid> = before.into_iter().rev().chain(after).collect();
        for pair in all.windows(2) {
            let order = value::compare(&Type::TimeUuid, pair[0].as_bytes(), pair[1].as_bytes());
            assert!(order.is_lt(), "{pair:?}");
        }
        assert_eq!(uuids.random_uuid().get_version_num(), 4);
        assert_ne!(uuids.random_uuid(), uuids.random_uuid());
    }
}
