//! The options that plans depend on: values that change while the node runs.
//!
//! An analysis finds them in `Markers`. A value is asked for where it is needed and never kept.

use crate::compression;
use crate::speculative_retry::speculative_retry;
use cluster::settings::{Rule, Settings, anything};
use cluster::{Live, Restriction};
use std::cell::RefCell;
use std::rc::Rc;

const RETRY_OPTION: &str = "speculative_retry_user_table_default";
const RETRY_DEFAULT: &str = "99.0PERCENTILE";
const COMPRESSION_OPTION: &str = "sstable_compression_user_table_options";

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

/// Nothing stands for what a table has that says nothing, and no node was told anything.
fn compression(given: &Rc<[(String, String)]>) -> Result<(), String> {
    match compression::compression(given.to_vec()) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("Invalid {COMPRESSION_OPTION}: {error}")),
    }
}

/// Each field has the name of its option.
#[derive(Debug)]
#[allow(missing_docs, reason = "named and explained as in the options file")]
pub struct Options {
    // What SELECT is allowed.
    pub strict_allow_filtering: Live<Restriction>,
    pub strict_is_not_null_in_views: Live<Restriction>,
    pub max_partition_key_restrictions_per_query: Live<i64>,
    pub max_clustering_key_restrictions_per_query: Live<i64>,
    pub max_relations_in_where_clause: Live<i64>,
    // How markers are named and counted.
    pub cql_duplicate_bind_variable_names_refer_to_same_variable: Live<bool>,
    pub cql_in_bind_variable_name_uses_uppercase_operator: Live<bool>,
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
    pub sstable_compression_user_table_options: Live<Rc<[(String, String)]>>,
    pub tablets_mode_for_new_keyspaces: Live<Rc<str>>,
    pub enable_tablets: Live<bool>,
    pub rf_rack_valid_keyspaces: Live<bool>,
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
        match speculative_retry(&wanted) {
            Ok(retry) => *self.retry_of_new_tables.borrow_mut() = Rc::from(retry),
            Err(error) => tracing::warn!(target: "config", "{RETRY_OPTION} is ignored: {error}"),
        }
    }

    fn registered(settings: &Settings) -> Options {
        let flag = |name, default| settings.register(name, default, anything::<bool>);
        let any = |name, default| settings.register(name, default, anything::<i64>);
        let natural = |name, default| settings.register(name, default, not_negative as Rule<i64>);
        let mode = |name, default| settings.register(name, default, anything::<Restriction>);
        let names = |name, default: &[&str]| {
            let default = default.iter().map(|name| name.to_string()).collect();
            settings.register(name, default, strategies)
        };
        let options = Options {
            strict_allow_filtering: mode("strict_allow_filtering", Restriction::Warned),
            strict_is_not_null_in_views: mode("strict_is_not_null_in_views", Restriction::Warned),
            max_partition_key_restrictions_per_query: natural(
                "max_partition_key_restrictions_per_query",
                100,
            ),
            max_clustering_key_restrictions_per_query: natural(
                "max_clustering_key_restrictions_per_query",
                100,
            ),
            max_relations_in_where_clause: natural("max_relations_in_where_clause", 100),
            cql_duplicate_bind_variable_names_refer_to_same_variable: flag(
                "cql_duplicate_bind_variable_names_refer_to_same_variable",
                true,
            ),
            cql_in_bind_variable_name_uses_uppercase_operator: flag(
                "cql_in_bind_variable_name_uses_uppercase_operator",
                true,
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
            sstable_compression_user_table_options: settings.register(
                COMPRESSION_OPTION,
                Rc::from([]),
                compression,
            ),
            tablets_mode_for_new_keyspaces: settings.register(
                "tablets_mode_for_new_keyspaces",
                Rc::from("disabled"),
                tablets_mode,
            ),
            enable_tablets: flag("enable_tablets", false),
            rf_rack_valid_keyspaces: flag("rf_rack_valid_keyspaces", false),
        };
        if let Err(error) = speculative_retry(&options.speculative_retry_user_table_default.get()) {
            settings.refuse_at_start(format!("Invalid {RETRY_OPTION}: {error}"));
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::settings::Offer;

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(strategies(&Rc::from(["SimpleStrategy".to_owned()])).is_ok());
        assert!(strategies(&Rc::from(["Simple".to_owned()])).is_err());
        assert!(not_negative(&-1).is_err());
    }

    #[test]
    fn defaults_of_new_tables_that_make_no_sense_stop_a_start() {
        let refused = |name: &'static str, shown: &str| {
            let (settings, shown) = (Settings::default(), shown.to_owned());
            let kind = if shown.starts_with('{') { "string map" } else { "string" };
            settings.offer(Offer { name, kind, shown, source: "config", changes: true });
            Options::check(&settings);
            settings.refused().join("; ")
        };
        let of_chunk = |kib: &str| {
            let shown = format!("{{\"class\":\"LZ4Compressor\",\"chunk_length_in_kb\":\"{kib}\"}}");
            refused(COMPRESSION_OPTION, &shown)
        };
        assert_eq!(of_chunk("64"), "");
        assert_eq!(refused(COMPRESSION_OPTION, "{}"), "");
        for (kib, why) in [("-1", "negative or null"), ("3", "power of 2"), ("256", "128 or less")]
        {
            let found = of_chunk(kib);
            assert!(found.contains(&format!("Invalid {COMPRESSION_OPTION}: ")), "{found}");
            assert!(found.contains(why), "{found}");
        }
        assert_eq!(refused(RETRY_OPTION, "\"ALWAYS\""), "");
        assert!(refused(RETRY_OPTION, "\"dog\"").starts_with(&format!("Invalid {RETRY_OPTION}: ")));
    }
}
