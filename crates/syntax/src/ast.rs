//! The tree of a statement: what was written, before anything is known about the schema.
//!
//! Invariants
//!  - *names-are-folded*: a [`Name`] is lower case unless it was quoted.
//!  - *markers-in-order*: the n-th bind marker of the text is `ExprKind::Marker(n)`.
//!
//! Nothing here is checked against a schema, and nothing here knows a type's values: a literal
//! keeps its text.

mod access;
mod describe;
mod expr;
mod modify;
mod name;
mod property;
mod schema;
mod select;
mod types;

pub use access::*;
pub use describe::*;
pub use expr::*;
pub use modify::*;
pub use name::*;
pub use property::*;
pub use schema::*;
pub use select::*;
pub use types::*;

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `SELECT ..`
    Select(Box<Select>),
    /// `INSERT ..`
    Insert(Box<Insert>),
    /// `UPDATE ..`
    Update(Box<Update>),
    /// `DELETE ..`
    Delete(Box<Delete>),
    /// `BEGIN .. BATCH .. APPLY BATCH`
    Batch(Box<Batch>),
    /// `TRUNCATE [TABLE] t [USING TIMEOUT ..]`
    Truncate(Box<Truncate>),
    /// `PRUNE MATERIALIZED VIEW v ..`
    PruneView(Box<PruneView>),
    /// `USE ks`
    Use(Name),
    /// `CREATE`, `ALTER` and `DROP` of what the schema holds.
    Schema(Box<SchemaStatement>),
    /// Roles, permissions and service levels.
    Access(Box<AccessStatement>),
    /// `DESCRIBE ..`
    Describe(Box<Describe>),
}
