//! What a table's compaction options say. They were checked when they were set; what another
//! program has stored and makes no sense is taken for what is usual.

use super::garbage::Garbage;
use super::given::Given;
use super::incremental::Incremental;
use super::leveled::Leveled;
use super::tiers::Tiers;
use super::time_window::{TimeWindow, Windows};
use model::schema::TableOptions;

/// A strategy and what all of them have.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    /// Whether anything is merged without being asked for.
    pub(crate) enabled: bool,
    pub(crate) strategy: Strategy,
    pub(super) garbage: Garbage,
}

/// How files are chosen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Strategy {
    Null,
    SizeTiered(Tiers),
    Leveled(Leveled),
    TimeWindow(TimeWindow),
    Incremental(Incremental),
}

impl Options {
    pub(crate) fn of(options: &TableOptions) -> Options {
        let given = Given(&options.compaction);
        let class = given.text("class").unwrap_or_default();
        let strategy = match class.rsplit('.').next().unwrap_or_default() {
            "NullCompactionStrategy" => Strategy::Null,
            "SizeTieredCompactionStrategy" => Strategy::SizeTiered(Tiers::of(&given)),
            "LeveledCompactionStrategy" => Strategy::Leveled(Leveled::of(&given)),
            "TimeWindowCompactionStrategy" => Strategy::TimeWindow(TimeWindow::of(&given)),
            _ => Strategy::Incremental(Incremental::of(&given)),
        };
        let mut garbage = Garbage::of(&given);
        // Files of time windows expire as a whole: what is in them is rewritten for its deletions
        // only if somebody wants that.
        garbage.wanted |= !matches!(strategy, Strategy::TimeWindow(_));
        Options { enabled: given.flag("enabled").unwrap_or(true), strategy, garbage }
    }

    /// Those that count while the table is being filled (*wide-while-filled*).
    pub(crate) fn while_filled(mut self) -> Options {
        match &mut self.strategy {
            Strategy::SizeTiered(tiers) => tiers.widen(),
            Strategy::Incremental(options) => options.widen(),
            Strategy::Null | Strategy::Leveled(_) | Strategy::TimeWindow(_) => {}
        }
        self
    }

    /// The windows of time that SSTables are divided by, if they are.
    pub(crate) fn windows(&self) -> Option<Windows> {
        match &self.strategy {
            Strategy::TimeWindow(options) => Some(options.windows),
            _ => None,
        }
    }

    /// Seconds after which to look at the files again if none has come.
    pub(crate) fn look_again_secs(&self) -> u64 {
        match &self.strategy {
            Strategy::TimeWindow(options) => options.expiry_check_secs.clamp(1, 3600),
            _ => 3600,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::options;
    use super::*;

    #[test]
    fn the_class_may_have_its_package_and_incremental_is_usual() {
        let check = |class: &str, expected: fn(&Strategy) -> bool| {
            let class = [("class", class)];
            assert!(expected(&options(&class).strategy), "{class:?}");
        };
        let package = "org.apache.cassandra.db.compaction.";
        check(&format!("{package}NullCompactionStrategy"), |it| matches!(it, Strategy::Null));
        check("LeveledCompactionStrategy", |it| matches!(it, Strategy::Leveled(_)));
        check("TimeWindowCompactionStrategy", |it| matches!(it, Strategy::TimeWindow(_)));
        check("SizeTieredCompactionStrategy", |it| matches!(it, Strategy::SizeTiered(_)));
        check("IncrementalCompactionStrategy", |it| matches!(it, Strategy::Incremental(_)));
        assert!(matches!(options(&[]).strategy, Strategy::Incremental(_)));
    }

    #[test]
    fn what_makes_no_sense_is_as_usual() {
        let check = |name: &str, value: &str| {
            for class in ["Incremental", "SizeTiered", "Leveled", "TimeWindow"] {
                let class = format!("{class}CompactionStrategy");
                let with = options(&[("class", class.as_str()), (name, value)]);
                let without = options(&[("class", class.as_str())]);
                assert_eq!(with, without, "{class} {name} {value}");
            }
        };
        check("min_threshold", "junk");
        check("min_threshold", "1");
        check("bucket_high", "NaN");
        check("sstable_size_in_mb", "0");
        check("enabled", "perhaps");
        assert!(!options(&[("enabled", "False")]).enabled);
    }

    #[test]
    fn time_windows_are_looked_at_as_often_as_they_ask() {
        let check = |pairs: &[(&str, &str)], secs| {
            assert_eq!(options(pairs).look_again_secs(), secs, "{pairs:?}");
        };
        let class = ("class", "TimeWindowCompactionStrategy");
        check(&[], 3600);
        check(&[class], 600);
        check(&[class, ("expired_sstable_check_frequency_seconds", "7")], 7);
        check(&[class, ("expired_sstable_check_frequency_seconds", "0")], 1);
    }
}
