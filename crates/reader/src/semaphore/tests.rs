//! Decisions by table; units, order and wake-ups by random steps; deadlines in simulated time.

use super::*;
use crate::testing::now;
use crate::{Budget, LocalFuture, VecSource};
use mutation::testing::schema;
use mutation::{ClusteringRange, Fragment, RingBound};
use proptest::prelude::*;
use std::cell::RefCell;
use std::task::Waker;
use stdx::Prng;

fn reading() -> Reading {
    Reading { schema: Rc::new(schema()), operation: "data-query" }
}

fn empty() -> Box<dyn Source> {
    Box::new(VecSource::new(&schema().order, Vec::new(), &crate::Slice::full()))
}

fn limits() -> Limits {
    Limits {
        count: 4,
        memory_bytes: 10 * BASE_BYTES,
        shared_bytes: 0,
        queue_max: 8,
        serialize_multiplier: Some(2),
        kill_multiplier: Some(4),
        cpu_concurrency: 2,
        preemptive_abort_factor: 0.3,
    }
}

const IDLE: Load = Load {
    count_free: 4,
    memory_free: 10 * BASE_BYTES as i64,
    consumed: 0,
    ready: 0,
    ready_max: 1,
    need_cpu: 0,
    awaits: 0,
    awaits_max: usize::MAX,
    has_inactive: false,
    has_privileged: false,
};

/// The load but for what was learned.
fn held(semaphore: &ReadSemaphore) -> Load {
    Load { ready_max: 1, ..semaphore.load() }
}

#[test]
fn decisions() {
    use Candidate::{Memory, New};
    use Verdict::{Admit, Evict, Wait};
    let check = |load: Load, candidate, expected| {
        assert_eq!(decide(&limits(), &load, candidate), expected, "{load:?}");
    };
    let base = BASE_BYTES as i64;
    check(IDLE, New, Admit);
    check(Load { ready: 1, ..IDLE }, New, Wait(Reason::ReadyList));
    check(Load { ready: 1, ready_max: 2, ..IDLE }, New, Admit);
    check(Load { ready: 2, ready_max: 2, ..IDLE }, New, Wait(Reason::ReadyList));
    check(Load { ready: 1, ..IDLE }, Memory, Admit);
    check(Load { need_cpu: 2, ..IDLE }, New, Wait(Reason::NeedCpu));
    check(Load { need_cpu: 2, awaits: 1, ..IDLE }, New, Admit);
    check(Load { need_cpu: 2, has_inactive: true, ..IDLE }, New, Wait(Reason::NeedCpu));
    check(Load { awaits: 20, awaits_max: 20, ..IDLE }, New, Wait(Reason::Disk));
    check(Load { awaits: 19, awaits_max: 20, ..IDLE }, New, Admit);
    let ready = Load { ready: 3, ready_max: 4, ..IDLE };
    check(Load { awaits: 17, awaits_max: 20, ..ready }, New, Wait(Reason::Disk));
    check(Load { awaits: 16, awaits_max: 20, ..ready }, New, Admit);
    check(Load { awaits: 20, awaits_max: 20, ..IDLE }, Memory, Admit);
    check(Load { count_free: 0, ..IDLE }, New, Wait(Reason::Count));
    check(Load { count_free: 0, has_inactive: true, ..IDLE }, New, Evict(Reason::Count));
    check(Load { memory_free: base, ..IDLE }, New, Admit);
    check(Load { memory_free: base - 1, ..IDLE }, New, Wait(Reason::Memory));
    check(Load { memory_free: base - 1, has_inactive: true, ..IDLE }, New, Evict(Reason::Memory));
    // Thresholds: 20 and 40 times the base.
    let used = |consumed| Load { memory_free: 10 * base - consumed, consumed, ..IDLE };
    check(used(20 * base - 1), Memory, Admit);
    check(Load { has_privileged: true, ..used(20 * base - 1) }, Memory, Admit);
    check(used(20 * base), Memory, Admit);
    check(Load { has_privileged: true, ..used(20 * base) }, Memory, Wait(Reason::Memory));
    check(used(20 * base), New, Wait(Reason::Memory));
    check(used(40 * base - 1), Memory, Admit);
    check(used(40 * base), Memory, Wait(Reason::Memory));
    check(Load { has_inactive: true, ..used(40 * base) }, Memory, Evict(Reason::Memory));
}

#[test]
fn defaults_of_a_shard() {
    let user = Limits::user(8 << 30);
    assert_eq!((user.count, user.memory_bytes, user.queue_max), (100, 171_798_691, 171_798));
    assert_eq!(user.serialize_bytes(), 2 * 171_798_691);
    assert_eq!(user.kill_bytes(), 4 * 171_798_691);
    assert_eq!(user.base_bytes(), 128 << 10);
    let system = Limits::system(8 << 30);
    assert_eq!((system.count, system.queue_max, system.kill_bytes()), (10, usize::MAX, i64::MAX));
    let view = Limits::view_update(8 << 30);
    assert_eq!((view.count, view.memory_bytes), (50, 85_899_345));
    // A shard that is too small for the base still reads.
    let tiny = Limits::user(1 << 20);
    assert_eq!(tiny.base_bytes(), 20_971);
    assert!(ReadSemaphore::new("tiny", tiny).try_admit(&reading()).is_some());
}

#[test]
fn who_has_used_up_its_own_borrows() {
    let sharing = limits().sharing(0.5);
    assert_eq!((sharing.memory_bytes, sharing.shared_bytes), (5 * BASE_BYTES, 5 * BASE_BYTES));
    let pool = Pool::new(sharing.shared_bytes);
    let [one, two] = [0, 1].map(|_| ReadSemaphore::sharing("user", sharing, &pool));
    let first = one.try_admit(&reading()).unwrap();
    let large = first.consume(8 * BASE_BYTES).unwrap();
    assert_eq!(pool.free(), BASE_BYTES as i64);
    assert_eq!(one.load().memory_free, BASE_BYTES as i64);
    // The other has its own, and what is left.
    assert_eq!(two.load().memory_free, 6 * BASE_BYTES as i64);
    let second = two.try_admit(&reading()).unwrap();
    let more = second.consume(5 * BASE_BYTES).unwrap();
    assert_eq!((pool.free(), two.load().memory_free), (0, 0));
    let other = reading();
    let mut wait = Box::pin(two.admit(&other, None));
    assert!(Polled.poll(&mut wait).is_none());
    drop(large);
    assert_eq!(pool.free(), 3 * BASE_BYTES as i64, "and it was told to the one that waits");
    assert!(Polled.poll(&mut wait).is_some());
    drop((wait, more, second, first));
    assert_eq!(pool.free(), 5 * BASE_BYTES as i64);
    // Twice and four times what both together are.
    assert_eq!(sharing.serialize_bytes(), 20 * BASE_BYTES as i64);
    assert_eq!(sharing.kill_bytes(), 40 * BASE_BYTES as i64);
}

#[test]
fn limits_change_while_reads_run() {
    let semaphore = ReadSemaphore::new("system", Limits { count: 2, ..limits() });
    let permits: Vec<_> = (0..2).map(|_| semaphore.try_admit(&reading()).unwrap()).collect();
    let other = reading();
    let mut wait = Box::pin(semaphore.admit(&other, None));
    assert!(Polled.poll(&mut wait).is_none());
    semaphore.set_limits(Limits { count: 3, ..limits() });
    let third = Polled.poll(&mut wait).expect("there is room").unwrap();
    semaphore.set_limits(Limits { kill_multiplier: Some(1), count: 1, ..limits() });
    let units = third.consume(10 * BASE_BYTES).expect("not full before");
    assert!(third.consume(1).is_err(), "over the new kill limit");
    drop(units);
    drop((permits, third));
    assert_eq!(held(&semaphore), Load { count_free: 1, ..IDLE });
}

#[test]
fn the_kill_limit_ends_a_read_once() {
    let semaphore = ReadSemaphore::new("user", limits());
    let permit = semaphore.try_admit(&reading()).unwrap();
    let all = permit.consume(40 * BASE_BYTES - BASE_BYTES - 1).unwrap();
    permit.check().unwrap();
    assert!(matches!(permit.consume(1), Err(ReadError::Overloaded(_))));
    assert!(matches!(permit.consume(1), Err(ReadError::Overloaded(_))));
    assert!(permit.check().is_err());
    assert_eq!(semaphore.counters().total_reads_killed_due_to_kill_limit, 1);
    drop(all);
    drop(permit);
    assert_eq!(semaphore.load().consumed, 0);
    assert_eq!(semaphore.counters().total_failed_reads, 1);
}

#[test]
fn one_read_is_privileged_at_a_time() {
    let semaphore = ReadSemaphore::new("user", limits());
    let (one, two) =
        (semaphore.try_admit(&reading()).unwrap(), semaphore.try_admit(&reading()).unwrap());
    let _much = one.consume(18 * BASE_BYTES).unwrap();
    let poll = Polled;
    let first = now(one.request_memory(BASE_BYTES)).unwrap();
    assert!(poll.poll(&mut Box::pin(two.request_memory(1))).is_none(), "the other is privileged");
    assert_eq!(semaphore.waiting_count(), 0, "dropping a request leaves nothing behind");
    let mut waits = Box::pin(two.request_memory(BASE_BYTES));
    assert!(poll.poll(&mut waits).is_none());
    assert!(semaphore.try_admit(&reading()).is_none());
    drop(first);
    drop(one);
    drop(poll.poll(&mut waits).expect("the privilege moves on").unwrap());
    drop(waits);
    drop(two);
    drop(_much);
    assert_eq!(semaphore.load().consumed, 0);
}

#[test]
fn the_queue_is_bounded_and_cancelled_waits_leave_nothing() {
    let semaphore = ReadSemaphore::new("user", limits());
    let held: Vec<_> = (0..4).map(|_| semaphore.try_admit(&reading()).unwrap()).collect();
    let reading = reading();
    let poll = Polled;
    let mut waits: Vec<_> = (0..8).map(|_| Box::pin(semaphore.admit(&reading, None))).collect();
    waits.iter_mut().for_each(|wait| assert!(poll.poll(wait).is_none()));
    let refused = now(semaphore.admit(&reading, None));
    assert!(matches!(refused, Err(ReadError::Overloaded(_))));
    let counters = semaphore.counters();
    assert_eq!(counters.reads_queued_because_count_resources, 8);
    assert_eq!(counters.total_reads_shed_due_to_overload, 1);
    // The first in the queue goes away, granted or not; the next one is let in.
    drop(waits.remove(0));
    drop(held);
    drop(waits.remove(0));
    let third = poll.poll(&mut waits[0]).expect("first in the queue now").unwrap();
    drop(third);
    drop(waits);
    assert_eq!((semaphore.load().consumed, semaphore.waiting_count()), (0, 0));
}

#[test]
fn a_read_that_ends_at_once_is_counted_and_holds_nothing() {
    let semaphore = ReadSemaphore::new("user", limits());
    semaphore.pass();
    assert_eq!(semaphore.load(), IDLE);
    let counters = semaphore.counters();
    assert_eq!((counters.reads_admitted_immediately, counters.total_successful_reads), (1, 1));
    assert_eq!((counters.total_permits, counters.current_permits), (1, 0));
}

/// What a read does in a turn of its own.
enum Step {
    Computes,
    WaitsForDisk,
}

/// A read that takes so many turns once it is admitted, in all of which it computes.
async fn read_in_turns(semaphore: Rc<ReadSemaphore>, step: Step, turns: u32) {
    let permit = semaphore.admit(&reading(), None).await.unwrap();
    let _cpu = permit.need_cpu();
    for _ in 1..turns {
        match step {
            Step::Computes => next_turn().await,
            Step::WaitsForDisk => permit.awaiting(next_turn()).await,
        }
    }
}

async fn next_turn() {
    let mut first = true;
    std::future::poll_fn(|_| match std::mem::take(&mut first) {
        true => Poll::Pending,
        false => Poll::Ready(()),
    })
    .await
}

/// Gives all reads a turn until they have ended: how many turns each had, and the most that
/// computed between two of them.
fn run_in_turns(semaphore: &Rc<ReadSemaphore>, make: impl Fn() -> (Step, u32)) -> (u32, u32) {
    let keepers: Vec<_> = (0..2).map(|_| semaphore.try_admit(&reading()).unwrap()).collect();
    let computing: Vec<_> = keepers.iter().map(Permit::need_cpu).collect();
    let mut reads: Vec<_> = (0..400)
        .map(|_| {
            let (step, turns) = make();
            let mut read = Box::pin(read_in_turns(semaphore.clone(), step, turns));
            assert!(Polled.poll(&mut read).is_none());
            Some(read)
        })
        .collect();
    assert_eq!(semaphore.waiting_count(), 400);
    // The last one first: who is let in meanwhile has its turn in the next round.
    let mut turn = || {
        for slot in reads.iter_mut().rev() {
            if slot.as_mut().is_some_and(|read| Polled.poll(read).is_some()) {
                *slot = None;
            }
        }
        reads.iter().flatten().count()
    };
    drop(computing);
    drop(keepers);
    let (mut turns, mut most) = (0, 0);
    while turn() != 0 {
        let load = semaphore.load();
        most = most.max(load.need_cpu - load.awaits);
        turns += 1;
        assert!(turns < 10_000);
    }
    (turns, most)
}

#[test]
fn a_queue_of_short_reads_empties_in_few_turns() {
    let limits = Limits { queue_max: 1000, count: 100, memory_bytes: 100 << 20, ..limits() };
    let (turns, _) = run_in_turns(&ReadSemaphore::new("user", limits), || (Step::Computes, 1));
    assert!(turns < 400 / 16, "{turns} turns");
    let disk = || (Step::WaitsForDisk, 2);
    let (turns, _) = run_in_turns(&ReadSemaphore::new("user", limits), disk);
    assert!(turns < 400 / 8, "{turns} turns");
}

#[test]
fn few_long_reads_compute_however_many_short_ones_went_before() {
    let limits = Limits { queue_max: 1000, count: 100, memory_bytes: 100 << 20, ..limits() };
    let semaphore = ReadSemaphore::new("user", limits);
    let (_, most) = run_in_turns(&semaphore, || (Step::Computes, 10));
    // Two were let in before the first of them was seen to take long.
    assert!(most <= 3, "{most} at a time");
    let left = Cell::new(0);
    let (_, most) = run_in_turns(&semaphore, || {
        left.set(left.get() + 1);
        (Step::Computes, if left.get() < 200 { 1 } else { 10 })
    });
    assert!(most <= 40, "{most} at a time");
    let (_, most) = run_in_turns(&semaphore, || (Step::Computes, 10));
    assert!(most <= 3, "{most} at a time: what was learned is forgotten");
}

#[test]
fn inactive_reads_make_room_the_oldest_first() {
    let semaphore = ReadSemaphore::new("streaming", limits());
    let paused: Vec<_> = (0..4).map(|_| semaphore.try_admit(&reading()).unwrap()).collect();
    paused.iter().for_each(|permit| permit.pause(empty(), None));
    let reading = reading();
    let new = now(semaphore.admit(&reading, None)).unwrap();
    assert!(paused[0].is_evicted() && paused[0].resume().is_none());
    assert!(paused[1].resume().is_some());
    assert_eq!(semaphore.counters().permit_based_evictions, 1);
    assert_eq!(semaphore.counters().inactive_reads, 2);
    semaphore.evict_where(|_| true);
    assert!(paused[2].is_evicted() && paused[3].is_evicted() && !paused[1].is_evicted());
    let mut again = paused.into_iter().next().unwrap();
    now(again.admit_again(None)).unwrap();
    again.pause(empty(), None);
    assert!(again.resume().is_some());
    drop(new);
}

#[test]
fn a_read_that_waits_for_the_disk_makes_room_for_one_that_computes() {
    let semaphore = ReadSemaphore::new("user", limits());
    let (one, two) =
        (semaphore.try_admit(&reading()).unwrap(), semaphore.try_admit(&reading()).unwrap());
    let (_first, _nested, _second) = (one.need_cpu(), one.need_cpu(), two.need_cpu());
    assert!(semaphore.try_admit(&reading()).is_none());
    let poll = Polled;
    let mut disk = Box::pin(two.awaiting(std::future::pending::<()>()));
    assert!(poll.poll(&mut disk).is_none());
    assert_eq!((semaphore.load().need_cpu, semaphore.load().awaits), (2, 1));
    assert!(semaphore.try_admit(&reading()).is_some());
    drop(disk);
    assert!(semaphore.try_admit(&reading()).is_none());
}

#[test]
fn deadlines_end_waits_and_inactive_reads() {
    runtime::sim::test(3, || async {
        let semaphore = ReadSemaphore::new("user", Limits { count: 1, ..limits() });
        let scope = runtime::task::Scope::new();
        let owner = semaphore.clone();
        scope.spawn(async move { owner.run().await });
        let reading = reading();
        let held = semaphore.try_admit(&reading).unwrap();
        let start = Instant::now();
        let within = |millis| Some(start + Duration::from_millis(millis));
        let late = semaphore.admit(&reading, within(1000));
        let soon = semaphore.admit(&reading, within(200));
        let (late, soon) = runtime::task::join(late, soon).await;
        assert!(matches!(late, Err(ReadError::TimedOut)));
        assert!(matches!(soon, Err(ReadError::TimedOut)));
        let waited = Instant::now() - start;
        assert!((1000..1100).contains(&waited.as_millis()), "{waited:?}");
        // With a third of its time left a read is not begun.
        let start = Instant::now();
        let within = |millis| Some(start + Duration::from_millis(millis));
        let shed = semaphore.admit(&reading, within(1000));
        let let_go = async {
            runtime::time::sleep(Duration::from_millis(750)).await;
            drop(held);
        };
        let (shed, ()) = runtime::task::join(shed, let_go).await;
        assert!(matches!(shed, Err(ReadError::Overloaded(_))));
        let permit = semaphore.admit(&reading, within(10_000)).await.unwrap();
        permit.pause(empty(), Some(Duration::from_millis(10)));
        runtime::time::sleep(Duration::from_millis(20)).await;
        assert!(permit.is_evicted());
        assert_eq!(semaphore.counters().time_based_evictions, 1);
        scope.cancel().await;
    });
}

#[test]
fn the_dump() {
    let semaphore = ReadSemaphore::new("user", limits());
    let permits: Vec<_> = (0..4).map(|_| semaphore.try_admit(&reading()).unwrap()).collect();
    let _units = permits[1].consume(100).unwrap();
    permits[0].pause(empty(), None);
    let snapshot = semaphore.snapshot();
    let text = render(&snapshot, "timed out", snapshot.permits.first());
    let expected = "Semaphore user with 4/4 count and 524388/1310720 memory resources: timed out, \
        dumping permit diagnostics:
Trigger permit: ks.t data-query inactive
Identified bottleneck(s): none

permits count memory table/operation/state
3 3 393316 ks.t/data-query/active
1 1 131072 ks.t/data-query/inactive
4 4 524388 total

Stats:
permit_based_evictions: 0
time_based_evictions: 0
inactive_reads: 1
";
    assert!(text.starts_with(expected), "{text}");
}

/// Polls futures with a waker that nobody needs.
struct Polled;

impl Polled {
    fn poll<F: Future + ?Sized>(&self, future: &mut Pin<Box<F>>) -> Option<F::Output> {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }
}

type Wait = Pin<Box<dyn Future<Output = Result<Permit, ReadError>>>>;

/// Random steps on one semaphore.
struct Steps {
    semaphore: Rc<ReadSemaphore>,
    prng: Prng,
    /// In the order in which they began.
    waits: Vec<(u64, Wait)>,
    next: u64,
    permits: Vec<(Permit, Vec<Units>)>,
}

impl Steps {
    fn new(seed: u64) -> Steps {
        Steps::on(ReadSemaphore::new("user", limits()), seed)
    }

    fn on(semaphore: Rc<ReadSemaphore>, seed: u64) -> Steps {
        let prng = Prng::from_seed(seed);
        Steps { semaphore, prng, waits: Vec::new(), next: 0, permits: Vec::new() }
    }

    fn any(&mut self) -> Option<usize> {
        (!self.permits.is_empty()).then(|| self.prng.below(self.permits.len() as u64) as usize)
    }

    fn step(&mut self) {
        let choice = self.prng.below(10);
        let permit = self.any();
        match (choice, permit) {
            (0..3, _) => {
                let semaphore = self.semaphore.clone();
                let wait: Wait = Box::pin(async move { semaphore.admit(&reading(), None).await });
                self.waits.push((self.next, wait));
                self.next += 1;
                self.poll_last();
            }
            (3, _) if !self.waits.is_empty() => {
                let at = self.prng.below(self.waits.len() as u64) as usize;
                drop(self.waits.remove(at));
            }
            (4, Some(at)) => {
                // Its units may go before it or after.
                let (permit, units) = self.permits.swap_remove(at);
                if self.prng.one_in(2) {
                    drop(units);
                    drop(permit);
                } else {
                    drop(permit);
                    drop(units);
                }
            }
            (5, Some(at)) => {
                let bytes = self.prng.below(20 * BASE_BYTES as u64) as usize;
                let (permit, units) = &mut self.permits[at];
                units.extend(permit.consume(bytes).ok());
            }
            (6, Some(at)) => {
                self.permits[at].1.pop();
            }
            (7, Some(at)) if self.state(at) == State::Active => {
                self.permits[at].0.pause(empty(), None);
            }
            (8, Some(at)) if self.state(at) == State::Inactive => {
                assert!(self.permits[at].0.resume().is_some());
            }
            (9, Some(at)) if self.state(at) == State::Active => {
                let bytes = self.prng.below(9 * BASE_BYTES as u64) as usize;
                let mut request = Box::pin(self.permits[at].0.request_memory(bytes));
                let got = Polled.poll(&mut request);
                drop(request);
                self.permits[at].1.extend(got.map(Result::unwrap));
            }
            _ => {}
        }
        self.poll_all();
        self.check();
    }

    fn state(&self, at: usize) -> State {
        let id = self.permits[at].0.id;
        self.semaphore.core.borrow().slot(id).state
    }

    fn poll_last(&mut self) {
        let Some((number, mut wait)) = self.waits.pop() else { return };
        match Polled.poll(&mut wait) {
            None => self.waits.push((number, wait)),
            Some(Ok(permit)) => {
                assert!(self.waits.is_empty(), "*fifo*: {number} overtook");
                self.permits.push((permit, Vec::new()));
            }
            Some(Err(ReadError::Overloaded(_))) => {
                assert_eq!(self.waits.len(), limits().queue_max, "refused without need");
            }
            Some(Err(error)) => panic!("{error}"),
        }
    }

    /// In a random order, until nobody goes on: only the first of the queue may get anything.
    fn poll_all(&mut self) {
        let all: Vec<_> = self.waits.iter().map(|(number, _)| *number).collect();
        loop {
            let before = self.permits.len();
            let mut order: Vec<usize> = (0..self.waits.len()).collect();
            order.sort_by_key(|_| self.prng.next_u64());
            let mut got = Vec::new();
            for at in order {
                let (number, wait) = &mut self.waits[at];
                if let Some(permit) = Polled.poll(wait) {
                    got.push(*number);
                    self.permits.push((permit.unwrap(), Vec::new()));
                }
            }
            self.waits.retain(|(number, _)| !got.contains(number));
            if self.permits.len() == before {
                break;
            }
        }
        let left = self.waits.iter().map(|(number, _)| number);
        assert!(left.eq(&all[all.len() - self.waits.len()..]), "*fifo*");
    }

    fn check(&self) {
        let snapshot = self.semaphore.snapshot();
        let count: i64 = snapshot.permits.iter().map(|line| line.count).sum();
        let bytes: i64 = snapshot.permits.iter().map(|line| line.memory_bytes).sum();
        assert_eq!((snapshot.used_count, snapshot.used_bytes), (count, bytes), "*units-return*");
        assert_eq!(snapshot.permits.len(), self.permits.len() + self.waits.len());
        if !self.waits.is_empty() {
            let load = self.semaphore.load();
            let verdict = decide(&self.semaphore.limits(), &load, Candidate::New);
            assert!(matches!(verdict, Verdict::Wait(_)), "*no-lost-wake*: {verdict:?}");
        }
    }
}

/// A source that is nothing but a name, to see that none is lost.
struct Named;

impl Source for Named {
    fn try_fill(&mut self, _: Budget, _: &mut Vec<Fragment>) -> Option<Result<(), ReadError>> {
        Some(Ok(()))
    }
    fn fill<'a>(
        &'a mut self,
        _: Budget,
        _: &'a mut Vec<Fragment>,
    ) -> LocalFuture<'a, Result<(), ReadError>> {
        Box::pin(std::future::ready(Ok(())))
    }
    fn next_partition(&mut self) {}
    fn forward_partitions(&mut self, _: &RingBound, _: &RingBound) {}
    fn forward_rows(&mut self, _: ClusteringRange) {}
}

/// An operation over two shards that holds a permit on one of them at a time, and leaves its
/// source with the other.
async fn over_two_shards(shards: [Rc<ReadSemaphore>; 2], first: usize, visits: usize) {
    let reading = reading();
    let mut permits: [Option<Permit>; 2] = [None, None];
    for visit in 0..visits {
        let here = (first + visit) % 2;
        let source = match &mut permits[here] {
            slot @ None => {
                *slot = Some(shards[here].admit(&reading, None).await.unwrap());
                None
            }
            Some(permit) => match permit.resume() {
                Some(source) => Some(source),
                None => {
                    permit.admit_again(None).await.unwrap();
                    None
                }
            },
        };
        let source = source.unwrap_or_else(|| Box::new(Named));
        let Some(permit) = &permits[here] else { unreachable!("admitted above") };
        let units = permit.consume(BASE_BYTES).unwrap();
        pause_once().await;
        drop(units);
        permit.pause(source, None);
    }
}

async fn pause_once() {
    let mut paused = false;
    std::future::poll_fn(|_| {
        if std::mem::replace(&mut paused, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

fn cases() -> ProptestConfig {
    ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn units_order_and_wakes(seed: u64) {
        let mut steps = Steps::new(seed);
        for _ in 0..300 {
            steps.step();
        }
        // Whatever is left goes away: everybody who waits gets a turn, and nothing stays held.
        while !steps.permits.is_empty() || !steps.waits.is_empty() {
            assert!(!steps.permits.is_empty(), "somebody waits for nobody");
            steps.permits.pop();
            steps.poll_all();
            steps.check();
        }
        prop_assert_eq!(held(&steps.semaphore), IDLE);
    }

    #[test]
    fn what_two_borrow_of_a_pool_comes_back(seed: u64) {
        let sharing = limits().sharing(0.5);
        let pool = Pool::new(sharing.shared_bytes);
        let mut both = [0, 1].map(|n| {
            Steps::on(ReadSemaphore::sharing("user", sharing, &pool), seed.wrapping_add(n))
        });
        let mut prng = Prng::from_seed(seed);
        for _ in 0..400 {
            both[prng.below(2) as usize].step();
            // What one gave back the other has got already.
            both.iter_mut().for_each(Steps::poll_all);
            both.iter().for_each(Steps::check);
            let held: i64 = both.iter().map(|steps| steps.semaphore.snapshot().used_bytes).sum();
            prop_assert!(0 <= pool.free() && pool.free() <= pool.bytes() as i64);
            prop_assert!(pool.bytes() as i64 - pool.free() <= held, "borrowed beyond what is held");
        }
        while both.iter().any(|steps| !steps.permits.is_empty() || !steps.waits.is_empty()) {
            for steps in &mut both {
                steps.permits.pop();
                steps.poll_all();
            }
        }
        prop_assert_eq!(pool.free(), pool.bytes() as i64);
        for steps in &both {
            let snapshot = steps.semaphore.snapshot();
            prop_assert_eq!((snapshot.used_bytes, snapshot.used_count), (0, 0));
        }
    }

    #[test]
    fn operations_over_two_shards_end(seed: u64, count in 1usize..3, operations in 1usize..7) {
        let mut prng = Prng::from_seed(seed);
        let shard = || {
            let limits = Limits { count, queue_max: usize::MAX, ..limits() };
            ReadSemaphore::new("streaming", limits)
        };
        let shards = [shard(), shard()];
        let done = Rc::new(RefCell::new(0));
        let mut running: Vec<Pin<Box<dyn Future<Output = ()>>>> = Vec::new();
        for operation in 0..operations {
            let (shards, visits) = (shards.clone(), 2 + prng.below(9) as usize);
            let done = done.clone();
            running.push(Box::pin(async move {
                over_two_shards(shards, operation, visits).await;
                *done.borrow_mut() += 1;
            }));
        }
        let mut steps = 0;
        while !running.is_empty() {
            steps += 1;
            prop_assert!(steps < 20_000, "{} operations do not end", running.len());
            let at = prng.below(running.len() as u64) as usize;
            if Polled.poll(&mut running[at]).is_some() {
                drop(running.swap_remove(at));
            }
        }
        prop_assert_eq!(*done.borrow(), operations);
        for shard in &shards {
            prop_assert_eq!((shard.load().consumed, shard.load().count_free), (0, count as i64));
        }
    }
}
