//! The memory of a shard's messages.
//!
//! Each class has its part, and each part four purses: for requests that came, for replies that
//! came, for messages that are to leave, and for the windows of streams. A purse is filled again
//! by what happens on this shard alone: a request's when its handler has ended, a reply's when the
//! caller has taken it, the third when the kernel has taken the bytes. So no class waits for
//! another, and replies never wait for requests. A stream holds its window, and what it is about,
//! while it lives, which reading goes on for: so nothing that reads waits for that purse, and a
//! stream for which it has no room is refused.
//!
//! Invariants
//!  - *share-of-a-peer*: what is to leave for one node is no more than a quarter of a purse, so
//!    that a node that takes nothing does not hold up what is for others.
//!  - *bounded-memory*: what a purse has given out is no more than it has, one body alone excepted
//!    that is larger than all of it.

use crate::names::Class;
use runtime::sync::{AcquireError, Permit, Semaphore};
use runtime::task::{Either, race};
use runtime::time::{Instant, sleep_until};

/// What a class has of the memory, in 32nds: control, statements, bulk.
const PARTS: [usize; 3] = [4, 18, 10];
/// What each purse has of that, in 32nds: requests, replies, what leaves, streams.
const PURSES: [usize; 4] = [10, 8, 8, 6];
/// *share-of-a-peer*.
const PEER_PART: usize = 4;
/// Who may wait for one purse.
const WAITING_MAX: usize = 1 << 16;
/// What a message costs besides its bytes.
pub(crate) const OVERHEAD_BYTES: usize = 256;

const _: () = assert!(PARTS[0] + PARTS[1] + PARTS[2] == 32, "bounded-memory: parts of a whole");
const _: () = assert!(
    PURSES[0] + PURSES[1] + PURSES[2] + PURSES[3] == 32,
    "bounded-memory: purses of a part"
);

/// What a message holds of two kinds: a place in a window and room for its bytes, or memory for a
/// class and the share of a node.
pub(crate) type Pair = [Option<Permit>; 2];

/// Bytes to take and give back.
#[derive(Debug)]
pub(crate) struct Purse {
    bytes: usize,
    free: Semaphore,
}

impl Purse {
    fn new(bytes: usize) -> Purse {
        assert!(OVERHEAD_BYTES < bytes, "bounded-memory: a purse of {bytes} bytes");
        Purse { bytes, free: Semaphore::new(bytes, WAITING_MAX) }
    }

    /// What a body of so many bytes is charged.
    fn charge(&self, body_bytes: usize) -> usize {
        let charge = body_bytes.saturating_add(OVERHEAD_BYTES).min(self.bytes);
        debug_assert!(0 < charge && charge <= self.bytes, "bounded-memory: a charge of {charge}");
        charge
    }

    pub(crate) fn try_take(&self, body_bytes: usize) -> Option<Permit> {
        let taken = self.free.try_acquire(self.charge(body_bytes));
        debug_assert!(self.free.available() <= self.bytes, "bounded-memory: more than there is");
        taken
    }

    /// Waits in turn.
    pub(crate) async fn take(&self, body_bytes: usize) -> Result<Permit, AcquireError> {
        self.free.acquire(self.charge(body_bytes)).await
    }

    /// What is given out.
    pub(crate) fn used_bytes(&self) -> usize {
        let free = self.free.available();
        assert!(free <= self.bytes, "bounded-memory: {free} free of {}", self.bytes);
        self.bytes - free
    }

    /// What it has.
    pub(crate) fn total_bytes(&self) -> usize {
        self.bytes
    }
}

/// The purses of a class.
#[derive(Debug)]
pub(crate) struct Purses {
    pub(crate) requests: Purse,
    pub(crate) replies: Purse,
    pub(crate) leaving: Purse,
    pub(crate) streams: Purse,
}

impl Purses {
    /// *share-of-a-peer*: what may be to leave over one connection to a node of so many shards.
    pub(crate) fn leaving_share(&self, shards: u16) -> usize {
        let share = self.leaving.bytes / PEER_PART / usize::from(shards.max(1));
        debug_assert!(share < self.leaving.bytes, "share-of-a-peer: {share}");
        share.max(1)
    }
}

/// The memory of a shard's messages.
#[derive(Debug)]
pub(crate) struct Budget {
    classes: [Purses; 3],
}

impl Budget {
    pub(crate) fn new(memory_bytes: usize) -> Budget {
        let purse = |part: usize, purse: usize| Purse::new(memory_bytes / 1024 * part * purse);
        let purses = |part| Purses {
            requests: purse(part, PURSES[0]),
            replies: purse(part, PURSES[1]),
            leaving: purse(part, PURSES[2]),
            streams: purse(part, PURSES[3]),
        };
        let budget = Budget { classes: PARTS.map(purses) };
        debug_assert!(
            budget.total_bytes() <= memory_bytes,
            "bounded-memory: {} of {memory_bytes}",
            budget.total_bytes()
        );
        budget
    }

    pub(crate) fn of(&self, class: Class) -> &Purses {
        &self.classes[class.index()]
    }

    fn sum(&self, of: impl Fn(&Purse) -> usize) -> usize {
        debug_assert_eq!(self.classes.len(), Class::ALL.len(), "bounded-memory: a class too many");
        let all = self.classes.iter();
        all.map(|it| of(&it.requests) + of(&it.replies) + of(&it.leaving) + of(&it.streams)).sum()
    }

    pub(crate) fn used_bytes(&self) -> usize {
        let used = self.sum(Purse::used_bytes);
        debug_assert!(used <= self.total_bytes(), "bounded-memory: {used} bytes are used");
        used
    }

    pub(crate) fn total_bytes(&self) -> usize {
        self.sum(Purse::total_bytes)
    }
}

/// Takes units by a deadline: `Ok(None)` when it has passed.
pub(crate) async fn by_deadline(
    deadline: Option<Instant>,
    taking: impl Future<Output = Result<Permit, AcquireError>>,
) -> Result<Option<Permit>, AcquireError> {
    let Some(deadline) = deadline else { return taking.await.map(Some) };
    match race(taking, sleep_until(deadline)).await {
        Either::Left(taken) => taken.map(Some),
        Either::Right(()) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_their_own_and_a_large_body_fits() {
        let budget = Budget::new(1 << 20);
        assert_eq!(budget.used_bytes(), 0);
        let bulk = &budget.of(Class::Bulk).leaving;
        let all = bulk.try_take(1 << 30).expect("alone it may have everything");
        assert_eq!(budget.used_bytes(), bulk.total_bytes());
        assert!(bulk.try_take(1).is_none());
        assert!(budget.of(Class::Bulk).requests.try_take(1).is_some());
        assert!(budget.of(Class::Control).leaving.try_take(1).is_some());
        drop(all);
        assert_eq!(budget.used_bytes(), 0);
    }
}
