//! The analysis of a batch.

use super::condition::metadata_of;
use super::plan::{ModifyPlan, prepare_delete, prepare_insert, prepare_update};
use super::using::UsingPlan;
use crate::error::Error;
use crate::markers::Markers;
use crate::metadata::ResultMetadata;
use crate::tables::table;
use crate::term::Preparer;
use cluster::Schema;
use model::ColumnId;
use std::rc::Rc;
use syntax::ast::{self, BatchKind, Modification};

/// A batch ready to be executed.
#[derive(Debug)]
pub struct BatchPlan {
    pub kind: BatchKind,
    pub using: UsingPlan,
    pub statements: Vec<ModifyPlan>,
    /// The result of a conditional one.
    pub result: Option<Rc<ResultMetadata>>,
}

/// Plans a batch.
pub fn prepare(
    schema: &Schema,
    keyspace: Option<&str>,
    batch: &ast::Batch,
    markers: &mut Markers,
) -> Result<BatchPlan, Error> {
    let mut plan = BatchPlan::begin(schema, keyspace, batch, markers)?;
    for statement in &batch.statements {
        plan.add(schema, keyspace, statement, markers)?;
    }
    plan.finish()
}

impl BatchPlan {
    /// Of a batch whose statements are then added in their order.
    pub fn begin(
        schema: &Schema,
        keyspace: Option<&str>,
        batch: &ast::Batch,
        markers: &mut Markers,
    ) -> Result<BatchPlan, Error> {
        let mut preparer = Preparer {
            schema,
            keyspace: keyspace.unwrap_or("system"),
            table: None,
            markers,
            row: None,
            aggregates: None,
        };
        if batch.using.ttl.is_some() {
            return Err(Error::invalid("Global TTL on the BATCH statement is not supported."));
        }
        let using = UsingPlan::prepare(&batch.using, &mut preparer)?;
        let statements = Vec::with_capacity(batch.statements.len());
        Ok(BatchPlan { kind: batch.kind, using, statements, result: None })
    }

    /// With the next statement.
    pub fn add(
        &mut self,
        schema: &Schema,
        keyspace: Option<&str>,
        statement: &Modification,
        markers: &mut Markers,
    ) -> Result<(), Error> {
        self.statements.push(match statement {
            Modification::Insert(insert) => {
                let entry = table(schema, keyspace, &insert.table)?;
                prepare_insert(schema, entry, insert, markers)?
            }
            Modification::Update(update) => {
                let entry = table(schema, keyspace, &update.table)?;
                prepare_update(schema, entry, update, markers)?
            }
            Modification::Delete(delete) => {
                let entry = table(schema, keyspace, &delete.table)?;
                prepare_delete(schema, entry, delete, markers)?
            }
        });
        Ok(())
    }

    /// With all statements, if they may stand together.
    pub fn finish(mut self) -> Result<BatchPlan, Error> {
        self.result = metadata_of_batch(self.statements.iter());
        check(self.kind, self.using.has_timestamp(), self.statements.iter())?;
        Ok(self)
    }
}

/// Whether statements may stand together in a batch of that kind.
pub fn check<'p>(
    kind: BatchKind,
    has_timestamp: bool,
    plans: impl Iterator<Item = &'p ModifyPlan> + Clone,
) -> Result<(), Error> {
    let counters = plans.clone().filter(|plan| plan.table.schema.is_counter()).count();
    let others = plans.clone().count() - counters;
    if kind == BatchKind::Counter && 0 < others {
        return Err(Error::invalid("Cannot include non-counter statement in a counter batch"));
    }
    if kind == BatchKind::Logged && 0 < counters {
        return Err(Error::invalid("Cannot include a counter statement in a logged batch"));
    }
    if 0 < counters && 0 < others {
        return Err(Error::invalid(
            "Counter and non-counter mutations cannot exist in the same batch",
        ));
    }
    if has_timestamp && 0 < counters {
        return Err(Error::invalid("Cannot provide custom timestamp for counter BATCH"));
    }
    if has_timestamp && plans.clone().any(|plan| plan.using.has_timestamp()) {
        return Err(Error::invalid(
            "Timestamp must be set either on BATCH or individual statements",
        ));
    }
    if has_timestamp && plans.clone().any(ModifyPlan::is_conditional) {
        return Err(Error::invalid("Cannot provide custom timestamp for conditional BATCH"));
    }
    Ok(())
}

/// The columns that a conditional batch shows of each of its statements, in the order of the
/// table's: the key, and what any of their conditions shows. `None`: none of them is conditional.
pub fn shown_of_batch<'p>(
    plans: impl Iterator<Item = &'p ModifyPlan> + Clone,
) -> Option<Vec<ColumnId>> {
    let table = &plans.clone().find(|plan| plan.is_conditional())?.table.schema;
    let is_shown = |id: ColumnId| {
        plans.clone().any(|plan| plan.condition.as_ref().is_some_and(|it| it.shown.contains(&id)))
    };
    let key_count = table.partition_key_count + table.clustering_count;
    let columns = table.columns.iter().enumerate();
    let shown = columns.filter(|(at, column)| *at < key_count || is_shown(column.id));
    Some(shown.map(|(_, column)| column.id).collect())
}

/// The result of a conditional batch; `None` for others.
pub fn metadata_of_batch<'p>(
    plans: impl Iterator<Item = &'p ModifyPlan> + Clone,
) -> Option<Rc<ResultMetadata>> {
    let first = plans.clone().find(|plan| plan.is_conditional())?;
    Some(metadata_of(&first.table.schema, &shown_of_batch(plans)?))
}
