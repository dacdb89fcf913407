//! The rows of a snapshot, read where it lies: for whoever puts them into another table. Nothing
//! is copied, and the table that it was taken of need not be there any more.
//!
//! Invariants
//!  - *whole-or-refused*: a snapshot without its manifest is not read: it may lack files.
//!  - *as-the-reader*: its SSTables name columns; they are read as rows of the table that is to
//!    have them, whose columns have the same names and types. What does not fit is refused.

use super::{Place, SnapshotFilter, SnapshotTag, manifest, places};
use crate::error::StorageError;
use crate::shard::Shard;
use crate::shard::upload::check_content;
use crate::shard::view::meets;
use model::{TableId, TableSchema};
use mutation::Direction;
use reader::{PartitionScope, Slice, Source};
use runtime::io::IoClass;
use sstable::store::dir::State;
use sstable::{Access, Lookup, Scope, Table as SsTable, store};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Where a snapshot is, whatever became of its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotPlace {
    pub keyspace: String,
    pub table: String,
    pub table_id: TableId,
    pub tag: SnapshotTag,
}

/// A snapshot that is open on one shard: all of it, whichever shards have written it.
pub struct OpenSnapshot {
    schema: Rc<TableSchema>,
    sstables: Vec<Rc<SsTable>>,
}

impl Shard {
    /// See [`crate::Storage::open_snapshot`].
    pub(crate) async fn open_snapshot(
        &self,
        place: &SnapshotPlace,
        schema: Rc<TableSchema>,
    ) -> Result<Option<OpenSnapshot>, StorageError> {
        let Some(Place { dir, .. }) = self.find_snapshot(place).await? else { return Ok(None) };
        if manifest::times(&dir).await?.created_secs.is_none() {
            return Ok(None);
        }
        let listing = store::list(&dir).await?;
        let damaged =
            |name: &str, what: String| StorageError::Damaged { file: dir.join(name), what };
        if let Some(name) = listing.unreadable.iter().find(|name| name.ends_with("-Data.db")) {
            return Err(damaged(name, "its format cannot be read".to_owned()));
        }
        let mut sstables = Vec::new();
        for found in listing.tables {
            let name = found.descriptor.file_name(sstable::Component::Data);
            if found.state != State::Complete {
                return Err(damaged(&name, "an SSTable of a snapshot is not whole".to_owned()));
            }
            let cache = &self.index_cache;
            let opened = SsTable::open(&dir, found.descriptor, schema.clone(), cache).await?;
            check_content(&opened, &schema).map_err(|what| damaged(&name, what))?;
            sstables.push(opened);
        }
        let descriptors: BTreeSet<_> = sstables.iter().map(|one| one.descriptor()).collect();
        assert!(descriptors.len() == sstables.len(), "whole-or-refused: an SSTable is open twice");
        Ok(Some(OpenSnapshot { schema, sstables }))
    }

    async fn find_snapshot(&self, place: &SnapshotPlace) -> Result<Option<Place>, StorageError> {
        let filter = SnapshotFilter {
            tag: Some(place.tag.as_str().to_owned()),
            keyspaces: vec![place.keyspace.clone()],
            table: Some(place.table.clone()),
        };
        let all = places(&self.config.data_dir).await?;
        let is_it = |one: &Place| one.table_id == Some(place.table_id) && one.fits(&filter);
        Ok(all.into_iter().find(is_it))
    }
}

impl OpenSnapshot {
    /// A source of what it has of some partitions, which leaves nothing in the caches.
    pub fn source(&self, scope: &PartitionScope, slice: Slice) -> Box<dyn Source> {
        debug_assert!(!slice.reversed && !slice.forwarding, "it is read from its start");
        let access = Access::bypass(IoClass::Streaming);
        let sources = match scope {
            PartitionScope::Key(key) => {
                let lookup = Lookup::new(key.key.clone());
                let holders = self.sstables.iter().filter(|table| table.may_contain(&lookup));
                let open = |table: &Rc<SsTable>| -> Box<dyn Source> {
                    let scope = Scope::Key(lookup.clone());
                    Box::new(table.read_checked(scope, slice.clone(), access.clone()))
                };
                holders.map(open).collect()
            }
            PartitionScope::Range { start, end } => {
                let holders = self.sstables.iter().filter(|table| meets(table, start, end));
                let open = |table: &Rc<SsTable>| -> Box<dyn Source> {
                    let scope = Scope::Range { start: start.clone(), end: end.clone() };
                    Box::new(table.read_checked(scope, slice.clone(), access.clone()))
                };
                holders.map(open).collect::<Vec<_>>()
            }
        };
        reader::merge(self.schema.clone(), Direction::Forward, sources)
    }

    /// How many SSTables it has.
    pub fn sstable_count(&self) -> usize {
        self.sstables.len()
    }
}
