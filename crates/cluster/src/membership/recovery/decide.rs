//! What is decided when the majority of the group of all nodes is lost for ever. Pure.
//!
//! A group has *generations*, which are groups of their own: other id, other log, other members.
//! The first has the number 0. Nodes that are left agree on the next one as in Paxos: somebody of
//! them, the candidate, asks all that were not declared lost (the *survivors*) for a promise; who
//! gives it takes part in lower generations no longer, and promises no other candidate of the same
//! number. With enough promises the candidate begins the generation, with what it has, and whoever
//! hears of it takes it over, and with it the state that its leader sends.
//!
//! Invariants
//!  - *one-of-a-number*: of each number there is one generation at most, begun by one node.
//!  - *promised-is-silent*: who has promised a number takes no part in the consensus of lower ones,
//!    after a crash neither: the promise is durable before it is told.
//!  - *none-works-beside*: those who did not promise are too few to be a majority of voters; so
//!    when a generation begins, no lower one commits anything any more.
//!  - *most-of-the-log*: who promises has no later entry than the candidate; so what was committed
//!    in any generation, and is in the log of anybody who promises, is in the new one.
//!  - *only-onward*: a node's generation and its promise only grow.
//!  - *named-or-counted*: each node that somebody who promises knows is a survivor or lost.

use model::Uuid;
use std::collections::BTreeSet;
use std::fmt;

/// Entries of a generation have indices from its number times this on.
pub(crate) const STRIDE: u64 = 1 << 40;
/// The highest number; more are damage.
pub(super) const NUMBER_MAX: u64 = 1 << 20;
/// As many voters as a group has where there are enough nodes.
const VOTERS: usize = consensus::VOTERS_MAX;

/// A generation of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Generation {
    pub(crate) number: u64,
    /// The id of the group.
    pub(crate) group: Uuid,
    /// Who began it.
    pub(crate) founder: Uuid,
    /// Who belonged to it when it began.
    pub(crate) members: BTreeSet<Uuid>,
    /// Who was declared lost then, or before.
    pub(crate) lost: BTreeSet<Uuid>,
}

impl Generation {
    /// The one that a group is first.
    pub(crate) fn first(group: Uuid) -> Generation {
        let (members, lost) = (BTreeSet::new(), BTreeSet::new());
        Generation { number: 0, group, founder: Uuid::nil(), members, lost }
    }

    /// What comes before its first entry.
    pub(crate) fn base(&self) -> u64 {
        debug_assert!(self.number <= NUMBER_MAX, "only-onward: generation {}", self.number);
        self.number * STRIDE
    }
}

/// What was promised: nothing to others of this number, and nothing in lower generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Promise {
    pub(crate) number: u64,
    pub(crate) candidate: Uuid,
}

/// The last entry that a node has; later is more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) generation: u64,
    pub(crate) term: u64,
    pub(crate) index: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { generation, term, index } = self;
        write!(f, "entry {index} of term {term} in generation {generation}")
    }
}

/// How a node stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) generation: Generation,
    pub(crate) promised: Option<Promise>,
    pub(crate) position: Position,
    /// The term that it knows, and up to where it has applied.
    pub(crate) term: u64,
    pub(crate) applied: u64,
    /// Whom it follows, if it votes; itself, where it leads.
    pub(crate) leader: Option<Uuid>,
    /// Whose majority decides, as it knows; while voters change each of two majorities.
    pub(crate) voters: Vec<BTreeSet<Uuid>>,
    /// Whom it knows of, itself among them, and who was not declared lost.
    pub(crate) known: BTreeSet<Uuid>,
    /// The latest timestamp of what it shows.
    pub(crate) last_timestamp: i64,
}

/// What a candidate asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) number: u64,
    pub(crate) candidate: Uuid,
    pub(crate) position: Position,
    pub(crate) lost: BTreeSet<Uuid>,
    pub(crate) survivors: BTreeSet<Uuid>,
    /// It ends what another recovery began: a group that some have left by a promise is given a
    /// generation also where all its nodes live.
    pub(crate) resumes: bool,
}

/// Mistakes that the tests of these decisions plant, to see them caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code, reason = "tests alone plant mistakes"))]
pub(crate) enum Planted {
    /// Who has promised goes on in the old generation.
    OldVotes,
    /// A promise is forgotten by a crash.
    ForgetsPromise,
    /// Promises are given to candidates that have less.
    TakesShorter,
    /// A majority of the survivors is not waited for.
    TakesFew,
}

impl Standing {
    /// Whether it takes no part in its generation any more (*promised-is-silent*).
    pub(crate) fn is_silent(&self) -> bool {
        self.promised.is_some_and(|promise| self.generation.number < promise.number)
    }

    /// Whether those of the voters that are not lost could be a majority.
    pub(crate) fn may_decide(&self, lost: &BTreeSet<Uuid>) -> bool {
        let living = |voters: &BTreeSet<Uuid>| voters.difference(lost).count();
        let has_majority = |voters: &BTreeSet<Uuid>| voters.len() / 2 < living(voters);
        let few = self.voters.len() <= 2;
        debug_assert!(few, "none-works-beside: {} majorities", self.voters.len());
        !self.voters.is_empty() && self.voters.iter().all(has_majority)
    }

    /// What `me`, who stands so, answers to a plan: the promise to make, or why it makes none.
    pub(crate) fn judge(&self, me: Uuid, plan: &Plan) -> Result<Promise, String> {
        self.judge_with(me, plan, None)
    }

    pub(crate) fn judge_with(
        &self,
        me: Uuid,
        plan: &Plan,
        planted: Option<Planted>,
    ) -> Result<Promise, String> {
        let promise = Promise { number: plan.number, candidate: plan.candidate };
        if !plan.survivors.contains(&me) {
            return Err("it is not named as one that is left".to_owned());
        }
        if NUMBER_MAX < plan.number {
            return Err(format!("no generation has a number above {NUMBER_MAX}"));
        }
        if plan.number <= self.generation.number {
            return Err(format!("it is in generation {} already", self.generation.number));
        }
        if self.promised == Some(promise) {
            return Ok(promise);
        }
        if let Some(before) = self.promised
            && plan.number <= before.number
        {
            let Promise { number, candidate } = before;
            return Err(format!("it has promised number {number} to node {candidate}"));
        }
        if plan.position < self.position && planted != Some(Planted::TakesShorter) {
            return Err(format!("it has {}, which is later", self.position));
        }
        if let Some(other) =
            self.known.iter().find(|it| !plan.survivors.contains(it) && !plan.lost.contains(it))
        {
            return Err(format!("it knows node {other} too, which is not named"));
        }
        if !plan.resumes && !self.is_silent() {
            if let Some(leader) = self.leader {
                return Err(format!("node {leader} leads its group"));
            }
            if self.may_decide(&plan.lost) {
                return Err("its group may have a majority still".to_owned());
            }
        }
        debug_assert!(
            self.promised.is_none_or(|before| before.number < plan.number),
            "only-onward: {promise:?} after {:?}",
            self.promised
        );
        Ok(promise)
    }
}

/// Whether a generation that was begun is to be taken over by `me`, who is in `own` and has
/// promised this; the error says why `me` has no place in it. *one-of-a-number*, *only-onward*
pub(super) fn follows(
    me: Uuid,
    own: &Generation,
    promised: Option<Promise>,
    begun: &Generation,
) -> Result<bool, String> {
    if begun.number <= own.number {
        return Ok(false);
    }
    if !begun.members.contains(&me) && begun.group != own.group {
        return Err(match begun.lost.contains(&me) {
            true => format!("it was declared lost when generation {} began", begun.number),
            false => format!("it has no place in generation {}", begun.number),
        });
    }
    assert!(own.number < begun.number, "only-onward: back to {}", begun.number);
    // A higher promise: the generation may not work any more, and is not helped to.
    Ok(promised.is_none_or(|promise| promise.number <= begun.number))
}

impl Plan {
    /// The generation that a candidate may begin, of that id, when these have promised; the error
    /// says how many are missing.
    pub(crate) fn begins(
        &self,
        promised: &BTreeSet<Uuid>,
        before: &Standing,
        group: Uuid,
    ) -> Result<Generation, String> {
        assert!(promised.is_subset(&self.survivors), "none-works-beside: {promised:?} promise");
        let needed = self.needed(before);
        let count = promised.len();
        if count < needed {
            let all = self.survivors.len();
            return Err(format!("{count} of {all} have agreed, and {needed} have to"));
        }
        assert!(self.survivors.len() < 2 * count, "one-of-a-number: {count} are no majority");
        assert!(promised.contains(&self.candidate), "promised-is-silent: the candidate did not");
        Ok(Generation {
            number: self.number,
            group,
            founder: self.candidate,
            members: self.survivors.clone(),
            lost: &self.lost | &before.generation.lost,
        })
    }

    /// How many have to promise: a majority of the survivors, and so many that the others are none
    /// of voters (*none-works-beside*). `before`: how the candidate stands.
    pub(crate) fn needed(&self, before: &Standing) -> usize {
        let survivors = self.survivors.len();
        let voters = before.voters.iter().map(BTreeSet::len).min().unwrap_or(VOTERS).min(VOTERS);
        // Voters may have been changed to fewer where there are few nodes, which is not known here.
        let all = self.survivors.union(&self.lost).count();
        let voters = voters.min(if all < VOTERS { 3 } else { VOTERS }).max(1);
        let beside_max = voters / 2;
        let needed = (survivors / 2 + 1).max(survivors.saturating_sub(beside_max));
        assert!(survivors < 2 * needed, "one-of-a-number: {needed} of {survivors}");
        debug_assert!(survivors - needed.min(survivors) <= beside_max, "none-works-beside");
        needed
    }
}

/// Whether a recovery was begun and is to be ended, as far as those tell that answer: somebody has
/// left its generation by a promise, or nobody has anything of the newest one.
pub(crate) fn is_unfinished<'s>(all: impl Iterator<Item = &'s Standing> + Clone) -> bool {
    let newest = all.clone().map(|it| it.generation.number).max();
    let held = all.clone().map(|it| it.position.generation).max();
    debug_assert!(held <= newest, "state-comes-with-it: {held:?} in {newest:?}");
    held < newest || all.clone().any(Standing::is_silent)
}

/// The number that a candidate asks for, after what all that answered have said.
pub(crate) fn next_number<'s>(all: impl Iterator<Item = &'s Standing>) -> u64 {
    let of = |standing: &Standing| {
        let promised = standing.promised.map_or(0, |promise| promise.number);
        promised.max(standing.generation.number)
    };
    let next = 1 + all.map(of).max().unwrap_or(0);
    debug_assert!(0 < next, "only-onward: number {next}");
    next
}

#[cfg(test)]
mod tests;
