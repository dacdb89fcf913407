//! What the text of an expression says, without what its placeholders stand for: so it is the same
//! for all requests that have this text.
//!
//! Invariants
//!  - *whole-first*: what has parts comes before them, and says how many there are if that differs.

use super::Comparison;

/// What an expression is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Update,
    /// A filter and a condition of keys, too.
    Condition,
    Projection,
}

impl Kind {
    /// As metrics call it.
    pub(super) const NAMES: [&str; 3] =
        ["UpdateExpression", "ConditionExpression", "ProjectionExpression"];
}

/// A word of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    at: u16,
    bytes: u16,
}

impl Span {
    /// Of a part of a text, which is not longer than expressions are.
    pub(super) fn of(text: &str, word: &str) -> Span {
        let at = word.as_ptr() as usize - text.as_ptr() as usize;
        debug_assert_eq!(text.get(at..at + word.len()), Some(word), "whole-first: a foreign word");
        Span { at: at as u16, bytes: word.len() as u16 }
    }

    /// The word in its text.
    pub(super) fn word(self, text: &str) -> &str {
        let at = usize::from(self.at);
        &text[at..at + usize::from(self.bytes)]
    }
}

/// One thing that is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    /// What a path begins with: a name, or what stands for one.
    Root(Span),
    RootReference(Span),
    /// How it goes on.
    Name(Span),
    NameReference(Span),
    Index(u32),
    Value(Span),
    /// A function that is a condition, one in it that has a value, and one of an update.
    Called(Span, u16),
    Valued(Span, u16),
    Updating(Span, u16),
    Plus,
    Minus,
    Compare(Comparison),
    Between,
    /// The number of alternatives.
    In(u16),
    And(u16),
    Or(u16),
    Not,
    /// Paths, each with what it is given or loses.
    Set(u16),
    Remove(u16),
    Add(u16),
    Delete(u16),
}
