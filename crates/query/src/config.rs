//! What a processor is told when it starts.

use std::time::Duration;

/// The processor's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// A read of one partition.
    pub read_timeout: Duration,
    /// A read of a token range.
    pub range_read_timeout: Duration,
    /// A write.
    pub write_timeout: Duration,
    /// An increment of counters.
    pub counter_write_timeout: Duration,
    /// A lightweight transaction.
    pub cas_timeout: Duration,
    /// A truncate.
    pub truncate_timeout: Duration,
    /// Bytes of prepared statements kept on this shard.
    pub prepared_bytes_max: usize,
    /// Bytes of cached statements that are executed repeatedly as text.
    pub unprepared_bytes_max: usize,
    /// Functions of users.
    pub functions: functions::Limits,
}

impl Config {
    /// The settings of a node whose options say nothing else.
    pub const fn standard() -> Config {
        Config {
            read_timeout: Duration::from_millis(5_000),
            range_read_timeout: Duration::from_millis(10_000),
            write_timeout: Duration::from_millis(2_000),
            counter_write_timeout: Duration::from_millis(5_000),
            cas_timeout: Duration::from_millis(1_000),
            truncate_timeout: Duration::from_millis(60_000),
            prepared_bytes_max: 32 << 20,
            unprepared_bytes_max: 8 << 20,
            functions: functions::Limits::standard(),
        }
    }
}
