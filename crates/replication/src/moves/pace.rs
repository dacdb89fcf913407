//! How fast a node takes and gives data that move: as fast as its clients hardly feel
//! ([`governor`](super::governor)), and what it takes no faster than an operator says.
//!
//! What clients feel is how long the reads and writes took that this node has coordinated, on all
//! of its shards, in windows of [`WINDOW`]. Both who takes and who gives have clients, and each
//! goes by its own.
//!
//! Invariants
//!  - *as-slow-as-told*: a node takes no more in any time than the option allows in it, and what it
//!    allows in a second.
//!  - *one-after-the-other*: what moves beside clients has its time, and nothing is saved up.
//!
//! Lives on each shard; shard 0 takes what moves.

use super::governor::{Felt, Governor, KINDS};
use crate::hints::decide::Throttle;
use cluster::Traffic;
use cluster::settings::{Live, Rule, Settings};
use cluster::traffic::Work;
use runtime::time::{Instant, sleep};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use stdx::histogram::Snapshot;

const NAME: &str = "stream_io_throughput_mb_per_sec";
const MIB_MAX: i64 = 1 << 30;
/// How long clients are listened to before the pace changes.
const WINDOW: Duration = Duration::from_millis(100);
/// The same where few of them ask.
const WINDOW_MAX: Duration = Duration::from_secs(1);
/// When nothing has moved for so long, what comes begins anew.
const STILL: Duration = Duration::from_secs(2);
/// What of requests is looked at: most clients do not feel what is rarer.
const PART: f64 = 0.99;
const WORKS: [Work; KINDS] = [Work::Read, Work::Write];

/// How long requests took: all of them, and those of some ten seconds before data moved.
type Spans = [(Snapshot, Snapshot); KINDS];

/// The option of a shard, and what its clients feel. Stands in `runtime::local`.
pub struct Pace {
    mib_per_second: Live<i64>,
    throttle: RefCell<Throttle>,
    beside: RefCell<Beside>,
}

/// What moves beside clients.
#[derive(Default)]
struct Beside {
    governor: Option<Governor>,
    /// When the window began, and what requests had taken by then.
    window: Option<(Instant, Spans)>,
    /// Bytes since then.
    moved: u64,
    /// When something moved last.
    last: Option<Instant>,
    /// When the next one has its time.
    free_at: Option<Instant>,
    /// Somebody looks at what clients feel.
    is_looking: bool,
}

impl Beside {
    /// So much moves; whether it is to be looked at what clients feel.
    fn add(&mut self, bytes: u64, now: Instant) -> bool {
        if self.last.is_none_or(|last| last + STILL < now) {
            self.window = None;
        }
        self.moved += bytes;
        self.last = Some(now);
        let passed = self.window.as_ref().is_none_or(|(began, _)| *began + WINDOW <= now);
        let looks = passed && !self.is_looking;
        self.is_looking |= looks;
        debug_assert!(!looks || self.is_looking, "one-after-the-other: two look");
        looks
    }

    /// What requests have taken by now.
    fn look(&mut self, spans: Spans, now: Instant) {
        assert!(self.is_looking, "one-after-the-other: nobody looks");
        self.is_looking = false;
        let Some((began, before)) = &self.window else {
            let felt = spans.each_ref().map(|(_, recent)| felt(recent));
            let governor = match &self.governor {
                Some(known) => known.again(felt),
                None => Governor::new(felt),
            };
            (self.governor, self.free_at) = (Some(governor), None);
            (self.window, self.moved) = (Some((now, spans)), 0);
            return;
        };
        let took = now - *began;
        let since = |at: usize| felt(&spans[at].0.since(&before[at].0));
        let felt: [Felt; KINDS] = std::array::from_fn(since);
        if took < WINDOW_MAX && !felt.iter().any(Felt::tells) {
            return;
        }
        let per_second = u128::from(self.moved) * 1_000_000_000 / took.as_nanos().max(1);
        if let Some(governor) = &mut self.governor {
            governor.look(felt, u64::try_from(per_second).unwrap_or(u64::MAX));
        }
        (self.window, self.moved) = (Some((now, spans)), 0);
    }

    /// How long so much waits for its time.
    fn wait(&mut self, bytes: u64, now: Instant) -> Duration {
        let Some(rate) = self.governor.as_ref().and_then(Governor::rate) else {
            self.free_at = None;
            return Duration::ZERO;
        };
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
        let begins = self.free_at.map_or(now, |free| free.max(now));
        let free = begins + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        debug_assert!(now <= free, "one-after-the-other: its time has been");
        self.free_at = Some(free);
        free - now
    }
}

fn felt(spans: &Snapshot) -> Felt {
    Felt { requests: spans.count(), p99: spans.quantile(PART) }
}

/// What the requests of this node have taken, on all shards.
async fn spans() -> Spans {
    let of_shard = || async {
        WORKS.map(|work| {
            let taken = Traffic::of_shard().taken(work).unwrap_or_default();
            (taken.spans, taken.recent)
        })
    };
    let all = runtime::on_all_shards(of_shard).await.into_iter();
    let merge = |mut sum: Spans, of: Spans| {
        for (sum, of) in sum.iter_mut().zip(&of) {
            sum.0.merge(&of.0);
            sum.1.merge(&of.1);
        }
        sum
    };
    all.reduce(merge).unwrap_or_default()
}

impl Default for Pace {
    fn default() -> Pace {
        Pace::of(Live::fixed(0))
    }
}

impl Pace {
    fn of(mib_per_second: Live<i64>) -> Pace {
        Pace { mib_per_second, throttle: RefCell::default(), beside: RefCell::default() }
    }

    /// Registers the option; 0: no bound.
    pub fn registered(settings: &Settings) -> Pace {
        let bound: Rule<i64> = |mib| match (0..=MIB_MAX).contains(mib) {
            true => Ok(()),
            false => Err("not a number of MiB a second, from 0 on".to_owned()),
        };
        Pace::of(settings.register(NAME, 0, bound))
    }

    /// The option is obeyed on this shard from now on.
    pub fn provide() {
        let registered = Pace::registered(&Settings::of_shard());
        debug_assert!(0 <= registered.mib_per_second.get(), "as-slow-as-told: less than nothing");
        runtime::local::set(Rc::new(registered));
    }

    /// So much was taken: how long to wait before more is.
    fn take(&self, bytes: u64) -> Duration {
        let rate = self.mib_per_second.get().unsigned_abs() << 20;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let wait = self.throttle.borrow_mut().take(bytes, rate, Instant::now().as_nanos());
        debug_assert!(0 < rate || wait.is_zero(), "as-slow-as-told: {wait:?} without a bound");
        wait
    }

    /// So much has moved: how long to wait for the sake of clients.
    async fn give_way(&self, bytes: u64) -> Duration {
        let looks = self.beside.borrow_mut().add(bytes, Instant::now());
        if looks {
            let spans = spans().await;
            self.beside.borrow_mut().look(spans, Instant::now());
        }
        self.beside.borrow_mut().wait(bytes, Instant::now())
    }
}

/// So much was taken; waits until more may be.
pub(super) async fn keep(bytes: u64) {
    debug_assert!(runtime::shard_id() == 0, "as-slow-as-told: another shard takes");
    let pace = runtime::local::get_or_default::<Pace>();
    wait(pace.take(bytes).max(pace.give_way(bytes).await)).await;
}

/// So much is given; waits until it may be.
pub(crate) async fn keep_given(bytes: usize) {
    let pace = runtime::local::get_or_default::<Pace>();
    wait(pace.give_way(bytes as u64).await).await;
}

async fn wait(time: Duration) {
    if !time.is_zero() {
        stdx::probe!("what moves waits for its pace");
        sleep(time).await;
    }
}

/// Bytes a second that may move on this shard for the sake of clients; 0: no bound.
pub(super) fn bound() -> u64 {
    let pace = runtime::local::get_or_default::<Pace>();
    let beside = pace.beside.borrow();
    let moves = beside.last.is_some_and(|last| Instant::now() < last + STILL);
    let rate = beside.governor.as_ref().filter(|_| moves).and_then(Governor::rate);
    debug_assert!(rate != Some(0), "goes-on: nothing may move");
    rate.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_second_of_it_waits() {
        for (mib, blocks, expected) in [(1, 12, 2), (1, 4, 0), (4, 24, 0), (4, 40, 1), (0, 99, 0)] {
            runtime::sim::test(1, move || async move {
                runtime::local::set(Rc::new(Pace::of(Live::fixed(mib))));
                let begun = Instant::now();
                for _ in 0..blocks {
                    keep(256 << 10).await;
                }
                let took = (Instant::now() - begun).as_millis() as u64;
                let most = 1000 * expected + 600;
                assert!((1000 * expected..=most).contains(&took), "{mib} {blocks}: {took} ms");
            });
        }
    }

    /// Requests of clients that took so long, as if this shard had led them.
    fn asked(requests: usize, took: Duration) -> impl Future<Output = ()> {
        let marks: Vec<_> = (0..requests).map(|_| runtime::time::Mark::now()).collect();
        async move {
            sleep(took).await;
            let table = cluster::TableTraffic::default();
            marks.into_iter().for_each(|mark| {
                Traffic::of_shard().record(&table, Work::Read, mark);
            });
        }
    }

    #[test]
    fn what_moves_gives_way_to_clients_that_wait() {
        runtime::sim::test(2, || async {
            keep_given(1 << 20).await;
            assert_eq!(bound(), 0, "nobody asks");
            asked(200, Duration::from_millis(2)).await;
            sleep(WINDOW).await;
            keep_given(1 << 20).await;
            assert_eq!(bound(), 0, "what is felt first is not too long");
            let mut before = u64::MAX;
            for _ in 0..3 {
                asked(200, Duration::from_millis(20)).await;
                sleep(WINDOW).await;
                let begun = Instant::now();
                keep_given(1 << 20).await;
                let (bound, took) = (bound(), Instant::now() - begun);
                assert!(0 < bound && bound <= before, "{bound} after {before}");
                let least = Duration::from_nanos((1_000_000_000 << 20) / bound);
                assert!(least <= took, "{took:?} for a MiB at {bound} a second");
                before = bound;
            }
            sleep(2 * STILL).await;
            assert_eq!(bound(), 0, "nothing moves");
        });
    }
}
