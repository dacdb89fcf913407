//! Which tablets go to which nodes next: so that none is where it cannot stay, each has as many
//! replicas as its keyspace wants, and all nodes have as much as their shards are many. Pure.
//!
//! A plan is some moves that may be made at once. When they are made, the next plan follows from
//! what there is then, until there is nothing to do.
//!
//! How much a tablet is, is its *weight*: bytes, where they are known, else each counts for one.
//! The tablets of a table that is to have half as many go, two by two, to the same nodes
//! ([`together`]); such a table is not balanced before its tablets are merged. Where nothing is
//! left to do for weight, shards that get too many requests are looked at ([`mod@heat`]).
//!
//! Invariants
//!  - *drained-first*: tablets leave nodes that leave or have left before anything is balanced.
//!  - *no-worse*: a move leaves the replicas of a tablet on no fewer racks.
//!  - *it-ends*: a move for balance makes the sum of `n * n / shards` smaller, n being what a node
//!    has of the table, by weight; or leaves that and makes the same sum over all tables smaller. A
//!    move of a table that is to be merged makes the pairs fewer that are apart. So plans come to
//!    an end, while the weights are the same.
//!  - *worth-it*: nothing is moved for balance between nodes that differ by less than
//!    [`DIFFER_PERCENT`], as weights change all the time.
//!  - *bounded*: of a plan a node gets, and gives, at most [`AT_ONCE_MAX`] tablets.
//!  - *one-a-host*, *on-shards*: as in [`super::tablets`].

use super::ring::{Ring, Want, Wants};
use super::tablets::{Here, Hosts, TabletReplicas};
use super::{Load, Replication};
use crate::topology::{MemberState, Topology};
use model::{TableId, Uuid};
use std::collections::{BTreeMap, BTreeSet};

mod heat;
mod together;

pub use heat::{Heat, heat};

/// Tablets of a plan that one node gets, or gives, at most.
pub const AT_ONCE_MAX: u32 = 8;

/// Nodes that differ by less than so much of what the fuller one has are balanced.
pub const DIFFER_PERCENT: u64 = 1;

/// A table with tablets.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'t> {
    pub table: TableId,
    pub replicas: &'t TabletReplicas,
    pub replication: &'t Replication,
    /// What a replica of each tablet weighs, at least 1; of none: each weighs 1.
    pub weights: &'t [u64],
    /// How many requests a second a replica of each tablet gets; of none: not known.
    pub heats: &'t [u64],
    /// Its tablets are to be half as many.
    pub merges: bool,
}

impl Placed<'_> {
    fn weight(&self, tablet: usize) -> u64 {
        self.weights.get(tablet).copied().unwrap_or(1).max(1)
    }

    /// Replicas that a tablet with so many keeps, whoever leaves: those that are wanted, or as many
    /// as it has.
    fn least(&self, present: usize) -> usize {
        let least = present.min(self.replication.total() as usize);
        debug_assert!(least <= present, "no-worse: {least} of {present} replicas");
        least
    }

    fn heat(&self, tablet: usize) -> u64 {
        self.heats.get(tablet).copied().unwrap_or(0)
    }
}

/// A tablet, and where it is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    pub table: TableId,
    pub tablet: usize,
    pub to: Hosts,
}

/// A node that may get tablets.
#[derive(Clone)]
struct Node {
    host_id: Uuid,
    shards: u16,
    /// Its part of the cluster, by each table's wants: here the place of its data center.
    center: usize,
    rack: usize,
    /// The weight of all tables.
    total: u64,
    gets: u32,
    gives: u32,
}

/// What is planned, and what all nodes have when it is done.
struct Planner {
    ring: Ring,
    nodes: Vec<Node>,
    load: Load,
    moves: Vec<Move>,
}

/// The moves that have to be made; `tables` in an order that does not change.
pub fn mend(topology: &Topology, tables: &[Placed<'_>]) -> Vec<Move> {
    let mut planner = Planner::new(topology, tables);
    tables.iter().for_each(|table| planner.mend(topology, table));
    planner.moves
}

/// The next moves.
pub fn plan(topology: &Topology, tables: &[Placed<'_>]) -> Vec<Move> {
    let mut planner = Planner::new(topology, tables);
    tables.iter().for_each(|table| planner.mend(topology, table));
    // *drained-first*
    if planner.moves.is_empty() && topology.balances() {
        for table in tables.iter().filter(|table| !table.merges) {
            planner.balance(table);
        }
        for table in tables.iter().filter(|table| table.merges) {
            planner.bring_together(table);
        }
        if planner.moves.is_empty() {
            planner.cool(tables);
        }
    }
    planner.moves
}

/// A tablet of a node that leaves, for which there is no other node; `None`: all can leave it.
pub fn stuck(topology: &Topology, tables: &[Placed<'_>], host: Uuid) -> Option<(TableId, usize)> {
    let mut planner = Planner::new(topology, tables);
    for node in &mut planner.nodes {
        // However many there are.
        (node.gets, node.gives) = (0, 0);
    }
    let has = |of: &[(Uuid, u16)]| of.iter().any(|(it, _)| *it == host);
    for table in tables {
        for (tablet, of) in table.replicas.iter().enumerate().filter(|(_, of)| has(of)) {
            let to = planner.mended(topology, table, tablet);
            if to.is_none_or(|to| has(&to) || to.len() < table.least(of.len())) {
                return Some((table.table, tablet));
            }
        }
    }
    None
}

impl Planner {
    fn new(topology: &Topology, tables: &[Placed<'_>]) -> Planner {
        let ring = Ring::settled(topology);
        let mut load = Load::default();
        let mut totals = BTreeMap::<Uuid, u64>::new();
        for table in tables {
            load.add(table.replicas);
            for (tablet, of) in table.replicas.iter().enumerate() {
                let to = table.replicas.moves().get(&tablet).map_or(&[][..], |it| &it.to);
                for (host, _) in of.iter().chain(to) {
                    *totals.entry(*host).or_default() += table.weight(tablet);
                }
            }
        }
        let mut nodes = Vec::new();
        for (place, member) in ring.members().iter().enumerate() {
            let site = ring.site(place);
            let total = totals.get(&member.host_id).copied().unwrap_or(0);
            nodes.push(Node {
                host_id: member.host_id,
                shards: member.shards,
                center: usize::from(site.center),
                rack: usize::from(site.rack),
                total,
                gets: 0,
                gives: 0,
            });
        }
        let sorted = nodes.is_sorted_by(|a, b| a.host_id < b.host_id);
        assert!(sorted, "one-a-host: nodes are out of order");
        Planner { ring, nodes, load, moves: Vec::new() }
    }

    fn place_of(&self, host: Uuid) -> Option<usize> {
        self.nodes.binary_search_by_key(&host, |node| node.host_id).ok()
    }

    /// Moves the tablets of a table that are where they cannot stay, or have too many or too few
    /// replicas.
    fn mend(&mut self, topology: &Topology, table: &Placed<'_>) {
        for tablet in 0..table.replicas.count() {
            if table.replicas.moves().contains_key(&tablet) {
                continue;
            }
            if let Some(to) = self.mended(topology, table, tablet) {
                self.take_down(table, tablet, to);
            }
        }
    }

    /// Where a tablet is to be; `None`: where it is, or there is no room now.
    fn mended(&self, topology: &Topology, table: &Placed<'_>, tablet: usize) -> Option<Hosts> {
        let of = table.replicas.of(tablet);
        let stays = |host: Uuid| {
            let member = topology.member(host);
            // Who is lost has its place until it is removed.
            member.is_some_and(|it| matches!(it.state, MemberState::Normal | MemberState::Joining))
        };
        let mut to: Vec<(Uuid, u16)> = of.iter().filter(|(it, _)| stays(*it)).copied().collect();
        for part in self.parts(table) {
            let here = |to: &[(Uuid, u16)]| -> Vec<usize> {
                let places = to.iter().filter_map(|(host, _)| self.place_of(*host));
                places.filter(|place| part.has(&self.nodes[*place])).collect()
            };
            while part.copies < here(&to).len() {
                let leaves = self.superfluous(&part, table, &here(&to));
                to.retain(|(host, _)| *host != self.nodes[leaves].host_id);
            }
            while here(&to).len() < part.copies {
                let Some(place) = self.free(topology, &part, table, (tablet, &to)) else { break };
                to.push((self.nodes[place].host_id, self.dealt(place, tablet)));
            }
        }
        let leaves = |to: &[(Uuid, u16)], host: Uuid| to.iter().all(|(it, _)| *it != host);
        let gone = of.iter().filter(|(host, _)| leaves(&to, *host));
        let is_there = |host: Uuid| {
            topology.member(host).is_some_and(|it| it.state == MemberState::Leaving)
                && !topology.is_lost(host)
        };
        // One that lives goes when there is another one in its place, where the keyspace wants one.
        let too_few = to.len() < table.least(of.len());
        if to.is_empty() || too_few && gone.clone().any(|(host, _)| is_there(*host)) {
            return None;
        }
        let room = |node: &Node, gives: bool| match gives {
            true => node.gives < AT_ONCE_MAX,
            false => node.gets < AT_ONCE_MAX,
        };
        let mut gone_places = gone.filter_map(|(host, _)| self.place_of(*host));
        let new = to.iter().filter(|(host, _)| leaves(of, *host));
        let mut new_places = new.filter_map(|(host, _)| self.place_of(*host));
        let fits = gone_places.all(|place| room(&self.nodes[place], true))
            && new_places.all(|place| room(&self.nodes[place], false));
        let same = to.len() == of.len() && to.iter().all(|(host, _)| !leaves(of, *host));
        let twice = |at: usize| to[..at].iter().any(|(host, _)| *host == to[at].0);
        debug_assert!(!(0..to.len()).any(twice), "one-a-host: {to:?}");
        (fits && !same).then(|| to.into_boxed_slice())
    }

    /// Which replica of a part is one too many: one of the racks that have the most of them, of the
    /// node that has the most.
    fn superfluous(&self, part: &Part, table: &Placed<'_>, of: &[usize]) -> usize {
        let in_rack = |rack: usize| of.iter().filter(|it| self.nodes[**it].rack == rack).count();
        let key = |place: &&usize| {
            let node = &self.nodes[**place];
            (!part.is_open(node), in_rack(node.rack), self.fullness(table, **place), node.host_id)
        };
        debug_assert!(part.copies < of.len(), "no-worse: {of:?} are not too many");
        *of.iter().max_by_key(key).expect("one-a-host: a replica of nobody is too many")
    }

    /// Who takes one more replica of a tablet.
    fn free(
        &self,
        topology: &Topology,
        part: &Part,
        table: &Placed<'_>,
        (tablet, to): (usize, &[(Uuid, u16)]),
    ) -> Option<usize> {
        let racks: Vec<usize> = to
            .iter()
            .filter_map(|(host, _)| self.place_of(*host))
            .filter(|place| part.has(&self.nodes[*place]))
            .map(|place| self.nodes[place].rack)
            .collect();
        let in_rack = |rack: usize| racks.iter().filter(|it| **it == rack).count();
        let may = |node: &Node| {
            let is_new = to.iter().all(|(host, _)| *host != node.host_id);
            let lives = !topology.is_lost(node.host_id);
            let fits = !part.is_listed || in_rack(node.rack) == 0;
            part.has(node) && part.is_open(node) && is_new && lives && fits
        };
        let places = (0..self.nodes.len()).filter(|place| may(&self.nodes[*place]));
        let count = self.nodes.len();
        let key = |place: &usize| {
            let node = &self.nodes[*place];
            let turn = (*place + count - tablet % count) % count;
            let is_full = AT_ONCE_MAX <= node.gets;
            (is_full, in_rack(node.rack), self.fullness(table, *place), turn)
        };
        places.min_by_key(key)
    }

    /// What a node has of a table, and of all, for each of its shards.
    fn fullness(&self, table: &Placed<'_>, place: usize) -> (u128, u128) {
        let node = &self.nodes[place];
        let per_shard = |weight: u64| (u128::from(weight) << 20) / u128::from(node.shards);
        (per_shard(self.own(table, place)), per_shard(node.total))
    }

    /// What a node has of a table, by weight, with what is planned.
    fn own(&self, table: &Placed<'_>, place: usize) -> u64 {
        self.owns(table)[place]
    }

    /// The same, of all nodes.
    fn owns(&self, table: &Placed<'_>) -> Vec<u64> {
        let moves = self.moves.iter().filter(|it| it.table == table.table);
        let planned: BTreeMap<usize, &Hosts> = moves.map(|it| (it.tablet, &it.to)).collect();
        let mut owns = vec![0; self.nodes.len()];
        for (tablet, of) in table.replicas.iter().enumerate() {
            let to = || table.replicas.moves().get(&tablet).map(|it| &it.to);
            let of = planned.get(&tablet).copied().or_else(to).map_or(of, |to| &to[..]);
            for place in of.iter().filter_map(|(host, _)| self.place_of(*host)) {
                owns[place] += table.weight(tablet);
            }
        }
        debug_assert!(owns.len() == self.nodes.len(), "it-ends: of {} nodes", owns.len());
        owns
    }

    /// Notes a move.
    fn take_down(&mut self, table: &Placed<'_>, tablet: usize, to: Hosts) {
        let (of, weight) = (table.replicas.of(tablet), table.weight(tablet));
        assert!(!to.is_empty(), "no-worse: tablet {tablet} goes to nobody");
        for (host, _) in of.iter().filter(|(host, _)| to.iter().all(|(it, _)| it != host)) {
            if let Some(place) = self.place_of(*host) {
                self.nodes[place].gives += 1;
                let total = self.nodes[place].total;
                debug_assert!(weight <= total, "it-ends: {host} gives what it has not");
                self.nodes[place].total = total.saturating_sub(weight);
            }
        }
        for (host, shard) in to.iter().filter(|(host, _)| of.iter().all(|(it, _)| it != host)) {
            self.load.add_one((*host, *shard));
            if let Some(place) = self.place_of(*host) {
                self.nodes[place].gets += 1;
                self.nodes[place].total += weight;
                debug_assert!(self.nodes[place].gets <= AT_ONCE_MAX, "bounded: {host} gets more");
            }
        }
        self.moves.push(Move { table: table.table, tablet, to });
    }

    /// Moves tablets of a table from nodes that have more of it, or of all, to those with less.
    fn balance(&mut self, table: &Placed<'_>) {
        for part in self.parts(table) {
            while let Some((tablet, to)) = self.better(&part, table) {
                self.take_down(table, tablet, to);
            }
        }
    }

    /// The move that makes things more even (*it-ends*), and most so.
    fn better(&self, part: &Part, table: &Placed<'_>) -> Option<(usize, Hosts)> {
        let owns = self.owns(table);
        let ways = self.ways(part, table, &owns);
        if ways.iter().all(Vec::is_empty) {
            return None;
        }
        let planned: BTreeSet<usize> =
            self.moves.iter().filter(|it| it.table == table.table).map(|it| it.tablet).collect();
        let mut best: Option<(Gain, usize, (usize, usize))> = None;
        for (tablet, of) in table.replicas.iter().enumerate() {
            if planned.contains(&tablet) || table.replicas.moves().contains_key(&tablet) {
                continue;
            }
            let has: Vec<usize> = of.iter().filter_map(|(host, _)| self.place_of(*host)).collect();
            for from in has.iter().copied() {
                for to in ways[from].iter().copied().filter(|to| !has.contains(to)) {
                    let load = self.load.of((self.nodes[to].host_id, self.dealt(to, tablet)));
                    let gain = self.gain(table.weight(tablet), load, &owns, (from, to));
                    let is_best = best.as_ref().is_none_or(|(known, ..)| gain < *known);
                    if is_best && gain.is_any() && self.keeps_racks(part, of, (from, to)) {
                        best = Some((gain, tablet, (from, to)));
                    }
                }
            }
        }
        let (_, tablet, way) = best?;
        Some((tablet, self.moved(table, tablet, way)))
    }

    /// From each node to which ones a tablet may go: where the lightest makes nothing more even, no
    /// other one does.
    fn ways(&self, part: &Part, table: &Placed<'_>, owns: &[u64]) -> Vec<Vec<usize>> {
        let lightest = (0..table.replicas.count()).map(|it| table.weight(it)).min().unwrap_or(1);
        let within = owns.iter().zip(&self.nodes).all(|(own, node)| *own <= node.total);
        debug_assert!(within, "it-ends: more of a table than of all: {owns:?}");
        let mut ways = vec![Vec::new(); self.nodes.len()];
        let places = || (0..self.nodes.len()).filter(|place| part.has(&self.nodes[*place]));
        let gives = |from: &usize| 0 < owns[*from] && self.nodes[*from].gives < AT_ONCE_MAX;
        for from in places().filter(gives) {
            let gets = |to: &usize| *to != from && self.nodes[*to].gets < AT_ONCE_MAX;
            let is_any = |to: &usize| self.gain(lightest, 0, owns, (from, *to)).is_any();
            ways[from] = places().filter(gets).filter(is_any).collect();
        }
        ways
    }

    /// What a move of so much makes of the sums of squares; `load`: what the shard has already.
    fn gain(&self, weight: u64, load: u32, owns: &[u64], (from, to): (usize, usize)) -> Gain {
        let [giver, getter] = [from, to].map(|it| &self.nodes[it]);
        let [of, at] = [giver, getter].map(|it| i128::from(it.shards));
        debug_assert!(from != to, "one-a-host: a tablet goes to where it is");
        // Times the shards of both.
        let grows = |a: u64, b: u64| {
            let (w, a, b) = (i128::from(weight), i128::from(a), i128::from(b));
            let differ = 100 * (a * at - b * of);
            let is_worth_it = i128::from(DIFFER_PERCENT) * a * at < differ;
            let grows = w * ((2 * b + w) * of - (2 * a - w) * at);
            if is_worth_it { grows } else { grows.max(0) }
        };
        let (of_table, of_all) = (grows(owns[from], owns[to]), grows(giver.total, getter.total));
        Gain { of_table, of_all, load }
    }

    /// The shard of a node to which a tablet goes.
    fn dealt(&self, place: usize, tablet: usize) -> u16 {
        let Node { host_id, shards, .. } = self.nodes[place];
        let shard = Here { host_id, shards }.dealt(tablet);
        debug_assert!(shard < shards, "on-shards: {shard} of {shards}");
        shard
    }

    /// The replicas of a tablet when one has gone from a node to another one.
    fn moved(&self, table: &Placed<'_>, tablet: usize, (from, to): (usize, usize)) -> Hosts {
        let (giver, getter) = (&self.nodes[from], &self.nodes[to]);
        let shard = self.dealt(to, tablet);
        let of = table.replicas.of(tablet);
        let moved = |(host, own): &(Uuid, u16)| match *host == giver.host_id {
            true => (getter.host_id, shard),
            false => (*host, *own),
        };
        let to: Hosts = of.iter().map(moved).collect();
        debug_assert!(to.len() == of.len(), "no-worse: tablet {tablet} loses a replica");
        to
    }

    /// Whether a replica may go from one node to another (*no-worse*).
    fn keeps_racks(&self, part: &Part, of: &[(Uuid, u16)], (from, to): (usize, usize)) -> bool {
        let (giver, getter) = (&self.nodes[from], &self.nodes[to]);
        if giver.rack == getter.rack || !part.has_racks {
            return true;
        }
        let places = of.iter().filter_map(|(host, _)| self.place_of(*host));
        let racks: Vec<usize> = places
            .filter(|place| part.has(&self.nodes[*place]))
            .map(|place| self.nodes[place].rack)
            .collect();
        let count = |rack: usize| racks.iter().filter(|it| **it == rack).count();
        part.is_open(getter) && count(getter.rack) < count(giver.rack)
    }

    /// The parts of the cluster that have so many replicas each.
    fn parts(&self, table: &Placed<'_>) -> Vec<Part> {
        match self.ring.wants(table.replication) {
            Wants::Anywhere(copies) => vec![Part {
                center: None,
                copies,
                open: Vec::new(),
                is_listed: false,
                has_racks: false,
            }],
            Wants::Per(centers) => {
                let part = |(center, want): (usize, Want)| Part {
                    center: Some(center),
                    copies: want.copies,
                    is_listed: want.open.contains(&false),
                    open: want.open,
                    has_racks: true,
                };
                centers.into_iter().enumerate().map(part).collect()
            }
        }
    }
}

/// What a move makes of the sum of squares of a table, and of all; and what the shard has already
/// that gets the tablet. The least is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Gain {
    of_table: i128,
    of_all: i128,
    load: u32,
}

impl Gain {
    fn is_any(&self) -> bool {
        self.of_table < 0 || self.of_table == 0 && self.of_all < 0
    }
}

/// Nodes of which a tablet has so many.
struct Part {
    /// `None`: all nodes, wherever they are.
    center: Option<usize>,
    copies: usize,
    open: Vec<bool>,
    /// Racks are named, of which each has one.
    is_listed: bool,
    has_racks: bool,
}

impl Part {
    fn has(&self, node: &Node) -> bool {
        self.center.is_none_or(|center| center == node.center)
    }

    fn is_open(&self, node: &Node) -> bool {
        !self.has_racks || self.open[node.rack]
    }
}

#[cfg(test)]
mod tests;
