//! When tablets were repaired, noted with them in the group of all nodes (`system.tablets`).
//!
//! Who has had tablets repaired keeps their times for a moment, and notes all of them with one
//! command: when its job ends, and while it goes on from time to time. What it keeps ends with it;
//! then tablets are shown as repaired earlier than they were. Merges go by what each replica
//! remembers for itself ([`super::history`]), and not by this.
//!
//! Invariants
//!  - *all-had-it*: see [`super::history`]; a range is noted only if its replicas were told to
//!    remember it.
//!  - *no-later*: see `catalog::placement`.
//!  - *shown*: when a job ends its times are shown here, or a warning says why they are not.
//!  - *bounded*: so many ranges wait; of others nothing is noted.
//!
//! Lives on shard 0 of each node.

use super::range::Moment;
use crate::coordinator::Coordinator;
use crate::wire::sync::Part;
use cluster::features;
use model::{TableId, Token};
use runtime::sync::Semaphore;
use runtime::time::Instant;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// For how long times wait for others, unless their job ends.
const WAIT: Duration = Duration::from_secs(10);
/// Ranges that wait.
const RANGES_MAX: usize = 1 << 16;
/// Jobs that wait for each other.
const WAITING_MAX: usize = 1024;

/// Ranges of tables, from their first token to their last, and a millisecond since 1970 of each.
type Noted = BTreeMap<TableId, Vec<((Token, Token), i64)>>;

/// See the module. Stands in `runtime::local` of shard 0.
pub(super) struct Times {
    ranges: RefCell<BTreeMap<Part, i64>>,
    /// Since when the first of them waits.
    since: Cell<Instant>,
    turn: Semaphore,
}

impl Default for Times {
    fn default() -> Times {
        let turn = Semaphore::new(1, WAITING_MAX);
        Times { ranges: RefCell::default(), since: Cell::new(Instant::now()), turn }
    }
}

impl Times {
    pub(super) fn of_shard() -> Rc<Times> {
        debug_assert!(runtime::shard_id() == 0, "shown: times of another shard");
        runtime::local::get_or_default::<Times>()
    }

    /// Whether what waits has waited long enough.
    pub(super) fn is_due(&self) -> bool {
        !self.ranges.borrow().is_empty() && WAIT <= self.since.get().elapsed()
    }

    fn add(&self, range: Part, at: i64) {
        let mut ranges = self.ranges.borrow_mut();
        if ranges.is_empty() {
            self.since.set(Instant::now());
        }
        if RANGES_MAX <= ranges.len() && !ranges.contains_key(&range) {
            return;
        }
        let known = ranges.entry(range).or_insert(at);
        *known = (*known).max(at);
        debug_assert!(ranges.len() <= RANGES_MAX, "bounded: {} ranges wait", ranges.len());
    }

    fn take(&self) -> Noted {
        let mut noted = Noted::new();
        for ((table, first, last), at) in self.ranges.take() {
            debug_assert!(first <= last, "no-later: from {first:?} to {last:?}");
            noted.entry(table).or_default().push(((first, last), at));
        }
        noted
    }
}

impl Coordinator {
    /// Replicas of a range were told to remember that it was repaired (*all-had-it*).
    pub(super) fn note_repair_time(&self, range: Part, moment: Moment) {
        let schema = self.cluster.schema();
        let has_tablets = schema.table_by_id(range.0).is_some_and(|it| !it.replicas.is_empty());
        if has_tablets && self.places().enables(features::TABLET_REPAIR_TIME) {
            Times::of_shard().add(range, moment.micros.div_euclid(1000));
        }
    }

    /// Notes what waits (*shown*).
    pub(super) async fn tell_repair_times(&self) {
        let times = Times::of_shard();
        // Who comes later waits until what was taken from it is shown.
        let Ok(_turn) = times.turn.acquire(1).await else { return };
        let noted = times.take();
        if noted.is_empty() {
            return;
        }
        let count: usize = noted.values().map(Vec::len).sum();
        debug_assert!(count <= RANGES_MAX, "bounded: {count} ranges are noted");
        if let Err(why) = self.cluster.note_repairs(noted).await {
            tracing::warn!(
                target: "repair",
                "system.tablets does not show that {count} ranges were repaired: {why:?}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Uuid;

    #[test]
    fn a_range_has_its_last_time_and_waits_for_others() {
        runtime::sim::test(1, || async {
            let times = Times::default();
            let range = |table: u128, token| (Uuid::from_u128(table), Token(token), Token(token));
            assert!(!times.is_due());
            runtime::time::sleep(2 * WAIT).await;
            assert!(!times.is_due(), "nothing waits");
            for (table, token, at) in [(1, 5, 10), (1, 5, 12), (1, 5, 11), (2, 5, 9), (1, 6, 9)] {
                times.add(range(table, token), at);
            }
            assert!(!times.is_due(), "others may come");
            runtime::time::sleep(WAIT).await;
            assert!(times.is_due());
            let one = |token, at| ((Token(token), Token(token)), at);
            let [first, second] = [1, 2].map(Uuid::from_u128);
            let expected = [(first, vec![one(5, 12), one(6, 9)]), (second, vec![one(5, 9)])];
            assert_eq!(times.take(), expected.into());
            assert!(!times.is_due() && times.take().is_empty());
        });
    }

    #[test]
    fn no_more_ranges_wait_than_may() {
        runtime::sim::test(2, || async {
            let times = Times::default();
            for token in 0..2 * RANGES_MAX as i64 {
                times.add((Uuid::from_u128(1), Token(token), Token(token)), token);
            }
            times.add((Uuid::from_u128(1), Token(0), Token(0)), 7);
            let noted = times.take();
            let ranges = &noted[&Uuid::from_u128(1)];
            assert_eq!((ranges.len(), ranges[0].1), (RANGES_MAX, 7));
        });
    }
}
