//! Deterministic simulation: many nodes of many shards in one thread, from one seed.
//!
//! A [`World`] has a virtual clock, a simulated disk per node and a simulated network. Its
//! scheduler draws which ready task runs next; time moves a little with every poll, and jumps to
//! the next event when nothing is ready. The same seed gives the same run, which
//! [`World::trace_hash`] proves.
//!
//! Invariants
//!  - *synced-survives*: what a successful fdatasync covered, under a name that a successful
//!    `sync_dir` covered, is there after every crash.
//!  - *unsynced-may-not*: every other write may be kept, lost, or torn at 512-byte sectors; every
//!    other create, rename or unlink may be kept or undone.
//!  - *one-seed*: nothing but the seed and the program decides what happens.
//!  - *never-back*: virtual time only moves forward.
//!  - *one-life*: a node has the shards of one life; what an earlier one left does nothing.

use crate::clock::Clock;
use crate::config::{Config, ShardId};
use crate::core::node::Node;
use crate::core::{Shard, enter, group, try_with};
use crate::driver::Driver;
use crate::driver::fs_op::FsOp;
use crate::driver::signals::Signal;
use crate::driver::sim::SimPort;
use crate::driver::sim::disk::SimDisk;
use crate::driver::sim::state::{Delays, Event, State};
use crate::driver::sim::waiter::{ShardKey, Waiter};
use crate::helpers::Helpers;
use crate::remote::Remote;
use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Which of the ready tasks of a shard runs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// Any, drawn by the seed: finds what relies on an order.
    Drawn,
    /// As on a real shard: the first of the group whose turn it is by its shares. Each poll counts
    /// as the virtual time that it takes.
    ByShares,
}

/// The knobs of a world.
#[derive(Clone, Debug)]
pub struct Options {
    /// From which everything is drawn.
    pub seed: u64,
    /// Whether `buggify!` points fire.
    pub buggify: bool,
    /// The time a sync of a file takes, at most.
    pub sync_max: Duration,
    /// The time a packet takes, at most (without faults).
    pub latency_max: Duration,
    pub scheduling: Scheduling,
}

impl Options {
    /// The usual world of a seed.
    pub fn new(seed: u64) -> Options {
        Options {
            seed,
            buggify: true,
            sync_max: Duration::from_millis(2),
            latency_max: Duration::from_micros(500),
            scheduling: Scheduling::Drawn,
        }
    }
}

/// A node of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// The world.
pub struct World {
    options: Options,
    state: Rc<RefCell<State>>,
    nodes: Vec<NodeShards>,
}

/// The shards of a node, in its present life.
struct NodeShards {
    count: u16,
    shared: Option<Arc<Node>>,
    shards: Vec<Rc<Shard>>,
    is_paused: bool,
}

impl NodeShards {
    /// Those that run: none while the node is paused.
    fn awake(&self) -> &[Rc<Shard>] {
        if self.is_paused { &[] } else { &self.shards }
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "World(seed {}, {:?})", self.options.seed, self.now())
    }
}

impl World {
    /// A world without nodes.
    pub fn new(options: Options) -> World {
        if options.buggify {
            stdx::check::set_buggify(Some(buggify));
        }
        if std::env::var_os(TRACE).is_some() {
            stdx::check::set_trace(Some(note));
        }
        let delays = Delays { sync_max: options.sync_max, latency_max: options.latency_max };
        let state = Rc::new(RefCell::new(State::new(options.seed, delays)));
        World { options, state, nodes: Vec::new() }
    }

    /// Adds a node with an empty disk; it does nothing until started.
    pub fn add_node(&mut self, count: u16) -> NodeId {
        assert!(0 < count, "a node without shards");
        let index = self.state.borrow_mut().add_node();
        assert_eq!(index, self.nodes.len(), "one-life: a node has one number");
        let shards = Vec::new();
        self.nodes.push(NodeShards { count, shared: None, shards, is_paused: false });
        NodeId(index)
    }

    /// How many shards a node has from its next start on. The node must not be running.
    pub fn set_shards(&mut self, node: NodeId, shards: u16) {
        assert!(0 < shards && !self.is_running(node), "node {} runs with its shards", node.0);
        self.nodes[node.0].count = shards;
    }

    /// The address of a node.
    pub fn ip(&self, node: NodeId) -> IpAddr {
        State::ip(node.0)
    }

    /// Starts a node (again): `main` is called once per shard, on it. The node must not be
    /// running.
    pub fn start<F, Fut>(&mut self, node: NodeId, main: F)
    where
        F: Fn(ShardId) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        assert!(!self.is_running(node), "one-life: node {} runs already", node.0);
        self.tell(node, format_args!("starts"));
        if !self.nodes[node.0].shards.is_empty() {
            // Its mains have ended since the last step.
            self.end_life(node);
        }
        self.make_shards(node);
        for shard in self.nodes[node.0].shards.clone() {
            enter(Some(shard.clone()));
            let (future, shared) = (main(shard.id), shard.node.clone());
            let root = async move {
                future.await;
                shared.main_ended();
            };
            shard.root.start(group::MAIN, Box::pin(root));
        }
        enter(None);
    }

    fn make_shards(&mut self, node: NodeId) {
        let at = &mut self.nodes[node.0];
        assert!(at.shards.is_empty(), "one-life: node {} has shards", node.0);
        let remotes: Vec<_> = (0..at.count).map(|_| Remote::register(None)).collect();
        let shared = Node::new(Config::new(at.count), remotes, Helpers::new(0));
        let mut state = self.state.borrow_mut();
        let life = state.nodes[node.0].life;
        let now_ns = state.now_ns.clone();
        let skew_micros = state.nodes[node.0].skew_micros.clone();
        let clock = Clock::Virtual { now_ns, skew_micros };
        at.shards = (0..at.count)
            .map(|shard| {
                let key = ShardKey { node: node.0, life, shard };
                let driver = Driver::Sim(SimPort { state: self.state.clone(), shard: key });
                Shard::new(shard, shared.clone(), clock.clone(), driver, state.prng.fork())
            })
            .collect();
        at.shared = Some(shared);
    }

    /// Writes to the trace what happens to a node.
    fn tell(&self, node: NodeId, what: fmt::Arguments<'_>) {
        if stdx::check::is_traced() {
            eprintln!("{:.6} {} {what}", self.now().as_secs_f64(), self.ip(node));
        }
    }

    /// Kills a node: its tasks are dropped and its disk keeps what it must and what it likes.
    pub fn crash(&mut self, node: NodeId) {
        self.tell(node, format_args!("is killed"));
        for shard in &self.nodes[node.0].shards {
            shard.dead.set(true);
            let mut ops = shard.ops.borrow_mut();
            for id in ops.in_flight() {
                if let Some(op) = ops.get_mut(id) {
                    self.state.borrow_mut().interrupt(node.0, op);
                }
            }
        }
        self.end_life(node);
        debug_assert!(!self.is_running(node), "one-life: node {} survives its crash", node.0);
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        state.nodes[node.0].disk.crash(&mut state.prng);
        state.trace(node.0 as u64 ^ 0xdead);
    }

    /// Drops what a node's process had.
    fn end_life(&mut self, node: NodeId) {
        let orderly = self.nodes[node.0].shards.iter().all(|shard| !shard.dead.get());
        if !orderly {
            self.state.borrow_mut().end_life(node.0);
        }
        for shard in std::mem::take(&mut self.nodes[node.0].shards) {
            enter(Some(shard.clone()));
            shard.clear();
            enter(None);
            shard.remote.unregister();
        }
        if orderly {
            self.state.borrow_mut().end_life(node.0);
        }
        self.nodes[node.0].shared = None;
        self.nodes[node.0].is_paused = false;
    }

    /// Stops the process of a node where it is, as SIGSTOP does, or lets it go on: none of its
    /// tasks runs and none of its timers fires meanwhile, though its clocks go on and what it has
    /// asked of its disk and its sockets is done.
    pub fn set_paused(&mut self, node: NodeId, paused: bool) {
        self.tell(node, format_args!("{}", if paused { "is paused" } else { "goes on" }));
        self.nodes[node.0].is_paused = paused;
    }

    /// [`World::crash`], then [`World::start`].
    pub fn restart<F, Fut>(&mut self, node: NodeId, main: F)
    where
        F: Fn(ShardId) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        self.crash(node);
        self.start(node, main);
    }

    /// Whether `main` is still running on some shard of the node.
    pub fn is_running(&self, node: NodeId) -> bool {
        self.nodes[node.0].shared.as_ref().is_some_and(|shared| shared.is_running())
    }

    /// Runs until `condition` holds: whether it did within `limit` of virtual time.
    pub fn run_until(&mut self, mut condition: impl FnMut() -> bool, limit: Duration) -> bool {
        let deadline = self.now_ns() + limit.as_nanos() as u64;
        let held = loop {
            if condition() {
                break true;
            }
            if deadline <= self.now_ns() || !self.step(deadline) {
                break condition();
            }
        };
        enter(None);
        held
    }

    /// Runs for `span` of virtual time.
    pub fn run_for(&mut self, span: Duration) {
        self.run_until(|| false, span);
    }

    /// Runs a future on a shard of a node (started if need be) to its end. Panics, with the
    /// seed, when it has not ended after an hour of virtual time.
    pub fn block_on<F: Future + 'static>(
        &mut self,
        node: NodeId,
        shard: ShardId,
        future: F,
    ) -> F::Output
    where
        F::Output: 'static,
    {
        if !self.is_running(node) {
            self.start(node, |_| std::future::pending());
        }
        let output = Rc::new(RefCell::new(None));
        let theirs = output.clone();
        let shard = self.nodes[node.0].shards[shard as usize].clone();
        enter(Some(shard.clone()));
        let task = async move {
            let value = future.await;
            *theirs.borrow_mut() = Some(value);
        };
        shard.root.start(group::MAIN, Box::pin(task));
        drop(shard);
        enter(None);
        let ended = self.run_until(|| output.borrow().is_some(), BLOCK_ON_MAX);
        let seed = self.options.seed;
        assert!(ended, "simulation, seed {seed}: the future does not end");
        let value = output.borrow_mut().take();
        value.expect("the future has ended")
    }

    /// The disk of a node.
    pub fn disk(&mut self, node: NodeId) -> Disk<'_> {
        Disk { world: self, node: node.0 }
    }

    /// Cuts (or joins) the packets from one node to another, in this direction.
    pub fn set_cut(&mut self, from: NodeId, to: NodeId, cut: bool) {
        let what = if cut { "is cut off from" } else { "reaches" };
        self.tell(from, format_args!("{what} {}", self.ip(to)));
        assert!(from.0 < self.nodes.len() && to.0 < self.nodes.len(), "{from:?} to {to:?}");
        self.state.borrow_mut().network.set_cut(from.0, to.0, cut);
    }

    /// Lets every packet from one node to another take so much longer from now on.
    pub fn set_delay(&mut self, from: NodeId, to: NodeId, delay: Duration) {
        self.tell(from, format_args!("takes {delay:?} to {}", self.ip(to)));
        assert!(from.0 < self.nodes.len() && to.0 < self.nodes.len(), "{from:?} to {to:?}");
        let nanos = delay.as_nanos() as u64;
        self.state.borrow_mut().network.set_delay(from.0, to.0, nanos);
    }

    /// Flips a bit of the next bytes that one node sends to another.
    pub fn corrupt_next(&mut self, from: NodeId, to: NodeId) {
        self.tell(from, format_args!("has its next packet to {} damaged", self.ip(to)));
        assert!(from.0 < self.nodes.len() && to.0 < self.nodes.len(), "{from:?} to {to:?}");
        self.state.borrow_mut().network.corrupt(from.0, to.0);
    }

    /// Resets every connection between two nodes.
    pub fn reset_connections(&mut self, a: NodeId, b: NodeId) {
        self.tell(a, format_args!("loses its connections with {}", self.ip(b)));
        self.state.borrow_mut().reset_connections(a.0, |peer| peer == b.0);
    }

    /// Shifts the wall clock of a node.
    pub fn skew_wall_clock(&mut self, node: NodeId, micros: i64) {
        self.tell(node, format_args!("has its clock {micros} us apart"));
        self.state.borrow_mut().nodes[node.0].skew_micros.set(micros);
    }

    /// Sends a signal to the process of a node.
    pub fn signal(&mut self, node: NodeId, signal: Signal) {
        let mut state = self.state.borrow_mut();
        state.nodes[node.0].signals.push_back(signal);
        let waker = state.nodes[node.0].signal_waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Virtual time since the world began.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.now_ns())
    }

    fn now_ns(&self) -> u64 {
        self.state.borrow().now_ns.get()
    }

    /// *never-back*.
    fn set_now(&self, ns: u64) {
        let now = self.now_ns();
        assert!(now <= ns, "never-back: {now} to {ns}");
        self.state.borrow().now_ns.set(ns);
    }

    /// A number of the world's own sequence, for the test to draw from.
    pub fn random_u64(&mut self) -> u64 {
        self.state.borrow_mut().prng.next_u64()
    }

    /// A hash over every poll and event so far: equal for equal runs.
    pub fn trace_hash(&self) -> u64 {
        self.state.borrow().hash
    }

    /// Runs one task, or moves time to what comes next before `deadline`; false when nothing
    /// does, time then being the deadline.
    fn step(&mut self, deadline_ns: u64) -> bool {
        self.deliver_messages();
        self.run_due();
        self.stop_ended();
        let ready = |shard: &Rc<Shard>| shard.tasks.borrow().ready();
        let total: usize = self.nodes.iter().flat_map(NodeShards::awake).map(ready).sum();
        if 0 < total {
            self.run_one(total);
            return true;
        }
        let timers = self.nodes.iter().flat_map(NodeShards::awake);
        let timers = timers.filter_map(|shard| shard.wheel.borrow().next_ns()).min();
        let next = timers.into_iter().chain(self.state.borrow().next_ns()).min();
        let now = self.now_ns();
        match next {
            Some(next) if next <= deadline_ns => {
                self.set_now(next.max(now));
                true
            }
            _ => {
                self.set_now(deadline_ns.max(now));
                false
            }
        }
    }

    /// Polls one of the `total` ready tasks of all shards, drawn by the seed.
    fn run_one(&mut self, total: usize) {
        let mut nth = self.state.borrow_mut().prng.below(total as u64) as usize;
        debug_assert!(nth < total, "one-seed: {nth} of {total} tasks");
        for (index, node) in self.nodes.iter().enumerate() {
            for shard in node.awake() {
                let ready = shard.tasks.borrow().ready();
                if ready <= nth {
                    nth -= ready;
                    continue;
                }
                enter(Some(shard.clone()));
                let draw = || self.state.borrow_mut().prng.between(100, 2_000);
                let scheduling = self.options.scheduling;
                let (task, took) = match scheduling {
                    Scheduling::Drawn => (shard.run_nth(nth), draw()),
                    Scheduling::ByShares => {
                        let took = draw();
                        (shard.run_next(took), took)
                    }
                };
                debug_assert!(0 < took, "never-back: a poll takes time");
                self.set_now(self.now_ns() + took);
                let mut state = self.state.borrow_mut();
                let place = (index as u64) << 48 | (shard.id as u64) << 32;
                state.trace(place | task.index as u64);
                return;
            }
        }
        unreachable!("the ready tasks were counted");
    }

    /// Hands what shards sent each other to their queues.
    fn deliver_messages(&mut self) {
        for shard in self.nodes.iter().flat_map(NodeShards::awake) {
            if shard.has_messages() || shard.remote.has_foreign() || shard.holds_messages() {
                enter(Some(shard.clone()));
                shard.drain_mesh();
                shard.flush_mesh();
            }
        }
    }

    /// Fires the timers and events that are due.
    fn run_due(&mut self) {
        let now = self.now_ns();
        for shard in self.nodes.iter().flat_map(NodeShards::awake) {
            if shard.wheel.borrow().next_ns().is_some_and(|next| next <= now) {
                enter(Some(shard.clone()));
                shard.fire_timers();
                debug_assert!(
                    shard.wheel.borrow().next_ns().is_none_or(|next| now < next),
                    "next-is-a-bound: a timer that is due was left"
                );
            }
        }
        loop {
            let event = self.state.borrow_mut().pop();
            match event {
                None => return,
                Some(Event::Perform { waiter, mark }) => self.perform(waiter, Some(mark)),
                Some(Event::Cancel(waiter)) => self.perform(waiter, None),
                Some(Event::Arrive(end)) => self.state.borrow_mut().arrive(end),
            }
        }
    }

    /// Carries an operation out, or (without a mark) ends it early if that can be.
    fn perform(&mut self, waiter: Waiter, mark: Option<u64>) {
        let key = waiter.shard;
        if self.state.borrow().nodes[key.node].life != key.life {
            return;
        }
        let Some(shard) = self.nodes[key.node].shards.get(key.shard as usize).cloned() else {
            return;
        };
        debug_assert!(!shard.dead.get(), "one-life: {waiter:?} of a dead shard");
        let mut ops = shard.ops.borrow_mut();
        let Some(op) = ops.get_mut(waiter.op) else { return };
        let result = match mark {
            Some(mark) => self.state.borrow_mut().perform(waiter, op, mark),
            None => State::is_cancellable(op).then_some(-libc::ECANCELED),
        };
        drop(ops);
        if let Some(result) = result {
            enter(Some(shard.clone()));
            shard.complete(waiter.op.0, result);
        }
    }

    /// Ends the processes whose every `main` has ended; their disks stay as they see them.
    fn stop_ended(&mut self) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].shared.as_ref().is_some_and(|shared| shared.is_stopping()) {
                self.end_life(NodeId(node));
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        stdx::check::set_buggify(None);
        stdx::check::set_trace(None);
        enter(None);
        if std::thread::panicking() {
            eprintln!("simulation seed: {}", self.options.seed);
            // Destructors of half-run tasks could panic again: memory is not the worry now.
            std::mem::take(&mut self.nodes).into_iter().for_each(std::mem::forget);
            return;
        }
        for node in 0..self.nodes.len() {
            self.nodes[node].shards.iter().for_each(|shard| shard.dead.set(true));
            self.end_life(NodeId(node));
        }
    }
}

/// The longest virtual time of [`World::block_on`].
const BLOCK_ON_MAX: Duration = Duration::from_secs(3600);

/// Whether worlds write a trace to stderr: whose time it is, on which node and shard, and what.
const TRACE: &str = "NEREID_SIM_TRACE";

/// The `trace!` of the world whose shard runs.
fn note(what: fmt::Arguments<'_>) {
    let place = try_with(|shard| match &*shard.driver.borrow() {
        Driver::Sim(port) => {
            let seconds = port.state.borrow().now_ns.get() as f64 / 1e9;
            format!("{seconds:.6} {}/{}", State::ip(port.shard.node), shard.id)
        }
        Driver::Uring(_) | Driver::Epoll(_) => String::new(),
    });
    eprintln!("{} {what}", place.unwrap_or_default());
}

/// The `buggify!` of the world whose shard runs.
fn buggify(_name: &'static str, one_in: u32) -> bool {
    try_with(|shard| match &*shard.driver.borrow() {
        Driver::Sim(port) => port.buggify(one_in),
        Driver::Uring(_) | Driver::Epoll(_) => false,
    })
    .unwrap_or(false)
}

/// The disk of a node, for the test to look at and to break.
#[derive(Debug)]
pub struct Disk<'a> {
    world: &'a mut World,
    node: usize,
}

impl Disk<'_> {
    fn with<R>(&self, f: impl FnOnce(&mut SimDisk) -> R) -> R {
        f(&mut self.world.state.borrow_mut().nodes[self.node].disk)
    }

    /// The file of a path. Panics when there is none.
    fn edit(&mut self, path: &Path, edit: impl Fn(&mut Vec<u8>)) {
        self.with(|disk| match disk.find_file(path) {
            Some(inode) => disk.edit(inode, edit),
            None => panic!("no file {} on the simulated disk", path.display()),
        });
    }

    /// The content of a file, as the node sees it.
    pub fn read(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        self.with(|disk| {
            let inode = disk.find_file(path.as_ref())?;
            Some(disk.read(inode, 0, usize::MAX).into_owned())
        })
    }

    /// Puts a file there, durably, with the directories above it; everything else on the disk
    /// becomes durable too.
    pub fn write(&mut self, path: impl AsRef<Path>, bytes: &[u8]) {
        let path = path.as_ref();
        self.with(|disk| {
            if let Some(parent) = path.parent() {
                let made = disk.perform(&FsOp::CreateDirAll(parent.into()));
                assert!(made.is_ok(), "no directory for {}", path.display());
            }
            let inode = disk.open(path, libc::O_CREAT | libc::O_TRUNC);
            let Ok(inode) = inode else { panic!("{} is no file", path.display()) };
            let written = disk.write(inode, 0, bytes, 0);
            assert!(written.is_ok(), "no room for {}", path.display());
            disk.sync_all();
        });
    }

    /// The paths of all files, sorted.
    pub fn files(&self) -> Vec<String> {
        self.with(|disk| disk.files())
    }

    /// Flips the bits of `mask` in one byte of a file, durably.
    pub fn corrupt(&mut self, path: impl AsRef<Path>, offset: u64, mask: u8) {
        self.edit(path.as_ref(), |bytes| {
            if let Some(byte) = bytes.get_mut(offset as usize) {
                *byte ^= mask;
            }
        });
    }

    /// Cuts a file to `len` bytes, durably.
    pub fn truncate(&mut self, path: impl AsRef<Path>, len: u64) {
        self.edit(path.as_ref(), |bytes| bytes.truncate(len as usize));
    }

    /// Makes everything that was written durable.
    pub fn sync_all(&mut self) {
        self.with(SimDisk::sync_all);
    }

    /// Limits the bytes of all files together; `None` lifts the limit.
    pub fn set_capacity(&mut self, bytes: Option<u64>) {
        self.with(|disk| disk.capacity = bytes);
    }

    /// Makes one in so many requests (on average) fail with EIO; 0 for none.
    pub fn set_error_rate(&mut self, one_in: u64) {
        self.with(|disk| disk.error_one_in = one_in);
    }

    /// Makes every request take `factor` times as long.
    pub fn set_slowness(&mut self, factor: u32) {
        self.with(|disk| disk.slowness = factor.max(1));
    }
}

/// The seeds of a test that runs schedules: `rounds` of them from 0 on, or what the environment
/// says. `NEREID_SIM_SEED` replays one; `NEREID_SIM_ROUNDS` is how many, `NEREID_SIM_FIRST` the
/// first of them, so that several processes divide many.
pub fn seeds(rounds: u64) -> Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("NEREID_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = number("NEREID_SIM_FIRST").unwrap_or(0);
            first..first + number("NEREID_SIM_ROUNDS").unwrap_or(rounds)
        }
    }
}

/// Runs one future on a one-shard node of a world of its own; a panic names the seed.
pub fn test<F, Fut, T>(seed: u64, body: F) -> T
where
    F: FnOnce() -> Fut + 'static,
    Fut: Future<Output = T> + 'static,
    T: 'static,
{
    let mut world = World::new(Options::new(seed));
    let node = world.add_node(1);
    world.block_on(node, 0, async move { body().await })
}
