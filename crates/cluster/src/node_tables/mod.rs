//! The system tables that a node keeps of itself and its operators: their rows (pure), and how they
//! are read from the storage of a shard.

pub(crate) mod client_routes;
pub(crate) mod compaction_history;
pub(crate) mod local;
mod read;
pub(crate) mod repair_history;

pub(crate) use read::{ReadFailed, read_partition, read_table};
