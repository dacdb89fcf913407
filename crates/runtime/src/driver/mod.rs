//! The back ends: io_uring, epoll where io_uring is forbidden, and simulation.
//!
//! A driver gets an operation once (`submit`) and reports each exactly once, later, by a
//! completion, cancelled ones too; simulated crashes excepted. It knows operations and what other
//! threads see of its shard, and nothing of tasks, timers and groups.
//!
//! From the ground up: [`op`] and [`fs_op`] (what is asked of it), [`signals`], [`sys`] (system
//! calls), [`uring`], [`epoll`], [`sim`] (a simulated machine), [`Driver`].

mod epoll;
pub(crate) mod fs_op;
pub(crate) mod op;
pub(crate) mod signals;
pub(crate) mod sim;
pub(crate) mod sys;
mod uring;

use crate::config::{Backend, StartError};
use crate::helpers::Helpers;
use crate::remote::{Completions, Remote};
use epoll::Epoll;
use op::{Op, OpId};
use sim::SimPort;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;
use uring::Uring;

/// How long a driver may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Not at all.
    Not,
    /// Until something happens, or for so long.
    AtMost(Option<Duration>),
}

/// The driver of a shard.
pub(crate) enum Driver {
    Uring(Box<Uring>),
    Epoll(Box<Epoll>),
    Sim(SimPort),
}

impl Driver {
    /// The driver that `backend` asks for, for the shard that is `remote` to others.
    pub(crate) fn new(
        backend: Backend,
        remote: &Arc<Remote>,
        helpers: &Arc<Helpers>,
    ) -> Result<Driver, StartError> {
        if backend == Backend::Epoll {
            return Ok(Driver::Epoll(Box::new(Epoll::new(remote.clone(), helpers.clone())?)));
        }
        let eventfd = remote.eventfd().expect("a real shard has an eventfd");
        let uring = Uring::new(eventfd);
        Ok(Driver::Uring(Box::new(uring.map_err(|e| StartError::Kernel("io_uring_setup", e))?)))
    }

    /// Starts an operation. It stays where it is until it completes (*slab-owns*).
    pub(crate) fn submit(&mut self, id: OpId, op: &mut Op) {
        op.check();
        debug_assert!(
            op.descriptor().is_none_or(|fd| fd.is_simulated() == self.is_simulated()),
            "one-machine: {op:?}"
        );
        match self {
            Driver::Uring(uring) => uring.submit(id, op),
            Driver::Epoll(epoll) => epoll.submit(id, op),
            Driver::Sim(port) => port.submit(id, op),
        }
    }

    /// Asks for an early end of an operation, which completes all the same.
    pub(crate) fn cancel(&mut self, id: OpId, op: &mut Op) {
        match self {
            Driver::Uring(uring) => uring.cancel(id),
            Driver::Epoll(epoll) => epoll.cancel(id, op),
            Driver::Sim(port) => port.cancel(id),
        }
    }

    /// A socket is about to be closed.
    pub(crate) fn forget_socket(&mut self, fd: RawFd) {
        debug_assert!(0 <= fd, "fd-outlives-ops: {fd} is no descriptor");
        if let Driver::Epoll(epoll) = self {
            epoll.forget(fd);
        }
    }

    /// Lets the kernel work and collects completions.
    pub(crate) fn poll(&mut self, wait: Wait, completions: &mut Completions) {
        debug_assert!(
            wait == Wait::Not || !self.is_simulated(),
            "one-machine: a simulated shard sleeps"
        );
        match self {
            Driver::Uring(uring) => uring.poll(wait, completions),
            Driver::Epoll(epoll) => epoll.poll(wait, completions),
            Driver::Sim(_) => {}
        }
    }

    /// Whether a `poll` that does not wait might find something.
    pub(crate) fn wants_poll(&mut self) -> bool {
        match self {
            Driver::Uring(uring) => uring.wants_poll(),
            Driver::Epoll(epoll) => epoll.wants_poll(),
            Driver::Sim(_) => false,
        }
    }

    pub(crate) fn is_simulated(&self) -> bool {
        matches!(self, Driver::Sim(_))
    }

    /// The simulated machine, where it is one.
    pub(crate) fn simulated(&self) -> Option<&SimPort> {
        match self {
            Driver::Sim(port) => Some(port),
            Driver::Uring(_) | Driver::Epoll(_) => None,
        }
    }
}

/// Whether the kernel lets this process use io_uring.
pub(crate) fn uring_refusal() -> Option<std::io::Error> {
    uring::refusal()
}
