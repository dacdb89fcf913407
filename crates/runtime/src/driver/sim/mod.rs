//! The simulated back end: a machine with disks, a network and signals, all of it in memory and by
//! virtual time.
//!
//! Lives on: the thread of a world, whose nodes share one [`state::State`]. Sees: operations, and
//! no shard's inside; who schedules tasks and events is `crate::sim`.
//!
//! From the ground up: `disk`, `waiter`, `network`, `state` (time, events, descriptors),
//! [`SimPort`] (a shard's way to its machine). What a crashed shard's destructors ask for is
//! refused: its life is over.

mod content;
pub(crate) mod disk;
pub(crate) mod network;
pub(crate) mod state;
pub(crate) mod waiter;

use super::fs_op::{FsOp, FsOutput};
use super::op::{Op, OpId};
use super::signals::Signal;
use crate::error::{IoError, NetError};
use state::State;
use std::cell::RefCell;
use std::net::{Shutdown, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use waiter::{ShardKey, Waiter};

/// The way of one shard.
#[derive(Clone)]
pub(crate) struct SimPort {
    pub(crate) state: Rc<RefCell<State>>,
    pub(crate) shard: ShardKey,
}

impl SimPort {
    fn node(&self) -> usize {
        self.shard.node
    }

    fn is_over(&self) -> bool {
        self.state.borrow().nodes[self.node()].life != self.shard.life
    }

    pub(crate) fn submit(&mut self, id: OpId, op: &mut Op) {
        debug_assert!(!self.is_over(), "stale-is-ignored: {op:?} of a life that is over");
        self.state.borrow_mut().submit(Waiter { shard: self.shard, op: id }, op);
    }

    pub(crate) fn cancel(&mut self, id: OpId) {
        debug_assert!(!self.is_over(), "stale-is-ignored: {id:?} of a life that is over");
        self.state.borrow_mut().cancel(Waiter { shard: self.shard, op: id });
    }

    /// The node's disk and clock decide whether a `buggify!` point fires.
    pub(crate) fn buggify(&self, one_in: u32) -> bool {
        self.state.borrow_mut().prng.one_in(one_in.max(1) as u64)
    }

    pub(crate) fn file_len(&self, fd: i32) -> u64 {
        let state = self.state.borrow();
        let inode = state.file(self.node(), fd);
        inode.map_or(0, |inode| state.nodes[self.node()].disk.len(inode))
    }

    /// The time that a path operation takes; before it is carried out.
    pub(crate) fn path_time(&self, op: &FsOp) -> Duration {
        let is_sync = matches!(op, FsOp::SyncDir(_));
        Duration::from_nanos(self.state.borrow_mut().disk_time(self.node(), is_sync))
    }

    /// Carries a path operation out.
    pub(crate) fn perform_path(&self, op: &FsOp) -> Result<FsOutput, IoError> {
        debug_assert!(!self.is_over(), "stale-is-ignored: {op:?} of a life that is over");
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let disk = &mut state.nodes[self.node()].disk;
        let failure = |errno| IoError::from_errno(op.name(), op.path(), errno);
        if matches!(op, FsOp::SyncDir(_)) && disk.fails(&mut state.prng) {
            return Err(failure(libc::EIO));
        }
        match disk.perform(op).map_err(failure)? {
            Ok(output) => Ok(output),
            Err(locked) => Ok(FsOutput::Locked(state.lock(self.node(), locked))),
        }
    }

    pub(crate) fn bind(
        &self,
        addr: SocketAddr,
        shared: bool,
    ) -> Result<(i32, SocketAddr), NetError> {
        debug_assert!(!self.is_over(), "stale-is-ignored: {addr} of a life that is over");
        let bound = self.state.borrow_mut().bind(self.node(), addr, shared);
        bound.ok_or(NetError { op: "bind", addr: Some(addr), errno: libc::EADDRINUSE })
    }

    /// Listens at a path of the node; `None` when the path is taken.
    pub(crate) fn bind_path(&self, path: &Path) -> Option<i32> {
        self.state.borrow_mut().bind_path(self.node(), path)
    }

    /// How the simulated network reaches the socket at a path of the node.
    pub(crate) fn address_of_path(&self, path: &Path) -> Option<SocketAddr> {
        self.state.borrow().network.address_of_path(self.node(), path)
    }

    /// Nothing is at a path of the node any more.
    pub(crate) fn unlink_path(&self, path: &Path) {
        if !self.is_over() {
            self.state.borrow_mut().network.unlink_path(self.node(), path);
        }
    }

    /// A new socket to connect with.
    pub(crate) fn socket(&self) -> i32 {
        self.state.borrow_mut().socket(self.node())
    }

    /// Our and the peer's address of a connection.
    pub(crate) fn addresses(&self, fd: i32) -> (SocketAddr, SocketAddr) {
        let addresses = self.state.borrow_mut().addresses(self.node(), fd);
        addresses.expect("a connected socket has addresses")
    }

    pub(crate) fn shutdown(&self, fd: i32, how: Shutdown) -> i32 {
        if self.is_over() {
            return -libc::ENOTCONN;
        }
        self.state.borrow_mut().shutdown(self.node(), fd, how == Shutdown::Both)
    }

    pub(crate) fn poll_signal(&self, cx: &mut Context<'_>) -> Poll<Signal> {
        debug_assert!(!self.is_over(), "stale-is-ignored: a life that is over takes no signal");
        let mut state = self.state.borrow_mut();
        let node = &mut state.nodes[self.shard.node];
        match node.signals.pop_front() {
            Some(signal) => Poll::Ready(signal),
            None => {
                node.signal_waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
