//! Which of several nodes are asked, and when enough of them have answered. Pure.
//!
//! Invariants
//!  - *enough-is-enough*: a tally is met exactly when each of its parts has as many answers as the
//!    level requires of it, and lost exactly when one of them cannot have any more.
//!  - *nearest-first*: a read asks the nearest replicas that are alive, as many as the level
//!    requires of each part, and nobody whom the level does not count.
//!  - *both-sides*: of a write as many answers more are required as there are replicas that are
//!    only written, of each part of the level that counts them. So whoever it is that answers, the
//!    level is met by those that are read, and by those that will be or were read.
//!  - *counted-once*: a replica is waited for, has answered, or has failed.

use super::quorum;
use crate::options::Consistency;
use smallvec::{SmallVec, smallvec};
use std::fmt;
use std::rc::Rc;

/// A replica, as far as plans are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its data centre.
    pub dc: u16,
    pub is_local_dc: bool,
    pub is_alive: bool,
    /// It is written and not read.
    pub writes_only: bool,
}

/// The replicas of a token, nearest first: shared by the requests that a plan is remembered for.
pub type Candidates = Rc<[Candidate]>;

/// How many copies are wanted, however many nodes there are for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factors {
    pub total: u32,
    /// In the data centre of this node.
    pub local: u32,
    /// In each data centre, of those that have copies; without the number of one that has no node.
    /// Only looked at for EACH_QUORUM; empty: copies are not counted by data centre.
    pub each: Vec<(Option<u16>, u32)>,
}

/// Too few replicas are alive. None is required where the level is of a data centre without copies:
/// nothing that comes back would help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unavailable {
    pub required: u32,
    pub alive: u32,
}

/// Whom a part of a level counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    All,
    Local,
    DataCenter(Option<u16>),
}

impl Scope {
    fn counts(self, candidate: &Candidate) -> bool {
        match self {
            Scope::All => true,
            Scope::Local => candidate.is_local_dc,
            Scope::DataCenter(dc) => dc == Some(candidate.dc),
        }
    }
}

/// So many answers of so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    scope: Scope,
    required: u32,
    answered: u32,
    waited_for: u32,
}

/// Who has answered.
#[derive(PartialEq, Eq)]
pub struct Tally {
    /// One, but for EACH_QUORUM.
    parts: SmallVec<[Part; 1]>,
    failures: u32,
}

/// As a slice is copied, which their items are not: there is one for each request.
impl Clone for Tally {
    fn clone(&self) -> Tally {
        Tally { parts: SmallVec::from_slice(&self.parts), failures: self.failures }
    }
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}, {} failed", self.received(), self.required(), self.failures)
    }
}

impl Tally {
    fn of(level: Consistency, factors: &Factors) -> Tally {
        let part = |scope, required| Part { scope, required, answered: 0, waited_for: 0 };
        let parts = match level {
            Consistency::Any | Consistency::One => smallvec![part(Scope::All, 1)],
            Consistency::Two => smallvec![part(Scope::All, 2)],
            Consistency::Three => smallvec![part(Scope::All, 3)],
            Consistency::Quorum | Consistency::Serial => {
                smallvec![part(Scope::All, quorum(factors.total))]
            }
            Consistency::All => smallvec![part(Scope::All, factors.total)],
            Consistency::LocalOne => smallvec![part(Scope::Local, 1)],
            Consistency::LocalQuorum | Consistency::LocalSerial => {
                smallvec![part(Scope::Local, quorum(factors.local))]
            }
            Consistency::EachQuorum if factors.each.is_empty() => {
                smallvec![part(Scope::All, quorum(factors.total))]
            }
            Consistency::EachQuorum => {
                let each = factors.each.iter().filter(|(_, copies)| 0 < *copies);
                each.map(|(dc, copies)| part(Scope::DataCenter(*dc), quorum(*copies))).collect()
            }
        };
        Tally { parts, failures: 0 }
    }

    /// How many answers a level requires, whoever there is.
    pub fn required_of(level: Consistency, factors: &Factors) -> u32 {
        Tally::of(level, factors).required()
    }

    /// One more is waited for.
    pub fn wait_for(&mut self, candidate: &Candidate) {
        for part in self.parts.iter_mut().filter(|part| part.scope.counts(candidate)) {
            part.waited_for += 1;
        }
    }

    /// One that was waited for has answered.
    pub fn acknowledge(&mut self, candidate: &Candidate) {
        for part in self.parts.iter_mut().filter(|part| part.scope.counts(candidate)) {
            assert!(0 < part.waited_for, "counted-once: an answer of nobody, {part:?}");
            part.waited_for -= 1;
            part.answered += 1;
        }
        debug_assert!(self.received() <= self.required(), "enough-is-enough: {self:?}");
    }

    /// One that was waited for will not answer.
    pub fn fail(&mut self, candidate: &Candidate) {
        for part in self.parts.iter_mut().filter(|part| part.scope.counts(candidate)) {
            assert!(0 < part.waited_for, "counted-once: a failure of nobody, {part:?}");
            part.waited_for -= 1;
        }
        debug_assert!(!(self.is_met() && self.is_lost()), "enough-is-enough: {self:?}");
        self.failures += u32::from(self.parts.iter().any(|part| part.scope.counts(candidate)));
    }

    /// Whether enough have answered.
    pub fn is_met(&self) -> bool {
        self.parts.iter().all(|part| part.required <= part.answered)
    }

    /// Whether enough can no longer answer.
    pub fn is_lost(&self) -> bool {
        self.parts.iter().any(|part| part.answered + part.waited_for < part.required)
    }

    /// How many have answered that were required.
    pub fn received(&self) -> u32 {
        self.parts.iter().map(|part| part.answered.min(part.required)).sum()
    }

    /// How many answers are required.
    pub fn required(&self) -> u32 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.required))
    }

    /// How many have failed that would have counted.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// The first part that cannot be met by those that are alive.
    fn check(&self, candidates: &[Candidate]) -> Result<(), Unavailable> {
        for part in &self.parts {
            let mut counted = candidates.iter().filter(|one| part.scope.counts(one)).peekable();
            if part.scope == Scope::Local && counted.peek().is_none() {
                return Err(Unavailable { required: 0, alive: 0 });
            }
            let alive = counted.filter(|one| one.is_alive);
            let (required, alive) = (part.required, alive.count() as u32);
            if alive < required {
                return Err(Unavailable { required, alive });
            }
        }
        Ok(())
    }
}

/// Of a write to all replicas that are alive, nearest first: who is waited for (*both-sides*).
pub fn plan_write(
    level: Consistency,
    factors: &Factors,
    candidates: &[Candidate],
) -> Result<Tally, Unavailable> {
    let mut tally = Tally::of(level, factors);
    for beside in candidates.iter().filter(|one| one.writes_only) {
        for part in tally.parts.iter_mut().filter(|part| part.scope.counts(beside)) {
            part.required += 1;
        }
    }
    let beside = candidates.iter().filter(|one| one.writes_only).count() as u32;
    let more = tally.required().saturating_sub(Tally::required_of(level, factors));
    debug_assert!(more <= beside, "both-sides: {more} more for {beside} beside");
    tally.check(candidates)?;
    candidates.iter().filter(|one| one.is_alive).for_each(|one| tally.wait_for(one));
    debug_assert!(!tally.is_lost(), "enough-is-enough: {tally:?} of {candidates:?}");
    Ok(tally)
}

/// Whom a read asks.
#[derive(Debug, PartialEq, Eq)]
pub struct ReadPlan {
    /// By their places among the candidates; the nearest is the first.
    pub asked: SmallVec<[usize; 4]>,
    /// Those that are alive besides, and count.
    spares: SmallVec<[usize; 4]>,
    pub tally: Tally,
}

/// See [`Tally`].
impl Clone for ReadPlan {
    fn clone(&self) -> ReadPlan {
        let [asked, spares] = [&self.asked, &self.spares].map(|it| SmallVec::from_slice(it));
        ReadPlan { asked, spares, tally: self.tally.clone() }
    }
}

/// Of a read: the nearest that are alive, as many as are required.
pub fn plan_read(
    level: Consistency,
    factors: &Factors,
    candidates: &[Candidate],
) -> Result<ReadPlan, Unavailable> {
    let mut tally = Tally::of(level, factors);
    debug_assert!(!candidates.iter().any(|one| one.writes_only), "both-sides: it is not read");
    tally.check(candidates)?;
    let (mut asked, mut spares) = (SmallVec::new(), SmallVec::new());
    for (index, candidate) in candidates.iter().enumerate().filter(|(_, one)| one.is_alive) {
        let parts = tally.parts.iter().filter(|part| part.scope.counts(candidate));
        let mut counts = false;
        let mut wanted = false;
        for part in parts {
            counts = true;
            wanted |= part.waited_for < part.required;
        }
        if wanted {
            tally.wait_for(candidate);
            asked.push(index);
        } else if counts {
            spares.push(index);
        }
    }
    debug_assert!(!tally.is_lost(), "nearest-first: {tally:?} of {candidates:?}");
    debug_assert!(asked.is_sorted(), "nearest-first: {asked:?}");
    Ok(ReadPlan { asked, spares, tally })
}

impl ReadPlan {
    /// The same read of these, of whom enough were asked before, with another question. Who was
    /// asked besides and is not waited for any more can take the place of another.
    pub fn again(&self, who: &[usize], candidates: &[Candidate]) -> ReadPlan {
        let mut tally = self.tally.clone();
        tally.failures = 0;
        for part in &mut tally.parts {
            (part.answered, part.waited_for) = (0, 0);
        }
        who.iter().for_each(|index| tally.wait_for(&candidates[*index]));
        debug_assert!(!tally.is_lost(), "enough-is-enough: {tally:?} of {who:?}");
        let besides = self.asked.iter().filter(|asked| !who.contains(asked));
        let mut spares: SmallVec<[usize; 4]> = self.spares.iter().chain(besides).copied().collect();
        spares.sort_unstable();
        debug_assert!(spares.iter().all(|spare| !who.contains(spare)), "counted-once: {spares:?}");
        ReadPlan { asked: SmallVec::from_slice(who), spares, tally }
    }

    /// Whether there is a replica to take the place of another.
    pub fn has_spares(&self) -> bool {
        !self.spares.is_empty()
    }

    /// The same read, of which nobody has answered yet, without those that have failed and with
    /// spares in their places; nothing where there are too few.
    pub fn without(&self, failed: &[usize], candidates: &[Candidate]) -> Option<ReadPlan> {
        let mut plan = self.clone();
        for one in failed {
            debug_assert!(plan.asked.contains(one), "counted-once: {one} has failed unasked");
            plan.asked.retain(|asked| asked != one);
            plan.tally.fail(&candidates[*one]);
            plan.replace(candidates, Some(*one));
        }
        (!plan.tally.is_lost()).then_some(plan)
    }

    /// The nearest spare that counts where the candidate does (any, where none is given); from now
    /// on it is waited for.
    pub fn replace(&mut self, candidates: &[Candidate], of: Option<usize>) -> Option<usize> {
        let parts = &self.tally.parts;
        let counts_with = |spare: &usize| match of {
            None => true,
            Some(of) => parts.iter().any(|part| {
                part.scope.counts(&candidates[of]) && part.scope.counts(&candidates[*spare])
            }),
        };
        let at = self.spares.iter().position(counts_with)?;
        let spare = self.spares.remove(at);
        debug_assert!(!self.asked.contains(&spare), "counted-once: {spare} is asked already");
        self.asked.push(spare);
        self.tally.wait_for(&candidates[spare]);
        Some(spare)
    }
}

#[cfg(test)]
mod tests;
