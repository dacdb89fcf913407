//! Dates, times of day and timestamps, and their texts.
//!
//! A `date` is a number of days where 2^31 is 1970-01-01, a `time` nanoseconds of a day, a
//! `timestamp` milliseconds since 1970-01-01 UTC. Calendar arithmetic is proleptic Gregorian over
//! the whole ranges of these types (a timestamp reaches 292 million years). Texts without a zone
//! are UTC.

use super::{Duration, Invalid, invalid};

/// Nanoseconds of a day.
pub const NANOS_PER_DAY: i64 = 86_400_000_000_000;
/// Milliseconds of a day.
pub const MILLIS_PER_DAY: i64 = 86_400_000;
/// The `date` of 1970-01-01.
pub const DATE_EPOCH: u32 = 1 << 31;

/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_EPOCH: i64 = 719_468;
const DAYS_PER_400_YEARS: i64 = 146_097;
const DAYS_PER_100_YEARS: i64 = 36_524;
const DAYS_PER_4_YEARS: i64 = 1_461;

/// A day of the calendar. Year 0 is 1 BC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Day {
    pub year: i64,
    /// From 1.
    pub month: u8,
    /// From 1.
    pub day: u8,
}

impl Day {
    /// The day so many days after 1970-01-01.
    pub fn from_epoch_days(days: i64) -> Day {
        // Years begin in March here, so that the leap day is the last one of its year.
        let days = days + DAYS_TO_EPOCH;
        let (era, rest) =
            (days.div_euclid(DAYS_PER_400_YEARS), days.rem_euclid(DAYS_PER_400_YEARS));
        let century = (rest / DAYS_PER_100_YEARS).min(3);
        let rest = rest - century * DAYS_PER_100_YEARS;
        let (leap_cycle, rest) = (rest / DAYS_PER_4_YEARS, rest % DAYS_PER_4_YEARS);
        let year_in_cycle = (rest / 365).min(3);
        let day_of_year = rest - year_in_cycle * 365;
        let year = era * 400 + century * 100 + leap_cycle * 4 + year_in_cycle;
        let march_based = (5 * day_of_year + 2) / 153;
        let day = day_of_year - days_before_month(march_based) + 1;
        let (year, month) =
            if march_based < 10 { (year, march_based + 3) } else { (year + 1, march_based - 9) };
        Day { year, month: month as u8, day: day as u8 }
    }

    /// Days after 1970-01-01; `None` if there is no such day, or it is absurdly far away.
    pub fn to_epoch_days(self) -> Option<i64> {
        let in_range = (-1_000_000_000..=1_000_000_000).contains(&self.year);
        if !in_range || !(1..=12).contains(&self.month) || self.day == 0 {
            return None;
        }
        let (year, march_based) = if 3 <= self.month {
            (self.year, i64::from(self.month) - 3)
        } else {
            (self.year - 1, i64::from(self.month) + 9)
        };
        let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        let before = 365 * year + leap_days + days_before_month(march_based) - DAYS_TO_EPOCH;
        let days = before + i64::from(self.day) - 1;
        (Day::from_epoch_days(days) == self).then_some(days)
    }

    fn print(self) -> String {
        let Day { year, month, day } = self;
        let sign = if year < 0 { "-" } else { "" };
        format!("{sign}{:04}-{month:02}-{day:02}", year.unsigned_abs())
    }
}

/// Days before the month, in a year that begins in March (month 0).
fn days_before_month(march_based: i64) -> i64 {
    (153 * march_based + 2) / 5
}

/// `2011-02-03`.
pub fn print_date(date: u32) -> String {
    Day::from_epoch_days(i64::from(date) - i64::from(DATE_EPOCH)).print()
}

/// `04:05:06.000000789`; what is out of range is printed with more hours.
pub fn print_time(nanos: i64) -> String {
    let (seconds, fraction) = (nanos.div_euclid(1_000_000_000), nanos.rem_euclid(1_000_000_000));
    let (minutes, second) = (seconds.div_euclid(60), seconds.rem_euclid(60));
    let (hour, minute) = (minutes.div_euclid(60), minutes.rem_euclid(60));
    format!("{hour:02}:{minute:02}:{second:02}.{fraction:09}")
}

/// `2011-02-03T04:05:06.789Z`, with `separator` in place of the T.
pub fn print_timestamp(millis: i64, separator: char) -> String {
    let (days, of_day) = (millis.div_euclid(MILLIS_PER_DAY), millis.rem_euclid(MILLIS_PER_DAY));
    let time = print_time(of_day * 1_000_000);
    let day = Day::from_epoch_days(days).print();
    format!("{day}{separator}{}Z", &time[..time.len() - 6])
}

/// Parses `2011-02-03`, or the number itself.
pub fn parse_date(text: &str) -> Result<u32, Invalid> {
    if let Some(number) = integer(text) {
        let refusal = || format!("Unable to make unsigned int (for date) from: '{text}'");
        return number
            .and_then(|number| u32::try_from(number).ok())
            .ok_or_else(|| Invalid(refusal()));
    }
    let mut scanner = Scanner { rest: text };
    let days = scanner.day().filter(|_| scanner.rest.is_empty()).and_then(Day::to_epoch_days);
    let date = days.and_then(|days| u32::try_from(days + i64::from(DATE_EPOCH)).ok());
    date.ok_or_else(|| Invalid(format!("Unable to coerce '{text}' to a formatted date (long)")))
}

/// Parses `hh:mm:ss` with up to nine decimals, or nanoseconds.
pub fn parse_time(text: &str) -> Result<i64, Invalid> {
    let refusal =
        |why: &str| format!("Unable to coerce '{text}' to a formatted time (long): {why}");
    let in_range = |nanos: &i64| (0..NANOS_PER_DAY).contains(nanos);
    if let Some(number) = integer(text) {
        let nanos = number.filter(in_range);
        return nanos.ok_or_else(|| Invalid(refusal("out of the range of a day")));
    }
    let mut scanner = Scanner { rest: text };
    match scanner.time(Seconds::Required).filter(|_| scanner.rest.is_empty()) {
        Some((nanos, _)) => Ok(nanos),
        None => invalid(refusal("Timestamp format must be hh:mm:ss[.fffffffff]")),
    }
}

/// Parses a timestamp: milliseconds, or a date, then perhaps a T or spaces and a time `hh:mm`,
/// `hh:mm:ss` or `hh:mm:ss.f` (no decimals beyond milliseconds: they would be lost), then perhaps
/// a zone: `Z`, `UTC`, `GMT`, `+hh`, `+hhmm` or `+hh:mm`.
pub fn parse_timestamp(text: &str) -> Result<i64, Invalid> {
    if let Some(Some(millis)) = integer(text) {
        return Ok(millis);
    }
    match calendar_timestamp(text) {
        Some((millis, 0..=3)) => Ok(millis),
        Some((_, decimals)) => {
            let why = "Milliseconds length exceeds expected";
            invalid(format!("unable to parse date '{text}': {why} ({decimals})"))
        }
        None => invalid(format!("unable to parse date '{text}'")),
    }
}

/// Milliseconds, and how many decimals the seconds had.
fn calendar_timestamp(text: &str) -> Option<(i64, usize)> {
    let mut scanner = Scanner { rest: text.trim() };
    let days = scanner.day()?.to_epoch_days()?;
    let (mut nanos, mut decimals) = (0, 0);
    let separated = scanner.eat('T') || scanner.eat('t') || scanner.spaces();
    if separated && scanner.rest.starts_with(|c: char| c.is_ascii_digit()) {
        (nanos, decimals) = scanner.time(Seconds::Optional)?;
    } else if separated && scanner.rest.is_empty() {
        return None;
    }
    scanner.spaces();
    let offset_minutes = scanner.zone()?;
    if !scanner.rest.is_empty() {
        return None;
    }
    let of_day = nanos / 1_000_000 - offset_minutes * 60_000;
    // The first day of the range begins before the range does.
    let millis = i128::from(days) * i128::from(MILLIS_PER_DAY) + i128::from(of_day);
    Some((i64::try_from(millis).ok()?, decimals))
}

/// The day that is a duration after a date, or before it: months first, then days. A day that the
/// month does not have becomes its last one. `None` outside of the range.
pub fn add_to_date(date: u32, duration: Duration, backwards: bool) -> Option<u32> {
    let days = add_days(i64::from(date) - i64::from(DATE_EPOCH), duration, backwards)?;
    u32::try_from(days + i64::from(DATE_EPOCH)).ok()
}

/// The timestamp that is a duration after another one, or before it, as [`add_to_date`]; what is
/// below a millisecond is left out.
pub fn add_to_timestamp(millis: i64, duration: Duration, backwards: bool) -> Option<i64> {
    let (days, of_day) = (millis.div_euclid(MILLIS_PER_DAY), millis.rem_euclid(MILLIS_PER_DAY));
    let days = add_days(days, duration, backwards)?;
    let more = duration.nanos / 1_000_000;
    let more = if backwards { more.checked_neg()? } else { more };
    // The first day of the range begins before the range does.
    let millis = i128::from(days) * i128::from(MILLIS_PER_DAY) + i128::from(of_day);
    i64::try_from(millis + i128::from(more)).ok()
}

fn add_days(days: i64, duration: Duration, backwards: bool) -> Option<i64> {
    let sign = if backwards { -1 } else { 1 };
    let (months, more) = (i64::from(duration.months) * sign, i64::from(duration.days) * sign);
    let mut day = Day::from_epoch_days(days);
    if months == 0 {
        return days.checked_add(more);
    }
    let month = day.year * 12 + i64::from(day.month) - 1 + months;
    (day.year, day.month) = (month.div_euclid(12), month.rem_euclid(12) as u8 + 1);
    let moved =
        (0..4).find_map(|back| Day { day: day.day.checked_sub(back)?, ..day }.to_epoch_days());
    moved?.checked_add(more)
}

/// `None`: not a decimal number. `Some(None)`: one that overflows.
fn integer(text: &str) -> Option<Option<i64>> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    all_digits.then(|| text.parse().ok())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Seconds {
    Required,
    Optional,
}

struct Scanner<'a> {
    rest: &'a str,
}

impl Scanner<'_> {
    fn eat(&mut self, wanted: char) -> bool {
        let rest = self.rest.strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn spaces(&mut self) -> bool {
        let rest = self.rest.trim_start_matches(' ');
        let any = rest.len() < self.rest.len();
        self.rest = rest;
        any
    }

    /// A number of at most `digits_max` digits, and how many it has.
    fn number(&mut self, digits_max: usize) -> Option<(i64, usize)> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        let value = digits.parse().ok()?;
        (digits.len() <= digits_max).then_some((value, digits.len()))
    }

    fn below(&mut self, end: i64) -> Option<i64> {
        self.number(2).map(|(value, _)| value).filter(|value| *value < end)
    }

    fn day(&mut self) -> Option<Day> {
        let negative = self.eat('-');
        if !negative {
            self.eat('+');
        }
        let (year, _) = self.number(9)?;
        let year = if negative { -year } else { year };
        self.eat('-').then_some(())?;
        let month = self.below(13)? as u8;
        self.eat('-').then_some(())?;
        let day = self.below(32)? as u8;
        Some(Day { year, month, day })
    }

    /// Nanoseconds of the day, and how many decimals the seconds had.
    fn time(&mut self, seconds: Seconds) -> Option<(i64, usize)> {
        let hour = self.below(24)?;
        self.eat(':').then_some(())?;
        let minute = self.below(60)?;
        let mut nanos = (hour * 60 + minute) * 60_000_000_000;
        if !self.eat(':') {
            return (seconds == Seconds::Optional).then_some((nanos, 0));
        }
        nanos += self.below(60)? * 1_000_000_000;
        let mut decimals = 0;
        if self.eat('.') {
            let (value, digits) = self.number(9)?;
            nanos += value * 10i64.pow(9 - digits as u32);
            decimals = digits;
        }
        Some((nanos, decimals))
    }

    /// Minutes east of UTC; 0 when there is no zone.
    fn zone(&mut self) -> Option<i64> {
        for name in ["Z", "z", "UTC", "GMT"] {
            if let Some(rest) = self.rest.strip_prefix(name) {
                self.rest = rest;
                return Some(0);
            }
        }
        let sign = match (self.eat('+'), self.eat('-')) {
            (true, false) => 1,
            (false, true) => -1,
            (false, false) => return Some(0),
            (true, true) => return None,
        };
        let (value, digits) = self.number(4)?;
        let (hours, minutes) = match digits {
            1 | 2 if self.eat(':') => (value, self.below(60)?),
            1 | 2 => (value, 0),
            4 => (value / 100, value % 100),
            _ => return None,
        };
        (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn timestamps() {
        let check = |text: &str, millis: i64| {
            assert_eq!(parse_timestamp(text), Ok(millis), "{text}");
        };
        check("1970-01-01", 0);
        check("-1234", -1234);
        check("2011-02-03 04:05+0000", 1_296_705_900_000);
        check("2011-02-03 04:05:00+0000", 1_296_705_900_000);
        check("2011-02-03T04:05:00.000Z", 1_296_705_900_000);
        check("2011-02-03T04:05:00.001+00:00", 1_296_705_900_001);
        check("2011-02-03 04:05:00 UTC", 1_296_705_900_000);
        check("2011-02-03 04:05:00.1", 1_296_705_900_100);
        check("2011-02-03  Z ", 1_296_691_200_000);
        check("2011-02-03 GMT", 1_296_691_200_000);
        check("2011-02-03 05:05+01", 1_296_705_900_000);
        check("2011-02-02 23:05-05:00", 1_296_705_900_000);
        check("2011-02-03+0100", 1_296_691_200_000 - 3_600_000);
        check("2011-02-03-0100", 1_296_691_200_000 + 3_600_000);
        check("1969-12-31 23:59:59.999", -1);
        check("9223372036854775807", i64::MAX);
        check(&print_timestamp(i64::MAX, ' '), i64::MAX);
        check(&print_timestamp(i64::MIN, ' '), i64::MIN);
        let precise = parse_timestamp("2014-01-01 12:15:45.0000000Z").unwrap_err().0;
        assert!(precise.ends_with("': Milliseconds length exceeds expected (7)"), "{precise}");
        let refused = [
            "",
            "2011-02",
            "2011-02-30",
            "2011-13-01",
            "2011-02-03T",
            "2011-02-03 24:00",
            "2011-02-03 04",
            "2011-02-03 04:60",
            "2011-02-03 04:05:00.",
            "2011-02-03 04:05 XYZ",
            "2011-02-03 04:05+00000",
            "2011-02-03x",
            "99999999999999999999",
            "999999999-01-01",
        ];
        for text in refused {
            let expected = format!("unable to parse date '{text}'");
            assert_eq!(parse_timestamp(text), Err(Invalid(expected)));
        }
        assert_eq!(print_timestamp(1_296_705_900_001, ' '), "2011-02-03 04:05:00.001Z");
    }

    #[test]
    fn durations_are_added() {
        let date = |text: &str, duration: &str, backwards: bool| {
            let duration = Duration::parse(duration).unwrap();
            add_to_date(parse_date(text).unwrap(), duration, backwards).map(print_date)
        };
        let check = |text: &str, duration: &str, backwards: bool, expected: &str| {
            assert_eq!(date(text, duration, backwards).as_deref(), Some(expected));
        };
        check("2016-10-04", "5d", true, "2016-09-29");
        check("2016-01-31", "1mo", false, "2016-02-29");
        check("2016-02-29", "1y", false, "2017-02-28");
        check("2016-02-29", "1y", true, "2015-02-28");
        check("2016-01-15", "1mo", true, "2015-12-15");
        check("2016-01-31", "1mo1d", false, "2016-03-01");
        check("2016-01-31", "-1mo", true, "2016-02-29");
        assert_eq!(date("0", "1d", true), None);
        assert_eq!(date("0", "2147483647mo", true), None);
        let moved = |millis: i64, duration: &str, backwards: bool| {
            add_to_timestamp(millis, Duration::parse(duration).unwrap(), backwards)
        };
        assert_eq!(moved(1, "1d2ms", false), Some(MILLIS_PER_DAY + 3));
        assert_eq!(moved(1, "1d2ms", true), Some(-MILLIS_PER_DAY - 1));
        assert_eq!(moved(i64::MIN, "0s", true), Some(i64::MIN));
        assert_eq!(moved(i64::MIN, "1ms", true), None);
        assert_eq!(moved(i64::MAX, "1mo", false), None);
    }

    #[test]
    fn dates_and_times() {
        let date = |text: &str| parse_date(text).map(print_date).map_err(|invalid| invalid.0);
        assert_eq!(parse_date("1970-01-01"), Ok(DATE_EPOCH));
        assert_eq!(date("0"), Ok("-5877641-06-23".into()));
        assert_eq!(date("-5877641-06-23"), Ok("-5877641-06-23".into()));
        assert_eq!(date("4294967295"), Ok("5881580-07-11".into()));
        assert_eq!(date("2000-2-29"), Ok("2000-02-29".into()));
        assert!(date("1900-02-29").is_err() && date("-5877641-06-22").is_err());
        assert!(date("4294967296").unwrap_err().contains("unsigned int"));
        let text = "Unable to coerce 'x' to a formatted date (long)";
        assert_eq!(date("x").unwrap_err(), text);
        assert_eq!(parse_time("08:12:54.123456789"), Ok(29_574_123_456_789));
        assert_eq!(parse_time("8:12:54.1"), Ok(29_574_100_000_000));
        assert_eq!(parse_time("123"), Ok(123));
        for text in ["", "08:12", "24:00:00", "08:12:54.1234567890", "-1", "86400000000000"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
        assert_eq!(print_time(29_574_123_456_789), "08:12:54.123456789");
    }

    proptest! {
        #[test]
        fn days_round_trip(days in -110_000_000_000i64..110_000_000_000) {
            prop_assert_eq!(Day::from_epoch_days(days).to_epoch_days(), Some(days));
        }

        #[test]
        fn days_are_those_of_a_calendar_library(days in -4_300_000i32..2_900_000) {
            let expected = jiff::civil::date(1970, 1, 1)
                .checked_add(jiff::ToSpan::days(i64::from(days)))
                .unwrap();
            let day = Day::from_epoch_days(days.into());
            let found = (day.year, day.month as i8, day.day as i8);
            prop_assert_eq!(found, (expected.year().into(), expected.month(), expected.day()));
        }

        #[test]
        fn texts_round_trip(millis: i64, date: u32, nanos in 0..NANOS_PER_DAY) {
            prop_assert_eq!(parse_timestamp(&print_timestamp(millis, 'T')), Ok(millis));
            prop_assert_eq!(parse_timestamp(&print_timestamp(millis, ' ')), Ok(millis));
            prop_assert_eq!(parse_date(&print_date(date)), Ok(date));
            prop_assert_eq!(parse_time(&print_time(nanos)), Ok(nanos));
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "[0-9T :.Z+-]{0,30}") {
            let _ = (parse_timestamp(&text), parse_date(&text), parse_time(&text));
        }
    }
}
