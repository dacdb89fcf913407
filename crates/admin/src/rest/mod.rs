//! The REST API: which request is what, and what it does.
//!
//! In reading order: [`Rest`], `api` (the table of operations, dispatch, the check of parameters),
//! `describe` (what the API says of itself), then one module for each part. Paths, parameters and
//! JSON are those of ScyllaDB's API, which `nodetool` and harnesses speak.
//!
//! Invariants
//!  - *names-first*: keyspaces and tables are looked up before anything is done to any of them.

mod api;
mod column_family;
mod compaction;
mod compaction_manager;
mod describe;
mod snapshots;
mod storage_service;
mod system;
mod tables;
mod task_manager;
mod upkeep;
mod work;

use crate::call::{Answer, Call};
use api::Api;
use cluster::Cluster;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

/// What requests are answered with.
pub struct Door {
    /// The node's schema and names.
    pub cluster: Rc<Cluster>,
    /// The version of the program.
    pub version: String,
    /// Where clients come in.
    pub transport: Rc<dyn Transport>,
}

/// The listeners of CQL, as operators close and open them.
pub trait Transport {
    /// Whether clients are let in.
    fn is_open(&self) -> bool;
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
        Rest { door: Rc::new(door), api: api() }
    }

    /// Does what a request asks for.
    pub(crate) async fn answer(&self, call: Call) -> Answer {
        match describe::answer(&self.api, &call) {
            Some(answer) => answer,
            None => self.api.answer(&self.door, call).await,
        }
    }
}

/// All operations.
fn api() -> Api {
    let mut api = Api::default();
    storage_service::operations(&mut api);
    upkeep::operations(&mut api);
    snapshots::operations(&mut api);
    column_family::operations(&mut api);
    compaction::operations(&mut api);
    compaction_manager::operations(&mut api);
    system::operations(&mut api);
    task_manager::operations(&mut api);
    api
}
