//! How commands of several nodes are put in one order: what the registry asks of whoever does that.
//!
//! Invariants (of who implements it)
//!  - *decided-on-the-last*: a command takes effect on the state that it was decided on, or not at
//!    all.
//!  - *shown-before-told*: a command is said to be shown when every shard of this node shows it.

use crate::schema::Catalog;
use catalog::Command;
use runtime::sync::Permit;
use std::future::Future;
use std::pin::Pin;

/// A future of this shard.
pub(crate) type Local<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proposed {
    /// It took effect, and this node shows it; whether its subscribers were told.
    Shown { told: bool },
    /// Another one came first; this one has no effect.
    Lost,
}

/// Who orders the commands. An error says what failed, and whether the command may have taken
/// effect.
pub(crate) trait Order {
    /// Waits for the turn to make a command: others of this node would only be lost.
    fn turn(&self) -> Local<'_, Result<Permit, String>>;
    /// Waits until this node shows all that took effect before, on whichever node.
    fn barrier(&self) -> Local<'_, Result<(), String>>;
    /// Lets a command take effect on all nodes that was decided on `before`, which this node shows.
    fn propose<'a>(
        &'a self,
        before: &'a Catalog,
        command: Command,
    ) -> Local<'a, Result<Proposed, String>>;
}
