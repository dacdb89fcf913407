//! `SELECT`.

use super::{Expr, Name, QualifiedName, Relation, Using};
use crate::Position;

/// `SELECT ..`
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// `SELECT JSON`
    pub json: bool,
    /// `SELECT DISTINCT`
    pub distinct: bool,
    /// What is selected.
    pub selection: Selection,
    /// `FROM ..`; `None` selects from the one row of nothing.
    pub from: Option<Source>,
    /// `WHERE ..`, joined by `AND`.
    pub filter: Vec<Relation>,
    /// `GROUP BY ..`: columns, or functions of them.
    pub group_by: Vec<Expr>,
    /// `ORDER BY ..`
    pub order_by: Vec<OrderBy>,
    /// `PER PARTITION LIMIT n`: an integer or a marker.
    pub per_partition_limit: Option<Expr>,
    /// `LIMIT n`: an integer or a marker.
    pub limit: Option<Expr>,
    /// `ALLOW FILTERING`
    pub allow_filtering: bool,
    /// `BYPASS CACHE`
    pub bypass_cache: bool,
    /// `USING TIMEOUT ..`, `USING SERVICE LEVEL ..`
    pub using: Using,
}

/// What a `SELECT` selects.
#[derive(Clone, Debug, PartialEq)]
pub enum Selection {
    /// `*`
    All(Position),
    /// `a, f(b) AS c`, never empty.
    Items(Vec<Selector>),
}

/// One column of the result.
#[derive(Clone, Debug, PartialEq)]
pub struct Selector {
    /// What is computed.
    pub expr: Expr,
    /// `AS alias`
    pub alias: Option<Name>,
}

/// What a `SELECT` reads.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// `FROM t`
    Table(QualifiedName),
    /// `FROM MUTATION_FRAGMENTS(t)`
    MutationFragments(QualifiedName),
}

impl Source {
    /// The table read.
    pub fn table(&self) -> &QualifiedName {
        match self {
            Source::Table(table) | Source::MutationFragments(table) => table,
        }
    }
}

/// One key of `ORDER BY`.
#[derive(Clone, Debug, PartialEq)]
pub enum OrderBy {
    /// `c [ASC|DESC]`
    Column(Name, Direction),
    /// `c ANN OF vector`
    Nearest(Name, Expr),
    /// `BM25(c, query)` or another function.
    Function(Expr, Direction),
}

/// `ASC` or `DESC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// `ASC`, also when nothing is said.
    Ascending,
    /// `DESC`
    Descending,
}
