//! What happens to schema and nodes, as clients are told that have asked for it.

use std::net::IpAddr;

/// Something that a connection may have registered for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Schema(SchemaEvent),
    /// A node went up or down.
    Status {
        up: bool,
        address: IpAddr,
        port: u16,
    },
    /// A node joined or left.
    Topology {
        joined: bool,
        address: IpAddr,
        port: u16,
    },
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaEventKind {
    Created,
    Updated,
    Dropped,
}

/// What it was done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaTarget {
    Keyspace,
    Table,
    Type,
    Function,
    Aggregate,
}

/// A change of the schema, as SCHEMA_CHANGE tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaEvent {
    pub kind: SchemaEventKind,
    pub target: SchemaTarget,
    pub keyspace: String,
    /// Empty for a keyspace.
    pub name: String,
    /// Types of arguments, of functions and aggregates.
    pub arguments: Vec<String>,
}

/// The events of one subscriber, in order. One that lets [`Events::BACKLOG_MAX`] events pile up is
/// cut off, so that it can start anew.
#[derive(Debug)]
pub struct Events {
    _private: (),
}

impl Events {
    /// Events that wait for a slow subscriber at most.
    pub const BACKLOG_MAX: usize = 1024;

    /// The next event; `None` when this subscriber was cut off or the node stops.
    pub async fn next(&mut self) -> Option<Event> {
        todo!()
    }
}
