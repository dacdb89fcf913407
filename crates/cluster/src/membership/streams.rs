//! The streams of the ring are made by the leader of the group, when the ring is another one than
//! theirs.
//!
//! Invariants
//!  - *known-before-used*: a set of streams is decided so long before it is in use that all nodes
//!    know of it by then.
//!  - *one-hand*: only the leader makes one, for the ring that it shows.
//!
//! A node that does not hear of it until then, as it is cut off, still writes to the set before:
//! who reads the log waits for late writes, but not for ever.

use super::Membership;
use crate::schema::Catalog;
use catalog::features;
use catalog::placement::Ring;
use catalog::placement::streams::{Making, is_of_ring};
use catalog::streams::{StreamSet, Streams};
use catalog::{Topology, TopologyChange};
use model::schema::cdc::{AHEAD_MICROS, CdcOptions};
use runtime::task::yield_now;
use std::sync::Arc;

/// Between the decision about a set and its use, where there is one before.
const AHEAD_MILLIS: i64 = 60_000;
/// A set that is over is known for so long at least.
const KEPT_MILLIS: i64 = 86_400_000;

/// Whether the ring is to have other streams.
pub(super) fn are_due(topology: &Topology) -> bool {
    if !topology.enables(features::CDC) {
        return false;
    }
    let ring = Ring::new(topology);
    let last = topology.streams().sets().last();
    debug_assert!(ring.points().len() <= ring.members().len() << 20, "one-hand: a ring of points");
    !ring.points().is_empty() && !last.is_some_and(|set| is_of_ring(set, &ring))
}

/// When a set that is made now is in use, in milliseconds.
fn since(known: &Streams, now_micros: i64) -> i64 {
    match known.sets().last() {
        // There are none that others could go by, and clients whose clocks lag a little.
        None => (now_micros - AHEAD_MICROS).max(0) / 1000,
        Some(last) => (now_micros / 1000 + AHEAD_MILLIS).max(last.since_millis() + 1),
    }
}

/// For how long before now sets are known that are over: as long as a log has rows of them.
fn kept_millis(catalog: &Catalog) -> i64 {
    let logs = catalog.schema.tables().filter(|it| it.log.is_some() && it.replicas.is_empty());
    let ttl =
        logs.filter_map(|table| CdcOptions::of(&table.schema.options)).map(|options| match options
            .ttl_secs
        {
            0 => i64::MAX,
            secs => i64::from(secs) * 1000,
        });
    let kept = ttl.max().unwrap_or(0).max(KEPT_MILLIS);
    assert!(KEPT_MILLIS <= kept, "known-before-used: sets are kept for {kept} ms");
    kept
}

/// The streams after such a set came, if it is one of that ring still.
fn with(catalog: &Catalog, set: &StreamSet, now_micros: i64) -> Option<Streams> {
    let (topology, known) = (&catalog.topology, catalog.topology.streams());
    if !are_due(topology) || !is_of_ring(set, &Ring::new(topology)) {
        return None;
    }
    let set = set.clone().since(since(known, now_micros));
    let kept_since = (now_micros / 1000).saturating_sub(kept_millis(catalog));
    Some(known.with(set, kept_since))
}

impl Membership {
    /// Makes streams for the ring, if it needs any: another leader may have made them since that
    /// was asked. Where that fails it is tried again.
    pub(super) async fn make_streams(&self) {
        let topology = self.cluster.topology();
        if !are_due(&topology) {
            return;
        }
        let ring = Ring::new(&topology);
        debug_assert!(!ring.points().is_empty(), "one-hand: a ring of nobody");
        let mut making = Making::new(&ring, runtime::random_u64());
        while making.step(&ring) {
            yield_now().await;
        }
        let set = making.finish(0);
        let count = set.streams().len();
        let decide = move |catalog: &Catalog| {
            let next = with(catalog, &set, runtime::time::wall_micros());
            Ok(next.map(|next| TopologyChange::Streams(Arc::new(next))).into_iter().collect())
        };
        match self.cluster.change_topology(decide).await {
            Ok(()) => tracing::info!(target: "membership", "the ring has {count} streams of CDC"),
            Err(why) => {
                tracing::warn!(target: "membership", "streams of CDC cannot be made: {why}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::topology::testing::{member, topology};

    fn with_cdc(number: u8, tokens: &[i64]) -> catalog::Member {
        let features = [features::CDC.to_owned()].into();
        catalog::Member { features, ..member(number, ("dc1", "r1"), tokens) }
    }

    fn made(topology: &Topology) -> StreamSet {
        let ring = Ring::new(topology);
        let mut making = Making::new(&ring, 1);
        while making.step(&ring) {}
        making.finish(0)
    }

    fn catalog(topology: &Topology) -> Catalog {
        let schema = crate::schema::Schema::of_system(model::Uuid::nil(), 1);
        let topology = Arc::new(topology.clone());
        Catalog { schema: schema.into(), access: auth::State::default(), topology }
    }

    #[test]
    fn a_set_is_known_before_it_is_used() {
        let old = topology(&[with_cdc(1, &[5])]);
        assert!(!are_due(&old), "not all nodes know of streams");
        let one = old.apply(&TopologyChange::Enable(features::CDC.to_owned()));
        assert!(are_due(&one));
        let set = made(&one);
        let micros = 1_000_000_000_000;
        let streams = with(&catalog(&one), &set, micros).expect("the first ones");
        // The first one at once, and for who is late.
        assert_eq!(streams.sets()[0].since_millis(), 999_995_000);
        let one = one.apply(&TopologyChange::Streams(Arc::new(streams)));
        assert!(!are_due(&one));
        assert_eq!(with(&catalog(&one), &set, micros), None);
        // Another node: another set, a minute later; and not that of the ring before.
        let two = one.apply(&TopologyChange::Set(with_cdc(2, &[6])));
        assert!(are_due(&two));
        assert_eq!(with(&catalog(&two), &set, micros), None);
        let streams = with(&catalog(&two), &made(&two), micros).expect("the next ones");
        let since: Vec<i64> = streams.sets().iter().map(|it| it.since_millis()).collect();
        assert_eq!(since, [999_995_000, 1_000_060_000]);
        // Two days later only those in use are known.
        let two = two.apply(&TopologyChange::Streams(Arc::new(streams)));
        let three = two.apply(&TopologyChange::Set(with_cdc(3, &[7])));
        let later = micros + 2 * 1000 * KEPT_MILLIS;
        let streams = with(&catalog(&three), &made(&three), later).expect("the last ones");
        let since: Vec<i64> = streams.sets().iter().map(|it| it.since_millis()).collect();
        assert_eq!(since, [1_000_060_000, later / 1000 + AHEAD_MILLIS]);
    }
}
