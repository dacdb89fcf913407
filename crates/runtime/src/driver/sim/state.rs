//! What a world consists of besides its shards: time, events, disks, the network.
//!
//! Invariants
//!  - *total-order*: events of the same time happen in the order they were made.
//!  - *stale-is-ignored*: an event for an earlier life of a node does nothing.
//!  - *never-back*: no event is made for a time that is over.
//!  - *number-once*: a descriptor's number stands for one thing, and is not used again in a life.

use super::disk::{Inode, SimDisk};
use super::network::{EndId, Flow, Network, Packet};
use super::waiter::Waiter;
use crate::clock::VIRTUAL_EPOCH_MICROS;
use crate::driver::op::Op;
use crate::driver::signals::Signal;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;
use stdx::Prng;

/// How long things take, at most, without faults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delays {
    /// A sync of a file.
    pub(crate) sync_max: Duration,
    /// A packet on its way.
    pub(crate) latency_max: Duration,
}

/// What happens at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The operation is carried out, or tried again. `mark`: see [`State::submit`].
    Perform { waiter: Waiter, mark: u64 },
    /// The operation ends because its future was dropped.
    Cancel(Waiter),
    /// The first packet on its way to this end arrives.
    Arrive(EndId),
}

/// What a descriptor stands for.
#[derive(Clone, Copy, Debug)]
enum Handle {
    File(Inode),
    Lock(Inode),
    Socket,
    Listener(usize),
    Conn(EndId),
}

#[derive(Debug)]
pub(crate) struct NodeState {
    pub(crate) life: u32,
    pub(crate) disk: SimDisk,
    handles: BTreeMap<i32, Handle>,
    next_fd: i32,
    pub(crate) skew_micros: Rc<Cell<i64>>,
    pub(crate) signals: VecDeque<Signal>,
    pub(crate) signal_waker: Option<Waker>,
}

#[derive(Debug)]
pub(crate) struct State {
    delays: Delays,
    pub(crate) now_ns: Rc<Cell<u64>>,
    pub(crate) prng: Prng,
    pub(crate) nodes: Vec<NodeState>,
    pub(crate) network: Network,
    pub(crate) hash: u64,
    events: BTreeMap<(u64, u64), Event>,
    events_made: u64,
}

impl State {
    pub(crate) fn new(seed: u64, delays: Delays) -> State {
        State {
            now_ns: Rc::new(Cell::new(0)),
            prng: Prng::from_seed(seed),
            delays,
            nodes: Vec::new(),
            network: Network::default(),
            hash: 0,
            events: BTreeMap::new(),
            events_made: 0,
        }
    }

    pub(crate) fn add_node(&mut self) -> usize {
        assert!(self.nodes.len() <= u16::MAX as usize, "number-once: a node has its own address");
        self.nodes.push(NodeState {
            life: 0,
            disk: SimDisk::new(),
            handles: BTreeMap::new(),
            next_fd: 3,
            skew_micros: Rc::new(Cell::new(0)),
            signals: VecDeque::new(),
            signal_waker: None,
        });
        self.nodes.len() - 1
    }

    /// The address of a node.
    pub(crate) fn ip(node: usize) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 0, (node >> 8) as u8, (node & 255) as u8))
    }

    /// Mixes a fact into the trace.
    pub(crate) fn trace(&mut self, fact: u64) {
        self.hash = (self.hash ^ fact).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    }

    fn now(&self) -> u64 {
        self.now_ns.get()
    }

    pub(crate) fn wall_micros(&self, node: usize) -> i64 {
        let skew = self.nodes[node].skew_micros.get();
        VIRTUAL_EPOCH_MICROS + (self.now() / 1000) as i64 + skew
    }

    // Events.

    fn at(&mut self, time_ns: u64, event: Event) {
        debug_assert!(self.now() <= time_ns, "never-back: {event:?} at {time_ns}");
        let before = self.events.insert((time_ns, self.events_made), event);
        debug_assert!(before.is_none(), "total-order: two events under one number");
        self.events_made += 1;
    }

    /// The time of the next event.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.events.keys().next().map(|(time, _)| *time)
    }

    /// The next event that is due.
    pub(crate) fn pop(&mut self) -> Option<Event> {
        let entry = self.events.first_entry().filter(|entry| entry.key().0 <= self.now_ns.get())?;
        let (time, made) = *entry.key();
        debug_assert!(made < self.events_made, "total-order: event {made} was not made");
        let event = entry.remove();
        self.trace(time ^ made << 40);
        Some(event)
    }

    fn wake(&mut self, waiters: impl IntoIterator<Item = Waiter>) {
        for waiter in waiters {
            let time = self.now() + self.prng.between(200, 5_000);
            self.at(time, Event::Perform { waiter, mark: 0 });
        }
    }

    fn latency(&mut self) -> u64 {
        let max = self.delays.latency_max.as_nanos() as u64;
        let slow = if self.prng.one_in(500) { 20 } else { 1 };
        self.prng.between(max / 20, max.max(20)) * slow
    }

    /// The time that a disk request takes.
    pub(crate) fn disk_time(&mut self, node: usize, is_sync: bool) -> u64 {
        let max = if is_sync { self.delays.sync_max.as_nanos() as u64 } else { 120_000 };
        let slow = if self.prng.one_in(200) { 10 } else { 1 };
        let slow = slow * self.nodes[node].disk.slowness as u64;
        debug_assert!(0 < slow, "never-back: a disk that takes no time");
        self.prng.between((max / 10).min(100_000), max.max(1)) * slow
    }

    // Operations.

    /// Starts an operation. Its event's mark: for a sync, the changes it covers; for a connect,
    /// when it gives up.
    pub(crate) fn submit(&mut self, waiter: Waiter, op: &Op) {
        let node = waiter.shard.node;
        debug_assert_eq!(waiter.shard.life, self.nodes[node].life, "stale-is-ignored: {op:?}");
        let (delay, mark) = match op {
            Op::Read { .. } | Op::Write { .. } | Op::Truncate { .. } | Op::Allocate { .. } => {
                (self.disk_time(node, false), 0)
            }
            Op::Open { .. } => (self.disk_time(node, false) / 4, 0),
            Op::Sync { fd } => {
                let mark = self
                    .file(node, fd.raw())
                    .map_or(0, |inode| self.nodes[node].disk.sync_mark(inode));
                (self.disk_time(node, true), mark)
            }
            Op::Close { fd } => {
                self.close(node, *fd);
                (1_000, 0)
            }
            Op::Connect { .. } => (self.latency(), self.now() + 3_000_000_000),
            _ => (self.prng.between(500, 5_000), 0),
        };
        let time = self.now() + delay;
        self.at(time, Event::Perform { waiter, mark });
    }

    pub(crate) fn cancel(&mut self, waiter: Waiter) {
        let life = self.nodes[waiter.shard.node].life;
        debug_assert_eq!(waiter.shard.life, life, "stale-is-ignored: {waiter:?}");
        let time = self.now() + 1_000;
        self.at(time, Event::Cancel(waiter));
    }

    /// Whether a cancelled operation of this kind ends early.
    pub(crate) fn is_cancellable(op: &Op) -> bool {
        use Op::{Accept, Connect, Readable, Receive, Send, SendParts};
        matches!(
            op,
            Accept { .. }
                | Connect { .. }
                | Receive { .. }
                | Send { .. }
                | SendParts { .. }
                | Readable { .. }
        )
    }

    /// Carries an operation out: its result, or `None` when it has to wait.
    pub(crate) fn perform(&mut self, waiter: Waiter, op: &mut Op, mark: u64) -> Option<i32> {
        let node = waiter.shard.node;
        debug_assert_eq!(waiter.shard.life, self.nodes[node].life, "stale-is-ignored: {op:?}");
        match op {
            Op::Accept { fd } => self.accept(waiter, fd.raw()),
            Op::Connect { fd, address } => {
                let to = address.as_socket();
                Some(self.connect(waiter, fd.raw(), to, mark).transpose()?.unwrap_or_else(|e| -e))
            }
            Op::Receive { fd, buf } => self.receive(waiter, fd.raw(), buf),
            Op::Send { fd, buf, skip } => self.send(waiter, fd.raw(), &buf[*skip..]),
            Op::SendParts { fd, parts } => {
                let skip = parts.aimed_past();
                let bytes = parts.bufs.iter().map(|part| &**part).collect::<Vec<_>>().concat();
                self.send(waiter, fd.raw(), &bytes[skip..])
            }
            Op::Close { .. } => Some(0),
            Op::Readable { .. } => None,
            _ => Some(self.perform_disk(node, op, mark).unwrap_or_else(|errno| -errno)),
        }
    }

    fn perform_disk(&mut self, node: usize, op: &mut Op, mark: u64) -> Result<i32, i32> {
        let now_micros = self.wall_micros(node);
        let fails = self.nodes[node].disk.fails(&mut self.prng);
        if let Op::Open { path, flags, .. } = op {
            let path = Path::new(std::ffi::OsStr::from_bytes(path.as_bytes()));
            let inode = self.nodes[node].disk.open(path, *flags)?;
            return Ok(self.add_handle(node, Handle::File(inode)));
        }
        let fd = match op {
            Op::Read { fd, .. }
            | Op::Write { fd, .. }
            | Op::Sync { fd }
            | Op::Truncate { fd, .. }
            | Op::Allocate { fd, .. } => fd.raw(),
            other => unreachable!("{other:?} is no operation of a disk"),
        };
        let inode = self.file(node, fd).ok_or(libc::EBADF)?;
        let disk = &mut self.nodes[node].disk;
        match op {
            Op::Read { .. } | Op::Write { .. } if fails => Err(libc::EIO),
            Op::Read { buf, offset, len, .. } => {
                let bytes = disk.read(inode, *offset, *len);
                debug_assert!(bytes.len() <= *len, "slab-owns: more than was asked for");
                buf.extend_from_slice(&bytes);
                Ok(bytes.len() as i32)
            }
            Op::Write { buf, offset, skip, .. } => {
                let offset = *offset + *skip as u64;
                Ok(disk.write(inode, offset, &buf[*skip..], now_micros)? as i32)
            }
            Op::Sync { .. } if fails => {
                disk.sync_failed(inode, mark, &mut self.prng);
                Err(libc::EIO)
            }
            Op::Sync { .. } => {
                disk.sync(inode, mark);
                Ok(0)
            }
            Op::Truncate { len, .. } => {
                disk.resize(inode, *len);
                Ok(0)
            }
            Op::Allocate { offset, len, .. } => disk.allocate(inode, *offset + *len).map(|()| 0),
            other => unreachable!("{other:?} is no operation of a disk"),
        }
    }

    /// A write that was in flight when its node died.
    pub(crate) fn interrupt(&mut self, node: usize, op: &Op) {
        if let Op::Write { fd, buf, offset, skip } = op
            && let Some(inode) = self.file(node, fd.raw())
        {
            let disk = &mut self.nodes[node].disk;
            disk.write_interrupted(inode, *offset + *skip as u64, &buf[*skip..], &mut self.prng);
        }
    }

    // Sockets.

    fn accept(&mut self, waiter: Waiter, fd: i32) -> Option<i32> {
        let node = waiter.shard.node;
        let Some(Handle::Listener(listener)) = self.nodes[node].handles.get(&fd).copied() else {
            return Some(-libc::EBADF);
        };
        let end = self.network.accept(listener, waiter)?;
        Some(self.add_handle(node, Handle::Conn(end)))
    }

    /// `Ok(None)` when there is no answer yet.
    fn connect(
        &mut self,
        waiter: Waiter,
        fd: i32,
        to: Option<SocketAddr>,
        give_up_ns: u64,
    ) -> Result<Option<i32>, i32> {
        let node = waiter.shard.node;
        let to = to.ok_or(libc::EAFNOSUPPORT)?;
        let target = match to.ip() {
            ip if ip.is_loopback() || ip == State::ip(node) => Some(node),
            ip => (0..self.nodes.len()).find(|node| State::ip(*node) == ip),
        };
        let target = target.ok_or(libc::EHOSTUNREACH)?;
        if self.network.is_cut(node, target) || self.network.is_cut(target, node) {
            if give_up_ns <= self.now() {
                return Err(libc::ETIMEDOUT);
            }
            let again = self.now() + 100_000_000;
            self.at(again, Event::Perform { waiter, mark: give_up_ns });
            return Ok(None);
        }
        let listeners = self.network.listeners(target, to);
        let listener = *self.prng.pick(&listeners).ok_or(libc::ECONNREFUSED)?;
        let ours = if to.ip().is_loopback() { to.ip() } else { State::ip(node) };
        let from = SocketAddr::new(ours, 0);
        let (end, waiters) = self.network.connect(node, from, listener, to);
        let before = self.nodes[node].handles.insert(fd, Handle::Conn(end));
        debug_assert!(matches!(before, Some(Handle::Socket)), "number-once: {before:?} connects");
        self.wake(waiters);
        Ok(Some(0))
    }

    fn receive(&mut self, waiter: Waiter, fd: i32, buf: &mut Vec<u8>) -> Option<i32> {
        let Some(end) = self.conn(waiter.shard.node, fd) else { return Some(-libc::ENOTCONN) };
        match self.network.may_read(end, waiter) {
            Flow::Wait => None,
            Flow::Now(available) if available <= 0 => Some(available),
            Flow::Now(available) => {
                let mut count = (available as usize).min(buf.capacity() - buf.len());
                if 1 < count && self.prng.one_in(4) {
                    count = self.prng.between(1, count as u64) as usize;
                }
                debug_assert!(0 < count, "slab-owns: no room to receive into");
                let (bytes, writer) = self.network.take(end, count);
                debug_assert_eq!(bytes.len(), count, "counted-unread: {count} bytes were there");
                buf.extend_from_slice(&bytes);
                self.wake(writer);
                Some(count as i32)
            }
        }
    }

    fn send(&mut self, waiter: Waiter, fd: i32, bytes: &[u8]) -> Option<i32> {
        let Some(end) = self.conn(waiter.shard.node, fd) else { return Some(-libc::ENOTCONN) };
        match self.network.may_send(end, waiter) {
            Flow::Wait => None,
            Flow::Now(room) if room < 0 => Some(room),
            Flow::Now(room) => {
                let count = bytes.len().min(room as usize);
                debug_assert!(0 < count, "bounded-window: a send of nothing");
                self.send_packet(end.peer(), Packet::Data(bytes[..count].to_vec()));
                Some(count as i32)
            }
        }
    }

    fn send_packet(&mut self, to: EndId, mut packet: Packet) {
        let (target, source) = self.network.nodes(to);
        if let Packet::Data(bytes) = &mut packet
            && self.network.take_corruption(source, target)
        {
            let at = self.prng.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << self.prng.below(8);
        }
        let time = self.now() + self.latency() + self.network.delay_ns(source, target);
        let arrival = self.network.send(to, packet, time);
        self.at(arrival, Event::Arrive(to));
    }

    /// A packet arrives, or is sent again later because its way is cut.
    pub(crate) fn arrive(&mut self, to: EndId) {
        let (target, source) = self.network.nodes(to);
        if self.network.is_cut(source, target) {
            let again = self.now() + self.prng.between(5_000_000, 50_000_000);
            self.at(again, Event::Arrive(to));
            return;
        }
        let (waiters, nobody) = self.network.arrive(to);
        self.wake(waiters);
        if nobody {
            self.send_packet(to.peer(), Packet::Reset);
        }
    }

    pub(crate) fn bind(
        &mut self,
        node: usize,
        addr: SocketAddr,
        shared: bool,
    ) -> Option<(i32, SocketAddr)> {
        let (listener, addr) = self.network.bind(node, addr, shared)?;
        Some((self.add_handle(node, Handle::Listener(listener)), addr))
    }

    pub(crate) fn bind_path(&mut self, node: usize, path: &Path) -> Option<i32> {
        let listener = self.network.bind_path(node, path)?;
        Some(self.add_handle(node, Handle::Listener(listener)))
    }

    pub(crate) fn socket(&mut self, node: usize) -> i32 {
        self.add_handle(node, Handle::Socket)
    }

    pub(crate) fn lock(&mut self, node: usize, inode: Inode) -> i32 {
        self.add_handle(node, Handle::Lock(inode))
    }

    pub(crate) fn addresses(&mut self, node: usize, fd: i32) -> Option<(SocketAddr, SocketAddr)> {
        let end = self.conn(node, fd)?;
        Some(self.network.addresses(end))
    }

    pub(crate) fn shutdown(&mut self, node: usize, fd: i32, both: bool) -> i32 {
        let Some(end) = self.conn(node, fd) else { return -libc::ENOTCONN };
        if self.network.end_writing(end) {
            self.send_packet(end.peer(), Packet::End);
        }
        if both {
            let waiters = self.network.end_reading(end);
            self.wake(waiters);
        }
        0
    }

    pub(crate) fn close(&mut self, node: usize, fd: i32) {
        match self.nodes[node].handles.remove(&fd) {
            None | Some(Handle::Socket | Handle::File(_)) => {}
            Some(Handle::Lock(inode)) => self.nodes[node].disk.unlock(inode),
            Some(Handle::Listener(listener)) => {
                for end in self.network.close_listener(listener) {
                    self.close_end(end);
                }
            }
            Some(Handle::Conn(end)) => self.close_end(end),
        }
    }

    fn close_end(&mut self, end: EndId) {
        if let Some(packet) = self.network.close(end) {
            self.send_packet(end.peer(), packet);
        }
    }

    /// Breaks the connections for which `which` holds, given the nodes of both ends.
    pub(crate) fn reset_connections(&mut self, node: usize, which: impl Fn(usize) -> bool) {
        for end in self.network.ends_at(node) {
            let (_, peer) = self.network.nodes(end);
            if which(peer) {
                let waiters = self.network.reset(end);
                self.wake(waiters);
                self.send_packet(end.peer(), Packet::Reset);
            }
        }
    }

    /// The process of a node has ended: its descriptors are closed, its connections reset.
    pub(crate) fn end_life(&mut self, node: usize) {
        self.nodes[node].life += 1;
        self.nodes[node].handles.clear();
        self.nodes[node].signals.clear();
        self.nodes[node].signal_waker = None;
        self.network.close_listeners(node);
        for end in self.network.ends_at(node) {
            self.network.reset(end);
            self.network.close(end);
            self.send_packet(end.peer(), Packet::Reset);
        }
        debug_assert!(
            self.network.ends_at(node).is_empty(),
            "open-alone: an end outlives its node"
        );
    }

    // Descriptors.

    fn add_handle(&mut self, node: usize, handle: Handle) -> i32 {
        let node = &mut self.nodes[node];
        let fd = node.next_fd;
        node.next_fd += 1;
        let before = node.handles.insert(fd, handle);
        debug_assert!(before.is_none(), "number-once: {fd} is {before:?}");
        fd
    }

    pub(crate) fn file(&self, node: usize, fd: i32) -> Option<Inode> {
        match self.nodes[node].handles.get(&fd) {
            Some(Handle::File(inode)) => Some(*inode),
            _ => None,
        }
    }

    fn conn(&self, node: usize, fd: i32) -> Option<EndId> {
        match self.nodes[node].handles.get(&fd) {
            Some(Handle::Conn(end)) => Some(*end),
            _ => None,
        }
    }
}
