//! The task slab and the ready queues of the groups.
//!
//! Invariants
//!  - *future-in-slot*: a task's future is in its slot, except while it is being polled.
//!  - *queued-once*: a task is in at most one ready queue, at most once.
//!  - *no-hoarding*: a group that becomes ready starts at the least virtual runtime of now.
//!  - *ready-counted*: `ready` is the sum of the lengths of the ready queues.
//!  - *freed-once*: a slot is free or has an owner; it is freed when its task ends, once.
//!  - *one-poll*: on a shard one task is polled at a time; one that is started by a poll is polled
//!    within it.

use super::Shard;
use super::group::{self, Group, GroupStats};
use crate::remote::{ID_BITS, TaskId};
use std::collections::VecDeque;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::Context;

type BoxFuture = Pin<Box<dyn Future<Output = ()>>>;

/// Queues up to this length are searched by the assertions.
const QUEUE_CHECKED_MAX: usize = 64;

/// The tasks to wake when a task has ended.
pub(crate) trait Owner {
    /// The task that had this key has ended or was cancelled.
    fn ended(&self, key: usize);
}

struct Slot {
    generation: u32,
    group: u8,
    queued: bool,
    polling: bool,
    cancelled: bool,
    future: Option<BoxFuture>,
    owner: Option<(Rc<dyn Owner>, usize)>,
}

struct GroupState {
    ready: VecDeque<TaskId>,
    /// Nanoseconds x 1024 / shares.
    runtime: u64,
    shares: u32,
    /// How often its number was given to a new group.
    life: u32,
    cpu_ns: u64,
    polls: u64,
}

pub(crate) struct Tasks {
    slots: Vec<Slot>,
    free: Vec<u32>,
    groups: Vec<GroupState>,
    ready: usize,
    /// The virtual runtime of the group that ran last: no group starts below it.
    floor: u64,
    /// Processor time and polls of groups that are no more.
    gone: (u64, u64),
}

impl Tasks {
    pub(crate) fn new() -> Tasks {
        let groups = Vec::with_capacity(group::COUNT_MAX);
        Tasks { slots: Vec::new(), free: Vec::new(), groups, ready: 0, floor: 0, gone: (0, 0) }
    }

    /// The number of tasks that wait to be polled.
    pub(crate) fn ready(&self) -> usize {
        self.ready
    }

    /// Adds the group of this number, or gives it these shares.
    pub(crate) fn set_shares(&mut self, group: Group, shares: u32) {
        let index = group.0 as usize;
        assert!(index < group::COUNT_MAX, "same-number: group {index}");
        while self.groups.len() <= index {
            let shares = shares.max(1);
            let ready = VecDeque::new();
            let (life, cpu_ns, polls) = (0, 0, 0);
            self.groups.push(GroupState { ready, runtime: 0, shares, life, cpu_ns, polls });
        }
        self.groups[index].shares = shares.max(1);
    }

    /// The same of a group that may have its number from another (*counted-anew*).
    pub(crate) fn adopt(&mut self, group: Group, life: u32, shares: u32) {
        self.set_shares(group, shares);
        let state = &mut self.groups[group.0 as usize];
        debug_assert!(state.life <= life, "counted-anew: life {life} after {}", state.life);
        if state.life != life {
            state.life = life;
            self.gone.0 += std::mem::take(&mut state.cpu_ns);
            self.gone.1 += std::mem::take(&mut state.polls);
        }
    }

    /// Processor time and polls of all groups, also of those that are no more.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let sum = |(ns, polls), group: &GroupState| (ns + group.cpu_ns, polls + group.polls);
        self.groups.iter().fold(self.gone, sum)
    }

    pub(crate) fn group_count(&self) -> usize {
        self.groups.len()
    }

    pub(crate) fn stats(&self, group: Group) -> GroupStats {
        let state = &self.groups[group.0 as usize];
        GroupStats {
            cpu_ns: state.cpu_ns,
            polls: state.polls,
            queue_length: state.ready.len(),
            shares: state.shares,
        }
    }

    fn insert(&mut self, group: Group, owner: (Rc<dyn Owner>, usize), future: BoxFuture) -> TaskId {
        let task = self.insert_polling(group, owner);
        let slot = &mut self.slots[task.index as usize];
        (slot.polling, slot.future) = (false, Some(future));
        task
    }

    /// A task whose future is not in its slot, as one that is being polled.
    fn insert_polling(&mut self, group: Group, owner: (Rc<dyn Owner>, usize)) -> TaskId {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                assert!(self.slots.len() < 1 << ID_BITS, "more than 2^24 tasks on a shard");
                self.slots.push(Slot {
                    generation: 0,
                    group: 0,
                    queued: false,
                    polling: false,
                    cancelled: false,
                    future: None,
                    owner: None,
                });
                (self.slots.len() - 1) as u32
            }
        };
        debug_assert!((group.0 as usize) < self.groups.len(), "same-number: {group:?} is unknown");
        let slot = &mut self.slots[index as usize];
        debug_assert!(slot.owner.is_none(), "freed-once: slot {index} has an owner");
        debug_assert!(slot.future.is_none(), "future-in-slot: slot {index} has an old future");
        (slot.group, slot.queued, slot.polling, slot.cancelled) = (group.0, false, true, false);
        slot.owner = Some(owner);
        TaskId { index, generation: slot.generation }
    }

    /// Puts a task into the ready queue of its group, unless it has ended or is there already.
    pub(crate) fn enqueue(&mut self, task: TaskId) {
        let Some(slot) = self.slots.get_mut(task.index as usize) else { return };
        if slot.generation != task.generation || slot.queued || slot.owner.is_none() {
            return;
        }
        slot.queued = true;
        let group = &mut self.groups[slot.group as usize];
        if group.ready.is_empty() {
            group.runtime = group.runtime.max(self.floor);
        }
        debug_assert!(
            QUEUE_CHECKED_MAX < group.ready.len() || !group.ready.contains(&task),
            "queued-once: {task:?}"
        );
        group.ready.push_back(task);
        self.ready += 1;
        debug_assert_eq!(
            self.ready,
            self.groups.iter().map(|group| group.ready.len()).sum::<usize>(),
            "ready-counted"
        );
    }

    /// The ready group with the least virtual runtime.
    fn next_group(&self) -> Option<usize> {
        let ready = self.groups.iter().enumerate().filter(|(_, group)| !group.ready.is_empty());
        ready.min_by_key(|(_, group)| group.runtime).map(|(index, _)| index)
    }

    fn pop(&mut self, group: usize) -> Option<TaskId> {
        let task = self.groups[group].ready.pop_front()?;
        debug_assert!(0 < self.ready, "ready-counted: {task:?} was not");
        self.ready -= 1;
        Some(task)
    }

    /// Ends the turn of a group.
    fn settle(&mut self, group: usize, ns: u64, polls: u64) {
        let group = &mut self.groups[group];
        debug_assert!(0 < group.shares, "no-hoarding: a group without shares");
        self.floor = self.floor.max(group.runtime);
        group.runtime += ns * 1024 / group.shares as u64;
        group.cpu_ns += ns;
        group.polls += polls;
    }

    /// Takes the future of a task out, to poll it.
    fn begin_poll(&mut self, task: TaskId) -> Option<(BoxFuture, u8)> {
        let slot = &mut self.slots[task.index as usize];
        if slot.generation != task.generation {
            return None;
        }
        debug_assert!(slot.queued, "queued-once: {task:?} is polled without its place");
        debug_assert!(slot.owner.is_some(), "freed-once: {task:?} is polled after its end");
        slot.queued = false;
        let future = slot.future.take()?;
        debug_assert!(!slot.polling, "future-in-slot: {task:?} is polled already");
        slot.polling = true;
        Some((future, slot.group))
    }

    /// Puts the future back, or hands it out again if the task was cancelled meanwhile.
    fn end_poll(&mut self, task: TaskId, future: BoxFuture) -> Option<BoxFuture> {
        let slot = &mut self.slots[task.index as usize];
        debug_assert_eq!(slot.generation, task.generation, "freed-once: {task:?} within its poll");
        debug_assert!(slot.polling, "future-in-slot: {task:?} was not polled");
        debug_assert!(slot.future.is_none(), "future-in-slot: {task:?} has two futures");
        slot.polling = false;
        if slot.cancelled {
            return Some(future);
        }
        slot.future = Some(future);
        None
    }

    /// Frees a slot whose future was dropped.
    fn remove(&mut self, index: u32) -> Option<(Rc<dyn Owner>, usize)> {
        let slot = &mut self.slots[index as usize];
        debug_assert!(slot.owner.is_some(), "freed-once: slot {index} is freed again");
        debug_assert!(slot.future.is_none(), "future-in-slot: slot {index} ends with its future");
        slot.generation = TaskId::next_generation(slot.generation);
        slot.polling = false;
        // Its place in a ready queue, if any, stays: the generation tells that it is stale.
        slot.queued = false;
        self.free.push(index);
        slot.owner.take()
    }
}

impl Shard {
    /// Starts a task.
    pub(crate) fn spawn(
        &self,
        group: Group,
        owner: (Rc<dyn Owner>, usize),
        future: BoxFuture,
    ) -> TaskId {
        let mut tasks = self.tasks.borrow_mut();
        let task = tasks.insert(group, owner, future);
        tasks.enqueue(task);
        debug_assert!(tasks.slots[task.index as usize].queued, "queued-once: {task:?} is new");
        task
    }

    /// Starts a task by polling it now, within the poll of the running one; the task, unless it
    /// has ended.
    pub(crate) fn spawn_polled(
        &self,
        group: Group,
        owner: (Rc<dyn Owner>, usize),
        mut future: BoxFuture,
    ) -> Option<TaskId> {
        let mut tasks = self.tasks.borrow_mut();
        let task = tasks.insert_polling(group, owner);
        drop(tasks);
        let outer = (self.current_task.replace(Some(task)), self.current_group.replace(group.0));
        let waker = ManuallyDrop::new(self.waker(task));
        debug_assert!(self.lends_nothing(), "no-borrow-across: {task:?} is polled");
        let poll = future.as_mut().poll(&mut Context::from_waker(&waker));
        let going_on = self.end_of_poll(task, future, poll.is_ready());
        self.current_task.set(outer.0);
        self.current_group.set(outer.1);
        going_on.then_some(task)
    }

    /// Makes a task ready.
    pub(crate) fn wake(&self, task: TaskId) {
        self.tasks.borrow_mut().enqueue(task);
    }

    /// Drops a task. One that is being polled is dropped after that poll.
    pub(crate) fn cancel(&self, task: TaskId) {
        let mut tasks = self.tasks.borrow_mut();
        let Some(slot) = tasks.slots.get_mut(task.index as usize) else { return };
        if slot.generation != task.generation {
            return;
        }
        if slot.polling {
            slot.cancelled = true;
            return;
        }
        // Without its future it is being dropped further out, by which this was called.
        let Some(future) = slot.future.take() else { return };
        drop(tasks);
        debug_assert!(self.lends_nothing(), "no-borrow-across: {task:?} is cancelled");
        drop(future);
        self.finish(task.index);
    }

    /// Moves the running task to another group; returns the old one.
    pub(crate) fn move_to_group(&self, group: Group) -> Group {
        debug_assert!(
            (group.0 as usize) < self.tasks.borrow().group_count(),
            "same-number: {group:?} is unknown"
        );
        let old = Group(self.current_group.replace(group.0));
        if let Some(task) = self.current_task.get() {
            self.tasks.borrow_mut().slots[task.index as usize].group = group.0;
        }
        old
    }

    fn finish(&self, index: u32) {
        let owner = self.tasks.borrow_mut().remove(index);
        if let Some((owner, key)) = owner {
            owner.ended(key);
        }
    }

    /// Polls one task.
    fn poll_task(&self, task: TaskId) {
        let Some((mut future, group)) = self.tasks.borrow_mut().begin_poll(task) else { return };
        debug_assert_eq!(self.current_task.get(), None, "one-poll: {task:?} within another");
        self.current_task.set(Some(task));
        self.current_group.set(group);
        let polls = self.remote.polls.load(Ordering::Relaxed);
        self.remote.polls.store(polls + 1, Ordering::Relaxed);
        let waker = ManuallyDrop::new(self.waker(task));
        debug_assert!(self.lends_nothing(), "no-borrow-across: {task:?} is polled");
        let poll = future.as_mut().poll(&mut Context::from_waker(&waker));
        self.remote.polls.store(polls + 2, Ordering::Relaxed);
        debug_assert_eq!(
            self.tasks.borrow().slots[task.index as usize].group,
            self.current_group.get(),
            "inherited-group: {task:?} ends its poll in another group"
        );
        self.end_of_poll(task, future, poll.is_ready());
        self.current_task.set(None);
        self.current_group.set(group::MAIN.0);
    }

    /// Puts a future back after a poll, or drops it with its task; whether the task goes on.
    fn end_of_poll(&self, task: TaskId, future: BoxFuture, is_ready: bool) -> bool {
        let ended = match is_ready {
            true => Some(future),
            false => self.tasks.borrow_mut().end_poll(task, future),
        };
        let goes_on = ended.is_none();
        if let Some(future) = ended {
            debug_assert!(self.lends_nothing(), "no-borrow-across: {task:?} has ended");
            drop(future);
            self.finish(task.index);
        }
        goes_on
    }

    /// Runs the group whose turn it is, for at most the quota; whether there was one.
    pub(crate) fn run_group(&self) -> bool {
        let Some(group) = self.tasks.borrow().next_group() else { return false };
        let start = self.clock.now_ns();
        let end = start + self.quota_ns;
        self.preempt_at.set(end);
        let mut polls = 0;
        let mut now = start;
        loop {
            let task = self.tasks.borrow_mut().pop(group);
            let Some(task) = task else { break };
            self.poll_task(task);
            polls += 1;
            // Every fourth poll: a clock costs as much as a short poll.
            if polls % 4 == 0 {
                now = self.clock.now_ns();
                if end <= now {
                    break;
                }
            }
        }
        if polls % 4 != 0 {
            now = self.clock.now_ns();
        }
        debug_assert!(start <= now, "never-back: {start} to {now}");
        self.tasks.borrow_mut().settle(group, now - start, polls);
        true
    }

    /// Polls the `nth` ready task, whatever its group: for the simulation.
    pub(crate) fn run_nth(&self, mut nth: usize) -> TaskId {
        let mut tasks = self.tasks.borrow_mut();
        let mut found = None;
        for (index, group) in tasks.groups.iter_mut().enumerate() {
            if nth < group.ready.len() {
                found = group.ready.remove(nth).map(|task| (index, task));
                break;
            }
            nth -= group.ready.len();
        }
        let (group, task) = found.expect("the task to run is ready");
        debug_assert!(0 < tasks.ready, "ready-counted: {task:?} was not");
        tasks.ready -= 1;
        tasks.settle(group, 1000, 1);
        drop(tasks);
        self.poll_task(task);
        task
    }

    /// Polls the next task of the group whose turn it is, as if it took so long: for the
    /// simulation.
    pub(crate) fn run_next(&self, ns: u64) -> TaskId {
        let mut tasks = self.tasks.borrow_mut();
        let group = tasks.next_group().expect("a task is ready");
        let task = tasks.pop(group).expect("the group has a task that is ready");
        tasks.settle(group, ns, 1);
        drop(tasks);
        self.poll_task(task);
        task
    }

    /// Drops every task.
    pub(crate) fn cancel_all(&self) {
        // A task that panicked has lost its future, and no task is being polled now.
        self.current_task.set(None);
        // A task that is dropped may spawn others, so until none is left.
        loop {
            let tasks = self.tasks.borrow();
            let next = tasks.slots.iter().enumerate().find(|(_, slot)| slot.owner.is_some());
            let next = next.map(|(index, slot)| {
                let (index, generation) = (index as u32, slot.generation);
                (TaskId { index, generation }, slot.polling)
            });
            drop(tasks);
            match next {
                Some((task, false)) => self.cancel(task),
                Some((task, true)) => self.finish(task.index),
                None => break,
            }
        }
        debug_assert!(
            self.tasks.borrow().free.len() == self.tasks.borrow().slots.len(),
            "freed-once: a slot is neither free nor owned"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;
    impl Owner for Nobody {
        fn ended(&self, _key: usize) {}
    }

    /// Tasks that are always ready, one per group, each poll costing what `cost` says: the
    /// nanoseconds that each group got after `turns`.
    fn run(shares: &[u32], turns: usize, cost: impl Fn(usize, usize) -> u64) -> Vec<u64> {
        let mut tasks = Tasks::new();
        for (index, shares) in shares.iter().enumerate() {
            let group = Group(index as u8);
            tasks.set_shares(group, *shares);
            let owner: Rc<dyn Owner> = Rc::new(Nobody);
            let task = tasks.insert(group, (owner, 0), Box::pin(std::future::pending()));
            tasks.enqueue(task);
        }
        for turn in 0..turns {
            let group = tasks.next_group().unwrap();
            let task = tasks.pop(group).unwrap();
            let (future, _) = tasks.begin_poll(task).unwrap();
            tasks.enqueue(task);
            assert!(tasks.end_poll(task, future).is_none());
            tasks.settle(group, cost(group, turn), 1);
        }
        (0..shares.len()).map(|index| tasks.stats(Group(index as u8)).cpu_ns).collect()
    }

    #[test]
    fn groups_share_time_by_their_shares() {
        let got = run(&[1000, 200], 6000, |_, _| 500_000);
        assert_eq!(got, [5000 * 500_000, 1000 * 500_000]);
        // However long their polls are.
        let got =
            run(&[100, 300, 600], 20_000, |group, turn| [70, 900, 400][group] + turn as u64 % 7);
        let total: u64 = got.iter().sum();
        for (got, share) in got.iter().zip([0.1, 0.3, 0.6]) {
            let part = *got as f64 / total as f64;
            assert!((part - share).abs() < 0.002, "{part} instead of {share}");
        }
    }

    #[test]
    fn a_number_that_is_given_again_is_counted_anew() {
        let mut tasks = Tasks::new();
        tasks.adopt(Group(0), 0, 100);
        tasks.settle(0, 1000, 2);
        // The same group again, with other shares.
        tasks.adopt(Group(0), 0, 300);
        let stats = tasks.stats(Group(0));
        assert_eq!((stats.cpu_ns, stats.polls, stats.shares), (1000, 2, 300));
        tasks.adopt(Group(0), 1, 50);
        let stats = tasks.stats(Group(0));
        assert_eq!((stats.cpu_ns, stats.polls, stats.shares), (0, 0, 50));
        tasks.settle(0, 10, 1);
        assert_eq!(tasks.totals(), (1010, 3));
    }

    #[test]
    fn an_idle_group_hoards_nothing() {
        let mut tasks = Tasks::new();
        let mut start = |index| {
            tasks.set_shares(Group(index), 100);
            let owner: Rc<dyn Owner> = Rc::new(Nobody);
            tasks.insert(Group(index), (owner, 0), Box::pin(std::future::pending()))
        };
        let (busy, idle) = (start(0), start(1));
        for _ in 0..1000 {
            tasks.enqueue(busy);
            tasks.pop(0);
            let (future, _) = tasks.begin_poll(busy).unwrap();
            tasks.end_poll(busy, future);
            tasks.settle(0, 1000, 1);
        }
        tasks.enqueue(idle);
        tasks.enqueue(busy);
        let mut turns = [0; 2];
        for _ in 0..10 {
            let group = tasks.next_group().unwrap();
            turns[group] += 1;
            tasks.settle(group, 1000, 1);
        }
        assert_eq!(turns, [5, 5]);
    }
}
