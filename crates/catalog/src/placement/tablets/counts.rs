//! How many tablets a table gets, and how many it may have. Pure.
//!
//! Invariants: *powers-of-two* of [`super`].

use super::{Asked, Here, TABLETS_MAX};
use crate::placement::ring::{Ring, Want, Wants};
use crate::topology::Topology;

/// How large a tablet should be, GiB, by which a table gets its first ones.
const TARGET_GIB: u32 = 5;

/// How many tablets a table may have; powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// What is said of it asks for so many; 1: nothing is said.
    pub asked: u32,
    /// What a new table of that kind would have.
    pub least: u32,
    pub most: u32,
}

/// How many tablets a table may have on these nodes.
pub fn counts(asked: &Asked<'_>, topology: &Topology, here: Here) -> Counts {
    let shares = match topology.present().next() {
        None => vec![f64::from(here.shards)],
        Some(_) => {
            let ring = Ring::settled(topology);
            shares(&ring, &ring.wants(asked.replication))
        }
    };
    let most = said_most(asked);
    let counts = Counts {
        asked: rounded(said_least(asked, &shares)).min(most),
        least: count(asked, &shares),
        most,
    };
    debug_assert!(counts.asked <= counts.least, "powers-of-two: {counts:?}");
    counts
}

fn hint(asked: &Asked<'_>, name: &str) -> Option<f64> {
    let (_, value) = asked.hints.iter().find(|(known, _)| known == name)?;
    value.parse::<f64>().ok().filter(|value| value.is_finite() && 0.0 < *value)
}

/// So many tablets for each shard.
fn per_shard(shares: &[f64], scale: f64) -> f64 {
    shares.iter().map(|share| scale * share).fold(1.0, f64::max)
}

/// The greatest of what is said; 0: nothing is.
fn said_least(asked: &Asked<'_>, shares: &[f64]) -> f64 {
    let said = [
        asked.keyspace.initial_tablets.filter(|count| 0 < *count).map(f64::from),
        hint(asked, "min_tablet_count"),
        hint(asked, "expected_data_size_in_gb").map(|size| size / f64::from(TARGET_GIB)),
        hint(asked, "min_per_shard_tablet_count").map(|scale| per_shard(shares, scale)),
    ];
    said.into_iter().flatten().fold(0.0, f64::max)
}

fn said_most(asked: &Asked<'_>) -> u32 {
    let most = hint(asked, "max_tablet_count").unwrap_or(f64::from(TABLETS_MAX));
    let most = most.min(f64::from(TABLETS_MAX)).ceil() as u32;
    let most = (most + 1).next_power_of_two() / 2;
    assert!((1..=TABLETS_MAX).contains(&most), "powers-of-two: {most} at most");
    most
}

/// Up to a power of two.
fn rounded(wanted: f64) -> u32 {
    debug_assert!(!wanted.is_nan(), "powers-of-two: so many tablets as nobody knows");
    (wanted.min(f64::from(TABLETS_MAX)).ceil() as u32).max(1).next_power_of_two()
}

/// The number of tablets: the greatest of what is said, or else so many for each shard.
pub(super) fn count(asked: &Asked<'_>, shares: &[f64]) -> u32 {
    assert!(asked.scale.is_finite() && 0.0 < asked.scale, "powers-of-two: {} a shard", asked.scale);
    let said = said_least(asked, shares);
    let wanted = if 0.0 < said { said } else { per_shard(shares, asked.scale) };
    let count = rounded(wanted).min(said_most(asked));
    assert!(count.is_power_of_two(), "powers-of-two: {count} tablets");
    assert!(count <= TABLETS_MAX, "powers-of-two: {count} tablets are too many");
    count
}

/// The shards for each replica of a tablet, in the parts of the cluster that have any.
pub(super) fn shares(ring: &Ring, wants: &Wants) -> Vec<f64> {
    let share = |(shards, copies): (u64, usize)| shards as f64 / copies as f64;
    let parts = match wants {
        Wants::Anywhere(copies) => {
            let shards = ring.members().iter().map(|member| u64::from(member.shards)).sum();
            vec![(shards, *copies)]
        }
        Wants::Per(centers) => {
            let shards = |(center, want): (usize, &Want)| (ring.shards_in(center), want.copies);
            centers.iter().enumerate().map(shards).collect()
        }
    };
    let found: Vec<f64> = parts.into_iter().filter(|(_, copies)| 0 < *copies).map(share).collect();
    match found.is_empty() {
        // As if there were one of each, for nodes that are to come.
        true => vec![ring.members().iter().map(|member| f64::from(member.shards)).sum()],
        false => found,
    }
}
