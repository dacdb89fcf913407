//! Plans: what a statement means on a schema, from its tree to what only needs values.
//!
//! An analysis sees a tree, a version of the schema and the node's options, and no row. Pure: it
//! waits for nothing, and what it decides is a value. Execution (`query`) gives plans their values
//! and rows; terms, keys, ranges, filters and conditions are evaluated here, from values to values.
//!
//! The rooms, from the ground up: [`guardrail`](Guardrail) and [`error`](Error); [`values`] and
//! [`metadata`] (what is bound, and columns of results); [`options`](Options) (of the node, with
//! `compression` and `speculative_retry`); [`markers`]; `types` and `json`; [`term`] (values of
//! statements); [`restrictions`] (`WHERE`); [`select`] and [`modify`] (plans of reads and writes),
//! with `tables` (what names name), `fragments` and [`paxos_state`] (tables beside a table),
//! [`prune`] (rows of views that are there for nothing);
//! [`ddl`] (changes of the schema); [`plan`](Plan), `listing` and [`needs`] (permissions);
//! [`statement`](Statement) (all of these); [`offline`] (tools that have no node).

mod compression;
pub mod ddl;
mod error;
mod fragments;
mod guardrail;
mod json;
mod listing;
pub mod markers;
pub mod metadata;
pub mod modify;
pub mod needs;
pub mod offline;
mod options;
pub mod paxos_state;
mod plan;
pub mod prune;
pub mod restrictions;
pub mod select;
mod speculative_retry;
mod statement;
mod tables;
pub mod term;
mod types;
pub mod values;

pub use error::Error;
pub use guardrail::Guardrail;
pub use listing::columns as listing_columns;
pub use options::Options;
pub use plan::Plan;
pub use statement::{Draft, Statement, Steps};
