//! The way of the consensus to other nodes: messages, over the connections of `messaging`.
//!
//! Invariants
//!  - *bounded*: of each node at most [`WAITING_MAX`] messages wait to leave; those over that are
//!    lost, as the consensus bears.
//!  - *one-group*: a message names its group, and is taken by that group alone.

use super::form::CONTACTS_MAX;
use super::verbs::RAFT;
use crate::peers;
use consensus::{Class, NodeId, Transport};
use messaging::{Messaging, Payload, Target, ToShard};
use model::Uuid;
use runtime::group::RAFT as RAFT_GROUP;
use runtime::task::Scope;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Messages to one node that wait to leave.
const WAITING_MAX: usize = 256;
/// How long a message waits for room: it is sent again by who needs it.
const PATIENCE: Duration = Duration::from_millis(1000);

pub(super) use crate::peers::number;

/// Who is who, by number.
#[derive(Debug, Default)]
pub(super) struct Book(RefCell<BTreeMap<NodeId, Known>>);

/// A node, and how many messages to it wait to leave.
type Known = (Uuid, Rc<Cell<usize>>);

impl Book {
    /// A node that there is.
    /// One whose number is none, or is that of another one, or who comes when there are as many as
    /// may be, is not sent anything: such a node is not let in either.
    pub(super) fn note(&self, host_id: Uuid) {
        let mut book = self.0.borrow_mut();
        if host_id.as_u64_pair().1 != 0 && book.len() < CONTACTS_MAX {
            book.entry(number(host_id)).or_insert_with(|| (host_id, Rc::default()));
        }
        debug_assert!(book.len() <= CONTACTS_MAX, "bounded: {} nodes", book.len());
    }

    /// The host id of a number; of one that is not known a UUID of which it is the half.
    pub(super) fn host_id(&self, node: NodeId) -> Uuid {
        let known = self.find(node).map(|(host_id, _)| host_id);
        known.unwrap_or_else(|| Uuid::from_u64_pair(0, node.0))
    }

    fn find(&self, node: NodeId) -> Option<Known> {
        let known = self.0.borrow().get(&node).cloned();
        let is_it = known.as_ref().is_none_or(|(host_id, _)| number(*host_id) == node);
        debug_assert!(is_it, "one-group: another node is {node}");
        known
    }
}

/// The way to the peers.
pub(super) struct ByMessages {
    pub(super) messaging: Rc<Messaging>,
    pub(super) group: Uuid,
    pub(super) book: Rc<Book>,
    /// Whether nothing is said (`recovery`, *promised-is-silent*).
    pub(super) silent: Rc<Cell<bool>>,
    pub(super) sending: Scope,
}

impl Transport for ByMessages {
    fn send(&self, to: NodeId, class: Class, message: Vec<u8>) {
        let Some((host_id, waiting)) = self.book.find(to) else { return };
        if WAITING_MAX <= waiting.get() || self.silent.get() {
            return;
        }
        waiting.set(waiting.get() + 1);
        debug_assert!(waiting.get() <= WAITING_MAX, "bounded: {} wait", waiting.get());
        let (host, shard) = (peers::host(host_id), ToShard::At(0));
        let target = match class {
            Class::Control => Target { host, shard, class: messaging::Class::Control },
            Class::Bulk => Target::bulk(host, shard),
        };
        let payload = Payload::with_body(self.group.as_bytes().to_vec(), message);
        let messaging = self.messaging.clone();
        self.sending.spawn_in(RAFT_GROUP, async move {
            let _ = messaging.send(target, RAFT, payload, PATIENCE).await;
            assert!(0 < waiting.get(), "bounded: a message was not counted");
            waiting.set(waiting.get() - 1);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_that_of_one_node() {
        let book = Book::default();
        let [first, second] = [1, 2].map(|high| Uuid::from_u64_pair(high, 7));
        [first, second, Uuid::from_u64_pair(3, 0)].into_iter().for_each(|id| book.note(id));
        assert_eq!(book.find(NodeId(7)).map(|(host_id, _)| host_id), Some(first));
        assert!(book.find(NodeId(0)).is_none());
    }
}
