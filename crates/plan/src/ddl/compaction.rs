//! The `compaction` option: strategies, their options, and which values are valid.

use super::properties::{Options, get, put};
use crate::error::Error;

const PACKAGE: &str = "org.apache.cassandra.db.compaction.";

/// The values that an option can have.
#[derive(Clone, Copy, Debug)]
enum Domain {
    /// `true` or `false`.
    Boolean,
    /// A whole number from here on; words that tell it.
    AtLeast(i64, &'static str),
    /// A number between two, both included.
    Between(f64, f64),
    /// A number above the first, up to the second.
    Within(f64, f64),
    /// Seconds above 0, in errors as milliseconds.
    Seconds,
    /// A number above this.
    Above(f64),
    /// One of these; what messages call it.
    Word(&'static str, &'static [&'static str]),
}

/// An option by its name.
type Known = (&'static str, Domain);

const EVERY: &[Known] = &[
    ("enabled", Domain::Boolean),
    ("only_purge_repaired_tombstones", Domain::Boolean),
    ("tombstone_compaction_interval", Domain::Seconds),
    ("tombstone_threshold", Domain::Between(0.0, 1.0)),
    ("unchecked_tombstone_compaction", Domain::Boolean),
    ("log_all", Domain::Boolean),
];

const SIZE_TIERED: &[Known] = &[
    ("bucket_high", Domain::Above(1.0)),
    ("bucket_low", Domain::Within(0.0, 1.0)),
    ("cold_reads_to_omit", Domain::Between(0.0, 1.0)),
    ("max_threshold", Domain::AtLeast(2, "bigger or equal to 2")),
    ("min_sstable_size", Domain::AtLeast(0, "non negative")),
    ("min_threshold", Domain::AtLeast(2, "bigger or equal to 2")),
];

const LEVELED: &[Known] = &[
    ("fanout_size", Domain::AtLeast(1, "positive")),
    ("max_threshold", Domain::AtLeast(2, "bigger or equal to 2")),
    ("min_threshold", Domain::AtLeast(2, "bigger or equal to 2")),
    ("single_sstable_uplevel", Domain::Boolean),
    ("sstable_size_in_mb", Domain::AtLeast(1, "positive")),
];

const INCREMENTAL: &[Known] = &[
    ("bucket_high", Domain::Above(1.0)),
    ("bucket_low", Domain::Within(0.0, 1.0)),
    ("max_threshold", Domain::AtLeast(2, "bigger or equal to 2")),
    ("min_sstable_size", Domain::AtLeast(0, "non negative")),
    ("min_threshold", Domain::AtLeast(2, "bigger or equal to 2")),
    ("space_amplification_goal", Domain::Within(1.0, 2.0)),
    ("sstable_size_in_mb", Domain::AtLeast(1, "positive")),
];

const TIME_WINDOW: &[Known] = &[
    ("bucket_high", Domain::Above(1.0)),
    ("bucket_low", Domain::Within(0.0, 1.0)),
    ("compaction_window_size", Domain::AtLeast(1, "greater than 1")),
    ("compaction_window_unit", Domain::Word("window unit", &["MINUTES", "HOURS", "DAYS"])),
    ("enable_optimized_twcs_queries", Domain::Boolean),
    ("expired_sstable_check_frequency_seconds", Domain::AtLeast(0, "non negative")),
    ("max_threshold", Domain::AtLeast(2, "bigger or equal to 2")),
    ("min_sstable_size", Domain::AtLeast(0, "non negative")),
    ("min_threshold", Domain::AtLeast(2, "bigger or equal to 2")),
    (
        "timestamp_resolution",
        Domain::Word("timestamp resolution", &["MICROSECONDS", "MILLISECONDS"]),
    ),
    ("unsafe_aggressive_sstable_expiration", Domain::Boolean),
];

/// The strategies and what each takes besides [`EVERY`].
const STRATEGIES: &[(&str, &[Known])] = &[
    ("IncrementalCompactionStrategy", INCREMENTAL),
    ("LeveledCompactionStrategy", LEVELED),
    ("NullCompactionStrategy", &[]),
    ("SizeTieredCompactionStrategy", SIZE_TIERED),
    ("TimeWindowCompactionStrategy", TIME_WINDOW),
];

fn refuse<T>(text: String) -> Result<T, Error> {
    Err(Error::Config(text))
}

/// The option as it is stored: the class without its package.
pub fn checked(mut given: Options) -> Result<Options, Error> {
    let Some(class) = get(&given, "class") else {
        return refuse("Missing sub-option 'class' for the 'compaction' option.".to_owned());
    };
    let name = class.strip_prefix(PACKAGE).unwrap_or(class).to_owned();
    let Some((_, own)) = STRATEGIES.iter().find(|(known, _)| *known == name) else {
        return refuse(format!("Unable to find compaction strategy class '{class}'"));
    };
    for (option, value) in given.iter().filter(|(option, _)| option != "class") {
        match EVERY.iter().chain(*own).find(|(known, _)| known == option) {
            Some((_, domain)) => check(option, value, *domain)?,
            None => {
                return refuse(format!(
                    "Invalid compaction strategy options {{{{{option}, {value}}}}} for chosen \
                     strategy type"
                ));
            }
        }
    }
    let threshold = |name: &str, default: i64| {
        get(&given, name).and_then(|value| value.parse().ok()).unwrap_or(default)
    };
    let (min, max) = (threshold("min_threshold", 4), threshold("max_threshold", 32));
    if max < min {
        return refuse(format!(
            "Min compaction threshold cannot be greater than the max (min: {min}, max: {max})"
        ));
    }
    put(&mut given, "class", name);
    Ok(given)
}

fn check(option: &str, value: &str, domain: Domain) -> Result<(), Error> {
    let must = |what: String| refuse(format!("{option} value ({value}) must be {what}"));
    match domain {
        Domain::Boolean => match value.to_ascii_lowercase().as_str() {
            "true" | "false" => Ok(()),
            _ => must("\"true\" or \"false\"".to_owned()),
        },
        Domain::AtLeast(min, words) => match value.parse::<i64>() {
            Ok(number) if min <= number => Ok(()),
            Ok(_) => must(words.to_owned()),
            Err(_) => refuse(format!("{value} is not a parsable int (base10) for {option}")),
        },
        Domain::Between(min, max) => match parse_number(option, value)? {
            number if min <= number && number <= max => Ok(()),
            _ => must(format!("between {min:?} and {max:?}")),
        },
        Domain::Within(min, max) => match parse_number(option, value)? {
            number if min < number && number <= max => Ok(()),
            number if min == 0.0 => {
                refuse(format!("{option} value ({number}) must be between {min:?} and {max:?}"))
            }
            _ => must(format!("greater than {min:?} and less than or equal to {max:?}")),
        },
        Domain::Seconds => match value.parse::<i64>() {
            Ok(1..) => Ok(()),
            Ok(secs) => {
                refuse(format!("{option} value ({}ms) must be positive", secs.saturating_mul(1000)))
            }
            Err(_) => refuse(format!("{value} is not a parsable int (base10) for {option}")),
        },
        Domain::Above(min) => match parse_number(option, value)? {
            number if min < number => Ok(()),
            _ => must(format!("greater than {min:?}")),
        },
        Domain::Word(kind, words) => match words.contains(&value) {
            true => Ok(()),
            false => refuse(format!("Invalid {kind} {value} for {option}")),
        },
    }
}

fn parse_number(option: &str, value: &str) -> Result<f64, Error> {
    match value.parse::<f64>() {
        Ok(number) => Ok(number),
        Err(_) => refuse(format!("{value} is not a parsable float for {option}")),
    }
}
