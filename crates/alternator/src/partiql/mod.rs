//! PartiQL: statements that are done as the operations that they are equal to.
//!
//! In reading order. Pure: [`tree`] (what a statement says), `lexer`, `parser` (statements),
//! `terms` (conditions and values), `print` (back to a text), `meaning` (a tree and its parameters
//! in the terms of expressions), `keys` (which key a condition names, which range of keys), `equal`
//! (the request that a write is equal to). On the node: `statement` (`ExecuteStatement`), `select`,
//! `batch` (`BatchExecuteStatement`), `transaction` (`ExecuteTransaction`).
//!
//! A write becomes the JSON of `PutItem`, `UpdateItem`, `DeleteItem` or of a part of a transaction,
//! and goes their way, to other nodes too: what they check and promise holds of statements. A
//! `SELECT` becomes a query of the partitions that its condition names, or a scan.
//!
//! Invariants
//!  - *bounded*: a statement has [`BYTES_MAX`] bytes and [`DEPTH_MAX`] levels, or is refused; so
//!    nothing that walks its tree runs out of stack.
//!  - *placed*: the error of a text that is no statement says what is wrong where.
//!  - *all-parameters*: a statement is given as many parameters as it has `?`.
//!  - *same-as-equal*: a statement does and answers what the equal operation does.
//!  - *filter-or-range*: each part of a condition is in the range of keys that is read, or in the
//!    filter.
//!  - *bound-token*: a `NextToken` is of its statement and parameters alone.

mod batch;
mod equal;
mod keys;
mod lexer;
mod meaning;
mod parser;
mod print;
mod select;
mod statement;
mod terms;
#[cfg(test)]
mod tests;
mod transaction;
pub mod tree;

pub(crate) use batch::batch_execute_statement;
pub use parser::parse;
pub(crate) use statement::execute_statement;
pub(crate) use transaction::execute_transaction;

use crate::error::Error;

/// Bytes of a statement.
pub const BYTES_MAX: usize = 8192;
/// Brackets, functions and negations within each other.
pub const DEPTH_MAX: usize = 64;

/// *placed*: a text that is no statement. `at`: the byte where it ceases to be one.
fn refused(text: &str, at: usize, why: &str) -> Error {
    let before = text.get(..at).unwrap_or(text);
    let line = 1 + before.matches('\n').count();
    let column = 1 + before.chars().rev().take_while(|c| *c != '\n').count();
    let shown: String = text.chars().take(200).collect();
    Error::validation(format!(
        "Statement wasn't well formed, can't be processed: {shown}: {why} at {line}:{column}"
    ))
}
