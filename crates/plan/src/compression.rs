//! What tables and options may say of the compression of SSTables.

use crate::error::Error;

type Options = Vec<(String, String)>;

/// Compressed chunks are not longer than this, in KiB.
const CHUNK_KIB_MAX: i32 = 128;
/// The two names of the option, as messages have them.
const CHUNK: &str = "chunk_length_in_kb/chunk_length_kb";
/// Levels of Zstandard, least and most.
const COMPRESSION_LEVELS: (i32, i32) = (-(1 << 17), 22);
const COMPRESSORS: &str = "org.apache.cassandra.io.compress.";

fn refuse<T>(text: String) -> Result<T, Error> {
    Err(Error::Config(text))
}

fn put(options: &mut Options, name: &str, value: String) {
    options.retain(|(known, _)| known != name);
    options.push((name.to_owned(), value));
}

fn has(options: &Options, name: &str) -> bool {
    options.iter().any(|(known, _)| known == name)
}

/// Nothing, `{'sstable_compression': ''}` and `{'enabled': 'false'}` are no compression, stored as
/// an empty name.
pub(crate) fn compression(given: Options) -> Result<Options, Error> {
    let none = || Ok(vec![("sstable_compression".to_owned(), String::new())]);
    let mut class = None;
    let mut enabled = true;
    let mut stored = Options::new();
    for (name, value) in &given {
        match name.as_str() {
            "sstable_compression" | "class" => class = Some(value.as_str()),
            "enabled" => enabled = !value.eq_ignore_ascii_case("false"),
            "chunk_length_in_kb" | "chunk_length_kb" => {
                put(&mut stored, "chunk_length_in_kb", chunk_kib(name, value)?.to_string());
            }
            "crc_check_chance" => {
                check_range(name, value, 0.0, 1.0)?;
                put(&mut stored, name, value.clone());
            }
            "compression_level" => put(&mut stored, name, compression_level(value)?),
            _ => return refuse(format!("Unknown compression option '{name}'.")),
        }
    }
    let class = match class {
        Some(class) if enabled && !class.is_empty() => class,
        None if enabled && !given.is_empty() => {
            return refuse(
                "Missing sub-option 'sstable_compression' for the 'compression' option.".to_owned(),
            );
        }
        _ => return none(),
    };
    let name = class.strip_prefix(COMPRESSORS).unwrap_or(class);
    let has_level = matches!(name, "ZstdCompressor" | "ZstdWithDictsCompressor");
    // What Cassandra does not have is not made to look like a class of it.
    let stored_name = match name {
        "LZ4Compressor" | "SnappyCompressor" | "DeflateCompressor" | "ZstdCompressor"
        | "NoopCompressor" => format!("{COMPRESSORS}{name}"),
        "LZ4WithDictsCompressor" | "ZstdWithDictsCompressor" => name.to_owned(),
        _ => return refuse(format!("Unsupported compression class name '{class}'")),
    };
    if !has_level && has(&stored, "compression_level") {
        let text = "Unknown compression option 'compression_level' for this compressor";
        return refuse(text.to_owned());
    }
    stored.insert(0, ("sstable_compression".to_owned(), stored_name));
    Ok(stored)
}

fn compression_level(value: &str) -> Result<String, Error> {
    let (min, max) = COMPRESSION_LEVELS;
    match value.trim().parse::<i32>() {
        Err(_) => refuse(format!("Invalid integer value {value} for compression_level")),
        Ok(level) if level < min || max < level => {
            refuse(format!("compression_level must be between {min} and {max}, got {level}"))
        }
        Ok(level) => Ok(level.to_string()),
    }
}

fn chunk_kib(name: &str, value: &str) -> Result<i32, Error> {
    match value.trim().parse::<i32>() {
        Err(_) => refuse(format!("Invalid integer value {value} for {name}")),
        Ok(kib) if kib <= 0 => refuse(format!("Invalid negative or null for {CHUNK}")),
        Ok(kib) if !(kib as u32).is_power_of_two() => {
            refuse(format!("{CHUNK} must be a power of 2."))
        }
        Ok(kib) if CHUNK_KIB_MAX < kib => {
            refuse(format!("{CHUNK} must be {CHUNK_KIB_MAX} or less."))
        }
        Ok(kib) => Ok(kib),
    }
}

fn check_range(name: &str, value: &str, min: f64, max: f64) -> Result<(), Error> {
    match value.parse::<f64>() {
        Ok(number) if min <= number && number <= max => Ok(()),
        _ => refuse(format!("{name} must be between {min:?} and {max:?}.")),
    }
}
