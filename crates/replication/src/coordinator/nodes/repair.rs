//! A read of mutations, and what becomes of replicas that differ: each is sent what it lacks of
//! what the others have, and the answer waits until as many have all of it as the level requires.
//! So a later read sees what this one has shown.
//!
//! Invariants
//!  - *shown-is-there*: what a read shows that met differences is on as many replicas as its level
//!    requires.

use super::gather::{Answers, Copies, Reading};
use super::peers::{Answer, Asked, Question, Told, left};
use super::{Coordinator, Planted};
use crate::error::ReadError;
use crate::flock::Flock;
use crate::plan::nodes::ReadPlan;
use crate::reconcile;
use crate::stretch::Stretch;
use crate::wire::RefusalKind;
use mutation::FrozenMutation;
use mutation::page::{Page, ReadCommand, RowShape};

/// How many times replicas are asked for more for one page: then it is shorter than it could be.
const ROUNDS_MAX: u32 = 16;

impl Coordinator {
    /// A page of what the replicas have together.
    pub(super) async fn read_mutations(
        &self,
        reading: &Reading<'_>,
        copies: &Copies,
        mut plan: ReadPlan,
        command: &ReadCommand,
    ) -> Result<Page, ReadError> {
        let schema = &reading.table.schema;
        let mut all: Vec<FrozenMutation> = Vec::new();
        let mut next = ReadCommand { shape: RowShape::Whole, ..command.clone() };
        for round in 1.. {
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
            let again = plan.again(&who, &copies.candidates);
            if !self.is_planted(Planted::KeepsRepairs) {
                self.write_back(reading, copies, (again.clone(), &who), merged.repairs).await?;
            }
            reconcile::append(schema, &mut all, merged.mutations);
            let (page, is_cut) = reconcile::page(schema, command, &all, merged.reached.as_ref());
            match merged.reached {
                Some(_) if self.is_planted(Planted::TakesShortReads) => {
                    return Ok(Page { resume: None, ..page });
                }
                Some(reached) if is_cut && round < ROUNDS_MAX => {
                    next = reconcile::rest(command, &page, &reached);
                    next.shape = RowShape::Whole;
                    plan = again;
                }
                _ => return Ok(page),
            }
        }
        unreachable!("shown-is-there: rounds are counted")
    }

    /// Sends to each replica what it lacks.
    async fn write_back(
        &self,
        reading: &Reading<'_>,
        copies: &Copies,
        (plan, who): (ReadPlan, &[usize]),
        repairs: Vec<Vec<FrozenMutation>>,
    ) -> Result<(), ReadError> {
        assert!(who.len() == repairs.len(), "shown-is-there: repairs of other replicas");
        let mut tally = plan.tally;
        let mut flock = Flock::new();
        let background = &self.nodes.background;
        for (index, repair) in who.iter().zip(repairs) {
            if repair.is_empty() {
                tally.acknowledge(&copies.candidates[*index]);
                continue;
            }
            background.repairs.set(background.repairs.get() + 1);
            flock.push(async move {
                let told = Told::new(repair);
                let time = left(reading.until);
                (*index, self.tell(&copies.replicas[*index], &told, time).await)
            });
        }
        let consistency = reading.level;
        while !tally.is_met() {
            let Some((index, told)) = flock.next().await else { break };
            let Err(refusal) = told else {
                tally.acknowledge(&copies.candidates[index]);
                continue;
            };
            tally.fail(&copies.candidates[index]);
            if tally.is_lost() {
                let (received, required) = (tally.received(), tally.required());
                let data_present = true;
                return Err(match refusal.kind {
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
                });
            }
        }
        debug_assert!(tally.is_met(), "shown-is-there: {tally:?}");
        Ok(())
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
