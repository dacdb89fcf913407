//! Analysis of a `WHERE`: partition plan, clustering plan, filters.

use super::clustering::{ClusteringPlan, Slice, Step};
use super::filter::{Filter, Test};
use super::index::{self, Chosen};
use super::lookup::{Found, Kind};
use super::partition::{KeyValue, PartitionPlan};
use super::posting::{IndexPart, IndexPlan};
use super::relations::{
    Multi, MultiRestriction, Purpose, Relations, Restriction, gather, more_than_one,
    not_the_same_start, twice_bound,
};
use super::values::{Bound, Tuple, lower_comparison, upper_comparison};
use crate::error::Error;
use crate::term::{Env, Inputs, Preparer, Term};
use model::{Column, ColumnId, ColumnKind, TableSchema, Type};
use mutation::page::{ColumnForm, Resume};
use std::rc::Rc;
use syntax::ast::{Comparison, Relation};

/// What a statement's `WHERE` comes down to.
#[derive(Clone, Debug)]
pub struct Restrictions {
    pub partition: PartitionPlan,
    pub clustering: ClusteringPlan,
    /// The most partitions of `IN` values.
    pub partition_combinations_max: usize,
    /// Tested row by row.
    pub filters: Vec<Filter>,
    /// Who says where the rows are.
    pub index: Option<Box<IndexPlan>>,
    /// What the index says, tested row by row: a row may have changed since.
    pub rechecks: Vec<Filter>,
    /// The regular column of which each row that passes these has a value that the index was asked
    /// for; `None`: there is more to be tested.
    pub looked_up: Option<ColumnId>,
    /// Whether it reads the same rows of every partition, and did not say `ALLOW FILTERING`.
    pub scans_unasked: bool,
}

const NEEDS_FILTERING: &str = "Cannot execute this query as it might involve data filtering and \
    thus may have unpredictable performance. If you want to execute this query despite the \
    performance unpredictability, use ALLOW FILTERING";

const CONTAINS_NEEDS_FILTERING: &str = "Clustering columns can only be restricted with CONTAINS \
    with a secondary index or filtering (use ALLOW FILTERING)";

/// Plans the relations of a statement about `table`.
pub fn analyze(
    table: &TableSchema,
    relations: &[Relation],
    purpose: Purpose,
    preparer: &mut Preparer<'_>,
    inputs: &mut Inputs,
) -> Result<Restrictions, Error> {
    let mut relations = gather(table, relations, purpose, preparer, inputs)?;
    let lookups = match purpose {
        Purpose::Select | Purpose::SelectFiltering => index::lookups(table, &relations),
        Purpose::Modify => Vec::new(),
    };
    let partition = plan_partition(table, &mut relations, purpose)?;
    let mut clustering = plan_clustering(table, &mut relations)?;
    let in_keys = matches!(partition, PartitionPlan::Keys(_));
    let chosen = match relations.are_all_planned() && in_keys {
        true => None,
        false => index::choose(preparer.schema, table, lookups, (&partition, &clustering))?,
    };
    let by_clustering = chosen
        .as_ref()
        .is_some_and(|it| table.columns[it.found.column].kind == ColumnKind::Clustering);
    if purpose != Purpose::SelectFiltering && !by_clustering {
        check_gap(table, &relations, &clustering, clustering.fixed_count())?;
    }
    let apart = chosen.as_ref().is_some_and(|it| {
        let alone = by_clustering && it.found.column == table.partition_key_count;
        let alone = alone && clustering.fixed_count() == 1 && !clustering.has_slice();
        // Of each partition some rows, which are not side by side in the index; or bounds before
        // the column that is looked up, as others ask for too.
        let sliced = by_clustering && clustering.has_slice();
        sliced || (!in_keys && !clustering.is_full() && !alone)
    });
    let is_answered = index::together(table, &relations, chosen.as_ref());
    let rechecks = take_rechecks(table, chosen.as_ref(), &mut relations, inputs);
    let looked_up = chosen.as_ref().and_then(|it| looked_up(table, &it.found));
    // All values of the first column that is not fixed, but a few: nearly what lies together.
    let lies_apart = |at: &usize| !in_keys || chosen.is_some() || clustering.fixed_count() < *at;
    let apart = apart || relations.not_in_of_clustering.iter().any(lies_apart);
    let contains = relations.contains_of_clustering;
    let (filters, asked_for) = take_filters(table, relations, inputs);
    if ((asked_for && !is_answered) || apart) && purpose == Purpose::Select {
        return Err(unasked(table, contains, &clustering));
    }
    let options = &preparer.markers.options;
    let max = options.max_clustering_key_restrictions_per_query.get();
    clustering.combinations_max = usize::try_from(max).unwrap_or(0);
    let max = options.max_partition_key_restrictions_per_query.get();
    let partition_combinations_max = usize::try_from(max).unwrap_or(0);
    // The same ranges of every partition.
    let scans = !clustering.is_full() && !in_keys && chosen.is_none();
    let scans_unasked = scans && purpose == Purpose::Select;
    let strict = options.strict_allow_filtering.get();
    if scans_unasked && strict == cluster::Restriction::Refused {
        return Err(Error::invalid(NEEDS_FILTERING));
    }
    let index = chosen.map(|it| Box::new(it.plan));
    Ok(Restrictions {
        partition,
        clustering,
        partition_combinations_max,
        filters,
        index,
        rechecks,
        looked_up,
        scans_unasked,
    })
}

/// What is left of the relations as filters, and whether these have to be asked for.
fn take_filters(
    table: &TableSchema,
    relations: Relations,
    inputs: &mut Inputs,
) -> (Vec<Filter>, bool) {
    let mut filters = relations.filters;
    let mut asked_for = relations.not_in_of_clustering.len() < filters.len();
    let mut named = vec![true; table.columns.len()];
    for (index, restriction) in relations.single.into_iter().enumerate() {
        let Some(restriction) = restriction else { continue };
        (asked_for, named[index]) = (true, false);
        let column = &table.columns[index];
        restriction.tests().into_iter().for_each(|test| {
            filters.push(column_filter(column, test, inputs));
        });
    }
    for (index, test) in relations.more {
        let column = &table.columns[index];
        let is_key = matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering);
        // Of keys that are named anyway; else the loop above has said so.
        asked_for |= !is_key || !named[index];
        filters.push(column_filter(column, test, inputs));
    }
    for multi in relations.multi {
        asked_for = true;
        let columns = &table.clustering()[multi.first..multi.first + multi.count];
        filters.push(multi_filter(columns, multi.restriction, inputs));
    }
    (filters, asked_for)
}

/// Why it must be asked for; `contains`: the clustering column that a CONTAINS is about.
fn unasked(table: &TableSchema, contains: Option<usize>, clustering: &ClusteringPlan) -> Error {
    match contains {
        Some(at) if clustering.has_slice() && clustering.fixed_count() < at => {
            not_after_slice(table.clustering(), at, clustering.fixed_count())
        }
        Some(_) => Error::invalid(CONTAINS_NEEDS_FILTERING),
        None => Error::invalid(NEEDS_FILTERING),
    }
}

/// Takes the relation that an index looks up out of those that are left. Of a column of a key it
/// holds of all that the index leads to; what else a row has may have changed since.
fn take_rechecks(
    table: &TableSchema,
    chosen: Option<&Chosen>,
    relations: &mut Relations,
    inputs: &mut Inputs,
) -> Vec<Filter> {
    let Some(Chosen { found, .. }) = chosen else { return Vec::new() };
    if let Some(at) = found.filter {
        return vec![relations.filters.remove(at)];
    }
    let column = &table.columns[found.column];
    let Some(said) = relations.single[found.column].take() else { return Vec::new() };
    if matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
        return Vec::new();
    }
    said.tests().into_iter().map(|test| column_filter(column, test, inputs)).collect()
}

/// The column whose value alone tells whether a row is still what the index was asked for.
fn looked_up(table: &TableSchema, found: &Found) -> Option<ColumnId> {
    let column = &table.columns[found.column];
    let is_value = found.kind == Kind::Equal && found.filter.is_none();
    let is_it = is_value && column.kind == ColumnKind::Regular && !column.ty.is_multi_cell();
    is_it.then_some(column.id)
}

fn plan_partition(
    table: &TableSchema,
    relations: &mut Relations,
    purpose: Purpose,
) -> Result<PartitionPlan, Error> {
    let key_count = table.partition_key_count;
    let keys = &mut relations.single[..key_count];
    let restricted = keys.iter().filter(|restriction| restriction.is_some()).count();
    if let Some(token) = relations.token.take() {
        let columns = table.columns.iter().zip(keys.iter());
        let both: Vec<&str> = columns
            .filter_map(|(column, key)| key.is_some().then_some(column.name.as_str()))
            .collect();
        if !both.is_empty() {
            return Err(Error::Invalid(format!(
                "Columns \"{}\" cannot be restricted by both a normal relation and a token \
                 relation",
                both.join(", ")
            )));
        }
        if purpose == Purpose::Modify {
            return Err(Error::invalid(
                "The token function cannot be used in WHERE clauses for UPDATE and DELETE \
                 statements",
            ));
        }
        return Ok(match token {
            Restriction::Equal(value) => {
                let bound = Some(Bound { value, inclusive: true });
                PartitionPlan::Tokens { lower: bound.clone(), upper: bound }
            }
            Restriction::Slice { lower, upper } => PartitionPlan::Tokens { lower, upper },
            Restriction::In(_) => return Err(Error::invalid("IN is not supported on tokens")),
        });
    }
    let sliced = keys.iter().any(|key| matches!(key, Some(Restriction::Slice { .. })));
    if sliced && purpose == Purpose::Modify {
        return Err(Error::invalid(
            "Only EQ and IN relation are supported on the partition key (unless you use the \
             token() function)",
        ));
    }
    if purpose == Purpose::Modify && restricted < key_count {
        let missing = keys.iter().position(Option::is_none).unwrap_or(0);
        return Err(Error::Invalid(format!(
            "Missing mandatory PRIMARY KEY part {}",
            table.columns[missing].name
        )));
    }
    if sliced || restricted < key_count {
        return Ok(PartitionPlan::All);
    }
    let values = keys.iter_mut().filter_map(Option::take).map(|restriction| match restriction {
        Restriction::In(list) => KeyValue::Many(list),
        Restriction::Equal(term) => KeyValue::One(term),
        Restriction::Slice { .. } => KeyValue::One(Term::Null),
    });
    Ok(PartitionPlan::Keys(values.collect()))
}

fn plan_clustering(
    table: &TableSchema,
    relations: &mut Relations,
) -> Result<ClusteringPlan, Error> {
    let mut plan = ClusteringPlan::default();
    let base = table.partition_key_count;
    check_mixes(table, relations)?;
    let mut at = 0;
    while at < table.clustering_count {
        let slot = &mut relations.single[base + at];
        if let Some(Restriction::Equal(_) | Restriction::In(_)) = slot {
            match slot.take() {
                Some(Restriction::Equal(term)) => plan.steps.push(Step::Equal(term)),
                Some(Restriction::In(list)) => plan.steps.push(Step::In(list)),
                _ => {}
            }
            at += 1;
            continue;
        }
        let exact = |multi: &Multi| multi.first == at && !multi.is_slice();
        if let Some(index) = relations.multi.iter().position(exact) {
            let multi = relations.multi.remove(index);
            at += multi.count;
            match multi.restriction {
                MultiRestriction::Equal(tuple) => {
                    plan.steps.push(Step::EqualTuple(multi.count, tuple));
                }
                MultiRestriction::In(list) => plan.steps.push(Step::InTuples(multi.count, list)),
                MultiRestriction::Lower(_) | MultiRestriction::Upper(_) => {}
            }
            continue;
        }
        plan.slice = take_slice(relations, base, at);
        break;
    }
    Ok(plan)
}

/// Relations on single columns and on several together must fit each other.
fn check_mixes(table: &TableSchema, relations: &Relations) -> Result<(), Error> {
    let first_single = table.partition_key_count;
    for multi in &relations.multi {
        let places = multi.first..multi.first + multi.count;
        for (at, column) in places.clone().zip(&table.clustering()[places]) {
            let Some(single) = &relations.single[first_single + at] else { continue };
            check_mix(multi, at, column, single)?;
        }
    }
    Ok(())
}

/// Whether `multi` and what is said about its clustering column `at` alone may both stand.
fn check_mix(
    multi: &Multi,
    at: usize,
    column: &Column,
    single: &Restriction<Term>,
) -> Result<(), Error> {
    let name = &column.name;
    let Restriction::Slice { lower, upper } = single else {
        return Err(more_than_one(name, "an Equal or IN"));
    };
    match &multi.restriction {
        MultiRestriction::Equal(_) | MultiRestriction::In(_) => {
            Err(more_than_one(name, "an Equal or IN"))
        }
        _ if at != multi.first => Err(not_the_same_start(name)),
        MultiRestriction::Lower(_) if lower.is_some() => Err(twice_bound("start", name)),
        MultiRestriction::Upper(_) if upper.is_some() => Err(twice_bound("end", name)),
        _ => Ok(()),
    }
}

/// The bounds that start with the clustering column `at`, taken out.
fn take_slice(relations: &mut Relations, base: usize, at: usize) -> Option<Slice> {
    let (mut lower, mut upper) = (None, None);
    if let Some(Restriction::Slice { lower: from, upper: to }) = relations.single[base + at].take()
    {
        let one = |bound: Option<Bound<Term>>| {
            bound.map(|Bound { value, inclusive }| Bound { value: Tuple::One(value), inclusive })
        };
        (lower, upper) = (one(from), one(to));
    }
    let here = |multi: &Multi| multi.first == at && multi.is_slice();
    while let Some(index) = relations.multi.iter().position(here) {
        match relations.multi.remove(index).restriction {
            MultiRestriction::Lower(bound) => lower = Some(bound),
            MultiRestriction::Upper(bound) => upper = Some(bound),
            MultiRestriction::Equal(_) | MultiRestriction::In(_) => {}
        }
    }
    (lower.is_some() || upper.is_some()).then_some(Slice { lower, upper })
}

/// A clustering column that is restricted though one before it is not, or is sliced.
fn check_gap(
    table: &TableSchema,
    relations: &Relations,
    plan: &ClusteringPlan,
    at: usize,
) -> Result<(), Error> {
    let columns = table.clustering();
    let singles = relations.single[table.partition_key_count..].iter().take(columns.len());
    let single = singles.enumerate().find(|(_, restriction)| restriction.is_some());
    let multi = relations.multi.iter().map(|multi| multi.first).min();
    let next = single.map(|(index, _)| index).into_iter().chain(multi).min();
    let Some(next) = next else { return Ok(()) };
    let at = at.min(columns.len() - 1);
    Err(match plan.slice {
        Some(_) => not_after_slice(columns, next, at),
        None => Error::Invalid(format!(
            "PRIMARY KEY column \"{}\" cannot be restricted as preceding column \"{}\" is not \
             restricted",
            columns[next].name, columns[at].name
        )),
    })
}

fn not_after_slice(columns: &[Column], next: usize, sliced: usize) -> Error {
    Error::Invalid(format!(
        "Clustering column \"{}\" cannot be restricted (preceding column \"{}\" is restricted by \
         a non-EQ relation)",
        columns[next].name, columns[sliced].name
    ))
}

fn column_filter(column: &Column, test: Test, inputs: &mut Inputs) -> Filter {
    let index = inputs.add(column, ColumnForm::Value);
    Filter::new(Term::Column(index), column.ty.clone(), &column.name, test)
}

fn multi_filter(columns: &[Column], said: MultiRestriction, inputs: &mut Inputs) -> Filter {
    let ty = Type::Tuple(columns.iter().map(|column| column.ty.clone()).collect());
    let parts = columns.iter().map(|c| Term::Column(inputs.add(c, ColumnForm::Value))).collect();
    let subject = Term::Parts(Rc::new(ty.clone()), parts);
    let name = columns.first().map_or("", |column| &column.name);
    let test = match said {
        MultiRestriction::Equal(tuple) => Test::CompareTuple(Comparison::Equal, tuple),
        MultiRestriction::In(list) => Test::InTuples(list),
        MultiRestriction::Lower(bound) => {
            Test::CompareTuple(lower_comparison(bound.inclusive), bound.value)
        }
        MultiRestriction::Upper(bound) => {
            Test::CompareTuple(upper_comparison(bound.inclusive), bound.value)
        }
    };
    Filter::new(subject, ty, name, test)
}

impl Restrictions {
    /// Refuses values that no row can be tested with.
    #[inline]
    pub fn check(&self, env: &Env<'_>) -> Result<(), Error> {
        self.rechecks.iter().chain(&self.filters).try_for_each(|filter| filter.check(env))
    }

    /// Whether every row that is read passes: those of an index are tested.
    #[inline]
    pub fn pass_all(&self) -> bool {
        self.filters.is_empty() && self.index.is_none()
    }

    /// Whether what is read of a partition are rows by their whole keys.
    #[inline]
    pub fn names_rows(&self, table: &TableSchema) -> bool {
        match &self.index {
            Some(index) if !index.reads_partitions => true,
            _ => self.clustering.names_rows(table),
        }
    }

    /// What is read of the index, from the place `resume` of `table` on: parts, one after the
    /// other, of reads that are merged. None: there is no row.
    pub fn index_reads(
        &self,
        index: &IndexPlan,
        table: &TableSchema,
        env: &Env<'_>,
        resume: Option<&Resume>,
    ) -> Result<Vec<IndexPart>, Error> {
        let rows = (&self.partition, &self.clustering);
        index.reads(table, rows, self.partition_combinations_max, env, resume)
    }

    /// Whether the row of `env` passes all filters.
    #[inline]
    pub fn pass<'a>(&'a self, env: &Env<'a>) -> Result<bool, Error> {
        for filter in self.rechecks.iter().chain(&self.filters) {
            if !filter.passes(env)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a static or regular column is restricted in the plan of a write.
    pub fn refuse_filters(&self, table: &TableSchema, relations: &[Relation]) -> Result<(), Error> {
        if self.filters.is_empty() {
            return Ok(());
        }
        let other = relations.iter().find_map(|relation| match &relation.subject {
            syntax::ast::Subject::Path(path) => {
                let column = table.column(&path.column().text)?;
                let is_key =
                    matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering);
                (!is_key).then_some(column)
            }
            _ => None,
        });
        Err(Error::Invalid(match other {
            Some(column) => {
                format!("Non PRIMARY KEY columns found in where clause: {}", column.name)
            }
            None => "Invalid restrictions in the where clause".to_owned(),
        }))
    }
}
