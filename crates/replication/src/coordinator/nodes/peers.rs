//! A question to one replica, near or far, and its answer.
//!
//! Invariants
//!  - *checked-where-it-enters*: what another node answers is checked against what it was asked
//!    before anything looks at it.

use super::{Coordinator, host, target};
use crate::digest::Digest;
use crate::paxos::{Ballot, Place};
use crate::placement::Replica;
use crate::rate::{Limit, Operation, RateLimited};
use crate::stretch::Stretch;
use crate::wire::limited::{self, Asks};
use crate::wire::{self, Refusal, RefusalKind, answer, verb};
use cluster::TableEntry;
use messaging::{CallError, Head, HostId, Lost, Messaging, NotSent, Payload, Target, Verb};
use mutation::FrozenMutation;
use mutation::page::{Page, Partitions, ReadCommand, RowShape};
use runtime::time::{Instant, timeout};
use std::ops::ControlFlow;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use stdx::Damaged;

/// What a replica is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Data,
    Digest,
    Mutations,
}

/// What it answers.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Page(Page),
    Digest(Digest),
    Stretch(Stretch),
}

/// What came of a question.
pub(super) type Answered = Result<Answer, Refusal>;

/// What this node will answer.
pub(super) type AnswerHere<'a> = Pin<Box<dyn Future<Output = Answered> + 'a>>;

/// A read that is asked of several.
pub(super) struct Asked<'a> {
    pub(super) table: &'a TableEntry,
    pub(super) command: &'a ReadCommand,
    /// Its bytes, for those who are elsewhere.
    pub(super) bytes: Rc<Vec<u8>>,
    pub(super) until: Instant,
    /// What those are told of the table's limits.
    pub(super) limit: Option<Limit>,
}

impl Asked<'_> {
    pub(super) fn new<'a>(
        table: &'a TableEntry,
        command: &'a ReadCommand,
        until: Instant,
    ) -> Asked<'a> {
        debug_assert!(command.table == table.schema.id, "owner-only: of another table");
        let bytes = Rc::new(wire::command::encode(command));
        Asked { table, command, bytes, until, limit: None }
    }

    /// Whether it is of one partition whose table has no limits.
    pub(super) fn is_plain(&self) -> bool {
        self.limit.is_none() && matches!(self.command.partitions, Partitions::Key(_))
    }
}

impl Question {
    /// The same as a request for another node.
    pub(super) fn message(self, asked: &Asked<'_>) -> (Verb, Payload) {
        let verb = match self {
            Question::Data => verb::READ_DATA,
            Question::Digest => verb::READ_DIGEST,
            Question::Mutations => verb::READ_MUTATION_DATA,
        };
        debug_assert!(!asked.bytes.is_empty(), "a request for nothing: {}", verb.name);
        let (verb, head) = match asked.limit {
            None => (verb, Head::new()),
            Some(limit) => (verb::LIMITED, limited::head(self.asks(), limit)),
        };
        (verb, Payload::with_shared(head, asked.bytes.clone()))
    }

    /// What a page answers.
    fn of(self, page: Page) -> Answer {
        debug_assert!(self != Question::Mutations, "data-and-digests: a page for mutations");
        match self {
            Question::Digest => Answer::Digest(Digest::of(&page)),
            _ => Answer::Page(page),
        }
    }

    fn asks(self) -> Asks {
        match self {
            Question::Data => Asks::Data,
            Question::Digest => Asks::Digest,
            Question::Mutations => Asks::Mutations,
        }
    }

    /// What another node has answered.
    pub(super) fn answer(
        self,
        replica: &Replica,
        asked: &Asked<'_>,
        outcome: Result<Vec<u8>, CallError>,
    ) -> Answered {
        let bytes = outcome.map_err(|error| refusal(host(replica.host_id), error))?;
        let Asked { table, command, .. } = asked;
        let answer = match self {
            Question::Data => answer::decode_page(bytes, command).map(Answer::Page),
            Question::Digest => answer::decode_digest(&bytes).map(Answer::Digest),
            Question::Mutations => answer::decode_stretch(&bytes).and_then(|stretch| {
                stretch.check(&table.schema, command)?;
                Ok(Answer::Stretch(stretch))
            }),
        };
        answer.map_err(|damaged| damaged_answer(replica, damaged))
    }
}

impl Coordinator {
    /// Asks this node: what it answers at once, or the future of its answer.
    pub(super) fn ask_here<'a>(
        &'a self,
        question: Question,
        asked: &'a Asked<'a>,
    ) -> Result<Answered, AnswerHere<'a>> {
        let Asked { table, command, .. } = asked;
        debug_assert!(command.shape == RowShape::Whole, "checked-where-it-enters: in pieces");
        if question == Question::Mutations {
            return Err(Box::pin(async {
                self.stretch_here(table, command).await.map(Answer::Stretch).map_err(unread)
            }));
        }
        match self.page_at_once(table, command) {
            ControlFlow::Break(read) => Ok(read.map(|page| question.of(page)).map_err(unread)),
            ControlFlow::Continue(begun) => Err(Box::pin(async move {
                let read = self.page_in_turn(table, command, begun).await;
                read.map(|page| question.of(page)).map_err(unread)
            })),
        }
    }

    /// Has a replica apply mutations.
    pub(super) async fn tell(
        &self,
        replica: &Replica,
        mutations: &Told,
        time: Duration,
    ) -> Result<(), Refusal> {
        if replica.is_here {
            return self.tell_here(mutations, time).await;
        }
        let Some(messaging) = Messaging::current() else { return Err(speechless()) };
        let (verb, payload) = mutations.payload(None);
        acknowledged(replica, messaging.call(target(replica), verb, payload, time).await)
    }

    /// The same of this node.
    pub(super) async fn tell_here(&self, told: &Told, time: Duration) -> Result<(), Refusal> {
        let applied = match told {
            Told::One(bytes) => {
                timeout(time, self.apply_one_here(FrozenMutation(bytes.as_slice().into()))).await
            }
            Told::Many(mutations, _) => {
                timeout(time, Box::pin(self.apply_here(mutations.clone()))).await
            }
            Told::Learned { place, ballot, bytes } => {
                let mutation = FrozenMutation(bytes.as_slice().into());
                let learned = self.learn_here(place.clone(), *ballot, mutation);
                timeout(time, Box::pin(learned)).await
            }
        };
        match applied {
            Ok(applied) => applied.map_err(|error| unwritten(&error)),
            Err(_) => Err(Refusal::new(RefusalKind::TimedOut, "no answer in time")),
        }
    }
}

/// What a replica has answered that was told something.
pub(super) fn acknowledged(
    replica: &Replica,
    outcome: Result<Vec<u8>, CallError>,
) -> Result<(), Refusal> {
    match outcome {
        Ok(bytes) if bytes.is_empty() => Ok(()),
        Ok(_) => Err(damaged_answer(replica, Damaged::new("an acknowledgement with bytes", 0))),
        Err(error) => Err(refusal(host(replica.host_id), error)),
    }
}

/// Why nobody is asked.
pub(super) fn speechless() -> Refusal {
    Refusal::new(RefusalKind::Failed, "this node does not speak to others")
}

/// Mutations on their way to several replicas.
#[derive(Debug)]
pub(super) enum Told {
    One(Rc<Vec<u8>>),
    Many(Vec<FrozenMutation>, Rc<Vec<u8>>),
    /// What a round of conditional writes has chosen.
    Learned {
        place: Place,
        ballot: Ballot,
        bytes: Rc<Vec<u8>>,
    },
}

impl Told {
    pub(super) fn one(mutation: FrozenMutation) -> Told {
        Told::One(wire::shared(mutation))
    }

    pub(super) fn new(mut mutations: Vec<FrozenMutation>) -> Told {
        assert!(!mutations.is_empty(), "acknowledged-at-level: a write of nothing");
        match mutations.len() {
            1 => Told::one(mutations.swap_remove(0)),
            _ => {
                let bytes = Rc::new(wire::encode_mutations(&mutations));
                Told::Many(mutations, bytes)
            }
        }
    }

    pub(super) fn learned(place: Place, ballot: Ballot, mutation: FrozenMutation) -> Told {
        place.check_proposal(&mutation);
        Told::Learned { place, ballot, bytes: wire::shared(mutation) }
    }

    pub(super) fn size_bytes(&self) -> usize {
        match self {
            Told::One(bytes) | Told::Many(_, bytes) | Told::Learned { bytes, .. } => bytes.len(),
        }
    }

    /// The bytes of a request that tells it: of what a round has chosen, the write alone.
    pub(super) fn request(&self) -> Vec<u8> {
        match self {
            Told::One(bytes) | Told::Learned { bytes, .. } => {
                [&wire::single_head(bytes)[..], bytes].concat()
            }
            Told::Many(_, bytes) => bytes.to_vec(),
        }
    }

    /// How many they are.
    pub(super) fn request_bytes(&self) -> usize {
        self.size_bytes() + if matches!(self, Told::Many(..)) { 0 } else { 4 }
    }

    /// As a request: with what a replica is told of limits of the tables, if anything.
    pub(super) fn payload(&self, limit: Option<Limit>) -> (Verb, Payload) {
        let (verb, head, bytes) = self.parts(limit);
        (verb, Payload::with_shared(head, bytes))
    }

    /// The same: verb, head and body.
    pub(super) fn parts(&self, limit: Option<Limit>) -> (Verb, Head, Rc<Vec<u8>>) {
        let (verb, head, bytes) = match self {
            Told::One(bytes) => {
                (verb::MUTATION, Head::from_slice(&wire::single_head(bytes)), bytes)
            }
            Told::Many(_, bytes) => (verb::MUTATION, Head::new(), bytes),
            // No replica judges what was chosen.
            Told::Learned { ballot, bytes, .. } => {
                let head = Head::from_slice(&ballot.to_bytes());
                return (verb::PAXOS_LEARN, head, bytes.clone());
            }
        };
        debug_assert!(!bytes.is_empty(), "acknowledged-at-level: a request for nothing");
        let Some(limit) = limit else { return (verb, head, bytes.clone()) };
        let mut limited = limited::head(Asks::Write, limit);
        limited.extend_from_slice(&head);
        (verb::LIMITED, limited, bytes.clone())
    }
}

/// What replicas said that were asked too often.
pub(super) fn rate_limited(operation: Operation, refusal: Refusal) -> RateLimited {
    debug_assert!(refusal.kind == RefusalKind::RateLimited, "one-draw: {refusal:?}");
    RateLimited { operation, by_coordinator: false, table: refusal.text }
}

/// What is left of the time.
pub(crate) fn left(until: Instant) -> Duration {
    let now = Instant::now();
    if now < until { until - now } else { Duration::ZERO }
}

/// A call; what became of it where it has no answer.
pub(crate) async fn call(
    target: Target,
    verb: Verb,
    payload: Payload,
    time: Duration,
) -> Result<Vec<u8>, Refusal> {
    debug_assert!(!payload.is_empty(), "a request for nothing: {}", verb.name);
    let Some(messaging) = Messaging::current() else { return Err(speechless()) };
    let answered = messaging.call(target, verb, payload, time).await;
    answered.map_err(|error| refusal(target.host, error))
}

/// What became of a call to a node, for whoever asked.
fn refusal(host: HostId, error: CallError) -> Refusal {
    let kind = match &error {
        CallError::Failed(words) => {
            return Refusal::decode(words).unwrap_or_else(|damaged| {
                Refusal::new(RefusalKind::Failed, format!("node {host}: {damaged}"))
            });
        }
        CallError::OutcomeUnknown(Lost::TooLate) | CallError::NeverSent(NotSent::TooLate) => {
            RefusalKind::TimedOut
        }
        CallError::NeverSent(NotSent::Crowded) => RefusalKind::Overloaded,
        error if error.is_nothing_done() => RefusalKind::Unreached,
        _ => RefusalKind::Failed,
    };
    Refusal::new(kind, format!("node {host}: {error}"))
}

pub(super) fn damaged_answer(replica: &Replica, damaged: Damaged) -> Refusal {
    let text = format!("node {} sent a damaged answer: {damaged}", replica.host_id);
    tracing::warn!(target: "replication", "{text}");
    Refusal::new(RefusalKind::Failed, text)
}

/// Why this node could not read, for whoever asked.
pub(super) fn unread(error: reader::ReadError) -> Refusal {
    use reader::ReadError as Cause;
    let kind = match &error {
        Cause::TimedOut => RefusalKind::TimedOut,
        Cause::Overloaded(_) | Cause::Moved => RefusalKind::Overloaded,
        Cause::Io(_) | Cause::Stopped | Cause::Damaged { .. } => RefusalKind::Failed,
    };
    Refusal::new(kind, error.to_string())
}

/// Why this node could not write, for whoever asked.
pub(super) fn unwritten(error: &storage::WriteError) -> Refusal {
    use storage::WriteError as Cause;
    let kind = match error {
        Cause::Overloaded(_) => RefusalKind::Overloaded,
        Cause::TooLarge { .. } | Cause::Damaged(_) => RefusalKind::Refused,
        Cause::UnknownTable(_) => RefusalKind::UnknownTable,
        _ => RefusalKind::Failed,
    };
    Refusal::new(kind, error.to_string())
}

/// The same for both, as handlers give them.
pub(crate) enum Cause {
    Read(reader::ReadError),
    Write(storage::WriteError),
}

/// See [`Cause`].
pub(crate) fn refused(cause: Cause) -> Refusal {
    match cause {
        Cause::Read(error) => unread(error),
        Cause::Write(error) => unwritten(&error),
    }
}
