//! Who waits for what of a simulated machine: names of shards and operations.

use crate::driver::op::OpId;

/// A shard of one life of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShardKey {
    pub(crate) node: usize,
    pub(crate) life: u32,
    pub(crate) shard: u16,
}

/// An operation to be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) shard: ShardKey,
    pub(crate) op: OpId,
}
