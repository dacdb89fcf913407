//! Time-based UUIDs (version 1): of tables, of versions of tables and of the schema. Pure: who
//! calls says the time, and draws what tells two of one time apart.
//!
//! Invariants
//!  - *the-time-is-in-it*: [`time_of`] gives back the microseconds that [`time_uuid`] was given.

use model::Uuid;

/// 100 ns intervals from the start of the Gregorian calendar to 1970.
const GREGORIAN: u64 = 0x01B2_1DD2_1381_4000;

/// Later times, from the year 5236 on, have no room in a UUID.
const MICROS_MAX: i64 = (((1u64 << 60) - GREGORIAN) / 10) as i64;

/// The version 1 UUID of a time in microseconds since 1970, told from others of the same time by
/// `random`.
pub fn time_uuid(micros: i64, random: u64) -> Uuid {
    let ticks = (micros as u64).wrapping_mul(10).wrapping_add(GREGORIAN);
    let high = ((ticks as u32 as u64) << 32)
        | (((ticks >> 32) & 0xffff) << 16)
        | 0x1000
        | ((ticks >> 48) & 0x0fff);
    // The multicast bit tells that the node part is random.
    let low = (random & 0x3fff_ffff_ffff_ffff) | 0x8000_0100_0000_0000;
    let uuid = Uuid::from_u64_pair(high, low);
    let is_near = (0..MICROS_MAX).contains(&micros);
    debug_assert!(!is_near || time_of(uuid) == Some(micros), "the-time-is-in-it: {micros}");
    uuid
}

/// The time of a version 1 UUID, in microseconds since 1970; `None` for other versions.
pub fn time_of(uuid: Uuid) -> Option<i64> {
    let (high, _) = uuid.as_u64_pair();
    if (high >> 12) & 0xf != 1 {
        return None;
    }
    let ticks = (high >> 32) | ((high >> 16) & 0xffff) << 32 | (high & 0x0fff) << 48;
    Some((ticks.wrapping_sub(GREGORIAN) / 10) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_goes_in_and_out() {
        for micros in [0, 1, 1_732_224_000_123_456] {
            let uuid = time_uuid(micros, 0xffff_ffff_ffff_ffff);
            assert_eq!(uuid.get_version_num(), 1);
            assert_eq!(time_of(uuid), Some(micros));
        }
        assert_eq!(time_of(Uuid::from_u128(0)), None);
        let known = Uuid::parse_str("13814000-1dd2-11b2-8000-000000000000");
        assert_eq!(known.ok().and_then(time_of), Some(0));
    }
}
