//! Cluster membership and metadata: this node's identity, the schema of all tables and how it
//! changes, roles and grants, the tablets of each table, the system tables.
//!
//! One [`Cluster`] per shard, in `runtime::local`. Moves no user data and knows no statement.
//!
//! Invariants
//!  - *durable-before-visible*: no shard shows a schema that a crash could take back.
//!  - *one-writer*: the schema changes on shard 0 only, one change after the other.
//!  - *whole-snapshots*: a shard's [`Schema`] is replaced as a whole; a reference to one never
//!    changes.
//!
//! In reading order: [`node`], [`replication`], [`schema`], [`access`], [`event`],
//! [`virtual_tables`], [`settings`], [`trace_rules`], [`traffic`].

pub mod access;
pub mod event;
pub mod node;
pub mod replication;
pub mod schema;
pub mod schema_tables;
pub mod settings;
pub mod statements;
pub mod system_tables;
pub mod tablets;
pub mod trace_rules;
pub mod traffic;
pub mod uuids;
pub mod virtual_tables;

mod access_tables;
mod auto_snapshots;
mod boot;
mod client_routes;
mod compaction_rows;
mod levels;
mod local_rows;
mod registry;
#[cfg(test)]
mod rows_testing;

pub use access::{Access, AccessConfig, Authenticator, Authorizer, Login};
pub use boot::{BootConfig, BootError, IDENTITY_FILE, boot, stop};
pub use client_routes::ClientRoute;
pub use compaction_rows::CompactionRecord;
pub use event::{Event, Events, SchemaEvent, SchemaEventKind, SchemaTarget};
pub use node::{NodeConfig, NodeInfo, PARTITIONER};
pub use registry::{ChangeError, Cluster};
pub use replication::Replication;
pub use schema::{KeyspaceEntry, Schema, SchemaChange, TableEntry, TableKind};
pub use settings::{Live, Restriction, Settings};
pub use trace_rules::{SlowQueries, TraceRules};
pub use traffic::{TableTraffic, Traffic};
pub use virtual_tables::{VirtualFuture, VirtualRow, VirtualRows, VirtualWriter};
