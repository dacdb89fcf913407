//! Durations: months, days and nanoseconds, which do not convert into each other.
//!
//! Three zig-zag vints on the wire. All three have the same sign. Text comes in four forms:
//! `1y2mo3d4h`, `P1Y2M3DT4H`, `P2W` and `P0001-02-03T04:05:06`.

use super::{Invalid, invalid};
use std::fmt;
use stdx::{Cursor, Put};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A duration; see the module. Not ordered: a month has no length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Duration {
    pub months: i32,
    pub days: i32,
    pub nanos: i64,
}

impl Duration {
    /// Reads and checks the bytes of a duration.
    pub fn decode(bytes: &[u8]) -> Result<Duration, Invalid> {
        if bytes.len() < 3 {
            let got = bytes.len();
            return invalid(format!("Expected at least 3 bytes for a duration, got {got}"));
        }
        let mut cursor = Cursor::new(bytes);
        let mut vint = || match cursor.svint("duration") {
            Ok(value) => Ok(value),
            Err(_) => invalid("Not enough bytes to read a duration"),
        };
        let (months, days, nanos) = (vint()?, vint()?, vint()?);
        if !cursor.is_empty() {
            return invalid("Unexpected extraneous bytes after a duration");
        }
        let narrow = |value: i64, what: &str| match i32::try_from(value) {
            Ok(value) => Ok(value),
            Err(_) => invalid(format!("The duration {what} ({value}) must be a 32 bits integer")),
        };
        let (months, days) = (narrow(months, "months")?, narrow(days, "days")?);
        Duration { months, days, nanos }.checked()
    }

    /// Three vints.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_svint(self.months.into());
        out.put_svint(self.days.into());
        out.put_svint(self.nanos);
        out
    }

    fn checked(self) -> Result<Duration, Invalid> {
        let Duration { months, days, nanos } = self;
        let signs = [months.signum().into(), days.signum().into(), nanos.signum()];
        if signs.contains(&1) && signs.contains(&-1) {
            return invalid(format!(
                "The duration months, days, and nanoseconds must be all of the same sign \
                 ({months}, {days}, {nanos})"
            ));
        }
        Ok(self)
    }

    /// Parses any of the four forms, with a minus in front where it is negative.
    pub fn parse(text: &str) -> Result<Duration, Invalid> {
        let (negative, body) = match text.strip_prefix('-') {
            Some(body) => (true, body),
            None => (false, text),
        };
        let total = match body.strip_prefix('P') {
            Some(iso) if iso.contains('-') => iso_alternative(iso),
            Some(iso) => iso_designators(iso)?,
            None => units(body)?,
        };
        match total {
            Some(total) => total.signed(negative),
            None => invalid(format!("Unable to convert '{text}' to a duration")),
        }
    }
}

impl fmt::Display for Duration {
    /// Units from years to nanoseconds, without those that are zero; `0s` of nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.months < 0 || self.days < 0 || self.nanos < 0 {
            f.write_str("-")?;
        }
        let mut any = false;
        let mut write = |mut amount: u64, units: &[(u64, &str)]| {
            for (size, unit) in units {
                if *size <= amount {
                    any = true;
                    write!(f, "{}{unit}", amount / size)?;
                    amount %= size;
                }
            }
            Ok(())
        };
        write(self.months.unsigned_abs().into(), &[(12, "y"), (1, "mo")])?;
        write(self.days.unsigned_abs().into(), &[(1, "d")])?;
        let nanos: Vec<(u64, &str)> =
            UNITS[4..].iter().map(|unit| (unit.nanos, unit.suffix)).collect();
        write(self.nanos.unsigned_abs(), &nanos)?;
        if any { Ok(()) } else { f.write_str("0s") }
    }
}

/// A unit of the first form, the greater ones first: the order in which they must stand.
struct Unit {
    suffix: &'static str,
    name: &'static str,
    months: u64,
    days: u64,
    nanos: u64,
}

const fn unit(
    suffix: &'static str,
    name: &'static str,
    (months, days, nanos): (u64, u64, u64),
) -> Unit {
    Unit { suffix, name, months, days, nanos }
}

const UNITS: [Unit; 10] = [
    unit("y", "years", (12, 0, 0)),
    unit("mo", "months", (1, 0, 0)),
    unit("w", "weeks", (0, 7, 0)),
    unit("d", "days", (0, 1, 0)),
    unit("h", "hours", (0, 0, 3600 * NANOS_PER_SECOND)),
    unit("m", "minutes", (0, 0, 60 * NANOS_PER_SECOND)),
    unit("s", "seconds", (0, 0, NANOS_PER_SECOND)),
    unit("ms", "milliseconds", (0, 0, 1_000_000)),
    unit("us", "microseconds", (0, 0, 1_000)),
    unit("ns", "nanoseconds", (0, 0, 1)),
];

/// The sum of what was read, without sign.
#[derive(Default)]
struct Total {
    months: u64,
    days: u64,
    nanos: u64,
    /// Index of the last unit.
    last: Option<usize>,
}

impl Total {
    fn add(&mut self, count: u64, index: usize) -> Result<(), Invalid> {
        let unit = &UNITS[index];
        if let Some(last) = self.last.filter(|last| index <= *last) {
            let (name, after) = (unit.name, UNITS[last].name);
            return invalid(if last == index {
                format!("Invalid duration. The {name} are set multiple times")
            } else {
                format!("Invalid duration. The {after} should be after {name}")
            });
        }
        self.last = Some(index);
        let sum = |sum: u64, size: u64, max: u64, what: &str| {
            let total = count.checked_mul(size).and_then(|more| sum.checked_add(more));
            total.filter(|total| *total <= max).ok_or_else(|| {
                let max = max - 1;
                let text = "Invalid duration. The total number of";
                Invalid(format!("{text} {what} must be less or equal to {max}"))
            })
        };
        // One more than the greatest positive number, for the least negative one.
        self.months = sum(self.months, unit.months, 1 << 31, "months")?;
        self.days = sum(self.days, unit.days, 1 << 31, "days")?;
        self.nanos = sum(self.nanos, unit.nanos, 1 << 63, "nanoseconds")?;
        Ok(())
    }

    fn signed(&self, negative: bool) -> Result<Duration, Invalid> {
        let sign = if negative { -1 } else { 1 };
        let apply = |amount: u64, min: i64, max: i64, what: &str| {
            let value = i128::from(amount) * sign;
            if i128::from(min) <= value && value <= i128::from(max) {
                return Ok(value as i64);
            }
            let text = "Invalid duration. The total number of";
            invalid(format!("{text} {what} must be less or equal to {max}"))
        };
        let narrow = |amount, what| apply(amount, i32::MIN.into(), i32::MAX.into(), what);
        Ok(Duration {
            months: narrow(self.months, "months")? as i32,
            days: narrow(self.days, "days")? as i32,
            nanos: apply(self.nanos, i64::MIN, i64::MAX, "nanoseconds")?,
        })
    }
}

/// `1y2mo`, upper or lower case. `None` when the text has another shape.
fn units(text: &str) -> Result<Option<Total>, Invalid> {
    let mut total = Total::default();
    let mut rest = text;
    while !rest.is_empty() {
        let Some((count, after)) = number(rest) else { return Ok(None) };
        let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let suffix = after[..end].to_lowercase();
        // Both the micro sign and the Greek letter stand for "micro".
        let suffix = suffix.replace(['\u{b5}', '\u{3bc}'], "u");
        let Some(index) = UNITS.iter().position(|unit| unit.suffix == suffix) else {
            return Ok(None);
        };
        total.add(count, index)?;
        rest = &after[end..];
    }
    Ok(total.last.is_some().then_some(total))
}

/// `1Y2M3DT4H5M6S` or `2W`, after the P.
fn iso_designators(text: &str) -> Result<Option<Total>, Invalid> {
    let mut total = Total::default();
    let mut letters = "YMDW";
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('T').filter(|_| letters.contains('Y')) {
            letters = "HMS";
            rest = after;
            if rest.is_empty() {
                return Ok(None);
            }
            continue;
        }
        let Some((count, after)) = number(rest) else { return Ok(None) };
        let Some(letter) = after.chars().next().filter(|letter| letters.contains(*letter)) else {
            return Ok(None);
        };
        let alone = rest.len() == text.len() && after.len() == 1;
        let index = match letter {
            'Y' => 0,
            'M' if letters == "HMS" => 5,
            'M' => 1,
            'W' if alone => 2,
            'W' => return Ok(None),
            'D' => 3,
            'H' => 4,
            _ => 6,
        };
        total.add(count, index)?;
        rest = &after[1..];
    }
    Ok(total.last.is_some().then_some(total))
}

/// `0001-02-03T04:05:06`, after the P: fixed widths.
fn iso_alternative(text: &str) -> Option<Total> {
    let (date, time) = text.split_once('T')?;
    let parts = |text: &str, separator: char, widths: [usize; 3]| {
        let parts: Vec<&str> = text.split(separator).collect();
        let [a, b, c] = <[&str; 3]>::try_from(parts).ok()?;
        let fits = [a, b, c].map(str::len) == widths;
        let digits = |text: &str| match number(text) {
            Some((value, "")) => Some(value),
            _ => None,
        };
        fits.then_some([digits(a)?, digits(b)?, digits(c)?])
    };
    let date = parts(date, '-', [4, 2, 2])?;
    let time = parts(time, ':', [2, 2, 2])?;
    let mut total = Total::default();
    for (count, index) in date.into_iter().chain(time).zip([0, 1, 3, 4, 5, 6]) {
        total.add(count, index).ok()?;
    }
    Some(total)
}

/// The digits at the start of a text as a number, and what follows them.
fn number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const H: i64 = 3600 * NANOS_PER_SECOND as i64;
    const M: i64 = H / 60;

    #[test]
    fn all_forms() {
        let check = |text: &str, months, days, nanos| {
            assert_eq!(Duration::parse(text), Ok(Duration { months, days, nanos }), "{text}");
        };
        check("1y2mo", 14, 0, 0);
        check("-1y2h", -12, 0, -2 * H);
        check("1Y2mO", 14, 0, 0);
        check("2y3w", 24, 21, 0);
        check("1d12h30m", 0, 1, 12 * H + 30 * M);
        check("1ms1us1ns", 0, 0, 1_001_001);
        check("1\u{b5}s", 0, 0, 1000);
        check("1\u{3bc}s", 0, 0, 1000);
        check("-2147483648mo", i32::MIN, 0, 0);
        check("P1Y2D", 12, 2, 0);
        check("P2W", 0, 14, 0);
        check("-P1YT2H", -12, 0, -2 * H);
        check("P1Y3MT2H10M", 15, 0, 130 * M);
        check("PT56S", 0, 0, 56 * NANOS_PER_SECOND as i64);
        check("P0001-03-00T02:10:00", 15, 0, 130 * M);
        check("-P0001-02-00T00:00:00", -14, 0, 0);
    }

    #[test]
    fn refusals() {
        let check = |text: &str, expected: &str| {
            let found = Duration::parse(text).unwrap_err().0;
            assert_eq!(found, expected, "{text}");
        };
        check("12s3m", "Invalid duration. The seconds should be after minutes");
        check("1y3m4d", "Invalid duration. The minutes should be after days");
        check("2m3m", "Invalid duration. The minutes are set multiple times");
        let text =
            "Invalid duration. The total number of months must be less or equal to 2147483647";
        check("2147483648mo", text);
        check("200000000y", text);
        let shapes = [
            "",
            "-",
            "y",
            "1",
            "0.5y",
            "1y-2mo",
            "P",
            "PT",
            "P2Y3W",
            "P1y2D",
            "p1Y2D",
            "P1YT",
            "P0002-00-20",
            "P0001-03-00t02:10:00",
            "P1-03-00T02:10:00",
            "1x",
            "1h ",
            "P1W2D",
            "99999999999999999999h",
        ];
        for text in shapes {
            check(text, &format!("Unable to convert '{text}' to a duration"));
        }
    }

    #[test]
    fn golden_bytes() {
        let check = |(months, days, nanos), bytes: &[u8]| {
            let duration = Duration { months, days, nanos };
            assert_eq!(duration.encode(), bytes);
            assert_eq!(Duration::decode(bytes), Ok(duration));
        };
        check((1, 2, 3), &[2, 4, 6]);
        check((-1, -2, -1000), &[1, 3, 0x87, 0xcf]);
        let refuse = |bytes: &[u8]| Duration::decode(bytes).unwrap_err().0;
        assert_eq!(refuse(&[2, 4]), "Expected at least 3 bytes for a duration, got 2");
        let signs = "must be all of the same sign (1, -1, 0)";
        assert!(refuse(&[2, 1, 0]).ends_with(signs));
        assert_eq!(refuse(&[2, 4, 6, 0]), "Unexpected extraneous bytes after a duration");
        let wide = "The duration months (2147483648) must be a 32 bits integer";
        assert_eq!(refuse(&[0xf1, 0, 0, 0, 0, 0, 0]), wide);
    }

    proptest! {
        #[test]
        fn round_trips(months: i32, days: i32, nanos: i64, negative: bool) {
            let sign = |value: i64| if negative { -(value.abs().max(0)) } else { value.abs() };
            let duration = Duration {
                months: sign(months.saturating_add(1).into()) as i32,
                days: sign(days.saturating_add(1).into()) as i32,
                nanos: sign(nanos.saturating_add(1)),
            };
            prop_assert_eq!(Duration::decode(&duration.encode()), Ok(duration));
            prop_assert_eq!(Duration::parse(&duration.to_string()), Ok(duration));
        }

        #[test]
        fn any_input_is_read_or_refused(
            text in "[-P0-9TyYmMowdDhs:]{0,20}",
            bytes: Vec<u8>,
        ) {
            let _ = Duration::parse(&text);
            let _ = Duration::decode(&bytes);
        }
    }
}
