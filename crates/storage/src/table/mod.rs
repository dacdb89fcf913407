//! One table on one shard: its tablets, each with memtables and SSTables.
//!
//! From the ground up: `token_ranges` (what is to go), `ring_share` (what of an SSTable a shard
//! has), `truncation` (the record of one), `backlog` (what was found of it), `changes` (how often
//! it changed), `repairs` (when it was repaired), this, `parts` (how the ring is divided), `dir`
//! (the table's directory), `cache_update` (a memtable into the row cache), `sstable_set` (SSTables
//! join and leave), `gate` (who may touch the files), `flush_queue` (sealed memtables).
//!
//! Invariants
//!  - *one-view*: what a read sees of a tablet is taken in one step: memtables and SSTable set
//!    together, so that a flush in between is seen neither twice nor not at all.
//!  - *tablets-in-order*: a table's tablets of a shard ascend, by index and by range, and are
//!    apart.
//!  - *one-share*: of a ring without tablets a shard has one part, and no tablet beside it.
//!  - *one-order*: all that a table holds lies in the clustering order of its schema. A new order,
//!    of a user type with another field, has the rows that are there where the old one has them:
//!    none has the field. Those of the old one are sealed, and not cached, when the first with it
//!    comes.
//!  - *sealed-oldest-first*: sealed memtables stand in the order in which they were sealed.
//!  - *drops-hold*: no memtable has a cell that is older than the drop of its column, where a
//!    column of that name was added again. SSTables may have such cells; readers skip them.

pub(crate) mod backlog;
pub(crate) mod cache_update;
mod changes;
pub(crate) mod dir;
pub(crate) mod flush_queue;
mod gate;
mod parts;
mod repairs;
mod ring_share;
mod sstable_set;
mod token_ranges;
pub(crate) mod truncation;

pub(crate) use gate::{GATE_UNITS, pass_gate, quiet};
pub(crate) use parts::Parts;
pub(crate) use ring_share::{Held, part_outside};
pub(crate) use token_ranges::TokenRanges;

use crate::cache::{CacheLookups, RowCache, TabletCache};
use crate::commitlog::ReplayPosition;
use crate::config::Log;
use crate::large_data::{Known, Watch};
use crate::memtable::dirty::Dirty;
use crate::memtable::{Memtable, Partition};
use backlog::Backlog;
use changes::Changes;
use model::{ClusteringOrder, DecoratedKey, RingShare, TableId, TableSchema, TabletMap, Token};
use mutation::{FrozenMutation, FrozenView, drop_times, newer_than_drops};
use reader::Source;
use repairs::Repairs;
use runtime::sync::{Notify, Semaphore};
use runtime::time::Instant;
use sstable::Descriptor;
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use truncation::Truncation;

/// A file of the directory that could not be opened, or is of no version that is read.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    /// The SSTable that it belongs to, if that can be told.
    pub(crate) descriptor: Option<Descriptor>,
    pub(crate) file: String,
    /// What is wrong with it, and where.
    pub(crate) what: String,
    pub(crate) at: u64,
}

/// A table.
pub(crate) struct Table {
    pub(crate) id: TableId,
    pub(crate) schema: RefCell<Rc<TableSchema>>,
    pub(crate) order: RefCell<Rc<ClusteringOrder>>,
    /// Whether its options let it have a row cache.
    cached: Cell<bool>,
    /// Whether it has columns that were dropped and added again (*drops-hold*).
    has_drops: Cell<bool>,
    pub(crate) log: Log,
    pub(crate) dir: PathBuf,
    /// The pool of its memtables.
    pub(crate) dirty: Rc<Dirty>,
    parts: RefCell<Parts>,
    pub(crate) truncations: RefCell<Vec<Truncation>>,
    /// What could not be opened: as long as there is any, reads are refused.
    pub(crate) broken: RefCell<Vec<Broken>>,
    pub(crate) dropped: Cell<bool>,
    /// Whether its writes are logged; those of a keyspace without durable writes are not.
    pub(crate) logged: Cell<bool>,
    /// Whether its writes bring others with them (`shard::deriving`).
    pub(crate) derives: Cell<bool>,
    /// Writes that began before that and wait, so that they enter without.
    pub(crate) underived: Cell<usize>,
    pub(crate) underived_ended: Notify,
    /// When its memtables were last flushed because it was time.
    pub(crate) flushed_at: Cell<Instant>,
    /// Whether the directory is durable.
    pub(crate) dir_synced: Cell<bool>,
    pub(crate) gate: Semaphore,
    /// Held by who takes over files from elsewhere.
    pub(crate) loading: Semaphore,
    /// Held by a compaction that removes its inputs, and by who wants to see none go.
    pub(crate) removals: Semaphore,
    /// Held by who removes ranges of tokens: one at a time.
    pub(crate) clearing: Semaphore,
    /// Somebody waits for the whole gate: compactions end early.
    pub(crate) quiet_wanted: Cell<bool>,
    /// Whether it is compacted without being asked for.
    pub(crate) auto_compaction: Cell<bool>,
    /// Whether it is being filled with what was there before it, and hardly read meanwhile: what is
    /// flushed of it is not cached (*filled-uncached*), and its merges wait (*wide-while-filled*).
    pub(crate) filling: Cell<bool>,
    /// Whether merges may forget deletions.
    pub(crate) tombstone_gc: Cell<bool>,
    /// Whether there is one copy of it in the whole cluster: no repair says what may be forgotten.
    pub(crate) is_single: Cell<bool>,
    /// How many wait for SSTables of other nodes: merges forget no deletion meanwhile.
    pub(crate) arriving: Cell<usize>,
    /// From which size on its memtables note rows.
    pub(crate) watch: Cell<Watch>,
    /// When the log was told of writes to what is large last, by what it was.
    pub(crate) told: Cell<[Option<Instant>; 4]>,
    /// When deletions had reached all replicas, in seconds since 1970.
    pub(crate) repairs: RefCell<Repairs>,
    /// Whether the end of a merge may be durable or not: nothing is merged any more.
    pub(crate) in_doubt: Cell<bool>,
    /// SSTables that are not in the set any more and could not be removed.
    pub(crate) unremoved: RefCell<Vec<Descriptor>>,
    /// SSTables that are not in the set any more, and that other shards may have
    /// (`shard::compact::reshard`).
    pub(crate) let_go: RefCell<Vec<Descriptor>>,
    /// So many of its memtables were sealed.
    pub(crate) sealed_count: Cell<u64>,
    /// What was looked up in what was cached of tablets that are gone.
    pub(crate) lookups_gone: Cell<CacheLookups>,
    /// So many of its tablets went to other shards, on whichever shards of this node.
    pub(crate) hand_overs: Cell<u64>,
    /// Writes that the log takes in pieces, which are under way.
    pub(crate) in_pieces: Cell<usize>,
    /// A tablet that was closed is open again, or is elsewhere; or a write in pieces has ended.
    pub(crate) opened: Notify,
}

/// What of its shard a table takes memory of.
#[derive(Clone, Copy)]
pub(crate) struct Shares<'s> {
    pub(crate) dirty: &'s Rc<Dirty>,
    pub(crate) cache: Option<&'s Rc<RowCache>>,
}

/// Which way a read goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Through {
    /// Through the row cache, if there is one.
    Cache,
    /// To the SSTables.
    Below,
}

impl Through {
    /// Of a `bypass_cache` flag.
    pub(crate) fn of(bypass_cache: bool) -> Through {
        if bypass_cache { Through::Below } else { Through::Cache }
    }
}

/// Whether a tablet is one of its table (`shard::divide`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Stays,
    /// Others are about to take its place: what is done to its SSTables ends early.
    Leaves,
    /// It is about to go to another shard, and nothing is written to it any more
    /// (`shard::hand_over`).
    Closed,
    /// Others have what it had. Nothing comes to it any more.
    Gone,
}

/// The part of a table's ring that one tablet covers, or that a shard has of a ring without
/// tablets.
pub(crate) struct Tablet {
    /// In the map of the table.
    pub(crate) index: Cell<usize>,
    standing: Cell<Standing>,
    /// After the first token, up to and including the second.
    pub(crate) range: (Token, Token),
    /// Of the tokens in its range it has these alone; `None`: all.
    pub(crate) share: Option<RingShare>,
    pub(crate) active: RefCell<Rc<Memtable>>,
    /// Oldest first.
    pub(crate) sealed: RefCell<Vec<Rc<Memtable>>>,
    pub(crate) sstables: RefCell<Rc<Vec<Rc<sstable::Table>>>>,
    /// What they record as large.
    pub(crate) known: RefCell<Known>,
    pub(crate) order: RefCell<Rc<ClusteringOrder>>,
    /// What is cached of the SSTables; `None`: the node has no row cache.
    pub(crate) cache: Option<Rc<TabletCache>>,
    /// Held by a flush that merges its memtable into the cache.
    pub(crate) updating: Semaphore,
    /// Held by who merges its SSTables: one at a time.
    pub(crate) compacting: Semaphore,
    /// Its part of an SSTable could not be written: other merges have their turn first.
    pub(crate) reshard_last: Cell<bool>,
    /// What was found of its backlog of merges.
    pub(crate) backlog: Backlog,
    /// How often what it holds has changed.
    pub(crate) changes: Changes,
    /// How many reads and writes of single partitions it had, since it is there.
    pub(crate) requests: Cell<u64>,
}

impl Tablet {
    /// Counts a read or a write.
    #[inline]
    pub(crate) fn count_request(&self) {
        self.requests.set(self.requests.get() + 1);
    }
}

impl Table {
    /// A table without SSTables; `shard` decides which tablets it has here.
    pub(crate) fn new(
        schema: Rc<TableSchema>,
        map: TabletMap,
        log: Log,
        Shares { dirty, cache }: Shares<'_>,
        (data_dir, shard): (&Path, u16),
    ) -> Table {
        let order = Rc::new(schema.order.clone());
        let mine = (0..map.count()).filter(|index| map.shards()[*index] == shard);
        let tablet = |index| Rc::new(Tablet::new(&map, index, &order, Shares { dirty, cache }));
        let tablets: Vec<Rc<Tablet>> = mine.map(tablet).collect();
        Table {
            id: schema.id,
            dir: dir::directory(data_dir, &schema),
            dirty: dirty.clone(),
            cached: Cell::new(is_cached(&schema)),
            has_drops: Cell::new(!drop_times(&schema).is_empty()),
            schema: RefCell::new(schema),
            order: RefCell::new(order),
            parts: RefCell::new(Parts::new(Rc::new(map), tablets)),
            log,
            truncations: RefCell::default(),
            broken: RefCell::default(),
            dropped: Cell::new(false),
            logged: Cell::new(true),
            derives: Cell::new(false),
            underived: Cell::new(0),
            underived_ended: Notify::new(),
            flushed_at: Cell::new(Instant::now()),
            dir_synced: Cell::new(false),
            gate: Semaphore::new(GATE_UNITS, usize::MAX),
            loading: Semaphore::new(1, usize::MAX),
            removals: Semaphore::new(1, usize::MAX),
            clearing: Semaphore::new(1, usize::MAX),
            quiet_wanted: Cell::new(false),
            auto_compaction: Cell::new(true),
            filling: Cell::new(false),
            tombstone_gc: Cell::new(true),
            is_single: Cell::new(false),
            arriving: Cell::new(0),
            watch: Cell::new(Watch::NONE),
            told: Cell::default(),
            repairs: RefCell::default(),
            in_doubt: Cell::new(false),
            unremoved: RefCell::default(),
            let_go: RefCell::default(),
            sealed_count: Cell::new(0),
            lookups_gone: Cell::default(),
            hand_overs: Cell::new(0),
            in_pieces: Cell::new(0),
            opened: Notify::new(),
        }
    }

    pub(crate) fn schema(&self) -> Rc<TableSchema> {
        self.schema.borrow().clone()
    }

    /// Its name, as people know it.
    pub(crate) fn name(&self) -> String {
        let schema = self.schema.borrow();
        format!("{}.{}", schema.keyspace, schema.name)
    }

    /// Sets another version of the schema. What is cached is forgotten where rows may look
    /// different now, or are not to be cached any more. No memtable may have a row while the order
    /// changes.
    pub(crate) fn set_schema(&self, schema: Rc<TableSchema>) {
        assert!(self.id == schema.id, "the schema of another table: {}", schema.name);
        let old = self.schema.replace(schema.clone());
        self.cached.set(is_cached(&schema));
        self.has_drops.set(!drop_times(&schema).is_empty());
        if old.order != schema.order {
            self.set_order(&Rc::new(schema.order.clone()));
        } else if old.columns != schema.columns || !self.is_cached() {
            self.tablets().iter().for_each(|tablet| tablet.forget_cached());
        }
    }

    fn set_order(&self, order: &Rc<ClusteringOrder>) {
        self.order.replace(order.clone());
        for tablet in self.tablets().iter() {
            let fresh = Rc::new(Memtable::counted(order.clone(), self.dirty.clone()));
            let before = tablet.active.replace(fresh);
            assert!(before.is_empty(), "one-order: rows of {} lie in another", self.name());
            tablet.order.replace(order.clone());
            if let Some(cache) = &tablet.cache {
                cache.set_order(order);
            }
        }
    }

    /// A mutation without what this table hides of it; `None` if it hides nothing (*drops-hold*).
    #[inline]
    pub(crate) fn newer_than_drops(&self, view: &FrozenView<'_>) -> Option<FrozenMutation> {
        if !self.has_drops.get() {
            return None;
        }
        let schema = self.schema();
        newer_than_drops(&schema, view, &drop_times(&schema))
    }

    /// Whether its options let it have a row cache.
    pub(crate) fn is_cached(&self) -> bool {
        self.cached.get()
    }

    /// What reads of a tablet go through.
    pub(crate) fn cache_of<'t>(
        &self,
        tablet: &'t Tablet,
        through: Through,
    ) -> Option<&'t Rc<TabletCache>> {
        tablet.cache.as_ref().filter(|_| through == Through::Cache && self.is_cached())
    }

    /// What was looked up in what was cached of a tablet that has gone stays counted.
    pub(crate) fn note_lookups_of(&self, tablet: &Tablet) {
        debug_assert!(tablet.is_gone(), "nothing-lost: it goes on counting");
        let lookups = tablet.cache.as_ref().map(|cache| cache.lookups()).unwrap_or_default();
        let mut gone = self.lookups_gone.get();
        gone.hits += lookups.hits;
        gone.misses += lookups.misses;
        self.lookups_gone.set(gone);
    }

    /// The tablets that have tokens from one to another.
    fn tablets_within(&self, (first, last): (Token, Token)) -> Vec<Rc<Tablet>> {
        assert!(first <= last, "tablets-in-order: from {first:?} to {last:?}");
        let meets = |tablet: &&Rc<Tablet>| {
            let (after, until) = tablet.range;
            first <= until && (after < last || after == Token::MIN)
        };
        self.parts().tablets.iter().filter(meets).cloned().collect()
    }

    /// How often something between two tokens has changed on this shard, from some number on.
    pub(crate) fn changes(&self, tokens: (Token, Token)) -> u64 {
        let tablets = self.tablets_within(tokens);
        let counts = tablets.iter().map(|tablet| {
            let damaged = tablet.sstables.borrow().iter().filter(|one| one.is_damaged()).count();
            // What it was before is no count that another change leads to, up to chance.
            let damaged = (damaged as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            tablet.changes.of(tokens).wrapping_add(damaged)
        });
        counts.fold(0, u64::wrapping_add)
    }

    /// Memory that a scan from one token to another takes of SSTables at most: all of them are
    /// begun, and those are read at a time that have a token in common.
    pub(crate) fn scan_bytes(&self, tokens: (Token, Token)) -> usize {
        let (mut begun, mut edges) = (0, Vec::new());
        for tablet in self.tablets_within(tokens) {
            for one in tablet.sstables.borrow().iter() {
                let bytes = one.scan_bytes(tokens);
                let more = (bytes.most - bytes.begun) as i64;
                begun += bytes.begun;
                edges.push((one.first_key().token, false, more));
                edges.push((one.last_key().token, true, -more));
            }
        }
        // One that begins where another one ends meets it.
        edges.sort_unstable();
        let together = edges.iter().scan(0, |sum, (_, _, more)| {
            *sum += more;
            Some(*sum)
        });
        let most = together.max().unwrap_or(0);
        debug_assert!(0 <= most, "tablets-in-order: {most} bytes are read");
        begun + most as usize
    }

    /// Whether a truncation covers a log entry of a partition with that token.
    pub(crate) fn is_truncated(&self, position: ReplayPosition, token: Token) -> bool {
        self.truncations.borrow().iter().any(|truncation| truncation.covers(position, token))
    }

    /// Makes the tablet's active memtable a sealed one, unless it is empty.
    pub(crate) fn seal(&self, tablet: &Tablet) -> Option<Rc<Memtable>> {
        if tablet.active.borrow().is_empty() {
            return None;
        }
        let fresh = Rc::new(Memtable::counted(self.order.borrow().clone(), self.dirty.clone()));
        let full = tablet.active.replace(fresh);
        debug_assert!(!tablet.is_sealed(&full), "sealed-oldest-first: it is there");
        full.seal();
        self.sealed_count.set(self.sealed_count.get() + 1);
        assert!(tablet.active.borrow().is_empty(), "sealed-is-final: a new one with writes");
        debug_assert!(
            tablet.sealed.borrow().last().is_none_or(|last| {
                let newest = full.newest_segment();
                newest.is_none() || last.newest_segment() <= newest
            }),
            "sealed-oldest-first: an older one of {}",
            self.name()
        );
        tablet.sealed.borrow_mut().push(full.clone());
        Some(full)
    }

    /// Removes the files of an SSTable that is not in the set any more. What cannot be removed is
    /// remembered, for the next truncation to cover.
    pub(crate) async fn remove_sstable(&self, descriptor: Descriptor) {
        debug_assert!(
            !self.parts().tablets.iter().any(|tablet| tablet.has_sstable(descriptor)),
            "inputs-outlive-output: {descriptor:?} is in a set"
        );
        if let Err(error) = sstable::store::remove(&self.dir, descriptor).await {
            tracing::warn!("an SSTable that is not needed any more stays: {error}");
            self.unremoved.borrow_mut().push(descriptor);
        }
    }

    /// Whether the next start will find no SSTables but those of the set.
    pub(crate) fn knows_all_sstables(&self) -> bool {
        let all_removed = self.unremoved.borrow().is_empty() && self.let_go.borrow().is_empty();
        all_removed && self.broken.borrow().is_empty()
    }

    /// Whether an SSTable has partitions outside of every single tablet of this shard.
    pub(crate) fn is_shared(&self, one: &sstable::Table) -> bool {
        !self.parts().tablets.iter().any(|tablet| tablet.holds_all_of(one))
    }

    /// Bytes of memory that the SSTables take beside what is cached, each counted once. Allocates
    /// nothing: it is asked often.
    pub(crate) fn component_bytes(&self) -> usize {
        let (mut bytes, mut before) = (0, None);
        for tablet in self.tablets().iter() {
            let tables = tablet.sstables.borrow().clone();
            // One that lies in several tablets lies in all between them, or counts again after one
            // that has let go of it.
            let seen = |table| {
                let mut before = before.iter().flat_map(|before: &Rc<Vec<_>>| before.iter());
                before.any(|seen| Rc::ptr_eq(seen, table))
            };
            let new = tables.iter().filter(|table| !seen(table));
            bytes += new.map(|table: &Rc<sstable::Table>| table.memory_bytes()).sum::<usize>();
            before = Some(tables);
        }
        bytes
    }

    /// The SSTables of all tablets here, each once.
    pub(crate) fn sstables(&self) -> Vec<Rc<sstable::Table>> {
        let mut all: Vec<Rc<sstable::Table>> = Vec::new();
        for tablet in self.tablets().iter() {
            for table in tablet.sstables.borrow().iter() {
                if !all.iter().any(|seen| Rc::ptr_eq(seen, table)) {
                    all.push(table.clone());
                }
            }
        }
        all
    }
}

impl Tablet {
    /// That of a map with this number: an empty one.
    pub(crate) fn new(
        map: &TabletMap,
        index: usize,
        order: &Rc<ClusteringOrder>,
        Shares { dirty, cache }: Shares<'_>,
    ) -> Tablet {
        let (range, share) = (map.range(index), map.share(index));
        assert!(range.0 <= range.1, "a tablet after {:?} to {:?}", range.0, range.1);
        let active = Rc::new(Memtable::counted(order.clone(), dirty.clone()));
        Tablet {
            order: RefCell::new(order.clone()),
            cache: cache.map(|cache| cache.open(order.clone(), range)),
            standing: Cell::new(Standing::Stays),
            updating: Semaphore::new(1, usize::MAX),
            compacting: Semaphore::new(1, usize::MAX),
            reshard_last: Cell::new(false),
            backlog: Backlog::default(),
            changes: Changes::default(),
            requests: Cell::new(0),
            index: Cell::new(index),
            range,
            share,
            active: RefCell::new(active),
            sealed: RefCell::default(),
            sstables: RefCell::default(),
            known: RefCell::default(),
        }
    }

    /// What memtables have of a partition.
    pub(crate) fn in_memory<'t>(
        &'t self,
        key: &'t DecoratedKey,
    ) -> impl Iterator<Item = Rc<Partition>> + use<'t> {
        let active = self.active.borrow().snapshot(key);
        let sealed = self.sealed.borrow();
        let sealed = (0..sealed.len()).filter_map(move |at| sealed[at].snapshot(key));
        active.into_iter().chain(sealed)
    }

    /// All memtables that hold something, the newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = Rc<Memtable>> + use<> {
        let active = self.active.borrow().clone();
        debug_assert!(!active.is_sealed(), "sealed-is-final: a sealed one is active");
        let sealed: Vec<_> = self.sealed.borrow().iter().rev().cloned().collect();
        debug_assert!(
            sealed.iter().all(|one| one.is_sealed()),
            "sealed-is-final: one that is to be flushed is written to"
        );
        std::iter::once(active).chain(sealed).filter(|memtable| !memtable.is_empty())
    }

    /// Whether an SSTable may have partitions of this tablet.
    pub(crate) fn intersects(&self, table: &sstable::Table) -> bool {
        let (after, last) = self.range;
        let (first, until) = (table.first_key().token, table.last_key().token);
        debug_assert!(after <= last, "a tablet after {after:?} to {last:?}");
        let meets = first <= last && (after < until || after == Token::MIN);
        meets && self.share.is_none_or(|share| Held::of(table, share) != Held::Nothing)
    }

    /// Whether all partitions of an SSTable are of this tablet.
    pub(crate) fn holds_all_of(&self, table: &sstable::Table) -> bool {
        let (after, last) = self.range;
        let inside = |token: Token| (after < token || after == Token::MIN) && token <= last;
        inside(table.first_key().token)
            && inside(table.last_key().token)
            && self.share.is_none_or(|share| Held::of(table, share) == Held::All)
    }

    /// What a source of an SSTable yields of this tablet, within its range.
    pub(crate) fn part_of(&self, table: &sstable::Table, all: Box<dyn Source>) -> Box<dyn Source> {
        Held::part_of(self.share, table, all)
    }

    /// Whether an SSTable is in its set.
    pub(crate) fn has_sstable(&self, descriptor: Descriptor) -> bool {
        self.sstables.borrow().iter().any(|one| one.descriptor() == descriptor)
    }

    /// Sets whether it is to stay. What is gone is gone.
    pub(crate) fn set_standing(&self, standing: Standing) {
        let before = self.standing.replace(standing);
        assert!(before != Standing::Gone, "a tablet that is gone comes back");
    }

    /// Whether who does something to its SSTables is to end early.
    pub(crate) fn is_leaving(&self) -> bool {
        self.standing.get() != Standing::Stays
    }

    /// Whether nothing may be written to it: it is about to go to another shard, or others have
    /// taken its place.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.standing.get(), Standing::Closed | Standing::Gone)
    }

    /// Whether others have taken its place.
    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        self.standing.get() == Standing::Gone
    }

    /// Whether somebody merges its SSTables.
    pub(crate) fn is_busy(&self) -> bool {
        self.compacting.available() == 0
    }

    /// Whether a memtable is among those that are to be flushed.
    pub(crate) fn is_sealed(&self, memtable: &Rc<Memtable>) -> bool {
        self.sealed.borrow().iter().any(|one| Rc::ptr_eq(one, memtable))
    }

    /// Takes `memtable` out of those that are being flushed; whether it was there.
    pub(crate) fn remove_sealed(&self, memtable: &Rc<Memtable>) -> bool {
        let mut sealed = self.sealed.borrow_mut();
        let before = sealed.len();
        sealed.retain(|one| !Rc::ptr_eq(one, memtable));
        assert!(before - sealed.len() <= 1, "sealed-oldest-first: a memtable twice");
        sealed.len() < before
    }
}

/// Whether a table's options let it have a row cache.
fn is_cached(schema: &TableSchema) -> bool {
    let option = |name: &str| {
        let found = schema.options.caching.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    };
    let is = |name, word: &str| option(name).is_some_and(|value| value.eq_ignore_ascii_case(word));
    !is("enabled", "false") && !is("rows_per_partition", "none")
}
