//! Who has a token: nodes and their shards, nearest first, as one shard of this node asks for it.
//!
//! Made of one version of the topology; the next version has another one. What a table or a
//! replication needs is made when it is asked for first, and kept while the table is there.
//!
//! Invariants
//!  - *covering*: every token of a table is in one stretch and no other.
//!  - *nearest-first*: this node, then those of its rack, those of its data center, all others.
//!    Between equals the order is that of the ring or of the tablet, so that not always the same
//!    node is the first.
//!  - *present*: a replica is a node that is present; what a tablet says of others is passed over.
//!  - *both-sides*: while nodes join or leave, or a tablet is on its way, those that are read come
//!    first, and those of the other side that are only written follow; each says on which
//!    [`Sides`] it is, and a list of those that are read has none of them that are not.
//!  - *bounded*: at most [`LISTS_MAX`] lists of a ring are kept.

use crate::node::NodeInfo;
use crate::schema::{ShardLocal, TableEntry};
use catalog::placement::{Here, Owners, Replication, Ring, TabletReplicas};
use catalog::{Member, TableKind, Topology};
use model::{Sharder, TableId, Token, Uuid};
use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use stdx::HashMap;

/// The lists of replicas of one kind of ring that are kept.
const LISTS_MAX: usize = 1 << 14;

/// A node that has a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    pub host_id: Uuid,
    pub is_here: bool,
    pub is_local_dc: bool,
    /// Its data center: the place among [`Placement::data_centers`].
    pub dc: u16,
    /// The shard that has it.
    pub shard: u16,
    /// Its place in the order of the ring or of the tablet, which all nodes see alike.
    pub rank: u16,
    pub sides: Sides,
}

/// On which sides of a move a replica is: the one that is read, and the other one, which is only
/// written. It will be read, or was until now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sides {
    /// On both; also where nothing moves.
    Both,
    /// On the side that is read, and not on the other one.
    Read,
    /// On the other one alone: it is written and not read.
    Written,
}

impl Sides {
    /// Whether it is read.
    #[inline]
    pub fn is_read(self) -> bool {
        self != Sides::Written
    }

    /// Whether it is on the side that is only written, where there is one.
    #[inline]
    pub fn is_written_beside(self) -> bool {
        self != Sides::Read
    }
}

/// Who has a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replicas {
    /// This node, and nobody else could.
    Here,
    /// These, nearest first; none where no node that is present has it.
    Nodes(Rc<[Replica]>),
}

/// A part of the ring that the same nodes have: after the first token, up to and including the
/// last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub after: Token,
    pub last: Token,
    /// Without tablets, the shards are those of the last token.
    pub replicas: Replicas,
}

/// A node that is present, as this one sees it.
#[derive(Clone, Copy, Debug)]
struct Seat {
    host_id: Uuid,
    shards: u16,
    dc: u16,
    /// 0 is here.
    distance: u8,
}

/// The replicas of all tokens, under one version of the topology.
pub struct Placement {
    version: u64,
    is_alone: bool,
    /// By name.
    data_centers: Vec<String>,
    /// By host id.
    seats: Vec<Seat>,
    local_dc: Option<u16>,
    ring: Ring,
    /// Of the side that is written beside the one that is read.
    other: Option<Ring>,
    tables: RefCell<HashMap<TableId, Placed>>,
    /// Those of which a table is among `tables`.
    spreads: RefCell<Vec<Weak<Spread>>>,
}

/// A table with its replicas, and what they were made of.
struct Placed {
    replication: Rc<Replication>,
    replicas: Rc<TabletReplicas>,
    /// Gone when the table is.
    table: Weak<ShardLocal>,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Ring(Rc<Spread>),
    Tablets(Rc<Tablets>),
}

impl Placement {
    /// As `me` sees it, whether it is one of the nodes or not.
    pub fn new(topology: &Topology, me: &NodeInfo) -> Placement {
        let mut named = BTreeMap::<&str, u16>::new();
        named.extend(topology.present().map(|member| (&*member.data_center, 0)));
        named.values_mut().zip(0..).for_each(|(dc, number)| *dc = number);
        let seat = |member: &Arc<Member>| {
            let is_here = member.host_id == me.host_id;
            let is_near = member.data_center == me.data_center;
            let distance = match (is_here, is_near, member.rack == me.rack) {
                (true, ..) => 0,
                (false, true, true) => 1,
                (false, true, false) => 2,
                (false, false, _) => 3,
            };
            let shards = if is_here { me.shards } else { member.shards };
            Seat { host_id: member.host_id, shards, dc: named[&*member.data_center], distance }
        };
        let seats: Vec<Seat> = topology.present().map(seat).collect();
        let once = seats.is_sorted_by(|a, b| a.host_id < b.host_id);
        assert!(once, "present: a node sits twice");
        let here = seats.iter().filter(|seat| seat.distance == 0).count();
        assert!(here <= 1, "nearest-first: {here} nodes are here");
        let sorted = seats.is_sorted_by(|a, b| a.host_id < b.host_id);
        assert!(sorted, "present: nodes are out of order");
        let here = seats.iter().filter(|seat| seat.distance == 0).count();
        assert!(here <= 1, "nearest-first: this node is there {here} times");
        Placement {
            version: topology.version(),
            is_alone: seats.iter().all(|seat| seat.distance == 0),
            local_dc: named.get(&*me.data_center).copied(),
            data_centers: named.into_keys().map(str::to_owned).collect(),
            seats,
            ring: Ring::new(topology),
            other: topology.other_side().map(|side| Ring::of(topology, side)),
            tables: RefCell::default(),
            spreads: RefCell::default(),
        }
    }

    /// That of the topology.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The data centers of the nodes that are present, by name.
    pub fn data_centers(&self) -> &[String] {
        &self.data_centers
    }

    /// That of this node, as [`Replica::dc`] has it; `None` where no node of it is present.
    pub fn local_dc(&self) -> Option<u16> {
        self.local_dc
    }

    /// Who has a token of a table, and is read.
    #[inline]
    pub fn replicas(&self, table: &TableEntry, token: Token) -> Replicas {
        match self.is_alone {
            true => Replicas::Here,
            false => self.among_many(table, token, |listed| listed.read),
        }
    }

    /// Who is to have what is written to a token of a table: those that are read, and those that
    /// are only written (*both-sides*).
    #[inline]
    pub fn writers(&self, table: &TableEntry, token: Token) -> Replicas {
        match self.is_alone {
            true => Replicas::Here,
            false => self.among_many(table, token, |listed| listed.written),
        }
    }

    fn among_many(
        &self,
        table: &TableEntry,
        token: Token,
        which: impl Fn(Listed) -> Rc<[Replica]>,
    ) -> Replicas {
        match self.kind(table) {
            None => Replicas::Here,
            Some(Kind::Ring(spread)) => {
                Replicas::Nodes(which(spread.list(self, spread.set_of(token), token)))
            }
            Some(Kind::Tablets(tablets)) => {
                Replicas::Nodes(which(tablets.list(self, tablets.replicas.tablet_of(token))))
            }
        }
    }

    /// The stretch that holds a token: a tablet, or a part of the ring.
    pub fn stretch(&self, table: &TableEntry, token: Token) -> Stretch {
        match self.kind(table) {
            None => Stretch { after: Token::MIN, last: Token::MAX, replicas: Replicas::Here },
            Some(Kind::Ring(spread)) => {
                let at = spread.stretches.partition_point(|(last, _)| *last < token);
                let before = at.checked_sub(1).map(|before| spread.stretches[before].0);
                let (last, set) = spread.stretches[at];
                let replicas = Replicas::Nodes(spread.list(self, set as usize, last).read);
                Stretch { after: before.unwrap_or(Token::MIN), last, replicas }
            }
            Some(Kind::Tablets(tablets)) => {
                let tablet = tablets.replicas.tablet_of(token);
                let (after, last) = tablets.replicas.range(tablet);
                Stretch { after, last, replicas: Replicas::Nodes(tablets.list(self, tablet).read) }
            }
        }
    }

    /// The whole ring, in stretches.
    pub fn ranges(&self, table: &TableEntry) -> Vec<Stretch> {
        let mut out = vec![self.stretch(table, Token::MIN)];
        while let Some(Stretch { last, .. }) = out.last().filter(|it| it.last != Token::MAX) {
            let next = self.stretch(table, Token(last.0 + 1));
            assert!(next.after == *last, "covering: {:?} follows {last:?}", next.after);
            out.push(next);
        }
        out
    }

    /// What finds the replicas of a table; `None`: this node has it.
    fn kind(&self, table: &TableEntry) -> Option<Kind> {
        let is_own =
            || table.kind == TableKind::Virtual || matches!(*table.replication, Replication::Local);
        if self.is_alone || is_own() {
            return None;
        }
        if let Some(placed) = self.tables.borrow().get(&table.schema.id)
            && Rc::ptr_eq(&placed.replication, &table.replication)
            && ShardLocal::are_shown(table, &placed.replicas)
        {
            return Some(placed.kind.clone());
        }
        Some(self.place(table))
    }

    /// Makes what finds the replicas of a table, and forgets that of tables which are gone.
    fn place(&self, table: &TableEntry) -> Kind {
        let mut tables = self.tables.borrow_mut();
        tables.retain(|_, placed| 0 < placed.table.strong_count());
        self.spreads.borrow_mut().retain(|spread| 0 < spread.strong_count());
        let replicas = ShardLocal::replicas_of(table);
        let kind = match replicas.is_empty() {
            true => Kind::Ring(self.spread(&table.replication)),
            false => Kind::Tablets(Rc::new(Tablets::new(self, replicas.clone()))),
        };
        let placed = Placed {
            replication: table.replication.clone(),
            replicas,
            table: Rc::downgrade(&table.local),
            kind: kind.clone(),
        };
        tables.insert(table.schema.id, placed);
        kind
    }

    /// The ring of a replication: that of other tables, where they have the same.
    fn spread(&self, replication: &Replication) -> Rc<Spread> {
        let mut spreads = self.spreads.borrow_mut();
        let mut known = spreads.iter().filter_map(Weak::upgrade);
        if let Some(found) = known.find(|spread| spread.replication == *replication) {
            return found;
        }
        assert!(!self.is_alone, "present: the ring of a node alone");
        let made = Rc::new(Spread::new(self, replication));
        spreads.push(Rc::downgrade(&made));
        made
    }

    /// Where a node that is present sits.
    fn seat_of(&self, host_id: Uuid) -> Option<usize> {
        self.seats.binary_search_by_key(&host_id, |seat| seat.host_id).ok()
    }

    fn replica(&self, seat: usize, shard: u16, (rank, sides): (u16, Sides)) -> Replica {
        let Seat { host_id, dc, distance, shards } = self.seats[seat];
        debug_assert!(shard < shards, "present: shard {shard} of {shards} of node {host_id}");
        let (is_here, is_local_dc) = (distance == 0, Some(dc) == self.local_dc);
        Replica { host_id, is_here, is_local_dc, dc, shard, rank, sides }
    }
}

/// The replicas of a token: those that are read, and all that are written.
#[derive(Clone, Debug)]
struct Listed {
    read: Rc<[Replica]>,
    /// The same list where nobody is only written.
    written: Rc<[Replica]>,
}

impl Listed {
    /// Of those that are read, nearest first, and those that are only written.
    fn of(read: Vec<Replica>, only_written: Vec<Replica>) -> Listed {
        let apart = read.iter().all(|one| only_written.iter().all(|it| it.host_id != one.host_id));
        debug_assert!(apart, "both-sides: {read:?} and {only_written:?}");
        let marked = only_written.iter().all(|it| it.sides == Sides::Written);
        assert!(marked && read.iter().all(|it| it.sides.is_read()), "both-sides: a wrong mark");
        if only_written.is_empty() {
            let read: Rc<[Replica]> = read.into();
            return Listed { written: read.clone(), read };
        }
        let written = read.iter().chain(&only_written).copied().collect();
        Listed { read: read.into(), written }
    }
}

/// By set of owners, and by the shards of a token: the sum of them on the owners.
type Lists = HashMap<(u32, u32), Listed>;

/// Seats and their ranks.
type Seats = Box<[(u16, u16)]>;

/// Who owns a range: who is read, nearest first, and who is only written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OwnerSet {
    read: Seats,
    only_written: Seats,
    /// Those that are read and not of the other side.
    only_read: Vec<u16>,
}

impl OwnerSet {
    fn seats(&self) -> impl Iterator<Item = u16> {
        self.read.iter().chain(&self.only_written).map(|(seat, _)| *seat)
    }

    /// Who owns it, whatever their order.
    fn sorted(&self) -> [Vec<u16>; 2] {
        [&self.read, &self.only_written].map(|seats| {
            let mut seats: Vec<u16> = seats.iter().map(|(seat, _)| *seat).collect();
            seats.sort_unstable();
            seats
        })
    }
}

/// A ring without tablets, as replicated in one way.
struct Spread {
    replication: Replication,
    /// Of each range, ascending: its end, and which of the sets has it.
    ranges: Vec<(Token, u32)>,
    sets: Vec<OwnerSet>,
    /// Where the nodes change: the last token, and a set that has what is up to it.
    stretches: Vec<(Token, u32)>,
    lists: RefCell<Lists>,
}

impl Spread {
    fn new(placement: &Placement, replication: &Replication) -> Spread {
        let read = Owned::of(placement, &placement.ring, replication);
        let other = placement.other.as_ref();
        let other = other.map(|ring| Owned::of(placement, ring, replication));
        let ends = match &other {
            None => (0..read.owners.ranges()).map(|index| read.owners.range(index).1).collect(),
            Some(other) => catalog::placement::ends(&read.owners, &other.owners),
        };
        let (mut ranges, mut sets) = (Vec::with_capacity(ends.len()), Vec::new());
        let mut known = BTreeMap::<OwnerSet, u32>::new();
        for last in ends {
            let set =
                OwnerSet::of(placement, read.seats(last), other.as_ref().map(|it| it.seats(last)));
            let number = *known.entry(set).or_insert_with_key(|set| {
                sets.push(set.clone());
                sets.len() as u32 - 1
            });
            ranges.push((last, number));
        }
        let mut stretches: Vec<(Token, u32)> = Vec::new();
        let same =
            |a: u32, b: u32| a == b || sets[a as usize].sorted() == sets[b as usize].sorted();
        for (last, set) in &ranges {
            match stretches.last_mut() {
                Some((end, before)) if same(*before, *set) => *end = *last,
                _ => stretches.push((*last, *set)),
            }
        }
        let covers = stretches.last().is_some_and(|(last, _)| *last == Token::MAX);
        assert!(covers, "covering: the ring has an open end");
        let (replication, lists) = (replication.clone(), RefCell::default());
        Spread { replication, ranges, sets, stretches, lists }
    }

    /// Which of the sets has a token.
    #[inline]
    fn set_of(&self, token: Token) -> usize {
        let range = self.ranges.partition_point(|(last, _)| *last < token);
        debug_assert!(range < self.ranges.len(), "covering: {token:?} is behind the last range");
        self.ranges[range].1 as usize
    }

    /// The replicas of a token that a set has.
    fn list(&self, placement: &Placement, set: usize, token: Token) -> Listed {
        let owners = &self.sets[set];
        debug_assert!(owners.seats().count() <= placement.seats.len(), "present: {owners:?}");
        let shard = |seat: u16| {
            let shards = placement.seats[usize::from(seat)].shards;
            Sharder::of_node(shards).shard_of(token)
        };
        // Shards grow with the place of the token in its section of the ring, on every node; so
        // their sum tells one combination of them from all others.
        let sum = owners.seats().map(|seat| u32::from(shard(seat))).sum();
        let mut lists = self.lists.borrow_mut();
        if let Some(list) = lists.get(&(set as u32, sum)) {
            return list.clone();
        }
        if LISTS_MAX <= lists.len() {
            lists.clear();
        }
        let of = |seats: &Seats, sides: &dyn Fn(u16) -> Sides| -> Vec<Replica> {
            let replica = |(seat, rank): &(u16, u16)| {
                placement.replica(usize::from(*seat), shard(*seat), (*rank, sides(*seat)))
            };
            seats.iter().map(replica).collect()
        };
        let is_read = |seat: u16| match owners.only_read.contains(&seat) {
            true => Sides::Read,
            false => Sides::Both,
        };
        let read = of(&owners.read, &is_read);
        let list = Listed::of(read, of(&owners.only_written, &|_| Sides::Written));
        debug_assert!(lists.len() < LISTS_MAX, "bounded: {} lists", lists.len());
        lists.insert((set as u32, sum), list.clone());
        debug_assert!(lists.len() <= LISTS_MAX, "bounded: {} lists are kept", lists.len());
        list
    }
}

/// A ring, with who owns its ranges.
struct Owned {
    owners: Owners,
    /// Of each set of owners: seats in the order of the ring.
    seats: Vec<Box<[u16]>>,
}

impl Owned {
    fn of(placement: &Placement, ring: &Ring, replication: &Replication) -> Owned {
        let seat = |member: &u16| {
            let seat = placement.seat_of(ring.members()[usize::from(*member)].host_id);
            seat.expect("present: a member of the ring") as u16
        };
        let owners = ring.owners(replication);
        let seats: Vec<Box<[u16]>> =
            owners.sets().iter().map(|set| set.iter().map(seat).collect()).collect();
        assert!(!seats.is_empty(), "covering: a ring of no set");
        Owned { owners, seats }
    }

    /// Those of the range that holds a token.
    fn seats(&self, token: Token) -> &[u16] {
        &self.seats[self.owners.set_of(self.owners.range_of(token))]
    }
}

impl OwnerSet {
    fn of(placement: &Placement, read: &[u16], other: Option<&[u16]>) -> OwnerSet {
        let ranked =
            |seats: &[u16]| -> Vec<(u16, u16)> { seats.iter().copied().zip(0..).collect() };
        let nearest_first = |mut seats: Vec<(u16, u16)>| -> Seats {
            seats.sort_by_key(|(seat, _)| placement.seats[usize::from(*seat)].distance);
            seats.into_boxed_slice()
        };
        let mut only_written = ranked(other.unwrap_or_default());
        only_written.retain(|(seat, _)| !read.contains(seat));
        let stays = |seat: &u16| other.is_none_or(|other| other.contains(seat));
        let only_read = read.iter().copied().filter(|seat| !stays(seat)).collect();
        let set = OwnerSet {
            only_read,
            read: nearest_first(ranked(read)),
            only_written: nearest_first(only_written),
        };
        debug_assert!(set.read.len() == read.len(), "present: {set:?} of {read:?}");
        set
    }
}

/// A table with tablets.
struct Tablets {
    replicas: Rc<TabletReplicas>,
    /// The nodes that do not have all shards any more on which they are said to have tablets.
    dealt_anew: BTreeSet<Uuid>,
    lists: Vec<OnceCell<Listed>>,
}

impl Tablets {
    fn new(placement: &Placement, replicas: Rc<TabletReplicas>) -> Tablets {
        let here = |seat: &Seat| Here { host_id: seat.host_id, shards: seat.shards };
        let gone = placement.seats.iter().filter(|seat| !replicas.fit(here(seat)));
        let dealt_anew = gone.map(|seat| seat.host_id).collect();
        let lists = vec![OnceCell::new(); replicas.count()];
        assert!(!lists.is_empty(), "covering: a table without tablets");
        Tablets { replicas, dealt_anew, lists }
    }

    /// The replicas of a tablet.
    fn list(&self, placement: &Placement, tablet: usize) -> Listed {
        self.lists[tablet].get_or_init(|| self.make(placement, tablet)).clone()
    }

    fn make(&self, placement: &Placement, tablet: usize) -> Listed {
        let replica = |(rank, (host_id, shard)): (usize, &(Uuid, u16)), sides: Sides| {
            let seat = placement.seat_of(*host_id)?;
            let Seat { host_id, shards, .. } = placement.seats[seat];
            let shard = match self.dealt_anew.contains(&host_id) {
                true => Here { host_id, shards }.dealt(tablet),
                false => *shard,
            };
            let replica = placement.replica(seat, shard, (rank as u16, sides));
            Some((placement.seats[seat].distance, replica))
        };
        let nearest_first = |mut found: Vec<(u8, Replica)>| -> Vec<Replica> {
            found.sort_by_key(|(distance, _)| *distance);
            found.into_iter().map(|(_, replica)| replica).collect()
        };
        let (read, other) = (self.replicas.read(tablet), self.replicas.beside(tablet));
        let is_on = |of: &[(Uuid, u16)], host: Uuid| of.iter().any(|(it, _)| *it == host);
        let is_read = |host: Uuid| match other.is_empty() || is_on(other, host) {
            true => Sides::Both,
            false => Sides::Read,
        };
        let found = read.iter().enumerate().filter_map(|it| replica(it, is_read(it.1.0))).collect();
        let found = nearest_first(found);
        let first = found.iter().position(|replica| replica.is_here);
        debug_assert!(first.is_none_or(|first| first == 0), "nearest-first: this node is later");
        debug_assert!(found.len() <= read.len(), "present: more than {} replicas", read.len());
        let beside = other.iter().enumerate().filter(|(_, (host, _))| !is_on(read, *host));
        let beside = beside.filter_map(|it| replica(it, Sides::Written)).collect();
        Listed::of(found, nearest_first(beside))
    }
}

#[cfg(test)]
mod tests;
