//! Dates, times of day and timestamps, and their texts.

/// Nanoseconds of a day.
pub const NANOS_PER_DAY: i64 = 86_400_000_000_000;
