//! Times as functions and casts take them from values of several types.

use model::Type;
use model::value;

/// Milliseconds of a day.
pub(crate) const DAY_MILLIS: i64 = 86_400_000;
const EPOCH_DAY: i64 = 1 << 31;

/// Milliseconds since the epoch of a value of a type that has a time.
pub(crate) fn millis(ty: &Type, bytes: &[u8]) -> Option<i64> {
    match ty {
        Type::TimeUuid => value::timeuuid_millis(&value::decode_uuid(bytes)?),
        Type::Date => Some((value::decode_date(bytes)? as i64 - EPOCH_DAY) * DAY_MILLIS),
        _ => value::decode_i64(bytes),
    }
}

/// The bytes of a date.
pub(crate) fn date_of_millis(millis: i64) -> Vec<u8> {
    let days = (millis.div_euclid(DAY_MILLIS) + EPOCH_DAY).clamp(0, u32::MAX as i64);
    (days as u32).to_be_bytes().to_vec()
}
