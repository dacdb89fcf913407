//! The schema as rows of `system_schema.*` and `system.tablets`, and back.
//!
//! Invariants
//!  - *round-trip*: what [`write`] stores, [`read`] gives back, equal in every part.
//!  - *dropped-forever*: a column id stays in `nereid_columns` after its column is dropped, so the
//!    next id is one more than the greatest there.
//!
//! Types are stored as CQL text, as in Cassandra; user types by name, to be resolved in their
//! keyspace. `columns` and `dropped_columns` are for clients; ids make `nereid_columns` the truth
//! about which column a cell belongs to.

pub(crate) mod partition;
pub(crate) mod read;
pub(crate) mod write;
