//! Decisions by table; charges, order and wake-ups by random steps.

use super::*;
use proptest::prelude::*;
use stdx::Prng;

const LIMITS: Limits = Limits {
    memory_bytes: 100_000,
    requests_max: 1000,
    unbegun_max: 8,
    running_max: 12,
    waiting_max: 6,
    patience: Duration::from_secs(1),
};

#[test]
fn decisions() {
    let load = |memory, in_flight, running| Load { memory, in_flight, running, ..Load::default() };
    let check = |load: Load, bytes, room, run| {
        assert_eq!(may_run(&LIMITS, &load, bytes, bytes), run, "{load:?} {bytes}");
        assert_eq!(has_room(&LIMITS, &load, bytes), room, "{load:?} {bytes}");
    };
    check(load(0, 0, 0), 100_000, true, true);
    // *small-ones-go*
    check(load(50_000, 1, 1), 25_000, true, true);
    check(load(50_000, 1, 1), 25_001, false, false);
    check(load(25_000, 1, 1), 100_000, true, true);
    check(load(25_001, 1, 1), 100_000, false, false);
    check(load(98_438, 1, 1), 1_562, true, true);
    check(load(98_439, 1, 1), 1_562, false, false);
    check(load(98_437, 1, 1), 1_563, false, false);
    check(load(100_001, 2, 1), 1, false, false);
    // *progress*
    check(load(100_001, 2, 0), 50_000, false, true);
    check(load(900_000, 0, 0), 90_000, true, true);
    check(load(900_000, 5, 0), 1_562, true, true);
    check(load(900_000, 5, 0), 1_563, false, true);
    check(load(900_000, 5, 1), 1, false, false);
    // *few-run*: who was admitted goes on.
    check(load(0, 11, 11), 1, true, true);
    check(load(0, 12, 12), 1, false, true);
    // *unread-is-a-quarter*
    let unread = |unsent, memory| Load { unsent, ..load(memory, 3, 1) };
    check(unread(20_000, 50_000), 5_000, true, true);
    check(unread(20_000, 50_000), 5_001, false, false);
    check(unread(199_999, 0), 50_000, true, true);
    check(unread(199_999, 73_438), 1_562, true, true);
    check(unread(199_999, 73_439), 1_562, false, false);
    // *flooded*
    check(unread(200_000, 0), 1_562, true, true);
    check(unread(200_000, 0), 1_563, true, false);
    check(Load { unsent: 200_000, ..load(0, 1, 0) }, 1_563, true, false);
    let flooded = unread(200_000, 50_000);
    assert!(may_run(&LIMITS, &flooded, 0, 1_562));
    assert!(!may_run(&LIMITS, &flooded, 0, 1_563), "it was charged before");
}

#[test]
fn turns_are_shorter_the_more_wait() {
    let limits = Limits { unbegun_max: 256, ..LIMITS };
    let check = |waiting, expected| assert_eq!(turn_of(&limits, waiting), expected, "{waiting}");
    check(0, 64);
    check(1, 64);
    check(4, 32);
    check(16, 8);
    check(1000, 4);
    assert_eq!(turn_of(&Limits { unbegun_max: 2, ..LIMITS }, 1), 2);
}

#[test]
fn requests_are_charged_for_body_and_answer() {
    let limits = Limits::of_shard(1 << 30);
    assert_eq!(limits.memory_bytes, (1 << 30) / 10);
    assert_eq!(limits.charge(0, 0), 2048);
    assert_eq!(limits.charge(1000, 500), 2048 + 3000 + 1000);
    let largest = limits.body_bytes_max();
    assert!(limits.charge(largest, 0) <= limits.memory_bytes);
    assert!(limits.memory_bytes < 2048 + 3 * (largest + 1));
    // An answer that was too large for all once does not keep its connection out for ever.
    assert_eq!(limits.charge(0, 1 << 30), limits.memory_bytes);
    assert_eq!(Limits::of_shard(1000).body_bytes_max(), 0);
    // The first request of a connection is small.
    assert!(is_small(&limits, limits.charge(100, limits.unknown_answer_bytes())));
}

#[test]
fn a_request_too_many_is_shed_at_once() {
    let admission = Admission::new(Limits { requests_max: 1, ..LIMITS });
    let first = admission.try_admit(10, &mut Turn::default());
    assert!(matches!(first, Some(Ok(_))));
    let second = admission.try_admit(10, &mut Turn::default());
    assert_eq!(second.unwrap().unwrap_err(), Shed::TooMany);
    drop(first);
    assert!(matches!(admission.try_admit(10, &mut Turn::default()), Some(Ok(_))));
    assert_eq!(admission.load.get(), Load::default());
}

#[test]
fn one_grows_where_there_is_no_memory() {
    let admission = Admission::new(LIMITS);
    let run = || {
        let mut turn = Turn::default();
        let mut charge = admission.try_admit(10_000, &mut turn).and_then(Result::ok).unwrap();
        assert!(poll(&mut Box::pin(charge.run(0, 0))).is_some());
        charge
    };
    let [one, two, three] = [run(), run(), run()];
    // Like a large request: it leaves a quarter to small ones.
    assert!(one.try_resize(55_000) && !two.try_resize(10_001));
    let mut first = Box::pin(two.resize(40_000));
    assert!(poll(&mut first).is_some(), "no request is privileged yet");
    let mut second = Box::pin(three.resize(20_000));
    assert!(poll(&mut second).is_none(), "another one is");
    assert!(two.try_resize(90_000), "and goes on");
    // One has 55 000, two of its own 10 000, three 10 000.
    let load = admission.load.get();
    assert_eq!((load.memory, load.overdrawn), (75_000, 80_000));
    assert!(has_room(&LIMITS, &load, 1_000), "small ones do not notice");
    assert!(!one.try_resize(55_001), "who has much waits like who has little");
    one.set(10_000);
    assert!(poll(&mut second).is_some(), "there is memory");
    drop(first);
    two.set(20_000);
    assert_eq!(admission.load.get().overdrawn, 10_000);
    drop(two);
    assert!(!admission.has_privileged.get() && admission.load.get().overdrawn == 0);
}

#[test]
fn waiting_for_the_client_takes_little_from_others() {
    let admission = Admission::new(LIMITS);
    let mut turn = Turn::default();
    let charge = admission.try_admit(60_000, &mut turn).and_then(Result::ok).unwrap();
    let next = admission.wait_in(&admission.entering, 50_000, 0);
    assert_eq!(next.state.get(), PlaceState::Waiting);
    let mut stalled = Box::pin(charge.stall(std::future::pending::<()>()));
    assert!(poll(&mut stalled).is_none());
    assert!(matches!(next.state.get(), PlaceState::Granted(_)), "*no-lost-wake*");
    let load = admission.load.get();
    assert_eq!((load.memory, load.stalled, load.taken(&LIMITS)), (50_000, 60_000, 75_000));
    drop(stalled);
    let load = admission.load.get();
    assert_eq!((load.memory, load.stalled), (110_000, 0));
}

#[test]
fn small_requests_pass_large_ones_that_find_no_memory() {
    let admission = Admission::new(LIMITS);
    let mut turn = Turn::default();
    let mut enter = |bytes| admission.try_admit(bytes, &mut turn).map(Result::unwrap);
    let first = enter(50_000).expect("there is nothing else");
    let place = admission.wait_in(&admission.entering, 25_001, 0);
    let mut second =
        Box::pin(Wait { admission: &admission, place, taken: false, kind: Kind::Enter });
    let small: Vec<_> = (0..7).map(|_| enter(1_000).expect("a large one waits")).collect();
    assert!(enter(1_000).is_none(), "no more may be let in before some have begun");
    // There is memory now: the large one is next, and only waits for the places of a turn.
    drop(first);
    assert_eq!(poll(&mut second), None);
    assert!(enter(1_000).is_none(), "a small one is behind it");
    drop(small);
    assert_eq!(poll(&mut second), Some(3));
}

#[test]
fn what_a_client_may_leave_unread_shrinks_with_what_is_free() {
    let admission = Admission::new(Limits { memory_bytes: 4 << 20, ..LIMITS });
    assert_eq!(admission.unsent_bytes_max(), 1 << 20);
    admission.add_unsent(2 << 20);
    assert_eq!(admission.unsent_bytes_max(), 512 << 10);
    assert_eq!(admission.unread(), Unread::Little);
    admission.add_unsent((1 << 20) + 1);
    assert_eq!(admission.unread(), Unread::Much);
    admission.add_unsent(3 << 20);
    assert_eq!(admission.unsent_bytes_max(), 64 << 10);
    assert_eq!(admission.unread(), Unread::Flood);
    admission.sub_unsent((6 << 20) + 1);
    let large = Admission::new(Limits { memory_bytes: 1 << 30, ..LIMITS });
    assert_eq!(large.unsent_bytes_max(), 8 << 20);
}

#[test]
fn overload_shortens_patience_for_a_while() {
    let admission = Admission::new(LIMITS);
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    assert!(!admission.is_overloaded(at(5)));
    admission.overloaded(at(5));
    assert!(admission.is_overloaded(at(1004)));
    assert!(!admission.is_overloaded(at(1005)));
    assert_eq!(LIMITS.patience_overloaded(), Duration::from_millis(50));
}

#[test]
fn each_kind_of_work_waits_as_long_as_its_clients_gain_by_it() {
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    let (interactive, batch) = (Some(Workload::Interactive), Some(Workload::Batch));
    let cases = [
        // Workload, whether the shard is overloaded, halvings, until when.
        (None, false, 0, 1100),
        (None, false, 3, 1100),
        (None, true, 0, 550),
        (None, true, 1, 525),
        (interactive, false, 0, 550),
        (interactive, false, 1, 525),
        (interactive, true, 0, 550),
        (batch, false, 0, 30_500),
        (batch, true, 6, 30_500),
    ];
    for (workload, is_overloaded, halvings, expected) in cases {
        let lag = Lag { since: at(100), read_since: at(500), halvings, is_overloaded };
        assert_eq!(LIMITS.deadline(workload, lag), at(expected), "{workload:?} {lag:?}");
    }
}

type Entering = Pin<Box<dyn Future<Output = (Charge, Turn)>>>;
type Starting = Pin<Box<dyn Future<Output = Charge>>>;

fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Option<F::Output> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Random steps on one admission.
struct Steps {
    admission: Rc<Admission>,
    prng: Prng,
    /// The number of each, and whether it is small.
    entering: Vec<(u64, bool, Entering)>,
    starting: Vec<Starting>,
    growing: Vec<Starting>,
    next: u64,
    unbegun: Vec<Charge>,
    running: Vec<Charge>,
    turns: Vec<Turn>,
    unsent: Vec<usize>,
}

impl Steps {
    fn new(seed: u64) -> Steps {
        Steps {
            admission: Admission::new(LIMITS),
            prng: Prng::from_seed(seed),
            entering: Vec::new(),
            starting: Vec::new(),
            growing: Vec::new(),
            next: 0,
            unbegun: Vec::new(),
            running: Vec::new(),
            turns: Vec::new(),
            unsent: Vec::new(),
        }
    }

    fn pick<T>(prng: &mut Prng, from: &mut Vec<T>) -> Option<T> {
        let count = from.len() as u64;
        (count != 0).then(|| from.swap_remove(prng.below(count) as usize))
    }

    /// Waits in the line, as `Admission::admit` does but for the deadline.
    fn enter(&mut self, bytes: usize) {
        let admission = self.admission.clone();
        let place = admission.wait_in(&admission.entering, bytes, 0);
        let wait = async move {
            let wait = Wait { admission: &admission, place, taken: false, kind: Kind::Enter }.await;
            let turn = Turn { admission: Some(admission.clone()), left: wait };
            (admission.charge(bytes), turn)
        };
        self.entering.push((self.next, is_small(&LIMITS, bytes), Box::pin(wait)));
        self.next += 1;
    }

    fn step(&mut self) {
        let most = if self.prng.one_in(2) { 40_000 } else { 2_000 };
        let bytes = self.prng.below(most) as usize;
        match self.prng.below(10) {
            0..=2 => {
                let mut turn = Self::pick(&mut self.prng, &mut self.turns).unwrap_or_default();
                match self.admission.try_admit(bytes, &mut turn) {
                    Some(charge) => self.unbegun.push(charge.unwrap()),
                    None => self.enter(bytes),
                }
                self.turns.push(turn);
            }
            3 if !self.entering.is_empty() => {
                let at = self.prng.below(self.entering.len() as u64) as usize;
                drop(self.entering.remove(at));
            }
            4 => drop(Self::pick(&mut self.prng, &mut self.unbegun)),
            5 | 6 => {
                let charge = Self::pick(&mut self.prng, &mut self.unbegun);
                self.starting.extend(charge.map(|mut charge| -> Starting {
                    Box::pin(async move {
                        charge.run(0, bytes).await;
                        charge
                    })
                }));
            }
            7 if self.prng.one_in(3) => {
                let charge = Self::pick(&mut self.prng, &mut self.running);
                // A response that has begun to grow goes on.
                let (privileged, charge) =
                    charge.into_iter().partition(|it| it.is_privileged.get());
                self.running.extend::<Vec<Charge>>(privileged);
                self.unbegun.extend::<Vec<Charge>>(charge);
                let paused = self.unbegun.iter_mut();
                paused.filter(|it| it.stage == Stage::Running).for_each(Charge::pause);
            }
            7 => drop(Self::pick(&mut self.prng, &mut self.running)),
            8 if self.prng.one_in(2) => {
                let charge = Self::pick(&mut self.prng, &mut self.running);
                self.growing.extend(charge.map(|charge| -> Starting {
                    Box::pin(async move {
                        charge.resize(charge.bytes() / 2 + bytes).await;
                        charge
                    })
                }));
            }
            8 if self.prng.one_in(2) => {
                self.admission.add_unsent(bytes);
                self.unsent.push(bytes);
            }
            8 => {
                let sent = Self::pick(&mut self.prng, &mut self.unsent);
                sent.into_iter().for_each(|bytes| self.admission.sub_unsent(bytes));
            }
            _ if self.prng.one_in(4) => drop(Self::pick(&mut self.prng, &mut self.starting)),
            _ if self.prng.one_in(4) => drop(Self::pick(&mut self.prng, &mut self.growing)),
            _ => drop(Self::pick(&mut self.prng, &mut self.turns)),
        }
        self.poll_all();
        self.check();
    }

    fn poll_all(&mut self) {
        // A request that begins lets others in, also one that has to wait again at once.
        while self.poll_each() | self.poll_each() {}
    }

    /// Whether anybody got on.
    fn poll_each(&mut self) -> bool {
        let before = (self.entering.len(), self.starting.len(), self.growing.len());
        let mut entered = Vec::new();
        let mut still = Vec::new();
        for (number, is_small, mut wait) in std::mem::take(&mut self.entering) {
            match poll(&mut wait) {
                Some((charge, turn)) => {
                    entered.push((number, is_small));
                    self.unbegun.push(charge);
                    self.turns.push(turn);
                }
                None => still.push((number, is_small, wait)),
            }
        }
        let overtakes = |(number, is_small): &(u64, bool)| {
            still.iter().any(|(other, small, _)| other < number && (*small || !is_small))
        };
        assert!(!entered.iter().any(overtakes), "*fifo*");
        self.entering = still;
        let mut still = Vec::new();
        for mut start in std::mem::take(&mut self.starting) {
            match poll(&mut start) {
                Some(charge) => self.running.push(charge),
                None => still.push(start),
            }
        }
        self.starting = still;
        let mut still = Vec::new();
        for mut growth in std::mem::take(&mut self.growing) {
            match poll(&mut growth) {
                Some(charge) => self.running.push(charge),
                None => still.push(growth),
            }
        }
        self.growing = still;
        before != (self.entering.len(), self.starting.len(), self.growing.len())
    }

    fn check(&self) {
        let load = self.admission.load.get();
        let turns: usize = self.turns.iter().map(|turn| turn.left).sum();
        let unbegun = self.unbegun.iter().filter(|charge| charge.stage == Stage::Unbegun);
        assert_eq!(load.unbegun, unbegun.count() + turns);
        assert_eq!(load.running, self.running.len() + self.growing.len());
        assert!(load.running <= LIMITS.running_max + LIMITS.unbegun_max, "*few-run*");
        let in_flight = self.unbegun.len() + self.starting.len() + load.running;
        assert_eq!(load.in_flight, in_flight);
        if self.starting.is_empty() && self.growing.is_empty() {
            let held = self.unbegun.iter().chain(&self.running).map(Charge::bytes);
            let charged = (held.sum::<usize>(), self.unsent.iter().sum::<usize>());
            assert_eq!((load.memory + load.overdrawn, load.unsent), charged, "*charges-return*");
        }
        let privileged = self.running.iter().filter(|charge| charge.is_privileged.get()).count();
        assert_eq!(privileged, usize::from(self.admission.has_privileged.get()), "*one-grows*");
        if let Some(place) = first(&self.admission.growing) {
            let could = may_grow(&LIMITS, &load, place.bytes) || privileged == 0;
            assert!(!could, "*no-lost-wake*: one could grow");
        }
        for place in self.admission.starting.iter().filter_map(first) {
            let could = may_run(&LIMITS, &load, place.bytes, place.whole);
            assert!(!could, "*no-lost-wake*: one could run");
        }
        for place in self.admission.entering.iter().filter_map(first) {
            let turn = turn_of(&LIMITS, self.admission.entering_len());
            let places = LIMITS.unbegun_max.saturating_sub(load.unbegun);
            let fits = turn <= places && has_room(&LIMITS, &load, place.bytes);
            assert!(!fits, "*no-lost-wake*: one could enter");
        }
    }
}

fn cases() -> ProptestConfig {
    ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn charges_order_and_wakes(seed: u64) {
        let mut steps = Steps::new(seed);
        for _ in 0..300 {
            steps.step();
        }
        // Everybody who waits gets in and runs, when those before end.
        for _ in 0..10_000 {
            steps.turns.clear();
            for bytes in std::mem::take(&mut steps.unsent) {
                steps.admission.sub_unsent(bytes);
            }
            steps.running.clear();
            steps.unbegun.pop();
            steps.poll_all();
            steps.check();
        }
        prop_assert!(steps.entering.is_empty() && steps.starting.is_empty());
        prop_assert!(steps.growing.is_empty());
        prop_assert_eq!(steps.admission.load.get(), Load::default());
    }
}
