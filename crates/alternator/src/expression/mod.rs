//! The expression languages: of conditions and filters, of keys, of projections, of updates.
//!
//! In reading order: this (what a text means), `code` (what it says), `lexer`, `parser`,
//! [`programs`] (what texts say that were parsed before), [`placeholders`] (`#name` and `:value`),
//! `check` (what operators take), [`selection`] (which parts of an item paths name), `assembly`
//! (what a text means in a request), `print` (back to a text).
//!
//! Invariants
//!  - *resolved*: what is parsed has names and values in the place of placeholders.
//!  - *bounded*: a text has so many bytes, operators and levels, or is refused; so neither parser
//!    nor evaluation runs out of stack.

mod assembly;
pub(crate) mod check;
mod code;
mod lexer;
mod parser;
pub mod placeholders;
pub(crate) mod print;
pub mod programs;
pub mod selection;
#[cfg(test)]
mod tests;

pub use assembly::{condition, projection, update};
pub use placeholders::Placeholders;
pub use programs::Programs;
pub use selection::Selection;

use crate::value::Value;
use std::fmt;

/// Where a value stands in an item: `a.b[2].c`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    pub root: String,
    pub steps: Vec<Step>,
}

/// From a value into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Name(String),
    Index(usize),
}

impl Path {
    /// A whole attribute.
    pub fn attribute(name: impl Into<String>) -> Path {
        Path { root: name.into(), steps: Vec::new() }
    }
}

/// As messages of the service show it: `[a, b, [2]]`.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}", self.root)?;
        for step in &self.steps {
            match step {
                Step::Name(name) => write!(f, ", {name}")?,
                Step::Index(index) => write!(f, ", [{index}]")?,
            }
        }
        f.write_str("]")
    }
}

/// What has a value, or none where an item lacks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    Path(Path),
    Value(Value),
    Size(Box<Operand>),
    IfNotExists(Path, Box<Operand>),
    ListAppend(Box<Operand>, Box<Operand>),
    Plus(Box<Operand>, Box<Operand>),
    Minus(Box<Operand>, Box<Operand>),
}

/// How two values are to stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// As it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::Unequal => "<>",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }

    /// The same with its sides exchanged.
    pub fn mirrored(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        }
    }
}

/// What holds of an item or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    And(Vec<Condition>),
    Or(Vec<Condition>),
    Not(Box<Condition>),
    Compare(Comparison, Operand, Operand),
    Between {
        value: Operand,
        low: Operand,
        high: Operand,
    },
    In(Operand, Vec<Operand>),
    Exists(Path),
    NotExists(Path),
    /// `attribute_type`
    Type(Operand, String),
    BeginsWith(Operand, Operand),
    Contains(Operand, Operand),
}

/// What an update does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    pub set: Vec<(Path, Operand)>,
    pub remove: Vec<Path>,
    pub add: Vec<(Path, Value)>,
    pub delete: Vec<(Path, Value)>,
}

impl Update {
    /// All paths that it changes.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let set = self.set.iter().map(|(path, _)| path);
        let added = self.add.iter().chain(&self.delete).map(|(path, _)| path);
        set.chain(&self.remove).chain(added)
    }

    /// Whether what it writes depends on what is there.
    pub fn reads(&self) -> bool {
        let reads = |(path, operand): &(Path, Operand)| !path.steps.is_empty() || operand.reads();
        !self.add.is_empty()
            || !self.delete.is_empty()
            || self.remove.iter().any(|path| !path.steps.is_empty())
            || self.set.iter().any(reads)
    }
}

impl Operand {
    fn reads(&self) -> bool {
        match self {
            Operand::Path(_) | Operand::IfNotExists(..) => true,
            Operand::Value(_) => false,
            Operand::Size(inner) => inner.reads(),
            Operand::ListAppend(a, b) | Operand::Plus(a, b) | Operand::Minus(a, b) => {
                a.reads() || b.reads()
            }
        }
    }
}
