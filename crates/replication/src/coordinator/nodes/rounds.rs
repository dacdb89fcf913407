//! Rounds of conditional writes (Paxos) about a partition that is on several nodes.
//!
//! A round takes a ballot that as many replicas promise as the serial level requires, finishes what
//! an earlier round has left, reads at the same level, has what it proposes accepted by as many,
//! and tells all replicas that it was chosen. Any node leads; on one node the owner of the
//! partition runs one at a time. A round that is refused because a later one has begun pauses for a
//! random time, and begins again.
//!
//! A node that has just had something chosen, and learned by as many, goes on without asking for
//! promises: it proposes *since* that, and a replica to which another node came meanwhile refuses
//! ([`crate::paxos::State::refuses_proposal`]). So rounds that one node leads, one after the other,
//! are a read, a proposal, and the telling of it. Such a round may be shared ([`super::shared`]).
//!
//! What a transaction has had accepted ([`crate::transactions`]) a later round takes for what it is
//! by the outcome: until there is one, it waits, or says who has the partition.
//!
//! A round that only reads, or whose conditions do not hold, ends with a proposal that changes
//! nothing: from then on no earlier proposal that few replicas have accepted can come back.
//!
//! Invariants
//!  - *chosen-by-a-majority*: a proposal is told to be chosen when as many have accepted it as the
//!    level requires.
//!  - *said-uncertain*: a proposal that some replica may have accepted is not given up for another
//!    one before it is known what became of it ([`promises::fate`]).
//!  - *learned-before-next*: as in [`promises`].
//!  - *held-until-decided*: as in [`crate::transactions`].

use super::gather::{Progress, Reading, Retry};
use super::peers::{Told, call, left, unwritten};
use super::repair::Merged;
use super::shared::{Ended, Proposed, View};
use super::write::{Spread, unavailable};
use super::{Coordinator, Planted, target};
use crate::error::{ReadError, WriteError};
use crate::flock::Flock;
use crate::options::{Consistency, WriteKind, WriteOptions};
use crate::paxos::promises::{self, Fate, Next, Promise};
use crate::paxos::{Ballot, Place, Proposal, TransactionId, is_empty};
use crate::placement::Replica;
use crate::plan::nodes::{Candidate, Tally, plan_write};
use crate::range;
use crate::transactions::{Outcome, Part, Patience};
use crate::wire::{self, Refusal, RefusalKind, verb};
use cluster::TableEntry;
use messaging::Payload;
use model::Token;
use mutation::page::{Page, ReadCommand};
use mutation::{FrozenMutation, MutationBuilder};
use runtime::time::{Instant, sleep, timeout};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use stdx::HashMap;

/// After the first refusal a round waits up to so long, drawn anew; twice as long after each more.
const PAUSE: Duration = Duration::from_millis(4);
const PAUSE_MAX: Duration = Duration::from_millis(64);

const _: () = assert!(PAUSE.as_millis() <= PAUSE_MAX.as_millis(), "pauses grow");

type Promises = Vec<(usize, Promise)>;

/// Partitions of which a shard remembers what it had chosen last.
const CHOSEN_MAX: usize = 4096;

/// A ballot, and the one since which it proposes.
pub(crate) type Ballots = (Ballot, Option<Ballot>);

/// What this shard had chosen last, of some partitions.
#[derive(Default)]
pub(super) struct Chosen {
    last: RefCell<HashMap<Place, LastChosen>>,
}

struct LastChosen {
    ballot: Ballot,
    /// Whose majority has it.
    level: Consistency,
    replicas: Rc<[Replica]>,
}

impl Chosen {
    fn take(&self, place: &Place, level: Consistency, replicas: &Rc<[Replica]>) -> Option<Ballot> {
        let last = self.last.borrow_mut().remove(place)?;
        debug_assert!(!last.ballot.is_alone(), "learned-before-next: {:?}", last.ballot);
        let is_same = Rc::ptr_eq(&last.replicas, replicas) || last.replicas == *replicas;
        (last.level == level && is_same).then_some(last.ballot)
    }

    fn put(&self, place: &Place, last: LastChosen) {
        let mut all = self.last.borrow_mut();
        if CHOSEN_MAX <= all.len() {
            all.clear();
        }
        let is_later = all.get(place).is_none_or(|before| before.ballot < last.ballot);
        debug_assert!(is_later, "learned-before-next: {:?} is remembered late", last.ballot);
        debug_assert!(last.level.is_serial(), "chosen-by-a-majority: at {:?}", last.level);
        all.insert(place.clone(), last);
        debug_assert!(all.len() <= CHOSEN_MAX, "bounded: {} partitions", all.len());
    }
}

/// What the replicas that count have answered.
struct Answers<T> {
    given: Vec<(usize, T)>,
    /// The last ballot for which some have refused.
    later: Option<Ballot>,
    /// The first that failed in another way.
    refusal: Option<Refusal>,
    /// Some may have done it beside those that say so.
    is_uncertain: bool,
    tally: Tally,
}

/// What became of a proposal, as far as its answers tell.
enum Accepted {
    ByMajority,
    ByNobody,
    Unknown,
}

/// What a request is that leads rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    Read,
    Write,
}

/// The rounds of one partition that one request leads.
pub(crate) struct Rounds {
    coordinator: Rc<Coordinator>,
    table: Rc<TableEntry>,
    place: Place,
    /// Those that are read are the first of them.
    replicas: Rc<[Replica]>,
    read: Rc<[Replica]>,
    /// Their level is that of the rounds.
    options: WriteOptions,
    rounding: Rounding,
    /// Later, where others take part that have more time.
    until: Cell<Instant>,
    /// How often this request has waited before another round.
    pauses: Cell<u32>,
}

impl Drop for Rounds {
    fn drop(&mut self) {
        let cas = &self.coordinator.traffic.cas;
        let contended = match self.rounding {
            Rounding::Read => &cas.contended_reads,
            Rounding::Write => &cas.contended_writes,
        };
        let (times, all) = (u64::from(self.pauses.get()), cas.contention.get());
        debug_assert!(times <= all, "learned-before-next: {times} of {all} have begun again");
        contended.add(times);
    }
}

impl Rounds {
    pub(crate) fn new(
        coordinator: Rc<Coordinator>,
        table: Rc<TableEntry>,
        place: Place,
        [read, replicas]: [Rc<[Replica]>; 2],
        (options, rounding): (WriteOptions, Rounding),
        until: Instant,
    ) -> Rounds {
        debug_assert!(table.schema.id == place.table, "owner-only: of another table");
        debug_assert!(!replicas.is_empty(), "chosen-by-a-majority: nobody has the partition");
        let (pauses, until) = (Cell::new(0), Cell::new(until));
        debug_assert!(replicas.starts_with(&read), "both-sides: {read:?} and {replicas:?}");
        Rounds { coordinator, table, place, replicas, read, options, rounding, until, pauses }
    }

    pub(crate) fn options(&self) -> &WriteOptions {
        &self.options
    }

    /// What those have to have in common with it that take part in one of its rounds.
    pub(super) fn view(&self) -> View {
        let (schema, replication) = (self.table.schema.clone(), self.table.replication.clone());
        let (replicas, level) = (self.replicas.clone(), self.options.consistency);
        View { schema, replication, replicas, level }
    }

    /// When there is no time any more.
    pub(super) fn until(&self) -> Instant {
        self.until.get()
    }

    /// Others take part that have time until then.
    pub(super) fn lasts(&self, until: Option<Instant>) {
        let before = self.until.get();
        self.until.set(before.max(until.unwrap_or(before)));
        debug_assert!(before <= self.until.get(), "as-a-whole: it ends before {before:?}");
    }

    pub(super) fn is_planted(&self, mistake: Planted) -> bool {
        self.coordinator.is_planted(mistake)
    }

    /// So many others have taken part in one of its rounds.
    pub(super) fn was_shared(&self, turns: u32) {
        self.coordinator.traffic.cas.shared.add(turns.into());
    }

    /// A ballot that enough have promised, or one since the last that was chosen here; what was
    /// chosen before is what they have. `None`: an undecided transaction has the partition, and
    /// this one waits no longer.
    pub(crate) async fn begin(
        &self,
        now_micros: i64,
        mut patience: Patience,
    ) -> Result<Option<Ballots>, WriteError> {
        let level = self.options.consistency;
        let chosen = &self.coordinator.nodes.chosen;
        if let Some(since) = chosen.take(&self.place, level, &self.replicas) {
            let micros = now_micros.max(since.micros().saturating_add(1));
            debug_assert!(since.micros() < micros, "later-than-promised: {since:?}");
            return Ok(Some((Ballot::drawn(micros, runtime::random_u64()), Some(since))));
        }
        let mut after = now_micros.saturating_sub(1);
        loop {
            let (ballot, promises) = self.promised(&mut after).await?;
            let Some(promises) = self.decided(promises).await? else {
                if !patience.waits() {
                    return Ok(None);
                }
                self.pause().await?;
                continue;
            };
            match promises::next(&promises) {
                Next::Propose => return Ok(Some((ballot, None))),
                Next::Teach { ballot: chosen, mutation, who } => {
                    if self.teach(chosen, mutation, &who).await {
                        return Ok(Some((ballot, None)));
                    }
                }
                Next::Finish(_) if self.coordinator.is_planted(Planted::LeavesUnfinished) => {
                    return Ok(Some((ballot, None)));
                }
                Next::Finish(mutation) => {
                    let cas = &self.coordinator.traffic.cas;
                    match self.rounding {
                        Rounding::Read => cas.unfinished_by_reads.add(1),
                        Rounding::Write => cas.unfinished_commits.add(1),
                    }
                    let again = Proposal::new((ballot, None), mutation.clone());
                    if let Accepted::ByMajority = self.accept(&again).await? {
                        let level = self.options.consistency;
                        self.learn(ballot, mutation, level, self.options.kind).await?;
                        continue;
                    }
                }
            }
            self.pause().await?;
        }
    }

    /// What replicas have accepted of transactions, as what it is by their outcomes. `None`: one of
    /// them has none yet (*held-until-decided*).
    async fn decided(&self, mut promises: Promises) -> Result<Option<Promises>, WriteError> {
        let learned = promises::last_learned(&promises);
        debug_assert!(!promises.is_empty(), "held-until-decided: nobody has promised");
        for (_, promise) in &mut promises {
            let Some(accepted) = &mut promise.accepted else { continue };
            let Some(id) = accepted.of.take() else { continue };
            // What was learned was committed, and what was before it is not looked at.
            if Some(accepted.ballot) <= learned || self.coordinator.is_planted(Planted::TakesHeld) {
                continue;
            }
            match self.coordinator.outcome_of(id, self.until.get()).await? {
                Some(Outcome::Committed) => {}
                Some(Outcome::Aborted) => accepted.mutation = self.nothing(),
                None => return Ok(None),
            }
        }
        Ok(Some(promises))
    }

    /// Has a proposal accepted that is something only if the transaction is committed. `None`: it
    /// may not be what has been chosen, so the transaction must not be committed.
    pub(crate) async fn hold(
        &self,
        (ballot, since): Ballots,
        id: TransactionId,
        mutation: FrozenMutation,
    ) -> Result<Option<Part>, WriteError> {
        self.place.check_proposal(&mutation);
        debug_assert!(since < Some(ballot), "later-than-promised: {ballot:?} since {since:?}");
        let proposal = Proposal { ballot, since, of: Some(id), mutation };
        match self.accept(&proposal).await? {
            Accepted::ByMajority => Ok(Some(Part::new(proposal))),
            Accepted::ByNobody | Accepted::Unknown => Ok(None),
        }
    }

    /// A read at the level of the rounds.
    pub(crate) async fn read(&self, command: &ReadCommand) -> Result<Page, ReadError> {
        let read = async |reading: &Reading<'_>| {
            self.coordinator.read_stretch(reading, self.read.clone(), command).await
        };
        self.read_by(command, read).await
    }

    /// The same, with all that the replicas have of what is read, unless it is too much.
    pub(super) async fn read_whole(&self, command: &ReadCommand) -> Result<Merged, ReadError> {
        // Rows that are named are all read: behind its last row a read with a limit says nothing.
        let is_named = range::names_rows(command, &self.table.schema);
        let limit = |limit: u64| if is_named { u64::MAX } else { limit };
        let (row_limit, per_partition_limit) =
            (limit(command.row_limit), limit(command.per_partition_limit));
        let all = ReadCommand { row_limit, per_partition_limit, ..command.clone() };
        let read = async |reading: &Reading<'_>| {
            self.coordinator.read_whole(reading, self.read.clone(), &all).await
        };
        self.read_by(command, read).await
    }

    async fn read_by<T>(
        &self,
        command: &ReadCommand,
        read: impl AsyncFnOnce(&Reading<'_>) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        debug_assert!(command.table == self.place.table, "owner-only: of another table");
        if !wire::command::fits(command) {
            let text = "the statement has too many ranges or columns for a cluster";
            return Err(ReadError::Refused(text.to_owned()));
        }
        // ANY is a level of writes, and what they depend on has to be read.
        let level = match self.options.consistency {
            Consistency::Any => Consistency::One,
            level => level,
        };
        let progress = Progress::default();
        let retry = Retry::of(&self.table.schema.options.speculative_retry);
        let (table, until, limit) = (&*self.table, self.until.get(), None);
        let reading = Reading { table, level, until, retry, progress: &progress, limit };
        reading.in_time(read(&reading)).await
    }

    /// See [`crate::Owner::propose`].
    pub(super) async fn propose(
        &self,
        ballots: Ballots,
        mutation: FrozenMutation,
        commit: Consistency,
    ) -> Ended {
        let (chosen, learned) = match self.choose(ballots, mutation).await {
            Ok(Some(proposal)) => (Ok(Proposed::Chosen), self.learn_chosen(proposal, commit).await),
            Ok(None) => (Ok(Proposed::Superseded), Ok(())),
            Err(error) => (Err(error), Ok(())),
        };
        Ended { chosen, learned }
    }

    /// Has a mutation chosen. `None`: it was not, and will not be. Says whether nothing else was
    /// promised since.
    async fn choose(
        &self,
        (ballot, since): Ballots,
        mutation: FrozenMutation,
    ) -> Result<Option<(Proposal, bool)>, WriteError> {
        self.place.check_proposal(&mutation);
        debug_assert!(since < Some(ballot), "later-than-promised: {ballot:?} since {since:?}");
        let mut is_last = true;
        let proposal = Proposal::new((ballot, since), mutation);
        let is_chosen = match self.accept(&proposal).await? {
            Accepted::ByMajority => true,
            Accepted::ByNobody => false,
            Accepted::Unknown => {
                is_last = false;
                let settled = self.settle(ballot, &proposal.mutation).await;
                if settled.is_err() {
                    self.coordinator.traffic.cas.uncertain.add(1);
                }
                settled?
            }
        };
        if !is_chosen {
            // Two that begin again at once supersede each other for as long as they have time.
            self.pause().await?;
            return Ok(None);
        }
        Ok(Some((proposal, is_last)))
    }

    /// Has what was chosen learned at the level `commit`.
    async fn learn_chosen(
        &self,
        (proposal, is_last): (Proposal, bool),
        commit: Consistency,
    ) -> Result<(), WriteError> {
        let ballot = proposal.ballot;
        debug_assert!(!ballot.is_alone(), "learned-before-next: {ballot:?} is of one replica");
        self.learn(ballot, proposal.mutation, commit, WriteKind::Simple).await?;
        if is_last && is_majority(self.options.consistency, commit) {
            self.remember(ballot);
        }
        Ok(())
    }

    /// As many as the level of the rounds requires have accepted and learned what was proposed.
    fn remember(&self, ballot: Ballot) {
        let (level, replicas) = (self.options.consistency, self.replicas.clone());
        let last = LastChosen { ballot, level, replicas };
        self.coordinator.nodes.chosen.put(&self.place, last);
    }

    /// See [`crate::Owner::finish`].
    pub(crate) async fn finish(&self, (ballot, since): Ballots) -> Result<Proposed, WriteError> {
        debug_assert!(since < Some(ballot), "later-than-promised: {ballot:?} since {since:?}");
        // What changes nothing may have been chosen, or not: it is the same.
        match self.accept(&Proposal::new((ballot, since), self.nothing())).await? {
            Accepted::ByMajority => {
                // What changes nothing need not be learned.
                self.remember(ballot);
                Ok(Proposed::Chosen)
            }
            Accepted::ByNobody | Accepted::Unknown => {
                self.pause().await?;
                Ok(Proposed::Superseded)
            }
        }
    }

    /// A write without a round.
    pub(crate) async fn apply(&self, mutation: FrozenMutation) -> Result<(), WriteError> {
        let spread = Spread::of(&self.table, self.replicas.clone(), Told::one(mutation));
        let options = WriteOptions { timeout: left(self.until.get()), ..self.options };
        self.coordinator.spread(spread, &options).await
    }

    /// Whether a proposal that some replica may have accepted was chosen. Ends when it is, or never
    /// can be (*said-uncertain*).
    async fn settle(&self, ballot: Ballot, mine: &FrozenMutation) -> Result<bool, WriteError> {
        let mut after = ballot.micros();
        debug_assert!(!is_empty(mine), "said-uncertain: what changes nothing is the same");
        loop {
            self.pause().await?;
            let promised = self.promised(&mut after).await;
            // Nobody may say that nothing was done.
            let (later, promises) = promised.map_err(|_| self.timed_out(0))?;
            let decided = self.decided(promises).await.map_err(|_| self.timed_out(0))?;
            let Some(promises) = decided else { continue };
            let next = promises::next(&promises);
            let fate = promises::fate(&promises, ballot, mine);
            debug_assert!(ballot < later, "said-uncertain: {later:?} is not after {ballot:?}");
            stdx::probe!("a proposal of which nobody knew is looked after");
            let proposal = match (fate, next) {
                (Fate::Unknown, _) => return Err(self.timed_out(0)),
                (Fate::Mine, Next::Finish(mutation)) if mutation == *mine => mutation,
                (Fate::Mine, _) => return Ok(true),
                (Fate::NotChosen, Next::Finish(other)) => other,
                (Fate::NotChosen, Next::Propose) => self.nothing(),
                (Fate::NotChosen, Next::Teach { ballot, mutation, who }) => {
                    if !self.teach(ballot, mutation, &who).await {
                        continue;
                    }
                    self.nothing()
                }
            };
            let proposal = Proposal::new((later, None), proposal);
            let accepted = self.accept(&proposal).await;
            let Accepted::ByMajority = accepted.map_err(|_| self.timed_out(0))? else { continue };
            if fate == Fate::Mine {
                return Ok(true);
            }
            if !proposal.is_empty() {
                let (level, kind) = (self.options.consistency, self.options.kind);
                let learned = self.learn(later, proposal.mutation, level, kind).await;
                learned.map_err(|_| self.timed_out(0))?;
            }
            return Ok(false);
        }
    }

    /// The promises of enough replicas for a ballot later than `after`, microseconds.
    async fn promised(&self, after: &mut i64) -> Result<(Ballot, Promises), WriteError> {
        loop {
            let micros = runtime::time::wall_micros().max(after.saturating_add(1));
            let ballot = Ballot::drawn(micros, runtime::random_u64());
            *after = micros;
            let answers = self.ask(async |replica| self.prepare(replica, ballot).await).await?;
            if answers.tally.is_met() {
                let earlier = |(_, it): &(usize, Promise)| it.learned < Some(ballot);
                let all = answers.given.iter().all(earlier);
                debug_assert!(all, "later-than-promised: {ballot:?} is promised late");
                return Ok((ballot, answers.given));
            }
            // Who has just died is not thought to be alive for long, and who has just come is
            // reached soon; until then nothing was done.
            let failed = self.failed(&answers);
            *after = answers.later.map_or(micros, |later| micros.max(later.micros()));
            let waits = self.pause().await;
            waits.map_err(|_| failed)?;
        }
    }

    async fn prepare(
        &self,
        replica: &Replica,
        ballot: Ballot,
    ) -> Result<Result<Promise, Ballot>, Refusal> {
        let (place, until) = (&self.place, self.until.get());
        if replica.is_here {
            let promise =
                timeout(left(until), self.coordinator.promise_here(place.clone(), ballot));
            return in_time(promise.await);
        }
        let payload = Payload::from(wire::paxos::encode_place(place, ballot));
        let bytes = call(target(replica), verb::PAXOS_PREPARE, payload, left(until)).await?;
        let promise = wire::paxos::decode_promise(&bytes, place, ballot);
        let promise = promise.map_err(|error| super::peers::damaged_answer(replica, error))?;
        if let Ok(Promise { accepted: Some(proposal), .. }) = &promise {
            let view = proposal.mutation.view();
            let checked = view.and_then(|view| view.check_order(&self.table.schema.order));
            checked.map_err(|error| super::peers::damaged_answer(replica, error))?;
        }
        Ok(promise)
    }

    /// Has a proposal accepted, unless a later round has begun.
    async fn accept(&self, proposal: &Proposal) -> Result<Accepted, WriteError> {
        let bytes = Rc::new(proposal.mutation.0.to_vec());
        let ask = async |replica: &Replica| self.accept_on(replica, proposal, bytes.clone()).await;
        let answers = self.ask(ask).await?;
        let given = answers.given.len() as u32;
        debug_assert!(answers.tally.received() <= given, "chosen-by-a-majority: {given} accept");
        let accepted = match answers.tally.is_met() {
            true => Accepted::ByMajority,
            false if answers.given.is_empty() && !answers.is_uncertain => Accepted::ByNobody,
            false => Accepted::Unknown,
        };
        Ok(accepted)
    }

    async fn accept_on(
        &self,
        replica: &Replica,
        proposal: &Proposal,
        bytes: Rc<Vec<u8>>,
    ) -> Result<Result<(), Ballot>, Refusal> {
        let until = self.until.get();
        if replica.is_here {
            let accepted = self.coordinator.accept_here(self.place.clone(), proposal.clone());
            return in_time(timeout(left(until), accepted).await);
        }
        let head = wire::paxos::proposal_head(proposal);
        let payload = Payload::with_shared(head, bytes);
        let answer = call(target(replica), verb::PAXOS_ACCEPT, payload, left(until)).await?;
        let verdict = wire::paxos::decode_verdict(&answer);
        verdict.map_err(|error| super::peers::damaged_answer(replica, error))
    }

    /// Tells all replicas what was chosen, and waits for as many as a level requires.
    async fn learn(
        &self,
        ballot: Ballot,
        mutation: FrozenMutation,
        level: Consistency,
        kind: WriteKind,
    ) -> Result<(), WriteError> {
        debug_assert!(!is_empty(&mutation), "learned-before-next: nothing is to be learned");
        let told = Told::learned(self.place.clone(), ballot, mutation);
        let spread = Spread::of(&self.table, self.replicas.clone(), told);
        // It was chosen, so it happens, whenever those that are away learn it.
        let timeout = left(self.until.get()).max(LEARN_TIMEOUT_MIN);
        let options = WriteOptions { consistency: level, timeout, kind, limit: None };
        match self.coordinator.spread(spread, &options).await {
            Err(WriteError::Unavailable { consistency, required, .. }) => {
                Err(WriteError::Timeout { consistency, received: 0, required, kind })
            }
            learned => learned,
        }
    }

    /// Whether all of these have learned what was chosen last.
    async fn teach(&self, ballot: Ballot, mutation: FrozenMutation, who: &[usize]) -> bool {
        let told = Told::learned(self.place.clone(), ballot, mutation);
        let (mut flock, time) = (Flock::new(), left(self.until.get()));
        debug_assert!(!who.is_empty(), "learned-before-next: nobody is taught");
        for place in who {
            flock.push(self.coordinator.tell(&self.replicas[*place], &told, time));
        }
        let mut all = true;
        while let Some(learned) = flock.next().await {
            all &= learned.is_ok();
        }
        all
    }

    /// Asks those who count and are alive, until enough have agreed or no longer can.
    async fn ask<T>(
        &self,
        ask: impl AsyncFn(&Replica) -> Result<Result<T, Ballot>, Refusal>,
    ) -> Result<Answers<T>, WriteError> {
        let level = self.options.consistency;
        let candidates = self.coordinator.candidates(&self.replicas);
        let copies = &self.table.replication;
        let factors = self.coordinator.factors(copies, &self.replicas, level);
        let tally = plan_write(level, &factors, &candidates);
        let tally = tally.map_err(|missing| unavailable(&self.options, missing))?;
        debug_assert!(level.is_serial(), "chosen-by-a-majority: a round at {level:?}");
        let is_asked = |one: &Candidate| {
            one.is_alive && (one.is_local_dc || level != Consistency::LocalSerial)
        };
        let (given, later, refusal) = (Vec::new(), None, None);
        let mut answers = Answers { given, later, refusal, is_uncertain: false, tally };
        let mut flock = Flock::new();
        let mut asked = 0;
        for (place, replica) in self.replicas.iter().enumerate() {
            if is_asked(&candidates[place]) {
                asked += 1;
                let ask = &ask;
                flock.push(async move { (place, ask(replica).await) });
            }
        }
        debug_assert!(answers.tally.required() <= asked, "chosen-by-a-majority: {asked} asked");
        while !answers.tally.is_met() && !answers.tally.is_lost() {
            let Some((place, answer)) = flock.next().await else { break };
            asked -= 1;
            answers.take(place, &candidates[place], answer);
        }
        answers.is_uncertain |= 0 < asked;
        Ok(answers)
    }

    fn nothing(&self) -> FrozenMutation {
        MutationBuilder::new(&self.table.schema, &self.place.key).freeze()
    }

    /// Waits a while before another round, if there is time for one.
    async fn pause(&self) -> Result<(), WriteError> {
        let pause = self.next_pause();
        if left(self.until.get()) <= pause {
            // It does not begin again.
            self.pauses.set(self.pauses.get() - 1);
            return Err(self.timed_out(0));
        }
        self.coordinator.traffic.cas.contention.add(1);
        sleep(pause).await;
        Ok(())
    }

    /// A random time, which may be longer with each that this request has waited before.
    fn next_pause(&self) -> Duration {
        let before = self.pauses.replace(self.pauses.get().saturating_add(1));
        let most = PAUSE.saturating_mul(1 << before.min(8)).min(PAUSE_MAX);
        let micros = runtime::random_u64() % most.as_micros() as u64;
        debug_assert!(u128::from(micros) < PAUSE_MAX.as_micros(), "a pause of {micros} us");
        Duration::from_micros(micros)
    }

    fn required(&self) -> u32 {
        let level = self.options.consistency;
        let copies = &self.table.replication;
        Tally::required_of(level, &self.coordinator.read_factors(copies, &self.replicas, level))
    }

    /// Nobody knows what became of it.
    pub(super) fn timed_out(&self, received: u32) -> WriteError {
        let WriteOptions { consistency, kind, .. } = self.options;
        WriteError::Timeout { consistency, received, required: self.required(), kind }
    }

    fn failed<T>(&self, answers: &Answers<T>) -> WriteError {
        let tally = &answers.tally;
        let (received, required, failures) = (tally.received(), tally.required(), tally.failures());
        debug_assert!(received < required, "chosen-by-a-majority: {received} have failed");
        let WriteOptions { consistency, kind, .. } = self.options;
        match answers.refusal.as_ref().filter(|_| answers.later.is_none()) {
            Some(refusal) if refusal.kind == RefusalKind::Overloaded => {
                WriteError::Overloaded(refusal.text.clone())
            }
            Some(refusal) if refusal.kind != RefusalKind::TimedOut => {
                let reason = refusal.text.clone();
                WriteError::Failure { consistency, received, required, failures, kind, reason }
            }
            _ => self.timed_out(received),
        }
    }
}

impl Coordinator {
    /// Has all replicas forget a proposal that they have learned; those that are not reached keep
    /// it.
    pub(in crate::coordinator) async fn prune(&self, place: &Place, ballot: Ballot) {
        let schema = self.cluster.schema();
        let Some(table) = schema.table_by_id(place.table) else { return };
        let Some(replicas) = self.writers(table, Token::of(&place.key)) else { return };
        debug_assert!(!ballot.is_alone(), "learned-before-next: of one replica");
        let bytes = wire::paxos::encode_place(place, ballot);
        let mut flock = Flock::new();
        for replica in replicas.iter() {
            let payload = Payload::from(bytes.clone());
            flock.push(async move {
                if replica.is_here {
                    return drop(self.prune_here(place.clone(), ballot).await);
                }
                drop(call(target(replica), verb::PAXOS_PRUNE, payload, PRUNE_TIMEOUT).await);
            });
        }
        while flock.next().await.is_some() {}
    }
}

/// How long a replica may take to forget a proposal.
const PRUNE_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether as many have learned what a write at the level `commit` acknowledges as rounds of a
/// level require.
fn is_majority(level: Consistency, commit: Consistency) -> bool {
    debug_assert!(level.is_serial(), "chosen-by-a-majority: a round at {level:?}");
    match commit {
        Consistency::All | Consistency::EachQuorum => true,
        Consistency::Quorum => level == Consistency::Serial,
        Consistency::LocalQuorum => level == Consistency::LocalSerial,
        _ => false,
    }
}

/// What was chosen is told to the replicas for at least so long.
const LEARN_TIMEOUT_MIN: Duration = Duration::from_millis(500);

impl<T> Answers<T> {
    fn take(
        &mut self,
        place: usize,
        candidate: &Candidate,
        answer: Result<Result<T, Ballot>, Refusal>,
    ) {
        match answer {
            Ok(Ok(given)) => {
                self.tally.acknowledge(candidate);
                self.given.push((place, given));
                return;
            }
            Ok(Err(later)) => self.later = self.later.max(Some(later)),
            Err(refusal) => {
                self.is_uncertain |= refusal.kind != RefusalKind::Unreached;
                self.refusal.get_or_insert(refusal);
            }
        }
        self.tally.fail(candidate);
        debug_assert!(!self.tally.is_met(), "chosen-by-a-majority: {:?}", self.tally);
    }
}

/// What this node has said as a replica, if in time.
fn in_time<T>(
    said: Result<Result<T, storage::WriteError>, runtime::time::Elapsed>,
) -> Result<T, Refusal> {
    match said {
        Ok(said) => said.map_err(|error| unwritten(&error)),
        Err(_) => Err(Refusal::new(RefusalKind::TimedOut, "no answer in time")),
    }
}

/// An error of a round, as that of a read.
pub(super) fn of_read(error: WriteError) -> ReadError {
    let data_present = false;
    match error {
        WriteError::Unavailable { consistency, required, alive } => {
            ReadError::Unavailable { consistency, required, alive }
        }
        WriteError::Timeout { consistency, received, required, .. } => {
            ReadError::Timeout { consistency, received, required, data_present }
        }
        WriteError::Failure { consistency, received, required, failures, reason, .. } => {
            ReadError::Failure { consistency, received, required, failures, data_present, reason }
        }
        WriteError::Overloaded(reason) => ReadError::Overloaded(reason),
        WriteError::Refused(reason) => ReadError::Refused(reason),
        WriteError::Unread(error) => error,
        WriteError::RateLimited(limited) => ReadError::RateLimited(limited),
    }
}
