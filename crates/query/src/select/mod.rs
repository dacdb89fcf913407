//! `SELECT`: planned once, executed page by page.
//!
//! In reading order: [`plan`] (analysis), [`naming`] (result columns), [`execute`] (the loop over
//! replica pages), [`row`] (a row of a page as terms see it), [`project`] (rows that need no
//! terms), [`output`] (rows of the result, groups and aggregates, order), [`paging`], [`values`]
//! (without a table).

mod execute;
mod naming;
mod output;
mod paging;
mod plan;
mod project;
mod row;
mod values;

pub(crate) use execute::execute;
pub(crate) use plan::{SelectPlan, columns_read, prepare};
pub(crate) use row::RowCells;
pub(crate) use values::{ValuesPlan, prepare_values};
