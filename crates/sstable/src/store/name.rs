//! File names: `<version>-<generation>-big-<Component>`.

use model::Uuid;
use std::fmt;
use std::path::{Path, PathBuf};

/// A version of the format that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// Cassandra 3.0.8 and later.
    Mc,
    /// As `mc`; the bounds of clustering keys can be trusted.
    Md,
    /// As `md`, with the id of the writing host.
    Me,
}

impl Version {
    /// Its two letters.
    pub fn name(self) -> &'static str {
        match self {
            Version::Mc => "mc",
            Version::Md => "md",
            Version::Me => "me",
        }
    }

    /// The version of two letters.
    pub fn of(name: &str) -> Option<Version> {
        [Version::Mc, Version::Md, Version::Me].into_iter().find(|one| one.name() == name)
    }
}

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

impl Generation {
    /// A new generation of this time (microseconds since 1970); `entropy` makes it unique.
    pub fn new(now_micros: i64, entropy: u64) -> Generation {
        // Sub-microsecond ticks and the low half come from the entropy.
        let ticks = (now_micros as u64).wrapping_mul(10).wrapping_add(UUID_EPOCH_TICKS);
        let low = (entropy & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
        Generation::Time(time_uuid(ticks, low))
    }

    /// A new generation of now.
    pub fn generate() -> Generation {
        Generation::new(runtime::time::wall_micros(), runtime::random_u64())
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
}

fn time_uuid(ticks: u64, low: u64) -> Uuid {
    let high = (ticks << 32) | ((ticks >> 16) & 0xffff_0000) | 0x1000 | ((ticks >> 48) & 0x0fff);
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
    TemporaryToc,
    TemporaryStatistics,
}

impl Component {
    /// All of them.
    pub const ALL: [Component; 12] = [
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
        Component::TemporaryToc,
        Component::TemporaryStatistics,
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
            Component::TemporaryToc => "TOC.txt.tmp",
            Component::TemporaryStatistics => "Statistics.db.tmp",
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
        format!("{}-{}-big-{suffix}", self.version.name(), self.generation)
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
    /// A file of an SSTable in a version that cannot be read.
    OtherVersion(&'a str),
    /// Something else.
    Foreign,
}

/// Takes a file name apart.
pub fn parse_file_name(name: &str) -> Parsed<'_> {
    let mut parts = name.splitn(4, '-');
    let (Some(version), Some(generation), Some(format), Some(suffix)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Parsed::Foreign;
    };
    let is_version = version.len() == 2 && version.bytes().all(|byte| byte.is_ascii_lowercase());
    let Some(generation) = Generation::parse(generation).filter(|_| is_version) else {
        return Parsed::Foreign;
    };
    match Version::of(version) {
        Some(version) if format == "big" => {
            Parsed::Known(Descriptor { version, generation }, suffix)
        }
        _ if format == "big" || format == "bti" => Parsed::OtherVersion(version),
        _ => Parsed::Foreign,
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
        let old = Descriptor { version: Version::Mc, generation: Generation::Number(12) };
        let name = "mc-12-big-TOC.txt";
        assert_eq!(parse_file_name(name), Parsed::Known(old, "TOC.txt"));
        assert_eq!(old.file_name(Component::Toc), name);
        assert_eq!(parse_file_name("la-1-big-Data.db"), Parsed::OtherVersion("la"));
        assert_eq!(parse_file_name("da-1-bti-Data.db"), Parsed::OtherVersion("da"));
        for foreign in ["", "manifest.json", "ks-tab-ka-1-Data.db", "me-x-big-Data.db", "me-1"] {
            assert_eq!(parse_file_name(foreign), Parsed::Foreign, "{foreign}");
        }
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
