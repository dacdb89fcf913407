//! Where data is to be: how many replicas a keyspace has ([`strategy`]), and how a table's ring is
//! divided ([`tablets`]). Pure.

pub mod strategy;
pub mod tablets;

pub use strategy::Replication;
pub use tablets::TABLETS_MAX;
