//! Constants of the row format, and the delta form of times (storage-format reference, 4.2).
//!
//! Times are written as vints of the difference to per-file minimums, computed in the width of
//! the value and then sign-extended: a value below its minimum is long, but legal.
//!
//! Invariants
//!  - *reads-back*: what is appended is read as it was, but for times that the format has no bits
//!    for.

use mutation::Tombstone;
use mutation::tombstone::NO_TIMESTAMP;
use stdx::{Cursor, Damaged, Put};

/// Flags of a row or marker.
pub mod flags {
    /// Nothing follows in this partition.
    pub const END_OF_PARTITION: u8 = 0x01;
    /// A range tombstone marker, not a row.
    pub const IS_MARKER: u8 = 0x02;
    /// The row's liveness follows.
    pub const HAS_TIMESTAMP: u8 = 0x04;
    /// The liveness has a ttl and an expiry.
    pub const HAS_TTL: u8 = 0x08;
    /// A row tombstone follows.
    pub const HAS_DELETION: u8 = 0x10;
    /// No bitmap of missing columns.
    pub const HAS_ALL_COLUMNS: u8 = 0x20;
    /// Every complex column starts with a deletion time.
    pub const HAS_COMPLEX_DELETION: u8 = 0x40;
    /// A second byte of flags follows.
    pub const EXTENSION: u8 = 0x80;
}

/// Flags of the second byte.
pub mod ext_flags {
    /// The static row.
    pub const IS_STATIC: u8 = 0x01;
    /// Cassandra's shadowable deletion, long deprecated: refused.
    pub const CASSANDRA_SHADOWABLE: u8 = 0x02;
    /// A shadowable tombstone follows the regular one.
    pub const HAS_SHADOWABLE: u8 = 0x80;
}

/// Flags of a cell.
pub mod cell_flags {
    /// A tombstone.
    pub const IS_DELETED: u8 = 0x01;
    /// Has an expiry and a ttl.
    pub const IS_EXPIRING: u8 = 0x02;
    /// No value bytes follow.
    pub const HAS_EMPTY_VALUE: u8 = 0x04;
    /// The timestamp is the row's.
    pub const USE_ROW_TIMESTAMP: u8 = 0x08;
    /// Expiry and ttl are the row's.
    pub const USE_ROW_TTL: u8 = 0x10;
    /// All bits that a cell may have.
    pub const KNOWN: u8 = 0x1f;
}

/// Where timestamps are counted from when no minimum is known: 2015-09-22, microseconds.
pub const TIMESTAMP_EPOCH: i64 = 1_442_880_000_000_000;
/// Where deletion times are counted from when no minimum is known: 2015-09-22, seconds.
pub const DELETION_TIME_EPOCH: i32 = 1_442_880_000;
/// The deletion time of what is not deleted.
pub const NO_DELETION_TIME: i32 = i32::MAX;
/// The greatest deletion time that means one.
pub const DELETION_TIME_MAX: i32 = i32::MAX - 1;
/// The ttl that marks the liveness of a row as dead.
pub const DEAD_MARKER_TTL: i32 = i32::MAX;
/// Bytes of a full deletion time.
pub const DELETION_BYTES: usize = 12;

const _: () = assert!(DELETION_TIME_MAX < NO_DELETION_TIME);
const _: () = assert!(DELETION_BYTES == size_of::<i32>() + size_of::<i64>());
const _: () = assert!(TIMESTAMP_EPOCH == DELETION_TIME_EPOCH as i64 * 1_000_000);

/// A deletion time (seconds, 64 bits in memory) in the 32 bits that the format has for it.
pub fn cap_deletion_time(seconds: i64) -> i32 {
    seconds.clamp(0, DELETION_TIME_MAX as i64) as i32
}

/// How a full deletion time is written: of a partition, or in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionForm {
    /// Deletion time (32 bits, signed) and timestamp, always.
    Plain,
    /// One byte 0x80 for none; else timestamp and deletion time (32 bits, unsigned), behind a byte
    /// 0xc0 where the timestamp is negative. Cassandra 5, and the row index of every trie index.
    Flagged,
}

/// [`DeletionForm::Flagged`]: no deletion.
const FLAG_NONE: u8 = 0x80;
/// [`DeletionForm::Flagged`]: the timestamp that follows is negative.
const FLAG_NEGATIVE: u8 = 0xc0;

const _: () = assert!(FLAG_NEGATIVE & FLAG_NONE != 0, "no timestamp of 0 or more starts so");

impl DeletionForm {
    /// Appends a full deletion time.
    pub fn put(self, tombstone: Tombstone, out: &mut Vec<u8>) {
        let start = out.len();
        match self {
            DeletionForm::Plain => put_deletion(tombstone, out),
            DeletionForm::Flagged if tombstone.is_none() => out.put_u8(FLAG_NONE),
            DeletionForm::Flagged => {
                if tombstone.timestamp < 0 {
                    out.put_u8(FLAG_NEGATIVE);
                }
                out.put_i64(tombstone.timestamp);
                let seconds = tombstone.deletion_time.clamp(0, u32::MAX as i64 - 1);
                out.put_u32(seconds as u32);
            }
        }
        debug_assert!(self.reads_back(tombstone, &out[start..]), "reads-back: {tombstone:?}");
    }

    /// Whether these bytes say when a deletion was.
    fn reads_back(self, tombstone: Tombstone, bytes: &[u8]) -> bool {
        let read = self.read(&mut Cursor::new(bytes));
        read.is_ok_and(|read| read.timestamp == tombstone.timestamp)
    }

    /// Reads a full deletion time.
    pub fn read(self, cursor: &mut Cursor<'_>) -> Result<Tombstone, Damaged> {
        if self == DeletionForm::Plain {
            return read_deletion(cursor);
        }
        let mut behind_flag = *cursor;
        let flag = behind_flag.u8("deletion time cut short")?;
        match flag {
            FLAG_NONE | FLAG_NEGATIVE => *cursor = behind_flag,
            _ if flag & FLAG_NONE != 0 => {
                return Err(cursor.damaged("unknown flags of a deletion time"));
            }
            _ => {}
        }
        if flag == FLAG_NONE {
            return Ok(Tombstone::NONE);
        }
        let timestamp = cursor.i64("deletion timestamp cut short")?;
        let deletion_time = cursor.u32("deletion time cut short")?;
        tombstone(timestamp, deletion_time as i64, cursor)
    }
}

/// Appends a full deletion time in the plain form.
pub fn put_deletion(tombstone: Tombstone, out: &mut Vec<u8>) {
    if tombstone.is_none() {
        out.put_i32(NO_DELETION_TIME);
        out.put_i64(NO_TIMESTAMP);
    } else {
        out.put_i32(cap_deletion_time(tombstone.deletion_time));
        out.put_i64(tombstone.timestamp);
    }
}

/// Reads a full deletion time in the plain form.
pub fn read_deletion(cursor: &mut Cursor<'_>) -> Result<Tombstone, Damaged> {
    let deletion_time = cursor.i32("deletion time cut short")?;
    let timestamp = cursor.i64("deletion timestamp cut short")?;
    tombstone(timestamp, deletion_time as i64, cursor)
}

fn tombstone(ts: i64, deletion_time: i64, cursor: &Cursor<'_>) -> Result<Tombstone, Damaged> {
    if ts == NO_TIMESTAMP {
        return Ok(Tombstone::NONE);
    }
    if deletion_time < 0 {
        return Err(cursor.damaged("negative deletion time"));
    }
    Ok(Tombstone { timestamp: ts, deletion_time })
}

/// The minimums that a file's times are counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bases {
    /// Microseconds.
    pub timestamp: i64,
    /// Seconds; [`NO_DELETION_TIME`] where the file is known to have none. Versions with unsigned
    /// times reach beyond 32 signed bits.
    pub deletion_time: i64,
    /// Seconds.
    pub ttl: i32,
}

impl Bases {
    /// For a file of which nothing is known beforehand.
    pub const EPOCH: Bases =
        Bases { timestamp: TIMESTAMP_EPOCH, deletion_time: DELETION_TIME_EPOCH as i64, ttl: 0 };

    /// Appends a timestamp.
    pub fn put_timestamp(&self, timestamp: i64, out: &mut Vec<u8>) {
        out.put_vint(timestamp.wrapping_sub(self.timestamp) as u64);
    }
    /// Appends a deletion time or expiry.
    pub fn put_deletion_time(&self, deletion_time: i32, out: &mut Vec<u8>) {
        out.put_vint((deletion_time as i64).wrapping_sub(self.deletion_time) as u64);
    }
    /// Appends a ttl.
    pub fn put_ttl(&self, ttl: i32, out: &mut Vec<u8>) {
        out.put_vint(ttl.wrapping_sub(self.ttl) as i64 as u64);
    }
    /// Appends a tombstone, which may be none.
    pub fn put_tombstone(&self, tombstone: Tombstone, out: &mut Vec<u8>) {
        if tombstone.is_none() {
            self.put_timestamp(NO_TIMESTAMP, out);
            self.put_deletion_time(NO_DELETION_TIME, out);
        } else {
            debug_assert!(tombstone.timestamp != NO_TIMESTAMP, "reads-back: as no tombstone");
            self.put_timestamp(tombstone.timestamp, out);
            self.put_deletion_time(cap_deletion_time(tombstone.deletion_time), out);
        }
    }

    /// Reads a timestamp.
    pub fn timestamp(&self, cursor: &mut Cursor<'_>) -> Result<i64, Damaged> {
        let delta = cursor.vint("timestamp cut short")?;
        Ok(self.timestamp.wrapping_add(delta as i64))
    }
    /// Reads a deletion time or expiry.
    ///
    /// A writer that computes in 32 bits and one that does in 64 give the same bytes for all times
    /// from 1970 on, and this the same value for both.
    pub fn deletion_time(&self, cursor: &mut Cursor<'_>) -> Result<i64, Damaged> {
        let delta = cursor.vint("deletion time cut short")?;
        Ok(self.deletion_time.wrapping_add(delta as i64))
    }
    /// Reads a ttl.
    pub fn ttl(&self, cursor: &mut Cursor<'_>) -> Result<i32, Damaged> {
        let delta = cursor.vint("ttl cut short")?;
        Ok(self.ttl.wrapping_add(delta as i32))
    }
    /// Reads a tombstone.
    pub fn tombstone(&self, cursor: &mut Cursor<'_>) -> Result<Tombstone, Damaged> {
        let timestamp = self.timestamp(cursor)?;
        let deletion_time = self.deletion_time(cursor)?;
        tombstone(timestamp, deletion_time, cursor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn times_round_trip_from_any_base(base: (i64, i32, i32), ts: i64, time: i32, ttl: i32) {
            let bases = Bases { timestamp: base.0, deletion_time: base.1 as i64, ttl: base.2 };
            let mut out = Vec::new();
            bases.put_timestamp(ts, &mut out);
            bases.put_deletion_time(time, &mut out);
            bases.put_ttl(ttl, &mut out);
            let mut cursor = Cursor::new(&out);
            prop_assert_eq!(bases.timestamp(&mut cursor), Ok(ts));
            prop_assert_eq!(bases.deletion_time(&mut cursor), Ok(time as i64));
            prop_assert_eq!(bases.ttl(&mut cursor), Ok(ttl));
            prop_assert!(cursor.is_empty());
        }
    }

    #[test]
    fn no_tombstone_reads_back_as_none() {
        let mut out = Vec::new();
        put_deletion(Tombstone::NONE, &mut out);
        let live = [0x7f, 0xff, 0xff, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(out, live);
        assert_eq!(read_deletion(&mut Cursor::new(&out)), Ok(Tombstone::NONE));
        let mut out = Vec::new();
        Bases::EPOCH.put_tombstone(Tombstone::NONE, &mut out);
        assert_eq!(Bases::EPOCH.tombstone(&mut Cursor::new(&out)), Ok(Tombstone::NONE));
    }

    #[test]
    fn flagged_deletion_times() {
        let check = |tombstone: Tombstone, bytes: &[u8]| {
            let mut out = Vec::new();
            DeletionForm::Flagged.put(tombstone, &mut out);
            assert_eq!(out, bytes);
            let mut cursor = Cursor::new(&out);
            assert_eq!(DeletionForm::Flagged.read(&mut cursor), Ok(tombstone));
            assert!(cursor.is_empty());
            for cut in 0..out.len() {
                assert!(DeletionForm::Flagged.read(&mut Cursor::new(&out[..cut])).is_err());
            }
        };
        let at = |timestamp, deletion_time| Tombstone { timestamp, deletion_time };
        check(Tombstone::NONE, &[0x80]);
        check(at(1, 0xffff_fffe), &[0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe]);
        let negative = [0xc0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 5];
        check(at(-1, 5), &negative);
        assert!(DeletionForm::Flagged.read(&mut Cursor::new(&[0x81; 20])).is_err());
    }

    #[test]
    fn a_value_below_its_base_takes_nine_bytes() {
        let mut out = Vec::new();
        Bases::EPOCH.put_deletion_time(0, &mut out);
        assert_eq!(out.len(), 9);
    }
}
