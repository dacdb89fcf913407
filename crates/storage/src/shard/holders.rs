//! Where on this shard a partition lies: each memtable, the row cache and each SSTable by itself.
//!
//! For those who want to see what is stored and where; who wants an answer merges: `shard::view`.
//!
//! Invariants
//!  - *one-view*: the places are taken in one step, so that a flush in between moves nothing past
//!    who looks.
//!  - *as-it-lies*: what a place yields is what it holds, dead or not; looking at it caches
//!    nothing.
//!  - *in-order-of-names*: places come in the order of their names. A memtable that is sealed gets
//!    a later name, and so has what becomes an SSTable: who goes on after a name misses nothing
//!    that was written before.

use super::Shard;
use crate::cache::TabletCache;
use crate::cache::source::KnownSource;
use crate::memtable::{KeyRange, Memtable, MemtableSource};
use crate::table::Through;
use model::{ClusteringOrder, DecoratedKey, TableId, TableSchema};
use reader::semaphore::{Permit, Reading};
use reader::{ReadError, Slice, Source};
use runtime::io::IoClass;
use runtime::time::Instant;
use sstable::{Access, Component, Lookup, Scope};
use std::rc::Rc;

/// One place that may have something of a partition.
pub struct Holder {
    name: String,
    place: Place,
    lookup: Lookup,
}

enum Place {
    Memtable(Rc<Memtable>),
    Cache(Rc<TabletCache>, Rc<ClusteringOrder>),
    SsTable(Rc<sstable::Table>),
}

impl Holder {
    /// `memtable:0` (the one that is written to, or the youngest), `memtable:1`, ..; `row-cache`;
    /// `sstable:` with the path of its data file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it holds of the partition; nothing comes if it is not there. The slice must not be one
    /// that is forwarded.
    pub fn open(&self, slice: Slice) -> Box<dyn Source> {
        let key = &self.lookup.key;
        debug_assert!(!slice.forwarding, "as-it-lies: what {} holds is not forwarded", self.name);
        match &self.place {
            Place::Memtable(memtable) => {
                let keys = KeyRange::One(key.clone());
                Box::new(MemtableSource::new(memtable.clone(), keys, slice))
            }
            Place::Cache(cache, order) => {
                Box::new(KnownSource::new(cache, order.clone(), key.clone(), slice))
            }
            Place::SsTable(table) => {
                let access = Access::bypass(IoClass::Query);
                Box::new(table.read(Scope::Key(self.lookup.clone()), slice, access))
            }
        }
    }
}

impl Shard {
    /// See [`crate::Storage::admit_read`].
    pub(crate) async fn admit_read(
        &self,
        table: TableId,
    ) -> Result<(Permit, Rc<TableSchema>), ReadError> {
        let schema = self.readable(table)?.schema();
        let reading = Reading { schema: schema.clone(), operation: "mutation-dump" };
        let deadline = Instant::now() + self.read_timeouts.get().1;
        let permit = self.reads.of(&schema).admit(&reading, Some(deadline)).await?;
        Ok((permit, schema))
    }

    /// The places of this shard that may hold something of a partition, by name.
    pub(crate) fn holders(
        &self,
        id: TableId,
        key: &DecoratedKey,
    ) -> Result<Vec<Holder>, ReadError> {
        let table = self.readable(id)?;
        let Some(tablet) = table.tablet_of(key.token) else { return Ok(Vec::new()) };
        let lookup = Lookup::new(key.key.clone());
        debug_assert!(lookup.key == *key, "a token of another key: {key:?}");
        let mut holders = Vec::new();
        let mut add = |name: String, place: Place| {
            holders.push(Holder { name, place, lookup: lookup.clone() });
        };
        for (index, memtable) in tablet.memtables().enumerate() {
            if memtable.contains(key) {
                add(format!("memtable:{index}"), Place::Memtable(memtable));
            }
        }
        if let Some(cache) = table.cache_of(&tablet, Through::Cache)
            && cache.knows(key)
        {
            add("row-cache".to_owned(), Place::Cache(cache.clone(), tablet.order.borrow().clone()));
        }
        for one in tablet.sstables.borrow().iter().filter(|one| one.may_contain(&lookup)) {
            let path = one.descriptor().path(one.dir(), Component::Data);
            add(format!("sstable:{}", path.display()), Place::SsTable(one.clone()));
        }
        holders.sort_by(|a, b| a.name.cmp(&b.name));
        debug_assert!(holders.is_sorted_by(|a, b| a.name < b.name), "in-order-of-names: one twice");
        Ok(holders)
    }
}
