//! What is there before a write that depends on it: of each statement the row that its condition
//! is judged by, and what its operations need of it.
//!
//! The statements of a conditional batch are judged by one read. A statement is about the row that
//! it names. Where there is none, or it names none, it is about the partition's static columns, if
//! the table has such and the partition is there; only conditions on the row's existence are not.

use super::build::Existing;
use crate::error::CqlError;
use crate::request::Request;
use crate::select::RowCells;
use model::{Column, ColumnId, TableSchema};
use mutation::page::{
    ColumnForm, Page, PageLayout, PagePartition, PageView, Partitions, ReadCommand, SendRange,
};
use plan::modify::ModifyPlan;
use plan::restrictions::Nulls;
use plan::select::columns_read;
use plan::term::{Env, Inputs, RowCell, Source, Term};
use stdx::Put;

/// The read before the statements of one partition.
pub(super) struct ReadPlan {
    inputs: Inputs,
    /// Of each statement, the inputs that are its own.
    of_statement: Vec<Vec<u16>>,
    /// The columns that a result shows; `None`: null, as one that was dropped.
    shown: Vec<Option<u16>>,
    columns: Vec<(ColumnId, ColumnForm)>,
    column_inputs: Vec<u16>,
    static_count: usize,
}

/// A statement with its values.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    pub(super) plan: &'a ModifyPlan,
    pub(super) request: Request<'a>,
}

/// What a statement finds.
pub(super) struct Found {
    pub(super) existing: Existing,
    /// Whether its condition holds; it does where there is none.
    pub(super) holds: bool,
}

impl ReadPlan {
    /// `shown`: the columns of the result, in its order; `None`: null.
    pub(super) fn new(
        table: &TableSchema,
        steps: &[Step<'_>],
        shown: &[Option<ColumnId>],
    ) -> ReadPlan {
        let mut inputs = Inputs::default();
        let mut of_statement = Vec::with_capacity(steps.len());
        for step in steps {
            let mut own = Vec::new();
            for input in step.plan.read.iter().flat_map(Inputs::iter) {
                if let Some(column) = column_of(table, input.source) {
                    own.push(inputs.add(column, input.form));
                }
            }
            of_statement.push(own);
        }
        let mut show = |id: &Option<ColumnId>| {
            table.column_by_id((*id)?).map(|column| inputs.add(column, ColumnForm::Value))
        };
        let shown = shown.iter().map(&mut show).collect();
        let (columns, column_inputs, static_count) = columns_read(&inputs);
        ReadPlan { inputs, of_statement, shown, columns, column_inputs, static_count }
    }

    /// The read, of the rows that statements name; of one row where all are about static columns:
    /// it tells a partition without any from none.
    pub(super) fn command(
        &self,
        table: &TableSchema,
        key: &[u8],
        steps: &[Step<'_>],
    ) -> Result<ReadCommand, CqlError> {
        let mut ranges = Vec::new();
        for Step { plan, request } in steps.iter().filter(|step| step.plan.reads_rows()) {
            if 0 < table.clustering_count && plan.clustering.names_rows(table) {
                let own = plan.clustering.prefixes(table, Nulls::Refused, &request.env())?;
                ranges.extend(own);
            }
        }
        ranges.sort_by(|a, b| table.order.compare_rows(a, b));
        ranges.dedup_by(|a, b| table.order.compare_rows(a, b).is_eq());
        let ranges: Vec<SendRange> = ranges.iter().map(|key| SendRange::of_prefix(key)).collect();
        let (ranges, row_limit) = match ranges.is_empty() {
            true => (vec![SendRange::full()], 1),
            false => (ranges, u64::MAX),
        };
        let now = steps.first().map_or(0, |step| step.request.now_secs());
        Ok(ReadCommand {
            table: table.id,
            partitions: Partitions::Key(key.to_vec()),
            ranges,
            reversed: false,
            columns: self.columns.clone(),
            static_count: self.static_count,
            row_limit,
            per_partition_limit: u64::MAX,
            partition_limit: u64::MAX,
            bytes_max: usize::MAX,
            static_only_rows: true,
            tombstone_limit: u64::MAX,
            now,
            bypass_cache: false,
            shape: mutation::RowShape::Whole,
            resume: None,
        })
    }

    /// What each statement finds in the page that answers the read, and a row of the result for
    /// each, without `[applied]`.
    pub(super) fn judge(
        &self,
        table: &TableSchema,
        page: &Page,
        steps: &[Step<'_>],
    ) -> Result<(Vec<Found>, Vec<Vec<u8>>), CqlError> {
        let layout = PageLayout::new(&self.columns, self.static_count);
        let partition = PageView::trusted(&page.bytes, layout).partitions().next();
        let (mut found, mut rows) = (Vec::with_capacity(steps.len()), Vec::new());
        for (step, own) in steps.iter().zip(&self.of_statement) {
            let row = self.row_of(table, partition.as_ref(), step)?;
            let cells: Vec<RowCell<'_>> = own.iter().map(|at| row.cells[*at as usize]).collect();
            let env = step.request.env().with_row(&cells);
            let holds = match &step.plan.condition {
                None => true,
                Some(condition) => condition.holds(row.exists, &env)?,
            };
            found.push(Found { existing: existing(step, &cells)?, holds });
            let env = step.request.env().with_row(&row.cells);
            rows.push(self.shown_of(&env)?);
        }
        Ok((found, rows))
    }

    /// Of the partition: its first row, whatever conditions are about.
    pub(super) fn first_row(command: ReadCommand) -> ReadCommand {
        ReadCommand { ranges: vec![SendRange::full()], row_limit: 1, ..command }
    }

    /// The rows that conditions are about, as they are: each once, in the table's order, without
    /// `[applied]`. Where there is none of them, the static columns, if one that is shown is set.
    /// Of conditions on static columns alone it is the row that the page has, if any.
    pub(super) fn existing_rows(
        &self,
        table: &TableSchema,
        page: &Page,
        steps: &[Step<'_>],
    ) -> Result<Vec<Vec<u8>>, CqlError> {
        let layout = PageLayout::new(&self.columns, self.static_count);
        let partition = PageView::trusted(&page.bytes, layout).partitions().next();
        let (Some(partition), Some(first)) = (partition, steps.first()) else {
            return Ok(Vec::new());
        };
        let about_rows = steps.iter().filter(|step| step.plan.is_about_row());
        let mut named = Vec::new();
        for Step { plan, request } in about_rows {
            named.extend(plan.clustering.prefixes(table, Nulls::Refused, &request.env())?);
        }
        named.sort_by(|a, b| table.order.compare_rows(a, b));
        let key_count = table.partition_key_count;
        let mut cells =
            RowCells::new(&self.inputs, &self.column_inputs, self.static_count, key_count);
        let mut rows = Vec::new();
        for row in partition.rows() {
            let compare = |key: &Vec<u8>| table.order.compare_rows(key, row.clustering());
            if named.is_empty() || named.binary_search_by(compare).is_ok() {
                cells.partition(partition.key(), partition.statics());
                cells.row(row.clustering(), row.columns());
                rows.push(self.shown_of(&first.request.env().with_row(&cells.cells))?);
            }
        }
        if rows.is_empty() {
            cells.partition(partition.key(), partition.statics());
            let statics = &self.column_inputs[..self.static_count];
            let is_shown = |at: &u16| {
                self.shown.contains(&Some(*at))
                    && !matches!(cells.cells[*at as usize], RowCell::Null)
            };
            if statics.iter().any(is_shown) {
                rows.push(self.shown_of(&first.request.env().with_row(&cells.cells))?);
            }
        }
        Ok(rows)
    }

    /// The row that a statement is about.
    fn row_of<'p>(
        &'p self,
        table: &TableSchema,
        partition: Option<&PagePartition<'p>>,
        step: &Step<'_>,
    ) -> Result<Row<'p>, CqlError> {
        let key_count = table.partition_key_count;
        let (inputs, column_inputs) = (&self.inputs, &self.column_inputs);
        let mut cells = RowCells::new(inputs, column_inputs, self.static_count, key_count);
        let plan = step.plan;
        let about_row = plan.condition.as_ref().is_some_and(|it| it.is_about_existence());
        let mut exists = false;
        if let Some(partition) = partition {
            let mut named = None;
            if !plan.is_static_only() {
                let env = step.request.env();
                let key = plan.clustering.prefixes(table, Nulls::Refused, &env)?;
                let key = key.into_iter().next().unwrap_or_default();
                let is_it = |row: &mutation::page::PageRow<'_>| {
                    table.order.compare_rows(row.clustering(), &key).is_eq()
                };
                named = partition.rows().find(is_it);
            }
            let has_statics = table.has_statics() && 0 < table.clustering_count;
            if let Some(row) = named {
                exists = true;
                cells.partition(partition.key(), partition.statics());
                cells.row(row.clustering(), row.columns());
            } else if has_statics && (plan.is_static_only() || !about_row) {
                cells.partition(partition.key(), partition.statics());
                let is_set = |at: &u16| !matches!(cells.cells[*at as usize], RowCell::Null);
                exists = self.column_inputs[..self.static_count].iter().any(is_set);
            }
        }
        Ok(Row { cells: cells.cells, exists })
    }

    fn shown_of(&self, env: &Env<'_>) -> Result<Vec<u8>, CqlError> {
        let mut out = Vec::new();
        for input in &self.shown {
            let term = input.map(Term::Column);
            let value = term.as_ref().map(|term| term.evaluate(env)).transpose()?;
            match value.as_ref().and_then(|value| value.bytes()) {
                Some(bytes) => out.put_u32_bytes(bytes),
                None => out.put_i32(-1),
            }
        }
        Ok(out)
    }
}

struct Row<'p> {
    cells: Vec<RowCell<'p>>,
    /// Of a statement that names no row: whether a static column is set.
    exists: bool,
}

fn column_of(table: &TableSchema, source: Source) -> Option<&Column> {
    match source {
        Source::PartitionKey(at) => table.partition_key().get(at as usize),
        Source::Clustering(at) => table.clustering().get(at as usize),
        Source::Static(id) | Source::Regular(id) => table.column_by_id(id),
    }
}

/// What the operations of a statement need of the row: `cells` are its inputs.
fn existing(step: &Step<'_>, cells: &[RowCell<'_>]) -> Result<Existing, CqlError> {
    let mut existing = Existing::default();
    let inputs = step.plan.read.iter().flat_map(Inputs::iter);
    for (at, (input, cell)) in inputs.zip(cells).enumerate() {
        let (Source::Static(id) | Source::Regular(id)) = input.source else { continue };
        if let (ColumnForm::Blob, RowCell::Elements(_, view)) = (input.form, cell) {
            let now = step.request.now_secs();
            let live = view.iter().filter(|(_, cell)| cell.is_live(now));
            let elements = live
                .filter_map(|(path, cell)| Some((path.to_vec(), cell.value()?.to_vec())))
                .collect();
            existing.lists.push((id, elements));
        } else if !input.ty.is_multi_cell() {
            let env = step.request.env().with_row(cells);
            let value = Term::Column(at as u16).evaluate(&env)?.bytes().map(<[u8]>::to_vec);
            existing.values.push((id, value));
        }
    }
    Ok(existing)
}
