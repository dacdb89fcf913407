//! The vocabulary: CQL types, value codecs and comparators, keys, tokens, schema. Pure: no I/O,
//! no async, no clock.
//!
//! From the ground up: [`types`] (what a column can hold), [`value`] (its bytes: validation, order,
//! text), [`key`] (partition and clustering keys as bytes), [`token`] (murmur3 and the ring),
//! [`sharder`] and [`tablet`] (which shard holds what of a ring), [`schema`] (tables, keyspaces,
//! user types and their options), and `testing` (generators, with the feature of that name).

pub mod key;
pub mod schema;
pub mod sharder;
pub mod tablet;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod token;
pub mod types;
pub mod value;

pub use key::{ClusteringOrder, DecoratedKey};
pub use schema::{Column, ColumnId, ColumnKind, Keyspace, TableId, TableSchema};
pub use sharder::{RingShare, Sharder};
pub use tablet::TabletMap;
pub use token::Token;
pub use types::{Type, UserType};
pub use uuid::Uuid;
