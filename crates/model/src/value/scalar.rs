//! Scalars as Rust values: what functions, aggregates and system tables compute with.
//!
//! Every `decode_*` yields `None` for the empty value and for bytes of a wrong length. Fixed-size
//! numbers are encoded with `to_be_bytes`.

use super::{Decimal, Duration, inet, varint};
use core::net::IpAddr;
use num_bigint::BigInt;
use uuid::Uuid;

/// A `tinyint`.
pub fn decode_i8(bytes: &[u8]) -> Option<i8> {
    bytes.try_into().map(i8::from_be_bytes).ok()
}
/// A `smallint`.
pub fn decode_i16(bytes: &[u8]) -> Option<i16> {
    bytes.try_into().map(i16::from_be_bytes).ok()
}
/// An `int`.
pub fn decode_i32(bytes: &[u8]) -> Option<i32> {
    bytes.try_into().map(i32::from_be_bytes).ok()
}
/// A `bigint`, `counter`, `timestamp` (milliseconds) or `time` (nanoseconds).
pub fn decode_i64(bytes: &[u8]) -> Option<i64> {
    bytes.try_into().map(i64::from_be_bytes).ok()
}
/// A `date`: days, 2^31 is the epoch.
pub fn decode_date(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().map(u32::from_be_bytes).ok()
}
/// A `float`.
pub fn decode_f32(bytes: &[u8]) -> Option<f32> {
    bytes.try_into().map(f32::from_be_bytes).ok()
}
/// A `double`.
pub fn decode_f64(bytes: &[u8]) -> Option<f64> {
    bytes.try_into().map(f64::from_be_bytes).ok()
}
/// A `boolean`.
pub fn decode_bool(bytes: &[u8]) -> Option<bool> {
    match bytes {
        [byte] => Some(*byte != 0),
        _ => None,
    }
}
/// A `uuid` or `timeuuid`.
pub fn decode_uuid(bytes: &[u8]) -> Option<Uuid> {
    bytes.try_into().map(Uuid::from_bytes).ok()
}
/// A `text` or `ascii`; the empty value is the empty string.
pub fn decode_text(bytes: &[u8]) -> Option<&str> {
    str::from_utf8(bytes).ok()
}
/// An `inet`.
pub fn decode_inet(bytes: &[u8]) -> Option<IpAddr> {
    inet::decode(bytes)
}
/// A `varint`.
pub fn decode_varint(bytes: &[u8]) -> Option<BigInt> {
    (!bytes.is_empty()).then(|| varint::decode(bytes))
}
/// A `decimal`.
pub fn decode_decimal(bytes: &[u8]) -> Option<Decimal> {
    Decimal::decode(bytes)
}
/// A `duration`.
pub fn decode_duration(bytes: &[u8]) -> Option<Duration> {
    Duration::decode(bytes).ok()
}

/// A `boolean`.
pub fn encode_bool(value: bool) -> [u8; 1] {
    [value.into()]
}
/// An `inet`.
pub fn encode_inet(value: IpAddr) -> Vec<u8> {
    inet::encode(value)
}
/// A `varint`.
pub fn encode_varint(value: &BigInt) -> Vec<u8> {
    varint::encode(value)
}
/// A `decimal`.
pub fn encode_decimal(value: &Decimal) -> Vec<u8> {
    value.encode()
}
/// A `duration`.
pub fn encode_duration(value: &Duration) -> Vec<u8> {
    value.encode()
}

/// 100-nanosecond intervals from 1582-10-15 to 1970-01-01.
const UUID_EPOCH: i64 = 0x01b2_1dd2_1381_4000;

/// The timestamp of a version 1 UUID, in 100-nanosecond intervals since the Unix epoch; `None` for
/// other versions.
pub fn timeuuid_ticks(uuid: &Uuid) -> Option<i64> {
    let (low, middle, high, _) = uuid.as_fields();
    let ticks = (i64::from(high & 0xfff) << 48) | (i64::from(middle) << 32) | i64::from(low);
    (high >> 12 == 1).then_some(ticks - UUID_EPOCH)
}

/// The timestamp of a version 1 UUID in milliseconds since the Unix epoch.
pub fn timeuuid_millis(uuid: &Uuid) -> Option<i64> {
    timeuuid_ticks(uuid).map(|ticks| ticks.div_euclid(10_000))
}

/// A version 1 UUID of a time (100-nanosecond intervals since the Unix epoch) and the clock and
/// node bytes as given: callers set the variant bits, except for bounds (see
/// [`timeuuid_bounds`]). Times beyond the 60 bits wrap.
pub fn timeuuid_from_ticks(ticks: i64, clock_and_node: [u8; 8]) -> Uuid {
    let ticks = ticks.wrapping_add(UUID_EPOCH);
    let low = ticks as u32;
    let middle = (ticks >> 32) as u16;
    let high = ((ticks >> 48) as u16 & 0xfff) | 0x1000;
    Uuid::from_fields(low, middle, high, &clock_and_node)
}

/// The least and the greatest timeuuid of a millisecond, in the order of `timeuuid`.
pub fn timeuuid_bounds(millis: i64) -> (Uuid, Uuid) {
    let first = millis.wrapping_mul(10_000);
    let last = first.wrapping_add(9_999);
    (timeuuid_from_ticks(first, [0x80; 8]), timeuuid_from_ticks(last, [0x7f; 8]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Type;
    use crate::value::compare;

    #[test]
    fn wrong_lengths_are_none() {
        assert_eq!(decode_i32(&[0, 0, 0, 5]), Some(5));
        assert_eq!(decode_i32(&[]), None);
        assert_eq!(decode_i32(&[0; 5]), None);
        assert_eq!(decode_bool(&[1]), Some(true));
        assert_eq!(decode_uuid(&[0; 15]), None);
        assert_eq!(decode_varint(&[]), None);
    }

    #[test]
    fn times_of_timeuuids() {
        let uuid = Uuid::try_parse("d2177dd0-eaa2-11de-a572-001b779c76e3").unwrap();
        assert_eq!(timeuuid_millis(&uuid), Some(1_261_009_589_805));
        let clock = [0xa5, 0x72, 0, 0x1b, 0x77, 0x9c, 0x76, 0xe3];
        assert_eq!(timeuuid_from_ticks(timeuuid_ticks(&uuid).unwrap(), clock), uuid);
        let (least, greatest) = timeuuid_bounds(1_261_009_589_805);
        let order = |a: &Uuid, b: &Uuid| compare(&Type::TimeUuid, a.as_bytes(), b.as_bytes());
        assert!(order(&least, &uuid).is_le() && order(&uuid, &greatest).is_le());
        assert!(order(&timeuuid_bounds(1_261_009_589_804).1, &least).is_lt());
        let early = timeuuid_from_ticks(-1, [0x80; 8]);
        assert_eq!(timeuuid_millis(&early), Some(-1));
        let random = Uuid::try_parse("d2177dd0-eaa2-41de-a572-001b779c76e3").unwrap();
        assert_eq!(timeuuid_millis(&random), None);
    }
}
