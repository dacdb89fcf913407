//! A simulated shard's way into its world.

use crate::core::ops::{Op, OpId};
use crate::core::with;
use crate::driver::Driver;
use crate::io::IoError;
use crate::io::fs_op::{FsOp, FsOutput};
use crate::net::NetError;
use crate::signal::Signal;
use std::net::{Shutdown, SocketAddr};
use std::task::{Context, Poll};

/// The way of one shard.
#[derive(Clone)]
pub(crate) struct SimPort {}

/// The current shard's way, if it is a simulated one.
pub(crate) fn current() -> Option<SimPort> {
    with(|shard| match &*shard.driver.borrow() {
        Driver::Sim(port) => Some(port.clone()),
        Driver::Uring(_) | Driver::Epoll(_) => None,
    })
}

impl SimPort {
    pub(crate) fn submit(&mut self, _id: OpId, _op: &mut Op) {}
    pub(crate) fn cancel(&mut self, _id: OpId) {}

    pub(crate) fn file_len(&self, _fd: i32) -> u64 {
        todo!()
    }

    pub(crate) async fn fs(&self, _op: FsOp) -> Result<FsOutput, IoError> {
        todo!()
    }

    pub(crate) fn bind(
        &self,
        _addr: SocketAddr,
        _reuse: bool,
    ) -> Result<(i32, SocketAddr), NetError> {
        todo!()
    }

    /// A new socket to connect with.
    pub(crate) fn socket(&self) -> i32 {
        todo!()
    }

    /// Our and the peer's address of a connection.
    pub(crate) fn addresses(&self, _fd: i32) -> (SocketAddr, SocketAddr) {
        todo!()
    }

    pub(crate) fn shutdown(&self, _fd: i32, _how: Shutdown) -> i32 {
        todo!()
    }

    pub(crate) fn poll_signal(&self, _cx: &mut Context<'_>) -> Poll<Signal> {
        todo!()
    }
}
