//! Questions to several replicas, until as many have answered as the level requires.
//!
//! A replica that fails is replaced at once by another one that is alive; one that is late, as the
//! table's `speculative_retry` says, is joined by another one, and whoever is first counts.
//!
//! Invariants
//!  - *few-are-joined*: of reads of which others tell when they are late no more than a tenth is
//!    joined by another replica, or a cluster that is slow since it has much to do would have more.
//!  - *ends-in-time*: whoever does not answer, a read is over when its time is.
//!  - *data-and-digests*: of a read that compares pages one replica is asked for its page, and so
//!    are those that come in while no page is there.

use super::peers::{Answer, AnswerHere, Answered, Asked, Question, left, rate_limited};
use super::together::{Kind, Part};
use super::{Coordinator, target};
use crate::error::ReadError;
use crate::options::Consistency;
use crate::placement::Replica;
use crate::plan::nodes::{Candidates, ReadPlan};
use crate::rate::{Limit, Operation};
use crate::wire::{Refusal, RefusalKind};
use cluster::TableEntry;
use cluster::traffic::Work;
use messaging::{CallError, Caller, Down, Head, Messaging, NotSent, Ticket};
use model::TableId;
use runtime::time::{Instant, Sleep, sleep, sleep_until, timeout};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
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
        if option == "99.0PERCENTILE" {
            // As nearly all tables have it.
            return Retry::Percentile(99_000);
        }
        let option = option.trim();
        let is = |word: &str| option.eq_ignore_ascii_case(word);
        let number = |unit| before(option, unit).and_then(|it| it.parse::<f64>().ok());
        if let Some(number) = number("ms") {
            let millis = number.clamp(0.0, 3_600_000.0);
            return Retry::After(Duration::from_micros((millis * 1000.0) as u64));
        }
        if is("none") || is("never") {
            return Retry::Never;
        }
        if is("always") {
            return Retry::Always;
        }
        let percent = number("percentile").or_else(|| number("p")).unwrap_or(99.0);
        Retry::Percentile((percent.clamp(0.0, 100.0) * 1000.0) as u32)
    }
}

/// What comes before a unit, whatever the case of its letters.
fn before<'o>(option: &'o str, unit: &str) -> Option<&'o str> {
    let (number, end) = option.split_at_checked(option.len().checked_sub(unit.len())?)?;
    end.eq_ignore_ascii_case(unit).then_some(number)
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
    /// What replicas are told of the table's limits.
    pub(super) limit: Option<Limit>,
}

impl Reading<'_> {
    /// Runs a part of the read that does not look at its time.
    pub(super) async fn in_time<T>(
        &self,
        part: impl Future<Output = Result<T, ReadError>>,
    ) -> Result<T, ReadError> {
        let ended = timeout(left(self.until), part).await;
        ended.unwrap_or_else(|_| Err(self.timed_out()))
    }

    /// Why there is no answer when its time is over.
    pub(super) fn timed_out(&self) -> ReadError {
        let Progress { received, required, data_present } = self.progress;
        ReadError::Timeout {
            consistency: self.level,
            received: received.get().min(required.get()),
            required: required.get(),
            data_present: data_present.get(),
        }
    }

    /// The same of those that have a partition: who coordinates has decided, if it is one.
    pub(super) fn limit_among(&self, replicas: &[Replica]) -> Option<Limit> {
        let is_here = replicas.iter().any(|replica| replica.is_here);
        debug_assert!(!replicas.is_empty(), "data-and-digests: nobody is asked");
        self.limit.map(|limit| if is_here { Limit::Counts } else { limit })
    }
}

/// Who can be asked.
pub(super) struct Copies {
    pub(super) replicas: Rc<[Replica]>,
    pub(super) candidates: Candidates,
}

/// Answers by the place of their replica.
pub(super) type Answers = SmallVec<[(usize, Answer); 2]>;

impl Coordinator {
    /// Asks those whom the plan names, and those who take their places. Ends by itself when the
    /// time of the read is over.
    pub(super) async fn gather(
        &self,
        reading: &Reading<'_>,
        copies: &Copies,
        plan: &mut ReadPlan,
        (first, others): (Question, Question),
        asked: &Asked<'_>,
    ) -> Result<Answers, ReadError> {
        let mut state = Gathering::new(first, others);
        let mut asking = Asking::new(self, copies, asked);
        reading.progress.required.set(plan.tally.required());
        reading.progress.received.set(0);
        for index in &plan.asked {
            // This node does not begin before others were asked: see `Asking::next`.
            asking.ask(*index, state.question());
        }
        let late_after = self.late_after(reading);
        let mut is_late = late_after.is_none();
        let mut wait = late_after.map_or_else(|| sleep_until(reading.until), sleep);
        while !(plan.tally.is_met() && state.has_first()) {
            let Some(ended) = asking.next(&mut wait).await else {
                if is_late {
                    return Err(reading.timed_out());
                }
                (is_late, wait) = (true, sleep_until(reading.until));
                let by_others = matches!(reading.retry, Retry::Percentile(_));
                let joins = !by_others || self.nodes.joining.join();
                if joins && let Some(spare) = plan.replace(&copies.candidates, None) {
                    asking.ask(spare, state.question_besides());
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
                Err(refusal) if refusal.kind == RefusalKind::RateLimited => {
                    // Others would say the same, by the same draw.
                    let limited = rate_limited(Operation::Read, refusal);
                    return Err(ReadError::RateLimited(limited));
                }
                Err(refusal) => {
                    plan.tally.fail(candidate);
                    state.refused(question, refusal);
                    if let Some(spare) = plan.replace(&copies.candidates, Some(index)) {
                        asking.ask(spare, state.question());
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

/// *few-are-joined*: so many reads pay for one that is joined,
const JOINING_COST: u32 = 10;
/// and no more than this may be owed.
const JOINING_MAX: u32 = 100 * JOINING_COST;

/// What is owed for reads that were joined since their replicas were late.
#[derive(Debug, Default)]
pub(super) struct Joining(Cell<u32>);

impl Joining {
    /// A read begins.
    fn pay(&self) {
        debug_assert!(self.0.get() <= JOINING_MAX, "few-are-joined: {self:?} is owed");
        self.0.set(self.0.get().saturating_sub(1));
    }

    /// Whether a read whose replica is late may be joined by another one.
    fn join(&self) -> bool {
        let owed = self.0.get();
        assert!(owed <= JOINING_MAX, "few-are-joined: {owed} is owed");
        let joins = owed + JOINING_COST <= JOINING_MAX;
        if joins {
            self.0.set(owed + JOINING_COST);
        }
        joins
    }
}

impl Coordinator {
    /// After what time a replica is late, if ever.
    fn late_after(&self, reading: &Reading<'_>) -> Option<Duration> {
        let most = left(reading.until) / 2;
        self.nodes.joining.pay();
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

/// What replicas were asked, each by its place, and has no answer yet.
struct Asking<'a> {
    coordinator: &'a Coordinator,
    copies: &'a Copies,
    asked: &'a Asked<'a>,
    /// What this node was asked, and what it does where it cannot answer at once.
    here: Option<(usize, Question, Option<AnswerHere<'a>>)>,
    /// What others were asked, by the number of the request.
    others: SmallVec<[(usize, Question, Option<Ticket>); 2]>,
    inbox: Rc<Inbox>,
    /// How many of those have been told.
    taken: usize,
}

/// How the request of a number has ended.
type Outcome = (usize, Result<Vec<u8>, CallError>);

/// What other nodes have answered.
#[derive(Default)]
struct Inbox {
    ended: RefCell<SmallVec<[Outcome; 1]>>,
    waits: Cell<Option<Waker>>,
}

impl Caller for Inbox {
    fn ended(&self, number: usize, outcome: Result<Vec<u8>, CallError>) {
        self.ended.borrow_mut().push((number, outcome));
        if let Some(waker) = self.waits.take() {
            waker.wake();
        }
    }
}

impl<'a> Asking<'a> {
    fn new(coordinator: &'a Coordinator, copies: &'a Copies, asked: &'a Asked<'a>) -> Asking<'a> {
        let (others, inbox) = (SmallVec::new(), Rc::default());
        Asking { coordinator, copies, asked, here: None, others, inbox, taken: 0 }
    }

    fn ask(&mut self, index: usize, question: Question) {
        let (replica, asked) = (&self.copies.replicas[index], self.asked);
        if replica.is_here {
            let before = self.here.replace((index, question, None));
            return assert!(before.is_none(), "counted-once: this node is asked twice");
        }
        let (number, caller) = (self.others.len(), self.inbox.clone());
        // It may end before it is known here, which nobody looks at before this has returned.
        let ticket = match Messaging::current() {
            Some(messaging) => {
                let target = target(replica);
                if question == Question::Digest && asked.is_plain() {
                    let (head, body) = (Head::new(), asked.bytes.clone());
                    let part = Part { caller, number, head, body };
                    let together = &self.coordinator.nodes.together;
                    together.send(&messaging, Kind::Digests, target, part, asked.until)
                } else {
                    let message = question.message(asked);
                    messaging.call_for(caller, number, target, message, asked.until)
                }
            }
            None => {
                let down = CallError::NeverSent(NotSent::Down(Down::Stopping));
                caller.ended(number, Err(down));
                None
            }
        };
        self.others.push((index, question, ticket));
    }

    /// What ends next, or nothing if that takes longer than `wait`. `Some(None)`: nobody is asked
    /// any more.
    async fn next(&mut self, wait: &mut Sleep) -> Option<Option<Ended>> {
        poll_fn(|cx| {
            if let Some(ended) = self.take() {
                return Poll::Ready(Some(Some(ended)));
            }
            if let Some(ended) = self.poll_here(cx) {
                return Poll::Ready(Some(Some(ended)));
            }
            if self.here.is_none() && self.taken == self.others.len() {
                return Poll::Ready(Some(None));
            }
            self.inbox.waits.set(Some(cx.waker().clone()));
            Pin::new(&mut *wait).poll(cx).map(|()| None)
        })
        .await
    }

    /// What this node has answered.
    fn poll_here(&mut self, cx: &mut Context<'_>) -> Option<Ended> {
        let (index, question, begun) = self.here.as_mut()?;
        let answered = match begun {
            None => match self.coordinator.ask_here(*question, self.asked) {
                Ok(mut answered) => {
                    if let Ok(Answer::Page(page)) = &mut answered
                        && 2 * page.bytes.len() <= page.bytes.capacity()
                    {
                        // It is held until the others have answered, the rest of its room is not.
                        page.bytes = page.bytes.as_slice().to_vec();
                    }
                    Poll::Ready(answered)
                }
                Err(here) => begun.insert(here).as_mut().poll(cx),
            },
            Some(here) => here.as_mut().poll(cx),
        };
        let Poll::Ready(answered) = answered else { return None };
        let ended = (*index, *question, answered);
        self.here = None;
        Some(ended)
    }

    /// What another node has answered.
    fn take(&mut self) -> Option<Ended> {
        let mut ended = self.inbox.ended.borrow_mut();
        if ended.is_empty() {
            return None;
        }
        let (number, outcome) = ended.remove(0);
        drop(ended);
        self.taken += 1;
        assert!(self.taken <= self.others.len(), "counted-once: {number} has ended twice");
        let (index, question, ticket) = &mut self.others[number];
        *ticket = None;
        let answered = question.answer(&self.copies.replicas[*index], self.asked, outcome);
        Some((*index, *question, answered))
    }
}

/// Nobody waits for the others any more.
impl Drop for Asking<'_> {
    fn drop(&mut self) {
        for (_, _, ticket) in &mut self.others {
            if let Some(ticket) = ticket.take() {
                ticket.cancel();
            }
        }
    }
}

/// Who has ended, what it was asked, and what came of it.
type Ended = (usize, Question, Answered);

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
        Gathering { first, others, firsts: 0, answers: SmallVec::new(), refusal: None }
    }

    /// What the next one is asked.
    fn question(&mut self) -> Question {
        self.asks(if 0 < self.firsts { self.others } else { self.first })
    }

    /// What one is asked who comes in because another one is late.
    fn question_besides(&mut self) -> Question {
        self.asks(if self.has_first() { self.others } else { self.first })
    }

    /// Notes what one more is asked. Mutations are asked of all: then each question is a first one.
    fn asks(&mut self, question: Question) -> Question {
        self.firsts += usize::from(question == self.first);
        debug_assert!(0 < self.firsts, "data-and-digests: nobody is asked for what is compared");
        question
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
    fn a_tenth_of_the_reads_is_joined_however_many_are_late() {
        let joining = Joining::default();
        let reads = |count: u32| {
            let joined = (0..count).filter(|_| {
                joining.pay();
                joining.join()
            });
            joined.count()
        };
        // The first ones are joined for nothing.
        assert_eq!(reads(100), 100, "{joining:?}");
        assert!((1000..=1012).contains(&reads(10_000)), "{joining:?}");
        (0..JOINING_MAX).for_each(|_| joining.pay());
        assert_eq!(reads(50), 50, "few were late for a while");
    }

    #[test]
    fn whoever_is_asked_may_fail() {
        let failed = || Refusal::new(RefusalKind::TimedOut, "it took too long");
        for others in [Question::Mutations, Question::Digest] {
            for besides in [false, true] {
                let mut state = Gathering::new(Question::Mutations, others);
                let mut asked: Vec<_> = (0..3).map(|_| state.question()).collect();
                if besides {
                    asked.push(state.question_besides());
                }
                // The next one is asked for what is compared as soon as nobody else is.
                while let Some(question) = asked.pop() {
                    state.refused(question, failed());
                    let is_asked = asked.contains(&Question::Mutations);
                    assert_eq!(0 < state.firsts, is_asked, "{others:?} {asked:?}");
                }
                assert_eq!(state.question(), Question::Mutations);
            }
        }
    }

    #[test]
    fn options_of_tables_are_understood() {
        let check = |option: &str, expected| assert_eq!(Retry::of(option), expected, "{option}");
        check("NONE", Retry::Never);
        check("ALWAYS", Retry::Always);
        check("50.00ms", Retry::After(Duration::from_millis(50)));
        check("0.5ms", Retry::After(Duration::from_micros(500)));
        check("99.0PERCENTILE", Retry::Percentile(99_000));
        check("99.9percentile", Retry::Percentile(99_900));
        check(" 90P ", Retry::Percentile(90_000));
        check("25MS", Retry::After(Duration::from_millis(25)));
        check("\u{e9}", Retry::Percentile(99_000));
        check("", Retry::Percentile(99_000));
        check("NaNms", Retry::After(Duration::ZERO));
    }
}
