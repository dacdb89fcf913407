//! Replicas in memory, which are repaired by the decisions alone.

use super::buffer::{Buffer, Told};
use super::decide::{Comparison, Step, mutations_of, step};
use super::unit::{Edge, Hashing, Planted, Sum, Unit, compare_edges, units_of};
use crate::reconcile::merge_two;
use model::{DecoratedKey, TableSchema};
use mutation::compact::{CompactionFilter, Outside};
use mutation::range::{ClusteringPosition, ClusteringRange};
use mutation::testing::{NOW, mutation, schema};
use mutation::{Fragment, FrozenMutation};
use proptest::prelude::*;
use reader::{Budget, Slice, Source, VecSource};
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::{Bytes, Prng};

/// What a replica has, by partition.
type Replica = BTreeMap<DecoratedKey, FrozenMutation>;

fn key_of(mutation: &FrozenMutation) -> DecoratedKey {
    DecoratedKey::new(Bytes::copy_from(mutation.view().expect("a mutation").key()))
}

fn apply(schema: &TableSchema, replica: &mut Replica, mutation: &FrozenMutation) {
    let next = match replica.remove(&key_of(mutation)) {
        Some(present) => merge_two(schema, &present, mutation),
        None => mutation.clone(),
    };
    replica.insert(key_of(mutation), next);
}

/// The stream of a replica behind a place, as its storage gives it.
fn stream(schema: &TableSchema, replica: &Replica, after: Option<&Edge>, gc: i64) -> Vec<Fragment> {
    let all = Outside { gc_before: gc, log: i64::MAX, memtables: i64::MAX, sstables: i64::MAX };
    let mut filter = CompactionFilter::new(NOW, Box::new(move |_| all));
    let (mut out, order) = (Vec::new(), &schema.order);
    for (key, mutation) in replica {
        let mut slice = Slice::full();
        if let Some(after) = after {
            match (key.cmp(&after.key), &after.within) {
                (std::cmp::Ordering::Less, _) | (std::cmp::Ordering::Equal, None) => continue,
                (std::cmp::Ordering::Equal, Some(within)) => {
                    let (start, end) = (within.clone(), ClusteringPosition::end());
                    slice.ranges = vec![ClusteringRange { start, end }];
                    slice.ranges.retain(|range| !range.is_empty(order));
                    slice.with_static = false;
                }
                (std::cmp::Ordering::Greater, _) => {}
            }
        }
        let view = mutation.view().expect("a mutation");
        let mut source = VecSource::new(order, view.fragments(order), &slice);
        let mut fragments = Vec::new();
        loop {
            let before = fragments.len();
            let budget = Budget { fragments_max: usize::MAX, bytes_max: usize::MAX };
            let filled = source.try_fill(budget, &mut fragments).expect("no wait");
            filled.expect("nothing fails");
            if fragments.len() == before {
                break;
            }
        }
        fragments.into_iter().for_each(|fragment| filter.push(fragment, &mut out));
    }
    out
}

/// What one replica has read.
struct Reading {
    fragments: std::vec::IntoIter<Fragment>,
    buffer: Buffer,
}

impl Reading {
    fn open(run: &Run, replica: &Replica, after: Option<Edge>) -> Reading {
        let fragments = stream(&run.schema, replica, after.as_ref(), run.gc).into_iter();
        let buffer = Buffer::new(run.schema.clone(), run.hashing.clone(), run.bytes_max, after);
        Reading { fragments, buffer }
    }

    fn fill(&mut self) -> Told {
        while !self.buffer.is_full() {
            match self.fragments.next() {
                Some(fragment) => self.buffer.push(fragment),
                None => self.buffer.end(),
            }
        }
        self.buffer.told()
    }
}

struct Run {
    schema: Rc<TableSchema>,
    hashing: Hashing,
    bytes_max: usize,
    gc: i64,
    /// One in so many readings begins anew.
    restarts: u64,
    draws: Prng,
}

/// What travelled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Traffic {
    steps: usize,
    /// Hashes told.
    hashes: usize,
    /// Units that were fetched.
    fetched: usize,
    /// Units, and mutations, that others were sent, and that the master wrote.
    sent: usize,
    written: usize,
}

impl Run {
    fn new(seed: u64, bytes_max: usize, planted: Option<Planted>) -> Run {
        Run {
            schema: Rc::new(schema()),
            hashing: Hashing::new(seed, planted),
            bytes_max,
            gc: i64::MIN,
            restarts: u64::MAX,
            draws: Prng::from_seed(seed),
        }
    }

    fn units(&mut self, mutations: &[FrozenMutation]) -> Vec<Unit> {
        let views = mutations.iter().map(|one| one.view().expect("a mutation"));
        views.flat_map(|view| units_of(&view, &mut self.hashing)).collect()
    }

    /// Repairs all: the first is the master.
    fn repair(&mut self, replicas: &mut [Replica]) -> Traffic {
        let mut traffic = Traffic::default();
        let mut after: Option<Edge> = None;
        let mut readings: Vec<Reading> =
            replicas.iter().map(|replica| Reading::open(self, replica, None)).collect();
        for _ in 0..10_000 {
            traffic.steps += 1;
            for (reading, replica) in readings.iter_mut().zip(&*replicas) {
                if self.draws.below(self.restarts) == 1 {
                    *reading = Reading::open(self, replica, after.clone());
                }
            }
            let told: Vec<Told> = readings.iter_mut().map(Reading::fill).collect();
            let edge = match step(&self.schema, &told, &self.hashing) {
                Step::Done => return traffic,
                Step::Same(edge) => {
                    readings.iter_mut().for_each(|one| drop(one.buffer.take(Some(&edge))));
                    after = Some(edge);
                    continue;
                }
                Step::Compare(edge) => edge,
            };
            assert!(
                edge.is_none()
                    || compare_edges(&self.schema, after.as_ref(), edge.as_ref()).is_lt()
                    || after.is_none(),
                "onward"
            );
            let parts = readings.iter_mut().map(|one| {
                // A replica of the planted mistake has not come that far.
                let reached = one.buffer.told().reached;
                let is_short = compare_edges(&self.schema, reached.as_ref(), edge.as_ref()).is_lt();
                one.buffer.take(if is_short { reached.as_ref() } else { edge.as_ref() })
            });
            let mut parts: Vec<Vec<Unit>> = parts.collect();
            self.exchange(&mut parts, replicas, &mut traffic);
            if edge.is_none() {
                return traffic;
            }
            after = edge;
        }
        panic!("a repair without end");
    }

    fn exchange(
        &mut self,
        parts: &mut [Vec<Unit>],
        replicas: &mut [Replica],
        traffic: &mut Traffic,
    ) {
        let own = std::mem::take(&mut parts[0]);
        let sum = Sum::of(&own);
        let mut comparison = Comparison::new(own, &self.hashing);
        for part in &parts[1..] {
            if Sum::of(part) == sum {
                comparison.add_same();
                continue;
            }
            let list: Vec<u64> = part.iter().map(Unit::short).collect();
            traffic.hashes += list.len();
            let wanted = comparison.add(&list);
            let units = wanted.iter().map(|place| &part[*place as usize]);
            // As they travel.
            let mutations = mutations_of(&self.schema, units);
            let units = self.units(&mutations);
            traffic.fetched += units.len();
            assert!(comparison.fetched(&list, &wanted, units), "what was fetched is not wanted");
        }
        let repairs = comparison.repairs(&self.schema);
        assert_eq!(repairs.len(), replicas.len());
        for (index, (replica, repairs)) in replicas.iter_mut().zip(&repairs).enumerate() {
            let units = self.units(repairs).len();
            match index {
                0 => traffic.written += units,
                _ => traffic.sent += units,
            }
            repairs.iter().for_each(|repair| apply(&self.schema, replica, repair));
        }
    }

    fn streams(&self, replicas: &[Replica]) -> Vec<Vec<Fragment>> {
        replicas.iter().map(|one| stream(&self.schema, one, None, self.gc)).collect()
    }
}

/// Replicas that have got some of the writes.
fn replicas_of(count: usize, writes: &[(u8, FrozenMutation)]) -> Vec<Replica> {
    let (schema, mut replicas) = (schema(), vec![Replica::new(); count]);
    for (who, mutation) in writes {
        for (index, replica) in replicas.iter_mut().enumerate() {
            if *who >> index & 1 == 1 {
                apply(&schema, replica, mutation);
            }
        }
    }
    replicas
}

/// What compaction leaves of what a replica has.
fn compacted(run: &Run, replica: &Replica) -> Replica {
    let mut reading = Reading::open(run, replica, None);
    reading.buffer = Buffer::new(run.schema.clone(), run.hashing.clone(), usize::MAX, None);
    reading.fill();
    let units = reading.buffer.take(None);
    let mutations = mutations_of(&run.schema, units.iter());
    mutations.into_iter().map(|mutation| (key_of(&mutation), mutation)).collect()
}

/// What a replica that has all of it has. What has expired does so before it is compared: of two
/// writes of one moment it does not matter then which would have won while they lived.
fn union(run: &Run, replicas: &[Replica]) -> Replica {
    let mut all = Replica::new();
    for replica in replicas {
        let replica = compacted(run, replica);
        replica.values().for_each(|one| apply(&run.schema, &mut all, one));
    }
    all
}

/// Writes, and bits of those who get them. Shadowable tombstones are left out: what they cover
/// comes back with a later marker, unless it was compacted before.
fn writes() -> impl Strategy<Value = Vec<(u8, FrozenMutation)>> {
    let is_plain = |(_, mutation): &(u8, FrozenMutation)| {
        let view = mutation.view().expect("a mutation");
        view.rows().all(|(_, row)| row.shadowable().is_none())
    };
    let writes = proptest::collection::vec((any::<u8>(), mutation()), 0..24);
    writes.prop_map(move |writes| writes.into_iter().filter(is_plain).collect())
}

fn buffers() -> impl Strategy<Value = usize> {
    prop_oneof![Just(1usize), Just(500), Just(2000), Just(1 << 20)]
}

proptest! {
    /// *brought-up*, *only-what-differs*, *onward*.
    #[test]
    fn after_a_repair_all_have_what_any_had(
        count in 2usize..5,
        writes in writes(),
        bytes_max in buffers(),
        seed: u64,
        restarts in prop_oneof![Just(u64::MAX), Just(3u64)],
    ) {
        let mut replicas = replicas_of(count, &writes);
        let mut run = Run { restarts, ..Run::new(seed, bytes_max, None) };
        let all = run.streams(&[union(&run, &replicas)]).remove(0);
        run.repair(&mut replicas);
        for own in run.streams(&replicas) {
            prop_assert_eq!(&own, &all);
        }
        let again = run.repair(&mut replicas);
        let nothing = Traffic { steps: again.steps, ..Traffic::default() };
        prop_assert_eq!(again, nothing, "replicas that agree");
    }
}

/// How many units of a list of replicas somebody lacks.
fn differing(run: &mut Run, replicas: &[Replica]) -> (usize, usize) {
    let mut sets: Vec<Vec<u64>> = Vec::new();
    for replica in replicas {
        let mut reading = Reading::open(run, replica, None);
        reading.buffer = Buffer::new(run.schema.clone(), run.hashing.clone(), usize::MAX, None);
        reading.fill();
        sets.push(reading.buffer.take(None).iter().map(Unit::short).collect());
    }
    let others: std::collections::BTreeSet<u64> = sets[1..].iter().flatten().copied().collect();
    let fetched = others.iter().filter(|hash| !sets[0].contains(hash)).count();
    let mut lacking = 0;
    for set in &sets[1..] {
        let all = others.iter().chain(sets[0].iter().filter(|hash| !others.contains(hash)));
        lacking += all.filter(|hash| !set.contains(hash)).count();
    }
    (fetched, lacking)
}

proptest! {
    /// *fetched-once*, *only-what-differs*: in one buffer, whatever is written.
    #[test]
    fn what_travels_is_what_differs(count in 2usize..5, writes in writes(), seed: u64) {
        let mut replicas = replicas_of(count, &writes);
        let mut run = Run::new(seed, 1 << 20, None);
        let (fetched, lacking) = differing(&mut run, &replicas);
        let traffic = run.repair(&mut replicas);
        prop_assert_eq!(traffic.fetched, fetched);
        // Ranges of two replicas become up to two more pieces each where they overlap.
        let ranges: usize = writes.iter().map(|(_, one)| one.view().unwrap().range_count()).sum();
        prop_assert!(traffic.sent <= lacking + 2 * count * ranges, "{:?} of {}", traffic, lacking);
    }

    /// What one has forgotten already, and another one has not, is no difference.
    #[test]
    fn what_may_be_forgotten_is_not_sent(writes in writes(), bytes_max in buffers(), seed: u64) {
        let writes: Vec<(u8, FrozenMutation)> = writes.into_iter().map(|it| (1, it.1)).collect();
        let all = replicas_of(1, &writes).remove(0);
        let mut run = Run { gc: NOW, ..Run::new(seed, bytes_max, None) };
        let compacted = compacted(&run, &all);
        let traffic = run.repair(&mut [all, compacted]);
        prop_assert_eq!(traffic.hashes, 0);
    }
}

/// Whether the first test above catches a mistake.
fn is_caught(planted: Planted) -> bool {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    (0..300).any(|seed| {
        let writes = writes().new_tree(&mut runner).expect("writes").current();
        let mut replicas = replicas_of(3, &writes);
        let mut run =
            Run { restarts: 3, ..Run::new(seed, [1, 500, 2000][seed as usize % 3], Some(planted)) };
        let all = run.streams(&[union(&run, &replicas)]).remove(0);
        run.repair(&mut replicas);
        run.streams(&replicas).iter().any(|own| *own != all)
    })
}

#[test]
fn planted_mistakes_are_caught() {
    for planted in [
        Planted::IgnoresTombstones,
        Planted::TakesOneEdge,
        Planted::LeavesRanges,
        Planted::KeepsFetched,
    ] {
        assert!(is_caught(planted), "{planted:?}");
    }
}
