//! The language: CQL from the text of a statement to its tree, and from the tree to text.
//!
//! The rooms, from the ground up: `position` (places in a text, and errors at them), [`ast`] (the
//! tree), `keyword`, `lexer` (over bytes), `parser` (by recursive descent with one token of
//! look-ahead, two where CQL asks for it), `print` (the tree as text that gives the same tree),
//! `form` (a text without its constants, as the slow query log groups statements).
//!
//! Invariants
//!  - *no-panic*: every text gives a tree or a [`SyntaxError`], however long or deep it is.
//!  - *linear*: time and memory are proportional to the length of the text.
//!  - *bounded-depth*: nesting is refused before it can exhaust the stack.
//!
//! It knows no schema, no types' values and no other module of this database: whether a name
//! exists or a constant fits is decided by the analysis.

pub mod ast;
mod form;
mod keyword;
mod lexer;
mod parser;
mod position;
mod print;
#[cfg(test)]
mod tests;

pub use form::form;
use parser::Parser;
pub use position::{Position, SyntaxError};
pub use print::{quote_name, quote_string};
use std::sync::Arc;

/// A statement and its bind markers.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The statement.
    pub statement: ast::Statement,
    /// Its bind markers in order of appearance, `ast::ExprKind::Marker` is an index of these.
    pub markers: Vec<Marker>,
}

/// `?` or `:name`. Markers of the same name are separate here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// `name` of `:name`.
    pub name: Option<Arc<str>>,
    /// Where it stands.
    pub at: Position,
}

/// Parses one statement, which may end with `;`.
pub fn parse(text: &str) -> Result<Parsed, SyntaxError> {
    let mut parser = Parser::new(text)?;
    let statement = parser.statement()?;
    parser.end_of_statement()?;
    Ok(Parsed { statement, markers: parser.markers })
}

/// Parses a type, as the schema tables hold it.
pub fn parse_type(text: &str) -> Result<ast::Type, SyntaxError> {
    let mut parser = Parser::new(text)?;
    let parsed = parser.type_name()?;
    parser.end_of_text()?;
    Ok(parsed)
}

/// Parses a value without bind markers.
pub fn parse_term(text: &str) -> Result<ast::Expr, SyntaxError> {
    let mut parser = Parser::new(text)?;
    let parsed = parser.term()?;
    parser.end_of_text()?;
    match parser.markers.first() {
        None => Ok(parsed),
        Some(marker) => Err(misplaced(marker)),
    }
}

/// Parses conditions joined by `AND`, without bind markers, as the definition of a view has them.
pub fn parse_filter(text: &str) -> Result<Vec<ast::Relation>, SyntaxError> {
    let mut parser = Parser::new(text)?;
    let parsed = parser.relations()?;
    parser.end_of_text()?;
    match parser.markers.first() {
        None => Ok(parsed),
        Some(marker) => Err(misplaced(marker)),
    }
}

fn misplaced(marker: &Marker) -> SyntaxError {
    SyntaxError { message: "bind markers are not allowed here".to_owned(), at: marker.at }
}
