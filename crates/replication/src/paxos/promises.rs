//! What a round makes of the promises of as many replicas as its level requires. Pure.
//!
//! Why this is enough: what was chosen was accepted by a majority, of which one is among those that
//! promise. It names the proposal, unless it has accepted a later one since, or was told that all
//! replicas have learned it. A later one was only proposed once a majority had learned what its
//! round saw as the last one that was chosen ([`Next::Teach`]).
//!
//! A proposal *since* another one was promised by nobody, so its round may not have seen what was
//! chosen in between. But then a majority had promised that, and refuses it: it was not chosen, and
//! never will be. So it is passed over where something between the two was accepted or learned.
//!
//! A proposal of a transaction comes here as what it is by the outcome: as one that stands by
//! itself, or as one that changes nothing. Whoever finds it knows the outcome, or waits for it, so
//! that all see it as the same.
//!
//! Invariants
//!  - *last-accepted-first*: of proposals that may have been chosen, the one with the last ballot
//!    is finished, and no other one.
//!  - *nothing-between*: a proposal since another one is finished only if nothing was between them.
//!  - *learned-by-a-majority*: nothing is proposed before as many replicas have learned what was
//!    chosen last.

use super::{Ballot, Proposal, is_empty};
use mutation::FrozenMutation;

/// What a replica says that promises a ballot: all of it is earlier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Promise {
    pub(crate) accepted: Option<Proposal>,
    pub(crate) learned: Option<Ballot>,
}

/// What a round does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// This may have been chosen: it is proposed again.
    Finish(FrozenMutation),
    /// This was chosen, and those replicas do not know that. None of them is left out.
    Teach {
        ballot: Ballot,
        mutation: FrozenMutation,
        who: Vec<usize>,
    },
    Propose,
}

/// What became of a proposal that some replica may have accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It was chosen, or is what is to be finished.
    Mine,
    /// It was not chosen before these promises were given, and never will be once another proposal
    /// is at their ballot.
    NotChosen,
    /// Others were chosen since, and nobody knows what they saw.
    Unknown,
}

/// Whether a majority of promises, or of acceptances, was there for a ballot between two: for what
/// was learned, what was proposed after it was promised, and that since which another one is
/// proposed. What is proposed since another one tells nothing of its own ballot.
fn is_any_between(promises: &[(usize, Promise)], after: Ballot, before: Ballot) -> bool {
    let is_between = |ballot: Ballot| after < ballot && ballot < before;
    promises.iter().any(|(_, Promise { accepted, learned })| {
        let accepted = accepted.as_ref().map(|it| it.since.unwrap_or(it.ballot));
        accepted.into_iter().chain(*learned).any(is_between)
    })
}

/// What may have been chosen (*nothing-between*).
fn accepted(promises: &[(usize, Promise)]) -> impl Iterator<Item = &Proposal> {
    let all = promises.iter().filter_map(|(_, promise)| promise.accepted.as_ref());
    all.filter(move |proposal| match proposal.since {
        None => true,
        Some(since) => !is_any_between(promises, since, proposal.ballot),
    })
}

fn all_decided(promises: &[(usize, Promise)]) -> bool {
    promises.iter().filter_map(|(_, it)| it.accepted.as_ref()).all(|it| it.of.is_none())
}

fn last_accepted(promises: &[(usize, Promise)]) -> Option<&Proposal> {
    accepted(promises).max_by_key(|proposal| proposal.ballot)
}

pub(crate) fn last_learned(promises: &[(usize, Promise)]) -> Option<Ballot> {
    promises.iter().filter_map(|(_, promise)| promise.learned).max()
}

/// What is next, by the promises of replicas, which are named by their places.
pub(crate) fn next(promises: &[(usize, Promise)]) -> Next {
    debug_assert!(all_decided(promises), "last-accepted-first: what is undecided is accepted");
    assert!(!promises.is_empty(), "learned-by-a-majority: nobody has promised");
    let learned = last_learned(promises);
    let Some(last) = last_accepted(promises) else { return Next::Propose };
    let Proposal { ballot, mutation, .. } = last;
    if learned < Some(*ballot) {
        return match last.is_empty() {
            // It changes nothing, and whatever was accepted before it was not chosen.
            true => Next::Propose,
            false => Next::Finish(mutation.clone()),
        };
    }
    if learned != Some(*ballot) {
        return Next::Propose;
    }
    let lacks = promises.iter().filter(|(_, promise)| promise.learned < learned);
    let who: Vec<usize> = lacks.map(|(place, _)| *place).collect();
    debug_assert!(who.len() < promises.len(), "learned-by-a-majority: nobody has learned it");
    match who.is_empty() {
        true => Next::Propose,
        false => Next::Teach { ballot: *ballot, mutation: mutation.clone(), who },
    }
}

/// What became of `mine`, which was proposed at `ballot`: the promises are of a later one.
///
/// Whoever proposes something after a proposal was chosen has had a majority learn it before. So
/// where none of a majority has learned anything as late, it was not chosen; and another proposal,
/// once a majority has accepted it at a later ballot, is what later rounds see in its place.
pub(crate) fn fate(promises: &[(usize, Promise)], ballot: Ballot, mine: &FrozenMutation) -> Fate {
    debug_assert!(!is_empty(mine), "last-accepted-first: what changes nothing has no fate");
    // Timestamps of two rounds differ, so equal bytes are the same proposal, under a later ballot
    // where another round has proposed it again.
    let learned = last_learned(promises);
    let last = last_accepted(promises);
    debug_assert!(!promises.is_empty(), "learned-by-a-majority: nobody has promised");
    let is_at = |at: Option<Ballot>| {
        accepted(promises).any(|one| Some(one.ballot) == at && one.mutation == *mine)
    };
    let is_unfinished = learned < last.map(|last| last.ballot);
    if is_unfinished && last.is_some_and(|last| last.mutation == *mine) {
        return Fate::Mine;
    }
    match learned {
        Some(last) if last == ballot || is_at(learned) => Fate::Mine,
        Some(last) if ballot < last => Fate::Unknown,
        _ => Fate::NotChosen,
    }
}

#[cfg(test)]
mod tests;
