//! Where data is to be: how many replicas a keyspace has ([`strategy`]), which nodes have a part of
//! the ring ([`ring`]), and how a table's ring is divided into tablets, which nodes and shards have
//! ([`tablets`]). Pure.

pub mod ring;
pub mod strategy;
pub mod tablets;

pub use ring::{Owners, Ring};
pub use strategy::{Factors, Replication};
pub use tablets::{Division, Here, SCALE, TABLETS_MAX, TabletReplicas};
