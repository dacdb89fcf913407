//! Rate limits per partition: the option `per_partition_rate_limit` of tables. Pure.
//!
//! The shard that owns a partition counts the requests of clients to it, reads and writes
//! separately. Counts are halved each second, so at V requests a second one swings between V and
//! 2 V. Above the limit a request is let through with a probability of `limit / (count * ln 2)`,
//! which comes to the limit over such a swing. No request waits: a refusal costs little, which is
//! what the limit is for. Source: cluster reference, section 15.
//!
//! Of several replicas each counts what it is asked for. A node that coordinates and is one decides
//! by its own count, before it asks others, which only count. Any other tells its replicas a number
//! that it has drawn: replicas with about the same counts decide the same, so that a write is
//! rejected by all or by none of them, and as many go on as the limit says, not fewer the more
//! replicas there are.
//!
//! Invariants
//!  - *bounded*: a shard has no more than [`COUNTS_MAX`] counts; requests to partitions beyond
//!    those go on.
//!  - *one-draw*: replicas that count the same decide the same about a request.

use model::{TableId, Token};
use std::cell::{Cell, RefCell};
use std::f64::consts::LN_2;
use std::fmt;
use stdx::HashMap;

/// Counts of a shard at most.
const COUNTS_MAX: usize = 1 << 14;

const _: () = assert!(0 < COUNTS_MAX, "the request that counts has room");

/// What a client does to a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// It reads it.
    Read,
    /// It writes to it.
    Write,
}

impl Operation {
    /// `read` or `write`
    pub fn name(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
        }
    }

    /// The part of the option that limits it.
    pub(crate) fn option(self) -> &'static str {
        match self {
            Operation::Read => "max_reads_per_second",
            Operation::Write => "max_writes_per_second",
        }
    }
}

/// A request that went over the limit. Where the coordinator decided so nothing of it was done;
/// where replicas did, some whose counts differ may have done it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimited {
    /// What it was.
    pub operation: Operation,
    /// Whether the shard that it was sent to decided so; else owners of the partition.
    pub by_coordinator: bool,
    /// `keyspace.table`
    pub table: String,
}

impl fmt::Display for RateLimited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = if self.by_coordinator { "coordinator" } else { "replicas" };
        let (operation, table) = (self.operation.name(), &self.table);
        write!(f, "Per-partition rate limit reached for {operation} in table {table}, ")?;
        write!(f, "rejected by {by}")
    }
}
impl std::error::Error for RateLimited {}

/// A number that is drawn for a request, evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw(u64);

impl Draw {
    const BITS: u32 = 53;

    /// Of random bits.
    pub fn of(random: u64) -> Draw {
        let draw = Draw(random >> (u64::BITS - Draw::BITS));
        debug_assert!(Draw::from_wire(draw.0).is_some(), "one-draw: {draw:?} cannot be sent");
        draw
    }

    /// That number, as it is sent, if it is one.
    pub fn from_wire(number: u64) -> Option<Draw> {
        (number >> Draw::BITS == 0).then_some(Draw(number))
    }

    pub fn to_wire(self) -> u64 {
        self.0
    }

    /// In [0, 1).
    fn fraction(self) -> f64 {
        let fraction = self.0 as f64 / (1u64 << Draw::BITS) as f64;
        debug_assert!((0.0..1.0).contains(&fraction), "one-draw: {self:?}");
        fraction
    }
}

/// What a replica does with a request to a partition of a table that limits them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// It counts it: another one has decided that it goes on.
    Counts,
    /// It counts it, and decides by what was drawn.
    Decides(Draw),
}

/// A partition with what is done to it.
pub(crate) type Counted = (TableId, Token, Operation);

/// Requests of late, as of a second.
#[derive(Clone, Copy, Debug)]
struct Count {
    requests: u32,
    second: u64,
}

impl Count {
    /// As of a later second.
    fn at(self, second: u64) -> u32 {
        let halvings = u32::try_from(second.saturating_sub(self.second)).unwrap_or(u32::MAX);
        let left = self.requests.checked_shr(halvings).unwrap_or(0);
        debug_assert!(left <= self.requests, "halved: {left} of {}", self.requests);
        left
    }
}

/// The counts of a shard.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    counts: RefCell<HashMap<Counted, Count>>,
    /// The second in which those that came to nothing were last removed.
    swept: Cell<u64>,
}

impl Counts {
    /// Counts a request; whether it goes on.
    pub(crate) fn admit(&self, counted: Counted, limit: u32, second: u64, draw: Draw) -> bool {
        let mut counts = self.counts.borrow_mut();
        if COUNTS_MAX <= counts.len() && !counts.contains_key(&counted) {
            if self.swept.replace(second) != second {
                counts.retain(|_, count| 0 < count.at(second));
            }
            if COUNTS_MAX <= counts.len() {
                return true;
            }
        }
        let count = counts.entry(counted).or_insert(Count { requests: 0, second });
        let requests = count.at(second).saturating_add(1);
        *count = Count { requests, second };
        assert!(counts.len() <= COUNTS_MAX, "bounded: {} counts", counts.len());
        draw.fraction() < f64::from(limit) / (f64::from(requests) * LN_2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Uuid;
    use stdx::Prng;

    /// Nearly 1.
    const UNLUCKY: Draw = Draw((1 << Draw::BITS) - 1);
    const HALF: Draw = Draw(1 << (Draw::BITS - 1));

    const KEY: Counted = (Uuid::nil(), Token(5), Operation::Write);

    /// How many of so many requests a second go on in each second, once that goes on for long.
    fn going_on(limit: u32, per_second: u32) -> f64 {
        let counts = Counts::default();
        let mut random = Prng::from_seed(7);
        let mut gone_on = 0;
        for second in 0..200 {
            for _ in 0..per_second {
                let admitted = counts.admit(KEY, limit, second, Draw::of(random.next_u64()));
                gone_on += u32::from(admitted && 100 <= second);
            }
        }
        f64::from(gone_on) / 100.0
    }

    #[test]
    fn about_as_many_go_on_as_may() {
        let check = |limit, per_second, expected: f64| {
            let found = going_on(limit, per_second);
            assert!((found - expected).abs() <= expected * 0.1, "{limit}, {per_second}: {found}");
        };
        check(100, 1000, 100.0);
        check(100, 200, 100.0);
        check(1000, 100, 100.0);
        check(0, 100, 0.0);
    }

    #[test]
    fn reads_writes_and_partitions_are_counted_apart() {
        let counts = Counts::default();
        let (table, token, _) = KEY;
        for other in [(table, token, Operation::Read), (table, Token(6), Operation::Write), KEY] {
            // The first of each goes on, however unlucky its draw.
            assert!(counts.admit(other, 1, 9, UNLUCKY));
            assert!(!counts.admit(other, 1, 9, UNLUCKY));
        }
        assert!(counts.admit(KEY, 1, 19, UNLUCKY), "what was long ago counts no more");
        assert!(counts.admit(KEY, 9, 3, Draw(1 << 49)), "a clock that goes back does no harm");
    }

    #[test]
    fn counts_are_bounded_and_old_ones_go() {
        let counts = Counts::default();
        let (table, _, operation) = KEY;
        for number in 0..2 * COUNTS_MAX as i64 {
            counts.admit((table, Token(number), operation), 0, 1, HALF);
        }
        assert_eq!(counts.counts.borrow().len(), COUNTS_MAX);
        assert!(counts.admit((table, Token(-1), operation), 0, 1, HALF), "not counted");
        assert!(!counts.admit((table, Token(-1), operation), 0, 60, HALF));
        assert_eq!(counts.counts.borrow().len(), 1);
    }

    #[test]
    fn the_refusal_says_what_and_where() {
        let refused = RateLimited {
            operation: Operation::Read,
            by_coordinator: true,
            table: "ks.t".to_owned(),
        };
        let text = "Per-partition rate limit reached for read in table ks.t, rejected by \
                    coordinator";
        assert_eq!(refused.to_string(), text);
        let by_owner = RateLimited { by_coordinator: false, ..refused };
        assert!(by_owner.to_string().ends_with("rejected by replicas"));
    }

    #[test]
    fn replicas_that_count_the_same_decide_the_same_and_one_draw_is_one_limit() {
        let (limit, replicas) = (100, [Counts::default(), Counts::default(), Counts::default()]);
        let mut random = Prng::from_seed(11);
        let mut gone_on = 0;
        for second in 0..100 {
            for _ in 0..400 {
                let draw = Draw::of(random.next_u64());
                let verdicts = replicas.each_ref().map(|it| it.admit(KEY, limit, second, draw));
                assert!(verdicts.iter().all(|one| *one == verdicts[0]), "one-draw: {verdicts:?}");
                gone_on += u32::from(verdicts[0] && 50 <= second);
            }
        }
        let per_second = f64::from(gone_on) / 50.0;
        assert!((90.0..=110.0).contains(&per_second), "{per_second}");
    }

    #[test]
    fn a_draw_is_sent_in_one_form() {
        for bits in [0, 1, u64::MAX, 1 << 63] {
            let draw = Draw::of(bits);
            assert_eq!(Draw::from_wire(draw.to_wire()), Some(draw));
        }
        assert_eq!(Draw::from_wire(1 << 53), None);
    }
}
