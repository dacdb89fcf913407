//! Group 0 on this node: what the consensus of all nodes stands on here.
//!
//! From the ground up: `rows` (a log as rows of tables; pure), [`log`] (the durable log),
//! [`payload`] (what travels in commands; pure), [`machine`] (the catalog, as commands change it),
//! `quorum` (how long they may take, and what is
//! said when they do), `change` (how commands are made), this (start and stop).

mod change;
pub mod log;
pub mod machine;
pub mod payload;
mod quorum;
mod rows;
#[cfg(test)]
mod tests;

use crate::registry::Cluster;
use change::ByLog;
use consensus::group::{Parts, Start};
use consensus::{Failed, Group, NodeId, Options, Transport};
use log::{GroupLog, command_bytes_max};
use machine::CatalogMachine;
use model::Uuid;
pub use quorum::CommandTime;
pub(crate) use quorum::unanswered;
use runtime::Erased;
use std::rc::Rc;
use storage::Storage;

/// What this node brings to the group.
pub struct Own {
    pub group: Uuid,
    /// What comes before the first entry of its log: 0, but for later generations of the group.
    pub base: u64,
    /// Its number in the group.
    pub me: NodeId,
    pub transport: Rc<dyn Transport>,
    /// Of the schema log.
    pub segment_bytes: usize,
    /// How long a change of the catalog, or a read of it, may take.
    pub within: CommandTime,
}

/// Starts this node's part of the group; from then on changes of the catalog are ordered by its
/// log. On shard 0 of a node that has booted. `tune`: other knobs than the usual.
pub fn start(
    own: Own,
    start: Start,
    tune: impl FnOnce(&mut Options) + 'static,
) -> Erased<'static, Result<Group, Failed>> {
    Erased::new(move || async move {
        let Own { group, base, me, transport, segment_bytes, within } = own;
        assert!(runtime::shard_id() == 0, "the schema log is of shard 0");
        assert!(!within.get().is_zero(), "a change takes time");
        let machine = CatalogMachine::load(base).await?;
        let mut options = Options::new(command_bytes_max(segment_bytes));
        tune(&mut options);
        let log = Rc::new(GroupLog::new(runtime::local::get::<Storage>(), group));
        let parts = Parts { me, options, log, machine: Rc::new(machine.clone()), transport };
        let group = Group::start(parts, start).await?;
        let order = ByLog { group: group.clone(), machine, within };
        runtime::local::get::<Cluster>().set_order(Some(Rc::new(order)));
        Ok(group)
    })
}
