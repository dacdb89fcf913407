//! A sealed memtable into the row cache, which mirrors the SSTables of its tablet, before what was
//! written of it joins them.
//!
//! Invariants
//!  - *one-at-a-time*: of the flushes of a tablet one merges and exchanges at a time.
//!  - *filled-uncached*: of a table that is being filled nothing is merged. What is cached of it is
//!    forgotten in the step in which the SSTable joins: hardly anybody reads it, and it would take
//!    the place of what is read.
//!
//! Whoever gives up a merge, by an error or by being dropped, leaves an empty cache, not a stale
//! one.

use super::{Table, Tablet};
use crate::cache::{TabletCache, Update, UpdateStep};
use crate::memtable::{KeyRange, Memtable, MemtableSource};
use model::{DecoratedKey, Token};
use mutation::{Fragment, RingBound};
use reader::{Budget, ReadError, Slice, Source};
use runtime::sync::Permit;
use runtime::task::{need_preempt, yield_now};
use runtime::time::Instant;
use sstable::Lookup;
use std::rc::Rc;
use std::time::Duration;

/// What is merged between two looks at the clock.
const BATCH: Budget = Budget { fragments_max: 32, bytes_max: 32 << 10 };

/// Small partitions that are merged at a time.
const FEW: usize = 16;
/// A merge lets others go on after this, before its quota is used up: what comes on top of it is
/// longest where the cache is full and memory is slow.
const TURN: Duration = Duration::from_micros(250);

/// A memtable that was merged into the cache of its tablet, as far as there is one.
pub(crate) struct Merged {
    update: Option<Update>,
    /// The cache that is to forget all (*filled-uncached*).
    forgets: Option<Rc<TabletCache>>,
    /// *one-at-a-time*.
    _turn: Option<Permit>,
}

/// Merges a sealed memtable, whose SSTable is about to join the set, into what is cached.
pub(crate) async fn merge(
    table: &Table,
    tablet: &Tablet,
    memtable: &Rc<Memtable>,
) -> Result<Merged, ReadError> {
    assert!(memtable.is_sealed(), "one-at-a-time: what is merged is written to");
    let turn = tablet.updating.acquire(1).await.ok();
    let mut merged = Merged { update: None, forgets: None, _turn: turn };
    assert!(tablet.updating.available() == 0, "one-at-a-time");
    let Some(cache) = &tablet.cache else { return Ok(merged) };
    if table.filling.get() {
        merged.forgets = Some(cache.clone());
        return Ok(merged);
    }
    let mut update = cache.begin_update(&table.schema());
    if table.is_cached() {
        let surely_absent = |key: &DecoratedKey| {
            let lookup = Lookup::new(key.key.clone());
            !tablet.sstables.borrow().iter().any(|one| one.may_contain(&lookup))
        };
        merge_into(&mut update, memtable, &surely_absent).await?;
    }
    merged.update = Some(update);
    Ok(merged)
}

/// Merges all of a sealed memtable. `surely_absent` tells whether no SSTable has a partition.
pub(crate) async fn merge_into(
    update: &mut Update,
    memtable: &Rc<Memtable>,
    surely_absent: &dyn Fn(&DecoratedKey) -> bool,
) -> Result<(), ReadError> {
    let (mut left, mut turn) = (None, Turn::new());
    loop {
        let step = memtable.next_few(left.as_ref(), FEW, |few| {
            let merged = update.plain_few(few, surely_absent);
            // Where it stopped, a partition has to be merged by fragments.
            let last = few.get(merged).or(few.last());
            last.map(|(key, _)| (DecoratedKey::clone(key), merged < few.len()))
        });
        let Some((key, has_fragments)) = step else { return Ok(()) };
        assert!(left.as_ref() < Some(&key), "ring-order: {key:?} after {left:?}");
        if has_fragments {
            merge_fragments(update, memtable, &key, surely_absent, &mut turn).await?;
        }
        left = Some(key);
        turn.pass().await;
    }
}

/// How long a merge has held its shard.
struct Turn {
    began: Instant,
}

impl Turn {
    fn new() -> Turn {
        Turn { began: Instant::now() }
    }

    /// Lets others go on, if it is time to.
    async fn pass(&mut self) {
        if need_preempt() || TURN <= self.began.elapsed() {
            yield_now().await;
            *self = Turn::new();
        }
    }
}

/// Merges a partition of any size.
async fn merge_fragments(
    update: &mut Update,
    memtable: &Rc<Memtable>,
    key: &DecoratedKey,
    surely_absent: &dyn Fn(&DecoratedKey) -> bool,
    turn: &mut Turn,
) -> Result<(), ReadError> {
    let keys = KeyRange::One(key.clone());
    let mut source = MemtableSource::new(memtable.clone(), keys, Slice::full());
    let mut batch: Vec<Fragment> = Vec::new();
    loop {
        source.fill(BATCH, &mut batch).await?;
        if batch.is_empty() {
            return Ok(());
        }
        for fragment in batch.drain(..) {
            while let UpdateStep::Again = update.fragment(&fragment, surely_absent) {
                turn.pass().await;
            }
        }
        turn.pass().await;
    }
}

/// All partitions of a memtable.
pub(crate) fn all_keys() -> KeyRange {
    let bound = |token, after| RingBound { token, key: None, after };
    KeyRange::Between(bound(Token::MIN, false), bound(Token::MAX, true))
}

impl Merged {
    /// The SSTables have joined the set, in the same step: what was merged is to be seen.
    pub(super) fn finish(self) {
        debug_assert!(
            self.update.is_none() || self.forgets.is_none(),
            "filled-uncached: merged and forgotten"
        );
        if let Some(cache) = self.forgets {
            cache.invalidate();
        }
        if let Some(update) = self.update {
            update.finish();
        }
    }
}
