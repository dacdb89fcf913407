//! `PRUNE MATERIALIZED VIEW`: which rows of a view are looked at, and what the base table must have
//! for each of them to stay.

use crate::error::Error;
use crate::markers::{Markers, Receiver};
use crate::restrictions::PartitionPlan;
use crate::select::{self, SelectPlan};
use crate::tables::table;
use crate::term::{Preparer, Term};
use cluster::{Schema, TableEntry};
use model::key::{compose_partition_key, push_clustering};
use model::{Column, ColumnId, ColumnKind, Type};
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
    /// Of each column of the base's partition key, then of its clustering key, where it stands in
    /// the key of the view.
    places: Vec<usize>,
    /// Columns of the base that must have the value that stands there, static ones first.
    values: Vec<(ColumnId, usize)>,
    static_count: usize,
}

/// What the base table must have for a row of the view to stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    pub key: Vec<u8>,
    /// As far as the view knows it.
    pub clustering: Vec<u8>,
    /// The values of [`PrunePlan::columns`].
    pub values: Vec<Vec<u8>>,
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
    let place = |name: &str| keys.iter().position(|key| key.name == name);
    let original = &base.schema;
    // A view of static columns has no clustering columns.
    let of_keys = original.partition_key().iter().chain(original.clustering());
    let places = of_keys.map_while(|column| place(&column.name)).collect();
    let others = original.statics().iter().chain(original.regulars());
    let values: Vec<(ColumnId, usize)> =
        others.filter_map(|it| Some((it.id, place(&it.name)?))).collect();
    let is_static = |(id, _): &&(ColumnId, usize)| {
        original.column_by_id(*id).is_some_and(|column| column.kind == ColumnKind::Static)
    };
    let static_count = values.iter().filter(is_static).count();
    Ok(PrunePlan { select, base: base.clone(), concurrency, places, values, static_count })
}

fn selector(column: &Column, prune: &ast::PruneView) -> Selector {
    let at = prune.view.name.at;
    let name = ast::Name { text: column.name.clone(), at };
    Selector { expr: Expr { kind: ExprKind::Column(name), at }, alias: None }
}

impl PrunePlan {
    /// The columns of the base that are compared, static ones first, and how many are static.
    pub fn columns(&self) -> (impl Iterator<Item = ColumnId> + use<'_>, usize) {
        (self.values.iter().map(|(id, _)| *id), self.static_count)
    }

    /// What the base must have for the row of the view with that key, column by column.
    pub fn original(&self, key: &[&[u8]]) -> Original {
        let part = |place: &usize| key.get(*place).copied().unwrap_or_default();
        let (partition, rows) =
            self.places.split_at(self.base.schema.partition_key_count.min(self.places.len()));
        let (mut composed, mut clustering) = (Vec::new(), Vec::new());
        compose_partition_key(partition.iter().map(part), &mut composed);
        rows.iter().for_each(|place| push_clustering(part(place), &mut clustering));
        let values = self.values.iter().map(|(_, place)| part(place).to_vec()).collect();
        Original { key: composed, clustering, values }
    }
}
