//! Positions in a statement's text, and syntax errors at them.

use std::fmt;

/// A place in the text of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line, counted from 1.
    pub line: u32,
    /// Characters (not bytes) since the start of the line, counted from 0.
    pub column: u32,
    /// Bytes since the start of the text.
    pub offset: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The text is not CQL. Prints as drivers know it: `line 1:14 no viable alternative at input 'x'`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// What was found and, where that is short, what was expected.
    pub message: String,
    /// Where it was found.
    pub at: Position,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} {}", self.at, self.message)
    }
}

impl std::error::Error for SyntaxError {}
