//! Where the replicas of a token are, and who is alive, as coordinators ask: of the cluster, or of
//! what a test says in its place ([`crate::Coordinator::join`]).
//!
//! Invariants
//!  - *here-or-nodes*: whether a table is here alone does not depend on the token.

use crate::plan::holders::Neighbor;
use cluster::{Cluster, Lives, MemberState, TableEntry};
use model::{Token, Uuid};
use std::collections::BTreeMap;
use std::rc::Rc;

pub use cluster::placement::{Replica, Replicas, Sides};

/// What is known of the cluster.
pub trait Places {
    /// The replicas of a token, nearest first.
    fn replicas(&self, table: &TableEntry, token: Token) -> Replicas;
    /// Who is to have what is written to a token: the same, and behind them those that are only
    /// written, while nodes join or leave.
    fn writers(&self, table: &TableEntry, token: Token) -> Replicas {
        self.replicas(table, token)
    }
    /// The replicas of a token, and up to which token, that one included, the same nodes have it.
    fn stretch(&self, table: &TableEntry, token: Token) -> (Replicas, Token);
    /// Whether a node is thought to be alive; this one always is.
    fn is_alive(&self, host: Uuid) -> bool;
    /// What [`Places::is_alive`] goes by: another one where that has changed. `None`: it may change
    /// unseen.
    fn lives(&self) -> Option<Rc<Lives>> {
        None
    }
    /// Whether a node has left for good.
    fn has_left(&self, _host: Uuid) -> bool {
        false
    }
    /// Whether a node is in that data centre.
    fn is_in(&self, host: Uuid, data_center: &str) -> bool;
    /// All nodes that are there but this one.
    fn others(&self) -> Vec<Uuid>;
    /// Those of them that may have rows.
    fn keepers(&self) -> Vec<Uuid> {
        self.others()
    }
    /// How operators know a node, and whether it was declared lost.
    fn told(&self, host: Uuid) -> (String, bool) {
        (host.to_string(), false)
    }
    /// Those of them that are in the data centre of this node.
    fn neighbors(&self) -> Vec<Neighbor>;
    /// Tokens, ascending, between two of which all tokens have their replicas in one order.
    fn cuts(&self, _: &TableEntry) -> Vec<Token> {
        Vec::new()
    }
    /// Whether all nodes can do what has that name (`cluster::features`).
    fn enables(&self, feature: &str) -> bool;
}

impl Places for Cluster {
    fn replicas(&self, table: &TableEntry, token: Token) -> Replicas {
        Cluster::replicas(self, table, token)
    }
    fn writers(&self, table: &TableEntry, token: Token) -> Replicas {
        let found = Cluster::writers(self, table, token);
        let is_here = matches!(found, Replicas::Here);
        debug_assert!(
            is_here == matches!(Cluster::replicas(self, table, token), Replicas::Here),
            "here-or-nodes: {found:?} are written"
        );
        found
    }
    fn stretch(&self, table: &TableEntry, token: Token) -> (Replicas, Token) {
        let found = self.placement().stretch(table, token);
        debug_assert!(token <= found.last, "here-or-nodes: {token:?} is behind its stretch");
        (found.replicas, found.last)
    }
    fn is_alive(&self, host: Uuid) -> bool {
        Cluster::is_alive(self, host)
    }
    fn lives(&self) -> Option<Rc<Lives>> {
        Some(Cluster::lives(self))
    }
    fn has_left(&self, host: Uuid) -> bool {
        let topology = self.topology();
        topology.member(host).is_some_and(|member| member.state == MemberState::Left)
    }
    fn is_in(&self, host: Uuid, data_center: &str) -> bool {
        let topology = self.topology();
        topology.member(host).is_some_and(|member| member.data_center == data_center)
    }
    fn others(&self) -> Vec<Uuid> {
        let (topology, me) = (self.topology(), self.node().host_id);
        let ids = topology.present().map(|member| member.host_id);
        ids.filter(|host| *host != me).collect()
    }
    fn keepers(&self) -> Vec<Uuid> {
        let topology = self.topology();
        // Without tokens, which are for life, a node never has a row of a table.
        let owns = |host: &Uuid| topology.member(*host).is_none_or(|it| !it.tokens.is_empty());
        self.others().into_iter().filter(owns).collect()
    }
    fn told(&self, host: Uuid) -> (String, bool) {
        let topology = self.topology();
        let name = match topology.member(host) {
            Some(member) => format!("{} ({host})", member.address.ip()),
            None => host.to_string(),
        };
        (name, topology.is_lost(host))
    }
    fn neighbors(&self) -> Vec<Neighbor> {
        let (topology, me) = (self.topology(), self.node());
        let (mut racks, mut found) = (BTreeMap::new(), Vec::new());
        for member in topology.present() {
            if member.host_id == me.host_id || member.data_center != me.data_center {
                continue;
            }
            let next = racks.len() as u16;
            found.push(Neighbor {
                host_id: member.host_id,
                is_alive: Cluster::is_alive(self, member.host_id),
                rack: *racks.entry(&*member.rack).or_insert(next),
                is_own_rack: member.rack == me.rack,
            });
        }
        found
    }
    fn cuts(&self, table: &TableEntry) -> Vec<Token> {
        if !table.replicas.is_empty() {
            return Vec::new();
        }
        let topology = self.topology();
        let tokens = topology.present().flat_map(|member| member.tokens.iter().copied());
        let mut tokens: Vec<Token> = tokens.collect();
        tokens.sort_unstable();
        tokens
    }
    fn enables(&self, feature: &str) -> bool {
        self.topology().enables(feature)
    }
}
