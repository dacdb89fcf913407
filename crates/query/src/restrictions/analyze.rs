//! Who does what of a `WHERE`: partition plan, clustering plan, filters.

use super::clustering::{ClusteringPlan, Slice, Step};
use super::filter::{Filter, Test};
use super::partition::{KeyValue, PartitionPlan};
use super::relations::{Bound, MultiRestriction, Relations, Restriction, Tuple, TupleList, gather};
use crate::error::CqlError;
use crate::syntax::ast::{Comparison, Relation};
use crate::term::{Inputs, Preparer, Term};
use model::{Column, ColumnKind, TableSchema, Type};
use mutation::page::ColumnForm;
use std::rc::Rc;

/// What a statement's `WHERE` comes down to.
#[derive(Clone, Debug)]
pub(crate) struct Restrictions {
    pub(crate) partition: PartitionPlan,
    pub(crate) clustering: ClusteringPlan,
    /// Tested row by row.
    pub(crate) filters: Vec<Filter>,
}

/// Which statement it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// `SELECT`
    Select,
    /// `SELECT .. ALLOW FILTERING`
    SelectFiltering,
    /// `UPDATE`, `DELETE`
    Modify,
}

const NEEDS_FILTERING: &str = "Cannot execute this query as it might involve data filtering and \
    thus may have unpredictable performance. If you want to execute this query despite the \
    performance unpredictability, use ALLOW FILTERING";

/// Plans the relations of a statement about `table`.
pub(crate) fn analyze(
    table: &TableSchema,
    relations: &[Relation],
    purpose: Purpose,
    preparer: &mut Preparer<'_>,
    inputs: &mut Inputs,
) -> Result<Restrictions, CqlError> {
    let mut relations = gather(table, relations, preparer, inputs)?;
    let mut filters = std::mem::take(&mut relations.filters);
    let mut filtering = !filters.is_empty();
    let partition = plan_partition(table, &mut relations, purpose)?;
    let clustering = plan_clustering(table, &mut relations, purpose)?;
    if !clustering.is_full() && !matches!(partition, PartitionPlan::Keys(_)) {
        filtering = true; // The same ranges of every partition.
    }
    for (column, restriction) in table.columns.iter().zip(relations.single) {
        let Some(restriction) = restriction else { continue };
        filtering = true;
        single_filters(column, restriction, inputs, &mut filters);
    }
    for (first, count, restriction) in relations.multi {
        filtering = true;
        let columns = &table.clustering()[first..first + count];
        multi_filters(columns, restriction, inputs, &mut filters);
    }
    if filtering && purpose == Purpose::Select {
        return Err(CqlError::invalid(NEEDS_FILTERING));
    }
    Ok(Restrictions { partition, clustering, filters })
}

fn plan_partition(
    table: &TableSchema,
    relations: &mut Relations,
    purpose: Purpose,
) -> Result<PartitionPlan, CqlError> {
    let key_count = table.partition_key_count;
    let keys = &mut relations.single[..key_count];
    let restricted = keys.iter().filter(|restriction| restriction.is_some()).count();
    if let Some(token) = relations.token.take() {
        if purpose == Purpose::Modify {
            return Err(CqlError::invalid(
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
            Restriction::In(_) => return Err(CqlError::invalid("IN is not supported on tokens")),
        });
    }
    let sliced = keys.iter().any(|key| matches!(key, Some(Restriction::Slice { .. })));
    if sliced && purpose != Purpose::SelectFiltering {
        return Err(CqlError::invalid(
            "Only EQ and IN relation are supported on the partition key (unless you use the \
             token() function)",
        ));
    }
    if purpose == Purpose::Modify && restricted < key_count {
        let missing = keys.iter().position(Option::is_none).unwrap_or(0);
        return Err(CqlError::Invalid(format!(
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
    purpose: Purpose,
) -> Result<ClusteringPlan, CqlError> {
    let mut plan = ClusteringPlan::default();
    let base = table.partition_key_count;
    let mut at = 0;
    while at < table.clustering_count {
        if let Some(index) = relations.multi.iter().position(|(first, _, _)| *first == at) {
            if relations.single[base + at].is_some() {
                break;
            }
            let (_, count, restriction) = relations.multi.remove(index);
            at += count;
            match restriction {
                MultiRestriction::Equal(tuple) => plan.steps.push(Step::EqualTuple(count, tuple)),
                MultiRestriction::In(list) => plan.steps.push(Step::InTuples(count, list)),
                MultiRestriction::Slice { lower, upper } => {
                    plan.slice = Some(Slice { lower, upper });
                    break;
                }
            }
            continue;
        }
        let Some(restriction) = relations.single[base + at].take() else { break };
        at += 1;
        match restriction {
            Restriction::Equal(term) => plan.steps.push(Step::Equal(term)),
            Restriction::In(list) => plan.steps.push(Step::In(list)),
            Restriction::Slice { lower, upper } => {
                let tuple = |bound: Option<Bound<Term>>| {
                    bound.map(|Bound { value, inclusive }| Bound {
                        value: Tuple::Parts(vec![value]),
                        inclusive,
                    })
                };
                plan.slice = Some(Slice { lower: tuple(lower), upper: tuple(upper) });
                break;
            }
        }
    }
    if purpose != Purpose::SelectFiltering {
        check_gap(table, relations, &plan, at)?;
    }
    Ok(plan)
}

/// A clustering column that is restricted though one before it is not, or is sliced.
fn check_gap(
    table: &TableSchema,
    relations: &Relations,
    plan: &ClusteringPlan,
    at: usize,
) -> Result<(), CqlError> {
    let columns = table.clustering();
    let singles = relations.single[table.partition_key_count..].iter().take(columns.len());
    let single = singles.enumerate().find(|(_, restriction)| restriction.is_some());
    let multi = relations.multi.first().map(|(first, _, _)| *first);
    let Some(next) = single.map(|(index, _)| index).or(multi) else { return Ok(()) };
    let (name, at) = (&columns[next].name, at.min(columns.len() - 1));
    Err(CqlError::Invalid(match plan.slice {
        Some(_) => format!(
            "Clustering column \"{name}\" cannot be restricted (preceding column \"{}\" is \
             restricted by a non-EQ relation)",
            columns[at.saturating_sub(1)].name
        ),
        None => format!(
            "PRIMARY KEY column \"{name}\" cannot be restricted as preceding column \"{}\" is not \
             restricted",
            columns[at].name
        ),
    }))
}

fn single_filters(
    column: &Column,
    restriction: Restriction<Term>,
    inputs: &mut Inputs,
    out: &mut Vec<Filter>,
) {
    let index = inputs.add(column, ColumnForm::Value);
    let mut add = |test: Test| {
        out.push(Filter::new(Term::Column(index), column.ty.clone(), &column.name, test));
    };
    match restriction {
        Restriction::Equal(term) => add(Test::Compare(Comparison::Equal, term)),
        Restriction::In(list) => add(Test::In(list)),
        Restriction::Slice { lower, upper } => {
            if let Some(bound) = lower {
                add(Test::Compare(lower_comparison(bound.inclusive), bound.value));
            }
            if let Some(bound) = upper {
                add(Test::Compare(upper_comparison(bound.inclusive), bound.value));
            }
        }
    }
}

fn multi_filters(
    columns: &[Column],
    restriction: MultiRestriction,
    inputs: &mut Inputs,
    out: &mut Vec<Filter>,
) {
    let ty = Type::Tuple(columns.iter().map(|column| column.ty.clone()).collect());
    let parts = columns.iter().map(|c| Term::Column(inputs.add(c, ColumnForm::Value))).collect();
    let subject = Term::Parts(Rc::new(ty.clone()), parts);
    let name = columns.first().map_or("", |column| &column.name);
    let mut add = |test: Test| out.push(Filter::new(subject.clone(), ty.clone(), name, test));
    match restriction {
        MultiRestriction::Equal(tuple) => add(Test::CompareTuple(Comparison::Equal, tuple)),
        MultiRestriction::In(TupleList::Tuples(tuples)) => {
            add(Test::InTuples(TupleList::Tuples(tuples)));
        }
        MultiRestriction::In(list) => add(Test::InTuples(list)),
        MultiRestriction::Slice { lower, upper } => {
            if let Some(bound) = lower {
                add(Test::CompareTuple(lower_comparison(bound.inclusive), bound.value));
            }
            if let Some(bound) = upper {
                add(Test::CompareTuple(upper_comparison(bound.inclusive), bound.value));
            }
        }
    }
}

fn lower_comparison(inclusive: bool) -> Comparison {
    if inclusive { Comparison::GreaterOrEqual } else { Comparison::Greater }
}

fn upper_comparison(inclusive: bool) -> Comparison {
    if inclusive { Comparison::LessOrEqual } else { Comparison::Less }
}

impl Restrictions {
    /// Whether a static or regular column is restricted in the plan of a write.
    pub(crate) fn refuse_filters(
        &self,
        table: &TableSchema,
        relations: &[Relation],
    ) -> Result<(), CqlError> {
        if self.filters.is_empty() {
            return Ok(());
        }
        let other = relations.iter().find_map(|relation| match &relation.subject {
            crate::syntax::ast::Subject::Path(path) => {
                let column = table.column(&path.column().text)?;
                let is_key =
                    matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering);
                (!is_key).then_some(column)
            }
            _ => None,
        });
        Err(CqlError::Invalid(match other {
            Some(column) => {
                format!("Non PRIMARY KEY columns found in where clause: {}", column.name)
            }
            None => "Invalid restrictions in the where clause".to_owned(),
        }))
    }
}
