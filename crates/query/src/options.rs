//! The options that executions depend on: values that change while the node runs.
//!
//! Every processor has one [`Options`]; an execution finds it in `Request`, with those that
//! analyses depend on. A value is asked for where it is needed and never kept.
//!
//! An option of its own: a field here, registered in [`Options::registered`] under its name in the
//! options file.

use crate::guardrail::Met;
use cluster::Live;
use cluster::settings::{Rule, SettingValue, Settings, anything};
use replication::Consistency;
use std::rc::Rc;

/// Some consistency levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consistencies(u16);

impl Consistencies {
    /// Whether `level` is one of them.
    pub fn contains(self, level: Consistency) -> bool {
        self.0 & (1 << level.to_wire()) != 0
    }

    fn all() -> impl Iterator<Item = Consistency> {
        (0..16).map_while(Consistency::from_wire)
    }

    fn levels(self) -> impl Iterator<Item = Consistency> {
        Consistencies::all().filter(move |level| self.contains(*level))
    }
}

/// As names in a list; one that is no level is refused.
impl SettingValue for Consistencies {
    const KIND: &'static str = "string list";

    fn parse(text: &str) -> Option<Consistencies> {
        let mut levels = Consistencies::default();
        for name in <Rc<[String]>>::parse(text)?.iter() {
            let level = Consistencies::all().find(|it| it.name().eq_ignore_ascii_case(name))?;
            levels.0 |= 1 << level.to_wire();
        }
        Some(levels)
    }

    fn show(&self) -> String {
        self.levels().map(|level| level.name().to_owned()).collect::<Rc<[String]>>().show()
    }
}

fn not_negative(number: &i64) -> Result<(), String> {
    if *number < 0 { Err(format!("{number} is less than 0")) } else { Ok(()) }
}

/// Each field has the name of its option.
#[derive(Debug)]
#[allow(missing_docs, reason = "named and explained as in the options file")]
pub struct Options {
    /// How often some of them were met.
    pub met: Met,
    /// Those of analyses.
    pub analysis: Rc<plan::Options>,
    // Where pages of SELECT end.
    pub query_page_size_in_bytes: Live<i64>,
    pub query_tombstone_page_limit: Live<i64>,
    pub select_internal_page_size: Live<i64>,
    pub tombstone_warn_threshold: Live<i64>,
    pub max_memory_for_unlimited_query_soft_limit: Live<i64>,
    pub max_memory_for_unlimited_query_hard_limit: Live<i64>,
    pub enable_parallelized_aggregation: Live<bool>,
    // Writes.
    pub restrict_future_timestamp: Live<bool>,
    pub batch_size_warn_threshold_in_kb: Live<i64>,
    pub batch_size_fail_threshold_in_kb: Live<i64>,
    pub write_consistency_levels_warned: Live<Consistencies>,
    pub write_consistency_levels_disallowed: Live<Consistencies>,
    // Writes of tables with `large_data_guardrails_enabled`.
    pub large_data_cql_warnings: Live<bool>,
    pub large_cell_fail_threshold_mb: Live<i64>,
    pub large_row_fail_threshold_mb: Live<i64>,
    pub large_partition_fail_threshold_mb: Live<i64>,
    pub large_collection_elements_fail_threshold: Live<i64>,
    pub rows_count_fail_threshold: Live<i64>,
    pub compaction_large_partition_warning_threshold_mb: Live<i64>,
    pub compaction_large_row_warning_threshold_mb: Live<i64>,
    pub compaction_large_cell_warning_threshold_mb: Live<i64>,
    pub compaction_rows_count_warning_threshold: Live<i64>,
    pub compaction_collection_elements_count_warning_threshold: Live<i64>,
}

impl Options {
    /// As this shard's settings have them, from now on and after every change.
    pub fn of_shard() -> Rc<Options> {
        let analysis = plan::Options::of_shard();
        Rc::new(Options::registered(&Settings::of_shard(), analysis))
    }

    /// Registers what [`Options::of_shard`] would, for [`Settings::refused`].
    pub fn check(settings: &Settings) {
        plan::Options::check(settings);
        Options::registered(settings, plan::Options::standard());
    }

    fn registered(settings: &Settings, analysis: Rc<plan::Options>) -> Options {
        let flag = |name, default| settings.register(name, default, anything::<bool>);
        let natural = |name, default| settings.register(name, default, not_negative as Rule<i64>);
        let levels = |name| settings.register(name, Consistencies::default(), anything);
        Options {
            met: Met::default(),
            analysis,
            query_page_size_in_bytes: natural("query_page_size_in_bytes", 1 << 20),
            query_tombstone_page_limit: natural("query_tombstone_page_limit", 10_000),
            select_internal_page_size: natural("select_internal_page_size", 10_000),
            tombstone_warn_threshold: natural("tombstone_warn_threshold", 1000),
            max_memory_for_unlimited_query_soft_limit: natural(
                "max_memory_for_unlimited_query_soft_limit",
                1 << 20,
            ),
            max_memory_for_unlimited_query_hard_limit: natural(
                "max_memory_for_unlimited_query_hard_limit",
                100 << 20,
            ),
            enable_parallelized_aggregation: flag("enable_parallelized_aggregation", true),
            restrict_future_timestamp: flag("restrict_future_timestamp", true),
            batch_size_warn_threshold_in_kb: natural("batch_size_warn_threshold_in_kb", 128),
            batch_size_fail_threshold_in_kb: natural("batch_size_fail_threshold_in_kb", 1024),
            write_consistency_levels_warned: levels("write_consistency_levels_warned"),
            write_consistency_levels_disallowed: levels("write_consistency_levels_disallowed"),
            large_data_cql_warnings: flag("large_data_cql_warnings", false),
            large_cell_fail_threshold_mb: natural("large_cell_fail_threshold_mb", 2),
            large_row_fail_threshold_mb: natural("large_row_fail_threshold_mb", 20),
            large_partition_fail_threshold_mb: natural("large_partition_fail_threshold_mb", 2000),
            large_collection_elements_fail_threshold: natural(
                "large_collection_elements_fail_threshold",
                20_000,
            ),
            rows_count_fail_threshold: natural("rows_count_fail_threshold", 200_000),
            compaction_large_partition_warning_threshold_mb: natural(
                "compaction_large_partition_warning_threshold_mb",
                1000,
            ),
            compaction_large_row_warning_threshold_mb: natural(
                "compaction_large_row_warning_threshold_mb",
                10,
            ),
            compaction_large_cell_warning_threshold_mb: natural(
                "compaction_large_cell_warning_threshold_mb",
                1,
            ),
            compaction_rows_count_warning_threshold: natural(
                "compaction_rows_count_warning_threshold",
                100_000,
            ),
            compaction_collection_elements_count_warning_threshold: natural(
                "compaction_collection_elements_count_warning_threshold",
                10_000,
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_known_by_name() {
        let check = |text: &str, expected: Option<&str>| {
            let found = Consistencies::parse(text);
            assert_eq!(found.map(|levels| levels.show()).as_deref(), expected, "{text}");
        };
        check("", Some("[]"));
        check("any, LOCAL_QUORUM", Some("[\"ANY\",\"LOCAL_QUORUM\"]"));
        check("INVALID, ANY", None);
        let levels = Consistencies::parse("LOCAL_ONE").unwrap();
        assert!(levels.contains(Consistency::LocalOne) && !levels.contains(Consistency::One));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(not_negative(&-1).is_err());
    }
}
