//! What a recovery would do, or has done, for operators. Pure.
//!
//! Invariants
//!  - *asked-now*: what is said of a node is what it answered to this question.
//!  - *says-why*: where nothing can be done, or nothing has to be, the report says why.

use super::decide::{Plan, Standing, is_unfinished};
use model::Uuid;
use std::collections::{BTreeMap, BTreeSet};

/// A node that has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivor {
    pub host_id: Uuid,
    /// The generation of the group that it is in.
    pub generation: u64,
    /// The term that it knows; term and index of the last entry that it has, and up to where it has
    /// applied.
    pub term: u64,
    pub last_term: u64,
    pub last_index: u64,
    pub applied: u64,
    /// Whom it follows, if anybody.
    pub leader: Option<Uuid>,
    /// It has left its generation for one that was not begun yet, or that it has not heard of.
    pub is_between: bool,
}

/// What a recovery would do, or has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Of the group now, as the node that was asked knows it.
    pub group: Uuid,
    pub generation: u64,
    /// Those that answer, by host id.
    pub survivors: Vec<Survivor>,
    /// Those that do not, and are not said to be lost.
    pub silent: Vec<Uuid>,
    /// Those that are said to be lost; where nobody was named, those that do not answer.
    pub lost: Vec<Uuid>,
    /// Who would begin the next generation.
    pub leader: Option<Uuid>,
    /// How many have to agree.
    pub needed: usize,
    /// Why it is not done.
    pub refused: Option<String>,
    /// What was done.
    pub done: Option<String>,
}

/// What this node has found out.
#[derive(Debug)]
pub(super) struct Survey<'s> {
    pub(super) me: Uuid,
    /// How those that answer stand, this node among them.
    pub(super) all: &'s BTreeMap<Uuid, Standing>,
    /// Who was named as lost.
    pub(super) named: &'s BTreeSet<Uuid>,
}

impl Survey<'_> {
    fn own(&self) -> &Standing {
        &self.all[&self.me]
    }

    /// All that anybody knows.
    pub(super) fn known(&self) -> BTreeSet<Uuid> {
        let known = self.all.values().flat_map(|standing| standing.known.iter().copied());
        let before = self.lost_before();
        let known = known.filter(|host_id| !before.contains(host_id));
        let known: BTreeSet<Uuid> = known.chain(self.all.keys().copied()).collect();
        debug_assert!(known.contains(&self.me), "asked-now: {} is not there", self.me);
        known
    }

    /// Who was declared lost before: some that answer may not know it.
    fn lost_before(&self) -> BTreeSet<Uuid> {
        self.all.values().flat_map(|of| of.generation.lost.iter().copied()).collect()
    }

    /// Who is left out: those that were named, or whoever does not answer.
    pub(super) fn lost(&self) -> BTreeSet<Uuid> {
        match self.named.is_empty() {
            true => self.known().into_iter().filter(|it| !self.all.contains_key(it)).collect(),
            false => self.named.clone(),
        }
    }

    /// Whether a recovery was begun that has to be ended.
    pub(super) fn resumes(&self) -> bool {
        is_unfinished(self.all.values())
    }

    /// Who has the most.
    pub(super) fn best(&self) -> Uuid {
        let most = |(id, standing): &(&Uuid, &Standing)| (standing.position, **id == self.me, **id);
        let best = self.all.iter().max_by_key(most).map(|(id, _)| *id);
        let best = best.unwrap_or(self.me);
        debug_assert!(self.all.contains_key(&best), "asked-now: {best} has not answered");
        best
    }

    /// What its candidate asks for.
    pub(super) fn plan(&self, number: u64) -> Plan {
        let lost = &self.lost() | &self.lost_before();
        let (best, known) = (self.best(), self.known());
        Plan {
            number,
            candidate: best,
            position: self.all[&best].position,
            survivors: known.difference(&lost).copied().collect(),
            lost,
            resumes: self.resumes(),
        }
    }

    pub(super) fn report(&self) -> Report {
        let (own, lost) = (self.own(), self.lost());
        let known = self.known();
        debug_assert!(!self.all.is_empty(), "asked-now: nobody has answered");
        let silent = known.iter().filter(|it| !self.all.contains_key(it) && !lost.contains(it));
        let survivor = |(host_id, standing): (&Uuid, &Standing)| Survivor {
            host_id: *host_id,
            generation: standing.generation.number,
            term: standing.term,
            last_term: standing.position.term,
            last_index: standing.position.index,
            applied: standing.applied,
            leader: standing.leader,
            is_between: standing.is_silent(),
        };
        let (best, refused) = (self.best(), self.refuses().err());
        let knows_voters = self.all.values().any(|standing| !standing.voters.is_empty());
        debug_assert!(
            refused.is_some() || !lost.is_empty() || self.resumes() || !knows_voters,
            "says-why: nothing is lost, and nothing is said"
        );
        Report {
            group: own.generation.group,
            generation: own.generation.number,
            survivors: self.all.iter().map(survivor).collect(),
            silent: silent.copied().collect(),
            lost: lost.iter().copied().collect(),
            leader: Some(best),
            needed: self.plan(0).needed(&self.all[&best]),
            refused,
            done: None,
        }
    }

    /// Why this cannot be done, or has not to be. *says-why*
    fn refuses(&self) -> Result<(), String> {
        let answering: BTreeSet<Uuid> = self.all.keys().copied().collect();
        if let Some(alive) = self.named.intersection(&answering).next() {
            return Err(format!(
                "node {alive} is said to be lost, and answers: stop it for good first, or do not \
                 name it"
            ));
        }
        let known = self.known();
        let before = self.lost_before();
        if let Some(other) = self.named.difference(&known).find(|it| !before.contains(it)) {
            return Err(format!("nobody that answers knows a node {other}"));
        }
        if !self.resumes() {
            let leads = self.all.values().find_map(|standing| standing.leader);
            if let Some(leader) = leads {
                return Err(format!(
                    "node {leader} leads the group, which has a majority: nothing is lost"
                ));
            }
            let silent: BTreeSet<Uuid> = known.difference(&answering).copied().collect();
            if self.all.values().any(|standing| standing.may_decide(&silent)) {
                return Err(
                    "a majority of the voters answers: nothing is lost. They will have a leader \
                     soon"
                        .to_owned(),
                );
            }
            let lost = self.lost();
            if self.all.values().any(|standing| standing.may_decide(&lost)) {
                return Err(
                    "those that are not said to be lost may be a majority: start them, or name \
                     all that are lost"
                        .to_owned(),
                );
            }
        }
        let needed = self.plan(0).needed(&self.all[&self.best()]);
        match answering.len() < needed {
            true => Err(format!(
                "{} of those that are left answer, and {needed} have to agree: start the others, \
                 or name them as lost",
                answering.len()
            )),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::decide::{Generation, Position, Promise};
    use super::*;

    fn id(number: u128) -> Uuid {
        Uuid::from_u128(number)
    }

    /// Node `number` of five that vote, with so many entries.
    fn standing(index: u64) -> Standing {
        let all: BTreeSet<Uuid> = (1..=5).map(id).collect();
        Standing {
            generation: Generation::first(id(99)),
            promised: None,
            position: Position { generation: 0, term: 3, index },
            term: 7,
            applied: index,
            leader: None,
            voters: vec![all.clone()],
            known: all,
            last_timestamp: 1,
        }
    }

    #[track_caller]
    fn check(all: &[(u128, Standing)], named: &[u128], expected: Option<&str>) -> Report {
        let all = all.iter().map(|(number, standing)| (id(*number), standing.clone())).collect();
        let named = named.iter().map(|number| id(*number)).collect();
        let report = Survey { me: id(1), all: &all, named: &named }.report();
        match (expected, &report.refused) {
            (None, None) => {}
            (Some(part), Some(why)) => assert!(why.contains(part), "{why}"),
            _ => panic!("{report:?}"),
        }
        report
    }

    #[test]
    fn a_report_says_what_is_left_and_who_would_lead() {
        let (one, two) = ((1, standing(8)), (2, standing(9)));
        let two_left = [one.clone(), two.clone()];
        let report = check(&two_left, &[], None);
        assert_eq!((report.leader, report.needed), (Some(id(2)), 2));
        assert_eq!((report.lost, report.silent), (vec![id(3), id(4), id(5)], vec![]));
        let report = check(&two_left, &[3, 4], Some("may be a majority"));
        assert_eq!((report.lost, report.silent), (vec![id(3), id(4)], vec![id(5)]));
        check(&two_left, &[3, 4, 5], None);
        check(&two_left, &[2, 3, 4, 5], Some("is said to be lost, and answers"));
        check(&two_left, &[3, 4, 5, 6], Some("nobody that answers knows"));
        let three = [one.clone(), two.clone(), (3, standing(9))];
        check(&three, &[4, 5], Some("a majority of the voters answers"));
        let mut led = standing(9);
        led.leader = Some(id(2));
        check(&[one.clone(), (2, led)], &[3, 4, 5], Some("leads the group"));
        check(
            std::slice::from_ref(&one),
            &[3, 4, 5],
            Some("1 of those that are left answer, and 2"),
        );
        check(std::slice::from_ref(&one), &[2, 3, 4, 5], None);
        // One that was begun is ended, though all live.
        let mut between = standing(9);
        between.promised = Some(Promise { number: 1, candidate: id(1) });
        let all = [one, (2, between), (3, standing(9)), (4, standing(9)), (5, standing(9))];
        let report = check(&all, &[], None);
        assert_eq!((report.needed, report.lost.len()), (3, 0));
        assert!(report.survivors[1].is_between && !report.survivors[0].is_between);
    }
}
