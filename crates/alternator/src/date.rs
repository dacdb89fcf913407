//! The time as HTTP says it, and as labels have it.

use hyper::header::HeaderValue;
use std::cell::RefCell;

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The header of answers, which is made once a second. One shard's.
#[derive(Debug)]
pub(crate) struct Date(RefCell<(i64, HeaderValue)>);

impl Default for Date {
    fn default() -> Date {
        Date(RefCell::new((i64::MIN, HeaderValue::from_static(""))))
    }
}

impl Date {
    /// That of a second since the epoch.
    pub(crate) fn header(&self, seconds: i64) -> HeaderValue {
        let mut last = self.0.borrow_mut();
        if last.0 != seconds
            && let Ok(value) = HeaderValue::try_from(of(seconds))
        {
            *last = (seconds, value);
        }
        last.1.clone()
    }
}

/// Of seconds since the epoch: `Fri, 27 Nov 2026 08:58:03 GMT`.
pub(crate) fn of(seconds: i64) -> String {
    let (days, time) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let name = DAYS[days.rem_euclid(7) as usize];
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    let month = MONTHS[month as usize - 1];
    format!("{name}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
}

/// Of milliseconds since the epoch: `2026-11-27T08:58:03.007`.
pub(crate) fn iso(millis: i64) -> String {
    let (seconds, millis) = (millis.div_euclid(1000), millis.rem_euclid(1000));
    let (days, time) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}")
}

/// Year, month and day of a day since the epoch. Years are counted from March here, in eras of 400.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_follows_the_clock() {
        let date = Date::default();
        for seconds in [0, 0, 1_795_769_883, 1_795_769_883, 0] {
            assert_eq!(date.header(seconds).to_str().ok(), Some(&*of(seconds)));
        }
    }

    #[test]
    fn seconds_are_dates() {
        assert_eq!(of(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(of(1_709_164_800), "Thu, 29 Feb 2024 00:00:00 GMT");
        assert_eq!(of(1_795_769_883), "Fri, 27 Nov 2026 08:58:03 GMT");
        assert_eq!(iso(1_795_769_883_007), "2026-11-27T08:58:03.007");
    }
}
