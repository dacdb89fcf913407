//! What is stored of a table, fragment by fragment and place by place, as rows of a table that is
//! nowhere stored: `SELECT .. FROM MUTATION_FRAGMENTS(t)`.
//!
//! A partition has, for each place that holds something of it (a memtable, the row cache, an
//! SSTable, the function that computes a virtual table), a row for its start, its static row, each
//! row and tombstone change, and its end. Nothing is merged, compacted or expired.
//!
//! Invariants
//!  - *place-by-place*: the rows of a partition come by the name of the place, then in the order of
//!    the stream that the place yields. Where a clustering range is asked for, range tombstones
//!    that reach into it are opened at its start and closed at its end.
//!  - *goes-on-after*: the clustering key of a row ends with a component that no column shows, in
//!    which stands what is needed to go on after it ([`layout::Spot`]). A page begins with no
//!    tombstone change that only tells what was open at the end of the one before.
//!  - *bounded*: at most a batch of fragments and a page are held; a page ends after
//!    [`PARTITIONS_MAX`] partitions, or [`TIME_MAX`], even if it is empty.
//!
//! In reading order: [`layout`] (columns, keys and ranges), [`json`] (what rows say), [`dump`]
//! (from a place to rows).

mod dump;
mod json;
mod layout;

use crate::coordinator::{Coordinator, own_storage, work_of};
use crate::cursor::Cursor;
use crate::options::ReadOptions;
use crate::scan::Scan;
use crate::{ReadError, range, virtual_read};
use cluster::{TableEntry, TableKind};
use dump::{Dump, Origin};
use layout::Layout;
use model::{DecoratedKey, Token};
use mutation::Step;
use mutation::page::{Page, Partitions, ReadCommand, Resume};
use reader::{PartitionScope, Slice};
use runtime::io::IoClass;
use runtime::task::join_all;
use runtime::time::{Instant, Mark};
use std::time::Duration;
use stdx::Bytes;
use storage::{SourceOptions, Storage};

/// Partitions that are looked at for one page.
const PARTITIONS_MAX: usize = 1000;

/// How long partitions are looked at for one page: less than any read may take.
const TIME_MAX: Duration = Duration::from_secs(1);

/// The place of all that a virtual table has.
const VIRTUAL: &str = "virtual-table";

impl Coordinator {
    /// As [`Coordinator::read`], but of what is stored of `table`: a page of the table that
    /// [`model::schema::fragments::output_schema`] tells. A range is read tablet by tablet.
    pub async fn read_fragments(
        &self,
        table: &TableEntry,
        token: Token,
        command: &ReadCommand,
        options: &ReadOptions<'_>,
    ) -> Result<Page, ReadError> {
        let work = work_of(command, options.consistency);
        // Of a table that is on several nodes it is what this one has.
        let required = match self.is_spread(table) {
            true => 1,
            false => self.admit_read(table, work, options)?,
        };
        let began = Mark::now();
        let after = command.resume.as_ref().and_then(|resume| resume.after.as_ref());
        if let Some((after, _)) = after
            && Layout::of(&table.schema).place(after).is_none()
        {
            return Err(ReadError::Refused("Invalid value for the paging state".to_owned()));
        }
        let waits = Box::pin(self.fragments_waiting(table, token, command));
        self.answer_read(table, (work, began), options, required, waits).await
    }

    async fn fragments_waiting(
        &self,
        table: &TableEntry,
        token: Token,
        command: &ReadCommand,
    ) -> Result<Page, reader::ReadError> {
        let command = ReadCommand { table: table.schema.id, ..range::settle(command.clone()) };
        if table.kind == TableKind::Virtual {
            return self.virtual_fragments(table, &command).await;
        }
        let tablets = &table.tablets;
        if let Partitions::Key(_) = &command.partitions {
            return read_on(tablets.shard_of(token), command).await;
        }
        if let Some(sharder) = tablets.sharder() {
            let mut scan = Scan::new(command, sharder);
            loop {
                let asks = scan.asks();
                if asks.is_empty() {
                    return Ok(scan.finish());
                }
                let read = async |(shard, ask)| (shard, read_on(shard, ask).await);
                for (shard, page) in join_all(asks.into_iter().map(read)).await {
                    scan.take(shard, page?);
                }
            }
        }
        let mut answer = Page::default();
        for index in range::first_tablet(&command, tablets)..tablets.count() {
            let Some(part) = range::part(&command, tablets, index, &answer) else { break };
            let page = read_on(tablets.shards()[index], part).await?;
            range::append(&mut answer, page);
            if answer.resume.is_some() {
                break;
            }
        }
        Ok(answer)
    }

    async fn virtual_fragments(
        &self,
        table: &TableEntry,
        command: &ReadCommand,
    ) -> Result<Page, reader::ReadError> {
        let base = &table.schema;
        let Some(rows) = self.cluster.virtual_rows(base.id) else { return Ok(Page::default()) };
        let rows = rows().await;
        let layout = Layout::of(base);
        let schema = layout::output_of(base)?;
        let mut dump = Dump::new((&**base, &schema), &layout, command, None);
        for (key, mutation) in virtual_read::partitions(base, &rows, command) {
            let Ok(view) = mutation.view() else { continue };
            let fragments = view.fragments(&base.order);
            let origin = Origin::Computed(VIRTUAL, base.clone(), fragments);
            if dump.partition(&key, &[origin]).await? == Step::Stop {
                break;
            }
        }
        Ok(dump.finish())
    }
}

/// Reads a part of a page on the shard that has it.
async fn read_on(shard: u16, command: ReadCommand) -> Result<Page, reader::ReadError> {
    let read = move || async move {
        match own_storage() {
            Ok(storage) => read_here(&storage, &command).await,
            Err(_) => Err(reader::ReadError::Overloaded("the node stops".to_owned())),
        }
    };
    Box::pin(runtime::on_shard(shard, read)).await
}

/// A page of what this shard stores.
async fn read_here(storage: &Storage, command: &ReadCommand) -> Result<Page, reader::ReadError> {
    let (permit, base) = storage.admit_read(command.table).await?;
    let _cpu = permit.need_cpu();
    let layout = Layout::of(&base);
    let schema = layout::output_of(&base)?;
    let mut dump = Dump::new((&*base, &schema), &layout, command, Some(&permit));
    let places = |key: &DecoratedKey| -> Result<Vec<Origin>, reader::ReadError> {
        let holders = storage.holders(command.table, key)?;
        Ok(holders.into_iter().map(Origin::Stored).collect())
    };
    let (start, end) = match &command.partitions {
        Partitions::Key(key) => {
            let key = DecoratedKey::new(Bytes::copy_from(key));
            dump.partition(&key, &places(&key)?).await?;
            return Ok(dump.finish());
        }
        Partitions::Range { start, end } => (start.clone(), end.clone()),
    };
    // Which partitions there are: rows of none are wanted, and no cache is to have them.
    let options = SourceOptions { bypass_cache: true, class: IoClass::Query };
    let scope = PartitionScope::Range { start, end };
    let source = storage.open_source(command.table, scope, Slice::full(), options)?;
    let mut keys = Cursor::new(source, Some(&permit));
    let mut last: Option<DecoratedKey> = None;
    let until = Instant::now() + TIME_MAX;
    for _ in 0..PARTITIONS_MAX {
        let Some(key) = keys.next_key().await? else { return Ok(dump.finish()) };
        if dump.partition(&key, &places(&key)?).await? == Step::Stop {
            return Ok(dump.finish());
        }
        permit.check()?;
        debug_assert!(last.as_ref() < Some(&key), "place-by-place: {key:?} is out of order");
        last = Some(key);
        if until <= Instant::now() {
            break;
        }
    }
    let resume = last.map(|key| key.key.to_vec());
    let resume = resume.map(|key| Resume { key, after: None, rows_in_partition: 0 });
    Ok(Page { resume, ..dump.finish() })
}
