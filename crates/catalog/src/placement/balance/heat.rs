//! Requests, which not all tablets get as many of: where one shard has more than twice what those
//! of its rack have on average, tablets are exchanged for others of the same weight; where one
//! tablet alone makes it so, its table is to have more of them ([`fn@heat`]).
//!
//! Invariants
//!  - *it-cools*: an exchange makes the sum of squares of what shards get smaller, by a part of the
//!    hot shard's that is worth it, and no other shard as hot. So exchanges come to an end, while
//!    tablets get as many requests as before.
//!  - *as-even*: what is exchanged weighs the same, within [`super::DIFFER_PERCENT`], and leaves
//!    nothing to be balanced by weight: so nothing is moved back for it.
//!  - *same-rack*: both go within a rack, so each tablet stays on as many (*no-worse*).
//!  - *bounded*, *one-a-host*, *on-shards*: as in [`super`].

use super::{AT_ONCE_MAX, DIFFER_PERCENT, Placed, Planner};
use crate::topology::Topology;
use model::{TableId, Uuid};
use std::collections::BTreeMap;

/// Requests in a second up to which no shard is hot: moving data costs more than it gains.
pub(super) const HOT_LEAST: u64 = 1000;
/// A shard is hot that has more than so many times what those of its rack have on average.
const HOT_TIMES: u128 = 2;
/// An exchange takes at least so much of the square of what the hot shard gets.
const WORTH_PERCENT: u128 = 5;

/// Whether a table's tablets get more requests than a shard should.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Heat {
    /// Two of them together are no more than a shard has on average.
    #[default]
    Cold,
    /// Two of them together are: they are not to become one.
    Warm,
    /// One of them makes its shard a hot one.
    Hot,
}

/// What one shard gets, by its node and number.
type Shards = BTreeMap<(usize, u16), u64>;

/// Which tables are warm or hot, of those that get requests.
pub fn heat(topology: &Topology, tables: &[Placed<'_>]) -> BTreeMap<TableId, Heat> {
    let planner = Planner::new(topology, tables);
    let shards = planner.shards(tables);
    let means: Vec<u64> = (0..planner.nodes.len()).map(|at| planner.mean(&shards, at)).collect();
    let mut out = BTreeMap::new();
    for table in tables {
        let count = table.replicas.count();
        let mut hottest = Heat::Cold;
        for (tablet, of) in table.replicas.iter().enumerate() {
            let pair = tablet ^ 1;
            let both = table.heat(tablet) + if pair < count { table.heat(pair) } else { 0 };
            for place in of.iter().filter_map(|(host, _)| planner.place_of(*host)) {
                let mean = means[place];
                let is_hot = exceeds(table.heat(tablet), mean);
                let is_warm = HOT_LEAST < both && mean < both;
                let this = if is_hot {
                    Heat::Hot
                } else if is_warm {
                    Heat::Warm
                } else {
                    Heat::Cold
                };
                hottest = hottest.max(this);
            }
        }
        debug_assert!(hottest == Heat::Cold || !table.heats.is_empty(), "it-cools: nobody told");
        if hottest != Heat::Cold {
            out.insert(table.table, hottest);
        }
    }
    out
}

/// Whether a shard with so many requests is hot.
fn exceeds(requests: u64, mean: u64) -> bool {
    HOT_LEAST < requests && HOT_TIMES * u128::from(mean) < u128::from(requests)
}

/// Of what the sums are made that are to become smaller.
fn square(requests: u64) -> u128 {
    u128::from(requests) * u128::from(requests)
}

/// A tablet of one of the tables, on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    table: usize,
    tablet: usize,
    place: usize,
    shard: u16,
    heat: u64,
    weight: u64,
}

impl Planner {
    /// Exchanges tablets of hot shards for others, one for each at most.
    pub(super) fn cool(&mut self, tables: &[Placed<'_>]) {
        assert!(self.moves.is_empty(), "as-even: weights are balanced first");
        let mut shards = self.shards(tables);
        let hot = |planner: &Planner, shards: &Shards| -> Vec<(usize, u16)> {
            let means = (0..planner.nodes.len()).map(|at| planner.mean(shards, at));
            let means: Vec<u64> = means.collect();
            let all = shards.iter().filter(|((place, _), has)| exceeds(**has, means[*place]));
            all.map(|(at, _)| *at).collect()
        };
        for from in hot(self, &shards) {
            if let Some((one, other)) = self.exchange(tables, &shards, from) {
                self.take_exchange(tables, &mut shards, one, other);
            }
        }
    }

    /// What each shard gets. Tablets that are on their way count where they are.
    fn shards(&self, tables: &[Placed<'_>]) -> Shards {
        let mut shards = Shards::new();
        for (place, node) in self.nodes.iter().enumerate() {
            shards.extend((0..node.shards).map(|shard| ((place, shard), 0)));
        }
        for held in tables.iter().enumerate().flat_map(|(at, table)| self.held(at, table)) {
            if let Some(has) = shards.get_mut(&(held.place, held.shard)) {
                *has = has.saturating_add(held.heat);
            }
        }
        shards
    }

    /// All replicas of a table's tablets.
    fn held(&self, at: usize, table: &Placed<'_>) -> Vec<Held> {
        let mut out = Vec::new();
        for (tablet, of) in table.replicas.iter().enumerate() {
            let (heat, weight) = (table.heat(tablet), table.weight(tablet));
            let held = |(host, shard): &(Uuid, u16)| {
                let place = self.place_of(*host)?;
                Some(Held { table: at, tablet, place, shard: *shard, heat, weight })
            };
            out.extend(of.iter().filter_map(held));
        }
        debug_assert!(out.iter().all(|it| it.tablet < table.replicas.count()), "one-a-host");
        out
    }

    /// What a shard of the rack of a node gets on average.
    fn mean(&self, shards: &Shards, place: usize) -> u64 {
        let own = &self.nodes[place];
        debug_assert!(0 < own.shards, "on-shards: a node without shards");
        let is_near =
            |at: usize| (self.nodes[at].center, self.nodes[at].rack) == (own.center, own.rack);
        let near = shards.iter().filter(|((at, _), _)| is_near(*at));
        let (count, sum) =
            near.fold((0u128, 0u128), |(count, sum), (_, has)| (count + 1, sum + u128::from(*has)));
        assert!(0 < count, "on-shards: a node without shards");
        (sum / count) as u64
    }

    /// The best exchange of a tablet of a hot shard for one of another node of its rack.
    fn exchange(
        &self,
        tables: &[Placed<'_>],
        shards: &Shards,
        from: (usize, u16),
    ) -> Option<(Held, Held)> {
        let all: Vec<Held> = tables
            .iter()
            .enumerate()
            .filter(|(_, table)| !table.merges)
            .flat_map(|(at, table)| self.held(at, table))
            .filter(|it| self.may_go(tables, it))
            .collect();
        let own = &self.nodes[from.0];
        let least = WORTH_PERCENT * square(shards[&from]) / 100;
        let mut best: Option<(u128, (Held, Held))> = None;
        for one in all.iter().filter(|it| (it.place, it.shard) == from && 0 < it.heat) {
            for other in all.iter().filter(|it| it.heat < one.heat) {
                let node = &self.nodes[other.place];
                let is_near = (node.center, node.rack) == (own.center, own.rack);
                if !is_near || !self.may_exchange(tables, one, other) {
                    continue;
                }
                let Some(gain) = self.cooler(shards, one, other) else { continue };
                let is_best = best.as_ref().is_none_or(|(known, _)| *known < gain);
                if least <= gain && is_best && self.is_as_even(tables, one, other) {
                    best = Some((gain, (*one, *other)));
                }
            }
        }
        best.map(|(_, both)| both)
    }

    /// Whether a tablet is not on its way, and its node has room for another one (*bounded*).
    fn may_go(&self, tables: &[Placed<'_>], held: &Held) -> bool {
        let (table, node) = (&tables[held.table], &self.nodes[held.place]);
        let planned = |it: &super::Move| it.table == table.table && it.tablet == held.tablet;
        let has_room = node.gives < AT_ONCE_MAX && node.gets < AT_ONCE_MAX;
        has_room
            && !table.replicas.moves().contains_key(&held.tablet)
            && !self.moves.iter().any(planned)
    }

    /// Whether both weigh the same, and neither is where the other one is.
    fn may_exchange(&self, tables: &[Placed<'_>], one: &Held, other: &Held) -> bool {
        let (more, less) = (one.weight.max(other.weight), one.weight.min(other.weight));
        let differ = u128::from(more - less) * 100;
        debug_assert!(0 < less, "as-even: a tablet without a weight");
        let is_same = differ <= u128::from(DIFFER_PERCENT) * u128::from(more);
        let has = |held: &Held, place: usize| {
            let of = tables[held.table].replicas.of(held.tablet);
            of.iter().any(|(host, _)| *host == self.nodes[place].host_id)
        };
        is_same && one.place != other.place && !has(one, other.place) && !has(other, one.place)
    }

    /// By how much an exchange makes the sum of squares smaller, if it does, and no shard that gets
    /// more is as hot then as the one was (*it-cools*).
    fn cooler(&self, shards: &Shards, one: &Held, other: &Held) -> Option<u128> {
        let ways = [(one, other), (other, one)];
        let mut after = BTreeMap::<(usize, u16), i128>::new();
        for (goes, stays) in ways {
            let lands = (stays.place, self.dealt(stays.place, goes.tablet));
            *after.entry((goes.place, goes.shard)).or_default() -= i128::from(goes.heat);
            *after.entry(lands).or_default() += i128::from(goes.heat);
        }
        let hot = shards[&(one.place, one.shard)];
        let (mut before_sum, mut after_sum) = (0u128, 0u128);
        for (at, change) in after {
            let has = *shards.get(&at)?;
            let then = u64::try_from(i128::from(has) + change).unwrap_or(0);
            if 0 < change && hot <= then {
                return None;
            }
            (before_sum, after_sum) = (before_sum + square(has), after_sum + square(then));
        }
        debug_assert!(one.heat > other.heat, "it-cools: the hotter one comes to the hot shard");
        before_sum.checked_sub(after_sum).filter(|gain| 0 < *gain)
    }

    /// *as-even*
    fn is_as_even(&self, tables: &[Placed<'_>], one: &Held, other: &Held) -> bool {
        let mut after = Planner {
            ring: self.ring.clone(),
            nodes: self.nodes.clone(),
            load: self.load.clone(),
            moves: self.moves.clone(),
        };
        after.take_both(tables, one, other);
        let is_even = |after: &Planner, table: &Placed<'_>| {
            after.parts(table).iter().all(|part| after.better(part, table).is_none())
        };
        [one, other].into_iter().all(|it| is_even(&after, &tables[it.table]))
    }

    fn take_both(&mut self, tables: &[Placed<'_>], one: &Held, other: &Held) {
        for (goes, stays) in [(one, other), (other, one)] {
            let table = &tables[goes.table];
            let to = self.moved(table, goes.tablet, (goes.place, stays.place));
            self.take_down(table, goes.tablet, to);
        }
    }

    fn take_exchange(
        &mut self,
        tables: &[Placed<'_>],
        shards: &mut Shards,
        one: Held,
        other: Held,
    ) {
        for (goes, stays) in [(&one, &other), (&other, &one)] {
            let lands = (stays.place, self.dealt(stays.place, goes.tablet));
            for (at, comes) in [((goes.place, goes.shard), false), (lands, true)] {
                let has = shards.entry(at).or_default();
                *has = if comes { *has + goes.heat } else { has.saturating_sub(goes.heat) };
            }
        }
        self.take_both(tables, &one, &other);
        debug_assert!(2 <= self.moves.len(), "it-cools: an exchange of one");
    }
}
