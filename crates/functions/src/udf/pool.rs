//! A pool of idle objects, such as instances, by the function they serve.
//!
//! Invariants
//!  - *bounded*: by count and bytes; the oldest are dropped first.
//!  - *idle-goes*: an object that was not used for some time is dropped when [`Pool::expire`] is
//!    called.

use runtime::time::Instant;
use std::collections::VecDeque;
use std::time::Duration;

/// What is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) count_max: usize,
    pub(super) bytes_max: usize,
    /// Larger ones are not kept.
    pub(super) item_bytes_max: usize,
    pub(super) idle_max: Duration,
}

struct Idle<T> {
    key: usize,
    item: T,
    bytes: usize,
    since: Instant,
}

/// Things that are not in use, the oldest first.
pub(super) struct Pool<T> {
    idle: VecDeque<Idle<T>>,
    bytes: usize,
    bounds: Bounds,
}

impl<T> Pool<T> {
    pub(super) fn new(bounds: Bounds) -> Pool<T> {
        Pool { idle: VecDeque::new(), bytes: 0, bounds }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.idle.len()
    }

    /// The bytes of all.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes the one that was put in last for `key`.
    pub(super) fn take(&mut self, key: usize) -> Option<T> {
        let at = self.idle.iter().rposition(|idle| idle.key == key)?;
        let idle = self.idle.remove(at)?;
        self.bytes -= idle.bytes;
        Some(idle.item)
    }

    /// Keeps one, if it is not too large.
    pub(super) fn put(&mut self, key: usize, item: T, bytes: usize, now: Instant) {
        if self.bounds.item_bytes_max < bytes || self.bounds.bytes_max < bytes {
            return;
        }
        let full = |pool: &Pool<T>| {
            pool.bounds.count_max <= pool.idle.len() || pool.bounds.bytes_max - bytes < pool.bytes
        };
        while full(self) {
            let Some(oldest) = self.idle.pop_front() else { return };
            self.bytes -= oldest.bytes;
        }
        self.bytes += bytes;
        self.idle.push_back(Idle { key, item, bytes, since: now });
    }

    /// Drops those for `key`.
    pub(super) fn remove(&mut self, key: usize) {
        self.idle.retain(|idle| idle.key != key);
        self.bytes = self.idle.iter().map(|idle| idle.bytes).sum();
    }

    /// Takes out what has been idle for too long.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<T> {
        let is_old = |idle: &Idle<T>| idle.since + self.bounds.idle_max <= now;
        let count = self.idle.iter().take_while(|idle| is_old(idle)).count();
        let gone: Vec<Idle<T>> = self.idle.drain(..count).collect();
        self.bytes -= gone.iter().map(|idle| idle.bytes).sum::<usize>();
        gone.into_iter().map(|idle| idle.item).collect()
    }

    /// When the next one will have been idle for too long.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.idle.front().map(|idle| idle.since + self.bounds.idle_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pool() -> Pool<u32> {
        let idle_max = Duration::from_nanos(10);
        Pool::new(Bounds { count_max: 3, bytes_max: 100, item_bytes_max: 60, idle_max })
    }

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn the_last_one_in_is_the_first_one_out() {
        let mut pool = pool();
        pool.put(1, 10, 20, at(0));
        pool.put(2, 20, 20, at(1));
        pool.put(1, 11, 20, at(2));
        assert_eq!((pool.take(1), pool.take(2), pool.take(2)), (Some(11), Some(20), None));
        assert_eq!((pool.len(), pool.bytes()), (1, 20));
        pool.remove(1);
        assert_eq!((pool.take(1), pool.bytes()), (None, 0));
    }

    #[test]
    fn the_oldest_go_for_new_ones() {
        let mut pool = pool();
        pool.put(1, 1, 61, at(0));
        assert_eq!(pool.len(), 0);
        for n in 1..=4 {
            pool.put(n as usize, n, 10, at(u64::from(n)));
        }
        assert_eq!((pool.len(), pool.take(1)), (3, None));
        pool.put(5, 5, 60, at(5));
        pool.put(6, 6, 60, at(6));
        assert_eq!((pool.len(), pool.take(6), pool.bytes()), (1, Some(6), 0));
    }

    #[test]
    fn what_is_idle_goes() {
        let mut pool = pool();
        pool.put(1, 1, 10, at(0));
        pool.put(2, 2, 10, at(5));
        assert_eq!(pool.next_expiry(), Some(at(10)));
        assert_eq!(pool.expire(at(9)), Vec::<u32>::new());
        assert_eq!(pool.expire(at(10)), [1]);
        assert_eq!((pool.next_expiry(), pool.bytes()), (Some(at(15)), 10));
        assert_eq!(pool.expire(at(100)), [2]);
        assert_eq!((pool.next_expiry(), pool.bytes()), (None, 0));
    }

    proptest! {
        #[test]
        fn it_stays_within_its_bounds(
            moves in prop::collection::vec((0..4usize, 0..70usize, any::<bool>()), 0..60)
        ) {
            let mut pool = pool();
            let mut now = 0;
            for (key, bytes, put) in moves {
                now += 1;
                match put {
                    true => pool.put(key, now as u32, bytes, at(now)),
                    false => drop(pool.take(key)),
                }
                prop_assert!(pool.len() <= 3 && pool.bytes() <= 100);
                let sum: usize = pool.idle.iter().map(|idle| idle.bytes).sum();
                prop_assert_eq!(pool.bytes(), sum);
            }
        }
    }
}
