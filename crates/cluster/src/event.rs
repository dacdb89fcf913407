//! Schema and topology events, for clients that have registered for them.
//!
//! Invariants
//!  - *named*: an event says the keyspace; and the name of what is in it, of nothing else.
//!  - *in-order*: a subscriber has all events since it subscribed, in their order, or none any
//!    more.

use catalog::SchemaChange;
use runtime::sync::{Receiver, Sender, channel};
use std::cell::RefCell;
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

/// A schema change, as in SCHEMA_CHANGE.
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

impl SchemaEvent {
    /// The event of a change.
    pub fn of(change: &SchemaChange) -> SchemaEvent {
        use SchemaEventKind::{Created, Dropped, Updated};
        use SchemaTarget::{Aggregate, Function, Keyspace, Table, Type};
        let mut arguments = Vec::new();
        let (kind, target, keyspace, name) = match change {
            SchemaChange::CreateKeyspace(it) => (Created, Keyspace, &it.name, ""),
            SchemaChange::AlterKeyspace(it) => (Updated, Keyspace, &it.name, ""),
            SchemaChange::DropKeyspace(name) => (Dropped, Keyspace, name, ""),
            SchemaChange::CreateTable(it) => (Created, Table, &it.keyspace, it.name.as_str()),
            SchemaChange::AlterTable(it) => (Updated, Table, &it.keyspace, it.name.as_str()),
            SchemaChange::DropTable { keyspace, name } => (Dropped, Table, keyspace, name.as_str()),
            SchemaChange::CreateType(it) => (Created, Type, &it.keyspace, it.name.as_str()),
            SchemaChange::AlterType(it) => (Updated, Type, &it.keyspace, it.name.as_str()),
            SchemaChange::DropType { keyspace, name } => (Dropped, Type, keyspace, name.as_str()),
            SchemaChange::CreateFunction(it) => {
                arguments.extend(it.argument_types().map(model::Type::to_cql));
                (Created, Function, &it.keyspace, it.name.as_str())
            }
            SchemaChange::DropFunction { keyspace, name, arguments: types } => {
                arguments.extend(types.iter().map(model::Type::to_cql));
                (Dropped, Function, keyspace, name.as_str())
            }
            SchemaChange::CreateAggregate(it) => {
                arguments.extend(it.arguments.iter().map(model::Type::to_cql));
                (Created, Aggregate, &it.keyspace, it.name.as_str())
            }
            SchemaChange::DropAggregate { keyspace, name, arguments: types } => {
                arguments.extend(types.iter().map(model::Type::to_cql));
                (Dropped, Aggregate, keyspace, name.as_str())
            }
        };
        let (keyspace, name) = (keyspace.clone(), name.to_owned());
        let is_named = (target == Keyspace) == name.is_empty();
        debug_assert!(is_named, "named: an event of {target:?} {name:?}");
        let has_arguments = matches!(target, Function | Aggregate) || arguments.is_empty();
        debug_assert!(has_arguments, "named: {target:?} {name} with arguments");
        debug_assert!(!keyspace.is_empty(), "named: an event of no keyspace");
        SchemaEvent { kind, target, keyspace, name, arguments }
    }
}

/// The events of one subscriber, in order. One that lets [`Events::BACKLOG_MAX`] events pile up is
/// disconnected, so that it can start again.
#[derive(Debug)]
pub struct Events {
    receiver: Receiver<Event>,
}

impl Events {
    /// Events that wait for a slow subscriber at most.
    pub const BACKLOG_MAX: usize = 1024;

    /// The next event; `None` when this subscriber was cut off or the node stops.
    pub async fn next(&mut self) -> Option<Event> {
        self.receiver.recv().await
    }
}

/// The subscribers of one shard.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    senders: RefCell<Vec<Sender<Event>>>,
}

impl Subscribers {
    pub(crate) fn subscribe(&self) -> Events {
        let (sender, receiver) = channel(Events::BACKLOG_MAX);
        self.senders.borrow_mut().push(sender);
        Events { receiver }
    }

    /// Notifies all; drops subscribers that have ended or are too slow.
    pub(crate) fn publish(&self, event: &Event) {
        self.senders.borrow_mut().retain(|sender| sender.try_send(event.clone()).is_ok());
    }
}
