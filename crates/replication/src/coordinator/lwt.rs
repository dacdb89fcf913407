//! Rounds of conditional writes (Paxos) about a partition, led by the shard that owns it.
//!
//! A round begins with the state of the partition's row in `system.paxos`, finishes an unfinished
//! earlier round, and takes a later ballot. What it proposes is accepted, on the disk, before any
//! reader can see it; then it is learned, that is applied. With one replica the promise and the
//! acceptance are one write, and the partition's lock stands for the other coordinators.
//!
//! Invariants
//!  - *accepted-before-seen*: a proposal is on the disk before it is applied, so that what a
//!    client has read is there after a crash, whatever the commitlog's mode.
//!  - *learned-again*: a start applies all accepted proposals again, also those that are marked
//!    as learned: the mark may have reached the disk earlier than the write itself.
//!  - *later-than-promised*, *one-partition*: as in [`crate::paxos`].
//!  - *forgotten-when-durable*: a row is removed only when what it proposes is durable.

use crate::coordinator::{Coordinator, Owner, own_coordinator};
use crate::error::{WriteError, write_failed};
use crate::options::{Consistency, ReadOptions, WriteKind};
use crate::paxos::{self, Ballot, Place, State};
use crate::range;
use cluster::TableEntry;
use model::{TableId, Token};
use mutation::FrozenMutation;
use runtime::sync::Receiver;
use runtime::task::join_all;
use runtime::time::Instant;
use std::time::Duration;

/// A read of all rows at most; a start waits for it.
const SCAN_TIMEOUT: Duration = Duration::from_secs(600);

/// Rounds that are forgotten at the same time.
const FORGOTTEN_AT_ONCE_MAX: usize = 64;

const _: () = assert!(0 < FORGOTTEN_AT_ONCE_MAX, "a round that is due is forgotten");

/// A round that has its ballot and may propose one mutation.
#[derive(Debug)]
pub struct Round {
    place: Place,
    ballot: Ballot,
}

impl Round {
    /// The timestamp of what is proposed, microseconds: later than that of every earlier round.
    pub fn timestamp(&self) -> i64 {
        self.ballot.micros()
    }
}

/// A round whose row can be removed.
#[derive(Debug)]
pub(crate) struct Learned {
    place: Place,
    ballot: Ballot,
    /// When what it wrote is durable.
    due: Instant,
}

impl Owner {
    /// Begins a round about the partition `key`, which this holds, at `now_micros`: the partition
    /// is then as the rounds before have left it.
    pub async fn begin(&self, key: &[u8], now_micros: i64) -> Result<Round, WriteError> {
        let coordinator = own_coordinator().map_err(failed)?;
        let table = paxos::table(&coordinator.cluster.schema());
        let place = Place { table: self.schema().id, key: key.to_vec() };
        let now_secs = now_micros.div_euclid(1_000_000);
        let command = paxos::read_command(&table.schema, Some(&place), now_secs);
        let shard = table.tablets.shard_of(Token::of(&place.key));
        let page = coordinator.read_on(shard, &command).await;
        let page = page.map_err(|error| {
            WriteError::Overloaded(format!("the state of the partition's consensus: {error:?}"))
        })?;
        let state = paxos::states(&command, &page).pop().map_or(State::default(), |(_, s)| s);
        if let Some((ballot, mutation)) = state.unfinished() {
            coordinator.traffic.cas.unfinished_commits.add(1);
            learn(&coordinator, &table, &place, ballot, self, mutation.clone()).await?;
        }
        let ballot = state.next_ballot(now_micros);
        assert!(state.promised < Some(ballot), "later-than-promised: {ballot:?}");
        assert!(state.learned < Some(ballot), "later-than-promised: {ballot:?} was learned");
        Ok(Round { place, ballot })
    }

    /// Has a mutation, made with the round's timestamp, chosen and applied.
    pub async fn propose(&self, round: Round, mutation: FrozenMutation) -> Result<(), WriteError> {
        let coordinator = own_coordinator().map_err(failed)?;
        let table = paxos::table(&coordinator.cluster.schema());
        let Round { place, ballot } = round;
        place.check_proposal(&mutation);
        let table_id = self.schema().id;
        assert!(place.table == table_id, "one-partition: a round of {}", place.table);
        let shard = table.tablets.shard_of(Token::of(&place.key));
        let accepted = place.accept(&table.schema, ballot, &mutation);
        coordinator.apply_durably(shard, accepted).await.map_err(failed)?;
        learn(&coordinator, &table, &place, ballot, self, mutation).await
    }
}

/// Applies what was chosen, remembers that, and has the row removed in its time.
async fn learn(
    coordinator: &Coordinator,
    table: &TableEntry,
    place: &Place,
    ballot: Ballot,
    owner: &Owner,
    mutation: FrozenMutation,
) -> Result<(), WriteError> {
    place.check_proposal(&mutation);
    owner.apply(mutation).await?;
    let shard = table.tablets.shard_of(Token::of(&place.key));
    let learned = place.learn(&table.schema, ballot);
    // Without the mark the next round applies it once more.
    if coordinator.apply(shard, learned).await.is_ok() {
        let due = Instant::now() + coordinator.config.batch_memory;
        let learned = Learned { place: place.clone(), ballot, due };
        if coordinator.learned.try_send(learned).is_err() {
            coordinator.traffic.cas.dropped_prunes.add(1);
            stdx::probe!("a round is remembered until the next start");
        }
    }
    Ok(())
}

/// Removes the rows of rounds that are durable, for as long as the coordinator lives.
pub(crate) async fn forget_durable(mut learned: Receiver<Learned>) {
    let mut next = learned.recv().await;
    while let Some(first) = next.take() {
        runtime::time::sleep_until(first.due).await;
        let now = Instant::now();
        assert!(first.due <= now, "forgotten-when-durable: {first:?} is not yet");
        let began = first.due;
        let mut due = vec![first];
        while due.len() < FORGOTTEN_AT_ONCE_MAX && next.is_none() {
            match learned.try_recv() {
                Some(one) if one.due <= now => due.push(one),
                Some(later) => next = Some(later),
                None => break,
            }
        }
        assert!(due.len() <= FORGOTTEN_AT_ONCE_MAX, "{} rounds at once", due.len());
        let in_order = next.as_ref().is_none_or(|next| began <= next.due);
        assert!(in_order, "forgotten-when-durable: a later round was due before");
        let Some(coordinator) = runtime::local::try_get::<Coordinator>() else { return };
        join_all(due.iter().map(|one| forget(&coordinator, &one.place, one.ballot))).await;
        if next.is_none() {
            next = learned.recv().await;
        }
    }
}

async fn forget(coordinator: &Coordinator, place: &Place, ballot: Ballot) {
    let table = paxos::table(&coordinator.cluster.schema());
    let shard = table.tablets.shard_of(Token::of(&place.key));
    let removal = place.forget(&table.schema, ballot);
    match coordinator.apply(shard, removal).await {
        Ok(()) => coordinator.traffic.cas.pruned.add(1),
        Err(error) => tracing::warn!(target: "paxos", %error, "a round stays remembered"),
    }
}

/// Applies what an earlier run accepted (*learned-again*). Returns how many there were.
pub(crate) async fn finish_all(coordinator: &Coordinator) -> Result<usize, WriteError> {
    let schema = coordinator.cluster.schema();
    let mut finished = 0;
    for (place, state) in remembered(coordinator).await? {
        let Some((ballot, mutation)) = state.accepted else { continue };
        // Checked here: it comes from the disk, and storage trusts what it is given.
        let sound = mutation.view().is_ok_and(|view| view.table() == place.table);
        match schema.table_by_id(place.table) {
            Some(table) if sound => {
                let shard = table.tablets.shard_of(Token::of(&place.key));
                coordinator.apply(shard, mutation).await.map_err(failed)?;
                finished += 1;
            }
            Some(_) => tracing::warn!(target: "paxos", "a damaged proposal"),
            None => {}
        }
        let due = Instant::now() + coordinator.config.batch_memory;
        let _ = coordinator.learned.try_send(Learned { place, ballot, due });
    }
    Ok(finished)
}

/// Forgets the rounds of a table that is truncated: the next start must not apply them again.
pub(crate) async fn forget_table(
    coordinator: &Coordinator,
    table: TableId,
) -> Result<(), WriteError> {
    for (place, state) in remembered(coordinator).await? {
        if let (true, Some((ballot, _))) = (place.table == table, state.accepted) {
            forget(coordinator, &place, ballot).await;
        }
    }
    Ok(())
}

/// All rows, where there are any.
async fn remembered(coordinator: &Coordinator) -> Result<Vec<(Place, State)>, WriteError> {
    let table = paxos::table(&coordinator.cluster.schema());
    let options = ReadOptions::new(Consistency::One, SCAN_TIMEOUT);
    let now_secs = runtime::time::wall_micros().div_euclid(1_000_000);
    let mut command = paxos::read_command(&table.schema, None, now_secs);
    let mut found = Vec::new();
    loop {
        let page = coordinator.read(&table, Token::MIN, &command, &options).await;
        let page = page.map_err(|error| WriteError::Refused(format!("system.paxos: {error}")))?;
        found.append(&mut paxos::states(&command, &page));
        match page.resume {
            Some(resume) => {
                range::check_progress(command.resume.as_ref(), &resume);
                command.resume = Some(resume);
            }
            None => return Ok(found),
        }
    }
}

fn failed(error: storage::WriteError) -> WriteError {
    write_failed(error, Consistency::Serial, WriteKind::Cas, 1)
}
