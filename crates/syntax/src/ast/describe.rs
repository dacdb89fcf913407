//! `DESCRIBE`.

use super::{Name, QualifiedName};

/// `DESCRIBE .. [WITH INTERNALS [AND PASSWORDS]]`
#[derive(Clone, Debug, PartialEq)]
pub struct Describe {
    /// What is described.
    pub what: Described,
    /// `WITH INTERNALS`
    pub internals: bool,
    /// `WITH INTERNALS AND PASSWORDS`
    pub passwords: bool,
}

/// What is described.
#[derive(Clone, Debug, PartialEq)]
pub enum Described {
    /// `CLUSTER`
    Cluster,
    /// `SCHEMA`: without what belongs to the system.
    Schema,
    /// `FULL SCHEMA`
    FullSchema,
    /// `KEYSPACES`
    Keyspaces,
    /// `KEYSPACE [ks]`: it and all in it; `None` is the one in use.
    Keyspace(Option<Name>),
    /// `ONLY KEYSPACE [ks]`: not what is in it.
    OnlyKeyspace(Option<Name>),
    /// `TABLES`
    Tables,
    /// `TABLE t`
    Table(QualifiedName),
    /// `INDEX i`
    Index(QualifiedName),
    /// `MATERIALIZED VIEW v`
    View(QualifiedName),
    /// `TYPES`
    Types,
    /// `TYPE t`
    Type(QualifiedName),
    /// `FUNCTIONS`
    Functions,
    /// `FUNCTION f`
    Function(QualifiedName),
    /// `AGGREGATES`
    Aggregates,
    /// `AGGREGATE a`
    Aggregate(QualifiedName),
    /// `name`: a keyspace, or else a table, view or index.
    Any(QualifiedName),
}
