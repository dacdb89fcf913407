//! Which tablets a table gets, and which shards of which nodes have them. Pure.
//!
//! All nodes agree on where tablets end and who has each ([`TabletReplicas`]). How a node divides
//! the table among its own shards is a [`TabletMap`]: each tablet on the shard of the node's
//! replica, and where the node has none, on some shard all the same. A table gets twice or half as
//! many tablets while it is in use ([`Resize`]); then the node divides it among its shards in
//! another way, too, and that follows a moment later: tokens stay on their shards. A tablet goes to
//! another shard of its node as one goes to another node, in the same stages.
//!
//! Invariants
//!  - *powers-of-two*: a keyspace with tablets gives each new table a power of two of them,
//!    [`TABLETS_MAX`] at most.
//!  - *on-shards*: a replica is on a shard that its node has.
//!  - *covering*: as in [`TabletMap`].
//!  - *tokens-stay*: tablets that become others are where they were: each half on the nodes and the
//!    shards of the whole, and two become one that are on the same nodes. So who goes by the
//!    tablets of before finds the same nodes.
//!  - *within-slots*: where a table comes to a power of two of tablets, each of its tablets lies
//!    within one of these ([`crate::placement::conversion`]).
//!  - *one-a-host*: a node has one replica of a tablet at most.
//!  - *stage-by-stage*: a tablet goes to other nodes as nodes move on the ring: both sets of
//!    replicas are known, and the [`Stage`] says which of them is read.
//!  - *no-later*: a tablet has been repaired at no later time than all of its tokens were: of two
//!    that become one the earlier time stays, or none.
//!  - *fewest-first*: a new replica goes to the node, and there to the shard, that has the fewest
//!    of its table among those which may have it; between equals, the fewest of all tables.

use super::Replication;
mod counts;

pub use counts::{Counts, counts};

use super::ring::{Ring, Want, Wants};
use crate::topology::{Stage, Topology};
use counts::{count, shares};
use model::token::slot_range;
use model::{Keyspace, TabletMap, Token, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Tablets of one table at most.
pub const TABLETS_MAX: u32 = 1 << 16;

const _: () = assert!(TABLETS_MAX.is_power_of_two(), "rounding up stays within it");

/// Tablets of a table for each shard, where nobody says otherwise.
pub const SCALE: f64 = 1.0;

/// A node, as far as tables are divided for it: in most places, this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Here {
    pub host_id: Uuid,
    pub shards: u16,
}

impl Here {
    /// The shard of a tablet that is on no shard of the node as yet.
    pub fn dealt(self, tablet: usize) -> u16 {
        assert!(0 < self.shards, "on-shards: tablets on a node without shards");
        (tablet % usize::from(self.shards)) as u16
    }
}

/// Nodes that have a tablet, and the shard on each.
pub type Hosts = Box<[(Uuid, u16)]>;

/// A tablet on its way to other replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TabletMove {
    /// Who will have it.
    pub to: Hosts,
    pub stage: Stage,
    /// Tells the stage from all others; see [`Topology::session`].
    pub session: u64,
}

/// Ranges that were repaired, from their first token to their last; each with the millisecond since
/// 1970 before which all replicas had all of it.
pub type Repairs = Vec<((Token, Token), i64)>;

/// A step of a tablet on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TabletStep {
    /// It is to go to these.
    Begin(Hosts),
    /// It comes to the next stage.
    Advance(Stage),
    /// It has arrived.
    Arrive,
    /// It stays where it was.
    TurnBack,
}

/// Another number of tablets of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resize {
    /// Each tablet becomes two.
    Split,
    /// Two neighbours become one.
    Merge,
    /// All become one that lie between two ends of the power of two that the table comes to.
    Converge,
}

/// Where the tablets of a table end, and who has each: nodes, and the shard on each. Nothing of a
/// table without tablets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TabletReplicas {
    last_tokens: Vec<Token>,
    all: Vec<Hosts>,
    /// Of tablets on their way.
    moves: BTreeMap<usize, TabletMove>,
    /// The power of two of tablets that the table comes to; 0: it has as many as it is to have.
    target: u32,
    /// Of tablets that were repaired: before which millisecond since 1970 all replicas had all.
    repaired: BTreeMap<usize, i64>,
}

impl TabletReplicas {
    /// Of each tablet, up to its last token.
    pub fn new(last_tokens: Vec<Token>, replicas: Vec<Hosts>) -> TabletReplicas {
        TabletReplicas::moving(last_tokens, replicas, BTreeMap::new())
    }

    /// The same, with those on their way.
    pub fn moving(
        last_tokens: Vec<Token>,
        all: Vec<Hosts>,
        moves: BTreeMap<usize, TabletMove>,
    ) -> TabletReplicas {
        assert!(last_tokens.len() == all.len(), "covering: tablets of no replicas");
        assert!(last_tokens.last().is_none_or(|last| *last == Token::MAX), "covering: an open end");
        debug_assert!(last_tokens.is_sorted_by(|a, b| a < b), "covering: tablets overlap");
        let twice = |of: &[(Uuid, u16)]| {
            of.iter().enumerate().any(|(at, (host, _))| of[..at].iter().any(|it| it.0 == *host))
        };
        let sets = all.iter().chain(moves.values().map(|it| &it.to));
        debug_assert!(!sets.into_iter().any(|of| twice(of)), "one-a-host: a replica too many");
        let known = moves.keys().all(|tablet| *tablet < all.len());
        assert!(known, "covering: a tablet is on its way that is none");
        TabletReplicas { last_tokens, all, moves, target: 0, repaired: BTreeMap::new() }
    }

    /// The same on the way to a power of two of tablets (*within-slots*); 0: it is there.
    pub fn toward(self, target: u32) -> TabletReplicas {
        assert!(target == 0 || self.may_come_to(target), "within-slots: {target} tablets");
        TabletReplicas { target, ..self }
    }

    /// Whether it can come to so many tablets by merging neighbours alone (*within-slots*).
    pub fn may_come_to(&self, target: u32) -> bool {
        if !target.is_power_of_two() || self.count() <= target as usize {
            return false;
        }
        let ends = (0..target).map(|slot| slot_range(slot, target).1);
        ends.into_iter().all(|end| self.last_tokens.binary_search(&end).is_ok())
    }

    /// The power of two of tablets that the table comes to; 0: it has as many as it is to have.
    pub fn target(&self) -> u32 {
        self.target
    }

    /// The same, with the milliseconds since 1970 before which all replicas of tablets had all that
    /// was written to them.
    pub fn repaired_at(self, repaired: BTreeMap<usize, i64>) -> TabletReplicas {
        let known = repaired.keys().all(|tablet| *tablet < self.all.len());
        assert!(known, "covering: a tablet is repaired that is none");
        TabletReplicas { repaired, ..self }
    }

    /// The milliseconds of tablets that were repaired.
    pub fn repaired(&self) -> &BTreeMap<usize, i64> {
        &self.repaired
    }

    /// After repairs of ranges, from their first token to their last, at a millisecond each
    /// (*no-later*): what is of a part of a tablet says nothing of it.
    pub fn after_repairs(&self, repairs: &[((Token, Token), i64)]) -> TabletReplicas {
        let mut repaired = self.repaired.clone();
        for ((first, last), at) in repairs {
            debug_assert!(first <= last, "no-later: a repair from {first:?} to {last:?}");
            let begin = self.tablet_of(*first);
            for tablet in begin..self.count() {
                let (after, end) = self.range(tablet);
                if *last < end {
                    break;
                }
                // The first token of the ring is of the first tablet.
                if tablet == 0 && *first == Token::MIN || *first <= Token(after.0 + 1) {
                    let known = repaired.entry(tablet).or_insert(*at);
                    *known = (*known).max(*at);
                }
            }
        }
        self.clone().repaired_at(repaired)
    }

    /// The last token of each tablet.
    pub fn last_tokens(&self) -> &[Token] {
        &self.last_tokens
    }

    /// The tablet that holds a token.
    #[inline]
    pub fn tablet_of(&self, token: Token) -> usize {
        self.last_tokens.partition_point(|last| *last < token)
    }

    /// The range of a tablet: after the first token, up to and including the second.
    pub fn range(&self, tablet: usize) -> (Token, Token) {
        debug_assert!(tablet < self.count(), "covering: no tablet {tablet} of {}", self.count());
        let before = tablet.checked_sub(1).map(|before| self.last_tokens[before]);
        (before.unwrap_or(Token::MIN), self.last_tokens[tablet])
    }

    /// The number of tablets.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Whether the table has no tablets.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The replicas of a tablet; where it is on its way, those that it goes from.
    pub fn of(&self, tablet: usize) -> &[(Uuid, u16)] {
        &self.all[tablet]
    }

    /// Those of each tablet.
    pub fn iter(&self) -> impl Iterator<Item = &[(Uuid, u16)]> {
        self.all.iter().map(|of| &**of)
    }

    /// The tablets on their way.
    pub fn moves(&self) -> &BTreeMap<usize, TabletMove> {
        &self.moves
    }

    /// The replicas of a tablet that are read.
    pub fn read(&self, tablet: usize) -> &[(Uuid, u16)] {
        match self.moves.get(&tablet) {
            Some(TabletMove { to, stage: Stage::ReadNew, .. }) => to,
            _ => &self.all[tablet],
        }
    }

    /// Those of the other side that are written too.
    pub fn beside(&self, tablet: usize) -> &[(Uuid, u16)] {
        match self.moves.get(&tablet) {
            None | Some(TabletMove { stage: Stage::Prepare, .. }) => &[],
            Some(TabletMove { to, stage: Stage::ReadOld, .. }) => to,
            Some(TabletMove { stage: Stage::ReadNew, .. }) => &self.all[tablet],
        }
    }

    /// The same without those on their way, which are where they are to be.
    pub fn settled(&self) -> TabletReplicas {
        let mut all = self.all.clone();
        for (tablet, moving) in &self.moves {
            all[*tablet] = moving.to.clone();
        }
        TabletReplicas { target: self.target, ..TabletReplicas::new(self.last_tokens.clone(), all) }
    }

    /// Whether a tablet can make a step; the reason why not.
    pub fn check(&self, tablet: usize, step: &TabletStep) -> Result<(), String> {
        let present = self.moves.get(&tablet).map(|it| it.stage);
        let possible = match step {
            _ if self.all.len() <= tablet => return Err(format!("there is no tablet {tablet}")),
            TabletStep::Begin(to) => present.is_none() && !to.is_empty(),
            TabletStep::Advance(next) => present.is_some() && Stage::after(present) == Some(*next),
            TabletStep::Arrive => present == Some(Stage::ReadNew),
            TabletStep::TurnBack => present.is_some_and(|stage| stage < Stage::ReadNew),
        };
        match possible {
            true => Ok(()),
            false => {
                Err(format!("tablet {tablet} is in {present:?}, which {step:?} does not follow"))
            }
        }
    }

    /// After steps that were checked; `session` was never used before.
    pub fn after(&self, steps: &[(usize, TabletStep)], session: u64) -> TabletReplicas {
        assert!(session != 0, "stage-by-stage: steps of no session");
        let reused = self.moves.values().any(|moving| moving.session == session);
        debug_assert!(!reused, "stage-by-stage: session {session} again");
        let (mut all, mut moves) = (self.all.clone(), self.moves.clone());
        for (tablet, step) in steps {
            debug_assert_eq!(self.check(*tablet, step), Ok(()), "stage-by-stage");
            match (step, moves.remove(tablet)) {
                (TabletStep::Begin(to), None) => {
                    let moving = TabletMove { to: to.clone(), stage: Stage::Prepare, session };
                    moves.insert(*tablet, moving);
                }
                (TabletStep::Advance(stage), Some(TabletMove { to, .. })) => {
                    moves.insert(*tablet, TabletMove { to, stage: *stage, session });
                }
                (TabletStep::Arrive, Some(TabletMove { to, .. })) => all[*tablet] = to,
                _ => {}
            }
        }
        let moved = TabletReplicas::moving(self.last_tokens.clone(), all, moves);
        // Who gets a tablet gets all that one of its replicas has.
        TabletReplicas { target: self.target, ..moved.repaired_at(self.repaired.clone()) }
    }

    /// Of another number of tablets (*tokens-stay*). Says why that cannot be.
    pub fn resized(&self, resize: Resize) -> Result<TabletReplicas, String> {
        let count = self.count();
        if let Some((tablet, moving)) = self.moves.iter().next() {
            return Err(format!("tablet {tablet} is on its way ({})", moving.stage.name()));
        }
        let after = match resize {
            Resize::Converge if self.target == 0 => {
                return Err(format!("{count} tablets come to no other number"));
            }
            Resize::Split | Resize::Merge if self.target != 0 => {
                return Err(format!("{count} tablets come to {} first", self.target));
            }
            Resize::Split => self.split()?,
            Resize::Merge | Resize::Converge => self.merged()?,
        };
        let stay = [Token(i64::MIN + 1), Token(0), Token::MAX].into_iter().all(|token| {
            let hosts = |of: &TabletReplicas| -> BTreeSet<Uuid> {
                of.of(of.tablet_of(token)).iter().map(|(host, _)| *host).collect()
            };
            hosts(self) == hosts(&after)
        });
        debug_assert!(stay, "tokens-stay: of {count} tablets, {resize:?}");
        Ok(after)
    }

    fn split(&self) -> Result<TabletReplicas, String> {
        let count = self.count();
        if TABLETS_MAX as usize / 2 < count {
            return Err(format!("{count} tablets are split into {TABLETS_MAX} at most"));
        }
        let (mut last_tokens, mut all) = (Vec::new(), Vec::new());
        for (tablet, of) in self.all.iter().enumerate() {
            let (after, last) = self.range(tablet);
            let middle = after.midpoint(last);
            if last <= after || last <= middle {
                return Err(format!("tablet {tablet} has one token: it cannot be halved"));
            }
            last_tokens.extend([middle, last]);
            all.extend([of.clone(), of.clone()]);
        }
        assert!(all.len() == 2 * count, "tokens-stay: {} halves of {count}", all.len());
        let halves = self
            .repaired
            .iter()
            .flat_map(|(tablet, at)| [(2 * tablet, *at), (2 * tablet + 1, *at)]);
        let repaired = halves.collect();
        Ok(TabletReplicas::new(last_tokens, all).repaired_at(repaired))
    }

    fn merged(&self) -> Result<TabletReplicas, String> {
        if self.is_empty() || self.target == 0 && !self.count().is_multiple_of(2) {
            return Err(format!("{} tablets are not pairs", self.count()));
        }
        if let Some(mates) = self.apart().next() {
            let (first, last) = (mates.start, mates.end - 1);
            return Err(format!("tablets {first} and {last} are on different nodes"));
        }
        let mates = self.mates();
        let last_tokens = mates.iter().map(|mates| self.last_tokens[mates.end - 1]).collect();
        let all: Vec<Hosts> = mates.iter().map(|mates| self.all[mates.start].clone()).collect();
        let asked = if self.target == 0 { self.count() / 2 } else { self.target as usize };
        assert!(all.len() == asked, "tokens-stay: {} of {}", all.len(), self.count());
        let of_mates = |(at, mates): (usize, &Range<usize>)| {
            let times: Option<Vec<i64>> =
                mates.clone().map(|mate| self.repaired.get(&mate).copied()).collect();
            Some((at, times?.into_iter().min()?))
        };
        let repaired = mates.iter().enumerate().filter_map(of_mates).collect();
        Ok(TabletReplicas::new(last_tokens, all).repaired_at(repaired))
    }

    /// The tablets that would become one: each two, or, on the way to a power of two, those which
    /// lie in one of these (*within-slots*).
    fn mates(&self) -> Vec<Range<usize>> {
        if self.target == 0 {
            return (0..self.count() / 2).map(|pair| 2 * pair..2 * pair + 2).collect();
        }
        let mut out = Vec::<Range<usize>>::with_capacity(self.target as usize);
        for (tablet, last) in self.last_tokens.iter().enumerate() {
            let slot = last.slot_of(self.target) as usize;
            match out.get_mut(slot) {
                Some(mates) => mates.end = tablet + 1,
                None => out.push(tablet..tablet + 1),
            }
            debug_assert!(
                out.len() == slot + 1,
                "within-slots: none ends in the one before {slot}"
            );
        }
        out
    }

    /// The sets of tablets that would become one and are on different nodes.
    pub fn apart(&self) -> impl Iterator<Item = Range<usize>> {
        let hosts = |tablet: usize| -> BTreeSet<Uuid> {
            self.all[tablet].iter().map(|(host, _)| *host).collect()
        };
        let differ = move |mates: &Range<usize>| {
            let first = hosts(mates.start);
            mates.clone().skip(1).any(|other| hosts(other) != first)
        };
        self.mates().into_iter().filter(differ)
    }

    /// The tablets whose replicas differ in the other one, which were repaired at another time, or
    /// which end elsewhere.
    pub fn differing(&self, other: &TabletReplicas) -> BTreeSet<usize> {
        let count = self.count().max(other.count());
        let differs = |tablet: &usize| {
            self.last_tokens.get(*tablet) != other.last_tokens.get(*tablet)
                || self.all.get(*tablet) != other.all.get(*tablet)
                || self.moves.get(tablet) != other.moves.get(tablet)
                || self.repaired.get(tablet) != other.repaired.get(tablet)
        };
        (0..count).filter(differs).collect()
    }

    /// Whether a node has all the shards that its replicas are said to be on.
    pub fn fit(&self, node: Here) -> bool {
        let sets = self.all.iter().chain(self.moves.values().map(|it| &it.to));
        let own = sets.flatten().filter(|(host, _)| *host == node.host_id);
        own.map(|(_, shard)| *shard).all(|shard| shard < node.shards)
    }

    /// The shard of each tablet on a node: that of its replica there, or some other. If they do not
    /// [`fit`](TabletReplicas::fit), all are dealt anew. Of two shards, of a tablet that goes from
    /// one to the other, the one that is read.
    pub fn shards_on(&self, node: Here) -> Vec<u16> {
        let fit = self.fit(node);
        let shard = |(tablet, of): (usize, &[(Uuid, u16)])| {
            let to = self.moves.get(&tablet).map_or(&[][..], |it| &it.to);
            let all = self.read(tablet).iter().chain(of).chain(to);
            let own = all.into_iter().find(|(host, _)| fit && *host == node.host_id);
            own.map_or_else(|| node.dealt(tablet), |(_, shard)| *shard)
        };
        let shards: Vec<u16> = self.iter().enumerate().map(shard).collect();
        let exist = shards.iter().all(|shard| *shard < node.shards);
        debug_assert!(exist, "on-shards: {shards:?} of {}", node.shards);
        shards
    }
}

/// How a table is divided: among the shards of this node, and among nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Division {
    pub tablets: TabletMap,
    pub replicas: TabletReplicas,
    /// The tablets that a table without any is being given.
    pub intended: TabletReplicas,
}

impl Division {
    /// Of tablets, as this node has them when it starts.
    pub fn of_tablets(replicas: TabletReplicas, here: Here) -> Division {
        assert!(!replicas.is_empty(), "covering: a table without tablets");
        let tablets = TabletMap::new(replicas.last_tokens.clone(), replicas.shards_on(here));
        Division { tablets, replicas, intended: TabletReplicas::default() }
    }

    /// Without tablets: a ring dealt to the shards as drivers compute it, or one of them.
    pub fn of_ring(tablets: TabletMap) -> Division {
        assert!(0 < tablets.count(), "covering: a ring on no shard");
        let none = TabletReplicas::default;
        Division { tablets, replicas: none(), intended: none() }
    }
}

/// How many replicas of tablets each shard has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load(BTreeMap<(Uuid, u16), u32>);

impl Load {
    /// Adds those of a table.
    pub fn add(&mut self, replicas: &TabletReplicas) {
        let to = replicas.moves.values().flat_map(|it| it.to.iter());
        for replica in replicas.iter().flatten().chain(to) {
            self.add_one(*replica);
        }
    }

    /// One more on a shard.
    pub(crate) fn add_one(&mut self, replica: (Uuid, u16)) {
        *self.0.entry(replica).or_default() += 1;
    }

    /// Those of a shard.
    pub(crate) fn of(&self, replica: (Uuid, u16)) -> u32 {
        self.0.get(&replica).copied().unwrap_or(0)
    }
}

/// What a new table says of its tablets.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'t> {
    pub keyspace: &'t Keyspace,
    pub replication: &'t Replication,
    /// The option `tablets` of the table.
    pub hints: &'t [(String, String)],
    /// Tablets for each shard, where neither the keyspace nor the table says how many.
    pub scale: f64,
}

/// How a new table is divided. Where the topology has no nodes, this one has everything.
pub fn divide(asked: Asked<'_>, topology: &Topology, here: Here, load: &Load) -> Division {
    assert!(0 < here.shards, "on-shards: a table on a node without shards");
    if asked.keyspace.initial_tablets.is_none() {
        return Division::of_ring(TabletMap::static_map(here.shards));
    }
    let alone = topology.present().next().is_none();
    let (count, replicas) = match alone {
        true => {
            let count = count(&asked, &[f64::from(here.shards)]);
            let mut host = Host::new(here.host_id, here.shards, load);
            let replicas: Vec<Box<[_]>> = (0..count).map(|_| Box::from([host.take()])).collect();
            (count, replicas)
        }
        false => {
            let ring = Ring::settled(topology);
            let wants = ring.wants(asked.replication);
            let count = count(&asked, &shares(&ring, &wants));
            (count, choose(&ring, &wants, count, load))
        }
    };
    let last_tokens = TabletMap::tablets(count, 1).last_tokens().to_vec();
    Division::of_tablets(TabletReplicas::new(last_tokens, replicas), here)
}

/// A node with what it has.
pub(super) struct Host {
    host_id: Uuid,
    /// Replicas of the table, and of others, on each shard.
    shards: Vec<(u32, u32)>,
    of_table: u32,
    of_others: u32,
}

impl Host {
    pub(super) fn new(host_id: Uuid, shards: u16, load: &Load) -> Host {
        assert!(0 < shards, "on-shards: tablets on a node without shards");
        let of = |shard| (0, load.0.get(&(host_id, shard)).copied().unwrap_or(0));
        let shards: Vec<(u32, u32)> = (0..shards).map(of).collect();
        let of_others = shards.iter().map(|(_, others)| *others).sum();
        Host { host_id, shards, of_table: 0, of_others }
    }

    /// How full it is, for each of its shards; what is least is chosen.
    fn fullness(&self) -> (u64, u64) {
        let per_shard = |count: u32| (u64::from(count) << 20) / self.shards.len() as u64;
        (per_shard(self.of_table), per_shard(self.of_table + self.of_others))
    }

    /// One more replica of the table, on the shard that has the fewest.
    pub(super) fn take(&mut self) -> (Uuid, u16) {
        let shards = (0u16..).zip(&mut self.shards);
        let least = shards.min_by_key(|(shard, it)| (it.0, it.0 + it.1, *shard));
        let (shard, (table, _)) = least.expect("on-shards: a node has shards");
        *table += 1;
        self.of_table += 1;
        let sum: u32 = self.shards.iter().map(|(table, _)| *table).sum();
        debug_assert!(sum == self.of_table, "fewest-first: {} is counted wrong", self.host_id);
        (self.host_id, shard)
    }
}

/// Nodes of which a tablet has so many.
struct Part {
    /// Places in the ring, each with the number of its rack.
    members: Vec<(usize, usize)>,
    racks: usize,
    copies: usize,
}

fn parts(ring: &Ring, wants: &Wants) -> Vec<Part> {
    let all = 0..ring.members().len();
    let centers = match wants {
        // Racks do not matter: there is one.
        Wants::Anywhere(copies) => {
            let members = all.map(|member| (member, 0)).collect();
            return vec![Part { members, racks: 1, copies: *copies }];
        }
        Wants::Per(centers) => centers,
    };
    let of_center = |(center, want): (usize, &Want)| {
        let in_it = |member: usize| {
            let site = ring.site(member);
            let rack = usize::from(site.rack);
            (usize::from(site.center) == center && want.open[rack]).then_some((member, rack))
        };
        let members: Vec<(usize, usize)> = all.clone().filter_map(in_it).collect();
        let (count, copies) = (members.len(), want.copies);
        assert!(copies <= count, "as-many-as-there-are: {copies} replicas on {count} nodes");
        Part { members, racks: want.open.len(), copies: want.copies }
    };
    centers.iter().enumerate().map(of_center).collect()
}

/// The replicas of each tablet.
fn choose(ring: &Ring, wants: &Wants, count: u32, load: &Load) -> Vec<Box<[(Uuid, u16)]>> {
    let members = ring.members().iter();
    let mut hosts: Vec<Host> =
        members.map(|member| Host::new(member.host_id, member.shards, load)).collect();
    let parts = parts(ring, wants);
    let of_tablet = |tablet: usize| {
        let of_part = |part: &Part| of_part(part, &mut hosts, tablet);
        parts.iter().flat_map(of_part).collect()
    };
    (0..count as usize).map(of_tablet).collect()
}

/// The replicas of one tablet in a part of the cluster: racks that have the fewest of them first.
/// Nodes that are equally full take turns.
fn of_part(part: &Part, hosts: &mut [Host], tablet: usize) -> Vec<(Uuid, u16)> {
    let count = part.members.len();
    let mut in_rack = vec![0u32; part.racks];
    let mut taken = vec![false; count];
    let mut out = Vec::with_capacity(part.copies);
    for _ in 0..part.copies {
        let key = |at: &usize| {
            let (member, rack) = part.members[*at];
            let turn = (at + count - tablet % count) % count;
            (in_rack[rack], hosts[member].fullness(), turn)
        };
        let chosen = (0..count).filter(|at| !taken[*at]).min_by_key(key);
        let chosen = chosen.expect("as-many-as-there-are: more replicas than nodes");
        let (member, rack) = part.members[chosen];
        taken[chosen] = true;
        in_rack[rack] += 1;
        out.push(hosts[member].take());
    }
    let total: usize = in_rack.iter().map(|count| *count as usize).sum();
    assert!(total == part.copies, "as-many-as-there-are: {total} of {}", part.copies);
    let distinct = taken.iter().filter(|taken| **taken).count() == out.len();
    debug_assert!(distinct, "one-a-host: {out:?}");
    out
}

#[cfg(test)]
mod tests;
