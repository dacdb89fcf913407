//! What a node has told, as lines of text: a pure function.
//!
//! Invariants
//!  - *fits*: no line is longer than the terminal is wide, and there are no more than it has. What
//!    matters least goes first.

use super::view::{Ended, Job, View};
use std::net::SocketAddr;
use std::time::Duration;

/// Of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) lines: usize,
}

/// What stands above.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header<'h> {
    pub(super) peer: SocketAddr,
    /// Of looks; `None`: this is the only one.
    pub(super) interval: Option<Duration>,
    /// Why what is shown is not of now.
    pub(super) trouble: Option<&'h str>,
}

/// What is told of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Kind,
    Table,
    /// With a bar of that many characters.
    Done(usize),
    Rows,
    Written,
    Rate,
    Time,
    Left,
}

/// The first that fits is taken.
const LAYOUTS: [&[What]; 7] = {
    use What::*;
    [
        &[Kind, Table, Done(20), Rows, Written, Rate, Time, Left],
        &[Kind, Table, Done(10), Rows, Written, Rate, Time, Left],
        &[Kind, Table, Done(10), Rows, Written, Rate, Left],
        &[Kind, Table, Done(10), Rows, Written, Left],
        &[Kind, Table, Done(0), Written, Left],
        &[Table, Done(0), Left],
        &[Table, Done(0)],
    ]
};

/// What is not known.
const UNKNOWN: &str = "-";

/// A view as lines, without their ends; times of what has ended are told as of `now_millis` since
/// 1970.
pub(super) fn lines(view: &View, header: &Header<'_>, now_millis: i64, size: Size) -> Vec<String> {
    let mut out = head(header);
    let room = size.lines.saturating_sub(out.len() + 2);
    out.extend(first_of(jobs(&view.jobs, size.columns), room));
    out.extend([String::new(), summary(view)]);
    let room = size.lines.saturating_sub(out.len() + 1);
    if 2 <= room && !view.ended.is_empty() {
        out.push(String::new());
        out.extend(ended(&view.ended, now_millis).into_iter().take(room));
    }
    out.truncate(size.lines);
    out.iter().map(|line| line.chars().take(size.columns).collect()).collect()
}

fn head(header: &Header<'_>) -> Vec<String> {
    let often = header.interval.map(|interval| format!(", every {interval:?}; Ctrl-C ends"));
    let mut out = vec![format!("compactions of {}{}", header.peer, often.unwrap_or_default())];
    out.extend(header.trouble.map(|why| format!("What follows is not of now: {why}")));
    out.push(String::new());
    out
}

/// As many as there is room for; where they are more, the last says how many more.
fn first_of(mut lines: Vec<String>, room: usize) -> Vec<String> {
    if room < lines.len() {
        let kept = room.saturating_sub(1);
        let more = format!("and {} more", lines.len() - kept);
        lines.truncate(kept);
        lines.push(more);
    }
    lines
}

fn jobs(jobs: &[Job], columns: usize) -> Vec<String> {
    if jobs.is_empty() {
        return vec!["nothing is merged at present".to_string()];
    }
    let mut lines = Vec::new();
    for layout in LAYOUTS {
        lines = table(layout.iter().map(|what| column_of(*what, jobs)));
        if lines.iter().all(|line| line.len() <= columns) {
            break;
        }
    }
    lines
}

fn summary(view: &View) -> String {
    let mut parts = Vec::new();
    parts.extend(view.pending.map(|count| format!("pending {count}")));
    let held = view.held.filter(|held| *held != 0);
    parts.extend(held.map(|held| format!("waiting for room on the disk {held}")));
    parts.extend(view.backlog_bytes.map(|count| format!("to write {}", bytes(count as f64))));
    let shares = view.shares.iter().min().zip(view.shares.iter().max());
    parts.extend(shares.map(|(min, max)| match min == max {
        true => format!("shares {min}"),
        false => format!("shares {min} to {max}"),
    }));
    parts.extend(view.limit.map(|limit| match limit {
        0 => "no limit".to_string(),
        limit => format!("limit {limit} MiB/s"),
    }));
    parts.join(", ")
}

fn ended(ended: &[Ended], now_millis: i64) -> Vec<String> {
    let seconds = |from: i64, to: i64| span(to.saturating_sub(from).max(0) as u64 / 1000);
    let column = |title, right, cell: &dyn Fn(&Ended) -> String| Column {
        title,
        right,
        cells: ended.iter().map(cell).collect(),
    };
    table([
        column("ENDED", true, &|one| format!("{} ago", seconds(one.ended_at_millis, now_millis))),
        column("KIND", false, &|one| one.kind.clone()),
        column("TABLE", false, &|one| one.table.clone()),
        column("FROM", true, &|one| bytes(one.bytes_in as f64)),
        column("TO", true, &|one| bytes(one.bytes_out as f64)),
        column("TOOK", true, &|one| seconds(one.started_at_millis, one.ended_at_millis)),
    ])
}

struct Column {
    title: &'static str,
    /// Whether it stands at the right.
    right: bool,
    cells: Vec<String>,
}

fn column_of(what: What, jobs: &[Job]) -> Column {
    let known = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.to_string());
    let cell = |job: &Job| match what {
        What::Kind => job.kind.clone(),
        What::Table => job.table.clone(),
        What::Done(bar) => done(job.progress, bar),
        What::Rows => known(job.rows.map(count)),
        What::Written => known(job.written.map(|written| bytes(written as f64))),
        What::Rate => known(job.rate.map(|rate| format!("{:.1} MiB/s", rate / f64::from(1 << 20)))),
        What::Time => known(job.elapsed_millis.map(|millis| span(millis / 1000))),
        What::Left => known(job.remaining_millis.map(|millis| span(millis.div_ceil(1000)))),
    };
    let (title, right) = match what {
        What::Kind => ("KIND", false),
        What::Table => ("TABLE", false),
        What::Done(bar) => ("DONE", bar == 0),
        What::Rows => ("ROWS", true),
        What::Written => ("WRITTEN", true),
        What::Rate => ("RATE", true),
        What::Time => ("TIME", true),
        What::Left => ("LEFT", true),
    };
    Column { title, right, cells: jobs.iter().map(cell).collect() }
}

/// Titles, then a line for each row; two spaces between columns, none at the end.
fn table(columns: impl IntoIterator<Item = Column>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (index, Column { title, right, cells }) in columns.into_iter().enumerate() {
        let cells: Vec<&str> =
            [title].into_iter().chain(cells.iter().map(String::as_str)).collect();
        let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or_default();
        lines.resize(cells.len(), String::new());
        for (line, cell) in lines.iter_mut().zip(cells) {
            let gap = if index == 0 { "" } else { "  " };
            line.push_str(&match right {
                true => format!("{gap}{cell:>width$}"),
                false => format!("{gap}{cell:<width$}"),
            });
        }
    }
    lines.iter().map(|line| line.trim_end().to_string()).collect()
}

/// A part from 0 to 1 in percent, rounded down: what is not at its end is not at 100.
fn done(part: Option<f64>, bar: usize) -> String {
    let full = (part.unwrap_or_default() * bar as f64) as usize;
    let percent = match part {
        Some(part) => format!("{:>5.1}%", (part * 1000.0).floor() / 10.0),
        None => format!("{UNKNOWN:>6}"),
    };
    match bar {
        0 => percent,
        _ => format!("[{}{}] {percent}", "#".repeat(full), ".".repeat(bar - full)),
    }
}

/// Three digits and a unit, from a step of the unit before on.
fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut units = units.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    // What would be rounded up to a step is one.
    while step - 0.5 <= value {
        let Some(next) = units.next() else { break };
        (value, unit) = (value / step, *next);
    }
    let decimals = [(9.995, 2), (99.95, 1)].iter().find(|(below, _)| value < *below);
    format!("{value:.*}{unit}", decimals.map_or(0, |(_, decimals)| *decimals))
}

fn bytes(count: f64) -> String {
    match count < 1023.5 {
        true => format!("{count:.0} B"),
        false => scaled(count / 1024.0, 1024.0, &[" KiB", " MiB", " GiB", " TiB", " PiB"]),
    }
}

fn count(count: u64) -> String {
    match count < 100_000 {
        true => count.to_string(),
        false => scaled(count as f64 / 1000.0, 1000.0, &[" k", " M", " G", " T"]),
    }
}

/// `1:02`, `1:02:03`, `1d 02h`.
fn span(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours) {
        (0, 0) => format!("{minutes}:{:02}", seconds % 60),
        (0, _) => format!("{hours}:{:02}:{:02}", minutes % 60, seconds % 60),
        _ => format!("{days}d {:02}h", hours % 24),
    }
}

#[cfg(test)]
mod tests;
