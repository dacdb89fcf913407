//! CQL, from the plan of a statement to rows: who may execute it, and its execution, page by page.
//!
//! The crates below do the rest: `syntax` parses a statement, `plan` analyses it on a version of
//! the schema, `functions` computes what it calls.
//!
//! The rooms, from the ground up. What the protocol above deals in: [`error`], [`response`],
//! [`session`], [`trace`] and [`parameters`]. What a node is told and counts: [`tally`] and
//! [`guardrail`], [`options`], `config`, `timeouts`. An execution: `timestamps`, `request` (its
//! values, its time, where it runs). The statements of a shard: [`prepared`], `cache`; `obscure`
//! (texts without passwords), `hashing`, [`audit`] (the audit log); [`processor`]. What statements
//! do: `select`, `modify`, `batch`, `prune`, `ddl`, [`access`] (whether a session may execute one,
//! and roles, grants, service levels), `describe`. Above them `execution` leads them,
//! `trace_writer` and `audit_table` write what is told of it, `prefetch` and `routing` look ahead.

pub mod access;
pub mod audit;
mod audit_table;
mod batch;
mod cache;
mod config;
mod ddl;
mod describe;
pub mod error;
mod execution;
pub mod guardrail;
mod hashing;
mod modify;
mod obscure;
pub mod options;
pub mod parameters;
mod prefetch;
pub mod prepared;
pub mod processor;
mod prune;
mod request;
pub mod response;
mod routing;
mod select;
pub mod session;
pub mod tally;
mod timeouts;
mod timestamps;
pub mod trace;
mod trace_writer;

pub use audit::Audit;
pub use auth::Workload;
pub use cache::CacheStats;
pub use config::Config;
pub use error::CqlError;
pub use execution::{Answer, BatchEntry, BatchStatement};
pub use modify::execute_for_others;
pub use options::Options;
pub use parameters::Parameters;
pub use plan::metadata::{BindMetadata, Column, ColumnSpec, ResultMetadata};
pub use plan::values::{Value, Values};
pub use prefetch::Prefetch;
pub use prepared::Prepared;
pub use processor::Processor;
pub use response::{Response, ResponseKind, Rows};
pub use routing::Place;
pub use session::{BatchForm, Session, Terms};
pub use syntax::ast::BatchKind;
pub use timeouts::{Millis, Timeouts};
