//! Rounds of conditional writes (Paxos) about a partition that has one replica, led by the shard
//! that owns it. Those about partitions on several nodes are `nodes::rounds`.
//!
//! A round begins with the state of the partition's row in `system.paxos`, finishes an unfinished
//! earlier round, and takes a later ballot. What it proposes is accepted, on the disk, before any
//! reader can see it; then it is learned, that is applied. With one replica the promise and the
//! acceptance are one write, and the partition's lock stands for the other coordinators.
//!
//! What a transaction proposes is not written: it is held in memory ([`super::claims`]), and when
//! it is committed, its outcome is the proposal that is on the disk.
//!
//! Invariants
//!  - *accepted-before-seen*: a proposal is on the disk before it is applied, so that what a
//!    client has read is there after a crash, whatever the commitlog's mode.
//!  - *learned-again*: a start applies all accepted proposals again, also those that are marked
//!    as learned: the mark may have reached the disk earlier than the write itself.
//!  - *later-than-promised*, *one-partition*: as in [`crate::paxos`].
//!  - *kept-until-durable*: a proposal takes the place of the one before when what that wrote is
//!    on the disk: where the row of the round is in the log of another shard, of what is held, and
//!    of outcomes. Other proposals, of one log, rely on its order, which a crash may break for what
//!    was written and not synced.
//!  - *forgotten-when-durable*: a row is removed only when what it proposes is durable.
//!  - *held-until-decided*, *later-than-held*: as in [`crate::transactions`] and [`super::claims`].
//!    A start applies what a transaction has proposed, and the disk has, only where just that was
//!    learned: that a later round was says nothing. The row of one that was aborted may have come
//!    through a crash, and the later one be of a transaction that the start before has applied.

use crate::coordinator::due::{Due, take_due};
use crate::coordinator::{Coordinator, own_coordinator};
use crate::error::{WriteError, write_failed};
use crate::options::{Consistency, ReadOptions, WriteKind};
use crate::paxos::{self, Ballot, Kept, Place, Proposal, State, TransactionId};
use crate::range;
use crate::transactions::{self, Outcome, Part, Patience};
use cluster::TableEntry;
use model::{TableId, Token};
use mutation::FrozenMutation;
use runtime::sync::Receiver;
use runtime::task::join_all;
use runtime::time::{Instant, sleep};
use std::time::Duration;

/// A read of all rows at most; a start waits for it.
const SCAN_TIMEOUT: Duration = Duration::from_secs(600);

/// After so long a round looks again whether a transaction is decided, and then after twice as long
/// each time, because each look is a read of the quorum.
const HELD_PAUSE: Duration = Duration::from_millis(5);
/// The longest of these pauses.
const HELD_PAUSE_MAX: Duration = Duration::from_millis(80);

const _: () = assert!(!HELD_PAUSE.is_zero(), "looks are apart");
const _: () = assert!(HELD_PAUSE.as_nanos() < HELD_PAUSE_MAX.as_nanos(), "a pause can grow");

/// Rounds that are forgotten at the same time.
const FORGOTTEN_AT_ONCE_MAX: usize = 64;

const _: () = assert!(0 < FORGOTTEN_AT_ONCE_MAX, "a round that is due is forgotten");

/// A round whose row can be removed.
#[derive(Debug)]
pub(crate) struct Learned {
    place: Place,
    ballot: Ballot,
    /// When what it wrote is durable.
    due: Instant,
}

/// The ballot of a round, and whether the row of the partition has a proposal whose write may not
/// be on the disk (*kept-until-durable*).
pub(crate) type Begun = (Ballot, bool);

/// Begins a round about a partition that this shard holds, at `now_micros`. The partition is then
/// as the rounds before have left it. `None`: an undecided transaction has it, and this one waits
/// no longer.
pub(crate) async fn begin(
    place: &Place,
    now_micros: i64,
    (mut patience, until): (Patience, Instant),
) -> Result<Option<Begun>, WriteError> {
    let coordinator = own_coordinator().map_err(failed)?;
    let table = paxos::table(&coordinator.cluster.schema());
    let shard = table.tablets.shard_of(Token::of(&place.key));
    let mut pause = HELD_PAUSE;
    let (state, latest) = loop {
        let (state, latest) = state_on(&coordinator, shard, place).await?;
        let Some(proposal) = state.unfinished() else { break (state, latest) };
        let outcome = match proposal.of {
            Some(id) => coordinator.outcome_of(id, until).await?,
            None => {
                // It may have been accepted in vain: the disk may have failed.
                accept(&coordinator, &table, place, (proposal, false)).await?;
                Some(Outcome::Committed)
            }
        };
        let ballot = proposal.ballot;
        match outcome {
            Some(Outcome::Committed) => {
                coordinator.traffic.cas.unfinished_commits.add(1);
                learn(&coordinator, &table, place, ballot, proposal.mutation.clone()).await?;
                break (state, latest);
            }
            Some(Outcome::Aborted) => {
                let ended = coordinator.end_claim(shard, place, ballot).await.map_err(failed)?;
                if !ended {
                    // If that does not reach the disk, it is found and aborted once more.
                    let removal = place.forget(&table.schema, ballot);
                    coordinator.apply(shard, removal).await.map_err(failed)?;
                }
                break (state, latest);
            }
            None if !patience.waits() => return Ok(None),
            None if until <= Instant::now() + HELD_PAUSE => {
                let (received, required) = (0, 1);
                let (consistency, kind) = (Consistency::Serial, WriteKind::Cas);
                return Err(WriteError::Timeout { consistency, received, required, kind });
            }
            None => {
                // The last look has its time, too.
                sleep(pause.min(until - HELD_PAUSE - Instant::now())).await;
                pause = (2 * pause).min(HELD_PAUSE_MAX);
            }
        }
    };
    let ballot = state.next_ballot(now_micros.max(latest.saturating_add(1)));
    assert!(latest < ballot.micros(), "later-than-held: {ballot:?}");
    assert!(state.promised < Some(ballot), "later-than-promised: {ballot:?}");
    assert!(state.learned < Some(ballot), "later-than-promised: {ballot:?} was learned");
    Ok(Some((ballot, state.accepted.is_some())))
}

/// What there is of a partition's rounds on the shard that has their row, and the latest time by
/// which that shard has held something.
async fn state_on(
    coordinator: &Coordinator,
    shard: u16,
    place: &Place,
) -> Result<(State, i64), WriteError> {
    let unread = |error: storage::WriteError| {
        WriteError::Overloaded(format!("the state of the partition's consensus: {error}"))
    };
    if shard == coordinator.shard {
        let state = coordinator.state(place).await.map_err(unread)?;
        return Ok((state, coordinator.claims.latest()));
    }
    coordinator.count_call(shard);
    let place = place.clone();
    let look = move || async move {
        let there = own_coordinator()?;
        let state = there.state(&place).await?;
        Ok((state, there.claims.latest()))
    };
    Box::pin(runtime::on_shard(shard, look)).await.map_err(unread)
}

/// Has what a transaction makes of a partition, if it is committed, held: in memory, or where there
/// is no room for that, by the row of its rounds.
pub(crate) async fn hold(
    place: &Place,
    (ballot, follows): Begun,
    id: TransactionId,
    mutation: FrozenMutation,
) -> Result<Part, WriteError> {
    let coordinator = own_coordinator().map_err(failed)?;
    let table = paxos::table(&coordinator.cluster.schema());
    let proposal = Proposal::alone_of(id, ballot, mutation);
    place.check_proposal(&proposal.mutation);
    let shard = table.tablets.shard_of(Token::of(&place.key));
    if !coordinator.claim(shard, place, &proposal).await.map_err(failed)? {
        stdx::probe!("what does not fit in memory is held on the disk");
        accept(&coordinator, &table, place, (&proposal, follows)).await?;
        coordinator.note_held(place);
    }
    Ok(Part::new(proposal))
}

/// Applies a part of a committed transaction, on the shard that owns its partition.
pub(crate) async fn learn_part(
    place: &Place,
    ballot: Ballot,
    mutation: FrozenMutation,
) -> Result<(), WriteError> {
    let coordinator = own_coordinator().map_err(failed)?;
    let table = paxos::table(&coordinator.cluster.schema());
    learn(&coordinator, &table, place, ballot, mutation).await
}

/// Has a mutation, made with the ballot's timestamp, chosen and applied.
pub(crate) async fn propose(
    place: &Place,
    (ballot, follows): Begun,
    mutation: FrozenMutation,
) -> Result<(), WriteError> {
    let coordinator = own_coordinator().map_err(failed)?;
    let table = paxos::table(&coordinator.cluster.schema());
    let proposal = Proposal::new((ballot, None), mutation);
    accept(&coordinator, &table, place, (&proposal, follows)).await?;
    learn(&coordinator, &table, place, ballot, proposal.mutation).await
}

/// Accepts a proposal so that no crash forgets it. `follows`: as in [`Begun`].
async fn accept(
    coordinator: &Coordinator,
    table: &TableEntry,
    place: &Place,
    (proposal, follows): (&Proposal, bool),
) -> Result<(), WriteError> {
    place.check_proposal(&proposal.mutation);
    let shard = table.tablets.shard_of(Token::of(&place.key));
    let is_apart = shard != coordinator.shard || proposal.of.is_some();
    if follows && (is_apart || is_outcome(coordinator, place)) {
        coordinator.sync_written().await.map_err(failed)?;
    }
    let accepted = place.accept(&table.schema, proposal, Kept::Always);
    coordinator.keep_accepted(shard, accepted).await.map_err(failed)
}

/// Whether a partition is of outcomes, each of which has a row of its own.
fn is_outcome(coordinator: &Coordinator, place: &Place) -> bool {
    let schema = coordinator.cluster.schema();
    let outcomes = schema.table(transactions::KEYSPACE, transactions::OUTCOMES);
    outcomes.is_some_and(|outcomes| outcomes.schema.id == place.table)
}

/// Applies what was chosen, remembers that, and has the row removed in its time.
async fn learn(
    coordinator: &Coordinator,
    table: &TableEntry,
    place: &Place,
    ballot: Ballot,
    mutation: FrozenMutation,
) -> Result<(), WriteError> {
    place.check_proposal(&mutation);
    if !paxos::is_empty(&mutation) {
        coordinator.storage.apply(mutation).await.map_err(failed)?;
    }
    let shard = table.tablets.shard_of(Token::of(&place.key));
    // What was held in memory no row remembers (*later-than-held*).
    if ballot.is_held() && coordinator.end_claim(shard, place, ballot).await.map_err(failed)? {
        return Ok(());
    }
    let learned = place.learn(&table.schema, ballot, Kept::Always);
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

impl Due for Learned {
    fn due(&self) -> Instant {
        self.due
    }
}

/// Removes the rows of rounds that are durable, for as long as the coordinator lives.
pub(crate) async fn forget_durable(mut learned: Receiver<Learned>) {
    let mut next = None;
    while let Some(due) = take_due(&mut learned, &mut next, FORGOTTEN_AT_ONCE_MAX).await {
        debug_assert!(!due.is_empty(), "forgotten-when-durable: nothing is");
        let Some(coordinator) = runtime::local::try_get::<Coordinator>() else { return };
        join_all(due.iter().map(|one| forget(&coordinator, &one.place, one.ballot))).await;
    }
}

impl Coordinator {
    /// All replicas have learned what a round has chosen: soon its proposal is forgotten.
    pub(crate) fn all_have_learned(&self, place: &Place, ballot: Ballot) {
        let due = Instant::now() + self.config.batch_memory;
        let learned = Learned { place: place.clone(), ballot, due };
        if self.learned.try_send(learned).is_err() {
            self.traffic.cas.dropped_prunes.add(1);
            stdx::probe!("a proposal is remembered after all replicas have learned it");
        }
    }
}

async fn forget(coordinator: &Coordinator, place: &Place, ballot: Ballot) {
    if !ballot.is_alone() {
        coordinator.prune(place, ballot).await;
        return coordinator.traffic.cas.pruned.add(1);
    }
    let table = paxos::table(&coordinator.cluster.schema());
    let shard = table.tablets.shard_of(Token::of(&place.key));
    let removal = place.forget(&table.schema, ballot);
    match coordinator.apply(shard, removal).await {
        Ok(()) => coordinator.traffic.cas.pruned.add(1),
        Err(error) => tracing::warn!(target: "paxos", %error, "a round stays remembered"),
    }
}

/// Applies what an earlier run accepted (*learned-again*). Returns how many there were. What one of
/// several replicas has accepted may never have been chosen: it is for the next round.
pub(crate) async fn finish_all(coordinator: &Coordinator) -> Result<usize, WriteError> {
    let schema = coordinator.cluster.schema();
    let mut finished = 0;
    for (place, state) in remembered(coordinator).await? {
        if state.unfinished().is_some_and(|proposal| proposal.of.is_some()) {
            coordinator.note_held(&place);
        }
        let learned = state.learned;
        let is_chosen = |it: &Proposal| it.of.is_none() || Some(it.ballot) == learned;
        let alone = state.accepted.filter(|accepted| accepted.ballot.is_alone());
        let Some(Proposal { ballot, mutation, .. }) = alone.filter(is_chosen) else { continue };
        // Checked here: it comes from the disk, and storage trusts what it is given.
        let sound = mutation.view().is_ok_and(|view| view.table() == place.table);
        match schema.table_by_id(place.table) {
            Some(_) if paxos::is_empty(&mutation) => {}
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
        match state.accepted {
            Some(Proposal { ballot, .. }) if place.table == table && ballot.is_alone() => {
                forget(coordinator, &place, ballot).await;
            }
            Some(Proposal { ballot, .. }) if place.table == table => {
                coordinator.prune_here(place, ballot).await.map_err(failed)?;
            }
            _ => {}
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
