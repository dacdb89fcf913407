//! The columns of what a conditional batch answers in Cassandra's form.
//!
//! They are the key and what conditions name, in the order in which they name it, or all columns if
//! one asks whether a row exists. What no condition names is null unless conditional statements
//! write such columns: static ones, or those of rows. A batch that is applied, and one whose
//! conditions are about nothing that exists, answers `[applied]` alone.

use super::work::Shown;
use crate::session::BatchForm;
use model::{Column, ColumnKind};
use plan::metadata::ResultMetadata;
use plan::modify::{ModifyPlan, applied_with};
use std::rc::Rc;

/// What is shown of existing rows; `None`: none of the statements is conditional.
pub(crate) fn shown_of_existing<'p>(
    plans: impl Iterator<Item = &'p ModifyPlan> + Clone,
) -> Option<Shown> {
    plans.clone().find(|plan| plan.is_conditional())?;
    let shown = columns(plans).into_iter();
    let columns = shown.map(|(column, is_read)| is_read.then_some(column.id)).collect();
    Some(Shown { columns, form: BatchForm::Cassandra })
}

/// The result: `[applied]`, alone or with the columns of existing rows; `None`: none of the
/// statements is conditional.
pub(crate) fn metadata_of_existing<'p>(
    plans: impl Iterator<Item = &'p ModifyPlan> + Clone,
    is_bare: bool,
) -> Option<Rc<ResultMetadata>> {
    let table = &plans.clone().find(|plan| plan.is_conditional())?.table.schema;
    let shown = if is_bare { Vec::new() } else { columns(plans) };
    Some(applied_with(table, shown.into_iter().map(|(column, _)| column)))
}

/// The columns after `[applied]`, and whether they are read.
fn columns<'p>(plans: impl Iterator<Item = &'p ModifyPlan> + Clone) -> Vec<(&'p Column, bool)> {
    let conditional =
        plans.filter_map(|plan| plan.condition.as_ref().map(|condition| (plan, condition)));
    let Some((first, _)) = conditional.clone().next() else { return Vec::new() };
    let table = &first.table.schema;
    let key_count = table.partition_key_count + table.clustering_count;
    let (key, others) = table.columns.split_at(key_count);
    let mut named: Vec<&Column> = Vec::new();
    for id in conditional.clone().flat_map(|(_, condition)| &condition.named) {
        let column = table.column_by_id(*id);
        named.extend(column.filter(|it| named.iter().all(|other| other.id != it.id)));
    }
    let mut shown: Vec<(&Column, bool)> = key.iter().map(|column| (column, true)).collect();
    if !conditional.clone().any(|(_, condition)| condition.is_about_existence()) {
        shown.extend(named.into_iter().map(|column| (column, true)));
        return shown;
    }
    let writes_statics = conditional.clone().any(|(plan, _)| !plan.static_operations.is_empty());
    let writes_rows = conditional.clone().any(|(plan, _)| !plan.is_static_only());
    shown.extend(others.iter().map(|column| {
        let is_written = match column.kind {
            ColumnKind::Static => writes_statics,
            _ => writes_rows,
        };
        (column, is_written || named.iter().any(|it| it.id == column.id))
    }));
    shown
}
