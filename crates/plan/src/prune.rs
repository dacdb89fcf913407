//! `PRUNE MATERIALIZED VIEW`: which rows of a view are looked at, and what the base table must have
//! for each of them to stay.

use crate::error::Error;
use crate::markers::{Markers, Receiver};
use crate::restrictions::PartitionPlan;
use crate::select::{self, SelectPlan};
use crate::tables::table;
use crate::term::{Preparer, Term};
use cluster::{Schema, TableEntry};
use model::schema::Origins;
use model::{Column, Type};
use std::rc::Rc;
use syntax::ast::{self, Expr, ExprKind, Selection, Selector};

/// A look for rows of a view that its base table does not have.
#[derive(Debug)]
pub struct PrunePlan {
    /// The keys of the rows of the view: all of its key columns in their order.
    pub select: SelectPlan,
    pub base: Rc<TableEntry>,
    /// How many rows are looked at together.
    pub concurrency: Option<Term>,
    pub origins: Origins,
}

/// Plans it.
pub fn prepare(
    schema: &Schema,
    keyspace: Option<&str>,
    prune: &ast::PruneView,
    markers: &mut Markers,
) -> Result<PrunePlan, Error> {
    let entry = table(schema, keyspace, &prune.view)?;
    let Some(view) = &entry.schema.view else {
        return Err(Error::invalid("Ghost rows can only be deleted from materialized views"));
    };
    let base = schema.table_by_id(view.base).ok_or_else(|| {
        Error::Server(format!("the view {} has no base table", entry.schema.name))
    })?;
    let keys = &entry.schema.columns[..entry.schema.partition_key_count];
    let keys: Vec<&Column> = keys.iter().chain(entry.schema.clustering()).collect();
    let select = ast::Select {
        json: false,
        distinct: false,
        selection: Selection::Items(keys.iter().map(|it| selector(it, prune)).collect()),
        from: Some(ast::Source::Table(prune.view.clone())),
        filter: prune.filter.clone(),
        group_by: Vec::new(),
        order_by: Vec::new(),
        per_partition_limit: None,
        limit: None,
        // What would be filtered is refused below, in its own words.
        allow_filtering: true,
        bypass_cache: false,
        using: ast::Using { concurrency: None, ..prune.using.clone() },
    };
    let select = select::prepare(schema, entry, &select, markers)?;
    let rows = &select.restrictions;
    let by_key = matches!(rows.partition, PartitionPlan::Keys(_));
    if !rows.filters.is_empty() || (!by_key && !rows.clustering.is_full()) {
        return Err(Error::invalid("Deleting ghost rows does not support filtering"));
    }
    let concurrency = prune.using.concurrency.as_ref();
    let concurrency = concurrency.map(|expr| {
        let (keyspace, table) = (&entry.schema.keyspace, None);
        let mut preparer =
            Preparer { schema, keyspace, table, markers, row: None, aggregates: None };
        preparer.prepare(expr, Receiver { name: "[concurrency]", ty: &Type::Int })
    });
    let concurrency = concurrency.transpose()?;
    let origins = Origins::of(&base.schema, &entry.schema);
    Ok(PrunePlan { select, base: base.clone(), concurrency, origins })
}

fn selector(column: &Column, prune: &ast::PruneView) -> Selector {
    let at = prune.view.name.at;
    let name = ast::Name { text: column.name.clone(), at };
    Selector { expr: Expr { kind: ExprKind::Column(name), at }, alias: None }
}
