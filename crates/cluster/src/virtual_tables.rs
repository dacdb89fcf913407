//! Tables whose rows are computed when they are read.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

/// A row: one value (`None`: null) per column of the schema, in the schema's order.
pub type VirtualRow = Vec<Option<Vec<u8>>>;

/// Rows on their way; they may ask other shards.
pub type VirtualFuture = Pin<Box<dyn Future<Output = Vec<VirtualRow>>>>;

/// Computes all rows of a table, in any order.
pub type VirtualRows = Rc<dyn Fn() -> VirtualFuture>;
