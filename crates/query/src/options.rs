//! The options that statements depend on: values that change while the node runs.
//!
//! Every processor has one [`Options`]; an analysis finds it in `Markers`, an execution in
//! `Request`. A value is asked for where it is needed and never kept.
//!
//! An option of its own: a field here, registered in [`Options::registered`] under its name in the
//! options file.

use crate::guardrail::Met;
use cluster::settings::{Rule, SettingValue, Settings, anything};
use cluster::{Live, Restriction};
use replication::Consistency;
use std::cell::RefCell;
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

const RETRY_OPTION: &str = "speculative_retry_user_table_default";
const RETRY_DEFAULT: &str = "99.0PERCENTILE";

/// What replication strategies are called in lists.
const STRATEGIES: [&str; 4] =
    ["SimpleStrategy", "LocalStrategy", "NetworkTopologyStrategy", "EverywhereStrategy"];

fn strategies(names: &Rc<[String]>) -> Result<(), String> {
    match names.iter().find(|name| !STRATEGIES.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(format!("unknown replication strategy {name}")),
    }
}

fn not_negative(number: &i64) -> Result<(), String> {
    if *number < 0 { Err(format!("{number} is less than 0")) } else { Ok(()) }
}

fn tablets_mode(mode: &Rc<str>) -> Result<(), String> {
    match &**mode {
        "disabled" | "enabled" | "enforced" => Ok(()),
        other => Err(format!("must be disabled, enabled or enforced, got {other}")),
    }
}

/// Each field has the name of its option.
#[derive(Debug)]
#[allow(missing_docs, reason = "named and explained as in the options file")]
pub struct Options {
    /// How often some of them were met.
    pub met: Met,
    // What SELECT is allowed and where its pages end.
    pub strict_allow_filtering: Live<Restriction>,
    pub query_page_size_in_bytes: Live<i64>,
    pub query_tombstone_page_limit: Live<i64>,
    pub select_internal_page_size: Live<i64>,
    pub tombstone_warn_threshold: Live<i64>,
    pub max_partition_key_restrictions_per_query: Live<i64>,
    pub max_clustering_key_restrictions_per_query: Live<i64>,
    pub max_relations_in_where_clause: Live<i64>,
    pub max_memory_for_unlimited_query_soft_limit: Live<i64>,
    pub max_memory_for_unlimited_query_hard_limit: Live<i64>,
    pub enable_parallelized_aggregation: Live<bool>,
    // How markers are named and counted.
    pub cql_duplicate_bind_variable_names_refer_to_same_variable: Live<bool>,
    pub cql_in_bind_variable_name_uses_uppercase_operator: Live<bool>,
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
    // The schema.
    pub enable_create_table_with_compact_storage: Live<bool>,
    pub minimum_replication_factor_warn_threshold: Live<i64>,
    pub minimum_replication_factor_fail_threshold: Live<i64>,
    pub maximum_replication_factor_warn_threshold: Live<i64>,
    pub maximum_replication_factor_fail_threshold: Live<i64>,
    pub replication_strategy_warn_list: Live<Rc<[String]>>,
    pub replication_strategy_fail_list: Live<Rc<[String]>>,
    pub restrict_replication_simplestrategy: Live<Restriction>,
    pub restrict_twcs_without_default_ttl: Live<Restriction>,
    pub twcs_max_window_count: Live<i64>,
    pub speculative_retry_user_table_default: Live<Rc<str>>,
    /// The last one of `speculative_retry_user_table_default` that makes sense.
    pub(crate) retry_of_new_tables: RefCell<Rc<str>>,
    pub tablets_mode_for_new_keyspaces: Live<Rc<str>>,
    pub enable_tablets: Live<bool>,
}

impl Options {
    /// As this shard's settings have them, from now on and after every change.
    pub fn of_shard() -> Rc<Options> {
        let settings = Settings::of_shard();
        let options = Rc::new(Options::registered(&settings));
        let watched = Rc::downgrade(&options);
        let changed = move || {
            if let Some(options) = watched.upgrade() {
                options.keep_retry();
            }
        };
        changed();
        settings.watch(RETRY_OPTION, Rc::new(changed));
        options
    }

    /// Those of a node that was told nothing, for tools and tests.
    pub fn standard() -> Rc<Options> {
        Rc::new(Options::registered(&Settings::default()))
    }

    /// Registers what [`Options::of_shard`] would, for [`Settings::refused`].
    pub fn check(settings: &Settings) {
        Options::registered(settings);
    }

    /// Invalid values are logged, and new tables keep the previous one.
    fn keep_retry(&self) {
        let wanted = self.speculative_retry_user_table_default.get();
        match crate::ddl::speculative_retry(&wanted) {
            Ok(retry) => *self.retry_of_new_tables.borrow_mut() = Rc::from(retry),
            Err(error) => tracing::warn!(target: "config", "{RETRY_OPTION} is ignored: {error}"),
        }
    }

    fn registered(settings: &Settings) -> Options {
        let flag = |name, default| settings.register(name, default, anything::<bool>);
        let any = |name, default| settings.register(name, default, anything::<i64>);
        let natural = |name, default| settings.register(name, default, not_negative as Rule<i64>);
        let mode = |name, default| settings.register(name, default, anything::<Restriction>);
        let levels = |name| settings.register(name, Consistencies::default(), anything);
        let names = |name, default: &[&str]| {
            let default = default.iter().map(|name| name.to_string()).collect();
            settings.register(name, default, strategies)
        };
        Options {
            met: Met::default(),
            strict_allow_filtering: mode("strict_allow_filtering", Restriction::Warned),
            query_page_size_in_bytes: natural("query_page_size_in_bytes", 1 << 20),
            query_tombstone_page_limit: natural("query_tombstone_page_limit", 10_000),
            select_internal_page_size: natural("select_internal_page_size", 10_000),
            tombstone_warn_threshold: natural("tombstone_warn_threshold", 1000),
            max_partition_key_restrictions_per_query: natural(
                "max_partition_key_restrictions_per_query",
                100,
            ),
            max_clustering_key_restrictions_per_query: natural(
                "max_clustering_key_restrictions_per_query",
                100,
            ),
            max_relations_in_where_clause: natural("max_relations_in_where_clause", 100),
            max_memory_for_unlimited_query_soft_limit: natural(
                "max_memory_for_unlimited_query_soft_limit",
                1 << 20,
            ),
            max_memory_for_unlimited_query_hard_limit: natural(
                "max_memory_for_unlimited_query_hard_limit",
                100 << 20,
            ),
            enable_parallelized_aggregation: flag("enable_parallelized_aggregation", true),
            cql_duplicate_bind_variable_names_refer_to_same_variable: flag(
                "cql_duplicate_bind_variable_names_refer_to_same_variable",
                true,
            ),
            cql_in_bind_variable_name_uses_uppercase_operator: flag(
                "cql_in_bind_variable_name_uses_uppercase_operator",
                true,
            ),
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
            enable_create_table_with_compact_storage: flag(
                "enable_create_table_with_compact_storage",
                false,
            ),
            minimum_replication_factor_warn_threshold: any(
                "minimum_replication_factor_warn_threshold",
                -1,
            ),
            minimum_replication_factor_fail_threshold: any(
                "minimum_replication_factor_fail_threshold",
                -1,
            ),
            maximum_replication_factor_warn_threshold: any(
                "maximum_replication_factor_warn_threshold",
                0,
            ),
            maximum_replication_factor_fail_threshold: any(
                "maximum_replication_factor_fail_threshold",
                -1,
            ),
            replication_strategy_warn_list: names(
                "replication_strategy_warn_list",
                &["SimpleStrategy"],
            ),
            replication_strategy_fail_list: names("replication_strategy_fail_list", &[]),
            restrict_replication_simplestrategy: mode(
                "restrict_replication_simplestrategy",
                Restriction::Allowed,
            ),
            restrict_twcs_without_default_ttl: mode(
                "restrict_twcs_without_default_ttl",
                Restriction::Warned,
            ),
            twcs_max_window_count: natural("twcs_max_window_count", 50),
            speculative_retry_user_table_default: settings.register(
                RETRY_OPTION,
                Rc::from(RETRY_DEFAULT),
                anything,
            ),
            retry_of_new_tables: RefCell::new(Rc::from(RETRY_DEFAULT)),
            tablets_mode_for_new_keyspaces: settings.register(
                "tablets_mode_for_new_keyspaces",
                Rc::from("disabled"),
                tablets_mode,
            ),
            enable_tablets: flag("enable_tablets", false),
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
        assert!(strategies(&Rc::from(["SimpleStrategy".to_owned()])).is_ok());
        assert!(strategies(&Rc::from(["Simple".to_owned()])).is_err());
        assert!(not_negative(&-1).is_err());
    }
}
