//! Table options in `WITH`: each one checked and brought into the form in which it is stored.

use super::properties::{Options, Properties, put};
use super::{cdc, compaction};
use crate::compression::compression;
use crate::error::Error;
use crate::speculative_retry::speculative_retry;
use model::Uuid;
use model::schema::TableOptions;
use syntax::ast::PropertyValue;

/// Seconds that a value lives at most: twenty years.
const TTL_SECS_MAX: i32 = 630_720_000;
/// The smallest chance of a false positive that a filter can be built for.
const BLOOM_CHANCE_MIN: f64 = 6.71e-5;
/// KiB between two entries of a partition's index at most.
const COLUMN_INDEX_KIB_MAX: i32 = 1 << 20;
/// The versions of SSTables that can be written.
const SSTABLE_FORMATS: [&str; 2] = ["me", "ms"];

/// Every property of a table, `ID` and `CLUSTERING ORDER` aside.
const PROPERTIES: [&str; 24] = [
    "bloom_filter_fp_chance",
    "caching",
    "cdc",
    TableOptions::COLUMN_INDEX_KIB,
    "comment",
    "compaction",
    "compression",
    "crc_check_chance",
    "dclocal_read_repair_chance",
    "default_time_to_live",
    "gc_grace_seconds",
    TableOptions::LARGE_DATA_GUARDRAILS,
    "max_index_interval",
    "memtable_flush_period_in_ms",
    "min_index_interval",
    "paxos_grace_seconds",
    "per_partition_rate_limit",
    "read_repair_chance",
    "speculative_retry",
    TableOptions::SSTABLE_FORMAT,
    "synchronous_updates",
    "tablets",
    "tombstone_gc",
    "id",
];

/// Properties of Cassandra's tables that say nothing to this database: accepted, so that what
/// Cassandra describes can be executed, and not stored. Setting one gives a warning.
pub(super) const IGNORED: [&str; 6] = [
    "additional_write_policy",
    "allow_auto_snapshot",
    "extensions",
    "incremental_backups",
    "memtable",
    "read_repair",
];

fn refuse<T>(text: String) -> Result<T, Error> {
    Err(Error::Config(text))
}

/// The id that `WITH ID = ..` gives a table.
pub(super) fn table_id(properties: &Properties<'_>) -> Result<Option<Uuid>, Error> {
    let invalid = || refuse("Invalid table id".to_owned());
    if matches!(properties.get("id"), Some(PropertyValue::Null)) {
        return invalid();
    }
    let Some(text) = properties.scalar("id")? else { return Ok(None) };
    Uuid::parse_str(text).map(Some).or_else(|_| invalid())
}

/// The options of a table that had `options` and is given `properties`.
pub(super) fn apply(
    options: TableOptions,
    properties: &Properties<'_>,
) -> Result<TableOptions, Error> {
    if properties.boolean("synchronous_updates")? == Some(true) {
        return Err(Error::invalid(
            "The synchronous_updates option is only applicable to materialized views, not to base \
             tables",
        ));
    }
    of_view(options, properties)
}

/// The same of a view; whether its updates are synchronous is no option of its table.
pub(super) fn of_view(
    mut options: TableOptions,
    properties: &Properties<'_>,
) -> Result<TableOptions, Error> {
    properties.refuse_unknown(&[&PROPERTIES[..], &IGNORED[..]].concat())?;
    numbers(&mut options, properties)?;
    chances(&mut options, properties)?;
    files(&mut options, properties)?;
    if let Some(comment) = properties.scalar("comment")? {
        options.comment = comment.to_owned();
    }
    if let Some(text) = properties.scalar(TableOptions::LARGE_DATA_GUARDRAILS)? {
        let on = match text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "1" => "true",
            "false" | "no" | "0" => "false",
            _ => {
                return refuse(format!(
                    "Invalid boolean value {text} for '{}'",
                    TableOptions::LARGE_DATA_GUARDRAILS
                ));
            }
        };
        options.set_extension(TableOptions::LARGE_DATA_GUARDRAILS, Some(on));
    }
    if let Some(retry) = properties.scalar("speculative_retry")? {
        options.speculative_retry = speculative_retry(retry)?;
    }
    if let Some(given) = properties.map("compaction")? {
        options.compaction = compaction::checked(given)?;
    }
    if let Some(given) = properties.map("compression")? {
        options.compression = compression(given)?;
    }
    if let Some(given) = properties.map("caching")? {
        options.caching = caching(given)?;
    }
    if let Some(given) = properties.map("tombstone_gc")? {
        options.tombstone_gc = tombstone_gc(given)?;
    }
    if let Some(given) = properties.map("per_partition_rate_limit")? {
        options.per_partition_rate_limit = rate_limit(given)?;
    }
    if let Some(given) = properties.map("tablets")? {
        options.tablets = tablets(given)?;
    }
    if let Some((enabled, asked)) = cdc::asked(properties)? {
        options.cdc = match enabled {
            Some(true) => asked.stored(true),
            _ => Options::new(),
        };
    }
    Ok(options)
}

fn numbers(options: &mut TableOptions, properties: &Properties<'_>) -> Result<(), Error> {
    let at_least = |name: &str, min: i32, default: i32| match properties.int(name)? {
        Some(value) if value < min => {
            refuse(format!("{name} cannot be smaller than {min}, (default {default})"))
        }
        value => Ok(value),
    };
    let defaults = TableOptions::new();
    if let Some(secs) = at_least("gc_grace_seconds", 0, defaults.gc_grace_seconds)? {
        options.gc_grace_seconds = secs;
    }
    if let Some(secs) = at_least("paxos_grace_seconds", 0, defaults.gc_grace_seconds)? {
        options.paxos_grace_seconds = Some(secs);
    }
    if let Some(secs) = at_least("default_time_to_live", 0, 0)? {
        if TTL_SECS_MAX < secs {
            return refuse(format!(
                "default_time_to_live must be less than or equal to {TTL_SECS_MAX} (got {secs})"
            ));
        }
        options.default_time_to_live = secs;
    }
    if let Some(rows) = at_least("min_index_interval", 1, defaults.min_index_interval)? {
        options.min_index_interval = rows;
    }
    if let Some(rows) = properties.int("max_index_interval")? {
        options.max_index_interval = rows;
    }
    let (min, max) = (options.min_index_interval, options.max_index_interval);
    if max < min {
        return refuse(format!(
            "max_index_interval must be greater than min_index_interval {min} (got {max})"
        ));
    }
    if let Some(millis) = properties.int("memtable_flush_period_in_ms")? {
        if millis != 0 && millis < 60_000 {
            return refuse(
                "memtable_flush_period_in_ms must be 0 or greater than 60000".to_owned(),
            );
        }
        options.memtable_flush_period_in_ms = millis;
    }
    Ok(())
}

fn chances(options: &mut TableOptions, properties: &Properties<'_>) -> Result<(), Error> {
    if let Some(chance) = properties.double("bloom_filter_fp_chance")? {
        if !(BLOOM_CHANCE_MIN < chance && chance <= 1.0) {
            return refuse(format!(
                "bloom_filter_fp_chance must be larger than 6.71e-05 and less than or equal to 1.0 \
                 (got {chance})"
            ));
        }
        options.bloom_filter_fp_chance = chance;
    }
    let places = [
        ("crc_check_chance", &mut options.crc_check_chance),
        ("read_repair_chance", &mut options.read_repair_chance),
        ("dclocal_read_repair_chance", &mut options.dclocal_read_repair_chance),
    ];
    for (name, place) in places {
        if let Some(chance) = properties.double(name)? {
            if !(0.0..=1.0).contains(&chance) {
                return refuse(format!(
                    "{name} must be larger than or equal to 0 and smaller than or equal to 1.0 \
                     (got {chance})"
                ));
            }
            *place = chance;
        }
    }
    Ok(())
}

/// What is stored as extensions, as the schema's tables have no columns for it. `0` and the empty
/// name leave it to the node.
fn files(options: &mut TableOptions, properties: &Properties<'_>) -> Result<(), Error> {
    let name = TableOptions::COLUMN_INDEX_KIB;
    if let Some(kib) = properties.int(name)? {
        if !(0..=COLUMN_INDEX_KIB_MAX).contains(&kib) {
            return refuse(format!(
                "{name} must be between 1 and {COLUMN_INDEX_KIB_MAX}, or 0 for the node's own \
                 (got {kib})"
            ));
        }
        let text = kib.to_string();
        options.set_extension(name, (kib != 0).then_some(&text));
    }
    let name = TableOptions::SSTABLE_FORMAT;
    if let Some(format) = properties.scalar(name)? {
        if !format.is_empty() && !SSTABLE_FORMATS.contains(&format) {
            let known = SSTABLE_FORMATS.join(", ");
            return refuse(format!("{name} must be one of {known} (got '{format}')"));
        }
        options.set_extension(name, (!format.is_empty()).then_some(format));
    }
    Ok(())
}

fn caching(given: Options) -> Result<Options, Error> {
    let mut stored: Options = vec![
        ("keys".to_owned(), "ALL".to_owned()),
        ("rows_per_partition".to_owned(), "ALL".to_owned()),
    ];
    for (name, value) in given {
        let upper = value.to_ascii_uppercase();
        let word = matches!(upper.as_str(), "ALL" | "NONE");
        match name.as_str() {
            "keys" if word => put(&mut stored, &name, upper),
            "keys" => return refuse(format!("Invalid key value: {value}")),
            "rows_per_partition" if word || value.parse::<u32>().is_ok() => {
                put(&mut stored, &name, upper);
            }
            "rows_per_partition" => return refuse(format!("Invalid key value: {value}")),
            "enabled" => match upper.as_str() {
                "TRUE" => {}
                "FALSE" => put(&mut stored, &name, "false".to_owned()),
                _ => return refuse(format!("Invalid value of caching option enabled: {value}")),
            },
            _ => return refuse(format!("Invalid caching option: {name}")),
        }
    }
    Ok(stored)
}

fn tombstone_gc(given: Options) -> Result<Options, Error> {
    for (name, value) in &given {
        match name.as_str() {
            "mode" => {
                if !matches!(value.as_str(), "timeout" | "disabled" | "immediate" | "repair") {
                    return refuse(format!("Invalid value for tombstone_gc option mode: {value}"));
                }
            }
            "propagation_delay_in_seconds" => match value.parse::<i32>() {
                Ok(secs) if 0 <= secs => {}
                _ => {
                    return refuse(format!(
                        "Invalid value for tombstone_gc option {name}: {value}"
                    ));
                }
            },
            _ => return refuse(format!("Invalid tombstone_gc option: {name}")),
        }
    }
    Ok(given)
}

fn rate_limit(given: Options) -> Result<Options, Error> {
    for (name, value) in &given {
        if !matches!(name.as_str(), "max_reads_per_second" | "max_writes_per_second") {
            return refuse(format!("Unknown sub-option '{name}' for 'per_partition_rate_limit'"));
        }
        if value.parse::<u32>().is_err() {
            return refuse(format!(
                "Invalid value for {name} option: expected a non-negative integer; found {value}"
            ));
        }
    }
    Ok(given)
}

/// Hints of 0 are none.
fn tablets(given: Options) -> Result<Options, Error> {
    for (name, value) in &given {
        let valid = match name.as_str() {
            "min_tablet_count" | "max_tablet_count" | "expected_data_size_in_gb" => {
                value.parse::<u32>().is_ok()
            }
            "min_per_shard_tablet_count" => value.parse::<f64>().is_ok_and(|it| 0.0 <= it),
            "pow2_count" => matches!(value.as_str(), "true" | "false"),
            _ => return refuse(format!("Invalid tablet hint: {name}")),
        };
        if !valid {
            return refuse(format!("Invalid value '{value}' for tablet hint {name}"));
        }
    }
    let said = |(_, value): &(String, String)| value.parse::<f64>().ok() != Some(0.0);
    Ok(given.into_iter().filter(said).collect())
}
