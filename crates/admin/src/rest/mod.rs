//! The REST API: which request is what, and what it does.
//!
//! From the ground up: `api` (the table of operations, dispatch, the check of parameters),
//! `describe` (what the API says of itself), `tables` (those that a request names), `work` (what is
//! done to them, as tasks), then one module for each part, and [`Rest`]. Paths, parameters and JSON
//! are those of ScyllaDB's API, which `nodetool` and harnesses speak.
//!
//! Invariants
//!  - *names-first*: keyspaces and tables are looked up before anything is done to any of them.

mod api;
mod column_family;
mod compaction;
mod compaction_manager;
mod config;
mod conversion_tasks;
mod conversions;
mod copies;
mod dates;
mod describe;
mod handoff;
mod identity;
mod injections;
mod latency;
mod levels;
mod look;
mod merge_tasks;
mod metrics;
mod moves;
mod peers;
mod proxy;
mod rebuild;
mod repair;
mod ring;
mod snapshots;
mod storage_service;
mod system;
mod table_metrics;
mod tables;
mod task_manager;
mod upkeep;
mod verification;
mod work;

use crate::call::{Answer, Call};
use crate::guard::Guard;
use api::Api;
use cluster::{Cluster, StorageMode, TabletOrder};
pub use identity::Mode;
use model::{TableId, Uuid};
pub use repair::Wanted;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

/// What requests are answered with.
pub struct Door {
    /// The node's schema and names.
    pub cluster: Rc<Cluster>,
    /// The version of the program.
    pub version: String,
    /// Where clients come in.
    pub transport: Rc<dyn Transport>,
    /// What goes into the log.
    pub loggers: Rc<dyn Loggers>,
    /// What is kept for other nodes.
    pub handoff: Rc<dyn Handoff>,
    /// What brings replicas up to date with each other.
    pub repairs: Rc<dyn Repairs>,
    /// Nodes that come and go.
    pub moves: Rc<dyn Moves>,
}

/// What brings replicas up to date with each other.
pub trait Repairs {
    /// A repair that was not begun.
    fn job(&self, wanted: Wanted) -> Rc<dyn RepairJob>;
    /// A comparison of a view with its table that was not begun. `mends`: what differs is mended.
    fn verification(&self, view: TableId, mends: bool) -> Rc<dyn ViewJob>;
}

/// A comparison of a view with its table.
pub trait ViewJob: RepairJob {
    /// What it has found.
    fn told(&self) -> Verified;
}

/// What was found of a view, by rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// That follow from what the node has of the table.
    pub derived: u64,
    /// Those of them that the view does not show, or not as it should.
    pub missing: u64,
    /// That the node has of the view.
    pub seen: u64,
    /// Those of them that the table does not have.
    pub ghosts: u64,
    pub mended: u64,
    /// That could not be looked at.
    pub unknown: u64,
}

/// A repair.
pub trait RepairJob {
    /// Does it, and is asked to once. The error says what was not repaired, and why.
    fn run(&self) -> Handed<Result<(), String>>;
    /// How many ranges were repaired, or were not, and how many there are.
    fn progress(&self) -> (u64, u64);
    /// What it has done, for the log.
    fn summary(&self) -> String;
    /// Ends it soon.
    fn end(&self);
}

/// Nodes that come and go, and what data move for that.
pub trait Moves {
    /// Has this node give all that it has to others, and leave. `force`: also where keyspaces then
    /// have fewer nodes than they want replicas. Ends when it has; the error says why it stays.
    fn leave(&self, force: bool) -> Handed<Result<(), String>>;
    /// Has others take over what a node had that is gone. Ends when they have.
    fn remove(&self, host: Uuid, force: bool) -> Handed<Result<(), String>>;
    /// Has a replica of a tablet go to another node. Ends when it is there; the error says why it
    /// is not.
    fn move_tablet(&self, order: TabletOrder) -> Handed<Result<(), String>>;
    /// This node removes all of these tables that it has no part of.
    fn cleanup(&self, tables: Vec<TableId>) -> Handed<Result<(), String>>;
    /// What this node takes from others now.
    fn taken(&self) -> Option<Taken>;
    /// Whether no node and no tablet moves, nor is to: as the leader knows it.
    fn is_still(&self) -> Handed<bool>;
    /// How each node stores the tables of a keyspace that is being given tablets; none of another.
    fn node_modes(&self, keyspace: String) -> Handed<Result<Vec<NodeMode>, String>>;
    /// Ends that: the keyspace has tablets, or none after all. The error says who stands in the
    /// way.
    fn finalize_conversion(&self, keyspace: String) -> Handed<Result<(), String>>;
}

/// How a node stores the tables of a keyspace that is being given tablets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeMode {
    pub host_id: Uuid,
    /// `None`: it does not say.
    pub current: Option<StorageMode>,
    /// From its next start on.
    pub intended: StorageMode,
}

/// What a node takes from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The stage of what moves, as `system.topology` calls it.
    pub stage: &'static str,
    /// Whether it is tablets that move, and not parts of the ring.
    pub of_tablets: bool,
    /// From all together.
    pub all: Giver,
    /// What it waits for, or what went wrong last; empty: nothing.
    pub text: String,
    /// From each node.
    pub from: Vec<(Uuid, Giver)>,
}

/// Ranges of tables that are taken from a node, those of them that are over, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Giver {
    pub parts: u32,
    pub parts_done: u32,
    pub bytes: u64,
}

/// The hints of the node: writes that are kept for nodes which are away; and the logged batches
/// that it keeps for others.
pub trait Handoff {
    /// Marks the hints that there are for these nodes; of none: for all.
    fn mark(&self, targets: Vec<Uuid>) -> Handed<Vec<u8>>;
    /// Whether those that were marked are sent, or are within that time. The error says what is
    /// wrong with the mark.
    fn wait(&self, point: Vec<u8>, time: Duration) -> Handed<Result<bool, String>>;
    /// Sends none, or sends them again.
    fn pause(&self, is_paused: bool) -> Handed<()>;
    /// Drops all, or those for one node.
    fn discard(&self, of: Option<Uuid>) -> Handed<()>;
    /// The nodes for which there are some.
    fn hosts(&self) -> Handed<Vec<Uuid>>;
    /// How many were kept since the start, and how many bytes wait to be.
    fn written(&self) -> Handed<(u64, u64)>;
    /// Replays the logged batches that are kept and not applied in time; tells when it has tried.
    fn replay_batches(&self) -> Handed<()>;
}

/// What [`Handoff`] answers.
pub type Handed<T> = Pin<Box<dyn Future<Output = T>>>;

/// The loggers of the process.
pub trait Loggers {
    /// Those that there are.
    fn names(&self) -> &'static [&'static str];
    /// The level of one; `None`: there is no such logger.
    fn level(&self, name: &str) -> Option<&'static str>;
    /// Sets the level of one, or of all. The error says what is not a level.
    fn set(&self, name: Option<&str>, level: &str) -> Result<(), String>;
}

/// The listeners of CQL, as operators close and open them.
pub trait Transport {
    /// Whether clients are let in.
    fn is_open(&self) -> bool;
    /// Whether the node is for its operator alone: clients are not let in until the next start.
    fn is_shut(&self) -> bool;
    /// Lets clients in. The error says why that cannot be.
    fn open(&self) -> Moved;
    /// Closes the ports, and ends the connections.
    fn close(&self) -> Moved;
}

/// How opening or closing ends.
pub type Moved = Pin<Box<dyn Future<Output = Result<(), String>>>>;

/// The REST API of a node, on shard 0.
pub struct Rest {
    door: Rc<Door>,
    api: Api,
}

impl Rest {
    pub fn new(door: Door) -> Rest {
        identity::note_start(&door);
        let door = Rc::new(door);
        moves::note_start(&door);
        copies::note_start(&door);
        Rest { door, api: api() }
    }

    /// Does what a request asks for, if the guard admits it. What the API says of itself tells
    /// nothing of the node: it is for everybody.
    pub(crate) async fn answer(&self, call: Call, guard: &Guard) -> Answer {
        if let Some(answer) = describe::answer(&self.api, &call) {
            return answer;
        }
        match guard.admit(&call) {
            Ok(()) => self.api.answer(&self.door, call).await,
            Err(refused) => refused,
        }
    }
}

/// All operations.
fn api() -> Api {
    let mut api = Api::default();
    identity::operations(&mut api);
    moves::operations(&mut api);
    conversions::operations(&mut api);
    ring::operations(&mut api);
    storage_service::operations(&mut api);
    repair::operations(&mut api);
    rebuild::operations(&mut api);
    verification::operations(&mut api);
    upkeep::operations(&mut api);
    snapshots::operations(&mut api);
    column_family::operations(&mut api);
    look::operations(&mut api);
    table_metrics::operations(&mut api);
    compaction::operations(&mut api);
    compaction_manager::operations(&mut api);
    peers::operations(&mut api);
    handoff::operations(&mut api);
    proxy::operations(&mut api);
    levels::operations(&mut api);
    system::operations(&mut api);
    config::operations(&mut api);
    metrics::operations(&mut api);
    injections::operations(&mut api);
    task_manager::operations(&mut api);
    api
}
