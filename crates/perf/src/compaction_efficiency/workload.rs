//! What is written: which partition comes next, and what becomes of it.
//!
//! Pure: random numbers and the time are given. The workload remembers which partitions live, so
//! it can tell at any time how much live data there is.

use stdx::Prng;

/// How often to look for a partition that lives before taking any.
const TRIES: usize = 64;

/// How partitions are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distribution {
    /// Around the middle, three deviations to either side.
    Gaussian,
    Uniform,
    /// The partition of rank n in proportion to 1/n.
    Zipfian,
}

impl Distribution {
    pub(crate) fn of(name: &str) -> Option<Distribution> {
        match name {
            "gaussian" => Some(Distribution::Gaussian),
            "uniform" => Some(Distribution::Uniform),
            "zipfian" => Some(Distribution::Zipfian),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Distribution::Gaussian => "gaussian",
            Distribution::Uniform => "uniform",
            Distribution::Zipfian => "zipfian",
        }
    }

    /// One of `0..count`.
    fn draw(self, count: u64, prng: &mut Prng) -> u64 {
        match self {
            Distribution::Uniform => prng.below(count),
            // Its logarithm is uniform.
            Distribution::Zipfian => {
                let rank = (count as f64 + 1.0).powf(fraction(prng));
                (rank as u64 - 1).min(count - 1)
            }
            Distribution::Gaussian => loop {
                let (middle, deviation) = (count as f64 / 2.0, count as f64 / 6.0);
                let drawn = middle + deviation * normal(prng);
                if 0.0 <= drawn && drawn < count as f64 {
                    return drawn as u64;
                }
            },
        }
    }
}

/// A number from 0 up to 1, without 1.
fn fraction(prng: &mut Prng) -> f64 {
    (prng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// A number of the standard normal distribution (Box and Muller).
fn normal(prng: &mut Prng) -> f64 {
    let radius = (-2.0 * (1.0 - fraction(prng)).ln()).sqrt();
    radius * (std::f64::consts::TAU * fraction(prng)).cos()
}

/// What happens to a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Write(u64),
    Delete(u64),
}

/// How many operations of which kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mix {
    pub(crate) rewrite_ratio: f64,
    pub(crate) delete_ratio: f64,
}

/// The operations of a run.
pub(crate) struct Workload {
    distribution: Distribution,
    mix: Mix,
    /// Seconds that what is written lives; 0: for ever.
    time_to_live: i64,
    prng: Prng,
    /// The second from which on a partition is dead, by its number.
    dead_from: Vec<i64>,
}

impl Workload {
    /// Of so many partitions, none of which is there.
    pub(crate) fn new(
        partitions: u64,
        distribution: Distribution,
        mix: Mix,
        time_to_live: i64,
        seed: u64,
    ) -> Workload {
        let dead_from = vec![i64::MIN; partitions as usize];
        Workload { distribution, mix, time_to_live, prng: Prng::from_seed(seed), dead_from }
    }

    /// What comes next, in this second. A rewrite or a deletion takes a partition that lives, if
    /// some are found.
    pub(crate) fn next(&mut self, now: i64) -> Operation {
        let kind = fraction(&mut self.prng);
        let Mix { rewrite_ratio, delete_ratio } = self.mix;
        if kind < delete_ratio {
            let chosen = self.living(now);
            self.dead_from[chosen as usize] = i64::MIN;
            return Operation::Delete(chosen);
        }
        let chosen = match kind < delete_ratio + rewrite_ratio {
            true => self.living(now),
            false => self.draw(),
        };
        let lives_for = if self.time_to_live == 0 { i64::MAX } else { self.time_to_live };
        self.dead_from[chosen as usize] = now.saturating_add(lives_for);
        Operation::Write(chosen)
    }

    fn draw(&mut self) -> u64 {
        self.distribution.draw(self.dead_from.len() as u64, &mut self.prng)
    }

    fn living(&mut self, now: i64) -> u64 {
        let mut chosen = self.draw();
        for _ in 1..TRIES {
            if now < self.dead_from[chosen as usize] {
                break;
            }
            chosen = self.draw();
        }
        chosen
    }

    /// One of the partitions that live, each as likely; `None` if hardly any does.
    pub(crate) fn any_living(&mut self, now: i64) -> Option<u64> {
        let count = self.dead_from.len() as u64;
        let mut draws = (0..TRIES).map(|_| self.prng.below(count));
        draws.find(|chosen| now < self.dead_from[*chosen as usize])
    }

    /// How many partitions live.
    pub(crate) fn live_count(&self, now: i64) -> u64 {
        self.dead_from.iter().filter(|dead_from| now < **dead_from).count() as u64
    }

    /// One of `least..=most`.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        self.prng.between(least, most)
    }

    /// Fills a value with bytes that do not compress.
    pub(crate) fn fill(&mut self, value: &mut [u8]) {
        self.prng.fill(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of 10 000 draws from 1000 fall into each of ten parts.
    fn tenths(distribution: Distribution) -> [u32; 10] {
        let (mut prng, mut found) = (Prng::from_seed(1), [0; 10]);
        for _ in 0..10_000 {
            found[distribution.draw(1000, &mut prng) as usize / 100] += 1;
        }
        found
    }

    #[test]
    fn distributions() {
        assert!(tenths(Distribution::Uniform).iter().all(|count| (900..1100).contains(count)));
        // Of a normal distribution 0.9 % lie beyond 2.4 deviations on a side, 22.6 % between the
        // middle and 0.6.
        let bell = tenths(Distribution::Gaussian);
        assert!((40..130).contains(&bell[0]) && (40..130).contains(&bell[9]), "{bell:?}");
        assert!((2100..2450).contains(&bell[4]) && (2100..2450).contains(&bell[5]), "{bell:?}");
        // ln 101 / ln 1001 of them are among the first hundred.
        let steep = tenths(Distribution::Zipfian);
        assert!((6500..6900).contains(&steep[0]) && steep[9] < 250, "{steep:?}");
        for distribution in [Distribution::Uniform, Distribution::Gaussian, Distribution::Zipfian] {
            assert_eq!(distribution.draw(1, &mut Prng::from_seed(7)), 0);
            assert_eq!(Distribution::of(distribution.name()), Some(distribution));
        }
        assert_eq!(Distribution::of("normal"), None);
    }

    #[test]
    fn operations_come_in_their_ratios() {
        let mix = Mix { rewrite_ratio: 0.25, delete_ratio: 0.25 };
        let mut workload = Workload::new(1000, Distribution::Uniform, mix, 0, 1);
        let mut deleted = 0;
        for _ in 0..20_000 {
            deleted += matches!(workload.next(0), Operation::Delete(_)) as u32;
        }
        assert!((4700..5300).contains(&deleted), "{deleted}");
        // As many come to life as die: half of the writes that are no rewrites meet one that lives.
        let live = workload.live_count(0);
        assert!((420..580).contains(&live), "{live}");
        assert!(workload.any_living(0).is_some());
    }

    #[test]
    fn rewrites_and_deletions_take_what_lives() {
        let only = |mix| Workload::new(50, Distribution::Uniform, mix, 0, 1);
        let mut workload = only(Mix { rewrite_ratio: 0.0, delete_ratio: 0.0 });
        let Operation::Write(first) = workload.next(0) else { panic!("a write") };
        let deletes = Mix { rewrite_ratio: 0.0, delete_ratio: 1.0 };
        workload.mix = deletes;
        // 64 draws of 50 find it more often than not; this seed does.
        assert_eq!(workload.next(0), Operation::Delete(first));
        assert_eq!((workload.live_count(0), workload.any_living(0)), (0, None));
    }

    #[test]
    fn what_has_a_time_to_live_dies_of_itself() {
        let mix = Mix { rewrite_ratio: 0.0, delete_ratio: 0.0 };
        let mut workload = Workload::new(1, Distribution::Zipfian, mix, 10, 1);
        workload.next(100);
        assert_eq!([99, 109, 110].map(|now| workload.live_count(now)), [1, 1, 0]);
        workload.next(105);
        assert_eq!([110, 114, 115].map(|now| workload.live_count(now)), [1, 1, 0]);
    }
}
