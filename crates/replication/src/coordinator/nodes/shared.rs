//! Rounds that several requests share.
//!
//! Of the requests about one partition that come to its leader one leads a round, and the others
//! wait in line. A round is three exchanges with the replicas, so clients that contend would wait
//! for three each. Therefore who leads lets those take part, one after the other, that were in line
//! when it read the partition: each sees the partition with all that was added before it in this
//! round, judges by that, and adds to it. What they have added is one proposal, chosen as a whole
//! or not at all, and when that is known all are answered.
//!
//! Invariants
//!  - *in-turn*: one request at a time looks at a shared round and adds to it, and it sees what all
//!    before it have added.
//!  - *later-each*: what is added has a later timestamp than all before it, and the proposal has
//!    the ballot of the last one. Nobody has promised that, so only a round that proposes *since*
//!    another one ([`super::rounds`]) is shared.
//!  - *read-after-they-came*: whoever takes part was in line before the partition was read, so it
//!    sees what its client has written before without a round.
//!  - *as-a-whole*: nobody is answered before it is known what became of the whole proposal.
//!  - *one-view*: all who take part have the same schema, the same replicas and the same level.
//!  - *handed-on*: however a request ends that leads, the first in line leads next; however one
//!    ends whose turn it is, the round goes on.

use crate::error::WriteError;
use crate::options::Consistency;
use crate::paxos::{Ballot, Place};
use crate::placement::Replica;
use crate::reconcile;
use cluster::Replication;
use model::TableSchema;
use mutation::FrozenMutation;
use mutation::page::{Page, ReadCommand};
use runtime::sync::{Notify, OneshotReceiver, OneshotSender, oneshot};
use runtime::time::Instant;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use stdx::HashMap;

/// Requests that take part in one round at most, and the bytes of what they have added from which
/// on nobody else does.
const TURNS_MAX: u32 = 256;
const ADDED_BYTES_MAX: usize = 256 << 10;

/// Different reads of one round whose answers are kept for those that come later in it.
const SEEN_MAX: usize = 8;

const _: () = assert!(0 < SEEN_MAX, "what was read for those in line is kept");

/// The partitions of a shard whose rounds somebody leads, with who waits for each.
#[derive(Default)]
pub(super) struct Lines {
    led: RefCell<HashMap<Place, Rc<Line>>>,
}

/// Who waits for one partition, and the number of the next one who comes.
#[derive(Default)]
struct Line {
    waiting: RefCell<VecDeque<Waiting>>,
    next: Cell<u64>,
}

struct Waiting {
    number: u64,
    level: Consistency,
    /// It leads, or waits: it takes no part in the rounds of others.
    leads: bool,
    sender: OneshotSender<Given>,
}

/// What one in line is given.
pub(super) enum Given {
    Lead(Lead),
    Turn(Turn),
}

/// A place in line, or what was given at once.
pub(super) enum Lined {
    Given(Given),
    Waits(OneshotReceiver<Given>),
}

impl Lines {
    /// Who comes first leads; the others wait, those that `leads` before all others.
    pub(super) fn line_up(
        self: &Rc<Lines>,
        place: &Place,
        level: Consistency,
        leads: bool,
    ) -> Lined {
        debug_assert!(level.is_serial(), "one-view: a round at {level:?}");
        let mut led = self.led.borrow_mut();
        let Some(line) = led.get(place) else {
            let line = Rc::<Line>::default();
            led.insert(place.clone(), line.clone());
            let lead = Lead { lines: self.clone(), line, place: place.clone() };
            return Lined::Given(Given::Lead(lead));
        };
        let number = line.next.get();
        line.next.set(number + 1);
        let (sender, receiver) = oneshot();
        let one = Waiting { number, level, leads, sender };
        match leads {
            true => line.waiting.borrow_mut().push_front(one),
            false => line.waiting.borrow_mut().push_back(one),
        }
        Lined::Waits(receiver)
    }
}

/// Who leads the rounds of a partition, until this is dropped (*handed-on*).
pub(super) struct Lead {
    lines: Rc<Lines>,
    line: Rc<Line>,
    place: Place,
}

impl Lead {
    /// The number of who comes next, if anybody waits.
    pub(super) fn awaited(&self) -> Option<u64> {
        let (waiting, next) = (self.line.waiting.borrow(), self.line.next.get());
        debug_assert!(waiting.iter().all(|one| one.number < next), "handed-on: one from later");
        waiting.iter().any(|one| !one.sender.is_closed()).then_some(next)
    }

    /// Lets those in line that may take part do so, one after the other (*in-turn*).
    pub(super) async fn let_in(&self, joint: &Rc<Joint>) {
        while let Some(sender) = self.next_for(joint) {
            joint.turns.set(joint.turns.get() + 1);
            joint.is_taken.set(true);
            // Who has gone meanwhile gives the turn back at once.
            drop(sender.send(Given::Turn(Turn { joint: joint.clone() })));
            while joint.is_taken.get() {
                joint.given_back.notified().await;
            }
        }
    }

    fn next_for(&self, joint: &Joint) -> Option<OneshotSender<Given>> {
        assert!(!joint.is_taken.get(), "in-turn: two at once");
        if !joint.has_room() {
            return None;
        }
        let mut waiting = self.line.waiting.borrow_mut();
        while waiting.pop_front_if(|first| first.sender.is_closed()).is_some() {}
        let takes_part = |first: &mut Waiting| {
            !first.leads
                && first.level == joint.view.level
                && Some(first.number) < joint.before.get()
        };
        Some(waiting.pop_front_if(takes_part)?.sender)
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        let first = loop {
            let first = self.line.waiting.borrow_mut().pop_front();
            match first {
                Some(first) if first.sender.is_closed() => {}
                first => break first,
            }
        };
        let Some(first) = first else {
            let mut led = self.lines.led.borrow_mut();
            let line = led.remove(&self.place);
            let is_own = line.is_some_and(|line| Rc::ptr_eq(&line, &self.line));
            debug_assert!(is_own, "handed-on: {:?} was led by two", self.place);
            return;
        };
        let (lines, line, place) = (self.lines.clone(), self.line.clone(), self.place.clone());
        // If it goes before it knows, it hands on what it was given.
        drop(first.sender.send(Given::Lead(Lead { lines, line, place })));
    }
}

/// What all who share a round have in common (*one-view*).
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) schema: Rc<TableSchema>,
    pub(super) replication: Rc<Replication>,
    pub(super) replicas: Rc<[Replica]>,
    pub(super) level: Consistency,
}

impl View {
    fn is_same(&self, other: &View) -> bool {
        Rc::ptr_eq(&self.schema, &other.schema)
            && self.replication == other.replication
            && (Rc::ptr_eq(&self.replicas, &other.replicas) || self.replicas == other.replicas)
            && self.level == other.level
    }
}

/// A round that may be shared.
pub(super) struct Joint {
    view: View,
    since: Ballot,
    /// The last one that was drawn (*later-each*).
    last: Cell<Ballot>,
    /// Those in line with a lower number may take part (*read-after-they-came*); none before it was
    /// read.
    before: Cell<Option<u64>>,
    turns: Cell<u32>,
    is_taken: Cell<bool>,
    given_back: Notify,
    added: RefCell<Added>,
    /// `Some(None)`: nobody knows, since who led has gone.
    outcome: RefCell<Option<Option<Ended>>>,
    ended: Notify,
}

#[derive(Default)]
struct Added {
    all: Vec<FrozenMutation>,
    bytes: usize,
    /// The level at which what was added is to be learned.
    commit: Option<Consistency>,
    /// When the last of those who take part has no time any more.
    until: Option<Instant>,
    seen: Vec<Seen>,
}

/// What the replicas have of what a command reads, with the first so many additions.
struct Seen {
    command: ReadCommand,
    partition: Option<FrozenMutation>,
    additions: usize,
}

/// What became of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proposed {
    /// It was chosen and applied.
    Chosen,
    /// It never will be: another round came before it. Whoever proposed it reads again, in a round
    /// of its own, and judges anew.
    Superseded,
}

/// What became of a round.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) chosen: Result<Proposed, WriteError>,
    /// Whether what was chosen was learned at its level.
    pub(super) learned: Result<(), WriteError>,
}

impl Ended {
    /// Of a round that has changed nothing.
    pub(super) fn of_nothing(chosen: Result<Proposed, WriteError>) -> Ended {
        Ended { chosen, learned: Ok(()) }
    }

    /// For who has added something.
    pub(super) fn of_write(self) -> Result<Proposed, WriteError> {
        match self.chosen? {
            Proposed::Chosen => self.learned.map(|()| Proposed::Chosen),
            Proposed::Superseded => Ok(Proposed::Superseded),
        }
    }

    /// For who has not.
    pub(super) fn of_read(self) -> Result<Proposed, WriteError> {
        self.chosen
    }
}

/// What is proposed in a shared round.
pub(super) struct Whole {
    pub(super) ballots: (Ballot, Option<Ballot>),
    /// `None`: nothing was added.
    pub(super) added: Option<(FrozenMutation, Consistency)>,
    /// Who takes part has time until then.
    pub(super) until: Option<Instant>,
}

impl Joint {
    pub(super) fn new(view: View, (ballot, since): (Ballot, Ballot)) -> Rc<Joint> {
        assert!(since < ballot, "later-each: {ballot:?} since {since:?}");
        Rc::new(Joint {
            view,
            since,
            last: Cell::new(ballot),
            before: Cell::new(None),
            turns: Cell::new(0),
            is_taken: Cell::new(false),
            given_back: Notify::new(),
            added: RefCell::default(),
            outcome: RefCell::new(None),
            ended: Notify::new(),
        })
    }

    /// Whether it is the round that has such a ballot, and since which.
    pub(super) fn is_of(&self, ballot: Ballot, since: Option<Ballot>) -> bool {
        self.last.get() == ballot && Some(self.since) == since
    }

    /// Whether one who sees that may take part.
    pub(super) fn fits(&self, view: &View) -> bool {
        debug_assert!(view.level.is_serial(), "one-view: a round at {:?}", view.level);
        self.view.is_same(view)
    }

    /// The partition is about to be read: those in line may take part. Later ones may not, though
    /// it is read again.
    pub(super) fn open(&self, next: u64) {
        debug_assert!(self.turns.get() == 0, "read-after-they-came: read by who leads");
        self.before.set(self.before.get().or(Some(next)));
    }

    /// Nobody is to take part: what was read is too much.
    pub(super) fn close(&self) {
        debug_assert!(self.turns.get() == 0, "read-after-they-came: closed with others in it");
        self.before.set(Some(0));
    }

    fn has_room(&self) -> bool {
        self.turns.get() < TURNS_MAX && self.added.borrow().bytes < ADDED_BYTES_MAX
    }

    /// The ballots of who has the turn.
    pub(super) fn draw(&self, now_micros: i64, random: u64) -> (Ballot, Option<Ballot>) {
        assert!(self.is_taken.get(), "in-turn: a ballot for nobody");
        let before = self.last.get().micros();
        let ballot = Ballot::drawn(now_micros.max(before.saturating_add(1)), random);
        assert!(before < ballot.micros(), "later-each: {ballot:?}");
        self.last.set(ballot);
        (ballot, Some(self.since))
    }

    /// What a command reads, with all that was added so far, if that was read in this round.
    pub(super) fn seen(&self, command: &ReadCommand) -> Option<Page> {
        let schema = &self.view.schema;
        let wanted = at_any_time(command);
        let mut added = self.added.borrow_mut();
        let Added { all, seen, .. } = &mut *added;
        let found = seen.iter_mut().find(|one| one.command == wanted)?;
        found.follow(schema, all);
        debug_assert!(found.additions == all.len(), "in-turn: something was not seen");
        let partition = found.partition.as_slice();
        let (page, is_cut) = reconcile::page(schema, command, partition, None);
        debug_assert!(!is_cut, "in-turn: a part of what was added is seen");
        Some(page)
    }

    /// Keeps what was read of the replicas in this round: all of what the command reads.
    pub(super) fn keep(&self, command: &ReadCommand, mut mutations: Vec<FrozenMutation>) {
        debug_assert!(mutations.len() <= 1, "in-turn: one partition has {}", mutations.len());
        debug_assert!(self.before.get().is_some(), "read-after-they-came: read for nobody");
        debug_assert!(command.table == self.view.schema.id, "one-view: of another table");
        let (command, partition) = (at_any_time(command), mutations.pop());
        let mut added = self.added.borrow_mut();
        if SEEN_MAX <= added.seen.len() {
            added.seen.remove(0);
        }
        added.seen.push(Seen { command, partition, additions: 0 });
    }

    /// Whether something that is to be learned at such a level can be added.
    pub(super) fn admits(&self, commit: Consistency) -> bool {
        self.added.borrow().commit.is_none_or(|own| own == commit)
    }

    pub(super) fn add(&self, mutation: FrozenMutation, commit: Consistency) {
        assert!(self.outcome.borrow().is_none(), "as-a-whole: it has ended");
        let mut added = self.added.borrow_mut();
        debug_assert!(added.commit.is_none_or(|own| own == commit), "as-a-whole: at {commit:?}");
        added.bytes += mutation.0.len();
        added.commit = Some(commit);
        added.all.push(mutation);
    }

    /// Someone takes part who has time until then.
    pub(super) fn lasts(&self, until: Instant) {
        let mut added = self.added.borrow_mut();
        added.until = added.until.max(Some(until));
    }

    /// How many take part beside who leads.
    pub(super) fn turns(&self) -> u32 {
        self.turns.get()
    }

    /// What is proposed, of all together.
    pub(super) fn whole(&self) -> Whole {
        assert!(!self.is_taken.get(), "in-turn: somebody is about to add something");
        let schema = &self.view.schema;
        let added = self.added.borrow();
        let parts: Vec<_> = added.all.iter().cloned().map(Some).collect();
        let mutation = reconcile::unite(schema, &parts);
        let ballots = (self.last.get(), Some(self.since));
        Whole { ballots, added: mutation.zip(added.commit), until: added.until }
    }

    /// Tells all what became of it.
    fn end(&self, outcome: Option<Ended>) {
        let before = self.outcome.replace(Some(outcome));
        debug_assert!(before.is_none(), "as-a-whole: it has ended twice");
        self.ended.notify_all();
    }

    /// What became of it, when that is known; `None`: nobody knows.
    pub(super) async fn outcome(&self) -> Option<Ended> {
        loop {
            let ended = self.ended.notified();
            if let Some(outcome) = &*self.outcome.borrow() {
                return outcome.clone();
            }
            ended.await;
        }
    }
}

impl Seen {
    /// Adds what it does not have yet.
    fn follow(&mut self, schema: &TableSchema, all: &[FrozenMutation]) {
        debug_assert!(self.additions <= all.len(), "in-turn: {} were seen", self.additions);
        for addition in &all[self.additions..] {
            self.partition = Some(match self.partition.take() {
                None => addition.clone(),
                Some(before) => reconcile::merge_two(schema, &before, addition),
            });
        }
        self.additions = all.len();
    }
}

/// A command of any second: what there is of rows is the same.
fn at_any_time(command: &ReadCommand) -> ReadCommand {
    ReadCommand { now: 0, ..command.clone() }
}

/// The turn of a request in a shared round, until this is dropped (*handed-on*).
pub(super) struct Turn {
    pub(super) joint: Rc<Joint>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let before = self.joint.is_taken.replace(false);
        debug_assert!(before, "in-turn: a turn that nobody has ends");
        self.joint.given_back.notify_all();
    }
}

/// A round that is being proposed: whoever leads it, those who take part are told how it ends.
pub(super) struct Ending(pub(super) Rc<Joint>);

impl Ending {
    pub(super) fn told(self, outcome: Ended) {
        self.0.end(Some(outcome));
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if self.0.outcome.borrow().is_none() {
            self.0.end(None);
        }
    }
}

#[cfg(test)]
mod tests;
