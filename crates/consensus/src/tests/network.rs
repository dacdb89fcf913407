//! Messages between simulated nodes: late, lost, repeated, reordered; cut one way or both.

use crate::members::NodeId;
use crate::traits::{Class, Transport};
use runtime::time::Instant;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use stdx::Prng;

/// What is on its way to a node, by when it comes.
type Inbox = BTreeMap<(Instant, u64), (NodeId, Vec<u8>)>;

pub(super) struct Network {
    prng: Prng,
    number: u64,
    inboxes: BTreeMap<NodeId, Inbox>,
    cuts: BTreeSet<(NodeId, NodeId)>,
    /// Who is silent until then: what it is sent, and sends, waits.
    paused: BTreeMap<NodeId, Instant>,
    pub(super) faults: Faults,
}

/// What goes wrong, one in so many; 0: never.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    pub(super) lost: u64,
    pub(super) twice: u64,
    pub(super) late: u64,
}

impl Network {
    pub(super) fn new(seed: u64) -> Network {
        Network {
            prng: Prng::from_seed(seed),
            number: 0,
            inboxes: BTreeMap::new(),
            cuts: BTreeSet::new(),
            paused: BTreeMap::new(),
            faults: Faults::default(),
        }
    }

    pub(super) fn set_cut(&mut self, from: NodeId, to: NodeId, cut: bool) {
        match cut {
            true => self.cuts.insert((from, to)),
            false => self.cuts.remove(&(from, to)),
        };
    }

    pub(super) fn heal(&mut self) {
        self.cuts.clear();
        self.paused.clear();
        self.faults = Faults::default();
    }

    pub(super) fn pause(&mut self, node: NodeId, until: Instant) {
        self.paused.insert(node, until);
    }

    /// A process is gone, and what was on the way to it.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.inboxes.remove(&node);
    }

    fn send(&mut self, from: NodeId, to: NodeId, bytes: &[u8]) {
        let happens = |prng: &mut Prng, one_in: u64| one_in != 0 && prng.one_in(one_in);
        if self.cuts.contains(&(from, to)) || happens(&mut self.prng, self.faults.lost) {
            return;
        }
        let copies = 1 + happens(&mut self.prng, self.faults.twice) as u64;
        for _ in 0..copies {
            let late = happens(&mut self.prng, self.faults.late);
            let most = if late { 3_000_000 } else { 3_000 };
            let delay = Duration::from_micros(self.prng.between(100, most));
            let mut due = Instant::now() + delay;
            for node in [from, to] {
                due = due.max(self.paused.get(&node).copied().unwrap_or(Instant::ZERO));
            }
            self.number += 1;
            let inbox = self.inboxes.entry(to).or_default();
            inbox.insert((due, self.number), (from, bytes.to_vec()));
        }
    }

    /// What has arrived.
    pub(super) fn take(&mut self, node: NodeId) -> Vec<(NodeId, Vec<u8>)> {
        let Some(inbox) = self.inboxes.get_mut(&node) else { return Vec::new() };
        let rest = inbox.split_off(&(Instant::now(), u64::MAX));
        std::mem::replace(inbox, rest).into_values().collect()
    }
}

/// A node's way into it.
pub(super) struct Link {
    pub(super) me: NodeId,
    pub(super) network: Rc<RefCell<Network>>,
}

impl Transport for Link {
    fn send(&self, to: NodeId, _class: Class, message: Vec<u8>) {
        self.network.borrow_mut().send(self.me, to, &message);
    }
}
