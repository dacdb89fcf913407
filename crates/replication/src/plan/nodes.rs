//! Which of several nodes are asked, and when enough of them have answered. Pure.
//!
//! Invariants
//!  - *enough-is-enough*: a tally is met exactly when each of its parts has as many answers as the
//!    level requires of it, and lost exactly when one of them cannot have any more.
//!  - *nearest-first*: a read asks the nearest replicas that are alive, as many as the level
//!    requires of each part, and nobody whom the level does not count.
//!  - *both-sides*: while replicas move, a write meets its level among those that are read, and
//!    among those that will be or were read. One that is on both sides counts on both.
//!  - *of-its-own*: on a side a level is of as many copies as there are, where these are more than
//!    what is wanted: any two quorums of a side meet, whatever number it is to have.
//!  - *counted-once*: a replica is waited for, has answered, or has failed.

use super::quorum;
use crate::options::Consistency;
use cluster::placement::Sides;
use smallvec::SmallVec;
use std::fmt;
use std::rc::Rc;

/// A replica, as far as plans are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its data centre.
    pub dc: u16,
    pub is_local_dc: bool,
    pub is_alive: bool,
    pub sides: Sides,
}

/// The replicas of a token, nearest first: shared by the requests that a plan is remembered for.
pub type Candidates = Rc<[Candidate]>;

/// How many copies of a side levels are of: at least what is wanted, however many nodes there are
/// for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factors {
    pub total: u32,
    /// In the data centre of this node.
    pub local: u32,
    /// In each data centre, of those that have copies; without the number of one that has no node.
    /// Only looked at for EACH_QUORUM; empty: copies are not counted by data centre.
    pub each: Vec<(Option<u16>, u32)>,
}

/// Of a write: those of the side that is read, and of the other one where replicas move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BothSides {
    pub read: Factors,
    pub beside: Option<Factors>,
}

impl From<Factors> for BothSides {
    fn from(read: Factors) -> BothSides {
        BothSides { read, beside: None }
    }
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
    /// Of the side that is not read.
    is_beside: bool,
    required: u32,
    answered: u32,
    waited_for: u32,
}

impl Part {
    fn counts(&self, candidate: &Candidate) -> bool {
        let is_on = match self.is_beside {
            false => candidate.sides.is_read(),
            true => candidate.sides.is_written_beside(),
        };
        is_on && self.scope.counts(candidate)
    }
}

/// Who has answered.
#[derive(PartialEq, Eq)]
pub struct Tally {
    /// One a side, but for EACH_QUORUM; first those of the side that is read.
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
        let mut tally = Tally { parts: SmallVec::new(), failures: 0 };
        tally.add(level, factors, false);
        tally
    }

    /// Adds what a level requires of a side.
    fn add(&mut self, level: Consistency, factors: &Factors, is_beside: bool) {
        let in_order = is_beside || self.parts.iter().all(|part| !part.is_beside);
        debug_assert!(in_order, "both-sides: the side that is read comes first, {:?}", self.parts);
        let part =
            |scope, required| Part { scope, is_beside, required, answered: 0, waited_for: 0 };
        let one = match level {
            Consistency::Any | Consistency::One => part(Scope::All, 1),
            Consistency::Two => part(Scope::All, 2),
            Consistency::Three => part(Scope::All, 3),
            Consistency::Quorum | Consistency::Serial => part(Scope::All, quorum(factors.total)),
            Consistency::All => part(Scope::All, factors.total),
            Consistency::LocalOne => part(Scope::Local, 1),
            Consistency::LocalQuorum | Consistency::LocalSerial => {
                part(Scope::Local, quorum(factors.local))
            }
            Consistency::EachQuorum if factors.each.is_empty() => {
                part(Scope::All, quorum(factors.total))
            }
            Consistency::EachQuorum => {
                let each = factors.each.iter().filter(|(_, copies)| 0 < *copies);
                let each = each.map(|(dc, copies)| (Scope::DataCenter(*dc), quorum(*copies)));
                return self.parts.extend(each.map(|(scope, required)| part(scope, required)));
            }
        };
        // A data centre that is to have no copies any more is not asked for more of them.
        if !is_beside || one.scope == Scope::All || 0 < factors.local {
            self.parts.push(one);
        }
    }

    /// How many answers a level requires, whoever there is.
    pub fn required_of(level: Consistency, factors: &Factors) -> u32 {
        Tally::of(level, factors).required()
    }

    /// One more is waited for.
    pub fn wait_for(&mut self, candidate: &Candidate) {
        for part in self.parts.iter_mut().filter(|part| part.counts(candidate)) {
            part.waited_for += 1;
        }
    }

    /// One that was waited for has answered.
    pub fn acknowledge(&mut self, candidate: &Candidate) {
        for part in self.parts.iter_mut().filter(|part| part.counts(candidate)) {
            assert!(0 < part.waited_for, "counted-once: an answer of nobody, {part:?}");
            part.waited_for -= 1;
            part.answered += 1;
        }
        debug_assert!(self.received() <= self.required(), "enough-is-enough: {self:?}");
    }

    /// One that was waited for will not answer.
    pub fn fail(&mut self, candidate: &Candidate) {
        for part in self.parts.iter_mut().filter(|part| part.counts(candidate)) {
            assert!(0 < part.waited_for, "counted-once: a failure of nobody, {part:?}");
            part.waited_for -= 1;
        }
        debug_assert!(!(self.is_met() && self.is_lost()), "enough-is-enough: {self:?}");
        self.failures += u32::from(self.parts.iter().any(|part| part.counts(candidate)));
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
        self.told().map(|part| part.answered.min(part.required)).sum()
    }

    /// How many answers are required.
    pub fn required(&self) -> u32 {
        self.told().fold(0, |sum, part| sum.saturating_add(part.required))
    }

    /// The parts of a side, for people: of the one that is not read only where nothing else is
    /// missing.
    fn told(&self) -> impl Iterator<Item = &Part> {
        let is_met = |part: &Part| part.required <= part.answered;
        let missing = self.parts.iter().find(|part| !is_met(part));
        let is_beside = missing.is_some_and(|part| part.is_beside);
        self.parts.iter().filter(move |part| part.is_beside == is_beside)
    }

    /// How many have failed that would have counted.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// The first part that cannot be met by those that are alive.
    fn check(&self, candidates: &[Candidate]) -> Result<(), Unavailable> {
        for part in &self.parts {
            let mut counted = candidates.iter().filter(|one| part.counts(one)).peekable();
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
    factors: &BothSides,
    candidates: &[Candidate],
) -> Result<Tally, Unavailable> {
    let mut tally = Tally::of(level, &factors.read);
    if let Some(beside) = &factors.beside {
        tally.add(level, beside, true);
    }
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
    debug_assert!(candidates.iter().all(|one| one.sides.is_read()), "both-sides: it is not read");
    tally.check(candidates)?;
    let (mut asked, mut spares) = (SmallVec::new(), SmallVec::new());
    for (index, candidate) in candidates.iter().enumerate().filter(|(_, one)| one.is_alive) {
        let parts = tally.parts.iter().filter(|part| part.counts(candidate));
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
            Some(of) => parts
                .iter()
                .any(|part| part.counts(&candidates[of]) && part.counts(&candidates[*spare])),
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
