//! Requests to one replica that begin in one turn of this shard travel as one message.
//!
//! A message has its place in a window, its memory, its frame, its handler and its answer on the
//! other node, whatever is in it: where many requests are under way, that is most of what a write
//! or a digest costs a replica. So what is to leave waits until the tasks that are ready have had
//! their turn, and not longer.
//!
//! Invariants
//!  - *each-by-itself*: each request is answered, refused or lost by itself, and its caller is told
//!    once, as if it had travelled alone. One that another node cannot answer at once is asked
//!    again alone, so that none waits for another.
//!  - *in-time*: what travels together has times that end within [`SPAN`]; none is told of its end
//!    later than that.
//!  - *bounded*: as many, and as many bytes, travel together as has a small message. What is larger
//!    goes alone.
//!  - *as-all-can*: while a node of the cluster does not know of it, all go alone.
//!  - *not-held*: whatever was given here leaves in the next turn; what is here when the shard
//!    stops was never sent, and what comes later goes alone.

use super::Coordinator;
use crate::coordinator::own_coordinator;
use crate::wire::{Refusal, RefusalKind, together, verb};
use cluster::features;
use messaging::{CallError, Caller, Down, Head, Messaging, NotSent, Payload, Target, Ticket, Verb};
use runtime::group::STATEMENT;
use runtime::sync::Notify;
use runtime::time::Instant;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// *in-time*
const SPAN: Duration = Duration::from_millis(10);
/// *bounded*: requests and bytes of one message, and bytes of one request.
const COUNT_MAX: usize = 64;
const BYTES_MAX: usize = 24 << 10;
const LARGE_BYTES: usize = 2 << 10;

const _: () = assert!(2 * LARGE_BYTES < BYTES_MAX, "bounded: some fit a message");

/// What may travel together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Writes,
    Digests,
}

impl Kind {
    /// As one of them travels alone, and as many do.
    fn verbs(self) -> (Verb, Verb) {
        match self {
            Kind::Writes => (verb::MUTATION, verb::MUTATIONS),
            Kind::Digests => (verb::READ_DIGEST, verb::READ_DIGESTS),
        }
    }
}

/// A request, and who is told by which number how it ends.
pub(super) struct Part {
    pub(super) caller: Rc<dyn Caller>,
    pub(super) number: usize,
    pub(super) head: Head,
    pub(super) body: Rc<Vec<u8>>,
}

impl Part {
    fn bytes(&self) -> usize {
        self.head.len() + self.body.len()
    }

    fn go_alone(
        self,
        messaging: &Rc<Messaging>,
        target: Target,
        verb: Verb,
        until: Instant,
    ) -> Option<Ticket> {
        let Part { caller, number, head, body } = self;
        debug_assert!(!body.is_empty(), "each-by-itself: a request of nothing");
        let message = (verb, Payload::with_shared(head, body));
        messaging.call_for(caller, number, target, message, until)
    }

    fn end(self, error: CallError) {
        self.caller.ended(self.number, Err(error));
    }
}

/// Requests that will leave together.
struct Group {
    kind: Kind,
    target: Target,
    until: Instant,
    bytes: usize,
    parts: Vec<Part>,
}

impl Group {
    /// Whether one more may go with them.
    fn takes(&self, kind: Kind, target: Target, until: Instant, bytes: usize) -> bool {
        debug_assert!(self.parts.len() <= COUNT_MAX, "bounded: {} requests", self.parts.len());
        let apart = self.until.max(until) - self.until.min(until);
        self.kind == kind
            && self.target == target
            && apart < SPAN
            && self.parts.len() < COUNT_MAX
            && self.bytes + bytes <= BYTES_MAX
    }

    fn leave(mut self, messaging: &Rc<Messaging>, is_known: bool) {
        let Group { kind, target, until, .. } = self;
        let (alone, joined) = kind.verbs();
        let parts = std::mem::take(&mut self.parts);
        debug_assert!(!parts.is_empty(), "each-by-itself: a message of nothing");
        if parts.len() == 1 || !is_known {
            for part in parts {
                part.go_alone(messaging, target, alone, until);
            }
            return;
        }
        stdx::probe!("requests to a replica travel together");
        let mut bytes = Vec::with_capacity(self.bytes + parts.len() * together::HEAD_BYTES);
        parts.iter().for_each(|part| together::put(&mut bytes, [&part.head, &part.body]));
        let sent = Sent { kind, target, until, parts: RefCell::new(parts) };
        let message = (joined, Payload::with_body(Head::new(), bytes));
        messaging.call_for(Rc::new(sent), 0, target, message, until);
    }
}

/// *not-held*
impl Drop for Group {
    fn drop(&mut self) {
        for part in self.parts.drain(..) {
            part.end(stopping());
        }
    }
}

fn stopping() -> CallError {
    CallError::NeverSent(NotSent::Down(Down::Stopping))
}

/// Requests that left together.
struct Sent {
    kind: Kind,
    target: Target,
    until: Instant,
    parts: RefCell<Vec<Part>>,
}

impl Caller for Sent {
    fn ended(&self, _: usize, outcome: Result<Vec<u8>, CallError>) {
        let parts = self.parts.take();
        debug_assert!(1 < parts.len(), "each-by-itself: told twice");
        let bytes = match outcome {
            Ok(bytes) => bytes,
            Err(error) => return parts.into_iter().for_each(|part| part.end(error.clone())),
        };
        let all = match together::answers(&bytes, parts.len()) {
            Ok(all) => all,
            Err(damaged) => {
                let text = format!("node {} sent a damaged answer: {damaged}", self.target.host);
                tracing::warn!(target: "replication", "{text}");
                let words = Refusal::new(RefusalKind::Failed, text).encode();
                let error = CallError::Failed(words);
                return parts.into_iter().for_each(|part| part.end(error.clone()));
            }
        };
        for (part, each) in parts.into_iter().zip(all) {
            match each {
                together::Each::Answer(bytes) => part.caller.ended(part.number, Ok(bytes.to_vec())),
                together::Each::Refused(words) => part.end(CallError::Failed(words.to_vec())),
                together::Each::Alone => match Messaging::current() {
                    Some(messaging) => {
                        stdx::probe!("a request that travelled with others is asked alone");
                        let (alone, _) = self.kind.verbs();
                        part.go_alone(&messaging, self.target, alone, self.until);
                    }
                    None => part.end(stopping()),
                },
            }
        }
    }
}

/// What is to leave this shard in the next turn.
#[derive(Default)]
pub(super) struct Together {
    groups: RefCell<Vec<Group>>,
    filled: Notify,
    has_ended: Cell<bool>,
}

impl Together {
    /// Sends a request, with others perhaps. There is a ticket to cancel it only where it goes
    /// alone at once.
    pub(super) fn send(
        &self,
        messaging: &Rc<Messaging>,
        kind: Kind,
        target: Target,
        part: Part,
        until: Instant,
    ) -> Option<Ticket> {
        let bytes = part.bytes();
        debug_assert!(0 < bytes, "each-by-itself: a request of nothing");
        if LARGE_BYTES < bytes || self.has_ended.get() {
            return part.go_alone(messaging, target, kind.verbs().0, until);
        }
        let mut groups = self.groups.borrow_mut();
        if groups.is_empty() {
            self.filled.notify_one();
        }
        // What is full stays: the next one behind it is of the same target.
        let open = groups.iter_mut().rev().find(|it| it.takes(kind, target, until, bytes));
        match open {
            Some(group) => {
                group.until = group.until.max(until);
                group.bytes += bytes;
                group.parts.push(part);
            }
            None => {
                let mut parts = Vec::with_capacity(16);
                parts.push(part);
                groups.push(Group { kind, target, until, bytes, parts });
            }
        }
        None
    }

    /// Sends what has come, for as long as this shard coordinates.
    pub(super) async fn keep_sending(self: Rc<Self>) {
        loop {
            self.filled.notified().await;
            let groups = self.groups.take();
            debug_assert!(!self.has_ended.get(), "not-held: it sends after its end");
            let Some(messaging) = Messaging::current() else { continue };
            let Ok(coordinator) = own_coordinator() else { continue };
            let is_known = coordinator.places().enables(features::REQUESTS_TOGETHER);
            groups.into_iter().for_each(|group| group.leave(&messaging, is_known));
        }
    }

    /// This shard stops: what is here was never sent.
    pub(super) fn end(&self) {
        self.has_ended.set(true);
        drop(self.groups.take());
        debug_assert!(self.groups.borrow().is_empty(), "not-held: something is left");
    }
}

impl Coordinator {
    /// From now on this shard sends what travels together.
    pub(in crate::coordinator) fn send_together(&self) {
        let together = self.nodes.together.clone();
        drop(self.background.spawn_in(STATEMENT, together.keep_sending()));
    }

    /// This shard stops.
    pub(in crate::coordinator) fn end_together(&self) {
        self.nodes.together.end();
    }
}
