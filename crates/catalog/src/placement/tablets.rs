//! Which tablets a table gets. Pure.
//!
//! Invariants
//!  - *powers-of-two*: a keyspace with tablets gives each new table a power of two of them,
//!    [`TABLETS_MAX`] at most, or as many as shards ask for.
//!  - *on-shards*: a tablet is on a shard that the node has.
//!  - *covering*: as in [`TabletMap`].

use model::{Keyspace, TabletMap};

/// Tablets of one table at most.
pub const TABLETS_MAX: u32 = 1 << 16;

const _: () = assert!(TABLETS_MAX.is_power_of_two(), "rounding up stays within it");

/// The tablets of a new table: a ring dealt to the shards as drivers compute it, or, in a keyspace
/// with tablets, a power of two of them: as many as it says, or one or two per shard.
pub fn map_for(keyspace: &Keyspace, shards: u16) -> TabletMap {
    assert!(0 < shards, "on-shards: a table on a node without shards");
    let map = match keyspace.initial_tablets {
        None => TabletMap::static_map(shards),
        Some(0) => TabletMap::tablets((shards as u32).next_power_of_two(), shards),
        Some(count) => TabletMap::tablets(count.min(TABLETS_MAX).next_power_of_two(), shards),
    };
    let count = map.count();
    let rounded = keyspace.initial_tablets.is_none() || count.is_power_of_two();
    assert!(rounded, "powers-of-two: {count} tablets");
    let bounded = count <= (TABLETS_MAX as usize).max(usize::from(shards).next_power_of_two());
    assert!(bounded, "powers-of-two: {count} tablets are too many");
    debug_assert!(map.shards().iter().all(|shard| *shard < shards), "on-shards: {shards}");
    map
}

/// The map as it was stored, on as many shards as there are now: if a shard no longer exists,
/// the tablets are distributed again.
pub fn adapt(stored: TabletMap, shards: u16) -> TabletMap {
    if stored.shards().iter().all(|shard| *shard < shards) {
        return stored;
    }
    assert!(0 < shards, "on-shards: tablets on a node without shards");
    let dealt = (0..stored.count()).map(|index| (index % shards as usize) as u16).collect();
    let adapted = TabletMap::new(stored.last_tokens().to_vec(), dealt);
    let same = adapted.last_tokens() == stored.last_tokens();
    debug_assert!(same, "covering: other tablets than before");
    adapted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(initial_tablets: Option<u32>, shards: u16, count: usize) {
        let keyspace = Keyspace {
            name: "ks".into(),
            replication: Vec::new(),
            durable_writes: true,
            initial_tablets,
            storage: Vec::new(),
        };
        assert_eq!(map_for(&keyspace, shards).count(), count);
    }

    #[test]
    fn counts_are_powers_of_two_or_the_shards() {
        check(None, 3, 3);
        check(Some(0), 3, 4);
        check(Some(1), 3, 1);
        check(Some(5), 3, 8);
    }

    #[test]
    fn tablets_of_shards_that_are_gone_are_dealt_anew() {
        let map = TabletMap::tablets(8, 4);
        assert_eq!(adapt(map.clone(), 4), map);
        assert_eq!(adapt(map.clone(), 5), map);
        assert_eq!(adapt(map, 3).shards(), [0, 1, 2, 0, 1, 2, 0, 1]);
    }
}
