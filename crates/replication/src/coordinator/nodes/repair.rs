//! A read of mutations, and what becomes of replicas that differ: each is sent what it lacks of
//! what the others have, and the answer waits until as many have all of it as the level requires.
//! So a later read sees what this one has shown.
//!
//! A replica that does not take what it lacks, since its disk is full or it has died meanwhile,
//! holds nobody up where there is another one: that one is read and brought up to date in its
//! place.
//!
//! Invariants
//!  - *shown-is-there*: what a read shows that met differences is on as many replicas as its level
//!    requires.
//!  - *each-once*: a replica that did not take what it lacks is not asked again: a read ends.

use super::gather::{Answers, Copies, Reading};
use super::peers::{Answer, Asked, Question, Told, left};
use super::{Coordinator, Planted};
use crate::error::ReadError;
use crate::flock::Flock;
use crate::plan::nodes::{ReadPlan, Tally};
use crate::reconcile;
use crate::stretch::Stretch;
use crate::wire::{Refusal, RefusalKind};
use mutation::FrozenMutation;
use mutation::page::{Page, ReadCommand, RowShape};
use smallvec::SmallVec;

/// How many times replicas are asked for more for one page: then it is shorter than it could be.
const ROUNDS_MAX: u32 = 16;

/// What the replicas have together.
pub(super) struct Merged {
    pub(super) page: Page,
    /// All of what the command reads; `None`: it is too much for one answer.
    pub(super) whole: Option<Vec<FrozenMutation>>,
}

impl Merged {
    fn part(page: Page) -> Merged {
        Merged { page, whole: None }
    }
}

impl Coordinator {
    /// What the replicas have together.
    pub(super) async fn read_mutations(
        &self,
        reading: &Reading<'_>,
        copies: &Copies,
        mut plan: ReadPlan,
        command: &ReadCommand,
    ) -> Result<Merged, ReadError> {
        let schema = &reading.table.schema;
        let mut all: Vec<FrozenMutation> = Vec::new();
        let mut next = ReadCommand { shape: RowShape::Whole, ..command.clone() };
        let (mut round, mut lacks) = (1, false);
        loop {
            let mut request = Asked::new(reading.table, &next, reading.until);
            if round == 1 && schema.is_counter() {
                // Others are compared first, and were counted then.
                request.limit = reading.limit_among(&copies.replicas);
            }
            let questions = (Question::Mutations, Question::Mutations);
            let answers = self.gather(reading, copies, &mut plan, questions, &request).await?;
            let (who, stretches) = by_replica(answers);
            assert!(!who.is_empty(), "shown-is-there: nobody has answered");
            assert!(round <= ROUNDS_MAX, "bounded: {round} rounds");
            let merged = reconcile::merge(schema, &next, &stretches);
            if !lacks && merged.repairs.iter().any(|repair| !repair.is_empty()) {
                let lacking = &self.nodes.background.lacking;
                lacking.set(lacking.get() + 1);
                lacks = true;
            }
            let again = plan.again(&who, &copies.candidates);
            if !self.is_planted(Planted::KeepsRepairs)
                && let Err((failed, error)) =
                    self.write_back(reading, copies, (&again, &who), merged.repairs).await
            {
                match again.without(&failed, &copies.candidates) {
                    Some(others) => plan = others,
                    None => return Err(error),
                }
                stdx::probe!("another replica is brought up to date in place of one that fails");
                continue;
            }
            reconcile::append(schema, &mut all, merged.mutations);
            let (page, is_cut) = reconcile::page(schema, command, &all, merged.reached.as_ref());
            match merged.reached {
                Some(_) if self.is_planted(Planted::TakesShortReads) => {
                    return Ok(Merged::part(Page { resume: None, ..page }));
                }
                Some(reached) if is_cut && round < ROUNDS_MAX => {
                    next = reconcile::rest(command, &page, &reached);
                    next.shape = RowShape::Whole;
                    plan = again;
                    round += 1;
                }
                None if page.resume.is_none() => return Ok(Merged { page, whole: Some(all) }),
                _ => return Ok(Merged::part(page)),
            }
        }
    }

    /// Sends to each replica what it lacks. Where too few have taken it: who has failed, and the
    /// error of the read if no others take their places.
    async fn write_back(
        &self,
        reading: &Reading<'_>,
        copies: &Copies,
        (plan, who): (&ReadPlan, &[usize]),
        repairs: Vec<Vec<FrozenMutation>>,
    ) -> Result<(), (SmallVec<[usize; 2]>, ReadError)> {
        assert!(who.len() == repairs.len(), "shown-is-there: repairs of other replicas");
        let (mut tally, mut failed) = (plan.tally.clone(), SmallVec::new());
        let mut flock = Flock::new();
        let background = &self.nodes.background;
        for (index, repair) in who.iter().zip(repairs) {
            if repair.is_empty() {
                tally.acknowledge(&copies.candidates[*index]);
                continue;
            }
            background.repairs.set(background.repairs.get() + 1);
            // Whoever takes the place of one that is silent needs time, too.
            let time = left(reading.until) / if plan.has_spares() { 2 } else { 1 };
            flock.push(async move {
                let told = Told::new(repair);
                (*index, self.tell(&copies.replicas[*index], &told, time).await)
            });
        }
        while !tally.is_met() {
            let Some((index, told)) = flock.next().await else { break };
            let Err(refusal) = told else {
                tally.acknowledge(&copies.candidates[index]);
                continue;
            };
            tally.fail(&copies.candidates[index]);
            failed.push(index);
            if tally.is_lost() {
                return Err((failed, unrepaired(reading, &tally, refusal)));
            }
        }
        debug_assert!(tally.is_met(), "shown-is-there: {tally:?}");
        Ok(())
    }
}

/// Why a read ends whose replicas differ and do not take what they lack.
fn unrepaired(reading: &Reading<'_>, tally: &Tally, refusal: Refusal) -> ReadError {
    let (consistency, data_present) = (reading.level, true);
    let (received, required) = (tally.received(), tally.required());
    debug_assert!(received < required, "shown-is-there: {tally:?} is enough");
    match refusal.kind {
        RefusalKind::TimedOut => {
            ReadError::Timeout { consistency, received, required, data_present }
        }
        _ => ReadError::Failure {
            consistency,
            received,
            required,
            failures: tally.failures(),
            data_present,
            reason: refusal.text,
        },
    }
}

fn by_replica(answers: Answers) -> (Vec<usize>, Vec<Stretch>) {
    let stretches = answers.into_iter().filter_map(|(index, answer)| match answer {
        Answer::Stretch(stretch) => Some((index, stretch)),
        _ => None,
    });
    let (who, stretches): (Vec<usize>, Vec<Stretch>) = stretches.unzip();
    debug_assert!(who.len() == stretches.len(), "shown-is-there: {who:?}");
    (who, stretches)
}
