//! What a statement says, before anything is known of its table.

use crate::expression::{Comparison, Path};
use crate::number::Number;

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    Select(Select),
    Insert {
        source: Source,
        item: Vec<(String, Term)>,
    },
    Update {
        source: Source,
        changes: Vec<Change>,
        test: Option<Test>,
        returning: Option<Returning>,
    },
    Delete {
        source: Source,
        test: Option<Test>,
        returning: Option<Returning>,
    },
    /// `EXISTS(SELECT ..)`, of transactions.
    Exists(Select),
}

impl Statement {
    /// What it is about.
    pub fn source(&self) -> &Source {
        match self {
            Statement::Select(select) | Statement::Exists(select) => &select.source,
            Statement::Insert { source, .. }
            | Statement::Update { source, .. }
            | Statement::Delete { source, .. } => source,
        }
    }

    /// Whether it reads and writes nothing.
    pub fn reads(&self) -> bool {
        matches!(self, Statement::Select(_) | Statement::Exists(_))
    }
}

/// What is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Select {
    /// `None`: all, `*`.
    pub columns: Option<Vec<Path>>,
    pub source: Source,
    pub test: Option<Test>,
    /// Names, and whether the later ones are first.
    pub order: Vec<(String, bool)>,
}

/// A table, or an index of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub table: String,
    pub index: Option<String>,
}

/// A part of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Set(Path, Term),
    Remove(Path),
}

/// `RETURNING (ALL | MODIFIED) (OLD | NEW) *`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returning {
    pub is_all: bool,
    pub is_new: bool,
}

/// What has a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Term {
    Path(Path),
    /// `?`, by its place among them.
    Parameter(usize),
    Text(String),
    Number(Number),
    Bool(bool),
    Null,
    List(Vec<Term>),
    Map(Vec<(String, Term)>),
    /// `<< .. >>`
    Set(Vec<Term>),
    /// A function, in small letters.
    Call(String, Vec<Term>),
    Plus(Box<Term>, Box<Term>),
    Minus(Box<Term>, Box<Term>),
}

/// What holds of an item or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    And(Vec<Test>),
    Or(Vec<Test>),
    Not(Box<Test>),
    Compare(Comparison, Term, Term),
    Between {
        term: Term,
        low: Term,
        high: Term,
    },
    In(Term, Vec<Term>),
    /// `IS NULL`, `IS MISSING`
    Is(Path, Lack),
    Call(String, Vec<Term>),
}

/// How an attribute has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// It is there, and null.
    Null,
    /// It is not there.
    Missing,
}
