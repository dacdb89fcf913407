//! The rules of a node that forbid something, or warn of it.

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
