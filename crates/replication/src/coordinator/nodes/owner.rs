//! Writes that depend on what is there, on the shard that owns the partition, which runs one of
//! them at a time. Where the partition is on several nodes each of them may run one: conditional
//! writes agree by rounds ([`crate::paxos`]), others do not.
//!
//! Invariants
//!  - *owner-only*: a partition is held by the shard that owns it, on each node.
//!  - *judged-as-chosen*: what is proposed depends on what was read in the same round, and is
//!    chosen only if nothing was in between.

use super::refuse_write;
use super::rounds::{Proposed, Rounding, Rounds};
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
use std::rc::Rc;
use storage::{Exceeded, PartitionGuard, Storage};

/// A partition held for a read-modify-write, on the shard that owns it. Held until dropped.
pub struct Owner {
    table: Rc<TableEntry>,
    key: Vec<u8>,
    at: At,
    _guard: PartitionGuard,
    _entered: Entered<Rc<Epochs>>,
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
        let guard = coordinator.storage.lock_partition(table, &key).await;
        if let Some(owner) = coordinator.storage.elsewhere(table, Token::of(&key)) {
            drop(guard);
            let there = move || hold_here((table, key), how, until, change);
            return runtime::on_shard(owner, there).await;
        }
        let owner = Owner::of(&coordinator, (table, key), guard, how, until)?;
        // A task of its own: it must not stop halfway because the caller went.
        let task = coordinator.background.spawn(change(owner));
        task.await.map_err(|_| storage::WriteError::Stopped)
    })
}

impl Owner {
    fn of(
        coordinator: &Rc<Coordinator>,
        (table, key): (TableId, Vec<u8>),
        guard: PartitionGuard,
        (options, rounding): (WriteOptions, Rounding),
        until: Instant,
    ) -> Result<Owner, storage::WriteError> {
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
                let place = Place { table, key: key.clone() };
                let coordinator = coordinator.clone();
                let (entry, how) = (entry.clone(), (options, rounding));
                At::Nodes(Rounds::new(coordinator, entry, place, [read, written], how, until))
            }
        };
        Ok(Owner { table: entry.clone(), key, at, _guard: guard, _entered: entered })
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
                let begun = rounds.begin(now_micros, patience).await?;
                begun.map(|(ballot, since)| Round { ballot, since, follows: false })
            }
        };
        if let Some(Round { ballot, since, .. }) = &begun {
            debug_assert!(*since < Some(*ballot), "later-than-promised: {ballot:?} {since:?}");
        }
        Ok(begun)
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

    /// Reads the partition as it is now.
    pub async fn read(&self, command: &ReadCommand) -> Result<Page, ReadError> {
        debug_assert!(command.table == self.schema().id, "owner-only: a read of another table");
        match &self.at {
            At::Here(storage, _) => {
                let page = storage.read(command).await;
                page.map_err(|error| read_failed(error, Consistency::One, 1))
            }
            At::Nodes(rounds) => rounds.read(command).await,
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
        match &self.at {
            At::Here(..) => {
                lwt::propose(&self.place(), (round.ballot, round.follows), mutation).await?;
                Ok(Proposed::Chosen)
            }
            At::Nodes(rounds) => {
                rounds.propose((round.ballot, round.since), mutation, commit).await
            }
        }
    }

    /// Ends a round that changes nothing: what was read in it was so at one moment.
    pub async fn finish(&self, round: Round) -> Result<Proposed, WriteError> {
        match &self.at {
            At::Here(..) => Ok(Proposed::Chosen),
            At::Nodes(rounds) => rounds.finish((round.ballot, round.since)).await,
        }
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
                rounds.apply(mutation).await
            }
        }
    }

    /// A write with what it adds to the log of its table, as it is held.
    async fn logged(&self, mutation: FrozenMutation) -> Result<FrozenMutation, WriteError> {
        if self.table.log.is_none() {
            return Ok(mutation);
        }
        let stops = |_| WriteError::Overloaded("the node stops".to_owned());
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
