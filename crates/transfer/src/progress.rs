//! How a load or an unload goes on, for who watches: a line that is drawn again on a terminal, a
//! line now and then elsewhere. It goes to stderr.

use runtime::time::Instant;
use std::collections::VecDeque;
use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

const DRAWN_EVERY: Duration = Duration::from_millis(250);
const PRINTED_EVERY: Duration = Duration::from_secs(5);
/// The rate is that of this span.
const RATE_OVER: Duration = Duration::from_secs(5);
const BAR_COLUMNS: usize = 24;

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct State {
    pub(crate) rows: u64,
    pub(crate) errors: u64,
    /// Between 0 and 1, where that is known.
    pub(crate) fraction: Option<f64>,
}

/// What is shown.
pub(crate) struct Progress {
    is_terminal: bool,
    is_silent: bool,
    start: Instant,
    /// Rows at the start: those of the load that this one continues.
    first_rows: u64,
    seen: VecDeque<(Instant, u64)>,
    printed: Instant,
}

impl Progress {
    pub(crate) fn new(is_silent: bool, first_rows: u64) -> Progress {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        let start = Instant::now();
        Progress {
            is_terminal: stderr().is_terminal() && !is_dumb,
            is_silent,
            start,
            first_rows,
            seen: VecDeque::from([(start, first_rows)]),
            printed: start,
        }
    }

    /// How often there is something to show.
    pub(crate) fn interval(&self) -> Duration {
        DRAWN_EVERY
    }

    /// Shows a state, where it is time.
    pub(crate) fn show(&mut self, state: State) {
        let now = Instant::now();
        self.seen.push_back((now, state.rows));
        while let [(first, _), _, ..] = self.seen.make_contiguous()
            && RATE_OVER < now - *first
        {
            self.seen.pop_front();
        }
        if self.is_silent || (!self.is_terminal && now - self.printed < PRINTED_EVERY) {
            return;
        }
        self.printed = now;
        let line = line(state, self.rate(now, state.rows), self.remaining(now, state));
        // A terminal that is gone is no reason to stop.
        let _ = match self.is_terminal {
            true => write!(stderr(), "\r{line}\x1b[K"),
            false => writeln!(stderr(), "{line}"),
        };
    }

    /// A line of text that stays.
    pub(crate) fn say(&self, text: &str) {
        let erase = if self.is_terminal { "\r\x1b[K" } else { "" };
        let _ = writeln!(stderr(), "{erase}{text}");
    }

    /// Leaves the terminal as it was, and says what was done, as `verb`.
    pub(crate) fn end(&self, state: State, verb: &str) {
        let secs = self.start.elapsed().as_secs_f64();
        let rate = (state.rows - self.first_rows) as f64 / secs.max(0.001);
        let (rows, rate) = (grouped(state.rows), grouped(rate as u64));
        let errors = grouped(state.errors);
        self.say(&format!("{rows} rows {verb} in {secs:.1} s ({rate} rows/s), {errors} errors"));
    }

    fn rate(&self, now: Instant, rows: u64) -> f64 {
        let (at, before) = self.seen.front().copied().unwrap_or((self.start, self.first_rows));
        rows.saturating_sub(before) as f64 / (now - at).as_secs_f64().max(0.001)
    }

    /// By the whole time, which is steadier than the rate.
    fn remaining(&self, now: Instant, state: State) -> Option<Duration> {
        let fraction = state.fraction.filter(|fraction| (0.01..1.0).contains(fraction))?;
        let spent = (now - self.start).as_secs_f64();
        Some(Duration::from_secs_f64(spent / fraction * (1.0 - fraction)))
    }
}

fn line(state: State, rate: f64, remaining: Option<Duration>) -> String {
    let bar = state.fraction.map_or_else(String::new, |fraction| {
        let fraction = fraction.clamp(0.0, 1.0);
        let filled = (fraction * BAR_COLUMNS as f64) as usize;
        let (done, left) = ("=".repeat(filled), " ".repeat(BAR_COLUMNS - filled));
        format!("[{done}{left}] {:3.0} %  ", fraction * 100.0)
    });
    let left = remaining.map_or_else(String::new, |left| {
        let secs = left.as_secs();
        format!("  {}:{:02}:{:02} left", secs / 3600, secs / 60 % 60, secs % 60)
    });
    let (rows, rate, errors) = (grouped(state.rows), grouped(rate as u64), grouped(state.errors));
    format!("{bar}{rows} rows  {rate} rows/s  {errors} errors{left}")
}

/// A number with its thousands apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index != 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let state = State { rows: 4_200_000, errors: 3, fraction: Some(0.5) };
        let shown = line(state, 152_000.4, Some(Duration::from_secs(3_725)));
        let bar = "[============            ]  50 %";
        let expected = "4 200 000 rows  152 000 rows/s  3 errors  1:02:05 left";
        assert_eq!(shown, format!("{bar}  {expected}"));
        let state = State { rows: 7, errors: 0, fraction: None };
        assert_eq!(line(state, 0.0, None), "7 rows  0 rows/s  0 errors");
    }

    #[test]
    fn thousands() {
        let cases = [(0, "0"), (999, "999"), (1000, "1 000"), (1_234_567, "1 234 567")];
        cases.iter().for_each(|(number, text)| assert_eq!(grouped(*number), *text));
    }
}
