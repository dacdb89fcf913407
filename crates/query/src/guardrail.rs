//! Counts of the guardrails that statements have hit on one shard, for metrics; and the clock
//! skew of clients.

use crate::tally::Tally;
use plan::Guardrail;
use replication::Consistency;
use std::cell::Cell;

/// How often each rule was met, and each level of a write asked for.
#[derive(Debug, Default)]
pub struct Met {
    guardrails: [Cell<u64>; Guardrail::ALL.len()],
    /// By its number in the protocol.
    write_levels: [Cell<u64>; 16],
    /// Of the timestamps that clients gave their writes.
    pub drift: Drift,
    /// What was executed.
    pub tally: Tally,
}

/// How far from the clock of the node timestamps were, to either side.
#[derive(Debug, Default)]
pub struct Drift {
    counts: [Cell<u64>; Drift::BOUNDS.len() + 1],
    sum_micros: Cell<u64>,
}

impl Drift {
    /// Microseconds.
    const BOUNDS: [u64; 8] =
        [100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 60_000_000, 3_600_000_000];

    pub(crate) fn count(&self, micros: u64) {
        let counter = &self.counts[Drift::BOUNDS.partition_point(|bound| *bound < micros)];
        counter.set(counter.get() + 1);
        self.sum_micros.set(self.sum_micros.get().saturating_add(micros));
    }

    /// Bounds in microseconds, none for the last one, with how many were at most as far.
    pub fn up_to(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let bounds = Drift::BOUNDS.into_iter().map(Some).chain([None]);
        let counts = self.counts.iter().scan(0, |sum, count| {
            *sum += count.get();
            Some(*sum)
        });
        bounds.zip(counts)
    }

    /// The sum of all, in microseconds.
    pub fn sum_micros(&self) -> u64 {
        self.sum_micros.get()
    }
}

impl Met {
    pub(crate) fn count(&self, guardrail: Guardrail) {
        let counter = &self.guardrails[guardrail as usize];
        counter.set(counter.get() + 1);
    }

    pub(crate) fn count_write(&self, level: Consistency) {
        let counter = &self.write_levels[usize::from(level.to_wire()) % 16];
        counter.set(counter.get() + 1);
    }

    /// Each rule with how often it was met.
    pub fn guardrails(&self) -> impl Iterator<Item = (Guardrail, u64)> {
        Guardrail::ALL.into_iter().zip(&self.guardrails).map(|(it, count)| (it, count.get()))
    }

    /// Each consistency level with how many writes asked for it.
    pub fn write_levels(&self) -> impl Iterator<Item = (Consistency, u64)> {
        let levels = (0u16..).map_while(Consistency::from_wire);
        levels.zip(&self.write_levels).map(|(level, count)| (level, count.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drifts_are_counted_up_to_each_bound() {
        let drift = Drift::default();
        [0, 100, 101, 5_000, u64::MAX].into_iter().for_each(|micros| drift.count(micros));
        let counts: Vec<u64> = drift.up_to().map(|(_, count)| count).collect();
        assert_eq!(counts, [2, 3, 4, 4, 4, 4, 4, 4, 5]);
        assert_eq!(drift.up_to().last(), Some((None, 5)));
        assert_eq!(drift.sum_micros(), u64::MAX);
    }

    #[test]
    fn each_has_a_counter_of_its_own() {
        let met = Met::default();
        for (times, guardrail) in Guardrail::ALL.into_iter().enumerate() {
            (0..times).for_each(|_| met.count(guardrail));
        }
        met.count_write(Consistency::Quorum);
        let counts: Vec<_> = met.guardrails().map(|(_, count)| count).collect();
        assert_eq!(counts, [0, 1, 2, 3, 4, 5, 6, 7]);
        let written: Vec<_> = met.write_levels().filter(|(_, count)| *count != 0).collect();
        assert_eq!(written, [(Consistency::Quorum, 1)]);
        assert_eq!(met.write_levels().count(), 11);
    }
}
