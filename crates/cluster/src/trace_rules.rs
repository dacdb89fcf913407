//! Which requests are traced without a client's asking: a fraction of all, and slow ones; and
//! whether statements are counted by their form ([`crate::statements`]), for which requests are
//! timed in the same way.
//!
//! [`TraceRules`] is in `runtime::local` of each shard. Operators change them; code that serves
//! requests asks [`TraceRules::any`] first, which costs the read of a flag.
//!
//! Invariants
//!  - *one-flag*: where there is a rule, [`TraceRules::any`] says so.
//!  - *checked-first*: a share is from 0 to 1.
//!  - *on-every-shard*: a change is visible on all shards before it is acknowledged.

use runtime::Erased;
use std::cell::Cell;
use std::rc::Rc;

/// Which requests are slow, and what is kept of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowQueries {
    /// Whether slow requests are kept.
    pub enabled: bool,
    /// Their record alone, without the events.
    pub fast: bool,
    /// How long they are kept.
    pub ttl_secs: u32,
    /// A request that takes longer is slow.
    pub threshold_micros: u64,
}

impl SlowQueries {
    /// What a node begins with (ScyllaDB's defaults).
    pub const OFF: SlowQueries =
        SlowQueries { enabled: false, fast: false, ttl_secs: 86_400, threshold_micros: 500_000 };
}

/// The rules of one shard. Lives in `runtime::local`; see [`TraceRules::of_shard`].
#[derive(Debug)]
pub struct TraceRules {
    any: Cell<bool>,
    probability: Cell<f64>,
    slow: Cell<SlowQueries>,
    counts: Cell<bool>,
}

impl Default for TraceRules {
    fn default() -> TraceRules {
        TraceRules {
            any: Cell::new(false),
            probability: Cell::new(0.0),
            slow: Cell::new(SlowQueries::OFF),
            counts: Cell::new(false),
        }
    }
}

impl TraceRules {
    /// The rules of this shard.
    pub fn of_shard() -> Rc<TraceRules> {
        runtime::local::get_or_default()
    }

    /// Whether there are any.
    #[inline]
    pub fn any(&self) -> bool {
        self.any.get()
    }

    /// The share of requests that are traced: 0 none, 1 all.
    pub fn probability(&self) -> f64 {
        self.probability.get()
    }

    /// Draws whether this request is of that share.
    pub fn draws(&self) -> bool {
        let probability = self.probability.get();
        // The upper 53 bits are all that the fraction holds.
        0.0 < probability && ((runtime::random_u64() >> 11) as f64) < probability * SPAN
    }

    /// The rule about slow requests.
    pub fn slow(&self) -> SlowQueries {
        self.slow.get()
    }

    /// Whether statements are counted by their form.
    pub fn counts(&self) -> bool {
        self.counts.get()
    }

    /// The same on this shard.
    pub(crate) fn set_counts(&self, counts: bool) {
        self.counts.set(counts);
        self.set(self.probability(), self.slow());
    }

    fn set(&self, probability: f64, slow: SlowQueries) {
        let is_share = (0.0..=1.0).contains(&probability);
        assert!(is_share, "checked-first: a share of {probability}");
        self.probability.set(probability);
        self.slow.set(slow);
        self.any.set(0.0 < probability || slow.enabled || self.counts.get());
        let obeyed = self.any.get() || (self.probability.get() == 0.0 && !self.slow.get().enabled);
        assert!(obeyed, "one-flag: a rule that nobody asks for");
    }

    /// Sets the share on every shard; one that is no share is refused.
    pub fn set_probability(probability: f64) -> Erased<'static, Result<(), String>> {
        Erased::new(move || async move {
            if !(0.0..=1.0).contains(&probability) {
                return Err(format!(
                    "trace probability must be in [0, 1] range, got {probability}"
                ));
            }
            let set = move || async move {
                let rules = TraceRules::of_shard();
                rules.set(probability, rules.slow());
            };
            runtime::on_all_shards(set).await;
            Ok(())
        })
    }

    /// Sets the rule about slow requests on every shard.
    pub fn set_slow(slow: SlowQueries) -> Erased<'static, ()> {
        Erased::new(move || async move {
            let set = move || async move {
                let rules = TraceRules::of_shard();
                rules.set(rules.probability(), slow);
            };
            runtime::on_all_shards(set).await;
        })
    }
}

/// How many values the draw has.
const SPAN: f64 = (1u64 << 53) as f64;

const _: () = assert!(SPAN as u64 == 1 << f64::MANTISSA_DIGITS, "every draw is a number");

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::SimNode;

    #[test]
    fn rules_hold_on_every_shard() {
        let mut node = SimNode::new(1, 2);
        node.run(async {
            assert!(!TraceRules::of_shard().any());
            for wrong in [-0.1, 1.1, f64::NAN] {
                assert!(TraceRules::set_probability(wrong).await.is_err());
            }
            TraceRules::set_probability(0.25).await.unwrap();
            let slow = SlowQueries { enabled: true, ..SlowQueries::OFF };
            TraceRules::set_slow(slow).await;
            let shown = runtime::on_all_shards(|| async {
                let rules = TraceRules::of_shard();
                (rules.any(), rules.probability(), rules.slow())
            });
            assert_eq!(shown.await, [(true, 0.25, slow); 2]);
            TraceRules::set_probability(0.0).await.unwrap();
            assert!(TraceRules::of_shard().any());
            TraceRules::set_slow(SlowQueries::OFF).await;
            assert!(!TraceRules::of_shard().any());
        });
    }

    #[test]
    fn a_share_of_draws_hits() {
        runtime::sim::test(7, || async {
            let rules = TraceRules::default();
            for (probability, hits) in [(0.0, 0..1), (0.25, 400..600), (1.0, 2000..2001)] {
                rules.set(probability, SlowQueries::OFF);
                let hit = (0..2000).filter(|_| rules.draws()).count();
                assert!(hits.contains(&hit), "{probability}: {hit}");
            }
        });
    }
}
