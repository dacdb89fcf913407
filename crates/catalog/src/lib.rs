//! The catalog: keyspaces and tables, roles and grants, service levels, as one state machine; and
//! the system tables that keep it.
//!
//! Pure: values in, values out. Knows no file, no clock, no random number, no shard. Above it, the
//! registry of `cluster` makes commands durable and shows them.
//!
//! Invariants
//!  - *whole-snapshots*: a snapshot never changes; the next one is another value.
//!  - *same-everywhere*: snapshot and command give the next snapshot, whoever computes it.
//!
//! From the ground up: [`uuids`], [`system_tables`] (their definitions), [`rows`] (system tables as
//! rows by name), [`features`] (what all nodes can do), [`streams`] (of change data capture),
//! [`topology`] (the nodes, and their rows), [`placement`] (replication strategies, the ring,
//! tablets), [`schema`] (snapshot and changes), [`schema_tables`], [`access_tables`] and [`facts`]
//! (what is kept, as rows), [`grants`] (what a change of the schema means for them), [`command`]
//! (all together), `whole` (all of it at once).

pub mod access_tables;
pub mod command;
pub mod facts;
pub mod features;
pub mod grants;
pub mod placement;
pub mod rows;
pub mod schema;
pub mod schema_tables;
pub mod streams;
pub mod system_tables;
pub mod topology;
pub mod uuids;

mod whole;

pub use command::{Catalog, CatalogImage, Command, Moment};
pub use placement::Replication;
pub use rows::DamagedSchema;
pub use schema::{KeyspaceEntry, Schema, SchemaChange, TableEntry, TableKind};
pub use topology::{Member, MemberState, Side, Stage, StorageMode, Topology, TopologyChange};
