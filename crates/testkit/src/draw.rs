//! Values drawn from the strategies of `testing` modules outside of property tests, so that one
//! seed gives a whole history.
//!
//! Invariants
//!  - *from-the-seed*: what is drawn follows from the generator that it was made of, and nothing
//!    else.

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use stdx::Prng;

/// Draws values.
#[derive(Debug)]
pub struct Draw {
    runner: TestRunner,
}

impl Draw {
    /// All that it draws follows from the next numbers of `prng`.
    pub fn of(prng: &mut Prng) -> Draw {
        let mut seed = [0; 32];
        prng.fill(&mut seed);
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
        Draw { runner: TestRunner::new_with_rng(Config::default(), rng) }
    }

    /// One value of a strategy.
    pub fn one<S: Strategy>(&mut self, strategy: S) -> S::Value {
        strategy.new_tree(&mut self.runner).expect("a value").current()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_values() {
        let drawn = |seed| {
            let mut draw = Draw::of(&mut Prng::from_seed(seed));
            (0..50).map(|_| draw.one(0..1000)).collect::<Vec<i32>>()
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }
}
