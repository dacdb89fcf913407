//! Statements that change rows.

use super::{ColumnPath, Expr, Name, QualifiedName, Relation};
use crate::Position;

/// `USING a AND b`: of a key given twice the last counts. `TIMESTAMP`, `TTL` and `CONCURRENCY`
/// are an integer or a marker, `TIMEOUT` is any value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Using {
    /// `TIMESTAMP micros`
    pub timestamp: Option<Expr>,
    /// `TTL seconds`
    pub ttl: Option<Expr>,
    /// `TIMEOUT duration`
    pub timeout: Option<Expr>,
    /// `CONCURRENCY n`
    pub concurrency: Option<Expr>,
    /// `SERVICE LEVEL name`
    pub service_level: Option<Name>,
}

/// `IF ..`
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// No `IF`: the write is not conditional.
    None,
    /// `IF EXISTS`
    Exists,
    /// `IF NOT EXISTS`
    NotExists,
    /// `IF a AND b`, never empty.
    All(Vec<Relation>),
}

/// `INSERT ..`
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    /// Where to.
    pub table: QualifiedName,
    /// What.
    pub source: InsertSource,
    /// `IF NOT EXISTS`, or none.
    pub condition: Condition,
    /// `USING ..`
    pub using: Using,
}

/// What an `INSERT` inserts.
#[derive(Clone, Debug, PartialEq)]
pub enum InsertSource {
    /// `(columns) VALUES (values)`. Their numbers may differ.
    Values {
        /// The columns.
        columns: Vec<Name>,
        /// A value for each.
        values: Vec<Expr>,
    },
    /// `JSON text [DEFAULT ..]`
    Json {
        /// A string or a marker.
        text: Expr,
        /// What becomes of columns that are not in it.
        missing: JsonMissing,
    },
}

/// What becomes of columns that a JSON text does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JsonMissing {
    /// `DEFAULT NULL`, also when nothing is said: they are deleted.
    Null,
    /// `DEFAULT UNSET`: they stay as they are.
    Unset,
}

/// `UPDATE ..`
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// Which table.
    pub table: QualifiedName,
    /// `USING ..`
    pub using: Using,
    /// `SET ..`, never empty.
    pub assignments: Vec<Assignment>,
    /// `WHERE ..`, never empty.
    pub filter: Vec<Relation>,
    /// `IF ..`
    pub condition: Condition,
}

/// One assignment of an `UPDATE`.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// What is assigned.
    pub target: ColumnPath,
    /// How, and with what.
    pub change: Change,
    /// Where the assignment begins.
    pub at: Position,
}

/// How an `UPDATE` changes a column. All but `Set` are of a whole column.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// `= value`
    Set(Expr),
    /// `c = c + value` or `c += value`
    Add(Expr),
    /// `c = c - value` or `c -= value`
    Subtract(Expr),
    /// `c = value + c`
    Prepend(Expr),
}

/// `DELETE ..`
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// What of the rows; empty: all of them.
    pub columns: Vec<ColumnPath>,
    /// Which table.
    pub table: QualifiedName,
    /// `USING ..`
    pub using: Using,
    /// `WHERE ..`, never empty.
    pub filter: Vec<Relation>,
    /// `IF ..`
    pub condition: Condition,
    /// `BYPASS LARGE_DATA_GUARDRAILS`
    pub bypass_large_data_guardrails: bool,
}

/// `BEGIN BATCH .. APPLY BATCH`
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// How it is applied.
    pub kind: BatchKind,
    /// `USING ..`
    pub using: Using,
    /// Its statements.
    pub statements: Vec<Modification>,
}

/// How a batch is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchKind {
    /// `BATCH`: all of it or, after a crash, all of it later.
    Logged,
    /// `UNLOGGED BATCH`
    Unlogged,
    /// `COUNTER BATCH`
    Counter,
}

/// A statement of a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Modification {
    /// `INSERT ..`
    Insert(Insert),
    /// `UPDATE ..`
    Update(Update),
    /// `DELETE ..`
    Delete(Delete),
}

/// `TRUNCATE [TABLE] t [USING TIMEOUT ..]`
#[derive(Clone, Debug, PartialEq)]
pub struct Truncate {
    /// Which table.
    pub table: QualifiedName,
    /// `USING ..`
    pub using: Using,
}

/// `PRUNE MATERIALIZED VIEW v [WHERE ..] [USING ..]`
#[derive(Clone, Debug, PartialEq)]
pub struct PruneView {
    /// Which view.
    pub view: QualifiedName,
    /// `WHERE ..`
    pub filter: Vec<Relation>,
    /// `USING ..`
    pub using: Using,
}
