//! What a scan will take of memory, before anything is read.
//!
//! Invariants
//!  - *no-less*: between two fills a scan holds no more than was said, while partitions lie evenly
//!    in the ring, but for the largest, and no row is as large as a step of reading.

use super::window::{ROOM_BEFORE, STEP_BYTES, WHOLE_BYTES};
use crate::compress::data::ReadFile;
use crate::table::Table;
use model::Token;

/// What a scan of so many bytes of a file in a row takes: what is loaded, what is on its way or
/// was, and where that has to be made of other bytes, these.
fn of_file(file: &ReadFile, bytes: u64) -> usize {
    let (bytes, most) = (bytes.min(file.len()), *STEP_BYTES.end());
    // Steps double: the last one is about half of all.
    let step = match bytes <= WHOLE_BYTES {
        true => bytes.max(1),
        false => (bytes.div_ceil(2) + STEP_BYTES.start()).clamp(WHOLE_BYTES, most),
    };
    let parts = if file.unit_bytes().is_some() { 3 } else { 2 };
    // It begins and ends within a unit, and behind what was left of the step before.
    let unit = file.unit_bytes().unwrap_or(0).max(runtime::io::ALIGNMENT as u64);
    let all = parts * (step + 2 * unit + ROOM_BEFORE as u64);
    debug_assert!(step < all, "no-less: {all} for steps of {step}");
    all as usize
}

/// Memory that a scan takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanBytes {
    /// Once it has come to its first partition, until it has passed it.
    pub begun: usize,
    /// While its partitions are read, at most.
    pub most: usize,
}

impl Table {
    /// What a scan of the partitions between two tokens, these included, takes.
    pub fn scan_bytes(&self, (first, last): (Token, Token)) -> ScanBytes {
        assert!(first <= last, "no-less: a scan from {first:?} to {last:?}");
        let (own_first, own_last) = (self.first_key().token, self.last_key().token);
        let (from, to) = (first.max(own_first), last.min(own_last));
        if to < from {
            return ScanBytes::default();
        }
        let span = |from: Token, to: Token| (i128::from(to.0) - i128::from(from.0) + 1) as f64;
        let part = span(from, to) / span(own_first, own_last);
        let even = (self.data_bytes() as f64 * part) as u64;
        let largest = self.stats().partition_sizes.largest();
        let bytes = even.saturating_mul(2).saturating_add(largest);
        let begun = of_file(&self.data, bytes.min(WHOLE_BYTES));
        ScanBytes { begun, most: of_file(&self.data, bytes).max(begun) }
    }
}
