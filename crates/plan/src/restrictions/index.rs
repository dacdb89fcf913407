//! Which index answers a `WHERE`.
//!
//! A relation is looked up in an index of its column that is of its kind. Of several the first one
//! is taken: of the indexes within the partition that is named, else of the others, those on
//! columns of the partition key first, then of the clustering key, then on other columns; each in
//! the order of the text. A lookup of several values (`IN`) is taken where there is no other.

use super::clustering::ClusteringPlan;
use super::lookup::{Found, Kind, Lookup};
use super::partition::{KeyValue, PartitionPlan};
use super::posting::{Choice, IndexPlan, view_of};
use super::relations::{Relations, Restriction};
use crate::error::Error;
use crate::term::Term;
use cluster::Schema;
use model::schema::{Index, IndexTarget};
use model::{ColumnKind, TableSchema, Type};

/// The index to be asked, and the relation that it looks up.
pub(super) struct Chosen {
    pub(super) found: Found,
    pub(super) plan: IndexPlan,
}

/// All lookups of the relations, in the order of the text. To be called before keys are planned,
/// which takes relations away.
pub(super) fn lookups(table: &TableSchema, relations: &Relations) -> Vec<Found> {
    if table.indexes.is_empty() {
        return Vec::new();
    }
    let mut out = relations.searches.clone();
    for (column, restriction) in relations.single.iter().enumerate() {
        let lookup = match restriction {
            Some(Restriction::Equal(term)) => Lookup::One(term.clone()),
            Some(Restriction::In(list)) => Lookup::Many(list.clone()),
            _ => continue,
        };
        out.push(Found { column, kind: Kind::Equal, lookup, filter: None });
    }
    let place = |found: &Found| relations.order.iter().position(|at| *at == found.column);
    out.sort_by_key(|found| {
        let is_many = matches!(found.lookup, Lookup::Many(_));
        let kind = table.columns[found.column].kind.min(ColumnKind::Static);
        (is_many, kind, place(found))
    });
    out
}

/// The index to be asked, if one is any use: what the keys name by themselves needs none.
pub(super) fn choose(
    schema: &Schema,
    table: &TableSchema,
    lookups: Vec<Found>,
    (partition, clustering): (&PartitionPlan, &ClusteringPlan),
) -> Result<Option<Chosen>, Error> {
    let (names_all, names_one) = match partition {
        PartitionPlan::Keys(keys) => (true, keys.iter().all(|key| matches!(key, KeyValue::One(_)))),
        _ => (false, false),
    };
    let is_use = |found: &&Found| {
        let column = &table.columns[found.column];
        match column.kind {
            ColumnKind::PartitionKey => !names_all,
            ColumnKind::Clustering => {
                !names_all || clustering.fixed_count() <= column.position.into()
            }
            ColumnKind::Static | ColumnKind::Regular => true,
        }
    };
    for is_local in [true, false] {
        if is_local && !names_one {
            continue;
        }
        let first = lookups.iter().filter(is_use).find_map(|found| {
            let answers =
                |index: &&Index| index.is_local == is_local && answers(table, index, found);
            table.indexes.iter().find(answers).map(|index| (found, index))
        });
        let Some((found, index)) = first else { continue };
        let (column, lookup) = (&table.columns[found.column], found.lookup.clone());
        let view = view_of(schema, table, index)?;
        let plan = IndexPlan::new(table, view, &Choice { index, column, lookup })?;
        return Ok(Some(Chosen { found: found.clone(), plan }));
    }
    Ok(None)
}

/// Whether an index looks up just that.
fn answers(table: &TableSchema, index: &Index, found: &Found) -> bool {
    let column = &table.columns[found.column];
    if index.column != column.name {
        return false;
    }
    let is_many_celled = column.ty.is_collection() && column.ty.is_multi_cell();
    match (found.kind, index.target) {
        (Kind::Equal, IndexTarget::Values | IndexTarget::Full) => !is_many_celled,
        (Kind::Contains, IndexTarget::ElementValues) => true,
        // Plain targets: of a set its elements, which are its keys; of others their values.
        (Kind::Contains, IndexTarget::Keys) => matches!(column.ty, Type::Set { .. }),
        (Kind::Contains, IndexTarget::Values) => is_many_celled,
        (Kind::ContainsKey, IndexTarget::Keys) => true,
        (Kind::Entry, IndexTarget::Entries) => true,
        _ => false,
    }
}

/// Whether all that is left besides what `chosen` looks up is on columns whose storage-attached
/// indexes answer it. To be called before that is taken out of the relations.
pub(super) fn together(
    table: &TableSchema,
    relations: &Relations,
    chosen: Option<&Chosen>,
) -> bool {
    let attached = || table.indexes.iter().filter(|index| index.class.is_some());
    if attached().next().is_none() || chosen.is_some_and(|it| !it.plan.is_attached()) {
        return false;
    }
    let of_values = |column: usize| {
        let name = &table.columns[column].name;
        let is_it = |index: &Index| {
            index.column == *name && matches!(index.target, IndexTarget::Values | IndexTarget::Full)
        };
        attached().any(is_it)
    };
    let is_ranged = |column: usize| of_values(column) && has_ranges(&table.columns[column].ty);
    let answered = |(column, said): (usize, &Option<Restriction<Term>>)| match said {
        None => true,
        Some(Restriction::Equal(_) | Restriction::In(_)) => of_values(column),
        Some(Restriction::Slice { .. }) => is_ranged(column),
    };
    let singles = relations.single.iter().enumerate().all(answered);
    let more = relations.more.iter().all(|(column, _)| is_ranged(*column));
    let is_left = |found: &&Found| chosen.is_none_or(|it| it.found.filter != found.filter);
    let searched = |found: &&Found| attached().any(|index| answers(table, index, found));
    let searches = relations.searches.iter().filter(is_left).filter(searched).count();
    let by_chosen = chosen.is_some_and(|it| it.found.filter.is_some());
    let likes = relations.like_of.iter().filter(|column| of_values(**column)).count();
    let known = searches + likes + usize::from(by_chosen) + relations.not_in_of_clustering.len();
    debug_assert!(known <= relations.filters.len(), "nothing-lost: {known} are answered");
    singles && more && relations.multi.is_empty() && known == relations.filters.len()
}

/// Whether Cassandra's index of values of that type knows their order.
fn has_ranges(ty: &Type) -> bool {
    matches!(
        ty,
        Type::TinyInt
            | Type::SmallInt
            | Type::Int
            | Type::BigInt
            | Type::Varint
            | Type::Float
            | Type::Double
            | Type::Decimal
            | Type::Date
            | Type::Time
            | Type::Timestamp
            | Type::TimeUuid
            | Type::Inet
    )
}
