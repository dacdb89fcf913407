//! What comes to a shard for a tablet that has gone to another one of this node: requests that
//! looked where it is a moment before (`shard::hand_over`).
//!
//! Each shard knows how the whole node divides a table, so whoever comes late is sent on, by the
//! shard that had the tablet; what is to be written to a tablet that is about to go waits until it
//! is there. So nobody above has to wait until all know.
//!
//! Invariants
//!  - *sent-on-whole*: what was asked for a tablet that is elsewhere is done there, from its
//!    beginning, or not at all: nothing of it was done here.
//!  - *never-nothing*: a shard that had a tablet does not answer that there is nothing.
//!  - *no-circles*: the shard that a tablet goes to knows it before the one that it comes from lets
//!    go: of two shards at most one sends on to the other.

use super::Shard;
use crate::error::WriteError;
use crate::table::Table;
use model::{TableId, Token};
use mutation::page::{Page, Partitions, ReadCommand};
use mutation::{FrozenMutation, FrozenView, RingBound};
use reader::ReadError;
use runtime::time::{Instant, sleep};
use runtime::{local, on_shard};
use std::time::Duration;

/// Before a write is tried again of which a part was elsewhere: other shards hear of it meanwhile.
const PAUSE: Duration = Duration::from_millis(1);

/// How a write is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    AsConfigured,
    OnDisk,
}

/// What became of a group; or the group, of which nothing was written.
pub(crate) type Grouped = Result<Result<(), WriteError>, Vec<FrozenMutation>>;

impl Table {
    /// The shard of this node that has a token, where it is another one than this; of a ring
    /// without tablets all stays where it is.
    #[inline]
    pub(crate) fn elsewhere(&self, token: Token) -> Option<u16> {
        let parts = self.parts();
        if parts.map.sharder().is_some() || parts.tablet_of(token).is_some() {
            return None;
        }
        let owner = parts.map.shard_of(token);
        debug_assert!(owner != runtime::shard_id(), "no-circles: {token:?} is here, and is not");
        Some(owner)
    }

    /// Why nothing can be written to a token here now.
    #[cold]
    pub(crate) fn not_here(&self, token: Token) -> WriteError {
        match self.elsewhere(token).is_some() || self.tablet_of(token).is_some() {
            true => WriteError::Moved,
            false => WriteError::UnknownTable(self.id),
        }
    }

    /// The shard that has all of a range, which lies in one tablet, where it is not this one; an
    /// error where a part of what had been one tablet went to another shard.
    fn range_elsewhere(
        &self,
        start: &RingBound,
        end: &RingBound,
    ) -> Result<Option<u16>, ReadError> {
        if self.hand_overs.get() == 0 {
            return Ok(None);
        }
        let map = self.map();
        let first = match start.key.is_none() && start.after {
            true => Token(start.token.0.saturating_add(1)),
            false => start.token,
        };
        let last = match end.key.is_none() && !end.after {
            true => Token(end.token.0.saturating_sub(1)),
            false => end.token,
        };
        if map.sharder().is_some() || last < first {
            return Ok(None);
        }
        let mut owners = map.shards()[map.tablet_of(first)..=map.tablet_of(last)].to_vec();
        owners.dedup();
        match owners[..] {
            [one] => Ok((one != runtime::shard_id()).then_some(one)),
            _ => Err(ReadError::Moved),
        }
    }
}

impl Shard {
    /// See [`crate::Storage::elsewhere`].
    pub(crate) fn elsewhere(&self, id: TableId, token: Token) -> Option<u16> {
        self.table(id)?.elsewhere(token)
    }

    /// The shard that has a token where it is not this one; waits while its tablet is about to go.
    async fn whereabouts(&self, id: TableId, token: Token) -> Option<u16> {
        loop {
            let table = self.table(id)?;
            let opened = match table.tablet_of(token) {
                Some(tablet) if tablet.is_closed() => table.opened.notified(),
                _ => return table.elsewhere(token),
            };
            opened.await;
        }
    }

    /// As [`Shard::apply`], wherever the partition is by now.
    pub(crate) async fn apply_wherever(
        &self,
        mutation: FrozenMutation,
        kept: Kept,
    ) -> Result<(), WriteError> {
        let applied = match kept {
            Kept::AsConfigured => self.apply(&mutation).await,
            Kept::OnDisk => self.apply_durably(&mutation).await,
        };
        match applied {
            Err(WriteError::Moved) => Box::pin(self.send_on(mutation, kept)).await,
            done => done,
        }
    }

    /// Sends on a mutation of a tablet that is elsewhere, or about to be.
    async fn send_on(&self, mutation: FrozenMutation, kept: Kept) -> Result<(), WriteError> {
        stdx::probe!("a write is sent on to another shard, or waits for a tablet that goes");
        let (id, token) = place_of(&mutation)?;
        let until = Instant::now() + self.config.write_wait_max;
        loop {
            if let Some(owner) = self.whereabouts(id, token).await {
                let apply = move || async move {
                    let shard = local::try_get::<Shard>().ok_or(WriteError::Stopped)?;
                    shard.apply_wherever(mutation, kept).await
                };
                return on_shard(owner, apply).await;
            }
            let applied = match kept {
                Kept::AsConfigured => self.apply(&mutation).await,
                Kept::OnDisk => self.apply_durably(&mutation).await,
            };
            match applied {
                // What follows from it is of a tablet that is elsewhere: who derives hears of that.
                Err(WriteError::Moved) if Instant::now() < until => sleep(PAUSE).await,
                done => return done,
            }
        }
    }

    /// As [`Shard::apply_all`], wherever the partitions are by now; where they are not of one shard
    /// any more nothing is written, and they are given back.
    pub(crate) async fn apply_all_wherever(&self, mutations: Vec<FrozenMutation>) -> Grouped {
        match self.apply_all(&mutations).await {
            Err(WriteError::Moved) => Box::pin(self.send_all_on(mutations)).await,
            done => Ok(done),
        }
    }

    async fn send_all_on(&self, mutations: Vec<FrozenMutation>) -> Grouped {
        let until = Instant::now() + self.config.write_wait_max;
        loop {
            let mut owners = Vec::with_capacity(mutations.len());
            for one in &mutations {
                match place_of(one) {
                    Ok((id, token)) => owners.push(self.whereabouts(id, token).await),
                    Err(error) => return Ok(Err(error)),
                }
            }
            owners.dedup();
            debug_assert!(!owners.is_empty(), "sent-on-whole: a group of nothing");
            match owners[..] {
                [Some(owner)] => {
                    let apply = move || async move {
                        match local::try_get::<Shard>() {
                            Some(shard) => shard.apply_all_wherever(mutations).await,
                            None => Ok(Err(WriteError::Stopped)),
                        }
                    };
                    return on_shard(owner, apply).await;
                }
                [None] => match self.apply_all(&mutations).await {
                    Err(WriteError::Moved) if Instant::now() < until => sleep(PAUSE).await,
                    done => return Ok(done),
                },
                _ => return Err(mutations),
            }
        }
    }

    /// Where a read has to go that came here, if that is not here (*never-nothing*).
    pub(crate) fn read_elsewhere(
        &self,
        table: &Table,
        command: &ReadCommand,
    ) -> Result<Option<u16>, ReadError> {
        match &command.partitions {
            Partitions::Key(key) => Ok(table.elsewhere(Token::of(key))),
            Partitions::Range { start, end } => table.range_elsewhere(start, end),
        }
    }

    /// Has another shard answer a read.
    pub(crate) async fn read_there(
        &self,
        owner: u16,
        command: &ReadCommand,
    ) -> Result<Page, ReadError> {
        stdx::probe!("a read is sent on to another shard");
        let command = command.clone();
        let read = move || async move {
            let Some(storage) = local::try_get::<Shard>() else {
                return Err(ReadError::Overloaded("the node stops".to_owned()));
            };
            storage.read_wherever(&command).await
        };
        on_shard(owner, read).await
    }
}

/// The partition of a mutation.
fn place_of(mutation: &FrozenMutation) -> Result<(TableId, Token), WriteError> {
    let view = FrozenView::trusted(&mutation.0);
    let view = view.map_err(WriteError::Damaged)?;
    Ok((view.table(), Token::of(view.key())))
}
