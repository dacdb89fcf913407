//! `SELECT`: from the tree to a plan that only needs values.
//!
//! From the ground up: [`naming`] (result columns), [`project`] (rows that need no terms),
//! [`plan`] (the analysis), [`values`] (without a table).

mod naming;
mod plan;
mod project;
mod values;

pub use plan::{FoundRows, Grouping, SelectPlan, columns_read, prepare};
pub use project::Projection;
pub use values::{COLUMN, ValuesPlan, prepare_values};
