//! Where the replicas of a token are, and who is alive, as coordinators ask. The values are those
//! of `cluster::placement`; who knows the cluster gives them to [`crate::Coordinator::join`].
//!
//! Invariants
//!  - *nearest-first*: this node, nodes of its rack, of its data centre, others.
//!  - *here-or-nodes*: whether a table is here alone does not depend on the token.

use cluster::TableEntry;
use model::{Token, Uuid};
use std::rc::Rc;

/// A node that has a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    pub host_id: Uuid,
    pub is_here: bool,
    pub is_local_dc: bool,
    /// Of its data centre, among all.
    pub dc: u16,
    /// Which of its shards has the token.
    pub shard: u16,
}

/// Where the copies are.
#[derive(Clone, Debug)]
pub enum Replicas {
    /// On this node alone: it is the only one, or the table is local to each node.
    Here,
    /// Nearest first.
    Nodes(Rc<[Replica]>),
}

/// What the cluster knows.
pub trait Places {
    /// The replicas of a token.
    fn replicas(&self, table: &TableEntry, token: Token) -> Replicas;
    /// The same, and up to which token, that one included, they are the same.
    fn stretch(&self, table: &TableEntry, token: Token) -> (Replicas, Token);
    /// Whether a node is thought to be alive; this one always is.
    fn is_alive(&self, host: Uuid) -> bool;
    /// Whether a node is in that data centre.
    fn is_in(&self, host: Uuid, data_center: &str) -> bool;
    /// All nodes that are there but this one.
    fn others(&self) -> Vec<Uuid>;
}
