//! Cluster membership and metadata on one node: its identity, the catalog (schema, roles and
//! grants, service levels) and how it is changed and shown, the system tables, options, counters.
//!
//! One [`Cluster`] per shard, in `runtime::local`. Moves no user data and knows no statement.
//!
//! Invariants
//!  - *durable-before-visible*: no shard shows a schema that a crash could take back.
//!  - *one-writer*: the catalog changes on shard 0 only, one change after the other.
//!  - *whole-snapshots*: a shard's [`Schema`] is replaced as a whole; a reference to one never
//!    changes.
//!
//! The rooms, from the ground up:
//!
//! * `catalog`, a crate of its own: the pure state machine, and its rows.
//! * Of a shard: [`uuids`], [`settings`] and `auto_snapshots` (options), [`trace_rules`],
//!   [`statements`], [`traffic`] (counters).
//! * The catalog on a shard: [`schema`] (with the shard's counters), [`access`]; [`peers`], the
//!   other nodes.
//! * This node: [`node`] (identity), `node_tables` (what it keeps of itself, as rows), `stored`
//!   (the catalog as these rows have it).
//! * [`placement`]: which nodes, and which shards of these, have a token.
//! * [`event`] and [`virtual_tables`]: what clients are told, and what is computed for them.
//! * [`registry`]: from one snapshot to the next, durable and on every shard.
//! * [`group0`]: what the consensus of all nodes stands on here; its machine is the catalog.
//! * [`membership`]: who belongs to the cluster, and who of them lives.
//! * [`nodes`]: all nodes, as people and drivers are told of them; [`centers`]: where they are.
//! * Above it: [`roles`], [`records`] (what else is written down), [`table_stats`], [`rates`],
//!   `computed_tables`, `stream_tables`.
//! * [`boot`]: start and stop.

pub mod access;
pub mod boot;
pub mod centers;
pub mod event;
pub mod group0;
pub mod membership;
pub mod node;
pub mod nodes;
pub mod peers;
pub mod placement;
pub mod rates;
pub mod records;
pub mod registry;
pub mod roles;
pub mod schema;
pub mod settings;
pub mod statements;
pub mod table_stats;
pub mod trace_rules;
pub mod traffic;
pub mod uuids;
pub mod virtual_tables;

mod at_last;
mod auto_snapshots;
mod computed_tables;
mod node_tables;
mod stored;
mod stream_tables;

pub use access::{Access, AccessConfig, Authenticator, Authorizer, Login};
pub use boot::{BootConfig, BootError, IDENTITY_FILE, boot, stop};
pub use catalog::placement::TabletOrder;
pub use catalog::placement::conversion;
pub use catalog::placement::{Factors, Resize, TABLETS_MAX, TabletReplicas, TabletStep, Take};
pub use catalog::placement::{balance, foreign, resize, sides, sources, takes};
pub use catalog::rows::page::read_all;
pub use catalog::streams::{self, StreamId, Streams, WrongTime};
pub use catalog::{Member, MemberState, Side, Stage, StorageMode, Topology, TopologyChange};
pub use catalog::{Replication, SchemaChange, TableKind, features, schema_tables, system_tables};
pub use centers::DataCenter;
pub use event::{Event, Events, SchemaEvent, SchemaEventKind, SchemaTarget};
pub use node::{NodeConfig, NodeInfo, PARTITIONER};
pub use node_tables::client_routes::ClientRoute;
pub use node_tables::compaction_history::CompactionRecord;
pub use node_tables::repair_history::RepairRecord;
pub use nodes::{Heard, Node, Nodes};
pub use peers::Lives;
pub use placement::{Placement, Replica, Replicas, Stretch};
pub use registry::{ChangeError, Cluster, Resizes, Stored, TabletSteps};
pub use schema::{KeyspaceEntry, Schema, TableEntry};
pub use settings::{Live, Restriction, Settings};
pub use trace_rules::{SlowQueries, TraceRules};
pub use traffic::{TableTraffic, Traffic};
pub use virtual_tables::{VirtualFuture, VirtualRow, VirtualRows, VirtualWriter};
