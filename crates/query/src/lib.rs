//! CQL, from text to rows.
//!
//! A statement goes through these modules in order: [`syntax`] makes a tree of the text;
//! [`processor`] keeps prepared statements and leads the rest, `prefetch` fetches what statements that
//! are about to be executed look for; `fragments` plans what is read of stored data as it lies,
//! `paxos_state` what is read of `"t$paxos"`; [`ddl`] and [`describe`] execute what concerns the
//! schema, [`access`] what concerns roles, grants and service levels, and checks who may execute a
//! statement; [`audit`] writes down what clients did; `routing` tells where a statement belongs.
//! [`session`], [`parameters`], [`response`], [`prepared`] and [`error`] are what the protocol
//! above deals in; [`options`] are what the node is told, [`guardrail`] counts which of them were
//! met; [`offline`] serves tools that have no node.

pub mod access;
pub mod audit;
mod batch;
mod cache;
mod ddl;
mod describe;
pub mod error;
mod fragments;
mod functions;
pub mod guardrail;
mod ids;
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
pub mod syntax;
pub mod tally;
mod term;
mod timeouts;
pub mod trace;
mod types;
mod udf;

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
pub use session::{Session, Terms};
pub use syntax::ast::BatchKind;
pub use timeouts::{Millis, Timeouts};
pub use udf::Limits as FunctionLimits;
pub use udf::lua::{push::push as push_lua, sandbox::Sandbox};
pub use udf::wasm::{Limits as WasmLimits, Stats as FunctionStats};
