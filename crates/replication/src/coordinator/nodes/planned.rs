//! Plans that were made before.
//!
//! Who is asked depends on the replicas of a token, on who is alive, on how many copies a table
//! wants and on the level, which all are the same from request to request until a node dies or
//! moves. So a shard remembers a few plans, and looks whether what they were made from is what
//! there is: each of that is shared by reference, and never changed in place.
//!
//! Invariants
//!  - *plan-of-now*: a plan that is given is that which would be made now.

use super::Coordinator;
use crate::options::Consistency;
use crate::placement::Replica;
use crate::plan::nodes::{Candidates, Unavailable};
use cluster::{Lives, Replication};
use std::cell::RefCell;
use std::rc::Rc;

/// Plans that are remembered: where three nodes have all tokens there are as many lists of replicas
/// as shards of two nodes can be combined, and few levels.
const PLANS_MAX: usize = 64;

/// What a plan was made from. It holds that, so that nothing else is ever in its place.
struct Basis {
    replicas: Rc<[Replica]>,
    copies: Rc<Replication>,
    lives: Rc<Lives>,
    level: Consistency,
}

impl Basis {
    fn is(&self, (replicas, copies): Asked<'_>, lives: &Rc<Lives>, level: Consistency) -> bool {
        Rc::ptr_eq(&self.replicas, replicas)
            && Rc::ptr_eq(&self.copies, copies)
            && Rc::ptr_eq(&self.lives, lives)
            && self.level == level
    }
}

/// The replicas of a token, and how many copies its table wants.
type Asked<'a> = (&'a Rc<[Replica]>, &'a Rc<Replication>);

/// The plans of reads, or of writes, of a shard.
pub(super) struct Planned<P> {
    plans: RefCell<Vec<Option<(Basis, Candidates, P)>>>,
}

impl<P> Default for Planned<P> {
    fn default() -> Planned<P> {
        Planned { plans: RefCell::default() }
    }
}

impl<P: Clone> Planned<P> {
    /// The replicas as plans see them, and the plan, which `make` makes where it is not known.
    pub(super) fn get(
        &self,
        coordinator: &Coordinator,
        asked @ (replicas, copies): Asked<'_>,
        level: Consistency,
        make: impl FnOnce(&Candidates) -> Result<P, Unavailable>,
    ) -> (Candidates, Result<P, Unavailable>) {
        // Of each data centre: it depends on which nodes are in which.
        let lives = coordinator.places().lives().filter(|_| level != Consistency::EachQuorum);
        let Some(lives) = lives else {
            let candidates = coordinator.candidates(replicas);
            let plan = make(&candidates);
            return (candidates, plan);
        };
        let place = Rc::as_ptr(replicas).cast::<u8>().addr() / 16 + level as usize;
        let place = place % PLANS_MAX;
        debug_assert!(!replicas.is_empty(), "plan-of-now: of a token that nobody has");
        if let Some(Some((basis, candidates, plan))) = self.plans.borrow().get(place)
            && basis.is(asked, &lives, level)
        {
            debug_assert!(*candidates == coordinator.candidates(replicas), "plan-of-now");
            return (candidates.clone(), Ok(plan.clone()));
        }
        let candidates = coordinator.candidates(replicas);
        let plan = make(&candidates);
        if let Ok(plan) = &plan {
            let (replicas, copies) = (replicas.clone(), copies.clone());
            let basis = Basis { replicas, copies, lives, level };
            let mut plans = self.plans.borrow_mut();
            plans.resize_with(PLANS_MAX, || None);
            plans[place] = Some((basis, candidates.clone(), plan.clone()));
            debug_assert!(plans.len() == PLANS_MAX, "bounded: {} plans", plans.len());
        }
        (candidates, plan)
    }
}
