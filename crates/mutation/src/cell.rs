//! One cell: a value with its timestamp, or its deletion; the rule by which two reconcile; and the
//! blob that stands for a cell inside a collection (mutation-model reference, section 2).
//!
//! ```text
//! live            01 ts:be64 value
//! expiring        03 ts:be64 expiry:be64 ttl:be32 value
//! dead            00 ts:be64 deletion_time:be64
//! counter update  09 ts:be64 delta:be64
//! counter         11 ts:be64 shards                      (see `counter`)
//! ```
//!
//! Invariants
//!  - *one-winner*: [`compare`] is a total order on cells, so reconciling is commutative,
//!    associative and idempotent. Counters are apart: they add up, see [`crate::counter`].

use crate::counter;
use crate::tombstone::{Purge, Tombstone};
use std::cmp::Ordering;
use stdx::{Cursor, Damaged, Put};

const LIVE: u8 = 0x01;
const EXPIRING: u8 = 0x03;
const DEAD: u8 = 0x00;
const COUNTER_UPDATE: u8 = 0x09;
const COUNTER: u8 = 0x11;

/// A decoded view of an atomic cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell<'a> {
    /// Microseconds.
    pub timestamp: i64,
    pub state: CellState<'a>,
}

/// What a cell holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellState<'a> {
    Live {
        value: &'a [u8],
    },
    /// `expiry` in seconds since the epoch, `ttl` in seconds.
    Expiring {
        value: &'a [u8],
        expiry: i64,
        ttl: i32,
    },
    Dead {
        deletion_time: i64,
    },
    /// An increment on its way to a counter's leader.
    CounterUpdate {
        delta: i64,
    },
    /// A counter's shards: `count:be16 (uuid 16, clock be64, value be64)*`, sorted by id.
    Counter {
        shards: &'a [u8],
    },
}

impl<'a> Cell<'a> {
    /// A value that stays.
    pub const fn live(timestamp: i64, value: &'a [u8]) -> Cell<'a> {
        Cell { timestamp, state: CellState::Live { value } }
    }
    /// A value that is gone from second `expiry` on, written `ttl` seconds before.
    pub const fn expiring(timestamp: i64, value: &'a [u8], expiry: i64, ttl: i32) -> Cell<'a> {
        Cell { timestamp, state: CellState::Expiring { value, expiry, ttl } }
    }
    /// A deletion.
    pub const fn dead(timestamp: i64, deletion_time: i64) -> Cell<'a> {
        Cell { timestamp, state: CellState::Dead { deletion_time } }
    }

    /// Reads the blob of a cell, all of it.
    pub fn parse(bytes: &'a [u8]) -> Result<Cell<'a>, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let flags = cursor.u8("cell flags")?;
        let timestamp = cursor.i64("cell timestamp")?;
        let state = match flags {
            LIVE => CellState::Live { value: cursor.rest() },
            EXPIRING => {
                let expiry = cursor.i64("cell expiry")?;
                let ttl = cursor.i32("cell ttl")?;
                CellState::Expiring { value: cursor.rest(), expiry, ttl }
            }
            DEAD => {
                let deletion_time = cursor.i64("cell deletion time")?;
                ended(&cursor)?;
                CellState::Dead { deletion_time }
            }
            COUNTER_UPDATE => {
                let delta = cursor.i64("counter delta")?;
                ended(&cursor)?;
                CellState::CounterUpdate { delta }
            }
            COUNTER => {
                counter::check(cursor.rest()).map_err(|damage| damage.from_base(9))?;
                CellState::Counter { shards: cursor.rest() }
            }
            _ => return Err(Damaged::new("unknown kind of cell", 0)),
        };
        Ok(Cell { timestamp, state })
    }

    /// Appends the blob of this cell.
    pub fn write(&self, out: &mut Vec<u8>) {
        let flags = match self.state {
            CellState::Live { .. } => LIVE,
            CellState::Expiring { .. } => EXPIRING,
            CellState::Dead { .. } => DEAD,
            CellState::CounterUpdate { .. } => COUNTER_UPDATE,
            CellState::Counter { .. } => COUNTER,
        };
        let mut head = [flags; 9];
        head[1..].copy_from_slice(&self.timestamp.to_be_bytes());
        out.put(&head);
        match self.state {
            CellState::Live { value } => out.put(value),
            CellState::Expiring { value, expiry, ttl } => {
                out.put_i64(expiry);
                out.put_i32(ttl);
                out.put(value);
            }
            CellState::Dead { deletion_time } => out.put_i64(deletion_time),
            CellState::CounterUpdate { delta } => out.put_i64(delta),
            CellState::Counter { shards } => out.put(shards),
        }
    }

    /// How many bytes [`Cell::write`] appends.
    pub fn blob_bytes(&self) -> usize {
        9 + match self.state {
            CellState::Live { value } => value.len(),
            CellState::Expiring { value, .. } => 12 + value.len(),
            CellState::Dead { .. } | CellState::CounterUpdate { .. } => 8,
            CellState::Counter { shards } => shards.len(),
        }
    }

    /// Whether there is a value at second `now`.
    pub fn is_live(&self, now: i64) -> bool {
        match self.state {
            CellState::Live { .. } | CellState::Counter { .. } => true,
            CellState::Expiring { expiry, .. } => now < expiry,
            CellState::Dead { .. } | CellState::CounterUpdate { .. } => false,
        }
    }

    /// Whether it is a counter or an increment of one.
    pub(crate) fn is_of_counter(&self) -> bool {
        matches!(self.state, CellState::Counter { .. } | CellState::CounterUpdate { .. })
    }

    /// The bytes of the value, whether or not it has expired; none for deletions and counters.
    pub fn value(&self) -> Option<&'a [u8]> {
        match self.state {
            CellState::Live { value } | CellState::Expiring { value, .. } => Some(value),
            _ => None,
        }
    }

    /// What the cell is at second `now`: an expired one is a deletion made when it was written.
    #[must_use]
    pub fn at(self, now: i64) -> Cell<'a> {
        match self.state {
            CellState::Expiring { expiry, ttl, .. } if expiry <= now => {
                Cell::dead(self.timestamp, expiry.saturating_sub(ttl as i64))
            }
            _ => self,
        }
    }

    /// What compaction makes of the cell under the deletion `shadow`, at second `now`.
    pub(crate) fn fate(&self, shadow: Tombstone, now: i64, purge: &Purge) -> Fate<'a> {
        if shadow.covers(self.timestamp) {
            return Fate::Goes;
        }
        let then = self.at(now);
        match (self.state, then.state) {
            (_, CellState::Dead { deletion_time })
                if purge.allows(self.timestamp, deletion_time) =>
            {
                Fate::Goes
            }
            (CellState::Expiring { .. }, CellState::Dead { .. }) => Fate::Becomes(then),
            _ => Fate::Stays,
        }
    }
}

/// The timestamp in the blob of a cell, without a look at the rest.
pub(crate) fn timestamp_of(blob: &[u8]) -> Option<i64> {
    let (_, rest) = blob.split_first()?;
    rest.first_chunk().map(|bytes| i64::from_be_bytes(*bytes))
}

/// What compaction makes of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate<'a> {
    Stays,
    /// It has expired: this deletion takes its place.
    Becomes(Cell<'a>),
    Goes,
}

fn ended(cursor: &Cursor<'_>) -> Result<(), Damaged> {
    if cursor.is_empty() { Ok(()) } else { Err(cursor.damaged("bytes after a cell")) }
}

/// The order by which cells reconcile: the greatest wins (mutation-model reference, section 2.1).
/// Timestamp; a deletion before a value; expiring before lasting; later expiry; shorter ttl
/// (written later); greater value.
pub fn compare(a: &Cell<'_>, b: &Cell<'_>) -> Ordering {
    let by_kind = || a.timestamp.cmp(&b.timestamp).then(rank(&a.state).cmp(&rank(&b.state)));
    by_kind().then_with(|| match (a.state, b.state) {
        (CellState::Live { value: a }, CellState::Live { value: b })
        | (CellState::Counter { shards: a }, CellState::Counter { shards: b }) => a.cmp(b),
        (
            CellState::Expiring { value: a, expiry: a_expiry, ttl: a_ttl },
            CellState::Expiring { value: b, expiry: b_expiry, ttl: b_ttl },
        ) => a_expiry.cmp(&b_expiry).then(b_ttl.cmp(&a_ttl)).then_with(|| a.cmp(b)),
        (CellState::Dead { deletion_time: a }, CellState::Dead { deletion_time: b }) => {
            (a as u64).cmp(&(b as u64))
        }
        (CellState::CounterUpdate { delta: a }, CellState::CounterUpdate { delta: b }) => a.cmp(&b),
        _ => Ordering::Equal,
    })
}

fn rank(state: &CellState<'_>) -> u8 {
    match state {
        CellState::Live { .. } => 0,
        CellState::CounterUpdate { .. } => 1,
        CellState::Counter { .. } => 2,
        CellState::Expiring { .. } => 3,
        CellState::Dead { .. } => 4,
    }
}

/// The winner of two cells of one column; total and deterministic. Two increments add up (they
/// are never stored, so they never meet twice), a deletion ends a counter whatever its timestamp,
/// and two counters are not for here: [`counter::merge`].
pub fn reconcile<'a>(a: Cell<'a>, b: Cell<'a>) -> Cell<'a> {
    match (a.state, b.state) {
        (CellState::CounterUpdate { delta: x }, CellState::CounterUpdate { delta: y }) => Cell {
            timestamp: a.timestamp.max(b.timestamp),
            state: CellState::CounterUpdate { delta: x.wrapping_add(y) },
        },
        (CellState::Counter { .. }, CellState::Dead { .. }) => b,
        (CellState::Dead { .. }, CellState::Counter { .. }) => a,
        _ if compare(&a, &b) == Ordering::Less => b,
        _ => a,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn golden_bytes_of_the_reference() {
        let check = |cell: Cell<'_>, expected: &str| {
            let mut out = Vec::new();
            cell.write(&mut out);
            assert_eq!(hex(&out), expected);
            assert_eq!(out.len(), cell.blob_bytes());
            assert_eq!(Cell::parse(&out), Ok(cell));
            for cut in 0..out.len().min(9) {
                assert!(Cell::parse(&out[..cut]).is_err(), "{cut} bytes of {expected}");
            }
        };
        let seven = 7i32.to_be_bytes();
        check(Cell::live(1, &seven), "01000000000000000100000007");
        check(
            Cell::expiring(1, &seven, 1000, 60),
            "03000000000000000100000000000003e80000003c00000007",
        );
        check(Cell::dead(2, 900), "0000000000000000020000000000000384");
        let update = Cell { timestamp: 1, state: CellState::CounterUpdate { delta: -1 } };
        check(update, "090000000000000001ffffffffffffffff");
        assert!(Cell::parse(&[0; 18]).is_err());
        assert!(Cell::parse(&[7; 17]).is_err());
    }

    #[test]
    fn reconciliation_by_the_table() {
        let check = |loser: Cell<'_>, winner: Cell<'_>| {
            assert_eq!(reconcile(loser, winner), winner);
            assert_eq!(reconcile(winner, loser), winner);
        };
        check(Cell::live(1, b"z"), Cell::live(2, b"a"));
        check(Cell::live(1, b"z"), Cell::dead(1, 0));
        check(Cell::dead(1, 9), Cell::live(2, b""));
        check(Cell::live(1, b"z"), Cell::expiring(1, b"a", 10, 5));
        check(Cell::expiring(1, b"z", 10, 5), Cell::expiring(1, b"a", 11, 5));
        check(Cell::expiring(1, b"z", 10, 6), Cell::expiring(1, b"a", 10, 5));
        check(Cell::expiring(1, b"a", 10, 5), Cell::expiring(1, b"b", 10, 5));
        check(Cell::live(1, b"a"), Cell::live(1, b"ab"));
        check(Cell::live(1, &[0x7f]), Cell::live(1, &[0x80]));
        check(Cell::dead(1, 5), Cell::dead(1, 6));
        check(Cell::dead(1, 5), Cell::dead(1, -1));
        let shards = counter::single([1; 16], 1, 1);
        let counter = Cell { timestamp: 9, state: CellState::Counter { shards: &shards } };
        check(counter, Cell::dead(1, 5));
    }

    #[test]
    fn an_expired_cell_is_a_deletion_made_when_it_was_written() {
        let cell = Cell::expiring(7, b"v", 100, 30);
        assert!(cell.is_live(99) && !cell.is_live(100));
        assert_eq!(cell.at(99), cell);
        assert_eq!(cell.at(100), Cell::dead(7, 70));
        let purge = Purge { gc_before: 71, timestamp_before: 8 };
        let fate = |now, purge| cell.fate(Tombstone::new(6, 0), now, purge);
        assert_eq!(fate(99, &purge), Fate::Stays);
        assert_eq!(fate(100, &purge), Fate::Goes);
        assert_eq!(fate(100, &Purge::NEVER), Fate::Becomes(Cell::dead(7, 70)));
        assert_eq!(cell.fate(Tombstone::new(7, 0), 0, &Purge::NEVER), Fate::Goes);
    }
}
