//! The samples of one shard, as lines of text.

use super::Filter;
use super::relabel::{Fate, Label};
use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use stdx::HashSet;

/// What a value means over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Grows from the start of the node on.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How often what was measured was at most so much.
    Histogram,
    /// Values that parts of all that was measured do not exceed.
    Summary,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Summary => "summary",
        }
    }
}

/// Labels besides that of the shard, which stands before those whose names come after it; otherwise
/// in the order in which they are shown.
pub type Labels<'l> = &'l [(&'static str, &'l str)];

/// The bounds of a histogram's buckets, which ascend, with how many values were at most as great;
/// the sum of all values, and their number.
#[derive(Clone, Debug, PartialEq)]
pub struct Buckets {
    pub up_to: Vec<(f64, u64)>,
    pub sum: f64,
    pub count: u64,
}

/// A piece of text ends with the line that makes it so long: nothing larger is copied at once.
const PIECE_BYTES: usize = 64 << 10;

/// The samples of one name on one shard.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) kind: Kind,
    pub(super) help: &'static str,
    /// Their lines, in pieces.
    pub(super) pieces: Vec<String>,
}

impl Family {
    /// Where the next line goes.
    fn piece(&mut self) -> &mut String {
        if self.pieces.last().is_none_or(|piece| PIECE_BYTES <= piece.len()) {
            self.pieces.push(String::new());
        }
        let last = self.pieces.len() - 1;
        &mut self.pieces[last]
    }
}

/// The samples of one shard, or those of the node as a whole.
#[derive(Debug)]
pub struct Sheet {
    filter: Filter,
    shard: Option<String>,
    families: BTreeMap<&'static str, Family>,
    bounds: Bounds,
    /// Where rules change labels: the samples that there are, by name and labels (*still-apart*).
    taken: HashSet<(&'static str, String)>,
}

/// Bounds and parts as text: the same ones stand in every histogram or summary, and take long to be
/// written.
#[derive(Debug, Default)]
struct Bounds {
    bounds: BTreeMap<u64, String>,
    parts: BTreeMap<u64, String>,
}

impl Bounds {
    /// With six digits behind the point, as ScyllaDB has them: who asks for one bucket finds it.
    fn bound(&mut self, bound: f64) -> &str {
        self.bounds.entry(bound.to_bits()).or_insert_with(|| format!("{bound:.6}"))
    }

    fn part(&mut self, part: f64) -> &str {
        self.parts.entry(part.to_bits()).or_insert_with(|| part.to_string())
    }
}

impl Sheet {
    /// With a shard its samples have it as a label, where its name belongs among theirs: ScyllaDB's
    /// have their labels by name, and what was written for it may look for a comma before or after.
    pub fn new(filter: &Filter, shard: Option<u16>) -> Sheet {
        let shard = shard.map(|shard| shard.to_string());
        Sheet {
            filter: filter.clone(),
            shard,
            families: BTreeMap::new(),
            bounds: Bounds::default(),
            taken: HashSet::default(),
        }
    }

    /// What it lets in.
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Adds a counter.
    pub fn counter(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: Labels<'_>,
        value: u64,
    ) {
        self.push(Kind::Counter, (name, help), labels, value);
    }

    /// Adds a gauge that has whole values.
    pub fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: Labels<'_>,
        value: u64,
    ) {
        self.push(Kind::Gauge, (name, help), labels, value);
    }

    /// Adds a value.
    pub fn push(
        &mut self,
        kind: Kind,
        (name, help): (&'static str, &'static str),
        labels: Labels<'_>,
        value: impl Display,
    ) {
        let is_empty = || value.to_string().parse() == Ok(0.0);
        self.add(kind, (name, help), (labels, &is_empty), |lines, _| {
            lines.line("", None, &value);
        });
    }

    /// Adds a histogram.
    pub fn histogram(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: Labels<'_>,
        buckets: &Buckets,
    ) {
        let is_empty = || buckets.count == 0;
        self.add(Kind::Histogram, (name, help), (labels, &is_empty), |lines, bounds| {
            for (bound, count) in &buckets.up_to {
                lines.line("_bucket", Some(("le", bounds.bound(*bound))), count);
            }
            lines.line("_bucket", Some(("le", "+Inf")), &buckets.count);
            lines.line("_sum", None, &buckets.sum);
            lines.line("_count", None, &buckets.count);
        });
    }

    /// Adds a summary: values that these parts of all do not exceed, their sum and their number.
    pub fn summary(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: Labels<'_>,
        (quantiles, sum, count): (&[(f64, f64)], f64, u64),
    ) {
        self.add(Kind::Summary, (name, help), (labels, &|| count == 0), |lines, bounds| {
            for (part, value) in quantiles {
                lines.line("", Some(("quantile", bounds.part(*part))), value);
            }
            lines.line("_sum", None, &sum);
            lines.line("_count", None, &count);
        });
    }

    pub(super) fn into_families(self) -> BTreeMap<&'static str, Family> {
        self.families
    }

    /// Lets `put` write the lines of one sample, if it is wanted.
    fn add(
        &mut self,
        kind: Kind,
        (name, help): (&'static str, &'static str),
        (labels, is_empty): (Labels<'_>, &dyn Fn() -> bool),
        put: impl FnOnce(&mut Lines<'_>, &mut Bounds),
    ) {
        if !self.filter.wants(name) {
            return;
        }
        let shard = self.shard.iter().map(|shard| ("shard", shard.as_str()));
        let before = labels.iter().copied().filter(|(label, _)| *label < "shard");
        let after = labels.iter().copied().filter(|(label, _)| "shard" < *label);
        let all = before.chain(shard).chain(after);
        for (label, _) in labels {
            debug_assert!(super::LABELS.contains(label), "{label} of {name} is no known label");
        }
        let shown = if self.filter.rules().is_empty() {
            if !self.filter.passes(all.clone()) {
                return;
            }
            listed(all)
        } else {
            let own: Vec<Label> =
                all.map(|(label, value)| (label.to_owned(), value.to_owned())).collect();
            let Some(shown) = self.relabelled(name, own, is_empty) else { return };
            shown
        };
        let new = Family { kind, help, pieces: Vec::new() };
        let family = self.families.entry(name).or_insert(new);
        let prefix = self.filter.prefix();
        let mut lines = Lines { out: family.piece(), prefix, name, labels: shown };
        put(&mut lines, &mut self.bounds);
    }

    /// What the labels of a sample become by the rules; `None`: it is not shown.
    fn relabelled(
        &mut self,
        name: &'static str,
        own: Vec<Label>,
        is_empty: &dyn Fn() -> bool,
    ) -> Option<String> {
        let mut labels = own.clone();
        let Fate { is_shown, when_empty } = self.filter.rules().apply(name, &mut labels);
        if !is_shown || (!when_empty && is_empty()) {
            return None;
        }
        for labels in [labels, own] {
            let shown = listed(pairs(&labels));
            if self.taken.insert((name, shown.clone())) {
                return self.filter.passes(pairs(&labels)).then_some(shown);
            }
        }
        None
    }
}

/// Labels as the format wants them.
fn listed<'l>(labels: impl Iterator<Item = (&'l str, &'l str)>) -> String {
    let mut shown = String::new();
    for (label, value) in labels {
        shown.push_str(if shown.is_empty() { "" } else { "," });
        shown.push_str(label);
        shown.push_str("=\"");
        escape(&mut shown, value);
        shown.push('"');
    }
    shown
}

fn pairs(labels: &[Label]) -> impl Iterator<Item = (&str, &str)> + Clone {
    labels.iter().map(|(label, value)| (label.as_str(), value.as_str()))
}

/// Writes the lines of one sample.
struct Lines<'s> {
    out: &'s mut String,
    prefix: &'s str,
    name: &'static str,
    labels: String,
}

impl Lines<'_> {
    /// Writes one line: what follows the name, a label of its own, its value.
    fn line(&mut self, tail: &str, own: Option<(&str, &str)>, value: &dyn Display) {
        let Lines { out, prefix, name, labels } = self;
        [prefix, "_", name, tail].into_iter().for_each(|text| out.push_str(text));
        if !labels.is_empty() || own.is_some() {
            out.push('{');
            out.push_str(labels);
            if let Some((label, of)) = own {
                let comma = if labels.is_empty() { "" } else { "," };
                [comma, label, "=\"", of, "\""].into_iter().for_each(|text| out.push_str(text));
            }
            out.push('}');
        }
        // Writing to a string cannot fail.
        let _ = writeln!(out, " {value}");
    }
}

/// A value of a label as the format wants it.
fn escape(out: &mut String, value: &str) {
    for letter in value.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            letter => out.push(letter),
        }
    }
}
