//! CQL, from the tree of a statement to rows.
//!
//! The crate `syntax` parses a statement. It goes through these modules in order: [`processor`]
//! keeps prepared statements and leads the rest, `prefetch` prefetches the partitions of statements
//! that are about to be executed; `fragments` plans reads of mutation fragments, `paxos_state` reads of
//! `"t$paxos"`; [`ddl`] and [`describe`] execute schema statements, [`access`] statements about
//! roles, grants and service levels, and authorizes statements; [`audit`] is the audit log;
//! `routing` finds the replica of a statement. [`session`], [`parameters`], [`response`],
//! [`prepared`] and [`error`] are what the protocol above deals in; [`options`] are the options of
//! the node, [`guardrail`] counts which of them were hit; [`offline`] serves tools that have no
//! node.

pub mod access;
pub mod audit;
mod batch;
mod cache;
mod ddl;
mod describe;
pub mod error;
mod fragments;
pub mod guardrail;
mod json;
mod markers;
mod modify;
pub mod offline;
pub mod options;
pub mod parameters;
mod paxos_state;
mod prefetch;
pub mod prepared;
pub mod processor;
mod request;
pub mod response;
mod restrictions;
mod routing;
mod select;
pub mod session;
mod statement;
pub mod tally;
mod term;
mod timeouts;
mod timestamps;
pub mod trace;
mod types;

pub use audit::Audit;
pub use auth::Workload;
pub use cache::CacheStats;
pub use error::CqlError;
pub use options::Options;
pub use parameters::{Parameters, Value, Values};
pub use prefetch::Prefetch;
pub use prepared::Prepared;
pub use processor::{BatchEntry, BatchStatement, Config, Processor};
pub use response::{
    BindMetadata, Column, ColumnSpec, Response, ResponseKind, ResultMetadata, Rows,
};
pub use routing::Place;
pub use session::{BatchForm, Session, Terms};
pub use syntax::ast::BatchKind;
pub use timeouts::{Millis, Timeouts};
