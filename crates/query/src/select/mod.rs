//! `SELECT`, executed page by page.
//!
//! From the ground up: [`row`] (a row of a page as terms see it), [`paging`], [`output`] (rows of
//! the result, groups and aggregates, order), [`execute`] (the loop over replica pages),
//! [`values`] (without a table).

mod execute;
mod output;
mod paging;
mod row;
mod values;

pub(crate) use execute::execute;
pub(crate) use row::RowCells;
pub(crate) use values::evaluate as evaluate_values;
