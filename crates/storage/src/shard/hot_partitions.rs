//! Which partitions are read and written most: counted while somebody asks, not otherwise.
//!
//! Reads and writes of single partitions are counted on the shard that owns them, each page of a
//! read for itself. Reads of ranges are not: they touch every partition alike.
//!
//! Invariants
//!  - *one-branch-when-off*: with nobody asking a request pays for a look at one cell.
//!  - *bounded*: [`SAMPLINGS_MAX`] at a time, each with [`CAPACITY_MAX`] keys of reads and of
//!    writes, of [`KEY_BYTES_MAX`] bytes.
//!  - *adds-up*: the counts of partitions are no more than what came in all.
//!  - *ends-with-its-asker*: whoever goes away takes the counts along.

use super::Shard;
use model::{TableId, Token};
use runtime::Erased;
use runtime::{local, on_all_shards};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use stdx::top::{Counted, Distinct, Top};

/// Samplings of a shard at the same time.
const SAMPLINGS_MAX: usize = 8;
/// Keys that one counts at most, of reads and of writes.
pub const CAPACITY_MAX: usize = 1024;
/// Longer keys are told by their token and so many bytes.
const KEY_BYTES_MAX: usize = 1024;
/// The longest time that is sampled.
pub const SAMPLING_MAX: Duration = Duration::from_secs(600);

/// What is to be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotOrder {
    /// Of these tables; `None`: of all.
    pub tables: Option<Vec<TableId>>,
    /// How long, [`SAMPLING_MAX`] at most.
    pub duration: Duration,
    /// Keys that each shard counts at a time, of reads and of writes; [`CAPACITY_MAX`] at most.
    /// The more there are, the smaller the errors.
    pub capacity: usize,
    /// Keys that are told of reads, and of writes.
    pub listed: usize,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HotPartition {
    pub table: TableId,
    pub token: Token,
    /// Its first [`KEY_BYTES_MAX`] bytes.
    pub key: Vec<u8>,
    /// Whether these are all.
    pub is_whole: bool,
}

/// What was counted of reads, or of writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HotCounts {
    /// All that came.
    pub total: u64,
    /// To so many partitions, about.
    pub partitions: u64,
    /// Those that came most often, these first.
    pub top: Vec<Counted<HotPartition>>,
}

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hot {
    pub reads: HotCounts,
    pub writes: HotCounts,
}

/// What a request does to a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    Read,
    Write,
}

/// Who asks on this shard.
#[derive(Default)]
pub(crate) struct Sampler {
    is_on: Cell<bool>,
    samplings: RefCell<Vec<Rc<Sampling>>>,
}

impl Sampler {
    /// Whether somebody asks.
    #[cfg(test)]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// A partition is read or written (*one-branch-when-off*).
    #[inline]
    pub(crate) fn note(&self, touch: Touch, table: TableId, token: Token, key: &[u8]) {
        if self.is_on.get() {
            self.note_in_all(touch, table, token, key);
        }
    }

    #[cold]
    fn note_in_all(&self, touch: Touch, table: TableId, token: Token, key: &[u8]) {
        debug_assert!(!self.samplings.borrow().is_empty(), "one-branch-when-off: nobody asks");
        for sampling in &*self.samplings.borrow() {
            sampling.note(touch, table, token, key);
        }
    }

    /// Begins to count; the error says why that cannot be.
    fn begin(self: &Rc<Self>, order: &HotOrder) -> Result<Asked, String> {
        let mut samplings = self.samplings.borrow_mut();
        if SAMPLINGS_MAX <= samplings.len() {
            return Err(format!("{SAMPLINGS_MAX} others sample partitions already"));
        }
        let capacity = order.capacity.clamp(1, CAPACITY_MAX);
        let side = || RefCell::new(Side { top: Top::new(capacity), distinct: Distinct::default() });
        let sampling =
            Rc::new(Sampling { tables: order.tables.clone(), reads: side(), writes: side() });
        samplings.push(sampling.clone());
        assert!(samplings.len() <= SAMPLINGS_MAX, "bounded: {} samplings", samplings.len());
        self.is_on.set(true);
        Ok(Asked { sampler: self.clone(), sampling })
    }
}

/// One who asks. Counting ends when it is dropped (*ends-with-its-asker*).
struct Asked {
    sampler: Rc<Sampler>,
    sampling: Rc<Sampling>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        let mut samplings = self.sampler.samplings.borrow_mut();
        let before = samplings.len();
        samplings.retain(|one| !Rc::ptr_eq(one, &self.sampling));
        assert!(samplings.len() + 1 == before, "ends-with-its-asker: it was not there");
        self.sampler.is_on.set(!samplings.is_empty());
    }
}

/// The counts of one who asks.
struct Sampling {
    tables: Option<Vec<TableId>>,
    reads: RefCell<Side>,
    writes: RefCell<Side>,
}

struct Side {
    top: Top<HotPartition>,
    distinct: Distinct,
}

impl Sampling {
    fn note(&self, touch: Touch, table: TableId, token: Token, key: &[u8]) {
        if self.tables.as_ref().is_some_and(|tables| !tables.contains(&table)) {
            return;
        }
        let side = match touch {
            Touch::Read => &self.reads,
            Touch::Write => &self.writes,
        };
        let kept = &key[..key.len().min(KEY_BYTES_MAX)];
        let is_whole = kept.len() == key.len();
        let partition = HotPartition { table, token, key: kept.to_vec(), is_whole };
        debug_assert!(partition.key.len() <= KEY_BYTES_MAX, "bounded: a key");
        let mut side = side.borrow_mut();
        side.distinct.count((table, key));
        side.top.count(partition);
    }

    fn told(&self, listed: usize) -> Hot {
        let counts = |side: &RefCell<Side>| {
            let side = side.borrow();
            let (total, partitions) = (side.top.total(), side.distinct.estimate());
            let mut top = side.top.clone().into_sorted();
            top.truncate(listed);
            assert!(
                top.iter().map(|one| one.count).sum::<u64>() <= total,
                "adds-up: more than the {total} that came"
            );
            HotCounts { total, partitions, top }
        };
        Hot { reads: counts(&self.reads), writes: counts(&self.writes) }
    }
}

/// What all shards counted as one. A partition is of one shard, so that sums are exact.
fn merged(all: Vec<Hot>, listed: usize) -> Hot {
    let mut sum = Hot::default();
    for one in all {
        for (into, from) in [(&mut sum.reads, one.reads), (&mut sum.writes, one.writes)] {
            into.total += from.total;
            into.partitions += from.partitions;
            into.top.extend(from.top);
        }
    }
    for side in [&mut sum.reads, &mut sum.writes] {
        side.top.sort_by_key(|one| (std::cmp::Reverse(one.count), one.error));
        side.top.truncate(listed);
    }
    sum
}

/// Counts on all shards for as long as `order` says. The error says why that cannot be.
pub fn hot_partitions(order: HotOrder) -> Erased<'static, Result<Hot, String>> {
    Erased::new(move || async move {
        let listed = order.listed;
        let asked = on_all_shards(move || {
            let order = order.clone();
            async move {
                let Some(shard) = local::try_get::<Shard>() else { return Ok(Hot::default()) };
                let asked = shard.sampler.begin(&order)?;
                drop(shard);
                runtime::time::sleep(order.duration.min(SAMPLING_MAX)).await;
                Ok(asked.sampling.told(order.listed))
            }
        });
        let told: Result<Vec<Hot>, String> = asked.await.into_iter().collect();
        Ok(merged(told?, listed))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(tables: Option<Vec<TableId>>) -> HotOrder {
        HotOrder { tables, duration: Duration::ZERO, capacity: 4, listed: 2 }
    }

    fn table(number: u128) -> TableId {
        TableId::from_u128(number)
    }

    fn shown(counts: &HotCounts) -> Vec<(String, u64)> {
        let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        counts.top.iter().map(|one| (text(&one.key.key), one.count)).collect()
    }

    #[test]
    fn each_counts_what_it_asked_for_until_it_goes() {
        let sampler = Rc::new(Sampler::default());
        let note = |touch, number, key: &str| {
            sampler.note(touch, table(number), Token(key.len() as i64), key.as_bytes());
        };
        note(Touch::Read, 1, "before");
        let all = sampler.begin(&order(None)).unwrap();
        let one = sampler.begin(&order(Some(vec![table(2)]))).unwrap();
        for (touch, number, key) in [
            (Touch::Read, 1, "a"),
            (Touch::Read, 1, "a"),
            (Touch::Read, 2, "a"),
            (Touch::Write, 2, "bb"),
        ] {
            note(touch, number, key);
        }
        let (hot, of_two) = (all.sampling.told(2), one.sampling.told(2));
        assert_eq!(shown(&hot.reads), [("a".to_owned(), 2), ("a".to_owned(), 1)]);
        assert_eq!((hot.reads.total, hot.reads.partitions), (3, 2));
        assert_eq!(shown(&of_two.reads), [("a".to_owned(), 1)]);
        assert_eq!(shown(&of_two.writes), [("bb".to_owned(), 1)]);
        drop(all);
        assert!(sampler.is_on(), "one still asks");
        drop(one);
        assert!(!sampler.is_on() && sampler.samplings.borrow().is_empty());
    }

    #[test]
    fn who_comes_too_late_is_refused() {
        let sampler = Rc::new(Sampler::default());
        let mut asked = Vec::new();
        for _ in 0..SAMPLINGS_MAX {
            asked.push(sampler.begin(&order(None)).unwrap());
        }
        assert!(sampler.begin(&order(None)).is_err());
        asked.pop();
        assert!(sampler.begin(&order(None)).is_ok());
    }

    #[test]
    fn long_keys_are_told_apart_by_their_tokens() {
        let sampler = Rc::new(Sampler::default());
        let asked = sampler.begin(&order(None)).unwrap();
        let key = vec![7; KEY_BYTES_MAX + 1];
        for token in [1, 2, 2] {
            sampler.note(Touch::Write, table(1), Token(token), &key);
        }
        let top = asked.sampling.told(2).writes.top;
        assert_eq!(top.iter().map(|one| one.count).collect::<Vec<_>>(), [2, 1]);
        assert!(top.iter().all(|one| one.key.key.len() == KEY_BYTES_MAX && !one.key.is_whole));
    }

    #[test]
    fn shards_come_together() {
        let hot = |key: &str, count| {
            let partition = HotPartition {
                table: table(1),
                token: Token(1),
                key: key.as_bytes().to_vec(),
                is_whole: true,
            };
            let top = vec![Counted { key: partition, count, error: 0 }];
            let reads = HotCounts { total: count, partitions: 1, top };
            Hot { reads, writes: HotCounts::default() }
        };
        let sum = merged(vec![hot("a", 3), hot("b", 9), hot("c", 5)], 2);
        assert_eq!(shown(&sum.reads), [("b".to_owned(), 9), ("c".to_owned(), 5)]);
        assert_eq!((sum.reads.total, sum.reads.partitions), (17, 3));
    }
}
