//! A shard's insides: tasks, timers, operations, and the way in from other shards.
//!
//! Sees: the driver, and what other threads see of the shard; not what its tasks are offered above.
//!
//! From the ground up: [`group`] and [`io_class`] (values), [`wheel`] (timers), [`io_queue`] and
//! [`ops`] (operations), [`tasks`], [`waker`] and [`scope`] (tasks and who owns them), [`mesh`]
//! (calls between shards), [`node`] (what its shards share), [`ticks`] (short spans), [`stall`]
//! (who holds a shard too long), [`reactor`] (the loop).
//!
//! Invariants
//!  - *current-shard*: while code of a shard runs, that shard is the thread's current one.
//!  - *no-borrow-across*: no cell of a shard is borrowed while a future is polled or dropped.

pub(crate) mod group;
pub(crate) mod io_class;
pub(crate) mod io_queue;
pub(crate) mod mesh;
pub(crate) mod node;
pub(crate) mod ops;
pub(crate) mod reactor;
pub(crate) mod scope;
pub(crate) mod stall;
pub(crate) mod tasks;
pub(crate) mod ticks;
pub(crate) mod waker;
pub(crate) mod wheel;

use crate::clock::Clock;
use crate::config::ShardId;
use crate::driver::Driver;
use crate::driver::sim::SimPort;
use crate::remote::{Remote, TaskId};
use group::Group;
use mesh::Calls;
use node::Node;
use ops::Ops;
use scope::Scope;
use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use stdx::{HashMap, Prng};
use tasks::Tasks;
use wheel::Wheel;

/// Everything of one shard.
pub(crate) struct Shard {
    pub(crate) id: ShardId,
    pub(crate) node: Arc<Node>,
    pub(crate) remote: Arc<Remote>,
    pub(crate) clock: Clock,
    pub(crate) tasks: RefCell<Tasks>,
    pub(crate) wheel: RefCell<Wheel>,
    pub(crate) ops: RefCell<Ops>,
    pub(crate) driver: RefCell<Driver>,
    pub(crate) calls: RefCell<Calls>,
    pub(crate) locals: RefCell<HashMap<TypeId, Rc<dyn Any>>>,
    pub(crate) prng: RefCell<Prng>,
    pub(crate) root: Scope,
    pub(crate) current_task: Cell<Option<TaskId>>,
    pub(crate) current_group: Cell<u8>,
    pub(crate) preempt_at: Cell<u64>,
    pub(crate) quota_ns: u64,
    /// A crashed simulated shard: what its destructors ask for does not happen.
    pub(crate) dead: Cell<bool>,
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Shard>>> = const { RefCell::new(None) };
}

impl Shard {
    pub(crate) fn new(
        id: ShardId,
        node: Arc<Node>,
        clock: Clock,
        driver: Driver,
        prng: Prng,
    ) -> Rc<Shard> {
        let config = &node.config;
        assert!((id as usize) < node.remotes.len(), "current-shard: shard {id} is not of the node");
        assert!(!config.task_quota.is_zero(), "a group runs for no time");
        let mut tasks = Tasks::new();
        for (group, life, shares) in node.groups() {
            tasks.adopt(group, life, shares);
        }
        Rc::new(Shard {
            id,
            remote: node.remotes[id as usize].clone(),
            wheel: RefCell::new(Wheel::new(clock.now_ns())),
            clock,
            tasks: RefCell::new(tasks),
            ops: RefCell::new(Ops::new(config.disk_requests_max)),
            driver: RefCell::new(driver),
            calls: RefCell::new(Calls::new(config.shards)),
            locals: RefCell::new(HashMap::default()),
            prng: RefCell::new(prng),
            root: Scope::new(),
            current_task: Cell::new(None),
            current_group: Cell::new(group::MAIN.0),
            preempt_at: Cell::new(u64::MAX),
            quota_ns: config.task_quota.as_nanos() as u64,
            dead: Cell::new(false),
            node,
        })
    }

    /// Whether nobody has borrowed a cell (*no-borrow-across*).
    pub(crate) fn lends_nothing(&self) -> bool {
        self.tasks.try_borrow_mut().is_ok()
            && self.wheel.try_borrow_mut().is_ok()
            && self.ops.try_borrow_mut().is_ok()
            && self.driver.try_borrow_mut().is_ok()
            && self.calls.try_borrow_mut().is_ok()
            && self.locals.try_borrow_mut().is_ok()
            && self.prng.try_borrow_mut().is_ok()
    }

    /// Fires the timers that are due.
    pub(crate) fn fire_timers(&self) {
        let now = self.clock.now_ns();
        let mut wheel = self.wheel.borrow_mut();
        if wheel.len() != 0 {
            // Waking touches the ready queues alone.
            wheel.advance(now, |waker| waker.wake());
            debug_assert!(
                wheel.next_ns().is_none_or(|next| now < next),
                "next-is-a-bound: a timer that is due was left"
            );
        }
    }

    /// Learns of groups that other shards made.
    pub(crate) fn sync_groups(&self) {
        let mut tasks = self.tasks.borrow_mut();
        if tasks.group_count() < self.node.group_count() {
            for (group, life, shares) in self.node.groups().into_iter().skip(tasks.group_count()) {
                tasks.adopt(group, life, shares);
                debug_assert_eq!(tasks.group_count(), group.0 as usize + 1, "same-number");
            }
        }
    }

    /// Empties the shard: tasks, then services, then what their ends made.
    pub(crate) fn clear(&self) {
        self.cancel_all();
        loop {
            let Some(key) = self.locals.borrow().keys().next().copied() else { break };
            let value = self.locals.borrow_mut().remove(&key);
            debug_assert!(value.is_some(), "a service that was there is gone");
            drop(value);
        }
        self.cancel_all();
    }
}

/// Makes `shard` the current one of this thread; returns the one before.
pub(crate) fn enter(shard: Option<Rc<Shard>>) -> Option<Rc<Shard>> {
    CURRENT.with(|current| current.replace(shard))
}

/// Calls `f` with the current shard, if there is one.
pub(crate) fn try_with<R>(f: impl FnOnce(&Rc<Shard>) -> R) -> Option<R> {
    CURRENT.try_with(|current| current.borrow().as_ref().map(f)).ok().flatten()
}

/// Calls `f` with the current shard. Panics outside of a shard.
pub(crate) fn with<R>(f: impl FnOnce(&Rc<Shard>) -> R) -> R {
    match try_with(f) {
        Some(value) => value,
        None => panic!("this call needs a shard: it works inside of runtime::run only"),
    }
}

/// Nanoseconds of the current shard's clock; outside of a shard, of the kernel's.
#[inline]
pub(crate) fn now_ns() -> u64 {
    try_with(|shard| shard.clock.now_ns()).unwrap_or_else(|| Clock::Real.now_ns())
}

/// The group of the running task; the main one outside of a task.
#[inline]
pub(crate) fn current_group() -> Group {
    try_with(|shard| Group(shard.current_group.get())).unwrap_or(group::MAIN)
}

/// The machine of the current shard, where it is a simulated one.
pub(crate) fn simulated() -> Option<SimPort> {
    with(|shard| shard.driver.borrow().simulated().cloned())
}
