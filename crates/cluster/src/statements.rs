//! The cost of statements, grouped by their form (fingerprint): the text without its literals.
//!
//! Lives on: every shard, in `runtime::local`. The query processor records here while
//! [`TraceRules::counts`] says so; the console reads. Otherwise nothing is recorded, and a
//! request pays for no more than the one flag that it reads for all rules.
//!
//! Invariants
//!  - *in-one-bucket*: every statement of a form is counted in one bucket of its histogram.
//!  - *bounded*: [`FORMS_MAX`] forms of [`FORM_BYTES_MAX`] bytes each on a shard. Where there is
//!    no room the form that took the least time goes into [`OTHERS`], so that shares stay right.

use crate::trace_rules::TraceRules;
use runtime::Erased;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::histogram::{BUCKETS, bucket_of, bucket_start};

/// Forms that a shard keeps apart.
pub const FORMS_MAX: usize = 256;
/// Longer texts are cut.
pub const FORM_BYTES_MAX: usize = 1024;
/// The form of all that there was no room for.
pub const OTHERS: &str = "(other statements)";

const _: () = assert!(OTHERS.len() <= FORM_BYTES_MAX, "the others have a form like any");
const _: () = assert!(BUCKETS <= u16::MAX as usize, "buckets are numbered by u16");

/// What statements of one form took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    pub count: u64,
    /// Rows that were answered.
    pub rows: u64,
    pub nanos: u64,
    pub nanos_max: u64,
    /// How often each bucket of [`stdx::histogram`] was met that was met at all.
    buckets: BTreeMap<u16, u64>,
}

impl Cost {
    const NONE: Cost = Cost { count: 0, rows: 0, nanos: 0, nanos_max: 0, buckets: BTreeMap::new() };

    /// Asserts that every statement is in one bucket.
    fn check(&self) {
        let counted: u64 = self.buckets.values().sum();
        debug_assert!(counted == self.count, "in-one-bucket: {counted} of {}", self.count);
        debug_assert!(self.nanos_max <= self.nanos, "in-one-bucket: {} at most", self.nanos_max);
        let highest = self.buckets.last_key_value().map_or(0, |(bucket, _)| usize::from(*bucket));
        debug_assert!(highest < BUCKETS, "in-one-bucket: there is no bucket {highest}");
    }

    fn record(&mut self, nanos: u64, rows: u64) {
        self.count += 1;
        self.rows += rows;
        self.nanos = self.nanos.saturating_add(nanos);
        self.nanos_max = self.nanos_max.max(nanos);
        *self.buckets.entry(bucket_of(nanos) as u16).or_default() += 1;
        if cfg!(debug_assertions) {
            self.check();
        }
    }

    /// With that of another shard or form.
    pub fn merge(&mut self, other: &Cost) {
        self.count += other.count;
        self.rows += other.rows;
        self.nanos = self.nanos.saturating_add(other.nanos);
        self.nanos_max = self.nanos_max.max(other.nanos_max);
        for (bucket, count) in &other.buckets {
            *self.buckets.entry(*bucket).or_default() += count;
        }
        if cfg!(debug_assertions) {
            self.check();
        }
    }

    /// The time that this part of all did not exceed, to an eighth of an octave; 0: nothing was
    /// recorded.
    pub fn quantile(&self, part: f64) -> u64 {
        debug_assert!((0.0..=1.0).contains(&part), "a part of {part}");
        let rank = (part * self.count as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        for (bucket, count) in &self.buckets {
            below += count;
            if rank <= below {
                let end = bucket_start(usize::from(*bucket).min(BUCKETS - 1) + 1);
                return end.min(self.nanos_max);
            }
        }
        self.nanos_max
    }
}

/// The forms of a shard.
#[derive(Debug, Default)]
pub struct Statements {
    forms: RefCell<BTreeMap<String, Cost>>,
}

impl Statements {
    /// Those of this shard.
    pub fn of_shard() -> Rc<Statements> {
        runtime::local::get_or_default()
    }

    /// Records a statement that was answered.
    pub fn record(&self, form: &str, nanos: u64, rows: u64) {
        let form = &form[..form.floor_char_boundary(FORM_BYTES_MAX)];
        debug_assert!(form != OTHERS, "bounded: a statement that is all others");
        let mut forms = self.forms.borrow_mut();
        if let Some(cost) = forms.get_mut(form) {
            return cost.record(nanos, rows);
        }
        if FORMS_MAX <= forms.len() {
            let costs = forms.iter().filter(|(form, _)| *form != OTHERS);
            let least = costs.min_by_key(|(_, cost)| cost.nanos).map(|(form, _)| form.clone());
            if let Some(cost) = least.and_then(|form| forms.remove(&form)) {
                forms.entry(OTHERS.to_owned()).or_insert(Cost::NONE).merge(&cost);
            }
        }
        forms.entry(form.to_owned()).or_insert(Cost::NONE).record(nanos, rows);
        assert!(forms.len() <= FORMS_MAX + 1, "bounded: {} forms", forms.len());
    }

    fn told(&self) -> Vec<(String, Cost)> {
        self.forms.borrow().iter().map(|(form, cost)| (form.clone(), cost.clone())).collect()
    }
}

/// Begins or ends recording on all shards. What was recorded stays; a beginning forgets it.
pub fn record_on_node(wanted: bool) -> Erased<'static, ()> {
    Erased::new(move || async move {
        runtime::on_all_shards(move || async move {
            let rules = TraceRules::of_shard();
            if wanted && !rules.counts() {
                Statements::of_shard().forms.borrow_mut().clear();
            }
            rules.set_counts(wanted);
        })
        .await;
    })
}

/// The forms of all shards together, those first that took most time.
pub fn of_node() -> Erased<'static, Vec<(String, Cost)>> {
    Erased::new(move || async move {
        let shards = runtime::on_all_shards(|| async { Statements::of_shard().told() }).await;
        let mut all: BTreeMap<String, Cost> = BTreeMap::new();
        for (form, cost) in shards.into_iter().flatten() {
            all.entry(form).or_insert(Cost::NONE).merge(&cost);
        }
        let mut all: Vec<(String, Cost)> = all.into_iter().collect();
        all.sort_by_key(|(_, cost)| std::cmp::Reverse(cost.nanos));
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_add_up_by_form() {
        let statements = Statements::default();
        for micros in 1..=100 {
            statements.record("SELECT ?", micros * 1_000, 2);
        }
        statements.record("INSERT ?", 7_000, 0);
        let told = statements.told();
        assert_eq!(told.len(), 2);
        let (form, cost) = &told[1];
        assert_eq!((form.as_str(), cost.count, cost.rows), ("SELECT ?", 100, 200));
        assert_eq!((cost.nanos, cost.nanos_max), (5_050_000, 100_000));
        let within = |part, exact: u64| {
            let found = cost.quantile(part);
            assert!(exact <= found && found <= exact + exact / 8 + 256, "{part}: {found}");
        };
        within(0.5, 50_000);
        within(0.99, 99_000);
        assert_eq!(cost.quantile(1.0), 100_000);
        assert_eq!(Cost::NONE.quantile(0.5), 0);
    }

    #[test]
    fn forms_are_bounded_and_nothing_is_lost() {
        let statements = Statements::default();
        statements.record("dear", 1_000_000_000, 1);
        for number in 0..3 * FORMS_MAX {
            statements.record(&format!("form {number}"), 1_000, 1);
        }
        let told = statements.told();
        assert!(told.len() <= FORMS_MAX + 1, "bounded: {}", told.len());
        assert!(told.iter().any(|(form, _)| form == "dear") && told[0].0 == OTHERS);
        let count: u64 = told.iter().map(|(_, cost)| cost.count).sum();
        assert_eq!(count, 3 * FORMS_MAX as u64 + 1);
        statements.record(&"\u{e9}".repeat(FORM_BYTES_MAX), 1, 1);
        let longest = statements.told().iter().map(|(form, _)| form.len()).max();
        assert_eq!(longest, Some(FORM_BYTES_MAX));
    }

    #[test]
    fn shards_are_told_together_and_recording_begins_anew() {
        let mut node = testkit::SimNode::new(1, 2);
        node.run(async {
            record_on_node(true).await;
            runtime::on_all_shards(|| async {
                assert!(TraceRules::of_shard().any(), "a request is timed");
                Statements::of_shard().record("a", 10, 1);
            })
            .await;
            Statements::of_shard().record("b", 1_000, 1);
            let told = of_node().await;
            assert_eq!((told[0].0.as_str(), told[1].1.count), ("b", 2));
            record_on_node(false).await;
            assert!(!TraceRules::of_shard().any());
            assert_eq!(of_node().await.len(), 2, "what was recorded stays");
            record_on_node(true).await;
            assert!(of_node().await.is_empty());
        });
    }
}
