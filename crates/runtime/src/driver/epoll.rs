//! The epoll back end, for where io_uring is forbidden: sockets by readiness, files by helper
//! threads.
//!
//! Invariants
//!  - *tried-first*: an operation waits for readiness only after the kernel said to wait, so no
//!    edge is missed.

use super::Wait;
use super::op::{Op, OpId};
use super::sys::{self, Direction, RawOp};
use crate::config::StartError;
use crate::helpers::Helpers;
use crate::remote::{Completions, Remote};
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use std::collections::VecDeque;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;
use stdx::HashMap;

const EVENTS_MAX: usize = 256;
const WAKE: u64 = u64::MAX;
/// An idle shard looks at its queues so often before it asks the kernel again.
const IDLE_LOOKS: u32 = 32;

const _: () = assert!(0 < EVENTS_MAX && 0 < IDLE_LOOKS, "tried-first: what waits is looked for");

#[derive(Debug, Default)]
struct Waiting {
    registered: bool,
    to_read: VecDeque<(OpId, RawOp)>,
    to_write: VecDeque<(OpId, RawOp)>,
}

impl Waiting {
    fn queue(&mut self, direction: Direction) -> &mut VecDeque<(OpId, RawOp)> {
        match direction {
            Direction::In => &mut self.to_read,
            Direction::Out => &mut self.to_write,
        }
    }
}

/// An epoll set and who waits for it.
pub(crate) struct Epoll {
    epoll: OwnedFd,
    /// The shard, as helper threads see it.
    remote: Arc<Remote>,
    helpers: Arc<Helpers>,
    sockets: HashMap<RawFd, Waiting>,
    events: Vec<epoll::Event>,
    done: Completions,
    looks: u32,
}

impl Epoll {
    pub(crate) fn new(remote: Arc<Remote>, helpers: Arc<Helpers>) -> Result<Epoll, StartError> {
        let refused = |what| move |error: rustix::io::Errno| StartError::Kernel(what, error.into());
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(refused("epoll_create"))?;
        let eventfd = remote.eventfd().expect("a real shard has an eventfd");
        let (data, flags) = (epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN);
        let added = epoll::add(&epoll, sys::borrow(&eventfd), data, flags);
        added.map_err(refused("epoll_ctl"))?;
        Ok(Epoll {
            epoll,
            remote,
            helpers,
            sockets: HashMap::default(),
            events: Vec::with_capacity(EVENTS_MAX),
            done: Vec::new(),
            looks: 0,
        })
    }

    pub(crate) fn submit(&mut self, id: OpId, op: &mut Op) {
        let raw = RawOp::new(op);
        match raw.socket() {
            Some((fd, direction)) => {
                if matches!(raw, RawOp::Accept { .. } | RawOp::Connect { .. }) {
                    sys::set_nonblocking(fd);
                }
                self.try_socket(id, raw, fd, direction);
            }
            None => {
                if let RawOp::Close { fd } = raw {
                    self.forget(fd);
                }
                let remote = self.remote.clone();
                self.helpers.push(Box::new(move || remote.complete(id.0, raw.perform())));
            }
        }
    }

    /// Carries a socket operation out, or lets it wait.
    fn try_socket(&mut self, id: OpId, raw: RawOp, fd: RawFd, direction: Direction) {
        let raw = match raw.perform() {
            code if code == -libc::EAGAIN => raw,
            code if code == -libc::EINPROGRESS => RawOp::Connected { fd },
            result => {
                self.done.push((id.0, result));
                return;
            }
        };
        debug_assert_eq!(raw.socket(), Some((fd, direction)), "tried-first: it waits for another");
        debug_assert!(0 <= fd, "fd-outlives-ops: {id:?} waits for {fd}");
        let waiting = self.sockets.entry(fd).or_default();
        debug_assert!(
            waiting.queue(direction).iter().all(|(waiting, _)| *waiting != id),
            "tried-first: {id:?} waits twice"
        );
        waiting.queue(direction).push_back((id, raw));
        if !waiting.registered {
            waiting.registered = true;
            let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
            let data = epoll::EventData::new_u64(fd as u64);
            let added = epoll::add(&self.epoll, sys::borrow(&fd), data, flags);
            assert!(added.is_ok(), "tried-first: epoll_ctl: {added:?}");
        }
    }

    pub(crate) fn cancel(&mut self, id: OpId, op: &mut Op) {
        // With a helper thread, or done: it completes by itself.
        let Some((fd, direction)) = RawOp::new(op).socket() else { return };
        let Some(waiting) = self.sockets.get_mut(&fd) else { return };
        let queue = waiting.queue(direction);
        if let Some(at) = queue.iter().position(|(waiting, _)| *waiting == id) {
            queue.remove(at);
            self.done.push((id.0, -libc::ECANCELED));
        }
    }

    /// A descriptor is closed, or leaves this shard.
    pub(crate) fn forget(&mut self, fd: RawFd) {
        if let Some(waiting) = self.sockets.remove(&fd)
            && waiting.registered
        {
            // It was there, so that this cannot fail.
            let _ = epoll::delete(&self.epoll, sys::borrow(&fd));
        }
    }

    pub(crate) fn wants_poll(&mut self) -> bool {
        self.looks += 1;
        !self.done.is_empty() || self.looks.is_multiple_of(IDLE_LOOKS)
    }

    pub(crate) fn poll(&mut self, wait: Wait, completions: &mut Completions) {
        let zero = Some(Duration::ZERO);
        let limit = match wait {
            Wait::Not => zero,
            Wait::AtMost(_) if !self.done.is_empty() => zero,
            Wait::AtMost(limit) => limit,
        };
        let limit = limit.and_then(|limit| rustix::event::Timespec::try_from(limit).ok());
        debug_assert!(
            EVENTS_MAX <= self.events.capacity(),
            "tried-first: room for {} events",
            self.events.capacity()
        );
        self.events.clear();
        let waited = epoll::wait(&self.epoll, spare_capacity(&mut self.events), limit.as_ref());
        match waited {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("epoll_wait: {error}"),
        }
        let events = std::mem::take(&mut self.events);
        for event in &events {
            match event.data.u64() {
                WAKE => self.drain_eventfd(),
                fd => self.retry(fd as RawFd, event.flags),
            }
        }
        self.events = events;
        completions.append(&mut self.done);
    }

    fn drain_eventfd(&self) {
        if let Some(eventfd) = self.remote.eventfd() {
            // Readable, so this does not block; the count says nothing.
            let _ = rustix::io::read(sys::borrow(&eventfd), &mut [0; 8]);
        }
    }

    fn retry(&mut self, fd: RawFd, flags: epoll::EventFlags) {
        use epoll::EventFlags;
        debug_assert!(0 <= fd, "tried-first: an event of {fd}");
        let broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        let mut waiting = Vec::new();
        let Some(socket) = self.sockets.get_mut(&fd) else { return };
        if broken || flags.contains(EventFlags::IN) {
            waiting.extend(socket.to_read.drain(..).map(|(id, raw)| (id, raw, Direction::In)));
        }
        if broken || flags.contains(EventFlags::OUT) {
            waiting.extend(socket.to_write.drain(..).map(|(id, raw)| (id, raw, Direction::Out)));
        }
        for (id, raw, direction) in waiting {
            self.try_socket(id, raw, fd, direction);
        }
    }
}
