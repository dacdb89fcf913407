//! One cell: a value with its timestamp, or its deletion; and the rule by which two reconcile.

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

/// The winner of two cells of one column (mutation-model reference, section 2.1); total and
/// deterministic. Counters merge shard-wise instead: see `counter_merge`.
pub fn reconcile<'a>(a: Cell<'a>, b: Cell<'a>) -> Cell<'a> {
    let _ = (a, b);
    todo!()
}
