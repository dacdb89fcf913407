//! Counters: what a leader reads before an increment, and what it writes. Pure.
//!
//! An increment is not idempotent: applied twice it counts twice. So the leader, which has the
//! partition locked, turns it into its own shard's new state, which can be replayed any number of
//! times.
//!
//! Invariants
//!  - *whole-state*: an increment is added to all that is known of its counter; the read is not
//!    cut.
//!  - *own-shard*: only the leader's shard of a counter changes, by the increment.
//!  - *replayable*: what is written has states, and no increment.

use model::{ColumnId, TableSchema};
use mutation::cell::CellState;
use mutation::page::{ColumnForm, Page, PageColumns, PageLayout, PageRows, PageView};
use mutation::page::{Partitions, ReadCommand, SendRange};
use mutation::{Cell, ColumnData, FrozenMutation, FrozenView};
use mutation::{MutationBuilder, RowBuilder, RowView, counter};
use std::cmp::Ordering;
use std::iter::Peekable;
use stdx::Damaged;

/// As many counters are changed at once as a rule.
const COLUMNS_FEW: usize = 8;
/// What a resolved update takes as a rule beside itself and what was there: room for new shards.
const SPARE_BYTES: usize = 256;

/// Reads the counters that an update changes, as they are at `now` in seconds.
pub fn read_command(schema: &TableSchema, update: FrozenView<'_>, now: i64) -> ReadCommand {
    let mut columns = Vec::with_capacity(COLUMNS_FEW);
    if let Some(row) = update.static_row() {
        add_counters(row, 0, &mut columns);
    }
    let static_count = columns.len();
    for (_, row) in update.rows() {
        add_counters(row, static_count, &mut columns);
    }
    let (statics, regulars) = columns.split_at(static_count);
    let ascend = |part: &[(ColumnId, ColumnForm)]| part.is_sorted_by(|a, b| a.0 < b.0);
    debug_assert!(ascend(statics) && ascend(regulars), "whole-state: columns out of order");
    debug_assert!(update.table() == schema.id, "whole-state: an update of another table");
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
        static_only_rows: 0 < static_count,
        tombstone_limit: u64::MAX,
        now,
        bypass_cache: false,
        shape: mutation::RowShape::Whole,
        resume: None,
    }
}

/// Adds the counters that a row changes to those from `first` on, which ascend.
fn add_counters(row: RowView<'_>, first: usize, columns: &mut Vec<(ColumnId, ColumnForm)>) {
    for (id, data) in row.columns() {
        let ColumnData::Atomic(Cell { state: CellState::CounterUpdate { .. }, .. }) = data else {
            continue;
        };
        if columns[first..].last().is_none_or(|(last, _)| *last < id) {
            columns.push((id, ColumnForm::Blob));
        } else if let Err(at) = columns[first..].binary_search_by_key(&id, |(id, _)| *id) {
            columns.insert(first + at, (id, ColumnForm::Blob));
        }
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
    assert!(page.resume.is_none(), "whole-state: a counter was read in part");
    assert!(page.partition_count <= 1, "whole-state: {} partitions", page.partition_count);
    let mut present = Present::of(page, command.layout());
    let mut resolver = Resolver { leader, clock, shards: Vec::new() };
    let buffer = Vec::with_capacity(update.bytes().len() + page.bytes.len() + SPARE_BYTES);
    let mut builder = MutationBuilder::reusing(schema, update.key(), buffer);
    builder.delete_partition(update.tombstone());
    update.ranges().for_each(|range| builder.delete_range(range));
    if let Some(row) = update.static_row() {
        let mut out = RowBuilder::new(Vec::new());
        resolver.row(row, present.statics(), &mut out)?;
        builder.static_row(out.finish());
    }
    for (key, row) in update.rows() {
        let before = present.row(schema, key);
        builder.row_with(key, |out| resolver.row(row, before, out))?;
    }
    let resolved = builder.freeze_reused().0;
    if cfg!(debug_assertions)
        && let Ok(view) = resolved.view()
    {
        let (asked, made) = (update.rows().count(), view.rows().count());
        debug_assert!(asked == made, "replayable: {asked} rows became {made}");
        let rows = view.rows().map(|(_, row)| row).chain(view.static_row());
        let increments = rows.flat_map(|row| row.columns()).filter(|(_, data)| is_increment(data));
        debug_assert!(increments.count() == 0, "replayable: an increment is left");
    }
    Ok(resolved)
}

fn is_increment(data: &ColumnData<'_>) -> bool {
    matches!(data, ColumnData::Atomic(Cell { state: CellState::CounterUpdate { .. }, .. }))
}

/// What stands in the page that was read, walked along with the rows of the update.
struct Present<'p> {
    layout: PageLayout<'p>,
    statics: Option<PageColumns<'p>>,
    rows: Option<Peekable<PageRows<'p>>>,
}

/// The columns of a row with the ids that they have.
struct Counters<'p> {
    ids: &'p [(ColumnId, ColumnForm)],
    columns: PageColumns<'p>,
}

impl<'p> Present<'p> {
    fn of(page: &'p Page, layout: PageLayout<'p>) -> Present<'p> {
        let partition = PageView::trusted(&page.bytes, layout).partitions().next();
        let statics = partition.as_ref().and_then(|partition| partition.statics());
        let rows = partition.map(|partition| partition.rows().peekable());
        Present { layout, statics, rows }
    }

    fn statics(&mut self) -> Option<Counters<'p>> {
        Some(Counters { ids: self.layout.statics(), columns: self.statics.take()? })
    }

    /// The row of `key`; keys are asked for in their order.
    fn row(&mut self, schema: &TableSchema, key: &[u8]) -> Option<Counters<'p>> {
        let rows = self.rows.as_mut()?;
        loop {
            let order = schema.order.compare_rows(rows.peek()?.clustering(), key);
            match order {
                Ordering::Greater => return None,
                Ordering::Less => rows.next(),
                Ordering::Equal => {
                    let columns = rows.next()?.columns();
                    return Some(Counters { ids: self.layout.regulars(), columns });
                }
            };
        }
    }
}

impl<'p> Counters<'p> {
    /// The shards of a counter; ids are asked for in their order.
    fn shards(&mut self, id: ColumnId) -> Result<Option<&'p [u8]>, Damaged> {
        while let Some(((at, _), rest)) = self.ids.split_first()
            && *at <= id
        {
            self.ids = rest;
            let column = self.columns.next();
            if *at < id {
                continue;
            }
            let Some(blob) = column.and_then(|column| column.value) else { break };
            return Ok(match Cell::parse(blob)?.state {
                CellState::Counter { shards } => Some(shards),
                _ => None,
            });
        }
        Ok(None)
    }
}

/// Makes states of increments.
struct Resolver {
    leader: counter::ShardId,
    clock: i64,
    /// A counter is put together here.
    shards: Vec<u8>,
}

impl Resolver {
    fn row(
        &mut self,
        row: RowView<'_>,
        mut before: Option<Counters<'_>>,
        out: &mut RowBuilder,
    ) -> Result<(), Damaged> {
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
                    let before = match &mut before {
                        Some(before) => before.shards(column)?,
                        None => None,
                    };
                    self.shards.clear();
                    let (leader, clock) = (self.leader, self.clock);
                    let before = before.unwrap_or(&counter::NO_SHARDS);
                    counter::apply_delta(before, leader, delta, clock, &mut self.shards);
                    if cfg!(debug_assertions) {
                        let (was, is) = (counter::total(before), counter::total(&self.shards));
                        debug_assert!(is == was.wrapping_add(delta), "own-shard: {was} to {is}");
                        let count = |shards| counter::shards(shards).count();
                        let (were, are) = (count(before), count(&self.shards[..]));
                        debug_assert!(were <= are && are <= were + 1, "own-shard: {are}");
                    }
                    let state = CellState::Counter { shards: &self.shards };
                    out.cell(column, Cell { timestamp, state });
                }
                ColumnData::Atomic(cell) => out.cell(column, cell),
                ColumnData::Collection(view) => out.collection(column, view.bytes()),
            }
        }
        Ok(())
    }
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
        let page = read(&schema, &stored, &command);
        let mut present = Present::of(&page, command.layout());
        let (key, _) = update.view().unwrap().rows().next().unwrap();
        let shards = present.row(&schema, key).unwrap().shards(schema.columns[2].id).unwrap();
        assert_eq!(counter::total(shards.expect("a counter")), total);
        assert_eq!(counter::shards(shards.unwrap()).count(), 1);
    }

    /// `k int, c int, s1 counter static, s2 counter static, a counter, b counter`
    fn wide_schema() -> TableSchema {
        let mut schema = mutation::testing::schema();
        schema.columns.truncate(7);
        for (at, ty) in [(3, "s1"), (4, "s2"), (5, "a"), (6, "b")] {
            schema.columns[at].name = ty.to_string();
            schema.columns[at].ty = model::Type::Counter;
        }
        schema
    }

    /// Increments by column name, of the static row and of rows by their clustering key.
    type Update = (Vec<(&'static str, i64)>, Vec<(i32, Vec<(&'static str, i64)>)>);

    fn frozen(schema: &TableSchema, (statics, rows): &Update) -> FrozenMutation {
        let row_of = |deltas: &[(&str, i64)]| {
            let mut deltas: Vec<(ColumnId, i64)> =
                deltas.iter().map(|(n, d)| (schema.column(n).unwrap().id, *d)).collect();
            deltas.sort();
            let mut row = RowBuilder::new(Vec::new());
            for (id, delta) in deltas {
                row.cell(id, Cell { timestamp: 5, state: CellState::CounterUpdate { delta } });
            }
            row.finish()
        };
        let mut builder = MutationBuilder::new(schema, b"pk");
        builder.static_row(row_of(statics));
        for (c, deltas) in rows {
            builder.row(&mutation::testing::clustering(*c, "d"), &row_of(deltas));
        }
        builder.freeze()
    }

    /// The sums of all counters of a partition.
    fn sums(schema: &TableSchema, stored: &FrozenMutation) -> Vec<(Option<Vec<u8>>, String, i64)> {
        let view = stored.view().unwrap();
        let statics = view.static_row().map(|row| (None, row));
        let rows = view.rows().map(|(key, row)| (Some(key.to_vec()), row));
        let mut out = Vec::new();
        for (key, row) in statics.into_iter().chain(rows) {
            for (id, data) in row.columns() {
                if let ColumnData::Atomic(Cell { state: CellState::Counter { shards }, .. }) = data
                {
                    let name = schema.column_by_id(id).unwrap().name.clone();
                    out.push((key.clone(), name, counter::total(shards)));
                }
            }
        }
        out.sort();
        out
    }

    #[test]
    fn each_increment_finds_its_own_counter() {
        let schema = wide_schema();
        let updates: [Update; 6] = [
            (vec![("s2", 1)], vec![(2, vec![("b", 10)])]),
            (vec![], vec![(1, vec![("a", 3)]), (2, vec![("a", 5), ("b", 7)]), (3, vec![("b", 9)])]),
            (vec![("s1", 4), ("s2", 2)], vec![]),
            (vec![("s1", 1)], vec![(3, vec![("a", 11), ("b", -2)]), (0, vec![("a", 1)])]),
            (vec![], vec![(2, vec![("a", 100)]), (1, vec![("b", 40)])]),
            (vec![("s2", -3)], vec![(0, vec![("b", 6)]), (2, vec![("b", 1)])]),
        ];
        let mut stored = MutationBuilder::new(&schema, b"pk").freeze();
        let mut expected = std::collections::BTreeMap::new();
        for (clock, update) in (1..).zip(&updates) {
            let deltas = frozen(&schema, update);
            let deltas = deltas.view().unwrap();
            let command = read_command(&schema, deltas, 0);
            let page = read(&schema, &stored, &command);
            let resolved = resolve(&schema, deltas, &command, &page, [7; 16], clock).unwrap();
            let (a, b) = (stored.view().unwrap(), resolved.view().unwrap());
            stored = mutation::frozen::merge(&schema, a, b);
            let of = |key: Option<Vec<u8>>, deltas: &[(&str, i64)]| {
                deltas.iter().map(|(n, d)| ((key.clone(), n.to_string()), *d)).collect::<Vec<_>>()
            };
            let mut all = of(None, &update.0);
            for (c, deltas) in &update.1 {
                all.extend(of(Some(mutation::testing::clustering(*c, "d")), deltas));
            }
            all.into_iter().for_each(|(at, delta)| *expected.entry(at).or_insert(0) += delta);
        }
        let expected: Vec<_> = expected.into_iter().map(|((key, n), d)| (key, n, d)).collect();
        assert_eq!(sums(&schema, &stored), expected);
    }
}
