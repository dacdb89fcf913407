//! The nodes of the cluster as people and drivers are told of them: who is there, who answers, and
//! who has which part of the ring. Pure but for [`Nodes::seen`].
//!
//! Invariants
//!  - *one-here*: this node is among the nodes at most once, and always where nobody else is.
//!  - *covering*: every token is in one range and no other.
//!  - *whole*: what nodes own of the ring by their own tokens is the ring.

use crate::node::NodeInfo;
use crate::peers::Activity;
use crate::registry::Cluster;
use crate::schema::TableEntry;
use catalog::placement::{Replication, Ring};
use catalog::{Member, MemberState, Topology, TopologyChange};
use model::{Token, Uuid};
use std::net::SocketAddr;
use std::sync::Arc;

/// What is known of another node from what it said last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Whether it answers.
    pub is_up: bool,
    /// The version of the schema that it shows.
    pub schema: Option<Uuid>,
    /// What it does.
    pub activity: Option<Activity>,
    /// Since when it is heard of, as it was started last, and until when it was, if it is no
    /// longer: microseconds since the epoch. Of this node and of who was not heard of: nothing.
    pub since: Option<i64>,
    pub silent_since: Option<i64>,
}

impl Heard {
    /// Bytes of its SSTables.
    pub fn load_bytes(&self) -> Option<u64> {
        self.activity.map(|activity| activity.load_bytes)
    }
}

/// A node that is present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub member: Arc<Member>,
    pub is_here: bool,
    /// Whether it was declared lost: it is not heard any more.
    pub is_lost: bool,
    pub heard: Heard,
}

impl Node {
    /// Its address, by which operators name it.
    pub fn address(&self) -> String {
        self.member.address.ip().to_string()
    }

    /// Its address for clients.
    pub fn client_address(&self) -> String {
        self.member.client_address.to_string()
    }

    /// Whether clients may connect to it: who joins has nothing to serve yet.
    pub fn is_for_clients(&self) -> bool {
        self.member.state != MemberState::Joining
    }

    /// What it does in the cluster, in one word, in small letters.
    pub fn doing(&self) -> &'static str {
        match self.member.state {
            MemberState::Leaving if self.is_lost => "removing",
            state => state.name(),
        }
    }

    /// The two letters of `nodetool status`: up or down; normal, joining, leaving.
    pub fn letters(&self) -> &'static str {
        match (self.heard.is_up, self.member.state) {
            (true, MemberState::Joining) => "UJ",
            (true, MemberState::Leaving) => "UL",
            (true, MemberState::Normal | MemberState::Left) => "UN",
            (false, MemberState::Joining) => "DJ",
            (false, MemberState::Leaving) => "DL",
            (false, MemberState::Normal | MemberState::Left) => "DN",
        }
    }

    /// Its tokens as texts.
    pub fn tokens(&self) -> Vec<String> {
        self.member.tokens.iter().map(|token| token.0.to_string()).collect()
    }
}

/// A range of the ring, after the first token, up to and including the last, which may lie before
/// the first; and the nodes that have it, as places among all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    pub after: Token,
    pub last: Token,
    pub nodes: Vec<usize>,
}

/// The nodes that are present.
#[derive(Clone, Debug)]
pub struct Nodes {
    /// By host id.
    all: Vec<Node>,
    ring: Ring,
}

/// This node as others know it.
fn own(me: &NodeInfo) -> Member {
    Member {
        host_id: me.host_id,
        state: MemberState::Normal,
        address: SocketAddr::new(me.broadcast_address, me.listen_port),
        client_address: me.rpc_address,
        client_port: me.rpc_port,
        data_center: me.data_center.clone(),
        rack: me.rack.clone(),
        tokens: me.tokens.clone(),
        shards: me.shards,
        release_version: me.release_version.to_owned(),
        features: me.features.clone(),
    }
}

impl Nodes {
    /// Those of the topology; `me` alone, where there is none yet.
    pub fn of(topology: &Topology, me: &NodeInfo, heard: impl Fn(Uuid) -> Heard) -> Nodes {
        let alone = topology.present().next().is_none();
        let of_me = alone.then(|| topology.apply(&TopologyChange::Set(own(me))));
        let topology = of_me.as_ref().unwrap_or(topology);
        let node = |member: &Arc<Member>| {
            let is_here = member.host_id == me.host_id;
            let heard = heard(member.host_id);
            let heard = Heard { is_up: is_here || heard.is_up, ..heard };
            let is_lost = topology.is_lost(member.host_id);
            Node { member: member.clone(), is_here, is_lost, heard }
        };
        let all: Vec<Node> = topology.present().map(node).collect();
        assert!(!alone || all.len() == 1 && all[0].is_here, "one-here: nobody is there");
        Nodes { all, ring: Ring::new(topology) }
    }

    /// Those that this shard knows.
    pub fn seen(cluster: &Cluster) -> Nodes {
        let lives = cluster.lives();
        let heard = |host_id: Uuid| match lives.get(&host_id) {
            Some(life) => Heard {
                is_up: life.is_alive,
                schema: Some(life.schema),
                activity: Some(life.activity),
                since: Some(life.since),
                silent_since: life.silent_since,
            },
            None => Heard::default(),
        };
        Nodes::of(&cluster.topology(), cluster.node(), heard)
    }

    /// By host id.
    pub fn all(&self) -> &[Node] {
        &self.all
    }

    /// All but this one.
    pub fn others(&self) -> impl Iterator<Item = &Node> {
        self.all.iter().filter(|node| !node.is_here)
    }

    /// The node that an operator names: by its address or its host id.
    pub fn named(&self, text: &str) -> Option<&Node> {
        let id = Uuid::parse_str(text).ok();
        let is_it = |node: &&Node| Some(node.member.host_id) == id || node.address() == text;
        self.all.iter().find(is_it)
    }

    /// The place of a node among all.
    fn place_of(&self, host_id: Uuid) -> Option<usize> {
        self.all.binary_search_by_key(&host_id, |node| node.member.host_id).ok()
    }

    /// The places of members of the ring among all.
    fn places(&self, members: &[u16]) -> Vec<usize> {
        debug_assert!(members.len() <= self.all.len(), "one-here: more members than nodes");
        let id = |member: &u16| self.ring.members()[usize::from(*member)].host_id;
        let places: Vec<usize> = members.iter().filter_map(|it| self.place_of(id(it))).collect();
        debug_assert!(places.len() == members.len(), "covering: an owner is nobody");
        places
    }

    /// Who owns each token of the ring, ascending.
    pub fn token_owners(&self) -> impl Iterator<Item = (Token, &Node)> {
        let owner = move |member: u16| &self.all[self.places(&[member])[0]];
        self.ring.points().iter().map(move |(token, member)| (*token, owner(*member)))
    }

    /// The ranges that the tokens of nodes make, each from the token before, with the nodes that
    /// have them; a table of each node's own is on this one.
    pub fn ring_ranges(&self, replication: &Replication) -> Vec<Range> {
        let owners = self.ring.owners(replication);
        let here = || (0..self.all.len()).filter(|place| self.all[*place].is_here).collect();
        let points = self.ring.points();
        let starts = points.last().into_iter().chain(points);
        let range = |((after, _), (last, _)): (&(Token, u16), &(Token, u16))| {
            let nodes = match replication {
                Replication::Local => here(),
                _ => self.places(owners.of(*last)),
            };
            Range { after: *after, last: *last, nodes }
        };
        let ranges: Vec<Range> = starts.zip(points).map(range).collect();
        debug_assert!(ranges.len() == points.len(), "covering: {} ranges", ranges.len());
        ranges
    }

    /// The tablets of a table that has any.
    pub fn tablet_ranges(&self, table: &TableEntry) -> Vec<Range> {
        assert!(!table.replicas.is_empty(), "covering: a table without tablets");
        let place = |(host, _): &(Uuid, u16)| self.place_of(*host);
        let range = |(tablet, of): (usize, &[(Uuid, u16)])| {
            let (after, last) = table.replicas.range(tablet);
            Range { after, last, nodes: of.iter().filter_map(place).collect() }
        };
        let all = 0..table.replicas.count();
        let ranges: Vec<Range> =
            all.map(|tablet| range((tablet, table.replicas.read(tablet)))).collect();
        let ends = ranges.last().is_some_and(|range| range.last == Token::MAX);
        debug_assert!(ends, "covering: nothing after the last tablet");
        ranges
    }

    /// The nodes that have a token of a table.
    pub fn of_token(&self, table: &TableEntry, token: Token) -> Vec<usize> {
        if !table.replicas.is_empty() {
            let hosts = table.replicas.read(table.replicas.tablet_of(token));
            return hosts.iter().filter_map(|(host, _)| self.place_of(*host)).collect();
        }
        match *table.replication {
            Replication::Local => {
                (0..self.all.len()).filter(|place| self.all[*place].is_here).collect()
            }
            _ => self.places(self.ring.owners(&table.replication).of(token)),
        }
    }

    /// The part of the ring of each node, by its own tokens.
    pub fn own_parts(&self) -> Vec<f64> {
        let parts = self.parts(&self.ring_ranges(&Replication::Simple(1)));
        let sum: f64 = parts.iter().sum();
        debug_assert!(self.ring.points().is_empty() || (sum - 1.0).abs() < 1e-9, "whole: {sum}");
        parts
    }

    /// The part of the ring of each node, when it has these ranges.
    pub fn parts(&self, ranges: &[Range]) -> Vec<f64> {
        let mut lengths = vec![0u128; self.all.len()];
        for Range { after, last, nodes } in ranges {
            let length = match last.biased().wrapping_sub(after.biased()) {
                0 => 1 << 64,
                length => u128::from(length),
            };
            nodes.iter().for_each(|node| lengths[*node] += length);
        }
        let most = lengths.iter().max().copied().unwrap_or(0);
        debug_assert!(most <= 1 << 64, "whole: a node has {most} of the ring");
        lengths.into_iter().map(|length| length as f64 / (1u128 << 64) as f64).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::testing::node;
    use catalog::topology::testing::{member, topology};

    fn three() -> Nodes {
        let quarter = 1i64 << 62;
        let members = [
            member(1, ("d1", "r1"), &[-quarter, quarter]),
            member(2, ("d1", "r2"), &[0]),
            member(9, ("d2", "r1"), &[i64::MAX]),
        ];
        let heard = |id: Uuid| Heard { is_up: id.as_u128() == 1, ..Heard::default() };
        Nodes::of(&topology(&members), &node(Vec::new()), heard)
    }

    #[test]
    fn who_is_alone_is_told_of_itself() {
        let me = node([-7, 5].map(Token).to_vec());
        let nodes = Nodes::of(&Topology::default(), &me, |_| Heard::default());
        let [one] = nodes.all() else { panic!("one node") };
        assert!(one.is_here && one.heard.is_up && nodes.others().next().is_none());
        assert_eq!(one.member.data_center, me.data_center);
        assert_eq!(nodes.own_parts(), [1.0]);
        let range = |after, last| Range { after: Token(after), last: Token(last), nodes: vec![0] };
        for kind in [Replication::Simple(3), Replication::Everywhere, Replication::Local] {
            assert_eq!(nodes.ring_ranges(&kind), [range(5, -7), range(-7, 5)]);
        }
        let elsewhere = Replication::PerDataCenter(vec![("d9".to_owned(), 1)].into());
        assert!(nodes.ring_ranges(&elsewhere).iter().all(|range| range.nodes.is_empty()));
    }

    #[test]
    fn nodes_are_named_by_address_and_id() {
        let nodes = three();
        let number = |text: &str| nodes.named(text).map(|node| node.member.host_id.as_u128());
        assert_eq!(number("127.0.0.2"), Some(2));
        assert_eq!(number(&Uuid::from_u128(9).to_string()), Some(9));
        assert_eq!((number("127.0.0.3"), number("x")), (None, None));
        let up: Vec<bool> = nodes.all().iter().map(|node| node.heard.is_up).collect();
        assert_eq!(up, [true, false, true]);
    }

    #[test]
    fn nodes_say_what_they_do() {
        let place = ("d1", "r1");
        let as_what =
            |number, state| Member { state, ..member(number, place, &[i64::from(number)]) };
        let members = [
            as_what(1, MemberState::Normal),
            as_what(2, MemberState::Joining),
            as_what(3, MemberState::Leaving),
            as_what(4, MemberState::Leaving),
            as_what(5, MemberState::Left),
        ];
        let lost = TopologyChange::Lost(Uuid::from_u128(4));
        let topology = topology(&members).apply(&lost);
        let heard = |id: Uuid| Heard { is_up: id.as_u128() != 4, ..Heard::default() };
        let nodes = Nodes::of(&topology, &node(Vec::new()), heard);
        let told = |node: &Node| (node.letters(), node.doing(), node.is_for_clients());
        let told: Vec<_> = nodes.all().iter().map(told).collect();
        let expected = [
            ("UN", "normal", true),
            ("UJ", "bootstrapping", false),
            ("UL", "decommissioning", true),
            ("DL", "removing", true),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn nodes_own_the_ring() {
        let nodes = three();
        let parts: Vec<f64> = nodes.own_parts().iter().map(|it| (it * 4.0).round()).collect();
        assert_eq!(parts, [2.0, 1.0, 1.0]);
        let owners: Vec<u128> =
            nodes.token_owners().map(|(_, node)| node.member.host_id.as_u128()).collect();
        assert_eq!(owners, [1, 2, 1, 9]);
        let all = nodes.ring_ranges(&Replication::Simple(3));
        assert_eq!(nodes.parts(&all), [1.0; 3]);
        let of_first: Vec<usize> = all[0].nodes.clone();
        assert_eq!(of_first, [0, 1, 2]);
        let two = Replication::PerDataCenter(vec![("d1".to_owned(), 1)].into());
        let parts = nodes.parts(&nodes.ring_ranges(&two));
        assert_eq!(parts.iter().sum::<f64>(), 1.0);
        assert_eq!(parts[2], 0.0);
    }
}
