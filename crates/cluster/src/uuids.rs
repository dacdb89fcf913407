//! UUIDs of now: time-based ones (version 1) for tables, random ones (version 4) for all that is
//! named once.

use catalog::uuids::time_uuid;
use model::Uuid;

/// A time-based UUID of now.
pub fn time_uuid_now() -> Uuid {
    let uuid = time_uuid(runtime::time::wall_micros(), runtime::random_u64());
    debug_assert!(uuid.get_version_num() == 1, "a time-based UUID of another kind: {uuid}");
    uuid
}

/// A time-based UUID of that time, microseconds.
pub fn time_uuid_at(micros: i64) -> Uuid {
    time_uuid(micros, runtime::random_u64())
}

/// A random UUID (version 4).
pub fn random_uuid() -> Uuid {
    let (high, low) = (runtime::random_u64(), runtime::random_u64());
    let high = (high & !0xf000) | 0x4000;
    let low = (low & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
    let uuid = Uuid::from_u64_pair(high, low);
    debug_assert!(uuid.get_version_num() == 4, "a random UUID of another kind: {uuid}");
    uuid
}
