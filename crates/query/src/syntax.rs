//! The text of a statement, as a tree.
//!
//! A lexer over bytes, a tree, and a parser by recursive descent with one token of look-ahead
//! (two where CQL asks for it).
//!
//! Invariants
//!  - *no-panic*: every text gives a tree or a [`SyntaxError`], however long or deep it is.
//!  - *linear*: time and memory are proportional to the length of the text.
//!  - *bounded-depth*: nesting is refused before it can exhaust the stack.
//!
//! It knows no schema, no types' values and no other module of this database: whether a name
//! exists or a constant fits is decided by whoever reads the tree.

pub mod ast;
mod position;

pub use position::{Position, SyntaxError};

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
    pub name: Option<String>,
    /// Where it stands.
    pub at: Position,
}

/// Parses one statement, which may end with `;`.
pub fn parse(text: &str) -> Result<Parsed, SyntaxError> {
    todo!("{text}")
}

/// Parses a type, as the schema tables hold it.
pub fn parse_type(text: &str) -> Result<ast::Type, SyntaxError> {
    todo!("{text}")
}

/// Parses a value without bind markers.
pub fn parse_term(text: &str) -> Result<ast::Expr, SyntaxError> {
    todo!("{text}")
}
