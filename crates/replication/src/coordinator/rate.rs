//! Rate limits per partition: the option `per_partition_rate_limit` of tables.
//!
//! The shard that owns a partition counts the requests of clients to it, reads and writes
//! separately. Counts are halved each second, so at V requests a second one swings between V and
//! 2 V. Above the limit a request is let through with a probability of `limit / (count * ln 2)`,
//! which comes to the limit over such a swing. No request waits: a refusal costs little, which is
//! what the limit is for. Source: cluster reference, section 9.
//!
//! Invariants
//!  - *bounded*: a shard has no more than [`COUNTS_MAX`] counts; requests to partitions beyond
//!    those go on.
//!  - *clients-only*: internal requests are neither counted nor refused; nor are counters,
//!    conditional writes and range reads.

use crate::coordinator::{Coordinator, own_coordinator};
use cluster::TableEntry;
use cluster::traffic::{Failure, Work};
use model::{TableId, TableSchema, Token};
use std::cell::{Cell, RefCell};
use std::f64::consts::LN_2;
use std::fmt;
use std::time::Duration;
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
    fn option(self) -> &'static str {
        match self {
            Operation::Read => "max_reads_per_second",
            Operation::Write => "max_writes_per_second",
        }
    }
}

/// A request that went over the limit. Nothing of it was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimited {
    /// What it was.
    pub operation: Operation,
    /// Whether the shard that it was sent to decided so; else the owner of the partition.
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

/// A partition with what is done to it.
type Counted = (TableId, Token, Operation);

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
    /// Counts a request; whether it goes on. `draw` is drawn evenly from [0, 1).
    fn admit(&self, counted: Counted, limit: u32, second: u64, draw: f64) -> bool {
        debug_assert!((0.0..1.0).contains(&draw), "a draw of {draw}");
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
        draw < f64::from(limit) / (f64::from(requests) * LN_2)
    }
}

fn limit_of(table: &TableSchema, operation: Operation) -> Option<u32> {
    let options = &table.options.per_partition_rate_limit;
    let (_, value) = options.iter().find(|(name, _)| name == operation.option())?;
    value.parse().ok()
}

impl Coordinator {
    /// Whether a table has limits for requests to its partitions.
    #[inline]
    pub fn limits_requests(table: &TableEntry) -> bool {
        !table.schema.options.per_partition_rate_limit.is_empty()
    }

    /// Counts a client's request to the partition at `token`, and refuses it where the table has a
    /// limit that it goes over. If its owner does not say so within `patience`, it goes on.
    pub async fn admit_request(
        &self,
        table: &TableEntry,
        token: Token,
        operation: Operation,
        patience: Duration,
    ) -> Result<(), RateLimited> {
        let Some(limit) = limit_of(&table.schema, operation) else { return Ok(()) };
        let counted = (table.schema.id, token, operation);
        let second = u64::try_from(runtime::time::wall_micros() / 1_000_000).unwrap_or(0);
        let draw = (runtime::random_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let shard = table.tablets.shard_of(token);
        let by_coordinator = shard == self.shard;
        let goes_on = match by_coordinator {
            true => self.requests.admit(counted, limit, second, draw),
            false => {
                let admit = move || async move {
                    let Ok(owner) = own_coordinator() else { return true };
                    owner.requests.admit(counted, limit, second, draw)
                };
                let asked = runtime::time::timeout(patience, runtime::on_shard(shard, admit));
                asked.await.unwrap_or(true)
            }
        };
        let TableSchema { keyspace, name, .. } = &*table.schema;
        match goes_on {
            true => Ok(()),
            false => {
                let work = match operation {
                    Operation::Read => Work::Read,
                    Operation::Write => Work::Write,
                };
                self.traffic.fail(work, Failure::RateLimited);
                Err(RateLimited { operation, by_coordinator, table: format!("{keyspace}.{name}") })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Uuid;
    use stdx::Prng;

    const KEY: Counted = (Uuid::nil(), Token(5), Operation::Write);

    /// How many of so many requests a second go on in each second, once that goes on for long.
    fn going_on(limit: u32, per_second: u32) -> f64 {
        let counts = Counts::default();
        let mut random = Prng::from_seed(7);
        let mut gone_on = 0;
        for second in 0..200 {
            for _ in 0..per_second {
                let draw = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
                let admitted = counts.admit(KEY, limit, second, draw);
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
            assert!(counts.admit(other, 1, 9, 0.999));
            assert!(!counts.admit(other, 1, 9, 0.999));
        }
        assert!(counts.admit(KEY, 1, 19, 0.999), "what was long ago counts no more");
        assert!(counts.admit(KEY, 9, 3, 0.1), "a clock that goes back does no harm");
    }

    #[test]
    fn counts_are_bounded_and_old_ones_go() {
        let counts = Counts::default();
        let (table, _, operation) = KEY;
        for number in 0..2 * COUNTS_MAX as i64 {
            counts.admit((table, Token(number), operation), 0, 1, 0.5);
        }
        assert_eq!(counts.counts.borrow().len(), COUNTS_MAX);
        assert!(counts.admit((table, Token(-1), operation), 0, 1, 0.5), "not counted");
        assert!(!counts.admit((table, Token(-1), operation), 0, 60, 0.5));
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
}
