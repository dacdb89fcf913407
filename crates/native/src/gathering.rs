//! Memory of what requests gather before they answer.
//!
//! What a request is charged when it runs is a guess by the answers before. So one that reads what
//! does not lie in memory, or page after page, takes room for the next page before it reads it, and
//! tells how much it has when it has it.
//!
//! Invariants
//!  - *few-gather*: what the requests of a connection gather, and what its client leaves unread,
//!    is no more than a quarter of the memory when one more begins to gather; one at a time may
//!    always, where the client has room for an answer.
//!  - *room-first*: no page is read before its room is charged (*one-grows* of the admission).
//!  - *charges-return*: a request that has ended gathers nothing.

use crate::admission::Charge;
use crate::connection::Connection;
use replication::Room;
use runtime::sync::Notify;
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// A connection may have so large a part of the memory for what its requests gather.
const CONNECTION_PART: usize = 4;
/// No page is larger than this part of the memory, as far as room goes.
const PAGE_PART: usize = 16;

/// What the requests of one connection gather.
#[derive(Debug, Default)]
pub(crate) struct Gatherers {
    count: Cell<usize>,
    bytes: Cell<usize>,
    /// One of them is no more.
    ended: Notify,
}

/// What one request gathers.
pub(crate) struct Gathering<'r> {
    connection: &'r Connection,
    charge: &'r Charge,
    /// What it is charged beside what it gathers.
    fixed_bytes: usize,
    /// What it was charged at first: never less.
    first_bytes: usize,
    told: Cell<usize>,
    /// Room that was taken beside that.
    taken: Cell<usize>,
    gathers: Cell<bool>,
}

impl<'r> Gathering<'r> {
    /// Of a request that has nothing yet.
    pub(crate) fn new(
        connection: &'r Connection,
        charge: &'r Charge,
        body_bytes: usize,
    ) -> Gathering<'r> {
        Gathering {
            connection,
            charge,
            fixed_bytes: connection.admission().limits().charge(body_bytes, 0),
            first_bytes: charge.bytes(),
            told: Cell::new(0),
            taken: Cell::new(0),
            gathers: Cell::new(false),
        }
    }

    /// The charge of a request that has gathered so much and took so much. Where answers like its
    /// own were expected, that it is there once more as an envelope in the end is charged already.
    fn charge_of(&self, told: usize, taken: usize) -> usize {
        let limits = self.connection.admission().limits();
        let bytes = self.fixed_bytes + told + taken;
        bytes.min(limits.memory_bytes).max(self.first_bytes)
    }

    /// What `bytes` more come to: no more than makes a difference.
    fn page_of(&self, bytes: usize) -> usize {
        bytes.min(self.connection.admission().limits().memory_bytes / PAGE_PART)
    }

    /// Notes what it has and took.
    fn hold(&self, told: usize, taken: usize) {
        let gatherers = self.connection.gatherers();
        if !self.gathers.replace(true) {
            gatherers.count.set(gatherers.count.get() + 1);
        }
        let before = self.told.replace(told) + self.taken.replace(taken);
        gatherers.bytes.set(gatherers.bytes.get() - before + told + taken);
    }

    /// Whether it may begin to gather, or does (*few-gather*).
    fn may_gather(&self, bytes: usize) -> bool {
        let (gatherers, outbox) = (self.connection.gatherers(), &self.connection.outbox);
        let max = self.connection.admission().limits().memory_bytes / CONNECTION_PART;
        let all = outbox.unsent_bytes() + gatherers.bytes.get() + bytes;
        self.gathers.get() || outbox.has_room() && (gatherers.count.get() == 0 || all <= max)
    }

    /// Waits for room; false: nobody waits for the answer any more.
    async fn wait(&self, bytes: usize) -> bool {
        let (page, connection) = (self.page_of(bytes), self.connection);
        let begins = !self.gathers.get();
        loop {
            while !self.may_gather(page) {
                self.charge.stall(connection.outbox.wait_for_room()).await;
                if !self.may_gather(page) {
                    self.charge.stall(connection.gatherers().ended.notified()).await;
                }
            }
            // While it waits it gathers already, for those who come after. Who waits no more, for
            // its time is over, reads nothing else.
            self.hold(self.told.get(), page);
            let unsent = connection.outbox.unsent_bytes();
            self.charge.resize(self.charge_of(self.told.get(), page)).await;
            let reads = connection.outbox.has_room() || connection.outbox.unsent_bytes() <= unsent;
            if !begins || reads {
                return !connection.outbox.is_closed();
            }
            // Its client has left more unread meanwhile than it may.
            self.let_go();
            self.charge.give_back_to(self.first_bytes);
        }
    }

    /// It gathers no more.
    fn let_go(&self) {
        if self.gathers.take() {
            let gatherers = self.connection.gatherers();
            let bytes = self.told.take() + self.taken.take();
            gatherers.bytes.set(gatherers.bytes.get() - bytes);
            gatherers.count.set(gatherers.count.get() - 1);
            gatherers.ended.notify_all();
        }
    }
}

impl Room for Gathering<'_> {
    fn try_take(&self, bytes: usize) -> bool {
        let page = self.page_of(bytes);
        if page <= self.taken.get() {
            return true;
        }
        let takes =
            self.may_gather(page) && self.charge.try_resize(self.charge_of(self.told.get(), page));
        if takes {
            self.hold(self.told.get(), page);
        }
        takes
    }

    fn take(&self, bytes: usize) -> Pin<Box<dyn Future<Output = bool> + '_>> {
        Box::pin(self.wait(bytes))
    }

    fn tell(&self, bytes: usize) {
        self.hold(bytes, 0);
        self.charge.set(self.charge_of(bytes, 0));
    }
}

impl fmt::Debug for Gathering<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Gathering { told, taken, .. } = self;
        f.debug_struct("Gathering").field("told", told).field("taken", taken).finish()
    }
}

impl Drop for Gathering<'_> {
    fn drop(&mut self) {
        self.let_go();
    }
}
