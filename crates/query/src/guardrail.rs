//! Which of the node's rules statements have met, on one shard, for metrics.

use replication::Consistency;
use std::cell::Cell;

/// A rule that forbids something, or warns of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guardrail {
    StrategyWarned,
    StrategyRefused,
    CopiesBelowWarned,
    CopiesBelowRefused,
    CopiesAboveWarned,
    CopiesAboveRefused,
    WriteLevelWarned,
    WriteLevelRefused,
}

impl Guardrail {
    /// All of them, in the order of their definition.
    pub const ALL: [Guardrail; 8] = [
        Guardrail::StrategyWarned,
        Guardrail::StrategyRefused,
        Guardrail::CopiesBelowWarned,
        Guardrail::CopiesBelowRefused,
        Guardrail::CopiesAboveWarned,
        Guardrail::CopiesAboveRefused,
        Guardrail::WriteLevelWarned,
        Guardrail::WriteLevelRefused,
    ];

    /// The name of its metric.
    pub fn metric(self) -> &'static str {
        match self {
            Guardrail::StrategyWarned => "cql_replication_strategy_warn_list_violations",
            Guardrail::StrategyRefused => "cql_replication_strategy_fail_list_violations",
            Guardrail::CopiesBelowWarned => "cql_minimum_replication_factor_warn_violations",
            Guardrail::CopiesBelowRefused => "cql_minimum_replication_factor_fail_violations",
            Guardrail::CopiesAboveWarned => "cql_maximum_replication_factor_warn_violations",
            Guardrail::CopiesAboveRefused => "cql_maximum_replication_factor_fail_violations",
            Guardrail::WriteLevelWarned => "cql_write_consistency_levels_warned_violations",
            Guardrail::WriteLevelRefused => "cql_write_consistency_levels_disallowed_violations",
        }
    }
}

/// How often each rule was met, and each level of a write asked for.
#[derive(Debug, Default)]
pub struct Met {
    guardrails: [Cell<u64>; Guardrail::ALL.len()],
    /// By its number in the protocol.
    write_levels: [Cell<u64>; 16],
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
