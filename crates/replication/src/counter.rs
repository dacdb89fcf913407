//! Counters: what a leader reads before an increment, and what it writes. Pure.
//!
//! An increment is no merge: applied twice it counts twice. So the leader, alone with the
//! partition, turns it into its own shard's new state, which can be replayed any number of times.

use model::{ColumnId, TableSchema};
use mutation::cell::CellState;
use mutation::page::{ColumnForm, Page, PageColumns, PageView};
use mutation::page::{Partitions, ReadCommand, SendRange};
use mutation::{
    Cell, ColumnData, FrozenMutation, FrozenView, MutationBuilder, RowBuilder, RowView,
};
use mutation::{counter, range::RangeTombstone};
use std::collections::BTreeMap;
use stdx::Damaged;

/// Counter shards by row (`None`: the static row) and column.
type Present = BTreeMap<(Option<Vec<u8>>, ColumnId), Vec<u8>>;

/// Reads the counters that an update changes, as they are at `now` in seconds.
pub fn read_command(schema: &TableSchema, update: FrozenView<'_>, now: i64) -> ReadCommand {
    let counters = |columns: &[model::Column]| -> Vec<(ColumnId, ColumnForm)> {
        columns.iter().map(|column| (column.id, ColumnForm::Blob)).collect()
    };
    let mut columns = counters(schema.statics());
    let static_count = columns.len();
    columns.extend(counters(schema.regulars()));
    ReadCommand {
        table: schema.id,
        partitions: Partitions::Key(update.key().to_vec()),
        ranges: update.rows().map(|(key, _)| SendRange::of_prefix(key)).collect(),
        reversed: false,
        columns,
        static_count,
        row_limit: u64::MAX,
        per_partition_limit: u64::MAX,
        partition_limit: u64::MAX,
        bytes_max: usize::MAX,
        static_only_rows: true,
        tombstone_limit: u64::MAX,
        now,
        bypass_cache: false,
        resume: None,
    }
}

/// The update with every increment replaced by the counter's new state, in which only the shard
/// of `leader` has changed; `page` answers [`read_command`].
pub fn resolve(
    schema: &TableSchema,
    update: FrozenView<'_>,
    command: &ReadCommand,
    page: &Page,
    leader: counter::ShardId,
    clock: i64,
) -> Result<FrozenMutation, Damaged> {
    let present = present(command, page)?;
    let resolve = |row: RowView<'_>, clustering: Option<&[u8]>| {
        let clustering = clustering.map(<[u8]>::to_vec);
        let mut out = RowBuilder::new(Vec::new());
        if let Some(marker) = row.marker() {
            out.marker(marker);
        }
        out.tombstone(row.tombstone());
        for (column, data) in row.columns() {
            match data {
                ColumnData::Atomic(Cell {
                    timestamp,
                    state: CellState::CounterUpdate { delta },
                }) => {
                    let key = (clustering.clone(), column);
                    let before = present.get(&key).map_or(&[0u8, 0][..], Vec::as_slice);
                    let mut shards = Vec::new();
                    counter::apply_delta(before, leader, delta, clock, &mut shards);
                    let state = CellState::Counter { shards: &shards };
                    out.cell(column, Cell { timestamp, state });
                }
                ColumnData::Atomic(cell) => out.cell(column, cell),
                ColumnData::Collection(view) => out.collection(column, view.bytes()),
            }
        }
        out.finish()
    };
    let mut builder = MutationBuilder::new(schema, update.key());
    if !update.tombstone().is_none() {
        builder.delete_partition(update.tombstone());
    }
    update.ranges().for_each(|range: RangeTombstone| builder.delete_range(range));
    if let Some(row) = update.static_row() {
        builder.static_row(&resolve(row, None));
    }
    for (key, row) in update.rows() {
        builder.row(key, &resolve(row, Some(key)));
    }
    Ok(builder.freeze())
}

fn present(command: &ReadCommand, page: &Page) -> Result<Present, Damaged> {
    let layout = command.layout();
    let mut found = Present::new();
    for partition in PageView::trusted(&page.bytes, layout).partitions() {
        if let Some(columns) = partition.statics() {
            collect(None, layout.statics(), columns, &mut found)?;
        }
        for row in partition.rows() {
            collect(Some(row.clustering()), layout.regulars(), row.columns(), &mut found)?;
        }
    }
    Ok(found)
}

fn collect(
    clustering: Option<&[u8]>,
    layout: &[(ColumnId, ColumnForm)],
    columns: PageColumns<'_>,
    found: &mut Present,
) -> Result<(), Damaged> {
    for ((id, _), column) in layout.iter().zip(columns) {
        let Some(blob) = column.value else { continue };
        if let CellState::Counter { shards } = Cell::parse(blob)?.state {
            found.insert((clustering.map(<[u8]>::to_vec), *id), shards.to_vec());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mutation::compact::{QueryCompactor, Step};

    fn schema() -> TableSchema {
        let mut schema = cluster::system_tables::table("system", "role_attributes");
        schema.columns[2].ty = model::Type::Counter;
        schema
    }

    fn increment(schema: &TableSchema, row: &[u8], delta: i64) -> FrozenMutation {
        let mut clustering = Vec::new();
        model::key::push_clustering(row, &mut clustering);
        let mut out = RowBuilder::new(Vec::new());
        let state = CellState::CounterUpdate { delta };
        out.cell(schema.columns[2].id, Cell { timestamp: 10, state });
        let mut builder = MutationBuilder::new(schema, b"pk");
        builder.row(&clustering, &out.finish());
        builder.freeze()
    }

    fn read(schema: &TableSchema, stored: &FrozenMutation, command: &ReadCommand) -> Page {
        let mut compactor = QueryCompactor::new(schema, command);
        for fragment in stored.view().unwrap().fragments(&schema.order) {
            if compactor.consume(&fragment) == Step::Stop {
                break;
            }
        }
        compactor.finish()
    }

    #[test]
    fn increments_add_up_and_a_replay_adds_nothing() {
        let schema = schema();
        let mut stored = MutationBuilder::new(&schema, b"pk").freeze();
        let mut total = 0;
        for (clock, delta) in [(100, 5), (50, -2), (200, 40)] {
            let update = increment(&schema, b"row", delta);
            let update = update.view().unwrap();
            let command = read_command(&schema, update, 0);
            let page = read(&schema, &stored, &command);
            let resolved = resolve(&schema, update, &command, &page, [7; 16], clock).unwrap();
            for _ in 0..2 {
                let (a, b) = (stored.view().unwrap(), resolved.view().unwrap());
                stored = mutation::frozen::merge(&schema, a, b);
            }
            total += delta;
        }
        let update = increment(&schema, b"row", 0);
        let command = read_command(&schema, update.view().unwrap(), 0);
        let found = present(&command, &read(&schema, &stored, &command)).unwrap();
        let shards = found.values().next().expect("a counter");
        assert_eq!(counter::total(shards), total);
        assert_eq!(found.len(), 1);
    }
}
