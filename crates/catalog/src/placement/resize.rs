//! When a table gets twice or half as many tablets: by what it holds, and by what is said of it.
//! Pure.
//!
//! A step at a time: when one is made, the next one follows from what there is then.
//!
//! Invariants
//!  - *to-the-target*: a table whose tablets are larger than twice the target, on average, gets
//!    more of them, and one whose tablets are smaller than half of it fewer.
//!  - *no-way-back*: what made a step does not make the one back: a table that was split is merged
//!    only when it has lost half of what it held then, and one that was merged is split only when
//!    it has grown to twice as much.
//!  - *spread*: a table of which one tablet gets more requests than a shard should gets more of
//!    them, up to [`FOR_HEAT_MAX`] times what a new one has, and is not merged while two of them
//!    together would get more than a shard has on average.
//!  - *as-said*: never more than is said, nor fewer; where nobody says it, no fewer than a new
//!    table would have.

use super::balance::Heat;
use super::tablets::{Counts, Resize};

/// A table is not split for requests when it has so many times the tablets that a new one would
/// have: a single partition that is hot stays so in however small a tablet.
const FOR_HEAT_MAX: u32 = 8;

/// What a decision goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holds {
    /// Bytes of a tablet, on average; `None`: not known.
    pub average: Option<u64>,
    /// Whether it was to be merged when it was looked at before: its tablets may be on their way
    /// to each other.
    pub merges: bool,
    /// Whether its tablets get more requests than a shard should.
    pub heat: Heat,
}

/// What a table with so many tablets needs; `target`: bytes that a tablet should have.
pub fn wanted(present: u32, counts: Counts, holds: Holds, target: u64) -> Option<Resize> {
    assert!(0 < present && 0 < target, "to-the-target: {present} tablets of {target} bytes");
    let Counts { asked, least, most } = counts;
    assert!(asked <= least && least <= most, "as-said: {counts:?}");
    let may_merge = present.is_multiple_of(2);
    if most < present {
        return may_merge.then_some(Resize::Merge);
    }
    let may_split = present <= most / 2;
    if present < asked {
        return may_split.then_some(Resize::Split);
    }
    if holds.heat == Heat::Hot && may_split && present < least.saturating_mul(FOR_HEAT_MAX) {
        return Some(Resize::Split);
    }
    let may_merge = may_merge && holds.heat == Heat::Cold;
    let average = holds.average?;
    let small = if holds.merges { target } else { target / 2 };
    if target.saturating_mul(2) < average {
        return may_split.then_some(Resize::Split);
    }
    (average < small && may_merge && least <= present / 2).then_some(Resize::Merge)
}

#[cfg(test)]
mod tests;
