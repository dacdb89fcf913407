//! The loop of a real shard: tasks, messages, timers, the kernel; then sleep.

use super::Shard;
use crate::driver::Wait;
use crate::remote::Completions;
use std::time::Duration;

/// How long a stopped shard waits for its last operations.
const DRAIN_NS_MAX: u64 = 5_000_000_000;

impl Shard {
    /// Runs until the node stops.
    pub(crate) fn run_loop(&self, idle_poll: Duration) {
        let mut completions = Completions::new();
        let idle_ns = idle_poll.as_nanos() as u64;
        while !self.node.is_stopping() {
            self.run_group();
            debug_assert_eq!(self.current_task.get(), None, "no task runs between polls");
            self.drain_mesh();
            self.flush_mesh();
            self.fire_timers();
            // A shard that goes to sleep at once hands over its operations as it does.
            if !self.is_idle() || 0 < idle_ns {
                self.poll_driver(Wait::Not, &mut completions);
                if !self.is_idle() || self.poll_idle(idle_ns, &mut completions) {
                    continue;
                }
            }
            self.remote.begin_sleep();
            let wait = if self.has_messages() || self.remote.has_foreign() {
                Wait::Not
            } else {
                Wait::AtMost(self.sleep_span())
            };
            if !self.node.is_stopping() {
                self.poll_driver(wait, &mut completions);
            }
            self.remote.end_sleep();
        }
    }

    /// Ends the shard in order: tasks and services go, then the last operations. False when some
    /// operation does not end: then the shard's memory must stay (*slab-owns*).
    pub(crate) fn shut_down(&self) -> bool {
        assert!(self.node.is_stopping(), "a shard ends when its node does");
        self.clear();
        let mut completions = Completions::new();
        let mut ops = self.ops.borrow_mut();
        for id in ops.in_flight() {
            if let Some(op) = ops.get_mut(id) {
                self.driver.borrow_mut().cancel(id, op);
            }
        }
        drop(ops);
        let deadline = self.clock.now_ns() + DRAIN_NS_MAX;
        while self.ops.borrow().len() != 0 {
            let wait = Wait::AtMost(Some(Duration::from_millis(10)));
            self.poll_driver(wait, &mut completions);
            self.drain_mesh();
            self.clear();
            if deadline <= self.clock.now_ns() {
                return false;
            }
        }
        true
    }

    fn is_idle(&self) -> bool {
        self.tasks.borrow().ready() == 0 && !self.holds_messages()
    }

    fn poll_driver(&self, wait: Wait, completions: &mut Completions) {
        debug_assert!(completions.is_empty(), "completes-once: some were not taken in");
        self.driver.borrow_mut().poll(wait, completions);
        for (id, result) in completions.drain(..) {
            self.complete(id, result);
        }
    }

    /// Looks around for a while instead of sleeping; whether there is something to do.
    fn poll_idle(&self, idle_ns: u64, completions: &mut Completions) -> bool {
        let start = self.clock.now_ns();
        let next_timer = self.wheel.borrow().next_ns().unwrap_or(u64::MAX);
        let end = (start + idle_ns).min(next_timer);
        loop {
            for _ in 0..16 {
                if self.has_messages() || self.remote.has_foreign() {
                    return true;
                }
                if self.driver.borrow_mut().wants_poll() {
                    self.poll_driver(Wait::Not, completions);
                    if !self.is_idle() {
                        return true;
                    }
                }
                std::hint::spin_loop();
            }
            let now = self.clock.now_ns();
            if next_timer <= now {
                return true;
            }
            if end <= now {
                return false;
            }
        }
    }

    /// How long until the next timer.
    fn sleep_span(&self) -> Option<Duration> {
        let next = self.wheel.borrow().next_ns()?;
        Some(Duration::from_nanos(next.saturating_sub(self.clock.now_ns())))
    }
}
