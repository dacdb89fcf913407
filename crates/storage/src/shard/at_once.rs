//! One mutation of a table that derives, or that carries others: at once where that is possible,
//! else step by step.
//!
//! Invariants: those of [`super::deriving`].

use super::Shard;
use super::before::Before;
use super::deriving::{Deriving, Promise};
use super::write::{Entered, Target};
use crate::error::WriteError;
use mutation::FrozenMutation;
use std::rc::Rc;
use stdx::buggify;

impl Shard {
    /// The same for one mutation: at once, where that is possible.
    pub(super) async fn derive_one(
        &self,
        target: &Target<'_>,
        mutation: &FrozenMutation,
        promise: Promise,
    ) -> Result<(), WriteError> {
        match self.derive_at_once(target, mutation) {
            Some(entered) => self.keep(entered, promise).await,
            None => self.derive(std::slice::from_ref(mutation), promise).await,
        }
    }

    /// Enters a mutation with what follows from it, if nobody has to be waited for.
    fn derive_at_once(&self, target: &Target<'_>, mutation: &FrozenMutation) -> Option<Entered> {
        let Target { table, tablet, key, view, .. } = target;
        debug_assert!(target.derives(), "one-test: nothing follows from a write of {}", table.id);
        let is_free = !self.deriving_locks.is_held(table.id, &key.key);
        if !is_free || !self.can_enter(table) || buggify!("a write derives step by step", 4) {
            return None;
        }
        let deriving: Rc<dyn Deriving> = self.deriving.borrow().clone()?;
        let following = deriving.at_once(*view, &Before::new(table, tablet, key))?;
        let count = following.others.len();
        let entered = match &following.alone {
            None => self.enter_at_once(target, mutation, &following.others)?,
            Some(alone) => {
                self.enter_at_once(&target.detached(alone)?, alone, &following.others)?
            }
        };
        debug_assert!(
            !self.deriving_locks.is_held(table.id, &key.key),
            "not-past-a-lock: of {}, {key:?}",
            table.id
        );
        deriving.entered(count);
        Some(entered)
    }
}
