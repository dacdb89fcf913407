//! What follows from what replicas have told of their parts of a range: how far they agree, which
//! units have to be fetched from whom, and what each of them lacks. Pure.
//!
//! Invariants
//!  - *first-edge*: what is compared ends where the first buffer does: behind it somebody has not
//!    read yet.
//!  - *fetched-once*: a unit is fetched from one replica, the first that has it, and never where
//!    who asks has it.
//!  - *brought-up*: a replica that takes in what it lacks has all that any of them has.
//!  - *only-what-differs*: what all replicas have is sent to nobody; of a row that two have in two
//!    versions each is sent what the other has beyond it.

use super::buffer::Told;
use super::unit::{Edge, Hashing, Planted, Unit, compare_edges, short};
use crate::reconcile;
use model::{DecoratedKey, TableSchema};
use mutation::{FrozenMutation, MutationBuilder};
use std::collections::BTreeMap;
use stdx::{HashMap, HashSet};

/// What is to be done after all have told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// All have the same to the end.
    Done,
    /// All have the same up to here.
    Same(Edge),
    /// They are to be compared up to here; `None`: to the end.
    Compare(Option<Edge>),
}

/// See [`Step`]. Somebody has told.
pub fn step(schema: &TableSchema, told: &[Told], hashing: &Hashing) -> Step {
    let (first, others) = told.split_first().expect("first-edge: nobody has told");
    if others.iter().all(|other| other == first) {
        return match &first.reached {
            Some(edge) => Step::Same(edge.clone()),
            None => Step::Done,
        };
    }
    if hashing.is_planted(Planted::TakesOneEdge) {
        return Step::Compare(first.reached.clone());
    }
    let edges = told.iter().map(|one| one.reached.as_ref());
    let least = edges.min_by(|a, b| compare_edges(schema, *a, *b)).flatten();
    debug_assert!(
        told.iter().all(|one| compare_edges(schema, least, one.reached.as_ref()).is_le()),
        "first-edge: {least:?} is behind one of {told:?}"
    );
    Step::Compare(least.cloned())
}

/// What replicas have up to an edge, as whoever asks comes to know it.
pub struct Comparison {
    /// What is known, by hash.
    known: HashMap<u64, Unit>,
    /// What each replica has; the first is who asks.
    replicas: Vec<HashSet<u64>>,
    planted_keeps: bool,
}

impl Comparison {
    /// Of who asks.
    pub fn new(own: Vec<Unit>, hashing: &Hashing) -> Comparison {
        let replicas = vec![own.iter().map(Unit::short).collect()];
        let in_order = own.is_sorted_by(|a, b| a.key <= b.key);
        debug_assert!(in_order, "first-edge: what is compared is in no order");
        let known = own.into_iter().map(|unit| (unit.short(), unit)).collect();
        let planted_keeps = hashing.is_planted(Planted::KeepsFetched);
        Comparison { known, replicas, planted_keeps }
    }

    /// Another one has the same as who asks.
    pub fn add_same(&mut self) {
        let own = self.replicas[0].clone();
        let all_known = own.iter().all(|hash| self.known.contains_key(hash));
        debug_assert!(all_known, "fetched-once: something is not known");
        self.replicas.push(own);
    }

    /// Another one has these. The places in its list of those that have to be fetched from it.
    pub fn add(&mut self, list: &[u64]) -> Vec<u32> {
        let mut seen = HashSet::default();
        let wanted = list.iter().zip(0u32..).filter(|(hash, _)| seen.insert(**hash));
        let wanted = wanted.filter(|(hash, _)| !self.known.contains_key(*hash));
        let wanted: Vec<u32> = wanted.map(|(_, place)| place).collect();
        self.replicas.push(seen);
        debug_assert!(wanted.is_sorted_by(|a, b| a < b), "fetched-once: {wanted:?}");
        wanted
    }

    /// What was fetched from the last one that was added, for these of its list: all of it, and
    /// nothing else; no otherwise.
    pub fn fetched(&mut self, list: &[u64], wanted: &[u32], units: Vec<Unit>) -> bool {
        let mut missing: HashSet<u64> =
            wanted.iter().filter_map(|place| list.get(*place as usize).copied()).collect();
        let is_wanted = units.iter().all(|unit| missing.remove(&short(unit.hash)));
        if !is_wanted || !missing.is_empty() {
            return false;
        }
        self.known.extend(units.into_iter().map(|unit| (unit.short(), unit)));
        debug_assert!(
            list.iter().all(|hash| self.known.contains_key(hash)),
            "fetched-once: something is not known"
        );
        true
    }

    /// What each replica lacks, by partition.
    pub fn repairs(self, schema: &TableSchema) -> Vec<Vec<FrozenMutation>> {
        let count = self.replicas.len();
        let mut partitions: BTreeMap<DecoratedKey, Vec<MutationBuilder<'_>>> = BTreeMap::new();
        for (hash, unit) in &self.known {
            let having = self.replicas.iter().filter(|replica| replica.contains(hash)).count();
            assert!(0 < having, "brought-up: nobody has {unit:?}");
            if having == count || (self.planted_keeps && !self.replicas[0].contains(hash)) {
                continue;
            }
            let new = || vec![MutationBuilder::new(schema, &unit.key.key); count];
            let parts = partitions.entry(unit.key.clone()).or_insert_with(new);
            for (part, replica) in parts.iter_mut().zip(&self.replicas) {
                if replica.contains(hash) {
                    unit.add_to(part);
                }
            }
        }
        let mut repairs = vec![Vec::new(); count];
        debug_assert!(1 < count || partitions.is_empty(), "only-what-differs: from nobody");
        for (key, parts) in partitions {
            let freeze = |part: MutationBuilder<'_>| (!part.is_empty()).then(|| part.freeze());
            let parts: Vec<Option<FrozenMutation>> = parts.into_iter().map(freeze).collect();
            let Some(all) = reconcile::unite(schema, &parts) else { continue };
            for (repair, own) in repairs.iter_mut().zip(&parts) {
                repair.extend(reconcile::lacking(schema, &key, &all, own.as_ref()));
            }
        }
        repairs
    }
}

/// Mutations of some units: one for each partition, in their order.
pub fn mutations_of<'u>(
    schema: &TableSchema,
    units: impl Iterator<Item = &'u Unit>,
) -> Vec<FrozenMutation> {
    let mut out = Vec::new();
    let mut open: Option<(&DecoratedKey, MutationBuilder<'_>)> = None;
    for unit in units {
        match &mut open {
            Some((key, builder)) if **key == unit.key => unit.add_to(builder),
            _ => {
                let mut builder = MutationBuilder::new(schema, &unit.key.key);
                unit.add_to(&mut builder);
                let before = open.replace((&unit.key, builder));
                out.extend(before.map(|(_, builder)| builder.freeze()));
            }
        }
    }
    out.extend(open.map(|(_, builder)| builder.freeze()));
    debug_assert!(out.iter().all(|one| !one.0.is_empty()), "only-what-differs: of nothing");
    out
}
