//! Questions to several replicas, until as many have answered as the level requires.
//!
//! A replica that fails is replaced at once by another one that is alive; one that is late, as the
//! table's `speculative_retry` says, is joined by another one, and whoever is first counts.
//!
//! Invariants
//!  - *data-and-digests*: of a read that compares pages one replica is asked for its page, and so
//!    are those that come in while no page is there.

use super::Coordinator;
use super::peers::{Answer, Asked, Question, left};
use crate::error::ReadError;
use crate::flock::Flock;
use crate::options::Consistency;
use crate::placement::Replica;
use crate::plan::nodes::{Candidate, ReadPlan};
use crate::wire::{Refusal, RefusalKind};
use cluster::TableEntry;
use cluster::traffic::Work;
use model::TableId;
use runtime::task::{Either, race};
use runtime::time::{Instant, sleep_until};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// A replica is late after this where the table asks for a percentile, until enough reads have been
/// measured.
const LATE_AFTER: Duration = Duration::from_millis(50);
/// It is not late before this, however fast others are.
const LATE_AFTER_MIN: Duration = Duration::from_millis(1);
/// For how long a measured percentile holds, of how many reads it is, and of how many tables it is
/// kept.
const MEASURED_FOR: Duration = Duration::from_secs(10);
const MEASURED_MIN: u64 = 100;
const TABLES_MAX: usize = 1024;
/// Of several replicas that fail, no more reasons are told than make a text so long.
const REASON_BYTES_MAX: usize = 512;

/// When another replica is asked besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    Never,
    Always,
    After(Duration),
    /// After what so many thousandths of a per cent of the table's reads have taken.
    Percentile(u32),
}

impl Retry {
    /// As the table's option says: `NONE`, `ALWAYS`, `50.00ms`, `99.0PERCENTILE`.
    pub(super) fn of(option: &str) -> Retry {
        let option = option.trim().to_ascii_lowercase();
        if let Some(number) = option.strip_suffix("ms").and_then(|it| it.parse::<f64>().ok()) {
            let millis = number.clamp(0.0, 3_600_000.0);
            return Retry::After(Duration::from_micros((millis * 1000.0) as u64));
        }
        match &option[..] {
            "none" | "never" => Retry::Never,
            "always" => Retry::Always,
            other => {
                let number = other.strip_suffix("percentile").or(other.strip_suffix('p'));
                let percent = number.and_then(|it| it.parse::<f64>().ok()).unwrap_or(99.0);
                Retry::Percentile((percent.clamp(0.0, 100.0) * 1000.0) as u32)
            }
        }
    }
}

/// What is known of a read that is under way, for its error.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) received: Cell<u32>,
    pub(super) required: Cell<u32>,
    pub(super) data_present: Cell<bool>,
}

/// A read of replicas.
pub(super) struct Reading<'a> {
    pub(super) table: &'a TableEntry,
    pub(super) level: Consistency,
    pub(super) until: Instant,
    pub(super) retry: Retry,
    pub(super) progress: &'a Progress,
}

/// Who can be asked.
pub(super) struct Copies {
    pub(super) replicas: Rc<[Replica]>,
    pub(super) candidates: Vec<Candidate>,
}

/// Answers by the place of their replica.
pub(super) type Answers = Vec<(usize, Answer)>;

impl Coordinator {
    /// Asks those whom the plan names, and those who take their places.
    pub(super) async fn gather(
        &self,
        reading: &Reading<'_>,
        copies: &Copies,
        plan: &mut ReadPlan,
        (first, others): (Question, Question),
        asked: &Asked<'_>,
    ) -> Result<Answers, ReadError> {
        let mut state = Gathering::new(first, others);
        let mut flock = Flock::new();
        let ask = async |index: usize, question: Question| {
            (index, question, self.ask(&copies.replicas[index], question, asked).await)
        };
        reading.progress.required.set(plan.tally.required());
        reading.progress.received.set(0);
        for index in plan.asked.clone() {
            flock.push(ask(index, state.question()));
        }
        let mut late_at = self.late_after(reading).map(|span| Instant::now() + span);
        while !(plan.tally.is_met() && state.has_first()) {
            let Some(ended) = next(&mut flock, late_at).await else {
                late_at = None;
                if let Some(spare) = plan.replace(&copies.candidates, None) {
                    flock.push(ask(spare, state.question_besides()));
                }
                continue;
            };
            let Some((index, question, answered)) = ended else {
                return Err(state.failed(reading, plan));
            };
            let candidate = &copies.candidates[index];
            match answered {
                Ok(answer) => {
                    plan.tally.acknowledge(candidate);
                    state.answers.push((index, answer));
                }
                Err(refusal) => {
                    plan.tally.fail(candidate);
                    state.refused(question, refusal);
                    if let Some(spare) = plan.replace(&copies.candidates, Some(index)) {
                        flock.push(ask(spare, state.question()));
                    } else if plan.tally.is_lost() {
                        return Err(state.failed(reading, plan));
                    }
                }
            }
            reading.progress.received.set(plan.tally.received());
            reading.progress.data_present.set(state.has_first());
        }
        debug_assert!(state.has_first(), "data-and-digests: nobody has sent what is compared");
        debug_assert!(!plan.tally.is_lost(), "acknowledged-at-level: {:?}", plan.tally);
        Ok(state.answers)
    }
}

/// How long reads of tables take, as it was measured last.
pub(super) type Spans = RefCell<BTreeMap<TableId, (Instant, Duration)>>;

impl Coordinator {
    /// After what time a replica is late, if ever.
    fn late_after(&self, reading: &Reading<'_>) -> Option<Duration> {
        let most = left(reading.until) / 2;
        let span = match reading.retry {
            Retry::Never => return None,
            Retry::Always => Duration::ZERO,
            Retry::After(span) => span,
            Retry::Percentile(part) => self.measured(reading.table, part).min(most),
        };
        debug_assert!(span <= Duration::from_secs(3600), "late after {span:?}");
        Some(span)
    }

    /// What so many thousandths of a per cent of a table's reads took, of late.
    fn measured(&self, table: &TableEntry, part: u32) -> Duration {
        let (id, now) = (table.schema.id, Instant::now());
        let mut spans = self.nodes.spans.borrow_mut();
        if let Some((at, span)) = spans.get(&id)
            && now - *at < MEASURED_FOR
        {
            return *span;
        }
        let taken = table.local.traffic.taken(Work::Read).map(|taken| taken.recent);
        let span = match taken.filter(|recent| MEASURED_MIN <= recent.count()) {
            Some(recent) => Duration::from_nanos(recent.quantile(f64::from(part) / 100_000.0)),
            None => LATE_AFTER,
        };
        if TABLES_MAX <= spans.len() {
            spans.clear();
        }
        let span = span.max(LATE_AFTER_MIN);
        spans.insert(id, (now, span));
        debug_assert!(spans.len() <= TABLES_MAX, "the spans of {} tables", spans.len());
        span
    }
}

/// What ends next, or nothing if that takes too long.
async fn next<T>(flock: &mut Flock<'_, T>, late_at: Option<Instant>) -> Option<Option<T>> {
    let Some(late_at) = late_at else { return Some(flock.next().await) };
    match race(flock.next(), sleep_until(late_at)).await {
        Either::Left(ended) => Some(ended),
        Either::Right(()) => None,
    }
}

/// What was asked and answered so far.
struct Gathering {
    first: Question,
    others: Question,
    /// Questions of the first kind that have not failed.
    firsts: usize,
    answers: Answers,
    /// The first refusal, and whether all were for lack of time.
    refusal: Option<Refusal>,
}

impl Gathering {
    fn new(first: Question, others: Question) -> Gathering {
        Gathering { first, others, firsts: 0, answers: Vec::new(), refusal: None }
    }

    /// What the next one is asked.
    fn question(&mut self) -> Question {
        if 0 < self.firsts {
            return self.others;
        }
        self.firsts += 1;
        debug_assert!(self.firsts == 1, "data-and-digests: {} first ones", self.firsts);
        self.first
    }

    /// What one is asked who comes in because another one is late.
    fn question_besides(&mut self) -> Question {
        if self.has_first() {
            return self.others;
        }
        self.firsts += 1;
        self.first
    }

    /// Whether there is an answer of the first kind.
    fn has_first(&self) -> bool {
        let is_first = |answer: &Answer| match self.first {
            Question::Data => matches!(answer, Answer::Page(_)),
            Question::Digest => matches!(answer, Answer::Digest(_)),
            Question::Mutations => matches!(answer, Answer::Stretch(_)),
        };
        self.answers.iter().any(|(_, answer)| is_first(answer))
    }

    fn refused(&mut self, question: Question, refusal: Refusal) {
        if question == self.first {
            assert!(0 < self.firsts, "data-and-digests: one failed that was not asked");
            self.firsts -= 1;
        }
        // What is said of a lack of time is known already where something else went wrong.
        let is_late = |one: &Refusal| one.kind == RefusalKind::TimedOut;
        match &mut self.refusal {
            Some(first) if !is_late(first) => {
                if !is_late(&refusal) && first.text.len() < REASON_BYTES_MAX {
                    first.text.push_str("; ");
                    first.text.push_str(&refusal.text);
                }
            }
            first => *first = Some(refusal),
        }
    }

    fn failed(&self, reading: &Reading<'_>, plan: &ReadPlan) -> ReadError {
        let consistency = reading.level;
        let (received, required) = (plan.tally.received(), plan.tally.required());
        let (failures, data_present) = (plan.tally.failures(), self.has_first());
        let refusal = self.refusal.clone();
        let refusal =
            refusal.unwrap_or_else(|| Refusal::new(RefusalKind::Failed, "no replica is left"));
        match refusal.kind {
            RefusalKind::TimedOut => {
                ReadError::Timeout { consistency, received, required, data_present }
            }
            RefusalKind::Overloaded => ReadError::Overloaded(refusal.text),
            _ => ReadError::Failure {
                consistency,
                received,
                required,
                failures,
                data_present,
                reason: refusal.text,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_tables_are_understood() {
        let check = |option: &str, expected| assert_eq!(Retry::of(option), expected, "{option}");
        check("NONE", Retry::Never);
        check("ALWAYS", Retry::Always);
        check("50.00ms", Retry::After(Duration::from_millis(50)));
        check("0.5ms", Retry::After(Duration::from_micros(500)));
        check("99.0PERCENTILE", Retry::Percentile(99_000));
        check("99.9percentile", Retry::Percentile(99_900));
        check("", Retry::Percentile(99_000));
        check("NaNms", Retry::After(Duration::ZERO));
    }
}
