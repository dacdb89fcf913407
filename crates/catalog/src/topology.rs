//! The nodes of the cluster as one immutable snapshot, and the changes that it can undergo; as rows
//! of `system.topology`, and back. Pure.
//!
//! A node is known to the others by its host id. Where it is, and how many shards it has, may
//! change between two starts; its data centre, rack and tokens are for life.
//!
//! A node that comes where there are data, or leaves, *moves*: who owns the ring is said twice, on
//! the old side (without those that join) and on the new one (without those that leave), and a
//! [`Stage`] says which of them is read. All that join or leave when the first stage begins move
//! together; who comes later waits for the end. What each stage is for stands in docs/cluster.md.
//!
//! Invariants
//!  - *stage-by-stage*: a stage follows the one before it; who moves does so from the first stage
//!    to the end, or back to where it was before anything is read on the new side.
//!  - *one-place*: no token is of two nodes that own tokens.
//!  - *gone-for-good*: a node that has left does not come back under its host id.
//!  - *lost-for-good*: a node that was declared lost is not heard any more, and has its place, its
//!    tokens and tablets until it is removed or replaced.
//!  - *all-have-it*: a feature is enabled when all nodes have it that are there and not lost.
//!  - *never-less*: what is enabled stays, and no node is there that lacks it, but lost ones.
//!  - *versions-grow*: each change has a later version than the one before.
//!  - *nobody-meanwhile*: while keyspaces are given tablets no node joins or leaves
//!    ([`crate::placement::conversion`]).
//!  - *only-meanwhile*: how a node is to store such keyspaces is said only while there are some.
//!  - *round-trip*: what [`mutations`] stores, [`load`] gives back.

use crate::features;
use crate::rows::partition::{PartitionWriter, Value, bigint, boolean, inet, int, text};
use crate::rows::{DamagedSchema, Row};
use crate::streams::Streams;
use crate::system_tables;
use model::value::collection::list_elements;
use model::{Sharder, Token, Uuid};
use mutation::FrozenMutation;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// The table, and its only partition.
pub const TABLE: &str = "topology";
pub const KEY: &[u8] = b"topology";

/// What a node is to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// Gets what it will own; until then it is asked for nothing, and serves no clients.
    Joining,
    /// Owns tokens and tablets.
    Normal,
    /// Gives away what it owns; until then it serves as before, if it lives.
    Leaving,
    /// Will not come back: its connections are refused.
    Left,
}

impl MemberState {
    const ALL: [(MemberState, &'static str); 4] = [
        (MemberState::Joining, "bootstrapping"),
        (MemberState::Normal, "normal"),
        (MemberState::Leaving, "decommissioning"),
        (MemberState::Left, "left"),
    ];

    /// Whether it joins or leaves.
    pub fn moves(self) -> bool {
        matches!(self, MemberState::Joining | MemberState::Leaving)
    }

    /// As `system.topology` calls it.
    pub fn name(self) -> &'static str {
        let (state, name) = MemberState::ALL[self as usize];
        assert!(state == self, "round-trip: {self:?} has another name");
        name
    }

    fn from_name(name: &str) -> Option<MemberState> {
        MemberState::ALL.iter().find(|(_, known)| *known == name).map(|(state, _)| *state)
    }
}

/// How far those that move have come. Without any, the old side is read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Who will get data removes what it has of it from an earlier time. The old side is read and
    /// written.
    Prepare,
    /// Both sides are written, the old one is read, and data are copied.
    ReadOld,
    /// Both sides are written, the new one is read.
    ReadNew,
}

impl Stage {
    const ALL: [(Stage, &'static str); 3] = [
        (Stage::Prepare, "prepare"),
        (Stage::ReadOld, "write_both_read_old"),
        (Stage::ReadNew, "write_both_read_new"),
    ];

    /// As `system.topology` calls it.
    pub fn name(self) -> &'static str {
        let (stage, name) = Stage::ALL[self as usize];
        assert!(stage == self, "round-trip: {self:?} has another name");
        name
    }

    pub(crate) fn from_name(name: &str) -> Option<Stage> {
        Stage::ALL.iter().find(|(_, known)| *known == name).map(|(stage, _)| *stage)
    }

    /// The stage that follows one, or none.
    pub(crate) fn after(before: Option<Stage>) -> Option<Stage> {
        match before {
            None => Some(Stage::Prepare),
            Some(Stage::Prepare) => Some(Stage::ReadOld),
            Some(Stage::ReadOld) => Some(Stage::ReadNew),
            Some(Stage::ReadNew) => None,
        }
    }
}

/// How a node stores the tables of keyspaces that are given tablets, or is to from its next start
/// on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StorageMode {
    /// By the ring, as before.
    Ring,
    /// By the tablets that they are to have.
    Tablets,
}

impl StorageMode {
    const ALL: [(StorageMode, &'static str); 2] =
        [(StorageMode::Ring, "vnodes"), (StorageMode::Tablets, "tablets")];

    /// As `system.topology` and operators call it.
    pub fn name(self) -> &'static str {
        let (mode, name) = StorageMode::ALL[self as usize];
        assert!(mode == self, "round-trip: {self:?} has another name");
        name
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<StorageMode> {
        StorageMode::ALL.iter().find(|(_, known)| *known == name).map(|(mode, _)| *mode)
    }
}

/// Who owns the ring while nodes move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Before: without those that join.
    Old,
    /// After: without those that leave.
    New,
}

impl Side {
    /// Whether a node that is so owns its tokens on this side.
    pub fn owns(self, state: MemberState) -> bool {
        match state {
            MemberState::Joining => self == Side::New,
            MemberState::Normal => true,
            MemberState::Leaving => self == Side::Old,
            MemberState::Left => false,
        }
    }
}

/// A node, as all nodes know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name for life.
    pub host_id: Uuid,
    pub state: MemberState,
    /// Where other nodes connect to.
    pub address: SocketAddr,
    /// Where clients connect to: the address that it says, and its port if it has one.
    pub client_address: IpAddr,
    pub client_port: Option<u16>,
    pub data_center: String,
    pub rack: String,
    /// Ascending.
    pub tokens: Vec<Token>,
    pub shards: u16,
    pub release_version: String,
    /// What it could do, by name.
    pub features: BTreeSet<String>,
}

/// A change of the topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologyChange {
    /// A node is new, or other than before.
    Set(Member),
    /// A node has left.
    Left(Uuid),
    /// A node will not come back, and was declared lost.
    Lost(Uuid),
    /// The cluster has a feature from now on.
    Enable(String),
    /// A node begins to leave.
    Leave(Uuid),
    /// Those that move come to a stage.
    Advance(Stage),
    /// Those that move have arrived: who joined is a normal one, who left has left.
    Arrive,
    /// A node does not move after all: one that joins has left, one that leaves stays. Others begin
    /// anew.
    TurnBack(Uuid),
    /// Whether tablets are moved for balance from now on.
    Balance(bool),
    /// The ring has these streams: those before that are still to be known, and one set more.
    Streams(Arc<Streams>),
    /// A keyspace begins to be given tablets.
    Convert(String),
    /// A node is to store such keyspaces so, from its next start on.
    Intend(Uuid, StorageMode),
    /// A keyspace has tablets, or is to have none after all.
    Converted(String),
}

/// The nodes of the cluster. Plain data: shards share it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    version: u64,
    members: BTreeMap<Uuid, Arc<Member>>,
    lost: BTreeSet<Uuid>,
    enabled: BTreeSet<String>,
    stage: Option<Stage>,
    /// The version at which the stage began; 0: there is none.
    session: u64,
    /// Tablets stay where they are, but for those that have to go.
    stays: bool,
    /// Of tables without tablets.
    streams: Arc<Streams>,
    /// The keyspaces that are given tablets.
    converting: BTreeSet<String>,
    /// How nodes are to store them, as far as that was said.
    intended: BTreeMap<Uuid, StorageMode>,
}

impl Topology {
    /// Grows with each change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// A node, whether it has left or not.
    pub fn member(&self, host_id: Uuid) -> Option<&Arc<Member>> {
        self.members.get(&host_id)
    }

    /// All nodes, those that have left among them, by host id.
    pub fn members(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.members.values()
    }

    /// The nodes that are there, those that join or leave among them, by host id.
    pub fn present(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.members().filter(|member| member.state != MemberState::Left)
    }

    /// Those that join or leave.
    pub fn movers(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.members().filter(|member| member.state.moves())
    }

    /// How far those that move have come.
    pub fn stage(&self) -> Option<Stage> {
        self.stage
    }

    /// Tells a stage from all others, also from the same one at another time: what is done for it
    /// has no effect any more when it is over. 0: nobody is on the move.
    pub fn session(&self) -> u64 {
        self.session
    }

    /// Whether tablets are moved for balance alone, too.
    pub fn balances(&self) -> bool {
        !self.stays
    }

    /// The streams that changes of tables without tablets go to.
    pub fn streams(&self) -> &Arc<Streams> {
        &self.streams
    }

    /// The keyspaces that are given tablets.
    pub fn converting(&self) -> &BTreeSet<String> {
        &self.converting
    }

    /// How a node is to store them from its next start on.
    pub fn intended(&self, host_id: Uuid) -> StorageMode {
        self.intended.get(&host_id).copied().unwrap_or(StorageMode::Ring)
    }

    /// The side that is read.
    pub fn read_side(&self) -> Side {
        if self.stage == Some(Stage::ReadNew) { Side::New } else { Side::Old }
    }

    /// The side that is written beside the one that is read, if there is one.
    pub fn other_side(&self) -> Option<Side> {
        match self.stage {
            None | Some(Stage::Prepare) => None,
            Some(Stage::ReadOld) => Some(Side::New),
            Some(Stage::ReadNew) => Some(Side::Old),
        }
    }

    /// Whether a node was declared lost: it has its place still, and is not to be heard.
    pub fn is_lost(&self, host_id: Uuid) -> bool {
        self.lost.contains(&host_id)
    }

    /// Those that were declared lost.
    pub fn lost(&self) -> &BTreeSet<Uuid> {
        &self.lost
    }

    /// Whether the cluster has a feature: every node that there may be can do it.
    pub fn enables(&self, feature: &str) -> bool {
        self.enabled.contains(feature)
    }

    /// Whether a feature may be used: the cluster has it, or this node is of none, as in tools that
    /// run one by itself.
    pub fn allows(&self, feature: &str) -> bool {
        self.enables(feature) || self.present().next().is_none()
    }

    /// The features that the cluster has.
    pub fn enabled(&self) -> &BTreeSet<String> {
        &self.enabled
    }

    /// What all nodes can do, and is not enabled yet (*all-have-it*).
    pub fn to_enable(&self) -> BTreeSet<String> {
        let mut counted = self.present().filter(|member| !self.is_lost(member.host_id));
        let Some(first) = counted.next() else { return BTreeSet::new() };
        let all = counted.fold(first.features.clone(), |all, member| &all & &member.features);
        &all - &self.enabled
    }

    /// What a node with these features lacks of what is enabled, for people; `None`: nothing.
    pub fn lacks(&self, features: &BTreeSet<String>) -> Option<String> {
        let missing = &self.enabled - features;
        (!missing.is_empty()).then(|| features::joined(&missing))
    }

    /// Whether a change can be made; the reason why not names the node and the thing.
    pub fn check(&self, change: &TopologyChange) -> Result<(), String> {
        let member = match change {
            TopologyChange::Convert(keyspace) => return self.check_convert(keyspace),
            TopologyChange::Intend(host_id, _) => return self.check_intend(*host_id),
            TopologyChange::Converted(keyspace) => return self.check_converting(keyspace),
            TopologyChange::Left(host_id) => return self.check_left(*host_id),
            TopologyChange::Lost(host_id) => return self.check_lost(*host_id),
            TopologyChange::Enable(feature) => return self.check_feature(feature),
            TopologyChange::Leave(host_id) => return self.check_leave(*host_id),
            TopologyChange::Advance(_) | TopologyChange::Arrive | TopologyChange::TurnBack(_) => {
                return self.check_move(change);
            }
            TopologyChange::Balance(_) => return Ok(()),
            TopologyChange::Streams(streams) => return self.check_streams(streams),
            TopologyChange::Set(member) => member,
        };
        let host_id = member.host_id;
        if self.is_lost(host_id) {
            return Err(format!("node {host_id} was declared lost and cannot come back"));
        }
        if let Some(missing) = self.lacks(&member.features) {
            return Err(format!("node {host_id} lacks features that the cluster has: {missing}"));
        }
        if let Some(before) = self.member(host_id) {
            if before.state == MemberState::Left {
                return Err(format!("node {host_id} has left the cluster and cannot come back"));
            }
            let place = |it: &Member| (it.data_center.clone(), it.rack.clone());
            if place(before) != place(member) {
                return Err(format!(
                    "node {host_id} is in data center {}, rack {}, and cannot move to {}, {}",
                    before.data_center, before.rack, member.data_center, member.rack
                ));
            }
            if before.tokens != member.tokens {
                return Err(format!("node {host_id} cannot change its tokens"));
            }
            if before.state != member.state {
                return Err(format!("node {host_id} is {}", before.state.name()));
            }
        } else {
            self.check_none_converts()?;
            if !member.tokens.is_empty() {
                self.check_still()?;
            }
        }
        for other in self.present().filter(|other| other.host_id != host_id) {
            // Who takes the place of another one has its tokens, and perhaps its address.
            let is_replaced = member.state == MemberState::Joining
                && other.state == MemberState::Leaving
                && self.is_lost(other.host_id);
            if is_replaced {
                continue;
            }
            if other.address == member.address {
                let (address, other) = (member.address, other.host_id);
                return Err(format!("node {host_id} is at {address}, where node {other} is"));
            }
            let taken =
                other.tokens.iter().find(|token| member.tokens.binary_search(token).is_ok());
            if let Some(token) = taken {
                let (token, other) = (token.0, other.host_id);
                return Err(format!("node {host_id} has token {token}, as node {other} has"));
            }
        }
        Ok(())
    }

    /// A node that is there.
    fn check_present(&self, host_id: Uuid) -> Result<&Member, String> {
        match self.member(host_id) {
            Some(member) if member.state != MemberState::Left => Ok(member),
            Some(_) => Err(format!("node {host_id} has left already")),
            None => Err(format!("node {host_id} is not known")),
        }
    }

    fn check_left(&self, host_id: Uuid) -> Result<(), String> {
        self.check_still()?;
        self.check_none_converts()?;
        self.check_present(host_id).map(drop)
    }

    fn check_lost(&self, host_id: Uuid) -> Result<(), String> {
        match self.is_lost(host_id) {
            true => Err(format!("node {host_id} was declared lost already")),
            false => self.check_present(host_id).map(drop),
        }
    }

    /// Nobody is on the move.
    fn check_still(&self) -> Result<(), String> {
        match self.stage {
            None => Ok(()),
            Some(_) => {
                let movers: Vec<String> = self.movers().map(|it| it.host_id.to_string()).collect();
                Err(format!("wait until others have joined or left: {}", movers.join(", ")))
            }
        }
    }

    fn check_leave(&self, host_id: Uuid) -> Result<(), String> {
        let member = self.check_present(host_id)?;
        if member.state.moves() {
            return Err(format!("node {host_id} is {} already", member.state.name()));
        }
        self.check_still()?;
        self.check_none_converts()?;
        let others = self.present().filter(|other| other.host_id != host_id);
        match others.filter(|it| it.state == MemberState::Normal && !it.tokens.is_empty()).count() {
            0 => Err(format!("node {host_id} is the last one that owns tokens")),
            _ => Ok(()),
        }
    }

    fn check_move(&self, change: &TopologyChange) -> Result<(), String> {
        let stage = |stage: Option<Stage>| stage.map_or("no stage", Stage::name);
        match change {
            TopologyChange::Advance(_) if self.movers().next().is_none() => {
                Err("no node joins or leaves".to_owned())
            }
            TopologyChange::Advance(next) if Stage::after(self.stage) != Some(*next) => {
                Err(format!("{} does not follow {}", next.name(), stage(self.stage)))
            }
            TopologyChange::Arrive if self.stage != Some(Stage::ReadNew) => {
                Err(format!("nobody arrives in {}", stage(self.stage)))
            }
            TopologyChange::TurnBack(host_id) => match self.check_present(*host_id)?.state {
                state if !state.moves() => Err(format!("node {host_id} is {}", state.name())),
                _ if self.stage == Some(Stage::ReadNew) => {
                    Err(format!("it is too late for node {host_id} to turn back"))
                }
                MemberState::Leaving if self.is_lost(*host_id) => {
                    Err(format!("node {host_id} was declared lost and cannot come back"))
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn check_streams(&self, streams: &Streams) -> Result<(), String> {
        let last = |of: &Streams| of.sets().last().map(|set| set.since_millis());
        match last(streams) {
            _ if !self.allows(features::CDC) => {
                Err(format!("not every node can have streams ({})", features::CDC))
            }
            None => Err("the ring cannot be left without streams".to_owned()),
            later if later <= last(&self.streams) => {
                Err(format!("streams since {later:?} do not follow {:?}", last(&self.streams)))
            }
            Some(_) => Ok(()),
        }
    }

    /// *nobody-meanwhile*
    fn check_none_converts(&self) -> Result<(), String> {
        match self.converting.iter().next() {
            None => Ok(()),
            Some(keyspace) => Err(format!(
                "keyspace {keyspace} is being migrated to tablets: nodes join and leave when that \
                 is finalized (nodetool migrate-to-tablets finalize {keyspace})"
            )),
        }
    }

    fn check_convert(&self, keyspace: &str) -> Result<(), String> {
        self.check_still()?;
        if let Some(mover) = self.movers().next() {
            return Err(format!("node {} is {}", mover.host_id, mover.state.name()));
        }
        let mut lost = self.present().filter(|member| self.is_lost(member.host_id));
        if let Some(lost) = lost.next() {
            return Err(format!("node {} was declared lost: remove it first", lost.host_id));
        }
        match self.intended.values().any(|mode| *mode == StorageMode::Tablets) {
            _ if !self.enables(features::VNODES_TO_TABLETS) => {
                let feature = features::VNODES_TO_TABLETS;
                Err(format!("not every node can migrate keyspaces to tablets ({feature})"))
            }
            true => Err("Another migration is in progress, and nodes are marked for it: start \
                         this one when that is finalized"
                .to_owned()),
            false if self.converting.contains(keyspace) => {
                Err(format!("keyspace {keyspace} is being migrated to tablets already"))
            }
            false => Ok(()),
        }
    }

    fn check_intend(&self, host_id: Uuid) -> Result<(), String> {
        match self.converting.is_empty() {
            true => Err("no migration is in progress: start that of a keyspace first".to_owned()),
            false => self.check_present(host_id).map(drop),
        }
    }

    fn check_converting(&self, keyspace: &str) -> Result<(), String> {
        match self.converting.contains(keyspace) {
            true => Ok(()),
            false => Err(format!("keyspace {keyspace} is not being migrated to tablets")),
        }
    }

    fn check_feature(&self, feature: &str) -> Result<(), String> {
        match self.to_enable().contains(feature) {
            true => Ok(()),
            false if self.enables(feature) => Err(format!("feature {feature} is enabled already")),
            false => Err(format!("not every node has feature {feature}")),
        }
    }

    /// How things would be if a node that is there left: for who has to decide about it.
    pub fn as_if_leaving(&self, host_id: Uuid) -> Topology {
        debug_assert!(!host_id.is_nil(), "gone-for-good: a node without a name");
        let mut next = self.clone();
        if self.check_present(host_id).is_ok() {
            next.set_state(host_id, MemberState::Leaving);
        }
        next
    }

    /// The next snapshot. The change was checked.
    pub fn apply(&self, change: &TopologyChange) -> Topology {
        debug_assert_eq!(self.check(change), Ok(()), "one-place, gone-for-good");
        let mut next = self.clone();
        next.version += 1;
        let count = self.members.len();
        match change {
            TopologyChange::Set(member) => {
                next.members.insert(member.host_id, Arc::new(member.clone()));
            }
            TopologyChange::Left(host_id) => {
                next.set_state(*host_id, MemberState::Left);
            }
            TopologyChange::Lost(host_id) => {
                next.lost.insert(*host_id);
            }
            TopologyChange::Enable(feature) => {
                next.enabled.insert(feature.clone());
            }
            TopologyChange::Leave(host_id) => next.set_state(*host_id, MemberState::Leaving),
            TopologyChange::Balance(balances) => next.stays = !balances,
            TopologyChange::Streams(streams) => next.streams = streams.clone(),
            TopologyChange::Convert(keyspace) => {
                next.converting.insert(keyspace.clone());
            }
            TopologyChange::Intend(host_id, mode) => {
                next.intended.insert(*host_id, *mode);
            }
            TopologyChange::Converted(keyspace) => {
                next.converting.remove(keyspace);
                if next.converting.is_empty() {
                    next.intended.clear();
                }
            }
            TopologyChange::Advance(stage) => next.stage = Some(*stage),
            TopologyChange::Arrive => {
                next.stage = None;
                for member in self.movers() {
                    let joins = member.state == MemberState::Joining;
                    let state = if joins { MemberState::Normal } else { MemberState::Left };
                    next.set_state(member.host_id, state);
                }
            }
            TopologyChange::TurnBack(host_id) => {
                next.stage = None;
                let joins =
                    self.member(*host_id).is_some_and(|it| it.state == MemberState::Joining);
                let state = if joins { MemberState::Left } else { MemberState::Normal };
                next.set_state(*host_id, state);
            }
        }
        assert!(self.version < next.version, "versions-grow: {} again", next.version);
        assert!(count <= next.members.len(), "gone-for-good: a node is forgotten");
        debug_assert!(self.lost.is_subset(&next.lost), "lost-for-good: {:?}", next.lost);
        debug_assert!(self.enabled.is_subset(&next.enabled), "never-less: {:?}", next.enabled);
        let named = next.intended.is_empty() || !next.converting.is_empty();
        assert!(named, "only-meanwhile: {:?} for no keyspace", next.intended);
        let known = self.stage.is_some() == (self.session != 0);
        assert!(known, "stage-by-stage: session {} of {:?}", self.session, self.stage);
        if next.stage != self.stage {
            next.session = if next.stage.is_some() { next.version } else { 0 };
        }
        let moves = next.movers().next().is_some();
        assert!(
            next.stage.is_none() || moves,
            "stage-by-stage: {:?}, and nobody moves",
            next.stage
        );
        next
    }

    fn set_state(&mut self, host_id: Uuid, state: MemberState) {
        let member = self.members.get_mut(&host_id).expect("gone-for-good: a node is forgotten");
        assert!(member.state != MemberState::Left, "gone-for-good: {host_id} comes back");
        Arc::make_mut(member).state = state;
    }
}

/// What makes changes durable: one partition, with one timestamp. `after`: the topology after them.
pub fn mutation(after: &Topology, changes: &[TopologyChange], timestamp: i64) -> FrozenMutation {
    assert!(changes.len() as u64 <= after.version, "versions-grow: more changes than versions");
    let mut changed = BTreeSet::new();
    for change in changes {
        match change {
            TopologyChange::Set(member) => drop(changed.insert(member.host_id)),
            TopologyChange::Left(host_id)
            | TopologyChange::Leave(host_id)
            | TopologyChange::TurnBack(host_id) => drop(changed.insert(*host_id)),
            TopologyChange::Lost(_)
            | TopologyChange::Enable(_)
            | TopologyChange::Advance(_)
            | TopologyChange::Streams(_)
            | TopologyChange::Convert(_)
            | TopologyChange::Balance(_) => {}
            TopologyChange::Intend(host_id, _) => drop(changed.insert(*host_id)),
            TopologyChange::Converted(_) => changed.extend(after.members.keys()),
            // Who that was is not said any more.
            TopologyChange::Arrive => changed.extend(after.members.keys()),
        }
    }
    let members = changed.iter().filter_map(|host_id| after.member(*host_id));
    let has_streams = changes.iter().any(|it| matches!(it, TopologyChange::Streams(_)));
    let converts = |it: &TopologyChange| {
        matches!(
            it,
            TopologyChange::Convert(_) | TopologyChange::Intend(..) | TopologyChange::Converted(_)
        )
    };
    let conversions = changes.iter().any(converts);
    write(after, members, Replaces { streams: has_streams, conversions, all: false }, timestamp)
}

/// All of a topology, in place of what there was.
pub fn whole(topology: &Topology, timestamp: i64) -> FrozenMutation {
    let count = topology.members.len() as u64;
    debug_assert!(count <= topology.version, "versions-grow: {count} nodes by fewer changes");
    let streams = !topology.streams.is_empty();
    let conversions = !topology.converting.is_empty();
    write(topology, topology.members(), Replaces { streams, conversions, all: true }, timestamp)
}

/// What is written besides what always is.
struct Replaces {
    streams: bool,
    /// Which keyspaces are given tablets, and how nodes are to store them.
    conversions: bool,
    /// What there was is deleted.
    all: bool,
}

fn write<'m>(
    topology: &Topology,
    members: impl Iterator<Item = &'m Arc<Member>>,
    replaces: Replaces,
    timestamp: i64,
) -> FrozenMutation {
    let table = system_tables::table("system", TABLE);
    let mut partition = PartitionWriter::new(&table, &[KEY], timestamp);
    if replaces.all {
        partition.delete_rows(&[]);
    }
    if replaces.streams {
        let streams = Value::Atomic(topology.streams.encode());
        partition.statics(vec![("nereid_streams", Some(streams))]);
    }
    let set =
        |texts: Vec<String>| Some(Value::Set(texts.into_iter().map(String::into_bytes).collect()));
    if replaces.conversions {
        let names = set(topology.converting.iter().cloned().collect());
        partition.statics(vec![("nereid_converting", names)]);
    }
    let lost = topology.lost.iter().map(|host_id| host_id.as_bytes().to_vec()).collect();
    let session = Uuid::from_u128(u128::from(topology.session));
    let stage = topology.stage.map_or(Some(Value::Null), |stage| text(stage.name()));
    partition.statics(vec![
        ("enabled_features", set(topology.enabled.iter().cloned().collect())),
        ("ignore_nodes", Some(Value::Set(lost))),
        ("session", Some(Value::Atomic(session.into_bytes().to_vec()))),
        ("tablet_balancing_enabled", boolean(topology.balances())),
        ("transition_state", stage),
        ("upgrade_state", text("done")),
        ("version", bigint(topology.version as i64)),
    ]);
    for member in members {
        debug_assert!(member.tokens.is_sorted(), "round-trip: tokens out of order");
        debug_assert!(0 < member.shards, "round-trip: a node without shards");
        debug_assert!(!member.rack.is_empty(), "round-trip: a node without a rack");
        let tokens: Vec<String> = member.tokens.iter().map(|token| token.0.to_string()).collect();
        let joined = tokens.join(",");
        let mut cells = vec![
            ("address", inet(member.address.ip())),
            ("client_address", inet(member.client_address)),
            ("client_port", int(member.client_port.map_or(-1, i32::from))),
            ("datacenter", text(&member.data_center)),
            ("cleanup_status", text("clean")),
            ("ignore_msb", int(i32::from(Sharder::IGNORED_BITS))),
            ("node_state", text(member.state.name())),
            ("num_tokens", int(tokens.len() as i32)),
            ("port", int(i32::from(member.address.port()))),
            ("rack", text(&member.rack)),
            ("release_version", text(&member.release_version)),
            ("shard_count", int(i32::from(member.shards))),
            ("supported_features", set(member.features.iter().cloned().collect())),
            ("tokens", set(tokens)),
            ("tokens_string", text(&joined)),
        ];
        if replaces.conversions {
            let mode = topology.intended.get(&member.host_id);
            let mode = mode.map_or(Some(Value::Null), |mode| text(mode.name()));
            cells.push(("intended_storage_mode", mode));
        }
        partition.row(&[member.host_id.as_bytes()], cells);
    }
    partition.freeze()
}

/// What the rows of the table say.
pub fn load(rows: &[Row]) -> Result<Topology, DamagedSchema> {
    let mut topology = Topology::default();
    for row in rows {
        let damaged = |what: String| DamagedSchema { table: format!("system.{TABLE}"), what };
        if let Some(version) = number::<8>(row, "version").map(i64::from_be_bytes) {
            topology.version = u64::try_from(version)
                .map_err(|_| damaged(format!("version {version} is negative")))?;
        }
        topology.enabled = texts(row, "enabled_features")
            .ok_or_else(|| damaged("enabled_features is no set of texts".to_owned()))?
            .into_iter()
            .collect();
        topology.lost = uuids(row, "ignore_nodes")
            .ok_or_else(|| damaged("ignore_nodes is no set of UUIDs".to_owned()))?;
        let stage = row.get("transition_state").map(|name| String::from_utf8_lossy(name));
        topology.stage = match stage {
            None => None,
            Some(name) => match Stage::from_name(&name) {
                None => return Err(damaged(format!("transition_state is {name}"))),
                known => known,
            },
        };
        if let Some(bytes) = row.get("nereid_streams") {
            let streams = Streams::decode(bytes).map_err(|it| damaged(it.to_string()))?;
            topology.streams = Arc::new(streams);
        }
        topology.converting = texts(row, "nereid_converting")
            .ok_or_else(|| damaged("nereid_converting is no set of texts".to_owned()))?
            .into_iter()
            .collect();
        topology.stays = row.get("tablet_balancing_enabled").is_some_and(|it| it[..] == [0]);
        let session = number::<16>(row, "session").map_or(0, u128::from_be_bytes);
        topology.session = u64::try_from(session)
            .ok()
            .filter(|session| (*session == 0) == topology.stage.is_none())
            .ok_or_else(|| damaged(format!("session {session} of stage {:?}", topology.stage)))?;
        // A partition without nodes has a row of static columns alone.
        let Some(host_id) = row.get("host_id") else { continue };
        let host_id = Uuid::from_slice(host_id);
        let host_id = host_id.map_err(|_| damaged("a host id that is none".to_owned()))?;
        let member = member(row, host_id)
            .ok_or_else(|| damaged(format!("the row of node {host_id} makes no sense")))?;
        if let Some(name) = row.get("intended_storage_mode") {
            let name = String::from_utf8_lossy(name);
            let mode = StorageMode::from_name(&name);
            let mode = mode.ok_or_else(|| damaged(format!("intended_storage_mode is {name}")))?;
            topology.intended.insert(host_id, mode);
        }
        let before = topology.members.insert(host_id, Arc::new(member));
        debug_assert!(before.is_none(), "round-trip: two rows of node {host_id}");
    }
    if topology.version < topology.members.len() as u64 {
        let (version, nodes) = (topology.version, topology.members.len());
        let what = format!("{nodes} nodes, and version {version}");
        return Err(DamagedSchema { table: format!("system.{TABLE}"), what });
    }
    if topology.converting.is_empty() && !topology.intended.is_empty() {
        let what = "a node is to store what is migrated, and nothing is migrated".to_owned();
        return Err(DamagedSchema { table: format!("system.{TABLE}"), what });
    }
    if topology.stage.is_some() && topology.movers().next().is_none() {
        let what = "nodes are on the move, and nobody joins or leaves".to_owned();
        return Err(DamagedSchema { table: format!("system.{TABLE}"), what });
    }
    Ok(topology)
}

fn member(row: &Row, host_id: Uuid) -> Option<Member> {
    let text = |name: &str| String::from_utf8(row.get(name)?.clone()).ok();
    let int = |name: &str| number::<4>(row, name).map(i32::from_be_bytes);
    let port = u16::try_from(int("port")?).ok()?;
    let client_port = int("client_port")?;
    let mut tokens = texts(row, "tokens")?
        .into_iter()
        .map(|token| token.parse().ok().map(Token))
        .collect::<Option<Vec<Token>>>()?;
    tokens.sort();
    Some(Member {
        host_id,
        state: MemberState::from_name(&text("node_state")?)?,
        address: SocketAddr::new(address(row.get("address")?)?, port),
        client_address: address(row.get("client_address")?)?,
        client_port: if client_port < 0 { None } else { Some(u16::try_from(client_port).ok()?) },
        data_center: text("datacenter")?,
        rack: text("rack")?,
        tokens,
        shards: u16::try_from(int("shard_count")?).ok().filter(|shards| 0 < *shards)?,
        release_version: text("release_version")?,
        features: texts(row, "supported_features")?.into_iter().collect(),
    })
}

fn number<const N: usize>(row: &Row, name: &str) -> Option<[u8; N]> {
    <[u8; N]>::try_from(&row.get(name)?[..]).ok()
}

/// The texts of a set; none where it is null.
fn texts(row: &Row, name: &str) -> Option<Vec<String>> {
    let Some(bytes) = row.get(name) else { return Some(Vec::new()) };
    let text =
        |part: Result<Option<&[u8]>, stdx::Damaged>| String::from_utf8(part.ok()??.to_vec()).ok();
    list_elements(bytes).map(text).collect()
}

/// The UUIDs of a set; none where it is null.
fn uuids(row: &Row, name: &str) -> Option<BTreeSet<Uuid>> {
    let Some(bytes) = row.get(name) else { return Some(BTreeSet::new()) };
    let uuid = |part: Result<Option<&[u8]>, stdx::Damaged>| Uuid::from_slice(part.ok()??).ok();
    list_elements(bytes).map(uuid).collect()
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::V4(Ipv4Addr::from(bytes)));
    }
    <[u8; 16]>::try_from(bytes).ok().map(|bytes| IpAddr::V6(Ipv6Addr::from(bytes)))
}

/// Nodes for tests.
#[cfg(any(test, feature = "testing"))]
pub mod testing {
    use super::*;

    /// Node `number` of a rack, with these tokens, at 127.0.0.number.
    pub fn member(number: u8, (data_center, rack): (&str, &str), tokens: &[i64]) -> Member {
        let ip = IpAddr::V4(Ipv4Addr::new(127, 0, 0, number));
        Member {
            host_id: Uuid::from_u128(u128::from(number)),
            state: MemberState::Normal,
            address: SocketAddr::new(ip, 7000),
            client_address: ip,
            client_port: Some(9042),
            data_center: data_center.to_owned(),
            rack: rack.to_owned(),
            tokens: tokens.iter().copied().map(Token).collect(),
            shards: 2,
            release_version: "5.0.0".to_owned(),
            features: ["A".to_owned()].into(),
        }
    }

    /// A topology of these nodes.
    pub fn topology(members: &[Member]) -> Topology {
        let set = |topology: Topology, member: &Member| {
            topology.apply(&TopologyChange::Set(member.clone()))
        };
        members.iter().fold(Topology::default(), set)
    }
}

#[cfg(test)]
mod tests;
