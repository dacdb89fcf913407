//! CQL, from text to rows.
//!
//! A statement goes through these modules in order: [`syntax`] makes a tree of the text;
//! [`processor`] keeps prepared statements and leads the rest; [`ddl`] and [`describe`] execute
//! what concerns the schema. [`session`], [`parameters`], [`response`], [`prepared`] and
//! [`error`] are what the protocol above deals in.

mod ddl;
mod describe;
pub mod error;
pub mod parameters;
pub mod prepared;
pub mod processor;
pub mod response;
pub mod session;
pub mod syntax;

pub use error::CqlError;
pub use parameters::{Parameters, Value, Values};
pub use prepared::Prepared;
pub use processor::{BatchEntry, BatchStatement, Config, Processor};
pub use response::{BindMetadata, ColumnSpec, Response, ResponseKind, ResultMetadata, Rows};
pub use session::Session;
