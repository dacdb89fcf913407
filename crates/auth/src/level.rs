//! Service levels: how long requests of a role may take, what kind of work they are, and which
//! part of the machine they have.

use std::fmt;
use std::time::Duration;

/// What everybody has who has nothing else.
pub const DEFAULT: &str = "default";
/// Of connections that have not logged in, and of what drivers ask for themselves.
pub const DRIVER: &str = "driver";
/// Service levels besides those two at most: each is a group of the runtime. One more where
/// [`DRIVER`] was dropped.
pub const COUNT_MAX: usize = 8;
/// Shares of [`DRIVER`] as it is made.
const DRIVER_SHARES: u32 = 200;
/// Shares of a level that says nothing.
pub const SHARES: u32 = 1000;
/// Characters of a level's name at most.
pub const NAME_CHARS_MAX: usize = 256;

/// What kind of work it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Somebody waits for each answer.
    Interactive,
    /// What counts is how much is done in the end.
    Batch,
}

impl Workload {
    /// As statements write it.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Interactive => "interactive",
            Workload::Batch => "batch",
        }
    }

    pub fn by_name(name: &str) -> Option<Workload> {
        [Workload::Interactive, Workload::Batch].into_iter().find(|it| it.name() == name)
    }
}

/// A service level. What is `None` is not said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceLevel {
    /// Of every request, in place of the node's timeouts.
    pub timeout: Option<Duration>,
    pub workload: Option<Workload>,
    /// From 1 to 1000.
    pub shares: Option<u32>,
}

impl ServiceLevel {
    /// [`DRIVER`] as a new node has it.
    pub fn of_drivers() -> ServiceLevel {
        let (workload, shares) = (Some(Workload::Batch), Some(DRIVER_SHARES));
        ServiceLevel { timeout: None, workload, shares }
    }
}

/// What holds for a role, and which level each option comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EffectiveLevel {
    pub timeout: Option<(String, Duration)>,
    pub workload: Option<(String, Workload)>,
    pub shares: Option<(String, u32)>,
}

impl EffectiveLevel {
    /// Of several levels the shortest timeout holds, the fewest shares, and batch work.
    pub fn of<'a>(levels: impl Iterator<Item = (&'a str, &'a ServiceLevel)>) -> EffectiveLevel {
        let mut found = EffectiveLevel::default();
        for (name, level) in levels {
            let shares = level.shares.unwrap_or(SHARES);
            if found.shares.as_ref().is_none_or(|(_, least)| shares < *least) {
                found.shares = Some((name.to_owned(), shares));
            }
            if let Some(timeout) = level.timeout
                && found.timeout.as_ref().is_none_or(|(_, least)| timeout < *least)
            {
                found.timeout = Some((name.to_owned(), timeout));
            }
            if let Some(workload) = level.workload
                && found.workload.as_ref().is_none_or(|(_, it)| *it != Workload::Batch)
            {
                found.workload = Some((name.to_owned(), workload));
            }
        }
        found
    }
}

/// A timeout as LIST EFFECTIVE SERVICE LEVEL shows it: `1h30m`, `10s`, `500ms`.
pub struct ShownDuration(pub Duration);

impl fmt::Display for ShownDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_nanos();
        if rest == 0 {
            return f.write_str("0ns");
        }
        let units: [(&str, u128); 6] = [
            ("h", 3_600_000_000_000),
            ("m", 60_000_000_000),
            ("s", 1_000_000_000),
            ("ms", 1_000_000),
            ("us", 1_000),
            ("ns", 1),
        ];
        for (unit, nanos) in units {
            if nanos <= rest {
                write!(f, "{}{unit}", rest / nanos)?;
                rest %= nanos;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strictest_of_several_levels_holds() {
        let level = |timeout: Option<u64>, workload, shares| ServiceLevel {
            timeout: timeout.map(Duration::from_secs),
            workload,
            shares,
        };
        let check = |levels: &[(&str, ServiceLevel)], expected: [&str; 3]| {
            let all = levels.iter().map(|(name, level)| (*name, level));
            let found = EffectiveLevel::of(all);
            let timeout = found.timeout.map(|(name, it)| format!("{name} {}", ShownDuration(it)));
            let workload = found.workload.map(|(name, it)| format!("{name} {}", it.name()));
            let shares = found.shares.map(|(name, it)| format!("{name} {it}"));
            let shown = [timeout, workload, shares].map(|it| it.unwrap_or_default());
            assert_eq!(shown, expected.map(str::to_owned));
        };
        let (batch, interactive) = (Some(Workload::Batch), Some(Workload::Interactive));
        check(&[], ["", "", ""]);
        check(&[("a", level(None, None, None))], ["", "", "a 1000"]);
        let both = [("a", level(Some(2), interactive, None)), ("b", level(Some(10), batch, None))];
        check(&both, ["a 2s", "b batch", "a 1000"]);
        let both = [("a", level(Some(9), batch, Some(500))), ("b", level(None, None, Some(200)))];
        check(&both, ["a 9s", "a batch", "b 200"]);
    }

    #[test]
    fn durations_are_shown() {
        let check = |nanos, expected: &str| {
            assert_eq!(ShownDuration(Duration::from_nanos(nanos)).to_string(), expected);
        };
        check(0, "0ns");
        check(10_000_000_000, "10s");
        check(5_400_000_000_000, "1h30m");
        check(1_001_002_003, "1s1ms2us3ns");
    }
}
