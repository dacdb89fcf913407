//! Response memory: what the responses of running requests hold before they are sent.
//!
//! What a request is charged when it runs is a guess by earlier responses. So one that reads what
//! is not in memory, or page after page, takes room for the next page before it reads it, and
//! reports how much it holds when it has it.
//!
//! Invariants
//!  - *bounded-per-connection*: what the growing responses of a connection hold, and what its
//!    client leaves unread, is no more than a quarter of the memory when one more begins to grow;
//!    one at a time always may, where the client has room for a response.
//!  - *one-looks*: of the requests of a connection that wait to grow one looks for room, and the
//!    next when it has found some: however many wait, what makes room wakes one.
//!  - *room-first*: no page is read before its room is charged (*one-grows* of the admission).
//!  - *charges-return*: a request that has ended holds nothing.

use super::Connection;
use crate::admission::Charge;
use replication::Room;
use runtime::sync::{Notify, Semaphore};
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// The growing responses of a connection may hold this fraction of the memory.
const CONNECTION_PART: usize = 4;
/// The room of a page is at most this fraction of the memory.
const PAGE_PART: usize = 16;

/// What the growing responses of one connection hold.
#[derive(Debug)]
pub(crate) struct ConnectionUsage {
    count: Cell<usize>,
    bytes: Cell<usize>,
    /// One of them has ended.
    ended: Notify,
    /// Whose turn it is to look for room (*one-looks*).
    turn: Semaphore,
}

impl Default for ConnectionUsage {
    fn default() -> ConnectionUsage {
        ConnectionUsage {
            count: Cell::default(),
            bytes: Cell::default(),
            ended: Notify::new(),
            // Of requests that were admitted: bounded there.
            turn: Semaphore::new(1, usize::MAX),
        }
    }
}

/// The response memory of one request.
pub(crate) struct ResponseMemory<'r> {
    connection: &'r Connection,
    charge: &'r Charge,
    /// What it is charged beside its response.
    fixed_bytes: usize,
    /// What it was charged at first; it is never charged less.
    first_bytes: usize,
    /// Bytes of its response so far.
    held: Cell<usize>,
    /// Room that was taken for the next page.
    taken: Cell<usize>,
    /// Whether it counts among the growing responses of its connection.
    grows: Cell<bool>,
}

impl<'r> ResponseMemory<'r> {
    /// Of a request that has nothing yet.
    pub(crate) fn new(
        connection: &'r Connection,
        charge: &'r Charge,
        body_bytes: usize,
    ) -> ResponseMemory<'r> {
        ResponseMemory {
            connection,
            charge,
            fixed_bytes: connection.admission().limits().charge(body_bytes, 0),
            first_bytes: charge.bytes(),
            held: Cell::new(0),
            taken: Cell::new(0),
            grows: Cell::new(false),
        }
    }

    /// The charge of a request that holds so much and took so much. The copy of the response as an
    /// envelope is charged already, where responses of that size were expected.
    fn charge_of(&self, held: usize, taken: usize) -> usize {
        let limits = self.connection.admission().limits();
        let bytes = self.fixed_bytes + held + taken;
        bytes.min(limits.memory_bytes).max(self.first_bytes)
    }

    /// The room of a page of `bytes`.
    fn page_of(&self, bytes: usize) -> usize {
        bytes.min(self.connection.admission().limits().memory_bytes / PAGE_PART)
    }

    /// Notes what it holds and took.
    fn hold(&self, held: usize, taken: usize) {
        let usage = self.connection.usage();
        if !self.grows.replace(true) {
            usage.count.set(usage.count.get() + 1);
        }
        let before = self.held.replace(held) + self.taken.replace(taken);
        usage.bytes.set(usage.bytes.get() - before + held + taken);
    }

    /// Whether its response may grow, or does already (*bounded-per-connection*).
    fn may_reserve(&self, bytes: usize) -> bool {
        let (usage, outbox) = (self.connection.usage(), &self.connection.outbox);
        let max = self.connection.admission().limits().memory_bytes / CONNECTION_PART;
        let all = outbox.unsent_bytes() + usage.bytes.get() + bytes;
        self.grows.get() || outbox.has_room() && (usage.count.get() == 0 || all <= max)
    }

    /// Waits for room; false: the client no longer waits for the response.
    async fn wait(&self, bytes: usize) -> bool {
        let (page, connection) = (self.page_of(bytes), self.connection);
        let begins = !self.grows.get();
        loop {
            let turn = match begins {
                true => self.charge.stall(connection.usage().turn.acquire(1)).await.ok(),
                false => None,
            };
            while !self.may_reserve(page) {
                self.charge.stall(connection.outbox.wait_for_room()).await;
                if !self.may_reserve(page) {
                    self.charge.stall(connection.usage().ended.notified()).await;
                }
            }
            // While it waits it counts as growing, for requests that come later. One that times out
            // reads nothing more.
            self.hold(self.held.get(), page);
            drop(turn);
            let unsent = connection.outbox.unsent_bytes();
            self.charge.resize(self.charge_of(self.held.get(), page)).await;
            let reads = connection.outbox.has_room() || connection.outbox.unsent_bytes() <= unsent;
            if !begins || reads {
                return !connection.outbox.is_closed();
            }
            // Meanwhile its client has left more unread than it may.
            self.end();
            self.charge.give_back_to(self.first_bytes);
        }
    }

    /// Its response no longer grows.
    fn end(&self) {
        if self.grows.take() {
            let usage = self.connection.usage();
            let bytes = self.held.take() + self.taken.take();
            usage.bytes.set(usage.bytes.get() - bytes);
            usage.count.set(usage.count.get() - 1);
            usage.ended.notify_one();
        }
    }
}

impl Room for ResponseMemory<'_> {
    fn try_take(&self, bytes: usize) -> bool {
        let page = self.page_of(bytes);
        if page <= self.taken.get() {
            return true;
        }
        let takes =
            self.may_reserve(page) && self.charge.try_resize(self.charge_of(self.held.get(), page));
        if takes {
            self.hold(self.held.get(), page);
        }
        takes
    }

    fn take(&self, bytes: usize) -> Pin<Box<dyn Future<Output = bool> + '_>> {
        Box::pin(self.wait(bytes))
    }

    fn report(&self, bytes: usize) {
        self.hold(bytes, 0);
        self.charge.set(self.charge_of(bytes, 0));
    }
}

impl fmt::Debug for ResponseMemory<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ResponseMemory { held, taken, .. } = self;
        f.debug_struct("ResponseMemory").field("held", held).field("taken", taken).finish()
    }
}

impl Drop for ResponseMemory<'_> {
    fn drop(&mut self) {
        self.end();
    }
}
