//! The other nodes, as a shard sees them: where they are, and which of them live.
//!
//! Where nodes are follows from the topology, and whether they live from `membership`, on shard 0,
//! which tells all shards.
//!
//! Invariants
//!  - *gone-for-good*: a node that has left is refused by every shard.
//!  - *alive-first*: a node that serves clients is alive.

use catalog::{MemberState, Topology};
use consensus::NodeId;
use messaging::{HostId, Messaging};
use model::Uuid;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What a node does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Bytes of SSTables.
    pub load_bytes: u64,
    /// Reads and scans of its clients, a second.
    pub reads: u32,
    /// Writes of its clients, a second.
    pub writes: u32,
    /// Of its busiest shard: the part of the time in which tasks ran, in thousandths.
    pub busy_permille: u16,
}

/// How another node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// Whether it answers.
    pub is_alive: bool,
    /// Whether it serves clients.
    pub serves: bool,
    /// The version of the schema that it showed last.
    pub schema: Uuid,
    /// What it does, as it said last.
    pub activity: Activity,
    /// How often it was seen to start anew.
    pub starts: u32,
    /// Since when this node hears of it, as it was started last: microseconds since the epoch.
    pub since: i64,
    /// When it answered last, if it does no longer: the same.
    pub silent_since: Option<i64>,
}

/// The lives of the other nodes, by host id. Who is not in it was not heard of yet.
pub type Lives = BTreeMap<Uuid, Life>;

/// What a shard knows of the lives of others.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    lives: RefCell<Rc<Lives>>,
}

impl Peers {
    pub(crate) fn lives(&self) -> Rc<Lives> {
        self.lives.borrow().clone()
    }

    pub(crate) fn replace(&self, lives: Lives) {
        let ready = lives.values().all(|life| life.is_alive || !life.serves);
        debug_assert!(ready, "alive-first: a node that is down serves");
        self.lives.replace(Rc::new(lives));
    }
}

/// The number of a node in the consensus: the half of its host id that is random throughout. That
/// no two have the same is seen to where a node joins.
pub(crate) fn number(host_id: Uuid) -> NodeId {
    let (_, low) = host_id.as_u64_pair();
    assert!(low != 0, "a node of number 0");
    NodeId(low)
}

/// The name of a node in messages.
pub(crate) fn host(id: Uuid) -> HostId {
    HostId(id.as_u128())
}

/// Tells the messages of this shard where the nodes are; `me` is this one.
pub(crate) fn tell_addresses(topology: &Topology, me: Uuid) {
    let Some(messaging) = Messaging::current() else { return };
    debug_assert!(!me.is_nil(), "gone-for-good: a node without a name");
    for member in topology.members().filter(|member| member.host_id != me) {
        match member.state {
            MemberState::Left => messaging.ban_here(host(member.host_id)),
            _ if topology.is_lost(member.host_id) => messaging.ban_here(host(member.host_id)),
            _ => messaging.set_peer(host(member.host_id), member.address),
        }
    }
}
