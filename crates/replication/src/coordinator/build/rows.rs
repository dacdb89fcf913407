//! What is kept of how far a shard is: a row of `system.nereid_view_builds` for each view.
//!
//! Invariants: those of [`super`]; and
//!  - *of-this-shard*: a row is of a token that this shard has, so that it is in the log of the
//!    step.
//!  - *latest-wins*: each write of a row is later than the one before it.

use super::place::Place;
use super::{Build, Builds};
use crate::coordinator::{Coordinator, own_coordinator};
use crate::range;
use cluster::{Schema, TableEntry};
use model::{TableId, Token, Uuid};
use mutation::page::{ColumnForm, Page, PageView, Partitions, ReadCommand};
use mutation::{Cell, FrozenMutation, Marker, MutationBuilder, RowBuilder, Tombstone};
use std::collections::BTreeSet;
use std::rc::Rc;

/// In the order in which they are read.
const COLUMNS: [&str; 3] = ["place", "shards", "view"];

fn table(schema: &Schema) -> Rc<TableEntry> {
    let table = schema.table("system", "nereid_view_builds").cloned();
    table.expect("system.nereid_view_builds is a system table")
}

/// Finds how far this shard was in an earlier life, and goes on.
pub(in crate::coordinator) async fn recall() -> Result<(), String> {
    let Ok(coordinator) = own_coordinator() else { return Ok(()) };
    let table = table(&coordinator.cluster.schema());
    let mut command = command(&table);
    loop {
        let page = coordinator.storage.read(&command).await;
        let page =
            page.map_err(|error| format!("cannot read system.nereid_view_builds: {error}"))?;
        take(&command, &page, &coordinator.builds);
        match page.resume {
            Some(resume) => {
                range::check_progress(command.resume.as_ref(), &resume);
                command.resume = Some(resume);
            }
            None => break,
        }
    }
    let building = super::keep_building();
    drop(coordinator.background.spawn_in(runtime::group::STREAMING, building));
    Ok(())
}

fn command(table: &TableEntry) -> ReadCommand {
    let column = |name: &str| {
        let column = table.schema.column(name).expect("a column of system.nereid_view_builds");
        (column.id, ColumnForm::ValueWithTimes)
    };
    ReadCommand {
        columns: COLUMNS.map(column).to_vec(),
        bypass_cache: true,
        ..ReadCommand::all(
            table.schema.id,
            Partitions::all(),
            runtime::time::wall_micros().div_euclid(1_000_000),
        )
    }
}

/// Takes what rows say; of what is damaged, or of another number of shards, the build begins anew
/// (*built-is-whole*).
fn take(command: &ReadCommand, page: &Page, builds: &Builds) {
    range::check_page(command, page);
    let shards = i32::from(runtime::shard_count()).to_be_bytes();
    for partition in PageView::trusted(&page.bytes, command.layout()).partitions() {
        let Ok(row) = Uuid::from_slice(partition.key()) else { continue };
        debug_assert!(partition.rows().count() < 2, "of-this-shard: two rows of {row}");
        for found in partition.rows() {
            let columns: Vec<_> = found.columns().collect();
            let [place, of_shards, view] = &columns[..] else { continue };
            let view = view.value.and_then(|bytes| Uuid::from_slice(bytes).ok());
            let (Some(view), Some(times)) = (view, place.times) else { continue };
            let place = place.value.map(Place::decode);
            let place = match place {
                Some(Ok(place)) if of_shards.value == Some(&shards[..]) => place,
                Some(Err(damaged)) => {
                    tracing::error!(target: "views", %view, %damaged, "a view is built anew");
                    Place::Start
                }
                _ => Place::Start,
            };
            let build = Build { row, written_at: times.timestamp, place };
            let before = builds.views.borrow_mut().insert(view, build);
            debug_assert!(before.is_none(), "latest-wins: {view} has two rows");
        }
    }
}

impl Coordinator {
    /// The key of a new row (*of-this-shard*).
    pub(super) fn new_build_row(&self) -> Uuid {
        let table = table(&self.cluster.schema());
        loop {
            let id = cluster::uuids::random_uuid();
            if table.tablets.shard_of(Token::of(id.as_bytes())) == self.shard {
                return id;
            }
        }
    }

    /// The row that says how far this shard is with a view.
    pub(super) fn build_row(&self, view: TableId, build: &Build) -> FrozenMutation {
        let table = table(&self.cluster.schema());
        let shards = i32::from(runtime::shard_count()).to_be_bytes();
        let values = [build.place.encode(), shards.to_vec(), view.as_bytes().to_vec()];
        let column = |name: &str| table.schema.column(name).expect("a column of builds").id;
        let mut cells: Vec<_> = COLUMNS.map(column).into_iter().zip(&values).collect();
        cells.sort_by_key(|(id, _)| *id);
        let timestamp = build.written_at;
        assert!(0 < timestamp, "latest-wins: {timestamp}");
        let mut row = RowBuilder::new(Vec::new());
        row.marker(Marker::Live { timestamp });
        cells.iter().for_each(|(id, value)| row.cell(*id, Cell::live(timestamp, value)));
        let mut builder = MutationBuilder::new(&table.schema, build.row.as_bytes());
        builder.row(&[], &row.finish());
        builder.freeze()
    }

    /// Removes what is known of views that are there no more.
    pub(super) async fn forget_builds(&self, schema: &Schema) -> Result<(), String> {
        let known: BTreeSet<TableId> = self.builds.views.borrow().keys().copied().collect();
        for view in known.into_iter().filter(|view| schema.table_by_id(*view).is_none()) {
            let Some(build) = self.builds.views.borrow_mut().remove(&view) else { continue };
            let table = table(schema);
            let mut builder = MutationBuilder::new(&table.schema, build.row.as_bytes());
            let now = runtime::time::wall_micros();
            let timestamp = now.max(build.written_at + 1);
            builder.delete_partition(Tombstone::new(timestamp, now.div_euclid(1_000_000)));
            let removed = self.storage.apply(builder.freeze()).await;
            removed.map_err(|error| format!("cannot forget the view {view}: {error}"))?;
        }
        Ok(())
    }
}
