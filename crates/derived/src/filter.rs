//! The conditions of a view on the key of a row of the base table, and on the value that a row of
//! the view is found by.

use crate::place::{Place, Source};
use model::schema::{ViewCondition, ViewOperator};
use model::{Type, value};
use std::cmp::Ordering;

/// Conditions by what must be known to tell whether they are true.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    of_partition: Vec<Condition>,
    of_row: Vec<Condition>,
    of_value: Vec<Condition>,
}

#[derive(Clone, Debug)]
struct Condition {
    columns: Vec<(Source, Type)>,
    operator: ViewOperator,
    values: Vec<Vec<Vec<u8>>>,
}

impl Filter {
    /// `source_of` tells where a column of the base table is found, and its type.
    pub(crate) fn new(
        conditions: &[ViewCondition],
        source_of: impl Fn(&str) -> Result<(Source, Type), String>,
    ) -> Result<Filter, String> {
        let mut filter = Filter::default();
        for condition in conditions {
            let columns = condition.columns.iter().map(|name| source_of(name));
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            let width = columns.len();
            let is_whole = condition.values.iter().all(|tuple| tuple.len() == width);
            let is_one = condition.operator == ViewOperator::In || condition.values.len() == 1;
            if width == 0 || !is_whole || !is_one {
                let columns = condition.columns.join(", ");
                return Err(format!(
                    "the condition on ({columns}) has not a value for each column"
                ));
            }
            let has = |wanted: fn(&Source) -> bool| columns.iter().any(|(it, _)| wanted(it));
            let group = if has(|source| *source == Source::Value) {
                &mut filter.of_value
            } else if has(|source| matches!(source, Source::Clustering(_))) {
                &mut filter.of_row
            } else {
                &mut filter.of_partition
            };
            let (operator, values) = (condition.operator, condition.values.clone());
            group.push(Condition { columns, operator, values });
        }
        Ok(filter)
    }

    /// Whether rows of the partition may be in the view.
    pub(crate) fn has_partition(&self, place: &Place<'_>) -> bool {
        self.of_partition.iter().all(|condition| condition.is_true(place))
    }
    /// Whether the row may be in the view, of a partition that may.
    pub(crate) fn has_row(&self, place: &Place<'_>) -> bool {
        self.of_row.iter().all(|condition| condition.is_true(place))
    }
    /// Whether it is in the view with that value, if the row may be.
    pub(crate) fn has_value(&self, place: &Place<'_>) -> bool {
        self.of_value.iter().all(|condition| condition.is_true(place))
    }
}

impl Condition {
    fn is_true(&self, place: &Place<'_>) -> bool {
        let mut orders = self.values.iter().map(|tuple| self.compare(place, tuple));
        let is = |order: Ordering| match self.operator {
            ViewOperator::Equal | ViewOperator::In => order.is_eq(),
            ViewOperator::Less => order.is_lt(),
            ViewOperator::LessOrEqual => order.is_le(),
            ViewOperator::Greater => order.is_gt(),
            ViewOperator::GreaterOrEqual => order.is_ge(),
        };
        orders.any(|order| order.is_some_and(is))
    }

    /// How the row's parts compare with these values; `None` if it has not all of them.
    fn compare(&self, place: &Place<'_>, tuple: &[Vec<u8>]) -> Option<Ordering> {
        for ((source, ty), wanted) in self.columns.iter().zip(tuple) {
            let order = value::compare(ty, place.part(*source)?, wanted);
            if order.is_ne() {
                return Some(order);
            }
        }
        Some(Ordering::Equal)
    }
}
