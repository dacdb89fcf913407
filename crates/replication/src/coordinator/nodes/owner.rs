//! Writes that depend on what is there, on the shard that owns the partition, which runs one of
//! them at a time. Where the partition is on several nodes each of them may run one: conditional
//! writes agree by rounds ([`crate::paxos`]), others do not.
//!
//! Those that make rounds wait in line, and take part in each other's rounds where that is possible
//! ([`super::shared`]); all others, and who leads, hold the partition alone.
//!
//! Invariants
//!  - *owner-only*: a partition is held by the shard that owns it, on each node.
//!  - *judged-as-chosen*: what is proposed depends on what was read in the same round, and is
//!    chosen only if nothing was in between.

use super::peers::left;
use super::repair::Merged;
use super::rounds::{Ballots, Rounding, Rounds, of_read};
use super::shared::{Ended, Ending, Given, Joint, Lead, Lined, Proposed, Turn, Whole};
use super::{Planted, refuse_write};
use crate::coordinator::cdc::Logging;
use crate::coordinator::{Coordinator, check_owner, lwt, own_coordinator};
use crate::epochs::{Entered, Epochs};
use crate::error::{ReadError, WriteError, read_failed, write_failed};
use crate::options::{Consistency, WriteKind, WriteOptions};
use crate::paxos::{self, Ballot, Place, TransactionId};
use crate::transactions::{Part, Patience};
use cluster::TableEntry;
use derived::log::Origin;
use model::{TableId, TableSchema, Token};
use mutation::FrozenMutation;
use mutation::page::{Page, ReadCommand};
use reader::LocalFuture;
use runtime::time::{Elapsed, Instant, timeout};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use storage::{Exceeded, PartitionGuard, Storage};

/// A partition held for a read-modify-write, on the shard that owns it. Held until dropped.
pub struct Owner {
    table: Rc<TableEntry>,
    key: Vec<u8>,
    at: At,
    seat: RefCell<Seat>,
    /// The round that it was in has ended without it.
    is_past: Cell<bool>,
    _entered: Entered<Rc<Epochs>>,
}

/// What a request has of a partition.
enum Seat {
    /// It makes no rounds that others may take part in.
    Alone { _guard: PartitionGuard },
    /// It leads, and others may take part in the round that it is in.
    Leads { lead: Lead, joint: Option<Rc<Joint>>, _guard: PartitionGuard },
    /// It takes part in another one's round.
    Takes(Turn),
    /// Nothing: the round in which it took part has ended, or is about to.
    Nothing,
}

/// Where the partition is.
enum At {
    /// What is asked of it is to end then.
    Here(Rc<Storage>, Instant),
    Nodes(Rounds),
}

/// A round that has its ballot and may propose one mutation.
#[derive(Debug)]
pub struct Round {
    ballot: Ballot,
    /// The proposal of this node after which nobody has promised anything, as far as it knows.
    since: Option<Ballot>,
    /// Of one replica: as in [`lwt::Begun`].
    follows: bool,
}

impl Round {
    /// The timestamp of what is proposed, microseconds: later than that of every earlier round.
    pub fn timestamp(&self) -> i64 {
        self.ballot.micros()
    }
}

impl Seat {
    /// Of a request that comes.
    async fn first(coordinator: &Coordinator, place: &Place, level: Consistency) -> Seat {
        let schema = coordinator.cluster.schema();
        let table = schema.table_by_id(place.table);
        // A write of a table with a log comes with rows of the log: those have rounds of their own.
        let is_shared =
            |table: &Rc<TableEntry>| coordinator.is_spread(table) && table.log.is_none();
        if !level.is_serial() || !table.is_some_and(is_shared) {
            let _guard = coordinator.storage.lock_partition(place.table, &place.key).await;
            return Seat::Alone { _guard };
        }
        Seat::in_line(coordinator, place, level).await
    }

    /// Whatever comes first.
    async fn in_line(coordinator: &Coordinator, place: &Place, level: Consistency) -> Seat {
        let lined = coordinator.nodes.lines.line_up(place, level, false);
        Seat::given(coordinator, place, lined).await
    }

    /// Of one that leads next, and gives back what it has.
    async fn leading(self, coordinator: &Coordinator, place: &Place, level: Consistency) -> Seat {
        let lined = coordinator.nodes.lines.line_up(place, level, true);
        // Not before it is the first in line: it is not to wait for everybody else.
        drop(self);
        let seat = Seat::given(coordinator, place, lined).await;
        debug_assert!(matches!(seat, Seat::Leads { .. }), "handed-on: a turn for one that leads");
        seat
    }

    async fn given(coordinator: &Coordinator, place: &Place, lined: Lined) -> Seat {
        let given = match lined {
            Lined::Given(given) => given,
            Lined::Waits(given) => given.await.expect("handed-on: the line is left alone"),
        };
        match given {
            Given::Turn(turn) => Seat::Takes(turn),
            Given::Lead(lead) => {
                let _guard = coordinator.storage.lock_partition(place.table, &place.key).await;
                Seat::Leads { lead, joint: None, _guard }
            }
        }
    }
}

/// How a held partition's work has ended.
pub(in crate::coordinator) type Held<R> = Result<Result<R, storage::WriteError>, Elapsed>;

impl Coordinator {
    /// Runs a read-modify-write of the partition `key` at `token` on the shard that owns it, while
    /// no other one of the same partition runs on this node. The closure finds the services of that
    /// shard in `runtime::local`. Once it began it runs to its end, also when the time is over.
    /// `options`: at a serial level its rounds are of that level.
    pub async fn on_owner<F, Fut, R>(
        &self,
        table: &TableEntry,
        token: Token,
        key: &[u8],
        options: &WriteOptions,
        change: F,
    ) -> Result<R, WriteError>
    where
        F: FnOnce(Owner) -> Fut + Send + 'static,
        Fut: Future<Output = R> + 'static,
        R: Send + 'static,
    {
        if !self.is_spread(table) {
            self.admit_write(table, options)?;
        }
        let begun = self.begin_write(options, 1);
        let held = self.hold(table, token, key, (options, Rounding::Write), change);
        let done = held.await;
        self.end_write(table, options, begun, done)
    }

    /// The same, uncounted.
    pub(in crate::coordinator) async fn hold<F, Fut, R>(
        &self,
        table: &TableEntry,
        token: Token,
        key: &[u8],
        (options, rounding): (&WriteOptions, Rounding),
        change: F,
    ) -> Held<R>
    where
        F: FnOnce(Owner) -> Fut + Send + 'static,
        Fut: Future<Output = R> + 'static,
        R: Send + 'static,
    {
        let (id, key, options) = (table.schema.id, key.to_vec(), *options);
        let until = Instant::now() + options.timeout;
        let shard = table.tablets.shard_of(token);
        debug_assert!(Token::of(&key) == token, "owner-only: {token:?} is of another partition");
        let work = move || hold_here((id, key), (options, rounding), until, change);
        self.count_call(shard);
        timeout(options.timeout, runtime::on_shard(shard, work)).await
    }
}

/// On the shard that owns the partition; where its tablet has gone to another one meanwhile, there
/// (*one-decides* of `storage`).
fn hold_here<F, Fut, R>(
    (table, key): (TableId, Vec<u8>),
    how: (WriteOptions, Rounding),
    until: Instant,
    change: F,
) -> LocalFuture<'static, Result<R, storage::WriteError>>
where
    F: FnOnce(Owner) -> Fut + Send + 'static,
    Fut: Future<Output = R> + 'static,
    R: Send + 'static,
{
    Box::pin(async move {
        let coordinator = own_coordinator()?;
        let (place, level) = (Place { table, key }, how.0.consistency);
        let mut seat = Seat::first(&coordinator, &place, level).await;
        let owner = loop {
            if let Some(owner) = coordinator.storage.elsewhere(table, Token::of(&place.key)) {
                drop(seat);
                let there = move || hold_here((table, place.key), how, until, change);
                return runtime::on_shard(owner, there).await;
            }
            match Owner::of(&coordinator, &place, seat, how, until)? {
                Ok(owner) => break owner,
                Err(turn) => seat = turn.leading(&coordinator, &place, level).await,
            }
        };
        // A task of its own: it must not stop halfway because the caller went.
        let task = coordinator.background.spawn(change(owner));
        task.await.map_err(|_| storage::WriteError::Stopped)
    })
}

impl Owner {
    /// Of a partition of this shard. Gives back a seat that does not fit: the round in which it is
    /// is of other replicas, or another schema, than there are now.
    fn of(
        coordinator: &Rc<Coordinator>,
        place: &Place,
        seat: Seat,
        how: (WriteOptions, Rounding),
        until: Instant,
    ) -> Result<Result<Owner, Seat>, storage::WriteError> {
        let Place { table, key } = place.clone();
        let schema = coordinator.cluster.schema();
        let entry = schema.table_by_id(table).ok_or(storage::WriteError::UnknownTable(table))?;
        check_owner(coordinator, table, &key);
        let entered = Epochs::enter(coordinator.epochs.clone());
        let token = Token::of(&key);
        let both = coordinator.replicas(entry, token).zip(coordinator.writers(entry, token));
        let at = match both {
            None => At::Here(coordinator.storage.clone(), until),
            Some((read, written)) => {
                debug_assert!(read.len() <= written.len(), "both-sides: {read:?} of {written:?}");
                let (coordinator, place) = (coordinator.clone(), place.clone());
                let replicas = [read, written];
                At::Nodes(Rounds::new(coordinator, entry.clone(), place, replicas, how, until))
            }
        };
        match (&seat, &at) {
            (Seat::Takes(turn), At::Nodes(rounds)) if turn.joint.fits(&rounds.view()) => {
                turn.joint.lasts(rounds.until());
            }
            (Seat::Takes(_), _) => {
                stdx::probe!("who was to take part in a round sees other replicas, and leads");
                return Ok(Err(seat));
            }
            _ => {}
        }
        let (table, seat, is_past) = (entry.clone(), RefCell::new(seat), Cell::new(false));
        Ok(Ok(Owner { table, key, at, seat, is_past, _entered: entered }))
    }

    /// The table, as this shard shows it now.
    pub fn schema(&self) -> &Rc<TableSchema> {
        &self.table.schema
    }

    /// The key of the partition.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Whether this node has the only replica.
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self.at, At::Here(..))
    }

    /// Begins a round, at `now_micros`: the partition is then as the rounds before have left it.
    pub async fn begin(&self, now_micros: i64) -> Result<Round, WriteError> {
        let begun = self.begin_with(now_micros, Patience::UNTIL_DECIDED).await?;
        Ok(begun.expect("held-until-decided: it waits for as long as it has time"))
    }

    /// The same, for a transaction. `None`: another one that is not decided has the partition.
    pub async fn begin_to_hold(&self, now_micros: i64) -> Result<Option<Round>, WriteError> {
        self.begin_with(now_micros, Patience::SHORT).await
    }

    async fn begin_with(
        &self,
        now_micros: i64,
        patience: Patience,
    ) -> Result<Option<Round>, WriteError> {
        let begun = match &self.at {
            At::Here(_, until) => {
                let begun = lwt::begin(&self.place(), now_micros, (patience, *until)).await?;
                begun.map(|(ballot, follows)| Round { ballot, since: None, follows })
            }
            At::Nodes(rounds) => {
                self.is_past.set(false);
                let takes_part = patience == Patience::UNTIL_DECIDED;
                let begun = match self.turn(rounds, takes_part).await? {
                    Some(joint) => Some(joint.draw(now_micros, runtime::random_u64())),
                    None => rounds.begin(now_micros, patience).await?,
                };
                if takes_part && let Some(ballots) = begun {
                    self.offer(rounds, ballots);
                }
                begun.map(|(ballot, since)| Round { ballot, since, follows: false })
            }
        };
        if let Some(Round { ballot, since, .. }) = &begun {
            debug_assert!(*since < Some(*ballot), "later-than-promised: {ballot:?} {since:?}");
        }
        Ok(begun)
    }

    /// The round that this request takes part in; `None`: it makes its own.
    async fn turn(
        &self,
        rounds: &Rounds,
        takes_part: bool,
    ) -> Result<Option<Rc<Joint>>, WriteError> {
        let is_over = matches!(*self.seat.borrow(), Seat::Nothing);
        if is_over {
            self.sit(rounds, !takes_part).await?;
        }
        let joint = self.taken();
        let Some(joint) = joint else { return Ok(None) };
        if takes_part && joint.fits(&rounds.view()) {
            joint.lasts(rounds.until());
            return Ok(Some(joint));
        }
        self.sit(rounds, true).await?;
        Ok(None)
    }

    /// The round in which it is this request's turn.
    fn taken(&self) -> Option<Rc<Joint>> {
        match &*self.seat.borrow() {
            Seat::Takes(turn) => Some(turn.joint.clone()),
            _ => None,
        }
    }

    /// Waits in line again, to lead or for whatever comes first.
    async fn sit(&self, rounds: &Rounds, leads: bool) -> Result<(), WriteError> {
        let coordinator = own_coordinator().map_err(stops)?;
        let level = rounds.options().consistency;
        let (seat, place) = (self.seat.replace(Seat::Nothing), self.place());
        debug_assert!(!matches!(seat, Seat::Leads { .. } | Seat::Alone { .. }), "handed-on: twice");
        let next = async {
            match leads {
                true => seat.leading(&coordinator, &place, level).await,
                false => Seat::in_line(&coordinator, &place, level).await,
            }
        };
        let next = timeout(left(rounds.until()), next).await;
        self.seat.replace(next.map_err(|_| rounds.timed_out(0))?);
        Ok(())
    }

    /// Lets others take part in a round that this request leads, if it may be shared.
    fn offer(&self, rounds: &Rounds, (ballot, since): (Ballot, Option<Ballot>)) {
        debug_assert!(since < Some(ballot), "later-than-promised: {ballot:?} since {since:?}");
        let Seat::Leads { joint, .. } = &mut *self.seat.borrow_mut() else { return };
        *joint = since.map(|since| Joint::new(rounds.view(), (ballot, since)));
    }

    /// Has a mutation, made with the round's timestamp, accepted as what a transaction makes of the
    /// partition, if it is committed; it may be one that changes nothing. Until the outcome, no
    /// other round goes on. `None`: it may be that the partition is not held, so the transaction is
    /// to be aborted.
    pub async fn hold(
        &self,
        round: Round,
        id: TransactionId,
        mutation: FrozenMutation,
    ) -> Result<Option<Part>, WriteError> {
        let mutation = match paxos::is_empty(&mutation) {
            true => mutation,
            false => self.logged(mutation).await?,
        };
        match &self.at {
            At::Here(..) => {
                let begun = (round.ballot, round.follows);
                lwt::hold(&self.place(), begun, id, mutation).await.map(Some)
            }
            At::Nodes(rounds) => rounds.hold((round.ballot, round.since), id, mutation).await,
        }
    }

    /// Reads the partition as it is now, with what was added to the round that it takes part in.
    pub async fn read(&self, command: &ReadCommand) -> Result<Page, ReadError> {
        debug_assert!(command.table == self.schema().id, "owner-only: a read of another table");
        let rounds = match &self.at {
            At::Here(storage, _) => {
                let page = storage.read(command).await;
                return page.map_err(|error| read_failed(error, Consistency::One, 1));
            }
            At::Nodes(rounds) => rounds,
        };
        let is_blind = rounds.is_planted(Planted::SharesUnseen);
        let Some(joint) = self.opened().filter(|_| !is_blind) else {
            return rounds.read(command).await;
        };
        if let Some(page) = joint.seen(command) {
            return Ok(page);
        }
        let Merged { page, whole } = rounds.read_whole(command).await?;
        if let Some(whole) = whole {
            joint.keep(command, whole);
            return Ok(joint.seen(command).expect("in-turn: it was just kept"));
        }
        stdx::probe!("somebody reads too much to share a round");
        if self.taken().is_none() {
            joint.close();
            return Ok(page);
        }
        self.step_out(rounds).await.map_err(of_read)?;
        rounds.read(command).await
    }

    /// Gives back its turn, and leads next; what it does in the round that it was in is for
    /// nothing, so it judges anew.
    async fn step_out(&self, rounds: &Rounds) -> Result<(), WriteError> {
        self.sit(rounds, true).await?;
        debug_assert!(self.taken().is_none(), "handed-on: it has a turn");
        self.is_past.set(true);
        Ok(())
    }

    /// The round in which others take part, or may.
    fn opened(&self) -> Option<Rc<Joint>> {
        match &*self.seat.borrow() {
            Seat::Takes(turn) => Some(turn.joint.clone()),
            Seat::Leads { lead, joint: Some(joint), .. } => {
                joint.open(lead.awaited()?);
                Some(joint.clone())
            }
            _ => None,
        }
    }

    /// Has a mutation, made with the round's timestamp, chosen, and applied at the level `commit`.
    pub async fn propose(
        &self,
        round: Round,
        mutation: FrozenMutation,
        commit: Consistency,
    ) -> Result<Proposed, WriteError> {
        debug_assert!(mutation.view().is_ok_and(|it| !it.is_empty()), "judged-as-chosen: nothing");
        let mutation = self.logged(mutation).await?;
        let rounds = match &self.at {
            At::Here(..) => {
                lwt::propose(&self.place(), (round.ballot, round.follows), mutation).await?;
                return Ok(Proposed::Chosen);
            }
            At::Nodes(rounds) => rounds,
        };
        if self.is_past.get() {
            return Ok(Proposed::Superseded);
        }
        let ballots = (round.ballot, round.since);
        let Some(joint) = self.joint_of(ballots) else {
            return rounds.propose(ballots, mutation, commit).await.of_write();
        };
        if !joint.admits(commit) {
            stdx::probe!("what is to be learned at another level has a round of its own");
            self.step_out(rounds).await?;
            return Ok(Proposed::Superseded);
        }
        joint.add(mutation, commit);
        self.end_round(rounds, joint).await?.of_write()
    }

    /// Ends a round that changes nothing: what was read in it was so at one moment.
    pub async fn finish(&self, round: Round) -> Result<Proposed, WriteError> {
        let At::Nodes(rounds) = &self.at else { return Ok(Proposed::Chosen) };
        if self.is_past.get() {
            return Ok(Proposed::Superseded);
        }
        let ballots = (round.ballot, round.since);
        match self.joint_of(ballots) {
            Some(joint) => self.end_round(rounds, joint).await?.of_read(),
            None => rounds.finish(ballots).await,
        }
    }

    /// The round with such a ballot, if others take part in it, or may.
    fn joint_of(&self, (ballot, since): Ballots) -> Option<Rc<Joint>> {
        let joint = match &*self.seat.borrow() {
            Seat::Takes(turn) => Some(turn.joint.clone()),
            Seat::Leads { joint, .. } => joint.clone(),
            _ => None,
        };
        joint.filter(|joint| joint.is_of(ballot, since))
    }

    /// Has a round that others take part in chosen, or waits for that, when this request has added
    /// what it has to add.
    async fn end_round(&self, rounds: &Rounds, joint: Rc<Joint>) -> Result<Ended, WriteError> {
        let outcome = match self.seat.replace(Seat::Nothing) {
            Seat::Leads { lead, _guard, .. } => {
                let ending = Ending(joint.clone());
                lead.let_in(&joint).await;
                let Whole { ballots, added, until } = joint.whole();
                rounds.lasts(until);
                let outcome = match added {
                    Some((mutation, commit)) => rounds.propose(ballots, mutation, commit).await,
                    None => Ended::of_nothing(rounds.finish(ballots).await),
                };
                if 0 < joint.turns() {
                    stdx::probe!("a round is shared");
                    rounds.was_shared(joint.turns());
                }
                ending.told(outcome.clone());
                self.seat.replace(Seat::Leads { lead, joint: None, _guard });
                Some(outcome)
            }
            turn => {
                drop(turn);
                match rounds.is_planted(Planted::AnswersEarly) {
                    true => Some(Ended::of_nothing(Ok(Proposed::Chosen))),
                    false => joint.outcome().await,
                }
            }
        };
        outcome.ok_or_else(|| rounds.timed_out(0))
    }

    /// Refuses a write to what is larger than the table's limits allow; says which lower ones it
    /// meets. Replicas elsewhere are not asked.
    pub fn check_sizes(&self, mutation: &FrozenMutation) -> Result<Exceeded, WriteError> {
        let At::Here(storage, _) = &self.at else { return Ok(Exceeded::default()) };
        let found = storage.check_sizes(mutation);
        found.map_err(|error| write_failed(error, Consistency::One, WriteKind::Simple, 1))
    }

    /// Writes to the partition, without a round.
    pub async fn apply(&self, mutation: FrozenMutation) -> Result<(), WriteError> {
        debug_assert!(
            mutation.view().is_ok_and(|view| view.table() == self.schema().id),
            "owner-only: a write to another table than {}",
            self.schema().name
        );
        let mutation = self.logged(mutation).await?;
        match &self.at {
            At::Here(storage, _) => {
                let applied = storage.apply(mutation).await;
                applied.map_err(|error| write_failed(error, Consistency::One, WriteKind::Simple, 1))
            }
            At::Nodes(rounds) => {
                refuse_write(rounds.options().consistency)?;
                if !matches!(*self.seat.borrow(), Seat::Alone { .. } | Seat::Leads { .. }) {
                    self.sit(rounds, true).await?;
                }
                rounds.apply(mutation).await
            }
        }
    }

    /// A write with what it adds to the log of its table, as it is held.
    async fn logged(&self, mutation: FrozenMutation) -> Result<FrozenMutation, WriteError> {
        if self.table.log.is_none() {
            return Ok(mutation);
        }
        let coordinator = own_coordinator().map_err(stops)?;
        let place = (self.schema().id, Token::of(&self.key));
        match coordinator.begin_logging(place, mutation, Origin::Client)? {
            Logging::Done(logged) => Ok(logged.attached()),
            Logging::Waits(imaged) => {
                let read = async |command: &ReadCommand| self.read(command).await;
                imaged.finish(&coordinator, read).await
            }
        }
    }

    fn place(&self) -> Place {
        Place { table: self.schema().id, key: self.key.clone() }
    }
}

fn stops(_: storage::WriteError) -> WriteError {
    WriteError::Overloaded("the node stops".to_owned())
}
