//! `WHERE` of a view: which rows of the base it has.
//!
//! Invariants
//!  - *evaluated-once*: a condition holds values: what a statement computes is computed when the
//!    view is made.

use super::refuse;
use crate::error::Error;
use crate::markers::Receiver;
use crate::restrictions;
use crate::term::constant;
use cluster::Schema;
use model::schema::{ViewCondition, ViewOperator};
use model::{Column, TableSchema};
use syntax::ast::{
    ColumnPath, Comparison, CreateView, Expr, ExprKind, InValues, Name, Relation, Selection,
    Source, Statement, Subject, Test,
};

/// What a `WHERE` says.
#[derive(Debug, Default)]
pub(super) struct Filter<'a> {
    pub(super) conditions: Vec<ViewCondition>,
    pub(super) not_null: Vec<&'a Name>,
}

impl Filter<'_> {
    /// Whether anything is said of a column.
    pub(super) fn restricts(&self, column: &str) -> bool {
        let mut named = self.conditions.iter().flat_map(|condition| &condition.columns);
        named.any(|name| name == column) || self.not_null.iter().any(|name| name.text == column)
    }
}

/// The columns that IS NOT NULL is said of and that are not in the key of the view.
pub(super) fn needless_not_null(it: &CreateView) -> Vec<&Name> {
    let key = || it.primary_key.partition.iter().chain(&it.primary_key.clustering);
    let not_null =
        it.filter.iter().filter_map(|relation| match (&relation.subject, &relation.test) {
            (Subject::Path(ColumnPath::Column(name)), Test::IsNotNull) => Some(name),
            _ => None,
        });
    not_null.filter(|name| key().all(|other| other.text != name.text)).collect()
}

/// The relations as text.
pub(super) fn text_of(relations: &[Relation]) -> String {
    relations.iter().map(Relation::to_string).collect::<Vec<_>>().join(" AND ")
}

/// That text with other names of columns.
pub(super) fn renamed(text: &str, names: &[(&str, &str)]) -> Result<String, Error> {
    if text.is_empty() {
        return Ok(String::new());
    }
    let parsed = syntax::parse(&format!("SELECT * FROM t WHERE {text}"))?;
    let Statement::Select(mut select) = parsed.statement else {
        return Err(Error::Server(format!("the WHERE of a view is none: {text}")));
    };
    debug_assert!(matches!(select.selection, Selection::All(_)), "no selection was written");
    debug_assert!(matches!(select.from, Some(Source::Table(_))), "no other source was written");
    let rename = |name: &mut Name| {
        if let Some((_, to)) = names.iter().find(|(from, _)| *from == name.text) {
            name.text = (*to).to_owned();
        }
    };
    for relation in &mut select.filter {
        match &mut relation.subject {
            Subject::Path(ColumnPath::Column(name)) => rename(name),
            Subject::Columns(names) => names.iter_mut().for_each(rename),
            Subject::Path(_) | Subject::Token(_) | Subject::Call(_) => {}
        }
    }
    Ok(text_of(&select.filter))
}

/// What relations on columns of the base say.
pub(super) fn read<'a>(
    schema: &Schema,
    base: &TableSchema,
    relations: &'a [Relation],
) -> Result<Filter<'a>, Error> {
    let mut filter = Filter::default();
    for relation in relations {
        match &relation.subject {
            Subject::Path(ColumnPath::Column(name)) => {
                let column = restrictions::find(base, name)?;
                match &relation.test {
                    Test::IsNotNull => filter.not_null.push(name),
                    test => {
                        let columns = std::slice::from_ref(&column);
                        filter.conditions.push(condition(schema, base, columns, test, relation)?);
                    }
                }
            }
            Subject::Columns(names) => {
                let columns = names.iter().map(|name| restrictions::find(base, name));
                let columns = columns.collect::<Result<Vec<_>, _>>()?;
                let test = &relation.test;
                filter.conditions.push(condition(schema, base, &columns, test, relation)?);
            }
            Subject::Path(_) | Subject::Token(_) | Subject::Call(_) => {
                return unsupported(relation);
            }
        }
    }
    Ok(filter)
}

fn unsupported<T>(relation: &Relation) -> Result<T, Error> {
    refuse(format!(
        "A materialized view cannot have the condition {relation}: only comparisons and IN of \
         columns are supported"
    ))
}

fn condition(
    schema: &Schema,
    base: &TableSchema,
    columns: &[&Column],
    test: &Test,
    relation: &Relation,
) -> Result<ViewCondition, Error> {
    let keyspace = base.keyspace.as_str();
    let one = |column: &Column, expr: &Expr| {
        let receiver = Receiver { name: &column.name, ty: &column.ty };
        match constant(schema, keyspace, expr, receiver)? {
            Some(value) => Ok(value),
            None => refuse(format!("Invalid null value in condition for column {}", column.name)),
        }
    };
    let values = |expr: &Expr| match (columns, &expr.kind) {
        ([column], _) if matches!(relation.subject, Subject::Path(_)) => {
            Ok(vec![one(column, expr)?])
        }
        (_, ExprKind::Tuple(parts)) if parts.len() == columns.len() => {
            let parts = columns.iter().zip(parts);
            parts.map(|(column, part)| one(column, part)).collect::<Result<Vec<_>, Error>>()
        }
        _ => {
            refuse(format!("Expected {} values for {relation}, one for each column", columns.len()))
        }
    };
    if let Some(column) = columns.iter().find(|column| column.ty.is_multi_cell()) {
        return refuse(format!(
            "A materialized view cannot have the condition {relation}: {} is not frozen",
            column.name
        ));
    }
    let (operator, values) = match test {
        Test::In(InValues::List(items)) => {
            let items = items.iter().map(values).collect::<Result<Vec<_>, Error>>()?;
            (ViewOperator::In, items)
        }
        Test::Compare(comparison, expr) => {
            let operator = match comparison {
                Comparison::Equal => ViewOperator::Equal,
                Comparison::Less => ViewOperator::Less,
                Comparison::LessOrEqual => ViewOperator::LessOrEqual,
                Comparison::Greater => ViewOperator::Greater,
                Comparison::GreaterOrEqual => ViewOperator::GreaterOrEqual,
                Comparison::NotEqual => {
                    return refuse(format!("Unsupported \"!=\" relation: {relation}"));
                }
            };
            (operator, vec![values(expr)?])
        }
        _ => return unsupported(relation),
    };
    let columns = columns.iter().map(|column| column.name.clone()).collect();
    Ok(ViewCondition { columns, operator, values })
}
