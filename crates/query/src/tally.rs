//! Counts of executed statements on a shard, for metrics.
//!
//! A statement counts when it has been answered; one that is refused or fails does not, except
//! for what it has read by then.

use cluster::traffic::Count;
use plan::modify::{ModifyPlan, Verb};
use plan::select::SelectPlan;
use syntax::ast::BatchKind;

/// By whether something holds: what does not, what does.
type Either = [Count; 2];

fn add(counts: &Either, holds: bool, some: u64) {
    counts[usize::from(holds)].add(some);
}

fn sum(counts: &Either) -> u64 {
    counts.iter().map(Count::get).sum()
}

/// The statements of one shard. Pairs of counts are those of users' tables and those of the
/// system's, unless they say otherwise.
#[derive(Debug, Default)]
pub struct Tally {
    reads: Either,
    /// By verb and by whether they are conditional.
    writes: [[Either; 2]; Verb::ALL.len()],
    /// By whether they are conditional.
    batches: Either,
    /// As `batches`.
    batched: Either,
    unpaged: Either,
    /// Batches that were asked to be logged.
    pub logged_batches: Count,
    /// Batches that were not, counters' included.
    pub unlogged_batches: Count,
    /// Rows of answers.
    pub rows_read: Count,
    /// Reads whose rows had to pass filters.
    pub filtered_reads: Count,
    /// Rows that filters have seen.
    pub filtered_rows: Count,
    /// Rows that passed them.
    pub matched_rows: Count,
    /// Reads that said `BYPASS CACHE`.
    pub bypass_cache: Count,
    /// Reads that said `ALLOW FILTERING`.
    pub allow_filtering: Count,
    /// Reads of token ranges.
    pub range_scans: Count,
    /// Those that went through the cache.
    pub range_scans_through_cache: Count,
    /// Reads in reverse order.
    pub reverse: Count,
    /// Statements prepared.
    pub prepared: Count,
}

impl Tally {
    /// Reads of tables of users, or of the system.
    pub fn reads(&self, of_system: bool) -> u64 {
        self.reads[usize::from(of_system)].get()
    }

    /// Writes that are, or are not, conditional.
    pub fn writes(&self, verb: Verb, conditional: bool, of_system: bool) -> u64 {
        self.writes[verb as usize][usize::from(conditional)][usize::from(of_system)].get()
    }

    /// Batches that are, or are not, conditional.
    pub fn batches(&self, conditional: bool) -> u64 {
        self.batches[usize::from(conditional)].get()
    }

    /// Statements in them.
    pub fn batched(&self, conditional: bool) -> u64 {
        self.batched[usize::from(conditional)].get()
    }

    /// Reads without pages, of tables of users or of the system.
    pub fn unpaged(&self, of_system: bool) -> u64 {
        self.unpaged[usize::from(of_system)].get()
    }

    /// All statements.
    pub fn statements(&self) -> u64 {
        let writes: u64 = self.writes.iter().flatten().map(sum).sum();
        sum(&self.reads) + writes + sum(&self.batches)
    }

    /// A read has been answered with so many rows; `unpaged`: all that there are.
    #[inline]
    pub(crate) fn count_read(&self, plan: &SelectPlan, rows: u32, unpaged: bool) {
        add(&self.reads, plan.of_system, 1);
        self.rows_read.add(rows.into());
        if unpaged {
            add(&self.unpaged, plan.of_system, 1);
        }
        if plan.is_plain {
            return;
        }
        let marks = [
            (plan.is_filtered(), &self.filtered_reads),
            (plan.bypass_cache, &self.bypass_cache),
            (plan.allow_filtering, &self.allow_filtering),
            (plan.reads_ranges(), &self.range_scans),
            (plan.reads_ranges() && !plan.bypass_cache, &self.range_scans_through_cache),
            (plan.is_reversed(), &self.reverse),
        ];
        marks.iter().for_each(|(holds, count)| count.add((*holds).into()));
    }

    /// A write has been answered.
    #[inline]
    pub(crate) fn count_write(&self, plan: &ModifyPlan) {
        let counts = &self.writes[plan.verb as usize][usize::from(plan.is_conditional())];
        add(counts, plan.of_system, 1);
    }

    /// A batch has been answered.
    pub(crate) fn count_batch<'p>(
        &self,
        kind: BatchKind,
        mut plans: impl ExactSizeIterator<Item = &'p ModifyPlan>,
    ) {
        let count = plans.len() as u64;
        let conditional = plans.any(ModifyPlan::is_conditional);
        add(&self.batches, conditional, 1);
        add(&self.batched, conditional, count);
        match kind {
            BatchKind::Logged => self.logged_batches.add(1),
            BatchKind::Unlogged | BatchKind::Counter => self.unlogged_batches.add(1),
        }
    }

    /// A filter has seen a row.
    pub(crate) fn count_filtered(&self, passes: bool) {
        self.filtered_rows.add(1);
        self.matched_rows.add(passes.into());
    }
}
