//! How the shards of a node are read for repairs, as two options say that change while it runs.
//!
//! Invariants
//!  - *whole-or-apart*: with a hint a range is read as a whole: it has a turn on the node
//!    ([`super::turns`]), and each visit to a shard brings that shard's part of the hint. Without,
//!    visits bring a small buffer each, and whoever comes is let in: the older way.

use cluster::settings::{Live, Rule, Settings, anything};
use reader::Budget;
use reader::multishard::{Demand, MultishardOptions, ReadAhead};
use std::rc::Rc;

const HINT: &str = "repair_multishard_reader_buffer_hint_size";
const AHEAD: &str = "repair_multishard_reader_enable_read_ahead";
/// What is read at once, if the option does not say it.
const HINT_BYTES: i64 = 1 << 20;
/// What is read at once, whatever it says: a hint is a matter of memory, too.
pub(crate) const BATCH_BYTES: std::ops::RangeInclusive<usize> = (4 << 10)..=(1 << 20);
/// What a visit brings without a hint.
const BUFFER_BYTES: usize = 8 << 10;
const FRAGMENTS_MAX: usize = 16 << 10;

/// The options of a shard. Stands in `runtime::local`.
pub struct Reading {
    hint_bytes: Live<i64>,
    reads_ahead: Live<bool>,
}

/// How a scan that begins now is to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) options: MultishardOptions,
    pub(crate) batch: Budget,
}

impl Default for Reading {
    fn default() -> Reading {
        Reading { hint_bytes: Live::fixed(HINT_BYTES), reads_ahead: Live::fixed(false) }
    }
}

impl Reading {
    /// Registers the options.
    pub fn registered(settings: &Settings) -> Reading {
        let positive: Rule<i64> = |bytes| match 0 <= *bytes {
            true => Ok(()),
            false => Err("not a number of bytes from 0 on".to_owned()),
        };
        Reading {
            hint_bytes: settings.register(HINT, HINT_BYTES, positive),
            reads_ahead: settings.register(AHEAD, false, anything),
        }
    }

    /// The options are obeyed on this shard from now on.
    pub fn provide() {
        let registered = Reading::registered(&Settings::of_shard());
        runtime::local::set(Rc::new(registered));
    }

    pub(crate) fn of_shard() -> Rc<Reading> {
        runtime::local::get_or_default::<Reading>()
    }

    /// Whether a range is read as a whole (*whole-or-apart*).
    pub(crate) fn is_whole(&self) -> bool {
        0 < self.hint_bytes.get()
    }

    pub(crate) fn way(&self) -> Way {
        let hint = usize::try_from(self.hint_bytes.get()).unwrap_or(0);
        debug_assert!((0 < hint) == self.is_whole(), "whole-or-apart: a hint of {hint}");
        let demand = if 0 < hint { Demand::Hint } else { Demand::Buffer(BUFFER_BYTES) };
        let read_ahead = match self.reads_ahead.get() {
            true => ReadAhead::NextShard,
            false => ReadAhead::Off,
        };
        let (least, most) = (*BATCH_BYTES.start(), *BATCH_BYTES.end());
        let bytes_max = if 0 < hint { hint.clamp(least, most) } else { most };
        Way {
            options: MultishardOptions { demand, read_ahead },
            batch: Budget { fragments_max: FRAGMENTS_MAX, bytes_max },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::settings::Offer;

    fn check(hint_bytes: i64, reads_ahead: bool, expected: (&str, usize)) {
        let reading =
            Reading { hint_bytes: Live::fixed(hint_bytes), reads_ahead: Live::fixed(reads_ahead) };
        let Way { options, batch } = reading.way();
        let text = format!("{:?} {:?}", options.demand, options.read_ahead);
        assert_eq!((&text[..], batch.bytes_max), expected, "{hint_bytes} {reads_ahead}");
        assert_eq!(reading.is_whole(), options.demand == Demand::Hint);
    }

    #[test]
    fn options_are_ways_to_read() {
        check(HINT_BYTES, false, ("Hint Off", 1 << 20));
        check(128 << 10, false, ("Hint Off", 128 << 10));
        check(1, false, ("Hint Off", 4 << 10));
        check(32 << 20, true, ("Hint NextShard", 1 << 20));
        check(0, false, ("Buffer(8192) Off", 1 << 20));
        check(0, true, ("Buffer(8192) NextShard", 1 << 20));
    }

    #[test]
    fn a_hint_of_less_than_nothing_is_refused() {
        let settings = Settings::default();
        let (kind, shown, source) = ("integer", "-1".to_owned(), "cli");
        settings.offer(Offer { name: HINT, kind, shown, source, changes: true });
        let reading = Reading::registered(&settings);
        assert_eq!(settings.refused().len(), 1);
        assert_eq!(reading.hint_bytes.get(), HINT_BYTES);
    }
}
