//! Mistakes that tests plant on shard 0, to see them caught: of moves, and of how levels are
//! counted meanwhile. They stand in `runtime::local`. Release builds have none of them.

use std::rc::Rc;

/// See the module.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A node says that it has taken what it gets, and has not.
    TakesNothing,
    /// Stages follow each other though nodes may not know them.
    WaitsForNobody,
    /// What was asked for in a session is written when that is over.
    WritesLate,
    /// What was written last to a tablet is not handed over to the shard that gets it.
    HandsOverHastily,
    /// A node removes what it gives away while others may read it there.
    RemovesEarly,
    /// Who leads next takes the stage in which it finds the cluster for done.
    SkipsStages,
    /// A node serves clients before it has what it owns.
    ServesEarly,
    /// Levels are of what keyspaces want, and not of what tablets have.
    CountsWanted,
    /// Writes are counted on the side that is read alone.
    CountsOneSide,
}

pub(crate) fn is_planted(planted: Planted) -> bool {
    let is_it = |it: Rc<Planted>| *it == planted;
    cfg!(debug_assertions) && runtime::local::try_get::<Planted>().is_some_and(is_it)
}
