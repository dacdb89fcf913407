//! One mutation of a table that derives, or that carries others: at once where that is possible,
//! else step by step.
//!
//! Invariants: those of [`super::deriving`].

use super::Shard;
use super::before::Before;
use super::deriving::{Deriving, Promise};
use super::elsewhere::Kept;
use super::write::{Entered, Target};
use crate::error::WriteError;
use model::Token;
use mutation::{FrozenMutation, FrozenView};
use smallvec::SmallVec;
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
        match self.derive_at_once(target) {
            Some(entered) => self.keep(entered, promise).await,
            None => self.derive(std::slice::from_ref(mutation), promise).await,
        }
    }

    /// As [`Shard::apply`], of a mutation and others of this shard that are to be written with it,
    /// or not at all (*one-group*).
    pub(crate) async fn apply_with(
        &self,
        mutation: FrozenMutation,
        others: SmallVec<[(Token, FrozenMutation); 1]>,
    ) -> Result<(), WriteError> {
        debug_assert!(
            others.iter().all(|(_, other)| *other != mutation),
            "one-group: a mutation with itself"
        );
        match self.enter_with(&mutation, &others) {
            Ok(Some(entered)) => self.keep(entered, Promise::AsConfigured).await,
            Ok(None) | Err(WriteError::Moved) => {
                let others = others.into_iter().map(|(_, other)| other).collect();
                let carries = mutation.attach(others);
                Box::pin(self.apply_wherever(carries, Kept::AsConfigured)).await
            }
            Err(error) => Err(error),
        }
    }

    /// Enters them, if nothing follows from them and nobody has to be waited for.
    fn enter_with(
        &self,
        mutation: &FrozenMutation,
        others: &[(Token, FrozenMutation)],
    ) -> Result<Option<Entered>, WriteError> {
        let target = self.target(mutation)?;
        let Target { table, view, .. } = &target;
        debug_assert!(!others.is_empty(), "one-group: {} with nothing", table.id);
        if target.derives()
            || table.newer_than_drops(view).is_some()
            || !self.can_enter(table)
            || buggify!("a write derives step by step", 4)
        {
            return Ok(None);
        }
        let Some(deriving) = self.deriving.borrow().clone() else { return Ok(None) };
        debug_assert!(!view.has_attached(), "one-group: {} carries others besides", table.id);
        let views = others.iter().map(|(token, other)| (*token, FrozenView::trusted(&other.0)));
        let entered = self.enter_at_once((&target, view), views);
        if entered.is_some() {
            deriving.entered(others.len());
        }
        Ok(entered)
    }

    /// Enters a mutation with what follows from it, if nobody has to be waited for.
    fn derive_at_once(&self, target: &Target<'_>) -> Option<Entered> {
        let Target { table, tablet, key, view, .. } = target;
        debug_assert!(target.derives(), "one-test: nothing follows from a write of {}", table.id);
        let is_free = !self.deriving_locks.is_held(table.id, &key.key);
        if !is_free || !self.can_enter(table) || buggify!("a write derives step by step", 4) {
            return None;
        }
        let deriving: Rc<dyn Deriving> = self.deriving.borrow().clone()?;
        let following = deriving.at_once(*view, &Before::new(table, tablet, key))?;
        let others = || following.others.iter().map(|other| (other.token(), other.view()));
        let entered = match &following.alone {
            None => self.enter_at_once((target, view), others())?,
            Some(alone) => {
                let alone = FrozenView::trusted(&alone.0).ok()?;
                self.enter_at_once((target, &alone), others())?
            }
        };
        debug_assert!(
            !self.deriving_locks.is_held(table.id, &key.key),
            "not-past-a-lock: of {}, {key:?}",
            table.id
        );
        deriving.entered(following.others.len());
        Some(entered)
    }
}
