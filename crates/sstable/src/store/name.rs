//! File names: `<version>-<generation>-<format>-<Component>`.

use crate::store::version::Version;
use model::Uuid;
use std::fmt;
use std::path::{Path, PathBuf};

/// What tells the SSTables of a directory apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Generation {
    /// A counter, as older clusters have it.
    Number(u64),
    /// A time-UUID.
    Time(Uuid),
}

/// 100 ns between 1582-10-15, where time-UUIDs start, and 1970.
const UUID_EPOCH_TICKS: u64 = 0x01b2_1dd2_1381_4000;
const TICKS_PER_SECOND: u64 = 10_000_000;
const SECONDS_PER_DAY: u64 = 86_400;

const _: () = assert!(SECONDS_PER_DAY < 36 * 36 * 36 * 36);
// The 60 bits of a time-UUID.
const _: () = assert!((1 << 60) / TICKS_PER_SECOND / SECONDS_PER_DAY < 36 * 36 * 36 * 36);
const _: () = assert!(TICKS_PER_SECOND < 36 * 36 * 36 * 36 * 36);

impl Generation {
    /// A new generation of this time (microseconds since 1970); `entropy` makes it unique.
    pub fn new(now_micros: i64, entropy: u64) -> Generation {
        // Sub-microsecond ticks and the low half come from the entropy.
        let ticks = (now_micros as u64).wrapping_mul(10).wrapping_add(UUID_EPOCH_TICKS);
        let low = (entropy & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
        let generation = Generation::Time(time_uuid(ticks, low));
        let now = (0 <= now_micros).then_some(now_micros);
        debug_assert!(now.is_none() || generation.made_at_micros() == now, "made at another time");
        generation
    }

    /// A new generation of now.
    pub fn generate() -> Generation {
        Generation::new(runtime::time::wall_micros(), runtime::random_u64())
    }

    /// When it was made, in microseconds since 1970; `None` where it does not say.
    pub fn made_at_micros(&self) -> Option<i64> {
        let Generation::Time(uuid) = self else { return None };
        let ticks = ticks_of(uuid.as_u64_pair().0).checked_sub(UUID_EPOCH_TICKS)?;
        Some((ticks / 10) as i64)
    }

    /// The generation that a file name has.
    pub fn parse(text: &str) -> Option<Generation> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if digits {
            return text.parse().ok().map(Generation::Number);
        }
        let mut parts = text.split('_');
        let (days, seconds, rest) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || (days.len(), seconds.len(), rest.len()) != (4, 4, 18) {
            return None;
        }
        let (ticks, low) = rest.split_at_checked(5)?;
        let number = |text: &str| u64::from_str_radix(text, 36).ok();
        let seconds = number(days)?.checked_mul(SECONDS_PER_DAY)?.checked_add(number(seconds)?)?;
        let ticks = seconds.checked_mul(TICKS_PER_SECOND)?.checked_add(number(ticks)?)?;
        Some(Generation::Time(time_uuid(ticks, number(low)?)))
    }

    /// As a UUID: a counter is one without a time.
    pub fn to_uuid(self) -> Uuid {
        match self {
            Generation::Number(number) => time_uuid(0, number),
            Generation::Time(uuid) => uuid,
        }
    }

    /// The generation with this UUID.
    pub fn of_uuid(uuid: Uuid) -> Generation {
        let (high, low) = uuid.as_u64_pair();
        match ticks_of(high) {
            0 => Generation::Number(low),
            _ => Generation::Time(uuid),
        }
    }
}

fn time_uuid(ticks: u64, low: u64) -> Uuid {
    let high = (ticks << 32) | ((ticks >> 16) & 0xffff_0000) | 0x1000 | ((ticks >> 48) & 0x0fff);
    debug_assert!(ticks_of(high) == ticks & (u64::MAX >> 4), "other ticks than {ticks:x}");
    Uuid::from_u64_pair(high, low)
}

fn ticks_of(high: u64) -> u64 {
    (high & 0x0fff) << 48 | (high >> 16 & 0xffff) << 32 | high >> 32
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uuid = match self {
            Generation::Number(number) => return write!(f, "{number}"),
            Generation::Time(uuid) => uuid,
        };
        let (high, low) = uuid.as_u64_pair();
        let ticks = ticks_of(high);
        let seconds = ticks / TICKS_PER_SECOND;
        base36(seconds / SECONDS_PER_DAY, 4, f)?;
        f.write_str("_")?;
        base36(seconds % SECONDS_PER_DAY, 4, f)?;
        f.write_str("_")?;
        base36(ticks % TICKS_PER_SECOND, 5, f)?;
        base36(low, 13, f)
    }
}

/// Writes at least `width` digits.
fn base36(mut value: u64, width: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut digits = [b'0'; 13];
    let mut start = digits.len();
    while value != 0 {
        start -= 1;
        digits[start] = b"0123456789abcdefghijklmnopqrstuvwxyz"[(value % 36) as usize];
        value /= 36;
    }
    debug_assert!(width <= digits.len(), "{width} digits");
    let start = start.min(digits.len() - width);
    f.write_str(std::str::from_utf8(&digits[start..]).expect("digits are ASCII"))
}

/// A file of an SSTable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    Data,
    Index,
    Summary,
    Filter,
    Statistics,
    CompressionInfo,
    Crc,
    Digest,
    Toc,
    Scylla,
    /// The trie of partition keys.
    Partitions,
    /// Tries of the blocks of large partitions.
    Rows,
    TemporaryToc,
    TemporaryStatistics,
    TemporaryHashes,
}

impl Component {
    /// All of them.
    pub const ALL: [Component; 15] = [
        Component::Data,
        Component::Index,
        Component::Summary,
        Component::Filter,
        Component::Statistics,
        Component::CompressionInfo,
        Component::Crc,
        Component::Digest,
        Component::Toc,
        Component::Scylla,
        Component::Partitions,
        Component::Rows,
        Component::TemporaryToc,
        Component::TemporaryStatistics,
        Component::TemporaryHashes,
    ];

    /// The end of its file's name.
    pub fn suffix(self) -> &'static str {
        match self {
            Component::Data => "Data.db",
            Component::Index => "Index.db",
            Component::Summary => "Summary.db",
            Component::Filter => "Filter.db",
            Component::Statistics => "Statistics.db",
            Component::CompressionInfo => "CompressionInfo.db",
            Component::Crc => "CRC.db",
            Component::Digest => "Digest.crc32",
            Component::Toc => "TOC.txt",
            Component::Scylla => "Scylla.db",
            Component::Partitions => "Partitions.db",
            Component::Rows => "Rows.db",
            Component::TemporaryToc => "TOC.txt.tmp",
            Component::TemporaryStatistics => "Statistics.db.tmp",
            Component::TemporaryHashes => "TemporaryHashes.db.tmp",
        }
    }

    /// The component of a suffix.
    pub fn of_suffix(suffix: &str) -> Option<Component> {
        Component::ALL.into_iter().find(|component| component.suffix() == suffix)
    }

    /// Its number among the component digests of Scylla.db, where it has one.
    pub fn number(self) -> Option<u32> {
        Some(match self {
            Component::Index => 0,
            Component::CompressionInfo => 1,
            Component::Data => 2,
            Component::Toc => 3,
            Component::Summary => 4,
            Component::Digest => 5,
            Component::Crc => 6,
            Component::Filter => 7,
            Component::Statistics => 8,
            _ => return None,
        })
    }
}

/// Which SSTable of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Descriptor {
    /// Of the format.
    pub version: Version,
    /// Among the SSTables of the directory.
    pub generation: Generation,
}

impl Descriptor {
    /// The name of one of its files.
    pub fn file_name(&self, component: Component) -> String {
        self.file_name_of(component.suffix())
    }

    /// The name of a file with that suffix.
    pub fn file_name_of(&self, suffix: &str) -> String {
        debug_assert!(!suffix.is_empty() && !suffix.contains('/'), "a file of suffix {suffix:?}");
        let (version, format) = (self.version.name(), self.version.format_word());
        format!("{version}-{}-{format}-{suffix}", self.generation)
    }

    /// The path of one of its files.
    pub fn path(&self, dir: &Path, component: Component) -> PathBuf {
        dir.join(self.file_name(component))
    }
}

/// What a file name says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A file of an SSTable that can be read: which, and the suffix.
    Known(Descriptor, &'a str),
    /// A file of an SSTable in a version that cannot be read; [`refusal`] says why.
    OtherVersion(&'a str),
    /// Something else.
    Foreign,
}

/// Why a version is not read, for who is to do something about it.
pub fn refusal(version: &str) -> String {
    let versions: Vec<&str> = Version::ALL.iter().map(|version| version.name()).collect();
    let readable = versions.join(", ");
    match version {
        "ka" | "la" | "lb" | "jb" | "ic" | "ib" | "hf" => format!(
            "SSTable version {version} (Cassandra 2 and before) is not supported: rewrite it with \
             the sstableupgrade of a Cassandra 3 first; versions that are read: {readable}"
        ),
        _ => format!(
            "SSTable version {version} is not supported; versions that are read: {readable}"
        ),
    }
}

/// The version in the name of a file of Cassandra 2.0 and 2.1:
/// `<keyspace>-<table>-<version>-<generation>-<Component>`.
fn old_version(name: &str) -> Option<&str> {
    let mut parts = name.rsplitn(4, '-');
    let (_, generation, version, _) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let digits = !generation.is_empty() && generation.bytes().all(|byte| byte.is_ascii_digit());
    (digits && is_version(version)).then_some(version)
}

fn is_version(text: &str) -> bool {
    text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// Takes a file name apart.
pub fn parse_file_name(name: &str) -> Parsed<'_> {
    known_name(name).unwrap_or_else(|| match old_version(name) {
        Some(version) => Parsed::OtherVersion(version),
        None => Parsed::Foreign,
    })
}

fn known_name(name: &str) -> Option<Parsed<'_>> {
    let mut parts = name.splitn(4, '-');
    let (version, generation) = (parts.next()?, parts.next()?);
    let (format, suffix) = (parts.next()?, parts.next()?);
    let generation = Generation::parse(generation).filter(|_| is_version(version))?;
    match Version::of(version) {
        Some(version) if format == version.format_word() => {
            Some(Parsed::Known(Descriptor { version, generation }, suffix))
        }
        _ if format == "big" || format == "bti" => Some(Parsed::OtherVersion(version)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_and_write() {
        let name = "me-3gzp_10x9_373io213ox3uf4irhr-big-Data.db";
        let Parsed::Known(descriptor, suffix) = parse_file_name(name) else { panic!("{name}") };
        assert_eq!(suffix, "Data.db");
        assert_eq!(descriptor.version, Version::Me);
        assert_eq!(descriptor.file_name(Component::Data), name);
        let Generation::Time(uuid) = descriptor.generation else { panic!("a number") };
        assert_eq!(uuid.get_version_num(), 1);
        let now = 1_700_000_000_123_456;
        assert_eq!(Generation::new(now, 77).made_at_micros(), Some(now));
        assert_eq!(Generation::Number(12).made_at_micros(), None);
        let as_uuid = Generation::Number(12).to_uuid();
        assert_eq!(as_uuid.to_string(), "00000000-0000-1000-0000-00000000000c");
        for generation in [descriptor.generation, Generation::Number(12)] {
            assert_eq!(Generation::of_uuid(generation.to_uuid()), generation);
        }
        let old = Descriptor { version: Version::Mc, generation: Generation::Number(12) };
        let name = "mc-12-big-TOC.txt";
        assert_eq!(parse_file_name(name), Parsed::Known(old, "TOC.txt"));
        assert_eq!(old.file_name(Component::Toc), name);
        assert_eq!(parse_file_name("la-1-big-Data.db"), Parsed::OtherVersion("la"));
        assert_eq!(parse_file_name("da-1-big-Data.db"), Parsed::OtherVersion("da"));
        assert_eq!(parse_file_name("nb-1-bti-Data.db"), Parsed::OtherVersion("nb"));
        assert_eq!(parse_file_name("ks-tab-ka-1-Data.db"), Parsed::OtherVersion("ka"));
        for foreign in ["", "manifest.json", "me-x-big-Data.db", "me-1", "ks-tab-kax-1-Data.db"] {
            assert_eq!(parse_file_name(foreign), Parsed::Foreign, "{foreign}");
        }
    }

    #[test]
    fn every_version_and_component_has_one_name() {
        for version in Version::ALL {
            let descriptor = Descriptor { version, generation: Generation::Number(7) };
            let format = if version == Version::Da { "bti" } else { "big" };
            for component in Component::ALL {
                let name = descriptor.file_name(component);
                let suffix = component.suffix();
                assert_eq!(name, format!("{}-7-{format}-{suffix}", version.name()));
                assert_eq!(parse_file_name(&name), Parsed::Known(descriptor, suffix));
                assert_eq!(Component::of_suffix(suffix), Some(component));
            }
        }
        assert!(refusal("la").contains("sstableupgrade") && refusal("zz").contains("nb, oa, da"));
    }

    #[test]
    fn new_generations_are_time_uuids_and_sort_by_time_in_their_text() {
        let early = Generation::new(1_700_000_000_000_000, 5);
        let late = Generation::new(1_700_000_000_000_001, 4);
        assert!(early.to_string() < late.to_string());
        assert_eq!(Generation::parse(&early.to_string()), Some(early));
        let Generation::Time(uuid) = early else { panic!("a number") };
        assert_eq!(uuid.get_version_num(), 1);
    }
}
