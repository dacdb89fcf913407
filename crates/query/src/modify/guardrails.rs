//! What the node's options allow of a write: its consistency level, and how large what it writes
//! may be, and what it writes to.
//!
//! Tables with `large_data_guardrails_enabled` have limits for the cells, rows and collections of
//! each mutation: over the upper one it is refused, over the lower one it is logged and, where
//! `large_data_cql_warnings` says so, told to the client. A limit of 0 is none. A limit is met by
//! what is larger, not by what is as large. What many writes have made is known to the storage of
//! the shard that has it, which is asked by the way (`replication`).

use crate::error::CqlError;
use crate::request::Request;
use model::{TableSchema, Type};
use mutation::cell::CellState;
use mutation::{ColumnData, FrozenMutation, FrozenView, RowView};
use plan::Guardrail;
use replication::Exceeded;

const MIB: u64 = 1 << 20;

/// Refuses a consistency level that the node's options disallow, warns of one that they warn of.
pub(crate) fn check_level(request: &Request<'_>) -> Result<(), CqlError> {
    let level = request.parameters.consistency;
    let met = &request.options.met;
    met.count_write(level);
    if request.options.write_consistency_levels_disallowed.get().contains(level) {
        met.count(Guardrail::WriteLevelRefused);
        let name = level.name();
        return Err(CqlError::Invalid(format!(
            "Write consistency level {name} is forbidden by the current configuration setting of \
             write_consistency_levels_disallowed. Please use a different consistency level, or \
             remove {name} from write_consistency_levels_disallowed set in the configuration."
        )));
    }
    if request.options.write_consistency_levels_warned.get().contains(level) {
        met.count(Guardrail::WriteLevelWarned);
        request.warn(format!(
            "Write with consistency level {} is listed on the write_consistency_levels_warned \
             guardrail and is not recommended.",
            level.name()
        ));
    }
    Ok(())
}

/// A lower and an upper limit; 0: none.
#[derive(Clone, Copy)]
struct Limits {
    what: &'static str,
    unit: &'static str,
    soft: u64,
    hard: u64,
}

/// Warns the client of soft limits that were exceeded before the write.
pub(crate) fn tell_exceeded(table: &TableSchema, exceeded: Exceeded, request: &Request<'_>) {
    let names: Vec<&str> = exceeded.measures().map(|measure| measure.name()).collect();
    tell(table, &names, request);
}

fn tell(table: &TableSchema, names: &[&str], request: &Request<'_>) {
    if !names.is_empty() && request.options.large_data_cql_warnings.get() {
        request.warn(format!(
            "Large data guardrail: soft limit violation of {} (keyspace={}, table={})",
            names.join(", "),
            table.keyspace,
            table.name
        ));
    }
}

/// The limits of one write.
struct Checks<'a> {
    table: &'a TableSchema,
    cell: Limits,
    row: Limits,
    collection: Limits,
    /// What is over its lower limit, each once.
    found: Vec<&'static str>,
}

/// Checks a mutation of a table with guardrails of large data.
pub(crate) fn check_sizes(
    table: &TableSchema,
    mutation: &FrozenMutation,
    request: &Request<'_>,
) -> Result<(), CqlError> {
    // Made by a builder a moment ago.
    let Ok(view) = FrozenView::trusted(&mutation.0) else { return Ok(()) };
    let options = request.options;
    let limits = |what, unit, soft: i64, hard: i64, factor: u64| Limits {
        what,
        unit,
        soft: soft.max(0) as u64 * factor,
        hard: hard.max(0) as u64 * factor,
    };
    let mut checks = Checks {
        table,
        cell: limits(
            "cell value size",
            "bytes",
            options.compaction_large_cell_warning_threshold_mb.get(),
            options.large_cell_fail_threshold_mb.get(),
            MIB,
        ),
        row: limits(
            "row size",
            "bytes",
            options.compaction_large_row_warning_threshold_mb.get(),
            options.large_row_fail_threshold_mb.get(),
            MIB,
        ),
        collection: limits(
            "collection element count",
            "elements",
            options.compaction_collection_elements_count_warning_threshold.get(),
            options.large_collection_elements_fail_threshold.get(),
            1,
        ),
        found: Vec::new(),
    };
    for row in view.static_row().into_iter().chain(view.rows().map(|(_, row)| row)) {
        checks.row(row)?;
    }
    tell(table, &checks.found, request);
    Ok(())
}

impl Checks<'_> {
    fn row(&mut self, row: RowView<'_>) -> Result<(), CqlError> {
        let mut size = 0;
        for (id, data) in row.columns() {
            let column = self.table.column_by_id(id);
            let (name, ty) = column.map_or(("", None), |it| (it.name.as_str(), Some(&it.ty)));
            let bytes = match data {
                ColumnData::Atomic(cell) => match cell.state {
                    CellState::Live { value } | CellState::Expiring { value, .. } => value.len(),
                    _ => 0,
                },
                ColumnData::Collection(view) => {
                    if ty.is_some_and(Type::is_collection) {
                        self.meet(self.collection, view.iter().count() as u64, name)?;
                    }
                    view.bytes().len()
                }
            };
            self.meet(self.cell, bytes as u64, name)?;
            size += bytes as u64;
        }
        self.meet(self.row, size, "")
    }

    /// `column`: of rows none.
    fn meet(&mut self, limits: Limits, found: u64, column: &str) -> Result<(), CqlError> {
        let Limits { what, unit, soft, hard } = limits;
        let over = |limit: u64| 0 < limit && limit < found;
        if !over(hard) && !over(soft) {
            return Ok(());
        }
        let tell = |kind: &str, limit: u64| {
            let (keyspace, table) = (&self.table.keyspace, &self.table.name);
            let column = if column.is_empty() { column } else { &format!(", column={column}") };
            format!(
                "Large data guardrail: {what} {found} {unit} exceeds {kind} limit {limit} {unit} \
                 (keyspace={keyspace}, table={table}{column})"
            )
        };
        if over(hard) {
            return Err(CqlError::Invalid(tell("hard", hard)));
        }
        tracing::warn!(target: "large_data", "{}", tell("soft", soft));
        if !self.found.contains(&what) {
            self.found.push(what);
        }
        Ok(())
    }
}
