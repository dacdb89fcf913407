//! The REST API: which request is what, and what it does.
//!
//! In reading order: [`answer`], then one module for each part of the path. Paths, parameters and
//! JSON are those of ScyllaDB's API, which `nodetool` and harnesses speak.
//!
//! Invariants
//!  - *names-first*: keyspaces and tables are looked up before anything is done to any of them.

mod column_family;
mod compaction_manager;
mod snapshots;
mod storage_service;
mod system;
mod tables;
mod upkeep;

use crate::call::{Answer, Call};
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

/// Does what a request asks for.
pub(crate) async fn answer(door: &Door, call: Call) -> Answer {
    let path: Vec<&str> = call.path.iter().map(String::as_str).collect();
    let answered = match path.split_first() {
        Some((&"storage_service", ["snapshots", rest @ ..])) => {
            snapshots::answer(door, &call, rest).await
        }
        Some((&"storage_service", rest)) => storage_service::answer(door, &call, rest).await,
        Some((&"column_family", rest)) => column_family::answer(door, &call, rest).await,
        Some((&"compaction_manager", rest)) => compaction_manager::answer(door, &call, rest).await,
        Some((&"system", rest)) => system::answer(&call, rest).await,
        _ => None,
    };
    match answered {
        Some(Ok(answer) | Err(answer)) => answer,
        None => Answer::refused(404, format!("Not found: {} /{}", call.method, path.join("/"))),
    }
}

/// What a part of the API makes of a request; `None`: nothing that it knows.
type Answered = Option<Result<Answer, Answer>>;
