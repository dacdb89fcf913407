//! Keeping the cache of a tablet what it is: a mirror of the tablet's SSTables.
//!
//! Invariants
//!  - *one-step*: the set of SSTables, the memtables and the phase of the cache change in one step;
//!    what a flush adds was merged into the cache before.
//!  - *one-at-a-time*: of the flushes of a tablet one merges and exchanges at a time.
//!
//! Whoever gives up a merge, by an error or by being dropped, leaves an empty cache, not a stale
//! one.

use crate::cache::{Update, UpdateStep};
use crate::large_data::Known;
use crate::memtable::{KeyRange, Memtable, MemtableSource};
use crate::table::{Table, Tablet};
use model::{DecoratedKey, TableSchema, Token};
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
    /// *one-at-a-time*.
    _turn: Option<Permit>,
}

/// Merges a sealed memtable, whose SSTable is about to join the set, into what is cached.
pub(crate) async fn merge(
    table: &Table,
    tablet: &Tablet,
    memtable: &Rc<Memtable>,
) -> Result<Merged, ReadError> {
    let turn = tablet.updating.acquire(1).await.ok();
    let mut merged = Merged { update: None, _turn: turn };
    let Some(cache) = &tablet.cache else { return Ok(merged) };
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

/// Whether a table's options let it have a row cache.
pub(crate) fn is_cached(schema: &TableSchema) -> bool {
    let option = |name: &str| {
        let found = schema.options.caching.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    };
    let is = |name, word: &str| option(name).is_some_and(|value| value.eq_ignore_ascii_case(word));
    !is("enabled", "false") && !is("rows_per_partition", "none")
}

impl Tablet {
    /// An SSTable with content that the tablet did not have joins the set.
    pub(crate) fn adopt(&self, table: Rc<sstable::Table>) {
        self.add(table);
        self.forget_cached();
    }

    /// What was a memtable joins the set as SSTables, if it has some (*one-step*); whether the
    /// memtable was still there to leave.
    pub(crate) fn exchange(
        &self,
        memtable: &Rc<Memtable>,
        flushed: Option<(Vec<Rc<sstable::Table>>, Merged)>,
    ) -> bool {
        if let Some((tables, merged)) = flushed {
            self.replace(&[], tables);
            if let Some(update) = merged.update {
                update.finish();
            }
        }
        self.remove_sealed(memtable)
    }

    /// What was merged takes the place of its inputs: the content is the same.
    pub(crate) fn replace(&self, inputs: &[Rc<sstable::Table>], outputs: Vec<Rc<sstable::Table>>) {
        let mut all = self.sstables.borrow().to_vec();
        all.retain(|one| !inputs.iter().any(|input| Rc::ptr_eq(one, input)));
        all.extend(outputs);
        self.set_sstables(all);
    }

    /// SSTables leave the set, and what they hold the tablet.
    pub(crate) fn forget(&self, is_gone: impl Fn(&sstable::Table) -> bool) {
        let mut all = self.sstables.borrow().to_vec();
        all.retain(|one| !is_gone(one));
        self.set_sstables(all);
        self.forget_cached();
    }

    /// Forgets all that is cached.
    pub(crate) fn forget_cached(&self) {
        if let Some(cache) = &self.cache {
            cache.invalidate();
        }
    }

    fn set_sstables(&self, all: Vec<Rc<sstable::Table>>) {
        *self.known.borrow_mut() = Known::of(&all);
        *self.sstables.borrow_mut() = Rc::new(all);
    }

    fn add(&self, table: Rc<sstable::Table>) {
        let mut all = self.sstables.borrow().to_vec();
        all.push(table);
        self.set_sstables(all);
    }
}
