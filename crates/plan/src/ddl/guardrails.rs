//! Guardrails of schema changes: what options forbid or warn of, and warnings about what has no
//! effect.

use super::keyspace::TabletsByDefault;
use super::options;
use super::properties::{Options as Map, get};
use super::racks::copies;
use crate::error::Error;
use crate::guardrail::Guardrail;
use crate::options::Options;
use cluster::{Restriction, Schema};
use model::schema::TableOptions;
use syntax::ast::{AlterTable, AlterTableAction, PropertyValue, SchemaStatement, TableProperties};

/// The node's options about schemas, as a statement finds them. Plain data: it goes to the shard
/// that decides.
#[derive(Clone, Debug)]
pub struct Rules {
    pub(super) compact_storage: bool,
    pub(super) tablets: TabletsByDefault,
    pub(super) speculative_retry: String,
    /// Of new tables; empty: as a node has them that was told nothing.
    pub(super) compression: Vec<(String, String)>,
    /// Whether a keyspace with tablets has no two replicas in a rack.
    pub(super) racks_apart: bool,
    copies_min: Threshold,
    copies_max: Threshold,
    strategies_warned: Vec<String>,
    strategies_refused: Vec<String>,
    windows_without_ttl: Restriction,
    windows_max: i64,
    /// Of columns that are not in a view's key.
    pub(super) not_null: Restriction,
    /// Those that may hold copies.
    nodes: i64,
}

/// What is not recommended, and by which rule.
type Warning = (Guardrail, String);

/// Limits of a number; negative ones are none. Where many copies are warned of, 0 is the number of
/// nodes.
#[derive(Clone, Copy, Debug)]
struct Threshold {
    warn: i64,
    fail: i64,
}

impl Rules {
    /// Of tools: the defaults of a node, with compact tables allowed.
    pub fn of_tools() -> Rules {
        Rules { compact_storage: true, ..Rules::of(&Options::standard()) }
    }

    /// The same in a cluster of so many nodes.
    pub fn among(self, nodes: i64) -> Rules {
        assert!(0 < nodes, "rules of a cluster without nodes");
        Rules { nodes, ..self }
    }

    /// Those of a node alone.
    pub fn of(options: &Options) -> Rules {
        let mut strategies_warned = options.replication_strategy_warn_list.get().to_vec();
        let mut strategies_refused = options.replication_strategy_fail_list.get().to_vec();
        let simple = "SimpleStrategy".to_owned();
        match options.restrict_replication_simplestrategy.get() {
            Restriction::Allowed => {}
            Restriction::Warned => strategies_warned.push(simple),
            Restriction::Refused => strategies_refused.push(simple),
        }
        Rules {
            compact_storage: options.enable_create_table_with_compact_storage.get(),
            tablets: match (
                &*options.tablets_mode_for_new_keyspaces.get(),
                options.enable_tablets.get(),
            ) {
                ("enforced", _) => TabletsByDefault::Always,
                ("enabled", _) | (_, true) => TabletsByDefault::Yes,
                _ => TabletsByDefault::No,
            },
            compression: options.sstable_compression_user_table_options.get().to_vec(),
            racks_apart: options.rf_rack_valid_keyspaces.get(),
            speculative_retry: options.retry_of_new_tables.borrow().to_string(),
            copies_min: Threshold {
                warn: options.minimum_replication_factor_warn_threshold.get(),
                fail: options.minimum_replication_factor_fail_threshold.get(),
            },
            copies_max: Threshold {
                warn: options.maximum_replication_factor_warn_threshold.get(),
                fail: options.maximum_replication_factor_fail_threshold.get(),
            },
            strategies_warned,
            strategies_refused,
            windows_without_ttl: options.restrict_twcs_without_default_ttl.get(),
            windows_max: options.twcs_max_window_count.get(),
            not_null: options.strict_is_not_null_in_views.get(),
            nodes: 1,
        }
    }

    /// An error if the node forbids a keyspace to be replicated so; else what to warn of.
    pub(super) fn check_replication(
        &self,
        keyspace: &str,
        replication: &[(String, String)],
    ) -> Result<Vec<Warning>, Error> {
        let class = get(replication, "class").unwrap_or_default();
        let strategy = class.rsplit('.').next().unwrap_or(class);
        let listed = |list: &[String]| list.iter().any(|name| name == strategy);
        let refuse = |rule, text: String| Err(Error::Forbidden(rule, text));
        if listed(&self.strategies_refused) {
            return refuse(
                Guardrail::StrategyRefused,
                format!(
                    "{strategy} is forbidden as the replication class of keyspace {keyspace} by \
                 replication_strategy_fail_list"
                ),
            );
        }
        let mut warnings = Vec::new();
        for (center, text) in replication.iter().filter(|(name, _)| name != "class") {
            warnings.extend(self.check_copies(center, copies(text))?);
        }
        if listed(&self.strategies_warned) {
            warnings.push((
                Guardrail::StrategyWarned,
                format!(
                    "Using {strategy} replication class is not recommended, and was used in the \
                 keyspace {keyspace}: it is in replication_strategy_warn_list."
                ),
            ));
        }
        if matches!(strategy, "SimpleStrategy" | "NetworkTopologyStrategy")
            && let Some(text) = self.unreachable_copies(replication)
        {
            // One warning about a keyspace, where its strategy is warned of.
            match warnings.last_mut() {
                Some((Guardrail::StrategyWarned, said)) => *said = format!("{said} {text}"),
                _ => warnings.push((Guardrail::CopiesAboveWarned, text)),
            }
        }
        Ok(warnings)
    }

    /// What is said of more copies than there are nodes.
    fn unreachable_copies(&self, replication: &[(String, String)]) -> Option<String> {
        let centers = replication.iter().filter(|(name, _)| name != "class");
        let mut centers = centers.map(|(center, text)| (center, copies(text)));
        let (center, copies) = centers.find(|(_, copies)| self.nodes < *copies)?;
        let nodes = self.nodes;
        let level = if nodes < copies / 2 + 1 { "QUORUM" } else { "ALL" };
        let replicas = if nodes == 1 { "replica" } else { "replicas" };
        (self.copies_max.warn == 0).then(|| {
            format!(
                "Replication factor {center}={copies} is more than the number of nodes ({nodes}): \
                 requests at consistency levels that need more than {nodes} {replicas}, such as \
                 {level}, are refused."
            )
        })
    }

    /// The same of the number of copies in a data center.
    fn check_copies(&self, center: &str, copies: i64) -> Result<Vec<Warning>, Error> {
        let forbidden = |rule, than: &str, limit: String| {
            let text = format!(
                "Replication Factor {center}={copies} is forbidden: it is {than} than {limit}"
            );
            Err(Error::Forbidden(rule, text))
        };
        let warning = |rule, than: &str, limit: String| {
            let text = format!(
                "Using Replication Factor {center}={copies} {than} than the {limit} is not \
                 recommended."
            );
            (rule, text)
        };
        let mut warnings = Vec::new();
        let Threshold { warn, fail } = self.copies_min;
        let name = "minimum_replication_factor";
        if 0 < copies && copies < fail {
            let limit = format!("{name}_fail_threshold={fail}");
            return forbidden(Guardrail::CopiesBelowRefused, "lower", limit);
        }
        if 0 < copies && copies < warn {
            let limit = format!("{name}_warn_threshold={warn}");
            warnings.push(warning(Guardrail::CopiesBelowWarned, "lower", limit));
        }
        let Threshold { warn, fail } = self.copies_max;
        let name = "maximum_replication_factor";
        if 0 <= fail && fail < copies {
            let limit = format!("{name}_fail_threshold={fail}");
            return forbidden(Guardrail::CopiesAboveRefused, "higher", limit);
        }
        if 0 < warn && warn < copies {
            let limit = format!("{name}_warn_threshold={warn}");
            warnings.push(warning(Guardrail::CopiesAboveWarned, "higher", limit));
        }
        Ok(warnings)
    }

    /// An error if the node forbids such time windows; else what to warn of.
    pub(super) fn check_windows(&self, options: &TableOptions) -> Result<Vec<String>, Error> {
        if get(&options.compaction, "class") != Some("TimeWindowCompactionStrategy") {
            return Ok(Vec::new());
        }
        let ttl = i64::from(options.default_time_to_live);
        if ttl == 0 {
            let text = "TimeWindowCompactionStrategy tables without a default_time_to_live may \
                        accumulate too many windows; set one.";
            return match self.windows_without_ttl {
                Restriction::Allowed => Ok(Vec::new()),
                Restriction::Warned => Ok(vec![text.to_owned()]),
                Restriction::Refused => Err(Error::Config(format!(
                    "{text} It is required by restrict_twcs_without_default_ttl"
                ))),
            };
        }
        let window = window_secs(&options.compaction);
        let windows = ttl / window;
        if 0 < self.windows_max && self.windows_max < windows {
            return Err(Error::Config(format!(
                "default_time_to_live={ttl} and a compaction window of {window} seconds make \
                 {windows} windows, more than the {} that twcs_max_window_count allows",
                self.windows_max
            )));
        }
        Ok(Vec::new())
    }
}

/// Seconds of a time window.
fn window_secs(compaction: &Map) -> i64 {
    let size = get(compaction, "compaction_window_size").and_then(|text| text.parse().ok());
    let unit = match get(compaction, "compaction_window_unit") {
        Some("MINUTES") => 60,
        Some("HOURS") => 3600,
        _ => 86_400,
    };
    size.unwrap_or(1i64).max(1).saturating_mul(unit)
}

/// The warnings that a statement gives rise to, on the schema as it made it, each with the
/// guardrail that it has met, if one.
pub(super) fn warnings(
    schema: &Schema,
    statement: &SchemaStatement,
    rules: &Rules,
    keyspace: Option<&str>,
) -> Vec<(Option<Guardrail>, String)> {
    let of_keyspace = |name: &str| {
        let entry = schema.keyspace(name);
        let replication = entry.map(|entry| &entry.keyspace.replication[..]);
        let found = replication.and_then(|it| rules.check_replication(name, it).ok());
        let found = found.unwrap_or_default().into_iter();
        found.map(|(rule, text)| (Some(rule), text)).collect()
    };
    let of_table = |name: &syntax::ast::QualifiedName, properties: &TableProperties| {
        let mut warnings = of_options(properties);
        warnings.extend(of_compression(properties));
        let keyspace = name.keyspace.as_ref().map(|name| name.text.as_str()).or(keyspace);
        let said = |it: &syntax::ast::Property| {
            matches!(it.name.text.as_str(), "compaction" | "default_time_to_live")
        };
        let table = keyspace.and_then(|keyspace| schema.table(keyspace, &name.name.text));
        if let (Some(table), true) = (table, properties.properties.iter().any(said)) {
            warnings.extend(rules.check_windows(&table.schema.options).unwrap_or_default());
        }
        warnings.into_iter().map(|text| (None, text)).collect()
    };
    match statement {
        SchemaStatement::CreateKeyspace(it) => of_keyspace(&it.name.text),
        SchemaStatement::AlterKeyspace(it) => of_keyspace(&it.name.text),
        SchemaStatement::CreateTable(it) => of_table(&it.name, &it.properties),
        SchemaStatement::AlterTable(AlterTable {
            name,
            action: AlterTableAction::With(properties),
            ..
        }) => of_table(name, properties),
        _ => Vec::new(),
    }
}

/// Of options that have no effect.
fn of_options(properties: &TableProperties) -> Vec<String> {
    let names = properties.properties.iter().map(|property| property.name.text.as_str());
    let ignored = names.filter(|name| options::IGNORED.contains(name));
    ignored.map(|name| format!("The table option {name} has no effect and is not stored")).collect()
}

/// Of compressors whose dictionaries the node does not make.
fn of_compression(properties: &TableProperties) -> Option<String> {
    let last = properties.properties.iter().rfind(|it| it.name.text == "compression");
    let PropertyValue::Map(entries) = &last?.value else { return None };
    let class = entries.iter().find_map(|(name, value)| match (name, value) {
        (name, PropertyValue::Scalar(class))
            if matches!(name.text.as_str(), "class" | "sstable_compression") =>
        {
            class.text.rsplit('.').next()
        }
        _ => None,
    })?;
    let plain = match class {
        "LZ4WithDictsCompressor" => "LZ4Compressor",
        "ZstdWithDictsCompressor" => "ZstdCompressor",
        _ => return None,
    };
    Some(format!(
        "{class} reads files with dictionaries, but this node does not train them: new files \
         are written with {plain}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use syntax::ast::Statement;

    fn rules() -> Rules {
        Rules::of(&Options::standard())
    }

    #[test]
    fn dictionaries_that_are_not_made_are_warned_of() {
        let check = |text: &str, expected: Option<&str>| {
            let Statement::Schema(statement) = syntax::parse(text).unwrap().statement else {
                panic!("no DDL: {text}")
            };
            let schema = Schema::of_system(model::Uuid::from_u128(1), 1);
            let found = warnings(&schema, &statement, &rules(), None);
            assert_eq!(found.len(), expected.is_some() as usize, "{text}: {found:?}");
            assert!(expected.is_none_or(|word| found[0].1.ends_with(word)), "{text}: {found:?}");
        };
        let create = |with: &str| format!("CREATE TABLE t (p int PRIMARY KEY) WITH {with}");
        let (lz4, zstd) = (Some("with LZ4Compressor"), Some("with ZstdCompressor"));
        check(&create("compression = {'class': 'LZ4Compressor'}"), None);
        check(&create("compression = {}"), None);
        check(&create("comment = 'LZ4WithDictsCompressor'"), None);
        check(&create("compression = {'class': 'LZ4WithDictsCompressor'}"), lz4);
        let old = "{'chunk_length_in_kb': 4, 'sstable_compression': 'a.b.ZstdWithDictsCompressor'}";
        check(&create(&format!("compression = {old}")), zstd);
        check("ALTER TABLE t WITH compression = {'class': 'ZstdWithDictsCompressor'}", zstd);
    }

    #[test]
    fn replication_is_warned_of_or_refused() {
        let strict = Rules {
            copies_min: Threshold { warn: 3, fail: 2 },
            copies_max: Threshold { warn: 5, fail: 7 },
            strategies_refused: vec!["EverywhereStrategy".to_owned()],
            ..rules()
        };
        let check = |class: &str, copies: &str, expected: Result<&[&str], &str>| {
            let given = [("class", class), ("dc", copies)];
            let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
            match (strict.check_replication("ks", &given), expected) {
                (Ok(found), Ok(expected)) => {
                    assert_eq!(found.len(), expected.len(), "{class} {copies}: {found:?}");
                    let pairs = found.iter().zip(expected);
                    pairs.for_each(|((_, text), word)| assert!(text.contains(word), "{text}"));
                }
                (Err(error), Err(word)) => assert!(error.message().contains(word), "{error}"),
                (found, _) => panic!("{class} {copies}: {found:?}"),
            }
        };
        let network = "org.apache.cassandra.locator.NetworkTopologyStrategy";
        let said = |class: &str, copies: &str| {
            let given = [("class", class), ("dc", copies)];
            let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let found = rules().check_replication("ks", &given).expect("it is allowed");
            found.into_iter().map(|(_, text)| text).collect::<Vec<_>>()
        };
        assert_eq!(said(network, "1"), Vec::<String>::new());
        assert!(matches!(&said(network, "3")[..], [one] if one.contains("dc=3 is more than")));
        assert!(matches!(&said("SimpleStrategy", "3")[..], [one] if one.contains("QUORUM")
            && one.contains("replication_strategy_warn_list")));
        assert_eq!(said("LocalStrategy", "3"), Vec::<String>::new());
        check(network, "0", Ok(&[]));
        check(network, "1", Err("dc=1 is forbidden"));
        check(network, "2", Ok(&["minimum_replication_factor_warn_threshold=3"]));
        check(network, "3", Ok(&[]));
        check(network, "['r1', 'r2', 'r3']", Ok(&[]));
        check(network, "6", Ok(&["maximum_replication_factor_warn_threshold=5"]));
        check(network, "8", Err("maximum_replication_factor_fail_threshold=7"));
        check("SimpleStrategy", "2", Ok(&["dc=2", "replication_strategy_warn_list"]));
        check("EverywhereStrategy", "3", Err("replication_strategy_fail_list"));
    }

    #[test]
    fn windows_are_warned_of_or_refused() {
        let table = |class: &str, ttl: i32| TableOptions {
            compaction: [("class", class), ("compaction_window_unit", "HOURS")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
            default_time_to_live: ttl,
            ..TableOptions::new()
        };
        let windows = |class, ttl| rules().check_windows(&table(class, ttl)).map(|it| it.len());
        assert_eq!(windows("SizeTieredCompactionStrategy", 0), Ok(0));
        assert_eq!(windows("TimeWindowCompactionStrategy", 0), Ok(1));
        assert_eq!(windows("TimeWindowCompactionStrategy", 50 * 3600), Ok(0));
        assert!(windows("TimeWindowCompactionStrategy", 51 * 3600).is_err());
        let strict = Rules { windows_without_ttl: Restriction::Refused, ..rules() };
        assert!(strict.check_windows(&table("TimeWindowCompactionStrategy", 0)).is_err());
    }
}
