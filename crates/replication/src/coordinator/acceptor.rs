//! This node as a replica of rounds of conditional writes, for its own coordinators and those of
//! other nodes ([`crate::paxos`]).
//!
//! Invariants
//!  - *durable-first*: a promise or an acceptance is on the disk before it is answered.
//!  - *one-at-a-time*: a row is read and then written by one at a time.
//!  - *applied-first*: a proposal is marked as learned after it was applied, and that is on the
//!    disk no earlier: who says that it has learned something does not lose it in a crash. One log
//!    keeps its order; where the row of the round is in the log of another shard, the write is on
//!    the disk before the mark is made.

use super::nodes::Planted;
use super::{Coordinator, own_coordinator};
use crate::paxos::promises::Promise;
use crate::paxos::{self, Ballot, Kept, Place, Proposal, State};
use model::{TableId, Token};
use mutation::FrozenMutation;
use runtime::Erased;
use storage::WriteError;

/// What is read before a promise.
const ROUND_READ: (&str, &str) = ("the stored state of a round", "the read before a round's write");

/// Its answer to a ballot: what it was asked for, or the later ballot for which it refuses.
pub(crate) type Verdict<T> = Result<T, Ballot>;

impl Coordinator {
    /// Promises to accept nothing earlier than `ballot`.
    pub(crate) async fn promise_here(
        &self,
        place: Place,
        ballot: Ballot,
    ) -> Result<Verdict<Promise>, WriteError> {
        self.on_its_shard(place, move |coordinator, place| {
            Erased::new(move || async move { coordinator.promise(&place, ballot).await })
        })
        .await
    }

    /// Accepts a proposal, unless something later was promised.
    pub(crate) async fn accept_here(
        &self,
        place: Place,
        proposal: Proposal,
    ) -> Result<Verdict<()>, WriteError> {
        self.on_its_shard(place, move |coordinator, place| {
            Erased::new(move || async move { coordinator.accept(&place, &proposal).await })
        })
        .await
    }

    /// Applies what was chosen, and remembers that.
    pub(crate) async fn learn_here(
        &self,
        place: Place,
        ballot: Ballot,
        proposal: FrozenMutation,
    ) -> Result<(), WriteError> {
        place.check_proposal(&proposal);
        debug_assert!(!ballot.is_alone(), "applied-first: of one replica");
        let schema = self.cluster.schema();
        let table = schema.table_by_id(place.table);
        let table = table.ok_or(WriteError::UnknownTable(place.table))?;
        let paxos = paxos::table(&schema);
        let token = Token::of(&place.key);
        let (shard, shard_of_row) = (table.tablets.shard_of(token), paxos.tablets.shard_of(token));
        match shard == shard_of_row {
            true => self.apply(shard, proposal).await?,
            false => self.apply_durably(shard, proposal).await?,
        }
        let kept = self.kept(place.table)?;
        self.apply(shard_of_row, place.learn(&paxos.schema, ballot, kept)).await
    }

    /// Forgets a proposal that all replicas have learned.
    pub(crate) async fn prune_here(&self, place: Place, ballot: Ballot) -> Result<(), WriteError> {
        debug_assert!(!ballot.is_alone(), "applied-first: of one replica");
        let paxos = paxos::table(&self.cluster.schema());
        let shard = paxos.tablets.shard_of(Token::of(&place.key));
        self.apply(shard, place.prune(&paxos.schema, ballot)).await
    }

    /// What was written on this shard is on the disk when this ends: what the proposal of one
    /// replica wrote whose place another one is to take.
    pub(super) async fn sync_written(&self) -> Result<(), WriteError> {
        if self.is_planted(Planted::OvertakesWrites) {
            return Ok(());
        }
        self.storage.sync_log().await.map_err(WriteError::Log)
    }

    /// Writes down what one replica accepts (*durable-first*).
    pub(super) async fn keep_accepted(
        &self,
        shard: u16,
        accepted: FrozenMutation,
    ) -> Result<(), WriteError> {
        if self.is_planted(Planted::DecidesUnsynced) {
            return self.apply(shard, accepted).await;
        }
        self.apply_durably(shard, accepted).await
    }

    /// Runs a step on the shard that has the row.
    async fn on_its_shard<T: Send + 'static>(
        &self,
        place: Place,
        step: impl FnOnce(std::rc::Rc<Coordinator>, Place) -> Erased<'static, Result<T, WriteError>>
        + Send
        + 'static,
    ) -> Result<T, WriteError> {
        let paxos = paxos::table(&self.cluster.schema());
        let shard = paxos.tablets.shard_of(Token::of(&place.key));
        if shard == self.shard {
            return step(own_coordinator()?, place).await;
        }
        self.count_call(shard);
        let there = move || async move { step(own_coordinator()?, place).await };
        Box::pin(runtime::on_shard(shard, there)).await
    }

    async fn promise(&self, place: &Place, ballot: Ballot) -> Result<Verdict<Promise>, WriteError> {
        let paxos = paxos::table(&self.cluster.schema());
        let _alone = self.storage.lock_partition(paxos.schema.id, &place.key).await;
        let state = self.state(place).await?;
        if let Some(later) = state.refuses_promise(ballot) {
            return Ok(Err(later));
        }
        let promise = place.promise(&paxos.schema, ballot, self.kept(place.table)?);
        if !self.is_planted(Planted::ForgetsPromises) {
            self.storage.apply_durably(promise).await?;
        }
        let State { accepted, learned, .. } = state;
        let accepted = accepted.filter(|accepted| learned <= Some(accepted.ballot));
        let accepted = accepted.map(|accepted| match self.is_planted(Planted::HidesSince) {
            true => Proposal { since: None, ..accepted },
            false => accepted,
        });
        debug_assert!(learned < Some(ballot), "later-than-promised: {ballot:?} after {learned:?}");
        Ok(Ok(Promise { accepted, learned }))
    }

    async fn accept(&self, place: &Place, proposal: &Proposal) -> Result<Verdict<()>, WriteError> {
        let paxos = paxos::table(&self.cluster.schema());
        let _alone = self.storage.lock_partition(paxos.schema.id, &place.key).await;
        let state = self.state(place).await?;
        if let Some(later) = state.refuses_proposal(proposal.ballot, proposal.since)
            && !self.is_planted(Planted::AcceptsAnything)
        {
            return Ok(Err(later));
        }
        debug_assert!(!proposal.ballot.is_alone(), "durable-first: of one replica");
        let kept = self.kept(place.table)?;
        let accepted = place.accept(&paxos.schema, proposal, kept);
        self.storage.apply_durably(accepted).await?;
        if proposal.of.is_some() {
            self.note_held(place);
        }
        Ok(Ok(()))
    }

    /// What this shard has of a partition's rounds, with what a transaction holds in memory.
    pub(super) async fn state(&self, place: &Place) -> Result<State, WriteError> {
        let paxos = paxos::table(&self.cluster.schema());
        let own = paxos.tablets.shard_of(Token::of(&place.key)) == self.shard;
        assert!(own, "one-at-a-time: the row of another shard is read");
        let now_secs = runtime::time::wall_micros().div_euclid(1_000_000);
        let command = paxos::read_command(&paxos.schema, Some(place), now_secs);
        let page = self.storage.read(&command).await;
        let page = page.map_err(|error| super::unreadable(error, ROUND_READ))?;
        let row = paxos::states(&command, &page).pop();
        let row = row.map_or(State::default(), |(_, state)| state);
        // Looked at after the row: what is claimed meanwhile is seen.
        Ok(match self.claims.of(place) {
            Some(claim) => row.held(claim),
            None => row,
        })
    }

    fn kept(&self, table: TableId) -> Result<Kept, WriteError> {
        let schema = self.cluster.schema();
        let table = schema.table_by_id(table).ok_or(WriteError::UnknownTable(table))?;
        Ok(Kept::of(&table.schema, runtime::time::wall_micros().div_euclid(1_000_000)))
    }
}
