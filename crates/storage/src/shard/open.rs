//! Making a table known: its directory, its truncations, its SSTables.
//!
//! Policy on damage: an SSTable that cannot be opened makes the reads of its table fail with the
//! file's name; the table's writes and all other tables go on.
//!
//! Invariants
//!  - *known-once*: a table is made known once, until it is dropped.

use super::Shard;
use crate::compaction::Obsolete;
use crate::config::Log;
use crate::error::StorageError;
use crate::table::dir::{self, UPLOAD};
use crate::table::{Broken, Shares, Table, truncation};
use model::{TableSchema, TabletMap};
use reader::ReadError;
use runtime::io::fs;
use runtime::task::join_all;
use sstable::store::name::{Parsed, parse_file_name, refusal};
use sstable::store::{self, Component, Listing, State};
use sstable::{Descriptor, Table as SsTable};
use std::rc::Rc;
use stdx::HashSet;

/// SSTables that are opened at the same time.
const OPENING_MAX: usize = 16;

/// What opening one SSTable came to.
pub(crate) enum Opened {
    Good(Rc<SsTable>),
    Bad(Descriptor, ReadError),
}

/// The first file that is of no SSTable that can be opened here.
fn unreadable(table: &Table, listing: &Listing) -> Option<Broken> {
    let name = listing.unreadable.first()?;
    let file = table.dir.join(name).display().to_string();
    let what = match parse_file_name(name) {
        Parsed::OtherVersion(version) => refusal(version),
        _ => "a file that cannot be read".to_string(),
    };
    Some(Broken { descriptor: None, file, what, at: 0 })
}

impl Shard {
    pub(crate) async fn add_table(
        &self,
        schema: Rc<TableSchema>,
        tablets: TabletMap,
        log: Log,
    ) -> Result<(), StorageError> {
        if self.stopping.get() {
            return Err(StorageError::Stopped);
        }
        let shard = runtime::shard_id();
        let shares = Shares { dirty: self.dirty_of(&schema, log), cache: self.row_cache.as_ref() };
        let home = (self.config.data_dir.as_path(), shard);
        let table = Table::new(schema.clone(), tablets, log, shares, home);
        let is_here = !table.tablets().is_empty();
        assert!(log == Log::Data || shard == 0 || !is_here, "schema log: shard 0");
        assert!(
            table.map().shards().iter().all(|shard| *shard < runtime::shard_count()),
            "tablets-in-order: a tablet of {} is of no shard",
            schema.name
        );
        match shard {
            // Operators put SSTables there; it is made again at each start.
            0 => {
                fs::create_dir_all(table.dir.join(UPLOAD)).await?;
                dir::remove_given(&table.dir).await?;
            }
            _ => fs::create_dir_all(&table.dir).await?,
        }
        let truncations = truncation::load(&table.dir).await?;
        // Before the listing: shard 0 may remove a record, after its SSTables, meanwhile.
        let obsolete = Obsolete::load(&table.dir).await?;
        let listing = match shard {
            0 => store::clean_up(&table.dir).await?,
            _ => store::list(&table.dir).await?,
        };
        table.broken.borrow_mut().extend(unreadable(&table, &listing));
        for found in listing.tables.iter().filter(|found| found.state == State::NoToc) {
            let name = found.descriptor.file_name(Component::Data);
            tracing::warn!("{name} in {} has no TOC.txt: not opened", table.dir.display());
        }
        let truncated = truncations.iter().flat_map(|one| &one.sstables);
        let gone = truncated.chain(obsolete.iter().flat_map(|one| &one.sstables));
        let gone: HashSet<&str> = gone.map(String::as_str).collect();
        let mut kept = Vec::new();
        for found in listing.tables.iter().filter(|found| found.state == State::Complete) {
            let name = found.descriptor.file_name(Component::Data);
            if !gone.contains(name.as_str()) {
                kept.push(found.descriptor);
            } else if shard == 0 {
                store::remove(&table.dir, found.descriptor).await?;
            }
        }
        drop(gone);
        if shard == 0 {
            for record in &obsolete {
                record.remove().await?;
            }
            Obsolete::clean_up(&table.dir).await?;
        }
        assert!(table.sstables().is_empty(), "once-in-set: a new table");
        table.dir_synced.set(!kept.is_empty());
        *table.truncations.borrow_mut() = truncations;
        self.set_watch(&table);
        for opened in open_all(self, &table, &kept, schema.clone()).await {
            place(&table, opened);
        }
        let before = self.tables.borrow_mut().insert(schema.id, Rc::new(table));
        assert!(before.is_none(), "known-once: {} was open, with what it holds", schema.name);
        Ok(())
    }
}

impl Shard {
    pub(crate) fn alter_table(&self, schema: Rc<TableSchema>) {
        let Some(table) = self.table(schema.id) else { return };
        if table.schema().order != schema.order {
            self.seal_all(&table);
        }
        table.set_schema(schema.clone());
        self.set_watch(&table);
        // Another strategy may want other files.
        self.compaction_wake.notify_one();
        for one in table.sstables() {
            if let Err(error) = one.set_schema(schema.clone()) {
                tracing::error!("an SSTable does not fit the altered schema: {error:?}");
                break_reads(&table, one.descriptor(), error);
            }
        }
    }
}

/// Opens SSTables of the directory of a table, some at a time.
pub(crate) async fn open_all(
    shard: &Shard,
    table: &Table,
    descriptors: &[Descriptor],
    schema: Rc<TableSchema>,
) -> Vec<Opened> {
    let mut all = Vec::with_capacity(descriptors.len());
    for some in descriptors.chunks(OPENING_MAX) {
        all.extend(join_all(some.iter().map(|one| open(shard, table, *one, schema.clone()))).await);
    }
    all
}

async fn open(
    shard: &Shard,
    table: &Table,
    descriptor: Descriptor,
    schema: Rc<TableSchema>,
) -> Opened {
    match SsTable::open(&table.dir, descriptor, schema, &shard.index_cache).await {
        Ok(opened) => Opened::Good(opened),
        Err(error) => Opened::Bad(descriptor, error),
    }
}

/// Gives an SSTable to the tablets that it concerns.
pub(crate) fn place(table: &Table, opened: Opened) {
    match opened {
        Opened::Good(opened) => {
            debug_assert!(opened.dir() == table.dir, "an SSTable of another directory");
            for tablet in table.tablets().iter().filter(|tablet| tablet.intersects(&opened)) {
                tablet.adopt(opened.clone());
            }
        }
        Opened::Bad(descriptor, error) => break_reads(table, descriptor, error),
    }
}

/// From now on reads fail with this error.
fn break_reads(table: &Table, descriptor: Descriptor, error: ReadError) {
    let (file, what, at) = match error {
        ReadError::Damaged { file, what, at } => (file, what, at),
        other => (table.dir.display().to_string(), format!("{other:?}"), 0),
    };
    tracing::error!("{file} is damaged: {what} at {at}");
    let descriptor = Some(descriptor);
    table.broken.borrow_mut().push(Broken { descriptor, file, what, at });
}
