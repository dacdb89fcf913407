//! A simulated network: connections that deliver in order, late, or not at all.
//!
//! Invariants
//!  - *in-order*: what one end sends arrives at the other in that order, or the connection is
//!    reset.
//!  - *bounded-window*: at most `WINDOW` bytes of one end are on their way or unread.
//!  - *counted-unread*: what an end has sent and its peer has not read is on its way or in the
//!    peer's inbox, while neither is closed nor reset.
//!  - *open-alone*: only an open listener takes connections, and only an open end sends.
//!
//! Decides and keeps; never waits: callers that must wait are told to retry.

use super::waiter::Waiter;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

const WINDOW: usize = 256 << 10;

/// Ports from here on are given to who asks for any.
const PORT_MIN: u16 = 32768;

const _: () = assert!(WINDOW <= i32::MAX as usize, "bounded-window: a result tells of it");

/// What stands for a node's sockets with paths: an address of its own that nothing else listens on.
const PATHS: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 255, 255, 254));

/// So many packets on their way are counted by the assertions.
const ARRIVING_CHECKED_MAX: usize = 64;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EndId {
    pub(crate) conn: usize,
    pub(crate) side: usize,
}

impl EndId {
    pub(crate) fn peer(self) -> EndId {
        debug_assert!(self.side < 2, "a connection has two ends, not {}", self.side);
        EndId { side: 1 - self.side, ..self }
    }
}

#[derive(Debug)]
pub(crate) enum Packet {
    Data(Vec<u8>),
    End,
    Reset,
}

#[derive(Debug)]
struct End {
    node: usize,
    addr: SocketAddr,
    /// On their way to this end.
    arriving: VecDeque<Packet>,
    /// The latest arrival so far, so that none overtakes another.
    last_ns: u64,
    inbox: VecDeque<u8>,
    /// Bytes sent by this end that the peer has not read.
    unread: usize,
    peer_ended: bool,
    ended: bool,
    reset: bool,
    closed: bool,
    reader: Option<Waiter>,
    writer: Option<Waiter>,
}

#[derive(Debug)]
struct Listener {
    node: usize,
    addr: SocketAddr,
    backlog: VecDeque<EndId>,
    waiting: Vec<Waiter>,
    closed: bool,
}

/// What an end can do now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// So many bytes, or an error.
    Now(i32),
    /// Nothing: the waiter is woken when that changes.
    Wait,
}

#[derive(Debug, Default)]
pub(crate) struct Network {
    conns: Vec<[End; 2]>,
    listeners: Vec<Listener>,
    cuts: BTreeSet<(usize, usize)>,
    /// What each packet from one node to another takes besides, in nanoseconds.
    delays: BTreeMap<(usize, usize), u64>,
    /// From one node to another: a bit of the next bytes is flipped.
    corruptions: BTreeSet<(usize, usize)>,
    /// The sockets with paths, by node, and what they are called here. A dead node's stay.
    paths: BTreeMap<(usize, PathBuf), SocketAddr>,
    next_port: u16,
}

impl Network {
    fn end(&mut self, id: EndId) -> &mut End {
        &mut self.conns[id.conn][id.side]
    }

    pub(crate) fn set_cut(&mut self, from: usize, to: usize, cut: bool) {
        if cut {
            self.cuts.insert((from, to));
        } else {
            self.cuts.remove(&(from, to));
        }
    }

    pub(crate) fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cuts.contains(&(from, to))
    }

    pub(crate) fn set_delay(&mut self, from: usize, to: usize, nanos: u64) {
        self.delays.insert((from, to), nanos);
    }

    pub(crate) fn delay_ns(&self, from: usize, to: usize) -> u64 {
        self.delays.get(&(from, to)).copied().unwrap_or(0)
    }

    pub(crate) fn corrupt(&mut self, from: usize, to: usize) {
        self.corruptions.insert((from, to));
    }

    /// Whether bytes that are sent now arrive changed; those after them do not.
    pub(crate) fn take_corruption(&mut self, from: usize, to: usize) -> bool {
        self.corruptions.remove(&(from, to))
    }

    fn free_port(&mut self) -> u16 {
        let next = self.next_port.checked_add(1).unwrap_or(PORT_MIN);
        self.next_port = next.max(PORT_MIN);
        self.next_port
    }

    /// Listens; `None` when the address is taken.
    pub(crate) fn bind(
        &mut self,
        node: usize,
        mut addr: SocketAddr,
        shared: bool,
    ) -> Option<(usize, SocketAddr)> {
        if addr.port() == 0 {
            addr.set_port(self.free_port());
        }
        let taken = self.listeners.iter().any(|l| !l.closed && l.node == node && l.addr == addr);
        if taken && !shared {
            return None;
        }
        debug_assert_ne!(addr.port(), 0, "open-alone: a listener without a port");
        let (backlog, waiting) = (VecDeque::new(), Vec::new());
        self.listeners.push(Listener { node, addr, backlog, waiting, closed: false });
        Some((self.listeners.len() - 1, addr))
    }

    /// Listens at a path; `None` when the path is taken.
    pub(crate) fn bind_path(&mut self, node: usize, path: &Path) -> Option<usize> {
        if let Some(address) = self.address_of_path(node, path)
            && !self.listeners(node, address).is_empty()
        {
            return None;
        }
        let (listener, address) = self.bind(node, SocketAddr::new(PATHS, 0), false)?;
        debug_assert_eq!(address.ip(), PATHS, "open-alone: a path is not an address of the node");
        self.paths.insert((node, path.to_path_buf()), address);
        Some(listener)
    }

    pub(crate) fn address_of_path(&self, node: usize, path: &Path) -> Option<SocketAddr> {
        self.paths.get(&(node, path.to_path_buf())).copied()
    }

    pub(crate) fn unlink_path(&mut self, node: usize, path: &Path) {
        self.paths.remove(&(node, path.to_path_buf()));
    }

    /// The listeners of a node that take connections to `addr`.
    pub(crate) fn listeners(&self, node: usize, addr: SocketAddr) -> Vec<usize> {
        let takes = |l: &Listener| {
            let ip = l.addr.ip() == addr.ip() || l.addr.ip().is_unspecified();
            !l.closed && l.node == node && l.addr.port() == addr.port() && ip
        };
        let all = self.listeners.iter().enumerate();
        all.filter(|(_, listener)| takes(listener)).map(|(index, _)| index).collect()
    }

    /// Makes a connection: the client's end, and the waiter to wake at the listener.
    pub(crate) fn connect(
        &mut self,
        node: usize,
        mut from: SocketAddr,
        listener: usize,
        to: SocketAddr,
    ) -> (EndId, Vec<Waiter>) {
        from.set_port(self.free_port());
        let end = |node, addr| End {
            node,
            addr,
            arriving: VecDeque::new(),
            last_ns: 0,
            inbox: VecDeque::new(),
            unread: 0,
            peer_ended: false,
            ended: false,
            reset: false,
            closed: false,
            reader: None,
            writer: None,
        };
        let at = &mut self.listeners[listener];
        debug_assert!(!at.closed, "open-alone: {to} listens no longer");
        debug_assert_eq!(at.addr.port(), to.port(), "open-alone: {} instead of {to}", at.addr);
        self.conns.push([end(node, from), end(at.node, to)]);
        let client = EndId { conn: self.conns.len() - 1, side: 0 };
        at.backlog.push_back(client.peer());
        (client, std::mem::take(&mut at.waiting))
    }

    /// The next connection of a listener.
    pub(crate) fn accept(&mut self, listener: usize, waiter: Waiter) -> Option<EndId> {
        let listener = &mut self.listeners[listener];
        debug_assert!(!listener.closed, "open-alone: {} accepts after its end", listener.addr);
        let end = listener.backlog.pop_front();
        if end.is_none() {
            listener.waiting.push(waiter);
        }
        end
    }

    pub(crate) fn close_listener(&mut self, listener: usize) -> Vec<EndId> {
        let listener = &mut self.listeners[listener];
        debug_assert!(!listener.closed, "open-alone: {} is closed twice", listener.addr);
        listener.closed = true;
        listener.backlog.drain(..).collect()
    }

    pub(crate) fn addresses(&mut self, end: EndId) -> (SocketAddr, SocketAddr) {
        (self.end(end).addr, self.end(end.peer()).addr)
    }

    /// The nodes of an end and of its peer.
    pub(crate) fn nodes(&mut self, end: EndId) -> (usize, usize) {
        (self.end(end).node, self.end(end.peer()).node)
    }

    /// How many bytes an end may send now: zero means to wait.
    pub(crate) fn may_send(&mut self, id: EndId, waiter: Waiter) -> Flow {
        let end = self.end(id);
        if end.reset || end.ended || end.closed {
            return Flow::Now(-libc::EPIPE);
        }
        debug_assert!(end.unread <= WINDOW, "bounded-window: {} bytes", end.unread);
        match WINDOW.saturating_sub(end.unread) {
            0 => {
                end.writer = Some(waiter);
                Flow::Wait
            }
            room => Flow::Now(room as i32),
        }
    }

    /// Sends a packet to `to`, arriving not before `at_ns`; returns when it does arrive.
    pub(crate) fn send(&mut self, to: EndId, packet: Packet, at_ns: u64) -> u64 {
        match &packet {
            Packet::Data(bytes) => {
                let sender = self.end(to.peer());
                debug_assert!(!sender.ended, "open-alone: data after the end");
                sender.unread += bytes.len();
                debug_assert!(sender.unread <= WINDOW, "bounded-window: {} bytes", sender.unread);
            }
            Packet::End | Packet::Reset => self.end(to.peer()).ended = true,
        }
        let end = self.end(to);
        let before = end.last_ns;
        end.last_ns = at_ns.max(before + 1);
        end.arriving.push_back(packet);
        let arrival = end.last_ns;
        debug_assert!(before < arrival, "in-order: {arrival} ns after {before}");
        self.check_unread(to);
        arrival
    }

    /// *counted-unread*, of what is on its way to an end.
    fn check_unread(&self, to: EndId) {
        let [end, sender] = [to, to.peer()].map(|id| &self.conns[id.conn][id.side]);
        let on_its_way = |packet: &Packet| match packet {
            Packet::Data(bytes) => bytes.len(),
            Packet::End | Packet::Reset => 0,
        };
        debug_assert!(
            end.closed
                || end.reset
                || sender.reset
                || ARRIVING_CHECKED_MAX < end.arriving.len()
                || sender.unread
                    == end.inbox.len() + end.arriving.iter().map(on_its_way).sum::<usize>(),
            "counted-unread: {} bytes to {to:?}",
            sender.unread
        );
    }

    /// The first packet on its way to `to` arrives: the waiter to wake, and whether the sender
    /// learns that nothing listens there.
    pub(crate) fn arrive(&mut self, to: EndId) -> (Vec<Waiter>, bool) {
        let end = self.end(to);
        let Some(packet) = end.arriving.pop_front() else { return (Vec::new(), false) };
        if end.closed || end.reset {
            return (Vec::new(), matches!(packet, Packet::Data(_)));
        }
        match packet {
            Packet::Data(bytes) => end.inbox.extend(bytes),
            Packet::End => end.peer_ended = true,
            Packet::Reset => return (self.reset(to), false),
        }
        (self.end(to).reader.take().into_iter().collect(), false)
    }

    /// An end learns that the connection is no more.
    pub(crate) fn reset(&mut self, id: EndId) -> Vec<Waiter> {
        let end = self.end(id);
        debug_assert!(end.inbox.len() <= WINDOW, "bounded-window: {} unread", end.inbox.len());
        end.reset = true;
        end.inbox.clear();
        end.reader.take().into_iter().chain(end.writer.take()).collect()
    }

    /// What an end can read now, and whether it was already asked to wait.
    pub(crate) fn may_read(&mut self, id: EndId, waiter: Waiter) -> Flow {
        let end = self.end(id);
        if end.reset {
            return Flow::Now(-libc::ECONNRESET);
        }
        if !end.inbox.is_empty() {
            debug_assert!(end.inbox.len() <= WINDOW, "bounded-window: {} unread", end.inbox.len());
            return Flow::Now(end.inbox.len() as i32);
        }
        if end.peer_ended || end.closed {
            return Flow::Now(0);
        }
        end.reader = Some(waiter);
        Flow::Wait
    }

    /// Takes `count` bytes; tells the peer's writer that there is room.
    pub(crate) fn take(&mut self, id: EndId, count: usize) -> (Vec<u8>, Option<Waiter>) {
        let end = self.end(id);
        debug_assert!(!end.closed && !end.reset, "open-alone: {id:?} reads after its end");
        let bytes = end.inbox.drain(..count).collect();
        let peer = self.end(id.peer());
        assert!(count <= peer.unread, "counted-unread: {count} bytes of {}", peer.unread);
        peer.unread -= count;
        let writer = peer.writer.take();
        self.check_unread(id);
        (bytes, writer)
    }

    /// Whether the end may still say that it has ended; from now on it has.
    pub(crate) fn end_writing(&mut self, id: EndId) -> bool {
        let end = self.end(id);
        let first = !end.ended && !end.reset;
        end.ended = true;
        first
    }

    /// Ends pending reads of an end; the waiters to wake.
    pub(crate) fn end_reading(&mut self, id: EndId) -> Vec<Waiter> {
        let end = self.end(id);
        end.peer_ended = true;
        end.reader.take().into_iter().chain(end.writer.take()).collect()
    }

    /// An end is closed: what its peer is told, if anything.
    pub(crate) fn close(&mut self, id: EndId) -> Option<Packet> {
        let end = self.end(id);
        if std::mem::replace(&mut end.closed, true) || end.reset {
            return None;
        }
        if !end.inbox.is_empty() {
            return Some(Packet::Reset);
        }
        self.end_writing(id).then_some(Packet::End)
    }

    /// The open ends at a node.
    pub(crate) fn ends_at(&self, node: usize) -> Vec<EndId> {
        let mut ends = Vec::new();
        for (conn, pair) in self.conns.iter().enumerate() {
            for (side, end) in pair.iter().enumerate() {
                if end.node == node && !end.closed {
                    ends.push(EndId { conn, side });
                }
            }
        }
        ends
    }

    /// Closes all listeners of a node.
    pub(crate) fn close_listeners(&mut self, node: usize) {
        for listener in self.listeners.iter_mut().filter(|listener| listener.node == node) {
            listener.closed = true;
            listener.backlog.clear();
        }
    }
}
