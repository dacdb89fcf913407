//! Writes that bring others with them: those of tables that have views, and those that carry what
//! is to be written with them (`FrozenView::attached`).
//!
//! Who knows what follows from a write stands above storage, and is registered as [`Deriving`].
//! Every write of a table that derives, and every one that carries others, is handed to it, whoever
//! writes: it reads what is there, derives, detaches, and writes all of it by
//! [`crate::Storage::enter_all`], which asks nobody, and takes nothing that carries others. One
//! mutation is asked about first in the step in which it could enter ([`Deriving::at_once`]): where
//! what follows from it and what it carries is of this shard, and what has to be known for that is
//! in memory, all of it enters in that step, and nobody is waited for.
//!
//! Invariants
//!  - *nothing-underived*: a write of a table that derives goes by who derives, or is refused:
//!    before somebody is registered, and after he has gone, there is no other way in. A write that
//!    has begun before its table derives may still enter underived.
//!  - *one-group*: what a write brings with it is in the group of the write: after a crash all of
//!    it is there or nothing, though some of its tables were flushed and others not. So a replay
//!    derives nothing: what was derived is in the log.
//!  - *own-locks*: who derives locks partitions apart from those who read to decide what they write
//!    ([`crate::Storage::lock_partition`]): those hold theirs while they write.
//!  - *not-past-a-lock*: what enters at once enters while nobody holds or waits for the lock of its
//!    partition: who derives step by step has the partition to himself.
//!  - *underived-is-counted*: writes that are under way when their table begins to derive are
//!    waited for by who derives from what the table has already
//!    ([`crate::Storage::await_underived`]). Those that need not wait enter in the step that looks
//!    at the flag, and are not counted.
//!  - *one-test*: any other write pays for one look at a flag of its table, and one at its own.

use super::Shard;
use super::before::Before;
use crate::error::WriteError;
use crate::table::Table;
use model::{TableId, Token};
use mutation::{FrozenMutation, FrozenView};
use reader::LocalFuture;
use smallvec::SmallVec;
use std::rc::Rc;
use stdx::Damaged;

/// What a write waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// What the sync mode promises.
    AsConfigured,
    /// The disk.
    OnDisk,
}

/// Writes mutations with all that follows from them, and all that they carry. Mutations of one call
/// are one group; those from which nothing follows may be among them.
pub trait Deriving {
    fn write(
        &self,
        mutations: Vec<FrozenMutation>,
        promise: Promise,
    ) -> LocalFuture<'_, Result<(), WriteError>>;

    /// What follows from a mutation and what it carries, if all of it is of this shard and is known
    /// now: it enters with it, in this step. `None`: it goes by [`Deriving::write`].
    fn at_once<'m>(&self, mutation: FrozenView<'m>, before: &Before<'_>) -> Option<Following<'m>>;

    /// So many mutations that [`Deriving::at_once`] gave are visible.
    fn entered(&self, count: usize);
}

/// What enters with a mutation, or for it.
#[derive(Debug, Default)]
pub struct Following<'m> {
    /// The mutation without what it carried; `None`: it carried nothing.
    pub alone: Option<FrozenMutation>,
    /// What it carried, and what follows from it: mostly one or two.
    pub others: SmallVec<[Follower<'m>; 2]>,
}

/// A mutation that enters with another, with the token of its partition.
#[derive(Debug)]
pub enum Follower<'m> {
    /// Where it stands in the mutation that carries it.
    Carried(Token, &'m [u8]),
    Derived(Token, FrozenMutation),
}

impl Follower<'_> {
    /// The mutation.
    #[inline]
    pub fn view(&self) -> Result<FrozenView<'_>, Damaged> {
        match self {
            Follower::Carried(_, bytes) => FrozenView::trusted(bytes),
            Follower::Derived(_, mutation) => FrozenView::trusted(&mutation.0),
        }
    }

    /// The token of its partition.
    #[inline]
    pub fn token(&self) -> Token {
        match self {
            Follower::Carried(token, _) | Follower::Derived(token, _) => *token,
        }
    }
}

impl Shard {
    /// Hands a write to who derives (*nothing-underived*).
    pub(crate) async fn derive(
        &self,
        mutations: &[FrozenMutation],
        promise: Promise,
    ) -> Result<(), WriteError> {
        debug_assert!(!mutations.is_empty(), "nothing-underived: a write of nothing");
        let deriving: Option<Rc<dyn Deriving>> = self.deriving.borrow().clone();
        match deriving {
            Some(deriving) => deriving.write(mutations.to_vec(), promise).await,
            None => Err(WriteError::Stopped),
        }
    }

    /// Waits until no write of the table is under way that began before it derived.
    pub(crate) async fn await_underived(&self, id: TableId) {
        let Some(table) = self.table(id) else { return };
        debug_assert!(table.derives.get(), "underived-is-counted: there will be more of {id}");
        while 0 < table.underived.get() {
            table.underived_ended.notified().await;
        }
    }
}

/// Tables that do not derive, while a write of them waits.
pub(super) struct Underived(Vec<Rc<Table>>);

impl Underived {
    pub(super) fn of<'t>(tables: impl Iterator<Item = &'t Rc<Table>>) -> Underived {
        let tables: Vec<Rc<Table>> = tables.filter(|it| !it.derives.get()).cloned().collect();
        tables.iter().for_each(|table| table.underived.set(table.underived.get() + 1));
        Underived(tables)
    }

    /// Counts them for as long as that takes.
    pub(super) async fn during<T>(self, write: impl Future<Output = T>) -> T {
        write.await
    }
}

impl Drop for Underived {
    fn drop(&mut self) {
        for table in &self.0 {
            let left = table.underived.get().checked_sub(1);
            debug_assert!(left.is_some(), "underived-is-counted: more ended than began");
            table.underived.set(left.unwrap_or(0));
            if table.underived.get() == 0 {
                table.underived_ended.notify_all();
            }
        }
    }
}
